/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts about options. */
#include "base/option.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Columns of --help. */
#define OPTION_HELP_INDENT 26
#define OPTION_HELP_WIDTH  80

/* "128k": the form in which size_parse() takes it. */
static void option_print_size(uint64_t v, char *buf, size_t len)
{
	static const char units[] = " kMGTPE";
	unsigned int power = 0;

	while (v && v % 1024 == 0 && units[power + 1]) {
		v /= 1024;
		power++;
	}
	snprintf(buf, len, "%" PRIu64 "%.*s", v, power ? 1 : 0, &units[power]);
}

static void option_print_value(const struct option_row *row, uint64_t v,
			       char *buf, size_t len)
{
	switch (row->type) {
	case OPTION_OCTAL:
		snprintf(buf, len, "%" PRIo64, v);
		break;
	case OPTION_SIZE:
		option_print_size(v, buf, len);
		break;
	case OPTION_DURATION:
		snprintf(buf, len, "%g", (double)v / 1000);
		/* %g prints 86400 s as "86400", but a million as "1e+06" */
		if (v % 1000 == 0)
			snprintf(buf, len, "%" PRIu64, v / 1000);
		break;
	default:
		snprintf(buf, len, "%" PRIu64, v);
	}
}

bool option_get(const struct option_row *row, const void *options, char *buf)
{
	const char *at = (const char *)options + row->offset;
	uint64_t value = 0;
	uint32_t narrow;

	if (!row->size ||
	    (row->type != OPTION_NUMBER && row->type != OPTION_OCTAL &&
	     row->type != OPTION_SIZE))
		return false;
	if (row->size == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
	} else {
		memcpy(&narrow, at, sizeof(narrow));
		value = narrow;
	}
	option_print_value(row, value, buf, OPTION_TEXT_SIZE);
	return true;
}

/* "on or off", "a, b or c" */
static void option_print_choices(const struct option_row *row, char *buf,
				 size_t len)
{
	size_t used = 0;

	for (int i = 0; row->choices[i] && used < len; i++) {
		const char *before = i == 0		   ? ""
				     : row->choices[i + 1] ? ", "
							   : " or ";

		used += (size_t)snprintf(buf + used, len - used, "%s%s", before,
					 row->choices[i]);
	}
}

char *option_range_text(const struct option_row *row, char *buf)
{
	char min[32];
	char max[32];
	char step[32];

	*buf = '\0';
	if (row->choices)
		option_print_choices(row, buf, OPTION_TEXT_SIZE);
	if (row->choices || !row->max)
		return buf;
	option_print_value(row, row->min, min, sizeof(min));
	option_print_value(row, row->max, max, sizeof(max));
	option_print_size(row->step, step, sizeof(step));
	snprintf(buf, OPTION_TEXT_SIZE, "%s to %s%s%s%s", min, max,
		 row->step ? ", a multiple of " : "", row->step ? step : "",
		 row->off ? ", or off" : "");
	return buf;
}

char *option_default_text(const struct option_row *row, char *buf)
{
	*buf = '\0';
	if (row->dflt_text)
		snprintf(buf, OPTION_TEXT_SIZE, "%s", row->dflt_text);
	else if (row->size &&
		 (row->type == OPTION_NUMBER || row->type == OPTION_OCTAL ||
		  row->type == OPTION_SIZE || row->type == OPTION_DURATION))
		option_print_value(row, row->dflt, buf, OPTION_TEXT_SIZE);
	return buf;
}

static void option_fold_name(char *name)
{
	for (; *name; name++)
		*name = *name == '-' ? '_' : *name;
}

char *option_usage_text(const struct option_row *row, enum option_style style,
			char *buf)
{
	const char *value = row->value ? row->value : "";
	const char *equals = row->value ? "=" : "";
	char name[64];

	snprintf(name, sizeof(name), "%s", row->name);
	switch (style) {
	case OPTION_LONG:
		if (row->letter)
			snprintf(buf, OPTION_TEXT_SIZE, "-%c, --%s%s%s",
				 row->letter, name, *value ? " " : "", value);
		else
			snprintf(buf, OPTION_TEXT_SIZE, "    --%s%s%s", name,
				 *value ? " " : "", value);
		break;
	case OPTION_MOUNT:
		option_fold_name(name);
		snprintf(buf, OPTION_TEXT_SIZE, "%s%s%s", name, equals, value);
		break;
	case OPTION_SPEC:
		snprintf(buf, OPTION_TEXT_SIZE, ",%s%s%s", name, equals, value);
		break;
	case OPTION_VERB:
		snprintf(buf, OPTION_TEXT_SIZE, "%s%s%s", name,
			 *value ? " " : "", value);
		break;
	}
	return buf;
}

char *option_summary_text(const struct option_row *row, char *buf, size_t len)
{
	char range[OPTION_TEXT_SIZE];
	char dflt[OPTION_TEXT_SIZE];
	const char *unit = row->type == OPTION_DURATION ? "seconds" : row->unit;

	option_range_text(row, range);
	option_default_text(row, dflt);
	if (row->choices) /* the value names the choices */
		*range = '\0';
	/* "or off" comes after the unit. */
	if (row->off && strstr(range, ", or off"))
		*strstr(range, ", or off") = '\0';
	snprintf(buf, len, "%s%s%s%s%s%s%s%s%s%s", row->help ? row->help : "",
		 *range ? " " : "", range, *range && unit ? " " : "",
		 *range && unit ? unit : "",
		 *range && row->off ? ", or *off*" : "", *range ? "." : "",
		 *dflt ? " Default: " : "", dflt, *dflt ? "." : "");
	if (*range) {
		char *p = buf + (row->help ? strlen(row->help) + 1 : 0);

		*p = (char)toupper((unsigned char)*p);
	}
	return buf;
}

char *option_names_text(const struct option_table *t, char *buf, size_t len)
{
	size_t used = 0;

	*buf = '\0';
	for (unsigned int i = 0; i < t->cnt && used < len; i++)
		used += (size_t)snprintf(buf + used, len - used, "%s%s%s",
					 i ? ", " : "", t->rows[i].name,
					 t->rows[i].value ? "=" : "");
	return buf;
}

/* ---- --help ---- */

char *option_strip(char *text)
{
	bool underlined = false;
	char before = ' ';
	char *to = text;

	for (const char *p = text; *p; before = *p++) {
		if (*p == '*')
			continue;
		if (*p == '\\' && p[1]) {
			*to++ = *++p;
			continue;
		}
		if (*p == '_' &&
		    (!isalnum((unsigned char)before) ||
		     (underlined && !isalnum((unsigned char)p[1])))) {
			underlined = !underlined;
			continue;
		}
		*to++ = *p;
	}
	*to = '\0';
	return text;
}

/* Fills lines from column OPTION_HELP_INDENT on. The first line is at
 * @column. */
static void option_fill(FILE *out, char *text, size_t column)
{
	char *save;

	for (char *word = strtok_r(text, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save)) {
		size_t len = strlen(word);

		if (column > OPTION_HELP_INDENT &&
		    column + 1 + len > OPTION_HELP_WIDTH) {
			fprintf(out, "\n%*s", OPTION_HELP_INDENT, "");
			column = OPTION_HELP_INDENT;
		} else if (column > OPTION_HELP_INDENT) {
			fputc(' ', out);
			column++;
		}
		fputs(word, out);
		column += len;
	}
	fputc('\n', out);
}

/* Prints a row, and the rows after it that have no text of their own. */
static void option_help_row(const struct option_table *t, unsigned int i,
			    FILE *out)
{
	char usage[OPTION_TEXT_SIZE];
	char text[2048];
	int column;

	column = fprintf(out, "  %s",
			 option_usage_text(&t->rows[i], t->style, usage));
	for (unsigned int j = i + 1; j < t->cnt && !t->rows[j].help; j++) {
		option_usage_text(&t->rows[j], t->style, usage);
		if (column + strlen(usage) + 2 > OPTION_HELP_WIDTH)
			column = fprintf(out, ",\n  %s", usage) - 2;
		else
			column += fprintf(out, ", %s", usage);
	}
	option_summary_text(&t->rows[i], text, sizeof(text));
	option_strip(text);
	if (column > OPTION_HELP_INDENT - 2) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", OPTION_HELP_INDENT - column, "");
	option_fill(out, text, OPTION_HELP_INDENT);
}

void option_help(const struct option_table *t, FILE *out)
{
	fputs(t->head ? t->head : "", out);
	for (unsigned int i = 0; i < t->cnt; i++) {
		if (t->rows[i].group)
			fprintf(out, "\n%s:\n", t->rows[i].group);
		if (t->rows[i].help)
			option_help_row(t, i, out);
	}
	for (unsigned int i = 0; t->parts && t->parts[i]; i++) {
		fputc('\n', out);
		option_help(t->parts[i], out);
	}
	fputs(t->tail ? t->tail : "", out);
}
