/* SPDX-License-Identifier: BSD-2-Clause */
/* What hosts that ask without end leave to the others. */
#include <string.h>

#include "target/responder_budget.h"
#include "tests/lib/t_table.h"

static struct responder_budget b;

static bool ask(unsigned int host)
{
	uint8_t id[DGRAM_HOST_LEN] = { 0xfe, 0x80 };

	memcpy(&id[DGRAM_HOST_LEN - sizeof(host)], &host, sizeof(host));
	return responder_budget_answer(&b, id);
}

static const struct flood_row {
	const char *name;
	unsigned int hosts; /* that ask without end, in turn */
	unsigned int most;  /* answers for each of them */
} flood_rows[] = {
	{ "one host", 1, 20 },
	{ "two hosts", 2, 17 },
	{ "ten hosts", 10, 10 },
	{ "a hundred hosts", 100, 2 },
	{ "a hundred and eighty hosts", 180, 2 },
};

T_ROWS(flood_leaves_answers, flood_rows)
{
	const struct flood_row *row = *state;
	unsigned int answers[200] = { 0 };

	memset(&b, 0, sizeof(b));
	for (unsigned int turn = 0; turn < 1000; turn++) {
		for (unsigned int i = 0; i < row->hosts; i++)
			answers[i] += ask(i);
	}
	for (unsigned int i = 0; i < row->hosts; i++)
		assert_in_range(answers[i], 1, row->most);
	/* A client asks three times. */
	assert_true(ask(1000));
	if (row->hosts < 50) {
		assert_true(ask(1000));
		assert_true(ask(1000));
	}
}

T_TEST(answers_have_an_end)
{
	unsigned int answers = 0;

	memset(&b, 0, sizeof(b));
	for (unsigned int i = 0; i < 10000; i++)
		answers += ask(i);
	assert_int_equal(answers, RESPONDER_RATE);
	assert_int_equal(b.host_cnt, RESPONDER_RATE);
	assert_false(ask(0));
}

T_TEST(endpoints_share_the_reads)
{
	struct responder_budget flooded = { .reads = RESPONDER_READS / 4 };
	struct responder_budget other = { .reads = RESPONDER_READS / 4 - 1 };

	assert_true(responder_budget_is_spent(&flooded, 4));
	assert_false(responder_budget_is_spent(&other, 4));
	assert_false(responder_budget_is_spent(&flooded, 3));
}
