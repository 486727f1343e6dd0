/* SPDX-License-Identifier: BSD-2-Clause */
/* Plugins: which are loaded, which are refused, and the contract of their I/O.
 * The plugins are those of tests/plugins; the environment names their
 * directory. */
#include "target/block/plugin_host.h"

#include "tests/lib/t_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/scsi/volume.h"

#define IO_LEN 4096u

/* ---- what is refused ---- */

static const struct refuse_row {
	const char *name;
	const char *spec;
	const char *want; /* a part of the message */
} refused[] = {
	{ "no such plugin", "nosuch:x", "there is no plugin 'nosuch'" },
	{ "no such file", "/nosuch/p.so:x", "/nosuch/p.so: No such file" },
	{ "another ABI", "abi2:x", "made for plugin ABI 2, this rdma-target" },
	{ "a short struct", "short:x", "cannot open or close a volume" },
	{ "a layer as a store", "example-zeroes:x", "is a layer" },
	{ "a store as a layer", "ram:1M,layer=async", "is a store" },
	{ "no such layer", "ram:1M,layer=nosuch", "no plugin 'nosuch'" },
	{ "its own words", "liar:refuses",
	  "liar:refuses: there is no such thing; try another" },
	{ "no words", "liar:refuses without a word", "Permission denied" },
	{ "no bytes", "liar:size 0", "smaller than one block" },
	{ "half a block too much", "liar:odd size", "no multiple" },
	{ "more than offsets can say", "liar:huge size", "out of range" },
	{ "two sizes", "liar:measure", "one size at open() and another" },
	{ "block size 0", "liar:block size 0", "no power of two" },
	{ "block size 3", "liar:block size 3", "no power of two" },
	{ "block size 64k", "liar:block size 64k", "no power of two" },
	{ "a cache without flush", "liar:cache", "no flush" },
	{ "a durability that there is not", "liar:stable some day",
	  "its durability is none" },
	{ "nothing makes writes stable", "liar:never stable",
	  "nothing makes writes stable" },
	{ "nor below a layer", "liar:never stable,layer=hollow",
	  "liar:never stable: it has neither flush nor FUA" },
	{ "a loss without a cache", "liar:loses", "has no write cache" },
	{ "memory that may grow", "liar:memory", "its size may change" },
	{ "unmap without granularity", "liar:unmap", "no unmap_granularity" },
	{ "identity without end", "liar:identity", "identity has no end" },
	{ "a medium that other targets would not know to be out",
	  "async:1048576,epochs=on,removable", "leave out removable" },
	{ "unknown parameter", "liar:x,colour=red",
	  "no parameter 'colour' of a volume or of plugin liar, which has "
	  "text, number, size, flag, trust-server" },
	{ "parameter without value", "liar:x,number", "needs a value" },
	{ "parameter twice", "liar:x,number=1,number=2", "given twice" },
	{ "no number", "liar:x,number=1x", "a decimal number" },
	{ "negative number", "liar:x,number=-1", "a decimal number" },
	{ "no size", "liar:x,size=big", "a size" },
	{ "no flag", "liar:x,flag=yes", "on or off" },
	{ "parameter of a layer in front of it",
	  "ram:1M,min=4k,layer=example-zeroes", "no option 'min'" },
};

/* Returns -errno and the message of volume_open() or of the parser. */
static int open_volume(const char *text, struct volume **ret, struct error *e)
{
	struct volume_spec *spec = malloc(sizeof(*spec));
	int err = -EINVAL;

	assert_non_null(spec);
	if (volume_spec_parse(text, spec, e))
		err = volume_open(spec, 0, "t", ret, e);
	free(spec);
	return err;
}

T_ROWS(is_refused, refused)
{
	const struct refuse_row *row = *state;
	struct volume *vol = NULL;
	struct error e = { 0 };

	assert_int_not_equal(open_volume(row->spec, &vol, &e), 0);
	if (!strstr(e.text, row->want))
		fail_msg("'%s' is not in '%s'", row->want, e.text);
	assert_null(strchr(e.text, '\n'));
}

/* ---- when writes are stable ---- */

static const struct stable_row {
	const char *spec;
	enum rbp_durability want;
} stable_rows[] = {
	{ "liar:", RBP_STABLE_WHEN_ENDED },
	{ "liar:away", RBP_STABLE_AFTER_FLUSH },
	{ "liar:away,ro", RBP_STABLE_WHEN_ENDED },
	{ "liar:never stable,ro", RBP_STABLE_WHEN_ENDED },
	{ "liar:never stable,trust-server=on", RBP_STABLE_NEVER },
	/* A layer cannot promise more than what is below. */
	{ "liar:away,layer=hollow", RBP_STABLE_AFTER_FLUSH },
	{ "liar:never stable,trust-server=on,layer=hollow", RBP_STABLE_NEVER },
	{ "liar:never stable,trust-server=on,layer=example-zeroes",
	  RBP_STABLE_NEVER },
};

T_TEST(durability)
{
	for (size_t i = 0; i < ARRAY_SIZE(stable_rows); i++) {
		const struct stable_row *row = &stable_rows[i];
		struct volume *vol = NULL;
		struct error e = { 0 };

		if (open_volume(row->spec, &vol, &e))
			fail_msg("%s", e.text);
		assert_int_equal(vol->dev.backend->info.durability, row->want);
		assert_int_equal(vol->dev.write_cache,
				 row->want != RBP_STABLE_WHEN_ENDED);
		volume_close(vol);
	}
}

/* ---- the file ---- */

static void copy_file(const char *from, const char *to)
{
	char command[1024];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

T_TEST(others_may_not_write_to_it)
{
	char from[512];
	char path[] = "./t_plugin.so";
	char spec[64];
	struct volume *vol = NULL;
	struct error e = { 0 };

	snprintf(from, sizeof(from), "%s/rdma-block-plugin-liar.so",
		 getenv("RDMA_BLOCK_PLUGIN_PATH"));
	copy_file(from, path);
	snprintf(spec, sizeof(spec), "%s:x", path);
	assert_int_equal(chmod(path, 0766), 0);
	assert_int_equal(open_volume(spec, &vol, &e), -EPERM);
	assert_non_null(strstr(e.text, "other users may write"));
	assert_int_equal(chmod(path, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_int_equal(open_volume(spec, &vol, &e), -EPERM);
		assert_non_null(strstr(e.text, "belongs to user 65534"));
		assert_int_equal(chown(path, 0, 0), 0);
	}
	assert_int_equal(open_volume(spec, &vol, &e), 0);
	volume_close(vol);
	unlink(path);
}

T_TEST(what_is_no_plugin_is_refused)
{
	char path[] = "./t_no_plugin.so";
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	struct volume *vol = NULL;
	struct error e = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	assert_int_equal(open_volume("./t_no_plugin.so:x", &vol, &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "cannot be loaded"));
	unlink(path);
}

/* ---- I/O ---- */

struct io {
	struct block_io bio;
	unsigned int cnt;
	int res;
};

struct rig {
	struct block_worker worker;
	struct volume *vol;
};

static void rig_open(struct rig *r, const char *spec)
{
	struct error e = { 0 };
	int err;

	if (!r->worker.reactor) {
		struct reactor_options opt = { .max_files = 4 };

		assert_int_equal(reactor_create(&opt, &r->worker.reactor), 0);
	}
	err = open_volume(spec, &r->vol, &e);
	if (err)
		fail_msg("%s", e.text);
	assert_int_equal(volume_attach(r->vol, &r->worker, &e), 0);
}

static void rig_close(struct rig *r)
{
	volume_detach(r->vol, &r->worker);
	volume_close(r->vol);
	reactor_destroy(r->worker.reactor);
}

static void io_done(struct block_io *bio, int res)
{
	struct io *io = container_of(bio, struct io, bio);

	io->cnt++;
	io->res = res;
}

static void submit(struct rig *r, struct io *io, enum rbp_op op,
		   uint64_t offset, uint64_t len, void *buf)
{
	*io = (struct io){
		.bio = {
			.io.op = op,
			.io.offset = offset,
			.io.len = len,
			.io.buf = buf,
			.buf_index = -1,
			.worker = &r->worker,
			.done = io_done,
		},
	};
	block_io_submit(r->vol->dev.backend, &io->bio);
}

static int await(struct rig *r, const struct io *io)
{
	while (!io->cnt)
		assert_true(reactor_run_once(r->worker.reactor, -1) >= 0);
	assert_int_equal(io->cnt, 1);
	return io->res;
}

static int run(struct rig *r, enum rbp_op op, uint64_t offset, uint64_t len,
	       void *buf)
{
	struct io io;

	submit(r, &io, op, offset, len, buf);
	return await(r, &io);
}

/* Returns a function of a loaded plugin that exists only for the test. */
static void *plugin_symbol(const char *plugin, const char *name)
{
	char path[512];
	void *so;

	snprintf(path, sizeof(path), "%s/rdma-block-plugin-%s.so",
		 getenv("RDMA_BLOCK_PLUGIN_PATH"), plugin);
	so = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(so);
	return dlsym(so, name);
}

enum {
	MANY = 2000
};

/* More I/Os than a plugin may have at a time. Each ends once. */
T_TEST(another_thread_ends_io)
{
	static struct io ios[MANY];
	static uint8_t bufs[MANY][512];
	struct reactor_stats stats;
	struct rig r = { 0 };

	rig_open(&r, "async:2097152");
	for (unsigned int i = 0; i < MANY; i++) {
		memset(bufs[i], (int)i, 512);
		submit(&r, &ios[i], RBP_WRITE, i * 512ull, 512, bufs[i]);
	}
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(await(&r, &ios[i]), 0);
	for (unsigned int i = 0; i < MANY; i++) {
		memset(bufs[i], 0xff, 512);
		submit(&r, &ios[i], RBP_READ, i * 512ull, 512, bufs[i]);
	}
	for (unsigned int i = 0; i < MANY; i++) {
		assert_int_equal(await(&r, &ios[i]), 0);
		assert_int_equal(bufs[i][511], (uint8_t)i);
	}
	reactor_stats(r.worker.reactor, &stats);
	assert_true(stats.messages <= 2 * MANY);
	rig_close(&r);
}

/* I/Os that end while the worker is busy cost one message. */
T_TEST(wake_ups_are_merged)
{
	unsigned int (*waiting)(void);
	void (*release)(void);
	struct reactor_stats stats;
	static struct io ios[100];
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "async:1048576,hold=on");
	waiting = plugin_symbol("async", "async_waiting");
	release = plugin_symbol("async", "async_release");
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		submit(&r, &ios[i], RBP_READ, 0, 512, buf);
	assert_int_equal(waiting(), ARRAY_SIZE(ios));
	assert_int_equal(ios[0].cnt, 0);
	release();
	/* The store accepts the last one only when all others have ended. */
	while (waiting())
		sched_yield();
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		assert_int_equal(await(&r, &ios[i]), 0);
	reactor_stats(r.worker.reactor, &stats);
	assert_in_range(stats.messages, 1, 2);
	rig_close(&r);
}

/* Eight reads block in one volume. The other volume of that worker
 * continues. */
T_TEST(blocking_store_holds_nobody_up)
{
	static struct io stuck[8];
	static uint8_t bufs[8][IO_LEN];
	struct rig r = { 0 };
	struct rig other = { 0 };
	char spec[32];
	uint8_t buf[IO_LEN];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	snprintf(spec, sizeof(spec), "sleeper:%d", ends[0]);
	rig_open(&r, spec);
	other.worker = r.worker;
	rig_open(&other, "liar:");
	for (unsigned int i = 0; i < ARRAY_SIZE(stuck); i++)
		submit(&r, &stuck[i], RBP_READ, 0, IO_LEN, bufs[i]);
	assert_int_equal(run(&other, RBP_READ, 0, IO_LEN, buf), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(stuck); i++)
		assert_int_equal(stuck[i].cnt, 0);
	assert_int_equal(write(ends[1], "sleeper.", 8), 8);
	for (unsigned int i = 0; i < ARRAY_SIZE(stuck); i++)
		assert_int_equal(await(&r, &stuck[i]), 0);
	volume_detach(other.vol, &r.worker);
	volume_close(other.vol);
	rig_close(&r);
	close(ends[0]);
	close(ends[1]);
}

static void growth_is_told(void *user)
{
	++*(unsigned int *)user;
}

T_TEST(store_that_grows_is_looked_at)
{
	void (*grow)(uint64_t bytes);
	unsigned int told = 0;
	struct rig r = { 0 };

	rig_open(&r, "async:1048576");
	backend_plugin_on_resize(growth_is_told, &told);
	grow = plugin_symbol("async", "async_grow");
	assert_int_equal(volume_measure(r.vol), 0);
	grow(2097152);
	assert_int_equal(told, 1);
	assert_int_equal(volume_measure(r.vol), 1);
	assert_int_equal(r.vol->blocks, 4096);
	grow(1048576);
	assert_int_equal(volume_measure(r.vol), -ESTALE);
	backend_plugin_on_resize(NULL, NULL);
	rig_close(&r);
}

/* The first growth leaves a part of a block over. */
T_TEST(layer_grows_with_its_store)
{
	void (*grow)(uint64_t bytes);
	struct rig r = { 0 };

	rig_open(&r, "async:1048576,layer=example-zeroes,fault=read:delay=1");
	grow = plugin_symbol("async", "async_grow");
	grow(1048576 + 512 + 100);
	assert_int_equal(volume_measure(r.vol), 1);
	assert_int_equal(r.vol->blocks, 2049);
	grow(2097152);
	assert_int_equal(volume_measure(r.vol), 1);
	assert_int_equal(r.vol->blocks, 4096);
	rig_close(&r);
}

/* ---- events ---- */

/* Each turn of the level ends one of the I/Os that a single kick announced. */
T_TEST(watch_tells_until_all_is_read)
{
	static struct io ios[100];
	unsigned int *kicks;
	unsigned int *told;
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "events:watch");
	kicks = plugin_symbol("events", "events_kicks");
	told = plugin_symbol("events", "events_ready");
	*kicks = 0;
	*told = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		submit(&r, &ios[i], RBP_READ, 0, 512, buf);
	assert_int_equal(*kicks, 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		assert_int_equal(await(&r, &ios[i]), 0);
	assert_int_equal(*kicks, 1);
	assert_int_equal(*told, ARRAY_SIZE(ios));
	rig_close(&r);
}

T_TEST(watch_is_set_to_other_events)
{
	unsigned int *writable;
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "events:both");
	writable = plugin_symbol("events", "events_writable");
	*writable = 0;
	assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
	assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
	assert_int_equal(*writable, 1);
	rig_close(&r);
}

T_TEST(timer_of_a_plugin_fires)
{
	unsigned int *fired;
	static struct io ios[20];
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "events:timer");
	fired = plugin_symbol("events", "events_fired");
	*fired = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		submit(&r, &ios[i], RBP_READ, 0, 512, buf);
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		assert_int_equal(await(&r, &ios[i]), 0);
	assert_int_equal(*fired, 1);
	rig_close(&r);
}

/* I/O that a kick ends is answered without any other event. */
T_TEST(kick_may_end_io)
{
	unsigned int *kicks;
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "events:kick");
	kicks = plugin_symbol("events", "events_kicks");
	*kicks = 0;
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
	assert_int_equal(*kicks, 3);
	while (reactor_run_once(r.worker.reactor, 0) == 1)
		;
	assert_int_equal(*kicks, 3);
	rig_close(&r);
}

/* A queue is deleted and leaves a watch that is ready and a timer that is
 * due. */
T_TEST(what_a_queue_leaves_is_deleted)
{
	unsigned int *told;
	unsigned int *fired;
	struct error e = { 0 };
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "events:leave");
	told = plugin_symbol("events", "events_ready");
	fired = plugin_symbol("events", "events_fired");
	assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
	*told = 0;
	*fired = 0;
	volume_detach(r.vol, &r.worker);
	reactor_skip(r.worker.reactor, 1000);
	while (reactor_run_once(r.worker.reactor, 0) == 1)
		;
	assert_int_equal(*told, 0);
	assert_int_equal(*fired, 0);
	assert_int_equal(volume_attach(r.vol, &r.worker, &e), 0);
	assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
	assert_int_equal(*told, 1);
	rig_close(&r);
}

/* ---- several targets ---- */

static unsigned int cmds_done;

static void count_cmd(struct block_cmd *cmd)
{
	cmds_done++;
}

/* Another target may have written between the read and the write of a
 * command. */
T_TEST(command_is_not_cut_by_a_switch)
{
	static const char *const specs[] = {
		"async:1048576,hold=on,epochs=on",
		"async:1048576,hold=on,epochs=on,layer=example-zeroes",
		"async:1048576,hold=on,epochs=on,fault=read:delay=1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		uint8_t zeroes[512] = { 0 };
		uint8_t room[512];
		uint8_t buf[512];
		struct rig r = { 0 };
		struct block_cmd cmd = {
			.worker = &r.worker,
			.kind = BLOCK_CMD_COMPARE_WRITE,
			.buf_index = -1,
			.len = sizeof(buf),
			.buf = buf,
			.wanted = zeroes,
			.room = room,
			.room_len = sizeof(room),
			.done = count_cmd,
		};

		rig_open(&r, specs[i]);
		memset(buf, 0x77, sizeof(buf));
		cmd.dev = &r.vol->dev;
		cmd.bio.io.epoch = backend_epoch(cmd.dev->backend);
		cmds_done = 0;
		assert_false(block_start(&cmd));
		((void (*)(void))plugin_symbol("async", "async_switch"))();
		((void (*)(void))plugin_symbol("async", "async_release"))();
		while (!cmds_done)
			reactor_run_once(r.worker.reactor, -1);
		assert_int_equal(cmd.res, -ESHUTDOWN);
		assert_int_equal(run(&r, RBP_READ, 0, 512, buf), 0);
		assert_int_equal(buf[0], 0);
		rig_close(&r);
	}
}

/* ---- plugins that break the contract ---- */

T_TEST(number_of_bytes_is_an_error)
{
	struct rig r = { 0 };
	uint8_t buf[IO_LEN];

	rig_open(&r, "liar:bytes");
	assert_int_equal(run(&r, RBP_READ, 0, IO_LEN, buf), -EIO);
	rig_close(&r);
}

static const struct extent_row {
	const char *name;
	const char *spec;
} extents[] = {
	{ "of length 0", "liar:extent of 0" },
	{ "longer than the range", "liar:extent too long" },
	{ "of a part of a block", "liar:extent of a part" },
};

T_ROWS(extent_is_refused, extents)
{
	const struct extent_row *row = *state;
	struct rig r = { 0 };

	rig_open(&r, row->spec);
	assert_int_equal(run(&r, RBP_EXTENT, 0, IO_LEN, NULL), -EIO);
	rig_close(&r);
}

T_TEST(progress_ends_with_the_request)
{
	struct rig r = { 0 };
	uint8_t buf[IO_LEN];
	struct io io;

	rig_open(&r, "liar:progress");
	submit(&r, &io, RBP_WRITE, 0, IO_LEN, buf);
	assert_int_equal(await(&r, &io), -EIO);
	assert_int_equal(io.bio.io.progress, IO_LEN);
	rig_close(&r);
}

T_TEST(failed_flush_stays_failed)
{
	struct rig r = { 0 };

	rig_open(&r, "liar:flush");
	assert_int_equal(run(&r, RBP_FLUSH, 0, 0, NULL), -EIO);
	assert_int_equal(run(&r, RBP_FLUSH, 0, 0, NULL), -EIO);
	rig_close(&r);
}

/* The store reports lost writes once, to the flush that ends first. The others
 * began before: one is in the store, one waits for its turn. */
T_TEST(flush_beside_a_failed_one_fails)
{
	static struct io reads[254];
	void (*release)(void);
	struct io flushes[3];
	struct rig r = { 0 };
	uint8_t buf[512];

	rig_open(&r, "async:1048576,hold=on,loses=on");
	release = plugin_symbol("async", "async_release");
	submit(&r, &flushes[0], RBP_FLUSH, 0, 0, NULL);
	submit(&r, &flushes[1], RBP_FLUSH, 0, 0, NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
		submit(&r, &reads[i], RBP_READ, 0, 512, buf);
	submit(&r, &flushes[2], RBP_FLUSH, 0, 0, NULL);
	release();
	for (unsigned int i = 0; i < ARRAY_SIZE(flushes); i++)
		assert_int_equal(await(&r, &flushes[i]), -EIO);
	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
		assert_int_equal(await(&r, &reads[i]), 0);
	rig_close(&r);
}

static void sleeper_open(struct rig *r, int ends[2])
{
	char spec[32];

	assert_int_equal(pipe(ends), 0);
	snprintf(spec, sizeof(spec), "sleeper:%d", ends[0]);
	rig_open(r, spec);
}

static void sleeper_close(struct rig *r, const int ends[2])
{
	rig_close(r);
	close(ends[0]);
	close(ends[1]);
}

T_TEST(blocking_flush_beside_a_failed_one_fails)
{
	struct rig r = { 0 };
	struct io flushes[2];
	int ends[2];

	sleeper_open(&r, ends);
	submit(&r, &flushes[0], RBP_FLUSH, 0, 0, NULL);
	submit(&r, &flushes[1], RBP_FLUSH, 0, 0, NULL);
	assert_int_equal(write(ends[1], "L.", 2), 2);
	assert_int_equal(await(&r, &flushes[0]), -EIO);
	assert_int_equal(await(&r, &flushes[1]), -EIO);
	sleeper_close(&r, ends);
}

/* Sets how many processes the user may have, so that no thread can be made. */
static void limit_processes(rlim_t cnt)
{
	struct rlimit limit;

	if (!geteuid() && setresuid(65534, 65534, 65534))
		_exit(2);
	if (getrlimit(RLIMIT_NPROC, &limit))
		_exit(2);
	limit.rlim_cur = cnt < limit.rlim_max ? cnt : limit.rlim_max;
	if (setrlimit(RLIMIT_NPROC, &limit))
		_exit(2);
}

T_TEST(flush_without_a_thread_has_lost_nothing)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct rig r = { 0 };
		struct io flush;
		int ends[2];

		sleeper_open(&r, ends);
		limit_processes(0);
		submit(&r, &flush, RBP_FLUSH, 0, 0, NULL);
		if (await(&r, &flush) != -ENOTCONN)
			_exit(3);
		limit_processes(RLIM_INFINITY);
		submit(&r, &flush, RBP_FLUSH, 0, 0, NULL);
		_exit(write(ends[1], ".", 1) != 1 || await(&r, &flush));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Two reads keep the helper threads until all flushes wait. */
T_TEST(blocking_flush_answers_all_that_wait)
{
	struct rig r = { 0 };
	struct io reads[2];
	struct io flushes[3];
	uint8_t buf[512];
	int ends[2];
	int left;

	sleeper_open(&r, ends);
	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
		submit(&r, &reads[i], RBP_READ, 0, 512, buf);
	for (unsigned int i = 0; i < ARRAY_SIZE(flushes); i++)
		submit(&r, &flushes[i], RBP_FLUSH, 0, 0, NULL);
	assert_int_equal(write(ends[1], ".....", 5), 5);
	for (unsigned int i = 0; i < ARRAY_SIZE(flushes); i++)
		assert_int_equal(await(&r, &flushes[i]), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
		assert_int_equal(await(&r, &reads[i]), 0);
	assert_int_equal(ioctl(ends[0], FIONREAD, &left), 0);
	assert_int_equal(left, 2);
	sleeper_close(&r, ends);
}

/* There are two helper threads. The second flush waits for the first one without a
 * thread, so the read begins. */
T_TEST(blocking_flushes_leave_threads_to_reads)
{
	struct rig r = { 0 };
	unsigned int (*calls)(void);
	struct io flushes[2];
	struct io read;
	uint8_t buf[512];
	int ends[2];

	sleeper_open(&r, ends);
	calls = plugin_symbol("sleeper", "sleeper_calls");
	submit(&r, &flushes[0], RBP_FLUSH, 0, 0, NULL);
	while (calls() < 1)
		sched_yield();
	submit(&r, &flushes[1], RBP_FLUSH, 0, 0, NULL);
	submit(&r, &read, RBP_READ, 0, 512, buf);
	while (calls() < 2)
		sched_yield();
	assert_int_equal(write(ends[1], "...", 3), 3);
	assert_int_equal(await(&r, &read), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(flushes); i++)
		assert_int_equal(await(&r, &flushes[i]), 0);
	assert_int_equal(calls(), 3);
	sleeper_close(&r, ends);
}

/*
 * Two flushes are in progress when the store loses writes, and it reports that to
 * the first one. The other one ends later and has nothing to report, but its
 * writes may be lost as well. That holds before the worker of the first one has
 * seen its end.
 */
static const struct beside_row {
	const char *name;
	unsigned int worker; /* of the second flush; the first one has 0 */
} beside_rows[] = {
	{ "one worker", 0 },
	{ "two workers", 1 },
};

T_ROWS(flush_beside_one_that_fails, beside_rows)
{
	const struct beside_row *row = *state;
	const struct reactor_options opt = { .max_files = 4 };
	struct rig r = { 0 };
	struct rig second = { .worker.index = row->worker };
	unsigned int (*waiting)(void);
	struct io ios[2];
	struct error e;

	rig_open(&r, "async:1048576,hold=on,loses=on");
	second.vol = r.vol;
	if (row->worker) {
		assert_int_equal(reactor_create(&opt, &second.worker.reactor),
				 0);
		assert_int_equal(volume_attach(r.vol, &second.worker, &e), 0);
	}
	waiting = plugin_symbol("async", "async_waiting");
	submit(&r, &ios[0], RBP_FLUSH, 0, 0, NULL);
	submit(row->worker ? &second : &r, &ios[1], RBP_FLUSH, 0, 0, NULL);
	assert_int_equal(waiting(), 2);
	((void (*)(void))plugin_symbol("async", "async_release"))();
	assert_int_equal(await(row->worker ? &second : &r, &ios[1]), -EIO);
	assert_int_equal(await(&r, &ios[0]), -EIO);
	if (row->worker) {
		volume_detach(r.vol, &second.worker);
		reactor_destroy(second.worker.reactor);
	}
	rig_close(&r);
}

/* Data that a flush did not cover is still covered by the next flush. */
T_TEST(flush_that_was_not_done_is_done_later)
{
	static const char *const specs[] = {
		"liar:away",
		"liar:away,layer=example-zeroes",
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct rig r = { 0 };

		rig_open(&r, specs[i]);
		assert_int_equal(run(&r, RBP_FLUSH, 0, 0, NULL), -ENOTCONN);
		assert_int_equal(run(&r, RBP_FLUSH, 0, 0, NULL), 0);
		rig_close(&r);
	}
}

/* If two threads had one I/O, or one were ended in place of another, data would be
 * mixed up. The process ends first. */
static const struct twice_row {
	const char *name;
	const char *spec;
} twice_rows[] = {
	{ "at once", "liar:twice" },
	{ "when its owner has begun another one in its place", "liar:late" },
	{ "when the backend below has it",
	  "async:1048576,hold=on,layer=hollow,twice=on" },
};

T_ROWS(io_that_is_ended_twice_ends_the_process, twice_rows)
{
	const struct twice_row *row = *state;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct rig r = { 0 };
		uint8_t buf[IO_LEN];

		rig_open(&r, row->spec);
		for (unsigned int i = 0; i < 2; i++)
			run(&r, RBP_READ, 0, IO_LEN, buf);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
}

/* ---- layers ---- */

T_TEST(layer_changes_what_passes)
{
	struct rig r = { 0 };
	uint8_t buf[IO_LEN];

	rig_open(&r, "async:1048576,layer=example-zeroes,min=1k");
	memset(buf, 0x11, sizeof(buf));
	assert_int_equal(run(&r, RBP_WRITE, 0, IO_LEN, buf), 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(run(&r, RBP_WRITE, 512, 1024, buf), 0);
	memset(buf, 0x22, sizeof(buf));
	assert_int_equal(run(&r, RBP_READ, 0, IO_LEN, buf), 0);
	assert_int_equal(buf[511], 0x11);
	assert_int_equal(buf[512], 0);
	assert_int_equal(buf[1535], 0);
	assert_int_equal(buf[1536], 0x11);
	assert_int_equal(run(&r, RBP_FLUSH, 0, 0, NULL), 0);
	assert_int_equal(run(&r, RBP_EXTENT, 0, IO_LEN, NULL), 0);
	rig_close(&r);
}

T_TEST(layers_stand_on_each_other)
{
	struct rig r = { 0 };
	uint8_t buf[IO_LEN];

	rig_open(&r, "ram:1M,layer=example-zeroes,layer=example-zeroes");
	memset(buf, 0x33, sizeof(buf));
	assert_int_equal(run(&r, RBP_WRITE, 0, IO_LEN, buf), 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(run(&r, RBP_READ, 0, IO_LEN, buf), 0);
	assert_int_equal(buf[0], 0x33);
	rig_close(&r);
}

/* ---- the layer qos ---- */

static const char *with_qos(const char *args)
{
	static char spec[1024];

	snprintf(spec, sizeof(spec),
		 "ram:4M,layer=%s/qos/rdma-block-plugin-qos.so,%s",
		 getenv("LAYERS"), args);
	return spec;
}

static uint64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* However slow the machine is, the layer passes no more than the rate and the
 * burst. */
T_TEST(qos_limits_requests)
{
	static struct io ios[200];
	unsigned int passed = 0;
	struct rig r = { 0 };
	uint8_t buf[512];
	uint64_t begin;

	rig_open(&r, with_qos("iops=1000,burst=10"));
	begin = clock_ms();
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		submit(&r, &ios[i], RBP_READ, 0, 512, buf);
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		passed += ios[i].cnt;
	assert_in_range(passed, 10, 12 + clock_ms() - begin);
	for (unsigned int i = 0; i < ARRAY_SIZE(ios); i++)
		assert_int_equal(await(&r, &ios[i]), 0);
	assert_true(clock_ms() - begin >= 200 - 12);
	rig_close(&r);
}

/* A request that is larger than the bucket passes. The next large requests wait
 * for it. */
T_TEST(qos_remembers_a_debt)
{
	static uint8_t buf[1u << 17];
	struct rig r = { 0 };
	struct io large;
	struct io next;
	struct io flush;
	uint64_t begin;

	rig_open(&r, with_qos("bps=1M,burst=1"));
	begin = clock_ms();
	submit(&r, &large, RBP_WRITE, 0, sizeof(buf), buf);
	assert_int_equal(large.cnt, 1);
	submit(&r, &next, RBP_WRITE, 0, 1u << 16, buf);
	if (!next.cnt) {
		/* The flush had nothing to wait for. */
		submit(&r, &flush, RBP_FLUSH, 0, 0, NULL);
		assert_int_equal(flush.cnt, 1);
	}
	assert_int_equal(await(&r, &next), 0);
	assert_true(clock_ms() - begin >= 125 - 12);
	rig_close(&r);
}

T_TEST(qos_group_has_one_limit)
{
	struct rig r = { 0 };
	struct rig other = { 0 };
	struct volume *third = NULL;
	struct error e = { 0 };
	struct io first;
	struct io second[2];
	uint8_t buf[512];
	uint64_t begin;

	rig_open(&r, with_qos("iops=10,burst=0,group=g"));
	other.worker = r.worker;
	rig_open(&other, with_qos("iops=10,burst=0,group=g"));
	assert_int_equal(
		open_volume(with_qos("iops=11,burst=0,group=g"), &third, &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "group 'g' has other limits"));
	begin = clock_ms();
	submit(&r, &first, RBP_READ, 0, 512, buf);
	assert_int_equal(first.cnt, 1);
	submit(&other, &second[0], RBP_READ, 0, 512, buf);
	submit(&other, &second[1], RBP_READ, 0, 512, buf);
	assert_int_equal(await(&other, &second[1]), 0);
	/* Each volume owes 100 ms, and both are paid at the same time. */
	assert_true(clock_ms() - begin >= 2 * (100 - 10) - 2);
	volume_detach(other.vol, &r.worker);
	volume_close(other.vol);
	rig_close(&r);
}

T_TEST(qos_needs_a_limit)
{
	struct volume *vol = NULL;
	struct error e = { 0 };

	assert_int_equal(open_volume(with_qos("burst=5"), &vol, &e), -EINVAL);
	assert_non_null(strstr(e.text, "needs a limit: iops= or bps="));
}

/* ---- parameters that change ---- */

static int set_params(struct rig *r, const char *name, const char *arg,
		      struct error *e)
{
	struct plugin_spec spec = { 0 };

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	assert_true(plugin_spec_add(&spec, arg, NULL));
	return backend_set_params(r->vol->dev.backend, &spec, e);
}

static void set_or_fail(struct rig *r, const char *arg)
{
	struct error e = { 0 };

	if (set_params(r, "qos", arg, &e))
		fail_msg("%s", e.text);
}

static const struct set_row {
	const char *name;
	const char *plugin;
	const char *arg;
	int want;
	const char *msg;
} set_rows[] = {
	{ "of a plugin that is not there", "log", "iops=1", -ENOENT,
	  "the volume has no plugin 'log'" },
	{ "of a plugin that changes none", "example-zeroes", "min=1k", -ENOTSUP,
	  "no parameter of plugin example-zeroes can be changed" },
	{ "that the plugin does not have", "qos", "speed=1", -EINVAL,
	  "no parameter 'speed'" },
	{ "to what it cannot be", "qos", "iops=many", -EINVAL,
	  "is a decimal number" },
	{ "that must stay", "qos", "group=h", -EINVAL,
	  "the group cannot be changed" },
};

T_ROWS(set_is_refused, set_rows)
{
	const struct set_row *row = *state;
	struct error e = { 0 };
	struct rig r = { 0 };

	rig_open(&r, with_qos("iops=10,group=g,layer=example-zeroes"));
	assert_int_equal(set_params(&r, row->plugin, row->arg, &e), row->want);
	if (!strstr(e.text, row->msg))
		fail_msg("'%s' is not in '%s'", row->msg, e.text);
	rig_close(&r);
}

/* The second one would wait for minutes. */
T_TEST(qos_that_is_lifted_lets_go)
{
	struct rig r = { 0 };
	uint8_t buf[4096];
	struct io first;
	struct io second;

	rig_open(&r, with_qos("bps=8,burst=0"));
	submit(&r, &first, RBP_READ, 0, sizeof(buf), buf);
	submit(&r, &second, RBP_READ, 0, sizeof(buf), buf);
	assert_int_equal(first.cnt, 1);
	assert_int_equal(second.cnt, 0);
	set_or_fail(&r, "bps=0");
	assert_int_equal(await(&r, &second), 0);
	rig_close(&r);
}

/* The layer owes 128 KiB. Another rate changes how long that takes, not the
 * debt. */
T_TEST(qos_carries_a_debt_over)
{
	static uint8_t buf[1u << 17];
	struct rig r = { 0 };
	struct io large;
	struct io next;
	uint64_t begin;

	rig_open(&r, with_qos("bps=64k,burst=0"));
	begin = clock_ms();
	submit(&r, &large, RBP_WRITE, 0, sizeof(buf), buf);
	submit(&r, &next, RBP_WRITE, 0, 1u << 16, buf);
	assert_int_equal(large.cnt, 1);
	assert_int_equal(next.cnt, 0);
	set_or_fail(&r, "bps=256k");
	assert_int_equal(await(&r, &next), 0);
	assert_true(clock_ms() - begin >= 500 - 12);
	rig_close(&r);
}

T_TEST(qos_group_changes_as_one)
{
	struct rig r = { 0 };
	struct rig other = { 0 };
	uint8_t buf[4096];
	struct io first;
	struct io second[2];

	rig_open(&r, with_qos("bps=8,burst=0,group=g"));
	other.worker = r.worker;
	rig_open(&other, with_qos("bps=8,burst=0,group=g"));
	submit(&r, &first, RBP_READ, 0, sizeof(buf), buf);
	submit(&other, &second[0], RBP_READ, 0, sizeof(buf), buf);
	submit(&other, &second[1], RBP_READ, 0, sizeof(buf), buf);
	assert_int_equal(second[1].cnt, 0);
	set_or_fail(&r, "bps=0");
	assert_int_equal(await(&other, &second[1]), 0);
	volume_detach(other.vol, &r.worker);
	volume_close(other.vol);
	rig_close(&r);
}

/* A small request does not wait for all large ones before it. Large requests do
 * not wait until there are no small ones. */
T_TEST(qos_starves_nobody)
{
	static uint8_t buf[1u << 17];
	static struct io large[8];
	static struct io small[64];
	struct rig r = { 0 };
	unsigned int passed = 0;

	rig_open(&r, with_qos("bps=4M,burst=0"));
	for (unsigned int i = 0; i < ARRAY_SIZE(large); i++)
		submit(&r, &large[i], RBP_READ, 0, sizeof(buf), buf);
	for (unsigned int i = 0; i < ARRAY_SIZE(small); i++)
		submit(&r, &small[i], RBP_READ, 0, 4096, buf);
	await(&r, &small[15]);
	for (unsigned int i = 0; i < ARRAY_SIZE(large); i++)
		passed += large[i].cnt;
	assert_in_range(passed, 1, 3);
	await(&r, &large[1]);
	assert_int_equal(small[63].cnt, 0);
	set_or_fail(&r, "bps=0");
	for (unsigned int i = 0; i < ARRAY_SIZE(large); i++)
		await(&r, &large[i]);
	for (unsigned int i = 0; i < ARRAY_SIZE(small); i++)
		await(&r, &small[i]);
	rig_close(&r);
}
