/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One simulated history: random numbers, the result of the checks, and messages
 * for people. The seed determines all events.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/blocks.h"

/* ---- random numbers ---- */

void sim_seed(uint64_t seed);
/* 0 ... @n - 1 */
unsigned int sim_random(unsigned int n);
/* True in @percent of 100 cases. */
static inline bool sim_chance(unsigned int percent)
{
	return sim_random(100) < percent;
}

/* ---- result ---- */

/* The first violation ends the history. */
void sim_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool sim_is_wrong(void);
/* Describes the violation; "": there is none. */
const char *sim_wrong_text(void);

/* Prints one line of the history, if the history is shown. */
extern bool sim_verbose;
void sim_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
