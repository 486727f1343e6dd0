/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_ini.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_must.h"

#define FIRST_TAG 0x1000

/* ---- callbacks of the transport ---- */

static void t_ini_established(struct xp_chan *xp, const void *pdata, size_t len)
{
	struct t_ini *ini = xp_chan_user(xp);

	T_MUST(!srp_login_rsp_decode(pdata, len, &ini->login_rsp));
	ini->established = true;
	if (ini->ops && ini->ops->established)
		ini->ops->established(ini);
}

static void t_ini_keep(struct t_ini *ini, const struct xp_iu *iu)
{
	struct t_ini_iu *to = &ini->ius[ini->iu_cnt++ % T_INI_KEPT];

	T_MUST(iu->len <= sizeof(to->bytes));
	memcpy(to->bytes, iu->data, iu->len);
	to->len = iu->len;
	to->is_rsp = !srp_rsp_decode(to->bytes, to->len, &to->rsp);
}

static void t_ini_received(struct xp_chan *xp, struct xp_iu *iu)
{
	struct t_ini *ini = xp_chan_user(xp);

	if (ini->keeps)
		t_ini_keep(ini, iu);
	if (ini->ops && ini->ops->received)
		ini->ops->received(ini, iu);
	xp_iu_release(iu);
}

static void t_ini_closing(struct xp_chan *xp)
{
	struct t_ini *ini = xp_chan_user(xp);

	if (ini->ops && ini->ops->closing)
		ini->ops->closing(ini);
}

static void t_ini_closed(struct xp_chan *xp, const struct error *why)
{
	struct t_ini *ini = xp_chan_user(xp);
	size_t len;
	const void *data = xp_chan_reject_data(xp, &len);

	T_MUST(!ini->closed);
	ini->rejected = !srp_login_rej_decode(data, len, &ini->rej);
	ini->closed = true;
	ini->why = *why;
	if (ini->ops && ini->ops->closed)
		ini->ops->closed(ini);
}

static const struct xp_handler t_ini_handler = {
	.established = t_ini_established,
	.received = t_ini_received,
	.closing = t_ini_closing,
	.closed = t_ini_closed,
};

/* ---- logins ---- */

struct srp_login_req t_ini_login_req(struct srp_port_id initiator,
				     enum srp_multichan multichan)
{
	return (struct srp_login_req){
		.it_iu_len = SRP_IMM_OFFSET + 8192,
		.formats = SRP_FORMATS,
		.multichan = (uint8_t)multichan,
		.imm_data = true,
		.imm_offset = SRP_IMM_OFFSET,
		.initiator = initiator,
	};
}

void t_ini_connect(struct t_ini *ini, struct xp *xp,
		   const struct sockaddr_in *addr, const void *pdata,
		   size_t len)
{
	const struct xp_chan_params params = {
		.handler = &t_ini_handler,
		.user = ini,
		.recv_cnt = ini->recv_cnt ? ini->recv_cnt : T_INI_RECVS,
		.pdata = pdata,
		.pdata_len = len,
		.timeout_ms = ini->timeout_ms,
		.route = &ini->route,
	};
	struct error e;

	*ini = (struct t_ini){ .ops = ini->ops,
			       .user = ini->user,
			       .keeps = ini->keeps,
			       .recv_cnt = ini->recv_cnt,
			       .timeout_ms = ini->timeout_ms,
			       .route = ini->route,
			       .next_tag = FIRST_TAG };
	if (ini->keeps) {
		ini->ius = calloc(T_INI_KEPT, sizeof(*ini->ius));
		T_MUST(ini->ius);
	}
	T_MUST(!xp_connect(xp, (const struct sockaddr *)addr, sizeof(*addr),
			   &params, &ini->xp, &e));
}

void t_ini_login(struct t_ini *ini, struct xp *xp,
		 const struct sockaddr_in *addr,
		 const struct srp_login_req *req)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), req);
	t_ini_connect(ini, xp, addr, pdata, sizeof(pdata));
}

void t_ini_free(struct t_ini *ini)
{
	T_MUST(ini->closed);
	xp_chan_free(ini->xp);
	ini->xp = NULL;
	free(ini->ius);
	ini->ius = NULL;
}

/* ---- IUs ---- */

struct t_ini_sending {
	struct xp_chain chain;
	struct t_ini *ini;
	struct xp_mr *mr;
	uint8_t iu[];
};

static void t_ini_sent(struct xp_chain *chain, int status)
{
	struct t_ini_sending *s =
		container_of(chain, struct t_ini_sending, chain);

	s->ini->send_cnt--;
	xp_mr_free(s->mr);
	free(s);
}

void t_ini_send(struct t_ini *ini, const void *iu, size_t len)
{
	struct t_ini_sending *s = calloc(1, sizeof(*s) + len);
	struct error e;

	T_MUST(s);
	memcpy(s->iu, iu, len);
	s->ini = ini;
	T_MUST(!xp_mr_register(xp_chan_xp(ini->xp), s->iu, len, XP_LOCAL,
			       &s->mr, &e));
	s->chain = (struct xp_chain){
		.send = { { .addr = s->iu, .len = (uint32_t)len, .mr = s->mr } },
		.send_cnt = 1,
		.done = t_ini_sent,
	};
	ini->send_cnt++;
	xp_post(ini->xp, &s->chain);
}

const struct srp_rsp *t_ini_rsp(const struct t_ini *ini, uint64_t tag)
{
	for (unsigned int i = ini->iu_cnt;
	     i > 0 && ini->iu_cnt - i < T_INI_KEPT; i--) {
		const struct t_ini_iu *iu = &ini->ius[(i - 1) % T_INI_KEPT];

		if (iu->is_rsp && iu->rsp.tag == tag)
			return &iu->rsp;
	}
	return NULL;
}

struct srp_desc t_ini_desc(const struct t_ini *ini, const struct xp_mr *mr,
			   const void *p, uint32_t len)
{
	struct srp_desc desc = { .len = len };

	xp_mr_remote(mr, ini->xp, p, &desc.addr, &desc.key);
	return desc;
}
