/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_print.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/size.h"

static const char *ctl_field(const json_t *of, const char *key)
{
	const char *text = json_string_value(json_object_get(of, key));

	return text ? text : "";
}

static long long ctl_number(const json_t *of, const char *key)
{
	return json_integer_value(json_object_get(of, key));
}

/* 0: not known */
static void print_left(long long seconds)
{
	if (seconds)
		printf(", about %lld:%02lld:%02lld to go", seconds / 3600,
		       seconds / 60 % 60, seconds % 60);
}

/* Since when something is not as it should be, why, and what ends that. */
static void print_since(long long since_ms, const char *why, const char *end)
{
	time_t since = (time_t)(since_ms / 1000);
	char text[32] = "";
	struct tm tm;

	if (localtime_r(&since, &tm))
		strftime(text, sizeof(text), "%F %T", &tm);
	printf(" since %s%s%s, %s", text, *why ? ": " : "", why, end);
}

/* @ended: NULL: it has not. */
static void print_discovery(const json_t *ended)
{
	if (!ended)
		return;
	printf("discovery     has ended");
	print_since(ctl_number(ended, "since_ms"), ctl_field(ended, "error"),
		    ctl_field(ended, "end"));
	putchar('\n');
}

/* @stopping: NULL: it does not stop. */
static void print_stopping(const json_t *stopping)
{
	long long left = ctl_number(stopping, "seconds_left");

	if (!stopping)
		return;
	printf("stopping      for %lld s: waits for %lld commands of %lld "
	       "sessions and %lld flushes",
	       ctl_number(stopping, "seconds"),
	       ctl_number(stopping, "commands"),
	       ctl_number(stopping, "sessions"),
	       ctl_number(stopping, "flushes"));
	print_left(left);
	putchar('\n');
}

void ctl_print_status(const json_t *out)
{
	const char *file = ctl_field(out, "config");
	json_t *listeners = json_object_get(out, "listeners");
	json_t *one;
	size_t i;

	printf("rdma-target %s, process %lld, %lld threads\n",
	       ctl_field(out, "version"), ctl_number(out, "pid"),
	       ctl_number(out, "threads"));
	json_array_foreach(listeners, i, one)
		printf("%s %s\n", i ? "             " : "listens on   ",
		       json_string_value(one));
	printf("volumes       %lld", ctl_number(out, "volumes"));
	json_array_foreach(json_object_get(out, "not_ready"), i, one)
		printf("%s%s",
		       i ? ", " : "; not ready: ", json_string_value(one));
	putchar('\n');
	printf("sessions      %lld\n", ctl_number(out, "sessions"));
	printf("configuration %s", *file ? file : "of the command line");
	printf(", generation %lld", ctl_number(out, "generation"));
	if (json_object_get(out, "changing_seconds"))
		printf(", being changed for %lld s",
		       ctl_number(out, "changing_seconds"));
	puts(json_is_true(json_object_get(out, "auto_save"))
		     ? ", saved after each change"
		     : "");
	printf("log level     %s\n", ctl_field(out, "log_level"));
	print_discovery(json_object_get(out, "discovery_ended"));
	print_stopping(json_object_get(out, "stopping"));
}

/* Of a volume that is not ready, unless somebody has asked for that. */
static void print_trouble(const json_t *vol)
{
	if (json_object_get(vol, "state_end"))
		print_since(ctl_number(vol, "state_since_ms"),
			    ctl_field(vol, "state_error"),
			    ctl_field(vol, "state_end"));
}

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

static void print_volume(const json_t *vol)
{
	long long left = ctl_number(vol, "seconds_left");
	char size[SIZE_TEXT_SIZE];

	printf("%-4lld %-24s %10s %5lld  %-12s ", ctl_number(vol, "lun"),
	       ctl_field(vol, "name"),
	       size_format((uint64_t)ctl_number(vol, "size"), size),
	       ctl_number(vol, "block_size"), ctl_field(vol, "kind"));
	printf("%s%s%s", ctl_field(vol, "state"),
	       json_is_true(json_object_get(vol, "read_only")) ? ", read-only"
							       : "",
	       json_is_true(json_object_get(vol, "never_stable"))
		       ? ", writes never stable"
		       : "");
	if (ctl_number(vol, "progress_percent"))
		printf(", %lld %%", ctl_number(vol, "progress_percent"));
	print_left(left);
	print_trouble(vol);
	fputs("; for ", stdout);
	print_access(json_object_get(vol, "allow"),
		     json_is_true(json_object_get(vol, "follows_target")));
	putchar('\n');
}

void ctl_print_volumes(const json_t *out)
{
	json_t *vol;
	size_t i;

	printf("%-4s %-24s %10s %5s  %-12s %s\n", "LUN", "NAME", "SIZE",
	       "BLOCK", "KIND", "STATE; FOR WHOM");
	json_array_foreach(json_object_get(out, "volumes"), i, vol)
		print_volume(vol);
}

/* "-": it is not over RDMA. */
static void print_negotiated(const json_t *session)
{
	const json_t *n = json_object_get(session, "negotiated");

	if (!n) {
		printf("-\n");
		return;
	}
	printf("MTU %lld of %lld, READ depth %lld, P_Key 0x%04llx, SL %lld\n",
	       ctl_number(n, "mtu"), ctl_number(n, "port_mtu"),
	       ctl_number(n, "read_depth"), ctl_number(n, "pkey"),
	       ctl_number(n, "sl"));
}

void ctl_print_sessions(const json_t *out)
{
	json_t *list = json_object_get(out, "sessions");
	long long hidden =
		ctl_number(out, "total") - (long long)json_array_size(list);
	json_t *one;
	size_t i;

	printf("%-34s %-24s %8s %7s  %s\n", "INITIATOR", "ADDRESS", "CHANNELS",
	       "VOLUMES", "RDMA");
	json_array_foreach(list, i, one) {
		printf("%-34s %-24s %8lld %7lld  ", ctl_field(one, "initiator"),
		       ctl_field(one, "address"), ctl_number(one, "channels"),
		       ctl_number(one, "volumes"));
		print_negotiated(one);
	}
	if (hidden > 0)
		printf("and %lld more\n", hidden);
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
	printf("%lld bytes\n", ctl_number(out, "size"));
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
	time_t seconds = (time_t)(ctl_number(out, "time_ms") / 1000);
	char text[32] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s %-14s %s\n", text, ctl_field(out, "event"),
	       ctl_field(out, "text"));
}
