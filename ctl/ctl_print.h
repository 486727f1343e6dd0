/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the target for people, on stdout. Thread: main. */
#ifndef CTL_CTL_PRINT_H
#define CTL_CTL_PRINT_H

#include <jansson.h>

/* How many sessions a change has ended. */
void ctl_print_sessions_ended(const json_t *out);
void ctl_print_keys(const json_t *out);
/* "config" of the answer, as a file may have it. */
void ctl_print_config(const json_t *out);
void ctl_print_changes(const json_t *out);
void ctl_print_size(const json_t *out);
void ctl_print_added(const json_t *out);
void ctl_print_ended(const json_t *out);
void ctl_print_saved(const json_t *out);
/* "text" of the answer. */
void ctl_print_metrics(const json_t *out);
/* The whole answer. */
void ctl_print_json(const json_t *out);

/* The limits in the configuration @out. */
void ctl_print_qos(const json_t *out);
/* {"limits": [{"name", "parameters"}]}: one for each layer qos. */
void ctl_print_qos_json(const json_t *out);
/* The rules of the target in the configuration @out, in a line; {"allow": [...]}. */
void ctl_print_allow(const json_t *out);
void ctl_print_allow_json(const json_t *out);
/* Those of its only volume. If it has none, "target: " and those of the target;
 * {"allow": [...], "follows_target": true}. */
void ctl_print_volume_allow(const json_t *out);
void ctl_print_volume_allow_json(const json_t *out);
/* The faults of its only volume, one in a line; {"fault": [...]}. */
void ctl_print_faults(const json_t *out);
void ctl_print_faults_json(const json_t *out);
void ctl_print_event(const json_t *out);
/* In one line. */
void ctl_print_json_line(const json_t *out);

#endif
