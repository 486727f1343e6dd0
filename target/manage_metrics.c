/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_metrics.h"

#include <stdlib.h>

#include "target/port/metrics.h"

/* What one worker has counted. */
struct metrics_copy {
	struct port_counters port;
	struct reactor_stats reactor;
	bool has_xp[XP_KINDS];
	struct xp_stats xp[XP_KINDS];
};

static void metrics_run_copy(struct worker *w, void *arg)
{
	struct metrics_copy *copy = arg;

	copy->port = w->counters;
	/* What the stores have copied, too. */
	copy->port.copied += w->block.copied;
	reactor_stats(w->reactor, &copy->reactor);
	for (int kind = 0; kind < XP_KINDS; kind++) {
		copy->has_xp[kind] = w->xp[kind];
		if (w->xp[kind])
			copy->xp[kind] = *xp_get_stats(w->xp[kind]);
	}
}

static void metrics_add(json_t *list, const struct metric *m,
			unsigned int worker, const char *transport,
			const void *source)
{
	json_t *one = json_pack("{sssssssisI}", "name", m->name, "unit",
				m->unit, "help", m->help, "worker", (int)worker,
				"value", (json_int_t)metric_value(m, source));

	if (transport)
		json_object_set_new(one, "transport", json_string(transport));
	json_array_append_new(list, one);
}

static void metrics_add_worker(json_t *list, const struct metric *m,
			       unsigned int worker,
			       const struct metrics_copy *copy)
{
	switch (m->source) {
	case METRIC_OF_PORT:
		metrics_add(list, m, worker, NULL, &copy->port);
		return;
	case METRIC_OF_REACTOR:
		metrics_add(list, m, worker, NULL, &copy->reactor);
		return;
	case METRIC_OF_TRANSPORT:
		for (int kind = 0; kind < XP_KINDS; kind++) {
			if (copy->has_xp[kind])
				metrics_add(list, m, worker,
					    xp_kind_name((enum xp_kind)kind),
					    &copy->xp[kind]);
		}
		return;
	case METRIC_SOURCES:
		return;
	}
}

static void metrics_run_begin(struct server *s, void *arg)
{
	*(bool *)arg = server_begin_change(s) == 0;
}

static void metrics_run_end(struct server *s, void *arg)
{
	server_end_change(s);
}

/* False: the target is stopping. */
static bool metrics_collect(struct server *s, struct metrics_copy *copies)
{
	bool runs = false;

	if (server_call(s, metrics_run_begin, &runs) || !runs)
		return false;
	for (unsigned int i = 0; i < s->worker_cnt; i++)
		server_call_worker(&s->workers[i], metrics_run_copy,
				   &copies[i]);
	server_call(s, metrics_run_end, NULL);
	return true;
}

void manage_get_metrics(void *user, const json_t *in,
			struct control_result *ret)
{
	struct server *s = ((struct manage *)user)->server;
	struct metrics_copy *copies = calloc(s->worker_cnt, sizeof(*copies));
	json_t *list = json_array();

	if (copies && metrics_collect(s, copies)) {
		for (size_t i = 0; i < metrics_cnt; i++)
			for (unsigned int w = 0; w < s->worker_cnt; w++)
				metrics_add_worker(list, &metrics_table[i], w,
						   &copies[w]);
	}
	free(copies);
	ret->parameters = json_pack("{so}", "metrics", list);
}
