/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What commands change about a logical unit besides its blocks: reservations,
 * mode values, the prevention of medium removal.
 *
 * Threads: channels on every worker use a volume at the same time. Changing or
 * reading reservations takes the lock. A command only asks whether a
 * reservation excludes it, and takes no lock for that: without reservations
 * this costs one atomic load. Otherwise it costs one more load, of the answer
 * that the nexus got last, until the version changes.
 *
 * Commands change state that may have to survive (registrations, mode values, a
 * job that has begun) one at a time. A command takes its turn, decides the new
 * state, and writes it to the file if necessary; only then the new state is
 * valid. Only that command and those that want the next turn wait for the file.
 *
 * While it is not sure which state the file has (target/disk/journal.h), the unit is
 * not ready (VOLUME_UNSAVED): no initiator goes on with a state that a restart
 * would not find. Every command that asks makes it try again.
 *
 * Lock order: this lock, then that of the nexuses (task.h).
 */
#ifndef TARGET_SCSI_UNIT_STATE_H
#define TARGET_SCSI_UNIT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "protocol/scsi_access.h"
#include "protocol/scsi_pr.h"
#include "protocol/scsi_vpd.h"
#include "target/block/block.h"
#include "target/disk/journal.h"
#include "target/scsi/state_file.h"

struct access_names;
struct access_rules;
struct volume;
struct lun_map;
struct scsi_nexus;
struct unit_share;

/* Where the medium is; unit_medium.c makes every change. */
enum unit_medium {
	UNIT_MEDIUM_IN,	      /* and after an eject that failed */
	UNIT_MEDIUM_DRAINING, /* an eject: new commands find no medium, and
			       * those that have blocks go on */
	UNIT_MEDIUM_FLUSHING, /* no command has blocks any more */
	UNIT_MEDIUM_OUT,      /* all is stable, unless no flush was wanted */
};

/* A command's turn to change something; embed it. All is private. */
struct unit_turn {
	struct list node; /* of unit_state.turns */
	struct block_worker *worker;
	struct reactor_msg msg;
	/* The result of the step before: 0, or -EIO. */
	void (*next)(struct unit_turn *turn, int err);
};

/* What is left of a logical unit reset after its answer; private to nexus.c. */
struct unit_reset {
	struct unit_turn turn;
	struct lun_map *luns;
	bool runs; /* guarded by unit_state.lock */
};

struct unit_state {
	/* guards pr, pr_reserve, reserved, reserved_by, prevent_*, info.mode_saved */
	pthread_mutex_t lock;
	struct scsi_pr pr;
	uint16_t pr_reserve; /* struct scsi_pr_unit.reserve */
	bool reserved;	     /* by RESERVE (6) or (10) */
	struct scsi_pr_nexus reserved_by;
	/* Odd while anything is reserved. It changes with each change of
	 * reservations. */
	_Atomic uint64_t version;
	_Atomic int medium; /* enum unit_medium; changed by the turn, under
			     * the lock */
	/* The number of nexuses that have prevented removal since the last
	 * reset; see struct scsi_nexus. */
	unsigned int prevent_cnt;
	uint32_t prevent_epoch;

	/* The command with the turn (NULL: none), and those that wait for it.
	 * Under the lock. */
	struct unit_turn *turn;
	struct list turns;
	struct unit_reset reset;
	/* Belongs to the turn: the new state, its effects on others, the former
	 * mode values, and how the change is made. */
	struct state_file to_be;
	struct scsi_pr_effects effects;
	struct scsi_modes modes_were;
	bool save_modes;
	void (*changing)(struct unit_turn *turn);
	struct block_cmd flush;
	/* Why the flush of a change failed; -ECANCELED: unit_turn_stop_draining(); or 0. */
	int flush_err;
	/* SWP is being set: no command begins to change the medium. */
	_Atomic bool protects;
	/* Belongs to the turn, too: of an eject, or before SWP is set. */
	struct block_drain drain;
	struct lun_map *luns;
	bool flushes;	/* until the flush has ended */
	bool unflushed; /* an eject has begun, and no flush has succeeded since */
	void (*commit)(struct volume *vol);
	struct disk_journal_change save;
	/* Also under the lock: the job as it is in the file, and whether the
	 * file may say something else than the unit. */
	struct state_job job;
	_Atomic bool unsaved;
	/* Also under the lock: other rules have changed principals since the file was
	 * formatted, or before that (of the change that is under way). */
	bool is_behind;
	bool was_behind;
	/* Other targets serve the unit, too; NULL: they do not. Constant. */
	struct unit_share *share;

	bool survives; /* in the volume's journal; constant */
};

void unit_state_init(struct unit_state *st);
void unit_state_fini(struct unit_state *st);

/*
 * Keeps the state of @vol in @dir, and loads the state that is there. A volume
 * that is another one after each start keeps none, nor does one whose identity
 * is unreliable; jobs are then refused as well. -ESTALE: the file belongs to
 * another store, or may belong to another one; or it has SWP, and several
 * targets serve the volume now. Thread: setup. 0, or -errno with
 * one clause in @e.
 */
int unit_state_load(struct volume *vol, const char *dir, struct error *e);

/* True if the state of the unit survives. */
static inline bool unit_state_survives(const struct unit_state *st)
{
	return st->survives;
}

/* The properties of @vol that the codecs of PERSISTENT RESERVE need. */
struct scsi_pr_unit unit_state_pr_unit(struct volume *vol);

/* st->pr or reserved has changed; the lock is held. */
void unit_state_pr_changed(struct unit_state *st);

/*
 * True if a reservation keeps @nexus, which has the unit as @lun, from @access; @version is
 * st->version. Thread: any.
 */
bool unit_state_look(struct unit_state *st, uint64_t version,
		     struct scsi_nexus *nexus, unsigned int lun,
		     enum scsi_access access);

/* Takes the turn: calls @next on @w with 0 when @turn has it, maybe at once.
 * Thread: @w. */
void unit_turn_take(struct volume *vol, struct block_worker *w,
		    struct unit_turn *turn,
		    void (*next)(struct unit_turn *turn, int err));
/* True: @turn still waited, and does so no longer. Thread: @w, as above. */
bool unit_turn_leave(struct volume *vol, struct unit_turn *turn);
/* True: @turn was there, but waited for I/O of others that began before. Nothing changes,
 * and next() of the change was called with -ECANCELED. Thread: the turn's worker. */
bool unit_turn_stop_draining(struct volume *vol, const struct unit_turn *turn);
/* Thread: the turn's worker. */
void unit_turn_end(struct volume *vol);

/*
 * PERSISTENT RESERVE OUT, by the command with the turn. Return: as
 * scsi_pr_execute(). If that is 0, calls @next once, maybe from within: with 0
 * when the change is valid (st->effects has its effects on others), or with
 * -EIO if it could not be written: nothing has changed, or the unit is not
 * ready. With st->share,
 * after unit_share_refresh(), @next gets the result of put_notes(), and the
 * effects have already been applied. Thread of this and the next three: the
 * turn's worker.
 */
int unit_state_persistent_out(struct volume *vol,
			      const struct scsi_nexus *nexus, unsigned int lun,
			      const struct scsi_pr_request *req,
			      void (*next)(struct unit_turn *turn, int err),
			      struct scsi_sense *ret_sense);
/* Those of the change that ended last. */
struct scsi_pr_effects unit_state_effects(struct unit_state *st);

/* True if the cache is flushed before @modes become current: if WCE goes off
 * (SBC-3, caching mode page) or SWP goes on (SPC-4, control mode page). */
bool unit_state_modes_flush(const struct volume *vol,
			    const struct scsi_modes *modes);
/* True if SWP goes on. */
bool unit_state_modes_protect(const struct volume *vol,
			      const struct scsi_modes *modes);

/*
 * Makes @modes current, with @save also saved; result as above. Before the
 * cache counts as off, its contents are made stable. If that fails, nothing
 * changes, and st->flush_err has the reason (else 0). Before SWP is on, all
 * commands that had blocks have dropped them. If the modes change,
 * calls @changing under the lock, before any command uses or reads the new
 * ones: it raises unit attentions.
 */
void unit_state_set_modes(struct volume *vol, const struct scsi_modes *modes,
			  bool save, void (*changing)(struct unit_turn *turn),
			  void (*next)(struct unit_turn *turn, int err));

/* Writes that a job begins or ends; result as above. */
void unit_state_set_job(struct volume *vol, const struct state_job *job,
			void (*next)(struct unit_turn *turn, int err));

/* Writes the current state once more; result as above. */
void unit_state_save_again(struct volume *vol,
			   void (*next)(struct unit_turn *turn, int err));

/*
 * Forgets the principals of registrations and of RESERVE that none of @rules names, and that
 * are none of @names, unless another principal has registered with the same identifier. Then
 * they stay, and fit nobody. If there are several rules, or names, a principal may have at most three quarters of all registrations.
 * Thread: any.
 */
void unit_state_follow_rules(struct unit_state *st,
			     const struct access_rules *rules,
			     const struct access_names *names);

/*
 * The principal of @nexus, which is at @at, is @principal from now on, and so is that of
 * what it has reserved, or is about to. Nobody meets one without the other: who a nexus is,
 * is asked under the lock. Thread: worker 0.
 */
void unit_state_rename(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun, uint64_t *at, uint64_t principal);

/* RESERVE and RELEASE of SPC-2; -EBUSY: RESERVATION CONFLICT. RESERVE needs the
 * turn, so that no registration comes between. Thread: any. */
int unit_state_reserve(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun);
int unit_state_release(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun);

/*
 * PREVENT ALLOW MEDIUM REMOVAL. @mark is the nexus' own for this unit, guarded
 * by the lock, 0 at first. Thread: any.
 */
void unit_state_prevent(struct unit_state *st, uint32_t *mark, bool prevent);
/* The same, with the lock held. */
void unit_state_prevent_locked(struct unit_state *st, uint32_t *mark,
			       bool prevent);

/* A logical unit reset: ends the reservation of RESERVE and allows removal
 * (SAM-5 6.3.3). Persistent reservations stay. scsi_reset_finish() resets mode
 * values. Thread: any. */
void unit_state_reset(struct volume *vol);

/* The I_T nexus ends: ends its reservation by RESERVE, and its prevention of
 * removal. Thread: any. */
void unit_state_nexus_lost(struct unit_state *st,
			   const struct scsi_pr_nexus *nexus, uint32_t *mark);

#endif
