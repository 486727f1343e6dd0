/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel is one RDMA connection of an I_T nexus, with its credits and its
 * requests. It takes IUs from the transport, and hands SRP_CMD to request.c and
 * SRP_TSK_MGMT to task_mgmt.c. The peer, the port or an invalid IU ends it.
 * docs/channel-life.md describes its whole life.
 *
 * A channel lives on its worker; only the members marked so belong to the port
 * (worker 0). The two talk by messages:
 *
 *   port                            worker
 *   channel_send_start()   ------>  xp_accept()
 *   channel_send_drain()   ------>  answers what is in flight, then closes
 *   channel_send_close()   ------>  closes
 *   channel_send_aer()     ------>  SRP_AER_REQ
 *           port_channel_opened()  <------  the connection is established
 *           port_channel_closed()  <------  the fabric no longer has anything
 *             port_channel_gone()  <------  nor has a store: the last word
 *   channel_send_free()    ------>  frees the memory
 *
 * Messages of one sender keep their order, so the message to free the channel
 * is the last one that the worker gets.
 */
#ifndef TARGET_PORT_CHANNEL_H
#define TARGET_PORT_CHANNEL_H

#include "protocol/srp_credit.h"
#include "protocol/srp_login.h"
#include "target/port/nexus.h"
#include "target/port/worker.h"

struct port;
struct request;

/*
 * Credits of a channel. By default ib_srp uses at most 63 (its queue of 62
 * commands and one task management request). Each credit costs a receive buffer
 * of more than 8 KiB.
 */
#define CHANNEL_REQ_LIM 64

/*
 * Requests of a channel. There are more of them than credits, because a new
 * command may arrive before the target reaps the completion of the response
 * that returned the credit. If all are in use, the IU waits.
 */
#define CHANNEL_REQUESTS (CHANNEL_REQ_LIM + 16)

/* While so many linger, no further request is answered before the disk has done
 * its work (IMMED). */
#define CHANNEL_LINGERING 8

/*
 * Receives to keep posted: one for each credit, one for the answer to
 * SRP_CRED_REQ, and one to detect a peer that exceeds its request limit before
 * it meets a missing receive.
 */
#define CHANNEL_RECVS (CHANNEL_REQ_LIM + 2)

/* The longest IU that the target receives, as ib_srpt's default. Bytes. */
#define CHANNEL_IT_IU_LEN 8276
/* The longest IU that the target sends. It is the same for every login, because
 * ib_srp allocates its buffers at the first login and keeps them. Bytes. */
#define CHANNEL_TI_IU_LEN 512

/* A login without an established connection is closed after this time. */
#define CHANNEL_HALF_OPEN_MS 10000
/* A channel that ends when its requests are answered is closed after this time
 * at the latest. */
#define CHANNEL_DRAIN_MS 10000

/* Bytes of registered memory for one response: 36 bytes, response data, sense
 * data. A multiple of 64, so that responses share no cache line. */
#define CHANNEL_RSP_SIZE 192
_Static_assert(CHANNEL_RSP_SIZE <= CHANNEL_TI_IU_LEN, "it is an IU");

enum channel_state {
	CHANNEL_NEW,	   /* admitted; its worker knows nothing yet */
	CHANNEL_ACCEPTING, /* xp_accept() was called; not yet established */
	CHANNEL_OPEN,	   /* established: takes requests */
	CHANNEL_DRAINING,  /* takes no requests; closes when all others are
			    * answered */
	CHANNEL_CLOSING,   /* xp_close(), the peer or the fabric ended it;
			    * requests that have not started are dropped */
	CHANNEL_CLOSED,	   /* the fabric no longer touches any memory, and the
			    * port has been told; only requests linger */
	CHANNEL_GONE,	   /* nothing is left; the port has been told */
};

/*
 * Messages between the port and the channel's worker. Each is sent at most
 * once. Worker 0 receives the last three.
 */
struct channel_msgs {
	struct reactor_msg start;
	struct reactor_msg drain;
	struct reactor_msg close;
	struct reactor_msg free;
	struct reactor_msg opened;
	struct reactor_msg closed;
	struct reactor_msg gone;
};

/* The port's view of a channel. Thread: worker 0. */
struct channel_port_side {
	struct list nexus_node; /* nexus->channels, until it is closed */
	bool half_open;
	bool drain_sent;
	bool close_sent;
};

/* What SRP_AER_REQ reports of a LUN. */
enum channel_event {
	CHANNEL_LUNS_CHANGED,	  /* reported for the target, on its LUN 0 */
	CHANNEL_ACCESS_CHANGED,	  /* another target port may be active */
	CHANNEL_CAPACITY_CHANGED, /* the volume has another size */
	CHANNEL_EVENTS
};

/* LUNs to report by SRP_AER_REQ. Any thread adds them. */
struct channel_aer {
	struct reactor_msg msg; /* reused for each report */
	_Atomic bool sent;	/* the message is on its way */
	_Atomic uint64_t luns[CHANNEL_EVENTS][LUNS_MAX / 64]; /* bits */
	bool wanted; /* requested by the initiator at login; constant */
};

/* The requests of the channel that are not finished. */
struct channel_requests {
	struct list busy;	/* in order of arrival */
	unsigned int cnt;	/* of busy; at most CHANNEL_REQUESTS */
	unsigned int special;	/* of busy: ORDERED and HEAD OF QUEUE */
	unsigned int blocked;	/* of busy: must wait for others by their
				 * task attribute */
	unsigned int lingering; /* of busy: nobody waits for them, but the disk
				 * still has them */
	unsigned int single; /* last arrivals in a row that found busy empty */
	uint64_t answered;   /* since the login, for the log */
};

/* IUs that wait for a free request: a ring. */
struct channel_waiting {
	struct xp_iu *ius[CHANNEL_REQ_LIM];
	unsigned int first;
	unsigned int cnt;
};

/* IUs that the target sends on its own: SRP_CRED_REQ, SRP_AER_REQ,
 * SRP_T_LOGOUT. One at a time. */
struct channel_unasked {
	/* Only the memory for its response is used. NULL: the pool has reserved
	 * nothing. */
	struct request *req;
	struct xp_chain chain;
	bool posted;	    /* chain is under way ... */
	uint64_t posted_us; /* ... since then */
	uint8_t unanswered; /* opcode of the response that is due, or 0 */
	uint64_t tag;
};

struct channel {
	/* constant from creation on */
	struct port *port;
	struct nexus *nexus; /* lives until the message that the channel is
			      * gone has been handled */
	struct worker *worker;
	/* The worker's part of the nexus's meter; since xp_accept(). */
	struct meter_share *meter;
	unsigned int number; /* in messages: "channel 3" */
	enum xp_kind kind;
	struct access_who who;
	char peer[64]; /* "10.0.0.1:43210", for messages */
	char local[64];
	struct srp_cmd_rules rules;
	struct srp_login_rsp login_rsp;
	/* Set before the message that the channel is open. */
	struct xp_negotiated negotiated;

	struct channel_port_side at_port;
	struct channel_msgs msgs;
	struct channel_aer aer;
	/* For the log of the worker; static text. Set before the message that
	 * uses it is sent. */
	const char *close_why;
	/* The connection request, until xp_accept() consumes it. It belongs to
	 * the port in CHANNEL_NEW and after port_channel_closed(), else to the
	 * worker. */
	struct xp_conn_request *conn;

	/* members of the worker, to the end */
	enum channel_state state;
	struct list worker_node;    /* worker->channels */
	struct xp_chan *xp;	    /* NULL: never accepted */
	struct block_sender sender; /* of its commands */
	struct reactor_timer timer; /* half open, or draining */
	struct srp_ledger ledger;
	bool logged_in;	   /* the login was logged, so the logout will be */
	bool had_command;  /* so the initiator can receive */
	bool sends_logout; /* SRP_T_LOGOUT before the channel closes */
	char end_why[256]; /* why the channel ends: the first reason */
	uint64_t progress_us[2]; /* by enum watched: when one completed last */
	struct channel_requests requests;
	struct channel_waiting waiting;
	struct channel_unasked unasked;
};

struct channel_params {
	struct port *port;
	struct nexus *nexus;
	struct worker *worker;
	unsigned int number;
	const struct srp_login_rsp *login_rsp;
	const struct srp_cmd_rules *rules;
	struct xp_conn_request *conn;
	const struct access_who *who; /* copied */
	bool wants_aer;
};

/* Makes a channel in CHANNEL_NEW. NULL: no memory. Thread: worker 0, as for all
 * functions up to channel_send_free(). */
struct channel *channel_create(const struct channel_params *p);

/* Asks the worker to accept the connection. port_channel_closed() and
 * port_channel_gone() follow at the end, also if that fails. */
void channel_send_start(struct channel *ch);
void channel_send_drain(struct channel *ch, const char *why);
void channel_send_close(struct channel *ch, const char *why);
/*
 * Reports the unit attention of @event on @lun by SRP_AER_REQ, if the initiator
 * asked for this at its login (AESOLNT). ib_srp does not ask, and would log an
 * error. The target sends one report at a time, and none before the first
 * command, because ib_srp has no receives until then. The unit attention itself
 * waits for a command.
 */
void channel_send_aer(struct channel *ch, unsigned int lun,
		      enum channel_event event);
/* Frees the memory. Call it after port_channel_gone(). */
void channel_send_free(struct channel *ch);

/* ---- Thread: the channel's worker ---- */

/* Logs what the peer did wrong, with both addresses; rate-limited. */
void channel_complain(struct channel *ch, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Begins the end of the channel. The first reason is logged. */
void channel_close(struct channel *ch, const char *why);
/* The same, but answers the requests in flight first. */
void channel_drain(struct channel *ch, const char *why);

/* True if responses can still be posted. */
static inline bool channel_can_answer(const struct channel *ch)
{
	return ch->state == CHANNEL_OPEN || ch->state == CHANNEL_DRAINING;
}

/* The first request of @ch, in order of arrival, of at least @seq; NULL: none. For
 * going through them while the end of one may end others. */
struct request *channel_next_request(struct channel *ch, uint64_t seq);

/* A request of @ch lingers from now on: nothing waits for it. */
void channel_request_lingers(struct channel *ch);

/* A request of @ch has ended: its slot is free again. */
void channel_request_ended(struct channel *ch, struct request *req);

#endif
