/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loop devices give a file another name: what is a mounted disk there must not
 * be written to by way of the file. The kernel does not lock the file.
 */
#ifndef TARGET_BLOCK_LOOP_USE_H
#define TARGET_BLOCK_LOOP_USE_H

#include <stdbool.h>
#include <sys/stat.h>

#define LOOP_NAME_MAX 32

/* A loop device on the regular file @file that is in use: mounted, a part of
 * another device, or served. *ret_name: its path. Thread: setup. */
bool loop_in_use(const struct stat *file, char ret_name[LOOP_NAME_MAX]);

/* The file below the loop device @dev, or below the one of which @dev is a
 * partition. False: @dev is neither, or the file has no name here. Thread:
 * setup. */
bool loop_file(dev_t dev, struct stat *ret_file);

#endif
