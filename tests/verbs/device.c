/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MRS_MAX 8192u

pthread_mutex_t fv_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fv_acked = PTHREAD_COND_INITIALIZER;

void fv_bug(const char *what)
{
	fprintf(stderr, "fake verbs: the program breaks a rule: %s\n", what);
	abort();
}

void *fv_zalloc(size_t len)
{
	void *p = calloc(1, len ? len : 1);

	if (!p)
		abort();
	return p;
}

uint64_t fv_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- events ---- */

int fv_events_open(struct fv_events *q)
{
	list_init(&q->list);
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	return q->fd < 0 ? -1 : 0;
}

void fv_events_add(struct fv_events *q, struct fv_event *ev, const void *about)
{
	ev->about = about;
	list_add_tail(&q->list, &ev->node);
	if (eventfd_write(q->fd, 1))
		list_del(&ev->node); /* the descriptor was taken away */
}

struct fv_event *fv_events_take(struct fv_events *q)
{
	struct list *it = NULL;
	eventfd_t one;

	while (!it) {
		if (eventfd_read(q->fd, &one))
			return NULL;
		pthread_mutex_lock(&fv_lock);
		it = list_pop(&q->list);
		pthread_mutex_unlock(&fv_lock);
	}
	return container_of(it, struct fv_event, node);
}

void fv_events_move(struct fv_events *q, const void *about, struct list *to)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &q->list) {
		struct fv_event *ev = container_of(it, struct fv_event, node);

		if (ev->about != about)
			continue;
		list_del(it);
		list_add_tail(to, it);
	}
}

void fv_events_purge(struct fv_events *q, const void *about)
{
	struct list old = LIST_INIT(old);
	struct list *it;

	fv_events_move(q, about, &old);
	while ((it = list_pop(&old)))
		free(container_of(it, struct fv_event, node));
}

/* ---- devices ---- */

static struct list devices = LIST_INIT(devices);

static const char *const call_names[FAKE_CALLS] = {
	[FAKE_OPEN_DEVICE] = "open_device", [FAKE_REG_MR] = "reg_mr",
	[FAKE_POST_SEND] = "post_send",	    [FAKE_POLL_CQ] = "poll_cq",
	[FAKE_DESTROY_QP] = "destroy_qp",
};

static struct fv_device *device_new(const char *name)
{
	static int number;
	struct fv_device *dev = fv_zalloc(sizeof(*dev));

	dev->base.node_type = IBV_NODE_CA;
	dev->base.transport_type = IBV_TRANSPORT_IB;
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", name);
	dev->number = number++;
	snprintf(dev->base.dev_name, sizeof(dev->base.dev_name), "fake%d",
		 dev->number);
	dev->listed = true;
	list_init(&dev->contexts);
	list_add_tail(&devices, &dev->node);
	return dev;
}

static void device_read_addrs(struct fv_device *dev, char *text)
{
	char *rest = NULL;

	for (char *a = strtok_r(text, ",", &rest); a;
	     a = strtok_r(NULL, ",", &rest)) {
		struct sockaddr_storage *ss = &dev->addrs[dev->addr_cnt];
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
		struct sockaddr_in *in = (struct sockaddr_in *)ss;

		if (dev->addr_cnt == ARRAY_SIZE(dev->addrs))
			fv_bug("FAKE_VERBS: too many addresses");
		if (inet_pton(AF_INET, a, &in->sin_addr) == 1)
			ss->ss_family = AF_INET;
		else if (inet_pton(AF_INET6, a, &in6->sin6_addr) == 1)
			ss->ss_family = AF_INET6;
		else
			fv_bug("FAKE_VERBS: no address");
		dev->addr_cnt++;
	}
}

static void device_read_fault(struct fv_device *dev, char *text)
{
	char *value = strchr(text, '=');
	unsigned int i = 0;

	if (value)
		*value++ = '\0';
	while (i < FAKE_CALLS && strcmp(call_names[i], text) != 0)
		i++;
	if (!value || i == FAKE_CALLS)
		fv_bug("FAKE_VERBS: no such call");
	dev->fails[i] = (int)strtol(value, NULL, 10);
}

/* "fake0=127.0.0.1,::1;reg_mr=12" */
static void device_read(char *text)
{
	char *faults = strchr(text, ';');
	char *addrs = strchr(text, '=');
	struct fv_device *dev;
	char *rest = NULL;

	if (faults)
		*faults++ = '\0';
	if (addrs)
		*addrs++ = '\0';
	dev = device_new(text);
	if (addrs)
		device_read_addrs(dev, addrs);
	if (!faults)
		return;
	for (char *f = strtok_r(faults, ";", &rest); f;
	     f = strtok_r(NULL, ";", &rest))
		device_read_fault(dev, f);
}

void fv_devices_read(void)
{
	static bool done;
	const char *env = getenv("FAKE_VERBS");
	char *text = strdup(env ? env : "");
	char *rest = NULL;

	for (char *d = done || !text ? NULL : strtok_r(text, " ", &rest); d;
	     d = strtok_r(NULL, " ", &rest))
		device_read(d);
	done = true;
	free(text);
}

/* @old: one of the same name that is gone. */
static void device_come(struct fv_device *old)
{
	struct fv_device *dev = device_new(old->base.name);

	old->comes = false;
	memcpy(dev->addrs, old->addrs, sizeof(dev->addrs));
	dev->addr_cnt = old->addr_cnt;
}

void fv_devices_renew(void)
{
	struct list *it;
	struct list *last;

	fv_devices_read();
	last = devices.prev;
	list_for_each(it, &devices) {
		struct fv_device *dev =
			container_of(it, struct fv_device, node);

		if (dev->comes)
			device_come(dev);
		if (it == last)
			break;
	}
}

struct fv_device *fv_device_next(struct fv_device *dev)
{
	struct list *it = dev ? &dev->node : &devices;

	fv_devices_read();
	while ((it = it->next) != &devices) {
		dev = container_of(it, struct fv_device, node);
		if (dev->listed)
			return dev;
	}
	return NULL;
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a;
	const struct sockaddr_in6 *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a;
	const struct sockaddr_in *b4 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	return a->sa_family == AF_INET
		       ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
		       : IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
}

struct fv_device *fv_device_at(const struct sockaddr *addr)
{
	for (struct fv_device *dev = fv_device_next(NULL); dev;
	     dev = fv_device_next(dev)) {
		for (unsigned int i = 0; i < dev->addr_cnt; i++) {
			if (same_host((struct sockaddr *)&dev->addrs[i], addr))
				return dev;
		}
	}
	return NULL;
}

int fv_fails(struct fv_device *dev, enum fake_call call)
{
	dev->called[call]++;
	return dev->fails[call];
}

/* The newest of this name. */
static struct fv_device *device_named(const char *name)
{
	struct fv_device *found = NULL;
	struct list *it;

	fv_devices_read();
	list_for_each(it, &devices) {
		struct fv_device *dev =
			container_of(it, struct fv_device, node);

		if (strcmp(dev->base.name, name) == 0)
			found = dev;
	}
	if (!found)
		fv_bug("a test names a device that does not exist");
	return found;
}

FV_API struct ibv_device **ibv_get_device_list(int *ret_cnt)
{
	struct fv_device *dev = NULL;
	struct ibv_device **list;
	int cnt = 0;

	pthread_mutex_lock(&fv_lock);
	fv_devices_renew();
	while ((dev = fv_device_next(dev)))
		cnt++;
	list = fv_zalloc(((size_t)cnt + 1) * sizeof(list[0]));
	cnt = 0;
	while ((dev = fv_device_next(dev)))
		list[cnt++] = &dev->base;
	pthread_mutex_unlock(&fv_lock);
	if (ret_cnt)
		*ret_cnt = cnt;
	return list;
}

FV_API void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

FV_API const char *ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

FV_API int ibv_get_device_index(struct ibv_device *dev)
{
	return container_of(dev, struct fv_device, base)->number;
}

FV_API int ibv_fork_init(void)
{
	return 0;
}

/* ---- what devices can do ---- */

FV_API int ibv_query_device(struct ibv_context *ctx,
			    struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.fw_ver = "fake",
		.max_mr_size = UINT64_MAX,
		.max_qp = 1 << 16,
		.max_qp_wr = 1 << 14,
		.max_sge = FV_SGES,
		.max_cq = 1 << 16,
		.max_cqe = 1 << 20,
		.max_mr = MRS_MAX,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = FV_READ_DEPTH,
		.max_qp_init_rd_atom = FV_READ_DEPTH,
		.max_srq = 1 << 16,
		.max_srq_wr = 1 << 15,
		.max_srq_sge = FV_SGES,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port,
		      struct ibv_port_attr *attr, size_t len)
{
	const struct ibv_port_attr all = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = (int)fv_dev(ctx)->addr_cnt,
		.pkey_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	if (port != 1)
		return EINVAL;
	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
	return 0;
}

FV_API int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index,
			  __be16 *pkey)
{
	if (index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

void fv_gid(const struct sockaddr *addr, union ibv_gid *ret)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	memset(ret, 0, sizeof(*ret));
	if (addr->sa_family == AF_INET6) {
		memcpy(ret->raw, &in6->sin6_addr, 16);
		return;
	}
	ret->raw[10] = ret->raw[11] = 0xff;
	memcpy(&ret->raw[12], &in->sin_addr, 4);
}

FV_API ssize_t _ibv_query_gid_table(struct ibv_context *ctx,
				    struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t entry_size)
{
	const struct fv_device *dev = fv_dev(ctx);
	size_t i = 0;

	for (; i < dev->addr_cnt && i < max; i++) {
		memset(&entries[i], 0, sizeof(entries[i]));
		entries[i].gid_index = (uint32_t)i;
		entries[i].port_num = 1;
		entries[i].gid_type = IBV_GID_TYPE_ROCE_V2;
		fv_gid((const struct sockaddr *)&dev->addrs[i],
		       &entries[i].gid);
	}
	return (ssize_t)i;
}

/* ---- contexts ---- */

static int poll_cq(struct ibv_cq *cq, int cnt, struct ibv_wc *wcs);
static int req_notify_cq(struct ibv_cq *cq, int solicited_only);

struct ibv_context *fv_context_open(struct fv_device *dev)
{
	struct fv_context *ctx = fv_zalloc(sizeof(*ctx));
	struct ibv_context *base = &ctx->verbs.context;

	ctx->dev = dev;
	list_init(&ctx->qps);
	list_init(&ctx->cqs);
	if (fv_events_open(&ctx->async)) {
		free(ctx);
		return NULL;
	}
	ctx->verbs.sz = sizeof(ctx->verbs);
	ctx->verbs.query_port = query_port;
	base->device = &dev->base;
	base->ops = (struct ibv_context_ops){
		.poll_cq = poll_cq,
		.req_notify_cq = req_notify_cq,
		.post_srq_recv = fv_post_srq_recv,
		.post_send = fv_post_send,
		.post_recv = fv_post_recv,
	};
	base->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	base->async_fd = ctx->async.fd;
	base->num_comp_vectors = 1;
	base->abi_compat = __VERBS_ABI_IS_EXTENDED;
	list_add_tail(&dev->contexts, &ctx->node);
	fv_wire_start();
	return base;
}

FV_API struct ibv_context *ibv_open_device(struct ibv_device *base)
{
	struct fv_device *dev = container_of(base, struct fv_device, base);
	struct ibv_context *ctx = NULL;
	int err;

	pthread_mutex_lock(&fv_lock);
	err = dev->listed ? fv_fails(dev, FAKE_OPEN_DEVICE) : ENODEV;
	if (!err)
		ctx = fv_context_open(dev);
	pthread_mutex_unlock(&fv_lock);
	if (err)
		errno = err;
	return ctx;
}

FV_API int ibv_close_device(struct ibv_context *base)
{
	struct fv_context *ctx = fv_context(base);
	struct list *it;

	if (ctx->objects)
		fv_bug("a context is closed before what is in it");
	pthread_mutex_lock(&fv_lock);
	list_del(&ctx->node);
	while ((it = list_pop(&ctx->async.list)))
		free(container_of(it, struct fv_event, node));
	pthread_mutex_unlock(&fv_lock);
	close(ctx->async.fd);
	close(base->cmd_fd);
	free(ctx);
	return 0;
}

/* ---- asynchronous events ---- */

struct async_event {
	struct fv_event base;
	struct ibv_async_event ibv;
};

void fv_async(struct fv_context *ctx, enum ibv_event_type type, void *about)
{
	struct async_event *ev = fv_zalloc(sizeof(*ev));

	ev->ibv.event_type = type;
	ev->ibv.element.qp = about;
	fv_events_add(&ctx->async, &ev->base, about);
}

static bool is_about_qp(enum ibv_event_type type)
{
	return type <= IBV_EVENT_PATH_MIG_ERR
		       ? type != IBV_EVENT_CQ_ERR
		       : type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

FV_API int ibv_get_async_event(struct ibv_context *base,
			       struct ibv_async_event *ret)
{
	struct fv_event *ev = fv_events_take(&fv_context(base)->async);

	if (!ev)
		return -1;
	*ret = container_of(ev, struct async_event, base)->ibv;
	if (is_about_qp(ret->event_type))
		fv_qp(ret->element.qp)->reported++;
	free(ev);
	return 0;
}

FV_API void ibv_ack_async_event(struct ibv_async_event *ev)
{
	pthread_mutex_lock(&fv_lock);
	if (is_about_qp(ev->event_type))
		ev->element.qp->events_completed++;
	else if (ev->event_type == IBV_EVENT_CQ_ERR)
		ev->element.cq->async_events_completed++;
	pthread_cond_broadcast(&fv_acked);
	pthread_mutex_unlock(&fv_lock);
}

/* ---- protection domains and memory regions ---- */

static struct fv_mr {
	struct ibv_mr base;
	int access;
	uint32_t key;
} * mrs[MRS_MAX];

FV_API struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct fv_pd *pd = fv_zalloc(sizeof(*pd));

	pd->base.context = ctx;
	fv_context(ctx)->objects++;
	return &pd->base;
}

FV_API int ibv_dealloc_pd(struct ibv_pd *base)
{
	struct fv_pd *pd = container_of(base, struct fv_pd, base);

	if (pd->objects)
		fv_bug("a protection domain is freed before what is in it");
	fv_context(base->context)->objects--;
	free(pd);
	return 0;
}

/* Index and generation, so that no key is valid again soon. */
static uint32_t mr_key(unsigned int index)
{
	static uint32_t generation = 0x11;

	return index << 16 | (generation++ & 0xffff);
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, void *addr, size_t len,
				  int access)
{
	struct fv_mr *mr = fv_zalloc(sizeof(*mr));
	unsigned int i = 1;

	while (i < MRS_MAX && mrs[i])
		i++;
	if (i == MRS_MAX) {
		free(mr);
		errno = ENOMEM;
		return NULL;
	}
	mr->access = access;
	mr->key = mr_key(i);
	mr->base = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = len,
		.lkey = mr->key,
		.rkey = mr->key,
	};
	mrs[i] = mr;
	container_of(pd, struct fv_pd, base)->objects++;
	fv_dev(pd->context)->regions++;
	return &mr->base;
}

#undef ibv_reg_mr
FV_API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
				 int access)
{
	struct ibv_mr *mr = NULL;
	int err;

	pthread_mutex_lock(&fv_lock);
	err = fv_fails(fv_dev(pd->context), FAKE_REG_MR);
	if (err)
		errno = err;
	else
		mr = mr_register(pd, addr, len, access);
	pthread_mutex_unlock(&fv_lock);
	return mr;
}

FV_API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
				       size_t len, uint64_t iova,
				       unsigned int access)
{
	if (iova != (uintptr_t)addr)
		fv_bug("an iova is not supported");
	return ibv_reg_mr(pd, addr, len, (int)access);
}

FV_API int ibv_dereg_mr(struct ibv_mr *base)
{
	struct fv_mr *mr = container_of(base, struct fv_mr, base);

	pthread_mutex_lock(&fv_lock);
	mrs[mr->key >> 16] = NULL;
	container_of(base->pd, struct fv_pd, base)->objects--;
	fv_dev(base->context)->regions--;
	pthread_mutex_unlock(&fv_lock);
	free(mr);
	return 0;
}

bool fv_mr_allows(uint32_t key, uint64_t addr, size_t len,
		  const struct ibv_pd *pd, int access)
{
	unsigned int i = key >> 16;
	const struct fv_mr *mr = i < MRS_MAX ? mrs[i] : NULL;
	uint64_t offset;

	if (!mr || mr->key != key || mr->base.pd != pd)
		return false;
	if ((mr->access & access) != access)
		return false;
	offset = addr - (uintptr_t)mr->base.addr;
	return offset <= mr->base.length && len <= mr->base.length - offset;
}

/* ---- completion queues ---- */

FV_API struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct fv_comp *comp = fv_zalloc(sizeof(*comp));

	if (fv_events_open(&comp->events)) {
		free(comp);
		return NULL;
	}
	comp->base.context = ctx;
	comp->base.fd = comp->events.fd;
	fv_context(ctx)->objects++;
	return &comp->base;
}

FV_API int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct fv_comp *comp = container_of(base, struct fv_comp, base);

	if (base->refcnt)
		fv_bug("a completion channel is destroyed before its queues");
	fv_context(base->context)->objects--;
	close(base->fd);
	free(comp);
	return 0;
}

FV_API struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe,
				    void *user, struct ibv_comp_channel *comp,
				    int vector)
{
	struct fv_cq *cq;

	if (cqe < 1) {
		errno = EINVAL;
		return NULL;
	}
	cq = fv_zalloc(sizeof(*cq));
	cq->ring = fv_zalloc((size_t)cqe * sizeof(cq->ring[0]));
	cq->base.context = ctx;
	cq->base.channel = comp;
	cq->base.cq_context = user;
	cq->base.cqe = cqe;
	pthread_mutex_lock(&fv_lock);
	list_add_tail(&fv_context(ctx)->cqs, &cq->node);
	if (comp)
		comp->refcnt++;
	fv_context(ctx)->objects++;
	pthread_mutex_unlock(&fv_lock);
	return &cq->base;
}

FV_API int ibv_destroy_cq(struct ibv_cq *base)
{
	struct fv_context *ctx = fv_context(base->context);
	struct fv_cq *cq = fv_cq(base);

	pthread_mutex_lock(&fv_lock);
	if (cq->qps) {
		pthread_mutex_unlock(&fv_lock);
		return EBUSY;
	}
	if (base->channel) {
		fv_events_purge(
			&container_of(base->channel, struct fv_comp, base)
				 ->events,
			cq);
		base->channel->refcnt--;
	}
	while (cq->reported != base->comp_events_completed)
		pthread_cond_wait(&fv_acked, &fv_lock);
	fv_events_purge(&ctx->async, cq);
	list_del(&cq->node);
	ctx->objects--;
	pthread_mutex_unlock(&fv_lock);
	free(cq->ring);
	free(cq);
	return 0;
}

static void cq_notify(struct fv_cq *cq)
{
	struct ibv_comp_channel *comp = cq->base.channel;

	if (!cq->armed || !comp)
		return;
	cq->armed = false;
	fv_events_add(&container_of(comp, struct fv_comp, base)->events,
		      fv_zalloc(sizeof(struct fv_event)), cq);
}

void fv_complete(struct ibv_cq *base, const struct ibv_wc *wc)
{
	struct fv_cq *cq = fv_cq(base);
	unsigned int size = (unsigned int)base->cqe;

	if (cq->dead)
		return;
	if (cq->cnt == size)
		fv_bug("a completion queue overruns");
	cq->ring[(cq->head + cq->cnt++) % size] = *wc;
	cq_notify(cq);
}

void fv_cq_forget(struct fv_cq *cq, uint32_t qpn)
{
	unsigned int size = (unsigned int)cq->base.cqe;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < cq->cnt; i++) {
		const struct ibv_wc *wc = &cq->ring[(cq->head + i) % size];

		if (wc->qp_num != qpn)
			cq->ring[(cq->head + kept++) % size] = *wc;
	}
	cq->cnt = kept;
}

static int poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wcs)
{
	struct fv_cq *cq = fv_cq(base);
	int n;

	pthread_mutex_lock(&fv_lock);
	n = fv_fails(fv_dev(base->context), FAKE_POLL_CQ);
	for (; n >= 0 && n < max && cq->cnt; n++, cq->cnt--) {
		wcs[n] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % (unsigned int)base->cqe;
	}
	pthread_mutex_unlock(&fv_lock);
	return n;
}

/* As with some devices, a completion that is there already sends no event. */
static int req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	pthread_mutex_lock(&fv_lock);
	fv_cq(base)->armed = true;
	pthread_mutex_unlock(&fv_lock);
	return 0;
}

FV_API int ibv_get_cq_event(struct ibv_comp_channel *base,
			    struct ibv_cq **ret_cq, void **ret_user)
{
	struct fv_comp *comp = container_of(base, struct fv_comp, base);
	struct fv_event *ev = fv_events_take(&comp->events);
	struct fv_cq *cq;

	if (!ev)
		return -1;
	cq = container_of(ev->about, struct fv_cq, base);
	cq->reported++;
	*ret_cq = &cq->base;
	*ret_user = cq->base.cq_context;
	free(ev);
	return 0;
}

FV_API void ibv_ack_cq_events(struct ibv_cq *base, unsigned int cnt)
{
	pthread_mutex_lock(&fv_lock);
	base->comp_events_completed += cnt;
	pthread_cond_broadcast(&fv_acked);
	pthread_mutex_unlock(&fv_lock);
}

/* ---- for tests ---- */

FV_API void fake_fail(const char *device, enum fake_call call, int result)
{
	pthread_mutex_lock(&fv_lock);
	device_named(device)->fails[call] = result;
	pthread_mutex_unlock(&fv_lock);
}

FV_API unsigned int fake_called(const char *device, enum fake_call call)
{
	unsigned int n;

	pthread_mutex_lock(&fv_lock);
	n = device_named(device)->called[call];
	pthread_mutex_unlock(&fv_lock);
	return n;
}

FV_API unsigned int fake_regions(const char *device)
{
	unsigned int n;

	pthread_mutex_lock(&fv_lock);
	n = device_named(device)->regions;
	pthread_mutex_unlock(&fv_lock);
	return n;
}

static void device_event(struct fv_device *dev, enum ibv_event_type type)
{
	struct list *it;

	list_for_each(it, &dev->contexts)
		fv_async(container_of(it, struct fv_context, node), type, NULL);
}

FV_API void fake_event(const char *device, enum ibv_event_type type)
{
	pthread_mutex_lock(&fv_lock);
	device_event(device_named(device), type);
	pthread_mutex_unlock(&fv_lock);
}

static void context_cq_error(struct fv_context *ctx)
{
	struct list *it;

	list_for_each(it, &ctx->cqs) {
		struct fv_cq *cq = container_of(it, struct fv_cq, node);

		cq->dead = true;
		cq->cnt = 0;
		fv_async(ctx, IBV_EVENT_CQ_ERR, &cq->base);
	}
}

FV_API void fake_cq_error(const char *device)
{
	struct list *it;

	pthread_mutex_lock(&fv_lock);
	list_for_each(it, &device_named(device)->contexts)
		context_cq_error(container_of(it, struct fv_context, node));
	pthread_mutex_unlock(&fv_lock);
}

void fv_device_list(const char *name, bool listed)
{
	struct fv_device *dev = device_named(name);

	if (listed == (dev->listed || dev->comes))
		return;
	if (listed) {
		dev->comes = true;
	} else if (dev->comes) {
		dev->comes = false;
	} else {
		dev->listed = false;
		device_event(dev, IBV_EVENT_DEVICE_FATAL);
		fv_cm_removed(dev);
	}
}

void fv_devices_each(void (*each)(struct fv_device *dev, void *arg), void *arg)
{
	struct list *it;
	struct list *last;

	fv_devices_read();
	last = devices.prev;
	list_for_each(it, &devices) {
		struct fv_device *dev =
			container_of(it, struct fv_device, node);

		if (device_named(dev->base.name) == dev)
			each(dev, arg);
		if (it == last)
			break;
	}
}

static bool addr_is(const struct sockaddr_storage *addr, const char *text)
{
	char buf[INET6_ADDRSTRLEN];
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;
	const void *from = addr->ss_family == AF_INET
				   ? (const void *)&in->sin_addr
				   : (const void *)&in6->sin6_addr;

	return strcmp(inet_ntop(addr->ss_family, from, buf, sizeof(buf)),
		      text) == 0;
}

static void device_drop_addr(struct fv_device *dev, const char *text)
{
	for (unsigned int i = 0; i < dev->addr_cnt; i++) {
		if (!addr_is(&dev->addrs[i], text))
			continue;
		dev->addrs[i] = dev->addrs[--dev->addr_cnt];
		device_event(dev, IBV_EVENT_GID_CHANGE);
	}
}

FV_API void fake_move(const char *addr, const char *to)
{
	char text[INET6_ADDRSTRLEN];

	snprintf(text, sizeof(text), "%s", addr);
	pthread_mutex_lock(&fv_lock);
	for (struct fv_device *d = NULL; (d = fv_device_next(d));)
		device_drop_addr(d, addr);
	if (to) {
		device_read_addrs(device_named(to), text);
		device_event(device_named(to), IBV_EVENT_GID_CHANGE);
	}
	pthread_mutex_unlock(&fv_lock);
}

FV_API void fake_cm_event(const char *device, enum rdma_cm_event_type type)
{
	pthread_mutex_lock(&fv_lock);
	fv_cm_event(device_named(device), type);
	pthread_mutex_unlock(&fv_lock);
}

FV_API void fake_list(const char *device, bool listed)
{
	pthread_mutex_lock(&fv_lock);
	fv_device_list(device, listed);
	fv_plug_tell();
	pthread_mutex_unlock(&fv_lock);
}
