/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that break the rules, on a real rdma-target over TCP. Each gets the
 * answer that SRP and SCSI prescribe, or loses its channel, and no other
 * initiator is affected. Meanwhile a well-behaved session does I/O on the same
 * target and checks it.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "initiator/srp_initiator.h"
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "tests/functional/t_load.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"

#define MIB (1024ul * 1024)

/* LUNs of the target. The peers work on 0, in memory, and on 1, in a file. The
 * well-behaved session works on 2. */
#define LUN_RAM	 0
#define LUN_FILE 1
#define LUN_GOOD 2
#define BLOCKS	 (8 * MIB / 512)

static struct t_target target;
static struct t_peer peer;

/* ---- the well-behaved session ---- */

static struct {
	pthread_t thread;
	_Atomic uint64_t done;
	_Atomic bool stop;
	char fault[512];
} good;

/* No assertions here, because only the main thread may use them. */
static void *behave_well(void *arg)
{
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .channels = 2,
					  .timeout_ms = 60000 };
	const struct t_load_params p = { LUN_GOOD,    0, 16 * MIB, 16,
					 64ul * 1024, 0, 99 };
	struct srpi_error e = { 0 };
	struct srpi_session *s;
	struct srpi_ctx *ctx;
	struct t_load *load;

	if (srpi_ctx_create(NULL, &ctx, &e) ||
	    srpi_connect_wait(ctx, target.uri, &opt, &s, &e)) {
		snprintf(good.fault, sizeof(good.fault), "%s", e.text);
		return NULL;
	}
	load = t_load_start(s, &p);
	while (!t_load_is_over(load)) {
		srpi_ctx_run(ctx, -1);
		good.done = t_load_done(load);
		if (good.stop)
			t_load_finish(load);
	}
	snprintf(good.fault, sizeof(good.fault), "%s", t_load_fault(load));
	if (t_load_failed(load) > 0 && !good.fault[0])
		snprintf(good.fault, sizeof(good.fault),
			 "the session was lost");
	t_load_free(load);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
	return NULL;
}

/* The session has made progress since the last call. */
static void assert_others_unharmed(void)
{
	uint64_t before = good.done;

	while (good.done < before + 20) {
		assert_string_equal(good.fault, "");
		usleep(200);
	}
}

/* ---- IUs ---- */

struct iu {
	uint8_t b[T_PEER_IU_LEN];
	size_t len;
};

static struct iu iu;

/* A command with @cnt descriptors in the IU. */
static void build(uint32_t lun, const uint8_t *cdb, enum srp_data_format format,
		  const struct srp_desc *descs, uint32_t cnt, bool is_out)
{
	struct srp_cmd_args args = {
		.tag = 0xfeed0001,
		.cdb = cdb,
		.cdb_len = SCSI_CDB_LEN,
	};
	struct srp_data_args *data = is_out ? &args.out : &args.in;
	int len;

	assert_int_equal(srp_lun_encode(lun, &args.lun), 0);
	data->format = format;
	data->descs = descs;
	data->desc_cnt = cnt;
	memset(&iu, 0, sizeof(iu));
	len = srp_cmd_encode(iu.b, sizeof(iu.b), &args);
	assert_true(len > 0);
	iu.len = (size_t)len;
}

static void build_bare(const uint8_t *cdb)
{
	build(LUN_RAM, cdb, SRP_DATA_NONE, NULL, 0, false);
}

/* READ of @blocks at @lba into one buffer of @len bytes. */
static void build_read(uint64_t lba, uint32_t blocks, uint32_t len)
{
	struct srp_desc desc = t_peer_desc(&peer, 0, len);
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_read(lba, blocks, false, cdb);
	build(LUN_RAM, cdb, SRP_DATA_DIRECT, &desc, 1, false);
}

static void build_write(uint64_t lba, uint32_t blocks, uint32_t len)
{
	struct srp_desc desc = t_peer_desc(&peer, 0, len);
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_write(lba, blocks, false, cdb);
	build(LUN_RAM, cdb, SRP_DATA_DIRECT, &desc, 1, true);
}

/* A READ of 8 blocks into four buffers of 1024 bytes, all in the IU. */
static void build_indirect(bool is_out)
{
	struct srp_desc descs[4];
	uint8_t cdb[SCSI_CDB_LEN];

	for (unsigned int i = 0; i < 4; i++)
		descs[i] = t_peer_desc(&peer, (3 - i) * 8192, 1024);
	if (is_out)
		scsi_cdb_write(0, 8, false, cdb);
	else
		scsi_cdb_read(0, 8, false, cdb);
	build(LUN_RAM, cdb, SRP_DATA_INDIRECT, descs, 4, is_out);
}

/* The same with the list in memory at 256 KiB. The IU has @inline_cnt of its
 * descriptors. */
static void build_partial(bool is_out, uint8_t inline_cnt)
{
	struct srp_desc table = t_peer_desc(&peer, 256 << 10, 4 * 16);

	build_indirect(is_out);
	memcpy(peer.mem + (256 << 10), iu.b + SRP_CMD_SIZE + SRP_INDIRECT_HDR,
	       4 * SRP_DESC_SIZE);
	srp_desc_pack(&table, 1, iu.b + SRP_CMD_SIZE);
	iu.b[is_out ? 6 : 7] = inline_cnt;
	iu.len = SRP_CMD_SIZE + SRP_INDIRECT_HDR + inline_cnt * SRP_DESC_SIZE;
}

/* WRITE of @blocks with @len bytes of immediate data. @says is the stated
 * length. */
static void build_immediate(uint32_t blocks, uint32_t len, uint32_t says)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_write(0, blocks, false, cdb);
	build(LUN_RAM, cdb, SRP_DATA_NONE, NULL, 0, true);
	iu.b[5] = SRP_DATA_IMMEDIATE << 4;
	wire_put32(iu.b + SRP_CMD_SIZE, says);
	memset(iu.b + SRP_IMM_OFFSET, 0x5a, len);
	iu.len = SRP_IMM_OFFSET + len;
}

/* UNMAP of one range. */
static void build_unmap(uint16_t says, uint64_t lba, uint32_t blocks)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_unmap(24, cdb);
	build(LUN_RAM, cdb, SRP_DATA_NONE, NULL, 0, true);
	iu.b[5] = SRP_DATA_IMMEDIATE << 4;
	wire_put32(iu.b + SRP_CMD_SIZE, 24);
	wire_put16(iu.b + SRP_IMM_OFFSET, says);
	wire_put16(iu.b + SRP_IMM_OFFSET + 2, 16);
	wire_put64(iu.b + SRP_IMM_OFFSET + 8, lba);
	wire_put32(iu.b + SRP_IMM_OFFSET + 16, blocks);
	iu.len = SRP_IMM_OFFSET + 24;
}

/* Clears unit attentions. */
static void test_unit_ready(void)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_test_unit_ready(cdb);
	do {
		build_bare(cdb);
		assert_int_equal(t_peer_ask(&peer, iu.b, iu.len), T_ANSWERED);
	} while (peer.rsp.status != SCSI_STATUS_GOOD);
}

static void log_in(void)
{
	t_peer_log_in(&peer, target.addr);
	test_unit_ready();
}

/* The channel still works completely. */
static void assert_still_served(void)
{
	build_read(0, 8, 4096);
	assert_int_equal(t_peer_ask(&peer, iu.b, iu.len), T_ANSWERED);
	assert_int_equal(peer.rsp.status, SCSI_STATUS_GOOD);
	assert_int_equal(peer.rsp.resid_flags, 0);
}

/* Nothing was executed: the channel is closed, without an answer or after an
 * answer that refuses the IU. */
static void assert_closed(unsigned int answers_before)
{
	t_peer_await_close(&peer);
	if (peer.ini.iu_cnt > answers_before) {
		assert_int_equal(peer.ini.iu_cnt, answers_before + 1);
		assert_true(peer.rsp.rsp_valid);
		assert_int_equal(peer.rsp.rsp_code, SRP_RSP_FIELDS_INVALID);
	}
}

/* ---- logins ---- */

struct login_row {
	const char *name;
	void (*change)(struct srp_login_req *req);
	uint32_t reason; /* 0: the login is accepted */
};

static void iu_0(struct srp_login_req *req)
{
	req->it_iu_len = 0;
}

static void iu_63(struct srp_login_req *req)
{
	req->it_iu_len = 63;
}

static void iu_64(struct srp_login_req *req)
{
	req->it_iu_len = 64;
}

static void iu_8276(struct srp_login_req *req)
{
	req->it_iu_len = 8276;
}

static void iu_8277(struct srp_login_req *req)
{
	req->it_iu_len = 8277;
}

static void iu_huge(struct srp_login_req *req)
{
	req->it_iu_len = UINT32_MAX;
}

static void other_target(struct srp_login_req *req)
{
	req->target = srp_port_id_make(1, 2);
}

static void no_format(struct srp_login_req *req)
{
	req->formats = 0;
}

static void odd_format(struct srp_login_req *req)
{
	req->formats = 0x8001;
}

static void one_format(struct srp_login_req *req)
{
	req->formats = SRP_FORMAT_DIRECT;
}

static void action_2(struct srp_login_req *req)
{
	req->multichan = 2;
}

static void action_3(struct srp_login_req *req)
{
	req->multichan = 3;
}

static void imm_inside(struct srp_login_req *req)
{
	req->imm_offset = 47;
}

static void imm_far(struct srp_login_req *req)
{
	req->imm_offset = 65535;
}

static const struct login_row login_rows[] = {
	{ "IUs of 0 bytes", iu_0, SRP_REJ_IT_IU_LEN },
	{ "IUs of 63 bytes", iu_63, SRP_REJ_IT_IU_LEN },
	{ "IUs of 64 bytes", iu_64, 0 },
	{ "IUs of 8276 bytes", iu_8276, 0 },
	{ "IUs of 8277 bytes", iu_8277, SRP_REJ_IT_IU_LEN },
	{ "IUs of 4 GiB", iu_huge, SRP_REJ_IT_IU_LEN },
	{ "another target port", other_target, SRP_REJ_NO_TARGET },
	{ "no data format", no_format, SRP_REJ_FORMATS },
	{ "data formats that do not exist", odd_format, SRP_REJ_FORMATS },
	{ "direct buffers only", one_format, 0 },
	{ "reserved channel action 2", action_2, SRP_REJ_MULTICHAN },
	{ "reserved channel action 3", action_3, SRP_REJ_MULTICHAN },
	{ "immediate data inside the header", imm_inside, 0 },
	{ "immediate data beyond every IU", imm_far, 0 },
};

T_ROWS(login, login_rows)
{
	const struct login_row *r = *state;
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	enum t_outcome outcome;

	r->change(&req);
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	outcome = t_peer_login(&peer, target.addr, pdata, sizeof(pdata));
	assert_int_equal(outcome, r->reason ? T_REJECTED : T_LOGGED_IN);
	assert_int_equal(peer.ini.rej.reason, r->reason);
	if (!r->reason) {
		test_unit_ready();
		assert_still_served();
	}
	assert_others_unharmed();
}

T_TEST(immediate_data_is_granted_only_outside_the_header)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	req.imm_offset = 40;
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	assert_int_equal(t_peer_login(&peer, target.addr, pdata, sizeof(pdata)),
			 T_LOGGED_IN);
	assert_false(peer.ini.login_rsp.imm_data);
	build_immediate(1, 512, 512);
	t_peer_ask(&peer, iu.b, iu.len);
	assert_closed(0);
	assert_others_unharmed();
}

static const struct {
	const char *name;
	size_t len;
	int fill; /* -1: only the length of the login is wrong */
} garbage_rows[] = {
	{ "nothing", 0, 0 },
	{ "one byte", 1, -1 },
	{ "a login cut by one byte", 55, -1 },
	{ "zeroes, cut", 32, 0 },
	{ "ones", 56, 0xff },
	{ "200 bytes of ones", 200, 0xff },
};

T_ROWS(garbage_instead_of_a_login, garbage_rows)
{
	const __typeof__(garbage_rows[0]) *r = *state;
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[XP_PDATA_MAX] = { 0 };

	if (r->fill >= 0)
		memset(pdata, r->fill, sizeof(pdata));
	else
		srp_login_req_encode(pdata, sizeof(pdata), &req);
	assert_int_equal(t_peer_login(&peer, target.addr, pdata, r->len),
			 T_REJECTED);
	assert_int_equal(peer.ini.rej.reason, 0);
	assert_others_unharmed();
}

T_TEST(connect_and_vanish)
{
	for (unsigned int i = 0; i < 40; i++) {
		t_peer_begin_login(&peer, target.addr);
		for (unsigned int k = 0; k < i % 8; k++)
			reactor_run_once(peer.reactor, 1);
		t_peer_hang_up(&peer);
	}
	assert_others_unharmed();
}

/* ---- below SRP: the connection itself ---- */

#define RAW 900

static int connect_raw(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char host[32];

	snprintf(host, sizeof(host), "%s", target.addr);
	*strchr(host, ':') = '\0';
	sin.sin_port = htons((uint16_t)atoi(strchr(target.addr, ':') + 1));
	inet_pton(AF_INET, host, &sin.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

T_TEST(half_open_connections_block_nobody)
{
	static const char junk[] = "GET / HTTP/1.1\r\nHost: target\r\n\r\n";
	int fds[RAW];

	for (unsigned int i = 0; i < RAW; i++) {
		fds[i] = connect_raw();
		if (i % 3)
			assert_true(send(fds[i], junk,
					 i % 3 == 1 ? 3 : sizeof(junk),
					 MSG_NOSIGNAL) > 0);
	}
	log_in();
	assert_still_served();
	assert_others_unharmed();
	for (unsigned int i = 0; i < RAW; i++)
		close(fds[i]);
	log_in();
	assert_still_served();
	assert_others_unharmed();
}

/* ---- IUs that are cut short ---- */

static void build_read_8(void)
{
	build_read(0, 8, 4096);
}

static void build_indirect_read(void)
{
	build_indirect(false);
}

static void build_immediate_8(void)
{
	build_immediate(1, 512, 512);
}

static void build_unmap_8(void)
{
	build_unmap(22, 0, 8);
}

static void build_tmf(void)
{
	const struct srp_tsk_mgmt t = { .tag = 7,
					.function = SRP_TSK_ABORT_TASK,
					.task_tag = 12345 };

	iu.len = (size_t)srp_tsk_mgmt_encode(iu.b, sizeof(iu.b), &t);
}

static const struct {
	const char *name;
	void (*build)(void);
	size_t step; /* bytes; lengths 0, step, 2 * step ... */
} cut_rows[] = {
	{ "read, direct", build_read_8, 1 },
	{ "read, indirect", build_indirect_read, 3 },
	{ "write, immediate", build_immediate_8, 13 },
	{ "unmap, immediate", build_unmap_8, 3 },
	{ "task management", build_tmf, 3 },
};

T_ROWS(iu_is_cut_short, cut_rows)
{
	const __typeof__(cut_rows[0]) *r = *state;
	unsigned int before;
	size_t full;

	log_in();
	r->build();
	full = iu.len;
	assert_int_equal(t_peer_ask(&peer, iu.b, full), T_ANSWERED);
	for (size_t len = 0; len < full; len += r->step) {
		log_in();
		r->build();
		before = peer.ini.iu_cnt;
		t_peer_post(&peer, iu.b, len);
		assert_closed(before);
	}
	assert_others_unharmed();
}

/* ---- opcodes ---- */

T_TEST(unknown_opcodes_end_the_channel)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		/* A few values in the middle stand for all of them. */
		if (opcode == SRP_TSK_MGMT || opcode == SRP_CMD ||
		    (opcode > 0x50 && opcode < 0x7c))
			continue;
		t_peer_log_in(&peer, target.addr);
		memset(&iu, 0, sizeof(iu));
		iu.b[0] = (uint8_t)opcode;
		t_peer_post(&peer, iu.b, 64);
		t_peer_await_close(&peer);
		assert_int_equal(peer.ini.iu_cnt, 0);
	}
	assert_others_unharmed();
}

/* ---- SRP_CMD ---- */

/* Expected: the channel is closed, or the answer is GOOD or has this sense
 * data. */
#define CLOSED	  (-1)
#define GOOD	  0
#define SENSE(cd) ((SCSI_KEY_ILLEGAL_REQUEST << 16) | (cd))

struct cmd_row {
	const char *name;
	void (*build)(void);
	int expect;
	uint8_t resid_flags;
	uint32_t resid;
};

static void table_longer_than_iu(void)
{
	build_indirect(false);
	iu.b[7] = 255;
	wire_put32(iu.b + SRP_CMD_SIZE + 12, 255 * 16);
}

static void count_beyond_table(void)
{
	build_indirect(false);
	iu.b[7] = 200;
}

static void total_too_small(void)
{
	build_indirect(false);
	wire_put32(iu.b + SRP_CMD_SIZE + 16, 4095);
}

static void total_too_large(void)
{
	build_indirect(true);
	wire_put32(iu.b + SRP_CMD_SIZE + 16, 8192);
}

static void total_wraps(void)
{
	build_indirect(false);
	for (unsigned int i = 0; i < 4; i++)
		wire_put32(iu.b + SRP_CMD_SIZE + SRP_INDIRECT_HDR + 16 * i + 12,
			   0x40000400);
	wire_put32(iu.b + SRP_CMD_SIZE + 16, 0x1000);
}

static void table_of_odd_length(void)
{
	build_indirect(false);
	wire_put32(iu.b + SRP_CMD_SIZE + 12, 63);
}

static void address_wraps(void)
{
	build_read(0, 8, 4096);
	wire_put64(iu.b + SRP_CMD_SIZE, UINT64_MAX - 100);
}

static void format_4(void)
{
	build_read(0, 8, 4096);
	iu.b[5] = 0x04;
}

static void format_15(void)
{
	build_write(0, 8, 4096);
	iu.b[5] = 0xf0;
}

static void immediate_in(void)
{
	build_read(0, 8, 4096);
	iu.b[5] = SRP_DATA_IMMEDIATE;
}

static void add_cdb_beyond_iu(void)
{
	build_read(0, 8, 4096);
	iu.b[31] = 0xfc;
}

static void add_cdb_eats_descriptor(void)
{
	build_read(0, 8, 4096);
	iu.b[31] = 16;
}

static void imm_longer_than_iu(void)
{
	build_immediate(8, 512, 4096);
}

static void imm_of_4_gib(void)
{
	build_immediate(8, 512, UINT32_MAX);
}

static void imm_gap_in_cdb(void)
{
	build_immediate(1, 512, 512);
	iu.b[31] = 20; /* this length would lie behind the offset of the data */
}

static void imm_too_short_for_cdb(void)
{
	build_immediate(8, 512, 512);
}

static void imm_longer_than_cdb(void)
{
	build_immediate(1, 1024, 1024);
}

static void imm_of_nothing(void)
{
	build_immediate(1, 0, 0);
}

static void good_indirect_read(void)
{
	build_indirect(false);
}

static void good_indirect_write(void)
{
	build_indirect(true);
}

static void good_partial_read(void)
{
	build_partial(false, 1);
}

static void good_partial_write_none_inline(void)
{
	build_partial(true, 0);
}

static void partial_sum_is_wrong(void)
{
	build_partial(true, 0);
	wire_put32(peer.mem + (256 << 10) + 12, 2048);
}

static void partial_wraps(void)
{
	build_partial(true, 1);
	wire_put64(peer.mem + (256 << 10) + 16, UINT64_MAX - 10);
}

static void partial_key_is_bad(void)
{
	build_partial(false, 0);
	wire_put32(iu.b + SRP_CMD_SIZE + 8, 0x7fffffff);
}

static void partial_is_huge(void)
{
	build_partial(false, 0);
	wire_put32(iu.b + SRP_CMD_SIZE + 12, 0xfffffff0);
}

static void key_of_read_is_bad(void)
{
	build_read(0, 8, 4096);
	wire_put32(iu.b + SRP_CMD_SIZE + 8, 0x12345678);
}

static void key_of_write_is_bad(void)
{
	build_write(0, 8, 4096);
	wire_put32(iu.b + SRP_CMD_SIZE + 8, 0x12345678);
}

static void read_beyond_memory(void)
{
	build_read(0, 4096, 2 * T_PEER_MEM_LEN);
}

static void write_beyond_memory(void)
{
	build_write(0, 4096, 2 * T_PEER_MEM_LEN);
}

static void lba_past_end(void)
{
	build_read(BLOCKS, 1, 512);
}

static void lba_across_end(void)
{
	build_write(BLOCKS - 1, 2, 1024);
}

static void lba_wraps(void)
{
	build_read(UINT64_MAX, 8, 4096);
}

static void lba_last(void)
{
	build_read(BLOCKS - 1, 1, 512);
}

static void more_than_a_transfer(void)
{
	build_read(0, 8193, T_PEER_MEM_LEN);
}

static void nothing_read(void)
{
	build_read(0, 0, 4096);
}

static void nothing_written_past_end(void)
{
	build_write(BLOCKS + 1, 0, 512);
}

static void read_into_nothing(void)
{
	build_read(0, 8, 0);
}

static void write_from_nothing(void)
{
	build_write(0, 8, 0);
}

static void read_without_buffer(void)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_read(0, 8, false, cdb);
	build_bare(cdb);
}

static void read_with_buffer_for_writing(void)
{
	build_read(0, 8, 4096);
	iu.b[5] = SRP_DATA_DIRECT << 4;
}

static void read_into_half(void)
{
	build_read(0, 8, 2048);
}

static void read_into_double(void)
{
	build_read(0, 8, 8192);
}

static void write_from_half(void)
{
	build_write(0, 8, 2048);
}

static void both_directions(void)
{
	build_read(0, 8, 4096);
	memcpy(iu.b + iu.len, iu.b + SRP_CMD_SIZE, SRP_DESC_SIZE);
	iu.len += SRP_DESC_SIZE;
	iu.b[5] = SRP_DATA_DIRECT << 4 | SRP_DATA_DIRECT;
}

static void empty_descriptors(void)
{
	build_indirect(false);
	for (unsigned int i = 0; i < 3; i++)
		wire_put32(iu.b + SRP_CMD_SIZE + SRP_INDIRECT_HDR + 16 * i + 12,
			   0);
	wire_put32(iu.b + SRP_CMD_SIZE + SRP_INDIRECT_HDR + 16 * 3 + 12, 4096);
}

static void no_such_lun(void)
{
	build_read(0, 8, 4096);
	wire_put64(iu.b + 20, 0x0077000000000000);
}

static void lun_of_ones(void)
{
	build_read(0, 8, 4096);
	wire_put64(iu.b + 20, UINT64_MAX);
}

static void opcode_ff(void)
{
	build_read(0, 8, 4096);
	iu.b[32] = 0xff;
}

static void long_cdb_of_unknown_command(void)
{
	build_read(0, 8, 4096);
	memmove(iu.b + SRP_CMD_SIZE + 16, iu.b + SRP_CMD_SIZE, SRP_DESC_SIZE);
	memset(iu.b + SRP_CMD_SIZE, 0, 16);
	iu.len += 16;
	iu.b[31] = 16;
	iu.b[32] = 0x7e;
}

static void bytes_after_the_end(void)
{
	build_read(0, 8, 4096);
	iu.len += 100;
}

static void unmap_cut(void)
{
	build_unmap(22, 0, 8);
	wire_put32(iu.b + SRP_CMD_SIZE, 12);
	iu.len = SRP_IMM_OFFSET + 12;
}

static void unmap_past_end(void)
{
	build_unmap(22, BLOCKS, 8);
}

static void unmap_wraps(void)
{
	build_unmap(22, UINT64_MAX - 3, 8);
}

static void unmap_lies_about_length(void)
{
	build_unmap(0xfff8, 0, 8);
}

static void longest_iu(void)
{
	build_immediate(16, 8192, 8192);
	iu.len = 8276;
}

static void iu_longer_than_agreed(void)
{
	build_immediate(16, 8192, 8192);
	iu.len = 8277;
}

static void iu_of_16_kib(void)
{
	build_immediate(16, 8192, 8192);
	iu.len = T_PEER_IU_LEN;
}

#define IN_UNDER  SRP_RSP_IN_UNDERFLOW
#define IN_OVER	  SRP_RSP_IN_OVERFLOW
#define OUT_UNDER SRP_RSP_OUT_UNDERFLOW
#define OUT_OVER  SRP_RSP_OUT_OVERFLOW
#define ANY	  0xff /* flags that do not matter */

#define LBA_RANGE SENSE(SCSI_ASC_LBA_OUT_OF_RANGE)
#define CDB_FIELD SENSE(SCSI_ASC_INVALID_FIELD_IN_CDB)
#define IU_FIELD  SENSE(SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU)

static const struct cmd_row cmd_rows[] = {
	/* contradictions: the channel is closed */
	{ "table longer than the IU", table_longer_than_iu, CLOSED },
	{ "more descriptors than the table", count_beyond_table, CLOSED },
	{ "total length too small", total_too_small, CLOSED },
	{ "total length too large", total_too_large, CLOSED },
	{ "total length wraps", total_wraps, CLOSED },
	{ "table of odd length", table_of_odd_length, CLOSED },
	{ "buffer wraps round the address space", address_wraps, CLOSED },
	{ "data-in format 4", format_4, CLOSED },
	{ "data-out format 15", format_15, CLOSED },
	{ "immediate data-in", immediate_in, CLOSED },
	{ "additional CDB past the IU", add_cdb_beyond_iu, CLOSED },
	{ "additional CDB in place of the descriptor", add_cdb_eats_descriptor,
	  CLOSED },
	{ "immediate data longer than the IU", imm_longer_than_iu, CLOSED },
	{ "immediate data of 4 GiB", imm_of_4_gib, CLOSED },
	{ "immediate data overlaps the CDB", imm_gap_in_cdb, CLOSED },
	{ "fetched table does not add up", partial_sum_is_wrong, CLOSED },
	{ "fetched table wraps", partial_wraps, CLOSED },
	{ "table's key is bad", partial_key_is_bad, CLOSED },
	{ "key for data-in is bad", key_of_read_is_bad, CLOSED },
	{ "key for data-out is bad", key_of_write_is_bad, CLOSED },
	{ "data-in beyond the registered memory", read_beyond_memory, CLOSED },
	{ "data-out beyond the registered memory", write_beyond_memory,
	  CLOSED },
	{ "IU longer than agreed", iu_longer_than_agreed, CLOSED },
	{ "IU of 16 KiB", iu_of_16_kib, CLOSED },
	/* errors that SCSI has an answer for */
	{ "LBA past the end", lba_past_end, LBA_RANGE, ANY },
	{ "LBA across the end", lba_across_end, LBA_RANGE, ANY },
	{ "LBA wraps", lba_wraps, LBA_RANGE, ANY },
	{ "zero blocks past the end", nothing_written_past_end, LBA_RANGE,
	  ANY },
	{ "more blocks than a transfer may have", more_than_a_transfer,
	  CDB_FIELD, ANY },
	{ "no such LUN", no_such_lun, SENSE(SCSI_ASC_LUN_NOT_SUPPORTED), ANY },
	{ "LUN of ones", lun_of_ones, SENSE(SCSI_ASC_LUN_NOT_SUPPORTED), ANY },
	{ "unknown command", opcode_ff, SENSE(SCSI_ASC_INVALID_OPCODE), ANY },
	{ "unknown command with a long CDB", long_cdb_of_unknown_command,
	  SENSE(SCSI_ASC_INVALID_OPCODE), ANY },
	{ "data in both directions", both_directions, IU_FIELD, ANY },
	{ "descriptors without end", partial_is_huge,
	  SENSE(SCSI_ASC_INSUFFICIENT_RESOURCES), ANY },
	{ "unmap list cut short", unmap_cut, CDB_FIELD, OUT_OVER, 12 },
	{ "unmap past the end", unmap_past_end, LBA_RANGE, ANY },
	{ "unmap wraps", unmap_wraps, LBA_RANGE, ANY },
	{ "immediate data too short for the CDB", imm_too_short_for_cdb,
	  CDB_FIELD, OUT_OVER, 7 * 512 },
	{ "data-out buffer half as long as the CDB says", write_from_half,
	  CDB_FIELD, OUT_OVER, 2048 },
	{ "immediate data of nothing", imm_of_nothing, CDB_FIELD, OUT_OVER,
	  512 },
	{ "write from a buffer of nothing", write_from_nothing, CDB_FIELD,
	  OUT_OVER, 4096 },
	/* unusual, but correct */
	{ "last LBA", lba_last, GOOD },
	{ "indirect read", good_indirect_read, GOOD },
	{ "indirect write", good_indirect_write, GOOD },
	{ "partial list, read", good_partial_read, GOOD },
	{ "partial list, none of it in the IU, write",
	  good_partial_write_none_inline, GOOD },
	{ "descriptors of no length", empty_descriptors, GOOD },
	{ "bytes after the end", bytes_after_the_end, GOOD },
	{ "longest IU", longest_iu, GOOD },
	{ "nothing is read", nothing_read, GOOD, IN_UNDER, 4096 },
	{ "buffer twice as long as the read", read_into_double, GOOD, IN_UNDER,
	  4096 },
	{ "immediate data longer than the write", imm_longer_than_cdb, GOOD,
	  OUT_UNDER, 512 },
	{ "buffer half as long as the read", read_into_half, GOOD, IN_OVER,
	  2048 },
	{ "read into a buffer of nothing", read_into_nothing, GOOD, IN_OVER,
	  4096 },
	{ "read without a buffer", read_without_buffer, GOOD, IN_OVER, 4096 },
	{ "unmap list that says it is longer", unmap_lies_about_length, GOOD },
	{ "read with a buffer for writing", read_with_buffer_for_writing, GOOD,
	  ANY },
};

static int outcome_of(enum t_outcome outcome)
{
	struct scsi_sense sense;

	if (outcome == T_CLOSED ||
	    (peer.rsp.rsp_valid && peer.rsp.rsp_code != SRP_RSP_COMPLETE)) {
		t_peer_await_close(&peer);
		return CLOSED;
	}
	if (peer.rsp.status == SCSI_STATUS_GOOD)
		return GOOD;
	assert_int_equal(peer.rsp.status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(
		scsi_sense_decode(peer.rsp.sense, peer.rsp.sense_len, &sense),
		0);
	return sense.key << 16 | sense.code;
}

T_ROWS(command, cmd_rows)
{
	const struct cmd_row *r = *state;
	uint32_t resid;
	int got;

	log_in();
	r->build();
	got = outcome_of(t_peer_ask(&peer, iu.b, iu.len));
	if (got != r->expect)
		fail_msg("got %#x, wanted %#x", got, r->expect);
	if (got != CLOSED && r->resid_flags != ANY) {
		assert_int_equal(peer.rsp.resid_flags, r->resid_flags);
		resid = r->resid_flags & (OUT_OVER | OUT_UNDER)
				? peer.rsp.out_resid
				: peer.rsp.in_resid;
		assert_int_equal(resid, r->resid);
	}
	if (got != CLOSED) {
		assert_true(peer.rsp.tag == 0xfeed0001);
		assert_int_equal(peer.rsp.req_lim_delta, 1);
		assert_still_served();
	}
	assert_others_unharmed();
}

/* The target uses the descriptors in their order. */
T_TEST(descriptors_are_used_in_order)
{
	log_in();
	for (unsigned int i = 0; i < 4096; i++)
		peer.mem[i] = (uint8_t)(i / 16 + i);
	build_write(0, 8, 4096);
	assert_int_equal(t_peer_ask(&peer, iu.b, iu.len), T_ANSWERED);
	memset(peer.mem + 4096, 0xee, 64 << 10);
	build_partial(false, 2);
	assert_int_equal(t_peer_ask(&peer, iu.b, iu.len), T_ANSWERED);
	assert_int_equal(peer.rsp.status, SCSI_STATUS_GOOD);
	for (unsigned int i = 0; i < 4; i++) {
		uint8_t *piece = peer.mem + (3 - i) * 8192;

		for (unsigned int k = 0; k < 1024; k++)
			assert_int_equal(
				piece[k],
				(uint8_t)((1024 * i + k) / 16 + 1024 * i + k));
		if (i < 3)
			assert_int_equal(piece[1024], 0xee);
	}
}

/* Changes some bytes. The target may do anything with the command, but must not
 * affect other initiators. */
T_TEST(mutated_commands_harm_nobody)
{
	static void (*const builders[])(void) = {
		build_read_8,	     build_indirect_read, build_immediate_8,
		build_unmap_8,	     build_tmf,		  good_partial_read,
		good_indirect_write,
	};
	uint32_t x = 2463534242;

	for (unsigned int i = 0; i < 1500; i++) {
		if (!peer.ini.xp || peer.ini.closed)
			log_in();
		builders[i % ARRAY_SIZE(builders)]();
		for (unsigned int n = 0; n <= i % 3; n++) {
			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
			iu.b[(x >> 8) % iu.len] = (uint8_t)x;
		}
		/* A peer must not abort or reset commands of others. */
		if (iu.b[0] == SRP_TSK_MGMT)
			iu.b[30] = SRP_TSK_ABORT_TASK;
		/* A changed LUN may be that of the well-behaved session. */
		memset(iu.b + 20, 0, 8);
		t_peer_ask(&peer, iu.b, iu.len);
	}
	assert_others_unharmed();
}

/* ---- credits ---- */

/* Commands that stay in flight: the target is stopped while they arrive. */
static void post_while_stopped(unsigned int cnt)
{
	struct srp_desc desc = t_peer_desc(&peer, 0, 4096);
	uint8_t cdb[SCSI_CDB_LEN];

	kill(target.pid, SIGSTOP);
	for (unsigned int i = 0; i < cnt; i++) {
		scsi_cdb_read(i * 8, 8, false, cdb);
		build(LUN_FILE, cdb, SRP_DATA_DIRECT, &desc, 1, false);
		t_peer_post(&peer, iu.b, iu.len);
		reactor_run_once(peer.reactor, 0);
	}
	kill(target.pid, SIGCONT);
}

T_TEST(all_credits_may_be_used)
{
	unsigned int before;

	log_in();
	before = peer.ini.iu_cnt;
	post_while_stopped((unsigned int)peer.ini.login_rsp.req_lim);
	assert_int_equal(
		t_peer_wait(&peer,
			    before + (unsigned int)peer.ini.login_rsp.req_lim),
		T_ANSWERED);
	assert_still_served();
	assert_others_unharmed();
}

static bool log_says(const struct t_target *t, const char *text)
{
	static char log[65536];
	FILE *f = fopen(t->log, "r");
	size_t len = fread(log, 1, sizeof(log) - 1, f);

	fclose(f);
	log[len] = '\0';
	return strstr(log, text) != NULL;
}

/*
 * The commands are writes. The target cannot fetch their data without our help,
 * and we do not help while they arrive, so none of them is answered.
 */
T_TEST(more_commands_than_credits_end_the_channel)
{
	struct t_target mine;

	t_target_start(&mine, (const char *[]){ "-b", "ram:8M", NULL });
	t_peer_log_in(&peer, mine.addr);
	test_unit_ready();
	kill(mine.pid, SIGSTOP);
	for (int i = 0; i <= peer.ini.login_rsp.req_lim; i++) {
		build_write((uint64_t)i * 8, 8, 4096);
		t_peer_post(&peer, iu.b, iu.len);
		reactor_run_once(peer.reactor, 0);
	}
	kill(mine.pid, SIGCONT);
	while (!log_says(&mine, "more than 64 requests unanswered"))
		usleep(1000);
	t_peer_await_close(&peer);
	t_peer_hang_up(&peer);
	t_target_stop(&mine);
	assert_others_unharmed();
}

T_TEST(channels_of_an_initiator_are_limited)
{
	static struct t_peer *peers[65];
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	unsigned int cnt = 0;

	req.multichan = SRP_MULTICHAN_MULTI;
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	for (; cnt < ARRAY_SIZE(peers); cnt++) {
		peers[cnt] = calloc(1, sizeof(**peers));
		t_peer_init(peers[cnt]);
		if (t_peer_login(peers[cnt], target.addr, pdata,
				 sizeof(pdata)) != T_LOGGED_IN)
			break;
	}
	assert_int_equal(cnt, 64);
	assert_int_equal(peers[cnt]->ini.rej.reason, SRP_REJ_CHANNEL_LIMIT);
	assert_others_unharmed();
	for (unsigned int i = 0; i <= cnt; i++) {
		t_peer_fini(peers[i]);
		free(peers[i]);
	}
}

/* ---- what is left behind ---- */

static unsigned int open_files(void)
{
	char path[32];
	unsigned int cnt = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", target.pid);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

static unsigned int files_at_start;

/* The target notices the ends one after the other. Waits until it has noticed
 * all. */
T_TEST(nothing_is_left_of_them)
{
	t_peer_hang_up(&peer);
	while (open_files() > files_at_start)
		usleep(1000);
	assert_others_unharmed();
}

static void start(void)
{
	const char *path = t_scratch_file("disk.img", 8 * MIB);

	t_target_start(&target, (const char *[]){ "-b", "ram:8M", "-b", path,
						  "-b", "ram:16M", NULL });
	t_peer_init(&peer);
	assert_int_equal(pthread_create(&good.thread, NULL, behave_well, NULL),
			 0);
	assert_others_unharmed();
	files_at_start = open_files();
}

static void stop(void)
{
	t_peer_fini(&peer);
	good.stop = true;
	pthread_join(good.thread, NULL);
	if (good.fault[0])
		fail_msg("%s", good.fault);
	t_target_stop(&target);
}

int main(void)
{
	int failed;

	start();
	failed = t_run();
	stop();
	return failed;
}
