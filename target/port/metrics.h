/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a worker has done since it was started. To add a metric, add a member to
 * a struct of counters, and a row to the table in metrics.c. All reports come
 * from this table.
 *
 * The difference between two reports, divided by the commands between them, is
 * the cost of one command. rdma-target logs a report at SIGUSR2.
 */
#ifndef TARGET_PORT_METRICS_H
#define TARGET_PORT_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reactor.h"

struct worker;

/* Counters of the channels of a worker. */
struct port_counters {
	uint64_t commands; /* SRP_CMD that were answered */
	uint64_t copied;   /* bytes of payload copied by the processor */
	uint64_t waits;	   /* commands that had to wait for a buffer */
};

/* The struct that has the value of a metric. */
enum metric_source {
	METRIC_OF_PORT,	     /* struct port_counters, for each worker */
	METRIC_OF_REACTOR,   /* struct reactor_stats, for each worker */
	METRIC_OF_TRANSPORT, /* struct xp_stats, for each of its transports */
	METRIC_SOURCES
};

/* A counter that only grows: a member of type uint64_t of its source. */
struct metric {
	const char *name; /* for programs: "buffer_waits" */
	const char *unit; /* "bytes", or what is counted: "commands" */
	const char *text; /* for people, after the number */
	const char *help; /* one sentence */
	enum metric_source source;
	size_t offset; /* bytes */
};

/* The table, in the order of the reports. Thread: any. */
extern const struct metric metrics_table[];
extern const size_t metrics_cnt;

/* The value of a metric in a struct of its source. Thread: any that may read
 * that struct. */
static inline uint64_t metric_value(const struct metric *m, const void *source)
{
	return *(const uint64_t *)(const void *)((const char *)source +
						 m->offset);
}

/*
 * Appends "12 commands, 4096 bytes copied, ..." with all metrics of @from, a
 * struct of @source, to the text in @buf. Cuts the text to @size bytes with the
 * final zero. Thread: as for metric_value().
 */
void metrics_append(char *buf, size_t size, enum metric_source source,
		    const void *from);

/* A report that a worker is asked for. Its members are private. */
struct metrics_report {
	struct reactor_msg msg;
	atomic_bool sent;
};

/*
 * Asks each of @cnt workers to log a line about itself, and one about each of
 * its transports. Thread: any.
 */
void metrics_log(struct worker *workers, unsigned int cnt);

#endif
