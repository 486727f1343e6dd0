/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/option.h"
#include "tests/lib/t_table.h"

struct sample {
	bool flag;
	unsigned int number;
	uint64_t size;
	int duration;
	int choice;
	char name[8];
	const char *path;
	unsigned int list_cnt;
};

static bool add_to_list(void *options, const struct option_row *row,
			const char *value, struct error *e)
{
	struct sample *s = options;

	if (!strcmp(value, "bad"))
		return error_refuse(e, "bad is bad");
	s->list_cnt++;
	return true;
}

static const char *const switch_words[] = { "off", "on", NULL };

static const struct option_row rows[] = {
	{ .name = "flag",
	  .letter = 'f',
	  .type = OPTION_FLAG,
	  .help = "Set the *flag*.",
	  OPTION_AT(sample, flag) },
	{ .name = "poll-us",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .unit = "microseconds",
	  .max = 1000,
	  .dflt = 200,
	  .help = "Poll this long.",
	  OPTION_AT(sample, number) },
	{ .name = "max-write",
	  .type = OPTION_SIZE,
	  .value = "SIZE",
	  .min = 128 << 10,
	  .max = 1 << 20,
	  .step = 4096,
	  .dflt = 1 << 20,
	  .help = "Write this much.",
	  OPTION_AT(sample, size) },
	{ .name = "wait",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .off = -1,
	  .dflt = 1500,
	  .help = "Wait as long as _S_ says.",
	  OPTION_AT(sample, duration) },
	{ .name = "direct",
	  .type = OPTION_CHOICE,
	  .value = "on|off",
	  .choices = switch_words,
	  .help = "Use O_DIRECT.",
	  OPTION_AT(sample, choice) },
	{ .name = "name",
	  .type = OPTION_NAME,
	  .value = "NAME",
	  .help = "Name it.",
	  OPTION_AT(sample, name) },
	{ .name = "pidfile",
	  .letter = 'P',
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Write there.",
	  OPTION_AT(sample, path) },
	{ .name = "list",
	  .type = OPTION_TEXT,
	  .value = "ITEM",
	  .help = "List it.",
	  .set = add_to_list,
	  .again = true },
	{ .name = "help", .letter = 'h', .type = OPTION_HELP, .help = "Help." },
};

static const struct option_table table = { .style = OPTION_LONG,
					   .rows = rows,
					   .cnt = ARRAY_SIZE(rows),
					   .program = "sample",
					   .version = "1" };

#define X10  "xxxxxxxxxx"
#define X50  X10 X10 X10 X10 X10
#define X200 X50 X50 X50 X50
#define X250 X200 X50

#define WORDS_MAX 8

static enum option_verdict parse(const char *const *words, struct sample *s,
				 int *ret_first)
{
	static char *argv[WORDS_MAX + 2];
	int argc = 1;

	argv[0] = (char *)(uintptr_t) "sample";
	for (; *words; words++)
		argv[argc++] = (char *)(uintptr_t)*words;
	argv[argc] = NULL;
	*s = (struct sample){ 0 };
	option_defaults(&table, s);
	return option_parse(&table, argc, argv, s, ret_first);
}

T_TEST(defaults_are_stored)
{
	struct sample s;
	int first;

	assert_int_equal(parse((const char *[]){ NULL }, &s, &first),
			 OPTION_RUN);
	assert_int_equal(first, 1);
	assert_int_equal(s.number, 200);
	assert_int_equal(s.size, 1 << 20);
	assert_int_equal(s.duration, 1500);
	assert_false(s.flag);
}

T_TEST(each_type_is_stored)
{
	struct sample s;
	int first;

	assert_int_equal(
		parse((const char *[]){ "-fPa", "arg", "--poll=0",
					"--direct=on", "--name", "seven77",
					"--wait=off", NULL },
		      &s, &first),
		OPTION_RUN);
	assert_int_equal(first, 7); /* arg is the last operand */
	assert_true(s.flag);
	assert_string_equal(s.path, "a");
	assert_int_equal(s.number, 0);
	assert_int_equal(s.choice, 1);
	assert_string_equal(s.name, "seven77");
	assert_int_equal(s.duration, -1);
}

T_TEST(lists_take_each_value)
{
	struct sample s;
	int first;

	assert_int_equal(parse((const char *[]){ "--list=a", "--list=b", NULL },
			       &s, &first),
			 OPTION_RUN);
	assert_int_equal(s.list_cnt, 2);
}

static const struct set_row {
	const char *name;
	enum option_style style;
	const char *option;
	const char *value;
	const char *msg; /* NULL: it is accepted */
} set_rows[] = {
	{ "the largest number", OPTION_LONG, "poll-us", "1000", NULL },
	{ "a number too large", OPTION_LONG, "poll-us", "1001",
	  "--poll-us '1001': not a number of microseconds from 0 to 1000" },
	{ "no number", OPTION_LONG, "poll-us", "abc",
	  "--poll-us 'abc': not a number of microseconds from 0 to 1000" },
	{ "a negative number", OPTION_LONG, "poll-us", "-1",
	  "--poll-us '-1': not a number of microseconds from 0 to 1000" },
	{ "a number and more", OPTION_LONG, "poll-us", "1 ",
	  "--poll-us '1 ': not a number of microseconds from 0 to 1000" },
	{ "a number beyond all", OPTION_LONG, "poll-us", "99999999999999999999",
	  "--poll-us '99999999999999999999': not a number of microseconds "
	  "from 0 to 1000" },
	{ "the smallest size", OPTION_MOUNT, "max_write", "128k", NULL },
	{ "a size too small", OPTION_MOUNT, "max_write", "124k",
	  "-o max_write=124k: not a size from 128k to 1M, a multiple of 4k" },
	{ "a size between the steps", OPTION_MOUNT, "max_write", "131073",
	  "-o max_write=131073: not a size from 128k to 1M, a multiple of "
	  "4k" },
	{ "a fraction of a second", OPTION_SPEC, "wait", "0.001", NULL },
	{ "no seconds", OPTION_SPEC, "wait", "0",
	  "'wait=0': not a number of seconds from 0.001 to 86400, or off" },
	{ "seconds that are no number", OPTION_SPEC, "wait", "nan",
	  "'wait=nan': not a number of seconds from 0.001 to 86400, or off" },
	{ "another word", OPTION_SPEC, "direct", "yes",
	  "'direct=yes': not off or on" },
	{ "a name too long", OPTION_SPEC, "name", "eight888",
	  "'name=eight888': too long: 7 characters at most" },
	{ "an empty name", OPTION_SPEC, "name", "", "'name=': empty" },
	{ "no value", OPTION_SPEC, "name", NULL,
	  "'name' needs a value: name=NAME" },
	{ "a value for a flag", OPTION_SPEC, "flag", "1",
	  "'flag' takes no value" },
	{ "a value that is too long to be shown", OPTION_SPEC, "poll-us", X250,
	  "'poll-us=" X200 "...': not a number of microseconds from 0 to "
	  "1000" },
	{ "a setter's own reason", OPTION_LONG, "list", "bad",
	  "--list 'bad': bad is bad" },
};

T_ROWS(set, set_rows)
{
	const struct set_row *r = *state;
	const struct option_row *row =
		option_find(&table, r->style, r->option, strlen(r->option));
	struct sample s = { 0 };
	struct error e = { 0 };

	assert_non_null(row);
	assert_int_equal(option_set(row, r->style, &s, r->value, &e), !r->msg);
	assert_string_equal(e.text, r->msg ? r->msg : "");
}

static const struct nearest_row {
	const char *name; /* what is written */
	const char *nearest;
} nearest_rows[] = {
	{ "poll_us", "poll-us" },
	{ "poll", NULL },
	{ "max-writes", "max-write" },
	{ "pidfil", "pidfile" },
	{ "direkt", "direct" },
	{ "colour", NULL },
	{ "", NULL },
	{ "a-name-that-is-longer-than-any-option-can-be", NULL },
};

T_ROWS(nearest, nearest_rows)
{
	const struct nearest_row *r = *state;
	const struct option_row *row =
		option_nearest(&table, r->name, strlen(r->name));

	if (r->nearest)
		assert_string_equal(row ? row->name : "none", r->nearest);
	else
		assert_null(row);
}

T_TEST(names_are_found_exactly)
{
	assert_non_null(option_find(&table, OPTION_MOUNT, "max_write", 9));
	assert_null(option_find(&table, OPTION_SPEC, "max_write", 9));
	assert_null(option_find(&table, OPTION_SPEC, "max-writ", 8));
	assert_null(option_find(&table, OPTION_SPEC, "max-write2", 10));
	assert_non_null(option_find(&table, OPTION_SPEC, "max-write2", 9));
}

static const struct text_row {
	const char *name; /* of the option */
	const char *summary;
} text_rows[] = {
	{ "flag", "Set the *flag*." },
	{ "poll-us", "Poll this long. 0 to 1000 microseconds. Default: 200." },
	{ "max-write",
	  "Write this much. 128k to 1M, a multiple of 4k. Default: 1M." },
	{ "wait", "Wait as long as _S_ says. 0.001 to 86400 seconds, or *off*. "
		  "Default: 1.5." },
	{ "direct", "Use O_DIRECT." },
	{ "pidfile", "Write there." },
};

T_ROWS(summary, text_rows)
{
	const struct text_row *r = *state;
	char buf[256];

	assert_string_equal(
		option_summary_text(option_find(&table, OPTION_LONG, r->name,
						strlen(r->name)),
				    buf, sizeof(buf)),
		r->summary);
}

T_TEST(help_has_each_option_without_marks)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	option_help(&table, f);
	fclose(f);
	assert_non_null(
		strstr(text, "  -f, --flag              Set the flag.\n"));
	assert_non_null(
		strstr(text, "      --wait S            Wait as long as S "
			     "says. 0.001 to 86400 seconds, or\n"
			     "                          off. Default: 1.5.\n"));
	assert_non_null(strstr(text, "Use O_DIRECT."));
	free(text);
}
