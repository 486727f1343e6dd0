/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For objects that a test needs but does not test: memory, reactors,
 * transports. Unlike assert(), T_MUST() always evaluates its argument. Works
 * without cmocka. With cmocka, the end of the program counts as a failed test.
 */
#ifndef TESTS_LIB_T_MUST_H
#define TESTS_LIB_T_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void t_must(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

/* Ends the program with one line unless @ok. */
#define T_MUST(ok) t_must(ok, #ok, __FILE__, __LINE__)

#endif
