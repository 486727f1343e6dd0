/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin in a SPEC, and its parameters. Thread: any. */
#ifndef CONFIG_PLUGIN_SPEC_H
#define CONFIG_PLUGIN_SPEC_H

#include <stdbool.h>
#include <stddef.h>

/* A store or layer in a SPEC that is a plugin. */
struct plugin_spec {
	char name[256]; /* or a path with a slash; empty: no plugin */
	/* "KEY=VALUE" strings with their NULs; plugin_load.h checks them. */
	char args[2048];
	size_t args_len;
};

/* Adds "KEY=VALUE", or @key alone if @value is NULL. False: too long. */
bool plugin_spec_add(struct plugin_spec *spec, const char *key,
		     const char *value);

#endif
