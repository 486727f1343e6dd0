/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-ctl: options, then a verb with its arguments. Thread:
 * main. */
#ifndef CTL_CTL_OPTIONS_H
#define CTL_CTL_OPTIONS_H

#include <stdbool.h>

#include "base/option.h"

struct ctl_options {
	const char *control; /* path; borrowed. NULL: not found yet */
	int timeout_ms;
	bool json;
	bool dry_run;
	bool prune;
	bool force;
};

extern const struct option_table ctl_option_table;
extern const struct option_table ctl_verb_table; /* for texts */

#endif
