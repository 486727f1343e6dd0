/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Places: what srpcopy copies between. A place is a file, a block device, a volume
 * of a target, or a stream (standard input or output, a pipe). All take the same
 * few operations, asynchronously, with many in flight. The operations of files run
 * on the reactor's ring, those of volumes in libsrpi on the same reactor.
 *
 * Thread: the reactor's. place_open() and place_prepare() wait.
 */
#ifndef COPY_PLACE_H
#define COPY_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"
#include "initiator/srp_initiator.h"

enum place_kind {
	PLACE_FILE,   /* a regular file */
	PLACE_DEVICE, /* a block device */
	PLACE_STREAM, /* no offsets: read or written once, in order */
	PLACE_VOLUME,
};

enum place_role {
	PLACE_SOURCE,
	PLACE_DESTINATION,
	PLACE_COMPARED, /* read, in place of the destination */
};

/* What all places of one program share. */
struct place_env {
	struct reactor *reactor;
	struct srpi_ctx *ctx;
	/* The memory that buffers lie in. Volumes register it. */
	void *mem;
	size_t mem_len;
	/* As on the command line; NULL: nothing is written. */
	const char *destination;
	unsigned int channels; /* of each session; 0: libsrpi chooses */
	int timeout_ms;	       /* of logging in */
	int wait_ms;	       /* for a lost target */
};

enum place_op {
	PLACE_READ,
	PLACE_WRITE,
	PLACE_ZERO,   /* makes a hole if possible */
	PLACE_FLUSH,  /* makes all earlier writes stable */
	PLACE_EXTENT, /* is there data or a hole at offset, and how far? */
};

/* Ways to zero a range of a file. If a file cannot do one, the next is used from then
 * on. */
enum zero_way {
	ZERO_BY_HOLE,
	ZERO_BY_RANGE,
	ZERO_BY_WRITE,
};

/* One operation. It belongs to the caller, and must stay until done(). */
struct place_io {
	enum place_op op;
	struct place *place;
	uint64_t offset; /* bytes; ignored by streams */
	/* Bytes. If offset + len is not at the end of a block of a volume, READ
	 * fills buf up to that end, and WRITE overwrites that part of buf with
	 * what the volume has there. */
	uint64_t len;
	char *buf; /* READ, WRITE; in place_env.mem */
	/* Results. */
	uint64_t got; /* READ: bytes; fewer than len at the end of a stream */
	bool is_hole; /* EXTENT: reads as zeroes */
	uint64_t extent_len; /* EXTENT: bytes, at least 1 and at most len */
	/* @res: 0 or a negative errno. Called once, never within
	 * place_submit(). */
	void (*done)(struct place_io *io, int res);
	void *arg;

	/* Private. */
	uint64_t pos;
	bool is_polling;
	enum zero_way zero_way; /* for a file: the way in use */
	struct reactor_op ring;
	struct srpi_io srpi;
};

/* The identity of a place and of its contents. */
#define PLACE_ID_SIZE	 192
#define PLACE_MTIME_SIZE 48

struct place_identity {
	char id[PLACE_ID_SIZE]; /* "file 8:1 1234", "volume naa.6001..." */
	uint64_t size;
	/* Seconds and nanoseconds; "-": the place has no reliable time. */
	char mtime[PLACE_MTIME_SIZE];
};

struct place_ops;

struct place {
	const struct place_ops *ops; /* private */
	const struct place_env *env;
	const char *name; /* for a person; as on the command line */
	enum place_kind kind;
	enum place_role role;
	bool size_known; /* false: a stream */
	uint64_t size;
	uint32_t block_size; /* holes and zeroed ranges need it; 1: any */
	/* Ranges that this program has not written read as zeroes. */
	bool reads_zero;
};

/* Opens @text: a URI, a path, or "-". @other (may be NULL): the first place, whose
 * session a second volume of the same target shares; it must be closed last.
 * Changes nothing, except that a destination that does not exist is created. */
int place_open(const struct place_env *env, const char *text,
	       enum place_role role, struct place *other,
	       struct place **ret_place, struct error *e);

/* Closes a place without operations in flight. @p may be NULL. */
void place_close(struct place *p);

/* True: both certainly have the same bytes. */
bool place_is_same(const struct place *a, const struct place *b);

/* Makes a destination ready for @size bytes: a regular file becomes an empty one of
 * this size. @keeps: what it has up to @size stays, because a copy is resumed. */
int place_prepare(struct place *p, uint64_t size, bool keeps, struct error *e);

/* The source was a stream, and had @size bytes: a regular file gets this size. */
int place_set_end(struct place *p, uint64_t size, struct error *e);

/* The copy failed before it began. Removes a file that place_open() created. */
void place_forget(struct place *p);

void place_submit(struct place_io *io);

/* False: operations wait for a lost target, or fail. */
bool place_is_running(const struct place *p);

/* Returns the present identity. */
int place_identify(const struct place *p, struct place_identity *ret,
		   struct error *e);

/* Explains what failed, where and why, after done() with @res. Returns @res. */
int place_explain(const struct place_io *io, int res, struct error *e);

/* Makes later reads come from the disk, not from this machine's memory, if
 * possible. */
void place_drop_cache(struct place *p);

/* ---- for the kinds of places ---- */

struct place_ops {
	void (*submit)(struct place_io *io);
	int (*prepare)(struct place *p, uint64_t size, bool keeps,
		       struct error *e);
	int (*set_end)(struct place *p, uint64_t size, struct error *e);
	void (*forget)(struct place *p);
	void (*drop_cache)(struct place *p);
	int (*identify)(const struct place *p, struct place_identity *ret,
			struct error *e);
	bool (*is_running)(const struct place *p);
	/* Returns the reason of @res, maybe in @buf. */
	const char *(*reason)(const struct place_io *io, int res, char *buf,
			      size_t len);
	void (*close)(struct place *p);
};

int place_open_file(const struct place_env *env, const char *text,
		    enum place_role role, struct place **ret_place,
		    struct error *e);
int place_open_volume(const struct place_env *env, const char *text,
		      enum place_role role, struct place *other,
		      struct place **ret_place, struct error *e);

#endif
