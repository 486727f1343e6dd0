/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/unit_state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "protocol/scsi_mode.h"
#include "target/scsi/state_file.h"
#include "target/scsi/task.h"
#include "target/scsi/unit_share.h"
#include "target/scsi/volume.h"
#include "base/cleanup.h"
#include "base/log.h"

/* The part of the journal; volume_writers.c has the other. */
#define PART_STATE 0

/* ---- who is shut out ---- */

/* Which kind of reservation excludes a nexus. */
enum {
	UNDER_WRITE_EXCLUSIVE = 1,
	UNDER_EXCLUSIVE_ACCESS = 2,
	UNDER_RESERVE = 4,
	UNDER_BITS = 3,
};

/* SPC-4 table 65 with SBC-3 table 13 (the columns "any type" and "registrants
 * only" differ in who is meant, not in what); SPC-2 table 10. */
static const uint8_t conflicts[] = {
	[SCSI_ACCESS_CHANGES] =
		UNDER_WRITE_EXCLUSIVE | UNDER_EXCLUSIVE_ACCESS | UNDER_RESERVE,
	[SCSI_ACCESS_READS] = UNDER_EXCLUSIVE_ACCESS | UNDER_RESERVE,
	[SCSI_ACCESS_ASKS] = UNDER_RESERVE,
	[SCSI_ACCESS_ALWAYS] = 0,
};

static unsigned int under_pr(const struct scsi_pr *pr,
			     const struct scsi_pr_nexus *nexus)
{
	if (!pr->type || scsi_pr_is_holder(pr, nexus))
		return 0;
	if (scsi_pr_type_spares_registrants(pr->type) &&
	    scsi_pr_find(pr, nexus))
		return 0;
	switch ((enum scsi_pr_type)pr->type) {
	case SCSI_PR_WRITE_EXCLUSIVE:
	case SCSI_PR_WRITE_EXCLUSIVE_RO:
	case SCSI_PR_WRITE_EXCLUSIVE_AR:
		return UNDER_WRITE_EXCLUSIVE;
	case SCSI_PR_EXCLUSIVE_ACCESS:
	case SCSI_PR_EXCLUSIVE_ACCESS_RO:
	case SCSI_PR_EXCLUSIVE_ACCESS_AR:
		return UNDER_EXCLUSIVE_ACCESS;
	case SCSI_PR_NONE:
		break;
	}
	return 0;
}

static uint64_t unit_look(struct unit_state *st, struct scsi_nexus *nexus,
			  unsigned int lun)
{
	struct scsi_pr_nexus who;
	unsigned int under;
	uint64_t value;

	pthread_mutex_lock(&st->lock);
	who = scsi_nexus_at(nexus, lun);
	under = under_pr(&st->pr, &who);
	if (st->reserved && !scsi_pr_nexus_equal(&st->reserved_by, &who))
		under |= UNDER_RESERVE;
	value = atomic_load(&st->version) << UNDER_BITS | under;
	atomic_store_explicit(&nexus->reserved[lun], value,
			      memory_order_relaxed);
	pthread_mutex_unlock(&st->lock);
	return value;
}

bool unit_state_look(struct unit_state *st, uint64_t version,
		     struct scsi_nexus *nexus, unsigned int lun,
		     enum scsi_access access)
{
	uint64_t value = atomic_load_explicit(&nexus->reserved[lun],
					      memory_order_relaxed);

	if (value >> UNDER_BITS != version)
		value = unit_look(st, nexus, lun);
	return value & conflicts[access];
}

void unit_state_pr_changed(struct unit_state *st)
{
	uint64_t version = atomic_load(&st->version) >> 1;

	atomic_store_explicit(&st->version,
			      (version + 1) << 1 |
				      (st->pr.type || st->reserved),
			      memory_order_release);
}

struct scsi_pr_unit unit_state_pr_unit(struct volume *vol)
{
	const struct scsi_port_groups *groups = &vol->info.groups;
	struct unit_state *st = &vol->state;
	struct scsi_pr_unit unit = {
		.target_ports = groups->cnt ? groups->cnt : 1,
		.can_aptpl = unit_state_survives(st) || st->share,
		.has_reserve = !vol->info.no_reserve,
	};

	/* The notes of a store know identifiers only. */
	pthread_mutex_lock(&st->lock);
	unit.reserve = st->share ? 0 : st->pr_reserve;
	pthread_mutex_unlock(&st->lock);
	return unit;
}

/* ---- what survives ---- */

/* Writes are stable from before the cache counts as off until it counts as on. */
static void set_current(struct volume *vol, const struct scsi_modes *modes)
{
	if (!modes->wce)
		vol->dev.write_through = true;
	vol->info.write_cache = modes->wce;
	vol->dev.write_through = !modes->wce;
	vol->info.d_sense = modes->d_sense;
	vol->info.swp = modes->swp;
	vol->state.protects = false;
}

/* The modes do not change: what was done ahead is undone. */
static void unit_keep_modes(struct volume *vol)
{
	vol->dev.write_through = !vol->info.write_cache;
	vol->state.protects = false;
}

/* The saved values that are still possible. */
static void take_modes(struct volume *vol, const struct scsi_modes *saved)
{
	const struct scsi_modes *can = &vol->info.mode_changeable;
	struct scsi_modes *modes = &vol->info.mode_saved;

	if (can->wce)
		modes->wce = saved->wce;
	if (can->d_sense)
		modes->d_sense = saved->d_sense;
	if (can->swp)
		modes->swp = saved->swp;
	set_current(vol, modes);
}

/* "DIR/600...", the unit's name in hexadecimal. */
static char *unit_make_path(const struct volume *vol, const char *dir)
{
	char name[2 * SCSI_NAA_LEN + 1];
	char *path;

	for (size_t i = 0; i < SCSI_NAA_LEN; i++)
		sprintf(name + 2 * i, "%02x", vol->info.naa[i]);
	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/*
 * Another device may have the path by now. So the volume does not use the state
 * under this name, and leaves none for the next one.
 */
static int keep_nothing(struct volume *vol, const char *dir, struct error *e)
{
	_cleanup_free_ char *path = unit_make_path(vol, dir);

	vol->info.no_jobs = true;
	if (!path)
		return error_set(e, -ENOMEM, "out of memory");
	if (access(path, F_OK))
		return 0;
	return error_set(
		e, -ESTALE,
		"%s: state file %s may be of another device that had this "
		"path: the device has no identifier of its own; remove that "
		"file, and give ,serial= to keep state again",
		vol->path, path);
}

static struct state_store store_of(const struct volume *vol)
{
	return (struct state_store){
		.size = vol->dev.backend->info.size,
		.block_size = vol->block_size,
		.mark = vol->dev.backend->info.id.mark,
	};
}

static const char *or_none(const char *lasting)
{
	return *lasting ? lasting : "nothing that can be recognised";
}

/*
 * True if @file was written for this store. It still is after the store has
 * grown. A failed job keeps all others off a store, so that store must surely be
 * the same.
 */
static bool is_of_store(const struct volume *vol, const struct state_file *file,
			char *why, size_t len)
{
	const struct state_store *was = &file->store;
	struct state_store is = store_of(vol);
	bool has_job = file->job.state != VOLUME_READY;
	enum store_match match = store_mark_match(&was->mark, &is.mark);

	if (state_file_is_empty(file))
		return true;
	if (match == STORE_OTHER)
		snprintf(why, len, "it was written for %s, this is %s",
			 was->mark.lasting, or_none(is.mark.lasting));
	else if (has_job && match == STORE_UNKNOWN)
		snprintf(why, len,
			 "it holds an unfinished FORMAT UNIT or SANITIZE, and "
			 "nothing tells whether that began on this store");
	else if (was->size && was->block_size != is.block_size)
		snprintf(why, len,
			 "it was written for blocks of %u bytes, these have %u",
			 was->block_size, is.block_size);
	else if (was->size > is.size ||
		 (was->size && was->size < is.size && match != STORE_SAME))
		snprintf(why, len,
			 "it was written for %llu bytes, this store has %llu",
			 (unsigned long long)was->size,
			 (unsigned long long)is.size);
	else
		return true;
	return false;
}

static int check_store(const struct volume *vol, const struct state_file *file,
		       struct error *e)
{
	char why[2 * STORE_TEXT_MAX + 128];

	if (is_of_store(vol, file, why, sizeof(why)))
		return 0;
	return error_set(
		e, -ESTALE,
		"%s: state file %s is not of this store, or may not be: %s; "
		"put the right one there, or remove that file to start "
		"without what it holds",
		vol->path, vol->journal.path, why);
}

/* Without it, the medium would lose its protection. */
static int unit_check_protection(const struct volume *vol,
				 const struct state_file *file, struct error *e)
{
	if (!file->has_modes || !file->modes.swp ||
	    vol->info.mode_changeable.swp)
		return 0;
	return error_set(
		e, -ESTALE,
		"%s: state file %s holds write protection (SWP) of a "
		"time when one target served the volume; serve it once "
		"more by one target and clear it, or remove that file",
		vol->path, vol->journal.path);
}

static int unit_read(struct volume *vol, struct state_file *file,
		     struct error *e)
{
	const char *text = disk_journal_text(&vol->journal, PART_STATE);
	int err;

	memset(file, 0, sizeof(*file));
	if (!*text)
		return 0;
	err = state_file_parse(text, strlen(text), file, e);
	if (err) {
		error_prefix(e, "state file %s: ", vol->journal.path);
		error_add(e, "; remove it to start without the reservations "
			     "and mode values it held");
	}
	return err;
}

static void unit_restore(struct volume *vol, const struct state_file *file)
{
	struct unit_state *st = &vol->state;

	st->survives = true;
	st->job = file->job;
	volume_job_restore(vol);
	vol->info.mode_save = true;
	if (file->has_modes)
		take_modes(vol, &file->modes);
	st->pr = file->pr;
	unit_state_pr_changed(st);
	if (file->pr.cnt)
		volume_log(LOG_NOTICE, NULL, vol,
			   "persistent registrations restored: %u, "
			   "reservation: %s",
			   file->pr.cnt,
			   file->pr.type ? scsi_pr_type_name(file->pr.type)
					 : "none");
}

int unit_state_load(struct volume *vol, const char *dir, struct error *e)
{
	_cleanup_free_ char *path = NULL;
	struct state_file file;
	int err;

	if (vol->identity == VOLUME_NEW)
		return 0;
	if (vol->identity == VOLUME_BY_PATH)
		return keep_nothing(vol, dir, e);
	path = unit_make_path(vol, dir);
	if (!path)
		return error_set(e, -ENOMEM, "out of memory");
	err = disk_journal_open(&vol->journal, path, /* is_alone= */ false, e);
	if (!err)
		err = unit_read(vol, &file, e);
	if (!err)
		err = check_store(vol, &file, e);
	if (!err)
		err = unit_check_protection(vol, &file, e);
	if (!err)
		err = disk_journal_make(&vol->journal, e);
	if (!err)
		unit_restore(vol, &file);
	return err;
}

/* ---- life ---- */

void unit_state_init(struct unit_state *st)
{
	memset(st, 0, sizeof(*st));
	pthread_mutex_init(&st->lock, NULL);
	list_init(&st->turns);
	st->prevent_epoch = 1;
}

void unit_state_fini(struct unit_state *st)
{
	assert(!st->turn);
	unit_share_free(st->share);
	pthread_mutex_destroy(&st->lock);
}

/* ---- turns ---- */

static void unit_run_turn(struct reactor_msg *msg)
{
	struct unit_turn *turn = container_of(msg, struct unit_turn, msg);

	turn->next(turn, 0);
}

void unit_turn_take(struct volume *vol, struct block_worker *w,
		    struct unit_turn *turn,
		    void (*next)(struct unit_turn *turn, int err))
{
	struct unit_state *st = &vol->state;
	bool waits;

	turn->worker = w;
	turn->next = next;
	turn->msg.run = unit_run_turn;
	list_init(&turn->node);
	pthread_mutex_lock(&st->lock);
	waits = st->turn;
	if (waits)
		list_add_tail(&st->turns, &turn->node);
	else
		st->turn = turn;
	pthread_mutex_unlock(&st->lock);
	if (!waits)
		next(turn, 0);
}

bool unit_turn_leave(struct volume *vol, struct unit_turn *turn)
{
	struct unit_state *st = &vol->state;
	bool waits;

	pthread_mutex_lock(&st->lock);
	waits = !list_empty(&turn->node);
	list_del(&turn->node);
	pthread_mutex_unlock(&st->lock);
	return waits;
}

bool unit_turn_stop_draining(struct volume *vol, const struct unit_turn *turn)
{
	struct unit_state *st = &vol->state;
	bool has;

	pthread_mutex_lock(&st->lock);
	has = st->turn == turn;
	pthread_mutex_unlock(&st->lock);
	if (!has || !block_drain_stop(&st->drain))
		return false;
	st->flush_err = -ECANCELED;
	st->drain.drained(&st->drain);
	return true;
}

void unit_turn_end(struct volume *vol)
{
	struct unit_state *st = &vol->state;
	struct unit_turn *next;
	struct list *node;

	pthread_mutex_lock(&st->lock);
	node = list_empty(&st->turns) ? NULL : list_pop(&st->turns);
	next = node ? container_of(node, struct unit_turn, node) : NULL;
	st->turn = next;
	pthread_mutex_unlock(&st->lock);
	if (next)
		reactor_send(next->worker->reactor, &next->msg);
}

/* ---- changes, by whoever has the turn ---- */

/* The new state begins as a copy of the current one. */
static struct state_file *unit_begin(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	/* Other targets may change reservations at any time, and other rules the
	 * principals that have them. */
	pthread_mutex_lock(&st->lock);
	st->to_be = (struct state_file){
		.store = store_of(vol),
		.modes = vol->info.mode_saved,
		.pr = st->pr,
		.job = st->job,
	};
	pthread_mutex_unlock(&st->lock);
	return &st->to_be;
}

static size_t unit_format(struct disk_journal_change *c, char *buf, size_t cap)
{
	struct unit_state *st = container_of(c, struct unit_state, save);
	size_t len;

	pthread_mutex_lock(&st->lock);
	len = state_file_is_empty(&st->to_be)
		      ? 0
		      : state_file_format(&st->to_be, buf, cap);
	st->was_behind = st->is_behind;
	st->is_behind = false;
	pthread_mutex_unlock(&st->lock);
	return len;
}

static void save_failed(struct volume *vol, int err)
{
	struct unit_state *st = &vol->state;

	/* Not for each command that makes it try again. */
	if (!st->unsaved)
		volume_log(LOG_ERROR, NULL, vol, "state file %s: %s",
			   vol->journal.path, strerror(-err));
	unit_keep_modes(vol);
}

static void saved(struct disk_journal_change *c, int err)
{
	struct unit_state *st = container_of(c, struct unit_state, save);
	struct volume *vol = container_of(st, struct volume, state);

	if (err)
		save_failed(vol, err);
	else
		st->commit(vol);
	pthread_mutex_lock(&st->lock);
	st->is_behind |= err && st->was_behind;
	st->unsaved =
		disk_journal_is_unsure(&vol->journal) || (err && st->is_behind);
	pthread_mutex_unlock(&st->lock);
	volume_job_rest(vol);
	st->turn->next(st->turn, err ? -EIO : 0);
}

static void unit_write(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	/* Reservations that targets share do not belong in the file. */
	if (st->share)
		st->to_be.pr = (struct scsi_pr){ 0 };
	st->to_be.has_modes =
		!scsi_modes_equal(&st->to_be.modes, &vol->info.mode_default);
	st->save = (struct disk_journal_change){
		.part = PART_STATE,
		.reactor = st->turn->worker->reactor,
		.format = unit_format,
		.done = saved,
	};
	disk_journal_start(&vol->journal, &st->save);
}

/* Makes to_be current, after it has been written if necessary. */
static void change(struct volume *vol, bool must_save,
		   void (*commit)(struct volume *vol),
		   void (*next)(struct unit_turn *turn, int err))
{
	struct unit_state *st = &vol->state;

	st->commit = commit;
	st->turn->next = next;
	if (must_save) {
		unit_write(vol);
		return;
	}
	commit(vol);
	next(st->turn, 0);
}

static void commit_nothing(struct volume *vol)
{
}

void unit_state_save_again(struct volume *vol,
			   void (*next)(struct unit_turn *turn, int err))
{
	unit_begin(vol);
	change(vol, /* must_save= */ true, commit_nothing, next);
}

static void commit_pr(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	pthread_mutex_lock(&st->lock);
	st->pr = st->to_be.pr;
	unit_state_pr_changed(st);
	pthread_mutex_unlock(&st->lock);
}

int unit_state_persistent_out(struct volume *vol,
			      const struct scsi_nexus *nexus, unsigned int lun,
			      const struct scsi_pr_request *req,
			      void (*next)(struct unit_turn *turn, int err),
			      struct scsi_sense *ret_sense)
{
	struct unit_state *st = &vol->state;
	struct scsi_pr *pr =
		st->share ? unit_share_begin(vol) : &unit_begin(vol)->pr;
	struct scsi_pr_nexus from;
	int err = -EBUSY; /* SPC-2 5.5.1: whoever it is */

	pthread_mutex_lock(&st->lock);
	from = scsi_nexus_at(nexus, lun);
	if (!st->reserved)
		err = scsi_pr_execute(pr, &from, req, &st->effects, ret_sense);
	pthread_mutex_unlock(&st->lock);
	if (err)
		return err;
	if (st->share)
		unit_share_put(vol, next);
	else
		change(vol, pr->aptpl || st->pr.aptpl, commit_pr, next);
	return 0;
}

struct scsi_pr_effects unit_state_effects(struct unit_state *st)
{
	struct scsi_pr_effects effects;

	pthread_mutex_lock(&st->lock);
	effects = st->effects;
	pthread_mutex_unlock(&st->lock);
	return effects;
}

static void commit_modes(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	pthread_mutex_lock(&st->lock);
	if (st->save_modes)
		vol->info.mode_saved = st->to_be.modes;
	if (!scsi_modes_equal(&st->modes_were, &st->to_be.modes))
		st->changing(st->turn);
	set_current(vol, &st->to_be.modes);
	pthread_mutex_unlock(&st->lock);
}

static void modes_flushed(struct block_cmd *cmd)
{
	struct unit_state *st = container_of(cmd, struct unit_state, flush);
	struct volume *vol = container_of(st, struct volume, state);

	st->flush_err = cmd->res;
	if (!cmd->res) {
		change(vol, st->save_modes, commit_modes, st->turn->next);
		return;
	}
	unit_keep_modes(vol);
	st->turn->next(st->turn, cmd->res);
}

/* From here on, writes are stable when they are answered, so the flush misses
 * none. */
static void flush_modes(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	if (!st->to_be.modes.wce)
		vol->dev.write_through = true;
	st->flush = (struct block_cmd){
		.dev = &vol->dev,
		.worker = st->turn->worker,
		.kind = BLOCK_CMD_FLUSH,
		.buf_index = -1,
		.done = modes_flushed,
	};
	if (block_start(&st->flush))
		modes_flushed(&st->flush);
}

bool unit_state_modes_flush(const struct volume *vol,
			    const struct scsi_modes *modes)
{
	struct scsi_modes was = scsi_modes_current(&vol->info);

	if (!vol->dev.write_cache || vol->read_only)
		return false;
	return (was.wce && !modes->wce) || (!was.swp && modes->swp);
}

bool unit_state_modes_protect(const struct volume *vol,
			      const struct scsi_modes *modes)
{
	return modes->swp && !vol->info.swp;
}

static void unit_flush_or_change(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	if (unit_state_modes_flush(vol, &st->to_be.modes))
		flush_modes(vol);
	else
		change(vol, st->save_modes, commit_modes, st->turn->next);
}

static void unit_protected(struct block_drain *drain)
{
	struct unit_state *st = container_of(drain, struct unit_state, drain);
	struct volume *vol = container_of(st, struct volume, state);

	if (!st->flush_err) {
		unit_flush_or_change(vol);
		return;
	}
	unit_keep_modes(vol);
	st->turn->next(st->turn, st->flush_err);
}

void unit_state_set_modes(struct volume *vol, const struct scsi_modes *modes,
			  bool save, void (*changing)(struct unit_turn *turn),
			  void (*next)(struct unit_turn *turn, int err))
{
	struct unit_state *st = &vol->state;

	unit_begin(vol)->modes = *modes;
	st->modes_were = scsi_modes_current(&vol->info);
	st->save_modes = save;
	st->changing = changing;
	st->flush_err = 0;
	st->turn->next = next;
	if (!unit_state_modes_protect(vol, modes)) {
		unit_flush_or_change(vol);
		return;
	}
	/* As in an eject. The flush covers the last write. */
	st->protects = true;
	block_owners_drain(&vol->dev.owners, st->turn->worker, &st->drain,
			   unit_protected);
}

static void commit_job(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	pthread_mutex_lock(&st->lock);
	st->job = st->to_be.job;
	pthread_mutex_unlock(&st->lock);
	volume_job_rest(vol);
}

void unit_state_set_job(struct volume *vol, const struct state_job *job,
			void (*next)(struct unit_turn *turn, int err))
{
	unit_begin(vol)->job = *job;
	change(vol, unit_state_survives(&vol->state), commit_job, next);
}

/* ---- other rules ---- */

static bool unit_has_namesake(const struct scsi_pr *pr, uint16_t of)
{
	for (uint16_t i = 0; i < pr->cnt; i++) {
		if (i != of && srp_port_id_equal(&pr->regs[i].nexus.port,
						 &pr->regs[of].nexus.port))
			return true;
	}
	return false;
}

/* Returns whether there is another principal now. */
static bool unit_follow_rules(struct scsi_pr *pr,
			      const struct access_rules *rules,
			      const struct access_names *names)
{
	bool changed = false;

	for (uint16_t i = 0; i < pr->cnt; i++) {
		uint64_t *principal = &pr->regs[i].nexus.principal;

		if (!*principal ||
		    access_rules_name(rules, names, *principal) ||
		    unit_has_namesake(pr, i))
			continue;
		*principal = 0;
		changed = true;
	}
	return changed;
}

/* Principals have changed. The lock is held. */
static void unit_note_behind(struct unit_state *st)
{
	st->is_behind |= st->survives && !st->share &&
			 (st->pr.aptpl || st->to_be.pr.aptpl);
}

void unit_state_follow_rules(struct unit_state *st,
			     const struct access_rules *rules,
			     const struct access_names *names)
{
	bool changed;

	pthread_mutex_lock(&st->lock);
	changed = unit_follow_rules(&st->pr, rules, names);
	changed |= unit_follow_rules(&st->to_be.pr, rules, names);
	if (changed)
		unit_note_behind(st);
	if (!access_rules_name(rules, names, st->reserved_by.principal))
		st->reserved_by.principal = 0;
	st->pr_reserve =
		rules->cnt > 1 || names->demanded ? SCSI_PR_MAX / 4 : 0;
	unit_state_pr_changed(st);
	pthread_mutex_unlock(&st->lock);
}

/* Returns whether it is @was. */
static bool unit_rename_one(struct scsi_pr_nexus *nexus,
			    const struct scsi_pr_nexus *was, uint64_t principal)
{
	bool is_it = scsi_pr_nexus_equal(nexus, was);

	if (is_it)
		nexus->principal = principal;
	return is_it;
}

/* Returns whether there is one. */
static bool unit_rename(struct scsi_pr *pr, const struct scsi_pr_nexus *was,
			uint64_t principal)
{
	bool changed = false;

	for (uint16_t i = 0; i < pr->cnt; i++) {
		struct scsi_pr_registration *reg = &pr->regs[i];

		if (scsi_pr_nexus_equal(&reg->nexus, was) &&
		    reg->registrar == was->principal)
			reg->registrar = principal;
		changed |= unit_rename_one(&reg->nexus, was, principal);
	}
	return changed;
}

void unit_state_rename(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun, uint64_t *at, uint64_t principal)
{
	struct scsi_pr_nexus was = scsi_nexus_at(nexus, lun);
	bool changed;

	pthread_mutex_lock(&st->lock);
	changed = unit_rename(&st->pr, &was, principal);
	changed |= unit_rename(&st->to_be.pr, &was, principal);
	if (changed)
		unit_note_behind(st);
	for (uint16_t i = 0; i < st->effects.cnt; i++)
		unit_rename_one(&st->effects.to[i].nexus, &was, principal);
	unit_rename_one(&st->reserved_by, &was, principal);
	__atomic_store_n(at, principal, __ATOMIC_RELAXED);
	unit_state_pr_changed(st);
	pthread_mutex_unlock(&st->lock);
}

/* ---- RESERVE, RELEASE ---- */

/* SPC-4 5.12.3: these may go on as if they had reserved (CRH). */
static bool has_it_anyway(const struct unit_state *st,
			  const struct scsi_pr_nexus *nexus)
{
	if (scsi_pr_is_holder(&st->pr, nexus))
		return true;
	return scsi_pr_type_spares_registrants(st->pr.type) &&
	       scsi_pr_find(&st->pr, nexus);
}

int unit_state_reserve(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun)
{
	struct scsi_pr_nexus who;
	int err = 0;

	pthread_mutex_lock(&st->lock);
	who = scsi_nexus_at(nexus, lun);
	if (st->pr.cnt) {
		err = has_it_anyway(st, &who) ? 0 : -EBUSY;
	} else if (st->reserved) {
		err = scsi_pr_nexus_equal(&st->reserved_by, &who) ? 0 : -EBUSY;
	} else {
		st->reserved = true;
		st->reserved_by = who;
		unit_state_pr_changed(st);
	}
	pthread_mutex_unlock(&st->lock);
	return err;
}

/* The lock is held. */
static void unit_end_reserve(struct unit_state *st)
{
	if (!st->reserved)
		return;
	st->reserved = false;
	unit_state_pr_changed(st);
}

int unit_state_release(struct unit_state *st, const struct scsi_nexus *nexus,
		       unsigned int lun)
{
	struct scsi_pr_nexus who;
	int err = 0;

	pthread_mutex_lock(&st->lock);
	who = scsi_nexus_at(nexus, lun);
	if (st->pr.cnt)
		err = has_it_anyway(st, &who) ? 0 : -EBUSY;
	else if (st->reserved && scsi_pr_nexus_equal(&st->reserved_by, &who))
		unit_end_reserve(st);
	pthread_mutex_unlock(&st->lock);
	return err;
}

/* ---- removal, resets ---- */

void unit_state_prevent_locked(struct unit_state *st, uint32_t *mark,
			       bool prevent)
{
	if (prevent == (*mark == st->prevent_epoch))
		return;
	*mark = prevent ? st->prevent_epoch : 0;
	if (prevent)
		st->prevent_cnt++;
	else
		st->prevent_cnt--;
}

void unit_state_prevent(struct unit_state *st, uint32_t *mark, bool prevent)
{
	pthread_mutex_lock(&st->lock);
	unit_state_prevent_locked(st, mark, prevent);
	pthread_mutex_unlock(&st->lock);
}

void unit_state_reset(struct volume *vol)
{
	struct unit_state *st = &vol->state;

	pthread_mutex_lock(&st->lock);
	unit_end_reserve(st);
	/* Marks from before the reset no longer count. */
	st->prevent_epoch++;
	st->prevent_cnt = 0;
	pthread_mutex_unlock(&st->lock);
}

void unit_state_nexus_lost(struct unit_state *st,
			   const struct scsi_pr_nexus *nexus, uint32_t *mark)
{
	pthread_mutex_lock(&st->lock);
	if (st->reserved && scsi_pr_nexus_equal(&st->reserved_by, nexus))
		unit_end_reserve(st);
	unit_state_prevent_locked(st, mark, false);
	pthread_mutex_unlock(&st->lock);
}
