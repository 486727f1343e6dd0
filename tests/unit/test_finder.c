/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions of rdma-discover to hosts, which are sockets of the test. */
#include "discover/finder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define HOSTS_MAX 2
/* Nothing takes so long, unless a test hangs. */
#define HANG_MS 60000
/* For answers that are none. */
#define IN_VAIN_MS 100

enum answer {
	ANSWER_GOOD,
	ANSWER_NONE,
	ANSWER_OTHER_NONCE,
	ANSWER_NO_NONCE,
	ANSWER_QUERY,
	ANSWER_GARBAGE,
	ANSWER_TOO_LONG,    /* and then a good one */
	ANSWER_WILDCARD,    /* its address is that of the sender */
	ANSWER_CODE,	    /* with a code */
	ANSWER_OTHER_CODE,  /* of another key */
	ANSWER_BROKEN_CODE, /* something was changed after it was made */
	ANSWER_WILDCARD_CODE,
};

/* A host with a target. */
struct host {
	int fd;
	int stop_fd;
	uint16_t port;
	pthread_t thread;
	enum answer answer;
	unsigned int ignores; /* this many questions first */
	uint8_t id;
	const char *uri;
	/* results */
	unsigned int asked_cnt;
	struct sockaddr_in asker;
};

static struct {
	struct host hosts[HOSTS_MAX];
	unsigned int host_cnt;
	char names[HOSTS_MAX][32];
	const char *name_list[HOSTS_MAX];
	struct finder_options o;
	struct finder *finder;
	struct found found;
	/* of finder_heard() */
	unsigned int bye_cnt;
	uint8_t bye_id;
} world;

static const struct hmac_key key = { "0123456789abcdef", 16 };
static const struct hmac_key other_key = { "fedcba9876543210", 16 };

/* ---- a host ---- */

static void send_message(const struct host *h, struct discovery_msg *msg,
			 const struct hmac_key *k)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	int len = discovery_encode(buf, 0, sizeof(buf), msg,
				   k ? hmac_code : NULL, (void *)(uintptr_t)k);

	T_MUST(len > 0);
	if (h->answer == ANSWER_BROKEN_CODE)
		buf[len - HMAC_LEN - 1] ^= 1;
	T_MUST(sendto(h->fd, buf, (size_t)len, 0,
		      (const struct sockaddr *)&h->asker,
		      sizeof(h->asker)) == len);
}

static void send_bytes(const struct host *h, size_t len)
{
	static const uint8_t bytes[DISCOVERY_MSG_MAX + 200];

	T_MUST(sendto(h->fd, bytes, len, 0, (const struct sockaddr *)&h->asker,
		      sizeof(h->asker)) == (ssize_t)len);
}

static struct discovery_msg target_of(const struct host *h, uint64_t nonce)
{
	struct discovery_msg msg = { .kind = DISCOVERY_ANNOUNCE,
				     .nonce = nonce };

	memset(&msg.id, h->id, sizeof(msg.id));
	discovery_set_instance(&msg, "storage");
	T_MUST(discovery_add_uri(&msg, h->uri));
	return msg;
}

static void answer(const struct host *h, uint64_t nonce)
{
	struct discovery_msg msg = target_of(h, nonce);
	const struct hmac_key *k = NULL;

	switch (h->answer) {
	case ANSWER_NONE:
		return;
	case ANSWER_GARBAGE:
		send_bytes(h, 100);
		return;
	case ANSWER_TOO_LONG:
		send_bytes(h, DISCOVERY_MSG_MAX + 200);
		break;
	case ANSWER_OTHER_NONCE:
		msg.nonce++;
		break;
	case ANSWER_NO_NONCE:
		msg.nonce = 0;
		break;
	case ANSWER_QUERY:
		msg.kind = DISCOVERY_QUERY;
		break;
	case ANSWER_CODE:
	case ANSWER_BROKEN_CODE:
	case ANSWER_WILDCARD_CODE:
		k = &key;
		break;
	case ANSWER_OTHER_CODE:
		k = &other_key;
		break;
	case ANSWER_GOOD:
	case ANSWER_WILDCARD:
		break;
	}
	send_message(h, &msg, k);
}

static void take_question(struct host *h)
{
	socklen_t asker_len = sizeof(h->asker);
	uint8_t buf[DISCOVERY_MSG_MAX];
	struct discovery_msg query;
	size_t signed_len;
	ssize_t len = recvfrom(h->fd, buf, sizeof(buf), 0,
			       (struct sockaddr *)&h->asker, &asker_len);

	T_MUST(len >= DISCOVERY_QUERY_LEN);
	T_MUST(!discovery_decode(buf, (size_t)len, &query, &signed_len));
	T_MUST(query.kind == DISCOVERY_QUERY && query.nonce);
	/* The question has a code if there is a key. */
	T_MUST(!world.o.key.len ||
	       (signed_len &&
		hmac_check(&key, buf, signed_len, buf + signed_len)));
	if (h->asked_cnt++ >= h->ignores)
		answer(h, query.nonce);
}

static void *host_main(void *arg)
{
	struct host *h = arg;
	struct pollfd fds[] = { { h->fd, POLLIN, 0 },
				{ h->stop_fd, POLLIN, 0 } };

	/* It takes what was asked before it is told to stop, however late it runs. */
	while (poll(fds, 2, -1) > 0 && fds[0].revents)
		take_question(h);
	return NULL;
}

static void add_host(enum answer a, uint8_t id, const char *uri)
{
	struct host *h = &world.hosts[world.host_cnt];
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t addr_len = sizeof(addr);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*h = (struct host){ .answer = a, .id = id, .uri = uri };
	h->fd = socket(AF_INET, SOCK_DGRAM, 0);
	h->stop_fd = eventfd(0, 0);
	T_MUST(!bind(h->fd, (struct sockaddr *)&addr, sizeof(addr)));
	T_MUST(!getsockname(h->fd, (struct sockaddr *)&addr, &addr_len));
	h->port = ntohs(addr.sin_port);
	snprintf(world.names[world.host_cnt], sizeof(world.names[0]),
		 "127.0.0.1:%u", h->port);
	world.name_list[world.host_cnt] = world.names[world.host_cnt];
	world.host_cnt++;
}

/* The hosts were added. */
static void start(unsigned int wait_ms, const struct hmac_key *k)
{
	struct error e;

	world.o.carriers = 1u << DGRAM_UNICAST;
	world.o.hosts = world.name_list;
	world.o.host_cnt = world.host_cnt;
	world.o.wait_ms = wait_ms;
	if (k)
		world.o.key = *k;
	for (unsigned int i = 0; i < world.host_cnt; i++)
		T_MUST(!pthread_create(&world.hosts[i].thread, NULL, host_main,
				       &world.hosts[i]));
	assert_int_equal(finder_open(&world.o, &world.finder, &e), 0);
}

static void stop_hosts(void)
{
	for (unsigned int i = 0; i < world.host_cnt; i++) {
		eventfd_write(world.hosts[i].stop_fd, 1);
		pthread_join(world.hosts[i].thread, NULL);
	}
}

static void stop(void)
{
	finder_close(world.finder);
	for (unsigned int i = 0; i < world.host_cnt; i++) {
		close(world.hosts[i].fd);
		close(world.hosts[i].stop_fd);
	}
	found_clear(&world.found);
	memset(&world, 0, sizeof(world));
}

/* ---- questions ---- */

#define URI	 "srp+tcp://10.0.0.1:5555"
#define WILDCARD "srp+tcp://0.0.0.0:5556"

static const struct ask_row {
	const char *name;
	enum answer answer;
	unsigned int ignores;
	const struct hmac_key *key;
	const char *text; /* of the address; NULL: nothing is found */
} ask_rows[] = {
	{ "an answer", ANSWER_GOOD, 0, NULL, URI },
	{ "the first question is lost", ANSWER_GOOD, 1, NULL, URI },
	{ "two questions are lost", ANSWER_GOOD, 2, NULL, URI },
	{ "no answer", ANSWER_NONE, 0, NULL, NULL },
	{ "an answer to another question", ANSWER_OTHER_NONCE, 0, NULL, NULL },
	{ "an announcement is no answer", ANSWER_NO_NONCE, 0, NULL, NULL },
	{ "a question is no answer", ANSWER_QUERY, 0, NULL, NULL },
	{ "garbage", ANSWER_GARBAGE, 0, NULL, NULL },
	{ "a datagram that is too long", ANSWER_TOO_LONG, 0, NULL, URI },
	{ "a wildcard is the sender", ANSWER_WILDCARD, 0, NULL,
	  "srp+tcp://127.0.0.1:5556" },
#if HAVE_NETTLE
	{ "a code that nobody needs", ANSWER_CODE, 0, NULL, URI },
	{ "an answer with a code", ANSWER_CODE, 0, &key, URI },
	{ "an answer without a code", ANSWER_GOOD, 0, &key, NULL },
	{ "a code of another key", ANSWER_OTHER_CODE, 0, &key, NULL },
	{ "a code of something else", ANSWER_BROKEN_CODE, 0, &key, NULL },
	{ "no code covers the sender", ANSWER_WILDCARD_CODE, 0, &key, NULL },
#endif
};

T_ROWS(ask, ask_rows)
{
	const struct ask_row *row = *state;
	bool has_wildcard = row->answer == ANSWER_WILDCARD ||
			    row->answer == ANSWER_WILDCARD_CODE;

	add_host(row->answer, 1, has_wildcard ? WILDCARD : URI);
	world.hosts[0].ignores = row->ignores;
	start(row->text ? HANG_MS : IN_VAIN_MS, row->key);
	finder_ask(world.finder, &world.found);
	stop_hosts();
	assert_int_equal(world.hosts[0].asked_cnt, row->ignores + 1);
	assert_int_equal(world.found.cnt, row->text ? 1 : 0);
	if (row->text) {
		const struct found_target *t = world.found.targets[0];

		assert_string_equal(t->instance, "storage");
		assert_int_equal(t->address_cnt, 1);
		assert_string_equal(t->addresses[0].text, row->text);
		assert_int_equal(t->carriers, 1u << DGRAM_UNICAST);
	}
	stop();
}

/* Each question has a nonce of its own: an answer to the last one is late. */
T_TEST(nonces_differ)
{
	add_host(ANSWER_GOOD, 1, URI);
	start(HANG_MS, NULL);
	finder_ask(world.finder, &world.found);
	assert_int_equal(world.found.cnt, 1);
	found_clear(&world.found);
	finder_ask(world.finder, &world.found);
	assert_int_equal(world.found.cnt, 1);
	stop_hosts();
	assert_int_equal(world.hosts[0].asked_cnt, 2);
	stop();
}

static const struct pair_row {
	const char *name;
	uint8_t ids[2];
	const char *uris[2];
	unsigned int targets;
	unsigned int addresses; /* of the first */
} pair_rows[] = {
	{ "two targets", { 1, 2 }, { URI, "srp+tcp://10.0.0.2:5555" }, 2, 1 },
	{ "two addresses of one",
	  { 1, 1 },
	  { URI, "srp+tcp://10.0.0.2:5555" },
	  1,
	  2 },
	{ "the same answer twice", { 1, 1 }, { URI, URI }, 1, 1 },
};

/* It ends when both have answered. */
T_ROWS(two_hosts, pair_rows)
{
	const struct pair_row *row = *state;

	for (unsigned int i = 0; i < 2; i++)
		add_host(ANSWER_GOOD, row->ids[i], row->uris[i]);
	start(HANG_MS, NULL);
	finder_ask(world.finder, &world.found);
	stop_hosts();
	assert_int_equal(world.found.cnt, row->targets);
	assert_int_equal(world.found.targets[0]->address_cnt, row->addresses);
	stop();
}

/* ---- announcements ---- */

static void on_bye(void *user, const struct srp_port_id *id)
{
	world.bye_cnt++;
	memcpy(&world.bye_id, id, 1);
}

/* Waits for the datagram. */
static bool heard(void)
{
	struct pollfd fds[FINDER_ENDPOINTS_MAX];
	unsigned int cnt = finder_poll_list(world.finder, fds);

	assert_int_equal(cnt, 1);
	assert_int_equal(poll(fds, cnt, HANG_MS), 1);
	return finder_heard(world.finder, on_bye, NULL);
}

T_TEST(announcements)
{
	struct host *h = &world.hosts[0];
	struct discovery_msg msg;

	add_host(ANSWER_GOOD, 9, URI);
	start(HANG_MS, NULL);
	finder_ask(world.finder, &world.found);
	stop_hosts();
	msg = target_of(h, 0);
	send_message(h, &msg, NULL);
	assert_true(heard());
	assert_int_equal(world.bye_cnt, 0);
	msg.kind = DISCOVERY_BYE;
	send_message(h, &msg, NULL);
	assert_true(heard());
	assert_int_equal(world.bye_cnt, 1);
	assert_int_equal(world.bye_id, 9);
	/* A late answer, and what is no message. */
	msg = target_of(h, 5);
	send_message(h, &msg, NULL);
	assert_false(heard());
	send_bytes(h, 20);
	assert_false(heard());
	assert_int_equal(world.bye_cnt, 1);
	stop();
}

/* ---- what cannot be asked ---- */

static const struct refused_row {
	const char *name;
	const char *host; /* NULL: none */
	unsigned int carriers;
	int err;
	const char *text;
} refused_rows[] = {
	{ "nobody", NULL, 1u << DGRAM_UNICAST, -ENODEV,
	  "nobody can be asked: no interface is up" },
	{ "a host that is no host", "[::1", 1u << DGRAM_UNICAST, -EINVAL,
	  "host '[::1': " },
};

T_ROWS(refused, refused_rows)
{
	const struct refused_row *row = *state;
	const struct finder_options o = { .carriers = row->carriers,
					  .hosts = &row->host,
					  .host_cnt = row->host != NULL };
	struct finder *f;
	struct error e;

	assert_int_equal(finder_open(&o, &f, &e), row->err);
	assert_int_equal(strncmp(e.text, row->text, strlen(row->text)), 0);
}
