/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The metrics of rdma-target: its table (base/metric.h), and the structs that have the
 * values. To add a metric, add a member to one of the structs, and a row to the table in
 * metrics.c: everything that reports metrics is made from this table.
 *
 * The difference between two reports, divided by the commands between them, is
 * what one command costs. rdma-target writes a report about its workers at SIGUSR2.
 */
#ifndef TARGET_PORT_METRICS_H
#define TARGET_PORT_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"
#include "base/reactor.h"

struct worker;

/* Counters of the channels of a worker. */
struct port_counters {
	uint64_t commands; /* SRP_CMD that were answered */
	uint64_t copied;   /* bytes of payload copied by the processor */
	uint64_t waits;	   /* commands that had to wait for a buffer */
	uint64_t slow;	   /* commands that took longer than --slow */
};

/* The present state of a worker. */
struct metrics_worker {
	uint64_t buffers;      /* bytes */
	uint64_t buffers_used; /* bytes */
	uint64_t channels;
	uint64_t in_flight; /* requests */
};

/* The target as a whole. */
struct metrics_target {
	uint64_t one;	   /* always 1; the information is in the label */
	uint64_t start_ns; /* since 1970 */
	uint64_t volumes;
	uint64_t sessions;
	uint64_t channels; /* since the start */
	uint64_t refusals; /* rejected logins */
	uint64_t discovery_answers;
	uint64_t discovery_drops;
	uint64_t discovery_ended_ns; /* since 1970; 0: it has not */
};

struct metrics_volume {
	uint64_t size;	       /* bytes */
	uint64_t never_stable; /* 0 or 1 */
	uint64_t ready;
	uint64_t since_ns; /* since 1970 */
};

/* I/Os of one operation of the store. */
struct metrics_io {
	uint64_t errors;
};

/* Commands of one operation; their times are a struct histogram for each stage. */
struct metrics_op {
	uint64_t commands;
	uint64_t bytes;
};

/* The struct that has the value of a metric. */
enum metric_source {
	METRIC_OF_TARGET,    /* struct metrics_target */
	METRIC_OF_PORT,	     /* struct port_counters, for each worker */
	METRIC_OF_WORKER,    /* struct metrics_worker, for each worker */
	METRIC_OF_REACTOR,   /* struct reactor_stats, for each worker */
	METRIC_OF_TRANSPORT, /* struct xp_stats, for each of its transports */
	METRIC_OF_VOLUME,    /* struct metrics_volume */
	METRIC_OF_VOLUME_IO, /* struct metrics_io */
	/* struct metrics_op, and struct histogram; meter.h */
	METRIC_OF_VOLUME_OP,
	METRIC_OF_VOLUME_STAGE,
	METRIC_OF_INITIATOR, /* struct meter_share */
	METRIC_OF_INITIATOR_OP,
	METRIC_OF_INITIATOR_STAGE,
	METRIC_SOURCES
};

/* The table, in the order of the reports. Thread: any. */
extern const struct metric_table metrics_table;

/* A report that a worker was asked to write. Its members are private. */
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
