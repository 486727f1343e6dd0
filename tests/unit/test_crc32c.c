/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layer crc32c, on a store and a file of checksums that both lose data that
 * was not flushed. A round is one life of the layer: random I/O, until the
 * target is killed or the power is cut. In the next life every good block must
 * be readable, and a block that has lost a flushed write must not be.
 *
 * The linker replaces pwrite(), fdatasync() and fallocate() of the layer by
 * functions of this file. CRC32C_ROUNDS sets the number of rounds.
 */
#include "tests/lib/t_host.h"

#include "tests/lib/t_table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define CRASH_BLOCK	512u
#define CRASH_BLOCKS	1024u
#define CRASH_SECTOR	512u
#define CRASH_HEADER	4096u
#define CRASH_FILE	(CRASH_HEADER + CRASH_BLOCKS * 16u)
#define CRASH_SECTORS	(CRASH_FILE / CRASH_SECTOR)
#define CRASH_IOS	4u
#define CRASH_IO_BLOCKS 64u
/* Written blocks lie in this many groups. The groups are far enough apart that
 * their records share no sector of the file. */
#define CRASH_GROUPS	 8u
#define CRASH_GROUP_STEP 128u
#define CRASH_GROUP_LEN	 8u
/* Marks a block that has other data than it should. */
#define CRASH_FOREIGN (1ull << 60)

/* What is known of a block. */
enum crash_known {
	CRASH_UNSURE,  /* may have any data */
	CRASH_WRITTEN, /* a write has ended well */
	CRASH_SURE,    /* and a flush after it */
};

/* What a power cut leaves of the data that was written and not flushed. */
enum crash_luck {
	CRASH_CHANCE, /* any part of it */
	CRASH_NOTHING,
	CRASH_ALL,
	CRASH_HEADER_ALONE, /* only the header of the file */
};

/* What is left after a crash. */
struct crash_left {
	/* A block has the number of the write that it is from; 0: zeroes. */
	uint64_t now[CRASH_BLOCKS];
	uint64_t stable[CRASH_BLOCKS]; /* left after a power cut */
	enum crash_known known[CRASH_BLOCKS];
	uint8_t file[CRASH_FILE];
	uint8_t file_stable[CRASH_FILE];
	bool is_dirty[CRASH_SECTORS]; /* the next fdatasync() writes it */
};

struct crash_row {
	const char *name;
	uint32_t caps;
	bool syncs;
	bool cuts_power;    /* false: the target is killed */
	bool file_may_fail; /* pwrite() and fdatasync() of the file */
	bool writes_may_fail;
};

struct crash_io {
	struct t_request r; /* first: the host finds the request by it */
	bool is_below;	    /* the child is still running */
	int below_res;
	bool is_done;
	int res;
	_Alignas(uint64_t) uint8_t data[CRASH_IO_BLOCKS * CRASH_BLOCK];
};

static struct crash_world {
	const struct crash_row *row;
	char path[64];
	int fd; /* of the file; its offset is not used */

	pthread_mutex_t lock; /* guards all members below */
	uint64_t seed;
	struct crash_left left;
	struct crash_left at_crash;
	bool has_crashed;
	long steps_left;     /* steps until the crash; -1: there is no crash */
	bool at_next_write;  /* crash before the next write reaches the store */
	bool at_next_header; /* crash after the next write of the header */
	bool next_fails;     /* the next write of the store fails and changes
			      * nothing */
	enum crash_luck luck_of_store;
	enum crash_luck luck_of_file;
	long file_ops_left; /* operations until the file fails; -1: never */
	uint64_t write_cnt;
	unsigned int busy; /* entries of ios in use */
	struct crash_io ios[CRASH_IOS];
} world = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct t_host host;

/* xorshift64; under the lock */
static uint64_t crash_chance(uint64_t below)
{
	world.seed ^= world.seed << 13;
	world.seed ^= world.seed >> 7;
	world.seed ^= world.seed << 17;
	return (world.seed >> 11) % below;
}

static uint64_t crash_choose(uint64_t below)
{
	uint64_t n;

	pthread_mutex_lock(&world.lock);
	n = crash_chance(below);
	pthread_mutex_unlock(&world.lock);
	return n;
}

/* Called with the lock held. */
static void crash_now(void)
{
	world.has_crashed = true;
	world.at_crash = world.left;
}

/* Called with the lock held when something has changed. */
static void crash_step(void)
{
	if (world.steps_left > 0 && !--world.steps_left && !world.has_crashed)
		crash_now();
}

/* ---- the file ---- */

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t at);
int __wrap_fdatasync(int fd);
int __wrap_fallocate(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t len);

static bool crash_is_kept(enum crash_luck luck, bool is_header)
{
	if (luck == CRASH_CHANCE)
		return crash_chance(2);
	return luck == CRASH_ALL || (luck == CRASH_HEADER_ALONE && is_header);
}

/* After a power cut, each sector has the data of the last sync, or anything
 * newer. */
static void crash_file_changed(uint64_t at, size_t len)
{
	for (uint64_t s = at / CRASH_SECTOR; s * CRASH_SECTOR < at + len; s++) {
		world.left.is_dirty[s] = true;
		if (crash_is_kept(world.luck_of_file, !s))
			memcpy(world.left.file_stable + s * CRASH_SECTOR,
			       world.left.file + s * CRASH_SECTOR,
			       CRASH_SECTOR);
	}
}

static bool crash_file_fails(void)
{
	if (world.file_ops_left > 0)
		world.file_ops_left--;
	return !world.file_ops_left;
}

/* Also writes to the file system: the layer reads from there. */
static ssize_t crash_file_write(int fd, const void *buf, size_t len, off_t at)
{
	struct iovec v = { (void *)(uintptr_t)buf, len };

	memcpy(world.left.file + at, buf, len);
	crash_file_changed((uint64_t)at, len);
	return pwritev(fd, &v, 1, at);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	ssize_t n = -1;

	pthread_mutex_lock(&world.lock);
	assert_true((uint64_t)at + len <= CRASH_FILE);
	if (!crash_file_fails())
		n = crash_file_write(fd, buf, len, at);
	else if (len > CRASH_SECTOR && crash_chance(2))
		n = crash_file_write(fd, buf, CRASH_SECTOR, at);
	if (world.at_next_header && !at && !world.has_crashed)
		crash_now();
	crash_step();
	pthread_mutex_unlock(&world.lock);
	if (n < 0)
		errno = ENOSPC;
	return n;
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t at)
{
	return __wrap_pwrite(fd, buf, len, at);
}

/* After a failure, the kernel takes the pages for clean. No later call writes
 * them. */
int __wrap_fdatasync(int fd)
{
	bool fails;

	pthread_mutex_lock(&world.lock);
	fails = crash_file_fails();
	for (unsigned int s = 0; s < CRASH_SECTORS; s++) {
		if (world.left.is_dirty[s] && !fails)
			memcpy(world.left.file_stable + s * CRASH_SECTOR,
			       world.left.file + s * CRASH_SECTOR,
			       CRASH_SECTOR);
		world.left.is_dirty[s] = false;
	}
	crash_step();
	pthread_mutex_unlock(&world.lock);
	if (fails)
		errno = EIO;
	return fails ? -1 : 0;
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t len)
{
	errno = EOPNOTSUPP;
	return -1;
}

int __wrap_fallocate64(int fd, int mode, off_t at, off_t len)
{
	return __wrap_fallocate(fd, mode, at, len);
}

/* Installs the file that the crash left. An empty file has never had a
 * header. */
static void crash_file_install(void)
{
	struct iovec v = { world.left.file, CRASH_FILE };

	assert_int_equal(ftruncate(world.fd, 0), 0);
	if (world.left.file[0])
		assert_int_equal(pwritev(world.fd, &v, 1, 0), CRASH_FILE);
}

/* ---- the store ---- */

static struct crash_io *crash_io_of(struct rbp_io *io)
{
	for (unsigned int i = 0; i < CRASH_IOS; i++) {
		if (io == &world.ios[i].r.io || io == &world.ios[i].r.child)
			return &world.ios[i];
	}
	fail_msg("an I/O that nobody has submitted");
	return NULL;
}

static bool crash_is_change(const struct rbp_io *io)
{
	return io->op == RBP_WRITE || io->op == RBP_ZERO || io->op == RBP_UNMAP;
}

/* True if the data of the block is on its way to the store. */
static bool crash_is_in_flight(uint64_t block)
{
	for (unsigned int i = 0; i < CRASH_IOS; i++) {
		const struct rbp_io *c = &world.ios[i].r.child;

		if (world.ios[i].is_below && crash_is_change(c) &&
		    block >= c->offset / CRASH_BLOCK &&
		    block < (c->offset + c->len) / CRASH_BLOCK)
			return true;
	}
	return false;
}

static void crash_store_flush(void)
{
	for (uint64_t b = 0; b < CRASH_BLOCKS; b++) {
		if (!crash_is_in_flight(b))
			world.left.stable[b] = world.left.now[b];
	}
}

/* A write that fails has changed some of its blocks. */
static void crash_store_change(const struct rbp_io *io, bool fails)
{
	uint64_t first = io->offset / CRASH_BLOCK;

	for (uint64_t i = 0; i < io->len / CRASH_BLOCK; i++) {
		uint64_t number = 0;

		if (io->op == RBP_WRITE)
			memcpy(&number,
			       (const uint8_t *)io->buf + i * CRASH_BLOCK,
			       sizeof(number));
		if (fails && (world.next_fails || crash_chance(2)))
			continue;
		world.left.now[first + i] = number;
		if (crash_is_kept(world.luck_of_store, false))
			world.left.stable[first + i] = number;
	}
}

static void crash_store_read(const struct rbp_io *io)
{
	uint64_t first = io->offset / CRASH_BLOCK;
	uint64_t *p = io->buf;

	for (uint64_t i = 0; i < io->len / CRASH_BLOCK; i++) {
		for (unsigned int k = 0; k < CRASH_BLOCK / sizeof(*p); k++)
			*p++ = world.left.now[first + i];
	}
}

/* Blocks of zeroes are not allocated. */
static void crash_store_extent(struct rbp_io *io)
{
	const uint64_t *now = world.left.now + io->offset / CRASH_BLOCK;
	uint64_t cnt = io->len / CRASH_BLOCK;
	uint64_t same = 1;

	while (same < cnt && !now[same] == !now[0])
		same++;
	io->extent_len = same * CRASH_BLOCK;
	io->extent_mapped = now[0] != 0;
}

static void crash_below(struct rbp_io *child)
{
	struct crash_io *n = crash_io_of(child);
	bool fails;

	pthread_mutex_lock(&world.lock);
	fails = crash_is_change(child) &&
		(world.next_fails ||
		 (world.row->writes_may_fail && !crash_chance(12)));
	if (world.at_next_write && crash_is_change(child))
		crash_now();
	if (child->op == RBP_READ)
		crash_store_read(child);
	else if (child->op == RBP_EXTENT)
		crash_store_extent(child);
	else if (child->op == RBP_FLUSH)
		crash_store_flush();
	else
		crash_store_change(child, fails);
	n->below_res = fails ? -EIO : 0;
	world.next_fails = false;
	n->is_below = true;
	crash_step();
	pthread_mutex_unlock(&world.lock);
}

/* Ends one I/O of the store. False: there is none. */
static bool crash_store_ends_one(void)
{
	struct crash_io *n = NULL;
	uint64_t first = crash_choose(CRASH_IOS);

	for (unsigned int i = 0; i < CRASH_IOS && !n; i++) {
		n = &world.ios[(first + i) % CRASH_IOS];
		n = n->is_below ? n : NULL;
	}
	if (!n)
		return false;
	pthread_mutex_lock(&world.lock);
	n->is_below = false;
	if (crash_is_change(&n->r.child) &&
	    ((n->r.child.flags & RBP_FUA && !n->below_res) ||
	     !(world.row->caps & RBP_WRITE_CACHE)))
		memcpy(world.left.stable + n->r.child.offset / CRASH_BLOCK,
		       world.left.now + n->r.child.offset / CRASH_BLOCK,
		       n->r.child.len / CRASH_BLOCK * sizeof(uint64_t));
	pthread_mutex_unlock(&world.lock);
	n->r.child.ended(&n->r.child, n->below_res);
	return true;
}

/* ---- rdma-target ---- */

static void crash_note(const struct rbp_io *io, enum crash_known known)
{
	for (uint64_t b = io->offset / CRASH_BLOCK;
	     b < (io->offset + io->len) / CRASH_BLOCK; b++)
		world.left.known[b] = known;
}

/* rdma-target never submits a flush beside other I/O. */
static void crash_note_flush(void)
{
	for (uint64_t b = 0; b < CRASH_BLOCKS; b++) {
		if (world.left.known[b] == CRASH_WRITTEN)
			world.left.known[b] = CRASH_SURE;
	}
}

static void crash_done(struct rbp_io *io, int res)
{
	struct crash_io *n = crash_io_of(io);

	pthread_mutex_lock(&world.lock);
	assert_false(n->is_done);
	n->is_done = true;
	n->res = res;
	world.busy--;
	if (io->op == RBP_FLUSH && !res)
		crash_note_flush();
	else if (crash_is_change(io))
		crash_note(io, res || io->op == RBP_UNMAP ? CRASH_UNSURE
							  : CRASH_WRITTEN);
	pthread_mutex_unlock(&world.lock);
	t_host_wake();
}

static bool crash_is_busy(void)
{
	bool is_busy;

	pthread_mutex_lock(&world.lock);
	is_busy = world.busy;
	pthread_mutex_unlock(&world.lock);
	return is_busy;
}

/* Waits until all I/O has ended, in any order. */
static void crash_run(void)
{
	while (crash_is_busy()) {
		if (!crash_choose(2) && crash_store_ends_one())
			continue;
		if (!t_host_poll(&host, 0) && !crash_store_ends_one())
			t_host_poll(&host, -1);
	}
}

static void crash_submit(struct crash_io *n, enum rbp_op op, uint32_t flags,
			 uint64_t first, uint64_t cnt)
{
	uint64_t *p = (void *)n->data;
	const struct rbp_io io = {
		.op = op,
		.flags = flags,
		.offset = first * CRASH_BLOCK,
		.len = cnt * CRASH_BLOCK,
		.buf = op == RBP_READ || op == RBP_WRITE ? n->data : NULL,
	};

	pthread_mutex_lock(&world.lock);
	for (uint64_t i = 0; i < cnt && op == RBP_WRITE; i++) {
		world.write_cnt++;
		for (unsigned int k = 0; k < CRASH_BLOCK / sizeof(*p); k++)
			*p++ = world.write_cnt;
	}
	n->is_done = false;
	world.busy++;
	if (crash_is_change(&io))
		crash_note(&io, CRASH_UNSURE);
	pthread_mutex_unlock(&world.lock);
	t_host_submit(&host, &n->r, 0, io);
}

/* Does one I/O and waits. Returns its result. */
static int crash_do(enum rbp_op op, uint64_t first, uint64_t cnt)
{
	crash_submit(&world.ios[0], op, 0, first, cnt);
	crash_run();
	return world.ios[0].res;
}

/* ---- a life ---- */

static void crash_open(void)
{
	struct rbp_arg args[] = {
		{ "sums", world.path, 0 },
		{ "init", "on", 1 },
		{ "sync", "", world.row->syncs },
		{ NULL, NULL, 0 },
	};
	struct rbp_info info = {
		.size = sizeof(info),
		.caps = world.row->caps | RBP_CAN_WRITE | RBP_CAN_FLUSH |
			RBP_CAN_UNMAP | RBP_CAN_ZERO | RBP_LASTING,
		.bytes = CRASH_BLOCKS * CRASH_BLOCK,
		.block_size = CRASH_BLOCK,
		.volume_block = CRASH_BLOCK,
		.below_mark = "the store",
	};
	char msg[256] = "";

	if (host.plugin->open(NULL, NULL, args, &host.volume, &info, msg,
			      sizeof(msg)))
		fail_msg("open: %s", msg);
	t_host_add_queue(&host, 0);
}

static void crash_close(void)
{
	t_host_del_queues(&host);
	host.plugin->close(host.volume);
}

/* The next life finds the data that the crash left. */
static void crash_install(void)
{
	world.left = world.at_crash;
	if (world.row->cuts_power) {
		memcpy(world.left.now, world.left.stable,
		       sizeof(world.left.now));
		memcpy(world.left.file, world.left.file_stable, CRASH_FILE);
		memset(world.left.is_dirty, 0, sizeof(world.left.is_dirty));
	}
	crash_file_install();
}

static void crash_arm(long steps)
{
	pthread_mutex_lock(&world.lock);
	world.has_crashed = false;
	world.steps_left = steps;
	pthread_mutex_unlock(&world.lock);
}

static bool crash_has_been(void)
{
	bool has_crashed;

	pthread_mutex_lock(&world.lock);
	has_crashed = world.has_crashed;
	pthread_mutex_unlock(&world.lock);
	return has_crashed;
}

static void crash_read_all(void)
{
	for (uint64_t b = 0; b < CRASH_BLOCKS; b += CRASH_IO_BLOCKS) {
		if (crash_do(RBP_READ, b, CRASH_IO_BLOCKS))
			fail_msg(
				"a good block looks bad: block %llu",
				(unsigned long long)(world.ios[0].r.io.progress /
							     CRASH_BLOCK +
						     b));
	}
}

/* A block whose data differs from the flushed data must be found. */
static void crash_find_lost(uint64_t block)
{
	uint64_t was = world.left.now[block];
	long steps = world.steps_left;

	if (world.left.known[block] != CRASH_SURE)
		return;
	/* There is no crash here: a crash would leave this data. */
	world.steps_left = -1;
	world.left.now[block] = CRASH_FOREIGN;
	if (crash_do(RBP_READ, block, 1) != -EIO)
		fail_msg("block %llu has lost a flushed write, and looks good",
			 (unsigned long long)block);
	world.left.now[block] = was;
	world.steps_left = steps;
}

static void crash_any_io(struct crash_io *n)
{
	static const enum rbp_op ops[] = { RBP_WRITE, RBP_WRITE, RBP_WRITE,
					   RBP_READ,  RBP_ZERO,	 RBP_UNMAP };
	enum rbp_op op = ops[crash_choose(6)];
	uint64_t first = crash_choose(CRASH_GROUPS) * CRASH_GROUP_STEP +
			 crash_choose(CRASH_GROUP_LEN);
	bool has_fua = world.row->caps & RBP_CAN_FUA && !crash_choose(6) &&
		       (op == RBP_WRITE || op == RBP_ZERO);

	crash_submit(n, op, has_fua ? RBP_FUA : 0, first, 1 + crash_choose(6));
}

/* Several I/Os at once, or a flush. No read may fail. */
static void crash_any_ios(void)
{
	unsigned int cnt = 1 + (unsigned int)crash_choose(CRASH_IOS);

	if (!crash_choose(3)) {
		crash_do(RBP_FLUSH, 0, 0);
		return;
	}
	for (unsigned int i = 0; i < cnt; i++)
		crash_any_io(&world.ios[i]);
	crash_run();
	for (unsigned int i = 0; i < cnt; i++) {
		if (world.ios[i].r.io.op == RBP_READ && world.ios[i].res)
			fail_msg("a read fails that ought not to");
	}
}

/* The next life may find anything in blocks whose write no flush covered. */
static void crash_forget_written(void)
{
	for (uint64_t b = 0; b < CRASH_BLOCKS; b++) {
		if (world.left.known[b] == CRASH_WRITTEN)
			world.left.known[b] = CRASH_UNSURE;
	}
}

/* Half of the crashes happen early, some of them while the file is opened. */
static void crash_round(void)
{
	crash_arm(1 + (long)crash_choose(crash_choose(2) ? 40 : 400));
	crash_open();
	if (world.row->file_may_fail)
		world.file_ops_left = 1 + (long)crash_choose(100);
	if (crash_choose(2))
		crash_read_all();
	for (int i = 0; i < 4; i++)
		crash_find_lost(crash_choose(CRASH_GROUPS) * CRASH_GROUP_STEP +
				crash_choose(CRASH_GROUP_LEN));
	for (int i = 0; i < 30 && !crash_has_been(); i++)
		crash_any_ios();
	if (world.row->file_may_fail)
		crash_read_all();
	crash_close();
	world.file_ops_left = -1;
	/* Otherwise the life has ended without a crash. */
	if (crash_has_been())
		crash_install();
	crash_forget_written();
}

static void crash_begin(const struct crash_row *row, uint64_t seed)
{
	static struct rbp_host functions;

	functions = t_host_functions;
	functions.done = crash_done;
	functions.below = crash_below;
	t_host_begin(&host);
	t_host_plug(&host, rdma_block_plugin_1(&functions));
	memset(&world.left, 0, sizeof(world.left));
	world.row = row;
	world.seed = seed * 0x9e3779b97f4a7c15ull + 1;
	world.at_next_write = false;
	world.at_next_header = false;
	world.next_fails = false;
	world.luck_of_store = CRASH_CHANCE;
	world.luck_of_file = CRASH_CHANCE;
	world.steps_left = -1;
	world.file_ops_left = -1;
	world.busy = 0;
	memset(world.ios, 0, sizeof(world.ios));
	snprintf(world.path, sizeof(world.path), "/tmp/crc32c.XXXXXX");
	world.fd = mkstemp(world.path);
	assert_true(world.fd >= 0);
	crash_open();
}

static void crash_end(void)
{
	t_host_end(&host);
	close(world.fd);
	unlink(world.path);
}

static const struct crash_row crash_rows[] = {
	{ .name = "kills, on a store with a cache",
	  .caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES },
	{ .name = "power cuts",
	  .caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES,
	  .syncs = true,
	  .cuts_power = true },
	{ .name = "power cuts, with FUA, and writes that fail",
	  .caps = RBP_WRITE_CACHE | RBP_CAN_FUA | RBP_UNMAP_ZEROES,
	  .syncs = true,
	  .cuts_power = true,
	  .writes_may_fail = true },
	{ .name = "power cuts, without a cache",
	  .caps = RBP_UNMAP_ZEROES,
	  .syncs = true,
	  .cuts_power = true,
	  .writes_may_fail = true },
	{ .name = "power cuts, where unmapped blocks hold anything",
	  .caps = RBP_WRITE_CACHE,
	  .syncs = true,
	  .cuts_power = true },
	{ .name = "kills, and a file that fails",
	  .caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES,
	  .file_may_fail = true,
	  .writes_may_fail = true },
	{ .name = "power cuts, and a file that fails",
	  .caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES,
	  .syncs = true,
	  .cuts_power = true,
	  .file_may_fail = true,
	  .writes_may_fail = true },
	{ .name = "power cuts, without a cache, and a file that fails",
	  .caps = RBP_UNMAP_ZEROES,
	  .syncs = true,
	  .cuts_power = true,
	  .file_may_fail = true },
};

static void no_good_block_looks_bad(void **state)
{
	const struct crash_row *row = *state;
	const char *rounds = getenv("CRC32C_ROUNDS");
	int cnt = rounds ? atoi(rounds) : 100;

	crash_begin(row, 1);
	crash_close();
	for (int i = 0; i < cnt; i++)
		crash_round();
	crash_open();
	crash_read_all();
	crash_close();
	crash_end();
}

static const struct crash_row kill_row = {
	.caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES,
	.syncs = true,
};
static const struct crash_row cut_row = {
	.caps = RBP_WRITE_CACHE | RBP_UNMAP_ZEROES,
	.syncs = true,
	.cuts_power = true,
};

/* Begins the next life, after a crash or after a normal end. */
static void crash_next_life(void)
{
	crash_close();
	if (crash_has_been())
		crash_install();
	crash_arm(-1);
	crash_open();
}

/* The target dies after it writes the records and before it writes the data of
 * a block that is damaged. The block stays damaged. */
static void a_damaged_block_stays_one_until_it_is_written(void **state)
{
	crash_begin(&kill_row, 1);
	crash_arm(-1);
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), 0);
	assert_int_equal(crash_do(RBP_FLUSH, 0, 0), 0);
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), 0);
	crash_now();
	crash_next_life();

	world.left.now[3] = CRASH_FOREIGN;
	world.at_next_write = true;
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), 0);
	world.at_next_write = false;
	assert_int_equal(crash_do(RBP_READ, 3, 1), 0);
	crash_next_life();

	assert_int_equal(crash_do(RBP_READ, 3, 1), -EIO);
	crash_close();
	crash_end();
}

/* The write of a block fails, and its record says this. A flush of another
 * write succeeds, and the header says this. A power cut in between leaves only
 * the header. */
static void a_failed_write_is_in_doubt_after_a_flush_of_others(void **state)
{
	crash_begin(&cut_row, 1);
	crash_arm(-1);
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), 0);
	assert_int_equal(crash_do(RBP_FLUSH, 0, 0), 0);
	assert_int_equal(crash_do(RBP_WRITE, 200, 1), 0);
	world.luck_of_file = CRASH_HEADER_ALONE;
	world.next_fails = true;
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), -EIO);
	world.at_next_header = true;
	assert_int_equal(crash_do(RBP_FLUSH, 0, 0), 0);
	world.at_next_header = false;
	assert_true(crash_has_been());
	crash_next_life();

	assert_int_equal(crash_do(RBP_READ, 3, 1), 0);
	crash_close();
	crash_end();
}

/* The target stops without a flush after an UNMAP. The store loses the UNMAP
 * later. */
static void an_unmap_may_be_lost_after_a_clean_end(void **state)
{
	crash_begin(&cut_row, 1);
	crash_arm(-1);
	assert_int_equal(crash_do(RBP_WRITE, 3, 1), 0);
	assert_int_equal(crash_do(RBP_FLUSH, 0, 0), 0);
	world.luck_of_store = CRASH_NOTHING;
	world.luck_of_file = CRASH_ALL;
	assert_int_equal(crash_do(RBP_UNMAP, 3, 1), 0);
	crash_next_life();

	assert_int_equal(crash_do(RBP_READ, 3, 1), 0);
	crash_now();
	crash_next_life();

	assert_int_not_equal(world.left.now[3], 0);
	assert_int_equal(crash_do(RBP_READ, 3, 1), 0);
	crash_close();
	crash_end();
}

static void expect_extent(uint64_t first, uint64_t len, int mapped)
{
	const struct rbp_io *io = &world.ios[0].r.io;

	assert_int_equal(crash_do(RBP_EXTENT, first, CRASH_BLOCKS - first), 0);
	assert_int_equal(io->extent_len, len * CRASH_BLOCK);
	assert_int_equal(io->extent_mapped, mapped);
}

/* The store has lost block 3, and reports a hole there. Who skips holes would
 * take the data for zeroes. Block 6 was zeroed. */
static void lost_data_is_no_hole(void **state)
{
	crash_begin(&kill_row, 1);
	crash_arm(-1);
	assert_int_equal(crash_do(RBP_WRITE, 3, 3), 0);
	assert_int_equal(crash_do(RBP_ZERO, 6, 1), 0);
	expect_extent(0, 3, 0);
	expect_extent(3, 3, 1);
	expect_extent(6, CRASH_BLOCKS - 6, 0);
	world.left.now[3] = 0;
	expect_extent(0, 3, 0);
	expect_extent(3, 1, 1);
	expect_extent(4, 2, 1);
	assert_int_equal(crash_do(RBP_READ, 3, 1), -EIO);
	assert_int_equal(crash_do(RBP_UNMAP, 3, 1), 0);
	expect_extent(0, 4, 0);
	crash_close();
	crash_end();
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, crash_rows, no_good_block_looks_bad);
	T_ADD(&t, a_damaged_block_stays_one_until_it_is_written);
	T_ADD(&t, a_failed_write_is_in_doubt_after_a_flush_of_others);
	T_ADD(&t, an_unmap_may_be_lost_after_a_clean_end);
	T_ADD(&t, lost_data_is_no_hole);
	return t_run(&t);
}
