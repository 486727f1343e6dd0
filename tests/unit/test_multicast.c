/* SPDX-License-Identifier: BSD-2-Clause */
/* How an endpoint of the RDMA carrier joins and loses its group. The libraries of verbs
 * and RDMA CM are played. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/lib/t_table.h"
#include "transport/datagram.h"
#include "transport/verbs/grh.h"

#undef ibv_reg_mr

static struct {
	int pipe[2]; /* one byte for each event */
	struct rdma_cm_event event;
	unsigned int sent;
	bool member;
	unsigned int datagrams; /* that have come, and were not taken */
	bool wants_event;	/* when the next one comes */
	int attach_err;
	int objects; /* that were made and not destroyed */
	struct rdma_event_channel channel;
	struct rdma_cm_id id;
	struct ibv_context ctx;
	struct ibv_pd pd;
	struct ibv_comp_channel comp;
	struct ibv_cq cq;
	struct ibv_qp qp;
	struct ibv_mr mr;
	struct ibv_ah ah;
} fab;

/* ---- the libraries ---- */

#define MADE(object) (fab.objects++, (object))

static int fab_destroy(void)
{
	fab.objects--;
	return 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	fab.channel.fd = fab.pipe[0];
	return MADE(&fab.channel);
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	fab_destroy();
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		   void *context, enum rdma_port_space ps)
{
	*id = MADE(&fab.id);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return fab_destroy();
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	id->verbs = &fab.ctx;
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return MADE(&fab.ctx);
}

int ibv_close_device(struct ibv_context *context)
{
	return fab_destroy();
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return MADE(&fab.pd);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return fab_destroy();
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	fab.comp.fd = eventfd(0, EFD_CLOEXEC);
	return MADE(&fab.comp);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	return fab_destroy();
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
			     void *cq_context, struct ibv_comp_channel *channel,
			     int comp_vector)
{
	fab.cq.context = context;
	return MADE(&fab.cq);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return fab_destroy();
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **cq_context)
{
	eventfd_t ignored;

	*cq = &fab.cq;
	return eventfd_read(channel->fd, &ignored);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	fab.qp.context = &fab.ctx;
	return MADE(&fab.qp);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return fab_destroy();
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
		      int *qp_attr_mask)
{
	*qp_attr_mask = 0;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access)
{
	return MADE(&fab.mr);
}

/* What ibv_reg_mr() calls if the compiler does not see that access is constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access)
{
	return MADE(&fab.mr);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return fab_destroy();
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return MADE(&fab.ah);
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return fab_destroy();
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	fab.objects += !fab.attach_err;
	return fab.attach_err;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return fab_destroy();
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			void *context)
{
	assert_false(fab.member);
	fab.member = true;
	return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	assert_true(fab.member);
	fab.member = false;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **event)
{
	char byte;

	if (read(channel->fd, &byte, 1) != 1)
		return -1;
	*event = MADE(&fab.event);
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return fab_destroy();
}

static int fab_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	return 0;
}

static int fab_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad)
{
	fab.sent++;
	return 0;
}

static int fab_poll_cq(struct ibv_cq *cq, int cnt, struct ibv_wc *wc)
{
	if (!fab.datagrams)
		return 0;
	fab.datagrams--;
	*wc = (struct ibv_wc){ .status = IBV_WC_SUCCESS,
			       .byte_len = GRH_LEN + 5 };
	return 1;
}

static int fab_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	fab.wants_event = true;
	return 0;
}

/* ---- the tests ---- */

static int make(void **state)
{
	memset(&fab, 0, sizeof(fab));
	fab.ctx.ops.post_recv = fab_post_recv;
	fab.ctx.ops.post_send = fab_post_send;
	fab.ctx.ops.poll_cq = fab_poll_cq;
	fab.ctx.ops.req_notify_cq = fab_req_notify_cq;
	return pipe2(fab.pipe, O_CLOEXEC);
}

/* Everything is given back. */
static int end(void **state)
{
	close(fab.pipe[0]);
	close(fab.pipe[1]);
	return fab.objects || fab.member;
}

T_EACH(make, end)

static struct dgram *mcast_open(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct dgram *d;
	struct error e;

	inet_pton(AF_INET, "10.0.0.1", &sin.sin_addr);
	assert_int_equal(dgram_open_rdma((struct sockaddr *)&sin, &d, &e), 0);
	return d;
}

static void fabric_says(enum rdma_cm_event_type type, int status)
{
	fab.event.event = type;
	fab.event.status = status;
	assert_int_equal(write(fab.pipe[1], "", 1), 1);
}

static void datagram_comes(void)
{
	fab.datagrams++;
	if (fab.wants_event)
		eventfd_write(fab.comp.fd, 1);
	fab.wants_event = false;
}

static bool is_readable(const struct dgram *d)
{
	struct pollfd pfd = { .fd = d->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

T_TEST(open_does_not_wait_for_the_fabric)
{
	struct dgram *d = mcast_open();

	assert_true(d->joining);
	assert_int_equal(dgram_join(d), -EAGAIN);
	assert_int_equal(dgram_await(d, 0), -ETIMEDOUT);
	assert_int_equal(dgram_send(d, NULL, "hello", 5), -EAGAIN);
	assert_int_equal(fab.sent, 0);
	dgram_close(d);
}

static const struct answer_row {
	const char *name;
	enum rdma_cm_event_type type;
	int status;
	int joins; /* what dgram_join() returns */
} answer_rows[] = {
	{ "joined", RDMA_CM_EVENT_MULTICAST_JOIN, 0, 0 },
	{ "refused", RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET, -ENETRESET },
	{ "refused by a subnet manager", RDMA_CM_EVENT_MULTICAST_ERROR, 3,
	  -ENETUNREACH },
	{ "no device any more", RDMA_CM_EVENT_DEVICE_REMOVAL, 0, -ENODEV },
	{ "another event", RDMA_CM_EVENT_ADDR_CHANGE, 0, -EAGAIN },
};

T_ROWS(fabric_answers, answer_rows)
{
	const struct answer_row *row = *state;
	struct dgram *d = mcast_open();

	fabric_says(row->type, row->status);
	assert_int_equal(dgram_join(d), row->joins);
	assert_int_equal(dgram_send(d, NULL, "hello", 5),
			 row->joins ? -EAGAIN : 0);
	assert_int_equal(d->joining, row->joins != 0);
	dgram_close(d);
}

/* Else, who waits for the answer of the fabric would turn round and round. */
T_TEST(datagram_does_not_wake_one_that_is_joining)
{
	struct dgram *d = mcast_open();
	struct dgram_peer peer;
	char buf[16];

	datagram_comes();
	assert_int_equal(dgram_join(d), -EAGAIN);
	assert_false(is_readable(d));
	fabric_says(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(dgram_join(d), 0);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), 5);
	datagram_comes();
	assert_true(is_readable(d));
	dgram_close(d);
}

/* It would be joining for ever. */
T_TEST(device_without_a_place_refuses)
{
	struct dgram *d = mcast_open();

	fab.attach_err = EAGAIN;
	fabric_says(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(dgram_join(d), -ENOSPC);
	dgram_close(d);
}

T_TEST(datagrams_that_are_left_keep_it_readable)
{
	struct dgram *d = mcast_open();
	struct dgram_peer peer;
	char buf[16];

	fabric_says(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(dgram_join(d), 0);
	for (int left = 3; left > 0; left--)
		datagram_comes();
	for (int left = 3; left > 0; left--) {
		assert_true(is_readable(d));
		assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), 5);
	}
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), 0);
	assert_false(is_readable(d));
	datagram_comes();
	assert_true(is_readable(d));
	dgram_close(d);
}

static const struct loss_row {
	const char *name;
	enum rdma_cm_event_type type;
	int receives;
} loss_rows[] = {
	{ "the device goes", RDMA_CM_EVENT_DEVICE_REMOVAL, -ENODEV },
	{ "the subnet manager has forgotten it", RDMA_CM_EVENT_MULTICAST_ERROR,
	  -ENODEV },
	{ "another event", RDMA_CM_EVENT_ADDR_CHANGE, 0 },
};

T_ROWS(member_is_lost, loss_rows)
{
	const struct loss_row *row = *state;
	struct dgram *d = mcast_open();
	struct dgram_peer peer;
	char buf[16];

	fabric_says(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(dgram_await(d, 0), 0);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), 0);
	fabric_says(row->type, -ENETRESET);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer),
			 row->receives);
	dgram_close(d);
}
