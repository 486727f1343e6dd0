/* SPDX-License-Identifier: BSD-2-Clause */
/* Command line and configuration file together. Thread: setup. */
#ifndef TARGET_CONFIGURE_H
#define TARGET_CONFIGURE_H

#include "target/options.h"

struct configuration {
	struct target_options opt;
	/* What the file says (control/config.h); @opt borrows from it. NULL:
	 * there is no file. */
	struct json_t *file;
	/* What file and command line say together, without defaults. */
	struct json_t *all;
};

/*
 * Reads the command line, and the file that --config names. With --check it reads
 * that file instead, prints what is in it, and the verdict is OPTION_DONE. Free
 * with configuration_free(), whatever the verdict.
 */
enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret);
void configuration_free(struct configuration *c);

#endif
