/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/way.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "transport/xport.h"

struct finding *way_add(struct way *w, const char *name,
			enum finding_state state)
{
	return report_add(w->report, w->group, name, state);
}

/* ---- name ---- */

static void name_failed(struct way *w, int err)
{
	struct finding *f = way_add(w, "name", FINDING_PROBLEM);

	finding_value(f, "'%s': %s", w->host,
		      err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
	if (err == EAI_AGAIN) {
		f->why = "The name servers do not answer.";
		finding_mend(f, "resolvectl status; cat /etc/resolv.conf");
	} else {
		f->why = "No name server and no file of this machine has an "
			 "address for that name.";
		finding_mend(f, "getent ahosts %s; or use the address",
			     w->host);
	}
}

static struct addrinfo *way_resolve(struct way *w)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV };
	struct addrinfo *all;
	char port[8];
	int err;

	snprintf(port, sizeof(port), "%u", w->port);
	err = getaddrinfo(w->host, port, &hints, &all);
	if (!err)
		return all;
	name_failed(w, err);
	return NULL;
}

static void way_set_address(struct way *w, const struct addrinfo *a)
{
	memcpy(&w->addr, a->ai_addr, a->ai_addrlen);
	w->addr_len = a->ai_addrlen;
	xp_addr_text(a->ai_addr, w->addr_text, sizeof(w->addr_text));
	if (getnameinfo(a->ai_addr, a->ai_addrlen, w->numeric,
			sizeof(w->numeric), NULL, 0, NI_NUMERICHOST))
		snprintf(w->numeric, sizeof(w->numeric), "?");
}

static void name_found(struct way *w, const struct addrinfo *all)
{
	struct finding *f = way_add(w, "name", FINDING_OK);
	char text[400] = "";
	size_t len = 0;

	for (const struct addrinfo *a = all; a && len < sizeof(text);
	     a = a->ai_next) {
		way_set_address(w, a);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					len ? ", " : "", w->numeric);
	}
	finding_value(f, "%s", text);
}

/* ---- one address ---- */

/* Over RDMA, no program needs to listen on the TCP port. */
static bool way_may_use_device(const struct way *w)
{
	return xp_kind_traits(w->uri->kind)->needs_device &&
	       (w->uri->forced || xp_present(w->uri->kind));
}

/* True: the address can be reached. */
static bool way_reach(struct way *w)
{
	return way_check_route(w) &&
	       (way_may_use_device(w) || way_check_port(w));
}

/* If one address can be reached, problems of those before it are only notes. */
static void way_excuse(struct way *w, unsigned int first)
{
	for (unsigned int i = first; i < w->report->cnt; i++) {
		if (w->report->findings[i].state == FINDING_PROBLEM)
			w->report->findings[i].state = FINDING_NOTE;
	}
}

static void way_go(struct way *w)
{
	struct addrinfo *all = way_resolve(w);
	unsigned int first = w->report->cnt;
	bool reached = false;

	if (!all)
		return;
	name_found(w, all);
	for (const struct addrinfo *a = all; a && !reached; a = a->ai_next) {
		way_set_address(w, a);
		reached = way_reach(w);
	}
	freeaddrinfo(all);
	if (!reached)
		return;
	way_excuse(w, first);
	way_check_path_mtu(w);
	way_log_in(w);
}

void way_examine(const struct xp_uri *uri, int timeout_ms, struct report *r)
{
	static char groups[XP_URI_ADDRESSES_MAX][XP_URI_HOST_SIZE + 16];

	for (unsigned int i = 0; i <= uri->more_cnt; i++) {
		struct way w = {
			.uri = uri,
			.report = r,
			.group = groups[i],
			.host = i ? uri->more[i - 1].host : uri->host,
			.port = i ? uri->more[i - 1].port : uri->port,
			.timeout_ms = timeout_ms,
		};

		snprintf(groups[i], sizeof(groups[i]),
			 strchr(w.host, ':') ? "[%s]:%u" : "%s:%u", w.host,
			 w.port);
		way_go(&w);
	}
}
