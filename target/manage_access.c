/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/port/port_change.h"

struct manage_rules {
	const struct manage_allow *from;
	struct volume *vol; /* NULL: the rules of the target */
	struct access_rules rules;
};

struct manage_allow_change {
	unsigned int cnt;
	unsigned int ended;
	struct manage_rules list[];
};

static void manage_run_rules(struct server *s, void *arg)
{
	struct manage_allow_change *c = arg;

	for (unsigned int i = 0; i < c->cnt; i++) {
		const struct manage_rules *r = &c->list[i];

		if (r->vol)
			r->vol->allow = r->rules;
		else
			s->port.allow = r->rules;
	}
	c->ended = port_rules_changed(&s->port);
}

/* What stands in for it, if it is not here yet. */
static struct volume *manage_find_volume(struct manage *m, const char *name)
{
	const struct absent *a = absent_find(&m->server->absents, name);

	return a ? a->stand_in : manage_served(m, name);
}

static bool manage_read_rules(struct manage *m, const struct manage_allow *from,
			      struct manage_rules *to, struct manage_fault *f)
{
	char object[MANAGE_LABEL_SIZE];
	struct error e;
	json_t *rule;
	size_t i;

	to->from = from;
	to->vol = from->volume ? manage_find_volume(m, from->volume) : NULL;
	if (from->volume && !to->vol)
		return manage_refuse_unknown(f, from->volume);
	json_array_foreach((json_t *)(uintptr_t)from->rules, i, rule) {
		if (!access_rules_add(&to->rules, json_string_value(rule), &e))
			return manage_refuse(
				f, manage_label(from->volume, object), "allow",
				"'%s': %s", json_string_value(rule), e.text);
	}
	return true;
}

const char *manage_rules_text(const json_t *rules,
			      char buf[static MANAGE_RULES_SIZE])
{
	const json_t *rule;
	size_t len = 0;
	size_t i;

	snprintf(buf, MANAGE_RULES_SIZE, "as the target");
	json_array_foreach((json_t *)(uintptr_t)rules, i, rule) {
		if (len < MANAGE_RULES_SIZE)
			len += (size_t)snprintf(
				buf + len, MANAGE_RULES_SIZE - len, "%s%s",
				i ? " " : "", json_string_value(rule));
	}
	return buf;
}

bool manage_are_open(const json_t *rules)
{
	const char *rule = json_string_value(json_array_get(rules, 0));

	return json_array_size(rules) == 1 && !strcmp(rule, ACCESS_DEFAULT);
}

static void manage_log_rules(const char *volume, const json_t *was,
			     const json_t *is)
{
	struct log_about about = { .event = "config" };
	char object[MANAGE_LABEL_SIZE];
	char from[MANAGE_RULES_SIZE];
	char to[MANAGE_RULES_SIZE];

	log_event(LOG_NOTICE, &about,
		  "configuration: change %s: allow: %s -> %s",
		  manage_label(volume, object), manage_rules_text(was, from),
		  manage_rules_text(is, to));
}

static void manage_note_rules(struct manage *m, const struct manage_allow *from)
{
	const json_t *owner =
		from->volume ? manage_find(m, from->volume) : m->config;
	const json_t *was = json_object_get(owner, "allow");

	if (was == from->rules || json_equal(was, from->rules))
		return;
	manage_log_rules(from->volume, was, from->rules);
	manage_edit_key(m, from->volume, "allow", from->rules);
}

struct manage_allow_change *
manage_prepare_allow(struct manage *m, const struct manage_allow *allow,
		     unsigned int cnt, struct manage_fault *f)
{
	struct manage_allow_change *c =
		calloc(1, sizeof(*c) + cnt * sizeof(*c->list));
	bool good = c;

	if (!c)
		manage_refuse(f, "target", "allow", "out of memory");
	for (; good && c->cnt < cnt; c->cnt++)
		good = manage_read_rules(m, &allow[c->cnt], &c->list[c->cnt],
					 f);
	if (good)
		return c;
	free(c);
	return NULL;
}

bool manage_make_allow(struct manage *m, struct manage_allow_change *c,
		       unsigned int *ret_ended, struct manage_fault *f)
{
	if (server_call(m->server, manage_run_rules, c))
		return manage_refuse_end(f);
	manage_edit(m); /* also if they are the same */
	for (unsigned int i = 0; i < c->cnt; i++)
		manage_note_rules(m, c->list[i].from);
	*ret_ended = c->ended;
	return true;
}

bool manage_set_allow(struct manage *m, const struct manage_allow *allow,
		      unsigned int *ret_ended, struct manage_fault *f)
{
	_cleanup_free_ struct manage_allow_change *c =
		manage_prepare_allow(m, allow, /* cnt= */ 1, f);

	return c && manage_make_allow(m, c, ret_ended, f);
}

bool manage_read_limits(const json_t *config, struct port_limits *ret,
			struct manage_fault *f)
{
	struct target_options *opt = calloc(1, sizeof(*opt));
	struct config_fault fault;
	bool good;

	if (!opt)
		return manage_refuse(f, "target", "", "out of memory");
	target_options_init(opt);
	good = config_store(config, opt, &fault);
	if (good)
		*ret = opt->limits;
	else
		manage_refuse(f, "target", fault.place, "%s", fault.text);
	target_options_free(opt);
	free(opt);
	return good;
}

static void manage_run_limits(struct server *s, void *arg)
{
	const struct port_limits *limits = arg;

	s->port.limits = *limits;
}

bool manage_set_limits(struct manage *m, struct port_limits *limits,
		       struct manage_fault *f)
{
	return !server_call(m->server, manage_run_limits, limits) ||
	       manage_refuse_end(f);
}
