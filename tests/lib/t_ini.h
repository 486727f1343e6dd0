/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake initiator's channel, for tests of targets: it logs in with any bytes and
 * sends any bytes. Its user looks at what arrives, at once or later.
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
#define T_INI_RECVS    66u  /* a target's request limit, and two */
#define T_INI_KEPT     256u

struct t_ini;

/* Each may be NULL. */
struct t_ini_ops {
	/* ini->login_rsp is there. */
	void (*established)(struct t_ini *ini);
	/* Also when it is kept. */
	void (*received)(struct t_ini *ini, const struct xp_iu *iu);
	void (*closing)(struct t_ini *ini);
	/* ini->why is there; may call t_ini_free(). */
	void (*closed)(struct t_ini *ini);
};

struct t_ini_iu {
	uint8_t bytes[T_INI_RECV_LEN];
	uint32_t len;
	bool is_rsp; /* it could be decoded: rsp */
	struct srp_rsp rsp;
};

/* The first part is the user's, before t_ini_connect(). */
struct t_ini {
	const struct t_ini_ops *ops; /* NULL: none */
	void *user;
	bool keeps;		 /* IUs that arrive, in ius */
	unsigned int recv_cnt;	 /* 0: T_INI_RECVS */
	unsigned int timeout_ms; /* of the connect; 0: the transport's */

	struct xp_chan *xp; /* NULL: there is none */
	bool established;
	bool closed;
	struct error why;
	bool rejected; /* by SRP_LOGIN_REJ: rej */
	struct srp_login_rej rej;
	struct srp_login_rsp login_rsp;
	unsigned int send_cnt; /* under way */
	/* The last T_INI_KEPT: number n is at n % T_INI_KEPT. */
	struct t_ini_iu *ius;
	unsigned int iu_cnt; /* that have been kept */
	uint64_t next_tag;   /* the user's */
};

/* As ib_srp makes it; target and tag are for the user to fill in. */
struct srp_login_req t_ini_login_req(struct srp_port_id initiator,
				     enum srp_multichan multichan);

/* Begins to connect, with any private data, or a login. */
void t_ini_connect(struct t_ini *ini, struct xp *xp,
		   const struct sockaddr_in *addr, const void *pdata,
		   size_t len);
void t_ini_login(struct t_ini *ini, struct xp *xp,
		 const struct sockaddr_in *addr,
		 const struct srp_login_req *req);
/* After it has closed. */
void t_ini_free(struct t_ini *ini);

/* Sends a copy of the bytes. */
void t_ini_send(struct t_ini *ini, const void *iu, size_t len);

/* The answer to @tag that came last, if it is kept; else NULL. */
const struct srp_rsp *t_ini_rsp(const struct t_ini *ini, uint64_t tag);

/* The descriptor of @len bytes at @p in @mr. */
struct srp_desc t_ini_desc(const struct t_ini *ini, const struct xp_mr *mr,
			   const void *p, uint32_t len);

#endif
