/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk at its limits: volumes up to 8 EiB, addresses of more than 32 bits,
 * both block sizes, all LUNs. A row is a command on LUN 1.
 */
#include "tests/lib/t_disk.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/t_bytes.h"

struct row {
	const char *name;
	const char *size; /* of a null volume */
	uint32_t block_size;
	const char *cdb;
	const char *out;
	uint32_t in_len;
	const char *outcome; /* NULL: "good" */
	const char *in;	     /* the first bytes of data-in */
	uint32_t in_cnt;
};

/* The last block of the largest volume, 8 EiB minus one block: 2^54 - 2 of 512
 * bytes, 2^51 - 2 of 4096. */
#define LAST_512  "00 3f ff ff ff ff ff fe"
#define END_512	  "00 3f ff ff ff ff ff ff"
#define LAST_4096 "00 07 ff ff ff ff ff fe"
#define END_4096  "00 07 ff ff ff ff ff ff"

static const struct row rows[] = {
	{ "READ CAPACITY (16)", "8E", 512, "9e 10 00*11 20", .in_len = 32,
	  .in = LAST_512 " 00 00 02 00", .in_cnt = 32 },
	{ "READ CAPACITY (16), blocks of 4096", "8E", 4096, "9e 10 00*11 20",
	  .in_len = 32, .in = LAST_4096 " 00 00 10 00", .in_cnt = 32 },
	{ "READ CAPACITY (10) tells to use (16)", "8E", 512, "25", .in_len = 8,
	  .in = "ff ff ff ff 00 00 02 00", .in_cnt = 8 },
	{ "READ CAPACITY (10) of just too much", "2T", 512, "25", .in_len = 8,
	  .in = "ff ff ff ff 00 00 02 00", .in_cnt = 8 },
	{ "READ (16) of the last block", "8E", 512,
	  "88 00 " LAST_512 " 00 00 00 01", .in_len = 512, .in_cnt = 512 },
	{ "READ (16) of the last block, of 4096", "8E", 4096,
	  "88 00 " LAST_4096 " 00 00 00 01", .in_len = 4096, .in_cnt = 4096 },
	{ "READ (16) across the end", "8E", 512,
	  "88 00 " LAST_512 " 00 00 00 02", .in_len = 1024,
	  .outcome = "05/21/00" },
	{ "READ (16) behind the end", "8E", 4096,
	  "88 00 " END_4096 " 00 00 00 01", .in_len = 4096,
	  .outcome = "05/21/00" },
	{ "WRITE (16) of the last block", "8E", 512,
	  "8a 00 " LAST_512 " 00 00 00 01", .out = "aa*512" },
	{ "WRITE (16) of the last block, of 4096", "8E", 4096,
	  "8a 00 " LAST_4096 " 00 00 00 01", .out = "aa*4096" },
	{ "WRITE (16) across the end", "8E", 4096,
	  "8a 00 " LAST_4096 " 00 00 00 02", .out = "aa*8192",
	  .outcome = "05/21/00" },
	{ "COMPARE AND WRITE of the last block", "8E", 512,
	  "89 00 " LAST_512 " 00 00 00 01", .out = "00*512 aa*512" },
	{ "VERIFY (16) of the last block", "8E", 512,
	  "8f 06 " LAST_512 " 00 00 00 01", .out = "00*512" },
	{ "WRITE SAME (16) to the end, in blocks left", "8E", 512,
	  "93 01 00 3f ff ff ff ff ff f0 00 00 00 00" },
	{ "WRITE SAME (16) to the end, too many", "8E", 512, "93 01",
	  .outcome = "05/24/00 CDB 10.7" },
	{ "UNMAP of the last block", "8E", 512, "42 00*6 00 18",
	  .out = "00 16 00 10 00*4 " LAST_512 " 00 00 00 01 00*4" },
	{ "UNMAP behind the end", "8E", 512, "42 00*6 00 18",
	  .out = "00 16 00 10 00*4 " END_512 " 00 00 00 01 00*4",
	  .outcome = "05/21/00" },
	{ "GET LBA STATUS of the last block", "8E", 512,
	  "9e 12 " LAST_512 " 00 00 00 18", .in_len = 24,
	  .in = "00 00 00 14 00*4 " LAST_512 " 00 00 00 01 01", .in_cnt = 24 },
	{ "GET LBA STATUS names what 32 bits can count", "8E", 512,
	  "9e 12 00*8 00 00 00 18", .in_len = 24,
	  .in = "00 00 00 14 00*4 00*8 ff ff ff ff 01", .in_cnt = 24 },
	{ "SYNCHRONIZE CACHE (16) to the end", "8E", 512, "91" },
	{ "PRE-FETCH (16) of more than fits", "8E", 512, "90" },
};

T_ROWS(on_null, rows)
{
	const struct row *row = *state;
	struct volume_spec spec = { .type = &backend_null,
				    .block_size = row->block_size };
	struct t_bytes out = t_bytes(row->out ? row->out : "");
	struct t_bytes in = t_bytes(row->in ? row->in : "");
	struct t_command c;

	t_disk_start(T_THIN);
	snprintf(spec.path, sizeof(spec.path), "%s", row->size);
	t_disk_add(&spec, 1);
	t_command_run(&c, row->cdb, 1, out.p, (uint32_t)out.len, row->in_len);
	assert_string_equal(t_outcome(&c.task),
			    row->outcome ? row->outcome : "good");
	assert_int_equal(c.task.data_in_cnt, row->in_cnt);
	if (in.len)
		assert_memory_equal(c.task.buf, in.p, in.len);
	t_command_free(&c);
	t_disk_remove(1);
	t_disk_stop();
	free(out.p);
	free(in.p);
}

/* ---- a sparse file ---- */

static void expect(const char *cdb, const char *out, uint32_t in_len,
		   const char *in)
{
	struct t_bytes o = t_bytes(out);
	struct t_bytes i = t_bytes(in);
	struct t_command c;

	t_command_run(&c, cdb, 1, o.p, (uint32_t)o.len, in_len);
	assert_string_equal(t_outcome(&c.task), "good");
	if (i.len)
		assert_memory_equal(c.task.buf, i.p, i.len);
	t_command_free(&c);
	free(o.p);
	free(i.p);
}

/* Starts LUN 1 on a file of as many blocks as 33 bits count: the last one is
 * 1_3fff_ffff. That is 20 TiB of 4096, or 2.5 TiB of 512. Returns the file. */
#define LAST_33 "00 00 00 01 3f ff ff ff"
#define CNT_33	0x140000000ll

static int start_on_sparse_file(uint32_t block_size)
{
	struct volume_spec spec = { .type = &backend_file,
				    .block_size = block_size };
	int fd = memfd_create("sparse", 0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, CNT_33 * block_size), 0);
	snprintf(spec.path, sizeof(spec.path), "/proc/self/fd/%d", fd);
	t_disk_start(T_THIN);
	t_disk_add(&spec, 1);
	return fd;
}

static void stop_on_sparse_file(int fd)
{
	t_disk_remove(1);
	t_disk_stop();
	close(fd);
}

T_TEST(sparse_file_of_20_tib)
{
	int fd = start_on_sparse_file(4096);

	expect("9e 10 00*11 20", "", 32, LAST_33 " 00 00 10 00");
	expect("8a 00 " LAST_33 " 00 00 00 01", "5a*4096", 0, "");
	expect("88 00 " LAST_33 " 00 00 00 01", "", 4096, "5a*4096");
	expect("9e 12 " LAST_33 " 00 00 00 18", "", 24,
	       "00 00 00 14 00*4 " LAST_33 " 00 00 00 01 00");
	expect("9e 12 00 00 00 01 3f ff ff fe 00 00 00 18", "", 24,
	       "00 00 00 14 00*4 00 00 00 01 3f ff ff fe 00 00 00 01 01");
	expect("89 00 " LAST_33 " 00 00 00 01", "5a*4096 a5*4096", 0, "");
	expect("93 09 " LAST_33 " 00 00 00 01", "", 0, "");
	expect("9e 12 " LAST_33 " 00 00 00 18", "", 24,
	       "00 00 00 14 00*4 " LAST_33 " 00 00 00 01 01");
	expect("88 00 " LAST_33 " 00 00 00 01", "", 4096, "00*4096");
	stop_on_sparse_file(fd);
}

/* Each goes over all bytes in pieces of some MiB: blocks of 512 make that an
 * eighth of the work. */
T_TEST(sparse_file_is_erased_to_its_end)
{
	static const char *const erase[] = { "48 02", "04" };
	int fd = start_on_sparse_file(512);

	for (unsigned int i = 0; i < 2; i++) {
		expect("8a 00 " LAST_33 " 00 00 00 01", "5a*512", 0, "");
		expect(erase[i], "", 0, "");
		expect("88 00 " LAST_33 " 00 00 00 01", "", 512, "00*512");
	}
	stop_on_sparse_file(fd);
}

/* ---- LUNs ---- */

T_TEST(all_luns_are_there)
{
	struct t_command c;

	t_disk_start(T_THIN);
	for (unsigned int i = 0; i < LUNS_MAX; i++)
		t_disk.luns.vol[i] = t_disk.luns.vol[0];
	t_command_run(&c, "a0 00 00 00 00 00 00 00 10 00", 0, NULL, 0, 4096);
	assert_string_equal(t_outcome(&c.task), "good");
	assert_int_equal(c.task.data_in_cnt, 8 + 8 * LUNS_MAX);
	t_assert_bytes(c.task.buf, 4, "00 00 08 00");
	t_assert_bytes(c.task.buf + 8 + 8 * 255, 8, "00 ff 00*6");
	t_command_free(&c);
	for (int i = 0; i < LUNS_MAX; i++) {
		t_command_run(&c, "00", i, NULL, 0, 0);
		assert_string_equal(t_outcome(&c.task), "good");
		t_command_free(&c);
	}
	t_command_run(&c, "00", LUNS_MAX, NULL, 0, 0);
	assert_string_equal(t_outcome(&c.task), "05/25/00");
	t_command_free(&c);
	t_disk_stop();
}
