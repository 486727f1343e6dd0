/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations of a unit that several targets serve. They are in the
 * notes of the store (backend.h), encoded as in pr_notes.h, and not in the
 * state file.
 *
 * A PERSISTENT RESERVE OUT takes its turn, gets the notes from the store,
 * executes its service action on them, and replaces the notes. If another
 * target was faster, it begins again. The new notes contain the effects on
 * nexuses, including those of this target. Every target that receives new notes
 * raises the unit attentions of its own nexuses, and ends their commands if
 * they were preempted and aborted. The command is answered after all that.
 *
 * PERSISTENT RESERVE IN asks the store, too. If the store does not answer, both
 * fail, because no initiator may get outdated information.
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
	struct lun_map *luns; /* the map whose nexuses are told */
	struct backend *store;

	pthread_mutex_t taking; /* guards incoming */
	struct pr_notes incoming;

	/* under unit_state.lock */
	bool is_known;
	uint64_t version;
	struct pr_notes notes; /* of that version; its pr is unit_state.pr */
	/* Initiators whose commands must be ended, and whether the port is
	 * ending some of them. */
	unsigned int abort_cnt;
	struct scsi_pr_nexus aborts[SCSI_PR_MAX];
	bool is_aborting;

	/* belongs to the turn */
	struct pr_notes to_be;
	uint64_t base; /* the version that to_be was made of */
	struct block_io bio;
	uint8_t buf[PR_NOTES_MAX];
};

/*
 * If the store of @vol has notes, shares the reservations of @vol. @luns is
 * borrowed. Thread: setup, after unit_state_load(). 0, or -errno with one
 * clause in @e.
 */
int unit_share_start(struct volume *vol, struct lun_map *luns, struct error *e);
/* NULL is fine. The store is closed. Thread: setup. */
void unit_share_free(struct unit_share *sh);

/*
 * For the command with the turn: calls @next with 0 when the unit follows the
 * current notes of the store, or with -errno, maybe from within. Thread of this
 * and the next three: the turn's worker.
 */
void unit_share_refresh(struct volume *vol,
			void (*next)(struct unit_turn *turn, int err));

/* The new state, which begins as a copy of the current one. */
struct scsi_pr *unit_share_begin(struct volume *vol);

/* Puts the new state, with st->effects, into the store. @next: as for
 * unit_state_persistent_out(). */
void unit_share_put(struct volume *vol,
		    void (*next)(struct unit_turn *turn, int err));

/* After a put that ended with -ESTALE and a refresh: are there newer notes than those
 * that to_be was made of? False: the store has lost notes; this is logged. */
bool unit_share_has_newer(struct volume *vol);

/*
 * Initiators whose commands on @vol the port must end now. Fills in up to
 * SCSI_PR_MAX nexuses and returns their number. If it is not 0, call
 * unit_share_aborted() when the commands have ended: with the same number, or
 * with 0 to try again. That returns true if there are more. Thread: worker 0.
 */
unsigned int unit_share_take_aborts(struct volume *vol,
				    struct scsi_pr_nexus *nexuses);
bool unit_share_aborted(struct volume *vol, unsigned int cnt);

#endif
