/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"
#include "doctor/finding.h"

#if HAVE_JSON
#include <jansson.h>
#include <stdio.h>

static json_t *json_of_finding(const struct finding *f)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "group", f->group, "name",
			      f->name, "state", finding_state_name(f->state),
			      "value", f->value);

	if (f->why)
		json_object_set_new(o, "why", json_string(f->why));
	if (*f->mend)
		json_object_set_new(o, "mend", json_string(f->mend));
	return o;
}

static json_t *json_of_measure(const struct measurement *m)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f}", "group",
			 m->group, "exchange", m->what, "by", m->how, "bytes",
			 (int)m->bytes, "count", (int)m->cnt, "p50_us", m->p50,
			 "p99_us", m->p99, "mb_per_s", m->mb_per_s);
}

void report_print_json(const struct report *r, const char *uri)
{
	json_t *findings = json_array();
	json_t *measures = json_array();
	json_t *root;

	for (unsigned int i = 0; i < r->cnt; i++)
		json_array_append_new(findings,
				      json_of_finding(&r->findings[i]));
	for (unsigned int i = 0; i < r->measure_cnt; i++)
		json_array_append_new(measures,
				      json_of_measure(&r->measures[i]));
	root = json_pack("{s:i, s:i, s:o, s:o}", "problems",
			 (int)report_count(r, FINDING_PROBLEM), "notes",
			 (int)report_count(r, FINDING_NOTE), "findings",
			 findings, "measurements", measures);
	if (uri)
		json_object_set_new(root, "uri", json_string(uri));
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}
#else
void report_print_json(const struct report *r, const char *uri)
{
}
#endif
