/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls that serving needs, and no others: what an attacker who has
 * taken the process over would want next (run a program, connect to others,
 * trace, mount) ends it instead, with a line in the log that names the call.
 * Which files can be opened is a matter of user and mount name space, not of
 * this filter. What io_uring does it does not see either: each worker's ring
 * takes only the operations that serving needs (worker.c), and there are no
 * others, as io_uring_setup() is not allowed.
 *
 * One way to begin a connection is left: a SEND through the ring with
 * MSG_FASTOPEN on a listening socket that was shut down first, where
 * net.ipv4.tcp_fastopen lets clients do that.
 */
#ifndef TARGET_SANDBOX_H
#define TARGET_SANDBOX_H

#include <stdbool.h>

#include "base/error.h"

/*
 * For all threads of the process, those of plugins too. @network: a plugin makes
 * connections, so the calls for them are allowed. Not in builds without libseccomp,
 * nor with a sanitizer, whose run-time needs more; the log says so, for people who
 * ask for details.
 *
 * Thread: setup. Return: 0, or -errno with one clause in @e.
 */
int sandbox_enter(bool network, struct error *e);

#endif
