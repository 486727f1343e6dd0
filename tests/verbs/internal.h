/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the test provider share.
 *
 *   device.c  devices, contexts, memory, completion queues, events of devices
 *   queue.c   queue pairs and receive queues: what a card does
 *   wire.c    the thread, connections, and frames on them
 *   cm.c      librdmacm, with what its kernel half does
 *   plug.c    devices that come and go, and the uevents about them
 *
 * One lock guards everything. The thread and every call of the API take it;
 * functions of this header but those of API calls expect it to be taken.
 */
#ifndef TESTS_VERBS_INTERNAL_H
#define TESTS_VERBS_INTERNAL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "tests/verbs/fake_verbs.h"

#define FV_API __attribute__((visibility("default")))

#define FV_SGES	      4u
#define FV_INLINE_MAX 512u
#define FV_READ_DEPTH 16u
/* Bytes of data in one frame, and of the longest SEND. */
#define FV_FRAME_MAX (64u << 10)
/* How long a peer that is gone is tried. */
#define FV_RETRY_MS 1000u
/* How long a SEND waits for a receive before it is sent again. */
#define FV_RNR_MS 1u

extern pthread_mutex_t fv_lock;
extern pthread_cond_t fv_acked; /* an event was acknowledged */

/* The program has broken a rule. */
_Noreturn void fv_bug(const char *what);
/* Never NULL. */
void *fv_zalloc(size_t len);
uint64_t fv_now_ms(void);

/* ---- events that wait to be read ---- */

struct fv_event {
	struct list node;
	const void *about;
};

struct fv_events {
	int fd; /* one for each event, and maybe for some that were purged */
	struct list list;
};

int fv_events_open(struct fv_events *q);
void fv_events_add(struct fv_events *q, struct fv_event *ev, const void *about);
/* Without the lock. NULL and errno: there is none, and @q->fd does not block. */
struct fv_event *fv_events_take(struct fv_events *q);
/* Moves the events about @about to @to. */
void fv_events_move(struct fv_events *q, const void *about, struct list *to);
/* Frees them. */
void fv_events_purge(struct fv_events *q, const void *about);

/* ---- devices (device.c) ---- */

struct fv_device {
	struct ibv_device base;
	struct list node;
	int number; /* of the kernel */
	bool listed;
	bool comes; /* it is new when a program looks */
	bool lost;  /* by librdmacm; see fv_cm_removed() */
	struct sockaddr_storage addrs[4];
	unsigned int addr_cnt;
	int fails[FAKE_CALLS];
	unsigned int called[FAKE_CALLS];
	unsigned int regions;
	struct list contexts;
	struct ibv_context *cm_context; /* of librdmacm; NULL: none yet */
};

struct fv_context {
	struct list node; /* of its device */
	struct fv_device *dev;
	struct fv_events async;
	struct list qps;
	struct list cqs;
	unsigned int objects; /* that must be destroyed before it is closed */
	struct verbs_context verbs;
};

struct fv_cq {
	struct ibv_cq base;
	struct list node;
	struct ibv_wc *ring;
	unsigned int head;
	unsigned int cnt;
	unsigned int qps;
	unsigned int reported; /* completion events */
	bool armed;
	bool dead;
};

struct fv_comp {
	struct ibv_comp_channel base;
	struct fv_events events;
};

struct fv_pd {
	struct ibv_pd base;
	unsigned int objects;
};

static inline struct fv_context *fv_context(const struct ibv_context *ctx)
{
	return container_of(ctx, struct fv_context, verbs.context);
}

static inline struct fv_device *fv_dev(const struct ibv_context *ctx)
{
	return fv_context(ctx)->dev;
}

static inline struct fv_cq *fv_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct fv_cq, base);
}

/* Reads FAKE_VERBS, once. */
void fv_devices_read(void);
/* Before a program looks: the devices that have come since. They are in memory of
 * the thread that looks first, as with libibverbs. */
void fv_devices_renew(void);
/* The device is removed, or a new one of this name comes. */
void fv_device_list(const char *name, bool listed);
/* Calls @each for the newest device of each name. */
void fv_devices_each(void (*each)(struct fv_device *dev, void *arg), void *arg);
/* The next listed device; NULL: the first, or no more. */
struct fv_device *fv_device_next(struct fv_device *dev);
/* The listed device with the address (the port does not matter). */
struct fv_device *fv_device_at(const struct sockaddr *addr);
/* What a call that fails returns; 0: it works. */
int fv_fails(struct fv_device *dev, enum fake_call call);
void fv_gid(const struct sockaddr *addr, union ibv_gid *ret);
struct ibv_context *fv_context_open(struct fv_device *dev);
/* A queue pair, completion queue or NULL is what it is about. */
void fv_async(struct fv_context *ctx, enum ibv_event_type type, void *about);
void fv_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* Takes the completions of @qpn out, as some libraries do. */
void fv_cq_forget(struct fv_cq *cq, uint32_t qpn);
/* May @len bytes at @addr be used by @key? @access: all of these rights. */
bool fv_mr_allows(uint32_t key, uint64_t addr, size_t len,
		  const struct ibv_pd *pd, int access);

/* ---- queue pairs (queue.c) ---- */

struct fv_recv {
	uint64_t wr_id;
	struct ibv_sge sges[FV_SGES];
	unsigned int sge_cnt;
};

struct fv_rq {
	struct fv_recv *ring;
	unsigned int size;
	unsigned int head;
	unsigned int cnt;
};

struct fv_srq {
	struct ibv_srq base;
	struct fv_rq rq;
	unsigned int qps;
};

/* A work request of a send queue. */
struct fv_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	struct ibv_sge sges[FV_SGES];
	unsigned int sge_cnt;
	uint32_t len;
	uint64_t remote_addr;
	uint32_t rkey;
	enum ibv_wc_status status; /* not SUCCESS: fails when it is its turn */
	uint8_t data[FV_INLINE_MAX];
};

struct fv_reply;
struct fv_conn;

struct fv_qp {
	struct ibv_qp base;
	struct list node;
	struct fv_srq *srq;
	struct fv_rq rq;
	unsigned int reported; /* asynchronous events */
	bool signal_all;
	int access;
	/* as requester */
	struct fv_send *sq;
	unsigned int sq_size;
	unsigned int sq_head; /* the oldest that has not ended */
	unsigned int sq_cnt;
	unsigned int sent;     /* of sq_cnt, sent as a whole */
	uint32_t sent_bytes;   /* of the next one, an RDMA WRITE */
	uint32_t head_seq;     /* number of the oldest */
	unsigned int reads;    /* of sent */
	unsigned int read_max; /* at a time */
	unsigned int rnr_retry;
	unsigned int rnr_left;
	uint64_t rnr_until; /* 0: not waiting for a receive */
	bool lost;	    /* the peer does not answer */
	uint64_t give_up;   /* 0: retries are not running out */
	/* as responder */
	uint32_t expected; /* number of the next request */
	struct list replies;
	unsigned int answer_max; /* READs at a time */
	struct fv_conn *conn;	 /* NULL: not connected */
};

static inline struct fv_qp *fv_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct fv_qp, base);
}

/* A frame has come for @qp, with @data. */
struct fv_frame;
void fv_qp_take(struct fv_qp *qp, const struct fv_frame *f, const void *data);
/* Sends what can be sent now. */
void fv_qp_pump(struct fv_qp *qp);
/* The peer's process is gone. */
void fv_qp_lost(struct fv_qp *qp);
/* Does what is due; returns how many of the process wait for a time. */
unsigned int fv_qps_tick(void);

int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		 struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		 struct ibv_recv_wr **bad);
int fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad);

/* ---- connections (wire.c) ---- */

/*
 * The first four are of RC, the others of the connection manager. A frame of an
 * RDMA WRITE or of the answer to a READ is one part of its data.
 */
enum fv_type {
	FV_SEND,
	FV_WRITE,
	FV_READ,
	FV_READ_DATA,
	FV_ACK,
	FV_REQ,
	FV_REP,
	FV_RTU,
	FV_REJ,
	FV_DREQ,
	FV_DREP,
};

/* Of an FV_ACK, beside values of enum ibv_wc_status. */
#define FV_RNR	 100 /* no receive: again, later */
#define FV_NO_QP 101 /* a device would not answer */

struct fv_frame {
	uint8_t type;
	uint8_t last;	/* part of its request */
	uint8_t status; /* FV_ACK */
	uint8_t has_imm;
	uint32_t seq; /* of the request */
	uint32_t len; /* of the data that follows; READ: asked for */
	uint32_t key;
	uint64_t addr; /* READ_DATA: offset */
	uint32_t imm;
};

/* Private data and parameters of a connection, behind a frame. */
struct fv_cm_data {
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
	uint32_t qpn;
	int32_t status; /* REJ */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t rnr_retry;
	uint8_t sl;
	uint8_t tos;
	uint8_t len;
	uint8_t pdata[256];
};

struct fv_id;

struct fv_conn {
	unsigned int index; /* in the table, and the number in rq_psn */
	uint32_t generation;
	int fd; /* -1: the peer is gone */
	struct fv_id *id;
	struct fv_id *listener; /* its request has not come yet */
	struct fv_qp *qp;
	struct list out; /* frames of the connection manager that wait */
	bool wants_out;
};

/* A connected socket becomes a connection. */
struct fv_conn *fv_conn_new(int fd);
struct fv_conn *fv_conn_get(unsigned int index);
/* Frees it when neither a cm_id nor a queue pair has it. */
void fv_conn_put(struct fv_conn *conn);
/* Sends a frame, all or nothing. False: no room now; fv_qp_pump() follows. */
bool fv_conn_send(struct fv_conn *conn, const struct fv_frame *f,
		  const struct iovec *iov, unsigned int cnt);
/* Sends it now or later. */
void fv_conn_send_cm(struct fv_conn *conn, enum fv_type type,
		     const struct fv_cm_data *data);
/* The thread watches @fd, and calls fv_cm_accept() with @id. */
void fv_listen_watch(int fd, struct fv_id *id);
void fv_listen_forget(struct fv_id *id);
/* The thread calls fv_plug_changed() when @fd is readable. */
void fv_plug_watch(int fd);
/* Starts the thread, once. */
void fv_wire_start(void);
/* The thread looks at the times again. */
void fv_wire_wake(void);

/* ---- the connection manager (cm.c) ---- */

/* A frame, or the end (type -1), has come. */
void fv_cm_take(struct fv_conn *conn, int type, const struct fv_cm_data *data);
/*
 * DEVICE_REMOVAL for each cm_id that has it. librdmacm before 52 sorts devices by the
 * lower half of the difference of their addresses (dev_cmp()). If they are so far
 * apart that it has another sign, one that stays is lost with the one that goes:
 * librdmacm knows no device then. Here that does not need bad luck.
 */
void fv_cm_removed(struct fv_device *dev);
void fv_cm_event(const struct fv_device *dev, enum rdma_cm_event_type type);

/* ---- plugging (plug.c) ---- */

/* Reads FAKE_VERBS_AWAY, once, and has it watched. */
void fv_plug_start(void);
void fv_plug_changed(void);
/* Sends uevents. */
void fv_plug_tell(void);

#endif
