/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a mount: log in, mount, serve, unmount, flush, log out.
 *
 * Thread: setup; it runs the reactor until the end.
 */
#ifndef FUSE_CLIENT_H
#define FUSE_CLIENT_H

#include <signal.h>

#include "fuse/mount.h"
#include "fuse/options.h"

/* The signals that end a mount, and SIGCHLD. */
void client_signals(sigset_t *ret);

/**
 * client_run() - serve the mount until it is unmounted or a signal ends it
 * @m:     from mount_check()
 * @ready: called once when the mount works; if it logs an error and returns other
 *         than 0, the mount ends
 *
 * The signals of client_signals() must be blocked.
 *
 * Return: the exit status. All errors are logged.
 */
int client_run(const struct fuse_options *o, struct mount *m,
	       int (*ready)(void *arg), void *arg);

#endif
