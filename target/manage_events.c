/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_events.h"

#include "target/events.h"
#include "target/manage_methods.h"

static bool manage_send_events(struct control_call *c, struct events_reader *r)
{
	json_t *event;

	while ((event = events_next(r))) {
		if (!control_stream_send(c, event))
			return false;
	}
	return true;
}

void manage_follow_events(struct control_call *c)
{
	struct events_reader r;
	struct manage_fault f;

	if (events_follow(&r)) {
		manage_refuse(&f, "target", "", "out of memory");
		method_refused(c, &f);
		return;
	}
	while (manage_send_events(c, &r) && control_stream_await(c, r.fd))
		;
	events_leave(&r);
}
