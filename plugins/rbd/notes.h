/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The notes of an image (rdma_block_plugin.h). They are stored in the omap of
 * the image's header object, and are removed together with the image: the bytes
 * under "rdma_block.notes", their version, in decimal, under
 * "rdma_block.notes.version". Both change in one operation, which the OSD does
 * only if the version is the one that is expected.
 *
 * Also the messages of gateways about notes: a notification and its answers.
 *
 * Thread: functions that access the cluster block; any thread that may block.
 */
#ifndef PLUGINS_RBD_NOTES_H
#define PLUGINS_RBD_NOTES_H

#include <rados/librados.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma_block_plugin.h>

struct rbdp_notes {
	uint64_t version;
	size_t len;
	uint8_t data[RBP_NOTES_MAX];
};

/* Reads the notes in @object, the header of an image. Returns 0, or a negative
 * errno: -EBADMSG if the data there is no notes. */
int rbdp_notes_read(rados_ioctx_t pool, const char *object,
		    struct rbdp_notes *ret);

/* Reads only the version. Returns the same. */
int rbdp_notes_read_version(rados_ioctx_t pool, const char *object,
			    uint64_t *ret);

/* Like rbp_plugin.put_notes, but does not tell other targets. */
int rbdp_notes_put(rados_ioctx_t pool, const char *object, uint64_t version,
		   const void *data, size_t len);

/* "Gateway GROUP, active or not, has put these notes." */
struct rbdp_news {
	unsigned int group; /* 1 ... 9 */
	bool is_active;
	uint64_t version;
	const void *data;
	size_t len;
};

#define RBDP_NEWS_HEADER_LEN 10
#define RBDP_NEWS_MAX	     (RBDP_NEWS_HEADER_LEN + RBP_NOTES_MAX)

/* Writes up to RBDP_NEWS_MAX bytes. Returns how many. */
size_t rbdp_news_encode(const struct rbdp_news *news, uint8_t *buf);
/* @ret borrows @buf. False: @buf has something else. */
bool rbdp_news_decode(const void *buf, size_t len, struct rbdp_news *ret);

#endif
