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
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#include "crc32c.h"
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

static const struct rbp_host *crclayer_host;

/* ---- the worker ---- */

static void crclayer_to_thread(struct crclayer *l, struct crclayer_io *n);

static void crclayer_ended(struct rbp_io *child, int res)
{
	struct rbp_io *io = child->parent;
	struct crclayer_io *n = io->scratch;
	struct crclayer_queue *q = io->queue_data;

	if (n->step != CRCLAYER_RESOLVE && n->step != CRCLAYER_SETTLE) {
		io->extent_len = child->extent_len;
		io->extent_mapped = child->extent_mapped;
		io->progress = child->progress;
	}
	n->res = res;
	crclayer_to_thread(q->layer, n);
}

static void crclayer_ask(struct crclayer_io *n)
{
	const struct crclayer_queue *q = n->io->queue_data;
	struct rbp_io *child = crclayer_host->child(n->io);

	child->ended = crclayer_ended;
	if (n->step == CRCLAYER_RESOLVE) {
		child->op = RBP_READ;
		child->flags = 0;
		child->offset = n->block_offset;
		child->len = q->layer->block_size;
		child->buf = n->block;
	}
	if (n->step == CRCLAYER_SETTLE) {
		child->op = RBP_FLUSH;
		child->flags = 0;
		child->offset = 0;
		child->len = 0;
		child->buf = NULL;
	}
	crclayer_host->below(child);
}

static void crclayer_woken(void *user, uint32_t events)
{
	struct crclayer_queue *q = user;
	struct crclayer_list todo = TAILQ_HEAD_INITIALIZER(todo);
	struct crclayer_io *n;
	eventfd_t count;

	eventfd_read(q->wake_fd, &count);
	pthread_mutex_lock(&q->layer->lock);
	TAILQ_CONCAT(&todo, &q->outbox, node);
	pthread_mutex_unlock(&q->layer->lock);
	while ((n = TAILQ_FIRST(&todo))) {
		TAILQ_REMOVE(&todo, n, node);
		crclayer_ask(n);
	}
}

/* ---- between worker and thread ---- */

static void *crclayer_main(void *arg);

/* The thread is made when it is needed first, so that it has only the rights that
 * rdma-target serves with. */
static void crclayer_to_thread(struct crclayer *l, struct crclayer_io *n)
{
	int err = 0;

	pthread_mutex_lock(&l->lock);
	if (!l->has_thread)
		err = pthread_create(&l->thread, NULL, crclayer_main, l);
	if (!err) {
		l->has_thread = true;
		TAILQ_INSERT_TAIL(&l->inbox, n, node);
		pthread_cond_signal(&l->work);
	}
	pthread_mutex_unlock(&l->lock);
	if (err)
		crclayer_host->done(n->io, -err);
}

/* @n asks the backend below for @step, at the end of this turn of the thread. */
static void crclayer_to_worker(struct crclayer *l, struct crclayer_io *n,
			       enum crclayer_step step)
{
	n->step = step;
	TAILQ_INSERT_TAIL(&l->ready, n, node);
}

/* ---- records ---- */

static int crclayer_visit_chunk(struct crclayer *l, struct crclayer_io *n,
				uint64_t first, unsigned int cnt,
				crclayer_visit *visit)
{
	bool has_changed = false;
	int res = crcsums_read(&l->sums, first, cnt, l->records);

	for (unsigned int i = 0; i < cnt && res >= 0; i++) {
		res = visit(l, n, first + i, &l->records[i]);
		has_changed |= res > 0;
	}
	if (res >= 0 && has_changed)
		res = crcsums_write(&l->sums, first, cnt, l->records);
	return res < 0 ? res : 0;
}

/* The records of all blocks of @n, in ascending order. 0, or the first error. */
static int crclayer_walk(struct crclayer *l, struct crclayer_io *n,
			 crclayer_visit *visit)
{
	uint64_t block = n->io->offset / l->block_size;
	uint64_t end = block + n->io->len / l->block_size;
	int err = 0;

	while (block < end && !err) {
		unsigned int cnt = end - block < CRCLAYER_CHUNK
					   ? (unsigned int)(end - block)
					   : CRCLAYER_CHUNK;

		err = crclayer_visit_chunk(l, n, block, cnt, visit);
		block += cnt;
	}
	return err;
}

/* Nothing more is changed: what the file would say is not known. */
static int crclayer_break(struct crclayer *l, int err)
{
	if (!l->is_broken)
		crclayer_host->log(
			l->vol, RBP_ERROR,
			"the file of checksums fails (%s); writes "
			"and flushes fail until the volume is opened "
			"again",
			strerror(-err));
	l->is_broken = true;
	return -EIO;
}

static const void *crclayer_data(const struct crclayer *l,
				 const struct crclayer_io *n, uint64_t block)
{
	return (const uint8_t *)n->io->buf +
	       (block * l->block_size - n->io->offset);
}

/* Of what @n makes of @block. */
static uint32_t crclayer_sum(const struct crclayer *l,
			     const struct crclayer_io *n, uint64_t block)
{
	if (n->io->op == RBP_ZERO)
		return l->zero_sum;
	return crc32c_of(crclayer_data(l, n, block), l->block_size);
}

/* Does it leave sums? Else its blocks have none after it. */
static bool crclayer_has_sums(const struct rbp_io *io)
{
	return io->op == RBP_WRITE ||
	       (io->op == RBP_ZERO && io->len <= CRCLAYER_ZERO_MAX);
}

/* A crash may leave what was there before. */
static bool crclayer_is_unsettled(const struct crclayer *l,
				  const struct crcsum *c)
{
	return l->has_cache && c->epoch > l->sums.settled &&
	       (c->sum != c->before || c->flags & CRCSUM_ANY);
}

/* ---- claims ---- */

static bool crclayer_overlap(const struct rbp_io *a, const struct rbp_io *b)
{
	return a->offset < b->offset + b->len && b->offset < a->offset + a->len;
}

/* For one that came before it. */
static bool crclayer_must_wait(const struct crclayer *l,
			       const struct crclayer_io *n)
{
	const struct crclayer_io *other;

	TAILQ_FOREACH(other, &l->claims, claim)
	{
		if (other == n)
			return false;
		if (crclayer_overlap(other->io, n->io))
			return true;
	}
	return false;
}

/* @n wants to be alone with its blocks. */
static void crclayer_claim(struct crclayer *l, struct crclayer_io *n)
{
	n->is_running = false;
	TAILQ_INSERT_TAIL(&l->claims, n, claim);
	l->waiting_cnt++;
}

static void crclayer_release(struct crclayer *l, struct crclayer_io *n, int res)
{
	TAILQ_REMOVE(&l->claims, n, claim);
	free(n->block);
	crclayer_host->done(n->io, res);
}

static struct crclayer_io *crclayer_next_to_run(struct crclayer *l)
{
	struct crclayer_io *n;

	if (!l->waiting_cnt)
		return NULL;
	TAILQ_FOREACH(n, &l->claims, claim)
	{
		if (!n->is_running && !crclayer_must_wait(l, n))
			return n;
	}
	return NULL;
}

/* ---- flushes ---- */

/* Of a flush that begins now: the writes of each epoch up to this one have ended. */
static uint64_t crclayer_covered(const struct crclayer *l)
{
	uint64_t covered = l->sums.epoch;
	const struct crclayer_io *n;

	TAILQ_FOREACH(n, &l->claims, claim)
	{
		if (n->is_running && n->step == CRCLAYER_CHANGE &&
		    n->epoch <= covered)
			covered = n->epoch - 1;
	}
	return covered;
}

/* 0, and @n asks for a flush; or a negative errno. */
static int crclayer_begin_flush(struct crclayer *l, struct crclayer_io *n,
				enum crclayer_step step)
{
	int err;

	if (l->is_broken)
		return -EIO;
	n->epoch = crclayer_covered(l);
	err = l->is_read_only ? 0 : crcsums_next_epoch(&l->sums);
	if (err)
		return crclayer_break(l, err);
	crclayer_to_worker(l, n, step);
	return 0;
}

static int crclayer_end_flush(struct crclayer *l, const struct crclayer_io *n)
{
	int err;

	if (n->res || l->is_read_only)
		return n->res;
	err = crcsums_settle(&l->sums, n->epoch);
	return err ? crclayer_break(l, err) : 0;
}

/* ---- changes ---- */

/* Ends the walk at a block that cannot be written yet. */
#define CRCLAYER_IN_DOUBT  (-EAGAIN)
#define CRCLAYER_UNSETTLED (-EBUSY)

static int crclayer_visit_old(struct crclayer *l, struct crclayer_io *n,
			      uint64_t block, struct crcsum *c)
{
	n->block_offset = block * l->block_size;
	if (c->flags & (CRCSUM_NONE | CRCSUM_ANY | CRCSUM_DAMAGED))
		return 0;
	if (crcsums_in_doubt(&l->sums, c))
		return CRCLAYER_IN_DOUBT;
	return crclayer_is_unsettled(l, c) ? CRCLAYER_UNSETTLED : 0;
}

static int crclayer_visit_new(struct crclayer *l, struct crclayer_io *n,
			      uint64_t block, struct crcsum *c)
{
	bool any = c->flags & (CRCSUM_NONE | CRCSUM_DAMAGED);

	if (c->flags & CRCSUM_ANY &&
	    (crcsums_in_doubt(&l->sums, c) || crclayer_is_unsettled(l, c)))
		any = true;
	*c = (struct crcsum){
		.sum = crclayer_sum(l, n, block),
		.before = c->sum,
		.epoch = l->sums.epoch,
		.flags = any ? CRCSUM_ANY : 0,
	};
	return 1;
}

/* The write has ended, and is stable. */
static int crclayer_visit_stable(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	c->before = c->sum;
	c->flags = 0;
	return 1;
}

/* The write has failed: nobody knows what the block has. */
static int crclayer_visit_failed(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	c->flags |= CRCSUM_DOUBT;
	return 1;
}

static int crclayer_record(struct crclayer *l, struct crclayer_io *n)
{
	if (crclayer_has_sums(n->io))
		return crclayer_walk(l, n, crclayer_visit_new);
	return crcsums_forget(&l->sums, n->io->offset / l->block_size,
			      n->io->len / l->block_size);
}

/* The records of @n are as they must be when its data may be there. */
static void crclayer_begin_change(struct crclayer *l, struct crclayer_io *n)
{
	int err = crclayer_record(l, n);

	if (err) {
		crclayer_release(l, n, crclayer_break(l, err));
		return;
	}
	n->epoch = l->sums.epoch;
	/* In this order: see crclayer_submit(). */
	atomic_fetch_add(&l->under_way, 1);
	atomic_fetch_add(&l->begun, 1);
	l->must_sync = l->syncs;
	crclayer_to_worker(l, n, CRCLAYER_CHANGE);
}

static void crclayer_end_change(struct crclayer *l, struct crclayer_io *n)
{
	bool is_stable =
		!l->has_cache || (l->has_fua && n->io->flags & RBP_FUA);
	int err = 0;

	if (crclayer_has_sums(n->io) && (n->res || is_stable))
		err = crclayer_walk(l, n,
				    n->res ? crclayer_visit_failed
					   : crclayer_visit_stable);
	atomic_fetch_sub(&l->under_way, 1);
	if (err)
		err = crclayer_break(l, err);
	crclayer_release(l, n, n->res ? n->res : err);
}

/* Reads a block of @n, to know which of two sums it has. */
static void crclayer_resolve(struct crclayer *l, struct crclayer_io *n)
{
	if (!n->block && posix_memalign(&n->block, 4096, l->block_size)) {
		n->block = NULL;
		crclayer_release(l, n, -ENOMEM);
		return;
	}
	crclayer_to_worker(l, n, CRCLAYER_RESOLVE);
}

/* Waits for a flush, which the first one that needs it asks for. */
static void crclayer_park(struct crclayer *l, struct crclayer_io *n)
{
	int err = 0;

	if (l->settler) {
		TAILQ_INSERT_TAIL(&l->parked, n, node);
		return;
	}
	err = crclayer_begin_flush(l, n, CRCLAYER_SETTLE);
	if (err)
		crclayer_release(l, n, err);
	else
		l->settler = n;
}

/* @n is alone with its blocks, and is to be written. */
static void crclayer_change(struct crclayer *l, struct crclayer_io *n)
{
	int err = l->is_broken ? -EIO : 0;

	if (!err && crclayer_has_sums(n->io))
		err = crclayer_walk(l, n, crclayer_visit_old);
	if (err == CRCLAYER_IN_DOUBT)
		crclayer_resolve(l, n);
	else if (err == CRCLAYER_UNSETTLED)
		crclayer_park(l, n);
	else if (err)
		crclayer_release(l, n, crclayer_break(l, err));
	else
		crclayer_begin_change(l, n);
}

static void crclayer_settled(struct crclayer *l, struct crclayer_io *n)
{
	struct crclayer_list parked = TAILQ_HEAD_INITIALIZER(parked);
	int err = crclayer_end_flush(l, n);

	l->settler = NULL;
	TAILQ_CONCAT(&parked, &l->parked, node);
	while (n) {
		if (err)
			crclayer_release(l, n, err);
		else
			crclayer_change(l, n);
		n = TAILQ_FIRST(&parked);
		if (n)
			TAILQ_REMOVE(&parked, n, node);
	}
}

/* ---- what a read has found ---- */

/* The block has @sum for sure, at least until the next crash. */
static int crclayer_take_sum(struct crclayer *l, struct crcsum *c, uint32_t sum)
{
	if (l->is_read_only || l->is_broken)
		return 0;
	c->before = sum == c->sum ? c->before : c->sum;
	c->sum = sum;
	c->epoch = l->sums.epoch;
	c->flags &= CRCSUM_ANY;
	if (!l->has_cache) {
		c->before = sum;
		c->flags = 0;
	}
	return 1;
}

static bool crclayer_matches(const struct crclayer *l, const struct crcsum *c,
			     uint32_t sum)
{
	if (c->flags & CRCSUM_DAMAGED)
		return false;
	if (c->flags & CRCSUM_NONE || c->sum == sum)
		return true;
	return crcsums_in_doubt(&l->sums, c) &&
	       (c->before == sum || c->flags & CRCSUM_ANY);
}

static int crclayer_mismatch(struct crclayer *l, uint64_t block,
			     const struct crcsum *c, uint32_t sum)
{
	if (c->flags & CRCSUM_DAMAGED)
		crclayer_host->log(l->vol, RBP_ERROR,
				   "block %llu: its record in the file of "
				   "checksums is damaged",
				   (unsigned long long)block);
	else
		crclayer_host->log(l->vol, RBP_ERROR,
				   "block %llu does not match its checksum: it "
				   "is 0x%08x, 0x%08x was written",
				   (unsigned long long)block, sum, c->sum);
	return -EIO;
}

/* Nobody changes @block: what was read is what there is. */
static int crclayer_judge_block(struct crclayer *l, uint64_t block,
				struct crcsum *c, const void *data)
{
	uint32_t sum = crc32c_of(data, l->block_size);

	if (!crclayer_matches(l, c, sum))
		return crclayer_mismatch(l, block, c, sum);
	if (c->flags & CRCSUM_NONE) {
		if (!l->learns)
			return 0;
		/* What was deallocated may be back after a power cut. */
		*c = (struct crcsum){ .sum = sum, .before = sum };
		if (l->sums.forgot > l->sums.settled)
			c->flags = CRCSUM_ANY;
		return crclayer_take_sum(l, c, sum);
	}
	return crcsums_in_doubt(&l->sums, c) ? crclayer_take_sum(l, c, sum) : 0;
}

static int crclayer_visit_judge(struct crclayer *l, struct crclayer_io *n,
				uint64_t block, struct crcsum *c)
{
	int res = crclayer_judge_block(l, block, c, crclayer_data(l, n, block));

	if (res < 0)
		n->io->progress = block * l->block_size - n->io->offset;
	return res;
}

/* Is the read good whatever others do? */
static int crclayer_visit_glance(struct crclayer *l, struct crclayer_io *n,
				 uint64_t block, struct crcsum *c)
{
	if (c->flags & CRCSUM_NONE)
		return l->learns ? -EAGAIN : 0;
	if (c->flags & CRCSUM_DAMAGED || crcsums_in_doubt(&l->sums, c) ||
	    c->sum != crclayer_sum(l, n, block))
		return -EAGAIN;
	return 0;
}

/* The first look at what was read. */
static void crclayer_glance(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res ? n->res : crclayer_walk(l, n, crclayer_visit_glance);

	if (err != -EAGAIN || n->res)
		crclayer_host->done(n->io, err);
	else if (n->was_quiet && n->begun == atomic_load(&l->begun))
		crclayer_host->done(n->io,
				    crclayer_walk(l, n, crclayer_visit_judge));
	else
		crclayer_claim(l, n);
}

static void crclayer_looked(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res ? n->res : crclayer_walk(l, n, crclayer_visit_judge);

	crclayer_release(l, n, err);
}

/* 0, or a negative errno of the file. */
static int crclayer_take_block(struct crclayer *l, const struct crclayer_io *n)
{
	uint64_t block = n->block_offset / l->block_size;
	struct crcsum c;
	int res = crcsums_read(&l->sums, block, 1, &c);

	if (res)
		return res;
	/* A block that a power cut has torn may not be readable. */
	res = n->res ? n->res : crclayer_judge_block(l, block, &c, n->block);
	/* It is to be written anew: what is wrong with it ends by that. */
	if (res < 0)
		c.flags = CRCSUM_ANY | CRCSUM_DOUBT;
	return res ? crcsums_write(&l->sums, block, 1, &c) : 0;
}

/* The block of a write that was in doubt. */
static void crclayer_resolved(struct crclayer *l, struct crclayer_io *n)
{
	int err = n->res == -EIO ? 0 : n->res;

	if (!err) {
		err = crclayer_take_block(l, n);
		if (err)
			err = crclayer_break(l, err);
	}
	if (err)
		crclayer_release(l, n, err);
	else
		crclayer_change(l, n);
}

/* ---- the thread ---- */

/* It is alone with its blocks now. */
static void crclayer_start(struct crclayer *l, struct crclayer_io *n)
{
	n->is_running = true;
	l->waiting_cnt--;
	if (n->io->op == RBP_READ)
		crclayer_to_worker(l, n, CRCLAYER_LOOK);
	else
		crclayer_change(l, n);
}

static void crclayer_begin(struct crclayer *l, struct crclayer_io *n)
{
	int err;

	if (n->io->op != RBP_FLUSH) {
		crclayer_claim(l, n);
		return;
	}
	err = crclayer_begin_flush(l, n, CRCLAYER_FLUSH);
	if (err)
		crclayer_host->done(n->io, err);
}

/* The backend below has done the step of @n. */
static void crclayer_go_on(struct crclayer *l, struct crclayer_io *n)
{
	switch (n->step) {
	case CRCLAYER_BEGIN:
		crclayer_begin(l, n);
		break;
	case CRCLAYER_READ:
		crclayer_glance(l, n);
		break;
	case CRCLAYER_LOOK:
		crclayer_looked(l, n);
		break;
	case CRCLAYER_RESOLVE:
		crclayer_resolved(l, n);
		break;
	case CRCLAYER_SETTLE:
		crclayer_settled(l, n);
		break;
	case CRCLAYER_CHANGE:
		crclayer_end_change(l, n);
		break;
	case CRCLAYER_FLUSH:
		crclayer_host->done(n->io, crclayer_end_flush(l, n));
		break;
	}
}

/* Before data goes below, records are stable. False: they are not. */
static bool crclayer_sync(struct crclayer *l)
{
	int err = l->must_sync ? crcsums_sync(&l->sums) : 0;

	l->must_sync = false;
	if (err)
		crclayer_break(l, err);
	return !err;
}

static void crclayer_deliver(struct crclayer *l)
{
	struct crclayer_queues filled = TAILQ_HEAD_INITIALIZER(filled);
	bool is_synced = crclayer_sync(l);
	struct crclayer_queue *q;
	struct crclayer_io *n;

	while ((n = TAILQ_FIRST(&l->ready))) {
		TAILQ_REMOVE(&l->ready, n, node);
		if (n->step == CRCLAYER_CHANGE && !is_synced) {
			n->res = -EIO;
			crclayer_end_change(l, n);
			continue;
		}
		q = n->io->queue_data;
		pthread_mutex_lock(&l->lock);
		TAILQ_INSERT_TAIL(&q->outbox, n, node);
		pthread_mutex_unlock(&l->lock);
		if (!q->is_filled)
			TAILQ_INSERT_TAIL(&filled, q, filled);
		q->is_filled = true;
	}
	while ((q = TAILQ_FIRST(&filled))) {
		TAILQ_REMOVE(&filled, q, filled);
		q->is_filled = false;
		eventfd_write(q->wake_fd, 1);
	}
}

static void crclayer_turn(struct crclayer *l, struct crclayer_list *todo)
{
	struct crclayer_io *n;

	while ((n = TAILQ_FIRST(todo))) {
		TAILQ_REMOVE(todo, n, node);
		crclayer_go_on(l, n);
	}
	do {
		while ((n = crclayer_next_to_run(l)))
			crclayer_start(l, n);
		crclayer_deliver(l);
	} while (crclayer_next_to_run(l));
}

static void *crclayer_main(void *arg)
{
	struct crclayer *l = arg;

	pthread_setname_np(pthread_self(), "crc32c");
	pthread_mutex_lock(&l->lock);
	while (!TAILQ_EMPTY(&l->inbox) || !l->stopping) {
		struct crclayer_list todo = TAILQ_HEAD_INITIALIZER(todo);

		if (TAILQ_EMPTY(&l->inbox)) {
			pthread_cond_wait(&l->work, &l->lock);
			continue;
		}
		TAILQ_CONCAT(&todo, &l->inbox, node);
		pthread_mutex_unlock(&l->lock);
		crclayer_turn(l, &todo);
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* ---- queues ---- */

static void crclayer_queue_del(void *queue_data)
{
	struct crclayer_queue *q = queue_data;

	if (q->wake)
		crclayer_host->watch_del(q->wake);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	free(q);
}

static int crclayer_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct crclayer_queue *q = calloc(1, sizeof(*q));
	int err = 0;

	if (!q)
		return -ENOMEM;
	q->layer = v;
	TAILQ_INIT(&q->outbox);
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake_fd < 0)
		err = -errno;
	else
		q->wake = crclayer_host->watch_add(
			queue, q->wake_fd, RBP_READABLE, crclayer_woken, q);
	if (!err && !q->wake)
		err = -ENOMEM;
	if (err)
		crclayer_queue_del(q);
	else
		*ret = q;
	return err;
}

/* ---- I/O ---- */

static void crclayer_pass_ended(struct rbp_io *child, int res)
{
	child->parent->extent_len = child->extent_len;
	child->parent->extent_mapped = child->extent_mapped;
	crclayer_host->done(child->parent, res);
}

static void crclayer_submit(void *v, struct rbp_io *io)
{
	struct crclayer *l = v;
	struct crclayer_io *n = io->scratch;
	struct rbp_io *child;

	*n = (struct crclayer_io){ .io = io, .step = CRCLAYER_BEGIN };
	if (io->op == RBP_EXTENT) {
		child = crclayer_host->child(io);
		child->ended = crclayer_pass_ended;
		crclayer_host->below(child);
	} else if (io->op == RBP_READ) {
		n->step = CRCLAYER_READ;
		/* A change that begins after this is found by begun. */
		n->begun = atomic_load(&l->begun);
		n->was_quiet = !atomic_load(&l->under_way);
		crclayer_ask(n);
	} else {
		crclayer_to_thread(l, n);
	}
}

/* ---- life ---- */

static void crclayer_take_args(struct crclayer *l, struct crcsums_wanted *w,
			       const struct rbp_arg *args)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "sums"))
			w->path = args->text;
		else if (!strcmp(args->name, "init"))
			w->make = args->number;
		else if (!strcmp(args->name, "sync"))
			l->syncs = args->number;
	}
}

static void crclayer_take_info(struct crclayer *l, const struct rbp_info *info)
{
	uint32_t caps = info->caps;

	l->block_size = info->volume_block;
	l->is_read_only = info->open_flags & RBP_OPEN_READ_ONLY ||
			  !(caps & RBP_CAN_WRITE);
	l->has_cache = caps & RBP_WRITE_CACHE;
	l->has_fua = caps & RBP_CAN_FUA;
	/* Deallocated blocks may read as this or that. */
	l->learns = !l->is_read_only &&
		    (caps & RBP_UNMAP_ZEROES || !(caps & RBP_CAN_UNMAP));
}

static void crclayer_close(void *v)
{
	struct crclayer *l = v;

	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	if (l->has_thread)
		pthread_join(l->thread, NULL);
	crcsums_close(&l->sums, !l->has_cache && !l->is_broken);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int crclayer_open_sums(struct crclayer *l, const struct rbp_info *info,
			      const struct rbp_arg *args, char *msg,
			      size_t msg_len)
{
	bool lasts = info->caps & RBP_LASTING;
	struct crcsums_wanted wanted = {
		.mark = info->below_mark,
		.bytes = info->bytes - info->bytes % l->block_size,
		.block_size = l->block_size,
		.forget = !lasts,
		.read_only = l->is_read_only,
	};

	crclayer_take_args(l, &wanted, args);
	if (!wanted.path) {
		snprintf(msg, msg_len, "needs sums=PATH");
		return -EINVAL;
	}
	return crcsums_open(&l->sums, &wanted, msg, msg_len);
}

static int crclayer_zero_sum(struct crclayer *l)
{
	void *zeroes = calloc(1, l->block_size);

	if (!zeroes)
		return -ENOMEM;
	l->zero_sum = crc32c_of(zeroes, l->block_size);
	free(zeroes);
	return 0;
}

static int crclayer_open(struct rbp_vol *vol, const char *location,
			 const struct rbp_arg *args, void **ret_v,
			 struct rbp_info *info, char *msg, size_t msg_len)
{
	struct crclayer *l;
	int err;

	if (info->size <
	    offsetof(struct rbp_info, below_mark) + sizeof(info->below_mark)) {
		snprintf(msg, msg_len, "this rdma-target is too old for it");
		return -ENOTSUP;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->vol = vol;
	l->sums.fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	TAILQ_INIT(&l->inbox);
	TAILQ_INIT(&l->claims);
	TAILQ_INIT(&l->parked);
	TAILQ_INIT(&l->ready);
	crclayer_take_info(l, info);
	err = crclayer_zero_sum(l);
	if (!err)
		err = crclayer_open_sums(l, info, args, msg, msg_len);
	if (err)
		crclayer_close(l);
	else
		*ret_v = l;
	return err;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "sums", RBP_STRING, NULL, "the file of checksums" },
		{ "init", RBP_BOOL, "off",
		  "make the file if there is none; blocks get their sums when "
		  "they are read or written first" },
		{ "sync", RBP_BOOL, "on",
		  "make checksums stable before data is written, so that they "
		  "hold after a power cut" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.is_layer = 1,
		.name = "crc32c",
		.version = "1",
		.help = "keeps a checksum of each block, and checks reads",
		.params = params,
		.scratch_len = sizeof(struct crclayer_io),
		.open = crclayer_open,
		.close = crclayer_close,
		.queue_add = crclayer_queue_add,
		.queue_del = crclayer_queue_del,
		.submit = crclayer_submit,
	};

	crclayer_host = host;
	return &plugin;
}
