/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_access.h"

#include <stdio.h>
#include <stdlib.h>

#include "target/control/config.h"
#include "target/port/port_change.h"

struct manage_rules {
	struct volume *vol; /* NULL: the target's */
	struct access_rules rules;
	unsigned int ended;
};

static void manage_run_rules(struct server *s, void *arg)
{
	struct manage_rules *r = arg;

	if (r->vol)
		r->vol->allow = r->rules;
	else
		s->port.allow = r->rules;
	r->ended = port_rules_changed(&s->port);
}

static bool manage_take_rules(struct manage *m, const char *object,
			      const json_t *rules, struct manage_rules *r,
			      struct manage_fault *f)
{
	struct error e;
	json_t *rule;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rules, i, rule) {
		if (!access_rules_add(&r->rules, json_string_value(rule), &e))
			return manage_refuse(f, object, "allow", "'%s': %s",
					     json_string_value(rule), e.text);
	}
	return server_call(m->server, manage_run_rules, r) == 0 ||
	       manage_refuse_end(f);
}

static void manage_note_rules(struct manage *m, json_t *owner,
			      const json_t *rules)
{
	if (json_array_size(rules))
		json_object_set_new(owner, "allow", json_deep_copy(rules));
	else
		json_object_del(owner, "allow");
	manage_changed(m);
}

bool manage_set_allow(struct manage *m, const json_t *rules,
		      unsigned int *ret_ended, struct manage_fault *f)
{
	struct manage_rules r = { .vol = NULL };

	if (!manage_take_rules(m, "target", rules, &r, f))
		return false;
	*ret_ended = r.ended;
	manage_note_rules(m, m->config, rules);
	return true;
}

bool manage_set_volume_allow(struct manage *m, const char *name,
			     const json_t *rules, unsigned int *ret_ended,
			     struct manage_fault *f)
{
	struct manage_rules r = { .vol = manage_served(m, name) };
	char object[sizeof(f->object)];

	if (!r.vol)
		return manage_refuse_unknown(f, name);
	snprintf(object, sizeof(object), "volume '%.100s'", name);
	if (!manage_take_rules(m, object, rules, &r, f))
		return false;
	*ret_ended = r.ended;
	manage_note_rules(m, manage_find(m, name), rules);
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
