/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line and the configuration file together. Thread: setup. */
#ifndef TARGET_CONFIGURE_H
#define TARGET_CONFIGURE_H

#include "config/control_path.h"
#include "config/options.h"

struct configuration {
	struct target_options opt;
	/* The contents of the file (config/config_json.h); @opt borrows from it.
	 * NULL: there is no file. */
	struct json_t *file;
	/* The values of file and command line together, without defaults. */
	struct json_t *all;
	int ready_fd; /* of daemon_fork(); -1: nobody waits for the start */
	/* Of opt.control, if no option names the socket; else empty. */
	struct control_path own_control;
};

/*
 * Reads the command line, and the file of --config. With --check, it reads that
 * file instead, prints a summary, and returns OPTION_DONE. Always free @c with
 * configuration_free().
 */
enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret);
void configuration_free(struct configuration *c);

/* ---- parts of it ---- */

/* Adds the options of a command line. A single value replaces the one
 * before. */
enum option_verdict configuration_add(int argc, char **argv,
				      struct target_options *opt);
/* Fills in the defaults that depend on other options, checks combinations of options, and
 * looks at the directory and the key that they name: nothing before opens a file. Return:
 * NULL, or the name of the option to change ("": none alone), and @e says why. */
const char *configuration_complete(struct target_options *opt, struct error *e);
/* The same for a command line. False: one line was logged. */
bool configuration_finish(struct target_options *opt);

#endif
