/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-doctor. Thread: setup. */
#ifndef DOCTOR_DOCTOR_OPTIONS_H
#define DOCTOR_DOCTOR_OPTIONS_H

#include "base/option.h"

enum doctor_for {
	DOCTOR_FOR_ALL,
	DOCTOR_FOR_TARGET,
	DOCTOR_FOR_CLIENT,
};

struct doctor_options {
	const char *uri; /* borrowed from argv; NULL: this machine */
	bool json;
	bool brief;
	int whom; /* enum doctor_for */
	int timeout_ms;
	/* From the environment, for tests: RDMA_DOCTOR_ROOT; "": none. */
	const char *root;
};

extern const struct option_table doctor_option_table;

enum option_verdict doctor_options_parse(int argc, char **argv,
					 struct doctor_options *ret);

#endif
