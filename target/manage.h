/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a running target: volumes are added, resized and removed, rules
 * and limits change. Changes are made one after the other, each completely or
 * not at all. Each kind of change has a file of its own: manage_volume.h,
 * manage_access.h and so on.
 *
 * The configuration (config/config_json.h) follows each change. It stores the name
 * and the LUN of every volume, so that a volume keeps both when the target is
 * restarted.
 *
 * Thread: any but a worker's, unless a function says otherwise.
 */
#ifndef TARGET_MANAGE_H
#define TARGET_MANAGE_H

#include <jansson.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config_json.h"
#include "target/server_state.h"

#define MANAGE_LABEL_SIZE 128

/* Why a change was refused. Nothing has changed. */
struct manage_fault {
	char object[MANAGE_LABEL_SIZE]; /* "volume 'a'" */
	char field[64];			/* "lun"; "": the object itself */
	char reason[ERROR_TEXT_SIZE];
};

/* The configuration, and where the target listens. Constant once queries see it. */
struct manage_view {
	atomic_uint users;
	json_t *config;
	uint64_t generation;
	struct listen_point point[PORT_LISTENERS_MAX];
	unsigned int point_cnt;
};

struct manage {
	struct server *server;
	pthread_mutex_t lock; /* guards the other members; held by a change */
	_Atomic int64_t locked_ms; /* since when, CLOCK_MONOTONIC; 0: free */
	pthread_mutex_t view_lock; /* guards view and saves; held briefly */
	struct manage_view *view;  /* what queries see */
	struct manage_view *next; /* of the change; NULL: it has edited nothing */
	/* Of next, or of view. Canonical; every volume has a name and a LUN. */
	json_t *config;
	uint64_t generation; /* grows with each change */
	const json_t *file;  /* of the file at the start; NULL: no file */
	json_t *at_start;    /* value of config at the start */
	/* What the command line has added: values that the file does not have,
	 * and elements of lists. It adds them again at the next start. */
	json_t *added;
	/* Held while the file is saved or applied. No lock is held when it is taken. */
	pthread_mutex_t file_lock;
	_Atomic unsigned int file_uses; /* times that it was */
	/* Changes that are still to be saved. A reload waits for that: the file does not
	 * have them yet, and would undo them. */
	_Atomic unsigned int saves;
	pthread_cond_t saves_ended;
	bool asides_end;	      /* guarded by manage_aside.c */
	_Atomic unsigned int reloads; /* asked of manage_begin_reload() */
	pthread_t reloader; /* only for the main thread, like the next */
	bool has_reloader;
};

/* @config: values of the command line and the file, canonical; taken over.
 * @file: only those of the file, borrowed; NULL: there is no file. -ENOMEM: out
 * of memory. Thread: main. */
int manage_create(struct server *s, json_t *config, const json_t *file,
		  struct manage **ret);
/* Takes over the names and LUNs that the volumes have got. Thread: main, as for
 * the next function. */
void manage_started(struct manage *m);
/* No other thread may use it. @m may be NULL. */
void manage_destroy(struct manage *m);

void manage_lock(struct manage *m);
void manage_unlock(struct manage *m);
/* Seconds since a change that is being made has begun; -1: none is being made. */
int64_t manage_changing(const struct manage *m);

/* Waits for @sem. False: not within @seconds; 0: it waits for ever. */
bool manage_wait_for(sem_t *sem, unsigned int seconds);

/* Waits until no change is being saved. Returns the value of file_uses. */
unsigned int manage_await_saves(struct manage *m);

/* What queries see; waits for no change. End with manage_view_put(). */
struct manage_view *manage_view_get(struct manage *m);
void manage_view_put(struct manage_view *view);

/* ---- with the lock ---- */

/* Returns the volume of that name in the configuration; NULL: none. */
json_t *manage_find(const struct manage *m, const char *name);
/* The same among the volumes that are served. They do not change while the lock
 * is held. */
struct volume *manage_served(const struct manage *m, const char *name);

/* Returns the configuration to be edited: a copy of the one that queries see. The end of
 * the change shows it to them. NULL: out of memory; jansson takes NULL for an object. */
json_t *manage_edit(struct manage *m);
/* Sets @key of the volume @volume, or of the target (NULL). @value, shared: NULL: it has
 * none. */
void manage_edit_key(struct manage *m, const char *volume, const char *key,
		     const json_t *value);

/* Logs what has changed, as an event. @field: NULL: all of the object. */
void manage_log_change(const char *action, const char *object,
		       const char *field);

/* True if the command line has added @one to the list @key. Volumes are
 * compared by name. */
bool manage_is_added(const struct manage *m, const char *key,
		     const json_t *one);

/* ---- with or without the lock ---- */

/* True if @name is the name of the volume @vol of a configuration. */
bool manage_is_named(const json_t *vol, const char *name);
/* The volume of that name in @config; NULL: none. */
json_t *manage_find_in(const json_t *config, const char *name);
bool manage_list_has(const json_t *list, const json_t *one);

/* Writes "volume 'a'", or "target" if @volume is NULL, into @buf, which it returns. */
const char *manage_label(const char *volume,
			 char buf[static MANAGE_LABEL_SIZE]);

/* All return false. */
bool manage_refuse(struct manage_fault *f, const char *object,
		   const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool manage_refuse_volume(struct manage_fault *f, const char *name,
			  const char *field, const char *reason);
bool manage_refuse_unknown(struct manage_fault *f, const char *name);
bool manage_refuse_end(struct manage_fault *f);

#endif
