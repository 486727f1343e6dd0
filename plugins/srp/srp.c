/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srp: a volume of another SRP target, ours or the Linux kernel's, over libsrpi.
 *
 * One session serves the volume, so that libsrpi knows all writes that a flush
 * must cover. Its context belongs to a thread of the plugin: workers put their
 * I/O into a list and wake the thread. Data is copied into memory that is
 * registered with the session; I/O that is longer than a buffer is done in
 * pieces.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include <rdma_block_plugin.h>
#include <srp_initiator.h>

#define SRPST_BUFFER_LEN (128u << 10)
#define SRPST_BUFFER_CNT 256u
#define SRPST_WAIT_MAX	 600u /* seconds: libsrpi takes no more */

/* An I/O, in its scratch. */
struct srpst_io {
	STAILQ_ENTRY(srpst_io) node;
	struct rbp_io *io;
	struct srpst_vol *vol;
	struct srpi_io srp;
	uint8_t *buf;	/* NULL: it needs no buffer, or waits for one */
	uint64_t done;	/* bytes of the pieces that are done */
	bool as_writes; /* ZERO, of a target that does not support it */
};

STAILQ_HEAD(srpst_list, srpst_io);

struct srpst_vol {
	struct rbp_vol *vol;
	char *uri;
	int wait_ms;
	struct srpi_volume_info info;
	_Atomic uint64_t bytes;
	/* only for the thread */
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	struct srpi_mem *mem;
	unsigned int volume;
	uint8_t *memory;
	uint8_t *free[SRPST_BUFFER_CNT];
	unsigned int free_cnt;
	struct srpst_list waiting; /* waiting for a buffer */
	pthread_t thread;
	int wake_fd;
	/* guarded by the lock, which is never held during a call that blocks */
	pthread_mutex_t lock;
	pthread_cond_t started;
	enum {
		SRPST_STARTING,
		SRPST_RUNNING,
		SRPST_FAILED
	} state;
	struct srpi_error error;
	bool stopping;
	struct srpst_list inbox;
};

static const struct rbp_host *srpst_host;

/* ---- one I/O ---- */

static const enum srpi_op srpst_ops[] = {
	[RBP_READ] = SRPI_READ,		[RBP_WRITE] = SRPI_WRITE,
	[RBP_FLUSH] = SRPI_FLUSH,	[RBP_UNMAP] = SRPI_DISCARD,
	[RBP_ZERO] = SRPI_WRITE_ZEROES, [RBP_EXTENT] = SRPI_EXTENT,
};

static bool srpst_has_data(const struct srpst_io *n)
{
	return n->io->op == RBP_READ || n->io->op == RBP_WRITE || n->as_writes;
}

static void srpst_submit_piece(struct srpst_io *n)
{
	struct srpst_vol *vol = n->vol;
	const struct rbp_io *io = n->io;
	uint64_t left = io->len - n->done;

	if (srpst_has_data(n) && left > SRPST_BUFFER_LEN)
		left = SRPST_BUFFER_LEN;
	n->srp.op = n->as_writes ? SRPI_WRITE : srpst_ops[io->op];
	/* The volume has promised zeroes. That is the same as SRPI_DISCARD,
	 * unless the one below has changed and promises them no more. */
	if (io->op == RBP_UNMAP && vol->info.unmap_zeroes)
		n->srp.op = SRPI_WRITE_ZEROES;
	n->srp.volume = vol->volume;
	n->srp.offset = io->offset + n->done;
	n->srp.len = left;
	n->srp.buf = n->buf;
	n->srp.mem = vol->mem;
	n->srp.fua = io->flags & RBP_FUA;
	n->srp.discard = io->op == RBP_UNMAP || io->flags & RBP_MAY_UNMAP;
	if (io->op == RBP_WRITE)
		memcpy(n->buf, (const uint8_t *)io->buf + n->done, left);
	else if (n->as_writes)
		memset(n->buf, 0, left);
	srpi_submit(vol->session, &n->srp);
}

static void srpst_start(struct srpst_io *n)
{
	struct srpst_vol *vol = n->vol;

	if (n->io->op != RBP_FLUSH && n->io->op != RBP_UNMAP) {
		if (!vol->free_cnt) {
			STAILQ_INSERT_TAIL(&vol->waiting, n, node);
			return;
		}
		n->buf = vol->free[--vol->free_cnt];
	}
	srpst_submit_piece(n);
}

static void srpst_end(struct srpst_io *n, int res)
{
	struct srpst_vol *vol = n->vol;
	struct srpst_io *next = STAILQ_FIRST(&vol->waiting);

	if (n->buf)
		vol->free[vol->free_cnt++] = n->buf;
	if (res)
		n->io->progress = srpst_has_data(n) ? n->done : 0;
	srpst_host->done(n->io, res);
	if (next && vol->free_cnt) {
		STAILQ_REMOVE_HEAD(&vol->waiting, node);
		srpst_start(next);
	}
}

/* Replaces operations that the target lacks and the volume has promised. True:
 * the I/O continues. */
static bool srpst_does_without(struct srpst_io *n, int *res)
{
	if (n->io->op == RBP_EXTENT) {
		n->io->extent_len = n->io->len;
		n->io->extent_mapped = 1;
		*res = 0;
		return false;
	}
	if (n->io->op != RBP_ZERO || n->as_writes)
		return false;
	n->as_writes = true;
	srpst_submit_piece(n);
	return true;
}

/* Do blocks that are not allocated read as zeroes at present? */
static bool srpst_has_zeroes(const struct srpst_vol *vol)
{
	return srpi_volume_info(vol->session, vol->volume)->unmap_zeroes;
}

static void srpst_done(struct srpi_io *srp, int res)
{
	struct srpst_io *n = srp->arg;
	struct rbp_io *io = n->io;

	if (res == -EOPNOTSUPP) {
		if (srpst_does_without(n, &res))
			return;
	} else if (!res && io->op == RBP_EXTENT) {
		io->extent_len = srp->extent_len;
		/* What is not allocated reads as zeroes. */
		io->extent_mapped =
			srp->extent_mapped || !srpst_has_zeroes(n->vol);
	} else if (!res && srpst_has_data(n)) {
		if (io->op == RBP_READ)
			memcpy((uint8_t *)io->buf + n->done, n->buf, srp->len);
		n->done += srp->len;
		if (n->done < io->len) {
			srpst_submit_piece(n);
			return;
		}
	} else if (res && io->op == RBP_FLUSH && srpi_io_refused(srp)) {
		/* No data is lost. When the target is back, libsrpi fails the
		 * next flush if the target has lost writes. */
		res = -ENOTCONN;
	}
	srpst_end(n, res);
}

/* ---- the thread ---- */

/* The loss is final. Warnings before it must not use up the limit of the log. */
static enum rbp_log_level srpst_level(enum srpi_state state)
{
	if (state == SRPI_LOST)
		return RBP_ERROR;
	return state == SRPI_RUNNING ? RBP_NOTICE : RBP_WARNING;
}

static void srpst_state_changed(struct srpi_session *s, enum srpi_state state,
				const struct srpi_error *why, void *arg)
{
	struct srpst_vol *vol = arg;

	srpst_host->log(vol->vol, srpst_level(state), "the session is %s: %s",
			srpi_state_name(state), why->text);
}

static void srpst_resized(struct srpi_session *s, unsigned int volume,
			  void *arg)
{
	struct srpst_vol *vol = arg;

	if (volume != vol->volume)
		return;
	atomic_store(&vol->bytes, srpi_volume_info(s, volume)->size);
	srpst_host->resized(vol->vol);
}

/* Chooses the volume of the URI, or the only one. */
static int srpst_choose(struct srpst_vol *vol, struct srpi_error *e)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	int err = 0;

	srpi_session_info(vol->session, &info);
	if (*info.volume)
		err = srpi_volume_find(vol->session, info.volume, &vol->volume);
	else if (srpi_volume_cnt(vol->session) != 1)
		err = -ENOENT;
	if (err) {
		snprintf(e->text, sizeof(e->text),
			 *info.volume ? "the target shows no volume '%s'"
				      : "the target shows no or several "
					"volumes%s; name one in the URI",
			 info.volume);
		return err;
	}
	vol->info = *srpi_volume_info(vol->session, vol->volume);
	vol->bytes = vol->info.size;
	return 0;
}

/* After a kill, the other target may still have writes of this process. */
static void srpst_warn_of_identifier(const struct srpst_vol *vol)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };

	srpi_session_info(vol->session, &info);
	if (*info.purpose_fault)
		srpst_host->log(vol->vol, RBP_WARNING, "%s",
				info.purpose_fault);
}

static int srpst_connect(struct srpst_vol *vol, struct srpi_error *e)
{
	char purpose[1024];
	struct srpi_ctx_options ctx_options = {
		.struct_size = sizeof(ctx_options),
		.pollable = true,
	};
	struct srpi_options options = {
		.struct_size = sizeof(options),
		.fast_io_fail_ms = vol->wait_ms,
		.dev_loss_ms = SRPI_OFF,
		.state_changed = srpst_state_changed,
		.volume_resized = srpst_resized,
		.state_arg = vol,
		.purpose = purpose,
	};
	int err = srpi_ctx_create(&ctx_options, &vol->ctx, e);

	/* A killed process may have left writes in the other target. */
	snprintf(purpose, sizeof(purpose), "rdma-target %s", vol->uri);
	if (!err)
		err = srpi_connect_wait(vol->ctx, vol->uri, &options,
					&vol->session, e);
	if (!err)
		err = srpi_mem_register(vol->session, vol->memory,
					(size_t)SRPST_BUFFER_CNT *
						SRPST_BUFFER_LEN,
					&vol->mem, e);
	if (err)
		return err;
	srpst_warn_of_identifier(vol);
	return srpst_choose(vol, e);
}

static void srpst_disconnect(struct srpst_vol *vol)
{
	if (vol->session)
		srpi_close_wait(vol->ctx, vol->session);
	srpi_mem_free(vol->mem);
	srpi_ctx_destroy(vol->ctx);
}

static bool srpst_turn(struct srpst_vol *vol)
{
	struct pollfd fds[] = {
		{ .fd = srpi_ctx_fd(vol->ctx), .events = POLLIN },
		{ .fd = vol->wake_fd, .events = POLLIN },
	};
	struct srpst_list list = STAILQ_HEAD_INITIALIZER(list);
	struct srpst_io *n;
	eventfd_t count;
	bool stopping;

	/* The descriptor of the context tells of nothing that came before. */
	while (srpi_ctx_run(vol->ctx, /* timeout_ms= */ 0) > 0)
		;
	poll(fds, 2, -1);
	if (fds[1].revents)
		eventfd_read(vol->wake_fd, &count);
	pthread_mutex_lock(&vol->lock);
	STAILQ_CONCAT(&list, &vol->inbox);
	stopping = vol->stopping;
	pthread_mutex_unlock(&vol->lock);
	while ((n = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, node);
		srpst_start(n);
	}
	return !stopping;
}

static void *srpst_main(void *arg)
{
	struct srpst_vol *vol = arg;
	struct srpi_error e = { 0 };
	int err = srpst_connect(vol, &e);

	pthread_mutex_lock(&vol->lock);
	vol->state = err ? SRPST_FAILED : SRPST_RUNNING;
	vol->error = e;
	vol->error.err = err;
	pthread_cond_signal(&vol->started);
	pthread_mutex_unlock(&vol->lock);
	if (!err) {
		while (srpst_turn(vol))
			;
	}
	srpst_disconnect(vol);
	return NULL;
}

/* ---- for rdma-target ---- */

/* The thread wakes once for all I/Os that it has not seen. */
static void srpst_submit(void *v, struct rbp_io *io)
{
	struct srpst_vol *vol = v;
	struct srpst_io *n = io->scratch;
	bool was_empty;

	memset(n, 0, sizeof(*n));
	n->io = io;
	n->vol = vol;
	n->srp.done = srpst_done;
	n->srp.arg = n;
	pthread_mutex_lock(&vol->lock);
	was_empty = STAILQ_EMPTY(&vol->inbox);
	STAILQ_INSERT_TAIL(&vol->inbox, n, node);
	pthread_mutex_unlock(&vol->lock);
	if (was_empty)
		eventfd_write(vol->wake_fd, 1);
}

static int srpst_measure(void *v, uint64_t *ret_bytes)
{
	*ret_bytes = atomic_load(&((struct srpst_vol *)v)->bytes);
	return 0;
}

static void srpst_free(struct srpst_vol *vol)
{
	if (vol->memory)
		munmap(vol->memory,
		       (size_t)SRPST_BUFFER_CNT * SRPST_BUFFER_LEN);
	if (vol->wake_fd >= 0)
		close(vol->wake_fd);
	pthread_cond_destroy(&vol->started);
	pthread_mutex_destroy(&vol->lock);
	free(vol->uri);
	free(vol);
}

static int srpst_start_thread(struct srpst_vol *vol, char *msg, size_t msg_len)
{
	int err = -pthread_create(&vol->thread, NULL, srpst_main, vol);

	if (err)
		return err;
	pthread_mutex_lock(&vol->lock);
	while (vol->state == SRPST_STARTING)
		pthread_cond_wait(&vol->started, &vol->lock);
	pthread_mutex_unlock(&vol->lock);
	if (vol->state == SRPST_RUNNING)
		return 0;
	pthread_join(vol->thread, NULL);
	snprintf(msg, msg_len, "%s", vol->error.text);
	return vol->error.err;
}

static struct srpst_vol *srpst_make(const char *location)
{
	struct srpst_vol *vol = calloc(1, sizeof(*vol));
	void *memory;

	if (!vol)
		return NULL;
	STAILQ_INIT(&vol->waiting);
	STAILQ_INIT(&vol->inbox);
	pthread_mutex_init(&vol->lock, NULL);
	pthread_cond_init(&vol->started, NULL);
	vol->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memory = mmap(NULL, (size_t)SRPST_BUFFER_CNT * SRPST_BUFFER_LEN,
		      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory != MAP_FAILED)
		vol->memory = memory;
	/* location is "//host/volume", the rest of srp://host/volume. */
	if (asprintf(&vol->uri, "%s%s",
		     strncmp(location, "//", 2) != 0 ? "" : "srp:", location) <
	    0)
		vol->uri = NULL;
	if (!vol->memory || !vol->uri || vol->wake_fd < 0) {
		srpst_free(vol);
		return NULL;
	}
	for (unsigned int i = 0; i < SRPST_BUFFER_CNT; i++)
		vol->free[vol->free_cnt++] =
			vol->memory + (size_t)i * SRPST_BUFFER_LEN;
	return vol;
}

static void srpst_describe(const struct srpst_vol *vol, struct rbp_info *to)
{
	const struct srpi_volume_info *from = &vol->info;

	to->caps = RBP_CAN_FLUSH | RBP_CAN_EXTENT | RBP_LASTING;
	/* Anybody may turn a cache on later (MODE SELECT, a restart below). */
	if (!from->read_only)
		to->caps |= RBP_CAN_WRITE | RBP_CAN_ZERO | RBP_WRITE_CACHE;
	if (from->fua)
		to->caps |= RBP_CAN_FUA;
	if (from->unmap && from->unmap_granularity)
		to->caps |= RBP_CAN_UNMAP;
	if (from->unmap_zeroes)
		to->caps |= RBP_UNMAP_ZEROES;
	if (from->rotational)
		to->caps |= RBP_ROTATIONAL;
	to->bytes = from->size;
	to->block_size = from->block_size;
	to->optimal_io = from->physical_block_size;
	to->unmap_granularity = from->unmap_granularity;
	snprintf(to->identity, sizeof(to->identity), "%s", from->naa);
}

static int srpst_open(struct rbp_vol *rbp, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	/* "wait" has a default, and is the only parameter. */
	uint64_t wait_s = args->number;
	struct srpst_vol *vol;
	int err;

	if (!wait_s || wait_s > SRPST_WAIT_MAX) {
		snprintf(msg, msg_len, "wait is 1 to %u seconds",
			 SRPST_WAIT_MAX);
		return -EINVAL;
	}
	vol = srpst_make(location);
	if (!vol)
		return -ENOMEM;
	vol->vol = rbp;
	vol->wait_ms = (int)wait_s * 1000;
	err = srpst_start_thread(vol, msg, msg_len);
	if (err) {
		srpst_free(vol);
		return err;
	}
	srpst_describe(vol, info);
	*ret_v = vol;
	return 0;
}

static void srpst_close(void *v)
{
	struct srpst_vol *vol = v;

	pthread_mutex_lock(&vol->lock);
	vol->stopping = true;
	pthread_mutex_unlock(&vol->lock);
	eventfd_write(vol->wake_fd, 1);
	pthread_join(vol->thread, NULL);
	srpst_free(vol);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "wait", RBP_NUMBER, "15",
		  "seconds that I/O waits for a target that is away, 1 to "
		  "600" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "srp",
		.version = "1",
		.help = "a volume of another SRP target; LOCATION is its URI, "
			"//HOST[:PORT][/VOLUME]",
		.params = params,
		.needs = RBP_NEEDS_NETWORK,
		.scratch_len = sizeof(struct srpst_io),
		.open = srpst_open,
		.close = srpst_close,
		.submit = srpst_submit,
		.measure = srpst_measure,
	};

	srpst_host = host;
	return &plugin;
}
