/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port side of the target, from the login to the last completion, over the
 * in-memory fabric. See tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"
#include "base/reactor_internal.h"

#define BLK RIG_BLOCK

/* ---- login ---- */

T_TEST(login_is_answered_with_what_ib_srp_needs)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	const struct srp_login_rsp *rsp = &ch->login_rsp;

	assert_int_equal(rsp->tag, 0x5a5a000000000001);
	assert_int_equal(rsp->req_lim, 64);
	assert_true(rsp->it_iu_len >= 8260);
	assert_int_equal(rsp->ti_iu_len, 512);
	assert_int_equal(rsp->formats, SRP_FORMATS);
	assert_int_equal(rsp->multichan, SRP_MULTICHAN_NO_CHAN);
	assert_true(rsp->imm_data);
	rig_destroy(rig);
}

static const struct bad_login {
	const char *name;
	uint32_t it_iu_len;
	uint16_t formats;
	uint64_t id_ext;
	uint32_t reason;
	uint8_t multichan; /* 0: SINGLE */
} bad_logins[] = {
	{ "IUs that are too long", 8277, 6, 0, SRP_REJ_IT_IU_LEN },
	{ "IUs that are too short", 63, 6, 0, SRP_REJ_IT_IU_LEN },
	{ "another target port", 276, 6, 0xdead, SRP_REJ_NO_TARGET },
	{ "an unknown data format", 276, 8, 0, SRP_REJ_FORMATS },
	{ "no data format", 276, 0, 0, SRP_REJ_FORMATS },
	{ "a reserved channel action", 276, 6, 0, SRP_REJ_MULTICHAN, 2 },
	{ "another reserved channel action", 276, 6, 0, SRP_REJ_MULTICHAN, 3 },
};

T_ROWS(bad_login_is_rejected, bad_logins)
{
	const struct bad_login *row = *state;
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch;

	req.it_iu_len = row->it_iu_len;
	req.formats = row->formats;
	if (row->multichan)
		req.multichan = (enum srp_multichan)row->multichan;
	if (row->id_ext)
		req.target = srp_port_id_make(row->id_ext, row->id_ext);
	ch = rig_connect(rig, &req);
	assert_true(ch->closed);
	assert_false(ch->established);
	assert_true(ch->rejected);
	assert_int_equal(ch->rej.reason, row->reason);
	assert_int_equal(ch->rej.tag, req.tag);
	rig_destroy(rig);
}

T_TEST(unnamed_target_is_accepted)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch;

	memset(&req.target, 0, sizeof(req.target));
	ch = rig_connect(rig, &req);
	assert_true(ch->established);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(channels_of_a_nexus_are_limited)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_MULTI);
	struct t_ini *chans[64 + 1];

	for (int i = 0; i <= 64; i++)
		chans[i] = rig_connect(rig, &req);
	assert_true(chans[64 - 1]->established);
	assert_false(chans[64]->established);
	assert_true(chans[64]->rejected);
	assert_int_equal(chans[64]->rej.reason, SRP_REJ_CHANNEL_LIMIT);
	rig_destroy(rig);
}

/* ---- data ---- */

static const struct transfer {
	const char *name;
	unsigned int lun;
	enum rig_how out;
	enum rig_how in;
	uint16_t blocks;
} transfers[] = {
	{ "disk, direct", RIG_DISK, RIG_DIRECT, RIG_DIRECT, 8 },
	{ "disk, indirect", RIG_DISK, RIG_INDIRECT, RIG_INDIRECT, 16 },
	{ "disk, more descriptors than a request holds", RIG_DISK, RIG_MANY,
	  RIG_MANY, 160 },
	{ "disk, table in initiator memory", RIG_DISK, RIG_PARTIAL, RIG_PARTIAL,
	  64 },
	{ "disk, immediate", RIG_DISK, RIG_IMMEDIATE, RIG_DIRECT, 16 },
	{ "disk, largest transfer", RIG_DISK, RIG_DIRECT, RIG_DIRECT, 8192 },
	{ "memory, direct", RIG_RAM, RIG_DIRECT, RIG_DIRECT, 8 },
	{ "memory, indirect", RIG_RAM, RIG_INDIRECT, RIG_INDIRECT, 16 },
	{ "memory, more descriptors than a request holds", RIG_RAM, RIG_MANY,
	  RIG_MANY, 160 },
	{ "memory, table in initiator memory", RIG_RAM, RIG_PARTIAL,
	  RIG_PARTIAL, 64 },
	{ "memory, immediate", RIG_RAM, RIG_IMMEDIATE, RIG_DIRECT, 16 },
};

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7 + (i >> 9));
}

T_ROWS(what_is_written_is_read_back, transfers)
{
	const struct transfer *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(row->lun, 40, row->blocks);
	struct rig_cmd r = rig_read(row->lun, 40, row->blocks);
	uint32_t len = row->blocks * BLK;
	size_t back = RIG_MEM / 2;
	uint64_t tag;

	rig_expect_alive(ch);
	fill(rig->mem, len, 1);
	memset(rig->mem + back, 0xee, len);
	tag = rig_send_rw(ch, &w, row->out, 0, len);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(t_ini_rsp(ch, tag)->req_lim_delta, 1);
	assert_int_equal(t_ini_rsp(ch, tag)->resid_flags, 0);
	tag = rig_send_rw(ch, &r, row->in, back, len);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(t_ini_rsp(ch, tag)->resid_flags, 0);
	assert_memory_equal(rig->mem, rig->mem + back, len);
	assert_int_equal(rig->mem[back + len], 0);
	assert_int_equal(t_port_used(&rig->target), 0);
	rig_destroy(rig);
}

/* The backend of the rig requires buffers that are aligned to blocks. */
T_TEST(immediate_data_at_another_offset_is_copied)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 3, 4);
	struct t_ini *ch;
	uint64_t tag;

	req.imm_offset = 100;
	ch = rig_connect(rig, &req);
	assert_true(ch->login_rsp.imm_data);
	rig_expect_alive(ch);
	fill(rig->mem, 4 * BLK, 9);
	w.out = (struct srp_data_args){ .format = SRP_DATA_IMMEDIATE,
					.imm_len = 4 * BLK,
					.imm_offset = 100 };
	w.imm = rig->mem;
	tag = rig_cmd(ch, &w);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_memory_equal(t_store.bytes + 3 * BLK, rig->mem, 4 * BLK);
	rig_destroy(rig);
}

/* One block of immediate data, but the disk needs a larger buffer to repeat
 * it. */
T_TEST(immediate_data_moves_when_the_disk_wants_more_room)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd same = rig_write(RIG_DISK, 8, 1024);
	uint64_t tag;

	rig_expect_alive(ch);
	same.cdb[0] = 0x41; /* WRITE SAME (10) */
	fill(rig->mem, BLK, 5);
	same.out = (struct srp_data_args){ .format = SRP_DATA_IMMEDIATE,
					   .imm_len = BLK,
					   .imm_offset = SRP_IMM_OFFSET };
	same.imm = rig->mem;
	t_store.hold = true;
	tag = rig_cmd(ch, &same);
	assert_true(t_port_used(&rig->target) > 0);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	for (int i = 0; i < 1024; i++)
		assert_memory_equal(t_store.bytes + (8 + i) * BLK, rig->mem,
				    BLK);
	rig_destroy(rig);
}

T_TEST(good_response_is_36_bytes)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	assert_int_equal(ch->ius[ch->iu_cnt - 1].len, 36);
	rig_destroy(rig);
}

T_TEST(larger_buffer_is_an_underflow)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd inquiry = { .cdb = { 0x12, 0, 0, 0, 255 } };
	struct srp_desc desc = rig_desc(ch, 0, 4096);
	uint64_t tag;

	inquiry.in = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					     .descs = &desc,
					     .desc_cnt = 1 };
	tag = rig_cmd(ch, &inquiry);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(t_ini_rsp(ch, tag)->resid_flags, SRP_RSP_IN_UNDERFLOW);
	assert_true(t_ini_rsp(ch, tag)->in_resid >= 4096 - 255);
	assert_memory_equal(rig->mem + 8, "RDMABLK ", 8);
	rig_destroy(rig);
}

T_TEST(read_past_the_end_says_so)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd r = rig_read(RIG_DISK, RIG_SIZE / BLK, 1);
	struct scsi_sense sense;
	uint64_t tag;

	rig_expect_alive(ch);
	tag = rig_send_rw(ch, &r, RIG_DIRECT, 0, BLK);
	rig_expect_status(ch, tag, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(t_ini_rsp(ch, tag)->sense,
					   t_ini_rsp(ch, tag)->sense_len,
					   &sense),
			 0);
	assert_int_equal(sense.code, SCSI_ASC_LBA_OUT_OF_RANGE);
	assert_int_equal(t_ini_rsp(ch, tag)->in_resid, BLK);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

/* ---- bad input ---- */

#define LUN0  " 00*8 "
#define HEAD  " 02 00 00 00 00 "
#define TAG   " 77*8 "
#define READ1 " 28 00 00000000 00 0001 00 00*6 "

enum end {
	ANSWERED,  /* response code 02h, then the channel closes */
	REFUSED,   /* CHECK CONDITION, and the channel goes on */
	CLOSED,	   /* without an answer */
	TMF_CODE_2 /* like ANSWERED, but for SRP_TSK_MGMT */
};

static const struct bad_iu {
	const char *name;
	const char *hex;
	enum end end;
} bad_ius[] = {
	{ "empty", "", CLOSED },
	{ "one byte", "02", CLOSED },
	{ "15 bytes", "02 00*14", CLOSED },
	{ "SRP_CMD of 16 bytes", "02 00*7" TAG, ANSWERED },
	{ "SRP_CMD of 47 bytes", HEAD "00 00 00" TAG "00*31", ANSWERED },
	{ "direct descriptor missing",
	  HEAD "01 00 00" TAG "00*4" LUN0 "00*4" READ1, ANSWERED },
	{ "direct descriptor cut",
	  HEAD "01 00 00" TAG "00*4" LUN0 "00*4" READ1 "00*15", ANSWERED },
	{ "additional CDB past the end",
	  HEAD "00 00 00" TAG "00*4" LUN0 "00 00 00 fc" READ1, ANSWERED },
	{ "indirect header cut",
	  HEAD "02 00 01" TAG "00*4" LUN0 "00*4" READ1 "00*19", ANSWERED },
	{ "more descriptors than bytes",
	  HEAD "02 00 02" TAG "00*4" LUN0 "00*4" READ1
	       "00*12 00000020 00000200  00*12 00000200",
	  ANSWERED },
	{ "lengths do not add up",
	  HEAD "02 00 01" TAG "00*4" LUN0 "00*4" READ1
	       "00*12 00000010 00000200  00*12 00000201",
	  ANSWERED },
	{ "table length not a multiple of 16",
	  HEAD "02 00 01" TAG "00*4" LUN0 "00*4" READ1
	       "00*12 00000011 00000200  00*12 00000200",
	  ANSWERED },
	{ "descriptor wraps round",
	  HEAD "01 00 00" TAG "00*4" LUN0 "00*4" READ1 "ff*8 00*4 00000200",
	  ANSWERED },
	{ "immediate data longer than the IU",
	  HEAD "30 00 00" TAG "00*4" LUN0 "00*4"
	       " 2a 00 00000000 00 0001 00 00*6 00000200 00*16 00*511",
	  ANSWERED },
	{ "immediate data to the initiator",
	  HEAD "03 00 00" TAG "00*4" LUN0 "00*4" READ1 "00000000 00*16",
	  ANSWERED },
	{ "unknown data format",
	  HEAD "04 00 00" TAG "00*4" LUN0 "00*4" READ1 "00*32", ANSWERED },
	{ "data both ways",
	  HEAD "11 00 00" TAG "00*4" LUN0 "00*4" READ1
	       "00*12 00000200 00*12 00000200",
	  REFUSED },
	{ "table of 2049 descriptors",
	  HEAD "02 00 00" TAG "00*4" LUN0 "00*4" READ1
	       "00*12 00008010 00000200",
	  REFUSED },
	{ "ACA task attribute",
	  HEAD "00 00 00" TAG "00*4" LUN0 "00 04 00 00 00*16", REFUSED },
	{ "reserved task attribute",
	  HEAD "00 00 00" TAG "00*4" LUN0 "00 03 00 00 00*16", REFUSED },
	{ "SRP_TSK_MGMT of 16 bytes", "01 00*7" TAG, TMF_CODE_2 },
	{ "SRP_TSK_MGMT of 47 bytes", "01 00*7" TAG "00*31", TMF_CODE_2 },
	{ "SRP_LOGIN_REQ", "00 00*63", CLOSED },
	{ "SRP_RSP", "c1 00*35", CLOSED },
	{ "unknown opcode", "7f 00*47", CLOSED },
	{ "SRP_CRED_RSP unasked", "41 00*15", CLOSED },
	{ "SRP_AER_RSP unasked", "42 00*15", CLOSED },
	{ "SRP_I_LOGOUT", "03 00*15", CLOSED },
};

static size_t all_hex(const char *hex, uint8_t *buf, size_t cap)
{
	size_t len;
	uint8_t *bytes = t_hex(hex, &len);

	assert_true(len <= cap);
	memcpy(buf, bytes, len);
	free(bytes);
	return len;
}

T_ROWS(bad_iu_hurts_nobody_else, bad_ius)
{
	const struct bad_iu *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag = 0x7777777777777777;
	uint8_t iu[4096];
	size_t len = all_hex(row->hex, iu, sizeof(iu));

	rig_expect_alive(ch);
	rig_send(ch, iu, len);
	switch (row->end) {
	case ANSWERED:
		rig_expect_code(ch, tag, SRP_RSP_FIELDS_INVALID);
		rig_expect_status(ch, tag, SCSI_STATUS_CHECK_CONDITION);
		assert_true(ch->closed);
		break;
	case TMF_CODE_2:
		rig_expect_code(ch, tag, SRP_RSP_FIELDS_INVALID);
		assert_true(ch->closed);
		break;
	case REFUSED:
		rig_expect_status(ch, tag, SCSI_STATUS_CHECK_CONDITION);
		rig_expect_alive(ch);
		break;
	case CLOSED:
		assert_null(t_ini_rsp(ch, tag));
		assert_true(ch->closed);
		break;
	}
	assert_int_equal(t_port_used(&rig->target), 0);
	rig_expect_alive(other);
	rig_destroy(rig);
}

/* An IU that names a unit is refused with sense data in the format of that
 * unit. */
T_ROWS(bad_iu_is_refused_as_d_sense_says, bad_ius)
{
	const struct bad_iu *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	const struct srp_rsp *rsp;
	const uint8_t *sense;
	uint8_t iu[4096];
	size_t len = all_hex(row->hex, iu, sizeof(iu));

	rig_expect_alive(ch);
	rig->target.luns.vol[RIG_DISK]->info.d_sense = true;
	rig_send(ch, iu, len);
	rsp = t_ini_rsp(ch, 0x7777777777777777);
	if (row->end == ANSWERED || row->end == REFUSED) {
		assert_non_null(rsp);
		sense = rsp->sense;
		assert_int_equal(sense[0], len < SRP_CMD_SIZE ? 0x70 : 0x72);
	}
	rig_destroy(rig);
}

/* ---- residuals ---- */

#define READ2	  "28 00*7 02"
#define WRITE2	  "2a 00*7 02"
#define GOOD	  SCSI_STATUS_GOOD
#define CHECK	  SCSI_STATUS_CHECK_CONDITION
#define IN_OVER	  SRP_RSP_IN_OVERFLOW
#define IN_UNDER  SRP_RSP_IN_UNDERFLOW
#define OUT_OVER  SRP_RSP_OUT_OVERFLOW
#define OUT_UNDER SRP_RSP_OUT_UNDERFLOW

/* The lengths that the descriptors have, and those that the CDB states;
 * bytes. */
static const struct resid_row {
	const char *name;
	const char *cdb;
	uint32_t out_len;
	uint32_t in_len;
	uint8_t status;
	uint8_t flags;
	uint32_t out_resid;
	uint32_t in_resid;
} resid_rows[] = {
	{ "read, as long", READ2, 0, 1024, GOOD },
	{ "read into more", READ2, 0, 1536, GOOD, IN_UNDER, 0, 512 },
	{ "read into less", READ2, 0, 1000, GOOD, IN_OVER, 0, 24 },
	{ "read into nothing", READ2, 0, 0, GOOD, IN_OVER, 0, 1024 },
	{ "read with data-out alone", READ2, 2048, 0, GOOD, OUT_UNDER | IN_OVER,
	  2048, 1024 },
	{ "read past the end", "28 00 ff 00*5 02", 0, 1024, CHECK, IN_UNDER, 0,
	  1024 },
	{ "read with buffers both ways", READ2, 512, 1024, CHECK,
	  OUT_UNDER | IN_UNDER, 512, 1024 },
	{ "write, as long", WRITE2, 1024, 0, GOOD },
	{ "write from more", WRITE2, 1536, 0, GOOD, OUT_UNDER, 512, 0 },
	{ "write from less", WRITE2, 1000, 0, CHECK, OUT_OVER, 24, 0 },
	{ "write with data-in alone", WRITE2, 0, 2048, CHECK,
	  OUT_OVER | IN_UNDER, 1024, 2048 },
	{ "write past the end", "2a 00 ff 00*5 02", 1024, 0, CHECK, OUT_UNDER,
	  1024, 0 },
	{ "no data, a buffer for data-in", "00", 0, 512, GOOD, IN_UNDER, 0,
	  512 },
	{ "no data, a buffer for data-out", "00", 512, 0, GOOD, OUT_UNDER, 512,
	  0 },
	{ "no data, buffers both ways", "00", 512, 4096, CHECK,
	  OUT_UNDER | IN_UNDER, 512, 4096 },
	{ "36 bytes of INQUIRY", "12 00*3 24", 0, 36, GOOD },
	{ "96 bytes of INQUIRY into more", "12 00*3 c8", 0, 200, GOOD, IN_UNDER,
	  0, 104 },
	{ "96 bytes of INQUIRY into less", "12 00*3 c8", 0, 36, GOOD, IN_OVER,
	  0, 60 },
	{ "unknown command, data-out", "ff", 512, 0, CHECK, OUT_UNDER, 512, 0 },
};

T_ROWS(residuals_are_of_both_directions, resid_rows)
{
	const struct resid_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_desc out = rig_desc(ch, 0, row->out_len);
	struct srp_desc in = rig_desc(ch, 8192, row->in_len);
	struct rig_cmd cmd = { .lun = RIG_DISK };
	const struct srp_rsp *rsp;
	uint64_t tag;

	all_hex(row->cdb, cmd.cdb, sizeof(cmd.cdb));
	if (row->out_len)
		cmd.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
						  .descs = &out,
						  .desc_cnt = 1 };
	if (row->in_len)
		cmd.in = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
						 .descs = &in,
						 .desc_cnt = 1 };
	rig_expect_alive(ch);
	tag = rig_cmd(ch, &cmd);
	rig_expect_status(ch, tag, row->status);
	rsp = t_ini_rsp(ch, tag);
	assert_int_equal(rsp->resid_flags, row->flags);
	assert_int_equal(rsp->out_resid, row->out_resid);
	assert_int_equal(rsp->in_resid, row->in_resid);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(fetched_table_that_does_not_add_up_moves_no_data)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 64);
	struct srp_desc descs[64];
	struct srp_cmd_args args = { .tag = 5, .cdb = w.cdb, .cdb_len = 16 };
	uint8_t iu[1024];
	int len;

	rig_expect_alive(ch);
	fill(rig->mem, 64 * BLK, 3);
	rig_describe(ch, RIG_PARTIAL, 0, 64 * BLK, descs, &args.out);
	rig->mem[RIG_MEM - 4096 + 19 * 16 + 15] ^= 1; /* the last descriptor's
						       * length */
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	rig_send(ch, iu, rig_make_partial(iu, (size_t)len, true, 4));
	rig_expect_code(ch, 5, SRP_RSP_FIELDS_INVALID);
	assert_true(ch->closed);
	assert_int_equal(t_store.bytes[1], 0);
	rig_destroy(rig);
}

T_TEST(wrong_key_ends_only_that_channel)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 8);
	struct srp_desc desc = rig_desc(ch, 0, 8 * BLK);

	rig_expect_alive(ch);
	desc.key ^= 0xff00;
	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	rig_cmd(ch, &w);
	assert_true(ch->closed);
	assert_int_equal(t_port_used(&rig->target), 0);
	rig_expect_alive(other);
	rig_destroy(rig);
}

/* ---- help by other threads ---- */

static const struct help_row {
	const char *name;
	unsigned int lun;
	bool write;
	bool is;
} help_rows[] = {
	{ "a write that takes time", RIG_DISK, true, true },
	{ "a read that takes time", RIG_DISK, false, false },
	{ "a write to memory", RIG_RAM, true, false },
	{ "a read of memory", RIG_RAM, false, false },
};

/* See base/contention.h. */
T_ROWS(only_a_write_that_takes_time_is_help, help_rows)
{
	const struct help_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = row->write ? rig_write(row->lun, 0, 1)
					: rig_read(row->lun, 0, 1);
	struct contention *c = &rig->target.workers[0].reactor->contention;

	rig_expect_alive(ch);
	rig_clear_ua(ch, RIG_RAM, NULL);
	c->helped = false;
	t_store.hold = true;
	rig_send_rw(ch, &cmd, RIG_DIRECT, 0, BLK);
	t_store.hold = false;
	rig_release(rig);
	assert_int_equal(c->helped, row->is);
	rig_destroy(rig);
}

/* ---- credits ---- */

/* Writes one block. The disk may hold the write back. */
T_TEST(every_credit_can_be_used_at_once)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tags[64];

	rig_expect_alive(ch);
	t_store.hold = true;
	for (int i = 0; i < 64; i++)
		tags[i] = rig_send_write(ch, (uint32_t)i, (uint8_t)i);
	assert_int_equal(t_store.held_cnt, 64);
	t_store.hold = false;
	assert_int_equal(rig_release(rig), 64);
	for (int i = 0; i < 64; i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	for (int i = 0; i < 64; i++)
		assert_int_equal(t_store.bytes[i * BLK], i);
	rig_destroy(rig);
}

T_TEST(more_requests_than_credits_end_the_channel)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	rig_expect_alive(other);
	t_store.hold = true;
	for (int i = 0; i < 64; i++)
		rig_send_write(ch, (uint32_t)i, 1);
	assert_false(ch->closed);
	rig_send_write(ch, 64, 1);
	assert_true(ch->closed);
	assert_int_equal(t_store.held_cnt, 64);
	t_store.hold = false;
	rig_expect_alive(other);
	rig_release(rig);
	assert_int_equal(t_port_used(&rig->target), 0);
	rig_destroy(rig);
}

/* Responses whose completions have not been reaped hold slots. New commands
 * wait. */
T_TEST(commands_wait_when_completions_are_late)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t tags[CHANNEL_REQUESTS + 20];

	rig_expect_alive(ch);
	t_fabric_hold_completions(rig->hub, true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = rig_cmd(ch, &tur);
	assert_null(t_ini_rsp(ch, tags[ARRAY_SIZE(tags) - 1]));
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(requests_wait_for_buffers)
{
	struct rig_options opt = { .arena_len = 128u << 10 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 64);
	uint64_t tags[20];

	rig_expect_alive(ch);
	t_store.hold = true;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		w = rig_write(RIG_DISK, (uint32_t)i % 2 * 64, 64);
		tags[i] = rig_send_rw(ch, &w, RIG_MANY, 0, 64 * BLK);
	}
	assert_int_equal(t_store.held_cnt, 2); /* of 32 KiB each: half */
	while (rig_release(rig) > 0)
		;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_destroy(rig);
}

/* The largest possible transfers, on two channels; each reads its table
 * first. */
T_TEST(large_transfers_take_turns)
{
	struct rig_options opt = { .arena_len = 8u << 20 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch[2] = { rig_login(rig, 1, SRP_MULTICHAN_MULTI),
				rig_login(rig, 1, SRP_MULTICHAN_MULTI) };
	struct rig_cmd w = rig_write(RIG_DISK, 0, 8192);
	struct rig_cmd r = rig_read(RIG_DISK, 0, 8192);
	uint64_t tags[32];

	rig_expect_alive(ch[0]);
	t_store.hold = true;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = rig_send_rw(ch[i % 2], i % 4 < 2 ? &w : &r,
				      i % 3 ? RIG_PARTIAL : RIG_MANY, 0,
				      8192 * BLK);
	while (rig_release(rig) > 0)
		;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch[i % 2], tags[i], SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_destroy(rig);
}

/* One initiator asks for much more than there is, another one for little. */
T_TEST(greedy_initiator_leaves_room_for_others)
{
	struct rig_options opt = { .arena_len = 2u << 20 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *greedy = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *modest = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 512);
	struct rig_cmd r = rig_read(RIG_DISK, 0, 8);
	uint64_t tags[40];
	uint64_t tag;

	rig_expect_alive(greedy);
	rig_expect_alive(modest);
	/* The fabric holds the data of this command back. */
	t_fabric_hold_completions(rig->hub, true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = rig_send_rw(greedy, &w, RIG_DIRECT, 0, 512 * BLK);
	assert_int_equal(t_port_used(&rig->target), 1u << 20);
	for (size_t i = 0; i < 5; i++) {
		tag = rig_send_rw(modest, &r, RIG_DIRECT, 1u << 20, 8 * BLK);
		rig_expect_status(modest, tag, SCSI_STATUS_GOOD);
	}
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(greedy, tags[i], SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* ---- the fence ---- */

static const struct leave_row {
	const char *name;
	bool aborts; /* the command; else the channel closes */
} leave_rows[] = {
	{ "aborted", true },
	{ "with its channel", false },
};

/* The store has the only command that has memory. A command that waits for all
 * memory ends; the one behind it needs little. */
T_ROWS(who_waits_behind_one_that_leaves_is_served, leave_rows)
{
	const struct leave_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *stuck = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *large = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct t_ini *small = rig_login(rig, 3, SRP_MULTICHAN_SINGLE);
	struct rig_cmd all = rig_read(RIG_DISK, 0, 8192);
	struct rig_cmd one = rig_read(RIG_DISK, 0, 1);
	uint64_t tag;

	rig_expect_alive(stuck);
	rig_expect_alive(large);
	rig_expect_alive(small);
	t_store.hold = true;
	rig_send_rw(stuck, &one, RIG_DIRECT, 0, BLK);
	tag = rig_send_rw(large, &all, RIG_DIRECT, 0, 8192 * BLK);
	rig_send_rw(small, &one, RIG_DIRECT, 0, BLK);
	assert_int_equal(t_store.held_cnt, 1);
	if (row->aborts)
		rig_tmf(large, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	else
		rig_chan_free(large);
	rig_settle(rig);
	assert_int_equal(t_store.held_cnt, 2);
	t_store.hold = false;
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(login_replaces_commands_that_the_disk_has)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *old2 = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *new;
	uint16_t asc = 0;

	rig_expect_alive(old);
	t_store.hold = true;
	rig_send_write(old, 9, 0x01);
	rig_send_write(old2, 9, 0x02);
	new = rig_connect(rig, &req);
	assert_true(old->closed);
	assert_true(old2->closed);
	assert_true(new->established);
	assert_int_equal(new->login_rsp.multichan, SRP_MULTICHAN_TERMINATED);
	assert_int_equal(rig_clear_ua(new, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_NEXUS_LOSS);
	rig_send_write(new, 9, 0x03);
	t_store.hold = false;
	rig_release(rig);
	assert_int_equal(t_store.bytes[9 * BLK], 0x03);
	rig_destroy(rig);
}

/* takes APTPL back for all registrants */
T_TEST(unnamed_target_is_the_same_nexus)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *new;

	req.target = (struct srp_port_id){ { 0 } };
	rig_expect_alive(old);
	t_fabric_hold_completions(rig->hub, true);
	rig_send_write(old, 9, 0x01);
	new = rig_connect(rig, &req);
	t_fabric_hold_completions(rig->hub, false);
	assert_false(new->established);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	assert_true(new->established);
	rig_destroy(rig);
}

T_TEST(login_of_another_initiator_does_not_wait)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other;

	rig_expect_alive(ch);
	t_store.hold = true;
	rig_send_write(ch, 9, 0x01);
	other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	t_store.hold = false;
	rig_expect_alive(other);
	assert_false(ch->closed);
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(newer_login_replaces_the_one_that_waits)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second;
	struct t_ini *third;

	rig_expect_alive(old);
	t_fabric_hold_completions(rig->hub, true);
	rig_send_write(old, 9, 0x01);
	second = rig_connect(rig, &req);
	t_fabric_hold_completions(rig->hub, false);
	third = rig_connect(rig, &req);
	assert_true(second->closed);
	assert_false(third->closed);
	assert_false(third->established);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	assert_true(third->established);
	rig_destroy(rig);
}

/* However often it comes back. The store keeps what it has. */
T_TEST(login_does_not_wait_for_a_store)
{
	struct rig *rig = rig_create(NULL);
	struct rig_cmd read = rig_read(RIG_DISK, 9, 1);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;

	rig_expect_alive(ch);
	t_store.hold = true;
	for (uint32_t i = 0; i < 3; i++) {
		rig_send_write(ch, 9 + i, 0x01);
		ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
		assert_int_equal(rig_clear_ua(ch, RIG_DISK, NULL), 1);
	}
	assert_int_equal(rig->target.port.login_cnt, 1);
	tag = rig_send_rw(ch, &read, RIG_DIRECT, 0, BLK);
	assert_int_equal(t_store.held_cnt, 3);
	assert_null(t_ini_rsp(ch, tag));
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(rig->mem[0], 0x01);
	rig_destroy(rig);
}

/* Its memory stays, but the initiator gets another nexus. */
T_TEST(nexus_is_over_while_a_store_has_its_command)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint16_t asc = 0;

	rig_expect_alive(ch);
	t_store.hold = true;
	rig_send_write(ch, 9, 0x01);
	rig_chan_free(ch);
	ch = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	assert_int_equal(ch->login_rsp.multichan, SRP_MULTICHAN_NO_CHAN);
	assert_int_equal(rig_clear_ua(ch, RIG_RAM, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_NEXUS_LOSS);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(initiator_that_comes_back_is_told_of_its_loss)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint16_t asc = 0;

	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_POWER_ON);
	rig_chan_free(ch);
	for (unsigned int who = 1; who <= 2; who++) {
		ch = rig_login(rig, who, SRP_MULTICHAN_SINGLE);
		assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
		assert_int_equal(asc, who == 1 ? SCSI_ASC_NEXUS_LOSS
					       : SCSI_ASC_POWER_ON);
		rig_chan_free(ch);
	}
	rig_destroy(rig);
}

T_TEST(channels_join_a_nexus)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);

	assert_int_equal(second->login_rsp.multichan, SRP_MULTICHAN_MAINTAINED);
	rig_expect_alive(ch);
	rig_expect_alive(second);
	rig_chan_free(ch);
	rig_expect_alive(second);
	rig_destroy(rig);
}

T_TEST(channel_without_others_is_told_so)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_MULTI);

	assert_int_equal(ch->login_rsp.multichan, SRP_MULTICHAN_NO_CHAN);
	rig_destroy(rig);
}

/* Returns the workers of the channels of initiator @who's nexus, as digits. */
static const char *workers_of(const struct rig *rig, unsigned int who)
{
	const struct nexus *nexus = t_port_nexus(&rig->target, who);
	static char digits[8];
	unsigned int cnt = 0;
	struct list *it;

	assert_true(nexus->channel_cnt < sizeof(digits));
	list_for_each(it, &nexus->channels)
		digits[cnt++] = (char)('0' + container_of(it, struct channel,
							  at_port.nexus_node)
						     ->worker->index);
	digits[cnt] = '\0';
	return digits;
}

/* The channels of one nexus are on different workers. First channels carry most
 * small commands; they are also spread over the workers. */
T_TEST(channels_are_spread_over_the_workers)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);

	for (unsigned int i = 0; i < 4; i++)
		rig_login(rig, 1 + i / 2,
			  i % 2 ? SRP_MULTICHAN_MULTI : SRP_MULTICHAN_SINGLE);
	for (unsigned int i = 4; i < 7; i++)
		rig_login(rig, i, SRP_MULTICHAN_SINGLE);
	assert_string_equal(workers_of(rig, 1), "01");
	assert_string_equal(workers_of(rig, 2), "10");
	assert_string_equal(workers_of(rig, 4), "0");
	assert_string_equal(workers_of(rig, 5), "1");
	assert_string_equal(workers_of(rig, 6), "0");
	rig_destroy(rig);
}

/* ---- the end ---- */

T_TEST(stop_answers_what_is_in_flight)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *idle = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t late;
	uint64_t tag;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rig_send_write(ch, 9, 0x42);
	port_stop(&rig->target.port);
	rig_settle(rig);
	assert_true(idle->closed);
	assert_false(ch->closed);
	assert_false(rig->target.stopped);
	late = rig_cmd(ch, &tur);
	assert_null(t_ini_rsp(ch, late));
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_null(t_ini_rsp(ch, late));
	assert_true(ch->closed);
	assert_true(rig->target.stopped);
	rig_destroy(rig);
}

T_TEST(login_that_waits_is_refused_at_stop)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *new;

	rig_expect_alive(old);
	t_store.hold = true;
	rig_send_write(old, 9, 0x01);
	new = rig_connect(rig, &req);
	port_stop(&rig->target.port);
	rig_settle(rig);
	assert_true(new->closed);
	assert_false(rig->target.stopped);
	t_store.hold = false;
	rig_release(rig);
	assert_true(rig->target.stopped);
	rig_destroy(rig);
}

/* Sends some commands of each kind. The connection is lost at the @nth work
 * request. */
static void exercise(struct rig *rig, struct t_ini *ch)
{
	for (size_t i = 0; i < ARRAY_SIZE(transfers) && !ch->closed; i++) {
		const struct transfer *t = &transfers[i];
		struct rig_cmd w = rig_write(t->lun, 0, t->blocks);
		struct rig_cmd r = rig_read(t->lun, 0, t->blocks);

		rig_send_rw(ch, &w, t->out, 0, t->blocks * BLK);
		if (!ch->closed)
			rig_send_rw(ch, &r, t->in, 0, t->blocks * BLK);
		if (!ch->closed)
			rig_tmf(ch, SRP_TSK_ABORT_TASK, t->lun, 1);
	}
}

T_TEST(nothing_is_lost_wherever_the_fabric_breaks)
{
	bool broke = true;

	for (unsigned int nth = 1; broke; nth++) {
		struct rig *rig = rig_create(NULL);
		struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

		rig_expect_alive(ch);
		t_fabric_break_at(rig->hub, nth);
		exercise(rig, ch);
		broke = ch->closed;
		t_fabric_break_at(rig->hub, 0);
		if (broke) {
			assert_int_equal(t_port_used(&rig->target), 0);
			assert_int_equal(rig->target.port.login_cnt, 0);
		}
		rig_chan_free(ch);
		rig_destroy(rig);
	}
}
