/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The volumes of the configuration that are not here yet: what stands in for each, why, since
 * when, and when it is tried again (docs/waiting.md). This is the record alone; manage_arrive.h
 * opens the stores.
 *
 * The start makes the list. Later, who has the lock of changes takes volumes from it, and anybody
 * may look at it.
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef TARGET_ABSENT_H
#define TARGET_ABSENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "target/scsi/volume.h"

/* What a person is told in place of the status of a volume. */
#define ABSENT_STATE "not here yet"

struct manage_opening;

struct absent {
	/* constant, but for the LUN and the rules of stand_in, which a start and a change set */
	const struct volume_spec *spec;
	unsigned int index; /* in the options */
	struct volume *stand_in;
	bool is_fresh;			/* no disk has had its LUN */
	struct manage_opening *opening; /* since the start; only for its thread */
	/* guarded by absents.lock */
	bool is_gone;	  /* not in the list any more */
	bool tries;	  /* an attempt is being made */
	int64_t since_ms; /* since 1970 */
	uint64_t next_ms; /* CLOCK_MONOTONIC */
	struct error why;
};

/* Embed it, zeroed. */
struct absents {
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct absent *list[LUNS_MAX]; /* in the order of the options */
	unsigned int cnt;
	unsigned int threads;
	bool ends;
};

void absents_init(struct absents *all);
/* No thread uses it any more. */
void absents_fini(struct absents *all);

/* Can time mend the error @err of an open()? If not, somebody must change something. */
bool absent_may_come(int err);

/* Adds one that was tried just now, without success: @why. -ENOMEM, with @e. Thread: setup. */
int absent_add(struct absents *all, const struct volume_spec *spec,
	       unsigned int index, unsigned int lun, const struct error *why,
	       struct absent **ret, struct error *e);

/* NULL: there is none. It lasts while the caller has the lock of changes. */
struct absent *absent_find(struct absents *all, const char *name);
/* With the lock of changes. Takes it from the list; its thread frees it. */
void absent_remove(struct absents *all, struct absent *a);

/* For the thread of @a: waits until the next attempt is due. False: it is gone, or all ends. */
bool absent_await(struct absents *all, struct absent *a);
/* The attempt has failed; the next one is due in @seconds. Return: the reason is another one
 * than before. */
bool absent_failed(struct absents *all, struct absent *a,
		   const struct error *why, unsigned int seconds);
void absent_free(struct absent *a);

/* All are tried now. */
void absents_hurry(struct absents *all);

/* The next attempt, for a person: "next attempt in 1 s". */
#define ABSENT_NEXT_SIZE 64

struct absent_facts {
	char name[sizeof(((struct volume *)0)->name)];
	unsigned int lun;
	const struct volume_spec *spec; /* as long as the process runs */
	int64_t since_ms;
	char why[ERROR_TEXT_SIZE];
	char next[ABSENT_NEXT_SIZE];
};

unsigned int absents_count(struct absents *all);
/* The one at place @i. False: there are no more. */
bool absent_look(struct absents *all, unsigned int i, struct absent_facts *ret);

#endif
