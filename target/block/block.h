/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The block layer: what stands between the disk (target/scsi) and a backend. A
 * caller states what is to be done with the blocks of a volume (struct block_cmd)
 * and never asks which store keeps them. The layer
 *
 *  - splits long commands, and stops between two pieces when it is told to;
 *  - zeroes, compares and tells extents where the store cannot;
 *  - copies to and from the memory of a store that exposes it;
 *  - makes writes stable that must be: by FUA if the store has it, else by a flush;
 *  - keeps the record of flushes (flush_record.h): it numbers each flush when it
 *    begins, and notes its result, the failure of a synchronous write, and who has
 *    written to a cache, before the command ends.
 *
 * It knows no SCSI: no CDB, nexus or sense data. The ranges of commands have been
 * checked before. Nothing is allocated.
 *
 * Thread: the worker of the command, if nothing else is said.
 */
#ifndef TARGET_BLOCK_BLOCK_H
#define TARGET_BLOCK_BLOCK_H

#include "target/block/backend.h"
#include "target/block/block_lock.h"
#include "target/block/flush_record.h"

/*
 * Pieces of long commands, in bytes: what is compared or written as a pattern; what
 * is made zero; and what may be deallocated, which costs a store no more than an
 * UNMAP. Pieces of the last two end at multiples of their length, so that none
 * cuts an allocation unit of the store in two, which would then be zeroed and kept.
 */
#define BLOCK_PIECE	  (256u << 10)
#define BLOCK_ZERO_PIECE  (1u << 20)
#define BLOCK_UNMAP_PIECE (4u << 20)

/* The blocks of one volume. Embed it; target/scsi/volume.c fills it in. */
struct block_device {
	struct backend *backend;
	bool write_cache; /* done writes may sit in a cache. Constant */
	/* Writes are made stable before they are answered: while WCE is said
	 * to be off, and before that while it is going off. Any thread. */
	_Atomic bool write_through;
	struct block_locks locks;   /* who may touch which blocks */
	struct flush_record record; /* unflushed writes; none: no file */
};

/* What is to be done with a range. */
enum block_kind {
	BLOCK_CMD_READ,		 /* into buf */
	BLOCK_CMD_WRITE,	 /* from buf */
	BLOCK_CMD_OR,		 /* buf becomes buf | blocks, and is written */
	BLOCK_CMD_FILL,		 /* each unit_len bytes become those at buf */
	BLOCK_CMD_UNMAP,	 /* a hint; then the ranges that more() tells */
	BLOCK_CMD_COMPARE,	 /* with wanted; NULL: reads them, no more */
	BLOCK_CMD_COMPARE_WRITE, /* the same; if equal, writes buf */
	BLOCK_CMD_WRITE_COMPARE, /* writes buf; when it is stable, compares */
	BLOCK_CMD_FLUSH,	 /* everything; there is no range */
	BLOCK_CMD_SERVE,	 /* this target serves the data from now on */
	BLOCK_CMD_CEASE,  /* it no longer does; both: see block_paths() */
	BLOCK_CMD_EXTENT, /* mapped or not, and how far? */
};

/* Where a command is; private. */
enum block_cmd_state {
	BLOCK_CMD_ASKING,   /* the submission has not returned */
	BLOCK_CMD_WAITING,  /* it has; the answer goes on with the command */
	BLOCK_CMD_ANSWERED, /* the answer came before it returned */
};

/* Embed it; its owner keeps it, and what it points at, until it has ended. */
struct block_cmd {
	/* set by the caller */
	struct block_device *dev;
	struct block_worker *worker;
	enum block_kind kind;
	/* Changes: stable when the command ends. READ: from the medium, so what
	 * is in the cache gets there first. Of devices with a cache. */
	bool fua;
	bool may_unmap;	 /* FILL with zeroes: may deallocate them instead */
	bool overwrite;	 /* FILL: writes, also where the store could zero */
	bool mapped;	 /* FILL: only what is mapped */
	int buf_index;	 /* io_uring fixed buffer of buf and room, or -1 */
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
	uint8_t *buf;	 /* FILL: NULL for zeroes */
	const uint8_t *wanted;
	uint32_t unit_len; /* of FILL's buf and of wanted, bytes; 0: len */
	uint32_t room_len; /* bytes; what block_room() has said, or more */
	uint8_t *room;	   /* FILL's buf may be its begin */
	/* FILL with zeroes: the longest piece, bytes; 0: as above. */
	uint64_t piece_len;
	const bool *stop; /* true: the store is asked for nothing more */
	/* Of what changes: who is noted as its writer; NULL: nobody. */
	flush_writer_ref *writer;
	const uint8_t *port; /* FLUSH_PORT_LEN bytes */
	/* UNMAP: sets offset and len of the next range; false: there is none. NULL:
	 * the same. */
	bool (*more)(struct block_cmd *cmd);
	/* Called when a piece is done; block_resume() goes on. May be NULL. */
	void (*pause)(struct block_cmd *cmd);
	void (*done)(struct block_cmd *cmd);

	/* results */
	int res; /* 0 or negative errno; of what bio says */
	bool was_stopped;
	bool differs;	    /* compared and not equal, first at offset + at */
	bool extent_mapped; /* EXTENT: the first extent_len bytes are, or not */
	uint64_t extent_len;
	uint64_t at; /* bytes of the present phase that are done */

	/* the layer's */
	const uint8_t *phase;
	enum block_cmd_state state;
	int answer;
	bool unstable; /* has changed what may sit in a cache */
	uint64_t flush_nr;
	struct block_io bio; /* what the store is asked for */
};

/*
 * Begins @cmd. True: it has ended, and done() is not called; false: done() will be,
 * once. A command of no bytes ends at once.
 */
bool block_start(struct block_cmd *cmd);

/* After pause(). May call done() from within. */
void block_resume(struct block_cmd *cmd);

/* Bytes of room that OR, FILL (not with zeroes) and what compares need for @len
 * bytes: to read the medium, or to repeat a pattern. */
static inline uint32_t block_room(uint64_t len)
{
	return len < BLOCK_PIECE ? (uint32_t)len : BLOCK_PIECE;
}

/* Must a write that ends now be stable? Thread: any. */
static inline bool block_writes_through(const struct block_device *dev)
{
	return dev->write_cache && dev->write_through;
}

/* ---- what a device is like; thread: any ---- */

/* What becomes of blocks that were read. */
enum block_caching {
	BLOCK_CACHES_NOTHING,
	BLOCK_CACHES_READS, /* they are faster to read again */
	BLOCK_CACHES_ALL,   /* all are, whether read or not */
};

enum block_caching block_caching(const struct block_device *dev);

/* Do blocks that were given back keep their contents somewhere below? */
bool block_leaves_traces(const struct block_device *dev);

/* Bytes that the store has in use; all, where it cannot tell. */
static inline uint64_t block_used(const struct block_device *dev)
{
	return backend_used(dev->backend);
}

/* Who serves the data. */
static inline void block_paths(const struct block_device *dev,
			       struct backend_paths *ret)
{
	backend_paths(dev->backend, ret);
}

/* How much one command may unmap, so that it ends in time. Bytes. */
uint64_t block_unmap_max(const struct block_device *dev);

/*
 * For RDMA that reads or writes blocks in place: where those from @offset on lie;
 * NULL: in no memory. Whoever moves data there holds its blocks (block_lock.h), and
 * then gives the layer a command with this address as its buf: what is there
 * already is not copied.
 */
static inline uint8_t *block_in_place(const struct block_device *dev,
				      uint64_t offset)
{
	uint8_t *memory = dev->backend->info.memory;

	return memory ? memory + offset : NULL;
}

/* For RDMA in place, too: a device has pinned the pages of the memory. They are not
 * given back to the kernel from now on. Thread: setup, before there is I/O. */
static inline void block_pin_memory(struct block_device *dev)
{
	dev->backend->info.memory_pinned = true;
}

#endif
