/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of metrics: what it names, and the text made from it. */
#include "target/port/metrics.h"

#include <ctype.h>
#include <string.h>

#include "tests/lib/t_table.h"
#include "transport/xport.h"

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

static const size_t source_words[METRIC_SOURCES] = {
	[METRIC_OF_PORT] = WORDS(struct port_counters),
	[METRIC_OF_REACTOR] = WORDS(struct reactor_stats),
	[METRIC_OF_TRANSPORT] = WORDS(struct xp_stats),
};

/* A counter without a row would be in no report. */
static void every_counter_has_one_row(void **state)
{
	for (int source = 0; source < METRIC_SOURCES; source++) {
		unsigned int seen[32] = { 0 };

		for (size_t i = 0; i < metrics_cnt; i++) {
			const struct metric *m = &metrics_table[i];

			if ((int)m->source != source)
				continue;
			assert_int_equal(m->offset % sizeof(uint64_t), 0);
			seen[m->offset / sizeof(uint64_t)]++;
		}
		for (size_t i = 0; i < source_words[source]; i++)
			assert_int_equal(seen[i], 1);
	}
}

static void names_are_unique_and_fit_prometheus(void **state)
{
	for (size_t i = 0; i < metrics_cnt; i++) {
		const struct metric *m = &metrics_table[i];

		assert_true(strlen(m->name) > 0);
		for (const char *c = m->name; *c; c++)
			assert_true(islower((unsigned char)*c) || *c == '_');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(m->name, metrics_table[j].name);
	}
}

static void every_row_has_a_unit_and_a_sentence(void **state)
{
	for (size_t i = 0; i < metrics_cnt; i++) {
		const struct metric *m = &metrics_table[i];
		size_t len = strlen(m->help);

		assert_true(strlen(m->unit) > 0 && strlen(m->text) > 0);
		assert_true(len > 1 && isupper((unsigned char)m->help[0]));
		assert_int_equal(m->help[len - 1], '.');
	}
}

static const struct port_counters counted = {
	.commands = 7,
	.copied = 4096,
	.waits = 18446744073709551615u,
};

static void text_has_each_value_of_the_source(void **state)
{
	char text[256] = "worker 1: ";

	metrics_append(text, sizeof(text), METRIC_OF_PORT, &counted);
	assert_string_equal(text, "worker 1: 7 commands, 4096 bytes copied, "
				  "18446744073709551615 waits for a buffer");
}

static void text_is_cut_to_the_buffer(void **state)
{
	char text[24 + 1] = "";

	text[24] = 'x';
	metrics_append(text, 24, METRIC_OF_PORT, &counted);
	assert_string_equal(text, "7 commands, 4096 bytes ");
	assert_int_equal(text[24], 'x');
}

int main(void)
{
	static struct t_table t;

	T_ADD(&t, every_counter_has_one_row);
	T_ADD(&t, names_are_unique_and_fit_prometheus);
	T_ADD(&t, every_row_has_a_unit_and_a_sentence);
	T_ADD(&t, text_has_each_value_of_the_source);
	T_ADD(&t, text_is_cut_to_the_buffer);
	return t_run(&t);
}
