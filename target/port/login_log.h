/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many lines logins and logouts may write: an initiator that comes and goes
 * all the time must not fill the log, nor hide what others do. So many lines in
 * ten seconds for each host, and for all together; what is left out is counted,
 * and told with the next line of that host, when its place in the table goes to
 * another host, and in the end.
 *
 * Thread: any.
 */
#ifndef TARGET_PORT_LOGIN_LOG_H
#define TARGET_PORT_LOGIN_LOG_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* Lines in ten seconds. A host with 64 channels may log in at once. */
#define LOGIN_LOG_BURST	    100
#define LOGIN_LOG_ALL_BURST 1000
/* Hosts that are told apart; of more, those that were silent longest go. */
#define LOGIN_LOG_HOSTS 64

struct login_log {
	pthread_mutex_t lock; /* guards the rest */
	struct login_log_host {
		struct in6_addr addr;
		uint64_t used_at; /* login_log.uses when it was used last */
		struct log_limit limit;
	} hosts[LOGIN_LOG_HOSTS];
	unsigned int cnt;
	uint64_t uses;
	struct log_limit all;
};

void login_log_init(struct login_log *l);
/* Tells what was left out. */
void login_log_fini(struct login_log *l);

/* May a line about a login or logout from @addr be written? If so, those that
 * were left out before it are told. */
bool login_log_pass(struct login_log *l, const struct in6_addr *addr);

#endif
