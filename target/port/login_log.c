/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/login_log.h"

#include <arpa/inet.h>
#include <string.h>

void login_log_init(struct login_log *l)
{
	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
}

static void login_log_tell(const struct in6_addr *addr, unsigned int dropped)
{
	bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(addr);
	char text[INET6_ADDRSTRLEN];

	if (!dropped)
		return;
	inet_ntop(is_ipv4 ? AF_INET : AF_INET6,
		  addr->s6_addr + (is_ipv4 ? 12 : 0), text, sizeof(text));
	log_notice("%u more logins and logouts from %s left out", dropped,
		   text);
}

void login_log_fini(struct login_log *l)
{
	for (unsigned int i = 0; i < l->cnt; i++)
		login_log_tell(&l->hosts[i].addr, l->hosts[i].limit.dropped);
	if (l->all.dropped)
		log_notice("%u more logins and logouts left out",
			   l->all.dropped);
	pthread_mutex_destroy(&l->lock);
}

static bool is_of(const struct login_log_host *host,
		  const struct in6_addr *addr)
{
	return !memcmp(&host->addr, addr, sizeof(*addr));
}

/* Finds a place for a host that has none. */
static struct login_log_host *login_log_make_room(struct login_log *l)
{
	struct login_log_host *oldest = &l->hosts[0];

	if (l->cnt < LOGIN_LOG_HOSTS)
		return &l->hosts[l->cnt++];
	for (unsigned int i = 1; i < LOGIN_LOG_HOSTS; i++) {
		if (l->hosts[i].used_at < oldest->used_at)
			oldest = &l->hosts[i];
	}
	login_log_tell(&oldest->addr, oldest->limit.dropped);
	return oldest;
}

static struct login_log_host *find_or_make(struct login_log *l,
					   const struct in6_addr *addr)
{
	struct login_log_host *host;

	for (unsigned int i = 0; i < l->cnt; i++) {
		if (is_of(&l->hosts[i], addr))
			return &l->hosts[i];
	}
	host = login_log_make_room(l);
	*host = (struct login_log_host){ .addr = *addr };
	return host;
}

static bool pass(struct login_log *l, const struct in6_addr *addr)
{
	struct login_log_host *host = find_or_make(l, addr);
	unsigned int dropped;

	host->used_at = ++l->uses;
	if (!log_limit_pass(&host->limit, LOGIN_LOG_BURST, &dropped))
		return false;
	login_log_tell(addr, dropped);
	if (!log_limit_pass(&l->all, LOGIN_LOG_ALL_BURST, &dropped))
		return false;
	if (dropped)
		log_notice("%u more logins and logouts left out", dropped);
	return true;
}

bool login_log_pass(struct login_log *l, const struct in6_addr *addr)
{
	bool may;

	pthread_mutex_lock(&l->lock);
	may = pass(l, addr);
	pthread_mutex_unlock(&l->lock);
	return may;
}
