/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-target's side of rdma_block_plugin.h, for a test of one plugin. The test is
 * the worker: it submits I/O, and t_host_turn() waits for what the plugin and its
 * threads do. Timers do not fire by themselves: the test fires them.
 *
 *	static struct t_host host;
 *	...
 *	t_host_begin(&host);
 *	t_host_plug(&host, rdma_block_plugin_1(&t_host_functions));
 *	host.plugin->open(NULL, location, args, &host.volume, &host.info, ...);
 *	t_host_add_queue(&host, 0);
 *	t_host_submit(&host, &r, 0, (struct rbp_io){ .op = RBP_FLUSH });
 *	assert_int_equal(t_host_result(&host, &r), 0);
 *	t_host_del_queues(&host);
 *	host.plugin->close(host.volume);
 *	t_host_end(&host);
 *
 * The test owns the host, and each request until it has ended. A test with a store
 * or with requests of its own copies t_host_functions and replaces some of them.
 *
 * Threads: functions of struct rbp_host as the header of plugins says; functions of
 * this file only on the test's thread, but for t_host_wake().
 */
#ifndef TESTS_LIB_T_HOST_H
#define TESTS_LIB_T_HOST_H

#include "plugins/rdma_block_plugin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define T_HOST_QUEUES  4
#define T_HOST_WATCHES 8
#define T_HOST_TIMERS  8
#define T_HOST_LOG_LEN 4096

struct rbp_queue {
	void *data; /* of the plugin; NULL: the queue does not exist */
};

struct rbp_watch {
	bool is_used;
	int fd;
	uint32_t events;
	void (*ready)(void *user, uint32_t events);
	void *user;
};

struct rbp_timer {
	bool is_used;
	bool is_set;
	uint64_t due_ns; /* by the clock of the host */
	void (*fire)(void *user);
	void *user;
};

/* A request of the test, which lives until it has ended. */
struct t_request {
	struct rbp_io io; /* first: the host finds the request by it */
	struct rbp_io child;
	bool has_ended; /* guarded by the lock of the host */
	int res;
	_Alignas(16) uint8_t scratch[1024];
};

struct t_host {
	const struct rbp_plugin *plugin;
	void *volume;
	struct rbp_info info;
	struct rbp_queue queues[T_HOST_QUEUES];
	struct rbp_watch watches[T_HOST_WATCHES];
	struct rbp_timer timers[T_HOST_TIMERS];
	_Atomic uint64_t now_ns; /* the clock of the timers; only the test
				  * changes it */

	/* ---- the test sets them ---- */
	unsigned int lacks_watches; /* this many cannot be had */
	int notes_res;		    /* what notes() returns */

	/* ---- what the plugin has called ---- */
	atomic_uint resized_cnt;
	atomic_uint path_changed_cnt;
	atomic_ullong notes_version; /* of the last notes() */
	pthread_mutex_t lock;
	char log[T_HOST_LOG_LEN];      /* lines; the last one does not end */
	enum rbp_log_level last_level; /* of the last line */
};

extern const struct rbp_host t_host_functions;

/* Makes @h the host that t_host_functions mean, with nothing in it. The one before
 * it need not have ended: its test has failed. */
void t_host_begin(struct t_host *h);

/* The plugin exists, and struct t_request has room for its scratch_len. */
void t_host_plug(struct t_host *h, const struct rbp_plugin *plugin);

/* Nothing that the plugin has added is left. */
void t_host_end(struct t_host *h);

/* The queue need not exist before t_host_del_queue(). */
void t_host_add_queue(struct t_host *h, unsigned int queue);
void t_host_del_queue(struct t_host *h, unsigned int queue);
void t_host_del_queues(struct t_host *h);

/* Makes @io the request @r, with noise in its scratch. A plugin that has written
 * behind its scratch_len when the request ends is wrong: the program ends. */
void t_host_prepare(struct t_host *h, struct t_request *r, struct rbp_io io);

/* The same, and submits it on a queue, or on one that does not exist. */
void t_host_submit(struct t_host *h, struct t_request *r, unsigned int queue,
		   struct rbp_io io);

/* Turns until the request has ended, and returns its result. */
int t_host_result(struct t_host *h, const struct t_request *r);
bool t_host_has_ended(struct t_host *h, const struct t_request *r);

/* Ends the turn of the worker in which something was submitted: calls kick(). */
void t_host_kick(struct t_host *h);

/* Ends the turn, waits until something happens, and handles all of it: watches,
 * requests that end, lines of the log, changes that are reported, t_host_wake(). A
 * test that waits for a minute has failed. */
void t_host_turn(struct t_host *h);

/* Handles what has happened, without kick(). Returns false if nothing has. Waits for
 * @timeout_ms for the first event; -1: for ever. */
bool t_host_poll(struct t_host *h, int timeout_ms);

/* Ends the wait of t_host_turn(), or the next one. Any thread. */
void t_host_wake(void);

/* Lets time pass: each timer that is due fires. Nothing else happens. */
void t_host_pass(struct t_host *h, uint64_t ms);

#endif
