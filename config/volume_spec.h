/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SPEC: what --backing, a configuration and rdma-ctl say about one volume.
 *
 * Thread: any. Nothing here opens or loads anything.
 */
#ifndef CONFIG_VOLUME_SPEC_H
#define CONFIG_VOLUME_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/access.h"
#include "config/fault_rule.h"
#include "config/option_limits.h"
#include "config/plugin_spec.h"

struct backend_type;
struct given_file;
struct option_table;

#define VOLUME_LAYERS_MAX 4

/* What keeps the blocks. */
enum volume_store {
	VOLUME_STORE_FILE, /* a file or a device of this machine, at its path */
	VOLUME_STORE_RAM,
	VOLUME_STORE_NULL,
	VOLUME_STORE_PLUGIN,
};

/* SPEC: PATH | ram:SIZE | null:SIZE | PLUGIN:LOCATION [,name=N][,ro][,block-size=512|4096]
 *       [,direct=on|off][,write-through][,removable][,serial=S]
 *       [,lun=N][,allow=RULE]...[,fault=RULE]...
 *       [,layer=PLUGIN]...[,PARAM=VALUE]... */
struct volume_spec {
	enum volume_store store;
	const struct backend_type *type; /* a store that no SPEC names; or NULL */
	char path[4096];		 /* or the size text */
	char name[64];	 /* empty: from the path, or kind and LUN */
	char serial[33]; /* empty: derived */
	bool read_only;
	uint32_t block_size; /* bytes, 512 by default */
	int direct;	     /* 1, 0, -1 = automatic */
	bool write_through;
	bool has_lun;
	unsigned int lun;
	struct access_rules allow;
	bool removable; /* START STOP UNIT can take the medium out */
	unsigned int fault_cnt;
	struct fault_rule faults[FAULT_RULES_MAX];
	bool submit_all; /* no memory in place: the backend gets every request */
	struct plugin_spec plugin; /* of VOLUME_STORE_PLUGIN */
	unsigned int layer_cnt;
	struct plugin_spec layers[VOLUME_LAYERS_MAX]; /* lowest first */
	struct given_file *given; /* see backend_options; NULL after parsing */
};

/* The options of a SPEC; volume_spec_parse() stores them in a volume_spec. */
extern const struct option_table volume_option_table; /* base/option.h */

/*
 * Reads a --backing argument. False, with one clause in @e, if it is wrong. A
 * comma or backslash in PATH has a backslash before it; a file named "ram:x" is written
 * "./ram:x". PLUGIN is a name, or the path of a file that ends with ".so". A
 * KEY that is no option of volumes is a parameter of the plugin before it.
 * volume_open() checks whether the plugin knows it.
 */
bool volume_spec_parse(const char *text, struct volume_spec *ret_spec,
		       struct error *e);

/*
 * The same piece by piece, without backslashes: @store is what a SPEC begins with. Options
 * follow by option_set(), and parameters of the plugin that was named last. @value: NULL:
 * @key alone. False, with one clause in @e: refused.
 */
bool volume_spec_begin(struct volume_spec *spec, const char *store,
		       struct error *e);
bool volume_spec_add_parameter(struct volume_spec *spec, const char *key,
			       const char *value, struct error *e);

/* Copies the text up to the next comma, with "\," as a comma and "\\" as a backslash, and
 * moves *text past that comma. *text is NULL after the last piece. False: it is longer than
 * @len. */
bool volume_spec_next_piece(const char **text, char *buf, size_t len);

/* True if @store, what a SPEC begins with, begins with a path: of a file, a block device, or
 * a plugin. */
bool volume_store_is_path(const char *store);

#endif
