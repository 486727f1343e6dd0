/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void ctl_table_put(struct ctl_table *t, const char *fmt, ...)
{
	unsigned int room = t->room ? 2 * t->room : 64;
	char **more = t->cells;
	va_list ap;

	if (t->cnt == t->room)
		more = reallocarray(t->cells, room, sizeof(*more));
	if (!more)
		return;
	if (t->cnt == t->room)
		t->room = room;
	t->cells = more;
	va_start(ap, fmt);
	if (vasprintf(&t->cells[t->cnt], fmt, ap) < 0)
		t->cells[t->cnt] = NULL;
	va_end(ap);
	t->cnt++;
}

/* Characters of UTF-8. */
static int text_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static const char *cell_text(const struct ctl_table *t, unsigned int i)
{
	return t->cells[i] ? t->cells[i] : "";
}

static int column_width(const struct ctl_table *t, unsigned int column)
{
	const char *head = t->heads[column];
	int width = text_width(head) - (*head == '>');

	for (unsigned int i = column; i < t->cnt; i += t->columns) {
		int other = text_width(cell_text(t, i));

		width = other > width ? other : width;
	}
	return width;
}

static void print_cell(const struct ctl_table *t, unsigned int column,
		       const char *text, int width)
{
	int pad = width - text_width(text);
	bool is_number = *t->heads[column] == '>';

	if (column + 1 == t->columns && !is_number)
		printf("%s\n", text);
	else
		printf("%*s%s%*s%s", is_number ? pad : 0, "", text,
		       is_number ? 0 : pad, "",
		       column + 1 == t->columns ? "\n" : "  ");
}

void ctl_table_print(struct ctl_table *t)
{
	int widths[CTL_TABLE_COLUMNS_MAX] = { 0 };

	for (unsigned int c = 0; c < t->columns; c++) {
		const char *head = t->heads[c];

		widths[c] = column_width(t, c);
		print_cell(t, c, head + (*head == '>'), widths[c]);
	}
	for (unsigned int i = 0, c = 0; i < t->cnt; i++) {
		print_cell(t, c, cell_text(t, i), widths[c]);
		c = c + 1 < t->columns ? c + 1 : 0;
		free(t->cells[i]);
	}
	free(t->cells);
	t->cells = NULL;
	t->cnt = t->room = 0;
}
