/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PID file of a program. The program opens and locks it early, while it has
 * the rights of the user that started it. It writes the file when it is ready,
 * and removes it at the end. The lock keeps two programs from using one file:
 * the second would replace what the first wrote, and remove it.
 *
 * Thread: setup.
 */
#ifndef BASE_PIDFILE_H
#define BASE_PIDFILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

struct pidfile {
	char path[PATH_MAX]; /* as given, for messages */
	const char *name;    /* the end of it */
	int dir;	     /* a daemon changes its directory; -1: none */
	int fd;		     /* -1: none */
	bool written;
};

/* @path NULL: no file; the other functions accept that. Return: 0; -EBUSY if
 * the program that uses the file still runs; -errno. */
int pidfile_open(struct pidfile *p, const char *path, struct error *e);

/* Writes the ID of this process. Return: 0; -errno. */
int pidfile_write(struct pidfile *p, struct error *e);

/* Removes the file, or empties it if this process may not remove it any more. A
 * file that existed before and was not written stays as it is. May be called
 * again. */
void pidfile_remove(struct pidfile *p);

#endif
