/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request limit: how many requests (SRP_CMD, SRP_TSK_MGMT) the initiator may
 * have sent on a channel before answers come back (SRP r16a, request limit).
 *
 * Thread: the owner of the channel; nothing here locks.
 */
#ifndef PROTOCOL_SRP_CREDIT_H
#define PROTOCOL_SRP_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/* The initiator's side. */
struct srp_credit {
	int32_t limit; /* requests that may still be sent; may go negative */
};

/* @req_lim: from SRP_LOGIN_RSP */
void srp_credit_init(struct srp_credit *c, int32_t req_lim);

/* The last credit is for task management: a command never takes it. */
bool srp_credit_may_cmd(const struct srp_credit *c);
bool srp_credit_may_tmf(const struct srp_credit *c);

/* One request is sent; srp_credit_may_*() said yes. */
void srp_credit_spend(struct srp_credit *c);

/* A response or target request carried @delta; sums saturate. */
void srp_credit_add(struct srp_credit *c, int32_t delta);

/*
 * The target's side. Each credit is in one place: with the initiator, on a
 * request that was received and not answered, or owed, because its request
 * will never be answered and no IU has carried the credit back yet. The sum
 * is the request limit, and a receive is posted for each one.
 */
struct srp_ledger {
	uint32_t granted; /* the sum */
	uint32_t busy;	  /* received, not answered */
	uint32_t owed;
};

/* @req_lim: as sent in SRP_LOGIN_RSP, at least 1 */
void srp_ledger_init(struct srp_ledger *l, int32_t req_lim);

/* A request arrived. False: the initiator had no credit for it. */
bool srp_ledger_take(struct srp_ledger *l);

/* A request that was taken will never be answered (aborted, reset). */
void srp_ledger_abandon(struct srp_ledger *l);

/*
 * A request that was taken is answered now. Returns the request limit delta
 * that its SRP_RSP must carry: 1 and all that is owed.
 */
int32_t srp_ledger_answer(struct srp_ledger *l);

/* Returns what is owed, to be carried by SRP_CRED_REQ or SRP_AER_REQ. */
int32_t srp_ledger_settle(struct srp_ledger *l);

#endif
