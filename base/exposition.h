/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics in the text format of Prometheus (version 0.0.4), in memory. Histograms have
 * a bucket for each power of two from 2^10 ns to 2^36 ns, about 1 us to 69 s.
 *
 * Thread: any, one at a time for one exposition.
 */
#ifndef BASE_EXPOSITION_H
#define BASE_EXPOSITION_H

#include <stdbool.h>

#include "base/error.h"
#include "base/metric.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition {
	struct metric_sink sink; /* where samples go */
	/* private */
	const struct metric_table *table;
	const struct metric *last; /* the metric of the last sample */
	char *text;
	size_t len;
	size_t size;
	bool failed; /* no memory */
};

/* Begins an empty exposition of metrics of @t. */
void exposition_init(struct exposition *x, const struct metric_table *t);

/* The text, to be freed, ends with a zero; *ret_len is its length without it. NULL:
 * no memory. */
char *exposition_end(struct exposition *x, size_t *ret_len);

/* @value as it stands in a text, for labels: @buf has room for two bytes for each, and
 * a zero. Bytes that are not UTF-8 become '_'. Returns @buf. */
char *exposition_escape(const char *value, char *buf);

/*
 * Replaces the file @path by @text, for the textfile collector of node_exporter: a
 * reader finds the old file or the new one. The new one is PATH.new until it is whole.
 * Blocks. 0, or -errno with one line in @e that names the file; the old file is as it
 * was then.
 */
int exposition_save(const char *path, const char *text, size_t len,
		    struct error *e);

#endif
