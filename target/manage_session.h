/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends sessions of initiators.
 *
 * Thread: any but a worker's.
 */
#ifndef TARGET_MANAGE_SESSION_H
#define TARGET_MANAGE_SESSION_H

#include "target/manage.h"

/* Ends the session of an initiator port, "0x...". Call it with the lock of
 * @m. */
bool manage_kick(struct manage *m, const char *initiator,
		 struct manage_fault *f);

/*
 * Waits until all commands of sessions that were told to end are over. An
 * administrator who has shut out one initiator may let another one write at
 * once, so no command of the first may come later. Call it without the lock.
 */
void manage_await_sessions(struct manage *m);

#endif
