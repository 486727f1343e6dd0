/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/functional/t_peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/t_table.h"

/* As many receives as a well-behaved initiator has. */
#define RECVS 80

/* ---- what the transport says ---- */

static void established(struct xp_chan *xp, const void *pdata, size_t len)
{
	struct t_peer *p = xp_chan_user(xp);

	assert_int_equal(srp_login_rsp_decode(pdata, len, &p->login), 0);
	p->open = true;
}

static void keep(struct t_peer *p, const struct xp_iu *iu)
{
	struct t_kept *k = &p->kept[p->answers % T_PEER_KEPT];

	memcpy(k->iu, iu->data, iu->len);
	srp_rsp_decode(k->iu, iu->len, &k->rsp);
}

static void received(struct xp_chan *xp, struct xp_iu *iu)
{
	struct t_peer *p = xp_chan_user(xp);

	assert_true(iu->len <= sizeof(p->rsp_iu));
	memcpy(p->rsp_iu, iu->data, iu->len);
	assert_int_equal(srp_rsp_decode(p->rsp_iu, iu->len, &p->rsp), 0);
	keep(p, iu);
	p->answers++;
	xp_iu_release(iu);
}

static void closed(struct xp_chan *xp, const struct error *why)
{
	struct t_peer *p = xp_chan_user(xp);
	struct srp_login_rej rej;
	const void *data;
	size_t len;

	data = xp_chan_reject_data(xp, &len);
	if (srp_login_rej_decode(data, len, &rej) == 0)
		p->reason = rej.reason;
	p->why = *why;
	p->closed = true;
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closed = closed,
};

static void turn(struct t_peer *p)
{
	assert_true(reactor_run_once(p->reactor, -1) >= 0);
}

/* ---- life ---- */

static void *aligned(size_t len)
{
	void *mem = NULL;

	assert_int_equal(posix_memalign(&mem, 4096, len), 0);
	memset(mem, 0, len);
	return mem;
}

void t_peer_init(struct t_peer *p)
{
	const struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = 512 };
	struct error e;

	memset(p, 0, sizeof(*p));
	assert_int_equal(reactor_create(&ropt, &p->reactor), 0);
	cfg.reactor = p->reactor;
	assert_int_equal(xp_create(XP_TCP, &cfg, &p->xp, &e), 0);
	p->mem = aligned(T_PEER_MEM_LEN);
	p->ius = aligned(T_PEER_IU_LEN * ARRAY_SIZE(p->sends));
	assert_int_equal(xp_mr_register(p->xp, p->mem, T_PEER_MEM_LEN,
					XP_REMOTE, &p->mr, &e),
			 0);
	assert_int_equal(xp_mr_register(p->xp, p->ius,
					T_PEER_IU_LEN * ARRAY_SIZE(p->sends),
					XP_LOCAL, &p->ius_mr, &e),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(p->sends); i++) {
		p->sends[i].peer = p;
		p->sends[i].iu = p->ius + i * T_PEER_IU_LEN;
	}
}

void t_peer_fini(struct t_peer *p)
{
	t_peer_hang_up(p);
	xp_mr_free(p->ius_mr);
	xp_mr_free(p->mr);
	xp_destroy(p->xp);
	/* What it watched has stopped when a turn finds nothing to do. */
	while (reactor_run_once(p->reactor, 0) > 0)
		;
	reactor_destroy(p->reactor);
	free(p->ius);
	free(p->mem);
}

void t_peer_hang_up(struct t_peer *p)
{
	if (!p->chan)
		return;
	xp_close(p->chan);
	while (!p->closed)
		turn(p);
	/* Buffers released in this turn are back after it. */
	reactor_run_once(p->reactor, 0);
	xp_chan_free(p->chan);
	p->chan = NULL;
}

/* ---- login ---- */

struct srp_login_req t_peer_login_req(void)
{
	static uint64_t number;

	return (struct srp_login_req){
		.tag = 0x1234567890abcdefull,
		.it_iu_len = SRP_IMM_OFFSET + 8192,
		.formats = SRP_FORMATS,
		.imm_data = true,
		.imm_offset = SRP_IMM_OFFSET,
		.initiator =
			srp_port_id_make((uint64_t)getpid() << 32, ++number),
	};
}

static void begin(struct t_peer *p, const char *addr, const void *pdata,
		  size_t len)
{
	const struct xp_chan_params params = {
		.handler = &handler,
		.user = p,
		.recv_cnt = RECVS,
		.pdata = pdata,
		.pdata_len = len,
		.timeout_ms = 20000,
	};
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct error e;
	char host[32];

	t_peer_hang_up(p);
	p->open = false;
	p->closed = false;
	p->answers = 0;
	p->reason = 0;
	snprintf(host, sizeof(host), "%s", addr);
	*strchr(host, ':') = '\0';
	sin.sin_port = htons((uint16_t)atoi(strchr(addr, ':') + 1));
	assert_int_equal(inet_pton(AF_INET, host, &sin.sin_addr), 1);
	if (xp_connect(p->xp, (struct sockaddr *)&sin, sizeof(sin), &params,
		       &p->chan, &e))
		fail_msg("%s", e.text);
}

enum t_outcome t_peer_login(struct t_peer *p, const char *addr,
			    const void *pdata, size_t len)
{
	begin(p, addr, pdata, len);
	while (!p->open && !p->closed)
		turn(p);
	return p->open ? T_LOGGED_IN : T_REJECTED;
}

void t_peer_log_in(struct t_peer *p, const char *addr)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), &req);
	if (t_peer_login(p, addr, pdata, sizeof(pdata)) != T_LOGGED_IN)
		fail_msg("no login: %s", p->why.text);
	assert_true(p->login.tag == req.tag);
}

void t_peer_begin(struct t_peer *p, const char *addr,
		  const struct srp_login_req *req)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), req);
	begin(p, addr, pdata, sizeof(pdata));
}

void t_peer_begin_login(struct t_peer *p, const char *addr)
{
	struct srp_login_req req = t_peer_login_req();

	t_peer_begin(p, addr, &req);
}

/* ---- IUs ---- */

static void send_done(struct xp_chain *chain, int status)
{
	container_of(chain, struct t_send, chain)->busy = false;
}

static struct t_send *free_send(struct t_peer *p)
{
	for (;;) {
		for (size_t i = 0; i < ARRAY_SIZE(p->sends); i++) {
			if (!p->sends[i].busy)
				return &p->sends[i];
		}
		turn(p);
	}
}

void t_peer_post(struct t_peer *p, const void *iu, size_t len)
{
	struct t_send *s;

	if (p->closed)
		return;
	s = free_send(p);
	assert_true(len <= T_PEER_IU_LEN);
	memcpy(s->iu, iu, len);
	memset(&s->chain, 0, sizeof(s->chain));
	s->chain.send[0] = (struct xp_sge){ s->iu, (uint32_t)len, p->ius_mr };
	s->chain.send_cnt = 1;
	s->chain.done = send_done;
	s->busy = true;
	xp_post(p->chan, &s->chain);
}

enum t_outcome t_peer_wait(struct t_peer *p, unsigned int answers)
{
	while (p->answers < answers && !p->closed)
		turn(p);
	return p->answers >= answers ? T_ANSWERED : T_CLOSED;
}

enum t_outcome t_peer_ask(struct t_peer *p, const void *iu, size_t len)
{
	unsigned int before = p->answers;

	t_peer_post(p, iu, len);
	return t_peer_wait(p, before + 1);
}

const struct srp_rsp *t_peer_answer(const struct t_peer *p, uint64_t tag)
{
	unsigned int cnt = p->answers < T_PEER_KEPT ? p->answers : T_PEER_KEPT;

	for (unsigned int i = 0; i < cnt; i++) {
		if (p->kept[i].rsp.tag == tag)
			return &p->kept[i].rsp;
	}
	return NULL;
}

const struct srp_rsp *t_peer_await(struct t_peer *p, uint64_t tag)
{
	while (!t_peer_answer(p, tag)) {
		assert_false(p->closed);
		turn(p);
	}
	return t_peer_answer(p, tag);
}

void t_peer_await_close(struct t_peer *p)
{
	while (!p->closed)
		turn(p);
}

struct srp_desc t_peer_desc(const struct t_peer *p, size_t offset, uint32_t len)
{
	struct srp_desc desc = { .len = len };

	xp_mr_remote(p->mr, p->chan, p->mem + offset, &desc.addr, &desc.key);
	return desc;
}
