/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open RBD image with a RADOS client of its own. Fencing affects a whole
 * client, so volumes never share one.
 *
 * Every call may block for the timeout of struct rbdp_config. Thread: any that
 * may block.
 */
#ifndef PLUGINS_RBD_IMAGE_H
#define PLUGINS_RBD_IMAGE_H

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The parameters of the SPEC. */
struct rbdp_config {
	char pool[128];
	char nspace[128]; /* empty: the default namespace */
	char name[256];
	char snap[256];		/* empty: the image itself */
	const char *conf;	/* NULL: Ceph's default places */
	const char *id;		/* of the client: "admin" is client.admin */
	const char *keyring;	/* NULL: from the configuration */
	unsigned int timeout_s; /* 0: no limit */
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
	/* A write has timed out. It may still be sent and done. */
	atomic_bool in_doubt;
};

/*
 * Seconds for which a fenced client stays on the blocklist: a year. The default
 * of a cluster is an hour. A target that was frozen for longer, for example
 * because its machine was paused, would then send its old writes.
 */
#define RBDP_FENCE_S 31536000u

/* The place for an error message. */
struct rbdp_msg {
	char *text;
	size_t len;
};

/* Writes a clause to @msg. Returns @err. */
int rbdp_refuse(const struct rbdp_msg *msg, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads POOL[/NAMESPACE]/IMAGE[@SNAP]. Returns 0, or -EINVAL and a clause. */
int rbdp_location_parse(const char *location, struct rbdp_config *cfg,
			const struct rbdp_msg *msg);

/* Returns 0. Otherwise a negative errno, with a clause in @msg, and nothing is
 * left open. */
int rbdp_image_open(const struct rbdp_config *cfg, struct rbdp_image *ret,
		    const struct rbdp_msg *msg);
/* Calls @changed on a thread of librbd when the size may have changed, until
 * rbdp_image_retire(). Returns 0 or a negative errno. */
int rbdp_image_watch(struct rbdp_image *img, rbd_update_callback_t changed,
		     void *user);
/* Call it before a close: ends the watch. From now on, no answer within 5 s is
 * an error. */
void rbdp_image_retire(struct rbdp_image *img);
/* Puts the client of @img on the blocklist. Nothing that it has sent is done
 * after this, and it cannot give the lock back. Returns 0 or a negative errno. */
int rbdp_image_shut_out(const struct rbdp_image *img);
/* Does nothing if @img is all zeroes. */
void rbdp_image_close(struct rbdp_image *img);

/* Identifies cluster, pool, image and snapshot by numbers that are never used
 * again. Returns 0 or a negative errno. */
int rbdp_image_identity(const struct rbdp_config *cfg,
			const struct rbdp_image *img, char *buf, size_t len);

/* Finds the object in the image's pool that describes it. Returns the same. */
int rbdp_image_header(const struct rbdp_image *img, char *buf, size_t len);

/* True if the image caches writes. Its metadata may override our setting. */
bool rbdp_image_has_cache(const struct rbdp_image *img);

/* True if whoever breaks the lock of the image also shuts its owner out. The
 * metadata of the image or its pool may override our setting. */
bool rbdp_image_is_fenced(const struct rbdp_image *img);

#endif
