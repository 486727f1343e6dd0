/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend stores blocks: a store, or a layer on another backend. It knows bytes and
 * offsets, never CDBs, nexuses or transports. All of them, those of this tree and
 * those that are loaded, stand on the public header, plugins/rdma_block_plugin.h,
 * which says what each function means; block_io.h says what happens to an I/O.
 * This file opens them, checks what they say of themselves, and answers for all of
 * a volume's backends what the uppermost leaves to those below.
 *
 * The volume above (volume.h) has checked every I/O: offset and len are multiples of
 * the block size and lie inside the backend. What a backend does not declare is
 * never asked of it.
 *
 * Durability: an acknowledged RBP_FLUSH means that all writes completed before it was
 * submitted are stable. A flush that failed once keeps failing until the backend is
 * opened anew: the kernel reports a lost write only once, and pages of a failed
 * write-back may be dropped.
 */
#ifndef TARGET_BLOCK_BACKEND_H
#define TARGET_BLOCK_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "plugins/rdma_block_plugin.h"
#include "target/block/block_io.h"
#include "target/block/store_id.h"

struct fault_options;
struct plugin_spec;
struct plugin_threads;

/*
 * What the kernel's errors of write-back belong to: an inode or a disk of this
 * boot, not a path. All zero: nothing that outlives the process.
 */
struct backend_life {
	uint64_t dev;	/* st_dev of a regular file */
	uint64_t ino;	/* st_ino, the same */
	int64_t born_s; /* when the file was made; 0: not known */
	uint32_t born_ns;
	uint32_t zero;
	uint64_t rdev; /* st_rdev of a block device */
	uint64_t seq;  /* its disk sequence number; 0: not known */
};

static inline bool backend_life_is_known(const struct backend_life *life)
{
	return life->ino || life->rdev;
}

/* What a backend can do, in the words of those above it. */
struct backend_info {
	const char *kind; /* "file", "block device", "ram", ... */
	struct store_id id;
	/* Bytes, a multiple of the block size. volume_measure() lets it grow
	 * while there is I/O. */
	_Atomic uint64_t size;
	uint32_t min_block;	    /* smallest unit of I/O it takes, bytes */
	uint32_t optimal_block;	    /* file-system or physical block, bytes */
	uint64_t unmap_granularity; /* bytes; 0: unmap not possible */
	bool unmap_zeroes;	    /* unmapped blocks read as zeroes */
	bool read_only;
	bool volatile_cache; /* done writes may be lost without a flush */
	bool forgets;	     /* ... also when only this process ends */
	/* A layer may flush before it writes: a write that fails may have met
	 * an error of other writes. */
	bool may_flush_to_write;
	bool fua; /* honours RBP_FUA by itself */
	/* A write of at most so many bytes is done whole or not at all,
	 * whenever the process or the machine dies; 0: no such promise. Of
	 * memory: it dies with the process. */
	uint32_t atomic_len;
	bool read_cache; /* what was read is faster to read again */
	bool zero;	 /* RBP_ZERO */
	bool extents;	 /* RBP_EXTENT */
	bool rotational;
	struct backend_life life;
	/* The blocks, and writes that are done, outlive this process, also when
	 * it is killed. */
	bool is_lasting;
	bool has_notes; /* backend_with_notes() */
	/* Not NULL: all blocks lie here, to be read and written in place. The
	 * block layer does, and submits no READ and WRITE then. */
	void *memory;
	bool memory_pinned; /* block_pin_memory() */
};

/* Targets that may serve the same data, 1 ... cnt; one at a time does. */
struct backend_paths {
	unsigned int cnt;    /* 0: this process alone serves it */
	unsigned int own;    /* this process. Both are constant */
	unsigned int active; /* 0: none, or not known */
};

/* What backend_options.path is. */
enum backend_location {
	BACKEND_AT_SIZE,   /* a size: the store is memory */
	BACKEND_AT_PATH,   /* the path of a file or device of this machine */
	BACKEND_AT_PLUGIN, /* whatever the plugin takes it for */
};

/* A store or layer of this tree: what every plugin is, and what only it is. */
struct backend_type {
	struct rbp_plugin plugin;
	enum backend_location location;
	/* Makes stable what other processes have written; blocks. It takes
	 * errors of theirs that nobody has seen; those that queue_add() opens see
	 * none of them. Thread: setup, before the first queue_add(). 0 or -errno;
	 * NULL: nothing to do, or the backend below does. */
	int (*sync)(void *v);
};

struct backend_options {
	/* or what stands after "ram:", "null:", or a plugin's name; of a layer
	 * the volume's name */
	const char *path;
	const struct plugin_spec *plugin;   /* of backend_plugin: which one */
	struct backend *below;		    /* of a layer; NULL: a store */
	const struct fault_options *faults; /* of backend_fault */
	bool read_only;
	int direct;	     /* O_DIRECT: 1 on, 0 off, -1 whatever is best */
	bool write_through;  /* every write is stable before it is done */
	bool submit_all;     /* a layer above wants to see every I/O: no
				info.memory */
	uint32_t block_size; /* of the volume above, bytes */
};

/* What rbp_plugin.open() of a backend of this tree finds behind its info. */
struct block_info {
	struct rbp_info info; /* first */
	const struct backend_options *opt;
	/* Filled in by it, as struct backend_info has them. */
	const char *kind; /* NULL: rbp_plugin.name */
	struct store_id id;
	struct backend_life life;
};

static inline struct block_info *block_info_of(struct rbp_info *info)
{
	return container_of(info, struct block_info, info);
}

/* As a plugin knows it. */
struct rbp_vol {
	struct log_limit limit;
	struct log_limit error_limit; /* of RBP_ERROR */
	pthread_mutex_t lock;	      /* guards the limits */
	char name[512];
};

/* Takes notes over, as rbp_host.notes. Thread: any. */
typedef int backend_take_notes_fn(void *user, uint64_t version,
				  const void *data, size_t len);

/* One that is open. */
struct backend {
	const struct rbp_plugin *plugin;
	const struct backend_type *type; /* of this tree; NULL: it was loaded */
	void *v;			 /* the plugin's volume */
	struct backend *below; /* what a layer stands on; NULL: a store */
	/* The uppermost of it and what is below that has paths(), or NULL. */
	struct backend *with_paths;
	struct backend_info info;
	bool can_flush; /* else there is nothing to flush */
	/* The first failure of a flush stays; any thread. */
	_Atomic int flush_error;
	struct rbp_queue *queues[BLOCK_WORKERS_MAX];

	struct rbp_vol vol;
	struct block_info said;
	char *location; /* NULL: a layer */
	struct rbp_arg *args;
	bool is_open;
	struct plugin_threads *helpers; /* NULL: it has submit() */
	pthread_mutex_t set_lock;	/* held during set_params() */
	/* Who takes notes, and under the lock, until somebody does, the newest. */
	pthread_mutex_t notes_lock;
	backend_take_notes_fn *take_notes;
	void *notes_user;
	uint8_t *notes; /* NULL: the store has not told any */
	size_t notes_len;
	uint64_t notes_version;
};

/*
 * Regular files and block devices, by io_uring.
 *
 * The page cache or the store itself (O_DIRECT)? Block devices are opened
 * O_DIRECT where their sectors allow: what lies on them is cached by the
 * initiators already. Regular files go through the page cache unless direct=on
 * asks otherwise: that takes any block size on any file system, and small
 * reads and rewrites of a shared image are served from memory. In both cases
 * done writes may sit in a cache, and the volume says so, unless the device's
 * own cache is write-through or every write is made stable (write_through).
 *
 * A file has one writer: the lock (flock) lies on the very open file that the
 * I/O goes through, so it outlives the process for as long as the kernel still
 * has writes of it. Read-only users share.
 *
 * A file that has shrunk fails reads past its new end with -EIO.
 */
extern const struct backend_type backend_file;
/* Anonymous memory, gone with the process. */
extern const struct backend_type backend_ram;
/* Reads zeroes, forgets writes; up to 8 EiB less a block. */
extern const struct backend_type backend_null;
/* Whatever opt->plugin names, a store or a layer. */
extern const struct backend_type backend_plugin;

/*
 * Opens a store, or puts a layer on opt->below, which it owns then, also when this
 * fails. @opt is borrowed for the call; what it points at, too, but for faults.
 * Thread: setup. 0, or a negative errno with one clause in @e that names the store
 * and what to try.
 */
int backend_open(const struct backend_type *type,
		 const struct backend_options *opt, struct backend **ret,
		 struct error *e);

/* @be and all that it stands on, which may be NULL; every queue is gone. Thread:
 * setup. */
void backend_close(struct backend *be);

/*
 * Thread: setup, once per worker, e.g. to register files: the lowest first. Nothing
 * is left when it fails. backend_detach() is its end (the uppermost first; nothing is
 * in flight. Thread: setup or the worker).
 */
int backend_attach(struct backend *be, struct block_worker *w);
void backend_detach(struct backend *be, struct block_worker *w);

/* ---- what the uppermost has that has the function; thread: any ---- */

/* See backend_type.sync. Thread: setup. */
int backend_sync(struct backend *be);

/* Bytes now in use by the store; all, where nobody can tell. */
uint64_t backend_used(struct backend *be);

/* Bytes that the store has now, whatever info.size says. What is below @be learns here
 * of what it has grown by. 0 or -errno. */
int backend_measure(struct backend *be, uint64_t *ret_size);

/* Who serves the data. I/O ends with -ESHUTDOWN when it is another target. */
void backend_paths(struct backend *be, struct backend_paths *ret);

/* Grows whenever this process begins or ceases to serve the data; 0: it is the only
 * one. */
uint64_t backend_epoch_of(struct backend *with_paths);
static inline uint64_t backend_epoch(const struct backend *be)
{
	return be->with_paths ? backend_epoch_of(be->with_paths) : 0;
}

/* Serves the data from now on (@bio: offset is 1), or no more (0); op, len and buf are
 * 0. Thread: worker. */
void backend_set_path(struct backend *be, struct block_io *bio);

/* ---- notes that the targets of a store share (rdma_block_plugin.h) ---- */

/* The store that @be stands on, if it has notes; else NULL. Thread: any. */
struct backend *backend_with_notes(struct backend *be);

/* Calls @take with what the store has told so far, and returns its value. From then on
 * @take is called whenever the store tells more. Thread: setup. */
int backend_on_notes(struct backend *store, backend_take_notes_fn *take,
		     void *user);

/* As the functions of a plugin; op and offset of @bio are 0. Thread: worker. */
void backend_get_notes(struct backend *store, struct block_io *bio);
void backend_put_notes(struct backend *store, struct block_io *bio);
/* Thread: any. */
void backend_notes_taken(struct backend *store, uint64_t version);

/* rbp_host.notes(). */
int backend_notes_came(struct rbp_vol *vol, uint64_t version, const void *data,
		       size_t len);

/* ---- I/O ---- */

/* Does the range of @io lie in @be, and is it one that its operation takes? */
bool backend_has_range(const struct backend *be, const struct rbp_io *io);

/* Is @bio what may be asked of @be? */
bool backend_accepts(const struct backend *be, const struct block_io *bio);

/* What a layer finds in its info when it is opened on such a backend. */
void backend_describe_below(const struct backend_info *below,
			    struct rbp_info *ret);

#endif
