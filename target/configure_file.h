/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file's part of struct configuration. Only in builds with
 * jansson. Thread: setup.
 */
#ifndef TARGET_CONFIGURE_FILE_H
#define TARGET_CONFIGURE_FILE_H

#include "target/configure.h"

/*
 * @c->opt has the values of the command line. If it names a file, reads the
 * file and then the command line again, and stores the values of both in
 * @c->all. With --check, reads and prints the file instead; the verdict is
 * OPTION_DONE.
 */
enum option_verdict configuration_read_file(int argc, char **argv,
					    struct configuration *c);
void configuration_drop_file(struct configuration *c);

/* Are the plugins of @spec there, of the right kind, and do they know the parameters? Loads
 * them. False, with one clause in @e: no. */
bool configuration_check_store(const struct volume_spec *spec, struct error *e);

#endif
