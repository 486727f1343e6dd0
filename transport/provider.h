/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between the core of the transport (xport.c) and a provider
 * (verbs/, tcp/, the fake of the tests). The core keeps the promises of xport.h
 * that do not depend on the fabric: queueing, batching, exactly-once
 * completion, one way to close a channel. Not for users of transports.
 *
 * Life of a channel as the core sees it:
 *
 *   CONNECTING --xp_core_established()--> OPEN
 *   CONNECTING, OPEN --xp_close() or xp_core_fail()--> CLOSING
 *        the core calls ops->disconnect(). The provider stops posting, and
 *        calls xp_core_drained() when the fabric no longer touches posted
 *        memory
 *   CLOSING --xp_core_drained()--> CLOSED
 *        the core ends the remaining chains as flushed and calls closed()
 */
#ifndef TRANSPORT_PROVIDER_H
#define TRANSPORT_PROVIDER_H

#include "transport/xport.h"

enum xp_chan_state {
	XP_CHAN_CONNECTING, /* xp_connect() or xp_accept() was called */
	XP_CHAN_OPEN,	    /* both sides agreed */
	XP_CHAN_CLOSING,    /* xp_close(), a disconnect or a failure */
	XP_CHAN_CLOSED, /* the fabric is done with it; closed() was called */
};

enum xp_wr_op {
	XP_WR_SEND,
	XP_WR_WRITE,
	XP_WR_READ,
};

/*
 * Work requests of which only the last one is signalled. Its completion returns
 * the send-queue entries of all of them. Groups lie in the memory of the
 * channel.
 */
struct xp_group {
	struct xp_chan *ch;
	struct xp_chain *chain;
	unsigned int wr_cnt;
	struct xp_group *next_free;
};

/* One work request, for the time of ops->post_send(). */
struct xp_wr {
	enum xp_wr_op op;
	bool signalled; /* ends its group */
	struct xp_sge sge[2];
	unsigned int sge_cnt;
	uint64_t remote_addr;
	uint32_t remote_key;
	struct xp_group *group;
};

struct xp_ops {
	enum xp_kind kind;
	/* True: completions come in posting order, so only the last work
	 * request of a batch need be signalled. False: all are. */
	bool selective;

	/* Reaps a limited number of completions; returns how many. NULL, as
	 * arm: completions come by the reactor's ring. */
	unsigned int (*poll)(struct xp *xp);
	/* As reactor_poller.arm. */
	bool (*arm)(struct xp *xp);
	/* Called at the end of a turn, after everything is posted; as
	 * reactor_poller.flush. NULL: there is nothing to do. */
	bool (*flush)(struct xp *xp);
	void (*destroy)(struct xp *xp);

	int (*listen)(struct xp *xp, const struct sockaddr *addr,
		      socklen_t addr_len,
		      void (*requested)(struct xp_conn_request *req),
		      void *user, struct xp_listener **ret_listener,
		      struct error *e);
	/* NULL: the transport has no sockets. */
	int (*listen_on)(struct xp *xp, int fd, const struct sockaddr *addr,
			 void (*requested)(struct xp_conn_request *req),
			 void *user, struct xp_listener **ret_listener,
			 struct error *e);
	/* NULL: the transport has no devices. */
	int (*listen_later)(struct xp *xp, const struct sockaddr *addr,
			    socklen_t addr_len,
			    void (*requested)(struct xp_conn_request *req),
			    void *user, struct xp_listener **ret_listener,
			    struct error *e);
	void (*unlisten)(struct xp_listener *l);
	/* As xp_demand(); NULL unless the traits have has_gids. */
	int (*demand)(struct xp_listener *l, const struct xp_route *want,
		      struct error *e);
	/* As xp_listener_set_keys(); NULL: the transport encrypts nothing. */
	void (*set_keys)(struct xp_listener *l, const struct xp_keyring *keys);
	int (*accept)(struct xp *xp, struct xp_conn_request *req,
		      const struct xp_chan_params *params,
		      struct xp_chan **ret_ch, struct error *e);
	void (*reject)(struct xp_conn_request *req, const void *pdata,
		       size_t len);
	int (*connect)(struct xp *xp, const struct sockaddr *addr,
		       socklen_t addr_len, const struct xp_chan_params *params,
		       struct xp_chan **ret_ch, struct error *e);

	/*
	 * Posts @n work requests, with one call if the fabric can. Returns how
	 * many were taken, or a negative errno. If that is not @n, the core
	 * fails the channel.
	 */
	int (*post_send)(struct xp_chan *ch, const struct xp_wr *wr,
			 unsigned int n);
	/* Posts the released IUs in @ius again, but for those that a closed
	 * channel no longer needs, and empties the list. */
	void (*post_recv)(struct xp *xp, struct list *ius);
	/* Begins the disconnect; leads to xp_core_drained(), never from
	 * within. Called once per channel. */
	void (*disconnect)(struct xp_chan *ch);
	/* True: the peer has given a sign by now, and heard_us says so. NULL: completions
	 * set heard_us. */
	bool (*lives)(struct xp_chan *ch);
	/* Asks for a sign; xp_core_heard() follows, by what the kernel knows then. Not
	 * called again before. NULL: the core probes the peer. */
	void (*ask)(struct xp_chan *ch);
	/* As xp_chan_has_unread(). NULL: never. */
	bool (*has_unread)(struct xp_chan *ch);
	/* Frees the channel, which is CLOSED. */
	void (*chan_free)(struct xp_chan *ch);

	int (*mr_register)(struct xp *xp, void *addr, size_t len,
			   enum xp_access access, struct xp_mr **ret_mr,
			   struct error *e);
	void (*mr_free)(struct xp_mr *mr);
	void (*mr_remote)(const struct xp_mr *mr, const struct xp_chan *ch,
			  const void *ptr, uint64_t *ret_addr,
			  uint32_t *ret_key);
};

/* One transport, for registry.c. */
struct xp_provider {
	/* As xp_create(). */
	int (*create)(const struct xp_config *cfg, struct xp **ret_xp,
		      struct error *e);
	/* As xp_present(); NULL: always. */
	bool (*present)(void);
	/* As xp_has_address(); NULL: always. */
	bool (*has_address)(void);
	/* As xp_reach(). */
	int (*reach)(const struct sockaddr *addr, socklen_t addr_len,
		     char *ret_by, size_t size, struct error *e);
	/* As xp_fork_init(); NULL: nothing to do. */
	int (*fork_init)(void);
};

#define XP_DECLARE_PROVIDER(kind, prefix) \
	extern const struct xp_provider prefix##_provider;
XP_TRANSPORTS(XP_DECLARE_PROVIDER)
#undef XP_DECLARE_PROVIDER

/* Embedded first in a provider's own. */
struct xp {
	const struct xp_ops *ops;
	struct xp_config cfg;
	struct reactor_poller poller;
	struct list dirty;    /* channels with chains to post */
	struct list released; /* IUs to post again */
	struct list undone;   /* chains to be done as flushed */
	struct xp_stats stats;
	struct list probed; /* channels, by probed_node */
	struct reactor_timer probe_timer;
};

/* Embedded first in a provider's own. */
struct xp_chan {
	struct xp *xp;
	const struct xp_handler *handler;
	void *user;
	enum xp_chan_state state;
	struct list chains; /* not done, in the order of xp_post() */
	/* The first of them that the fabric does not have completely; the list
	 * itself if it has all. */
	struct list *unposted;
	struct list dirty_node;
	unsigned int slots; /* free send-queue entries */
	struct xp_group *groups;
	struct xp_group *free_groups;
	unsigned int used_groups; /* those behind were never touched */
	unsigned int ius_held;	  /* received and not yet released */
	/* Set by a provider that does not detect a dead peer by itself: the
	 * core then sends a zero-length RDMA WRITE, which the peer must
	 * acknowledge, and which needs neither a key nor memory. */
	bool probes;
	struct list probed_node; /* OPEN and probes */
	bool probing;		 /* probe is under way */
	bool probe_again;	 /* it was posted before xp_chan_ask() */
	struct xp_chain probe;
	/* The earliest time of the latest sign of the peer, by reactor_turn_us().
	 * The provider sets it, before it tells the core of what has arrived. */
	uint64_t heard_us;
	uint64_t looked_us; /* heard_us when the core looked for silent peers */
	bool asked;	    /* heard() follows */
	struct error why;
	uint8_t reject_data[XP_PDATA_MAX]; /* of the peer's reject */
	size_t reject_len;		   /* bytes; 0: none */
	char local[64];
	char peer[64];
	char device[32];
	struct xp_negotiated negotiated;
	const char *proved; /* as xp_chan_proved() */
	bool encrypted;
};

/* Embedded first in a provider's own. */
struct xp_listener {
	struct xp *xp;
};

/* Embedded first in a provider's own. */
struct xp_mr {
	struct xp *xp;
	void *addr;
	size_t len;
};

/* ---- calls of a provider into the core ---- */

/* Starts the common part; adds the poller to the reactor. */
void xp_core_init(struct xp *xp, const struct xp_ops *ops,
		  const struct xp_config *cfg);
/* Ends it; from ops->destroy. */
void xp_core_fini(struct xp *xp);

/* Common part of a new channel, CONNECTING; @slots send-queue entries. */
int xp_core_chan_init(struct xp_chan *ch, struct xp *xp,
		      const struct xp_chan_params *params, unsigned int slots);
void xp_core_chan_fini(struct xp_chan *ch);

void xp_core_established(struct xp_chan *ch, const void *pdata, size_t len);
/* @iu belongs to the core, then to the user, until ops->post_recv() gets it. */
void xp_core_received(struct xp_chan *ch, struct xp_iu *iu);
/* The peer has given a sign after it was asked, if it was. */
void xp_core_heard(struct xp_chan *ch);
/* The signalled work request of a group has completed; 0 or -errno. */
void xp_core_group_done(struct xp_group *group, int status);
/* Some other work request of the group failed (an error completion). */
void xp_core_wr_failed(struct xp_group *group, int status);
/* The peer rejected the connection with this private data, at most XP_PDATA_MAX
 * bytes. xp_core_fail() follows. */
void xp_core_keep_reject(struct xp_chan *ch, const void *data, size_t len);
/* The peer left, the connection broke, or connecting failed. Leads to
 * ops->disconnect(). Only the first call counts. */
void xp_core_fail(struct xp_chan *ch, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The fabric no longer has anything of the channel. */
void xp_core_drained(struct xp_chan *ch);

/* Sets @e to why listening failed with @err, a negative errno. */
void xp_core_listen_failed(struct error *e, int err);

/* Cuts the receive buffers of a channel (or shared pool) out of one block:
 * bytes per buffer, and the offset of the first IU in an aligned block. */
void xp_core_recv_layout(const struct xp_config *cfg, size_t *ret_stride,
			 size_t *ret_first);

#endif
