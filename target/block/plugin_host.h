/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backends that are plugins: what lies between the backend contract (backend.h)
 * and the public header (plugins/rdma_block_plugin.h). What a plugin says and does
 * is checked here; nothing behind this file trusts it.
 */
#ifndef TARGET_BLOCK_PLUGIN_HOST_H
#define TARGET_BLOCK_PLUGIN_HOST_H

#include "target/block/backend.h"
#include "target/block/plugin_load.h"

/* For rdma_block_plugin_1(). Thread: any. */
const struct rbp_host *backend_plugin_host(void);

/*
 * Opens the store that opt->plugin names at opt->path, or puts the layer @spec
 * on @below, which it owns then, also when this fails. Thread: setup. 0, or a
 * negative errno with one clause in @e.
 */
extern const struct backend_ops backend_plugin;
int backend_plugin_add_layer(struct backend *below,
			     const struct plugin_spec *spec,
			     const struct backend_options *opt,
			     struct backend **ret, struct error *e);

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
