/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake store of the tests: blocks in memory. There is one, t_store. The test
 * sets its members, also while it is open:
 *
 *   hold    Each request waits until the test answers it, in any order.
 *   fail    One request, the next ones, or all flushes end with an error. Before,
 *           a request may have done a part of its bytes.
 *   lie     The test chooses the extents, the paths and the size.
 *   notes   The test acts as other targets that put notes into the same store.
 *   watch   The store logs and counts all requests.
 *
 * If a caller breaks a rule of target/block/backend.h, the program ends. Works
 * without cmocka.
 *
 * Two more kinds of fake stores have other purposes. Those in tests/plugins/ are
 * loaded as plugins of other projects are. The disk of tests/sim/ keeps all
 * versions of each block, so that it can lose some of them.
 */
#ifndef TESTS_LIB_T_STORE_H
#define TESTS_LIB_T_STORE_H

#include "target/block/backend.h"

#define T_STORE_HELD_MAX 512

/* A request that waits for the test. */
struct t_store_held {
	struct rbp_io *io;
	unsigned int number; /* of the request, from 1 */
};

struct t_store {
	/* ---- set before it is opened ---- */
	struct backend_info info; /* size: bytes at first */
	uint64_t room;		  /* bytes that it may grow to; 0: info.size */
	/* More requests at once are a fault of the caller. 0: no limit; the
	 * store answers at once what it has no place to hold. */
	unsigned int depth;

	/* ---- hold ---- */
	bool hold;

	/* ---- fail ---- */
	unsigned int fail_at;	/* number of the request, from 1; 0: none */
	unsigned int fail_next; /* so many requests from now on */
	int fail_with;		/* negative errno */
	uint64_t fail_progress; /* bytes that the failed request did before */
	int flush_error;	/* of each flush; 0: none */

	/* ---- lie ---- */
	/* RBP_EXTENT: extents of this many bytes are alternately mapped and
	 * unmapped */
	uint64_t extent_unit;
	uint64_t measures; /* bytes; open() sets it to info.size */
	/* The target that serves it. set_path changes it, or ends with
	 * path_error. */
	struct backend_paths paths;
	uint64_t epoch; /* rbp_paths.epoch; 0: the store reports none */
	int path_error;
	/* Called once, after the paths have been read. May be NULL. */
	void (*paths_read)(void);

	/* ---- notes ---- */
	/* With info.has_notes: the notes, and the result of get_notes() and
	 * put_notes(). 0: success. */
	uint64_t notes_version;
	size_t notes_len;
	uint8_t notes[16384];
	int notes_error;
	/* Called once, before put_notes() compares the version. May be NULL. */
	void (*notes_put)(void);
	uint64_t notes_taken; /* the version of the last notes_taken() */

	/* ---- watch: only to read, but for the blocks and the log ---- */
	/* "read 0+512, write 512+1024 fua, flush"; ends when it is full */
	char log[2048];
	unsigned int cnt;	/* requests that came */
	unsigned int done_cnt;	/* ... and were answered */
	unsigned int flush_cnt; /* flushes that were answered */
	uint8_t *bytes;
	struct t_store_held held[T_STORE_HELD_MAX]; /* oldest first */
	unsigned int held_cnt;
};

extern struct t_store t_store;
extern struct backend_type t_store_type;

/* Makes a store with these properties, which does all at once and well. It
 * must be closed. */
void t_store_reset(const struct backend_info *info);

/* Acts as another target that puts notes. Returns the answer of the unit. */
int t_store_put_notes(const void *data, size_t len);

/* Answers held request number @nth, counted from 0. @res: 0 or a negative
 * errno. */
void t_store_answer_nth(unsigned int nth, int res);
/* Answers the oldest held request. False: none is held. */
bool t_store_answer(void);

/* True if a request that is held would change blocks, and is one of the first
 * @cnt requests. */
bool t_store_holds_change(unsigned int cnt);

#endif
