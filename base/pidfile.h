/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PID file of a program: opened and locked early, while its user may and
 * nothing has begun; written when all is ready; gone in the end. The lock keeps
 * two programs off one file: the second would replace what the first wrote, and
 * remove it.
 *
 * Thread: setup.
 */
#ifndef BASE_PIDFILE_H
#define BASE_PIDFILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

struct pidfile {
	char path[PATH_MAX]; /* absolute: a daemon changes its directory */
	int fd;		     /* -1: none */
	bool written;
};

/* @path NULL: none, which the others take as well. Return: 0; -EBUSY, when the
 * program whose it is still runs; -errno. */
int pidfile_open(struct pidfile *p, const char *path, struct error *e);

/* This process. Return: 0; -errno. */
int pidfile_write(struct pidfile *p, struct error *e);

/* Removes it or, who may not any more, leaves it empty; but one that was there
 * before and was not written to stays as it is. Can be called again. */
void pidfile_remove(struct pidfile *p);

#endif
