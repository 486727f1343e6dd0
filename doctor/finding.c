/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

struct finding *report_add(struct report *r, const char *group,
			   const char *name, enum finding_state state)
{
	static struct finding dropped;
	struct finding *f = &r->findings[REPORT_FINDINGS_MAX - 1];

	if (r->cnt < REPORT_FINDINGS_MAX)
		f = &r->findings[r->cnt++];
	else if (f->state > state)
		f = &dropped;
	*f = (struct finding){ .group = group, .name = name, .state = state };
	return f;
}

void finding_value(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->value, sizeof(f->value), fmt, ap);
	va_end(ap);
}

void finding_mend(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->mend, sizeof(f->mend), fmt, ap);
	va_end(ap);
}

unsigned int report_count(const struct report *r, enum finding_state state)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->cnt; i++)
		n += r->findings[i].state == state;
	return n;
}

const char *finding_state_name(enum finding_state state)
{
	switch (state) {
	case FINDING_OK:
		return "ok";
	case FINDING_NOTE:
		return "note";
	case FINDING_PROBLEM:
		return "problem";
	}
	return "?";
}
