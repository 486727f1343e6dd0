/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of metrics, and the text that Prometheus reads. */
#include "base/exposition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "tests/lib/t_table.h"

enum {
	OF_THING,
	OF_TIMES
};

struct thing {
	uint64_t runs;
	uint64_t bytes;
	uint64_t since_ns;
};

static const struct metric rows[] = {
	{ "runs", METRIC_COUNTER, "runs", "thing,kind", "Runs of it.",
	  "runs of it", OF_THING, offsetof(struct thing, runs) },
	{ "memory", METRIC_GAUGE, "bytes", "", "Its memory.", NULL, OF_THING,
	  offsetof(struct thing, bytes) },
	{ "since", METRIC_GAUGE, "seconds", "", "Its begin.", "seconds",
	  OF_THING, offsetof(struct thing, since_ns) },
	{ "took", METRIC_HISTOGRAM, "seconds", "thing", "Its time.", NULL,
	  OF_TIMES, 0 },
};

static const struct metric_table table = { "test_it", rows, ARRAY_SIZE(rows) };

static const struct thing thing = { 7, 4096, 1500000001 };

static void give(struct exposition *x, unsigned int row, const char *first,
		 const char *second, const void *source)
{
	const char *const labels[METRIC_LABELS_MAX] = { first, second };

	metric_give(&x->sink, &rows[row], labels, source);
}

static void assert_text(struct exposition *x, const char *want)
{
	size_t len;
	char *text = exposition_end(x, &len);

	assert_string_equal(text, want);
	assert_int_equal(len, strlen(want));
	free(text);
}

T_TEST(head_stands_before_the_first_sample)
{
	struct exposition x;

	exposition_init(&x, &table);
	give(&x, 0, "a", "x", &thing);
	give(&x, 0, "b", "y", &thing);
	give(&x, 1, NULL, NULL, &thing);
	assert_text(&x, "# HELP test_it_runs_total Runs of it.\n"
			"# TYPE test_it_runs_total counter\n"
			"test_it_runs_total{thing=\"a\",kind=\"x\"} 7\n"
			"test_it_runs_total{thing=\"b\",kind=\"y\"} 7\n"
			"# HELP test_it_memory_bytes Its memory.\n"
			"# TYPE test_it_memory_bytes gauge\n"
			"test_it_memory_bytes 4096\n");
}

T_TEST(seconds_are_told_to_the_nanosecond)
{
	struct exposition x;

	exposition_init(&x, &table);
	give(&x, 2, NULL, NULL, &thing);
	assert_text(&x, "# HELP test_it_since_seconds Its begin.\n"
			"# TYPE test_it_since_seconds gauge\n"
			"test_it_since_seconds 1.500000001\n");
}

T_TEST(an_empty_exposition_is_a_text)
{
	struct exposition x;

	exposition_init(&x, &table);
	assert_text(&x, "");
}

static const struct {
	const char *value;
	const char *escaped;
} labels[] = {
	{ "plain", "plain" },
	{ "a\"b\\c\nd", "a\\\"b\\\\c\\nd" },
	{ "", "" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
	  "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
	/* not UTF-8: alone, cut, too long, a surrogate, too large */
	{ "\xff|", "_|" },
	{ "\xe2\x82", "__" },
	{ "\xc0\x80\xe0\x80\x80", "_____" },
	{ "\xed\xa0\x80", "___" },
	{ "\xf4\x90\x80\x80", "____" },
};

T_TEST(labels_are_escaped)
{
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		assert_string_equal(exposition_escape(labels[i].value, buf),
				    labels[i].escaped);
}

T_TEST(escaped_labels_stand_in_the_text)
{
	struct exposition x;

	exposition_init(&x, &table);
	give(&x, 0, "a\"", "\n", &thing);
	assert_text(&x, "# HELP test_it_runs_total Runs of it.\n"
			"# TYPE test_it_runs_total counter\n"
			"test_it_runs_total{thing=\"a\\\"\",kind=\"\\n\"} 7\n");
}

/* Returns the number that follows @line in @text. */
static unsigned long long value_of(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	assert_non_null(at);
	return strtoull(at + strlen(line), NULL, 10);
}

T_TEST(buckets_grow_up_to_the_count)
{
	struct histogram h = { 0 };
	struct exposition x;
	size_t len;
	char *text;

	histogram_add(&h, 500);
	histogram_add(&h, 1500);
	histogram_add(&h, 1ull << 40);
	exposition_init(&x, &table);
	give(&x, 3, "a", NULL, &h);
	text = exposition_end(&x, &len);
	assert_int_equal(
		value_of(text, "_bucket{thing=\"a\",le=\"0.000001024\"} "), 1);
	assert_int_equal(
		value_of(text, "_bucket{thing=\"a\",le=\"0.000002048\"} "), 2);
	assert_int_equal(
		value_of(text, "_bucket{thing=\"a\",le=\"68.719476736\"} "), 2);
	assert_int_equal(value_of(text, "_bucket{thing=\"a\",le=\"+Inf\"} "),
			 3);
	assert_int_equal(value_of(text, "_count{thing=\"a\"} "), 3);
	assert_non_null(strstr(text, "_sum{thing=\"a\"} 1099.511629776\n"));
	free(text);
}

T_TEST(long_expositions_are_whole)
{
	struct exposition x;
	char name[300];
	size_t len;
	char *text;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	exposition_init(&x, &table);
	for (int i = 0; i < 1000; i++)
		give(&x, 0, name, name, &thing);
	text = exposition_end(&x, &len);
	assert_int_equal(strlen(text), len);
	assert_true(len > 600000);
	assert_string_equal(text + len - 6, "n\"} 7\n");
	free(text);
}

T_TEST(text_for_people_has_the_rows_with_one)
{
	char text[64] = "it: ";

	metric_append_text(&table, text, sizeof(text), OF_THING, &thing);
	assert_string_equal(text, "it: 7 runs of it, 1500000001 seconds");
}

T_TEST(text_for_people_is_cut_to_the_buffer)
{
	char text[12 + 1] = "";

	text[12] = 'x';
	metric_append_text(&table, text, 12, OF_THING, &thing);
	assert_string_equal(text, "7 runs of i");
	assert_int_equal(text[12], 'x');
}

T_TEST(a_file_is_replaced_as_a_whole)
{
	char dir[] = "/tmp/test_exposition.XXXXXX";
	char path[64];
	char path_new[70];
	struct stat st;
	struct error e;
	char read[16] = "";
	FILE *f;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/it.prom", dir);
	snprintf(path_new, sizeof(path_new), "%s.new", path);
	assert_int_equal(exposition_save(path, "before\n", 7, &e), 0);
	assert_int_equal(exposition_save(path, "now\n", 4, &e), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(read, 1, sizeof(read) - 1, f), 4);
	fclose(f);
	assert_string_equal(read, "now\n");
	assert_int_equal(stat(path_new, &st), -1);

	/* Another user can put a link to a file where the new text is
	 * written. */
	assert_int_equal(link(path, path_new), 0);
	assert_int_equal(exposition_save(path, "by link\n", 8, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_nlink, 1);

	/* A directory in the place of the file stays, and the message names
	 * it. */
	assert_int_equal(mkdir(path_new, 0700), 0);
	assert_int_equal(exposition_save(path, "later\n", 6, &e), -EISDIR);
	assert_non_null(strstr(e.text, "it.prom"));
	assert_int_equal(rmdir(path_new), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(exposition_save(path, "later\n", 6, &e), -ENOENT);
}
