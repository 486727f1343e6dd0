/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/login_log.h"

#include <string.h>

#include "tests/lib/t_table.h"

#define WINDOW_MS 10000

/* "left out" lines would only clutter the output here. */
static void begin(struct login_log *l)
{
	log_level = LOG_ERROR;
	login_log_init(l);
}

static struct in6_addr host(unsigned int n)
{
	struct in6_addr addr = { .s6_addr = { 0xfd } };

	addr.s6_addr[14] = (uint8_t)(n >> 8);
	addr.s6_addr[15] = (uint8_t)n;
	return addr;
}

static unsigned int pass_cnt(struct login_log *l, unsigned int n,
			     unsigned int lines)
{
	struct in6_addr addr = host(n);
	unsigned int cnt = 0;

	while (lines--)
		cnt += login_log_pass(l, &addr);
	return cnt;
}

T_TEST(each_host_has_its_own_burst)
{
	struct login_log l;

	begin(&l);
	assert_int_equal(pass_cnt(&l, 1, LOGIN_LOG_BURST + 7), LOGIN_LOG_BURST);
	assert_int_equal(pass_cnt(&l, 2, 3), 3);
	assert_int_equal(pass_cnt(&l, 1, 1), 0);
	assert_int_equal(l.hosts[0].limit.dropped, 8);
	l.hosts[0].limit.window_start_ms -= WINDOW_MS;
	assert_int_equal(pass_cnt(&l, 1, 1), 1);
	assert_int_equal(l.hosts[0].limit.dropped, 0);
	login_log_fini(&l);
}

/* Initiators that use a new address for each login share one limit. */
T_TEST(many_hosts_together_have_a_burst)
{
	unsigned int cnt = 0;
	struct login_log l;

	begin(&l);
	for (unsigned int i = 0; i < 2 * LOGIN_LOG_ALL_BURST; i++)
		cnt += pass_cnt(&l, i, 1);
	assert_int_equal(cnt, LOGIN_LOG_ALL_BURST);
	assert_int_equal(l.all.dropped, LOGIN_LOG_ALL_BURST);
	assert_int_equal(l.cnt, LOGIN_LOG_HOSTS);
	login_log_fini(&l);
}

T_TEST(the_host_that_was_silent_longest_makes_room)
{
	struct in6_addr newest = host(LOGIN_LOG_HOSTS);
	struct login_log l;

	begin(&l);
	for (unsigned int i = 0; i < LOGIN_LOG_HOSTS; i++)
		pass_cnt(&l, i, 1);
	pass_cnt(&l, 0, 1);
	pass_cnt(&l, LOGIN_LOG_HOSTS, 1);
	assert_memory_equal(&l.hosts[1].addr, &newest, sizeof(newest));
	assert_int_equal(l.hosts[0].limit.cnt, 2);
	login_log_fini(&l);
}
