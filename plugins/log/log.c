/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log: a layer that writes a line for each request to a file, in the format
 * that fio replays (read_iolog, version 2).
 *
 * Workers put records into a list; kick() wakes a thread that writes them,
 * because a file system may block. If the thread is too slow, or the file cannot
 * be written, records are left out and counted: the volume does not wait for its
 * log. If a full disk cuts a line off, its rest comes first when there is room.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

/* Records that wait for the thread. */
#define IOLOG_RECORDS 65536u
/* Bytes of text that wait for the file, and of the longest line. */
#define IOLOG_TEXT   16384u
#define IOLOG_LINE   64u
#define IOLOG_HEADER "fio version 2 iolog\ndisk add\ndisk open\n"

struct iolog_record {
	uint64_t offset;
	uint64_t len;
	enum rbp_op op;
};

struct iolog {
	struct rbp_vol *vol;
	int fd;
	pthread_mutex_t lock; /* never held during a call that blocks */
	pthread_cond_t work;
	/* guarded by the lock */
	struct iolog_record *records;
	unsigned int cnt;
	uint64_t left_out;
	int stopping;
	pthread_t thread;
	int has_thread;
	/* only for the thread; for open() before it, and for close() after it */
	struct iolog_record *batch;
	char text[IOLOG_TEXT]; /* not written yet */
	size_t text_len;
	uint64_t unwritten; /* records that neither the file nor text has */
	int has_failed;
};

static const struct rbp_host *iolog_host;

/* ---- the thread ---- */

static const char *iolog_action(enum rbp_op op)
{
	switch (op) {
	case RBP_READ:
		return "read";
	case RBP_WRITE:
	case RBP_ZERO: /* fio has no other word for it */
		return "write";
	case RBP_UNMAP:
		return "trim";
	case RBP_FLUSH:
		return "sync";
	case RBP_EXTENT:
		break;
	}
	return NULL;
}

/* Writes the text, as far as the file takes it. Returns 0 or a negative errno. */
static int iolog_push(struct iolog *l)
{
	size_t done = 0;
	int err = 0;

	while (done < l->text_len && !err) {
		ssize_t n = write(l->fd, l->text + done, l->text_len - done);

		if (n > 0)
			done += (size_t)n;
		else if (!n)
			err = -EIO;
		else if (errno != EINTR)
			err = -errno;
	}
	l->text_len -= done;
	memmove(l->text, l->text + done, l->text_len);
	return err;
}

static void iolog_push_or_tell(struct iolog *l)
{
	int err = iolog_push(l);

	if (!err || l->has_failed)
		return;
	l->has_failed = 1;
	iolog_host->log(l->vol, RBP_ERROR, "cannot write the log: %s",
			strerror(-err));
}

static int iolog_has_room(const struct iolog *l)
{
	return IOLOG_TEXT - l->text_len >= IOLOG_LINE;
}

static void iolog_write(struct iolog *l, const struct iolog_record *records,
			unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (!iolog_has_room(l))
			iolog_push_or_tell(l);
		if (!iolog_has_room(l)) {
			l->unwritten += cnt - i;
			return;
		}
		l->text_len += (size_t)snprintf(
			l->text + l->text_len, IOLOG_LINE,
			"disk %s %llu %llu\n", iolog_action(records[i].op),
			(unsigned long long)records[i].offset,
			(unsigned long long)records[i].len);
	}
	iolog_push_or_tell(l);
}

/* Called with the lock held; releases it meanwhile. */
static void iolog_write_all(struct iolog *l)
{
	struct iolog_record *batch = l->records;
	unsigned int cnt = l->cnt;

	l->records = l->batch;
	l->batch = batch;
	l->cnt = 0;
	pthread_mutex_unlock(&l->lock);
	iolog_write(l, batch, cnt);
	pthread_mutex_lock(&l->lock);
}

static void *iolog_main(void *arg)
{
	struct iolog *l = arg;

	pthread_mutex_lock(&l->lock);
	while (l->cnt || !l->stopping) {
		if (l->cnt)
			iolog_write_all(l);
		else
			pthread_cond_wait(&l->work, &l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* ---- I/O ---- */

static void iolog_record(struct iolog *l, const struct rbp_io *io)
{
	if (!iolog_action(io->op))
		return;
	pthread_mutex_lock(&l->lock);
	if (l->cnt < IOLOG_RECORDS)
		l->records[l->cnt++] = (struct iolog_record){
			.offset = io->offset,
			.len = io->len,
			.op = io->op,
		};
	else
		l->left_out++;
	pthread_mutex_unlock(&l->lock);
}

/* The first call starts the thread, so that the thread has only the rights with
 * which rdma-target serves. Without a thread, records are left out. */
static void iolog_kick(void *v, void *queue_data)
{
	struct iolog *l = v;

	pthread_mutex_lock(&l->lock);
	if (!l->has_thread)
		l->has_thread =
			!pthread_create(&l->thread, NULL, iolog_main, l);
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
}

static void iolog_ended(struct rbp_io *child, int res)
{
	struct rbp_io *io = child->parent;

	io->extent_len = child->extent_len;
	io->extent_mapped = child->extent_mapped;
	io->progress = child->progress;
	iolog_host->done(io, res);
}

static void iolog_submit(void *v, struct rbp_io *io)
{
	struct rbp_io *child = iolog_host->child(io);

	iolog_record(v, io);
	child->ended = iolog_ended;
	iolog_host->below(child);
}

/* ---- life cycle ---- */

static void iolog_free(struct iolog *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->records);
	free(l->batch);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int iolog_open_file(struct iolog *l, const char *path, char *msg,
			   size_t msg_len)
{
	struct stat st;
	int err = 0;

	l->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (l->fd < 0 || fstat(l->fd, &st)) {
		err = -errno;
	} else if (!st.st_size) { /* an existing log is continued */
		l->text_len = strlen(IOLOG_HEADER);
		memcpy(l->text, IOLOG_HEADER, l->text_len);
		err = iolog_push(l);
	}
	if (err)
		snprintf(msg, msg_len, "file=%s: %s", path, strerror(-err));
	return err;
}

static int iolog_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	struct iolog *l;
	int err;

	if (!args->name) {
		snprintf(msg, msg_len, "needs file=PATH");
		return -EINVAL;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->vol = vol;
	l->fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	l->records = calloc(IOLOG_RECORDS, sizeof(*l->records));
	l->batch = calloc(IOLOG_RECORDS, sizeof(*l->batch));
	err = l->records && l->batch
		      ? iolog_open_file(l, args->text, msg, msg_len)
		      : -ENOMEM;
	if (err) {
		iolog_free(l);
		return err;
	}
	*ret_v = l;
	return 0;
}

static void iolog_tell_left_out(struct iolog *l)
{
	iolog_push_or_tell(l);
	for (size_t i = 0; i < l->text_len; i++)
		l->unwritten += l->text[i] == '\n';
	if (l->unwritten)
		iolog_host->log(l->vol, RBP_WARNING,
				"%llu requests are not in the log: its file "
				"cannot be written",
				(unsigned long long)l->unwritten);
	if (l->left_out)
		iolog_host->log(l->vol, RBP_WARNING,
				"%llu requests are not in the log: its file is "
				"too slow",
				(unsigned long long)l->left_out);
}

static void iolog_close(void *v)
{
	struct iolog *l = v;

	pthread_mutex_lock(&l->lock);
	l->stopping = 1;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	if (l->has_thread)
		pthread_join(l->thread, NULL);
	iolog_tell_left_out(l);
	iolog_free(l);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "file", RBP_STRING, NULL,
		  "the file; what it has stays, and lines are added" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.is_layer = 1,
		.name = "log",
		.version = "1",
		.help = "writes a line for each request, for fio to replay",
		.params = params,
		/* For the file, which may belong to anybody. */
		.needs = RBP_NEEDS_RIGHTS,
		.open = iolog_open,
		.close = iolog_close,
		.submit = iolog_submit,
		.kick = iolog_kick,
	};

	iolog_host = host;
	return &plugin;
}
