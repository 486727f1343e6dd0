/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress bar, on standard error. A terminal gets one line that changes. If
 * standard error is something else and progress is asked for, it gets a line for
 * each second in which something was done.
 *
 * Thread: one.
 */
#ifndef COPY_PROGRESS_H
#define COPY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* How often to call progress_show(). */
#define PROGRESS_MS 200

/* @wanted: also if standard error is no terminal. @what: "copied" or "compared". */
void progress_begin(bool wanted, const char *what);

/* @done of @total bytes (0: not known), of which @before had been done when the
 * program started. @now_us: a monotonic clock. */
void progress_show(uint64_t done, uint64_t total, uint64_t before,
		   uint64_t now_us);

/* Clears the line, for another message. The next progress_show() brings it back. */
void progress_hide(void);

/* The last line stays. */
void progress_end(uint64_t done, uint64_t total, uint64_t before,
		  uint64_t now_us);

#endif
