/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reactor without a kernel, linked in place of base/reactor.c. It has the
 * same contract, but time only advances when it is moved, and a message runs
 * when the caller chooses it, or in the next turn. Operations of the ring are
 * executed in the next turn. One thread runs all reactors.
 */
#ifndef TESTS_SIM_CLOCK_H
#define TESTS_SIM_CLOCK_H

#include "base/reactor.h"

/* The virtual time of all reactors, in microseconds. */
uint64_t clock_now(void);

/* Starts again from the beginning; no reactor may exist. */
void clock_reset(void);

/* Returns the number of messages that wait, on all reactors. */
unsigned int clock_messages(void);
/* The thread of @r stands still: its messages are left out. NULL: it goes on. */
void clock_stand_still(const struct reactor *r);
/* Takes the reactor that message @nth (from 0) is for, and runs its first
 * message. */
void clock_run_message(unsigned int nth);

/* Moves time to the next timer and fires the timers that are due. False: there
 * is no timer. */
bool clock_advance(void);

/* Moves time by @ms. Timers that are due fire in the next turns. */
void clock_skip(uint64_t ms);

#endif
