/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A job goes over a whole volume, for as long as that takes: FORMAT UNIT and
 * SANITIZE. There is one at a time per volume. While it runs, and after it has
 * failed, the volume is not ready (volume_state()); whoever executes commands
 * is to ask for that after it has its blocks (block_lock.h), because a job
 * begins once those are gone that had theirs before.
 *
 * A job runs on one worker, piece by piece, and lets others have their turn
 * after each. It ends early, as failed, when it is told to stop.
 *
 * Where there is a state directory a job begins when that is written down, and
 * has ended when that is. So what the process leaves unfinished is found at the
 * next start: a volume that was being formatted has a format that failed, one
 * that was being sanitized goes on with it from the beginning (SBC-4 4.11.2, as
 * after a loss of power).
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
	/* Writes each block full of pattern_len (1 ... block size) bytes again
	 * and again, so many times; the last time as they are. */
	unsigned int overwrite_cnt;
	bool invert;		/* every other time, counted from the last */
	const uint8_t *pattern; /* borrowed for volume_job_start() */
	uint32_t pattern_len;
	/* Writes zeroes over what the store says is in use. */
	bool scrub;
	bool lenient; /* of the caller: how a failure is to be left */
	/* Deallocates all blocks where that reads as zeroes, else zeroes. */
	bool erase;
};

struct volume_job {
	/* any thread */
	_Atomic int state;	       /* enum volume_state */
	_Atomic uint32_t progress;     /* of 65536 */
	_Atomic uint32_t seconds_left; /* an estimate, at least 1; 0: none yet */
	_Atomic bool stopping;	       /* for good */
	/* What the caller of the job asked for that failed; written before state
	 * says that it has. A job that begins does not touch it. */
	_Atomic bool lenient;
	_Atomic(struct reactor_msg *) waiter; /* sent when no job runs */
	struct block_worker *waiter_worker;   /* set before waiter */

	/* whoever has made state FORMATTING or SANITIZING */
	struct volume *vol;
	struct block_worker *worker;
	void (*done)(void *user, int err); /* NULL: nobody waits (any more) */
	void *user;			   /* of done() */
	bool immed;
	bool left; /* by whoever began it, maybe before it has begun */
	enum volume_state from;
	int err; /* what it ends with */
	struct unit_turn turn;
	struct block_hold hold;
	struct reactor_msg msg;
	struct block_cmd blk; /* the present pass */
	struct volume_job_plan plan;
	uint8_t *buf;	  /* a piece of what is written */
	uint8_t *pattern; /* one block */
	unsigned int pass;
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
 *	  within. @err: 0 or negative errno; -ESTALE: nothing has begun, as that
 *	  could not be written down
 *
 * Thread: @w.
 *
 * Return: 0; -EBUSY when the volume is in another state; -ESHUTDOWN after
 *   volume_job_stop(); -ENOMEM. done() is then not called.
 */
int volume_job_start(struct volume *vol, struct block_worker *w,
		     enum volume_state from, const struct volume_job_plan *plan,
		     bool immed, void (*done)(void *user, int err), void *user);

/* Whoever began the job waits for it no more; done() is not called. A job that
 * still waits for its turn does not begin. Thread: that of volume_job_start(). */
void volume_job_leave(struct volume *vol);

/* What was written down of a job before this start. Thread: setup. */
void volume_job_restore(struct volume *vol, const struct state_job *job);
/* Goes on with a sanitize operation. Thread: setup, when @w can do I/O. */
void volume_job_resume(struct volume *vol, struct block_worker *w);

/* Leaves a failed state, if the volume is in it. Thread: any. */
bool volume_job_forgive(struct volume *vol, enum volume_state failed);

/* Lets the job that runs end soon, and none begin any more. Thread: any. */
void volume_job_stop(struct volume *vol);

/* After volume_job_stop(): sends @msg to @w when no job runs (any more), once.
 * Thread: any. */
void volume_job_await(struct volume *vol, struct block_worker *w,
		      struct reactor_msg *msg);

#endif
