/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of a disk survives a restart: one file, with parts that belong to others.
 *
 * The file has two slots of DISK_JOURNAL_SLOT bytes. A slot holds all parts:
 *
 *	rdma-target journal 3 NUMBER LENGTH LENGTH DIGEST
 *	(the text of each part)
 *
 * A change is written to the slot that
 * is older, and made stable, before anybody is told about it. Until then the other slot
 * holds what was stable before. So after a crash, kill -9 or a loss of power the file has
 * what the last change left that was answered, or what the one under way wanted.
 *
 * Nothing is appended, renamed or allocated for a change: the file has its full length
 * and all its blocks from the beginning. It is created under another name and renamed.
 * It goes when no part has anything to say at the end.
 *
 * If a write or its synchronization fails, the slot may have the change or not. The
 * journal then writes there what was stable before, with a higher number. If that fails,
 * too, it is unsure until a later change succeeds: no initiator may go on with a state
 * that a restart would not find.
 *
 * One process at a time has the file: it locks PATH.lock, unless a lock of its own keeps
 * others away.
 *
 * Lock order: the locks of format() come after that of the journal.
 */
#ifndef TARGET_DISK_JOURNAL_H
#define TARGET_DISK_JOURNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/reactor.h"

#define DISK_JOURNAL_SLOT     65536u /* bytes */
#define DISK_JOURNAL_PARTS    2
#define DISK_JOURNAL_PART_MAX 32000u /* bytes, the text of a part */

struct disk_journal_change {
	/* set by the caller */
	unsigned int part;
	struct reactor *reactor; /* of the caller; where done() is called */
	/* Writes the new text of the part, and returns its length; 0: nothing. Called once, when
	 * the change is about to be written, on any thread, with the lock of the journal. */
	size_t (*format)(struct disk_journal_change *c, char *buf, size_t cap);
	/* 0: the change is stable. -errno: it is not, and the file has what it had
	 * before, unless disk_journal_is_unsure(). */
	void (*done)(struct disk_journal_change *c, int err);

	/* private */
	struct list node;
	struct reactor_msg msg;
	int err;
};

enum disk_journal_step {
	DISK_JOURNAL_RESTS,
	DISK_JOURNAL_CALLS, /* the thread that writes */
	DISK_JOURNAL_WRITES,
	DISK_JOURNAL_SYNCS,
	DISK_JOURNAL_PUTS_BACK, /* after a failure: writes what was stable */
	DISK_JOURNAL_SYNCS_BACK,
};

/* Embed it, zeroed. All is private. */
struct disk_journal {
	char *path; /* NULL: it is not open */
	int fd;
	int lock_fd;
	pthread_mutex_t lock;
	/* Texts, by part; each ends with a zero. */
	char (*is)[DISK_JOURNAL_PART_MAX + 1]; /* stable */
	char (*next)[DISK_JOURNAL_PART_MAX + 1];
	uint8_t *bytes;	     /* of a slot */
	uint64_t number;     /* the highest that was used */
	unsigned int newest; /* the slot with what is stable */
	_Atomic bool unsure;

	struct list waiting;  /* for the next write */
	struct list changing; /* what is being written now */
	enum disk_journal_step step;
	struct reactor *reactor; /* of the thread that writes */
	struct reactor_msg call;
	struct reactor_op op;
	size_t at;
	size_t len;
	int err;
};

/*
 * Reads the journal @path, and changes nothing there. A state file of a version that had no
 * journals is its part 0. @is_alone: the caller keeps others away. Return: 0; -EBUSY:
 * another process has it, or this one; -EBADMSG: it is damaged, or of a newer version;
 * another -errno. @e has one clause. Blocks, as the next three. Thread: setup.
 */
int disk_journal_open(struct disk_journal *j, const char *path, bool is_alone,
		      struct error *e);
/* The caller can read the texts: makes the file, if there is none or an older version's.
 * Changes follow. 0, or -errno with one clause in @e. */
int disk_journal_make(struct disk_journal *j, struct error *e);
/* Nothing is under way. Also valid if it is not open. */
void disk_journal_close(struct disk_journal *j);
/* For setup and the end, when no change is under way (else -EBUSY): makes @text stable as
 * @part, which has nothing to say if that is "". 0 or -errno. */
int disk_journal_write(struct disk_journal *j, unsigned int part,
		       const char *text);

static inline bool disk_journal_is_open(const struct disk_journal *j)
{
	return j->path;
}

static inline bool disk_journal_is_made(const struct disk_journal *j)
{
	return j->fd >= 0;
}

/* What is stable; "": nothing. Thread: setup. */
static inline const char *disk_journal_text(const struct disk_journal *j,
					    unsigned int part)
{
	return j->is[part];
}

/*
 * The thread of @r writes from now on. Otherwise it is the thread of the first change.
 * A thread that asks stores may hang in one: nobody else should wait for it. Thread: setup.
 */
void disk_journal_serve(struct disk_journal *j, struct reactor *r);

/* Changes the journal. Calls c->done() later, never from within. @c stays until then.
 * Changes that come while one is being written go together. Thread: c->reactor's. */
void disk_journal_start(struct disk_journal *j, struct disk_journal_change *c);

/* Thread: any. */
static inline bool disk_journal_is_unsure(const struct disk_journal *j)
{
	return atomic_load(&j->unsure);
}

#endif
