/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/config_volume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Keys of objects that are no options. */
#define CONFIG_STORE	  "store"
#define CONFIG_PARAMETERS "parameters"
#define CONFIG_PLUGIN	  "plugin"
#define CONFIG_LAYER	  "layer"

/* Finds the object with @name, or adds it. */
static json_t *config_get_or_make(json_t *in, const char *name,
				  json_t *(*make)(void))
{
	json_t *is = json_object_get(in, name);

	if (is)
		return is;
	json_object_set_new(in, name, make());
	return json_object_get(in, name);
}

/* ---- parameters of plugins ---- */

/* Its canonical form: a text, or true without a value. NULL: refused. */
static json_t *config_parameter(const char *key, const json_t *value,
				const char *place, struct config_fault *fault)
{
	char at[CONFIG_PLACE_SIZE];

	snprintf(at, sizeof(at), "%.100s.parameters.%.60s", place, key);
	if (option_find(&volume_option_table, OPTION_SPEC, key, strlen(key)))
		config_refuse(fault, at,
			      "'%s' is an option of volumes, and no parameter "
			      "of a plugin",
			      key);
	else if (json_is_null(value))
		config_refuse(fault, at,
			      "parameter '%.64s' is given twice, or null", key);
	else if (*key && !strchr(key, '=') && json_is_integer(value))
		return json_sprintf("%lld",
				    (long long)json_integer_value(value));
	else if (*key && !strchr(key, '=') &&
		 (json_is_string(value) || json_is_true(value)))
		return json_copy((json_t *)(uintptr_t)value);
	else
		config_refuse(fault, at,
			      "parameter '%.64s' is not a text or a number",
			      key);
	return NULL;
}

json_t *config_check_plugin(const json_t *parameters, const char *place,
			    struct config_fault *fault)
{
	json_t *to = json_object();
	bool good = json_is_object(parameters) ||
		    config_refuse(fault, place,
				  "'parameters' is not an object: {\"KEY\": "
				  "\"VALUE\", ...}");
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
		json_t *is = config_parameter(key, value, place, fault);

		good = is && !json_object_set_new(to, key, is);
		if (!good)
			break;
	}
	if (good)
		return to;
	json_decref(to);
	return NULL;
}

/* ---- volumes ---- */

/* A volume that is read. */
struct config_reader {
	struct volume_spec *spec;
	json_t *to; /* its canonical form */
	struct config_fault *fault;
};

static bool read_store(struct config_reader *r, const json_t *vol,
		       const char *place)
{
	const char *store = config_get_text(vol, CONFIG_STORE);
	struct error e;

	if (!store)
		return config_refuse(r->fault, place,
				     "a volume needs 'store': a path, "
				     "\"ram:SIZE\", \"null:SIZE\" or "
				     "\"PLUGIN:LOCATION\"");
	json_object_set_new(r->to, CONFIG_STORE, json_string(store));
	return volume_spec_begin(r->spec, store, &e) ||
	       config_refuse(r->fault, place, "%s", e.text);
}

/* @owner is the volume, or a layer, and @to its canonical form. */
static bool read_parameters(struct config_reader *r, const json_t *owner,
			    json_t *to, const char *place)
{
	const json_t *given = json_object_get(owner, CONFIG_PARAMETERS);
	json_t *parameters =
		given ? config_check_plugin(given, place, r->fault) : NULL;
	bool good = parameters || !given;
	struct error e;
	const char *key;
	json_t *value;

	json_object_foreach(parameters, key, value) {
		good = volume_spec_add_parameter(
			       r->spec, key, json_string_value(value), &e) ||
		       config_refuse(r->fault, place, "%s", e.text);
		if (!good)
			break;
	}
	if (json_object_size(parameters))
		json_object_set(to, CONFIG_PARAMETERS, parameters);
	json_decref(parameters);
	return good;
}

static bool read_set(struct config_reader *r, const struct option_row *row,
		     const char *text, const char *place)
{
	struct error e;

	return option_set(row, OPTION_SPEC, r->spec, text, &e) ||
	       config_refuse(r->fault, place, "%s", e.text);
}

static bool read_layer(struct config_reader *r, const struct option_row *row,
		       const json_t *layer, const char *place)
{
	const json_t *plugin = json_is_object(layer)
				       ? json_object_get(layer, CONFIG_PLUGIN)
				       : layer;
	size_t known = !!plugin + !!json_object_get(layer, CONFIG_PARAMETERS);
	json_t *to;

	if (!json_is_string(plugin) ||
	    (json_is_object(layer) && json_object_size(layer) != known))
		return config_refuse(r->fault, place,
				     "'layer' is not the name of a plugin, or "
				     "{\"plugin\": NAME, \"parameters\": "
				     "{...}}");
	to = json_pack("{ss}", CONFIG_PLUGIN, json_string_value(plugin));
	json_array_append_new(
		config_get_or_make(r->to, CONFIG_LAYER, json_array), to);
	return read_set(r, row, json_string_value(plugin), place) &&
	       read_parameters(r, layer, to, place);
}

static json_t *read_canonical(const struct config_reader *r,
			      const struct option_row *row, const char *text)
{
	if (row->type == OPTION_FLAG)
		return json_true();
	if (row->type == OPTION_NUMBER || row->type == OPTION_SIZE)
		return config_canonical(row, r->spec, text);
	return json_string(text);
}

static bool read_value(struct config_reader *r, const struct option_row *row,
		       const json_t *value, const char *place)
{
	char text[CONFIG_VALUE_SIZE];
	json_t *is;

	if (!strcmp(row->name, CONFIG_LAYER))
		return read_layer(r, row, value, place);
	if (!config_value_text(row, value, text, place, r->fault))
		return false;
	if (json_is_false(value))
		return true;
	if (!read_set(r, row, row->type == OPTION_FLAG ? NULL : text, place))
		return false;
	is = read_canonical(r, row, text);
	if (row->again)
		json_array_append(
			config_get_or_make(r->to, row->name, json_array), is);
	else if (!config_is_default(row, is))
		json_object_set(r->to, row->name, is);
	json_decref(is);
	return true;
}

static bool read_key(struct config_reader *r, const char *key,
		     const json_t *value, const char *place)
{
	const struct option_row *row = option_find(
		&volume_option_table, OPTION_SPEC, key, strlen(key));
	char at[CONFIG_PLACE_SIZE + 32];
	bool good = true;
	json_t *list;
	json_t *one;
	size_t i;

	if (!row)
		return config_refuse_key(r->fault, place, &volume_option_table,
					 key);
	if (!row->again || !json_is_array(value))
		return read_value(r, row, value, place);
	list = config_elements(row, value);
	json_array_foreach(list, i, one) {
		snprintf(at, sizeof(at), "%s[%zu]", place, i);
		good = good && read_value(r, row, one, at);
	}
	json_decref(list);
	return good;
}

static bool read_volume(struct config_reader *r, const json_t *vol,
			const char *place)
{
	char at[CONFIG_PLACE_SIZE];
	const char *key;
	json_t *value;

	/* Parameters belong to the plugin before them. */
	if (!read_store(r, vol, place) ||
	    !read_parameters(r, vol, r->to, place))
		return false;
	json_object_foreach((json_t *)(uintptr_t)vol, key, value) {
		if (!strcmp(key, CONFIG_STORE) ||
		    !strcmp(key, CONFIG_PARAMETERS))
			continue;
		snprintf(at, sizeof(at), "%.120s.%.60s", place, key);
		if (!read_key(r, key, value, at))
			return false;
	}
	return true;
}

static json_t *config_read_volume(const json_t *vol, const char *place,
				  struct volume_spec *spec,
				  struct config_fault *fault)
{
	struct config_reader r = { spec, json_object(), fault };

	if (read_volume(&r, vol, place))
		return r.to;
	json_decref(r.to);
	return NULL;
}

/* ---- SPECs ---- */

/* @owner is the volume, or the last layer. */
static void config_take_parameter(json_t *owner, const char *key,
				  const char *value)
{
	json_t *in = config_get_or_make(owner, CONFIG_PARAMETERS, json_object);

	/* Given twice: config_parameter() refuses it. */
	if (json_object_get(in, key))
		json_object_set_new(in, key, json_null());
	else
		json_object_set_new(in, key,
				    value ? json_string(value) : json_true());
}

static json_t *config_take_piece(json_t *vol, json_t *owner, char *piece)
{
	char *value = strchr(piece, '=');
	const struct option_row *row;
	json_t *list;

	if (value)
		*value++ = '\0';
	row = option_find(&volume_option_table, OPTION_SPEC, piece,
			  strlen(piece));
	if (!row) {
		config_take_parameter(owner, piece, value);
		return owner;
	}
	if (!row->again) {
		json_object_set_new(vol, row->name,
				    value ? json_string(value) : json_true());
		return owner;
	}
	list = config_get_or_make(vol, row->name, json_array);
	if (strcmp(row->name, CONFIG_LAYER) != 0) {
		json_array_append_new(list, json_string(value));
		return owner;
	}
	json_array_append_new(list, json_pack("{ss}", CONFIG_PLUGIN, value));
	return json_array_get(list, json_array_size(list) - 1);
}

/* Of a SPEC that volume_spec_parse() takes. NULL: no memory. */
static json_t *config_split_spec(const char *spec)
{
	const size_t len = strlen(spec) + 1;
	_cleanup_free_ char *piece = malloc(len);
	json_t *vol = piece ? json_object() : NULL;
	json_t *owner = vol;

	if (!vol)
		return NULL;
	volume_spec_next_piece(&spec, piece, len);
	json_object_set_new(vol, CONFIG_STORE, json_string(piece));
	while (spec) {
		volume_spec_next_piece(&spec, piece, len);
		owner = config_take_piece(vol, owner, piece);
	}
	return vol;
}

static json_t *config_read_spec(const char *text, const char *place,
				struct volume_spec *spec,
				struct config_fault *fault)
{
	struct error e;
	json_t *vol;
	json_t *to;

	if (!volume_spec_parse(text, spec, &e)) {
		config_refuse(fault, place, "%s", e.text);
		return NULL;
	}
	vol = config_split_spec(text);
	to = config_read_volume(vol, place, spec, fault);
	json_decref(vol);
	return to;
}

json_t *config_check_volume(const json_t *from, const char *place,
			    struct volume_spec *ret_spec,
			    struct config_fault *fault)
{
	struct volume_spec own;
	struct volume_spec *spec = ret_spec ? ret_spec : &own;

	if (json_is_object(from))
		return config_read_volume(from, place, spec, fault);
	if (json_is_string(from))
		return config_read_spec(json_string_value(from), place, spec,
					fault);
	config_refuse(fault, place,
		      "a volume is a SPEC, or an object: {\"store\": ...}");
	return NULL;
}
