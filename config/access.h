/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access rules: which initiators may see which volume, how, and under which
 * LUN. A rule names initiators by their port identifier, which they choose
 * themselves, or by their address:
 *
 *	WHO[:ro][:lun=N]
 *	WHO: 0x... (32 digits), 10.0.0.1, 10.0.0.0/24, [fe80::1], [fd00::]/8,
 *	     all, none
 *
 * A volume follows its own rules (,allow=), or those of the target (--allow) if
 * it has none. The first rule that fits counts; one that never counts, and would do
 * something else, is refused. Who fits no rule may not see the
 * volume: only the word "all" lets everybody in, and no network has all of IPv4. A volume that is not allowed
 * does not exist for the initiator. Thread: any; rules are constant after the
 * start.
 *
 * The principal is what proves who an initiator is. A port identifier proves nothing,
 * because peers choose it. As long as nothing is authenticated, the principal on a volume
 * is the WHO of the rule that fits: not the bare address, so an initiator is
 * the same by each address of one network, and not the options, which may change. "all" is
 * one principal. So is each port identifier that a rule names, and it proves no more than
 * the identifier does. See docs/security.md.
 */
#ifndef CONFIG_ACCESS_H
#define CONFIG_ACCESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "protocol/srp_login.h"

#define ACCESS_RULES_MAX 16

/* The rule of a target that is given none, and the one that an empty list stands for. */
#define ACCESS_DEFAULT "all"
#define ACCESS_NOBODY  "none"

struct access_rule {
	bool is_nobody; /* it fits no initiator */
	bool by_port;
	struct srp_port_id port;
	struct in6_addr net; /* IPv4: as a mapped address */
	unsigned int prefix; /* bits of net that count; 0: all initiators */
	uint64_t principal; /* a digest of WHO: the same for the same initiators */
	bool read_only;
	int lun; /* -1: the LUN of the volume */
};

struct access_rules {
	struct access_rule rule[ACCESS_RULES_MAX];
	unsigned int cnt;
};

/* Adds the rule @text. False: the rule is wrong, and @e has one clause. */
bool access_rules_add(struct access_rules *rules, const char *text,
		      struct error *e);

/* The first rule that fits the initiator port @port at @addr. NULL: none. */
const struct access_rule *access_rules_find(const struct access_rules *rules,
					    const struct srp_port_id *port,
					    const struct in6_addr *addr);

/* The principal of that initiator. 0: no rule fits. */
uint64_t access_rules_principal(const struct access_rules *rules,
				const struct srp_port_id *port,
				const struct in6_addr *addr);

/* True if a rule names that principal. */
bool access_rules_name(const struct access_rules *rules, uint64_t principal);

/* What the host with @addr cannot choose of it: all of IPv4, the first 64 bits of IPv6. */
uint64_t access_host(const struct in6_addr *addr);

/* An address in the form of rules; all zero for other families. */
struct in6_addr access_addr(const struct sockaddr_storage *addr);

#endif
