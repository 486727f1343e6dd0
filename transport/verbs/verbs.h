/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the verbs provider share. It uses libibverbs for queues and
 * memory, and librdmacm for connections. Only these files include this header
 * and those of the two libraries.
 *
 *   verbs.c   instances, memory regions, polling
 *   dev.c     devices: context, protection domain, events; queue pools
 *   plug.c    devices that come and go
 *   recv.c    receive queues and their buffers
 *   chan.c    queue pairs: posting, completions, the end of a channel
 *   cm.c      events of the connection manager, connecting, accepting
 *   listen.c  listeners
 *   route.c   what RDMA CM chose for a connection, and the choice of a service level
 *   gid.c     from a GID to an address of this machine
 *   reach.c   which device leads to an address
 *   reason.c  texts for statuses and reject reasons
 *
 * Each instance opens the devices itself and does not use the contexts of
 * librdmacm. librdmacm has one context per device and process. Its asynchronous
 * events would reach the reactor that reads first, which would have to find the
 * channel of another reactor. So librdmacm never sees our queue pairs (id->qp
 * is NULL): it gets their numbers, and cm.c moves them through their states.
 *
 * Thread: the reactor of the instance. Only connection requests move to another
 * reactor (vb_accept()).
 */
#ifndef TRANSPORT_VERBS_VERBS_H
#define TRANSPORT_VERBS_VERBS_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>

#include "config.h"
#include "transport/provider.h"
#include "transport/route.h"
#if FAULT_INJECTION
#include "transport/verbs/fault.h"
#endif

#define VB_QPN_BUCKETS	   256u
#define VB_INLINE_MAX	   256u
#define VB_READ_DEPTH	   4u	 /* ib_srp answers 4 READs at a time */
#define VB_ACCEPT_MS	   10000 /* from our accept to the peer's RTU */
#define VB_DRAIN_MS	   5000	 /* devices flush in far less time */
#define VB_LAST_WQE_MS	   100	 /* if it is not known to send the event */
#define VB_LAST_WQE_MAX_MS 2000	 /* if it is known to send it */
#define VB_STUCK_MS	   100	 /* until it is destroyed again */
#define VB_SPARE_RECVS	   64u	 /* of a pool, in place of lost ones */
#define VB_LEAVE_MS	   500	 /* as VB_DRAIN_MS, when the device leaves */

/* Devices of one machine. Further ones are not used. */
#define VB_DEVS_MAX 64u

/* The error of a call of verbs that returns it: positive by the manual, but some drivers
 * return it negative. */
static inline int vb_errno(int result)
{
	return result > 0 ? -result : result;
}

struct vb_chan;
struct vb_dev;
struct vb_pool;
struct vb_recvq;
struct vb_xp;

/* ---- instances (verbs.c) ---- */

/* A watch that outlives its owner, because the reactor needs the memory until
 * the watch has stopped. */
struct vb_watch {
	struct reactor_watch base;
	void *owner;
};

struct vb_xp {
	struct xp base;
	bool created;
	struct rdma_event_channel *cm; /* NULL: no device has come yet */
	struct vb_watch *cm_watch;
	int uevent_fd; /* the kernel announces devices here; -1: it cannot */
	struct vb_watch *uevent_watch;
	char unusable[IBV_SYSFS_NAME_MAX]; /* the last one that was reported */
	struct vb_dev *devs[VB_DEVS_MAX];  /* NULL: a free slot */
	unsigned int leaving;		   /* devices that are not SERVING */
	struct list mrs;		   /* vb_mr.node */
	struct list listeners;
	struct reactor_timer listen_timer; /* for listeners that wait */
	unsigned int listen_pause_ms;
	struct list closing; /* channels from disconnect() to drained */
	struct list lingering;
};

/* The next device of @vx from slot *@slot on, NULL after the last one. */
static inline struct vb_dev *vb_dev_next(const struct vb_xp *vx,
					 unsigned int *slot)
{
	while (*slot < VB_DEVS_MAX) {
		struct vb_dev *dev = vx->devs[(*slot)++];

		if (dev)
			return dev;
	}
	return NULL;
}

/* The body may free @dev. */
#define vb_for_each_dev(dev, vx, slot) \
	for (unsigned int slot = 0; ((dev) = vb_dev_next((vx), &(slot)));)

/* Makes @fd non-blocking and watches it for input. */
int vb_watch_new(struct vb_xp *vx, int fd, void *owner,
		 void (*ready)(struct reactor_watch *w, uint32_t events),
		 struct vb_watch **ret_watch);
/* NULL is fine. */
void vb_watch_free(struct vb_watch *w);

struct vb_mr {
	struct xp_mr base;
	struct list node; /* vx->mrs */
	enum xp_access access;
	bool everywhere;		 /* for every device that is used */
	bool promised;			 /* no device has had it yet */
	struct ibv_mr *mrs[VB_DEVS_MAX]; /* by device; NULL: not registered */
};

/*
 * Memory costs a device that nobody uses nothing, and such a device breaks nothing:
 * memory is registered with a device when a channel is opened there, or with all that
 * have channels when it is new. A device that does not take it fails its own channels,
 * those that open and those that use this memory.
 *
 * Registers with @only; NULL: for every device. That fails if the limit of locked memory
 * does not allow it, or if all devices in use refuse.
 */
int vb_mr_new(struct vb_xp *vx, struct vb_dev *only, void *addr, size_t len,
	      enum xp_access access, struct xp_mr **ret_mr, struct error *e);
void vb_mr_free(struct xp_mr *base);
/* A channel is to be opened on @dev: registers what it lacks. On failure of a device
 * without channels, nothing stays registered for them. */
int vb_mr_join(struct vb_dev *dev, struct error *e);
/* Deregisters everything from @dev. No queue pair of it may be left. */
void vb_mr_leave(struct vb_dev *dev);

/* ---- devices (dev.c) ---- */

/*
 * Does the device report IBV_EVENT_QP_LAST_WQE_REACHED? After that event a
 * queue pair takes nothing more from a shared receive queue. Some devices do
 * not report it (soft-RoCE before Linux 6.3), so the instance learns it from
 * what happens.
 */
enum vb_last_wqe {
	VB_LAST_WQE_UNKNOWN,
	VB_LAST_WQE_NEVER,
	VB_LAST_WQE_SENT,
};

/*
 * Life of a device, which an instance has opened.
 *
 *   SERVING
 *      vb_plug_look() no longer finds it: the kernel removes it, and waits
 *      until no process has it open
 *   LEAVING  its channels have failed and are closing; nothing new is made on it
 *      its last queue pair is destroyed
 *   GONE     the context is closed, with all queues, memory regions and
 *            protection domains. The struct stays until the users have freed
 *            their channels and released their IUs
 *
 * A device that is sick has reported a fatal error. It leaves, although it is
 * still listed, and its struct stays as long as that: so nobody opens it again.
 */
enum vb_dev_state {
	VB_DEV_SERVING,
	VB_DEV_LEAVING,
	VB_DEV_GONE,
};

/* Of one device, which librdmacm may think is another one. */
#define VB_PINS_MAX 4

struct vb_dev {
	struct vb_xp *vx;
	enum vb_dev_state state;
	unsigned int index; /* in vx->devs and vb_mr.mrs */
	bool sick;
	/* Which it is: its memory may be another one's when it is no longer
	 * listed, but the kernel gives no number twice. */
	const struct ibv_device *ibdev;
	int number;
	char name[IBV_SYSFS_NAME_MAX];
	unsigned int chans; /* channels that point to it */
	unsigned int qps;
	struct ibv_context *ctx; /* NULL: GONE */
	/* Contexts of librdmacm, which does not close them in time; see vb_cm_pin().
	 * Each is a list of one; NULL: no more. */
	struct ibv_context **pins[VB_PINS_MAX];
	bool lost; /* by librdmacm, as the user was told */
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct vb_watch *comp_watch;
	unsigned int armed; /* pools that will send an event */
	struct vb_watch *async_watch;
	bool iwarp;
	enum vb_last_wqe last_wqe;
	struct list pools;
	struct list by_qpn[VB_QPN_BUCKETS]; /* vb_chan.qpn_node */
};

/* Has the kernel it, as far as we know? */
static inline bool vb_dev_is_known(const struct vb_dev *dev)
{
	return dev->state == VB_DEV_SERVING || dev->sick;
}

/* Opens @ibdev. On failure nothing is left. */
int vb_dev_open(struct vb_xp *vx, struct ibv_device *ibdev, struct error *e);
/* Is it @ibdev? */
bool vb_dev_is(const struct vb_dev *dev, struct ibv_device *ibdev);
/* Begins the end of a device that the kernel removes: fails its channels. */
void vb_dev_leave(struct vb_dev *dev);
/* The kernel has removed one that was sick. */
void vb_dev_removed(struct vb_dev *dev);
/* Continues the end of all devices that leave, as far as possible now. */
void vb_dev_reap(struct vb_xp *vx);
/* Closes and frees it. No channel may be left. */
void vb_dev_free(struct vb_dev *dev);
/* @dev or NULL becomes the device of @ch. */
void vb_dev_bind(struct vb_chan *ch, struct vb_dev *dev);
/*
 * The door: may @dev be used for a new connection, which this side accepts or not?
 * 0, or -ENODEV, -EIO or -EOPNOTSUPP and @e.
 */
int vb_dev_may(const struct vb_dev *dev, bool accepting, struct error *e);
/* Our device for that of @id, which may have come just now, and passed the door.
 * NULL and @e: there is none. */
struct vb_dev *vb_dev_for(struct vb_xp *vx, const struct rdma_cm_id *id,
			  bool accepting, struct error *e);
const char *vb_dev_name(const struct vb_dev *dev);
struct vb_chan *vb_dev_chan(struct vb_dev *dev, uint32_t qpn);
void vb_dev_add_chan(struct vb_dev *dev, struct vb_chan *ch);

/* ---- devices that come and go (plug.c) ---- */

/* Begins to listen for the kernel's announcements of devices. If that is not
 * possible, the instance looks for devices when the connection manager reports
 * a change. */
void vb_plug_open(struct vb_xp *vx);
void vb_plug_close(struct vb_xp *vx);
/* A socket that is readable when devices have changed; -1: not possible. */
int vb_uevents_open(void);
/* Takes what has come. True: one of them was about a device that can be opened. */
bool vb_uevents_read(int fd);
/* Looks which devices exist: opens new ones, and begins the end of removed
 * ones. Returns how many are SERVING. If none is, the reason is in @e (may be
 * NULL). */
unsigned int vb_plug_look(struct vb_xp *vx, struct error *e);
/* Tells the user that something of @dev has failed, and what follows. */
void vb_plug_failed(const struct vb_dev *dev, const char *why);

/* ---- receive queues (recv.c) ---- */

struct vb_slab;

struct vb_iu {
	struct xp_iu base;
	struct vb_slab *slab;
	uint64_t number; /* in the order of posting */
	bool missing;
};

/* Receive buffers that were allocated and registered together. */
struct vb_slab {
	struct list node;
	struct vb_recvq *rq;
	struct xp_mr *mr;
	void *mem;
	size_t mem_len;
	unsigned int cnt;
	unsigned int idle; /* IUs of it in rq->idle */
	struct vb_iu ius[];
};

/*
 * A receive queue and its buffers. A channel that connects has its own; the
 * accepted channels of a pool share one. A buffer is posted, received and held
 * by the user, released, and posted again. As many buffers circulate as the
 * channels want. When a channel ends, the next buffers that come back are kept
 * in idle.
 */
struct vb_recvq {
	struct vb_dev *dev;
	struct ibv_qp *qp;   /* one of qp and srq is set; both are NULL */
	struct ibv_srq *srq; /* if nothing can be posted (any more) */
	struct vb_chan *ch;  /* its only channel; NULL: shared */
	struct list slabs;
	struct list idle;    /* buffers that do not circulate */
	struct list missing; /* see vb_recvq_doubt() */
	uint64_t next_number;
	uint64_t doubt_number;
	unsigned int doubts;	   /* queue pairs ended before doubt_number */
	unsigned int doubts_later; /* queue pairs ended after it */
	unsigned int spare;	   /* room in the queue beyond wanted */
	struct list in_device;	   /* posted, in this order */
	unsigned int wanted;
	unsigned int going_round;
	unsigned int posted; /* of going_round: posted to the device */
};

void vb_recvq_init(struct vb_recvq *rq, struct vb_dev *dev);
/* Nothing may be posted to it or held by users. */
void vb_recvq_fini(struct vb_recvq *rq);
/* The device's queue is destroyed: all posted buffers have come back. */
void vb_recvq_close(struct vb_recvq *rq);
/*
 * A queue pair that shares @rq is destroyed. A buffer may be lost with it:
 * soft-RoCE from Linux 6.3 on drops the one that it was filling. So one more
 * buffer is posted for each such queue pair, until it is known whether one is
 * missing. A device takes buffers in the order in which they were posted. When
 * a buffer comes back that was posted after the end of the queue pair, the
 * older ones that have not come back are with other queue pairs, or lost. They
 * no longer count, and others are posted in their place. If one of them comes
 * back later, it counts again. Lost buffers are used again when no queue pair
 * is left (vb_pool_put()).
 */
void vb_recvq_doubt(struct vb_recvq *rq);
/* How many more such queue pairs there can be. */
unsigned int vb_recvq_doubts_left(const struct vb_recvq *rq);
/* @iu has come back from the device. */
void vb_recvq_came_back(struct vb_iu *iu);
/* Posts @cnt buffers more. On failure nothing has changed. */
int vb_recvq_grow(struct vb_recvq *rq, unsigned int cnt, struct error *e);
void vb_recvq_shrink(struct vb_recvq *rq, unsigned int cnt);
/* ops->post_recv */
void vb_post_recv(struct xp *xp, struct list *ius);
/* @iu has come back from the device. It is posted at the end of the turn. */
void vb_iu_put(struct vb_iu *iu);

/* ---- queue pools (dev.c) ---- */

/*
 * A completion queue and, from the first accepted channel on, a shared receive
 * queue. Their sizes never change. Each channel takes its share of them, so
 * that neither can overrun, whatever peers send. If all pools of a device are
 * full, a larger one is made.
 */
struct vb_pool {
	struct list node;
	struct vb_dev *dev;
	struct ibv_cq *cq; /* NULL: the device is GONE, or all channels have left
				 * after an error */
	struct vb_recvq shared; /* .srq is NULL: none (yet) */
	unsigned int recv_max;
	unsigned int spare;	/* receives beyond that; see vb_recvq_doubt() */
	unsigned int send_room; /* not yet taken by channels */
	unsigned int recv_room;
	bool failed;  /* a queue of it has: nothing more is polled */
	bool no_srq;  /* the device has none */
	bool emptied; /* the last poll left nothing in cq */
	/* reactor_turn_us() of the last poll before this one that did */
	uint64_t emptied_us;
	bool armed;
	unsigned int unacked; /* completion events */
};

/* Finds or makes a pool with room, and takes the room. */
int vb_pool_get(struct vb_dev *dev, unsigned int sends, unsigned int recvs,
		struct vb_pool **ret_pool, struct error *e);
void vb_pool_put(struct vb_pool *p, unsigned int sends, unsigned int recvs);
/* Reaps a limited number of completions; returns how many. */
unsigned int vb_pool_poll(struct vb_pool *p);
/* Makes the shared receive queue, unless it exists or the device has none. */
void vb_pool_share(struct vb_pool *p);

/* ---- channels (chan.c) ---- */

/*
 * The kind of pointer in a wr_id, in its lowest bits. In a completion with an
 * error only wr_id, status, qp_num and vendor_err are valid, so its opcode may
 * not be used.
 */
enum vb_wr {
	VB_WR_GROUP,  /* struct xp_group: its signalled work request */
	VB_WR_MEMBER, /* struct xp_group: another; completes on error only */
	VB_WR_RECV,   /* struct vb_iu */
	VB_WR_MARKER, /* struct vb_chan: the last of its send queue */
	VB_WR_MASK = 3,
};

/*
 * Life of a channel as the fabric sees it, beside the states of the core
 * (provider.h).
 *
 *   CONNECTING   RESOLVING   address, then route, are being looked up
 *     (core)     REQUESTED   queue pair is INIT, receives posted, REQ sent
 *                ACCEPTED    queue pair is RTS, receives posted, REP sent
 *                            (accepting side, which starts here)
 *   OPEN         UP          REP or RTU has come
 *   CLOSING      FLUSHING    ops->disconnect(): DREQ sent, queue pair moved to
 *                            ERR, a last SEND posted (the marker). The device
 *                            flushes both queues in order. When the marker and
 *                            every posted receive have completed, it no longer
 *                            touches any memory.
 *                LAST_WQE    with a shared receive queue: the queue pair may
 *                            have taken a buffer from it, until the device
 *                            reports LAST_WQE_REACHED (or never does)
 *                FLUSHED     the completion queue must be polled empty: with
 *                            the queue pair, some libraries destroy its
 *                            completions there, and shared buffers with them
 *                STUCK       the queue pair could not be destroyed; FLUSHED
 *                            again after VB_STUCK_MS
 *                DESTROYED   the queue pair is destroyed. The completion queue
 *                            is polled empty again, because a queue pair that
 *                            was forced may have left completions
 *   CLOSED       GONE        xp_core_drained() was called
 *
 * If a device does not flush within VB_DRAIN_MS, the queue pair is forced: it
 * is destroyed, and then cannot touch memory. After an error of its queues it
 * is forced at once: nobody would tell that it has flushed.
 */
enum vb_state {
	VB_RESOLVING,
	VB_REQUESTED,
	VB_ACCEPTED,
	VB_UP,
	VB_FLUSHING,
	VB_LAST_WQE,
	VB_FLUSHED,
	VB_STUCK,
	VB_DESTROYED,
	VB_GONE,
};

/* What the context of a cm_id points to. */
enum vb_cm_kind {
	VB_CM_LISTENER,
	VB_CM_REQUEST,
	VB_CM_CHAN,
	VB_CM_LINGER,
};

struct vb_cm {
	enum vb_cm_kind kind;
	struct rdma_cm_id *id;
};

struct vb_chan {
	struct xp_chan base;
	struct vb_cm cm;
	enum vb_state state;
	struct vb_dev *dev; /* see vb_dev_bind(); NULL while resolving */
	struct vb_pool *pool;
	struct ibv_qp *qp;
	struct vb_recvq own; /* used when !shared */
	bool accepting;
	bool shared;
	bool marker_done;
	bool last_wqe; /* the event has come */
	bool stuck;    /* the user has been told */
	bool dreq_sent;
	bool disconnected; /* the event has come */
	unsigned int recv_cnt;
	unsigned int sends; /* share of the pool */
	unsigned int inline_max;
	uint8_t read_depth;   /* READs that this side may have outstanding */
	uint8_t answer_depth; /* READs of the peer that this side answers */
	uint8_t retry_cnt;
	unsigned int timeout_ms;
	int doomed; /* fails in the next turn; negative errno */
	struct reactor_timer timer;
	struct list early; /* IUs that arrived before the channel was UP */
	unsigned int early_cnt;
	struct list closing_node; /* in vx->closing */
	struct list qpn_node;
	uint8_t pdata[XP_PDATA_MAX]; /* for the REQ */
	size_t pdata_len;
	struct xp_route route;
	/* The one that was found, with another service level; see
	 * vb_route_choose(). */
	struct ibv_path_data path;
	bool has_path;
};

static inline struct vb_chan *vb_chan(struct xp_chan *ch)
{
	return container_of(ch, struct vb_chan, base);
}

static inline struct vb_xp *vb_chan_xp(const struct vb_chan *ch)
{
	return container_of(ch->base.xp, struct vb_xp, base);
}

int vb_chan_new(struct vb_xp *vx, const struct xp_chan_params *params,
		enum vb_state state, struct vb_chan **ret_ch, struct error *e);
/* Makes the queue pair on ch->dev (INIT) and posts the receives. -ENOTCONN: the
 * peer has gone. */
int vb_chan_open(struct vb_chan *ch, struct error *e);
/* Moves the queue pair to @state, with the values that the connection manager
 * has negotiated. -ENOTCONN: that no longer knows the connection. */
int vb_chan_move(struct vb_chan *ch, enum ibv_qp_state state);
/* Frees a channel that no peer knows yet. Its cm_id is the caller's. */
void vb_chan_abandon(struct vb_chan *ch);
/* Makes the channel fail with @err in the next turn. */
void vb_chan_doom(struct vb_chan *ch, int err);
/* Both sides agreed: hands over the IUs that arrived early. */
void vb_chan_up(struct vb_chan *ch, const void *pdata, size_t len);
/* Handles one completion. */
void vb_chan_completed(struct vb_pool *pool, struct ibv_wc *wc);
void vb_chan_last_wqe(struct vb_chan *ch);
/* A device leaves, or queues have failed: channels that are closing wait less. */
void vb_chan_hurry_all(struct vb_xp *vx);
/* The completion queues are empty: ends the channels that can end. Returns how
 * many did. */
unsigned int vb_chan_reap(struct vb_xp *vx);

int vb_post_send(struct xp_chan *base, const struct xp_wr *wr, unsigned int n);
void vb_disconnect(struct xp_chan *base);
void vb_chan_free(struct xp_chan *base);

/* ---- connections (cm.c) ---- */

int vb_cm_open(struct vb_xp *vx, struct error *e);
void vb_cm_close(struct vb_xp *vx);
/*
 * librdmacm opens each device once per process, when the first cm_id is bound
 * to it. It closes that context only when it looks at the list of devices for
 * another reason, and never while the list is empty. The kernel waits for that
 * before it removes the device. So an instance keeps the context from being
 * freed (pin) and, when the device leaves, closes the kernel's files in it
 * (cut).
 *
 * In a program with several heaps (see base/heap.h), librdmacm before 52 may take a device
 * that stays for a new one when another one comes or goes, and has another context for it,
 * too. So an instance looks for more to pin whenever that happens. Or librdmacm loses it,
 * for which there is no cure but a new program.
 *
 * False: librdmacm does not know the device.
 */
bool vb_cm_pin(struct vb_dev *dev);
void vb_cm_cut(struct vb_dev *dev);
void vb_cm_cut_context(const struct ibv_context *ctx);
void vb_cm_unpin(struct vb_dev *dev);
/* Ends the cm_id of a connection; later, if the peer must still be told. */
void vb_cm_release(struct vb_chan *ch);
/* The first IU arrived before the RTU, and counts as an RTU. */
void vb_cm_came_early(struct vb_chan *ch);

int vb_accept(struct xp *xp, struct xp_conn_request *base,
	      const struct xp_chan_params *params, struct xp_chan **ret_ch,
	      struct error *e);
void vb_reject(struct xp_conn_request *base, const void *pdata, size_t len);
int vb_connect(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	       const struct xp_chan_params *params, struct xp_chan **ret_ch,
	       struct error *e);

/* ---- listeners (listen.c) ---- */

struct vb_listener {
	struct xp_listener base;
	struct vb_cm cm;  /* .id NULL: waits for a device */
	struct list node; /* vx->listeners */
	struct sockaddr_storage addr;
	void (*requested)(struct xp_conn_request *req);
	void *user;
	struct xp_route route; /* of the address only pkey and sl */
};

void vb_listen_init(struct vb_xp *vx);
/* Listeners that wait for a device try again, now and later. */
void vb_listen_again(struct vb_xp *vx);
/* Addresses may have moved: listeners go to the devices that have theirs now. Those
 * whose address is on none wait. */
void vb_listen_follow(struct vb_xp *vx);
/* Begins anew, or waits. */
void vb_listener_renew(struct vb_listener *l);

int vb_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	      void (*requested)(struct xp_conn_request *req), void *user,
	      struct xp_listener **ret_listener, struct error *e);
int vb_listen_later(struct xp *xp, const struct sockaddr *addr,
		    socklen_t addr_len,
		    void (*requested)(struct xp_conn_request *req), void *user,
		    struct xp_listener **ret_listener, struct error *e);
void vb_unlisten(struct xp_listener *base);
int vb_demand(struct xp_listener *base, const struct xp_route *want,
	      struct error *e);

/* ---- the route of a connection (route.c) ---- */

/* Bytes; 0: no value of the enum. */
unsigned int vb_mtu_bytes(enum ibv_mtu mtu);
/* Binds @id to the address that @want demands, by source or GID; none: does nothing. */
int vb_route_bind(struct rdma_cm_id *id, const struct xp_route *want,
		  const struct sockaddr *peer, struct error *e);
/* Before the address is resolved. */
int vb_route_set_tos(struct rdma_cm_id *id, const struct xp_route *want,
		     struct error *e);
/* The route of @ch is resolved. Is it what ch->route demands, but for a service level
 * that can still be chosen? 0, or -EPROTONOSUPPORT and @e. */
int vb_route_check(struct vb_chan *ch, struct error *e);
/* After vb_route_check(). True: the service level must be chosen. ch->path then is the
 * path for a new cm_id, by rdma_set_option() in place of rdma_resolve_route(). */
bool vb_route_choose(struct vb_chan *ch);
/* Can a listener, which is bound, or a request of it have the partition and the service
 * level? 0, or -EPROTONOSUPPORT and @e. */
int vb_route_check_listener(const struct rdma_cm_id *id,
			    const struct xp_route *want, struct error *e);
int vb_route_check_request(const struct rdma_cm_id *id,
			   const struct xp_route *want, struct error *e);
/* Keeps in ch->base.negotiated what the queue pair is given. */
void vb_route_note(struct vb_chan *ch, const struct ibv_qp_attr *attr,
		   int mask);

/* ---- GIDs (gid.c) ---- */

struct vb_gid_search {
	const struct xp_route *want; /* its gid, and its pkey, if any */
	bool is_roce;
	char netdev[IF_NAMESIZE];
};

/* Looks for the interface of the GID below @root, which is "" but for tests. 0, or
 * -EADDRNOTAVAIL and @e. */
int vb_gid_find(const char *root, struct vb_gid_search *s, struct error *e);
/* The address that stands for want->gid, of the family of @peer. 0, -EADDRNOTAVAIL, or
 * -EAFNOSUPPORT: it stands for an address of the other family. */
int vb_gid_source(const char *root, const struct xp_route *want,
		  const struct sockaddr *peer, struct sockaddr_storage *ret,
		  struct error *e);

/* ---- routes (reach.c) ---- */

/* xp_provider.reach */
int vb_reach(const struct sockaddr *addr, socklen_t addr_len, char *ret_by,
	     size_t size, struct error *e);
/* xp_has_address() */
bool vb_has_address(void);

/* ---- texts (reason.c) ---- */

/* The status of a chain: 0 for success, -ECANCELED for flushed, else another
 * -errno. */
int vb_wc_errno(enum ibv_wc_status status);
const char *vb_wc_text(enum ibv_wc_status status);
/* A reject. @status: of the event (an IB CM reason, or a negative errno on
 * iWARP). Returns a negative errno. */
int vb_reject_errno(int status);
const char *vb_reject_text(int status);
/* Another event that ends connecting; @status is mostly a negative errno. */
const char *vb_cm_text(enum rdma_cm_event_type type, int status);
/* Text for a failed registration of @len bytes. */
void vb_mr_error(struct error *e, int err, size_t len, const char *device);

#endif
