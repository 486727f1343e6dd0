/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract of transport/xport.h, promise by promise. The provider under
 * test is chosen by the environment, see tests/lib/t_world.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"
#include "base/list.h"

#define KIB 1024u
#define MIB (1024u * KIB)

static void skip_unless(bool cond)
{
	if (!cond)
		skip();
}

static void assert_prefix(const void *have, size_t have_len, const void *want,
			  size_t want_len)
{
	const uint8_t *p = have;

	assert_true(have_len >= want_len);
	assert_memory_equal(have, want, want_len);
	for (size_t i = want_len; i < have_len; i++)
		assert_int_equal(p[i], 0);
}

/* ---- connecting ---- */

T_TEST(private_data_travels_both_ways)
{
	struct t_world *w = t_world_open(NULL);
	struct xp_chan_params p = { .recv_cnt = 4 };
	uint8_t question[56];
	uint8_t answer[52];
	struct t_end *client;

	t_fill(question, sizeof(question), 1);
	t_fill(answer, sizeof(answer), 2);
	p.pdata = question;
	p.pdata_len = sizeof(question);
	w->answer = answer;
	w->answer_len = sizeof(answer);
	client = t_connect_to(w, &w->addr, &p);
	T_WAIT(w, client->established && w->server_ends[0].established);
	assert_prefix(w->req_pdata, w->req_pdata_len, question,
		      sizeof(question));
	assert_prefix(client->pdata, client->pdata_len, answer, sizeof(answer));
	assert_int_equal(w->server_ends[0].pdata_len, 0);
	t_world_close(w);
}

T_TEST(both_sides_know_the_addresses)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;
	char text[64];

	snprintf(text, sizeof(text), "%s:%u", inet_ntoa(w->addr.sin_addr),
		 ntohs(w->addr.sin_port));
	t_pair(w, &client, &server);
	assert_string_equal(xp_chan_peer(client->ch), text);
	assert_string_equal(xp_chan_local(server->ch), text);
	assert_string_equal(xp_chan_peer(server->ch),
			    xp_chan_local(client->ch));
	assert_string_not_equal(xp_chan_local(client->ch), "");
	assert_string_not_equal(xp_chan_device(client->ch), "");
	assert_ptr_equal(xp_chan_xp(client->ch), w->client);
	assert_string_equal(xp_chan_device(client->ch),
			    xp_chan_device(server->ch));
	t_world_close(w);
}

static const struct reject_case {
	const char *name;
	size_t len;
} reject_cases[] = {
	{ "with an SRP_LOGIN_REJ", 32 },
	{ "without data", 0 },
};

static const struct reject_case *reject_case;
static const uint8_t reject_data[32] = { 0xc2, 0, 0, 0, 0, 1, 0, 6 };

static void reject(struct t_world *w, struct xp_conn_request *req)
{
	xp_reject(req, reject_data, reject_case->len);
}

T_ROWS(reject_reaches_the_initiator, reject_cases)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;

	reject_case = *state;
	w->on_request = reject;
	client = t_connect(w);
	T_WAIT(w, client->closed);
	assert_int_equal(client->established, 0);
	assert_int_equal(client->why.err, -ECONNREFUSED);
	assert_prefix(client->pdata, client->pdata_len, reject_data,
		      reject_case->len);
	assert_string_not_equal(client->why.text, "");
	t_world_close(w);
}

T_TEST(connecting_to_nobody_is_refused)
{
	struct t_world *w = t_world_open(NULL);
	struct sockaddr_in nobody = t_free_addr();
	struct t_end *client = t_connect_to(w, &nobody, NULL);

	T_WAIT(w, client->closed);
	assert_int_equal(client->established, 0);
	assert_int_equal(client->why.err, -ECONNREFUSED);
	assert_int_equal(client->pdata_len, 0);
	t_world_close(w);
}

T_TEST(no_answer_times_out)
{
	struct t_world *w = t_world_open(NULL);
	struct xp_chan_params p = {
		.recv_cnt = 1,
		/* A handshake takes long in an emulated guest. */
		.timeout_ms = t_provider() == T_TLS ? 2000 : 50,
	};
	struct t_end *client;

	/* The request is there, and the test does not answer it. */
	w->on_request = t_keep;
	client = t_connect_to(w, &w->addr, &p);
	T_WAIT(w, client->closed && w->request_cnt == 1);
	assert_int_equal(client->established, 0);
	assert_int_equal(client->why.err, -ETIMEDOUT);
	xp_reject(w->requests[0], NULL, 0);
	t_world_close(w);
}

T_TEST(close_while_connecting)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;

	w->on_request = t_keep;
	client = t_connect(w);
	xp_close(client->ch);
	assert_int_equal(client->closed, 0);
	T_WAIT(w, client->closed);
	assert_int_equal(client->established, 0);
	assert_int_equal(client->why.err, 0);
	t_settle(w);
	if (w->request_cnt)
		xp_reject(w->requests[0], NULL, 0);
	t_world_close(w);
}

T_TEST(accept_of_one_who_has_gone_just_closes)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;

	w->on_request = t_keep;
	client = t_connect(w);
	T_WAIT(w, w->request_cnt == 1);
	t_end_close(client);
	server = t_accept(w, w->requests[0]);
	T_WAIT(w, server->closed);
	assert_int_not_equal(server->why.err, 0);
	t_world_close(w);
}

T_TEST(reject_of_one_who_has_gone)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;

	w->on_request = t_keep;
	client = t_connect(w);
	T_WAIT(w, w->request_cnt == 1);
	t_end_close(client);
	xp_reject(w->requests[0], reject_data, sizeof(reject_data));
	t_world_close(w);
}

T_TEST(requests_outlive_their_listener)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *first;
	struct t_end *second;
	struct t_end *server;

	w->on_request = t_keep;
	first = t_connect(w);
	T_WAIT(w, w->request_cnt == 1);
	second = t_connect(w);
	T_WAIT(w, w->request_cnt == 2);
	xp_unlisten(w->listener);
	w->listener = NULL;
	t_settle(w);
	server = t_accept(w, w->requests[0]);
	xp_reject(w->requests[1], NULL, 0);
	T_WAIT(w, first->established && server->established);
	T_WAIT(w, second->closed);
	assert_int_equal(second->why.err, -ECONNREFUSED);
	t_world_close(w);
}

static void unlisten_at_once(struct t_world *w, struct xp_conn_request *req)
{
	xp_unlisten(w->listener);
	w->listener = NULL;
	t_accept(w, req);
}

T_TEST(unlisten_from_within_a_request)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *late;

	w->on_request = unlisten_at_once;
	client = t_connect(w);
	T_WAIT(w, client->established && w->server_ends[0].established);
	late = t_connect(w);
	T_WAIT(w, late->closed);
	assert_int_equal(late->why.err, -ECONNREFUSED);
	t_world_close(w);
}

T_TEST(an_address_is_listened_on_once)
{
	struct t_world *w = t_world_open(NULL);
	struct xp_listener *second = NULL;
	struct error e = { 0 };

	assert_int_equal(xp_listen(w->server, (struct sockaddr *)&w->addr,
				   sizeof(w->addr), NULL, NULL, &second, &e),
			 -EADDRINUSE);
	assert_null(second);
	assert_string_not_equal(e.text, "");
	t_world_close(w);
}

/* ---- sending ---- */

static const struct send_case {
	const char *name;
	uint32_t len;
	uint32_t second; /* bytes of a second piece */
} send_cases[] = {
	{ "1 byte", 1, 0 },
	{ "48 bytes", 48, 0 },
	{ "64 bytes", 64, 0 },
	{ "127 bytes", 127, 0 },
	{ "128 bytes", 128, 0 },
	{ "129 bytes", 129, 0 },
	{ "511 bytes", 511, 0 },
	{ "4095 bytes", 4095, 0 },
	{ "as long as a receive", 4096, 0 },
	{ "two small pieces", 36, 18 },
	{ "two pieces, the second large", 68, 4028 },
	{ "two pieces, the second of one byte", 4095, 1 },
};

static uint8_t got[8192];
static uint32_t got_len;

static void keep_copy(struct t_end *end, struct xp_iu *iu)
{
	memcpy(got, iu->data, iu->len);
	got_len = iu->len;
	xp_iu_release(iu);
}

static void send_one(struct t_world *w, struct t_end *from, struct t_end *to,
		     const struct send_case *sc)
{
	struct t_chain chain = { 0 };
	struct t_mem m;

	t_mem_get(xp_chan_xp(from->ch), 8 * KIB, XP_LOCAL, &m);
	t_fill(m.p, sc->len + sc->second, sc->len);
	/* The pieces do not lie next to each other. */
	memmove(m.p + sc->len + 8, m.p + sc->len, sc->second);
	memset(m.p + sc->len, 0xee, 8);
	to->on_received = keep_copy;
	to->received = 0;
	chain.c.send[0] = (struct xp_sge){ m.p, sc->len, m.mr };
	chain.c.send[1] =
		(struct xp_sge){ m.p + sc->len + 8, sc->second, m.mr };
	chain.c.send_cnt = sc->second ? 2 : 1;
	t_post(from, &chain);
	T_WAIT(w, chain.done && to->received);
	assert_int_equal(chain.status, 0);
	assert_int_equal(got_len, sc->len + sc->second);
	assert_true(t_is_filled(got, got_len, sc->len));
	t_mem_put(&m);
}

T_ROWS(sends_arrive_whole, send_cases)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;

	t_pair(w, &client, &server);
	send_one(w, client, server, *state);
	send_one(w, server, client, *state);
	t_world_close(w);
}

T_TEST(too_long_an_iu_ends_the_channel)
{
	struct t_world *w = t_world_open(NULL);
	struct t_chain chain = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	t_pair(w, &client, &server);
	t_mem_get(w->client, 8 * KIB, XP_LOCAL, &m);
	t_post_send(client, &chain, &m, 0, 4097);
	T_WAIT(w, client->closed && server->closed);
	assert_int_equal(chain.done, 1);
	assert_int_equal(server->received, 0);
	assert_int_not_equal(client->why.err, 0);
	assert_int_not_equal(server->why.err, 0);
	t_mem_put(&m);
	t_world_close(w);
}

/* The receiver answers. The client sends a message for each answer, so that no
 * more messages are under way than there are receives. */
struct pong {
	struct t_chain chain;
	struct t_mem *m;
	unsigned int left;
	unsigned int wrong;
};

static void answer(struct t_end *end, struct xp_iu *iu)
{
	struct pong *pong = end->user;
	unsigned int n = end->received % T_HELD;
	struct pong *p = &pong[n % 8];

	p->wrong += iu->len != 64;
	xp_iu_release(iu);
	if (p->chain.c.done && !p->chain.done)
		p->wrong++;
	t_post_send(end, &p->chain, p->m, 0, 64);
}

static void ask_again(struct t_end *end, struct xp_iu *iu)
{
	struct pong *pong = end->user;

	pong->wrong += iu->len != 64;
	xp_iu_release(iu);
	if (pong->left == 0)
		return;
	pong->left--;
	t_post_send(end, &pong[pong->left % 8].chain, pong->m, 0, 64);
}

/* Four messages are under way at most, with eight chains and four receives. */
T_TEST(few_receives_serve_many_messages)
{
	struct t_world_options opt = { .recv_cnt = 4 };
	const unsigned int total = t_provider() == T_VERBS ? 1000 : 10000;
	struct t_world *w = t_world_open(&opt);
	struct pong client_pong[8] = { 0 };
	struct pong server_pong[8] = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem cm;
	struct t_mem sm;

	t_mem_get(w->client, 4096, XP_LOCAL, &cm);
	t_mem_get(w->server, 4096, XP_LOCAL, &sm);
	t_pair(w, &client, &server);
	client->user = client_pong;
	server->user = server_pong;
	client->on_received = ask_again;
	server->on_received = answer;
	for (unsigned int i = 0; i < 8; i++) {
		client_pong[i].m = &cm;
		server_pong[i].m = &sm;
	}
	client_pong->left = total - 4;
	for (unsigned int i = 0; i < 4; i++)
		t_post_send(client, &client_pong[4 + i].chain, &cm, 0, 64);
	T_WAIT(w, client->received == total);
	assert_int_equal(server->received, total);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(client_pong[i].wrong + server_pong[i].wrong,
				 0);
	if (w->hub)
		assert_int_equal(t_fabric_rnr(w->hub), 0);
	t_settle(w);
	t_mem_put(&cm);
	t_mem_put(&sm);
	t_world_close(w);
}

/* A peer that sends more than it may must wait, and no reactor spins. */
T_TEST_IF(t_provider() != T_VERBS, message_without_a_receive_waits)
{
	struct t_world_options opt = { .recv_cnt = 2 };
	struct t_world *w = t_world_open(&opt);
	struct t_chain chains[8] = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	t_mem_get(w->server, 4096, XP_LOCAL, &m);
	t_pair(w, &client, &server);
	client->on_received = t_hold;
	for (unsigned int i = 0; i < ARRAY_SIZE(chains); i++)
		t_post_send(server, &chains[i], &m, 0, 64);
	T_WAIT(w, client->received >= 2);
	t_settle(w); /* returns: no reactor spins */
	/* A provider may have one receive more. */
	assert_in_range(client->received, 2, 3);
	while (client->held_cnt < 8 && client->held_cnt > 0) {
		unsigned int n = client->received;

		xp_iu_release(client->held[--client->held_cnt]);
		if (n < 8)
			T_WAIT(w, client->received > n);
	}
	assert_int_equal(client->received, 8);
	T_WAIT(w, server->open_chains == 0);
	t_mem_put(&m);
	t_world_close(w);
}

static const struct align_case {
	const char *name;
	size_t at;
	size_t recv_len;
} align_cases[] = {
	{ "the IU itself", 0, 4096 },
	{ "immediate data at 68", 68, 8260 },
	{ "immediate data at 512", 512, 8704 },
	{ "a length that is no multiple", 48, 1001 },
};

T_ROWS(receives_are_aligned_where_asked, align_cases)
{
	const struct align_case *ac = *state;
	struct t_world_options opt = {
		.recv_aligned_at = ac->at,
		.recv_len = ac->recv_len,
		.recv_cnt = 8,
	};
	struct t_world *w = t_world_open(&opt);
	struct t_chain chains[8] = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	t_mem_get(w->client, 16 * KIB, XP_LOCAL, &m);
	t_pair(w, &client, &server);
	server->on_received = t_hold;
	for (unsigned int i = 0; i < 8; i++) {
		t_fill(m.p, ac->recv_len, 5);
		t_post_send(client, &chains[i], &m, 0, (uint32_t)ac->recv_len);
	}
	T_WAIT(w, server->received == 8 && chains[7].done);
	for (unsigned int i = 0; i < 8; i++) {
		const uint8_t *p = server->held[i]->data;

		if (!t_is_tcp())
			assert_int_equal((uintptr_t)(p + ac->at) % 512, 0);
		assert_int_equal(server->held[i]->len, ac->recv_len);
		/* The IUs do not overlap: all data is intact. */
		assert_true(t_is_filled(p, ac->recv_len, 5));
	}
	t_mem_put(&m);
	t_world_close(w);
}

/* IUs that the server has not released, with their numbers. */
struct shelf {
	struct xp_iu *iu[6];
	unsigned int number[6];
	unsigned int cnt;
	unsigned int released;
};

static uint32_t shelf_len(unsigned int number)
{
	return 1 + number * 2053 % 4096;
}

static void shelf_add(struct t_end *end, struct xp_iu *iu)
{
	struct shelf *s = end->user;

	assert_true(s->cnt < ARRAY_SIZE(s->iu));
	s->number[s->cnt] = end->received - 1;
	s->iu[s->cnt++] = iu;
}

static void shelf_release(struct shelf *s, unsigned int i)
{
	unsigned int number = s->number[i];

	assert_int_equal(s->iu[i]->len, shelf_len(number));
	assert_true(t_is_filled(s->iu[i]->data, s->iu[i]->len, number % 251));
	xp_iu_release(s->iu[i]);
	s->iu[i] = s->iu[--s->cnt];
	s->number[i] = s->number[s->cnt];
	s->released++;
}

/* IUs are released in another order, and one is held much longer. Over verbs, a
 * SEND would have to wait for a receive buffer. */
T_TEST_IF(t_provider() != T_VERBS, held_ius_keep_their_bytes)
{
	struct t_world_options opt = { .recv_cnt = 6 };
	struct t_chain chains[8] = { 0 };
	struct t_world *w = t_world_open(&opt);
	struct shelf shelf = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	t_mem_get(w->client, 32 * KIB, XP_LOCAL, &m);
	t_pair(w, &client, &server);
	server->user = &shelf;
	server->on_received = shelf_add;
	for (unsigned int n = 0; n < 1000; n++) {
		struct t_chain *chain = &chains[n % 8];
		size_t at = n % 8 * 4 * KIB;

		if (n - shelf.released == opt.recv_cnt) {
			T_WAIT(w, shelf.cnt == opt.recv_cnt);
			shelf_release(&shelf, n % 50 ? 1 + n % 5 : 0);
		}
		T_WAIT(w, n < 8 || chain->done);
		memset(chain, 0, sizeof(*chain));
		t_fill(m.p + at, shelf_len(n), n % 251);
		t_post_send(client, chain, &m, at, shelf_len(n));
	}
	T_WAIT(w, server->received == 1000 && client->open_chains == 0);
	while (shelf.cnt)
		shelf_release(&shelf, 0);
	t_mem_put(&m);
	t_world_close(w);
}

/* ---- data ---- */

static const struct data_case {
	const char *name;
	uint32_t desc_len[6];
	unsigned int desc_cnt;
	uint32_t len;
} data_cases[] = {
	{ "one descriptor", { 4096 }, 1, 4096 },
	{ "one byte", { 4096 }, 1, 1 },
	{ "odd lengths", { 1, 511, 1024, 3 }, 4, 1539 },
	{ "the last one partly", { 4096, 4096, 4096 }, 3, 9000 },
	{ "less than the descriptors", { 512, 4096, 4096 }, 3, 512 },
	{ "the first is not filled", { 4096, 4096 }, 2, 100 },
	{ "empty descriptors first", { 0, 0, 512 }, 3, 512 },
	{ "empty descriptors between", { 512, 0, 0, 512, 0, 100 }, 6, 1124 },
	{ "empty descriptors last", { 512, 0 }, 2, 512 },
	{ "large ones", { 65536, 131072, 4096, 300000 }, 4, 500000 },
};

/* Describes places with gaps of 64 bytes between them. */
static void describe(const struct data_case *dc, const struct t_mem *m,
		     const struct t_end *owner, struct srp_desc *descs)
{
	size_t off = 64;

	for (unsigned int i = 0; i < dc->desc_cnt; i++) {
		xp_mr_remote(m->mr, owner->ch, m->p + off, &descs[i].addr,
			     &descs[i].key);
		descs[i].len = dc->desc_len[i];
		off += dc->desc_len[i] + 64;
	}
}

/* Copies between @flat and the described places, and fills the rest. */
static void scatter(const struct data_case *dc, uint8_t *mem, uint8_t *flat,
		    bool to_mem)
{
	size_t off = 64;
	size_t done = 0;

	for (unsigned int i = 0; i < dc->desc_cnt; i++) {
		size_t n = dc->desc_len[i];

		if (n > dc->len - done)
			n = dc->len - done;
		memcpy(to_mem ? mem + off : flat + done,
		       to_mem ? flat + done : mem + off, n);
		done += n;
		off += dc->desc_len[i] + 64;
	}
}

static void move_data(struct t_world *w, const struct data_case *dc,
		      enum xp_dir dir)
{
	struct t_chain chain = { 0 };
	struct srp_desc descs[6];
	struct t_end *client;
	struct t_end *server;
	struct t_mem remote;
	struct t_mem local;
	struct t_mem want;

	t_pair(w, &client, &server);
	t_mem_get(w->client, MIB, XP_REMOTE, &remote);
	t_mem_get(w->server, MIB, XP_LOCAL, &local);
	t_mem_get(w->server, MIB, XP_LOCAL, &want);
	describe(dc, &remote, client, descs);
	t_fill(want.p, MIB, 3);
	if (dir == XP_RDMA_WRITE)
		memcpy(local.p, want.p, dc->len);
	else
		scatter(dc, remote.p, want.p, true);
	chain.c.dir = dir;
	chain.c.remote = descs;
	chain.c.len = dc->len;
	chain.c.local = local.p;
	chain.c.local_mr = local.mr;
	chain.c.send[0] = (struct xp_sge){ want.p, 16, want.mr };
	chain.c.send_cnt = 1;
	t_post(server, &chain);
	/* The SEND shows that the data has been moved. */
	T_WAIT(w, chain.done && client->received);
	assert_int_equal(chain.status, 0);
	if (dir == XP_RDMA_WRITE) {
		uint8_t *flat = calloc(1, MIB);

		scatter(dc, remote.p, flat, false);
		assert_memory_equal(flat, want.p, dc->len);
		/* No other memory was changed. */
		memset(flat, 0, MIB);
		scatter(dc, remote.p, flat, true);
		memset(flat, 0, MIB);
		assert_memory_equal(remote.p, flat, MIB);
		free(flat);
	} else {
		assert_memory_equal(local.p, want.p, dc->len);
		assert_int_equal(local.p[dc->len], 0);
	}
	t_mem_put(&remote);
	t_mem_put(&local);
	t_mem_put(&want);
}

T_ROWS(writes_follow_the_descriptors, data_cases)
{
	struct t_world *w = t_world_open(NULL);

	move_data(w, *state, XP_RDMA_WRITE);
	t_world_close(w);
}

T_ROWS(reads_follow_the_descriptors, data_cases)
{
	struct t_world *w = t_world_open(NULL);

	move_data(w, *state, XP_RDMA_READ);
	t_world_close(w);
}

/* ---- order ---- */

#define BLOCK 4096u

struct rig {
	struct t_world *w;
	struct t_end *client;
	struct t_end *server;
	struct t_mem remote; /* of the client */
	struct t_mem local;  /* of the server */
};

static void rig_open(struct rig *r, const struct t_world_options *opt,
		     size_t len)
{
	memset(r, 0, sizeof(*r));
	r->w = t_world_open(opt);
	t_pair(r->w, &r->client, &r->server);
	t_mem_get(r->w->client, len, XP_REMOTE, &r->remote);
	t_mem_get(r->w->server, len, XP_LOCAL, &r->local);
}

static void rig_close(struct rig *r)
{
	struct t_world *w = r->w;

	w->only_server = false;
	t_end_close(r->client);
	t_end_close(r->server);
	t_mem_put(&r->remote);
	t_mem_put(&r->local);
	t_world_close(w);
}

/* Fills @cnt descriptors of @len bytes each, starting at @off, for @chain. */
static void aim(struct rig *r, struct t_chain *chain, enum xp_dir dir,
		struct srp_desc *descs, unsigned int cnt, size_t off,
		uint32_t len)
{
	for (unsigned int i = 0; i < cnt; i++) {
		xp_mr_remote(r->remote.mr, r->client->ch,
			     r->remote.p + off + i * len, &descs[i].addr,
			     &descs[i].key);
		descs[i].len = len;
	}
	chain->c.dir = dir;
	chain->c.remote = descs;
	chain->c.len = cnt * len;
	chain->c.local = r->local.p + off;
	chain->c.local_mr = r->local.mr;
}

static unsigned int wrong;

/* When the nth SEND arrives, the nth two blocks must be there. */
static void check_blocks(struct t_end *end, struct xp_iu *iu)
{
	struct rig *r = end->user;
	unsigned int n = end->received - 1;

	wrong += !t_is_filled(r->remote.p + n * 2 * BLOCK, 2 * BLOCK, n);
	xp_iu_release(iu);
}

T_TEST(who_sees_the_send_sees_the_data)
{
	struct t_chain chains[64] = { 0 };
	struct srp_desc descs[64][2];
	struct t_world_options opt = { .recv_cnt = 64 };
	struct rig r;

	rig_open(&r, &opt, 64 * 2 * BLOCK);
	wrong = 0;
	r.client->user = &r;
	r.client->on_received = check_blocks;
	for (unsigned int i = 0; i < 64; i++) {
		size_t off = i * 2 * BLOCK;

		t_fill(r.local.p + off, 2 * BLOCK, i);
		aim(&r, &chains[i], XP_RDMA_WRITE, descs[i], 2, off, BLOCK);
		chains[i].c.send[0] =
			(struct xp_sge){ r.local.p, 36, r.local.mr };
		chains[i].c.send_cnt = 1;
		t_post(r.server, &chains[i]);
	}
	T_WAIT(r.w, r.client->received == 64 && chains[63].done);
	assert_int_equal(wrong, 0);
	rig_close(&r);
}

T_TEST(chain_longer_than_the_send_queue)
{
	struct t_world_options opt = { .send_depth = 16 };
	struct srp_desc descs[255];
	struct t_chain chain = { 0 };
	struct rig r;

	rig_open(&r, &opt, 255 * 512);
	t_fill(r.local.p, r.local.len, 9);
	aim(&r, &chain, XP_RDMA_WRITE, descs, 255, 0, 512);
	chain.c.send[0] = (struct xp_sge){ r.local.p, 36, r.local.mr };
	chain.c.send_cnt = 1;
	t_post(r.server, &chain);
	T_WAIT(r.w, chain.done && r.client->received);
	assert_int_equal(chain.status, 0);
	assert_true(t_is_filled(r.remote.p, r.remote.len, 9));
	/* The same in the other direction. */
	memset(r.local.p, 0, r.local.len);
	aim(&r, &chain, XP_RDMA_READ, descs, 255, 0, 512);
	chain.c.send_cnt = 0;
	t_post(r.server, &chain);
	T_WAIT(r.w, chain.done);
	assert_true(t_is_filled(r.local.p, r.local.len, 9));
	rig_close(&r);
}

#define MANY 2000u

T_TEST(many_chains_are_done_once_and_in_order)
{
	struct t_world_options opt = { .send_depth = 16 };
	struct t_chain *chains = calloc(MANY, sizeof(*chains));
	struct srp_desc *descs = calloc(MANY, sizeof(*descs));
	struct rig r;

	rig_open(&r, &opt, MANY * 64);
	t_fill(r.local.p, r.local.len, 4);
	for (unsigned int i = 0; i < MANY; i++) {
		aim(&r, &chains[i], XP_RDMA_WRITE, &descs[i], 1, i * 64, 64);
		t_post(r.server, &chains[i]);
		assert_int_equal(chains[i].done, 0);
	}
	T_WAIT(r.w, r.server->open_chains == 0);
	for (unsigned int i = 0; i < MANY; i++) {
		assert_int_equal(chains[i].done, 1);
		assert_int_equal(chains[i].status, 0);
		assert_int_equal(chains[i].order, i + 1);
	}
	/* A SEND behind them shows when they have arrived. */
	t_post_send(r.server, &chains[0], &r.local, 0, 16);
	T_WAIT(r.w, r.client->received == 1 && chains[0].done);
	assert_true(t_is_filled(r.remote.p, r.remote.len, 4));
	rig_close(&r);
	free(chains);
	free(descs);
}

struct again {
	struct t_chain chain;
	unsigned int left;
};

static void post_again(struct t_chain *chain)
{
	struct again *a = container_of(chain, struct again, chain);

	if (a->left-- > 0 && chain->status == 0)
		t_post(chain->end, chain);
}

T_TEST(done_may_post_again)
{
	struct srp_desc desc;
	struct again a = { .left = 500 };
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	aim(&r, &a.chain, XP_RDMA_READ, &desc, 1, 0, BLOCK);
	a.chain.on_done = post_again;
	t_post(r.server, &a.chain);
	T_WAIT(r.w, r.server->open_chains == 0);
	assert_int_equal(r.server->done_chains, 501);
	rig_close(&r);
}

T_TEST(a_received_iu_can_be_the_source)
{
	struct t_chain chains[2] = { 0 };
	struct srp_desc desc;
	struct xp_iu *iu;
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	r.server->on_received = t_hold;
	t_fill(r.remote.p, 600, 8);
	t_post_send(r.client, &chains[0], &r.remote, 0, 600);
	T_WAIT(r.w, r.server->received && chains[0].done);
	iu = r.server->held[0];
	skip_unless(iu->mr != NULL);
	aim(&r, &chains[1], XP_RDMA_WRITE, &desc, 1, 1024, 600);
	chains[1].c.local = iu->data;
	chains[1].c.local_mr = iu->mr;
	chains[1].c.send[0] = (struct xp_sge){ iu->data, 64, iu->mr };
	chains[1].c.send_cnt = 1;
	t_post(r.server, &chains[1]);
	T_WAIT(r.w, chains[1].done && r.client->received);
	assert_true(t_is_filled(r.remote.p + 1024, 600, 8));
	rig_close(&r);
}

T_TEST(a_large_transfer_arrives)
{
	const uint32_t len = t_provider() == T_VERBS ? 4 * MIB : 32 * MIB;
	struct t_chain chain = { 0 };
	struct srp_desc desc;
	struct rig r;

	rig_open(&r, NULL, len);
	t_fill(r.local.p, len, 6);
	aim(&r, &chain, XP_RDMA_WRITE, &desc, 1, 0, len);
	chain.c.send[0] = (struct xp_sge){ r.local.p, 1, r.local.mr };
	chain.c.send_cnt = 1;
	t_post(r.server, &chain);
	T_WAIT(r.w, r.client->received && chain.done);
	assert_true(t_is_filled(r.remote.p, len, 6));
	memset(r.local.p, 0, len);
	aim(&r, &chain, XP_RDMA_READ, &desc, 1, 0, len);
	chain.c.send_cnt = 0;
	t_post(r.server, &chain);
	T_WAIT(r.w, chain.done);
	assert_true(t_is_filled(r.local.p, len, 6));
	rig_close(&r);
}

/* ---- failure ---- */

enum bad {
	BAD_KEY,
	PAST_THE_END,
	BEFORE_THE_BEGINNING,
	NOT_REGISTERED_ANY_MORE,
};

static const struct bad_case {
	const char *name;
	enum xp_dir dir;
	enum bad bad;
} bad_cases[] = {
	{ "write with a bad key", XP_RDMA_WRITE, BAD_KEY },
	{ "read with a bad key", XP_RDMA_READ, BAD_KEY },
	{ "write past the end", XP_RDMA_WRITE, PAST_THE_END },
	{ "read past the end", XP_RDMA_READ, PAST_THE_END },
	{ "write before the beginning", XP_RDMA_WRITE, BEFORE_THE_BEGINNING },
	{ "write after deregistration", XP_RDMA_WRITE,
	  NOT_REGISTERED_ANY_MORE },
	{ "read after deregistration", XP_RDMA_READ, NOT_REGISTERED_ANY_MORE },
};

static void spoil(struct rig *r, struct srp_desc *desc, enum bad bad)
{
	switch (bad) {
	case BAD_KEY:
		desc->key += 0x5a5a00;
		break;
	case PAST_THE_END:
		desc->addr += r->remote.len - desc->len + 1;
		break;
	case BEFORE_THE_BEGINNING:
		xp_mr_remote(r->remote.mr, r->client->ch, r->remote.p,
			     &desc->addr, &desc->key);
		desc->addr--;
		break;
	case NOT_REGISTERED_ANY_MORE:
		xp_mr_free(r->remote.mr);
		r->remote.mr = NULL;
		break;
	}
}

/* Good work requests come before and after the bad ones. */
T_ROWS(bad_remote_access_ends_both_sides, bad_cases)
{
	const struct bad_case *bc = *state;
	struct t_chain chains[9] = { 0 };
	struct srp_desc descs[9];
	struct rig r;

	rig_open(&r, NULL, 16 * BLOCK);
	for (unsigned int i = 0; i < 9; i++)
		aim(&r, &chains[i], bc->dir, &descs[i], 1, i * BLOCK, BLOCK);
	spoil(&r, &descs[4], bc->bad);
	for (unsigned int i = 0; i < 9; i++)
		t_post(r.server, &chains[i]);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	assert_int_not_equal(r.server->why.err, 0);
	assert_int_not_equal(r.client->why.err, 0);
	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(chains[i].done, 1);
	/* A READ cannot have completed. A WRITE is done when it has left. */
	if (bc->dir == XP_RDMA_READ)
		assert_int_not_equal(chains[4].status, 0);
	rig_close(&r);
}

static const struct end_case {
	const char *name;
	enum xp_dir dir;
	bool by_peer;
	unsigned int turns; /* turns before the end */
} end_cases[] = {
	{ "writes, closed here", XP_RDMA_WRITE, false, 0 },
	{ "writes, closed here soon", XP_RDMA_WRITE, false, 3 },
	{ "writes, closed there", XP_RDMA_WRITE, true, 0 },
	{ "writes, closed there soon", XP_RDMA_WRITE, true, 3 },
	{ "reads, closed here", XP_RDMA_READ, false, 0 },
	{ "reads, closed here soon", XP_RDMA_READ, false, 1 },
	{ "reads, closed here later", XP_RDMA_READ, false, 4 },
	{ "reads, closed there", XP_RDMA_READ, true, 0 },
	{ "reads, closed there soon", XP_RDMA_READ, true, 1 },
	{ "reads, closed there later", XP_RDMA_READ, true, 4 },
};

T_ROWS(chains_in_flight_are_done_once, end_cases)
{
	const struct end_case *ec = *state;
	struct t_world_options opt = { .send_depth = 32 };
	struct t_chain chains[100] = { 0 };
	struct srp_desc descs[100];
	struct rig r;

	rig_open(&r, &opt, 100 * 64 * KIB);
	for (unsigned int i = 0; i < 100; i++) {
		aim(&r, &chains[i], ec->dir, &descs[i], 1, i * 64 * KIB,
		    64 * KIB);
		t_post(r.server, &chains[i]);
	}
	for (unsigned int i = 0; i < ec->turns; i++)
		reactor_run_once(r.w->server_reactor, 0);
	xp_close(ec->by_peer ? r.client->ch : r.server->ch);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	assert_int_equal(r.server->why.err == 0, !ec->by_peer);
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(chains[i].done, 1);
		assert_true(chains[i].status == 0 || chains[i].status < 0);
	}
	/* There was no time for all of it. */
	if (ec->turns == 0 && !ec->by_peer)
		assert_int_equal(chains[99].status, -ECANCELED);
	rig_close(&r);
}

T_TEST(a_closing_channel_takes_no_more)
{
	struct t_chain chain = { 0 };
	struct srp_desc desc;
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	aim(&r, &chain, XP_RDMA_WRITE, &desc, 1, 0, BLOCK);
	t_fill(r.local.p, BLOCK, 1);
	xp_close(r.server->ch);
	assert_int_equal(r.server->closing, 1);
	assert_int_equal(r.server->closed, 0);
	assert_false(xp_chan_is_open(r.server->ch));
	t_post(r.server, &chain);
	assert_int_equal(chain.done, 0);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	assert_int_equal(chain.done, 1);
	assert_int_equal(chain.status, -ECANCELED);
	assert_false(t_is_filled(r.remote.p, BLOCK, 1));
	rig_close(&r);
}

T_TEST(a_connecting_channel_takes_none_yet)
{
	struct t_world *w = t_world_open(NULL);
	struct t_chain chain = { 0 };
	struct t_end *client;
	struct t_mem m;

	t_mem_get(w->client, 4096, XP_LOCAL, &m);
	client = t_connect(w);
	t_post_send(client, &chain, &m, 0, 16);
	assert_int_equal(chain.done, 0);
	T_WAIT(w, chain.done);
	assert_int_equal(chain.status, -ECANCELED);
	T_WAIT(w, client->established);
	t_mem_put(&m);
	t_world_close(w);
}

T_TEST(both_close_at_once)
{
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	xp_close(r.server->ch);
	xp_close(r.client->ch);
	xp_close(r.client->ch); /* harmless */
	T_WAIT(r.w, r.server->closed && r.client->closed);
	t_settle(r.w);
	assert_int_equal(r.client->closing, 1);
	assert_int_equal(r.client->closed, 1);
	assert_int_equal(r.server->closed, 1);
	rig_close(&r);
}

static void close_here(struct t_end *end)
{
	xp_close(end->ch);
}

static void free_here(struct t_end *end)
{
	t_end_free(end);
}

static void close_on_iu(struct t_end *end, struct xp_iu *iu)
{
	xp_close(end->ch);
	xp_iu_release(iu);
}

static void close_on_done(struct t_chain *chain)
{
	xp_close(chain->end->ch);
}

T_TEST(close_from_within_callbacks)
{
	struct t_world *w = t_world_open(NULL);
	struct t_chain chains[3] = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	t_mem_get(w->client, 4096, XP_LOCAL, &m);
	/* established() */
	client = t_connect(w);
	client->on_established = close_here;
	client->on_closed = free_here;
	T_WAIT(w, client->closed && w->server_ends[0].closed);
	/* received(), with more messages behind it; freed in closed() */
	t_pair(w, &client, &server);
	server->on_received = close_on_iu;
	server->on_closed = free_here;
	for (unsigned int i = 0; i < 3; i++)
		t_post_send(client, &chains[i], &m, 0, 64);
	T_WAIT(w, client->closed && server->closed);
	assert_int_equal(server->received, 1);
	/* done() */
	t_pair(w, &client, &server);
	chains[0].on_done = close_on_done;
	for (unsigned int i = 0; i < 3; i++)
		t_post_send(client, &chains[i], &m, 0, 64);
	T_WAIT(w, client->closed && server->closed);
	assert_int_equal(client->why.err, 0);
	t_mem_put(&m);
	t_world_close(w);
}

T_TEST(release_and_free_in_one_turn)
{
	struct t_chain chains[4] = { 0 };
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	r.server->on_received = t_hold;
	for (unsigned int i = 0; i < 4; i++)
		t_post_send(r.client, &chains[i], &r.remote, 0, 64);
	T_WAIT(r.w, r.server->received == 4 && chains[3].done);
	xp_close(r.server->ch);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	/* IUs outlive closed(). */
	assert_int_equal(r.server->held_cnt, 4);
	assert_int_equal(r.server->held[0]->len, 64);
	t_end_free(r.server);
	rig_close(&r);
}

T_TEST(what_was_sent_before_the_end_is_received)
{
	struct t_chain chains[8] = { 0 };
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	for (unsigned int i = 0; i < 8; i++)
		t_post_send(r.server, &chains[i], &r.local, 0, 64);
	chains[7].on_done = close_on_done;
	T_WAIT(r.w, r.client->closed && r.server->closed);
	assert_int_equal(r.client->received, 8);
	rig_close(&r);
}

/* ---- signs of life ---- */

static bool lived; /* when the last IU arrived */

static void note_life(struct t_end *end, struct xp_iu *iu)
{
	lived = t_lives(end);
	xp_iu_release(iu);
}

static void run_client(struct t_world *w, const unsigned int *until)
{
	uint64_t deadline_us = 0;

	while (!*until) {
		t_tick(&deadline_us, "the client alone");
		assert_true(reactor_run_once(w->client_reactor, 1) >= 0);
	}
}

/* The client sends an IU, and may close then. Meanwhile the server's thread does
 * not run. */
static void send_to_one_who_stands_still(struct rig *r, bool closes)
{
	struct t_chain chain = { 0 };

	r->server->on_received = note_life;
	t_post_send(r->client, &chain, &r->remote, 0, 64);
	run_client(r->w, &chain.done);
	if (closes) {
		xp_close(r->client->ch);
		run_client(r->w, &r->client->closed);
	}
	reactor_skip(r->w->server_reactor, 3 * XP_SIGN_MS);
	T_WAIT(r->w, r->server->received == 1);
}

T_TEST(what_lay_unread_is_no_sign_of_life)
{
	struct t_world_options opt = { .split = true };
	struct t_chain chain = { 0 };
	struct rig r;

	rig_open(&r, &opt, BLOCK);
	t_settle(r.w);
	send_to_one_who_stands_still(&r, /* closes= */ false);
	/* The kernel, which did not stand still, knows when the IU came. */
	assert_true(lived == (t_is_tcp()));
	T_WAIT(r.w, lived || r.server->heard == 1);
	/* The thread looks again, so the next one has just come. */
	lived = false;
	t_post_send(r.client, &chain, &r.remote, 0, 64);
	T_WAIT(r.w, chain.done && r.server->received == 2);
	assert_true(lived);
	rig_close(&r);
}

T_TEST(one_who_has_left_does_not_live)
{
	struct t_world_options opt = { .split = true };
	struct rig r;

	rig_open(&r, &opt, BLOCK);
	t_settle(r.w);
	send_to_one_who_stands_still(&r, /* closes= */ true);
	assert_false(lived);
	T_WAIT(r.w, r.server->closed);
	assert_int_equal(r.server->heard, 0);
	assert_false(xp_chan_lives(r.server->ch));
	rig_close(&r);
}

/* A peer that has sent nothing for longer than any sign is good. */
T_TEST(an_idle_peer_is_asked)
{
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	t_settle(r.w);
	reactor_skip(r.w->server_reactor, 3 * XP_SIGN_MS);
	/* The kernel asks nobody that it has heard within a second. */
	if (t_is_tcp())
		usleep(1100000);
	assert_false(t_lives(r.server));
	assert_false(t_lives(r.server));
	T_WAIT(r.w, r.server->heard == 1);
	t_settle(r.w);
	assert_int_equal(r.server->heard, 1);
	rig_close(&r);
}

/* The peer's reactor stops in the middle of its answer to a READ. Many channels
 * show what happens to the provider's own buffers. */
T_TEST(others_survive_a_close_amid_a_read)
{
	const uint32_t len = t_provider() == T_VERBS ? 4 * MIB : 64 * MIB;
	struct t_world_options opt = { .split = true, .recv_cnt = 32 };
	struct t_chain chains[64] = { 0 };
	struct t_chain chain = { 0 };
	struct srp_desc descs[64];
	struct rig r;

	rig_open(&r, &opt, len);
	memset(r.remote.p, 7, len);
	aim(&r, &chain, XP_RDMA_READ, descs, 1, 0, len);
	t_post(r.server, &chain);
	T_WAIT(r.w, ((volatile uint8_t *)r.local.p)[0] == 7);
	r.w->only_server = true;
	xp_close(r.server->ch);
	T_WAIT(r.w, r.server->closed);
	assert_int_equal(chain.done, 1);
	r.w->only_server = false;
	t_end_close(r.client);
	t_end_free(r.server);
	t_pair(r.w, &r.client, &r.server);
	memset(r.local.p, 0, len);
	for (unsigned int i = 0; i < 64; i++) {
		t_fill(r.remote.p + i * BLOCK, BLOCK, i);
		aim(&r, &chains[i], XP_RDMA_READ, &descs[i], 1, i * BLOCK,
		    BLOCK);
		t_post(r.server, &chains[i]);
	}
	T_WAIT(r.w, r.server->open_chains == 0);
	for (unsigned int i = 0; i < 64; i++) {
		assert_int_equal(chains[i].done, 1);
		assert_int_equal(chains[i].status, 0);
		assert_true(t_is_filled(r.local.p + i * BLOCK, BLOCK, i));
	}
	rig_close(&r);
}

/* ---- devices that are removed and added ---- */

static void open_again(struct rig *r)
{
	t_end_free(r->client);
	t_end_free(r->server);
	t_pair(r->w, &r->client, &r->server);
}

static void check_data_moves(struct rig *r)
{
	struct t_chain chain = { 0 };
	struct srp_desc desc;

	t_fill(r->local.p, BLOCK, 3);
	aim(r, &chain, XP_RDMA_WRITE, &desc, 1, 0, BLOCK);
	t_post(r->server, &chain);
	T_WAIT(r->w, chain.done);
	assert_int_equal(chain.status, 0);
	assert_true(t_is_filled(r->remote.p, BLOCK, 3));
	memset(r->remote.p, 0, BLOCK);
}

/* Chains are done once, both sides are told, and IUs remain the user's. With
 * the same memory and the same listener, everything works again.
 * tests/vm/devices.sh unplugs a real device. */
T_TEST_IF(t_provider() == T_FAKE, a_device_goes_and_comes)
{
	struct t_chain chains[8] = { 0 };
	struct srp_desc descs[8];
	struct t_end *late;
	struct rig r;

	rig_open(&r, NULL, 8 * BLOCK);
	r.server->on_received = t_hold;
	t_post_send(r.client, &chains[0], &r.remote, 0, 64);
	T_WAIT(r.w, r.server->held_cnt == 1);
	for (unsigned int i = 1; i < 8; i++) {
		aim(&r, &chains[i], XP_RDMA_WRITE, &descs[i], 1, i * BLOCK,
		    BLOCK);
		t_post(r.server, &chains[i]);
	}
	t_fabric_unplug(r.w->server);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	assert_int_equal(r.server->why.err, -ENODEV);
	assert_int_equal(r.client->why.err, -ECONNRESET);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(chains[i].done, 1);
	assert_int_equal(r.server->held[0]->len, 64);
	late = t_connect(r.w);
	T_WAIT(r.w, late->closed);
	t_end_free(late);
	t_fabric_plug(r.w->server);
	open_again(&r);
	check_data_moves(&r);
	rig_close(&r);
}

T_TEST_IF(t_provider() == T_FAKE, without_a_device_nobody_connects)
{
	struct error e = { 0 };
	struct t_end end = { 0 };
	struct xp_chan_params params = { .handler = NULL, .user = &end };
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	t_fabric_unplug(r.w->client);
	T_WAIT(r.w, r.server->closed && r.client->closed);
	assert_int_equal(r.client->why.err, -ENODEV);
	assert_int_equal(xp_connect(r.w->client, (struct sockaddr *)&r.w->addr,
				    sizeof(r.w->addr), &params, &end.ch, &e),
			 -ENODEV);
	assert_int_equal(e.err, -ENODEV);
	t_fabric_plug(r.w->client);
	open_again(&r);
	check_data_moves(&r);
	rig_close(&r);
}

/* ---- the route ---- */

static bool has_address(const char *text, const char *address)
{
	size_t len = strlen(address);

	return strncmp(text, address, len) == 0 && text[len] == ':';
}

T_TEST_IF(t_provider() != T_FAKE, the_source_is_the_address_that_the_peer_sees)
{
	bool is_tcp = t_is_tcp();
	struct t_world *w = t_world_open(NULL);
	const struct xp_route route = { .source = "10.0.0.2" };
	const struct xp_route loopback = { .source = "127.0.0.2" };
	const struct xp_chan_params params = {
		.recv_cnt = w->opt.recv_cnt,
		.route = is_tcp ? &loopback : &route,
	};
	const struct t_end *client = t_connect_to(w, &w->addr, &params);
	const struct t_end *server = &w->server_ends[0];
	const char *source = params.route->source;

	T_WAIT(w, client->established && server->established);
	assert_true(has_address(xp_chan_local(client->ch), source));
	assert_true(has_address(xp_chan_peer(server->ch), source));
	assert_int_equal(xp_chan_negotiated(client->ch)->mtu == 0, is_tcp);
	assert_int_equal(xp_chan_negotiated(client->ch)->read_depth,
			 xp_chan_negotiated(server->ch)->read_depth);
	t_world_close(w);
}

T_TEST_IF(t_is_tcp(), tcp_has_no_partitions)
{
	struct t_world *w = t_world_open(NULL);
	const struct xp_route route = { .has_pkey = true, .pkey = 0xffff };
	const struct xp_route nothing = { .source = "" };
	struct xp_chan_params params = { .route = &route };
	struct xp_chan *ch;
	struct error e;

	assert_int_equal(xp_connect(w->client, (struct sockaddr *)&w->addr,
				    sizeof(w->addr), &params, &ch, &e),
			 -EPROTONOSUPPORT);
	assert_string_equal(e.text, "TCP has no GIDs, P_Keys and service "
				    "levels (pkey=)");
	assert_int_equal(xp_demand(w->listener, &route, &e), -EPROTONOSUPPORT);
	assert_int_equal(xp_demand(w->listener, &nothing, &e), 0);
	t_world_close(w);
}

/* ---- many ---- */

T_TEST(many_channels_at_once)
{
	const unsigned int cnt = t_provider() == T_VERBS ? 8 : 40;
	struct t_world *w = t_world_open(NULL);
	struct t_chain chains[40] = { 0 };
	struct t_mem m;

	t_mem_get(w->client, 4096, XP_LOCAL, &m);
	for (unsigned int i = 0; i < cnt; i++)
		t_connect(w);
	for (unsigned int i = 0; i < cnt; i++)
		T_WAIT(w, w->client_ends[i].established &&
				  w->server_ends[i].established);
	for (unsigned int i = 0; i < cnt; i++)
		t_post_send(&w->client_ends[i], &chains[i], &m, 0, 64);
	for (unsigned int i = 0; i < cnt; i++)
		T_WAIT(w, chains[i].done && w->server_ends[i].received == 1);
	/* Every second channel ends. The others are not affected. */
	for (unsigned int i = 0; i < cnt; i += 2)
		xp_close(w->client_ends[i].ch);
	for (unsigned int i = 0; i < cnt; i += 2)
		T_WAIT(w, w->client_ends[i].closed);
	for (unsigned int i = 1; i < cnt; i += 2)
		t_post_send(&w->client_ends[i], &chains[i], &m, 0, 64);
	for (unsigned int i = 1; i < cnt; i += 2)
		T_WAIT(w, chains[i].done);
	t_settle(w);
	t_mem_put(&m);
	t_world_close(w);
}

static void cycle(struct t_world *w)
{
	struct t_end *client;
	struct t_end *server;

	w->client_cnt = 0;
	w->server_cnt = 0;
	t_pair(w, &client, &server);
	t_end_close(client);
	T_WAIT(w, server->closed);
	t_end_free(server);
	t_settle(w);
}

/* A device ends a connection when it comes to it. */
static void has_at_most_fds(struct t_world *w, unsigned int cnt)
{
	uint64_t deadline_us = 0;

	while (t_open_fds() > cnt) {
		t_tick(&deadline_us, "closed descriptors");
		t_settle(w);
	}
}

T_TEST(a_hundred_connections_leak_nothing)
{
	const unsigned int cnt = t_provider() == T_VERBS ? 20 : 100;
	struct t_world *w = t_world_open(NULL);
	struct sockaddr_in nobody = t_free_addr();
	unsigned int before;
	struct t_end *client;

	cycle(w);
	before = t_open_fds();
	for (unsigned int i = 0; i < cnt; i++)
		cycle(w);
	has_at_most_fds(w, before);
	for (unsigned int i = 0; i < 10; i++) {
		client = t_connect_to(w, &nobody, NULL);
		T_WAIT(w, client->closed);
		t_end_free(client);
		w->client_cnt = 0;
		t_settle(w);
	}
	has_at_most_fds(w, before);
	t_world_close(w);
}

/* ---- several reactors ---- */

T_TEST(two_reactors)
{
	struct t_world_options opt = { .split = true };
	struct t_chain chain = { 0 };
	struct srp_desc desc;
	struct rig r;

	rig_open(&r, &opt, BLOCK);
	t_fill(r.local.p, BLOCK, 2);
	aim(&r, &chain, XP_RDMA_WRITE, &desc, 1, 0, BLOCK);
	chain.c.send[0] = (struct xp_sge){ r.local.p, 36, r.local.mr };
	chain.c.send_cnt = 1;
	t_post(r.server, &chain);
	T_WAIT(r.w, r.client->received && chain.done);
	assert_true(t_is_filled(r.remote.p, BLOCK, 2));
	rig_close(&r);
}

/* An instance on another reactor may accept a request. Here the client's own
 * instance accepts it and owns the channel. */
T_TEST(another_instance_accepts)
{
	struct t_world_options opt = { .split = true };
	struct t_world *w = t_world_open(&opt);
	struct t_chain chain = { 0 };
	struct t_end *client;
	struct t_end *server;
	struct t_mem m;

	if (xp_kind(w->client) != xp_kind(w->server)) {
		t_world_close(w); /* it takes two of a kind */
		return;
	}
	w->on_request = t_keep;
	client = t_connect(w);
	T_WAIT(w, w->request_cnt == 1);
	w->acceptor = w->client;
	server = t_accept(w, w->requests[0]);
	T_WAIT(w, client->established && server->established);
	assert_ptr_equal(xp_chan_xp(server->ch), w->client);
	t_mem_get(w->client, 4096, XP_LOCAL, &m);
	t_post_send(server, &chain, &m, 0, 64);
	T_WAIT(w, client->received && chain.done);
	t_mem_put(&m);
	t_world_close(w);
}

/* ---- silent peers ---- */

/* Returns how many sockets to or from @addr the kernel probes. *ret_all: how
 * many are connected. */
static unsigned int watched_sockets(const struct sockaddr_in *addr,
				    unsigned int *ret_all)
{
	struct sockaddr_in ends[2] = { 0 };
	unsigned int cnt = 0;

	*ret_all = 0;
	for (int fd = 3; fd < 256; fd++) {
		socklen_t len[2] = { sizeof(ends[0]), sizeof(ends[1]) };
		socklen_t int_len = sizeof(int);
		unsigned int timeout_ms = 0;
		int on = 0;

		if (getsockname(fd, (struct sockaddr *)&ends[0], &len[0]) ||
		    getpeername(fd, (struct sockaddr *)&ends[1], &len[1]) ||
		    (ends[0].sin_port != addr->sin_port &&
		     ends[1].sin_port != addr->sin_port))
			continue;
		++*ret_all;
		getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &int_len);
		getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
			   &int_len);
		cnt += on && timeout_ms == 2 * XP_KEEPALIVE_MS;
	}
	return cnt;
}

/* Over TCP the kernel probes the peer. Elsewhere an empty write probes it,
 * which the user of neither side notices. */
T_TEST(silent_peer_is_probed)
{
	uint64_t deadline_us = 0;
	struct rig r;
	uint64_t wrs;
	unsigned int all;

	rig_open(&r, NULL, BLOCK);
	t_settle(r.w);
	if (t_provider() != T_FAKE && t_provider() != T_VERBS) {
		assert_int_equal(watched_sockets(&r.w->addr, &all), 2);
		assert_int_equal(all, 2);
		rig_close(&r);
		return;
	}
	wrs = xp_get_stats(r.w->server)->wrs;
	/* An acknowledgement counts as a message from the peer. That of a device
	 * comes when it comes: then a look finds it that is one later. */
	for (unsigned int i = 0; xp_get_stats(r.w->server)->wrs < wrs + 2;
	     i++) {
		assert_true(i < 5 || t_provider() != T_FAKE);
		t_tick(&deadline_us, "two probes");
		reactor_skip(r.w->server_reactor, XP_KEEPALIVE_MS);
		t_settle(r.w);
	}
	assert_int_equal(r.server->received + r.client->received, 0);
	assert_int_equal(r.server->closed + r.client->closed, 0);
	rig_close(&r);
}

T_TEST(an_idle_reactor_sleeps)
{
	uint64_t deadline_us = 0;
	struct rig r;

	rig_open(&r, NULL, BLOCK);
	t_settle(r.w);
	/* Nothing happens for 20 ms; the reactor returns after that, not
	 * before. A device may tell of something that was before. */
	while (reactor_run_once(r.w->server_reactor, 20))
		t_tick(&deadline_us, "nothing to do");
	rig_close(&r);
}

/* ---- main ---- */
