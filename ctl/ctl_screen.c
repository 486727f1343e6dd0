/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_top.h"

#include <curses.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "base/ticks.h"

static SCREEN *ctl_screen;

bool ctl_screen_open(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return false;
	ctl_screen = newterm(NULL, stdout, stdin);
	if (!ctl_screen)
		return false;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	return true;
}

void ctl_screen_close(void)
{
	if (!ctl_screen)
		return;
	endwin();
	delscreen(ctl_screen);
	ctl_screen = NULL;
}

/* ---- lines ---- */

/* Curses would continue a line that is longer than the screen in the next one. */
struct screen_line {
	char text[256];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void
screen_line_add(struct screen_line *l, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	if (len > 0)
		l->len += (size_t)len;
	if (l->len >= sizeof(l->text))
		l->len = sizeof(l->text) - 1;
}

static void screen_line_draw(int y, const struct screen_line *l)
{
	mvaddnstr(y, 0, l->text, COLS);
}

/* ---- drawing ---- */

static void screen_head(const struct top_sample *to)
{
	char used[SIZE_TEXT_SIZE];
	char all[SIZE_TEXT_SIZE];
	struct screen_line l = { .len = 0 };

	screen_line_add(&l,
			"rdma-target: %llu sessions, %llu requests in flight, "
			"buffers %s of %s",
			(unsigned long long)to->sessions,
			(unsigned long long)to->in_flight,
			size_format(to->used_buffers, used),
			size_format(to->buffers, all));
	screen_line_draw(0, &l);
}

/* ---- columns ---- */

/* What a name needs at least: it can be told from others. */
#define SCREEN_NAME_MIN 16
#define SCREEN_NAME_MAX 34 /* all of an initiator */

/* Widths, with the space before a column. */
struct screen_widths {
	int name;
	int rate;  /* four columns */
	int stage; /* TOP_STAGES columns */
	bool has_credits;
};

static struct screen_widths screen_widths(const struct top_view *view)
{
	struct screen_widths w = { .rate = 10, .stage = 9 };
	int credits = view->kind == TOP_SESSIONS ? 10 : 0;
	int left = COLS - 4 * w.rate - TOP_STAGES * w.stage - credits;

	w.has_credits = credits > 0;
	if (left < SCREEN_NAME_MIN) {
		w = (struct screen_widths){ .rate = 8, .stage = 8 };
		left = COLS - 4 * w.rate - TOP_STAGES * w.stage;
	}
	w.name = left > SCREEN_NAME_MAX	  ? SCREEN_NAME_MAX
		 : left < SCREEN_NAME_MIN ? SCREEN_NAME_MIN
					  : left;
	return w;
}

static void screen_columns(const struct top_view *view)
{
	static const char *const names[TOP_COLUMNS] = {
		"NAME", "READ/s", "WRITE/s", "MB/s RD", "MB/s WR", "TIME",
	};
	struct screen_widths w = screen_widths(view);
	struct screen_line head = { .len = 0 };
	struct screen_line l = { .len = 0 };
	char which[8] = "max";

	if (view->permille < 1000)
		snprintf(which, sizeof(which), "p%u", view->permille / 10);
	screen_line_add(&l, "%-*s", w.name,
			view->kind == TOP_VOLUMES ? "VOLUME" : "INITIATOR");
	for (int i = TOP_BY_READS; i <= TOP_BY_WRITE_BYTES; i++)
		screen_line_add(&l, "%*s", w.rate, names[i]);
	for (int i = 0; i < TOP_STAGES; i++)
		screen_line_add(&l, "%*s", w.stage, top_stage_names[i]);
	if (w.has_credits)
		screen_line_add(&l, "%10s", "CREDITS");
	attron(A_REVERSE);
	screen_line_draw(2, &l);
	attroff(A_REVERSE);
	screen_line_add(&head, "stages: %s; sorted by %s%s%s%s", which,
			names[view->column], view->reverse ? ", reversed" : "",
			*view->filter ? "; filter " : "", view->filter);
	screen_line_draw(1, &head);
}

/* Initiators of one kind of device begin with the same digits. */
static const char *screen_name(const struct top_row *row,
			       const struct top_view *view, int width)
{
	int len = (int)strlen(row->name);

	return row->name +
	       (view->kind == TOP_SESSIONS && len > width ? len - width : 0);
}

static void screen_row(int y, const struct top_row *row, double seconds,
		       const struct top_view *view)
{
	struct screen_widths w = screen_widths(view);
	struct screen_line l = { .len = 0 };
	char text[TOP_TIME_SIZE];

	screen_line_add(&l, "%-*.*s", w.name, w.name,
			screen_name(row, view, w.name));
	screen_line_add(&l, "%*.0f%*.0f%*.1f%*.1f", w.rate,
			(double)row->reads / seconds, w.rate,
			(double)row->writes / seconds, w.rate,
			(double)row->read_bytes / 1e6 / seconds, w.rate,
			(double)row->write_bytes / 1e6 / seconds);
	for (int i = 0; i < TOP_STAGES; i++)
		screen_line_add(
			&l, "%*s", w.stage,
			top_time_text(top_stage_ns(row, i, view->permille),
				      text));
	if (w.has_credits)
		screen_line_add(&l, " %4llu/%-4llu",
				(unsigned long long)row->in_flight,
				(unsigned long long)row->credits);
	screen_line_draw(y, &l);
}

void ctl_screen_draw(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view)
{
	double seconds = (double)(to->at_ns - from->at_ns) / 1e9;
	struct top_rows rows;

	if (top_difference(from, to, view, &rows))
		return;
	erase();
	screen_head(to);
	screen_columns(view);
	for (size_t i = 0; i < rows.cnt && (int)i + 4 < LINES; i++)
		screen_row((int)i + 3, &rows.row[i], seconds, view);
	mvaddnstr(
		LINES - 1, 0,
		"q quit  v volumes  s sessions  p stages  < > sort  r reverse "
		" / filter",
		COLS);
	refresh();
	free(rows.row);
}

/* ---- keys ---- */

/* Until Enter; Escape leaves no filter. */
static void screen_read_filter(struct top_view *view)
{
	size_t len = 0;
	int key;

	*view->filter = '\0';
	timeout(-1);
	do {
		mvprintw(LINES - 1, 0, "filter: %s", view->filter);
		clrtoeol();
		key = getch();
		if (key == 27)
			len = 0;
		else if ((key == KEY_BACKSPACE || key == 127 || key == 8) &&
			 len)
			len--;
		else if (key > ' ' && key < 127 && len < TOP_NAME_SIZE - 1)
			view->filter[len++] = (char)key;
		view->filter[len] = '\0';
	} while (key != '\n' && key != 27 && key != ERR);
}

/* False: the end. */
static bool screen_key(struct top_view *view, int key)
{
	switch (key) {
	case 'q':
		return false;
	case 'v':
		view->kind = TOP_VOLUMES;
		break;
	case 's':
		view->kind = TOP_SESSIONS;
		break;
	case 'p':
		view->permille = view->permille == 500	 ? 990
				 : view->permille == 990 ? 1000
							 : 500;
		break;
	case '<':
	case KEY_LEFT:
		view->column = (view->column + TOP_COLUMNS - 1) % TOP_COLUMNS;
		break;
	case '>':
	case KEY_RIGHT:
		view->column = (view->column + 1) % TOP_COLUMNS;
		break;
	case 'r':
		view->reverse = !view->reverse;
		break;
	case '/':
		screen_read_filter(view);
		break;
	default: /* KEY_RESIZE: it is drawn again */
		break;
	}
	return true;
}

bool ctl_screen_wait(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view, int ms)
{
	uint64_t until = ticks_clock_ns() + (uint64_t)ms * 1000000;

	for (;;) {
		uint64_t now = ticks_clock_ns();
		int key;

		if (now >= until)
			return true;
		timeout((int)((until - now) / 1000000) + 1);
		key = getch();
		/* The time is over, or a signal has come. */
		if (key == ERR)
			return true;
		if (!screen_key(view, key))
			return false;
		ctl_screen_draw(from, to, view);
	}
}
