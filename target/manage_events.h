/* SPDX-License-Identifier: BSD-2-Clause */
/* The method that follows events of the target (events.h). Thread: that of a
 * connection. */
#ifndef TARGET_MANAGE_EVENTS_H
#define TARGET_MANAGE_EVENTS_H

#include "target/control/control.h"

/* struct control_method.run, of one that streams. The first reply comes at once. All
 * later events are reported. */
void manage_follow_events(struct control_call *c);

#endif
