/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reactor without a kernel, linked in place of base/reactor.c. It has the
 * same contract, but time only advances when it is moved, and a message runs
 * when the caller chooses it, or in the next turn. So does an operation of the ring.
 * One thread runs all reactors.
 */
#ifndef TESTS_SIM_CLOCK_H
#define TESTS_SIM_CLOCK_H

#include "base/reactor.h"

/* The virtual time of all reactors, in microseconds. */
uint64_t clock_now(void);

/* Starts again from the beginning; no reactor may exist. */
void clock_reset(void);

/* Returns the number of messages and operations that wait, on all reactors. */
unsigned int clock_messages(void);
/* The thread of @r stands still: they are left out. NULL: it goes on. */
void clock_stand_still(const struct reactor *r);
/* Takes the reactor that number @nth (from 0) of them is for, and runs its first message,
 * or its first operation. */
void clock_run_message(unsigned int nth);

/* Moves time to the next timer and fires the timers that are due. False: there
 * is no timer. */
bool clock_advance(void);

/* Moves time by @ms. Timers that are due fire in the next turns. */
void clock_skip(uint64_t ms);

#endif
