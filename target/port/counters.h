/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a worker has done since it was started, for people and for benchmarks:
 * the difference of two of its lines, divided by the commands between them, is
 * what one command costs. rdma-target writes them at SIGUSR2.
 */
#ifndef TARGET_PORT_COUNTERS_H
#define TARGET_PORT_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reactor.h"

struct worker;

/* The worker's; what the reactor and the transports count is theirs. */
struct counters {
	uint64_t commands; /* SRP_CMD that were answered */
	uint64_t copied;   /* bytes of payload copied by the processor */
	uint64_t waits;	   /* commands that had to wait for a buffer */

	struct reactor_msg msg; /* private, as the next */
	atomic_bool sent;
};

/*
 * Has each of @cnt workers log a line about itself, and one for each of its
 * transports, soon. Thread: any.
 */
void counters_log(struct worker *workers, unsigned int cnt);

#endif
