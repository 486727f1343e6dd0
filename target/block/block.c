/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/block.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/ticks.h"
#include "target/block/block_worker.h"

/* The most that one command may unmap, in bytes. It is less for a store in memory,
 * because the reactor's own thread changes the memory. */
#define UNMAP_MAX	 (512u << 20)
#define UNMAP_MAX_MEMORY (64u << 20)

/* The phases of a command, in the order of its plan. In each phase it submits
 * one piece after the other. */
enum block_phase {
	PHASE_SETTLE, /* of a READ with FUA: flushes the cache to the medium */
	PHASE_READ,   /* into buf */
	PHASE_LOOK,   /* reads pieces of the medium, to compare or merge */
	PHASE_WRITE,  /* from buf */
	PHASE_FILL,
	PHASE_UNMAP,
	PHASE_EXTENT,
	PHASE_SECURE, /* flushes, if the change must be stable */
	PHASE_FLUSH,  /* a flush */
	PHASE_PATH,   /* sets which target serves the data */
	PHASE_USAGE,  /* the store learns how much it uses */
	PHASE_END,
};

#define PLAN_MAX 4

static const uint8_t plans[][PLAN_MAX] = {
	[BLOCK_CMD_READ] = { PHASE_SETTLE, PHASE_READ, PHASE_END },
	[BLOCK_CMD_WRITE] = { PHASE_WRITE, PHASE_SECURE, PHASE_END },
	[BLOCK_CMD_WRITE_ALONE] = { PHASE_WRITE, PHASE_SECURE, PHASE_END },
	[BLOCK_CMD_OR] = { PHASE_LOOK, PHASE_WRITE, PHASE_SECURE, PHASE_END },
	[BLOCK_CMD_FILL] = { PHASE_FILL, PHASE_SECURE, PHASE_END },
	[BLOCK_CMD_UNMAP] = { PHASE_UNMAP, PHASE_SECURE, PHASE_END },
	[BLOCK_CMD_COMPARE] = { PHASE_LOOK, PHASE_END },
	[BLOCK_CMD_COMPARE_WRITE] = { PHASE_LOOK, PHASE_WRITE, PHASE_SECURE,
				      PHASE_END },
	[BLOCK_CMD_WRITE_COMPARE] = { PHASE_WRITE, PHASE_SECURE, PHASE_LOOK,
				      PHASE_END },
	[BLOCK_CMD_FLUSH] = { PHASE_FLUSH, PHASE_END },
	[BLOCK_CMD_SERVE] = { PHASE_PATH, PHASE_END },
	[BLOCK_CMD_CEASE] = { PHASE_PATH, PHASE_END },
	[BLOCK_CMD_EXTENT] = { PHASE_EXTENT, PHASE_END },
	[BLOCK_CMD_USAGE] = { PHASE_USAGE, PHASE_END },
};

/* Nothing writes to it, so it needs address space but no memory. */
static uint8_t block_zeroes[BLOCK_ZERO_PIECE] __attribute__((aligned(4096)));

static uint64_t block_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t block_left(const struct block_cmd *cmd)
{
	return cmd->len - cmd->at;
}

/* ---- who has unflushed writes ---- */

static bool block_may_have_flushed(const struct block_cmd *cmd)
{
	const struct rbp_io *io = &cmd->bio.io;

	return io->op != RBP_READ && io->op != RBP_EXTENT &&
	       cmd->dev->backend->info.may_flush_to_write;
}

static void block_note_flush(struct block_device *dev, int res)
{
	if (res != -ESHUTDOWN && atomic_exchange(&dev->flush_err, res) != res &&
	    dev->flush_changed)
		dev->flush_changed(dev);
}

/* After an I/O has ended. A flush that was not executed does not count. */
static void block_note_answer(struct block_cmd *cmd, int res)
{
	const struct rbp_io *io = &cmd->bio.io;
	struct writers *writers = &cmd->dev->writers;

	if (io->op == RBP_FLUSH)
		block_note_flush(cmd->dev, res);
	if (io->op != RBP_FLUSH && !(io->flags & RBP_FUA) &&
	    !(res && block_may_have_flushed(cmd)))
		return;
	cmd->loses |= res != 0;
	if (res && (io->op != RBP_FLUSH || res == -ENOTCONN))
		writers_doubt(writers);
	else if (io->op == RBP_FLUSH)
		writers_flush_ends(writers, cmd->flush_nr, res);
}

/* After a command has ended: what it wrote may be in a cache, and what it met may tell of
 * a loss. True: the journal has what the answer relies on. */
static bool block_is_kept(struct block_cmd *cmd)
{
	struct writers *writers = &cmd->dev->writers;
	bool kept = !cmd->loses || writers_failure_is_kept(writers);

	if (cmd->unstable && cmd->writer && (!cmd->res || cmd->was_stopped))
		kept &= writers_wrote(writers, cmd->writer, cmd->port);
	/* Nobody relies on a command that was given up. */
	return kept || cmd->was_stopped;
}

static void block_kept(struct writers_wait *wait, int err)
{
	struct block_cmd *cmd = container_of(wait, struct block_cmd, wait);

	cmd->state = BLOCK_CMD_ANSWERED;
	if (err && !cmd->res)
		cmd->res = -EIO;
	cmd->done(cmd);
}

/* The command has ended. False: its answer waits for the journal. */
static bool block_end(struct block_cmd *cmd)
{
	bool kept = block_is_kept(cmd);

	block_owner_drop(&cmd->owner);
	if (kept)
		return true;
	cmd->state = BLOCK_CMD_KEEPING;
	writers_wait(&cmd->dev->writers, &cmd->wait, cmd->worker->reactor,
		     block_kept);
	return false;
}

/* ---- I/O ---- */

static void block_answered(struct block_io *bio, int res);

/* Makes the next I/O. Returns true, because there is one. */
static bool block_ask(struct block_cmd *cmd, enum rbp_op op, uint64_t len,
		      uint8_t *buf)
{
	struct rbp_io *io = &cmd->bio.io;

	io->op = op;
	io->flags = 0;
	io->offset = cmd->offset + cmd->at;
	io->len = len;
	io->buf = buf;
	cmd->bio.buf_index = cmd->buf_index;
	return true;
}

static bool block_ask_flush(struct block_cmd *cmd)
{
	block_ask(cmd, RBP_FLUSH, 0, NULL);
	cmd->bio.io.offset = 0;
	return true;
}

/* It belongs to no time of service, because it begins or ends one. */
static bool block_ask_path(struct block_cmd *cmd)
{
	block_ask(cmd, 0, 0, NULL);
	cmd->bio.io.offset = cmd->kind == BLOCK_CMD_SERVE;
	cmd->bio.io.epoch = 0;
	return true;
}

/* Copies between the memory of the store and that of the command, which may be
 * the same. */
static void block_copy(struct block_cmd *cmd, uint8_t *place)
{
	const struct rbp_io *io = &cmd->bio.io;

	if (io->buf == place)
		return;
	if (io->op == RBP_READ)
		memcpy(io->buf, place, io->len);
	else
		memcpy(place, io->buf, io->len);
	cmd->worker->copied += io->len;
}

static const char *block_op_name(const struct rbp_io *io)
{
	static const char *const names[] = {
		[RBP_READ] = "read",   [RBP_WRITE] = "write",
		[RBP_FLUSH] = "flush", [RBP_ZERO] = "write zeroes",
		[RBP_UNMAP] = "unmap", [RBP_EXTENT] = "find extents",
	};

	return io->op ? names[io->op] : "change the path or look at its size";
}

/* A store that does not return keeps the thread. */
static void block_ask_store(struct block_cmd *cmd)
{
	struct backend *be = cmd->dev->backend;
	struct block_worker *w = cmd->worker;

	atomic_store_explicit(&w->asks, block_op_name(&cmd->bio.io),
			      memory_order_relaxed);
	if (cmd->bio.io.op)
		block_io_submit(be, &cmd->bio);
	else if (*cmd->phase == PHASE_USAGE)
		backend_ask_to_look(be, &cmd->bio);
	else
		backend_set_path(be, &cmd->bio);
	atomic_store_explicit(&w->asks, NULL, memory_order_relaxed);
}

/* A flush that is not answered keeps nobody from the blocks, unless they are compared with
 * what was written. */
static void block_begin_flush(struct block_cmd *cmd)
{
	cmd->flush_nr = writers_flush_begins(&cmd->dev->writers);
	if (*cmd->phase == PHASE_SECURE && cmd->kind != BLOCK_CMD_WRITE_COMPARE)
		block_owner_drop(&cmd->owner);
}

static void block_submit(struct block_cmd *cmd)
{
	struct backend *be = cmd->dev->backend;
	struct rbp_io *io = &cmd->bio.io;

	if (io->op == RBP_FLUSH)
		block_begin_flush(cmd);
	if (be->info.memory && (io->op == RBP_READ || io->op == RBP_WRITE)) {
		assert(backend_has_range(be, io));
		block_copy(cmd, (uint8_t *)be->info.memory + io->offset);
		block_answered(&cmd->bio, 0);
	} else {
		block_ask_store(cmd);
	}
}

/* ---- reading and writing ---- */

static bool block_read(struct block_cmd *cmd)
{
	return block_left(cmd) && block_ask(cmd, RBP_READ, cmd->len, cmd->buf);
}

/* True if a write must be stable when it is answered. */
static bool block_must_be_stable(const struct block_cmd *cmd)
{
	return cmd->dev->write_cache && (cmd->fua || cmd->dev->write_through);
}

/* In one piece, so that it is done completely or not at all if the store
 * promises that. */
static bool block_write(struct block_cmd *cmd)
{
	const struct backend_info *store = &cmd->dev->backend->info;

	if (!block_left(cmd))
		return false;
	block_ask(cmd, RBP_WRITE, cmd->len, cmd->buf);
	if (block_must_be_stable(cmd) && store->fua && !store->memory)
		cmd->bio.io.flags = RBP_FUA;
	return true;
}

/* ---- comparing and merging ---- */

/* How many bytes of @medium equal the wanted ones, up to @len. Compares whole
 * units first, and bytes only in the unit that differs. */
static uint64_t block_equal_len(const struct block_cmd *cmd,
				const uint8_t *medium, uint64_t len)
{
	uint64_t unit = cmd->unit_len ? cmd->unit_len : cmd->len;
	uint64_t same = 0;

	while (same < len) {
		uint64_t in_unit = (cmd->at + same) % unit;
		uint64_t n = block_min(unit - in_unit, len - same);
		const uint8_t *wanted = cmd->wanted + in_unit;

		if (memcmp(medium + same, wanted, n)) {
			while (medium[same] == *wanted && same + 1 < len) {
				same++;
				wanted++;
			}
			return same;
		}
		same += n;
	}
	return len;
}

static void block_merge(uint8_t *to, const uint8_t *from, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		to[i] |= from[i];
}

/* Compares the contents of the medium from @at on. */
static void block_look_at(struct block_cmd *cmd, const uint8_t *medium,
			  uint64_t len)
{
	uint64_t same = len;

	if (cmd->kind == BLOCK_CMD_OR)
		block_merge(cmd->buf + cmd->at, medium, len);
	else if (cmd->wanted)
		same = block_equal_len(cmd, medium, len);
	cmd->differs = same < len;
	cmd->at += same;
}

static bool block_look(struct block_cmd *cmd)
{
	uint8_t *place = block_in_place(cmd->dev, cmd->offset + cmd->at);
	uint64_t left = block_left(cmd);

	return left && !cmd->differs &&
	       block_ask(cmd, RBP_READ, block_min(left, BLOCK_PIECE),
			 place ? place : cmd->room);
}

/* ---- extents ---- */

/* Of the rest of the range. A part that the store does not report counts as
 * mapped. */
static bool block_find_extent(struct block_cmd *cmd)
{
	uint64_t left = block_left(cmd);

	if (!left)
		return false;
	if (cmd->dev->backend->info.extents)
		return block_ask(cmd, RBP_EXTENT, left, NULL);
	cmd->extent_len = left;
	cmd->extent_mapped = true;
	return false;
}

static void block_extent_found(struct block_cmd *cmd)
{
	cmd->extent_len = cmd->bio.io.extent_len;
	cmd->extent_mapped = cmd->bio.io.extent_mapped;
	if (*cmd->phase == PHASE_EXTENT) {
		cmd->at = cmd->len;
	} else if (!cmd->extent_mapped) {
		cmd->at += cmd->extent_len;
		cmd->extent_len = 0;
	}
}

/* ---- filling and unmapping ---- */

static uint64_t block_aligned_piece(const struct block_cmd *cmd, uint64_t piece)
{
	uint64_t offset = cmd->offset + cmd->at;

	return block_min(block_left(cmd), piece - offset % piece);
}

static uint32_t block_keep_pages(const struct block_cmd *cmd)
{
	return cmd->dev->backend->info.memory_pinned ? RBP_KEEP_PAGES : 0;
}

static bool block_unmap(struct block_cmd *cmd)
{
	if (!block_left(cmd)) {
		if (!cmd->more || !cmd->more(cmd))
			return false;
		cmd->at = 0;
	}
	block_ask(cmd, RBP_UNMAP, block_aligned_piece(cmd, BLOCK_UNMAP_PIECE),
		  NULL);
	cmd->bio.io.flags = block_keep_pages(cmd);
	return true;
}

static uint64_t block_zero_piece(const struct block_cmd *cmd)
{
	const struct backend_info *store = &cmd->dev->backend->info;

	if (store->memory)
		return BLOCK_ZERO_PIECE;
	if (cmd->piece_len)
		return cmd->piece_len;
	return cmd->may_unmap && store->unmap_granularity ? BLOCK_UNMAP_PIECE
							  : BLOCK_ZERO_PIECE;
}

static bool block_zero(struct block_cmd *cmd)
{
	block_ask(cmd, RBP_ZERO,
		  block_aligned_piece(cmd, block_zero_piece(cmd)), NULL);
	cmd->bio.io.flags =
		block_keep_pages(cmd) | (cmd->may_unmap ? RBP_MAY_UNMAP : 0);
	return true;
}

static bool block_is_zero(const struct block_cmd *cmd)
{
	const uint8_t *p = cmd->buf;

	return !p || (!p[0] && !memcmp(p, p + 1, cmd->unit_len - 1));
}

/* Fills the room with the pattern, once. */
static void block_repeat(struct block_cmd *cmd, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += cmd->unit_len) {
		if (cmd->room + at != cmd->buf)
			memcpy(cmd->room + at, cmd->buf, cmd->unit_len);
	}
}

/* The next piece is at most this long, because the blocks after it are not
 * mapped. */
static uint64_t block_fill_left(const struct block_cmd *cmd)
{
	uint64_t left = block_left(cmd);

	return cmd->mapped ? block_min(left, cmd->extent_len) : left;
}

static bool block_write_zeroes(struct block_cmd *cmd)
{
	uint64_t len = block_min(block_fill_left(cmd), BLOCK_ZERO_PIECE);

	block_ask(cmd, RBP_WRITE, len, block_zeroes);
	cmd->bio.buf_index = -1;
	return true;
}

static bool block_write_pattern(struct block_cmd *cmd)
{
	uint64_t len = block_min(block_fill_left(cmd), cmd->room_len);

	if (!cmd->at)
		block_repeat(cmd, block_min(cmd->len, cmd->room_len));
	return block_ask(cmd, RBP_WRITE, len, cmd->room);
}

static bool block_fill(struct block_cmd *cmd)
{
	if (!block_left(cmd))
		return false;
	if (cmd->mapped && !cmd->extent_len && block_find_extent(cmd))
		return true;
	if (!block_is_zero(cmd))
		return block_write_pattern(cmd);
	if (cmd->overwrite || !cmd->dev->backend->info.zero)
		return block_write_zeroes(cmd);
	return block_zero(cmd);
}

/* ---- the door to the store ---- */

/* Has all its blocks from its first I/O on, and nobody else uses them until it has written
 * them. */
static bool block_is_alone(const struct block_cmd *cmd)
{
	return cmd->kind == BLOCK_CMD_WRITE_ALONE ||
	       cmd->kind == BLOCK_CMD_OR ||
	       cmd->kind == BLOCK_CMD_COMPARE_WRITE ||
	       cmd->kind == BLOCK_CMD_WRITE_COMPARE;
}

/* The store may have what others have sent for these blocks: goes on later. */
static void block_has_blocks(struct block_owner *owner)
{
	struct block_cmd *cmd = container_of(owner, struct block_cmd, owner);

	if (!cmd->waited_ticks)
		cmd->waited_ticks = ticks_now();
	block_resume(cmd);
}

static bool block_uses_blocks(const struct rbp_io *io)
{
	/* Where blocks are mapped is asked of a whole volume, too. */
	return io->op && io->op != RBP_FLUSH && io->op != RBP_EXTENT;
}

/* Whether the I/O that was made has its blocks. False: it waits. */
static bool block_has_its_blocks(struct block_cmd *cmd)
{
	const struct rbp_io *io = &cmd->bio.io;

	if (cmd->owner.state != BLOCK_OWNER_NONE || !block_uses_blocks(io))
		return true;
	cmd->let_in = false;
	if (block_is_alone(cmd))
		return block_own(cmd, cmd->dev, cmd->worker, cmd->offset,
				 cmd->len, BLOCK_ALONE, block_has_blocks);
	return block_own(cmd, cmd->dev, cmd->worker, io->offset, io->len,
			 io->op == RBP_READ ? BLOCK_READS : BLOCK_CHANGES,
			 block_has_blocks);
}

/* Not before it has the blocks: see block_cmd.barred. */
static bool block_is_let_in(struct block_cmd *cmd)
{
	if (!cmd->let_in && cmd->barred && cmd->barred(cmd)) {
		cmd->was_barred = true;
		cmd->res = -EACCES;
	}
	cmd->let_in = true;
	return !cmd->was_barred;
}

/* The answer to the I/O has been handled. */
static void block_leaves_door(struct block_cmd *cmd)
{
	if (!block_is_alone(cmd))
		block_owner_drop(&cmd->owner);
}

void block_stop_waiting(struct block_cmd *cmd)
{
	if (cmd->state == BLOCK_CMD_KEEPING) {
		if (!writers_stop_waiting(&cmd->dev->writers, &cmd->wait))
			return;
		cmd->state = BLOCK_CMD_ANSWERED;
		cmd->was_stopped = true;
		cmd->res = -ECANCELED;
		cmd->done(cmd);
		return;
	}
	if (cmd->owner.state != BLOCK_OWNER_WAITS &&
	    cmd->owner.state != BLOCK_OWNER_ASKS)
		return;
	block_owner_drop(&cmd->owner);
	cmd->owner.has(&cmd->owner);
}

/* ---- the driver ---- */

/* Makes the next I/O of the current phase. False: the phase needs no more. */
static bool block_phase_asks(struct block_cmd *cmd)
{
	switch (*cmd->phase) {
	case PHASE_SETTLE:
		return cmd->fua && cmd->dev->write_cache &&
		       block_ask_flush(cmd);
	case PHASE_READ:
		return block_read(cmd);
	case PHASE_LOOK:
		return block_look(cmd);
	case PHASE_WRITE:
		return block_write(cmd);
	case PHASE_FILL:
		return block_fill(cmd);
	case PHASE_UNMAP:
		return block_unmap(cmd);
	case PHASE_EXTENT:
		return block_find_extent(cmd);
	case PHASE_SECURE:
		return cmd->unstable && block_must_be_stable(cmd) &&
		       block_ask_flush(cmd);
	case PHASE_FLUSH:
		return block_ask_flush(cmd);
	case PHASE_PATH:
		return block_ask_path(cmd);
	case PHASE_USAGE:
		block_ask(cmd, 0, 0, NULL);
		return true;
	case PHASE_END:
		return false;
	}
	return false;
}

/* Goes through the phases until there is an I/O to make. False: the command has
 * ended. */
static bool block_next(struct block_cmd *cmd)
{
	while (!cmd->res && !cmd->differs && *cmd->phase != PHASE_END) {
		if (block_phase_asks(cmd))
			return true;
		cmd->phase++;
		cmd->at = 0;
	}
	return false;
}

/* Handles the result of the I/O, which still has its blocks: those in memory are compared
 * where they are. */
static void block_handle(struct block_cmd *cmd, int res)
{
	const struct rbp_io *io = &cmd->bio.io;

	if (!io->op) {
		cmd->res = res;
		cmd->phase++;
		return;
	}
	block_note_answer(cmd, res);
	if (res) {
		cmd->res = res;
		atomic_fetch_add(&cmd->dev->errors[io->op], 1);
		return;
	}
	switch (io->op) {
	case RBP_FLUSH:
		cmd->unstable = false;
		cmd->phase++;
		cmd->at = 0;
		return;
	case RBP_EXTENT:
		block_extent_found(cmd);
		return;
	case RBP_READ:
		if (*cmd->phase == PHASE_LOOK)
			block_look_at(cmd, io->buf, io->len);
		else
			cmd->phase++;
		return;
	case RBP_WRITE:
	case RBP_UNMAP:
	case RBP_ZERO:
		cmd->unstable |=
			cmd->dev->write_cache && !(io->flags & RBP_FUA);
		cmd->extent_len = 0;
		cmd->at += io->len;
		return;
	}
}

static void block_take(struct block_cmd *cmd, int res)
{
	block_handle(cmd, res);
	block_leaves_door(cmd);
}

static bool block_is_stopped(struct block_cmd *cmd)
{
	cmd->was_stopped = cmd->stop && *cmd->stop;
	if (cmd->was_stopped)
		cmd->res = -ECANCELED;
	return cmd->was_stopped;
}

/* After a piece; a flush is not a piece. */
static bool block_pauses(struct block_cmd *cmd)
{
	if (!cmd->pause || cmd->bio.io.op == RBP_FLUSH)
		return false;
	cmd->pause(cmd);
	return true;
}

/* Submits one I/O after the other. A store may answer each of a long series at
 * once, and the stack must not grow with it. True: the command has ended. */
static bool block_drive(struct block_cmd *cmd)
{
	while (block_next(cmd)) {
		if (block_is_stopped(cmd))
			break;
		if (!block_has_its_blocks(cmd))
			return false;
		if (!block_is_let_in(cmd))
			break;
		cmd->state = BLOCK_CMD_ASKING;
		block_submit(cmd);
		if (cmd->state == BLOCK_CMD_ASKING) {
			cmd->state = BLOCK_CMD_WAITING;
			return false;
		}
		block_take(cmd, cmd->answer);
		if (block_pauses(cmd))
			return false;
	}
	return block_end(cmd);
}

static void block_answered(struct block_io *bio, int res)
{
	struct block_cmd *cmd = container_of(bio, struct block_cmd, bio);

	if (cmd->state == BLOCK_CMD_ASKING) {
		cmd->state = BLOCK_CMD_ANSWERED;
		cmd->answer = res;
		return;
	}
	block_take(cmd, res);
	if (!block_pauses(cmd))
		block_resume(cmd);
}

void block_resume(struct block_cmd *cmd)
{
	if (block_drive(cmd))
		cmd->done(cmd);
}

bool block_start(struct block_cmd *cmd)
{
	cmd->phase = plans[cmd->kind];
	if (cmd->kind == BLOCK_CMD_READ && !cmd->fua)
		cmd->phase++; /* nothing to settle */
	cmd->at = 0;
	cmd->extent_len = 0;
	cmd->res = 0;
	cmd->was_stopped = false;
	cmd->was_barred = false;
	cmd->let_in = true;
	cmd->differs = false;
	cmd->unstable = false;
	cmd->loses = false;
	cmd->bio.worker = cmd->worker;
	cmd->bio.done = block_answered;
	return block_drive(cmd);
}

/* ---- properties of a device ---- */

enum block_caching block_caching(const struct block_device *dev)
{
	const struct backend_info *store = &dev->backend->info;

	if (store->memory)
		return BLOCK_CACHES_ALL;
	return store->read_cache ? BLOCK_CACHES_READS : BLOCK_CACHES_NOTHING;
}

bool block_leaves_traces(const struct block_device *dev)
{
	return !dev->backend->info.memory;
}

uint64_t block_unmap_max(const struct block_device *dev)
{
	return dev->backend->info.memory ? UNMAP_MAX_MEMORY : UNMAP_MAX;
}
