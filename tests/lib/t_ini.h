/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake initiator's channel, for tests of targets: it logs in with any bytes
 * and sends any bytes. Its user reads the IUs that arrive, at once or later.
 *
 * Thread: that of the transport's reactor. Works without cmocka.
 */
#ifndef TESTS_LIB_T_INI_H
#define TESTS_LIB_T_INI_H

#include <netinet/in.h>

#include "protocol/srp_iu.h"
#include "protocol/srp_login.h"
#include "transport/xport.h"

#define T_INI_RECV_LEN 512u /* of the transport, bytes */
#define T_INI_RECVS    66u  /* two more than a target's request limit */
#define T_INI_KEPT     256u

struct t_ini;

/* Each may be NULL. */
struct t_ini_ops {
	/* ini->login_rsp is set. */
	void (*established)(struct t_ini *ini);
	/* Also called for IUs that are kept. */
	void (*received)(struct t_ini *ini, const struct xp_iu *iu);
	void (*closing)(struct t_ini *ini);
	/* ini->why is set; may call t_ini_free(). */
	void (*closed)(struct t_ini *ini);
};

struct t_ini_iu {
	uint8_t bytes[T_INI_RECV_LEN];
	uint32_t len;
	bool is_rsp; /* the IU could be decoded: rsp */
	struct srp_rsp rsp;
};

/* The user sets the first part before t_ini_connect(). */
struct t_ini {
	const struct t_ini_ops *ops; /* NULL: none */
	void *user;
	bool keeps;		 /* keeps IUs that arrive, in ius */
	unsigned int recv_cnt;	 /* 0: T_INI_RECVS */
	unsigned int timeout_ms; /* of the connect; 0: the transport's */
	struct xp_route route;	 /* of the connect */

	struct xp_chan *xp; /* NULL: there is no channel */
	bool established;
	bool closed;
	struct error why;
	bool rejected; /* by SRP_LOGIN_REJ; rej has it */
	struct srp_login_rej rej;
	struct srp_login_rsp login_rsp;
	unsigned int send_cnt; /* sends in flight */
	/* The last T_INI_KEPT IUs: number n is at n % T_INI_KEPT. */
	struct t_ini_iu *ius;
	unsigned int iu_cnt; /* IUs kept so far */
	uint64_t next_tag;   /* for the user */
};

/* A login request like that of ib_srp. The user fills in target and tag. */
struct srp_login_req t_ini_login_req(struct srp_port_id initiator,
				     enum srp_multichan multichan);

/* Begins to connect, with any private data, or with a login. */
void t_ini_connect(struct t_ini *ini, struct xp *xp,
		   const struct sockaddr_in *addr, const void *pdata,
		   size_t len);
void t_ini_login(struct t_ini *ini, struct xp *xp,
		 const struct sockaddr_in *addr,
		 const struct srp_login_req *req);
/* Only after it has closed. */
void t_ini_free(struct t_ini *ini);

/* Sends a copy of @iu. */
void t_ini_send(struct t_ini *ini, const void *iu, size_t len);

/* Returns the last kept answer to @tag, or NULL. */
const struct srp_rsp *t_ini_rsp(const struct t_ini *ini, uint64_t tag);

/* Returns the descriptor of @len bytes at @p in @mr. */
struct srp_desc t_ini_desc(const struct t_ini *ini, const struct xp_mr *mr,
			   const void *p, uint32_t len);

#endif
