/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"
#include "base/number.h"

unsigned int srpi_volume_cnt(const struct srpi_session *s)
{
	return s->volume_cnt;
}

const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume)
{
	return &s->volumes[volume]->info;
}

bool ini_volume_has_number(const struct ini_volume *v, const char *text)
{
	uint64_t lun;

	return number_parse(text, UINT32_MAX, &lun) && lun == v->info.lun;
}

int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i]->state != SRPI_LOST &&
		    strcmp(s->volumes[i]->info.name, name_or_lun) == 0) {
			*ret_volume = i;
			return 0;
		}
	}
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i]->state != SRPI_LOST &&
		    ini_volume_has_number(s->volumes[i], name_or_lun)) {
			*ret_volume = i;
			return 0;
		}
	}
	return -ENOENT;
}

struct ini_volume *ini_volumes_find(struct srpi_session *s, uint64_t lun_field)
{
	struct ini_volume *found = NULL;

	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		struct ini_volume *v = s->volumes[i];

		if (v->lun_field == lun_field && v->state != SRPI_LOST &&
		    (!found || v->state == SRPI_RUNNING))
			found = v;
	}
	return found;
}

int ini_volumes_add(struct srpi_session *s, const struct ini_volume *found)
{
	struct ini_volume **all = reallocarray(s->volumes, s->volume_cnt + 1,
					       sizeof(struct ini_volume *));
	struct {
		struct ini_volume v; /* the first member: free() takes it */
		struct ini_ranges ranges;
	} * new;

	if (!all)
		return -ENOMEM;
	s->volumes = all;
	new = malloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->v = *found;
	new->v.number = s->volume_cnt;
	new->v.state = SRPI_RUNNING;
	new->v.home = s->paths.now;
	new->v.ranges = &new->ranges;
	ini_ranges_init(&new->ranges);
	all[s->volume_cnt++] = &new->v;
	return 0;
}

void ini_volumes_free(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++)
		free(s->volumes[i]);
	free(s->volumes);
	s->volumes = NULL;
	s->volume_cnt = 0;
}

/* ---- what was written and is not stable yet ---- */

/*
 * A target may lose acknowledged writes until a flush has made them stable.
 * While the connection stands, the target reports a loss: it fails the flush,
 * sends a deferred error, or sends the unit attention for "power on". After a
 * lost connection, we must find out. Our own target reports the generation of
 * its store, which changes whenever acknowledged writes may be lost. From other
 * targets we accept only the unit attention that reports the loss of the nexus
 * and nothing else (29h/07h).
 *
 * The next flush then fails once, even when the volume has no cache any more.
 * The program passes this failure on to each of its own users.
 *
 * A write without FUA is flushed by SYNCHRONIZE CACHE, whatever the caching
 * page said last: another initiator may have turned the cache on during the
 * write, and no command has reported that yet. Whether such a write may have
 * been *lost* depends on the page. The write counts as cached if the cache was
 * on at its acknowledgement, if an attention came before the flush, or if the
 * cache is on when the volume comes back. One case stays unseen: the cache was
 * on for a moment during the write, and the target crashed before its next
 * response. To cover it, every volume without a cache would have to fail a
 * flush after every crash.
 */

enum news {
	NEWS_NEXUS = 1 << 0,	/* nothing but the nexus was lost */
	NEWS_RESET = 1 << 1,	/* more than that may have been lost */
	NEWS_CAPACITY = 1 << 2, /* to be asked for again: the size */
	NEWS_MODES = 1 << 3,	/* the mode pages */
	NEWS_UNIT = 1 << 4,	/* everything: it may be another unit */
	NEWS_PATH = 1 << 5,	/* another target port may be active */
};

/* Other codes change nothing that discovery has asked for. The first row
 * that matches counts. */
static const struct {
	uint16_t mask; /* of the code, before it is compared */
	uint16_t code;
	unsigned int news;
} attentions[] = {
	{ 0xffff, SCSI_ASC_NEXUS_LOSS, NEWS_NEXUS },
	/* The modes are the saved ones again; caches keep their contents. */
	{ 0xffff, SCSI_ASC_BUS_RESET, NEWS_RESET | NEWS_MODES },
	{ 0xffff, SCSI_ASC_DEVICE_RESET, NEWS_RESET | NEWS_MODES },
	/* Power on, an internal reset, or an unknown kind of reset. */
	{ 0xff00, SCSI_ASC_POWER_ON_OR_RESET, NEWS_RESET | NEWS_UNIT },
	{ 0xff00, SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED, NEWS_UNIT },
	{ 0xffff, SCSI_ASC_PARAMETERS_CHANGED, NEWS_UNIT },
	{ 0xffff, SCSI_ASC_MODE_PARAMETERS_CHANGED, NEWS_MODES },
	{ 0xffff, SCSI_ASC_CAPACITY_CHANGED, NEWS_CAPACITY },
	{ 0xffff, SCSI_ASC_ACCESS_STATE_CHANGED, NEWS_PATH },
	/* Operating conditions, INQUIRY data, identifier, LUNs, ... */
	{ 0xff00, SCSI_ASC_OPERATING_CONDITIONS_CHANGED, NEWS_UNIT },
};

static unsigned int news_of(const struct scsi_sense *sense)
{
	for (size_t i = 0; i < ARRAY_SIZE(attentions); i++) {
		if ((sense->code & attentions[i].mask) == attentions[i].code)
			return attentions[i].news;
	}
	return 0;
}

/* A command failed after it had been acknowledged. */
static void note_deferred(struct srpi_session *s, struct ini_volume *v,
			  const struct scsi_sense *sense)
{
	bool known = v->losses != v->losses_told;

	if (sense->key == SCSI_KEY_NO_SENSE ||
	    sense->key == SCSI_KEY_RECOVERED_ERROR ||
	    sense->key == SCSI_KEY_COMPLETED)
		return;
	v->losses++;
	s->reconnect.lost_writes |= s->state != SRPI_RUNNING;
	if (known || s->state != SRPI_RUNNING)
		return;
	ini_error_deferred(s, v, sense);
	ini_session_enter(s, SRPI_RUNNING, &s->error);
}

/* Until the modes are known again, assume those that lose nothing. */
static void doubt_modes(struct ini_volume *v)
{
	v->info.write_cache = true;
	v->info.fua = false;
	v->cached = v->written;
}

void ini_volume_attention(struct srpi_session *s, uint64_t lun_field,
			  const struct scsi_sense *sense, bool asked)
{
	struct ini_volume *v = ini_volumes_find(s, lun_field);
	unsigned int news, changes;

	if (v && sense->deferred)
		note_deferred(s, v, sense);
	if (sense->deferred || sense->key != SCSI_KEY_UNIT_ATTENTION)
		return;
	news = news_of(sense);
	if (news & NEWS_PATH && ini_paths_several(s))
		news |= NEWS_UNIT;
	if (v && news & NEWS_MODES)
		doubt_modes(v);
	changes = news & (NEWS_UNIT | NEWS_CAPACITY | NEWS_MODES);
	if (news & NEWS_UNIT || (changes && s->link != INI_LINK_UP))
		ini_link_look_again(s, lun_field, sense, asked);
	else if (v && changes)
		ini_properties_changed(s, v, news & NEWS_CAPACITY,
				       news & NEWS_MODES);
	if (v && news & NEWS_NEXUS)
		v->saw_nexus_loss = true;
	if (v && news & NEWS_RESET)
		v->saw_reset = true;
}

void ini_volume_set_modes(struct ini_volume *v, const struct scsi_mode *mode)
{
	v->info.read_only = mode->write_protected;
	v->info.fua = mode->dpofua;
	if (mode->has_caching) {
		v->info.write_cache = mode->wce;
		v->cache_unknown = false;
	}
}

void ini_volume_resize(struct srpi_session *s, struct ini_volume *v,
		       uint64_t size)
{
	if (v->info.size == size)
		return;
	v->info.size = size;
	if (s->options.volume_resized)
		s->options.volume_resized(s, v->number, s->options.state_arg);
	ini_follow_tell(s, v, SRPI_VOLUME_RESIZED, "");
}

void ini_volume_tell_changes(struct srpi_session *s, const struct ini_volume *v,
			     const struct srpi_volume_info *before)
{
	const struct srpi_volume_info *now = &v->info;

	if (now->lun != before->lun ||
	    now->physical_block_size != before->physical_block_size ||
	    now->max_transfer != before->max_transfer ||
	    now->optimal_transfer != before->optimal_transfer ||
	    now->unmap_granularity != before->unmap_granularity ||
	    now->read_only != before->read_only ||
	    now->write_cache != before->write_cache ||
	    now->fua != before->fua || now->unmap != before->unmap ||
	    now->unmap_zeroes != before->unmap_zeroes ||
	    now->rotational != before->rotational)
		ini_follow_tell(s, v, SRPI_VOLUME_CHANGED, "");
}

void ini_volume_forget_attentions(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		s->volumes[i]->saw_nexus_loss = true;
		s->volumes[i]->saw_reset = false;
	}
	s->passes = 0;
}

/* An earlier attempt may have seen a reset and failed then. Or it began a
 * nexus, and failed before that nexus reported its losses. */
void ini_volume_new_nexus(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		struct ini_volume *v = s->volumes[i];

		v->saw_reset |= s->passes > 0 && !v->saw_nexus_loss;
		v->saw_nexus_loss = false;
	}
	s->passes = 0;
}

void ini_volume_written(struct ini_volume *v)
{
	v->written++;
	if (v->info.write_cache)
		v->cached = v->written;
}

int ini_volume_flushed(struct ini_volume *v, uint64_t written)
{
	if (written > v->flushed)
		v->flushed = written;
	if (v->losses_told == v->losses)
		return 0;
	v->losses_told = v->losses;
	return -EIO;
}

static bool may_have_lost(const struct ini_volume *was,
			  const struct ini_volume *now)
{
	if (was->has_store && now->has_store)
		return memcmp(was->store.generation, now->store.generation,
			      SCSI_GENERATION_LEN) != 0;
	return was->has_store || now->has_store || was->saw_reset ||
	       !was->saw_nexus_loss;
}

bool ini_volume_gone(struct ini_volume *v)
{
	/* Without a generation, nothing shows the loss when the volume is
	 * back. */
	bool lost = !v->has_store && v->cached > v->flushed;

	v->state = SRPI_FAIL_FAST;
	v->losses += lost;
	if (lost)
		v->flushed = v->written;
	return lost;
}

/* The properties of the volume are the new ones. Its name, the counts of writes
 * and what the program has done with it stay. */
bool ini_volume_back(struct ini_volume *was, const struct ini_volume *now)
{
	struct ini_volume new = *now;
	bool lost;

	if (now->info.write_cache)
		was->cached = was->written;
	lost = was->cached > was->flushed && may_have_lost(was, now);
	new.number = was->number;
	new.ranges = was->ranges;
	new.is_named = was->is_named;
	memcpy(new.info.name, was->info.name, sizeof(new.info.name));
	/* A question in progress may have been answered before discovery
	 * asked. */
	new.capacity_changed = was->capacity_changed;
	new.modes_changed = was->modes_changed;
	new.written = was->written;
	new.flushed = lost ? was->written : was->flushed;
	new.cached = was->cached;
	new.losses = was->losses + lost;
	new.losses_told = was->losses_told;
	new.is_used = was->is_used;
	new.state = SRPI_RUNNING;
	*was = new;
	return lost;
}
