/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-ctl: looks at a running rdma-target, and changes it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/list.h"
#include "base/log.h"
#include "base/std_files.h"
#include "ctl/ctl_client.h"
#include "ctl/ctl_give.h"
#include "ctl/ctl_hosts.h"
#include "ctl/ctl_look.h"
#include "ctl/ctl_options.h"
#include "ctl/ctl_print.h"
#include "ctl/ctl_keys.h"
#include "ctl/ctl_text.h"
#include "ctl/ctl_top.h"
#include "config/config_json.h"
#include "config/config_path.h"
#include "config/config_text.h"

/* What a verb was given. */
struct ctl_args {
	const struct ctl_options *opt;
	char **arg;
	int cnt;
	/* Of the verb, unless its arguments ask for another one. */
	const char *method;
	void (*print)(const json_t *out);
	void (*print_json)(const json_t *out); /* for --json */
	const char *
		only; /* the volume of the configuration that is shown; NULL: all */
	bool gives;   /* files and sockets of: */
	json_t *want; /* to be freed; NULL: the target's configuration file */
};

struct ctl_verb {
	const char *name; /* one or two words, as in ctl_verb_table */
	int min;	  /* arguments */
	int max;	  /* -1: any number */
	const char *method;
	/* The parameters of the call; NULL: one line was logged. */
	json_t *(*make)(struct ctl_args *a);
	void (*print)(const json_t *out); /* NULL: nothing */
	bool follows;			  /* there are several answers */
	bool looks;			  /* as ctl_look.h */
	/* Makes its own calls; NULL: the above. */
	enum ctl_exit (*run)(const struct ctl_options *opt, char **arg,
			     int cnt);
};

/* ---- parameters ---- */

static json_t *make_nothing(struct ctl_args *a)
{
	return json_object();
}

static json_t *make_name(struct ctl_args *a)
{
	return json_pack("{ss}", "name", a->arg[0]);
}

/* The target refuses a SPEC that is wrong. */
static json_t *make_volume(struct ctl_args *a)
{
	json_t *spec = json_string(a->arg[0]);
	struct config_fault ignored;
	json_t *vol = config_check_volume(spec, "volume", NULL, &ignored);
	int err = vol ? config_make_volume_absolute(vol, NULL) : 0;

	json_decref(spec);
	if (!vol)
		return json_pack("{ss}", "volume", a->arg[0]);
	if (!err) {
		a->gives = true;
		a->want = json_pack("{s[O]}", "backing", vol);
		return json_pack("{so}", "volume", vol);
	}
	log_error("%s: no working directory: %s", a->arg[0], strerror(-err));
	json_decref(vol);
	return NULL;
}

static json_t *make_remove(struct ctl_args *a)
{
	return json_pack("{sssb}", "name", a->arg[0], "force", a->opt->force);
}

static json_t *make_resize(struct ctl_args *a)
{
	json_t *in = make_name(a);

	if (in && a->cnt > 1)
		json_object_set_new(in, "size", json_string(a->arg[1]));
	return in;
}

/* KEY=VALUE from argument @first on. */
static json_t *make_keys(struct ctl_args *a, int first)
{
	json_t *parameters = json_object();

	for (int i = first; i < a->cnt; i++) {
		char *value = strchr(a->arg[i], '=');

		if (!value) {
			log_error("'%s' is not KEY=VALUE", a->arg[i]);
			json_decref(parameters);
			return NULL;
		}
		*value++ = '\0';
		json_object_set_new(parameters, a->arg[i], json_string(value));
	}
	return parameters;
}

static json_t *make_parameters(struct ctl_args *a)
{
	json_t *keys = make_keys(a, 2);

	return keys ? json_pack("{ssssso}", "name", a->arg[0], "plugin",
				a->arg[1], "parameters", keys)
		    : NULL;
}

/* A verb without what it would set shows what is there, from the configuration. @volume:
 * NULL: of all volumes, or of the target. */
static json_t *make_show(struct ctl_args *a, const char *volume,
			 void (*print)(const json_t *out),
			 void (*print_json)(const json_t *out))
{
	a->method = "GetConfig";
	a->only = volume;
	a->print = print;
	a->print_json = print_json;
	return json_object();
}

/* "qos" shows the limits, "qos NAME" those of a volume, and "qos NAME KEY=VALUE..." sets
 * them. */
static json_t *make_qos(struct ctl_args *a)
{
	json_t *keys;

	if (a->cnt < 2)
		return make_show(a, a->cnt ? a->arg[0] : NULL, ctl_print_qos,
				 ctl_print_qos_json);
	keys = make_keys(a, 1);
	return keys ? json_pack("{ssssso}", "name", a->arg[0], "plugin", "qos",
				"parameters", keys)
		    : NULL;
}

static json_t *make_rules(char **arg, int cnt)
{
	json_t *rules = json_array();

	for (int i = 0; rules && i < cnt; i++)
		json_array_append_new(rules, json_string(arg[i]));
	return rules;
}

static json_t *make_allow(struct ctl_args *a)
{
	if (a->cnt == 0)
		return make_show(a, NULL, ctl_print_allow,
				 ctl_print_allow_json);
	return json_pack("{so}", "rules", make_rules(a->arg, a->cnt));
}

static json_t *make_volume_allow(struct ctl_args *a)
{
	if (a->cnt == 1)
		return make_show(a, a->arg[0], ctl_print_volume_allow,
				 ctl_print_volume_allow_json);
	return json_pack("{ssso}", "volume", a->arg[0], "rules",
			 make_rules(a->arg + 1, a->cnt - 1));
}

/* "fault NAME none" ends all faults. */
static json_t *make_faults(struct ctl_args *a)
{
	bool none = a->cnt == 2 && !strcmp(a->arg[1], "none");

	if (a->cnt == 1)
		return make_show(a, a->arg[0], ctl_print_faults,
				 ctl_print_faults_json);
	return json_pack("{ssso}", "name", a->arg[0], "rules",
			 make_rules(a->arg + 1, none ? 0 : a->cnt - 1));
}

static json_t *make_uri(struct ctl_args *a)
{
	return json_pack("{ss}", "uri", a->arg[0]);
}

static json_t *make_listener(struct ctl_args *a)
{
	a->gives = true;
	a->want = json_pack("{s[s]}", "listen", a->arg[0]);
	return make_uri(a);
}

static json_t *make_metrics(struct ctl_args *a)
{
	if (a->opt->json)
		a->method = "GetMetrics";
	return json_object();
}

static json_t *make_initiator(struct ctl_args *a)
{
	return json_pack("{ss}", "initiator", a->arg[0]);
}

static json_t *make_level(struct ctl_args *a)
{
	return json_pack("{ss}", "level", a->arg[0]);
}

static json_t *make_save(struct ctl_args *a)
{
	return json_pack("{sb}", "force", a->opt->force);
}

static json_t *make_config(struct ctl_args *a)
{
	struct error e;
	json_t *config = config_read(a->arg[0], &e);
	json_t *in;

	if (!config) {
		log_error("%s", e.text);
		return NULL;
	}
	if (a->opt->dry_run)
		a->method = "Diff";
	a->gives = !strcmp(a->method, "Apply");
	a->want = json_incref(config);
	in = json_pack("{so sb sb}", "config", config, "prune", a->opt->prune,
		       "force", a->opt->force);
	if (!a->gives)
		json_object_set_new(in, "whole", json_true());
	return in;
}

static json_t *make_reload(struct ctl_args *a)
{
	a->gives = true;
	return json_object();
}

/* ---- verbs ---- */

static const struct ctl_verb ctl_verbs[] = {
	{ "status", 0, 0, "GetStatus", make_nothing, ctl_look_status,
	  .looks = true },
	{ "tree", 0, 0, "GetStatus", make_nothing, ctl_look_tree,
	  .looks = true },
	{ "ls", 0, 0, "GetStatus", make_nothing, ctl_look_tree, .looks = true },
	{ "show", 0, 0, "GetConfig", make_nothing, ctl_print_config },
	{ "volume list", 0, 0, "ListVolumes", make_nothing, ctl_look_volumes },
	{ "volume show", 1, 1, "GetStatus", make_nothing, NULL, .looks = true },
	{ "volume add", 1, 1, "AddVolume", make_volume, ctl_print_added },
	{ "volume remove", 1, 1, "RemoveVolume", make_remove, NULL },
	{ "volume forget", 1, 1, "ForgetVolume", make_name, NULL },
	{ "volume resize", 1, 2, "ResizeVolume", make_resize, ctl_print_size },
	{ "volume set", 3, -1, "SetParameters", make_parameters, NULL },
	{ "volume allow", 1, -1, "SetAllow", make_volume_allow,
	  ctl_print_ended },
	{ "volume eject", 1, 1, "EjectVolume", make_name, NULL },
	{ "volume load", 1, 1, "LoadVolume", make_name, NULL },
	{ "session list", 0, 0, "ListSessions", make_nothing,
	  ctl_look_sessions },
	{ "session kick", 1, 1, "KickSession", make_initiator, NULL },
	{ "allow", 0, -1, "SetAllow", make_allow, ctl_print_ended },
	{ "listen add", 1, 1, "AddListener", make_listener, NULL },
	{ "listen remove", 1, 1, "RemoveListener", make_uri, NULL },
	{ "qos", 0, -1, "SetParameters", make_qos, NULL },
	{ "fault", 1, -1, "SetFaults", make_faults, NULL },
	{ "events", 0, 0, "FollowEvents", make_nothing, ctl_print_event,
	  /* follows= */ true },
	{ "metrics", 0, 0, "GetExposition", make_metrics, ctl_print_metrics },
	{ "key list", 0, 0, "ListKeys", make_nothing, ctl_print_keys },
	{ "key add", 1, 2, .run = ctl_key_add },
	{ "key rotate", 1, 1, .run = ctl_key_rotate },
	{ "key remove", 1, 2, .run = ctl_key_remove },
	{ "key reload", 0, 0, .run = ctl_key_reload },
	{ "top", 0, 2, .run = ctl_top },
	{ "diff", 1, 1, "Diff", make_config, ctl_print_changes },
	{ "apply", 1, 1, "Apply", make_config, ctl_print_changes },
	{ "reload", 0, 0, "Reload", make_reload, ctl_print_changes },
	{ "save", 0, 0, "Save", make_save, ctl_print_saved },
	/* Asks no target. */
	{ "check", 1, 1, NULL, NULL, NULL },
	{ "loglevel", 1, 1, "SetLogLevel", make_level, NULL },
	{ "help", 0, 2, NULL, NULL, NULL },
};

/* The words of @name that @arg begins with; 0: not all of them. */
static int ctl_match(const char *name, char **arg, int cnt)
{
	const char *space = strchr(name, ' ');
	size_t len = space ? (size_t)(space - name) : strlen(name);

	if (cnt < 1 || strlen(arg[0]) != len || strncmp(name, arg[0], len) != 0)
		return 0;
	if (!space)
		return 1;
	return cnt > 1 && !strcmp(space + 1, arg[1]) ? 2 : 0;
}

static const struct ctl_verb *ctl_find_verb(char **arg, int cnt, int *ret_words)
{
	for (size_t i = 0; i < ARRAY_SIZE(ctl_verbs); i++) {
		*ret_words = ctl_match(ctl_verbs[i].name, arg, cnt);
		if (*ret_words)
			return &ctl_verbs[i];
	}
	return NULL;
}

/* The words that may follow @first; empty: it begins no verb of two words. */
static void ctl_list_seconds(const char *first, char *text, size_t text_len)
{
	size_t len = strlen(first);
	size_t at = 0;

	*text = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(ctl_verbs); i++) {
		const char *name = ctl_verbs[i].name;

		if (strncmp(name, first, len) == 0 && name[len] == ' ' &&
		    at < text_len)
			at += (size_t)snprintf(text + at, text_len - at, "%s%s",
					       at ? ", " : "", name + len + 1);
	}
}

/* "volume list or session list": the verbs with @second as their second word; empty: there
 * are none. */
static void ctl_list_firsts(const char *second, char *text, size_t text_len)
{
	size_t at = 0;

	*text = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(ctl_verbs); i++) {
		const char *space = strchr(ctl_verbs[i].name, ' ');

		if (space && !strcmp(space + 1, second) && at < text_len)
			at += (size_t)snprintf(text + at, text_len - at, "%s%s",
					       at ? "' or '" : "",
					       ctl_verbs[i].name);
	}
}

/* Names the nearest verb. One of one word may have arguments. */
static void ctl_refuse_verb(char **arg, int cnt)
{
	const struct option_row *near = NULL;
	char words[64];
	char seconds[128];
	char firsts[128];

	ctl_list_seconds(arg[0], seconds, sizeof(seconds));
	ctl_list_firsts(arg[0], firsts, sizeof(firsts));
	for (int n = cnt > 1 ? 2 : 1; n > 0 && !near; n--) {
		snprintf(words, sizeof(words), "%s%s%s", arg[0],
			 n > 1 ? " " : "", n > 1 ? arg[1] : "");
		near = option_nearest(&ctl_verb_table, words, strlen(words));
	}
	if (*firsts)
		log_error("no verb '%s'; did you mean '%s'? Try --help", arg[0],
			  firsts);
	else if (near)
		log_error("no verb '%s'; did you mean '%s'? Try --help",
			  !strchr(near->name, ' ') ? arg[0] : words,
			  near->name);
	else if (*seconds)
		log_error("after '%s' comes one of: %s; try --help", arg[0],
			  seconds);
	else
		log_error("no verb '%s%s%s'; try --help", arg[0],
			  cnt > 1 ? " " : "", cnt > 1 ? arg[1] : "");
}

/* An option that is set, and that @verb does not take; NULL: none. */
static const char *ctl_find_extra(const struct ctl_verb *verb,
				  const struct ctl_options *opt)
{
	bool takes_config = verb->make == make_config;

	/* Its lines are differences, which the target does not have. */
	if (opt->json && !strcmp(verb->name, "top"))
		return "--json";
	if (opt->dry_run && !takes_config)
		return "--dry-run";
	if (opt->prune && !takes_config)
		return "--prune";
	if (opt->force && !takes_config && verb->make != make_remove &&
	    verb->make != make_save)
		return "--force";
	return NULL;
}

/* The options that the verb @name takes. */
static void ctl_print_taken(const char *name)
{
	static const struct {
		const char *text;
		struct ctl_options opt;
	} options[] = {
		{ "--dry-run", { .dry_run = true } },
		{ "--prune", { .prune = true } },
		{ "--force", { .force = true } },
		{ "--json", { .json = true } },
	};
	const char *before = "  Options: ";

	for (size_t i = 0; i < ARRAY_SIZE(ctl_verbs); i++) {
		if (strcmp(ctl_verbs[i].name, name) != 0)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(options); k++) {
			if (ctl_find_extra(&ctl_verbs[i], &options[k].opt))
				continue;
			printf("%s%s", before, options[k].text);
			before = ", ";
		}
	}
	if (*before == ',')
		putchar('\n');
}

static void ctl_print_help(const struct option_row *row)
{
	const struct option_table one = { .style = OPTION_VERB,
					  .rows = row,
					  .cnt = 1 };

	option_help(&one, stdout);
	ctl_print_taken(row->name);
	if (row->keys) {
		putchar('\n');
		option_help(row->keys, stdout);
	}
}

/* Does @name begin with all of the words of @words? */
static bool ctl_verb_begins(const char *name, const char *words)
{
	size_t len = strlen(words);

	return !strncmp(name, words, len) && (!name[len] || name[len] == ' ');
}

/* "help" alone is --help, with "volume add" what that does. */
static enum ctl_exit ctl_help(const struct ctl_args *a)
{
	char words[64] = "";
	unsigned int cnt = 0;

	if (!a->cnt) {
		option_help(&ctl_option_table, stdout);
		return CTL_DONE;
	}
	snprintf(words, sizeof(words), "%s%s%s", a->arg[0],
		 a->cnt > 1 ? " " : "", a->cnt > 1 ? a->arg[1] : "");
	for (unsigned int i = 0; i < ctl_verb_table.cnt; i++) {
		const struct option_row *row = &ctl_verb_table.rows[i];

		if (!ctl_verb_begins(row->name, words))
			continue;
		printf("%s", cnt++ ? "\n" : "");
		ctl_print_help(row);
	}
	if (!cnt)
		ctl_refuse_verb(a->arg, a->cnt);
	return cnt ? CTL_DONE : CTL_REFUSED;
}

static enum ctl_exit ctl_check(const struct ctl_args *a)
{
	struct error e;
	json_t *config = config_read(a->arg[0], &e);

	if (!config) {
		log_error("%s", e.text);
		return CTL_REFUSED;
	}
	if (a->opt->json)
		ctl_print_json(config);
	else
		printf("%s: correct\n", a->arg[0]);
	json_decref(config);
	return CTL_DONE;
}

/* It is done, but something about it is not as it should be. */
static void ctl_tell_warnings(const json_t *out)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(out, "warnings"), i, one)
		log_warn("%s", json_string_value(one));
}

/* Takes all other volumes out of the configuration @out. */
static bool ctl_show_only(json_t *out, const char *name)
{
	json_t *config = json_object_get(out, "config");
	json_t *only = json_array();
	json_t *vol;
	size_t i;

	json_array_foreach(json_object_get(config, "backing"), i, vol) {
		const char *own = config_get_text(vol, "name");

		if (own && !strcmp(own, name))
			json_array_append(only, vol);
	}
	json_object_set_new(config, "backing", only);
	if (json_array_size(only))
		return true;
	log_error("volume '%s': there is no volume of that name", name);
	return false;
}

/* As JSON, an object of "volumes" in the answer to ListVolumes. */
static enum ctl_exit ctl_show_volume(const struct ctl_args *a,
				     const json_t *all)
{
	const json_t *vol = ctl_look_find(all, a->arg[0]);

	if (!vol)
		log_error("volume '%s': there is no volume of that name",
			  a->arg[0]);
	else if (a->opt->json)
		ctl_print_json(vol);
	else
		ctl_look_volume(all, vol);
	return vol ? CTL_DONE : CTL_REFUSED;
}

/* What ctl_run_follow() prints with. */
static void (*ctl_print_answer)(const json_t *out);

/* False: nobody reads it. */
static bool ctl_take_answer(const json_t *out)
{
	ctl_print_answer(out);
	return fflush(stdout) == 0;
}

static enum ctl_exit ctl_run_follow(const struct ctl_verb *verb,
				    const struct ctl_args *a, json_t *in)
{
	enum ctl_exit code;
	struct error e;

	ctl_print_answer = a->opt->json ? ctl_print_json_line : verb->print;
	code = ctl_follow(a->opt, a->method, in, ctl_take_answer, &e);
	if (code != CTL_DONE)
		log_error("%s", e.text);
	return code;
}

/* Takes over @in. */
static enum ctl_exit ctl_call_giving(const struct ctl_args *a, json_t *in,
				     json_t **ret_out, struct error *e)
{
	const bool only_new = strcmp(a->method, "AddVolume") != 0;
	struct error why = { 0 };
	enum ctl_exit code = CTL_UNREACHABLE;
	struct ctl_link l;

	if (ctl_link_open(&l, a->opt, e)) {
		json_decref(in);
	} else if (ctl_give(&l, a->want, only_new, &why) != CTL_DONE) {
		*e = why;
		json_decref(in);
	} else {
		code = ctl_link_call(&l, a->method, in, NULL, 0, ret_out, e);
		if (code == CTL_REFUSED && why.err)
			error_add(e, "; %s", why.text);
	}
	ctl_link_close(&l);
	return code;
}

/* A name that is not found soon is left out. */
#define CTL_NAMES_MS 500

/* Adds the names of the hosts of @sessions. */
static void ctl_add_names(json_t *out, const json_t *sessions)
{
	json_object_set_new(out, "host_names",
			    ctl_host_names(sessions, CTL_NAMES_MS));
}

/* Adds what ctl_look.h says to @out. */
static enum ctl_exit ctl_add_lists(const struct ctl_options *opt, json_t *out,
				   struct error *e)
{
	json_t *volumes = NULL, *sessions = NULL;
	enum ctl_exit code =
		ctl_call(opt, "ListVolumes", json_object(), &volumes, e);

	if (code == CTL_DONE)
		code = ctl_call(opt, "ListSessions", json_object(), &sessions,
				e);
	if (code == CTL_DONE) {
		json_object_set(out, "volume_list",
				json_object_get(volumes, "volumes"));
		json_object_set(out, "session_list",
				json_object_get(sessions, "sessions"));
	}
	json_decref(volumes);
	json_decref(sessions);
	return code;
}

/* For people. Programs get the answer of the target; of "tree", all in one. */
static enum ctl_exit ctl_complete(const struct ctl_verb *verb,
				  const struct ctl_args *a, json_t *out,
				  struct error *e)
{
	bool is_status = !strcmp(verb->name, "status");
	enum ctl_exit code = CTL_DONE;

	if (verb->looks && !(is_status && a->opt->json))
		code = ctl_add_lists(a->opt, out, e);
	if (code == CTL_DONE && !is_status && !a->opt->json) {
		const json_t *list = json_object_get(
			out, verb->looks ? "session_list" : "sessions");

		if (json_is_array(list))
			ctl_add_names(out, list);
	}
	return code;
}

/* Does @changes add that volume? */
static bool ctl_is_added(const json_t *changes, const char *object)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)changes, i, one) {
		if (!strcmp(ctl_field(one, "action"), "add") &&
		    !strcmp(ctl_field(one, "object"), object))
			return true;
	}
	return false;
}

/* The target does not open the files of the plan: they are looked at here. */
static void ctl_add_missing(const json_t *want, json_t *changes)
{
	char object[256];
	struct stat st;
	const json_t *vol;
	size_t i;

	json_array_foreach(json_object_get(want, "backing"), i, vol) {
		const char *store = ctl_field(vol, "store");
		const char *name = ctl_field(vol, "name");

		snprintf(object, sizeof(object), "volume '%s'",
			 *name ? name : store);
		if (*store == '/' && stat(store, &st) &&
		    ctl_is_added(changes, object))
			json_array_append_new(
				changes,
				json_pack("{ss ss ss ss}", "action", "refused",
					  "object", object, "field", "store",
					  "reason", strerror(errno)));
	}
}

static unsigned int ctl_count_refused(const json_t *changes)
{
	unsigned int cnt = 0;
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)changes, i, one)
		cnt += !strcmp(ctl_field(one, "action"), "refused");
	return cnt;
}

/* After a plan was printed. */
static enum ctl_exit ctl_judge_plan(const struct ctl_verb *verb,
				    const json_t *changes)
{
	unsigned int refused = ctl_count_refused(changes);

	if (refused)
		log_error("%u of these %s in the way: nothing would change",
			  refused, refused == 1 ? "stands" : "stand");
	return refused ? CTL_REFUSED
	       : !strcmp(verb->name, "diff") && json_array_size(changes)
		       ? CTL_DIFFERENT
		       : CTL_DONE;
}

static enum ctl_exit ctl_run(const struct ctl_verb *verb, struct ctl_args *a)
{
	enum ctl_exit code;
	struct error e;
	bool is_plan;
	json_t *out;
	json_t *in;

	if (!strcmp(verb->name, "help"))
		return ctl_help(a);
	if (verb->run)
		return verb->run(a->opt, a->arg, a->cnt);
	if (!verb->method)
		return ctl_check(a);
	a->method = verb->method;
	a->print = verb->print;
	a->print_json = ctl_print_json;
	in = verb->make(a);
	if (!in)
		return CTL_REFUSED;
	if (verb->follows)
		return ctl_run_follow(verb, a, in);
	code = a->gives ? ctl_call_giving(a, in, &out, &e)
			: ctl_call(a->opt, a->method, in, &out, &e);
	is_plan = code == CTL_DONE && !strcmp(a->method, "Diff");
	if (is_plan)
		ctl_add_missing(a->want, json_object_get(out, "changes"));
	json_decref(a->want);
	if (code == CTL_DONE && (code = ctl_complete(verb, a, out, &e)))
		json_decref(out);
	if (code != CTL_DONE) {
		log_error("%s", e.text);
		return code;
	}
	ctl_tell_warnings(out);
	if (a->only && !ctl_show_only(out, a->only)) {
		json_decref(out);
		return CTL_REFUSED;
	}
	if (!strcmp(verb->name, "volume show"))
		code = ctl_show_volume(a, out);
	else if (a->opt->json)
		a->print_json(out);
	else if (a->print)
		a->print(out);
	if (is_plan)
		code = ctl_judge_plan(verb, json_object_get(out, "changes"));
	json_decref(out);
	return code;
}

/* JSON has only UTF-8, and no rule shall be left out for that. The name of a file is not
 * sent. */
static bool ctl_check_texts(const struct ctl_verb *verb,
			    const struct ctl_args *a)
{
	for (int i = 0; verb->make && verb->make != make_config && i < a->cnt;
	     i++) {
		json_t *text = json_string(a->arg[i]);

		json_decref(text);
		if (text)
			continue;
		log_error("%s: argument %d is not UTF-8; nothing has changed",
			  verb->name, i + 1);
		return false;
	}
	return true;
}

/* A verb that asks a target needs one. */
static bool ctl_choose_target(const struct ctl_verb *verb,
			      struct ctl_options *opt)
{
	bool asks = verb->method || verb->run;
	struct error e;

	if (asks && !opt->control)
		opt->control = ctl_find_control(&e);
	if (asks && !opt->control)
		log_error("%s", e.text);
	return !asks || opt->control;
}

static enum ctl_exit ctl_take_verb(struct ctl_options *opt, char **arg, int cnt)
{
	struct ctl_args a = { .opt = opt };
	const struct ctl_verb *verb;
	const char *extra;
	int words = 0;

	/* Without a verb, it is the first one: status. */
	verb = cnt ? ctl_find_verb(arg, cnt, &words) : ctl_verbs;
	if (!verb) {
		ctl_refuse_verb(arg, cnt);
		return CTL_REFUSED;
	}
	a.arg = arg + words;
	a.cnt = cnt - words;
	if (a.cnt < verb->min || (verb->max >= 0 && a.cnt > verb->max)) {
		log_error("%s: too %s arguments; try --help", verb->name,
			  a.cnt < verb->min ? "few" : "many");
		return CTL_REFUSED;
	}
	/* A removal with --dry-run must not remove. */
	extra = ctl_find_extra(verb, opt);
	if (extra) {
		log_error(
			"%s does not take %s; nothing has changed; try --help",
			verb->name, extra);
		return CTL_REFUSED;
	}
	if (!ctl_check_texts(verb, &a))
		return CTL_REFUSED;
	if (!ctl_choose_target(verb, opt))
		return CTL_UNREACHABLE;
	return ctl_run(verb, &a);
}

int main(int argc, char **argv)
{
	struct ctl_options opt = { 0 };
	enum ctl_exit code = CTL_REFUSED;
	int first;

	std_files_hold();
	log_init("rdma-ctl", LOG_NOTICE);
	option_defaults(&ctl_option_table, &opt);
	switch (option_parse(&ctl_option_table, argc, argv, &opt, &first)) {
	case OPTION_RUN:
		code = ctl_take_verb(&opt, argv + first, argc - first);
		break;
	case OPTION_DONE:
		code = CTL_DONE;
		break;
	case OPTION_BAD:
		break;
	}
	return std_files_flush() || code ? (int)code : CTL_REFUSED;
}
