/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that this program writes for itself (PID files, locks, state) in directories
 * that may belong to another user. Such a user could put a link or a pipe under the
 * name, to let this process change a file that only it may change.
 *
 * Thread: any. These functions may block.
 */
#ifndef BASE_OWN_FILE_H
#define BASE_OWN_FILE_H

#include <sys/types.h>

/*
 * Opens the file @name in the directory @dir; see directory_find_of(). If others can
 * write to the directory, the file must be a regular file with one name. @flags and
 * @mode are those of open(), without O_TRUNC. Returns a descriptor, which the caller
 * closes, or a negative errno: -ELOOP for a link, -EPERM for other things that are
 * refused.
 */
int own_file_open(int dir, const char *name, int flags, mode_t mode);

/* The same by path, and if a link on the way is not followed: -ELOOP. */
int own_file_open_path(const char *path, int flags, mode_t mode);

/* Makes a new file and opens it for reading and writing, for a rename() over the file
 * that it replaces. Removes what has the name @path. Returns as own_file_open(). */
int own_file_create(const char *path, mode_t mode);

/* strerror(), but it says what -ELOOP and -EPERM of these functions mean. */
const char *own_file_strerror(int err);

#endif
