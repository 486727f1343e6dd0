/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srpi_submit() makes SCSI commands of an operation in bytes, one after the
 * other, each as large as the volume takes.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_pages.h"

/* What srpi_io.priv holds. */
struct io {
	struct ini_cmd cmd;
	struct srpi_session *session;
	struct ini_volume *volume;
	uint64_t pos;	   /* bytes done */
	uint64_t step_len; /* bytes of the command in flight */
	bool step_fua;	   /* its CDB asks for FUA */
	bool flush; /* FUA was asked for, and a command was sent without it */
	/* Counts of the volume when the operation, or its flush, began. */
	uint64_t written;
	uint64_t losses;
	/* Of a write that is not in a range of the program. */
	struct ini_range range;
};

_Static_assert(sizeof(struct io) <= sizeof(((struct srpi_io *)0)->priv),
	       "srpi_io.priv is too small");

static struct io *io_of(struct srpi_io *sio)
{
	return (struct io *)(void *)sio->priv;
}

static struct srpi_io *sio_of(struct io *io)
{
	return container_of((uint64_t *)(void *)io, struct srpi_io, priv[0]);
}

static struct ini_volume *blockdev_volume_of(struct srpi_io *sio)
{
	return io_of(sio)->volume;
}

static void blockdev_step(struct srpi_io *sio);
static void blockdev_flush(struct srpi_io *sio);

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_write(enum srpi_op op)
{
	return op == SRPI_WRITE || op == SRPI_DISCARD ||
	       op == SRPI_WRITE_ZEROES;
}

/* The next write of its bytes goes on. */
static __attribute__((noinline)) void blockdev_give_range_back(struct io *io)
{
	if (io->range.held)
		ini_range_give_back(io->volume->ranges, &io->range);
}

/* An operation that has begun is over. */
static inline void blockdev_io_done(struct srpi_io *sio, int err)
{
	if (is_write(sio->op))
		blockdev_give_range_back(io_of(sio));
	sio->done(sio, err);
}

/* ---- one command of each kind; they return the bytes that it covers ---- */

static uint64_t make_rw(struct srpi_io *sio, uint64_t left)
{
	const struct ini_volume *vol = blockdev_volume_of(sio);
	struct io *io = io_of(sio);
	uint64_t len = min64(left, vol->info.max_transfer);
	uint64_t lba = (sio->offset + io->pos) >> vol->block_shift;
	uint32_t blocks = (uint32_t)(len >> vol->block_shift);

	if (sio->op == SRPI_READ) {
		scsi_cdb_read(lba, blocks, false, io->cmd.cdb);
		io->cmd.dir = INI_DATA_IN;
	} else {
		io->step_fua = sio->fua && vol->info.fua;
		scsi_cdb_write(lba, blocks, io->step_fua, io->cmd.cdb);
		io->cmd.dir = INI_DATA_OUT;
	}
	io->cmd.buf = (char *)sio->buf + io->pos;
	io->cmd.mr = sio->mem->mr;
	io->cmd.len = (uint32_t)len;
	return len;
}

static void make_flush(struct srpi_io *sio)
{
	scsi_cdb_sync_cache(0, 0, io_of(sio)->cmd.cdb);
	io_of(sio)->cmd.dir = INI_NO_DATA;
	io_of(sio)->cmd.len = 0;
	io_of(sio)->cmd.fence = true;
}

/* @len: at most INI_ZEROES_LEN. */
static void send_zeroes(struct io *io, uint32_t len)
{
	io->cmd.dir = INI_DATA_OUT;
	io->cmd.buf = io->session->zeroes;
	io->cmd.mr = io->session->zeroes_mem->mr;
	io->cmd.len = len;
}

static uint64_t make_write_same(struct srpi_io *sio, uint64_t left,
				unsigned int flags)
{
	struct ini_volume *vol = blockdev_volume_of(sio);
	struct io *io = io_of(sio);
	uint32_t bs = vol->info.block_size;
	uint64_t blocks = min64(left / bs, vol->max_write_same_blocks);

	scsi_cdb_write_same_16((sio->offset + io->pos) / bs, (uint32_t)blocks,
			       flags, io->cmd.cdb);
	send_zeroes(io, bs);
	return blocks * bs;
}

static uint64_t make_unmap(struct srpi_io *sio, uint64_t left)
{
	struct ini_volume *vol = blockdev_volume_of(sio);
	struct io *io = io_of(sio);
	uint32_t bs = vol->info.block_size;
	uint64_t blocks = min64(left / bs, vol->max_unmap_blocks);
	const struct scsi_extent extent = {
		.lba = (sio->offset + io->pos) / bs,
		.blocks = (uint32_t)blocks,
	};

	io->cmd.dir = INI_PARAM_OUT;
	io->cmd.len = (uint32_t)scsi_unmap_encode(&extent, 1, io->cmd.param,
						  INI_PARAM_MAX);
	scsi_cdb_unmap((uint16_t)io->cmd.len, io->cmd.cdb);
	return blocks * bs;
}

/* For targets without WRITE SAME: plain writes of zeroes. */
static uint64_t make_zero_write(struct srpi_io *sio, uint64_t left)
{
	const struct srpi_volume_info *info = &blockdev_volume_of(sio)->info;
	struct io *io = io_of(sio);
	uint64_t len = min64(min64(left, INI_ZEROES_LEN), info->max_transfer);

	scsi_cdb_write((sio->offset + io->pos) / info->block_size,
		       (uint32_t)(len / info->block_size), false, io->cmd.cdb);
	send_zeroes(io, (uint32_t)len);
	return len;
}

/*
 * SBC-3: what WRITE SAME with the UNMAP bit does not deallocate, it zeroes. Some
 * targets take the bit for a request to discard, and the store behind them
 * ignores what is less than a granule: Linux's LIO above scsi_debug. So only
 * whole granules get the bit.
 */
static uint64_t make_unmapped_zeroes(struct srpi_io *sio, uint64_t left)
{
	const struct ini_volume *vol = blockdev_volume_of(sio);
	uint64_t bs = vol->info.block_size;
	uint64_t granule = vol->info.unmap_granularity;
	uint64_t at = sio->offset + io_of(sio)->pos;
	uint64_t before;

	if (granule <= bs)
		return make_write_same(sio, left, SCSI_WRITE_SAME_UNMAP);
	/* to the begin of a granule */
	before = (vol->unmap_alignment % granule + granule - at % granule) %
		 granule;
	if (before || left < granule)
		return make_write_same(sio, before ? min64(before, left) : left,
				       0);
	left = min64(left, vol->max_write_same_blocks * bs);
	return make_write_same(sio, left - left % granule,
			       SCSI_WRITE_SAME_UNMAP);
}

static uint64_t blockdev_make_zeroes(struct srpi_io *sio, uint64_t left,
				     bool may_unmap)
{
	struct ini_volume *vol = blockdev_volume_of(sio);

	if (vol->no_write_same)
		return make_zero_write(sio, left);
	if (may_unmap && vol->write_same_unmap)
		return make_unmapped_zeroes(sio, left);
	return make_write_same(sio, left, 0);
}

/* If the volume has unmap_zeroes, UNMAP would not do: the target may leave
 * blocks as they are. */
static uint64_t make_discard(struct srpi_io *sio, uint64_t left)
{
	const struct ini_volume *vol = blockdev_volume_of(sio);

	if (vol->write_same_unmap)
		return blockdev_make_zeroes(sio, left, /* may_unmap= */ true);
	if (vol->unmap_by_write_same)
		return make_write_same(sio, left, SCSI_WRITE_SAME_UNMAP);
	return make_unmap(sio, left);
}

#define LBA_STATUS_LEN (SCSI_LBA_STATUS_HEADER_LEN + SCSI_LBA_STATUS_DESC_LEN)
_Static_assert(LBA_STATUS_LEN <= INI_PARAM_MAX, "ini_cmd.param is too small");

/* Makes the next command of an operation on a range. */
static uint64_t make_step(struct srpi_io *sio, uint64_t left)
{
	io_of(sio)->step_fua = false;
	if (sio->op == SRPI_DISCARD)
		return make_discard(sio, left);
	if (sio->op == SRPI_WRITE_ZEROES)
		return blockdev_make_zeroes(sio, left, sio->discard);
	return make_rw(sio, left);
}

/* ---- the life of an operation ---- */

/* The target refused WRITE SAME. From now on, write zeroes with WRITE. */
static bool without_write_same(struct srpi_io *sio, int err)
{
	struct ini_volume *vol = blockdev_volume_of(sio);
	bool zeroes = sio->op == SRPI_WRITE_ZEROES ||
		      (sio->op == SRPI_DISCARD && vol->write_same_unmap);

	if (!zeroes || vol->no_write_same ||
	    (err != -EOPNOTSUPP && err != -EINVAL))
		return false;
	vol->no_write_same = true;
	return true;
}

static bool data_is_short(const struct ini_cmd *cmd)
{
	return cmd->dir != INI_NO_DATA && cmd->data_len != cmd->len;
}

/*
 * The flush of a stable write has failed. The error may be of other writes. A
 * target that asks a file system reports it once only, LIO for example.
 */
static void blockdev_note_failed_flush(struct ini_volume *vol,
				       const struct ini_cmd *cmd)
{
	if (cmd->status == SCSI_STATUS_CHECK_CONDITION ||
	    cmd->status == SCSI_STATUS_TASK_ABORTED)
		vol->losses++;
}

static void blockdev_flushed(struct ini_cmd *cmd, int err)
{
	struct srpi_io *sio = sio_of(container_of(cmd, struct io, cmd));
	struct ini_volume *vol = blockdev_volume_of(sio);
	uint64_t told = vol->losses_told;

	/* The unit has no cache, or reports none, and knows no SYNCHRONIZE
	 * CACHE. */
	if (err == -EOPNOTSUPP &&
	    (vol->cache_unknown || !vol->info.write_cache)) {
		vol->info.write_cache = false;
		err = 0;
	}
	if (!err && sio->op == SRPI_FLUSH)
		err = ini_volume_flushed(vol, io_of(sio)->written);
	/* This failure also reports the losses that were known when it
	 * began. */
	else if (err && sio->op == SRPI_FLUSH &&
		 vol->losses_told < io_of(sio)->losses)
		vol->losses_told = io_of(sio)->losses;
	else if (err && sio->op != SRPI_FLUSH && !cmd->refused)
		blockdev_note_failed_flush(vol, cmd);
	/* The data to flush may have been lost before. */
	else if (!err && io_of(sio)->losses != vol->losses)
		err = -EIO;
	/* It reports a loss, whatever became of the command. */
	if (vol->losses_told != told)
		cmd->refused = false;
	blockdev_io_done(sio, err);
}

static void submit_cmd(struct io *io, void (*done)(struct ini_cmd *, int))
{
	io->cmd.volume = io->volume;
	io->cmd.lun = io->volume->lun_field;
	io->cmd.done = done;
	ini_session_submit(io->session, &io->cmd);
}

/*
 * A command was acknowledged, and its data may be in a cache. The FUA bit of
 * its CDB counts, not the present state of the volume. If the volume does not
 * know FUA any more, the bit does not count either.
 */
static void blockdev_note_written(struct srpi_io *sio)
{
	struct ini_volume *vol = blockdev_volume_of(sio);

	if (io_of(sio)->step_fua && vol->info.fua)
		return;
	ini_volume_written(vol);
	io_of(sio)->flush |= sio->fua && sio->op != SRPI_DISCARD;
}

static __attribute__((noinline)) void blockdev_write_step_done(struct io *io,
							       int err)
{
	struct srpi_io *sio = sio_of(io);

	if (err && without_write_same(sio, err)) {
		blockdev_step(sio);
		return;
	}
	if (err) {
		blockdev_io_done(sio, err);
		return;
	}
	blockdev_note_written(sio);
	io->pos += io->step_len;
	if (io->pos < sio->len)
		blockdev_step(sio);
	else if (io->flush)
		blockdev_flush(sio);
	else
		blockdev_io_done(sio, 0);
}

static void blockdev_step_done(struct ini_cmd *cmd, int err)
{
	struct io *io = container_of(cmd, struct io, cmd);
	struct srpi_io *sio = sio_of(io);

	if (!err && data_is_short(cmd))
		err = -EIO;
	if (sio->op != SRPI_READ) {
		blockdev_write_step_done(io, err);
		return;
	}
	io->pos += io->step_len;
	if (!err && io->pos < sio->len)
		blockdev_step(sio);
	else
		sio->done(sio, err);
}

static void blockdev_stopped(struct ini_cmd *cmd, int err)
{
	blockdev_io_done(sio_of(container_of(cmd, struct io, cmd)), err);
}

/* There are bytes left. */
static void blockdev_step(struct srpi_io *sio)
{
	struct io *io = io_of(sio);

	/* The volume may have changed since the last step. Without UNMAP, a step
	 * would cover no block. */
	if (sio->op == SRPI_DISCARD && !io->volume->info.unmap) {
		io->cmd.done = blockdev_stopped;
		ini_session_refuse(io->session, &io->cmd, -EOPNOTSUPP);
		return;
	}
	io->step_len = make_step(sio, sio->len - io->pos);
	submit_cmd(io, blockdev_step_done);
}

static void blockdev_flush(struct srpi_io *sio)
{
	make_flush(sio);
	submit_cmd(io_of(sio), blockdev_flushed);
}

/* ---- GET LBA STATUS ---- */

static void extent_unknown(struct srpi_io *sio)
{
	sio->extent_mapped = true;
	sio->extent_len = sio->len;
}

static void extent_done(struct ini_cmd *cmd, int err)
{
	struct io *io = container_of(cmd, struct io, cmd);
	struct srpi_io *sio = sio_of(io);
	struct ini_volume *vol = blockdev_volume_of(sio);
	uint32_t bs = vol->info.block_size;
	struct scsi_lba_range range;
	uint64_t lba = sio->offset / bs;
	size_t cnt;

	if (err == -EOPNOTSUPP || err == -EINVAL) {
		vol->no_lba_status = true;
		extent_unknown(sio);
		err = 0;
	} else if (!err && scsi_lba_status_decode(cmd->param, cmd->data_len,
						  lba, &range, 1, &cnt)) {
		err = -EIO;
	} else if (!err) {
		sio->extent_mapped = range.state != SCSI_LBA_DEALLOCATED;
		sio->extent_len =
			min64((range.lba + range.blocks - lba) * bs, sio->len);
	}
	blockdev_io_done(sio, err);
}

static void ask_extent(struct srpi_io *sio)
{
	struct io *io = io_of(sio);

	scsi_cdb_get_lba_status(
		sio->offset / blockdev_volume_of(sio)->info.block_size,
		LBA_STATUS_LEN, io->cmd.cdb);
	io->cmd.dir = INI_PARAM_IN;
	io->cmd.len = LBA_STATUS_LEN;
	submit_cmd(io, extent_done);
}

/* ---- the door ---- */

static bool needs_memory(enum srpi_op op)
{
	return op == SRPI_READ || op == SRPI_WRITE;
}

/* The session is closing, or neither RUNNING nor BLOCKED. */
static int blockdev_refusal(const struct srpi_session *s)
{
	if (s->closing || s->state == SRPI_CLOSED)
		return -ECANCELED;
	return s->state == SRPI_CONNECTING ? -ENOTCONN : -EIO;
}

/* The volume is not RUNNING. A program that has used it gets the same error as without a
 * connection. */
static int blockdev_volume_refusal(const struct ini_volume *vol)
{
	if (vol->state == SRPI_BLOCKED)
		return 0;
	return vol->state == SRPI_FAIL_FAST && vol->is_used ? -EIO : -ENODEV;
}

/* 0, or the errno that refuses the operation. */
static inline int blockdev_check(const struct srpi_session *s,
				 const struct srpi_io *sio)
{
	const struct srpi_volume_info *info;
	const struct ini_volume *vol;

	if (s->closing ||
	    (s->state != SRPI_RUNNING && s->state != SRPI_BLOCKED))
		return blockdev_refusal(s);
	if (sio->volume >= s->volume_cnt)
		return -EINVAL;
	vol = s->volumes[sio->volume];
	if (vol->state != SRPI_RUNNING && blockdev_volume_refusal(vol))
		return blockdev_volume_refusal(vol);
	if (sio->op == SRPI_FLUSH)
		return 0;
	info = &vol->info;
	if (needs_memory(sio->op) && !sio->mem)
		return -EINVAL;
	/* A block size is a power of two. */
	if ((sio->offset | sio->len) & (info->block_size - 1))
		return -EINVAL;
	if (sio->offset > info->size || sio->len > info->size - sio->offset)
		return -EINVAL;
	if (is_write(sio->op) && info->read_only)
		return -EROFS;
	if (sio->op == SRPI_DISCARD && !info->unmap)
		return -EOPNOTSUPP;
	return 0;
}

/* Is the operation done without any command? */
static bool needs_no_command(const struct srpi_session *s,
			     const struct srpi_io *sio)
{
	const struct ini_volume *vol = s->volumes[sio->volume];

	if (sio->op == SRPI_FLUSH)
		return !vol->info.write_cache && !ini_volume_is_dirty(vol) &&
		       vol->losses == vol->losses_told;
	return sio->len == 0;
}

/* The operation has not begun. */
static void blockdev_refused(struct ini_cmd *cmd, int err)
{
	struct srpi_io *sio = sio_of(container_of(cmd, struct io, cmd));

	sio->done(sio, err);
}

/* Sets what is read before a command sets it, and no more: the state of an
 * operation is 256 bytes long. */
static void blockdev_io_init(struct io *io, struct srpi_session *s)
{
	io->session = s;
	io->pos = 0;
	io->flush = false;
	io->cmd.volume = NULL;
	io->cmd.fence = false;
	io->cmd.done = blockdev_refused;
}

static void blockdev_range_taken(struct ini_range *range)
{
	blockdev_step(sio_of(container_of(range, struct io, range)));
}

/* False: the write waits for earlier ones of its bytes. */
static bool blockdev_take_range(struct srpi_io *sio)
{
	struct io *io = io_of(sio);

	io->range.begin = sio->offset;
	io->range.end = sio->offset + sio->len;
	io->range.taken = blockdev_range_taken;
	return ini_range_take(io->volume->ranges, &io->range);
}

/* False: it needs no command, or is refused; done() follows. */
static inline __attribute__((always_inline)) bool
blockdev_begin(struct srpi_session *s, struct srpi_io *sio)
{
	struct io *io = io_of(sio);
	int err = blockdev_check(s, sio);
	struct ini_volume *vol;

	blockdev_io_init(io, s);
	if (err || needs_no_command(s, sio)) {
		ini_session_refuse(s, &io->cmd, err);
		return false;
	}
	vol = s->volumes[sio->volume];
	vol->is_used = true;
	io->volume = vol;
	io->written = vol->written;
	io->losses = vol->losses;
	return true;
}

static void blockdev_find_extent(struct srpi_io *sio)
{
	struct io *io = io_of(sio);

	if (!io->volume->no_lba_status) {
		ask_extent(sio);
		return;
	}
	extent_unknown(sio);
	ini_session_refuse(io->session, &io->cmd, 0);
}

static __attribute__((noinline)) void blockdev_start(struct srpi_io *sio,
						     bool in_range)
{
	switch (sio->op) {
	case SRPI_READ:
		blockdev_step(sio);
		break;
	case SRPI_WRITE:
	case SRPI_DISCARD:
	case SRPI_WRITE_ZEROES:
		io_of(sio)->range.held = false;
		if (in_range || blockdev_take_range(sio))
			blockdev_step(sio);
		break;
	case SRPI_FLUSH:
		blockdev_flush(sio);
		break;
	case SRPI_EXTENT:
		blockdev_find_extent(sio);
		break;
	}
}

void srpi_submit(struct srpi_session *s, struct srpi_io *sio)
{
	if (!blockdev_begin(s, sio))
		return;
	if (sio->op == SRPI_READ)
		blockdev_step(sio);
	else
		blockdev_start(sio, /* in_range= */ false);
}

bool srpi_io_refused(const struct srpi_io *sio)
{
	const struct io *io = (const struct io *)(const void *)sio->priv;

	return io->cmd.refused;
}

/* ---- ranges of the program ---- */

/* What srpi_range.priv holds. */
struct program_range {
	struct ini_range range;
	struct ini_volume *volume;
};

_Static_assert(sizeof(struct program_range) <=
		       sizeof(((struct srpi_range *)0)->priv),
	       "srpi_range.priv is too small");

static struct program_range *program_range_of(struct srpi_range *range)
{
	return (struct program_range *)(void *)range->priv;
}

static void program_range_taken(struct ini_range *range)
{
	struct srpi_range *r = container_of((uint64_t *)(void *)range,
					    struct srpi_range, priv[0]);

	r->taken(r);
}

bool srpi_range_take(struct srpi_session *s, struct srpi_range *range)
{
	struct program_range *p = program_range_of(range);

	s->ranges++;
	p->volume = s->volumes[range->volume];
	p->range.begin = range->offset;
	p->range.end = range->offset + range->len;
	p->range.taken = program_range_taken;
	return ini_range_take(p->volume->ranges, &p->range);
}

void srpi_range_submit(struct srpi_session *s, struct srpi_range *range,
		       struct srpi_io *io)
{
	assert(program_range_of(range)->range.held);
	assert(io->volume == range->volume);
	assert(io->offset >= range->offset &&
	       io->offset + io->len <= range->offset + range->len);
	if (blockdev_begin(s, io))
		blockdev_start(io, /* in_range= */ true);
}

void srpi_range_give_back(struct srpi_session *s, struct srpi_range *range)
{
	struct program_range *p = program_range_of(range);

	ini_range_give_back(p->volume->ranges, &p->range);
	s->ranges--;
	if (s->closing)
		ini_queue_end_soon(s);
}

/* ---- for a person ---- */

bool srpi_io_answer(const struct srpi_io *sio, char buf[SRPI_ANSWER_SIZE])
{
	const struct io *io = (const struct io *)(const void *)sio->priv;
	const struct ini_cmd *cmd = &io->cmd;
	char text[SCSI_SENSE_TEXT_LEN];
	char where[40] = "";

	if (cmd->status == SCSI_STATUS_GOOD)
		return false;
	if (cmd->has_sense && cmd->sense.info_valid)
		snprintf(where, sizeof(where), " at block %" PRIu64,
			 cmd->sense.info);
	snprintf(buf, SRPI_ANSWER_SIZE, "%s%s",
		 cmd->has_sense ? scsi_sense_text(&cmd->sense, text)
				: scsi_status_name(cmd->status),
		 where);
	return true;
}
