/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The metrics of a mount: its table (base/metric.h), and the text for Prometheus. Each
 * series has the mount point, because a machine has several mounts.
 *
 * Thread: the context's reactor, but for the table.
 */
#ifndef FUSE_METRICS_H
#define FUSE_METRICS_H

#include "base/metric.h"
#include "fuse/tree.h"

extern const struct metric_table fuse_metrics_table;

/* The exposition (base/exposition.h) of the mount @t at @path; NULL: no memory. */
char *fuse_metrics_text(const struct tree *t, const char *path,
			size_t *ret_len);

#endif
