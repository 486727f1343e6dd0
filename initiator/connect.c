/* SPDX-License-Identifier: BSD-2-Clause */
/* The first login of a session chooses the address and the transport. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"

static void connect_finish(struct srpi_session *s, int err)
{
	void (*done)(struct srpi_session *, const struct srpi_error *, void *) =
		s->connected;
	struct srpi_error e;

	s->connected = NULL;
	if (err) {
		ini_session_enter(s, SRPI_CLOSED, &s->error);
		ini_link_end(s);
	} else {
		/* Errors of addresses and transports that were tried before. */
		memset(&s->error, 0, sizeof(s->error));
		ini_session_enter(s, SRPI_RUNNING, NULL);
	}
	ini_error_give(&e, &s->error);
	if (done)
		done(s, &e, s->connected_arg);
}

static void connect_give_up(struct srpi_session *s)
{
	if (ini_paths_several(s))
		ini_error_no_path(s);
	connect_finish(s, s->error.err);
}

/* No route by this transport: another one may have a route. */
static bool is_unroutable(int err)
{
	return err == -ENODEV || err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EADDRNOTAVAIL;
}

/*
 * The target's connection manager still has a connection of a queue pair with this
 * number: this machine has lost power, say, and begins to count again. It ends that
 * connection now, and the next attempt has another queue pair.
 */
#define STALE_PAUSE_MS 100u
#define STALE_TRIES    30u

static bool connect_is_stale(struct srpi_session *s, const struct error *why)
{
	return why->err == -EISCONN && s->stale_cnt++ < STALE_TRIES;
}

/* From the first address over RDMA to the last one over TCP. An address that RDMA does
 * not reach has its turn over TCP, whatever became of the others. */
static bool next_way(struct srpi_session *s, const struct error *why)
{
	struct ini_path *p = ini_path_now(s);

	s->stale_cnt = 0;
	s->unroutable |= is_unroutable(why->err);
	if (p->addr->ai_next) {
		p->addr = p->addr->ai_next;
		return true;
	}
	if (ini_path_first_next(s))
		return true;
	/* Memory is registered with the transport that has reached a target. */
	if (s->uri.forced || s->kind + 1 == XP_KINDS || !s->unroutable ||
	    ini_paths_reached(s))
		return false;
	s->kind++;
	s->unroutable = false;
	ini_path_first_again(s);
	snprintf(s->why, sizeof(s->why), "no RDMA device reaches %s",
		 s->uri.host);
	return true;
}

static int take_transport(struct srpi_session *s, struct error *e)
{
	int err;

	if (s->own && s->own->kind == s->kind)
		return 0;
	ini_xp_put(s->own);
	s->own = NULL;
	err = ini_xp_take(s->ctx, s->kind, &s->own, e);
	if (!err)
		s->xp = s->own->xp;
	return err;
}

/* An address that fails at once leads to the next one. */
void ini_connect_begin(struct srpi_session *s)
{
	struct error e = { 0 };
	int err;

	s->passes = 0;
	do {
		err = take_transport(s, &e);
		if (!err)
			err = ini_link_begin(s, &e);
		if (!err)
			return;
		e.err = err;
		ini_error_no_login(s, NULL, &e);
		ini_path_enter(s, SRPI_PATH_DOWN, &s->error);
	} while (next_way(s, &e));
	connect_give_up(s);
}

void ini_connect_up(struct srpi_session *s)
{
	ini_path_up(s);
	s->reconnect.up_us = reactor_now_us(s->ctx->reactor);
	s->reconnect.has_served = true;
	connect_finish(s, 0);
}

/* A target that rejects the login has been reached: no other route to it is
 * tried. */
void ini_connect_refused(struct srpi_session *s, struct ini_channel *ch)
{
	bool rejected = ini_error_no_login(s, ch, &ch->why);
	struct error why = ch->why;

	ini_channel_free(ch);
	ini_path_enter(s, SRPI_PATH_DOWN, &s->error);
	if (connect_is_stale(s, &why))
		reactor_timer_set(s->ctx->reactor, &s->reconnect.pause_timer,
				  STALE_PAUSE_MS);
	else if (rejected ? ini_path_first_next(s) : next_way(s, &why))
		ini_connect_begin(s);
	else
		connect_give_up(s);
}

/* ini_reconnect_down() tries the next address when all channels are closed. */
void ini_connect_failed(struct srpi_session *s)
{
	enum srpi_path_state state =
		s->error.err == -ESHUTDOWN ? SRPI_PATH_STANDBY : SRPI_PATH_DOWN;

	ini_path_enter(s, state, &s->error);
	if (ini_path_first_next(s))
		ini_link_end(s);
	else
		connect_give_up(s);
}

bool ini_connect_check(struct srpi_session *s)
{
	unsigned int i = 0;

	while (i < s->volume_cnt && !(s->volumes[i]->access.is_standby &&
				      ini_path_wants(s, s->volumes[i])))
		i++;
	if (i == s->volume_cnt)
		return true;
	ini_error_standby(s, s->volumes[i]);
	ini_volumes_free(s);
	ini_connect_failed(s);
	return false;
}
