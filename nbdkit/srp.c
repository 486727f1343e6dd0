/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nbdkit-srp-plugin: volumes of an SRP target as exports of nbdkit, over libsrpi.
 *
 *     nbdkit srp uri=srp://HOST[:PORT][/VOLUME]
 *
 * There is one session with the target, whose context belongs to one thread here.
 * nbdkit calls from many threads: each puts its I/O into a list, wakes that thread
 * and waits. Data is copied, because nbdkit's buffers are not registered memory.
 *
 * A client may be gone, and be back with a newer write of the same blocks, while the
 * thread of an older one waits for a buffer or has parts of it left. So a write takes its
 * bytes before all that, and gives them back after its last part (struct srpkit_change).
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <srp_initiator.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* Registered memory: requests that are longer than a buffer are cut, and those for
 * which there is none wait. */
#define BUFFER_LEN  (1u << 20)
#define BUFFER_CNT  32u
#define MAX_REQUEST (32u << 20)

struct srpkit_buffer {
	struct srpkit_buffer *next;
	void *addr;
};

/* What the thread of the session is asked for. */
struct srpkit_task {
	struct srpkit_task *next;
	void (*run)(struct srpkit_task *task);
};

/* A write of one part or more, on the stack of the thread that waits for it. */
struct srpkit_change {
	struct srpkit_task task;
	struct srpi_range range;
	/* of the session's thread */
	bool is_taken;
	struct srpkit_io *waiting; /* for the range: the first part */
};

/* One I/O, on the stack of the thread that waits for it. */
struct srpkit_io {
	struct srpkit_task task;
	struct srpkit_change *change; /* that it is a part of; NULL: of none */
	bool is_last_part;
	struct srpi_io io;
	int res;
	bool holes_are_zero; /* in this volume, at present */
	bool refused; /* not sent: it tells nothing about what was written */
	bool is_done;
	pthread_cond_t done;
};

/*
 * An export that a client has open. A flush covers what all clients have written,
 * but only one of them asks for it: the others must hear of its failure too. So
 * each volume counts failed flushes, and a client that has written something
 * compares the count. A client whose connection breaks comes back as another one:
 * each new client may be the one that has left something behind.
 */
struct srpkit_handle {
	unsigned int volume;
	struct srpi_volume_info info;
	/* under the lock */
	unsigned int writing; /* changes that are under way */
	bool is_dirty; /* it has changed something since its last flush */
	bool is_heir;  /* others have left something; no flush since */
	uint64_t failures_seen; /* of the volume, when that began */
};

/* Of a volume. */
struct srpkit_flushes {
	uint64_t failures; /* ever */
	/* Clients that have left something that no flush covers, and the
	 * failures that the first of them has seen. */
	unsigned int left;
	uint64_t left_seen;
};

static struct {
	char *uri;
	/* of the thread */
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	struct srpi_mem *mem;
	void *memory;
	/* What others may look at, as the target told last; under the lock. */
	struct srpi_volume_info *volumes;
	unsigned int volume_cnt;	/* as when the session began */
	struct srpkit_flushes *flushes; /* of each volume; under the lock */
	char default_volume[80];	/* empty: the client must choose */
	pthread_t thread;
	bool has_thread;
	int wake_fd;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t state_changed;
	enum {
		SRPKIT_STARTING,
		SRPKIT_RUNNING,
		SRPKIT_FAILED
	} state;
	bool stopping;
	char why[600];
	struct srpkit_task *first; /* to be run */
	struct srpkit_task **last;
	/* Buffers are given in the order in which they are asked for: who has one
	 * never waits for the range of one that has none. */
	pthread_cond_t buffer_free;
	struct srpkit_buffer buffers[BUFFER_CNT];
	struct srpkit_buffer *free;
	uint64_t asked; /* for buffers, ever */
	uint64_t given;
} srpkit = {
	.wake_fd = -1,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.state_changed = PTHREAD_COND_INITIALIZER,
	.buffer_free = PTHREAD_COND_INITIALIZER,
};

/* ---- the thread that has the session ---- */

static void srpkit_done(struct srpi_io *io, int res)
{
	struct srpkit_io *w = io->arg;
	const struct srpi_volume_info *info =
		srpi_volume_info(srpkit.session, io->volume);

	if (w->change && (w->is_last_part || res))
		srpi_range_give_back(srpkit.session, &w->change->range);
	pthread_mutex_lock(&srpkit.lock);
	/* Here, and not when the client's thread runs: libsrpi reports a loss
	 * once, and the next flush may end well before that. */
	w->refused = res && srpi_io_refused(io);
	if (res && io->op == SRPI_FLUSH && !w->refused)
		srpkit.flushes[io->volume].failures++;
	w->res = res;
	w->holes_are_zero = info->unmap_zeroes;
	w->is_done = true;
	pthread_cond_signal(&w->done);
	pthread_mutex_unlock(&srpkit.lock);
}

static void srpkit_submit(struct srpkit_task *task)
{
	struct srpkit_io *w = (struct srpkit_io *)task;
	struct srpkit_change *c = w->change;

	if (!c)
		srpi_submit(srpkit.session, &w->io);
	else if (c->is_taken)
		srpi_range_submit(srpkit.session, &c->range, &w->io);
	else
		c->waiting = w;
}

static void srpkit_taken(struct srpi_range *range)
{
	struct srpkit_change *c = range->arg;

	c->is_taken = true;
	if (c->waiting)
		srpkit_submit(&c->waiting->task);
}

static void srpkit_take_range(struct srpkit_task *task)
{
	struct srpkit_change *c = (struct srpkit_change *)task;

	c->is_taken = srpi_range_take(srpkit.session, &c->range);
}

static void srpkit_state_changed(struct srpi_session *s, enum srpi_state state,
				 const struct srpi_error *why, void *arg)
{
	if (state == SRPI_RUNNING)
		nbdkit_debug("connected again: %s", why->text);
	else
		nbdkit_error("%s: %s", srpi_state_name(state), why->text);
}

/* Clients that come later see it. NBD cannot tell those that are there. */
static void srpkit_volume_event(struct srpi_session *s, unsigned int volume,
				enum srpi_volume_event event, const char *why,
				void *arg)
{
	if (event == SRPI_VOLUME_GONE || volume >= srpkit.volume_cnt)
		return;
	pthread_mutex_lock(&srpkit.lock);
	srpkit.volumes[volume] = *srpi_volume_info(s, volume);
	pthread_mutex_unlock(&srpkit.lock);
}

static int srpkit_log_in(struct srpi_error *e)
{
	char purpose[1024];
	struct srpi_ctx_options ctx_options = {
		.struct_size = sizeof(ctx_options),
		.pollable = true,
	};
	struct srpi_options options = {
		.struct_size = sizeof(options),
		.state_changed = srpkit_state_changed,
		.volume_event = srpkit_volume_event,
		.dev_loss_ms = SRPI_OFF,
		.purpose = purpose,
	};
	int err = srpi_ctx_create(&ctx_options, &srpkit.ctx, e);

	/* A killed process may have left writes in the target. */
	snprintf(purpose, sizeof(purpose), "nbdkit %s", srpkit.uri);
	if (!err)
		err = srpi_connect_wait(srpkit.ctx, srpkit.uri, &options,
					&srpkit.session, e);
	return err;
}

static bool srpkit_find_name(const char *name, unsigned int *ret_volume)
{
	unsigned int i = 0;

	while (i < srpkit.volume_cnt && strcmp(srpkit.volumes[i].name, name))
		i++;
	if (i == srpkit.volume_cnt)
		return false;
	*ret_volume = i;
	return true;
}

static bool srpkit_find_lun(const char *text, unsigned int *ret_volume)
{
	char lun[16];

	for (unsigned int i = 0; i < srpkit.volume_cnt; i++) {
		snprintf(lun, sizeof(lun), "%u", srpkit.volumes[i].lun);
		if (!strcmp(lun, text)) {
			*ret_volume = i;
			return true;
		}
	}
	return false;
}

/* By name, or by its LUN, as srpi_volume_find() does: the name of one may be the
 * LUN of another. False: there is none. */
static bool srpkit_find(const char *name, unsigned int *ret_volume)
{
	return srpkit_find_name(name, ret_volume) ||
	       srpkit_find_lun(name, ret_volume);
}

/* That of the URI, or the only one, is the default. */
static int srpkit_choose_default(struct srpi_error *e)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	unsigned int volume;

	srpi_session_info(srpkit.session, &info);
	if (*info.volume && !srpkit_find(info.volume, &volume)) {
		snprintf(e->text, sizeof(e->text),
			 "the target shows no volume '%s'", info.volume);
		return -ENOENT;
	}
	if (*info.volume || srpkit.volume_cnt == 1)
		snprintf(srpkit.default_volume, sizeof(srpkit.default_volume),
			 "%s",
			 *info.volume ? info.volume : srpkit.volumes[0].name);
	return 0;
}

static int srpkit_look_at_volumes(struct srpi_error *e)
{
	unsigned int cnt = srpi_volume_cnt(srpkit.session);

	srpkit.volumes = calloc(cnt + 1, sizeof(*srpkit.volumes));
	srpkit.flushes = calloc(cnt + 1, sizeof(*srpkit.flushes));
	if (!srpkit.volumes || !srpkit.flushes) {
		snprintf(e->text, sizeof(e->text), "out of memory");
		return -ENOMEM;
	}
	srpkit.volume_cnt = cnt;
	for (unsigned int i = 0; i < cnt; i++)
		srpkit.volumes[i] = *srpi_volume_info(srpkit.session, i);
	return srpkit_choose_default(e);
}

static int srpkit_connect(struct srpi_error *e)
{
	int err = srpkit_log_in(e);

	if (!err)
		err = srpkit_look_at_volumes(e);
	return err;
}

static void srpkit_disconnect(void)
{
	if (srpkit.session)
		srpi_close_wait(srpkit.ctx, srpkit.session);
	srpi_mem_free(srpkit.mem);
	srpi_ctx_destroy(srpkit.ctx);
	srpkit.session = NULL;
	srpkit.mem = NULL;
	srpkit.ctx = NULL;
}

static void srpkit_forget_volumes(void)
{
	free(srpkit.volumes);
	free(srpkit.flushes);
	srpkit.volumes = NULL;
	srpkit.flushes = NULL;
	srpkit.volume_cnt = 0;
	*srpkit.default_volume = '\0';
}

/* What other threads have asked for. False: it is time to stop. */
static bool srpkit_take(struct srpkit_task **ret_list)
{
	bool stopping;

	pthread_mutex_lock(&srpkit.lock);
	*ret_list = srpkit.first;
	srpkit.first = NULL;
	srpkit.last = &srpkit.first;
	stopping = srpkit.stopping;
	pthread_mutex_unlock(&srpkit.lock);
	return !stopping;
}

static bool srpkit_turn(void)
{
	struct pollfd fds[] = {
		{ .fd = srpi_ctx_fd(srpkit.ctx), .events = POLLIN },
		{ .fd = srpkit.wake_fd, .events = POLLIN },
	};
	struct srpkit_task *list;
	eventfd_t count;
	bool go_on;

	/* The descriptor of the context tells of nothing that came before. */
	while (srpi_ctx_run(srpkit.ctx, /* timeout_ms= */ 0) > 0)
		;
	poll(fds, 2, -1);
	if (fds[1].revents)
		eventfd_read(srpkit.wake_fd, &count);
	go_on = srpkit_take(&list);
	while (list) {
		struct srpkit_task *task = list;

		list = task->next;
		task->run(task);
	}
	return go_on;
}

/* After a kill, the target may still have writes of this process. */
static void srpkit_warn_of_identifier(void)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };

	srpi_session_info(srpkit.session, &info);
	if (*info.purpose_fault)
		nbdkit_error("%s", info.purpose_fault);
}

static void *srpkit_main(void *arg)
{
	struct srpi_error e = { 0 };
	int err = srpkit_connect(&e);

	if (!err)
		err = srpi_mem_register(srpkit.session, srpkit.memory,
					(size_t)BUFFER_CNT * BUFFER_LEN,
					&srpkit.mem, &e);
	pthread_mutex_lock(&srpkit.lock);
	srpkit.state = err ? SRPKIT_FAILED : SRPKIT_RUNNING;
	snprintf(srpkit.why, sizeof(srpkit.why), "%s", e.text);
	pthread_cond_broadcast(&srpkit.state_changed);
	pthread_mutex_unlock(&srpkit.lock);
	if (!err) {
		srpkit_warn_of_identifier();
		while (srpkit_turn())
			;
	}
	srpkit_disconnect();
	return NULL;
}

/* ---- for the threads of nbdkit ---- */

/* The lock is held. */
static void srpkit_add(struct srpkit_task *task)
{
	task->next = NULL;
	*srpkit.last = task;
	srpkit.last = &task->next;
}

/* @c: the write that it is for, which takes its bytes; NULL: for none. */
static struct srpkit_buffer *srpkit_buffer_get(struct srpkit_change *c)
{
	struct srpkit_buffer *b;
	uint64_t turn;

	pthread_mutex_lock(&srpkit.lock);
	if (c)
		srpkit_add(&c->task);
	turn = srpkit.asked++;
	while (!srpkit.free || srpkit.given != turn)
		pthread_cond_wait(&srpkit.buffer_free, &srpkit.lock);
	srpkit.given++;
	b = srpkit.free;
	srpkit.free = b->next;
	if (srpkit.free)
		pthread_cond_broadcast(&srpkit.buffer_free);
	pthread_mutex_unlock(&srpkit.lock);
	return b;
}

static void srpkit_buffer_put(struct srpkit_buffer *b)
{
	pthread_mutex_lock(&srpkit.lock);
	b->next = srpkit.free;
	srpkit.free = b;
	pthread_cond_broadcast(&srpkit.buffer_free);
	pthread_mutex_unlock(&srpkit.lock);
}

/* 0, or -1 after nbdkit_error(). */
static int srpkit_run(struct srpkit_io *w, const struct srpkit_handle *h)
{
	w->task.run = srpkit_submit;
	w->io.volume = h->volume;
	w->io.mem = srpkit.mem;
	w->io.done = srpkit_done;
	w->io.arg = w;
	pthread_cond_init(&w->done, NULL);
	pthread_mutex_lock(&srpkit.lock);
	srpkit_add(&w->task);
	eventfd_write(srpkit.wake_fd, 1);
	while (!w->is_done)
		pthread_cond_wait(&w->done, &srpkit.lock);
	pthread_mutex_unlock(&srpkit.lock);
	pthread_cond_destroy(&w->done);
	if (!w->res)
		return 0;
	/* nbdkit does these itself when they are not supported. */
	if (w->res != -EOPNOTSUPP)
		nbdkit_error(
			"volume %s: operation %d of %llu bytes at %llu: %s",
			h->info.name, (int)w->io.op,
			(unsigned long long)w->io.len,
			(unsigned long long)w->io.offset, strerror(-w->res));
	nbdkit_set_error(-w->res);
	return -1;
}

/* ---- what is not stable ---- */

static struct srpkit_flushes *srpkit_flushes_of(const struct srpkit_handle *h)
{
	return &srpkit.flushes[h->volume];
}

/* From here on, @h must hear of failures. The lock is held. */
static void srpkit_look_at_failures(struct srpkit_handle *h)
{
	if (!h->is_dirty && !h->is_heir)
		h->failures_seen = srpkit_flushes_of(h)->failures;
}

static void srpkit_change_begins(struct srpkit_handle *h)
{
	pthread_mutex_lock(&srpkit.lock);
	srpkit_look_at_failures(h);
	h->is_dirty = true;
	h->writing++;
	pthread_mutex_unlock(&srpkit.lock);
}

static void srpkit_change_ended(struct srpkit_handle *h)
{
	pthread_mutex_lock(&srpkit.lock);
	h->writing--;
	pthread_mutex_unlock(&srpkit.lock);
}

/* A flush that is under way. */
struct srpkit_mark {
	uint64_t seen;	   /* the failures that its client knows of */
	unsigned int left; /* clients that had left something before */
	bool was_dirty;
};

/* What is being written now is not covered. */
static struct srpkit_mark srpkit_flush_begins(struct srpkit_handle *h)
{
	struct srpkit_mark mark;

	pthread_mutex_lock(&srpkit.lock);
	srpkit_look_at_failures(h);
	mark.seen = h->failures_seen;
	mark.left = srpkit_flushes_of(h)->left;
	mark.was_dirty = h->is_dirty;
	h->is_dirty = h->writing > 0;
	pthread_mutex_unlock(&srpkit.lock);
	return mark;
}

/* What @cnt clients have left is stable, or its loss is known. */
static void srpkit_settle_left(struct srpkit_flushes *f, unsigned int cnt)
{
	f->left -= cnt < f->left ? cnt : f->left;
}

/* Without a connection, nothing was flushed, and nothing is known to be lost. */
static void srpkit_flush_was_refused(struct srpkit_handle *h,
				     const struct srpkit_mark *mark)
{
	pthread_mutex_lock(&srpkit.lock);
	h->is_dirty |= mark->was_dirty;
	pthread_mutex_unlock(&srpkit.lock);
}

/* @res: as of srpkit_run(). False: a flush has failed of which @h did not know. */
static bool srpkit_flush_ended(struct srpkit_handle *h, int res,
			       const struct srpkit_mark *mark)
{
	struct srpkit_flushes *f = srpkit_flushes_of(h);
	bool is_known;

	pthread_mutex_lock(&srpkit.lock);
	is_known = f->failures == mark->seen;
	if (res || !is_known)
		srpkit_settle_left(f, h->is_heir);
	else if (f->left_seen == f->failures)
		srpkit_settle_left(f, mark->left);
	h->is_heir = false;
	h->failures_seen = f->failures;
	pthread_mutex_unlock(&srpkit.lock);
	return res || is_known;
}

/* The lock is held. */
static void srpkit_inherit(struct srpkit_handle *h)
{
	const struct srpkit_flushes *f = srpkit_flushes_of(h);

	h->is_heir = f->left > 0;
	h->failures_seen = f->left_seen;
}

static void srpkit_leave(const struct srpkit_handle *h)
{
	struct srpkit_flushes *f = srpkit_flushes_of(h);

	pthread_mutex_lock(&srpkit.lock);
	if (h->is_dirty && (!f->left || h->failures_seen < f->left_seen))
		f->left_seen = h->failures_seen;
	f->left += h->is_dirty;
	pthread_mutex_unlock(&srpkit.lock);
}

/* ---- life ---- */

static int srpkit_config(const char *key, const char *value)
{
	if (strcmp(key, "uri") != 0) {
		nbdkit_error("unknown parameter '%s'; there is uri=", key);
		return -1;
	}
	free(srpkit.uri);
	srpkit.uri = strdup(value);
	return srpkit.uri ? 0 : -1;
}

static int srpkit_config_complete(void)
{
	if (srpkit.uri)
		return 0;
	nbdkit_error("which target? uri=srp://HOST[:PORT][/VOLUME]");
	return -1;
}

/* Logs in, and out again. In the background, nobody would read the error of a
 * target that is not there. */
static int srpkit_get_ready(void)
{
	struct srpi_error e = { 0 };
	int err = srpkit_connect(&e);

	srpkit_disconnect();
	srpkit_forget_volumes();
	if (!err)
		return 0;
	nbdkit_error("%s", e.text);
	return -1;
}

static int srpkit_start(void)
{
	srpkit.last = &srpkit.first;
	srpkit.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	srpkit.memory = mmap(NULL, (size_t)BUFFER_CNT * BUFFER_LEN,
			     PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (srpkit.wake_fd < 0 || srpkit.memory == MAP_FAILED)
		return -errno;
	for (unsigned int i = 0; i < BUFFER_CNT; i++) {
		srpkit.buffers[i].addr =
			(char *)srpkit.memory + (size_t)i * BUFFER_LEN;
		srpkit.buffers[i].next = srpkit.free;
		srpkit.free = &srpkit.buffers[i];
	}
	return -pthread_create(&srpkit.thread, NULL, srpkit_main, NULL);
}

/* Not before: a thread does not survive the fork into the background. */
static int srpkit_after_fork(void)
{
	int err = srpkit_start();

	if (err) {
		nbdkit_error("cannot start: %s", strerror(-err));
		return -1;
	}
	srpkit.has_thread = true;
	pthread_mutex_lock(&srpkit.lock);
	while (srpkit.state == SRPKIT_STARTING)
		pthread_cond_wait(&srpkit.state_changed, &srpkit.lock);
	pthread_mutex_unlock(&srpkit.lock);
	if (srpkit.state == SRPKIT_RUNNING)
		return 0;
	nbdkit_error("%s", srpkit.why);
	return -1;
}

static void srpkit_unload(void)
{
	if (srpkit.has_thread) {
		pthread_mutex_lock(&srpkit.lock);
		srpkit.stopping = true;
		eventfd_write(srpkit.wake_fd, 1);
		pthread_mutex_unlock(&srpkit.lock);
		pthread_join(srpkit.thread, NULL);
	}
	srpkit_forget_volumes();
	free(srpkit.uri);
}

/* ---- exports ---- */

static const char *srpkit_default_export(int readonly, int is_tls)
{
	return srpkit.default_volume;
}

static int srpkit_list_exports(int readonly, int is_tls,
			       struct nbdkit_exports *exports)
{
	int err = 0;

	pthread_mutex_lock(&srpkit.lock);
	for (unsigned int i = 0; !err && i < srpkit.volume_cnt; i++)
		err = nbdkit_add_export(exports, srpkit.volumes[i].name, NULL);
	pthread_mutex_unlock(&srpkit.lock);
	return err;
}

/* @name: what the client has asked for; "": nothing. */
static void srpkit_refuse(const char *name)
{
	if (*name)
		nbdkit_error("the target shows no volume '%s'", name);
	else if (srpkit.volume_cnt)
		nbdkit_error("the target shows several volumes; name one as "
			     "the export, or in the URI");
	else
		nbdkit_error("the target shows no volume");
}

static void *srpkit_open(int readonly)
{
	const char *name = nbdkit_export_name();
	struct srpkit_handle *h = calloc(1, sizeof(*h));
	bool is_found;

	if (!h) {
		nbdkit_error("out of memory");
		return NULL;
	}
	if (!name || !*name)
		name = srpkit.default_volume;
	pthread_mutex_lock(&srpkit.lock);
	is_found = *name && srpkit_find(name, &h->volume);
	if (is_found) {
		h->info = srpkit.volumes[h->volume];
		srpkit_inherit(h);
	}
	pthread_mutex_unlock(&srpkit.lock);
	if (is_found)
		return h;
	srpkit_refuse(name);
	free(h);
	return NULL;
}

static void srpkit_close(void *handle)
{
	srpkit_leave(handle);
	free(handle);
}

/* ---- what a volume is ---- */

static int64_t srpkit_get_size(void *handle)
{
	return (int64_t)((struct srpkit_handle *)handle)->info.size;
}

static int srpkit_block_size(void *handle, uint32_t *min, uint32_t *preferred,
			     uint32_t *max)
{
	const struct srpkit_handle *h = handle;

	*min = h->info.block_size;
	*preferred = h->info.physical_block_size > 4096
			     ? h->info.physical_block_size
			     : 4096;
	*max = MAX_REQUEST;
	return 0;
}

static int srpkit_can_write(void *handle)
{
	return !((struct srpkit_handle *)handle)->info.read_only;
}

static int srpkit_is_rotational(void *handle)
{
	return ((struct srpkit_handle *)handle)->info.rotational;
}

static int srpkit_can_trim(void *handle)
{
	return ((struct srpkit_handle *)handle)->info.unmap;
}

static int srpkit_can_fua(void *handle)
{
	return ((struct srpkit_handle *)handle)->info.fua ? NBDKIT_FUA_NATIVE
							  : NBDKIT_FUA_EMULATE;
}

/* All clients share one session, so a flush covers what any of them has written. */
static int srpkit_can_multi_conn(void *handle)
{
	return 1;
}

static int srpkit_yes(void *handle)
{
	return 1;
}

/* ---- I/O ---- */

static int srpkit_pread(void *handle, void *buf, uint32_t count,
			uint64_t offset, uint32_t flags)
{
	struct srpkit_buffer *b = srpkit_buffer_get(NULL);
	uint32_t len;
	int res = 0;

	for (uint32_t at = 0; at < count && !res; at += len) {
		struct srpkit_io w = { .io.op = SRPI_READ };

		len = count - at < BUFFER_LEN ? count - at : BUFFER_LEN;
		w.io.offset = offset + at;
		w.io.len = len;
		w.io.buf = b->addr;
		res = srpkit_run(&w, handle);
		if (!res)
			memcpy((char *)buf + at, b->addr, len);
	}
	srpkit_buffer_put(b);
	return res;
}

static int srpkit_run_change(struct srpkit_io *w, struct srpkit_handle *h)
{
	int res;

	srpkit_change_begins(h);
	res = srpkit_run(w, h);
	srpkit_change_ended(h);
	return res;
}

static int srpkit_pwrite(void *handle, const void *buf, uint32_t count,
			 uint64_t offset, uint32_t flags)
{
	const struct srpkit_handle *h = handle;
	struct srpkit_change c = { .task.run = srpkit_take_range,
				   .range.volume = h->volume,
				   .range.offset = offset,
				   .range.len = count,
				   .range.taken = srpkit_taken,
				   .range.arg = &c };
	struct srpkit_buffer *b = srpkit_buffer_get(&c);
	uint32_t len;
	int res = 0;

	for (uint32_t at = 0; at < count && !res; at += len) {
		struct srpkit_io w = { .change = &c, .io.op = SRPI_WRITE };

		len = count - at < BUFFER_LEN ? count - at : BUFFER_LEN;
		w.is_last_part = at + len == count;
		memcpy(b->addr, (const char *)buf + at, len);
		w.io.offset = offset + at;
		w.io.len = len;
		w.io.buf = b->addr;
		w.io.fua = flags & NBDKIT_FLAG_FUA;
		res = srpkit_run_change(&w, handle);
	}
	srpkit_buffer_put(b);
	return res;
}

static int srpkit_flush(void *handle, uint32_t flags)
{
	struct srpkit_handle *h = handle;
	struct srpkit_io w = { .io.op = SRPI_FLUSH };
	const struct srpkit_mark mark = srpkit_flush_begins(h);
	int res = srpkit_run(&w, h);

	if (w.refused)
		srpkit_flush_was_refused(h, &mark);
	if (w.refused || srpkit_flush_ended(h, res, &mark))
		return res;
	nbdkit_error("volume %s: a flush that another client asked for has "
		     "failed since this client wrote",
		     h->info.name);
	nbdkit_set_error(EIO);
	return -1;
}

static int srpkit_trim(void *handle, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	struct srpkit_io w = { .io.op = SRPI_DISCARD,
			       .io.offset = offset,
			       .io.len = count };
	int res = srpkit_run_change(&w, handle);

	/* SCSI knows no FUA of UNMAP. */
	if (!res && (flags & NBDKIT_FLAG_FUA))
		res = srpkit_flush(handle, 0);
	return res;
}

static int srpkit_zero(void *handle, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	struct srpkit_io w = { .io.op = SRPI_WRITE_ZEROES,
			       .io.offset = offset,
			       .io.len = count,
			       .io.fua = flags & NBDKIT_FLAG_FUA,
			       .io.discard = flags & NBDKIT_FLAG_MAY_TRIM };

	return srpkit_run_change(&w, handle);
}

static uint32_t srpkit_extent_type(const struct srpkit_io *w)
{
	if (w->io.extent_mapped)
		return 0;
	/* The blocks of a hole may read as any data. */
	return NBDKIT_EXTENT_HOLE |
	       (w->holes_are_zero ? NBDKIT_EXTENT_ZERO : 0);
}

static int srpkit_extents(void *handle, uint32_t count, uint64_t offset,
			  uint32_t flags, struct nbdkit_extents *extents)
{
	const struct srpkit_handle *h = handle;
	uint64_t at = offset - offset % h->info.block_size;
	uint64_t end = offset + count;
	int res = 0;

	end += (h->info.block_size - end % h->info.block_size) %
	       h->info.block_size;
	while (at < end && !res) {
		struct srpkit_io w = { .io.op = SRPI_EXTENT,
				       .io.offset = at,
				       .io.len = end - at };

		res = srpkit_run(&w, handle);
		if (!res)
			res = nbdkit_add_extent(extents, at, w.io.extent_len,
						srpkit_extent_type(&w));
		at += w.io.extent_len;
		if (flags & NBDKIT_FLAG_REQ_ONE)
			break;
	}
	return res;
}

static struct nbdkit_plugin plugin = {
	.name = "srp",
	.longname = "volumes of an SRP target",
	.description = "serves volumes of an SRP target (rdma-target, or the "
		       "Linux kernel's) over NBD",
	.magic_config_key = "uri",
	.config = srpkit_config,
	.config_complete = srpkit_config_complete,
	.config_help = "uri=srp://HOST[:PORT][/VOLUME]  the target; clients "
		       "choose other volumes by the export name",
	.get_ready = srpkit_get_ready,
	.after_fork = srpkit_after_fork,
	.unload = srpkit_unload,
	.list_exports = srpkit_list_exports,
	.default_export = srpkit_default_export,
	.open = srpkit_open,
	.close = srpkit_close,
	.get_size = srpkit_get_size,
	.block_size = srpkit_block_size,
	.can_write = srpkit_can_write,
	.is_rotational = srpkit_is_rotational,
	.can_trim = srpkit_can_trim,
	.can_fua = srpkit_can_fua,
	.can_multi_conn = srpkit_can_multi_conn,
	.can_flush = srpkit_yes,
	.can_extents = srpkit_yes,
	.pread = srpkit_pread,
	.pwrite = srpkit_pwrite,
	.flush = srpkit_flush,
	.trim = srpkit_trim,
	.zero = srpkit_zero,
	.extents = srpkit_extents,
	.errno_is_preserved = 0,
};

NBDKIT_REGISTER_PLUGIN(plugin)
