/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copier copies one place to another, or compares the two, with many pieces in
 * flight. It hands out the source in pieces, in order. A copy asks the source for its
 * holes first, and does not read these. It flushes the destination from time to time
 * and saves in the state file how far it is stable. A comparison reads all of both.
 *
 * A stream as source is read, and one as destination is written, one piece at a
 * time.
 *
 * Thread: the reactor's.
 */
#ifndef COPY_COPIER_H
#define COPY_COPIER_H

#include "base/list.h"
#include "copy/options.h"
#include "copy/piece.h"
#include "copy/place.h"
#include "copy/resume.h"

#define COPIER_NOWHERE UINT64_MAX

enum copier_state {
	COPIER_RUNNING,	 /* hands out pieces, or waits for those in flight */
	COPIER_FLUSHING, /* no piece is in flight; the last flush is */
	COPIER_OVER,	 /* nothing is in flight */
};

struct copier {
	/* Set by the caller. The other members are private, except the
	 * results. */
	struct reactor *reactor;
	const struct copy_options *o;
	struct place *source;
	struct place *destination;
	bool compares;
	uint64_t begin; /* bytes that were copied before */

	enum copier_state state;
	struct piece *pieces;
	struct list free;    /* struct piece, node */
	struct list busy;    /* in the order of their offsets */
	uint64_t unit;	     /* bytes: offsets and holes are multiples */
	uint64_t next;	     /* the offset of the next piece */
	uint64_t end;	     /* of the source; COPIER_NOWHERE: not known yet */
	uint64_t extent_end; /* next ... extent_end is a hole, or data */
	bool extent_is_hole;
	bool is_reading;  /* a piece of a stream */
	bool is_asking;	  /* for an extent: ask is in flight */
	bool is_flushing; /* flush is in flight */
	bool stops;	  /* hands out no more */
	struct place_io ask;
	struct place_io flush;
	uint64_t flushes_to; /* offset up to which the flush in flight makes
			      * data stable */
	uint64_t stable;     /* offset in the state file */
	uint64_t failed_at;  /* the first piece that failed */
	struct place_identity source_id; /* identity when the copy began */
	struct reactor_timer flush_timer;
	struct reactor_timer show_timer;

	/* Results. */
	bool interrupted;    /* by a signal */
	bool abandoned;	     /* operations are still in flight */
	struct error e;	     /* the first error; err is 0: none */
	uint64_t data;	     /* bytes read */
	uint64_t done;	     /* bytes, the beginning included */
	uint64_t differs_at; /* the first byte; COPIER_NOWHERE: none */
};

/* Bytes of memory for @o. */
size_t copier_mem_len(const struct copy_options *o);

/* Copies or compares. Runs the reactor until it has ended. @mem: for the data.
 * Returns 0 if it reached the end of the source; see the results. */
int copier_run(struct copier *c, void *mem);

/* A signal asks the copier to end: it waits for what is in flight, and flushes. If a
 * target or a stream might never answer, or if this is the second signal, it ends
 * at once. */
void copier_interrupt(struct copier *c);

/* ---- for pieces ---- */

/* @piece has ended. */
void copier_piece_ended(struct copier *c, struct piece *piece);
/* The source is a stream, and has @len of the @asked bytes for the last piece.
 * False: they do not fit into the destination. */
bool copier_stream_read(struct copier *c, uint64_t asked, uint64_t len);
/* An operation at @offset failed. */
void copier_fail(struct copier *c, const struct place_io *io, int res,
		 uint64_t offset);
/* A comparison has found a byte that differs. */
void copier_differs(struct copier *c, uint64_t offset);

#endif
