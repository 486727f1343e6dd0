/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of test rows: each row is a cmocka test of its own, named after the
 * function and the member `name`. The test finds its row in *state. A test
 * program is
 *
 *	static void decode(void **state) { const struct row *r = *state; ... }
 *	int main(void)
 *	{
 *		static struct t_table t;
 *
 *		T_ADD_ROWS(&t, rows, decode);
 *		T_ADD(&t, a_test_without_rows);
 *		return t_run(&t);
 *	}
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
#define T_NAME_SIZE 128

struct t_table {
	struct CMUnitTest tests[T_TABLE_MAX];
	char names[T_TABLE_MAX][T_NAME_SIZE];
	size_t cnt;
};

/* @row: NULL, or the row with the name @row_name */
static inline void t_add(struct t_table *t, const char *func_name,
			 CMUnitTestFunction func, const char *row_name,
			 const void *row)
{
	char *name;

	if (t->cnt == T_TABLE_MAX)
		abort();
	name = t->names[t->cnt];
	snprintf(name, T_NAME_SIZE, "%s%s%s", func_name, row ? ": " : "",
		 row ? row_name : "");
	t->tests[t->cnt++] = (struct CMUnitTest){
		.name = name,
		.test_func = func,
		.initial_state = (void *)(uintptr_t)row,
	};
}

#define T_ADD(t, func) t_add(t, #func, func, NULL, NULL)

#define T_ADD_ROWS(t, rows, func)                                            \
	do {                                                                 \
		for (size_t i_ = 0; i_ < sizeof(rows) / sizeof((rows)[0]);   \
		     i_++)                                                   \
			t_add(t, #func, func, (rows)[i_].name, &(rows)[i_]); \
	} while (0)

/* Leaves a test for which this machine lacks something. To meson, a test that skip() of
 * cmocka has ended is one that failed. */
#define T_SKIP(why)                             \
	do {                                    \
		printf("# skipped: %s\n", why); \
		return;                         \
	} while (0)

/* T_FILTER='pattern' in the environment: only tests of such names. */
static inline int t_run(struct t_table *t)
{
	if (getenv("T_FILTER"))
		cmocka_set_test_filter(getenv("T_FILTER"));
	return _cmocka_run_group_tests("tests", t->tests, t->cnt, NULL, NULL);
}

#endif
