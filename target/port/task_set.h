/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task attributes (SAM-5 8.6): which commands of a channel may start, and which
 * wait for others. A task set is that of one channel for one LUN: SRP defines
 * no order between the channels of a nexus. The busy list of the channel is in
 * order of arrival.
 *
 *   HEAD OF QUEUE  starts at once
 *   ORDERED        waits for all before it, and for every HEAD OF QUEUE
 *   SIMPLE         waits for ORDERED before it, and for every HEAD OF QUEUE
 *
 * Thread: the worker of the channel.
 */
#ifndef TARGET_PORT_TASK_SET_H
#define TARGET_PORT_TASK_SET_H

#include "target/port/request.h"

/* For task_set_enter(), when it or another command is not SIMPLE. */
bool task_set_enter_special(struct request *req);

/* Enters a command with an attribute (enum srp_task_attr). It is already in the
 * busy list. Return: true: it may start; false: it is blocked. */
static inline bool task_set_enter(struct request *req, uint8_t attr)
{
	req->attr = attr;
	/* With only SIMPLE commands there is nothing to search. */
	if (attr == SRP_TASK_SIMPLE && !req->ch->requests.special)
		return true;
	return task_set_enter_special(req);
}

/* The command no longer waits for others: it starts or ends. Does nothing if it
 * did not wait. */
void task_set_unblock(struct request *req);

/* From now on no command waits for @req. @req may never have entered. */
static inline void task_set_leave(struct request *req)
{
	if (req->attr != SRP_TASK_SIMPLE)
		req->ch->requests.special--;
	req->attr = SRP_TASK_SIMPLE;
}

/* Unblocks the next command that may start; the caller starts it. NULL:
 * none. */
struct request *task_set_next(struct channel *ch);

#endif
