/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/info_options.h"

#include "config.h"
#include "base/list.h"
#include "base/log.h"
#include "base/option_rows.h"

static const struct option_row info_rows[] = {
	OPTION_ROW_JSON(
		info_options,
		.help = "Print one JSON object, with the connection and an "
			"array of volumes. Sizes are in bytes."),
	{ .name = "timeout",
	  .letter = 't',
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 1000,
	  .max = 3600000,
	  .dflt = 5000,
	  .help = "Give up connecting after this time.",
	  OPTION_AT(info_options, timeout_ms) },
	OPTION_ROWS_ABOUT,
};

const struct option_table info_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-info",
	.version = RDMA_BLOCK_VERSION,
	.rows = info_rows,
	.cnt = ARRAY_SIZE(info_rows),
	.head = "Usage: rdma-info [OPTION]... URI\n"
		"Logs in to an SRP target and prints its volumes.\n"
		"\n"
		"URI: srp://HOST[:PORT][/VOLUME][?id_ext=HEX][&ioc_guid=HEX]"
		"[&initiator=HEX]\n"
		"     and the route: source=ADDRESS, gid=GID, pkey=HEX, sl=N,\n"
		"     tos=N, ack-timeout=N\n"
		"  srp://       RDMA when a device reaches HOST, else TCP\n"
		"  srp+rdma://  RDMA only\n"
		"  srp+tcp://   TCP only\n"
		"  Port 5555 when none is given. VOLUME, a name or a LUN: only that one.\n"
		"  HOST[:PORT],HOST[:PORT]... names several addresses.\n"
		"  The kernel's target (ib_srpt) requires its service GUID as ioc_guid, and\n"
		"  an initiator that its access list names.\n"
		"\n",
};

enum option_verdict info_options_parse(int argc, char **argv,
				       struct info_options *ret)
{
	enum option_verdict verdict;
	int first;

	*ret = (struct info_options){ 0 };
	option_defaults(&info_option_table, ret);
	verdict = option_parse(&info_option_table, argc, argv, ret, &first);
	if (verdict != OPTION_RUN)
		return verdict;
	if (first == argc) {
		log_error("no URI; try: rdma-info srp://127.0.0.1");
		return OPTION_BAD;
	}
	if (first < argc - 1) {
		log_error("unexpected '%s' after the URI", argv[first + 1]);
		return OPTION_BAD;
	}
	ret->uri = argv[first];
	return OPTION_RUN;
}
