/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The volumes of rdma-target: the steps that open all of them at the start, and
 * the same steps for one volume while the target runs; then their sizes. Thread:
 * setup for all volumes; worker 0 for one, unless a function says otherwise.
 */
#ifndef TARGET_SERVER_VOLUMES_H
#define TARGET_SERVER_VOLUMES_H

#include "target/server_state.h"

/* Checks that names, identities and LUNs of @luns differ. -EEXIST: two are the
 * same; @e says what to do. Thread: any. */
int server_check_volumes(const struct lun_map *luns, struct error *e);

/* Opens the volumes of s->opt, or those that are there (manage_arrive.h). After an error,
 * s->luns has those that are open. */
int server_open_volumes(struct server *s, struct error *e);
/* @vol is that of s->opt->backings[@index]. In the order of the options. */
void server_take_volume(struct server *s, unsigned int index,
			struct volume *vol);

/* Loads the kept state of @vol, which no worker has yet. May block. Thread:
 * any. */
int server_load_state(struct server *s, struct volume *vol, struct error *e);
/* The same for all volumes, after each has got its LUN and all differ. */
int server_load_states(struct server *s, struct error *e);
/* The same with who has unflushed writes. */
int server_open_journal(const struct server *s, struct volume *vol,
			struct error *e);
int server_open_journals(struct server *s, struct error *e);
/* At the end, of volumes whose store has not answered. Thread: main; no other worker
 * runs. */
void server_save_abandoned(struct server *s);

/* Gives the volumes to each worker. After an error, s->attached says to how many
 * each has. */
int server_attach_volumes(struct server *s, struct error *e);
/* Registers their memory with the transports that the workers have by now. */
int server_register_volumes(struct server *s, struct error *e);
/* Takes the volumes from @w, but for those that are abandoned. Thread: that of the worker, or setup. */
void server_detach_volumes(struct server *s, struct worker *w);

/* It has come, or nobody waits for it any more: frees its LUN. */
void server_await_no_more(struct server *s, struct absent *a);

/* Tells initiators if @vol has grown. Return: 1: it has grown; 0; -errno: it
 * was logged. */
int server_measure_volume(struct server *s, struct volume *vol);
/* Measures all volumes, checks which target serves each, and ends commands of
 * preempted initiators. */
void server_measure_volumes(struct server *s);
/* Ends commands of initiators that were preempted through another target. Also
 * for a volume that is being removed. */
void server_end_preempted(struct server *s, struct volume *vol);
/* Measures them when a plugin reports a change. Thread: main. */
void server_watch_sizes(struct server *s);

#endif
