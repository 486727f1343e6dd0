/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the metrics of a target (port/metrics.h) while it runs. Each worker
 * gets one message, which copies its counters between two turns. Counts and
 * times of commands are read directly from the workers' memory, which costs the
 * workers nothing.
 *
 * Thread: any but a worker's.
 */
#ifndef TARGET_COLLECT_H
#define TARGET_COLLECT_H

#include "base/metric.h"
#include "target/server_state.h"

/* The maximum of initiators whose times are reported; of others, only counts
 * are reported. */
#define COLLECT_TIMES_MAX 256

/*
 * Gives all metrics to @sink, in the order of metrics_table. Leaves out
 * operations and stages that no command has passed. Returns 0, -ENOMEM, or
 * -ESHUTDOWN if the target is ending. After an error, @sink has got nothing.
 */
int collect_metrics(struct server *s, struct metric_sink *sink);

/* The same as a text for Prometheus: *ret_text, which the caller frees, of
 * *ret_len bytes. */
int collect_exposition(struct server *s, char **ret_text, size_t *ret_len);

#endif
