/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-info. Thread: setup. */
#ifndef INITIATOR_INFO_OPTIONS_H
#define INITIATOR_INFO_OPTIONS_H

#include "base/option.h"

struct info_options {
	const char *uri; /* borrowed from argv */
	bool json;
	int timeout_ms;
};

extern const struct option_table info_option_table;

enum option_verdict info_options_parse(int argc, char **argv,
				       struct info_options *ret);

#endif
