/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration of rdma-target as a JSON object, the same in a file, on the
 * control socket and in memory. Its keys are the names of the options:
 *
 *	{ "listen": ["srp+tcp://10.0.0.1"], "allow": ["10.0.0.0/24"],
 *	  "max-logins": 100,
 *	  "backing": [ { "store": "/srv/a.img", "name": "a", "ro": true },
 *		       "ram:64M,name=b" ] }
 *
 * An option that may be given several times has an array, or one value. An empty array
 * of rules is "none", nobody; an empty one of addresses is refused. A volume
 * is a SPEC, as behind --backing, or an object: "store" is what a SPEC begins
 * with (without backslashes), "parameters" are those of a store that is a
 * plugin, each other key is an option of volumes. A layer is the name of a
 * plugin, or {"plugin": NAME, "parameters": {...}}.
 *
 * The canonical form has volumes as objects, arrays where several are possible,
 * and sizes as the target prints them. It leaves out what is the default. So two
 * configurations are the same when their canonical forms are json_equal().
 *
 * Thread: any. Nothing here opens, changes or logs anything.
 */
#ifndef CONFIG_CONFIG_JSON_H
#define CONFIG_CONFIG_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "config/options.h"

#define CONFIG_PLACE_SIZE 192

/* Why a configuration was refused. */
struct config_fault {
	char place[CONFIG_PLACE_SIZE]; /* "backing[1].block-size"; "": the
				        * whole configuration */
	char text[ERROR_TEXT_SIZE];    /* names key and value */
};

/* The text @key of the object @owner. NULL: there is none. */
static inline const char *config_get_text(const json_t *owner, const char *key)
{
	return json_string_value(json_object_get(owner, key));
}

/* The canonical form of @from, to be freed by json_decref(). NULL: refused. */
json_t *config_check(const json_t *from, struct config_fault *fault);

/* The same for one volume, which is at @place. Stores what it says in @ret_spec, which may
 * be NULL. */
json_t *config_check_volume(const json_t *from, const char *place,
			    struct volume_spec *ret_spec,
			    struct config_fault *fault);

/*
 * Stores the canonical configuration @config in @opt: values replace the former
 * ones, lists grow. @opt borrows texts of @config. False: refused.
 */
bool config_store(const json_t *config, struct target_options *opt,
		  struct config_fault *fault);

/* The values of @opt that differ from the defaults, in canonical form, with absolute paths.
 * Its first volumes are those of @file, which config_store() has stored. NULL: no memory. */
json_t *config_of_options(const struct target_options *opt, const json_t *file);

/* Fills in @fault; returns false. */
bool config_refuse(struct config_fault *fault, const char *place,
		   const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Refuses a key that @t does not have, and names the nearest one, or all.
 * Returns false. */
bool config_refuse_key(struct config_fault *fault, const char *place,
		       const struct option_table *t, const char *key);

/* What @value says for @row, which may be given several times: an array, to be freed by
 * json_decref(). NULL: no memory. */
json_t *config_elements(const struct option_row *row, const json_t *value);

/* A value that is not a volume is shorter. Bytes. */
#define CONFIG_VALUE_SIZE 4096

/* @value as text, as a user would give it to the option; of a flag, "". False: refused, as
 * it has another type. */
bool config_value_text(const struct option_row *row, const json_t *value,
		       char text[static CONFIG_VALUE_SIZE], const char *place,
		       struct config_fault *fault);

/* Whether the canonical form leaves it out. */
bool config_is_default(const struct option_row *row, const json_t *value);

/* The canonical form of @text, which option_set() has stored in @options. NULL: no
 * memory. */
json_t *config_canonical(const struct option_row *row, const void *options,
			 const char *text);

#endif
