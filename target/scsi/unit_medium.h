/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The medium of a removable volume: out by START STOP UNIT or the control
 * connection, and in again.
 *
 * An eject loses no write that was answered. It stops new commands first, waits
 * for those that have blocks, and flushes when none is left. If it fails, the
 * medium is back. Whoever ejects or loads has the turn (unit_state.h), so there
 * is one change at a time, and no job (volume_job.h) begins during an eject.
 *
 * Thread: the turn's worker.
 */
#ifndef TARGET_SCSI_UNIT_MEDIUM_H
#define TARGET_SCSI_UNIT_MEDIUM_H

#include "target/scsi/unit_state.h"

struct lun_map;

/*
 * Takes the medium out, and flushes before if @flushes. @luns is borrowed until
 * the end: its nexuses get a unit attention if the medium comes back. Calls
 * @next once, maybe from within: with 0 when the medium is out, or was out; else
 * the medium is where it was, and the reason is
 *   -EPERM	an initiator prevents the removal,
 *   -EBUSY	a job runs,
 *   -EIO	the flush has failed, for the reason in st->flush_err,
 *   -ECANCELED	unit_turn_stop_draining(), or unit_medium_take_back().
 * If the medium was out, there is a flush only if the eject made none.
 */
void unit_medium_eject(struct volume *vol, struct lun_map *luns, bool flushes,
		       void (*next)(struct unit_turn *turn, int err));

/* The medium is back at once if the eject that has the turn waits for its flush. The
 * turn ends with that flush. */
void unit_medium_take_back(struct volume *vol);

/* Puts the medium back in, and tells the nexuses of @luns if it was out. */
void unit_medium_load(struct volume *vol, struct lun_map *luns);

#endif
