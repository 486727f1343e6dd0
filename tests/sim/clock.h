/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reactor without a kernel, linked in place of base/reactor.c: the same
 * contract, but time stands still until it is moved, and a message runs when
 * somebody chooses it, or in the next turn. What is asked of the ring is done in
 * the next turn. One thread plays all reactors.
 */
#ifndef TESTS_SIM_CLOCK_H
#define TESTS_SIM_CLOCK_H

#include "base/reactor.h"

/* Virtual time of all reactors, microseconds. */
uint64_t clock_now(void);

/* Begins anew; no reactor may exist. */
void clock_reset(void);

/* Messages that wait, on all reactors. */
unsigned int clock_messages(void);
/* Runs the first message of the reactor that message @nth (from 0) is for. */
void clock_run_message(unsigned int nth);

/* Moves time on to the next timer and fires what is due; false: no timer. */
bool clock_advance(void);

/* Moves time on by @ms; what is due fires in the next turns. */
void clock_skip(uint64_t ms);

#endif
