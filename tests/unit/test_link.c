/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that rdma-discover --daemon keeps. The mounts, logins and targets
 * that it looks at are played here, and so is the clock. Its children are real.
 */
#include "discover/link.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "discover/kernel_login.h"
#include "discover/mounted.h"
#include "discover/serves.h"
#include "tests/lib/t_table.h"

#define OLD "srp+tcp://10.0.0.1:5555"
#define NEW "srp+tcp://10.0.0.2:5555"

static struct {
	enum mounted mounted; /* also of the login */
	const char *uri;      /* of what is mounted */
	unsigned int removed;
	int child; /* the exit status of children */
	uint64_t now_ms;
	struct rule rule;
	struct found_target target;
	struct link link;
} world;

/* ---- the system ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	ts->tv_sec = (time_t)(world.now_ms / 1000);
	ts->tv_nsec = (long)(world.now_ms % 1000) * 1000000;
	return 0;
}

enum mounted mounted_at(struct aside *look, const char *dir,
			const struct srp_port_id *id, char *ret_uri,
			size_t size)
{
	bool works = world.mounted != MOUNTED_NOTHING &&
		     world.mounted != MOUNTED_DEAD &&
		     world.mounted != MOUNTED_HANGS;

	assert_string_equal(dir, "/mnt");
	if (works && ret_uri)
		snprintf(ret_uri, size, "%s", world.uri);
	return world.mounted;
}

int mounted_start(const char *uri, const char *dir)
{
	return strcmp(dir, "/mnt") ? 99 : world.child;
}

void mounted_remove(const char *dir)
{
	world.removed++;
	world.mounted = MOUNTED_NOTHING;
}

bool kernel_login_exists(const struct srp_port_id *id)
{
	return world.mounted == MOUNTED_TARGET;
}

int kernel_login_start(const struct found_target *t, const char *options)
{
	return strcmp(options, ",max_sect=8") ? 99 : world.child;
}

void kernel_login_remove(const struct srp_port_id *id)
{
	world.removed++;
	world.mounted = MOUNTED_NOTHING;
}

int serves_start(const char *uri)
{
	return world.child;
}

bool found_uri(const struct found_target *t, const char *volume, char *buf)
{
	const struct found_address *a = &t->addresses[0];

	if (!t->address_cnt || !a->usable)
		return false;
	snprintf(buf, FOUND_URI_SIZE, "%s/%s", a->text, volume);
	return true;
}

/* ---- the link ---- */

static void set_address(const char *text)
{
	struct found_address *a = &world.target.addresses[0];

	world.target.address_cnt = 1;
	strcpy(a->text, text);
	a->usable = true;
}

static void begin(bool is_mount)
{
	memset(&world, 0, sizeof(world));
	world.now_ms = 1000000;
	world.uri = OLD "/disk";
	world.rule.connect = true;
	strcpy(world.rule.volume, "disk");
	strcpy(world.rule.options, ",max_sect=8");
	if (is_mount)
		strcpy(world.rule.mount, "/mnt");
	strcpy(world.target.instance, "storage");
	set_address(OLD);
	link_init(&world.link, &world.rule, &world.target);
	assert_int_equal(world.link.state, LINK_DOWN);
}

static int step(void)
{
	return link_step(&world.link, &world.target, true);
}

/* Waits for the child, and reports its end as the daemon does. */
static void reap(void)
{
	int status;
	pid_t pid = world.link.child;

	assert_true(link_has_child(&world.link));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(link_child_ended(&world.link, pid + 1, status));
	assert_true(link_has_child(&world.link));
	assert_true(link_child_ended(&world.link, pid, status));
	assert_false(link_has_child(&world.link));
}

/* Makes the link. */
static void start_up(bool is_mount)
{
	begin(is_mount);
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_STARTING);
	reap();
	world.mounted = MOUNTED_TARGET;
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_UP);
}

/* ---- start ---- */

static const struct kind_row {
	const char *name;
	bool is_mount;
	const char *what;
} kind_rows[] = {
	{ "a mount", true, "/mnt" },
	{ "a login", false, "login of the kernel" },
};

T_ROWS(link_is_made, kind_rows)
{
	const struct kind_row *row = *state;

	begin(row->is_mount);
	assert_string_equal(link_what(&world.link), row->what);
	assert_false(link_is_busy(&world.link));
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_STARTING);
	assert_int_equal(link_is_busy(&world.link), row->is_mount);
	/* Until its child ends, it stays so. */
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_STARTING);
	reap();
	world.mounted = MOUNTED_TARGET;
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_UP);
	assert_string_equal(world.link.uri, OLD "/disk");
	/* A step changes nothing. */
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_UP);
	assert_int_equal(world.removed, 0);
}

T_TEST(nothing_starts)
{
	begin(true);
	/* There are enough children. */
	assert_int_equal(link_step(&world.link, &world.target, false), -1);
	assert_int_equal(world.link.state, LINK_DOWN);
	/* The target is gone. */
	assert_int_equal(link_step(&world.link, NULL, true), -1);
	assert_int_equal(world.link.state, LINK_DOWN);
}

static const struct failure_row {
	const char *name;
	int child;
	enum mounted after;
} failure_rows[] = {
	{ "the child fails", 1, MOUNTED_NOTHING },
	{ "it fails, but something is mounted", 1, MOUNTED_TARGET },
	{ "nothing is mounted", 0, MOUNTED_NOTHING },
	{ "another target is mounted", 0, MOUNTED_OTHER },
};

/* The pauses double, up to a minute. */
T_ROWS(failed_start_is_repeated, failure_rows)
{
	const struct failure_row *row = *state;
	int pause_ms = LINK_PAUSE_MIN_MS;

	begin(true);
	world.child = row->child;
	for (unsigned int i = 0; i < 10; i++) {
		world.mounted = MOUNTED_NOTHING;
		assert_int_equal(step(), -1);
		assert_int_equal(world.link.state, LINK_STARTING);
		reap();
		world.mounted = row->after;
		assert_int_equal(step(), pause_ms);
		assert_int_equal(world.link.state, LINK_DOWN);
		world.mounted = MOUNTED_NOTHING;
		world.now_ms += (uint64_t)pause_ms - 1;
		assert_int_equal(step(), 1);
		assert_int_equal(world.link.state, LINK_DOWN);
		world.now_ms++;
		pause_ms *= 2;
		if (pause_ms > LINK_PAUSE_MAX_MS)
			pause_ms = LINK_PAUSE_MAX_MS;
	}
}

T_TEST(no_usable_address)
{
	begin(true);
	world.target.addresses[0].usable = false;
	assert_int_equal(step(), LINK_PAUSE_MIN_MS);
	assert_int_equal(world.link.state, LINK_DOWN);
}

/* ---- what is there already ---- */

static const struct there_row {
	const char *name;
	enum mounted mounted;
	enum link_state state;
	unsigned int removed;
} there_rows[] = {
	{ "a mount of the target", MOUNTED_TARGET, LINK_UP, 0 },
	{ "a mount of an unknown target", MOUNTED_UNKNOWN, LINK_UP, 0 },
	{ "a mount of another target stays", MOUNTED_OTHER, LINK_DOWN, 0 },
	{ "a dead mount is replaced", MOUNTED_DEAD, LINK_STARTING, 1 },
	{ "a directory that hangs is left alone", MOUNTED_HANGS, LINK_DOWN, 0 },
};

T_ROWS(there, there_rows)
{
	const struct there_row *row = *state;

	begin(true);
	world.mounted = row->mounted;
	step();
	assert_int_equal(world.link.state, row->state);
	assert_int_equal(world.removed, row->removed);
	if (world.link.state == LINK_STARTING)
		reap();
}

/* Its target may be the one that is gone. */
T_TEST(mount_that_hangs_stays)
{
	begin(true);
	world.link.rule.remove_gone = true;
	world.mounted = MOUNTED_TARGET;
	step();
	world.mounted = MOUNTED_HANGS;
	assert_int_equal(step(), -1);
	assert_int_equal(link_step(&world.link, NULL, true), -1);
	assert_int_equal(world.link.state, LINK_UP);
	assert_int_equal(world.removed, 0);
	world.mounted = MOUNTED_TARGET;
	step();
	assert_int_equal(world.link.state, LINK_UP);
}

T_TEST(mount_of_another_target_ends)
{
	begin(true);
	world.mounted = MOUNTED_OTHER;
	assert_int_equal(step(), LINK_PAUSE_MAX_MS);
	assert_int_equal(step(), LINK_PAUSE_MAX_MS);
	world.mounted = MOUNTED_NOTHING;
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_STARTING);
	reap();
}

/* ---- the end ---- */

/* It is made again, but not at once: a target may end each connection. */
T_ROWS(link_ends, kind_rows)
{
	const struct kind_row *row = *state;

	start_up(row->is_mount);
	world.mounted = MOUNTED_NOTHING;
	assert_int_equal(step(), LINK_PAUSE_MIN_MS);
	assert_int_equal(world.link.state, LINK_DOWN);
	assert_string_equal(world.link.uri, "");
	assert_int_equal(step(), LINK_PAUSE_MIN_MS);
	assert_int_equal(world.link.state, LINK_DOWN);
	world.now_ms += LINK_PAUSE_MIN_MS;
	step();
	assert_int_equal(world.link.state, LINK_STARTING);
	reap();
}

T_TEST(other_mount_in_its_place_stays)
{
	start_up(true);
	world.mounted = MOUNTED_OTHER;
	step();
	assert_int_equal(world.link.state, LINK_DOWN);
	assert_int_equal(world.removed, 0);
}

static const struct doubt_row {
	const char *name;
	const char *address; /* of the target now; NULL: it is gone */
	bool removes;	     /* if it is gone */
	bool is_foreign;
	bool is_asked;
	int child; /* 0: it serves where the link leads to */
	enum link_state state;
	unsigned int removed;
} doubt_rows[] = {
	{ "nothing has changed", OLD, true, false, false, 0, LINK_UP, 0 },
	{ "it has moved", NEW, false, false, true, 1, LINK_DOWN, 1 },
	{ "somebody says that it has moved", NEW, false, false, true, 0,
	  LINK_UP, 0 },
	{ "it is gone, and that is no matter", NULL, false, false, false, 1,
	  LINK_UP, 0 },
	{ "it is gone", NULL, true, false, true, 1, LINK_DOWN, 1 },
	{ "somebody says that it is gone", NULL, true, false, true, 0, LINK_UP,
	  0 },
	{ "the mount of an unknown target stays", NULL, true, true, false, 1,
	  LINK_UP, 0 },
	{ "the mount of an unknown target does not move", NEW, false, true,
	  false, 1, LINK_UP, 0 },
	{ "another port is another address", "srp+tcp://10.0.0.1:5556", false,
	  false, true, 1, LINK_DOWN, 1 },
	{ "a longer port is another address", "srp+tcp://10.0.0.1:555", false,
	  false, true, 1, LINK_DOWN, 1 },
	{ "a shorter host is another address", "srp+tcp://0.0.0.1:5555", false,
	  false, true, 1, LINK_DOWN, 1 },
};

T_ROWS(doubt, doubt_rows)
{
	const struct doubt_row *row = *state;
	const struct found_target *t = row->address ? &world.target : NULL;

	start_up(true);
	if (row->is_foreign)
		world.mounted = MOUNTED_UNKNOWN;
	if (row->address)
		set_address(row->address);
	world.link.rule.remove_gone = row->removes;
	world.child = row->child;
	link_step(&world.link, t, false);
	assert_int_equal(world.link.state, LINK_UP);
	link_step(&world.link, t, true);
	assert_int_equal(world.link.state,
			 row->is_asked ? LINK_DOUBTED : LINK_UP);
	if (row->is_asked) {
		assert_int_equal(link_step(&world.link, t, true), -1);
		assert_int_equal(world.link.state, LINK_DOUBTED);
		reap();
		link_step(&world.link, t, true);
	}
	assert_int_equal(world.link.state, row->state);
	assert_int_equal(world.removed, row->removed);
}

/* Whoever says it again and again makes the link ask only now and then. */
T_TEST(doubts_have_a_pause)
{
	start_up(true);
	set_address(NEW);
	assert_int_equal(step(), LINK_DOUBT_MS);
	reap();
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_UP);
	world.now_ms += 10;
	assert_int_equal(step(), LINK_DOUBT_MS - 10);
	assert_int_equal(world.link.state, LINK_UP);
	world.now_ms += LINK_DOUBT_MS;
	assert_int_equal(step(), LINK_DOUBT_MS);
	assert_int_equal(world.link.state, LINK_DOUBTED);
	reap();
}

/* It was said to be gone, and is back before the child has ended. */
T_TEST(target_returns)
{
	start_up(true);
	world.link.rule.remove_gone = true;
	world.child = 1;
	link_step(&world.link, NULL, true);
	assert_int_equal(world.link.state, LINK_DOUBTED);
	reap();
	assert_int_equal(step(), -1);
	assert_int_equal(world.link.state, LINK_UP);
	assert_int_equal(world.removed, 0);
}
