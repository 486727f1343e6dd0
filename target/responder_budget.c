/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/responder_budget.h"

#include <string.h>

bool responder_budget_is_spent(const struct responder_budget *b,
			       unsigned int endpoint_cnt)
{
	return b->reads >= RESPONDER_READS / endpoint_cnt;
}

/* Returns the entry of @host, or the next free one if it has none. */
static unsigned int budget_find(const struct responder_budget *b,
				const uint8_t *host)
{
	unsigned int i;

	for (i = 0; i < b->host_cnt; i++) {
		if (memcmp(b->hosts[i].id, host, DGRAM_HOST_LEN) == 0)
			break;
	}
	return i;
}

bool responder_budget_answer(struct responder_budget *b,
			     const uint8_t host[DGRAM_HOST_LEN])
{
	unsigned int left = RESPONDER_RATE - b->answers;
	unsigned int i = budget_find(b, host);
	bool is_new = i == b->host_cnt;

	if (!left || (!is_new && b->hosts[i].answers * RESPONDER_SHARE >= left))
		return false;
	if (is_new) {
		memcpy(b->hosts[i].id, host, DGRAM_HOST_LEN);
		b->hosts[i].answers = 0;
		b->host_cnt++;
	}
	b->hosts[i].answers++;
	b->answers++;
	return true;
}
