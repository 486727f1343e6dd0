/* SPDX-License-Identifier: BSD-2-Clause */
/* Histograms of times, and the clock of the data path. */
#include "base/histogram.h"

#include "base/ticks.h"
#include "base/list.h"
#include "tests/lib/t_table.h"

/* Every bucket begins where the one before it ends. */
T_TEST(bounds_are_those_of_the_index)
{
	/* Below 4 ns, buckets are narrower than the resolution of the clock. */
	for (unsigned int i = 8; i < HISTOGRAM_BUCKETS - 1; i++) {
		uint64_t bound = histogram_bound_ns(i);

		assert_int_equal(histogram_index((double)(bound - 1)), i);
		assert_int_equal(histogram_index((double)bound), i + 1);
	}
	assert_true(histogram_bound_ns(HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
}

T_TEST(a_bucket_is_a_quarter_wide_at_most)
{
	for (unsigned int i = 8; i < HISTOGRAM_BUCKETS - 1; i++) {
		uint64_t from = histogram_bound_ns(i - 1);

		assert_true((histogram_bound_ns(i) - from) * 4 <= from);
	}
}

T_TEST(the_shortest_and_the_longest_have_buckets)
{
	struct histogram h = { 0 };

	histogram_add(&h, 0);
	histogram_add(&h, 1);
	histogram_add(&h, HISTOGRAM_MAX_NS - 1);
	histogram_add(&h, HISTOGRAM_MAX_NS);
	histogram_add(&h, HISTOGRAM_MAX_NS * 1000);
	assert_int_equal(h.bucket[0], 2);
	assert_int_equal(h.bucket[HISTOGRAM_BUCKETS - 2], 1);
	assert_int_equal(h.bucket[HISTOGRAM_BUCKETS - 1], 2);
	assert_int_equal(histogram_cnt(&h), 5);
	assert_true(histogram_max_ns(&h) == HISTOGRAM_MAX_NS);
}

T_TEST(counts_below_a_power_of_two_are_exact)
{
	struct histogram h = { 0 };

	histogram_add(&h, 1023);
	histogram_add(&h, 1024);
	histogram_add(&h, 1025);
	assert_int_equal(histogram_cnt_below(&h, 10), 1);
	assert_int_equal(histogram_cnt_below(&h, 11), 3);
	assert_int_equal(histogram_cnt_below(&h, 9), 0);
	assert_int_equal(h.sum, 1023 + 1024 + 1025);
}

T_TEST(sums_of_histograms_are_sums_of_times)
{
	struct histogram a = { 0 };
	struct histogram b = { 0 };
	struct histogram both = { 0 };

	for (uint64_t i = 1; i <= 1000; i++) {
		histogram_add(i % 3 ? &a : &b, i * 977);
		histogram_add(&both, i * 977);
	}
	histogram_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof(a));
}

/* Evenly from 1 us to 1 ms: a quantile is exact to a quarter. */
T_TEST(quantiles_are_near)
{
	static const unsigned int permilles[] = { 1, 250, 500, 900, 990, 1000 };
	struct histogram h = { 0 };

	for (uint64_t us = 1; us <= 1000; us++)
		histogram_add(&h, us * 1000);
	for (size_t i = 0; i < ARRAY_SIZE(permilles); i++) {
		uint64_t want = permilles[i] * 1000ull;
		uint64_t is = histogram_quantile_ns(&h, permilles[i]);

		assert_in_range(is, want - want / 4, want + want / 4);
	}
	assert_in_range(histogram_max_ns(&h), 1000000, 1250000);
}

T_TEST(an_empty_histogram_has_no_quantile)
{
	struct histogram h = { 0 };

	assert_int_equal(histogram_quantile_ns(&h, 500), 0);
	assert_int_equal(histogram_max_ns(&h), 0);
}

/* One slow command among a thousand changes the maximum, not the 99th
 * percentile. */
T_TEST(an_outlier_moves_the_maximum_alone)
{
	struct histogram h = { 0 };

	for (int i = 0; i < 999; i++)
		histogram_add(&h, 20000);
	histogram_add(&h, 5000000000ull);
	assert_in_range(histogram_quantile_ns(&h, 990), 16000, 25000);
	assert_true(histogram_max_ns(&h) >= 5000000000ull);
}

/* Until the tick has been measured, it counts as a nanosecond. Afterwards a
 * sleep measured in ticks is not shorter than by the system clock, except for
 * the error of the measurement. */
T_TEST(ticks_are_as_long_as_the_clock_says)
{
	const struct timespec ms20 = { .tv_nsec = 20000000 };
	uint64_t outer;
	uint64_t inner;
	uint64_t ticks;
	uint64_t begin;

	assert_int_equal(ticks_ns(12345), 12345);
	ticks_init();
	begin = ticks_clock_ns();
	ticks = ticks_now();
	inner = ticks_clock_ns();
	nanosleep(&ms20, NULL);
	inner = ticks_clock_ns() - inner;
	ticks = ticks_now() - ticks;
	outer = ticks_clock_ns() - begin;
	assert_in_range(ticks_ns(ticks), inner - inner / 50,
			outer + outer / 50);
	assert_in_range(ticks_ns(ticks_of_ns(1000000)), 999000, 1001000);
}
