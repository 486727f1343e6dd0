/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_print.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl_text.h"

static void print_texts(const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, one)
		printf("%s%s", i ? " " : "", json_string_value(one));
}

/* Who may use a volume. */
static void print_access(const json_t *rules, bool is_of_target)
{
	fputs(is_of_target ? "target: " : "", stdout);
	print_texts(rules);
}

static void ctl_dump(const json_t *json, size_t flags)
{
	json_dumpf(json, stdout, flags | JSON_ENCODE_ANY);
}

void ctl_print_config(const json_t *out)
{
	ctl_dump(json_object_get(out, "config"), JSON_INDENT(2));
	putchar('\n');
}

static void print_change(const json_t *change)
{
	const json_t *from = json_object_get(change, "from");
	const json_t *to = json_object_get(change, "to");
	const char *action = ctl_field(change, "action");

	printf("%-7s %s", action, ctl_field(change, "object"));
	if (!strcmp(action, "refused")) {
		printf("%s%s: %s\n", *ctl_field(change, "field") ? ": " : "",
		       ctl_field(change, "field"), ctl_field(change, "reason"));
		return;
	}
	if (json_object_get(change, "field")) {
		printf(": %s: ", ctl_field(change, "field"));
		if (from)
			ctl_dump(from, JSON_COMPACT);
		else
			fputs("default", stdout);
		fputs(" -> ", stdout);
		if (to)
			ctl_dump(to, JSON_COMPACT);
		else
			fputs("default", stdout);
	}
	if (action[0] == 'r' && action[2] == 's')
		fputs(" (when the target starts again)", stdout);
	putchar('\n');
}

void ctl_print_changes(const json_t *out)
{
	json_t *change;
	size_t i;

	json_array_foreach(json_object_get(out, "changes"), i, change)
		print_change(change);
}

void ctl_print_size(const json_t *out)
{
	char text[CTL_TEXT_SIZE];

	printf("%s\n", ctl_size_text(ctl_number(out, "size"), text));
}

void ctl_print_added(const json_t *out)
{
	printf("%s is LUN %lld, %s, for ", ctl_field(out, "name"),
	       ctl_number(out, "lun"),
	       json_is_true(json_object_get(out, "read_only"))
		       ? "read-only"
		       : "for reads and writes");
	print_access(json_object_get(out, "allow"),
		     json_is_true(json_object_get(out, "follows_target")));
	putchar('\n');
}

void ctl_print_ended(const json_t *out)
{
	long long cnt = ctl_number(out, "ended");

	if (cnt == 1)
		printf("1 session ends, as its volumes change\n");
	else if (cnt)
		printf("%lld sessions end, as their volumes change\n", cnt);
}

void ctl_print_sessions_ended(const json_t *out)
{
	long long cnt = ctl_number(out, "ended");

	if (cnt)
		printf("%lld session%s end%s\n", cnt, cnt == 1 ? "" : "s",
		       cnt == 1 ? "s" : "");
}

void ctl_print_keys(const json_t *out)
{
	const json_t *one;
	size_t i;

	printf("%-32s %-8s %s\n", "NAME", "PRINT", "RIGHTS");
	json_array_foreach(json_object_get(out, "keys"), i, one)
		printf("%-32s %-8s %s\n", ctl_field(one, "name"),
		       ctl_field(one, "print"),
		       json_is_true(json_object_get(one, "read_only")) ? "ro"
								       : "rw");
}

void ctl_print_saved(const json_t *out)
{
	printf("saved to %s\n", ctl_field(out, "file"));
}

void ctl_print_metrics(const json_t *out)
{
	fputs(ctl_field(out, "text"), stdout);
}

void ctl_print_json(const json_t *out)
{
	ctl_dump(out, JSON_INDENT(2));
	putchar('\n');
}

void ctl_print_json_line(const json_t *out)
{
	ctl_dump(out, JSON_COMPACT);
	putchar('\n');
}

/* ---- limits ---- */

/* Calls @take with the parameters of each layer qos in the configuration @out. */
static void find_limits(const json_t *out,
			void (*take)(const char *name, json_t *parameters,
				     void *user),
			void *user)
{
	json_t *vols =
		json_object_get(json_object_get(out, "config"), "backing");
	json_t *vol;
	json_t *layer;
	size_t i;
	size_t k;

	json_array_foreach(vols, i, vol) {
		json_array_foreach(json_object_get(vol, "layer"), k, layer) {
			if (!strcmp(ctl_field(layer, "plugin"), "qos"))
				take(ctl_field(vol, "name"),
				     json_object_get(layer, "parameters"),
				     user);
		}
	}
}

static void print_limits(const char *name, json_t *parameters, void *user)
{
	const char *key;
	json_t *value;

	fputs(name, stdout);
	json_object_foreach(parameters, key, value)
		printf(" %s=%s", key, json_string_value(value));
	putchar('\n');
}

void ctl_print_qos(const json_t *out)
{
	find_limits(out, print_limits, NULL);
}

static void append_limits(const char *name, json_t *parameters, void *limits)
{
	json_array_append_new(limits, json_pack("{sssO?}", "name", name,
						"parameters", parameters));
}

void ctl_print_qos_json(const json_t *out)
{
	json_t *limits = json_array();
	json_t *all;

	find_limits(out, append_limits, limits);
	all = json_pack("{so}", "limits", limits);
	ctl_print_json(all);
	json_decref(all);
}

/* ---- rules and faults ---- */

static json_t *config_rules(const json_t *out)
{
	return json_object_get(json_object_get(out, "config"), "allow");
}

/* Of the only volume in the configuration @out. */
static json_t *volume_field(const json_t *out, const char *key)
{
	json_t *config = json_object_get(out, "config");

	return json_object_get(
		json_array_get(json_object_get(config, "backing"), 0), key);
}

void ctl_print_allow(const json_t *out)
{
	print_texts(config_rules(out));
	putchar('\n');
}

void ctl_print_volume_allow(const json_t *out)
{
	const json_t *own = volume_field(out, "allow");

	print_access(own ? own : config_rules(out), !own);
	putchar('\n');
}

static void print_new_json(json_t *json)
{
	ctl_print_json(json);
	json_decref(json);
}

void ctl_print_allow_json(const json_t *out)
{
	print_new_json(json_pack("{sO}", "allow", config_rules(out)));
}

void ctl_print_volume_allow_json(const json_t *out)
{
	json_t *own = volume_field(out, "allow");

	print_new_json(json_pack("{sO sb}", "allow",
				 own ? own : config_rules(out),
				 "follows_target", !own));
}

void ctl_print_faults(const json_t *out)
{
	const json_t *one;
	size_t i;

	json_array_foreach(volume_field(out, "fault"), i, one)
		puts(json_string_value(one));
}

void ctl_print_faults_json(const json_t *out)
{
	json_t *faults = volume_field(out, "fault");

	print_new_json(json_pack("{so}", "fault",
				 faults ? json_incref(faults) : json_array()));
}

/* ---- events ---- */

void ctl_print_event(const json_t *out)
{
	char text[CTL_TEXT_SIZE];

	printf("%s %-14s %s\n", ctl_time_text(ctl_number(out, "time_ms"), text),
	       ctl_field(out, "event"), ctl_field(out, "text"));
}
