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

/* Logs a line for each file of the mount. */
void mount_volumes_log(const struct mount *m, const struct tree *t);

#endif
