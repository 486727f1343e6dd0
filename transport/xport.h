/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport contract: connections that carry SRP IUs by SEND and data by
 * RDMA WRITE and RDMA READ. Two providers keep it: verbs (libibverbs and
 * librdmacm) and tcp (sockets); tests have a third, in process. The same test
 * suite runs against all of them, and every difference between fabrics ends in
 * this room.
 *
 * An xp is one provider on one reactor. A channel (xp_chan) is one reliable
 * connection; it belongs to one xp for life. Thread: the xp's reactor, for
 * every function and every callback.
 *
 * Promises to the user
 *  - A chain (RDMA operations, then a SEND) is executed in order; so are the
 *    chains of a channel. The peer that sees the SEND sees the data.
 *  - Each chain that was posted is done exactly once, never from within
 *    xp_post(); afterwards the fabric no longer touches its memory. After a
 *    failure all that is left is done with -ECANCELED.
 *  - What does not fit into the send queue waits in the channel; posting never
 *    fails and never blocks.
 *  - Posts of one reactor turn leave in one batch at its end; receive buffers
 *    that were released in the turn are posted before them, so a response that
 *    returns a credit never overtakes the receive that backs it.
 *  - established() comes before received(); closed() comes once, last, and
 *    after every chain of the channel is done.
 *  - On a channel that is closing nothing more is posted or received.
 *  - A peer that is gone without a word (its host lost power, the cable was
 *    cut) is noticed, though nothing is to be sent: over TCP by both sides,
 *    within three times cfg.keepalive_ms; over RDMA by the side that accepted,
 *    within twice that and what the device's retries take. A peer that is
 *    merely idle is left alone.
 *  - When a device is removed, its channels end with -ENODEV, its listeners wait,
 *    and all that the instance holds of it is given back at once, whatever its
 *    users still hold (channels, IUs, memory regions). A device that comes is
 *    used: memory is registered with it, listeners listen on it. Nothing
 *    happens to the other devices.
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
#include "transport/kind.h"

struct srp_desc;
struct xp;
struct xp_chan;
struct xp_conn_request;
struct xp_listener;
struct xp_mr;

/* Private data that a login needs at most (a LOGIN_RSP; the verbs' REP may be
 * zero padded to 196 bytes). */
#define XP_PDATA_MAX 256

/* ---- instances ---- */

/* What xp_config.device is told. */
enum xp_device_change {
	XP_DEVICE_COME,	    /* it is used from now on */
	XP_DEVICE_GONE,	    /* its channels end with -ENODEV */
	XP_DEVICE_UNUSABLE, /* it has come, but why says why it is not used */
	XP_DEVICE_LISTENS,  /* name is an address: listened on from now on */
};

/* Devices make their queues a power of two long. This, our marker, and the
 * element that soft-RoCE leaves empty, are 256. */
#define XP_SEND_DEPTH 254

#define XP_KEEPALIVE_MS 15000

struct xp_config {
	struct reactor *reactor;
	/* Bytes of the largest IU that this side receives. */
	size_t recv_len;
	/* The byte at this offset of every received IU lies on a multiple of
	 * 512 (where immediate data begins); 0: the IU itself does. */
	size_t recv_aligned_at;
	/* Work requests per channel; 0 = XP_SEND_DEPTH. */
	unsigned int send_depth;
	/* A peer that has been silent so long is probed; 0 =
	 * XP_KEEPALIVE_MS. */
	unsigned int keepalive_ms;
	/* A machine without an RDMA device is no error: one may come (verbs). */
	bool await_devices;
	/* Optional: a device has come or gone (verbs). It must not call the
	 * instance. */
	void (*device)(void *user, enum xp_device_change change,
		       const char *name, const char *why);
	void *device_user;
};

/*
 * Thread: setup, or the reactor. Return: 0; -ENODEV when the machine has no
 * RDMA device (verbs); other negative errnos. @e says why in words.
 *
 * An instance is for the process that makes it, with the credentials that it has
 * then: the kernel refuses RDMA's connection manager (EACCES) to a child after
 * fork(), and to whoever has changed user, group or capabilities since.
 */
int xp_create(enum xp_kind kind, const struct xp_config *cfg,
	      struct xp **ret_xp, struct error *e);

/* Every channel, listener and memory region must be gone. NULL is fine. */
void xp_destroy(struct xp *xp);

enum xp_kind xp_kind(const struct xp *xp);

/* Call before any other function here, in a process that will fork. Return: 0 or
 * -errno. */
int xp_fork_init(void);

/* True when the machine has what the transport needs, such as an RDMA device. */
bool xp_present(enum xp_kind kind);

/* ---- memory ---- */

/*
 * XP_REMOTE lets the peer read and write the memory as long as it is
 * registered: for an initiator's buffers. A target only ever uses XP_LOCAL.
 */
enum xp_access {
	XP_LOCAL,
	XP_REMOTE,
};

/* -ENOMEM with a text that names the locked-memory limit when that is it. */
int xp_mr_register(struct xp *xp, void *addr, size_t len, enum xp_access access,
		   struct xp_mr **ret_mr, struct error *e);
/* NULL is fine. No chain may use it any more. */
void xp_mr_free(struct xp_mr *mr);

/* How the peer of @ch names @ptr, which lies in @mr (XP_REMOTE). */
void xp_mr_remote(const struct xp_mr *mr, const struct xp_chan *ch,
		  const void *ptr, uint64_t *ret_addr, uint32_t *ret_key);

/* ---- channels ---- */

/* A received IU. The buffer is the user's until xp_iu_release(). */
struct xp_iu {
	struct list node; /* private */
	void *data;
	uint32_t len; /* bytes received */
	struct xp_chan *ch;
	struct xp_mr *mr; /* of data, for further use; NULL: none */
};

struct xp_handler {
	/* The connection is up; @pdata is what the acceptor sent (zero padded
	 * by some fabrics; empty on the accepting side). */
	void (*established)(struct xp_chan *ch, const void *pdata, size_t len);
	/* An IU has arrived. */
	void (*received)(struct xp_chan *ch, struct xp_iu *iu);
	/* The peer or the fabric ended the channel, or xp_close() is through,
	 * or connecting failed. @why->err is 0 when this side closed it.
	 * Call xp_chan_free() from here or later. */
	void (*closed)(struct xp_chan *ch, const struct error *why);
	/* Optional: the channel has begun to close; chains will be done with
	 * -ECANCELED from now on and closed() follows. */
	void (*closing)(struct xp_chan *ch);
};

struct xp_chan_params {
	const struct xp_handler *handler;
	void *user;
	/* Receive buffers to keep posted: one per credit that this side
	 * grants, and what else the peer may send unasked. */
	unsigned int recv_cnt;
	/* Sent to the peer with the connect or the accept. */
	const void *pdata;
	size_t pdata_len;
	/* Connecting only. */
	unsigned int timeout_ms; /* 0 = 5000 */
	/* RC transport retries, 0..7 (verbs); 0 = 7. */
	unsigned int retry_cnt;
};

/*
 * Connects to @addr. Return: 0, then established() or closed() follows, never
 * from within; or a negative errno and neither.
 */
int xp_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e);

/* Begins the end of a channel, connecting ones included; closed() follows,
 * never from within. Harmless when it has begun already. */
void xp_close(struct xp_chan *ch);

/* After closed(), when every IU has been released. */
void xp_chan_free(struct xp_chan *ch);

void *xp_chan_user(const struct xp_chan *ch);
struct xp *xp_chan_xp(const struct xp_chan *ch);
bool xp_chan_is_open(const struct xp_chan *ch);
/* "10.0.0.1:5555"; valid as long as the channel. */
const char *xp_chan_local(const struct xp_chan *ch);
const char *xp_chan_peer(const struct xp_chan *ch);
/* The device or interface, "rxe0" or "tcp". */
const char *xp_chan_device(const struct xp_chan *ch);
/* The private data of the peer's reject (an SRP_LOGIN_REJ), as the fabric
 * reports it, maybe padded; valid as long as the channel. *ret_len is 0 when the
 * peer sent no private data, or did not reject. */
const void *xp_chan_reject_data(const struct xp_chan *ch, size_t *ret_len);

/* Gives the buffer back, to be posted again at the end of the turn. */
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
 * Data movement and/or a SEND, in that order, as one unit. The caller fills it
 * in and keeps it, and all it points to, unchanged until done(). Nothing is
 * allocated.
 */
struct xp_chain {
	/* data: @len bytes between local and the first descriptors of remote */
	enum xp_dir dir;
	const struct srp_desc *remote;
	unsigned int remote_cnt;
	uint32_t len; /* bytes; at most the sum of the descriptors */
	void *local;
	struct xp_mr *local_mr;
	/* the SEND: send_cnt pieces, 0 = none */
	struct xp_sge send[2];
	unsigned int send_cnt;
	/* @status: 0; -ECANCELED: flushed after the channel failed or was
	 * closed; otherwise the negative errno of the failure that ends it. */
	void (*done)(struct xp_chain *chain, int status);

	/* private to xport.c */
	struct list node;
	unsigned int next_desc;
	uint32_t moved; /* bytes handed to the fabric */
	unsigned int groups;
	bool all_posted;
	int status;
};

/* A chain with neither data nor SEND is not allowed. */
void xp_post(struct xp_chan *ch, struct xp_chain *chain);

/* ---- listening ---- */

struct xp_conn_request {
	struct xp *xp;
	const void *pdata; /* valid until accept or reject */
	size_t pdata_len;  /* what the fabric reports, maybe padded */
	char local[64];	   /* "10.0.0.1:5555", as a person writes it */
	char peer[64];
	struct sockaddr_storage peer_addr;
	void *user; /* the listener's */
};

/*
 * Listens on @addr. @requested runs for every connection request; it, or
 * somebody later, must call xp_accept() or xp_reject() exactly once. A request
 * whose initiator has gone meanwhile may be accepted or rejected all the same;
 * the channel then just closes.
 */
int xp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	      void (*requested)(struct xp_conn_request *req), void *user,
	      struct xp_listener **ret_listener, struct error *e);
/*
 * As xp_listen(), but while no device has the address the listener waits until
 * one has. Every listener waits so when its device has gone. -EOPNOTSUPP: this
 * transport has no devices that could come.
 */
int xp_listen_later(struct xp *xp, const struct sockaddr *addr,
		    socklen_t addr_len,
		    void (*requested)(struct xp_conn_request *req), void *user,
		    struct xp_listener **ret_listener, struct error *e);
/* Requests not yet answered stay valid. NULL is fine. */
void xp_unlisten(struct xp_listener *l);

/*
 * @xp is the instance that will own the channel: the request's own, or one of
 * the same kind on another reactor, on whose thread this then must run. The
 * request is consumed in any case; on failure the peer has been rejected
 * without private data.
 */
int xp_accept(struct xp *xp, struct xp_conn_request *req,
	      const struct xp_chan_params *params, struct xp_chan **ret_ch,
	      struct error *e);
void xp_reject(struct xp_conn_request *req, const void *pdata, size_t len);

/* ---- counters ---- */

struct xp_stats {
	uint64_t posts;	     /* calls into the fabric that post sends */
	uint64_t wrs;	     /* work requests in them */
	uint64_t cqes;	     /* completions reaped */
	uint64_t recv_posts; /* calls that post receives */
	uint64_t recvs;	     /* IUs received */
	uint64_t arms;	     /* notifications asked for */
	uint64_t copied;     /* bytes of IUs and data copied on arrival (tcp) */
};

const struct xp_stats *xp_get_stats(const struct xp *xp);

#endif
