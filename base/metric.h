/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics as a table. Each metric of a program is one row: name, type, unit, labels,
 * help, and where its value is. All reports are made from the rows: the exposition for
 * Prometheus (base/exposition.h), JSON, lines in the log and the manual page.
 *
 * A program goes through its table, and gives each value that a row has, with the
 * values of the row's labels, to a sink. The sink makes the report.
 *
 * Thread: any.
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"

enum metric_type {
	METRIC_COUNTER,	  /* uint64_t that only grows */
	METRIC_GAUGE,	  /* uint64_t */
	METRIC_HISTOGRAM, /* struct histogram; its unit is "seconds" */
};

#define METRIC_LABELS_MAX 4

struct metric {
	const char *name; /* without program and unit: "buffer_waits" */
	enum metric_type type;
	/* "bytes"; "seconds": the value is in nanoseconds; else what is counted,
	 * "commands". */
	const char *unit;
	const char *labels; /* "volume,op"; "": none */
	const char *help;   /* one sentence */
	/* For people, behind the number in a line of the log; NULL: in none. */
	const char *text;
	/* The struct that has the value, an enum of the program, and where it is
	 * in there, in bytes. */
	int source;
	size_t offset;
};

struct metric_table {
	const char *program; /* "rdma_target" */
	const struct metric *rows;
	size_t cnt;
};

/* The value of a counter or a gauge in a struct of its source, which no other
 * thread writes. */
static inline uint64_t metric_value(const struct metric *m, const void *source)
{
	return *(const uint64_t *)(const void *)((const char *)source +
						 m->offset);
}

static inline const struct histogram *metric_times(const struct metric *m,
						   const void *source)
{
	return (const struct histogram *)(const void *)((const char *)source +
							m->offset);
}

/* "rdma_target_copied_bytes_total": program, name, unit if it is bytes or seconds,
 * and "total" for counters. Returns @buf. */
#define METRIC_NAME_SIZE 96
char *metric_full_name(const struct metric_table *t, const struct metric *m,
		       char *buf);

/* One value of a metric. */
struct metric_sample {
	const struct metric *metric;
	/* As many as metric->labels names, in that order. */
	const char *labels[METRIC_LABELS_MAX];
	uint64_t value;		       /* counter or gauge */
	const struct histogram *times; /* histogram */
};

/* The samples of one metric come one after the other. */
struct metric_sink {
	void (*add)(struct metric_sink *sink, const struct metric_sample *s);
};

/* Gives @sink the value that @m has in @source. @labels: see above; borrowed for
 * the call. */
void metric_give(struct metric_sink *sink, const struct metric *m,
		 const char *const labels[METRIC_LABELS_MAX],
		 const void *source);

/* The name of the label @nr of @m; returns its length, 0: it has no more. */
size_t metric_label(const struct metric *m, unsigned int nr,
		    const char **ret_name);

/*
 * Writes "12 commands, 4096 bytes copied, ..." with all metrics of @source that have a
 * text, whose struct is @from, behind what is in @buf. Cuts it to @size bytes with the
 * final zero.
 */
void metric_append_text(const struct metric_table *t, char *buf, size_t size,
			int source, const void *from);

/* "counter", "gauge", "histogram" */
const char *metric_type_name(enum metric_type type);

#endif
