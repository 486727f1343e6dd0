/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/functional/t_peer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/scsi_cdb.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"

/* The maximum number of IUs in flight. */
#define SENDS_MAX 256

static void t_peer_received(struct t_ini *ini, const struct xp_iu *iu)
{
	struct t_peer *p = ini->user;
	const struct t_ini_iu *kept = &ini->ius[(ini->iu_cnt - 1) % T_INI_KEPT];

	assert_true(kept->is_rsp);
	p->rsp = kept->rsp;
}

static const struct t_ini_ops t_peer_ops = { .received = t_peer_received };

static void t_peer_turn(struct t_peer *p)
{
	assert_true(reactor_run_once(p->reactor, -1) >= 0);
}

/* ---- life cycle ---- */

void t_peer_init(struct t_peer *p)
{
	const struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = T_INI_RECV_LEN };
	struct error e;

	memset(p, 0, sizeof(*p));
	p->ini = (struct t_ini){ .ops = &t_peer_ops,
				 .user = p,
				 .keeps = true,
				 .timeout_ms = 20000 };
	assert_int_equal(reactor_create(&ropt, &p->reactor), 0);
	cfg.reactor = p->reactor;
	assert_int_equal(xp_create(XP_TCP, &cfg, &p->xp, &e), 0);
	p->mem = aligned_alloc(4096, T_PEER_MEM_LEN);
	assert_non_null(p->mem);
	memset(p->mem, 0, T_PEER_MEM_LEN);
	assert_int_equal(xp_mr_register(p->xp, p->mem, T_PEER_MEM_LEN,
					XP_REMOTE, &p->mr, &e),
			 0);
}

void t_peer_fini(struct t_peer *p)
{
	t_peer_hang_up(p);
	xp_mr_free(p->mr);
	xp_destroy(p->xp);
	/* All that it watched has stopped when a turn finds no work. */
	while (reactor_run_once(p->reactor, 0) > 0)
		;
	reactor_destroy(p->reactor);
	free(p->mem);
}

void t_peer_hang_up(struct t_peer *p)
{
	if (!p->ini.xp)
		return;
	xp_close(p->ini.xp);
	while (!p->ini.closed)
		t_peer_turn(p);
	/* Buffers released in this turn are available after it. */
	reactor_run_once(p->reactor, 0);
	t_ini_free(&p->ini);
}

/* ---- login ---- */

struct srp_login_req t_peer_login_req(void)
{
	static uint64_t number;
	struct srp_login_req req = t_ini_login_req(
		srp_port_id_make((uint64_t)getpid() << 32, ++number),
		SRP_MULTICHAN_SINGLE);

	req.tag = 0x1234567890abcdefull;
	return req;
}

static void t_peer_connect(struct t_peer *p, const char *addr,
			   const void *pdata, size_t len)
{
	const struct sockaddr_in sin = t_addr_parse(addr);

	t_peer_hang_up(p);
	t_ini_connect(&p->ini, p->xp, &sin, pdata, len);
}

enum t_outcome t_peer_login(struct t_peer *p, const char *addr,
			    const void *pdata, size_t len)
{
	t_peer_connect(p, addr, pdata, len);
	while (!p->ini.established && !p->ini.closed)
		t_peer_turn(p);
	return p->ini.established ? T_LOGGED_IN : T_REJECTED;
}

void t_peer_log_in(struct t_peer *p, const char *addr)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), &req);
	if (t_peer_login(p, addr, pdata, sizeof(pdata)) != T_LOGGED_IN)
		fail_msg("no login: %s", p->ini.why.text);
	assert_true(p->ini.login_rsp.tag == req.tag);
}

void t_peer_begin(struct t_peer *p, const char *addr,
		  const struct srp_login_req *req)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), req);
	t_peer_connect(p, addr, pdata, sizeof(pdata));
}

void t_peer_begin_login(struct t_peer *p, const char *addr)
{
	struct srp_login_req req = t_peer_login_req();

	t_peer_begin(p, addr, &req);
}

/* ---- IUs ---- */

void t_peer_post(struct t_peer *p, const void *iu, size_t len)
{
	if (p->ini.closed)
		return;
	while (p->ini.send_cnt == SENDS_MAX)
		t_peer_turn(p);
	t_ini_send(&p->ini, iu, len);
}

uint64_t t_peer_post_cmd(struct t_peer *p, const struct t_peer_cmd *cmd)
{
	struct srp_desc desc = t_peer_desc(p, cmd->at, cmd->len);
	struct srp_cmd_args args = {
		.tag = cmd->tag,
		.cdb = cmd->cdb,
		.cdb_len = SCSI_CDB_LEN,
	};
	struct srp_data_args *data = cmd->is_out ? &args.out : &args.in;
	uint8_t iu[256];
	int len;

	if (cmd->len) {
		data->format = SRP_DATA_DIRECT;
		data->descs = &desc;
		data->desc_cnt = 1;
	}
	assert_int_equal(srp_lun_encode(cmd->lun, &args.lun), 0);
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	assert_true(len > 0);
	t_peer_post(p, iu, (size_t)len);
	return cmd->tag;
}

enum t_outcome t_peer_wait(struct t_peer *p, unsigned int answers)
{
	while (p->ini.iu_cnt < answers && !p->ini.closed)
		t_peer_turn(p);
	return p->ini.iu_cnt >= answers ? T_ANSWERED : T_CLOSED;
}

enum t_outcome t_peer_ask(struct t_peer *p, const void *iu, size_t len)
{
	unsigned int before = p->ini.iu_cnt;

	t_peer_post(p, iu, len);
	return t_peer_wait(p, before + 1);
}

const struct srp_rsp *t_peer_await(struct t_peer *p, uint64_t tag)
{
	while (!t_ini_rsp(&p->ini, tag)) {
		assert_false(p->ini.closed);
		t_peer_turn(p);
	}
	return t_ini_rsp(&p->ini, tag);
}

void t_peer_await_close(struct t_peer *p)
{
	while (!p->ini.closed)
		t_peer_turn(p);
}

struct srp_desc t_peer_desc(const struct t_peer *p, size_t offset, uint32_t len)
{
	return t_ini_desc(&p->ini, p->mr, p->mem + offset, len);
}
