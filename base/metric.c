/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/metric.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of the unit of Prometheus; other units are said by the name. */
static const char *metric_unit_suffix(const struct metric *m)
{
	if (!strcmp(m->unit, "bytes"))
		return "_bytes";
	return strcmp(m->unit, "seconds") ? "" : "_seconds";
}

char *metric_full_name(const struct metric_table *t, const struct metric *m,
		       char *buf)
{
	snprintf(buf, METRIC_NAME_SIZE, "%s_%s%s%s", t->program, m->name,
		 metric_unit_suffix(m),
		 m->type == METRIC_COUNTER ? "_total" : "");
	return buf;
}

void metric_give(struct metric_sink *sink, const struct metric *m,
		 const char *const labels[METRIC_LABELS_MAX],
		 const void *source)
{
	struct metric_sample s = { .metric = m };

	memcpy(s.labels, labels, sizeof(s.labels));
	if (m->type == METRIC_HISTOGRAM)
		s.times = metric_times(m, source);
	else
		s.value = metric_value(m, source);
	sink->add(sink, &s);
}

size_t metric_label(const struct metric *m, unsigned int nr,
		    const char **ret_name)
{
	const char *name = m->labels;

	for (; nr > 0; nr--) {
		name += strcspn(name, ",");
		name += *name == ',';
	}
	*ret_name = name;
	return strcspn(name, ",");
}

void metric_append_text(const struct metric_table *t, char *buf, size_t size,
			int source, const void *from)
{
	const char *comma = "";

	for (size_t i = 0; i < t->cnt; i++) {
		const struct metric *m = &t->rows[i];
		size_t len = strlen(buf);

		if (m->source != source || !m->text)
			continue;
		snprintf(buf + len, size - len, "%s%" PRIu64 " %s", comma,
			 metric_value(m, from), m->text);
		comma = ", ";
	}
}

const char *metric_type_name(enum metric_type type)
{
	switch (type) {
	case METRIC_COUNTER:
		return "counter";
	case METRIC_GAUGE:
		return "gauge";
	case METRIC_HISTOGRAM:
		return "histogram";
	}
	return "";
}
