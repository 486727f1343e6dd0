/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport contract: connections that carry SRP IUs by SEND, and data by
 * RDMA WRITE and RDMA READ. Two providers keep it: verbs (libibverbs and
 * librdmacm) and tcp (sockets). Tests have a third one, in process. The same
 * test suite runs against all of them. Code outside of this folder does not see
 * differences between fabrics.
 *
 * An xp is one provider on one reactor. A channel (xp_chan) is one reliable
 * connection and belongs to one xp for life. Thread: the reactor of the xp, for
 * every function and every callback.
 *
 * Promises to the user
 *  - The operations of a chain (RDMA operations, then a SEND) are executed in
 *    order, and so are the chains of a channel. A peer that sees the SEND sees
 *    the data.
 *  - Each posted chain is done exactly once, and never from within xp_post().
 *    Then the fabric no longer touches its memory. After a failure, the
 *    remaining chains are done with -ECANCELED.
 *  - If the send queue is full, chains wait in the channel. Posting never fails
 *    and never blocks.
 *  - The posts of one reactor turn leave in one batch at its end. Receive
 *    buffers that were released in the turn are posted before them. So a
 *    response that returns a credit never overtakes the receive for that
 *    credit.
 *  - established() comes before received(). closed() comes once, after all
 *    chains of the channel are done, and is the last call.
 *  - A channel that is closing posts and receives nothing.
 *  - A peer that has disappeared (its host lost power, the cable was cut) is
 *    detected, also when there is nothing to send: over TCP by both sides,
 *    within three times cfg.keepalive_ms; over RDMA by the side that accepted,
 *    within twice that time plus the device's retries. An idle peer stays
 *    connected.
 *  - xp_chan_lives() is true only if the peer had not given the connection up
 *    shortly before: it never takes what has lain unread while this thread did
 *    not run for new. What xp_chan_ask() hears is as old as the call at most,
 *    which may be long ago.
 *  - When a device is removed, its channels end with -ENODEV and its listeners
 *    wait. The instance gives back at once everything that it holds of the
 *    device, whatever its users still hold (channels, IUs, memory regions).
 *    When a device comes, listeners listen on it. Other devices are not disturbed.
 */
#ifndef TRANSPORT_XPORT_H
#define TRANSPORT_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/list.h"
#include "base/reactor.h"
#include "transport/keys.h"
#include "transport/kind.h"
#include "transport/route.h"

struct srp_desc;
struct xp;
struct xp_chan;
struct xp_conn_request;
struct xp_listener;
struct xp_mr;

/* Longest private data of a login, in bytes. (Over verbs, the REP with the
 * LOGIN_RSP may be padded with zeros to 196 bytes.) */
#define XP_PDATA_MAX 256

/* ---- instances ---- */

/* For xp_config.device. */
enum xp_device_change {
	XP_DEVICE_COME,	    /* it is used from now on */
	XP_DEVICE_GONE,	    /* its channels end with -ENODEV */
	XP_DEVICE_UNUSABLE, /* it has come, but cannot be used; see @why */
	XP_DEVICE_FAILED,   /* a part of it; @why says what, and what follows */
	XP_DEVICE_LISTENS,  /* the instance listens on address @name */
	XP_DEVICE_DEAF,	    /* not any more: no device has the address now */
};

/* Devices round the length of a queue up to a power of two. These entries, the
 * provider's marker, and the entry that soft-RoCE leaves empty make 256. */
#define XP_SEND_DEPTH 254

struct xp_config {
	struct reactor *reactor;
	/* Bytes of the largest IU that this side receives. */
	size_t recv_len;
	/* Where immediate data begins. If the device places the IUs (verbs),
	 * the byte at this offset of every received IU is aligned to 512. 0:
	 * the IU itself is aligned. Over TCP, IUs lie where they arrived, which
	 * has no alignment. */
	size_t recv_aligned_at;
	/* Work requests per channel; 0 = XP_SEND_DEPTH. */
	unsigned int send_depth;
	/* After this time without a sign of the peer, it is probed; 0 =
	 * XP_KEEPALIVE_MS. */
	unsigned int keepalive_ms;
	/* A machine without an RDMA device is no error (verbs): one may
	 * come. */
	bool await_devices;
	/* Optional: a device has come or gone (verbs). The function must not
	 * call the instance. */
	void (*device)(void *user, enum xp_device_change change,
		       const char *name, const char *why);
	void *device_user;
};

/*
 * Thread: setup, or the reactor. Return: 0; -ENODEV if the machine has no RDMA
 * device (verbs); other negative errnos. @e has the reason as text.
 *
 * Only the process that creates an instance can use it, and only with the same
 * credentials: the kernel refuses the RDMA connection manager (EACCES) to a
 * child after fork(), and after a change of user, group or capabilities.
 */
int xp_create(enum xp_kind kind, const struct xp_config *cfg,
	      struct xp **ret_xp, struct error *e);

/* Every channel, listener and memory region must be gone. NULL is fine. */
void xp_destroy(struct xp *xp);

enum xp_kind xp_kind(const struct xp *xp);

/* Call before any other function here, in a process that will fork. Return: 0
 * or -errno. */
int xp_fork_init(void);

/* True when the machine has what the transport needs, such as an RDMA
 * device. */
bool xp_present(enum xp_kind kind);

/* True when others can reach a listener of the transport: an address that is neither
 * loopback nor link-local belongs to an RDMA device. True for transports without
 * devices. */
bool xp_has_address(enum xp_kind kind);

#define XP_REACH_MS 1000

/*
 * Is there a way to @addr by this transport? Asks the routes and the devices of this
 * machine, not the peer. Writes what leads there, "rxe0" or "192.168.1.5", to @ret_by of
 * @size bytes. May block for XP_REACH_MS. 0, or -errno with one clause in @e.
 */
int xp_reach(enum xp_kind kind, const struct sockaddr *addr, socklen_t addr_len,
	     char *ret_by, size_t size, struct error *e);

/* ---- memory ---- */

/*
 * XP_REMOTE lets the peer read and write the memory as long as it is
 * registered: for an initiator's buffers. A target only ever uses XP_LOCAL.
 */
enum xp_access {
	XP_LOCAL,
	XP_REMOTE,
};

/* -ENOMEM with a text that names the locked-memory limit if that is the
 * reason. Over verbs, a device gets the memory when a channel first uses the
 * device: one that does not take it fails its own channels only. */
int xp_mr_register(struct xp *xp, void *addr, size_t len, enum xp_access access,
		   struct xp_mr **ret_mr, struct error *e);
/* NULL is fine. No chain may use the memory any more. */
void xp_mr_free(struct xp_mr *mr);

/* The address and key by which the peer of @ch accesses @ptr in @mr
 * (XP_REMOTE). */
void xp_mr_remote(const struct xp_mr *mr, const struct xp_chan *ch,
		  const void *ptr, uint64_t *ret_addr, uint32_t *ret_key);

/* ---- channels ---- */

/* A received IU. Its bytes are the user's until xp_iu_release(). */
struct xp_iu {
	struct list node; /* private */
	void *data;
	uint32_t len; /* bytes received; behind them may lie other IUs */
	struct xp_chan *ch;
	struct xp_mr *mr; /* the region that data lies in; NULL: none */
};

struct xp_handler {
	/* The connection is up; @pdata is what the acceptor sent (zero padded
	 * by some fabrics; empty on the accepting side). */
	void (*established)(struct xp_chan *ch, const void *pdata, size_t len);
	/* An IU has arrived. */
	void (*received)(struct xp_chan *ch, struct xp_iu *iu);
	/* The channel has ended: by the peer, the fabric or xp_close(), or it
	 * could not connect. @why->err is 0 if this side closed it. Call
	 * xp_chan_free() from here or later. */
	void (*closed)(struct xp_chan *ch, const struct error *why);
	/* Optional: the channel begins to close. From now on chains are done
	 * with -ECANCELED, and closed() follows. */
	void (*closing)(struct xp_chan *ch);
	/* The peer has given a sign of life after xp_chan_ask(). For users of it. */
	void (*heard)(struct xp_chan *ch);
};

struct xp_chan_params {
	const struct xp_handler *handler;
	void *user;
	/* Receive buffers to keep posted: one for each credit that this side
	 * grants, and one for each other IU that the peer may send. */
	unsigned int recv_cnt;
	/* Sent to the peer with the connect or the accept. */
	const void *pdata;
	size_t pdata_len;
	/* Connecting only. */
	unsigned int timeout_ms; /* 0 = 5000 */
	/* What the connection must have; NULL: anything. Borrowed for the
	 * call. */
	const struct xp_route *route;
	/* RC transport retries, 0..7 (verbs); 0 = 7. */
	unsigned int retry_cnt;
	/* The connection is encrypted, and both sides prove that they have it
	 * (tcp); NULL: it is plain. Borrowed for the call. Other transports refuse
	 * it (-EOPNOTSUPP). closed() says -ENOKEY or -EKEYREJECTED if the peer does
	 * not have it, and -ENOPROTOOPT if the peer has no TLS. */
	const struct xp_key *key;
};

/*
 * Connects to @addr. Return: 0: established() or closed() follows, never from
 * within this call; or a negative errno: neither follows.
 */
int xp_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e);

/* Begins the end of a channel, also of one that connects. closed() follows,
 * never from within this call. Harmless if the end has begun already. */
void xp_close(struct xp_chan *ch);

/* After closed(), when all IUs have been released. */
void xp_chan_free(struct xp_chan *ch);

void *xp_chan_user(const struct xp_chan *ch);
struct xp *xp_chan_xp(const struct xp_chan *ch);
bool xp_chan_is_open(const struct xp_chan *ch);
/* A sign of life is good for this time. Stops of a thread are longer. */
#define XP_SIGN_MS 100

/*
 * True: the peer has given a sign of life, at most XP_SIGN_MS ago by the earliest time
 * that it may have. Of what a completion queue has, that is the time when the queue was
 * last known to be empty, not the time of reading. Over TCP it is now, if the kernel
 * has heard the peer within a second, knows of no end of the connection, and none can lie
 * behind data that a closed window held back.
 */
bool xp_chan_lives(struct xp_chan *ch);
/* True: the kernel has something of the peer that was not received yet. What a completion
 * queue has is received within a turn, and does not count. */
bool xp_chan_has_unread(struct xp_chan *ch);
/* Asks the peer for a sign. heard() follows once, however often it was asked, by a sign
 * that the peer gave after this call; or closing(), never from within. */
void xp_chan_ask(struct xp_chan *ch);

/* "10.0.0.1:5555"; valid as long as the channel. */
const char *xp_chan_local(const struct xp_chan *ch);
const char *xp_chan_peer(const struct xp_chan *ch);
/* The device or interface, "rxe0" or "tcp". */
const char *xp_chan_device(const struct xp_chan *ch);
/* The name of the key that the peer has proved to have; NULL: nothing was proved. Valid
 * as long as the channel. */
const char *xp_chan_proved(const struct xp_chan *ch);
bool xp_chan_is_encrypted(const struct xp_chan *ch);
/* What both sides agreed on; valid from established() on. Over TCP its MTU is 0. */
const struct xp_negotiated *xp_chan_negotiated(const struct xp_chan *ch);
/* The private data of the peer's reject (an SRP_LOGIN_REJ) as the fabric
 * reports it, maybe padded; valid as long as the channel. *ret_len is 0 if the
 * peer sent no private data, or did not reject. */
const void *xp_chan_reject_data(const struct xp_chan *ch, size_t *ret_len);

/* Gives the buffer back. It is posted again at the end of the turn. */
void xp_iu_release(struct xp_iu *iu);

/* ---- work ---- */

enum xp_dir {
	XP_NO_DATA,
	XP_RDMA_WRITE, /* local memory to the peer's */
	XP_RDMA_READ,  /* the peer's memory to local */
};

struct xp_sge {
	const void *addr;
	uint32_t len;
	struct xp_mr *mr; /* of addr; may be NULL for sends that fit inline */
};

/*
 * Data movement, a SEND, or both in this order. The caller fills it in and
 * keeps it, and everything that it points to, unchanged until done(). Nothing
 * is allocated.
 */
struct xp_chain {
	/* data: len bytes between local and the first descriptors of remote */
	enum xp_dir dir;
	const struct srp_desc *remote; /* as many as len needs */
	uint32_t len; /* bytes; at most the sum of the descriptors */
	void *local;
	struct xp_mr *local_mr;
	/* the SEND: send_cnt pieces, 0 = none */
	struct xp_sge send[2];
	unsigned int send_cnt;
	/* @status: 0; -ECANCELED: flushed after the channel failed or was
	 * closed; else the negative errno of the failure that ends the
	 * channel. */
	void (*done)(struct xp_chain *chain, int status);

	/* private to xport.c */
	struct list node;
	unsigned int next_desc;
	uint32_t moved; /* bytes handed to the fabric */
	unsigned int groups;
	bool all_posted;
	int status;
};

/* The chain must have data or a SEND. */
void xp_post(struct xp_chan *ch, struct xp_chain *chain);

/* ---- listening ---- */

struct xp_conn_request {
	struct xp *xp;
	const void *pdata; /* valid until accept or reject */
	size_t pdata_len;  /* what the fabric reports, maybe padded */
	char local[64];	   /* "10.0.0.1:5555", as a person writes it */
	char peer[64];
	struct sockaddr_storage peer_addr;
	/* The name of the key that the peer has proved to have, valid until
	 * accept or reject; NULL: nothing was proved. */
	const char *proved;
	bool encrypted;
	void *user; /* the listener's */
	/* Why it does not fit what the listener demands; "": it does. The user
	 * must reject it. */
	char unfit[ERROR_TEXT_SIZE];
};

/*
 * Listens on @addr. @requested runs for every connection request. The user must
 * call xp_accept() or xp_reject() once for each, then or later. If the
 * initiator has gone meanwhile, both calls are still allowed; the accepted
 * channel closes.
 */
int xp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	      void (*requested)(struct xp_conn_request *req), void *user,
	      struct xp_listener **ret_listener, struct error *e);
/*
 * As xp_listen(), on a socket that another process has made, and that listens on @addr
 * already. Borrows @fd: xp_unlisten() ends that for every process that has it. -EINVAL: it is no
 * such socket; -EOPNOTSUPP: this transport has no sockets.
 */
int xp_listen_on(struct xp *xp, int fd, const struct sockaddr *addr,
		 void (*requested)(struct xp_conn_request *req), void *user,
		 struct xp_listener **ret_listener, struct error *e);
/*
 * As xp_listen(), but if this machine does not have the address, or no device has it, the
 * listener waits until one has. Every listener does so after its device has gone.
 * -EOPNOTSUPP: this transport cannot wait.
 */
int xp_listen_later(struct xp *xp, const struct sockaddr *addr,
		    socklen_t addr_len,
		    void (*requested)(struct xp_conn_request *req), void *user,
		    struct xp_listener **ret_listener, struct error *e);
/*
 * Demands pkey and sl of @want for the connections of the listener; call it directly
 * after the listener was made. A request from another partition does not fit. This side
 * sends with the service level, whatever the request has. Return: 0; -EPROTONOSUPPORT
 * and @e: this can never be met.
 */
int xp_demand(struct xp_listener *l, const struct xp_route *want,
	      struct error *e);
/*
 * Connections to the listener may be encrypted, with one of @keys, which live as long as
 * the listener; call it directly after the listener was made. Plain ones still arrive
 * as requests. Without keys, and by transports that encrypt nothing, they are all
 * plain.
 */
void xp_listener_set_keys(struct xp_listener *l, const struct xp_keyring *keys);
/* Unanswered requests stay valid. NULL is fine. */
void xp_unlisten(struct xp_listener *l);

/*
 * @xp is the instance that will own the channel: that of the request, or one of
 * the same kind on another reactor. Call this on the thread of @xp. The request
 * is consumed in any case. On failure the peer has been rejected without
 * private data.
 */
int xp_accept(struct xp *xp, struct xp_conn_request *req,
	      const struct xp_chan_params *params, struct xp_chan **ret_ch,
	      struct error *e);
void xp_reject(struct xp_conn_request *req, const void *pdata, size_t len);

/* "10.0.0.1:5555", "[fe80::1%eth0]:5555" or "?", in @buf of @len bytes. Thread: any, also
 * in the sandbox of the target. */
void xp_addr_text(const struct sockaddr *sa, char *buf, size_t len);

/* ---- counters ---- */

struct xp_stats {
	uint64_t posts;	     /* calls that post work requests */
	uint64_t wrs;	     /* work requests in them */
	uint64_t cqes;	     /* completions reaped */
	uint64_t recv_posts; /* calls that post receives */
	uint64_t recvs;	     /* IUs received */
	uint64_t arms;	     /* requests for a notification */
	uint64_t copied;     /* bytes of IUs and data copied on arrival (tcp) */
};

const struct xp_stats *xp_get_stats(const struct xp *xp);

#endif
