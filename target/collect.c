/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/collect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/cleanup.h"
#include "base/exposition.h"
#include "target/port/meter.h"
#include "target/port/metrics.h"
#include "target/port/port_change.h"
#include "target/responder_process.h"

/* The counters and the present state of one worker. */
struct collect_worker {
	struct port_counters port;
	struct metrics_worker has;
	struct reactor_stats reactor;
	bool has_xp[XP_KINDS];
	struct xp_stats xp[XP_KINDS];
};

struct collect_volume {
	char name[METER_NAME_SIZE];
	const char *state;
	struct metrics_volume facts;
	struct metrics_io io[RBP_EXTENT + 1]; /* by enum rbp_op */
};

struct collect {
	struct metrics_target target;
	struct collect_volume volumes[LUNS_MAX];
	unsigned int volume_cnt;
	unsigned int worker_cnt;
	struct collect_worker workers[WORKERS_MAX];
	/* meter_list() */
	struct meter **volume_meters;
	struct meter **initiator_meters;
	struct metric_sink *sink;
};

/* ---- on a worker ---- */

/* The worker's channels have been cleared before, because several may belong to
 * one initiator. */
static void collect_channel(struct collect_worker *to, const struct channel *ch)
{
	to->has.channels++;
	to->has.in_flight += ch->requests.cnt;
	if (!ch->meter)
		return;
	count_add(&ch->meter->channels, 1);
	count_add(&ch->meter->credits, ch->ledger.granted);
	count_add(&ch->meter->in_flight, ch->requests.cnt);
}

static void collect_channels(struct collect_worker *to, const struct worker *w)
{
	struct list *it;

	list_for_each(it, &w->channels) {
		struct channel *ch =
			container_of(it, struct channel, worker_node);

		if (ch->meter)
			meter_clear_state(ch->meter);
	}
	list_for_each(it, &w->channels) {
		struct channel *ch =
			container_of(it, struct channel, worker_node);

		if (ch->state < CHANNEL_CLOSED)
			collect_channel(to, ch);
	}
}

static void collect_run_worker(struct worker *w, void *arg)
{
	struct collect_worker *to = arg;

	to->port = w->counters;
	/* Includes what the stores have copied. */
	to->port.copied += w->block.copied;
	to->has.buffers = arena_len(w->arena);
	to->has.buffers_used = arena_used(w->arena);
	collect_channels(to, w);
	reactor_stats(w->reactor, &to->reactor);
	for (int kind = 0; kind < XP_KINDS; kind++) {
		to->has_xp[kind] = w->xp[kind];
		if (w->xp[kind])
			to->xp[kind] = *xp_get_stats(w->xp[kind]);
	}
}

/* ---- on worker 0 ---- */

static void collect_volume(struct collect_volume *to, const struct volume *vol)
{
	struct volume_status_facts facts;

	snprintf(to->name, sizeof(to->name), "%s", vol->name);
	volume_status_read(vol, &facts);
	to->state = volume_status_name(facts.status);
	to->facts = (struct metrics_volume){
		.size = vol->blocks * vol->block_size,
		.ready = facts.status == VOLUME_STATUS_READY,
		.since_ns = (uint64_t)facts.since_ms * 1000000,
		.never_stable = volume_is_never_stable(vol),
	};
	for (int op = 0; op <= RBP_EXTENT; op++)
		to->io[op].errors = vol->dev.errors[op];
}

static void collect_absent(struct collect_volume *to,
			   const struct absent_facts *a)
{
	snprintf(to->name, sizeof(to->name), "%s", a->name);
	to->state = ABSENT_STATE;
	to->facts = (struct metrics_volume){
		.since_ns = (uint64_t)a->since_ms * 1000000,
	};
}

static void collect_volumes(struct collect *c, struct server *s)
{
	struct absent_facts absent;

	for (unsigned int i = 0; i < s->luns.cnt; i++)
		collect_volume(&c->volumes[c->volume_cnt++], s->luns.vol[i]);
	for (unsigned int i = 0;
	     c->volume_cnt < LUNS_MAX && absent_look(&s->absents, i, &absent);
	     i++)
		collect_absent(&c->volumes[c->volume_cnt++], &absent);
}

static void collect_run_target(struct server *s, void *arg)
{
	struct responder_facts discovery;
	struct collect *c = arg;

	responder_process_facts(s, &discovery);
	collect_volumes(c, s);
	c->target = (struct metrics_target){
		.one = 1,
		.start_ns = s->start_ns,
		.volumes = s->luns.cnt,
		.sessions = port_sessions(&s->port, NULL, 0),
		.channels = s->port.next_number,
		.refusals = s->port.refused_cnt,
		.discovery_answers = discovery.counts.answers,
		.discovery_drops = discovery.counts.drops,
		.discovery_ended_ns = (uint64_t)discovery.ended_ms * 1000000,
	};
}

/* 0, or -ESHUTDOWN. */
static int collect_ask(struct collect *c, struct server *s)
{
	int err = server_call_begin(s);

	if (err)
		return err;
	server_call(s, collect_run_target, c);
	c->worker_cnt = s->worker_cnt;
	for (unsigned int i = 0; i < c->worker_cnt; i++)
		server_call_worker(&s->workers[i], collect_run_worker,
				   &c->workers[i]);
	server_call_end(s);
	return 0;
}

/* ---- the metrics, one by one ---- */

static void collect_give(struct collect *c, const struct metric *m,
			 const char *first, const char *second,
			 const char *third, const void *source)
{
	const char *const labels[METRIC_LABELS_MAX] = { first, second, third };

	metric_give(c->sink, m, labels, source);
}

static void collect_give_transports(struct collect *c, const struct metric *m,
				    const struct collect_worker *w,
				    const char *index)
{
	for (int kind = 0; kind < XP_KINDS; kind++)
		if (w->has_xp[kind])
			collect_give(c, m, index,
				     xp_kind_name((enum xp_kind)kind), NULL,
				     &w->xp[kind]);
}

static void collect_give_worker(struct collect *c, const struct metric *m,
				unsigned int nr)
{
	const struct collect_worker *w = &c->workers[nr];
	char index[16];

	snprintf(index, sizeof(index), "%u", nr);
	switch (m->source) {
	case METRIC_OF_PORT:
		collect_give(c, m, index, NULL, NULL, &w->port);
		return;
	case METRIC_OF_WORKER:
		collect_give(c, m, index, NULL, NULL, &w->has);
		return;
	case METRIC_OF_REACTOR:
		collect_give(c, m, index, NULL, NULL, &w->reactor);
		return;
	default:
		collect_give_transports(c, m, w, index);
		return;
	}
}

static void collect_give_io(struct collect *c, const struct metric *m,
			    const struct collect_volume *v)
{
	static const char *const names[] = {
		[RBP_READ] = "read",   [RBP_WRITE] = "write",
		[RBP_FLUSH] = "flush", [RBP_UNMAP] = "unmap",
		[RBP_ZERO] = "zero",   [RBP_EXTENT] = "extent",
	};

	for (int op = RBP_READ; op <= RBP_EXTENT; op++)
		collect_give(c, m, v->name, names[op], NULL, &v->io[op]);
}

static void collect_give_op(struct collect *c, const struct metric *m,
			    const char *name, int op,
			    const struct meter_counts *sum)
{
	struct metrics_op facts = { meter_commands(sum), sum->bytes };

	if (facts.commands)
		collect_give(c, m, name, meter_op_names[op], NULL, &facts);
}

static void collect_give_stages(struct collect *c, const struct metric *m,
				const char *name, int op,
				const struct meter_counts *sum)
{
	for (int stage = 0; stage < METER_STAGES; stage++)
		if (histogram_cnt(&sum->stage[stage]))
			collect_give(c, m, name, meter_op_names[op],
				     meter_stage_names[stage],
				     &sum->stage[stage]);
}

/* @give: called for each operation. NULL: the metric belongs to the whole
 * meter. */
static void collect_give_meters(struct collect *c, const struct metric *m,
				struct meter **meters, size_t max,
				void (*give)(struct collect *c,
					     const struct metric *m,
					     const char *name, int op,
					     const struct meter_counts *sum))
{
	struct meter_share sum;

	for (size_t i = 0; i < max && meters[i]; i++) {
		meter_sum(meters[i], &sum);
		if (!give)
			collect_give(c, m, meters[i]->name, NULL, NULL, &sum);
		for (int op = 0; give && op < METER_OPS; op++)
			give(c, m, meters[i]->name, op, &sum.op[op]);
	}
}

static void collect_give_metric(struct collect *c, const struct metric *m)
{
	switch ((enum metric_source)m->source) {
	case METRIC_OF_TARGET:
		collect_give(c, m, RDMA_BLOCK_VERSION, NULL, NULL, &c->target);
		return;
	case METRIC_OF_PORT:
	case METRIC_OF_WORKER:
	case METRIC_OF_REACTOR:
	case METRIC_OF_TRANSPORT:
		for (unsigned int i = 0; i < c->worker_cnt; i++)
			collect_give_worker(c, m, i);
		return;
	case METRIC_OF_VOLUME:
		for (unsigned int i = 0; i < c->volume_cnt; i++)
			collect_give(c, m, c->volumes[i].name,
				     c->volumes[i].state, NULL,
				     &c->volumes[i].facts);
		return;
	case METRIC_OF_VOLUME_IO:
		for (unsigned int i = 0; i < c->volume_cnt; i++)
			collect_give_io(c, m, &c->volumes[i]);
		return;
	case METRIC_OF_VOLUME_OP:
		collect_give_meters(c, m, c->volume_meters, SIZE_MAX,
				    collect_give_op);
		return;
	case METRIC_OF_VOLUME_STAGE:
		collect_give_meters(c, m, c->volume_meters, SIZE_MAX,
				    collect_give_stages);
		return;
	case METRIC_OF_INITIATOR:
		collect_give_meters(c, m, c->initiator_meters, SIZE_MAX, NULL);
		return;
	case METRIC_OF_INITIATOR_OP:
		collect_give_meters(c, m, c->initiator_meters, SIZE_MAX,
				    collect_give_op);
		return;
	case METRIC_OF_INITIATOR_STAGE:
		collect_give_meters(c, m, c->initiator_meters,
				    COLLECT_TIMES_MAX, collect_give_stages);
		return;
	case METRIC_SOURCES:
		return;
	}
}

int collect_metrics(struct server *s, struct metric_sink *sink)
{
	_cleanup_free_ struct collect *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->sink = sink;
	err = collect_ask(c, s);
	if (err)
		return err;
	c->volume_meters = meter_list(METER_OF_VOLUME);
	c->initiator_meters = meter_list(METER_OF_INITIATOR);
	if (!c->volume_meters || !c->initiator_meters)
		err = -ENOMEM;
	for (size_t i = 0; i < metrics_table.cnt && !err; i++)
		collect_give_metric(c, &metrics_table.rows[i]);
	meter_list_free(c->volume_meters);
	meter_list_free(c->initiator_meters);
	return err;
}

int collect_exposition(struct server *s, char **ret_text, size_t *ret_len)
{
	struct exposition x;
	char *text;
	int err;

	exposition_init(&x, &metrics_table);
	err = collect_metrics(s, &x.sink);
	text = exposition_end(&x, ret_len);
	if (!err && !text)
		err = -ENOMEM;
	if (err)
		free(text);
	else
		*ret_text = text;
	return err;
}
