/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/data.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fuse/answer.h"
#include "fuse/open_file.h"
#include "fuse/slots.h"
#include "fuse/space.h"
#include "base/log.h"

/* ---- commands for the target ---- */

int data_errno(int err)
{
	switch (err) {
	case -ENOTCONN:
	case -ENODEV: /* the volume has left */
	case -ECANCELED:
	case -EBUSY:
	case -EAGAIN:
		return -EIO;
	default:
		return err;
	}
}

static const char *const data_op_names[] = {
	[SRPI_READ] = "read",
	[SRPI_WRITE] = "write",
	[SRPI_FLUSH] = "flush",
	[SRPI_DISCARD] = "discard",
	[SRPI_WRITE_ZEROES] = "write of zeroes",
	[SRPI_EXTENT] = "look for holes",
};

/* Programs get an errno. The log has the answer of the target, for the
 * administrator. A lost connection has a line of its own. */
static void data_log_failure(struct slot *slot, const struct srpi_io *io,
			     int err)
{
	static struct log_limit limit; /* one thread serves a mount */
	char where[64] = "", answer[SRPI_ANSWER_SIZE];
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	unsigned int dropped;

	if (!srpi_io_answer(io, answer) || !log_limit_pass(&limit, 5, &dropped))
		return;
	if (dropped)
		log_error("%u more errors of volumes were not logged", dropped);
	srpi_session_info(dev_session(slot->dev), &si);
	if (io->op != SRPI_FLUSH)
		snprintf(where, sizeof(where), " of %llu bytes at %llu",
			 (unsigned long long)io->len,
			 (unsigned long long)io->offset);
	log_error("volume %s: %s%s failed: %s; %s answered %s: %s",
		  slot->file->info->name, data_op_names[io->op], where,
		  strerror(-err), si.peer, si.local, answer);
}

static void data_part_done(struct srpi_io *io, int res)
{
	struct slot *slot = io->arg;

	if (res)
		data_log_failure(slot, io, res);
	if (res && !slot->commands.err)
		slot->commands.err = res;
	if (--slot->commands.pending == 0)
		slot->commands.then(slot);
}

static void data_send_part(struct slot *slot, struct srpi_io *io)
{
	io->volume = slot->file->volume;
	io->mem = dev_mem(slot->dev);
	io->done = data_part_done;
	io->arg = slot;
	slot->commands.pending++;
	if (slot->has_blocks)
		srpi_range_submit(dev_session(slot->dev), &slot->blocks, io);
	else
		srpi_submit(dev_session(slot->dev), io);
}

void data_submit(struct slot *slot, void (*then)(struct slot *slot))
{
	slot->commands.err = 0;
	slot->commands.then = then;
	data_send_part(slot, &slot->commands.io);
}

/* ---- ranges that are not aligned to blocks ---- */

static bool data_is_one_block(const struct slot *slot)
{
	return data_round_up(slot, slot->range.offset + slot->range.len) -
		       data_round_down(slot, slot->range.offset) ==
	       slot->file->info->block_size;
}

uint8_t *data_tail_block(const struct slot *slot)
{
	return data_begin_is_unaligned(slot) && data_is_one_block(slot)
		       ? slot_head(slot)
		       : slot_tail(slot);
}

static bool data_is_unaligned(const struct slot *slot)
{
	return data_begin_is_unaligned(slot) || data_end_is_unaligned(slot);
}

static void data_blocks_taken(struct srpi_range *blocks)
{
	struct slot *slot = container_of(blocks, struct slot, blocks);

	slot->commands.then(slot);
}

void data_take_blocks(struct slot *slot, void (*then)(struct slot *slot))
{
	uint64_t begin = data_round_down(slot, slot->range.offset);
	uint64_t end =
		data_round_up(slot, slot->range.offset + slot->range.len);

	slot->has_blocks = data_is_unaligned(slot);
	if (!slot->has_blocks) {
		then(slot);
		return;
	}
	slot->blocks = (struct srpi_range){ .volume = slot->file->volume,
					    .offset = begin,
					    .len = end - begin,
					    .taken = data_blocks_taken };
	slot->commands.then = then;
	if (srpi_range_take(dev_session(slot->dev), &slot->blocks))
		then(slot);
}

static void data_set_edge(struct slot *slot, struct srpi_io *io,
			  enum srpi_op op, uint64_t pos, uint8_t *buf)
{
	io->op = op;
	io->offset = data_round_down(slot, pos);
	io->len = slot->file->info->block_size;
	io->buf = buf;
	io->fua = false;
}

void data_edges(struct slot *slot, enum srpi_op op,
		void (*then)(struct slot *slot))
{
	uint64_t end = slot->range.offset + slot->range.len;
	bool head = data_begin_is_unaligned(slot);
	bool tail = data_end_is_unaligned(slot) &&
		    !(head && data_is_one_block(slot));

	assert(head || tail);
	slot->commands.err = 0;
	slot->commands.then = then;
	if (head) {
		data_set_edge(slot, &slot->commands.io, op, slot->range.offset,
			      slot_head(slot));
		data_send_part(slot, &slot->commands.io);
	}
	if (tail) {
		data_set_edge(slot, &slot->commands.edge, op, end,
			      slot_tail(slot));
		data_send_part(slot, &slot->commands.edge);
	}
}

void data_give_blocks_back(struct slot *slot)
{
	/* Also after an error: part of the data may be written. */
	tree_file_touch(slot->file);
	if (slot->has_blocks)
		srpi_range_give_back(dev_session(slot->dev), &slot->blocks);
	slot->has_blocks = false;
}

/* ---- holes ---- */

static void data_fill_next_hole(struct slot *slot);

static void data_hole_zeroed(struct slot *slot)
{
	struct open_file *open =
		open_file_find(dev_user(slot->dev), slot->file, slot->fh);

	if (open)
		open_file_hole_zeroed(open, slot, slot->commands.err);
	data_give_blocks_back(slot);
	if (slot->commands.err)
		slot->work.filled(slot);
	else
		data_fill_next_hole(slot);
}

static void data_zero_hole(struct slot *slot)
{
	space_zero(slot, data_hole_zeroed);
}

static void data_fill_next_hole(struct slot *slot)
{
	const struct open_file *open =
		open_file_find(dev_user(slot->dev), slot->file, slot->fh);

	struct open_hole *hole = open ? open_file_next_hole(open) : NULL;

	if (!hole) {
		slot->work.filled(slot);
		return;
	}
	hole->zeroing = slot;
	slot->range.offset = hole->begin;
	slot->range.len = hole->end - hole->begin;
	slot->work.discard = true;
	data_take_blocks(slot, data_zero_hole);
}

void data_fill_holes(struct slot *slot, void (*filled)(struct slot *slot))
{
	slot->commands.err = 0;
	slot->work.filled = filled;
	data_fill_next_hole(slot);
}

/* ---- READ ---- */

static void data_read_done(struct slot *slot)
{
	if (slot->commands.err)
		answer_error(slot, data_errno(slot->commands.err));
	else
		answer_data(slot, (uint32_t)slot->range.len);
}

/* Prepares the command for the blocks that contain the range. The first byte of
 * the range lies at slot->data. */
static void data_prepare(struct slot *slot, enum srpi_op op)
{
	uint64_t end = slot->range.offset + slot->range.len;
	uint64_t begin = data_round_down(slot, slot->range.offset);

	slot->commands.io.op = op;
	slot->commands.io.offset = begin;
	slot->commands.io.len = data_round_up(slot, end) - begin;
	slot->commands.io.buf = slot->data - (slot->range.offset - begin);
}

static void data_start_read(struct slot *slot, const struct fuse_read_in *in)
{
	uint64_t size = slot->file->info->size;

	slot->range = (struct byte_range){ in->offset, in->size };
	if (slot->range.len > dev_max_write(slot->dev)) {
		answer_error(slot, -EINVAL);
		return;
	}
	if (slot->range.offset >= size)
		slot->range.len = 0;
	else if (slot->range.len > size - slot->range.offset)
		slot->range.len = size - slot->range.offset;
	if (slot->range.len == 0) {
		answer_data(slot, 0);
		return;
	}
	data_prepare(slot, SRPI_READ);
	data_submit(slot, data_read_done);
}

/* ---- WRITE ---- */

static void data_write_done(struct slot *slot)
{
	data_give_blocks_back(slot);
	if (slot->commands.err)
		answer_error(slot, data_errno(slot->commands.err));
	else
		answer_written(slot, (uint32_t)slot->range.len);
}

/* Writes the payload, and the bytes that data_merge_edges() put around it. */
static void data_write_blocks(struct slot *slot)
{
	data_prepare(slot, SRPI_WRITE);
	slot->commands.io.fua = slot->work.fua;
	data_submit(slot, data_write_done);
}

/* Completes the first and the last block with their old bytes. */
static void data_merge_edges(struct slot *slot)
{
	uint64_t end = slot->range.offset + slot->range.len;
	size_t before =
		slot->range.offset - data_round_down(slot, slot->range.offset);
	size_t after = data_round_up(slot, end) - end;
	size_t block = slot->file->info->block_size;

	if (slot->commands.err) {
		data_write_done(slot);
		return;
	}
	memcpy(slot->data - before, slot_head(slot), before);
	memcpy(slot->data + slot->range.len,
	       data_tail_block(slot) + (block - after), after);
	data_write_blocks(slot);
}

static void data_write_range(struct slot *slot)
{
	if (data_is_unaligned(slot))
		data_edges(slot, SRPI_READ, data_merge_edges);
	else
		data_write_blocks(slot);
}

static void data_write_filled(struct slot *slot)
{
	if (slot->commands.err) {
		answer_error(slot, data_errno(slot->commands.err));
		return;
	}
	slot->range = slot->work.write;
	data_take_blocks(slot, data_write_range);
}

/* Returns 0, 1 if there is nothing to write, or a negative errno. */
static int data_check_write(struct slot *slot, const struct fuse_in_header *h,
			    const struct fuse_write_in *in)
{
	uint64_t size = slot->file->info->size;

	if (in->size != h->len - sizeof(*h) - sizeof(*in) ||
	    in->size > dev_max_write(slot->dev))
		return -EINVAL;
	if (slot->file->read_only)
		return -EROFS;
	if (in->size == 0)
		return 1;
	if (in->offset >= size)
		return -EFBIG;
	return 0;
}

static void data_start_write(struct slot *slot, const struct fuse_in_header *h,
			     const struct fuse_write_in *in)
{
	struct open_file *open =
		open_file_find(dev_user(slot->dev), slot->file, in->fh);
	int err = data_check_write(slot, h, in);

	if (err >= 0 && !open)
		err = -EBADF;
	if (err < 0) {
		answer_error(slot, err);
		return;
	}
	if (err) {
		answer_written(slot, 0);
		return;
	}
	slot->fh = in->fh;
	slot->work.write = (struct byte_range){ in->offset, in->size };
	/* A write across the end is cut short, as on a block device. */
	if (slot->work.write.len > slot->file->info->size - in->offset)
		slot->work.write.len = slot->file->info->size - in->offset;
	/* The kernel sets O_DSYNC also for RWF_DSYNC. */
	slot->work.fua = in->flags & O_DSYNC;
	err = open_file_written(open, in->offset,
				in->offset + slot->work.write.len);
	if (err)
		answer_error(slot, err);
	else
		data_fill_holes(slot, data_write_filled);
}

/* ---- FSYNC ---- */

static void data_fsync_done(struct slot *slot)
{
	struct tree_file *f = slot->file;
	/* NULL: the kernel has closed it meanwhile, with a wrong handle. */
	struct open_file *open =
		open_file_find(dev_user(slot->dev), f, slot->fh);

	bool refused =
		slot->commands.err && srpi_io_refused(&slot->commands.io);

	f->unflushed |= slot->commands.err != 0;
	/* A flush that was not sent lost nothing. If the target has lost writes, the
	 * next one that it answers fails, and tells all. */
	if (slot->commands.err && !refused)
		f->errors++;
	else if (!slot->commands.err &&
		 (!open || open->errors_seen != f->errors))
		slot->commands.err = -EIO;
	if (open && !refused)
		open->errors_seen = f->errors;
	answer_error(slot, data_errno(slot->commands.err));
}

static void data_start_fsync(struct slot *slot, const struct fuse_fsync_in *in)
{
	slot->fh = in->fh;
	slot->file->unflushed = false;
	slot->commands.io.op = SRPI_FLUSH;
	slot->commands.io.offset = 0;
	slot->commands.io.len = 0;
	data_submit(slot, data_fsync_done);
}

/* ---- arrival ---- */

_Static_assert(sizeof(struct fuse_in_header) + sizeof(struct fuse_read_in) <=
		       SLOT_HEADERS_LEN,
	       "READ");
_Static_assert(sizeof(struct fuse_in_header) +
			       sizeof(struct fuse_fallocate_in) <=
		       SLOT_HEADERS_LEN,
	       "FALLOCATE");

static size_t data_args_len(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_READ:
		return sizeof(struct fuse_read_in);
	case FUSE_WRITE:
		return sizeof(struct fuse_write_in);
	case FUSE_FSYNC:
		return sizeof(struct fuse_fsync_in);
	case FUSE_FALLOCATE:
		return sizeof(struct fuse_fallocate_in);
	case FUSE_LSEEK:
		return sizeof(struct fuse_lseek_in);
	default:
		return 0;
	}
}

/* data_request() has checked the length of the request. */
static void data_start_request(struct slot *slot)
{
	const struct fuse_in_header *in = (const void *)slot->request.headers;
	const void *args = in + 1;

	if (dev_fair_queue(slot->dev)->closed || slot->file->gone) {
		answer_error(slot, -EIO);
		return;
	}
	switch (in->opcode) {
	case FUSE_READ:
		data_start_read(slot, args);
		break;
	case FUSE_WRITE:
		data_start_write(slot, in, args);
		break;
	case FUSE_FSYNC:
		data_start_fsync(slot, args);
		break;
	case FUSE_FALLOCATE:
		space_fallocate(slot, args);
		break;
	case FUSE_LSEEK:
		space_lseek(slot, args);
		break;
	}
}

bool data_request(struct slot *slot, const struct fuse_in_header *in)
{
	struct tree *tree = dev_user(slot->dev);
	size_t len = data_args_len(in->opcode);

	if (len == 0)
		return false;
	slot->file = tree_file_of(tree, in->nodeid);
	if (slot->file && slot->file->meter)
		file_meter_begin(slot);
	if (!slot->file || in->len < sizeof(*in) + len)
		answer_error(slot, -EINVAL);
	else
		fair_queue_run(slot, data_start_request);
	return true;
}
