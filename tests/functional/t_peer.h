/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An initiator that may break the rules. It logs in with any bytes and sends
 * any bytes, directly on the transport. Each function waits for its result,
 * unless it says otherwise.
 */
#ifndef TESTS_FUNCTIONAL_T_PEER_H
#define TESTS_FUNCTIONAL_T_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/t_ini.h"

/* Memory that the target may read and write; and the largest IU. */
#define T_PEER_MEM_LEN (1u << 20)
#define T_PEER_IU_LEN  16384u

/* The result of a login or of an IU. */
enum t_outcome {
	T_LOGGED_IN,
	T_REJECTED, /* peer->ini.rej.reason; 0: without SRP_LOGIN_REJ */
	T_ANSWERED, /* peer->rsp */
	T_CLOSED,
};

struct t_peer {
	struct reactor *reactor;
	struct xp *xp;
	struct t_ini ini;   /* its channel, if there is one */
	struct srp_rsp rsp; /* the last answer */

	uint8_t *mem; /* T_PEER_MEM_LEN bytes, registered as mr */
	struct xp_mr *mr;
};

void t_peer_init(struct t_peer *p);
void t_peer_fini(struct t_peer *p);

/* A login request like that of libsrpi, from a new initiator each time. */
struct srp_login_req t_peer_login_req(void);

/* Returns T_LOGGED_IN or T_REJECTED. @addr: "127.0.0.1:5555". */
enum t_outcome t_peer_login(struct t_peer *p, const char *addr,
			    const void *pdata, size_t len);
/* The same with a correct request, which must be accepted. */
void t_peer_log_in(struct t_peer *p, const char *addr);

/* Begins a login and does not wait for the result. */
void t_peer_begin_login(struct t_peer *p, const char *addr);
/* The same with a request of the caller. */
void t_peer_begin(struct t_peer *p, const char *addr,
		  const struct srp_login_req *req);

/* Ends the channel, if there is one. */
void t_peer_hang_up(struct t_peer *p);

/* Sends @iu. Returns T_ANSWERED or T_CLOSED. */
enum t_outcome t_peer_ask(struct t_peer *p, const void *iu, size_t len);

/* Only posts it; t_peer_wait() returns the result. */
void t_peer_post(struct t_peer *p, const void *iu, size_t len);

struct t_peer_cmd {
	uint64_t tag;
	unsigned int lun;
	const uint8_t *cdb; /* SCSI_CDB_LEN bytes */
	bool is_out;	    /* the data is data-out */
	size_t at;	    /* where the data is in the peer's memory */
	uint32_t len;	    /* of the data, bytes; 0: none */
};

/* Posts an SRP_CMD with a direct descriptor. Returns its tag. */
uint64_t t_peer_post_cmd(struct t_peer *p, const struct t_peer_cmd *cmd);

/* Waits until @answers have come on this channel, or it is closed. */
enum t_outcome t_peer_wait(struct t_peer *p, unsigned int answers);
/* Waits for the answer to @tag and returns it. The channel must not be closed
 * before. */
const struct srp_rsp *t_peer_await(struct t_peer *p, uint64_t tag);
/* Waits until the target has closed the channel. */
void t_peer_await_close(struct t_peer *p);

/* Describes @len bytes of the peer's memory. */
struct srp_desc t_peer_desc(const struct t_peer *p, size_t offset,
			    uint32_t len);

#endif
