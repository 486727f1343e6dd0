/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include "tests/lib/t_table.h"

#define WINDOW_MS 10000

T_TEST(a_burst_passes_and_the_rest_is_counted)
{
	struct log_limit l = { 0 };
	unsigned int dropped = 7;

	for (unsigned int i = 0; i < 3; i++) {
		assert_true(log_limit_pass(&l, /* burst= */ 3, &dropped));
		assert_int_equal(dropped, 0);
	}
	dropped = 7;
	for (unsigned int i = 0; i < 5; i++)
		assert_false(log_limit_pass(&l, /* burst= */ 3, &dropped));
	assert_int_equal(dropped, 7);
	assert_int_equal(l.dropped, 5);
}

T_TEST(after_ten_seconds_it_passes_and_tells_the_count)
{
	struct log_limit l = { 0 };
	unsigned int dropped;

	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_false(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_false(log_limit_pass(&l, /* burst= */ 1, &dropped));
	l.window_start_ms -= WINDOW_MS;
	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_int_equal(dropped, 2);
	l.window_start_ms -= WINDOW_MS;
	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_int_equal(dropped, 0);
}
