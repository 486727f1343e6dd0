/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EXTENDED COPY, and the commands that report on it. A row is a parameter list
 * that copies blocks 1 and 2 of LUN 0 to blocks 8 and 9 of LUN 7, with some of
 * its bytes changed. LUN 0 is a store that logs its requests, LUN 7 is memory
 * of 64 blocks, and LUN 9 is a volume that this nexus does not see.
 */
#include "tests/lib/t_disk.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/t_bytes.h"

#define RAM_LUN	   7
#define UNSEEN_LUN 9
#define LIST_LEN   (16 + 2 * 32 + 28)
#define SEGMENT	   (16 + 2 * 32)

static struct volume *unseen;

static struct volume *open_ram(unsigned int lun, const char *size)
{
	struct volume_spec spec = { .type = &backend_ram,
				    .block_size = T_BLOCK };

	snprintf(spec.path, sizeof(spec.path), "%s", size);
	return t_disk_add(&spec, lun);
}

static void start(enum t_disk_store store)
{
	t_disk_start(store);
	open_ram(RAM_LUN, "32k");
	unseen = open_ram(UNSEEN_LUN, "32k");
	t_disk.luns.vol[UNSEEN_LUN] = NULL;
}

static void stop(void)
{
	t_disk.luns.vol[UNSEEN_LUN] = unseen;
	t_disk_remove(UNSEEN_LUN);
	t_disk_remove(RAM_LUN);
	t_disk_stop();
}

static void put_target(uint8_t *d, const struct volume *vol)
{
	d[0] = 0xe4;
	d[4] = 1; /* binary */
	d[5] = 3; /* NAA, of the logical unit */
	d[7] = SCSI_NAA_LEN;
	memcpy(d + 8, vol->info.naa, SCSI_NAA_LEN);
	d[30] = 2; /* 512 */
}

static void make_list(uint8_t *b)
{
	memset(b, 0, LIST_LEN);
	b[0] = 5; /* LIST IDENTIFIER */
	b[3] = 2 * 32;
	b[11] = 28;
	put_target(b + 16, t_disk.luns.vol[0]);
	put_target(b + 48, t_disk.luns.vol[RAM_LUN]);
	b[SEGMENT] = 0x02;
	b[SEGMENT + 3] = 24;
	b[SEGMENT + 7] = 1;
	b[SEGMENT + 11] = 2;
	b[SEGMENT + 19] = 1;
	b[SEGMENT + 27] = 8;
}

struct copy_row {
	const char *name;
	enum t_disk_store store;
	struct {
		uint8_t at;
		uint8_t is;
	} change[4];	 /* ends at an entry at 0, the list identifier */
	const char *cdb; /* NULL: the unchanged list */
	bool unseen;	 /* the first target is the unseen volume */
	unsigned int fail_at;
	const char *outcome; /* NULL: "good" */
	const char *ops;
	const char *ram;   /* block 8 of LUN 7 afterwards; NULL: unchanged */
	const char *after; /* block 0 of LUN 0 afterwards; NULL: unchanged */
};

#define OUT_OF_STORE "read 512+1024"

static const struct copy_row rows[] = {
	{ "from store to memory", .ops = OUT_OF_STORE, .ram = "02*512 03*512" },
	{ "from memory to store",
	  .change = { { SEGMENT + 5, 1 },
		      { SEGMENT + 7, 0 },
		      { SEGMENT + 19, 8 },
		      { SEGMENT + 27, 0 } },
	  .ops = "write 0+1024", .after = "00*1024 03*512" },
	{ "from memory to memory", .store = T_MEMORY, .ram = "02*512 03*512" },
	{ "within a store",
	  .change = { { SEGMENT + 7, 0 }, { SEGMENT + 27, 0 } },
	  .ops = "read 512+1024, write 0+1024",
	  .after = "02*512 03*512 03*512" },
	{ "to this logical unit",
	  .change = { { SEGMENT + 6, 0xff },
		      { SEGMENT + 7, 0xff },
		      { SEGMENT + 27, 0 } },
	  .ops = "read 512+1024, write 0+1024",
	  .after = "02*512 03*512 03*512" },
	{ "count of destination blocks", .change = { { SEGMENT + 1, 2 } },
	  .ops = OUT_OF_STORE, .ram = "02*512 03*512" },
	{ "of no blocks", .change = { { SEGMENT + 11, 0 } } },
	{ "no segment", .change = { { 11, 0 } } },
	{ "no list", .cdb = "83" },
	{ "in pieces",
	  .change = { { SEGMENT + 7, 0 },
		      { SEGMENT + 10, 2 },
		      { SEGMENT + 11, 1 },
		      { SEGMENT + 26, 8 } },
	  .ops = "read 512+262144, write 1052672+262144, "
		 "read 262656+512, write 1314816+512" },

	/* which volumes may be named */
	{ "volume that the nexus does not see", .unseen = true,
	  .outcome = "0a/0d/02" },
	{ "identifier of nobody", .change = { { 16 + 23, 0x5a } },
	  .outcome = "0a/0d/02" },
	{ "designator of another type", .change = { { 16 + 5, 1 } },
	  .outcome = "0a/0d/02" },
	{ "designator of a port", .change = { { 16 + 5, 0x13 } },
	  .outcome = "0a/0d/02" },
	{ "designator cut short", .change = { { 16 + 7, 8 } },
	  .outcome = "0a/0d/02" },
	{ "tape", .change = { { 48 + 1, 1 } }, .outcome = "0a/0d/02" },
	{ "null target", .change = { { 48 + 1, 0x20 } },
	  .outcome = "05/26/00 data 49.5" },
	{ "an identification descriptor has no LU IDENTIFIER TYPE",
	  .change = { { 16 + 1, 0x40 }, { 48 + 1, 0xc0 } }, .ops = OUT_OF_STORE,
	  .ram = "02*512 03*512" },
	{ "another block size", .change = { { 48 + 30, 0x10 } },
	  .outcome = "05/26/00 data 77.7" },
	{ "descriptor by N_Port name", .change = { { 16, 0xe0 } },
	  .outcome = "05/26/07" },
	{ "source that is not in the list", .change = { { SEGMENT + 5, 2 } },
	  .outcome = "05/26/00 data 84.7" },
	{ "destination that is not in the list",
	  .change = { { SEGMENT + 6, 1 } }, .outcome = "05/26/00 data 86.7" },

	/* segments */
	{ "another type of segment", .change = { { SEGMENT, 0x00 } },
	  .outcome = "05/26/09" },
	{ "reserved bit of a segment", .change = { { SEGMENT + 1, 4 } },
	  .outcome = "05/26/00 data 81.7" },
	{ "length of a segment descriptor", .change = { { SEGMENT + 3, 23 } },
	  .outcome = "05/26/00 data 82.7" },
	{ "more than a segment may be", .change = { { SEGMENT + 10, 0x80 } },
	  .outcome = "05/26/00 data 90.7" },
	/* INFORMATION is the residue of a segment. No segment has begun. */
	{ "past the end of the source", .change = { { SEGMENT + 18, 0x40 } },
	  .outcome = "05/21/00" },
	{ "past the end of the destination", .change = { { SEGMENT + 27, 63 } },
	  .outcome = "05/21/00" },
	{ "address that wraps", .change = { { SEGMENT + 12, 0xff } },
	  .outcome = "05/21/00" },
	{ "write-protected destination", .store = T_READ_ONLY,
	  .change = { { SEGMENT + 5, 1 }, { SEGMENT + 7, 0 } },
	  .outcome = "07/27/00" },

	{ "write protection before the length of a segment",
	  .store = T_READ_ONLY,
	  .change = { { SEGMENT + 5, 1 },
		      { SEGMENT + 7, 0 },
		      { SEGMENT + 10, 0x80 } },
	  .outcome = "07/27/00" },

	/* header */
	{ "reserved bit of the header", .change = { { 1, 0x80 } },
	  .outcome = "05/26/00 data 1.7" },
	{ "striped", .change = { { 1, 0x20 } },
	  .outcome = "05/26/00 data 1.5" },
	{ "reserved use of the identifier", .change = { { 1, 0x08 } },
	  .outcome = "05/26/00 data 1.4" },
	{ "identifier that is not to be one", .change = { { 1, 0x18 } },
	  .outcome = "05/26/00 data 0.7" },
	{ "priority is a hint", .change = { { 1, 0x07 } }, .ops = OUT_OF_STORE,
	  .ram = "02*512 03*512" },
	{ "half a target descriptor", .change = { { 3, 33 } },
	  .outcome = "05/26/00 data 2.7" },
	{ "too many targets", .change = { { 2, 2 }, { 3, 32 } },
	  .outcome = "05/26/06" },
	{ "too many segments", .change = { { 9, 1 } }, .outcome = "05/26/08" },
	{ "half a segment descriptor", .change = { { 11, 27 } },
	  .outcome = "05/26/09" },
	{ "inline data", .change = { { 15, 1 } }, .outcome = "05/26/0b" },
	{ "descriptors past the end of the list", .change = { { 11, 56 } },
	  .outcome = "05/1a/00" },
	{ "list shorter than its header", .cdb = "83 00*12 0f",
	  .outcome = "05/1a/00" },
	{ "list longer than any can be", .cdb = "83 00*9 00 00 80 00",
	  .outcome = "05/1a/00" },
	{ "data-out shorter than the list", .cdb = "83 00*9 00 10 00 00",
	  .outcome = "05/24/00 CDB 10.7" },

	/* errors */
	{ "source cannot be read", .fail_at = 1, .ops = OUT_OF_STORE,
	  .outcome = "0a/0d/01" },
	{ "destination cannot be written",
	  .change = { { SEGMENT + 7, 0 }, { SEGMENT + 27, 0 } }, .fail_at = 2,
	  .ops = "read 512+1024, write 0+1024", .outcome = "0a/0d/01" },
};

static void change_list(const struct copy_row *row, uint8_t *b)
{
	if (row->unseen)
		put_target(b + 16, unseen);
	for (size_t i = 0; i < ARRAY_SIZE(row->change); i++) {
		if (row->change[i].at)
			b[row->change[i].at] = row->change[i].is;
	}
}

static void check(const uint8_t *got, const char *want, const char *untouched)
{
	struct t_bytes b = t_bytes(want ? want : untouched);

	assert_memory_equal(got, b.p, b.len);
	free(b.p);
}

static void run_copy(const struct copy_row *row, bool later)
{
	static uint8_t list[65536];
	struct t_command c;
	const uint8_t *ram;

	start(row->store);
	t_store.hold = later;
	t_store.fail_at = row->fail_at;
	t_store.fail_with = -EIO;
	make_list(list);
	change_list(row, list);
	t_command_run(&c, row->cdb ? row->cdb : "83 00*12 6c", 0, list,
		      row->cdb ? 32768 : LIST_LEN, 0);
	assert_string_equal(t_outcome(&c.task),
			    row->outcome ? row->outcome : "good");
	assert_string_equal(t_store.log, row->ops ? row->ops : "");
	ram = t_disk.luns.vol[RAM_LUN]->dev.backend->info.memory;
	check(ram + 8 * T_BLOCK, row->ram, "00*1024");
	check(t_store.bytes, row->after, "01*512 02*512 03*512");
	t_command_free(&c);
	stop();
}

T_ROWS(copy, rows)
{
	run_copy(*state, /* later= */ false);
	run_copy(*state, /* later= */ true);
}

/* ---- results ---- */

static void expect_status(const char *cdb, const char *outcome, const char *in)
{
	struct t_command c;
	struct t_bytes b = t_bytes(in);

	t_command_run(&c, cdb, 0, NULL, 0, 252);
	assert_string_equal(t_outcome(&c.task), outcome);
	assert_int_equal(c.task.data_in_cnt, b.len);
	if (b.len)
		assert_memory_equal(c.task.buf, b.p, b.len);
	t_command_free(&c);
	free(b.p);
}

static void send_list(uint8_t *list)
{
	struct t_command c;

	t_command_run(&c, "83 00*12 6c", 0, list, LIST_LEN, 0);
	t_command_free(&c);
}

T_TEST(status_of_copies)
{
	uint8_t list[LIST_LEN];

	start(T_THIN);
	expect_status("84 00 05 00*10 fc", "05/24/00 CDB 2.7", "");
	make_list(list);
	send_list(list);
	expect_status("84 00 05 00*10 fc", "good",
		      "00 00 00 08 01 00 01 01 00 00 00 01");
	expect_status("84 00 05 00*10 04", "good", "00 00 00 08");
	expect_status("84 00 06 00*10 fc", "05/24/00 CDB 2.7", "");
	t_store.fail_at = 2;
	t_store.fail_with = -EIO;
	send_list(list);
	expect_status("84 00 05 00*10 fc", "good",
		      "00 00 00 08 02 00 00 01 00 00 00 00");
	list[0] = 6;
	list[1] = 0x10; /* discard */
	send_list(list);
	expect_status("84 00 06 00*10 fc", "05/24/00 CDB 2.7", "");
	stop();
}

static void lose_nexus(void)
{
	scsi_nexus_lost(&t_disk.nexus);
}

static void reset_lun(unsigned int lun)
{
	struct volume *vol = t_disk.luns.vol[lun];

	scsi_attention_others(&t_disk.luns, vol, /* except= */ NULL,
			      SCSI_UA_LUN_RESET);
	scsi_reset_finish(&t_disk.luns, vol, &t_disk.worker);
}

static void reset_unit(void)
{
	reset_lun(0);
}

static void reset_other_unit(void)
{
	reset_lun(RAM_LUN);
}

/* Another volume gets the LUN. */
static void lose_volume(void)
{
	scsi_nexus_gain(&t_disk.nexus, 0);
}

static const struct forget_row {
	const char *name;
	void (*event)(void);
	bool is_kept;
} forget_rows[] = {
	{ "LUN RESET", reset_unit },
	{ "LUN RESET of another unit", reset_other_unit, .is_kept = true },
	{ "loss of the nexus", lose_nexus },
	{ "another volume", lose_volume },
};

/* Until when a result is held; see struct scsi_nexus. */
T_ROWS(result_of_a_copy_is_kept_until, forget_rows)
{
	const struct forget_row *row = *state;
	uint8_t list[LIST_LEN];

	start(T_THIN);
	make_list(list);
	send_list(list);
	row->event();
	atomic_store(&t_disk.nexus.ua[0], 0);
	if (row->is_kept)
		expect_status("84 00 05 00*10 fc", "good",
			      "00 00 00 08 01 00 01 01 00 00 00 01");
	else
		expect_status("84 00 05 00*10 fc", "05/24/00 CDB 2.7", "");
	stop();
}

T_TEST(operating_parameters)
{
	start(T_THIN);
	expect_status("84 03 00 00*10 fc", "good",
		      "00 00 00 2a 01 00 00 00 00 10 00 20 00 00 05 80 "
		      "00 40 00 00 00*8 00*6 00 ff ff 09 00 00 00 00 00 02 "
		      "02 e4");
	expect_status("84 01 00 00*10 fc", "05/24/00 CDB 1.4", "");
	stop();
}

/* The first of these stores has no FUA. */
T_TEST(copy_without_a_write_cache_is_stable)
{
	static const struct {
		enum t_disk_store store;
		const char *ops;
	} stores[] = {
		{ T_PLAIN, "read 512+1024, write 0+1024, flush" },
		{ T_THIN, "read 512+1024, write 0+1024 fua" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		const uint8_t modes[24] = { [4] = 0x08, 0x12 };
		uint8_t list[LIST_LEN];
		struct t_command c;

		start(stores[i].store);
		t_command_run(&c, "15 10 00 00 18", 0, modes, sizeof(modes), 0);
		assert_string_equal(t_outcome(&c.task), "good");
		t_command_free(&c);
		t_store.log[0] = '\0';
		make_list(list);
		list[SEGMENT + 7] = 0;
		list[SEGMENT + 27] = 0;
		send_list(list);
		assert_string_equal(t_store.log, stores[i].ops);
		stop();
	}
}

T_TEST(copy_finds_a_volume_that_is_being_formatted)
{
	uint8_t list[LIST_LEN];
	struct t_command c;

	start(T_THIN);
	make_list(list);
	t_command_run(&c, "04 10", RAM_LUN, (const uint8_t *)"\0\2\0\0", 4, 0);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	t_command_run(&c, "83 00*12 6c", 0, list, LIST_LEN, 0);
	assert_string_equal(t_outcome(&c.task), "0a/0d/02");
	t_command_free(&c);
	while (t_disk_turn())
		;
	stop();
}

/* ---- changes in the middle of a copy ---- */

/* So many blocks take two pieces. */
#define TWO_PIECES 0x0201

enum change {
	NOTHING,
	RESERVE, /* by another nexus */
	EXCLUSIVE_ACCESS,
	WRITE_PROTECT,
	EJECT,
	FORMAT,
};

static const struct change_row {
	const char *name;
	enum change change;
	const char *outcome; /* after the change */
	unsigned int pieces; /* "read, write" pairs that the store got */
	bool at_write;	     /* the change comes while the first piece is
			      * written */
} change_rows[] = {
	{ "nothing", NOTHING, "good", 2 },
	{ "write exclusive", RESERVE, "0a/0d/01", 0 },
	{ "write exclusive, second piece", RESERVE, "0a/0d/01", 1, true },
	{ "exclusive access", EXCLUSIVE_ACCESS, "0a/0d/01", 0 },
	{ "write protection", WRITE_PROTECT, "0a/0d/01", 0 },
	{ "write protection, second piece", WRITE_PROTECT, "0a/0d/01", 1,
	  true },
	{ "ejected", EJECT, "0a/0d/02", 0 },
	{ "formatted", FORMAT, "0a/0d/02", 0 },
};

/* Another nexus reserves LUN 0. @type is the type of the reservation. */
static void reserve(const char *type)
{
	static const uint8_t registration[24] = { [15] = 7 };
	static const uint8_t reservation[24] = { [7] = 7 };
	struct t_command c;

	t_disk.from = t_nexus(2);
	t_command_run(&c, "5f 00 00*6 18", 0, registration, 24, 0);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	t_command_run(&c, type, 0, reservation, 24, 0);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	t_disk.from = t_nexus(1);
}

static struct t_command format;

static void make_change(enum change change)
{
	struct volume *vol = t_disk.luns.vol[0];

	switch (change) {
	case NOTHING:
		return;
	case RESERVE:
		reserve("5f 01 01 00*5 18");
		return;
	case EXCLUSIVE_ACCESS:
		reserve("5f 01 03 00*5 18");
		return;
	case WRITE_PROTECT:
		vol->info.swp = true;
		return;
	case EJECT:
		vol->state.medium = UNIT_MEDIUM_OUT;
		return;
	case FORMAT:
		t_command_start(&format, "04", 0, NULL, 0, 0);
		return;
	}
}

/* Copies from LUN 0 to LUN 0 in two pieces. Each piece is a read and a
 * write. */
T_ROWS(copy_looks_again_before_each_piece, change_rows)
{
	const struct change_row *row = *state;
	uint8_t list[LIST_LEN];
	struct t_command c;

	start(T_REMOVABLE);
	memset(&format, 0, sizeof(format));
	make_list(list);
	list[SEGMENT + 7] = 0;
	list[SEGMENT + 10] = TWO_PIECES >> 8;
	list[SEGMENT + 11] = TWO_PIECES & 0xff;
	list[SEGMENT + 26] = 8;
	t_store.hold = true;
	t_command_start(&c, "83 00*12 6c", 0, list, LIST_LEN, 0);
	if (row->at_write)
		assert_true(t_store_answer());
	make_change(row->change);
	t_store_answer();
	while (!c.done)
		assert_true(t_disk_turn());
	assert_string_equal(t_outcome(&c.task), row->outcome);
	assert_int_equal(t_store.bytes[(0x808 + 512) * T_BLOCK],
			 row->pieces == 2 ? 2 : 0x09);
	assert_int_equal(t_store.bytes[0x808 * T_BLOCK],
			 row->pieces ? 2 : 0x09);
	t_command_free(&c);
	while (t_disk_turn())
		;
	stop();
}

/* Memory answers at once, so nothing interrupts the copy. Without a pause, a
 * task management function would wait for the whole copy. */
T_TEST(copy_of_memory_gives_others_a_turn)
{
	uint8_t list[LIST_LEN];
	struct t_command c;

	start(T_MEMORY);
	make_list(list);
	t_command_start(&c, "83 00*12 6c", 0, list, LIST_LEN, 0);
	assert_int_equal(c.done, 0);
	scsi_task_cancel(&c.task);
	while (!c.done)
		assert_true(t_disk_turn());
	check((uint8_t *)t_disk.luns.vol[RAM_LUN]->dev.backend->info.memory +
		      8 * T_BLOCK,
	      NULL, "00*1024");
	t_command_free(&c);
	expect_status("84 00 05 00*10 fc", "good",
		      "00 00 00 08 02 00 00 01 00 00 00 00");
	stop();
}
