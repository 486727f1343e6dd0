/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs say about RDMA devices and failed connections, with a library of
 * verbs that the test makes; and the way to an address. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "tests/lib/t_table.h"
#include "transport/device_facts.h"
#include "transport/verbs/verbs.h"

/* ---- a library of verbs ---- */

#define INLINE_MAX 250 /* what the device can; it says so by refusing more */

static struct ibv_device devices[2];
static struct ibv_device *list[3];
static struct ibv_context context;

static struct {
	bool no_list;
	int open_errno;
	int query_error;
	bool no_cq;
	unsigned int ports;
	unsigned int refused_inline; /* queue pairs with more are refused */
	int open;		     /* objects that are open */
	int lists;
} lib;

struct ibv_device **__wrap_ibv_get_device_list(int *num);
void __wrap_ibv_free_device_list(struct ibv_device **l);
const char *__wrap_ibv_get_device_name(struct ibv_device *d);
struct ibv_context *__wrap_ibv_open_device(struct ibv_device *d);
int __wrap_ibv_close_device(struct ibv_context *c);
int __wrap_ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a);
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *c);
int __wrap_ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *c, int cqe, void *ctx,
				    struct ibv_comp_channel *ch, int vector);
int __wrap_ibv_destroy_cq(struct ibv_cq *cq);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *a);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp);

struct ibv_device **__wrap_ibv_get_device_list(int *num)
{
	if (lib.no_list)
		return NULL;
	lib.lists++;
	list[0] = &devices[0];
	list[1] = &devices[1];
	return list;
}

void __wrap_ibv_free_device_list(struct ibv_device **l)
{
	lib.lists--;
}

const char *__wrap_ibv_get_device_name(struct ibv_device *d)
{
	return d == &devices[0] ? "first" : "second";
}

struct ibv_context *__wrap_ibv_open_device(struct ibv_device *d)
{
	assert_ptr_equal(d, &devices[1]);
	errno = lib.open_errno;
	if (lib.open_errno)
		return NULL;
	lib.open++;
	return &context;
}

int __wrap_ibv_close_device(struct ibv_context *c)
{
	lib.open--;
	return 0;
}

int __wrap_ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){ .max_srq = 3,
				       .max_srq_wr = 4,
				       .max_qp_wr = 5,
				       .max_qp_init_rd_atom = 6,
				       .max_qp_rd_atom = 7,
				       .phys_port_cnt = (uint8_t)lib.ports };
	return lib.query_error;
}

/* Of the port 2 it knows nothing. */
static int query_port(struct ibv_context *c, uint8_t port,
		      struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *a = (void *)attr;

	if (port == 2)
		return EINVAL;
	a->active_mtu = IBV_MTU_1024;
	return 0;
}

int __wrap_ibv_query_port(struct ibv_context *c, uint8_t port,
			  struct _compat_ibv_port_attr *attr);

int __wrap_ibv_query_port(struct ibv_context *c, uint8_t port,
			  struct _compat_ibv_port_attr *attr)
{
	return query_port(c, port, attr);
}

struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *c)
{
	static struct ibv_pd pd;

	lib.open++;
	return &pd;
}

int __wrap_ibv_dealloc_pd(struct ibv_pd *pd)
{
	lib.open--;
	return 0;
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *c, int cqe, void *ctx,
				    struct ibv_comp_channel *ch, int vector)
{
	static struct ibv_cq cq;

	if (lib.no_cq)
		return NULL;
	lib.open++;
	return &cq;
}

int __wrap_ibv_destroy_cq(struct ibv_cq *cq)
{
	lib.open--;
	return 0;
}

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *a)
{
	static struct ibv_qp qp;

	if (a->cap.max_inline_data > lib.refused_inline)
		return NULL;
	a->cap.max_inline_data += 4; /* it may give more */
	lib.open++;
	return &qp;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
	lib.open--;
	return 0;
}

static int start(void **state)
{
	memset(&lib, 0, sizeof(lib));
	lib.ports = 3;
	lib.refused_inline = INLINE_MAX;
	return 0;
}

T_EACH(start, NULL)

/* ---- facts ---- */

T_TEST(device_tells_what_it_can)
{
	struct xp_device_facts f;
	struct error e;

	assert_int_equal(xp_device_facts("second", &f, &e), 0);
	assert_int_equal(f.max_srq, 3);
	assert_int_equal(f.max_srq_wr, 4);
	assert_int_equal(f.max_qp_wr, 5);
	assert_int_equal(f.read_depth, 6);
	assert_int_equal(f.answer_depth, 7);
	assert_int_equal(f.max_inline, 128 + 4);
	assert_int_equal(f.port_cnt, 3);
	assert_int_equal(f.ports[0].active_mtu, 1024);
	assert_int_equal(f.ports[1].active_mtu, 0);
	assert_int_equal(f.ports[2].active_mtu, 1024);
	assert_int_equal(lib.open, 0);
	assert_int_equal(lib.lists, 0);
}

T_TEST(more_ports_than_places)
{
	struct xp_device_facts f;
	struct error e;

	lib.ports = XP_FACTS_PORTS_MAX + 4;
	assert_int_equal(xp_device_facts("second", &f, &e), 0);
	assert_int_equal(f.port_cnt, XP_FACTS_PORTS_MAX);
}

T_TEST(device_without_inline_data)
{
	struct xp_device_facts f;
	struct error e;

	lib.refused_inline = 0;
	assert_int_equal(xp_device_facts("second", &f, &e), 0);
	assert_int_equal(f.max_inline, 0);
	lib.no_cq = true;
	assert_int_equal(xp_device_facts("second", &f, &e), 0);
	assert_int_equal(f.max_inline, 0);
	assert_int_equal(lib.open, 0);
}

static const struct fail_row {
	const char *name;
	const char *device;
	bool no_list;
	int open_errno;
	int query_error;
	int err;
	const char *text;
} fail_rows[] = {
	{ "no such device", "third", .err = -ENODEV,
	  .text = "the RDMA library does not find device third" },
	{ "no devices at all", "second", .no_list = true, .err = -ENODEV,
	  .text = "the RDMA library does not find device second" },
	{ "it cannot be opened", "second", .open_errno = EACCES, .err = -EACCES,
	  .text = "cannot open RDMA device second: Permission denied" },
	{ "it does not answer", "second", .query_error = EIO, .err = -EIO,
	  .text = "cannot open RDMA device second: Input/output error" },
};

T_ROWS(device_tells_nothing, fail_rows)
{
	const struct fail_row *row = *state;
	struct xp_device_facts f;
	struct error e;

	lib.no_list = row->no_list;
	lib.open_errno = row->open_errno;
	lib.query_error = row->query_error;
	assert_int_equal(xp_device_facts(row->device, &f, &e), row->err);
	assert_string_equal(e.text, row->text);
	assert_int_equal(lib.open, 0);
	assert_int_equal(lib.lists, 0);
}

/* ---- failed connections ---- */

static const struct reason_row {
	const char *name;
	enum rdma_cm_event_type type;
	int status;
	const char *text;
} reason_rows[] = {
	{ "no answer", RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
	  "no answer from that address" },
	{ "no route to the host", RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH,
	  "there is no route to that address" },
	{ "no device", RDMA_CM_EVENT_ADDR_ERROR, -ENODEV,
	  "no RDMA device of this machine reaches that address" },
	{ "refused", RDMA_CM_EVENT_UNREACHABLE, -ECONNREFUSED,
	  "nobody listens on that port" },
	{ "address", RDMA_CM_EVENT_ADDR_ERROR, -EINVAL,
	  "the address cannot be resolved" },
	{ "route", RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL,
	  "there is no route to that address" },
	{ "unreachable", RDMA_CM_EVENT_UNREACHABLE, -EINVAL,
	  "the peer cannot be reached" },
	{ "something else", RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL,
	  "the connection could not be made" },
};

T_ROWS(reason_is_told, reason_rows)
{
	const struct reason_row *row = *state;

	assert_string_equal(vb_cm_text(row->type, row->status), row->text);
}

static const struct reject_row {
	const char *name;
	int status;
	int err;
	const char *text; /* a part of it */
} reject_rows[] = {
	{ "no queue pair", 1, -EAGAIN, "no queue pair left" },
	{ "nobody listens", 8, -ECONNREFUSED, "nobody listens" },
	{ "stale", 10, -EISCONN, "stale connection" },
	{ "rejected", 28, -ECONNREFUSED, "rejected the connection" },
	{ "errno", -ETIMEDOUT, -ETIMEDOUT, "does not answer" },
	{ "unknown", 77, -ECONNREFUSED, "rejected the connection" },
};

T_ROWS(rejection_has_a_reason, reject_rows)
{
	const struct reject_row *row = *state;

	assert_int_equal(vb_reject_errno(row->status), row->err);
	assert_non_null(strstr(vb_reject_text(row->status), row->text));
}

/* ---- reach ---- */

T_TEST(loopback_is_reached_by_itself)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char by[64];
	struct error e;

	assert_int_equal(xp_reach(XP_TCP, (struct sockaddr *)&to, sizeof(to),
				  by, sizeof(by), &e),
			 0);
	assert_string_equal(by, "127.0.0.1");
	assert_true(xp_present(XP_TCP));
}

T_TEST(address_of_no_family_is_not_reached)
{
	struct sockaddr_storage to = { .ss_family = AF_MAX };
	char by[64];
	struct error e;

	assert_int_equal(xp_reach(XP_TCP, (struct sockaddr *)&to, sizeof(to),
				  by, sizeof(by), &e),
			 -EAFNOSUPPORT);
	assert_non_null(strstr(e.text, "not supported"));
}
