/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/number.h"

/* The options of Linux's ib_srp besides the address of a target. */
static const char *const kernel_options[] = {
	"allow_ext_sg",	  "ch_count",	  "cmd_sg_entries",  "comp_vector",
	"initiator_ext",  "io_class",	  "max_cmd_per_lun", "max_it_iu_size",
	"max_sect",	  "queue_size",	  "sg_tablesize",    "target_can_queue",
	"tl_retry_count", "use_imm_data",
};

static bool copy(char *to, size_t size, const char *value)
{
	return (size_t)snprintf(to, size, "%s", value) < size && *value;
}

static bool read_hex(const char *value, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(value, &end, 16);
	return isxdigit((unsigned char)*value) && !*end && !errno;
}

/* ---- keys ---- */

static bool set_id_ext(struct rule *r, const char *value)
{
	r->has_id_ext = read_hex(value, &r->id_ext);
	return r->has_id_ext;
}

static bool set_ioc_guid(struct rule *r, const char *value)
{
	r->has_ioc_guid = read_hex(value, &r->ioc_guid);
	return r->has_ioc_guid;
}

/* :PORT, or nothing */
static bool read_port(const char *text, uint64_t *ret_port)
{
	*ret_port = 0;
	return !*text ||
	       (*text == ':' && number_parse(text + 1, UINT16_MAX, ret_port) &&
		*ret_port);
}

/* Writes an address as rdma-discover prints it. @scope: of a link-local address,
 * with its %; else "". Returns false if it is none. */
static bool write_address(const char *host, bool is_v6, const char *scope,
			  char *buf, size_t size)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	if (inet_pton(is_v6 ? AF_INET6 : AF_INET, host, &addr) != 1)
		return false;
	if (is_v6 && IN6_IS_ADDR_V4MAPPED(&addr)) {
		inet_ntop(AF_INET, &addr.s6_addr[12], text, sizeof(text));
		return !*scope && copy(buf, size, text);
	}
	if (is_v6 && IN6_IS_ADDR_LINKLOCAL(&addr) != (strlen(scope) > 1))
		return false;
	inet_ntop(is_v6 ? AF_INET6 : AF_INET, &addr, text, sizeof(text));
	return (size_t)snprintf(buf, size, is_v6 ? "[%s%s]" : "%s%s", text,
				scope) < size;
}

/* Reads ADDR or ADDR:PORT. One address has many texts, but a target has one: a
 * rule with another text would match nothing. */
static bool read_dest(const char *value, char *buf, size_t size)
{
	bool is_v6 = *value == '[';
	const char *host = value + is_v6;
	size_t host_len = strcspn(host, is_v6 ? "]%" : ":");
	const char *end = host + strcspn(host, is_v6 ? "]" : ":");
	char host_text[INET6_ADDRSTRLEN];
	char scope[IF_NAMESIZE + 1];
	uint64_t port;
	size_t len;

	if (host_len >= sizeof(host_text) ||
	    (size_t)(end - host) - host_len >= sizeof(scope) ||
	    (is_v6 && !*end) || !read_port(end + is_v6, &port))
		return false;
	snprintf(host_text, sizeof(host_text), "%.*s", (int)host_len, host);
	snprintf(scope, sizeof(scope), "%.*s", (int)(end - host - host_len),
		 host + host_len);
	if (!write_address(host_text, is_v6, scope, buf, size))
		return false;
	len = strlen(buf);
	return !port || (size_t)snprintf(buf + len, size - len, ":%u",
					 (unsigned int)port) < size - len;
}

static bool set_dest(struct rule *r, const char *value)
{
	return r->dest_cnt < RULES_DESTS_MAX &&
	       read_dest(value, r->dest[r->dest_cnt++], sizeof(r->dest[0]));
}

static bool set_instance(struct rule *r, const char *value)
{
	return copy(r->instance, sizeof(r->instance), value);
}

/* True if @path has a part that is . or .. */
static bool has_dots(const char *path)
{
	for (const char *p = path; *p; p += strcspn(p, "/")) {
		size_t len;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if ((len == 1 || len == 2) && strspn(p, ".") >= len)
			return true;
	}
	return false;
}

static bool set_mount(struct rule *r, const char *value)
{
	size_t len;

	if (*value != '/' || has_dots(value) ||
	    !copy(r->mount, sizeof(r->mount), value))
		return false;
	/* The kernel lists the path without a slash at the end. */
	for (len = strlen(r->mount); len > 1 && r->mount[len - 1] == '/';)
		r->mount[--len] = '\0';
	return true;
}

static bool set_volume(struct rule *r, const char *value)
{
	return copy(r->volume, sizeof(r->volume), value);
}

static bool set_gone(struct rule *r, const char *value)
{
	r->remove_gone = strcmp(value, "remove") == 0;
	return r->remove_gone || strcmp(value, "keep") == 0;
}

static bool set_never(struct rule *r, const char *value)
{
	r->never = true;
	return true;
}

static const struct rule_key {
	const char *name;
	bool (*set)(struct rule *r, const char *value);
	const char *allowed;
} keys[] = {
	{ "id_ext", set_id_ext, "a hexadecimal number" },
	{ "ioc_guid", set_ioc_guid, "a hexadecimal number" },
	{ "dest", set_dest,
	  "ADDR or ADDR:PORT, an IP address, IPv6 in brackets, with %INTERFACE "
	  "if it is link-local" },
	{ "instance", set_instance, "a name that rdma-discover shows" },
	{ "dgid", set_never, "" },
	{ "pkey", set_never, "" },
	{ "service_id", set_never, "" },
	{ "mount", set_mount, "a directory, from / on, without . and .." },
	{ "volume", set_volume, "the name of a volume" },
	{ "gone", set_gone, "keep or remove" },
};

static bool is_kernel_option(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernel_options); i++) {
		if (strcmp(key, kernel_options[i]) == 0)
			return true;
	}
	return false;
}

static bool add_option(struct rule *r, const char *key, const char *value)
{
	size_t len = strlen(r->options);
	size_t size = sizeof(r->options) - len;

	return (size_t)snprintf(r->options + len, size, ",%s=%s", key, value) <
	       size;
}

static bool set_key(struct rule *r, const char *key, const char *value,
		    struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(key, keys[i].name) != 0)
			continue;
		return keys[i].set(r, value) ||
		       error_refuse(e, "'%s=%s': not %s", key, value,
				    keys[i].allowed);
	}
	if (is_kernel_option(key))
		return add_option(r, key, value) ||
		       error_refuse(e, "too many options");
	return error_refuse(e, "'%s': no such key; see rdma-discover-rules(5)",
			    key);
}

/* ---- lines ---- */

/* Cuts "KEY=VALUE" off at *@p, up to the next comma or space. False: *@p has no
 * more. */
static bool next_pair(char **p, char **ret_pair)
{
	*p += strspn(*p, ", \t\r\n");
	if (!**p)
		return false;
	*ret_pair = *p;
	*p += strcspn(*p, ", \t\r\n");
	if (**p)
		*(*p)++ = '\0';
	return true;
}

static bool rule_check(const struct rule *r, struct error *e)
{
	if (!r->connect)
		return true;
	if (*r->mount && *r->options)
		return error_refuse(e, "mount= and options of the kernel's "
				       "initiator: only one is possible");
	if (*r->volume && !*r->mount)
		return error_refuse(e, "volume= without mount=: the kernel "
				       "takes all volumes");
	return true;
}

static bool read_pairs(char *p, struct rule *r, struct error *e)
{
	char *pair;

	while (next_pair(&p, &pair)) {
		char *equal = strchr(pair, '=');

		if (!equal)
			return error_refuse(e, "'%s': not KEY=VALUE", pair);
		*equal = '\0';
		if (!set_key(r, pair, equal + 1, e))
			return false;
	}
	return rule_check(r, e);
}

static bool read_line(char *line, unsigned int nr, struct rules *rules,
		      struct error *e)
{
	struct rule *r = &rules->rule[rules->cnt];
	char *p = line + strspn(line, " \t\r\n");

	if (!*p || *p == '#')
		return true;
	if (rules->cnt == RULES_MAX)
		return error_refuse(e, "more than %u rules", RULES_MAX);
	if ((*p != 'a' && *p != 'd') || !strchr(" \t\r\n", p[1]))
		return error_refuse(e, "a rule begins with a (connect) or d "
				       "(do not)");
	*r = (struct rule){ .line = nr, .connect = *p == 'a' };
	rules->cnt++;
	return read_pairs(p + 1, r, e);
}

static bool read_lines(FILE *f, const char *path, struct rules *rules,
		       struct error *e)
{
	char line[RULES_LINE_SIZE];

	for (unsigned int nr = 1; fgets(line, sizeof(line), f); nr++) {
		bool is_whole = strchr(line, '\n') || feof(f);

		if (!is_whole)
			return error_refuse(e, "%s:%u: the line is too long",
					    path, nr);
		if (!read_line(line, nr, rules, e)) {
			error_prefix(e, "%s:%u: ", path, nr);
			return false;
		}
	}
	if (ferror(f)) {
		error_set(e, -errno, "rules '%s': %s", path, strerror(errno));
		return false;
	}
	return true;
}

int rules_read(const char *path, struct rules *ret, struct error *e)
{
	FILE *f = fopen(path, "re");
	struct rules *rules;
	bool is_good;

	if (!f)
		return error_set(e, -errno, "rules '%s': %s", path,
				 strerror(errno));
	rules = calloc(1, sizeof(*rules));
	is_good = rules && read_lines(f, path, rules, e);
	if (!rules)
		error_set(e, -ENOMEM, "out of memory");
	fclose(f);
	if (is_good)
		*ret = *rules;
	free(rules);
	return is_good ? 0 : e->err;
}

/* ---- match ---- */

/* A dest may have no port. */
static bool rule_has_dest(const struct rule *r, const struct found_address *a)
{
	const char *at = strstr(a->text, "://") + 3;

	for (unsigned int i = 0; i < r->dest_cnt; i++) {
		size_t len = strlen(r->dest[i]);

		if (strncmp(at, r->dest[i], len) == 0 &&
		    (at[len] == '\0' || at[len] == ':'))
			return true;
	}
	return r->dest_cnt == 0;
}

static bool rule_has_any(const struct rule *r, const struct found_target *t)
{
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		if (rule_has_dest(r, &t->addresses[i]))
			return true;
	}
	return false;
}

void rule_narrow(const struct rule *r, const struct found_target *t,
		 struct found_target *ret)
{
	*ret = *t;
	ret->address_cnt = 0;
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		if (rule_has_dest(r, &t->addresses[i]))
			ret->addresses[ret->address_cnt++] = t->addresses[i];
	}
}

static bool rule_matches(const struct rule *r, const struct found_target *t)
{
	return !r->never &&
	       (!r->has_id_ext || r->id_ext == srp_port_id_ext(&t->id)) &&
	       (!r->has_ioc_guid || r->ioc_guid == srp_port_id_guid(&t->id)) &&
	       (!*r->instance || strcmp(r->instance, t->instance) == 0) &&
	       rule_has_any(r, t);
}

const struct rule *rules_match(const struct rules *rules,
			       const struct found_target *t)
{
	for (unsigned int i = 0; i < rules->cnt; i++) {
		const struct rule *r = &rules->rule[i];

		if (rule_matches(r, t))
			return r->connect ? r : NULL;
	}
	return NULL;
}
