/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits the lines that logins and logouts may log. An initiator that logs in
 * and out all the time must neither fill the log nor hide what others do. Each
 * host, and all hosts together, may write this many lines in ten seconds. The
 * others are counted. Their number is logged with the next line of that host,
 * when its place in the table goes to another host, and at the end.
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
/* Hosts with a limit of their own. A further host replaces the one that was
 * silent for longest. */
#define LOGIN_LOG_HOSTS 64

struct login_log {
	pthread_mutex_t lock; /* guards the rest */
	struct login_log_host {
		struct in6_addr addr;
		uint64_t used_at; /* value of login_log.uses at the last use */
		struct log_limit limit;
	} hosts[LOGIN_LOG_HOSTS];
	unsigned int cnt;
	uint64_t uses;
	struct log_limit all;
};

void login_log_init(struct login_log *l);
/* Logs how many lines were left out. */
void login_log_fini(struct login_log *l);

/* May a line about a login or logout from @addr be logged? If so, this logs how
 * many lines were left out before it. */
bool login_log_pass(struct login_log *l, const struct in6_addr *addr);

#endif
