/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The volumes that a mount shows.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_MOUNT_VOLUMES_H
#define FUSE_MOUNT_VOLUMES_H

#include "fuse/mount.h"
#include "fuse/options.h"
#include "fuse/tree.h"

struct notify;

/* What follows the volumes of a session. */
struct mount_volumes {
	const struct mount *mount;
	struct tree *tree;
	struct dev *dev;
	struct reactor *reactor;
	struct notify *notify;
	uint32_t edge; /* bytes: the longest block that requests have room for */
};

/* True if files appear and vanish with the volumes of the target. False for a mount
 * of one volume: it never shows another disk. */
bool mount_volumes_follow(const struct fuse_options *o, const struct mount *m);

/**
 * mount_volumes_make() - choose the volumes of the mount and make its tree
 * @s:        logged in
 * @ret_tree: written only on success; free it with tree_free()
 *
 * Return: 0, or a negative errno with @e set: there is no such volume, a regular
 *   file cannot show several volumes, or a volume cannot be mounted.
 */
int mount_volumes_make(const struct fuse_options *o, const struct mount *m,
		       struct srpi_session *s, struct tree **ret_tree,
		       struct error *e);

/* Something has happened to a volume: the file appears, vanishes or changes. @why:
 * of SRPI_VOLUME_GONE. */
void mount_volumes_event(struct mount_volumes *mv, unsigned int volume,
			 enum srpi_volume_event event, const char *why);

/* Logs a line for each file of the mount. */
void mount_volumes_log(const struct mount *m, const struct tree *t);

#endif
