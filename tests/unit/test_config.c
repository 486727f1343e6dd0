/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration of rdma-target: canonical forms, and refusals with the
 * place of the fault. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "config/config_path.h"
#include "config/config_text.h"
#include "tests/lib/t_table.h"

static json_t *parsed(const char *text)
{
	char *copy = strdup(text);
	unsigned int line;
	struct error e;
	json_t *json;

	assert_non_null(copy);
	json = config_text_parse(copy, strlen(copy), &line, &e);
	free(copy);
	return json;
}

/* Returns the canonical form of @text, which the caller frees. NULL:
 * refused. */
static char *canonical(const char *text, struct config_fault *fault)
{
	json_t *json = parsed(text);
	json_t *config;
	char *to = NULL;

	assert_non_null(json);
	config = config_check(json, fault);
	if (config)
		to = json_dumps(config, JSON_COMPACT);
	json_decref(config);
	json_decref(json);
	return to;
}

/* ---- what is accepted ---- */

static const struct form_case {
	const char *name;
	const char *from;
	const char *to;
} form_cases[] = {
	{ "nothing", "{}", "{}" },
	{ "a comment of each kind", "// a\n//\n  # b\n{}\n# c", "{}" },
	{ "what looks like a comment in a text",
	  "{\"backing\":[\"#a\",\"//b\"]}",
	  "{\"backing\":[{\"store\":\"#a\"},{\"store\":\"//b\"}]}" },
	{ "a volume that is a SPEC", "{\"backing\":\"ram:1M,name=a,ro,lun=7\"}",
	  "{\"backing\":[{\"store\":\"ram:1M\",\"name\":\"a\",\"ro\":true,"
	  "\"lun\":7}]}" },
	{ "a comma in a path", "{\"backing\":[\"a\\\\,b,name=c\"]}",
	  "{\"backing\":[{\"store\":\"a,b\",\"name\":\"c\"}]}" },
	{ "the same path in an object", "{\"backing\":[{\"store\":\"a,b\"}]}",
	  "{\"backing\":[{\"store\":\"a,b\"}]}" },
	{ "a path that ends with a backslash",
	  "{\"backing\":[\"a\\\\\\\\,ro\"]}",
	  "{\"backing\":[{\"store\":\"a\\\\\",\"ro\":true}]}" },
	{ "the same path in an object",
	  "{\"backing\":[{\"store\":\"a\\\\\",\"allow\":\"10.0.0.1\","
	  "\"ro\":true}]}",
	  "{\"backing\":[{\"store\":\"a\\\\\",\"allow\":[\"10.0.0.1\"],"
	  "\"ro\":true}]}" },
	{ "backslashes before other characters, and at the end",
	  "{\"backing\":[\"a\\\\b\\\\\\\\c\\\\\"]}",
	  "{\"backing\":[{\"store\":\"a\\\\b\\\\c\\\\\"}]}" },
	{ "a LUN for two initiators",
	  "{\"backing\":[\"ram:1M,lun=1,allow=10.0.0.1\",\"ram:1M,lun=1,"
	  "allow=10.0.0.2\"]}",
	  "{\"backing\":[{\"store\":\"ram:1M\",\"lun\":1,\"allow\":["
	  "\"10.0.0.1\"]},{\"store\":\"ram:1M\",\"lun\":1,\"allow\":["
	  "\"10.0.0.2\"]}]}" },
	{ "parameters of a store and of layers",
	  "{\"backing\":[\"nbd:x,a=1,layer=qos,iops=5,layer=log,name=n\"]}",
	  "{\"backing\":[{\"store\":\"nbd:x\",\"parameters\":{\"a\":\"1\"},"
	  "\"layer\":[{\"plugin\":\"qos\",\"parameters\":{\"iops\":\"5\"}},"
	  "{\"plugin\":\"log\"}],\"name\":\"n\"}]}" },
	{ "the same in an object",
	  "{\"backing\":[{\"parameters\":{\"a\":1},\"layer\":[{\"plugin\":"
	  "\"qos\",\"parameters\":{\"iops\":5}},\"log\"],\"store\":\"nbd:x\"}]}",
	  "{\"backing\":[{\"store\":\"nbd:x\",\"parameters\":{\"a\":\"1\"},"
	  "\"layer\":[{\"plugin\":\"qos\",\"parameters\":{\"iops\":\"5\"}},"
	  "{\"plugin\":\"log\"}]}]}" },
	{ "one value where several are possible",
	  "{\"allow\":\"all\",\"listen\":\"1.2.3.4\"}",
	  "{\"listen\":[\"1.2.3.4\"],\"allow\":[\"all\"]}" },
	{ "none of several", "{\"backing\":[]}", "{}" },
	{ "an empty list of rules is nobody",
	  "{\"allow\":[],\"backing\":[{\"store\":\"b\",\"allow\":[]}]}",
	  "{\"backing\":[{\"store\":\"b\",\"allow\":[\"none\"]}],\"allow\":["
	  "\"none\"]}" },
	{ "numbers and sizes as texts",
	  "{\"threads\":\"2\",\"buffers\":\"65536k\"}",
	  "{\"threads\":2,\"buffers\":\"64M\"}" },
	{ "a size as a number", "{\"buffers\":67108864}",
	  "{\"buffers\":\"64M\"}" },
	{ "what is the default", "{\"max-channels\":64,\"no-sandbox\":false}",
	  "{}" },
	{ "the block size that is the default",
	  "{\"backing\":[{\"store\":\"a\",\"block-size\":\"512\"}]}",
	  "{\"backing\":[{\"store\":\"a\"}]}" },
	{ "another block size",
	  "{\"backing\":[{\"store\":\"a\",\"block-size\":\"4k\"}]}",
	  "{\"backing\":[{\"store\":\"a\",\"block-size\":4096}]}" },
	{ "a schema for editors", "{\"$schema\":\"x\"}", "{}" },
};

T_ROWS(has_canonical_form, form_cases)
{
	const struct form_case *c = *state;
	struct config_fault fault = { 0 };
	char *to = canonical(c->from, &fault);
	char *again;

	if (!to)
		fail_msg("%s: %s", fault.place, fault.text);
	assert_string_equal(to, c->to);
	again = canonical(to, &fault);
	assert_non_null(again);
	assert_string_equal(again, to);
	free(again);
	free(to);
}

/* From the configuration to the target's options, and back. */
T_ROWS(is_kept_by_options, form_cases)
{
	const struct form_case *c = *state;
	struct target_options *opt = calloc(1, sizeof(*opt));
	struct config_fault fault = { 0 };
	json_t *json = parsed(c->to);
	json_t *back;

	target_options_init(opt);
	if (!config_store(json, opt, &fault))
		fail_msg("%s: %s", fault.place, fault.text);
	back = config_of_options(opt, json);
	assert_int_equal(config_make_absolute(json, NULL), 0);
	assert_true(json_equal(back, json));
	target_options_free(opt);
	free(opt);
	json_decref(back);
	json_decref(json);
}

/* ---- what is refused ---- */

static const struct refusal_case {
	const char *name;
	const char *from;
	unsigned int line;
	const char *place;
	const char *text; /* a part of the reason */
} refusal_cases[] = {
	{ "no object", "[\n1]", 1, "", "is an object" },
	{ "a key that is nearly one", "{\n\"max-login\": 1}", 2, "max-login",
	  "did you mean 'max-logins'" },
	{ "a key that is none", "{\n\n\"zzzzzz\": 1}", 3, "zzzzzz",
	  "there are control" },
	{ "a key of the command line", "{\"verbose\": 1}", 1, "verbose",
	  "command line" },
	{ "a number out of range", "{\"threads\":\n0}", 1, "threads",
	  "from 1 to" },
	{ "a number that is an object", "{\"threads\":{}}", 1, "threads",
	  "is not a whole number" },
	{ "a number with a fraction", "{\"threads\":1.5}", 1, "threads",
	  "is not a whole number" },
	{ "a number that is none", "{\"threads\":\"x\"}", 1, "threads",
	  "from 1 to" },
	{ "a negative number", "{\"threads\":-1}", 1, "threads", "from 1 to" },
	{ "a flag that is a text", "{\"no-sandbox\":\"on\"}", 1, "no-sandbox",
	  "true or false" },
	{ "a rule", "{\"allow\":[\n\"all\",\n\"al\"]}", 3, "allow[1]",
	  "a rule is" },
	{ "an empty rule", "{\"allow\":\"\"}", 1, "allow[0]", "a rule is" },
	{ "no rule", "{\"allow\":null}", 1, "allow[0]", "is not a text" },
	{ "an empty list of addresses", "{\n\"listen\":[]}", 2, "listen[0]",
	  "no host is named" },
	{ "an address", "{\"listen\":[\"srp://a/b\"]}", 1, "listen[0]",
	  "only an address" },
	{ "a volume that is a number", "{\"backing\":[1]}", 1, "backing[0]",
	  "a SPEC, or an object" },
	{ "a volume without a store", "{\"backing\":[\n{}]}", 2, "backing[0]",
	  "needs 'store'" },
	{ "a SPEC", "{\"backing\":[\"a\",\n\"ram:x\"]}", 2, "backing[1]",
	  "not a size" },
	{ "a parameter twice in a SPEC", "{\"backing\":[\"nbd:b,a=1,a=2\"]}", 1,
	  "backing[0].parameters.a", "given twice" },
	{ "a parameter without a name", "{\"backing\":[\"nbd:b,=1\"]}", 1,
	  "backing[0].parameters.", "not a text" },
	{ "a key of the second volume",
	  "{\"backing\":[\"a\",{\"store\":\"b\",\n\"nmae\":\"c\"}]}", 2,
	  "backing[1].nmae", "no key 'nmae'" },
	{ "a value of a volume",
	  "{\"backing\":[{\"store\":\"b\",\n\"lun\": 256}]}", 2,
	  "backing[0].lun", "from 0 to 255" },
	{ "a rule of a volume",
	  "{\"backing\":[{\"store\":\"b\",\n\"allow\":[\"all\",\n\"x\"]}]}", 3,
	  "backing[0].allow[1]", "a rule is" },
	{ "what only files have",
	  "{\"backing\":[{\"store\":\"ram:1M\",\"direct\":\"on\"}]}", 1,
	  "backing[0].direct", "files and devices only" },
	{ "parameters without a plugin",
	  "{\"backing\":[{\"store\":\"b\",\n\"parameters\":{\"a\":\"b\"}}]}", 1,
	  "backing[0]", "no option 'a'" },
	{ "a parameter that is an option",
	  "{\"backing\":[{\"store\":\"nbd:b\",\"parameters\":{\n\"ro\":\"1\"}}]}",
	  2, "backing[0].parameters.ro", "an option of volumes" },
	{ "a layer without a name",
	  "{\"backing\":[{\"store\":\"b\",\"layer\":[{}]}]}", 1,
	  "backing[0].layer[0]", "name of a plugin" },
	{ "a layer with a key that is none",
	  "{\"backing\":[{\"store\":\"b\",\"layer\":[{\"plugin\":\"a\","
	  "\"x\":1}]}]}",
	  1, "backing[0].layer[0]", "name of a plugin" },
	{ "a name twice",
	  "{\"backing\":[\"ram:1M,name=a\",\"ram:1M,name=b\",\n{\"store\":"
	  "\"ram:2M\",\n\"name\":\"a\"}]}",
	  3, "backing[2].name", "backing[0] has the name 'a'" },
	{ "a LUN twice",
	  "{\"backing\":[{\"store\":\"a\",\"lun\":3},\n{\"store\":\"b\","
	  "\"lun\":3}]}",
	  2, "backing[1].lun", "backing[0] is LUN 3" },
	{ "a file of another file", "{\"config\":\"x\"}", 1, "config",
	  "command line" },
};

T_ROWS(is_refused, refusal_cases)
{
	const struct refusal_case *c = *state;
	struct config_fault fault = { 0 };

	assert_null(canonical(c->from, &fault));
	assert_string_equal(fault.place, c->place);
	if (!strstr(fault.text, c->text))
		fail_msg("'%s' has no '%s'", fault.text, c->text);
	assert_int_equal(config_text_line(c->from, fault.place), c->line);
}

/* ---- text that is not JSON ---- */

static const struct text_case {
	const char *name;
	const char *text;
	size_t len; /* 0: up to its end */
	unsigned int line;
	const char *reason;
} text_cases[] = {
	{ "nothing", "", 0, 1, "not JSON" },
	{ "half an object", "{\n\"a\": ", 0, 2, "not JSON" },
	{ "a key twice", "{\"a\":1,\n\"a\":2}", 0, 2, "duplicate" },
	{ "a zero byte", "{\0}", 3, 1, "not JSON" },
	{ "something behind it", "{}\n}", 0, 2, "not JSON" },
	{ "17 brackets", "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", 0, 1, "nested" },
	{ "a string without an end", "[\"", 0, 1, "not JSON" },
	{ "bytes that are no text", "[\"\xff\xfe\"]", 0, 1, "not JSON" },
};

T_ROWS(is_no_json, text_cases)
{
	const struct text_case *c = *state;
	size_t len = c->len ? c->len : strlen(c->text);
	char *copy = malloc(len + 1);
	unsigned int line = 0;
	struct error e = { 0 };

	assert_non_null(copy);
	memcpy(copy, c->text, len);
	assert_null(config_text_parse(copy, len, &line, &e));
	assert_int_equal(line, c->line);
	if (!strstr(e.text, c->reason))
		fail_msg("'%s' has no '%s'", e.text, c->reason);
	free(copy);
}

T_TEST(brackets_in_texts_do_not_nest)
{
	static const char text[] = "[\"[[\\\"[[[[[[[[[[[[[[[[[[[[[[\"]";

	assert_true(config_text_is_flat(text, strlen(text)));
}

/* ---- relative paths ---- */

static const struct path_case {
	const char *name;
	const char *volume;
	const char *store; /* in a file of /srv */
	const char *layer;
} path_cases[] = {
	{ "a file", "disk.img,name=a", "/srv/disk.img" },
	{ "a file with a comma", "a\\\\,b.img", "/srv/a,b.img" },
	{ "a file that looks like memory", "./ram:1M", "/srv/./ram:1M" },
	{ "a whole path", "/data/disk.img", "/data/disk.img" },
	{ "memory", "ram:1M", "ram:1M" },
	{ "the location of a plugin", "nbd:disk.img", "nbd:disk.img" },
	{ "the path of a plugin", "./p.so:disk.img", "/srv/./p.so:disk.img" },
	{ "the path of a layer", "ram:1M,layer=l/p.so", "ram:1M",
	  "/srv/l/p.so" },
	{ "the name of a layer", "ram:1M,layer=qos", "ram:1M", "qos" },
};

T_ROWS(relative_path_begins_at_its_file, path_cases)
{
	const struct path_case *c = *state;
	struct config_fault fault = { 0 };
	char text[256];
	json_t *config;
	json_t *json;
	json_t *vol;

	snprintf(text, sizeof(text),
		 "{\"pidfile\":\"pid\",\"backing\":[\"%s\"]}", c->volume);
	json = parsed(text);
	config = config_check(json, &fault);
	json_decref(json);
	assert_string_equal(fault.text, "");
	assert_int_equal(config_make_absolute(config, "/srv"), 0);
	assert_string_equal(
		json_string_value(json_object_get(config, "pidfile")),
		"/srv/pid");
	vol = json_array_get(json_object_get(config, "backing"), 0);
	assert_string_equal(json_string_value(json_object_get(vol, "store")),
			    c->store);
	if (c->layer)
		assert_string_equal(
			json_string_value(json_object_get(
				json_array_get(json_object_get(vol, "layer"), 0),
				"plugin")),
			c->layer);
	json_decref(config);
}

T_TEST(directory_of_a_file_is_absolute)
{
	static const char *const rows[][2] = {
		{ "/etc/t.json", "/etc" },
		{ "/t.json", "/" },
		{ "t.json", "/tmp" },
		{ "a/t.json", "/tmp/a" },
	};

	assert_int_equal(chdir("/tmp"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *dir = config_dir_of(rows[i][0]);

		assert_string_equal(dir, rows[i][1]);
		free(dir);
	}
}
