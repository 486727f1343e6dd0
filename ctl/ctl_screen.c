/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_top.h"

#include <curses.h>
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

/* ---- drawing ---- */

static void screen_head(const struct top_sample *to)
{
	char used[SIZE_TEXT_SIZE];
	char all[SIZE_TEXT_SIZE];

	mvprintw(0, 0,
		 "rdma-target: %llu sessions, %llu requests in flight, buffers "
		 "%s of %s",
		 (unsigned long long)to->sessions,
		 (unsigned long long)to->in_flight,
		 size_format(to->used_buffers, used),
		 size_format(to->buffers, all));
}

static void screen_columns(const struct top_view *view)
{
	static const char *const names[TOP_COLUMNS] = {
		"NAME", "READ/s", "WRITE/s", "MB/s RD", "MB/s WR", "TIME",
	};
	char which[8] = "max";

	if (view->permille < 1000)
		snprintf(which, sizeof(which), "p%u", view->permille / 10);
	attron(A_REVERSE);
	mvprintw(2, 0, "%-24s %9s %9s %9s %9s",
		 view->kind == TOP_VOLUMES ? "VOLUME" : "INITIATOR",
		 names[TOP_BY_READS], names[TOP_BY_WRITES],
		 names[TOP_BY_READ_BYTES], names[TOP_BY_WRITE_BYTES]);
	for (int i = 0; i < TOP_STAGES; i++)
		printw(" %8s", top_stage_names[i]);
	if (view->kind == TOP_SESSIONS)
		printw(" %9s", "CREDITS");
	attroff(A_REVERSE);
	mvprintw(1, 0, "stages: %s; sorted by %s%s%s%s", which,
		 names[view->column], view->reverse ? ", reversed" : "",
		 *view->filter ? "; filter " : "", view->filter);
}

static void screen_row(int y, const struct top_row *row, double seconds,
		       const struct top_view *view)
{
	char text[TOP_TIME_SIZE];

	mvprintw(y, 0, "%-24.24s %9.0f %9.0f %9.1f %9.1f", row->name,
		 (double)row->reads / seconds, (double)row->writes / seconds,
		 (double)row->read_bytes / 1e6 / seconds,
		 (double)row->write_bytes / 1e6 / seconds);
	for (int i = 0; i < TOP_STAGES; i++)
		printw(" %8s",
		       top_time_text(top_stage_ns(row, i, view->permille),
				     text));
	if (view->kind == TOP_SESSIONS)
		printw(" %4llu/%-4llu", (unsigned long long)row->in_flight,
		       (unsigned long long)row->credits);
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
	mvprintw(LINES - 1, 0,
		 "q quit  v volumes  s sessions  p stages  < > sort  r reverse "
		 " / filter");
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
