/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the kill of a target and its next start, its paths may come to lead
 * to other stores: the kernel numbers devices in another order, a symbolic link
 * is switched, a file is replaced. A job that began on one store must not
 * continue on another one, nor may its reservations come back there. Each round
 * has two stores, each behind a symbolic link, and leaves something behind on
 * one of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"
#include "base/list.h"

#define STORE_LEN (1u << 20)
#define PATTERN	  0xf0
#define KEY	  0x4711

static uint8_t content_of(int store)
{
	return store ? 0x22 : 0x11;
}

/* The kinds of stores. */
enum kind {
	FILES,
	LOOPS,	 /* a device without an identifier */
	MAPPERS, /* a device that has a UUID, on a loop device */
};

static struct {
	char file[64];
	char link[64];
	int loop;   /* number of its loop device; -1: none */
	int mapper; /* the same of its device-mapper device */
} stores[2] = { { .loop = -1, .mapper = -1 }, { .loop = -1, .mapper = -1 } };

static char state_dir[64];
static struct t_target target;
static struct t_peer peer;
static uint64_t next_tag = 0x1000;

/* ---- loop devices ---- */

static bool has_loops(void)
{
	int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Only the time of birth tells one file from another. */
static bool has_births(void)
{
	struct statx stx;

	return !statx(AT_FDCWD, t_scratch(), 0, STATX_BTIME, &stx) &&
	       stx.stx_mask & STATX_BTIME;
}

static int open_loop(int number)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/loop%d", number);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int free_loop(void)
{
	int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = ioctl(fd, LOOP_CTL_GET_FREE);

	close(fd);
	assert_true(number >= 0);
	return number;
}

/* Attaches it to device @wanted, unless another process has taken that
 * meanwhile. */
static void attach(int store, int wanted)
{
	struct loop_config cfg = { 0 };
	int file = open(stores[store].file, O_RDWR | O_CLOEXEC);
	int err;

	assert_true(file >= 0);
	cfg.fd = (uint32_t)file;
	strncpy((char *)cfg.info.lo_file_name, stores[store].file,
		LO_NAME_SIZE - 1);
	do {
		int number = wanted >= 0 ? wanted : free_loop();
		int fd = open_loop(number);

		assert_true(fd >= 0);
		err = ioctl(fd, LOOP_CONFIGURE, &cfg) ? errno : 0;
		close(fd);
		assert_true(!err || err == EBUSY);
		stores[store].loop = number;
		wanted = -1;
	} while (err);
	close(file);
}

/* A killed process may keep it open for a moment. */
static void detach(int store)
{
	char path[64];
	int fd;

	if (stores[store].loop < 0)
		return;
	fd = open_loop(stores[store].loop);
	ioctl(fd, LOOP_CLR_FD);
	close(fd);
	snprintf(path, sizeof(path), "/sys/block/loop%d/loop",
		 stores[store].loop);
	while (!access(path, F_OK))
		usleep(1000);
	stores[store].loop = -1;
}

/* ---- device-mapper devices ---- */

static bool has_mappers(void)
{
	return has_loops() && !system("dmsetup version >/dev/null 2>&1");
}

static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	return system(cmd);
}

static unsigned int mapper_major(void)
{
	unsigned int number = 0;
	char line[128];
	FILE *f = fopen("/proc/devices", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, " device-mapper"))
			number = (unsigned int)atoi(line);
	}
	fclose(f);
	return number;
}

static int number_of_mapper(int store)
{
	char path[64];
	int number;
	FILE *f;

	snprintf(path, sizeof(path), "%s/number", t_scratch());
	assert_int_equal(run("dmsetup info -c --noheadings -o minor t%d-%d >%s",
			     (int)getpid(), store, path),
			 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &number), 1);
	fclose(f);
	return number;
}

/* With number @wanted; -1: any number. */
static void map(int store, int wanted)
{
	char number[64] = "";

	if (wanted >= 0)
		snprintf(number, sizeof(number), "--major %u --minor %d",
			 mapper_major(), wanted);
	assert_int_equal(run("dmsetup create t%d-%d --uuid T-%d-%d %s "
			     "--noudevsync --table "
			     "'0 %u linear /dev/loop%d 0'",
			     (int)getpid(), store, (int)getpid(), store, number,
			     STORE_LEN / 512, stores[store].loop),
			 0);
	stores[store].mapper = number_of_mapper(store);
	assert_true(wanted < 0 || stores[store].mapper == wanted);
}

/* Like a loop device, it may be open for a moment. */
static void unmap(int store)
{
	if (stores[store].mapper < 0)
		return;
	assert_int_equal(run("dmsetup remove --retry --noudevsync t%d-%d",
			     (int)getpid(), store),
			 0);
	stores[store].mapper = -1;
}

/* ---- stores ---- */

static void fill(int store)
{
	static uint8_t bytes[STORE_LEN];
	int fd = open(stores[store].file,
		      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memset(bytes, content_of(store), STORE_LEN);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, STORE_LEN), STORE_LEN);
	close(fd);
}

/* Returns how many bytes the pattern has replaced. All others must be
 * unchanged. */
static unsigned int overwritten(int store)
{
	static uint8_t bytes[STORE_LEN];
	unsigned int cnt = 0;
	int fd = open(stores[store].file, O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, bytes, STORE_LEN), STORE_LEN);
	close(fd);
	for (unsigned int i = 0; i < STORE_LEN; i++) {
		cnt += bytes[i] == PATTERN;
		assert_true(bytes[i] == PATTERN ||
			    bytes[i] == content_of(store));
	}
	return cnt;
}

/* Path @i leads to @store from now on. */
static void lead(int i, int store)
{
	char to[96];

	if (stores[store].mapper >= 0)
		snprintf(to, sizeof(to), "/dev/dm-%d", stores[store].mapper);
	else if (stores[store].loop >= 0)
		snprintf(to, sizeof(to), "/dev/loop%d", stores[store].loop);
	else
		snprintf(to, sizeof(to), "%s", stores[store].file);
	unlink(stores[i].link);
	assert_int_equal(symlink(to, stores[i].link), 0);
}

/* Removes what a failed test has left. */
static void clean_up(void)
{
	char cmd[128];

	if (target.pid)
		t_target_end(&target, SIGKILL);
	t_peer_hang_up(&peer);
	for (int i = 0; i < 2; i++) {
		unmap(i);
		detach(i);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf '%s/state'", t_scratch());
	assert_int_equal(system(cmd), 0);
}

static void make_stores(enum kind kind)
{
	clean_up();
	snprintf(state_dir, sizeof(state_dir), "%s/state", t_scratch());
	mkdir(state_dir, 0700);
	for (int i = 0; i < 2; i++) {
		snprintf(stores[i].file, sizeof(stores[i].file), "%s/file%d",
			 t_scratch(), i);
		snprintf(stores[i].link, sizeof(stores[i].link), "%s/disk%d",
			 t_scratch(), i);
		fill(i);
		if (kind != FILES)
			attach(i, -1);
		if (kind == MAPPERS)
			map(i, -1);
		lead(i, i);
	}
}

static void remove_stores(void)
{
	clean_up();
	for (int i = 0; i < 2; i++) {
		unlink(stores[i].link);
		unlink(stores[i].file);
	}
}

/* ---- the target ---- */

/* Starts with @options for each volume, and with @fault for the first one
 * only. */
static bool starts(const char *options, const char *fault)
{
	char spec[2][192];
	const char *args[] = { "-b",	      spec[0],	 "-b", spec[1],
			       "--state-dir", state_dir, NULL };

	for (int i = 0; i < 2; i++)
		snprintf(spec[i], sizeof(spec[i]), "%s%s%s%s%s", stores[i].link,
			 options, *options ? (i ? "1" : "0") : "",
			 *fault ? ",fault=" : "", fault);
	return t_target_starts(&target, args);
}

static bool log_has(const char *text)
{
	char line[2048];
	bool found = false;
	FILE *f = fopen(target.log, "r");

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, text);
	if (f)
		fclose(f);
	return found;
}

static void await_log(const char *text)
{
	while (!log_has(text))
		usleep(1000);
}

/* Expects one line about the store of volume @i that says what to do. */
static void expect_refusal(int i)
{
	unsigned int lines = 0;
	char line[2048];
	FILE *f = fopen(target.log, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		lines++;
	fclose(f);
	assert_int_equal(lines, 1);
	if (!strstr(line, stores[i].link) || !strstr(line, state_dir) ||
	    !strstr(line, "remove"))
		fail_msg("the log says: %s", line);
}

/* ---- commands ---- */

static const struct srp_rsp *ask(unsigned int lun, const uint8_t *cdb,
				 uint32_t out_len)
{
	const struct t_peer_cmd cmd = { .tag = next_tag++,
					.lun = lun,
					.cdb = cdb,
					.is_out = true,
					.len = out_len };

	return t_peer_await(&peer, t_peer_post_cmd(&peer, &cmd));
}

static void log_in(void)
{
	static const uint8_t tur[SCSI_CDB_LEN];

	t_peer_log_in(&peer, target.addr);
	ask(0, tur, 0); /* clears the attentions of power on */
	ask(1, tur, 0);
}

static const struct srp_rsp *begin_sanitize(unsigned int lun)
{
	static const uint8_t cdb[SCSI_CDB_LEN] = { 0x48, 0x81, [8] = 5 };
	static const uint8_t list[] = { 0x01, 0, 0, 1, PATTERN };

	memcpy(peer.mem, list, sizeof(list));
	return ask(lun, cdb, sizeof(list));
}

static const struct srp_rsp *register_aptpl(unsigned int lun)
{
	static const uint8_t cdb[SCSI_CDB_LEN] = { 0x5f, 6, [8] = 24 };
	uint8_t list[24] = { [20] = 1 };

	wire_put64(list + 8, KEY);
	memcpy(peer.mem, list, sizeof(list));
	return ask(lun, cdb, sizeof(list));
}

static const struct srp_rsp *save_modes(unsigned int lun)
{
	static const uint8_t cdb[SCSI_CDB_LEN] = { 0x15, 0x11, [4] = 16 };
	static const uint8_t list[16] = {
		[4] = 0x0a, 0x0a, 0x26, 0x10, [9] = 0x40
	};

	memcpy(peer.mem, list, sizeof(list));
	return ask(lun, cdb, sizeof(list));
}

static void expect_sense(const struct srp_rsp *rsp, uint16_t code)
{
	struct scsi_sense sense;

	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.key, SCSI_KEY_ILLEGAL_REQUEST);
	assert_int_equal(sense.code, code);
}

/* ---- rounds ---- */

enum left {
	LEFT_SANITIZE, /* half done */
	LEFT_RESERVATION,
};

/* Makes the kernel find the devices in the other order. */
static void renumber(enum kind kind)
{
	int was[2] = { stores[0].loop, stores[1].loop };

	if (kind == MAPPERS) {
		was[0] = stores[0].mapper;
		was[1] = stores[1].mapper;
		unmap(0);
		unmap(1);
		map(0, was[1]);
		map(1, was[0]);
		return;
	}
	detach(0);
	detach(1);
	attach(0, was[1]);
	attach(1, was[0]);
}

static void leave(enum left left, unsigned int lun)
{
	log_in();
	if (left == LEFT_RESERVATION) {
		assert_int_equal(register_aptpl(lun)->status, 0);
	} else {
		assert_int_equal(begin_sanitize(lun)->status, 0);
		await_log("is stuck, by a fault");
	}
	t_target_end(&target, SIGKILL);
	t_peer_await_close(&peer);
	t_peer_hang_up(&peer);
}

/*
 * @moved: each device gets the number of the other one. @switched: each path
 * leads to the place of the other one. A device that has an identity is found
 * at any place and has its state, then as the other volume.
 */
static void play(enum kind kind, const char *options, enum left left,
		 unsigned int lun, bool moved, bool switched)
{
	bool same = moved == switched;
	unsigned int before[2];

	make_stores(kind);
	assert_true(starts(options, left == LEFT_SANITIZE
					    ? "write:stuck:lba=1024-2047"
					    : ""));
	leave(left, lun);
	if (moved)
		renumber(kind);
	for (int i = 0; i < 2; i++) {
		lead(i, same ? i : 1 - i);
		before[i] = overwritten(i);
	}
	if (starts(options, "")) {
		assert_true(same || (kind == MAPPERS && !*options));
		assert_true(log_has(left == LEFT_RESERVATION
					    ? "registrations restored: 1,"
					    : "SANITIZE has not come to its "
					      "end"));
		t_target_stop(&target);
	} else {
		assert_false(same);
		expect_refusal((int)lun);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(overwritten(i), before[i]);
	remove_stores();
}

static const struct row {
	const char *name;
	enum kind kind;
	enum left left;
	bool moved;
	bool switched;
} rows[] = {
	{ "SANITIZE, nothing has changed", LOOPS },
	{ "SANITIZE, devices exchange their numbers", LOOPS, .moved = true },
	{ "SANITIZE, links are switched", LOOPS, .switched = true },
	{ "SANITIZE, numbers and links, so all is well", LOOPS, .moved = true,
	  .switched = true },
	{ "SANITIZE of a file", FILES },
	{ "SANITIZE of a file, links are switched", FILES, .switched = true },
	{ "SANITIZE, devices with UUIDs exchange their numbers", MAPPERS,
	  .moved = true },
	{ "SANITIZE, links to devices with UUIDs are switched", MAPPERS,
	  .switched = true },
	{ "reservation, nothing has changed", LOOPS, LEFT_RESERVATION },
	{ "reservation, devices exchange their numbers", LOOPS,
	  LEFT_RESERVATION, .moved = true },
	{ "reservation, numbers and links, so all is well", LOOPS,
	  LEFT_RESERVATION, .moved = true, .switched = true },
	{ "reservation of a file", FILES, LEFT_RESERVATION },
	{ "reservation of a file, links are switched", FILES, LEFT_RESERVATION,
	  .switched = true },
	{ "reservation, devices with UUIDs exchange their numbers", MAPPERS,
	  LEFT_RESERVATION, .moved = true },
};

static bool has_kind(enum kind kind)
{
	switch (kind) {
	case FILES:
		return true;
	case LOOPS:
		return has_loops();
	case MAPPERS:
		return has_mappers();
	}
	return false;
}

T_ROWS(what_is_left_stays_with_its_store, rows)
{
	const struct row *row = *state;

	if (!has_kind(row->kind))
		T_SKIP("this machine cannot make such stores");
	play(row->kind, row->kind == LOOPS ? ",serial=S" : "", row->left, 0,
	     row->moved, row->switched);
}

/* The same with random choices, many times. */
T_TEST(rounds_by_chance)
{
	unsigned int seed = (unsigned int)getpid();
	const char *rounds = getenv("ROUNDS");

	print_message("# seed %u\n", seed);
	for (int i = rounds ? atoi(rounds) : 12; i > 0; i--) {
		enum kind kind = ((unsigned int)rand_r(&seed) >> 8) % 3;
		enum left left = rand_r(&seed) >> 8 & 1;
		bool moved = kind != FILES && rand_r(&seed) >> 8 & 1;
		bool switched = rand_r(&seed) >> 8 & 1;
		unsigned int lun = (unsigned int)rand_r(&seed) >> 8 & 1;
		bool serial = rand_r(&seed) >> 8 & 1;

		if (has_kind(kind))
			play(kind, kind == LOOPS || serial ? ",serial=S" : "",
			     left, lun, moved, switched);
	}
}

/* A path that may lead to any device tomorrow. */
T_TEST_IF(has_loops(), device_without_identity_keeps_nothing)
{
	static const uint8_t format[SCSI_CDB_LEN] = { 0x04 };

	make_stores(LOOPS);
	assert_true(starts("", ""));
	await_log("serial=");
	log_in();
	expect_sense(begin_sanitize(0), SCSI_ASC_INVALID_OPCODE);
	expect_sense(ask(0, format, 0), SCSI_ASC_INVALID_OPCODE);
	expect_sense(register_aptpl(0),
		     SCSI_ASC_INVALID_FIELD_IN_PARAMETER_LIST);
	expect_sense(save_modes(0), SCSI_ASC_INVALID_FIELD_IN_CDB);
	t_peer_hang_up(&peer);
	t_target_stop(&target);
	assert_int_equal(overwritten(0), 0);
	remove_stores();
}

/* A copy of the file has the old name now. */
T_TEST(replaced_file_is_another)
{
	char cmd[384];

	make_stores(FILES);
	assert_true(starts("", ""));
	leave(LEFT_RESERVATION, 0);
	snprintf(cmd, sizeof(cmd), "cp '%s' '%s.new' && mv '%s.new' '%s'",
		 stores[0].file, stores[0].file, stores[0].file,
		 stores[0].file);
	assert_int_equal(system(cmd), 0);
	assert_false(starts("", ""));
	expect_refusal(0);
	remove_stores();
}

/* A store that has grown is still the same. */
static const struct size_row {
	const char *name;
	enum left left;
	off_t size;
	bool starts;
} size_rows[] = {
	{ "reservation, larger", LEFT_RESERVATION, 2 * STORE_LEN, true },
	{ "reservation, smaller", LEFT_RESERVATION, STORE_LEN / 2, false },
	{ "SANITIZE, larger", LEFT_SANITIZE, 2 * STORE_LEN, true },
	{ "SANITIZE, smaller", LEFT_SANITIZE, STORE_LEN / 2, false },
};

T_ROWS(size_is_looked_at, size_rows)
{
	const struct size_row *row = *state;
	bool started;

	make_stores(FILES);
	assert_true(starts("", row->left == LEFT_SANITIZE
				       ? "write:stuck:lba=1024-2047"
				       : ""));
	leave(row->left, 0);
	assert_int_equal(truncate(stores[0].file, row->size), 0);
	started = starts("", "");
	assert_int_equal(started, row->starts);
	if (started)
		t_target_stop(&target);
	else
		expect_refusal(0);
	remove_stores();
}

static int set_up(void **state)
{
	t_peer_init(&peer);
	return 0;
}

static int tear_down(void **state)
{
	clean_up();
	return 0;
}

/* Tests that this machine cannot run are skipped. */
int main(void)
{
	if (!has_births()) {
		puts("1..0 # SKIP the file system tells no time of birth");
		return 0;
	}
	return t_run_between(set_up, tear_down);
}
