/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_table.h"

#include "tests/lib/t_must.h"

static struct CMUnitTest tests[T_TABLE_MAX];
static size_t tests_cnt;
static CMFixtureFunction each_setup;
static CMFixtureFunction each_teardown;

void t_add(const char *func_name, CMUnitTestFunction func, const char *row_name,
	   const void *row)
{
	char *name;

	T_MUST(tests_cnt < T_TABLE_MAX);
	T_MUST(asprintf(&name, "%s%s%s", func_name, row ? ": " : "",
			row ? row_name : "") > 0);
	tests[tests_cnt++] = (struct CMUnitTest){
		.name = name,
		.test_func = func,
		.setup_func = each_setup,
		.teardown_func = each_teardown,
		.initial_state = (void *)(uintptr_t)row,
	};
}

void t_each(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	each_setup = setup;
	each_teardown = teardown;
}

int t_run_between(CMFixtureFunction begin, CMFixtureFunction end)
{
	if (getenv("T_FILTER"))
		cmocka_set_test_filter(getenv("T_FILTER"));
	return _cmocka_run_group_tests("tests", tests, tests_cnt, begin, end);
}

int t_run(void)
{
	return t_run_between(NULL, NULL);
}
