/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/functional/t_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_table.h"

/* The contents of a block of the range. */
enum content {
	UNKNOWN, /* not written, or an operation on it has failed */
	KNOWN,	 /* as in the copy of the range */
};

struct slot {
	struct srpi_io io;
	struct t_load *load;
	uint32_t first; /* first block, relative to the range */
	uint32_t cnt;
	uint8_t *buf;
	bool busy;
};

struct t_load {
	struct srpi_session *session;
	struct t_load_params p;
	const struct srpi_volume_info *info;
	uint64_t random;
	uint8_t *copy;
	uint8_t *content; /* enum content, one for each block */
	bool *busy;	  /* an operation uses the block */
	uint32_t blocks;
	uint8_t *bufs;
	struct srpi_mem *mem;
	struct slot slots[T_LOAD_DEPTH_MAX];
	unsigned int in_flight;
	uint64_t started;
	uint64_t done;
	uint64_t failed;
	bool finishing;
	char fault[256];
};

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled". */
static uint64_t random_next(struct t_load *l)
{
	l->random ^= l->random >> 12;
	l->random ^= l->random << 25;
	l->random ^= l->random >> 27;
	return l->random * 0x2545f4914f6cdd1dull;
}

static uint32_t random_below(struct t_load *l, uint32_t limit)
{
	return (uint32_t)((random_next(l) >> 32) * limit >> 32);
}

static void set_fault(struct t_load *l, const struct slot *slot,
		      const char *what, int res)
{
	if (l->fault[0])
		return;
	snprintf(l->fault, sizeof(l->fault),
		 "%s: op %d at block %u, %u blocks, result %d, after %llu ops",
		 what, slot->io.op, slot->first, slot->cnt, res,
		 (unsigned long long)l->done);
}

/* ---- expected data ---- */

static uint8_t *copy_of(const struct slot *slot)
{
	return slot->load->copy +
	       (size_t)slot->first * slot->load->info->block_size;
}

static void check_read(struct slot *slot)
{
	struct t_load *l = slot->load;
	uint32_t bs = l->info->block_size;

	for (uint32_t i = 0; i < slot->cnt; i++) {
		if (l->content[slot->first + i] == KNOWN &&
		    memcmp(slot->buf + (size_t)i * bs,
			   copy_of(slot) + (size_t)i * bs, bs) != 0) {
			set_fault(l, slot, "wrong data was read", 0);
			return;
		}
	}
}

static void mark(struct slot *slot, enum content content)
{
	memset(slot->load->content + slot->first, content, slot->cnt);
}

/* Changes the copy as the operation has changed the volume. */
static void apply(struct slot *slot)
{
	size_t len = slot->io.len;

	switch (slot->io.op) {
	case SRPI_READ:
		check_read(slot);
		break;
	case SRPI_WRITE:
		memcpy(copy_of(slot), slot->buf, len);
		mark(slot, KNOWN);
		break;
	case SRPI_WRITE_ZEROES:
		memset(copy_of(slot), 0, len);
		mark(slot, KNOWN);
		break;
	case SRPI_DISCARD:
		memset(copy_of(slot), 0, len);
		mark(slot, slot->load->info->unmap_zeroes ? KNOWN : UNKNOWN);
		break;
	case SRPI_FLUSH:
	case SRPI_EXTENT:
		break;
	}
}

/* ---- operations ---- */

static void fill(struct t_load *l);

static bool ends_session(int res)
{
	return res == -EIO || res == -ECANCELED || res == -ENOTCONN;
}

static void slot_done(struct srpi_io *io, int res)
{
	struct slot *slot = io->arg;
	struct t_load *l = slot->load;

	if (!slot->busy)
		set_fault(l, slot, "answered twice", res);
	slot->busy = false;
	l->in_flight--;
	memset(l->busy + slot->first, 0, slot->cnt);
	if (res == 0) {
		l->done++;
		apply(slot);
	} else {
		l->failed++;
		mark(slot, UNKNOWN);
		if (!ends_session(res))
			set_fault(l, slot, "failed", res);
		l->finishing = true;
	}
	fill(l);
}

/* Chooses a range of blocks that no operation uses. Finds one soon, because the
 * slots together use only a part of the blocks. */
static void choose_range(struct t_load *l, struct slot *slot)
{
	uint32_t max = l->p.max_io / l->info->block_size;
	bool clash;

	do {
		/* Small ranges are more frequent. */
		slot->cnt = 1 + random_below(l, 1 + random_below(l, max));
		slot->first = random_below(l, l->blocks - slot->cnt + 1);
		clash = false;
		for (uint32_t i = 0; i < slot->cnt && !clash; i++)
			clash = l->busy[slot->first + i];
	} while (clash);
	memset(l->busy + slot->first, 1, slot->cnt);
}

static enum srpi_op choose_op(struct t_load *l)
{
	uint32_t dice = random_below(l, 100);

	if (dice < 45)
		return SRPI_READ;
	if (dice < 90)
		return SRPI_WRITE;
	if (dice < 94)
		return SRPI_WRITE_ZEROES;
	if (dice < 97 && l->info->unmap)
		return SRPI_DISCARD;
	return SRPI_FLUSH;
}

static void fill_buffer(struct t_load *l, struct slot *slot)
{
	uint64_t stamp = random_next(l);

	for (size_t i = 0; i < slot->io.len; i += sizeof(stamp), stamp++)
		memcpy(slot->buf + i, &stamp, sizeof(stamp));
}

static void start_op(struct t_load *l, struct slot *slot)
{
	struct srpi_io *io = &slot->io;

	choose_range(l, slot);
	memset(io, 0, sizeof(*io));
	io->op = choose_op(l);
	io->volume = l->p.volume;
	io->offset = l->p.offset + (uint64_t)slot->first * l->info->block_size;
	io->len = (uint64_t)slot->cnt * l->info->block_size;
	io->buf = slot->buf;
	io->mem = l->mem;
	io->fua = random_below(l, 8) == 0;
	io->discard = random_below(l, 2) == 0;
	io->done = slot_done;
	io->arg = slot;
	if (io->op == SRPI_WRITE)
		fill_buffer(l, slot);
	slot->busy = true;
	l->in_flight++;
	l->started++;
	srpi_submit(l->session, io);
}

static bool wants_more(const struct t_load *l)
{
	return !l->finishing && !l->fault[0] &&
	       (l->p.ops == 0 || l->started < l->p.ops);
}

static void fill(struct t_load *l)
{
	for (unsigned int i = 0; i < l->p.depth && wants_more(l); i++) {
		if (!l->slots[i].busy)
			start_op(l, &l->slots[i]);
	}
}

/* ---- the life of a load ---- */

struct t_load *t_load_start(struct srpi_session *s,
			    const struct t_load_params *p)
{
	size_t bufs_len = (size_t)p->depth * p->max_io;
	struct t_load *l = calloc(1, sizeof(*l));
	struct srpi_error e;

	assert_non_null(l);
	assert_true(p->depth <= T_LOAD_DEPTH_MAX);
	/* This lets choose_range() always find a range. */
	assert_true((uint64_t)p->depth * p->max_io <= p->len / 2);
	l->session = s;
	l->p = *p;
	l->info = srpi_volume_info(s, p->volume);
	l->random = p->seed * 0x9e3779b97f4a7c15ull | 1;
	l->blocks = p->len / l->info->block_size;
	l->copy = calloc(1, p->len);
	l->content = calloc(1, l->blocks);
	l->busy = calloc(l->blocks, sizeof(*l->busy));
	assert_int_equal(posix_memalign((void **)&l->bufs, 4096, bufs_len), 0);
	memset(l->bufs, 0, bufs_len);
	assert_true(l->copy && l->content && l->busy);
	if (srpi_mem_register(s, l->bufs, bufs_len, &l->mem, &e))
		fail_msg("%s", e.text);
	for (unsigned int i = 0; i < p->depth; i++) {
		l->slots[i].load = l;
		l->slots[i].buf = l->bufs + (size_t)i * p->max_io;
	}
	fill(l);
	return l;
}

void t_load_finish(struct t_load *l)
{
	l->finishing = true;
}

bool t_load_is_over(const struct t_load *l)
{
	return l->in_flight == 0 && !wants_more(l);
}

uint64_t t_load_done(const struct t_load *l)
{
	return l->done;
}

uint64_t t_load_failed(const struct t_load *l)
{
	return l->failed;
}

const char *t_load_fault(const struct t_load *l)
{
	return l->fault;
}

void t_load_free(struct t_load *l)
{
	assert_int_equal(l->in_flight, 0);
	srpi_mem_free(l->mem);
	free(l->bufs);
	free(l->busy);
	free(l->content);
	free(l->copy);
	free(l);
}
