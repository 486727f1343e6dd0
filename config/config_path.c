/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/config_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/config_json.h"
#include "config/options.h"

/* NULL: no memory. */
static char *path_join(const char *dir, const char *path)
{
	char *whole;

	return asprintf(&whole, "%s%s%s", dir, strcmp(dir, "/") ? "/" : "",
			path) < 0
		       ? NULL
		       : whole;
}

static int path_set_absolute(json_t *owner, const char *key, const char *dir)
{
	const char *path = config_get_text(owner, key);
	_cleanup_free_ char *whole = NULL;

	if (!path || *path == '/')
		return 0;
	whole = path_join(dir, path);
	if (!whole || json_object_set_new(owner, key, json_string(whole)))
		return -ENOMEM;
	return 0;
}

static int path_set_volume(json_t *vol, const char *dir)
{
	const char *store = config_get_text(vol, "store");
	json_t *layer;
	int err = 0;
	size_t i;

	if (store && volume_store_is_path(store))
		err = path_set_absolute(vol, "store", dir);
	json_array_foreach(json_object_get(vol, "layer"), i, layer) {
		const char *plugin = config_get_text(layer, "plugin");

		if (!err && plugin && strchr(plugin, '/'))
			err = path_set_absolute(layer, "plugin", dir);
	}
	return err;
}

/* A path option with a word in place of a path. */
static bool path_is_word(const json_t *config, const char *option)
{
	const char *value = config_get_text(config, option);

	return value && !strcmp(option, "state-dir") &&
	       !strcmp(value, OPTIONS_STATE_NONE);
}

static int path_set_all(json_t *config, const char *dir)
{
	const struct option_table *t = &target_option_table;
	json_t *vol;
	int err = 0;
	size_t i;

	for (unsigned int k = 0; k < t->cnt && !err; k++) {
		const struct option_row *row = &t->rows[k];

		if (!row->keys &&
		    (row->type == OPTION_PATH || row->type == OPTION_DIR) &&
		    !path_is_word(config, row->name))
			err = path_set_absolute(config, row->name, dir);
	}
	json_array_foreach(json_object_get(config, "backing"), i, vol) {
		if (!err)
			err = path_set_volume(vol, dir);
	}
	return err;
}

static int path_set(json_t *json, const char *dir,
		    int (*set)(json_t *json, const char *dir))
{
	_cleanup_free_ char *here = dir ? NULL : getcwd(NULL, 0);

	if (!dir && !here)
		return -errno;
	return set(json, dir ? dir : here);
}

int config_make_absolute(json_t *config, const char *dir)
{
	return path_set(config, dir, path_set_all);
}

int config_make_volume_absolute(json_t *vol, const char *dir)
{
	return path_set(vol, dir, path_set_volume);
}

char *config_path_of(const char *path)
{
	_cleanup_free_ char *here = *path == '/' ? NULL : getcwd(NULL, 0);

	if (*path == '/')
		return strdup(path);
	return here ? path_join(here, path) : NULL;
}

char *config_dir_of(const char *path)
{
	char *dir = config_path_of(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (slash)
		slash[slash == dir] = '\0';
	return dir;
}
