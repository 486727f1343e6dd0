/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"

/* ---- hosts ---- */

static int path_look_up(struct ini_path *p, uint16_t number, int flags)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = flags };
	char port[8];

	snprintf(port, sizeof(port), "%u", number);
	return getaddrinfo(p->host, port, &hints, &p->addrs);
}

/*
 * AI_ADDRCONFIG leaves out families in which this host has no address, other
 * than on loopback. That is good for names, which have addresses of both. A
 * number says itself which family it belongs to.
 */
static int path_resolve(struct ini_paths *paths, const char *host,
			uint16_t port, struct error *e)
{
	struct ini_path *p = &paths->all[paths->cnt++];
	int err;

	snprintf(p->host, sizeof(p->host), "%s", host);
	snprintf(p->text, sizeof(p->text),
		 strchr(host, ':') ? "[%s]:%u" : "%s:%u", p->host, port);
	err = path_look_up(p, port, AI_NUMERICHOST);
	if (err == EAI_NONAME)
		err = path_look_up(p, port, AI_ADDRCONFIG);
	if (err)
		return error_set(e, -EHOSTUNREACH,
				 "cannot log in to '%s': the host name: %s; "
				 "check its spelling",
				 host, gai_strerror(err));
	p->addr = p->addrs;
	return 0;
}

int ini_paths_resolve(struct srpi_session *s, struct error *e)
{
	int err = path_resolve(&s->paths, s->uri.host, s->uri.port, e);

	for (unsigned int i = 0; !err && i < s->uri.more_cnt; i++)
		err = path_resolve(&s->paths, s->uri.more[i].host,
				   s->uri.more[i].port, e);
	return err;
}

void ini_paths_free(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->paths.cnt; i++) {
		if (s->paths.all[i].addrs)
			freeaddrinfo(s->paths.all[i].addrs);
	}
}

/* ---- states ---- */

struct ini_path *ini_path_now(struct srpi_session *s)
{
	return &s->paths.all[s->paths.now];
}

bool ini_paths_several(const struct srpi_session *s)
{
	return s->paths.cnt > 1;
}

void ini_path_enter(struct srpi_session *s, enum srpi_path_state state,
		    const struct error *why)
{
	struct ini_path *p = ini_path_now(s);

	p->state = state;
	if (state == SRPI_PATH_UNSAFE || state == SRPI_PATH_OTHER)
		p->target = 0;
	snprintf(p->why, sizeof(p->why), "%s", why ? why->text : "");
}

void ini_path_failed(struct srpi_session *s, const struct error *why)
{
	struct ini_path *p = ini_path_now(s);

	ini_path_enter(
		s, why->err == -ESHUTDOWN ? SRPI_PATH_STANDBY : SRPI_PATH_DOWN,
		why);
	/* The name of a host may have several addresses. */
	if (!p->logged_in)
		p->addr = p->addr->ai_next ? p->addr->ai_next : p->addrs;
}

void ini_path_up(struct srpi_session *s)
{
	ini_path_enter(s, SRPI_PATH_IN_USE, NULL);
	s->paths.home = s->paths.now;
}

void ini_path_note_sibling(struct srpi_session *s)
{
	struct ini_path *home = &s->paths.all[s->paths.home];

	if (!home->target)
		home->target = ++s->paths.targets;
	ini_path_now(s)->target = home->target;
}

bool ini_path_is_sibling(const struct srpi_session *s, unsigned int home)
{
	unsigned int target = s->paths.all[s->paths.now].target;

	return s->paths.now == home ||
	       (target && target == s->paths.all[home].target);
}

/* ---- which one is next ---- */

bool ini_path_first_next(struct srpi_session *s)
{
	if (s->paths.now + 1 == s->paths.cnt)
		return false;
	s->paths.now++;
	return true;
}

bool ini_paths_reached(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->paths.cnt; i++) {
		if (s->paths.all[i].logged_in)
			return true;
	}
	return false;
}

void ini_path_first_again(struct srpi_session *s)
{
	s->paths.now = 0;
	for (unsigned int i = 0; i < s->paths.cnt; i++)
		s->paths.all[i].addr = s->paths.all[i].addrs;
}

bool ini_paths_all_other(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->paths.cnt; i++) {
		if (s->paths.all[i].state != SRPI_PATH_OTHER)
			return false;
	}
	return true;
}

void ini_path_next(struct srpi_session *s)
{
	struct ini_paths *paths = &s->paths;

	/* One is not OTHER: else the session is LOST. */
	do
		paths->now = (paths->now + 1) % paths->cnt;
	while (ini_path_now(s)->state == SRPI_PATH_OTHER);
}

/* Attempts of a round behind its first one. */
static unsigned int quick_of_round(const struct srpi_session *s)
{
	unsigned int usable = 0;

	for (unsigned int i = 0; i < s->paths.cnt; i++)
		usable += s->paths.all[i].state != SRPI_PATH_OTHER;
	return usable ? usable - 1 : 0;
}

void ini_paths_outage(struct srpi_session *s, bool stood)
{
	s->paths.quick = stood ? quick_of_round(s) : 0;
	for (unsigned int i = 0; i < s->paths.cnt; i++)
		s->paths.all[i].reason = 0;
}

bool ini_paths_quick(struct srpi_session *s)
{
	if (s->paths.quick == 0) {
		s->paths.quick = quick_of_round(s);
		return false;
	}
	s->paths.quick--;
	return true;
}

/* ---- what a volume says of its address ---- */

bool ini_path_wants(const struct srpi_session *s, const struct ini_volume *v)
{
	return !*s->uri.volume || v->is_named;
}

bool ini_path_sense_is_standby(const struct scsi_sense *sense)
{
	return !sense->deferred && sense->key == SCSI_KEY_NOT_READY &&
	       (sense->code == SCSI_ASC_TARGET_PORT_STANDBY ||
		sense->code == SCSI_ASC_TARGET_PORT_UNAVAILABLE);
}

bool ini_path_is_same_target(const struct ini_volume *was,
			     const struct ini_volume *now)
{
	const struct ini_access *a = &was->access;
	const struct ini_access *b = &now->access;

	if (was->has_store && now->has_store &&
	    !memcmp(was->store.generation, now->store.generation,
		    SCSI_GENERATION_LEN))
		return true;
	return a->port_len && a->port_len == b->port_len &&
	       !memcmp(a->port, b->port, a->port_len);
}

bool ini_path_is_fenced(const struct ini_volume *was,
			const struct ini_volume *now)
{
	const struct ini_access *a = &was->access;
	const struct ini_access *b = &now->access;

	if (ini_path_is_same_target(was, now))
		return true;
	return a->group_cnt > 1 && b->group_cnt > 1 && b->own_is_active &&
	       b->active_cnt == 1;
}

/* ---- for the program ---- */

unsigned int srpi_path_cnt(const struct srpi_session *s)
{
	return s->paths.cnt;
}

void srpi_path_info(const struct srpi_session *s, unsigned int path,
		    struct srpi_path_info *ret_info)
{
	const struct ini_path *p = &s->paths.all[path];
	const struct srpi_path_info info = {
		.address = p->text,
		.state = p->state,
		.why = p->why,
	};

	ini_struct_give(ret_info, &info, sizeof(info));
}

const char *srpi_path_state_name(enum srpi_path_state state)
{
	static const char *const names[] = {
		[SRPI_PATH_UNTRIED] = "untried",
		[SRPI_PATH_IN_USE] = "in use",
		[SRPI_PATH_DOWN] = "down",
		[SRPI_PATH_STANDBY] = "standby",
		[SRPI_PATH_UNSAFE] = "unsafe",
		[SRPI_PATH_OTHER] = "another volume",
	};

	return names[state];
}
