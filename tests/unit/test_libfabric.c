/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric judges the TCP engine. Its tcp provider, used through its own API,
 * is the peer of our engine: it connects to our listener, or accepts our
 * connection. One thread drives both sides.
 */
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"

#define RECV_LEN 4096u /* of both sides */
#define RECVS	 16u
#define MIB	 (1024u * 1024)

/* Memory that libfabric 1.17 leaks for a connection is no leak of ours. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric\n";
}

enum role {
	IT_CONNECTS,
	WE_CONNECT,
};

static const struct role_row {
	const char *name;
	enum role role;
} roles[] = {
	{ "libfabric connects", IT_CONNECTS },
	{ "libfabric accepts", WE_CONNECT },
};

/* An operation of libfabric, used as its context. */
struct op {
	bool done;
	int err; /* a positive errno, as in libfabric */
	size_t len;
};

struct judge {
	struct t_world *w;
	struct t_end *ours; /* NULL: not accepted yet */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *pep;	 /* WE_CONNECT */
	struct fi_info *request; /* until it is answered */
	struct fid_ep *ep;
	bool connected;
	bool may_end;
	bool shut;
	int refused;		     /* a positive errno, as in libfabric */
	uint8_t pdata[XP_PDATA_MAX]; /* of the last event */
	size_t pdata_len;
	uint8_t recv_buf[RECVS][RECV_LEN];
	struct op recvs[RECVS];
	unsigned int received;
	uint64_t next_key;
};

static void fi_ok(ssize_t ret)
{
	if (ret)
		fail_msg("libfabric: %s", fi_strerror((int)-ret));
}

/* ---- events ---- */

static void keep_pdata(struct judge *j, const void *p, size_t len)
{
	assert_true(len <= sizeof(j->pdata));
	if (len)
		memcpy(j->pdata, p, len);
	j->pdata_len = len;
}

static void read_eq_error(struct judge *j)
{
	struct fi_eq_err_entry err = { 0 };

	/* If the caller gives no buffer, libfabric lends its own. */
	assert_true(fi_eq_readerr(j->eq, &err, 0) > 0);
	if (j->connected) {
		j->shut = true;
		return;
	}
	j->refused = err.err;
	keep_pdata(j, err.err_data, err.err_data_size);
}

static void read_eq(struct judge *j)
{
	union {
		struct fi_eq_cm_entry cm;
		uint8_t room[sizeof(struct fi_eq_cm_entry) + XP_PDATA_MAX];
	} ev;
	uint32_t event;
	ssize_t n = fi_eq_read(j->eq, &event, &ev, sizeof(ev), 0);

	if (n == -FI_EAVAIL) {
		read_eq_error(j);
		return;
	}
	if (n == -FI_EAGAIN)
		return;
	assert_true(n >= (ssize_t)sizeof(ev.cm));
	switch (event) {
	case FI_CONNREQ:
		j->request = ev.cm.info;
		keep_pdata(j, ev.cm.data, (size_t)n - sizeof(ev.cm));
		break;
	case FI_CONNECTED:
		j->connected = true;
		if (!j->pep)
			keep_pdata(j, ev.cm.data, (size_t)n - sizeof(ev.cm));
		break;
	case FI_SHUTDOWN:
		j->shut = true;
		break;
	default:
		fail_msg("event %u of libfabric", event);
	}
}

static void complete(struct judge *j, struct op *op, int err, size_t len)
{
	assert_false(op->done);
	op->done = true;
	op->err = err;
	op->len = len;
	if (op >= j->recvs && op < j->recvs + RECVS && !err)
		j->received++;
}

static void read_cq(struct judge *j)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t n = fi_cq_read(j->cq, &entry, 1);

	if (n == 1) {
		complete(j, entry.op_context, 0, entry.len);
	} else if (n == -FI_EAVAIL) {
		assert_int_equal(fi_cq_readerr(j->cq, &err, 0), 1);
		complete(j, err.op_context, err.err, 0);
	} else {
		assert_int_equal(n, -FI_EAGAIN);
	}
}

/* libfabric makes progress while its queues are read. */
static void turn(struct judge *j)
{
	read_eq(j);
	read_cq(j);
	t_settle(j->w);
	if (j->may_end)
		return;
	if (j->ours && j->ours->closed)
		fail_msg("our end has closed: %s", j->ours->why.text);
	if (j->shut || j->refused)
		fail_msg("libfabric's end has closed");
}

#define WAIT(j, cond)                                 \
	do {                                          \
		uint64_t deadline_us_ = 0;            \
		while (!(cond)) {                     \
			t_tick(&deadline_us_, #cond); \
			turn(j);                      \
		}                                     \
	} while (0)

/* ---- libfabric's side ---- */

static void get_info(struct judge *j, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo();
	char port[8];

	assert_non_null(hints);
	hints->caps = FI_MSG | FI_RMA;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	/* Modes that our side would support if a provider needed them. */
	hints->domain_attr->mr_mode =
		FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("tcp");
	snprintf(port, sizeof(port), "%u", ntohs(j->w->addr.sin_port));
	fi_ok(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", port, flags, hints,
			 &j->info));
	fi_freeinfo(hints);
}

static void queues_open(struct judge *j)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq = {
		.size = 1024,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_NONE,
	};

	fi_ok(fi_fabric(j->info->fabric_attr, &j->fabric, NULL));
	fi_ok(fi_domain(j->fabric, j->info, &j->domain, NULL));
	fi_ok(fi_eq_open(j->fabric, &eq, &j->eq, NULL));
	fi_ok(fi_cq_open(j->domain, &cq, &j->cq, NULL));
}

static void recv_post(struct judge *j, unsigned int i)
{
	j->recvs[i].done = false;
	fi_ok(fi_recv(j->ep, j->recv_buf[i], RECV_LEN, NULL, 0, &j->recvs[i]));
}

static void endpoint_open(struct judge *j, struct fi_info *info)
{
	fi_ok(fi_endpoint(j->domain, info, &j->ep, NULL));
	fi_ok(fi_ep_bind(j->ep, &j->eq->fid, 0));
	fi_ok(fi_ep_bind(j->ep, &j->cq->fid, FI_TRANSMIT | FI_RECV));
	fi_ok(fi_enable(j->ep));
	for (unsigned int i = 0; i < RECVS; i++)
		recv_post(j, i);
}

static void judge_open(struct judge *j, enum role role)
{
	struct t_world_options opt = {
		.recv_len = RECV_LEN,
		.recv_cnt = RECVS,
		.no_listener = role == WE_CONNECT,
	};

	memset(j, 0, sizeof(*j));
	j->next_key = 5;
	j->w = t_world_open(&opt);
	get_info(j, role == WE_CONNECT ? FI_SOURCE : 0);
	queues_open(j);
	if (role == WE_CONNECT) {
		fi_ok(fi_passive_ep(j->fabric, j->info, &j->pep, NULL));
		fi_ok(fi_pep_bind(j->pep, &j->eq->fid, 0));
		fi_ok(fi_listen(j->pep));
	}
}

static void judge_close(struct judge *j)
{
	if (j->ours)
		t_end_close(j->ours);
	if (j->ep)
		fi_close(&j->ep->fid);
	if (j->pep)
		fi_close(&j->pep->fid);
	fi_freeinfo(j->request);
	fi_ok(fi_close(&j->cq->fid));
	fi_ok(fi_close(&j->eq->fid));
	fi_ok(fi_close(&j->domain->fid));
	fi_ok(fi_close(&j->fabric->fid));
	fi_freeinfo(j->info);
	t_world_close(j->w);
}

/* ---- connecting ---- */

static uint8_t question[60];
static uint8_t answer[52];

static void connect_begin(struct judge *j, enum role role)
{
	struct xp_chan_params p = {
		.recv_cnt = RECVS,
		.pdata = question,
		.pdata_len = sizeof(question),
	};

	t_fill(question, sizeof(question), 1);
	t_fill(answer, sizeof(answer), 2);
	if (role == WE_CONNECT) {
		j->ours = t_connect_to(j->w, &j->w->addr, &p);
		return;
	}
	endpoint_open(j, j->info);
	j->w->answer = answer;
	j->w->answer_len = sizeof(answer);
	fi_ok(fi_connect(j->ep, &j->w->addr, question, sizeof(question)));
}

static void pair(struct judge *j, enum role role)
{
	judge_open(j, role);
	connect_begin(j, role);
	if (role == WE_CONNECT) {
		WAIT(j, j->request);
		endpoint_open(j, j->request);
		fi_ok(fi_accept(j->ep, answer, sizeof(answer)));
	} else {
		WAIT(j, j->w->server_cnt);
		j->ours = &j->w->server_ends[0];
	}
	WAIT(j, j->connected && j->ours->established);
}

T_ROWS(private_data_travels_both_ways, roles)
{
	const struct role_row *row = *state;
	struct judge j;

	pair(&j, row->role);
	if (row->role == WE_CONNECT) {
		assert_int_equal(j.pdata_len, sizeof(question));
		assert_memory_equal(j.pdata, question, sizeof(question));
		assert_int_equal(j.ours->pdata_len, sizeof(answer));
		assert_memory_equal(j.ours->pdata, answer, sizeof(answer));
	} else {
		assert_int_equal(j.w->req_pdata_len, sizeof(question));
		assert_memory_equal(j.w->req_pdata, question, sizeof(question));
		assert_int_equal(j.pdata_len, sizeof(answer));
		assert_memory_equal(j.pdata, answer, sizeof(answer));
	}
	judge_close(&j);
}

static void reject(struct t_world *w, struct xp_conn_request *req)
{
	xp_reject(req, answer, sizeof(answer));
}

T_ROWS(a_reject_brings_its_data, roles)
{
	const struct role_row *row = *state;
	struct judge j;

	judge_open(&j, row->role);
	j.may_end = true;
	j.w->on_request = reject;
	connect_begin(&j, row->role);
	if (row->role == WE_CONNECT) {
		WAIT(&j, j.request);
		fi_ok(fi_reject(j.pep, j.request->handle, answer,
				sizeof(answer)));
		WAIT(&j, j.ours->closed);
		assert_int_equal(j.ours->why.err, -ECONNREFUSED);
		assert_int_equal(j.ours->pdata_len, sizeof(answer));
		assert_memory_equal(j.ours->pdata, answer, sizeof(answer));
	} else {
		WAIT(&j, j.refused);
		assert_int_equal(j.refused, FI_ECONNREFUSED);
		assert_int_equal(j.pdata_len, sizeof(answer));
		assert_memory_equal(j.pdata, answer, sizeof(answer));
	}
	judge_close(&j);
}

T_ROWS(an_end_here_is_seen_there, roles)
{
	const struct role_row *row = *state;
	struct judge j;

	pair(&j, row->role);
	j.may_end = true;
	xp_close(j.ours->ch);
	WAIT(&j, j.shut && j.ours->closed);
	judge_close(&j);
}

T_ROWS(an_end_there_is_seen_here, roles)
{
	const struct role_row *row = *state;
	struct judge j;

	pair(&j, row->role);
	j.may_end = true;
	fi_ok(fi_shutdown(j.ep, 0));
	WAIT(&j, j.ours->closed);
	assert_int_equal(j.ours->why.err, -ECONNRESET);
	judge_close(&j);
}

/* ---- messages ---- */

static uint8_t got[RECV_LEN];
static size_t got_len;

static void keep_copy(struct t_end *end, struct xp_iu *iu)
{
	memcpy(got, iu->data, iu->len);
	got_len = iu->len;
	xp_iu_release(iu);
}

static void we_send(struct judge *j, const struct t_mem *m, uint32_t len)
{
	struct t_chain chain = { 0 };
	unsigned int n = j->received % RECVS;

	t_fill(m->p, len, len);
	t_post_send(j->ours, &chain, m, 0, len);
	WAIT(j, chain.done && j->recvs[n].done);
	assert_int_equal(chain.status, 0);
	assert_int_equal(j->recvs[n].err, 0);
	assert_int_equal(j->recvs[n].len, len);
	assert_memory_equal(j->recv_buf[n], m->p, len);
	recv_post(j, n);
}

static void it_sends(struct judge *j, uint8_t *buf, size_t len)
{
	unsigned int before = j->ours->received;
	struct op op = { 0 };

	t_fill(buf, len, (unsigned int)len + 1);
	fi_ok(fi_send(j->ep, buf, len, NULL, 0, &op));
	WAIT(j, op.done && j->ours->received > before);
	assert_int_equal(op.err, 0);
	assert_int_equal(got_len, len);
	assert_memory_equal(got, buf, len);
}

T_ROWS(messages_arrive_whole, roles)
{
	static const uint32_t lens[] = { 1, 16, 48, 64, 511, 2500, RECV_LEN };
	const struct role_row *row = *state;
	static uint8_t buf[RECV_LEN];
	struct judge j;
	struct t_mem m;

	pair(&j, row->role);
	j.ours->on_received = keep_copy;
	t_mem_get(xp_chan_xp(j.ours->ch), RECV_LEN, XP_LOCAL, &m);
	/* More often than there are receives. */
	for (unsigned int i = 0; i < 6; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(lens); k++) {
			we_send(&j, &m, lens[k]);
			it_sends(&j, buf, lens[k]);
		}
	}
	t_mem_put(&m);
	judge_close(&j);
}

/* ---- our RDMA in libfabric's memory ---- */

struct fi_mem {
	uint8_t *p;
	struct fid_mr *mr;
	uint64_t base; /* the address by which a peer names p */
};

static void fi_mem_get(struct judge *j, size_t len, struct fi_mem *ret_mem)
{
	ret_mem->p = calloc(1, len);
	assert_non_null(ret_mem->p);
	fi_ok(fi_mr_reg(j->domain, ret_mem->p, len,
			FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE,
			0, j->next_key++, 0, &ret_mem->mr, NULL));
	ret_mem->base = j->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
				? (uintptr_t)ret_mem->p
				: 0;
}

static void fi_mem_put(struct fi_mem *m)
{
	fi_close(&m->mr->fid);
	free(m->p);
}

/* Describes @len bytes at @off of @m in @cnt descriptors of different
 * lengths. */
static void describe(const struct fi_mem *m, uint64_t off, uint32_t len,
		     struct srp_desc *descs, unsigned int cnt)
{
	assert_true(fi_mr_key(m->mr) <= UINT32_MAX);
	for (unsigned int i = 0; i < cnt; i++) {
		uint32_t part = len / (cnt - i);

		if (cnt - i > 1 && part > 3)
			part -= i % 3;
		descs[i] = (struct srp_desc){
			.addr = m->base + off,
			.key = (uint32_t)fi_mr_key(m->mr),
			.len = part,
		};
		off += part;
		len -= part;
	}
}

#define DESCS_MAX 9u

static const struct data_case {
	const char *name;
	enum role role;
	uint32_t len;
	unsigned int descs;
} data_cases[] = {
	{ "one byte", IT_CONNECTS, 1, 1 },
	{ "512 bytes", WE_CONNECT, 512, 1 },
	{ "4 KiB", IT_CONNECTS, 4096, 1 },
	{ "4 KiB, libfabric accepts", WE_CONNECT, 4096, 1 },
	{ "4 KiB in four pieces", IT_CONNECTS, 4096, 4 },
	{ "4 KiB in nine pieces", WE_CONNECT, 4096, 9 },
	{ "64 KiB in three pieces", IT_CONNECTS, 65536, 3 },
	{ "1 MiB", IT_CONNECTS, MIB, 1 },
	{ "1 MiB in nine pieces", WE_CONNECT, MIB, 9 },
};

struct rdma {
	struct judge j;
	struct t_mem local;
	struct fi_mem remote;
	struct srp_desc descs[DESCS_MAX];
	struct t_chain chain;
};

static void rdma_open(struct rdma *r, const struct data_case *dc,
		      enum xp_dir dir)
{
	memset(r, 0, sizeof(*r));
	pair(&r->j, dc->role);
	r->j.ours->on_received = keep_copy;
	t_mem_get(xp_chan_xp(r->j.ours->ch), dc->len + 64, XP_LOCAL, &r->local);
	fi_mem_get(&r->j, dc->len + 32, &r->remote);
	describe(&r->remote, 16, dc->len, r->descs, dc->descs);
	r->chain.c.dir = dir;
	r->chain.c.remote = r->descs;
	r->chain.c.len = dc->len;
	r->chain.c.local = r->local.p;
	r->chain.c.local_mr = r->local.mr;
}

static void rdma_close(struct rdma *r)
{
	t_mem_put(&r->local);
	fi_mem_put(&r->remote);
	judge_close(&r->j);
}

T_ROWS(our_write_is_there_before_our_send, data_cases)
{
	static const uint8_t zeros[16];
	const struct data_case *dc = *state;
	static struct rdma r;

	rdma_open(&r, dc, XP_RDMA_WRITE);
	t_fill(r.local.p, dc->len, dc->len);
	r.chain.c.send[0] =
		(struct xp_sge){ r.local.p + dc->len, 36, r.local.mr };
	r.chain.c.send_cnt = 1;
	t_post(r.j.ours, &r.chain);
	WAIT(&r.j, r.j.received);
	assert_int_equal(r.j.recvs[0].len, 36);
	assert_memory_equal(r.remote.p, zeros, 16);
	assert_memory_equal(r.remote.p + 16, r.local.p, dc->len);
	assert_memory_equal(r.remote.p + 16 + dc->len, zeros, 16);
	WAIT(&r.j, r.chain.done);
	assert_int_equal(r.chain.status, 0);
	rdma_close(&r);
}

T_ROWS(our_read_brings_what_is_there, data_cases)
{
	const struct data_case *dc = *state;
	static struct rdma r;

	rdma_open(&r, dc, XP_RDMA_READ);
	t_fill(r.remote.p + 16, dc->len, dc->len);
	t_post(r.j.ours, &r.chain);
	WAIT(&r.j, r.chain.done);
	assert_int_equal(r.chain.status, 0);
	assert_memory_equal(r.local.p, r.remote.p + 16, dc->len);
	rdma_close(&r);
}

/* ---- libfabric's RDMA in our memory ---- */

/* @op over @len bytes in @cnt pieces of @m, which our side has registered. */
static void it_moves(struct judge *j, const struct t_mem *m, uint8_t *buf,
		     size_t len, unsigned int cnt, bool write, struct op *op)
{
	struct iovec iov = { buf, len };
	struct fi_rma_iov remote[4];
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = remote,
		.rma_iov_count = cnt,
		.context = op,
	};
	size_t off = 0;

	for (unsigned int i = 0; i < cnt; i++) {
		uint64_t addr;
		uint32_t key;

		xp_mr_remote(m->mr, j->ours->ch, m->p + off, &addr, &key);
		remote[i].addr = addr;
		remote[i].key = key;
		remote[i].len = (len - off) / (cnt - i);
		off += remote[i].len;
	}
	fi_ok(write ? fi_writemsg(j->ep, &msg, 0) : fi_readmsg(j->ep, &msg, 0));
}

T_ROWS(it_writes_into_our_memory, data_cases)
{
	const struct data_case *dc = *state;
	struct op op = { 0 };
	struct op send = { 0 };
	uint8_t *buf = malloc(dc->len);
	unsigned int cnt = dc->descs < 4 ? dc->descs : 4;
	struct judge j;
	struct t_mem m;

	assert_non_null(buf);
	t_fill(buf, dc->len, dc->len);
	pair(&j, dc->role);
	t_mem_get(xp_chan_xp(j.ours->ch), dc->len, XP_REMOTE, &m);
	it_moves(&j, &m, buf, dc->len, cnt, true, &op);
	fi_ok(fi_send(j.ep, buf, 1, NULL, 0, &send));
	WAIT(&j, j.ours->received);
	assert_memory_equal(m.p, buf, dc->len);
	WAIT(&j, op.done && send.done);
	assert_int_equal(op.err, 0);
	t_mem_put(&m);
	judge_close(&j);
	free(buf);
}

T_ROWS(it_reads_our_memory, data_cases)
{
	const struct data_case *dc = *state;
	struct op op = { 0 };
	uint8_t *buf = calloc(1, dc->len);
	unsigned int cnt = dc->descs < 4 ? dc->descs : 4;
	struct judge j;
	struct t_mem m;

	assert_non_null(buf);
	pair(&j, dc->role);
	t_mem_get(xp_chan_xp(j.ours->ch), dc->len, XP_REMOTE, &m);
	t_fill(m.p, dc->len, dc->len);
	it_moves(&j, &m, buf, dc->len, cnt, false, &op);
	WAIT(&j, op.done);
	assert_int_equal(op.err, 0);
	assert_memory_equal(m.p, buf, dc->len);
	t_mem_put(&m);
	judge_close(&j);
	free(buf);
}

T_ROWS(a_write_by_a_wrong_key_ends_the_connection, roles)
{
	static const uint8_t zeros[512];
	const struct role_row *row = *state;
	static uint8_t buf[512];
	struct op op = { 0 };
	struct judge j;
	uint64_t addr;
	struct t_mem m;
	uint32_t key;

	t_fill(buf, sizeof(buf), 3);
	pair(&j, row->role);
	j.may_end = true;
	t_mem_get(xp_chan_xp(j.ours->ch), sizeof(buf), XP_REMOTE, &m);
	xp_mr_remote(m.mr, j.ours->ch, m.p, &addr, &key);
	fi_ok(fi_write(j.ep, buf, sizeof(buf), NULL, 0, addr, key + 0x5a5a00,
		       &op));
	WAIT(&j, j.ours->closed && j.shut);
	assert_int_not_equal(j.ours->why.err, 0);
	assert_memory_equal(m.p, zeros, sizeof(zeros));
	t_mem_put(&m);
	judge_close(&j);
}

/* ---- many at once ---- */

#define CHAINS	100u
#define BLOCK	4096u
#define WRITTEN (CHAINS * BLOCK)

/* WRITEs with a SEND alternate with READs. Meanwhile libfabric reads our
 * memory. */
T_ROWS(many_at_once_end_well, roles)
{
	const struct role_row *row = *state;
	static struct t_chain chains[CHAINS];
	static struct srp_desc descs[CHAINS];
	static uint8_t buf[BLOCK];
	unsigned int wanted = 0;
	struct fi_mem remote;
	struct t_mem local;
	struct t_mem open;
	struct judge j;

	memset(chains, 0, sizeof(chains));
	pair(&j, row->role);
	t_mem_get(xp_chan_xp(j.ours->ch), WRITTEN, XP_LOCAL, &local);
	t_mem_get(xp_chan_xp(j.ours->ch), BLOCK, XP_REMOTE, &open);
	fi_mem_get(&j, WRITTEN, &remote);
	t_fill(local.p, WRITTEN, 1);
	memcpy(remote.p, local.p, WRITTEN);
	t_fill(open.p, BLOCK, 2);
	for (unsigned int i = 0; i < CHAINS; i++) {
		struct xp_chain *c = &chains[i].c;

		describe(&remote, i * BLOCK, BLOCK, &descs[i], 1);
		c->dir = i % 2 ? XP_RDMA_READ : XP_RDMA_WRITE;
		c->remote = &descs[i];
		c->len = BLOCK;
		c->local = local.p + i * BLOCK;
		c->local_mr = local.mr;
		memset(i % 2 ? local.p + i * BLOCK : remote.p + i * BLOCK, 0,
		       BLOCK);
		/* At most as many messages as there are receives. */
		if (i % 20 == 0) {
			c->send[0] = (struct xp_sge){ local.p, 36, local.mr };
			c->send_cnt = 1;
			wanted++;
		}
		t_post(j.ours, &chains[i]);
	}
	for (unsigned int i = 0; i < 10; i++) {
		struct op op = { 0 };

		memset(buf, 0, BLOCK);
		it_moves(&j, &open, buf, BLOCK, 1, false, &op);
		WAIT(&j, op.done);
		assert_int_equal(op.err, 0);
		assert_memory_equal(buf, open.p, BLOCK);
	}
	WAIT(&j, !j.ours->open_chains && j.received == wanted);
	for (unsigned int i = 0; i < CHAINS; i++)
		assert_int_equal(chains[i].status, 0);
	assert_true(t_is_filled(local.p, WRITTEN, 1));
	/* No SEND follows the last WRITEs. */
	WAIT(&j, t_is_filled(remote.p, WRITTEN, 1));
	t_mem_put(&local);
	t_mem_put(&open);
	fi_mem_put(&remote);
	judge_close(&j);
}

int main(void)
{
	setenv("T_PROVIDER", "tcp", 1);
	/* The other providers spend time on a search for devices. */
	setenv("FI_PROVIDER", "tcp", 1);
	return t_run();
}
