/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits of an endpoint of the responder for one second: datagrams that it
 * reads, and queries that it answers.
 *
 * A host gets an answer if it has had less than 1/RESPONDER_SHARE of the
 * remaining answers. A single host gets at most RESPONDER_RATE /
 * RESPONDER_SHARE answers. The more hosts send endless queries, the fewer
 * answers each of them gets, and some are always left for a new host.
 *
 * Every answered host has an entry of its own: there are no more answers than
 * entries.
 *
 * Thread: the responder's.
 */
#ifndef TARGET_RESPONDER_BUDGET_H
#define TARGET_RESPONDER_BUDGET_H

#include <stdbool.h>

#include "transport/datagram.h"

/* Datagrams that all endpoints read per second. Most of a flood may be no
 * queries. */
#define RESPONDER_READS 20000
/* Answers of one endpoint per second. */
#define RESPONDER_RATE	200
#define RESPONDER_SHARE 10

/* All members are zero at the beginning of a second. */
struct responder_budget {
	unsigned int reads;
	unsigned int answers;
	unsigned int host_cnt;
	struct {
		uint8_t id[DGRAM_HOST_LEN];
		uint8_t answers;
	} hosts[RESPONDER_RATE];
};

/* True if an endpoint, one of @endpoint_cnt, has read its maximum. */
bool responder_budget_is_spent(const struct responder_budget *b,
			       unsigned int endpoint_cnt);
/* True if a query of @host may be answered. Then counts it as answered. */
bool responder_budget_answer(struct responder_budget *b,
			     const uint8_t host[DGRAM_HOST_LEN]);

#endif
