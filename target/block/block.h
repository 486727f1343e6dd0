/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The block layer, between the disk (target/scsi) and a backend. A caller says
 * what to do with the blocks of a volume (struct block_cmd), and never asks
 * which store has them. The layer
 *
 * - splits long commands, and stops between two pieces when the caller wants
 *   it,
 * - zeroes, compares and reports extents if the store cannot,
 * - copies to and from the memory of a store that exposes it,
 * - makes writes stable that must be: by FUA if the store has it, else by a
 *   flush,
 * - submits nothing that changes blocks while another I/O of the volume has one of
 *   them in the store (block_owner.h): the only door to the store,
 * - knows who has unflushed writes (writers.h): it numbers each flush when it
 *   begins. Before a command ends, it notes the result of the flush, the
 *   failure of a synchronous write, and which port has written to a cache; if the
 *   journal does not know that yet, the command waits for it.
 *
 * It knows no SCSI: no CDB, nexus or sense data. The caller has checked the
 * ranges of commands. The layer allocates nothing.
 *
 * Thread: the worker of the command, unless a function says otherwise.
 */
#ifndef TARGET_BLOCK_BLOCK_H
#define TARGET_BLOCK_BLOCK_H

#include <assert.h>

#include "target/block/backend.h"
#include "target/block/block_owner.h"
#include "target/block/writers.h"

/*
 * Pieces of long commands, in bytes. BLOCK_PIECE: to compare, or to write a
 * pattern. BLOCK_ZERO_PIECE: to write zeroes. BLOCK_UNMAP_PIECE: zeroes that
 * may be deallocated, which cost a store no more than an UNMAP. Pieces of the
 * last two kinds end at multiples of their length. Otherwise a piece could end
 * within an allocation unit of the store, which would then be zeroed and kept.
 */
#define BLOCK_PIECE	  (256u << 10)
#define BLOCK_ZERO_PIECE  (1u << 20)
#define BLOCK_UNMAP_PIECE (4u << 20)

/* The blocks of one volume. Embed it; target/scsi/volume.c sets the members. */
struct block_device {
	struct backend *backend;
	bool write_cache; /* completed writes may be in a cache. Constant */
	/* Writes are made stable before they are answered: while WCE is off,
	 * and already while it is being switched off. Any thread. */
	_Atomic bool write_through;
	struct block_owners owners; /* which I/O has which blocks in the store */
	struct writers writers;	    /* who has unflushed writes */
	/* Of the flush that ended last: 0 or negative errno. A flush that was
	 * fenced off (-ESHUTDOWN) does not count. Any thread. */
	_Atomic int flush_err;
	/* Called when flush_err has changed, on any worker. NULL: it is not. */
	void (*flush_changed)(struct block_device *dev);
	/* I/Os that have failed, by enum rbp_op. Any thread. */
	_Atomic uint64_t errors[RBP_EXTENT + 1];
};

/* What to do with a range. */
enum block_kind {
	BLOCK_CMD_READ,	       /* into buf */
	BLOCK_CMD_WRITE,       /* from buf */
	BLOCK_CMD_WRITE_ALONE, /* the same; nobody uses the blocks meanwhile */
	BLOCK_CMD_OR,	   /* buf becomes buf OR blocks, and is written alone */
	BLOCK_CMD_FILL,	   /* repeats the unit_len bytes of buf */
	BLOCK_CMD_UNMAP,   /* a hint; then the ranges of more(), too */
	BLOCK_CMD_COMPARE, /* with wanted; if that is NULL, only reads the
				  * blocks */
	BLOCK_CMD_COMPARE_WRITE, /* the same; if equal, writes buf. Alone */
	BLOCK_CMD_WRITE_COMPARE, /* writes buf; when it is stable, compares. Alone */
	BLOCK_CMD_FLUSH,	 /* the whole cache; there is no range */
	BLOCK_CMD_SERVE,	 /* this target serves the data from now on */
	BLOCK_CMD_CEASE,  /* it no longer does; both: see block_paths() */
	BLOCK_CMD_EXTENT, /* whether the range is mapped, and how far */
	BLOCK_CMD_USAGE, /* how much the store uses: block_used() knows it then */
};

/* Where a command is; private. */
enum block_cmd_state {
	BLOCK_CMD_ASKING,   /* the submission has not returned */
	BLOCK_CMD_WAITING,  /* it has; the answer goes on with the command */
	BLOCK_CMD_ANSWERED, /* the answer came before it returned */
	BLOCK_CMD_KEEPING,  /* it has ended, and waits for the journal */
};

/* Embed it. The owner keeps it, and all that it points at, until it has ended. */
struct block_cmd {
	/* set by the caller */
	struct block_device *dev;
	struct block_worker *worker;
	enum block_kind kind;
	/* Commands that change blocks: the change is stable when the command
	 * ends. READ: the cache is flushed first, so the data comes from the
	 * medium. Only for devices with a cache. */
	bool fua;
	bool may_unmap;	 /* FILL with zeroes: may deallocate them instead */
	bool overwrite;	 /* FILL: writes, even if the store could zero */
	bool mapped;	 /* FILL: only blocks that are mapped */
	int buf_index;	 /* io_uring fixed buffer of buf and room, or -1 */
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
	uint8_t *buf;	 /* FILL: NULL for zeroes */
	const uint8_t *wanted;
	uint32_t unit_len; /* of FILL's buf and of wanted, bytes; 0: len */
	uint32_t room_len; /* bytes; at least what block_room() returns */
	uint8_t *room;	   /* the buffer of FILL may be at its beginning */
	/* FILL with zeroes: the longest piece, bytes; 0: as above. */
	uint64_t piece_len;
	const bool *stop; /* true: the layer submits nothing more to the store */
	/* Whether the command may not use the medium any more. It is asked when the
	 * command has the blocks of its next I/O: whoever changes the answer drains the
	 * blocks then (block_owners_drain()). NULL: it may. */
	bool (*barred)(struct block_cmd *cmd);
	/* Commands that change blocks: the writer to note. NULL: none. */
	writer_ref *writer;
	const uint8_t *port; /* WRITER_PORT_LEN bytes */
	/* UNMAP: sets offset and len of the next range. False: there is none.
	 * NULL: there is only one range. */
	bool (*more)(struct block_cmd *cmd);
	/* Called when a piece is done; block_resume() goes on. May be NULL. */
	void (*pause)(struct block_cmd *cmd);
	void (*done)(struct block_cmd *cmd);

	/* results */
	int res; /* 0 or negative errno; that of bio */
	bool was_stopped;
	bool was_barred;
	bool differs;	    /* the data differs, first at offset + at */
	bool extent_mapped; /* EXTENT: whether the first extent_len bytes are
			     * mapped */
	uint64_t extent_len;
	uint64_t at; /* bytes of the current phase that are done */
	/* When it first got blocks that it had waited for (base/ticks.h). The caller
	 * sets it to 0 before it uses the command. */
	uint64_t waited_ticks;

	/* private to the layer */
	const uint8_t *phase;
	enum block_cmd_state state;
	int answer;
	bool unstable; /* may have changed blocks that are in a cache */
	bool let_in;   /* with the blocks that it has */
	bool loses;    /* an I/O of it tells that writes may be lost */
	uint64_t flush_nr;
	/* The current I/O of the store. If several targets serve the data, its epoch
	 * is the caller's to set: backend_epoch() when the command came. If another
	 * target may have served since then, the store ends each I/O with -ESHUTDOWN.
	 * 0: the time does not matter. */
	struct block_io bio;
	/* The blocks of that I/O; of the whole command if it wants them alone, or if
	 * its data moves in place. NONE before block_start(), or by block_own(). */
	struct block_owner owner;
	struct writers_wait wait;
};

/*
 * Begins @cmd. True: it has ended, and done() is not called. False: done() will
 * be called once. A command of no bytes ends at once.
 */
bool block_start(struct block_cmd *cmd);

/* After pause(). May call done() from within. */
void block_resume(struct block_cmd *cmd);

/*
 * A stopped command (stop) waits no longer for blocks that others have in the
 * store, or for the journal. May call done() from within. Does nothing to a command that the store
 * has, or that has not begun.
 */
void block_stop_waiting(struct block_cmd *cmd);

/* Nobody waits for @cmd any more, but the store may have an I/O of it: until its
 * answer nobody reads or changes the blocks. True: it has one that changes
 * blocks. */
static inline bool block_give_up(struct block_cmd *cmd)
{
	return block_owner_give_up(&cmd->owner);
}

/*
 * For data that RDMA moves in place, before the fabric touches it: gives @cmd,
 * which has not begun, the blocks of the range as if the store had them, until
 * block_disown(). True: it has them; false: @has is called later, or by
 * block_stop_waiting().
 */
static inline bool block_own(struct block_cmd *cmd, struct block_device *dev,
			     struct block_worker *w, uint64_t offset,
			     uint64_t len, enum block_use use,
			     void (*has)(struct block_owner *owner))
{
	struct block_owner *owner = &cmd->owner;

	assert(len <= BLOCK_STRIPE_LEN);
	if (!len)
		return true;
	owner->begin = offset;
	owner->end = offset + len;
	owner->use = use;
	owner->has = has;
	return block_owner_take(&dev->owners, w, owner);
}

static inline void block_disown(struct block_cmd *cmd)
{
	block_owner_drop(&cmd->owner);
}

/* Bytes of room for @len bytes: OR, FILL with a pattern and the comparing
 * commands read the medium or repeat the pattern there. Other commands need
 * none. */
static inline uint32_t block_room(uint64_t len)
{
	return len < BLOCK_PIECE ? (uint32_t)len : BLOCK_PIECE;
}

/* True if a write that ends now must be stable. Thread: any. */
static inline bool block_writes_through(const struct block_device *dev)
{
	return dev->write_cache && dev->write_through;
}

/* ---- properties of a device; thread: any ---- */

/* Which blocks the store caches. */
enum block_caching {
	BLOCK_CACHES_NOTHING,
	BLOCK_CACHES_READS, /* blocks that were read are faster to read again */
	BLOCK_CACHES_ALL,   /* all are, whether read or not */
};

enum block_caching block_caching(const struct block_device *dev);

/* True if the store may keep the contents of blocks that it has deallocated. */
bool block_leaves_traces(const struct block_device *dev);

/* Bytes that the store used at the last BLOCK_CMD_USAGE; if it cannot tell, all. */
static inline uint64_t block_used(const struct block_device *dev)
{
	return backend_used(dev->backend);
}

/* Which target serves the data. */
static inline void block_paths(const struct block_device *dev,
			       struct backend_paths *ret)
{
	backend_paths(dev->backend, ret);
}

/* How many bytes one command may unmap, such that it ends in time. */
uint64_t block_unmap_max(const struct block_device *dev);

/*
 * For RDMA that reads or writes blocks in place: the address of the blocks from
 * @offset on. NULL: the store is not memory. The caller has the blocks
 * (block_own()) while data moves there. It then gives the layer a command with
 * this address as its buf, and the layer copies nothing.
 */
static inline uint8_t *block_in_place(const struct block_device *dev,
				      uint64_t offset)
{
	uint8_t *memory = dev->backend->info.memory;

	return memory ? memory + offset : NULL;
}

/* For RDMA in place, too: a device has pinned the pages of the memory. From now
 * on the store does not return them to the kernel. Thread: setup, before there
 * is I/O. */
static inline void block_pin_memory(struct block_device *dev)
{
	dev->backend->info.memory_pinned = true;
}

#endif
