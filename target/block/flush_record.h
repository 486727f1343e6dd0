/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must be known about the unflushed writes of a volume after this process
 * has ended.
 *
 * Linux reports a failed write-back once to each open file. A file that is
 * opened later does not see an error that another one has seen (errseq_t,
 * lib/errseq.c). Without a record, the next process would flush the same store
 * successfully although acknowledged writes are lost. For this reason each file
 * or device has a record that outlives the process. It says
 *
 * - whether the store was open for writing and not flushed at the end,
 * - whether a flush or a synchronous write has failed,
 * - which initiators have writes that no flush has covered, and which of them
 *   must still be told about a loss,
 * - a number drawn at the last loss, which is part of the store's generation.
 *
 * After an unclean end, the target synchronizes the store at its start, before
 * it serves anything. If that fails, or if a flush had failed before, writes
 * are lost: the generation changes, and each initiator with unflushed writes is
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
 * The record is a mapped file of fixed size. A change is a store to memory,
 * without a system call, and survives kill -9 as the page cache does. The
 * caller says where the file is. Its contents are valid for the same boot and
 * the same disk sequence number. In another boot, or for another device or
 * sequence number, they are used if the identity of the volume is the same.
 * After an unclean end, all writers are then owed a failed flush, because the
 * record may be older than the last writes.
 *
 * A store of a plugin has no inode or device on this machine. It has a record if
 * its volume keeps state, which needs a trusted identity. At the start there is
 * nothing to synchronize: what failed before is in the record.
 *
 * What the record cannot know: an error of write-back after kill -9 is lost if
 * the kernel drops the inode, or the file system is unmounted, before the next
 * start. The error of a flush that was running at kill -9 is lost, too: the
 * kernel completes the flush, and reports it only to the process that no longer
 * exists. If the target took each such flush for a failure, a busy target would
 * fail flushes whenever it is killed. A record in /run does not survive a boot.
 * An initiator that does not read the generation then gets only the unit
 * attention 29h/01h.
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

#include "base/log.h"
#include "target/block/backend.h"

/* Initiators with unflushed writes. If there are more, the rest shares the
 * first entry. */
#define FLUSH_WRITERS 256

/* Identifies an initiator, in bytes. */
#define FLUSH_PORT_LEN 16
/* Identifies a volume, in bytes. */
#define FLUSH_VOLUME_LEN 16
/* A random number drawn when acknowledged writes were lost. Bytes. */
#define FLUSH_LOSS_LEN 16

/* An entry of the file, as the next struct. All zero: not used. */
struct flush_writer {
	uint8_t initiator[FLUSH_PORT_LEN];
	_Atomic uint64_t wrote; /* the last flush begun before its last write */
	_Atomic uint32_t owed;	/* whether a failed flush is owed */
	_Atomic uint32_t known; /* the entry is in use */
};

struct flush_file;

/* Embed it; all is private. */
struct flush_record {
	struct flush_file *file; /* NULL: no record */
	char *path;
	bool writable;	      /* the store is open for writing */
	bool flushed;	      /* at the end of this process */
	bool owes;	      /* at the start, at least one writer was owed a
			       * failure */
	pthread_mutex_t lock; /* guards the use of entries, and users */
	uint32_t users[FLUSH_WRITERS]; /* nexuses of this process */
};

/* A nexus has one for each volume, NULL at first; see flush_record_leave(). */
typedef _Atomic(struct flush_writer *) flush_writer_ref;

void flush_record_init(struct flush_record *r);
/* Removes the file if it has nothing to report. Thread: setup. */
void flush_record_fini(struct flush_record *r);

struct flush_record_options {
	const char *path;	/* of the record */
	struct backend *store;	/* whose writes it is about; not yet attached */
	const uint8_t *volume;	/* identity, FLUSH_VOLUME_LEN bytes */
	const char *label;	/* what the log calls the volume */
	struct log_about about; /* the volume, for who reads the log */
	const char *boot; /* the same until the machine boots; "": unknown */
	bool writable;	  /* the store is open for writing */
};

/*
 * Opens or creates the record, and decides what is lost. Synchronizes the store
 * if necessary. @opt is borrowed for the call. Blocks. Thread: setup, before
 * there is I/O and before the backend is attached. 0, or -errno.
 */
int flush_record_open(struct flush_record *r,
		      const struct flush_record_options *opt);

/* The number drawn at the last loss, FLUSH_LOSS_LEN bytes. NULL: there is no
 * record. */
const uint8_t *flush_record_loss(const struct flush_record *r);

/* A flush is submitted; returns its number. */
uint64_t flush_record_begin(struct flush_record *r);
/* The result of the flush; @res: 0 or negative errno. */
void flush_record_end(struct flush_record *r, uint64_t nr, int res);
/* The next flush decides whether writes are lost: a flush was not executed, or
 * a synchronous write has failed, or a write for which a layer may have
 * flushed. The error of the write may belong to other writes. */
void flush_record_doubt(struct flush_record *r);

/* @port (FLUSH_PORT_LEN bytes) has written to a cache; called before the write is answered. */
void flush_record_wrote(struct flush_record *r, flush_writer_ref *ref,
			const uint8_t *port);

/* True if @port must be told about a loss. */
bool flush_record_owes(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port);
/* @port has been told. */
void flush_record_told(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port);

/* The nexus of @ref ends. */
void flush_record_leave(struct flush_record *r, flush_writer_ref *ref);

/* Everything has been flushed, and no write follows. */
void flush_record_flushed(struct flush_record *r);

#endif
