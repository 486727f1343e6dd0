/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What commands change about a logical unit besides its blocks: reservations,
 * mode values, the prevention of medium removal.
 *
 * Threads. Channels on every worker use a volume at the same time. Changes and
 * looks at reservations take the lock; a command's own question, "am I shut
 * out?", does not: as long as nothing is reserved it costs one atomic load, and
 * after that one more, of what the nexus was told last, until the version says
 * that something has changed.
 *
 * What may have to survive (registrations, mode values, a job that has begun)
 * is changed by one command at a time: it takes its turn, decides what is to
 * be, has that written down if need be, and only then it is so. Nobody waits
 * for the writing but the command itself and those that want the turn next.
 *
 * The lock is taken before the one of the nexuses (task.h).
 */
#ifndef TARGET_SCSI_UNIT_STATE_H
#define TARGET_SCSI_UNIT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_pr.h"
#include "protocol/scsi_vpd.h"
#include "target/block/block.h"
#include "target/scsi/state_save.h"

struct volume;
struct unit_share;

/* A command's turn to change something; embed it. All is private. */
struct unit_turn {
	struct list node; /* of unit_state.turns */
	struct block_worker *worker;
	struct reactor_msg msg;
	/* What has become of the step before: 0, or -EIO. */
	void (*next)(struct unit_turn *turn, int err);
};

struct unit_state {
	/* guards pr, reserved, reserved_by, prevent_*, info.mode_saved */
	pthread_mutex_t lock;
	struct scsi_pr pr;
	bool reserved; /* by RESERVE (6) or (10) */
	struct srp_port_id reserved_by;
	/* Odd while anything is reserved; another number after each change. */
	_Atomic uint64_t version;
	_Atomic bool ejected; /* the medium is out; changed under the lock */
	/* Who prevents that it is taken out: so many, of those that did since
	 * the last reset; see struct scsi_nexus. */
	unsigned int prevent_cnt;
	uint32_t prevent_epoch;

	/* Who has the turn, NULL: nobody; who waits for it. Under the lock. */
	struct unit_turn *turn;
	struct list turns;
	/* of whoever has the turn: what is to be, what it does to others, what
	 * mode values there were; and how it comes to pass */
	struct state_file to_be;
	struct scsi_pr_effects effects;
	struct scsi_modes modes_were;
	bool save_modes;
	void (*changing)(struct unit_turn *turn);
	struct block_cmd flush;
	int flush_err; /* the modes stay as they were because of it; or 0 */
	void (*commit)(struct volume *vol);
	struct state_save save;
	struct state_job job; /* as it is written down */
	/* Other targets serve the unit, too; NULL: they do not. Constant. */
	struct unit_share *share;

	char *path;  /* the state file, constant; NULL: nothing survives */
	int lock_fd; /* keeps others from the file; -1: none */
};

void unit_state_init(struct unit_state *st);
void unit_state_fini(struct unit_state *st);

/*
 * Has @vol keep what is to survive in @dir, and takes over what lies there.
 * A volume that is another one after each start keeps nothing, and so does one
 * whose identity is not to be trusted: jobs are then refused as well. -ESTALE:
 * what lies there is of another store, or that is not sure. Thread: setup. 0, or
 * -errno with one clause in @e.
 */
int unit_state_load(struct volume *vol, const char *dir, struct error *e);

/* Can anything survive? */
static inline bool unit_state_survives(const struct unit_state *st)
{
	return st->path;
}

/* What matters of @vol to the codecs of PERSISTENT RESERVE. */
struct scsi_pr_unit unit_state_pr_unit(const struct volume *vol);

/* st->pr or reserved has changed; the lock is held. */
void unit_state_pr_changed(struct unit_state *st);

/* For unit_state_conflicts(), when something is reserved. */
bool unit_state_look(struct unit_state *st, uint64_t version,
		     const struct srp_port_id *port, _Atomic uint64_t *seen,
		     enum scsi_access access);

/*
 * Does a reservation keep @port from what is @access to it? @seen belongs to
 * the nexus and this unit; zero at first. Thread: any.
 */
static inline bool unit_state_conflicts(struct unit_state *st,
					const struct srp_port_id *port,
					_Atomic uint64_t *seen,
					enum scsi_access access)
{
	/* Orders what follows behind the change that set the version: whoever
	 * was told that a nexus is shut out finds it shut out. */
	uint64_t version =
		atomic_load_explicit(&st->version, memory_order_acquire);

	return version & 1 && unit_state_look(st, version, port, seen, access);
}

/* Takes the turn: @next is called on @w once it is @turn's, maybe at once, with
 * 0. Thread: @w. */
void unit_turn_take(struct volume *vol, struct block_worker *w,
		    struct unit_turn *turn,
		    void (*next)(struct unit_turn *turn, int err));
/* Thread: the turn's worker. */
void unit_turn_end(struct volume *vol);

/*
 * PERSISTENT RESERVE OUT, by whoever has the turn. Return: as scsi_pr_execute(),
 * and if 0, @next is called once, maybe from within: with 0 when it is so (what
 * it does to others is in st->effects), or -EIO when it could not be written
 * down and nothing has changed. With st->share, after unit_share_refresh(), @next
 * gets what put_notes() has come to, and others have suffered it already.
 * Thread: the turn's worker, as the next two.
 */
int unit_state_persistent_out(struct volume *vol,
			      const struct srp_port_id *port,
			      const struct scsi_pr_request *req,
			      void (*next)(struct unit_turn *turn, int err),
			      struct scsi_sense *ret_sense);

/* Is the cache flushed before @modes become current? When WCE goes off (SBC-3,
 * caching mode page) and when SWP goes on (SPC-4, control mode page). */
bool unit_state_modes_flush(const struct volume *vol,
			    const struct scsi_modes *modes);

/*
 * Makes @modes current, and saved too with @save; the same. What the cache holds
 * is stable before it is said to be off; when that fails nothing changes, and
 * the reason is in st->flush_err (else 0). If the modes do change @changing is
 * called under the lock, before any command goes by the new ones or can read
 * them: for unit attentions.
 */
void unit_state_set_modes(struct volume *vol, const struct scsi_modes *modes,
			  bool save, void (*changing)(struct unit_turn *turn),
			  void (*next)(struct unit_turn *turn, int err));

/* A job begins or ends: what is to be known of it later; the same. */
void unit_state_set_job(struct volume *vol, const struct state_job *job,
			void (*next)(struct unit_turn *turn, int err));

/* RESERVE and RELEASE of SPC-2; -EBUSY: RESERVATION CONFLICT. RESERVE is for
 * whoever has the turn, so that no registration comes between. Thread: any. */
int unit_state_reserve(struct unit_state *st, const struct srp_port_id *port);
int unit_state_release(struct unit_state *st, const struct srp_port_id *port);

/*
 * PREVENT ALLOW MEDIUM REMOVAL. @mark is the nexus' own for this unit, guarded
 * by the lock, 0 at first. Thread: any.
 */
void unit_state_prevent(struct unit_state *st, uint32_t *mark, bool prevent);
/* The same by who has the lock. */
void unit_state_prevent_locked(struct unit_state *st, uint32_t *mark,
			       bool prevent);

/* Takes the medium out, or back in. Return: 1: it was in the other place; 0;
 * -EPERM: removal is prevented. Thread: any. */
int unit_state_eject(struct unit_state *st, bool eject);

/* A logical unit reset: RESERVE's reservation ends, removal is allowed (SAM-5
 * 6.3.3). Persistent reservations stay. Mode values are scsi_reset_finish()'s.
 * Thread: any. */
void unit_state_reset(struct volume *vol);

/* The I_T nexus is gone: what RESERVE gave it ends, and its prevention of
 * removal. Thread: any. */
void unit_state_nexus_lost(struct unit_state *st,
			   const struct srp_port_id *port, uint32_t *mark);

#endif
