/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Volumes that are absent while the session is RUNNING: the target does not show them,
 * or they cannot describe themselves. docs/volume-life.md has their states. Their I/O
 * waits (queue.c), and fails after fast_io_fail_ms; that of others goes on. Discovery
 * looks for them from time to time, aside (ini_link_look_aside()): first after 100 ms,
 * then after pauses that grow by a quarter up to a second.
 */
#include "initiator/session.h"

#define FIRST_LOOK_MS 100u
#define LOOK_MAX_MS   1000u

/* How long a target may need to show a volume after a login. */
#define MISSING_WAIT_US 3000000u

static uint64_t absent_now_us(const struct srpi_session *s)
{
	return reactor_now_us(s->ctx->reactor);
}

bool ini_absent_waited(const struct srpi_session *s, const struct ini_volume *v)
{
	return s->state == SRPI_FAIL_FAST ||
	       (v->absent_us &&
		absent_now_us(s) - v->absent_us >= MISSING_WAIT_US);
}

/* ---- states ---- */

void ini_absent_miss(struct srpi_session *s, struct ini_volume *v)
{
	if (v->state != SRPI_RUNNING)
		return;
	v->state = s->state == SRPI_FAIL_FAST ? SRPI_FAIL_FAST : SRPI_BLOCKED;
	ini_follow_tell(s, v, SRPI_VOLUME_STATE, s->error.text);
}

void ini_absent_found(struct srpi_session *s, const struct ini_volume *v,
		      bool lost)
{
	ini_follow_tell(s, v, SRPI_VOLUME_STATE,
			lost ? "it is back; writes that were not flushed may "
			       "be lost, so the next flush fails"
			     : "it is back");
}

static void absent_fail_late(struct srpi_session *s, struct ini_volume *v)
{
	int limit = s->options.fast_io_fail_ms;

	if (v->state != SRPI_BLOCKED || limit < 0 ||
	    absent_now_us(s) - v->absent_us < limit * 1000ull)
		return;
	v->state = SRPI_FAIL_FAST;
	ini_follow_tell(s, v, SRPI_VOLUME_STATE, "it was not there in time");
}

/* ---- looking for them ---- */

/* A program that does not use a volume does not miss it. */
static bool absent_is_sought(const struct ini_volume *v)
{
	return v->state == SRPI_BLOCKED ||
	       (v->state == SRPI_FAIL_FAST && (v->is_used || v->is_named));
}

static void absent_set_timer(struct srpi_session *s)
{
	bool any = false;

	for (unsigned int i = 0; i < s->volume_cnt; i++)
		any |= absent_is_sought(s->volumes[i]);
	if (any)
		reactor_timer_set(s->ctx->reactor, &s->absent.timer,
				  s->absent.pause_ms);
	s->absent.pause_ms += s->absent.pause_ms / 4;
	if (s->absent.pause_ms > LOOK_MAX_MS)
		s->absent.pause_ms = LOOK_MAX_MS;
}

static void absent_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, absent.timer);

	if (s->state != SRPI_RUNNING)
		return; /* it starts again then */
	for (unsigned int i = 0; i < s->volume_cnt; i++)
		absent_fail_late(s, s->volumes[i]);
	if (s->closing) /* by who was told */
		return;
	ini_queue_refuse_unready(s);
	ini_link_look_aside(s);
	absent_set_timer(s);
}

void ini_absent_start(struct srpi_session *s)
{
	if (s->state != SRPI_RUNNING)
		return;
	s->absent.pause_ms = FIRST_LOOK_MS;
	absent_set_timer(s);
}

void ini_absent_look_soon(struct srpi_session *s)
{
	if (s->state == SRPI_RUNNING)
		reactor_timer_set(s->ctx->reactor, &s->absent.timer, 0);
}

void ini_absent_init(struct srpi_session *s)
{
	reactor_timer_init(&s->absent.timer, absent_due);
}

void ini_absent_stop(struct srpi_session *s)
{
	reactor_timer_stop(&s->absent.timer);
}

/* ---- for the program ---- */

enum srpi_state srpi_volume_state(const struct srpi_session *s,
				  unsigned int volume)
{
	if (volume >= s->volume_cnt)
		return SRPI_LOST;
	return s->volumes[volume]->state > s->state ? s->volumes[volume]->state
						    : s->state;
}
