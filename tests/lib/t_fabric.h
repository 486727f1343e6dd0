/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric in memory: a third provider of the transport contract, for unit
 * tests. Any number of xps attach to one hub and connect to each other under
 * addresses that exist only there. It behaves as RC does, strictly:
 *
 *  - remote access is checked against what the peer registered with XP_REMOTE;
 *    a violation fails the request and breaks the connection for both,
 *  - a SEND that finds no receive waits for one, and is counted,
 *  - private data arrives zero padded to what InfiniBand's messages hold,
 *  - on failure all that was posted completes as flushed, in order,
 *  - only signalled work requests complete, in posting order.
 *
 * Everything is an action in one queue, in the order in which it was caused,
 * so a run is the same every time. By default each xp's poller runs the actions
 * that are its own. With t_fabric_manual() they wait for t_fabric_step(), and
 * reactors need not run at all: a test, or a simulation, then decides what
 * happens next.
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

/* As xp_create(); cfg->reactor is needed for its pollers and timers. */
int t_xp_create(struct t_fabric *hub, const struct xp_config *cfg,
		struct xp **ret_xp);

/* ---- what happens when ---- */

/* From now on nothing happens but by t_fabric_step(). */
void t_fabric_manual(struct t_fabric *hub, bool manual);

/*
 * Runs the action that was caused first, then posts what handlers queued.
 * False: there was none, or only held completions.
 */
bool t_fabric_step(struct t_fabric *hub);

/* Steps until nothing is left; returns how many. */
unsigned int t_fabric_run(struct t_fabric *hub);

/* Actions that wait for a step, once what handlers queued has been posted. */
unsigned int t_fabric_pending(struct t_fabric *hub);

/*
 * As t_fabric_step(), but of the channel that action @nth (from 0) is of: its
 * first one. Each channel keeps its order; between channels anything goes.
 */
bool t_fabric_step_nth(struct t_fabric *hub, unsigned int nth);

/* Completions of work requests are kept back until they are let go. */
void t_fabric_hold_completions(struct t_fabric *hub, bool hold);

/* Lets the first @cnt of those kept back go; returns how many there were. */
unsigned int t_fabric_let_go(struct t_fabric *hub, unsigned int cnt);

/* Who connects from now on has this address. */
void t_fabric_come_from(struct t_fabric *hub, const char *addr);

/* ---- what goes wrong ---- */

/* The @nth work request posted from now on (1: the next) is not taken. */
void t_fabric_fail_post(struct t_fabric *hub, unsigned int nth);

/* The @nth one to be executed from now on is lost, with its connection. */
void t_fabric_break_at(struct t_fabric *hub, unsigned int nth);

/* The connection of @ch is lost now. */
void t_fabric_break(struct xp_chan *ch);

/* The peer of @ch answers nothing any more, and says nothing: what is posted on
 * @ch from now on stays under way until it is closed. */
void t_fabric_stop(struct xp_chan *ch);

/* The cable is cut: neither side of @ch hears anything of the other any more.
 * What is posted fails once retries have run out, which takes no time here. */
void t_fabric_cut(struct xp_chan *ch);

/* The RDMA device of @xp is removed: its channels end with -ENODEV, nobody gets
 * through to its listeners, and connecting fails. t_fabric_plug(): it is back.
 * What @xp holds (memory, listeners, IUs) stays as it is. */
void t_fabric_unplug(struct xp *xp);
void t_fabric_plug(struct xp *xp);

/* Who connects to @addr gets no answer; NULL: as before. */
void t_fabric_silence(struct t_fabric *hub, const struct sockaddr *addr,
		      socklen_t len);

/* ---- what happened ---- */

struct xp_wr;

/* From now on @rdma is told of each RDMA operation about to be executed, with
 * the channel of whose memory it is. NULL: nobody is. */
void t_fabric_watch(struct t_fabric *hub,
		    void (*rdma)(void *user, struct xp_chan *owner,
				 const struct xp_wr *wr),
		    void *user);

/* SENDs that had to wait for a receive. */
uint64_t t_fabric_rnr(const struct t_fabric *hub);

/* Receives that the peer of @ch has posted, less the SENDs on their way to
 * them; INT_MAX when there is no peer any more. */
int t_fabric_receives(struct xp_chan *ch);

/* RDMA operations that the peer's memory did not allow. */
uint64_t t_fabric_refused(const struct t_fabric *hub);

/* Work requests executed. */
uint64_t t_fabric_executed(const struct t_fabric *hub);

#endif
