/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is still to come of long commands when somebody ends them: they stop
 * between two pieces. See test_port_rig.h.
 */
#include "tests/unit/test_port_rig.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/wire.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* Blocks of a copy, each a piece of its own: these of one volume go to those of
 * the other. */
#define FROM_BLOCK 8
#define TO_BLOCK   64
#define PIECES	   4

static uint64_t send_list(struct rig_chan *ch, struct rig_cmd *cmd,
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
	put_target(b + 16, rig->luns.vol[from]);
	put_target(b + 16 + TARGET_LEN, rig->luns.vol[to]);
	for (unsigned int i = 0; i < PIECES; i++)
		put_segment(b + 16 + 2 * TARGET_LEN + i * SEGMENT_LEN, i);
}

static uint64_t send_copy(struct rig_chan *ch, unsigned int lun,
			  unsigned int from, unsigned int to)
{
	struct rig_cmd cmd = { .lun = lun, .cdb = { 0x83 } };
	uint8_t list[LIST_LEN];

	make_list(ch->rig, from, to, list);
	wire_put32(cmd.cdb + 10, LIST_LEN);
	return send_list(ch, &cmd, list, LIST_LEN);
}

enum who {
	SAME_CHANNEL,
	SAME_NEXUS, /* a channel on the other worker */
	OTHER_NEXUS,
	WHOS,
};

struct initiators {
	struct rig *rig;
	struct rig_chan *of[WHOS];
};

static void begin(struct initiators *in)
{
	struct rig_options opt = { .workers = 2, .thin = true };

	in->rig = rig_create(&opt);
	in->of[SAME_CHANNEL] = rig_login(in->rig, 1, SRP_MULTICHAN_SINGLE);
	in->of[SAME_NEXUS] = rig_login(in->rig, 1, SRP_MULTICHAN_MULTI);
	in->of[OTHER_NEXUS] = rig_login(in->rig, 2, SRP_MULTICHAN_SINGLE);
	for (unsigned int i = 0; i < WHOS; i++)
		rig_expect_alive(in->of[i]);
}

static void end(struct initiators *in)
{
	assert_int_equal(rig_used(in->rig), 0);
	for (unsigned int i = 0; i < WHOS; i++) {
		if (!in->of[i]->closed)
			rig_expect_alive(in->of[i]);
		rig_chan_free(in->of[i]);
	}
	rig_destroy(in->rig);
}

/* ---- long commands ---- */

static const uint8_t zeroes[2 * BLK];
static const uint8_t ones[BLK] = { 1 };
static const uint8_t two_extents[] = {
	0, 38, 0, 32, 0, 0, 0, 0,			   /* header */
	0, 0,  0, 0,  0, 0, 0, 8,  0, 0, 0, 8, 0, 0, 0, 0, /* LBA, blocks */
	0, 0,  0, 0,  0, 0, 0, 64, 0, 0, 0, 8, 0, 0, 0, 0,
};

/* To RIG_DISK; the disk is asked at least twice. */
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

static void make_long_cases(void)
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

static uint64_t send_long(struct rig_chan *ch, const struct long_command *c)
{
	struct rig_cmd cmd = { .lun = RIG_DISK };

	if (c->is_copy)
		return send_copy(ch, RIG_DISK, RIG_DISK, RIG_DISK);
	memcpy(cmd.cdb, c->cdb, sizeof(cmd.cdb));
	if (c->out_len)
		return send_list(ch, &cmd, c->out, c->out_len);
	return rig_cmd(ch, &cmd);
}

/* Once it is ended it asks the disk for nothing more; what the disk has is
 * awaited. */
static void long_command_stops_between_pieces(void **state)
{
	const struct long_case *row = *state;
	struct initiators in;
	struct rig_chan *ch, *other;
	uint64_t tag, tmf = 0;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	other = in.of[OTHER_NEXUS];
	rig_hold(true);
	tag = send_long(ch, row->command);
	assert_int_equal(rig_held(), 1);
	if (row->end == ABORT_TASK)
		tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	else if (row->end == LUN_RESET)
		tmf = rig_tmf(other, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	else
		t_fabric_break(ch->xp);
	rig_settle(in.rig);
	if (row->end == ABORT_TASK)
		assert_null(rig_rsp(ch, tmf));
	assert_int_equal(rig_release(in.rig), 1);
	assert_int_equal(rig_held(), 0);
	rig_hold(false);
	rig_release(in.rig);
	if (row->end == ABORT_TASK)
		rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	else if (row->end == LUN_RESET)
		rig_expect_code(other, tmf, SRP_RSP_COMPLETE);
	if (row->end == LUN_RESET && !row->command->immed)
		rig_expect_status(ch, tag, SCSI_STATUS_TASK_ABORTED);
	end(&in);
}

/* Another command has the blocks for itself, and the disk takes long. */
static void command_that_waits_for_blocks_ends_at_once(void **state)
{
	static const struct long_command caw = {
		"", { 0x89, [13] = 1 }, zeroes, 2 * BLK
	};
	struct initiators in;
	struct rig_chan *ch;
	uint64_t first, second, tmf;

	begin(&in);
	ch = in.of[SAME_CHANNEL];
	rig_hold(true);
	first = send_long(ch, &caw);
	second = send_long(in.of[SAME_NEXUS], &long_commands[0]);
	assert_int_equal(rig_held(), 1);
	tmf = rig_tmf(in.of[SAME_NEXUS], SRP_TSK_ABORT_TASK, RIG_DISK, second);
	rig_expect_code(in.of[SAME_NEXUS], tmf, SRP_RSP_COMPLETE);
	assert_null(rig_rsp(in.of[SAME_NEXUS], second));
	rig_hold(false);
	rig_release(in.rig);
	rig_expect_status(ch, first, SCSI_STATUS_GOOD);
	end(&in);
}

int main(void)
{
	static struct t_table t;

	make_long_cases();
	T_ADD_ROWS(&t, long_cases, long_command_stops_between_pieces);
	T_ADD(&t, command_that_waits_for_blocks_ends_at_once);
	return t_run(&t);
}
