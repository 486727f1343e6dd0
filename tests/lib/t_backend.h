/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend for tests of the code above it. It keeps its blocks in memory, logs
 * the requests, answers at once or when the test wants it, and fails when the
 * test wants it.
 */
#ifndef TESTS_LIB_T_BACKEND_H
#define TESTS_LIB_T_BACKEND_H

#include "target/block/backend.h"

/* The properties of the next store that is opened, and its behaviour. */
struct t_backend {
	struct backend_info info;
	bool later;		/* requests wait for t_backend_answer() */
	unsigned int fail_at;	/* number of the request, from 1; 0: none */
	int fail_with;		/* negative errno */
	uint64_t fail_progress; /* bytes that the failed request did before */
	/* RBP_EXTENT: extents of this many bytes are alternately mapped and
	 * unmapped */
	uint64_t extent_unit;
	/* The target that serves it. set_path changes it, or ends with
	 * path_error. */
	struct backend_paths paths;
	int path_error;
	/* Called once, after the paths have been read. May be NULL. */
	void (*paths_read)(void);
	/* With info.has_notes: the notes, and the result of get_notes() and
	 * put_notes(). 0: success. */
	uint64_t notes_version;
	size_t notes_len;
	uint8_t notes[16384];
	int notes_error;
	/* Called once, before put_notes() compares the version. May be NULL. */
	void (*notes_put)(void);
	uint64_t notes_taken; /* the version of the last notes_taken() */

	/* "read 0+512, write 512+1024 fua, flush" */
	char log[2048];
	unsigned int cnt;
	uint8_t *store;
	struct rbp_io *held;
};

extern struct t_backend t_backend;
extern const struct backend_type t_backend_type;

/* Acts as another target that puts notes. Returns the answer of the unit. */
int t_backend_put_notes(const void *data, size_t len);

/* Answers the request that is held. False: none is held. */
bool t_backend_answer(void);

#endif
