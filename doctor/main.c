/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-doctor: finds problems of this machine, or on the way to a target. */
#include <stdlib.h>

#include "base/log.h"
#include "base/std_files.h"
#include "doctor/check.h"
#include "doctor/doctor_options.h"
#include "doctor/way.h"

static unsigned int doctor_whom(const struct doctor_options *o)
{
	static const unsigned int whom[] = {
		[DOCTOR_FOR_ALL] = CHECK_ALL,
		[DOCTOR_FOR_TARGET] = CHECK_TARGET,
		[DOCTOR_FOR_CLIENT] = CHECK_CLIENT,
	};

	return whom[o->whom];
}

static void examine_machine(const struct doctor_options *o, struct report *r)
{
	static struct machine machine;

	machine_read(o->root, &machine);
	check_machine(&machine, doctor_whom(o), r);
}

/* False: a wrong URI; it is logged. */
static bool examine_way(const struct doctor_options *o, struct report *r)
{
	static struct xp_uri uri;
	struct error e;

	if (xp_uri_parse(o->uri, &uri, &e)) {
		log_error("%s", e.text);
		return false;
	}
	way_examine(&uri, o->timeout_ms, r);
	return true;
}

int main(int argc, char **argv)
{
	static struct report report;
	struct doctor_options o;

	std_files_hold();
	log_init("rdma-doctor", LOG_NOTICE);
	switch (doctor_options_parse(argc, argv, &o)) {
	case OPTION_RUN:
		break;
	case OPTION_DONE:
		return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTION_BAD:
		return EXIT_FAILURE;
	}
	if (!o.uri)
		examine_machine(&o, &report);
	else if (!examine_way(&o, &report))
		return EXIT_FAILURE;
	if (o.json)
		report_print_json(&report, o.uri);
	else
		report_print_text(&report, !o.brief);
	if (!std_files_flush())
		return EXIT_FAILURE;
	return report_count(&report, FINDING_PROBLEM) ? EXIT_FAILURE
						      : EXIT_SUCCESS;
}
