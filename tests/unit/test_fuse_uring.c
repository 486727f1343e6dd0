/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fuse/uring.h"

static const struct list_case {
	const char *name;
	const char *text;
	unsigned int cnt;
} list_cases[] = {
	{ "one processor", "0\n", 1 },
	{ "a range", "0-63\n", 64 },
	{ "ranges", "0-3,8-11\n", 8 },
	{ "ranges and single ones", "0,2-3,1023\n", 4 },
	{ "nothing", "", 0 },
	{ "an empty line", "\n", 0 },
	{ "words", "none\n", 0 },
	{ "a line cut off in a number", "0-1,10", 0 },
	{ "a line cut off in a range", "0-1,10-", 0 },
	{ "a comma at the end", "0-1,\n", 0 },
	{ "a range backwards", "3-0\n", 0 },
};

static void lists(void **state)
{
	const struct list_case *c = *state;

	assert_int_equal(uring_list_cnt(c->text), c->cnt);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(list_cases)];

	for (size_t i = 0; i < ARRAY_SIZE(list_cases); i++)
		tests[i] = (struct CMUnitTest){
			.name = list_cases[i].name,
			.test_func = lists,
			.initial_state = (void *)(uintptr_t)&list_cases[i],
		};
	return cmocka_run_group_tests_name("fuse_uring", tests, NULL, NULL);
}
