/* SPDX-License-Identifier: BSD-2-Clause */
/* libsrpi: writes that overlap come one after the other. */
#include <errno.h>

#include "initiator/range.h"
#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"

#define RANGES_MAX 6

/* One step of a test, and the ranges that are held after it: a bit for each.
 *   "+0 10 20"  range number 0 is taken, 10 ... 20; "-0" given back */
struct step {
	char what; /* '+', '-'; 0: the end */
	unsigned int range;
	uint64_t begin;
	uint64_t end;
	unsigned int held;
};

#define FAR (INI_REGIONS << INI_REGION_SHIFT)

static const struct row {
	const char *name;
	struct step steps[10];
} rows[] = {
	{ "the second waits for the first",
	  { { '+', 0, 0, 10, 1 }, { '+', 1, 5, 15, 1 }, { '-', 0, 0, 0, 2 } } },
	{ "one in the other",
	  { { '+', 0, 0, 10, 1 }, { '+', 1, 9, 10, 1 }, { '-', 0, 0, 0, 2 } } },
	{ "neighbours do not meet",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 10, 20, 3 },
	    { '+', 2, 20, 30, 7 } } },
	{ "neighbours before do not meet",
	  { { '+', 0, 10, 20, 1 }, { '+', 1, 0, 10, 3 } } },
	{ "one after the other",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 0, 10, 1 },
	    { '+', 2, 0, 10, 1 },
	    { '-', 0, 0, 0, 2 },
	    { '-', 1, 0, 0, 4 } } },
	{ "elsewhere nobody waits",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 0, 10, 1 },
	    { '+', 2, 50, 60, 5 },
	    { '+', 3, 70, 80, 13 } } },
	{ "none overtakes one that waits",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 5, 20, 1 },
	    { '+', 2, 15, 30, 1 },
	    { '-', 0, 0, 0, 2 },
	    { '-', 1, 0, 0, 4 } } },
	{ "all that waited for one go on",
	  { { '+', 0, 0, 100, 1 },
	    { '+', 1, 0, 10, 1 },
	    { '+', 2, 20, 30, 1 },
	    { '+', 3, 5, 15, 1 },
	    { '-', 0, 0, 0, 6 } } },
	{ "one that waits for two waits for both",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 10, 20, 3 },
	    { '+', 2, 5, 15, 3 },
	    { '-', 1, 0, 0, 1 },
	    { '-', 0, 0, 0, 4 } } },
	{ "one that waits no more is in nobody's way",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 5, 20, 1 },
	    { '+', 2, 15, 30, 1 },
	    { '-', 1, 0, 0, 5 } } },
	{ "long ones meet in a region that neither begins in",
	  { { '+', 0, 0, FAR + 10, 1 },
	    { '+', 1, FAR, FAR + 20, 1 },
	    { '-', 0, 0, 0, 2 } } },
	{ "regions with one count do not meet",
	  { { '+', 0, 0, 10, 1 }, { '+', 1, FAR, FAR + 10, 3 } } },
	{ "bytes of one region do not meet",
	  { { '+', 0, 0, 10, 1 },
	    { '+', 1, 20, 40, 3 },
	    { '+', 2, 30, 50, 3 } } },
};

struct test_range {
	struct ini_range range;
	unsigned int taken;
};

static void taken(struct ini_range *range)
{
	container_of(range, struct test_range, range)->taken++;
}

static void take(struct ini_ranges *of, struct test_range *r,
		 const struct step *s)
{
	r->range.begin = s->begin;
	r->range.end = s->end;
	r->range.taken = taken;
	/* A range that is held at once counts as taken in the last assertion. */
	r->taken = ini_range_take(of, &r->range);
}

T_ROWS(order, rows)
{
	const struct row *row = *state;
	struct ini_ranges of;
	struct test_range r[RANGES_MAX] = { 0 };

	ini_ranges_init(&of);
	for (const struct step *s = row->steps; s->what; s++) {
		unsigned int held = 0;

		if (s->what == '-')
			ini_range_give_back(&of, &r[s->range].range);
		else
			take(&of, &r[s->range], s);
		for (unsigned int i = 0; i < RANGES_MAX; i++)
			held |= (unsigned int)r[i].range.held << i;
		assert_int_equal(held, s->held);
	}
	for (unsigned int i = 0; i < RANGES_MAX; i++)
		assert_true(r[i].taken <= 1 && r[i].taken >= r[i].range.held);
}

/* A range whose taken() gives it back at once. */
static struct ini_ranges chain;
static unsigned int passed;

static void pass_on(struct ini_range *range)
{
	passed++;
	ini_range_give_back(&chain, range);
}

T_TEST(taken_may_give_back)
{
	struct ini_range r[5] = { 0 };

	ini_ranges_init(&chain);
	passed = 0;
	for (int i = 0; i < 5; i++) {
		r[i].end = 10;
		r[i].taken = pass_on;
		assert_int_equal(ini_range_take(&chain, &r[i]), i == 0);
	}
	ini_range_give_back(&chain, &r[0]);
	assert_int_equal(passed, 4);
	assert_true(list_empty(&chain.all));
	assert_int_equal(chain.waiting, 0);
	for (unsigned int i = 0; i < INI_REGIONS; i++)
		assert_int_equal(chain.in[i], 0);
}

/* ---- writes of a session ---- */

/* The first one writes blocks 0 and 1, the second block 1. */
struct two {
	struct t_session *t;
	struct srpi_mem *mem;
	struct srpi_io first;
	struct srpi_io second;
	int first_res; /* 1: it has not ended */
	int second_res;
};

static uint8_t two_memory[2 * BLK];

static void two_begin(struct two *two, const struct t_session_options *o)
{
	struct srpi_error e;

	*two = (struct two){ .t = t_session_new(o),
			     .first_res = 1,
			     .second_res = 1 };
	assert_int_equal(srpi_mem_register(two->t->session, two_memory,
					   sizeof(two_memory), &two->mem, &e),
			 0);
	two->first = (struct srpi_io){ .op = SRPI_WRITE,
				       .len = 2 * BLK,
				       .buf = two_memory,
				       .mem = two->mem,
				       .done = t_session_store_result,
				       .arg = &two->first_res };
	two->second = two->first;
	two->second.offset = BLK;
	two->second.len = BLK;
	two->second.arg = &two->second_res;
}

static void two_end(struct two *two)
{
	while (two->second_res == 1)
		t_session_turn(two->t);
	srpi_mem_free(two->mem);
	t_session_free(two->t);
}

/* Submits the first write. The target keeps it. */
static void two_submit_first(struct two *two)
{
	two->t->holds = true;
	srpi_submit(two->t->session, &two->first);
	while (!two->t->held_cnt)
		t_session_turn(two->t);
	two->t->holds = false;
}

/* What was submitted before has been sent by now, if it is not waiting. */
static void two_pass_by(struct two *two)
{
	assert_int_equal(t_session_io(two->t, SRPI_READ, false), -EOPNOTSUPP);
}

static const struct end_row {
	const char *name;
	enum srpi_op op; /* of the second write */
	uint8_t key;	 /* of the answer to the first one; 0: good */
	int res;	 /* of the first one */
} end_rows[] = {
	{ "the first one ends well", SRPI_WRITE, 0, 0 },
	{ "the first one fails", SRPI_WRITE, SCSI_KEY_MEDIUM_ERROR, -EIO },
	{ "zeroes are a write", SRPI_WRITE_ZEROES, 0, 0 },
	{ "a discard is one, too", SRPI_DISCARD, 0, 0 },
};

/* Whether anybody waits for the first one does not matter. */
T_ROWS(write_waits_for_an_earlier_one_of_its_blocks, end_rows)
{
	const struct end_row *row = *state;
	const struct scsi_sense sense =
		scsi_sense(row->key, SCSI_ASC_WRITE_ERROR);
	struct two two;

	two_begin(&two, &(struct t_session_options){ .is_thin = true,
						     .max_write_same = 64 });
	two_submit_first(&two);
	two.second.op = row->op;
	srpi_submit(two.t->session, &two.second);
	two_pass_by(&two);
	assert_int_equal(two.t->writes, 0);
	assert_string_equal(two.t->clears, "");
	if (row->key)
		t_tgt_respond_sense(two.t->held[0], &sense, SCSI_SENSE_FIXED);
	else
		t_tgt_respond(two.t->held[0], 0);
	two_end(&two);
	assert_int_equal(two.first_res, row->res);
	assert_int_equal(two.second_res, 0);
}

/* A lost connection does not change the order: the first one is sent again, and the
 * second one is sent when that has its answer. */
T_TEST(writes_keep_their_order_when_they_are_sent_again)
{
	struct two two;

	two_begin(&two, &(struct t_session_options){ .mode = MODE_CACHE,
						     .has_store = true,
						     .generation = 1,
						     .comes_back = true });
	two.t->ignores_writes = true;
	srpi_submit(two.t->session, &two.first);
	srpi_submit(two.t->session, &two.second);
	two_pass_by(&two);
	assert_int_equal(two.t->lba_cnt, 1);
	t_session_drop(two.t, 0);
	two_end(&two);
	assert_int_equal(two.first_res, 0);
	assert_int_equal(two.second_res, 0);
}

/* An operation in a range waits for nothing. Another write waits for the range. */
T_TEST(write_waits_for_a_range_of_the_program)
{
	struct srpi_range range = { .len = 2 * BLK };
	struct two two;

	two_begin(&two, &(struct t_session_options){ .mode = MODE_CACHE });
	assert_true(srpi_range_take(two.t->session, &range));
	srpi_submit(two.t->session, &two.second);
	srpi_range_submit(two.t->session, &range, &two.first);
	while (two.first_res == 1)
		t_session_turn(two.t);
	two_pass_by(&two);
	assert_int_equal(two.second_res, 1);
	assert_int_equal(two.t->writes, 1);
	srpi_range_give_back(two.t->session, &range);
	two_end(&two);
	assert_int_equal(two.second_res, 0);
}

static void give_back(struct srpi_range *range)
{
	srpi_range_give_back(range->arg, range);
}

/* Both end, in their order, and so does the range that waits behind them. */
T_TEST(closing_ends_what_waits)
{
	struct srpi_range range = { .len = BLK, .taken = give_back };
	struct two two;

	two_begin(&two, &(struct t_session_options){ .mode = MODE_CACHE });
	two_submit_first(&two);
	srpi_submit(two.t->session, &two.second);
	range.arg = two.t->session;
	assert_false(srpi_range_take(two.t->session, &range));
	two.t->closes_from = DONE;
	t_session_close_from(two.t, DONE);
	two_end(&two);
	assert_int_equal(two.first_res, -ECANCELED);
	assert_int_equal(two.second_res, -ECANCELED);
}

/* The program still has a range when its last operation has ended. */
T_TEST(session_is_closed_when_all_ranges_are_given_back)
{
	struct srpi_range range = { .len = BLK };
	struct two two;

	two_begin(&two, &(struct t_session_options){ .mode = MODE_CACHE });
	assert_true(srpi_range_take(two.t->session, &range));
	two.t->closes_from = DONE;
	t_session_close_from(two.t, DONE);
	two.second.offset = 0;
	srpi_range_submit(two.t->session, &range, &two.second);
	while (two.second_res == 1 || t_tgt_chan_cnt(&two.t->tgt))
		t_session_turn(two.t);
	assert_false(two.t->closed);
	srpi_range_give_back(two.t->session, &range);
	two_end(&two);
}
