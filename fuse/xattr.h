/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended attributes of the files: how the mount is doing, for getfattr.
 * They are answered from memory, whatever the state.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_XATTR_H
#define FUSE_XATTR_H

#include <stddef.h>

#include "fuse/tree.h"

struct dev;

/* Room for any value, and for the list of names. */
#define XATTR_MAX 1024

/* Return: the length of the value, without a NUL; -ENODATA: no such name. */
int xattr_get(const struct dev *dev, const struct tree_file *f,
	      const char *name, char buf[XATTR_MAX]);

/* The names, each with its NUL; returns the length. */
size_t xattr_list(char buf[XATTR_MAX]);

#endif
