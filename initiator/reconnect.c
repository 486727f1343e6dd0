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
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"

#define FIRST_PAUSE_MS	       100u
#define FIRST_LOGIN_TIMEOUT_MS 1000u

/* Pauses before a login for another nexus: the n-th is n times as long. */
#define NEXUS_PAUSE_MS 10u
#define NEXUS_TRIES    20u

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
	s->reconnect.again = false;
	s->reconnect.needs_nexus = false;
	ini_volume_forget_attentions(s);
	ini_queue_drop_questions(s);
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

static unsigned int reconnect_short_pause(const struct srpi_session *s)
{
	return s->reconnect.again ? s->reconnect.replaced_cnt * NEXUS_PAUSE_MS
				  : 0;
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
	     (s->reconnect.again || ini_paths_quick(s)))) {
		reactor_timer_set(s->ctx->reactor, &s->reconnect.pause_timer,
				  reconnect_short_pause(s));
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
	if (!s->reconnect.again)
		ini_path_next(s);
	s->reconnect.again = false;
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
	ini_queue_sort(s);
	s->reconnect.has_served = list_empty(&s->queue.waiting);
	ini_back_text(s, down_ms(s), &back);
	s->looking = false;
	ini_path_up(s);
	ini_session_enter(s, SRPI_RUNNING, &back);
	ini_queue_release_fenced(s);
	ini_queue_send(s);
	ini_absent_start(s);
}

/* ---- is it the same? ---- */

/* The present address cannot be used; s->error says why. */
static void reconnect_check_failed(struct srpi_session *s, enum ini_check check)
{
	switch (check) {
	case INI_CHECK_SAME:
	case INI_CHECK_GONE:
		break;
	case INI_CHECK_MISSING:
		ini_reconnect_failed(s, ENODEV);
		break;
	case INI_CHECK_UNKNOWN:
		ini_reconnect_failed(s, EAGAIN);
		break;
	case INI_CHECK_STANDBY:
		ini_reconnect_failed(s, ESHUTDOWN);
		break;
	case INI_CHECK_UNSAFE:
		ini_path_enter(s, SRPI_PATH_UNSAFE, &s->error);
		leave_path(s, EXDEV);
		break;
	case INI_CHECK_OTHER:
		ini_path_enter(s, SRPI_PATH_OTHER, &s->error);
		if (ini_paths_all_other(s))
			reconnect_give_up(s);
		else
			leave_path(s, ESTALE);
		break;
	}
}

bool ini_reconnect_refuses(struct srpi_session *s,
			   const struct srp_login_rsp *rsp)
{
	if (!s->reconnect.needs_nexus ||
	    rsp->multichan != SRP_MULTICHAN_TERMINATED ||
	    s->reconnect.replaced_cnt == NEXUS_TRIES)
		return false;
	s->reconnect.replaced_cnt++;
	s->reconnect.again = true;
	return true;
}

/*
 * A target may keep the LUN of a volume that it has taken away free as long as it
 * has the nexus of the initiator. A login that replaces an older connection may
 * not suffice for that. True: the session logs in again.
 */
static bool reconnect_again(struct srpi_session *s)
{
	s->reconnect.again &= s->options.reconnect_delay_ms >= 0;
	if (!s->reconnect.again || s->closing)
		return false;
	s->reconnect.needs_nexus = true;
	s->reconnect.replaced_cnt = 0;
	s->looking = false;
	ini_link_end(s);
	return true;
}

bool ini_reconnect_check(struct srpi_session *s)
{
	struct ini_volume *found;
	enum ini_check check;
	unsigned int cnt;

	ini_discovery_take(s, &found, &cnt);
	check = ini_verify_volumes(s, found, cnt);
	if (check != INI_CHECK_SAME)
		reconnect_check_failed(s, check);
	free(found);
	return check == INI_CHECK_SAME && !reconnect_again(s);
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
