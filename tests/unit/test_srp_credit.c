/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/srp_credit.h"
#include "tests/lib/t_table.h"

static const struct may_row {
	const char *name;
	int32_t limit;
	bool cmd;
} may_rows[] = {
	{ "many credits", 128, true },
	{ "two credits: a command may take one", 2, true },
	{ "the last credit is for task management", 1, false },
	{ "no credit", 0, false },
	{ "less than none", -3, false },
};

T_ROWS(may, may_rows)
{
	const struct may_row *r = *state;
	struct srp_credit c;

	srp_credit_init(&c, r->limit);
	assert_int_equal(srp_credit_may_cmd(&c), r->cmd);
}

static const struct add_row {
	const char *name;
	int32_t limit;
	int32_t delta;
	int32_t sum;
} add_rows[] = {
	{ "a response returns its credit", 62, 1, 63 },
	{ "an abort's response returns two", 10, 2, 12 },
	{ "zero changes nothing", 10, 0, 10 },
	{ "a negative delta lowers the limit", 10, -4, 6 },
	{ "a negative delta may go below zero", 2, -5, -3 },
	{ "the sum saturates at the top", INT32_MAX - 1, 5, INT32_MAX },
	{ "the sum saturates at the bottom", INT32_MIN + 1, INT32_MIN,
	  INT32_MIN },
};

T_ROWS(add, add_rows)
{
	const struct add_row *r = *state;
	struct srp_credit c;

	srp_credit_init(&c, r->limit);
	srp_credit_add(&c, r->delta);
	assert_int_equal(c.limit, r->sum);
}

T_TEST(commands_leave_one_credit_for_task_management)
{
	struct srp_credit c;
	int sent = 0;

	srp_credit_init(&c, 64);
	while (srp_credit_may_cmd(&c)) {
		srp_credit_spend(&c);
		sent++;
	}
	assert_int_equal(sent, 63);
	assert_int_equal(c.limit, 1);
}

T_TEST(target_admits_as_many_requests_as_it_granted)
{
	struct srp_ledger l;

	srp_ledger_init(&l, 3);
	assert_true(srp_ledger_take(&l));
	assert_true(srp_ledger_take(&l));
	assert_true(srp_ledger_take(&l));
	assert_false(srp_ledger_take(&l));
	assert_int_equal(srp_ledger_answer(&l), 1);
	assert_true(srp_ledger_take(&l));
	assert_false(srp_ledger_take(&l));
}

T_TEST(initiator_is_short_when_it_may_send_no_command)
{
	struct srp_ledger l;

	srp_ledger_init(&l, 3);
	assert_true(srp_ledger_take(&l));
	assert_false(srp_ledger_is_short(&l));
	assert_true(srp_ledger_take(&l));
	assert_true(srp_ledger_is_short(&l));
	srp_ledger_abandon(&l);
	assert_true(srp_ledger_is_short(&l));
	assert_int_equal(srp_ledger_settle(&l), 1);
	assert_false(srp_ledger_is_short(&l));
}

T_TEST(a_refused_request_changes_nothing)
{
	struct srp_ledger l;

	srp_ledger_init(&l, 1);
	assert_true(srp_ledger_take(&l));
	for (int i = 0; i < 10; i++)
		assert_false(srp_ledger_take(&l));
	assert_int_equal(srp_ledger_answer(&l), 1);
	assert_true(srp_ledger_take(&l));
}

T_TEST(the_answer_to_an_abort_returns_both_credits)
{
	struct srp_ledger l;

	srp_ledger_init(&l, 64);
	assert_true(srp_ledger_take(&l)); /* the command */
	assert_true(srp_ledger_take(&l)); /* ABORT TASK */
	srp_ledger_abandon(&l);
	assert_int_equal(srp_ledger_answer(&l), 2);
	assert_int_equal(l.busy, 0);
	assert_int_equal(srp_ledger_settle(&l), 0);
}

T_TEST(an_owed_credit_is_not_with_the_initiator_yet)
{
	struct srp_ledger l;

	srp_ledger_init(&l, 2);
	assert_true(srp_ledger_take(&l));
	assert_true(srp_ledger_take(&l));
	srp_ledger_abandon(&l);
	assert_false(srp_ledger_take(&l));
	assert_int_equal(srp_ledger_settle(&l), 1);
	assert_true(srp_ledger_take(&l));
}

T_TEST(nothing_is_lost_between_the_two_sides)
{
	struct srp_credit c;
	struct srp_ledger l;
	unsigned int rnd = 1;

	srp_credit_init(&c, 32);
	srp_ledger_init(&l, 32);
	for (int i = 0; i < 10000; i++) {
		rnd = rnd * 1103515245 + 12345;
		switch (rnd >> 16 & 3) {
		case 0:
		case 1:
			if (c.limit <= 0)
				break;
			srp_credit_spend(&c);
			assert_true(srp_ledger_take(&l));
			break;
		case 2:
			if (l.busy)
				srp_credit_add(&c, srp_ledger_answer(&l));
			break;
		case 3:
			if (l.busy)
				srp_ledger_abandon(&l);
			break;
		}
		assert_int_equal(c.limit + l.busy + l.owed, 32);
	}
}
