/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A job works through a whole volume, for as long as that takes: FORMAT UNIT
 * and SANITIZE. Each volume has at most one. While it runs, and after it has
 * failed, the volume is not ready (volume_state()). A command must check this
 * after it has its blocks (block_lock.h), because a job begins when all
 * commands that had blocks before have dropped them.
 *
 * A job runs on one worker, piece by piece, and lets other commands run after
 * each piece. If it is told to stop, it ends early, as failed.
 *
 * With a state directory, a job begins when its beginning has been written, and
 * has ended when its end has been written. The next start therefore finds jobs
 * that the process did not finish, as failed. Nothing begins one again but a
 * command (SBC-3, FORMAT UNIT, SANITIZE): meanwhile somebody may have put other
 * data on the store.
 */
#ifndef TARGET_SCSI_VOLUME_JOB_H
#define TARGET_SCSI_VOLUME_JOB_H

#include <stdatomic.h>

#include "target/block/block.h"
#include "target/scsi/unit_state.h"

struct volume;

/* What the job does, in this order. */
struct volume_job_plan {
	enum volume_state state; /* FORMATTING or SANITIZING */
	/* Overwrites each block repeatedly with pattern_len (1 ... block size)
	 * bytes. This is the number of passes; the last one writes the pattern
	 * itself. */
	unsigned int overwrite_cnt;
	bool invert;		/* inverts every other pass, counted from the
				 * last */
	const uint8_t *pattern; /* borrowed for volume_job_start() */
	uint32_t pattern_len;
	/* writes zeroes over all blocks that the store reports as used */
	bool scrub;
	bool lenient; /* from the caller: how a failure can be left */
	/* Deallocates all blocks if they then read as zeroes, else writes
	 * zeroes. */
	bool erase;
};

struct volume_job {
	/* any thread */
	_Atomic int state; /* enum volume_state; changed under the unit's lock */
	_Atomic uint32_t progress;     /* of 65536 */
	_Atomic uint32_t seconds_left; /* an estimate, at least 1; 0: none yet */
	_Atomic bool stopping;	       /* set once */
	/* Which part of the job failed. Written before state becomes failed.
	 * The next job does not change it. */
	_Atomic bool lenient;
	_Atomic(struct reactor_msg *) waiter; /* sent when no job runs */
	struct block_worker *waiter_worker;   /* set before waiter */

	/* belongs to the thread that has made state FORMATTING or SANITIZING */
	struct volume *vol;
	struct block_worker *worker;
	void (*done)(void *user, int err); /* NULL: the caller does not wait, or
					    * no longer */
	void *user;			   /* of done() */
	bool immed;
	bool left; /* the caller has left, maybe before the job began */
	int err;   /* its result */
	struct unit_turn turn;
	struct block_drain drain;
	struct reactor_msg msg;
	struct block_cmd blk; /* the current pass */
	struct volume_job_plan plan;
	uint8_t *buf;	  /* a piece of what is written */
	uint8_t *pattern; /* one block */
	unsigned int pass;
	uint64_t epoch;	   /* of all passes; block.h */
	uint64_t began_us; /* reactor_now_us() of the worker */
	uint64_t told_us;  /* when its progress was logged last */
};

/* Thread: setup. */
void volume_job_init(struct volume *vol);

/* Thread: any. */
enum volume_state volume_state(const struct volume *vol);

/**
 * volume_job_start() - begin a job
 * @from: the state that @vol is to be in
 * @immed: not the end is waited for, but that it has begun
 * @done: called once on @w, when the volume is in its new state; maybe from
 *	  within. @err: 0 or negative errno. If nothing has begun: -ESTALE, as
 *	  that could not be written down; -ENOMEDIUM; -EACCES, as SWP is set
 *
 * Thread: @w.
 *
 * Return: 0; -EBUSY when the volume is in another state; -ESHUTDOWN after
 *   volume_job_stop(); -ENOMEM. done() is then not called.
 */
int volume_job_start(struct volume *vol, struct block_worker *w,
		     enum volume_state from, const struct volume_job_plan *plan,
		     bool immed, void (*done)(void *user, int err), void *user);

/* The caller no longer waits for the job, and done() is not called. A job that
 * still waits for its turn does not begin. Thread: that of volume_job_start(). */
void volume_job_leave(struct volume *vol);

/* Takes over whether a job before this start has failed. Thread: setup. */
void volume_job_restore(struct volume *vol);

/* What is saved has changed. If no job runs, the volume is in the state that
 * follows from it. Thread: any. */
void volume_job_rest(struct volume *vol);

/* If its journal may say something else than the unit: saves its state again, as a job
 * without blocks, unless a job runs. Thread: @w. */
void volume_job_save_again(struct volume *vol, struct block_worker *w);

/* Ends the running job soon, and no job begins any more. Thread: any. */
void volume_job_stop(struct volume *vol);

/* After volume_job_stop(): sends @msg to @w once, when no job runs. Thread:
 * any. */
void volume_job_await(struct volume *vol, struct block_worker *w,
		      struct reactor_msg *msg);

#endif
