/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/option.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#include "base/log.h"
#include "base/option_rows.h"
#include "base/size.h"

/* More than every letter. getopt_long() returns this plus the number of the
 * row. */
#define OPTION_NO_LETTER 256
#define OPTION_ROWS_MAX	 64
#define OPTION_NAME_MAX	 32

/* An error message shows at most this much of a value. A value may have options
 * of its own, so two values and a reason must fit into a struct error. */
#define OPTION_SHOWN_MAX  200
#define OPTION_LABEL_SIZE (OPTION_SHOWN_MAX + OPTION_NAME_MAX + 16)

/* ---- storing values ---- */

static void option_store_uint(const struct option_row *row, void *options,
			      uint64_t value)
{
	char *at = (char *)options + row->offset;
	uint32_t narrow = (uint32_t)value;

	if (row->size == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &narrow, sizeof(narrow));
}

static bool option_in_range(const struct option_row *row, uint64_t v)
{
	return !row->max || (v >= row->min && v <= row->max);
}

static bool option_set_number(const struct option_row *row, void *options,
			      const char *value, struct error *e)
{
	bool octal = row->type == OPTION_OCTAL;
	char range[OPTION_TEXT_SIZE];
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(value, &end, octal ? 8 : 10);
	if (!isdigit((unsigned char)*value) || *end || errno ||
	    !option_in_range(row, v))
		return error_refuse(
			e, "not %s number%s%s%s%s", octal ? "an octal" : "a",
			row->unit ? " of " : "", row->unit ? row->unit : "",
			row->max ? " from " : "",
			option_range_text(row, range));
	option_store_uint(row, options, v);
	return true;
}

static bool option_set_size(const struct option_row *row, void *options,
			    const char *value, struct error *e)
{
	char range[OPTION_TEXT_SIZE];
	uint64_t v = 0;
	int err = size_parse(value, &v);

	if (!row->max && err)
		return error_refuse(e, "%s",
				    err == -ERANGE ? "too large"
						   : "not a size such as 32M");
	if (err || !option_in_range(row, v) || (row->step && v % row->step))
		return error_refuse(e, "not a size from %s",
				    option_range_text(row, range));
	option_store_uint(row, options, v);
	return true;
}

static bool option_set_duration(const struct option_row *row, void *options,
				const char *value, struct error *e)
{
	char range[OPTION_TEXT_SIZE];
	char *end;
	double v = strtod(value, &end) * 1000;
	int ms;

	if (row->off && !strcmp(value, "off"))
		ms = row->off;
	/* NaN fails the comparison, too. */
	else if (!isdigit((unsigned char)*value) || *end ||
		 !(v >= (double)row->min && v <= (double)row->max))
		return error_refuse(e, "not a number of seconds from %s",
				    option_range_text(row, range));
	else
		ms = (int)(v + 0.5);
	memcpy((char *)options + row->offset, &ms, sizeof(ms));
	return true;
}

static bool option_set_choice(const struct option_row *row, void *options,
			      const char *value, struct error *e)
{
	char range[OPTION_TEXT_SIZE];

	for (int i = 0; row->choices[i]; i++) {
		if (strcmp(row->choices[i], value) != 0)
			continue;
		memcpy((char *)options + row->offset, &i, sizeof(i));
		return true;
	}
	return error_refuse(e, "not %s", option_range_text(row, range));
}

static bool option_set_name(const struct option_row *row, void *options,
			    const char *value, struct error *e)
{
	if (!*value)
		return error_refuse(e, "empty");
	if (strlen(value) >= row->size)
		return error_refuse(e, "too long: %zu characters at most",
				    row->size - 1);
	strcpy((char *)options + row->offset, value);
	return true;
}

static bool option_store(const struct option_row *row, void *options,
			 const char *value, struct error *e)
{
	char *at = (char *)options + row->offset;

	if (row->set)
		return row->set(options, row, value, e);
	if (row->type == OPTION_FLAG) {
		*(bool *)at = true;
		return true;
	}
	assert(value); /* option_set() makes sure of it */
	switch (row->type) {
	case OPTION_NUMBER:
	case OPTION_OCTAL:
		return option_set_number(row, options, value, e);
	case OPTION_SIZE:
		return option_set_size(row, options, value, e);
	case OPTION_DURATION:
		return option_set_duration(row, options, value, e);
	case OPTION_CHOICE:
		return option_set_choice(row, options, value, e);
	case OPTION_NAME:
		return option_set_name(row, options, value, e);
	case OPTION_TEXT:
	case OPTION_PATH:
	case OPTION_DIR:
	case OPTION_USER:
		if (row->size != sizeof(value))
			return option_set_name(row, options, value, e);
		memcpy(at, &value, sizeof(value));
		return true;
	case OPTION_FLAG:
	case OPTION_HELP:
	case OPTION_VERSION:
		break; /* option_parse() handles the last two */
	}
	return true;
}

void option_defaults(const struct option_table *t, void *options)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];

		if (row->dflt_text || !row->size)
			continue;
		if (row->type == OPTION_NUMBER || row->type == OPTION_OCTAL ||
		    row->type == OPTION_SIZE || row->type == OPTION_DURATION)
			option_store_uint(row, options, row->dflt);
	}
}

/* Writes the option and @value as the user wrote them, for an error message.
 * @buf: OPTION_LABEL_SIZE bytes. */
static void option_label(const struct option_row *row, enum option_style style,
			 const char *value, char *buf)
{
	const size_t len = OPTION_LABEL_SIZE;
	const char *equals = value ? "=" : "";
	char text[OPTION_SHOWN_MAX + sizeof("...")] = "";
	char name[OPTION_NAME_MAX + 1];

	if (value)
		snprintf(text, sizeof(text), "%.*s%s", OPTION_SHOWN_MAX, value,
			 strlen(value) > OPTION_SHOWN_MAX ? "..." : "");

	snprintf(name, sizeof(name), "%s", row->name);
	for (char *p = name; style == OPTION_MOUNT && *p; p++)
		*p = *p == '-' ? '_' : *p;
	if (style == OPTION_LONG && !value)
		snprintf(buf, len, "--%s", name);
	else if (style == OPTION_LONG)
		snprintf(buf, len, "--%s '%s'", name, text);
	else if (style == OPTION_MOUNT)
		snprintf(buf, len, "-o %s%s%s", name, equals, text);
	else
		snprintf(buf, len, "'%s%s%s'", name, equals, text);
}

bool option_set(const struct option_row *row, enum option_style style,
		void *options, const char *value, struct error *e)
{
	char label[OPTION_LABEL_SIZE];

	if (!row->value != !value) {
		option_label(row, style, NULL, label);
		return value ? error_refuse(e, "%s takes no value", label)
			     : error_refuse(e, "%s needs a value: %s=%s", label,
					    row->name, row->value);
	}
	if (option_store(row, options, value, e))
		return true;
	if (row->whole_msg)
		return false;
	option_label(row, style, value, label);
	error_prefix(e, "%s: ", label);
	return false;
}

static bool option_log_move(void *options, const struct option_row *row, int by)
{
	enum log_level *level = (void *)((char *)options + row->offset);
	int to = (int)*level + by;

	if (to >= LOG_ERROR && to <= LOG_DEBUG)
		*level = (enum log_level)to;
	return true;
}

bool option_json(void *options, const struct option_row *row, const char *value,
		 struct error *e)
{
	bool *json = (void *)((char *)options + row->offset);

	*json = HAVE_JSON;
	return *json || error_refuse(e, "built without jansson");
}

bool option_log_more(void *options, const struct option_row *row,
		     const char *value, struct error *e)
{
	return option_log_move(options, row, 1);
}

bool option_log_less(void *options, const struct option_row *row,
		     const char *value, struct error *e)
{
	return option_log_move(options, row, -1);
}

/* ---- finding rows ---- */

static char option_fold(enum option_style style, char c)
{
	return style == OPTION_MOUNT && c == '-' ? '_' : c;
}

const struct option_row *option_find(const struct option_table *t,
				     enum option_style style, const char *name,
				     size_t name_len)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const char *own = t->rows[i].name;
		size_t n = 0;

		while (n < name_len && own[n] &&
		       option_fold(style, own[n]) ==
			       option_fold(style, name[n]))
			n++;
		if (n == name_len && !own[n])
			return &t->rows[i];
	}
	return NULL;
}

static unsigned int option_min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Letters to insert, remove or replace to get from @a to @b (Levenshtein). */
static unsigned int option_distance(const char *a, size_t a_len, const char *b)
{
	unsigned int row[OPTION_NAME_MAX + 1];
	size_t b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned int before = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned int up = row[j];

			row[j] = option_min3(up + 1, row[j - 1] + 1,
					     before + (a[i - 1] != b[j - 1]));
			before = up;
		}
	}
	return row[b_len];
}

const struct option_row *option_nearest(const struct option_table *t,
					const char *name, size_t name_len)
{
	const struct option_row *nearest = NULL;
	/* At most a third of the letters may be wrong. */
	unsigned int least = (unsigned int)name_len / 3 + 1;

	if (name_len > OPTION_NAME_MAX)
		return NULL;
	for (unsigned int i = 0; i < t->cnt; i++) {
		const char *own = t->rows[i].name;
		unsigned int d = strlen(own) > OPTION_NAME_MAX
					 ? UINT_MAX
					 : option_distance(name, name_len, own);

		if (d < least) {
			least = d;
			nearest = &t->rows[i];
		}
	}
	return nearest;
}

/* ---- the command line ---- */

/* The options of the table in the two forms that getopt_long() needs. */
struct option_getopt {
	char letters[2 * OPTION_ROWS_MAX + 2];
	struct option longs[OPTION_ROWS_MAX + 1];
};

static void option_getopt_fill(struct option_getopt *g,
			       const struct option_table *t)
{
	char *p = g->letters;

	memset(g, 0, sizeof(*g));
	*p++ = ':'; /* getopt returns ':' for a missing value */
	for (unsigned int i = 0; i < t->cnt && i < OPTION_ROWS_MAX; i++) {
		const struct option_row *row = &t->rows[i];

		g->longs[i] = (struct option){
			.name = row->name,
			.has_arg = row->value ? required_argument : no_argument,
			.val = OPTION_NO_LETTER + (int)i,
		};
		if (!row->letter)
			continue;
		*p++ = row->letter;
		if (row->value)
			*p++ = ':';
	}
}

static const struct option_row *option_row_of(const struct option_table *t,
					      int c)
{
	if (c >= OPTION_NO_LETTER)
		return &t->rows[c - OPTION_NO_LETTER];
	for (unsigned int i = 0; i < t->cnt; i++)
		if (t->rows[i].letter == c)
			return &t->rows[i];
	return NULL;
}

/* @arg: an unknown name, or the beginning of several. */
static void option_log_unknown(const struct option_table *t, const char *arg)
{
	const char *name = arg + strspn(arg, "-");
	size_t len = strcspn(name, "=");
	const struct option_row *nearest = option_nearest(t, name, len);
	char names[OPTION_TEXT_SIZE] = "";
	size_t used = 0;

	for (unsigned int i = 0; len && i < t->cnt; i++)
		if (!strncmp(t->rows[i].name, name, len) &&
		    used + OPTION_NAME_MAX + 4 < sizeof(names))
			used += (size_t)sprintf(names + used, "%s--%s",
						used ? ", " : "",
						t->rows[i].name);
	if (used)
		log_error("'%s' may be %s; write the whole name", arg, names);
	else if (nearest)
		log_error("unknown option '%s'; did you mean --%s? Try --help",
			  arg, nearest->name);
	else
		log_error("unknown option '%s'; try --help", arg);
}

/* @c is '?' or ':', by which getopt_long() reports an error. */
static void option_log_bad(const struct option_table *t, int c,
			   char *const argv[])
{
	const char *arg = argv[optind - 1];

	if (c == ':')
		log_error("a value is missing after '%s'; try --help", arg);
	else if (optopt && !strncmp(arg, "--", 2) && strchr(arg, '='))
		log_error("no value is possible in '%s'; try --help", arg);
	/* More letters may follow it, and @arg may be another argument then. */
	else if (optopt && optopt <= UCHAR_MAX)
		log_error("unknown option '-%c'; try --help", optopt);
	else
		option_log_unknown(t, arg);
}

static enum option_verdict option_take(const struct option_table *t,
				       const struct option_row *row,
				       void *options)
{
	struct error e;

	switch (row->type) {
	case OPTION_HELP:
		option_help(t, stdout);
		return OPTION_DONE;
	case OPTION_VERSION:
		printf("%s %s\n", t->program, t->version);
		return OPTION_DONE;
	default:
		break;
	}
	if (option_set(row, OPTION_LONG, options, row->value ? optarg : NULL,
		       &e))
		return OPTION_RUN;
	log_error("%s", e.text);
	return OPTION_BAD;
}

enum option_verdict option_parse(const struct option_table *t, int argc,
				 char **argv, void *options, int *ret_first)
{
	struct option_getopt g;
	int c;

	option_getopt_fill(&g, t);
	opterr = 0;
	optind = 0; /* start again, also for a second call in a process */
	while ((c = getopt_long(argc, argv, g.letters, g.longs, NULL)) != -1) {
		const struct option_row *row =
			c == '?' || c == ':' ? NULL : option_row_of(t, c);
		enum option_verdict verdict;

		if (!row) {
			option_log_bad(t, c, argv);
			return OPTION_BAD;
		}
		verdict = option_take(t, row, options);
		if (verdict != OPTION_RUN)
			return verdict;
	}
	*ret_first = optind;
	return OPTION_RUN;
}
