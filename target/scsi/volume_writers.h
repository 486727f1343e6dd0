/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps in a volume's journal who has unflushed writes on it (writers.h), and decides at
 * the start what is lost.
 *
 * A volume whose state survives has its journal by its identity, because numbers of
 * devices and file systems change when the machine boots. Another file or device has one
 * by its number; what that says counts until the machine boots. It is in the state
 * directory, in /run/rdma-target or, for users, in $XDG_RUNTIME_DIR/rdma-target. When a
 * target gets a state directory, what the journal there says is taken over. If no
 * journal can be kept, each start is another generation, and the log says so.
 *
 * A store of a plugin has no number on this machine. It has a journal if
 * its state survives, which needs a trusted identity. At the start there is
 * nothing to synchronize: what failed before is in the journal.
 */
#ifndef TARGET_SCSI_VOLUME_WRITERS_H
#define TARGET_SCSI_VOLUME_WRITERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/reactor.h"
#include "target/disk/journal.h"
#include "target/scsi/store_generation.h"

struct volume;

/* Embed it, zeroed. All is private. */
struct volume_writers {
	char boot[STORE_BOOT_SIZE];
	char life[160]; /* of the store, in this boot */
	/* What the other threads want of the reactor's. */
	_Atomic unsigned int wants;
	struct reactor_msg msg;
	/* Belongs to the thread of the reactor. */
	struct reactor *reactor; /* NULL: before volume_writers_start() */
	struct reactor_timer timer;
	bool lingers;		   /* the timer runs */
	struct reactor_timer slow; /* while the change is under way */
	struct disk_journal_change change;
	bool saves; /* the change is under way */
	bool again; /* another must follow */
	bool rests; /* all that was wanted has begun; @rested waits for its end */
	struct reactor_msg *rested;
	struct reactor *rested_on;
};

/*
 * Opens the journal of @vol if that is not open yet, and sets vol->info.store.
 * @state_dir: or NULL. A volume in memory has none. Synchronizes the store if necessary.
 * Blocks. Thread: setup, before there is I/O and before
 * the backend is attached. 0, or -errno with one clause in @e.
 */
int volume_writers_open(struct volume *vol, const char *state_dir,
			struct error *e);
/* Where journals are without a state directory: one that exists until the machine boots.
 * Makes it. False: there is none. */
bool volume_writers_run_dir(char *buf, size_t len);

/* The same for boot @boot. What @run_dir (or NULL) has of the store, of a target that had no
 * state directory then, goes to @dir. */
int volume_writers_open_in(struct volume *vol, const char *dir,
			   const char *run_dir, const char *boot,
			   struct error *e);

/* From now on the journal follows, written by the thread of @r. Thread: setup, before there
 * is I/O. */
void volume_writers_start(struct volume *vol, struct reactor *r);
/* When there are no more commands: sends @rested to @r when the journal is not being
 * written any more. Thread: any. */
void volume_writers_rest(struct volume *vol, struct reactor *r,
			 struct reactor_msg *rested);

/* Writes what must outlive the process. Blocks. Thread: setup, or after the rest. */
void volume_writers_save(struct volume *vol);

#endif
