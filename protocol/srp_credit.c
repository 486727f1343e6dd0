/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/srp_credit.h"

#include <assert.h>

void srp_credit_init(struct srp_credit *c, int32_t req_lim)
{
	c->limit = req_lim;
}

bool srp_credit_may_cmd(const struct srp_credit *c)
{
	return c->limit > 1;
}

bool srp_credit_may_tmf(const struct srp_credit *c)
{
	return c->limit > 0;
}

void srp_credit_spend(struct srp_credit *c)
{
	assert(c->limit > 0);
	c->limit--;
}

void srp_credit_add(struct srp_credit *c, int32_t delta)
{
	if (__builtin_add_overflow(c->limit, delta, &c->limit))
		c->limit = delta > 0 ? INT32_MAX : INT32_MIN;
}
