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

void srp_ledger_init(struct srp_ledger *l, int32_t req_lim)
{
	assert(req_lim > 0);
	*l = (struct srp_ledger){ .granted = (uint32_t)req_lim };
}

bool srp_ledger_take(struct srp_ledger *l)
{
	/* What is busy or owed is part of granted, so this cannot overflow. */
	if (l->busy + l->owed == l->granted)
		return false;
	l->busy++;
	return true;
}

void srp_ledger_abandon(struct srp_ledger *l)
{
	assert(l->busy > 0);
	l->busy--;
	l->owed++;
}

int32_t srp_ledger_settle(struct srp_ledger *l)
{
	int32_t delta = (int32_t)l->owed;

	l->owed = 0;
	return delta;
}

int32_t srp_ledger_answer(struct srp_ledger *l)
{
	srp_ledger_abandon(l);
	return srp_ledger_settle(l);
}
