/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the data of commands, and the time of each command in each stage: for
 * each volume and for each initiator, by operation. Each worker counts in
 * memory of its own, without locks. A report adds up the counts of the workers,
 * without disturbing them.
 *
 *   arrival ............ granted ........... data here ..... disk done ...... response sent
 *      |     queue          |      fetch        |    backend     |    respond     |
 *
 * The clock is read only at the events that end a stage. A stage without a wait
 * costs no reading: a command that gets its buffer at once has no time in the
 * queue, and a store that answers at once takes no time. The CPU time of such a
 * stage counts for the next stage. Therefore READs of volumes in memory have
 * only the stage "respond".
 *
 * Commands that were not answered (aborted; the channel ended) are not counted.
 */
#ifndef TARGET_PORT_METER_H
#define TARGET_PORT_METER_H

#include <stdbool.h>

#include "base/histogram.h"
#include "base/list.h"
#include "base/ticks.h"
#include "target/block/block_worker.h"

enum meter_op {
	METER_OTHER,
	METER_READ,
	METER_WRITE, /* all that write data: COMPARE AND WRITE, ... */
	METER_FLUSH,
	METER_UNMAP, /* UNMAP, WRITE SAME */
	METER_OPS
};

enum meter_stage {
	/* Until the command has all that it needs: its turn, memory for
	 * descriptors and data, and the blocks that other commands use. */
	METER_QUEUE,
	METER_FETCH,   /* RDMA READ of descriptors and data-out */
	METER_BACKEND, /* the disk and the store have it */
	METER_RESPOND, /* RDMA WRITE of data-in, and the response */
	METER_STAGES
};

extern const char *const meter_op_names[METER_OPS];
extern const char *const meter_stage_names[METER_STAGES];

/* enum meter_op of each operation, by enum scsi_op. */
extern const uint8_t meter_op_of[];

/* What one worker has counted of one operation. */
struct meter_counts {
	uint64_t bytes;			      /* payload in both directions */
	struct histogram stage[METER_STAGES]; /* their sums are in ticks */
};

/* The counts of one worker. Only this worker writes them. */
struct meter_share {
	struct meter_counts op[METER_OPS];
	/* State of initiators when the worker last looked. */
	uint64_t channels;
	uint64_t credits;   /* requests that it may have in flight */
	uint64_t in_flight; /* requests in flight */
};

enum meter_kind {
	METER_OF_VOLUME,
	METER_OF_INITIATOR,
};

#define METER_NAME_SIZE 64

struct meter {
	/* in the list of all meters; guarded by their lock, like the next
	 * two */
	struct list node;
	unsigned int users;	    /* meter_begin() */
	unsigned int refs;	    /* users and lists */
	enum meter_kind kind;	    /* constant */
	char name[METER_NAME_SIZE]; /* of the volume or the initiator; constant */
	struct meter_share *shares[BLOCK_WORKERS_MAX]; /* NULL: none yet */
};

/*
 * Returns the meter of that name, which reports include from now on. NULL: no
 * memory. An initiator may have two nexuses, because logins may name the target
 * port or not, but it has one meter. Thread: any, as for all functions below.
 */
struct meter *meter_begin(enum meter_kind kind, const char *name);
/* Ends one use. After the last one, reports do not include the meter, and
 * nobody counts in it. @m may be NULL. */
void meter_end(struct meter *m);

/* Returns the share of worker @index; makes it if there is none, on that worker
 * or before it runs. NULL: no memory. */
struct meter_share *meter_share(struct meter *m, unsigned int index);

/*
 * Returns all meters of @kind in an array that ends with NULL. NULL: no memory.
 * They stay until meter_list_free(), even if they end meanwhile.
 */
struct meter **meter_list(enum meter_kind kind);
void meter_list_free(struct meter **list);

/* Clears the worker's present state of the initiator. Thread: that worker. */
static inline void meter_clear_state(struct meter_share *share)
{
	count_set(&share->channels, 0);
	count_set(&share->credits, 0);
	count_set(&share->in_flight, 0);
}

/* Adds up the counts of all workers. The sums of times are then in nanoseconds.
 * A stage without a wait counts as no time, except the stage "fetch". */
void meter_sum(const struct meter *m, struct meter_share *ret_sum);

/* Returns the number of counted commands. @sum: from meter_sum(). */
uint64_t meter_commands(const struct meter_counts *sum);

/* ---- the time of one command; thread: its worker ---- */

/* In ticks. */
struct meter_clock {
	uint64_t arrived; /* after the first stage: METER_PASSED later */
	/* The other members are valid after the first stage. */
	uint64_t since; /* the last event */
	uint64_t spent[METER_STAGES - 1];
};

/* Added to each time, a few nanoseconds: a time is never 0, which has no
 * bucket. */
#ifdef __x86_64__
#define METER_LEAST_TICKS 16
#else
#define METER_LEAST_TICKS 1
#endif

/* The time since an arrival that is this much later is negative, and so, as an
 * unsigned number, longer than any limit: one comparison finds both commands
 * that have passed a stage and slow ones. */
#define METER_PASSED (1ull << 62)

static inline void meter_clock_start(struct meter_clock *c)
{
	ticks_store(&c->arrived);
}

/* The ticks since the arrival; without meaning after the first stage. */
static inline uint64_t meter_clock_ticks(const struct meter_clock *c)
{
	return ticks_now() - c->arrived + METER_LEAST_TICKS;
}

/* @passed: a stage. */
static inline uint64_t meter_clock_arrived(const struct meter_clock *c,
					   bool passed)
{
	return c->arrived - METER_LEAST_TICKS - (passed ? METER_PASSED : 0);
}

/* The event that ends @stage occurred at @when. @first: the command's first
 * event. A command may pass a stage more than once. */
void meter_clock_pass(struct meter_clock *c, enum meter_stage stage,
		      uint64_t when, bool first);

/* A command of one operation has been answered. Its last stage took @ticks, and
 * @bucket is histogram_index() of this time. */
static inline void meter_count(struct meter_counts *counts, uint64_t bucket,
			       uint64_t ticks, uint64_t bytes)
{
	struct histogram *respond = &counts->stage[METER_RESPOND];

	count_add(&respond->bucket[bucket], 1);
	count_add(&respond->sum, ticks);
	count_add(&counts->bytes, bytes);
}

/* Counts the earlier stages of a command that has passed one. */
void meter_count_stages(struct meter_counts *counts,
			const struct meter_clock *c);

/* Returns the bucket of any number of ticks. */
uint64_t meter_bucket(uint64_t ticks);

#endif
