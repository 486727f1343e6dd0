/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/absent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ticks.h"

/* ---- life ---- */

void absents_init(struct absents *all)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&all->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&all->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void absent_free(struct absent *a)
{
	free(a->stand_in);
	free(a);
}

void absents_fini(struct absents *all)
{
	while (all->cnt)
		absent_free(all->list[--all->cnt]);
	pthread_mutex_destroy(&all->lock);
	pthread_cond_destroy(&all->changed);
}

static int64_t absent_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Words, limits of this process, and what a store is. All else is the world. */
bool absent_may_come(int err)
{
	switch (-err) {
	case E2BIG:
	case EBADMSG:
	case EEXIST:
	case EINVAL:
	case EISDIR:
	case EMFILE:
	case ENAMETOOLONG:
	case ENFILE:
	case ENOEXEC:
	case ENOMEM:
	case ENOSYS:
	case EOPNOTSUPP:
	case ERANGE:
		return false;
	}
	return true;
}

int absent_add(struct absents *all, const struct volume_spec *spec,
	       unsigned int index, unsigned int lun, const struct error *why,
	       struct absent **ret, struct error *e)
{
	struct absent *a = calloc(1, sizeof(*a));

	if (a)
		a->stand_in = volume_stand_in(spec, lun);
	if (!a || !a->stand_in) {
		free(a);
		return error_set(e, -ENOMEM, "out of memory");
	}
	a->spec = spec;
	a->index = index;
	a->since_ms = absent_clock_ms();
	a->why = *why;
	all->list[all->cnt++] = a;
	*ret = a;
	return 0;
}

/* ---- the list ---- */

struct absent *absent_find(struct absents *all, const char *name)
{
	struct absent *found = NULL;

	pthread_mutex_lock(&all->lock);
	for (unsigned int i = 0; i < all->cnt && !found; i++) {
		if (!strcmp(all->list[i]->stand_in->name, name))
			found = all->list[i];
	}
	pthread_mutex_unlock(&all->lock);
	return found;
}

void absent_remove(struct absents *all, struct absent *a)
{
	unsigned int kept = 0;

	pthread_mutex_lock(&all->lock);
	for (unsigned int i = 0; i < all->cnt; i++) {
		if (all->list[i] != a)
			all->list[kept++] = all->list[i];
	}
	all->cnt = kept;
	a->is_gone = true;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

/* ---- attempts ---- */

static bool absent_is_due(const struct absents *all, const struct absent *a)
{
	return all->ends || a->is_gone || ticks_clock_ms() >= a->next_ms;
}

bool absent_await(struct absents *all, struct absent *a)
{
	bool goes_on;

	pthread_mutex_lock(&all->lock);
	while (!absent_is_due(all, a)) {
		const struct timespec until = {
			.tv_sec = (time_t)(a->next_ms / 1000),
			.tv_nsec = (long)(a->next_ms % 1000) * 1000000,
		};

		pthread_cond_timedwait(&all->changed, &all->lock, &until);
	}
	goes_on = !all->ends && !a->is_gone;
	a->tries = goes_on;
	pthread_mutex_unlock(&all->lock);
	return goes_on;
}

bool absent_failed(struct absents *all, struct absent *a,
		   const struct error *why, unsigned int seconds)
{
	bool is_new;

	pthread_mutex_lock(&all->lock);
	is_new = strcmp(a->why.text, why->text) != 0;
	a->why = *why;
	a->tries = false;
	a->next_ms = ticks_clock_ms() + seconds * UINT64_C(1000);
	pthread_mutex_unlock(&all->lock);
	return is_new;
}

void absents_hurry(struct absents *all)
{
	pthread_mutex_lock(&all->lock);
	for (unsigned int i = 0; i < all->cnt; i++)
		all->list[i]->next_ms = 0;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

/* ---- what is told ---- */

static void absent_tell_next(const struct absent *a, char *buf)
{
	uint64_t now = ticks_clock_ms();
	uint64_t ms = a->next_ms > now ? a->next_ms - now : 0;

	if (a->tries)
		snprintf(buf, ABSENT_NEXT_SIZE, "being tried");
	else
		snprintf(buf, ABSENT_NEXT_SIZE, "next attempt in %u s",
			 (unsigned int)((ms + 999) / 1000));
}

unsigned int absents_count(struct absents *all)
{
	unsigned int cnt;

	pthread_mutex_lock(&all->lock);
	cnt = all->cnt;
	pthread_mutex_unlock(&all->lock);
	return cnt;
}

bool absent_look(struct absents *all, unsigned int i, struct absent_facts *ret)
{
	bool found;

	pthread_mutex_lock(&all->lock);
	found = i < all->cnt;
	if (found) {
		const struct absent *a = all->list[i];

		snprintf(ret->name, sizeof(ret->name), "%s", a->stand_in->name);
		ret->lun = a->stand_in->lun;
		ret->spec = a->spec;
		ret->since_ms = a->since_ms;
		snprintf(ret->why, sizeof(ret->why), "%s", a->why.text);
		absent_tell_next(a, ret->next);
	}
	pthread_mutex_unlock(&all->lock);
	return found;
}
