/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-target --daemonize: the command returns when the target serves, with 0, or when it
 * cannot start, with its exit status. The target forks before it does anything else: no
 * ring, thread or lock survives a fork. The child is the target.
 *
 *                                 command            target
 *   it serves                     exits with 0       leaves the terminal
 *   it cannot start               exits with 1       has said why, and ended
 *   SIGINT, SIGTERM or SIGHUP     passes it on,      ends: then the command exits
 *   before that                   and waits          with 1
 *   SIGKILL of the command        has ended          ends when it is ready
 *
 * Thread: setup.
 */
#ifndef TARGET_DAEMON_H
#define TARGET_DAEMON_H

#include <stdbool.h>

/* Returns in the child: *ret_ready_fd is for daemon_ready(). In the command, it exits when
 * the child is ready or has ended. */
void daemon_fork(int *ret_ready_fd);

/* The target serves. The log goes on where stderr is a file or a stream of the journal,
 * else to the journal or to syslog. False: the command has ended, and so shall the
 * target. */
bool daemon_ready(int ready_fd);

/* In a child of the target, which is not to hold the terminal, and whose end the command
 * does not wait for. Harmless without --daemonize (-1). */
void daemon_leave(int ready_fd);

#endif
