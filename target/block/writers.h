/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has unflushed writes on a volume, and who must still be told that some are lost.
 *
 * Linux reports a failed write-back once to each open file. A file that is
 * opened later does not see an error that another one has seen (errseq_t,
 * lib/errseq.c). So the next process would flush the same store successfully although
 * acknowledged writes are lost. For this reason this table outlives the process, as a
 * part of the volume's journal (target/disk/journal.h). It says
 *
 * - which initiators have writes that no flush has covered, and which of them
 *   must still be told about a loss,
 * - whether a flush or a synchronous write has failed,
 * - a number drawn at the last loss, which is part of the store's generation.
 *
 * The rule: before a write to a cache is answered, the journal names its writer; before a
 * failed flush is answered, the journal says that it failed. The first write of an
 * initiator therefore waits for the journal, and those that follow do not. A writer whose
 * writes are all covered stays named for WRITERS_LINGER_MS: one that writes and flushes in
 * turn must not wait each time.
 *
 * If the journal names anybody at the start, the target was not ended in order. It then
 * synchronizes the store before it serves anything. If that fails, or if a flush
 * had failed before, or if the machine has booted since, writes
 * are lost: the generation changes, and each initiator that is named is
 * owed a failed flush. The flush fails with HARDWARE ERROR, WRITE ERROR.
 * Linux's disk driver retries a MEDIUM ERROR and ignores a deferred error, so
 * the next successful flush would hide either. The target owes nothing more
 * when the answer has been delivered. An initiator without unflushed writes is
 * told nothing. An initiator that saw failed flushes before the restart is told
 * once more: only the initiator knows which of its writes it counts as covered
 * by them.
 *
 * How writes are counted: flushes are numbered when they begin. Before a write
 * is answered, the number of the flush that began last is noted for its writer.
 * A successful flush with a higher number covers the write.
 *
 * What this cannot know: an error of write-back after kill -9 is lost if
 * the kernel drops the inode, or the file system is unmounted, before the next
 * start. The error of a flush that was running at kill -9 is lost, too: the
 * kernel completes the flush, and reports it only to the process that no longer
 * exists. If the target took each such flush for a failure, a busy target would
 * fail flushes whenever it is killed.
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef TARGET_BLOCK_WRITERS_H
#define TARGET_BLOCK_WRITERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/reactor.h"

/* Initiators with unflushed writes. If there are more, the rest shares the
 * first entry. */
#define WRITERS_MAX 256
/* Identifies an initiator, in bytes: its port, and behind it its principal. All zero at the
 * end: whoever has the port. */
#define WRITER_PORT_LEN	    24
#define WRITER_PRINCIPAL_AT 16
/* A random number drawn when acknowledged writes were lost. Bytes. */
#define WRITERS_LOSS_LEN  16
#define WRITERS_LINGER_MS 5000
/* Room for the text of writers_format(), in bytes. */
#define WRITERS_TEXT_MAX 20480

struct writer {
	uint8_t port[WRITER_PORT_LEN];
	_Atomic uint64_t wrote; /* the last flush begun before its last write */
	_Atomic bool owed;	/* a failed flush is owed */
	_Atomic bool kept; /* as one with unflushed writes, in the journal */
	/* under the lock */
	bool known;	    /* the entry is in use */
	bool being_kept;    /* so in the change that is under way */
	unsigned int users; /* nexuses */
};

/* A nexus has one for each volume, NULL at first; see writers_leave(). */
typedef _Atomic(struct writer *) writer_ref;

enum writers_failure {
	WRITERS_NO_FAILURE,
	WRITERS_WRITE_FAILED, /* a synchronous one, and no flush has succeeded since */
	WRITERS_FLUSH_FAILED,
};

/* Waits until the journal has what an answer needs. Embed it; all is private. */
struct writers_wait {
	struct list node;
	struct reactor *reactor;
	struct reactor_msg msg;
	int err;
	void (*done)(struct writers_wait *wait, int err);
};

/* Embed it; all is private. */
struct writers {
	_Atomic uint64_t begun;	   /* the flush that began last; 1: none */
	_Atomic uint64_t stable;   /* the last one that has succeeded */
	_Atomic uint64_t doubt;	   /* writers_doubt(), as "wrote" */
	_Atomic bool failed;	   /* a flush has */
	_Atomic bool failure_kept; /* the journal has one */
	bool keeps_failure;	   /* the change that is under way has one */
	bool owes; /* at the start, at least one writer was owed a failure */
	uint8_t loss[WRITERS_LOSS_LEN]; /* drawn at the last loss; zero: none */

	/* NULL: nothing outlives the process, and nobody waits. Makes writers_format() and
	 * writers_kept() be called, for all that has happened until now; never from within.
	 * Not @now: after WRITERS_LINGER_MS, if writers_may_drop() then. */
	void (*keep)(struct writers *ws, bool now);

	pthread_mutex_t lock;	/* guards the use of entries, and the lists */
	struct list waiting;	/* for the next change of the journal */
	struct list being_kept; /* for the one that is under way */
	struct writer writers[WRITERS_MAX];
};

void writers_init(struct writers *ws);
void writers_fini(struct writers *ws);

/* ---- flushes and writes ---- */

/* A flush is submitted; returns its number. */
uint64_t writers_flush_begins(struct writers *ws);
/* The result of the flush; @res: 0 or negative errno. */
void writers_flush_ends(struct writers *ws, uint64_t nr, int res);
/* The next flush decides whether writes are lost: a flush was not executed, or
 * a synchronous write has failed, or a write for which a layer may have
 * flushed. The error of the write may belong to other writes. */
void writers_doubt(struct writers *ws);

/* @port (WRITER_PORT_LEN bytes) has written to a cache; called before the write is
 * answered. False: it must not be answered before writers_wait(). */
bool writers_wrote(struct writers *ws, writer_ref *ref, const uint8_t *port);
/* False: the answer to a flush or a write that has failed must wait as well. */
bool writers_failure_is_kept(const struct writers *ws);

/* Calls @done on @r when the journal has what is in the table now; never from within.
 * @err: -errno of the journal, which has not. */
void writers_wait(struct writers *ws, struct writers_wait *wait,
		  struct reactor *r,
		  void (*done)(struct writers_wait *wait, int err));
/* True: @wait still waited, and does so no longer. */
bool writers_stop_waiting(struct writers *ws, struct writers_wait *wait);

/* ---- debts ---- */

/* True if @port must be told about a loss. */
bool writers_owes(struct writers *ws, writer_ref *ref, const uint8_t *port);
/* @port has been told. */
void writers_told(struct writers *ws, writer_ref *ref, const uint8_t *port);
/* From now on, the principal of @port is @principal (to the end of @port, which this
 * changes). Its entry goes with it. */
void writers_rename(struct writers *ws, writer_ref *ref, uint8_t *port,
		    const uint8_t *principal);
/* Forgets the principals of writers that @names does not know. */
void writers_follow(struct writers *ws,
		    bool (*names)(const void *arg, const uint8_t *principal),
		    const void *arg);
/* The nexus of @ref ends. */
void writers_leave(struct writers *ws, writer_ref *ref);

/* ---- the journal ---- */

/* What a start found in the journal. */
struct writers_found {
	char boot[64];	/* "": nothing was kept */
	char life[160]; /* of the store */
	enum writers_failure failed;
	bool unclean; /* somebody had unflushed writes */
};

/*
 * Reads the text of writers_format() into @ws and @ret. Nothing in it is trusted. Empty:
 * nobody had anything. -EBADMSG: it is damaged. Thread of this and the next two: setup.
 */
int writers_parse(struct writers *ws, const char *text,
		  struct writers_found *ret);
/* Acknowledged writes are lost: those that are named are owed a failure. */
void writers_lose(struct writers *ws);
/* The text cannot be read: everybody may have lost something. */
void writers_lose_all(struct writers *ws);
/* From here on the table is about this process. Nobody has unflushed writes.
 * @forget: the table was of another store. */
void writers_begin(struct writers *ws, bool forget);

/* Writes what must outlive the process to @buf, and returns its length; 0: nothing. @boot
 * and @life: one line each, of the present store. Writers that need not be named any more
 * are left out. writers_kept() must follow. */
size_t writers_format(struct writers *ws, const char *boot, const char *life,
		      char *buf, size_t cap);
/* The journal has that text (0), or has not (-errno). */
void writers_kept(struct writers *ws, int err);

/* True if the journal has unflushed writes, or a failure, that are none any more. */
bool writers_may_drop(struct writers *ws);
/* Everything has been flushed, and no write follows: writers_format() names nobody for
 * unflushed writes. */
void writers_flushed(struct writers *ws);

#endif
