/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the configuration file of a running target. The file may be on a server that
 * does not answer: see manage_aside.h.
 *
 * Thread: any but a worker's, unless a function says otherwise.
 */
#ifndef TARGET_MANAGE_READ_H
#define TARGET_MANAGE_READ_H

#include <sys/stat.h>

#include "target/manage.h"

/* What was read. manage_file_drop() frees the members. */
struct manage_file {
	json_t *config; /* NULL: @e says why */
	char *place;	/* where the file is; links are followed */
	char *text;
	mode_t mode;
	struct error e;
	bool is_given_up; /* the target is stopping; @e says so */
};

/*
 * Calls @read with the path of the configuration file and an empty @ret, as
 * manage_run_aside() without a limit: @read uses nothing but its arguments. Call it without
 * the lock.
 */
void manage_read_file(struct manage *m,
		      void (*read)(const char *path, struct manage_file *file),
		      struct manage_file *ret);
void manage_file_drop(struct manage_file *file);

#endif
