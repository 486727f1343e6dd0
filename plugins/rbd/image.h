/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An RBD image that is open, with a RADOS client of its own. Fencing hits a whole
 * client, so no two volumes share one.
 *
 * Every call may block for the timeout of struct rbdp_config. Thread: any that
 * may block.
 */
#ifndef PLUGINS_RBD_IMAGE_H
#define PLUGINS_RBD_IMAGE_H

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdbool.h>
#include <stddef.h>

/* What the SPEC says. */
struct rbdp_config {
	char pool[128];
	char nspace[128]; /* empty: the default one */
	char name[256];
	char snap[256];		/* empty: the image itself */
	const char *conf;	/* NULL: where Ceph looks for it */
	const char *id;		/* of the client: "admin" is client.admin */
	const char *keyring;	/* NULL: as the configuration says */
	unsigned int timeout_s; /* 0: for ever */
	bool zero_copy;
	bool read_only;
};

struct rbdp_image {
	rados_t cluster;
	rados_ioctx_t pool;
	rbd_image_t image;
	unsigned int timeout_s;
	bool has_watch;
	uint64_t watch;
};

/* Where an error message goes. */
struct rbdp_msg {
	char *text;
	size_t len;
};

/* Writes a clause to @msg. Return: @err. */
int rbdp_refuse(const struct rbdp_msg *msg, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads POOL[/NAMESPACE]/IMAGE[@SNAP]. Return: 0, or -EINVAL and a clause. */
int rbdp_location_parse(const char *location, struct rbdp_config *cfg,
			const struct rbdp_msg *msg);

/* Return: 0, or a negative errno, a clause in @msg and nothing left open. */
int rbdp_image_open(const struct rbdp_config *cfg, struct rbdp_image *ret,
		    const struct rbdp_msg *msg);
/* Calls @changed on a thread of librbd, until
 * rbdp_image_retire(), when it may
 * have another size. 0 or a negative errno. */
int rbdp_image_watch(struct rbdp_image *img, rbd_update_callback_t changed,
		     void *user);
/* Before a close: the watch ends, and 5 s without an answer are an error. */
void rbdp_image_retire(struct rbdp_image *img);
/* All zero: nothing is done. */
void rbdp_image_close(struct rbdp_image *img);

/* Cluster, pool, image and snapshot, by numbers that are never used again.
 * Return: 0 or a negative errno. */
int rbdp_image_identity(const struct rbdp_config *cfg,
			const struct rbdp_image *img, char *buf, size_t len);

/* The object in the image's pool that describes it. The same. */
int rbdp_image_header(const struct rbdp_image *img, char *buf, size_t len);

/* Does the image cache writes? Its metadata may say so against our wish. */
bool rbdp_image_has_cache(const struct rbdp_image *img);

#endif
