/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server_drain.h"

#include <stdio.h>

#include "base/log.h"
#include "target/port/port_change.h"
#include "target/port/request.h"
#include "target/server_stop.h"

#define SERVER_DRAIN_TICK_MS 1000

/* ---- counting, on each worker ---- */

/* Marks the volumes that have commands of @ch. */
static void server_drain_mark(const struct drain_count *c,
			      const struct channel *ch)
{
	const struct lun_map *luns = ch->port->luns;
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		const struct request *req =
			container_of(it, struct request, node);

		for (unsigned int i = 0; i < luns->cnt && !req->is_tmf; i++) {
			if (req->task.vol == luns->vol[i] ||
			    scsi_task_touches(&req->task, luns->vol[i]))
				atomic_store(&luns->vol[i]->busy_at, c->look);
		}
	}
}

static void server_drain_run_count(struct reactor_msg *msg)
{
	struct drain_count *c = container_of(msg, struct drain_count, msg);
	unsigned int commands = 0;
	struct list *it;

	list_for_each(it, &c->worker->channels) {
		const struct channel *ch =
			container_of(it, struct channel, worker_node);

		commands += ch->requests.cnt;
		server_drain_mark(c, ch);
	}
	atomic_store(&c->commands, commands);
	atomic_store(&c->looked, c->look);
	atomic_store(&c->asked, false);
}

/* A worker that hangs is not asked again; its number stays. */
static void server_drain_ask(struct server *s)
{
	for (unsigned int i = 0; i < s->worker_cnt; i++) {
		struct drain_count *c = &s->drain.counts[i];

		if (atomic_exchange(&c->asked, true))
			continue;
		c->msg.run = server_drain_run_count;
		c->worker = &s->workers[i];
		c->look = s->drain.ticks;
		reactor_send(s->workers[i].reactor, &c->msg);
	}
}

static unsigned int server_drain_commands(const struct server *s)
{
	unsigned int commands = 0;

	for (unsigned int i = 0; i < s->worker_cnt; i++)
		commands += atomic_load(&s->drain.counts[i].commands);
	return commands;
}

/* ---- the facts ---- */

static unsigned int server_drain_seconds(struct server *s, uint64_t since_us)
{
	uint64_t now_us = reactor_now_us(s->workers[0].reactor);

	return (unsigned int)((now_us - since_us) / 1000000);
}

/* Assumes that the rest ends as fast as those that have ended. */
static unsigned int server_drain_left(struct server *s, unsigned int commands)
{
	const struct server_drain *d = &s->drain;

	if (!d->closed_us || commands >= d->first)
		return 0;
	return commands * server_drain_seconds(s, d->closed_us) /
	       (d->first - commands);
}

void server_drain_look(struct server *s, struct server_drain_facts *ret)
{
	*ret = (struct server_drain_facts){ 0 };
	if (s->stop_state <= SERVER_AWAITS_CHANGES)
		return;
	ret->stopping = true;
	ret->seconds = server_drain_seconds(s, s->drain.since_us);
	ret->flushes = s->flushes_left;
	ret->sessions = port_sessions(&s->port, NULL, 0);
	ret->commands = server_drain_commands(s);
	ret->seconds_left = server_drain_left(s, ret->commands);
}

/* ---- its life ---- */

static void server_drain_log(struct server *s)
{
	struct log_about about = { .event = "stopping" };
	struct server_drain_facts f;
	char left[48] = "";

	server_drain_look(s, &f);
	if (f.seconds_left)
		snprintf(left, sizeof(left), ", about %u:%02u:%02u to go",
			 f.seconds_left / 3600, f.seconds_left / 60 % 60,
			 f.seconds_left % 60);
	log_event(LOG_NOTICE, &about,
		  "stopping for %u s: waits for %u commands of %u sessions and "
		  "%u flushes%s",
		  f.seconds, f.commands, f.sessions, f.flushes, left);
}

static void server_drain_tick(struct reactor_timer *t)
{
	struct server *s = container_of(t, struct server, drain.timer);

	reactor_timer_set(s->workers[0].reactor, t, SERVER_DRAIN_TICK_MS);
	if (s->drain.ticks++ % SERVER_DRAIN_LOG_S == 0)
		server_drain_log(s);
	server_stop_look(s);
	server_drain_ask(s);
}

bool server_drain_is_busy(const struct server *s, const struct volume *vol)
{
	unsigned int last = s->drain.ticks - 1;

	for (unsigned int i = 0; i < s->worker_cnt; i++) {
		if (atomic_load(&s->drain.counts[i].looked) < last)
			return true;
	}
	return atomic_load(&vol->busy_at) >= last;
}

void server_drain_begin(struct server *s)
{
	s->drain.ticks = 1;
	s->drain.since_us = reactor_now_us(s->workers[0].reactor);
	reactor_timer_init(&s->drain.timer, server_drain_tick);
	server_drain_ask(s);
	reactor_timer_set(s->workers[0].reactor, &s->drain.timer,
			  SERVER_DRAIN_TICK_MS);
}

void server_drain_closed(struct server *s)
{
	s->drain.closed_us = reactor_now_us(s->workers[0].reactor);
	s->drain.first = server_drain_commands(s);
}

void server_drain_end(struct server *s)
{
	if (s->drain.ticks)
		reactor_timer_stop(&s->drain.timer);
}
