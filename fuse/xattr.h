/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended attributes of the files: the state and the counters of the mount, for
 * getfattr. They need no answer of the target, and work in every state.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_XATTR_H
#define FUSE_XATTR_H

#include <stddef.h>

#include "fuse/tree.h"

struct dev;

/* Holds every value, and the list of names. */
#define XATTR_MAX 1024

/* Returns the length of the value, which has no NUL. -ENODATA: no such name. */
int xattr_get(const struct dev *dev, const struct tree_file *f,
	      const char *name, char buf[XATTR_MAX]);

/* Lists the names, each with a NUL. Returns the length. */
size_t xattr_list(char buf[XATTR_MAX]);

#endif
