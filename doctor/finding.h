/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The findings of the doctor: one line for each fact that it has checked. If
 * there is something to say, also why it matters, and the command that solves
 * the problem.
 *
 * Thread: setup.
 */
#ifndef DOCTOR_FINDING_H
#define DOCTOR_FINDING_H

#include <stdbool.h>

enum finding_state {
	FINDING_OK,
	FINDING_NOTE,	 /* it works, but not as well as it could */
	FINDING_PROBLEM, /* rdma-target or rdma-fuse cannot do its work, or cannot
			  * use an RDMA device that the machine has */
};

struct finding {
	const char *group; /* "link" */
	const char *name;  /* "mtu" */
	enum finding_state state;
	char value[512]; /* what was found */
	const char *why; /* one sentence; NULL: nothing to explain */
	char mend[256];	 /* a command, or what to do; "": nothing */
};

/* Bandwidth and latency of one kind of exchange. */
struct measurement {
	const char *group; /* the group of findings that it belongs to */
	const char *what;  /* "SEND" */
	const char *how;   /* the command that was used */
	unsigned int bytes;
	unsigned int cnt; /* exchanges, one after the other */
	double p50, p99;  /* microseconds */
	double mb_per_s;  /* with several in flight; 0: not measured */
};

#define REPORT_FINDINGS_MAX 256
#define REPORT_MEASURES_MAX 40

/* Large: static, or from malloc(). */
struct report {
	struct finding findings[REPORT_FINDINGS_MAX];
	unsigned int cnt;
	struct measurement measures[REPORT_MEASURES_MAX];
	unsigned int measure_cnt;
};

/*
 * Adds a finding. @group and @name are borrowed for the life of the report. If the
 * report is full, the last finding is overwritten, unless it is a problem and the
 * new one is not.
 */
struct finding *report_add(struct report *r, const char *group,
			   const char *name, enum finding_state state);
void finding_value(struct finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_mend(struct finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

unsigned int report_count(const struct report *r, enum finding_state state);

/* "ok", "note", "problem" */
const char *finding_state_name(enum finding_state state);

/* Print on stdout. @all: also the findings that are OK. */
void report_print_text(const struct report *r, bool all);
/* @uri: what was looked at; NULL: the machine. Only with HAVE_JSON. */
void report_print_json(const struct report *r, const char *uri);

#endif
