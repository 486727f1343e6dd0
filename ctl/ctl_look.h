/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target is and does, for people, on stdout. The functions that need more than one
 * answer get them in one object: that of GetStatus, with "volume_list" and "session_list",
 * the lists of ListVolumes and ListSessions, and "host_names", {ADDRESS: NAME}.
 *
 * Thread: main.
 */
#ifndef CTL_CTL_LOOK_H
#define CTL_CTL_LOOK_H

#include <jansson.h>

/* A page: is all well, since when not, what to do, and what is served. */
void ctl_look_status(const json_t *all);
/* As targetcli's ls: volumes with their stores, and who uses them. */
void ctl_look_tree(const json_t *all);
/* In "volume_list"; NULL: there is none of that name. */
const json_t *ctl_look_find(const json_t *all, const char *name);
/* All about that volume. */
void ctl_look_volume(const json_t *all, const json_t *vol);

/* "volumes" of the answer. */
void ctl_look_volumes(const json_t *out);
/* "sessions" of the answer, and "host_names". */
void ctl_look_sessions(const json_t *out);

#endif
