/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/doctor_options.h"

#include <stdlib.h>

#include "config.h"
#include "base/list.h"
#include "base/log.h"
#include "base/option_rows.h"

/* In the order of enum doctor_for. */
static const char *const whom_choices[] = { "all", "target", "client", NULL };

static const struct option_row doctor_rows[] = {
	{ .name = "for",
	  .letter = 'f',
	  .type = OPTION_CHOICE,
	  .value = "PROGRAM",
	  .choices = whom_choices,
	  .dflt_text = "*all*",
	  .help = "Check what *rdma-target* needs (_target_), what *rdma-fuse* "
		  "and other initiators need (_client_), or both (_all_).",
	  OPTION_AT(doctor_options, whom) },
	{ .name = "brief",
	  .letter = 'b',
	  .type = OPTION_FLAG,
	  .help = "Print only notes and problems.",
	  OPTION_AT(doctor_options, brief) },
	OPTION_ROW_JSON(doctor_options,
			.help = "Print one JSON object, with all findings and "
				"measurements."),
	{ .name = "timeout",
	  .letter = 't',
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 1000,
	  .max = 3600000,
	  .dflt = 5000,
	  .help = "Wait at most this long for each step.",
	  OPTION_AT(doctor_options, timeout_ms) },
	OPTION_ROWS_ABOUT,
};

const struct option_table doctor_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-doctor",
	.version = RDMA_BLOCK_VERSION,
	.rows = doctor_rows,
	.cnt = ARRAY_SIZE(doctor_rows),
	.head = "Usage: rdma-doctor [OPTION]... [URI]\n"
		"Without URI, checks this machine: RDMA devices, links, addresses, limits,\n"
		"kernel modules, FUSE, io_uring, memory.\n"
		"With URI, goes from the host name to a login at the target, names the step that\n"
		"fails, and measures latency and bandwidth. It reads and writes no volume.\n"
		"\n"
		"URI: srp://HOST[:PORT][?id_ext=HEX][&ioc_guid=HEX][&initiator=HEX]\n"
		"     and the route: source=ADDRESS, gid=GID, pkey=HEX, sl=N,\n"
		"     tos=N, ack-timeout=N\n"
		"  srp://       RDMA when a device reaches HOST, else TCP\n"
		"  srp+rdma://  RDMA only\n"
		"  srp+tcp://   TCP only\n"
		"  HOST[:PORT],HOST[:PORT]... names several addresses.\n"
		"\n"
		"Exit status 1: there is a problem.\n"
		"\n",
};

enum option_verdict doctor_options_parse(int argc, char **argv,
					 struct doctor_options *ret)
{
	enum option_verdict verdict;
	const char *root = getenv("RDMA_DOCTOR_ROOT"); /* NOLINT: setup */
	int first;

	*ret = (struct doctor_options){ .root = root ? root : "" };
	option_defaults(&doctor_option_table, ret);
	verdict = option_parse(&doctor_option_table, argc, argv, ret, &first);
	if (verdict != OPTION_RUN)
		return verdict;
	if (first < argc - 1) {
		log_error("unexpected '%s' after the URI", argv[first + 1]);
		return OPTION_BAD;
	}
	ret->uri = first < argc ? argv[first] : NULL;
	return OPTION_RUN;
}
