/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions of initiators that are to end.
 *
 * Thread: any but a worker's.
 */
#ifndef TARGET_MANAGE_SESSION_H
#define TARGET_MANAGE_SESSION_H

#include "target/manage.h"

/* Ends the session of an initiator port, "0x...". With the lock of @m. */
bool manage_kick(struct manage *m, const char *initiator,
		 struct manage_fault *f);

/*
 * Waits until no command of sessions that were told to end is left. Whoever has
 * shut an initiator out may let another one write at once: nothing of the first may
 * come after that. Without the lock.
 */
void manage_await_sessions(struct manage *m);

#endif
