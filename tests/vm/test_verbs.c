/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Promises of the verbs provider beyond the transport contract: texts for
 * errors of the connection manager, channels that move between reactors,
 * nothing left behind. Needs an RDMA device with the two addresses of
 * vm_soft_roce. tests/vm/xport.sh runs it in the guest.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "transport/xport.h"

#define DEADLINE_S 600
#define DATA_LEN   (256u << 10)
#define CHAINS	   64
#define SEND_DEPTH 16

/* The port of the present test. Each test has another one, so that a failed
 * test does not affect the next. */
static unsigned int port = 5611;

/* ---- both ends of a connection ---- */

struct end {
	struct xp_chan *ch;
	struct xp_chan_params params;
	bool up;
	bool closed;
	bool keep_ius; /* IUs are not released */
	unsigned int received;
	unsigned int after_close; /* callbacks that must not come */
	struct list kept;
	struct error why;
	char pdata[XP_PDATA_MAX]; /* of the accept or the reject */
	size_t pdata_len;	  /* of the reject */
	char last[64];
	uint8_t *last_data;
};

static void on_up(struct xp_chan *ch, const void *pdata, size_t len)
{
	struct end *end = xp_chan_user(ch);

	end->up = true;
	if (len)
		memcpy(end->pdata, pdata, len);
}

static void on_received(struct xp_chan *ch, struct xp_iu *iu)
{
	struct end *end = xp_chan_user(ch);

	end->after_close += end->closed || !end->up;
	end->received++;
	end->last_data = iu->data;
	memcpy(end->last, iu->data,
	       iu->len < sizeof(end->last) ? iu->len : sizeof(end->last));
	if (end->keep_ius)
		list_add_tail(&end->kept, &iu->node);
	else
		xp_iu_release(iu);
}

static void on_closed(struct xp_chan *ch, const struct error *why)
{
	struct end *end = xp_chan_user(ch);

	end->after_close += end->closed;
	end->closed = true;
	end->why = *why;
	if (!end->up)
		memcpy(end->pdata, xp_chan_reject_data(ch, &end->pdata_len),
		       sizeof(end->pdata));
}

static const struct xp_handler handler = {
	.established = on_up,
	.received = on_received,
	.closed = on_closed,
};

static void end_init(struct end *end, const char *pdata)
{
	*end = (struct end){
		.params = {
			.handler = &handler,
			.user = end,
			.recv_cnt = 16,
			.pdata = pdata,
			.pdata_len = pdata ? strlen(pdata) : 0,
		},
	};
	list_init(&end->kept);
}

static void end_release(struct end *end)
{
	struct list *it;

	while ((it = list_pop(&end->kept)))
		xp_iu_release(container_of(it, struct xp_iu, node));
}

/* ---- a reactor with a target's and an initiator's instance ---- */

enum answer {
	ACCEPT,
	REJECT,
	HOLD
};

struct world {
	struct reactor *r;
	struct xp *target;
	struct xp *initiator;
	struct xp_listener *listener;
	enum answer answer;
	struct xp_conn_request *held;
	unsigned int requests;
	char pdata[XP_PDATA_MAX];
	size_t pdata_len;
	struct end t;
	struct end i;
	uint8_t *t_data;
	uint8_t *i_data;
	struct xp_mr *t_mr;
	struct xp_mr *i_mr;
	struct srp_desc desc;
};

static struct sockaddr *address(const char *ip, unsigned int to)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)to),
	};
	assert_int_equal(inet_pton(AF_INET, ip, &in.sin_addr), 1);
	return (struct sockaddr *)&in;
}

static void ok(int err, const struct error *e)
{
	if (err)
		fail_msg("%s (%d)", e->text, err);
}

static void on_requested(struct xp_conn_request *req)
{
	struct world *w = req->user;
	struct error e;

	w->requests++;
	w->pdata_len = req->pdata_len;
	memcpy(w->pdata, req->pdata, req->pdata_len);
	if (w->answer == REJECT)
		xp_reject(req, "go away", 7);
	else if (w->answer == HOLD)
		w->held = req;
	else
		ok(xp_accept(w->target, req, &w->t.params, &w->t.ch, &e), &e);
}

static uint64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

#define run_until(w, cond)                                              \
	do {                                                            \
		uint64_t deadline_ = now_s() + DEADLINE_S;              \
		while (!(cond)) {                                       \
			if (now_s() > deadline_)                        \
				fail_msg("waited in vain for " #cond);  \
			assert_true(reactor_run_once((w)->r, 10) >= 0); \
		}                                                       \
	} while (0)

static void world_up_on(struct world *w, enum answer answer, const char *ip)
{
	struct reactor_options opt = { .poll_us = 0 };
	struct xp_config cfg = {
		.recv_len = 8276,
		.recv_aligned_at = 68,
		.send_depth = SEND_DEPTH,
	};
	struct error e;

	memset(w, 0, sizeof(*w));
	port += 2;
	w->answer = answer;
	end_init(&w->t, "welcome");
	end_init(&w->i, "hello");
	assert_int_equal(reactor_create(&opt, &w->r), 0);
	cfg.reactor = w->r;
	ok(xp_create(XP_VERBS, &cfg, &w->target, &e), &e);
	cfg.recv_len = 512;
	cfg.recv_aligned_at = 0;
	ok(xp_create(XP_VERBS, &cfg, &w->initiator, &e), &e);
	ok(xp_listen(w->target, address(ip, port), sizeof(struct sockaddr_in),
		     on_requested, w, &w->listener, &e),
	   &e);
}

static void world_up(struct world *w, enum answer answer)
{
	world_up_on(w, answer, "10.0.0.1");
}

static void data_up(struct world *w)
{
	struct error e;
	uint64_t addr;
	uint32_t key;

	w->t_data = aligned_alloc(4096, DATA_LEN);
	w->i_data = aligned_alloc(4096, DATA_LEN);
	ok(xp_mr_register(w->target, w->t_data, DATA_LEN, XP_LOCAL, &w->t_mr,
			  &e),
	   &e);
	ok(xp_mr_register(w->initiator, w->i_data, DATA_LEN, XP_REMOTE,
			  &w->i_mr, &e),
	   &e);
	xp_mr_remote(w->i_mr, w->i.ch, w->i_data, &addr, &key);
	w->desc =
		(struct srp_desc){ .addr = addr, .key = key, .len = DATA_LEN };
}

static void start_connect(struct world *w, const char *ip)
{
	struct error e;

	ok(xp_connect(w->initiator, address(ip, port),
		      sizeof(struct sockaddr_in), &w->i.params, &w->i.ch, &e),
	   &e);
}

static void connected(struct world *w)
{
	world_up(w, ACCEPT);
	start_connect(w, "10.0.0.1");
	run_until(w, w->i.up && w->t.up);
}

static void end_free(struct end *end)
{
	end_release(end);
	assert_int_equal(end->after_close, 0);
	if (end->ch)
		xp_chan_free(end->ch);
	end->ch = NULL;
}

static void world_down(struct world *w)
{
	if (w->i.ch)
		xp_close(w->i.ch);
	run_until(w, (!w->i.ch || w->i.closed) && (!w->t.ch || w->t.closed));
	end_free(&w->i);
	end_free(&w->t);
	xp_mr_free(w->t_mr);
	xp_mr_free(w->i_mr);
	free(w->t_data);
	free(w->i_data);
	xp_unlisten(w->listener);
	xp_destroy(w->initiator);
	xp_destroy(w->target);
	while (reactor_run_once(w->r, 0) > 0)
		;
	reactor_destroy(w->r);
}

/* ---- work ---- */

struct work {
	struct xp_chain chain;
	unsigned int done;
	int status;
	struct xp_chan *close; /* to close when it is done */
};

static void on_done(struct xp_chain *chain, int status)
{
	struct work *work = container_of(chain, struct work, chain);

	work->done++;
	work->status = status;
	if (work->close)
		xp_close(work->close);
}

static void post_send(struct xp_chan *ch, struct work *work, const char *text)
{
	*work = (struct work){
		.chain = {
			.send = { { .addr = text,
				    .len = (uint32_t)strlen(text) + 1 } },
			.send_cnt = 1,
			.done = on_done,
		},
	};
	xp_post(ch, &work->chain);
}

static void post_move(struct world *w, struct work *work, enum xp_dir dir,
		      const char *text)
{
	*work = (struct work){
		.chain = {
			.dir = dir,
			.remote = &w->desc,
			.len = DATA_LEN,
			.local = w->t_data,
			.local_mr = w->t_mr,
			.done = on_done,
		},
	};
	if (text) {
		work->chain.send[0].addr = text;
		work->chain.send[0].len = (uint32_t)strlen(text) + 1;
		work->chain.send_cnt = 1;
	}
	xp_post(w->t.ch, &work->chain);
}

/* ---- tests: connecting ---- */

T_TEST(private_data_goes_both_ways)
{
	char peer[64];
	struct world w;

	connected(&w);
	assert_int_equal(w.pdata_len, 56);
	assert_string_equal(w.pdata, "hello");
	assert_string_equal(w.i.pdata, "welcome");
	assert_string_equal(xp_chan_device(w.i.ch), "rxe0");
	snprintf(peer, sizeof(peer), "10.0.0.1:%u", port);
	assert_string_equal(xp_chan_peer(w.i.ch), peer);
	assert_string_equal(xp_chan_local(w.i.ch), xp_chan_peer(w.t.ch));
	world_down(&w);
	assert_int_equal(w.i.why.err, 0);
	assert_int_equal(w.t.why.err, -ECONNRESET);
}

T_TEST(reject_carries_private_data)
{
	struct world w;

	world_up(&w, REJECT);
	start_connect(&w, "10.0.0.1");
	run_until(&w, w.i.closed);
	assert_int_equal(w.i.why.err, -ECONNREFUSED);
	assert_int_equal(w.i.pdata_len, 148);
	assert_string_equal(w.i.pdata, "go away");
	world_down(&w);
}

static const struct way {
	const char *name;
	const char *listen;
	const char *connect;
} ways[] = {
	{ "any address of IPv4", "0.0.0.0", "10.0.0.2" },
	{ "any address, from IPv4", "::", "10.0.0.1" },
	{ "any address, from IPv6", "::", "fe80::5054:ff:fe12:3456" },
	{ "one of IPv6", "fe80::5054:ff:fe12:3456", "fe80::5054:ff:fe12:3456" },
};

/* Like address(), for both families; link-local addresses are on d0. */
static socklen_t any_address(const char *ip, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)(port + 1)),
	};

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET6, ip, &in6.sin6_addr) != 1) {
		memcpy(ss, address(ip, port + 1), sizeof(struct sockaddr_in));
		return sizeof(struct sockaddr_in);
	}
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = if_nametoindex("d0");
	memcpy(ss, &in6, sizeof(in6));
	return sizeof(in6);
}

T_ROWS(addresses_of_all_kinds, ways)
{
	const struct way *way = *state;
	struct sockaddr_storage ss;
	struct xp_listener *l;
	struct work said;
	struct error e;
	struct world w;
	socklen_t len;

	world_up(&w, ACCEPT);
	len = any_address(way->listen, &ss);
	ok(xp_listen(w.target, (struct sockaddr *)&ss, len, on_requested, &w,
		     &l, &e),
	   &e);
	len = any_address(way->connect, &ss);
	ok(xp_connect(w.initiator, (struct sockaddr *)&ss, len, &w.i.params,
		      &w.i.ch, &e),
	   &e);
	run_until(&w, (w.i.up && w.t.up) || w.i.closed);
	print_message("# %s %s %s\n", xp_chan_peer(w.i.ch),
		      xp_chan_local(w.t.ch), w.i.why.text);
	post_send(w.i.ch, &said, "here");
	run_until(&w, w.t.received == 1);
	xp_unlisten(l);
	world_down(&w);
}

static const struct dead_end {
	const char *name;
	const char *ip;
	unsigned int port_offset;
	int err; /* returned by xp_connect(); 0: success */
	const char *text;
} dead_ends[] = {
	{ "nobody listens", "10.0.0.1", 1, -ECONNREFUSED,
	  "nobody listens on that port" },
	{ "nobody is there", "10.0.0.77", 0, -ETIMEDOUT,
	  "no answer from that address" },
	{ "no route", "192.0.2.1", 0, 0, "address" },
	{ "not an RDMA device", "127.0.0.1", 0, 0, "" },
};

T_ROWS(connecting_fails, dead_ends)
{
	const struct dead_end *d = *state;
	struct error e = { 0 };
	struct world w;
	int err;

	world_up(&w, ACCEPT);
	w.i.params.timeout_ms = 1000;
	err = xp_connect(w.initiator, address(d->ip, port + d->port_offset),
			 sizeof(struct sockaddr_in), &w.i.params, &w.i.ch, &e);
	if (!err) {
		run_until(&w, w.i.closed);
		e = w.i.why;
	}
	print_message("# %s: %d %s\n", d->name, e.err, e.text);
	assert_true(e.err < 0);
	if (d->err)
		assert_int_equal(e.err, d->err);
	assert_non_null(strstr(e.text, d->text));
	world_down(&w);
}

T_TEST(close_while_connecting)
{
	struct world w;

	world_up(&w, HOLD);
	start_connect(&w, "10.0.0.1");
	run_until(&w, w.held);
	xp_close(w.i.ch);
	assert_false(w.i.closed);
	run_until(&w, w.i.closed);
	assert_int_equal(w.i.why.err, 0);
	end_free(&w.i);
	/* The request may be accepted all the same. */
	w.answer = ACCEPT;
	on_requested(w.held);
	w.held = NULL;
	run_until(&w, w.t.closed);
	assert_false(w.t.up);
	world_down(&w);
}

T_TEST(listening_twice_is_refused)
{
	struct xp_listener *second;
	struct error e;
	struct world w;

	world_up(&w, ACCEPT);
	assert_int_equal(xp_listen(w.initiator, address("10.0.0.1", port),
				   sizeof(struct sockaddr_in), on_requested, &w,
				   &second, &e),
			 -EADDRINUSE);
	assert_string_equal(e.text, "the address is in use");
	assert_int_equal(xp_listen(w.initiator, address("10.9.9.9", port),
				   sizeof(struct sockaddr_in), on_requested, &w,
				   &second, &e),
			 -EADDRNOTAVAIL);
	assert_string_equal(e.text, "this machine does not have that address");
	world_down(&w);
}

static const struct conflict_row {
	const char *name;
	const char *first;
	const char *second;
} conflicts[] = {
	{ "one address, then all", "10.0.0.1", "0.0.0.0" },
	{ "all, then one address", "0.0.0.0", "10.0.0.1" },
	{ "all twice", "0.0.0.0", "0.0.0.0" },
	{ "all of IPv6, then one address", "::", "10.0.0.1" },
};

/* If another program listens on all addresses at this port, or the test wants
 * to, the RDMA CM reports that there is no such address. */
T_ROWS(port_in_use_is_told_from_a_missing_address, conflicts)
{
	const struct conflict_row *row = *state;
	struct xp_listener *first, *second;
	struct sockaddr_storage ss;
	struct error e = { 0 };
	struct world w;
	socklen_t len;

	world_up(&w, ACCEPT);
	len = any_address(row->first, &ss);
	ok(xp_listen(w.target, (struct sockaddr *)&ss, len, on_requested, &w,
		     &first, &e),
	   &e);
	len = any_address(row->second, &ss);
	assert_int_equal(xp_listen(w.initiator, (struct sockaddr *)&ss, len,
				   on_requested, &w, &second, &e),
			 -EADDRINUSE);
	assert_string_equal(e.text, "the address is in use");
	xp_unlisten(first);
	/* and the port is free once that listener is gone */
	ok(xp_listen(w.initiator, (struct sockaddr *)&ss, len, on_requested, &w,
		     &second, &e),
	   &e);
	xp_unlisten(second);
	world_down(&w);
}

/* ---- tests: moving data ---- */

T_TEST(sends_and_data_arrive)
{
	struct work moved;
	struct work said;
	struct world w;

	connected(&w);
	data_up(&w);
	post_send(w.i.ch, &said, "a command");
	run_until(&w, w.t.received == 1 && said.done);
	assert_string_equal(w.t.last, "a command");
	assert_int_equal(((uintptr_t)w.t.last_data + 68) % 512, 0);

	memset(w.i_data, 0x5a, DATA_LEN);
	memset(w.t_data, 0, DATA_LEN);
	post_move(&w, &moved, XP_RDMA_READ, NULL);
	run_until(&w, moved.done);
	assert_int_equal(moved.status, 0);
	assert_memory_equal(w.t_data, w.i_data, DATA_LEN);

	memset(w.t_data, 0xa5, DATA_LEN);
	post_move(&w, &moved, XP_RDMA_WRITE, "written");
	run_until(&w, w.i.received == 1);
	assert_string_equal(w.i.last, "written");
	assert_memory_equal(w.t_data, w.i_data, DATA_LEN);
	run_until(&w, moved.done);
	world_down(&w);
}

T_TEST(a_wrong_key_fails_the_chain)
{
	struct work moved;
	struct work next;
	struct world w;

	connected(&w);
	data_up(&w);
	w.desc.key ^= 0xff;
	post_move(&w, &moved, XP_RDMA_READ, NULL);
	post_send(w.t.ch, &next, "never");
	run_until(&w, w.t.closed && w.i.closed);
	assert_int_equal(moved.done, 1);
	assert_int_equal(moved.status, -EREMOTEIO);
	assert_int_equal(next.done, 1);
	assert_int_equal(next.status, -ECANCELED);
	assert_int_equal(w.i.received, 0);
	print_message("# target: %s; initiator: %s\n", w.t.why.text,
		      w.i.why.text);
	assert_non_null(strstr(w.t.why.text, "remote access error"));
	world_down(&w);
}

static const struct breaking {
	const char *name;
	enum xp_dir dir;
	bool initiator_closes;
} breakings[] = {
	{ "initiator, READs", XP_RDMA_READ, true },
	{ "initiator, WRITEs", XP_RDMA_WRITE, true },
	{ "target, READs", XP_RDMA_READ, false },
	{ "target, WRITEs", XP_RDMA_WRITE, false },
};

T_ROWS(close_in_the_middle, breakings)
{
	static struct work work[CHAINS];
	const struct breaking *b = *state;
	unsigned int flushed = 0;
	struct world w;

	connected(&w);
	data_up(&w);
	for (int i = 0; i < CHAINS; i++)
		post_move(&w, &work[i], b->dir, i % 4 ? NULL : "x");
	/* Not all are posted by then: the send queue has SEND_DEPTH entries. */
	work[0].close = b->initiator_closes ? w.i.ch : w.t.ch;
	run_until(&w, w.t.closed && w.i.closed);
	for (int i = 0; i < CHAINS; i++) {
		assert_int_equal(work[i].done, 1);
		flushed += work[i].status != 0;
	}
	assert_true(flushed >= CHAINS - SEND_DEPTH);
	/* The fabric no longer uses the memory, so it stays as it is. */
	memset(w.t_data, 0x11, DATA_LEN);
	memset(w.i_data, 0x22, DATA_LEN);
	for (int i = 0; i < 20; i++)
		reactor_run_once(w.r, 5);
	for (unsigned int i = 0; i < DATA_LEN; i++) {
		assert_int_equal(w.t_data[i], 0x11);
		assert_int_equal(w.i_data[i], 0x22);
	}
	world_down(&w);
}

T_TEST(ius_kept_over_the_end_are_the_users)
{
	struct work said[4];
	struct world w;

	connected(&w);
	w.t.keep_ius = true;
	w.i.keep_ius = true;
	for (int i = 0; i < 4; i++)
		post_send(i % 2 ? w.i.ch : w.t.ch, &said[i], "kept");
	run_until(&w, w.t.received == 2 && w.i.received == 2);
	xp_close(w.i.ch);
	run_until(&w, w.t.closed && w.i.closed);
	assert_string_equal((char *)w.t.last_data, "kept");
	assert_string_equal((char *)w.i.last_data, "kept");
	world_down(&w);
}

static struct end idle_t;

static void on_requested_idle(struct xp_conn_request *req)
{
	struct world *w = req->user;
	struct error e;

	end_init(&idle_t, NULL);
	ok(xp_accept(w->target, req, &idle_t.params, &idle_t.ch, &e), &e);
}

/* Each channel adds 16 buffers to the shared queue. One channel must not take
 * those of the other one, which then would have none. */
T_TEST(more_ius_than_granted_end_the_channel)
{
	struct xp_listener *l;
	struct work said[18];
	struct end idle_i;
	struct error e;
	struct world w;

	connected(&w);
	ok(xp_listen(w.target, address("10.0.0.2", port),
		     sizeof(struct sockaddr_in), on_requested_idle, &w, &l, &e),
	   &e);
	end_init(&idle_i, NULL);
	ok(xp_connect(w.initiator, address("10.0.0.2", port),
		      sizeof(struct sockaddr_in), &idle_i.params, &idle_i.ch,
		      &e),
	   &e);
	run_until(&w, idle_i.up && idle_t.up);
	w.t.keep_ius = true;
	for (int i = 0; i < 18; i++)
		post_send(w.i.ch, &said[i], "too much");
	run_until(&w, w.t.closed && w.i.closed);
	assert_int_equal(w.t.received, 16);
	print_message("# %s\n", w.t.why.text);
	assert_int_equal(w.t.why.err, -EPROTO);
	end_release(&w.t);
	for (int i = 0; i < 16; i++)
		post_send(idle_i.ch, &said[i], "as granted");
	run_until(&w, idle_t.received == 16);
	xp_close(idle_i.ch);
	run_until(&w, idle_i.closed && idle_t.closed);
	end_free(&idle_i);
	end_free(&idle_t);
	xp_unlisten(l);
	world_down(&w);
}

/* ---- tests: peers that break rules ---- */

/* An initiator made of bare verbs. */
struct raw {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char text[32];
	char page[4096]; /* a packet */
	struct ibv_mr *page_mr;
};

/* Waits for the next event, which must be @type. Meanwhile the reactor runs. */
static void raw_wait(struct world *w, struct raw *raw,
		     enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = NULL;

	run_until(w, rdma_get_cm_event(raw->cm, &ev) == 0);
	assert_int_equal(ev->event, type);
	rdma_ack_cm_event(ev);
}

static void raw_move(struct raw *raw, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(rdma_init_qp_attr(raw->id, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(raw->qp, &attr, mask), 0);
}

/* A queue pair that the library of the connection manager does not see. */
static void raw_open(struct raw *raw)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 1,
			 .max_send_sge = 2,
			 .max_recv_sge = 1 },
	};

	raw->ctx = raw->id->verbs;
	raw->pd = ibv_alloc_pd(raw->ctx);
	raw->cq = ibv_create_cq(raw->ctx, 64, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = raw->cq;
	raw->qp = ibv_create_qp(raw->pd, &attr);
	strcpy(raw->text, "raw");
	raw->mr = ibv_reg_mr(raw->pd, raw->text, sizeof(raw->text), 0);
	raw->page_mr = ibv_reg_mr(raw->pd, raw->page, sizeof(raw->page), 0);
	assert_non_null(raw->qp);
	assert_non_null(raw->mr);
	assert_non_null(raw->page_mr);
}

/* Connects up to the last message, the RTU, which is not sent. */
static void raw_connect(struct world *w, struct raw *raw)
{
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.retry_count = 1,
		.rnr_retry_count = 7,
	};

	memset(raw, 0, sizeof(*raw));
	raw->cm = rdma_create_event_channel();
	assert_non_null(raw->cm);
	fcntl(raw->cm->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_create_id(raw->cm, &raw->id, NULL, RDMA_PS_TCP),
			 0);
	assert_int_equal(rdma_resolve_addr(raw->id, NULL,
					   address("10.0.0.1", port), 1000),
			 0);
	raw_wait(w, raw, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(raw->id, 1000), 0);
	raw_wait(w, raw, RDMA_CM_EVENT_ROUTE_RESOLVED);
	raw_open(raw);
	param.qp_num = raw->qp->qp_num;
	assert_int_equal(rdma_connect(raw->id, &param), 0);
	raw_wait(w, raw, RDMA_CM_EVENT_CONNECT_RESPONSE);
	raw_move(raw, IBV_QPS_INIT);
	raw_move(raw, IBV_QPS_RTR);
	raw_move(raw, IBV_QPS_RTS);
}

static void raw_send(struct raw *raw)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->text,
		.length = sizeof(raw->text),
		.lkey = raw->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(raw->qp, &wr, &bad), 0);
}

/* Sends the first packet of a SEND. The rest of it is in no memory region,
 * which the device finds out too late, and it breaks the connection. */
static void raw_send_half(struct raw *raw)
{
	struct ibv_sge sges[2] = {
		{ .addr = (uintptr_t)raw->page,
		  .length = sizeof(raw->page),
		  .lkey = raw->page_mr->lkey },
		{ .addr = (uintptr_t)raw->page, .length = 64, .lkey = 0 },
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = sges,
		.num_sge = 2,
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	assert_int_equal(ibv_post_send(raw->qp, &wr, &bad), 0);
	while ((n = ibv_poll_cq(raw->cq, 1, &wc)) == 0)
		;
	assert_int_equal(n, 1);
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
}

static void raw_free(struct raw *raw)
{
	if (raw->qp)
		ibv_destroy_qp(raw->qp);
	rdma_destroy_id(raw->id);
	ibv_dereg_mr(raw->mr);
	ibv_dereg_mr(raw->page_mr);
	ibv_destroy_cq(raw->cq);
	ibv_dealloc_pd(raw->pd);
	rdma_destroy_event_channel(raw->cm);
}

/* The RTU may be lost, or arrive after the first IU. */
T_TEST(an_iu_before_the_rtu_establishes)
{
	struct world w;
	struct raw raw;

	world_up(&w, ACCEPT);
	raw_connect(&w, &raw);
	for (int i = 0; i < 20; i++)
		reactor_run_once(w.r, 5);
	assert_false(w.t.up);
	raw_send(&raw);
	raw_send(&raw);
	run_until(&w, w.t.received == 2);
	assert_true(w.t.up);
	assert_string_equal(w.t.last, "raw");
	xp_close(w.t.ch);
	run_until(&w, w.t.closed);
	raw_free(&raw);
	world_down(&w);
}

/* Waits at port + 1 for a connection, and accepts it. */
static void raw_accept(struct world *w, struct raw *raw, struct end *end)
{
	struct rdma_conn_param param = { .initiator_depth = 1,
					 .rnr_retry_count = 7 };
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *listener;
	struct error e;

	memset(raw, 0, sizeof(*raw));
	raw->cm = rdma_create_event_channel();
	assert_non_null(raw->cm);
	fcntl(raw->cm->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_create_id(raw->cm, &listener, NULL, RDMA_PS_TCP),
			 0);
	assert_int_equal(
		rdma_bind_addr(listener, address("10.0.0.1", port + 1)), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	ok(xp_connect(w->initiator, address("10.0.0.1", port + 1),
		      sizeof(struct sockaddr_in), &end->params, &end->ch, &e),
	   &e);
	run_until(w, rdma_get_cm_event(raw->cm, &ev) == 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	raw->id = ev->id;
	rdma_ack_cm_event(ev);
	raw_open(raw);
	raw_move(raw, IBV_QPS_INIT);
	raw_move(raw, IBV_QPS_RTR);
	raw_move(raw, IBV_QPS_RTS);
	param.qp_num = raw->qp->qp_num;
	assert_int_equal(rdma_accept(raw->id, &param), 0);
	raw_wait(w, raw, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_id(listener);
}

/* The length in the completion is that of the data, which is elsewhere. */
T_TEST(a_write_that_takes_a_receive_is_no_iu)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;
	struct world w;
	struct raw raw;

	world_up(&w, ACCEPT);
	raw_accept(&w, &raw, &w.i);
	data_up(&w);
	sge = (struct ibv_sge){ .addr = (uintptr_t)raw.page,
				.length = sizeof(raw.page),
				.lkey = raw.page_mr->lkey };
	wr.wr.rdma.remote_addr = w.desc.addr;
	wr.wr.rdma.rkey = w.desc.key;
	assert_int_equal(ibv_post_send(raw.qp, &wr, &bad), 0);
	run_until(&w, w.i.received || w.i.closed);
	assert_int_equal(w.i.received, 0);
	print_message("# %s\n", w.i.why.text);
	assert_int_equal(w.i.why.err, -EPROTO);
	raw_free(&raw);
	world_down(&w);
}

/* Its queue pair is gone, and it does not answer the connection manager. */
T_TEST(a_silent_peer_is_noticed_when_sent_to)
{
	struct work said;
	struct world w;
	struct raw raw;

	world_up(&w, ACCEPT);
	raw_connect(&w, &raw);
	assert_int_equal(rdma_establish(raw.id), 0);
	run_until(&w, w.t.up);
	ibv_destroy_qp(raw.qp);
	raw.qp = NULL;
	post_send(w.t.ch, &said, "hello?");
	run_until(&w, w.t.closed);
	print_message("# %s\n", w.t.why.text);
	assert_int_equal(w.t.why.err, -ETIMEDOUT);
	assert_int_equal(said.done, 1);
	assert_int_equal(said.status, -ETIMEDOUT);
	raw_free(&raw);
	world_down(&w);
}

static void break_off_amid_a_send(struct world *w)
{
	struct raw raw;

	raw_connect(w, &raw);
	assert_int_equal(rdma_establish(raw.id), 0);
	run_until(w, w->t.up);
	raw_send_half(&raw);
	rdma_disconnect(raw.id);
	run_until(w, w->t.closed);
	end_free(&w->t);
	end_init(&w->t, NULL);
	raw_free(&raw);
}

/* From Linux 6.3 on, soft-RoCE drops the receive that it had begun to fill. */
T_TEST(receives_that_a_device_drops_are_replaced)
{
	struct xp_listener *l;
	struct work said[16];
	struct end idle_i;
	struct error e;
	struct world w;

	world_up(&w, ACCEPT);
	ok(xp_listen(w.target, address("10.0.0.2", port),
		     sizeof(struct sockaddr_in), on_requested_idle, &w, &l, &e),
	   &e);
	end_init(&idle_i, NULL);
	ok(xp_connect(w.initiator, address("10.0.0.2", port),
		      sizeof(struct sockaddr_in), &idle_i.params, &idle_i.ch,
		      &e),
	   &e);
	run_until(&w, idle_i.up && idle_t.up);
	for (int i = 0; i < 100; i++)
		break_off_amid_a_send(&w);
	idle_t.keep_ius = true;
	for (int i = 0; i < 16; i++)
		post_send(idle_i.ch, &said[i], "as granted");
	run_until(&w, idle_t.received == 16);
	end_release(&idle_t);
	xp_close(idle_i.ch);
	run_until(&w, idle_i.closed && idle_t.closed);
	end_free(&idle_i);
	end_free(&idle_t);
	xp_unlisten(l);
	world_down(&w);
}

/* ---- tests: large numbers ---- */

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static unsigned int rdma_objects(void)
{
	unsigned int sum = 0;
	unsigned int n;
	FILE *f;

	f = popen("rdma resource show qp pid $PPID | grep -c . ;"
		  "rdma resource show cq pid $PPID | grep -c . ;"
		  "rdma resource show mr pid $PPID | grep -c . ;"
		  "rdma resource show cm_id pid $PPID | grep -c .",
		  "r");
	assert_non_null(f);
	while (fscanf(f, "%u", &n) == 1)
		sum += n;
	pclose(f);
	return sum;
}

static bool nothing_lingers(struct world *w, unsigned int objects)
{
	return rdma_objects() <= objects && reactor_run_once(w->r, 0) == 0;
}

/* A channel's cm_id stays until the peer has answered the disconnect. */
static void cycle(struct world *w, int i)
{
	struct work said;

	end_init(&w->t, "welcome");
	end_init(&w->i, "hello");
	start_connect(w, "10.0.0.1");
	run_until(w, w->i.up && w->t.up);
	post_send(w->i.ch, &said, "one");
	run_until(w, w->t.received == 1 && said.done);
	xp_close(i % 2 ? w->i.ch : w->t.ch);
	run_until(w, w->i.closed && w->t.closed);
	end_free(&w->i);
	end_free(&w->t);
}

T_TEST(cycles_leave_nothing)
{
	unsigned int objects = rdma_objects();
	unsigned int files = 0;
	struct world w;

	world_up(&w, ACCEPT);
	for (int i = 0; i < 200; i++) {
		cycle(&w, i);
		if (i > 0)
			continue;
		/* Two completion queues, one memory region, one listener. */
		run_until(&w, nothing_lingers(&w, objects + 4));
		objects = rdma_objects();
		files = open_files();
	}
	run_until(&w, nothing_lingers(&w, objects));
	print_message("# %u objects, %u files\n", objects, files);
	assert_true(objects > 0);
	assert_int_equal(rdma_objects(), objects);
	assert_int_equal(open_files(), files);
	world_down(&w);
}

/* More than the first pool of queues has room for. */
#define MANY 24

static struct end many_t[MANY];
static struct end many_i[MANY];
static unsigned int many_accepted;

static void on_requested_many(struct xp_conn_request *req)
{
	struct world *w = req->user;
	struct end *end = &many_t[many_accepted++];
	struct error e;

	end_init(end, NULL);
	ok(xp_accept(w->target, req, &end->params, &end->ch, &e), &e);
}

static bool many(const struct end *ends, size_t offset)
{
	for (int i = 0; i < MANY; i++) {
		if (!*((const bool *)(const void *)&ends[i] + offset))
			return false;
	}
	return true;
}

T_TEST(many_channels_at_once)
{
	static struct work said[MANY][8];
	struct xp_listener *l;
	struct error e;
	struct world w;

	world_up(&w, ACCEPT);
	many_accepted = 0;
	ok(xp_listen(w.target, address("10.0.0.2", port),
		     sizeof(struct sockaddr_in), on_requested_many, &w, &l, &e),
	   &e);
	for (int i = 0; i < MANY; i++) {
		end_init(&many_i[i], NULL);
		ok(xp_connect(w.initiator, address("10.0.0.2", port),
			      sizeof(struct sockaddr_in), &many_i[i].params,
			      &many_i[i].ch, &e),
		   &e);
	}
	run_until(&w, many_accepted == MANY &&
			      many(many_i, offsetof(struct end, up)) &&
			      many(many_t, offsetof(struct end, up)));
	for (int i = 0; i < MANY; i++) {
		for (int j = 0; j < 8; j++)
			post_send(many_i[i].ch, &said[i][j], "many");
	}
	for (int i = 0; i < MANY; i++)
		run_until(&w, many_t[i].received == 8);
	for (int i = 0; i < MANY; i++)
		xp_close(many_i[i].ch);
	run_until(&w, many(many_i, offsetof(struct end, closed)) &&
			      many(many_t, offsetof(struct end, closed)));
	for (int i = 0; i < MANY; i++) {
		end_free(&many_i[i]);
		end_free(&many_t[i]);
	}
	xp_unlisten(l);
	world_down(&w);
}

/* ---- tests: other threads and processes ---- */

struct other {
	struct reactor *r;
	struct xp *xp;
	struct end end;
	struct xp_conn_request *req;
	struct reactor_msg take;
	atomic_bool ready;
	atomic_bool closed;
};

static void other_closed(struct xp_chan *ch, const struct error *why)
{
	struct other *o = xp_chan_user(ch);

	atomic_store(&o->closed, true);
}

static void other_received(struct xp_chan *ch, struct xp_iu *iu)
{
	static struct work answer;

	xp_iu_release(iu);
	post_send(ch, &answer, "from the other");
}

static void other_up(struct xp_chan *ch, const void *pdata, size_t len)
{
}

static const struct xp_handler other_handler = {
	.established = other_up,
	.received = other_received,
	.closed = other_closed,
};

static void other_take(struct reactor_msg *msg)
{
	struct other *o = container_of(msg, struct other, take);
	struct xp_chan_params params = {
		.handler = &other_handler,
		.user = o,
		.recv_cnt = 4,
	};
	struct error e;

	ok(xp_accept(o->xp, o->req, &params, &o->end.ch, &e), &e);
}

static void *other_main(void *arg)
{
	struct reactor_options opt = { .poll_us = 20 };
	struct xp_config cfg = { .recv_len = 512 };
	struct other *o = arg;
	struct error e;

	assert_int_equal(reactor_create(&opt, &o->r), 0);
	cfg.reactor = o->r;
	ok(xp_create(XP_VERBS, &cfg, &o->xp, &e), &e);
	atomic_store(&o->ready, true);
	while (!atomic_load(&o->closed))
		reactor_run_once(o->r, 10);
	xp_chan_free(o->end.ch);
	xp_destroy(o->xp);
	while (reactor_run_once(o->r, 0) > 0)
		;
	reactor_destroy(o->r);
	return NULL;
}

T_TEST(accepted_on_another_reactor)
{
	static struct other o;
	struct work said;
	pthread_t thread;
	struct world w;

	assert_int_equal(pthread_create(&thread, NULL, other_main, &o), 0);
	world_up(&w, HOLD);
	run_until(&w, atomic_load(&o.ready));
	start_connect(&w, "10.0.0.1");
	run_until(&w, w.held);
	o.req = w.held;
	o.take.run = other_take;
	reactor_send(o.r, &o.take);
	run_until(&w, w.i.up);
	post_send(w.i.ch, &said, "to the other");
	run_until(&w, w.i.received == 1);
	assert_string_equal(w.i.last, "from the other");
	world_down(&w);
	pthread_join(thread, NULL);
}

/* Runs as a target in a process of its own. Its output says when it listens. */
static int be_target(void)
{
	struct world w;

	world_up(&w, ACCEPT);
	if (write(STDOUT_FILENO, "x", 1) == 1) {
		for (;;)
			reactor_run_once(w.r, -1);
	}
	return 1;
}

static pid_t start_target(void)
{
	char number[16];
	int fds[2];
	char byte;
	pid_t pid;

	snprintf(number, sizeof(number), "%u", port);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/proc/self/exe", "target", number, NULL);
		_exit(127);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

T_TEST(a_killed_peer_is_noticed)
{
	struct work said[16];
	pid_t target = start_target();
	struct world w;

	world_up_on(&w, ACCEPT, "10.0.0.2");
	start_connect(&w, "10.0.0.1");
	run_until(&w, w.i.up);
	kill(target, SIGKILL);
	for (int i = 0; i < 16; i++)
		post_send(w.i.ch, &said[i], "are you there?");
	run_until(&w, w.i.closed);
	waitpid(target, NULL, 0);
	print_message("# %s\n", w.i.why.text);
	for (int i = 0; i < 16; i++)
		assert_int_equal(said[i].done, 1);
	assert_true(w.i.why.err < 0);
	world_down(&w);
}

struct locker {
	struct xp *xp;
	void *mem;
	size_t len;
	int err;
	struct error e;
};

/* Root has no limit. This needs a thread of its own, because the kernel refuses
 * the connection manager if the credentials have changed since it was
 * opened. */
static void *lock_as_nobody(void *arg)
{
	struct locker *l = arg;
	struct xp_mr *mr;

	if (syscall(SYS_setresuid, -1, 65534, -1) == 0)
		l->err = xp_mr_register(l->xp, l->mem, l->len, XP_LOCAL, &mr,
					&l->e);
	return NULL;
}

T_TEST(the_locked_memory_limit_is_named)
{
	struct rlimit limit = { 1 << 20, RLIM_INFINITY };
	struct locker l = { .len = 64 << 20 };
	pthread_t thread;
	struct world w;

	world_up(&w, ACCEPT);
	l.xp = w.target;
	l.mem = aligned_alloc(4096, l.len);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_int_equal(pthread_create(&thread, NULL, lock_as_nobody, &l), 0);
	pthread_join(thread, NULL);
	limit.rlim_cur = RLIM_INFINITY;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	print_message("# %s\n", l.e.text);
	assert_int_equal(l.err, -ENOMEM);
	assert_non_null(strstr(l.e.text, "at most 1 MiB may be locked"));
	free(l.mem);
	world_down(&w);
}

int main(int argc, char **argv)
{
	if (!xp_present(XP_VERBS)) {
		printf("1..0 # SKIP no RDMA device\n");
		return 77;
	}
	xp_fork_init();
	if (argc == 2 && strcmp(argv[0], "target") == 0) {
		port = (unsigned int)atoi(argv[1]);
		return be_target();
	}
	return t_run();
}
