/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi: the channels of a session, reconnecting and closing.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "initiator/session.h"
#include "base/lasting_id.h"
#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"
#include "base/reactor_internal.h"

/* ---- several channels ---- */

#define KIB    1024u
#define WRITES 20

static uint8_t burst_memory[512 * KIB];

/* Writes of a caller that does not wait for each one. */
struct burst {
	struct t_session *t;
	struct srpi_io io[WRITES];
	struct srpi_mem *mem;
	unsigned int cnt;  /* submitted */
	unsigned int over; /* done */
};

static void burst_begin(struct burst *b, struct t_session *t)
{
	struct srpi_error e;

	*b = (struct burst){ .t = t };
	assert_int_equal(srpi_mem_register(t->session, burst_memory,
					   sizeof(burst_memory), &b->mem, &e),
			 0);
}

/* Writes that overlap would wait for each other. */
#define BURST_BLOCKS (512 * KIB / BLK)

/* Write number n starts at block n * BURST_BLOCKS. */
static void burst_write(struct burst *b, unsigned int len_kib)
{
	struct srpi_io *io = &b->io[b->cnt];

	assert_true(b->cnt < WRITES);
	*io = (struct srpi_io){ .op = SRPI_WRITE,
				.offset = b->cnt++ * BURST_BLOCKS * BLK,
				.len = len_kib * KIB,
				.buf = burst_memory,
				.mem = b->mem,
				.done = t_session_count_done,
				.arg = &b->over };
	srpi_submit(b->t->session, io);
}

static void burst_end(struct burst *b)
{
	while (b->over < b->cnt)
		t_session_turn(b->t);
	srpi_mem_free(b->mem);
}

/* The target leaves commands in flight unanswered. */
static struct t_session *t_session_new_silent(void)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .channels = 2 });

	t->ignores_writes = true;
	return t;
}

static unsigned int count_came_by(const struct t_session *t, char channel)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < t->lba_cnt; i++)
		cnt += t->came_by[i] == channel;
	return cnt;
}

static const struct spread_row {
	const char *name;
	unsigned int kib[WRITES]; /* of each write; ends with a 0 */
	const char *by;		  /* the channel of each write */
} spread_rows[] = {
	{ "small ones stay together", { 4, 4, 4, 4, 4, 4 }, "000000" },
	{ "until there is no credit", { 4, 4, 4, 4, 4, 4, 4, 4 }, "00000001" },
	{ "large ones spread", { 512, 512, 512, 512 }, "0101" },
	{ "middling ones, two by two", { 128, 128, 128, 128, 128 }, "00110" },
	{ "small beside large", { 512, 4, 4, 512, 4 }, "01110" },
	{ "large beside small", { 4, 4, 512, 512, 512 }, "00011" },
	{ "large ones until there is no credit",
	  { 512, 4, 4, 4, 4, 4, 4, 4, 4 },
	  "011111110" },
};

T_ROWS(commands_spread_by_their_bytes, spread_rows)
{
	const struct spread_row *row = *state;
	struct t_session *t = t_session_new_silent();
	struct burst b;

	burst_begin(&b, t);
	/* One after the other, because the target does not see in which order
	 * commands left on two channels. */
	for (unsigned int i = 0; i < WRITES && row->kib[i]; i++) {
		burst_write(&b, row->kib[i]);
		while (t->lba_cnt < b.cnt)
			t_session_turn(t);
	}
	assert_string_equal(t->came_by, row->by);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	burst_end(&b);
	t_session_free(t);
}

/* Answered commands no longer count. */
T_TEST(commands_come_together_again)
{
	struct t_session *t = t_session_new_silent();
	struct burst b;

	t->ignores_writes = false;
	burst_begin(&b, t);
	for (unsigned int i = 0; i < 6; i++) {
		burst_write(&b, 512);
		while (b.over < b.cnt)
			t_session_turn(t);
	}
	assert_string_equal(t->came_by, "000000");
	burst_end(&b);
	t_session_free(t);
}

/* When one channel is lost, the commands of both are sent again in order. */
T_TEST(lost_channel_has_all_sent_again)
{
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	struct t_session *t = t_session_new_silent();
	struct burst b;
	int last[CHANNELS] = { -1, -1 };

	burst_begin(&b, t);
	for (unsigned int i = 0; i < 10; i++)
		burst_write(&b, 256);
	while (t->lba_cnt < 10)
		t_session_turn(t);
	assert_int_equal(count_came_by(t, '0'), 5);
	t_session_drop(t, 1);
	while (b.over < b.cnt)
		t_session_turn(t);
	assert_int_equal(t->lba_cnt, 10);
	assert_true(count_came_by(t, '1') > 0);
	for (unsigned int i = 0; i < t->lba_cnt; i++) {
		int *before = &last[t->came_by[i] - '0'];

		assert_true((int)t->lbas[i] > *before);
		*before = (int)t->lbas[i];
	}
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.replayed, 10);
	assert_int_equal(stats.reconnects, 1);
	burst_end(&b);
	t_session_free(t);
}

/*
 * ib_srpt may refuse a channel when it lacks memory for another one. A balancer of
 * connections, or an address that has moved, leads to another target, which takes
 * the login for that of a new nexus. Writes must not go there: no volume was
 * checked, and no flush would cover them.
 */
static const struct alone_row {
	const char *name;
	struct t_session_options options;
	const char *why;
} alone_rows[] = {
	{ "the target accepts one",
	  { .mode = MODE_CACHE, .channels = 2, .only_one = true },
	  "reason 0x00010001" },
	{ "another target has the second",
	  { .mode = MODE_CACHE, .channels = 2, .other_nexus = true },
	  "another target" },
};

T_ROWS(one_channel_is_used_alone, alone_rows)
{
	const struct alone_row *row = *state;
	struct t_session *t = t_session_new(&row->options);
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	struct burst b;

	srpi_session_info(t->session, &info);
	assert_int_equal(info.channels, 1);
	assert_non_null(strstr(info.fewer, row->why));
	burst_begin(&b, t);
	for (unsigned int i = 0; i < 10; i++)
		burst_write(&b, 256);
	burst_end(&b);
	assert_int_equal(count_came_by(t, '0'), 10);
	t_session_free(t);
}

/* ---- failed attempts ---- */

enum {
	STEPS_MAX = 20
};

/* A write waits while the target rejects the login, or disconnects at any step
 * of the first one. In the end it succeeds. */
T_TEST(write_waits_for_the_attempt_that_succeeds)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	for (unsigned int step = 0; step < STEPS_MAX; step++) {
		t->rejects = step == 0;
		t->leaves_at = step;
		t_session_drop(t, 0);
		while (srpi_session_state(t->session) == SRPI_RUNNING)
			t_session_turn(t);
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
		t->leaves_at = 0;
	}
	srpi_session_stats(t->session, &stats);
	assert_true(stats.attempts > stats.reconnects);
	assert_true(stats.reconnects >= STEPS_MAX);
	t_session_free(t);
}

static const struct slow_row {
	const char *name;
	int fast_io_fail_ms; /* 0: off */
	unsigned int least;  /* times that it is sent */
	unsigned int most;
} slow_rows[] = {
	{ "by the number of times", 0, 6, 6 },
	{ "by the time since its connection was lost first", 30, 2, 5 },
};

/* The target answers all but the write, also the signs of life. Each time, the
 * connection comes back at once. */
T_ROWS(command_that_never_has_an_answer_ends, slow_rows)
{
	const struct slow_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE,
		.has_store = true,
		.comes_back = true,
		.generation = 1,
		.fast_io_fail_ms = row->fast_io_fail_ms,
		.io_timeout_ms = 20,
		.keep_alive_ms = 1 });

	t->never_writes = true;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), -EIO);
	assert_in_range(t->writes, row->least, row->most);
	t->never_writes = false;
	while (srpi_session_state(t->session) != SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* The next connection has credits again. */
T_TEST(connection_without_credits_ends)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .io_timeout_ms = 20 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	t->keeps_credits = true;
	for (unsigned int i = 0; i < REQ_LIM; i++)
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.timeouts, 1);
	assert_int_equal(stats.reconnects, 1);
	assert_int_equal(stats.replayed, 0);
	t_session_free(t);
}

/* The target does not answer a command, or a command of discovery after a
 * reconnect. */
T_TEST(silence_ends_the_connection)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .io_timeout_ms = 20,
							   .timeout_ms = 200 });
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	t->silent_at = 1;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 1);
	srpi_session_stats(t->session, &stats);
	assert_true(stats.timeouts >= 1);
	assert_true(stats.replayed >= 1);
	t_session_drop(t, 0);
	while (srpi_session_state(t->session) == SRPI_RUNNING)
		t_session_turn(t);
	t->silent_at = 3;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* As if the disk were blocked by commands of the old connection. */
T_TEST(login_without_an_answer_is_told_and_tried_again)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .timeout_ms = 200 });

	t->delays_login = true;
	t_session_drop(t, 0);
	while (!strstr(t->why.text,
		       "no answer; the network is down, or the target "
		       "hangs, or its disk is still busy"))
		t_session_turn(t);
	xp_reject(t->kept_login, NULL, 0);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* It says so at each MODE SENSE (6). */
T_TEST(target_whose_volumes_change_again_and_again_is_left)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	t->override =
		t_override_attention(0x1a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	t->override.cnt = 1000000;
	t_session_drop(t, 0);
	while (!strstr(t->why.text, "again and again"))
		t_session_turn(t);
	t->override.cnt = 0;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* The request for a reconnect may be lost and repeated late. */
T_TEST(first_login_to_come_back_is_given_up_early)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .timeout_ms = 90000 });
	uint64_t asked_us;

	t->delays_login = true;
	t_session_drop(t, 0);
	while (!t->kept_login)
		t_session_turn(t);
	asked_us = reactor_now_us(t->ctx->reactor);
	reactor_skip(t->ctx->reactor, 1000);
	while (!strstr(t->why.text, "no answer"))
		t_session_turn(t);
	assert_true(reactor_now_us(t->ctx->reactor) - asked_us < 90000000);
	xp_reject(t->kept_login, NULL, 0);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* Pauses grow from loss to loss, but begin anew after a connection that has
 * stood for a while. */
T_TEST(pauses_begin_anew_after_a_connection_that_stood)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	const unsigned int *next_ms = &t->session->reconnect.pause_ms;
	unsigned int first_ms;

	t->session->options.reconnect_delay_ms = 60000;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	first_ms = *next_ms;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_true(*next_ms > first_ms);
	reactor_skip(t->ctx->reactor, 60000);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(*next_ms, first_ms);
	t_session_free(t);
}

/* ---- requests from the target ---- */

/* The SEND of the first answer may complete after the target, which has the
 * answer, has sent another request. */
T_TEST(target_asks_again_before_our_send_completes)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE });
	struct srpi_io io = { .op = SRPI_FLUSH };

	t_session_ask_credit(t);
	t_session_ask_credit(t);
	while (t->cred_rsps < 2 &&
	       srpi_session_state(t->session) == SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), 0);
	t_session_free(t);
}

/* Answers take memory, and the library limits this memory. */
T_TEST(target_that_asks_without_end_is_left)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE });

	for (int i = 0; i < 20; i++)
		t_session_ask_credit(t);
	while (srpi_session_state(t->session) != SRPI_LOST)
		t_session_turn(t);
	t_session_free(t);
}

/* ---- closing from within callbacks ---- */

static const struct close_row {
	const char *name;
	enum close_from from;
	unsigned int channels;
	bool comes_back;
	bool grows;    /* the volume, while the connection is lost */
	bool attended; /* the volume grows, and a unit attention reports it */
	bool at_once;  /* timers expire while channels drain */
	bool answered; /* commands in flight are answered in the end */
} close_rows[] = {
	{ "an answer, one channel", DONE, 1, true, .answered = true },
	{ "an answer, two channels", DONE, 2, true, .answered = true },
	{ "the last answer", LAST, 2, true, .answered = true },
	{ "the first I/O lost, one channel", DONE, 1, false },
	{ "the first I/O lost, two channels", DONE, 2, false },
	{ "the last I/O lost, one channel", LAST, 1, false },
	{ "the last I/O lost, two channels", LAST, 2, false },
	{ "the first I/O of a channel that drains, of one", DONE, 1, false,
	  .at_once = true },
	{ "the first I/O of a channel that drains, of two", DONE, 2, false,
	  .at_once = true },
	{ "the last I/O of a channel that drains, of one", LAST, 1, false,
	  .at_once = true },
	{ "the last I/O of a channel that drains, of two", LAST, 2, false,
	  .at_once = true },
	{ "the loss, one channel", BLOCKED, 1, true },
	{ "the loss, two channels", BLOCKED, 2, true },
	{ "the loss, with times running", BLOCKED, 2, false },
	{ "I/O fails from now on, one channel", FAIL_FAST, 1, false },
	{ "I/O fails from now on, two channels", FAIL_FAST, 2, false },
	{ "given up", LOST, 2, false },
	{ "back again, one channel", BACK, 1, true },
	{ "back again, two channels", BACK, 2, true },
	{ "back, and it has grown", RESIZED, 2, true, .grows = true },
	{ "it has grown", RESIZED, 2, true, .grows = true, .attended = true,
	  .answered = true },
};

struct closing {
	struct t_session *t;
	struct srpi_io io[WRITES];
	unsigned int cnt;
	unsigned int over;
};

static void close_done(struct srpi_io *io, int res)
{
	struct closing *c = io->arg;

	assert_true(res == 0 || res == -EIO || res == -ECANCELED);
	if (++c->over == c->cnt)
		t_session_close_from(c->t, LAST);
	t_session_close_from(c->t, DONE);
}

static void close_begin(struct closing *c, struct t_session *t)
{
	struct srpi_error e;
	struct srpi_mem *mem;

	c->t = t;
	assert_int_equal(srpi_mem_register(t->session, burst_memory,
					   sizeof(burst_memory), &mem, &e),
			 0);
	for (c->cnt = 0; c->cnt < 12; c->cnt++) {
		c->io[c->cnt] =
			(struct srpi_io){ .op = SRPI_WRITE,
					  .offset = c->cnt * BURST_BLOCKS * BLK,
					  .len = 128 * KIB,
					  .buf = burst_memory,
					  .mem = mem,
					  .done = close_done,
					  .arg = c };
		srpi_submit(t->session, &c->io[c->cnt]);
	}
}

/* From whatever callback the session is closed, every I/O is answered once, and
 * the library reports the end. */
T_ROWS(session_is_closed_from_a_callback, close_rows)
{
	const struct close_row *row = *state;
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = row->comes_back,
					     .generation = 1,
					     .channels = row->channels });
	struct closing c = { 0 };

	t->ignores_writes = !row->answered;
	t->closes_from = row->from;
	t->skips_a_second = row->at_once;
	if (row->grows)
		t->blocks *= 2;
	if (row->attended)
		t->attention = SCSI_ASC_CAPACITY_CHANGED;
	close_begin(&c, t);
	while (!row->answered && t->lba_cnt < c.cnt &&
	       t->lba_cnt < row->channels * (REQ_LIM - 1))
		t_session_turn(t);
	if (!row->answered)
		t_session_drop(t, 0);
	while (!t->closed)
		t_session_turn(t);
	assert_int_equal(c.over, c.cnt);
	srpi_mem_free(c.io[0].mem);
	t_session_free(t);
}

/* ---- help by other threads ---- */

/* See base/contention.h. */
T_TEST(a_read_needs_no_help)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE });
	struct contention *c = &t->ctx->reactor->contention;

	(void)state;
	c->helped = false;
	/* The target refuses it. */
	assert_int_equal(t_session_io(t, SRPI_READ, false), -EOPNOTSUPP);
	assert_false(c->helped);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_true(c->helped);
	t_session_free(t);
}

/* ---- the port identifier ---- */

static void link_note_initiator(const struct t_session *t,
				char ret[SRPI_PORT_SIZE])
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };

	srpi_session_info(t->session, &info);
	memcpy(ret, info.initiator, SRPI_PORT_SIZE);
}

/* A program that is started again ends its old session. Two that run do not end
 * the session of each other. */
T_TEST(purpose_has_one_identifier_at_a_time)
{
	char purpose[32];
	const struct t_session_options o = { .purpose = purpose };
	char first[SRPI_PORT_SIZE], second[SRPI_PORT_SIZE],
		again[SRPI_PORT_SIZE];
	struct t_session *t, *u;

	snprintf(purpose, sizeof(purpose), "a test, %d", getpid());
	t = t_session_new(&o);
	link_note_initiator(t, first);
	assert_string_equal(t->session->purpose.fault, "");
	u = t_session_new(&o);
	link_note_initiator(u, second);
	assert_string_not_equal(first, second);
	assert_string_not_equal(u->session->purpose.fault, "");
	t_session_free(t);
	t = t_session_new(&o);
	link_note_initiator(t, again);
	assert_string_equal(again, first);
	t_session_free(t);
	t_session_free(u);
	purpose[0] = 'A';
	t = t_session_new(&o);
	link_note_initiator(t, again);
	assert_string_not_equal(again, first);
	t_session_free(t);
}

/* A child that is forked, and runs no other program, lives longer than the
 * session. */
T_TEST(forked_child_keeps_no_identifier)
{
	char purpose[32], first[SRPI_PORT_SIZE], again[SRPI_PORT_SIZE], c;
	const struct t_session_options o = { .purpose = purpose };
	struct t_session *t;
	int ends[2];
	pid_t pid;

	snprintf(purpose, sizeof(purpose), "fork, %d", getpid());
	t = t_session_new(&o);
	link_note_initiator(t, first);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[1]);
		_exit(read(ends[0], &c, 1) != 0);
	}
	close(ends[0]);
	t_session_free(t);
	t = t_session_new(&o);
	link_note_initiator(t, again);
	close(ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_string_equal(again, first);
	t_session_free(t);
}

static void link_connected(struct srpi_session *s, const struct srpi_error *e,
			   void *arg)
{
}

static const struct ended_row {
	const char *name;
	bool is_lost; /* and is not closed before the next one begins */
} ended_rows[] = {
	{ "it is closing", false },
	{ "it is lost", true },
};

/* As a program does that begins again when a session is lost. The new session ends
 * what the target still has of the old one. */
T_ROWS(session_that_has_ended_has_no_identifier, ended_rows)
{
	const struct ended_row *row = *state;
	char purpose[32], uri[64], first[SRPI_PORT_SIZE];
	const struct t_session_options o = { .purpose = purpose,
					     .mode = MODE_CACHE,
					     .has_store = true,
					     .is_memory = true,
					     .comes_back = true,
					     .generation = 1 };
	struct srpi_options so = { .struct_size = sizeof(so),
				   .purpose = purpose };
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	struct srpi_session *next;
	struct srpi_error e;
	struct t_session *t;

	snprintf(purpose, sizeof(purpose), "ended, %d", getpid());
	t = t_session_new(&o);
	link_note_initiator(t, first);
	snprintf(uri, sizeof(uri), "srp+tcp://%s", t->addr);
	if (row->is_lost) {
		t_session_lose(t, 2, SCSI_ASC_NEXUS_LOSS);
		assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	} else {
		t->closes_from = LAST;
		t_session_close_from(t, LAST);
	}
	assert_int_equal(
		srpi_connect(t->ctx, uri, &so, link_connected, t, &next, &e),
		0);
	srpi_session_info(next, &info);
	assert_string_equal(info.initiator, first);
	srpi_close_wait(t->ctx, next);
	t_session_free(t);
}

int main(void)
{
	char state_dir[] = "srpi-link.XXXXXX";
	char path[4096];
	int failed;

	assert_non_null(mkdtemp(state_dir));
	assert_non_null(realpath(state_dir, path));
	setenv("STATE_DIRECTORY", path, 1);
	failed = t_run();
	/* The sessions have left only what was drawn. */
	unlink(strcat(path, "/" LASTING_ID_FILE));
	assert_int_equal(rmdir(state_dir), 0);
	return failed;
}
