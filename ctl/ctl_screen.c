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

/* Colors, where the terminal has them and nobody has forbidden them (no-color.org). */
enum screen_color {
	SCREEN_PLAIN,
	SCREEN_BUSY,
	SCREEN_SLOW,
	SCREEN_BAD,
};

static SCREEN *ctl_screen;
static bool screen_has_colors;

static void screen_open_colors(void)
{
	const char *no = getenv("NO_COLOR");

	screen_has_colors = (!no || !*no) && has_colors() &&
			    start_color() == OK && use_default_colors() == OK;
	if (!screen_has_colors)
		return;
	init_pair(SCREEN_BUSY, COLOR_GREEN, -1);
	init_pair(SCREEN_SLOW, COLOR_YELLOW, -1);
	init_pair(SCREEN_BAD, COLOR_RED, -1);
}

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
	screen_open_colors();
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

static void screen_paint(int y, int x, int width, enum screen_color color)
{
	if (screen_has_colors && color != SCREEN_PLAIN && x < COLS && width > 0)
		mvchgat(y, x, width, A_NORMAL, (short)color, NULL);
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

static void screen_head(const struct top_sample *to,
			const struct top_view *view)
{
	char used[SIZE_TEXT_SIZE];
	char all[SIZE_TEXT_SIZE];
	struct screen_line l = { .len = 0 };

	if (view->silent_s)
		screen_line_add(&l, "rdma-target: no answer for %u s",
				view->silent_s);
	else
		screen_line_add(
			&l,
			"rdma-target: %llu sessions, %llu requests in flight, "
			"buffers %s of %s",
			(unsigned long long)to->sessions,
			(unsigned long long)to->in_flight,
			size_format(to->used_buffers, used),
			size_format(to->buffers, all));
	screen_line_draw(0, &l);
	if (view->silent_s)
		screen_paint(0, 0, (int)l.len, SCREEN_BAD);
}

/* ---- columns ---- */

/* What a name needs at least: it can be told from others. */
#define SCREEN_NAME_MIN	   16
#define SCREEN_NAME_MAX	   34 /* all of an initiator */
#define SCREEN_ADDRESS_MAX 24
#define SCREEN_BAR_MIN	   8
#define SCREEN_BAR_MAX	   20

/* Widths, with the space before a column. */
struct screen_widths {
	int name;
	int address; /* of initiators; 0: there is no room for it, as the next two */
	int rate;  /* four columns */
	int stage; /* TOP_STAGES columns */
	int credits;
	int bar;
};

/* Takes at most @max of what is left, if that is at least @min. */
static int screen_take(int *left, int min, int max)
{
	int width = *left < max ? *left : max;

	if (width < min)
		return 0;
	*left -= width;
	return width;
}

static struct screen_widths screen_widths(const struct top_view *view)
{
	struct screen_widths w = { .rate = 10, .stage = 9 };
	bool initiators = view->kind == TOP_SESSIONS;
	int left = COLS - 4 * w.rate - TOP_STAGES * w.stage;

	if (left < SCREEN_NAME_MIN) {
		w = (struct screen_widths){ .rate = 8, .stage = 8 };
		left = COLS - 4 * w.rate - TOP_STAGES * w.stage;
	}
	w.name = screen_take(&left, SCREEN_NAME_MIN, SCREEN_NAME_MAX);
	if (!w.name)
		w.name = SCREEN_NAME_MIN;
	if (initiators) {
		w.credits = screen_take(&left, 11, 11);
		w.address = screen_take(&left, 16, SCREEN_ADDRESS_MAX);
	}
	w.bar = screen_take(&left, SCREEN_BAR_MIN, SCREEN_BAR_MAX);
	return w;
}

static void screen_columns(const struct top_view *view)
{
	static const char *const names[TOP_COLUMNS] = {
		"NAME",	   "COMMANDS/s", "READ/s", "WRITE/s",
		"MB/s RD", "MB/s WR",	 "TIME",
	};
	struct screen_widths w = screen_widths(view);
	struct screen_line head = { .len = 0 };
	struct screen_line l = { .len = 0 };
	char which[8] = "max";

	if (view->permille < 1000)
		snprintf(which, sizeof(which), "p%u", view->permille / 10);
	screen_line_add(&l, "%-*s", w.name,
			view->kind == TOP_VOLUMES ? "VOLUME" : "INITIATOR");
	screen_line_add(&l, "%-*s", w.address, w.address ? " ADDRESS" : "");
	for (int i = TOP_BY_READS; i <= TOP_BY_WRITE_BYTES; i++)
		screen_line_add(&l, "%*s", w.rate, names[i]);
	for (int i = 0; i < TOP_STAGES; i++)
		screen_line_add(&l, "%*s", w.stage, top_stage_names[i]);
	screen_line_add(&l, "%*s", w.credits, w.credits ? "CREDITS" : "");
	screen_line_add(&l, "%-*s", w.bar, w.bar ? "  BUSY" : "");
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

static uint64_t screen_commands(const struct top_row *row)
{
	return row->reads + row->writes + row->others;
}

/* Slower than any disk should be, or than anybody waits for. */
static enum screen_color screen_time_color(uint64_t ns)
{
	return ns >= 1000000000 ? SCREEN_BAD
	       : ns >= 50000000 ? SCREEN_SLOW
				: SCREEN_PLAIN;
}

/* The part of @all commands that @row has. */
static void screen_bar(int y, const struct screen_line *l,
		       const struct top_row *row, uint64_t all, int width)
{
	int len =
		all ? (int)(screen_commands(row) * (uint64_t)(width - 2) / all)
		    : 0;

	for (int i = 0; i < len; i++)
		mvaddch(y, (int)l->len + 2 + i, '|');
	screen_paint(y, (int)l->len + 2, len, SCREEN_BUSY);
}

static void screen_row(int y, const struct top_row *row, double seconds,
		       const struct top_view *view, uint64_t all)
{
	struct screen_widths w = screen_widths(view);
	enum screen_color colors[TOP_STAGES];
	struct screen_line l = { .len = 0 };
	char text[TOP_TIME_SIZE];
	int stages;

	screen_line_add(&l, "%-*.*s", w.name, w.name,
			screen_name(row, view, w.name));
	if (w.address)
		screen_line_add(&l, " %-*.*s", w.address - 1, w.address - 1,
				row->address);
	screen_line_add(&l, "%*.0f%*.0f%*.1f%*.1f", w.rate,
			(double)row->reads / seconds, w.rate,
			(double)row->writes / seconds, w.rate,
			(double)row->read_bytes / 1e6 / seconds, w.rate,
			(double)row->write_bytes / 1e6 / seconds);
	stages = (int)l.len;
	for (int i = 0; i < TOP_STAGES; i++) {
		uint64_t ns = top_stage_ns(row, i, view->permille);

		colors[i] = screen_time_color(ns);
		screen_line_add(&l, "%*s", w.stage, top_time_text(ns, text));
	}
	if (w.credits)
		screen_line_add(&l, " %4llu/%-5llu",
				(unsigned long long)row->in_flight,
				(unsigned long long)row->credits);
	screen_line_draw(y, &l);
	for (int i = 0; i < TOP_STAGES; i++)
		screen_paint(y, stages + i * w.stage, w.stage, colors[i]);
	if (w.bar)
		screen_bar(y, &l, row, all, w.bar);
}

static void screen_explain(void)
{
	static const char *const lines[] = {
		"A command goes through these stages; the columns have their times.",
		"  queue    it waits for a buffer, or for commands before it",
		"  fetch    the data of a write come from the initiator",
		"  backend  the disk works; limits (layer qos) count here",
		"  respond  data and answer go to the initiator",
		"p50: half of the commands take less; p99: 99 of 100 do; max: all do.",
		"CREDITS: requests of the initiator that run, and how many may.",
		"BUSY: the part of all commands.",
		"",
		"  v  volumes                  s  sessions (initiators)",
		"  p  p50, p99, max            r  reverse the order",
		"  <  >  another order         /  only names with this; Esc: all",
		"  up, down, page up, page down, home  scroll",
		"  ?  these lines              q  quit",
	};

	for (int i = 0; i < (int)(sizeof(lines) / sizeof(lines[0])); i++)
		if (i + 2 < LINES - 1)
			mvaddnstr(i + 2, 0, lines[i], COLS);
}

/* The heads, the total, "more", and the keys. */
#define SCREEN_OTHER_LINES 6

static void screen_rows(const struct top_rows *rows, double seconds,
			struct top_view *view)
{
	size_t room = LINES > SCREEN_OTHER_LINES
			      ? (size_t)(LINES - SCREEN_OTHER_LINES)
			      : 0;
	size_t last = rows->cnt > room ? rows->cnt - room : 0;
	struct top_row total;
	size_t i;

	if (view->first > last)
		view->first = last;
	top_total(rows, &total);
	screen_columns(view);
	screen_row(3, &total, seconds, view, 0);
	for (i = view->first; i < rows->cnt && i - view->first < room; i++)
		screen_row((int)(i - view->first) + 4, &rows->row[i], seconds,
			   view, screen_commands(&total));
	if (rows->cnt > room)
		mvprintw(LINES - 2, 0, "%zu more",
			 rows->cnt - (i - view->first));
}

void ctl_screen_draw(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view)
{
	/* Nothing has happened in the only sample. */
	double seconds = to->at_ns > from->at_ns
				 ? (double)(to->at_ns - from->at_ns) / 1e9
				 : 1;
	struct top_rows rows;

	if (top_difference(from, to, view, &rows))
		return;
	erase();
	screen_head(to, view);
	if (view->help)
		screen_explain();
	else
		screen_rows(&rows, seconds, view);
	mvaddnstr(LINES - 1, 0,
		  "? help  q quit  v volumes  s sessions  p stages  < > sort  "
		  "r reverse  / filter",
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

static void screen_scroll(struct top_view *view, int by)
{
	view->first = by < 0 && view->first < (size_t)-by
			      ? 0
			      : view->first + (size_t)by;
}

/* False: the end. */
static bool screen_key(struct top_view *view, int key)
{
	if (key != KEY_RESIZE && key != '?')
		view->help = false;
	switch (key) {
	case '?':
	case 'h':
		view->help = !view->help;
		break;
	case KEY_UP:
		screen_scroll(view, -1);
		break;
	case KEY_DOWN:
		screen_scroll(view, 1);
		break;
	case KEY_PPAGE:
		screen_scroll(view, -(LINES / 2));
		break;
	case KEY_NPAGE:
		screen_scroll(view, LINES / 2);
		break;
	case KEY_HOME:
		view->first = 0;
		break;
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
