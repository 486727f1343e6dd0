/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi on a real rdma-target over TCP: every operation, checked on both
 * sides, in large numbers, in parallel, and while one of the two sides goes
 * away.
 *
 * With arguments, the program is a client:
 *	test_srpi URI VOLUME OFFSET SEED
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "initiator/srp_initiator.h"
#include "tests/functional/t_load.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "base/list.h"

#define KIB 1024ul
#define MIB (1024 * KIB)

/* ---- the target that most tests share ---- */

enum volume {
	DISK,	/* a file, O_DIRECT where possible */
	CACHED, /* a file, through the page cache */
	STABLE, /* a file, write-through */
	RAM,
	RAM4K, /* with blocks of 4096 bytes */
	NUL,
	READONLY,
	VOLUMES,
};

static struct t_target target;
static const char *disk_path;
static const char *cached_path;
static const char *stable_path;

static const struct volume_row {
	const char *name;
	uint64_t size;
	uint32_t block_size;
	bool read_only;
	bool write_cache;
} volume_rows[VOLUMES] = {
	[DISK] = { "disk.img", 64 * MIB, 512, false, true },
	[CACHED] = { "cached", 64 * MIB, 512, false, true },
	[STABLE] = { "stable", 16 * MIB, 512, false, false },
	[RAM] = { "ram", 32 * MIB, 512, false, false },
	[RAM4K] = { "ram4k", 32 * MIB, 4096, false, false },
	[NUL] = { "null5", 1024 * MIB, 512, false, false },
	[READONLY] = { "ro", 1 * MIB, 512, true, false },
};

static const char *with(const char *path, const char *options)
{
	static char specs[4][128];
	static unsigned int cnt;
	char *spec = specs[cnt++];

	assert_true(cnt <= ARRAY_SIZE(specs));
	snprintf(spec, sizeof(specs[0]), "%s%s", path, options);
	return spec;
}

static void start_shared_target(void)
{
	const char *ro_path = t_scratch_file("ro.img", 1 * MIB);

	disk_path = t_scratch_file("disk.img", 64 * MIB);
	cached_path = t_scratch_file("cached.img", 64 * MIB);
	stable_path = t_scratch_file("stable.img", 16 * MIB);
	t_target_start(&target,
		       (const char *[]){
			       "-b",
			       disk_path,
			       "-b",
			       with(cached_path, ",name=cached,direct=off"),
			       "-b",
			       with(stable_path, ",name=stable,write-through"),
			       "-b",
			       "ram:32M,name=ram",
			       "-b",
			       "ram:32M,name=ram4k,block-size=4096",
			       "-b",
			       "null:1G",
			       "-b",
			       with(ro_path, ",name=ro,ro"),
			       "-t",
			       "2",
			       NULL,
		       });
}

/* ---- a client ---- */

#define BUF_LEN (20 * MIB)

struct client {
	struct srpi_ctx *ctx;
	struct srpi_session *s;
	struct srpi_mem *mem;
	uint8_t *buf; /* BUF_LEN bytes */
	unsigned int lost;
};

static void state_changed(struct srpi_session *s, enum srpi_state state,
			  const struct srpi_error *why, void *arg)
{
	struct client *c = arg;

	if (state == SRPI_BLOCKED) {
		assert_true(why->err < 0);
		assert_non_null(strstr(why->text, "lost the connection to"));
	}
	c->lost += state == SRPI_LOST;
}

static void client_open(struct client *c, const char *uri,
			const struct srpi_options *options)
{
	struct srpi_options opt = { .struct_size = sizeof(opt) };
	struct srpi_error e = { 0 };

	memset(c, 0, sizeof(*c));
	if (options)
		opt = *options;
	opt.struct_size = sizeof(opt);
	opt.timeout_ms = 60000;
	/* A session that is lost stays lost: other tests cover reconnects. */
	opt.fast_io_fail_ms = 1;
	opt.dev_loss_ms = 2;
	opt.reconnect_delay_ms = SRPI_OFF;
	opt.state_changed = state_changed;
	opt.state_arg = c;
	assert_int_equal(srpi_ctx_create(NULL, &c->ctx, &e), 0);
	if (srpi_connect_wait(c->ctx, uri, &opt, &c->s, &e))
		fail_msg("%s", e.text);
	assert_int_equal(posix_memalign((void **)&c->buf, 4096, BUF_LEN), 0);
	memset(c->buf, 0, BUF_LEN);
	assert_int_equal(srpi_mem_register(c->s, c->buf, BUF_LEN, &c->mem, &e),
			 0);
}

static void client_close(struct client *c)
{
	srpi_mem_free(c->mem);
	srpi_close_wait(c->ctx, c->s);
	srpi_ctx_destroy(c->ctx);
	free(c->buf);
}

static int client_io(struct client *c, enum srpi_op op, unsigned int volume,
		     uint64_t offset, uint64_t len, size_t buf_pos)
{
	struct srpi_io io = {
		.op = op,
		.volume = volume,
		.offset = offset,
		.len = len,
		.buf = c->buf + buf_pos,
		.mem = c->mem,
	};

	return srpi_io_wait(c->ctx, c->s, &io);
}

static void fill_random(uint8_t *buf, size_t len, unsigned int seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(buf + i, &x, 8);
	}
}

static bool is_zero(const uint8_t *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static void read_file(const char *path, off_t offset, void *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, buf, len, offset), len);
	close(fd);
}

static uint64_t file_space(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* ---- volumes ---- */

T_ROWS(volume_is_as_served, volume_rows)
{
	const struct volume_row *r = *state;
	unsigned int want = (unsigned int)(r - volume_rows);
	const struct srpi_volume_info *v;
	unsigned int i = 99;
	struct client c;

	client_open(&c, target.uri, NULL);
	assert_int_equal(srpi_volume_cnt(c.s), VOLUMES);
	assert_int_equal(srpi_volume_find(c.s, r->name, &i), 0);
	assert_int_equal(i, want);
	v = srpi_volume_info(c.s, i);
	assert_string_equal(v->name, r->name);
	assert_int_equal(v->lun, want);
	assert_int_equal(v->size, r->size);
	assert_int_equal(v->block_size, r->block_size);
	assert_int_equal(v->read_only, r->read_only);
	assert_int_equal(v->write_cache, r->write_cache);
	assert_string_equal(v->vendor, "RDMABLK");
	assert_true(v->serial[0]);
	assert_memory_equal(v->naa, "naa.6", 5);
	assert_true(v->unmap || v->read_only);
	client_close(&c);
}

T_TEST(volumes_are_found_by_name_or_lun)
{
	unsigned int i = 99;
	struct client c;

	client_open(&c, target.uri, NULL);
	assert_int_equal(srpi_volume_find(c.s, "3", &i), 0);
	assert_int_equal(i, RAM);
	assert_int_equal(srpi_volume_find(c.s, "nobody", &i), -ENOENT);
	assert_int_equal(srpi_volume_find(c.s, "99", &i), -ENOENT);
	assert_int_equal(srpi_volume_find(c.s, "", &i), -ENOENT);
	assert_int_equal(srpi_volume_find(c.s, "3x", &i), -ENOENT);
	assert_int_equal(i, RAM);
	client_close(&c);
}

T_TEST(session_says_how_it_is_connected)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	struct client c;

	client_open(&c, target.uri, &(struct srpi_options){ .channels = 2 });
	srpi_session_info(c.s, &info);
	assert_string_equal(info.transport, "TCP");
	assert_string_equal(info.peer, target.addr);
	assert_memory_equal(info.local, "127.", 4);
	assert_int_equal(info.channels, 2);
	assert_int_equal(info.queue_depth, 2 * 63);
	assert_true(info.immediate_data);
	assert_int_equal(srpi_session_state(c.s), SRPI_RUNNING);
	client_close(&c);
}

/* ---- reading and writing ---- */

struct rw_row {
	const char *name;
	enum volume volume;
	uint64_t offset;
	uint64_t len;
	bool fua;
	bool no_immediate;
};

#define RW_SIZES(text, vol)                                                         \
	{ text ", one block", vol, 8192, 4096, false, false },                      \
		{ text ", all that is immediate", vol, 40960, 8192, false, false }, \
		{ text ", beyond immediate", vol, 40960, 12288, false, false },     \
		{ text ", 64 KiB", vol, 131072, 65536, false, false },              \
		{ text ", one command's most",                                      \
		  vol,                                                              \
		  4 * MIB,                                                          \
		  4 * MIB,                                                          \
		  false,                                                            \
		  false },                                                          \
		{ text ", two commands", vol,	1 * MIB,                            \
		  4 * MIB + 4096,	 false, false },                            \
		{ text ", 8 MiB", vol, 4096, 8 * MIB, false, false },               \
		{ text ", FUA", vol, 8192, 8192, true, false },                     \
		{ text ", FUA in two commands", vol, 8192, 5 * MIB, true, false },  \
	{                                                                           \
		text ", no immediate data", vol, 4096, 4096, false, true            \
	}

static const struct rw_row rw_rows[] = {
	RW_SIZES("file", DISK),
	RW_SIZES("cached file", CACHED),
	RW_SIZES("write-through file", STABLE),
	RW_SIZES("ram", RAM),
	RW_SIZES("ram of 4k blocks", RAM4K),
	{ "file, 512 bytes", DISK, 512, 512, false, false },
	{ "file, 1024 bytes across a page", DISK, 3584, 1024, false, false },
	{ "file, 8.5 KiB", DISK, 1536, 8704, false, false },
	{ "cached file, 512 bytes", CACHED, 1024, 512, true, false },
	{ "ram, 512 bytes", RAM, 512, 512, false, false },
	{ "ram, 3 blocks", RAM, 1024, 1536, true, false },
	{ "ram, an odd number of blocks, large", RAM, 512, 4 * MIB + 1536,
	  false, false },
	{ "file, its last block", DISK, 64 * MIB - 512, 512, false, false },
	{ "ram, its last blocks", RAM, 32 * MIB - 65536, 65536, false, false },
};

/* The blocks on both sides do not change. */
T_ROWS(what_is_written_is_read_back, rw_rows)
{
	const struct rw_row *r = *state;
	const struct volume_row *vol = &volume_rows[r->volume];
	uint64_t from = r->offset - vol->block_size;
	uint64_t end = r->offset + r->len;
	uint64_t all = r->len + vol->block_size;
	uint8_t *want = malloc(all + vol->block_size);
	struct srpi_io io;
	struct client c;

	if (end < vol->size)
		all += vol->block_size;
	client_open(
		&c, target.uri,
		&(struct srpi_options){ .no_immediate_data = r->no_immediate });
	assert_int_equal(client_io(&c, SRPI_READ, r->volume, from, all, 0), 0);
	memcpy(want, c.buf, all);
	fill_random(want + vol->block_size, r->len, (unsigned int)r->len);
	memcpy(c.buf, want + vol->block_size, r->len);
	io = (struct srpi_io){ .op = SRPI_WRITE,
			       .volume = r->volume,
			       .offset = r->offset,
			       .len = r->len,
			       .buf = c.buf,
			       .mem = c.mem,
			       .fua = r->fua };
	assert_int_equal(srpi_io_wait(c.ctx, c.s, &io), 0);
	memset(c.buf, 0xee, all);
	assert_int_equal(client_io(&c, SRPI_READ, r->volume, from, all, 0), 0);
	assert_memory_equal(c.buf, want, all);
	if (r->volume == DISK || r->volume == CACHED || r->volume == STABLE) {
		const char *path = r->volume == DISK	 ? disk_path
				   : r->volume == CACHED ? cached_path
							 : stable_path;

		read_file(path, (off_t)from, c.buf, all);
		assert_memory_equal(c.buf, want, all);
	}
	client_close(&c);
	free(want);
}

T_TEST(null_volume_takes_all_and_gives_zeroes)
{
	struct client c;

	client_open(&c, target.uri, NULL);
	fill_random(c.buf, 8 * MIB, 1);
	assert_int_equal(client_io(&c, SRPI_WRITE, NUL, 0, 8 * MIB, 0), 0);
	assert_int_equal(client_io(&c, SRPI_READ, NUL, 0, 8 * MIB, 0), 0);
	assert_true(is_zero(c.buf, 8 * MIB));
	client_close(&c);
}

static const struct rw_row zero_rows[] = {
	{ "file", DISK, 1 * MIB, 1 * MIB, false, false },
	{ "cached file", CACHED, 1 * MIB, 1 * MIB, false, false },
	{ "ram", RAM, 1 * MIB, 1 * MIB, false, false },
	{ "ram of 4k blocks", RAM4K, 1 * MIB, 1 * MIB, false, false },
	{ "file, one block", DISK, 512, 512, false, false },
	{ "ram, odd blocks", RAM, 1536, 512 * 7, false, false },
	{ "file, stable", DISK, 8192, 1 * MIB, true, false },
	{ "file, larger than a command writes", DISK, 1 * MIB, 40 * MIB, false,
	  false },
};

/* Writes data, runs @op, and reads zeroes there and data around them. */
static void zero_with(const struct rw_row *r, enum srpi_op op, bool discard)
{
	uint32_t bs = volume_rows[r->volume].block_size;
	uint64_t len = r->len < BUF_LEN / 2 ? r->len : 4 * MIB;
	struct srpi_io io = { .op = op,
			      .volume = r->volume,
			      .offset = r->offset,
			      .len = r->len,
			      .fua = r->fua,
			      .discard = discard };
	struct client c;

	client_open(&c, target.uri, NULL);
	fill_random(c.buf, len + 2 * bs, 7);
	assert_int_equal(client_io(&c, SRPI_WRITE, r->volume, r->offset - bs,
				   len + bs, 0),
			 0);
	assert_int_equal(client_io(&c, SRPI_WRITE, r->volume,
				   r->offset + r->len, bs, len + bs),
			 0);
	assert_int_equal(srpi_io_wait(c.ctx, c.s, &io), 0);
	assert_int_equal(client_io(&c, SRPI_READ, r->volume, r->offset - bs,
				   len + bs, 10 * MIB),
			 0);
	assert_memory_equal(c.buf, c.buf + 10 * MIB, bs);
	assert_true(is_zero(c.buf + 10 * MIB + bs, len));
	assert_int_equal(client_io(&c, SRPI_READ, r->volume, r->offset + r->len,
				   bs, 10 * MIB),
			 0);
	assert_memory_equal(c.buf + len + bs, c.buf + 10 * MIB, bs);
	client_close(&c);
}

T_ROWS(zeroes_are_written, zero_rows)
{
	zero_with(*state, SRPI_WRITE_ZEROES, false);
}

T_ROWS(zeroes_are_written_by_discarding, zero_rows)
{
	zero_with(*state, SRPI_WRITE_ZEROES, true);
}

T_ROWS(discarded_blocks_read_as_zeroes, zero_rows)
{
	zero_with(*state, SRPI_DISCARD, false);
}

static const struct {
	const char *name;
	enum volume volume;
	const char **path;
	enum srpi_op op;
} space_rows[] = {
	{ "discard", DISK, &disk_path, SRPI_DISCARD },
	{ "discard, cached file", CACHED, &cached_path, SRPI_DISCARD },
	{ "write zeroes", DISK, &disk_path, SRPI_WRITE_ZEROES },
};

/* A file system counts blocks of its own records as blocks of the file. They
 * may grow meanwhile: by write-back, and by a hole that splits an extent. */
#define RECORDS_MAX (64u << 10)

T_ROWS(space_of_the_file_is_freed, space_rows)
{
	const __typeof__(space_rows[0]) *r = *state;
	uint64_t space;
	struct srpi_io io = { .op = r->op,
			      .volume = r->volume,
			      .offset = 48 * MIB,
			      .len = 8 * MIB,
			      .discard = true };
	struct client c;

	client_open(&c, target.uri, NULL);
	fill_random(c.buf, 8 * MIB, 3);
	assert_int_equal(
		client_io(&c, SRPI_WRITE, r->volume, 48 * MIB, 8 * MIB, 0), 0);
	assert_int_equal(client_io(&c, SRPI_FLUSH, r->volume, 0, 0, 0), 0);
	space = file_space(*r->path);
	assert_true(space >= 8 * MIB);
	assert_int_equal(srpi_io_wait(c.ctx, c.s, &io), 0);
	assert_true(file_space(*r->path) <= space - 8 * MIB + RECORDS_MAX);
	client_close(&c);
}

T_TEST(flush_works_on_every_volume)
{
	struct client c;

	client_open(&c, target.uri, NULL);
	for (unsigned int v = 0; v < VOLUMES; v++)
		assert_int_equal(client_io(&c, SRPI_FLUSH, v, 0, 0, 0), 0);
	client_close(&c);
}

static void extent_at(struct client *c, uint64_t offset, uint64_t len,
		      bool want_mapped, uint64_t want_len)
{
	struct srpi_io io = {
		.op = SRPI_EXTENT, .volume = DISK, .offset = offset, .len = len
	};

	assert_int_equal(srpi_io_wait(c->ctx, c->s, &io), 0);
	assert_int_equal(io.extent_mapped, want_mapped);
	assert_int_equal(io.extent_len, want_len);
}

/* A program that was built with a newer header, and one that sets no size. */
T_TEST(options_of_other_versions)
{
	struct {
		struct srpi_ctx_options known;
		uint64_t newer;
	} o = { .known.struct_size = sizeof(o) };
	struct srpi_ctx *ctx;
	struct srpi_error e;

	assert_int_equal(srpi_ctx_create(&o.known, &ctx, &e), 0);
	srpi_ctx_destroy(ctx);
	o.newer = 1;
	assert_int_equal(srpi_ctx_create(&o.known, &ctx, &e), -EINVAL);
	assert_non_null(strstr(e.text, srpi_version()));
	o.known.struct_size = 0;
	assert_int_equal(srpi_ctx_create(&o.known, &ctx, &e), -EINVAL);
	assert_string_equal(e.text, "struct_size is not set");
}

T_TEST(extents_tell_data_from_holes)
{
	struct client c;

	client_open(&c, target.uri, NULL);
	assert_int_equal(
		client_io(&c, SRPI_DISCARD, DISK, 56 * MIB, 8 * MIB, 0), 0);
	fill_random(c.buf, MIB, 4);
	assert_int_equal(client_io(&c, SRPI_WRITE, DISK, 57 * MIB, MIB, 0), 0);
	extent_at(&c, 56 * MIB, 8 * MIB, false, MIB);
	extent_at(&c, 57 * MIB, 7 * MIB, true, MIB);
	extent_at(&c, 57 * MIB, 4096, true, 4096);
	extent_at(&c, 58 * MIB, 6 * MIB, false, 6 * MIB);
	extent_at(&c, 58 * MIB, 0, false, 0);
	client_close(&c);
}

/* ---- refusals ---- */

static const struct refused_row {
	const char *name;
	enum srpi_op op;
	unsigned int volume;
	uint64_t offset;
	uint64_t len;
	int res;
} refused_rows[] = {
	{ "read, offset within a block", SRPI_READ, RAM, 256, 512, -EINVAL },
	{ "read, part of a block", SRPI_READ, RAM, 0, 100, -EINVAL },
	{ "write, one byte too many", SRPI_WRITE, RAM, 0, 513, -EINVAL },
	{ "read, half of a 4k block", SRPI_READ, RAM4K, 0, 2048, -EINVAL },
	{ "read past the end", SRPI_READ, RAM, 32 * MIB, 512, -EINVAL },
	{ "read across the end", SRPI_READ, RAM, 32 * MIB - 512, 1024,
	  -EINVAL },
	{ "write past the end", SRPI_WRITE, RAM, 33 * MIB, 512, -EINVAL },
	{ "offset and length wrap", SRPI_READ, RAM, UINT64_MAX - 511, 1024,
	  -EINVAL },
	{ "discard across the end", SRPI_DISCARD, RAM, 0, 32 * MIB + 512,
	  -EINVAL },
	{ "no such volume", SRPI_READ, VOLUMES, 0, 512, -EINVAL },
	{ "flush of no such volume", SRPI_FLUSH, 1000, 0, 0, -EINVAL },
	{ "write to a read-only volume", SRPI_WRITE, READONLY, 0, 512, -EROFS },
	{ "discard on a read-only volume", SRPI_DISCARD, READONLY, 0, 4096,
	  -EROFS },
	{ "zeroes for a read-only volume", SRPI_WRITE_ZEROES, READONLY, 0, 512,
	  -EROFS },
	{ "nothing read at the very end", SRPI_READ, RAM, 32 * MIB, 0, 0 },
	{ "nothing written", SRPI_WRITE, RAM, 0, 0, 0 },
};

T_ROWS(refused, refused_rows)
{
	const struct refused_row *r = *state;
	struct client c;

	client_open(&c, target.uri, NULL);
	assert_int_equal(client_io(&c, r->op, r->volume, r->offset, r->len, 0),
			 r->res);
	/* The session still works. */
	assert_int_equal(client_io(&c, SRPI_READ, RAM, 0, 4096, 0), 0);
	client_close(&c);
}

T_TEST(memory_is_needed_for_data)
{
	struct srpi_io io = { .op = SRPI_READ, .volume = RAM, .len = 512 };
	struct client c;

	client_open(&c, target.uri, NULL);
	io.buf = c.buf;
	assert_int_equal(srpi_io_wait(c.ctx, c.s, &io), -EINVAL);
	client_close(&c);
}

/* ---- large numbers ---- */

/* Runs loads to their end. They must succeed. */
static void run_loads(struct srpi_ctx *ctx, struct t_load **loads,
		      unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		while (!t_load_is_over(loads[i]))
			assert_true(srpi_ctx_run(ctx, -1) >= 0);
		assert_string_equal(t_load_fault(loads[i]), "");
		assert_int_equal(t_load_failed(loads[i]), 0);
		t_load_free(loads[i]);
	}
}

static const struct random_row {
	const char *name;
	struct srpi_options options;
	struct t_load_params load;
} random_rows[] = {
	{ "file, depth 1", { 0 }, { DISK, 0, 4 * MIB, 1, 256 * KIB, 300, 1 } },
	{ "file, depth 32",
	  { 0 },
	  { DISK, 0, 16 * MIB, 32, 64 * KIB, 2000, 2 } },
	{ "cached file, depth 32",
	  { 0 },
	  { CACHED, 1 * MIB, 16 * MIB, 32, 64 * KIB, 3000, 3 } },
	{ "ram, depth 128, 2 channels",
	  { .channels = 2 },
	  { RAM, 0, 16 * MIB, 128, 32 * KIB, 6000, 4 } },
	{ "ram, depth 512, 4 channels",
	  { .channels = 4, .queue_depth = 256 },
	  { RAM, 0, 32 * MIB, 512, 16 * KIB, 10000, 5 } },
	{ "ram, depth 512 on a queue of 4",
	  { .queue_depth = 4 },
	  { RAM, 0, 32 * MIB, 512, 16 * KIB, 3000, 6 } },
	{ "ram of 4k blocks, depth 16, large",
	  { .channels = 2 },
	  { RAM4K, 0, 32 * MIB, 16, 1 * MIB, 500, 7 } },
	{ "ram, more than the target has buffers for",
	  { .channels = 2 },
	  { RAM, 0, 32 * MIB, 3, 5 * MIB, 60, 8 } },
	{ "file, more in flight than the target has buffers for",
	  { .channels = 4 },
	  { DISK, 0, 64 * MIB, 32, 1 * MIB, 400, 9 } },
	{ "write-through file, no immediate data",
	  { .no_immediate_data = true },
	  { STABLE, 0, 8 * MIB, 16, 32 * KIB, 500, 10 } },
	{ "file, small blocks, immediate and not",
	  { .channels = 2 },
	  { DISK, 0, 8 * MIB, 64, 10 * KIB, 5000, 11 } },
};

T_ROWS(random_io_finds_what_it_wrote, random_rows)
{
	const struct random_row *r = *state;
	struct t_load *load;
	struct srpi_options options = r->options;
	struct client c;

	options.struct_size = sizeof(options);
	client_open(&c, target.uri, &options);
	load = t_load_start(c.s, &r->load);
	run_loads(c.ctx, &load, 1);
	client_close(&c);
}

T_TEST(sessions_of_one_context_do_not_disturb_each_other)
{
	enum {
		SESSIONS = 4
	};
	struct srpi_session *s[SESSIONS];
	struct t_load *loads[SESSIONS];
	struct srpi_error e = { 0 };
	struct srpi_ctx *ctx;

	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
	for (unsigned int i = 0; i < SESSIONS; i++) {
		struct srpi_options opt = { .struct_size = sizeof(opt),
					    .channels = 1 + i % 2,
					    .timeout_ms = 60000 };

		if (srpi_connect_wait(ctx, target.uri, &opt, &s[i], &e))
			fail_msg("%s", e.text);
	}
	for (unsigned int i = 0; i < SESSIONS; i++)
		loads[i] = t_load_start(
			s[i],
			&(struct t_load_params){ RAM, i * 8 * MIB, 8 * MIB, 32,
						 64 * KIB, 1500, 20 + i });
	run_loads(ctx, loads, SESSIONS);
	for (unsigned int i = 0; i < SESSIONS; i++)
		srpi_close_wait(ctx, s[i]);
	srpi_ctx_destroy(ctx);
}

/* Runs as a client: test_srpi URI VOLUME OFFSET SEED. */
static int be_client(const char *const *argv)
{
	struct t_load_params p = {
		.volume = (unsigned int)atoi(argv[2]),
		.offset = (uint64_t)atoll(argv[3]),
		.len = 8 * MIB,
		.depth = 32,
		.max_io = 64 * KIB,
		.ops = 2000,
		.seed = (uint64_t)atoll(argv[4]),
	};
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .timeout_ms = 60000 };
	struct srpi_error e = { 0 };
	struct srpi_session *s;
	struct srpi_ctx *ctx;
	struct t_load *load;
	bool good;

	if (srpi_ctx_create(NULL, &ctx, &e) ||
	    srpi_connect_wait(ctx, argv[1], &opt, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	load = t_load_start(s, &p);
	while (!t_load_is_over(load))
		srpi_ctx_run(ctx, -1);
	good = !*t_load_fault(load) && t_load_done(load) == p.ops;
	fprintf(stderr, "%s", t_load_fault(load));
	t_load_free(load);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
	return good ? 0 : 1;
}

static pid_t start_client(unsigned int i)
{
	char offset[32];
	char seed[32];
	pid_t pid;

	snprintf(offset, sizeof(offset), "%lu", i * 8 * MIB);
	snprintf(seed, sizeof(seed), "%u", 40 + i);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", "test_srpi", target.uri,
		      i % 2 ? "0" : "3", offset, seed, (char *)NULL);
		_exit(127);
	}
	return pid;
}

T_TEST(processes_do_not_disturb_each_other)
{
	pid_t pids[4];
	int status;

	for (unsigned int i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = start_client(i);
	for (unsigned int i = 0; i < ARRAY_SIZE(pids); i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void *run_client(void *arg)
{
	return (void *)(intptr_t)be_client(arg);
}

T_TEST(threads_do_not_disturb_each_other)
{
	const char *const argv[][5] = {
		{ NULL, target.uri, "3", "0", "50" },
		{ NULL, target.uri, "3", "8388608", "51" },
		{ NULL, target.uri, "0", "16777216", "52" },
	};
	pthread_t threads[ARRAY_SIZE(argv)];
	void *result;

	for (unsigned int i = 0; i < ARRAY_SIZE(argv); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_client,
						(void *)(uintptr_t)argv[i]),
				 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(argv); i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
}

/* An event loop that is not the library's. */
T_TEST(context_can_be_polled)
{
	const struct srpi_ctx_options opt = { .struct_size = sizeof(opt),
					      .pollable = true };
	const struct t_load_params p = { RAM, 0, 8 * MIB, 8, 32 * KIB, 300, 60 };
	struct srpi_session *s;
	struct srpi_error e = { 0 };
	struct t_load *load;
	struct srpi_ctx *ctx;
	struct pollfd pfd;

	assert_int_equal(srpi_ctx_create(&opt, &ctx, &e), 0);
	assert_int_equal(srpi_connect_wait(ctx, target.uri, NULL, &s, &e), 0);
	load = t_load_start(s, &p);
	pfd = (struct pollfd){ .fd = srpi_ctx_fd(ctx), .events = POLLIN };
	while (!t_load_is_over(load)) {
		if (srpi_ctx_run(ctx, 0) == 0)
			poll(&pfd, 1, -1);
	}
	assert_string_equal(t_load_fault(load), "");
	t_load_free(load);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
}

static void submit_nothing(struct srpi_io *io, int res)
{
}

/* ---- one side goes away ---- */

#define STORM 200

/* Many concurrent writes and reads, each with a count of its answers. */
struct storm {
	struct client *c;
	struct srpi_io ios[STORM];
	unsigned int answers[STORM];
	int results[STORM];
	unsigned int answered;
};

static void storm_done(struct srpi_io *io, int res)
{
	struct storm *st = io->arg;
	size_t i = (size_t)(io - st->ios);

	st->answers[i]++;
	st->results[i] = res;
	st->answered++;
}

static void storm_start(struct storm *st, struct client *c, enum volume volume)
{
	memset(st, 0, sizeof(*st));
	st->c = c;
	for (unsigned int i = 0; i < STORM; i++) {
		st->ios[i] = (struct srpi_io){
			.op = i % 3 ? SRPI_WRITE : SRPI_READ,
			.volume = volume,
			.offset = i * 64 * KIB,
			.len = i % 2 ? 64 * KIB : 4 * KIB,
			.buf = c->buf + i * 64 * KIB,
			.mem = c->mem,
			.done = storm_done,
			.arg = st,
		};
		srpi_submit(c->s, &st->ios[i]);
	}
	assert_int_equal(st->answered, 0); /* no callback inside the call */
}

static void storm_wait(struct storm *st, unsigned int answered)
{
	while (st->answered < answered)
		assert_true(srpi_ctx_run(st->c->ctx, -1) >= 0);
}

/* Each was answered once, with success or with @err. Returns how many
 * failed. */
static unsigned int storm_check(const struct storm *st, int err)
{
	unsigned int failed = 0;

	for (unsigned int i = 0; i < STORM; i++) {
		assert_int_equal(st->answers[i], 1);
		if (st->results[i] == 0)
			continue;
		assert_int_equal(st->results[i], err);
		failed++;
	}
	return failed;
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static const struct {
	const char *name;
	unsigned int channels;
	unsigned int answered; /* answered before the end */
} end_rows[] = {
	{ "at once", 1, 0 },
	{ "after some answers", 1, 20 },
	{ "at once, 4 channels", 4, 0 },
	{ "after some answers, 4 channels", 4, 50 },
};

T_ROWS(close_answers_what_is_in_flight, end_rows)
{
	const __typeof__(end_rows[0]) *r = *state;
	struct srpi_options opt = { .struct_size = sizeof(opt),
				    .channels = r->channels };
	bool closed = false;
	struct storm st;
	struct client c;

	client_open(&c, target.uri, &opt);
	storm_start(&st, &c, DISK);
	storm_wait(&st, r->answered);
	srpi_close(c.s, set_true, &closed);
	assert_false(closed);
	while (!closed)
		assert_true(srpi_ctx_run(c.ctx, -1) >= 0);
	assert_true(storm_check(&st, -ECANCELED) > 0);
	assert_int_equal(c.lost, 0);
	srpi_mem_free(c.mem);
	srpi_ctx_destroy(c.ctx);
	free(c.buf);
}

T_TEST(close_before_connecting_is_over)
{
	struct srpi_session *s;
	struct srpi_error e;
	struct srpi_ctx *ctx;

	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
	for (unsigned int turns = 0; turns < 40; turns++) {
		bool closed = false;

		assert_int_equal(
			srpi_connect(ctx, target.uri, NULL, NULL, NULL, &s, &e),
			0);
		for (unsigned int i = 0; i < turns; i++)
			srpi_ctx_run(ctx, 1);
		srpi_close(s, set_true, &closed);
		while (!closed)
			assert_true(srpi_ctx_run(ctx, -1) >= 0);
	}
	srpi_ctx_destroy(ctx);
}

T_TEST(io_before_running_and_after_lost_is_refused)
{
	struct srpi_io io = { .op = SRPI_FLUSH, .done = submit_nothing };
	static uint8_t buf[4096];
	struct srpi_mem *mem;
	struct t_target mine;
	struct srpi_session *s;
	struct srpi_error e;
	struct srpi_ctx *ctx;
	struct client c;

	t_target_start(&mine, (const char *[]){ "-b", "ram:1M", NULL });
	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
	assert_int_equal(srpi_connect(ctx, mine.uri, NULL, NULL, NULL, &s, &e),
			 0);
	assert_int_equal(srpi_session_state(s), SRPI_CONNECTING);
	assert_int_equal(srpi_mem_register(s, buf, sizeof(buf), &mem, &e),
			 -ENOTCONN);
	assert_int_equal(srpi_io_wait(ctx, s, &io), -ENOTCONN);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);

	client_open(&c, mine.uri, NULL);
	t_target_end(&mine, SIGKILL);
	while (!c.lost)
		assert_true(srpi_ctx_run(c.ctx, -1) >= 0);
	assert_int_equal(srpi_session_state(c.s), SRPI_LOST);
	assert_int_equal(client_io(&c, SRPI_READ, 0, 0, 512, 0), -EIO);
	assert_int_equal(client_io(&c, SRPI_FLUSH, 0, 0, 0, 0), -EIO);
	assert_int_equal(c.lost, 1);
	client_close(&c);
}

/* Expects in @path the data that a write of the storm has left. */
static void check_in_file(const struct storm *st, const char *path)
{
	uint8_t *got = malloc(64 * KIB);

	for (unsigned int i = 0; i < STORM; i++) {
		const struct srpi_io *io = &st->ios[i];

		if (io->op != SRPI_WRITE || st->results[i])
			continue;
		read_file(path, (off_t)io->offset, got, io->len);
		assert_memory_equal(got, io->buf, io->len);
	}
	free(got);
}

T_ROWS(killed_target_keeps_what_it_acknowledged, end_rows)
{
	const __typeof__(end_rows[0]) *r = *state;
	const char *path = t_scratch_file("kill.img", 32 * MIB);
	struct srpi_options opt = { .struct_size = sizeof(opt),
				    .channels = r->channels };
	struct t_target mine;
	struct storm st;
	struct client c;

	t_target_start(&mine, (const char *[]){ "-b", path, "-t", "2", NULL });
	client_open(&c, mine.uri, &opt);
	fill_random(c.buf, BUF_LEN, 6);
	/* A stopped target cannot answer them all before it is killed. */
	storm_start(&st, &c, 0);
	storm_wait(&st, r->answered);
	kill(mine.pid, SIGSTOP);
	t_target_end(&mine, SIGKILL);
	storm_wait(&st, STORM);
	storm_check(&st, -EIO);
	while (!c.lost)
		assert_true(srpi_ctx_run(c.ctx, -1) >= 0);
	assert_int_equal(c.lost, 1);
	check_in_file(&st, path);
	client_close(&c);
}

T_ROWS(terminated_target_keeps_what_it_acknowledged, end_rows)
{
	const __typeof__(end_rows[0]) *r = *state;
	const char *path = t_scratch_file("term.img", 32 * MIB);
	struct srpi_options opt = { .struct_size = sizeof(opt),
				    .channels = r->channels };
	struct t_target mine;
	struct storm st;
	struct client c;
	int status;

	t_target_start(&mine, (const char *[]){ "-b", path, "-t", "2", NULL });
	client_open(&c, mine.uri, &opt);
	fill_random(c.buf, BUF_LEN, 5);
	storm_start(&st, &c, 0);
	storm_wait(&st, r->answered);
	kill(mine.pid, SIGTERM);
	storm_wait(&st, STORM);
	storm_check(&st, -EIO);
	status = t_target_wait(&mine);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	check_in_file(&st, path);
	client_close(&c);
}

/* ---- a second login ---- */

/* All that the first one wrote is there before the second login is accepted. */
T_ROWS(second_login_of_an_initiator_ends_the_first, end_rows)
{
	const __typeof__(end_rows[0]) *r = *state;
	struct srpi_options opt = { .struct_size = sizeof(opt),
				    .channels = r->channels };
	const size_t len = STORM * 64 * KIB;
	char uri[200];
	struct client first;
	struct client second;
	struct storm st;

	snprintf(uri, sizeof(uri), "%s?initiator=%032x", target.uri,
		 r->answered + 1);
	client_open(&first, uri, &opt);
	fill_random(first.buf, BUF_LEN, 8);
	storm_start(&st, &first, DISK);
	storm_wait(&st, r->answered);
	client_open(&second, uri, &opt);
	fill_random(second.buf, len, 9);
	assert_int_equal(client_io(&second, SRPI_WRITE, DISK, 0, len, 0), 0);
	storm_wait(&st, STORM);
	storm_check(&st, -EIO);
	while (!first.lost)
		assert_true(srpi_ctx_run(first.ctx, -1) >= 0);
	assert_int_equal(srpi_session_state(second.s), SRPI_RUNNING);
	read_file(disk_path, 0, first.buf, len);
	assert_memory_equal(first.buf, second.buf, len);
	assert_int_equal(second.lost, 0);
	client_close(&first);
	client_close(&second);
}

/* ---- no connection ---- */

/* The resolver of this program: "two-homed" has two addresses. */
static char two_homed[2][32];
/* Makes getaddrinfo() fail as glibc does on a host without an IPv4 address. */
static bool no_ipv4;

int __real_getaddrinfo(const char *node, const char *service,
		       const struct addrinfo *hints, struct addrinfo **res);
int __wrap_getaddrinfo(const char *node, const char *service,
		       const struct addrinfo *hints, struct addrinfo **res);

static struct addrinfo *resolve(const char *addr)
{
	struct addrinfo *res;
	char host[32];

	snprintf(host, sizeof(host), "%s", addr);
	*strchr(host, ':') = '\0';
	assert_int_equal(__real_getaddrinfo(host, strchr(addr, ':') + 1,
					    &(struct addrinfo){
						    .ai_socktype = SOCK_STREAM,
					    },
					    &res),
			 0);
	return res;
}

int __wrap_getaddrinfo(const char *node, const char *service,
		       const struct addrinfo *hints, struct addrinfo **res)
{
	if (no_ipv4 && (hints->ai_flags & AI_ADDRCONFIG))
		return EAI_ADDRFAMILY;
	if (!node || strcmp(node, "two-homed") != 0)
		return __real_getaddrinfo(node, service, hints, res);
	*res = resolve(two_homed[0]);
	(*res)->ai_next = resolve(two_homed[1]);
	return 0;
}

T_TEST(first_address_that_answers_is_taken)
{
	struct client c;

	t_addr_next(two_homed[0], sizeof(two_homed[0]));
	strcpy(two_homed[1], target.addr);
	client_open(&c, "srp+tcp://two-homed", NULL);
	assert_int_equal(client_io(&c, SRPI_READ, RAM, 0, 4096, 0), 0);
	client_close(&c);
}

T_TEST(number_needs_no_other_address_of_its_family)
{
	struct client c;

	no_ipv4 = true;
	client_open(&c, target.uri, NULL);
	no_ipv4 = false;
	assert_int_equal(client_io(&c, SRPI_READ, RAM, 0, 4096, 0), 0);
	client_close(&c);
}

/* Fails to connect, and returns the error. */
static struct srpi_error no_connection(const char *uri, unsigned int timeout_ms)
{
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .timeout_ms = timeout_ms };
	struct srpi_session *s;
	struct srpi_error e = { 0 };
	struct srpi_ctx *ctx;

	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
	assert_true(srpi_connect_wait(ctx, uri, &opt, &s, &e) < 0);
	srpi_ctx_destroy(ctx);
	return e;
}

static void assert_says(const struct srpi_error *e, const char *text)
{
	if (!strstr(e->text, text))
		fail_msg("'%s' does not say '%s'", e->text, text);
}

T_TEST(last_address_is_named_when_none_answers)
{
	struct srpi_error e;

	t_addr_next(two_homed[0], sizeof(two_homed[0]));
	t_addr_next(two_homed[1], sizeof(two_homed[1]));
	e = no_connection("srp+tcp://two-homed", 60000);
	assert_int_equal(e.err, -ECONNREFUSED);
	assert_says(&e, two_homed[1]);
	assert_says(&e, "two-homed");
}

static const struct {
	const char *name;
	const char *query;
	int err;
	const char *says;
} reject_rows[] = {
	{ "another id_ext", "?id_ext=1", -ECONNREFUSED, "no such target port" },
	{ "another ioc_guid", "?ioc_guid=ffffffffffffffff", -ECONNREFUSED,
	  "no such target port" },
	{ "URI that is none", "?colour=blue", -EINVAL, "colour" },
};

T_ROWS(login_is_refused, reject_rows)
{
	const __typeof__(reject_rows[0]) *r = *state;
	struct srpi_error e;
	char uri[128];

	snprintf(uri, sizeof(uri), "%s%s", target.uri, r->query);
	e = no_connection(uri, 60000);
	assert_int_equal(e.err, r->err);
	assert_says(&e, r->says);
}

T_TEST(nobody_listens)
{
	struct srpi_error e;
	char addr[32];
	char uri[64];

	t_addr_next(addr, sizeof(addr));
	snprintf(uri, sizeof(uri), "srp://%s", addr);
	e = no_connection(uri, 60000);
	assert_int_equal(e.err, -ECONNREFUSED);
	assert_says(&e, addr);
	assert_says(&e, "from 127.");
}

/* A listener that accepts connections and never sends anything. */
static int listen_mute(char *uri, size_t len)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t sin_len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 8), 0);
	getsockname(fd, (struct sockaddr *)&sin, &sin_len);
	snprintf(uri, len, "srp+tcp://127.0.0.1:%u", ntohs(sin.sin_port));
	return fd;
}

T_TEST(nobody_answers)
{
	char uri[64];
	int fd = listen_mute(uri, sizeof(uri));
	struct srpi_error e = no_connection(uri, 300);

	assert_int_equal(e.err, -ETIMEDOUT);
	assert_says(&e, "no answer");
	assert_says(&e, strrchr(uri, '/') + 1);
	close(fd);
}

T_TEST(host_name_is_unknown)
{
	struct srpi_session *s;
	struct srpi_error e;
	struct srpi_ctx *ctx;

	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
	assert_int_equal(srpi_connect(ctx, "srp://host.invalid", NULL, NULL,
				      NULL, &s, &e),
			 -EHOSTUNREACH);
	assert_says(&e, "host.invalid");
	srpi_ctx_destroy(ctx);
}

int main(int argc, char **argv)
{
	int failed;

	if (argc == 5)
		return be_client((const char *const *)argv);
	start_shared_target();
	failed = t_run();
	t_target_stop(&target);
	return failed;
}
