/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the judge: possible and impossible histories. */
#include <string.h>

#include "tests/lib/t_table.h"
#include "tests/lib/history.h"
#include "tests/proof/stamp.h"
#include "base/list.h"

#define OPS_MAX 8

#define WRITE(s, e, v)                                              \
	{                                                           \
		.start = s, .end = e, .value = v, .is_write = true, \
		.acked = true                                       \
	}
#define FLUSHED(s, e, v)                                            \
	{                                                           \
		.start = s, .end = e, .value = v, .is_write = true, \
		.acked = true, .confirmed = true                    \
	}
/* COMPARE AND WRITE that has found @old. */
#define SWAPPED(s, e, v, old)                                       \
	{                                                           \
		.start = s, .end = e, .value = v, .is_write = true, \
		.acked = true, .instead = old                       \
	}
/* A write that failed or was never answered: it arrives before @e, or never. */
#define FAILED(s, e, v)                                            \
	{                                                          \
		.start = s, .end = e, .value = v, .is_write = true \
	}
#define READ(s, e, v)                                           \
	{                                                       \
		.start = s, .end = e, .value = v, .acked = true \
	}
#define OPEN UINT64_MAX

/* The initial value is 0; the end of a cut is not 0. */
static const struct row {
	const char *name;
	struct history_op ops[OPS_MAX];
	enum history_verdict verdict;
	uint64_t replay_ns;
	struct history_cut cuts[2];
} rows[] = {
	{ "nothing at all", { { 0 } }, HISTORY_GOOD },
	{ "the first value is read", { READ(10, 11, 0) }, HISTORY_GOOD },
	{ "a value from nowhere is read",
	  { READ(10, 11, 5) },
	  HISTORY_UNWRITTEN },
	{ "a value is read before it is written",
	  { WRITE(10, 12, 1), READ(5, 9, 1) },
	  HISTORY_UNWRITTEN },
	{ "an acknowledged write is read",
	  { WRITE(10, 12, 1), READ(13, 14, 1) },
	  HISTORY_GOOD },
	{ "an acknowledged write is lost",
	  { WRITE(10, 12, 1), READ(13, 14, 0) },
	  HISTORY_CONTRADICTION },
	{ "a write under way is not seen yet",
	  { WRITE(10, 20, 1), READ(13, 14, 0), READ(15, 16, 1) },
	  HISTORY_GOOD },
	{ "a write under way was seen, then not any more",
	  { WRITE(10, 20, 1), READ(13, 14, 1), READ(15, 16, 0) },
	  HISTORY_CONTRADICTION },
	{ "two writes at once, the earlier one stays",
	  { WRITE(10, 20, 1), WRITE(11, 19, 2), READ(21, 22, 1) },
	  HISTORY_GOOD },
	{ "two writes at once, either is seen in turn",
	  { WRITE(10, 20, 1), WRITE(11, 19, 2), READ(21, 22, 1),
	    READ(23, 24, 2) },
	  HISTORY_CONTRADICTION },
	{ "an old value comes back",
	  { WRITE(10, 12, 1), WRITE(13, 14, 2), READ(15, 16, 2),
	    READ(17, 18, 1) },
	  HISTORY_CONTRADICTION },
	{ "a failed write is not there",
	  { WRITE(1, 2, 1), FAILED(10, OPEN, 2), READ(20, 21, 1) },
	  HISTORY_GOOD },
	{ "a failed write is there",
	  { WRITE(1, 2, 1), FAILED(10, OPEN, 2), READ(20, 21, 2) },
	  HISTORY_GOOD },
	{ "a failed write arrives later",
	  { WRITE(1, 2, 1), FAILED(10, OPEN, 2), READ(20, 21, 1),
	    READ(30, 31, 2) },
	  HISTORY_GOOD },
	{ "a failed write arrives though it no longer can",
	  { WRITE(1, 2, 1), FAILED(10, 25, 2), READ(26, 27, 1),
	    READ(30, 31, 2) },
	  HISTORY_CONTRADICTION },
	{ "a stale write lands on a newer one",
	  { FAILED(10, 25, 1), WRITE(26, 27, 2), READ(30, 31, 1) },
	  HISTORY_CONTRADICTION },
	{ "a stale write lands on a newer one, nothing fences it",
	  { FAILED(10, OPEN, 1), WRITE(26, 27, 2), READ(30, 31, 1) },
	  HISTORY_GOOD },
	{ "a write takes place twice",
	  { WRITE(10, 50, 1), READ(13, 14, 1), WRITE(15, 16, 2),
	    READ(17, 18, 2), READ(51, 52, 1) },
	  HISTORY_CONTRADICTION },
	{ "a write takes place twice, as it may when sent again",
	  { WRITE(10, 50, 1), READ(13, 14, 1), WRITE(15, 16, 2),
	    READ(17, 18, 2), READ(51, 52, 1) },
	  HISTORY_GOOD,
	  40 },
	{ "a write that may be sent again is read twice",
	  { FAILED(10, 60, 1), READ(65, 66, 1), READ(67, 68, 1) },
	  HISTORY_GOOD,
	  40 },
	{ "a write takes place again after its end",
	  { WRITE(10, 50, 1), READ(13, 14, 1), WRITE(51, 52, 2),
	    READ(53, 54, 2), READ(55, 56, 1) },
	  HISTORY_CONTRADICTION,
	  40 },
	{ "a write is sent again, and the one between seen twice",
	  { WRITE(10, 50, 1), WRITE(15, 16, 2), READ(17, 18, 2),
	    READ(19, 20, 1), READ(21, 22, 2) },
	  HISTORY_CONTRADICTION,
	  40 },
	{ "mixed while it is written",
	  { WRITE(10, 20, 1), READ(13, 14, HISTORY_MIXED), READ(21, 22, 1) },
	  HISTORY_GOOD },
	{ "mixed at rest",
	  { WRITE(10, 20, 1), READ(23, 24, HISTORY_MIXED) },
	  HISTORY_TORN },
	{ "power cut: what was not flushed is lost",
	  { WRITE(10, 12, 1), READ(13, 14, 1), READ(33, 34, 0) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: what was not flushed is there",
	  { WRITE(10, 12, 1), READ(33, 34, 1) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: what was flushed is lost",
	  { FLUSHED(10, 12, 1), READ(33, 34, 0) },
	  HISTORY_LOST,
	  .cuts = { { 20, 30 } } },
	{ "power cut: what was flushed has a successor",
	  { FLUSHED(10, 12, 1), WRITE(13, 14, 2), READ(33, 34, 2) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: a value older than the flushed one",
	  { WRITE(5, 6, 1), FLUSHED(10, 12, 2), WRITE(13, 14, 3),
	    READ(33, 34, 1) },
	  HISTORY_LOST,
	  .cuts = { { 20, 30 } } },
	{ "power cut: first one survivor, then another",
	  { WRITE(10, 12, 1), READ(33, 34, 1), READ(35, 36, 0) },
	  HISTORY_TWO_SURVIVORS,
	  .cuts = { { 20, 30 } } },
	{ "power cut: a write is repeated after it",
	  { WRITE(10, 40, 1), READ(33, 34, 0), READ(41, 42, 1) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: a read across it proves nothing",
	  { WRITE(10, 12, 1), READ(18, 34, 1), READ(35, 36, 0) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: the second takes what the first left",
	  { WRITE(10, 12, 1), READ(33, 34, 1), READ(53, 54, 0) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 }, { 40, 50 } } },
	{ "power cut: older than what was there at first",
	  { READ(33, 34, 5) },
	  HISTORY_LOST,
	  .cuts = { { 20, 30 } } },
	{ "power cut: older than a flushed one, as a read shows",
	  { WRITE(10, 19, 1), READ(11, 12, 1), FLUSHED(13, 14, 2),
	    READ(33, 34, 1) },
	  HISTORY_LOST,
	  .cuts = { { 20, 30 } } },
	{ "power cut: the same of a write that may be sent again",
	  { WRITE(10, 19, 1), READ(11, 12, 1), FLUSHED(13, 14, 2),
	    READ(33, 34, 1) },
	  HISTORY_GOOD,
	  9,
	  .cuts = { { 20, 30 } } },
	{ "a value is replaced",
	  { WRITE(10, 12, 1), SWAPPED(13, 20, 2, 1), READ(14, 15, 1),
	    READ(16, 17, 2), WRITE(21, 22, 3), READ(23, 24, 3) },
	  HISTORY_GOOD },
	{ "another value comes between the two",
	  { WRITE(10, 30, 1), READ(11, 12, 1), WRITE(13, 14, 2),
	    SWAPPED(15, 16, 3, 1), READ(31, 32, 3) },
	  HISTORY_CONTRADICTION },
	{ "a chain of values is replaced",
	  { WRITE(10, 11, 1), SWAPPED(12, 13, 2, 1), SWAPPED(14, 15, 4, 2),
	    READ(16, 17, 4) },
	  HISTORY_GOOD },
	{ "a chain of values is replaced, another comes between",
	  { WRITE(10, 11, 1), SWAPPED(12, 40, 2, 1), SWAPPED(13, 40, 4, 2),
	    READ(14, 15, 4), WRITE(16, 17, 5), READ(18, 19, 1) },
	  HISTORY_CONTRADICTION },
	{ "the replaced value is read again",
	  { WRITE(10, 12, 1), SWAPPED(13, 14, 2, 1), READ(15, 16, 1) },
	  HISTORY_CONTRADICTION },
	{ "a value that was never there is replaced",
	  { WRITE(10, 12, 1), SWAPPED(13, 14, 3, 2) },
	  HISTORY_NOT_FOUND },
	{ "a value is replaced twice",
	  { WRITE(10, 12, 1), SWAPPED(13, 14, 2, 1), SWAPPED(13, 15, 3, 1) },
	  HISTORY_REPLACED_TWICE },
	{ "power cut: what it left is replaced",
	  { WRITE(10, 12, 1), SWAPPED(33, 34, 2, 1), READ(35, 36, 2) },
	  HISTORY_GOOD,
	  .cuts = { { 20, 30 } } },
	{ "power cut: lost before it",
	  { WRITE(10, 12, 1), READ(13, 14, 0) },
	  HISTORY_CONTRADICTION,
	  .cuts = { { 20, 30 } } },
};

T_ROWS(judge, rows)
{
	const struct row *r = *state;
	struct history_op ops[OPS_MAX];
	struct history h = { .ops = ops,
			     .cuts = r->cuts,
			     .replay_ns = r->replay_ns };

	memcpy(ops, r->ops, sizeof(ops));
	while (h.cnt < OPS_MAX && ops[h.cnt].end)
		h.cnt++;
	while (h.cut_cnt < ARRAY_SIZE(r->cuts) && r->cuts[h.cut_cnt].end)
		h.cut_cnt++;
	assert_int_equal(history_check(&h).verdict, r->verdict);
}

/* The value that was read is the only one that is not allowed. */
T_TEST(allowed_values)
{
	struct history_op ops[] = {
		WRITE(10, 12, 1),
		WRITE(13, 20, 2),
		FAILED(14, OPEN, 3),
		READ(30, 31, 1),
	};
	struct history h = { .ops = ops, .cnt = ARRAY_SIZE(ops) };

	assert_false(history_allows(&h, &ops[3], 0));
	assert_false(history_allows(&h, &ops[3], 1));
	assert_true(history_allows(&h, &ops[3], 2));
	assert_true(history_allows(&h, &ops[3], 3));
}

/* ---- stamps ---- */

static enum stamp_kind look(const uint64_t *block, uint64_t *ret)
{
	char msg[256];

	return stamp_read(block, 512, 7, 100, ret, msg, sizeof(msg));
}

T_TEST(stamps)
{
	uint64_t value = stamp_value(3, 0xfedcba98);
	uint64_t other[64];
	uint64_t block[64] = { 0 };
	uint64_t seen = 1;

	assert_int_equal(look(block, &seen), STAMP_WHOLE);
	assert_int_equal(seen, STAMP_ZERO);
	stamp_write(block, 512, 7, 100, value);
	assert_int_equal(look(block, &seen), STAMP_WHOLE);
	assert_int_equal(seen, value);
	stamp_write(other, 512, 7, 100, stamp_value(4, 1));
	memcpy(block + 9, other + 9, 8);
	assert_int_equal(look(block, &seen), STAMP_MIXED);
	block[9] ^= 1;
	assert_int_equal(look(block, &seen), STAMP_ALIEN);
	stamp_write(block, 512, 7, 101, value);
	assert_int_equal(look(block, &seen), STAMP_ALIEN);
	stamp_write(block, 512, 8, 100, value);
	assert_int_equal(look(block, &seen), STAMP_ALIEN);
}
