/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/control/config_volume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Keys of objects that are no options. */
#define CONFIG_STORE	  "store"
#define CONFIG_PARAMETERS "parameters"
#define CONFIG_PLUGIN	  "plugin"
#define CONFIG_LAYER	  "layer"

/* ---- objects to SPECs ---- */

static void config_put_piece(FILE *out, const char *key, const char *value)
{
	for (const char *p = key; *p; p++)
		fprintf(out, "%s%c", *p == ',' ? "\\" : "", *p);
	if (!value)
		return;
	fputc('=', out);
	for (const char *p = value; *p; p++)
		fprintf(out, "%s%c", *p == ',' ? "\\" : "", *p);
}

static void config_put_value(FILE *out, const char *key, const json_t *value)
{
	char number[32];

	fputc(',', out);
	snprintf(number, sizeof(number), "%lld",
		 (long long)json_integer_value(value));
	config_put_piece(out, key,
			 json_is_true(value)	 ? NULL
			 : json_is_string(value) ? json_string_value(value)
						 : number);
}

static void config_put_parameters(FILE *out, const json_t *parameters)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)parameters, key, value)
		config_put_value(out, key, value);
}

static void config_put_layer(FILE *out, const json_t *layer)
{
	config_put_value(out, CONFIG_LAYER,
			 json_object_get(layer, CONFIG_PLUGIN));
	config_put_parameters(out, json_object_get(layer, CONFIG_PARAMETERS));
}

static void config_put_row(FILE *out, const struct option_row *row,
			   const json_t *value)
{
	size_t i;
	json_t *one;

	if (!json_is_array(value)) {
		if (value)
			config_put_value(out, row->name, value);
		return;
	}
	json_array_foreach((json_t *)(uintptr_t)value, i, one) {
		if (!strcmp(row->name, CONFIG_LAYER))
			config_put_layer(out, one);
		else
			config_put_value(out, row->name, one);
	}
}

char *config_volume_spec(const json_t *vol)
{
	const struct option_table *t = &volume_option_table;
	char *spec = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&spec, &len);

	if (!out)
		return NULL;
	config_put_piece(out,
			 json_string_value(json_object_get(vol, CONFIG_STORE)),
			 NULL);
	/* Parameters belong to the plugin before them. */
	config_put_parameters(out, json_object_get(vol, CONFIG_PARAMETERS));
	for (unsigned int i = 0; i < t->cnt; i++)
		config_put_row(out, &t->rows[i],
			       json_object_get(vol, t->rows[i].name));
	if (fclose(out) == 0)
		return spec;
	free(spec);
	return NULL;
}

/* ---- SPECs to objects ---- */

/* The next piece of a SPEC, in @buf, without backslashes. */
static void config_next_piece(const char **spec, char *buf)
{
	const char *s = *spec;

	while (*s && *s != ',') {
		if (s[0] == '\\' && s[1] == ',')
			s++;
		*buf++ = *s++;
	}
	*buf = '\0';
	*spec = *s ? s + 1 : NULL;
}

static json_t *config_piece_value(const struct option_row *row,
				  const char *value)
{
	static struct volume_spec none;
	struct volume_spec *spec;
	char text[OPTION_TEXT_SIZE];
	json_t *is;

	if (!value)
		return json_true();
	if (row->type != OPTION_NUMBER && row->type != OPTION_SIZE)
		return json_string(value);
	spec = malloc(sizeof(*spec));
	if (!spec)
		return NULL;
	*spec = none;
	is = option_set(row, OPTION_SPEC, spec, value, NULL) &&
			     option_get(row, spec, text)
		     ? json_integer(row->choices ? (json_int_t)spec->block_size
						 : strtoll(text, NULL, 10))
		     : json_string(value);
	free(spec);
	return is;
}

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

/* @owner is the volume, or the last layer. */
static void config_take_parameter(json_t *owner, const char *key,
				  const char *value)
{
	json_t *in = config_get_or_make(owner, CONFIG_PARAMETERS, json_object);

	/* Given twice: config_check_parameters() refuses it. */
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
				    config_piece_value(row, value));
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

/* Omits defaults, as config_check() does. */
static void config_drop_defaults(json_t *vol)
{
	const json_t *size = json_object_get(vol, "block-size");

	if (size && json_integer_value(size) == 512)
		json_object_del(vol, "block-size");
}

json_t *config_volume_from_spec(const char *spec)
{
	_cleanup_free_ char *piece = malloc(strlen(spec) + 1);
	json_t *vol = piece ? json_object() : NULL;
	json_t *owner = vol;

	if (!vol)
		return NULL;
	config_next_piece(&spec, piece);
	json_object_set_new(vol, CONFIG_STORE, json_string(piece));
	while (spec) {
		config_next_piece(&spec, piece);
		owner = config_take_piece(vol, owner, piece);
	}
	config_drop_defaults(vol);
	return vol;
}

/* ---- checking ---- */

/* Parses one piece alone, so that an error has a place. */
static bool config_try_spec(const char *spec, const char *place,
			    struct config_fault *fault)
{
	struct volume_spec *parsed = malloc(sizeof(*parsed));
	struct error e;
	bool good = parsed && volume_spec_parse(spec, parsed, &e);

	if (!good)
		config_refuse(fault, place, "%s",
			      parsed ? e.text : "out of memory");
	free(parsed);
	return good;
}

static bool config_try(const json_t *vol, const char *place,
		       struct config_fault *fault)
{
	_cleanup_free_ char *spec = config_volume_spec(vol);

	if (!spec)
		return config_refuse(fault, place, "out of memory");
	return config_try_spec(spec, place, fault);
}

static bool config_check_parameters(const json_t *parameters, const char *place,
				    struct config_fault *fault)
{
	char at[CONFIG_PLACE_SIZE];
	const char *key;
	json_t *value;

	if (!json_is_object(parameters))
		return config_refuse(fault, place,
				     "'parameters' is not an object: "
				     "{\"KEY\": \"VALUE\", ...}");
	json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
		snprintf(at, sizeof(at), "%.100s.parameters.%.60s", place, key);
		if (option_find(&volume_option_table, OPTION_SPEC, key,
				strlen(key)))
			return config_refuse(
				fault, at,
				"'%s' is an option of volumes, and "
				"no parameter of a plugin",
				key);
		if (json_is_null(value))
			return config_refuse(fault, at,
					     "parameter '%.64s' is given "
					     "twice, or null",
					     key);
		if (!*key || strchr(key, '=') ||
		    (!json_is_string(value) && !json_is_integer(value) &&
		     !json_is_true(value)))
			return config_refuse(fault, at,
					     "parameter '%.64s' is not a text "
					     "or a number",
					     key);
	}
	return true;
}

/* Turns numbers into texts, because plugins get texts. */
static json_t *config_copy_parameters(const json_t *from)
{
	json_t *to = json_object();
	char number[32];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)from, key, value) {
		snprintf(number, sizeof(number), "%lld",
			 (long long)json_integer_value(value));
		json_object_set_new(to, key,
				    json_is_integer(value) ? json_string(number)
							   : json_copy(value));
	}
	return to;
}

json_t *config_check_plugin(const json_t *parameters, const char *place,
			    struct config_fault *fault)
{
	return config_check_parameters(parameters, place, fault)
		       ? config_copy_parameters(parameters)
		       : NULL;
}

static json_t *config_check_layer(const json_t *from, const char *place,
				  struct config_fault *fault)
{
	const json_t *plugin = json_is_object(from)
				       ? json_object_get(from, CONFIG_PLUGIN)
				       : from;
	const json_t *parameters = json_object_get(from, CONFIG_PARAMETERS);
	size_t known = !!plugin + !!parameters;
	json_t *to;

	if (!json_is_string(plugin) ||
	    (json_is_object(from) && json_object_size(from) != known)) {
		config_refuse(fault, place,
			      "'layer' is not the name of a plugin, or "
			      "{\"plugin\": NAME, \"parameters\": {...}}");
		return NULL;
	}
	if (parameters && !config_check_parameters(parameters, place, fault))
		return NULL;
	to = json_pack("{ss}", CONFIG_PLUGIN, json_string_value(plugin));
	if (parameters && json_object_size(parameters))
		json_object_set_new(to, CONFIG_PARAMETERS,
				    config_copy_parameters(parameters));
	return to;
}

/* Sets one element, or the value, of @row in @vol, and parses the result. */
static bool config_add_value(json_t *vol, const struct option_row *row,
			     const json_t *value, struct volume_spec *scratch,
			     const char *place, struct config_fault *fault)
{
	json_t *is =
		!strcmp(row->name, CONFIG_LAYER)
			? config_check_layer(value, place, fault)
			: config_check_value(row, value, scratch, place, fault);

	if (!is)
		return false;
	if (json_is_null(is))
		return true;
	if (row->again)
		json_array_append_new(
			config_get_or_make(vol, row->name, json_array), is);
	else
		json_object_set_new(vol, row->name, is);
	return config_try(vol, place, fault);
}

static bool config_add_key(json_t *vol, const char *key, const json_t *value,
			   struct volume_spec *scratch, const char *place,
			   struct config_fault *fault)
{
	const struct option_row *row = option_find(
		&volume_option_table, OPTION_SPEC, key, strlen(key));
	char at[CONFIG_PLACE_SIZE + 32];
	bool good = true;
	json_t *list;
	json_t *one;
	size_t i;

	if (!row)
		return config_refuse_key(fault, place, &volume_option_table,
					 key);
	if (!row->again || !json_is_array(value))
		return config_add_value(vol, row, value, scratch, place, fault);
	list = config_elements(row, value);
	json_array_foreach(list, i, one) {
		snprintf(at, sizeof(at), "%s[%zu]", place, i);
		good = good &&
		       config_add_value(vol, row, one, scratch, at, fault);
	}
	json_decref(list);
	return good;
}

static bool config_add_keys(json_t *vol, const json_t *from, const char *place,
			    struct config_fault *fault)
{
	struct volume_spec *scratch = calloc(1, sizeof(*scratch));
	char at[CONFIG_PLACE_SIZE];
	bool good = scratch;
	const char *key;
	json_t *value;

	if (!good)
		return config_refuse(fault, place, "out of memory");
	/* Checks which other options some options need. */
	scratch->store = &backend_file;
	json_object_foreach((json_t *)(uintptr_t)from, key, value) {
		if (!strcmp(key, CONFIG_STORE) ||
		    !strcmp(key, CONFIG_PARAMETERS))
			continue;
		snprintf(at, sizeof(at), "%.120s.%.60s", place, key);
		good = config_add_key(vol, key, value, scratch, at, fault);
		if (!good)
			break;
	}
	free(scratch);
	return good;
}

static json_t *config_check_object(const json_t *from, const char *place,
				   struct config_fault *fault)
{
	const json_t *store = json_object_get(from, CONFIG_STORE);
	const json_t *parameters = json_object_get(from, CONFIG_PARAMETERS);
	json_t *vol = json_object();
	bool good = false;

	if (!json_is_string(store))
		config_refuse(fault, place,
			      "a volume needs 'store': a path, \"ram:SIZE\", "
			      "\"null:SIZE\" or \"PLUGIN:LOCATION\"");
	else
		good = json_object_set(vol, CONFIG_STORE,
				       (json_t *)(uintptr_t)store) == 0 &&
		       config_try(vol, place, fault);
	if (good && parameters) {
		good = config_check_parameters(parameters, place, fault);
		if (good && json_object_size(parameters))
			json_object_set_new(vol, CONFIG_PARAMETERS,
					    config_copy_parameters(parameters));
		good = good && config_try(vol, place, fault);
	}
	good = good && config_add_keys(vol, from, place, fault);
	if (good) {
		config_drop_defaults(vol);
		return vol;
	}
	json_decref(vol);
	return NULL;
}

json_t *config_check_volume(const json_t *from, const char *place,
			    struct config_fault *fault)
{
	const char *spec = json_string_value(from);
	json_t *vol;
	json_t *to;

	if (json_is_object(from))
		return config_check_object(from, place, fault);
	if (spec && json_string_length(from) == strlen(spec)) {
		if (!config_try_spec(spec, place, fault))
			return NULL;
		vol = config_volume_from_spec(spec);
		to = config_check_object(vol, place, fault);
		json_decref(vol);
		return to;
	}
	config_refuse(fault, place,
		      "a volume is a SPEC, or an object: {\"store\": ...}");
	return NULL;
}
