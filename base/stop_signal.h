/* SPDX-License-Identifier: BSD-2-Clause */
/* A second signal ends a program at once. Programs such as timeout(1) send each signal twice,
 * to the process and to its group: what comes soon after the first is not a second one.
 * Thread: any; also in a handler of signals. */
#ifndef BASE_STOP_SIGNAL_H
#define BASE_STOP_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ticks.h"

#define STOP_SIGNAL_ONE_MS 500

/* Does the signal that has come at @first_ms (ticks_clock_ms()) come once more? */
static inline bool stop_signal_is_same(uint64_t first_ms)
{
	return ticks_clock_ms() - first_ms < STOP_SIGNAL_ONE_MS;
}

#endif
