/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk between port and backend. A row is one command on one kind of
 * store: what the initiator sends, and what must come of it, down to the
 * requests that the store sees. The test plays the port. Each row runs twice,
 * with a store that answers at once and with one that answers later.
 */
#include "target/scsi_task.h"

#include "tests/lib/t_backend.h"
#include "tests/lib/t_bytes.h"

#include <errno.h>
#include <string.h>

#define BLOCK	   512u
#define BLOCKS	   16384u /* 8 MiB: a transfer can be too large for one command */
#define OTHER_LUN  3
#define ABSENT_LUN 5
#define STALE	   0xa5

/* ---- the disk under test ---- */

enum store {
	THIN,	/* can everything, has a cache */
	PLAIN,	/* has a cache, and reads, writes and flushes, no more */
	STABLE, /* as THIN without a cache */
	MEMORY, /* in place */
	READ_ONLY,
};

static const struct backend_info stores[] = {
	[THIN] = { .unmap_granularity = 4096,
		   .unmap_zeroes = true,
		   .volatile_cache = true,
		   .fua = true,
		   .zero = true,
		   .extents = true },
	[PLAIN] = { .volatile_cache = true },
	[STABLE] = { .unmap_granularity = 4096,
		     .unmap_zeroes = true,
		     .fua = true,
		     .zero = true },
	[MEMORY] = { .unmap_granularity = 4096,
		     .unmap_zeroes = true,
		     .zero = true,
		     .memory = &t_backend },
	[READ_ONLY] = { .extents = true },
};

static struct lun_map luns;
static struct scsi_nexus nexus;
static struct worker worker;

/* Block n is full of the byte n + 1. */
static void fill_store(void)
{
	for (unsigned int i = 0; i < BLOCKS; i++)
		memset(t_backend.store + (size_t)i * BLOCK, (int)(i + 1),
		       BLOCK);
}

static void start_disk(enum store store)
{
	struct volume_spec spec = { .ops = &t_backend_ops,
				    .block_size = BLOCK,
				    .read_only = store == READ_ONLY,
				    .path = "test",
				    .serial = "0123" };
	char msg[128];

	memset(&t_backend, 0, sizeof(t_backend));
	t_backend.info = stores[store];
	t_backend.info.size = (uint64_t)BLOCKS * BLOCK;
	t_backend.info.min_block = 1;
	t_backend.info.optimal_block = 4096;
	t_backend.extent_unit = 4096;
	assert_int_equal(volume_open(&spec, 0, &luns.vol[0], msg, sizeof(msg)),
			 0);
	luns.vol[OTHER_LUN] = luns.vol[0];
	luns.cnt = 2;
	fill_store();
	scsi_nexus_init(&nexus, &luns);
	for (unsigned int i = 0; i < LUNS_MAX; i++)
		atomic_store(&nexus.ua[i], 0);
}

static void stop_disk(void)
{
	assert_null(t_backend.held);
	volume_close(luns.vol[0]);
	memset(&luns, 0, sizeof(luns));
}

/* ---- the port ---- */

struct command {
	struct scsi_task task;
	unsigned int done;
	uint8_t cdb[SCSI_CDB_LEN];
	uint8_t *buf; /* what it took for the task */
	bool executed;
};

static void command_done(struct scsi_task *task)
{
	((struct command *)task)->done++;
}

static void set_cdb(struct command *c, const char *hex)
{
	struct t_bytes b = t_bytes(hex);

	assert_true(b.len <= SCSI_CDB_LEN);
	memcpy(c->cdb, b.p, b.len);
	free(b.p);
}

static void take_buffer(struct command *c, const uint8_t *out)
{
	struct scsi_task *t = &c->task;

	assert_true(t->fetch_len <= t->data_out_len);
	assert_true(t->buf_len >= t->fetch_len);
	if (!t->buf_is_volume && t->buf_len) {
		c->buf = malloc(t->buf_len);
		assert_non_null(c->buf);
		memset(c->buf, STALE, t->buf_len);
		t->buf = c->buf;
	}
	if (t->fetch_len)
		memcpy(t->buf, out, t->fetch_len);
}

static void run_command(struct command *c, const char *cdb, int lun,
			const uint8_t *out, uint32_t out_len, uint32_t in_len)
{
	struct scsi_task *t = &c->task;

	memset(c, 0, sizeof(*c));
	set_cdb(c, cdb);
	t->worker = &worker;
	t->nexus = &nexus;
	t->lun = lun;
	t->cdb = c->cdb;
	t->cdb_len = SCSI_CDB_LEN;
	t->data_out_len = out_len;
	t->data_in_len = in_len;
	t->buf_index = -1;
	t->done = command_done;
	if (scsi_task_prepare(t) == SCSI_TASK_OVER) {
		assert_int_equal(c->done, 0);
		return;
	}
	c->executed = true;
	take_buffer(c, out);
	scsi_task_execute(t);
	while (!c->done)
		assert_true(t_backend_answer());
	assert_int_equal(c->done, 1);
	assert_true(t->data_in_cnt <= in_len);
}

static void free_command(struct command *c)
{
	free(c->buf);
}

/* "05/24/00 CDB 2.7", "05/21/00 info 16384", "good" */
static const char *outcome(const struct scsi_task *t)
{
	static char text[96];
	struct scsi_sense s;
	int n;

	if (t->status == SCSI_STATUS_GOOD) {
		assert_int_equal(t->sense_len, 0);
		return "good";
	}
	assert_int_equal(t->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(t->data_in_cnt, 0);
	assert_int_equal(scsi_sense_decode(t->sense, t->sense_len, &s), 0);
	n = snprintf(text, sizeof(text), "%02x/%02x/%02x", s.key,
		     SCSI_ASC(s.code), SCSI_ASCQ(s.code));
	if (s.pointer != SCSI_POINTER_NONE)
		n += snprintf(text + n, sizeof(text) - n, " %s %u",
			      s.pointer == SCSI_POINTER_CDB ? "CDB" : "data",
			      s.byte_no);
	if (s.pointer != SCSI_POINTER_NONE && s.bit_no != SCSI_BIT_NONE)
		n += snprintf(text + n, sizeof(text) - n, ".%u", s.bit_no);
	if (s.info_valid)
		snprintf(text + n, sizeof(text) - n, " info %llu",
			 (unsigned long long)s.info);
	return text;
}

/* ---- rows ---- */

struct row {
	const char *name;
	enum store store;
	int lun;
	const char *cdb; /* zero padded to 16 bytes */
	const char *out; /* data-out; all of it described */
	uint32_t in_len; /* data-in bytes described */
	/* what the store is to do */
	unsigned int fail_at;
	int fail_with;
	uint64_t fail_progress;
	/* what must come of it; NULL: "good", nothing */
	const char *outcome;
	const char *ops;
	uint32_t in_cnt;
	const char *in; /* the first bytes of data-in; NULL: any */
	uint64_t wanted_in;
	uint64_t wanted_out;
	uint64_t lba;	   /* from here on ... */
	const char *after; /* the store holds this; NULL: unchanged */
};

static const struct row rows[] = {
	/* who may speak */
	{ "TEST UNIT READY", .cdb = "00" },
	{ "TEST UNIT READY of an absent LUN", .cdb = "00", .lun = ABSENT_LUN,
	  .outcome = "05/25/00" },
	{ "TEST UNIT READY of a LUN field that names none", .cdb = "00",
	  .lun = -1, .outcome = "05/25/00" },
	{ "TEST UNIT READY of a LUN above all", .cdb = "00", .lun = 16383,
	  .outcome = "05/25/00" },
	{ "unknown command", .cdb = "ff", .outcome = "05/20/00" },
	{ "unknown command of an absent LUN", .cdb = "ff", .lun = ABSENT_LUN,
	  .outcome = "05/25/00" },
	{ "unknown service action", .cdb = "9e 1f",
	  .outcome = "05/24/00 CDB 1.4" },
	{ "NACA", .cdb = "00 00 00 00 00 04", .outcome = "05/24/00 CDB 5.2" },

	/* REQUEST SENSE */
	{ "REQUEST SENSE", .cdb = "03 00 00 00 fc", .in_len = 252,
	  .in = "70 00 00 00*4 0a 00*10", .in_cnt = 18, .wanted_in = 18 },
	{ "REQUEST SENSE, descriptors", .cdb = "03 01 00 00 08", .in_len = 8,
	  .in = "72 00 00 00 00*4", .in_cnt = 8, .wanted_in = 8 },
	{ "REQUEST SENSE of an absent LUN", .cdb = "03 00 00 00 12",
	  .lun = ABSENT_LUN, .in_len = 18,
	  .in = "70 00 05 00*4 0a 00*4 25 00*5", .in_cnt = 18,
	  .wanted_in = 18 },

	/* INQUIRY */
	{ "INQUIRY", .cdb = "12 00 00 00 24", .in_len = 36, .in = "00 00 06",
	  .in_cnt = 36, .wanted_in = 36 },
	{ "INQUIRY without allocation", .cdb = "12", .in_len = 36 },
	{ "INQUIRY without a buffer", .cdb = "12 00 00 00 24",
	  .wanted_in = 36 },
	{ "INQUIRY with a smaller buffer", .cdb = "12 00 00 00 24", .in_len = 8,
	  .in = "00 00 06", .in_cnt = 8, .wanted_in = 36 },
	{ "INQUIRY with a larger buffer", .cdb = "12 00 00 00 24",
	  .in_len = 4096, .in_cnt = 36, .wanted_in = 36 },
	{ "INQUIRY with room for more than there is", .cdb = "12 00 00 ff ff",
	  .in_len = 65535, .in_cnt = 96, .wanted_in = 96 },
	{ "INQUIRY of an absent LUN", .cdb = "12 00 00 00 24",
	  .lun = ABSENT_LUN, .in_len = 36, .in = "7f", .in_cnt = 36,
	  .wanted_in = 36 },
	{ "INQUIRY, page 00h", .cdb = "12 01 00 00 fc", .in_len = 252,
	  .in = "00 00 00 07 00 80 83 86 b0 b1 b2", .in_cnt = 11,
	  .wanted_in = 11 },
	{ "INQUIRY, page 80h", .cdb = "12 01 80 00 fc", .in_len = 252,
	  .in = "00 80 00 04 '0123'", .in_cnt = 8, .wanted_in = 8 },
	{ "INQUIRY, header of page 83h", .cdb = "12 01 83 00 04", .in_len = 4,
	  .in = "00 83", .in_cnt = 4, .wanted_in = 4 },
	{ "INQUIRY, page 86h", .cdb = "12 01 86 00 fc", .in_len = 252,
	  .in = "00 86 00 3c", .in_cnt = 64, .wanted_in = 64 },
	{ "INQUIRY, page B0h", .cdb = "12 01 b0 00 fc", .in_len = 252,
	  .in = "00 b0 00 3c 00 00 00 08 00 00 20 00 00 00 08 00", .in_cnt = 64,
	  .wanted_in = 64 },
	{ "INQUIRY, page B1h", .cdb = "12 01 b1 00 fc", .in_len = 252,
	  .in = "00 b1 00 3c 00 01", .in_cnt = 64, .wanted_in = 64 },
	{ "INQUIRY, page B2h", .cdb = "12 01 b2 00 fc", .in_len = 252,
	  .in = "00 b2", .in_cnt = 8, .wanted_in = 8 },
	{ "INQUIRY, a page that is not there", .cdb = "12 01 85 00 fc",
	  .in_len = 252, .outcome = "05/24/00 CDB 2.7" },
	{ "INQUIRY, page without EVPD", .cdb = "12 00 80 00 fc", .in_len = 252,
	  .outcome = "05/24/00 CDB 2.7" },
	{ "INQUIRY, page of an absent LUN", .cdb = "12 01 00 00 fc",
	  .lun = ABSENT_LUN, .in_len = 252, .outcome = "05/25/00" },

	/* REPORT LUNS */
	{ "REPORT LUNS", .cdb = "a0 00 00 00 00 00 00 00 10 00", .in_len = 4096,
	  .in = "00 00 00 10 00*4 00 00 00*6 00 03 00*6", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "REPORT LUNS, header only", .cdb = "a0 00 00 00 00 00 00 00 00 08",
	  .in_len = 8, .in = "00 00 00 10 00*4", .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS through an absent LUN",
	  .cdb = "a0 00 02 00 00 00 00 00 10 00", .lun = -1, .in_len = 4096,
	  .in = "00 00 00 10", .in_cnt = 24, .wanted_in = 24 },
	{ "REPORT LUNS, well-known ones",
	  .cdb = "a0 00 01 00 00 00 00 00 10 00", .in_len = 4096, .in = "00*8",
	  .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS, unknown selection",
	  .cdb = "a0 00 03 00 00 00 00 00 10 00", .in_len = 4096,
	  .outcome = "05/24/00 CDB 2.7" },

	/* REPORT SUPPORTED OPERATION CODES */
	{ "REPORT OPCODES, one that is there",
	  .cdb = "a3 0c 01 93 00 00 00 00 02 00", .in_len = 512,
	  .in = "00 03 00 10 93", .in_cnt = 20, .wanted_in = 20 },
	{ "REPORT OPCODES, one that is not",
	  .cdb = "a3 0c 01 ff 00 00 00 00 02 00", .in_len = 512, .in = "00 01",
	  .in_cnt = 4, .wanted_in = 4 },
	{ "REPORT OPCODES, service action for a command without",
	  .cdb = "a3 0c 02 12 00 00 00 00 02 00", .in_len = 512,
	  .outcome = "05/24/00 CDB 2.2" },

	/* mode and capacity */
	{ "MODE SENSE (6), a cache", .cdb = "1a 08 08 00 fc", .in_len = 252,
	  .in = "17 00 10 00 08 12 04", .in_cnt = 24, .wanted_in = 24 },
	{ "MODE SENSE (6), no cache", .store = STABLE, .cdb = "1a 08 08 00 fc",
	  .in_len = 252, .in = "17 00 10 00 08 12 00", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "MODE SENSE (6), write-protected", .store = READ_ONLY,
	  .cdb = "1a 08 3f 00 04", .in_len = 4, .in_cnt = 4, .wanted_in = 4 },
	{ "MODE SENSE (10)", .cdb = "5a 08 08 00 00 00 00 00 ff", .in_len = 255,
	  .in = "00 1a 00 10 00 00 00 00 08 12 04", .in_cnt = 28,
	  .wanted_in = 28 },
	{ "MODE SENSE, no such page", .cdb = "1a 08 05 00 fc", .in_len = 252,
	  .outcome = "05/24/00 CDB 2.5" },
	{ "MODE SENSE, saved values", .cdb = "1a 08 c8 00 fc", .in_len = 252,
	  .outcome = "05/39/00" },
	{ "READ CAPACITY (10)", .cdb = "25", .in_len = 8,
	  .in = "00 00 3f ff 00 00 02 00", .in_cnt = 8, .wanted_in = 8 },
	{ "READ CAPACITY (16)", .cdb = "9e 10 00*11 20", .in_len = 32,
	  .in = "00*6 3f ff 00 00 02 00 00 03 c0 00 00*16", .in_cnt = 32,
	  .wanted_in = 32 },
	{ "READ CAPACITY (16), not thin", .store = PLAIN,
	  .cdb = "9e 10 00*11 20", .in_len = 32,
	  .in = "00*6 3f ff 00 00 02 00 00 03 00 00 00*16", .in_cnt = 32,
	  .wanted_in = 32 },
	{ "START", .cdb = "1b 00 00 00 01" },
	{ "STOP flushes", .cdb = "1b", .ops = "flush" },
	{ "STOP without flush", .cdb = "1b 00 00 00 04" },
	{ "STOP, read-only", .store = READ_ONLY, .cdb = "1b" },
	{ "STOP, flush fails", .cdb = "1b", .ops = "flush", .fail_at = 1,
	  .fail_with = -EIO, .outcome = "03/0c/00" },
	{ "PREVENT REMOVAL", .cdb = "1e 00 00 00 01" },

	/* READ */
	{ "READ (6)", .cdb = "08 00 00 02 01", .in_len = 512,
	  .ops = "read 1024+512", .in = "03*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ (6) of 0 blocks is of 256", .cdb = "08", .in_len = 131072,
	  .ops = "read 0+131072", .in = "01*512 02*512", .in_cnt = 131072,
	  .wanted_in = 131072 },
	{ "READ (10)", .cdb = "28 00 00 00 00 01 00 00 02", .in_len = 1024,
	  .ops = "read 512+1024", .in = "02*512 03*512", .in_cnt = 1024,
	  .wanted_in = 1024 },
	{ "READ (12)", .cdb = "a8 00 00 00 00 01 00 00 00 01", .in_len = 512,
	  .ops = "read 512+512", .in = "02*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ (16)", .cdb = "88 00 00*6 3f ff 00 00 00 01", .in_len = 512,
	  .ops = "read 8388096+512", .in = "00*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ of nothing", .cdb = "28", .in_len = 512 },
	{ "READ of nothing without a buffer", .cdb = "28" },
	{ "READ, DPO and FUA, through a cache", .cdb = "28 18 00*6 01",
	  .in_len = 512, .ops = "flush, read 0+512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ, FUA, flush fails", .cdb = "28 08 00*6 01", .in_len = 512,
	  .ops = "flush", .fail_at = 1, .fail_with = -EIO, .wanted_in = 512,
	  .outcome = "03/0c/00" },
	{ "READ, FUA, no cache", .store = STABLE, .cdb = "28 08 00*6 01",
	  .in_len = 512, .ops = "read 0+512", .in_cnt = 512, .wanted_in = 512 },
	{ "READ in place", .store = MEMORY, .cdb = "28 00 00 00 00 01 00 00 02",
	  .in_len = 1024, .in = "02*512 03*512", .in_cnt = 1024,
	  .wanted_in = 1024 },
	{ "READ in place, smaller buffer", .store = MEMORY,
	  .cdb = "28 00 00 00 00 01 00 00 02", .in_len = 100, .in = "02*100",
	  .in_cnt = 100, .wanted_in = 1024 },
	{ "READ, buffer ends within a block",
	  .cdb = "28 00 00 00 00 00 00 00 03", .in_len = 700,
	  .ops = "read 0+1024", .in = "01*512 02*188", .in_cnt = 700,
	  .wanted_in = 1536 },
	{ "READ without a buffer", .cdb = "28 00 00 00 00 00 00 00 03",
	  .wanted_in = 1536 },
	{ "READ with a larger buffer", .cdb = "28 00 00 00 00 00 00 00 01",
	  .in_len = 4096, .ops = "read 0+512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ past the end", .cdb = "28 00 00 00 3f ff 00 00 02",
	  .in_len = 1024, .outcome = "05/21/00 info 16384" },
	{ "READ behind the end", .cdb = "28 00 00 00 40 00 00 00 01",
	  .in_len = 512, .outcome = "05/21/00 info 16384" },
	{ "READ of nothing behind the end", .cdb = "28 00 00 00 40 00",
	  .outcome = "05/21/00 info 16384" },
	{ "READ (16) whose end overflows", .cdb = "88 00 ff*8 00 00 00 02",
	  .in_len = 1024, .outcome = "05/21/00" },
	{ "READ of more than the limit", .cdb = "28 00 00 00 00 00 00 20 01",
	  .in_len = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "READ with RDPROTECT", .cdb = "28 20 00*6 01", .in_len = 512,
	  .outcome = "05/24/00 CDB 1.7" },
	{ "READ, medium error", .cdb = "28 00 00 00 00 08 00 00 04",
	  .in_len = 2048, .ops = "read 4096+2048", .fail_at = 1,
	  .fail_with = -EIO, .fail_progress = 1024, .wanted_in = 2048,
	  .outcome = "03/11/00 info 10" },
	{ "READ, no memory", .cdb = "28 00 00*6 01", .in_len = 512,
	  .ops = "read 0+512", .fail_at = 1, .fail_with = -ENOMEM,
	  .wanted_in = 512, .outcome = "0b/55/03" },

	/* WRITE */
	{ "WRITE (6)", .cdb = "0a 00 00 02 01", .out = "aa*512",
	  .ops = "write 1024+512", .wanted_out = 512, .lba = 1,
	  .after = "02*512 aa*512 04*512" },
	{ "WRITE (10)", .cdb = "2a 00 00 00 00 01 00 00 02",
	  .out = "aa*512 bb*512", .ops = "write 512+1024", .wanted_out = 1024,
	  .lba = 0, .after = "01*512 aa*512 bb*512 04*512" },
	{ "WRITE (12)", .cdb = "aa 00 00 00 00 01 00 00 00 01", .out = "aa*512",
	  .ops = "write 512+512", .wanted_out = 512, .lba = 1,
	  .after = "aa*512" },
	{ "WRITE (16)", .cdb = "8a 00 00*6 3f ff 00 00 00 01", .out = "aa*512",
	  .ops = "write 8388096+512", .wanted_out = 512, .lba = 16383,
	  .after = "aa*512" },
	{ "WRITE of nothing", .cdb = "2a", .out = "aa*512" },
	{ "WRITE, FUA", .cdb = "2a 08 00*6 01", .out = "aa*512",
	  .ops = "write 0+512 fua", .wanted_out = 512, .lba = 0,
	  .after = "aa*512" },
	{ "WRITE, FUA that the store cannot do", .store = PLAIN,
	  .cdb = "2a 08 00*6 01", .out = "aa*512", .ops = "write 0+512, flush",
	  .wanted_out = 512, .lba = 0, .after = "aa*512" },
	{ "WRITE, FUA by a flush that fails", .store = PLAIN,
	  .cdb = "2a 08 00*6 01", .out = "aa*512", .ops = "write 0+512, flush",
	  .fail_at = 2, .fail_with = -EIO, .wanted_out = 512,
	  .outcome = "03/0c/00", .lba = 0, .after = "aa*512" },
	{ "WRITE, FUA, no cache", .store = STABLE, .cdb = "2a 08 00*6 01",
	  .out = "aa*512", .ops = "write 0+512", .wanted_out = 512, .lba = 0,
	  .after = "aa*512" },
	{ "WRITE in place", .store = MEMORY,
	  .cdb = "2a 08 00 00 00 01 00 00 01", .out = "aa*512",
	  .wanted_out = 512, .lba = 0, .after = "01*512 aa*512 03*512" },
	{ "WRITE, data-out too short", .cdb = "2a 00 00 00 00 00 00 00 02",
	  .out = "aa*1023", .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE in place, data-out too short", .store = MEMORY,
	  .cdb = "2a 00 00 00 00 00 00 00 02", .out = "aa*1023",
	  .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE (16) without data-out", .cdb = "8a 00 00*8 00 00 00 01",
	  .in_len = 512, .wanted_out = 512, .outcome = "05/24/00 CDB 10.7" },
	{ "WRITE, data-out longer", .cdb = "2a 00 00 00 00 00 00 00 01",
	  .out = "aa*1024", .ops = "write 0+512", .wanted_out = 512, .lba = 0,
	  .after = "aa*512 02*512" },
	{ "WRITE, write-protected", .store = READ_ONLY, .cdb = "2a 00 00*6 01",
	  .out = "aa*512", .outcome = "07/27/00" },
	{ "WRITE past the end", .cdb = "2a 00 00 00 3f ff 00 00 02",
	  .out = "aa*1024", .outcome = "05/21/00 info 16384" },
	{ "WRITE in place past the end", .store = MEMORY,
	  .cdb = "2a 00 00 00 3f ff 00 00 02", .out = "aa*1024",
	  .outcome = "05/21/00 info 16384" },
	{ "WRITE of more than the limit", .cdb = "2a 00 00 00 00 00 00 20 01",
	  .out = "aa*512", .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE with WRPROTECT", .cdb = "2a 20 00*6 01", .out = "aa*512",
	  .outcome = "05/24/00 CDB 1.7" },
	{ "WRITE, medium error", .cdb = "2a 00 00 00 00 08 00 00 04",
	  .out = "aa*2048", .ops = "write 4096+2048", .fail_at = 1,
	  .fail_with = -EIO, .fail_progress = 512, .wanted_out = 2048,
	  .outcome = "03/0c/00 info 9" },
	{ "WRITE, store full", .cdb = "2a 00 00*6 01", .out = "aa*512",
	  .ops = "write 0+512", .fail_at = 1, .fail_with = -ENOSPC,
	  .wanted_out = 512, .outcome = "07/27/07" },

	/* VERIFY */
	{ "VERIFY (10) reads the medium", .cdb = "2f 00 00 00 00 01 00 00 02",
	  .ops = "read 512+1024" },
	{ "VERIFY (10) of nothing", .cdb = "2f" },
	{ "VERIFY (12), medium error", .cdb = "af 00 00 00 00 01 00 00 00 02",
	  .ops = "read 512+1024", .fail_at = 1, .fail_with = -EIO,
	  .outcome = "03/11/00 info 1" },
	{ "VERIFY (16), in pieces", .cdb = "8f 00 00*8 00 00 02 01",
	  .ops = "read 0+262144, read 262144+512" },
	{ "VERIFY in place", .store = MEMORY,
	  .cdb = "2f 00 00 00 00 01 00 00 02" },
	{ "VERIFY, equal", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512 03*512", .ops = "read 512+1024", .wanted_out = 1024 },
	{ "VERIFY, different", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512 03*511 04", .ops = "read 512+1024", .wanted_out = 1024,
	  .outcome = "0e/1d/00 info 1023" },
	{ "VERIFY in place, equal", .store = MEMORY,
	  .cdb = "2f 02 00 00 00 01 00 00 02", .out = "02*512 03*512",
	  .wanted_out = 1024 },
	{ "VERIFY in place, different", .store = MEMORY,
	  .cdb = "2f 02 00 00 00 01 00 00 02", .out = "02*512 04*512",
	  .wanted_out = 1024, .outcome = "0e/1d/00 info 512" },
	{ "VERIFY, data-out too short", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512", .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "VERIFY against one block", .cdb = "2f 06 00*6 01", .out = "02*512",
	  .outcome = "05/24/00 CDB 1.2" },
	{ "VERIFY past the end", .cdb = "2f 00 00 00 3f ff 00 00 02",
	  .outcome = "05/21/00 info 16384" },

	/* SYNCHRONIZE CACHE */
	{ "SYNCHRONIZE CACHE (10)", .cdb = "35", .ops = "flush" },
	{ "SYNCHRONIZE CACHE (16)", .cdb = "91", .ops = "flush" },
	{ "SYNCHRONIZE CACHE of a range", .cdb = "35 00 00 00 00 01 00 00 02",
	  .ops = "flush" },
	{ "SYNCHRONIZE CACHE, IMMED", .cdb = "35 02", .ops = "flush" },
	{ "SYNCHRONIZE CACHE, read-only", .store = READ_ONLY, .cdb = "35" },
	{ "SYNCHRONIZE CACHE past the end", .cdb = "35 00 00 00 3f ff 00 00 02",
	  .outcome = "05/21/00 info 16384" },
	{ "SYNCHRONIZE CACHE, flush fails", .cdb = "35", .ops = "flush",
	  .fail_at = 1, .fail_with = -EIO, .outcome = "03/0c/00" },

	/* UNMAP */
	{ "UNMAP", .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*4",
	  .ops = "unmap 512+1024", .wanted_out = 24, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "UNMAP of two ranges and an empty one",
	  .cdb = "42 00 00 00 00 00 00 00 38",
	  .out = "00 36 00 30 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*7 05 00*8 00*7 09 00 00 00 01 00*4",
	  .ops = "unmap 512+1024, unmap 4608+512", .wanted_out = 56 },
	{ "UNMAP in place", .store = MEMORY,
	  .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*4",
	  .ops = "unmap 512+1024", .wanted_out = 24, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "UNMAP of nothing", .cdb = "42" },
	{ "UNMAP, list cut short", .cdb = "42 00 00 00 00 00 00 00 17",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*3", .wanted_out = 23,
	  .outcome = "05/1a/00" },
	{ "UNMAP, data-out too short", .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4", .wanted_out = 24,
	  .outcome = "05/24/00 CDB 7.7" },
	{ "UNMAP past the end does nothing at all",
	  .cdb = "42 00 00 00 00 00 00 00 28",
	  .out = "00 26 00 20 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*6 3f ff 00 00 00 02 00*4",
	  .wanted_out = 40, .outcome = "05/21/00 info 16384" },
	{ "UNMAP with ANCHOR", .cdb = "42 01", .outcome = "05/24/00 CDB 1.0" },
	{ "UNMAP where nothing is thin", .store = PLAIN,
	  .cdb = "42 00 00 00 00 00 00 00 18", .out = "00*24",
	  .outcome = "05/20/00" },
	{ "UNMAP, second range fails", .cdb = "42 00 00 00 00 00 00 00 28",
	  .out = "00 26 00 20 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*7 09 00 00 00 01 00*4",
	  .ops = "unmap 512+1024, unmap 4608+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 40, .outcome = "03/0c/00 info 9" },

	/* WRITE SAME */
	{ "WRITE SAME (10) of zeroes", .cdb = "41 00 00 00 00 01 00 00 02",
	  .out = "00*512", .ops = "zero 512+1024", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (10) of zeroes, UNMAP",
	  .cdb = "41 08 00 00 00 01 00 00 02", .out = "00*512",
	  .ops = "zero 512+1024 may-unmap", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (16) of a pattern", .cdb = "93 00 00*7 01 00 00 00 02",
	  .out = "aa bb*511", .ops = "write 512+1024", .wanted_out = 512,
	  .lba = 0, .after = "01*512 aa bb*511 aa bb*511 04*512" },
	{ "WRITE SAME of a pattern, UNMAP", .cdb = "93 08 00*7 01 00 00 00 01",
	  .out = "00*511 01", .ops = "write 512+512", .wanted_out = 512,
	  .lba = 1, .after = "00*511 01 03*512" },
	{ "WRITE SAME of a pattern, in pieces", .cdb = "93 00 00*8 00 00 02 01",
	  .out = "aa*512", .ops = "write 0+262144, write 262144+512",
	  .wanted_out = 512, .lba = 511, .after = "aa*1024 02*512" },
	{ "WRITE SAME of a pattern, second piece fails",
	  .cdb = "93 00 00*8 00 00 02 01", .out = "aa*512",
	  .ops = "write 0+262144, write 262144+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 512, .outcome = "03/0c/00 info 512",
	  .lba = 511, .after = "aa*512 01*512" },
	{ "WRITE SAME in place", .store = MEMORY,
	  .cdb = "93 00 00*7 01 00 00 00 02", .out = "aa bb*511",
	  .wanted_out = 512, .lba = 0,
	  .after = "01*512 aa bb*511 aa bb*511 04*512" },
	{ "WRITE SAME (16), NDOB", .cdb = "93 01 00*7 01 00 00 00 02",
	  .ops = "zero 512+1024", .lba = 0, .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (16), NDOB, UNMAP", .cdb = "93 09 00*7 01 00 00 00 02",
	  .ops = "zero 512+1024 may-unmap" },
	{ "WRITE SAME of zeroes where they must be written", .store = PLAIN,
	  .cdb = "41 00 00 00 00 01 00 00 02", .out = "00*512",
	  .ops = "write 512+1024", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME, NDOB, where zeroes must be written", .store = PLAIN,
	  .cdb = "93 01 00*7 01 00 00 00 02", .ops = "write 512+1024", .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME of 0 blocks is to the end", .cdb = "41 00 00 00 3f fe",
	  .out = "00*512", .ops = "zero 8387584+1024", .wanted_out = 512 },
	{ "WRITE SAME without data-out", .cdb = "41 00 00*6 01",
	  .wanted_out = 512, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE SAME, UNMAP, where nothing is thin", .store = PLAIN,
	  .cdb = "41 08 00*6 01", .out = "00*512",
	  .outcome = "05/24/00 CDB 1.3" },
	{ "WRITE SAME with ANCHOR", .cdb = "41 10 00*6 01", .out = "00*512",
	  .outcome = "05/24/00 CDB 1.4" },
	{ "WRITE SAME past the end", .cdb = "41 00 00 00 3f ff 00 00 02",
	  .out = "00*512", .outcome = "05/21/00 info 16384" },
	{ "WRITE SAME, write-protected", .store = READ_ONLY,
	  .cdb = "41 00 00*6 01", .out = "00*512", .outcome = "07/27/00" },

	/* GET LBA STATUS: 8 blocks mapped, 8 not, and so on */
	{ "GET LBA STATUS, one range", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 24, .ops = "extent 1024+8387584",
	  .in = "00 00 00 14 00*4 00*7 02 00 00 00 06 00*4", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS, two ranges", .cdb = "9e 12 00*7 02 00 00 00 28",
	  .in_len = 40, .ops = "extent 1024+8387584, extent 4096+8384512",
	  .in = "00 00 00 24 00*4 00*7 02 00 00 00 06 00*4 "
		"00*7 08 00 00 00 08 01 00*3",
	  .in_cnt = 40, .wanted_in = 40 },
	{ "GET LBA STATUS, header only", .cdb = "9e 12 00*8 00 00 00 08",
	  .in_len = 8, .ops = "extent 0+8388608", .in = "00 00 00 14 00*4",
	  .in_cnt = 8, .wanted_in = 8 },
	{ "GET LBA STATUS of the last block",
	  .cdb = "9e 12 00*6 3f ff 00 00 01 00", .in_len = 256,
	  .ops = "extent 8388096+512",
	  .in = "00 00 00 14 00*4 00*6 3f ff 00 00 00 01 01 00*3", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS that the store cannot tell", .store = MEMORY,
	  .cdb = "9e 12 00*7 02 00 00 01 00", .in_len = 256,
	  .in = "00 00 00 14 00*4 00*7 02 00 00 3f fe 00 00*3", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS, smaller buffer", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 10, .ops = "extent 1024+8387584", .in = "00 00 00 14",
	  .in_cnt = 10, .wanted_in = 24 },
	{ "GET LBA STATUS behind the end",
	  .cdb = "9e 12 00*6 40 00 00 00 01 00", .in_len = 256,
	  .outcome = "05/21/00 info 16384" },
	{ "GET LBA STATUS that fails", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 24, .ops = "extent 1024+8387584", .fail_at = 1,
	  .fail_with = -EIO, .outcome = "03/11/00 info 2" },
};

static void check_store(const struct row *row)
{
	uint8_t *is = malloc((size_t)BLOCKS * BLOCK);
	struct t_bytes after = t_bytes(row->after ? row->after : "");

	assert_non_null(is);
	if (row->after) {
		assert_memory_equal(t_backend.store + row->lba * BLOCK, after.p,
				    after.len);
	} else if (!row->ops) {
		memcpy(is, t_backend.store, (size_t)BLOCKS * BLOCK);
		fill_store();
		assert_memory_equal(is, t_backend.store,
				    (size_t)BLOCKS * BLOCK);
	}
	free(after.p);
	free(is);
}

static void check_data_in(const struct row *row, const struct scsi_task *t)
{
	struct t_bytes in = t_bytes(row->in ? row->in : "");

	assert_int_equal(t->data_in_cnt, row->in_cnt);
	assert_true(in.len <= t->data_in_cnt);
	if (in.len)
		assert_memory_equal(t->buf, in.p, in.len);
	free(in.p);
}

static void run_row(const struct row *row, bool later)
{
	struct t_bytes out = t_bytes(row->out ? row->out : "");
	struct command c;

	start_disk(row->store);
	t_backend.later = later;
	t_backend.fail_at = row->fail_at;
	t_backend.fail_with = row->fail_with;
	t_backend.fail_progress = row->fail_progress;
	run_command(&c, row->cdb, row->lun, out.p, (uint32_t)out.len,
		    row->in_len);
	assert_string_equal(outcome(&c.task),
			    row->outcome ? row->outcome : "good");
	assert_string_equal(t_backend.log, row->ops ? row->ops : "");
	check_data_in(row, &c.task);
	assert_int_equal(c.task.wanted_in, row->wanted_in);
	assert_int_equal(c.task.wanted_out, row->wanted_out);
	check_store(row);
	free_command(&c);
	free(out.p);
	stop_disk();
}

static void command(void **state)
{
	run_row(*state, /* later= */ false);
	run_row(*state, /* later= */ true);
}

/* ---- more than a table says ---- */

static void miscompare_in_a_later_piece_has_its_offset(void **state)
{
	const uint32_t len = 513 * BLOCK;
	uint8_t *out = malloc(len);
	struct command c;

	start_disk(THIN);
	assert_non_null(out);
	memcpy(out, t_backend.store, len);
	out[len - 2] ^= 1;
	run_command(&c, "8f 02 00*8 00 00 02 01", 0, out, len, 0);
	assert_string_equal(outcome(&c.task), "0e/1d/00 info 262654");
	free_command(&c);
	free(out);
	stop_disk();
}

/* ---- unit attentions ---- */

static void expect(const char *cdb, int lun, const char *want)
{
	struct command c;

	run_command(&c, cdb, lun, NULL, 0, 252);
	assert_string_equal(outcome(&c.task), want);
	free_command(&c);
}

static void new_nexus_is_told_of_power_on_once(void **state)
{
	start_disk(THIN);
	scsi_nexus_init(&nexus, &luns);
	expect("00", 0, "06/29/01");
	expect("00", 0, "good");
	expect("00", OTHER_LUN, "06/29/01");
	expect("00", OTHER_LUN, "good");
	stop_disk();
}

static void attentions_come_once_each_in_their_order(void **state)
{
	start_disk(THIN);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUNS_CHANGED);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_CAPACITY_CHANGED);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_NEXUS_LOSS);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_MODE_CHANGED);
	expect("00", 0, "06/29/07");
	expect("00", 0, "06/29/03");
	expect("00", 0, "06/2a/09");
	expect("00", 0, "06/2a/01");
	expect("00", 0, "06/3f/0e");
	expect("00", 0, "good");
	expect("00", OTHER_LUN, "good");
	stop_disk();
}

static void attention_for_all_luns(void **state)
{
	start_disk(THIN);
	scsi_nexus_attention(&nexus, -1, SCSI_UA_LUN_RESET);
	expect("00", OTHER_LUN, "06/29/03");
	expect("00", 0, "06/29/03");
	stop_disk();
}

static void inquiry_and_report_luns_pass_an_attention(void **state)
{
	start_disk(THIN);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	expect("12 00 00 00 24", 0, "good");
	expect("a0 00 00 00 00 00 00 00 00 fc", 0, "good");
	expect("00", 0, "06/29/03");
	stop_disk();
}

static void report_luns_answers_a_change_of_luns(void **state)
{
	start_disk(THIN);
	scsi_nexus_attention(&nexus, -1, SCSI_UA_LUNS_CHANGED);
	expect("a0 00 00 00 00 00 00 00 00 fc", 0, "good");
	expect("00", 0, "good");
	expect("00", OTHER_LUN, "good");
	stop_disk();
}

static void request_sense_brings_the_attention(void **state)
{
	struct command c;

	start_disk(THIN);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	run_command(&c, "03 00 00 00 12", 0, NULL, 0, 18);
	assert_string_equal(outcome(&c.task), "good");
	t_assert_bytes(c.task.buf, 18, "70 00 06 00*4 0a 00*4 29 03 00*4");
	free_command(&c);
	expect("00", 0, "good");
	stop_disk();
}

static void attention_comes_before_any_other_refusal(void **state)
{
	start_disk(THIN);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_CAPACITY_CHANGED);
	expect("ff", 0, "06/29/03");
	expect("28 00 ff ff ff ff 00 00 01", 0, "06/2a/09");
	expect("ff", 0, "05/20/00");
	stop_disk();
}

static void write_that_meets_an_attention_writes_nothing(void **state)
{
	struct t_bytes out = t_bytes("aa*512");
	struct command c;

	start_disk(MEMORY);
	scsi_nexus_attention(&nexus, 0, SCSI_UA_LUN_RESET);
	run_command(&c, "2a 00 00*6 01", 0, out.p, 512, 0);
	assert_string_equal(outcome(&c.task), "06/29/03");
	assert_false(c.executed);
	assert_int_equal(t_backend.store[0], 1);
	free_command(&c);
	free(out.p);
	stop_disk();
}

/* ---- the table ---- */

/* Whatever the command table lists has a handler: none crashes, none hangs,
 * and none is an unknown command after all. */
static void every_listed_command_is_handled(void **state)
{
	static uint8_t out[VOLUME_MAX_TRANSFER];
	struct command c;

	start_disk(THIN);
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];
		int action = info->service_action;
		char cdb[16];

		snprintf(cdb, sizeof(cdb), "%02x %02x", info->opcode,
			 action < 0 ? 0 : action);
		run_command(&c, cdb, 0, out, sizeof(out), 0);
		assert_string_not_equal(outcome(&c.task), "05/20/00");
		free_command(&c);
	}
	stop_disk();
}

/* The full list must fit one answer, whatever is added to it. */
static void all_operation_codes_fit_one_answer(void **state)
{
	struct command c;

	start_disk(THIN);
	run_command(&c, "a3 0c 80 00 00 00 00 01 00 00", 0, NULL, 0, 65536);
	assert_string_equal(outcome(&c.task), "good");
	assert_int_equal(c.task.wanted_in, c.task.data_in_cnt);
	assert_int_equal(c.task.data_in_cnt, 4 + 20 * scsi_cdb_table_cnt);
	free_command(&c);
	stop_disk();
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, rows, command);
	T_ADD(&t, miscompare_in_a_later_piece_has_its_offset);
	T_ADD(&t, new_nexus_is_told_of_power_on_once);
	T_ADD(&t, attentions_come_once_each_in_their_order);
	T_ADD(&t, attention_for_all_luns);
	T_ADD(&t, inquiry_and_report_luns_pass_an_attention);
	T_ADD(&t, report_luns_answers_a_change_of_luns);
	T_ADD(&t, request_sense_brings_the_attention);
	T_ADD(&t, attention_comes_before_any_other_refusal);
	T_ADD(&t, write_that_meets_an_attention_writes_nothing);
	T_ADD(&t, every_listed_command_is_handled);
	T_ADD(&t, all_operation_codes_fit_one_answer);
	return t_run(&t);
}
