/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What only the tcp provider can meet: a full fabric, and sockets at whose
 * other end is no libfabric.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/srp_iu.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"
#include "transport/ofi_internal.h"

/* ---- a fabric that is full ---- */

static struct fi_ops_msg *real_msg;
static struct fi_ops_rma *real_rma;
static bool always_full;
static unsigned int tries;
static unsigned int refusals;

/* Every other time. */
static bool is_full(void)
{
	if (!always_full && tries++ % 2)
		return false;
	refusals++;
	return true;
}

static ssize_t sendmsg_or_not(struct fid_ep *ep, const struct fi_msg *msg,
			      uint64_t flags)
{
	return is_full() ? -FI_EAGAIN : real_msg->sendmsg(ep, msg, flags);
}

static ssize_t writemsg_or_not(struct fid_ep *ep, const struct fi_msg_rma *msg,
			       uint64_t flags)
{
	return is_full() ? -FI_EAGAIN : real_rma->writemsg(ep, msg, flags);
}

static ssize_t readmsg_or_not(struct fid_ep *ep, const struct fi_msg_rma *msg,
			      uint64_t flags)
{
	return is_full() ? -FI_EAGAIN : real_rma->readmsg(ep, msg, flags);
}

static struct fi_ops_msg full_msg;
static struct fi_ops_rma full_rma;

static void fill_up(struct xp_chan *ch, bool always)
{
	struct fid_ep *ep = ofi_chan(ch)->ep;

	real_msg = ep->msg;
	real_rma = ep->rma;
	full_msg = *real_msg;
	full_msg.sendmsg = sendmsg_or_not;
	full_rma = *real_rma;
	full_rma.writemsg = writemsg_or_not;
	full_rma.readmsg = readmsg_or_not;
	ep->msg = &full_msg;
	ep->rma = &full_rma;
	always_full = always;
	tries = 0;
	refusals = 0;
}

#define CHAINS 100u
#define BLOCK  512u

struct load {
	struct t_world *w;
	struct t_end *client;
	struct t_end *server;
	struct t_mem remote;
	struct t_mem local;
	struct t_chain chains[CHAINS];
	struct srp_desc descs[CHAINS];
};

static void load_open(struct load *l)
{
	struct t_world_options opt = { .send_depth = 16, .recv_cnt = CHAINS };

	memset(l, 0, sizeof(*l));
	l->w = t_world_open(&opt);
	t_pair(l->w, &l->client, &l->server);
	t_mem_get(l->w->client, CHAINS * BLOCK, XP_REMOTE, &l->remote);
	t_mem_get(l->w->server, CHAINS * BLOCK, XP_LOCAL, &l->local);
	t_fill(l->local.p, l->local.len, 1);
	memcpy(l->remote.p, l->local.p, l->local.len);
}

/* WRITEs with a SEND, and READs, in turns. */
static void load_post(struct load *l)
{
	for (unsigned int i = 0; i < CHAINS; i++) {
		struct t_chain *chain = &l->chains[i];

		xp_mr_remote(l->remote.mr, l->client->ch,
			     l->remote.p + i * BLOCK, &l->descs[i].addr,
			     &l->descs[i].key);
		l->descs[i].len = BLOCK;
		chain->c.dir = i % 2 ? XP_RDMA_READ : XP_RDMA_WRITE;
		chain->c.remote = &l->descs[i];
		chain->c.remote_cnt = 1;
		chain->c.len = BLOCK;
		chain->c.local = l->local.p + i * BLOCK;
		chain->c.local_mr = l->local.mr;
		chain->c.send[0] =
			(struct xp_sge){ l->local.p, 36, l->local.mr };
		chain->c.send_cnt = i % 2 ? 0 : 1;
		t_post(l->server, chain);
	}
}

static void load_close(struct load *l)
{
	t_end_close(l->client);
	t_end_close(l->server);
	t_mem_put(&l->remote);
	t_mem_put(&l->local);
	t_world_close(l->w);
}

static void work_waits_while_the_fabric_is_full(void **state)
{
	struct load l;

	load_open(&l);
	fill_up(l.server->ch, false);
	load_post(&l);
	T_WAIT(l.w,
	       l.server->open_chains == 0 && l.client->received == CHAINS / 2);
	assert_true(refusals > CHAINS);
	for (unsigned int i = 0; i < CHAINS; i++) {
		assert_int_equal(l.chains[i].done, 1);
		assert_int_equal(l.chains[i].status, 0);
	}
	assert_true(t_is_filled(l.local.p, l.local.len, 1));
	assert_true(t_is_filled(l.remote.p, l.remote.len, 1));
	load_close(&l);
}

static void what_waits_is_flushed_at_the_end(void **state)
{
	struct load l;

	load_open(&l);
	fill_up(l.server->ch, true);
	load_post(&l);
	t_settle(l.w);
	assert_true(refusals > 0);
	assert_int_equal(l.server->done_chains, 0);
	xp_close(l.server->ch);
	T_WAIT(l.w, l.server->closed && l.client->closed);
	for (unsigned int i = 0; i < CHAINS; i++) {
		assert_int_equal(l.chains[i].done, 1);
		assert_int_equal(l.chains[i].status, -ECANCELED);
	}
	load_close(&l);
}

/* ---- sockets without libfabric ---- */

/* libfabric forgets a connection that has asked for nothing yet when its
 * listener goes. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric\n";
}

static void a_stranger_outstays_the_listener(void **state)
{
	/* A version 3 connect whose private data is said to be long. */
	static const uint8_t promise[16] = { 3, 1, 0xff, 0xff, 1 };
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;
	int fd;

	t_pair(w, &client, &server);
	fd = t_raw_connect(&w->addr);
	t_settle(w);
	xp_unlisten(w->listener);
	w->listener = NULL;
	send(fd, promise, sizeof(promise), MSG_NOSIGNAL);
	t_settle(w);
	close(fd);
	t_settle(w);
	assert_true(xp_chan_is_open(client->ch));
	t_world_close(w);
}

/* ---- connections that ask for nothing ---- */

static bool has_ended(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void pass(struct t_world *w, uint64_t ms)
{
	reactor_skip(w->server_reactor, ms);
	t_settle(w);
}

static void connections_that_ask_for_nothing_are_ended(void **state)
{
	struct t_world *w = t_world_open(NULL);
	struct t_end *client;
	struct t_end *server;
	unsigned int fd_cnt;
	int fds[100];

	t_pair(w, &client, &server);
	t_settle(w);
	fd_cnt = t_open_fds();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = t_raw_connect(&w->addr);
		t_settle(w);
	}
	assert_int_equal(t_open_fds(), fd_cnt + 2 * ARRAY_SIZE(fds));
	pass(w, 15000);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		assert_false(has_ended(fds[i]));
	pass(w, 15000);
	/* The provider, too, has let go of them. */
	T_WAIT(w, t_open_fds() == fd_cnt + ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		assert_true(has_ended(fds[i]));
		close(fds[i]);
	}
	assert_int_equal(client->closed + server->closed, 0);
	t_end_close(client);
	t_end_close(server);
	t_world_close(w);
}

int main(void)
{
	static struct t_table t;

	setenv("T_PROVIDER", "ofi", 1);
	T_ADD(&t, work_waits_while_the_fabric_is_full);
	T_ADD(&t, what_waits_is_flushed_at_the_end);
	T_ADD(&t, a_stranger_outstays_the_listener);
	T_ADD(&t, connections_that_ask_for_nothing_are_ended);
	return t_run(&t);
}
