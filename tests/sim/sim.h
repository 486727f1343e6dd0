/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One simulated history: chance, what went wrong, and the words for people.
 * Everything that happens follows from the seed.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/blocks.h"

/* ---- chance ---- */

void sim_seed(uint64_t seed);
/* 0 ... @n - 1 */
unsigned int sim_random(unsigned int n);
/* True in @percent of 100 cases. */
static inline bool sim_chance(unsigned int percent)
{
	return sim_random(100) < percent;
}

/* ---- judgement ---- */

/* The first thing that must not be ends the history. */
void sim_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool sim_is_wrong(void);
/* What that was; "": nothing. */
const char *sim_wrong_text(void);

/* One line of the history, when it is to be shown. */
extern bool sim_verbose;
void sim_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
