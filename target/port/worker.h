/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker is one reactor thread of the target with what its channels share:
 * the arenas for data in flight and the transports. A channel lives on one
 * worker; so do its requests and their buffers. Worker 0 also owns the
 * listeners and the table of nexuses (port.h); it runs on the main thread.
 *
 * Thread: the functions say. The members are the worker's own, except where
 * a comment says otherwise.
 */
#ifndef TARGET_PORT_WORKER_H
#define TARGET_PORT_WORKER_H

#include <pthread.h>

#include "target/port/metrics.h"
#include "target/port/request_pool.h"
#include "target/block/block_worker.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/reactor.h"
#include "transport/xport.h"

#define WORKERS_MAX BLOCK_WORKERS_MAX

/* Descriptor lists that do not fit into a request, per worker. Bytes. */
#define WORKER_TABLES_LEN (256u << 10)

struct port;
struct volume;

struct worker {
	unsigned int index;
	struct reactor *reactor;
	struct block_worker block; /* index and reactor, as storage knows them */
	struct arena *arena;	   /* data in flight */
	struct xp *xp[XP_KINDS];   /* NULL: transport not in use */
	struct xp_mr *arena_mr[XP_KINDS]; /* the arena, XP_LOCAL */
	pthread_t thread;

	/*
	 * Descriptor lists. They have an arena of their own so that a request
	 * which holds a list and waits for a data buffer never keeps the
	 * others, which hold data buffers, from getting on.
	 */
	struct arena *tables;
	struct xp_mr *tables_mr[XP_KINDS];

	struct request_pool requests;
	struct list channels; /* struct channel, worker_node */
	struct list managing; /* struct task_mgmt_part, node */
	struct port_counters counters;
	struct metrics_report report;
	uint64_t next_seq;	  /* order of arrival of requests */
	bool expects;		  /* a request: reactor_await() */
	struct log_limit bad_log; /* lines that a peer can provoke */

	/* watchdog.h */
	unsigned int rdma_timeout_ms;
	struct reactor_timer watchdog;
	bool watching;	    /* the timer is set */
	uint64_t looked_us; /* when it was set the last time */

	/* worker_start() */
	bool started;
	bool ended; /* its thread has closed the transports */
	void (*thread_end)(struct worker *w, void *user);
	void *user;
};

struct worker_options {
	unsigned int index;
	size_t arena_len; /* bytes, a power of two */
	unsigned int poll_us;
	unsigned int rdma_timeout_ms; /* 0: WATCHDOG_RDMA_TIMEOUT_MS */
	/* The ring takes every operation, not only those that serving needs. */
	bool unrestricted;
};

/*
 * Makes the reactor and the arenas; no transport yet. Thread: setup. Return:
 * 0, or -errno with one clause in @e. Undone by worker_close().
 */
int worker_open(struct worker *w, const struct worker_options *opt,
		struct error *e);

/*
 * Gives the worker a transport, which it owns from then on (also when this
 * fails), and registers the arenas with it. Thread: setup.
 */
int worker_add_xp(struct worker *w, struct xp *xp, struct error *e);

/* Registers the arena with the ring, for fixed-buffer I/O. Return: 0, or
 * -errno when the worker must do with plain I/O. Thread: setup. */
int worker_fix_buffers(struct worker *w);

/*
 * volume_attach(), and registers the memory that @vol exposes with the transports
 * that the worker has. Thread: setup. 0, or -errno with the reason in @e and
 * nothing left behind. Undone by worker_remove_volume() (thread: setup or the
 * worker) before the transports go.
 */
int worker_add_volume(struct worker *w, struct volume *vol, struct error *e);
/* Registers it with the transports that the worker has got since then. */
int worker_register_volume(struct worker *w, struct volume *vol,
			   struct error *e);
void worker_remove_volume(struct worker *w, struct volume *vol);
/* The registration of the memory of @vol, which has some. Thread: @w. */
struct xp_mr *worker_volume_mr(const struct worker *w, const struct volume *vol,
			       enum xp_kind kind);

/*
 * Starts a thread that runs the reactor. When reactor_stop() has ended it,
 * @thread_end runs on that thread, and it closes the transports. Return: 0 or
 * -errno. Thread: setup.
 */
int worker_start(struct worker *w,
		 void (*thread_end)(struct worker *w, void *user), void *user);

/* Waits for the thread of worker_start() to end. */
void worker_join(struct worker *w);

/*
 * Frees everything; every channel is gone and nothing is in flight. Harmless
 * on a zeroed or half-opened worker. Thread: setup (after worker_join()); no
 * thread may be left that could still send it a message.
 */
void worker_close(struct worker *w);

#endif
