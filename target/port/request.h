/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SRP_CMD, from the arrival of its IU until its response is sent. Also the
 * slot of an SRP_TSK_MGMT. Nothing is allocated: if no buffer is free, the
 * request waits. docs/channel-life.md has diagrams.
 *
 * Thread: the worker of the channel.
 */
#ifndef TARGET_PORT_REQUEST_H
#define TARGET_PORT_REQUEST_H

#include "protocol/srp_iu.h"
#include "target/port/channel.h"
#include "target/scsi/task.h"

/* Descriptors that fit into a request. A longer list takes a block of the
 * worker's tables. The default of ib_srp is at most 12. */
#define REQUEST_DESCS 16

/* The longest descriptor list, in descriptors: the longest that ib_srp can make
 * (indirect_sg_entries). */
#define REQUEST_DESCS_MAX 2048

/* While so many requests of a volume linger that were ended, its commands for blocks
 * are answered with BUSY: a store that does not answer must not get all memory. */
#define REQUEST_LINGERING_MAX 16

/* request_run_steps() in request.c leads through the states. */
enum request_state {
	REQUEST_FREE,	     /* in the worker's pool */
	REQUEST_RECEIVED,    /* decoded; its task attribute may make it wait
			      * (task_set.h) */
	REQUEST_NEED_TABLE,  /* waits for a block for its descriptors */
	REQUEST_READING,     /* RDMA READ of the descriptor table posted */
	REQUEST_NEED_BUFFER, /* waits for a block for its data, or for the
			      * blocks of a volume in memory */
	REQUEST_FETCHING,    /* RDMA READ of the data-out posted */
	REQUEST_EXECUTING,   /* the disk has the command */
	REQUEST_MANAGING,    /* task management: waits for the commands that
			      * it ends */
	REQUEST_RESPONDING,  /* data-in RDMA WRITE and SRP_RSP posted */
	REQUEST_LINGERING,   /* IMMED, or aborted: nobody waits for it, but
			      * the disk still has it */
};

/* What happens to the request when the fabric or the disk no longer has it. */
enum request_fate {
	FATE_ANSWER,  /* continue and answer */
	FATE_ABORTED, /* ended by another nexus: answer TASK ABORTED */
	FATE_SILENT,  /* ended by its own nexus: no answer, credit is owed */
};

struct request {
	struct list node; /* of the channel's busy list, or free in slab */
	struct request_slab *slab; /* constant, as the next */
	struct worker *worker;
	struct channel *ch;
	enum request_state state;
	enum request_fate fate;
	uint64_t seq;	  /* order of arrival on the worker */
	uint64_t tag;	  /* opaque, echoed */
	uint8_t attr;	  /* enum srp_task_attr */
	bool blocked;	  /* RECEIVED, and waits by its task attribute */
	struct xp_iu *iu; /* held until the response is posted */
	struct xp_chain chain;
	uint64_t posted_us; /* while chain is under way */
	struct meter_clock clock;
	uint8_t *rsp; /* CHANNEL_RSP_SIZE bytes of slab; constant */

	/* SRP_CMD: the initiator's buffer, in one direction or none */
	struct srp_data data;
	bool data_is_out;
	const struct srp_desc *descs; /* in data, own_descs or table */
	struct srp_desc own_descs[REQUEST_DESCS];
	void *table;		 /* block of worker->tables, or NULL */
	void *block;		 /* block of worker->arena, or NULL */
	struct arena *waits_for; /* NULL: does not wait */
	struct arena_waiter waiter;
	bool fetched;	   /* data-out is in task.buf */
	bool lingers;	   /* the disk still has the request, although the
			    * answer is posted, or nobody waits for one */
	bool was_ended;	   /* it lingers, or did, without IMMED */
	bool given_up;	   /* the same, and the store has a change of blocks */
	bool calling_disk; /* until the disk answers */
	bool passed;	   /* a stage of clock; or refused */
	struct scsi_task task;

	bool is_tmf; /* SRP_TSK_MGMT: all members from data to task are stale */
};

/* Prepares @req of the slab @slab of @w for its first use. @rsp is the memory
 * for its response. It becomes REQUEST_FREE. */
void request_init(struct request *req, struct worker *w,
		  struct request_slab *slab, uint8_t *rsp);

/* The registration of its response. */
static inline struct xp_mr *request_rsp_mr(const struct request *req)
{
	return req->slab->rsp_mr[req->ch->kind];
}

/* True if neither the fabric nor the disk has it: it can end at once. */
static inline bool request_only_waits(const struct request *req)
{
	return req->state == REQUEST_RECEIVED ||
	       req->state == REQUEST_NEED_TABLE ||
	       req->state == REQUEST_NEED_BUFFER;
}

/* True: it lingers, and its initiator has its answer or wants none. */
static inline bool request_is_settled(const struct request *req)
{
	return req->lingers && (!req->iu || req->fate == FATE_SILENT);
}

/* In ticks. */
static inline uint64_t request_arrived(const struct request *req)
{
	return meter_clock_arrived(&req->clock, req->passed);
}

/* Begins an SRP_CMD whose credit was taken. @req is free; it owns @iu from now
 * on. */
void request_start(struct request *req, struct xp_iu *iu);

/* The slot of an SRP_TSK_MGMT, in state MANAGING until request_answer_tmf(). */
void request_start_tmf(struct request *req, uint64_t tag);

/*
 * Ends a command with @fate: at once if it only waits, otherwise when the fabric
 * no longer has it. One that the disk has lingers: its initiator gets TASK
 * ABORTED or nothing now, and its blocks are its own until the store answers. Does
 * nothing to a command that is being answered.
 */
void request_abort(struct request *req, enum request_fate fate);

/* Stops a command: it no longer waits for a buffer, and needs nothing more of
 * the disk. So the end of other requests does not start this one; if it ends this
 * one, that is with @fate. Follow with request_abort(), or with request_drop() and
 * request_serve_waiters(). */
void request_stop_waiting(struct request *req, enum request_fate fate);

/* After request_stop_waiting() and request_drop(): requests of @w that waited
 * behind them for memory go on. */
void request_serve_waiters(struct worker *w);

/* Call this when a command of @ch has ended. Starts the commands that waited
 * for it. */
void request_start_blocked(struct channel *ch);

/* Ends a request without an answer, so its credit is owed. Neither the fabric
 * nor the disk may have it. */
void request_drop(struct request *req);

/* Answers an SRP_TSK_MGMT in state MANAGING, or drops it if the channel can no
 * longer send an answer. */
void request_answer_tmf(struct request *req, enum srp_rsp_code code);

#endif
