/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plugin srp of nbdkit, with a target in memory in place of libsrpi, and the
 * test in place of nbdkit. The plugin lives once in a process, as nbdkit has it.
 * So each test runs in a child, and what nbdkit would print is in shared memory.
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/t_must.h"
#include "tests/lib/t_srpi.h"
#include "tests/lib/t_table.h"

#define DISK_LEN (8u << 20)
#define BLOCK	 512u
#define MIB	 (1u << 20)

struct nbdkit_plugin *plugin_init(void);

struct nbdkit_exports {
	char text[256];
};

struct nbdkit_extents {
	char text[256];
};

static struct {
	const struct nbdkit_plugin *plugin;
	struct srpi_session *target;
	const char *export;
	/* Called in nbdkit_error(), once. NULL: nothing is. */
	void (*beside_error)(void);
	/* shared with the parent */
	struct {
		char error[512]; /* the last line */
		char debug[512];
		int err; /* of nbdkit_set_error() */
	} * shared;
} world;

/* ---- nbdkit ---- */

__attribute__((format(printf, 1, 2))) void nbdkit_error(const char *msg, ...)
{
	va_list args;

	va_start(args, msg);
	vsnprintf(world.shared->error, sizeof(world.shared->error), msg, args);
	va_end(args);
	if (world.beside_error) {
		void (*f)(void) = world.beside_error;

		world.beside_error = NULL;
		f();
	}
}

__attribute__((format(printf, 1, 2))) void nbdkit_debug(const char *msg, ...)
{
	va_list args;

	va_start(args, msg);
	vsnprintf(world.shared->debug, sizeof(world.shared->debug), msg, args);
	va_end(args);
}

void nbdkit_set_error(int err)
{
	world.shared->err = err;
}

const char *nbdkit_export_name(void)
{
	return world.export;
}

int nbdkit_add_export(struct nbdkit_exports *exports, const char *name,
		      const char *description)
{
	size_t len = strlen(exports->text);

	snprintf(exports->text + len, sizeof(exports->text) - len, "%s ", name);
	return 0;
}

int nbdkit_add_extent(struct nbdkit_extents *extents, uint64_t offset,
		      uint64_t length, uint32_t type)
{
	size_t len = strlen(extents->text);

	snprintf(extents->text + len, sizeof(extents->text) - len,
		 "%c%llu@%llu ",
		 type == (NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO) ? 'h'
		 : type == NBDKIT_EXTENT_HOLE			   ? 'x'
		 : type == 0					   ? 'd'
								   : '?',
		 (unsigned long long)length, (unsigned long long)offset);
	return 0;
}

/* ---- the plugin ---- */

/* False: it does not start. */
static bool start(void)
{
	T_MUST(!world.plugin->config("uri", "srp://host"));
	return !world.plugin->config_complete() && !world.plugin->get_ready() &&
	       !world.plugin->after_fork();
}

static void stop(void)
{
	world.plugin->unload();
	T_MUST(t_srpi_login.open_cnt == 0);
	t_srpi_free(world.target);
}

/* Runs @f in a child, which must not fail. */
static void in_child(void (*f)(const void *arg), const void *arg)
{
	int status;
	pid_t pid;

	memset(world.shared, 0, sizeof(*world.shared));
	world.target = t_srpi_new(NULL, DISK_LEN, BLOCK);
	world.export = "";
	t_srpi_login = (struct t_srpi_login){ .session = world.target };
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		f(arg);
		exit(EXIT_SUCCESS);
	}
	t_srpi_free(world.target);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- life ---- */

static void configure_wrongly(const void *arg)
{
	T_MUST(world.plugin->config("url", "srp://host") == -1);
	T_MUST(!strcmp(world.shared->error,
		       "unknown parameter 'url'; there is uri="));
	T_MUST(world.plugin->config_complete() == -1);
	T_MUST(strstr(world.shared->error, "which target?"));
	world.plugin->unload();
	t_srpi_free(world.target);
}

T_TEST(wrong_parameters)
{
	in_child(configure_wrongly, NULL);
}

static void start_without_target(const void *arg)
{
	t_srpi_login.session = NULL;
	T_MUST(!start());
	stop();
}

T_TEST(no_target)
{
	in_child(start_without_target, NULL);
	assert_string_equal(world.shared->error, "no target at srp://host");
}

static void start_without_volume(const void *arg)
{
	world.target->wanted = "other";
	T_MUST(!start());
	stop();
}

T_TEST(no_volume_of_that_name)
{
	in_child(start_without_volume, NULL);
	assert_string_equal(world.shared->error,
			    "the target shows no volume 'other'");
}

/* nbdkit must still have its terminal when it tells of that. */
static void tell_early(const void *arg)
{
	t_srpi_login.session = NULL;
	T_MUST(!world.plugin->config("uri", "srp://host"));
	T_MUST(!world.plugin->config_complete());
	T_MUST(world.plugin->get_ready() == -1);
	stop();
}

T_TEST(no_target_is_told_before_the_fork)
{
	in_child(tell_early, NULL);
	assert_string_equal(world.shared->error, "no target at srp://host");
}

static const struct open_row {
	const char *name;
	unsigned int volumes;
	const char *wanted;  /* by the URI */
	const char *export;  /* by the client */
	const char *refused; /* NULL: it opens */
	const char *exports;
	const char *dflt;
} open_rows[] = {
	{ "the only volume", 1, NULL, "", NULL, "disk ", "disk" },
	{ "a volume by its name", 1, NULL, "disk", NULL, "disk ", "disk" },
	{ "a volume by its LUN", 2, NULL, "5", NULL, "disk disk ", "" },
	{ "the volume of the URI", 2, "disk", "", NULL, "disk disk ", "disk" },
	{ "another volume", 1, NULL, "other",
	  "the target shows no volume 'other'", "disk ", "disk" },
	{ "none of several", 2, NULL, "",
	  "the target shows several volumes; name one as the export, or in "
	  "the URI",
	  "disk disk ", "" },
	{ "no volume", 0, NULL, "", "the target shows no volume", "", "" },
};

static void open_row_of(const void *arg)
{
	const struct open_row *row = arg;
	struct nbdkit_exports exports = { "" };
	void *h;

	world.target->volumes = row->volumes;
	world.target->wanted = row->wanted;
	world.target->info.lun = 5;
	world.export = row->export;
	T_MUST(start());
	T_MUST(!world.plugin->list_exports(0, 0, &exports));
	T_MUST(!strcmp(exports.text, row->exports));
	T_MUST(!strcmp(world.plugin->default_export(0, 0), row->dflt));
	h = world.plugin->open(0);
	T_MUST(!h == !!row->refused);
	if (h) {
		T_MUST(world.plugin->get_size(h) == DISK_LEN);
		world.plugin->close(h);
	}
	stop();
}

T_ROWS(open_export, open_rows)
{
	const struct open_row *row = *state;

	in_child(open_row_of, row);
	assert_string_equal(world.shared->error,
			    row->refused ? row->refused : "");
}

static const struct info_row {
	const char *name;
	struct srpi_volume_info info;
	int can_write, is_rotational, can_trim, can_fua;
	uint32_t min, preferred;
} info_rows[] = {
	{ "a disk",
	  { .block_size = 512, .physical_block_size = 512, .rotational = true },
	  1,
	  1,
	  0,
	  NBDKIT_FUA_EMULATE,
	  512,
	  4096 },
	{ "a flash disk",
	  { .block_size = 4096,
	    .physical_block_size = 16384,
	    .fua = true,
	    .unmap = true },
	  1,
	  0,
	  1,
	  NBDKIT_FUA_NATIVE,
	  4096,
	  16384 },
	{ "a disk that may only be read",
	  { .block_size = 512, .physical_block_size = 4096, .read_only = true },
	  0,
	  0,
	  0,
	  NBDKIT_FUA_EMULATE,
	  512,
	  4096 },
};

static void look_at_info(const void *arg)
{
	const struct info_row *row = arg;
	const struct nbdkit_plugin *p = world.plugin;
	uint32_t min, preferred, max;
	void *h;

	world.target->info = row->info;
	strcpy(world.target->info.name, "disk");
	world.target->info.size = DISK_LEN;
	T_MUST(start());
	h = p->open(0);
	T_MUST(h);
	T_MUST(p->can_write(h) == row->can_write);
	T_MUST(p->is_rotational(h) == row->is_rotational);
	T_MUST(p->can_trim(h) == row->can_trim);
	T_MUST(p->can_fua(h) == row->can_fua);
	T_MUST(p->can_multi_conn(h) == 1);
	T_MUST(p->can_flush(h) == 1);
	T_MUST(p->can_extents(h) == 1);
	T_MUST(!p->block_size(h, &min, &preferred, &max));
	T_MUST(min == row->min && preferred == row->preferred);
	T_MUST(max >= MIB && max % 4096 == 0);
	p->close(h);
	stop();
}

T_ROWS(info, info_rows)
{
	in_child(look_at_info, *state);
}

/* ---- I/O ---- */

static uint8_t buf[DISK_LEN];

static void *start_io(void)
{
	void *h;

	T_MUST(start());
	h = world.plugin->open(0);
	T_MUST(h);
	for (unsigned int i = 0; i < DISK_LEN; i++) {
		world.target->disk[i] = (uint8_t)(i % 251);
		buf[i] = (uint8_t)(i % 241);
	}
	return h;
}

enum call {
	PREAD,
	PWRITE,
	FLUSH,
	TRIM,
	ZERO,
};

static const struct io_row {
	const char *name;
	enum call call;
	uint32_t count;
	uint64_t offset;
	uint32_t flags;
	unsigned int fail_nth;
	int fail_err;
	const char *commands;
	const char *error; /* NULL: it succeeds */
} io_rows[] = {
	{ "a read", PREAD, 4096, 512, 0, 0, 0, "R4096@512", NULL },
	{ "a read in pieces", PREAD, 2 * MIB + 512, 0, 0, 0, 0,
	  "R1048576@0 R1048576@1048576 R512@2097152", NULL },
	{ "a read whose second piece fails", PREAD, 3 * MIB, 0, 0, 2, -EIO,
	  "R1048576@0 R1048576@1048576",
	  "volume disk: operation 0 of 1048576 bytes at 1048576: Input/output "
	  "error" },
	{ "a write", PWRITE, 512, 1024, 0, 0, 0, "W512@1024", NULL },
	{ "a write in pieces, stable", PWRITE, MIB + 512, 0, NBDKIT_FLAG_FUA, 0,
	  0, "W1048576@0! W512@1048576!", NULL },
	{ "a write whose first piece fails", PWRITE, 2 * MIB, 0, 0, 1, -ENOSPC,
	  "W1048576@0",
	  "volume disk: operation 1 of 1048576 bytes at 0: No space left on "
	  "device" },
	{ "a flush", FLUSH, 0, 0, 0, 0, 0, "F", NULL },
	{ "a flush that fails", FLUSH, 0, 0, 0, 1, -EIO, "F",
	  "volume disk: operation 2 of 0 bytes at 0: Input/output error" },
	{ "a trim", TRIM, 3 * MIB, 512, 0, 0, 0, "D3145728@512", NULL },
	{ "a trim that is stable", TRIM, MIB, 0, NBDKIT_FLAG_FUA, 0, 0,
	  "D1048576@0 F", NULL },
	{ "a trim that fails is not flushed", TRIM, MIB, 0, NBDKIT_FLAG_FUA, 1,
	  -EIO, "D1048576@0",
	  "volume disk: operation 3 of 1048576 bytes at 0: Input/output "
	  "error" },
	{ "zeroes, stable", ZERO, 3 * MIB, 0, NBDKIT_FLAG_FUA, 0, 0,
	  "Z3145728@0!", NULL },
	{ "zeroes that may free the space", ZERO, MIB, 0, NBDKIT_FLAG_MAY_TRIM,
	  0, 0, "Z1048576@0d", NULL },
	/* nbdkit writes them then. */
	{ "zeroes that the target lacks", ZERO, MIB, 0, 0, 1, -EOPNOTSUPP,
	  "Z1048576@0", "" },
};

static int call(void *h, const struct io_row *row)
{
	const struct nbdkit_plugin *p = world.plugin;

	switch (row->call) {
	case PREAD:
		return p->pread(h, buf, row->count, row->offset, row->flags);
	case PWRITE:
		return p->pwrite(h, buf, row->count, row->offset, row->flags);
	case FLUSH:
		return p->flush(h, row->flags);
	case TRIM:
		return p->trim(h, row->count, row->offset, row->flags);
	case ZERO:
		return p->zero(h, row->count, row->offset, row->flags);
	}
	return -2;
}

static void run_io(const void *arg)
{
	const struct io_row *row = arg;
	void *h = start_io();
	const uint8_t *disk = world.target->disk;
	uint64_t end = row->offset + row->count;

	t_srpi_fail(world.target, row->fail_nth, row->fail_err);
	T_MUST(call(h, row) == (row->error ? -1 : 0));
	T_MUST(!strcmp(world.target->log, row->commands));
	if (row->call == TRIM || row->call == ZERO)
		memset(buf, 0, row->count);
	if (!row->error)
		T_MUST(!memcmp(buf, disk + row->offset, row->count) &&
		       disk[end] == end % 251);
	/* The buffers are all back. */
	for (unsigned int i = 0; i < 40; i++)
		T_MUST(!world.plugin->pread(h, buf, 512, 0, 0));
	world.plugin->close(h);
	stop();
}

T_ROWS(io, io_rows)
{
	const struct io_row *row = *state;

	in_child(run_io, row);
	assert_string_equal(world.shared->error, row->error ? row->error : "");
	assert_int_equal(world.shared->err, row->error ? -row->fail_err : 0);
}

struct extent_row {
	const char *name;
	uint32_t count;
	uint64_t offset;
	uint32_t flags;
	unsigned int fail_nth;
	bool keeps_data; /* holes may read as any data */
	const char *extents;
};

/* Data is in 4096 ... 8191. */
static const struct extent_row extent_rows[] = {
	{ "all", 16384, 0, 0, 0, false, "h4096@0 d4096@4096 h8192@8192 " },
	{ "the first", 16384, 0, NBDKIT_FLAG_REQ_ONE, 0, false, "h4096@0 " },
	{ "not a whole block", 100, 4100, 0, 0, false, "d512@4096 " },
	{ "over the edge of a block", 512, 3840, 0, 0, false,
	  "h512@3584 d512@4096 " },
	{ "the second cannot be read", 16384, 0, 0, 2, false, "h4096@0 " },
	{ "holes that need not be zero", 16384, 0, 0, 0, true,
	  "x4096@0 d4096@4096 x8192@8192 " },
};

static void read_extents(const void *arg)
{
	const struct extent_row *row = arg;
	struct nbdkit_extents extents = { "" };
	void *h;

	world.target->info.unmap_zeroes = !row->keeps_data;
	h = start_io();
	memset(world.target->mapped + 8, 1, 8);
	t_srpi_fail(world.target, row->fail_nth, -EIO);
	T_MUST(world.plugin->extents(h, row->count, row->offset, row->flags,
				     &extents) == (row->fail_nth ? -1 : 0));
	T_MUST(!strcmp(extents.text, row->extents));
	world.plugin->close(h);
	stop();
}

T_ROWS(extents, extent_rows)
{
	in_child(read_extents, *state);
}

/* ---- two clients ---- */

/* Both have written. The first one's flush fails. The second one's flush, which
 * may succeed without the lost data, must not say that it is stable; but the one
 * after it may, because the client knows. */
static void flush_of_two(const void *arg)
{
	void *a = start_io();
	void *b = world.plugin->open(0);
	void *c = world.plugin->open(0);

	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	t_srpi_fail(world.target, 3, -EIO);
	T_MUST(world.plugin->flush(a, 0) == -1);
	world.shared->err = 0;
	T_MUST(world.plugin->flush(b, 0) == -1);
	T_MUST(world.shared->err == EIO);
	T_MUST(strstr(world.shared->error,
		      "a flush that another client asked for has failed"));
	T_MUST(!world.plugin->flush(b, 0));
	/* This one has written nothing, */
	T_MUST(!world.plugin->flush(c, 0));
	T_MUST(!world.plugin->flush(a, 0));
	/* and this one nothing that is not stable. */
	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	T_MUST(!world.plugin->flush(a, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	world.target->fail_nth = world.target->cnt + 1;
	T_MUST(world.plugin->flush(b, 0) == -1);
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	world.plugin->close(b);
	world.plugin->close(c);
	stop();
}

T_TEST(failed_flush_reaches_all_writers)
{
	in_child(flush_of_two, NULL);
}

/* Without a connection, one client's flush says nothing about what the other one has
 * written, nor about what it has written itself. */
static void flush_without_connection(const void *arg)
{
	void *a = start_io();
	void *b = world.plugin->open(0);

	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	t_srpi_fail(world.target, 3, -EIO);
	world.target->state = SRPI_FAIL_FAST;
	T_MUST(world.plugin->flush(a, 0) == -1);
	world.target->state = SRPI_RUNNING;
	T_MUST(!world.plugin->flush(b, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	world.target->fail_nth = world.target->cnt + 1;
	T_MUST(world.plugin->flush(b, 0) == -1);
	T_MUST(world.plugin->flush(a, 0) == -1);
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	world.plugin->close(b);
	stop();
}

T_TEST(flush_that_was_refused_fails_no_other_one)
{
	in_child(flush_without_connection, NULL);
}

/* The second client flushes when the target has answered the first one, before the
 * thread of the first one has returned. */
static struct {
	void *handle;
	int res;
} beside;

static void flush_beside(void)
{
	beside.res = world.plugin->flush(beside.handle, 0);
}

static void flush_beside_failure(const void *arg)
{
	void *a = start_io();

	beside.handle = world.plugin->open(0);
	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	T_MUST(!world.plugin->pwrite(beside.handle, buf, 512, 512, 0));
	t_srpi_fail(world.target, 3, -EIO);
	world.beside_error = flush_beside;
	T_MUST(world.plugin->flush(a, 0) == -1);
	T_MUST(beside.res == -1);
	T_MUST(!world.plugin->flush(beside.handle, 0));
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	world.plugin->close(beside.handle);
	stop();
}

T_TEST(failed_flush_reaches_who_flushes_beside_it)
{
	in_child(flush_beside_failure, NULL);
}

/* A client whose connection has broken opens the export again, and takes what it
 * has written before for covered by its next flush. */
static void flush_of_one_that_comes_back(const void *arg)
{
	void *a = start_io();
	void *b = world.plugin->open(0);

	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	world.plugin->close(a);
	t_srpi_fail(world.target, 3, -EIO);
	T_MUST(world.plugin->flush(b, 0) == -1);
	a = world.plugin->open(0);
	T_MUST(world.plugin->flush(a, 0) == -1);
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	/* Nothing is left that was not flushed. */
	a = world.plugin->open(0);
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	world.plugin->close(b);
	stop();
}

T_TEST(failed_flush_reaches_who_comes_back)
{
	in_child(flush_of_one_that_comes_back, NULL);
}

/* What a client has left is stable when another one has flushed. */
static void flush_of_another(const void *arg)
{
	void *a = start_io();
	void *b = world.plugin->open(0);

	T_MUST(!world.plugin->pwrite(a, buf, 512, 0, 0));
	world.plugin->close(a);
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	T_MUST(!world.plugin->flush(b, 0));
	T_MUST(!world.plugin->pwrite(b, buf, 512, 512, 0));
	t_srpi_fail(world.target, 5, -EIO);
	T_MUST(world.plugin->flush(b, 0) == -1);
	a = world.plugin->open(0);
	T_MUST(!world.plugin->flush(a, 0));
	world.plugin->close(a);
	world.plugin->close(b);
	stop();
}

T_TEST(flush_of_another_covers_who_has_left)
{
	in_child(flush_of_another, NULL);
}

#define THREADS 40u

static void *client_main(void *arg)
{
	void *h = world.plugin->open(0);
	unsigned int i = *(unsigned int *)arg;
	uint8_t mine[BLOCK];
	uint8_t got[BLOCK];

	memset(mine, (int)i + 1, sizeof(mine));
	T_MUST(h);
	for (unsigned int n = 0; n < 20; n++) {
		T_MUST(!world.plugin->pwrite(h, mine, BLOCK, i * BLOCK, 0));
		T_MUST(!world.plugin->pread(h, got, BLOCK, i * BLOCK, 0));
		T_MUST(!memcmp(mine, got, BLOCK));
	}
	world.plugin->close(h);
	return NULL;
}

/* More than there are buffers. */
static void run_threads(const void *arg)
{
	pthread_t threads[THREADS];
	unsigned int numbers[THREADS];

	T_MUST(start());
	for (unsigned int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		T_MUST(!pthread_create(&threads[i], NULL, client_main,
				       &numbers[i]));
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop();
}

T_TEST(many_threads)
{
	in_child(run_threads, NULL);
}

/* ---- a client that is gone, and back with a newer write ---- */

static uint8_t older[3 * MIB];

static void *older_main(void *h)
{
	T_MUST(!world.plugin->pwrite(h, older, sizeof(older), 0, 0));
	return NULL;
}

static void *newer_main(void *h)
{
	T_MUST(!world.plugin->pwrite(h, buf, BLOCK, 2 * MIB, 0));
	return NULL;
}

static void hold(struct srpi_session *s)
{
	s->hold = true;
}

/* How many writes the target has, or has to wait with. */
static unsigned int writes_seen;

static void look_at_writes(struct srpi_session *s)
{
	writes_seen = s->cnt + s->ranges.waiting;
}

static void await_writes(unsigned int cnt)
{
	do
		t_srpi_run(world.target, look_at_writes);
	while (writes_seen < cnt);
}

/* The first part of the older write is under way when the newer one comes. */
static void write_of_one_that_comes_back(const void *arg)
{
	void *a = start_io();
	void *b = world.plugin->open(0);
	pthread_t threads[2];

	memset(older, 'a', sizeof(older));
	memset(buf, 'b', BLOCK);
	t_srpi_run(world.target, hold);
	T_MUST(!pthread_create(&threads[0], NULL, older_main, a));
	await_writes(1);
	T_MUST(!pthread_create(&threads[1], NULL, newer_main, b));
	await_writes(2);
	t_srpi_run(world.target, t_srpi_let_go);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	T_MUST(!memcmp(world.target->disk + 2 * MIB, buf, BLOCK));
	world.plugin->close(a);
	world.plugin->close(b);
	stop();
}

T_TEST(older_write_does_not_replace_a_newer_one)
{
	in_child(write_of_one_that_comes_back, NULL);
}

static void change_state(struct srpi_session *s)
{
	const struct srpi_options *o = &t_srpi_login.options;
	const struct srpi_error lost = { -EIO, "the cable was pulled" };
	const struct srpi_error back = { 0, "by another path" };

	o->state_changed(s, SRPI_BLOCKED, &lost, o->state_arg);
	o->state_changed(s, SRPI_RUNNING, &back, o->state_arg);
}

static void lose_session(const void *arg)
{
	T_MUST(start());
	t_srpi_run(world.target, change_state);
	stop();
}

T_TEST(lost_session_is_logged)
{
	in_child(lose_session, NULL);
	assert_string_equal(world.shared->error,
			    "blocked: the cable was pulled");
	assert_string_equal(world.shared->debug,
			    "connected again: by another path");
}

static void start_as_another(const void *arg)
{
	world.target->purpose_fault = "there is another one";
	T_MUST(start());
	stop();
}

/* Another process of the machine serves the same URI, say. */
T_TEST(start_as_another_initiator_is_logged)
{
	in_child(start_as_another, NULL);
	assert_non_null(strstr(world.shared->error, "there is another one"));
}

static void look_at_times(const void *arg)
{
	T_MUST(start());
	T_MUST(t_srpi_login.options.dev_loss_ms == SRPI_OFF);
	stop();
}

/* Nobody mounts again, as after the end of the session of a mount. */
T_TEST(lost_target_is_never_given_up)
{
	in_child(look_at_times, NULL);
}

static void grow(struct srpi_session *s)
{
	const struct srpi_options *o = &t_srpi_login.options;

	s->info.size = 2 * DISK_LEN;
	o->volume_event(s, 0, SRPI_VOLUME_RESIZED, "", o->state_arg);
	/* Its size is not told any more. */
	s->info.size = 0;
	o->volume_event(s, 0, SRPI_VOLUME_GONE, "removed", o->state_arg);
}

static void grow_beside_a_client(const void *arg)
{
	void *before, *after;

	T_MUST(start());
	before = world.plugin->open(0);
	t_srpi_run(world.target, grow);
	after = world.plugin->open(0);
	T_MUST(world.plugin->get_size(before) == DISK_LEN);
	T_MUST(world.plugin->get_size(after) == 2 * DISK_LEN);
	world.plugin->close(before);
	world.plugin->close(after);
	stop();
}

T_TEST(new_client_sees_the_new_size)
{
	in_child(grow_beside_a_client, NULL);
}

int main(void)
{
	world.plugin = plugin_init();
	world.shared = mmap(NULL, sizeof(*world.shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	T_MUST(world.shared != MAP_FAILED);
	return t_run();
}
