/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a target that runs: volumes come, grow and go, rules and limits
 * change. Each change is made as a whole or not at all, one after the other. Each
 * kind of change has a file of its own: manage_volume.h, manage_access.h and so on.
 *
 * The configuration (control/config.h) follows each change. It gives every volume
 * its name and its LUN, so that a volume keeps both when the target starts again.
 *
 * Thread: any but a worker's, unless a function says otherwise.
 */
#ifndef TARGET_MANAGE_H
#define TARGET_MANAGE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "target/server_state.h"

/* Why a change was refused; nothing has changed. */
struct manage_fault {
	char object[128]; /* "volume 'a'" */
	char field[64];	  /* "lun"; "": the object itself */
	char reason[ERROR_TEXT_SIZE];
};

struct manage {
	struct server *server;
	pthread_mutex_t lock; /* guards the rest; held during a change */
	json_t *config;	      /* canonical; every volume has name and lun */
	uint64_t generation;  /* of config; grows with each change */
	bool lun_was_used[LUNS_MAX]; /* since the start */
	const json_t *file; /* what the file said at the start; NULL: no file */
	json_t *at_start;   /* what config was then */
	/* What the command line has added: values that the file does not have,
	 * and elements of lists. It adds them again at the next start. */
	json_t *added;
	_Atomic bool reloading; /* manage_begin_reload() */
	pthread_t reloader;	/* the main thread's, as the next */
	bool has_reloader;
};

/* @config: of the command line and the file, canonical; taken over. @file: of the
 * file alone, borrowed, NULL: there is none. -ENOMEM. Thread: main. */
int manage_create(struct server *s, json_t *config, const json_t *file,
		  struct manage **ret);
/* Takes over the names and LUNs that volumes have got. Thread: main, as the next. */
void manage_started(struct manage *m);
/* No other thread uses it. NULL is fine. */
void manage_destroy(struct manage *m);

void manage_lock(struct manage *m);
void manage_unlock(struct manage *m);

/* ---- with the lock ---- */

/* The volume of that name, in the configuration; NULL: none. */
json_t *manage_find(const struct manage *m, const char *name);
/* The same among those that are served; constant while the lock is held. */
struct volume *manage_served(const struct manage *m, const char *name);

/* The configuration has changed. */
void manage_changed(struct manage *m);

/* Has the command line added @one to the list @key? Volumes are told by name. */
bool manage_is_added(const struct manage *m, const char *key,
		     const json_t *one);

/* ---- with or without the lock ---- */

/* Is that the name of the volume @vol of a configuration? */
bool manage_is_named(const json_t *vol, const char *name);

/* Each returns false. */
bool manage_refuse(struct manage_fault *f, const char *object,
		   const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool manage_refuse_volume(struct manage_fault *f, const char *name,
			  const char *field, const char *reason);
bool manage_refuse_unknown(struct manage_fault *f, const char *name);
bool manage_refuse_end(struct manage_fault *f);

#endif
