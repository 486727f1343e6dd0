/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files of the kernel, below a root directory. Thread: any. */
#ifndef DOCTOR_MACHINE_FILE_H
#define DOCTOR_MACHINE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_PATH_SIZE 512

/* Each path is made of @root and @fmt. A path that is too long is cut, and then
 * names no file. */

/* Reads the first line into @buf, without blanks at its end. False: there is
 * none, and @buf is empty. */
bool machine_line(const char *root, char *buf, size_t size, const char *fmt,
		  ...) __attribute__((format(printf, 4, 5)));
/* Returns the number at the start of the file; @dflt if there is none. */
int64_t machine_number(const char *root, int64_t dflt, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* True if there is such a file. */
bool machine_has(const char *root, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Opens the file for reading and writing, and closes it. Returns 0 or a
 * negative errno. */
int machine_try_open(const char *root, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Reads the text after @key at the start of a line of the file. False: no such
 * line. */
bool machine_value(const char *root, const char *path, const char *key,
		   char *buf, size_t size);
/* True if a line of the file contains the text @part. */
bool machine_mentions(const char *root, const char *path, const char *part);
/*
 * Calls @each for the entries of a directory, sorted by name, without those
 * that begin with a dot, until it returns false.
 */
void machine_each(const char *root, const char *path,
		  bool (*each)(void *user, const char *name), void *user);

#endif
