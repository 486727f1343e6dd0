/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a service manager is told, as sd_notify(3) has it: that all is ready,
 * and that the end has begun. Nobody is told where nobody asks, which is
 * without NOTIFY_SOCKET in the environment.
 *
 * Thread: the main worker's.
 */
#ifndef TARGET_NOTIFY_H
#define TARGET_NOTIFY_H

#define NOTIFY_READY	"READY=1"
#define NOTIFY_STOPPING "STOPPING=1"

/* A descriptor to be told by, to be closed by the caller; -1: nobody asks, or
 * (logged) he cannot be reached. */
int notify_open(void);

/* @fd may be -1. */
void notify_tell(int fd, const char *what);

#endif
