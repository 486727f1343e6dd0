/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker is one reactor thread of the target with everything that its
 * channels share: the arenas for data in flight and the transports. A channel
 * lives on one worker, and so do its requests and their buffers. Worker 0 also
 * owns the listeners and the table of nexuses (port.h); it runs on the main
 * thread.
 *
 * Thread: each function says its thread. The members belong to the worker,
 * except where a comment says otherwise.
 */
#ifndef TARGET_PORT_WORKER_H
#define TARGET_PORT_WORKER_H

#include <pthread.h>

#include "target/port/metrics.h"
#include "protocol/scsi_cdb.h"
#include "target/port/request_pool.h"
#include "target/block/block_worker.h"
#include "target/scsi/volume.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/reactor.h"
#include "transport/xport.h"

/* Descriptor lists that do not fit into a request, per worker. Bytes. */
#define WORKER_TABLES_LEN (256u << 10)

struct port;
struct request;
struct volume;

struct worker {
	unsigned int index;
	struct reactor *reactor;
	struct block_worker block;	  /* index and reactor, for storage */
	struct arena *arena;		  /* data in flight */
	struct xp *xp[XP_KINDS];	  /* NULL: transport not in use */
	struct xp_mr *arena_mr[XP_KINDS]; /* the arena, XP_LOCAL */
	pthread_t thread;

	/*
	 * Descriptor lists. They have an arena of their own: a request that
	 * holds a list and waits for a data buffer must not block requests that
	 * hold data buffers.
	 */
	struct arena *tables;
	struct xp_mr *tables_mr[XP_KINDS];

	/* hang.h: the request that the thread works on. The lock guards it, and
	 * the memory of requests, against a thread that reads them. */
	_Atomic(const struct request *) doing;
	pthread_mutex_t doing_lock;

	struct request_pool requests;
	struct list channels; /* struct channel, worker_node */
	struct list managing; /* struct task_mgmt_part, node */
	struct port_counters counters;
	struct metrics_report report;
	/* A READ that takes fewer, and has passed no stage, has the short way
	 * of request_count(); no other command has: 0. */
	uint64_t plain_ticks[SCSI_OP_CNT];
	uint64_t slow_ticks; /* slow.h, as the next two */
	unsigned int slow_ms;
	struct log_limit slow_log;
	uint64_t next_seq;	  /* order of arrival of requests */
	bool expects;		  /* reactor_await() was called for a request */
	struct log_limit bad_log; /* limits lines that a peer can cause */

	/* watchdog.h */
	unsigned int rdma_timeout_ms;
	struct reactor_timer watchdog;
	bool watching;	    /* the timer is set */
	uint64_t looked_us; /* when the timer was set last */

	/* worker_start() */
	bool started;
	bool ended; /* its thread has closed the transports */
	bool (*thread_end)(struct worker *w, void *user);
	void *user;
};

struct worker_options {
	unsigned int index;
	size_t arena_len; /* bytes, a power of two */
	unsigned int poll_us;
	unsigned int rdma_timeout_ms; /* 0: WATCHDOG_RDMA_TIMEOUT_MS */
	unsigned int slow_ms;	      /* commands to log; 0: none */
	/* The ring takes every operation, not only those that serving needs. */
	bool unrestricted;
};

/*
 * Makes the reactor and the arenas, but no transport. Thread: setup. Return: 0,
 * or -errno with one clause in @e. worker_close() undoes it.
 */
int worker_open(struct worker *w, const struct worker_options *opt,
		struct error *e);

/*
 * Gives the worker a transport, which belongs to the worker from then on (also
 * if this fails), and registers the arenas with it. Thread: setup, or the worker.
 */
int worker_add_xp(struct worker *w, struct xp *xp, struct error *e);

/* Frees the transport @kind of the worker, if it has one. It must be unused.
 * Thread: setup, or the worker. */
void worker_remove_xp(struct worker *w, enum xp_kind kind);

/* Registers the arena with the ring, for fixed-buffer I/O. Return: 0, or -errno
 * if the worker must use plain I/O. Thread: setup. */
int worker_fix_buffers(struct worker *w);

/*
 * Calls volume_attach(), and registers the memory that @vol exposes with the
 * transports of the worker. Thread: setup. 0, or -errno with the reason in @e
 * and nothing left behind. worker_remove_volume() (thread: setup or the worker)
 * undoes it before the transports go.
 */
int worker_add_volume(struct worker *w, struct volume *vol, struct error *e);
/* Registers @vol with transports that the worker got later, and undoes this for
 * the transport @kind. Thread: setup, or the worker. */
int worker_register_volume(struct worker *w, struct volume *vol,
			   struct error *e);
void worker_unregister_volume(struct worker *w, struct volume *vol,
			      enum xp_kind kind);
void worker_remove_volume(struct worker *w, struct volume *vol);

/* The registrations of the memory of a volume with the transports of one
 * worker. */
struct port_memory {
	struct xp_mr *mr[XP_KINDS];
};

/* The registration of the memory of @vol, which exposes some. Thread: @w. */
static inline struct xp_mr *worker_volume_mr(const struct worker *w,
					     const struct volume *vol,
					     enum xp_kind kind)
{
	return vol->port_memory[w->index]->mr[kind];
}

/*
 * Starts a thread that runs the reactor. After reactor_stop(), the thread runs
 * @thread_end. If that returns true, it then closes the transports; false: something
 * is still in flight. Return: 0 or -errno. Thread: setup.
 */
int worker_start(struct worker *w,
		 bool (*thread_end)(struct worker *w, void *user), void *user);

/* Waits for the thread of worker_start() to end. */
void worker_join(struct worker *w);

/*
 * Frees everything. Every channel is gone and nothing is in flight. @w may be
 * zeroed or half open. Thread: setup (after worker_join()); no thread may be
 * left that could send it a message.
 */
void worker_close(struct worker *w);

#endif
