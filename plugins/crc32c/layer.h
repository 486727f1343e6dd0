/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crc32c: a layer that keeps a checksum of each block in a file, and fails a read
 * whose data does not match.
 *
 * A thread does all work on the file, because a file system may block. Only
 * this thread uses the records. A worker gives it an I/O through the inbox, and
 * gets the I/O back through the outbox of its queue, to submit something to the
 * backend below.
 *
 * A write. Its sums are in the file before its data goes below (sums.h). After
 * a crash, each block therefore has one of the two sums of its record. There is
 * no place for a third one: if a block is written again before the first write
 * is settled, the layer first flushes the backend below. With sync=on, the
 * records are also stable before the data goes below, and the same is true
 * after a power cut.
 *
 * A read. The worker reads at once, and the thread compares. If the data does
 * not match, a write may have come in between: the layer reads again, while no
 * overlapping change is in progress. If the data still does not match, the read
 * fails.
 *
 *   layer.c     open, close, parameters
 *   queue.c     the worker: submits, and calls the backend below
 *   thread.c    the thread, and how I/Os come and go
 *   claims.c    I/Os that need their blocks for themselves
 *   change.c    writes, zeroes and unmaps
 *   check.c     reads
 *   extent.c    extents
 *   flush.c     flushes, and which epochs they settle
 *   records.c   the records of the blocks of an I/O
 */
#ifndef CRC32C_LAYER_H
#define CRC32C_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rdma_block_plugin.h>

#include "sums.h"

/* Records that are processed together. */
#define CRCLAYER_CHUNK 1024u
/* A longer zero leaves blocks without a sum. Bytes. */
#define CRCLAYER_ZERO_MAX (64ull << 20)

/* What an I/O does, or is about to do, in the backend below. */
enum crclayer_step {
	CRCLAYER_BEGIN,	  /* nothing yet: another thread has submitted it */
	CRCLAYER_READ,	  /* reads the data, while others may change it */
	CRCLAYER_LOOK,	  /* reads the data again, while nobody changes it */
	CRCLAYER_RESOLVE, /* reads a block in doubt that is to be written */
	CRCLAYER_SETTLE,  /* flushes, so that a block can be written again */
	CRCLAYER_CHANGE,  /* writes, zeroes or unmaps; its records are made */
	CRCLAYER_FLUSH,	  /* the requested flush */
	CRCLAYER_EXTENT,  /* finds an extent */
};

/* In the scratch of an I/O. */
struct crclayer_io {
	TAILQ_ENTRY(crclayer_io) node;	/* in inbox, outbox or parked */
	TAILQ_ENTRY(crclayer_io) claim; /* in claims */
	struct rbp_io *io;
	enum crclayer_step step;
	bool is_running; /* its claim has been granted */
	int res;	 /* result of the last step */
	/* READ: true if no change was in progress at its start; number of
	 * changes begun by then. */
	bool was_quiet;
	uint64_t begun;
	uint64_t epoch; /* CHANGE: of its records. SETTLE, FLUSH: covers it */
	void *block;	/* RESOLVE */
	uint64_t block_offset;
};

TAILQ_HEAD(crclayer_list, crclayer_io);

/* A volume on one worker. */
struct crclayer_queue {
	struct crclayer *layer;
	int wake_fd; /* eventfd: look at the outbox */
	struct rbp_watch *wake;
	struct crclayer_list outbox; /* under the lock of the layer */
	bool is_filled;		     /* for the thread: wake the worker */
	TAILQ_ENTRY(crclayer_queue) filled;
};

TAILQ_HEAD(crclayer_queues, crclayer_queue);

struct crclayer {
	struct rbp_vol *vol;
	uint32_t block_size;
	bool has_cache; /* writes that have ended may be lost until a flush */
	bool has_fua;
	bool syncs; /* records are stable before data goes below */
	bool is_read_only;
	bool learns;	   /* a block without a sum gets one when it is read */
	uint32_t zero_sum; /* of a block of zeroes */
	_Atomic uint64_t begun;	    /* number of changes so far */
	_Atomic uint64_t under_way; /* number of changes in progress below */

	pthread_mutex_t lock; /* never held during a call that blocks */
	pthread_cond_t work;
	/* guarded by the lock */
	struct crclayer_list inbox;
	bool stopping;
	bool has_thread;
	pthread_t thread;

	/* only for the thread */
	struct crcsums sums;
	/* I/Os that need their blocks for themselves, oldest first. */
	struct crclayer_list claims;
	unsigned int waiting_cnt;    /* claims that are not granted */
	struct crclayer_list parked; /* wait for the flush of settler */
	struct crclayer_io *settler;
	struct crclayer_list ready; /* go to the outboxes, after a sync if
				     * necessary */
	bool must_sync;
	bool is_broken; /* the file cannot be written */
	struct crcsum records[CRCLAYER_CHUNK];
};

/* Looks at the record of @block, and may change it. Returns 1 if it has
 * changed, 0 if not. A negative errno ends the walk. */
typedef int crclayer_visit(struct crclayer *l, struct crclayer_io *n,
			   uint64_t block, struct crcsum *c);

extern const struct rbp_host *crclayer_host;

/* ---- queue.c [worker] ---- */

int crclayer_queue_add(void *v, struct rbp_queue *queue, void **ret);
void crclayer_queue_del(void *queue_data);
void crclayer_submit(void *v, struct rbp_io *io);

/* ---- thread.c ---- */

/* Gives @n to the thread, which does the next step. Thread: any. If the thread
 * cannot be started, @n ends with the error. */
void crclayer_to_thread(struct crclayer *l, struct crclayer_io *n);

/* Only the thread calls the following functions. */

/* The worker does @step of @n, after this turn of the thread. */
void crclayer_to_worker(struct crclayer *l, struct crclayer_io *n,
			enum crclayer_step step);

/* ---- claims.c ---- */

/* @n needs its blocks for itself. */
void crclayer_claim(struct crclayer *l, struct crclayer_io *n);

/* Ends @n, which has claimed its blocks. */
void crclayer_release(struct crclayer *l, struct crclayer_io *n, int res);

/* Returns the oldest one that waits for no other one, or NULL. */
struct crclayer_io *crclayer_next_to_run(struct crclayer *l);

/* ---- change.c ---- */

/* @n has its blocks for itself, and must be written. */
void crclayer_change(struct crclayer *l, struct crclayer_io *n);
void crclayer_end_change(struct crclayer *l, struct crclayer_io *n);

/* The block of a write in doubt has been read. */
void crclayer_resolved(struct crclayer *l, struct crclayer_io *n);

/* The flush for which @n, and maybe others, waited has ended. */
void crclayer_settled(struct crclayer *l, struct crclayer_io *n);

/* ---- check.c ---- */

/* The first check of the data that was read, and the second one, of data that
 * was read while @n had its blocks for itself. They end @n. */
void crclayer_glance(struct crclayer *l, struct crclayer_io *n);
void crclayer_looked(struct crclayer *l, struct crclayer_io *n);

/* @block has @data, and no change of it is in progress. Returns 0, or 1 if @c
 * has changed, or -EIO with a line in the log: @data is not the written
 * data. */
int crclayer_judge_block(struct crclayer *l, uint64_t block, struct crcsum *c,
			 const void *data);

/* ---- extent.c ---- */

/* The backend below has found the extent of @n. Ends @n. */
void crclayer_found_extent(struct crclayer *l, struct crclayer_io *n);

/* ---- flush.c ---- */

/* Returns 0, and @n asks for a flush; or a negative errno. */
int crclayer_begin_flush(struct crclayer *l, struct crclayer_io *n,
			 enum crclayer_step step);

/* The flush of @n has ended. Returns 0 or a negative errno. */
int crclayer_end_flush(struct crclayer *l, const struct crclayer_io *n);

/* ---- records.c ---- */

/* Visits the records of all blocks of @n, in ascending order. Returns 0, or the
 * first error. */
int crclayer_walk(struct crclayer *l, struct crclayer_io *n,
		  crclayer_visit *visit);

/* Stops all changes, because the contents of the file would be unknown. Returns
 * -EIO. */
int crclayer_break(struct crclayer *l, int err);

/* Returns the data of @n for @block. */
const void *crclayer_data(const struct crclayer *l, const struct crclayer_io *n,
			  uint64_t block);

/* Returns the checksum of @block after @n. */
uint32_t crclayer_sum(const struct crclayer *l, const struct crclayer_io *n,
		      uint64_t block);

/* True if blocks have sums after @io. */
bool crclayer_has_sums(const struct rbp_io *io);

/* True if a crash may leave the earlier data. */
bool crclayer_is_unsettled(const struct crclayer *l, const struct crcsum *c);

#endif
