/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_session.h"

#include <stdio.h>
#include <unistd.h>

#include "target/port/port_change.h"

/* Time between two checks whether sessions have ended. */
#define MANAGE_LOOK_US 10000

struct manage_ending {
	unsigned int before; /* 0: not yet known */
	unsigned int cnt;
};

static void manage_run_ending(struct server *s, void *arg)
{
	struct manage_ending *ending = arg;

	if (!ending->before)
		ending->before = s->port.next_number;
	ending->cnt = port_ending(&s->port, ending->before);
}

void manage_await_sessions(struct manage *m)
{
	struct manage_ending ending = { .before = 0 };

	while (server_call(m->server, manage_run_ending, &ending) == 0 &&
	       ending.cnt)
		usleep(MANAGE_LOOK_US);
}
struct manage_session {
	struct srp_port_id initiator;
	bool found;
};

static void manage_run_kick(struct server *s, void *arg)
{
	struct manage_session *session = arg;

	session->found = port_kick(&s->port, &session->initiator);
}

bool manage_kick(struct manage *m, const char *initiator,
		 struct manage_fault *f)
{
	struct log_about about = { .event = "kick", .nexus = initiator };
	struct manage_session session = { .found = false };
	char object[sizeof(f->object)];

	snprintf(object, sizeof(object), "session '%.100s'", initiator);
	if (srp_port_id_parse(initiator, &session.initiator))
		return manage_refuse(f, object, "initiator",
				     "not 0x and the 32 digits of an initiator "
				     "port");
	if (server_call(m->server, manage_run_kick, &session))
		return manage_refuse_end(f);
	if (!session.found)
		return manage_refuse(f, object, "",
				     "that initiator is not logged in");
	log_event(LOG_NOTICE, &about,
		  "the session of %s is ended by the administrator", initiator);
	return true;
}
