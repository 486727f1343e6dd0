/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/configure.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "target/control/config_text.h"

/* What the target has saved before is there, too. */
static void configuration_advise(const char *path, struct error *e)
{
	char before[PATH_MAX];

	snprintf(before, sizeof(before), "%s.1", path);
	if (access(before, R_OK) == 0)
		error_add(e, "; the version before: cp %s %s", before, path);
}

/* Stores what stands in @path in c->opt. */
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

/* The command line says which file; the file comes before it. */
static enum option_verdict configuration_add_file(int argc, char **argv,
						  struct configuration *c)
{
	const char *path = c->opt.config;

	target_options_free(&c->opt);
	target_options_init(&c->opt);
	if (!configuration_take_file(c, path))
		return OPTION_BAD;
	return target_options_add(argc, argv, &c->opt);
}

static enum option_verdict configuration_check(struct configuration *c)
{
	const char *path = c->opt.check;

	target_options_free(&c->opt);
	target_options_init(&c->opt);
	/* A target without volumes is checked, too. */
	c->opt.control = "";
	c->opt.config = path;
	if (!configuration_take_file(c, path) ||
	    !target_options_finish(&c->opt))
		return OPTION_BAD;
	printf("%s: correct: %u volume%s, %u address%s to listen on\n", path,
	       c->opt.backing_cnt, c->opt.backing_cnt == 1 ? "" : "s",
	       c->opt.listen_cnt, c->opt.listen_cnt == 1 ? "" : "es");
	return OPTION_DONE;
}

enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret)
{
	enum option_verdict verdict;

	ret->file = NULL;
	ret->all = NULL;
	target_options_init(&ret->opt);
	verdict = target_options_add(argc, argv, &ret->opt);
	if (verdict == OPTION_RUN && ret->opt.check)
		return configuration_check(ret);
	if (verdict == OPTION_RUN && ret->opt.config)
		verdict = configuration_add_file(argc, argv, ret);
	if (verdict != OPTION_RUN)
		return verdict;
	ret->all = config_of_options(&ret->opt);
	return target_options_finish(&ret->opt) ? OPTION_RUN : OPTION_BAD;
}

void configuration_free(struct configuration *c)
{
	target_options_free(&c->opt);
	json_decref(c->file);
	json_decref(c->all);
}
