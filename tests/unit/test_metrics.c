/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of metrics of rdma-target. */
#include "target/port/metrics.h"

#include <ctype.h>
#include <string.h>

#include "tests/lib/t_table.h"
#include "transport/xport.h"

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

/* The size of each struct whose members are all metrics. */
static const size_t source_words[METRIC_SOURCES] = {
	[METRIC_OF_TARGET] = WORDS(struct metrics_target),
	[METRIC_OF_PORT] = WORDS(struct port_counters),
	[METRIC_OF_WORKER] = WORDS(struct metrics_worker),
	[METRIC_OF_REACTOR] = WORDS(struct reactor_stats),
	[METRIC_OF_TRANSPORT] = WORDS(struct xp_stats),
	[METRIC_OF_VOLUME] = WORDS(struct metrics_volume),
	[METRIC_OF_VOLUME_OP] = WORDS(struct metrics_op),
	[METRIC_OF_INITIATOR_OP] = WORDS(struct metrics_op),
};

/* A counter without a row would be missing from every report. */
T_TEST(every_counter_has_one_row)
{
	for (int source = 0; source < METRIC_SOURCES; source++) {
		unsigned int seen[32] = { 0 };

		for (size_t i = 0; i < metrics_table.cnt; i++) {
			const struct metric *m = &metrics_table.rows[i];

			if (m->source != source || !source_words[source])
				continue;
			assert_int_equal(m->offset % sizeof(uint64_t), 0);
			seen[m->offset / sizeof(uint64_t)]++;
		}
		for (size_t i = 0; i < source_words[source]; i++)
			assert_int_equal(seen[i], 1);
	}
}

T_TEST(names_are_unique_and_fit_prometheus)
{
	for (size_t i = 0; i < metrics_table.cnt; i++) {
		const struct metric *m = &metrics_table.rows[i];

		assert_true(strlen(m->name) > 0);
		for (const char *c = m->name; *c; c++)
			assert_true(islower((unsigned char)*c) || *c == '_');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(m->name,
						metrics_table.rows[j].name);
	}
}

T_TEST(every_row_has_a_unit_labels_and_a_sentence)
{
	for (size_t i = 0; i < metrics_table.cnt; i++) {
		const struct metric *m = &metrics_table.rows[i];
		size_t len = strlen(m->help);
		const char *label;

		assert_non_null(m->labels);
		assert_int_equal(metric_label(m, METRIC_LABELS_MAX, &label), 0);
		assert_true(strlen(m->unit) > 0);
		assert_true(len > 1 && (isupper((unsigned char)m->help[0]) ||
					m->help[0] == '1'));
		assert_int_equal(m->help[len - 1], '.');
	}
}

/* scripts/bench reads these words. */
T_TEST(the_log_has_the_counters_of_workers)
{
	static const struct port_counters counted = {
		.commands = 7,
		.copied = 4096,
		.waits = 18446744073709551615u,
		.slow = 1,
	};
	char text[256] = "worker 1: ";

	metric_append_text(&metrics_table, text, sizeof(text), METRIC_OF_PORT,
			   &counted);
	assert_string_equal(text, "worker 1: 7 commands, 4096 bytes copied, "
				  "18446744073709551615 waits for a buffer, "
				  "1 slow commands");
}
