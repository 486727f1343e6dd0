/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of a file. A file that was made or renamed is still under its name
 * after a crash only if its directory was flushed, too. Thread: any.
 */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

/* Opens the directory of @path: a file descriptor for fsync(), or a negative errno. */
int directory_open_of(const char *path);

/* Flushes the directory of @path. Returns 0 or a negative errno. */
int directory_sync_of(const char *path);

#endif
