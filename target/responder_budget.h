/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an endpoint of the responder may do in a second: so many datagrams are read, and
 * so many queries are answered.
 *
 * A host gets an answer while it has had less than 1/RESPONDER_SHARE of what is left.
 * One host alone gets at most RESPONDER_RATE / RESPONDER_SHARE answers. The more hosts
 * ask without end, the fewer each of them gets, and something is always left for a host
 * that has not asked yet.
 *
 * Every answered host has an entry of its own: there are no more answers than entries.
 *
 * Thread: the responder's.
 */
#ifndef TARGET_RESPONDER_BUDGET_H
#define TARGET_RESPONDER_BUDGET_H

#include <stdbool.h>

#include "transport/datagram.h"

/* Datagrams read in a second, of all endpoints. Most of a flood may be no queries. */
#define RESPONDER_READS 20000
/* Answers of one endpoint in a second. */
#define RESPONDER_RATE	200
#define RESPONDER_SHARE 10

/* All zero at the beginning of a second. */
struct responder_budget {
	unsigned int reads;
	unsigned int answers;
	unsigned int host_cnt;
	struct {
		uint8_t id[DGRAM_HOST_LEN];
		uint8_t answers;
	} hosts[RESPONDER_RATE];
};

/* Has an endpoint, one of @endpoint_cnt, read all that it may? */
bool responder_budget_is_spent(const struct responder_budget *b,
			       unsigned int endpoint_cnt);
/* May a query of @host be answered? It counts as answered then. */
bool responder_budget_answer(struct responder_budget *b,
			     const uint8_t host[DGRAM_HOST_LEN]);

#endif
