/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of rdma-discover about targets. Thread: main. */
#ifndef DISCOVER_PRINT_H
#define DISCOVER_PRINT_H

#include "discover/found.h"

void show_text(const struct found *f);
/* Only in builds with HAVE_JSON. */
void show_json(const struct found *f);
/* Prints a line for each address that ib_srp can use. */
void show_add_target(const struct found *f);

#define PRINT_ADD_TARGET_SIZE 192
/* Writes the line, without its end, to @buf of PRINT_ADD_TARGET_SIZE bytes. */
const char *add_target_text(const struct found_target *t,
			    const struct found_address *a, char *buf);

#endif
