/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer log, above a store that answers at once. */
#include "tests/lib/t_host.h"

#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER "fio version 2 iolog\ndisk add\ndisk open\n"

static struct t_host host;

static struct {
	char dir[32];
	char path[64];
	char msg[128];
	int store_res;
} world;

/* ---- the store ---- */

static void below(struct rbp_io *child)
{
	child->extent_len = 512;
	child->extent_mapped = 1;
	child->progress = 1024;
	child->ended(child, world.store_res);
}

/* ---- the volume ---- */

static void begin(void)
{
	static struct rbp_host functions;

	functions = t_host_functions;
	functions.below = below;
	t_host_begin(&host);
	t_host_plug(&host, rdma_block_plugin_1(&functions));
	memset(&world, 0, sizeof(world));
	strcpy(world.dir, "/tmp/test_log.XXXXXX");
	T_MUST(mkdtemp(world.dir));
	snprintf(world.path, sizeof(world.path), "%s/log", world.dir);
}

static void end(void)
{
	t_host_end(&host);
	unlink(world.path);
	assert_int_equal(rmdir(world.dir), 0);
}

static int open_layer(const char *path)
{
	const struct rbp_arg args[] = { { path ? "file" : NULL, path, 0 },
					{ NULL, NULL, 0 } };
	struct rbp_info info = { .size = sizeof(info) };

	return host.plugin->open(NULL, NULL, args, &host.volume, &info,
				 world.msg, sizeof(world.msg));
}

/* It has ended when submit() returns. */
static void submit(struct t_request *r, enum rbp_op op, uint64_t offset,
		   uint64_t len)
{
	t_host_submit(
		&host, r, 0,
		(struct rbp_io){ .op = op, .offset = offset, .len = len });
	assert_true(r->has_ended);
}

/* After close(): all is written. */
static void expect_file(const char *text)
{
	char got[1024] = "";
	int fd = open(world.path, O_RDONLY);

	T_MUST(fd >= 0);
	T_MUST(read(fd, got, sizeof(got) - 1) >= 0);
	close(fd);
	assert_string_equal(got, text);
}

/* ---- tests ---- */

static const struct op_row {
	const char *name;
	enum rbp_op op;
	const char *line;
} op_rows[] = {
	{ "a read", RBP_READ, "disk read 512 4096\n" },
	{ "a write", RBP_WRITE, "disk write 512 4096\n" },
	{ "zeroes", RBP_ZERO, "disk write 512 4096\n" },
	{ "an unmap", RBP_UNMAP, "disk trim 512 4096\n" },
	{ "a flush", RBP_FLUSH, "disk sync 512 4096\n" },
	{ "fio has no word for an extent", RBP_EXTENT, "" },
};

T_ROWS(line, op_rows)
{
	const struct op_row *row = *state;
	struct t_request r;
	char text[256];

	begin();
	assert_int_equal(open_layer(world.path), 0);
	submit(&r, row->op, 512, 4096);
	host.plugin->kick(host.volume, NULL);
	host.plugin->close(host.volume);
	snprintf(text, sizeof(text), "%s%s", HEADER, row->line);
	expect_file(text);
	assert_string_equal(host.log, "");
	end();
}

/* The layer changes nothing that the store says. */
T_TEST(result_passes)
{
	struct t_request r;

	begin();
	assert_int_equal(open_layer(world.path), 0);
	world.store_res = -EIO;
	submit(&r, RBP_READ, 0, 4096);
	assert_int_equal(r.res, -EIO);
	assert_int_equal(r.io.progress, 1024);
	assert_int_equal(r.io.extent_len, 512);
	assert_int_equal(r.io.extent_mapped, 1);
	host.plugin->close(host.volume);
	end();
}

T_TEST(old_log_is_continued)
{
	struct t_request r;

	begin();
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(open_layer(world.path), 0);
		submit(&r, RBP_READ, i * 4096, 4096);
		host.plugin->kick(host.volume, NULL);
		host.plugin->close(host.volume);
	}
	expect_file(HEADER "disk read 0 4096\ndisk read 4096 4096\n");
	end();
}

static const struct refused_row {
	const char *name;
	const char *path;
	int err;
	const char *msg;
} refused_rows[] = {
	{ "no file", NULL, -EINVAL, "needs file=PATH" },
	{ "a directory that is not there", "/nowhere/log", -ENOENT,
	  "file=/nowhere/log: No such file or directory" },
	{ "a directory", "/tmp", -EISDIR, "file=/tmp: Is a directory" },
	{ "a full disk", "/dev/full", -ENOSPC,
	  "file=/dev/full: No space left on device" },
};

T_ROWS(refused, refused_rows)
{
	const struct refused_row *row = *state;

	begin();
	assert_int_equal(open_layer(row->path), row->err);
	assert_string_equal(world.msg, row->msg);
	end();
}

/* ---- a full disk ---- */

/* The file cannot become longer than @len bytes. */
static void limit_file(rlim_t len)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	T_MUST(!getrlimit(RLIMIT_FSIZE, &limit));
	limit.rlim_cur = len;
	T_MUST(!setrlimit(RLIMIT_FSIZE, &limit));
}

static bool has_logged(void)
{
	bool has;

	pthread_mutex_lock(&host.lock);
	has = *host.log;
	pthread_mutex_unlock(&host.lock);
	return has;
}

/* Waits until the layer has met the limit. */
static void meet_limit(void)
{
	host.plugin->kick(host.volume, NULL);
	while (!has_logged())
		t_host_turn(&host);
	assert_string_equal(host.log, "cannot write the log: File too large");
}

/* The volume goes on, and the log goes on when there is room: no line is cut
 * off. */
T_TEST(disk_is_full_for_a_while)
{
	char text[512] = HEADER;
	struct t_request r;

	begin();
	assert_int_equal(open_layer(world.path), 0);
	limit_file(strlen(HEADER) + 30);
	for (unsigned int i = 0; i < 3; i++) {
		submit(&r, RBP_WRITE, i * 4096ull, 4096);
		snprintf(text + strlen(text), 32, "disk write %u 4096\n",
			 i * 4096);
	}
	meet_limit();
	limit_file(RLIM_INFINITY);
	submit(&r, RBP_READ, 0, 512);
	strcat(text, "disk read 0 512\n");
	host.plugin->kick(host.volume, NULL);
	host.plugin->close(host.volume);
	expect_file(text);
	assert_string_equal(host.log, "cannot write the log: File too large");
	end();
}

/* What is not in the file at the end is counted. 4000 lines are more than the
 * layer keeps. */
T_TEST(disk_is_full)
{
	struct t_request r;

	begin();
	assert_int_equal(open_layer(world.path), 0);
	limit_file(strlen(HEADER));
	for (unsigned int i = 0; i < 4000; i++)
		submit(&r, RBP_WRITE, i * 4096ull, 4096);
	meet_limit();
	host.plugin->close(host.volume);
	limit_file(RLIM_INFINITY);
	expect_file(HEADER);
	assert_string_equal(host.log,
			    "cannot write the log: File too large\n"
			    "4000 requests are not in the log: its file cannot "
			    "be written");
	end();
}

/* ---- a file that is too slow ---- */

/* Three times what may wait. */
#define MANY 196608u

static void *read_pipe(void *arg)
{
	FILE *f = fdopen(*(int *)arg, "r");
	static unsigned int cnt;
	char text[128];

	while (fgets(text, sizeof(text), f))
		cnt += !strncmp(text, "disk write", 10);
	fclose(f);
	return &cnt;
}

/* Nobody reads the pipe. What finds no place is left out, and counted. */
T_TEST(slow_file)
{
	unsigned long long left_out = 0;
	struct t_request r;
	pthread_t reader;
	void *cnt;
	int fd;

	begin();
	assert_int_equal(mkfifo(world.path, 0600), 0);
	fd = open(world.path, O_RDONLY | O_NONBLOCK);
	assert_int_equal(open_layer(world.path), 0);
	for (unsigned int i = 0; i < MANY; i++) {
		submit(&r, RBP_WRITE, i * 4096ull, 4096);
		if (i % 1024 == 0)
			host.plugin->kick(host.volume, NULL);
	}
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_pipe, &fd), 0);
	host.plugin->close(host.volume);
	pthread_join(reader, &cnt);
	assert_int_equal(
		sscanf(host.log, "%llu requests are not in the log", &left_out),
		1);
	assert_in_range(left_out, 1, MANY);
	assert_int_equal(*(unsigned int *)cnt + left_out, MANY);
	end();
}
