/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the logins of each address, so that one initiator cannot take all
 * logins of the target. Thread: worker 0.
 */
#ifndef TARGET_PORT_LOGIN_QUOTA_H
#define TARGET_PORT_LOGIN_QUOTA_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/list.h"

struct login_quota {
	struct list node; /* port->quotas */
	struct in6_addr addr;
	unsigned int login_cnt;	    /* channels and waiting logins */
	unsigned int half_open_cnt; /* those that are not yet established */
};

/* NULL: @quotas has no entry for that address. */
struct login_quota *login_quota_find(struct list *quotas,
				     const struct in6_addr *addr);

/* Counts a login. It is half open at first. NULL: no memory. */
struct login_quota *login_quota_take(struct list *quotas,
				     const struct in6_addr *addr);
/* One of its logins is established. */
void login_quota_opened(struct login_quota *quota);
/* One of its logins has ended. Frees @quota after the last one. */
void login_quota_put(struct login_quota *quota, bool was_half_open);

#endif
