/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What srpcopy does between its command line and the disk: copies and comparisons
 * of files, pipes and volumes. A target in memory replaces libsrpi.
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "copy/copier.h"
#include "copy/progress.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_srpi.h"
#include "tests/lib/t_table.h"

#define DISK_LEN (1u << 20)
#define BLOCK	 512u
#define REQUEST	 65536u
#define REQUESTS 4u
#define URI	 "srp://host/disk"

static struct {
	char dir[32];
	char file[64];
	char fifo[64];
	char state[64]; /* of a copy that can be resumed */
	struct copy_options o;
	struct place_env env;
	struct srpi_session *target;
	struct place *source;
	struct place *destination;
	struct copier copier;
	struct error e;
} world;

static uint8_t data[DISK_LEN];

static void start(void)
{
	static const struct reactor_options options = { 0 };
	struct srpi_ctx_options ctx_options = { sizeof(ctx_options) };
	struct srpi_error e;

	memset(&world, 0, sizeof(world));
	strcpy(world.dir, "/tmp/test_copier.XXXXXX");
	T_MUST(mkdtemp(world.dir));
	snprintf(world.file, sizeof(world.file), "%s/file", world.dir);
	snprintf(world.fifo, sizeof(world.fifo), "%s/fifo", world.dir);
	snprintf(world.state, sizeof(world.state), "%s/state", world.dir);
	T_MUST(!mkfifo(world.fifo, 0600));
	T_MUST(!reactor_create(&options, &world.env.reactor));
	ctx_options.reactor = world.env.reactor;
	T_MUST(!srpi_ctx_create(&ctx_options, &world.env.ctx, &e));
	world.o = (struct copy_options){ .requests = REQUESTS,
					 .request_size = REQUEST,
					 .sparse = 4096,
					 .compare = true, /* more memory */
					 .log_level = LOG_ERROR };
	world.env.mem_len = copier_mem_len(&world.o);
	world.env.mem = malloc(world.env.mem_len);
	world.target = t_srpi_new(world.env.reactor, DISK_LEN, BLOCK);
	strcpy(world.target->info.naa, "naa.6001");
	t_srpi_login = (struct t_srpi_login){ .session = world.target };
}

static void close_places(void)
{
	place_close(world.destination);
	place_close(world.source);
	world.source = world.destination = NULL;
	assert_int_equal(t_srpi_login.open_cnt, 0);
}

static void stop(void)
{
	close_places();
	srpi_ctx_destroy(world.env.ctx);
	t_srpi_free(world.target);
	reactor_destroy(world.env.reactor);
	free(world.env.mem);
	unlink(world.file);
	unlink(world.fifo);
	unlink(world.state);
	assert_int_equal(rmdir(world.dir), 0);
}

/* ---- data ---- */

/* One letter for each 16 KiB: 'x' data, '0' zeroes that are stored, '.' a hole.
 * @len may cut the last ones. */
#define PART 16384u

static void make_data(const char *parts, size_t len)
{
	memset(data, 0, sizeof(data));
	for (size_t i = 0; i < len; i++) {
		if (parts[i / PART] == 'x')
			data[i] = (uint8_t)(i % 251 + 1);
	}
}

static void make_file(const char *parts, size_t len)
{
	int fd = open(world.file, O_CREAT | O_RDWR | O_TRUNC, 0600);

	make_data(parts, len);
	T_MUST(fd >= 0);
	for (size_t at = 0; at < len; at += PART) {
		size_t part = len - at < PART ? len - at : PART;

		if (parts[at / PART] != '.')
			T_MUST(pwrite(fd, data + at, part, (off_t)at) ==
			       (ssize_t)part);
	}
	T_MUST(!ftruncate(fd, (off_t)len));
	close(fd);
}

static void make_volume(const char *parts)
{
	make_data(parts, strlen(parts) * PART);
	memcpy(world.target->disk, data, DISK_LEN);
	for (size_t i = 0; i < strlen(parts) * PART / BLOCK; i++)
		world.target->mapped[i] = parts[i * BLOCK / PART] != '.';
}

static void expect_file(const char *path, size_t len)
{
	uint8_t *got = malloc(len + 1);
	int fd = open(path, O_RDONLY);

	T_MUST(fd >= 0);
	assert_int_equal(read(fd, got, len + 1), len);
	assert_memory_equal(got, data, len);
	close(fd);
	free(got);
}

/* ---- copies ---- */

static int open_places(const char *from, const char *to, bool compares)
{
	int err;

	world.env.destination = to;
	err = place_open(&world.env, from, PLACE_SOURCE, NULL, &world.source,
			 &world.e);
	return err ? err
		   : place_open(&world.env, to,
				compares ? PLACE_COMPARED : PLACE_DESTINATION,
				world.source, &world.destination, &world.e);
}

static int run(bool compares, uint64_t begin)
{
	struct copier *c = &world.copier;
	int err = 0;

	world.o.compare = compares;
	*c = (struct copier){ .reactor = world.env.reactor,
			      .o = &world.o,
			      .source = world.source,
			      .destination = world.destination,
			      .compares = compares,
			      .begin = begin };
	if (!compares)
		err = place_identify(world.source, &c->source_id, &world.e);
	if (!err && !compares)
		err = place_prepare(world.destination, world.source->size,
				    begin != 0, &world.e);
	if (err)
		return err;
	err = copier_run(c, world.env.mem);
	if (err)
		world.e = c->e;
	return err;
}

static int copy(const char *from, const char *to)
{
	int err = open_places(from, to, false);

	return err ? err : run(false, 0);
}

static const struct copy_row {
	const char *name;
	const char *parts; /* of a source that is 64 KiB for four letters */
	uint64_t cut;	   /* bytes less than the letters say */
	uint32_t sparse;
	bool keeps_data; /* the target, in what is unmapped */
	const char *commands;
} to_volume_rows[] = {
	{ "data", "xxxx", 0, 4096, false, "W65536@0 F" },
	{ "two pieces", "xxxxx", 0, 4096, false, "W65536@0 W16384@65536 F" },
	{ "a hole is not written", "x..x", 0, 4096, false,
	  "W16384@0 Z32768@16384d W16384@49152 F" },
	{ "zeroes become a hole", "x00x", 0, 4096, false,
	  "W16384@0 Z32768@16384d W16384@49152 F" },
	{ "zeroes that are too few are data", "x00x", 0, 65536, false,
	  "W65536@0 F" },
	{ "zeroes are data", "x00x", 0, 0, false, "W65536@0 F" },
	{ "the end within a block", "xx", 100, 4096, false,
	  "R512@32256 W32768@0 F" },
	{ "a hole at an end within a block", "x.", 100, 4096, false,
	  "W16384@0 Z12288@16384d R512@32256 W4096@28672 F" },
};

T_ROWS(file_to_volume, to_volume_rows)
{
	const struct copy_row *row = *state;
	size_t len = strlen(row->parts) * PART - row->cut;

	start();
	world.o.sparse = row->sparse;
	world.o.requests = 1; /* the commands keep their order */
	make_file(row->parts, len);
	memset(world.target->disk, 0xaa, DISK_LEN);
	assert_int_equal(copy(world.file, URI), 0);
	assert_string_equal(world.target->log, row->commands);
	assert_memory_equal(world.target->disk, data, len);
	/* What lies behind the file stays. */
	for (size_t i = len; i < DISK_LEN; i++)
		assert_int_equal(world.target->disk[i], 0xaa);
	assert_int_equal(world.copier.done, len);
	stop();
}

#define ALL_PARTS(part) part part part part
#define X16		"xxxxxxxxxxxxxxxx"
#define HOLE16		"................"

static const struct copy_row from_volume_rows[] = {
	{ "holes are not read", "x" HOLE16 "..............." HOLE16 HOLE16, 0,
	  4096, false, "E1048576@0 R16384@0 E1032192@16384" },
	{ "what may not read as zeroes is read",
	  "x" HOLE16 "..............." HOLE16 HOLE16, 0, 4096, true, NULL },
	{ "data, a hole, data",
	  "xxxx........"
	  "xxxx" HOLE16 HOLE16 X16,
	  0, 4096, false, NULL },
};

T_ROWS(volume_to_file, from_volume_rows)
{
	const struct copy_row *row = *state;
	struct stat st;

	start();
	world.target->info.unmap_zeroes = !row->keeps_data;
	make_volume(row->parts);
	assert_int_equal(copy(URI, world.file), 0);
	if (row->commands) {
		assert_string_equal(world.target->log, row->commands);
	}
	expect_file(world.file, DISK_LEN);
	/* In any case, zeroes become holes of the file. */
	assert_int_equal(stat(world.file, &st), 0);
	assert_in_range(st.st_blocks * 512, 0, DISK_LEN / 2 + PART);
	assert_int_equal(world.copier.data == DISK_LEN, row->keeps_data);
	stop();
}

/* ---- pipes ---- */

static const struct pipe_row {
	const char *name;
	size_t len;
	const char *to; /* NULL: the file */
	uint64_t volume_size;
	const char *refused; /* NULL: it is copied */
} pipe_rows[] = {
	{ "a pipe to a file", 50000, NULL, DISK_LEN, NULL },
	{ "an empty pipe", 0, NULL, DISK_LEN, NULL },
	{ "a pipe to a volume", 50001, URI, DISK_LEN, NULL },
	{ "a pipe that is as long as the volume", 32768, URI, 32768, NULL },
	{ "a pipe that is longer than the volume", 32769, URI, 32768,
	  "is longer than the 32768 bytes of " URI },
};

T_ROWS(from_pipe, pipe_rows)
{
	const struct pipe_row *row = *state;
	int fd;
	int err;

	start();
	make_data("xxxx", row->len);
	world.target->info.size = row->volume_size;
	fd = open(world.fifo, O_RDWR);
	assert_int_equal(write(fd, data, row->len), row->len);
	err = open_places(world.fifo, row->to ? row->to : world.file, false);
	assert_int_equal(err, 0);
	close(fd);
	assert_int_equal(run(false, 0), row->refused ? -EFBIG : 0);
	if (row->refused) {
		assert_non_null(strstr(world.e.text, row->refused));
	} else if (row->to) {
		assert_memory_equal(world.target->disk, data, row->len);
	} else {
		expect_file(world.file, row->len);
	}
	stop();
}

T_TEST(to_pipe)
{
	static uint8_t got[4 * PART + 1];
	int fd;

	start();
	make_file("x0.x", 3 * PART + 1000);
	fd = open(world.fifo, O_RDWR | O_NONBLOCK);
	assert_int_equal(copy(world.file, world.fifo), 0);
	assert_int_equal(read(fd, got, sizeof(got)), 3 * PART + 1000);
	assert_memory_equal(got, data, 3 * PART + 1000);
	close(fd);
	stop();
}

/* ---- errors ---- */

static const struct error_row {
	const char *name;
	const char *from, *to; /* NULL: the file */
	unsigned int nth;      /* command of the target */
	int err;
	const char *text;
} error_rows[] = {
	{ "the allocation map cannot be read", URI, NULL, 1, -EIO,
	  "cannot read the allocation map of srp://host/disk at 0: "
	  "Input/output error" },
	{ "data cannot be read", URI, NULL, 3, -EIO,
	  "cannot read srp://host/disk at 65536: Input/output error" },
	{ "data cannot be written", NULL, URI, 2, -ENOSPC,
	  "cannot write to srp://host/disk at 65536: No space left on device" },
	{ "a flush fails", NULL, URI, 17, -EIO,
	  "cannot flush srp://host/disk: the target may have lost written "
	  "data" },
};

T_ROWS(error, error_rows)
{
	const struct error_row *row = *state;

	start();
	make_volume(ALL_PARTS(X16));
	make_file(ALL_PARTS(X16), DISK_LEN);
	t_srpi_fail(world.target, row->nth, row->err);
	assert_int_equal(copy(row->from ? row->from : world.file,
			      row->to ? row->to : world.file),
			 row->err);
	assert_string_equal(world.e.text, row->text);
	stop();
}

/* The block at the end has more of the volume than of the file. */
T_TEST(last_block_cannot_be_read)
{
	start();
	make_file("xx", 2 * PART - 100);
	t_srpi_fail(world.target, 1, -EIO);
	assert_int_equal(copy(world.file, URI), -EIO);
	assert_string_equal(world.target->log, "R512@32256");
	stop();
}

T_TEST(file_is_cut_meanwhile)
{
	start();
	make_file("xxxx", 4 * PART);
	assert_int_equal(open_places(world.file, URI, false), 0);
	assert_int_equal(truncate(world.file, PART), 0);
	assert_int_equal(run(false, 0), -ENODATA);
	assert_non_null(strstr(world.e.text, "it ends earlier than before"));
	stop();
}

/* ---- comparisons ---- */

struct compare_row {
	const char *name;
	uint64_t at; /* of a byte that differs */
	uint64_t also_at;
	unsigned int fail_nth;
	uint64_t differs_at;
	int res;
};

#define NOWHERE COPIER_NOWHERE

static const struct compare_row compare_rows[] = {
	{ "nothing differs", NOWHERE, NOWHERE, 0, NOWHERE, 0 },
	{ "the first byte", 0, NOWHERE, 0, 0, 0 },
	{ "a byte in a hole of the volume", 3 * PART + 7, NOWHERE, 0,
	  3 * PART + 7, 0 },
	{ "the first of two", 70000, 70001, 0, 70000, 0 },
	{ "the first of two in flight", 200000, 70000, 0, 70000, 0 },
	{ "the last byte", 16 * PART - 1, NOWHERE, 0, 16 * PART - 1, 0 },
	{ "a read fails", NOWHERE, NOWHERE, 1, NOWHERE, -EIO },
};

T_ROWS(compare, compare_rows)
{
	const struct compare_row *row = *state;

	start();
	make_volume("xxx.xxxxxxxxxxxx");
	make_file("xxx0xxxxxxxxxxxx", 16 * PART);
	if (row->at != NOWHERE)
		world.target->disk[row->at] ^= 1;
	if (row->also_at != NOWHERE)
		world.target->disk[row->also_at] ^= 1;
	t_srpi_fail(world.target, row->fail_nth, -EIO);
	assert_int_equal(open_places(world.file, URI, true), 0);
	assert_int_equal(run(true, 0), row->res);
	assert_true(world.copier.differs_at == row->differs_at);
	/* It changes nothing. */
	assert_null(strchr(world.target->log, 'W'));
	assert_null(strchr(world.target->log, 'F'));
	stop();
}

/* ---- copies that are resumed ---- */

/* The copy ends at a write that fails. The state names what is stable before
 * it, and the second copy begins there. */
T_TEST(resume)
{
	struct resume saved;

	start();
	make_file(ALL_PARTS(X16), DISK_LEN);
	world.o.requests = 1;
	world.o.resume = world.state;
	t_srpi_fail(world.target, 3, -EIO);
	assert_int_equal(copy(world.file, URI), -EIO);
	assert_int_equal(resume_load(world.state, &saved, &world.e), 0);
	assert_int_equal(saved.done, 2 * REQUEST);
	assert_true(saved.is_last);
	assert_memory_equal(world.target->disk, data, saved.done);
	assert_string_equal(saved.destination.id, "volume naa.6001");
	close_places();
	t_srpi_reset(world.target);
	assert_int_equal(open_places(world.file, URI, false), 0);
	assert_int_equal(run(false, saved.done), 0);
	assert_memory_equal(world.target->disk, data, DISK_LEN);
	assert_int_equal(strncmp(world.target->log, "W65536@131072 ", 14), 0);
	stop();
}

/* A flush that fails makes nothing stable. */
T_TEST(failed_flush_is_not_saved)
{
	struct resume saved;

	start();
	make_file("xxxxxxxx", 8 * PART);
	world.o.requests = 1;
	world.o.resume = world.state;
	t_srpi_fail(world.target, 3, -EIO);
	assert_int_equal(copy(world.file, URI), -EIO);
	assert_string_equal(world.target->log, "W65536@0 W65536@65536 F");
	assert_int_equal(resume_load(world.state, &saved, &world.e), -ENOENT);
	stop();
}

T_TEST(state_cannot_be_written)
{
	start();
	make_file("xxxxxxxx", 8 * PART);
	world.o.resume = "/nowhere/state";
	assert_int_equal(copy(world.file, URI), -ENOENT);
	assert_non_null(strstr(world.e.text, "/nowhere/state"));
	stop();
}

/* ---- signals ---- */

static struct {
	struct reactor_msg msg;
	unsigned int cnt;
} signals;

/* As soon as the target has all that may be in flight. */
static void interrupt(struct reactor_msg *msg)
{
	if (world.target->waiting_cnt < REQUESTS) {
		reactor_send(world.env.reactor, msg);
		return;
	}
	for (unsigned int i = 0; i < signals.cnt; i++)
		copier_interrupt(&world.copier);
	t_srpi_let_go(world.target);
}

static void interrupt_soon(unsigned int cnt)
{
	world.target->hold = true;
	signals.msg.run = interrupt;
	signals.cnt = cnt;
	reactor_send(world.env.reactor, &signals.msg);
}

/* What is in flight ends, and is flushed; nothing else is begun. */
T_TEST(interrupted)
{
	struct resume saved;

	start();
	make_file(ALL_PARTS(X16), DISK_LEN);
	world.o.resume = world.state;
	assert_int_equal(open_places(world.file, URI, false), 0);
	interrupt_soon(1);
	assert_int_equal(run(false, 0), 0);
	assert_true(world.copier.interrupted);
	assert_false(world.copier.abandoned);
	assert_int_equal(resume_load(world.state, &saved, &world.e), 0);
	assert_int_equal(saved.done, REQUESTS * REQUEST);
	assert_memory_equal(world.target->disk, data, saved.done);
	assert_int_equal(world.copier.stable, saved.done);
	stop();
}

/* The caller must leave memory and places alone. */
T_TEST(interrupted_twice)
{
	start();
	make_file(ALL_PARTS(X16), DISK_LEN);
	assert_int_equal(open_places(world.file, URI, false), 0);
	interrupt_soon(2);
	assert_int_equal(run(false, 0), 0);
	assert_true(world.copier.abandoned);
	while (!list_empty(&world.copier.busy))
		reactor_run_once(world.env.reactor, -1);
	free(world.copier.pieces);
	stop();
}

/* ---- volumes ---- */

static const struct open_row {
	const char *name;
	unsigned int volumes;
	bool read_only;
	bool has_no_target;
	const char *uri;
	const char *refused; /* NULL: it opens */
} open_rows[] = {
	{ "a volume by its name", 3, false, false, URI, NULL },
	{ "the only volume", 1, false, false, "srp://host", NULL },
	{ "several volumes", 2, false, false, "srp://host",
	  "srp://host names no volume, as in srp://HOST/VOLUME; the target "
	  "has: disk, disk" },
	{ "no volume", 0, false, false, "srp://host", "the target has: none" },
	{ "another name", 1, false, false, "srp://host/other",
	  "no volume 'other' at srp://host/other; the target has: disk" },
	{ "a volume that may only be read", 1, true, false, URI,
	  URI " is read-only" },
	{ "no target", 1, false, true, URI, "no target at " URI },
};

T_ROWS(open_volume, open_rows)
{
	const struct open_row *row = *state;
	int err;

	start();
	world.target->volumes = row->volumes;
	world.target->info.read_only = row->read_only;
	if (row->has_no_target)
		t_srpi_login.session = NULL;
	world.env.destination = row->uri;
	err = place_open(&world.env, row->uri, PLACE_DESTINATION, NULL,
			 &world.destination, &world.e);
	if (row->refused) {
		assert_true(err < 0);
		assert_non_null(strstr(world.e.text, row->refused));
	} else {
		assert_int_equal(err, 0);
		assert_int_equal(world.destination->size, DISK_LEN);
		assert_int_equal(world.destination->block_size, BLOCK);
	}
	stop();
}

static const struct pair_row {
	const char *name;
	const char *a, *b;
	unsigned int sessions;
} pair_rows[] = {
	{ "one target", "srp://host/disk", "srp://host/disk", 1 },
	{ "with the same options", "srp://host/disk?initiator=0x1",
	  "srp://host/disk?initiator=0x1", 1 },
	{ "another host", "srp://host/disk", "srp://hose/disk", 2 },
	{ "a longer name", "srp://host/disk", "srp://host1/disk", 2 },
	{ "another port", "srp://host:1/disk", "srp://host:2/disk", 2 },
};

/* A second login of one initiator would end the first session. */
T_ROWS(two_volumes, pair_rows)
{
	const struct pair_row *row = *state;

	start();
	/* The parser of t_srpi.c takes options for a part of the name. */
	strcpy(world.target->info.name,
	       strchr(row->a, '?') ? "disk?initiator=0x1" : "disk");
	assert_int_equal(open_places(row->a, row->b, false), 0);
	assert_int_equal(t_srpi_login.open_cnt, row->sessions);
	assert_true(place_is_same(world.source, world.destination));
	stop();
}

/* I/O waits for a lost target, so that a signal must not wait for I/O. */
T_TEST(lost_target)
{
	const struct srpi_error lost = { -EIO, "the cable was pulled" };
	const struct srpi_error back = { 0, "connected again" };
	struct place_io io = { .op = PLACE_READ, .offset = 512 };
	struct srpi_options *o = &t_srpi_login.options;

	start();
	world.env.wait_ms = 600000;
	assert_int_equal(open_places(URI, world.file, false), 0);
	assert_int_equal(o->dev_loss_ms, 600000);
	assert_int_equal(o->fast_io_fail_ms, SRPI_OFF);
	o->state_changed(world.target, SRPI_BLOCKED, &lost, o->state_arg);
	o->state_changed(world.target, SRPI_BLOCKED, &lost, o->state_arg);
	assert_false(place_is_running(world.source));
	assert_true(place_is_running(world.destination));
	io.place = world.source;
	assert_int_equal(place_explain(&io, -EIO, &world.e), -EIO);
	assert_string_equal(world.e.text,
			    "cannot read " URI " at 512: the cable was pulled");
	o->state_changed(world.target, SRPI_RUNNING, &back, o->state_arg);
	assert_true(place_is_running(world.source));
	stop();
}

/* ---- progress ---- */

static int old_stderr;

static void redirect(int fd)
{
	fflush(stderr);
	old_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
}

static void restore(void)
{
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
}

#define MIB (1u << 20)

/* A line for each second in which something was done, and the last one. */
T_TEST(progress_lines)
{
	char got[512] = "";
	FILE *f = tmpfile();

	redirect(fileno(f));
	progress_begin(/* wanted= */ true, "copied");
	progress_show(0, 4 * MIB, 0, 1000000);
	progress_show(MIB, 4 * MIB, 0, 1500000);
	progress_show(MIB, 4 * MIB, 0, 2000000);
	progress_show(MIB, 4 * MIB, 0, 4000000);
	progress_show(2 * MIB, 4 * MIB, 0, 4500000);
	progress_end(4 * MIB, 4 * MIB, 0, 5000000);
	progress_show(4 * MIB, 4 * MIB, 0, 9000000);
	restore();
	rewind(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(
		got, " 25% 1 MiB of 4 MiB copied, 1 MiB/s, 0:03 left\n"
		     " 50% 2 MiB of 4 MiB copied, 585.1 KiB/s, 0:03 left\n"
		     "100% 4 MiB of 4 MiB copied, 1 MiB/s\n");
}

static const struct progress_row {
	const char *name;
	unsigned short columns;
	uint64_t done, total;
	const char *text; /* the last line, and its end */
} progress_rows[] = {
	{ "a bar", 80, MIB, 4 * MIB,
	  "\r[=======>                      ]  25% 1 MiB of 4 MiB copied, "
	  "1 MiB/s, 0:03 left\033[K\r\033[K" },
	{ "no room for a bar", 50, MIB, 4 * MIB,
	  "\r 25% 1 MiB of 4 MiB copied, 1 MiB/s, 0:03 left\033[K\r\033[K" },
	{ "hours", 50, MIB, 8192ull * MIB,
	  "\r  0% 1 MiB of 8 GiB copied, 1 MiB/s, 2:16:31 left\033[K\r\033[K" },
	{ "no known end", 80, MIB, 0, "\r1 MiB copied, 1 MiB/s\033[K\r\033[K" },
};

T_ROWS(progress_terminal, progress_rows)
{
	const struct progress_row *row = *state;
	struct winsize size = { .ws_row = 24, .ws_col = row->columns };
	char got[512] = "";
	size_t len = 0;
	ssize_t n;
	int master, slave;

	assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
	redirect(slave);
	progress_begin(/* wanted= */ false, "copied");
	progress_show(0, row->total, 0, 1000000);
	progress_show(row->done, row->total, 0, 2000000);
	progress_hide();
	restore();
	close(slave);
	/* Until all has been read. */
	while ((n = read(master, got + len, sizeof(got) - 1 - len)) > 0)
		len += (size_t)n;
	assert_in_range(strlen(got), strlen(row->text), sizeof(got) - 1);
	assert_string_equal(got + strlen(got) - strlen(row->text), row->text);
	close(master);
}
