/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/unit_medium.h"

#include <errno.h>

#include "target/scsi/disk.h"

static void medium_set(struct unit_state *st, enum unit_medium medium)
{
	pthread_mutex_lock(&st->lock);
	st->medium = medium;
	pthread_mutex_unlock(&st->lock);
	volume_status_look(container_of(st, struct volume, state));
}

/* Initiators may have been told that there was no medium. */
static void medium_return(struct volume *vol)
{
	medium_set(&vol->state, UNIT_MEDIUM_IN);
	scsi_attention_others(vol->state.luns, vol, /* except= */ NULL,
			      SCSI_UA_MEDIUM_MAY_DIFFER);
}

/* Moves the medium from @from to @to, unless its removal is prevented. */
static int medium_leave(struct unit_state *st, enum unit_medium to)
{
	int err;

	pthread_mutex_lock(&st->lock);
	err = st->prevent_cnt ? -EPERM : 0;
	if (!err)
		st->medium = to;
	pthread_mutex_unlock(&st->lock);
	volume_status_look(container_of(st, struct volume, state));
	return err;
}

static void medium_step(struct volume *vol);

static void medium_drained(struct block_drain *drain)
{
	struct unit_state *st = container_of(drain, struct unit_state, drain);

	medium_step(container_of(st, struct volume, state));
}

static void medium_flushed(struct block_cmd *cmd)
{
	struct unit_state *st = container_of(cmd, struct unit_state, flush);

	st->flushes = false;
	if (!cmd->res)
		st->unflushed = false;
	if (st->flush_err) {
		/* Taken back: the medium is in already. */
		st->turn->next(st->turn, st->flush_err);
		return;
	}
	st->flush_err = cmd->res;
	medium_step(container_of(st, struct volume, state));
}

static void medium_flush(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	st->flush = (struct block_cmd){
		.dev = &vol->dev,
		.worker = st->turn->worker,
		.kind = BLOCK_CMD_FLUSH,
		.buf_index = -1,
		.done = medium_flushed,
	};
	if (block_start(&st->flush))
		medium_flushed(&st->flush);
}

/* A prevention may have come meanwhile. */
static void medium_end(struct volume *vol)
{
	struct unit_state *st = &vol->state;
	int err = st->flush_err;

	if (!err)
		err = medium_leave(st, UNIT_MEDIUM_OUT);
	else if (err != -ECANCELED)
		err = -EIO;
	if (err)
		medium_return(vol);
	st->turn->next(st->turn, err);
}

/* An eject without a flush may have left something in the cache. */
static void medium_is_out(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	if (st->flushes && st->unflushed)
		medium_flush(vol);
	else
		st->turn->next(st->turn, st->flush_err ? -EIO : 0);
}

/* A job that has the state but waits for the turn begins nothing any more. */
static void medium_begin(struct volume *vol)
{
	struct unit_state *st = &vol->state;
	int err = scsi_volume_is_busy(vol)
			  ? -EBUSY
			  : medium_leave(st, UNIT_MEDIUM_DRAINING);

	if (err) {
		st->turn->next(st->turn, err);
		return;
	}
	st->unflushed = true;
	block_owners_drain(&vol->dev.owners, st->turn->worker, &st->drain,
			   medium_drained);
}

/* Makes the next step of an eject. */
static void medium_step(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	switch ((enum unit_medium)st->medium) {
	case UNIT_MEDIUM_IN:
		medium_begin(vol);
		break;
	case UNIT_MEDIUM_DRAINING:
		if (!st->flushes || st->flush_err) {
			medium_end(vol);
			break;
		}
		medium_set(st, UNIT_MEDIUM_FLUSHING);
		medium_flush(vol);
		break;
	case UNIT_MEDIUM_FLUSHING:
		medium_end(vol);
		break;
	case UNIT_MEDIUM_OUT:
		medium_is_out(vol);
		break;
	}
}

void unit_medium_eject(struct volume *vol, struct lun_map *luns, bool flushes,
		       void (*next)(struct unit_turn *turn, int err))
{
	struct unit_state *st = &vol->state;

	st->turn->next = next;
	st->luns = luns;
	st->flushes = flushes;
	st->flush_err = 0;
	medium_step(vol);
}

void unit_medium_take_back(struct volume *vol)
{
	if (vol->state.medium != UNIT_MEDIUM_FLUSHING)
		return;
	vol->state.flush_err = -ECANCELED;
	medium_return(vol);
}

void unit_medium_load(struct volume *vol, struct lun_map *luns)
{
	vol->state.luns = luns;
	if (vol->state.medium == UNIT_MEDIUM_OUT)
		medium_return(vol);
}
