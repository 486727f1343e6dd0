/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of the target's answers as text, for people. Each function that has a buffer returns
 * it. Thread: main. */
#ifndef CTL_CTL_TEXT_H
#define CTL_CTL_TEXT_H

#include <stdbool.h>

#include <jansson.h>

#define CTL_TEXT_SIZE 512

/* "": there is none. */
const char *ctl_field(const json_t *of, const char *key);
/* 0: there is none. */
long long ctl_number(const json_t *of, const char *key);

/* "2026-11-29 12:03:10" */
char *ctl_time_text(long long ms, char *buf);
/* "3 GiB"; with the bytes, if it is not exact */
char *ctl_size_text(long long bytes, char *buf);
/* "target: all", "10.0.0.1 10.0.0.2:ro" */
char *ctl_access_text(const json_t *rules, bool is_of_target, char *buf);
/* The texts of @list with @between; what does not fit is counted: "a, b and 5 more". */
char *ctl_list_text(const json_t *list, const char *between, char *buf);
/* Of a job: "40 %, about 0:01:01 to go". "": there is none. */
char *ctl_progress_text(const json_t *vol, char *buf);
/* " since 2026-11-29 12:03:10: Lost, until it can": why something is not as it should be,
 * and what ends that. */
char *ctl_trouble_text(long long since_ms, const char *why, const char *end,
		       char *buf);
/* "ready, read-only"; of a volume that is not ready, why. */
char *ctl_state_text(const json_t *vol, char *buf);

#endif
