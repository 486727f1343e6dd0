/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state file of a copy that can be resumed. It says how far the destination is
 * stable, and which source and destination this holds for. A state is written to a
 * new file, which then replaces the old one, so that a crash leaves one of both.
 *
 * Thread: one. resume_save() waits for the disk.
 */
#ifndef COPY_RESUME_H
#define COPY_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "copy/place.h"

struct resume {
	struct place_identity source;
	struct place_identity destination;
	uint64_t done; /* bytes from the beginning that are copied and flushed */
	/* Nothing was written to the destination after this state. If false, its
	 * mtime may be later than here. */
	bool is_last;
};

/* Return: 0; -ENOENT: there is no such file; other negative errnos: it cannot be
 * read, or is no state file. @e is set in all cases but 0. */
int resume_load(const char *path, struct resume *ret, struct error *e);

/* Refuses (-ESTALE) if @now is not the source and destination of @saved. */
int resume_check(const char *path, const struct resume *saved,
		 const struct resume *now, struct error *e);

int resume_save(const char *path, const struct resume *state, struct error *e);

#endif
