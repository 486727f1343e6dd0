/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/piece.h"

#include <string.h>

#include "copy/copier.h"

/* ---- zeroes ---- */

static bool piece_is_zero(const char *buf, size_t len)
{
	return buf[0] == 0 && !memcmp(buf, buf + 1, len - 1);
}

/* Returns the number of zeroes, or of other bytes, at the beginning. */
static size_t piece_same(const char *buf, size_t len, size_t unit, bool zero)
{
	size_t pos = 0;

	while (len - pos >= unit && piece_is_zero(buf + pos, unit) == zero)
		pos += unit;
	return pos;
}

size_t piece_run(const char *buf, size_t len, size_t unit, size_t min,
		 bool *ret_zero)
{
	size_t pos = piece_same(buf, len, unit, true);

	*ret_zero = pos > 0 && (pos >= min || pos == len);
	if (*ret_zero)
		return pos;
	while (len - pos >= unit) {
		size_t zeroes;

		pos += piece_same(buf + pos, len - pos, unit, false);
		zeroes = piece_same(buf + pos, len - pos, unit, true);
		if (zeroes >= min || (zeroes && pos + zeroes == len))
			return pos;
		pos += zeroes;
	}
	return len;
}

/* ---- copying ---- */

static void piece_write_next(struct piece *p);

static void piece_submit(struct piece *p, struct place_io *io,
			 struct place *place, enum place_op op,
			 void (*done)(struct place_io *io, int res))
{
	io->op = op;
	io->place = place;
	io->done = done;
	io->arg = p;
	place_submit(io);
}

static void piece_written(struct place_io *io, int res)
{
	struct piece *p = io->arg;

	if (res) {
		copier_fail(p->copier, io, res, p->offset);
		copier_piece_ended(p->copier, p);
		return;
	}
	p->pos += p->run;
	piece_write_next(p);
}

static size_t piece_next_run(const struct piece *p, bool *ret_zero)
{
	const struct copier *c = p->copier;
	size_t left = p->len - p->pos;

	*ret_zero = p->is_hole;
	if (p->is_hole || c->o->sparse == 0 ||
	    c->destination->kind == PLACE_STREAM)
		return left;
	return piece_run(p->buf + p->pos, left, c->unit,
			 c->o->sparse > c->unit ? c->o->sparse : c->unit,
			 ret_zero);
}

static void piece_write_next(struct piece *p)
{
	struct place *to = p->copier->destination;
	bool zero = false;

	p->waits = to->kind == PLACE_STREAM &&
		   list_first(&p->copier->busy, struct piece, node) != p;
	if (p->waits)
		return;
	while (p->pos < p->len) {
		p->run = piece_next_run(p, &zero);
		if (!zero || !to->reads_zero)
			break;
		p->pos += p->run;
	}
	if (p->pos == p->len) {
		copier_piece_ended(p->copier, p);
		return;
	}
	p->io.offset = p->offset + p->pos;
	p->io.len = p->run;
	p->io.buf = p->buf + p->pos;
	piece_submit(p, &p->io, to, zero ? PLACE_ZERO : PLACE_WRITE,
		     piece_written);
}

void piece_continue(struct piece *p)
{
	piece_write_next(p);
}

static void piece_has_read(struct place_io *io, int res)
{
	struct piece *p = io->arg;
	struct copier *c = p->copier;

	if (res) {
		copier_fail(c, io, res, p->offset);
		copier_piece_ended(c, p);
		return;
	}
	if (c->source->kind == PLACE_STREAM) {
		uint64_t asked = p->len;

		p->len = io->got;
		if (!copier_stream_read(c, asked, p->len)) {
			copier_piece_ended(c, p);
			return;
		}
	}
	c->data += p->len;
	piece_write_next(p);
}

/* ---- comparing ---- */

static void piece_compare(struct piece *p)
{
	if (!p->failed && memcmp(p->buf, p->other, p->len) != 0) {
		uint64_t pos = 0;

		while (p->buf[pos] == p->other[pos])
			pos++;
		copier_differs(p->copier, p->offset + pos);
	}
	p->copier->data += p->len;
	copier_piece_ended(p->copier, p);
}

static void piece_has_read_one(struct place_io *io, int res)
{
	struct piece *p = io->arg;

	if (res) {
		p->failed = true;
		copier_fail(p->copier, io, res, p->offset);
	}
	if (--p->reads == 0)
		piece_compare(p);
}

static void piece_start_comparing(struct piece *p)
{
	p->reads = 2;
	p->failed = false;
	p->other_io.offset = p->offset;
	p->other_io.len = p->len;
	p->other_io.buf = p->other;
	piece_submit(p, &p->io, p->copier->source, PLACE_READ,
		     piece_has_read_one);
	piece_submit(p, &p->other_io, p->copier->destination, PLACE_READ,
		     piece_has_read_one);
}

void piece_start(struct piece *p)
{
	p->pos = 0;
	p->waits = false;
	p->io.offset = p->offset;
	p->io.len = p->len;
	p->io.buf = p->buf;
	if (p->copier->compares)
		piece_start_comparing(p);
	else if (p->is_hole)
		piece_write_next(p);
	else
		piece_submit(p, &p->io, p->copier->source, PLACE_READ,
			     piece_has_read);
}
