/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a URI or a listener demands of the route, against what RDMA CM has chosen. The
 * device is played: its link layer and its P_Keys. GIDs are looked up in a made-up
 * /sys.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "tests/lib/t_table.h"
#include "transport/verbs/verbs.h"

#define DEVICE "mlx5_0"
#define GID_1  "fe80::2:c903:a0:5be1"

/* ---- the device ---- */

static uint8_t link_layer;
static const uint16_t pkeys[] = { 0xffff, 0x0000, 0x8001, 0x7ffe };

#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port,
		   struct _compat_ibv_port_attr *ret)
{
	struct ibv_port_attr attr = { .link_layer = link_layer,
				      .active_mtu = IBV_MTU_4096 };

	memcpy(ret, &attr, sizeof(attr));
	return 0;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index,
		   __be16 *ret)
{
	if (index >= (int)ARRAY_SIZE(pkeys))
		return -1;
	*ret = htobe16(pkeys[index]);
	return 0;
}

static struct ibv_device device = { .name = DEVICE };
static struct ibv_context ctx = { .device = &device };
static struct vb_dev dev = { .name = DEVICE, .ctx = &ctx };

static struct xp_route demand(int pkey, int sl, const char *gid)
{
	struct xp_route want = { .has_pkey = pkey >= 0,
				 .pkey = (uint16_t)pkey,
				 .has_sl = sl >= 0,
				 .sl = (uint8_t)sl,
				 .has_gid = gid };

	if (gid)
		assert_int_equal(inet_pton(AF_INET6, gid, want.gid), 1);
	return want;
}

/* ---- connecting ---- */

enum fabric {
	ROCE,
	IB,
	IWARP,
};

#define CHOOSE                                                        \
	"; choose it by source=, an address of an interface of that " \
	"partition; port 1 of " DEVICE " has P_Keys 0xffff, 0x8001, 0x7ffe"

static const struct check_row {
	const char *name;
	enum fabric fabric;
	uint16_t pkey; /* of the path, with service level 0 and GID_1 */
	int want_pkey; /* -1: none */
	int want_sl;
	const char *want_gid; /* NULL: none */
	const char *msg;      /* NULL: no error */
	bool choose;	      /* the service level */
} check_rows[] = {
	{ "nothing is demanded", IB, 0xffff, -1, -1, NULL, NULL, false },
	{ "the P_Key of the path", IB, 0x8001, 0x8001, -1, NULL, NULL, false },
	{ "the same partition, of a limited member", IB, 0x8001, 1, -1, NULL,
	  NULL, false },
	{ "another P_Key", IB, 0xffff, 0x8001, -1, NULL,
	  "the route has P_Key 0xffff, not 0x8001" CHOOSE, false },
	{ "the P_Key of RoCE", ROCE, 0xffff, 0x7fff, -1, NULL, NULL, false },
	{ "another P_Key than that of RoCE", ROCE, 0xffff, 2, -1, NULL,
	  "the route has P_Key 0xffff, not 0x0002; RoCE has no other: to "
	  "separate hosts, use VLANs",
	  false },
	{ "the service level of the path", IB, 0xffff, -1, 0, NULL, NULL,
	  false },
	{ "another service level", IB, 0xffff, -1, 15, NULL, NULL, true },
	{ "the highest priority of RoCE", ROCE, 0xffff, -1, 7, NULL, NULL,
	  true },
	{ "a reserved service level of RoCE", ROCE, 0xffff, -1, 8, NULL,
	  "service level 8 does not exist on RoCE, where it is the priority of "
	  "Ethernet, 0 to 7",
	  false },
	{ "the GID of the path", IB, 0xffff, -1, -1, GID_1, NULL, false },
	{ "another GID", IB, 0xffff, -1, -1, "fe80::1",
	  "the route has GID " GID_1 ", not fe80::1", false },
	{ "all, and another service level", IB, 0x8001, 0x8001, 3, GID_1, NULL,
	  true },
	{ "nothing, on iWARP", IWARP, 0, -1, -1, NULL, NULL, false },
	{ "a service level, on iWARP", IWARP, 0, -1, 0, NULL,
	  DEVICE " has no GIDs, P_Keys and service levels (gid=, pkey=, sl=): "
		 "it is an iWARP device",
	  false },
};

T_ROWS(check_route, check_rows)
{
	const struct check_row *r = *state;
	struct ibv_sa_path_rec path = { .pkey = htobe16(r->pkey) };
	struct rdma_cm_id id = { .verbs = &ctx,
				 .port_num = 1,
				 .route = { .path_rec = &path,
					    .num_paths = r->fabric != IWARP } };
	struct vb_chan ch = { .cm.id = &id,
			      .dev = &dev,
			      .route = demand(r->want_pkey, r->want_sl,
					      r->want_gid) };
	struct error e = { .text = "" };

	link_layer = r->fabric == ROCE ? IBV_LINK_LAYER_ETHERNET
				       : IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(
		inet_pton(AF_INET6, GID_1, &id.route.addr.addr.ibaddr.sgid), 1);
	assert_int_equal(vb_route_check(&ch, &e),
			 r->msg ? -EPROTONOSUPPORT : 0);
	assert_string_equal(e.text, r->msg ? r->msg : "");
	if (!r->msg)
		assert_int_equal(vb_route_choose(&ch), r->choose);
}

/* The kernel reads the record as the standard lays it out. */
T_TEST(a_chosen_level_changes_nothing_else)
{
	struct ibv_sa_path_rec path = {
		.dgid.raw = { 0xfe, 0x80, [15] = 1 },
		.sgid.raw = { 0xfe, 0x80, [15] = 2 },
		.dlid = htobe16(0x11),
		.slid = htobe16(0x22),
		.flow_label = htobe32(0xabcde),
		.hop_limit = 64,
		.traffic_class = 0x60,
		.reversible = 1,
		.pkey = htobe16(0x8001),
		.sl = 1,
		.mtu = IBV_MTU_2048,
		.rate = IBV_RATE_100_GBPS,
		.packet_life_time = 18,
	};
	const struct ibv_path_data want = {
		.flags = 0x2b, /* GMP, PRIMARY, OUTBOUND, INBOUND_REVERSE */
		.path = {
			.dgid = path.dgid,
			.sgid = path.sgid,
			.dlid = htobe16(0x11),
			.slid = htobe16(0x22),
			.flowlabel_hoplimit = htobe32(0xabcde40),
			.tclass = 0x60,
			.reversible_numpath = 0x81,
			.pkey = htobe16(0x8001),
			.qosclass_sl = htobe16(9),
			.mtu = 0x84,
			.rate = 0x80 | IBV_RATE_100_GBPS,
			.packetlifetime = 0x92,
		},
	};
	struct rdma_cm_id id = { .verbs = &ctx,
				 .port_num = 1,
				 .route = { .path_rec = &path,
					    .num_paths = 1 } };
	struct vb_chan ch = { .cm.id = &id,
			      .dev = &dev,
			      .route = demand(-1, 9, NULL) };
	struct error e;

	link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_true(vb_route_choose(&ch));
	assert_memory_equal(&ch.path, &want, sizeof(want));
	/* If the kernel does not take it, the route is refused, not tried
	 * again. */
	assert_int_equal(vb_route_check(&ch, &e), -EPROTONOSUPPORT);
	assert_string_equal(e.text, "the route has service level 1, not 9");
	path.sl = 9;
	assert_int_equal(vb_route_check(&ch, &e), 0);
	assert_false(vb_route_choose(&ch));
}

/* ---- listening ---- */

static const struct listen_row {
	const char *name;
	enum fabric fabric;
	bool bound;    /* to a device; else to all addresses */
	uint16_t pkey; /* of the interface, and of the request */
	int want_pkey;
	int want_sl;
	const char *msg;   /* of the listener; NULL: no error */
	const char *unfit; /* of the request; NULL: it fits */
} listen_rows[] = {
	{ "its partition", IB, true, 0x8001, 0x8001, -1, NULL, NULL },
	{ "another partition", IB, true, 0xffff, 0x8001, -1,
	  "the route has P_Key 0xffff, not 0x8001" CHOOSE,
	  "the route has P_Key 0xffff, not 0x8001" CHOOSE },
	{ "another partition, on all addresses", IB, false, 0xffff, 0x8001, -1,
	  NULL, "the route has P_Key 0xffff, not 0x8001" CHOOSE },
	{ "any service level of InfiniBand", IB, true, 0xffff, -1, 15, NULL,
	  NULL },
	{ "the P_Key of RoCE", ROCE, true, 0xffff, 0xffff, 7, NULL, NULL },
	{ "a reserved service level, on all addresses", ROCE, false, 0xffff, -1,
	  8, NULL,
	  "service level 8 does not exist on RoCE, where it is the priority of "
	  "Ethernet, 0 to 7" },
};

T_ROWS(check_listener, listen_rows)
{
	const struct listen_row *r = *state;
	struct xp_route want = demand(r->want_pkey, r->want_sl, NULL);
	struct ibv_sa_path_rec path = { .pkey = htobe16(r->pkey) };
	struct rdma_cm_id listener = { .verbs = r->bound ? &ctx : NULL,
				       .port_num = 1 };
	struct rdma_cm_id request = { .verbs = &ctx,
				      .port_num = 1,
				      .route = { .path_rec = &path,
						 .num_paths = 1 } };
	struct error e = { .text = "" };

	link_layer = r->fabric == ROCE ? IBV_LINK_LAYER_ETHERNET
				       : IBV_LINK_LAYER_INFINIBAND;
	/* RDMA CM reports 0 on RoCE. */
	listener.route.addr.addr.ibaddr.pkey =
		htobe16(r->fabric == ROCE ? 0 : r->pkey);
	assert_int_equal(vb_route_check_listener(&listener, &want, &e),
			 r->msg ? -EPROTONOSUPPORT : 0);
	assert_string_equal(e.text, r->msg ? r->msg : "");
	e.text[0] = '\0';
	assert_int_equal(vb_route_check_request(&request, &want, &e),
			 r->unfit ? -EPROTONOSUPPORT : 0);
	assert_string_equal(e.text, r->unfit ? r->unfit : "");
}

/* ---- GIDs ---- */

static char root[] = "/tmp/test_route.XXXXXX";

static void put(const char *path, const char *line)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(name, 0755);
		*p = '/';
	}
	f = fopen(name, "w");
	if (!f || fprintf(f, "%s\n", line) < 0 || fclose(f))
		abort();
}

#define ROCE_PORT "/sys/class/infiniband/rxe0/ports/1/"
#define IB_PORT	  "/sys/class/infiniband/mlx5_0/ports/1/"
#define HARDWARE  "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a0:5b:e1"

static bool make_sys(void)
{
	if (!mkdtemp(root))
		return false;
	put(ROCE_PORT "link_layer", "Ethernet");
	put(ROCE_PORT "gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
	put(ROCE_PORT "gids/1", "0000:0000:0000:0000:0000:ffff:7f00:0002");
	put(ROCE_PORT "gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
	put(ROCE_PORT "gid_attrs/ndevs/0", "lo");
	put(ROCE_PORT "gid_attrs/ndevs/1", "lo");
	put(IB_PORT "link_layer", "InfiniBand");
	put(IB_PORT "gids/0", "fe80:0000:0000:0000:0002:c903:00a0:5be1");
	put(IB_PORT "gids/1", "fe80:0000:0000:0000:0002:c903:00a0:5be2");
	put("/sys/class/net/eth0/type", "1");
	put("/sys/class/net/eth0/address", "52:54:00:12:34:56");
	put("/sys/class/net/lo/type", "32");
	put("/sys/class/net/lo/address", HARDWARE);
	put("/sys/class/net/lo/pkey", "0xffff");
	put("/sys/class/net/zz.8001/type", "32");
	put("/sys/class/net/zz.8001/address", HARDWARE);
	put("/sys/class/net/zz.8001/pkey", "0x8001");
	return true;
}

static bool remove_sys(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command) == 0;
}

static const struct gid_row {
	const char *name;
	const char *gid;
	int pkey;	    /* -1: none */
	const char *peer;   /* the target */
	const char *source; /* NULL: it is refused */
	const char *msg;
} gid_rows[] = {
	{ "RoCE, IPv4", "::ffff:127.0.0.2", -1, "127.0.0.1", "127.0.0.2:0",
	  NULL },
	{ "RoCE, link-local", "fe80::5054:ff:fe12:3456", -1, "::1",
	  "[fe80::5054:ff:fe12:3456%lo]:0", NULL },
	{ "RoCE, IPv4 to IPv6", "::ffff:127.0.0.2", -1, "::1", NULL,
	  "GID ::ffff:127.0.0.2 is an address of IPv4, that of the target is "
	  "not" },
	{ "RoCE, IPv6 to IPv4", "fe80::5054:ff:fe12:3456", -1, "127.0.0.1",
	  NULL,
	  "GID fe80::5054:ff:fe12:3456 is an address of IPv6, that of the "
	  "target is not" },
	{ "InfiniBand, the first interface", GID_1, -1, "127.0.0.1",
	  "127.0.0.1:0", NULL },
	{ "InfiniBand, the interface of the partition", GID_1, 0x7fff,
	  "127.0.0.1", "127.0.0.1:0", NULL },
	{ "InfiniBand, an interface without address", GID_1, 1, "127.0.0.1",
	  NULL,
	  "interface zz.8001, which has that GID, has no address for the way "
	  "to the target; see ip addr" },
	{ "InfiniBand, a partition without interface", GID_1, 0x8002,
	  "127.0.0.1", NULL,
	  "the port with GID " GID_1 " has no interface of IP over InfiniBand "
	  "in that partition, which RDMA CM needs; see ip link" },
	{ "InfiniBand, a port without interface", "fe80::2:c903:a0:5be2", -1,
	  "127.0.0.1", NULL,
	  "the port with GID fe80::2:c903:a0:5be2 has no interface of IP over "
	  "InfiniBand, which RDMA CM needs; see ip link" },
	{ "no such GID", "fe80::9", -1, "127.0.0.1", NULL,
	  "no RDMA device of this machine has GID fe80::9; rdma-doctor lists "
	  "the GIDs" },
};

T_ROWS(find_gid, gid_rows)
{
	const struct gid_row *r = *state;
	struct xp_route want = demand(r->pkey, -1, r->gid);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct sockaddr *peer = (struct sockaddr *)&in;
	struct sockaddr_storage source;
	struct error e = { .text = "" };
	char text[64];

	if (inet_pton(AF_INET6, r->peer, &in6.sin6_addr) == 1)
		peer = (struct sockaddr *)&in6;
	if (!r->source) {
		assert_true(vb_gid_source(root, &want, peer, &source, &e) < 0);
		assert_string_equal(e.text, r->msg);
		return;
	}
	assert_int_equal(vb_gid_source(root, &want, peer, &source, &e), 0);
	xp_addr_text((struct sockaddr *)&source, text, sizeof(text));
	assert_string_equal(text, r->source);
}

int main(void)
{
	int res;

	if (!make_sys())
		return 1;
	res = t_run();
	return remove_sys() ? res : 1;
}
