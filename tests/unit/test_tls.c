/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS of the tcp provider (docs/tls.md): who is let in, what those are told who are not,
 * what an attacker on the wire can do, and peers with TLS of others. The contract of the
 * transport over TLS is test_xport's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "base/secret.h"
#include "protocol/srp_iu.h"
#include "protocol/wire.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"
#include "transport/tcp/wire.h"

#define SECRET_1 "0123456789abcdef0123456789abcdef"
#define SECRET_2 "fedcba9876543210fedcba9876543210fedcba98"
#define SECRET_3 "the secret of somebody else, longer"

static void key_set(struct xp_key *key, const char *name, const char *secret)
{
	memset(key, 0, sizeof(*key));
	snprintf(key->name, sizeof(key->name), "%s", name);
	key->len = strlen(secret);
	memcpy(key->secret, secret, key->len);
}

/* "backup" has one secret; "rotated" has two. */
static int find_key(void *ctx, const char *name, unsigned int nth,
		    struct xp_key *ret)
{
	bool rotated = !strcmp(name, "rotated");

	if (nth > (rotated ? 1 : 0) ||
	    (!rotated && strcmp(name, "backup") != 0))
		return -ENOENT;
	key_set(ret, name, nth ? SECRET_2 : SECRET_1);
	return 0;
}

static const struct xp_keyring keyring = { .find = find_key };
static const struct t_world_options with_keys = { .keys = &keyring };

static struct t_end *connect_with(struct t_world *w,
				  const struct sockaddr_in *to,
				  const char *name, const char *secret)
{
	struct xp_chan_params p = { .recv_cnt = w->opt.recv_cnt };
	struct xp_key key;

	key_set(&key, name, secret);
	p.key = &key;
	return t_connect_to(w, to, &p);
}

/* ---- who is let in ---- */

static char proved[64];
static bool encrypted;

static void note_proved(struct t_world *w, struct xp_conn_request *req)
{
	snprintf(proved, sizeof(proved), "%s",
		 req->proved ? req->proved : "(nothing)");
	encrypted = req->encrypted;
	t_accept(w, req);
}

static const struct entry_case {
	const char *name;
	const char *key; /* NULL: none */
	const char *secret;
	const char *proved;
} entry_cases[] = {
	{ "with a key", "backup", SECRET_1, "backup" },
	{ "with the first of two secrets", "rotated", SECRET_1, "rotated" },
	{ "with the second of two secrets", "rotated", SECRET_2, "rotated" },
	{ "without a key", NULL, NULL, "(nothing)" },
};

T_ROWS(request_says_what_was_proved, entry_cases)
{
	const struct entry_case *ec = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *client;
	struct t_end *server = &w->server_ends[0];

	w->on_request = note_proved;
	client = ec->key ? connect_with(w, &w->addr, ec->key, ec->secret)
			 : t_connect(w);
	T_WAIT(w, client->established && server->established);
	assert_string_equal(proved, ec->proved);
	assert_int_equal(encrypted, ec->key != NULL);
	assert_int_equal(xp_chan_is_encrypted(client->ch), ec->key != NULL);
	assert_int_equal(xp_chan_is_encrypted(server->ch), ec->key != NULL);
	if (ec->key) {
		assert_string_equal(xp_chan_proved(server->ch), ec->key);
		assert_string_equal(xp_chan_proved(client->ch), ec->key);
	} else {
		assert_null(xp_chan_proved(server->ch));
		assert_null(xp_chan_proved(client->ch));
	}
	assert_int_equal(w->refused_cnt, 0);
	t_world_close(w);
}

static const struct refusal_case {
	const char *name;
	const struct xp_keyring *keys;
	const char *key;
	const char *secret;
	int err;
	const char *client_says;
	const char *server_says;
} refusal_cases[] = {
	{ "a name that is not known", &keyring, "nobody", SECRET_1, -ENOKEY,
	  "the target has no key nobody",
	  "TLS: this target has no key nobody" },
	{ "another secret", &keyring, "backup", SECRET_3, -EKEYREJECTED,
	  "the target has another secret for the key backup",
	  "TLS: the peer has another secret for the key backup" },
	{ "neither of two secrets", &keyring, "rotated", SECRET_3,
	  -EKEYREJECTED, "the target has another secret for the key rotated",
	  "TLS: the peer has another secret for the key rotated" },
	{ "a listener without keys", NULL, "backup", SECRET_1, -ENOKEY,
	  "the target has no key backup", NULL },
};

T_ROWS(refusal_says_what_is_wrong, refusal_cases)
{
	const struct refusal_case *rc = *state;
	struct t_world_options opt = { .keys = rc->keys };
	struct t_world *w = t_world_open(&opt);
	struct t_end *client = connect_with(w, &w->addr, rc->key, rc->secret);
	char text[256];

	T_WAIT(w, client->closed);
	t_settle(w);
	snprintf(text, sizeof(text), "%s: %s", xp_chan_peer(client->ch),
		 rc->client_says);
	assert_string_equal(client->why.text, text);
	assert_int_equal(client->why.err, rc->err);
	assert_int_equal(client->established, 0);
	assert_int_equal(w->server_cnt, 0);
	assert_int_equal(w->refused_cnt, rc->server_says ? 1 : 0);
	assert_string_equal(w->refused, rc->server_says ? rc->server_says : "");
	t_end_close(client);
	t_check_listener(w);
	t_world_close(w);
}

static const struct no_key_case {
	const char *name;
	const char *key;
	size_t len;
} no_key_cases[] = {
	{ "no name", "", 32 },
	{ "a space in the name", "a b", 32 },
	{ "a secret of 31 bytes", "backup", 31 },
	{ "a secret of 65 bytes", "backup", 65 },
};

T_ROWS(what_is_no_key_is_refused_at_once, no_key_cases)
{
	const struct no_key_case *nc = *state;
	struct t_world *w = t_world_open(NULL);
	struct xp_key key = { .len = nc->len };
	struct xp_chan_params p = { .key = &key };
	struct xp_chan *ch = NULL;
	struct error e = { 0 };

	snprintf(key.name, sizeof(key.name), "%s", nc->key);
	assert_int_equal(xp_connect(w->client, (struct sockaddr *)&w->addr,
				    sizeof(w->addr), &p, &ch, &e),
			 -EINVAL);
	assert_null(ch);
	assert_string_equal(e.text, "this is no key for TLS");
	t_world_close(w);
}

/* ---- the wire, which an attacker has ---- */

#define WIRE_MAX (1u << 20)

/* What one side has sent, and how much of it the other side was given. */
struct way {
	int from;
	int to;
	uint8_t *seen;
	size_t seen_len;
	size_t given;
	/* Of the bytes: the first that is changed, or from which on nothing is given;
	 * SIZE_MAX: none. */
	size_t change_at;
	size_t cut_at;
};

struct wire {
	struct t_world *w;
	int listener;
	struct sockaddr_in addr;
	struct way up;	 /* from the client */
	struct way down; /* to the client */
};

static void way_init(struct way *way)
{
	memset(way, 0, sizeof(*way));
	way->from = -1;
	way->to = -1;
	way->seen = malloc(WIRE_MAX);
	assert_non_null(way->seen);
	way->change_at = SIZE_MAX;
	way->cut_at = SIZE_MAX;
}

static void wire_open(struct wire *wire, struct t_world *w)
{
	socklen_t len = sizeof(wire->addr);

	wire->w = w;
	way_init(&wire->up);
	way_init(&wire->down);
	wire->addr = t_free_addr();
	wire->addr.sin_port = 0;
	wire->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(wire->listener, (void *)&wire->addr, len), 0);
	assert_int_equal(listen(wire->listener, 8), 0);
	getsockname(wire->listener, (void *)&wire->addr, &len);
}

static void wire_close(struct wire *wire)
{
	close(wire->listener);
	if (wire->up.from >= 0)
		close(wire->up.from);
	if (wire->down.from >= 0)
		close(wire->down.from);
	free(wire->up.seen);
	free(wire->down.seen);
}

static void way_take(struct way *way)
{
	ssize_t n = recv(way->from, way->seen + way->seen_len,
			 WIRE_MAX - way->seen_len, MSG_DONTWAIT);

	if (n > 0 && way->change_at >= way->seen_len &&
	    way->change_at < way->seen_len + (size_t)n)
		way->seen[way->change_at] ^= 0x40;
	if (n > 0)
		way->seen_len += (size_t)n;
	else if (n == 0)
		shutdown(way->to, SHUT_WR);
}

static void way_give(struct way *way)
{
	size_t end = way->seen_len < way->cut_at ? way->seen_len : way->cut_at;
	ssize_t n;

	if (end > way->given) {
		n = send(way->to, way->seen + way->given, end - way->given,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			way->given += (size_t)n;
	}
	if (way->given == way->cut_at)
		shutdown(way->to, SHUT_WR);
}

/* Moves what is there. */
static void wire_turn(struct wire *wire)
{
	int fd;

	t_settle(wire->w);
	if (wire->up.from < 0) {
		fd = accept4(wire->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return;
		wire->up.from = fd;
		wire->up.to = t_raw_connect(&wire->w->addr);
		wire->down.from = wire->up.to;
		wire->down.to = fd;
	}
	way_take(&wire->up);
	way_give(&wire->up);
	way_take(&wire->down);
	way_give(&wire->down);
}

#define WIRE_WAIT(wire, cond)                         \
	do {                                          \
		uint64_t deadline_us_ = 0;            \
		while (!(cond)) {                     \
			t_tick(&deadline_us_, #cond); \
			wire_turn(wire);              \
		}                                     \
	} while (0)

/* An IU each way, and data each way. */
struct talk {
	struct t_mem remote;
	struct t_mem local;
	struct srp_desc desc;
	struct t_chain chains[3];
};

#define TALK_LEN (40u << 10)

static void talk_begin(struct talk *talk, struct t_world *w,
		       struct t_end *client, struct t_end *server)
{
	memset(talk, 0, sizeof(*talk));
	t_mem_get(w->client, TALK_LEN, XP_REMOTE, &talk->remote);
	t_mem_get(w->server, TALK_LEN, XP_LOCAL, &talk->local);
	t_fill(talk->local.p, TALK_LEN, 3);
	xp_mr_remote(talk->remote.mr, client->ch, talk->remote.p,
		     &talk->desc.addr, &talk->desc.key);
	talk->desc.len = TALK_LEN;
	for (int i = 0; i < 2; i++) {
		talk->chains[i].c.dir = i ? XP_RDMA_READ : XP_RDMA_WRITE;
		talk->chains[i].c.remote = &talk->desc;
		talk->chains[i].c.len = TALK_LEN;
		talk->chains[i].c.local = talk->local.p;
		talk->chains[i].c.local_mr = talk->local.mr;
	}
	talk->chains[0].c.send[0] =
		(struct xp_sge){ talk->local.p, 64, talk->local.mr };
	talk->chains[0].c.send_cnt = 1;
	t_post(server, &talk->chains[0]);
	t_post(server, &talk->chains[1]);
	t_post_send(client, &talk->chains[2], &talk->remote, 0, 64);
}

static void talk_end(struct talk *talk)
{
	t_mem_put(&talk->remote);
	t_mem_put(&talk->local);
}

static bool has(const struct way *way, const void *p, size_t len)
{
	return memmem(way->seen, way->seen_len, p, len);
}

static void accept_with_text(struct t_world *w, struct xp_conn_request *req)
{
	w->answer = "answer to the login";
	w->answer_len = 19;
	t_accept(w, req);
}

static const struct plain_case {
	const char *name;
	bool tls;
} plain_cases[] = {
	{ "without a key all of it is", false },
	{ "with a key nothing is", true },
};

T_ROWS(is_it_plain_on_the_wire, plain_cases)
{
	const struct plain_case *pc = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct xp_chan_params p = { .recv_cnt = 16,
				    .pdata = "words of the login",
				    .pdata_len = 18 };
	struct t_end *server = &w->server_ends[0];
	struct t_end *client;
	struct xp_key key;
	struct talk talk;
	struct wire wire;

	wire_open(&wire, w);
	key_set(&key, "backup", SECRET_1);
	if (pc->tls)
		p.key = &key;
	w->on_request = accept_with_text;
	client = t_connect_to(w, &wire.addr, &p);
	WIRE_WAIT(&wire, client->established && server->established);
	talk_begin(&talk, w, client, server);
	WIRE_WAIT(&wire, talk.chains[1].done && talk.chains[2].done &&
				 client->received && server->received);
	assert_true(t_is_filled(talk.remote.p, TALK_LEN, 3));
	assert_int_not_equal(has(&wire.up, "words of the login", 18), pc->tls);
	assert_int_not_equal(has(&wire.down, "answer to the login", 19),
			     pc->tls);
	/* The data of the WRITE and of the READ, in the middle of records. */
	assert_int_not_equal(has(&wire.down, talk.local.p + 500, 16), pc->tls);
	assert_int_not_equal(has(&wire.up, talk.local.p + 500, 16), pc->tls);
	assert_false(has(&wire.up, SECRET_1, 16));
	/* The name is no secret. */
	assert_int_equal(has(&wire.up, "backup", 6), pc->tls);
	t_end_close(client);
	talk_end(&talk);
	wire_close(&wire);
	t_world_close(w);
}

/* Bytes of the handshake, then of a login, in each way. */
static void measure(size_t *ret_up, size_t *ret_down)
{
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *client;
	struct wire wire;

	wire_open(&wire, w);
	client = connect_with(w, &wire.addr, "backup", SECRET_1);
	WIRE_WAIT(&wire, client->established);
	*ret_up = wire.up.seen_len;
	*ret_down = wire.down.seen_len;
	wire_close(&wire);
	t_world_close(w);
}

static const struct harm_case {
	const char *name;
	bool down;
	bool cut;
	unsigned int step;
} harm_cases[] = {
	{ "a byte to the target is changed", false, false, 7 },
	{ "a byte to the client is changed", true, false, 7 },
	{ "the way to the target is cut", false, true, 13 },
	{ "the way to the client is cut", true, true, 13 },
};

/* At each place of the handshake and of the login. */
T_ROWS(harm_on_the_wire_ends_the_connection, harm_cases)
{
	const struct harm_case *hc = *state;
	size_t len[2];

	measure(&len[0], &len[1]);
	for (size_t at = 0; at < len[hc->down]; at += hc->step) {
		struct t_world *w = t_world_open(&with_keys);
		struct t_end *client;
		struct wire wire;
		struct way *way;

		wire_open(&wire, w);
		way = hc->down ? &wire.down : &wire.up;
		if (hc->cut)
			way->cut_at = at;
		else
			way->change_at = at;
		/* A longer length keeps the other side waiting. */
		client = connect_with(w, &wire.addr, "backup", SECRET_1);
		for (int i = 0; i < 20 && !client->closed; i++)
			wire_turn(&wire);
		reactor_skip(w->server_reactor, 15000);
		WIRE_WAIT(&wire, client->closed);
		assert_int_equal(client->established, 0);
		assert_string_not_equal(client->why.text, "");
		wire_close(&wire);
		t_end_close(client);
		if (w->server_cnt)
			t_end_close(&w->server_ends[0]);
		t_check_listener(w);
		t_world_close(w);
	}
}

static const struct record_case {
	const char *name;
	int order[3]; /* which of the records 0, 1 arrive; -1: no more */
} record_cases[] = {
	{ "one is repeated", { 0, 0, -1 } },
	{ "one is left out", { 1, -1, -1 } },
	{ "two change their places", { 1, 0, -1 } },
};

/* The length of the first record at @p. */
static size_t record_len(const uint8_t *p)
{
	return 5 + wire_get16(p + 3);
}

T_ROWS(records_that_are_moved_end_the_channel, record_cases)
{
	const struct record_case *rc = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *server = &w->server_ends[0];
	struct t_chain chains[2] = { 0 };
	uint8_t *first;
	uint8_t *second;
	struct t_end *client;
	struct t_mem m;
	struct wire wire;

	wire_open(&wire, w);
	client = connect_with(w, &wire.addr, "backup", SECRET_1);
	WIRE_WAIT(&wire, client->established && server->established);
	t_mem_get(w->client, 4096, XP_LOCAL, &m);
	wire.up.cut_at = wire.up.given;
	first = wire.up.seen + wire.up.given;
	/* Two operations, so two records. */
	for (int i = 0; i < 2; i++) {
		t_post_send(client, &chains[i], &m, 0, 64);
		T_WAIT(w, chains[i].done);
	}
	while (wire.up.seen + wire.up.seen_len - first < 2 * 64)
		way_take(&wire.up);
	second = first + record_len(first);
	for (int i = 0; i < 3 && rc->order[i] >= 0; i++) {
		const uint8_t *p = rc->order[i] ? second : first;

		t_raw_send(wire.up.to, p, record_len(p));
	}
	T_WAIT(w, server->closed);
	assert_string_equal(server->why.text,
			    "TLS: a record was changed on its way");
	assert_int_equal(server->received, rc->order[0] == 0);
	t_end_close(client);
	t_mem_put(&m);
	wire_close(&wire);
	t_world_close(w);
}

/* The same bytes a second time: they prove nothing. */
T_TEST(a_replayed_connection_gets_no_login)
{
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *client;
	struct wire wire;
	int fd;

	wire_open(&wire, w);
	client = connect_with(w, &wire.addr, "backup", SECRET_1);
	WIRE_WAIT(&wire, client->established);
	t_settle(w);
	assert_int_equal(w->server_cnt, 1);
	fd = t_raw_connect(&w->addr);
	t_raw_send(fd, wire.up.seen, wire.up.seen_len);
	T_WAIT(w, w->refused_cnt == 1);
	t_settle(w);
	assert_int_equal(w->server_cnt, 1);
	close(fd);
	wire_close(&wire);
	t_world_close(w);
}

/* The client is led to itself: it gets back what it says. */
T_TEST(a_reflected_connection_is_none)
{
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *client;
	struct wire wire;
	int fd;

	wire_open(&wire, w);
	client = connect_with(w, &wire.addr, "backup", SECRET_1);
	t_settle(w);
	fd = accept(wire.listener, NULL, NULL);
	assert_true(fd >= 0);
	wire.up.from = fd;
	wire.up.to = fd;
	for (int i = 0; i < 100 && !client->closed; i++) {
		way_take(&wire.up);
		way_give(&wire.up);
		t_settle(w);
	}
	T_WAIT(w, client->closed);
	assert_int_equal(client->why.err, -ENOPROTOOPT);
	assert_int_equal(client->established, 0);
	wire_close(&wire);
	t_world_close(w);
}

/* ---- those that do not end their handshake ---- */

static const struct silent_case {
	const char *name;
	const char *says;
	size_t len;
	bool waits; /* it gets its 15 seconds */
	const char *refused;
} silent_cases[] = {
	{ "a byte of a record", "\x16", 1, true,
	  "TLS: the handshake did not end within 15 s" },
	{ "a header", "\x16\3\1\0\x64", 5, true,
	  "TLS: the handshake did not end within 15 s" },
	{ "half a record", "\x16\3\1\0\x64\1\0\0\x60\3\3", 11, true,
	  "TLS: the handshake did not end within 15 s" },
	{ "the header of a long record", "\x16\3\1\x40\0", 5, false,
	  "TLS: the peer sent more than 4096 bytes of a handshake" },
	{ "nonsense in a record", "\x16\3\1\0\4what", 9, true,
	  "TLS: the handshake did not end within 15 s" },
	{ "an alert", "\x16\3\1\0\0\x15\3\1\0\2\2\50", 12, false, NULL },
};

T_ROWS(handshakes_that_do_not_end_get_fifteen_seconds, silent_cases)
{
	const struct silent_case *sc = *state;
	struct t_world *w = t_world_open(&with_keys);
	int fd = t_raw_connect(&w->addr);

	t_raw_send(fd, sc->says, sc->len);
	t_settle(w);
	if (sc->waits) {
		reactor_skip(w->server_reactor, 14000);
		t_settle(w);
		assert_int_equal(w->refused_cnt, 0);
		reactor_skip(w->server_reactor, 1000);
	}
	T_WAIT(w, w->refused_cnt == 1);
	if (sc->refused)
		assert_string_equal(w->refused, sc->refused);
	assert_int_equal(w->server_cnt, 0);
	close(fd);
	t_check_listener(w);
	t_world_close(w);
}

/* Also while the operations of handshakes are under way. */
T_TEST(handshakes_end_with_the_listener)
{
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *client = connect_with(w, &w->addr, "backup", SECRET_1);
	int fd = t_raw_connect(&w->addr);

	t_raw_send(fd, "\x16\3\1\0\x64", 5);
	while (w->refused_cnt + w->server_cnt == 0 && w->listener) {
		reactor_run_once(w->client_reactor, 0);
		xp_unlisten(w->listener);
		w->listener = NULL;
	}
	T_WAIT(w, client->closed);
	assert_int_equal(client->established, 0);
	close(fd);
	t_world_close(w);
}

/* ---- servers that have no TLS, or another ---- */

static const struct answer_case {
	const char *name;
	const char *says;
	size_t len;
	int err;
} answer_cases[] = {
	{ "nothing, and closes", "", 0, -ECONNRESET },
	{ "as a target without TLS rejects",
	  "\3\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0",
	  32, -ENOPROTOOPT },
	{ "HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", 28, -ENOPROTOOPT },
	{ "an alert: no such protocol", "\x15\3\3\0\2\2\106", 7, -ENOPROTOOPT },
	{ "a record that is too long", "\x16\3\3\xff\xff", 5, -ENOPROTOOPT },
	{ "that it goes on in the clear", "\x17\3\3\0\4text", 9, -ENOPROTOOPT },
};

T_ROWS(server_without_tls_is_told_apart, answer_cases)
{
	const struct answer_case *ac = *state;
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct wire wire;
	int fd;

	wire_open(&wire, w);
	client = connect_with(w, &wire.addr, "backup", SECRET_1);
	t_settle(w);
	fd = accept(wire.listener, NULL, NULL);
	assert_true(fd >= 0);
	if (ac->len)
		t_raw_send(fd, ac->says, ac->len);
	shutdown(fd, SHUT_WR);
	T_WAIT(w, client->closed);
	assert_int_equal(client->why.err, ac->err);
	assert_non_null(strstr(client->why.text, "TLS"));
	assert_null(strchr(client->why.text, '\n'));
	assert_int_equal(client->established, 0);
	close(fd);
	wire_close(&wire);
	t_world_close(w);
}

T_TEST(silent_server_times_out)
{
	struct t_world *w = t_world_open(NULL);
	struct xp_key key;
	struct xp_chan_params p = { .timeout_ms = 50, .key = &key };
	struct t_end *client;
	struct wire wire;

	wire_open(&wire, w);
	key_set(&key, "backup", SECRET_1);
	client = t_connect_to(w, &wire.addr, &p);
	T_WAIT(w, client->closed);
	assert_int_equal(client->why.err, -ETIMEDOUT);
	wire_close(&wire);
	t_world_close(w);
}

/* ---- GnuTLS as a peer ---- */

#define PEER_PSK "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:+DHE-PSK"

struct peer {
	struct t_world *w;
	gnutls_session_t s;
	gnutls_psk_client_credentials_t psk;
	int fd;
};

static void peer_open(struct peer *p, struct t_world *w, const char *priority)
{
	gnutls_datum_t key = { (void *)SECRET_1, 32 };

	p->w = w;
	p->fd = t_raw_connect(&w->addr);
	fcntl(p->fd, F_SETFL, O_NONBLOCK);
	gnutls_init(&p->s, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
	assert_int_equal(gnutls_priority_set_direct(p->s, priority, NULL), 0);
	gnutls_psk_allocate_client_credentials(&p->psk);
	gnutls_psk_set_client_credentials(p->psk, "backup", &key,
					  GNUTLS_PSK_KEY_RAW);
	gnutls_credentials_set(p->s, GNUTLS_CRD_PSK, p->psk);
	gnutls_transport_set_int(p->s, p->fd);
}

static void peer_close(struct peer *p)
{
	gnutls_deinit(p->s);
	gnutls_psk_free_client_credentials(p->psk);
	close(p->fd);
}

static int peer_shake(struct peer *p)
{
	uint64_t deadline_us = 0;
	int ret;

	do {
		t_tick(&deadline_us, "a handshake");
		ret = gnutls_handshake(p->s);
		t_settle(p->w);
	} while (ret < 0 && !gnutls_error_is_fatal(ret));
	return ret;
}

static void peer_login(struct peer *p)
{
	uint8_t cm[TCP_CM_LEN];

	assert_int_equal(peer_shake(p), 0);
	assert_int_equal(
		gnutls_record_send(p->s, cm,
				   tcp_cm_encode(cm, TCP_CM_CONNECT, NULL, 0)),
		sizeof(cm));
	T_WAIT(p->w, p->w->server_ends[0].established);
}

static const struct peer_case {
	const char *name;
	const char *priority;
	bool fits;
} peer_cases[] = {
	{ "what we do", PEER_PSK, true },
	{ "a P-256 group alone", PEER_PSK ":-GROUP-ALL:+GROUP-SECP256R1",
	  true },
	{ "another group first",
	  PEER_PSK ":-GROUP-ALL:+GROUP-SECP521R1"
		   ":+GROUP-SECP256R1",
	  true },
	{ "ChaCha20 alone", PEER_PSK ":-CIPHER-ALL:+CHACHA20-POLY1305", true },
	{ "no group of ours", PEER_PSK ":-GROUP-ALL:+GROUP-SECP521R1", false },
	{ "no Diffie-Hellman", PEER_PSK ":-KX-ALL:+PSK", false },
	{ "AES in another mode", PEER_PSK ":-CIPHER-ALL:+AES-128-CCM", false },
	{ "TLS 1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+ECDHE-PSK",
	  false },
	{ "TLS 1.0", "NORMAL:-VERS-ALL:+VERS-TLS1.0:-KX-ALL:+ECDHE-PSK",
	  false },
	{ "certificates", "NORMAL:-VERS-ALL:+VERS-TLS1.3", false },
};

T_ROWS(clients_that_offer, peer_cases)
{
	const struct peer_case *pc = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct peer p;

	peer_open(&p, w, pc->priority);
	if (pc->fits) {
		peer_login(&p);
		assert_int_equal(w->refused_cnt, 0);
		assert_string_equal(xp_chan_proved(w->server_ends[0].ch),
				    "backup");
	} else {
		assert_true(peer_shake(&p) < 0);
		T_WAIT(w, w->refused_cnt == 1);
		assert_int_equal(w->server_cnt, 0);
		assert_non_null(strstr(w->refused, "TLS: "));
	}
	peer_close(&p);
	t_world_close(w);
}

static void send_key_update(struct peer *p)
{
	gnutls_session_key_update(p->s, GNUTLS_KU_PEER);
}

static void send_heap_of_nothing(struct peer *p)
{
	/* A record with an unknown type is what a broken peer sends: the bytes of an
	 * IU are then no message. */
	gnutls_record_send(p->s, "no message of ours", 18);
}

static void send_bye(struct peer *p)
{
	gnutls_bye(p->s, GNUTLS_SHUT_WR);
}

static void send_alert(struct peer *p)
{
	gnutls_alert_send(p->s, GNUTLS_AL_FATAL, GNUTLS_A_INTERNAL_ERROR);
}

static void send_end(struct peer *p)
{
	shutdown(p->fd, SHUT_WR);
}

static const struct after_case {
	const char *name;
	void (*act)(struct peer *p);
	const char *why;
} after_cases[] = {
	{ "new keys", send_key_update,
	  "TLS: the peer sent what it must not send" },
	{ "another protocol", send_heap_of_nothing,
	  "the peer sent a message of another version, or none at all" },
	{ "close_notify", send_bye, "the peer closed the connection" },
	{ "an alert", send_alert, "TLS: the peer sent what it must not send" },
	{ "an end without close_notify", send_end,
	  "the connection broke: the peer ended it with data on the way" },
};

T_ROWS(after_the_handshake, after_cases)
{
	const struct after_case *ac = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct peer p;

	peer_open(&p, w, PEER_PSK);
	peer_login(&p);
	ac->act(&p);
	T_WAIT(w, w->server_ends[0].closed);
	assert_string_equal(w->server_ends[0].why.text, ac->why);
	peer_close(&p);
	t_world_close(w);
}

/* What decides whether a peer may have left unseen (docs/command-order.md), also for
 * records of the kernel. */
T_TEST(what_lies_unread_is_seen)
{
	struct t_world *w = t_world_open(&with_keys);
	struct xp_chan *server;
	struct peer p;

	peer_open(&p, w, PEER_PSK);
	peer_login(&p);
	t_settle(w);
	server = w->server_ends[0].ch;
	assert_false(xp_chan_has_unread(server));
	assert_int_equal(gnutls_record_send(p.s, "no message of ours", 18), 18);
	assert_true(xp_chan_has_unread(server));
	T_WAIT(w, w->server_ends[0].closed);
	/* It was read after all. */
	assert_string_equal(w->server_ends[0].why.text,
			    "the peer sent a message of another version, or "
			    "none at all");
	peer_close(&p);
	t_world_close(w);
}

/* ---- programs as peers ---- */

static pid_t run_program(const char *const argv[], int *ret_in, int *ret_out)
{
	int in[2];
	int out[2];
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*ret_in = in[1];
	*ret_out = out[0];
	return pid;
}

static void text_hex(char *to, const char *text)
{
	for (; *text; text++, to += 2)
		snprintf(to, 3, "%02x", (unsigned char)*text);
}

static const struct program_case {
	const char *name;
	bool gnutls;
} program_cases[] = {
	{ "openssl", false },
	{ "gnutls-cli", true },
};

T_ROWS(program_logs_in, program_cases)
{
	const struct program_case *pc = *state;
	struct t_world *w = t_world_open(&with_keys);
	struct t_end *server = &w->server_ends[0];
	char hex[2 * sizeof(SECRET_1)];
	char port[16];
	const char *openssl[] = {
		"openssl",	 "s_client", "-connect", NULL,	   "-psk", hex,
		"-psk_identity", "backup",   "-tls1_3",	 "-quiet", NULL
	};
	const char *gnutls[] = { "gnutls-cli",
				 "--pskusername=backup",
				 "--pskkey",
				 hex,
				 "--priority",
				 PEER_PSK,
				 "--port",
				 NULL,
				 "--logfile=/dev/null",
				 "127.0.0.1",
				 NULL };
	uint8_t cm[TCP_CM_LEN];
	struct tcp_cm got;
	char to[64];
	pid_t pid;
	int in;
	int out;

	snprintf(to, sizeof(to), "127.0.0.1:%u", ntohs(w->addr.sin_port));
	snprintf(port, sizeof(port), "%u", ntohs(w->addr.sin_port));
	text_hex(hex, SECRET_1);
	openssl[3] = to;
	gnutls[7] = port;
	pid = run_program(pc->gnutls ? gnutls : openssl, &in, &out);
	assert_int_equal(
		write(in, cm, tcp_cm_encode(cm, TCP_CM_CONNECT, NULL, 0)),
		sizeof(cm));
	T_WAIT(w, server->established);
	assert_string_equal(xp_chan_proved(server->ch), "backup");
	for (size_t n = 0; n < sizeof(cm);) {
		ssize_t more = read(out, cm + n, sizeof(cm) - n);

		assert_true(more > 0);
		n += (size_t)more;
	}
	assert_int_equal(tcp_cm_decode(cm, &got), 0);
	assert_int_equal(got.type, TCP_CM_ACCEPT);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	T_WAIT(w, server->closed);
	close(in);
	close(out);
	t_world_close(w);
}

/* It sends tickets, which are ignored. */
T_TEST(our_client_logs_in_to_openssl)
{
	struct t_world *w = t_world_open(NULL);
	struct sockaddr_in addr = t_free_addr();
	char hex[2 * sizeof(SECRET_1)];
	char port[16];
	const char *argv[] = { "openssl", "s_server", "-accept",       port,
			       "-psk",	  hex,	      "-psk_identity", "backup",
			       "-nocert", "-tls1_3",  "-quiet",	       NULL };
	uint64_t deadline_us = 0;
	uint8_t cm[TCP_CM_LEN];
	struct t_end *client;
	struct tcp_cm got;
	size_t len = 0;
	pid_t pid;
	int in;
	int out;

	snprintf(port, sizeof(port), "%u", ntohs(addr.sin_port));
	text_hex(hex, SECRET_1);
	pid = run_program(argv, &in, &out);
	fcntl(out, F_SETFL, O_NONBLOCK);
	for (;;) {
		t_tick(&deadline_us, "openssl s_server");
		client = connect_with(w, &addr, "backup", SECRET_1);
		while (!client->closed && len < sizeof(cm)) {
			ssize_t n = read(out, cm + len, sizeof(cm) - len);

			len += n > 0 ? (size_t)n : 0;
			t_tick(&deadline_us, "a login");
			t_settle(w);
		}
		if (!client->closed)
			break;
		/* It does not listen yet. */
		assert_int_equal(client->why.err, -ECONNREFUSED);
		t_end_close(client);
		w->client_cnt = 0;
		usleep(10000);
	}
	assert_int_equal(tcp_cm_decode(cm, &got), 0);
	assert_int_equal(got.type, TCP_CM_CONNECT);
	assert_int_equal(
		write(in, cm, tcp_cm_encode(cm, TCP_CM_ACCEPT, NULL, 0)),
		sizeof(cm));
	T_WAIT(w, client->established);
	assert_string_equal(xp_chan_proved(client->ch), "backup");
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	T_WAIT(w, client->closed);
	close(in);
	close(out);
	t_world_close(w);
}

/* ---- secrets ---- */

/* Only here, and where the transport has copied it to. */
static struct xp_key *hidden;

static int find_hidden(void *ctx, const char *name, unsigned int nth,
		       struct xp_key *ret)
{
	if (nth)
		return -ENOENT;
	*ret = *hidden;
	return 0;
}

/* Prints what of this process a core dump would hold that has the secret. */
static int look_for_hidden(void)
{
	char text[XP_KEY_LEN_MAX + 1];
	char pid[16];
	int status;
	pid_t child = fork();

	if (child == 0) {
		snprintf(pid, sizeof(pid), "%d", getppid());
		memcpy(text, hidden->secret, hidden->len);
		text[hidden->len] = '\0';
		dup2(2, 1); /* the output has a format */
		execlp("python3", "python3", getenv("CORE_PY"), pid, text,
		       NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	return status;
}

static void see_nothing(struct t_world *w, struct xp_conn_request *req)
{
	assert_int_equal(look_for_hidden(), 0);
	t_accept(w, req);
}

T_TEST_IF(getenv("CORE_PY"), no_secret_is_in_a_core_dump)
{
	static const struct xp_keyring keys = { .find = find_hidden };
	struct t_world_options opt = { .keys = &keys };
	struct t_world *w = t_world_open(&opt);
	struct xp_chan_params p = { .recv_cnt = 16 };
	const struct t_end *server = &w->server_ends[0];
	struct t_end *client;

	hidden = secret_map(sizeof(*hidden));
	assert_non_null(hidden);
	strcpy(hidden->name, "backup");
	hidden->len = 40;
	for (size_t i = 0; i < hidden->len; i++)
		hidden->secret[i] = (uint8_t)('a' + (i * i + 7 * i) % 23);
	p.key = hidden;
	w->on_request = see_nothing;
	client = t_connect_to(w, &w->addr, &p);
	T_WAIT(w, client->established && server->established);
	assert_int_equal(look_for_hidden(), 0);
	t_world_close(w);
	assert_int_equal(look_for_hidden(), 0);
	/* It would be found. */
	memcpy(proved, hidden->secret, hidden->len);
	assert_int_not_equal(look_for_hidden(), 0);
	explicit_bzero(proved, sizeof(proved));
	secret_unmap(hidden, sizeof(*hidden));
}

int main(void)
{
	setenv("T_PROVIDER", "tcp", 1);
	return t_run();
}
