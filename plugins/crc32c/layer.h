/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crc32c: a layer that keeps a checksum of each block in a file, and fails a read
 * whose data does not match.
 *
 * A thread does all that has to do with the file, because a file system may block.
 * It is alone in using the records. A worker gives an I/O to it by the inbox, and
 * gets it back by the outbox of its queue, to ask the backend below for something.
 *
 * A write. Its sums are in the file before its data goes below (sums.h). So after
 * a crash each block has one of the two sums of its record. There is no place for
 * a third one: when a block is written again and the first write is not settled
 * yet, the layer flushes the backend below before. With sync=on the records are
 * also stable before the data goes below, so the same is true after a power cut.
 *
 * A read. The worker reads at once; the thread compares. When the data does not
 * match, a write may have come in between: the layer reads again, while no
 * overlapping change is on its way. Only then the read fails.
 *
 *   layer.c     open, close, parameters
 *   queue.c     the worker: submits, and asks the backend below
 *   thread.c    the thread, and how I/Os come and go
 *   claims.c    I/Os that want their blocks alone
 *   change.c    writes, zeroes and unmaps
 *   check.c     reads
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

/* Records that are looked at together. */
#define CRCLAYER_CHUNK 1024u
/* Zeroing of more than this leaves blocks without a sum. Bytes. */
#define CRCLAYER_ZERO_MAX (64ull << 20)

/* What an I/O has asked of the backend below, or is about to ask. */
enum crclayer_step {
	CRCLAYER_BEGIN,	  /* nothing yet: another thread has submitted it */
	CRCLAYER_READ,	  /* the data, while others may change it */
	CRCLAYER_LOOK,	  /* the data again, while nobody changes it */
	CRCLAYER_RESOLVE, /* a block in doubt that is to be written */
	CRCLAYER_SETTLE,  /* a flush, so that a block can be written again */
	CRCLAYER_CHANGE,  /* the write, zero or unmap; its records are made */
	CRCLAYER_FLUSH,	  /* the flush that was asked for */
};

/* In the scratch of an I/O. */
struct crclayer_io {
	TAILQ_ENTRY(crclayer_io) node;	/* of inbox, outbox or parked */
	TAILQ_ENTRY(crclayer_io) claim; /* of claims */
	struct rbp_io *io;
	enum crclayer_step step;
	bool is_running; /* its claim holds */
	int res;	 /* of the last step */
	/* READ: no change was on its way when it began, and how many had begun. */
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
	bool is_filled;		     /* the thread's: wake the worker */
	TAILQ_ENTRY(crclayer_queue) filled;
};

TAILQ_HEAD(crclayer_queues, crclayer_queue);

struct crclayer {
	struct rbp_vol *vol;
	uint32_t block_size;
	bool has_cache; /* writes that have ended may be lost */
	bool has_fua;
	bool syncs; /* records are stable before data goes below */
	bool is_read_only;
	bool learns;	   /* a block without a sum gets one when it is read */
	uint32_t zero_sum; /* of a block of zeroes */
	_Atomic uint64_t begun;	    /* changes, ever */
	_Atomic uint64_t under_way; /* changes that the backend below has */

	pthread_mutex_t lock; /* never held during a call that blocks */
	pthread_cond_t work;
	/* under the lock */
	struct crclayer_list inbox;
	bool stopping;
	bool has_thread;
	pthread_t thread;

	/* the thread's */
	struct crcsums sums;
	/* Those that want their blocks alone, oldest first. */
	struct crclayer_list claims;
	unsigned int waiting_cnt;    /* that are not running */
	struct crclayer_list parked; /* wait for the flush of settler */
	struct crclayer_io *settler;
	struct crclayer_list ready; /* to the outboxes, after a sync if need be */
	bool must_sync;
	bool is_broken; /* the file cannot be written */
	struct crcsum records[CRCLAYER_CHUNK];
};

/* Looks at the record of @block, and may change it: 1. 0: it stays as it is. A
 * negative errno ends the walk. */
typedef int crclayer_visit(struct crclayer *l, struct crclayer_io *n,
			   uint64_t block, struct crcsum *c);

extern const struct rbp_host *crclayer_host;

/* ---- queue.c [worker] ---- */

int crclayer_queue_add(void *v, struct rbp_queue *queue, void **ret);
void crclayer_queue_del(void *queue_data);
void crclayer_submit(void *v, struct rbp_io *io);

/* ---- thread.c ---- */

/* Gives @n to the thread, which makes its next step. Thread: any. If the thread
 * cannot be made, @n ends with the error. */
void crclayer_to_thread(struct crclayer *l, struct crclayer_io *n);

/* All that follows is the thread's. */

/* @n asks the backend below for @step, at the end of this turn of the thread. */
void crclayer_to_worker(struct crclayer *l, struct crclayer_io *n,
			enum crclayer_step step);

/* ---- claims.c ---- */

/* @n wants to be alone with its blocks. */
void crclayer_claim(struct crclayer *l, struct crclayer_io *n);

/* Ends @n, which has claimed its blocks. */
void crclayer_release(struct crclayer *l, struct crclayer_io *n, int res);

/* The oldest that waits for no other one; NULL: there is none. */
struct crclayer_io *crclayer_next_to_run(struct crclayer *l);

/* ---- change.c ---- */

/* @n is alone with its blocks, and is to be written. */
void crclayer_change(struct crclayer *l, struct crclayer_io *n);
void crclayer_end_change(struct crclayer *l, struct crclayer_io *n);

/* The block of a write that was in doubt has been read. */
void crclayer_resolved(struct crclayer *l, struct crclayer_io *n);

/* The flush has ended that @n, and maybe others, waited for. */
void crclayer_settled(struct crclayer *l, struct crclayer_io *n);

/* ---- check.c ---- */

/* The first look at what was read; and the second one, at what was read while @n
 * was alone with its blocks. They end @n. */
void crclayer_glance(struct crclayer *l, struct crclayer_io *n);
void crclayer_looked(struct crclayer *l, struct crclayer_io *n);

/* @block has @data, and nobody changes it. 0; 1: @c has changed; -EIO, and a line in
 * the log: @data is not what was written. */
int crclayer_judge_block(struct crclayer *l, uint64_t block, struct crcsum *c,
			 const void *data);

/* ---- flush.c ---- */

/* 0, and @n asks for a flush; or a negative errno. */
int crclayer_begin_flush(struct crclayer *l, struct crclayer_io *n,
			 enum crclayer_step step);

/* The flush of @n has ended. 0 or a negative errno. */
int crclayer_end_flush(struct crclayer *l, const struct crclayer_io *n);

/* ---- records.c ---- */

/* The records of all blocks of @n, in ascending order. 0, or the first error. */
int crclayer_walk(struct crclayer *l, struct crclayer_io *n,
		  crclayer_visit *visit);

/* Nothing more is changed: what the file would say is not known. Returns -EIO. */
int crclayer_break(struct crclayer *l, int err);

/* The data of @n for @block. */
const void *crclayer_data(const struct crclayer *l, const struct crclayer_io *n,
			  uint64_t block);

/* The checksum of what @n makes of @block. */
uint32_t crclayer_sum(const struct crclayer *l, const struct crclayer_io *n,
		      uint64_t block);

/* Does @io leave sums? Else its blocks have none after it. */
bool crclayer_has_sums(const struct rbp_io *io);

/* A crash may leave what was there before. */
bool crclayer_is_unsettled(const struct crclayer *l, const struct crcsum *c);

#endif
