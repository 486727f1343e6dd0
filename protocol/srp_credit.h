/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The request limit: how many requests (SRP_CMD, SRP_TSK_MGMT) the initiator
 * may send on a channel before it gets a response (SRP r16a, request limit).
 *
 * Thread: the owner of the channel. Nothing here locks.
 */
#ifndef PROTOCOL_SRP_CREDIT_H
#define PROTOCOL_SRP_CREDIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* The initiator's side. */
struct srp_credit {
	int32_t limit; /* requests that may still be sent; may go negative */
};

/* @req_lim: from SRP_LOGIN_RSP */
static inline void srp_credit_init(struct srp_credit *c, int32_t req_lim)
{
	c->limit = req_lim;
}

/* The last credit is for task management: a command never takes it. */
static inline bool srp_credit_may_cmd(const struct srp_credit *c)
{
	return c->limit > 1;
}

/* Counts a sent request. The initiator must have a credit for it. */
static inline void srp_credit_spend(struct srp_credit *c)
{
	assert(c->limit > 0);
	c->limit--;
}

/* Adds the @delta of a response or of a request of the target. The sum
 * saturates. */
static inline void srp_credit_add(struct srp_credit *c, int32_t delta)
{
	if (__builtin_add_overflow(c->limit, delta, &c->limit))
		c->limit = delta > 0 ? INT32_MAX : INT32_MIN;
}

/*
 * The target's side. Each credit is in one of three places: the initiator has
 * it, a received request without response has it, or the target owes it. The
 * target owes the credit of a request that it will never answer, until an IU
 * returns the credit. The sum is the request limit, and a receive is posted for
 * each credit.
 */
struct srp_ledger {
	uint32_t granted; /* the sum */
	uint32_t busy;	  /* received, not answered */
	uint32_t owed;
};

/* @req_lim: as sent in SRP_LOGIN_RSP, at least 1 */
static inline void srp_ledger_init(struct srp_ledger *l, int32_t req_lim)
{
	assert(req_lim > 0);
	*l = (struct srp_ledger){ .granted = (uint32_t)req_lim };
}

/* A request has arrived. False: the initiator had no credit for it. */
static inline bool srp_ledger_take(struct srp_ledger *l)
{
	/* What is busy or owed is part of granted, so this cannot overflow. */
	if (l->busy + l->owed == l->granted)
		return false;
	l->busy++;
	return true;
}

/* True if the initiator has no credit for a command, because the last one is for
 * task management. */
static inline bool srp_ledger_is_short(const struct srp_ledger *l)
{
	return l->granted - l->busy - l->owed <= 1;
}

/* The target will never answer a request that was taken (aborted, reset). */
static inline void srp_ledger_abandon(struct srp_ledger *l)
{
	assert(l->busy > 0);
	l->busy--;
	l->owed++;
}

/* Returns the owed credits, for SRP_CRED_REQ or SRP_AER_REQ. */
static inline int32_t srp_ledger_settle(struct srp_ledger *l)
{
	int32_t delta = (int32_t)l->owed;

	l->owed = 0;
	return delta;
}

/* The target now answers a request that was taken. Returns the request limit
 * delta for its SRP_RSP: 1, and all owed credits. */
static inline int32_t srp_ledger_answer(struct srp_ledger *l)
{
	srp_ledger_abandon(l);
	return srp_ledger_settle(l);
}

#endif
