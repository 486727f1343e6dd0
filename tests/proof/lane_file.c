/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Each lane has a thread and an open file of its own, because fsync tells each
 * open file once that its writes may be lost. */
struct file_lane {
	struct lane_work work;
	pthread_t thread;
	int fd; /* -1: not open */
};

static void nap(unsigned int us)
{
	struct timespec ts = { .tv_sec = us / 1000000,
			       .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&ts, NULL);
}

static int open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

	if (fd < 0 && errno == EINVAL)
		fd = open(path, O_RDWR | O_CLOEXEC);
	return fd;
}

/* The mount behind the file is dead; there may be a new one. */
static bool is_dead(int err)
{
	return err == -ENOTCONN || err == -ECONNABORTED || err == -ENODEV ||
	       err == -EBADF;
}

static int transfer(const struct file_lane *fl)
{
	const struct lane_work *w = &fl->work;
	bool write = w->record->op == JOURNAL_WRITE;
	off_t offset = (off_t)lane_offset(w);
	uint32_t len = lane_len(w);
	uint32_t done = 0;

	while (done < len) {
		ssize_t n = write ? pwrite(fl->fd, w->buf + done, len - done,
					   offset + done)
				  : pread(fl->fd, w->buf + done, len - done,
					  offset + done);

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		done += (uint32_t)n;
	}
	return 0;
}

static void perform(struct file_lane *fl)
{
	int res;

	if (fl->fd < 0)
		res = -EBADF;
	else if (fl->work.record->op == JOURNAL_FLUSH)
		res = fdatasync(fl->fd) ? -errno : 0;
	else
		res = transfer(fl);
	lane_answered(&fl->work, res);
	if (is_dead(res) && fl->fd >= 0) {
		close(fl->fd);
		fl->fd = -1;
	}
	if (res)
		nap(10000);
}

static void *lane_thread(void *arg)
{
	struct file_lane *fl = arg;
	enum lane_step step;

	for (;;) {
		if (fl->fd < 0)
			fl->fd = open_file(fl->work.through);
		if (fl->fd < 0 && fl->work.j->phase != PHASE_QUIT &&
		    fl->work.j->phase != PHASE_REST) {
			nap(5000);
			continue;
		}
		step = lane_next(&fl->work);
		if (step == LANE_QUIT)
			break;
		if (step == LANE_GO)
			perform(fl);
		nap(step == LANE_GO ? fl->work.j->pause_us : 1000);
	}
	if (fl->fd >= 0)
		close(fl->fd);
	free(fl->work.buf);
	return NULL;
}

int lane_file_run(struct journal *j, struct lane **lanes, unsigned int cnt,
		  const char *path)
{
	struct file_lane *fls = calloc(cnt, sizeof(*fls));
	int err = fls ? 0 : -ENOMEM;

	for (unsigned int i = 0; !err && i < cnt; i++) {
		fls[i].fd = -1;
		lane_open(&fls[i].work, j, lanes[i], path);
		err = -pthread_create(&fls[i].thread, NULL, lane_thread,
				      &fls[i]);
	}
	for (unsigned int i = 0; !err && i < cnt; i++)
		pthread_join(fls[i].thread, NULL);
	free(fls);
	return err;
}
