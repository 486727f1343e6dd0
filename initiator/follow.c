/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes that come and go in a session that follows them (follow_volumes of
 * struct srpi_options). A volume that has left is dead for good: its number, and
 * the I/O of the program for it, never reach another volume. When the target
 * shows it again, it gets another number.
 */
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"

/* A target could show other volumes again and again. */
#define NUMBERS_MAX 4096u

void ini_follow_tell(struct srpi_session *s, const struct ini_volume *v,
		     enum srpi_volume_event event, const char *why)
{
	if (s->closing || !s->options.volume_event)
		return;
	s->options.volume_event(s, v->number, event, why, s->options.state_arg);
}

/* ---- volumes that leave ---- */

void ini_follow_lose(struct srpi_session *s, struct ini_volume *v,
		     const char *why)
{
	v->state = SRPI_LOST;
	v->capacity_changed = false;
	v->modes_changed = false;
	ini_follow_tell(s, v, SRPI_VOLUME_GONE, why);
}

/* ---- volumes that come ---- */

static bool follow_has_name(const struct srpi_session *s, const char *name)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i]->state != SRPI_LOST &&
		    strcmp(s->volumes[i]->info.name, name) == 0)
			return true;
	}
	return false;
}

/* A number that the program has given back. */
static struct ini_volume *follow_find_free(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		struct ini_volume *v = s->volumes[i];

		if (v->is_free && !ini_properties_ask(s, v) &&
		    !ini_keep_alive_asks(s, v))
			return v;
	}
	return NULL;
}

static struct ini_volume *follow_take_number(struct srpi_session *s,
					     const struct ini_volume *found)
{
	struct ini_volume *v = follow_find_free(s);
	struct ini_volume was;

	if (v) {
		was = *v;
		*v = *found;
		v->number = was.number;
		v->state = SRPI_RUNNING;
		v->home = s->paths.now;
		v->ranges = was.ranges;
		return v;
	}
	if (s->volume_cnt == NUMBERS_MAX || ini_volumes_add(s, found))
		return NULL;
	return s->volumes[s->volume_cnt - 1];
}

void ini_follow_add(struct srpi_session *s, const struct ini_volume *found)
{
	struct ini_volume new = *found;
	struct ini_volume *v;
	char base[60];

	snprintf(base, sizeof(base), "%.49s", new.info.name);
	for (unsigned int n = 0; follow_has_name(s, new.info.name); n++)
		ini_volume_rename(&new.info, base, n);
	v = follow_take_number(s, &new);
	if (v)
		ini_follow_tell(s, v, SRPI_VOLUME_ADDED, "");
}

/* ---- for the program ---- */

bool srpi_volume_is_present(const struct srpi_session *s, unsigned int volume)
{
	return volume < s->volume_cnt && s->volumes[volume]->state != SRPI_LOST;
}

void srpi_volume_forget(struct srpi_session *s, unsigned int volume)
{
	if (volume < s->volume_cnt && !srpi_volume_is_present(s, volume))
		s->volumes[volume]->is_free = true;
}
