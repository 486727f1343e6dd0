/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "doctor/finding.h"

/* The column of the value, and the length of a line. */
#define VALUE_COLUMN 25
#define LINE_COLUMNS 88

/* Prints @text in lines, the first one after @first. The others are indented. */
static void text_wrap(const char *first, const char *text)
{
	const size_t room = LINE_COLUMNS - VALUE_COLUMN;
	const char *before = first;

	do {
		size_t len = strlen(text);

		if (len > room) {
			len = room;
			while (len > 0 && text[len] != ' ')
				len--;
			if (len == 0)
				len = strcspn(text, " ");
		}
		printf("%-*s%.*s\n", VALUE_COLUMN, before, (int)len, text);
		before = "";
		text += len + strspn(text + len, " ");
	} while (*text);
}

static void text_finding(const struct finding *f)
{
	char first[64];

	snprintf(first, sizeof(first), "  %-8s %-13s ",
		 finding_state_name(f->state), f->name);
	text_wrap(first, f->value);
	if (f->state == FINDING_OK)
		return;
	if (f->why)
		text_wrap("", f->why);
	/* On one line, to be copied. */
	if (*f->mend)
		printf("%*sTry: %s\n", VALUE_COLUMN, "", f->mend);
}

static void text_measure(const struct measurement *m)
{
	char speed[32] = "-";

	if (m->mb_per_s > 0)
		snprintf(speed, sizeof(speed), "%.1f", m->mb_per_s);
	printf("  %-8s %7u %6u %9.1f %9.1f %9s  %s\n", m->what, m->bytes,
	       m->cnt, m->p50, m->p99, speed, m->how);
}

/* The measurements of the group @group of findings. */
static void text_measures(const struct report *r, const char *group)
{
	bool first = true;

	for (unsigned int i = 0; i < r->measure_cnt; i++) {
		if (strcmp(r->measures[i].group, group) != 0)
			continue;
		if (first)
			printf("\n  %-8s %7s %6s %9s %9s %9s  %s\n", "EXCHANGE",
			       "BYTES", "COUNT", "P50 us", "P99 us", "MB/s",
			       "BY");
		first = false;
		text_measure(&r->measures[i]);
	}
}

static void text_count(unsigned int n, const char *what)
{
	printf("%u %s%s", n, what, n == 1 ? "" : "s");
}

/* Prints the findings and measurements of the group that begins with @first.
 * Returns the first finding after it. */
static unsigned int text_group(const struct report *r, unsigned int first,
			       bool all, bool *printed)
{
	const char *group = r->findings[first].group;
	bool began = false;
	unsigned int i = first;

	for (; i < r->cnt && strcmp(r->findings[i].group, group) == 0; i++) {
		const struct finding *f = &r->findings[i];

		if (!all && f->state == FINDING_OK)
			continue;
		if (!began)
			printf("%s%s\n", *printed ? "\n" : "", group);
		began = *printed = true;
		text_finding(f);
	}
	text_measures(r, group);
	*printed |= r->measure_cnt > 0;
	return i;
}

void report_print_text(const struct report *r, bool all)
{
	bool printed = false;

	for (unsigned int i = 0; i < r->cnt;)
		i = text_group(r, i, all, &printed);
	if (printed)
		putchar('\n');
	text_count(report_count(r, FINDING_PROBLEM), "problem");
	fputs(", ", stdout);
	text_count(report_count(r, FINDING_NOTE), "note");
	putchar('\n');
}
