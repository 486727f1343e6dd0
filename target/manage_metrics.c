/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "target/collect.h"
#include "target/manage_methods.h"
#include "target/port/metrics.h"

/* Metrics as a list in JSON. */
struct metrics_json {
	struct metric_sink sink;
	json_t *list;
};

static json_t *metrics_labels(const struct metric_sample *s)
{
	json_t *labels = json_object();
	const char *name;
	char key[32];
	size_t len;

	for (unsigned int i = 0; (len = metric_label(s->metric, i, &name));
	     i++) {
		snprintf(key, sizeof(key), "%.*s", (int)len, name);
		json_object_set_new(labels, key, json_string(s->labels[i]));
	}
	return labels;
}

/* Lists each bucket that is not empty; the last one has no bound. */
static json_t *metrics_buckets(const struct histogram *h)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		json_t *one;

		if (!h->bucket[i])
			continue;
		one = json_pack("{sI}", "count", (json_int_t)h->bucket[i]);
		if (i < HISTOGRAM_BUCKETS - 1)
			json_object_set_new(
				one, "bound_ns",
				json_integer(
					(json_int_t)histogram_bound_ns(i)));
		json_array_append_new(list, one);
	}
	return list;
}

static void metrics_add_times(json_t *one, const struct histogram *h)
{
	json_object_set_new(one, "times",
			    json_pack("{sI sI sI sI sI so}", "count",
				      (json_int_t)histogram_cnt(h), "sum_ns",
				      (json_int_t)h->sum, "p50_ns",
				      (json_int_t)histogram_quantile_ns(h, 500),
				      "p99_ns",
				      (json_int_t)histogram_quantile_ns(h, 990),
				      "max_ns", (json_int_t)histogram_max_ns(h),
				      "buckets", metrics_buckets(h)));
}

static void metrics_json_add(struct metric_sink *sink,
			     const struct metric_sample *s)
{
	struct metrics_json *to = container_of(sink, struct metrics_json, sink);
	const struct metric *m = s->metric;
	char name[METRIC_NAME_SIZE];
	json_t *one =
		json_pack("{ss ss ss ss so}", "name",
			  metric_full_name(&metrics_table, m, name), "type",
			  metric_type_name(m->type), "unit", m->unit, "help",
			  m->help, "labels", metrics_labels(s));

	if (s->times)
		metrics_add_times(one, s->times);
	else
		json_object_set_new(one, "value",
				    json_integer((json_int_t)s->value));
	json_array_append_new(to->list, one);
}

static void metrics_fail(struct control_call *c, int err)
{
	struct manage_fault f;

	manage_refuse(&f, "metrics", "", "%s",
		      err == -ESHUTDOWN ? "the target is ending"
					: "out of memory");
	method_refused(c, &f);
}

void manage_get_metrics(struct control_call *c)
{
	const struct manage *m = c->user;
	struct metrics_json to = { .sink.add = metrics_json_add,
				   .list = json_array() };
	int err = collect_metrics(m->server, &to.sink);

	if (!err) {
		c->out = json_pack("{so}", "metrics", to.list);
		return;
	}
	json_decref(to.list);
	metrics_fail(c, err);
}

void manage_get_exposition(struct control_call *c)
{
	const struct manage *m = c->user;
	size_t len;
	char *text;
	int err = collect_exposition(m->server, &text, &len);

	if (err) {
		metrics_fail(c, err);
		return;
	}
	c->out = json_pack("{ss}", "text", text);
	free(text);
}
