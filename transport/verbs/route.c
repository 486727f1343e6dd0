/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The route of a connection as RDMA CM has it.
 *
 * The address of this side chooses the device, the port and the GID. The interface with
 * that address has the P_Key; a path of RoCE always has the default one. The subnet
 * manager decides the service level (on RoCE: the kernel, by VLAN and priority). RDMA CM
 * has no call to choose it, but takes a whole path in place of the one that it finds:
 * as librdmacm itself does for paths of ibacm. The connection request then has the
 * service level of this path, so that both sides send with it.
 */
#include <errno.h>
#include <string.h>

#include "transport/verbs/verbs.h"

/* InfiniBand Architecture, annex A16, "RoCE": service level N is the priority N of
 * Ethernet; those from 8 on are reserved. */
#define ROCE_SL_MAX 7

/* The P_Key of every path of RoCE (Linux, cma_resolve_iboe_route()). */
#define PKEY_DEFAULT 0xffff

/* P_Keys that a message lists. */
#define PKEYS_SHOWN 8

unsigned int vb_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096
		       ? 128u << (unsigned int)mtu
		       : 0;
}

/* ---- what a port can ---- */

static bool route_is_roce(struct ibv_context *ctx, uint8_t port)
{
	struct ibv_port_attr attr;

	return ibv_query_port(ctx, port, &attr) == 0 &&
	       attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Adds the partitions of the port to the message. */
static void route_add_pkeys(struct ibv_context *ctx, uint8_t port,
			    struct error *e)
{
	unsigned int shown = 0;
	__be16 pkey;

	if (route_is_roce(ctx, port)) {
		error_add(e,
			  "; RoCE has no other: to separate hosts, use VLANs");
		return;
	}
	error_add(e,
		  "; choose it by source=, an address of an interface of "
		  "that partition; port %u of %s has P_Keys",
		  port, ibv_get_device_name(ctx->device));
	for (int i = 0; ibv_query_pkey(ctx, port, i, &pkey) == 0; i++) {
		if (xp_pkey_same(be16toh(pkey), 0))
			continue;
		if (shown++ == PKEYS_SHOWN) {
			error_add(e, ", ...");
			return;
		}
		error_add(e, "%s 0x%04x", shown > 1 ? "," : "", be16toh(pkey));
	}
}

static int route_check_sl(const struct xp_route *want, struct ibv_context *ctx,
			  uint8_t port, struct error *e)
{
	if (!want->has_sl || want->sl <= ROCE_SL_MAX ||
	    !route_is_roce(ctx, port))
		return 0;
	return error_set(e, -EPROTONOSUPPORT,
			 "service level %u does not exist on RoCE, where it is "
			 "the priority of Ethernet, 0 to %d",
			 want->sl, ROCE_SL_MAX);
}

/* ---- connecting ---- */

static const char *route_bind_text(int err)
{
	switch (err) {
	case -ENODEV:
		return "its interface has no RDMA device";
	case -EADDRNOTAVAIL:
		return "no interface of this machine has that address";
	default:
		return strerror(-err);
	}
}

int vb_route_bind(struct rdma_cm_id *id, const struct xp_route *want,
		  const struct sockaddr *peer, struct error *e)
{
	struct sockaddr_storage source;
	char gid[XP_GID_TEXT_SIZE];
	socklen_t len;
	int err;

	if (*want->source)
		err = xp_route_source(want, peer, &source, &len, e);
	else if (want->has_gid)
		err = vb_gid_source("", want, peer, &source, e);
	else
		return 0;
	if (err)
		return err;
	/* A loopback address is bound to no device. */
	if (!rdma_bind_addr(id, (struct sockaddr *)&source))
		err = id->verbs ? 0 : -ENODEV;
	else
		err = -errno;
	if (!err)
		return 0;
	return error_set(e, err, "%s%s: %s", *want->source ? "source=" : "GID ",
			 *want->source ? want->source
				       : xp_gid_text(want->gid, gid),
			 route_bind_text(err));
}

int vb_route_set_tos(struct rdma_cm_id *id, const struct xp_route *want,
		     struct error *e)
{
	uint8_t tos = want->tos;

	if (!want->has_tos ||
	    !rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
			     sizeof(tos)))
		return 0;
	return error_set(e, -errno, "tos=%u: %s", tos, strerror(errno));
}

/* False: a fabric without path records, iWARP. */
static bool route_of_path(const struct rdma_cm_id *id,
			  struct xp_negotiated *ret)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;

	*ret = (struct xp_negotiated){ .mtu = 0 };
	if (id->route.num_paths < 1 || !path)
		return false;
	ret->pkey = be16toh(path->pkey);
	ret->sl = path->sl;
	ret->tos = path->traffic_class;
	memcpy(ret->gid, &id->route.addr.addr.ibaddr.sgid, XP_GID_LEN);
	return true;
}

int vb_route_check(struct vb_chan *ch, struct error *e)
{
	struct rdma_cm_id *id = ch->cm.id;
	struct xp_route want = ch->route;
	struct xp_negotiated has;
	int err;

	if (!xp_route_fabric_key(&want))
		return 0;
	if (!route_of_path(id, &has))
		return error_set(e, -EPROTONOSUPPORT,
				 "%s has no GIDs, P_Keys and service levels "
				 "(gid=, pkey=, sl=): it is an iWARP device",
				 vb_dev_name(ch->dev));
	err = route_check_sl(&want, id->verbs, id->port_num, e);
	if (err)
		return err;
	/* Another one can still be chosen, once. */
	want.has_sl = want.has_sl && ch->has_path;
	/* On InfiniBand, the subnet manager makes a class of service of it. */
	if (want.has_tos && want.tos != has.tos &&
	    route_is_roce(id->verbs, id->port_num))
		return error_set(e, -EPROTONOSUPPORT,
				 "the route has type of service %u, not %u",
				 has.tos, want.tos);
	err = xp_route_check(&want, &has, e);
	if (err && want.has_pkey && !xp_pkey_same(want.pkey, has.pkey))
		route_add_pkeys(id->verbs, id->port_num, e);
	return err;
}

bool vb_route_choose(struct vb_chan *ch)
{
	const struct ibv_sa_path_rec *path = ch->cm.id->route.path_rec;

	if (!ch->route.has_sl || ch->has_path || path->sl == ch->route.sl)
		return false;
	ch->path = (struct ibv_path_data){
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			 IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {
			.dgid = path->dgid,
			.sgid = path->sgid,
			.dlid = path->dlid,
			.slid = path->slid,
			.flowlabel_hoplimit =
				htobe32(be32toh(path->flow_label) << 8 |
					path->hop_limit),
			.tclass = path->traffic_class,
			.reversible_numpath =
				(uint8_t)(path->reversible << 7 | 1),
			.pkey = path->pkey,
			.qosclass_sl = htobe16(ch->route.sl),
			/* The selector 2: exactly. */
			.mtu = 2 << 6 | path->mtu,
			.rate = 2 << 6 | path->rate,
			.packetlifetime = 2 << 6 | path->packet_life_time,
		},
	};
	ch->has_path = true;
	return true;
}

/* ---- listening ---- */

/* The partition of a bound cm_id; on RoCE, RDMA CM does not say it. */
static uint16_t route_bound_pkey(const struct rdma_cm_id *id)
{
	return route_is_roce(id->verbs, id->port_num)
		       ? PKEY_DEFAULT
		       : be16toh(id->route.addr.addr.ibaddr.pkey);
}

/* The service level is the one that this side chooses. */
static int route_check_accepting(const struct rdma_cm_id *id,
				 const struct xp_route *want, uint16_t pkey,
				 struct error *e)
{
	const struct xp_route partition = { .has_pkey = want->has_pkey,
					    .pkey = want->pkey };
	const struct xp_negotiated has = { .pkey = pkey };
	int err = route_check_sl(want, id->verbs, id->port_num, e);

	if (err)
		return err;
	err = xp_route_check(&partition, &has, e);
	if (err)
		route_add_pkeys(id->verbs, id->port_num, e);
	return err;
}

int vb_route_check_listener(const struct rdma_cm_id *id,
			    const struct xp_route *want, struct error *e)
{
	/* With all addresses, the requests will tell. */
	if (!id->verbs)
		return 0;
	return route_check_accepting(id, want, route_bound_pkey(id), e);
}

int vb_route_check_request(const struct rdma_cm_id *id,
			   const struct xp_route *want, struct error *e)
{
	struct xp_negotiated has;

	/* A target refuses iWARP in any case (vb_dev_may()). */
	if (!xp_route_fabric_key(want) || !route_of_path(id, &has))
		return 0;
	return route_check_accepting(id, want, has.pkey, e);
}

/* ---- agreed on ---- */

void vb_route_note(struct vb_chan *ch, const struct ibv_qp_attr *attr, int mask)
{
	struct xp_negotiated *n = &ch->base.negotiated;
	struct ibv_port_attr port;
	__be16 pkey;

	if (mask & IBV_QP_PORT &&
	    !ibv_query_port(ch->dev->ctx, attr->port_num, &port))
		n->port_mtu = vb_mtu_bytes(port.active_mtu);
	if (mask & IBV_QP_PKEY_INDEX &&
	    !ibv_query_pkey(ch->dev->ctx, ch->cm.id->port_num, attr->pkey_index,
			    &pkey))
		n->pkey = be16toh(pkey);
	if (mask & IBV_QP_PATH_MTU)
		n->mtu = vb_mtu_bytes(attr->path_mtu);
	if (mask & IBV_QP_AV) {
		n->sl = attr->ah_attr.sl;
		n->tos = attr->ah_attr.is_global
				 ? attr->ah_attr.grh.traffic_class
				 : 0;
		memcpy(n->gid, &ch->cm.id->route.addr.addr.ibaddr.sgid,
		       XP_GID_LEN);
	}
	if (mask & IBV_QP_TIMEOUT)
		n->ack_timeout = attr->timeout;
	if (ch->accepting && mask & IBV_QP_MAX_QP_RD_ATOMIC)
		n->read_depth = attr->max_rd_atomic;
	if (!ch->accepting && mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		n->read_depth = attr->max_dest_rd_atomic;
}
