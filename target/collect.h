/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the metrics of a target (port/metrics.h) while it runs. Each worker gets one
 * message, which copies its counters, between two turns. Counts and times of commands are
 * read from where the workers count them: that costs the workers nothing.
 *
 * Thread: any but a worker's.
 */
#ifndef TARGET_COLLECT_H
#define TARGET_COLLECT_H

#include "base/metric.h"
#include "target/server_state.h"

/* Initiators whose times are reported; of more, only the counts are. */
#define COLLECT_TIMES_MAX 256

/*
 * Gives all metrics to @sink, in the order of metrics_table. Operations and stages that
 * no command has gone through are left out. -ENOMEM; -ESHUTDOWN: the target is ending.
 * @sink has got nothing then.
 */
int collect_metrics(struct server *s, struct metric_sink *sink);

/* The same as a text for Prometheus, *ret_text, to be freed, of *ret_len bytes. */
int collect_exposition(struct server *s, char **ret_text, size_t *ret_len);

#endif
