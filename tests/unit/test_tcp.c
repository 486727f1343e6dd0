/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults that only the tcp provider can meet: sockets whose peer breaks the
 * protocol.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"
#include "transport/tcp/internal.h"

#define BLOCK 4096u

/* ---- a peer by hand ---- */

static void raw_recv(int fd, void *p, size_t len)
{
	assert_int_equal(recv(fd, p, len, MSG_WAITALL), len);
}

static size_t raw_hdr(uint8_t *buf, const struct tcp_hdr *hdr)
{
	return tcp_hdr_encode(buf, TCP_LITTLE, 0, hdr);
}

static bool has_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* A logged-in peer: its socket, the server's end, and memory that it may
 * use. */
struct raw {
	struct t_world *w;
	int fd;
	struct t_end *end;
	struct t_mem mem;
	uint64_t addr;
	uint32_t key;
};

static void raw_open(struct raw *r, const struct t_world_options *opt)
{
	uint8_t cm[TCP_CM_LEN];

	memset(r, 0, sizeof(*r));
	r->w = t_world_open(opt);
	r->fd = t_raw_connect(&r->w->addr);
	t_raw_send(r->fd, cm, tcp_cm_encode(cm, TCP_CM_CONNECT, NULL, 0));
	r->end = &r->w->server_ends[0];
	T_WAIT(r->w, r->end->established);
	raw_recv(r->fd, cm, sizeof(cm));
	t_mem_get(r->w->server, BLOCK, XP_REMOTE, &r->mem);
	xp_mr_remote(r->mem.mr, r->end->ch, r->mem.p, &r->addr, &r->key);
}

static void raw_close(struct raw *r)
{
	close(r->fd);
	t_end_close(r->end);
	if (r->mem.mr)
		t_mem_put(&r->mem);
	t_world_close(r->w);
}

/* ---- pending connections ---- */

T_TEST(pending_connection_ends_with_the_listener)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;
	int fd;

	t_pair(w, &client, &server);
	fd = t_raw_connect(&w->addr);
	t_settle(w);
	xp_unlisten(w->listener);
	w->listener = NULL;
	t_settle(w);
	assert_true(has_ended(fd));
	close(fd);
	assert_true(xp_chan_is_open(client->ch));
	t_world_close(w);
}

static void pending_get_fifteen_seconds(size_t cnt)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;
	int fds[20];

	assert_true(cnt <= ARRAY_SIZE(fds));
	t_pair(w, &client, &server);
	/* Those that come later have as long. */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < cnt; i++)
			fds[i] = t_raw_connect(&w->addr);
		t_settle(w);
		reactor_skip(w->server_reactor, 14000);
		t_settle(w);
		for (size_t i = 0; i < cnt; i++)
			assert_false(has_ended(fds[i]));
		reactor_skip(w->server_reactor, 1000);
		t_settle(w);
		for (size_t i = 0; i < cnt; i++) {
			assert_true(has_ended(fds[i]));
			close(fds[i]);
		}
	}
	assert_int_equal(client->closed + server->closed, 0);
	t_world_close(w);
}

T_TEST(pending_connections_get_fifteen_seconds)
{
	pending_get_fifteen_seconds(1);
	pending_get_fifteen_seconds(20);
}

T_TEST(oldest_pending_connection_makes_room)
{
	struct t_world *w = t_world_open(NULL);
	int fds[257];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = t_raw_connect(&w->addr);
		t_settle(w);
	}
	assert_true(has_ended(fds[0]));
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		assert_false(has_ended(fds[i]));
	t_check_listener(w);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	t_world_close(w);
}

/* ---- signs of life ---- */

static bool lived; /* when the first IU was handled */

static void note_first_life(struct t_end *end, struct xp_iu *iu)
{
	if (end->received == 1)
		lived = t_lives(end);
	xp_iu_release(iu);
}

/* Sends IUs until neither socket takes more. */
static void raw_fill(int fd)
{
	uint8_t buf[TCP_HDR_LEN + BLOCK] = { 0 };
	size_t len = raw_hdr(buf, &(struct tcp_hdr){ .op = TCP_MSG,
						     .data_len = BLOCK }) +
		     BLOCK;
	size_t at = 0;
	ssize_t n;

	while ((n = send(fd, buf + at, len - at, MSG_DONTWAIT)) > 0)
		at = (at + (size_t)n) % len;
	assert_int_equal(errno, EAGAIN);
}

static const struct held_case {
	const char *name;
	bool closes;
} held_cases[] = {
	{ "it has closed its socket", true },
	{ "it waits", false },
};

/* The window is closed, so the end of the connection is still with the peer, whose
 * kernel answers. */
T_ROWS(an_end_behind_unread_data_is_no_life, held_cases)
{
	const struct held_case *c = *state;
	struct raw r;

	raw_open(&r, NULL);
	r.end->on_received = note_first_life;
	lived = true;
	raw_fill(r.fd);
	if (c->closes)
		close(r.fd);
	reactor_skip(r.w->server_reactor, 3 * XP_SIGN_MS);
	T_WAIT(r.w, r.end->received > 0);
	assert_false(lived);
	T_WAIT(r.w, c->closes ? r.end->closed : r.end->heard);
	assert_int_equal(r.end->heard, !c->closes);
	if (c->closes)
		r.fd = -1;
	raw_close(&r);
}

T_TEST(what_the_kernel_has_is_unread)
{
	struct raw r;

	raw_open(&r, NULL);
	assert_false(xp_chan_has_unread(r.end->ch));
	raw_fill(r.fd);
	assert_true(xp_chan_has_unread(r.end->ch));
	t_settle(r.w);
	assert_true(r.end->received > 0);
	assert_false(xp_chan_has_unread(r.end->ch));
	raw_close(&r);
}

/* ---- messages that break a rule ---- */

static const struct rule_case {
	const char *name;
	struct tcp_hdr hdr;
	bool good_key;
	/* The encoded byte that is changed. */
	unsigned int at;
	uint8_t byte;
	int err;
	const char *text;
} rule_cases[] = {
	{ "another version", { TCP_MSG }, false, 0, 4, -EPROTO, "version" },
	{ "an unknown operation",
	  { TCP_MSG },
	  false,
	  1,
	  9,
	  -EPROTO,
	  "operation" },
	{ "flags", { TCP_MSG }, false, 2, 4, -EPROTO, "flags" },
	{ "an acknowledgement", { TCP_MSG }, false, 4, 2, -EPROTO, "flags" },
	{ "a size of 2^56",
	  { TCP_MSG },
	  false,
	  15,
	  1,
	  -EMSGSIZE,
	  "more than 4096 bytes" },
	{ "a size of 2^63", { TCP_MSG }, false, 15, 0x80, -EPROTO, "impossible" },
	{ "one byte too many",
	  { TCP_MSG, .data_len = 4097 },
	  false,
	  0,
	  3,
	  -EMSGSIZE,
	  "more than 4096 bytes" },
	{ "an answer to nothing",
	  { TCP_READ_RSP, .data_len = 4 },
	  false,
	  0,
	  3,
	  -EPROTO,
	  "nobody asked" },
	{ "a WRITE with a key of its own",
	  { TCP_WRITE, 1, { { 0, 4, 0 } }, 4 },
	  false,
	  0,
	  3,
	  -EACCES,
	  "to write memory" },
	{ "a WRITE with a key of 64 bits",
	  { TCP_WRITE, 1, { { 0, 4, 0 } }, 4 },
	  true,
	  36,
	  1,
	  -EACCES,
	  "to write memory" },
	{ "a WRITE over the end",
	  { TCP_WRITE, 1, { { 4093, 4, 0 } }, 4 },
	  true,
	  0,
	  3,
	  -EACCES,
	  "to write memory" },
	{ "a WRITE behind the end",
	  { TCP_WRITE, 1, { { 4097, 0, 0 } }, 0 },
	  true,
	  0,
	  3,
	  -EACCES,
	  "to write memory" },
	{ "a WRITE before the beginning",
	  { TCP_WRITE, 1, { { UINT64_MAX - 1, 4, 0 } }, 4 },
	  true,
	  0,
	  3,
	  -EACCES,
	  "to write memory" },
	{ "a WRITE of which one part is bad",
	  { TCP_WRITE, 2, { { 0, 4, 0 }, { 4095, 2, 0 } }, 6 },
	  true,
	  0,
	  3,
	  -EACCES,
	  "to write memory" },
	{ "a READ with a key of its own",
	  { TCP_READ_REQ, 1, { { 0, 4, 0 } } },
	  false,
	  0,
	  3,
	  -EACCES,
	  "to read memory" },
	{ "a READ of too much",
	  { TCP_READ_REQ, 1, { { 0, 4097, 0 } } },
	  true,
	  0,
	  3,
	  -EACCES,
	  "to read memory" },
};

T_ROWS(who_breaks_a_rule_is_told_to_go, rule_cases)
{
	const struct rule_case *rc = *state;
	struct tcp_hdr hdr = rc->hdr;
	uint8_t buf[TCP_HDR_LEN_MAX + 8] = { 0 };
	struct raw r;
	size_t len;

	raw_open(&r, NULL);
	for (unsigned int i = 0; i < hdr.region_cnt; i++)
		hdr.region[i].key = rc->good_key ? r.key : ~r.key;
	len = raw_hdr(buf, &hdr);
	buf[rc->at] = rc->byte;
	t_raw_send(r.fd, buf, len + 8);
	T_WAIT(r.w, r.end->closed);
	assert_int_equal(r.end->why.err, rc->err);
	assert_non_null(strstr(r.end->why.text, rc->text));
	assert_int_equal(r.end->received, 0);
	for (size_t i = 0; i < BLOCK; i++)
		assert_int_equal(r.mem.p[i], 0);
	t_check_listener(r.w);
	raw_close(&r);
}

T_TEST(an_answer_of_the_wrong_length_is_none)
{
	struct tcp_hdr rsp = { .op = TCP_READ_RSP, .data_len = 63 };
	struct srp_desc desc = { .addr = 0, .key = 1, .len = 64 };
	uint8_t buf[TCP_HDR_LEN_MAX + 64] = { 0 };
	struct t_chain chain = { 0 };
	struct raw r;

	raw_open(&r, NULL);
	chain.c.dir = XP_RDMA_READ;
	chain.c.remote = &desc;
	chain.c.len = 64;
	chain.c.local = r.mem.p;
	chain.c.local_mr = r.mem.mr;
	t_post(r.end, &chain);
	t_settle(r.w);
	raw_recv(r.fd, buf, TCP_HDR_LEN + TCP_REGION_LEN);
	t_raw_send(r.fd, buf, raw_hdr(buf, &rsp));
	T_WAIT(r.w, r.end->closed);
	assert_int_equal(r.end->why.err, -EPROTO);
	assert_int_equal(chain.done, 1);
	assert_int_equal(chain.status, -ECANCELED);
	raw_close(&r);
}

/* ---- messages in pieces ---- */

static uint8_t got[64];

static void keep(struct t_end *end, struct xp_iu *iu)
{
	memcpy(got, iu->data, iu->len < sizeof(got) ? iu->len : sizeof(got));
	xp_iu_release(iu);
}

T_TEST(an_iu_is_not_copied)
{
	struct tcp_hdr hdr = { .op = TCP_MSG, .data_len = BLOCK };
	uint8_t buf[TCP_HDR_LEN + BLOCK] = { 0 };
	struct raw r;

	raw_open(&r, NULL);
	r.end->on_received = keep;
	raw_hdr(buf, &hdr);
	memcpy(buf + TCP_HDR_LEN, "hello", 5);
	for (unsigned int i = 0; i < 20; i++) {
		memset(got, 0, sizeof(got));
		t_raw_send(r.fd, buf, sizeof(buf));
		T_WAIT(r.w, r.end->received == i + 1);
		assert_memory_equal(got, "hello", 5);
	}
	assert_int_equal(xp_get_stats(r.w->server)->copied, 0);
	raw_close(&r);
}

static void release(struct t_end *end, struct xp_iu *iu)
{
	(void)end;
	xp_iu_release(iu);
}

/* The peer's TCP has all that was sent through @fd. */
static void wait_until_arrived(int fd)
{
	int left = 0;

	while (!ioctl(fd, SIOCOUTQ, &left) && left)
		sched_yield();
	assert_int_equal(left, 0);
}

/* Returns the number of completions in which @cnt IUs of 4 KiB, all of which
 * have arrived, are received. They must fit into the buffer of the socket. */
static uint64_t completions_of(struct raw *r, unsigned int cnt)
{
	struct tcp_hdr hdr = { .op = TCP_MSG, .data_len = BLOCK };
	uint8_t buf[TCP_HDR_LEN + BLOCK] = { 0 };
	uint64_t before = xp_get_stats(r->w->server)->cqes;
	unsigned int end = r->end->received + cnt;

	raw_hdr(buf, &hdr);
	for (unsigned int i = 0; i < cnt; i++)
		t_raw_send(r->fd, buf, sizeof(buf));
	wait_until_arrived(r->fd);
	T_WAIT(r->w, r->end->received == end);
	return xp_get_stats(r->w->server)->cqes - before;
}

T_TEST(many_ius_are_received_at_once)
{
	struct t_world_options opt = { .recv_len = 8276, .recv_cnt = 66 };
	struct raw r;

	raw_open(&r, &opt);
	r.end->on_received = release;
	/* From then on much is read ahead. */
	completions_of(&r, 12);
	/* In one, or in what two stages have room for. Some kernels begin the
	 * first one as soon as the first IU arrives. */
	assert_in_range(completions_of(&r, 12), 1, 3);
	raw_close(&r);
}

/* Of all memory of the channel. */
static size_t resident_bytes(struct t_end *end)
{
	const struct tcp_chan *ch = tcp_chan(end->ch);
	unsigned char pages[4096];
	size_t cnt = ch->block_len / 4096;
	size_t sum = 0;

	assert_true(cnt <= sizeof(pages));
	assert_int_equal(mincore(ch->block, cnt * 4096, pages), 0);
	for (size_t i = 0; i < cnt; i++)
		sum += pages[i] & 1 ? 4096 : 0;
	return sum;
}

/* Small ones are held, as if their commands waited. */
static void keep_small(struct t_end *end, struct xp_iu *iu)
{
	if (iu->len < 512)
		t_hold(end, iu);
	else
		xp_iu_release(iu);
}

/* One IU is held of all that fit into a stage, again and again. */
T_TEST(held_ius_pin_little_memory)
{
	struct t_world_options opt = { .recv_len = 8276, .recv_cnt = 66 };
	struct tcp_hdr hdr = { .op = TCP_MSG };
	uint8_t buf[TCP_HDR_LEN + 8276];
	unsigned int sent = 0;
	struct raw r;

	raw_open(&r, &opt);
	r.end->on_received = keep_small;
	for (unsigned int i = 0; i < opt.recv_cnt; i++) {
		for (unsigned int k = 0; k < 8; k++) {
			hdr.data_len = k ? 8276 : 256 + i;
			raw_hdr(buf, &hdr);
			memset(buf + TCP_HDR_LEN, (int)i, hdr.data_len);
			t_raw_send(r.fd, buf, TCP_HDR_LEN + hdr.data_len);
			sent++;
			T_WAIT(r.w, r.end->received == sent);
		}
	}
	assert_int_equal(r.end->held_cnt, opt.recv_cnt);
	for (unsigned int i = 0; i < opt.recv_cnt; i++) {
		const struct xp_iu *iu = r.end->held[i];
		const uint8_t *p = iu->data;

		assert_int_equal(iu->len, 256 + i);
		assert_int_equal(p[0], i);
		assert_memory_equal(p, p + 1, iu->len - 1);
	}
	assert_in_range(resident_bytes(r.end), 1, 1500000);
	while (r.end->held_cnt)
		xp_iu_release(r.end->held[--r.end->held_cnt]);
	raw_close(&r);
}

/* ---- a stream of many messages ---- */

#define STREAM_LEN    (4u << 20)
#define STREAM_IU_MAX 8276u
#define STREAM_HELD   66u

/* IUs that lie in the stages while others arrive: each must keep its bytes until
 * it is released. */
static struct stream {
	uint8_t bytes[STREAM_LEN];
	size_t len;
	unsigned int ius;     /* in bytes */
	unsigned int arrived; /* of them */
	struct xp_iu *held[STREAM_HELD];
	unsigned int number[STREAM_HELD]; /* which IU it is */
	unsigned int held_cnt;
} stream;

static uint32_t stream_iu_len(unsigned int number)
{
	/* Few are long, because most commands are short. */
	return number % 5 ? 40 + number % 97 : number * 7919 % STREAM_IU_MAX;
}

static void stream_check(const struct xp_iu *iu, unsigned int number)
{
	assert_int_equal(iu->len, stream_iu_len(number));
	assert_true(t_is_filled(iu->data, iu->len, (uint8_t)number));
}

static void stream_release(unsigned int at)
{
	stream_check(stream.held[at], stream.number[at]);
	xp_iu_release(stream.held[at]);
	stream.held_cnt--;
	stream.held[at] = stream.held[stream.held_cnt];
	stream.number[at] = stream.number[stream.held_cnt];
}

static void stream_received(struct t_end *end, struct xp_iu *iu)
{
	(void)end;
	stream_check(iu, stream.arrived);
	if (stream.held_cnt == STREAM_HELD)
		stream_release((unsigned int)rand() % STREAM_HELD);
	stream.held[stream.held_cnt] = iu;
	stream.number[stream.held_cnt++] = stream.arrived++;
}

/* IUs, and WRITEs to all of the memory in between. */
static void stream_make(const struct raw *r)
{
	struct tcp_hdr iu = { .op = TCP_MSG };
	struct tcp_hdr write = { .op = TCP_WRITE,
				 .region_cnt = 1,
				 .region[0] = { 0, BLOCK, r->key },
				 .data_len = BLOCK };
	uint8_t *p = stream.bytes;

	stream = (struct stream){ 0 };
	while (p - stream.bytes <
	       STREAM_LEN - STREAM_IU_MAX - BLOCK - 2 * TCP_HDR_LEN_MAX) {
		iu.data_len = stream_iu_len(stream.ius);
		p += raw_hdr(p, &iu);
		t_fill(p, iu.data_len, (uint8_t)stream.ius++);
		p += iu.data_len;
		if (rand() % 8)
			continue;
		p += raw_hdr(p, &write);
		t_fill(p, BLOCK, (uint8_t)stream.ius);
		p += BLOCK;
	}
	stream.len = (size_t)(p - stream.bytes);
}

/* Sends a piece of any length; returns what the socket took. */
static size_t stream_send(int fd, size_t at)
{
	size_t len = 1 + (size_t)rand() % (rand() % 4 ? 300 : 100000);
	ssize_t n;

	if (len > stream.len - at)
		len = stream.len - at;
	n = send(fd, stream.bytes + at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n > 0 ? (size_t)n : 0;
}

T_TEST(ius_keep_their_bytes_while_others_arrive)
{
	struct t_world_options opt = { .recv_len = STREAM_IU_MAX,
				       .recv_cnt = STREAM_HELD };
	uint64_t deadline_us = 0;
	struct raw r;
	size_t at = 0;

	srand(20);
	raw_open(&r, &opt);
	r.end->on_received = stream_received;
	stream_make(&r);
	while (stream.arrived < stream.ius) {
		at += stream_send(r.fd, at);
		t_tick(&deadline_us, "all have arrived");
		for (int i = rand() % 3; i > 0; i--)
			t_settle(r.w);
		for (int i = rand() % 4 ? 0 : rand() % 70; i > 0; i--) {
			if (stream.held_cnt)
				stream_release((unsigned int)rand() %
					       stream.held_cnt);
		}
	}
	while (stream.held_cnt)
		stream_release(0);
	raw_close(&r);
}

static const struct answer_case {
	const char *name;
	size_t pdata_len;
	size_t piece; /* bytes that the peer sends at a time */
} answer_cases[] = {
	{ "without data", 0, SIZE_MAX },
	{ "with all data that there may be", TCP_CM_DATA_MAX, SIZE_MAX },
	{ "in pieces", 7, 3 },
};

static unsigned int behind_answer;

static void received_behind_answer(struct t_end *end, struct xp_iu *iu)
{
	assert_true(end->established);
	assert_true(t_is_filled(iu->data, STREAM_IU_MAX, behind_answer++));
	xp_iu_release(iu);
}

static size_t answer_make(uint8_t *buf, size_t pdata_len)
{
	struct tcp_hdr hdr = { .op = TCP_MSG, .data_len = STREAM_IU_MAX };
	uint8_t pdata[TCP_CM_DATA_MAX] = { 0 };
	size_t len = tcp_cm_encode(buf, TCP_CM_ACCEPT, pdata, pdata_len);

	for (unsigned int i = 0; i < 8; i++) {
		len += raw_hdr(buf + len, &hdr);
		t_fill(buf + len, STREAM_IU_MAX, i);
		len += STREAM_IU_MAX;
	}
	return len;
}

/* A listener by hand; returns the socket of the client's channel. */
static int answer_await(struct t_world *w, struct t_end **ret_client)
{
	struct sockaddr_in addr = t_free_addr();
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	uint8_t cm[TCP_CM_LEN];
	int fd;

	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)),
			 0);
	assert_int_equal(listen(listener, 1), 0);
	*ret_client = t_connect_to(w, &addr, NULL);
	t_settle(w);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	close(listener);
	t_settle(w);
	raw_recv(fd, cm, sizeof(cm));
	return fd;
}

/* The target need not wait with its first IUs. */
T_ROWS(ius_may_follow_the_answer_at_once, answer_cases)
{
	static uint8_t buf[8 * (TCP_HDR_LEN + STREAM_IU_MAX) + 512];
	const struct answer_case *ac = *state;
	struct t_world_options opt = { .recv_len = STREAM_IU_MAX };
	struct t_world *w = t_world_open(&opt);
	size_t len = answer_make(buf, ac->pdata_len);
	size_t at = 0;
	struct t_end *client;
	int fd = answer_await(w, &client);

	behind_answer = 0;
	client->on_received = received_behind_answer;
	for (; ac->piece < 500 && at < 500; at += ac->piece) {
		t_raw_send(fd, buf + at, ac->piece);
		t_settle(w);
	}
	t_raw_send(fd, buf + at, len - at);
	T_WAIT(w, behind_answer == 8);
	assert_int_equal(client->closed, 0);
	close(fd);
	t_end_close(client);
	t_world_close(w);
}

T_TEST(bytes_may_come_one_by_one)
{
	struct tcp_hdr hdr = { .op = TCP_WRITE,
			       .region_cnt = 2,
			       .data_len = 10 };
	uint8_t buf[256];
	struct raw r;
	size_t len;

	raw_open(&r, NULL);
	r.end->on_received = keep;
	hdr.region[0] = (struct tcp_region){ 7, 3, r.key };
	hdr.region[1] = (struct tcp_region){ 4089, 7, r.key };
	len = raw_hdr(buf, &hdr);
	memcpy(buf + len, "0123456789", 10);
	len += 10;
	hdr = (struct tcp_hdr){ .op = TCP_MSG, .data_len = 5 };
	len += raw_hdr(buf + len, &hdr);
	memcpy(buf + len, "hello", 5);
	len += 5;
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(r.end->received, 0);
		t_raw_send(r.fd, buf + i, 1);
		t_settle(r.w);
	}
	T_WAIT(r.w, r.end->received == 1);
	assert_memory_equal(got, "hello", 5);
	assert_memory_equal(r.mem.p + 7, "012", 3);
	assert_memory_equal(r.mem.p + 4089, "3456789", 7);
	assert_int_equal(r.mem.p[6] + r.mem.p[10] + r.mem.p[4088], 0);
	raw_close(&r);
}

static const struct half_case {
	const char *name;
	size_t len; /* bytes that arrive of a SEND of 100 */
} half_cases[] = {
	{ "one byte of the header", 1 },
	{ "a header", TCP_HDR_LEN },
	{ "all but one byte", TCP_HDR_LEN + 99 },
};

T_ROWS(half_an_iu_is_not_waited_for_for_ever, half_cases)
{
	const struct half_case *hc = *state;
	struct tcp_hdr hdr = { .op = TCP_MSG, .data_len = 100 };
	uint8_t buf[TCP_HDR_LEN_MAX + 100] = { 0 };
	struct raw r;

	raw_open(&r, NULL);
	raw_hdr(buf, &hdr);
	t_raw_send(r.fd, buf, hc->len);
	t_settle(r.w);
	for (unsigned int i = 0; i < 3; i++) {
		reactor_skip(r.w->server_reactor, XP_KEEPALIVE_MS);
		t_settle(r.w);
		assert_int_equal(r.end->closed, 0);
	}
	reactor_skip(r.w->server_reactor, XP_KEEPALIVE_MS);
	T_WAIT(r.w, r.end->closed);
	assert_int_equal(r.end->why.err, -ETIMEDOUT);
	assert_non_null(strstr(r.end->why.text, "half an IU"));
	raw_close(&r);
}

T_TEST(an_idle_peer_is_left_alone)
{
	struct raw r;

	raw_open(&r, NULL);
	for (unsigned int i = 0; i < 10; i++) {
		reactor_skip(r.w->server_reactor, XP_KEEPALIVE_MS);
		t_settle(r.w);
	}
	assert_int_equal(r.end->closed, 0);
	raw_close(&r);
}

/* ---- floods ---- */

#define FLOOD 4000u

/* More than the server answers at a time, and more than sockets hold. */
T_TEST(a_flood_of_reads_is_answered_in_time)
{
	struct tcp_hdr hdr = { .op = TCP_READ_REQ, .region_cnt = 1 };
	uint8_t buf[TCP_HDR_LEN_MAX];
	uint8_t answer[TCP_HDR_LEN + BLOCK];
	struct raw r;
	size_t len;
	size_t n = 0;

	raw_open(&r, NULL);
	t_fill(r.mem.p, BLOCK, 1);
	hdr.region[0] = (struct tcp_region){ 0, BLOCK, r.key };
	len = raw_hdr(buf, &hdr);
	for (unsigned int i = 0; i < FLOOD; i++) {
		t_raw_send(r.fd, buf, len);
		if (i % 64 == 0)
			t_settle(r.w);
	}
	t_settle(r.w);
	assert_int_equal(r.end->closed, 0);
	for (unsigned int i = 0; i < FLOOD; i++) {
		for (n = 0; n < sizeof(answer);) {
			ssize_t some = recv(r.fd, answer + n,
					    sizeof(answer) - n, MSG_DONTWAIT);

			if (some > 0)
				n += (size_t)some;
			else
				t_turn(r.w);
		}
		assert_int_equal(answer[1], TCP_READ_RSP);
		assert_true(t_is_filled(answer + TCP_HDR_LEN, BLOCK, 1));
	}
	raw_close(&r);
}

/* ---- memory that is deregistered ---- */

T_TEST(memory_taken_back_is_not_written)
{
	struct tcp_hdr hdr = { .op = TCP_WRITE,
			       .region_cnt = 1,
			       .data_len = BLOCK };
	uint8_t buf[TCP_HDR_LEN_MAX + BLOCK];
	struct raw r;
	size_t len;

	raw_open(&r, NULL);
	hdr.region[0] = (struct tcp_region){ 0, BLOCK, r.key };
	memset(buf, 0xaa, sizeof(buf));
	len = raw_hdr(buf, &hdr);
	t_raw_send(r.fd, buf, len + 10);
	t_settle(r.w);
	assert_int_equal(r.mem.p[9], 0xaa);
	/* This part arrived before the memory was deregistered. */
	t_raw_send(r.fd, buf + len + 10, BLOCK - 10);
	xp_mr_free(r.mem.mr);
	r.mem.mr = NULL;
	memset(r.mem.p, 0, BLOCK);
	T_WAIT(r.w, r.end->closed);
	assert_int_equal(r.end->why.err, -EKEYREVOKED);
	for (size_t i = 0; i < BLOCK; i++)
		assert_int_equal(r.mem.p[i], 0);
	free(r.mem.p);
	raw_close(&r);
}

T_TEST(memory_taken_back_is_not_read)
{
	struct tcp_hdr hdr = { .op = TCP_READ_REQ, .region_cnt = 1 };
	uint8_t buf[TCP_HDR_LEN_MAX];
	struct raw r;
	size_t len;

	raw_open(&r, NULL);
	hdr.region[0] = (struct tcp_region){ 0, BLOCK, r.key };
	len = raw_hdr(buf, &hdr);
	for (unsigned int i = 0; i < FLOOD; i++)
		t_raw_send(r.fd, buf, len);
	t_settle(r.w);
	assert_int_equal(r.end->closed, 0);
	t_mem_put(&r.mem);
	r.mem.mr = NULL;
	T_WAIT(r.w, r.end->closed);
	assert_int_equal(r.end->why.err, -EKEYREVOKED);
	raw_close(&r);
}

/* ---- congestion control ---- */

#define CONTROL_SIZE 16u

static void get_control(int fd, char text[CONTROL_SIZE])
{
	socklen_t len = CONTROL_SIZE;

	assert_int_equal(
		getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &len), 0);
}

static const struct control_case {
	const char *name;
	int family;
	const char *addr;
	bool loopback;
} control_cases[] = {
	{ "127.0.0.1", AF_INET, "127.0.0.1", true },
	{ "127.1.2.3", AF_INET, "127.1.2.3", true },
	{ "::1", AF_INET6, "::1", true },
	{ "every address", AF_INET, "0.0.0.0", false },
	{ "another host", AF_INET, "192.0.2.127", false },
	{ "another host, IPv6", AF_INET6, "2001:db8::1", false },
};

/* If "reno" is what the system uses, this sees only that no option breaks. */
T_ROWS(only_loopback_gives_up_the_congestion_control, control_cases)
{
	const struct control_case *cc = *state;
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = { .sin_family = AF_INET };
	char before[CONTROL_SIZE];
	char after[CONTROL_SIZE];
	int fd = socket(cc->family, SOCK_STREAM, 0);

	if (fd < 0)
		skip();
	get_control(fd, before);
	if (cc->family == AF_INET) {
		inet_pton(AF_INET, cc->addr, &sin.sin_addr);
		tcp_control_loopback(fd, (struct sockaddr *)&sin);
	} else {
		inet_pton(AF_INET6, cc->addr, &sin6.sin6_addr);
		tcp_control_loopback(fd, (struct sockaddr *)&sin6);
	}
	get_control(fd, after);
	assert_string_equal(after, cc->loopback ? "reno" : before);
	close(fd);
}

T_TEST(both_ends_on_loopback_are_not_paced)
{
	struct t_world *w = t_world_open(NULL);
	char control[CONTROL_SIZE];
	struct t_end *client;
	struct t_end *server;

	t_pair(w, &client, &server);
	get_control(tcp_chan(client->ch)->fd, control);
	assert_string_equal(control, "reno");
	get_control(tcp_chan(server->ch)->fd, control);
	assert_string_equal(control, "reno");
	t_world_close(w);
}

/* ---- heavy and light channels on one thread ---- */

#define LARGE (1u << 20)

/* A WRITE of LARGE bytes from the server to the client. */
struct large {
	struct t_end *to;
	struct t_end *from;
	struct t_mem source;
	struct t_mem target;
	struct srp_desc desc;
};

static void large_prepare(struct large *l, struct t_world *w)
{
	memset(l, 0, sizeof(*l));
	t_pair(w, &l->to, &l->from);
	t_mem_get(w->server, LARGE, XP_LOCAL, &l->source);
	t_mem_get(w->client, LARGE, XP_REMOTE, &l->target);
	t_fill(l->source.p, LARGE, 7);
	xp_mr_remote(l->target.mr, l->to->ch, l->target.p, &l->desc.addr,
		     &l->desc.key);
	l->desc.len = LARGE;
}

static bool is_done(const struct large *l, const struct t_chain *chain,
		    size_t *ret_most)
{
	size_t len = tcp_chan(l->from->ch)->tx_len;

	if (*ret_most < len)
		*ret_most = len;
	return chain->done;
}

static void large_post(struct large *l, struct t_chain *ret)
{
	*ret = (struct t_chain){ .c = { .dir = XP_RDMA_WRITE,
					.remote = &l->desc,
					.len = LARGE,
					.local = l->source.p,
					.local_mr = l->source.mr } };
	memset(l->target.p, 0, LARGE);
	t_post(l->from, ret);
}

/* Returns the bytes of its largest operation. */
static size_t large_move(struct large *l)
{
	struct t_chain chain;
	size_t most = 0;

	tcp_chan(l->from->ch)->tx_len = 0;
	large_post(l, &chain);
	T_WAIT(l->to->w, is_done(l, &chain, &most));
	assert_int_equal(chain.status, 0);
	/* The chain is done when the data has left. */
	T_WAIT(l->to->w, t_is_filled(l->target.p, LARGE, 7));
	return most;
}

static void large_end(struct large *l)
{
	t_end_close(l->from);
	t_end_close(l->to);
	t_mem_put(&l->source);
	t_mem_put(&l->target);
}

static void send_small(struct t_world *w, struct t_end *from, unsigned int cnt)
{
	struct t_mem m;

	t_mem_get(w->server, 64, XP_LOCAL, &m);
	for (unsigned int i = 0; i < cnt; i++) {
		struct t_chain chain = { 0 };

		t_post_send(from, &chain, &m, 0, 64);
		T_WAIT(w, chain.done);
		t_settle(w);
	}
	t_mem_put(&m);
}

T_TEST(large_data_leaves_room_for_a_light_channel)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *light[2];
	struct large l;

	large_prepare(&l, w);
	assert_true(large_move(&l) >= LARGE);
	t_pair(w, &light[0], &light[1]);
	send_small(w, light[1], TCP_LIGHT_MIN);
	assert_int_equal(large_move(&l), TCP_SHARED_MAX);
	/* The light channel goes on, or is silent for long. */
	send_small(w, light[1], 1);
	assert_int_equal(large_move(&l), TCP_SHARED_MAX);
	for (unsigned int i = 0; i * (LARGE / TCP_SHARED_MAX) < TCP_ALONE_MIN;
	     i++)
		large_move(&l);
	assert_true(large_move(&l) >= LARGE);
	large_end(&l);
	t_world_close(w);
}

T_TEST(what_is_posted_meanwhile_follows_the_data)
{
	struct t_world *w = t_world_open(NULL);
	struct t_chain chain;
	struct t_chain after = { 0 };
	struct t_mem m;
	struct large l;
	int least = 1;

	large_prepare(&l, w);
	t_mem_get(w->server, 64, XP_LOCAL, &m);
	assert_int_equal(setsockopt(tcp_chan(l.from->ch)->fd, SOL_SOCKET,
				    SO_SNDBUF, &least, sizeof(least)),
			 0);
	large_post(&l, &chain);
	T_WAIT(w, tcp_chan(l.from->ch)->tx_busy);
	t_post_send(l.from, &after, &m, 0, 64);
	T_WAIT(w, after.done);
	assert_int_equal(chain.status, 0);
	assert_int_equal(after.status, 0);
	T_WAIT(w, t_is_filled(l.target.p, LARGE, 7));
	t_mem_put(&m);
	large_end(&l);
	t_world_close(w);
}

/* Heavy channels do not make room for each other. */
T_TEST(large_data_beside_large_data_is_whole)
{
	struct t_world *w = t_world_open(NULL);
	struct large l[2];

	large_prepare(&l[0], w);
	large_prepare(&l[1], w);
	for (unsigned int i = 0; i < 2 * TCP_LIGHT_MIN; i++)
		assert_true(large_move(&l[i % 2]) >= LARGE);
	large_end(&l[0]);
	large_end(&l[1]);
	t_world_close(w);
}

int main(void)
{
	setenv("T_PROVIDER", "tcp", 1);
	return t_run();
}
