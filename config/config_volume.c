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

/* ---- objects to SPECs ---- */

/* A SPEC that is written piece by piece. */
struct config_spec {
	FILE *out;
	char *text;
	size_t len;
	struct config_fault *fault; /* NULL: it is canonical: not checked */
};

static void spec_put(struct config_spec *s, const char *text)
{
	for (; *text; text++)
		fprintf(s->out, "%s%c",
			*text == ',' || *text == '\\' ? "\\" : "", *text);
}

static bool spec_try(const char *text, const char *place,
		     struct config_fault *fault)
{
	struct volume_spec *parsed = malloc(sizeof(*parsed));
	struct error e;
	bool good = parsed && volume_spec_parse(text, parsed, &e);

	if (!good)
		config_refuse(fault, place, "%s",
			      parsed ? e.text : "out of memory");
	free(parsed);
	return good;
}

/* @value: NULL: there is none. What there is so far is parsed, so that an error has
 * @place. */
static bool spec_add(struct config_spec *s, const char *key, const char *value,
		     const char *place)
{
	if (s->len)
		fputc(',', s->out);
	spec_put(s, key);
	if (value) {
		fputc('=', s->out);
		spec_put(s, value);
	}
	fflush(s->out);
	return !s->fault || spec_try(s->text, place, s->fault);
}

#define CONFIG_NUMBER_SIZE 32

/* Plugins get texts. *ret_text: NULL: the parameter has no value. */
static bool config_parameter(const char *key, const json_t *value,
			     char number[static CONFIG_NUMBER_SIZE],
			     const char **ret_text, const char *place,
			     struct config_fault *fault)
{
	char at[CONFIG_PLACE_SIZE];

	snprintf(at, sizeof(at), "%.100s.parameters.%.60s", place, key);
	snprintf(number, CONFIG_NUMBER_SIZE, "%lld",
		 (long long)json_integer_value(value));
	*ret_text = json_is_integer(value) ? number : json_string_value(value);
	if (option_find(&volume_option_table, OPTION_SPEC, key, strlen(key)))
		return config_refuse(fault, at,
				     "'%s' is an option of volumes, and no "
				     "parameter of a plugin",
				     key);
	if (json_is_null(value))
		return config_refuse(fault, at,
				     "parameter '%.64s' is given twice, or "
				     "null",
				     key);
	if (!*key || strchr(key, '=') || (!*ret_text && !json_is_true(value)))
		return config_refuse(fault, at,
				     "parameter '%.64s' is not a text or a "
				     "number",
				     key);
	return true;
}

static bool config_is_parameters(const json_t *parameters, const char *place,
				 struct config_fault *fault)
{
	return json_is_object(parameters) ||
	       config_refuse(fault, place,
			     "'parameters' is not an object: "
			     "{\"KEY\": \"VALUE\", ...}");
}

/* @owner is the volume, or a layer. */
static bool spec_add_parameters(struct config_spec *s, const json_t *owner,
				const char *place)
{
	json_t *parameters = json_object_get(owner, CONFIG_PARAMETERS);
	char number[CONFIG_NUMBER_SIZE];
	const char *key;
	const char *text;
	json_t *value;

	if (parameters && !config_is_parameters(parameters, place, s->fault))
		return false;
	json_object_foreach(parameters, key, value) {
		if (!config_parameter(key, value, number, &text, place,
				      s->fault) ||
		    !spec_add(s, key, text, place))
			return false;
	}
	return true;
}

static bool spec_add_layer(struct config_spec *s, const json_t *layer,
			   const char *place)
{
	const json_t *plugin = json_is_object(layer)
				       ? json_object_get(layer, CONFIG_PLUGIN)
				       : layer;
	size_t known = !!plugin + !!json_object_get(layer, CONFIG_PARAMETERS);

	if (!json_is_string(plugin) ||
	    (json_is_object(layer) && json_object_size(layer) != known))
		return config_refuse(s->fault, place,
				     "'layer' is not the name of a plugin, or "
				     "{\"plugin\": NAME, \"parameters\": "
				     "{...}}");
	return spec_add(s, CONFIG_LAYER, json_string_value(plugin), place) &&
	       spec_add_parameters(s, layer, place);
}

static bool spec_add_value(struct config_spec *s, const struct option_row *row,
			   const json_t *value, const char *place)
{
	char text[CONFIG_VALUE_SIZE];

	if (!strcmp(row->name, CONFIG_LAYER))
		return spec_add_layer(s, value, place);
	if (row->type == OPTION_FLAG && json_is_false(value))
		return true;
	return config_value_text(row, value, text, place, s->fault) &&
	       spec_add(s, row->name, row->type == OPTION_FLAG ? NULL : text,
			place);
}

static bool spec_add_key(struct config_spec *s, const char *key,
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
		return config_refuse_key(s->fault, place, &volume_option_table,
					 key);
	if (!row->again || !json_is_array(value))
		return spec_add_value(s, row, value, place);
	list = config_elements(row, value);
	json_array_foreach(list, i, one) {
		snprintf(at, sizeof(at), "%s[%zu]", place, i);
		good = good && spec_add_value(s, row, one, at);
	}
	json_decref(list);
	return good;
}

static bool spec_add_volume(struct config_spec *s, const json_t *vol,
			    const char *place)
{
	const json_t *store = json_object_get(vol, CONFIG_STORE);
	char at[CONFIG_PLACE_SIZE];
	const char *key;
	json_t *value;

	if (!json_is_string(store))
		return config_refuse(s->fault, place,
				     "a volume needs 'store': a path, "
				     "\"ram:SIZE\", \"null:SIZE\" or "
				     "\"PLUGIN:LOCATION\"");
	/* Parameters belong to the plugin before them. */
	if (!spec_add(s, json_string_value(store), NULL, place) ||
	    !spec_add_parameters(s, vol, place))
		return false;
	json_object_foreach((json_t *)(uintptr_t)vol, key, value) {
		if (!strcmp(key, CONFIG_STORE) ||
		    !strcmp(key, CONFIG_PARAMETERS))
			continue;
		snprintf(at, sizeof(at), "%.120s.%.60s", place, key);
		if (!spec_add_key(s, key, value, at))
			return false;
	}
	return true;
}

/* The SPEC of @vol, to be freed. NULL: refused, or no memory. */
static char *config_spec_of(const json_t *vol, const char *place,
			    struct config_fault *fault)
{
	struct config_spec s = { .fault = fault };
	bool good;

	s.out = open_memstream(&s.text, &s.len);
	if (!s.out) {
		if (fault)
			config_refuse(fault, place, "out of memory");
		return NULL;
	}
	good = spec_add_volume(&s, vol, place);
	if (fclose(s.out) == 0 && good)
		return s.text;
	free(s.text);
	return NULL;
}

char *config_volume_spec(const json_t *vol)
{
	return config_spec_of(vol, "", /* fault= */ NULL);
}

/* ---- SPECs to objects ---- */

static json_t *config_piece_value(const struct option_row *row,
				  const char *value)
{
	struct volume_spec *spec;
	json_t *is;

	if (!value)
		return json_true();
	if (row->type != OPTION_NUMBER && row->type != OPTION_SIZE)
		return json_string(value);
	spec = calloc(1, sizeof(*spec));
	if (!spec)
		return NULL;
	is = option_set(row, OPTION_SPEC, spec, value, NULL)
		     ? config_canonical(row, spec, value)
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
	json_t *one;

	if (value)
		*value++ = '\0';
	row = option_find(&volume_option_table, OPTION_SPEC, piece,
			  strlen(piece));
	if (!row) {
		config_take_parameter(owner, piece, value);
		return owner;
	}
	if (!row->again) {
		one = config_piece_value(row, value);
		if (!config_is_default(row, one))
			json_object_set(vol, row->name, one);
		json_decref(one);
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

json_t *config_volume_from_spec(const char *spec)
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

/* ---- checking ---- */

json_t *config_check_plugin(const json_t *parameters, const char *place,
			    struct config_fault *fault)
{
	char number[CONFIG_NUMBER_SIZE];
	json_t *to = json_object();
	const char *key;
	const char *text;
	json_t *value;
	bool good = config_is_parameters(parameters, place, fault);

	json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
		good = config_parameter(key, value, number, &text, place,
					fault);
		if (!good)
			break;
		json_object_set_new(to, key,
				    text ? json_string(text) : json_true());
	}
	if (good)
		return to;
	json_decref(to);
	return NULL;
}

/* An object is written as a SPEC, which is its canonical form in other words. */
json_t *config_check_volume(const json_t *from, const char *place,
			    struct config_fault *fault)
{
	const char *given = json_string_value(from);
	_cleanup_free_ char *spec = NULL;
	json_t *vol;
	json_t *to;

	if (json_is_object(from)) {
		spec = config_spec_of(from, place, fault);
		return spec ? config_volume_from_spec(spec) : NULL;
	}
	if (!given)
		config_refuse(fault, place,
			      "a volume is a SPEC, or an object: {\"store\": "
			      "...}");
	if (!given || !spec_try(given, place, fault))
		return NULL;
	vol = config_volume_from_spec(given);
	to = vol ? config_check_volume(vol, place, fault) : NULL;
	json_decref(vol);
	return to;
}
