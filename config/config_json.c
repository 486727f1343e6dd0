/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/config_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "config/config_path.h"
#include "config/config_volume.h"

bool config_refuse(struct config_fault *fault, const char *place,
		   const char *fmt, ...)
{
	va_list ap;

	snprintf(fault->place, sizeof(fault->place), "%s", place);
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool config_no_memory(struct config_fault *fault)
{
	return config_refuse(fault, "", "out of memory");
}

/* ---- keys ---- */

static bool config_is_key(const struct option_row *row)
{
	return row && !row->cmdline_only && row->type != OPTION_HELP &&
	       row->type != OPTION_VERSION;
}

static void config_list_keys(const struct option_table *t, char *buf,
			     size_t len)
{
	size_t used = 0;

	*buf = '\0';
	for (unsigned int i = 0; i < t->cnt && used < len; i++) {
		if (config_is_key(&t->rows[i]))
			used += (size_t)snprintf(buf + used, len - used, "%s%s",
						 used ? ", " : "",
						 t->rows[i].name);
	}
}

bool config_refuse_key(struct config_fault *fault, const char *place,
		       const struct option_table *t, const char *key)
{
	const struct option_row *near = option_nearest(t, key, strlen(key));
	const struct option_row *same =
		option_find(t, t->style, key, strlen(key));
	char keys[OPTION_TEXT_SIZE];

	if (same)
		return config_refuse(fault, place,
				     "'%s' is for the command line only", key);
	if (config_is_key(near))
		return config_refuse(fault, place,
				     "no key '%.64s'; did you mean '%s'?", key,
				     near->name);
	config_list_keys(t, keys, sizeof(keys));
	return config_refuse(fault, place, "no key '%.64s'; there are %s", key,
			     keys);
}

/* ---- values ---- */

static const char *config_type_text(const struct option_row *row)
{
	switch (row->type) {
	case OPTION_FLAG:
		return "true or false";
	case OPTION_NUMBER:
		return "a whole number";
	case OPTION_SIZE:
		return "a number of bytes, or a size such as \"64M\"";
	default:
		return "a text";
	}
}

bool config_value_text(const struct option_row *row, const json_t *value,
		       char text[static CONFIG_VALUE_SIZE], const char *place,
		       struct config_fault *fault)
{
	bool is_number = row->type == OPTION_NUMBER || row->type == OPTION_SIZE;
	const char *given = json_string_value(value);
	bool good;

	*text = '\0';
	if (row->type == OPTION_FLAG)
		good = json_is_boolean(value);
	else if (is_number && json_is_integer(value))
		good = snprintf(text, CONFIG_VALUE_SIZE, "%lld",
				(long long)json_integer_value(value)) > 0;
	else
		good = given && snprintf(text, CONFIG_VALUE_SIZE, "%s", given) <
					CONFIG_VALUE_SIZE;
	return good || config_refuse(fault, place, "'%s' is not %s", row->name,
				     config_type_text(row));
}

json_t *config_canonical(const struct option_row *row, const void *options,
			 const char *text)
{
	char own[OPTION_TEXT_SIZE];
	uint64_t size;

	if (!option_get(row, options, own))
		return json_string(text);
	/* 4096 rather than "4k" */
	if (row->choices && size_parse(text, &size) == 0)
		return json_integer((json_int_t)size);
	if (row->type == OPTION_NUMBER)
		return json_integer((json_int_t)strtoull(own, NULL, 10));
	return json_string(own);
}

/* NULL: refused. A flag that is false becomes json_null(). Parses the value into
 * @opt. */
static json_t *config_check_value(const struct option_row *row,
				  const json_t *value,
				  struct target_options *opt, const char *place,
				  struct config_fault *fault)
{
	char text[CONFIG_VALUE_SIZE];
	struct error e;

	if (!config_value_text(row, value, text, place, fault))
		return NULL;
	if (row->type == OPTION_FLAG)
		return json_is_true(value) ? json_true() : json_null();
	if (option_set(row, OPTION_SPEC, opt, text, &e))
		return config_canonical(row, opt, text);
	config_refuse(fault, place, "%s", e.text);
	return NULL;
}

/* ---- the whole ---- */

json_t *config_elements(const struct option_row *row, const json_t *value)
{
	if (json_is_array(value) && (json_array_size(value) || !row->empty))
		return json_incref((json_t *)(uintptr_t)value);
	return json_is_array(value)
		       ? json_pack("[s]", row->empty)
		       : json_pack("[O]", (json_t *)(uintptr_t)value);
}

/* A backing is a volume; all other options have a value. */
static json_t *config_check_one(const struct option_row *row,
				const json_t *value, struct target_options *opt,
				const char *place, struct config_fault *fault)
{
	if (row->keys != &volume_option_table)
		return config_check_value(row, value, opt, place, fault);
	return config_check_volume(value, place, /* ret_spec= */ NULL, fault);
}

/* A volume with rules of its own may have the LUN of another one. */
static bool config_same_lun(const json_t *one, const json_t *two)
{
	return json_object_get(one, "lun") && !json_object_get(one, "allow") &&
	       !json_object_get(two, "allow") &&
	       json_equal(json_object_get(one, "lun"),
			  json_object_get(two, "lun"));
}

static bool config_same_name(const json_t *one, const json_t *two)
{
	return json_object_get(one, "name") &&
	       json_equal(json_object_get(one, "name"),
			  json_object_get(two, "name"));
}

/* Do volume @k and the earlier volume @i differ in name and LUN? */
static bool config_check_pair(json_t *list, size_t i, size_t k,
			      struct config_fault *fault)
{
	const json_t *one = json_array_get(list, i);
	const json_t *two = json_array_get(list, k);
	char place[CONFIG_PLACE_SIZE];

	if (config_same_name(one, two)) {
		snprintf(place, sizeof(place), "backing[%zu].name", k);
		return config_refuse(fault, place,
				     "backing[%zu] has the name '%s', too", i,
				     config_get_text(one, "name"));
	}
	if (config_same_lun(one, two)) {
		snprintf(place, sizeof(place), "backing[%zu].lun", k);
		return config_refuse(
			fault, place,
			"backing[%zu] is LUN %lld, too; only volumes with "
			"rules of their own (allow) may share a LUN",
			i,
			(long long)json_integer_value(
				json_object_get(one, "lun")));
	}
	return true;
}

static bool config_check_volumes(json_t *list, struct config_fault *fault)
{
	if (json_array_size(list) > LUNS_MAX)
		return config_refuse(fault, "backing", "more than %d volumes",
				     LUNS_MAX);
	for (size_t k = 1; k < json_array_size(list); k++) {
		for (size_t i = 0; i < k; i++) {
			if (!config_check_pair(list, i, k, fault))
				return false;
		}
	}
	return true;
}

static json_t *config_check_list(const struct option_row *row,
				 const json_t *value,
				 struct target_options *opt,
				 struct config_fault *fault)
{
	json_t *given = config_elements(row, value);
	json_t *list = json_array();
	bool good = true;
	json_t *from;
	size_t i;

	json_array_foreach(given, i, from) {
		char place[CONFIG_PLACE_SIZE];
		json_t *one;

		snprintf(place, sizeof(place), "%s[%zu]", row->name, i);
		one = config_check_one(row, from, opt, place, fault);
		good = one && (json_array_append_new(list, one) == 0 ||
			       config_no_memory(fault));
		if (!good)
			break;
	}
	json_decref(given);
	if (row->keys == &volume_option_table)
		good = good && config_check_volumes(list, fault);
	if (good)
		return list;
	json_decref(list);
	return NULL;
}

bool config_is_default(const struct option_row *row, const json_t *value)
{
	char text[OPTION_TEXT_SIZE];
	const char *dflt = option_default_text(row, text);

	if (json_is_null(value) ||
	    (json_is_array(value) && json_array_size(value) == 0))
		return true;
	if (row->dflt_text || !*dflt)
		return false;
	if (json_is_integer(value))
		return json_integer_value(value) == (json_int_t)row->dflt;
	return json_is_string(value) && !strcmp(json_string_value(value), dflt);
}

static bool config_check_row(const struct option_row *row, const json_t *value,
			     struct target_options *opt, json_t *to,
			     struct config_fault *fault)
{
	json_t *is = row->again ? config_check_list(row, value, opt, fault)
				: config_check_one(row, value, opt, row->name,
						   fault);

	if (!is)
		return false;
	if (config_is_default(row, is)) {
		json_decref(is);
		return true;
	}
	return json_object_set_new(to, row->name, is) == 0 ||
	       config_no_memory(fault);
}

static bool config_check_keys(const json_t *from, struct config_fault *fault)
{
	const struct option_table *t = &target_option_table;
	const char *key;
	json_t *value;

	if (!json_is_object(from))
		return config_refuse(fault, "",
				     "a configuration is an object: {...}");
	json_object_foreach((json_t *)(uintptr_t)from, key, value) {
		/* For editors: the schema of the file. */
		if (!strcmp(key, "$schema"))
			continue;
		if (!config_is_key(
			    option_find(t, OPTION_LONG, key, strlen(key))))
			return config_refuse_key(fault, key, t, key);
	}
	return true;
}

json_t *config_check(const json_t *from, struct config_fault *fault)
{
	const struct option_table *t = &target_option_table;
	struct target_options *opt = calloc(1, sizeof(*opt));
	json_t *to = json_object();
	bool good = opt && to ? config_check_keys(from, fault)
			      : config_no_memory(fault);

	if (opt)
		target_options_init(opt);
	for (unsigned int i = 0; good && i < t->cnt; i++) {
		const json_t *value = json_object_get(from, t->rows[i].name);

		if (value)
			good = config_check_row(&t->rows[i], value, opt, to,
						fault);
	}
	if (opt)
		target_options_free(opt);
	free(opt);
	if (good)
		return to;
	json_decref(to);
	return NULL;
}

/* ---- to and from options ---- */

static bool config_store_volume(const json_t *vol, struct target_options *opt,
				struct config_fault *fault)
{
	struct volume_spec spec;
	json_t *is = config_check_volume(vol, "backing", &spec, fault);
	struct error e;

	json_decref(is);
	return is && (target_options_add_backing(
			      opt, &spec, config_get_text(vol, "store"), &e) ||
		      config_refuse(fault, "backing", "%s", e.text));
}

static bool config_store_one(const struct option_row *row, const json_t *value,
			     struct target_options *opt,
			     struct config_fault *fault)
{
	const char *given = json_string_value(value);
	char number[32];
	struct error e;

	if (row->keys == &volume_option_table)
		return config_store_volume(value, opt, fault);
	snprintf(number, sizeof(number), "%lld",
		 (long long)json_integer_value(value));
	if (json_is_integer(value))
		given = number;
	return option_set(row, OPTION_LONG, opt, given, &e) ||
	       config_refuse(fault, row->name, "%s", e.text);
}

bool config_store(const json_t *config, struct target_options *opt,
		  struct config_fault *fault)
{
	const struct option_table *t = &target_option_table;
	bool good = true;

	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];
		json_t *value = json_object_get(config, row->name);
		json_t *list = value ? config_elements(row, value) : NULL;
		json_t *one;
		size_t k;

		json_array_foreach(list, k, one)
			good = good && config_store_one(row, one, opt, fault);
		json_decref(list);
	}
	return good;
}

static json_t *config_texts(const char *const *texts, unsigned int cnt)
{
	json_t *list = json_array();

	for (unsigned int i = 0; list && i < cnt; i++)
		json_array_append_new(list, json_string(texts[i]));
	return list;
}

static json_t *config_volumes(const struct target_options *opt,
			      const json_t *of_file)
{
	json_t *list = of_file ? json_copy((json_t *)(uintptr_t)of_file)
			       : json_array();
	struct config_fault ignored;

	for (size_t i = json_array_size(list); i < opt->backing_cnt; i++) {
		json_t *spec = json_string(opt->backing_texts[i]);

		json_array_append_new(
			list,
			config_check_volume(spec, "backing", NULL, &ignored));
		json_decref(spec);
	}
	return list;
}

/* The current value of a single option. NULL: it is the default. */
static json_t *config_scalar(const struct option_row *row, const void *opt,
			     const void *at_first)
{
	const char *at = (const char *)opt + row->offset;
	char text[OPTION_TEXT_SIZE];
	const char *given;

	if (!row->size ||
	    !memcmp(at, (const char *)at_first + row->offset, row->size))
		return NULL;
	if (row->type == OPTION_FLAG)
		return json_true();
	if (option_get(row, opt, text))
		return config_canonical(row, opt, text);
	memcpy(&given, at, sizeof(given));
	return json_string(given);
}

json_t *config_of_options(const struct target_options *opt, const json_t *file)
{
	const struct option_table *t = &target_option_table;
	struct target_options *at_first = calloc(1, sizeof(*at_first));
	json_t *to = at_first ? json_object() : NULL;

	if (at_first)
		target_options_init(at_first);
	for (unsigned int i = 0; to && i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];
		json_t *value = config_is_key(row)
					? config_scalar(row, opt, at_first)
					: NULL;

		if (value)
			json_object_set_new(to, row->name, value);
	}
	free(at_first);
	if (to && opt->listen_cnt)
		json_object_set_new(
			to, "listen",
			config_texts(opt->listen_texts, opt->listen_cnt));
	if (to && opt->allow.cnt)
		json_object_set_new(
			to, "allow",
			config_texts(opt->allow_texts, opt->allow.cnt));
	if (to && opt->backing_cnt)
		json_object_set_new(
			to, "backing",
			config_volumes(opt, json_object_get(file, "backing")));
	if (to && config_make_absolute(to, NULL)) {
		json_decref(to);
		return NULL;
	}
	return to;
}
