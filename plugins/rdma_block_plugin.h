/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between rdma-target and its plugins; see rdma-block-plugin(3).
 *
 * A plugin is a shared object, rdma-block-plugin-NAME.so. It is a *store*,
 * which keeps blocks, or a *layer*, which stands on another backend and changes
 * the I/O that passes. rdma-target loads it if a volume names it:
 *
 *     rdma-target --backing NAME:LOCATION[,PARAM=VALUE]...     a store
 *     rdma-target --backing SPEC,layer=NAME[,PARAM=VALUE]...   a layer on SPEC
 *
 * Growth. Structs grow at their ends only. The side that makes a struct sets
 * its size member to sizeof the struct; the side that reads it treats members
 * beyond size as zero. A NULL function or a capability of zero means "no". An
 * incompatible change gets another RBP_ABI and another symbol.
 *
 * Threads. Each function says which thread calls it:
 *   [setup]   one thread, before rdma-target serves or after it has stopped; the
 *             function may block.
 *   [worker]  the thread that owns the queue. The function must not block, and
 *             must not take a lock that a blocking thread holds.
 *   [helper]  a thread of rdma-target for blocking work; several may call at once.
 *   [any]     every thread, threads of the plugin too.
 *
 * I/O. Every rbp_io that is submitted is ended exactly once, by host->done().
 * rdma-target checks offset and len before: they are multiples of
 * rbp_info.block_size, len is not 0 (but for RBP_FLUSH, where both are 0), and
 * the range lies inside the volume. It submits no operation that the plugin has
 * not declared in rbp_info.caps. The plugin may use the buffer until it ends
 * the I/O, and must stop using it before. No one else changes the data of a
 * write meanwhile, so the plugin need not copy it.
 *
 * Durability. RBP_FLUSH covers every write, unmap and zero that was ended
 * before the flush was submitted, on any queue. If a flush fails, rdma-target
 * fails every flush of that volume that ends later, until the volume is opened
 * again.
 * -ENOTCONN is an exception: the flush was not done because the store cannot be
 * reached, and no data is lost. A later flush that succeeds covers the same
 * writes.
 */
#ifndef RDMA_BLOCK_PLUGIN_H
#define RDMA_BLOCK_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RBP_ABI 1

struct rbp_vol;	  /* an open volume; rdma-target's */
struct rbp_queue; /* a volume on one worker; rdma-target's */
struct rbp_watch; /* a file descriptor that a worker watches; rdma-target's */
struct rbp_timer; /* of a worker; rdma-target's */

/* rbp_host.watch_add(): like POLLIN and POLLOUT of poll(2). */
enum {
	RBP_READABLE = 1 << 0,
	RBP_WRITABLE = 1 << 2,
	/* Like POLLERR and POLLHUP: reported, but must not be requested. */
	RBP_BROKEN = 1 << 3,
	RBP_HUNG_UP = 1 << 4,
};

enum rbp_op {
	RBP_READ = 1,
	RBP_WRITE = 2,
	RBP_FLUSH = 3,
	RBP_UNMAP = 4,	/* deallocates; the range reads as zeroes with
			 * RBP_UNMAP_ZEROES, otherwise as any data */
	RBP_ZERO = 5,	/* the range reads as zeroes */
	RBP_EXTENT = 6, /* is the range allocated at its begin, and how far? */
};

/* rbp_io.flags */
enum {
	RBP_FUA = 1 << 0,	/* WRITE, ZERO: stable before it is ended */
	RBP_MAY_UNMAP = 1 << 1, /* ZERO: may deallocate the range */
	/* UNMAP, ZERO of a store with rbp_info.memory: devices have pinned its
	 * pages. The store must not free or move them; it overwrites them. */
	RBP_KEEP_PAGES = 1 << 2,
};

/* rbp_info.caps */
enum {
	RBP_CAN_WRITE = 1 << 0, /* otherwise the volume is read-only */
	RBP_CAN_FLUSH = 1 << 1,
	RBP_CAN_FUA = 1 << 2,	/* otherwise rdma-target writes, then flushes */
	RBP_CAN_UNMAP = 1 << 3, /* needs unmap_granularity */
	RBP_CAN_ZERO = 1 << 4,	/* otherwise rdma-target writes zeroes */
	RBP_CAN_EXTENT = 1 << 5, /* otherwise all blocks count as allocated */
	/* A power cut may lose writes that were ended, until a FLUSH. Needs
	 * RBP_CAN_FLUSH. See rbp_info.durability. */
	RBP_WRITE_CACHE = 1 << 8,
	/* The blocks, and all writes that were ended, survive the end of
	 * rdma-target, even if it is killed. Without this flag, the volume is
	 * another disk after each start, and initiators are told that writes
	 * may be lost. */
	RBP_LASTING = 1 << 9,
	RBP_UNMAP_ZEROES = 1 << 10,
	RBP_ROTATIONAL = 1 << 11,
	RBP_READ_CACHE = 1 << 12, /* reading a block again is faster */
	/* With RBP_LASTING: only writes that a FLUSH has covered survive the
	 * end of rdma-target, because the cache is in its memory. Needs
	 * RBP_WRITE_CACHE. */
	RBP_LOSES_UNFLUSHED = 1 << 13,
};

/* rbp_info.open_flags */
enum {
	RBP_OPEN_READ_ONLY = 1 << 0, /* the volume will not be written */
};

/* rbp_plugin.needs. Threads, and reading and writing files, need no flag. */
enum {
	/* System calls that the sandbox must allow while volumes are served:
	 * sockets, and connections to other programs. */
	RBP_NEEDS_NETWORK = 1 << 0,
	/*
	 * open() is called with the capabilities of the user who starts
	 * rdma-target, for example to open files of other users. It must not
	 * start threads, because they would keep the capabilities: the volume
	 * is refused then. Without this flag, open() is called on a thread
	 * whose only capability is to lock memory. Later calls, and open() for
	 * a volume that is added to a running rdma-target, have no more than
	 * that in any case.
	 */
	RBP_NEEDS_RIGHTS = 1 << 1,
};

/* rbp_info.durability: from when on a write survives a power cut. Each layer makes
 * it as late as that of the backend below, or later. */
enum rbp_durability {
	RBP_STABLE_BY_CAPS = 0, /* AFTER_FLUSH with RBP_WRITE_CACHE, otherwise
				 * WHEN_ENDED */
	RBP_STABLE_WHEN_ENDED = 1,
	RBP_STABLE_AFTER_FLUSH = 2, /* needs RBP_CAN_FLUSH */
	/* Nothing makes it stable: no flush, and no FUA. rdma-target refuses the
	 * volume if it can be written, unless this plugin has the parameter
	 * "trust-server", an RBP_BOOL, and it is on. */
	RBP_STABLE_NEVER = 3,
};

struct rbp_io {
	enum rbp_op op;
	uint32_t flags;
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
	void *buf;	 /* READ, WRITE: len bytes; else NULL */

	/* Set before done(io, 0) of RBP_EXTENT: the first extent_len bytes of
	 * the range (1 ... len, a multiple of block_size) are all allocated
	 * (extent_mapped 1) or all not (0, and read as zeroes). */
	uint64_t extent_len;
	int extent_mapped;

	/* May be set before done(io, error) of READ and WRITE: the number of
	 * bytes, from the begin, that are done. */
	uint64_t progress;

	struct rbp_queue *queue;
	void *queue_data; /* the value that queue_add() returned */
	void *scratch; /* rbp_plugin.scratch_len bytes for the plugin, aligned
		        * to 16; not cleared. NULL if that is 0 */

	/* Set by a layer, in an I/O that host->child() has returned. */
	void (*ended)(struct rbp_io *child, int res);
	struct rbp_io *parent;

	/* The value of rbp_paths.epoch when the command of this I/O came; 0:
	 * not known. If the present epoch is another one, the plugin ends the
	 * I/O with -ESHUTDOWN: another target may have written meanwhile. Only
	 * if rbp_paths has cnt and an epoch. */
	uint64_t epoch;

	/* put_notes(): the version that the notes replace. */
	uint64_t version;
};

/* The properties of a volume; open() fills them in. rdma-target has set size
 * and open_flags, and all other members to zero; for a layer, to the values of
 * the backend below. */
struct rbp_info {
	uint32_t size;
	uint32_t open_flags;
	uint32_t caps;
	uint64_t bytes;		    /* a multiple of block_size */
	uint32_t block_size;	    /* smallest I/O and its alignment, bytes: a
				     * power of two up to 4096 */
	uint32_t optimal_io;	    /* best unit, bytes; 0: unknown */
	uint64_t unmap_granularity; /* bytes */
	/* A write of at most this many bytes is done completely or not at all,
	 * even if the power fails; 0: no such promise. */
	uint32_t atomic_write;
	/* Threads for the blocking functions, 1 ... 64; 0: 4. */
	uint32_t threads;
	/* Identifies the stored data: the same text for the same data on every
	 * machine, and another text for other data. Empty: the plugin does not
	 * know; then the volume's identity depends on LOCATION. */
	char identity[128];
	/* Set by rdma-target: the block size of the volume, bytes. offset and
	 * len of every I/O are multiples of it, too. */
	uint32_t volume_block;
	/* Set by rdma-target for a layer: this text identifies the data below
	 * when it is served again. Empty: nothing identifies it. */
	char below_mark[320];
	/* Set by a store: all blocks lie here until close(). rdma-target and
	 * RDMA read and write them in place. READ and WRITE are only submitted
	 * if a layer stands on the store. The volume does not grow. NULL: the
	 * blocks are elsewhere. */
	void *memory;
	/* Set by rdma-target for a layer: rbp_paths.cnt of the backend below. If
	 * it is more than 1, other targets may write to the data. */
	uint32_t below_targets;
	/* enum rbp_durability, of a volume that can be written. */
	uint32_t durability;
};

/*
 * Several targets may serve the same data, one at a time. Each is a group of
 * ports (ALUA); they have the numbers 1 ... cnt. A target that is not active
 * ends every I/O with -ESHUTDOWN. Before a target becomes active, the plugin
 * makes sure that no write of another target can reach the data any more.
 * Writes that the other target has ended are not lost: they are there, and the
 * next flush covers them.
 */
struct rbp_paths {
	uint32_t size;
	uint32_t cnt;	 /* up to 8; 0: this target alone serves the data */
	uint32_t own;	 /* this target. cnt and own never change */
	uint32_t active; /* the one that serves; 0: none, or not known */
	/* Grows whenever this target begins or stops to serve the data; starts
	 * at 1. 0: not reported. */
	uint64_t epoch;
};

/*
 * Notes are some bytes that these targets share. They are stored with the data
 * and exist as long as the data; rdma-target stores persistent reservations
 * there. Each change increments their version. Before the first change, the
 * version is 0, and there are no bytes.
 *
 * A plugin with put_notes() passes the notes to host->notes()
 *   - in open();
 *   - whenever it learns of a newer version. It looks for one as long as this
 *     target may become active;
 *   - when it has made sure that no other target can write, and before this
 *     target becomes active. If host->notes() fails then, this target must not
 *     become active.
 */
#define RBP_NOTES_MAX 16384 /* bytes */

enum rbp_type {
	RBP_STRING = 1,
	RBP_NUMBER = 2, /* decimal, up to 2^64 - 1 */
	RBP_SIZE = 3,	/* bytes; 4096, 512k, 64M, 1G, 2T */
	RBP_BOOL = 4,	/* on or off */
};

/* A parameter that the plugin knows. rdma-target refuses others, and values
 * that are not of the type. */
struct rbp_param {
	const char *name; /* letters, digits and '-' */
	enum rbp_type type;
	const char *dflt; /* NULL: none */
	const char *help; /* one line */
};

/* Parameters that open() gets: each one that has a value or a default. */
struct rbp_arg {
	const char *name; /* NULL ends the list */
	const char *text;
	uint64_t number; /* NUMBER, SIZE; BOOL: 0 or 1 */
};

/*
 * Plain functions that may block, for plugins without submit(). Several threads
 * call them at once (rbp_info.threads), but only one calls flush(). They return 0
 * or a negative errno. [helper]
 */
struct rbp_blocking {
	uint32_t size;
	int (*read)(void *v, void *buf, uint64_t len, uint64_t offset);
	int (*write)(void *v, const void *buf, uint64_t len, uint64_t offset,
		     uint32_t flags);
	int (*flush)(void *v);
	int (*unmap)(void *v, uint64_t len, uint64_t offset);
	int (*zero)(void *v, uint64_t len, uint64_t offset, uint32_t flags);
	int (*extent)(void *v, uint64_t len, uint64_t offset, uint64_t *ret_len,
		      int *ret_mapped);
};

/* If a layer has NULL for measure(), paths(), set_path() or used(), rdma-target
 * calls the function of the backend below. */
struct rbp_plugin {
	uint32_t size;
	uint32_t is_layer;
	const char *name;    /* as in the file's name */
	const char *version; /* of the plugin, for people */
	const char *help;    /* one line: what it is, and the meaning of
			      * LOCATION */
	const struct rbp_param *params; /* ends with a NULL name; may be NULL */
	uint32_t needs;
	uint32_t scratch_len; /* bytes for each I/O, up to 64 KiB */
	/*
	 * [setup] Opens a volume. @location is the text after "NAME:"; for a
	 * layer it is NULL. @location and @args live until close(). Returns 0
	 * and *ret_v, or a negative errno and one clause in @msg: what is wrong
	 * and what to try.
	 */
	int (*open)(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len);
	/* [setup] Nothing is in flight, and every queue is deleted. */
	void (*close)(void *v);
	/*
	 * [setup] A worker is about to submit. Returns 0 and *ret_queue_data,
	 * or a negative errno. queue_del() undoes it: [setup] or [worker],
	 * nothing of the queue is in flight. Both may be NULL.
	 */
	int (*queue_add)(void *v, struct rbp_queue *queue,
			 void **ret_queue_data);
	void (*queue_del)(void *queue_data);
	/* [worker] Begins @io. host->done() ends it, maybe at once. NULL:
	 * rdma-target calls the blocking functions. A layer must have it. */
	void (*submit)(void *v, struct rbp_io *io);
	const struct rbp_blocking *blocking;
	/* [any] Returns the present size of the store in bytes. Must not block.
	 * NULL: the size does not change; a layer that is as large as the
	 * backend below grows with it. */
	int (*measure)(void *v, uint64_t *ret_bytes);
	/* [worker] Called once at the end of a turn of the worker in which
	 * submit() was called. The plugin can now pass on the I/Os of the turn
	 * together. May be NULL. */
	void (*kick)(void *v, void *queue_data);
	/* [any] Reports which target serves the data, as far as this is known
	 * without asking others. NULL: only this target. rdma-target has set
	 * ret->size. */
	void (*paths)(void *v, struct rbp_paths *ret);
	/* [worker] If paths() has a cnt: makes this target the active one
	 * (io->offset is 1), or releases the data (0); op is 0. host->done(io,
	 * 0): this is done. */
	void (*set_path)(void *v, struct rbp_io *io);
	/*
	 * [any] Changes parameters while the volume is served: those of @args,
	 * which live for the call. Only one call of a volume at a time. It must
	 * not block. Returns 0; or a negative errno and one clause in @msg, and
	 * nothing has changed. Volumes with the same value of a parameter "group"
	 * have all parameters in common: a call for one of them is for all. NULL:
	 * no parameter can be changed.
	 */
	int (*set_params)(void *v, const struct rbp_arg *args, char *msg,
			  size_t msg_len);
	/*
	 * [worker] Asks the store for the notes. host->done(io, 0):
	 * host->notes() has been called with the notes that the store had after
	 * this call, or with newer ones. -ESHUTDOWN: this target was fenced, and
	 * cannot ask the store now; initiators are told to use another one. A
	 * plugin has all three functions for notes, or none.
	 */
	void (*get_notes)(void *v, struct rbp_io *io);
	/*
	 * [worker] Replaces the notes of io->version by io->len bytes at
	 * io->buf. Only one call of a volume at a time.
	 *   0         They are stable, and have the next version. Every target
	 *             that can write has them: its host->notes() has returned 0,
	 *             or notes_taken() was called. Also this one.
	 *   -ESTALE   The notes have another version. Nothing has changed.
	 *   -ESHUTDOWN  As for get_notes(); nothing has changed.
	 *   others    Unknown: the notes are as they were or as they were
	 *             to be, maybe from a later time on.
	 */
	void (*put_notes)(void *v, struct rbp_io *io);
	/* [any] Everything that host->notes() of @version, or of an older one,
	 * has begun is done. */
	void (*notes_taken)(void *v, uint64_t version);
	/* [any] Returns the bytes that the store uses, for thin provisioning.
	 * Must not block. NULL: all bytes. */
	uint64_t (*used)(void *v);
};

enum rbp_log_level {
	RBP_ERROR = 1,	 /* something that was requested did not happen */
	RBP_WARNING = 2, /* rdma-target continues, and the line says how */
	RBP_NOTICE = 3,
	RBP_DEBUG = 4,
};

/* Functions of rdma-target for plugins. The struct outlives every volume. */
struct rbp_host {
	uint32_t size;
	const char *version; /* of rdma-target, for people */
	/* [any] Ends @io. @res is 0 or a negative errno. A transfer that is
	 * shorter than len is an error. The plugin must not use @io after
	 * this. */
	void (*done)(struct rbp_io *io, int res);
	/* [any] Writes one line to the log, without the volume's name. @vol may
	 * be NULL. The lines of each volume are limited to a few per second. */
	void (*log)(struct rbp_vol *vol, enum rbp_log_level level,
		    const char *fmt, ...)
#ifdef __GNUC__
		__attribute__((format(printf, 3, 4)))
#endif
		;
	/* [any] measure() would return another size: initiators are told. */
	void (*resized)(struct rbp_vol *vol);
	/*
	 * [worker] For a layer: returns the I/O for the backend below, a copy
	 * of @io. The layer may change op, flags, offset, len and buf, sets
	 * ended, and passes it to below(). ended() runs once, on the worker,
	 * maybe before below() returns; then the results are in the child.
	 * There is one child at a time for each I/O. When it has ended, the
	 * layer may ask for it again.
	 */
	struct rbp_io *(*child)(struct rbp_io *io);
	void (*below)(struct rbp_io *child);
	/*
	 * [worker], or in queue_add() and queue_del(): calls ready() on the
	 * worker in each turn in which @fd is ready for any of @events
	 * (RBP_READABLE, RBP_WRITABLE), as poll(2) reports it: not only when it
	 * becomes ready. NULL: out of memory. watch_set() changes the events; 0
	 * pauses the watch. @fd must stay open until watch_del(). After this,
	 * ready() is not called, and @fd may be closed. queue_del() may leave
	 * watches: they are deleted then.
	 */
	struct rbp_watch *(*watch_add)(
		struct rbp_queue *queue, int fd, uint32_t events,
		void (*ready)(void *user, uint32_t events), void *user);
	void (*watch_set)(struct rbp_watch *watch, uint32_t events);
	void (*watch_del)(struct rbp_watch *watch);
	/*
	 * The same threads. A timer that timer_set() starts or restarts calls
	 * fire() once, on the worker, not before @delay_ms have passed, and at
	 * most a few ms later if the worker is idle. timer_stop() stops it.
	 * NULL: out of memory. queue_del() may leave timers: they are deleted
	 * then.
	 */
	struct rbp_timer *(*timer_add)(struct rbp_queue *queue,
				       void (*fire)(void *user), void *user);
	void (*timer_set)(struct rbp_timer *timer, uint64_t delay_ms);
	void (*timer_stop)(struct rbp_timer *timer);
	void (*timer_del)(struct rbp_timer *timer);
	/* [any] paths() would return something else: initiators are told. */
	void (*path_changed)(struct rbp_vol *vol);
	/*
	 * [any] The notes of the data, @len bytes, which are copied. A version
	 * that is older than a previous one has no effect. 0: every command
	 * that begins from now on uses them. 1: the same, and older commands
	 * are being ended because of them; notes_taken() reports when that is
	 * done. Negative: rdma-target cannot read them, and uses the old ones.
	 * The function does not wait, and calls no function of the plugin.
	 */
	int (*notes)(struct rbp_vol *vol, uint64_t version, const void *data,
		     size_t len);
	/* [worker] For a layer: passes @io itself to the backend below,
	 * unchanged. The layer must not use @io after this, and is not told of
	 * its end. */
	void (*forward)(struct rbp_io *io);
};

/*
 * The only symbol that a plugin exports. [setup] Called once, before any other
 * function. @host stays valid. NULL: the plugin cannot be used; it has reported
 * why with host->log().
 */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
const struct rbp_plugin *
rdma_block_plugin_1(const struct rbp_host *host);

#ifdef __cplusplus
}
#endif

#endif
