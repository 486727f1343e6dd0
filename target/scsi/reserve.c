/* SPDX-License-Identifier: BSD-2-Clause */
/* PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE. */
#include <errno.h>

#include "target/scsi/disk.h"
#include "target/scsi/unit_share.h"

static struct scsi_task *reserve_task_of(struct unit_turn *turn)
{
	return container_of(turn, struct scsi_task, turn);
}

/* By the command with the turn. An initiator repeats a command by itself only
 * if another target can execute it. */
static void reserve_fail(struct scsi_task *task, int err)
{
	struct scsi_sense sense = scsi_sense_from_errno(err, SCSI_MEDIUM_WRITE);

	unit_turn_end(task->vol);
	if (err == -ESHUTDOWN)
		scsi_task_fail(task, &sense);
	else
		scsi_task_fail_state(task);
}

/* ---- PERSISTENT RESERVE IN ---- */

static void persistent_in_fresh(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);

	if (err) {
		reserve_fail(task, err);
		return;
	}
	unit_turn_end(task->vol);
	scsi_task_found_out(task);
}

static void persistent_in_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);

	if (!scsi_task_turned_too_late(task))
		unit_share_refresh(task->vol, persistent_in_fresh);
}

static bool persistent_in_find_out(struct scsi_task *task)
{
	if (!task->vol->state.share)
		return false;
	scsi_task_take_turn(task, persistent_in_turn);
	return true;
}

static int persistent_in(struct scsi_task *task, void *buf, size_t cap,
			 size_t *ret_len, struct scsi_sense *ret_sense)
{
	struct scsi_pr_unit unit = unit_state_pr_unit(task->vol);
	struct unit_state *st = &task->vol->state;

	pthread_mutex_lock(&st->lock);
	*ret_len = scsi_pr_in_encode(
		&st->pr, (enum scsi_pr_in)task->cmd.info->service_action, &unit,
		buf, cap);
	pthread_mutex_unlock(&st->lock);
	return 0;
}

const struct scsi_handler scsi_persistent_in = {
	.find_out = persistent_in_find_out,
	.answer = persistent_in,
};

/* ---- PERSISTENT RESERVE OUT ---- */

uint32_t scsi_pr_attentions(uint8_t news)
{
	uint32_t bits = 0;

	if (news & SCSI_PR_NEWS_PREEMPTED)
		bits |= SCSI_UA_PREEMPTED;
	if (news & SCSI_PR_NEWS_RELEASED)
		bits |= SCSI_UA_RELEASED;
	if (news & SCSI_PR_NEWS_UNREGISTERED)
		bits |= SCSI_UA_UNREGISTERED;
	return bits;
}

static void aborted(struct scsi_task *task)
{
	scsi_task_good(task);
}

/* The reservation has already changed. If this fails, the initiator must know
 * that old commands may still run. */
static bool reserve_abort_preempted(struct scsi_task *task,
				    const struct scsi_pr_effects *effects)
{
	struct lun_map *luns = task->nexus->luns;
	struct scsi_sense sense = scsi_sense(SCSI_KEY_ABORTED_COMMAND,
					     SCSI_ASC_INSUFFICIENT_RESOURCES);
	struct scsi_pr_nexus nexuses[SCSI_PR_MAX];
	unsigned int cnt = 0;

	for (uint16_t i = 0; i < effects->cnt; i++) {
		const struct scsi_pr_nexus *who = &effects->to[i].nexus;

		if (!(effects->to[i].news & SCSI_PR_NEWS_ABORT))
			continue;
		nexuses[cnt++] = *who;
		/* SPC-4, preempting and aborting, item h */
		scsi_nexus_allow_removal(luns, task->vol, who);
	}
	if (!cnt)
		return scsi_task_good(task);
	task->aborted = aborted;
	if (task->abort(task, nexuses, cnt))
		return scsi_task_fail(task, &sense);
	return false;
}

static bool succeed(struct scsi_task *task,
		    const struct scsi_pr_effects *effects)
{
	for (uint16_t i = 0; i < effects->cnt; i++)
		scsi_attention_nexus(task->nexus->luns, task->vol,
				     &effects->to[i].nexus,
				     scsi_pr_attentions(effects->to[i].news));
	return reserve_abort_preempted(task, effects);
}

static void persistent_decide(struct unit_turn *turn, int err);

/* If there are no newer notes, the store would refuse these for ever. */
static void persistent_refreshed(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);

	if (!err && !unit_share_has_newer(task->vol))
		err = -EIO;
	persistent_decide(turn, err);
}

static void persistent_done(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);
	struct volume *vol = task->vol;
	struct scsi_pr_effects effects = unit_state_effects(&vol->state);

	if (err == -ESTALE && vol->state.share) {
		/* Another target was faster. */
		unit_share_refresh(vol, persistent_refreshed);
		return;
	}
	if (err) {
		reserve_fail(task, err);
		return;
	}
	unit_turn_end(vol);
	if (vol->state.share)
		scsi_task_good(task);
	else
		succeed(task, &effects);
}

/* Nothing has changed yet; the service action applies to st->pr. */
static void persistent_decide(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);
	const struct scsi_pr_unit unit = unit_state_pr_unit(task->vol);
	const struct scsi_cmd *cmd = &task->cmd;
	struct scsi_pr_request req;
	struct scsi_sense sense;

	if (err) {
		reserve_fail(task, err);
		return;
	}
	if (scsi_task_turned_too_late(task))
		return;
	err = scsi_pr_out_decode((enum scsi_pr_out)cmd->info->service_action,
				 cmd->scope, cmd->type, task->buf,
				 task->fetch_len, &unit, &req, &sense);
	if (!err)
		err = unit_state_persistent_out(task->vol, task->nexus,
						(unsigned int)task->lun, &req,
						persistent_done, &sense);
	if (!err)
		return;
	unit_turn_end(task->vol);
	if (err == -EBUSY)
		scsi_task_conflict(task);
	else
		scsi_task_fail(task, &sense);
}

static void persistent_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);

	if (task->vol->state.share)
		unit_share_refresh(task->vol, persistent_decide);
	else
		persistent_decide(turn, 0);
}

static bool execute_persistent_out(struct scsi_task *task)
{
	return scsi_task_take_turn(task, persistent_turn);
}

const struct scsi_handler scsi_persistent_out = {
	.execute = execute_persistent_out,
};

/* ---- RESERVE, RELEASE ---- */

static bool reserve_end_reserve(struct scsi_task *task, int err)
{
	return err ? scsi_task_conflict(task) : scsi_task_good(task);
}

/* What was written under the last reservation, and given up, must not land under
 * the next one. */
static bool reserve_is_too_early(struct volume *vol)
{
	struct unit_state *st = &vol->state;
	bool reserved;

	pthread_mutex_lock(&st->lock);
	reserved = st->reserved;
	pthread_mutex_unlock(&st->lock);
	return !reserved && block_owners_have_given_up(&vol->dev.owners);
}

static void reserve_turn(struct unit_turn *turn, int err)
{
	struct scsi_task *task = reserve_task_of(turn);

	if (scsi_task_turned_too_late(task))
		return;
	if (reserve_is_too_early(task->vol)) {
		unit_turn_end(task->vol);
		scsi_task_busy(task);
		return;
	}
	err = unit_state_reserve(&task->vol->state, task->nexus,
				 (unsigned int)task->lun);
	unit_turn_end(task->vol);
	reserve_end_reserve(task, err);
}

static bool execute_reserve(struct scsi_task *task)
{
	return scsi_task_take_turn(task, reserve_turn);
}

const struct scsi_handler scsi_reserve = { .execute = execute_reserve };

static bool execute_release(struct scsi_task *task)
{
	return reserve_end_reserve(
		task, unit_state_release(&task->vol->state, task->nexus,
					 (unsigned int)task->lun));
}

const struct scsi_handler scsi_release = { .execute = execute_release };
