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

enum {
	STEP_OPEN,
	STEP_WRITE,
	STEP_SYNC,
	STEP_RENAME,
	STEP_SYNC_DIR,
	STEP_CNT,
};

static void (*const preps[STEP_CNT])(struct state_save *save,
				     struct io_uring_sqe *sqe) = {
	[STEP_OPEN] = prep_open,	 [STEP_WRITE] = state_save_prep_write,
	[STEP_SYNC] = prep_sync,	 [STEP_RENAME] = prep_rename,
	[STEP_SYNC_DIR] = prep_sync_dir,
};

static void state_save_submit(struct state_save *save)
{
	struct io_uring_sqe *sqe = reactor_sqe(save->reactor);

	preps[save->step](save, sqe);
	reactor_prep_done(sqe, &save->op);
}

static void state_save_end(struct state_save *save, int err)
{
	if (save->fd >= 0)
		close(save->fd);
	save->fd = -1;
	if (err && save->step <= STEP_RENAME)
		unlinkat(save->dir_fd, save->new_name, 0);
	save->unsure = err && save->step >= STEP_RENAME;
	save->done(save, err);
}

/* Stores the result of a successful step. True: the step must be repeated. */
static bool take_result(struct state_save *save, int res)
{
	if (save->step == STEP_OPEN)
		save->fd = res;
	if (save->step != STEP_WRITE)
		return false;
	save->at += (uint32_t)res;
	return save->at < save->len;
}

static void state_save_step_done(struct reactor_op *op, int res,
				 unsigned int cqe_flags)
{
	struct state_save *save = container_of(op, struct state_save, op);

	if (res == 0 && save->step == STEP_WRITE)
		res = -EIO;
	if (res < 0 && res != -EINTR) {
		state_save_end(save, res);
		return;
	}
	if (res >= 0 && !take_result(save, res))
		save->step++;
	if (save->step == STEP_CNT)
		state_save_end(save, 0);
	else
		state_save_submit(save);
}

void state_save_start(struct state_save *save, struct reactor *r,
		      const struct state_file *state,
		      void (*done)(struct state_save *save, int err))
{
	save->reactor = r;
	save->done = done;
	save->op.done = state_save_step_done;
	save->step = STEP_OPEN;
	save->at = 0;
	save->len =
		(uint32_t)state_file_format(state, save->text, STATE_FILE_MAX);
	state_save_submit(save);
}
