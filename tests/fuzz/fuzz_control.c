/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to the control socket, and configurations in messages and in
 * files. */
#include "config/config_text.h"
#include "target/control/varlink.h"
#include "tests/fuzz/fuzz.h"

/* A canonical form does not change when it is made canonical again, and options
 * can hold it. */
static void check_config(const json_t *json)
{
	struct config_fault fault = { .place = "", .text = "" };
	json_t *config = config_check(json, &fault);
	struct target_options opt;
	json_t *again;

	if (!config) {
		FUZZ_CLAIM(*fault.text);
		return;
	}
	again = config_check(config, &fault);
	FUZZ_CLAIM(again && json_equal(config, again));
	target_options_init(&opt);
	FUZZ_CLAIM(config_store(config, &opt, &fault));
	target_options_free(&opt);
	json_decref(again);
	json_decref(config);
}

static void call(char *text, size_t len)
{
	struct varlink_call c;
	const char *why = NULL;

	if (!varlink_decode(text, len, &c, &why)) {
		FUZZ_CLAIM(why && *why);
		return;
	}
	FUZZ_CLAIM(*c.method && *c.interface);
	check_config(json_object_get(c.parameters, "config"));
	json_decref(c.parameters);
}

static void file(char *text, size_t len)
{
	unsigned int line = 0;
	struct config_fault fault;
	struct error e;
	json_t *json = config_text_parse(text, len, &line, &e);
	json_t *config;

	FUZZ_CLAIM(json || (line > 0 && *e.text));
	if (!json)
		return;
	config = config_check(json, &fault);
	if (!config)
		FUZZ_CLAIM(config_text_line(text, fault.place) >= 1);
	json_decref(config);
	check_config(json);
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	bool is_call = fuzz_u8(&in) == 'c';
	char *text = fuzz_text(&in);

	if (is_call)
		call(text, strlen(text));
	else
		file(text, strlen(text));
	free(text);
	return 0;
}
