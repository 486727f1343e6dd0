/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/option_fault.h"

#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "base/log.h"

void option_fault_log(int c, char *const argv[])
{
	const char *arg = argv[optind - 1];

	if (c == ':')
		log_error("a value is missing after '%s'; try --help", arg);
	else if (optopt && !strncmp(arg, "--", 2) && strchr(arg, '='))
		log_error("no value is possible in '%s'; try --help", arg);
	/* Letters behind it may be left, and @arg another one then. */
	else if (optopt && optopt <= UCHAR_MAX)
		log_error("unknown option '-%c'; try --help", optopt);
	else
		log_error("unknown option '%s'; try --help", arg);
}
