/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm, and what the kernel does for it. A listener is a socket of
 * AF_UNIX; its name has the port and the address, so that the kernel forgets it
 * with its process. Every state and event is as for RoCE.
 */
#include "tests/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Private data of RDMA_PS_TCP. The receiver always gets all of it. */
#define REQ_PDATA 56
#define REP_PDATA 196
#define REJ_PDATA 148

/* InfiniBand Architecture, volume 1, "Rejection Reason". */
#define REJ_TIMEOUT 4
#define REJ_NOBODY  8
#define REJ_USER    28

enum id_state {
	ID_IDLE,
	ID_ADDRESS,    /* a device is found */
	ID_ROUTE,      /* and the route */
	ID_LISTENS,    /* */
	ID_REQUESTING, /* the REQ is sent */
	ID_REQUESTED,  /* the REQ has come */
	ID_ACCEPTED,   /* the REP is sent */
	ID_ANSWERED,   /* the REP has come */
	ID_UP,	       /* the RTU is sent, or has come */
	ID_LEAVING,    /* the DREQ is sent */
	ID_LEFT,       /* the DREQ has come */
	ID_ENDED,
};

struct fv_id {
	struct rdma_cm_id base;
	struct list node;
	enum id_state state;
	bool sync;	/* without a channel of the caller's */
	bool only_ipv6; /* RDMA_OPTION_ID_AFONLY, else what the host says */
	bool only_set;
	struct fv_conn *conn;
	unsigned int reported; /* events */
	unsigned int acked;
	uint8_t read_depth;   /* READs of this side */
	uint8_t answer_depth; /* READs of the peer */
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint32_t peer_qpn;
	uint8_t tos;
	struct ibv_sa_path_rec path;
};

struct cm_channel {
	struct rdma_event_channel base;
	struct fv_events events;
};

struct cm_event {
	struct fv_event base;
	struct rdma_cm_event rdma;
	uint8_t pdata[256];
};

static struct list ids = LIST_INIT(ids);

static struct fv_id *fv_id(struct rdma_cm_id *id)
{
	return container_of(id, struct fv_id, base);
}

static struct cm_channel *cm_channel(struct rdma_event_channel *channel)
{
	return container_of(channel, struct cm_channel, base);
}

/* -1 and errno, after what librdmacm does. */
static int cm_result(int err)
{
	pthread_mutex_unlock(&fv_lock);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* ---- events ---- */

static struct cm_event *id_event_new(struct fv_id *id,
				     enum rdma_cm_event_type type, int status)
{
	struct cm_event *ev = fv_zalloc(sizeof(*ev));

	ev->rdma.id = &id->base;
	ev->rdma.event = type;
	ev->rdma.status = status;
	return ev;
}

static void id_event_add(struct fv_id *id, struct cm_event *ev)
{
	fv_events_add(&cm_channel(id->base.channel)->events, &ev->base, id);
}

static void id_event(struct fv_id *id, enum rdma_cm_event_type type, int status)
{
	id_event_add(id, id_event_new(id, type, status));
}

static void event_set_pdata(struct cm_event *ev, const struct fv_cm_data *data,
			    uint8_t len)
{
	memcpy(ev->pdata, data->pdata, sizeof(ev->pdata));
	ev->rdma.param.conn.private_data = ev->pdata;
	ev->rdma.param.conn.private_data_len = len;
}

FV_API struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_channel *channel = fv_zalloc(sizeof(*channel));

	if (fv_events_open(&channel->events)) {
		free(channel);
		return NULL;
	}
	channel->base.fd = channel->events.fd;
	pthread_mutex_lock(&fv_lock);
	fv_wire_start();
	pthread_mutex_unlock(&fv_lock);
	return &channel->base;
}

FV_API void rdma_destroy_event_channel(struct rdma_event_channel *base)
{
	struct cm_channel *channel = cm_channel(base);

	if (!list_empty(&channel->events.list))
		fv_bug("an event channel is destroyed before its cm_ids");
	close(base->fd);
	free(channel);
}

/* Its cm_id cannot be destroyed or moved until it is acknowledged. */
static struct fv_id *event_owner(const struct rdma_cm_event *event)
{
	return fv_id(event->listen_id ? event->listen_id : event->id);
}

FV_API int rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **ret_event)
{
	struct fv_events *q = &cm_channel(channel)->events;
	struct list *it = NULL;
	uint64_t one;

	/* As fv_events_take(), but a cm_id must not move in between. */
	while (!it) {
		if (read(q->fd, &one, sizeof(one)) != sizeof(one))
			return -1;
		pthread_mutex_lock(&fv_lock);
		it = list_pop(&q->list);
		if (it) {
			*ret_event =
				&container_of(it, struct cm_event, base.node)
					 ->rdma;
			event_owner(*ret_event)->reported++;
		}
		pthread_mutex_unlock(&fv_lock);
	}
	return 0;
}

FV_API int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	pthread_mutex_lock(&fv_lock);
	event_owner(event)->acked++;
	pthread_cond_broadcast(&fv_acked);
	pthread_mutex_unlock(&fv_lock);
	free(container_of(event, struct cm_event, rdma));
	return 0;
}

/* ---- names ---- */

static bool is_any(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	return sa->sa_family == AF_INET
		       ? in->sin_addr.s_addr == htonl(INADDR_ANY)
		       : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

static in_port_t *port_of(struct sockaddr *sa)
{
	return &((struct sockaddr_in *)(void *)sa)->sin_port;
}

/* All addresses of both families. */
#define ALL "*"

static const char *host_name(const struct sockaddr *sa, bool only_ipv6,
			     char *buf, socklen_t size)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	if (sa->sa_family == AF_INET)
		return inet_ntop(AF_INET, &in->sin_addr, buf, size);
	if (is_any(sa) && !only_ipv6)
		return ALL;
	return inet_ntop(AF_INET6, &in6->sin6_addr, buf, size);
}

/* The socket of a listener, in a space of names that has no files. */
static socklen_t listener_name(in_port_t port, const char *host,
			       struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(
				   &un->sun_path[1], sizeof(un->sun_path) - 1,
				   "fake-verbs/%u/%s", ntohs(port), host));
}

/* Does a listener of @host have the port of another one of @other? */
static bool hosts_conflict(const char *host, const char *other)
{
	bool ipv6 = strchr(other, ':');

	return strcmp(host, ALL) == 0 || strcmp(host, other) == 0 ||
	       strcmp(host, ipv6 ? "::" : "0.0.0.0") == 0;
}

/* As cma_check_port() of the kernel. */
static int port_check(in_port_t port, const char *host)
{
	char line[256];
	char other[64];
	unsigned int flags;
	unsigned int used;
	int err = 0;
	FILE *f = fopen("/proc/net/unix", "re");

	while (f && !err && fgets(line, sizeof(line), f)) {
		if (sscanf(line,
			   "%*s %*s %*s %x %*s %*s %*s @fake-verbs/%u/%63s",
			   &flags, &used, other) != 3 ||
		    !flags || used != ntohs(port))
			continue;
		if (strcmp(host, other) == 0)
			err = EADDRINUSE;
		else if (hosts_conflict(host, other) ||
			 hosts_conflict(other, host))
			err = EADDRNOTAVAIL;
	}
	if (f)
		fclose(f);
	return err;
}

/* ---- cm_ids ---- */

static struct fv_id *id_new(struct rdma_event_channel *channel, void *context,
			    enum rdma_port_space ps)
{
	struct fv_id *id = fv_zalloc(sizeof(*id));

	id->base.channel = channel;
	id->base.context = context;
	id->base.ps = ps;
	id->base.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	list_add_tail(&ids, &id->node);
	return id;
}

FV_API int rdma_create_id(struct rdma_event_channel *channel,
			  struct rdma_cm_id **ret_id, void *context,
			  enum rdma_port_space ps)
{
	struct fv_id *id;
	bool sync = !channel;

	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	pthread_mutex_lock(&fv_lock);
	id = id_new(channel, context, ps);
	id->sync = sync;
	*ret_id = &id->base;
	return cm_result(0);
}

/* What the kernel tells the peer of a connection that is given up. */
static void id_leave(struct fv_id *id)
{
	struct fv_cm_data rej = {
		.status = id->state == ID_REQUESTING ? REJ_TIMEOUT : REJ_USER,
	};

	switch (id->state) {
	case ID_REQUESTING:
	case ID_REQUESTED:
	case ID_ACCEPTED:
	case ID_ANSWERED:
		fv_conn_send_cm(id->conn, FV_REJ, &rej);
		break;
	case ID_UP:
		fv_conn_send_cm(id->conn, FV_DREQ, NULL);
		break;
	case ID_LEFT:
		fv_conn_send_cm(id->conn, FV_DREP, NULL);
		break;
	default:
		break;
	}
	id->state = ID_ENDED;
}

/* With the requests that nobody has read. */
static void id_free(struct fv_id *id)
{
	struct fv_events *q = &cm_channel(id->base.channel)->events;
	struct list old = LIST_INIT(old);
	struct list *it;

	fv_events_move(q, id, &old);
	while ((it = list_pop(&old))) {
		struct cm_event *ev =
			container_of(it, struct cm_event, base.node);

		if (ev->rdma.listen_id)
			id_free(fv_id(ev->rdma.id));
		free(ev);
	}
	if (id->state == ID_LISTENS)
		fv_listen_forget(id);
	id_leave(id);
	if (id->conn) {
		id->conn->id = NULL;
		fv_conn_put(id->conn);
	}
	list_del(&id->node);
	free(id);
}

FV_API int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct rdma_event_channel *channel = base->channel;
	struct fv_id *id = fv_id(base);
	bool sync = id->sync;

	pthread_mutex_lock(&fv_lock);
	while (id->reported != id->acked)
		pthread_cond_wait(&fv_acked, &fv_lock);
	id_free(id);
	pthread_mutex_unlock(&fv_lock);
	if (sync)
		rdma_destroy_event_channel(channel);
	return 0;
}

FV_API int rdma_migrate_id(struct rdma_cm_id *base,
			   struct rdma_event_channel *channel)
{
	struct list moved = LIST_INIT(moved);
	struct fv_id *id = fv_id(base);
	struct list *it;

	pthread_mutex_lock(&fv_lock);
	fv_events_move(&cm_channel(base->channel)->events, id, &moved);
	base->channel = channel;
	while ((it = list_pop(&moved)))
		id_event_add(id, container_of(it, struct cm_event, base.node));
	while (id->reported != id->acked)
		pthread_cond_wait(&fv_acked, &fv_lock);
	return cm_result(0);
}

/* ---- devices of librdmacm ---- */

static struct ibv_context *cm_context(struct fv_device *dev)
{
	if (dev->lost)
		return NULL;
	if (!dev->cm_context)
		dev->cm_context = fv_context_open(dev);
	return dev->cm_context;
}

FV_API struct ibv_context **rdma_get_devices(int *ret_cnt)
{
	struct fv_device *dev = NULL;
	struct ibv_context **all;
	int cnt = 0;

	pthread_mutex_lock(&fv_lock);
	fv_devices_renew();
	while ((dev = fv_device_next(dev)))
		cnt++;
	all = fv_zalloc(((size_t)cnt + 1) * sizeof(all[0]));
	cnt = 0;
	while ((dev = fv_device_next(dev))) {
		all[cnt] = cm_context(dev);
		cnt += all[cnt] != NULL;
	}
	pthread_mutex_unlock(&fv_lock);
	if (ret_cnt)
		*ret_cnt = cnt;
	return all;
}

FV_API void rdma_free_devices(struct ibv_context **all)
{
	free(all);
}

static bool are_far_apart(const struct fv_device *a, const struct fv_device *b)
{
	int64_t distance = (int64_t)((uintptr_t)a - (uintptr_t)b);

	return distance != (int32_t)distance;
}

void fv_cm_removed(struct fv_device *dev)
{
	for (struct fv_device *d = NULL; (d = fv_device_next(d));)
		d->lost |= are_far_apart(d, dev);
	fv_cm_event(dev, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

void fv_cm_event(const struct fv_device *dev, enum rdma_cm_event_type type)
{
	struct list *it;

	list_for_each(it, &ids) {
		struct fv_id *id = container_of(it, struct fv_id, node);

		if (id->base.verbs && id->base.verbs == dev->cm_context)
			id_event(id, type, 0);
	}
}

/* ---- addresses and routes ---- */

static bool host_is_ours(const struct sockaddr *sa)
{
	bool found = false;
	struct ifaddrs *list = NULL;
	union ibv_gid a;
	union ibv_gid b;

	fv_gid(sa, &a);
	getifaddrs(&list);
	for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != sa->sa_family)
			continue;
		fv_gid(i->ifa_addr, &b);
		found = memcmp(&a, &b, sizeof(a)) == 0;
	}
	freeifaddrs(list);
	return found;
}

/* False: librdmacm knows no device. */
static bool id_set_device(struct fv_id *id, struct fv_device *dev)
{
	struct rdma_addr *addr = &id->base.route.addr;

	id->base.verbs = dev ? cm_context(dev) : NULL;
	if (!id->base.verbs)
		return false;
	id->base.port_num = 1;
	addr->addr.ibaddr.pkey = 0xffff;
	fv_gid(&addr->src_addr, &addr->addr.ibaddr.sgid);
	if (addr->dst_addr.sa_family)
		fv_gid(&addr->dst_addr, &addr->addr.ibaddr.dgid);
	return true;
}

static void sockaddr_copy(struct sockaddr_storage *to,
			  const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from,
	       from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
}

static int id_bind(struct fv_id *id, const struct sockaddr *sa)
{
	struct fv_device *dev;

	fv_devices_renew();
	dev = fv_device_at(sa);
	if (id->state != ID_IDLE)
		return EINVAL;
	if (!dev && !is_any(sa))
		return host_is_ours(sa) ? ENODEV : EADDRNOTAVAIL;
	sockaddr_copy(&id->base.route.addr.src_storage, sa);
	return !dev || id_set_device(id, dev) ? 0 : ENODEV;
}

FV_API int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *sa)
{
	pthread_mutex_lock(&fv_lock);
	return cm_result(id_bind(fv_id(id), sa));
}

/* The peer's address is on the same machine, on a device that also is the way
 * to it; unless another one was bound. */
static int id_resolve(struct fv_id *id, const struct sockaddr *dst)
{
	static uint16_t port = 0;
	struct rdma_addr *addr = &id->base.route.addr;
	struct fv_device *dev;

	fv_devices_renew();
	dev = fv_device_at(dst);
	sockaddr_copy(&addr->dst_storage, dst);
	if (!addr->src_addr.sa_family)
		sockaddr_copy(&addr->src_storage, dst);
	else
		dev = dev ? fv_device_at(&addr->src_addr) : NULL;
	if (!dev)
		return -ENODEV;
	*port_of(&addr->src_addr) =
		htons((uint16_t)(32768 + (port++ + getpid()) % 28000));
	id->state = ID_ADDRESS;
	return id_set_device(id, dev) ? 0 : -1;
}

static int id_wait(struct fv_id *id)
{
	struct rdma_cm_event *event;
	int status;

	if (rdma_get_cm_event(id->base.channel, &event))
		return -1;
	status = event->status;
	rdma_ack_cm_event(event);
	errno = -status;
	return status ? -1 : 0;
}

FV_API int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src,
			     struct sockaddr *dst, int timeout_ms)
{
	struct fv_id *id = fv_id(base);
	int err = 0;

	pthread_mutex_lock(&fv_lock);
	if (id->state != ID_IDLE)
		err = EINVAL;
	if (!err && src)
		err = id_bind(id, src);
	if (err)
		return cm_result(err);
	err = id_resolve(id, dst);
	/* For one that librdmacm has lost, the event is that of success. */
	id_event(id,
		 id->state == ID_ADDRESS ? RDMA_CM_EVENT_ADDR_RESOLVED
					 : RDMA_CM_EVENT_ADDR_ERROR,
		 err);
	pthread_mutex_unlock(&fv_lock);
	return id->sync ? id_wait(id) : 0;
}

static void id_set_route(struct fv_id *id, uint8_t sl)
{
	const struct rdma_ib_addr *ib = &id->base.route.addr.addr.ibaddr;

	id->path = (struct ibv_sa_path_rec){
		.sgid = ib->sgid,
		.dgid = ib->dgid,
		.pkey = 0xffff,
		.sl = sl,
		.traffic_class = id->tos,
		.mtu = IBV_MTU_4096,
		.reversible = 1,
	};
	id->base.route.path_rec = &id->path;
	id->base.route.num_paths = 1;
	id->state = ID_ROUTE;
}

FV_API int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	struct fv_id *id = fv_id(base);

	pthread_mutex_lock(&fv_lock);
	if (id->state != ID_ADDRESS)
		return cm_result(EINVAL);
	id_set_route(id, 0);
	id_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return cm_result(0);
}

static int id_set_path(struct fv_id *id, const struct ibv_path_data *path)
{
	if (id->state != ID_ADDRESS)
		return EINVAL;
	id->tos = path->path.tclass;
	id_set_route(id, be16toh(path->path.qosclass_sl) & 0xf);
	id_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

static void id_set_only(struct fv_id *id, bool only_ipv6)
{
	id->only_ipv6 = only_ipv6;
	id->only_set = true;
}

FV_API int rdma_set_option(struct rdma_cm_id *base, int level, int name,
			   void *value, size_t len)
{
	struct fv_id *id = fv_id(base);
	int err = 0;

	pthread_mutex_lock(&fv_lock);
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		err = id_set_path(id, value);
	else if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_TOS)
		id->tos = *(uint8_t *)value;
	else if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_AFONLY)
		id_set_only(id, *(int *)value);
	return cm_result(err);
}

/* ---- listening ---- */

/* net.ipv6.bindv6only */
static bool host_wants_only_ipv6(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/bindv6only", "re");
	bool only = f && fgetc(f) == '1';

	if (f)
		fclose(f);
	return only;
}

static int id_listen(struct fv_id *id, int backlog)
{
	struct sockaddr *sa = &id->base.route.addr.src_addr;
	struct sockaddr_un un;
	char buf[INET6_ADDRSTRLEN];
	bool only = id->only_set ? id->only_ipv6 : host_wants_only_ipv6();
	const char *host = host_name(sa, only, buf, sizeof(buf));
	socklen_t len = listener_name(*port_of(sa), host, &un);
	int err = port_check(*port_of(sa), host);
	int fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if (bind(fd, (struct sockaddr *)&un, len) || listen(fd, 4096)) {
		err = errno;
		close(fd);
		return err;
	}
	id->state = ID_LISTENS;
	fv_listen_watch(fd, id);
	return 0;
}

FV_API int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	pthread_mutex_lock(&fv_lock);
	return cm_result(id_listen(fv_id(id), backlog));
}

/* ---- connecting ---- */

static void data_set(struct fv_cm_data *data, const struct fv_id *id,
		     const struct rdma_conn_param *param)
{
	*data = (struct fv_cm_data){
		.src = id->base.route.addr.src_storage,
		.dst = id->base.route.addr.dst_storage,
		.sl = id->path.sl,
		.tos = id->path.traffic_class,
	};
	if (!param)
		return;
	data->qpn = param->qp_num;
	data->responder_resources = param->responder_resources;
	data->initiator_depth = param->initiator_depth;
	data->rnr_retry = param->rnr_retry_count;
	data->len = param->private_data_len;
	if (data->len)
		memcpy(data->pdata, param->private_data, data->len);
}

/* A socket to who listens on the address, alone or with others; -1. */
static int cm_dial(struct sockaddr *dst)
{
	char buf[INET6_ADDRSTRLEN];
	const char *hosts[] = {
		host_name(dst, true, buf, sizeof(buf)),
		dst->sa_family == AF_INET ? "0.0.0.0" : "::",
		ALL,
	};
	struct sockaddr_un un;
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	for (unsigned int i = 0; i < ARRAY_SIZE(hosts) && fd >= 0; i++) {
		len = listener_name(*port_of(dst), hosts[i], &un);
		if (connect(fd, (struct sockaddr *)&un, len) == 0)
			return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static void id_rejected(struct fv_id *id, const struct fv_cm_data *rej)
{
	struct cm_event *ev =
		id_event_new(id, RDMA_CM_EVENT_REJECTED, rej->status);

	event_set_pdata(ev, rej, REJ_PDATA);
	id->state = ID_ENDED;
	id_event_add(id, ev);
}

static int id_connect(struct fv_id *id, const struct rdma_conn_param *param)
{
	static const struct fv_cm_data nobody = { .status = REJ_NOBODY };
	struct fv_cm_data req;
	int fd;

	if (id->state != ID_ROUTE || param->private_data_len > REQ_PDATA)
		return EINVAL;
	fd = cm_dial(&id->base.route.addr.dst_addr);
	id->conn = fd < 0 ? NULL : fv_conn_new(fd);
	if (!id->conn) {
		id_rejected(id, &nobody);
		return 0;
	}
	id->conn->id = id;
	id->state = ID_REQUESTING;
	id->read_depth = param->initiator_depth;
	id->answer_depth = param->responder_resources;
	id->retry_cnt = param->retry_count;
	data_set(&req, id, param);
	fv_conn_send_cm(id->conn, FV_REQ, &req);
	return 0;
}

FV_API int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	pthread_mutex_lock(&fv_lock);
	return cm_result(id_connect(fv_id(id), param));
}

static int id_accept(struct fv_id *id, const struct rdma_conn_param *param)
{
	struct fv_cm_data rep;

	if (id->state != ID_REQUESTED || param->private_data_len > REP_PDATA)
		return EINVAL;
	id->state = ID_ACCEPTED;
	id->read_depth = param->initiator_depth;
	id->answer_depth = param->responder_resources;
	data_set(&rep, id, param);
	fv_conn_send_cm(id->conn, FV_REP, &rep);
	return 0;
}

FV_API int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	pthread_mutex_lock(&fv_lock);
	return cm_result(id_accept(fv_id(id), param));
}

FV_API int rdma_establish(struct rdma_cm_id *base)
{
	struct fv_id *id = fv_id(base);

	pthread_mutex_lock(&fv_lock);
	if (id->state != ID_ANSWERED)
		return cm_result(EINVAL);
	id->state = ID_UP;
	fv_conn_send_cm(id->conn, FV_RTU, NULL);
	return cm_result(0);
}

FV_API int rdma_reject(struct rdma_cm_id *base, const void *pdata, uint8_t len)
{
	struct fv_cm_data rej = { .status = REJ_USER, .len = len };
	struct fv_id *id = fv_id(base);

	pthread_mutex_lock(&fv_lock);
	if (id->state != ID_REQUESTED || len > REJ_PDATA)
		return cm_result(EINVAL);
	if (len)
		memcpy(rej.pdata, pdata, len);
	id->state = ID_ENDED;
	fv_conn_send_cm(id->conn, FV_REJ, &rej);
	return cm_result(0);
}

FV_API int rdma_notify(struct rdma_cm_id *base, enum ibv_event_type type)
{
	struct fv_id *id = fv_id(base);

	pthread_mutex_lock(&fv_lock);
	if (type != IBV_EVENT_COMM_EST || id->state != ID_ACCEPTED)
		return cm_result(EINVAL);
	id->state = ID_UP;
	id_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	return cm_result(0);
}

/* ---- disconnecting ---- */

static void id_ended(struct fv_id *id, bool tell)
{
	id->state = ID_ENDED;
	if (tell)
		id_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	id_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

FV_API int rdma_disconnect(struct rdma_cm_id *base)
{
	struct fv_id *id = fv_id(base);

	pthread_mutex_lock(&fv_lock);
	if (id->state == ID_UP) {
		id->state = ID_LEAVING;
		fv_conn_send_cm(id->conn, FV_DREQ, NULL);
	} else if (id->state == ID_LEFT) {
		fv_conn_send_cm(id->conn, FV_DREP, NULL);
		id_ended(id, false);
	} else {
		return cm_result(EINVAL);
	}
	return cm_result(0);
}

/* ---- frames ---- */

static void cm_requested(struct fv_conn *conn, const struct fv_cm_data *req)
{
	struct fv_id *listener = conn->listener;
	struct rdma_conn_param *param;
	struct cm_event *ev;
	struct fv_id *id;

	if (!listener || conn->id)
		return;
	conn->listener = NULL;
	id = id_new(listener->base.channel, listener->base.context,
		    listener->base.ps);
	id->base.route.addr.src_storage = req->dst;
	id->base.route.addr.dst_storage = req->src;
	id->state = ID_REQUESTED;
	id->conn = conn;
	conn->id = id;
	/* librdmacm has lost the device, or the listener is on the one that had the
	 * address: the program does not learn of it. */
	if (!id_set_device(id,
			   fv_device_at((const struct sockaddr *)&req->dst)) ||
	    (listener->base.verbs && listener->base.verbs != id->base.verbs)) {
		id_free(id);
		return;
	}
	id->tos = req->tos;
	id_set_route(id, req->sl);
	id->state = ID_REQUESTED;
	id->peer_qpn = req->qpn;
	id->rnr_retry = req->rnr_retry;
	ev = id_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	event_set_pdata(ev, req, REQ_PDATA);
	ev->rdma.listen_id = &listener->base;
	param = &ev->rdma.param.conn;
	/* Each names them from its own side. */
	param->responder_resources = req->initiator_depth;
	param->initiator_depth = req->responder_resources;
	param->qp_num = req->qpn;
	param->rnr_retry_count = req->rnr_retry;
	id_event_add(listener, ev);
}

static void cm_answered(struct fv_id *id, const struct fv_cm_data *rep)
{
	struct cm_event *ev =
		id_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	id->state = ID_ANSWERED;
	id->peer_qpn = rep->qpn;
	id->rnr_retry = rep->rnr_retry;
	id->read_depth = rep->responder_resources;
	id->answer_depth = rep->initiator_depth;
	event_set_pdata(ev, rep, REP_PDATA);
	ev->rdma.param.conn.responder_resources = id->answer_depth;
	ev->rdma.param.conn.initiator_depth = id->read_depth;
	id_event_add(id, ev);
}

/* A DREQ, or the peer's process has ended, for which its kernel sends one. */
static void cm_left(struct fv_id *id, bool is_there)
{
	switch (id->state) {
	case ID_ACCEPTED:
	case ID_UP:
		id->state = is_there ? ID_LEFT : ID_ENDED;
		id_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case ID_LEAVING: /* both at once */
		fv_conn_send_cm(id->conn, FV_DREP, NULL);
		id_ended(id, true);
		break;
	default:
		break;
	}
}

static void cm_peer_ended(struct fv_id *id)
{
	static const struct fv_cm_data rej = { .status = REJ_USER };

	if (id->state == ID_REQUESTING || id->state == ID_REQUESTED ||
	    id->state == ID_ACCEPTED || id->state == ID_ANSWERED)
		id_rejected(id, &rej);
	else
		cm_left(id, false);
}

void fv_cm_take(struct fv_conn *conn, int type, const struct fv_cm_data *data)
{
	struct fv_id *id = conn->id;

	if (type == FV_REQ)
		cm_requested(conn, data);
	else if (type == FV_DREQ && !id)
		fv_conn_send_cm(conn, FV_DREP, NULL);
	if (type < 0)
		conn->listener = NULL;
	if (!id)
		return;
	switch (type) {
	case FV_REP:
		if (id->state == ID_REQUESTING)
			cm_answered(id, data);
		break;
	case FV_RTU:
		if (id->state != ID_ACCEPTED)
			break;
		id->state = ID_UP;
		id_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case FV_REJ:
		if (id->state != ID_ENDED)
			id_rejected(id, data);
		break;
	case FV_DREQ:
		cm_left(id, true);
		break;
	case FV_DREP:
		if (id->state == ID_LEAVING)
			id_ended(id, true);
		break;
	case -1:
		cm_peer_ended(id);
		break;
	default:
		break;
	}
}

/* ---- what a queue pair needs ---- */

static void attr_for_rtr(const struct fv_id *id, struct ibv_qp_attr *attr)
{
	attr->path_mtu = IBV_MTU_4096;
	attr->dest_qp_num = id->peer_qpn;
	/* Where the connection is; see qp_connect(). */
	attr->rq_psn = id->conn->index;
	attr->max_dest_rd_atomic = id->answer_depth;
	attr->min_rnr_timer = 0;
	attr->ah_attr = (struct ibv_ah_attr){
		.grh = { .dgid = id->base.route.addr.addr.ibaddr.dgid,
			 .traffic_class = id->path.traffic_class },
		.sl = id->path.sl,
		.is_global = 1,
		.port_num = 1,
	};
}

static int id_qp_attr(const struct fv_id *id, struct ibv_qp_attr *attr,
		      int *ret_mask)
{
	bool connects = id->state >= ID_REQUESTING && id->state < ID_LEAVING;

	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (!id->base.verbs || id->state > ID_UP)
			return EINVAL;
		attr->pkey_index = 0;
		attr->port_num = 1;
		attr->qp_access_flags = 0;
		if (connects)
			attr->qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
		if (connects && id->answer_depth)
			attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ;
		*ret_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS;
		return 0;
	case IBV_QPS_RTR:
		if (!connects || id->state == ID_REQUESTING)
			return EINVAL;
		attr_for_rtr(id, attr);
		*ret_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		return 0;
	case IBV_QPS_RTS:
		if (!connects || id->state == ID_REQUESTING)
			return EINVAL;
		attr->timeout = 14;
		attr->retry_cnt = id->retry_cnt;
		attr->rnr_retry = id->rnr_retry;
		attr->max_rd_atomic = id->read_depth;
		*ret_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC;
		return 0;
	default:
		return EINVAL;
	}
}

FV_API int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			     int *ret_mask)
{
	pthread_mutex_lock(&fv_lock);
	return cm_result(id_qp_attr(fv_id(id), attr, ret_mask));
}

/* ---- datagrams, which it does not have ---- */

FV_API int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			       void *context)
{
	errno = EOPNOTSUPP;
	return -1;
}

FV_API int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return 0;
}
