/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/check_plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "base/list.h"
#include "base/log.h"
#include "target/block/plugin_load.h"
#include "target/port/worker.h"
#include "target/sandbox.h"

#define THREADS 2u
/* I/Os in flight on each thread: more than the target gives a plugin. */
#define AT_ONCE 600u
#define IO_LEN	4096u
/* Bytes of the longest I/O, and of the part of a volume that is checked. */
#define LONGEST	  (1u << 20)
#define RANGE_LEN (16u << 20)
/* An I/O that takes longer counts as lost. Seconds. */
#define PATIENCE_S 60u

struct check;

/* One I/O, from its submission until its end has been counted. */
struct check_io {
	struct block_io bio;
	struct check *check;
	uint8_t *buf;
	int res;
};

/* The I/Os that one thread submits at once. */
struct batch {
	struct reactor_msg msg;
	struct check *check;
	struct worker *worker;
	struct check_io *ios;
	unsigned int cnt;
};

/*
 * Two processes share it, one after the other. The first one opens the volume and
 * runs all steps but the last, in the sandbox in which rdma-target serves. The last
 * step opens the volume again in the second process, as after a restart.
 */
struct check {
	const struct volume_spec *spec;
	bool no_sandbox;
	struct volume *vol;
	struct worker workers[THREADS];
	_Atomic unsigned int in_flight;
	uint64_t seed; /* of the current pattern */
	bool failed;   /* the current step has failed */
	bool skipped;
	int exit_code;

	/* set by the first process */
	bool has_closed;
	bool lasts; /* the begin of the volume has the current pattern */
	enum volume_identity identity;
	uint8_t naa[sizeof(((struct scsi_disk_info *)0)->naa)];
	uint64_t blocks;
};

/* ---- verdicts ---- */

static void fail_step(struct check *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Only the first reason of a step counts. */
static void fail_step(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->failed)
		return;
	c->failed = true;
	c->exit_code = 1;
	printf("FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void skip_step(struct check *c, const char *why)
{
	c->skipped = true;
	printf("skipped: %s\n", why);
}

/* ---- I/O ---- */

static void check_io_done(struct block_io *bio, int res)
{
	struct check_io *io = container_of(bio, struct check_io, bio);

	io->res = res;
	atomic_fetch_sub(&io->check->in_flight, 1);
}

static void submit_batch(struct reactor_msg *msg)
{
	struct batch *b = container_of(msg, struct batch, msg);

	for (unsigned int i = 0; i < b->cnt; i++) {
		b->ios[i].bio.worker = &b->worker->block;
		block_io_submit(b->check->vol->dev.backend, &b->ios[i].bio);
	}
}

static void lost(struct check *c)
{
	printf("FAILED: %u I/Os have not been ended after %u seconds\n",
	       atomic_load(&c->in_flight), PATIENCE_S);
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

/* Runs the worker of this thread until every I/O has ended. */
static void await_all(struct check *c)
{
	struct reactor *r = c->workers[0].reactor;
	uint64_t until = reactor_now_us(r) + PATIENCE_S * 1000000ull;

	while (atomic_load(&c->in_flight)) {
		reactor_run_once(r, /* timeout_ms= */ 20);
		if (reactor_now_us(r) > until)
			lost(c);
	}
}

/* Submits @cnt of @ios on each of the first @threads workers, then waits for
 * their ends. */
static void run_ios(struct check *c, struct check_io *ios, unsigned int cnt,
		    unsigned int threads)
{
	struct batch batches[THREADS];

	atomic_store(&c->in_flight, cnt * threads);
	for (unsigned int t = 0; t < threads; t++) {
		batches[t] = (struct batch){
			.msg.run = submit_batch,
			.check = c,
			.worker = &c->workers[t],
			.ios = ios + (size_t)t * cnt,
			.cnt = cnt,
		};
		reactor_send(c->workers[t].reactor, &batches[t].msg);
	}
	await_all(c);
}

static void prepare_io(struct check *c, struct check_io *io, enum rbp_op op,
		       uint64_t offset, uint64_t len)
{
	*io = (struct check_io){ .check = c, .buf = io->buf };
	io->bio.io.op = op;
	io->bio.io.offset = offset;
	io->bio.io.len = len;
	io->bio.io.buf = op == RBP_READ || op == RBP_WRITE ? io->buf : NULL;
	io->bio.buf_index = -1;
	io->bio.done = check_io_done;
}

/* Runs one I/O. False: the step has failed. */
static bool one_io(struct check *c, struct check_io *io, const char *what)
{
	run_ios(c, io, 1, 1);
	if (io->res)
		fail_step(c, "%s of %llu bytes at %llu: %s", what,
			  (unsigned long long)io->bio.io.len,
			  (unsigned long long)io->bio.io.offset,
			  strerror(-io->res));
	return !io->res;
}

/* ---- patterns ---- */

/* Each 8 bytes depend on their place and on the seed of the pattern. */
static uint64_t word_at(uint64_t offset, uint64_t seed)
{
	uint64_t x = offset * 0x9e3779b97f4a7c15ull ^ seed;

	return x ^ x >> 29;
}

static void check_fill(uint8_t *buf, uint64_t offset, uint64_t len,
		       uint64_t seed)
{
	for (uint64_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(offset + i, seed);

		memcpy(buf + i, &word, 8);
	}
}

static bool is_filled(const uint8_t *buf, uint64_t offset, uint64_t len,
		      uint64_t seed)
{
	for (uint64_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(offset + i, seed);

		if (memcmp(buf + i, &word, 8))
			return false;
	}
	return true;
}

static bool check_is_zero(const uint8_t *buf, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++) {
		if (buf[i])
			return false;
	}
	return true;
}

/* ---- helpers of steps ---- */

static uint64_t check_size_of(const struct check *c)
{
	return c->vol->blocks * c->vol->block_size;
}

/* A usual I/O at the begin of the volume, which may be smaller. */
static uint64_t check_len_of(const struct check *c)
{
	return check_size_of(c) < IO_LEN ? check_size_of(c) : IO_LEN;
}

static bool can_write(struct check *c)
{
	if (c->vol->read_only)
		skip_step(c, "the volume is read-only");
	return !c->vol->read_only;
}

static bool write_range(struct check *c, struct check_io *io, uint64_t offset,
			uint64_t len, bool fua)
{
	prepare_io(c, io, RBP_WRITE, offset, len);
	io->bio.io.flags = fua ? RBP_FUA : 0;
	check_fill(io->buf, offset, len, c->seed);
	return one_io(c, io, "write");
}

/* Reads into memory that has other contents before. */
static bool read_range(struct check *c, struct check_io *io, uint64_t offset,
		       uint64_t len)
{
	prepare_io(c, io, RBP_READ, offset, len);
	memset(io->buf, 0xa5, len);
	return one_io(c, io, "read");
}

static void expect_data(struct check *c, struct check_io *io, uint64_t offset,
			uint64_t len)
{
	if (read_range(c, io, offset, len) &&
	    !is_filled(io->buf, offset, len, c->seed))
		fail_step(c, "%llu bytes at %llu are not what was written",
			  (unsigned long long)len, (unsigned long long)offset);
}

static void expect_zeroes(struct check *c, struct check_io *io, uint64_t offset,
			  uint64_t len)
{
	if (read_range(c, io, offset, len) && !check_is_zero(io->buf, len))
		fail_step(c, "%llu bytes at %llu are not zero",
			  (unsigned long long)len, (unsigned long long)offset);
}

/* ---- the steps ---- */

static void check_lengths(struct check *c, struct check_io *io)
{
	uint64_t lens[] = { c->vol->block_size, 3ull * c->vol->block_size,
			    IO_LEN, 64u << 10, LONGEST };

	if (!can_write(c))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(lens) && !c->failed; i++) {
		uint64_t size = check_size_of(c);
		uint64_t middle = size / 2 - size / 2 % c->vol->block_size;
		uint64_t at[] = { 0, middle, size - lens[i] };

		if (lens[i] > size / 4)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(at) && !c->failed; k++) {
			c->seed++;
			if (write_range(c, io, at[k], lens[i], false))
				expect_data(c, io, at[k], lens[i]);
		}
	}
}

static void check_reads(struct check *c, struct check_io *io)
{
	uint64_t size = check_size_of(c);
	uint64_t len = size < LONGEST ? size : LONGEST;

	read_range(c, io, 0, len);
	read_range(c, io, size - len, len);
}

static void judge_many(struct check *c, const struct check_io *ios,
		       unsigned int cnt, const char *what)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (ios[i].res)
			fail_step(c, "%s of %u bytes at %llu: %s", what, IO_LEN,
				  (unsigned long long)ios[i].bio.io.offset,
				  strerror(-ios[i].res));
	}
}

/* The blocks differ, so the order of the I/Os does not matter. */
static void check_many(struct check *c, struct check_io *ios)
{
	unsigned int each = AT_ONCE;

	if (!can_write(c))
		return;
	if (check_size_of(c) / IO_LEN < (uint64_t)each * THREADS)
		each = (unsigned int)(check_size_of(c) / IO_LEN / THREADS);
	if (!each) {
		skip_step(c, "the volume is too small for it");
		return;
	}
	c->seed++;
	for (unsigned int i = 0; i < each * THREADS; i++) {
		prepare_io(c, &ios[i], RBP_WRITE, (uint64_t)i * IO_LEN, IO_LEN);
		check_fill(ios[i].buf, ios[i].bio.io.offset, IO_LEN, c->seed);
	}
	run_ios(c, ios, each, THREADS);
	judge_many(c, ios, each * THREADS, "write");
	for (unsigned int i = 0; i < each * THREADS; i++) {
		prepare_io(c, &ios[i], RBP_READ, (uint64_t)i * IO_LEN, IO_LEN);
		memset(ios[i].buf, 0xa5, IO_LEN);
	}
	run_ios(c, ios, each, THREADS);
	judge_many(c, ios, each * THREADS, "read");
	for (unsigned int i = 0; i < each * THREADS && !c->failed; i++) {
		if (!is_filled(ios[i].buf, ios[i].bio.io.offset, IO_LEN,
			       c->seed))
			fail_step(c,
				  "%u bytes at %llu are not what was written",
				  IO_LEN,
				  (unsigned long long)ios[i].bio.io.offset);
	}
}

static void check_fua(struct check *c, struct check_io *io)
{
	if (!can_write(c))
		return;
	if (!c->vol->dev.backend->info.fua) {
		skip_step(c, "not declared; rdma-target flushes instead");
		return;
	}
	c->seed++;
	if (write_range(c, io, 0, check_len_of(c), true))
		expect_data(c, io, 0, check_len_of(c));
}

static void check_flush(struct check *c, struct check_io *ios)
{
	for (unsigned int i = 0; i < 8 * THREADS; i++)
		prepare_io(c, &ios[i], RBP_FLUSH, 0, 0);
	run_ios(c, ios, 8, THREADS);
	judge_many(c, ios, 8 * THREADS, "flush");
}

/* The neighbouring blocks must not change. @zeroes: the blocks between them
 * read as zeroes. */
static void check_clearing(struct check *c, struct check_io *io, enum rbp_op op,
			   uint64_t unit, bool zeroes)
{
	uint64_t len = 3 * unit;

	c->seed++;
	if (len > LONGEST || len > check_size_of(c)) {
		skip_step(c, "the volume is too small for it");
		return;
	}
	if (!write_range(c, io, 0, len, false))
		return;
	prepare_io(c, io, op, unit, unit);
	if (!one_io(c, io, op == RBP_ZERO ? "zeroing" : "unmapping"))
		return;
	if (zeroes)
		expect_zeroes(c, io, unit, unit);
	else
		read_range(c, io, unit, unit);
	expect_data(c, io, 0, unit);
	expect_data(c, io, 2 * unit, unit);
}

static void check_zero(struct check *c, struct check_io *io)
{
	if (!can_write(c))
		return;
	if (!c->vol->dev.backend->info.zero) {
		skip_step(c, "not declared; rdma-target writes zeroes");
		return;
	}
	check_clearing(c, io, RBP_ZERO, c->vol->block_size, true);
	check_clearing(c, io, RBP_ZERO, 64u << 10, true);
}

static void check_unmap(struct check *c, struct check_io *io)
{
	const struct backend_info *info = &c->vol->dev.backend->info;

	if (!can_write(c))
		return;
	if (!info->unmap_granularity) {
		skip_step(c, "not declared");
		return;
	}
	check_clearing(c, io, RBP_UNMAP, info->unmap_granularity,
		       info->unmap_zeroes);
	/* A store may keep a range that is too small to deallocate. */
	check_clearing(c, io, RBP_UNMAP, c->vol->block_size,
		       info->unmap_zeroes);
}

/* A block that was just written is allocated. The extents lead to the end of
 * the volume. */
static void check_extents(struct check *c, struct check_io *io)
{
	uint64_t end =
		check_size_of(c) < RANGE_LEN ? check_size_of(c) : RANGE_LEN;
	uint64_t at = 0;

	if (!c->vol->dev.backend->info.extents) {
		skip_step(c, "not declared; all blocks count as allocated");
		return;
	}
	c->seed++;
	if (!c->vol->read_only &&
	    !write_range(c, io, 0, check_len_of(c), false))
		return;
	while (at < end && !c->failed) {
		prepare_io(c, io, RBP_EXTENT, at, end - at);
		if (!one_io(c, io, "extent"))
			return;
		if (!at && !c->vol->read_only && !io->bio.io.extent_mapped)
			fail_step(c, "a block that was written counts as not "
				     "allocated");
		at += io->bio.io.extent_len;
	}
}

static void check_queues(struct check *c, struct check_io *ios)
{
	struct error e = { 0 };

	worker_remove_volume(&c->workers[0], c->vol);
	if (worker_add_volume(&c->workers[0], c->vol, &e)) {
		fail_step(c, "%s", e.text);
		_exit(EXIT_FAILURE);
	}
	check_reads(c, ios);
}

static void check_measure(struct check *c, struct check_io *io)
{
	int res = volume_measure(c->vol);

	if (res < 0)
		fail_step(c, "%s", strerror(-res));
	else if (res)
		fail_step(c, "the volume has grown by itself");
}

/* ---- life ---- */

static void stop_worker(struct reactor_msg *msg)
{
	struct batch *b = container_of(msg, struct batch, msg);

	reactor_stop(b->worker->reactor);
}

static bool check_worker_ended(struct worker *w, void *user)
{
	struct check *c = user;

	worker_remove_volume(w, c->vol);
	return true;
}

static bool open_all(struct check *c)
{
	struct worker_options opt = { .arena_len = VOLUME_MAX_TRANSFER };
	struct error e = { 0 };
	int err = volume_open(c->spec, 0, "check", &c->vol, &e);

	if (err) {
		fail_step(c, "%s", e.text);
		return false;
	}
	for (unsigned int i = 0; i < THREADS && !err; i++) {
		opt.index = i;
		err = worker_open(&c->workers[i], &opt, &e);
		if (!err)
			err = worker_add_volume(&c->workers[i], c->vol, &e);
	}
	for (unsigned int i = 1; i < THREADS && !err; i++)
		err = worker_start(&c->workers[i], check_worker_ended, c);
	if (err)
		fail_step(c, "%s", *e.text ? e.text : strerror(-err));
	return !err;
}

static void check_close_all(struct check *c)
{
	struct batch stops[THREADS];

	for (unsigned int i = 1; i < THREADS; i++) {
		stops[i].worker = &c->workers[i];
		stops[i].msg.run = stop_worker;
		reactor_send(c->workers[i].reactor, &stops[i].msg);
		worker_join(&c->workers[i]);
	}
	worker_remove_volume(&c->workers[0], c->vol);
	for (unsigned int i = 0; i < THREADS; i++)
		worker_close(&c->workers[i]);
	volume_close(c->vol);
}

/* What the second process has to find. */
static void check_leave(struct check *c, struct check_io *io)
{
	c->identity = c->vol->identity;
	c->blocks = c->vol->blocks;
	memcpy(c->naa, c->vol->info.naa, sizeof(c->naa));
	c->lasts = c->identity != VOLUME_NEW && !c->vol->read_only;
	c->seed++;
	if (c->lasts && write_range(c, io, 0, check_len_of(c), false)) {
		prepare_io(c, io, RBP_FLUSH, 0, 0);
		one_io(c, io, "flush");
	}
}

static void check_found_again(struct check *c, struct check_io *io)
{
	if (c->vol->blocks != c->blocks)
		fail_step(c, "it had %llu blocks and has %llu now",
			  (unsigned long long)c->blocks,
			  (unsigned long long)c->vol->blocks);
	if (c->vol->identity == VOLUME_NEW)
		return;
	if (memcmp(c->naa, c->vol->info.naa, sizeof(c->naa)))
		fail_step(c, "its identity has changed");
	if (c->lasts)
		expect_data(c, io, 0, check_len_of(c));
}

static void check_reopen(struct check *c, struct check_io *io)
{
	memset(c->workers, 0, sizeof(c->workers));
	if (!open_all(c))
		return;
	check_found_again(c, io);
	check_close_all(c);
}

static const struct {
	const char *name;
	void (*run)(struct check *c, struct check_io *ios);
} steps[] = {
	{ "reads, at the begin and at the end", check_reads },
	{ "writes are read back, of every length, up to the end",
	  check_lengths },
	{ "hundreds of I/Os at once, from two threads", check_many },
	{ "writes with FUA", check_fua },
	{ "flushes, several at once", check_flush },
	{ "zeroing, and only what was asked for", check_zero },
	{ "unmapping, and only what was asked for", check_unmap },
	{ "extents", check_extents },
	{ "a queue goes and comes", check_queues },
	{ "the size stays", check_measure },
};

static void run_step(struct check *c, const char *name,
		     void (*run)(struct check *c, struct check_io *ios),
		     struct check_io *ios)
{
	printf("%-55s ", name);
	fflush(stdout);
	c->failed = false;
	c->skipped = false;
	run(c, ios);
	if (!c->failed && !c->skipped)
		printf("ok\n");
}

/* ---- the two processes ---- */

/* As in server.c. */
static bool check_enter_sandbox(struct check *c)
{
#if HAVE_SANDBOX
	struct error e = { 0 };

	if (c->no_sandbox ||
	    !sandbox_enter(plugin_needs() & RBP_NEEDS_NETWORK, &e))
		return true;
	fail_step(c, "%s", e.text);
	return false;
#else
	return true;
#endif
}

static void run_steps(struct check *c, struct check_io *ios)
{
	printf("%-55s ", "opens");
	if (!open_all(c) || !check_enter_sandbox(c))
		return;
	printf("ok: %s, %llu blocks of %u bytes\n", c->vol->kind,
	       (unsigned long long)c->vol->blocks, c->vol->block_size);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		run_step(c, steps[i].name, steps[i].run, ios);
	check_leave(c, ios);
	check_close_all(c);
	c->has_closed = true;
}

/* A first process that does not get to its end has said why, or a signal ends it. */
static void run_first(struct check *c, struct check_io *ios)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		run_steps(c, ios);
		fflush(stdout);
		_exit(EXIT_SUCCESS);
	}
	if (pid < 0)
		fail_step(c, "cannot start a process: %s", strerror(errno));
	else if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
		printf("FAILED: %s\n", strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		printf("FAILED: the process has ended\n");
	if (!c->has_closed)
		c->exit_code = 1;
}

static int check_run(struct check *c, struct check_io *ios)
{
	run_first(c, ios);
	if (c->has_closed)
		run_step(c, "closed and opened again", check_reopen, ios);
	return c->exit_code;
}

int check_plugin(const struct volume_spec *spec, bool no_sandbox)
{
	struct volume_spec all = *spec;
	struct check *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct check_io *ios = calloc(AT_ONCE * THREADS, sizeof(*ios));
	uint8_t *buf = NULL;
	int ret = 1;

	if (c == MAP_FAILED || !ios ||
	    posix_memalign((void **)&buf, 4096,
			   LONGEST + AT_ONCE * THREADS * IO_LEN)) {
		log_error("out of memory");
	} else {
		all.submit_all = true;
		c->spec = &all;
		c->no_sandbox = no_sandbox;
		for (unsigned int i = 0; i < AT_ONCE * THREADS; i++)
			ios[i].buf =
				i ? buf + LONGEST + (size_t)i * IO_LEN : buf;
		ret = check_run(c, ios);
	}
	if (c != MAP_FAILED)
		munmap(c, sizeof(*c));
	free(buf);
	free(ios);
	return ret;
}
