/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the tcp provider share. Only these files and their tests
 * include this header. tcp.c describes how the provider works.
 *
 *   wire.[ch]   the meaning of the bytes
 *   tcp.c       instances, and the memory that peers may use
 *   chan.c      channels: their beginning and their end
 *   listen.c    listeners, and pending connections
 *   send.c      the sending part of a channel
 *   recv.c      the receiving part
 *   socket.c    options of sockets, and those that listen
 *   given.c     sockets that another process has made
 *   tls.[ch]    one TLS connection, as bytes; records.[ch] are its records
 *   chan_tls.c  TLS of a channel: the handshake, and what was received
 *
 * Thread: the reactor of the instance. Only connection requests move to another
 * reactor (tcp_accept(), tcp_reject()).
 */
#ifndef TRANSPORT_TCP_INTERNAL_H
#define TRANSPORT_TCP_INTERNAL_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "config.h"
#include "transport/provider.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls.h"
#include "transport/tcp/wire.h"

/* SENDs up to this size are copied behind their header, which saves a piece. */
#define TCP_INLINE_MAX 128u
/* READs of the peer that wait for the socket. With so many, nothing is read
 * from it. */
#define TCP_ANSWERS_MAX 64u
/* Of a longer one, less remains unused at its end, and a held IU pins more
 * memory. */
#define TCP_STAGE_LEN 65536u
/*
 * A channel that sends and reads little is light. While a thread has one, operations
 * of the others have at most TCP_SHARED_MAX bytes: the kernel copies them at once,
 * and the light channel waits for that. It costs heavy channels up to half of their
 * speed, so they do not do it for each other.
 */
#define TCP_SHARED_MAX 32768u
/* Operations without so many bytes that make a channel a light one. */
#define TCP_LIGHT_MIN 64u
/* Without a light channel for so many operations, there is none. */
#define TCP_ALONE_MIN 256u
/* Pieces of memory in one call: the kernel's UIO_MAXIOV. */
#define TCP_IOV_MAX 1024u

struct tcp_chan;

struct tcp_xp {
	struct xp base;
	struct list chans;
	struct list mrs[64]; /* XP_REMOTE, by key */
	struct list ready;   /* channels with something to send */
	struct list drained; /* channels whose last operation has ended */
	bool resumed;	     /* a channel that was blocked */
	/* Operations of heavy channels that have sent since one of a light
	 * channel, up to TCP_ALONE_MIN. */
	unsigned int alone;
	struct reactor_timer look; /* for messages that do not end */
};

struct tcp_mr {
	struct xp_mr base;
	struct list node; /* XP_REMOTE */
	uint32_t key;
};

/* A message to send. A READ keeps it until the answer has come. */
struct tcp_tx {
	struct list node;	/* chan.txq; or free */
	struct list read_node;	/* chan.reads */
	struct xp_group *group; /* NULL: it answers a READ of the peer */
	enum tcp_op op;
	bool posted;   /* the kernel has it, or had it */
	bool sent;     /* the socket has taken all of it */
	bool answered; /* READ: the data has arrived */
	/* Data behind the header; READ: its destination. */
	unsigned int iov_cnt;
	struct iovec iov[TCP_REGIONS_MAX];
	/* The header, and the data of a small SEND. */
	uint32_t head_len;
	uint8_t head[TCP_HDR_LEN + TCP_INLINE_MAX];
};

/*
 * Memory into which the socket is read. IUs are given to the user where they
 * lie, and pin their stage. A peer can make each of them pin another one. So
 * the stages have room for all IUs, and two more. When no other stage is
 * free, IUs are copied to memory of their own: there is always one to read
 * into.
 */
struct tcp_stage {
	struct list node; /* chan.free_stages */
	uint8_t *data;
	unsigned int held; /* its IUs that are not released */
};

struct tcp_iu {
	struct xp_iu base;
	struct tcp_stage *stage; /* NULL: it was copied */
};

/* The receiving part: bytes read ahead, and the message that has begun. */
struct tcp_rx {
	struct tcp_stage *stage;
	size_t off;    /* of the first byte that was not handled */
	size_t len;    /* end of the bytes in the stage */
	size_t window; /* bytes to read ahead */
	size_t asked;  /* bytes that the operation in flight asks for */
	size_t taken;  /* bytes into the stage by the last operation */
	bool emptied;  /* the socket gave fewer bytes than that */
	bool blocked;  /* no IU is free, or too many READs are waiting */
	bool body;     /* after a header; left bytes of data are not handled */
	enum tcp_op op;
	uint64_t left;
	struct iovec sink[TCP_REGIONS_MAX + 1]; /* + 1: the stage */
	unsigned int sink_cnt;
	unsigned int sink_at;
	struct tcp_iu *iu; /* MSG */
	struct msghdr msg;
	/* For tcp_look(). */
	uint64_t seen;
	unsigned int stale;
};

struct tcp_chan {
	struct xp_chan base;
	struct list node; /* xp.chans */
	int fd;
	enum tcp_order order;
	struct reactor_op rx_op;
	struct reactor_op tx_op;
	bool rx_busy;
	bool tx_busy;
	bool revoked;	      /* memory in use was unregistered */
	struct list end_node; /* xp.drained */

	/* Signs of life. */
	struct reactor_timer ask_timer;
	uint64_t lives_us; /* of the last look */
	bool held;	   /* the peer may have ended, unseen ... */
	uint64_t held_at;  /* ... when so many bytes were written */

	/* NULL: the connection is plain. */
	struct tcp_tls *tls;
	bool seals; /* makes records here, not in the kernel ... */
	bool opens; /* ... and opens them */

	/* Connecting and accepting. */
	struct reactor_timer timer;
	unsigned int timeout_ms; /* 0: accepted */
	struct sockaddr_storage addr;
	size_t cm_len;

	/* Sending. */
	struct list ready_node; /* xp.ready */
	struct list txq;
	size_t tx_off;	   /* bytes of the first that were sent */
	size_t tx_len;	   /* bytes in flight */
	struct list reads; /* READs without an answer, oldest first */
	struct list free_tx;
	unsigned int used_tx; /* txs behind these were never touched */
	unsigned int answers;
	uint8_t next_id;
	unsigned int small; /* operations since a large one, up to
			     * TCP_LIGHT_MIN */
	struct msghdr msg;

	struct tcp_rx rx;
	struct list free_ius;
	struct list free_stages;
	unsigned int used_ius;
	unsigned int used_stages;
	unsigned int iu_cnt;
	unsigned int stage_cnt;
	struct xp_mr recv_mr;

	/*
	 * One mapping for all large arrays: pages that are never touched cost
	 * nothing.
	 */
	void *block;
	size_t block_len;
	struct tcp_tx *txs;
	struct iovec *iov;
	struct tcp_iu *ius;
	struct tcp_stage *stages;
	uint8_t *stage_data;
	size_t stage_len;
	uint8_t *copies; /* recv_len bytes for each IU */
};

struct tcp_request {
	struct xp_conn_request base;
	int fd;
	struct tcp_tls *tls; /* NULL: the connection is plain */
	enum tcp_order order;
	uint8_t pdata[TCP_CM_DATA_MAX];
};

static inline struct tcp_xp *tcp_xp(struct xp *xp)
{
	return container_of(xp, struct tcp_xp, base);
}

static inline struct tcp_chan *tcp_chan(struct xp_chan *ch)
{
	return container_of(ch, struct tcp_chan, base);
}

/* Is there a light channel that sends? */
static inline bool tcp_is_shared(const struct tcp_xp *xp)
{
	return xp->alone < TCP_ALONE_MIN;
}

static inline struct reactor *tcp_reactor(struct tcp_chan *ch)
{
	return ch->base.xp->cfg.reactor;
}

/* ---- tcp.c ---- */

/* Where @r of the peer's request lies; NULL: not in memory it may use. */
void *tcp_mr_find(struct tcp_xp *xp, const struct tcp_region *r);

/* Every result of an operation on a socket passes through here: a fault point,
 * in builds that have them. */
static inline int tcp_result(int res)
{
	return res;
}
#if FAULT_INJECTION
#include "transport/tcp/fault.h"
#endif

/* ---- chan.c ---- */

int tcp_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
		const struct xp_chan_params *params, struct xp_chan **ret_ch,
		struct error *e);
int tcp_accept(struct xp *xp, struct xp_conn_request *base,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e);
void tcp_disconnect(struct xp_chan *base);
void tcp_chan_free(struct xp_chan *base);
/* xp_ops.lives, ask and has_unread */
bool tcp_chan_lives(struct xp_chan *base);
void tcp_ask(struct xp_chan *base);
bool tcp_chan_has_unread(struct xp_chan *base);
/* The socket failed with @err (negative); -ESHUTDOWN: the peer has closed it. */
void tcp_broke(struct tcp_chan *ch, int err);
/* After the end of an operation: true when the channel is closing, so that
 * nothing else is to be done. */
bool tcp_is_ending(struct tcp_chan *ch);
/* Says of the channels on xp.drained that they are. */
bool tcp_finish_drained(struct tcp_xp *xp);

/* The socket failed with @err (negative) before the channel was open. */
void tcp_chan_connect_failed(struct tcp_chan *ch, int err);
/* The result of an operation of a channel that connects. False: there is
 * nothing more to do. */
bool tcp_chan_goes_on(struct tcp_chan *ch, bool *busy, int *res);
/* The handshake is over. */
void tcp_chan_request(struct tcp_chan *ch);

/* ---- chan_tls.c ---- */

/* Shakes hands, then calls tcp_chan_request(). */
void tcp_chan_shake(struct tcp_chan *ch);
/* Begins to receive records for tls_read(). Returns the bytes that are asked for, at
 * most @max. */
size_t tcp_chan_receive_records(struct tcp_chan *ch, size_t max,
				void (*done)(struct reactor_op *, int,
					     unsigned int));
/* Begins to send what tls_write() has made. */
void tcp_chan_send_records(struct tcp_chan *ch,
			   void (*done)(struct reactor_op *, int,
					unsigned int));
/* The channel opens. False: it has failed. */
bool tcp_chan_begin_records(struct tcp_chan *ch);

/* ---- listen.c ---- */

/* xp_provider.reach (reach.c) */
int tcp_reach(const struct sockaddr *addr, socklen_t addr_len, char *ret_by,
	      size_t size, struct error *e);

int tcp_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       void (*requested)(struct xp_conn_request *req), void *user,
	       struct xp_listener **ret_listener, struct error *e);
/* It waits for no device, but for the address. */
int tcp_listen_later(struct xp *xp, const struct sockaddr *addr,
		     socklen_t addr_len,
		     void (*requested)(struct xp_conn_request *req), void *user,
		     struct xp_listener **ret_listener, struct error *e);
int tcp_listen_on(struct xp *xp, int fd, const struct sockaddr *addr,
		  void (*requested)(struct xp_conn_request *req), void *user,
		  struct xp_listener **ret_listener, struct error *e);
void tcp_unlisten(struct xp_listener *base);
void tcp_listener_set_keys(struct xp_listener *base,
			   const struct xp_keyring *keys);
void tcp_reject(struct xp_conn_request *base, const void *pdata, size_t len);

/* ---- send.c ---- */

int tcp_post_send(struct xp_chan *base, const struct xp_wr *wr, unsigned int n);
/* Queues the answer to a READ of the peer's; false: too many are waiting. The
 * @iov are its memory. */
bool tcp_answer_read(struct tcp_chan *ch, const struct iovec *iov,
		     unsigned int cnt);
/* Hands what is queued to the kernel, unless it still has some. */
void tcp_send_ready(struct tcp_xp *xp);
/* The oldest READ that was asked for and has no answer; NULL: there is none. */
struct tcp_tx *tcp_oldest_read(struct tcp_chan *ch);
/* Its data is there. */
void tcp_read_answered(struct tcp_chan *ch, struct tcp_tx *tx);

/* ---- recv.c ---- */

/* A stage that is free. There is one. */
struct tcp_stage *tcp_stage_get(struct tcp_chan *ch);
/* Handles what was read, and reads more. */
void tcp_rx_run(struct tcp_chan *ch);
void tcp_post_recv(struct xp *xp, struct list *ius);
/* Ends channels whose peer began a message long ago. */
void tcp_look(struct reactor_timer *t);

#endif
