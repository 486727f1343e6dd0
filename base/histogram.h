/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long things took: a histogram of times whose buckets grow with them. Each power
 * of two nanoseconds has four buckets of one width, so that a time is known to a quarter
 * of it or better. Histograms can be added up.
 *
 * One thread adds to a histogram; any thread may read it meanwhile, as by
 * histogram_merge(). The sum may then be ahead of the buckets by the last few times,
 * or behind.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <string.h>

#include "base/count.h"

/* Times of 1 ns are in the first bucket; those of 2^36 ns (69 s) and more in the last
 * one. */
#define HISTOGRAM_BITS	  36
#define HISTOGRAM_MAX_NS  (1ull << HISTOGRAM_BITS)
#define HISTOGRAM_BUCKETS (HISTOGRAM_BITS * 4 + 1)

struct histogram {
	uint64_t sum; /* nanoseconds, or another unit of whoever adds */
	uint64_t bucket[HISTOGRAM_BUCKETS]; /* times in each */
};

/*
 * The upper bits of a double are the exponent, then the mantissa: they count the
 * buckets. This takes two instructions.
 */
static inline uint64_t histogram_place(double ns)
{
	uint64_t bits;

	memcpy(&bits, &ns, sizeof(bits));
	return bits >> 50;
}

/* The place of 1.0: exponent 0, which is stored as 1023. */
#define HISTOGRAM_FIRST_PLACE (1023u << 2)

/* The bucket of @ns, which is 1 to HISTOGRAM_MAX_NS. */
static inline uint64_t histogram_index(double ns)
{
	return histogram_place(ns) - HISTOGRAM_FIRST_PLACE;
}

static inline uint64_t histogram_cap(uint64_t ns)
{
	return ns < 1 ? 1 : ns < HISTOGRAM_MAX_NS ? ns : HISTOGRAM_MAX_NS;
}

/* Thread: the owner. The sum is in nanoseconds. */
static inline void histogram_add(struct histogram *h, uint64_t ns)
{
	count_add(&h->bucket[histogram_index((double)histogram_cap(ns))], 1);
	count_add(&h->sum, ns);
}

/* Adds what is in @from to @to, which is the caller's. Thread: any. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* The rest is for histograms that nobody adds to, with sums in nanoseconds. */

/* Times in all buckets. */
uint64_t histogram_cnt(const struct histogram *h);

/* All times in @bucket are shorter; UINT64_MAX for the last one. In the first two
 * powers of two, where buckets are narrower than 1 ns, rounded up. */
uint64_t histogram_bound_ns(unsigned int bucket);

/* Times below 2^@bits ns; @bits is at most HISTOGRAM_BITS. */
uint64_t histogram_cnt_below(const struct histogram *h, unsigned int bits);

/* The time that @permille of 1000 times do not exceed, by interpolation in its
 * bucket; 0: there is none. A time in the last bucket counts as its lower bound. */
uint64_t histogram_quantile_ns(const struct histogram *h,
			       unsigned int permille);

/* Nothing took longer: the bound of the last bucket that is not empty; 0: all
 * are. HISTOGRAM_MAX_NS: that long or longer. */
uint64_t histogram_max_ns(const struct histogram *h);

#endif
