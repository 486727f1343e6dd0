/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma-target does for loaded plugins (struct rbp_host) besides their I/O
 * (block_io.h): their log, their events, and changes that they report.
 */
#ifndef TARGET_BLOCK_PLUGIN_HOST_H
#define TARGET_BLOCK_PLUGIN_HOST_H

#include "base/error.h"
#include "plugins/rdma_block_plugin.h"

struct backend;
struct plugin_spec;

/* For rdma_block_plugin_1(). Thread: any. */
const struct rbp_host *backend_plugin_host(void);

/* rbp_host.log(). Thread: any. */
void plugin_host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Changes parameters of a volume that is being served. @spec names the plugin
 * and the parameters. If several layers have that name, the uppermost one
 * changes. All parameters change, or none. Return: 0; -ENOENT: the volume has
 * no such plugin; -ENOTSUP: the plugin cannot change them; -EINVAL, or what the
 * plugin returns; with one clause in @e. Thread: any; @base stays open. Does
 * not block.
 */
int backend_set_params(struct backend *base, const struct plugin_spec *spec,
		       struct error *e);

/*
 * Calls @changed when a plugin says that the size of a volume has changed.
 * NULL: calls nothing any more, and no call is under way. Thread: setup; of
 * @changed any.
 */
void backend_plugin_on_resize(void (*changed)(void *user), void *user);
/* Has the function called now. Thread: any. */
void backend_plugin_look(void);

#endif
