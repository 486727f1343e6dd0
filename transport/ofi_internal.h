/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the tcp provider share; see ofi.c for who does what. Nobody
 * else includes this, or libfabric.
 */
#ifndef TRANSPORT_OFI_INTERNAL_H
#define TRANSPORT_OFI_INTERNAL_H

/* Before libfabric's headers, which have a container_of of their own: one
 * that clang's -Wcast-align does not like. */
#include "transport/provider.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <netinet/in.h>
#include <stdatomic.h>

#include "config.h"
#if FAULT_INJECTION
#include "transport/ofi_fault.h"
#endif

/* One of the provider's wait descriptors in the reactor. Outlives its owner
 * until the reactor is done with it. */
struct ofi_watch {
	struct reactor_watch base;
	bool *flag; /* set when there is something to read */
};

/* An event queue: that of the channels of an xp, or that of a listener. */
struct ofi_eq {
	struct ofi_xp *xp;
	struct fid_eq *fid;
	struct ofi_watch *watch;
	struct list node; /* in ofi_xp.eqs */
	int fd;
	bool ready; /* to be read */
};

/* Wakes the reactor for the completion queue; see arm(). Outlives its owner
 * until the reactor is done with it. */
struct ofi_wake {
	struct reactor_op op;
	int fd;
	bool armed;
	bool abandoned;
};

struct ofi_xp {
	struct xp base;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct ofi_wake *wake;
	struct reactor_timer nap; /* while a channel is starved */
	struct ofi_eq eq;
	struct list eqs;
	bool running_eqs;
	/* Channels, by ofi_chan.node: */
	struct list lost;     /* the peer is gone; what it sent is to be read */
	struct list closing;  /* to be closed */
	struct list closed;   /* closed; completions are to be read */
	struct list late;     /* by late_node: the fabric was full */
	unsigned int starved; /* channels without any posted receive */
	bool idle;	      /* the last look found nothing */
};

/* A ring of work requests that the fabric had no room for. */
struct ofi_late {
	struct xp_wr *wrs;
	unsigned int size;
	unsigned int head;
	unsigned int cnt;
};

struct ofi_mr {
	struct xp_mr base;
	struct fid_mr *fid; /* NULL: local only, which needs none */
};

struct ofi_chan {
	struct xp_chan base;
	struct fid_ep *ep;
	struct list node;
	struct list late_node;
	struct ofi_late late;
	struct reactor_timer timer; /* connecting; closing with reads */
	unsigned int timeout_ms;
	struct xp_iu *ius;
	unsigned int iu_cnt;
	void *recv_block;
	struct ofi_mr recv_mr;
	unsigned int posted_recvs;
	unsigned int posted_reads;
	bool undone; /* the user never heard of it */
};

/*
 * Connections that were accepted and have not asked for anything: libfabric
 * waits for them for ever, and tells nobody.
 */
struct ofi_half_open {
	struct ofi_stranger {
		int fd;
		struct sockaddr_storage peer;
	} * seen; /* by the last look */
	unsigned int cnt;
};

struct ofi_listener {
	struct xp_listener base;
	struct ofi_eq eq;
	struct fid_pep *pep;
	struct ofi_half_open half_open;
	struct reactor_timer look; /* for them, while something happens */
	bool looking;
	void (*requested)(struct xp_conn_request *req);
	void *user;
	bool closed;
	/* One for the user, one per unanswered request; any thread. */
	atomic_uint refs;
};

struct ofi_request {
	struct xp_conn_request base;
	struct ofi_listener *listener;
	struct fi_info *info;
	uint8_t pdata[XP_PDATA_MAX];
};

static inline struct ofi_xp *ofi_xp(struct xp *xp)
{
	return container_of(xp, struct ofi_xp, base);
}

static inline struct ofi_chan *ofi_chan(struct xp_chan *ch)
{
	return container_of(ch, struct ofi_chan, base);
}

/* ---- ofi_net.c ---- */

/* The first opens libfabric, the last closes it. Thread: any. */
int ofi_net_get(struct xp_error *e);
void ofi_net_put(void);
/* While anybody has it. */
struct fid_fabric *ofi_fabric(void);
/* Attributes of an endpoint, to be freed; NULL: out of memory. */
struct fi_info *ofi_info(void);

/* A wait descriptor; *flag is set whenever it becomes readable. */
struct ofi_watch *ofi_watch_start(struct reactor *r, int fd, bool *flag);
void ofi_watch_stop(struct ofi_watch *w);

int ofi_mr_register(struct xp *base, void *addr, size_t len,
		    enum xp_access access, struct xp_mr **ret_mr,
		    struct xp_error *e);
void ofi_mr_free(struct xp_mr *base);
void ofi_mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
		   const void *ptr, uint64_t *ret_addr, uint32_t *ret_key);

/* The descriptor of the socket below; -1: there is none. */
int ofi_socket_of(struct fid_ep *ep);
int ofi_listening_socket(struct fid_pep *pep);

/*
 * Looks for those that came to port @port (network byte order), and ends those
 * that the last look found as well, so that the provider forgets them. Returns
 * how many are left.
 */
unsigned int ofi_half_open_look(struct ofi_half_open *h, in_port_t port);

/* ---- ofi.c ---- */

/* Memory to receive @cnt IUs into, and one more: a peer that keeps to what it
 * was granted then never finds none. */
int ofi_recv_alloc(struct ofi_chan *ch, unsigned int cnt);
void ofi_recv_free(struct ofi_chan *ch);
/* Posts all of them. */
int ofi_recv_post_all(struct ofi_chan *ch);

int ofi_late_alloc(struct ofi_chan *ch);

/* ---- ofi_cm.c ---- */

int ofi_eq_open(struct ofi_xp *xp, struct ofi_eq *eq);
void ofi_eq_close(struct ofi_eq *eq);
/* Handles what there is; returns how many events. */
unsigned int ofi_eq_run(struct ofi_eq *eq);
/* All those that are ready. */
unsigned int ofi_run_eqs(struct ofi_xp *xp);
bool ofi_eq_ready(const struct ofi_xp *xp);

int ofi_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       void (*requested)(struct xp_conn_request *req), void *user,
	       struct xp_listener **ret_listener, struct xp_error *e);
void ofi_unlisten(struct xp_listener *base);
int ofi_accept(struct xp *xp, struct xp_conn_request *base,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct xp_error *e);
void ofi_reject(struct xp_conn_request *base, const void *pdata, size_t len);
int ofi_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
		const struct xp_chan_params *params, struct xp_chan **ret_ch,
		struct xp_error *e);
void ofi_chan_free(struct xp_chan *base);

/* ---- ofi_end.c ---- */

void ofi_disconnect(struct xp_chan *base);
/* Fails a channel whose peer ended it. */
void ofi_broke(struct ofi_chan *ch);

/* The three steps of the end of channels; see poll_xp(). */
unsigned int ofi_finish_lost(struct ofi_xp *xp);
void ofi_close_endpoints(struct ofi_xp *xp);
unsigned int ofi_finish_closed(struct ofi_xp *xp);
/* True when ofi_close_endpoints() has something to do. */
bool ofi_can_close(const struct ofi_xp *xp);

#endif
