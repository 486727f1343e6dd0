/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target answers to those who look for it, and what it says by itself. The
 * carriers are played: dgram_open_*() are wrapped.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/discovery.h"
#include "target/responder.h"
#include "target/responder_budget.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "transport/datagram.h"

#define ENDPOINTS_MAX 16
#define QUEUE_MAX     1024
#define SENT_MAX      1024

/* ---- the carriers ---- */

struct datagram {
	struct dgram_peer peer;
	uint8_t bytes[DISCOVERY_MSG_MAX];
	size_t len;
};

struct endpoint {
	struct dgram base;
	struct datagram *queue; /* received, not yet read */
	unsigned int first;
	unsigned int cnt;
	bool gone; /* the device */
	int join;  /* what the fabric answers; -EAGAIN: nothing yet */
};

struct sent {
	enum dgram_carrier carrier;
	bool to_group;
	struct dgram_peer to;
	struct discovery_msg msg;
	size_t len;
	size_t signed_len;
};

static struct {
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct endpoint *endpoints[ENDPOINTS_MAX];
	unsigned int endpoint_cnt; /* that have been opened */
	struct sent sent[SENT_MAX];
	unsigned int sent_cnt;
	int refuses_multicast; /* errno */
	atomic_bool has_rdma;
} net = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };

static int endpoint_receive(struct dgram *d, void *buf, size_t size,
			    struct dgram_peer *ret_peer)
{
	struct endpoint *ep = (struct endpoint *)d;
	int len = 0;
	eventfd_t ignored;

	pthread_mutex_lock(&net.lock);
	if (ep->gone) {
		len = -ENODEV;
	} else if (ep->first < ep->cnt) {
		const struct datagram *g = &ep->queue[ep->first++];

		memcpy(buf, g->bytes, g->len);
		*ret_peer = g->peer;
		len = (int)g->len;
	} else {
		eventfd_read(d->fd, &ignored);
	}
	pthread_mutex_unlock(&net.lock);
	return len;
}

static int endpoint_send(struct dgram *d, const struct dgram_peer *to,
			 const void *data, size_t len)
{
	struct sent *s;

	assert_false(d->joining);
	pthread_mutex_lock(&net.lock);
	assert_true(net.sent_cnt < SENT_MAX);
	s = &net.sent[net.sent_cnt++];
	*s = (struct sent){ .carrier = d->carrier,
			    .to_group = !to,
			    .len = len };
	if (to)
		s->to = *to;
	assert_int_equal(discovery_decode(data, len, &s->msg, &s->signed_len),
			 0);
	pthread_cond_broadcast(&net.changed);
	pthread_mutex_unlock(&net.lock);
	return 0;
}

static int endpoint_join(struct dgram *d)
{
	int err;

	pthread_mutex_lock(&net.lock);
	err = ((struct endpoint *)d)->join;
	d->joining = err;
	pthread_mutex_unlock(&net.lock);
	return err;
}

static void endpoint_close(struct dgram *d)
{
	struct endpoint *ep = (struct endpoint *)d;

	pthread_mutex_lock(&net.lock);
	for (unsigned int i = 0; i < net.endpoint_cnt; i++) {
		if (net.endpoints[i] == ep)
			net.endpoints[i] = NULL;
	}
	pthread_cond_broadcast(&net.changed);
	pthread_mutex_unlock(&net.lock);
	close(d->fd);
	free(ep->queue);
	free(ep);
}

static const struct dgram_ops endpoint_ops = {
	.receive = endpoint_receive,
	.send = endpoint_send,
	.join = endpoint_join,
	.close = endpoint_close,
};

static int endpoint_open(enum dgram_carrier carrier, struct dgram **ret)
{
	struct endpoint *ep = calloc(1, sizeof(*ep));

	assert_non_null(ep);
	ep->queue = calloc(QUEUE_MAX, sizeof(*ep->queue));
	assert_non_null(ep->queue);
	ep->base = (struct dgram){
		.ops = &endpoint_ops,
		.carrier = carrier,
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.joining = carrier == DGRAM_RDMA,
	};
	ep->join = -EAGAIN;
	pthread_mutex_lock(&net.lock);
	assert_true(net.endpoint_cnt < ENDPOINTS_MAX);
	net.endpoints[net.endpoint_cnt++] = ep;
	pthread_cond_broadcast(&net.changed);
	pthread_mutex_unlock(&net.lock);
	*ret = &ep->base;
	return 0;
}

int __wrap_dgram_open_unicast(const struct sockaddr *addr, socklen_t addr_len,
			      struct dgram **ret, struct error *e);
int __wrap_dgram_open_multicast(int family, unsigned int ifindex, bool asks,
				struct dgram **ret, struct error *e);
int __wrap_dgram_open_rdma(const struct sockaddr *local, struct dgram **ret,
			   struct error *e);

int __wrap_dgram_open_unicast(const struct sockaddr *addr, socklen_t addr_len,
			      struct dgram **ret, struct error *e)
{
	return endpoint_open(DGRAM_UNICAST, ret);
}

int __wrap_dgram_open_multicast(int family, unsigned int ifindex, bool asks,
				struct dgram **ret, struct error *e)
{
	assert_false(asks);
	if (net.refuses_multicast)
		return error_set(e, -net.refuses_multicast, "no multicast");
	return endpoint_open(DGRAM_MULTICAST, ret);
}

int __wrap_dgram_open_rdma(const struct sockaddr *local, struct dgram **ret,
			   struct error *e)
{
	return net.has_rdma ? endpoint_open(DGRAM_RDMA, ret)
			    : error_set(e, -ENODEV, "no device");
}

/* The one of @carrier; NULL: there is none. */
static struct endpoint *find_endpoint(enum dgram_carrier carrier)
{
	for (unsigned int i = 0; i < net.endpoint_cnt; i++) {
		if (net.endpoints[i] &&
		    net.endpoints[i]->base.carrier == carrier)
			return net.endpoints[i];
	}
	return NULL;
}

/* Waits until one that @is() has been sent. */
static struct sent await_sent(bool (*is)(const struct sent *s, uint64_t arg),
			      uint64_t arg)
{
	struct sent found;
	unsigned int i = 0;

	pthread_mutex_lock(&net.lock);
	for (;;) {
		while (i < net.sent_cnt && !is(&net.sent[i], arg))
			i++;
		if (i < net.sent_cnt)
			break;
		pthread_cond_wait(&net.changed, &net.lock);
	}
	found = net.sent[i];
	pthread_mutex_unlock(&net.lock);
	return found;
}

static bool has_nonce(const struct sent *s, uint64_t nonce)
{
	return s->msg.nonce == nonce;
}

static unsigned int count_sent(bool (*is)(const struct sent *s, uint64_t arg),
			       uint64_t arg)
{
	unsigned int cnt = 0;

	pthread_mutex_lock(&net.lock);
	for (unsigned int i = 0; i < net.sent_cnt; i++)
		cnt += is(&net.sent[i], arg);
	pthread_mutex_unlock(&net.lock);
	return cnt;
}

/* ---- the target ---- */

static struct {
	struct responder_options opt;
	struct discovery_counts counts;
	struct srp_port_id id;
	struct listen_points points;
	int sockets[2]; /* of the target, and of the responder */
	pthread_t responder;
	bool runs;
} world;

static struct key target_keys[] = {
	{ .name = "other", .len = 16, .bytes = "and sixteen more" },
	{ .name = "right", .len = 16, .bytes = "sixteen bytes at" },
};
static const struct key_file keys = { .key = target_keys, .cnt = 2 };
static const struct hmac_key first_key = { "and sixteen more", 16 };
static const struct hmac_key right_key = { "sixteen bytes at", 16 };
static const struct hmac_key wrong_key = { "sixteen bytes aT", 16 };

static void add_point(const char *host)
{
	struct sockaddr_in sin = t_addr(host, 5555);
	struct listen_point *p = &world.points.point[world.points.cnt++];

	*p = (struct listen_point){ .kind = XP_TCP, .addr_len = sizeof(sin) };
	memcpy(&p->addr, &sin, sizeof(sin));
}

static int make(void **state)
{
	log_level = LOG_ERROR;
	net.endpoint_cnt = 0;
	net.sent_cnt = 0;
	net.refuses_multicast = 0;
	net.has_rdma = false;
	memset(&world, 0, sizeof(world));
	world.opt.interfaces = "lo";
	world.opt.counts = &world.counts;
	world.id = srp_port_id_make(1, 2);
	add_point("127.0.0.1");
	return 0;
}

static void *run(void *arg)
{
	struct error e;

	assert_int_equal(responder_run(world.sockets[1], &world.opt, &e), 0);
	close(world.sockets[1]);
	return NULL;
}

static void tell(void)
{
	struct responder_news news = { .id = world.id,
				       .log_level = log_level,
				       .cnt = world.points.cnt };

	memcpy(news.point, world.points.point, sizeof(news.point));
	assert_int_equal(responder_tell(world.sockets[0], &news), 0);
}

static void start(void)
{
	char ready;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				    world.sockets),
			 0);
	assert_int_equal(pthread_create(&world.responder, NULL, run, NULL), 0);
	world.runs = true;
	tell();
	assert_int_equal(recv(world.sockets[0], &ready, 1, 0), 1);
	tell();
}

static void stop(void)
{
	if (!world.runs)
		return;
	close(world.sockets[0]);
	pthread_join(world.responder, NULL);
	world.runs = false;
}

static int end(void **state)
{
	stop();
	return 0;
}

T_EACH(make, end)

/* ---- queries ---- */

static const struct query {
	const char *name;
	enum discovery_kind kind;
	size_t len; /* at least */
	const struct hmac_key *code;
	const struct hmac_key *key; /* one of the target; NULL: it has none */
	int spoil;		    /* this byte; -1: none */
	bool answered;
} queries[] = {
	{ "a query is answered", DISCOVERY_QUERY, DISCOVERY_QUERY_LEN, NULL,
	  NULL, -1, true },
	{ "a short query gets a short answer", DISCOVERY_QUERY, 0, NULL, NULL,
	  -1, true },
	{ "a code that nobody asks for does no harm", DISCOVERY_QUERY, 0,
	  &right_key, NULL, -1, true },
	{ "an announcement is no query", DISCOVERY_ANNOUNCE,
	  DISCOVERY_QUERY_LEN, NULL, NULL, -1, false },
	{ "a bye is no query", DISCOVERY_BYE, DISCOVERY_QUERY_LEN, NULL, NULL,
	  -1, false },
	{ "another protocol is no query", DISCOVERY_QUERY, DISCOVERY_QUERY_LEN,
	  NULL, NULL, 0, false },
	{ "another version is no query", DISCOVERY_QUERY, DISCOVERY_QUERY_LEN,
	  NULL, NULL, 4, false },
	{ "a query with the key is answered", DISCOVERY_QUERY,
	  DISCOVERY_QUERY_LEN, &right_key, &right_key, -1, true },
	{ "a query with the first key is answered", DISCOVERY_QUERY,
	  DISCOVERY_QUERY_LEN, &first_key, &first_key, -1, true },
	{ "a query with another key is not", DISCOVERY_QUERY,
	  DISCOVERY_QUERY_LEN, &wrong_key, &right_key, -1, false },
	{ "a query without a code is not", DISCOVERY_QUERY, DISCOVERY_QUERY_LEN,
	  NULL, &right_key, -1, false },
	{ "a query that was changed is not", DISCOVERY_QUERY,
	  DISCOVERY_QUERY_LEN, &right_key, &right_key, 15, false },
};

static void put_query(struct endpoint *ep, const struct query *q,
		      const char *host, uint64_t nonce)
{
	struct discovery_msg msg = { .kind = q->kind, .nonce = nonce };
	struct sockaddr_in sin = t_addr(host, 1234);
	struct datagram *g = &ep->queue[ep->cnt++];
	int len = discovery_encode(g->bytes, q->len, sizeof(g->bytes), &msg,
				   q->code ? hmac_code : NULL,
				   (void *)(uintptr_t)q->code);

	assert_true(len > 0 && ep->cnt <= QUEUE_MAX);
	if (q->spoil >= 0)
		g->bytes[q->spoil] ^= 0x40;
	g->len = (size_t)len;
	g->peer.addr_len = sizeof(sin);
	memcpy(&g->peer.addr, &sin, sizeof(sin));
	memcpy(g->peer.host, &sin.sin_addr, sizeof(sin.sin_addr));
}

#define NONCE 7
#define LAST  1000

/* A query that is answered: all before it have been read. */
static void put_last_query(struct endpoint *ep, const struct hmac_key *key)
{
	const struct query last = { .kind = DISCOVERY_QUERY,
				    .code = key,
				    .spoil = -1 };

	put_query(ep, &last, "10.9.9.9", LAST);
	eventfd_write(ep->base.fd, 1);
}

T_ROWS(only_a_query_is_answered, queries)
{
	const struct query *q = *state;
	struct endpoint *ep;
	size_t len;

	for (int i = 2; i < 8; i++) {
		char host[32];

		snprintf(host, sizeof(host), "127.0.0.%d", i);
		add_point(host);
	}
	if (q->key)
		world.opt.keys = &keys;
	start();
	pthread_mutex_lock(&net.lock);
	ep = find_endpoint(DGRAM_UNICAST);
	put_query(ep, q, "10.0.0.9", NONCE);
	len = ep->queue[0].len;
	put_last_query(ep, q->key);
	pthread_mutex_unlock(&net.lock);
	await_sent(has_nonce, LAST);
	assert_int_equal(count_sent(has_nonce, NONCE), q->answered);
	assert_int_equal(world.counts.drops, !q->answered);
	assert_int_equal(world.counts.answers, 1 + q->answered);
	if (q->answered) {
		struct sent s = await_sent(has_nonce, NONCE);
		struct sockaddr_in want = t_addr("10.0.0.9", 1234);

		assert_int_equal(s.msg.kind, DISCOVERY_ANNOUNCE);
		assert_memory_equal(&s.to.addr, &want, sizeof(want));
		assert_true(s.len <= DISCOVERY_GAIN * len);
		assert_int_equal(s.msg.uri_cnt == 7,
				 q->len == DISCOVERY_QUERY_LEN);
		assert_int_equal(s.signed_len != 0, q->key != NULL);
	}
}

/* All of them are there before the first is read, and are read in one turn. How answers
 * are shared between hosts: test_responder.c. */
T_TEST(one_host_leaves_answers_to_others)
{
	const struct query q = { .kind = DISCOVERY_QUERY, .spoil = -1 };
	const unsigned int most = RESPONDER_RATE / RESPONDER_SHARE;
	unsigned int answers;
	struct endpoint *ep;

	start();
	pthread_mutex_lock(&net.lock);
	ep = find_endpoint(DGRAM_UNICAST);
	for (unsigned int i = 0; i < most + 5; i++)
		put_query(ep, &q, "10.0.0.9", NONCE);
	put_last_query(ep, NULL);
	pthread_mutex_unlock(&net.lock);
	await_sent(has_nonce, LAST);
	answers = count_sent(has_nonce, NONCE);
	assert_in_range(answers, 1, most);
	assert_int_equal(world.counts.drops, most + 5 - answers);
}

/* ---- by itself ---- */

static bool is_to_group(const struct sent *s, uint64_t kind)
{
	return s->to_group && s->msg.kind == kind;
}

T_TEST(target_that_comes_says_so)
{
	struct sent s;

	start();
	s = await_sent(is_to_group, DISCOVERY_ANNOUNCE);
	assert_int_equal(s.carrier, DGRAM_MULTICAST);
	assert_int_equal(s.msg.nonce, 0);
	assert_memory_equal(&s.msg.id, &world.id, sizeof(s.msg.id));
	assert_int_equal(s.msg.uri_cnt, 1);
	assert_string_equal(s.msg.uris[0], "srp+tcp://127.0.0.1:5555");
	assert_int_equal(count_sent(is_to_group, DISCOVERY_BYE), 0);
}

T_TEST(target_that_goes_says_so)
{
	start();
	stop();
	assert_int_equal(count_sent(is_to_group, DISCOVERY_BYE), 1);
	assert_null(find_endpoint(DGRAM_UNICAST));
	assert_null(find_endpoint(DGRAM_MULTICAST));
}

static bool has_two_uris(const struct sent *s, uint64_t kind)
{
	return is_to_group(s, kind) && s->msg.uri_cnt == 2;
}

T_TEST(new_address_is_told)
{
	struct sent s;

	start();
	add_point("127.0.0.2");
	tell();
	s = await_sent(has_two_uris, DISCOVERY_ANNOUNCE);
	assert_string_equal(s.msg.uris[1], "srp+tcp://127.0.0.2:5555");
}

/* A code does not cover where a datagram comes from. */
T_TEST(wildcard_with_a_key_tells_addresses)
{
	struct listen_point reach[DISCOVERY_URIS_MAX];
	unsigned int cnt;
	struct sent s;

	world.points.cnt = 0;
	add_point("0.0.0.0");
	cnt = listen_point_reach(&world.points.point[0], reach,
				 DISCOVERY_URIS_MAX);
	if (!cnt)
		T_SKIP("the loopback interface alone");
	world.opt.keys = &keys;
	start();
	s = await_sent(is_to_group, DISCOVERY_ANNOUNCE);
	assert_int_equal(s.msg.uri_cnt, cnt);
	for (unsigned int i = 0; i < cnt; i++)
		assert_null(strstr(s.msg.uris[i], "//0.0.0.0:"));
}

T_TEST(endpoint_whose_device_goes_is_opened_again)
{
	struct endpoint *ep;

	start();
	await_sent(is_to_group, DISCOVERY_ANNOUNCE);
	pthread_mutex_lock(&net.lock);
	ep = find_endpoint(DGRAM_MULTICAST);
	assert_non_null(ep);
	ep->gone = true;
	eventfd_write(ep->base.fd, 1);
	while (find_endpoint(DGRAM_MULTICAST))
		pthread_cond_wait(&net.changed, &net.lock);
	net.sent_cnt = 0;
	pthread_mutex_unlock(&net.lock);
	tell();
	await_sent(is_to_group, DISCOVERY_ANNOUNCE);
}

T_TEST(endpoint_that_cannot_be_opened_leaves_the_others)
{
	net.refuses_multicast = EPERM;
	start();
	pthread_mutex_lock(&net.lock);
	assert_null(find_endpoint(DGRAM_MULTICAST));
	put_last_query(find_endpoint(DGRAM_UNICAST), NULL);
	pthread_mutex_unlock(&net.lock);
	await_sent(has_nonce, LAST);
}

/* ---- the fabric ---- */

/* A loopback interface is that of no device. */
bool __wrap_own_gids_have(const struct own_gids *g,
			  const struct sockaddr *addr);
bool __wrap_own_gids_have(const struct own_gids *g, const struct sockaddr *addr)
{
	return net.has_rdma;
}

static bool is_by(const struct sent *s, uint64_t carrier)
{
	return s->to_group && s->carrier == carrier;
}

/* The fabric answers @err. */
static void fabric_answers(int err)
{
	struct endpoint *ep;

	pthread_mutex_lock(&net.lock);
	ep = find_endpoint(DGRAM_RDMA);
	assert_non_null(ep);
	ep->join = err;
	eventfd_write(ep->base.fd, 1);
	pthread_mutex_unlock(&net.lock);
}

T_TEST(fabric_that_says_nothing_delays_no_answer)
{
	net.has_rdma = true;
	start();
	fabric_answers(-EAGAIN);
	pthread_mutex_lock(&net.lock);
	put_last_query(find_endpoint(DGRAM_UNICAST), NULL);
	pthread_mutex_unlock(&net.lock);
	await_sent(has_nonce, LAST);
	assert_int_equal(count_sent(is_by, DGRAM_RDMA), 0);
	fabric_answers(0);
	assert_int_equal(await_sent(is_by, DGRAM_RDMA).msg.kind,
			 DISCOVERY_ANNOUNCE);
}

static bool has_rdma_uri(const struct sent *s, uint64_t kind)
{
	return has_two_uris(s, kind) &&
	       !strcmp(s->msg.uris[1], "srp+rdma://127.0.0.1:5555");
}

/* The target listens there over RDMA from the moment on when a device has the address. */
T_TEST(address_that_a_device_gets_later_is_told)
{
	add_point("127.0.0.1");
	world.points.point[1].kind = XP_VERBS;
	world.points.point[1].waits = true;
	start();
	assert_int_equal(
		await_sent(is_to_group, DISCOVERY_ANNOUNCE).msg.uri_cnt, 1);
	net.has_rdma = true;
	tell();
	await_sent(has_rdma_uri, DISCOVERY_ANNOUNCE);
}

T_TEST(fabric_that_refuses_is_asked_again)
{
	net.has_rdma = true;
	start();
	fabric_answers(-ENETUNREACH);
	pthread_mutex_lock(&net.lock);
	while (find_endpoint(DGRAM_RDMA))
		pthread_cond_wait(&net.changed, &net.lock);
	pthread_mutex_unlock(&net.lock);
	tell();
	pthread_mutex_lock(&net.lock);
	while (!find_endpoint(DGRAM_RDMA))
		pthread_cond_wait(&net.changed, &net.lock);
	pthread_mutex_unlock(&net.lock);
	fabric_answers(0);
	await_sent(is_by, DGRAM_RDMA);
}

/* A target that was taken over may say anything. */
T_TEST(address_that_is_none_is_left_out)
{
	struct listen_point *p = world.points.point;

	add_point("127.0.0.2");
	add_point("127.0.0.3");
	p[0].kind = XP_KINDS;
	p[1].addr_len = sizeof(p->addr) + 1;
	p[2].addr.ss_family = AF_UNIX;
	start();
	assert_int_equal(net.endpoint_cnt, 0);
}

T_TEST(more_addresses_than_there_can_be_end_it)
{
	struct responder_news news = { .cnt = PORT_LISTENERS_MAX + 1 };

	start();
	assert_int_equal(send(world.sockets[0], &news, sizeof(news), 0),
			 sizeof(news));
	pthread_join(world.responder, NULL);
	close(world.sockets[0]);
	world.runs = false;
}

/* A wildcard is not listened at: it has addresses of other interfaces, too. */
T_TEST(discovery_may_be_on_some_interfaces_only)
{
	world.opt.interfaces = "none0,none1";
	world.points.cnt = 0;
	add_point("0.0.0.0");
	start();
	assert_int_equal(net.endpoint_cnt, 0);
}
