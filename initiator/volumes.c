/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"

unsigned int srpi_volume_cnt(const struct srpi_session *s)
{
	return s->volume_cnt;
}

const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume)
{
	return &s->volumes[volume].info;
}

int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume)
{
	unsigned long lun;
	char *end;

	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (strcmp(s->volumes[i].info.name, name_or_lun) == 0) {
			*ret_volume = i;
			return 0;
		}
	}
	lun = strtoul(name_or_lun, &end, 10);
	if (end == name_or_lun || *end)
		return -ENOENT;
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i].info.lun == lun) {
			*ret_volume = i;
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- what was written and is not stable yet ---- */

/*
 * A target may lose what it has acknowledged until a flush says that it is
 * stable. As long as the connection stands it tells by failing the flush. When
 * the connection was lost we have to find out: our own target tells the
 * generation of its store, which changes whenever acknowledged writes may be
 * gone. Of others we believe only the unit attention that says that nothing but
 * the nexus was lost (29h/07h).
 *
 * The next flush then fails, once. It is for the caller to let each of its own
 * callers know.
 */

static struct ini_volume *volume_of(struct srpi_session *s, uint64_t lun_field)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i].lun_field == lun_field)
			return &s->volumes[i];
	}
	return NULL;
}

void ini_volume_attention(struct srpi_session *s, uint64_t lun_field,
			  const struct scsi_sense *sense)
{
	struct ini_volume *v = volume_of(s, lun_field);

	if (!v || sense->key != SCSI_KEY_UNIT_ATTENTION)
		return;
	if (sense->code == SCSI_ASC_NEXUS_LOSS)
		v->saw_nexus_loss = true;
	else if (SCSI_ASC(sense->code) == SCSI_ASC(SCSI_ASC_POWER_ON_OR_RESET))
		v->saw_reset = true;
	else if (sense->code == SCSI_ASC_CAPACITY_CHANGED)
		ini_capacity_changed(s, v);
}

void ini_volume_resize(struct srpi_session *s, struct ini_volume *v,
		       uint64_t size)
{
	if (v->info.size == size)
		return;
	v->info.size = size;
	if (s->options.volume_resized)
		s->options.volume_resized(s, (unsigned int)(v - s->volumes),
					  s->options.state_arg);
}

void ini_volume_forget_attentions(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		s->volumes[i].saw_nexus_loss = false;
		s->volumes[i].saw_reset = false;
	}
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

/* The same volume may be described anew; its name stays, and what we know of
 * our own writes. */
bool ini_volume_back(struct ini_volume *was, const struct ini_volume *now)
{
	bool lost = ini_volume_is_dirty(was) && may_have_lost(was, now);
	struct ini_volume new = *now;

	memcpy(new.info.name, was->info.name, sizeof(new.info.name));
	new.written = was->written;
	new.flushed = lost ? was->written : was->flushed;
	new.losses = was->losses + lost;
	new.losses_told = was->losses_told;
	*was = new;
	return lost;
}
