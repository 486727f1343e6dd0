/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of a plugin besides its I/O: descriptors that become ready, timers,
 * and the end of a turn in which it got I/O (plugins/rdma_block_plugin.h). Each
 * queue has one struct.
 *
 * Thread: that of the worker, or setup.
 */
#ifndef TARGET_BLOCK_PLUGIN_EVENTS_H
#define TARGET_BLOCK_PLUGIN_EVENTS_H

#include "plugins/rdma_block_plugin.h"
#include "base/reactor.h"

struct plugin_events {
	struct reactor *reactor;
	struct list watches; /* struct rbp_watch, node */
	struct list timers;  /* struct rbp_timer, node */
	/* kick() */
	struct reactor_poller turn_end;
	void (*kick)(void *v, void *queue_data);
	void *v;
	void *queue_data;
	bool has_submits;    /* since the last kick */
	unsigned int *ended; /* counts I/Os that have ended */
};

/* @kick may be NULL. @ended tells whether a kick has ended I/Os: the reactor
 * then runs another turn before it sleeps. plugin_events_close() undoes it. */
void plugin_events_open(struct plugin_events *events, struct reactor *r,
			void (*kick)(void *v, void *queue_data), void *v,
			unsigned int *ended);

/* Deletes the watches and timers that are left. */
void plugin_events_close(struct plugin_events *events);

/* The host functions with these names. */
struct rbp_watch *plugin_watch_add(struct plugin_events *events, int fd,
				   uint32_t what,
				   void (*ready)(void *user, uint32_t what),
				   void *user);
void plugin_watch_set(struct rbp_watch *watch, uint32_t what);
void plugin_watch_del(struct rbp_watch *watch);
struct rbp_timer *plugin_timer_add(struct plugin_events *events,
				   void (*fire)(void *user), void *user);
void plugin_timer_set(struct rbp_timer *timer, uint64_t delay_ms);
void plugin_timer_stop(struct rbp_timer *timer);
void plugin_timer_del(struct rbp_timer *timer);

#endif
