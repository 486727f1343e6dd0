/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A filter for system calls: it allows those that serving needs. If an attacker
 * takes over the process, the next call (run a program, connect to others,
 * trace, mount) ends the process, and a line in the log names the call. The
 * filter does not restrict which files can be opened: the user and the mount
 * namespace do. It does not see what io_uring does. For this reason each
 * worker's ring takes only the operations that serving needs (worker.c), and no
 * other ring can be made, because io_uring_setup() is not allowed.
 *
 * One way to open a connection is left: a SEND through the ring with
 * MSG_FASTOPEN, on a listening socket that was shut down before, if
 * net.ipv4.tcp_fastopen allows clients to do that.
 */
#ifndef TARGET_SANDBOX_H
#define TARGET_SANDBOX_H

#include <stdbool.h>

#include "base/error.h"

/*
 * For all threads of the process, including those of plugins. @network: a
 * plugin opens connections, so the calls for them are allowed. Else no socket can
 * be made, but those of netlink. Only in builds with HAVE_SANDBOX: with libseccomp, and without
 * a sanitizer, whose run-time library needs more calls.
 *
 * Thread: setup. Return: 0, or -errno with one clause in @e.
 */
int sandbox_enter(bool network, struct error *e);

/* The same for the process of the responder: it may open UDP sockets, and can send
 * any datagram to any address. It has no ring and changes no files. */
int sandbox_enter_responder(struct error *e);

#endif
