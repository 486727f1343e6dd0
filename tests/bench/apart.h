/* SPDX-License-Identifier: BSD-2-Clause */
/* For a function that callgrind's --toggle-collect names: it stays a function of
 * its own. noipa is gcc's alone. */
#ifndef TESTS_BENCH_APART_H
#define TESTS_BENCH_APART_H

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

#endif
