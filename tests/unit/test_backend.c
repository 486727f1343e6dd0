/* SPDX-License-Identifier: BSD-2-Clause */
/* The built-in backends, on a real reactor and temporary files. */
#include "target/block/backend.h"

#include "tests/lib/t_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/given_files.h"
#include "target/port/worker.h"

#define KIB	1024u
#define MIB	(1024u * KIB)
#define BUF_LEN (256u * KIB)

/* ---- scratch ---- */

struct bench {
	char path[64];
	struct block_worker worker;
	uint8_t *buf;
	int buf_index;
	struct backend *be;
};

static struct bench bench;

struct answer {
	struct block_io bio;
	unsigned int cnt;
	int res;
};

static void answered(struct block_io *bio, int res)
{
	struct answer *a = container_of(bio, struct answer, bio);

	a->cnt++;
	a->res = res;
}

static void make_file(uint64_t size)
{
	int fd;

	snprintf(bench.path, sizeof(bench.path), "./t_backend.XXXXXX");
	fd = mkstemp(bench.path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static struct backend_options file_options(void)
{
	return (struct backend_options){
		.path = bench.path,
		.direct = -1,
		.block_size = 512,
	};
}

static void start_worker(void)
{
	struct reactor_options opt = { .max_buffers = 4, .max_files = 4 };

	assert_int_equal(reactor_create(&opt, &bench.worker.reactor), 0);
	bench.buf = mmap(NULL, BUF_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(bench.buf != MAP_FAILED);
	assert_int_equal(reactor_buffer_add(bench.worker.reactor, bench.buf,
					    BUF_LEN, &bench.buf_index),
			 0);
}

static void open_with(const struct backend_type *type,
		      const struct backend_options *opt)
{
	struct error e = { 0 };
	int err = backend_open(type, opt, &bench.be, &e);

	if (err)
		print_message("# %s\n", e.text);
	assert_int_equal(err, 0);
	start_worker();
	assert_int_equal(backend_attach(bench.be, &bench.worker), 0);
}

static void open_file(void)
{
	struct backend_options opt = file_options();

	make_file(8 * MIB);
	open_with(&backend_file, &opt);
}

static void finish(void)
{
	if (bench.be)
		backend_detach(bench.be, &bench.worker);
	if (bench.worker.reactor) {
		reactor_buffer_remove(bench.worker.reactor, bench.buf_index);
		reactor_destroy(bench.worker.reactor);
		munmap(bench.buf, BUF_LEN);
	}
	if (bench.be)
		backend_close(bench.be);
	if (bench.path[0])
		unlink(bench.path);
	bench = (struct bench){ 0 };
}

static void submit(struct answer *a)
{
	a->cnt = 0;
	a->bio.worker = &bench.worker;
	a->bio.done = answered;
	block_io_submit(bench.be, &a->bio);
}

static int await(const struct answer *a)
{
	while (!a->cnt)
		assert_true(reactor_run_once(bench.worker.reactor, -1) >= 0);
	assert_int_equal(a->cnt, 1);
	return a->res;
}

static int run(struct rbp_io io)
{
	struct answer a = { .bio.io = io, .bio.buf_index = bench.buf_index };

	submit(&a);
	return await(&a);
}

static int run_io(enum rbp_op op, uint64_t offset, uint64_t len, bool fua)
{
	return run((struct rbp_io){
		.op = op,
		.offset = offset,
		.len = len,
		.flags = fua ? RBP_FUA : 0,
		.buf = bench.buf,
	});
}

static int run_range(enum rbp_op op, uint64_t offset, uint64_t len,
		     bool may_unmap)
{
	return run((struct rbp_io){
		.op = op,
		.offset = offset,
		.len = len,
		.flags = (may_unmap ? RBP_MAY_UNMAP : 0) |
			 (bench.be->info.memory_pinned ? RBP_KEEP_PAGES : 0),
	});
}

static uint64_t blocks_used(void)
{
	struct stat st;

	assert_int_equal(stat(bench.path, &st), 0);
	return (uint64_t)st.st_blocks;
}

static bool is_filled(const uint8_t *p, uint8_t byte, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] != byte)
			return false;
	}
	return true;
}

/* True if the file itself has @byte in the range at @offset. */
static bool file_is_filled(uint64_t offset, uint8_t byte, size_t len)
{
	uint8_t *p = malloc(len);
	int fd = open(bench.path, O_RDONLY);
	bool same;

	assert_non_null(p);
	assert_int_equal(pread(fd, p, len, (off_t)offset), len);
	close(fd);
	same = is_filled(p, byte, len);
	free(p);
	return same;
}

static void fill_file(uint64_t offset, uint8_t byte, uint64_t len)
{
	memset(bench.buf, byte, BUF_LEN);
	for (uint64_t done = 0; done < len; done += BUF_LEN) {
		uint64_t n = len - done < BUF_LEN ? len - done : BUF_LEN;

		assert_int_equal(run_io(RBP_WRITE, offset + done, n, false), 0);
	}
}

/* ---- opening ---- */

static const struct refusal {
	const char *name;
	const char *path; /* NULL: a scratch file of @size bytes */
	uint64_t size;
	uint32_t block_size;
	int err;
	const char *text; /* must occur in the message */
} refusals[] = {
	{ "a missing file", "./no/such.img", 0, 512, -ENOENT, "truncate -s" },
	{ "a directory", "/", 0, 512, -EISDIR, "directory" },
	{ "a character device", "/dev/null", 0, 512, -EINVAL,
	  "neither a regular file nor a block device" },
	{ "an empty file", NULL, 0, 512, -ENODATA, "empty" },
	{ "less than one block", NULL, 4095, 4096, -EINVAL,
	  "smaller than one block" },
};

T_ROWS(open_is_refused, refusals)
{
	const struct refusal *row = *state;
	struct backend_options opt = { .block_size = row->block_size,
				       .direct = -1 };
	struct error e = { 0 };

	if (!row->path)
		make_file(row->size);
	opt.path = row->path ? row->path : bench.path;
	assert_int_equal(backend_open(&backend_file, &opt, &bench.be, &e),
			 row->err);
	assert_non_null(strstr(e.text, row->text));
	assert_non_null(strstr(e.text, opt.path));
	finish();
}

static const struct memory_refusal {
	const char *name;
	const struct backend_type *type;
	const char *size;
	int err;
} memory_refusals[] = {
	{ "ram of no size", &backend_ram, "much", -EINVAL },
	{ "ram smaller than a block", &backend_ram, "511", -EINVAL },
	{ "ram that nobody has", &backend_ram, "8E", -ENOMEM },
	{ "null of no size", &backend_null, "-1", -EINVAL },
	{ "null smaller than a block", &backend_null, "0", -ERANGE },
	{ "null above 8 EiB", &backend_null, "9E", -ERANGE },
};

T_ROWS(memory_open_is_refused, memory_refusals)
{
	const struct memory_refusal *row = *state;
	struct backend_options opt = { .path = row->size, .block_size = 512 };
	struct error e = { 0 };
	struct backend *be;

	assert_int_equal(backend_open(row->type, &opt, &be, &e), row->err);
	assert_non_null(strstr(e.text, row->size));
}

T_TEST(unwritable_file_is_refused_with_a_hint)
{
	struct backend_options opt;
	struct error e = { 0 };

	uid_t me = geteuid();

	make_file(MIB);
	opt = file_options();
	assert_int_equal(chmod(bench.path, 0444), 0);
	if (!me)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(backend_open(&backend_file, &opt, &bench.be, &e),
			 -EACCES);
	assert_int_equal(seteuid(me), 0);
	assert_non_null(strstr(e.text, ",ro"));
	finish();
}

T_TEST(partial_last_block_is_left_out)
{
	struct backend_options opt;

	make_file(4096 + 100);
	opt = file_options();
	open_with(&backend_file, &opt);
	assert_int_equal(bench.be->info.size, 4096);
	finish();
}

T_TEST(file_given_twice_is_refused)
{
	struct backend_options opt;
	struct backend *second;
	struct error e = { 0 };

	open_file();
	opt = file_options();
	assert_int_equal(backend_open(&backend_file, &opt, &second, &e),
			 -EEXIST);
	assert_non_null(strstr(e.text, "is given twice"));
	opt.read_only = true;
	assert_int_equal(backend_open(&backend_file, &opt, &second, &e),
			 -EEXIST);
	finish();
}

T_TEST(readers_share_a_file)
{
	struct backend_options opt;
	struct backend *second;
	struct error e = { 0 };

	make_file(MIB);
	opt = file_options();
	opt.read_only = true;
	open_with(&backend_file, &opt);
	assert_int_equal(backend_open(&backend_file, &opt, &second, &e), 0);
	backend_close(second);
	assert_true(bench.be->info.read_only);
	assert_false(backend_has_cache(&bench.be->info));
	assert_int_equal(bench.be->info.unmap_granularity, 0);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	finish();
}

/* A process that has the file open, until it is killed. */
static pid_t fork_holder(const struct backend_options *opt)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		open_with(&backend_file, opt);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* The lock belongs to the open file that io_uring holds, and ends with it. */
T_TEST(lock_ends_with_the_process)
{
	struct backend_options opt;
	struct backend *second;
	char wanted[64];
	struct error e = { 0 };
	pid_t pid;

	make_file(MIB);
	opt = file_options();
	pid = fork_holder(&opt);
	snprintf(wanted, sizeof(wanted), "in use by process %d", (int)pid);
	assert_int_equal(backend_open(&backend_file, &opt, &second, &e),
			 -EBUSY);
	assert_non_null(strstr(e.text, wanted));
	assert_int_equal(kill(pid, SIGKILL), 0);
	open_with(&backend_file, &opt);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	finish();
}

/* ---- files that were opened elsewhere ---- */

static const struct given_row {
	const char *name;
	int flags; /* of the first descriptor */
	int flush_flags;
	bool other; /* it is open to another file */
	bool read_only;
	int err;
} given_rows[] = {
	{ "for reading and writing", O_RDWR, O_RDONLY },
	{ "with O_APPEND, which is taken away", O_RDWR | O_APPEND, O_RDONLY },
	{ "for reading, of a read-only volume", O_RDONLY, O_RDONLY, false,
	  true },
	{ "for reading", O_RDONLY, O_RDONLY, false, false, -EBADF },
	{ "for writing", O_WRONLY, O_RDONLY, false, true, -EBADF },
	{ "for nothing", O_PATH, O_RDONLY, false, true, -EBADF },
	{ "for flushes: for nothing", O_RDWR, O_PATH, false, false, -EBADF },
	{ "of another file", O_RDWR, O_RDONLY, true, false, -ESTALE },
};

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

T_ROWS(given_file_is_checked, given_rows)
{
	const struct given_row *row = *state;
	struct given_file given = { .cnt = 2 };
	struct backend_options opt;
	struct error e = { 0 };
	int fds[2];

	make_file(8 * MIB);
	opt = file_options();
	opt.read_only = row->read_only;
	opt.given = &given;
	fds[0] = open(row->other ? "/proc/self/exe" : bench.path,
		      row->other ? O_RDONLY : row->flags);
	fds[1] = open(bench.path, row->flush_flags);
	memcpy(given.fds, fds, sizeof(fds));
	if (row->err) {
		assert_int_equal(
			backend_open(&backend_file, &opt, &bench.be, &e),
			row->err);
		bench.be = NULL;
	} else {
		open_with(&backend_file, &opt);
		assert_int_equal(fcntl(fds[0], F_GETFL) & O_APPEND, 0);
		assert_int_equal(run_io(RBP_READ, 0, 4096, false), 0);
		assert_int_equal(run_io(RBP_FLUSH, 0, 0, false), 0);
	}
	finish();
	for (unsigned int i = 0; i < given.cnt; i++)
		close(given.fds[i]);
	assert_true(is_closed(fds[0]) && is_closed(fds[1]));
}

/* The rights of whoever has opened it decide. */
T_TEST(given_file_needs_no_rights)
{
	struct given_file given = { .cnt = 2 };
	struct backend_options opt;
	uid_t me = geteuid();

	make_file(8 * MIB);
	assert_int_equal(chmod(bench.path, 0600), 0);
	opt = file_options();
	opt.given = &given;
	given.fds[0] = open(bench.path, O_RDWR);
	given.fds[1] = open(bench.path, O_RDONLY);
	if (!me)
		assert_int_equal(seteuid(65534), 0);
	open_with(&backend_file, &opt);
	assert_int_equal(run_io(RBP_FLUSH, 0, 0, false), 0);
	assert_int_equal(seteuid(me), 0);
	finish();
}

T_TEST(write_through_has_no_cache)
{
	struct backend_options opt;

	open_file();
	assert_true(backend_has_cache(&bench.be->info));
	finish();
	make_file(MIB);
	opt = file_options();
	opt.write_through = true;
	open_with(&backend_file, &opt);
	assert_false(backend_has_cache(&bench.be->info));
	fill_file(0, 'w', 4096);
	assert_int_equal(run_range(RBP_ZERO, 0, 512, false), 0);
	assert_true(file_is_filled(0, 0, 512));
	finish();
}

/* ---- reading and writing ---- */

static const struct io_row {
	const char *name;
	int direct;
	bool fixed;
	bool fua;
	uint32_t block_size;
	uint64_t offset;
	uint64_t len;
} io_rows[] = {
	{ "buffered, fixed buffer", 0, true, false, 512, 0, 64 * KIB },
	{ "buffered, plain buffer", 0, false, false, 512, 512, 1536 },
	{ "buffered, fua", 0, true, true, 512, 4096, 4096 },
	{ "buffered, last block", 0, true, false, 512, 8 * MIB - 512, 512 },
	{ "buffered, 4096-byte blocks", 0, true, false, 4096, 4096, 8192 },
	{ "direct, fixed buffer", 1, true, false, 512, 512, 1024 },
	{ "direct, plain buffer", 1, false, false, 512, 4096, 64 * KIB },
	{ "direct, fua", 1, true, true, 4096, 0, 4096 },
};

T_ROWS(reads_back_what_was_written, io_rows)
{
	const struct io_row *row = *state;
	struct backend_options opt;
	struct answer a = { 0 };

	make_file(8 * MIB);
	opt = file_options();
	opt.direct = row->direct;
	opt.block_size = row->block_size;
	open_with(&backend_file, &opt);
	a.bio.io = (struct rbp_io){
		.op = RBP_WRITE,
		.offset = row->offset,
		.len = row->len,
		.flags = row->fua ? RBP_FUA : 0,
		.buf = bench.buf,
	};
	a.bio.buf_index = row->fixed ? bench.buf_index : -1;
	memset(bench.buf, 'a', row->len);
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_true(file_is_filled(row->offset, 'a', row->len));
	memset(bench.buf, 'b', row->len + 1);
	a.bio.io.op = RBP_READ;
	a.bio.io.flags = 0;
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_true(is_filled(bench.buf, 'a', row->len));
	assert_int_equal(bench.buf[row->len], 'b');
	finish();
}

T_TEST(read_past_the_end_of_a_shrunk_file_fails)
{
	open_file();
	assert_int_equal(truncate(bench.path, 4096 + 512), 0);
	assert_int_equal(run_io(RBP_READ, 8192, 4096, false), -EIO);
	assert_int_equal(run_io(RBP_READ, 4096, 4096, false), -EIO);
	assert_int_equal(run_io(RBP_READ, 4096, 512, false), 0);
	finish();
}

T_TEST(shrunk_file_fails_direct_reads_too)
{
	struct backend_options opt;

	make_file(8 * MIB);
	opt = file_options();
	opt.direct = 1;
	open_with(&backend_file, &opt);
	assert_int_equal(truncate(bench.path, 4096 + 100), 0);
	assert_int_equal(run_io(RBP_READ, 4096, 4096, false), -EIO);
	assert_int_equal(run_io(RBP_READ, 8192, 4096, false), -EIO);
	finish();
}

T_TEST(many_requests_are_each_answered_once)
{
	static struct answer a[64];

	open_file();
	for (unsigned int i = 0; i < 64; i++) {
		uint8_t *buf = bench.buf + i * 4096;

		memset(buf, (int)i, 4096);
		a[i] = (struct answer){ .bio = {
						.io.op = RBP_WRITE,
						.io.offset = i * 4096,
						.io.len = 4096,
						.io.buf = buf,
						.buf_index = bench.buf_index,
					} };
		submit(&a[i]);
	}
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(await(&a[i]), 0);
	for (unsigned int i = 0; i < 64; i++) {
		assert_int_equal(a[i].cnt, 1);
		assert_true(file_is_filled(i * 4096, (uint8_t)i, 4096));
	}
	finish();
}

/* ---- flush ---- */

T_TEST(flushes_are_all_answered)
{
	struct answer a[5] = { 0 };

	open_file();
	fill_file(0, 'f', 4096);
	for (unsigned int i = 0; i < 5; i++) {
		a[i].bio.io.op = RBP_FLUSH;
		submit(&a[i]);
	}
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(await(&a[i]), 0);
	finish();
}

/* From now on, the kernel makes no thread for this process. */
static void run_out_of_processes(void)
{
	const struct rlimit none = { 0 };

	if (!geteuid() && setresuid(65534, 65534, 65534))
		_exit(2);
	if (setrlimit(RLIMIT_NPROC, &none))
		_exit(3);
}

T_TEST(flush_needs_no_new_thread)
{
	pid_t pid;
	int status;

	make_file(8 * MIB);
	pid = fork();
	if (!pid) {
		struct backend_options opt = file_options();

		open_with(&backend_file, &opt);
		while (reactor_run_once(bench.worker.reactor, 0) > 0)
			;
		run_out_of_processes();
		_exit(run_io(RBP_WRITE, 0, 4096, false) ||
		      run_io(RBP_FLUSH, 0, 0, false));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	finish();
}

/* The backend flushes through this read-only descriptor. */
static int flush_descriptor(void)
{
	char real[PATH_MAX];
	char link[PATH_MAX];
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int found = -1;

	assert_non_null(dir);
	assert_non_null(realpath(bench.path, real));
	while ((d = readdir(dir))) {
		int fd = atoi(d->d_name);
		char name[300];
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%s", d->d_name);
		n = readlink(name, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = '\0';
		if (!strcmp(link, real) &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
			found = fd;
	}
	closedir(dir);
	assert_true(found >= 0);
	return found;
}

/* fsync of a pipe fails. A pipe in the place of the file acts as a bad disk. */
T_TEST(failed_flush_is_never_forgotten)
{
	struct answer a[3] = { 0 };
	int ends[2];
	int flush_fd;
	int good;

	open_file();
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	flush_fd = flush_descriptor();
	good = dup(flush_fd);
	assert_int_equal(pipe(ends), 0);
	assert_true(dup2(ends[0], flush_fd) >= 0);
	for (unsigned int i = 0; i < 3; i++) {
		a[i].bio.io.op = RBP_FLUSH;
		submit(&a[i]);
	}
	for (unsigned int i = 0; i < 3; i++)
		assert_true(await(&a[i]) < 0);
	/* the disk works again */
	assert_true(dup2(good, flush_fd) >= 0);
	assert_true(run((struct rbp_io){ .op = RBP_FLUSH }) < 0);
	fill_file(0, 'x', 4096);
	assert_true(run((struct rbp_io){ .op = RBP_FLUSH }) < 0);
	close(good);
	close(ends[0]);
	close(ends[1]);
	finish();
}

/* ---- stable before done ---- */

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* Linux 6.5 */
#endif

/* Returns how many pages of @path are not on its disk yet. -1: unknown. */
static long dirty_pages_of(const char *path)
{
	struct {
		uint64_t off, len;
	} range = { 0, 0 };
	struct {
		uint64_t cache, dirty, writeback, evicted, recently_evicted;
	} stat = { 0 };
	int fd = open(path, O_RDONLY);
	long err = syscall(SYS_cachestat, fd, &range, &stat, 0);

	close(fd);
	return err ? -1 : (long)(stat.dirty + stat.writeback);
}

static long dirty_pages(void)
{
	return dirty_pages_of(bench.path);
}

static void need_dirty_pages(void)
{
	if (dirty_pages_of("/proc/self/exe") < 0)
		skip();
}

T_TEST(fua_write_leaves_nothing_dirty)
{
	need_dirty_pages();
	open_file();
	assert_int_equal(run_io(RBP_WRITE, 0, 8192, false), 0);
	assert_true(dirty_pages() > 0);
	assert_int_equal(run_io(RBP_WRITE, 0, 8192, true), 0);
	assert_int_equal(dirty_pages(), 0);
	finish();
}

T_TEST(flush_leaves_nothing_dirty)
{
	need_dirty_pages();
	open_file();
	assert_int_equal(run_io(RBP_WRITE, 0, 8192, false), 0);
	assert_true(dirty_pages() > 0);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	assert_int_equal(dirty_pages(), 0);
	finish();
}

T_TEST(write_through_leaves_nothing_dirty)
{
	struct backend_options opt;

	need_dirty_pages();
	make_file(MIB);
	opt = file_options();
	opt.write_through = true;
	open_with(&backend_file, &opt);
	assert_int_equal(run_io(RBP_WRITE, 0, 8192, false), 0);
	assert_int_equal(dirty_pages(), 0);
	/* the edges of the range are zeroed in the page cache */
	assert_int_equal(run_range(RBP_ZERO, 512, 1024, false), 0);
	assert_int_equal(dirty_pages(), 0);
	assert_int_equal(run_range(RBP_UNMAP, 2048, 1024, false), 0);
	assert_int_equal(dirty_pages(), 0);
	finish();
}

/* ---- unmap, zero, extents ---- */

T_TEST(unmap_punches_a_hole)
{
	uint64_t before;

	open_file();
	fill_file(0, 'u', MIB);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	before = blocks_used();
	assert_int_equal(run_range(RBP_UNMAP, 64 * KIB, 512 * KIB, false), 0);
	assert_int_equal(blocks_used(), before - 512 * KIB / 512);
	backend_look(bench.be);
	assert_int_equal(backend_used(bench.be), blocks_used() * 512);
	assert_true(file_is_filled(0, 'u', 64 * KIB));
	assert_true(file_is_filled(64 * KIB, 0, 512 * KIB));
	assert_true(file_is_filled(576 * KIB, 'u', 4096));
	finish();
}

T_TEST(unmap_of_part_of_a_block_reads_as_zeroes)
{
	open_file();
	fill_file(0, 'u', 8192);
	assert_int_equal(run_range(RBP_UNMAP, 512, 1024, false), 0);
	assert_true(file_is_filled(0, 'u', 512));
	assert_true(file_is_filled(512, 0, 1024));
	assert_true(file_is_filled(1536, 'u', 512));
	finish();
}

static const struct zero_row {
	const char *name;
	bool may_unmap;
	bool fua;
} zero_rows[] = {
	{ "zero keeps the space", false, false },
	{ "zero may give the space back", true, false },
	{ "zero with fua", false, true },
};

T_ROWS(zero_makes_zeroes, zero_rows)
{
	const struct zero_row *row = *state;
	uint64_t before;

	open_file();
	fill_file(0, 'z', MIB);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	before = blocks_used();
	assert_int_equal(run((struct rbp_io){
				 .op = RBP_ZERO,
				 .offset = 4096,
				 .len = 512 * KIB,
				 .flags = (row->may_unmap ? RBP_MAY_UNMAP : 0) |
					  (row->fua ? RBP_FUA : 0),
			 }),
			 0);
	assert_true(file_is_filled(0, 'z', 4096));
	assert_true(file_is_filled(4096, 0, 512 * KIB));
	assert_true(file_is_filled(4096 + 512 * KIB, 'z', 4096));
	if (row->may_unmap)
		assert_true(blocks_used() < before);
	else
		assert_true(blocks_used() >= before);
	finish();
}

/* tmpfs does not support ZERO_RANGE. */
T_TEST(zeroes_are_written_where_they_must_be)
{
	struct backend_options opt;
	int fd;

	snprintf(bench.path, sizeof(bench.path), "/dev/shm/t_backend.XXXXXX");
	fd = mkstemp(bench.path);
	if (fd < 0) {
		bench.path[0] = '\0';
		skip();
	}
	assert_int_equal(ftruncate(fd, 4 * MIB), 0);
	close(fd);
	opt = file_options();
	open_with(&backend_file, &opt);
	fill_file(0, 'z', MIB);
	assert_int_equal(run_range(RBP_ZERO, 512, 700 * KIB, false), 0);
	assert_true(file_is_filled(0, 'z', 512));
	assert_true(file_is_filled(512, 0, 700 * KIB));
	assert_true(file_is_filled(512 + 700 * KIB, 'z', 512));
	finish();
}

T_TEST(extents_are_as_in_the_file)
{
	struct answer a = { 0 };

	open_file();
	fill_file(MIB, 'e', MIB);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT, .len = 8 * MIB };
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_false(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, MIB);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT,
				    .offset = MIB + 512,
				    .len = 7 * MIB - 512 };
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_true(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, MIB - 512);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT,
				    .offset = 2 * MIB,
				    .len = 6 * MIB };
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_false(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, 6 * MIB);
	finish();
}

/* Reads of them fail. Who skips holes would take them for zeroes. */
T_TEST(missing_blocks_of_a_shrunk_file_are_no_hole)
{
	struct answer a = { 0 };

	open_file();
	fill_file(0, 'e', MIB);
	assert_int_equal(truncate(bench.path, 2 * MIB + 100), 0);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT,
				    .offset = MIB,
				    .len = 7 * MIB };
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_false(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, MIB);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT,
				    .offset = 2 * MIB,
				    .len = 6 * MIB };
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_true(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, 6 * MIB);
	finish();
}

/* Called between the two lseek() calls that make an extent. */
static void (*between)(void);

/* Replaces the function of libc. */
off_t lseek(int fd, off_t offset, int whence)
{
	void (*act)(void) = between;

	if (act && whence == SEEK_HOLE) {
		between = NULL;
		act();
	}
	return syscall(SYS_lseek, fd, offset, whence);
}

static void punch_all(void)
{
	int fd = open(bench.path, O_RDWR | O_CLOEXEC);

	assert_int_equal(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 8 * MIB),
			 0);
	close(fd);
}

static void cut_off(void)
{
	assert_int_equal(truncate(bench.path, 0), 0);
}

static const struct race_case {
	const char *name;
	void (*act)(void);
	uint64_t offset;
	uint64_t len;
} race_cases[] = {
	{ "unmapped", punch_all, MIB, 512 },
	{ "unmapped, within", punch_all, MIB + 512, 512 },
	{ "cut off", cut_off, MIB, 7 * MIB },
};

/* An extent of no length would make the caller ask again and again. */
T_ROWS(extent_that_is_unmapped_meanwhile_has_a_block, race_cases)
{
	const struct race_case *row = *state;
	struct answer a = { 0 };

	open_file();
	fill_file(MIB, 'e', MIB);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	a.bio.io = (struct rbp_io){ .op = RBP_EXTENT,
				    .offset = row->offset,
				    .len = 8 * MIB - row->offset };
	between = row->act;
	submit(&a);
	assert_int_equal(await(&a), 0);
	assert_null(between);
	assert_true(a.bio.io.extent_mapped);
	assert_int_equal(a.bio.io.extent_len, row->len);
	finish();
}

/* ---- block devices: loop devices, if this process may make them ---- */

struct device {
	char path[32];
	char file[64]; /* the file behind the device */
	int fd;	       /* the last user deletes the device */
};

static int attach_loop(struct device *d, uint32_t sector)
{
	struct loop_config config = {
		.block_size = sector,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int err = -1;

	close(control);
	if (number < 0)
		return -1;
	snprintf(d->path, sizeof(d->path), "/dev/loop%d", number);
	d->fd = open(d->path, O_RDWR | O_CLOEXEC);
	config.fd = (uint32_t)open(d->file, O_RDWR | O_CLOEXEC);
	if (d->fd >= 0)
		err = ioctl(d->fd, LOOP_CONFIGURE, &config);
	close((int)config.fd);
	return err;
}

/* bench.path becomes the path of the device; @d->file is the file behind it. */
static void make_device(struct device *d, uint32_t sector)
{
	make_file(8 * MIB);
	memcpy(d->file, bench.path, sizeof(d->file));
	if (attach_loop(d, sector)) {
		close(d->fd);
		finish();
		skip();
	}
	snprintf(bench.path, sizeof(bench.path), "%s", d->path);
}

static void free_device(struct device *d)
{
	bench.path[0] = '\0'; /* must not be unlinked */
	finish();
	close(d->fd);
	unlink(d->file);
}

T_TEST(device_is_direct_and_complete)
{
	struct backend_options opt;
	struct device d;

	make_device(&d, 512);
	opt = file_options();
	open_with(&backend_file, &opt);
	assert_string_equal(bench.be->info.kind, "block device");
	assert_int_equal(bench.be->info.size, 8 * MIB);
	assert_int_equal(bench.be->info.min_block, 512);
	assert_true(backend_has_cache(&bench.be->info));
	fill_file(0, 'd', MIB);
	assert_true(file_is_filled(0, 'd', MIB));
	assert_int_equal(run_io(RBP_WRITE, 512, 1024, true), 0);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	assert_int_equal(run_range(RBP_ZERO, 512, 4096, false), 0);
	assert_true(file_is_filled(0, 'd', 512));
	assert_true(file_is_filled(512, 0, 4096));
	assert_true(file_is_filled(4608, 'd', 512));
	free_device(&d);
}

static uint64_t file_blocks(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_blocks;
}

T_TEST(device_unmap_gives_space_back)
{
	struct backend_options opt;
	struct device d;
	uint64_t before;

	make_device(&d, 512);
	opt = file_options();
	open_with(&backend_file, &opt);
	assert_true(bench.be->info.unmap_granularity > 0);
	fill_file(0, 'd', MIB);
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	before = file_blocks(d.file);
	assert_int_equal(run_range(RBP_UNMAP, 0, 512 * KIB, false), 0);
	assert_true(file_blocks(d.file) < before);
	assert_true(file_is_filled(0, 0, 512 * KIB));
	assert_true(file_is_filled(512 * KIB, 'd', 512 * KIB));
	free_device(&d);
}

/* target_start tests a device that another process has. */
T_TEST(device_is_taken_once)
{
	struct backend_options opt;
	struct device d;
	struct error e = { 0 };
	int user;

	make_device(&d, 512);
	user = open(d.path, O_RDWR | O_EXCL); /* as another volume */
	assert_true(user >= 0);
	opt = file_options();
	assert_int_equal(backend_open(&backend_file, &opt, &bench.be, &e),
			 -EEXIST);
	assert_non_null(strstr(e.text, "is given twice"));
	close(user);
	free_device(&d);
}

T_TEST(large_sectors_go_through_the_page_cache)
{
	struct backend_options opt;
	struct device d;
	struct error e = { 0 };

	make_device(&d, 4096);
	opt = file_options();
	opt.direct = 1;
	assert_int_equal(backend_open(&backend_file, &opt, &bench.be, &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "block-size=4096"));
	opt.direct = -1;
	open_with(&backend_file, &opt);
	assert_int_equal(bench.be->info.min_block, 1);
	fill_file(512, 's', 1024);
	/* less than a sector: must be written, as the device cannot zero it */
	assert_int_equal(run_range(RBP_ZERO, 1024, 512, false), 0);
	assert_true(file_is_filled(512, 's', 512));
	assert_true(file_is_filled(1024, 0, 512));
	assert_int_equal(run((struct rbp_io){ .op = RBP_FLUSH }), 0);
	free_device(&d);
}

T_TEST(large_sectors_are_direct_with_large_blocks)
{
	struct backend_options opt;
	struct device d;

	make_device(&d, 4096);
	opt = file_options();
	opt.block_size = 4096;
	open_with(&backend_file, &opt);
	assert_int_equal(bench.be->info.min_block, 4096);
	fill_file(4096, 's', 8192);
	assert_true(file_is_filled(4096, 's', 8192));
	free_device(&d);
}

/* ---- a disk that does not answer ---- */

static char frozen_dir[sizeof("./t_backend.XXXXXX")];

/* False: it failed. */
static bool in_frozen_dir(const char *command)
{
	char text[256];

	snprintf(text, sizeof(text), "D=%s; %s", frozen_dir, command);
	return system(text) == 0;
}

/* Puts bench.path into a file system of its own, or skips. */
static void make_file_on_disk(void)
{
	strcpy(frozen_dir, "./t_backend.XXXXXX");
	assert_non_null(mkdtemp(frozen_dir));
	if (geteuid() || !in_frozen_dir("truncate -s 64M $D.img && "
					"mkfs.ext4 -q $D.img 2>/dev/null && "
					"mount -o loop $D.img $D 2>/dev/null "
					"&& truncate -s 8M $D/file")) {
		in_frozen_dir("rm -f $D.img; rmdir $D");
		skip();
	}
	snprintf(bench.path, sizeof(bench.path), "%s/file", frozen_dir);
}

static int freeze_disk(unsigned long how)
{
	int fd = open(frozen_dir, O_RDONLY);
	int err = ioctl(fd, how, 0);

	close(fd);
	return err;
}

static void thaw_disk(struct reactor_timer *t)
{
	freeze_disk(FITHAW);
}

/* So that a worker that waits for the disk fails the test, and does not hang
 * it. */
static void *disk_guard(void *arg)
{
	struct pollfd ended = { .fd = *(int *)arg, .events = POLLIN };

	if (poll(&ended, 1, 10000) > 0)
		return NULL;
	freeze_disk(FITHAW);
	return arg;
}

/* The disk answers again only when a timer of the worker has fired. */
T_TEST(a_dead_disk_stops_no_worker)
{
	int ended = eventfd(0, EFD_CLOEXEC);
	struct answer late[4] = { 0 };
	struct backend_options opt;
	struct reactor_timer thaw;
	pthread_t guard;
	void *fired;

	make_file_on_disk();
	opt = file_options();
	open_with(&backend_file, &opt);
	assert_int_equal(pthread_create(&guard, NULL, disk_guard, &ended), 0);
	reactor_timer_init(&thaw, thaw_disk);
	reactor_timer_set(bench.worker.reactor, &thaw, 200);
	memset(bench.buf, 'z', 4096);
	assert_int_equal(freeze_disk(FIFREEZE), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(late); i++) {
		late[i].bio.io = (struct rbp_io){ .op = RBP_WRITE,
						  .offset = i * 4096,
						  .len = 4096,
						  .buf = bench.buf };
		late[i].bio.buf_index = bench.buf_index;
		reactor_run_once(bench.worker.reactor, 0);
		submit(&late[i]);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(late); i++)
		assert_int_equal(await(&late[i]), 0);
	assert_true(file_is_filled(0, 'z', ARRAY_SIZE(late) * 4096));
	eventfd_write(ended, 1);
	pthread_join(guard, &fired);
	close(ended);
	bench.path[0] = '\0';
	finish();
	assert_true(in_frozen_dir("umount $D && rm $D.img && rmdir $D"));
	assert_null(fired);
}

/* ---- ram and null ---- */

static bool is_resident(void *page)
{
	unsigned char vec;

	assert_int_equal(mincore(page, 4096, &vec), 0);
	return vec & 1;
}

static void ram_unmap(bool pinned)
{
	struct backend_options opt = { .path = "8M", .block_size = 512 };
	uint8_t *mem;
	uint8_t *page;

	open_with(&backend_ram, &opt);
	bench.be->info.memory_pinned = pinned;
	mem = bench.be->info.memory;
	page = mem + MIB;
	memset(mem, 'r', 8 * MIB);
	assert_int_equal(run_range(RBP_UNMAP, (uint64_t)(page - mem) - 512,
				   4 * MIB + 1024, false),
			 0);
	assert_int_equal(is_resident(page + MIB), pinned);
	assert_true(is_filled(page - 512, 0, 4 * MIB + 1024));
	assert_int_equal(page[-513], 'r');
	assert_int_equal(page[4 * MIB + 512], 'r');
	assert_int_equal(run_range(RBP_ZERO, 0, 512, false), 0);
	assert_true(is_filled(mem, 0, 512));
	assert_int_equal(mem[512], 'r');
	finish();
}

T_TEST(ram_unmap_gives_pages_back)
{
	ram_unmap(/* pinned= */ false);
}

T_TEST(pinned_ram_is_overwritten_in_place)
{
	ram_unmap(/* pinned= */ true);
}

T_TEST(ram_within_one_page_is_zeroed)
{
	struct backend_options opt = { .path = "1M", .block_size = 512 };
	uint8_t *mem;

	open_with(&backend_ram, &opt);
	mem = bench.be->info.memory;
	memset(mem, 'r', MIB);
	assert_int_equal(run_range(RBP_UNMAP, 512, 1024, false), 0);
	assert_true(is_filled(mem, 'r', 512));
	assert_true(is_filled(mem + 512, 0, 1024));
	assert_true(is_filled(mem + 1536, 'r', MIB - 1536));
	finish();
}

T_TEST(null_read_leaves_nothing_old_in_the_buffer)
{
	struct backend_options opt = { .path = "1E", .block_size = 4096 };

	open_with(&backend_null, &opt);
	assert_int_equal(bench.be->info.size, 1ull << 60);
	memset(bench.buf, 'n', 8192);
	assert_int_equal(run_io(RBP_WRITE, (1ull << 60) - 4096, 4096, true), 0);
	assert_int_equal(run_io(RBP_READ, (1ull << 60) - 4096, 4096, false), 0);
	assert_true(is_filled(bench.buf, 0, 4096));
	assert_int_equal(bench.buf[4096], 'n');
	finish();
}
