/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens when the connection of a RUNNING session is lost:
 *
 *   lost    All channels are closed. From then on no RDMA can touch our memory,
 *           and commands without a response are held.
 *   pause   100 ms at first, then a quarter longer each time, up to
 *           reconnect_delay. So a target that is back soon is noticed soon.
 *           Half of the pause is random, so that many clients of one target do
 *           not come back at the same moment.
 *   attempt Log in, check that the volumes are the same, open the other
 *           channels. TCP and the CM of RDMA repeat a lost request late, so the
 *           first login has a second, and each further one has more, up to
 *           timeout.
 *   up      Held commands are sent again.
 *
 * Two timers run from the loss on, independently of the attempts. path.h tells
 * which address an attempt tries, and when there is no pause.
 *
 * When a target reports that its volumes may have changed, the same happens
 * over the present connection: I/O is held, discovery checks the volumes, and
 * I/O goes on if they are the same. If discovery fails, the session ends the
 * connection and logs in again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"

#define FIRST_PAUSE_MS	       100u
#define FIRST_LOGIN_TIMEOUT_MS 1000u

static uint64_t now_us(const struct srpi_session *s)
{
	return reactor_now_us(s->ctx->reactor);
}

static uint64_t down_ms(const struct srpi_session *s)
{
	return (now_us(s) - s->reconnect.down_us) / 1000;
}

static bool is_reconnecting(const struct srpi_session *s)
{
	return s->state == SRPI_BLOCKED || s->state == SRPI_FAIL_FAST;
}

void ini_reconnect_stop(struct srpi_session *s)
{
	reactor_timer_stop(&s->reconnect.fail_timer);
	reactor_timer_stop(&s->reconnect.loss_timer);
	reactor_timer_stop(&s->reconnect.pause_timer);
}

/* ---- giving up ---- */

static void fail_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, reconnect.fail_timer);

	ini_error_still_down(s, down_ms(s), "");
	ini_session_enter(s, SRPI_FAIL_FAST, &s->error);
	ini_queue_refuse(s, -EIO);
}

static void reconnect_give_up(struct srpi_session *s)
{
	ini_reconnect_stop(s);
	ini_session_enter(s, SRPI_LOST, &s->error);
	ini_queue_refuse(s, -EIO);
	ini_link_end(s);
}

static void loss_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, reconnect.loss_timer);

	ini_error_still_down(s, down_ms(s), ", given up");
	reconnect_give_up(s);
}

/* ---- lost ---- */

static void set_deadline(struct srpi_session *s, struct reactor_timer *t,
			 int limit_ms)
{
	uint64_t gone = down_ms(s);

	if (limit_ms < 0)
		return;
	reactor_timer_set(s->ctx->reactor, t,
			  gone < (uint64_t)limit_ms ? limit_ms - gone : 0);
}

/* s->error says why. */
static void session_block(struct srpi_session *s)
{
	uint64_t now = now_us(s);
	bool stood = now - s->reconnect.up_us >=
		     (uint64_t)s->options.reconnect_delay_ms * 1000;

	if (s->reconnect.has_served)
		s->reconnect.down_us = now;
	if (stood)
		s->reconnect.pause_ms = FIRST_PAUSE_MS;
	ini_paths_outage(s, stood);
	s->reconnect.login_timeout_ms = FIRST_LOGIN_TIMEOUT_MS;
	s->reconnect.has_served = false;
	s->reconnect.lost_writes = false;
	ini_volume_forget_attentions(s);
	ini_session_enter(s, SRPI_BLOCKED, &s->error);
	if (s->closing) /* by who was told */
		return;
	set_deadline(s, &s->reconnect.fail_timer, s->options.fast_io_fail_ms);
	set_deadline(s, &s->reconnect.loss_timer, s->options.dev_loss_ms);
}

void ini_reconnect_lost(struct srpi_session *s, const struct ini_channel *ch)
{
	ini_error_connection_lost(s, ch);
	ini_path_failed(s, &s->error);
	session_block(s);
	if (!s->closing)
		ini_link_end(s);
}

void ini_reconnect_standby(struct srpi_session *s, uint64_t lun_field,
			   const struct scsi_sense *sense)
{
	if (s->link != INI_LINK_UP)
		return; /* discovery or a new attempt is in progress */
	ini_error_standby_sense(s, lun_field, sense);
	ini_path_failed(s, &s->error);
	session_block(s);
	if (!s->closing)
		ini_link_end(s);
}

void ini_reconnect_look(struct srpi_session *s)
{
	s->looking = true;
	session_block(s);
}

/* ---- attempts ---- */

/* xorshift32 */
static uint32_t next_random(struct srpi_session *s)
{
	s->reconnect.jitter ^= s->reconnect.jitter << 13;
	s->reconnect.jitter ^= s->reconnect.jitter >> 17;
	s->reconnect.jitter ^= s->reconnect.jitter << 5;
	return s->reconnect.jitter;
}

void ini_reconnect_down(struct srpi_session *s)
{
	unsigned int max = (unsigned int)s->options.reconnect_delay_ms;
	unsigned int half;

	if (s->closing) {
		ini_session_free_if_idle(s);
		return;
	}
	if (s->state == SRPI_CONNECTING ||
	    (is_reconnecting(s) && s->options.reconnect_delay_ms >= 0 &&
	     ini_paths_quick(s))) {
		reactor_timer_set(s->ctx->reactor, &s->reconnect.pause_timer,
				  0);
		return;
	}
	if (!is_reconnecting(s) || s->options.reconnect_delay_ms < 0)
		return;
	if (s->reconnect.pause_ms > max)
		s->reconnect.pause_ms = max;
	half = s->reconnect.pause_ms / 2;
	reactor_timer_set(s->ctx->reactor, &s->reconnect.pause_timer,
			  s->reconnect.pause_ms - half +
				  next_random(s) % (half + 1));
	s->reconnect.pause_ms += s->reconnect.pause_ms / 4;
}

static void reconnect_attempt(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, reconnect.pause_timer);
	struct error e = { 0 };
	int err;

	/* Discovery of the attempt before has not ended yet. */
	if (s->discovery) {
		reactor_timer_set(s->ctx->reactor, t, 1);
		return;
	}
	if (s->state == SRPI_CONNECTING) {
		ini_connect_begin(s);
		return;
	}
	s->stats.attempts++;
	ini_path_next(s);
	ini_volume_new_nexus(s);
	err = ini_link_begin(s, &e);
	if (!err)
		return;
	e.err = err;
	ini_error_no_login(s, NULL, &e);
	ini_reconnect_failed(s, (uint32_t)-err);
}

unsigned int ini_reconnect_login_timeout(const struct srpi_session *s)
{
	return s->reconnect.login_timeout_ms < s->options.timeout_ms
		       ? s->reconnect.login_timeout_ms
		       : s->options.timeout_ms;
}

/* s->error says why; the state of the address is set. */
static void leave_path(struct srpi_session *s, uint32_t reason)
{
	bool news = reason != ini_path_now(s)->reason;

	s->looking = false;
	ini_path_now(s)->reason = reason;
	if (news)
		ini_session_enter(s, s->state, &s->error);
	ini_link_end(s);
}

void ini_reconnect_failed(struct srpi_session *s, uint32_t reason)
{
	/* The target may be slow. */
	if (reason == ETIMEDOUT &&
	    s->reconnect.login_timeout_ms < s->options.timeout_ms)
		s->reconnect.login_timeout_ms +=
			s->reconnect.login_timeout_ms / 4;
	ini_path_failed(s, &s->error);
	leave_path(s, reason);
}

void ini_reconnect_up(struct srpi_session *s)
{
	struct error back = { 0 };

	ini_reconnect_stop(s);
	s->reconnect.up_us = now_us(s);
	s->stats.reconnects += !s->looking;
	s->reconnect.has_served = list_empty(&s->queue.waiting);
	ini_back_text(s, down_ms(s), &back);
	s->looking = false;
	ini_path_up(s);
	ini_session_enter(s, SRPI_RUNNING, &back);
	ini_queue_release_fenced(s);
	ini_queue_send(s);
}

/* ---- is it the same? ---- */

static const struct ini_volume *find_lun(const struct ini_volume *all,
					 unsigned int cnt, uint64_t lun_field)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (all[i].lun_field == lun_field)
			return &all[i];
	}
	return NULL;
}

/* The data was in the memory of a process that has ended. */
static bool is_gone(const struct ini_volume *was, const struct ini_volume *now)
{
	return was->has_store && was->store.is_memory &&
	       (!now->has_store ||
		memcmp(was->store.generation, now->store.generation,
		       SCSI_GENERATION_LEN));
}

/* Without the answer to this question, @now may be @was or not. */
static bool is_unanswered(enum ini_answer was, enum ini_answer now)
{
	return (now == INI_FAILED && was != INI_FAILED) ||
	       (now == INI_REFUSED && was == INI_ANSWERED);
}

static const char *find_unanswered(const struct ini_volume *was,
				   const struct ini_volume *now)
{
	for (unsigned int q = 0; q < INI_QUESTIONS; q++) {
		if (is_unanswered(was->answers[q], now->answers[q]))
			return ini_discovery_question(q);
	}
	return NULL;
}

/* Do the identifiers differ? Only questions that were answered both times
 * count. An answer that @was lacked is believed now. */
static bool compare_ids(const struct ini_volume *was,
			const struct ini_volume *now, char *buf, size_t len)
{
	const struct srpi_volume_info *a = &was->info;
	const struct srpi_volume_info *b = &now->info;

	buf[0] = '\0';
	if (was->answers[INI_Q_IDS] != INI_FAILED && strcmp(a->naa, b->naa))
		snprintf(buf, len,
			 "another volume is there now, %s instead of %s",
			 *b->naa ? b->naa : "one without identifier",
			 *a->naa ? a->naa : "one without identifier");
	else if (!*a->naa && was->answers[INI_Q_SERIAL] != INI_FAILED &&
		 strcmp(a->serial, b->serial))
		snprintf(buf, len,
			 "another volume is there now, serial number '%s' "
			 "instead of '%s'",
			 b->serial, a->serial);
	return *buf;
}

/* What makes @now another volume than @was. */
static bool reconnect_compare(const struct ini_volume *was,
			      const struct ini_volume *now, char *buf,
			      size_t len)
{
	const struct srpi_volume_info *a = &was->info;
	const struct srpi_volume_info *b = &now->info;

	if (compare_ids(was, now, buf, len))
		return true;
	if (is_gone(was, now))
		snprintf(buf, len, "it was in memory, which is gone");
	else if (a->block_size != b->block_size)
		snprintf(buf, len, "its blocks have %u bytes now instead of %u",
			 b->block_size, a->block_size);
	else if (b->size < a->size)
		snprintf(buf, len, "it has shrunk from %llu to %llu bytes",
			 (unsigned long long)a->size,
			 (unsigned long long)b->size);
	return *buf;
}

/* What discovery has found of a volume by the present address. */
enum check {
	CHECK_SAME,
	CHECK_GONE,    /* removed, now or before: the others go on */
	CHECK_MISSING, /* not shown; it may appear later */
	CHECK_UNKNOWN, /* a question had no answer */
	CHECK_OTHER,   /* it is another volume */
	CHECK_STANDBY, /* the same, as far as can be seen */
	CHECK_UNSAFE,  /* the same, but of another target */
};

/* A program that has named a volume does not lose it with another one that it has
 * never used. */
static bool reconnect_ignores(const struct srpi_session *s,
			      const struct ini_volume *was)
{
	return !was->is_used && !ini_path_wants(s, was);
}

static bool is_unused_and_gone(const struct srpi_session *s,
			       const struct ini_volume *was,
			       const struct ini_volume *now)
{
	char what[256];

	return reconnect_ignores(s, was) &&
	       (!now || find_unanswered(was, now) ||
		reconnect_compare(was, now, what, sizeof(what)));
}

/* Unless the result is CHECK_SAME or CHECK_GONE, s->error says why. */
static enum check check_volume(struct srpi_session *s, struct ini_volume *was,
			       const struct ini_volume *now)
{
	const char *question = now ? find_unanswered(was, now) : NULL;
	bool standby = now && now->access.is_standby && ini_path_wants(s, was);
	char what[256];

	if (!now && (s->looking || was->is_gone))
		return CHECK_GONE;
	if (is_unused_and_gone(s, was, now))
		return CHECK_GONE;
	if (!now) {
		ini_error_other_volume(s, was, "the target does not show it");
		s->error.err = -ENODEV;
		return CHECK_MISSING;
	}
	if (question && !standby) {
		ini_error_unanswered(s, was, question);
		return CHECK_UNKNOWN;
	}
	if (!question &&
	    (standby ? compare_ids(was, now, what, sizeof(what))
		     : reconnect_compare(was, now, what, sizeof(what)))) {
		ini_error_other_volume(s, was, what);
		return CHECK_OTHER;
	}
	if (standby) {
		ini_error_standby(s, was);
		return CHECK_STANDBY;
	}
	if (s->paths.now != s->paths.home && !ini_path_is_fenced(was, now)) {
		ini_error_unsafe(s, was);
		return CHECK_UNSAFE;
	}
	return CHECK_SAME;
}

static void take_volume(struct srpi_session *s, struct ini_volume *was,
			const struct ini_volume *now)
{
	uint64_t size = was->info.size;

	if (!now || is_unused_and_gone(s, was, now)) {
		s->reconnect.lost_writes |= ini_volume_gone(was);
		return;
	}
	s->reconnect.lost_writes |= ini_volume_back(was, now);
	if (size != now->info.size) {
		was->info.size = size;
		ini_volume_resize(s, was, now->info.size);
	}
}

/* The present address cannot be used; s->error says why. */
static void check_failed(struct srpi_session *s, enum check check)
{
	switch (check) {
	case CHECK_SAME:
	case CHECK_GONE:
		break;
	case CHECK_MISSING:
		ini_reconnect_failed(s, ENODEV);
		break;
	case CHECK_UNKNOWN:
		ini_reconnect_failed(s, EAGAIN);
		break;
	case CHECK_STANDBY:
		ini_reconnect_failed(s, ESHUTDOWN);
		break;
	case CHECK_UNSAFE:
		ini_path_enter(s, SRPI_PATH_UNSAFE, &s->error);
		leave_path(s, EXDEV);
		break;
	case CHECK_OTHER:
		ini_path_enter(s, SRPI_PATH_OTHER, &s->error);
		if (ini_paths_all_other(s))
			reconnect_give_up(s);
		else
			leave_path(s, ESTALE);
		break;
	}
}

/* Compares all volumes before it changes what is known of any of them:
 * another address may be tried next. */
bool ini_reconnect_check(struct srpi_session *s)
{
	enum check check = CHECK_SAME;
	struct ini_volume *found;
	unsigned int cnt;

	ini_discovery_take(s, &found, &cnt);
	for (unsigned int i = 0; check <= CHECK_GONE && i < s->volume_cnt; i++)
		check = check_volume(
			s, &s->volumes[i],
			find_lun(found, cnt, s->volumes[i].lun_field));
	for (unsigned int i = 0; check <= CHECK_GONE && i < s->volume_cnt; i++)
		take_volume(s, &s->volumes[i],
			    find_lun(found, cnt, s->volumes[i].lun_field));
	if (check > CHECK_GONE)
		check_failed(s, check);
	free(found);
	return check <= CHECK_GONE;
}

void ini_reconnect_init(struct srpi_session *s)
{
	reactor_timer_init(&s->reconnect.fail_timer, fail_due);
	reactor_timer_init(&s->reconnect.loss_timer, loss_due);
	reactor_timer_init(&s->reconnect.pause_timer, reconnect_attempt);
	s->reconnect.pause_ms = FIRST_PAUSE_MS;
	memcpy(&s->reconnect.jitter, &s->initiator,
	       sizeof(s->reconnect.jitter));
	s->reconnect.jitter |= 1; /* never 0 */
}
