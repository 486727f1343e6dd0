/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the control socket. */
#include <string.h>

#include "target/control/varlink.h"
#include "tests/lib/t_table.h"

static bool decode(const char *text, size_t len, struct varlink_call *call,
		   const char **why)
{
	/* Memory of the exact size: valgrind and ASan report any access beyond
	 * it. */
	char *copy = malloc(len ? len : 1);
	bool good;

	assert_non_null(copy);
	memcpy(copy, text, len);
	good = varlink_decode(copy, len, call, why);
	free(copy);
	return good;
}

static const struct call_case {
	const char *name;
	const char *text;
	const char *interface;
	const char *method;
	size_t parameters;
	bool oneway;
} call_cases[] = {
	{ "no parameters", "{\"method\":\"a.b.C\"}", "a.b", "C", 0, false },
	{ "null", "{\"method\":\"a.b.C\",\"parameters\":null}", "a.b", "C", 0,
	  false },
	{ "some", "{\"method\":\"a.C\",\"parameters\":{\"x\":1,\"y\":2}}", "a",
	  "C", 2, false },
	{ "no reply", "{\"method\":\"a.C\",\"oneway\":true}", "a", "C", 0,
	  true },
	{ "more", "{\"method\":\"a.C\",\"more\":true,\"upgrade\":false}", "a",
	  "C", 0, false },
};

T_ROWS(call_is_taken, call_cases)
{
	const struct call_case *c = *state;
	struct varlink_call call;
	const char *why;

	assert_true(decode(c->text, strlen(c->text), &call, &why));
	assert_string_equal(call.interface, c->interface);
	assert_string_equal(call.method, c->method);
	assert_int_equal(json_object_size(call.parameters), c->parameters);
	assert_int_equal(call.oneway, c->oneway);
	json_decref(call.parameters);
}

static const struct refusal {
	const char *name;
	const char *text;
	const char *why;
} refusals[] = {
	{ "nothing", "", "not JSON" },
	{ "half an object", "{\"method\":", "not JSON" },
	{ "an array", "[]", "an object" },
	{ "no method", "{}", "names a method" },
	{ "a number", "{\"method\":1}", "names a method" },
	{ "no interface", "{\"method\":\"C\"}", "names a method" },
	{ "an empty interface", "{\"method\":\".C\"}", "names a method" },
	{ "an empty method", "{\"method\":\"a.\"}", "names a method" },
	{ "a blank", "{\"method\":\"a.b c\"}", "names a method" },
	{ "a zero", "{\"method\":\"a.b\\u0000\"}", "not JSON" },
	{ "parameters that are a text",
	  "{\"method\":\"a.C\",\"parameters\":\"x\"}", "no object" },
	{ "a flag that is a number", "{\"method\":\"a.C\",\"oneway\":1}",
	  "true or false" },
	{ "upgrade", "{\"method\":\"a.C\",\"upgrade\":true}", "not possible" },
	{ "a key twice", "{\"method\":\"a.C\",\"method\":\"a.D\"}",
	  "not JSON" },
	{ "deep nesting",
	  "{\"method\":\"a.C\",\"parameters\":{\"x\":[[[[[[[[[[[[[[[[[[[]]]]]]]"
	  "]]]]]]]]]]]]}}",
	  "nested" },
};

T_ROWS(call_is_refused, refusals)
{
	const struct refusal *c = *state;
	struct varlink_call call;
	const char *why = NULL;

	assert_false(decode(c->text, strlen(c->text), &call, &why));
	assert_non_null(why);
	if (!strstr(why, c->why))
		fail_msg("'%s' has no '%s'", why, c->why);
}

T_TEST(long_names_are_refused)
{
	char text[VARLINK_NAME_MAX + 64];
	struct varlink_call call;
	const char *why;

	for (int len = VARLINK_NAME_MAX - 1; len <= VARLINK_NAME_MAX; len++) {
		int n = snprintf(text, sizeof(text), "{\"method\":\"a.%0*d\"}",
				 len - 2, 1);
		bool good = decode(text, (size_t)n, &call, &why);

		assert_int_equal(good, len < VARLINK_NAME_MAX);
		if (good)
			json_decref(call.parameters);
	}
}

T_TEST(replies_are_encoded)
{
	char *reply = varlink_encode_reply(json_pack("{si}", "a", 1));
	char *none = varlink_encode_reply(NULL);
	char *error =
		varlink_encode_error("a.b.E", json_pack("{ss}", "x", "y"));

	assert_string_equal(reply, "{\"parameters\":{\"a\":1}}");
	assert_string_equal(none, "{\"parameters\":{}}");
	assert_string_equal(error, "{\"error\":\"a.b.E\",\"parameters\":"
				   "{\"x\":\"y\"}}");
	free(reply);
	free(none);
	free(error);
}

T_TEST(texts_that_are_not_utf8_are_told_as_far_as_they_go)
{
	json_t *text = varlink_text("a\xff"
				    "b");

	assert_string_equal(json_string_value(text), "a?b");
	json_decref(text);
}
