/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Turns of the event loop before Python gets the results. */
#define BRIDGE_TURNS 32

static void bridge_connected(struct srpi_session *s, const struct srpi_error *e,
			     void *arg)
{
	struct bridge *b = arg;

	b->connect_error = *e;
	b->connected = true;
}

/* Without memory, the event is lost; nothing else depends on it. */
static struct bridge_event *bridge_event_add(struct bridge *b,
					     enum bridge_event_kind kind)
{
	struct bridge_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->kind = kind;
	if (b->last_event)
		b->last_event->next = event;
	else
		b->first_event = event;
	b->last_event = event;
	return event;
}

static void bridge_state_changed(struct srpi_session *s, enum srpi_state state,
				 const struct srpi_error *why, void *arg)
{
	struct bridge_event *event = bridge_event_add(arg, BRIDGE_STATE);

	if (!event)
		return;
	event->code = (int)state;
	if (why)
		event->why = *why;
}

static void bridge_volume_resized(struct srpi_session *s, unsigned int volume,
				  void *arg)
{
	struct bridge_event *event = bridge_event_add(arg, BRIDGE_RESIZED);

	if (event)
		event->volume = volume;
}

static void bridge_volume_event(struct srpi_session *s, unsigned int volume,
				enum srpi_volume_event code, const char *why,
				void *arg)
{
	struct bridge_event *event = bridge_event_add(arg, BRIDGE_VOLUME);

	if (!event)
		return;
	event->volume = volume;
	event->code = (int)code;
	snprintf(event->why.text, sizeof(event->why.text), "%s", why);
}

int bridge_connect(struct bridge *b, struct srpi_ctx *ctx, const char *uri,
		   struct srpi_options *options,
		   struct srpi_session **ret_session, struct srpi_error *e)
{
	options->struct_size = sizeof(*options);
	options->state_changed = bridge_state_changed;
	options->volume_resized = bridge_volume_resized;
	options->volume_event = bridge_volume_event;
	options->state_arg = b;
	return srpi_connect(ctx, uri, options, bridge_connected, b, ret_session,
			    e);
}

static void bridge_closed(void *arg)
{
	struct bridge *b = arg;

	b->closed = true;
}

void bridge_close(struct bridge *b, struct srpi_session *s)
{
	if (b->closing)
		return;
	b->closing = true;
	srpi_close(s, bridge_closed, b);
}

static void bridge_io_done(struct srpi_io *io, int res)
{
	struct bridge *b = io->arg;
	struct bridge_io *ended = (struct bridge_io *)(void *)io;

	ended->res = res;
	ended->next = NULL;
	if (b->last_io)
		b->last_io->next = ended;
	else
		b->first_io = ended;
	b->last_io = ended;
}

void bridge_submit(struct bridge *b, struct srpi_session *s,
		   struct bridge_io *io)
{
	io->io.done = bridge_io_done;
	io->io.arg = b;
	io->submitted = true;
	srpi_submit(s, &io->io);
}

int bridge_run(struct bridge *b, struct srpi_ctx *ctx, int timeout_ms)
{
	bool left = b->first_io || b->first_event || b->closed;
	int res = srpi_ctx_run(ctx, left ? 0 : timeout_ms);

	for (int i = 0; res > 0 && i < BRIDGE_TURNS; i++)
		res = srpi_ctx_run(ctx, /* timeout_ms= */ 0);
	return res;
}

void bridge_mem_free(struct srpi_mem **mem)
{
	srpi_mem_free(*mem);
	*mem = NULL;
}

struct bridge_io *bridge_io_first(const struct bridge *b)
{
	return b->first_io;
}

void bridge_io_drop(struct bridge *b)
{
	b->first_io = b->first_io->next;
	if (!b->first_io)
		b->last_io = NULL;
}

bool bridge_event_next(struct bridge *b, struct bridge_event *ret_event)
{
	struct bridge_event *event = b->first_event;

	if (!event)
		return false;
	b->first_event = event->next;
	if (!b->first_event)
		b->last_event = NULL;
	*ret_event = *event;
	free(event);
	return true;
}
