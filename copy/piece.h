/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A piece of a copy in flight. To copy, it is read, and then written run by run:
 * data is written, and zeroes become a hole. To compare, both places are read. A
 * piece that lies in a hole of the source has no data and any length.
 *
 * Thread: the reactor's.
 */
#ifndef COPY_PIECE_H
#define COPY_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "copy/place.h"

struct copier;

struct piece {
	struct list node;
	struct copier *copier;
	bool is_hole;
	uint64_t offset; /* bytes */
	uint64_t len;
	uint64_t pos; /* bytes of it that are written */
	uint64_t run; /* bytes that are being written */
	/* Its data waits: a stream takes the pieces in order. */
	bool waits;
	/* To compare: reads in flight, and whether one of them failed. */
	unsigned int reads;
	bool failed;
	char *buf;
	char *other; /* to compare: of the other place */
	struct place_io io;
	struct place_io other_io;
};

/* Starts with offset, len and is_hole. Ends with copier_piece_ended(). */
void piece_start(struct piece *p);

/* The pieces before it are written: piece.waits was true. */
void piece_continue(struct piece *p);

/* Returns how many bytes at @buf are either zeroes or data, in units of @unit
 * bytes. Zeroes count only if they are at least @min bytes, or reach the end.
 * An incomplete last unit is data. @min is a multiple of @unit. */
size_t piece_run(const char *buf, size_t len, size_t unit, size_t min,
		 bool *ret_zero);

#endif
