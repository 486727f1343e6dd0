/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of srpcopy. Thread: setup. */
#ifndef COPY_OPTIONS_H
#define COPY_OPTIONS_H

#include <stdint.h>

#include "base/log.h"
#include "base/option.h"

struct copy_options {
	const char *source; /* borrowed from argv, as destination */
	const char *destination;
	unsigned int requests;
	uint32_t request_size; /* bytes */
	uint32_t sparse;       /* bytes; 0: zeroes are written as data */
	unsigned int channels; /* 0: libsrpi chooses */
	int timeout_ms;
	int wait_ms;
	const char *resume; /* state file; NULL: none */
	bool progress;
	bool verify;  /* verify after the copy */
	bool compare; /* compare instead of copying */
	enum log_level log_level;
};

extern const struct option_table copy_option_table;

enum option_verdict copy_options_parse(int argc, char **argv,
				       struct copy_options *ret);

#endif
