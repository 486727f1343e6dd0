/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_look.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/size.h"
#include "ctl/ctl_table.h"
#include "ctl/ctl_text.h"

/* ---- parts ---- */

static bool look_flag(const json_t *of, const char *key)
{
	return json_is_true(json_object_get(of, key));
}

static char *look_access(const json_t *vol, char *buf)
{
	return ctl_access_text(json_object_get(vol, "allow"),
			       look_flag(vol, "follows_target"), buf);
}

/* "10.0.0.7 (client7)" */
static char *look_address(const json_t *session, const json_t *names, char *buf)
{
	const char *address = ctl_field(session, "address");
	const char *name = ctl_field(names, address);

	snprintf(buf, CTL_TEXT_SIZE, "%s%s%s%s", address, *name ? " (" : "",
		 name, *name ? ")" : "");
	return buf;
}

static char *look_since(const json_t *of, char *buf)
{
	char text[CTL_TEXT_SIZE];

	*buf = '\0';
	if (json_object_get(of, "since_ms"))
		snprintf(buf, CTL_TEXT_SIZE, "since %s",
			 ctl_time_text(ctl_number(of, "since_ms"), text));
	return buf;
}

/* Names, if the target tells them. */
static char *look_volume_names(const json_t *session, char *buf)
{
	const json_t *names = json_object_get(session, "volume_names");

	if (!names)
		snprintf(buf, CTL_TEXT_SIZE, "%lld",
			 ctl_number(session, "volumes"));
	else if (!json_array_size(names))
		snprintf(buf, CTL_TEXT_SIZE, "-");
	else
		ctl_list_text(names, ",", buf);
	return buf;
}

static bool look_sees(const json_t *session, const char *volume)
{
	const json_t *names = json_object_get(session, "volume_names");

	for (size_t i = 0; i < json_array_size(names); i++)
		if (!strcmp(json_string_value(json_array_get(names, i)),
			    volume))
			return true;
	return false;
}

static const char *look_many(long long cnt)
{
	return cnt == 1 ? "" : "s";
}

/* Short. */
static char *look_size(const json_t *vol, char *buf)
{
	return size_format((uint64_t)ctl_number(vol, "size"), buf);
}

/* ---- lists ---- */

void ctl_look_volumes(const json_t *out)
{
	static const char *const heads[] = {
		"LUN", "NAME", ">SIZE", ">BLOCK", "KIND", "STATE; FOR WHOM"
	};
	struct ctl_table t = { .heads = heads, .columns = 6 };
	char text[CTL_TEXT_SIZE];
	char who[CTL_TEXT_SIZE];
	const json_t *vol;
	size_t i;

	json_array_foreach(json_object_get(out, "volumes"), i, vol) {
		ctl_table_put(&t, "%lld", ctl_number(vol, "lun"));
		ctl_table_put(&t, "%s", ctl_field(vol, "name"));
		ctl_table_put(&t, "%s", look_size(vol, text));
		ctl_table_put(&t, "%lld", ctl_number(vol, "block_size"));
		ctl_table_put(&t, "%s", ctl_field(vol, "kind"));
		ctl_table_put(&t, "%s; for %s", ctl_state_text(vol, text),
			      look_access(vol, who));
	}
	ctl_table_print(&t);
}

/* "-": it is not over RDMA. */
static char *look_negotiated(const json_t *session, char *buf)
{
	const json_t *n = json_object_get(session, "negotiated");

	snprintf(buf, CTL_TEXT_SIZE, "-");
	if (n)
		snprintf(buf, CTL_TEXT_SIZE,
			 "MTU %lld of %lld, READ depth %lld, P_Key 0x%04llx, "
			 "SL %lld",
			 ctl_number(n, "mtu"), ctl_number(n, "port_mtu"),
			 ctl_number(n, "read_depth"), ctl_number(n, "pkey"),
			 ctl_number(n, "sl"));
	return buf;
}

static void look_hidden(const json_t *out, const json_t *list)
{
	long long hidden =
		ctl_number(out, "total") - (long long)json_array_size(list);

	if (hidden > 0)
		printf("and %lld more\n", hidden);
}

void ctl_look_sessions(const json_t *out)
{
	static const char *const heads[] = { "INITIATOR", "ADDRESS",
					     "NAME",	  "LOGIN",
					     ">CHANNELS", "VOLUMES",
					     "RDMA" };
	struct ctl_table t = { .heads = heads, .columns = 7 };
	const json_t *names = json_object_get(out, "host_names");
	json_t *list = json_object_get(out, "sessions");
	char text[CTL_TEXT_SIZE];
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		ctl_table_put(&t, "%s", ctl_field(one, "initiator"));
		ctl_table_put(&t, "%s", look_address(one, names, text));
		ctl_table_put(&t, "%s",
			      json_object_get(one, "name")
				      ? ctl_field(one, "name")
				      : "-");
		ctl_table_put(
			&t, "%s",
			json_object_get(one, "since_ms")
				? ctl_time_text(ctl_number(one, "since_ms"),
						text)
				: "-");
		ctl_table_put(&t, "%lld", ctl_number(one, "channels"));
		ctl_table_put(&t, "%s", look_volume_names(one, text));
		ctl_table_put(&t, "%s", look_negotiated(one, text));
	}
	ctl_table_print(&t);
	look_hidden(out, list);
}

/* ---- the page ---- */

/* What is not as it should be, and nobody has asked for. Returns how many. */
static unsigned int look_trouble(const json_t *all)
{
	const json_t *ended = json_object_get(all, "discovery_ended");
	unsigned int cnt = 0;
	char text[CTL_TEXT_SIZE];
	const json_t *vol;
	size_t i;

	json_array_foreach(json_object_get(all, "volume_list"), i, vol) {
		if (!json_object_get(vol, "state_end"))
			continue;
		printf("%s volume '%s': %s\n",
		       cnt++ ? "             " : "health       ",
		       ctl_field(vol, "name"), ctl_state_text(vol, text));
	}
	if (!ended)
		return cnt;
	printf("%s discovery has ended%s\n",
	       cnt ? "             " : "health       ",
	       ctl_trouble_text(ctl_number(ended, "since_ms"),
				ctl_field(ended, "error"),
				ctl_field(ended, "end"), text));
	return cnt + 1;
}

/* @stopping: NULL: it does not stop. */
static void look_stopping(const json_t *stopping)
{
	char left[CTL_TEXT_SIZE];

	if (stopping)
		printf("stopping      for %lld s: waits for %lld commands of "
		       "%lld sessions and %lld flushes%s\n",
		       ctl_number(stopping, "seconds"),
		       ctl_number(stopping, "commands"),
		       ctl_number(stopping, "sessions"),
		       ctl_number(stopping, "flushes"),
		       ctl_progress_text(stopping, left));
}

static void look_configuration(const json_t *all)
{
	const char *file = ctl_field(all, "config");

	printf("configuration %s", *file ? file : "of the command line");
	printf(", generation %lld", ctl_number(all, "generation"));
	if (json_object_get(all, "changing_seconds"))
		printf(", being changed for %lld s",
		       ctl_number(all, "changing_seconds"));
	puts(look_flag(all, "auto_save") ? ", saved after each change" : "");
}

static void look_target(const json_t *all)
{
	char since[CTL_TEXT_SIZE];

	look_since(all, since);
	printf("rdma-target %s, process %lld, %lld thread%s%s%s\n",
	       ctl_field(all, "version"), ctl_number(all, "pid"),
	       ctl_number(all, "threads"),
	       look_many(ctl_number(all, "threads")), *since ? ", " : "",
	       since);
}

void ctl_look_status(const json_t *all)
{
	const json_t *one;
	size_t i;

	look_target(all);
	if (!look_trouble(all))
		puts("health        good");
	json_array_foreach(json_object_get(all, "listeners"), i, one)
		printf("%s %s\n", i ? "             " : "listens on   ",
		       json_string_value(one));
	json_array_foreach(json_object_get(all, "waiting_listeners"), i, one)
		printf("not here yet  %s\n", json_string_value(one));
	printf("volumes       %lld", ctl_number(all, "volumes"));
	json_array_foreach(json_object_get(all, "not_ready"), i, one)
		printf("%s%s",
		       i ? ", " : "; not ready: ", json_string_value(one));
	printf("\nsessions      %lld\n", ctl_number(all, "sessions"));
	look_configuration(all);
	printf("log level     %s\n", ctl_field(all, "log_level"));
	look_stopping(json_object_get(all, "stopping"));
}

/* ---- the tree ---- */

#define TREE_WIDTH     80
#define TREE_WIDTH_MAX 120

/* Of the terminal, so that lines end at its edge. */
static int tree_width(void)
{
	struct winsize size = { .ws_col = 0 };

	if (ioctl(fileno(stdout), TIOCGWINSZ, &size) || size.ws_col < 40)
		return TREE_WIDTH;
	return size.ws_col < TREE_WIDTH_MAX ? size.ws_col : TREE_WIDTH_MAX;
}

/* "  | o- a ............ [LUN 0, 1 GiB]": @stem is what stands before it. */
__attribute__((format(printf, 3, 4))) static void
tree_line(const char *stem, const char *name, const char *fmt, ...)
{
	char facts[2 * CTL_TEXT_SIZE];
	va_list ap;
	int dots;

	va_start(ap, fmt);
	vsnprintf(facts, sizeof(facts), fmt, ap);
	va_end(ap);
	dots = tree_width() - (int)(strlen(stem) + strlen(name) +
				    strlen(facts) + strlen("o-   []"));
	printf("%so- %s ", stem, name);
	for (int i = 0; i < dots || i < 2; i++)
		putchar('.');
	printf(" [%s]\n", facts);
}

static void tree_listeners(const json_t *all)
{
	const json_t *list = json_object_get(all, "listeners");

	tree_line("  ", "listeners", "%zu", json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++)
		printf("  | o- %s\n",
		       json_string_value(json_array_get(list, i)));
}

static void tree_users(const json_t *all, const char *volume, bool is_last)
{
	const json_t *names = json_object_get(all, "host_names");
	const char *stem = is_last ? "  |   " : "  | | ";
	char address[CTL_TEXT_SIZE];
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(all, "session_list"), i, one) {
		if (look_sees(one, volume))
			tree_line(stem, ctl_field(one, "initiator"), "%s",
				  look_address(one, names, address));
	}
}

static void tree_volumes(const json_t *all)
{
	const json_t *list = json_object_get(all, "volume_list");
	char size[CTL_TEXT_SIZE], who[CTL_TEXT_SIZE], state[CTL_TEXT_SIZE];
	const json_t *vol;
	size_t i;

	tree_line("  ", "volumes", "%zu", json_array_size(list));
	json_array_foreach((json_t *)(uintptr_t)list, i, vol) {
		bool is_last = i + 1 == json_array_size(list);
		const char *stem = is_last ? "  |   " : "  | | ";

		tree_line("  | ", ctl_field(vol, "name"), "LUN %lld, %s, %s",
			  ctl_number(vol, "lun"), look_size(vol, size),
			  ctl_state_text(vol, state));
		tree_line(stem, "store", "%s %s", ctl_field(vol, "kind"),
			  ctl_field(vol, "store"));
		tree_line(stem, "allow", "%s", look_access(vol, who));
		tree_users(all, ctl_field(vol, "name"), is_last);
	}
}

static void tree_initiators(const json_t *all)
{
	const json_t *list = json_object_get(all, "session_list");
	char volumes[CTL_TEXT_SIZE], since[CTL_TEXT_SIZE];
	const json_t *one;
	size_t i;

	tree_line("  ", "initiators", "%zu", json_array_size(list));
	json_array_foreach((json_t *)(uintptr_t)list, i, one)
		tree_line("    ", ctl_field(one, "initiator"), "%s, %s",
			  look_since(one, since),
			  look_volume_names(one, volumes));
}

void ctl_look_tree(const json_t *all)
{
	tree_line("", "rdma-target", "%s, process %lld",
		  ctl_field(all, "version"), ctl_number(all, "pid"));
	tree_listeners(all);
	tree_volumes(all);
	tree_initiators(all);
}

/* ---- a volume ---- */

const json_t *ctl_look_find(const json_t *all, const char *name)
{
	const json_t *vol;
	size_t i;

	json_array_foreach(json_object_get(all, "volume_list"), i, vol) {
		if (!strcmp(ctl_field(vol, "name"), name))
			return vol;
	}
	return NULL;
}

static void look_users(const json_t *all, const char *volume)
{
	const json_t *names = json_object_get(all, "host_names");
	char address[CTL_TEXT_SIZE], since[CTL_TEXT_SIZE];
	const char *head = "used by     ";
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(all, "session_list"), i, one) {
		if (!look_sees(one, volume))
			continue;
		printf("%s %s, %s, %s\n", head, ctl_field(one, "initiator"),
		       look_address(one, names, address),
		       look_since(one, since));
		head = "            ";
	}
	if (*head == 'u')
		printf("%s nobody\n", head);
}

void ctl_look_volume(const json_t *all, const json_t *vol)
{
	const char *name = ctl_field(vol, "name");
	char text[CTL_TEXT_SIZE];

	printf("name         %s\n", name);
	printf("LUN          %lld\n", ctl_number(vol, "lun"));
	printf("size         %s, in blocks of %lld\n",
	       ctl_size_text(ctl_number(vol, "size"), text),
	       ctl_number(vol, "block_size"));
	printf("store        %s (%s)\n", ctl_field(vol, "store"),
	       ctl_field(vol, "kind"));
	printf("serial       %s\n", ctl_field(vol, "serial"));
	printf("state        %s\n", ctl_state_text(vol, text));
	printf("write cache  %s\n",
	       look_flag(vol, "write_cache") ? "on" : "off");
	printf("allow        %s\n", look_access(vol, text));
	look_users(all, name);
}
