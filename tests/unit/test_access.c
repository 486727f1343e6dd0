/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which initiator may see which volume: the rules, and each way in which an
 * initiator can name a volume that it may not see.
 */
#include "tests/lib/t_rig.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "target/port/port_change.h"
#include "tests/lib/t_table.h"

#define ONE "0x00000000000000000000000000000001"

/* ---- rules ---- */

static const struct rule_case {
	const char *name;
	const char *rule;
	const char *addr; /* of initiator port 1 */
	bool fits;
	bool read_only;
	int lun;
} rule_cases[] = {
	{ "an address", "10.0.0.1", "10.0.0.1", true, false, -1 },
	{ "another address", "10.0.0.1", "10.0.0.2", false, false, -1 },
	{ "a network", "10.0.0.0/24", "10.0.0.255", true, false, -1 },
	{ "outside of a network", "10.0.0.0/24", "10.0.1.0", false, false, -1 },
	{ "a network of 9 bits", "10.128.0.0/9", "10.255.0.1", true, false,
	  -1 },
	{ "outside of 9 bits", "10.128.0.0/9", "10.127.0.1", false, false, -1 },
	{ "half of IPv4", "128.0.0.0/1", "192.168.0.1", true, false, -1 },
	{ "IPv6 is not IPv4", "128.0.0.0/1", "fe80::1", false, false, -1 },
	{ "nobody", "none", "10.0.0.1", false, false, -1 },
	{ "IPv4 within IPv6", "10.0.0.1", "::ffff:10.0.0.1", true, false, -1 },
	{ "an IPv6 address", "[fe80::1]", "fe80::1", true, false, -1 },
	{ "an IPv6 network", "[fd00::]/8", "fdab::1", true, false, -1 },
	{ "outside of an IPv6 network", "[fd00::]/8", "fe80::1", false, false,
	  -1 },
	{ "everybody", "all", "fe80::1", true, false, -1 },
	{ "a port", ONE, "10.0.0.9", true, false, -1 },
	{ "another port", "0x00000000000000000000000000000002", "10.0.0.9",
	  false, false, -1 },
	{ "read-only", "10.0.0.1:ro", "10.0.0.1", true, true, -1 },
	{ "a number", "[::1]/128:lun=7", "::1", true, false, 7 },
	{ "both", "all:ro:lun=255", "10.0.0.1", true, true, 255 },
};

static struct in6_addr addr_of(const char *text)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET6 };
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&sa;
	struct sockaddr_in *sin = (struct sockaddr_in *)&sa;

	if (!strchr(text, ':')) {
		sa.ss_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &sin->sin_addr), 1);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &sin6->sin6_addr),
				 1);
	}
	return access_addr(&sa);
}

/* Port 1, which has proved @name; NULL: none. */
static struct access_who who_at(const char *addr, const char *name)
{
	struct access_who who = { .port = srp_port_id_make(0, 1),
				  .addr = addr_of(addr) };

	if (name)
		snprintf(who.name, sizeof(who.name), "%s", name);
	return who;
}

T_ROWS(rule_fits, rule_cases)
{
	const struct rule_case *row = *state;
	struct access_who who = who_at(row->addr, /* name= */ NULL);
	struct access_rules rules = { .cnt = 0 };
	const struct access_rule *rule;
	struct error e;

	assert_true(access_rules_add(&rules, row->rule, &e));
	rule = access_rules_find(&rules, &who);
	assert_int_equal(rule != NULL, row->fits);
	if (!rule)
		return;
	assert_int_equal(rule->read_only, row->read_only);
	assert_int_equal(rule->lun, row->lun);
}

static const struct name_case {
	const char *name;
	const char *rule;
	const char *proved;
	bool with_keys; /* the target has some */
	bool fits;
} name_cases[] = {
	{ "a name", "name:backup", "backup", true, true },
	{ "a name with options", "name:backup:ro", "backup", true, true },
	{ "another name", "name:backup", "backups", true, false },
	{ "the beginning of a name", "name:backup", "back", true, false },
	{ "a name in other letters", "name:backup", "Backup", true, false },
	{ "every name", "name:*", "backup", true, true },
	{ "no name, by name", "name:backup", NULL, true, false },
	{ "no name, by every name", "name:*", NULL, true, false },
	{ "no name, by every name, no keys", "name:*", NULL, false, false },
	{ "no name, everybody", "all", NULL, true, false },
	{ "no name, by port", ONE, NULL, true, false },
	{ "no name, by address", "10.0.0.1", NULL, true, true },
	{ "no name, by network", "10.0.0.0/8", NULL, true, true },
	{ "no name, half of IPv4", "0.0.0.0/1", NULL, true, true },
	{ "no keys, everybody", "all", NULL, false, true },
	{ "no keys, by port", ONE, NULL, false, true },
	{ "a name, everybody", "all", "backup", true, true },
	{ "a name, by port", ONE, "backup", true, true },
	{ "a name, by address", "10.0.0.1", "backup", true, true },
	{ "a name, by another address", "10.0.0.2", "backup", true, false },
	{ "a name, nobody", "none", "backup", true, false },
};

T_ROWS(rule_fits_a_name, name_cases)
{
	const struct name_case *row = *state;
	struct access_who who = who_at("10.0.0.1", row->proved);
	struct access_rules rules = { .cnt = 0 };
	struct error e;

	who.must_prove = row->with_keys;
	assert_true(access_rules_add(&rules, row->rule, &e));
	assert_int_equal(access_rules_find(&rules, &who) != NULL, row->fits);
}

static const struct bad_rule {
	const char *name;
	const char *rule;
} bad_rules[] = {
	{ "nothing", "" },
	{ "a host name", "somewhere" },
	{ "no name", "name:" },
	{ "no name, and an option", "name::ro" },
	{ "a part of names", "name:a*" },
	{ "a name that no key can have", "name:a/b" },
	{ "a name with a space", "name: a" },
	{ "a name too long",
	  "name:a234567890123456789012345678901234567890123456789012345678901234" },
	{ "a name with an unknown option", "name:a:rw" },
	{ "33 bits", "10.0.0.0/33" },
	{ "no bits", "10.0.0.0/" },
	{ "all of IPv4 without the word", "0.0.0.0/0" },
	{ "all of IPv6 without the word", "[::]/0" },
	{ "all of IPv4 as a network of IPv6", "[::ffff:0.0.0.0]/96" },
	{ "the bits of IPv4 within IPv6", "[::ffff:10.0.0.0]/8" },
	{ "a network around this machine that has all of IPv4", "[::1]/64" },
	{ "an address that is missing", ":ro" },
	{ "bits that are no number", "10.0.0.0/2x" },
	{ "negative bits", "10.0.0.0/-1" },
	{ "129 bits", "[::]/129" },
	{ "no bracket", "[::1" },
	{ "no brackets", "::1" },
	{ "something behind the bracket", "[::1]x" },
	{ "half a port", "0x0001" },
	{ "a port and more", ONE "00" },
	{ "an unknown option", "all:rw" },
	{ "no option", "all:" },
	{ "LUN 256", "all:lun=256" },
	{ "a LUN that is no number", "all:lun=" },
};

T_ROWS(bad_rule_is_refused, bad_rules)
{
	const struct bad_rule *row = *state;
	struct access_rules rules = { .cnt = 0 };
	struct error e = { 0 };

	assert_false(access_rules_add(&rules, row->rule, &e));
	assert_true(e.text[0]);
	assert_int_equal(rules.cnt, 0);
}

static const struct pair {
	const char *name;
	const char *first;
	const char *second;
	bool good;
} pairs[] = {
	{ "read-only behind the same", "10.0.0.1", "10.0.0.1:ro", false },
	{ "read-only before the same", "10.0.0.1:ro", "10.0.0.1", false },
	{ "read-only behind everybody", "all", "10.0.0.1:ro", false },
	{ "a port behind everybody", "all:ro", ONE, false },
	{ "an address behind its network", "10.0.0.0/24:ro", "10.0.0.1",
	  false },
	{ "another LUN behind the same port", ONE ":lun=1", ONE ":lun=2",
	  false },
	{ "an address before its network", "10.0.0.1:ro", "10.0.0.0/24", true },
	{ "an address before everybody", "10.0.0.1:ro", "all", true },
	{ "the same twice", "10.0.0.1:ro", "10.0.0.1:ro", true },
	{ "two addresses", "10.0.0.1", "10.0.0.2:ro", true },
	{ "an address behind a port", ONE, "10.0.0.1:ro", true },
	{ "somebody, and nobody", "10.0.0.1", "none", false },
	{ "everybody, and nobody", "all", "none", false },
	{ "nobody, and somebody after all", "none", "10.0.0.1", true },
	{ "a name behind every name", "name:*", "name:a:ro", false },
	{ "a name behind everybody", "all", "name:a:ro", false },
	{ "every name behind everybody", "all", "name:*:ro", false },
	{ "a name before every name", "name:a:ro", "name:*", true },
	{ "two names", "name:a", "name:b:ro", true },
	{ "every name behind a name", "name:a", "name:*:ro", true },
	{ "a name behind an address", "10.0.0.1", "name:a:ro", true },
	{ "an address behind every name", "name:*", "10.0.0.1:ro", true },
};

/* The first rule that fits counts: what is behind it would be taken in vain. */
T_ROWS(rule_that_never_counts_is_refused, pairs)
{
	const struct pair *row = *state;
	struct access_rules rules = { .cnt = 0 };
	struct error e = { 0 };

	assert_true(access_rules_add(&rules, row->first, &e));
	assert_int_equal(access_rules_add(&rules, row->second, &e), row->good);
	assert_int_equal(rules.cnt, 1 + row->good);
	assert_int_equal(e.text[0] == '\0', row->good);
}

T_TEST(rules_are_limited)
{
	struct access_rules rules = { .cnt = 0 };
	struct error e;

	for (unsigned int i = 0; i < ACCESS_RULES_MAX; i++)
		assert_true(access_rules_add(&rules, "all", &e));
	assert_false(access_rules_add(&rules, "all", &e));
}

/* ---- hosts ---- */

static const struct host_case {
	const char *name;
	const char *addr[2];
	bool same;
} host_cases[] = {
	{ "the same address", { "10.0.0.1", "::ffff:10.0.0.1" }, true },
	{ "two addresses of IPv4", { "10.0.0.1", "10.0.0.2" }, false },
	{ "64 bits of IPv6", { "fd00::1", "fd00::ffff:0:0:2" }, true },
	{ "two networks of IPv6", { "fd00::1", "fd00:0:0:1::1" }, false },
	{ "IPv4 and IPv6", { "10.0.0.1", "::1" }, false },
};

T_ROWS(host_has_what_it_cannot_choose, host_cases)
{
	const struct host_case *row = *state;
	struct in6_addr a = addr_of(row->addr[0]);
	struct in6_addr b = addr_of(row->addr[1]);

	assert_int_equal(access_host(&a) == access_host(&b), row->same);
}

/* ---- principals ---- */

/* Two initiators with the same port identifier, or one before and after a change. */
static const struct principal_case {
	const char *name;
	const char *rules[2][2]; /* of each one */
	const char *addr[2];
	bool same;
	const char *proved[2];
} principal_cases[] = {
	{ "two addresses of one network",
	  { { "10.0.0.0/24" }, { "10.0.0.0/24" } },
	  { "10.0.0.1", "10.0.0.2" },
	  true },
	{ "two addresses",
	  { { "10.0.0.1", "10.0.0.2" }, { "10.0.0.1", "10.0.0.2" } },
	  { "10.0.0.1", "10.0.0.2" },
	  false },
	{ "an address, and the rest",
	  { { "10.0.0.1", "all:ro" }, { "10.0.0.1", "all:ro" } },
	  { "10.0.0.1", "10.0.0.2" },
	  false },
	{ "everybody",
	  { { "all" }, { "all" } },
	  { "10.0.0.1", "fe80::1" },
	  true },
	{ "one that may only read from now on",
	  { { "10.0.0.1" }, { "10.0.0.1:ro:lun=3" } },
	  { "10.0.0.1", "10.0.0.1" },
	  true },
	{ "one whose network is written in another way",
	  { { "[fd00:0:0:1::5]/64" }, { "[fd00:0:0:1::]/64" } },
	  { "fd00:0:0:1::7", "fd00:0:0:1::8" },
	  true },
	{ "a network that became smaller",
	  { { "10.0.0.0/24" }, { "10.0.0.0/25" } },
	  { "10.0.0.1", "10.0.0.1" },
	  false },
	{ "a port by two addresses",
	  { { ONE }, { ONE } },
	  { "10.0.0.1", "10.0.0.2" },
	  true },
	{ "a name by two addresses and two rules",
	  { { "10.0.0.1", "name:a" }, { "10.0.0.1", "name:a" } },
	  { "10.0.0.1", "10.0.0.2" },
	  true,
	  { "a", "a" } },
	{ "a name that another rule lets in from now on",
	  { { "name:a" }, { "all" } },
	  { "10.0.0.1", "10.0.0.1" },
	  true,
	  { "a", "a" } },
	{ "two names at one address",
	  { { "10.0.0.1" }, { "10.0.0.1" } },
	  { "10.0.0.1", "10.0.0.1" },
	  false,
	  { "a", "b" } },
	{ "two names by one rule",
	  { { "name:*" }, { "name:*" } },
	  { "10.0.0.1", "10.0.0.1" },
	  false,
	  { "a", "b" } },
	{ "a name, and none, at one address",
	  { { "10.0.0.1" }, { "10.0.0.1" } },
	  { "10.0.0.1", "10.0.0.1" },
	  false,
	  { "a", NULL } },
	{ "a rule before that fits nobody here",
	  { { "10.0.0.1" }, { "10.0.0.9", "10.0.0.1" } },
	  { "10.0.0.1", "10.0.0.1" },
	  true },
};

static uint64_t principal_of(const char *const rules[2], const char *addr,
			     const char *proved)
{
	struct access_who who = who_at(addr, proved);
	struct access_rules list = { .cnt = 0 };
	struct error e;
	uint64_t principal;

	for (int i = 0; i < 2 && rules[i]; i++)
		assert_true(access_rules_add(&list, rules[i], &e));
	principal = access_rules_principal(&list, &who);
	assert_true(principal);
	return principal;
}

T_ROWS(principal_is_the_rule_that_fits, principal_cases)
{
	const struct principal_case *row = *state;

	assert_int_equal(
		principal_of(row->rules[0], row->addr[0], row->proved[0]) ==
			principal_of(row->rules[1], row->addr[1],
				     row->proved[1]),
		row->same);
}

T_TEST(who_fits_no_rule_has_no_principal)
{
	struct access_who who = who_at("10.0.0.1", "a");
	struct access_rules rules = { .cnt = 0 };

	assert_int_equal(access_rules_principal(&rules, &who), 0);
}

#define KEY_1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_2 "010102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_3 "020102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static const struct known_case {
	const char *name;
	const char *rule;
	const char *keys; /* NULL: the target has none */
	const char *addr;
	const char *proved; /* of the one who is known or not */
	bool known;
} known_cases[] = {
	{ "a name with a key", "name:*", "a " KEY_1, "10.0.0.1", "a", true },
	{ "a name whose key is gone", "name:a", "b " KEY_1, "10.0.0.1", "a",
	  false },
	{ "a name, without keys", "name:a", NULL, "10.0.0.1", "a", false },
	{ "an address", "10.0.0.1", NULL, "10.0.0.1", NULL, true },
	{ "an address, with keys", "10.0.0.1", "a " KEY_1, "10.0.0.1", NULL,
	  true },
	{ "everybody", "all", NULL, "10.0.0.1", NULL, true },
	{ "everybody, when names are demanded", "all", "a " KEY_1, "10.0.0.1",
	  NULL, false },
	{ "a port, when names are demanded", ONE, "a " KEY_1, "10.0.0.1", NULL,
	  false },
};

/* What belongs to a principal that nobody can be any more belongs to whoever has the port
 * identifier. */
T_ROWS(principal_is_known, known_cases)
{
	const struct known_case *row = *state;
	static struct access_names names;
	struct access_rules rules = { .cnt = 0 };
	struct access_who who = who_at(row->addr, row->proved);
	struct key_file keys = { 0 };
	struct error e;

	memset(&names, 0, sizeof(names));
	if (row->keys) {
		assert_int_equal(key_file_parse(row->keys, strlen(row->keys),
						"k", &keys, &e),
				 0);
		names.demanded = true;
		access_names_take(&names, &keys);
		key_file_free(&keys);
	}
	assert_true(access_rules_add(&rules, row->rule, &e));
	assert_int_equal(access_rules_name(&rules, &names,
					   access_principal(rules.rule, &who)),
			 row->known);
}

/* ---- what the rules do ---- */

/* True if a login from @addr as initiator @who is accepted. Closes it. */
static bool gets_in(struct rig *rig, unsigned int who, const char *addr)
{
	struct srp_login_req req = rig_login_req(rig, who, SRP_MULTICHAN_MULTI);
	struct t_ini *ch;
	bool got_in;

	t_fabric_come_from(rig->hub, addr);
	ch = rig_connect(rig, &req);
	got_in = ch->established;
	if (!got_in) {
		assert_true(ch->rejected);
		assert_int_equal(ch->rej.reason, SRP_REJ_CHANNEL_LIMIT);
	}
	rig_chan_free(ch);
	return got_in;
}

T_TEST(who_may_see_nothing_is_refused)
{
	struct rig_options opt = { .allow = "10.0.0.0/24" };
	struct rig *rig = rig_create(&opt);

	assert_true(gets_in(rig, 1, "10.0.0.7"));
	assert_false(gets_in(rig, 1, "10.0.1.7"));
	assert_int_equal(rig->target.port.login_cnt, 0);
	rig_destroy(rig);
}

T_TEST(nobody_gets_in_without_a_rule)
{
	struct rig *rig = rig_create(NULL);

	rig->target.port.allow.cnt = 0;
	assert_false(gets_in(rig, 1, "10.0.0.7"));
	rig_destroy(rig);
}

T_TEST(own_rules_replace_those_of_the_target)
{
	struct rig_options opt = { .allow = "10.0.0.1",
				   .allow_lun = { [RIG_RAM] = "10.0.0.2" } };
	struct rig *rig = rig_create(&opt);

	assert_true(gets_in(rig, 1, "10.0.0.1"));
	assert_true(gets_in(rig, 1, "10.0.0.2"));
	assert_false(gets_in(rig, 1, "10.0.0.3"));
	rig_destroy(rig);
}

/* ---- names ---- */

static bool gets_in_as(struct rig *rig, const char *name, const char *addr)
{
	t_fabric_prove(rig->hub, name);
	return gets_in(rig, 1, addr);
}

T_TEST(target_with_keys_lets_in_who_proves_a_name)
{
	struct rig_options opt = { .allow = "all", .keys = "a " KEY_1 };
	struct rig *rig = rig_create(&opt);

	assert_true(gets_in_as(rig, "a", "10.0.0.1"));
	assert_false(gets_in_as(rig, NULL, "10.0.0.1"));
	/* Its key was removed between the handshake and the login. */
	assert_false(gets_in_as(rig, "b", "10.0.0.1"));
	rig_destroy(rig);
}

T_TEST(rule_by_address_lets_in_without_a_key)
{
	struct rig_options opt = { .allow = "10.0.0.1", .keys = "a " KEY_1 };
	struct rig *rig = rig_create(&opt);

	assert_true(gets_in_as(rig, NULL, "10.0.0.1"));
	assert_false(gets_in_as(rig, NULL, "10.0.0.2"));
	assert_false(gets_in_as(rig, "a", "10.0.0.2"));
	/* A name that is not known does not become an address. */
	assert_false(gets_in_as(rig, "b", "10.0.0.1"));
	rig_destroy(rig);
}

T_TEST(target_whose_keys_are_all_gone_lets_in_nobody)
{
	struct rig_options opt = { .allow = "all", .keys = "" };
	struct rig *rig = rig_create(&opt);

	assert_false(gets_in_as(rig, NULL, "10.0.0.1"));
	rig_destroy(rig);
}

/* With its own name, a host cannot take another one's session. */
T_TEST(port_identifier_of_another_name_is_no_use)
{
	struct rig_options opt = { .allow = "name:*",
				   .keys = "a " KEY_1 "\nb " KEY_2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *victim;

	t_fabric_prove(rig->hub, "a");
	victim = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(victim);
	t_fabric_prove(rig->hub, "b");
	rig_expect_alive(rig_login(rig, 1, SRP_MULTICHAN_SINGLE));
	assert_false(victim->closed);
	t_fabric_prove(rig->hub, "a");
	t_fabric_come_from(rig->hub, "10.0.0.9");
	rig_expect_alive(rig_login(rig, 1, SRP_MULTICHAN_SINGLE));
	assert_true(victim->closed);
	rig_destroy(rig);
}

static const struct change_case {
	const char *name;
	const char *keys; /* from now on; at first, a and b have one each */
	bool ends;	  /* the session of a */
	bool comes_back;
} change_cases[] = {
	{ "the same", "b " KEY_2 "\na " KEY_1, false, true },
	{ "a key of another name goes", "a " KEY_1, false, true },
	{ "a name comes", "a " KEY_1 "\nb " KEY_2 "\nc " KEY_3, false, true },
	{ "a newer key comes", "a " KEY_3 "\na " KEY_1 "\nb " KEY_2, false,
	  true },
	{ "its key is replaced", "a " KEY_3 "\nb " KEY_2, true, true },
	{ "its key becomes another name's", "c " KEY_1 "\nb " KEY_2, true,
	  false },
	{ "its key goes", "b " KEY_2, true, false },
	{ "all keys go", "", true, false },
	{ "it may only read", "a " KEY_1 " ro\nb " KEY_2, true, true },
};

T_ROWS(session_ends_with_its_key, change_cases)
{
	const struct change_case *row = *state;
	struct rig_options opt = { .allow = "all",
				   .keys = "a " KEY_1 "\nb " KEY_2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch;

	t_fabric_prove(rig->hub, "a");
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_take_keys(rig, row->keys);
	assert_int_equal(ch->closed, row->ends);
	assert_int_equal(gets_in_as(rig, "a", "10.0.0.1"), row->comes_back);
	rig_destroy(rig);
}

/* ---- another principal with the same port identifier ---- */

/* 10.0.0.1 is the victim. */
static const struct other_case {
	const char *name;
	const char *rules[2];
	const char *of_ram;
	const char *addr; /* of the other one */
} other_cases[] = {
	{ "may only read", { "10.0.0.1", "10.0.0.2:ro" }, NULL, "10.0.0.2" },
	{ "may do the same", { "10.0.0.1", "10.0.0.2" }, NULL, "10.0.0.2" },
	{ "is one of all the others", { "10.0.0.1", "all" }, NULL, "10.9.0.1" },
	{ "sees fewer volumes", { "all" }, "10.0.0.1", "10.0.0.2" },
};

static struct rig *two_principals(const struct other_case *row)
{
	struct rig_options opt = { .allow = row->rules[0],
				   .allow_lun = { [RIG_RAM] = row->of_ram } };
	struct rig *rig = rig_create(&opt);
	struct error e;

	if (row->rules[1])
		assert_true(access_rules_add(&rig->target.port.allow,
					     row->rules[1], &e));
	return rig;
}

/* Logs in as initiator 1 from @addr; nobody may prevent that. */
static struct t_ini *login_from(struct rig *rig, const char *addr,
				enum srp_multichan multichan)
{
	t_fabric_come_from(rig->hub, addr);
	return rig_login(rig, 1, multichan);
}

static void expect_attention(struct t_ini *ch, enum scsi_asc code)
{
	uint16_t asc = 0;

	assert_int_equal(rig_clear_ua(ch, 0, &asc), 1);
	assert_int_equal(asc, code);
}

T_ROWS(login_of_another_principal_ends_no_nexus, other_cases)
{
	struct rig *rig = two_principals(*state);
	const char *addr = ((const struct other_case *)*state)->addr;
	struct t_ini *victim;

	victim = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	rig_expect_alive(victim);
	login_from(rig, addr, SRP_MULTICHAN_SINGLE);
	assert_false(victim->closed);
	rig_expect_alive(victim);
	rig_destroy(rig);
}

T_ROWS(login_of_another_principal_joins_no_nexus, other_cases)
{
	struct rig *rig = two_principals(*state);
	const char *addr = ((const struct other_case *)*state)->addr;
	struct t_ini *other;

	login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	other = login_from(rig, addr, SRP_MULTICHAN_MULTI);
	assert_int_equal(other->login_rsp.multichan, SRP_MULTICHAN_NO_CHAN);
	rig_destroy(rig);
}

T_ROWS(login_of_another_principal_keeps_nobody_out, other_cases)
{
	struct rig *rig = two_principals(*state);
	const char *addr = ((const struct other_case *)*state)->addr;
	struct t_ini *other;

	other = login_from(rig, addr, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE));
	assert_false(other->closed);
	rig_destroy(rig);
}

/* A nexus loss is told only to whom it happened. */
T_ROWS(login_of_another_principal_inherits_nothing, other_cases)
{
	struct rig *rig = two_principals(*state);
	const char *addr = ((const struct other_case *)*state)->addr;
	struct t_ini *ch;

	ch = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_POWER_ON);
	rig_chan_free(ch);
	ch = login_from(rig, addr, SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_POWER_ON);
	rig_chan_free(ch);
	ch = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_NEXUS_LOSS);
	rig_destroy(rig);
}

/* A host that comes back by another address of its network is the same. */
T_TEST(another_address_of_one_principal_replaces_the_nexus)
{
	struct rig_options opt = { .allow = "10.0.0.0/24" };
	struct rig *rig = rig_create(&opt);
	struct t_ini *old = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = login_from(rig, "10.0.0.2", SRP_MULTICHAN_SINGLE);

	assert_true(old->closed);
	rig_chan_free(ch);
	ch = login_from(rig, "10.0.0.3", SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_NEXUS_LOSS);
	rig_destroy(rig);
}

/* The rules change while it is away. */
T_TEST(who_sees_other_volumes_than_before_is_told)
{
	struct rig_options opt = { .allow_lun = { [RIG_RAM] = "10.0.0.1" } };
	struct rig *rig = rig_create(&opt);
	struct access_rules *rules = &rig->target.luns.vol[RIG_RAM]->allow;
	struct t_ini *ch;
	uint16_t asc = 0;

	ch = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_POWER_ON);
	rig_chan_free(ch);
	rules->rule[0].is_nobody = true;
	ch = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	assert_int_equal(rig_clear_ua(ch, 0, &asc), 2);
	assert_int_equal(asc, SCSI_ASC_REPORTED_LUNS_CHANGED);
	rig_chan_free(ch);
	ch = login_from(rig, "10.0.0.1", SRP_MULTICHAN_SINGLE);
	expect_attention(ch, SCSI_ASC_NEXUS_LOSS);
	rig_destroy(rig);
}

/* ---- a volume that does not exist ---- */

/* Initiator 1 sees only the disk, initiator 2 only the memory, both as LUN
 * 0. */
static struct rig *two_views(struct t_ini **ret_one, struct t_ini **ret_two)
{
	struct rig_options opt = {
		.allow_lun = { [RIG_DISK] = "10.0.0.1",
			       [RIG_RAM] = "10.0.0.2:lun=0" },
	};
	struct rig *rig = rig_create(&opt);

	t_fabric_come_from(rig->hub, "10.0.0.1");
	*ret_one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	*ret_two = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(*ret_one, 0, NULL);
	rig_clear_ua(*ret_two, 0, NULL);
	return rig;
}

/* Sends @cdb with @len bytes of data-in at the start of memory. */
static uint64_t ask(struct t_ini *ch, unsigned int lun, const uint8_t *cdb,
		    size_t cdb_len, uint32_t len)
{
	struct srp_desc desc = rig_desc(ch, 0, len);
	struct rig_cmd cmd = { .lun = lun };

	memcpy(cmd.cdb, cdb, cdb_len);
	memset(rig_of(ch)->mem, 0xee, len);
	if (len)
		cmd.in = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
						 .descs = &desc,
						 .desc_cnt = 1 };
	return rig_cmd(ch, &cmd);
}

static void expect_sense(const struct t_ini *ch, uint64_t tag,
			 enum scsi_key key, enum scsi_asc code)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);
	struct scsi_sense sense;

	assert_non_null(rsp);
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.key, key);
	assert_int_equal(sense.code, code);
}

T_TEST(report_luns_tells_only_what_is_allowed)
{
	const uint8_t cdb[12] = { 0xa0, [9] = 64 };
	struct t_ini *ch[2];
	struct rig *rig = two_views(&ch[0], &ch[1]);

	for (int i = 0; i < 2; i++) {
		rig_expect_status(ch[i], ask(ch[i], 0, cdb, 12, 64),
				  SCSI_STATUS_GOOD);
		assert_int_equal(wire_get32(rig->mem), 8);
		assert_int_equal(rig->mem[9], 0);
	}
	rig_destroy(rig);
}

T_TEST(inquiry_knows_no_hidden_volume)
{
	const uint8_t cdb[6] = { 0x12, [4] = 96 };
	const uint8_t vpd[6] = { 0x12, 1, 0x83, 0, 96 };
	struct t_ini *ch[2];
	struct rig *rig = two_views(&ch[0], &ch[1]);

	for (int i = 0; i < 2; i++) {
		rig_expect_status(ch[i], ask(ch[i], 1, cdb, 6, 96),
				  SCSI_STATUS_GOOD);
		assert_int_equal(rig->mem[0], 0x7f);
		expect_sense(ch[i], ask(ch[i], 1, vpd, 6, 96),
			     SCSI_KEY_ILLEGAL_REQUEST,
			     SCSI_ASC_LUN_NOT_SUPPORTED);
		rig_expect_status(ch[i], ask(ch[i], 0, vpd, 6, 96),
				  SCSI_STATUS_GOOD);
	}
	rig_destroy(rig);
}

/* READ, TEST UNIT READY, RESERVE, PERSISTENT RESERVE IN */
T_TEST(commands_reach_no_hidden_volume)
{
	static const uint8_t cdbs[][10] = {
		{ 0x28, [8] = 1 },
		{ 0x00 },
		{ 0x16 },
		{ 0x5e, [8] = 64 },
	};
	struct t_ini *ch[2];
	struct rig *rig = two_views(&ch[0], &ch[1]);

	for (size_t i = 0; i < ARRAY_SIZE(cdbs); i++) {
		uint64_t tag = ask(ch[1], 1, cdbs[i], 10, 0);

		expect_sense(ch[1], tag, SCSI_KEY_ILLEGAL_REQUEST,
			     SCSI_ASC_LUN_NOT_SUPPORTED);
	}
	rig_destroy(rig);
}

/* EXTENDED COPY names units by NAA, and an initiator can guess an NAA. */
static uint64_t extended_copy(struct t_ini *ch, const struct volume *from,
			      const struct volume *to)
{
	const struct volume *vols[] = { from, to };
	uint8_t *p = rig_of(ch)->mem;
	struct srp_desc desc = rig_desc(ch, 0, 16 + 2 * 32 + 28);
	struct rig_cmd cmd = { .cdb = { 0x83, [13] = 16 + 2 * 32 + 28 } };

	memset(p, 0, 16 + 2 * 32 + 28);
	p[0] = 1;
	p[3] = 2 * 32;
	p[11] = 28;
	for (int i = 0; i < 2; i++) {
		uint8_t *d = p + 16 + i * 32;

		d[0] = 0xe4;
		d[4] = 1;
		d[5] = 3;
		d[7] = SCSI_NAA_LEN;
		memcpy(d + 8, vols[i]->info.naa, SCSI_NAA_LEN);
		d[30] = RIG_BLOCK >> 8;
	}
	p += 16 + 2 * 32;
	p[0] = 2;
	p[3] = 0x18;
	p[7] = 1;
	p[11] = 1;
	cmd.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					  .descs = &desc,
					  .desc_cnt = 1 };
	return rig_cmd(ch, &cmd);
}

/* The answer is the same as for an identifier that no volume has. */
static void expect_unknown(struct t_ini *ch, const struct volume *from,
			   const struct volume *to)
{
	static struct volume nowhere = { .info.naa = { 0x30, 1, 2, 3 } };
	const struct srp_rsp *rsp;
	struct scsi_sense sense[2];

	rsp = t_ini_rsp(ch, extended_copy(ch, from, to));
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	scsi_sense_decode(rsp->sense, rsp->sense_len, &sense[0]);
	rsp = t_ini_rsp(ch, extended_copy(ch, &nowhere, &nowhere));
	scsi_sense_decode(rsp->sense, rsp->sense_len, &sense[1]);
	assert_int_equal(sense[0].key, sense[1].key);
	assert_int_equal(sense[0].code, sense[1].code);
}

/* A LUN that is kept for a volume which comes later. */
T_TEST(volume_that_is_not_here_yet_is_becoming_ready)
{
	const uint8_t test_unit_ready[6] = { 0 };
	struct volume *awaited = calloc(1, sizeof(*awaited));
	struct t_ini *ch[2];
	struct rig *rig;
	struct lun_map *luns;
	struct error e;

	rig = two_views(&ch[0], &ch[1]);
	rig_chan_free(ch[0]);
	rig_chan_free(ch[1]);
	luns = &rig->target.luns;
	assert_non_null(awaited);
	awaited->lun = 9;
	assert_true(access_rules_add(&awaited->allow, "10.0.0.1", &e));
	luns->awaited[luns->awaited_cnt++] = awaited;
	t_fabric_come_from(rig->hub, "10.0.0.1");
	ch[0] = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	ch[1] = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	expect_sense(ch[0], ask(ch[0], 9, test_unit_ready, 6, 0),
		     SCSI_KEY_NOT_READY, SCSI_ASC_BECOMING_READY);
	expect_sense(ch[0], ask(ch[0], 8, test_unit_ready, 6, 0),
		     SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LUN_NOT_SUPPORTED);
	expect_sense(ch[1], ask(ch[1], 9, test_unit_ready, 6, 0),
		     SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LUN_NOT_SUPPORTED);
	luns->awaited_cnt = 0;
	port_awaits_less(&rig->target.port);
	expect_sense(ch[0], ask(ch[0], 9, test_unit_ready, 6, 0),
		     SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_LUN_NOT_SUPPORTED);
	rig_destroy(rig);
	free(awaited);
}

T_TEST(extended_copy_finds_no_hidden_volume)
{
	struct t_ini *ch[2];
	struct rig *rig = two_views(&ch[0], &ch[1]);
	const struct volume *disk = rig->target.luns.vol[RIG_DISK];
	const struct volume *ram = rig->target.luns.vol[RIG_RAM];

	rig_expect_status(ch[0], extended_copy(ch[0], disk, disk),
			  SCSI_STATUS_GOOD);
	expect_unknown(ch[0], ram, disk);
	expect_unknown(ch[0], disk, ram);
	expect_unknown(ch[1], disk, ram);
	rig_destroy(rig);
}

T_TEST(functions_reach_no_hidden_volume)
{
	struct t_ini *ch[2];
	struct rig *rig = two_views(&ch[0], &ch[1]);
	struct rig_cmd w = rig_write(RIG_DISK, 7, 1);
	struct srp_desc desc = rig_desc(ch[0], 0, RIG_BLOCK);
	uint64_t tag;

	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	t_store.hold = true;
	tag = rig_cmd(ch[0], &w);
	/* LUN 0 of one initiator is not LUN 0 of the other. */
	rig_expect_code(ch[1], rig_tmf(ch[1], SRP_TSK_LUN_RESET, 0, 0),
			SRP_RSP_COMPLETE);
	rig_expect_code(ch[1], rig_tmf(ch[1], SRP_TSK_LUN_RESET, 1, 0),
			SRP_RSP_FIELDS_INVALID);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch[0], tag, SCSI_STATUS_GOOD);
	assert_int_equal(rig_clear_ua(ch[0], 0, NULL), 0);
	assert_int_equal(rig_clear_ua(ch[1], 0, NULL), 1);
	rig_destroy(rig);
}

/* One volume has two LUNs: a reset by one initiator ends the other's
 * commands. */
T_TEST(reset_reaches_a_volume_by_any_number)
{
	struct rig_options opt = {
		.allow_lun = { [RIG_DISK] = "10.0.0.1:lun=9" },
	};
	struct rig *rig = rig_create(&opt);
	struct rig_cmd w = rig_write(9, 7, 1);
	struct t_ini *one;
	struct t_ini *two;
	struct srp_desc desc;
	uint64_t tag;
	uint64_t tmf;
	struct error e;

	assert_true(access_rules_add(&rig->target.luns.vol[RIG_DISK]->allow,
				     "all", &e));
	t_fabric_come_from(rig->hub, "10.0.0.1");
	one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	two = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(one, 9, NULL);
	rig_clear_ua(two, 0, NULL);
	desc = rig_desc(one, 0, RIG_BLOCK);
	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	t_store.hold = true;
	tag = rig_cmd(one, &w);
	tmf = rig_tmf(two, SRP_TSK_LUN_RESET, 0, 0);
	rig_expect_code(two, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(one, tag, SCSI_STATUS_TASK_ABORTED);
	t_store.hold = false;
	rig_release(rig);
	rig_destroy(rig);
}

/* ---- read-only ---- */

T_TEST(read_only_is_per_initiator)
{
	const uint8_t sense6[6] = { 0x1a, [2] = 0x3f, [4] = 64 };
	struct rig_options opt = { .allow_lun = { "10.0.0.1:ro", "10.0.0.1" } };
	struct rig *rig = rig_create(&opt);
	const struct volume *disk = rig->target.luns.vol[RIG_DISK];
	const struct volume *ram = rig->target.luns.vol[RIG_RAM];
	struct rig_cmd w = rig_write(RIG_DISK, 7, 1);
	struct srp_desc desc;
	struct t_ini *one;
	struct t_ini *two;
	struct error e;

	assert_true(access_rules_add(&rig->target.luns.vol[RIG_DISK]->allow,
				     "10.0.0.2", &e));
	t_fabric_come_from(rig->hub, "10.0.0.1");
	one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	two = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(one);
	rig_clear_ua(two, 0, NULL);
	desc = rig_desc(one, 0, RIG_BLOCK);
	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	expect_sense(one, rig_cmd(one, &w), SCSI_KEY_DATA_PROTECT,
		     SCSI_ASC_WRITE_PROTECTED);
	rig_expect_status(two, rig_cmd(two, &w), SCSI_STATUS_GOOD);
	rig_expect_status(one, ask(one, 0, sense6, 6, 64), SCSI_STATUS_GOOD);
	assert_int_equal(rig->mem[2] & 0x80, 0x80);
	rig_expect_status(two, ask(two, 0, sense6, 6, 64), SCSI_STATUS_GOOD);
	assert_int_equal(rig->mem[2] & 0x80, 0);
	rig_expect_status(one, extended_copy(one, ram, disk),
			  SCSI_STATUS_CHECK_CONDITION);
	rig_destroy(rig);
}

/* Of rules and keys, the lesser right counts. */
T_TEST(read_only_is_a_right_of_a_key)
{
	struct rig_options opt = { .allow = "all", .keys = "a " KEY_1 " ro" };
	struct rig *rig = rig_create(&opt);
	struct rig_cmd w = rig_write(RIG_DISK, 7, 1);
	struct srp_desc desc;
	struct t_ini *ch;

	t_fabric_prove(rig->hub, "a");
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, 0, NULL);
	desc = rig_desc(ch, 0, RIG_BLOCK);
	w.out = (struct srp_data_args){ .format = SRP_DATA_DIRECT,
					.descs = &desc,
					.desc_cnt = 1 };
	expect_sense(ch, rig_cmd(ch, &w), SCSI_KEY_DATA_PROTECT,
		     SCSI_ASC_WRITE_PROTECTED);
	rig_destroy(rig);
}
