/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a target that runs: volumes come, grow and go, rules and limits
 * change. Each change is made as a whole or not at all, one after the other.
 *
 * The life of a volume (enum manage_volume_state) is driven by the thread that asks
 * for the change. It opens and closes the store, which may block; all else is done
 * by the workers, by message: each lets the volume in and out by itself, and worker
 * 0 shows it to initiators, or hides it.
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
	/* For manage_save(). */
	const json_t *file; /* what the file said at the start; NULL: no file */
	json_t *at_start;   /* what config was then */
	_Atomic bool reloading; /* manage_reload() */
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

/* Adds the volume @vol, which is canonical. *ret_vol, borrowed, has its name and
 * LUN. False: refused. */
bool manage_add_volume(struct manage *m, const json_t *vol, json_t **ret_vol,
		       struct manage_fault *f);
/* Removes it. It is refused while an initiator sees the volume, and when it cannot
 * be flushed; with @force it ends all commands first, and a flush that fails is
 * logged. */
bool manage_remove_volume(struct manage *m, const char *name, bool force,
			  struct manage_fault *f);
/* Makes the file of a volume @bytes long, or, 0, looks whether its store has grown.
 * *ret_bytes is what initiators see. */
bool manage_resize_volume(struct manage *m, const char *name, uint64_t bytes,
			  uint64_t *ret_bytes, struct manage_fault *f);
/* Changes parameters of a plugin of a volume, if it can while it serves.
 * @parameters: canonical, of the plugin @plugin: the store, or the uppermost layer of
 * that name. All or none of them change. */
bool manage_set_parameters(struct manage *m, const char *name,
			   const char *plugin, const json_t *parameters,
			   struct manage_fault *f);
/* Takes the medium of a removable volume out, or back in. */
bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f);
/* @rules: canonical, NULL: none. *ret_ended: sessions that end by it. */
bool manage_set_allow(struct manage *m, const json_t *rules,
		      unsigned int *ret_ended, struct manage_fault *f);
bool manage_set_volume_allow(struct manage *m, const char *name,
			     const json_t *rules, unsigned int *ret_ended,
			     struct manage_fault *f);
/* Takes the limits of @config. */
bool manage_set_limits(struct manage *m, const json_t *config,
		       struct manage_fault *f);
/* Ends the session of an initiator port, "0x..." */
bool manage_kick(struct manage *m, const char *initiator,
		 struct manage_fault *f);

/* ---- without the lock ---- */

/*
 * Waits until no command of sessions that were told to end is left. Whoever has
 * shut an initiator out may let another one write at once: nothing of the first may
 * come after that.
 */
void manage_await_sessions(struct manage *m);

/* Returns false. */
bool manage_refuse(struct manage_fault *f, const char *object,
		   const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
