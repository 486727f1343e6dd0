/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/configure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "base/log.h"
#include "base/reactor.h"
#include "base/size.h"
#include "target/configure_file.h"

/* One thread for each processor, if there is memory for its buffers. More
 * threads than OPTIONS_THREADS_DEFAULT_MAX would need more than the default of
 * --buffers. */
static unsigned int
configuration_default_threads(const struct target_options *opt)
{
	uint64_t buffers =
		opt->buffers ? opt->buffers : OPTIONS_BUFFERS_DEFAULT;
	uint64_t max = buffers / OPTIONS_BUFFERS_THREAD;
	unsigned int cnt = reactor_processors();

	if (cnt > OPTIONS_THREADS_DEFAULT_MAX)
		cnt = OPTIONS_THREADS_DEFAULT_MAX;
	if (cnt > max)
		cnt = (unsigned int)max;
	return cnt > 0 ? cnt : 1;
}

/* Fills in the defaults that depend on other options, and those of lists. */
static void configuration_fill_in(struct target_options *opt)
{
	struct error e;

	if (!opt->allow.cnt)
		access_rules_add(&opt->allow, ACCESS_DEFAULT, &e);
	if (opt->poll_us == OPTIONS_POLL_US_DEFAULT)
		opt->poll_us = reactor_poll_us_default();
	opt->threads_given = opt->threads > 0;
	if (!opt->threads_given)
		opt->threads = configuration_default_threads(opt);
	if (opt->buffers == 0 &&
	    OPTIONS_BUFFERS_DEFAULT / opt->threads < OPTIONS_BUFFERS_THREAD)
		opt->buffers = (uint64_t)OPTIONS_BUFFERS_THREAD * opt->threads;
	else if (opt->buffers == 0)
		opt->buffers = OPTIONS_BUFFERS_DEFAULT;
}

/* For a conflict that belongs to no single option. */
#define OPTIONS_NONE ""

/* Checks combinations of options. NULL: they are right. */
static const char *configuration_conflict(const struct target_options *opt,
					  struct error *e)
{
	char size[SIZE_TEXT_SIZE];

	if (!HAVE_JSON &&
	    (opt->config || opt->check || opt->control || opt->auto_save)) {
		error_refuse(e, "--config, --check, --control and --auto-save: "
				"built without jansson");
		return OPTIONS_NONE;
	}
	if (!HAVE_HTTP && opt->metrics) {
		error_refuse(e,
			     "'%s': built without libmicrohttpd; use "
			     "metrics-file",
			     opt->metrics);
		return "metrics";
	}
	if (opt->backing_cnt == 0 && !options_have_control(opt)) {
		error_refuse(
			e,
			"nothing to serve: give at least one --backing (a file, "
			"a block device, or ram:SIZE); try --help");
		return OPTIONS_NONE;
	}
	if (opt->auto_save && !opt->config) {
		error_refuse(e, "there is no --config to save to");
		return "auto-save";
	}
	if (opt->volumes_from && (opt->no_sandbox || !HAVE_SANDBOX)) {
		error_refuse(e,
			     "'%s': without the sandbox, nothing closes "
			     "other files",
			     opt->volumes_from);
		return "volumes-from";
	}
	if (opt->check_plugin && opt->backing_cnt > 1) {
		error_refuse(e, "it serves nothing: leave out --backing");
		return "check-plugin";
	}
	if (opt->buffers / opt->threads < OPTIONS_BUFFERS_MIN) {
		error_refuse(e,
			     "%s is too small for %u threads, give at least "
			     "%uM for each",
			     size_format(opt->buffers, size), opt->threads,
			     OPTIONS_BUFFERS_MIN >> 20);
		return "buffers";
	}
	return NULL;
}

static bool configuration_check_dir(const char *dir, struct error *e)
{
	struct stat st;

	if (!dir)
		return true;
	if (stat(dir, &st))
		return error_refuse(
			e, "'%s': %s", dir,
			errno == ENOENT ? "does not exist; create it first, "
					  "for the user of rdma-target"
					: strerror(errno));
	return S_ISDIR(st.st_mode) ||
	       error_refuse(e, "'%s': not a directory", dir);
}

static bool configuration_read_keys(struct target_options *opt, struct error *e)
{
	opt->keys = calloc(1, sizeof(*opt->keys));
	if (!opt->keys)
		return error_refuse(e, "out of memory");
	return key_file_read(opt->keys_file, opt->keys, e) == 0;
}

/* Looks at what options name, with the rights of the user that starts the target. Not when
 * an option is read: a running target reads those of clients that may only look, and they
 * must not learn what files there are. Returns as configuration_complete(). */
static const char *configuration_look(struct target_options *opt,
				      struct error *e)
{
	if (!options_keep_nothing(opt) &&
	    !configuration_check_dir(opt->state_dir, e))
		return "state-dir";
	if (!configuration_check_dir(opt->volumes_from, e))
		return "volumes-from";
	if (opt->keys_file && !configuration_read_keys(opt, e))
		return "keys";
	return NULL;
}

enum option_verdict configuration_add(int argc, char **argv,
				      struct target_options *opt)
{
	int first;
	enum option_verdict verdict =
		option_parse(&target_option_table, argc, argv, opt, &first);

	if (verdict != OPTION_RUN)
		return verdict;
	if (first == argc)
		return OPTION_RUN;
	log_error("unexpected '%s': volumes are given with --backing",
		  argv[first]);
	return OPTION_BAD;
}

const char *configuration_complete(struct target_options *opt, struct error *e)
{
	const char *option;

	configuration_fill_in(opt);
	option = configuration_conflict(opt, e);
	return option ? option : configuration_look(opt, e);
}

bool configuration_finish(struct target_options *opt)
{
	struct error e;
	const char *option = configuration_complete(opt, &e);

	if (option)
		log_error("%s%s%s%s", *option ? "--" : "", option,
			  *option ? ": " : "", e.text);
	return !option;
}

/* A target without a volume has to be told where rdma-ctl can reach it. */
static void configuration_choose_control(struct configuration *c)
{
	struct target_options *opt = &c->opt;

	if (opt->control && !options_have_control(opt))
		opt->control = NULL;
	else if (HAVE_JSON && !opt->control && !opt->check_plugin &&
		 control_path_default(options_first_port(opt), &c->own_control))
		opt->control = c->own_control.text;
}

enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret)
{
	enum option_verdict verdict;

	ret->file = NULL;
	ret->all = NULL;
	ret->ready_fd = -1;
	ret->own_control.text[0] = '\0';
	target_options_init(&ret->opt);
	verdict = configuration_add(argc, argv, &ret->opt);
#if HAVE_JSON
	if (verdict == OPTION_RUN)
		verdict = configuration_read_file(argc, argv, ret);
#endif
	if (verdict != OPTION_RUN)
		return verdict;
	if (!configuration_finish(&ret->opt))
		return OPTION_BAD;
	configuration_choose_control(ret);
	return OPTION_RUN;
}

void configuration_free(struct configuration *c)
{
	target_options_free(&c->opt);
#if HAVE_JSON
	configuration_drop_file(c);
#endif
}
