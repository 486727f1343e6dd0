/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/configure_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/block/plugin_load.h"
#include "config/config_text.h"
#include "target/privileges.h"

/* Names the version that the target saved before, if there is one. */
static void configuration_advise(const char *path, struct error *e)
{
	_cleanup_free_ char *place = config_place_of(path);
	char before[PATH_MAX];

	snprintf(before, sizeof(before), "%s.1", place ? place : path);
	if (access(before, R_OK) == 0)
		error_add(e, "; the version before: cp %s %s", before, path);
}

/* Stores the values of the file @path in c->opt. */
static bool configuration_take_file(struct configuration *c, const char *path)
{
	struct config_fault fault;
	struct error e;

	c->file = config_read(path, &e);
	if (!c->file) {
		configuration_advise(path, &e);
		log_error("%s", e.text);
		return false;
	}
	if (config_store(c->file, &c->opt, &fault))
		return true;
	log_error("%s: %s", path, fault.text);
	return false;
}

/* The command line names the file. The values of the file come first. */
static enum option_verdict configuration_add_file(int argc, char **argv,
						  struct configuration *c)
{
	const char *path = c->opt.config;

	target_options_free(&c->opt);
	target_options_init(&c->opt);
	if (!configuration_take_file(c, path))
		return OPTION_BAD;
	return configuration_add(argc, argv, &c->opt);
}

/* ---- --check ---- */

/* Checks that the plugin exists, is of the right kind, and knows the
 * parameters. */
static bool configuration_check_plugin(const struct plugin_spec *spec,
				       bool is_layer, struct error *e)
{
	const struct rbp_plugin *plugin;
	struct rbp_arg *args;

	if (!*spec->name)
		return true;
	if (plugin_load(spec->name, &plugin, e)) {
		if (!is_layer)
			plugin_load_advise(spec->name, e);
		return false;
	}
	if (!plugin->is_layer != !is_layer) {
		error_set(e, -EINVAL, "plugin %s is a %s", spec->name,
			  plugin->is_layer ? "layer, and no store"
					   : "store, and no layer");
		return false;
	}
	if (plugin_args(plugin, spec, &args, e))
		return false;
	free(args);
	return true;
}

bool configuration_check_store(const struct volume_spec *spec, struct error *e)
{
	bool good = configuration_check_plugin(&spec->plugin,
					       /* is_layer= */ false, e);

	for (unsigned int i = 0; i < spec->layer_cnt && good; i++)
		good = configuration_check_plugin(&spec->layers[i],
						  /* is_layer= */ true, e);
	return good;
}

static unsigned int configuration_line(const char *path, const char *place)
{
	_cleanup_free_ char *text = NULL;
	struct error ignored;
	json_t *json = config_read_json(path, &text, &ignored);
	unsigned int line = json ? config_text_line(text, place) : 1;

	json_decref(json);
	return line;
}

static bool configuration_check_volumes(const struct configuration *c,
					const char *path)
{
	for (unsigned int i = 0; i < c->opt.backing_cnt; i++) {
		char place[32];
		struct error e;

		if (configuration_check_store(&c->opt.backings[i], &e))
			continue;
		snprintf(place, sizeof(place), "backing[%u]", i);
		log_error("%s:%u: %s: %s", path,
			  configuration_line(path, place), place, e.text);
		return false;
	}
	return true;
}

/* Not when the option is read: that is also done under the system call filter,
 * which allows no question to a server of names. */
static bool configuration_check_user(const struct configuration *c,
				     const char *path)
{
	struct error e;

	if (!c->opt.user || privileges_check_user(c->opt.user, &e) == 0)
		return true;
	log_error("%s:%u: user: %s", path, configuration_line(path, "user"),
		  e.text);
	return false;
}

/* Volumes may be added through the control socket. */
static bool configuration_serves(const struct configuration *c,
				 const char *path)
{
	if (c->opt.backing_cnt || options_have_control(&c->opt))
		return true;
	log_error("%s: there is nothing to serve: it has no 'backing'; a "
		  "target with --control starts without",
		  path);
	return false;
}

/* The file is the only source of the options. */
static bool configuration_check_options(struct configuration *c,
					const char *path)
{
	struct error e;
	const char *option = configuration_complete(&c->opt, &e);

	if (!option)
		return true;
	log_error("%s:%u: %s%s%s", path, configuration_line(path, option),
		  option, *option ? ": " : "", e.text);
	return false;
}

static enum option_verdict configuration_check(struct configuration *c)
{
	const char *path = c->opt.check;
	const char *control = c->opt.control;

	target_options_free(&c->opt);
	target_options_init(&c->opt);
	c->opt.control = control;
	c->opt.config = path;
	if (!configuration_take_file(c, path) ||
	    !configuration_serves(c, path) ||
	    !configuration_check_volumes(c, path) ||
	    !configuration_check_user(c, path) ||
	    !configuration_check_options(c, path))
		return OPTION_BAD;
	printf("%s: correct: %u volume%s, ", path, c->opt.backing_cnt,
	       c->opt.backing_cnt == 1 ? "" : "s");
	if (c->opt.listen_cnt)
		printf("%u address%s to listen on\n", c->opt.listen_cnt,
		       c->opt.listen_cnt == 1 ? "" : "es");
	else
		printf("listens by default\n");
	return OPTION_DONE;
}

enum option_verdict configuration_read_file(int argc, char **argv,
					    struct configuration *c)
{
	enum option_verdict verdict = OPTION_RUN;

	if (c->opt.check)
		return configuration_check(c);
	if (c->opt.config)
		verdict = configuration_add_file(argc, argv, c);
	if (verdict == OPTION_RUN)
		c->all = config_of_options(&c->opt, c->file);
	return verdict;
}

void configuration_drop_file(struct configuration *c)
{
	json_decref(c->file);
	json_decref(c->all);
}
