/* SPDX-License-Identifier: BSD-2-Clause */
/* The carriers of datagrams that are UDP, on the loopback interface. */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>

#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "transport/datagram.h"

#define HELLO "hello, this is test_datagram"

static struct dgram *open_at(const char *addr)
{
	struct sockaddr_in sin = t_addr_parse(addr);
	struct dgram *d;
	struct error e;

	assert_int_equal(dgram_open_unicast((struct sockaddr *)&sin,
					    sizeof(sin), &d, &e),
			 0);
	return d;
}

static struct dgram_peer peer_at(const char *addr)
{
	struct sockaddr_in sin = t_addr_parse(addr);
	struct dgram_peer peer = { .addr_len = sizeof(sin) };

	memcpy(&peer.addr, &sin, sizeof(sin));
	return peer;
}

/* Waits for @text: others of this machine may send to a group, too. */
static struct dgram_peer await_text(struct dgram *d, const char *text)
{
	struct pollfd fd = { .fd = d->fd, .events = POLLIN };
	struct dgram_peer peer;
	char buf[2048];
	int len;

	do {
		assert_int_equal(poll(&fd, 1, -1), 1);
		len = dgram_receive(d, buf, sizeof(buf), &peer);
	} while (len != (int)strlen(text) || memcmp(buf, text, (size_t)len));
	return peer;
}

/* ---- unicast ---- */

T_TEST(answer_goes_where_the_question_came_from)
{
	char a_addr[32];
	char b_addr[32];
	struct dgram *a;
	struct dgram *b;
	struct dgram_peer peer;
	char buf[64];

	t_addr_next(a_addr, sizeof(a_addr));
	t_addr_next(b_addr, sizeof(b_addr));
	a = open_at(a_addr);
	b = open_at(b_addr);
	assert_int_equal(dgram_receive(b, buf, sizeof(buf), &peer), 0);
	peer = peer_at(b_addr);
	assert_int_equal(dgram_send(a, &peer, HELLO, strlen(HELLO)), 0);
	peer = await_text(b, HELLO);
	assert_int_equal(dgram_send(b, &peer, "and back", 8), 0);
	await_text(a, "and back");
	dgram_close(a);
	dgram_close(b);
}

static const struct wildcard_row {
	const char *name;
	sa_family_t family;
} wildcard_rows[] = {
	{ "wildcard of IPv4", AF_INET },
	{ "wildcard of IPv6", AF_INET6 },
};

/* A machine has several addresses, and a firewall on the way knows the one that was
 * asked. */
T_ROWS(answer_leaves_from_where_the_question_came_to, wildcard_rows)
{
	const struct wildcard_row *row = *state;
	struct sockaddr_storage any = { .ss_family = row->family };
	struct sockaddr_in *sin = (struct sockaddr_in *)&any;
	socklen_t len = sizeof(any);
	struct dgram_peer peer, want;
	char addr[32];
	struct dgram *d;
	struct dgram *asker;
	struct error e;

	if (dgram_open_unicast((struct sockaddr *)&any,
			       row->family == AF_INET6
				       ? sizeof(struct sockaddr_in6)
				       : sizeof(struct sockaddr_in),
			       &d, &e))
		T_SKIP("no IPv6");
	assert_int_equal(getsockname(d->fd, (struct sockaddr *)&any, &len), 0);
	t_addr_next(addr, sizeof(addr));
	asker = open_at(addr);
	snprintf(addr, sizeof(addr), "127.0.0.77:%u", ntohs(sin->sin_port));
	want = peer_at(addr);
	assert_int_equal(dgram_send(asker, &want, HELLO, strlen(HELLO)), 0);
	peer = await_text(d, HELLO);
	assert_int_equal(dgram_send(d, &peer, "and back", 8), 0);
	peer = await_text(asker, "and back");
	assert_memory_equal(&peer.addr, &want.addr, want.addr_len);
	/* An address that is no more does not keep the answer back. */
	assert_int_equal(dgram_send(asker, &want, HELLO, strlen(HELLO)), 0);
	peer = await_text(d, HELLO);
	memcpy(&peer.local[12], "\xc0\x00\x02\x63", 4);
	assert_int_equal(dgram_send(d, &peer, "and back", 8), 0);
	await_text(asker, "and back");
	dgram_close(asker);
	dgram_close(d);
}

T_TEST(datagram_that_is_too_long_is_told)
{
	char addr[32];
	struct dgram *d;
	struct dgram_peer peer;
	struct pollfd fd = { .events = POLLIN };
	char buf[8];

	t_addr_next(addr, sizeof(addr));
	d = open_at(addr);
	peer = peer_at(addr);
	assert_int_equal(dgram_send(d, &peer, HELLO, strlen(HELLO)), 0);
	fd.fd = d->fd;
	assert_int_equal(poll(&fd, 1, -1), 1);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), -EMSGSIZE);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer), 0);
	peer = peer_at(addr);
	assert_int_equal(dgram_send(d, &peer, HELLO, sizeof(buf)), 0);
	assert_int_equal(poll(&fd, 1, -1), 1);
	assert_int_equal(dgram_receive(d, buf, sizeof(buf), &peer),
			 sizeof(buf));
	dgram_close(d);
}

T_TEST(unicast_has_no_group)
{
	char addr[32];
	struct dgram *d;

	t_addr_next(addr, sizeof(addr));
	d = open_at(addr);
	assert_int_equal(dgram_send(d, NULL, HELLO, strlen(HELLO)),
			 -EDESTADDRREQ);
	dgram_close(d);
	dgram_close(NULL);
}

T_TEST(address_in_use_is_named)
{
	char addr[32];
	char want[80];
	struct dgram *d;
	struct dgram *other;
	struct sockaddr_in sin;
	struct error e;

	t_addr_next(addr, sizeof(addr));
	d = open_at(addr);
	sin = t_addr_parse(addr);
	assert_int_equal(dgram_open_unicast((struct sockaddr *)&sin,
					    sizeof(sin), &other, &e),
			 -EADDRINUSE);
	snprintf(want, sizeof(want),
		 "cannot use UDP at %s: Address already in use", addr);
	assert_string_equal(e.text, want);
	dgram_close(d);
}

T_TEST(wildcard_of_ipv6_hears_ipv4)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(any);
	char addr[32];
	struct dgram *d;
	struct dgram *sender;
	struct dgram_peer peer;
	struct error e;

	if (dgram_open_unicast((struct sockaddr *)&any, sizeof(any), &d, &e))
		T_SKIP("no IPv6");
	assert_int_equal(getsockname(d->fd, (struct sockaddr *)&any, &len), 0);
	t_addr_next(addr, sizeof(addr));
	sender = open_at(addr);
	snprintf(addr, sizeof(addr), "127.0.0.1:%u", ntohs(any.sin6_port));
	peer = peer_at(addr);
	assert_int_equal(dgram_send(sender, &peer, HELLO, strlen(HELLO)), 0);
	await_text(d, HELLO);
	dgram_close(sender);
	dgram_close(d);
}

/* ---- multicast ---- */

static const struct family {
	const char *name;
	int family;
} families[] = {
	{ "IPv4", AF_INET },
	{ "IPv6", AF_INET6 },
};

T_ROWS(member_hears_who_asks_and_answers, families)
{
	const struct family *f = *state;
	unsigned int lo = if_nametoindex("lo");
	struct dgram *member;
	struct dgram *asker;
	struct dgram_peer peer;
	struct error e;
	int err;

	if (dgram_open_multicast(f->family, lo, /* asks= */ false, &member, &e))
		T_SKIP("no such group");
	assert_int_equal(dgram_open_multicast(f->family, lo, /* asks= */ true,
					      &asker, &e),
			 0);
	err = dgram_send(asker, NULL, HELLO, strlen(HELLO));
	if (!err) {
		peer = await_text(member, HELLO);
		assert_int_equal(peer.addr.ss_family, f->family);
		assert_int_equal(dgram_send(member, &peer, "here", 4), 0);
		await_text(asker, "here");
	}
	dgram_close(asker);
	dgram_close(member);
	if (err)
		T_SKIP("no way to the group");
}

T_ROWS(interface_that_is_not_there_is_named, families)
{
	const struct family *f = *state;
	char want[80];
	struct dgram *d;
	struct error e;

	assert_int_not_equal(dgram_open_multicast(f->family, 999999,
						  /* asks= */ false, &d, &e),
			     0);
	snprintf(want, sizeof(want),
		 "cannot use multicast of %s on interface 999999: ", f->name);
	assert_memory_equal(e.text, want, strlen(want));
}

T_TEST(carriers_have_names)
{
	assert_string_equal(dgram_carrier_name(DGRAM_UNICAST), "unicast");
	assert_string_equal(dgram_carrier_name(DGRAM_MULTICAST), "multicast");
	assert_string_equal(dgram_carrier_name(DGRAM_RDMA), "RDMA multicast");
}
