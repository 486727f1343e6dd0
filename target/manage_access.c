/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_access.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "target/control/config.h"
#include "target/port/port_change.h"

struct manage_rules {
	struct volume *vol; /* NULL: the rules of the target */
	struct access_rules rules;
};

struct manage_rules_call {
	const struct manage_rules *list;
	unsigned int cnt;
	unsigned int ended;
};

static void manage_run_rules(struct server *s, void *arg)
{
	struct manage_rules_call *call = arg;

	for (unsigned int i = 0; i < call->cnt; i++) {
		const struct manage_rules *r = &call->list[i];

		if (r->vol)
			r->vol->allow = r->rules;
		else
			s->port.allow = r->rules;
	}
	call->ended = port_rules_changed(&s->port);
}

static bool manage_read_rules(struct manage *m, const struct manage_allow *from,
			      struct manage_rules *to, struct manage_fault *f)
{
	char object[sizeof(f->object)] = "target";
	struct error e;
	json_t *rule;
	size_t i;

	to->vol = from->volume ? manage_served(m, from->volume) : NULL;
	if (from->volume && !to->vol)
		return manage_refuse_unknown(f, from->volume);
	if (from->volume)
		snprintf(object, sizeof(object), "volume '%.100s'",
			 from->volume);
	json_array_foreach((json_t *)(uintptr_t)from->rules, i, rule) {
		if (!access_rules_add(&to->rules, json_string_value(rule), &e))
			return manage_refuse(f, object, "allow", "'%s': %s",
					     json_string_value(rule), e.text);
	}
	return true;
}

static void manage_note_rules(struct manage *m, const struct manage_allow *from)
{
	json_t *owner = from->volume ? manage_find(m, from->volume) : m->config;

	if (json_array_size(from->rules))
		json_object_set_new(owner, "allow",
				    json_deep_copy(from->rules));
	else
		json_object_del(owner, "allow");
}

bool manage_set_allow(struct manage *m, const struct manage_allow *allow,
		      unsigned int cnt, unsigned int *ret_ended,
		      struct manage_fault *f)
{
	_cleanup_free_ struct manage_rules *list = calloc(cnt, sizeof(*list));
	struct manage_rules_call call = { .list = list, .cnt = cnt };

	if (!list)
		return manage_refuse(f, "target", "allow", "out of memory");
	for (unsigned int i = 0; i < cnt; i++) {
		if (!manage_read_rules(m, &allow[i], &list[i], f))
			return false;
	}
	if (server_call(m->server, manage_run_rules, &call))
		return manage_refuse_end(f);
	for (unsigned int i = 0; i < cnt; i++)
		manage_note_rules(m, &allow[i]);
	manage_changed(m);
	*ret_ended = call.ended;
	return true;
}

static void manage_run_limits(struct server *s, void *arg)
{
	const struct target_options *opt = arg;

	s->port.limits = opt->limits;
}

bool manage_set_limits(struct manage *m, const json_t *config,
		       struct manage_fault *f)
{
	struct target_options *opt = calloc(1, sizeof(*opt));
	struct config_fault fault;
	bool good;

	if (!opt)
		return manage_refuse(f, "target", "", "out of memory");
	target_options_init(opt);
	good = config_store(config, opt, &fault);
	if (!good)
		manage_refuse(f, "target", fault.place, "%s", fault.text);
	else if (server_call(m->server, manage_run_limits, opt))
		good = manage_refuse_end(f);
	target_options_free(opt);
	free(opt);
	return good;
}
