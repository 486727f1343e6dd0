/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must be known of a volume's unflushed writes when this process is gone.
 *
 * Linux reports a failed write-back once to each open file, and a file that is
 * opened afterwards does not hear of an error that anybody has seen (errseq_t,
 * lib/errseq.c). The next process would flush the same store successfully
 * although acknowledged writes are gone. So a record of each file or device
 * outlives the process. It says
 *
 *  - whether the store was open for writing and not flushed at the end,
 *  - whether a flush, or a synchronous write, has failed,
 *  - which initiators have writes that no flush has covered, and which of them
 *    are still to be told of a loss,
 *  - a number drawn at the last loss, which is part of the store's generation.
 *
 * At start, after an end that was not clean, the store is synchronized before
 * anything is served. When that fails, or a flush had failed before, writes are
 * lost: the generation changes, and each initiator with unflushed writes is
 * owed a failed flush. That one is HARDWARE ERROR, WRITE ERROR: of Linux's disk
 * driver a MEDIUM ERROR is tried again and a deferred error is ignored, so
 * either would be swallowed by the next flush that succeeds. The debt is paid
 * when the answer has been delivered. An initiator without unflushed writes is
 * told nothing. One that has met failed flushes before the restart is told once
 * more: nobody but itself knows which of its writes it counts as covered by
 * them.
 *
 * How writes are counted. Flushes are numbered as they begin. A writer notes,
 * before its write is answered, the number of the flush that has begun last;
 * the write is covered by a successful flush of a higher number.
 *
 * The record is a file of fixed size that is mapped. A change is a store to
 * memory, without a system call, and survives kill -9 as the page cache does.
 * The caller says where it lies. What is in it counts for the same boot and the
 * same disk sequence number. Found in another boot, or for another device or
 * sequence number, it is used if the volume's identity is the same: after an end
 * that was not clean, all writers are then owed, as the record may itself be older
 * than the last writes.
 *
 * What is not known: an error of write-back that happens after kill -9 is lost
 * when the kernel drops the inode, or the file system is unmounted, before the
 * next start. So is that of a flush which is under way at kill -9: the kernel goes
 * on with it and tells nobody but the process that is gone; to take each of these
 * for a failure would have a busy target fail flushes whenever it is killed. A
 * record in /run does not survive a boot; an initiator that does not read the
 * generation hears no more than 29h/01h then.
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef TARGET_BLOCK_FLUSH_RECORD_H
#define TARGET_BLOCK_FLUSH_RECORD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/block/backend.h"

/* Initiators with unflushed writes; those that find no room share the first. */
#define FLUSH_WRITERS 256

/* Identifies an initiator, in bytes. */
#define FLUSH_PORT_LEN 16
/* Identifies a volume, in bytes. */
#define FLUSH_VOLUME_LEN 16
/* A random number drawn when acknowledged writes were lost. Bytes. */
#define FLUSH_LOSS_LEN 16

/* In the file, as the next. All zero: not used. */
struct flush_writer {
	uint8_t initiator[FLUSH_PORT_LEN];
	_Atomic uint64_t wrote; /* the last flush begun before its last write */
	_Atomic uint32_t owed;	/* a failed flush */
	_Atomic uint32_t known; /* the entry is in use */
};

struct flush_file;

/* Embed it; all is private. */
struct flush_record {
	struct flush_file *file; /* NULL: no record */
	char *path;
	bool writable;	      /* the store is open for writing */
	bool flushed;	      /* at the end of this process */
	bool owes;	      /* at the start somebody was owed */
	pthread_mutex_t lock; /* guards the use of entries, and users */
	uint32_t users[FLUSH_WRITERS]; /* nexuses of this process */
};

/* A nexus's own for a volume, NULL at first; see flush_record_leave(). */
typedef _Atomic(struct flush_writer *) flush_writer_ref;

void flush_record_init(struct flush_record *r);
/* Removes the file when there is nothing that it has to tell. Thread: setup. */
void flush_record_fini(struct flush_record *r);

struct flush_record_options {
	const char *path;      /* of the record */
	struct backend *store; /* whose writes it is about; not yet attached */
	const uint8_t *volume; /* identity, FLUSH_VOLUME_LEN bytes */
	const char *label;     /* what the log calls the volume */
	const char *boot; /* the same until the machine boots; "": unknown */
	bool writable;	  /* the store is open for writing */
};

/*
 * Opens the record, or makes one, and decides what has been lost; synchronizes
 * the store if need be. @opt is borrowed for the call. Blocks. Thread: setup,
 * before there is I/O and before the backend is attached. 0, or -errno.
 */
int flush_record_open(struct flush_record *r,
		      const struct flush_record_options *opt);

/* What was drawn at the last loss, FLUSH_LOSS_LEN bytes; NULL: no record. */
const uint8_t *flush_record_loss(const struct flush_record *r);

/* A flush is submitted; returns its number. */
uint64_t flush_record_begin(struct flush_record *r);
/* What has come of it; @res: 0 or negative errno. */
void flush_record_end(struct flush_record *r, uint64_t nr, int res);
/* A synchronous write has failed, or one for which a layer may have flushed: the
 * error that it saw may be that of other writes. Or a flush was not done. The next
 * flush tells. */
void flush_record_doubt(struct flush_record *r);

/* @port (FLUSH_PORT_LEN bytes) has written to a cache; called before the write is answered. */
void flush_record_wrote(struct flush_record *r, flush_writer_ref *ref,
			const uint8_t *port);

/* Is @port to be told of a loss? */
bool flush_record_owes(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port);
/* It has been. */
void flush_record_told(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port);

/* The nexus of @ref ends. */
void flush_record_leave(struct flush_record *r, flush_writer_ref *ref);

/* All has been flushed, and nothing will be written any more. */
void flush_record_flushed(struct flush_record *r);

#endif
