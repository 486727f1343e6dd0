/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/state_save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/directory.h"

/* ---- life ---- */

int state_save_init(struct state_save *save, const char *path)
{
	const char *slash = strrchr(path, '/');

	*save = (struct state_save){ .dir_fd = -1, .fd = -1 };
	save->name = strdup(slash ? slash + 1 : path);
	save->text = malloc(STATE_FILE_MAX);
	if (!save->name || asprintf(&save->new_name, "%s.new", save->name) < 0)
		save->new_name = NULL;
	if (!save->text || !save->new_name)
		return -ENOMEM;
	save->dir_fd = directory_open_of(path);
	if (save->dir_fd < 0)
		return save->dir_fd;
	/* A crash has left it. */
	unlinkat(save->dir_fd, save->new_name, 0);
	return 0;
}

void state_save_fini(struct state_save *save)
{
	if (save->dir_fd >= 0)
		close(save->dir_fd);
	free(save->name);
	free(save->new_name);
	free(save->text);
}

/* ---- the steps ---- */

/* Nothing that another user has put there is written to. */
static void prep_open(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_openat(sqe, save->dir_fd, save->new_name,
			     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static void state_save_prep_write(struct state_save *save,
				  struct io_uring_sqe *sqe)
{
	io_uring_prep_write(sqe, save->fd, save->text + save->at,
			    save->len - save->at, save->at);
}

static void prep_sync(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_fsync(sqe, save->fd, 0);
}

static void prep_rename(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_renameat(sqe, save->dir_fd, save->new_name, save->dir_fd,
			       save->name, 0);
}

/* Makes the rename in the directory stable. */
static void prep_sync_dir(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_fsync(sqe, save->dir_fd, 0);
}

/* The file system may take long for these two: not on the worker. */
static void prep_close(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_close(sqe, save->fd);
}

static void prep_unlink(struct state_save *save, struct io_uring_sqe *sqe)
{
	io_uring_prep_unlinkat(sqe, save->dir_fd, save->new_name, 0);
}

enum {
	STEP_OPEN,
	STEP_WRITE,
	STEP_SYNC,
	STEP_CLOSE,
	STEP_RENAME,
	STEP_SYNC_DIR,
	STEP_END,
	/* after a failure, and STEP_CLOSE */
	STEP_UNLINK,
	STEP_CNT,
};

static void (*const preps[STEP_CNT])(struct state_save *save,
				     struct io_uring_sqe *sqe) = {
	[STEP_OPEN] = prep_open,     [STEP_WRITE] = state_save_prep_write,
	[STEP_SYNC] = prep_sync,     [STEP_CLOSE] = prep_close,
	[STEP_RENAME] = prep_rename, [STEP_SYNC_DIR] = prep_sync_dir,
	[STEP_UNLINK] = prep_unlink,
};

static void state_save_go(struct state_save *save, unsigned int step)
{
	struct io_uring_sqe *sqe;

	save->step = step;
	if (step == STEP_END) {
		save->done(save, save->err);
		return;
	}
	sqe = reactor_sqe(save->reactor);
	preps[step](save, sqe);
	reactor_prep_done(sqe, &save->op);
}

/* A file of the new name stays only if the rename may have happened. */
static void state_save_fail(struct state_save *save, int err)
{
	save->err = err;
	save->unsure = save->step >= STEP_RENAME;
	if (save->fd >= 0)
		state_save_go(save, STEP_CLOSE);
	else
		state_save_go(save, save->step > STEP_RENAME ? STEP_END
							     : STEP_UNLINK);
}

/* The step has succeeded, or does not matter. */
static void state_save_next(struct state_save *save, int res)
{
	switch (save->step) {
	case STEP_OPEN:
		save->fd = res;
		break;
	case STEP_WRITE:
		save->at += (uint32_t)res;
		if (save->at < save->len) {
			state_save_go(save, STEP_WRITE);
			return;
		}
		break;
	case STEP_CLOSE:
		save->fd = -1;
		if (save->err) {
			state_save_go(save, STEP_UNLINK);
			return;
		}
		break;
	case STEP_UNLINK:
		state_save_go(save, STEP_END);
		return;
	default:
		break;
	}
	state_save_go(save, save->step + 1);
}

static void state_save_step_done(struct reactor_op *op, int res,
				 unsigned int cqe_flags)
{
	struct state_save *save = container_of(op, struct state_save, op);
	bool matters = save->step != STEP_CLOSE && save->step != STEP_UNLINK;

	if (res == 0 && save->step == STEP_WRITE)
		res = -EIO;
	if (res >= 0 || !matters)
		state_save_next(save, res);
	else if (res == -EINTR)
		state_save_go(save, save->step);
	else
		state_save_fail(save, res);
}

void state_save_start(struct state_save *save, struct reactor *r,
		      const struct state_file *state,
		      void (*done)(struct state_save *save, int err))
{
	save->reactor = r;
	save->done = done;
	save->op.done = state_save_step_done;
	save->err = 0;
	save->unsure = false;
	save->at = 0;
	save->len =
		(uint32_t)state_file_format(state, save->text, STATE_FILE_MAX);
	state_save_go(save, STEP_OPEN);
}
