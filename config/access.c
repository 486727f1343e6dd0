/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/access.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "protocol/scsi_vpd.h"
#include "protocol/wire.h"

static struct in6_addr mapped(struct in_addr in)
{
	struct in6_addr in6 = { 0 };

	memset(in6.s6_addr + 10, 0xff, 2);
	memcpy(in6.s6_addr + 12, &in, sizeof(in));
	return in6;
}

struct in6_addr access_addr(const struct sockaddr_storage *addr)
{
	struct in6_addr none = { 0 };

	if (addr->ss_family == AF_INET)
		return mapped(((const struct sockaddr_in *)addr)->sin_addr);
	if (addr->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)addr)->sin6_addr;
	return none;
}

uint64_t access_host(const struct in6_addr *addr)
{
	return wire_get64(addr->s6_addr + (IN6_IS_ADDR_V4MAPPED(addr) ? 8 : 0));
}

/* ---- reading rules ---- */

/* A whole decimal number of at most @max; -1: the text is none. */
static int parse_decimal(const char *text, int max)
{
	uint64_t v;

	return number_parse(text, (uint64_t)max, &v) ? (int)v : -1;
}

static bool parse_prefix(const char *text, unsigned int bits,
			 struct access_rule *rule)
{
	int prefix = text ? parse_decimal(text, (int)bits) : (int)bits;

	/* Everybody needs the word "all". */
	if (prefix <= 0)
		return false;
	rule->prefix = 128 - bits + (unsigned int)prefix;
	return true;
}

static bool access_parse_ipv6(char *text, struct access_rule *rule)
{
	char *end = strchr(text, ']');

	if (!end || (end[1] && end[1] != '/'))
		return false;
	*end = '\0';
	return inet_pton(AF_INET6, text + 1, &rule->net) == 1 &&
	       parse_prefix(end[1] ? end + 2 : NULL, 128, rule);
}

static bool parse_ipv4(char *text, struct access_rule *rule)
{
	char *slash = strchr(text, '/');
	struct in_addr in;

	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	rule->net = mapped(in);
	return parse_prefix(slash, 32, rule);
}

static bool same_net(const struct in6_addr *a, const struct in6_addr *b,
		     unsigned int prefix)
{
	unsigned int whole = prefix / 8;
	uint8_t rest = (uint8_t)(0xff00 >> prefix % 8);

	if (memcmp(a, b, whole) != 0)
		return false;
	return prefix % 8 == 0 ||
	       ((a->s6_addr[whole] ^ b->s6_addr[whole]) & rest) == 0;
}

/* True of "[::ffff:10.0.0.0]/8" and of "[::1]/64": without the word "all", these are no
 * rules. */
static bool has_all_ipv4(const struct access_rule *rule)
{
	const struct in6_addr first = mapped((struct in_addr){ 0 });

	return rule->prefix <= 96 && same_net(&rule->net, &first, rule->prefix);
}

/* NAME or "*". */
static bool access_parse_name(const char *text, struct access_rule *rule)
{
	rule->by_name = true;
	if (!strcmp(text, "*"))
		return true;
	if (!key_name_is_good(text, strlen(text)))
		return false;
	strcpy(rule->name, text);
	return true;
}

static bool parse_who(char *text, struct access_rule *rule)
{
	if (!strcmp(text, "all"))
		return true;
	if (!strcmp(text, ACCESS_NOBODY))
		return rule->is_nobody = true;
	if (!strncmp(text, ACCESS_BY_NAME, strlen(ACCESS_BY_NAME)))
		return access_parse_name(text + strlen(ACCESS_BY_NAME), rule);
	if (text[0] == '[')
		return access_parse_ipv6(text, rule) && !has_all_ipv4(rule);
	if (text[0] == '0' && text[1] == 'x') {
		rule->by_port = true;
		return srp_port_id_parse(text, &rule->port) == 0;
	}
	return parse_ipv4(text, rule);
}

/* Only the bits that count. */
static struct in6_addr access_net(const struct access_rule *rule)
{
	struct in6_addr net = { 0 };
	unsigned int whole = rule->prefix / 8;

	memcpy(&net, &rule->net, whole);
	if (rule->prefix % 8)
		net.s6_addr[whole] = (uint8_t)(rule->net.s6_addr[whole] &
					       0xff00 >> rule->prefix % 8);
	return net;
}

static uint64_t access_digest(const char *text)
{
	uint8_t digest[16];

	scsi_text_digest(text, digest);
	return wire_get64(digest);
}

/* No text of a rule by address begins so. */
static uint64_t access_name_principal(const char *name)
{
	char text[sizeof(ACCESS_BY_NAME) + KEY_NAME_SIZE];

	snprintf(text, sizeof(text), "%s%s", ACCESS_BY_NAME, name);
	return access_digest(text);
}

static uint64_t access_rule_principal(const struct access_rule *rule)
{
	struct in6_addr net = access_net(rule);
	char text[INET6_ADDRSTRLEN + SRP_PORT_ID_TEXT_SIZE];

	if (rule->by_name)
		return access_name_principal(rule->name);
	if (rule->by_port) {
		srp_port_id_format(&rule->port, text);
	} else {
		inet_ntop(AF_INET6, &net, text, INET6_ADDRSTRLEN);
		sprintf(text + strlen(text), "/%u", rule->prefix);
	}
	return access_digest(text);
}

static bool access_parse_option(const char *text, struct access_rule *rule)
{
	if (!strcmp(text, "ro")) {
		rule->read_only = true;
		return true;
	}
	if (strncmp(text, "lun=", 4) != 0)
		return false;
	rule->lun = parse_decimal(text + 4, 255);
	return rule->lun >= 0;
}

/* The beginning of the options: the first colon that is not within brackets, and not that
 * of ACCESS_BY_NAME. */
static char *options_of(char *text)
{
	char *end = text[0] == '[' ? strchr(text, ']') : text;

	if (!strncmp(text, ACCESS_BY_NAME, strlen(ACCESS_BY_NAME)))
		end = text + strlen(ACCESS_BY_NAME);
	return end ? strchr(end, ':') : NULL;
}

static bool parse_rule(char *text, struct access_rule *rule)
{
	char *option = options_of(text);
	char *next;

	*rule = (struct access_rule){ .lun = -1 };
	if (option)
		*option++ = '\0';
	if (!parse_who(text, rule))
		return false;
	rule->principal = access_rule_principal(rule);
	for (; option; option = next) {
		next = strchr(option, ':');
		if (next)
			*next++ = '\0';
		if (!access_parse_option(option, rule))
			return false;
	}
	return true;
}

/* Whoever fits @rule fits @first, too. */
static bool access_covers(const struct access_rule *first,
			  const struct access_rule *rule)
{
	if (!first->by_name && !first->by_port && !first->prefix)
		return true;
	if (first->by_name || rule->by_name)
		return first->by_name && rule->by_name &&
		       (!first->name[0] || !strcmp(first->name, rule->name));
	if (first->by_port || rule->by_port)
		return first->by_port && rule->by_port &&
		       srp_port_id_equal(&first->port, &rule->port);
	return first->prefix <= rule->prefix &&
	       same_net(&first->net, &rule->net, first->prefix);
}

static bool access_check_next(const struct access_rules *rules,
			      const struct access_rule *rule, struct error *e)
{
	for (unsigned int i = 0; i < rules->cnt; i++) {
		const struct access_rule *first = &rules->rule[i];

		/* An empty list, to which the command line adds. */
		if (first->is_nobody)
			continue;
		if (rule->is_nobody)
			return error_refuse(e, "none (nobody) takes nothing "
					       "from the rules before it; "
					       "leave it out, or these");
		if (access_covers(first, rule) &&
		    (first->read_only != rule->read_only ||
		     first->lun != rule->lun))
			return error_refuse(e,
					    "this rule never counts: rule %u "
					    "before it fits the same "
					    "initiators; put it first, or "
					    "leave one out",
					    i + 1);
	}
	return true;
}

bool access_rules_add(struct access_rules *rules, const char *text,
		      struct error *e)
{
	struct access_rule *rule = rules->rule + rules->cnt;
	char copy[128];

	if (rules->cnt == ACCESS_RULES_MAX)
		return error_refuse(e, "more than %d rules", ACCESS_RULES_MAX);
	snprintf(copy, sizeof(copy), "%s", text);
	if (strlen(text) >= sizeof(copy) || !parse_rule(copy, rule))
		return error_refuse(
			e, "a rule is name:NAME, name:* (every name), an "
			   "address (10.0.0.1, [fe80::1]), a network "
			   "(10.0.0.0/24), 0x and the 32 digits of an "
			   "initiator port, all (everybody) or none (nobody); "
			   ":ro and :lun=N may follow");
	if (!access_check_next(rules, rule, e))
		return false;
	rules->cnt++;
	return true;
}

/* ---- who fits ---- */

static bool access_fits(const struct access_rule *rule,
			const struct access_who *who)
{
	bool is_known = who->name[0] || !who->must_prove;

	if (rule->is_nobody)
		return false;
	if (rule->by_name)
		return who->name[0] &&
		       (!rule->name[0] || !strcmp(rule->name, who->name));
	if (rule->by_port)
		return is_known && srp_port_id_equal(&rule->port, &who->port);
	return (is_known || rule->prefix) &&
	       same_net(&rule->net, &who->addr, rule->prefix);
}

const struct access_rule *access_rules_find(const struct access_rules *rules,
					    const struct access_who *who)
{
	for (unsigned int i = 0; i < rules->cnt; i++) {
		if (access_fits(&rules->rule[i], who))
			return &rules->rule[i];
	}
	return NULL;
}

uint64_t access_principal(const struct access_rule *rule,
			  const struct access_who *who)
{
	return who->name[0] ? access_name_principal(who->name)
			    : rule->principal;
}

uint64_t access_rules_principal(const struct access_rules *rules,
				const struct access_who *who)
{
	const struct access_rule *rule = access_rules_find(rules, who);

	return rule ? access_principal(rule, who) : 0;
}

/* Can the WHO of @rule be a principal? Not if it fits only those that have proved a name. */
static bool access_is_principal(const struct access_rule *rule,
				const struct access_names *names)
{
	if (rule->by_name)
		return false;
	return !names->demanded || (!rule->by_port && rule->prefix);
}

bool access_rules_name(const struct access_rules *rules,
		       const struct access_names *names, uint64_t principal)
{
	for (unsigned int i = 0; i < rules->cnt; i++) {
		if (rules->rule[i].principal == principal &&
		    access_is_principal(&rules->rule[i], names))
			return true;
	}
	for (unsigned int i = 0; i < names->cnt; i++) {
		if (names->name[i].principal == principal)
			return true;
	}
	return false;
}

bool access_who_same(const struct access_who *a, const struct access_who *b)
{
	return !memcmp(&a->addr, &b->addr, sizeof(a->addr)) &&
	       !strcmp(a->name, b->name);
}

/* ---- names ---- */

/* Nobody knows which of its keys a name has used: the lesser right counts. */
static bool access_key_is_read_only(const struct key_file *keys,
				    const char *name)
{
	for (unsigned int nth = 0; nth < KEYS_PER_NAME; nth++) {
		const struct key *key = key_file_find(keys, name, nth);

		if (key && key->read_only)
			return true;
	}
	return false;
}

void access_names_take(struct access_names *names, const struct key_file *keys)
{
	names->cnt = keys->cnt;
	for (unsigned int i = 0; i < keys->cnt; i++) {
		struct access_name *to = &names->name[i];

		memcpy(to->name, keys->key[i].name, sizeof(to->name));
		memcpy(to->print, keys->key[i].print, sizeof(to->print));
		to->read_only = access_key_is_read_only(keys, to->name);
		to->principal = access_name_principal(to->name);
	}
}

const struct access_name *access_names_find(const struct access_names *names,
					    const char *name)
{
	for (unsigned int i = 0; i < names->cnt; i++) {
		if (!strcmp(names->name[i].name, name))
			return &names->name[i];
	}
	return NULL;
}
