/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core of the transport on the in-memory fabric: a post, the link or a
 * completion fails at every possible point. Also how work is batched.
 */
#include <errno.h>
#include <string.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"

#define CHAINS 20u
#define BLOCK  256u
#define DEPTH  8u

/* A connection with a mixed load. The test runs each step. */
struct load {
	struct t_world *w;
	struct t_end *client;
	struct t_end *server;
	struct t_mem remote;
	struct t_mem local;
	struct t_chain chains[CHAINS];
	struct srp_desc descs[CHAINS][3];
};

static void load_open(struct load *l)
{
	struct t_world_options opt = {
		.send_depth = DEPTH,
		.recv_cnt = CHAINS,
	};

	memset(l, 0, sizeof(*l));
	l->w = t_world_open(&opt);
	t_pair(l->w, &l->client, &l->server);
	t_mem_get(l->w->client, CHAINS * 3 * BLOCK, XP_REMOTE, &l->remote);
	t_mem_get(l->w->server, CHAINS * 3 * BLOCK, XP_LOCAL, &l->local);
	t_fill(l->local.p, l->local.len, 1);
	t_fabric_manual(l->w->hub, true);
}

static void load_close(struct load *l)
{
	t_fabric_manual(l->w->hub, false);
	t_fabric_hold_completions(l->w->hub, false);
	t_fabric_let_go(l->w->hub, UINT32_MAX);
	t_end_close(l->client);
	t_end_close(l->server);
	t_mem_put(&l->remote);
	t_mem_put(&l->local);
	t_world_close(l->w);
}

/* Posts by turns: three WRITEs and a SEND, a SEND, two READs, a WRITE. */
static void load_post(struct load *l)
{
	static const unsigned int descs[] = { 3, 0, 2, 1 };

	for (unsigned int i = 0; i < CHAINS; i++) {
		struct t_chain *chain = &l->chains[i];
		unsigned int cnt = descs[i % 4];
		size_t off = i * 3 * BLOCK;

		for (unsigned int d = 0; d < cnt; d++) {
			xp_mr_remote(l->remote.mr, l->client->ch,
				     l->remote.p + off + d * BLOCK,
				     &l->descs[i][d].addr, &l->descs[i][d].key);
			l->descs[i][d].len = BLOCK;
		}
		chain->c.dir = XP_RDMA_WRITE;
		if (cnt == 0)
			chain->c.dir = XP_NO_DATA;
		else if (cnt == 2)
			chain->c.dir = XP_RDMA_READ;
		chain->c.remote = l->descs[i];
		chain->c.len = cnt * BLOCK;
		chain->c.local = l->local.p + off;
		chain->c.local_mr = l->local.mr;
		if (i % 4 < 2) {
			chain->c.send[0] =
				(struct xp_sge){ l->local.p, 36, l->local.mr };
			chain->c.send_cnt = 1;
		}
		t_post(l->server, chain);
	}
}

/* The number of work requests that load_post() makes. */
#define LOAD_WRS (CHAINS / 4 * (4 + 1 + 2 + 1))

/* Successful ones come first, then the one that failed, then all others
 * flushed. */
static void check_load(const struct load *l)
{
	bool failed = false;

	for (unsigned int i = 0; i < CHAINS; i++) {
		const struct t_chain *chain = &l->chains[i];

		assert_int_equal(chain->done, 1);
		assert_int_equal(chain->order, i + 1);
		if (failed)
			assert_int_equal(chain->status, -ECANCELED);
		failed = failed || chain->status != 0;
	}
	assert_int_equal(l->server->closed, failed);
	assert_int_equal(l->client->closed, failed);
}

T_TEST(every_post_may_fail)
{
	struct load l;

	for (unsigned int n = 1; n <= LOAD_WRS + 1; n++) {
		load_open(&l);
		t_fabric_fail_post(l.w->hub, n);
		load_post(&l);
		t_fabric_run(l.w->hub);
		check_load(&l);
		assert_int_equal(l.server->closed, n <= LOAD_WRS);
		load_close(&l);
	}
}

T_TEST(the_link_may_break_anywhere)
{
	struct load l;

	for (unsigned int n = 1; n <= LOAD_WRS + 1; n++) {
		load_open(&l);
		t_fabric_break_at(l.w->hub, n);
		load_post(&l);
		t_fabric_run(l.w->hub);
		check_load(&l);
		assert_int_equal(l.server->closed, n <= LOAD_WRS);
		load_close(&l);
	}
}

enum closer {
	CLOSE_HERE,
	CLOSE_THERE,
	CLOSE_BOTH,
	BREAK_LINK,
};

static const struct close_case {
	const char *name;
	enum closer closer;
} close_cases[] = {
	{ "here", CLOSE_HERE },
	{ "by the peer", CLOSE_THERE },
	{ "by both", CLOSE_BOTH },
	{ "by the link", BREAK_LINK },
};

/* Returns the number of steps before the end. @at: when to close. */
static unsigned int run_and_close(struct load *l, enum closer closer,
				  unsigned int at)
{
	unsigned int steps = 0;

	load_post(l);
	while (steps < at && t_fabric_step(l->w->hub))
		steps++;
	if (closer == BREAK_LINK)
		t_fabric_break(l->server->ch);
	if (closer == CLOSE_HERE || closer == CLOSE_BOTH)
		xp_close(l->server->ch);
	if (closer == CLOSE_THERE || closer == CLOSE_BOTH)
		xp_close(l->client->ch);
	t_fabric_run(l->w->hub);
	return steps;
}

T_ROWS(channel_may_end_at_every_step, close_cases)
{
	const struct close_case *cc = *state;
	unsigned int at = 0;
	unsigned int steps;
	struct load l;

	do {
		load_open(&l);
		steps = run_and_close(&l, cc->closer, at);
		for (unsigned int i = 0; i < CHAINS; i++) {
			assert_int_equal(l.chains[i].done, 1);
			assert_int_equal(l.chains[i].order, i + 1);
		}
		assert_int_equal(l.server->closed, 1);
		assert_int_equal(l.client->closed, 1);
		load_close(&l);
	} while (steps == at++);
	assert_true(at > LOAD_WRS);
}

T_TEST(held_completions_hold_the_send_queue)
{
	struct t_fabric *hub;
	unsigned int total;
	struct load l;

	load_open(&l);
	hub = l.w->hub;
	t_fabric_hold_completions(hub, true);
	total = (unsigned int)t_fabric_executed(hub);
	load_post(&l);
	t_fabric_run(hub);
	/* No more than the queue holds, and no callback runs. */
	assert_int_equal(t_fabric_executed(hub) - total, DEPTH);
	assert_int_equal(l.server->done_chains, 0);
	while (t_fabric_let_go(hub, 1)) {
		unsigned int executed;

		t_fabric_run(hub);
		executed = (unsigned int)t_fabric_executed(hub) - total;
		assert_true(executed <= LOAD_WRS);
	}
	assert_int_equal(t_fabric_executed(hub) - total, LOAD_WRS);
	check_load(&l);
	load_close(&l);
}

T_TEST(completions_that_come_while_closing_count)
{
	struct t_fabric *hub;
	struct load l;

	load_open(&l);
	hub = l.w->hub;
	t_fabric_hold_completions(hub, true);
	load_post(&l);
	t_fabric_run(hub);
	xp_close(l.server->ch);
	t_fabric_run(hub);
	/* The fabric still has some work. */
	assert_int_equal(l.server->closing, 1);
	assert_int_equal(l.server->closed, 0);
	t_fabric_let_go(hub, UINT32_MAX);
	t_fabric_run(hub);
	assert_int_equal(l.server->closed, 1);
	check_load(&l);
	load_close(&l);
}

T_TEST(a_chain_is_signalled_once)
{
	const struct xp_stats *stats;
	struct load l;

	load_open(&l);
	stats = xp_get_stats(l.w->server);
	load_post(&l);
	t_fabric_run(l.w->hub);
	/* Four chains make eight work requests, as many as the send queue
	 * holds. No chain is cut in two. */
	assert_int_equal(stats->wrs, LOAD_WRS);
	assert_int_equal(stats->cqes, CHAINS);
	load_close(&l);
}

T_TEST(posts_of_a_turn_leave_together)
{
	struct t_chain chains[6] = { 0 };
	struct load l;

	load_open(&l);
	for (unsigned int i = 0; i < 6; i++)
		t_post_send(l.server, &chains[i], &l.local, 0, 36);
	assert_int_equal(xp_get_stats(l.w->server)->posts, 0);
	t_fabric_run(l.w->hub);
	assert_int_equal(xp_get_stats(l.w->server)->posts, 1);
	assert_int_equal(xp_get_stats(l.w->server)->wrs, 6);
	load_close(&l);
}

/* The answer is posted before the receive is given back. The receive must be
 * there when the next message arrives because of the answer. */
static void answer_then_release(struct t_end *end, struct xp_iu *iu)
{
	struct load *l = end->user;

	t_post_send(end, &l->chains[0], &l->local, 0, 36);
	xp_iu_release(iu);
}

static void ask_once_more(struct t_end *end, struct xp_iu *iu)
{
	struct load *l = end->user;

	xp_iu_release(iu);
	if (end->received < 50)
		t_post_send(end, &l->chains[1], &l->remote, 0, 36);
}

T_TEST(receives_are_posted_before_answers)
{
	struct t_world_options opt = { .recv_cnt = 1 };
	struct load l = { .w = t_world_open(&opt) };

	t_pair(l.w, &l.client, &l.server);
	t_mem_get(l.w->client, 4096, XP_LOCAL, &l.remote);
	t_mem_get(l.w->server, 4096, XP_LOCAL, &l.local);
	l.client->user = &l;
	l.server->user = &l;
	l.server->on_received = answer_then_release;
	l.client->on_received = ask_once_more;
	t_post_send(l.client, &l.chains[1], &l.remote, 0, 36);
	T_WAIT(l.w, l.client->received == 50);
	assert_int_equal(t_fabric_rnr(l.w->hub), 0);
	t_settle(l.w);
	t_mem_put(&l.remote);
	t_mem_put(&l.local);
	t_world_close(l.w);
}

/* Only the probe is posted, and it runs out of retries. */
T_TEST(peer_that_is_gone_is_noticed)
{
	struct load l;

	load_open(&l);
	t_fabric_manual(l.w->hub, false);
	t_settle(l.w);
	t_fabric_cut(l.server->ch);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(l.server->closed, 0);
		reactor_skip(l.w->server_reactor, XP_KEEPALIVE_MS);
		t_settle(l.w);
	}
	assert_int_equal(l.server->closed, 1);
	assert_int_equal(l.server->why.err, -ETIMEDOUT);
	load_close(&l);
}
