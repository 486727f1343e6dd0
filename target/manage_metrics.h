/* SPDX-License-Identifier: BSD-2-Clause */
/* The metrics of a running target (port/metrics.h). Thread: any but a worker's. */
#ifndef TARGET_MANAGE_METRICS_H
#define TARGET_MANAGE_METRICS_H

#include "target/control/control.h"
#include "target/manage.h"

/* Methods of the control socket: all metrics in the order of the table, in
 * JSON, and as a text for Prometheus (target/collect.h). */
void manage_get_metrics(struct control_call *c);
void manage_get_exposition(struct control_call *c);

#endif
