/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/histogram.h"

#include <assert.h>
#include <float.h>

/* histogram_index() takes a double to be IEEE 754's. */
_Static_assert(DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024, "no IEEE 754");

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	to->sum += count_read(&from->sum);
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->bucket[i] += count_read(&from->bucket[i]);
}

uint64_t histogram_cnt(const struct histogram *h)
{
	uint64_t cnt = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		cnt += h->bucket[i];
	return cnt;
}

uint64_t histogram_bound_ns(unsigned int bucket)
{
	uint64_t quarters = (uint64_t)(bucket % 4 + 5) << bucket / 4;

	if (bucket >= HISTOGRAM_BUCKETS - 1)
		return UINT64_MAX;
	return (quarters + 3) / 4;
}

uint64_t histogram_cnt_below(const struct histogram *h, unsigned int bits)
{
	uint64_t cnt = 0;

	assert(bits <= HISTOGRAM_BITS);
	for (unsigned int i = 0; i < bits * 4; i++)
		cnt += h->bucket[i];
	return cnt;
}

/* Of @cnt times that lie evenly in @bucket, the @nth. */
static uint64_t histogram_within(unsigned int bucket, uint64_t nth,
				 uint64_t cnt)
{
	uint64_t lower = bucket ? histogram_bound_ns(bucket - 1) : 0;
	double width;

	if (bucket == HISTOGRAM_BUCKETS - 1)
		return lower;
	width = (double)(histogram_bound_ns(bucket) - lower);
	return lower + (uint64_t)(width * (double)nth / (double)cnt);
}

uint64_t histogram_quantile_ns(const struct histogram *h, unsigned int permille)
{
	uint64_t cnt = histogram_cnt(h);
	/* How many times are at most what is asked for: rounded up, no overflow. */
	uint64_t nth =
		cnt / 1000 * permille + (cnt % 1000 * permille + 999) / 1000;

	if (!nth)
		nth = 1;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (nth <= h->bucket[i])
			return histogram_within(i, nth, h->bucket[i]);
		nth -= h->bucket[i];
	}
	return 0;
}

uint64_t histogram_max_ns(const struct histogram *h)
{
	unsigned int i = HISTOGRAM_BUCKETS;

	while (i > 0 && !h->bucket[i - 1])
		i--;
	if (i == HISTOGRAM_BUCKETS)
		return HISTOGRAM_MAX_NS;
	return i ? histogram_bound_ns(i - 1) : 0;
}
