/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend stores blocks. It is a store, or a layer on another backend. It
 * knows bytes and offsets, never CDBs, nexuses or transports. All backends, in
 * this tree or loaded, implement the public header,
 * plugins/rdma_block_plugin.h. That header says what each function means;
 * block_io.h says what happens to an I/O. This file opens backends and checks
 * what they report about themselves. If the uppermost backend of a volume lacks
 * a function, this file finds the next lower one that has it.
 *
 * The volume above (volume.h) has checked every I/O: offset and len are
 * multiples of the block size and lie inside the backend. A backend gets no
 * operation that it has not declared.
 *
 * Durability: an acknowledged RBP_FLUSH means that all writes completed before
 * it was submitted are stable. A flush that failed once keeps failing until the
 * backend is opened anew: the kernel reports a lost write only once, and may
 * drop the pages of a failed write-back.
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
struct given_file;
struct plugin_spec;
struct plugin_threads;

/*
 * What an error of write-back belongs to: an inode or a disk of this boot, not
 * a path. All zero: the store does not outlive the process.
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

/* What a backend can do. */
struct backend_info {
	const char *kind; /* "file", "block device", "ram", ... */
	struct store_id id;
	/* Bytes, a multiple of the block size. volume_measure() lets it grow
	 * while there is I/O. */
	_Atomic uint64_t size;
	uint32_t min_block;	    /* smallest unit of I/O it takes, bytes */
	uint32_t volume_block;	    /* block size of the volume, bytes */
	uint32_t optimal_block;	    /* file-system or physical block, bytes */
	uint64_t unmap_granularity; /* bytes; 0: unmap not possible */
	bool unmap_zeroes;	    /* unmapped blocks read as zeroes */
	bool read_only;
	enum rbp_durability durability; /* not RBP_STABLE_BY_CAPS, once it is
					 * open; WHEN_ENDED if read_only */
	bool forgets; /* they are also lost when only this process ends */
	/* A layer may flush before it writes. An error of a write may therefore
	 * belong to other writes. */
	bool may_flush_to_write;
	bool fua; /* honours RBP_FUA by itself */
	/* A write of at most this many bytes is done completely or not at all,
	 * even if the process or the machine dies. 0: no such promise. If the
	 * store is memory, the write is lost with the process. */
	uint32_t atomic_len;
	bool read_cache; /* blocks that were read once are faster to read again */
	bool zero;	 /* RBP_ZERO */
	bool extents;	 /* RBP_EXTENT */
	bool rotational;
	struct backend_life life;
	/* The blocks and all completed writes outlive this process, even after
	 * kill -9. */
	bool is_lasting;
	bool has_notes; /* backend_with_notes() */
	/* Not NULL: all blocks lie here. The block layer reads and writes them
	 * in place and submits no READ and WRITE. */
	void *memory;
	bool memory_pinned; /* block_pin_memory() */
};

/* Done writes may be lost, at least until a flush. */
static inline bool backend_has_cache(const struct backend_info *info)
{
	return info->durability > RBP_STABLE_WHEN_ENDED;
}

/* The targets that may serve the same data, numbered from 1 to cnt. One target
 * at a time serves it. */
struct backend_paths {
	unsigned int cnt;    /* 0: this process alone serves it */
	unsigned int own;    /* this process. Both are constant */
	unsigned int active; /* 0: none, or not known */
};

/* What backend_options.path is. */
enum backend_location {
	BACKEND_AT_SIZE,   /* a size: the store is memory */
	BACKEND_AT_PATH,   /* the path of a file or device of this machine */
	BACKEND_AT_PLUGIN, /* a location that only the plugin understands */
};

/* A store or layer of this tree: a plugin, and what a loaded plugin cannot
 * have. */
struct backend_type {
	struct rbp_plugin plugin;
	enum backend_location location;
	/* Makes stable what other processes have written. Blocks. It consumes
	 * errors of these writes that nobody has seen; queues that queue_add()
	 * opens do not see them. Thread: setup, before the first queue_add(). 0
	 * or -errno. NULL: there is nothing to do, or the backend below does
	 * it. */
	int (*sync)(void *v);
	/* Makes the store @bytes long. Blocks. Thread: any. 0, or -errno: -EINVAL
	 * if it cannot grow, -ERANGE if it would become smaller. NULL: the same,
	 * or the backend below does it. */
	int (*grow)(void *v, uint64_t bytes);
	/* Opens what each of @workers needs, so that queue_add() does not block. Blocks;
	 * thread: any but a worker's. 0 or -errno. NULL: queue_add() never blocks. */
	int (*prepare)(void *v, unsigned int workers);
	/* Learns anew what measure() and used() return. Blocks; thread: any but a
	 * worker. The other one does not block: block_io_done() ends @io on the
	 * worker. Both NULL: they always know. */
	void (*look)(void *v);
	void (*ask_to_look)(void *v, struct rbp_io *io);
};

struct backend_options {
	/* or the text after "ram:", "null:" or the name of a plugin; for a
	 * layer, the name of the volume */
	const char *path;
	const struct plugin_spec *plugin;   /* of backend_plugin: which one */
	struct backend *below;		    /* of a layer; NULL: a store */
	const struct fault_options *faults; /* of backend_fault */
	/* Of backend_file: open files of path, which the store takes: one for
	 * I/O, and one for each worker. NULL: it opens path. */
	struct given_file *given;
	bool read_only;
	int direct;	     /* O_DIRECT: 1 on, 0 off, -1 whatever is best */
	bool write_through;  /* every write is stable before it is done */
	bool submit_all;     /* a layer above wants to see every I/O: no
				info.memory */
	uint32_t block_size; /* of the volume above, bytes */
};

/* rbp_plugin.open() of a backend of this tree finds this struct around its
 * info. */
struct block_info {
	struct rbp_info info; /* first */
	const struct backend_options *opt;
	/* The backend sets these; see struct backend_info. */
	const char *kind; /* NULL: rbp_plugin.name */
	struct store_id id;
	struct backend_life life;
};

static inline struct block_info *block_info_of(struct rbp_info *info)
{
	return container_of(info, struct block_info, info);
}

/* A volume as plugins know it. */
struct rbp_vol {
	struct log_limit limit;
	struct log_limit error_limit; /* of RBP_ERROR */
	pthread_mutex_t lock;	      /* guards the limits */
	char name[512];
};

/* Takes notes over, as rbp_host.notes. Thread: any. */
typedef int backend_take_notes_fn(void *user, uint64_t version,
				  const void *data, size_t len);

/* A backend that is open. */
struct backend {
	const struct rbp_plugin *plugin;
	const struct backend_type *type; /* of this tree; NULL: it was loaded */
	void *v;			 /* the plugin's volume */
	struct backend *below; /* what a layer stands on; NULL: a store */
	/* The uppermost backend, from this one down, that has paths(). Or NULL. */
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
	/* The receiver of the notes. Until there is one, the newest notes,
	 * under the lock. */
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
 * Page cache or direct I/O (O_DIRECT)? Block devices are opened with O_DIRECT
 * if their sectors allow it, because initiators already cache their blocks.
 * Regular files use the page cache unless direct=on: it takes any block size on
 * any file system, and it serves small reads and rewrites of a shared image
 * from memory. In both cases completed writes may be in a cache, and the volume
 * says so, unless the cache of the device is write-through or every write is
 * made stable (write_through).
 *
 * A file has one writer. The lock (flock) is on the open file that the I/O
 * uses. It therefore outlives the process as long as the kernel still has
 * writes of it. Read-only users share the file.
 *
 * If a file has shrunk, reads past its new end fail with -EIO.
 */
extern const struct backend_type backend_file;
/* Anonymous memory. It is freed when the process ends. */
extern const struct backend_type backend_ram;
/* Reads return zeroes, writes are dropped. At most 8 EiB less one block. */
extern const struct backend_type backend_null;
/* The store or layer that opt->plugin names. */
extern const struct backend_type backend_plugin;

/*
 * Opens a store, or puts a layer on opt->below. The layer owns opt->below, even
 * if this fails. @opt is borrowed for the call, and so is what it points at,
 * except faults. Thread: setup. 0, or a negative errno with one clause in @e
 * that names the store and what to try.
 */
int backend_open(const struct backend_type *type,
		 const struct backend_options *opt, struct backend **ret,
		 struct error *e);

/* Closes @be, which may be NULL, and all backends below it. No queue is left.
 * Thread: setup. */
void backend_close(struct backend *be);

/*
 * Prepares @be for a worker, for example by registering files. Call it once for
 * each worker, for the lowest backend first. If it fails, nothing is left
 * behind. backend_detach() undoes it: for the uppermost backend first, when
 * nothing is in flight. Thread: setup; of backend_detach() setup or the worker.
 */
int backend_attach(struct backend *be, struct block_worker *w);
void backend_detach(struct backend *be, struct block_worker *w);

/* ---- functions that the uppermost backend with them answers; thread: any ---- */

/* See backend_type.sync. Thread: setup. */
int backend_sync(struct backend *be);

/* See backend_type.grow. */
int backend_grow(struct backend *be, uint64_t bytes);

/* See backend_type.prepare. Without it, backend_attach() may block. */
int backend_prepare(struct backend *be, unsigned int workers);

/* The next two return what the store has learnt last. backend_look() lets it learn
 * this anew, and blocks: thread any but a worker. backend_ask_to_look() does not block;
 * @bio ends with 0 or -errno. op, len and buf are 0. Thread: worker. */
void backend_look(struct backend *be);
void backend_ask_to_look(struct backend *be, struct block_io *bio);

/* Bytes that the store uses. If it cannot tell: all bytes. */
uint64_t backend_used(struct backend *be);

/* The size of the store, in bytes, whatever info.size is. Tells the backends below @be
 * that the store has grown. If a file has another size than it knows, its store learns
 * that on a thread of its own, and calls backend_plugin_look(). 0 or -errno. */
int backend_measure(struct backend *be, uint64_t *ret_size);

/* Which target serves the data. If it is another target, I/O ends with
 * -ESHUTDOWN. */
void backend_paths(struct backend *be, struct backend_paths *ret);

/* Grows when this process begins or ceases to serve the data. 0: no other
 * process can serve it. */
uint64_t backend_epoch_of(struct backend *with_paths);
static inline uint64_t backend_epoch(const struct backend *be)
{
	return be->with_paths ? backend_epoch_of(be->with_paths) : 0;
}

/* Begins to serve the data (offset of @bio is 1) or stops serving it (0). op,
 * len and buf are 0. Thread: worker. */
void backend_set_path(struct backend *be, struct block_io *bio);

/* ---- notes that the targets of a store share (rdma_block_plugin.h) ---- */

/* The store below @be, if it has notes; else NULL. Thread: any. */
struct backend *backend_with_notes(struct backend *be);

/* Calls @take with the newest notes that the store has told, and returns its
 * result. Later, @take is called for all new notes. Thread: setup. */
int backend_on_notes(struct backend *store, backend_take_notes_fn *take,
		     void *user);

/* The functions of a plugin with these names. op and offset of @bio are 0.
 * Thread: worker. */
void backend_get_notes(struct backend *store, struct block_io *bio);
void backend_put_notes(struct backend *store, struct block_io *bio);
/* Thread: any. */
void backend_notes_taken(struct backend *store, uint64_t version);

/* rbp_host.notes(). */
int backend_notes_came(struct rbp_vol *vol, uint64_t version, const void *data,
		       size_t len);

/* ---- I/O ---- */

/* True if the range of @io lies in @be and its operation can have such a range. */
bool backend_has_range(const struct backend *be, const struct rbp_io *io);

/* True if @be can execute @bio. */
bool backend_accepts(const struct backend *be, const struct block_io *bio);

/* The info that a layer on such a backend gets when it is opened. */
void backend_describe_below(const struct backend_info *below,
			    struct rbp_info *ret);

#endif
