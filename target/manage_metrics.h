/* SPDX-License-Identifier: BSD-2-Clause */
/* The metrics of a running target (port/metrics.h). Thread: any but a worker's. */
#ifndef TARGET_MANAGE_METRICS_H
#define TARGET_MANAGE_METRICS_H

#include "target/control/control.h"
#include "target/manage.h"

/*
 * A method of the control socket: each metric of each worker, in the order of the
 * table. Each worker copies its counters by message, between two turns.
 */
void manage_get_metrics(void *user, const json_t *in,
			struct control_result *ret);

#endif
