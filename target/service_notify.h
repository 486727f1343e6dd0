/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the service manager when the target is ready and when it begins to
 * stop, by the protocol of sd_notify(3). Without NOTIFY_SOCKET in the
 * environment, nothing is sent.
 *
 * Thread: any, but the socket is opened and closed by the main worker's.
 */
#ifndef TARGET_SERVICE_NOTIFY_H
#define TARGET_SERVICE_NOTIFY_H

#include <stdint.h>

#define SERVICE_READY	 "READY=1"
#define SERVICE_STOPPING "STOPPING=1"
#define SERVICE_ALIVE	 "WATCHDOG=1"

/* Return: a socket, which the caller closes, or -1 if there is no service
 * manager or (logged) it cannot be reached. */
int service_notify_open(void);

/* Sends @state to the service manager. @fd may be -1: then nothing happens. A
 * failure is logged. Waits at most two seconds for a service manager that hangs. */
void service_notify(int fd, const char *state);

/* Microseconds within which the service manager expects each SERVICE_ALIVE; 0:
 * it expects none (sd_watchdog_enabled(3)). Thread: any. */
uint64_t service_watchdog_us(void);

#endif
