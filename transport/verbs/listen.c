/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 128

/* A listener whose address is on no device tries again: the address, or the
 * connection manager, may come a little later than the device. */
#define LISTEN_PAUSE_MS	    1000
#define LISTEN_PAUSE_MAX_MS 64000

/* ---- listening ---- */

static bool listener_is_any(const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_in6 *in6 = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return in->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static bool listener_is_same_address(const struct sockaddr *a,
				     const struct sockaddr *b)
{
	const struct sockaddr_in *in[] = { (const void *)a, (const void *)b };
	const struct sockaddr_in6 *in6[] = { (const void *)a, (const void *)b };

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return in[0]->sin_addr.s_addr == in[1]->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&in6[0]->sin6_addr, &in6[1]->sin6_addr);
}

static bool listener_has_address(const struct sockaddr *addr)
{
	bool found = listener_is_any(addr);
	struct ifaddrs *list;

	if (found || getifaddrs(&list))
		return found;
	for (struct ifaddrs *ifa = list; ifa && !found; ifa = ifa->ifa_next)
		found = ifa->ifa_addr &&
			listener_is_same_address(ifa->ifa_addr, addr);
	freeifaddrs(list);
	return found;
}

/* If the port is in use and one of the two listens on all addresses, RDMA CM
 * gives the same error as for an address that does not exist
 * (cma_check_port()). */
static int listener_errno(int err, const struct sockaddr *addr)
{
	return err == -EADDRNOTAVAIL && listener_has_address(addr) ? -EADDRINUSE
								   : err;
}

static int listener_start(struct vb_xp *vx, struct vb_listener *l)
{
	/* Whatever net.ipv6.bindv6only says. */
	int only_ipv6 = 0;
	int err;

	if (!vx->cm)
		return -ENODEV;
	if (rdma_create_id(vx->cm, &l->cm.id, &l->cm, RDMA_PS_TCP)) {
		err = -errno;
		l->cm.id = NULL;
		return err;
	}
	if (rdma_set_option(l->cm.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
			    &only_ipv6, sizeof(only_ipv6)) == 0 &&
	    rdma_bind_addr(l->cm.id, (struct sockaddr *)&l->addr) == 0 &&
	    rdma_listen(l->cm.id, BACKLOG) == 0)
		return 0;
	err = listener_errno(-errno, (struct sockaddr *)&l->addr);
	rdma_destroy_id(l->cm.id);
	l->cm.id = NULL;
	return err;
}

static int listener_new(struct xp *xp, const struct sockaddr *addr,
			socklen_t addr_len,
			void (*requested_cb)(struct xp_conn_request *req),
			void *user, struct vb_listener **ret_l, struct error *e)
{
	struct vb_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		error_set(e, -ENOMEM, "no memory for a listener");
		return -ENOMEM;
	}
	memcpy(&l->addr, addr, addr_len);
	l->base.xp = xp;
	l->cm.kind = VB_CM_LISTENER;
	l->requested = requested_cb;
	l->user = user;
	list_init(&l->node);
	*ret_l = l;
	return 0;
}

static void listener_add(struct vb_listener *l)
{
	struct vb_xp *vx = container_of(l->base.xp, struct vb_xp, base);

	list_add_tail(&vx->listeners, &l->node);
}

int vb_listen(struct xp *xp, const struct sockaddr *addr, socklen_t addr_len,
	      void (*requested_cb)(struct xp_conn_request *req), void *user,
	      struct xp_listener **ret_listener, struct error *e)
{
	struct vb_listener *l;
	int err = listener_new(xp, addr, addr_len, requested_cb, user, &l, e);

	if (err)
		return err;
	err = listener_start(container_of(xp, struct vb_xp, base), l);
	if (err) {
		free(l);
		xp_core_listen_failed(e, err);
		return err;
	}
	listener_add(l);
	*ret_listener = &l->base;
	return 0;
}

int vb_listen_later(struct xp *xp, const struct sockaddr *addr,
		    socklen_t addr_len,
		    void (*requested_cb)(struct xp_conn_request *req),
		    void *user, struct xp_listener **ret_listener,
		    struct error *e)
{
	struct vb_listener *l;
	int err = listener_new(xp, addr, addr_len, requested_cb, user, &l, e);

	if (err)
		return err;
	listener_add(l);
	vb_listen_again(container_of(xp, struct vb_xp, base));
	*ret_listener = &l->base;
	return 0;
}

int vb_demand(struct xp_listener *base, const struct xp_route *want,
	      struct error *e)
{
	struct vb_listener *l = container_of(base, struct vb_listener, base);
	int err = l->cm.id ? vb_route_check_listener(l->cm.id, want, e) : 0;

	if (!err)
		l->route = *want;
	return err;
}

void vb_unlisten(struct xp_listener *base)
{
	struct vb_listener *l = container_of(base, struct vb_listener, base);

	if (l->cm.id)
		rdma_destroy_id(l->cm.id);
	list_del(&l->node);
	free(l);
}

/* ---- listeners that wait for a device ---- */

static void listener_report(const struct vb_xp *vx, const struct vb_listener *l,
			    enum xp_device_change change)
{
	const struct xp_config *cfg = &vx->base.cfg;
	char text[64];

	xp_addr_text((const struct sockaddr *)&l->addr, text, sizeof(text));
	if (cfg->device)
		cfg->device(cfg->device_user, change, text, "");
}

static void listener_start_all(struct vb_xp *vx)
{
	bool waiting = false;
	struct list *it;

	list_for_each(it, &vx->listeners) {
		struct vb_listener *l =
			container_of(it, struct vb_listener, node);

		if (l->cm.id)
			continue;
		if (listener_start(vx, l))
			waiting = true;
		else
			listener_report(vx, l, XP_DEVICE_LISTENS);
	}
	if (!waiting)
		return;
	reactor_timer_set(vx->base.cfg.reactor, &vx->listen_timer,
			  vx->listen_pause_ms);
	vx->listen_pause_ms *= 2;
	if (vx->listen_pause_ms > LISTEN_PAUSE_MAX_MS)
		vx->listen_pause_ms = LISTEN_PAUSE_MAX_MS;
}

static void listener_timer(struct reactor_timer *t)
{
	listener_start_all(container_of(t, struct vb_xp, listen_timer));
}

void vb_listen_again(struct vb_xp *vx)
{
	if (!vx->cm)
		return; /* when the first device comes */
	vx->listen_pause_ms = LISTEN_PAUSE_MS;
	listener_start_all(vx);
}

/* ---- listeners whose address moves ---- */

/* The kernel binds a listener to the device that has its address, for good. */
static bool listener_has_moved(const struct vb_xp *vx,
			       const struct vb_listener *l)
{
	const struct rdma_cm_id *id = l->cm.id;
	struct sockaddr_storage addr = l->addr;
	struct rdma_cm_id *probe;
	bool moved;

	if (listener_is_any((struct sockaddr *)&addr) ||
	    rdma_create_id(vx->cm, &probe, NULL, RDMA_PS_TCP))
		return false;
	/* It has the same place in both families. */
	((struct sockaddr_in *)&addr)->sin_port = 0;
	if (rdma_bind_addr(probe, (struct sockaddr *)&addr))
		moved = errno == EADDRNOTAVAIL || errno == ENODEV;
	else if (id->verbs && probe->verbs)
		moved = id->verbs->device != probe->verbs->device ||
			id->port_num != probe->port_num;
	else
		moved = id->verbs != probe->verbs;
	rdma_destroy_id(probe);
	return moved;
}

void vb_listener_renew(struct vb_listener *l)
{
	struct vb_xp *vx = container_of(l->base.xp, struct vb_xp, base);

	rdma_destroy_id(l->cm.id);
	l->cm.id = NULL;
	if (listener_start(vx, l) == 0)
		listener_report(vx, l, XP_DEVICE_LISTENS);
	else
		listener_report(vx, l, XP_DEVICE_DEAF);
}

void vb_listen_follow(struct vb_xp *vx)
{
	struct list *it;

	if (list_empty(&vx->listeners) || !vx->cm)
		return;
	list_for_each(it, &vx->listeners) {
		struct vb_listener *l =
			container_of(it, struct vb_listener, node);

		if (l->cm.id && listener_has_moved(vx, l))
			vb_listener_renew(l);
	}
	vb_listen_again(vx);
}

void vb_listen_init(struct vb_xp *vx)
{
	reactor_timer_init(&vx->listen_timer, listener_timer);
}
