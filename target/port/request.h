/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SRP_CMD, from the arrival of its IU until its response has left. Also the
 * slot of an SRP_TSK_MGMT. Nothing is allocated: if no buffer is free, the
 * request waits. docs/channel-life.md has the pictures.
 *
 * Thread: the worker of the channel.
 */
#ifndef TARGET_PORT_REQUEST_H
#define TARGET_PORT_REQUEST_H

#include "protocol/srp_iu.h"
#include "target/port/channel.h"
#include "target/scsi/task.h"

/* Descriptors that a request holds by itself; longer lists take a block of
 * the worker's tables. ib_srp's default is at most 12. */
#define REQUEST_DESCS 16

/* Longest descriptor list, in descriptors: what ib_srp can make
 * (indirect_sg_entries). */
#define REQUEST_DESCS_MAX 2048

/* request_advance() in request.c shows the way through them. */
enum request_state {
	REQUEST_FREE,	     /* in the worker's pool */
	REQUEST_RECEIVED,    /* decoded; waits for its turn (task_set.h) */
	REQUEST_NEED_TABLE,  /* waits for a block for its descriptors */
	REQUEST_READING,     /* RDMA READ of the descriptor table posted */
	REQUEST_NEED_BUFFER, /* waits for a block for its data, or for the
			      * blocks of a volume in memory */
	REQUEST_FETCHING,    /* RDMA READ of the data-out posted */
	REQUEST_EXECUTING,   /* the disk has it */
	REQUEST_MANAGING,    /* task management: waits for what it ends */
	REQUEST_RESPONDING,  /* data-in RDMA WRITE and SRP_RSP posted */
	REQUEST_LINGERING,   /* IMMED: answered, the disk still has it */
};

/* What happens to the request when the fabric or the disk is done with it. */
enum request_fate {
	FATE_ANSWER,  /* go on, answer */
	FATE_ABORTED, /* ended by another nexus: answer TASK ABORTED */
	FATE_SILENT,  /* ended by its own nexus: no answer, credit is owed */
};

struct request {
	struct list node; /* of the channel's busy list, or free in slab */
	struct request_slab *slab; /* constant */
	struct channel *ch;
	enum request_state state;
	enum request_fate fate;
	uint64_t seq;	  /* order of arrival on the worker */
	uint64_t tag;	  /* opaque, echoed */
	uint8_t attr;	  /* enum srp_task_attr */
	bool blocked;	  /* RECEIVED; its turn has not come */
	struct xp_iu *iu; /* held until the response is posted */
	struct xp_chain chain;
	uint64_t posted_us; /* while chain is under way */
	uint8_t *rsp;	    /* CHANNEL_RSP_SIZE bytes of slab; constant */

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
	bool lingers;	   /* the answer is posted, the disk has it */
	bool calling_disk; /* until the disk calls back */
	struct scsi_task task;

	bool is_tmf; /* SRP_TSK_MGMT; all from data to task is stale */
};

/* The first time that @req is taken from @slab; @rsp is for its response. It
 * becomes REQUEST_FREE. */
void request_init(struct request *req, struct request_slab *slab, uint8_t *rsp);

/* The key of its response. */
static inline struct xp_mr *request_rsp_mr(const struct request *req)
{
	return req->slab->rsp_mr[req->ch->kind];
}

/* Neither the fabric nor the disk has it: it can end at once. */
static inline bool request_only_waits(const struct request *req)
{
	return req->state == REQUEST_RECEIVED ||
	       req->state == REQUEST_NEED_TABLE ||
	       req->state == REQUEST_NEED_BUFFER;
}

/* Begins an SRP_CMD whose credit has been taken; @req is free and owns @iu
 * from now on. */
void request_start(struct request *req, struct xp_iu *iu);

/* The slot of an SRP_TSK_MGMT, in state MANAGING until request_answer_tmf(). */
void request_start_tmf(struct request *req, uint64_t tag);

/*
 * Ends a command with @fate: at once if it only waits, otherwise when the fabric
 * or the disk is done with it. Does nothing to a command that is being answered.
 * task_mgmt_request_moved() is called at the end.
 */
void request_abort(struct request *req, enum request_fate fate);

/* Stops a command: it no longer waits for a buffer, and asks the disk for
 * nothing more. So the end of other requests does not start this one. Follow
 * with request_abort() or request_drop(). */
void request_stop_waiting(struct request *req);

/* A command of @ch has ended: starts the commands that waited for it. */
void request_start_blocked(struct channel *ch);

/* Ends a request without an answer; its credit is owed. Neither the fabric nor
 * the disk has the request. */
void request_drop(struct request *req);

/* Answers an SRP_TSK_MGMT in state MANAGING, or drops it if the channel can no
 * longer send an answer. */
void request_answer_tmf(struct request *req, enum srp_rsp_code code);

#endif
