/* SPDX-License-Identifier: BSD-2-Clause */
/* The first login of a session: by which address and transport. */
#include <errno.h>
#include <netdb.h>
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
		/* Of ways that were tried before this one. */
		memset(&s->error, 0, sizeof(s->error));
		ini_session_enter(s, SRPI_RUNNING, NULL);
	}
	ini_error_give(&e, &s->error);
	if (done)
		done(s, &e, s->connected_arg);
}

/* Errors that say "not by this way": another transport may have one. */
static bool is_unroutable(int err)
{
	return err == -ENODEV || err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EADDRNOTAVAIL;
}

/* From the first address over RDMA to the last over TCP. */
static bool next_way(struct srpi_session *s, const struct error *why)
{
	if (s->addr->ai_next) {
		s->addr = s->addr->ai_next;
		return true;
	}
	if (s->uri.transport != SRP_URI_AUTO || s->kind + 1 == XP_KINDS ||
	    !is_unroutable(why->err))
		return false;
	s->kind++;
	s->addr = s->addrs;
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

/* Tries s->addr over s->kind; a way that fails at once leads to the next. */
static void connect_next(struct srpi_session *s)
{
	struct error e = { 0 };
	int err;

	do {
		err = take_transport(s, &e);
		if (!err)
			err = ini_link_begin(s, &e);
		if (!err)
			return;
		e.err = err;
	} while (next_way(s, &e));
	ini_error_no_login(s, NULL, &e);
	connect_finish(s, s->error.err);
}

void ini_connect_begin(struct srpi_session *s)
{
	connect_next(s);
}

void ini_connect_up(struct srpi_session *s)
{
	s->reconnect.up_us = reactor_now_us(s->ctx->reactor);
	s->reconnect.has_served = true;
	connect_finish(s, 0);
}

/* A target that says no is the one that was meant: no other way is tried. */
void ini_connect_refused(struct srpi_session *s, struct ini_channel *ch)
{
	bool rejected = ini_error_no_login(s, ch, &ch->why);
	struct error why = ch->why;

	ini_channel_free(ch);
	if (!rejected && next_way(s, &why))
		connect_next(s);
	else
		connect_finish(s, s->error.err);
}

void ini_connect_failed(struct srpi_session *s)
{
	connect_finish(s, s->error.err);
}
