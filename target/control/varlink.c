/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/control/varlink.h"

#include <string.h>

#include "base/cleanup.h"
#include "config/config_text.h"

/* Letters, digits, '.' and '-'. The method follows the last dot. */
static bool varlink_split_name(const char *name, struct varlink_call *call)
{
	const char *dot = strrchr(name, '.');
	size_t len = strlen(name);

	if (len >= VARLINK_NAME_MAX || !dot || dot == name || !dot[1] ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789.-") != len)
		return false;
	memcpy(call->interface, name, (size_t)(dot - name));
	call->interface[dot - name] = '\0';
	strcpy(call->method, dot + 1);
	return true;
}

static bool varlink_take_flag(const json_t *json, const char *key, bool *ret)
{
	const json_t *value = json_object_get(json, key);

	*ret = json_is_true(value);
	return !value || json_is_boolean(value);
}

static const char *varlink_take(const json_t *json, struct varlink_call *call)
{
	const char *name = json_string_value(json_object_get(json, "method"));
	json_t *parameters = json_object_get(json, "parameters");
	bool upgrade;

	if (!json_is_object(json))
		return "a call is an object";
	if (!name || !varlink_split_name(name, call))
		return "a call names a method: \"INTERFACE.METHOD\"";
	if (!varlink_take_flag(json, "more", &call->more) ||
	    !varlink_take_flag(json, "oneway", &call->oneway) ||
	    !varlink_take_flag(json, "upgrade", &upgrade) || upgrade)
		return "more and oneway are true or false, and upgrade is not "
		       "possible";
	if (parameters && !json_is_object(parameters) &&
	    !json_is_null(parameters))
		return "the parameters are no object";
	call->parameters = json_is_object(parameters) ? json_incref(parameters)
						      : json_object();
	return call->parameters ? NULL : "out of memory";
}

bool varlink_decode(char *text, size_t len, struct varlink_call *ret_call,
		    const char **ret_why)
{
	struct varlink_call call;
	json_t *json;

	if (!config_text_is_flat(text, len)) {
		*ret_why = "brackets are nested too deep";
		return false;
	}
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json) {
		*ret_why = "not JSON";
		return false;
	}
	*ret_why = varlink_take(json, &call);
	json_decref(json);
	if (*ret_why)
		return false;
	*ret_call = call;
	return true;
}

json_t *varlink_text(const char *text)
{
	json_t *json = json_string(text);
	_cleanup_free_ char *copy = json ? NULL : strdup(text);

	if (!copy)
		return json;
	for (char *p = copy; *p; p++) {
		if (*p & 0x80)
			*p = '?';
	}
	return json_string(copy);
}

static char *varlink_dump(json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	json_decref(message);
	return text;
}

char *varlink_encode_reply(json_t *parameters)
{
	return varlink_dump(json_pack("{s:o}", "parameters",
				      parameters ? parameters : json_object()));
}

char *varlink_encode_part(json_t *parameters)
{
	return varlink_dump(json_pack("{s:o, s:b}", "parameters", parameters,
				      "continues", true));
}

char *varlink_encode_error(const char *error, json_t *parameters)
{
	return varlink_dump(json_pack("{s:s, s:o}", "error", error,
				      "parameters",
				      parameters ? parameters : json_object()));
}
