/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of cmocka, which register themselves and run in the order of their
 * lines. With a table of rows, each row is a test of its own, named after the
 * function and the member `name`. The test finds its row in *state.
 *
 *	T_TEST(a_test_without_rows) { ... }
 *	T_ROWS(decode, rows) { const struct row *r = *state; ... }
 *
 * A program needs no main(): it gets that of t_main.c. One that has to prepare
 * something for all tests has its own, which calls t_run().
 */
#ifndef TESTS_LIB_T_TABLE_H
#define TESTS_LIB_T_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define T_TABLE_MAX 1024

/* Adds a test. @row: NULL, or the row with the name @row_name. */
void t_add(const char *func_name, CMUnitTestFunction func, const char *row_name,
	   const void *row);

/* The tests that are added from now on run between @setup and @teardown. Each
 * of these may be NULL. */
void t_each(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Runs what was added, between @begin and @end, which may be NULL. With
 * T_FILTER='pattern' in the environment: only tests of such names. Returns the
 * exit status. */
int t_run_between(CMFixtureFunction begin, CMFixtureFunction end);
int t_run(void);

/* A function that runs before main(), and after those of earlier lines. */
#define T_AT_START __attribute__((constructor(1000 + __LINE__))) static void

#define T_TEST(func) T_TEST_IF(1, func)

/* @condition: whether this machine can run the test */
#define T_TEST_IF(condition, func)                      \
	static void func(void **state);                 \
	T_AT_START func##_at_start(void)                \
	{                                               \
		if (condition)                          \
			t_add(#func, func, NULL, NULL); \
	}                                               \
	static void func(void **state)

#define T_ROWS(func, rows) \
	T_ROWS_CNT(func, rows, sizeof(rows) / sizeof((rows)[0]))

#define T_ROWS_CNT(func, rows, cnt)                                     \
	static void func(void **state);                                 \
	T_AT_START func##_at_start(void)                                \
	{                                                               \
		for (size_t i = 0; i < (cnt); i++)                      \
			t_add(#func, func, (rows)[i].name, &(rows)[i]); \
	}                                                               \
	static void func(void **state)

/* The tests below this line run between @setup and @teardown. */
#define T_EACH(setup, teardown)                    \
	T_AT_START setup##_##teardown##_each(void) \
	{                                          \
		t_each(setup, teardown);           \
	}

/* Leaves a test for which this machine lacks something. To meson, a test that skip() of
 * cmocka has ended is one that failed. */
#define T_SKIP(why)                             \
	do {                                    \
		printf("# skipped: %s\n", why); \
		return;                         \
	} while (0)

#endif
