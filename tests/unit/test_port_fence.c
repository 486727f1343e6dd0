/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long commands that somebody ends: they stop between two pieces. A copy, which
 * uses volumes besides the one of its LUN, is a task of each of them. See
 * tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <string.h>

#include "protocol/wire.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* Blocks of a copy. Each block is a piece of its own, and goes from one volume
 * to the other. */
#define FROM_BLOCK 8
#define TO_BLOCK   64
#define PIECES	   4

static uint64_t send_list(struct t_ini *ch, struct rig_cmd *cmd,
			  const void *list, uint32_t len)
{
	cmd->out.format = SRP_DATA_IMMEDIATE;
	cmd->out.imm_len = len;
	cmd->out.imm_offset = SRP_IMM_OFFSET;
	cmd->imm = list;
	return rig_cmd(ch, cmd);
}

/* ---- EXTENDED COPY ---- */

#define TARGET_LEN  32
#define SEGMENT_LEN 28
#define LIST_LEN    (16 + 2 * TARGET_LEN + PIECES * SEGMENT_LEN)

static void put_target(uint8_t *d, const struct volume *vol)
{
	d[0] = 0xe4;
	d[4] = 1;
	d[5] = 3;
	d[7] = SCSI_NAA_LEN;
	memcpy(d + 8, vol->info.naa, SCSI_NAA_LEN);
	wire_put16(d + 30, BLK);
}

static void put_segment(uint8_t *d, unsigned int nth)
{
	d[0] = 0x02;
	wire_put16(d + 2, SEGMENT_LEN - 4);
	wire_put16(d + 6, 1); /* to the second target */
	wire_put16(d + 10, 1);
	wire_put64(d + 12, FROM_BLOCK + nth);
	wire_put64(d + 20, TO_BLOCK + nth);
}

static void make_list(const struct rig *rig, unsigned int from, unsigned int to,
		      uint8_t *b)
{
	memset(b, 0, LIST_LEN);
	wire_put16(b + 2, 2 * TARGET_LEN);
	wire_put32(b + 8, PIECES * SEGMENT_LEN);
	put_target(b + 16, rig->target.luns.vol[from]);
	put_target(b + 16 + TARGET_LEN, rig->target.luns.vol[to]);
	for (unsigned int i = 0; i < PIECES; i++)
		put_segment(b + 16 + 2 * TARGET_LEN + i * SEGMENT_LEN, i);
}

/* The target reads the list from the initiator's memory, or the command
 * contains it. */
static uint64_t send_copy(struct t_ini *ch, unsigned int lun, unsigned int from,
			  unsigned int to, bool fetched)
{
	struct rig_cmd cmd = { .lun = lun, .cdb = { 0x83 } };
	uint8_t list[LIST_LEN];
	struct srp_desc desc;

	make_list(rig_of(ch), from, to, list);
	wire_put32(cmd.cdb + 10, LIST_LEN);
	if (!fetched)
		return send_list(ch, &cmd, list, LIST_LEN);
	memcpy(rig_of(ch)->mem, list, LIST_LEN);
	rig_describe(ch, RIG_DIRECT, 0, LIST_LEN, &desc, &cmd.out);
	return rig_cmd(ch, &cmd);
}

static const uint8_t *content(const struct rig *rig, unsigned int lun)
{
	return lun == RIG_DISK
		       ? t_store.bytes
		       : rig->target.luns.vol[RIG_RAM]->dev.backend->info.memory;
}

static void fill_source(const struct rig *rig, unsigned int lun)
{
	uint8_t *at = (uint8_t *)content(rig, lun) + FROM_BLOCK * BLK;

	for (unsigned int i = 0; i < PIECES; i++)
		memset(at + i * BLK, (int)(0x50 + i), BLK);
}

/* Returns how many blocks of the copy have arrived, counted from the first. */
static unsigned int copied(const struct rig *rig, unsigned int to)
{
	const uint8_t *at = content(rig, to) + TO_BLOCK * BLK;
	unsigned int n = 0;

	while (n < PIECES && at[n * BLK] == 0x50 + n)
		n++;
	for (unsigned int i = n; i < PIECES; i++)
		assert_int_equal(at[i * BLK], 0);
	return n;
}

static void expect_copy_aborted(const struct t_ini *ch, uint64_t tag)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);
	struct scsi_sense sense;

	assert_non_null(rsp);
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.key, SCSI_KEY_COPY_ABORTED);
	assert_int_equal(sense.code, SCSI_ASC_THIRD_PARTY_FAILURE);
}

/* ---- fences ---- */

#define PREEMPT_AND_ABORT 0xff /* stands in the place of a function */

enum who {
	SAME_CHANNEL,
	SAME_NEXUS, /* a channel on the other worker */
	OTHER_NEXUS,
	WHOS,
};

struct initiators {
	struct rig *rig;
	struct t_ini *of[WHOS];
};

static uint64_t reserve_out(struct t_ini *ch, unsigned int lun, uint8_t action,
			    uint64_t key, uint64_t action_key)
{
	struct rig_cmd cmd = { .lun = lun, .cdb = { 0x5f, action, 5 } };
	uint8_t list[24] = { 0 };

	wire_put64(list, key);
	wire_put64(list + 8, action_key);
	cmd.cdb[8] = sizeof(list);
	return send_list(ch, &cmd, list, sizeof(list));
}

static void begin_with(struct initiators *in, bool shared)
{
	struct rig_options opt = { .workers = 2,
				   .thin = true,
				   .shared = shared };

	in->rig = rig_create(&opt);
	in->of[SAME_CHANNEL] = rig_login(in->rig, 1, SRP_MULTICHAN_SINGLE);
	in->of[SAME_NEXUS] = rig_login(in->rig, 1, SRP_MULTICHAN_MULTI);
	in->of[OTHER_NEXUS] = rig_login(in->rig, 2, SRP_MULTICHAN_SINGLE);
	for (unsigned int i = 0; i < WHOS; i++)
		rig_expect_alive(in->of[i]);
}

static void begin(struct initiators *in)
{
	begin_with(in, /* shared= */ false);
}

static void end(struct initiators *in)
{
	assert_int_equal(t_port_used(&in->rig->target), 0);
	for (unsigned int i = 0; i < WHOS; i++) {
		if (!in->of[i]->closed)
			rig_expect_alive(in->of[i]);
		rig_chan_free(in->of[i]);
	}
	rig_destroy(in->rig);
}

/* Registers both nexuses. The reservation is one of type "registrants only". */
static void reserve(struct initiators *in, unsigned int lun)
{
	struct t_ini *a = in->of[SAME_CHANNEL];
	struct t_ini *b = in->of[OTHER_NEXUS];

	rig_expect_status(a, reserve_out(a, lun, 0, 0, 1), 0);
	rig_expect_status(b, reserve_out(b, lun, 0, 0, 2), 0);
	rig_expect_status(b, reserve_out(b, lun, 1, 2, 0), 0);
}

static uint64_t send_fence(struct t_ini *ch, uint8_t function, unsigned int lun)
{
	if (function == PREEMPT_AND_ABORT)
		return reserve_out(ch, lun, 5, 2, 1);
	return rig_tmf(ch, function, lun, 0xffffffff);
}

static void expect_fenced(const struct t_ini *ch, uint8_t function,
			  uint64_t tag)
{
	if (function == PREEMPT_AND_ABORT)
		rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	else
		rig_expect_code(ch, tag, SRP_RSP_COMPLETE);
}

static const struct fence_case {
	const char *name;
	uint8_t function;
	enum who who;
	bool is_source; /* the fenced volume, RIG_DISK */
	bool spared;	/* the function does not affect this copy */
} fence_cases[] = {
	{ "LUN RESET by its channel", SRP_TSK_LUN_RESET, SAME_CHANNEL },
	{ "LUN RESET by its nexus", SRP_TSK_LUN_RESET, SAME_NEXUS },
	{ "LUN RESET by another nexus", SRP_TSK_LUN_RESET, OTHER_NEXUS },
	{ "LUN RESET of the source", SRP_TSK_LUN_RESET, OTHER_NEXUS, true },
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET, SAME_CHANNEL },
	{ "ABORT TASK SET of the source", SRP_TSK_ABORT_TASK_SET, SAME_NEXUS,
	  true },
	{ "ABORT TASK SET by another nexus", SRP_TSK_ABORT_TASK_SET,
	  OTHER_NEXUS, .spared = true },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET, SAME_NEXUS },
	{ "CLEAR TASK SET by another nexus", SRP_TSK_CLEAR_TASK_SET,
	  OTHER_NEXUS, .spared = true },
	{ "PREEMPT AND ABORT", PREEMPT_AND_ABORT, OTHER_NEXUS },
	{ "PREEMPT AND ABORT, source", PREEMPT_AND_ABORT, OTHER_NEXUS, true },
	{ "ABORT TASK of another tag", SRP_TSK_ABORT_TASK, SAME_CHANNEL,
	  .spared = true },
};

/* The copy is a task of the other LUN. The disk has one piece of it. */
T_ROWS(fence_stops_copies, fence_cases)
{
	const struct fence_case *row = *state;
	unsigned int from = row->is_source ? RIG_DISK : RIG_RAM;
	unsigned int to = row->is_source ? RIG_RAM : RIG_DISK;
	struct t_ini *ch, *asks;
	struct initiators in;
	uint64_t copy, fence;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	asks = in.of[row->who];
	if (row->function == PREEMPT_AND_ABORT)
		reserve(&in, RIG_DISK);
	fill_source(in.rig, from);
	t_store.hold = true;
	copy = send_copy(ch, RIG_RAM, from, to, /* fetched= */ false);
	assert_int_equal(t_store.held_cnt, 1);
	fence = send_fence(asks, row->function, RIG_DISK);
	expect_fenced(asks, row->function, fence);
	if (!row->spared)
		rig_expect_status(ch, copy, SCSI_STATUS_TASK_ABORTED);
	assert_int_equal(rig_release(in.rig), 1);
	if (row->spared) {
		t_store.hold = false;
		rig_release(in.rig);
		rig_expect_status(ch, copy, SCSI_STATUS_GOOD);
	} else {
		/* Nothing is left of the commands that the fence let pass. */
		assert_int_equal(t_store.held_cnt, 0);
	}
	assert_int_equal(copied(in.rig, to), row->spared      ? PIECES
					     : row->is_source ? 0
							      : 1);
	t_store.hold = false;
	end(&in);
}

/* The store has a piece of the copy, and the fence does not wait for it. */
T_TEST(nobody_reads_the_piece_of_a_copy_that_was_stopped)
{
	struct rig_cmd read = rig_read(RIG_DISK, TO_BLOCK, 1);
	struct initiators in;
	struct t_ini *other;
	uint64_t tag;

	begin(&in);
	other = in.of[OTHER_NEXUS];
	fill_source(in.rig, RIG_RAM);
	t_store.hold = true;
	send_copy(in.of[SAME_CHANNEL], RIG_RAM, RIG_RAM, RIG_DISK,
		  /* fetched= */ false);
	assert_int_equal(t_store.held_cnt, 1);
	expect_fenced(other, SRP_TSK_LUN_RESET,
		      send_fence(other, SRP_TSK_LUN_RESET, RIG_DISK));
	rig_clear_ua(other, RIG_DISK, NULL);
	tag = rig_send_rw(other, &read, RIG_DIRECT, 0, BLK);
	assert_int_equal(t_store.held_cnt, 1);
	t_store.hold = false;
	rig_release(in.rig);
	rig_expect_status(other, tag, SCSI_STATUS_GOOD);
	assert_int_equal(in.rig->mem[0], 0x50);
	end(&in);
}

static const struct away_case {
	const char *name;
	bool is_source;
} away_cases[] = {
	{ "source", true },
	{ "destination", false },
};

/* Another target serves the store while it has one piece of the copy. */
T_ROWS(copy_stops_when_the_store_was_away, away_cases)
{
	const struct away_case *row = *state;
	unsigned int from = row->is_source ? RIG_DISK : RIG_RAM;
	unsigned int to = row->is_source ? RIG_RAM : RIG_DISK;
	struct initiators in;
	uint64_t copy;

	begin_with(&in, /* shared= */ true);
	fill_source(in.rig, from);
	t_store.hold = true;
	copy = send_copy(in.of[SAME_CHANNEL], RIG_RAM, from, to,
			 /* fetched= */ false);
	assert_int_equal(t_store.held_cnt, 1);
	t_store.epoch += 2;
	t_store.hold = false;
	assert_int_equal(rig_release(in.rig), 1);
	expect_copy_aborted(in.of[SAME_CHANNEL], copy);
	assert_int_equal(copied(in.rig, to), 1);
	end(&in);
}

/* ---- copies whose list has not been read yet ---- */

static const struct unread_case {
	const char *name;
	unsigned int to;
	unsigned int fenced[2]; /* one LUN after the other */
	uint8_t function;
	enum who who;
	bool spared;
} unread_cases[] = {
	{ "the destination",
	  RIG_DISK,
	  { RIG_DISK, RIG_DISK },
	  SRP_TSK_LUN_RESET,
	  OTHER_NEXUS },
	{ "the destination, by its nexus",
	  RIG_DISK,
	  { RIG_DISK, RIG_DISK },
	  SRP_TSK_ABORT_TASK_SET,
	  SAME_NEXUS },
	{ "both volumes",
	  RIG_RAM,
	  { RIG_DISK, RIG_RAM },
	  SRP_TSK_LUN_RESET,
	  OTHER_NEXUS },
	/* The list might name it. */
	{ "another volume",
	  RIG_RAM,
	  { RIG_DISK, RIG_DISK },
	  SRP_TSK_LUN_RESET,
	  OTHER_NEXUS },
	{ "tasks of another nexus",
	  RIG_DISK,
	  { RIG_DISK, RIG_DISK },
	  SRP_TSK_ABORT_TASK_SET,
	  OTHER_NEXUS,
	  .spared = true },
};

/* The RAM volume gets the command and is its source. The target is still
 * reading the list. */
T_ROWS(unread_copy_is_fenced_too, unread_cases)
{
	const struct unread_case *row = *state;
	struct t_ini *ch, *asks;
	struct initiators in;
	uint64_t copy, fence;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	asks = in.of[row->who];
	fill_source(in.rig, RIG_RAM);
	t_fabric_hold_completions(in.rig->hub, true);
	copy = send_copy(ch, RIG_RAM, RIG_RAM, row->to, /* fetched= */ true);
	t_fabric_hold_completions(in.rig->hub, false);
	for (unsigned int i = 0; i < 2; i++) {
		fence = rig_tmf(asks, row->function, row->fenced[i],
				0xffffffff);
		if (row->fenced[i] == RIG_DISK)
			rig_expect_code(asks, fence, SRP_RSP_COMPLETE);
	}
	t_fabric_let_go(in.rig->hub, UINT32_MAX);
	rig_settle(in.rig);
	rig_expect_code(asks, fence, SRP_RSP_COMPLETE);
	if (row->spared)
		rig_expect_status(ch, copy, SCSI_STATUS_GOOD);
	else
		rig_expect_status(ch, copy, SCSI_STATUS_TASK_ABORTED);
	assert_int_equal(copied(in.rig, row->to), row->spared ? PIECES : 0);
	end(&in);
}

/* ---- long commands ---- */

static const uint8_t zeroes[2 * BLK];
static const uint8_t ones[BLK] = { 1 };
static const uint8_t two_extents[] = {
	0, 38, 0, 32, 0, 0, 0, 0,			   /* header */
	0, 0,  0, 0,  0, 0, 0, 8,  0, 0, 0, 8, 0, 0, 0, 0, /* LBA, blocks */
	0, 0,  0, 0,  0, 0, 0, 64, 0, 0, 0, 8, 0, 0, 0, 0,
};

/* Commands for RIG_DISK that make at least two requests to the disk. */
static const struct long_command {
	const char *name;
	uint8_t cdb[16];
	const uint8_t *out;
	uint32_t out_len;
	bool is_copy;
	bool immed;
} long_commands[] = {
	{ "WRITE SAME of a pattern", { 0x93, [12] = 8 }, ones, BLK },
	{ "WRITE SAME of zeroes", { 0x93, [12] = 16 }, zeroes, BLK },
	{ "UNMAP", { 0x42, [8] = 40 }, two_extents, 40 },
	{ "VERIFY", { 0x2f, [7] = 8 } },
	{ "WRITE AND VERIFY", { 0x2e, [8] = 1 }, ones, BLK },
	{ "WRITE with FUA", { 0x2a, 0x08, [8] = 1 }, ones, BLK },
	{ "COMPARE AND WRITE", { 0x89, [13] = 1 }, zeroes, 2 * BLK },
	{ "ORWRITE", { 0x8b, [13] = 1 }, ones, BLK },
	{ "PRE-FETCH", { 0x34, [7] = 8 } },
	{ "PRE-FETCH, IMMED", { 0x34, 0x02, [7] = 8 }, .immed = true },
	{ "EXTENDED COPY", .is_copy = true },
};

enum end {
	ABORT_TASK,
	LUN_RESET,
	LEAVE, /* the connection breaks */
	ENDS,
};

static struct long_case {
	const char *name; /* text */
	char text[64];
	const struct long_command *command;
	enum end end;
} long_cases[ARRAY_SIZE(long_commands) * ENDS];

T_AT_START make_long_cases(void)
{
	static const char *const ends[] = { "ABORT TASK", "LUN RESET",
					    "connection lost" };
	struct long_case *row = long_cases;

	for (size_t i = 0; i < ARRAY_SIZE(long_commands); i++)
		for (int end = 0; end < ENDS; end++, row++) {
			snprintf(row->text, sizeof(row->text), "%s, %s",
				 long_commands[i].name, ends[end]);
			row->name = row->text;
			row->command = &long_commands[i];
			row->end = (enum end)end;
		}
}

static uint64_t send_long(struct t_ini *ch, const struct long_command *c)
{
	struct rig_cmd cmd = { .lun = RIG_DISK };

	if (c->is_copy)
		return send_copy(ch, RIG_DISK, RIG_DISK, RIG_DISK,
				 /* fetched= */ false);
	memcpy(cmd.cdb, c->cdb, sizeof(cmd.cdb));
	if (c->out_len)
		return send_list(ch, &cmd, c->out, c->out_len);
	return rig_cmd(ch, &cmd);
}

/* A command that was ended makes no more requests to the disk. Nobody waits for
 * the request that the disk has. */
T_ROWS(long_command_stops_between_pieces, long_cases)
{
	const struct long_case *row = *state;
	struct initiators in;
	struct t_ini *ch, *other;
	uint64_t tag, tmf = 0;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	other = in.of[OTHER_NEXUS];
	t_store.hold = true;
	tag = send_long(ch, row->command);
	assert_int_equal(t_store.held_cnt, 1);
	if (row->end == ABORT_TASK)
		tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	else if (row->end == LUN_RESET)
		tmf = rig_tmf(other, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	else
		t_fabric_break(ch->xp);
	rig_settle(in.rig);
	if (row->end == ABORT_TASK)
		rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	else if (row->end == LUN_RESET)
		rig_expect_code(other, tmf, SRP_RSP_COMPLETE);
	assert_int_equal(rig_release(in.rig), 1);
	assert_int_equal(t_store.held_cnt, 0);
	t_store.hold = false;
	rig_release(in.rig);
	if (row->end == LUN_RESET && !row->command->immed)
		rig_expect_status(ch, tag, SCSI_STATUS_TASK_ABORTED);
	end(&in);
}

/* Another command holds the blocks exclusively, and the disk takes long. */
T_TEST(command_that_waits_for_blocks_ends_at_once)
{
	static const struct long_command caw = {
		"", { 0x89, [13] = 1 }, zeroes, 2 * BLK
	};
	struct initiators in;
	struct t_ini *ch;
	uint64_t first, second, tmf;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	t_store.hold = true;
	first = send_long(ch, &caw);
	second = send_long(in.of[SAME_NEXUS], &long_commands[0]);
	assert_int_equal(t_store.held_cnt, 1);
	tmf = rig_tmf(in.of[SAME_NEXUS], SRP_TSK_ABORT_TASK, RIG_DISK, second);
	rig_expect_code(in.of[SAME_NEXUS], tmf, SRP_RSP_COMPLETE);
	assert_null(t_ini_rsp(in.of[SAME_NEXUS], second));
	t_store.hold = false;
	rig_release(in.rig);
	rig_expect_status(ch, first, SCSI_STATUS_GOOD);
	end(&in);
}

/* Another command has the blocks, and another volume is reset. */
T_TEST(reset_of_another_volume_lets_commands_wait)
{
	struct initiators in;
	struct t_ini *ch, *other;
	uint64_t first, second;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	other = in.of[OTHER_NEXUS];
	t_store.hold = true;
	first = send_long(ch, &long_commands[6]);
	second = send_long(in.of[SAME_NEXUS], &long_commands[0]);
	rig_expect_code(other,
			rig_tmf(other, SRP_TSK_LUN_RESET, RIG_RAM, 0xffffffff),
			SRP_RSP_COMPLETE);
	assert_int_equal(t_store.held_cnt, 1);
	t_store.hold = false;
	rig_release(in.rig);
	rig_expect_status(ch, first, SCSI_STATUS_GOOD);
	rig_expect_status(in.of[SAME_NEXUS], second, SCSI_STATUS_GOOD);
	end(&in);
}

/* ---- another target serves in between ---- */

static void expect_standby(const struct t_ini *ch, uint64_t tag)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);
	struct scsi_sense sense;

	assert_non_null(rsp);
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.key, SCSI_KEY_NOT_READY);
}

static void others_serve(struct rig *rig)
{
	t_store.epoch += 2;
	t_store.hold = false;
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_release(rig);
}

/* It is over before the target has all of the data. */
T_TEST(write_that_is_fetched_keeps_its_epoch)
{
	struct rig_cmd write = rig_write(RIG_DISK, 0, 1);
	struct initiators in;
	uint64_t tag;

	begin_with(&in, /* shared= */ true);
	t_fabric_hold_completions(in.rig->hub, true);
	memset(in.rig->mem, 0x77, BLK);
	tag = rig_send_rw(in.of[SAME_CHANNEL], &write, RIG_DIRECT, 0, BLK);
	assert_null(t_ini_rsp(in.of[SAME_CHANNEL], tag));
	others_serve(in.rig);
	expect_standby(in.of[SAME_CHANNEL], tag);
	assert_int_equal(t_store.bytes[0], 0);
	end(&in);
}

static const struct later_case {
	const char *name;
	const struct long_command *command;
	uint32_t lba; /* of a write that the disk has, and that it waits for */
} later_cases[] = {
	{ "before its first piece", &long_commands[0], 0 },
	{ "to use its blocks alone", &long_commands[6], 0 },
	{ "before its second piece", &long_commands[2], 64 },
};

/* Another write has the blocks while the other target serves. */
T_ROWS(command_that_waits_keeps_its_epoch, later_cases)
{
	const struct later_case *row = *state;
	struct initiators in;
	struct t_ini *ch;
	uint64_t tag, first;

	begin_with(&in, /* shared= */ true);
	ch = in.of[SAME_CHANNEL];
	t_store.hold = true;
	first = rig_send_write(in.of[OTHER_NEXUS], row->lba, 0x77);
	tag = send_long(ch, row->command);
	if (t_store.held_cnt == 2) {
		t_store_answer_nth(1, 0);
		rig_settle(in.rig);
	}
	assert_int_equal(t_store.held_cnt, 1);
	others_serve(in.rig);
	rig_expect_status(in.of[OTHER_NEXUS], first, SCSI_STATUS_GOOD);
	expect_standby(ch, tag);
	assert_int_equal(t_store.bytes[row->lba * BLK], 0x77);
	end(&in);
}

/* ---- data in place ---- */

/* The fabric may still put the data of a write into the memory of the volume when
 * its connection has ended. */
T_TEST(nobody_reads_what_the_fabric_may_still_write)
{
	struct rig_cmd write = rig_write(RIG_RAM, 0, 1);
	struct rig_cmd read = rig_read(RIG_RAM, 0, 1);
	struct initiators in;
	struct t_ini *other;
	uint64_t tag;

	begin(&in);
	other = in.of[OTHER_NEXUS];
	rig_clear_ua(in.of[SAME_CHANNEL], RIG_RAM, NULL);
	rig_clear_ua(other, RIG_RAM, NULL);
	t_fabric_hold_completions(in.rig->hub, true);
	rig_send_rw(in.of[SAME_CHANNEL], &write, RIG_DIRECT, 0, BLK);
	t_fabric_break(in.of[SAME_CHANNEL]->xp);
	rig_settle(in.rig);
	t_fabric_hold_completions(in.rig->hub, false);
	tag = rig_send_rw(other, &read, RIG_DIRECT, BLK, BLK);
	assert_null(t_ini_rsp(other, tag));
	t_fabric_let_go(in.rig->hub, UINT32_MAX);
	rig_settle(in.rig);
	rig_expect_status(other, tag, SCSI_STATUS_GOOD);
	end(&in);
}
