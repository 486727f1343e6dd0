/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_parameters.h"

#include <stdio.h>
#include <string.h>

#include "target/block/plugin_host.h"

/* Returns the part of @vol that has the parameters of @plugin; NULL: none. */
static json_t *manage_find_plugin(json_t *vol, const char *plugin)
{
	const char *store = config_get_text(vol, "store");
	json_t *layers = json_object_get(vol, "layer");
	size_t len = strlen(plugin);

	for (size_t i = json_array_size(layers); i > 0; i--) {
		json_t *layer = json_array_get(layers, i - 1);
		const char *name = config_get_text(layer, "plugin");

		if (!strcmp(name, plugin))
			return layer;
	}
	return !strncmp(store, plugin, len) && store[len] == ':' ? vol : NULL;
}

static bool manage_fill_spec(struct plugin_spec *spec, const char *plugin,
			     const json_t *parameters)
{
	const char *key;
	json_t *value;

	if (strlen(plugin) >= sizeof(spec->name))
		return false;
	strcpy(spec->name, plugin);
	json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
		if (!plugin_spec_add(spec, key, json_string_value(value)))
			return false;
	}
	return true;
}

static void manage_note_owner(json_t *owner, const json_t *parameters)
{
	json_t *is = json_object_get(owner, "parameters");

	if (!is)
		json_object_set(owner, "parameters",
				(json_t *)(uintptr_t)parameters);
	else
		json_object_update(is, (json_t *)(uintptr_t)parameters);
}

static const json_t *manage_group_of(const json_t *owner)
{
	return json_object_get(json_object_get(owner, "parameters"), "group");
}

/* The parameters of a group are those of all its volumes. With others for some of them, a
 * configuration that is saved would be refused at the next start. */
static void manage_note_parameters(struct manage *m, const char *name,
				   const char *plugin, const json_t *parameters)
{
	json_t *config = manage_edit(m);
	json_t *vol = manage_find_in(config, name);
	json_t *owner = vol ? manage_find_plugin(vol, plugin) : NULL;
	const json_t *group = manage_group_of(owner);
	size_t i;

	manage_note_owner(owner, parameters);
	json_array_foreach(json_object_get(config, "backing"), i, vol) {
		json_t *other = manage_find_plugin(vol, plugin);

		if (group && other && other != owner &&
		    json_equal(manage_group_of(other), group))
			manage_note_owner(other, parameters);
	}
}

bool manage_set_parameters(struct manage *m, const char *name,
			   const char *plugin, const json_t *parameters,
			   struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct plugin_spec spec = { .args_len = 0 };
	char object[MANAGE_LABEL_SIZE];
	struct error e;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (!manage_find_plugin(manage_find(m, name), plugin))
		return manage_refuse_volume(f, name, plugin,
					    "the volume has no such plugin");
	if (!manage_fill_spec(&spec, plugin, parameters))
		return manage_refuse_volume(f, name, plugin,
					    "the parameters are too long");
	if (backend_set_params(vol->dev.backend, &spec, &e))
		return manage_refuse_volume(f, name, plugin, e.text);
	manage_note_parameters(m, name, plugin, parameters);
	manage_log_change("change", manage_label(name, object), plugin);
	return true;
}
