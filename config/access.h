/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access rules: which initiators may see which volume, how, and under which
 * LUN. A rule names initiators by the name that they have proved with a key (key_file.h), by
 * their port identifier, which they choose themselves, or by their address:
 *
 *	WHO[:ro][:lun=N]
 *	WHO: name:NAME, name:* (every name), 0x... (32 digits), 10.0.0.1, 10.0.0.0/24,
 *	     [fe80::1], [fd00::]/8, all, none
 *
 * A volume follows its own rules (,allow=), or those of the target (--allow) if
 * it has none. The first rule that fits counts; one that never counts, and would do
 * something else, is refused. Who fits no rule may not see the
 * volume: only the word "all" lets everybody in, and no network has all of IPv4. A volume that is not allowed
 * does not exist for the initiator. On a target with keys, only rules by address fit who
 * has proved no name. Thread: any; rules are constant after the start.
 *
 * The principal is what proves who an initiator is. A port identifier proves nothing,
 * because peers choose it. A name that was proved is the principal, whichever rule fits.
 * Without one, the principal on a volume is the WHO of the rule that fits: not the bare
 * address, so an initiator is the same by each address of one network, and not the
 * options, which may change. "all" is one principal. So is each port identifier that a
 * rule names, and it proves no more than the identifier does. See docs/security.md.
 */
#ifndef CONFIG_ACCESS_H
#define CONFIG_ACCESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/key_file.h"
#include "protocol/srp_login.h"

#define ACCESS_RULES_MAX 16

/* What begins the WHO of a rule by name. */
#define ACCESS_BY_NAME "name:"

/* The rule of a target that is given none, and the one that an empty list stands for. */
#define ACCESS_DEFAULT "all"
#define ACCESS_NOBODY  "none"

struct access_rule {
	bool is_nobody; /* it fits no initiator */
	bool by_name;
	char name[KEY_NAME_SIZE]; /* "": every name */
	bool by_port;
	struct srp_port_id port;
	struct in6_addr net; /* IPv4: as a mapped address */
	unsigned int prefix; /* bits of net that count; 0: all initiators */
	uint64_t principal; /* a digest of WHO: the same for the same initiators.
			     * Not of those that have proved a name */
	bool read_only;
	int lun; /* -1: the LUN of the volume */
};

struct access_rules {
	struct access_rule rule[ACCESS_RULES_MAX];
	unsigned int cnt;
};

/* The names that keys can prove. */
struct access_names {
	bool demanded; /* the target has keys, maybe none by now */
	unsigned int cnt;
	struct access_name {
		char name[KEY_NAME_SIZE];
		char print[KEY_PRINT_SIZE];
		bool read_only;
		uint64_t principal;
	} name[KEYS_MAX]; /* of each key: a name may be there twice */
};

/* Who asks. */
struct access_who {
	struct srp_port_id port; /* its own choice */
	struct in6_addr addr;
	char name[KEY_NAME_SIZE]; /* that it has proved; "": none */
	bool read_only;		  /* its key says so */
	bool must_prove;	  /* the target has keys */
};

/* Copies what is no secret. */
void access_names_take(struct access_names *names, const struct key_file *keys);
/* The entry of a key of @name. NULL: it has none. */
const struct access_name *access_names_find(const struct access_names *names,
					    const char *name);

/* Adds the rule @text. False: the rule is wrong, and @e has one clause. */
bool access_rules_add(struct access_rules *rules, const char *text,
		      struct error *e);

/* The first rule that fits @who. NULL: none. */
const struct access_rule *access_rules_find(const struct access_rules *rules,
					    const struct access_who *who);

/* The principal of @who, whom @rule fits. */
uint64_t access_principal(const struct access_rule *rule,
			  const struct access_who *who);

/* The principal of that initiator. 0: no rule fits. */
uint64_t access_rules_principal(const struct access_rules *rules,
				const struct access_who *who);

/* True if somebody can have that principal: by a rule, or by a key. */
bool access_rules_name(const struct access_rules *rules,
		       const struct access_names *names, uint64_t principal);

/* Do both have the same address, and the same name, if any? Then the same rules fit them if
 * they have one port identifier. */
bool access_who_same(const struct access_who *a, const struct access_who *b);

/* What the host with @addr cannot choose of it: all of IPv4, the first 64 bits of IPv6. */
uint64_t access_host(const struct in6_addr *addr);

/* An address in the form of rules; all zero for other families. */
struct in6_addr access_addr(const struct sockaddr_storage *addr);

#endif
