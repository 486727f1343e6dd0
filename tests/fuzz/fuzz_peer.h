/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators that send any bytes and keep a record: which requests were sent
 * and may be answered, once; which memory the target may access for each of
 * them; how many credits it owes. Anything else that the target does is a
 * finding.
 */
#ifndef TESTS_FUZZ_FUZZ_PEER_H
#define TESTS_FUZZ_FUZZ_PEER_H

#include "tests/fuzz/fuzz_target.h"
#include "tests/lib/t_ini.h"

#define FUZZ_CHANS    8
#define FUZZ_REQUESTS 128 /* unanswered requests of a channel */

/* A request that was sent. */
struct fuzz_sent {
	uint64_t tag;
	uint64_t lun; /* the LUN field */
	bool is_tmf;
	/* If several requests have one tag: there are as many answers as true
	 * values, but nobody knows for which request. */
	bool answered;
	/* SRP_TSK_MGMT */
	uint8_t function;
	uint64_t task_tag;
	unsigned int store_cnt; /* value of t_store.cnt when it was
				       * sent */
	/* SRP_CMD: the memory that the target may access. After it has read a
	 * table, the memory that the table names. */
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
	bool exempt; /* a fault other than the bytes sent has occurred */
	struct srp_login_req req;
	struct srp_cmd_rules rules;
	int64_t limit; /* credits left; negative: it has sent too much */
	int32_t req_lim;
	unsigned int free_cnt; /* IUs sent that need no credit */
	bool silent;	/* SRP_CRED_REQ and SRP_AER_REQ are not answered */
	bool asked;	/* one of these is unanswered */
	bool ended_set; /* a function may have ended commands silently */
	struct fuzz_sent sent[FUZZ_REQUESTS]; /* in the order they were sent */
	unsigned int sent_cnt;
	uint64_t last_tag;
	/* Called for each answer, after the record is updated; may be NULL. */
	void (*answered)(struct fuzz_chan *ch, const struct srp_rsp *rsp);
};

/* Commands were sent that change blocks of other units, or that continue after
 * their answer. */
extern bool fuzz_peer_goes_on;

/* Some initiator has sent more than its credits allow before the target could
 * react, and more than the target has receives for. */
extern bool fuzz_peer_overruns;

/* Begins to log in with @len bytes of private data. */
void fuzz_peer_connect(struct fuzz_chan *ch, unsigned int who,
		       const void *pdata, size_t len);

/* A login request like that of ib_srp. */
struct srp_login_req fuzz_peer_login(unsigned int who, bool multi);

/* Sends @len bytes, if the channel is open. */
void fuzz_peer_send(struct fuzz_chan *ch, const void *iu, size_t len);

/* After everything has settled without faults: every request has been answered,
 * and every credit is back. */
void fuzz_peer_check(const struct fuzz_chan *ch);

/* Frees a closed channel. */
void fuzz_peer_free(struct fuzz_chan *ch);

#endif
