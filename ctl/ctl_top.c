/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/log.h"
#include "ctl/ctl_text.h"
#include "base/ticks.h"

const char *const top_stage_names[TOP_STAGES] = { "queue", "fetch", "backend",
						  "respond" };

/* Of an answer, until a screen says that there is none. */
#define TOP_SILENT_MS 2000

static volatile sig_atomic_t top_stopped;

/* ---- a sample, from JSON ---- */

static const char *top_label(const json_t *metric, const char *label)
{
	const char *text = json_string_value(
		json_object_get(json_object_get(metric, "labels"), label));

	return text ? text : "";
}

static uint64_t top_value(const json_t *metric)
{
	return (uint64_t)json_integer_value(json_object_get(metric, "value"));
}

/* The row of that name, made if there is none; NULL: no memory. */
static struct top_row *top_find(struct top_rows *rows, const char *name)
{
	struct top_row *more;

	for (size_t i = 0; i < rows->cnt; i++)
		if (!strcmp(rows->row[i].name, name))
			return &rows->row[i];
	more = reallocarray(rows->row, rows->cnt + 1, sizeof(*more));
	if (!more)
		return NULL;
	rows->row = more;
	more = &rows->row[rows->cnt++];
	memset(more, 0, sizeof(*more));
	snprintf(more->name, sizeof(more->name), "%s", name);
	return more;
}

static void top_take_times(struct top_row *row, const json_t *metric)
{
	const json_t *times = json_object_get(metric, "times");
	const char *stage = top_label(metric, "stage");
	json_t *bucket;
	size_t i;

	for (int nr = 0; nr < TOP_STAGES; nr++) {
		if (strcmp(stage, top_stage_names[nr]) != 0)
			continue;
		json_array_foreach(json_object_get(times, "buckets"), i,
				   bucket) {
			json_t *bound = json_object_get(bucket, "bound_ns");
			uint64_t ns =
				bound ? (uint64_t)json_integer_value(bound) - 1
				      : HISTOGRAM_MAX_NS;

			row->stage[nr].bucket[histogram_index(
				(double)histogram_cap(ns))] +=
				(uint64_t)json_integer_value(
					json_object_get(bucket, "count"));
		}
	}
}

static void top_take_op(struct top_row *row, const json_t *metric, bool bytes)
{
	const char *op = top_label(metric, "op");
	uint64_t value = top_value(metric);

	if (!strcmp(op, "read"))
		*(bytes ? &row->read_bytes : &row->reads) += value;
	else if (!strcmp(op, "write"))
		*(bytes ? &row->write_bytes : &row->writes) += value;
	else if (!bytes)
		row->others += value;
}

/* @what: behind "rdma_target_volume_" or "rdma_target_initiator_". */
static void top_take_of(struct top_sample *s, enum top_kind kind,
			const char *what, const json_t *metric)
{
	struct top_row *row =
		top_find(&s->rows[kind],
			 top_label(metric, kind == TOP_VOLUMES ? "volume"
							       : "initiator"));

	if (!row)
		return;
	if (!strcmp(what, "commands_total"))
		top_take_op(row, metric, false);
	else if (!strcmp(what, "data_bytes_total"))
		top_take_op(row, metric, true);
	else if (!strcmp(what, "stage_seconds"))
		top_take_times(row, metric);
	else if (!strcmp(what, "credits"))
		row->credits += top_value(metric);
	else if (!strcmp(what, "requests_in_flight"))
		row->in_flight += top_value(metric);
}

static void top_take(struct top_sample *s, const json_t *metric)
{
	static const char program[] = "rdma_target_";
	const char *name = json_string_value(json_object_get(metric, "name"));

	if (!name || strncmp(name, program, sizeof(program) - 1) != 0)
		return;
	name += sizeof(program) - 1;
	if (!strncmp(name, "volume_", 7))
		top_take_of(s, TOP_VOLUMES, name + 7, metric);
	else if (!strncmp(name, "initiator_", 10))
		top_take_of(s, TOP_SESSIONS, name + 10, metric);
	else if (!strcmp(name, "buffers_bytes"))
		s->buffers += top_value(metric);
	else if (!strcmp(name, "used_buffers_bytes"))
		s->used_buffers += top_value(metric);
	else if (!strcmp(name, "sessions"))
		s->sessions = top_value(metric);
	else if (!strcmp(name, "requests_in_flight"))
		s->in_flight += top_value(metric);
}

static void top_free(struct top_sample *s)
{
	for (int kind = 0; kind < TOP_KINDS; kind++)
		free(s->rows[kind].row);
	memset(s, 0, sizeof(*s));
}

/* An older target, or one that ends meanwhile, tells none. */
static void top_take_addresses(const struct ctl_options *opt,
			       struct top_sample *s)
{
	struct top_rows *rows = &s->rows[TOP_SESSIONS];
	struct error ignored;
	json_t *out;
	json_t *one;
	size_t i;

	if (ctl_call(opt, "ListSessions", json_object(), &out, &ignored))
		return;
	json_array_foreach(json_object_get(out, "sessions"), i, one) {
		for (size_t k = 0; k < rows->cnt; k++)
			if (!strcmp(rows->row[k].name,
				    ctl_field(one, "initiator")))
				snprintf(rows->row[k].address,
					 sizeof(rows->row[k].address), "%s",
					 ctl_field(one, "address"));
	}
	json_decref(out);
}

static enum ctl_exit top_ask(const struct ctl_options *opt, bool addresses,
			     struct top_sample *ret, struct error *e)
{
	enum ctl_exit code;
	sigset_t resize;
	json_t *out;
	json_t *metric;
	size_t i;

	/* Of curses, whose handler would end a call that waits. */
	sigemptyset(&resize);
	sigaddset(&resize, SIGWINCH);
	sigprocmask(SIG_BLOCK, &resize, NULL);
	code = ctl_call(opt, "GetMetrics", json_object(), &out, e);
	memset(ret, 0, sizeof(*ret));
	ret->at_ns = ticks_clock_ns();
	if (code == CTL_DONE) {
		json_array_foreach(json_object_get(out, "metrics"), i, metric)
			top_take(ret, metric);
		json_decref(out);
		if (addresses)
			top_take_addresses(opt, ret);
	}
	sigprocmask(SIG_UNBLOCK, &resize, NULL);
	return code;
}

/* ---- differences ---- */

/* Counters of a target that was started again begin at 0. */
static uint64_t top_grown(uint64_t from, uint64_t to)
{
	return to >= from ? to - from : to;
}

static void top_subtract(struct top_row *row, const struct top_row *from)
{
	row->reads = top_grown(from->reads, row->reads);
	row->writes = top_grown(from->writes, row->writes);
	row->others = top_grown(from->others, row->others);
	row->read_bytes = top_grown(from->read_bytes, row->read_bytes);
	row->write_bytes = top_grown(from->write_bytes, row->write_bytes);
	for (int nr = 0; nr < TOP_STAGES; nr++)
		for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
			row->stage[nr].bucket[i] =
				top_grown(from->stage[nr].bucket[i],
					  row->stage[nr].bucket[i]);
}

uint64_t top_stage_ns(const struct top_row *row, int stage,
		      unsigned int permille)
{
	return permille < 1000
		       ? histogram_quantile_ns(&row->stage[stage], permille)
		       : histogram_max_ns(&row->stage[stage]);
}

static uint64_t top_key(const struct top_row *row, const struct top_view *view)
{
	uint64_t ns = 0;

	switch (view->column) {
	case TOP_BY_COMMANDS:
		return row->reads + row->writes + row->others;
	case TOP_BY_READS:
		return row->reads;
	case TOP_BY_WRITES:
		return row->writes;
	case TOP_BY_READ_BYTES:
		return row->read_bytes;
	case TOP_BY_WRITE_BYTES:
		return row->write_bytes;
	case TOP_BY_TIME:
		for (int i = 0; i < TOP_STAGES; i++)
			ns += top_stage_ns(row, i, view->permille);
		return ns;
	case TOP_BY_NAME:
	case TOP_COLUMNS:
		break;
	}
	return 0;
}

/* Names up, numbers down. */
static int top_compare(const void *a, const void *b, void *arg)
{
	const struct top_view *view = arg;
	const struct top_row *x = a;
	const struct top_row *y = b;
	uint64_t kx = top_key(x, view);
	uint64_t ky = top_key(y, view);
	int order = kx != ky ? (kx < ky ? 1 : -1) : strcmp(x->name, y->name);

	return view->reverse ? -order : order;
}

int top_difference(const struct top_sample *from, const struct top_sample *to,
		   const struct top_view *view, struct top_rows *ret)
{
	const struct top_rows *now = &to->rows[view->kind];
	const struct top_rows *before = &from->rows[view->kind];

	ret->cnt = 0;
	ret->row = calloc(now->cnt + 1, sizeof(*ret->row));
	if (!ret->row)
		return -ENOMEM;
	for (size_t i = 0; i < now->cnt; i++) {
		struct top_row *row = &ret->row[ret->cnt];

		if (!strstr(now->row[i].name, view->filter))
			continue;
		*row = now->row[i];
		for (size_t k = 0; k < before->cnt; k++)
			if (!strcmp(before->row[k].name, row->name))
				top_subtract(row, &before->row[k]);
		ret->cnt++;
	}
	qsort_r(ret->row, ret->cnt, sizeof(*ret->row), top_compare,
		(void *)(uintptr_t)view);
	return 0;
}

void top_total(const struct top_rows *rows, struct top_row *ret)
{
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "total");
	for (size_t i = 0; i < rows->cnt; i++) {
		const struct top_row *row = &rows->row[i];

		ret->reads += row->reads;
		ret->writes += row->writes;
		ret->others += row->others;
		ret->read_bytes += row->read_bytes;
		ret->write_bytes += row->write_bytes;
		ret->credits += row->credits;
		ret->in_flight += row->in_flight;
		for (int nr = 0; nr < TOP_STAGES; nr++)
			for (int k = 0; k < HISTOGRAM_BUCKETS; k++)
				ret->stage[nr].bucket[k] +=
					row->stage[nr].bucket[k];
	}
}

/* ---- lines ---- */

char *top_time_text(uint64_t ns, char *buf)
{
	if (!ns)
		snprintf(buf, TOP_TIME_SIZE, "-");
	else if (ns < 10000000)
		snprintf(buf, TOP_TIME_SIZE, "%lluus",
			 (unsigned long long)(ns + 999) / 1000);
	else if (ns < 10000000000)
		snprintf(buf, TOP_TIME_SIZE, "%llums",
			 (unsigned long long)ns / 1000000);
	else
		snprintf(buf, TOP_TIME_SIZE, "%llus",
			 (unsigned long long)ns / 1000000000);
	return buf;
}

static void top_print_row(const char *kind, const struct top_row *row,
			  double seconds)
{
	char p50[TOP_TIME_SIZE];
	char p99[TOP_TIME_SIZE];
	char longest[TOP_TIME_SIZE];

	printf("%s %s read/s %.0f write/s %.0f other/s %.0f read-MB/s %.1f "
	       "write-MB/s %.1f",
	       kind, row->name, (double)row->reads / seconds,
	       (double)row->writes / seconds, (double)row->others / seconds,
	       (double)row->read_bytes / 1e6 / seconds,
	       (double)row->write_bytes / 1e6 / seconds);
	for (int i = 0; i < TOP_STAGES; i++)
		printf(" %s %s/%s/%s", top_stage_names[i],
		       top_time_text(top_stage_ns(row, i, 500), p50),
		       top_time_text(top_stage_ns(row, i, 990), p99),
		       top_time_text(top_stage_ns(row, i, 1000), longest));
	putchar('\n');
}

static void top_print(const struct top_sample *from,
		      const struct top_sample *to)
{
	static const char *const kinds[TOP_KINDS] = { "volume", "initiator" };
	double seconds = (double)(to->at_ns - from->at_ns) / 1e9;

	printf("target sessions %llu in-flight %llu buffers %llu/%llu\n",
	       (unsigned long long)to->sessions,
	       (unsigned long long)to->in_flight,
	       (unsigned long long)to->used_buffers,
	       (unsigned long long)to->buffers);
	for (int kind = 0; kind < TOP_KINDS; kind++) {
		struct top_view view = { .kind = (enum top_kind)kind };
		struct top_rows rows;

		if (top_difference(from, to, &view, &rows))
			return;
		for (size_t i = 0; i < rows.cnt; i++)
			top_print_row(kinds[kind], &rows.row[i], seconds);
		free(rows.row);
	}
	fflush(stdout);
}

/* ---- the loop ---- */

static void top_on_signal(int sig)
{
	top_stopped = 1;
}

/* Whatever ends it, the terminal is to be as it was. */
static void top_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction sa = { .sa_handler = top_on_signal };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &sa, NULL);
	/* A pipe that is closed is an error of write(). */
	signal(SIGPIPE, SIG_IGN);
}

struct top {
	const struct ctl_options *opt;
	int interval_ms;
	long count; /* of samples to show; -1: no end */
	bool screen;
	struct top_view view;
	struct top_sample shown; /* the one before: to draw again */
	struct top_sample before;
};

/* False: the end. */
static bool top_show(struct top *t, const struct top_sample *now)
{
	bool goes_on = true;

	if (HAVE_CURSES && t->screen) {
		ctl_screen_draw(&t->before, now, &t->view);
		goes_on = ctl_screen_wait(&t->before, now, &t->view,
					  t->interval_ms);
	} else {
		top_print(&t->before, now);
		if (t->count != 1)
			poll(NULL, 0, t->interval_ms);
	}
	if (t->count > 0)
		t->count--;
	return goes_on && t->count != 0 && !ferror(stdout);
}

/* The last numbers stay. A target that was started again comes back here. */
static bool top_show_silence(struct top *t)
{
	const struct top_sample *from = t->shown.at_ns ? &t->shown : &t->before;

	t->view.silent_s = (unsigned int)((ticks_clock_ns() - t->before.at_ns) /
					  1000000000);
	if (HAVE_CURSES)
		ctl_screen_draw(from, &t->before, &t->view);
	return HAVE_CURSES &&
	       ctl_screen_wait(from, &t->before, &t->view, t->interval_ms);
}

static enum ctl_exit top_run(struct top *t, struct error *e)
{
	enum ctl_exit code = top_ask(t->opt, t->screen, &t->before, e);
	struct ctl_options soon = *t->opt;
	bool goes_on = code == CTL_DONE;

	/* A screen says how long the target has been silent. */
	if (t->screen && soon.timeout_ms > TOP_SILENT_MS)
		soon.timeout_ms = TOP_SILENT_MS;
	if (goes_on)
		poll(NULL, 0, t->screen ? 100 : t->interval_ms);
	while (goes_on && !top_stopped) {
		struct top_sample now;

		code = top_ask(&soon, t->screen, &now, e);
		if (code == CTL_UNREACHABLE && t->screen) {
			goes_on = top_show_silence(t);
			code = CTL_DONE;
			top_free(&now);
			continue;
		}
		if (code != CTL_DONE)
			break;
		t->view.silent_s = 0;
		goes_on = top_show(t, &now);
		top_free(&t->shown);
		t->shown = t->before;
		t->before = now;
	}
	top_free(&t->before);
	top_free(&t->shown);
	return top_stopped ? CTL_DONE : code;
}

/* A number of seconds above 0, "0.5". */
static bool top_parse_interval(const char *text, int *ret_ms)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0.1) || s > 3600)
		return false;
	*ret_ms = (int)(s * 1000);
	return true;
}

static bool top_parse_count(const char *text, long *ret)
{
	char *end;

	*ret = strtol(text, &end, 10);
	return end != text && !*end && *ret > 0;
}

enum ctl_exit ctl_top(const struct ctl_options *opt, char **arg, int cnt)
{
	struct top t = { .opt = opt,
			 .interval_ms = 1000,
			 .count = -1,
			 .view = { .column = TOP_BY_COMMANDS,
				   .permille = 990 } };
	enum ctl_exit code;
	struct error e;

	if (cnt > 0 && !top_parse_interval(arg[0], &t.interval_ms)) {
		log_error("'%s' is not a number of seconds from 0.1 to 3600",
			  arg[0]);
		return CTL_REFUSED;
	}
	if (cnt > 1 && !top_parse_count(arg[1], &t.count)) {
		log_error("'%s' is not a number above 0", arg[1]);
		return CTL_REFUSED;
	}
	top_catch_signals();
	t.screen = HAVE_CURSES && ctl_screen_open();
	code = top_run(&t, &e);
	if (HAVE_CURSES)
		ctl_screen_close();
	if (code != CTL_DONE)
		log_error("%s", e.text);
	return code;
}
