/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A gateway of an RBD image: what it does when it hears others, hears nobody, or
 * is fenced, and what its target answers. tests/lib/t_ceph.h plays librados and
 * librbd; the functions of image.h and notes.h are those of this file. The linker
 * replaces the gateway's clock.
 */
#include "plugins/rbd/gateway.h"

#include "tests/lib/t_ceph.h"
#include "tests/lib/t_host.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

/* What the image keeps for the gateways. */
static struct {
	_Atomic uint64_t version;
	size_t len;
	uint8_t data[RBP_NOTES_MAX];
	atomic_bool put_done;  /* a put is done, although it fails */
	struct rbdp_news news; /* what the next message says */
} notes;

static atomic_int reopen_error;
static atomic_uint reopened_cnt;

static struct t_host host;

static _Atomic long later_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int res = __real_clock_gettime(clock, ts);

	ts->tv_sec += later_ms / 1000;
	return res;
}

static struct rbdp_gateway gw;
static struct rbdp_image image;

/* ---- image.h and notes.h ---- */

static int answer(void)
{
	return t_ceph.fenced ? -ESHUTDOWN : 0;
}

int rbdp_refuse(const struct rbdp_msg *msg, int err, const char *fmt, ...)
{
	return err;
}

int rbdp_image_header(const struct rbdp_image *img, char *buf, size_t len)
{
	buf[0] = '\0';
	return 0;
}

int rbdp_notes_read(rados_ioctx_t pool, const char *object,
		    struct rbdp_notes *ret)
{
	ret->version = notes.version;
	ret->len = notes.len;
	memcpy(ret->data, notes.data, notes.len);
	return answer();
}

int rbdp_notes_read_version(rados_ioctx_t pool, const char *object,
			    uint64_t *ret)
{
	*ret = notes.version;
	return answer();
}

int rbdp_notes_put(rados_ioctx_t pool, const char *object, uint64_t version,
		   const void *data, size_t len)
{
	if (t_ceph.fenced && !notes.put_done)
		return -ESHUTDOWN;
	if (version != notes.version)
		return -ESTALE;
	notes.version++;
	notes.len = len;
	memcpy(notes.data, data, len);
	return answer();
}

size_t rbdp_news_encode(const struct rbdp_news *news, uint8_t *buf)
{
	return 0;
}

/* A beat has one byte. */
bool rbdp_news_decode(const void *buf, size_t len, struct rbdp_news *ret)
{
	*ret = notes.news;
	return len > 1;
}

/* For rbdp_gateway.reopen. */
static int reopen(void *user, const struct rbdp_msg *msg)
{
	if (!reopen_error) {
		reopened_cnt++;
		image.in_doubt = false;
		t_ceph.is_locked = false;
		t_ceph.fenced = false;
	}
	return reopen_error;
}

/* ---- tests ---- */

static void begin(void)
{
	t_ceph_begin();
	memset(&notes, 0, sizeof(notes));
	memset(&image, 0, sizeof(image));
	reopen_error = 0;
	reopened_cnt = 0;
	t_host_begin(&host);
	memset(&gw, 0, sizeof(gw));
	later_ms = 0;
	notes.version = 1;
	gw.host = &t_host_functions;
	gw.img = &image;
	gw.reopen = reopen;
	gw.own = 1;
	gw.cnt = 2;
}

static void start_as(bool active)
{
	const struct rbdp_msg msg = { NULL, 0 };

	assert_int_equal(rbdp_gateway_start(&gw, active, &msg), 0);
	assert_int_equal(gw.state, active ? RBDP_ACTIVE : RBDP_STANDBY);
}

/* Begins as the active one, with notes of version 1. */
static void start(void)
{
	begin();
	start_as(/* active= */ true);
}

static void stop(void)
{
	rbdp_gateway_stop(&gw);
	pthread_cond_destroy(&gw.work);
	pthread_mutex_destroy(&gw.lock);
	t_host_end(&host);
}

/* Another gateway has taken over. The thread of this one may have noticed it, or
 * not: the answers are the same. */
static void be_fenced(void)
{
	t_ceph.fenced = true;
}

/* Makes a request of @io that the gateway ends. */
static struct rbp_io *prepare(struct t_request *r, struct rbp_io io)
{
	T_MUST(sizeof(struct rbdp_ask) <= sizeof(r->scratch));
	t_host_prepare(&host, r, io);
	return &r->io;
}

static int ask(void (*how)(struct rbdp_gateway *, struct rbp_io *),
	       uint64_t version)
{
	const struct rbp_io io = {
		.version = version,
		.offset = 1, /* for rbdp_gateway_set() */
		.buf = (void *)"new",
		.len = 3,
	};
	struct t_request r;

	how(&gw, prepare(&r, io));
	return t_host_result(&host, &r);
}

T_TEST(fenced_gateway_reports_the_notes_as_a_standby)
{
	start();
	be_fenced();
	notes.version = 7;
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), 0);
	assert_int_equal(host.notes_version, 7);
	assert_int_equal(gw.state, RBDP_STANDBY);
	stop();
}

T_TEST(fenced_gateway_without_an_image_sends_initiators_away)
{
	start();
	reopen_error = -ENOENT;
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), -ESHUTDOWN);
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), -ESHUTDOWN);
	assert_int_equal(ask(rbdp_gateway_set, 0), -ESHUTDOWN);
	assert_int_equal(gw.state, RBDP_FENCED);
	reopen_error = 0;
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), 0);
	stop();
}

T_TEST(fenced_gateway_puts_notes_as_a_standby)
{
	start();
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), 0);
	assert_int_equal(notes.version, 2);
	assert_int_equal(host.notes_version, 2);
	stop();
}

T_TEST(notes_of_another_are_not_replaced)
{
	start();
	be_fenced();
	notes.version = 2;
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), -ESTALE);
	assert_int_equal(notes.version, 2);
	stop();
}

/* The OSD has put them, but its answer did not arrive before the fence. */
T_TEST(notes_that_are_put_count_once)
{
	start();
	notes.put_done = true;
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), 0);
	assert_int_equal(notes.version, 2);
	assert_int_equal(host.notes_version, 2);
	stop();
}

T_TEST(fenced_gateway_becomes_active_again)
{
	start();
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(gw.state, RBDP_ACTIVE);
	stop();
}

/* ---- other gateways ---- */

#define SELF  1u
#define OTHER 99u

/* The thread of the gateway makes a whole turn, and another one begins. */
static void let_it_turn(void)
{
	for (unsigned int i = 0; i < 2; i++)
		ask(rbdp_gateway_get_notes, 0);
}

static void hear(uint64_t notifier, const char *text)
{
	t_ceph.heard(&gw, 5, 6, notifier, (void *)(uintptr_t)text,
		     strlen(text));
	while (sem_wait(&t_ceph.acked))
		;
}

static unsigned int active_one(void)
{
	struct rbp_paths paths = { .size = sizeof(paths) };

	rbdp_gateway_paths(&gw, &paths);
	assert_int_equal(paths.own, 1);
	assert_int_equal(paths.cnt, 2);
	return paths.active;
}

static const struct beat_row {
	const char *name;
	const char *text;
	uint64_t notifier;
	unsigned int active;
	bool is_misfit;
} beat_rows[] = {
	{ "another one is active", "2", OTHER, 2, false },
	{ "somebody asks", "0", OTHER, 0, false },
	{ "its own beat", "1", SELF, 0, false },
	{ "another one with its number", "1", OTHER, 0, true },
	{ "a number that there is not", "3", OTHER, 0, true },
	{ "no number", "x", OTHER, 0, true },
};

T_ROWS(beat, beat_rows)
{
	const struct beat_row *row = *state;

	begin();
	start_as(/* active= */ false);
	hear(row->notifier, row->text);
	assert_int_equal(active_one(), row->active);
	assert_int_equal(gw.has_misfit, row->is_misfit);
	assert_int_equal(strstr(host.log, "number of its own") != NULL,
			 row->is_misfit);
	stop();
}

/* The pauses between turns of the thread are longer than the test. */
static void start_with_long_pauses(void)
{
	begin();
	later_ms = 3600000;
	start_as(/* active= */ true);
}

/* A beat of another one makes the active one look at its lock. */
T_TEST(claim_is_checked)
{
	start_with_long_pauses();
	hear(OTHER, "2");
	let_it_turn();
	assert_int_equal(gw.state, RBDP_ACTIVE);
	assert_int_equal(active_one(), 1);
	t_ceph.lost = true;
	hear(OTHER, "2");
	while (gw.state == RBDP_ACTIVE)
		t_host_poll(&host, 1);
	let_it_turn();
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_non_null(strstr(host.log, "another target has taken"));
	stop();
}

/* Until there is another watch, nobody would hear of a takeover. */
T_TEST(broken_watch_is_made_again_at_once)
{
	start_with_long_pauses();
	let_it_turn();
	/* The thread may be about to look by itself, but only once. */
	for (int i = 0; i < 2; i++) {
		t_ceph.watches = 0;
		t_ceph.watch_failed(&gw, 1, -ENOTCONN);
		while (!t_ceph.watches)
			t_host_poll(&host, 1);
	}
	stop();
}

struct silence_row {
	const char *name;
	bool takes_over;
	long silent_ms;
	bool is_silent; /* the cluster, too */
	unsigned int took_over_cnt;
	enum rbdp_state state;
};

/* failover-after=5; the first gateway waits for another second. */
static const struct silence_row silence_rows[] = {
	{ "nobody is active for long", true, 7000, false, 0, RBDP_ACTIVE },
	{ "not for long enough", true, 5000, false, 0, RBDP_STANDBY },
	{ "takeovers are by hand", false, 600000, false, 0, RBDP_STANDBY },
	{ "the cluster is away", true, 7000, true, 0, RBDP_STANDBY },
	{ "it has taken over before", true, 10000, false, 1, RBDP_STANDBY },
	{ "it has taken over before, and waits longer", true, 12000, false, 1,
	  RBDP_ACTIVE },
	{ "it has taken over often", true, 60000, false, 9, RBDP_STANDBY },
	{ "it waits for a minute at most", true, 62000, false, 9, RBDP_ACTIVE },
	{ "it has taken over often, long ago", true, 605000, false, 9,
	  RBDP_ACTIVE },
};

T_ROWS(silence, silence_rows)
{
	const struct silence_row *row = *state;
	struct timespec now;

	begin();
	gw.takes_over = row->takes_over;
	gw.after_ms = 5000;
	gw.took_over_cnt = row->took_over_cnt;
	clock_gettime(CLOCK_MONOTONIC, &now);
	gw.took_over_ms = (uint64_t)now.tv_sec * 1000;
	t_ceph.is_silent = row->is_silent;
	start_as(/* active= */ false);
	let_it_turn();
	later_ms = row->silent_ms;
	let_it_turn();
	assert_int_equal(gw.state, row->state);
	assert_int_equal(gw.took_over_cnt,
			 (row->silent_ms < 605000 ? row->took_over_cnt : 0) +
				 (row->state == RBDP_ACTIVE));
	assert_int_equal(active_one(), row->state == RBDP_ACTIVE);
	stop();
}

T_TEST(image_is_let_go)
{
	const struct rbp_io io = { 0 }; /* offset 0 */
	struct t_request r;

	start();
	rbdp_gateway_set(&gw, prepare(&r, io));
	assert_int_equal(t_host_result(&host, &r), 0);
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_string_equal(gw.owner, "");
	assert_int_equal(active_one(), 0);
	/* Again: nothing is to be done. */
	rbdp_gateway_set(&gw, prepare(&r, io));
	assert_int_equal(t_host_result(&host, &r), 0);
	stop();
}

/* A write that has timed out may still be on its way. If the lock was free, the
 * next target would fence nobody. */
T_TEST(lock_is_not_given_back_in_doubt)
{
	const struct rbp_io io = { 0 }; /* offset 0 */
	struct t_request r;

	start();
	image.in_doubt = true;
	rbdp_gateway_set(&gw, prepare(&r, io));
	assert_int_equal(t_host_result(&host, &r), 0);
	assert_int_equal(reopened_cnt, 1);
	assert_int_equal(t_ceph.released_cnt, 0);
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_string_equal(gw.owner, "");
	/* With the new client, it takes the lock and gives it back. */
	assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(gw.state, RBDP_ACTIVE);
	stop();
	assert_int_equal(t_ceph.released_cnt, 1);
	start();
	image.in_doubt = true;
	stop();
	assert_int_equal(t_ceph.released_cnt, 0);
}

T_TEST(lock_cannot_be_taken)
{
	begin();
	start_as(/* active= */ false);
	t_ceph.failing = "rbd_lock_acquire";
	assert_int_equal(ask(rbdp_gateway_set, 0), -EIO);
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_non_null(strstr(host.log, "cannot take the image's lock"));
	t_ceph.failing = NULL;
	/* Without the notes, it would serve against reservations. */
	host.notes_res = -EINVAL;
	assert_int_equal(ask(rbdp_gateway_set, 0), -EINVAL);
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_string_equal(gw.owner, "");
	assert_non_null(strstr(host.log, "cannot read its reservations"));
	stop();
}

static const struct start_row {
	const char *name;
	const char *failing;
	bool active;
	int notes_res;
	int res;
} start_rows[] = {
	{ "no features", "rbd_get_features", false, 0, -EIO },
	{ "no watch", "rados_watch3", false, 0, -EIO },
	{ "no lock", "rbd_lock_acquire", true, 0, -EIO },
	{ "notes that nobody can read", NULL, false, -EBADMSG, -EBADMSG },
};

T_ROWS(no_start, start_rows)
{
	const struct start_row *row = *state;
	const struct rbdp_msg msg = { NULL, 0 };

	begin();
	t_ceph.failing = row->failing;
	host.notes_res = row->notes_res;
	assert_int_equal(rbdp_gateway_start(&gw, row->active, &msg), row->res);
	assert_false(gw.has_watch);
}

/* ---- I/O ---- */

T_TEST(io_needs_the_lock)
{
	struct rbp_paths paths = { .size = sizeof(paths) };
	struct rbp_io io = { .op = RBP_READ };

	begin();
	start_as(/* active= */ false);
	assert_false(rbdp_gateway_enter(&gw, &io));
	assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_true(rbdp_gateway_enter(&gw, &io));
	assert_int_equal(rbdp_gateway_leave(&gw, -EIO), -EIO);
	/* The lock is gone. */
	assert_true(rbdp_gateway_enter(&gw, &io));
	assert_int_equal(rbdp_gateway_leave(&gw, -EROFS), -ESHUTDOWN);
	/* Its command began before another one may have served. */
	rbdp_gateway_paths(&gw, &paths);
	io.epoch = paths.epoch;
	assert_true(rbdp_gateway_enter(&gw, &io));
	assert_int_equal(rbdp_gateway_leave(&gw, 0), 0);
	io.epoch--;
	assert_false(rbdp_gateway_enter(&gw, &io));
	assert_int_equal(gw.inflight, 0);
	stop();
}

static const struct judge_row {
	const char *name;
	unsigned int cnt;
	bool lost, fenced;
	const char *failing;
	int res;
} judge_rows[] = {
	{ "it has the lock: an error of the medium", 2, false, false, NULL,
	  -EIO },
	{ "it has lost the lock", 2, true, false, NULL, -ESHUTDOWN },
	{ "it was fenced", 2, false, true, NULL, -ESHUTDOWN },
	{ "nobody knows: another one may serve", 2, false, false,
	  "rbd_is_exclusive_lock_owner", -ESHUTDOWN },
	{ "nobody knows, and there are no others", 1, false, false,
	  "rbd_is_exclusive_lock_owner", -EIO },
};

T_ROWS(judge, judge_rows)
{
	const struct judge_row *row = *state;
	const struct rbp_io io = { 0 };
	struct t_request r;

	begin();
	gw.cnt = row->cnt;
	start_as(/* active= */ true);
	let_it_turn();
	t_ceph.lost = row->lost;
	t_ceph.fenced = row->fenced;
	t_ceph.failing = row->failing;
	rbdp_gateway_judge(&gw, prepare(&r, io), -EIO);
	assert_int_equal(t_host_result(&host, &r), row->res);
	stop();
}

static const struct cut_row {
	const char *name;
	unsigned int cnt;
	const char *failing; /* the question that gets no answer */
	bool serves;
} cut_rows[] = {
	{ "the owner of the lock is not known", 2,
	  "rbd_is_exclusive_lock_owner", false },
	{ "the watch cannot be made again", 2, "rados_watch3", false },
	{ "there are no others", 1, "rbd_is_exclusive_lock_owner", true },
};

/* Another one may have taken over: initiators must try it. */
T_ROWS(gateway_that_is_cut_off_is_not_active, cut_rows)
{
	const struct cut_row *row = *state;
	struct rbp_paths paths = { .size = sizeof(paths) };
	struct rbp_io io = { .op = RBP_WRITE };

	begin();
	gw.cnt = row->cnt;
	start_as(/* active= */ true);
	t_ceph.err = -ETIMEDOUT;
	t_ceph.failing = row->failing;
	gw.watch_is_broken = true;
	while (!gw.is_unsure)
		ask(rbdp_gateway_get_notes, 0);
	rbdp_gateway_paths(&gw, &paths);
	assert_int_equal(paths.active, row->serves);
	assert_int_equal(rbdp_gateway_enter(&gw, &io), row->serves);
	if (row->serves)
		rbdp_gateway_leave(&gw, 0);
	assert_int_equal(ask(rbdp_gateway_set, 0),
			 !strcmp(row->failing, "rados_watch3") ? 0
							       : -ETIMEDOUT);
	/* It still has the lock. */
	t_ceph.failing = NULL;
	while (gw.is_unsure)
		ask(rbdp_gateway_get_notes, 0);
	rbdp_gateway_paths(&gw, &paths);
	assert_int_equal(paths.active, 1);
	assert_true(rbdp_gateway_enter(&gw, &io));
	rbdp_gateway_leave(&gw, 0);
	stop();
}

/* ---- news ---- */

static const struct news_row {
	const char *name;
	unsigned int group;
	uint64_t notifier;
	int notes_res;	   /* of the host */
	uint64_t version;  /* that the host has then */
	unsigned int acks; /* at once */
	bool comes_later;  /* the answer, when older commands have ended */
} news_rows[] = {
	{ "the host uses them", 2, OTHER, 0, 8, 1, false },
	{ "older commands are being ended", 2, OTHER, 1, 8, 0, true },
	{ "the host cannot read them", 2, OTHER, -EINVAL, 8, 0, false },
	{ "its own ones", 1, SELF, -EINVAL, 1, 1, false },
	{ "those of another one with its number", 1, OTHER, 0, 8, 1, false },
};

/* The owner of the lock answers only when it goes by the notes. */
T_ROWS(news, news_rows)
{
	const struct news_row *row = *state;

	start();
	let_it_turn();
	t_ceph.ack_cnt = 0;
	notes.news = (struct rbdp_news){ .group = row->group, .version = 8 };
	host.notes_res = row->notes_res;
	t_ceph.heard(&gw, 5, 6, row->notifier, (void *)"news", 4);
	assert_int_equal(t_ceph.ack_cnt, row->acks);
	assert_int_equal(host.notes_version, row->version);
	rbdp_gateway_taken(&gw, 7);
	assert_int_equal(t_ceph.ack_cnt, row->acks);
	rbdp_gateway_taken(&gw, 8);
	assert_int_equal(t_ceph.ack_cnt, row->acks + row->comes_later);
	if (t_ceph.ack_cnt) {
		assert_string_equal(t_ceph.ack, T_CEPH_OWNER);
	}
	host.notes_res = 0;
	stop();
}

/* The cluster's default, an hour, is too short for a machine that is paused. */
#define YEAR_S (365u * 86400)

T_TEST(fence_lasts)
{
	start();
	assert_int_equal(t_ceph.fence_s, YEAR_S);
	stop();
	begin();
	start_as(/* active= */ false);
	t_ceph.failing = "rados_blocklist_add";
	assert_int_equal(ask(rbdp_gateway_set, 0), -EIO);
	/* The user has no right to fence: the log names it. */
	t_ceph.err = -EACCES;
	assert_int_equal(ask(rbdp_gateway_set, 0), -EPERM);
	assert_int_equal(gw.state, RBDP_STANDBY);
	assert_int_equal(t_ceph.broken_cnt, 0);
	stop();
}

/* The host logs an error each time. */
T_TEST(notes_that_cannot_be_read_are_not_read_each_second)
{
	start();
	host.notes_res = -EBADMSG;
	notes.version = 7;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(host.notes_version, 7);
	host.notes_version = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(host.notes_version, 0);
	/* An initiator that asks gets an error. */
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), -EBADMSG);
	host.notes_res = 0;
	notes.version = 8;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(host.notes_version, 8);
	stop();
}

/* Its answer would be sent through a pool that is closed. */
T_TEST(news_that_come_while_the_watch_ends_get_no_answer)
{
	start();
	let_it_turn();
	notes.news = (struct rbdp_news){ .group = 2, .version = 8 };
	host.notes_res = 1;
	t_ceph.last_message = "news";
	be_fenced();
	while (!reopened_cnt)
		t_host_turn(&host);
	assert_int_equal(host.notes_version, 8);
	t_ceph.last_message = NULL;
	t_ceph.ack_cnt = 0;
	rbdp_gateway_taken(&gw, 8);
	assert_int_equal(t_ceph.ack_cnt, 0);
	host.notes_res = 0;
	stop();
}

static const struct spread_row {
	const char *name;
	bool is_deaf; /* the owner of the lock */
	unsigned int broken;
} spread_rows[] = {
	{ "the owner of the lock goes by them", false, 0 },
	{ "the owner of the lock does not answer", true, 1 },
};

/* A standby puts notes. An owner that may write by the old ones is fenced. */
T_ROWS(standby_puts_notes, spread_rows)
{
	const struct spread_row *row = *state;

	begin();
	t_ceph.is_deaf = row->is_deaf;
	start_as(/* active= */ false);
	hear(OTHER, "2");
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), 0);
	assert_int_equal(notes.version, 2);
	assert_int_equal(t_ceph.broken_cnt, row->broken);
	assert_int_equal(t_ceph.fence_s, row->broken ? YEAR_S : 0);
	assert_int_equal(active_one(), row->broken ? 0 : 2);
	stop();
}

/* The put ends when older commands have ended here. */
T_TEST(put_waits_for_the_host)
{
	const struct rbp_io io = { .version = 1,
				   .buf = (void *)"new",
				   .len = 3 };
	struct t_request r;

	start();
	let_it_turn();
	host.notes_res = 1;
	rbdp_gateway_put_notes(&gw, prepare(&r, io));
	let_it_turn();
	assert_int_equal(host.notes_version, 2);
	rbdp_gateway_taken(&gw, 1);
	assert_false(t_host_has_ended(&host, &r));
	rbdp_gateway_taken(&gw, 2);
	assert_int_equal(t_host_result(&host, &r), 0);
	host.notes_res = 0;
	stop();
}
