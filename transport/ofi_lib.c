/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric is not linked, so that programs start without it: it brings a dozen
 * libraries along, one of which sleeps for 0.2 s while it is loaded. Few of its
 * functions are symbols; the others are inline, and go through tables. Those few
 * are defined here, and lead to the library.
 */
#include "transport/ofi_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "transport/list.h"

static struct {
	int (*getinfo)(uint32_t version, const char *node, const char *service,
		       uint64_t flags, const struct fi_info *hints,
		       struct fi_info **ret_info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **ret_fid,
		      void *context);
	const char *(*strerror)(int err);
} lib;

/*
 * With the versions of libfabric 1.17, which later ones have as well. The headers
 * may be later ones, too: structures only grow at the end, and all of those that
 * have grown are made by the library.
 */
static const struct {
	const char *name;
	const char *version;
	void *fn; /* a pointer into lib */
} symbols[] = {
	{ "fi_getinfo", "FABRIC_1.3", &lib.getinfo },
	{ "fi_dupinfo", "FABRIC_1.3", &lib.dupinfo },
	{ "fi_freeinfo", "FABRIC_1.3", &lib.freeinfo },
	{ "fi_fabric", "FABRIC_1.1", &lib.fabric },
	{ "fi_strerror", "FABRIC_1.0", &lib.strerror },
};

static int failed(struct xp_error *e)
{
	xp_error_set(e, -ENOTSUP,
		     "srp+ofi:// needs libfabric, which cannot be loaded (%s): "
		     "install libfabric1, or use srp+tcp://",
		     dlerror());
	return -ENOTSUP;
}

int ofi_lib_load(struct xp_error *e)
{
	static bool loaded;
	void *so;

	if (loaded)
		return 0;
	so = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return failed(e);
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *fn = dlvsym(so, symbols[i].name, symbols[i].version);

		if (!fn)
			return failed(e);
		*(void **)symbols[i].fn = fn;
	}
	loaded = true;
	return 0;
}

/* ---- what libfabric's headers declare ---- */

int fi_getinfo(uint32_t version, const char *node, const char *service,
	       uint64_t flags, const struct fi_info *hints,
	       struct fi_info **info)
{
	return lib.getinfo(version, node, service, flags, hints, info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return lib.dupinfo(info);
}

void fi_freeinfo(struct fi_info *info)
{
	lib.freeinfo(info);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
	      void *context)
{
	return lib.fabric(attr, fabric, context);
}

const char *fi_strerror(int err)
{
	return lib.strerror(err);
}
