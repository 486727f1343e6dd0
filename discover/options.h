/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-discover. Thread: setup. */
#ifndef DISCOVER_OPTIONS_H
#define DISCOVER_OPTIONS_H

#include "base/key_file.h"
#include "base/log.h"
#include "base/option.h"
#include "discover/finder.h"

struct discover_options {
	struct finder_options finder;
	struct key_file keys;		     /* of finder.key */
	const char *hosts[FINDER_HOSTS_MAX]; /* borrowed from argv */
	bool json;
	bool add_target;
	const char *mount; /* VOLUME=DIR; NULL: mount nothing */
	const char
		*serves; /* a URI: check whether a target serves there; NULL: do
			  * not */
	int wait_ms;
	bool daemon;
	const char *rules;
	int period_ms;
	enum log_level log_level;
};

extern const struct option_table discover_option_table;

enum option_verdict discover_options_parse(int argc, char **argv,
					   struct discover_options *ret);

#endif
