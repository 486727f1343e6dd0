/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An in-memory fabric: a third provider of the transport contract, for unit
 * tests. Any number of xps attach to one hub and connect to each other with
 * addresses that exist only there. It strictly behaves like RC:
 *
 *  - remote access is checked against what the peer registered with XP_REMOTE;
 *    a violation fails the request and breaks the connection for both,
 *  - a SEND that finds no receive waits for one, and is counted,
 *  - private data arrives zero padded to what InfiniBand's messages hold,
 *  - after a failure, all posted work requests complete as flushed, in order,
 *  - only signalled work requests complete, in posting order.
 *
 * Everything is an action in one queue, in the order of its cause, so each run
 * is the same. By default, each xp's poller runs its own actions. With
 * t_fabric_manual(), actions wait for t_fabric_step(), and reactors need not
 * run at all: a test or a simulation decides what happens next.
 *
 * Thread: one, for the hub and all its xps (whatever their reactors).
 */
#ifndef TESTS_LIB_T_FABRIC_H
#define TESTS_LIB_T_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "transport/xport.h"

struct t_fabric;

/* Never fail. The hub outlives its xps. */
struct t_fabric *t_fabric_create(void);
void t_fabric_destroy(struct t_fabric *hub);

/* Like xp_create(). cfg->reactor is needed for its pollers and timers. */
int t_xp_create(struct t_fabric *hub, const struct xp_config *cfg,
		struct xp **ret_xp);

/* ---- the order of events ---- */

/* From now on, only t_fabric_step() runs actions. */
void t_fabric_manual(struct t_fabric *hub, bool manual);

/*
 * Runs the oldest action, then posts what handlers queued. False: there was no
 * action, or only held completions.
 */
bool t_fabric_step(struct t_fabric *hub);

/* Steps until no action is left. Returns the number of steps. */
unsigned int t_fabric_run(struct t_fabric *hub);

/* Posts what handlers queued. Returns the number of actions that wait for a
 * step. */
unsigned int t_fabric_pending(struct t_fabric *hub);

/*
 * Like t_fabric_step(), but runs the first action of the channel of action
 * @nth, counted from 0. The order within a channel is kept; between channels,
 * any order is allowed.
 */
bool t_fabric_step_nth(struct t_fabric *hub, unsigned int nth);

/* The thread of @xp stands still: t_fabric_pending() and t_fabric_step_nth() leave out
 * what it would do. NULL: it goes on. */
void t_fabric_stand_still(struct t_fabric *hub, struct xp *xp);

/* Holds completions of work requests until they are released. */
void t_fabric_hold_completions(struct t_fabric *hub, bool hold);

/* Releases the first @cnt held completions. Returns how many there were. */
unsigned int t_fabric_let_go(struct t_fabric *hub, unsigned int cnt);

/* Connections from now on come from this address. */
void t_fabric_come_from(struct t_fabric *hub, const char *addr);
/* Connections from now on have proved this name; NULL: none. Borrowed. */
void t_fabric_prove(struct t_fabric *hub, const char *name);

/* ---- faults ---- */

/* Refuses the @nth work request posted from now on (1: the next one). */
void t_fabric_fail_post(struct t_fabric *hub, unsigned int nth);

/* The @nth work request executed from now on is lost, and so is its
 * connection. */
void t_fabric_break_at(struct t_fabric *hub, unsigned int nth);

/* The connection of @ch is lost now. */
void t_fabric_break(struct xp_chan *ch);

/* The peer of @ch no longer answers and sends nothing. Work requests posted on
 * @ch from now on stay in flight until it is closed. */
void t_fabric_stop(struct xp_chan *ch);

/* Cuts the cable: neither side of @ch receives anything from the other one.
 * Posted work requests fail when retries run out, which takes no time here. */
void t_fabric_cut(struct xp_chan *ch);

/* Removes the RDMA device of @xp: its channels end with -ENODEV, nothing
 * reaches its listeners, and connecting fails. t_fabric_plug() adds the device
 * again. The objects of @xp (memory, listeners, IUs) are not changed. */
void t_fabric_unplug(struct xp *xp);
void t_fabric_plug(struct xp *xp);

/* The next @cnt connections meet an old one of the same queue pair. */
void t_fabric_make_stale(struct t_fabric *hub, unsigned int cnt);

/* No device has a way to @addr. NULL: one has again. */
void t_fabric_close_way(struct t_fabric *hub, const struct sockaddr *addr,
			socklen_t len);

/* Connections to @addr get no answer. NULL: they do again. */
void t_fabric_silence(struct t_fabric *hub, const struct sockaddr *addr,
		      socklen_t len);

/* ---- observation ---- */

struct xp_wr;

/* From now on, @rdma is called before each RDMA operation, with the channel
 * that owns the memory. NULL: no longer. */
void t_fabric_watch(struct t_fabric *hub,
		    void (*rdma)(void *user, struct xp_chan *owner,
				 const struct xp_wr *wr),
		    void *user);

/* Returns the number of SENDs that had to wait for a receive. */
uint64_t t_fabric_rnr(const struct t_fabric *hub);

/* Returns the number of receives that the peer of @ch has posted, minus the
 * SENDs on their way to them. INT_MAX if there is no longer a peer. */
int t_fabric_receives(struct xp_chan *ch);

/* Returns the number of RDMA operations that the peer's memory did not
 * allow. */
uint64_t t_fabric_refused(const struct t_fabric *hub);

/* Returns the number of work requests executed. */
uint64_t t_fabric_executed(const struct t_fabric *hub);

#endif
