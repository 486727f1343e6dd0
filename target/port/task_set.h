/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task attributes (SAM-5 8.6): which commands of a channel may start, and which
 * wait for others. The task set is that of one channel for one LUN: SRP gives
 * no order to what different channels of a nexus carry, so there is none to
 * keep. The channel's busy list is in order of arrival.
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

/* A command with an attribute (enum srp_task_attr), already in the busy list.
 * Return: it may start; otherwise it is blocked. */
bool task_set_enter(struct request *req, uint8_t attr);

/* It no longer waits for its turn: it starts, or is ended. Does nothing if it
 * did not wait. */
void task_set_unblock(struct request *req);

/* No other command waits for it from now on. @req may never have entered. */
void task_set_leave(struct request *req);

/* Unblocks a command whose turn has come, for the caller to start. NULL: none. */
struct request *task_set_next(struct channel *ch);

#endif
