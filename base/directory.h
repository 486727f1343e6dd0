/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of a file. A file that was made or renamed is still under its name
 * after a crash only if its directory was flushed, too.
 *
 * The way to it follows a symbolic link only where nobody but root and this user could
 * have put it. Otherwise another user would choose where this process writes.
 * Thread: any.
 */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include <stdbool.h>

/*
 * Finds the directory of @path. Returns a descriptor (O_PATH) for the calls that take a
 * directory and a name, with the name, a part of @path, in *@ret_name; or a negative
 * errno: -ELOOP for a link that is not followed. The caller closes the descriptor.
 */
int directory_find_of(const char *path, const char **ret_name);

/* The same, as a descriptor for fsync(). */
int directory_open_of(const char *path);

/* Flushes the directory of @path. Returns 0 or a negative errno. */
int directory_sync_of(const char *path);

/* Can only root and this user change the entries of the directory @dir? */
bool directory_is_ours(int dir);

#endif
