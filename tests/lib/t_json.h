/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON in tables of tests. */
#ifndef TESTS_LIB_T_JSON_H
#define TESTS_LIB_T_JSON_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* JSON that is written with ' for ". Lives until the next call. */
static inline const char *t_json(const char *text)
{
	static char buf[8192];

	if (!text)
		return NULL;
	assert_true(strlen(text) < sizeof(buf));
	strcpy(buf, text);
	for (char *p = buf; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	return buf;
}

/* The text at @key; "": there is none. */
static inline const char *t_json_text(const json_t *in, const char *key)
{
	const char *text = json_string_value(json_object_get(in, key));

	return text ? text : "";
}

/* What is at the place "a.0.b"; NULL: nothing. */
static inline const json_t *t_json_at(const json_t *in, const char *place)
{
	char name[64];

	while (*place && in) {
		size_t len = strcspn(place, ".");

		snprintf(name, sizeof(name), "%.*s", (int)len, place);
		in = json_is_array(in)
			     ? json_array_get(in, strtoul(name, NULL, 10))
			     : json_object_get(in, name);
		place += len + (place[len] == '.');
	}
	return in;
}

/* Expects @want, as t_json() takes it, at @place; NULL: nothing. */
static inline void t_json_expect(const json_t *in, const char *place,
				 const char *want)
{
	const json_t *is = t_json_at(in, place);
	char *text = is ? json_dumps(is, JSON_ENCODE_ANY) : NULL;

	if (text && want)
		assert_string_equal(text, t_json(want));
	else if (text || want)
		fail_msg("%s is %s", place, text ? text : "not there");
	free(text);
}

#endif
