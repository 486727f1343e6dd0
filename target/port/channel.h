/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel is one RDMA connection of an I_T nexus, with its credits and its
 * requests. It takes IUs from the transport, hands SRP_CMD to request.c and
 * SRP_TSK_MGMT to task_mgmt.c, and ends when the peer, the port, or an IU that
 * cannot be understood says so. docs/channel-life.md tells its whole life.
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
 *             port_channel_gone()  <------  nothing is left: the last word
 *   channel_send_free()    ------>  frees the memory
 *
 * As messages of one sender keep their order, the free is the last one that
 * the worker sees.
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
 * Credits of a channel. ib_srp uses at most 63 of them (its queue of 62
 * commands and one task management request) by default; each costs a receive
 * buffer of more than 8 KiB.
 */
#define CHANNEL_REQ_LIM 64

/*
 * Requests of a channel: a new command may arrive before the completion of
 * the response that returned its credit has been reaped, so there are more of
 * them than credits. When even these run out the IU waits.
 */
#define CHANNEL_REQUESTS (CHANNEL_REQ_LIM + 16)

/* Requests that the disk may still have after their answer (IMMED). */
#define CHANNEL_LINGERING 8

/*
 * Receives to keep posted: one per credit, one for the answer to SRP_CRED_REQ,
 * and one so that a peer which oversteps is found out before it runs into a
 * missing receive.
 */
#define CHANNEL_RECVS (CHANNEL_REQ_LIM + 2)

/* Longest IU that the target takes, the default of ib_srpt. Bytes. */
#define CHANNEL_IT_IU_LEN 8276
/* Longest IU that the target sends. It is the same for every login, because
 * ib_srp sizes its buffers at the first one and keeps them. Bytes. */
#define CHANNEL_TI_IU_LEN 512

/* A login that has not become a connection after this time is closed. */
#define CHANNEL_HALF_OPEN_MS 10000
/* A channel that is to end once its requests are answered closes at the latest
 * after this time. */
#define CHANNEL_DRAIN_MS 10000

/* Registered memory for one response: 36 bytes, response data, sense data.
 * A multiple of 64 so that responses share no cache line. Bytes. */
#define CHANNEL_RSP_SIZE 192

enum channel_state {
	CHANNEL_NEW,	   /* admitted; its worker knows nothing yet */
	CHANNEL_ACCEPTING, /* xp_accept() was called; not yet established */
	CHANNEL_OPEN,	   /* established: takes requests */
	CHANNEL_DRAINING,  /* takes none; closes when the rest is answered */
	CHANNEL_CLOSING,   /* xp_close(), the peer or the fabric ended it; what
			    * has not been started is dropped */
	CHANNEL_CLOSED,	   /* the fabric has let go of all memory; only
			    * commands in the backend are left */
	CHANNEL_GONE,	   /* nothing is left; the port has been told */
};

struct channel {
	/* constant from birth on */
	struct port *port;
	struct nexus *nexus; /* outlives CHANNEL_GONE's message */
	struct worker *worker;
	unsigned int number; /* in messages: "channel 3" */
	enum xp_kind kind;
	struct srp_cmd_rules rules;
	struct srp_login_rsp login_rsp;

	/* the port's */
	struct list nexus_node; /* nexus->channels */
	struct login_quota *quota;
	bool half_open;
	bool drain_sent;
	bool close_sent;
	const char *close_why; /* for the worker's log; static; set before
				* the message that carries it is sent */
	/* The connection request until xp_accept() has consumed it. The port's
	 * in CHANNEL_NEW and after port_channel_gone(), else the worker's. */
	struct xp_conn_request *conn;

	/* from port to worker, each sent once at most; and back */
	struct reactor_msg start_msg;
	struct reactor_msg drain_msg;
	struct reactor_msg close_msg;
	struct reactor_msg free_msg;
	/* the same, but again and again */
	struct reactor_msg aer_msg;
	_Atomic bool aer_sent;
	_Atomic uint64_t aer_luns[LUNS_MAX / 64]; /* to be told of, bits */
	struct reactor_msg opened_msg;
	struct reactor_msg gone_msg;

	/* the worker's */
	enum channel_state state;
	struct list worker_node;    /* worker->channels */
	struct xp_chan *xp;	    /* NULL: never accepted */
	struct reactor_timer timer; /* half open, or draining */
	struct srp_ledger ledger;
	uint32_t ti_iu_len;	 /* bytes; CHANNEL_TI_IU_LEN */
	bool logged_in;		 /* the login was logged, so the logout is */
	char end_why[256];	 /* why the channel ends, the first reason */
	uint64_t requests_cnt;	 /* answered, for the log */
	uint64_t progress_us[2]; /* enum watched: when one was done last */

	/* Requests of the worker's pool: those under way in order of arrival,
	 * at most CHANNEL_REQUESTS; IUs that wait for one. */
	struct list busy;
	unsigned int busy_cnt;
	unsigned int lone_cnt;	  /* that came when none was there, in a row */
	unsigned int special_cnt; /* ORDERED and HEAD OF QUEUE in busy */
	unsigned int blocked_cnt; /* whose turn has not come */
	unsigned int lingering_cnt; /* answered, but the disk has them */
	struct xp_iu *waiting[CHANNEL_REQ_LIM];
	unsigned int waiting_first;
	unsigned int waiting_cnt;

	/* Of this one, only the memory of its response is used: for what the
	 * target asks or says, SRP_CRED_REQ, SRP_AER_REQ, SRP_T_LOGOUT. NULL:
	 * nothing is reserved in the pool. */
	struct request *own;
	struct xp_chain cred_chain;
	bool cred_posted;	 /* cred_chain is under way ... */
	uint64_t cred_posted_us; /* ... since then */
	/* SRP_CRED_RSP or SRP_AER_RSP has not come yet: one at a time; 0 */
	uint8_t cred_unanswered;
	uint64_t cred_tag;
	bool had_command; /* the initiator can receive */
	bool wants_aer;	  /* it said so at login; constant */
	bool says_logout; /* SRP_T_LOGOUT before the channel closes */
};

struct channel_params {
	struct port *port;
	struct nexus *nexus;
	struct worker *worker;
	unsigned int number;
	const struct srp_login_rsp *login_rsp;
	const struct srp_cmd_rules *rules;
	struct xp_conn_request *conn;
	bool wants_aer;
};

/* A channel in CHANNEL_NEW; NULL when there is no memory. Thread: worker 0, as
 * all down to channel_send_free(). */
struct channel *channel_create(const struct channel_params *p);

/* Has the worker accept the connection; port_channel_gone() ends it all. */
void channel_send_start(struct channel *ch);
void channel_send_drain(struct channel *ch, const char *why);
void channel_send_close(struct channel *ch, const char *why);
/*
 * Tells of a unit attention on @lun by SRP_AER_REQ, when the initiator asked
 * for that at its login (AESOLNT): ib_srp does not, and complains about each
 * in the kernel's log. One at a time, and none before the first command, when
 * ib_srp has no receives. The unit attention itself waits for a command.
 */
void channel_send_aer(struct channel *ch, unsigned int lun);
/* After port_channel_gone(). */
void channel_send_free(struct channel *ch);

/* ---- Thread: the channel's worker ---- */

/* Logs, rate limited, what the peer did wrong, with both addresses. */
void channel_complain(struct channel *ch, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Begins the end. The first reason given is the one that is logged. */
void channel_close(struct channel *ch, const char *why);
/* The same, once what is in flight has been answered. */
void channel_drain(struct channel *ch, const char *why);

/* True when responses can still be posted. */
static inline bool channel_can_answer(const struct channel *ch)
{
	return ch->state == CHANNEL_OPEN || ch->state == CHANNEL_DRAINING;
}

/* A request of @ch has ended: its slot is free again. */
void channel_request_ended(struct channel *ch, struct request *req);

#endif
