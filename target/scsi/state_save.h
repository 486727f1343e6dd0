/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a state file (state_file.h) by io_uring, so that the worker can handle
 * other commands meanwhile. It writes a temporary file, makes it stable,
 * renames it, and makes the directory stable.
 *
 * One save runs at a time; the owner decides which is next (unit_state.h).
 */
#ifndef TARGET_SCSI_STATE_SAVE_H
#define TARGET_SCSI_STATE_SAVE_H

#include "target/scsi/state_file.h"
#include "base/reactor.h"

/* Embed it; all members are private. */
struct state_save {
	/* constant from init on */
	char *name;
	char *new_name;
	int dir_fd;

	struct reactor_op op;
	struct reactor *reactor;
	unsigned int step; /* index of the current step */
	int err;	   /* of the step that has failed */
	int fd;		   /* of the temporary file; -1: not open */
	uint32_t at;	   /* bytes written */
	uint32_t len;
	char *text; /* STATE_FILE_MAX */
	/* For done(): it has failed, and what the file has is unknown. */
	bool unsure;
	void (*done)(struct state_save *save, int err);
};

/* Thread: setup. Opens the directory of @path, which is copied. 0 or -errno;
 * state_save_fini() must follow in any case. */
int state_save_init(struct state_save *save, const char *path);
/* Also valid for a struct that is all zero except dir_fd, which is -1. */
void state_save_fini(struct state_save *save);

/*
 * Thread: @r. Replaces the file by @state, which is copied. @done is called
 * once, never from within. @err: 0: the state is stable; -errno: the file has
 * the old state, or, with save->unsure, the old one or the new one.
 */
void state_save_start(struct state_save *save, struct reactor *r,
		      const struct state_file *state,
		      void (*done)(struct state_save *save, int err));

#endif
