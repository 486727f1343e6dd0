/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port side of the target, from the login to the last completion, over the
 * fabric in memory. See test_port_rig.h.
 */
#include "tests/unit/test_port_rig.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* ---- login ---- */

static void login_is_answered_with_what_ib_srp_needs(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	const struct srp_login_rsp *rsp = &ch->login_rsp;

	assert_int_equal(rsp->tag, 0x5a5a000000000001);
	assert_int_equal(rsp->req_lim, 64);
	assert_true(rsp->it_iu_len >= 8260);
	assert_int_equal(rsp->ti_iu_len, 512);
	assert_int_equal(rsp->formats, SRP_FORMATS);
	assert_int_equal(rsp->multichan, SRP_MULTICHAN_NO_CHAN);
	assert_true(rsp->imm_data);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static const struct bad_login {
	const char *name;
	uint32_t it_iu_len;
	uint16_t formats;
	uint64_t id_ext;
	uint32_t reason;
} bad_logins[] = {
	{ "IUs that are too long", 8277, 6, 0, SRP_REJ_IT_IU_LEN },
	{ "IUs that are too short", 63, 6, 0, SRP_REJ_IT_IU_LEN },
	{ "another target port", 276, 6, 0xdead, SRP_REJ_NO_TARGET },
	{ "an unknown data format", 276, 8, 0, SRP_REJ_FORMATS },
};

static void bad_login_is_rejected(void **state)
{
	const struct bad_login *row = *state;
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_rej rej;
	struct rig_chan *ch;

	req.it_iu_len = row->it_iu_len;
	req.formats = row->formats;
	if (row->id_ext)
		req.target = srp_port_id_make(row->id_ext, row->id_ext);
	ch = rig_connect(rig, &req);
	assert_true(ch->closed);
	assert_false(ch->established);
	assert_int_equal(
		srp_login_rej_decode(ch->why.pdata, ch->why.pdata_len, &rej),
		0);
	assert_int_equal(rej.reason, row->reason);
	assert_int_equal(rej.tag, req.tag);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void unnamed_target_is_accepted(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *ch;

	memset(&req.target, 0, sizeof(req.target));
	ch = rig_connect(rig, &req);
	assert_true(ch->established);
	rig_expect_alive(ch);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void channels_of_a_nexus_are_limited(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_MULTI);
	struct rig_chan *chans[64 + 1];
	struct srp_login_rej rej;

	for (int i = 0; i <= 64; i++)
		chans[i] = rig_connect(rig, &req);
	assert_true(chans[64 - 1]->established);
	assert_false(chans[64]->established);
	srp_login_rej_decode(chans[64]->why.pdata, SRP_LOGIN_REJ_SIZE, &rej);
	assert_int_equal(rej.reason, SRP_REJ_CHANNEL_LIMIT);
	for (int i = 0; i <= 64; i++)
		rig_chan_free(chans[i]);
	rig_destroy(rig);
}

/* ---- data ---- */

enum how {
	DIRECT,
	INDIRECT,
	MANY,
	PARTIAL,
	IMMEDIATE,
	IMMEDIATE_ODD
};

static const struct transfer {
	const char *name;
	unsigned int lun;
	enum how out;
	enum how in;
	uint16_t blocks;
} transfers[] = {
	{ "disk, direct", RIG_DISK, DIRECT, DIRECT, 8 },
	{ "disk, indirect", RIG_DISK, INDIRECT, INDIRECT, 16 },
	{ "disk, more descriptors than a request holds", RIG_DISK, MANY, MANY,
	  160 },
	{ "disk, table in initiator memory", RIG_DISK, PARTIAL, PARTIAL, 64 },
	{ "disk, immediate", RIG_DISK, IMMEDIATE, DIRECT, 16 },
	{ "disk, largest transfer", RIG_DISK, DIRECT, DIRECT, 8192 },
	{ "memory, direct", RIG_RAM, DIRECT, DIRECT, 8 },
	{ "memory, indirect", RIG_RAM, INDIRECT, INDIRECT, 16 },
	{ "memory, more descriptors than a request holds", RIG_RAM, MANY, MANY,
	  160 },
	{ "memory, table in initiator memory", RIG_RAM, PARTIAL, PARTIAL, 64 },
	{ "memory, immediate", RIG_RAM, IMMEDIATE, DIRECT, 16 },
};

static unsigned int desc_cnt(enum how how)
{
	switch (how) {
	case INDIRECT:
		return 5;
	case MANY:
		return 33;
	case PARTIAL:
		return 20;
	default:
		return 1;
	}
}

/* Cuts @len bytes at @offset into pieces of uneven lengths. */
static void cut(const struct rig_chan *ch, size_t offset, uint32_t len,
		unsigned int cnt, struct srp_desc *descs)
{
	for (unsigned int i = 0; i < cnt; i++) {
		uint32_t piece = i + 1 < cnt ? len / cnt - 7 + i % 13 : len;

		descs[i] = rig_desc(ch, offset, piece);
		offset += piece;
		len -= piece;
	}
}

/* Describes @len bytes at @offset. The table goes to the end of memory. */
static void describe(struct rig_chan *ch, enum how how, size_t offset,
		     uint32_t len, struct srp_desc *descs,
		     struct srp_data_args *ret)
{
	size_t table = RIG_MEM - 4096;
	struct srp_desc at = rig_desc(ch, table, 4096);
	unsigned int cnt = desc_cnt(how);

	cut(ch, offset, len, cnt, descs);
	*ret = (struct srp_data_args){
		.format = how == DIRECT ? SRP_DATA_DIRECT : SRP_DATA_INDIRECT,
		.descs = descs,
		.desc_cnt = cnt,
		.table_addr = at.addr,
		.table_key = at.key,
	};
	srp_desc_pack(descs, cnt, ch->rig->mem + table);
}

/*
 * Turns an SRP_CMD with all descriptors inline into one with a partial list:
 * only the first @keep are there.
 */
static size_t make_partial(uint8_t *iu, size_t len, bool out, unsigned int keep)
{
	unsigned int cnt = iu[out ? 6 : 7];

	iu[out ? 6 : 7] = (uint8_t)keep;
	return len - (size_t)(cnt - keep) * SRP_DESC_SIZE;
}

static uint64_t send_rw(struct rig_chan *ch, struct rig_cmd *cmd, enum how how,
			size_t offset, uint32_t len)
{
	struct srp_desc descs[64];
	bool out = cmd->cdb[0] == 0x2a;
	struct srp_data_args *data = out ? &cmd->out : &cmd->in;
	struct srp_cmd_args args = { .tag = ch->next_tag++,
				     .cdb = cmd->cdb,
				     .cdb_len = 16 };
	uint8_t iu[CHANNEL_IT_IU_LEN];
	int iu_len;

	if (how == IMMEDIATE) {
		*data = (struct srp_data_args){ .format = SRP_DATA_IMMEDIATE,
						.imm_len = len,
						.imm_offset = SRP_IMM_OFFSET };
		cmd->imm = ch->rig->mem + offset;
		ch->next_tag--;
		return rig_cmd(ch, cmd);
	}
	describe(ch, how, offset, len, descs, data);
	args.out = cmd->out;
	args.in = cmd->in;
	assert_int_equal(srp_lun_encode(cmd->lun, &args.lun), 0);
	iu_len = srp_cmd_encode(iu, sizeof(iu), &args);
	assert_true(iu_len > 0);
	if (how == PARTIAL)
		iu_len = (int)make_partial(iu, (size_t)iu_len, out, 4);
	rig_send(ch, iu, (size_t)iu_len);
	return args.tag;
}

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7 + (i >> 9));
}

static void what_is_written_is_read_back(void **state)
{
	const struct transfer *row = *state;
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(row->lun, 40, row->blocks);
	struct rig_cmd r = rig_read(row->lun, 40, row->blocks);
	uint32_t len = row->blocks * BLK;
	size_t back = RIG_MEM / 2;
	uint64_t tag;

	rig_expect_alive(ch);
	fill(rig->mem, len, 1);
	memset(rig->mem + back, 0xee, len);
	tag = send_rw(ch, &w, row->out, 0, len);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(rig_rsp(ch, tag)->req_lim_delta, 1);
	assert_int_equal(rig_rsp(ch, tag)->resid_flags, 0);
	tag = send_rw(ch, &r, row->in, back, len);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(rig_rsp(ch, tag)->resid_flags, 0);
	assert_memory_equal(rig->mem, rig->mem + back, len);
	assert_int_equal(rig->mem[back + len], 0);
	assert_int_equal(rig_used(rig), 0);
	rig_chan_free(ch);
	rig_destroy(rig);
}

/* The backend of the rig insists on buffers that are aligned to blocks. */
static void immediate_data_at_another_offset_is_copied(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 3, 4);
	struct rig_chan *ch;
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
	assert_memory_equal(rig_disk() + 3 * BLK, rig->mem, 4 * BLK);
	rig_chan_free(ch);
	rig_destroy(rig);
}

/* One block of immediate data, but the disk needs room to repeat it. */
static void immediate_data_moves_when_the_disk_wants_more_room(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd same = rig_write(RIG_DISK, 8, 1024);
	uint64_t tag;

	rig_expect_alive(ch);
	same.cdb[0] = 0x41; /* WRITE SAME (10) */
	fill(rig->mem, BLK, 5);
	same.out = (struct srp_data_args){ .format = SRP_DATA_IMMEDIATE,
					   .imm_len = BLK,
					   .imm_offset = SRP_IMM_OFFSET };
	same.imm = rig->mem;
	rig_hold(true);
	tag = rig_cmd(ch, &same);
	assert_true(rig_used(rig) > 0);
	rig_hold(false);
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	for (int i = 0; i < 1024; i++)
		assert_memory_equal(rig_disk() + (8 + i) * BLK, rig->mem, BLK);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void good_response_is_36_bytes(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	assert_int_equal(ch->ius[ch->iu_cnt - 1].len, 36);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void larger_buffer_is_an_underflow(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd inquiry = { .cdb = { 0x12, 0, 0, 0, 255 } };
	struct srp_desc desc = rig_desc(ch, 0, 4096);
	uint64_t tag;

	inquiry.in = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					     .descs = &desc,
					     .desc_cnt = 1 };
	tag = rig_cmd(ch, &inquiry);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(rig_rsp(ch, tag)->resid_flags, SRP_RSP_IN_UNDERFLOW);
	assert_true(rig_rsp(ch, tag)->in_resid >= 4096 - 255);
	assert_memory_equal(rig->mem + 8, "RDMABLK ", 8);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void read_past_the_end_says_so(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd r = rig_read(RIG_DISK, RIG_SIZE / BLK, 1);
	struct scsi_sense sense;
	uint64_t tag;

	rig_expect_alive(ch);
	tag = send_rw(ch, &r, DIRECT, 0, BLK);
	rig_expect_status(ch, tag, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rig_rsp(ch, tag)->sense,
					   rig_rsp(ch, tag)->sense_len, &sense),
			 0);
	assert_int_equal(sense.code, SCSI_ASC_LBA_OUT_OF_RANGE);
	assert_int_equal(rig_rsp(ch, tag)->in_resid, BLK);
	rig_expect_alive(ch);
	rig_chan_free(ch);
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
	TMF_CODE_2 /* as ANSWERED, to SRP_TSK_MGMT */
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

static void bad_iu_hurts_nobody_else(void **state)
{
	const struct bad_iu *row = *state;
	struct rig *rig = rig_create(NULL);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
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
		assert_null(rig_rsp(ch, tag));
		assert_true(ch->closed);
		break;
	}
	assert_int_equal(rig_used(rig), 0);
	rig_expect_alive(other);
	rig_chan_free(ch);
	rig_chan_free(other);
	rig_destroy(rig);
}

static void fetched_table_that_does_not_add_up_moves_no_data(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 64);
	struct srp_desc descs[64];
	struct srp_cmd_args args = { .tag = 5, .cdb = w.cdb, .cdb_len = 16 };
	uint8_t iu[1024];
	int len;

	rig_expect_alive(ch);
	fill(rig->mem, 64 * BLK, 3);
	describe(ch, PARTIAL, 0, 64 * BLK, descs, &args.out);
	rig->mem[RIG_MEM - 4096 + 19 * 16 + 15] ^= 1; /* the last's length */
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	rig_send(ch, iu, make_partial(iu, (size_t)len, true, 4));
	rig_expect_code(ch, 5, SRP_RSP_FIELDS_INVALID);
	assert_true(ch->closed);
	assert_int_equal(rig_disk()[1], 0);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void wrong_key_ends_only_that_channel(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 8);
	struct srp_desc desc = rig_desc(ch, 0, 8 * BLK);

	rig_expect_alive(ch);
	desc.key ^= 0xff00;
	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	rig_cmd(ch, &w);
	assert_true(ch->closed);
	assert_int_equal(rig_used(rig), 0);
	rig_expect_alive(other);
	rig_chan_free(ch);
	rig_chan_free(other);
	rig_destroy(rig);
}

/* ---- credits ---- */

/* A write of one block that the disk keeps back or not. */
static uint64_t send_write(struct rig_chan *ch, uint32_t lba, uint8_t byte)
{
	struct rig_cmd w = rig_write(RIG_DISK, lba, 1);

	memset(ch->rig->mem, byte, BLK);
	return send_rw(ch, &w, DIRECT, 0, BLK);
}

static void every_credit_can_be_used_at_once(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tags[64];

	rig_expect_alive(ch);
	rig_hold(true);
	for (int i = 0; i < 64; i++)
		tags[i] = send_write(ch, (uint32_t)i, (uint8_t)i);
	assert_int_equal(rig_held(), 64);
	rig_hold(false);
	assert_int_equal(rig_release(rig), 64);
	for (int i = 0; i < 64; i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	for (int i = 0; i < 64; i++)
		assert_int_equal(rig_disk()[i * BLK], i);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void more_requests_than_credits_end_the_channel(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	rig_expect_alive(other);
	rig_hold(true);
	for (int i = 0; i < 64; i++)
		send_write(ch, (uint32_t)i, 1);
	assert_false(ch->closed);
	send_write(ch, 64, 1);
	assert_true(ch->closed);
	assert_int_equal(rig_held(), 64);
	rig_hold(false);
	rig_expect_alive(other);
	rig_release(rig);
	assert_int_equal(rig_used(rig), 0);
	rig_chan_free(ch);
	rig_chan_free(other);
	rig_destroy(rig);
}

/* Responses that have not been reaped hold slots; new commands wait then. */
static void commands_wait_when_completions_are_late(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t tags[CHANNEL_REQUESTS + 20];

	rig_expect_alive(ch);
	t_fabric_hold_completions(rig->hub, true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = rig_cmd(ch, &tur);
	assert_null(rig_rsp(ch, tags[ARRAY_SIZE(tags) - 1]));
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void requests_wait_for_buffers(void **state)
{
	struct rig_options opt = { .arena_len = 128u << 10 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 64);
	uint64_t tags[20];

	rig_expect_alive(ch);
	rig_hold(true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = send_rw(ch, &w, MANY, 0, 64 * BLK);
	assert_int_equal(rig_held(), 2); /* of 32 KiB each: half */
	while (rig_release(rig) > 0)
		;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	rig_hold(false);
	rig_chan_free(ch);
	rig_destroy(rig);
}

/* The largest there are, on two channels, with tables to be read first. */
static void large_transfers_take_turns(void **state)
{
	struct rig_options opt = { .arena_len = 8u << 20 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch[2] = { rig_login(rig, 1, SRP_MULTICHAN_MULTI),
				   rig_login(rig, 1, SRP_MULTICHAN_MULTI) };
	struct rig_cmd w = rig_write(RIG_DISK, 0, 8192);
	struct rig_cmd r = rig_read(RIG_DISK, 0, 8192);
	uint64_t tags[32];

	rig_expect_alive(ch[0]);
	rig_hold(true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = send_rw(ch[i % 2], i % 4 < 2 ? &w : &r,
				  i % 3 ? PARTIAL : MANY, 0, 8192 * BLK);
	while (rig_release(rig) > 0)
		;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(ch[i % 2], tags[i], SCSI_STATUS_GOOD);
	rig_hold(false);
	rig_chan_free(ch[0]);
	rig_chan_free(ch[1]);
	rig_destroy(rig);
}

/* One that asks for far more than there is, and one that asks for little. */
static void greedy_initiator_leaves_room_for_others(void **state)
{
	struct rig_options opt = { .arena_len = 2u << 20 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *greedy = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *modest = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 512);
	struct rig_cmd r = rig_read(RIG_DISK, 0, 8);
	uint64_t tags[40];
	uint64_t tag;

	rig_expect_alive(greedy);
	rig_expect_alive(modest);
	/* Its data never comes: the fabric keeps it. */
	t_fabric_hold_completions(rig->hub, true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = send_rw(greedy, &w, DIRECT, 0, 512 * BLK);
	assert_int_equal(rig_used(rig), 1u << 20);
	for (size_t i = 0; i < 5; i++) {
		tag = send_rw(modest, &r, DIRECT, 1u << 20, 8 * BLK);
		rig_expect_status(modest, tag, SCSI_STATUS_GOOD);
	}
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		rig_expect_status(greedy, tags[i], SCSI_STATUS_GOOD);
	rig_chan_free(greedy);
	rig_chan_free(modest);
	rig_destroy(rig);
}

/* ---- task management ---- */

/* Where the command is when the function arrives. */
enum where {
	WAITING,    /* for a buffer */
	READING,    /* its descriptor table is on the way */
	READ,	    /* that has come; it waits for a buffer */
	FETCHING,   /* its data-out is on the way */
	EXECUTING,  /* the disk has it */
	ABORTING,   /* so it has, and an ABORT TASK waits for it */
	RESPONDING, /* its response is on the way */
	DONE,	    /* answered already */
	NOWHERE,    /* never sent */
	WHERES,
};

static const char *const where_names[WHERES] = {
	[WAITING] = "waiting",	     [READING] = "reading",
	[READ] = "table read",	     [FETCHING] = "fetching",
	[EXECUTING] = "executing",   [ABORTING] = "being aborted",
	[RESPONDING] = "responding", [DONE] = "done",
	[NOWHERE] = "unknown",
};

enum asker {
	SAME_CHANNEL,
	SAME_NEXUS, /* another channel of it */
	OTHER_NEXUS,
	ASKERS,
};

static const char *const asker_names[ASKERS] = {
	"same channel",
	"same nexus",
	"other nexus",
};

static const struct {
	const char *name;
	uint8_t function;
} functions[] = {
	{ "ABORT TASK", SRP_TSK_ABORT_TASK },
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET },
	{ "LUN RESET", SRP_TSK_LUN_RESET },
	{ "CLEAR ACA", SRP_TSK_CLEAR_ACA },
	{ "unknown function", 0x7f },
};

/* Every function in every state, from everywhere. */
struct tmf_case {
	const char *name; /* text */
	char text[64];
	uint8_t function;
	enum where where;
	enum asker asker;
};

static struct tmf_case tmf_cases[ARRAY_SIZE(functions) * WHERES * ASKERS];

static void make_tmf_cases(void)
{
	struct tmf_case *row = tmf_cases;

	for (size_t f = 0; f < ARRAY_SIZE(functions); f++)
		for (int where = 0; where < WHERES; where++)
			for (int asker = 0; asker < ASKERS; asker++, row++) {
				snprintf(row->text, sizeof(row->text),
					 "%s, %s, %s", functions[f].name,
					 where_names[where],
					 asker_names[asker]);
				row->name = row->text;
				row->function = functions[f].function;
				row->where = (enum where)where;
				row->asker = (enum asker)asker;
			}
}

static bool is_refused(const struct tmf_case *row)
{
	return row->function == SRP_TSK_CLEAR_ACA || row->function == 0x7f;
}

/* Is the command among those that the function is about? */
static bool is_covered(const struct tmf_case *row)
{
	switch (row->function) {
	case SRP_TSK_ABORT_TASK:
		return row->asker == SAME_CHANNEL;
	case SRP_TSK_ABORT_TASK_SET:
		return row->asker != OTHER_NEXUS;
	default:
		return !is_refused(row);
	}
}

/* Does the function, or the one before it, end it? */
static bool is_ended(const struct tmf_case *row)
{
	return row->where == ABORTING ||
	       (row->where < ABORTING && is_covered(row));
}

/* Takes all data buffers, so that the next command waits. */
static void *take_buffers(struct rig *rig)
{
	struct arena *a = rig->workers[0].arena;

	return arena_get(a, arena_len(a));
}

/* Brings a write of 0x5a to LBA 7 to @where; returns its tag. */
static uint64_t bring(struct rig *rig, struct rig_chan *ch, enum where where,
		      void **ret_block)
{
	bool waits = where == WAITING || where == READ;

	*ret_block = waits ? take_buffers(rig) : NULL;
	if (where == READING || where == FETCHING || where == RESPONDING)
		t_fabric_hold_completions(rig->hub, true);
	if (where == EXECUTING || where == ABORTING)
		rig_hold(true);
	if (where == NOWHERE)
		return 0xdeadbeef;
	if (where == RESPONDING) {
		/* Immediate data: no completion is needed before. */
		struct rig_cmd w = rig_write(RIG_DISK, 7, 1);

		memset(rig->mem, 0x5a, BLK);
		return send_rw(ch, &w, IMMEDIATE, 0, BLK);
	}
	if (where == READING || where == READ) {
		struct rig_cmd w = rig_write(RIG_DISK, 7, 64);

		memset(rig->mem, 0x5a, 64 * BLK);
		return send_rw(ch, &w, PARTIAL, 0, 64 * BLK);
	}
	return send_write(ch, 7, 0x5a);
}

static void let_go(struct rig *rig, enum where where, void *block)
{
	arena_put(rig->workers[0].arena, block);
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_hold(false);
	rig_release(rig);
	rig_settle(rig);
}

/* Must it not be answered before the command lets go? */
static bool must_await(const struct tmf_case *row)
{
	switch (row->where) {
	case READING:
	case FETCHING:
	case EXECUTING:
	case ABORTING:
		return is_covered(row);
	case RESPONDING:
		return is_covered(row) && row->asker != OTHER_NEXUS;
	default:
		return false;
	}
}

static int sum_of_deltas(const struct rig_chan *ch)
{
	struct srp_rsp rsp;
	int sum = 0;

	for (unsigned int i = 0; i < ch->iu_cnt; i++) {
		struct srp_cred_req cred;

		if (!srp_rsp_decode(ch->ius[i].bytes, ch->ius[i].len, &rsp))
			sum += rsp.req_lim_delta;
		else if (!srp_cred_req_decode(ch->ius[i].bytes, ch->ius[i].len,
					      &cred))
			sum += cred.req_lim_delta;
	}
	return sum;
}

static void check_ended(const struct tmf_case *row, struct rig_chan *ch,
			uint64_t tag)
{
	bool silent = row->where == ABORTING || row->asker != OTHER_NEXUS;

	if (row->where == NOWHERE || (is_ended(row) && silent))
		assert_null(rig_rsp(ch, tag));
	else
		rig_expect_status(ch, tag,
				  is_ended(row) ? SCSI_STATUS_TASK_ABORTED
						: SCSI_STATUS_GOOD);
}

/* What the disk had is on the medium; what was ended before never gets there. */
static void check_medium(const struct tmf_case *row)
{
	bool had = row->where == EXECUTING || row->where == ABORTING;

	if (row->where == NOWHERE || (is_ended(row) && !had))
		assert_int_equal(rig_disk()[7 * BLK], 0);
	else
		assert_int_equal(rig_disk()[7 * BLK], 0x5a);
}

static void tmf_in_every_state(void **state)
{
	const struct tmf_case *row = *state;
	uint8_t code =
		is_refused(row) ? SRP_RSP_TMF_NOT_SUPPORTED : SRP_RSP_COMPLETE;
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_chan *const askers[ASKERS] = { ch, second, other };
	struct rig_chan *asks = askers[row->asker];
	uint64_t first = 0;
	uint64_t tag;
	uint64_t tmf;
	void *block;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	tag = bring(rig, ch, row->where, &block);
	if (row->where == ABORTING)
		first = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	tmf = rig_tmf(asks, row->function, RIG_DISK, tag);
	if (must_await(row))
		assert_null(rig_rsp(asks, tmf));
	else
		rig_expect_code(asks, tmf, code);
	let_go(rig, row->where, block);
	rig_expect_code(asks, tmf, code);
	if (first)
		rig_expect_code(ch, first, SRP_RSP_COMPLETE);
	check_ended(row, ch, tag);
	check_medium(row);
	/* Every request that was sent has given its credit back. */
	assert_int_equal(sum_of_deltas(ch), ch->next_tag - 0x1000);
	assert_int_equal(rig_used(rig), 0);
	rig_expect_alive(ch);
	rig_chan_free(ch);
	rig_chan_free(second);
	rig_chan_free(other);
	rig_destroy(rig);
}

static void abort_ends_no_other_command(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tags[3];
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_hold(true);
	for (int i = 0; i < 3; i++)
		tags[i] = send_write(ch, (uint32_t)i, 1);
	tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tags[1]);
	rig_hold(false);
	rig_release(rig);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(ch, tags[0], SCSI_STATUS_GOOD);
	assert_null(rig_rsp(ch, tags[1]));
	rig_expect_status(ch, tags[2], SCSI_STATUS_GOOD);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void reset_leaves_other_luns_alone(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_hold(true);
	tag = send_write(ch, 1, 1);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_RAM, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_hold(false);
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void later_commands_do_not_count_for_a_reset(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t later;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_hold(true);
	send_write(ch, 1, 1);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	later = rig_cmd(ch, &tur);
	assert_non_null(rig_rsp(ch, later));
	assert_null(rig_rsp(ch, tmf));
	rig_hold(false);
	rig_release(rig);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static const struct tmf_code {
	const char *name;
	uint8_t function;
	unsigned int lun;
	uint8_t code;
} tmf_codes[] = {
	{ "CLEAR ACA", SRP_TSK_CLEAR_ACA, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "unknown function", 0x7f, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "no function", 0, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "LUN RESET of no LUN", SRP_TSK_LUN_RESET, 77,
	  SRP_RSP_FIELDS_INVALID },
	{ "ABORT TASK SET of no LUN", SRP_TSK_ABORT_TASK_SET, 300,
	  SRP_RSP_FIELDS_INVALID },
};

static void tmf_that_cannot_be_is_refused(void **state)
{
	const struct tmf_code *row = *state;
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tmf;

	rig_expect_alive(ch);
	tmf = rig_tmf(ch, row->function, row->lun, 1);
	rig_expect_code(ch, tmf, row->code);
	assert_int_equal(ch->ius[ch->iu_cnt - 1].len, SRP_RSP_TMF_SIZE);
	rig_expect_alive(ch);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void aborted_command_returns_its_credit_with_the_answer(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_hold(true);
	tag = send_write(ch, 0, 1);
	tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	rig_hold(false);
	rig_release(rig);
	assert_int_equal(rig_rsp(ch, tmf)->req_lim_delta, 2);
	rig_chan_free(ch);
	rig_destroy(rig);
}

static void reset_leaves_one_unit_attention_for_each(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	uint16_t asc = 0;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	assert_int_equal(rig_clear_ua(other, RIG_RAM, &asc), 0);
	assert_int_equal(rig_clear_ua(other, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_DEVICE_RESET);
	assert_int_equal(rig_clear_ua(second, RIG_DISK, &asc), 1);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 0);
	rig_chan_free(ch);
	rig_chan_free(second);
	rig_chan_free(other);
	rig_destroy(rig);
}

/* The credits of what a reset ended on another channel, where nothing else is
 * under way, come with SRP_CRED_REQ, and the next only after its answer. */
static void reset_returns_credits_of_other_channels(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct srp_cred_req cred;
	uint8_t answer[SRP_BARE_SIZE];
	unsigned int before;

	rig_expect_alive(ch);
	for (int round = 0; round < 2; round++) {
		rig_hold(true);
		before = second->iu_cnt;
		for (int i = 0; i < 3; i++)
			send_write(second, (uint32_t)i, 1);
		rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
		rig_hold(false);
		rig_release(rig);
		if (round == 1)
			break;
		assert_int_equal(second->iu_cnt, before + 1);
		assert_int_equal(srp_cred_req_decode(second->ius[before].bytes,
						     second->ius[before].len,
						     &cred),
				 0);
		assert_int_equal(cred.req_lim_delta, 3);
		rig_clear_ua(ch, RIG_DISK, NULL);
	}
	/* The first has not been answered. */
	assert_int_equal(second->iu_cnt, before);
	srp_bare_encode(answer, sizeof(answer), SRP_CRED_RSP, cred.tag);
	rig_send(second, answer, sizeof(answer));
	assert_int_equal(second->iu_cnt, before + 1);
	rig_expect_alive(second);
	rig_chan_free(ch);
	rig_chan_free(second);
	rig_destroy(rig);
}

static void reset_spans_all_workers(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	rig_hold(true);
	tag = send_write(other, 3, 0x77);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	assert_null(rig_rsp(ch, tmf));
	rig_hold(false);
	rig_release(rig);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(other, tag, SCSI_STATUS_TASK_ABORTED);
	rig_chan_free(ch);
	rig_chan_free(other);
	rig_destroy(rig);
}

static void channel_may_close_while_its_tmf_waits(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;

	rig_expect_alive(ch);
	rig_hold(true);
	tag = send_write(ch, 3, 0x77);
	rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	rig_chan_free(ch);
	assert_int_equal(rig->port.login_cnt, 1);
	rig_hold(false);
	rig_release(rig);
	assert_int_equal(rig->port.login_cnt, 0);
	rig_destroy(rig);
}

/* ---- the fence ---- */

static void login_waits_for_the_commands_it_replaces(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *old2 = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *new;
	uint16_t asc = 0;

	rig_expect_alive(old);
	rig_hold(true);
	send_write(old, 9, 0x01);
	send_write(old2, 9, 0x02);
	new = rig_connect(rig, &req);
	assert_true(old->closed);
	assert_true(old2->closed);
	assert_false(new->established);
	rig_hold(false);
	rig_release(rig);
	assert_true(new->established);
	assert_int_equal(new->login_rsp.multichan, SRP_MULTICHAN_TERMINATED);
	assert_int_equal(rig_clear_ua(new, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_NEXUS_LOSS);
	send_write(new, 9, 0x03);
	assert_int_equal(rig_disk()[9 * BLK], 0x03);
	rig_chan_free(old);
	rig_chan_free(old2);
	rig_chan_free(new);
	rig_destroy(rig);
}

/* A target may be named, or not, at each login. */
static void unnamed_target_is_the_same_nexus(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *new;

	req.target = (struct srp_port_id){ { 0 } };
	rig_expect_alive(old);
	rig_hold(true);
	send_write(old, 9, 0x01);
	new = rig_connect(rig, &req);
	assert_true(old->closed);
	assert_false(new->established);
	rig_hold(false);
	rig_release(rig);
	assert_true(new->established);
	rig_chan_free(old);
	rig_chan_free(new);
	rig_destroy(rig);
}

static void login_of_another_initiator_does_not_wait(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *other;

	rig_expect_alive(ch);
	rig_hold(true);
	send_write(ch, 9, 0x01);
	other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	rig_hold(false);
	rig_expect_alive(other);
	assert_false(ch->closed);
	rig_release(rig);
	rig_chan_free(ch);
	rig_chan_free(other);
	rig_destroy(rig);
}

static void newer_login_replaces_the_one_that_waits(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *second;
	struct rig_chan *third;

	rig_expect_alive(old);
	rig_hold(true);
	send_write(old, 9, 0x01);
	second = rig_connect(rig, &req);
	third = rig_connect(rig, &req);
	assert_true(second->closed);
	assert_false(third->closed);
	rig_hold(false);
	rig_release(rig);
	assert_true(third->established);
	rig_chan_free(old);
	rig_chan_free(second);
	rig_chan_free(third);
	rig_destroy(rig);
}

static void fence_is_bounded(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_rej rej;
	struct rig_chan *new;

	rig_expect_alive(old);
	rig_hold(true);
	send_write(old, 9, 0x01);
	rig->port.fence_ms = 1;
	new = rig_connect(rig, &req);
	while (!new->closed)
		reactor_run_once(rig->workers[0].reactor, 10),
			reactor_run_once(rig->peer_reactor, 0);
	assert_int_equal(
		srp_login_rej_decode(new->why.pdata, new->why.pdata_len, &rej),
		0);
	assert_int_equal(rej.reason, SRP_REJ_NO_RESOURCES);
	rig_hold(false);
	rig_release(rig);
	rig_chan_free(old);
	rig_chan_free(new);
	rig_destroy(rig);
}

static void initiator_that_comes_back_is_told_of_its_loss(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
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

static void channels_join_a_nexus(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);

	assert_int_equal(second->login_rsp.multichan, SRP_MULTICHAN_MAINTAINED);
	rig_expect_alive(ch);
	rig_expect_alive(second);
	rig_chan_free(ch);
	rig_expect_alive(second);
	rig_chan_free(second);
	rig_destroy(rig);
}

/* ---- the end ---- */

static void stop_answers_what_is_in_flight(void **state)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *idle = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t late;
	uint64_t tag;

	rig_expect_alive(ch);
	rig_hold(true);
	tag = send_write(ch, 9, 0x42);
	port_stop(&rig->port);
	rig_settle(rig);
	assert_true(idle->closed);
	assert_false(ch->closed);
	assert_false(rig->stopped);
	late = rig_cmd(ch, &tur);
	assert_null(rig_rsp(ch, late));
	rig_hold(false);
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_null(rig_rsp(ch, late));
	assert_true(ch->closed);
	assert_true(rig->stopped);
	rig_chan_free(ch);
	rig_chan_free(idle);
	rig_destroy(rig);
}

static void login_that_waits_is_refused_at_stop(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct rig_chan *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_chan *new;

	rig_expect_alive(old);
	rig_hold(true);
	send_write(old, 9, 0x01);
	new = rig_connect(rig, &req);
	port_stop(&rig->port);
	rig_settle(rig);
	assert_true(new->closed);
	assert_false(rig->stopped);
	rig_hold(false);
	rig_release(rig);
	assert_true(rig->stopped);
	rig_chan_free(old);
	rig_chan_free(new);
	rig_destroy(rig);
}

static void peer_may_leave_at_any_moment(void **state)
{
	for (int where = WAITING; where <= RESPONDING; where++) {
		struct rig *rig = rig_create(NULL);
		struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
		void *block;

		rig_expect_alive(ch);
		bring(rig, ch, (enum where)where, &block);
		t_fabric_break(ch->xp);
		rig_settle(rig);
		let_go(rig, (enum where)where, block);
		assert_int_equal(rig_used(rig), 0);
		assert_int_equal(rig->port.login_cnt, 0);
		rig_chan_free(ch);
		rig_destroy(rig);
	}
}

/* Some of everything; the connection is lost at the @nth work request. */
static void exercise(struct rig *rig, struct rig_chan *ch)
{
	for (size_t i = 0; i < ARRAY_SIZE(transfers) && !ch->closed; i++) {
		const struct transfer *t = &transfers[i];
		struct rig_cmd w = rig_write(t->lun, 0, t->blocks);
		struct rig_cmd r = rig_read(t->lun, 0, t->blocks);

		send_rw(ch, &w, t->out, 0, t->blocks * BLK);
		if (!ch->closed)
			send_rw(ch, &r, t->in, 0, t->blocks * BLK);
		if (!ch->closed)
			rig_tmf(ch, SRP_TSK_ABORT_TASK, t->lun, 1);
	}
}

static void nothing_is_lost_wherever_the_fabric_breaks(void **state)
{
	bool broke = true;

	for (unsigned int nth = 1; broke; nth++) {
		struct rig *rig = rig_create(NULL);
		struct rig_chan *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

		rig_expect_alive(ch);
		t_fabric_break_at(rig->hub, nth);
		exercise(rig, ch);
		broke = ch->closed;
		t_fabric_break_at(rig->hub, 0);
		if (broke) {
			assert_int_equal(rig_used(rig), 0);
			assert_int_equal(rig->port.login_cnt, 0);
		}
		rig_chan_free(ch);
		rig_destroy(rig);
	}
}

int main(void)
{
	static struct t_table t;

	make_tmf_cases();
	T_ADD(&t, login_is_answered_with_what_ib_srp_needs);
	T_ADD_ROWS(&t, bad_logins, bad_login_is_rejected);
	T_ADD(&t, unnamed_target_is_accepted);
	T_ADD(&t, channels_of_a_nexus_are_limited);
	T_ADD_ROWS(&t, transfers, what_is_written_is_read_back);
	T_ADD(&t, immediate_data_at_another_offset_is_copied);
	T_ADD(&t, immediate_data_moves_when_the_disk_wants_more_room);
	T_ADD(&t, good_response_is_36_bytes);
	T_ADD(&t, larger_buffer_is_an_underflow);
	T_ADD(&t, read_past_the_end_says_so);
	T_ADD_ROWS(&t, bad_ius, bad_iu_hurts_nobody_else);
	T_ADD(&t, fetched_table_that_does_not_add_up_moves_no_data);
	T_ADD(&t, wrong_key_ends_only_that_channel);
	T_ADD(&t, every_credit_can_be_used_at_once);
	T_ADD(&t, more_requests_than_credits_end_the_channel);
	T_ADD(&t, commands_wait_when_completions_are_late);
	T_ADD(&t, requests_wait_for_buffers);
	T_ADD(&t, large_transfers_take_turns);
	T_ADD(&t, greedy_initiator_leaves_room_for_others);
	T_ADD_ROWS(&t, tmf_cases, tmf_in_every_state);
	T_ADD(&t, abort_ends_no_other_command);
	T_ADD(&t, reset_leaves_other_luns_alone);
	T_ADD(&t, later_commands_do_not_count_for_a_reset);
	T_ADD_ROWS(&t, tmf_codes, tmf_that_cannot_be_is_refused);
	T_ADD(&t, aborted_command_returns_its_credit_with_the_answer);
	T_ADD(&t, reset_leaves_one_unit_attention_for_each);
	T_ADD(&t, reset_returns_credits_of_other_channels);
	T_ADD(&t, reset_spans_all_workers);
	T_ADD(&t, channel_may_close_while_its_tmf_waits);
	T_ADD(&t, login_waits_for_the_commands_it_replaces);
	T_ADD(&t, unnamed_target_is_the_same_nexus);
	T_ADD(&t, login_of_another_initiator_does_not_wait);
	T_ADD(&t, newer_login_replaces_the_one_that_waits);
	T_ADD(&t, fence_is_bounded);
	T_ADD(&t, initiator_that_comes_back_is_told_of_its_loss);
	T_ADD(&t, channels_join_a_nexus);
	T_ADD(&t, stop_answers_what_is_in_flight);
	T_ADD(&t, login_that_waits_is_refused_at_stop);
	T_ADD(&t, peer_may_leave_at_any_moment);
	T_ADD(&t, nothing_is_lost_wherever_the_fabric_breaks);
	return t_run(&t);
}
