/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may see which volume, how, and under which number. A rule names
 * initiators by their port identifier, which they choose themselves, or by the
 * address that they come from:
 *
 *	WHO[:ro][:lun=N]
 *	WHO: 0x... (32 digits), 10.0.0.1, 10.0.0.0/24, [fe80::1], [fd00::]/8, all
 *
 * A volume follows its own rules (,allow=), or those of the target (--allow)
 * when it has none; the first that fits counts. Without any rule everybody may
 * see it. A volume that is not allowed does not exist for that initiator.
 * Thread: any; rules are constant after start.
 */
#ifndef TARGET_SCSI_ACCESS_H
#define TARGET_SCSI_ACCESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "protocol/srp_login.h"

#define ACCESS_RULES_MAX 16

struct access_rule {
	bool by_port;
	struct srp_port_id port;
	struct in6_addr net; /* IPv4: mapped */
	unsigned int prefix; /* bits of net that count; 0: all initiators */
	bool read_only;
	int lun; /* -1: the volume's own number */
};

struct access_rules {
	struct access_rule rule[ACCESS_RULES_MAX];
	unsigned int cnt;
};

/* Adds the rule @text; false with one clause in @e when it is bad. */
bool access_rules_add(struct access_rules *rules, const char *text,
		      struct error *e);

/* The first that fits who comes as @port from @addr; NULL: none. */
const struct access_rule *access_rules_find(const struct access_rules *rules,
					    const struct srp_port_id *port,
					    const struct in6_addr *addr);

/* An address as rules have it; all zero for other families. */
struct in6_addr access_addr(const struct sockaddr_storage *addr);

#endif
