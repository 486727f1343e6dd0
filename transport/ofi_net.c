/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the instances of the tcp provider stand on: libfabric's fabric object,
 * of which a process has one, wait descriptors and memory. See ofi.c.
 */
#include "transport/ofi_internal.h"
#include "transport/ofi_lib.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- the fabric, one a process ---- */

static struct {
	pthread_mutex_t lock;
	unsigned int users;
	struct fi_info *info;
	struct fid_fabric *fid;
} net = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct fid_fabric *ofi_fabric(void)
{
	return net.fid;
}

struct fi_info *ofi_info(void)
{
	return fi_dupinfo(net.info);
}

static int net_hints(struct fi_info **ret_hints)
{
	struct fi_info *h = fi_allocinfo();

	if (!h)
		return -ENOMEM;
	h->fabric_attr->prov_name = strdup("tcp");
	if (!h->fabric_attr->prov_name) {
		fi_freeinfo(h);
		return -ENOMEM;
	}
	h->ep_attr->type = FI_EP_MSG;
	h->caps = FI_MSG | FI_RMA;
	/* Addresses count from the start of a region, and we choose the keys;
	 * both ask nothing of the provider. */
	h->domain_attr->mr_mode = 0;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->addr_format = FI_SOCKADDR;
	*ret_hints = h;
	return 0;
}

static void forget_addr(void **addr, size_t *len)
{
	free(*addr);
	*addr = NULL;
	*len = 0;
}

/* The attributes are of some interface; endpoints are to use any. */
static int net_open(struct xp_error *e)
{
	struct fi_info *hints;
	int err;

	err = ofi_lib_load(e);
	if (err)
		return err;
	err = net_hints(&hints);
	if (err) {
		xp_error_set(e, err, "out of memory");
		return err;
	}
	err = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &net.info);
	fi_freeinfo(hints);
	if (err) {
		xp_error_set(e, err,
			     "libfabric offers no tcp provider (%s); is "
			     "FI_PROVIDER set?",
			     fi_strerror(-err));
		return err;
	}
	forget_addr(&net.info->src_addr, &net.info->src_addrlen);
	forget_addr(&net.info->dest_addr, &net.info->dest_addrlen);
	err = fi_fabric(net.info->fabric_attr, &net.fid, NULL);
	if (err) {
		xp_error_set(e, err, "opening libfabric's tcp failed: %s",
			     fi_strerror(-err));
		fi_freeinfo(net.info);
	}
	return err;
}

int ofi_net_get(struct xp_error *e)
{
	int err = 0;

	pthread_mutex_lock(&net.lock);
	if (net.users == 0)
		err = net_open(e);
	if (!err)
		net.users++;
	pthread_mutex_unlock(&net.lock);
	return err;
}

void ofi_net_put(void)
{
	pthread_mutex_lock(&net.lock);
	if (--net.users == 0) {
		fi_close(&net.fid->fid);
		fi_freeinfo(net.info);
	}
	pthread_mutex_unlock(&net.lock);
}

/* ---- wait descriptors ---- */

static void watch_ready(struct reactor_watch *w, uint32_t events)
{
	bool *flag = container_of(w, struct ofi_watch, base)->flag;

	if (flag) /* not stopped */
		*flag = true;
}

static void watch_stopped(struct reactor_watch *w)
{
	free(container_of(w, struct ofi_watch, base));
}

struct ofi_watch *ofi_watch_start(struct reactor *r, int fd, bool *flag)
{
	struct ofi_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->flag = flag;
	w->base.fd = fd;
	w->base.events = POLLIN;
	w->base.ready = watch_ready;
	w->base.stopped = watch_stopped;
	reactor_watch_start(r, &w->base);
	return w;
}

void ofi_watch_stop(struct ofi_watch *w)
{
	if (!w)
		return;
	w->flag = NULL;
	reactor_watch_stop(&w->base);
}

/* ---- memory ---- */

/* SRP's descriptors have 32 bits for a key. */
static int mr_open(struct ofi_xp *xp, struct ofi_mr *mr, void *addr, size_t len)
{
	const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	uint32_t key;
	int err;

	do {
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return -EIO;
		err = fi_mr_reg(xp->domain, addr, len, access, 0, key, 0,
				&mr->fid, NULL);
	} while (err == -FI_ENOKEY); /* taken */
	return err;
}

int ofi_mr_register(struct xp *base, void *addr, size_t len,
		    enum xp_access access, struct xp_mr **ret_mr,
		    struct xp_error *e)
{
	struct ofi_mr *mr = calloc(1, sizeof(*mr));
	int err = mr ? 0 : -ENOMEM;

	if (mr && access == XP_REMOTE)
		err = mr_open(ofi_xp(base), mr, addr, len);
	if (err) {
		xp_error_set(e, err, "registering %zu bytes failed: %s", len,
			     fi_strerror(-err));
		free(mr);
		return err;
	}
	mr->base.xp = base;
	mr->base.addr = addr;
	mr->base.len = len;
	*ret_mr = &mr->base;
	return 0;
}

void ofi_mr_free(struct xp_mr *base)
{
	struct ofi_mr *mr = container_of(base, struct ofi_mr, base);

	if (mr->fid)
		fi_close(&mr->fid->fid);
	free(mr);
}

void ofi_mr_remote(const struct xp_mr *base, const struct xp_chan *ch,
		   const void *ptr, uint64_t *ret_addr, uint32_t *ret_key)
{
	const struct ofi_mr *mr = container_of(base, struct ofi_mr, base);

	assert(mr->fid);
	*ret_addr = (uintptr_t)ptr - (uintptr_t)base->addr;
	*ret_key = (uint32_t)fi_mr_key(mr->fid);
}
