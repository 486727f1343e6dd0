/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_events.h"

#include "target/events.h"

static bool manage_send_events(struct control_stream *s,
			       struct events_reader *r)
{
	json_t *event;

	while ((event = events_next(r))) {
		if (!control_stream_send(s, event))
			return false;
	}
	return true;
}

void manage_follow_events(void *user, struct control_stream *s,
			  struct control_result *ret)
{
	struct events_reader r;

	if (events_follow(&r)) {
		ret->error = "org.rdmablock.target.Refused";
		ret->parameters =
			json_pack("{ssssss}", "object", "target", "field", "",
				  "reason", "out of memory");
		return;
	}
	while (manage_send_events(s, &r) && control_stream_await(s, r.fd))
		;
	events_leave(&r);
}
