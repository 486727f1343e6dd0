/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_world.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Longer than any operation takes, even in an emulated guest. */
#define PATIENCE_US 600000000ull
/* Without hardware, there is always some work before this time. */
#define WAKE_MS 9000

static bool in_post;

enum t_provider t_provider(void)
{
	static const char *const names[] = {
		[T_FAKE] = "fake",
		[T_TCP] = "tcp",
		[T_TLS] = "tls",
		[T_VERBS] = "verbs",
	};
	const char *name = getenv("T_PROVIDER");
	int p = name ? T_VERBS : T_FAKE;

	while (name && p > T_FAKE && strcmp(name, names[p]) != 0)
		p--;
	return (enum t_provider)p;
}

/* ---- time ---- */

static uint64_t clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void t_tick(uint64_t *deadline_us, const char *what)
{
	if (!*deadline_us)
		*deadline_us = clock_us() + PATIENCE_US;
	if (clock_us() > *deadline_us)
		fail_msg("waited in vain for: %s", what);
}

/* Returns true if there was work. */
static bool run_once(struct t_world *w)
{
	int ret = 0;

	if (!w->only_server)
		ret = reactor_run_once(w->client_reactor, 0);
	assert_true(ret >= 0);
	if (w->server_reactor != w->client_reactor) {
		int more = reactor_run_once(w->server_reactor, 0);

		assert_true(more >= 0);
		ret |= more;
	}
	return ret > 0;
}

static void check_woken(const struct t_world *w, int ret)
{
	assert_true(ret >= 0);
	if (ret == 0 && w->provider != T_VERBS)
		fail_msg("nothing happened: a wake-up was lost");
}

void t_turn(struct t_world *w)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };

	if (w->only_server || w->server_reactor == w->client_reactor) {
		check_woken(w, reactor_run_once(w->server_reactor, WAKE_MS));
		return;
	}
	if (run_once(w))
		return;
	fds[0].fd = reactor_fd(w->client_reactor);
	fds[1].fd = reactor_fd(w->server_reactor);
	check_woken(w, poll(fds, 2, WAKE_MS));
}

void t_settle(struct t_world *w)
{
	uint64_t deadline = 0;

	while (run_once(w))
		t_tick(&deadline, "nothing left to do");
}

/* ---- worlds ---- */

static void xp_open(struct t_world *w, struct reactor *r, struct xp **ret_xp)
{
	struct xp_config cfg = {
		.reactor = r,
		.recv_len = w->opt.recv_len,
		.recv_aligned_at = w->opt.recv_aligned_at,
		.send_depth = w->opt.send_depth,
	};
	struct error e = { 0 };
	int err = -EINVAL;

	switch (w->provider) {
	case T_FAKE:
		err = t_xp_create(w->hub, &cfg, ret_xp);
		break;
	case T_TCP:
	case T_TLS:
		err = xp_create(XP_TCP, &cfg, ret_xp, &e);
		break;
	case T_VERBS:
		err = xp_create(XP_VERBS, &cfg, ret_xp, &e);
		break;
	}
	if (err)
		fail_msg("no instance: %s (%d)", e.text, err);
}

/* For TCP, the kernel chooses the port of a socket that is closed again. The
 * ports of other providers are no sockets', so any port will do. */
struct sockaddr_in t_free_addr(void)
{
	const char *addr = getenv("T_ADDR");
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, addr ? addr : "127.0.0.1", &sa.sin_addr);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	getsockname(fd, (struct sockaddr *)&sa, &len);
	close(fd);
	return sa;
}

static void requested(struct xp_conn_request *req)
{
	struct t_world *w = req->user;

	assert_true(req->pdata_len <= sizeof(w->req_pdata));
	memcpy(w->req_pdata, req->pdata, req->pdata_len);
	w->req_pdata_len = req->pdata_len;
	if (w->on_request)
		w->on_request(w, req);
	else
		t_accept(w, req);
}

static void reactor_open(struct t_world *w, struct reactor **ret_reactor)
{
	struct reactor_options opt = { .pollable = w->opt.split };

	assert_int_equal(reactor_create(&opt, ret_reactor), 0);
}

const struct xp_key t_key = {
	.name = "backup",
	.secret = "0123456789abcdef0123456789abcdef",
	.len = 32,
};

static int find_key(void *ctx, const char *name, unsigned int nth,
		    struct xp_key *ret)
{
	if (nth > 0 || strcmp(name, t_key.name) != 0)
		return -ENOENT;
	*ret = t_key;
	return 0;
}

static void refused(void *ctx, const char *peer, const char *why)
{
	struct t_world *w = ctx;

	snprintf(w->refused, sizeof(w->refused), "%s", why);
	w->refused_cnt++;
}

static void set_keys(struct t_world *w)
{
	w->keys.find = find_key;
	if (w->opt.keys)
		w->keys = *w->opt.keys;
	w->keys.refused = refused;
	w->keys.ctx = w;
	if (w->opt.keys || w->provider == T_TLS)
		xp_listener_set_keys(w->listener, &w->keys);
}

struct t_world *t_world_open(const struct t_world_options *opt)
{
	struct t_world *w = calloc(1, sizeof(*w));
	struct error e = { 0 };

	assert_non_null(w);
	w->provider = t_provider();
	if (opt)
		w->opt = *opt;
	if (!w->opt.recv_len)
		w->opt.recv_len = 4096;
	if (!w->opt.recv_cnt)
		w->opt.recv_cnt = 16;
	if (w->provider == T_FAKE)
		w->hub = t_fabric_create();
	reactor_open(w, &w->client_reactor);
	w->server_reactor = w->client_reactor;
	if (w->opt.split)
		reactor_open(w, &w->server_reactor);
	xp_open(w, w->client_reactor, &w->client);
	xp_open(w, w->server_reactor, &w->server);
	w->acceptor = w->server;
	w->addr = t_free_addr();
	if (!w->opt.no_listener &&
	    xp_listen(w->server, (struct sockaddr *)&w->addr, sizeof(w->addr),
		      requested, w, &w->listener, &e))
		fail_msg("no listener: %s", e.text);
	if (w->listener)
		set_keys(w);
	return w;
}

static void ends_close(struct t_end *ends, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++)
		t_end_close(&ends[i]);
}

void t_world_close(struct t_world *w)
{
	w->only_server = false;
	ends_close(w->client_ends, w->client_cnt);
	ends_close(w->server_ends, w->server_cnt);
	xp_unlisten(w->listener);
	t_settle(w);
	xp_destroy(w->client);
	xp_destroy(w->server);
	t_settle(w); /* the reactors remove their watches */
	if (w->server_reactor != w->client_reactor)
		reactor_destroy(w->server_reactor);
	reactor_destroy(w->client_reactor);
	if (w->hub)
		t_fabric_destroy(w->hub);
	free(w);
}

/* ---- channels ---- */

static void established(struct xp_chan *ch, const void *pdata, size_t len)
{
	struct t_end *end = xp_chan_user(ch);

	end->late += end->established + end->closing + end->closed;
	end->late += !xp_chan_is_open(ch);
	end->established++;
	assert_true(len <= sizeof(end->pdata));
	if (len)
		memcpy(end->pdata, pdata, len);
	end->pdata_len = len;
	if (end->on_established)
		end->on_established(end);
}

static void received(struct xp_chan *ch, struct xp_iu *iu)
{
	struct t_end *end = xp_chan_user(ch);

	end->late += !end->established + end->closing + end->closed;
	end->received++;
	assert_ptr_equal(iu->ch, ch);
	if (end->on_received)
		end->on_received(end, iu);
	else
		xp_iu_release(iu);
}

bool t_lives(struct t_end *end)
{
	bool lives = xp_chan_lives(end->ch);

	if (!lives) {
		end->asked = true;
		xp_chan_ask(end->ch);
	}
	return lives;
}

static void closing(struct xp_chan *ch)
{
	struct t_end *end = xp_chan_user(ch);

	end->late += end->closing + end->closed;
	end->closing++;
	if (end->on_closing)
		end->on_closing(end);
}

static void heard(struct xp_chan *ch)
{
	struct t_end *end = xp_chan_user(ch);

	end->late += !end->asked || end->closing;
	end->asked = false;
	end->heard++;
}

static void closed(struct xp_chan *ch, const struct error *why)
{
	struct t_end *end = xp_chan_user(ch);

	end->late += !end->closing + end->closed + (end->open_chains > 0);
	end->closed++;
	end->why = *why;
	if (!end->established)
		memcpy(end->pdata, xp_chan_reject_data(ch, &end->pdata_len),
		       sizeof(end->pdata));
	if (end->on_closed)
		end->on_closed(end);
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closing = closing,
	.heard = heard,
	.closed = closed,
};

static struct t_end *end_new(struct t_world *w, struct t_end *ends,
			     unsigned int *cnt)
{
	struct t_end *end = &ends[(*cnt)++];

	assert_true(*cnt <= T_ENDS);
	memset(end, 0, sizeof(*end));
	end->w = w;
	return end;
}

struct t_end *t_connect_to(struct t_world *w, const struct sockaddr_in *addr,
			   const struct xp_chan_params *params)
{
	struct t_end *end = end_new(w, w->client_ends, &w->client_cnt);
	struct xp_chan_params p = { .recv_cnt = w->opt.recv_cnt };
	struct error e = { 0 };

	if (params)
		p = *params;
	if (w->provider == T_TLS && !p.key)
		p.key = &t_key;
	p.handler = &handler;
	p.user = end;
	if (xp_connect(w->client, (const struct sockaddr *)addr, sizeof(*addr),
		       &p, &end->ch, &e))
		fail_msg("no connection: %s", e.text);
	assert_false(xp_chan_is_open(end->ch));
	return end;
}

struct t_end *t_connect(struct t_world *w)
{
	return t_connect_to(w, &w->addr, NULL);
}

struct t_end *t_accept(struct t_world *w, struct xp_conn_request *req)
{
	struct t_end *end = end_new(w, w->server_ends, &w->server_cnt);
	struct xp_chan_params p = {
		.handler = &handler,
		.user = end,
		.recv_cnt = w->opt.recv_cnt,
		.pdata = w->answer,
		.pdata_len = w->answer_len,
	};
	struct error e = { 0 };

	if (xp_accept(w->acceptor, req, &p, &end->ch, &e))
		fail_msg("not accepted: %s", e.text);
	return end;
}

void t_pair(struct t_world *w, struct t_end **ret_client,
	    struct t_end **ret_server)
{
	unsigned int n = w->server_cnt;
	struct t_end *client = t_connect(w);
	struct t_end *server = &w->server_ends[n];

	T_WAIT(w,
	       client->established && w->server_cnt > n && server->established);
	*ret_client = client;
	*ret_server = server;
}

void t_keep(struct t_world *w, struct xp_conn_request *req)
{
	assert_true(w->request_cnt < T_ENDS);
	w->requests[w->request_cnt++] = req;
}

void t_hold(struct t_end *end, struct xp_iu *iu)
{
	assert_true(end->held_cnt < T_HELD);
	end->held[end->held_cnt++] = iu;
}

void t_end_free(struct t_end *end)
{
	while (end->held_cnt)
		xp_iu_release(end->held[--end->held_cnt]);
	xp_chan_free(end->ch);
	end->ch = NULL;
	assert_int_equal(end->closed, 1);
	assert_int_equal(end->late, 0);
	assert_int_equal(end->open_chains, 0);
}

void t_end_close(struct t_end *end)
{
	if (!end->ch)
		return;
	if (!end->closed)
		xp_close(end->ch);
	T_WAIT(end->w, end->closed);
	t_end_free(end);
}

/* ---- memory ---- */

void t_mem_get(struct xp *xp, size_t len, enum xp_access access,
	       struct t_mem *ret_mem)
{
	struct error e = { 0 };
	void *p = NULL;

	assert_int_equal(posix_memalign(&p, 4096, len), 0);
	memset(p, 0, len);
	if (xp_mr_register(xp, p, len, access, &ret_mem->mr, &e))
		fail_msg("not registered: %s", e.text);
	ret_mem->p = p;
	ret_mem->len = len;
}

void t_mem_put(struct t_mem *m)
{
	xp_mr_free(m->mr);
	free(m->p);
}

static uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)(seed * 31 + i + (i >> 8) * 7 + 1);
}

void t_fill(void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)p)[i] = pattern(i, seed);
}

bool t_is_filled(const void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++) {
		if (((const uint8_t *)p)[i] != pattern(i, seed))
			return false;
	}
	return true;
}

/* ---- chains ---- */

static void done(struct xp_chain *c, int status)
{
	struct t_chain *chain = container_of(c, struct t_chain, c);
	struct t_end *end = chain->end;

	assert_false(in_post);
	assert_true(status <= 0);
	end->late += end->closed;
	end->open_chains--;
	chain->done++;
	chain->status = status;
	chain->order = ++end->done_chains;
	if (chain->on_done)
		chain->on_done(chain);
}

void t_post(struct t_end *end, struct t_chain *chain)
{
	chain->end = end;
	chain->done = 0;
	chain->c.done = done;
	end->open_chains++;
	in_post = true;
	xp_post(end->ch, &chain->c);
	in_post = false;
}

void t_post_send(struct t_end *end, struct t_chain *chain,
		 const struct t_mem *m, size_t off, uint32_t len)
{
	chain->c.dir = XP_NO_DATA;
	chain->c.len = 0;
	chain->c.send[0] = (struct xp_sge){ m->p + off, len, m->mr };
	chain->c.send_cnt = 1;
	t_post(end, chain);
}

unsigned int t_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---- peers that do not speak SRP ---- */

int t_raw_connect(const struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const void *)addr, sizeof(*addr)), 0);
	return fd;
}

void t_raw_send(int fd, const void *p, size_t len)
{
	assert_int_equal(send(fd, p, len, MSG_NOSIGNAL), len);
}

void t_check_listener(struct t_world *w)
{
	struct t_end *client;
	struct t_end *server;

	t_pair(w, &client, &server);
	t_end_close(client);
	t_end_close(server);
	w->client_cnt = 0;
	w->server_cnt = 0;
	t_settle(w);
}
