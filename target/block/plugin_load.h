/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds and loads plugins (plugins/rdma_block_plugin.h), and reads their
 * parameters in a SPEC. A plugin is loaded once and stays until the process
 * ends, because its threads may outlive its volumes.
 *
 * Thread: setup.
 */
#ifndef TARGET_BLOCK_PLUGIN_LOAD_H
#define TARGET_BLOCK_PLUGIN_LOAD_H

#include <stdbool.h>

#include "base/error.h"
#include "config/plugin_spec.h"
#include "plugins/rdma_block_plugin.h"

/*
 * Loads the plugin @name: the file of this path if it has a slash; else
 * rdma-block-plugin-NAME.so in the directories of $RDMA_BLOCK_PLUGIN_PATH, then
 * in LIBDIR/rdma-block. The file must belong to root or to the user of the
 * process, and no other user may be able to write to it. Return: 0, or a
 * negative errno with one clause in @e. *ret is valid until the process ends.
 */
int plugin_load(const char *name, const struct rbp_plugin **ret,
		struct error *e);

/* Stores the directory that it looks into as number @i, from 0 on. False: there are not so
 * many. */
bool plugin_load_dir(unsigned int i, char *dir, size_t len);

/* plugin_load() of a store has failed: adds that "NAME:..." may be a path. */
void plugin_load_advise(const char *name, struct error *e);

/*
 * Checks the parameters of @spec against those of @plugin, and adds the
 * defaults. Return: 0, or -EINVAL with one clause in @e. Free *ret with free().
 */
int plugin_args(const struct rbp_plugin *plugin, const struct plugin_spec *spec,
		struct rbp_arg **ret, struct error *e);

/* The same, without the defaults. */
int plugin_args_given(const struct rbp_plugin *plugin,
		      const struct plugin_spec *spec, struct rbp_arg **ret,
		      struct error *e);

/* RBP_NEEDS_ bits of all plugins that are loaded. */
uint32_t plugin_needs(void);

#endif
