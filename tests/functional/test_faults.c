/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What initiators see of a store that fails, is slow or is stuck, and what the
 * medium has afterwards. A real rdma-target over TCP has volumes with faults,
 * and the test drives initiators IU by IU.
 *
 * The test does not wait for time to see that a command is "not answered yet":
 * it waits for the answers to many later commands of the same channel.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_pr.h"
#include "protocol/scsi_sense.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"
#include "base/list.h"

#define MIB	 (1024ul * 1024)
#define BLOCK	 512u
#define OLD	 0x11
#define NEW	 0x77
#define NEWER	 0x99
#define SECRET	 0xee
#define SENTINEL 0x5e

/* ---- a target with a volume for each test, and two initiators ---- */

#define VOLUMES_MAX 32

static struct t_target target;
static struct t_peer a;
static struct t_peer b;

static struct {
	char spec[256];
	const char *path; /* NULL: memory */
} volumes[VOLUMES_MAX];
static unsigned int volume_cnt;

/* the LUN of the present test */
static unsigned int lun;
static struct srp_login_req a_req;
static struct srp_login_req b_req;
static uint64_t next_tag = 0x1000;

static void fill_file(const char *path, uint8_t byte, size_t len)
{
	uint8_t *bytes = malloc(len);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_non_null(bytes);
	memset(bytes, byte, len);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
	free(bytes);
}

/* Adds a volume of MIB bytes, which is a new file full of OLD, or memory.
 * Returns its LUN. Only before the target starts. */
static unsigned int add_volume(bool is_memory, const char *options)
{
	char name[32];
	unsigned int n = volume_cnt++;

	assert_true(n < VOLUMES_MAX);
	if (!is_memory) {
		snprintf(name, sizeof(name), "vol%u", n);
		volumes[n].path = t_scratch_file(name, MIB);
		fill_file(volumes[n].path, OLD, MIB);
	}
	snprintf(volumes[n].spec, sizeof(volumes[n].spec), "%s%s",
		 is_memory ? "ram:1M" : volumes[n].path, options);
	return n;
}

static void start_with(unsigned int first, unsigned int cnt)
{
	const char *args[2 * VOLUMES_MAX + 4];
	unsigned int argc = 0;

	for (unsigned int i = first; i < first + cnt; i++) {
		args[argc++] = "-b";
		args[argc++] = volumes[i].spec;
	}
	args[argc++] = "-t";
	args[argc++] = "2";
	args[argc++] = "-v";
	args[argc] = NULL;
	t_target_start(&target, args);
}

/* Logs in two new initiators. */
static void use(unsigned int volume)
{
	lun = volume;
	a_req = t_peer_login_req();
	b_req = t_peer_login_req();
}

static void finish(void)
{
	t_peer_hang_up(&a);
	t_peer_hang_up(&b);
}

/* ---- stuck requests ---- */

static unsigned int released; /* lines of the log that were waited for */

/* How many lines of the log have @text. */
static unsigned int log_lines(const char *text)
{
	FILE *f = fopen(target.log, "r");
	unsigned int seen = 0;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		seen += strstr(line, text) != NULL;
	fclose(f);
	return seen;
}

/* Waits until there are more than @cnt. */
static void await_log(struct t_peer *p, const char *text, unsigned int cnt)
{
	while (log_lines(text) <= cnt)
		reactor_run_once(p->reactor, /* timeout_ms= */ 1);
}

/* Each stuck request has a line in the log. Waits for the next one, caused by
 * @p. */
static void await_stuck(struct t_peer *p)
{
	await_log(p, "is stuck, by a fault", released++);
}

/* When the target finds that later writes must wait, the log says so. */
static const char given_up_text[] = "later commands on the same blocks wait";

static void release(void)
{
	kill(target.pid, SIGUSR1);
}

/* Each character stands for a block of the file, from @lba on. */
static void expect_file(unsigned int lba, const char *want)
{
	char got[128] = "";
	uint8_t bytes[BLOCK];
	int fd = open(volumes[lun].path, O_RDONLY | O_CLOEXEC);

	for (unsigned int i = 0; want[i]; i++) {
		char c = 'x';

		assert_int_equal(
			pread(fd, bytes, BLOCK, (off_t)(lba + i) * BLOCK),
			BLOCK);
		if (memcmp(bytes, bytes + 1, BLOCK - 1) == 0)
			c = bytes[0] == OLD	? 'o'
			    : bytes[0] == NEW	? 'n'
			    : bytes[0] == NEWER ? 'N'
						: 'x';
		strncat(got, &c, 1);
	}
	close(fd);
	assert_string_equal(got, want);
}

/* ---- commands ---- */

static uint64_t post(struct t_peer *p, const uint8_t *cdb, bool is_out,
		     size_t at, uint32_t len)
{
	return t_peer_post_cmd(p, &(struct t_peer_cmd){ .tag = next_tag++,
							.lun = lun,
							.cdb = cdb,
							.is_out = is_out,
							.at = at,
							.len = len });
}

static uint64_t post_rw(struct t_peer *p, uint8_t opcode, uint32_t lba,
			uint16_t blocks, size_t at)
{
	uint8_t cdb[SCSI_CDB_LEN] = { opcode };

	wire_put32(cdb + 2, lba);
	wire_put16(cdb + 7, blocks);
	return post(p, cdb, opcode == 0x2a, at, blocks * BLOCK);
}

static uint64_t post_write(struct t_peer *p, uint32_t lba, uint16_t blocks,
			   uint8_t byte)
{
	/* Each byte has a place of its own, because writes may be in flight
	 * together. */
	size_t at = (size_t)byte << 10;

	memset(p->mem + at, byte, blocks * BLOCK);
	return post_rw(p, 0x2a, lba, blocks, at);
}

static uint64_t post_read(struct t_peer *p, uint32_t lba, uint16_t blocks)
{
	return post_rw(p, 0x28, lba, blocks, 0);
}

static uint64_t post_bare(struct t_peer *p, uint8_t opcode)
{
	uint8_t cdb[SCSI_CDB_LEN] = { opcode };

	return post(p, cdb, false, 0, 0);
}

static uint64_t post_tmf(struct t_peer *p, uint8_t function, uint64_t task_tag)
{
	struct srp_tsk_mgmt t = {
		.tag = next_tag++,
		.function = function,
		.task_tag = task_tag,
	};
	uint8_t iu[SRP_TSK_MGMT_SIZE];

	assert_int_equal(srp_lun_encode(lun, &t.lun), 0);
	srp_tsk_mgmt_encode(iu, sizeof(iu), &t);
	t_peer_post(p, iu, sizeof(iu));
	return t.tag;
}

static void expect_status(struct t_peer *p, uint64_t tag, uint8_t status)
{
	assert_int_equal(t_peer_await(p, tag)->status, status);
}

static void expect_good(struct t_peer *p, uint64_t tag)
{
	expect_status(p, tag, SCSI_STATUS_GOOD);
}

static struct scsi_sense sense_of(const struct srp_rsp *rsp)
{
	struct scsi_sense sense;

	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	return sense;
}

static void expect_sense(struct t_peer *p, uint64_t tag, enum scsi_key key,
			 uint16_t code)
{
	struct scsi_sense sense = sense_of(t_peer_await(p, tag));

	assert_int_equal(sense.key, key);
	assert_int_equal(sense.code, code);
}

/* Expects exactly one unit attention, with this code. */
static void expect_attention(struct t_peer *p, uint16_t code)
{
	expect_sense(p, post_bare(p, 0x00), SCSI_KEY_UNIT_ATTENTION, code);
	expect_good(p, post_bare(p, 0x00));
}

/* The attention comes from another thread, after some time. */
static void await_attention(struct t_peer *p, uint16_t code)
{
	uint64_t tag;

	do {
		tag = post_bare(p, 0x00);
	} while (t_peer_await(p, tag)->status == SCSI_STATUS_GOOD);
	expect_sense(p, tag, SCSI_KEY_UNIT_ATTENTION, code);
}

static void log_in(struct t_peer *p, const struct srp_login_req *req)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), req);
	assert_int_equal(t_peer_login(p, target.addr, pdata, sizeof(pdata)),
			 T_LOGGED_IN);
}

static void log_in_a(void)
{
	log_in(&a, &a_req);
	expect_attention(&a, SCSI_ASC_POWER_ON);
}

static void log_in_b(void)
{
	log_in(&b, &b_req);
	expect_attention(&b, SCSI_ASC_POWER_ON);
}

/* Expects no answer, although the target had many chances to send one. */
static void expect_silence(struct t_peer *p, uint64_t tag)
{
	for (int i = 0; i < 20; i++)
		expect_good(p, post_bare(p, 0x00));
	assert_null(t_ini_rsp(&p->ini, tag));
}

/* ---- a flush that fails ---- */

static uint64_t post_sync(struct t_peer *p)
{
	return post_bare(p, 0x35);
}

static struct flush_row {
	const char *name;
	unsigned int lun;
} flush_rows[] = { { "file" }, { "memory" } };

T_ROWS(failed_flush_fails_every_later_one, flush_rows)
{
	const struct flush_row *row = *state;

	use(row->lun);
	log_in_a();
	expect_good(&a, post_sync(&a));
	expect_good(&a, post_write(&a, 0, 8, NEW));
	for (int i = 0; i < 3; i++)
		expect_sense(&a, post_sync(&a), SCSI_KEY_MEDIUM_ERROR,
			     SCSI_ASC_WRITE_ERROR);
	/* Every initiator, through every worker; writes go on. */
	log_in_b();
	expect_good(&b, post_write(&b, 8, 8, NEW));
	expect_sense(&b, post_sync(&b), SCSI_KEY_MEDIUM_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	finish();
}

/* ---- writes that are cut, reads that fail ---- */

static const struct cut_row {
	const char *name; /* faults */
	uint16_t blocks;
	enum scsi_key key;
	uint16_t code;
	int64_t info;		/* LBA, -1: none */
	const char *file_after; /* from LBA 8 on */
} cut_rows[] = {
	{ ",fault=write:torn", 8, SCSI_KEY_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR,
	  8, "nonononoo" },
	{ ",fault=write:short", 8, SCSI_KEY_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR,
	  12, "nnnnooooo" },
	{ ",fault=write:error:lba=11", 8, SCSI_KEY_MEDIUM_ERROR,
	  SCSI_ASC_WRITE_ERROR, 11, "nnnoooooo" },
	{ ",fault=write:error=ENOSPC", 8, SCSI_KEY_DATA_PROTECT,
	  SCSI_ASC_SPACE_ALLOCATION_FAILED, -1, "ooooooooo" },
	{ ",fault=write:error=ENOMEM", 8, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_INSUFFICIENT_RESOURCES, -1, "ooooooooo" },
	{ ",direct=on,fault=write:torn", 8, SCSI_KEY_MEDIUM_ERROR,
	  SCSI_ASC_WRITE_ERROR, 8, "nonononoo" },
};

static unsigned int cut_luns[ARRAY_SIZE(cut_rows)];

T_ROWS(each_block_of_a_failed_write_is_old_or_new, cut_rows)
{
	const struct cut_row *row = *state;
	const struct srp_rsp *rsp;
	struct scsi_sense sense;
	uint64_t tag;

	use(cut_luns[row - cut_rows]);
	log_in_a();
	tag = post_write(&a, 8, row->blocks, NEW);
	rsp = t_peer_await(&a, tag);
	sense = sense_of(rsp);
	assert_int_equal(sense.key, row->key);
	assert_int_equal(sense.code, row->code);
	assert_int_equal(sense.info_valid, row->info >= 0);
	if (row->info >= 0)
		assert_int_equal(sense.info, row->info);
	/* All data was transferred: only the sense data reports the error. */
	assert_int_equal(rsp->resid_flags, 0);
	expect_file(8, row->file_after);
	finish();
}

static const struct read_row {
	const char *name;
	bool is_memory;
	const char *options;
	int64_t info;
	off_t truncate_at; /* blocks; 0: not */
} read_rows[] = {
	{ "error", false, ",fault=read:error:after=1", 8, 0 },
	{ "error in the middle", false, ",fault=read:error:lba=11", 11, 0 },
	{ "short", false, ",fault=read:short:after=1", 12, 0 },
	{ "short, direct", false, ",direct=on,fault=read:short:after=1", 12,
	  0 },
	{ "short, memory", true, ",fault=read:short:after=1", 12, 0 },
	{ "a file that was cut off", false, "", 10, 10 },
	{ "a file that was cut off, direct", false, ",direct=on", -2, 10 },
};

static unsigned int read_luns[ARRAY_SIZE(read_rows)];

/* No byte is sent, in particular none of the data that the buffer had
 * before. */
T_ROWS(failed_read_moves_no_data, read_rows)
{
	const struct read_row *row = *state;
	const struct srp_rsp *rsp;
	struct scsi_sense sense;
	struct t_peer *p = &a;

	use(read_luns[row - read_rows]);
	log_in_a();
	/* Fills the buffers of the target with SECRET. */
	expect_good(p, post_write(p, 100, 8, SECRET));
	expect_good(p, post_read(p, 100, 8));
	if (row->truncate_at)
		assert_int_equal(
			truncate(volumes[lun].path, row->truncate_at * BLOCK),
			0);
	memset(p->mem, SENTINEL, 16 * BLOCK);
	rsp = t_peer_await(p, post_read(p, 8, 8));
	sense = sense_of(rsp);
	assert_int_equal(sense.key, SCSI_KEY_MEDIUM_ERROR);
	assert_int_equal(sense.code, SCSI_ASC_UNRECOVERED_READ_ERROR);
	assert_true(sense.info_valid);
	if (row->info >= 0)
		assert_int_equal(sense.info, row->info);
	assert_int_equal(rsp->resid_flags, SRP_RSP_IN_UNDERFLOW);
	assert_int_equal(rsp->in_resid, 8 * BLOCK);
	for (size_t i = 0; i < 16 * BLOCK; i++)
		assert_int_equal(p->mem[i], SENTINEL);
	finish();
}

/* ---- task management with a stuck disk ---- */

static const struct tmf_row {
	const char *name;
	uint8_t function;
	bool foreign; /* another initiator asks */
} tmf_rows[] = {
	{ "ABORT TASK", SRP_TSK_ABORT_TASK, false },
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET, false },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET, false },
	{ "LUN RESET", SRP_TSK_LUN_RESET, false },
	{ "LUN RESET of another", SRP_TSK_LUN_RESET, true },
};

static unsigned int tmf_luns[ARRAY_SIZE(tmf_rows)];

T_ROWS(function_does_not_await_a_stuck_write, tmf_rows)
{
	const struct tmf_row *row = *state;
	struct t_peer *p = &a;
	struct t_peer *asks = row->foreign ? &b : &a;
	const struct srp_rsp *rsp;
	uint64_t stuck;
	uint64_t newer;
	uint64_t tmf;

	use(tmf_luns[row - tmf_rows]);
	log_in_a();
	log_in_b();
	stuck = post_write(p, 8, 8, NEW);
	await_stuck(p);
	assert_null(t_ini_rsp(&p->ini, stuck));
	tmf = post_tmf(asks, row->function, stuck);
	rsp = t_peer_await(asks, tmf);
	assert_true(rsp->rsp_valid);
	assert_int_equal(rsp->rsp_code, SRP_RSP_COMPLETE);
	if (row->function == SRP_TSK_LUN_RESET)
		await_attention(asks, SCSI_ASC_DEVICE_RESET);
	if (row->foreign)
		expect_status(p, stuck, SCSI_STATUS_TASK_ABORTED);
	newer = post_write(asks, 8, 8, NEWER);
	expect_silence(asks, newer);
	expect_file(8, "oooooooo");

	release();
	/* The old write came first: the newer one stays. */
	expect_good(asks, newer);
	expect_file(8, "NNNNNNNN");
	if (!row->foreign)
		expect_silence(p, stuck);
	finish();
}

static unsigned int late_lun;

T_TEST(aborted_write_that_was_late_stays_under_a_newer_one)
{
	struct t_peer *p = &a;
	uint64_t late;
	uint64_t tmf;

	use(late_lun);
	log_in_a();
	for (int i = 0; i < 8; i++) {
		expect_good(p, post_write(p, 8, 8, OLD));
		late = post_write(p, 8, 8, NEW);
		tmf = post_tmf(p, SRP_TSK_ABORT_TASK, late);
		assert_int_equal(t_peer_await(p, tmf)->rsp_code,
				 SRP_RSP_COMPLETE);
		assert_null(t_ini_rsp(&p->ini, late));
		expect_good(p, post_write(p, 8, 8, NEWER));
		expect_good(p, post_write(p, 16, 1, OLD)); /* the delayed one */
		expect_file(8, "NNNNNNNN");
	}
	finish();
}

/* ---- the fence with a stuck disk ---- */

static unsigned int fence_lun;

T_TEST(new_login_does_not_wait_for_a_stuck_write)
{
	struct t_peer *p = &a;
	uint64_t newer;

	use(fence_lun);
	log_in_a();
	log_in_b();
	post_write(p, 8, 8, NEW);
	await_stuck(p);
	t_peer_hang_up(p);
	t_peer_begin(p, target.addr, &a_req);
	while (!p->ini.established)
		reactor_run_once(p->reactor, -1);
	expect_attention(p, SCSI_ASC_NEXUS_LOSS);
	expect_good(p, post_write(p, 32, 8, NEW));
	newer = post_write(p, 8, 8, NEWER);
	expect_silence(p, newer);
	expect_file(8, "oooooooo");

	release();
	/* The write of the old nexus came first. */
	expect_good(p, newer);
	expect_file(8, "NNNNNNNN");
	finish();
}

/* ---- another path to a stuck disk ---- */

/* The first of two paths is lost while the store has its write to blocks 8 to 15.
 * @is_seen: the target sees the end of its connection. */
static void lose_path(unsigned int own_lun, bool is_seen)
{
	unsigned int lines = log_lines(given_up_text);

	use(own_lun);
	log_in_a();
	log_in_b();
	post_write(&a, 8, 8, NEW);
	await_stuck(&a);
	if (!is_seen)
		return;
	t_peer_hang_up(&a);
	await_log(&b, given_up_text, lines);
}

static unsigned int path_lun;

/*
 * A multipath initiator is two initiators to the target. It loses one path, and
 * sends the write again by the other one, then a newer write.
 */
T_TEST(write_of_a_lost_path_stays_under_those_of_another)
{
	uint64_t read;
	uint64_t again;
	uint64_t newer;

	lose_path(path_lun, /* is_seen= */ true);
	/* What it would read may change later. */
	read = post_rw(&b, 0x28, 15, 1, 0);
	again = post_write(&b, 12, 8, NEW);
	newer = post_write(&b, 8, 8, NEWER);
	/* The other blocks are not affected. */
	for (int i = 0; i < 20; i++) {
		expect_good(&b, post_write(&b, 32, 8, NEW));
		expect_good(&b, post_rw(&b, 0x28, 16, 8, 0));
	}
	assert_null(t_ini_rsp(&b.ini, read));
	assert_null(t_ini_rsp(&b.ini, again));
	assert_null(t_ini_rsp(&b.ini, newer));
	expect_file(8, "oooooooo");

	release();
	expect_good(&b, read);
	expect_good(&b, again);
	expect_good(&b, newer);
	expect_file(8, "NNNNNNNN");
	finish();
}

static unsigned int path_cut_lun;

/* The cable of the first path is cut: the target does not know that it is lost. */
T_TEST(late_write_stays_under_those_of_another_path)
{
	uint64_t newer;

	lose_path(path_cut_lun, /* is_seen= */ false);
	newer = post_write(&b, 8, 8, NEWER);
	/* The first initiator may still be there, and reads do not wait. */
	for (int i = 0; i < 20; i++) {
		expect_good(&b, post_write(&b, 32, 8, NEW));
		expect_good(&b, post_rw(&b, 0x28, 8, 8, 0));
	}
	assert_null(t_ini_rsp(&b.ini, newer));

	release();
	expect_good(&b, newer);
	expect_file(8, "NNNNNNNN");
	finish();
}

static unsigned int path_end_lun;

T_TEST(write_that_waits_for_a_lost_path_can_be_ended)
{
	uint64_t aborted;
	uint64_t tmf;

	lose_path(path_end_lun, /* is_seen= */ true);
	aborted = post_write(&b, 12, 8, NEWER);
	post_write(&b, 8, 8, NEWER);
	tmf = post_tmf(&b, SRP_TSK_ABORT_TASK, aborted);
	assert_int_equal(t_peer_await(&b, tmf)->rsp_code, SRP_RSP_COMPLETE);
	expect_silence(&b, aborted);
	/* Its login does not wait for the write that waits. */
	t_peer_hang_up(&b);
	log_in(&b, &b_req);
	expect_attention(&b, SCSI_ASC_NEXUS_LOSS);
	expect_file(8, "oooooooooooo");

	release();
	expect_good(&b, post_write(&b, 12, 4, NEWER));
	expect_file(8, "nnnnNNNNoooo");
	finish();
}

static unsigned int copy_lun;

/* EXTENDED COPY of @blocks of the LUN to another place of it. */
static uint64_t post_copy(struct t_peer *p, uint32_t from, uint32_t to,
			  uint16_t blocks)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x83 };
	uint8_t *list = p->mem;
	uint8_t *segment = list + 16;

	memset(list, 0, 16 + 28);
	wire_put32(list + 8, 28);
	segment[0] = 0x02;
	wire_put16(segment + 2, 0x18);
	wire_put32(segment + 4, 0xffffffff); /* both are the LUN itself */
	wire_put16(segment + 10, blocks);
	wire_put64(segment + 12, from);
	wire_put64(segment + 20, to);
	wire_put32(cdb + 10, 16 + 28);
	return post(p, cdb, true, 0, 16 + 28);
}

/* A copy has one piece in the store at a time. Only that one has its blocks. */
T_TEST(copy_with_a_stuck_piece_goes_on)
{
	uint64_t copy;
	uint64_t newer;

	use(copy_lun);
	log_in_a();
	log_in_b();
	expect_good(&a, post_write(&a, 0, 1, NEW));
	expect_good(&a, post_write(&a, 512, 1, NEW));
	copy = post_copy(&a, 0, 1000, 1000);
	await_stuck(&a);
	newer = post_write(&b, 1000, 1, NEWER);
	expect_good(&b, post_write(&b, 32, 8, NEWER));
	assert_null(t_ini_rsp(&b.ini, newer));

	release();
	expect_good(&b, newer);
	expect_good(&a, copy);
	expect_file(1000, "No");
	expect_file(1512, "no");
	finish();
}

/* ---- one of two initiators reconnects ---- */

static void reserve(struct t_peer *p, uint64_t key)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x5f, 0x00 };
	uint8_t *list = p->mem;

	memset(list, 0, 24);
	wire_put64(list + 8, key);
	wire_put32(cdb + 5, 24);
	expect_good(p, post(p, cdb, true, 0, 24)); /* REGISTER */
	wire_put64(list, key);
	wire_put64(list + 8, 0);
	cdb[1] = 0x01; /* RESERVE */
	cdb[2] = 0x01; /* write exclusive */
	expect_good(p, post(p, cdb, true, 0, 24));
}

static unsigned int two_lun;

T_TEST(reconnect_of_one_leaves_the_other_alone)
{
	uint64_t stuck;

	use(two_lun);
	log_in_a();
	log_in_b();
	reserve(&b, 0xb0b);
	stuck = post_write(&b, 8, 8, NEW);
	await_stuck(&b);
	for (int i = 0; i < 3; i++) {
		/* First over a connection that works, then over one that was
		 * closed. */
		if (i)
			t_peer_hang_up(&a);
		log_in(&a, &a_req);
		expect_attention(&a, SCSI_ASC_NEXUS_LOSS);
		expect_status(&a, post_write(&a, 8, 8, NEWER),
			      SCSI_STATUS_RESERVATION_CONFLICT);
	}
	expect_silence(&b, stuck);
	release();
	expect_good(&b, stuck);
	expect_file(8, "nnnnnnnn");
	expect_status(&a, post_write(&a, 8, 8, NEWER),
		      SCSI_STATUS_RESERVATION_CONFLICT);
	expect_good(&b, post_write(&b, 16, 1, NEW));
	finish();
}

/* ---- COMPARE AND WRITE is repeated ---- */

static uint64_t post_caw(struct t_peer *p, uint32_t lba, uint8_t from,
			 uint8_t to)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x89 };

	memset(p->mem, from, BLOCK);
	memset(p->mem + BLOCK, to, BLOCK);
	wire_put64(cdb + 2, lba);
	cdb[13] = 1;
	return post(p, cdb, true, 0, 2 * BLOCK);
}

static unsigned int caw_lun;

/*
 * The answer was lost, but the command was executed. The retry first gets the
 * attention for the loss of the nexus. The next retry miscompares, and the
 * medium has the data of the first one, so the initiator knows that its command
 * was executed.
 */
T_TEST(retried_compare_and_write_tells_the_truth)
{
	struct t_peer *p = &a;
	struct scsi_sense sense;

	use(caw_lun);
	log_in_a();
	post_caw(p, 8, OLD, NEW);
	await_stuck(p);
	t_peer_hang_up(p);
	release();
	log_in(p, &a_req);
	expect_sense(p, post_caw(p, 8, OLD, NEW), SCSI_KEY_UNIT_ATTENTION,
		     SCSI_ASC_NEXUS_LOSS);
	sense = sense_of(t_peer_await(p, post_caw(p, 8, OLD, NEW)));
	assert_int_equal(sense.key, SCSI_KEY_MISCOMPARE);
	assert_int_equal(sense.code, SCSI_ASC_MISCOMPARE_DURING_VERIFY);
	assert_int_equal(sense.info, 0);
	expect_file(8, "no");
	finish();
}

static unsigned int caw_failed_lun;

/* The first command was not executed, so the retry executes it. */
T_TEST(compare_and_write_that_failed_can_be_retried)
{
	struct t_peer *p = &a;

	use(caw_failed_lun);
	log_in_a();
	expect_sense(p, post_caw(p, 8, OLD, NEW), SCSI_KEY_MEDIUM_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	expect_file(8, "oo");
	expect_good(p, post_caw(p, 8, OLD, NEW));
	expect_file(8, "no");
	finish();
}

/* ---- the end ---- */

/* The last of all tests. The flush keeps failing until the volume is opened
 * again. The target cannot flush the volume at its own end either, and exits
 * with 1. */
T_TEST(failed_flush_lasts_until_the_restart)
{
	assert_int_equal(t_target_end(&target, SIGTERM), 1 << 8);
	*strchr(volumes[flush_rows[0].lun].spec, ',') = '\0';
	start_with(flush_rows[0].lun, 1);
	use(0);
	log_in_a();
	expect_good(&a, post_sync(&a));
	finish();
	t_target_stop(&target);
}

static int begin(void **state)
{
	static const char flush_fault[] = ",fault=flush:error:after=1:count=1";

	flush_rows[0].lun = add_volume(false, flush_fault);
	flush_rows[1].lun = add_volume(true, flush_fault);
	for (size_t i = 0; i < ARRAY_SIZE(cut_rows); i++)
		cut_luns[i] = add_volume(false, cut_rows[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(read_rows); i++)
		read_luns[i] = add_volume(read_rows[i].is_memory,
					  read_rows[i].options);
	for (size_t i = 0; i < ARRAY_SIZE(tmf_rows); i++)
		tmf_luns[i] = add_volume(false, ",fault=write:stuck:count=1");
	late_lun = add_volume(false, ",fault=write:delay=30:every=2");
	fence_lun = add_volume(false, ",fault=write:stuck:count=1");
	path_lun = add_volume(false, ",fault=write:stuck:lba=8-15:count=1");
	path_cut_lun = add_volume(false, ",fault=write:stuck:lba=8-15:count=1");
	path_end_lun = add_volume(false, ",fault=write:stuck:lba=8-15:count=1");
	copy_lun = add_volume(false, ",fault=write:stuck:lba=1000:count=1");
	two_lun = add_volume(false, ",fault=write:stuck:lba=8-15:count=1");
	caw_lun = add_volume(false, ",fault=write:stuck:count=1");
	caw_failed_lun = add_volume(false, ",fault=write:error:count=1");
	start_with(0, volume_cnt);
	t_peer_init(&a);
	t_peer_init(&b);
	return 0;
}

static int end(void **state)
{
	t_peer_fini(&a);
	t_peer_fini(&b);
	if (target.pid)
		t_target_end(&target, SIGKILL);
	return 0;
}

int main(void)
{
	return t_run_between(begin, end);
}
