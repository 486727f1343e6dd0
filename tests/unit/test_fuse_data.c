/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/answer.h"
#include "fuse/slots.h"
#include "tests/lib/t_table.h"
#include "tests/unit/test_fuse_rig.h"

/* The data that no test writes: every byte depends on its position. */
static uint8_t pattern(uint64_t pos)
{
	return (uint8_t)(1 + pos % 251);
}

static void fill(struct rig *r)
{
	for (uint64_t i = 0; i < RIG_SIZE; i++)
		r->target->disk[i] = pattern(i);
	memset(r->target->mapped, 1, RIG_SIZE / r->target->info.block_size);
}

static struct rig *rig_filled(void)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	fill(r);
	return r;
}

/* Expects the disk as it was filled, except for @byte in a range. */
static void assert_disk(const struct rig *r, uint64_t offset, uint64_t len,
			uint8_t byte)
{
	for (uint64_t i = 0; i < RIG_SIZE; i++) {
		bool in = i >= offset && i - offset < len;

		if (r->target->disk[i] != (in ? byte : pattern(i)))
			fail_msg("byte %llu is wrong", (unsigned long long)i);
	}
}

static const uint8_t *payload(void)
{
	static uint8_t buf[RIG_MAX_WRITE];

	memset(buf, 0xee, sizeof(buf));
	return buf;
}

/* ---- reads and writes: requests to the target ---- */

static const struct rw_row {
	const char *name;
	uint32_t block_size;
	uint64_t offset;
	uint32_t size;
	int err;
	uint32_t done; /* bytes */
	const char *log;
} read_rows[] = {
	{ "one block", 512, 512, 512, 0, 512, "R512@512" },
	{ "many blocks", 512, 4096, 65536, 0, 65536, "R65536@4096" },
	{ "as much as can be", 512, 0, RIG_MAX_WRITE, 0, RIG_MAX_WRITE,
	  "R131072@0" },
	{ "part of a block", 512, 700, 100, 0, 100, "R512@512" },
	{ "over a block's end", 512, 1000, 100, 0, 100, "R1024@512" },
	{ "one byte of a large block", 4096, 4095, 1, 0, 1, "R4096@0" },
	{ "odd ends of large blocks", 4096, 4095, 8195, 0, 8195, "R16384@0" },
	{ "up to the end", 512, RIG_SIZE - 100, 4096, 0, 100, "R512@1048064" },
	{ "at the end", 512, RIG_SIZE, 4096, 0, 0, "" },
	{ "beyond the end", 512, RIG_SIZE + 5000, 4096, 0, 0, "" },
	{ "far beyond the end", 512, UINT64_MAX - 10, 4096, 0, 0, "" },
	{ "nothing", 512, 512, 0, 0, 0, "" },
	{ "more than a slot holds", 512, 0, RIG_MAX_WRITE + 1, -EINVAL, 0, "" },
};

T_ROWS(reads, read_rows)
{
	const struct rw_row *row = *state;
	struct rig *r =
		rig_new(&(struct rig_options){ .block_size = row->block_size });

	fill(r);
	assert_int_equal(rig_read(r, row->offset, row->size), row->err);
	assert_int_equal(r->data_len, row->done);
	assert_string_equal(r->target->log, row->log);
	for (uint32_t i = 0; i < row->done; i++)
		assert_int_equal(r->data[i], pattern(row->offset + i));
	rig_free(r);
}

static const struct rw_row write_rows[] = {
	{ "one block", 512, 512, 512, 0, 512, "W512@512" },
	{ "many blocks", 512, 4096, 65536, 0, 65536, "W65536@4096" },
	{ "as much as can be", 512, 0, RIG_MAX_WRITE, 0, RIG_MAX_WRITE,
	  "W131072@0" },
	{ "part of a block", 512, 700, 100, 0, 100, "R512@512 W512@512" },
	{ "the begin of a block", 512, 512, 100, 0, 100, "R512@512 W512@512" },
	{ "the end of a block", 512, 924, 100, 0, 100, "R512@512 W512@512" },
	{ "over a block's end", 512, 1000, 100, 0, 100,
	  "R512@512 R512@1024 W1024@512" },
	{ "blocks and a bit before", 512, 511, 1025, 0, 1025,
	  "R512@0 W1536@0" },
	{ "blocks and a bit behind", 512, 512, 1025, 0, 1025,
	  "R512@1536 W1536@512" },
	{ "one byte of a large block", 4096, 4095, 1, 0, 1, "R4096@0 W4096@0" },
	{ "odd ends of large blocks", 4096, 4095, 8195, 0, 8195,
	  "R4096@0 R4096@12288 W16384@0" },
	{ "all of a slot, at an odd place", 4096, 1, RIG_MAX_WRITE, 0,
	  RIG_MAX_WRITE, "R4096@0 R4096@131072 W135168@0" },
	{ "what fits before the end", 512, RIG_SIZE - 100, 4096, 0, 100,
	  "R512@1048064 W512@1048064" },
	{ "at the end", 512, RIG_SIZE, 512, -EFBIG, 0, "" },
	{ "far beyond the end", 512, UINT64_MAX - 10, 512, -EFBIG, 0, "" },
	{ "nothing", 512, 512, 0, 0, 0, "" },
};

static uint32_t bytes_written(const struct rig *r)
{
	struct fuse_write_out out;

	if (r->out.error)
		return 0;
	assert_int_equal(r->data_len, sizeof(out));
	memcpy(&out, r->data, sizeof(out));
	return out.size;
}

T_ROWS(writes, write_rows)
{
	const struct rw_row *row = *state;
	struct rig *r =
		rig_new(&(struct rig_options){ .block_size = row->block_size });
	uint64_t fh = rig_open(r, O_RDWR);

	fill(r);
	assert_int_equal(rig_write(r, fh, row->offset, payload(), row->size),
			 row->err);
	assert_int_equal(bytes_written(r), row->done);
	assert_string_equal(r->target->log, row->log);
	assert_disk(r, row->offset, row->done, 0xee);
	rig_free(r);
}

/* ---- large answers ---- */

/* The kernel's threads that work for the rings of this process. */
static unsigned int helpers(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned int cnt = 0;
	struct dirent *d;

	assert_non_null(tasks);
	while ((d = readdir(tasks))) {
		char path[PATH_MAX];
		char name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 d->d_name);
		f = fopen(path, "r");
		if (f && fgets(name, sizeof(name), f))
			cnt += strncmp(name, "iou-wrk", 7) == 0;
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return cnt;
}

/* The kernel makes no thread for this process. Root may have any number. */
static void forbid_threads(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
	limit.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NPROC, &limit), 0);
	if (getuid() == 0)
		assert_int_equal(setresuid(65534, 65534, 0), 0);
}

static void allow_threads(void)
{
	struct rlimit limit;

	if (seteuid(0) == 0)
		assert_int_equal(setresuid(0, 0, 0), 0);
	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NPROC, &limit), 0);
}

/* Before other tests: a thread that the kernel has made waits for more work. */
T_TEST(without_a_thread_of_the_kernel_this_one_copies)
{
	struct rig *r = rig_filled();
	bool is_same;
	int answer;
	int read;

	dev_answers(r->dev)->handed_min = 65537;
	assert_int_equal(rig_read(r, 0, 65536), 0);
	forbid_threads();
	answer = rig_read(r, 512, RIG_MAX_WRITE);
	is_same = !memcmp(r->data, r->target->disk + 512, RIG_MAX_WRITE);
	r->large = true;
	read = rig_read(r, 0, 512);
	read |= rig_read(r, 0, 512);
	allow_threads();
	assert_int_equal(answer, 0);
	assert_true(is_same);
	assert_int_equal(read, 0);
	assert_int_equal(helpers(), 0);
	rig_free(r);
}

static bool kernel_copies(void)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	bool good;

	fill(r);
	dev_answers(r->dev)->handed_min = 65537;
	good = !rig_read(r, 0, 65536) && !rig_read(r, 512, RIG_MAX_WRITE) &&
	       helpers() > 0 &&
	       !memcmp(r->data, r->target->disk + 512, RIG_MAX_WRITE);
	rig_free(r);
	return good;
}

/* In a process of its own: in this one, threads may be left that the rings of tests before
 * have needed on a busy machine. The kernel keeps one of them. */
T_TEST(a_thread_of_the_kernel_copies_large_answers)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(kernel_copies() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

T_TEST(with_one_processor_this_thread_does)
{
	cpu_set_t before;
	cpu_set_t one;
	struct rig *r;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	r = rig_new(&(struct rig_options){ 0 });
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(dev_answers(r->dev)->handed_min, SIZE_MAX);
	rig_free(r);
}

/* ---- failures are reported, and leave no lock ---- */

static const struct fail_row {
	const char *name;
	uint64_t offset;
	uint32_t size;
	unsigned int nth;
	int err;
	int want;
} fail_rows[] = {
	{ "an aligned write", 0, 512, 1, -EIO, -EIO },
	{ "no space", 0, 512, 1, -ENOSPC, -ENOSPC },
	{ "the session was lost", 0, 512, 1, -ENOTCONN, -EIO },
	{ "the session was closed", 0, 512, 1, -ECANCELED, -EIO },
	{ "reading the first block", 100, 1000, 1, -EIO, -EIO },
	{ "reading the last block", 100, 1000, 2, -EIO, -EIO },
	{ "writing them back", 100, 1000, 3, -EIO, -EIO },
};

T_ROWS(fails, fail_rows)
{
	const struct fail_row *row = *state;
	struct rig *r = rig_filled();
	uint64_t fh = rig_open(r, O_RDWR);

	t_srpi_fail(r->target, row->nth, row->err);
	assert_int_equal(rig_write(r, fh, row->offset, payload(), row->size),
			 row->want);
	assert_disk(r, 0, 0, 0);
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, row->offset, payload(), row->size),
			 0);
	assert_disk(r, row->offset, row->size, 0xee);
	rig_free(r);
}

T_TEST(failed_read_is_told)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_read(r, 100, 512), -EIO);
	assert_int_equal(r->data_len, 0);
	rig_free(r);
}

/* ---- a target that writes to memory at a wrong place or time ---- */

T_TEST(answers_are_ours_whatever_the_target_writes)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	const struct fuse_lseek_in seek = { .whence = SEEK_DATA };
	struct fuse_lseek_out pos;
	uint64_t fh = rig_open(r, O_RDWR);

	r->target->hostile = true;
	assert_int_equal(rig_write(r, fh, 0, payload(), 4096), 0);
	assert_int_equal(bytes_written(r), 4096);
	assert_int_equal(rig_write(r, fh, 100, payload(), 100), 0);
	assert_int_equal(bytes_written(r), 100);
	assert_int_equal(rig_ask(r, FUSE_LSEEK, &seek, sizeof(seek)), 0);
	memcpy(&pos, r->data, sizeof(pos));
	assert_int_equal(pos.offset, 0);
	rig_free(r);
}

/* ---- order ---- */

T_TEST(writes_of_one_block_take_turns)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	r->target->hold = true;
	rig_send_write(r, fh, 0, "aaaa", 4);
	rig_send_write(r, fh, 4, "bbbb", 4);
	rig_send_write(r, fh, 0, payload(), 512);
	rig_send_write(r, fh, 1024, payload(), 512);
	assert_false(rig_settle(r));
	assert_string_equal(r->target->log, "R512@0 W512@1024");
	t_srpi_let_go(r->target);
	for (int i = 0; i < 4; i++)
		rig_receive(r);
	assert_string_equal(r->target->log,
			    "R512@0 W512@1024 W512@0 R512@0 W512@0 W512@0");
	rig_free(r);
}

T_TEST(writes_of_other_blocks_do_not_wait)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	r->target->hold = true;
	rig_send_write(r, fh, 0, payload(), 512);
	rig_send_write(r, fh, 512, payload(), 1024);
	assert_false(rig_settle(r));
	assert_string_equal(r->target->log, "W512@0 W1024@512");
	t_srpi_let_go(r->target);
	rig_receive(r);
	rig_receive(r);
	rig_free(r);
}

T_TEST(requests_wait_for_slots)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 4 });
	const struct fuse_read_in in = { .size = 512 };

	r->target->hold = true;
	for (int i = 0; i < 10; i++)
		rig_send(r, FUSE_READ, RIG_FILE, &in, sizeof(in), NULL, 0);
	assert_false(rig_settle(r));
	assert_int_equal(r->target->cnt, 4);
	t_srpi_let_go(r->target);
	for (int i = 0; i < 10; i++) {
		rig_expect(r, 0);
	}
	assert_int_equal(r->target->cnt, 10);
	rig_free(r);
}

/* ---- answers that the kernel refuses ---- */

/* The socket refuses this answer, because it is too long. */
T_TEST(answer_that_is_refused_becomes_an_error)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	int size = 8192;

	assert_int_equal(rig_read(r, 0, 128 << 10), 0);
	setsockopt(rig_fd(r), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	assert_int_equal(rig_read(r, 0, 128 << 10), -EIO);
	assert_int_equal(rig_read(r, 0, 512), 0);
	rig_free(r);
}

/* ---- durability ---- */

static int rig_fsync(struct rig *r, uint64_t fh)
{
	const struct fuse_fsync_in in = { .fh = fh };

	return rig_ask(r, FUSE_FSYNC, &in, sizeof(in));
}

T_TEST(fsync_flushes)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	t_srpi_reset(r->target);
	assert_int_equal(rig_fsync(r, fh), 0);
	assert_string_equal(r->target->log, "F");
	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_fsync(r, fh), -EIO);
	rig_free(r);
}

T_TEST(each_open_file_is_told_of_a_failed_flush_once)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t one = rig_open(r, O_RDWR);
	uint64_t two = rig_open(r, O_RDONLY);
	uint64_t late;

	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_fsync(r, one), -EIO);
	late = rig_open(r, O_RDWR);
	assert_int_equal(rig_fsync(r, one), 0);
	assert_int_equal(rig_fsync(r, two), -EIO);
	assert_int_equal(rig_fsync(r, two), 0);
	assert_int_equal(rig_fsync(r, late), 0);
	rig_free(r);
}

/* There was no connection. Only the program that asked for it is told. */
T_TEST(flush_that_was_refused_fails_no_other_one)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t one = rig_open(r, O_RDWR);
	uint64_t two = rig_open(r, O_RDWR);

	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_fsync(r, one), -EIO);
	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	r->target->state = SRPI_FAIL_FAST;
	assert_int_equal(rig_fsync(r, two), -EIO);
	r->target->state = SRPI_RUNNING;
	/* of the first failure, which is no news for the other one */
	assert_int_equal(rig_fsync(r, two), -EIO);
	assert_int_equal(rig_fsync(r, two), 0);
	assert_int_equal(rig_fsync(r, one), 0);
	rig_free(r);
}

T_TEST(a_flush_that_failed_is_owed)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	assert_true(r->tree->files[0]->unflushed);
	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	rig_fsync(r, fh);
	assert_true(r->tree->files[0]->unflushed);
	rig_fsync(r, fh);
	assert_false(r->tree->files[0]->unflushed);
	rig_free(r);
}

T_TEST(synchronous_writes_are_stable)
{
	struct fuse_write_in in = { .size = 100, .flags = O_RDWR | O_DSYNC };
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	in.fh = rig_open(r, O_RDWR);
	rig_send(r, FUSE_WRITE, RIG_FILE, &in, sizeof(in), payload(), 100);
	rig_receive(r);
	assert_string_equal(r->target->log, "R512@0 W512@0!");
	rig_free(r);
}

/* ---- bad requests ---- */

T_TEST(lengths_that_disagree_are_refused)
{
	struct fuse_write_in in = { .size = 513 };
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	in.fh = rig_open(r, O_RDWR);
	rig_send(r, FUSE_WRITE, RIG_FILE, &in, sizeof(in), payload(), 512);
	rig_expect(r, -EINVAL);
	rig_send(r, FUSE_WRITE, RIG_FILE, &in, sizeof(in) - 1, NULL, 0);
	rig_expect(r, -EINVAL);
	rig_send(r, FUSE_READ, 99, &in, sizeof(in), NULL, 0);
	rig_expect(r, -EINVAL);
	assert_string_equal(r->target->log, "");
	rig_free(r);
}

/* Handles pass through memory that the target can write to. */
T_TEST(handles_that_are_none_are_refused)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);
	const uint64_t none[] = { 0, fh + 1, UINT64_MAX, (uintptr_t)r };

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_int_equal(rig_write(r, none[i], 0, payload(), 512),
				 -EBADF);
		assert_int_equal(rig_fsync(r, none[i]), -EIO);
		rig_release(r, none[i]);
	}
	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	rig_release(r, fh);
	rig_release(r, fh);
	assert_int_equal(rig_write(r, fh, 0, payload(), 512), -EBADF);
	rig_free(r);
}

T_TEST(interrupts_are_turned_off)
{
	const struct fuse_interrupt_in in = { .unique = 4 };
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	assert_int_equal(rig_ask(r, FUSE_INTERRUPT, &in, sizeof(in)), -ENOSYS);
	rig_free(r);
}

T_TEST(read_only_files_take_no_writes)
{
	struct rig *r = rig_new(&(struct rig_options){ .read_only = true });
	const struct fuse_open_in open = { .flags = O_WRONLY };
	const struct fuse_fallocate_in punch = {
		.length = 512,
		.mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	};

	assert_int_equal(rig_ask(r, FUSE_OPEN, &open, sizeof(open)), -EROFS);
	assert_int_equal(rig_write(r, 0, 0, payload(), 512), -EROFS);
	assert_int_equal(rig_ask(r, FUSE_FALLOCATE, &punch, sizeof(punch)),
			 -EROFS);
	assert_string_equal(r->target->log, "");
	rig_free(r);
}

/* ---- holes ---- */

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

static const struct falloc_row {
	const char *name;
	uint32_t mode;
	uint64_t offset;
	uint64_t len;
	int err;
	uint64_t zeroed; /* bytes from offset on */
	const char *log;
} falloc_rows[] = {
	{ "a hole", PUNCH, 4096, 8192, 0, 8192, "Z8192@4096d" },
	{ "a hole with odd ends", PUNCH, 100, 2000, 0, 2000,
	  "R512@0 R512@2048 W512@0 W512@2048 Z1536@512d" },
	{ "a hole with an odd begin", PUNCH, 100, 924, 0, 924,
	  "R512@0 W512@0 Z512@512d" },
	{ "a hole with an odd end", PUNCH, 512, 600, 0, 600,
	  "R512@1024 W512@1024 Z512@512d" },
	{ "a hole within a block", PUNCH, 10, 20, 0, 20, "R512@0 W512@0" },
	{ "a hole at a block's begin", PUNCH, 512, 20, 0, 20,
	  "R512@512 W512@512" },
	{ "a hole over a block's end", PUNCH, 500, 20, 0, 20,
	  "R512@0 R512@512 W512@0 W512@512" },
	{ "a hole over the end", PUNCH, RIG_SIZE - 512, 4096, 0, 512,
	  "Z512@1048064d" },
	{ "a hole beyond the end", PUNCH, RIG_SIZE + 512, 4096, 0, 0, "" },
	{ "zeroes", FALLOC_FL_ZERO_RANGE, 512, 512, 0, 512, "Z512@512" },
	{ "zeroes, size kept", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 512,
	  512, 0, 512, "Z512@512" },
	{ "zeroes beyond the end", FALLOC_FL_ZERO_RANGE, RIG_SIZE - 512, 1024,
	  -EFBIG, 0, "" },
	{ "space", 0, 512, 512, 0, 0, "" },
	{ "space up to the end", 0, 0, RIG_SIZE, 0, 0, "" },
	{ "space beyond the end", 0, 0, RIG_SIZE + 1, -EFBIG, 0, "" },
	{ "space far beyond the end", 0, UINT64_MAX - 5, 100, -EFBIG, 0, "" },
	{ "another mode", FALLOC_FL_COLLAPSE_RANGE, 0, 512, -EOPNOTSUPP, 0,
	  "" },
};

T_ROWS(fallocates, falloc_rows)
{
	const struct falloc_row *row = *state;
	const struct fuse_fallocate_in in = {
		.offset = row->offset,
		.length = row->len,
		.mode = row->mode,
	};
	struct rig *r = rig_filled();

	assert_int_equal(rig_ask(r, FUSE_FALLOCATE, &in, sizeof(in)), row->err);
	assert_string_equal(r->target->log, row->log);
	assert_disk(r, row->offset, row->zeroed, 0);
	rig_free(r);
}

T_TEST(failed_hole_is_told)
{
	const struct fuse_fallocate_in in = { .offset = 100,
					      .length = 2000,
					      .mode = PUNCH };
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	for (unsigned int nth = 1; nth <= 5; nth++) {
		t_srpi_reset(r->target);
		t_srpi_fail(r->target, nth, -EIO);
		assert_int_equal(rig_ask(r, FUSE_FALLOCATE, &in, sizeof(in)),
				 -EIO);
	}
	t_srpi_reset(r->target);
	assert_int_equal(rig_ask(r, FUSE_FALLOCATE, &in, sizeof(in)), 0);
	rig_free(r);
}

struct seek_row {
	const char *name;
	uint64_t offset;
	int whence;
	int err;
	uint64_t pos;
};

/* Data from 4096 to 8192 and in the last block. */
static const struct seek_row seek_rows[] = {
	{ "data from a hole", 0, SEEK_DATA, 0, 4096 },
	{ "data from the middle of a hole", 777, SEEK_DATA, 0, 4096 },
	{ "data from data", 4096, SEEK_DATA, 0, 4096 },
	{ "data from the middle of data", 5001, SEEK_DATA, 0, 5001 },
	{ "data behind a hole", 8192, SEEK_DATA, 0, RIG_SIZE - 512 },
	{ "hole from a hole", 0, SEEK_HOLE, 0, 0 },
	{ "hole from the middle of one", 777, SEEK_HOLE, 0, 777 },
	{ "hole from data", 4096, SEEK_HOLE, 0, 8192 },
	{ "hole from the last data", RIG_SIZE - 1, SEEK_HOLE, 0, RIG_SIZE },
	{ "data at the end", RIG_SIZE, SEEK_DATA, -ENXIO, 0 },
	{ "hole at the end", RIG_SIZE, SEEK_HOLE, -ENXIO, 0 },
	{ "another kind", 0, SEEK_END, -EINVAL, 0 },
};

static int seek(struct rig *r, uint64_t offset, int whence, uint64_t *ret_pos)
{
	const struct fuse_lseek_in in = { .offset = offset,
					  .whence = (uint32_t)whence };
	struct fuse_lseek_out out;
	int err = rig_ask(r, FUSE_LSEEK, &in, sizeof(in));

	if (err)
		return err;
	assert_int_equal(r->data_len, sizeof(out));
	memcpy(&out, r->data, sizeof(out));
	*ret_pos = out.offset;
	return 0;
}

T_ROWS(seeks, seek_rows)
{
	const struct seek_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t pos = 0;

	memset(r->target->mapped + 8, 1, 8);
	r->target->mapped[RIG_SIZE / 512 - 1] = 1;
	assert_int_equal(seek(r, row->offset, row->whence, &pos), row->err);
	assert_int_equal(pos, row->pos);
	rig_free(r);
}

T_TEST(no_data_after_the_last)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t pos;

	assert_int_equal(seek(r, 0, SEEK_DATA, &pos), -ENXIO);
	rig_free(r);
}

/* Unmapped blocks may read as anything. Then they are no hole. */
T_TEST(holes_must_be_zero)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t pos;

	r->target->info.unmap_zeroes = false;
	assert_int_equal(seek(r, 5, SEEK_DATA, &pos), 0);
	assert_int_equal(pos, 5);
	assert_int_equal(seek(r, 5, SEEK_HOLE, &pos), 0);
	assert_int_equal(pos, RIG_SIZE);
	assert_string_equal(r->target->log, "");
	rig_free(r);
}

/* ---- O_TRUNC ---- */

static int set_size(struct rig *r, uint64_t fh, uint64_t size)
{
	const struct fuse_setattr_in in = {
		.valid = FATTR_SIZE | (fh ? FATTR_FH : 0),
		.fh = fh,
		.size = size,
	};

	return rig_ask(r, FUSE_SETATTR, &in, sizeof(in));
}

static uint64_t open_truncated(struct rig *r)
{
	uint64_t fh = rig_open(r, O_WRONLY);

	assert_int_equal(set_size(r, 0, 0), 0);
	t_srpi_reset(r->target);
	return fh;
}

T_TEST(o_trunc_changes_nothing)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	assert_disk(r, 0, 0, 0);
	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	rig_release(r, fh);
	assert_disk(r, 0, 512, 0xee);
	rig_free(r);
}

T_TEST(what_a_truncating_writer_skips_is_zeroed)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), 0);
	assert_string_equal(r->target->log, "W512@0 Z3584@512d W512@4096");
	/* Back to the same position: the mount skips nothing. */
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 1024, payload(), 512), 0);
	assert_string_equal(r->target->log, "W512@1024");
	/* The position is inside a block. */
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 4700, payload(), 10), 0);
	for (int i = 4608; i < 4700; i++)
		assert_int_equal(r->target->disk[i], 0);
	assert_int_equal(r->target->disk[4709], 0xee);
	assert_int_equal(r->target->disk[4710], pattern(4710));
	rig_free(r);
}

/* qemu-img does this, and then skips zeroes through another open file. */
T_TEST(size_of_0_and_back_zeroes_the_file)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint64_t fh;

	fill(r);
	fh = rig_open(r, O_RDWR);
	t_srpi_reset(r->target);
	assert_int_equal(set_size(r, fh, 0), 0);
	assert_int_equal(set_size(r, fh, RIG_SIZE), 0);
	assert_string_equal(r->target->log, "Z1048576@0d");
	/* Data that was written between the two sizes stays. */
	t_srpi_reset(r->target);
	assert_int_equal(set_size(r, fh, 0), 0);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), 0);
	assert_int_equal(set_size(r, fh, RIG_SIZE), 0);
	assert_string_equal(r->target->log,
			    "Z4096@0d W512@4096 Z1043968@4608d");
	rig_free(r);
}

static const struct size_row {
	const char *name;
	uint64_t size;
	bool emptied; /* emptied before */
	int err;
} size_rows[] = {
	{ "the same size", RIG_SIZE, false, 0 },
	{ "less", 4096, false, -EINVAL },
	{ "more", RIG_SIZE + 1, false, -EFBIG },
	{ "less, emptied before", 4096, true, 0 },
	{ "more, emptied before", RIG_SIZE + 1, true, -EFBIG },
};

T_ROWS(other_sizes_are_refused, size_rows)
{
	const struct size_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	if (row->emptied)
		assert_int_equal(set_size(r, fh, 0), 0);
	assert_int_equal(set_size(r, fh, row->size), row->err);
	rig_free(r);
}

T_TEST(others_skip_as_they_like)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh;

	open_truncated(r);
	fh = rig_open(r, O_RDWR);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), 0);
	assert_string_equal(r->target->log, "W512@4096");
	rig_free(r);
}

/* One file descriptor emptied the file. Another has written since. */
T_TEST(what_others_wrote_is_not_skipped)
{
	struct rig *r = rig_filled();
	uint64_t truncating = open_truncated(r);
	uint64_t fh = rig_open(r, O_RDWR);

	assert_int_equal(rig_write(r, fh, 1024, payload(), 512), 0);
	assert_int_equal(rig_write(r, fh, 16384, payload(), 512), 0);
	assert_int_equal(rig_write(r, truncating, 4096, payload(), 512), 0);
	assert_string_equal(
		r->target->log,
		"W512@1024 W512@16384 Z1024@0d Z2560@1536d W512@4096");
	t_srpi_reset(r->target);
	assert_int_equal(set_size(r, truncating, 32768), 0);
	assert_non_null(strstr(r->target->log, "Z11776@4608d Z15872@16896d "));
	for (int i = 0; i < 512; i++) {
		assert_int_equal(r->target->disk[1024 + i], 0xee);
		assert_int_equal(r->target->disk[16384 + i], 0xee);
	}
	rig_free(r);
}

/* A hole is pending, and another descriptor writes there before it is
 * zeroed. */
T_TEST(a_hole_that_is_owed_leaves_what_others_wrote)
{
	struct rig *r = rig_filled();
	uint64_t truncating = open_truncated(r);
	uint64_t fh = rig_open(r, O_RDWR);

	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_write(r, truncating, 4096, payload(), 512), -EIO);
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 100, payload(), 1000), 0);
	assert_int_equal(rig_write(r, truncating, 4096, payload(), 512), 0);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(r->target->disk[i],
				 i >= 100 && i < 1100 ? 0xee : 0);
	rig_free(r);
}

/* The same, but the write comes while the zeroing fails. */
T_TEST(a_hole_that_fails_leaves_what_others_wrote)
{
	struct rig *r = rig_filled();
	uint64_t truncating = open_truncated(r);
	uint64_t fh = rig_open(r, O_RDWR);

	t_srpi_fail(r->target, 1, -EIO);
	r->target->hold = true;
	rig_send_write(r, truncating, 4096, payload(), 512);
	rig_send_write(r, fh, 0, payload(), 4096);
	assert_false(rig_settle(r));
	t_srpi_let_go(r->target);
	rig_expect(r, -EIO);
	rig_expect(r, 0);
	assert_int_equal(rig_write(r, truncating, 4096, payload(), 512), 0);
	assert_disk(r, 0, 4608, 0xee);
	rig_free(r);
}

/* The write fails until the zeroing succeeds, whatever is written meanwhile. */
T_TEST(a_failed_zeroing_fails_the_write)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), -EIO);
	assert_string_equal(r->target->log, "Z4096@0d");
	t_srpi_reset(r->target);
	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(rig_write(r, fh, 8192, payload(), 512), -EIO);
	assert_string_equal(r->target->log, "Z4096@0d");
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), 0);
	assert_string_equal(r->target->log, "Z4096@0d Z3584@4608d W512@4096");
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 512, payload(), 512), 0);
	assert_string_equal(r->target->log, "W512@512");
	rig_free(r);
}

/* A write that waits for the blocks of a hole whose zeroing fails. */
T_TEST(a_write_into_a_failed_hole_comes_behind_its_zeroes)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	t_srpi_fail(r->target, 1, -EIO);
	r->target->hold = true;
	rig_send_write(r, fh, 4096, payload(), 512);
	rig_send_write(r, fh, 1024, payload(), 512);
	assert_false(rig_settle(r));
	t_srpi_let_go(r->target);
	rig_expect(r, -EIO);
	rig_expect(r, 0);
	assert_string_equal(r->target->log, "Z4096@0d W512@1024");
	t_srpi_reset(r->target);
	assert_int_equal(rig_write(r, fh, 4096, payload(), 512), 0);
	assert_string_equal(r->target->log, "Z1024@0d Z2560@1536d W512@4096");
	rig_free(r);
}

/* By means of a handle that was changed. */
T_TEST(a_file_may_be_closed_while_a_hole_is_zeroed)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = open_truncated(r);

	r->target->hold = true;
	rig_send_write(r, fh, 4096, payload(), 512);
	assert_false(rig_settle(r));
	rig_release(r, fh);
	t_srpi_let_go(r->target);
	rig_expect(r, 0);
	rig_free(r);
}

T_TEST(a_failed_zeroing_of_the_tail_is_owed)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(set_size(r, fh, 4096), -EIO);
	t_srpi_reset(r->target);
	assert_int_equal(set_size(r, fh, 4096), 0);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(r->target->disk[i], 0);
	rig_free(r);
}

T_TEST(the_tail_that_it_sets_is_zeroed)
{
	struct rig *r = rig_filled();
	uint64_t fh = open_truncated(r);

	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	assert_int_equal(set_size(r, fh, 100000), 0);
	for (int i = 512; i < 100000; i++)
		assert_int_equal(r->target->disk[i], 0);
	assert_int_equal(r->target->disk[100000], pattern(100000));
	assert_int_equal(set_size(r, fh, RIG_SIZE), 0);
	assert_int_equal(r->target->disk[RIG_SIZE - 1], 0);
	assert_int_equal(set_size(r, fh, RIG_SIZE + 1), -EFBIG);
	assert_int_equal(set_size(r, fh, 100), -EINVAL);
	rig_free(r);
}

T_TEST(sizes_do_not_change)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh;

	assert_int_equal(set_size(r, 0, 0), -EINVAL);
	assert_int_equal(set_size(r, 0, RIG_SIZE), 0);
	fh = rig_open(r, O_RDWR);
	assert_int_equal(set_size(r, fh, RIG_SIZE - 512), -EINVAL);
	assert_int_equal(set_size(r, fh, RIG_SIZE), 0);
	rig_release(r, fh);
	rig_open(r, O_RDONLY);
	assert_int_equal(set_size(r, 0, 0), -EINVAL);
	rig_free(r);
}

/* ---- what stat and df report ---- */

static uint64_t blocks(struct rig *r)
{
	const struct fuse_getattr_in in = { 0 };
	struct fuse_attr_out out;

	assert_int_equal(rig_ask(r, FUSE_GETATTR, &in, sizeof(in)), 0);
	assert_int_equal(r->data_len, sizeof(out));
	memcpy(&out, r->data, sizeof(out));
	assert_int_equal(out.attr.size, RIG_SIZE);
	return out.attr.blocks;
}

T_TEST(blocks_are_asked_for_when_they_may_have_changed)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	memset(r->target->mapped + 100, 1, 7);
	memset(r->target->mapped + 200, 1, 2);
	assert_int_equal(blocks(r), 9);
	t_srpi_reset(r->target);
	assert_int_equal(blocks(r), 9);
	assert_string_equal(r->target->log, "");
	rig_write(r, fh, 0, payload(), 1024);
	assert_int_equal(blocks(r), 11);
	rig_free(r);
}

T_TEST(blocks_of_a_full_volume_are_all)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });

	assert_int_equal(blocks(r), RIG_SIZE / 512);
	assert_string_equal(r->target->log, "");
	rig_free(r);
}

T_TEST(blocks_are_all_when_the_target_does_not_tell)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	t_srpi_fail(r->target, 1, -EIO);
	assert_int_equal(blocks(r), RIG_SIZE / 512);
	assert_int_equal(blocks(r), 0);
	rig_free(r);
}

T_TEST(a_map_that_changed_meanwhile_is_asked_for_again)
{
	const struct fuse_getattr_in in = { 0 };
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	memset(r->target->mapped + 100, 1, 7);
	r->target->hold = true;
	rig_send(r, FUSE_GETATTR, RIG_FILE, &in, sizeof(in), NULL, 0);
	rig_send_write(r, fh, 0, payload(), 1024);
	assert_false(rig_settle(r));
	t_srpi_let_go(r->target);
	rig_receive(r);
	rig_receive(r);
	assert_int_equal(blocks(r), 9);
	rig_free(r);
}

/* One walk over the map answers all requests that come meanwhile. */
T_TEST(askers_share_the_map)
{
	const struct fuse_getattr_in in = { 0 };
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	r->target->hold = true;
	for (int i = 0; i < 5; i++)
		rig_send(r, FUSE_GETATTR, RIG_FILE, &in, sizeof(in), NULL, 0);
	assert_false(rig_settle(r));
	assert_int_equal(r->target->cnt, 1);
	t_srpi_let_go(r->target);
	for (int i = 0; i < 5; i++)
		rig_receive(r);
	assert_int_equal(r->target->cnt, 1);
	rig_free(r);
}

/* ---- a target that does not answer ---- */

static int stat_file(struct rig *r)
{
	const struct fuse_getattr_in in = { 0 };

	return rig_ask(r, FUSE_GETATTR, &in, sizeof(in));
}

/* There are more writes than slots, and spare slots for other requests. */
T_TEST(files_can_be_looked_at_while_all_slots_wait)
{
	enum {
		WRITES = 40
	};
	const struct fuse_getattr_in in = { 0 };
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint64_t fh = rig_open(r, O_RDWR);
	static uint8_t data[1024];
	unsigned int spares = 0;

	r->target->hold = true;
	for (int i = 0; i < WRITES; i++) {
		memset(data, i + 1, sizeof(data));
		rig_send_write(r, fh, (uint64_t)i * 1024, data, sizeof(data));
	}
	assert_false(rig_settle(r));
	assert_int_equal(r->target->cnt, 16);
	reactor_skip(r->reactor, 1000);
	/* The first request finds no free slot. The later ones do not wait. */
	assert_int_equal(stat_file(r), 0);
	for (int i = 0; i < 5; i++) {
		rig_send(r, FUSE_GETATTR, RIG_FILE, &in, sizeof(in), NULL, 0);
		assert_true(rig_settle(r));
		rig_expect(r, 0);
	}
	t_srpi_let_go(r->target);
	for (int i = 0; i < WRITES; i++) {
		rig_expect(r, 0);
	}
	for (int i = 0; i < WRITES * 1024; i++)
		assert_int_equal(r->target->disk[i], i / 1024 + 1);
	/* None is lost: after the next outages, there would be too few. */
	for (const struct slot *slot = dev_slots(r->dev)->free_spare; slot;
	     slot = slot->next_free)
		spares++;
	assert_true(spares > 1);
	assert_int_equal(spares, dev_slots(r->dev)->spare_used);
	rig_free(r);
}

/* Requests that wait in spare slots are answered when the session ends. */
T_TEST(what_waits_fails_when_the_session_goes)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint64_t fh = rig_open(r, O_RDWR);

	r->target->hold = true;
	for (int i = 0; i < 40; i++)
		rig_send_write(r, fh, 0, payload(), 512);
	assert_false(rig_settle(r));
	reactor_skip(r->reactor, 1000);
	assert_int_equal(stat_file(r), 0);
	dev_fail(r->dev);
	for (int i = 0; i < 40 - 16; i++) {
		rig_expect(r, -EIO);
	}
	t_srpi_let_go(r->target);
	for (int i = 0; i < 16; i++)
		rig_receive(r);
	assert_int_equal(r->target->cnt, 16);
	assert_int_equal(rig_write(r, fh, 0, payload(), 512), -EIO);
	rig_free(r);
}

T_TEST(map_that_does_not_come_is_not_waited_for)
{
	const struct fuse_getattr_in in = { 0 };
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	uint64_t fh = rig_open(r, O_RDWR);

	assert_int_equal(blocks(r), 0);
	assert_int_equal(rig_write(r, fh, 0, payload(), 512), 0);
	r->target->hold = true;
	rig_send(r, FUSE_GETATTR, RIG_FILE, &in, sizeof(in), NULL, 0);
	assert_false(rig_settle(r));
	reactor_skip(r->reactor, 1000);
	rig_expect(r, 0);
	assert_int_equal(blocks(r), 0);
	t_srpi_let_go(r->target);
	assert_false(rig_settle(r));
	assert_int_equal(blocks(r), 1);
	/* The next one is. */
	assert_int_equal(rig_write(r, fh, 0, payload(), 1024), 0);
	assert_int_equal(blocks(r), 2);
	rig_free(r);
}

/* ---- INIT ---- */

T_TEST(init_asks_for_what_we_need)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 300 });
	struct fuse_init_out out;

	memcpy(&out, r->data, sizeof(out));
	assert_int_equal(out.max_write, RIG_MAX_WRITE);
	assert_int_equal(out.max_pages, RIG_MAX_WRITE / 4096);
	assert_int_equal(out.max_background, 600);
	assert_int_equal(out.flags & FUSE_ATOMIC_O_TRUNC, 0);
	assert_int_equal(out.flags & FUSE_WRITEBACK_CACHE, 0);
	assert_int_equal(out.flags & FUSE_ASYNC_DIO, FUSE_ASYNC_DIO);
	/* FUSE_DIRECT_IO_ALLOW_MMAP, and no flag that we do not know */
	assert_int_equal(out.flags2, 1u << (36 - 32));
	rig_free(r);
}
