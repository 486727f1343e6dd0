/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transport/verbs with several devices, and with devices that fail: what the
 * contract of all providers does not ask. The devices are fake (tests/verbs).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"
#include "tests/verbs/fake_verbs.h"

#define BLOCK 8192u

/* The addresses of the devices fake0 and fake1. */
static const char *const addrs[] = { "127.0.0.1", "127.0.0.2" };

/* A target that listens on every device, with memory for data. */
struct host {
	struct t_world *w;
	struct xp *target;
	unsigned int failures; /* as it was told */
	unsigned int listens;
	unsigned int deaf;
	unsigned int requests; /* of the listener of on_moving() */
	char why[ERROR_TEXT_SIZE];
	struct t_mem local;  /* the target's */
	struct t_mem remote; /* the initiator's */
};

static void on_device(void *user, enum xp_device_change change,
		      const char *name, const char *why)
{
	struct host *h = user;

	h->listens += change == XP_DEVICE_LISTENS;
	h->deaf += change == XP_DEVICE_DEAF;
	if (change != XP_DEVICE_FAILED)
		return;
	h->failures++;
	snprintf(h->why, sizeof(h->why), "%s: %s", name, why);
}

static void host_open(struct host *h)
{
	struct xp_config cfg = {
		.recv_len = 4096,
		.device = on_device,
		.device_user = h,
	};
	struct error e;

	memset(h, 0, sizeof(*h));
	h->w = t_world_open(NULL);
	cfg.reactor = h->w->server_reactor;
	if (xp_create(XP_VERBS, &cfg, &h->target, &e))
		fail_msg("no instance: %s", e.text);
	h->w->acceptor = h->target;
	t_mem_get(h->target, BLOCK, XP_LOCAL, &h->local);
	t_mem_get(h->w->client, BLOCK, XP_REMOTE, &h->remote);
}

static void host_close(struct host *h)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(addrs); i++) {
		for (int call = 0; call < FAKE_CALLS; call++)
			fake_fail(i ? "fake1" : "fake0", call, 0);
	}
	/* Its regions are freed after the channels. */
	for (unsigned int i = 0; i < h->w->client_cnt; i++)
		t_end_close(&h->w->client_ends[i]);
	for (unsigned int i = 0; i < h->w->server_cnt; i++)
		t_end_close(&h->w->server_ends[i]);
	t_mem_put(&h->local);
	t_mem_put(&h->remote);
	xp_destroy(h->target);
	t_world_close(h->w);
}

/* Begins to connect over device @dev. */
static struct t_end *host_connect(struct host *h, unsigned int dev)
{
	struct sockaddr_in to = h->w->addr;

	inet_pton(AF_INET, addrs[dev], &to.sin_addr);
	return t_connect_to(h->w, &to, NULL);
}

/* Logs in over device @dev; returns the target's end. */
static struct t_end *host_login(struct host *h, unsigned int dev)
{
	unsigned int n = h->w->server_cnt;
	struct t_end *client = host_connect(h, dev);
	struct t_end *server = &h->w->server_ends[n];

	T_WAIT(h->w,
	       client->closed || (client->established && h->w->server_cnt > n &&
				  server->established));
	if (client->closed)
		fail_msg("no login: %s", client->why.text);
	return server;
}

/* The initiator's end of the newest login. */
static struct t_end *host_client(const struct host *h)
{
	return &h->w->client_ends[h->w->client_cnt - 1];
}

/* The target reads from the initiator, whose end is @client; returns how that
 * ends. */
static int host_read(struct host *h, struct t_end *server,
		     const struct t_end *client, const struct t_mem *to)
{
	static unsigned int seed;
	struct srp_desc desc = { .len = BLOCK };
	struct t_chain chain = {
		.c = { .dir = XP_RDMA_READ,
		       .remote = &desc,
		       .len = BLOCK,
		       .local = to->p,
		       .local_mr = to->mr },
	};

	xp_mr_remote(h->remote.mr, client->ch, h->remote.p, &desc.addr,
		     &desc.key);
	t_fill(h->remote.p, BLOCK, ++seed);
	t_post(server, &chain);
	T_WAIT(h->w, chain.done);
	if (!chain.status)
		assert_memory_equal(to->p, h->remote.p, BLOCK);
	return chain.status;
}

/* ---- memory ---- */

T_TEST(a_device_that_nobody_uses_has_no_memory)
{
	struct host h;

	host_open(&h);
	assert_int_equal(fake_regions("fake0") + fake_regions("fake1"), 0);
	host_login(&h, 0);
	assert_true(fake_regions("fake0") >= 2);
	assert_int_equal(fake_regions("fake1"), 0);
	host_login(&h, 1);
	assert_true(fake_regions("fake1") >= 2);
	host_close(&h);
	assert_int_equal(fake_regions("fake0") + fake_regions("fake1"), 0);
}

T_TEST(a_sick_device_stops_no_login_on_others)
{
	struct t_end *server;
	struct t_end *client;
	struct host h;

	fake_fail("fake1", FAKE_REG_MR, ENOSPC);
	host_open(&h);
	server = host_login(&h, 0);
	assert_int_equal(host_read(&h, server, host_client(&h), &h.local), 0);
	client = host_connect(&h, 1);
	T_WAIT(h.w, client->closed);
	assert_int_equal(client->why.err, -ENOSPC);
	assert_non_null(strstr(client->why.text, "fake1"));
	assert_int_equal(fake_regions("fake1"), 0);
	assert_int_equal(host_read(&h, server, &h.w->client_ends[0], &h.local),
			 0);
	/* It is tried anew with each login. */
	fake_fail("fake1", FAKE_REG_MR, 0);
	server = host_login(&h, 1);
	assert_int_equal(host_read(&h, server, host_client(&h), &h.local), 0);
	host_close(&h);
}

T_TEST(a_device_that_becomes_sick_harms_itself_alone)
{
	struct t_end *servers[2];
	struct t_mem more;
	struct host h;

	host_open(&h);
	servers[0] = host_login(&h, 0);
	servers[1] = host_login(&h, 1);
	fake_fail("fake1", FAKE_REG_MR, ENOSPC);
	t_mem_get(h.target, BLOCK, XP_LOCAL, &more);
	assert_int_equal(host_read(&h, servers[0], &h.w->client_ends[0], &more),
			 0);
	/* It goes on with the memory that it has. */
	assert_int_equal(
		host_read(&h, servers[1], &h.w->client_ends[1], &h.local), 0);
	assert_int_not_equal(
		host_read(&h, servers[1], &h.w->client_ends[1], &more), 0);
	T_WAIT(h.w, servers[1]->closed);
	t_end_close(servers[1]);
	t_end_close(servers[0]);
	t_mem_put(&more);
	host_close(&h);
}

T_TEST(memory_that_no_device_in_use_takes_is_refused)
{
	struct xp_mr *mr = NULL;
	struct error e = { 0 };
	struct host h;

	host_open(&h);
	host_login(&h, 0);
	fake_fail("fake0", FAKE_REG_MR, ENOSPC);
	assert_int_equal(
		xp_mr_register(h.target, h.local.p, BLOCK, XP_LOCAL, &mr, &e),
		-ENOSPC);
	assert_null(mr);
	assert_non_null(strstr(e.text, "fake0"));
	host_close(&h);
}

/* ---- devices that fail, or go and come ---- */

static void end_all(struct host *h, struct t_end *server)
{
	t_end_close(server);
	t_end_close(host_client(h));
}

T_TEST(a_device_that_has_failed_is_left_alone_until_it_comes_anew)
{
	struct t_end *servers[2];
	struct t_end *client;
	struct host h;

	host_open(&h);
	servers[0] = host_login(&h, 0);
	servers[1] = host_login(&h, 1);
	fake_event("fake1", IBV_EVENT_DEVICE_FATAL);
	T_WAIT(h.w, servers[1]->closed && host_client(&h)->closed);
	assert_int_equal(servers[1]->why.err, -EIO);
	assert_int_equal(h.failures, 1);
	assert_non_null(strstr(h.why, "fake1: failed: a fatal error"));
	end_all(&h, servers[1]);
	T_WAIT(h.w, fake_regions("fake1") == 0);
	client = host_connect(&h, 1);
	T_WAIT(h.w, client->closed);
	assert_int_equal(client->why.err, -EIO);
	assert_non_null(strstr(client->why.text, "fake1 has failed"));
	t_end_close(client);
	assert_int_equal(
		host_read(&h, servers[0], &h.w->client_ends[0], &h.local), 0);
	fake_list("fake1", false);
	fake_list("fake1", true);
	servers[1] = host_login(&h, 1);
	assert_int_equal(host_read(&h, servers[1], host_client(&h), &h.local),
			 0);
	assert_int_equal(h.failures, 1);
	host_close(&h);
}

/* A listener gets requests from such a device, and says why it takes none. */
T_TEST(a_device_that_has_failed_accepts_nothing)
{
	struct xp_chan_params params = { .recv_cnt = 16 };
	struct xp_chan *ch = NULL;
	struct t_end *client;
	struct error e = { 0 };
	struct host h;

	host_open(&h);
	h.w->on_request = t_keep;
	client = host_connect(&h, 1);
	T_WAIT(h.w, h.w->request_cnt == 1);
	fake_event("fake1", IBV_EVENT_DEVICE_FATAL);
	T_WAIT(h.w, h.failures == 1 && client->closed);
	assert_int_equal(
		xp_accept(h.target, h.w->requests[0], &params, &ch, &e), -EIO);
	assert_non_null(strstr(e.text, "fake1 has failed"));
	fake_list("fake1", false);
	fake_list("fake1", true);
	host_close(&h);
}

T_TEST(a_device_that_is_removed_has_nothing_left_and_comes_back)
{
	struct t_end *servers[2];
	struct host h;

	host_open(&h);
	servers[0] = host_login(&h, 0);
	for (int i = 0; i < 3; i++) {
		servers[1] = host_login(&h, 1);
		fake_list("fake1", false);
		T_WAIT(h.w, servers[1]->closed && host_client(&h)->closed);
		assert_int_equal(servers[1]->why.err, -ENODEV);
		end_all(&h, servers[1]);
		T_WAIT(h.w, fake_regions("fake1") == 0);
		fake_list("fake1", true);
	}
	assert_int_equal(
		host_read(&h, servers[0], &h.w->client_ends[0], &h.local), 0);
	assert_int_equal(h.failures, 0);
	host_close(&h);
}

/* ---- addresses that move ---- */

#define MOVING "127.0.0.3" /* on fake1 at the beginning */

static void on_moving(struct xp_conn_request *req)
{
	struct host *h = req->user;

	h->requests++;
	xp_reject(req, NULL, 0);
}

static struct sockaddr_in moving_listen(struct host *h,
					struct xp_listener **ret_listener)
{
	struct sockaddr_in addr = t_free_addr();
	struct error e;

	inet_pton(AF_INET, MOVING, &addr.sin_addr);
	if (xp_listen(h->target, (struct sockaddr *)&addr, sizeof(addr),
		      on_moving, h, ret_listener, &e))
		fail_msg("does not listen: %s", e.text);
	return addr;
}

/* A login there reaches the target. */
static void moving_reach(struct host *h, const struct sockaddr_in *addr)
{
	unsigned int before = h->requests;
	struct t_end *client = t_connect_to(h->w, addr, NULL);

	T_WAIT(h->w, client->closed);
	assert_int_equal(h->requests, before + 1);
	t_end_close(client);
}

T_TEST(a_listener_follows_its_address)
{
	struct xp_listener *listener;
	struct sockaddr_in addr;
	struct host h;

	host_open(&h);
	addr = moving_listen(&h, &listener);
	moving_reach(&h, &addr);
	fake_move(MOVING, "fake0");
	T_WAIT(h.w, h.listens == 1);
	moving_reach(&h, &addr);
	fake_move(MOVING, NULL);
	T_WAIT(h.w, h.deaf == 1);
	fake_move(MOVING, "fake1");
	T_WAIT(h.w, h.listens == 2);
	moving_reach(&h, &addr);
	/* What does not concern it changes nothing. */
	fake_event("fake1", IBV_EVENT_GID_CHANGE);
	fake_event("fake0", IBV_EVENT_PORT_ACTIVE);
	moving_reach(&h, &addr);
	assert_int_equal(h.listens, 2);
	xp_unlisten(listener);
	host_close(&h);
}

/* The kernel says that a bond uses another interface. */
T_TEST(a_listener_begins_anew_when_its_interface_changes)
{
	struct xp_listener *listener;
	struct sockaddr_in addr;
	struct host h;

	host_open(&h);
	addr = moving_listen(&h, &listener);
	fake_cm_event("fake1", RDMA_CM_EVENT_ADDR_CHANGE);
	T_WAIT(h.w, h.listens == 1);
	moving_reach(&h, &addr);
	xp_unlisten(listener);
	host_close(&h);
}

/* ---- what packets carry ---- */

T_TEST(both_ends_send_with_the_type_of_service_of_the_uri)
{
	const struct xp_route route = { .has_tos = true,
					.tos = 104,
					.ack_timeout = 18 };
	const struct xp_chan_params params = { .recv_cnt = 16,
					       .route = &route };
	const struct xp_negotiated *n;
	struct sockaddr_in to;
	struct t_end *client;
	struct host h;

	host_open(&h);
	to = h.w->addr;
	inet_pton(AF_INET, addrs[0], &to.sin_addr);
	client = t_connect_to(h.w, &to, &params);
	T_WAIT(h.w, client->established && h.w->server_cnt == 1 &&
			    h.w->server_ends[0].established);
	n = xp_chan_negotiated(client->ch);
	assert_int_equal(n->tos, 104);
	assert_int_equal(n->ack_timeout, 18);
	n = xp_chan_negotiated(h.w->server_ends[0].ch);
	assert_int_equal(n->tos, 104);
	assert_int_not_equal(n->ack_timeout, 18);
	host_close(&h);
}

/* ---- queues ---- */

static const struct queue_fault {
	const char *name;
	bool by_event;
} queue_faults[] = {
	{ "an event", true },
	{ "polling fails", false },
};

T_ROWS(after_an_error_a_device_has_new_queues, queue_faults)
{
	const struct queue_fault *fault = *state;
	struct t_end *servers[2];
	struct host h;

	host_open(&h);
	servers[0] = host_login(&h, 0);
	servers[1] = host_login(&h, 1);
	if (fault->by_event)
		fake_cq_error("fake0");
	else
		fake_fail("fake0", FAKE_POLL_CQ, -EIO);
	T_WAIT(h.w, servers[0]->closed && h.w->client_ends[0].closed);
	assert_int_equal(servers[0]->why.err, -EIO);
	assert_int_equal(h.failures, 1);
	assert_non_null(strstr(h.why, "fake0: "));
	fake_fail("fake0", FAKE_POLL_CQ, 0);
	servers[0] = host_login(&h, 0);
	assert_int_equal(host_read(&h, servers[0], host_client(&h), &h.local),
			 0);
	/* The other device has noticed nothing. */
	assert_int_equal(
		host_read(&h, servers[1], &h.w->client_ends[1], &h.local), 0);
	host_close(&h);
}

/* ---- calls that fail ---- */

static const struct post_fault {
	const char *name;
	int result;
} post_faults[] = {
	{ "positive, as the manual says", ENOSPC },
	{ "negative, as some drivers do", -ENOSPC },
};

T_ROWS(a_refused_request_is_not_taken, post_faults)
{
	const struct post_fault *fault = *state;
	struct t_end *server;
	struct host h;

	host_open(&h);
	server = host_login(&h, 0);
	fake_fail("fake0", FAKE_POST_SEND, fault->result);
	assert_int_equal(host_read(&h, server, host_client(&h), &h.local),
			 -ECANCELED);
	T_WAIT(h.w, server->closed);
	assert_int_equal(server->why.err, -ENOSPC);
	host_close(&h);
}

/* What is not destroyed may still write into memory. */
T_TEST(a_channel_stays_until_its_queue_pair_is_destroyed)
{
	struct t_end *server;
	struct host h;

	host_open(&h);
	server = host_login(&h, 0);
	fake_fail("fake0", FAKE_DESTROY_QP, EBUSY);
	xp_close(server->ch);
	T_WAIT(h.w, h.failures == 1);
	assert_non_null(strstr(h.why, "cannot be destroyed"));
	/* It is tried again, and told of once. */
	T_WAIT(h.w, fake_called("fake0", FAKE_DESTROY_QP) > 5);
	assert_int_equal(server->closed + host_client(&h)->closed, 0);
	assert_int_equal(h.failures, 1);
	fake_fail("fake0", FAKE_DESTROY_QP, 0);
	T_WAIT(h.w, server->closed && host_client(&h)->closed);
	host_close(&h);
}
