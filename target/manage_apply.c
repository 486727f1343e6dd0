/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/control/varlink.h"
#include "target/manage_access.h"
#include "target/manage_listen.h"
#include "target/manage_parameters.h"
#include "target/manage_volume.h"

/* The application of a configuration. */
struct apply {
	struct manage *m;
	const struct manage_apply *how;
	json_t *have;	 /* the configuration before this */
	json_t *want;	 /* a copy, with the names of served volumes */
	json_t *changes; /* described in manage_apply.h */
	json_t *pruned;	 /* names of the volumes that go */
	/* [{"name", "plugin", "parameters", "before"}]: of layers of volumes that stay */
	json_t *params;
	size_t params_done; /* of these */
	struct manage_fault *f;
	/* What apply_prepare() reads and allocates. */
	struct manage_allow *allow;
	struct manage_allow_change *rules;
	struct port_limits limits;
};

/* ---- the difference ---- */

/* @from and @to, which may be NULL, are constant. */
static void apply_note(struct apply *a, const char *action, const char *object,
		       const char *field, json_t *from, json_t *to)
{
	json_array_append_new(
		a->changes, json_pack("{ss, so, ss*, sO*, sO*}", "action",
				      action, "object", varlink_text(object),
				      "field", field, "from", from, "to", to));
}

/* After a refusal: true if it is only to be told. */
static bool apply_goes_on(struct apply *a)
{
	if (!a->how->whole)
		return false;
	json_array_append_new(a->changes,
			      json_pack("{ss, so, so, so}", "action", "refused",
					"object", varlink_text(a->f->object),
					"field", varlink_text(a->f->field),
					"reason", varlink_text(a->f->reason)));
	return true;
}

static const char *apply_label(const json_t *vol,
			       char buf[static MANAGE_LABEL_SIZE])
{
	const char *name = config_get_text(vol, "name");

	return manage_label(name ? name : config_get_text(vol, "store"), buf);
}

static bool apply_is_wanted(const struct apply *a, const json_t *have)
{
	return manage_find_in(a->want, config_get_text(have, "name"));
}

/* Returns the served volume that @vol means: the one with its name, or the one
 * with its store if no other volume of the configuration means it. */
static json_t *apply_match(const struct apply *a, const json_t *vol)
{
	const char *name = config_get_text(vol, "name");
	json_t *have = json_object_get(a->have, "backing");
	json_t *other;
	size_t i;

	if (name)
		return manage_find_in(a->have, name);
	json_array_foreach(have, i, other) {
		if (json_equal(json_object_get(other, "store"),
			       json_object_get(vol, "store")) &&
		    !apply_is_wanted(a, other))
			return other;
	}
	return NULL;
}

/* Values that the administrator leaves to the target keep their present
 * value. */
static void apply_fill_in(json_t *vol, const json_t *have)
{
	static const char *const keys[] = { "name", "lun" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!json_object_get(vol, keys[i]))
			json_object_set(vol, keys[i],
					json_object_get(have, keys[i]));
	}
}

/* What @want changes of the parameters of the layer @have. NULL: it changes more, or leaves
 * one out, whose value a plugin could not tell. */
static json_t *apply_new_parameters(const json_t *want, const json_t *have)
{
	json_t *is = json_object_get(have, "parameters");
	json_t *wanted = json_object_get(want, "parameters");
	bool good = json_equal(json_object_get(want, "plugin"),
			       json_object_get(have, "plugin"));
	json_t *changed = json_object();
	const char *key;
	json_t *value;

	json_object_foreach(is, key, value)
		good = good && json_object_get(wanted, key);
	json_object_foreach(wanted, key, value) {
		if (!json_equal(value, json_object_get(is, key)))
			json_object_set(changed, key, value);
	}
	if (good)
		return changed;
	json_decref(changed);
	return NULL;
}

/* Notes the parameters of layers that change. False: the layers are others. */
static bool apply_compare_layers(struct apply *a, const json_t *vol,
				 const json_t *have)
{
	json_t *want = json_object_get(vol, "layer");
	json_t *is = json_object_get(have, "layer");
	json_t *all = json_array();
	bool good = json_array_size(want) == json_array_size(is);
	json_t *layer;
	size_t i;

	json_array_foreach(want, i, layer) {
		json_t *before = json_array_get(is, i);
		json_t *changed =
			good ? apply_new_parameters(layer, before) : NULL;

		good = good && changed;
		if (json_object_size(changed))
			json_array_append_new(
				all,
				json_pack(
					"{sO sO sO sO sO*}", "name",
					json_object_get(vol, "name"), "plugin",
					json_object_get(layer, "plugin"),
					"parameters", changed, "to",
					json_object_get(layer, "parameters"),
					"before",
					json_object_get(before, "parameters")));
		json_decref(changed);
	}
	if (good)
		json_array_extend(a->params, all);
	json_decref(all);
	return good;
}

/* Returns the first key, except "allow" and @but (NULL: none), that differs; NULL: none. */
static const char *apply_differing_key(const json_t *one, const json_t *two,
				       const char *but)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)one, key, value) {
		if (strcmp(key, "allow") != 0 && (!but || strcmp(key, but)) &&
		    !json_equal(value, json_object_get(two, key)))
			return key;
	}
	return NULL;
}

/* Volumes may be without rules. */
static bool apply_same_rules(const json_t *one, const json_t *two)
{
	const json_t *a = json_object_get(one, "allow");
	const json_t *b = json_object_get(two, "allow");

	return (!a && !b) || json_equal(a, b);
}

/* What a configuration leaves out opens nothing. */
static bool apply_refuse_no_rules(struct apply *a, const char *object,
				  const json_t *have)
{
	char text[MANAGE_RULES_SIZE];

	return manage_refuse(
		       a->f, object, "allow",
		       "the configuration has no rules for it, but now it "
		       "has some (%.200s): write who may come in, or \"all\"",
		       manage_rules_text(json_object_get(have, "allow"),
					 text)) ||
	       apply_goes_on(a);
}

static bool apply_compare_volume(struct apply *a, json_t *vol,
				 const json_t *have)
{
	size_t before = json_array_size(a->params);
	const char *key;
	const char *but;
	char object[MANAGE_LABEL_SIZE];
	json_t *one;

	apply_fill_in(vol, have);
	apply_label(vol, object);
	but = apply_compare_layers(a, vol, have) ? "layer" : NULL;
	key = apply_differing_key(vol, have, but);
	if (!key)
		key = apply_differing_key(have, vol, but);
	if (key)
		return manage_refuse(a->f, object, key,
				     "it cannot change while the volume is "
				     "served; remove the volume, then add it "
				     "again") ||
		       apply_goes_on(a);
	for (size_t i = before; (one = json_array_get(a->params, i)); i++)
		apply_note(a, "change", object, config_get_text(one, "plugin"),
			   json_object_get(one, "before"),
			   json_object_get(one, "to"));
	if (apply_same_rules(vol, have))
		return true;
	if (!json_object_get(vol, "allow") &&
	    !manage_are_open(json_object_get(have, "allow")))
		return apply_refuse_no_rules(a, object, have);
	apply_note(a, "change", object, "allow", json_object_get(have, "allow"),
		   json_object_get(vol, "allow"));
	return true;
}

static bool apply_compare_volumes(struct apply *a)
{
	json_t *vols = json_object_get(a->want, "backing");
	char object[MANAGE_LABEL_SIZE];
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		const json_t *have = apply_match(a, vol);

		apply_label(vol, object);
		if (!have)
			apply_note(a, "add", object, NULL, NULL, NULL);
		else if (!apply_compare_volume(a, vol, have))
			return false;
	}
	return true;
}

/* True if the volume should be removed because the configuration lacks it.
 * Volumes that the command line has added to a file's stay. */
static bool apply_is_pruned(const struct apply *a, const json_t *have)
{
	return !apply_is_wanted(a, have) &&
	       !(a->m->file && manage_is_added(a->m, "backing", have));
}

/* Of each volume that would go, who stands in the way. */
static bool apply_tell_users(struct apply *a)
{
	bool good = true;
	json_t *name;
	size_t i;

	json_array_foreach(a->pruned, i, name) {
		json_t *one = json_pack("[O]", name);

		good = good &&
		       (manage_may_remove(a->m, one, a->how->force, a->f) ||
			apply_goes_on(a));
		json_decref(one);
	}
	return good;
}

static bool apply_compare_pruned(struct apply *a)
{
	json_t *have = json_object_get(a->have, "backing");
	char object[MANAGE_LABEL_SIZE];
	json_t *vol;
	size_t i;

	json_array_foreach(have, i, vol) {
		if (!apply_is_pruned(a, vol))
			continue;
		json_array_append(a->pruned, json_object_get(vol, "name"));
		apply_note(a, "remove", apply_label(vol, object), NULL, NULL,
			   NULL);
	}
	return a->how->whole ? apply_tell_users(a)
			     : manage_may_remove(a->m, a->pruned, a->how->force,
						 a->f);
}

/* Limits, rules and addresses change at once, all other values at the next
 * start. The default for addresses also changes at the next start. */
static bool apply_is_live(const struct apply *a, const char *key)
{
	return !strncmp(key, "max-", strlen("max-")) || !strcmp(key, "allow") ||
	       (!strcmp(key, "listen") && json_object_get(a->want, key));
}

static void apply_list_add(json_t *list, const json_t *one)
{
	if (!manage_list_has(list, one))
		json_array_append(list, (json_t *)(uintptr_t)one);
}

/* The order of addresses has no meaning. */
static bool apply_same_set(const json_t *one, const json_t *two)
{
	const json_t *element;
	size_t i;

	if (json_array_size(one) != json_array_size(two))
		return false;
	json_array_foreach((json_t *)(uintptr_t)one, i, element) {
		if (!manage_list_has(two, element))
			return false;
	}
	return true;
}

/* Elements that the command line has added come after those of the
 * configuration. */
static void apply_keep_added(struct apply *a, const char *key, json_t *all)
{
	const json_t *have = json_object_get(a->have, key);
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(a->m->added, key), i, one) {
		if (manage_list_has(have, one))
			apply_list_add(all, one);
	}
}

/* Addresses that the configuration lacks stay, unless it prunes. */
static void apply_keep_listeners(struct apply *a)
{
	json_t *have = json_object_get(a->have, "listen");
	json_t *want = json_object_get(a->want, "listen");
	json_t *all = json_array();
	json_t *one;
	size_t i;

	json_array_foreach(want, i, one)
		apply_list_add(all, one);
	apply_keep_added(a, "listen", all);
	if (!a->how->prune) {
		json_array_foreach(have, i, one)
			apply_list_add(all, one);
	}
	if (have && apply_same_set(all, have))
		json_object_set(a->want, "listen", have);
	else if (json_array_size(all))
		json_object_set(a->want, "listen", all);
	json_decref(all);
}

static void apply_keep_added_rules(struct apply *a)
{
	json_t *want = json_object_get(a->want, "allow");
	json_t *all;

	if (!a->m->file || (!want && !a->how->prune))
		return;
	all = want ? json_copy(want) : json_array();
	apply_keep_added(a, "allow", all);
	if (json_array_size(all))
		json_object_set(a->want, "allow", all);
	json_decref(all);
}

/* Rules that the configuration lacks stay. A prune would remove them: it is refused, unless
 * they are what the target has without any configuration. */
static bool apply_keep_rules(struct apply *a)
{
	json_t *have = json_object_get(a->have, "allow");
	const json_t *added = json_object_get(a->m->added, "allow");

	apply_keep_added_rules(a);
	if (json_object_get(a->want, "allow"))
		return true;
	if (a->how->prune && !json_equal(have, added) &&
	    !manage_are_open(have) &&
	    !apply_refuse_no_rules(a, "target", a->have))
		return false;
	json_object_set(a->want, "allow", have);
	return true;
}

/* A configuration cannot remove a value that only the command line gives. */
static bool apply_differs(const struct apply *a, const char *key)
{
	const json_t *have = json_object_get(a->have, key);
	const json_t *want = json_object_get(a->want, key);

	if (want || !a->how->prune)
		return want && !json_equal(have, want);
	return have && !json_equal(have, json_object_get(a->m->added, key));
}

static bool apply_compare_settings(struct apply *a)
{
	const struct option_table *t = &target_option_table;

	apply_keep_listeners(a);
	if (!apply_keep_rules(a))
		return false;
	for (unsigned int i = 0; i < t->cnt; i++) {
		const char *key = t->rows[i].name;

		if (!strcmp(key, "backing") || !apply_differs(a, key))
			continue;
		apply_note(a, apply_is_live(a, key) ? "change" : "restart",
			   "target", key, json_object_get(a->have, key),
			   json_object_get(a->want, key));
	}
	return true;
}

/* ---- making the changes ---- */

/* Nobody sees them by the old rules of the target. */
static bool apply_add_volumes(struct apply *a, json_t *added)
{
	const json_t *rules = json_object_get(a->want, "allow");
	json_t *vols = json_object_get(a->want, "backing");
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		const struct manage_new_volume new = {
			.vol = vol,
			.meanwhile = rules,
			.given = a->how->given,
			.is_part = true,
		};
		json_t *is;

		if (apply_match(a, vol))
			continue;
		if (!manage_add_volume(a->m, &new, &is, a->f))
			return false;
		json_array_append(added, json_object_get(is, "name"));
		apply_fill_in(vol, is);
	}
	return true;
}

/* Of the target, and of the volumes: those that were added have the rules that were
 * for the meantime. */
static bool apply_prepare_rules(struct apply *a)
{
	json_t *vols = json_object_get(a->want, "backing");
	unsigned int cnt = 0;
	json_t *vol;
	size_t i;

	a->allow = calloc(json_array_size(vols) + 1, sizeof(*a->allow));
	if (!a->allow)
		return manage_refuse(a->f, "target", "", "out of memory");
	if (apply_differs(a, "allow"))
		a->allow[cnt++].rules = json_object_get(a->want, "allow");
	json_array_foreach(vols, i, vol)
		a->allow[cnt++] = (struct manage_allow){
			.volume = config_get_text(vol, "name"),
			.rules = json_object_get(vol, "allow"),
		};
	if (cnt)
		a->rules = manage_prepare_allow(a->m, a->allow, cnt, a->f);
	return !cnt || a->rules;
}

/* Returns the key of a change of the target that is only a value in the configuration,
 * or a limit. NULL: it is another change, which a function of its own makes. */
static const char *apply_setting(const struct apply *a, const json_t *change)
{
	const char *object = config_get_text(change, "object");
	const char *key = config_get_text(change, "field");

	if (strcmp(object, "target") != 0 || !strcmp(key, "allow") ||
	    (!strcmp(key, "listen") && apply_is_live(a, key)))
		return NULL;
	return key;
}

static bool apply_has_limits(const struct apply *a)
{
	const json_t *change;
	size_t i;

	json_array_foreach(a->changes, i, change) {
		const char *key = apply_setting(a, change);

		if (key && apply_is_live(a, key))
			return true;
	}
	return false;
}

static bool apply_prepare_limits(struct apply *a)
{
	json_t *config = json_copy((json_t *)(uintptr_t)a->have);
	const json_t *change;
	bool good;
	size_t i;

	if (!config)
		return manage_refuse(a->f, "target", "", "out of memory");
	json_object_del(config, "backing");
	json_array_foreach(a->changes, i, change) {
		const char *key = apply_setting(a, change);

		if (key &&
		    json_object_set(config, key, json_object_get(a->want, key)))
			json_object_del(config, key);
	}
	good = manage_read_limits(config, &a->limits, a->f);
	json_decref(config);
	return good;
}

static bool apply_set_parameters(struct apply *a)
{
	json_t *one;

	while ((one = json_array_get(a->params, a->params_done))) {
		if (!manage_set_parameters(a->m, config_get_text(one, "name"),
					   config_get_text(one, "plugin"),
					   json_object_get(one, "parameters"),
					   a->f))
			return false;
		a->params_done++;
	}
	return true;
}

/* A parameter that was not given before keeps its value. */
static void apply_undo_parameters(struct apply *a)
{
	struct manage_fault ignored;

	while (a->params_done > 0) {
		json_t *one = json_array_get(a->params, --a->params_done);
		json_t *before = json_object_get(one, "before");

		if (before)
			manage_set_parameters(a->m,
					      config_get_text(one, "name"),
					      config_get_text(one, "plugin"),
					      before, &ignored);
	}
}

/* The volumes that come are served, but none has gone. */
static bool apply_prepare(struct apply *a)
{
	return apply_prepare_rules(a) &&
	       (!apply_has_limits(a) || apply_prepare_limits(a)) &&
	       apply_set_parameters(a);
}

static bool apply_change_rules(struct apply *a)
{
	unsigned int ended;

	return !a->rules || manage_make_allow(a->m, a->rules, &ended, a->f);
}

static bool apply_change_settings(struct apply *a)
{
	const json_t *change;
	size_t i;

	json_array_foreach(a->changes, i, change) {
		const char *key = apply_setting(a, change);

		if (!key)
			continue;
		manage_edit_key(a->m, NULL, key, json_object_get(a->want, key));
	}
	return !apply_has_limits(a) ||
	       manage_set_limits(a->m, &a->limits, a->f);
}

static bool apply_add_listeners(struct apply *a, json_t *added)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(a->want, "listen"), i, one) {
		if (manage_listens(a->m, json_string_value(one)))
			continue;
		if (!manage_add_listener(a->m, json_string_value(one),
					 a->how->given, a->f))
			return false;
		json_array_append(added, one);
	}
	return true;
}

static void apply_undo_listeners(struct apply *a, json_t *added,
				 bool was_default)
{
	struct manage_fault ignored;
	json_t *one;
	size_t i;

	json_array_foreach(added, i, one)
		manage_remove_listener(a->m, json_string_value(one), &ignored);
	if (was_default)
		manage_default_listener(a->m);
}

static bool apply_remove_listeners(struct apply *a)
{
	json_t *want = json_object_get(a->want, "listen");
	json_t *have = json_object_get(a->have, "listen");
	bool good = true;
	json_t *one;
	size_t i;

	json_array_foreach(want ? have : NULL, i, one) {
		good = good &&
		       (manage_has_listener(want, json_string_value(one)) ||
			manage_remove_listener(a->m, json_string_value(one),
					       a->f));
	}
	return good;
}

/*
 * What may fail comes first, also for lack of memory, and what was added can be undone.
 * Volumes that go are gone before the rules change: nobody sees them by wider ones. Other
 * initiators may have logged in to them since the check: then all of them stay.
 */
static bool apply_do(struct apply *a)
{
	bool was_default = !json_object_get(a->have, "listen");
	json_t *listeners = json_array();
	struct manage_fault ignored;
	json_t *volumes = json_array();
	bool good =
		apply_add_listeners(a, listeners) &&
		apply_add_volumes(a, volumes) && apply_prepare(a) &&
		(!a->how->prune ||
		 manage_remove_volumes(a->m, a->pruned, a->how->force, a->f));

	if (!good) {
		apply_undo_parameters(a);
		manage_remove_volumes(a->m, volumes, /* force= */ true,
				      &ignored);
		apply_undo_listeners(a, listeners, was_default);
	}
	json_decref(volumes);
	json_decref(listeners);
	return good && apply_change_rules(a) && apply_change_settings(a) &&
	       apply_remove_listeners(a);
}

/* manage_make_allow() has logged the rules, and manage_set_parameters() parameters. */
static void apply_log_change(const json_t *change)
{
	const char *field = config_get_text(change, "field");

	if (field && (!strcmp(field, "allow") ||
		      json_is_object(json_object_get(change, "to"))))
		return;
	manage_log_change(config_get_text(change, "action"),
			  config_get_text(change, "object"), field);
}

static bool apply_all(struct apply *a)
{
	const json_t *change;
	size_t i;

	if (!manage_edit(a->m))
		return manage_refuse(a->f, "target", "", "out of memory");
	if (!apply_do(a))
		return false;
	json_array_foreach(a->changes, i, change)
		apply_log_change(change);
	return true;
}

bool manage_apply(struct manage *m, const json_t *want,
		  const struct manage_apply *how, json_t **ret_changes,
		  struct manage_fault *f)
{
	struct apply a = {
		.m = m,
		.how = how,
		.have = json_incref(how->view ? how->view->config : m->config),
		.want = json_deep_copy(want),
		.changes = json_array(),
		.pruned = json_array(),
		.params = json_array(),
		.f = f,
	};
	bool good = a.want && a.changes && a.pruned && a.params;

	if (!good)
		manage_refuse(f, "target", "", "out of memory");
	good = good && apply_compare_volumes(&a) &&
	       (!how->prune || apply_compare_pruned(&a)) &&
	       apply_compare_settings(&a);
	if (good && !how->view && json_array_size(a.changes))
		good = apply_all(&a);
	json_decref(a.pruned);
	json_decref(a.params);
	free(a.allow);
	free(a.rules);
	json_decref(a.want);
	json_decref(a.have);
	if (good)
		*ret_changes = a.changes;
	else
		json_decref(a.changes);
	return good;
}
