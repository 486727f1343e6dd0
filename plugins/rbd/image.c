/* SPDX-License-Identifier: BSD-2-Clause */
#include "image.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Closing sends three requests to the cluster, one after the other, and must
 * also end if the cluster does not answer. Seconds for each. */
#define RBDP_CLOSE_TIMEOUT_S 5
#define RBDP_CLOSE_TIMEOUT   "5"

/* Seconds until a monitor must answer at open if the timeout is 0. */
#define RBDP_CONNECT_TIMEOUT_S 30u

/* A client whose lock is broken goes to the blocklist. */
#define RBDP_FENCES "rbd_blocklist_on_break_lock"

int rbdp_refuse(const struct rbdp_msg *msg, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg->text, msg->len, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- the location ---- */

/* Takes the first @len bytes of @from. False: there are none, or too many. */
static bool rbdp_take_word(char *to, size_t size, const char *from, size_t len)
{
	if (!len || len >= size)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

int rbdp_location_parse(const char *location, struct rbdp_config *cfg,
			const struct rbdp_msg *msg)
{
	const char *at = strchr(location, '@');
	const char *end = at ? at : location + strlen(location);
	const char *pool_end = memchr(location, '/', (size_t)(end - location));
	const char *name = pool_end;
	bool good = pool_end;

	/* The last slash is in front of the image name. */
	for (const char *p = pool_end; good && p < end; p++) {
		if (*p == '/')
			name = p;
	}
	good = good &&
	       rbdp_take_word(cfg->pool, sizeof(cfg->pool), location,
			      (size_t)(pool_end - location)) &&
	       rbdp_take_word(cfg->name, sizeof(cfg->name), name + 1,
			      (size_t)(end - name - 1));
	if (good && name != pool_end)
		good = rbdp_take_word(cfg->nspace, sizeof(cfg->nspace),
				      pool_end + 1,
				      (size_t)(name - pool_end - 1)) &&
		       !strchr(cfg->nspace, '/');
	if (good && at)
		good = rbdp_take_word(cfg->snap, sizeof(cfg->snap), at + 1,
				      strlen(at + 1));
	if (!good)
		return rbdp_refuse(msg, -EINVAL,
				   "is not POOL/IMAGE, POOL/NAMESPACE/IMAGE or "
				   "one of them with @SNAPSHOT");
	return 0;
}

/* ---- the cluster ---- */

static int rbdp_read_conf(rados_t cluster, const struct rbdp_config *cfg,
			  const struct rbdp_msg *msg)
{
	int err;

	/* If librados cannot read a file, it prints this on standard error. */
	if (cfg->conf && access(cfg->conf, R_OK))
		return rbdp_refuse(msg, -errno,
				   "cannot read the configuration %s: %s",
				   cfg->conf, strerror(errno));
	err = rados_conf_read_file(cluster, cfg->conf);
	if (err == -ENOENT)
		return rbdp_refuse(msg, err,
				   "no Ceph configuration, neither "
				   "$CEPH_CONF nor /etc/ceph/ceph.conf; name "
				   "one with conf=PATH");
	if (err)
		return rbdp_refuse(msg, err, "the configuration %s: %s",
				   cfg->conf ? cfg->conf : "of Ceph",
				   strerror(-err));
	if (cfg->keyring && access(cfg->keyring, R_OK))
		return rbdp_refuse(msg, -errno,
				   "cannot read the keyring %s: %s",
				   cfg->keyring, strerror(errno));
	return 0;
}

/* Sets the values of the SPEC, and those that rdma-target relies on. */
static int rbdp_set_conf(rados_t cluster, const struct rbdp_config *cfg,
			 const struct rbdp_msg *msg)
{
	char op_timeout[16];
	char mount_timeout[16];
	const char *const settings[][2] = {
		{ "keyring", cfg->keyring },
		{ "rados_osd_op_timeout", op_timeout },
		{ "rados_mon_op_timeout", op_timeout },
		{ "client_mount_timeout", mount_timeout },
		/* A write that has ended is stable. */
		{ "rbd_cache", "false" },
		{ "rbd_disable_zero_copy_writes",
		  cfg->zero_copy ? "false" : "true" },
		{ RBDP_FENCES, "true" },
		/* The cluster's default, which the gateway makes longer. In
		 * librbd 16, a break with another time fails. */
		{ "rbd_blocklist_expire_seconds", "0" },
		/* rdma-target reports errors itself. */
		{ "log_to_stderr", "false" },
		{ "err_to_stderr", "false" },
	};

	snprintf(op_timeout, sizeof(op_timeout), "%u", cfg->timeout_s);
	snprintf(mount_timeout, sizeof(mount_timeout), "%u",
		 cfg->timeout_s ? cfg->timeout_s : RBDP_CONNECT_TIMEOUT_S);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		int err = settings[i][1]
				  ? rados_conf_set(cluster, settings[i][0],
						   settings[i][1])
				  : 0;

		if (err)
			return rbdp_refuse(
				msg, err, "cannot set %s of Ceph to %s: %s",
				settings[i][0], settings[i][1], strerror(-err));
	}
	/*
	 * After a restart of an OSD, librados asks for the new map in the next
	 * tick. The default is 5 s. Versions of Ceph may lack the options.
	 *
	 * It asks for one map. If that is another one than the one with the
	 * restarted OSD, for example because a client was put on the blocklist,
	 * librados asks again only when an answer is late by objecter_timeout:
	 * 10 s by default. A takeover does both.
	 */
	rados_conf_set(cluster, "objecter_tick_interval", "1");
	rados_conf_set(cluster, "objecter_timeout", "2");
	return 0;
}

static int rbdp_explain_connect(int err, const struct rbdp_config *cfg,
				const struct rbdp_msg *msg)
{
	switch (err) {
	case -ETIMEDOUT:
		return rbdp_refuse(msg, err,
				   "no monitor of the cluster answers; check "
				   "'mon host' of the configuration, and that "
				   "the cluster is up (ceph -s)");
	case -ENOENT:
		return rbdp_refuse(msg, err,
				   "no key for client.%s, or no monitor; check "
				   "keyring=PATH, id=NAME and 'mon host' of "
				   "the configuration",
				   cfg->id);
	case -EACCES:
	case -EPERM:
	case -EINVAL:
		return rbdp_refuse(msg, err,
				   "the cluster refuses client.%s: its key or "
				   "its rights are wrong; check keyring=PATH "
				   "and id=NAME",
				   cfg->id);
	default:
		return rbdp_refuse(msg, err,
				   "cannot connect to the cluster: %s",
				   strerror(-err));
	}
}

static int rbdp_connect(const struct rbdp_config *cfg, rados_t *ret,
			const struct rbdp_msg *msg)
{
	char name[160];
	rados_t cluster;
	int err;

	snprintf(name, sizeof(name), "client.%s", cfg->id);
	err = rados_create2(&cluster, "ceph", name, 0);
	if (err)
		return rbdp_refuse(msg, err, "id=%s is no name of a client",
				   cfg->id);
	err = rbdp_read_conf(cluster, cfg, msg);
	if (!err)
		err = rbdp_set_conf(cluster, cfg, msg);
	if (!err) {
		err = rados_connect(cluster);
		if (err)
			rbdp_explain_connect(err, cfg, msg);
	}
	if (err) {
		rados_shutdown(cluster);
		return err;
	}
	*ret = cluster;
	return 0;
}

/* ---- the image ---- */

static int rbdp_open_pool(const struct rbdp_config *cfg, struct rbdp_image *img,
			  const struct rbdp_msg *msg)
{
	int err = rados_ioctx_create(img->cluster, cfg->pool, &img->pool);

	if (err == -ENOENT)
		return rbdp_refuse(msg, err,
				   "the cluster has no pool '%s'; 'ceph osd "
				   "pool ls' lists its pools",
				   cfg->pool);
	if (err)
		return rbdp_refuse(msg, err, "pool '%s': %s", cfg->pool,
				   strerror(-err));
	rados_ioctx_set_namespace(img->pool, cfg->nspace);
	return 0;
}

static int rbdp_explain_open(int err, const struct rbdp_config *cfg,
			     const struct rbdp_msg *msg)
{
	switch (err) {
	case -ENOENT:
		return rbdp_refuse(msg, err,
				   "there is no such image or snapshot; "
				   "'rbd ls --pool %s' lists the images",
				   cfg->pool);
	case -EPERM:
	case -EACCES:
		return rbdp_refuse(msg, err,
				   "client.%s may not open it; it needs "
				   "'profile rbd' for the monitors and for "
				   "pool %s",
				   cfg->id, cfg->pool);
	case -ETIMEDOUT:
		return rbdp_refuse(msg, err,
				   "the cluster has not answered for %u s; is "
				   "an OSD up? (ceph -s)",
				   cfg->timeout_s);
	default:
		return rbdp_refuse(msg, err, "cannot open the image: %s",
				   strerror(-err));
	}
}

int rbdp_image_open(const struct rbdp_config *cfg, struct rbdp_image *ret,
		    const struct rbdp_msg *msg)
{
	const char *snap = *cfg->snap ? cfg->snap : NULL;
	struct rbdp_image img = { .timeout_s = cfg->timeout_s };
	int err = rbdp_connect(cfg, &img.cluster, msg);

	if (err)
		return err;
	err = rbdp_open_pool(cfg, &img, msg);
	if (!err) {
		err = cfg->read_only
			      ? rbd_open_read_only(img.pool, cfg->name,
						   &img.image, snap)
			      : rbd_open(img.pool, cfg->name, &img.image, snap);
		if (err)
			rbdp_explain_open(err, cfg, msg);
	}
	if (err) {
		img.image = NULL;
		rbdp_image_close(&img);
		return err;
	}
	*ret = img;
	return 0;
}

int rbdp_image_watch(struct rbdp_image *img, rbd_update_callback_t changed,
		     void *user)
{
	int err = rbd_update_watch(img->image, &img->watch, changed, user);

	img->has_watch = !err;
	return err;
}

void rbdp_image_retire(struct rbdp_image *img)
{
	if (!img->timeout_s || img->timeout_s > RBDP_CLOSE_TIMEOUT_S) {
		rados_conf_set(img->cluster, "rados_osd_op_timeout",
			       RBDP_CLOSE_TIMEOUT);
		rados_conf_set(img->cluster, "rados_mon_op_timeout",
			       RBDP_CLOSE_TIMEOUT);
	}
	if (img->has_watch)
		rbd_update_unwatch(img->image, img->watch);
	img->has_watch = false;
}

int rbdp_image_shut_out(const struct rbdp_image *img)
{
	char *addresses = NULL;
	int err = rados_getaddrs(img->cluster, &addresses);

	if (!err)
		err = rados_blocklist_add(img->cluster, addresses,
					  RBDP_FENCE_S);
	/* What this client sends from now on tells the OSDs of the new map. */
	if (!err)
		err = rados_wait_for_latest_osdmap(img->cluster);
	free(addresses);
	return err;
}

void rbdp_image_close(struct rbdp_image *img)
{
	if (img->image)
		rbd_close(img->image);
	if (img->pool)
		rados_ioctx_destroy(img->pool);
	if (img->cluster)
		rados_shutdown(img->cluster);
	*img = (struct rbdp_image){ 0 };
}

/* ---- properties of an image ---- */

/* FNV-1a. Two namespaces of a pool may have images of the same id. */
static unsigned long long rbdp_hash(const char *text)
{
	unsigned long long h = 0xcbf29ce484222325ull;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h;
}

int rbdp_image_identity(const struct rbdp_config *cfg,
			const struct rbdp_image *img, char *buf, size_t len)
{
	uint64_t snap = 0;
	char fsid[40];
	char id[64];
	char nspace[24] = "";
	char at[24] = "";
	int res = rados_cluster_fsid(img->cluster, fsid, sizeof(fsid));

	if (res >= 0)
		res = rbd_get_id(img->image, id, sizeof(id));
	if (res >= 0 && *cfg->snap)
		res = rbd_snap_get_id(img->image, cfg->snap, &snap);
	if (res < 0)
		return res;
	if (*cfg->nspace)
		snprintf(nspace, sizeof(nspace), "%llx/",
			 rbdp_hash(cfg->nspace));
	if (*cfg->snap)
		snprintf(at, sizeof(at), "@%llu", (unsigned long long)snap);
	res = snprintf(buf, len, "%s/%lld/%s%s%s", fsid,
		       (long long)rados_ioctx_get_id(img->pool), nspace, id,
		       at);
	return res < (int)len ? 0 : -ENAMETOOLONG;
}

int rbdp_image_header(const struct rbdp_image *img, char *buf, size_t len)
{
	char id[64];
	int err = rbd_get_id(img->image, id, sizeof(id));

	if (!err)
		snprintf(buf, len, "rbd_header.%s", id);
	return err;
}

/* Finds the value of an option of librbd for this image: its metadata and that
 * of the pool override our settings. -ENOENT: there is no such option. */
static int rbdp_image_option(const struct rbdp_image *img, const char *name,
			     char *buf, size_t len)
{
	rbd_config_option_t *options = NULL;
	int cnt = 0;
	int res = rbd_config_image_list(img->image, NULL, &cnt);

	if (res == -ERANGE && cnt > 0)
		options = calloc((size_t)cnt, sizeof(*options));
	if (!options)
		return res == -ERANGE ? -ENOMEM : -EIO;
	res = rbd_config_image_list(img->image, options, &cnt);
	if (res < 0) {
		free(options);
		return res;
	}
	res = -ENOENT;
	for (int i = 0; i < cnt; i++) {
		if (strcmp(options[i].name, name) != 0)
			continue;
		snprintf(buf, len, "%s", options[i].value);
		res = 0;
	}
	rbd_config_image_list_cleanup(options, cnt);
	free(options);
	return res;
}

/* The option is known and has another value than @off, or nobody knows: a wrong
 * "yes" loses no writes. */
static bool rbdp_image_has(const struct rbdp_image *img, const char *option,
			   const char *off)
{
	char value[32];
	int err = rbdp_image_option(img, option, value, sizeof(value));

	return err ? err != -ENOENT : strcmp(value, off) != 0;
}

bool rbdp_image_has_cache(const struct rbdp_image *img)
{
	/* The second one keeps writes on a disk of this machine. */
	return rbdp_image_has(img, "rbd_cache", "false") ||
	       rbdp_image_has(img, "rbd_persistent_cache_mode", "disabled");
}

bool rbdp_image_is_fenced(const struct rbdp_image *img)
{
	char value[32];

	return !rbdp_image_option(img, RBDP_FENCES, value, sizeof(value)) &&
	       !strcmp(value, "true");
}
