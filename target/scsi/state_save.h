/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a state file (state_file.h) by io_uring, so that the worker which does
 * it goes on with other initiators' commands in the meantime: a temporary
 * file, made stable, renamed, and the directory made stable.
 *
 * One save at a time; whose turn it is is up to the owner (unit_state.h).
 */
#ifndef TARGET_SCSI_STATE_SAVE_H
#define TARGET_SCSI_STATE_SAVE_H

#include "target/scsi/state_file.h"
#include "base/reactor.h"

/* Embed it; all is private. */
struct state_save {
	/* constant from init on */
	char *path;
	char *tmp_path;
	int dir_fd;

	struct reactor_op op;
	struct reactor *reactor;
	unsigned int step; /* of those that are done one after another */
	int fd;		   /* of the temporary file; -1: not open */
	uint32_t at;	   /* bytes that are written */
	uint32_t len;
	char *text; /* STATE_FILE_MAX */
	void (*done)(struct state_save *save, int err);
};

/* Thread: setup. Opens the directory of @path, which is copied. 0 or -errno;
 * state_save_fini() is due in any case. */
int state_save_init(struct state_save *save, const char *path);
/* Also of one that is all zero but for a dir_fd of -1. */
void state_save_fini(struct state_save *save);

/*
 * Thread: @r. Puts @state, which is copied, in the place of the file. @done is
 * called once, never from within: @err 0 when it is on stable storage, else
 * -errno; the old state is then still there, or the new one is.
 */
void state_save_start(struct state_save *save, struct reactor *r,
		      const struct state_file *state,
		      void (*done)(struct state_save *save, int err));

#endif
