/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the logins of each host and of each principal (access.h), so that none of them
 * can take all logins of the target. Thread: worker 0.
 */
#ifndef TARGET_PORT_LOGIN_QUOTA_H
#define TARGET_PORT_LOGIN_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum login_whose {
	LOGIN_OF_HOST,	    /* id: access_host() */
	LOGIN_OF_PRINCIPAL, /* id: lun_map_principal(); 0: there is only one */
	LOGIN_WHOSE
};

struct login_quota {
	struct list node; /* port->quotas */
	enum login_whose whose;
	uint64_t id;
	unsigned int login_cnt;	    /* channels and waiting logins */
	unsigned int half_open_cnt; /* those that are not yet established */
};

/* Those in which one login counts. */
struct login_quotas {
	struct login_quota *of[LOGIN_WHOSE];
};

/* NULL: @quotas has no entry for @id. */
struct login_quota *login_quota_find(struct list *quotas,
				     enum login_whose whose, uint64_t id);

/* Counts a login. It is half open at first. False: no memory. */
bool login_quotas_take(struct list *quotas, const uint64_t id[LOGIN_WHOSE],
		       struct login_quotas *ret);
/* The login is established. */
void login_quotas_opened(const struct login_quotas *quotas);
/* The login has ended. */
void login_quotas_put(const struct login_quotas *quotas, bool was_half_open);

#endif
