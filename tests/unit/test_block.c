/* SPDX-License-Identifier: BSD-2-Clause */
/* The block layer on a store that has all optional functions or none: which
 * requests the store gets, what comes back, and what the next process finds in
 * the journal. */
#include "target/block/block.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/t_store.h"
#include "tests/lib/t_table.h"

#define UNIT 512u
#define MIB  (1u << 20)
#define SIZE (8u * MIB)

/* What a store can do. */
enum {
	FUA = 1 << 0,
	ZERO = 1 << 1,
	UNMAP = 1 << 2,
	EXTENTS = 1 << 3,
	CACHE = 1 << 4,
	MEMORY = 1 << 5,
	THROUGH = 1 << 6, /* the device writes through: WCE is off */
};

static struct block_device dev;
static struct block_worker worker;
static uint8_t data[SIZE];
static uint8_t room[MIB];
static bool stopped;
static unsigned int ends;
static unsigned int pauses;

static const uint8_t writer[WRITER_PORT_LEN] = { 2 };
static writer_ref writer_entry;

/* ---- the device ---- */

/* What the journal has. */
static char kept[WRITERS_TEXT_MAX + 1];

static void keep(struct writers *ws)
{
	kept[writers_format(ws, "boot", "life", kept, sizeof(kept) - 1)] = '\0';
	writers_kept(ws, 0);
}

/* Nobody waits: the writer is named from the beginning, and so is a failure. */
static void keep_later(struct writers *ws, bool now)
{
}

static void name_writer(void)
{
	struct writers *ws = &dev.writers;

	ws->keep = keep_later;
	writers_wrote(ws, &writer_entry, writer);
	writers_doubt(ws);
	keep(ws);
	writers_flush_ends(ws, writers_flush_begins(ws), 0);
}

/* Block n is full of the byte n + 1. */
static void begin(unsigned int can)
{
	const struct backend_options opt = { .path = "", .block_size = UNIT };
	struct error e = { 0 };

	t_store_reset(&(struct backend_info){
		.size = SIZE,
		.unmap_granularity = can & UNMAP ? 4096 : 0,
		.durability = can & CACHE ? RBP_STABLE_AFTER_FLUSH
					  : RBP_STABLE_WHEN_ENDED,
		.fua = can & FUA,
		.zero = can & ZERO,
		.extents = can & EXTENTS,
		.memory = can & MEMORY ? data : NULL,
	});
	t_store.depth = 1;
	t_store.extent_unit = 2 * MIB;
	memset(&dev, 0, sizeof(dev));
	memset(&worker, 0, sizeof(worker));
	block_owners_init(&dev.owners);
	assert_int_equal(backend_open(&t_store_type, &opt, &dev.backend, &e),
			 0);
	assert_int_equal(backend_attach(dev.backend, &worker), 0);
	for (unsigned int i = 0; i < SIZE / UNIT; i++)
		memset(t_store.bytes + (size_t)i * UNIT, (int)(i + 1), UNIT);
	dev.write_cache = can & CACHE;
	dev.write_through = can & THROUGH;
	memset(data, 0xaa, sizeof(data));
	stopped = false;
	ends = 0;
	pauses = 0;
	writer_entry = NULL;
	writers_init(&dev.writers);
	name_writer();
}

static void end(void)
{
	writers_leave(&dev.writers, &writer_entry);
	writers_fini(&dev.writers);
	backend_detach(dev.backend, &worker);
	backend_close(dev.backend);
	block_owners_fini(&dev.owners);
}

/* True if the writer is owed a failed flush after kill -9. */
static bool owes_after_kill(void)
{
	struct writers *ws = &dev.writers;
	struct writers_found found;

	keep(ws);
	writers_leave(ws, &writer_entry);
	writers_fini(ws);
	writers_init(ws);
	assert_int_equal(writers_parse(ws, kept, &found), 0);
	if (found.failed)
		writers_lose(ws);
	writers_begin(ws, /* forget= */ false);
	return writers_owes(ws, &writer_entry, writer);
}

static void note_write(void)
{
	writers_wrote(&dev.writers, &writer_entry, writer);
}

/* ---- commands ---- */

static void cmd_done(struct block_cmd *cmd)
{
	ends++;
}

static void cmd_pause(struct block_cmd *cmd)
{
	pauses++;
}

static struct block_cmd command(enum block_kind kind, uint64_t offset,
				uint64_t len)
{
	return (struct block_cmd){
		.dev = &dev,
		.worker = &worker,
		.kind = kind,
		.buf_index = -1,
		.offset = offset,
		.len = len,
		.buf = data,
		.room = room,
		.room_len = block_room(len),
		.stop = &stopped,
		.writer = &writer_entry,
		.port = writer,
		.done = cmd_done,
	};
}

static void run(struct block_cmd *cmd)
{
	bool at_once = block_start(cmd);

	if (at_once) {
		assert_int_equal(ends, 0);
		return;
	}
	while (!ends && (t_store_answer() || cmd->pause))
		if (cmd->pause)
			block_resume(cmd);
	assert_int_equal(ends, 1);
	ends = 0;
}

/* ---- requests to the store ---- */

static const struct cmd_row {
	const char *name;
	unsigned int can;
	enum block_kind kind;
	uint64_t offset;
	uint64_t len;
	bool fua;
	bool may_unmap;
	bool overwrite;
	bool mapped;
	bool zeroes;
	const char *ops;
} cmd_rows[] = {
	{ "READ", CACHE, BLOCK_CMD_READ, 512, 1024, .ops = "read 512+1024" },
	{ "READ, FUA", CACHE | FUA, BLOCK_CMD_READ, 512, 512, .fua = true,
	  .ops = "flush, read 512+512" },
	{ "READ, FUA, no cache", FUA, BLOCK_CMD_READ, 512, 512, .fua = true,
	  .ops = "read 512+512" },
	{ "READ, write-through", CACHE | THROUGH, BLOCK_CMD_READ, 0, 512,
	  .ops = "read 0+512" },
	{ "READ of nothing", CACHE, BLOCK_CMD_READ, 512, 0, .ops = "" },
	{ "WRITE", CACHE | FUA, BLOCK_CMD_WRITE, 0, 512, .ops = "write 0+512" },
	{ "WRITE, FUA", CACHE | FUA, BLOCK_CMD_WRITE, 0, 512, .fua = true,
	  .ops = "write 0+512 fua" },
	{ "WRITE, FUA, that is a flush", CACHE, BLOCK_CMD_WRITE, 0, 512,
	  .fua = true, .ops = "write 0+512, flush" },
	{ "WRITE, FUA, no cache", FUA, BLOCK_CMD_WRITE, 0, 512, .fua = true,
	  .ops = "write 0+512" },
	{ "WRITE, write-through", CACHE | FUA | THROUGH, BLOCK_CMD_WRITE, 0,
	  512, .ops = "write 0+512 fua" },
	{ "WRITE, write-through by a flush", CACHE | THROUGH, BLOCK_CMD_WRITE,
	  0, 512, .ops = "write 0+512, flush" },
	{ "WRITE of nothing, FUA", CACHE, BLOCK_CMD_WRITE, 0, 0, .fua = true,
	  .ops = "" },
	{ "WRITE, FUA, to memory with a cache", CACHE | FUA | MEMORY,
	  BLOCK_CMD_WRITE, 0, 512, .fua = true, .ops = "flush" },
	{ "OR", CACHE, BLOCK_CMD_OR, 0, BLOCK_PIECE + 512,
	  .ops = "read 0+262144, read 262144+512, write 0+262656" },
	{ "WRITE and COMPARE", CACHE | FUA, BLOCK_CMD_WRITE_COMPARE, 0, 512,
	  .fua = true, .ops = "write 0+512 fua, read 0+512" },
	{ "WRITE and COMPARE, FUA is a flush", CACHE, BLOCK_CMD_WRITE_COMPARE,
	  0, 512, .fua = true, .ops = "write 0+512, flush, read 0+512" },
	{ "COMPARE with nothing, in pieces", 0, BLOCK_CMD_COMPARE, 0,
	  BLOCK_PIECE + 512, .ops = "read 0+262144, read 262144+512" },
	{ "COMPARE of memory", MEMORY, BLOCK_CMD_COMPARE, 0, MIB, .ops = "" },
	{ "FILL with zeroes", CACHE | ZERO, BLOCK_CMD_FILL, 512, MIB,
	  .zeroes = true, .ops = "zero 512+1048064, zero 1048576+512" },
	{ "FILL with zeroes, may unmap", CACHE | ZERO | UNMAP, BLOCK_CMD_FILL,
	  512, 4 * MIB, .zeroes = true, .may_unmap = true,
	  .ops = "zero 512+4193792 may-unmap, zero 4194304+512 may-unmap" },
	{ "FILL with zeroes, FUA", CACHE | ZERO | FUA, BLOCK_CMD_FILL, 0, 512,
	  .zeroes = true, .fua = true, .ops = "zero 0+512, flush" },
	{ "FILL with zeroes that must be written", 0, BLOCK_CMD_FILL, 0,
	  MIB + 512, .zeroes = true,
	  .ops = "write 0+1048576, write 1048576+512" },
	{ "FILL with zeroes that are to be written", ZERO | UNMAP,
	  BLOCK_CMD_FILL, 0, 512, .zeroes = true, .overwrite = true,
	  .ops = "write 0+512" },
	{ "FILL with a pattern, FUA", CACHE | ZERO | FUA, BLOCK_CMD_FILL, 512,
	  BLOCK_PIECE + 512, .fua = true,
	  .ops = "write 512+262144, write 262656+512, flush" },
	{ "FILL of what is mapped", EXTENTS, BLOCK_CMD_FILL, MIB, 4 * MIB,
	  .zeroes = true, .mapped = true,
	  .ops = "extent 1048576+4194304, write 1048576+1048576, "
		 "extent 2097152+3145728, extent 4194304+1048576, "
		 "write 4194304+1048576" },
	{ "FILL of what is mapped, which is not known", 0, BLOCK_CMD_FILL, 0,
	  2 * MIB, .zeroes = true, .mapped = true,
	  .ops = "write 0+1048576, write 1048576+1048576" },
	{ "UNMAP", UNMAP, BLOCK_CMD_UNMAP, 512, 4 * MIB,
	  .ops = "unmap 512+4193792, unmap 4194304+512" },
	{ "UNMAP, write-through", CACHE | UNMAP | THROUGH, BLOCK_CMD_UNMAP, 512,
	  512, .ops = "unmap 512+512, flush" },
	{ "EXTENT", EXTENTS, BLOCK_CMD_EXTENT, MIB, 4 * MIB,
	  .ops = "extent 1048576+4194304" },
	{ "EXTENT that the store cannot tell", 0, BLOCK_CMD_EXTENT, MIB, MIB,
	  .ops = "" },
	{ "FLUSH", CACHE, BLOCK_CMD_FLUSH, 0, 0, .ops = "flush" },
	{ "FLUSH without a cache", 0, BLOCK_CMD_FLUSH, 0, 0, .ops = "flush" },
};

static struct block_cmd row_command(const struct cmd_row *row)
{
	struct block_cmd cmd = command(row->kind, row->offset, row->len);

	cmd.fua = row->fua;
	cmd.may_unmap = row->may_unmap;
	cmd.overwrite = row->overwrite;
	cmd.mapped = row->mapped;
	if (row->zeroes)
		cmd.buf = NULL;
	if (row->kind == BLOCK_CMD_FILL)
		cmd.unit_len = UNIT;
	return cmd;
}

/* The store answers at once, later, or with a pause after each piece. */
T_ROWS(store_is_asked_for_what_it_has, cmd_rows)
{
	const struct cmd_row *row = *state;

	for (unsigned int turn = 0; turn < 3; turn++) {
		struct block_cmd cmd;

		begin(row->can);
		cmd = row_command(row);
		t_store.hold = turn == 1;
		cmd.pause = turn == 2 ? cmd_pause : NULL;
		run(&cmd);
		assert_int_equal(cmd.res, 0);
		assert_false(cmd.differs);
		assert_string_equal(t_store.log, row->ops);
		end();
	}
}

/* Runs the same row once for each of its requests; each time another one
 * fails. */
T_ROWS(error_of_each_request_ends_the_command, cmd_rows)
{
	const struct cmd_row *row = *state;
	unsigned int cnt = 1;

	for (unsigned int nth = 1; nth <= cnt; nth++) {
		struct block_cmd cmd;

		begin(row->can);
		cmd = row_command(row);
		run(&cmd);
		cnt = t_store.cnt;
		end();
		if (!cnt)
			return;
		begin(row->can);
		cmd = row_command(row);
		t_store.fail_at = nth;
		t_store.fail_with = -EREMOTEIO;
		run(&cmd);
		assert_int_equal(cmd.res, -EREMOTEIO);
		assert_int_equal(t_store.cnt, nth);
		end();
	}
}

/* The command is stopped before the nth request: no more requests follow. */
T_ROWS(stopped_command_asks_for_nothing_more, cmd_rows)
{
	const struct cmd_row *row = *state;
	struct block_cmd cmd;
	unsigned int cnt;

	begin(row->can);
	cmd = row_command(row);
	run(&cmd);
	cnt = t_store.cnt;
	end();
	for (unsigned int nth = 0; nth < cnt; nth++) {
		begin(row->can);
		t_store.hold = true;
		cmd = row_command(row);
		stopped = nth == 0;
		if (!block_start(&cmd))
			for (unsigned int i = 1; !ends; i++) {
				stopped = i == nth;
				assert_true(t_store_answer());
			}
		assert_int_equal(t_store.cnt, nth);
		assert_true(cmd.was_stopped);
		assert_int_equal(cmd.res, -ECANCELED);
		end();
	}
}

/* ---- the data ---- */

T_TEST(reads_and_writes_what_it_is_told)
{
	static const unsigned int stores[] = { 0, MEMORY };

	for (unsigned int i = 0; i < ARRAY_SIZE(stores); i++) {
		struct block_cmd cmd;

		begin(stores[i]);
		cmd = command(BLOCK_CMD_WRITE, UNIT, UNIT);
		run(&cmd);
		assert_int_equal(t_store.bytes[UNIT - 1], 1);
		assert_memory_equal(t_store.bytes + UNIT, data, UNIT);
		assert_int_equal(t_store.bytes[2 * UNIT], 3);
		cmd = command(BLOCK_CMD_READ, 2 * UNIT, UNIT);
		run(&cmd);
		assert_memory_equal(t_store.bytes + 2 * UNIT, data, UNIT);
		assert_int_equal(worker.copied, stores[i] ? 2 * UNIT : 0);
		end();
	}
}

/* RDMA has moved the data. The layer does not copy it, but notes the WRITE. */
T_TEST(data_that_is_in_place_is_not_copied)
{
	struct block_cmd cmd;

	begin(MEMORY | CACHE);
	cmd = command(BLOCK_CMD_WRITE, UNIT, UNIT);
	cmd.buf = block_in_place(&dev, UNIT);
	assert_ptr_equal(cmd.buf, t_store.bytes + UNIT);
	run(&cmd);
	cmd = command(BLOCK_CMD_READ, UNIT, UNIT);
	cmd.buf = block_in_place(&dev, UNIT);
	run(&cmd);
	assert_int_equal(worker.copied, 0);
	assert_int_equal(t_store.bytes[UNIT], 2);
	writers_flush_ends(&dev.writers, writers_flush_begins(&dev.writers),
			   -EIO);
	assert_true(owes_after_kill());
	end();
}

T_TEST(place_of_blocks_is_told_of_memory_alone)
{
	begin(0);
	assert_null(block_in_place(&dev, UNIT));
	end();
}

static const struct compare_row {
	const char *name;
	unsigned int can;
	uint32_t unit_len;
	uint64_t wrong; /* byte that differs from the expected one */
	uint64_t at;	/* first byte that differs; UINT64_MAX: none */
} compare_rows[] = {
	{ "equal", 0, 0, UINT64_MAX, UINT64_MAX },
	{ "equal, in memory", MEMORY, 0, UINT64_MAX, UINT64_MAX },
	{ "first byte", 0, 0, 0, 0 },
	{ "a byte in the middle", 0, 0, 700, 700 },
	{ "last byte", 0, 0, 2 * BLOCK_PIECE - 1, 2 * BLOCK_PIECE - 1 },
	{ "first byte of the second piece", 0, 0, BLOCK_PIECE, BLOCK_PIECE },
	{ "last byte, in memory", MEMORY, 0, 2 * BLOCK_PIECE - 1,
	  2 * BLOCK_PIECE - 1 },
	{ "one block for all", 0, UNIT, UINT64_MAX, UNIT },
	{ "one block for all, last byte", 0, UNIT, UNIT - 1, UNIT - 1 },
};

T_ROWS(comparing_finds_the_first_byte_that_differs, compare_rows)
{
	const struct compare_row *row = *state;
	struct block_cmd cmd;

	begin(row->can);
	memcpy(data, t_store.bytes, SIZE);
	if (row->wrong != UINT64_MAX)
		data[row->wrong] ^= 1;
	cmd = command(BLOCK_CMD_COMPARE, 0, 2 * BLOCK_PIECE);
	cmd.wanted = data;
	cmd.unit_len = row->unit_len;
	run(&cmd);
	assert_int_equal(cmd.res, 0);
	assert_int_equal(cmd.differs, row->at != UINT64_MAX);
	if (cmd.differs)
		assert_int_equal(cmd.at, row->at);
	assert_int_equal(worker.copied, 0);
	end();
}

T_TEST(compare_and_write_writes_only_over_what_is_wanted)
{
	struct block_cmd cmd;

	begin(CACHE);
	for (unsigned int equal = 0; equal < 2; equal++) {
		memset(data, equal ? 1 : 7, UNIT);
		cmd = command(BLOCK_CMD_COMPARE_WRITE, 0, UNIT);
		cmd.wanted = data;
		cmd.buf = data + UNIT;
		run(&cmd);
		assert_int_equal(cmd.differs, !equal);
		assert_int_equal(t_store.bytes[0], equal ? 0xaa : 1);
	}
	assert_string_equal(t_store.log, "read 0+512, read 0+512, "
					 "write 0+512");
	end();
}

T_TEST(merging_keeps_the_bits_that_were_set)
{
	struct block_cmd cmd;

	begin(0);
	cmd = command(BLOCK_CMD_OR, UNIT, 2 * UNIT);
	run(&cmd);
	assert_int_equal(t_store.bytes[UNIT - 1], 1);
	assert_int_equal(t_store.bytes[UNIT], 0xaa | 2);
	assert_int_equal(t_store.bytes[3 * UNIT - 1], 0xaa | 3);
	assert_int_equal(t_store.bytes[3 * UNIT], 4);
	end();
}

/* Also a pattern of zeroes. The store of the first round cannot make zeroes. */
T_TEST(filling_repeats_the_pattern)
{
	static const unsigned int stores[] = { 0, ZERO, MEMORY, MEMORY | ZERO };

	for (unsigned int i = 0; i < ARRAY_SIZE(stores); i++) {
		struct block_cmd cmd;

		begin(stores[i]);
		memset(data, 0, UNIT);
		data[3] = 9;
		cmd = command(BLOCK_CMD_FILL, UNIT, BLOCK_PIECE + UNIT);
		cmd.unit_len = UNIT;
		run(&cmd);
		for (uint64_t at = UNIT; at < BLOCK_PIECE + 2 * UNIT;
		     at += UNIT)
			assert_memory_equal(t_store.bytes + at, data, UNIT);
		assert_int_equal(t_store.bytes[UNIT - 1], 1);
		assert_int_equal(t_store.bytes[BLOCK_PIECE + 2 * UNIT],
				 (uint8_t)(BLOCK_PIECE / UNIT + 3));
		data[3] = 0;
		run(&cmd);
		assert_memory_equal(t_store.bytes + BLOCK_PIECE, data, UNIT);
		end();
	}
}

static bool more_ranges(struct block_cmd *cmd)
{
	if (cmd->offset >= 3 * UNIT)
		return false;
	cmd->offset += UNIT;
	cmd->len = UNIT;
	return true;
}

T_TEST(unmapping_takes_all_ranges_and_one_flush)
{
	struct block_cmd cmd;

	begin(CACHE | UNMAP | THROUGH);
	cmd = command(BLOCK_CMD_UNMAP, 0, 0);
	cmd.more = more_ranges;
	run(&cmd);
	assert_string_equal(t_store.log, "unmap 512+512, unmap 1024+512, "
					 "unmap 1536+512, flush");
	end();
}

T_TEST(extents_are_as_the_store_says_or_mapped)
{
	struct block_cmd cmd;

	begin(EXTENTS);
	cmd = command(BLOCK_CMD_EXTENT, 2 * MIB + UNIT, 4 * MIB);
	run(&cmd);
	assert_false(cmd.extent_mapped);
	assert_int_equal(cmd.extent_len, 2 * MIB - UNIT);
	end();
	begin(0);
	cmd = command(BLOCK_CMD_EXTENT, 2 * MIB, 4 * MIB);
	run(&cmd);
	assert_true(cmd.extent_mapped);
	assert_int_equal(cmd.extent_len, 4 * MIB);
	end();
}

/* A qcow2 image, for example, may have holes of 512 bytes below blocks of 4096.
 * An extent of no block would be an error, or make the caller ask again and
 * again. */
T_TEST(extents_of_a_store_end_within_blocks)
{
	static const struct {
		uint64_t offset, len;
		bool mapped;
	} rows[] = {
		{ 0, 2 * UNIT, true },
		/* ends as mapped, and has begun as unmapped */
		{ 2 * UNIT, UNIT, true },
		{ 3 * UNIT, 2 * UNIT, false },
		{ 5 * UNIT, UNIT, true },
	};
	struct block_cmd cmd;

	begin(EXTENTS);
	t_store.extent_unit = 2 * UNIT + UNIT / 2 + 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cmd = command(BLOCK_CMD_EXTENT, rows[i].offset, MIB);
		run(&cmd);
		assert_int_equal(cmd.res, 0);
		assert_int_equal(cmd.extent_len, rows[i].len);
		assert_int_equal(cmd.extent_mapped, rows[i].mapped);
	}
	end();
}

T_TEST(each_piece_has_its_pause)
{
	struct block_cmd cmd;

	begin(CACHE);
	cmd = command(BLOCK_CMD_FILL, 0, 3 * MIB);
	cmd.buf = NULL;
	cmd.pause = cmd_pause;
	assert_false(block_start(&cmd));
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(pauses, i);
		assert_int_equal(t_store.cnt, i);
		assert_int_equal(cmd.at, i * MIB);
		assert_int_equal(ends, 0);
		block_resume(&cmd);
	}
	assert_int_equal(ends, 1);
	assert_int_equal(pauses, 3);
	end();
}

/* ---- what the journal has ---- */

static const struct note_row {
	const char *name;
	unsigned int can;
	enum block_kind kind;
	bool fua;
	unsigned int fail_at;
	int fail_with;
	bool owes; /* the next process owes the writer a failed flush */
} note_rows[] = {
	{ "FLUSH", CACHE, BLOCK_CMD_FLUSH, false, 0, 0, false },
	{ "FLUSH that fails", CACHE, BLOCK_CMD_FLUSH, false, 1, -EIO, true },
	{ "FLUSH that is not done", CACHE, BLOCK_CMD_FLUSH, false, 1, -ENOTCONN,
	  true },
	{ "WRITE, FUA", CACHE | FUA, BLOCK_CMD_WRITE, true, 0, 0, false },
	{ "WRITE, FUA, that fails", CACHE | FUA, BLOCK_CMD_WRITE, true, 1, -EIO,
	  true },
	{ "WRITE, FUA, flush fails", CACHE, BLOCK_CMD_WRITE, true, 2, -EIO,
	  true },
	{ "WRITE that fails", CACHE, BLOCK_CMD_WRITE, false, 1, -EIO, false },
	{ "READ that fails", CACHE, BLOCK_CMD_READ, false, 1, -EIO, false },
};

/* After an unflushed write and this command, the process is killed. */
T_ROWS(journal_has_what_the_next_process_is_to_know, note_rows)
{
	const struct note_row *row = *state;
	struct block_cmd cmd;

	begin(row->can);
	note_write();
	t_store.fail_at = row->fail_at;
	t_store.fail_with = row->fail_with;
	cmd = command(row->kind, 0, UNIT);
	cmd.fua = row->fua;
	run(&cmd);
	assert_int_equal(owes_after_kill(), row->owes);
	end();
}

static const struct wrote_row {
	const char *name;
	unsigned int can;
	enum block_kind kind;
	bool fua;
	bool owes;
} wrote_rows[] = {
	{ "WRITE", CACHE, BLOCK_CMD_WRITE, false, true },
	{ "WRITE, no cache", 0, BLOCK_CMD_WRITE, false, false },
	{ "WRITE, FUA", CACHE | FUA, BLOCK_CMD_WRITE, true, false },
	{ "WRITE, FUA by a flush", CACHE, BLOCK_CMD_WRITE, true, false },
	{ "WRITE, write-through", CACHE | THROUGH, BLOCK_CMD_WRITE, false,
	  false },
	{ "FILL", CACHE | ZERO, BLOCK_CMD_FILL, false, true },
	{ "UNMAP", CACHE | UNMAP, BLOCK_CMD_UNMAP, false, true },
	{ "OR", CACHE, BLOCK_CMD_OR, false, true },
	{ "READ", CACHE, BLOCK_CMD_READ, false, false },
	{ "COMPARE", CACHE, BLOCK_CMD_COMPARE, false, false },
};

/* After this command, a flush of some initiator fails. */
T_ROWS(writer_of_the_cache_is_noted_and_nobody_else, wrote_rows)
{
	const struct wrote_row *row = *state;
	struct block_cmd cmd;

	begin(row->can);
	cmd = command(row->kind, 0, UNIT);
	cmd.fua = row->fua;
	cmd.unit_len = row->kind == BLOCK_CMD_FILL ? UNIT : 0;
	run(&cmd);
	writers_flush_ends(&dev.writers, writers_flush_begins(&dev.writers),
			   -EIO);
	assert_int_equal(owes_after_kill(), row->owes);
	end();
}

/* A flush covers what was written before it began, and nothing that came
 * later. */
T_TEST(flush_does_not_cover_writes_that_come_while_it_runs)
{
	struct block_cmd first, second;

	begin(CACHE);
	t_store.hold = true;
	first = command(BLOCK_CMD_FLUSH, 0, 0);
	assert_false(block_start(&first));
	note_write();
	assert_true(t_store_answer());
	t_store.hold = false;
	t_store.fail_at = 2;
	t_store.fail_with = -EIO;
	second = command(BLOCK_CMD_FLUSH, 0, 0);
	assert_true(block_start(&second));
	assert_true(owes_after_kill());
	end();
}

/* WCE is turned off while the store has a write that began before. */
T_TEST(write_through_that_comes_meanwhile_is_heeded)
{
	struct block_cmd cmd;

	begin(CACHE | FUA);
	t_store.hold = true;
	cmd = command(BLOCK_CMD_WRITE, 0, UNIT);
	assert_false(block_start(&cmd));
	dev.write_through = true;
	assert_true(t_store_answer());
	assert_int_equal(ends, 0);
	assert_true(t_store_answer());
	assert_int_equal(ends, 1);
	assert_string_equal(t_store.log, "write 0+512, flush");
	end();
}

/* The store does not answer the READ. */
T_TEST(write_alone_does_not_wait_for_a_read_of_other_blocks)
{
	struct block_cmd read, write;

	begin(0);
	t_store.depth = 2;
	t_store.hold = true;
	read = command(BLOCK_CMD_READ, 0, UNIT);
	assert_false(block_start(&read));
	t_store.hold = false;
	write = command(BLOCK_CMD_WRITE_ALONE, UNIT, UNIT);
	assert_true(block_start(&write));
	assert_true(t_store_answer());
	assert_int_equal(ends, 1);
	end();
}

static const struct kind_row {
	const char *name;
	enum block_kind kind;
} stable_rows[] = {
	{ "WRITE_ALONE", BLOCK_CMD_WRITE_ALONE },
	{ "OR", BLOCK_CMD_OR },
	{ "COMPARE_WRITE", BLOCK_CMD_COMPARE_WRITE },
};

/* Blocks are for what the store writes; it does not answer the flush. */
T_ROWS(nobody_waits_for_the_flush_of_a_write_alone, stable_rows)
{
	const struct kind_row *row = *state;
	struct block_cmd read, write;

	begin(CACHE);
	t_store.depth = 2;
	t_store.hold = true;
	write = command(row->kind, 0, UNIT);
	write.wanted = NULL;
	write.fua = true;
	assert_false(block_start(&write));
	while (!strstr(t_store.log, "flush"))
		assert_true(t_store_answer());
	read = command(BLOCK_CMD_READ, 0, UNIT);
	t_store.hold = false;
	assert_true(block_start(&read));
	assert_int_equal(ends, 0);
	assert_true(t_store_answer());
	assert_int_equal(ends, 1);
	end();
}

/* ---- threads ---- */

#define ROUNDS 500

/* A worker that runs one command after the other. */
struct runner {
	struct block_worker w;
	struct block_cmd cmd;
	uint8_t bytes[BLOCK_PIECE];
	bool done;
	unsigned int halves; /* commands that saw a part of a write */
};

static void runner_done(struct block_cmd *cmd)
{
	container_of(cmd, struct runner, cmd)->done = true;
}

static void runner_run(struct runner *r, enum block_kind kind)
{
	r->cmd.dev = &dev;
	r->cmd.worker = &r->w;
	r->cmd.kind = kind;
	r->cmd.buf_index = -1;
	r->cmd.len = BLOCK_PIECE;
	r->cmd.buf = r->bytes;
	r->cmd.wanted = r->bytes;
	r->cmd.unit_len = 8; /* so it takes longer than a write */
	r->cmd.done = runner_done;
	r->done = block_start(&r->cmd);
	while (!r->done)
		reactor_run_once(r->w.reactor, 1000);
}

static void *runner_writes(void *arg)
{
	struct runner *r = arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		memset(r->bytes, (int)(i & 1), BLOCK_PIECE);
		runner_run(r, BLOCK_CMD_WRITE_ALONE);
	}
	return NULL;
}

static void *runner_compares(void *arg)
{
	struct runner *r = arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		runner_run(r, BLOCK_CMD_COMPARE);
		r->halves += r->cmd.differs && r->cmd.at;
	}
	return NULL;
}

/* In memory, blocks are compared where they are. */
T_TEST(comparing_sees_all_of_a_write_that_is_alone_or_nothing)
{
	const struct reactor_options opt = { .ring_entries = 8 };
	static struct runner runners[2];
	pthread_t threads[2];

	begin(MEMORY);
	memset(runners, 0, sizeof(runners));
	for (unsigned int i = 0; i < 2; i++) {
		runners[i].w.index = i;
		assert_int_equal(reactor_create(&opt, &runners[i].w.reactor),
				 0);
	}
	memset(t_store.bytes, 0, BLOCK_PIECE);
	pthread_create(&threads[0], NULL, runner_writes, &runners[0]);
	pthread_create(&threads[1], NULL, runner_compares, &runners[1]);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(runners[1].halves, 0);
	for (unsigned int i = 0; i < 2; i++)
		reactor_destroy(runners[i].w.reactor);
	end();
}
