/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layer qos, by a clock that the test moves: clients on several queues, and
 * a store that answers at once. The linker replaces the layer's clock_gettime().
 */
#include "tests/lib/t_host.h"

#include "tests/lib/t_table.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS  1000000ull
#define NS_PER_S   1000000000ull
#define KIB	   1024ull
#define MIB	   (1024 * KIB)
#define CLIENT_MAX 6
#define DEPTH_MAX  32
/* A timer fires so much later than it was set to. */
#define LATE_NS (8 * NS_PER_MS)

/* A client submits a request again think_ns after it has ended. */
struct client {
	uint64_t len;
	unsigned int depth;
	uint64_t think_ns;
	unsigned int queue;
	/* results */
	uint64_t cnt;
	uint64_t longest_ns;
};

struct request {
	struct t_request r; /* first: the host finds the request by it */
	struct client *client;
	bool waits;
	uint64_t at; /* of its submission: past, or next */
};

static struct t_host host;

static struct {
	void *volumes[T_HOST_QUEUES];
	unsigned int queue_cnt;
	struct request requests[CLIENT_MAX * DEPTH_MAX];
	unsigned int request_cnt;
} world;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	ts->tv_sec = (time_t)(host.now_ns / NS_PER_S);
	ts->tv_nsec = (long)(host.now_ns % NS_PER_S);
	return 0;
}

/* ---- requests ---- */

static void request_done(struct rbp_io *io, int res)
{
	struct request *r = (struct request *)(void *)io;
	struct client *c = r->client;
	uint64_t waited = host.now_ns - r->at;

	assert_int_equal(res, 0);
	assert_true(r->waits);
	r->waits = false;
	r->at = host.now_ns + c->think_ns;
	c->cnt++;
	if (waited > c->longest_ns)
		c->longest_ns = waited;
}

static void below(struct rbp_io *child)
{
	child->ended(child, 0);
}

/* ---- the world ---- */

/* @queue_cnt volumes of one group, each with one queue. */
static void start(unsigned int queue_cnt, uint64_t iops, uint64_t bps)
{
	static struct rbp_host functions;
	static unsigned int group; /* of its own, also after a failed test */
	char name[32];
	char msg[128];
	const struct rbp_arg args[] = {
		{ "iops", NULL, iops }, { "bps", NULL, bps },
		{ "burst", NULL, 100 }, { "group", name, 0 },
		{ NULL, NULL, 0 },
	};

	snprintf(name, sizeof(name), "g%u", group++);
	functions = t_host_functions;
	functions.done = request_done;
	functions.below = below;
	memset(&world, 0, sizeof(world));
	t_host_begin(&host);
	host.now_ns = NS_PER_S;
	t_host_plug(&host, rdma_block_plugin_1(&functions));
	world.queue_cnt = queue_cnt;
	for (unsigned int i = 0; i < queue_cnt; i++) {
		struct rbp_info info = { .size = sizeof(info) };

		assert_int_equal(host.plugin->open(NULL, NULL, args,
						   &world.volumes[i], &info,
						   msg, sizeof(msg)),
				 0);
		host.volume = world.volumes[i];
		t_host_add_queue(&host, i);
	}
}

/* Nothing waits. */
static void stop(void)
{
	t_host_del_queues(&host);
	for (unsigned int i = 0; i < world.queue_cnt; i++)
		host.plugin->close(world.volumes[i]);
	t_host_end(&host);
}

static void add_client(struct client *c)
{
	for (unsigned int i = 0; i < c->depth; i++) {
		struct request *r = &world.requests[world.request_cnt++];

		r->client = c;
		r->at = host.now_ns;
	}
}

static void submit_due(void)
{
	for (unsigned int i = 0; i < world.request_cnt; i++) {
		struct request *r = &world.requests[i];
		const struct client *c = r->client;

		while (!r->waits && r->at <= host.now_ns) {
			r->waits = true;
			host.volume = world.volumes[c->queue];
			t_host_submit(&host, &r->r, c->queue,
				      (struct rbp_io){ .op = RBP_WRITE,
						       .len = c->len });
		}
	}
}

/* UINT64_MAX: it is not set. */
static uint64_t fires_at(const struct rbp_timer *t)
{
	return t->is_set ? t->due_ns + LATE_NS : UINT64_MAX;
}

static void fire_timers(void)
{
	for (unsigned int i = 0; i < T_HOST_TIMERS; i++) {
		struct rbp_timer *t = &host.timers[i];

		if (fires_at(t) <= host.now_ns) {
			t->is_set = false;
			t->fire(t->user);
		}
	}
}

static uint64_t next_event(uint64_t until)
{
	uint64_t next = until;

	for (unsigned int i = 0; i < T_HOST_TIMERS; i++) {
		if (fires_at(&host.timers[i]) < next)
			next = fires_at(&host.timers[i]);
	}
	for (unsigned int i = 0; i < world.request_cnt; i++) {
		const struct request *r = &world.requests[i];

		if (!r->waits && r->at < next)
			next = r->at;
	}
	return next;
}

static void run_for(uint64_t ns)
{
	uint64_t until = host.now_ns + ns;

	while (host.now_ns < until) {
		fire_timers();
		do
			submit_due();
		while (t_host_poll(&host, 0));
		host.now_ns = next_event(until);
	}
}

/* The clients submit no more, and what waits passes. */
static void drain(void)
{
	for (unsigned int i = 0; i < world.request_cnt; i++) {
		world.requests[i].client->think_ns = UINT64_MAX / 2;
		if (!world.requests[i].waits)
			world.requests[i].at = UINT64_MAX;
	}
	run_for(3600 * NS_PER_S);
	for (unsigned int i = 0; i < world.request_cnt; i++)
		assert_false(world.requests[i].waits);
}

/* ---- tests ---- */

struct qos_row {
	const char *name;
	unsigned int queue_cnt;
	uint64_t iops;
	uint64_t bps;
	struct client clients[CLIENT_MAX]; /* a depth of 0 ends them */
	/* Each client gets at least this many requests a second, and none of its
	 * requests takes longer than this; 0: not checked. */
	uint64_t least[CLIENT_MAX];
	uint64_t longest_ms[CLIENT_MAX];
};

#define LARGE(queue_)                                             \
	{                                                         \
		.len = MIB, .depth = DEPTH_MAX, .queue = (queue_) \
	}
#define SMALL(queue_, depth_)                                     \
	{                                                         \
		.len = 4096, .depth = (depth_), .queue = (queue_) \
	}

static const struct qos_row qos_rows[] = {
	{
		.name = "one small request at a time beside large ones",
		.queue_cnt = 2,
		.bps = 8 * MIB,
		.clients = { LARGE(0), SMALL(1, 1) },
		.least = { 3, 900 },
		.longest_ms = { 0, 20 },
	},
	{
		.name = "the same on one queue",
		.queue_cnt = 1,
		.bps = 8 * MIB,
		.clients = { LARGE(0), SMALL(0, 1) },
		.least = { 3, 900 },
		.longest_ms = { 0, 20 },
	},
	{
		.name = "a small request now and then does not wait",
		.queue_cnt = 2,
		.bps = MIB,
		.clients = { LARGE(0),
			     { .len = 4096,
			       .depth = 1,
			       .think_ns = 100 * NS_PER_MS,
			       .queue = 1 } },
		.longest_ms = { 0, 1 },
	},
	{
		.name = "many small requests leave large ones their share",
		.queue_cnt = 2,
		.bps = 8 * MIB,
		.clients = { LARGE(0), SMALL(1, DEPTH_MAX) },
		.least = { 3, 900 },
	},
	{
		.name = "three queues of large requests and a small one",
		.queue_cnt = 4,
		.bps = 8 * MIB,
		.clients = { LARGE(0), LARGE(1), LARGE(2), SMALL(3, 1) },
		.least = { 1, 1, 1, 450 },
	},
	{
		.name = "requests are limited, and a client has one at a time",
		.queue_cnt = 2,
		.iops = 200,
		.clients = { LARGE(0), SMALL(1, 1) },
		.least = { 90, 90 },
		/* When a turn ends, the next queue is woken. */
		.longest_ms = { 400, 20 },
	},
	{
		.name = "what one client leaves the other one gets",
		.queue_cnt = 2,
		.bps = 8 * MIB,
		.clients = { LARGE(0),
			     { .len = 4096,
			       .depth = 1,
			       .think_ns = 10 * NS_PER_MS,
			       .queue = 1 } },
		.least = { 7, 95 },
	},
};

static unsigned int client_cnt(const struct qos_row *row)
{
	unsigned int cnt = 0;

	while (cnt < CLIENT_MAX && row->clients[cnt].depth)
		cnt++;
	return cnt;
}

/* The clients of a row run for a minute. */
static void run_row(const struct qos_row *row, struct client *clients)
{
	memcpy(clients, row->clients, sizeof(row->clients));
	start(row->queue_cnt, row->iops, row->bps);
	for (unsigned int i = 0; i < client_cnt(row); i++)
		add_client(&clients[i]);
	run_for(60 * NS_PER_S);
}

T_ROWS(each_client_gets_its_share, qos_rows)
{
	const struct qos_row *row = *state;
	struct client clients[CLIENT_MAX];

	run_row(row, clients);
	for (unsigned int i = 0; i < client_cnt(row); i++) {
		const struct client *c = &clients[i];

		if (row->longest_ms[i])
			assert_in_range(c->longest_ns, 0,
					row->longest_ms[i] * NS_PER_MS);
		assert_in_range(c->cnt, row->least[i] * 60, UINT64_MAX);
	}
	drain();
	stop();
}

/* Debts pay for what passes early. At the end, each client may have one request
 * that is not paid, and the burst. */
T_ROWS(rate_is_kept, qos_rows)
{
	const struct qos_row *row = *state;
	struct client clients[CLIENT_MAX];
	uint64_t request_max = row->iops * 60 + row->iops / 10;
	uint64_t byte_max = row->bps * 60 + row->bps / 10;
	uint64_t requests = 0, bytes = 0;

	run_row(row, clients);
	for (unsigned int i = 0; i < client_cnt(row); i++) {
		requests += clients[i].cnt;
		bytes += clients[i].cnt * clients[i].len;
		request_max += 2;
		byte_max += 2 * clients[i].len;
	}
	if (row->iops) {
		assert_in_range(requests, row->iops * 59, request_max);
	}
	if (row->bps) {
		assert_in_range(bytes, row->bps * 59, byte_max);
	}
	drain();
	stop();
}

/* A request has used the share for 256 seconds of the old rate. */
T_TEST(new_rate_is_used_at_once)
{
	const struct rbp_arg args[] = { { "bps", NULL, 8 * MIB }, { 0 } };
	struct client large = LARGE(0);
	struct client small = SMALL(1, 1);
	char msg[128];

	start(/* queue_cnt= */ 2, /* iops= */ 0, /* bps= */ 4096);
	add_client(&large);
	add_client(&small);
	run_for(10 * NS_PER_S);
	assert_int_equal(host.plugin->set_params(world.volumes[0], args, msg,
						 sizeof(msg)),
			 0);
	large.cnt = 0;
	small.cnt = 0;
	run_for(10 * NS_PER_S);
	assert_in_range(large.cnt, 30, 50);
	assert_in_range(small.cnt, 9000, UINT64_MAX);
	drain();
	stop();
}
