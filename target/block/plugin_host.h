/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma-target does for plugins that are loaded (struct rbp_host), beside their
 * I/O (block_io.h): their log, their events, and what they say has changed.
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
 * Changes parameters of a volume that is served: those that @spec gives, of the
 * plugin that it names; of several layers of that name, of the uppermost. All or
 * none change. Return: 0; -ENOENT: the volume has no such plugin; -ENOTSUP: the
 * plugin cannot; -EINVAL, or what the plugin says; with one clause in @e.
 * Thread: any; @base stays open. Does not block.
 */
int backend_set_params(struct backend *base, const struct plugin_spec *spec,
		       struct error *e);

/*
 * @changed is called when a plugin says that a volume has another size; NULL:
 * no more, and no call is under way. Thread: setup; @changed is called on any.
 */
void backend_plugin_on_resize(void (*changed)(void *user), void *user);
/* Has it called. Thread: any. */
void backend_plugin_look(void);

#endif
