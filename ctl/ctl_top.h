/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-ctl top: what the target does now. It asks for the metrics again and again, and
 * shows the differences. Thread: main.
 */
#ifndef CTL_CTL_TOP_H
#define CTL_CTL_TOP_H

#include <netinet/in.h>

#include "base/histogram.h"
#include "ctl/ctl_client.h"

#define TOP_NAME_SIZE 64
#define TOP_STAGES    4

enum top_kind {
	TOP_VOLUMES,
	TOP_SESSIONS,
	TOP_KINDS
};

/* Counts of a volume or an initiator: since the start of the target, or within a time. */
struct top_row {
	char name[TOP_NAME_SIZE];
	char address[INET6_ADDRSTRLEN]; /* of initiators */
	uint64_t reads, writes, others; /* commands */
	uint64_t read_bytes, write_bytes;
	struct histogram stage[TOP_STAGES]; /* of all commands */
	uint64_t credits;		    /* of initiators, as the next */
	uint64_t in_flight;
};

struct top_rows {
	struct top_row *row;
	size_t cnt;
};

struct top_sample {
	uint64_t at_ns;
	struct top_rows rows[TOP_KINDS];
	uint64_t buffers, used_buffers; /* bytes */
	uint64_t sessions, in_flight;
};

extern const char *const top_stage_names[TOP_STAGES];

/* What is shown, and how. */
enum top_column {
	TOP_BY_NAME,
	TOP_BY_COMMANDS, /* all of them */
	TOP_BY_READS,
	TOP_BY_WRITES,
	TOP_BY_READ_BYTES,
	TOP_BY_WRITE_BYTES,
	TOP_BY_TIME, /* all stages together */
	TOP_COLUMNS
};

struct top_view {
	enum top_kind kind;
	enum top_column column;
	bool reverse;
	bool help;	       /* the keys and columns are explained */
	size_t first;	       /* row at the top */
	unsigned int silent_s; /* the target has not answered for this long */
	unsigned int permille; /* of the times; 1000: the longest */
	char filter[TOP_NAME_SIZE]; /* names that contain it */
};

/* "12us", "1.5ms", "-" for 0; returns @buf. */
#define TOP_TIME_SIZE 16
char *top_time_text(uint64_t ns, char *buf);
/* Of a row of a difference. */
uint64_t top_stage_ns(const struct top_row *row, int stage,
		      unsigned int permille);

/* What has happened between two samples, sorted and filtered by @view, in @ret, whose
 * rows the caller frees. Return: 0 or -ENOMEM. */
int top_difference(const struct top_sample *from, const struct top_sample *to,
		   const struct top_view *view, struct top_rows *ret);

/* Adds all rows of a difference up. */
void top_total(const struct top_rows *rows, struct top_row *ret);

/* @arg: "[SECONDS [COUNT]]". On a terminal it shows a screen, if the build has ncurses,
 * else it prints lines. */
enum ctl_exit ctl_top(const struct ctl_options *opt, char **arg, int cnt);

/* ---- ctl_screen.c, only in builds with HAVE_CURSES ---- */

/* False: there is no screen here. */
bool ctl_screen_open(void);
/* Shows it. */
void ctl_screen_draw(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view);
/* Takes keys for @ms, and draws again after each; false: the user wants to end. */
bool ctl_screen_wait(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view, int ms);
/* The terminal is as it was before. Harmless if there is no screen. */
void ctl_screen_close(void);

#endif
