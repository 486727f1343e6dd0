/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend stores blocks. It knows bytes and offsets, never CDBs, nexuses or
 * transports. The volume above it (volume.h) has checked every request:
 * offset and len are multiples of the block size and lie inside the backend.
 *
 * Every submit is answered exactly once by request->done, on the worker that
 * submitted it; done may run before submit returns, so submitting is the last
 * thing a caller does with a request. What a backend does not declare in its
 * capabilities is never asked of it.
 *
 * Durability: an acknowledged BLOCK_FLUSH means that all writes completed
 * before it was submitted are stable. A flush that failed once keeps failing
 * until the backend is opened anew: the kernel reports a lost write only once,
 * and pages of a failed write-back may be dropped.
 */
#ifndef TARGET_BLOCK_BACKEND_H
#define TARGET_BLOCK_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/block/store_id.h"
#include "base/reactor.h"

struct backend;
struct block_worker;

enum block_op {
	BLOCK_READ,
	BLOCK_WRITE,
	BLOCK_FLUSH,  /* whole backend; offset and len are 0 */
	BLOCK_UNMAP,  /* hint: contents become zero if unmap_zeroes */
	BLOCK_ZERO,   /* contents become zero */
	BLOCK_EXTENT, /* is what begins at offset mapped, and how far? */
};

struct block_request {
	/* set by the caller */
	enum block_op op;
	bool fua;	 /* BLOCK_WRITE, BLOCK_ZERO: stable before done */
	bool may_unmap;	 /* BLOCK_ZERO: may deallocate instead of write */
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
	void *buf;	 /* READ, WRITE: len bytes; kept by caller until done */
	int buf_index;	 /* io_uring fixed buffer that buf lies in, or -1 */
	struct block_worker *worker;
	/* backend_epoch() when what this belongs to began. The store refuses
	 * another one with -ESHUTDOWN; 0: it takes all. */
	uint64_t epoch;
	uint64_t version; /* put_notes() */
	/* @res: 0 or a negative errno. A short transfer is an error. */
	void (*done)(struct block_request *req, int res);

	/* BLOCK_EXTENT, set on success: from offset on, extent_len bytes (1 ...
	 * len, a multiple of the block size) are all mapped or all not. */
	uint64_t extent_len;
	bool extent_mapped;

	/* READ, WRITE: bytes done so far, also when the rest has failed */
	uint64_t progress;

	/* the backend's, while it has the request */
	struct reactor_op io;
	struct backend *backend;
	struct block_request *next;
	unsigned int step;
	unsigned int tries;
};

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

/* What a backend can do; filled in by its open. */
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
	bool fua; /* honours fua by itself */
	/* A BLOCK_WRITE of at most so many bytes is done whole or not at all,
	 * whenever the process or the machine dies; 0: no such promise. Of
	 * memory: it dies with the process. */
	uint32_t atomic_len;
	bool read_cache; /* what was read is faster to read again */
	bool zero;	 /* BLOCK_ZERO */
	bool extents;	 /* BLOCK_EXTENT */
	bool rotational;
	struct backend_life life;
	/* The blocks, and writes that are done, outlive this process, also when
	 * it is killed. */
	bool is_lasting;
	/* on_notes() and the functions below it are there. */
	bool has_notes;
	/* Not NULL: all blocks lie here, to be read and written in place. The
	 * block layer does, and submits no READ and WRITE then. */
	void *memory;
	/* block_pin_memory(): an RDMA device has pinned
	 * the pages of memory. They may then not be given back to the kernel,
	 * which would put others in their place behind the device's back. */
	bool memory_pinned;
};

/* Targets that may serve the same data, 1 ... cnt; one at a time does. */
struct backend_paths {
	unsigned int cnt;    /* 0: this process alone serves it */
	unsigned int own;    /* this process. Both are constant */
	unsigned int active; /* 0: none, or not known */
};

struct plugin_spec;

struct backend_options {
	/* or what stands after "ram:", "null:", or a plugin's name; of a layer
	 * the volume's name */
	const char *path;
	const struct plugin_spec *plugin; /* that is the store, or NULL */
	bool read_only;
	int direct;	     /* O_DIRECT: 1 on, 0 off, -1 whatever is best */
	bool write_through;  /* every write is stable before it is done */
	bool submit_all;     /* a layer above wants to see every request: no
				info.memory */
	uint32_t block_size; /* of the volume above, bytes */
};

/* What backend_options.path is. */
enum backend_location {
	BACKEND_AT_SIZE,   /* a size: the store is memory */
	BACKEND_AT_PATH,   /* the path of a file or device of this machine */
	BACKEND_AT_PLUGIN, /* whatever the plugin takes it for */
};

/*
 * What a layer leaves NULL, the backend below it does: the functions at the end of
 * this file see to that. close, attach and detach are about the layer alone.
 */
struct backend_ops {
	const char *name; /* "file", "ram", "null" */
	enum backend_location location;
	/*
	 * Thread: setup. 0 or -errno; then @e gets one clause that names the
	 * path and what to try. Of a layer NULL: it is put on a backend otherwise.
	 */
	int (*open)(const struct backend_options *opt, struct backend **ret,
		    struct error *e);
	/* Makes stable what other processes have written; blocks. It takes
	 * errors of theirs that nobody has seen; those that attach() opens see
	 * none of them. Thread: setup, before attach. 0 or -errno; NULL:
	 * nothing to do. */
	int (*sync)(struct backend *be);
	/* Nothing is in flight. */
	void (*close)(struct backend *be);
	/* Thread: setup, once per worker, e.g. to register files. May be NULL. */
	int (*attach)(struct backend *be, struct block_worker *w);
	/* Thread: setup or the worker; nothing of it is in flight. The end of
	 * attach; may be NULL. */
	void (*detach)(struct backend *be, struct block_worker *w);
	void (*submit)(struct backend *be, struct block_request *req);
	/* Bytes now in use by the store, for thin provisioning; NULL: all.
	 * Thread: any. */
	uint64_t (*used)(struct backend *be);
	/* Bytes that the store has now, whatever info.size says; NULL: it is
	 * what it is, or as large as what is below. 0 or -errno. Thread: any. */
	int (*measure)(struct backend *be, uint64_t *ret_size);
	/* Who serves the data; NULL: this process alone. Requests end with
	 * -ESHUTDOWN when it is another. Thread: any. */
	void (*paths)(struct backend *be, struct backend_paths *ret);
	/* Grows whenever this process begins or ceases to serve the data; NULL
	 * or 0: it is the only one. Thread: any. */
	uint64_t (*epoch)(struct backend *be);
	/* With paths() that has a cnt: serves the data from now on (req->offset
	 * is 1), or no more (0). op, len and buf are 0. Thread: worker. */
	void (*set_path)(struct backend *be, struct block_request *req);
	/*
	 * Notes that the processes of paths() share (rdma_block_plugin.h), if
	 * info.has_notes; see backend_with_notes(). on_notes() calls @take with
	 * what the store has told so far, and returns its value. From then on
	 * @take is called on any thread, as host->notes() is. Thread: setup.
	 */
	int (*on_notes)(struct backend *be,
			int (*take)(void *user, uint64_t version,
				    const void *data, size_t len),
			void *user);
	/* As the functions of a plugin; op and offset are 0. Thread: worker. */
	void (*get_notes)(struct backend *be, struct block_request *req);
	void (*put_notes)(struct backend *be, struct block_request *req);
	/* Thread: any. */
	void (*notes_taken)(struct backend *be, uint64_t version);
};

/* Embedded first in a backend's own. */
struct backend {
	const struct backend_ops *ops;
	struct backend *below; /* what a layer stands on; NULL: a store */
	struct backend_info info;
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
extern const struct backend_ops backend_file;
/* Anonymous memory, gone with the process. */
extern const struct backend_ops backend_ram;
/* Reads zeroes, forgets writes; up to 8 EiB less a block. */
extern const struct backend_ops backend_null;

/* Does the range of @req lie in @be, and is it one that its operation takes? */
bool backend_has_range(const struct backend *be,
		       const struct block_request *req);

/* Is @req what this contract lets a caller ask of @be? */
bool backend_accepts(const struct backend *be, const struct block_request *req);

/* The store that @be stands on, if it has notes; else NULL. */
struct backend *backend_with_notes(struct backend *be);

/* Passes @req to the backend after asserting what this contract demands. */
void backend_submit(struct backend *be, struct block_request *req);

/*
 * These ask the uppermost of @be and what it stands on that has the function. They
 * are the one place that knows what a function means that nobody has: see
 * backend_ops, also for the threads.
 */
int backend_sync(struct backend *be);
uint64_t backend_used(struct backend *be);
void backend_paths(struct backend *be, struct backend_paths *ret);
uint64_t backend_epoch(struct backend *be);
void backend_set_path(struct backend *be, struct block_request *req);
/* What is below @be learns here of what it has grown by. */
int backend_measure(struct backend *be, uint64_t *ret_size);

/* @be and all that it stands on: the lowest first, and the uppermost first at the
 * end. Nothing is left when backend_attach() fails. */
int backend_attach(struct backend *be, struct block_worker *w);
void backend_detach(struct backend *be, struct block_worker *w);
void backend_close(struct backend *be);

#endif
