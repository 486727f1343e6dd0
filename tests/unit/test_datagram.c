/* SPDX-License-Identifier: BSD-2-Clause */
/* Carriers of datagrams: whose a datagram is, and what is none. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"
#include "transport/datagram.h"
#include "transport/verbs/grh.h"

static const struct source_row {
	const char *name;
	const char *header, *gid; /* hex */
} source_rows[] = {
	{ "GRH of InfiniBand",
	  "60 00 00 00 00 6c 1b 01 fe 80 00 00 00 00 00 00 00 02 c9 03 00 1a "
	  "2b 3c ff 12 60 1b ff ff 00 00 00 00 00 00 00 00 00 01",
	  "fe 80 00 00 00 00 00 00 00 02 c9 03 00 1a 2b 3c" },
	{ "IPv6, whose address looks like a header of IPv4",
	  "60 00 00 00 00 6c 11 40 20 01 0d b8 00 00 00 00 00 00 00 00 45 00 "
	  "00 01 ff 12 00 00 00 00 00 00 00 00 00 00 00 00 50 44",
	  "20 01 0d b8 00 00 00 00 00 00 00 00 45 00 00 01" },
	{ "IPv4",
	  "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 45 00 "
	  "00 8c 00 00 40 00 40 11 00 00 0a 01 00 02 ef ff 53 52",
	  "00 00 00 00 00 00 00 00 00 00 ff ff 0a 01 00 02" },
};

T_ROWS(header_tells_the_source, source_rows)
{
	const struct source_row *row = *state;
	size_t len, gid_len;
	uint8_t *header = t_hex(row->header, &len);
	uint8_t *want = t_hex(row->gid, &gid_len);
	uint8_t gid[GRH_GID_LEN];

	assert_int_equal(len, GRH_LEN);
	assert_int_equal(gid_len, GRH_GID_LEN);
	grh_source(header, gid);
	assert_memory_equal(gid, want, GRH_GID_LEN);
	free(header);
	free(want);
}

/* ---- UDP ---- */

static struct dgram *udp;
static int sender;

static void await_datagram(void)
{
	struct pollfd p = { .fd = udp->fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, -1), 1);
}

static void open_pair(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(dgram_open_unicast((struct sockaddr *)&at, sizeof(at),
					    &udp, NULL),
			 0);
	assert_int_equal(getsockname(udp->fd, (struct sockaddr *)&at, &len), 0);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sender, (struct sockaddr *)&at, len), 0);
}

T_TEST(datagram_is_its_hosts)
{
	const uint8_t want[DGRAM_HOST_LEN] = {
		[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1
	};
	struct dgram_peer peer;
	char buf[8];

	open_pair();
	assert_int_equal(send(sender, "hello", 5, 0), 5);
	await_datagram();
	assert_int_equal(dgram_receive(udp, buf, sizeof(buf), &peer), 5);
	assert_memory_equal(peer.host, want, sizeof(want));
	dgram_close(udp);
	close(sender);
}

/* Nobody may take it for the end of what there is. */
T_TEST(empty_datagram_is_an_error)
{
	struct dgram_peer peer;
	char buf[8];

	open_pair();
	assert_int_equal(send(sender, "", 0, 0), 0);
	await_datagram();
	assert_int_equal(dgram_receive(udp, buf, sizeof(buf), &peer), -ENOMSG);
	assert_int_equal(dgram_receive(udp, buf, sizeof(buf), &peer), 0);
	assert_int_equal(send(sender, "too long", 9, 0), 9);
	await_datagram();
	assert_int_equal(dgram_receive(udp, buf, sizeof(buf), &peer),
			 -EMSGSIZE);
	dgram_close(udp);
	close(sender);
}
