/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations of a unit that several targets serve. They lie in the
 * notes of the store (backend.h), as pr_notes.h says, and not in the state file.
 *
 * A PERSISTENT RESERVE OUT takes its turn, asks the store for the notes, does its
 * service action on them, and puts the result in their place, unless another
 * target was faster: then it begins again. What it does to nexuses, also to those
 * of this target, comes with the notes: every target that takes new ones over
 * raises the unit attentions of its own nexuses, and ends their commands if they
 * were preempted and aborted. The command is answered when all that is done.
 *
 * PERSISTENT RESERVE IN asks the store, too. When the store does not answer, both
 * fail: no initiator is told what may be outdated.
 *
 * Locks: unit_share.taking, then unit_state.lock.
 */
#ifndef TARGET_SCSI_UNIT_SHARE_H
#define TARGET_SCSI_UNIT_SHARE_H

#include "target/scsi/pr_notes.h"
#include "target/scsi/unit_state.h"

struct lun_map;

struct unit_share {
	struct volume *vol;
	struct lun_map *luns; /* whose nexuses are told */
	struct backend *store;

	pthread_mutex_t taking; /* guards incoming */
	struct pr_notes incoming;

	/* under unit_state.lock */
	bool is_known;
	uint64_t version;
	struct pr_notes notes; /* of that version; its pr is unit_state.pr */
	/* Initiator ports whose commands are to be ended, and whether the port
	 * is ending those of some. */
	unsigned int abort_cnt;
	struct srp_port_id aborts[SCSI_PR_MAX];
	bool is_aborting;

	/* of whoever has the turn */
	struct pr_notes to_be;
	uint64_t base; /* the version that to_be was made of */
	struct block_io bio;
	uint8_t buf[PR_NOTES_MAX];
};

/*
 * Has @vol share its reservations, if its store has notes. @luns is borrowed.
 * Thread: setup, after unit_state_load(). 0, or -errno with one clause in @e.
 */
int unit_share_start(struct volume *vol, struct lun_map *luns, struct error *e);
/* NULL: nothing is done. The store is closed. Thread: setup. */
void unit_share_free(struct unit_share *sh);

/*
 * By whoever has the turn: @next is called with 0 when the unit goes by what the
 * store has now, or with -errno, maybe from within. Thread: the turn's worker, as
 * the next two.
 */
void unit_share_refresh(struct volume *vol,
			void (*next)(struct unit_turn *turn, int err));

/* The same: what is to be; to begin with, what is. */
struct scsi_pr *unit_share_begin(struct volume *vol);

/* Puts it in place, with st->effects; @next: as unit_state_persistent_out(). */
void unit_share_put(struct volume *vol,
		    void (*next)(struct unit_turn *turn, int err));

/*
 * Initiator ports whose commands on @vol the port is to end now: fills in up to
 * SCSI_PR_MAX, and returns how many. If there are any, unit_share_aborted() is
 * due, with as many as are done: all, or 0, to be tried again. It returns true if
 * there are others. Thread: worker 0.
 */
unsigned int unit_share_take_aborts(struct volume *vol,
				    struct srp_port_id *ports);
bool unit_share_aborted(struct volume *vol, unsigned int cnt);

#endif
