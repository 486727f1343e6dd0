/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators that send whatever they like, and keep account: which requests
 * were sent and may be answered, once; what memory the target was given with
 * each of them; how many credits it owes. What the target does beyond that is
 * a finding.
 */
#ifndef TESTS_FUZZ_FUZZ_PEER_H
#define TESTS_FUZZ_FUZZ_PEER_H

#include "tests/fuzz/fuzz_target.h"
#include "tests/lib/t_ini.h"

#define FUZZ_CHANS    8
#define FUZZ_REQUESTS 128 /* unanswered, of a channel */

/* A request that was sent. */
struct fuzz_sent {
	uint64_t tag;
	uint64_t lun; /* the field */
	bool is_tmf;
	/* Of several with one tag: as many answers have come as there are
	 * such, nobody knows for which. */
	bool answered;
	/* SRP_TSK_MGMT */
	uint8_t function;
	uint64_t task_tag;
	unsigned long long store_cnt; /* fuzz_store_cnt() then */
	/* SRP_CMD: what the target may touch. With a table, once it has read
	 * that, what lies there. */
	struct srp_desc table;
	struct srp_desc *out;
	uint32_t out_cnt;
	struct srp_desc *in;
	uint32_t in_cnt;
	bool table_is_out;
};

struct fuzz_chan {
	struct t_ini ini;
	unsigned int who;
	bool exempt; /* something else than what was sent went wrong */
	struct srp_login_req req;
	struct srp_cmd_rules rules;
	int64_t limit; /* credits left; below zero: it sends too much */
	int32_t req_lim;
	unsigned int free_cnt; /* IUs sent that take no credit */
	bool silent;	/* SRP_CRED_REQ and SRP_AER_REQ are not answered */
	bool asked;	/* one of them has not been */
	bool ended_set; /* a function may have ended commands unsaid */
	struct fuzz_sent sent[FUZZ_REQUESTS]; /* in order */
	unsigned int sent_cnt;
	uint64_t last_tag;
	/* Called for each answer, after the account; may be NULL. */
	void (*answered)(struct fuzz_chan *ch, const struct srp_rsp *rsp);
};

/* Commands have been sent that change blocks of other units, or go on after
 * their answer. */
extern bool fuzz_peer_goes_on;

/* Somebody has sent more than he has credits for, before the target could look:
 * more than it has receives for. */
extern bool fuzz_peer_overruns;

/* Begins to log in with @len bytes of private data. */
void fuzz_peer_connect(struct fuzz_chan *ch, unsigned int who,
		       const void *pdata, size_t len);

/* The login request that ib_srp makes. */
struct srp_login_req fuzz_peer_login(unsigned int who, bool multi);

/* Sends @len bytes. Does nothing on a channel that is not open. */
void fuzz_peer_send(struct fuzz_chan *ch, const void *iu, size_t len);

/* After everything has settled with nobody in the way: everything has been
 * answered, and every credit is back. */
void fuzz_peer_check(const struct fuzz_chan *ch);

/* Frees what is closed. */
void fuzz_peer_free(struct fuzz_chan *ch);

#endif
