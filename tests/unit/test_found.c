/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of the addresses in an announcement, by where it came from. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "discover/found.h"
#include "tests/lib/t_table.h"

static const struct address_row {
	const char *name;
	const char *uri;
	const char *peer; /* NULL: the carrier does not tell */
	const char *link; /* of the peer; NULL: none */
	const char *text; /* NULL: it is left out */
} address_rows[] = {
	{ "an address stays as it is", "srp+tcp://10.0.0.1:5555", "10.0.0.2",
	  NULL, "srp+tcp://10.0.0.1:5555" },
	{ "a wildcard is the peer", "srp+tcp://0.0.0.0:5556", "10.0.0.2", NULL,
	  "srp+tcp://10.0.0.2:5556" },
	{ "a wildcard of an unknown peer", "srp+rdma://0.0.0.0", NULL, NULL,
	  NULL },
	{ "a link-local address is on the link of the peer",
	  "srp+tcp://[fe80::1]:5555", "fe80::2", "lo",
	  "srp+tcp://[fe80::1%lo]:5555" },
	{ "the link that the sender names is its own",
	  "srp+tcp://[fe80::1%nosuch0]:5555", "fe80::2", "lo",
	  "srp+tcp://[fe80::1%lo]:5555" },
	{ "a link-local address, by a router", "srp+tcp://[fe80::1]:5555",
	  "2001:db8::2", NULL, NULL },
	{ "a link-local address, by IPv4", "srp+tcp://[fe80::1]:5555",
	  "10.0.0.2", NULL, NULL },
	{ "a link-local address of an unknown peer", "srp+rdma://[fe80::1]",
	  NULL, NULL, NULL },
	{ "the keys of a URI are the reader's", "srp+rdma://10.0.0.1?sl=3",
	  "10.0.0.2", NULL, "srp+rdma://10.0.0.1:5555" },
};

static struct dgram_peer peer_of(const struct address_row *r)
{
	struct dgram_peer peer = { .addr_len = sizeof(struct sockaddr_in6) };
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&peer.addr;
	struct sockaddr_in *sin = (struct sockaddr_in *)&peer.addr;

	if (!r->peer)
		return peer;
	if (inet_pton(AF_INET, r->peer, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		peer.addr_len = sizeof(*sin);
		return peer;
	}
	assert_int_equal(inet_pton(AF_INET6, r->peer, &sin6->sin6_addr), 1);
	sin6->sin6_family = AF_INET6;
	sin6->sin6_scope_id = r->link ? if_nametoindex(r->link) : 0;
	return peer;
}

T_ROWS(address, address_rows)
{
	const struct address_row *r = *state;
	struct discovery_msg msg = { .kind = DISCOVERY_ANNOUNCE };
	struct dgram_peer peer = peer_of(r);
	struct found f = { .cnt = 0 };

	assert_true(discovery_add_uri(&msg, r->uri));
	assert_int_equal(found_add(&f, &msg, &peer, DGRAM_UNICAST),
			 r->text != NULL);
	assert_int_equal(f.cnt, r->text ? 1 : 0);
	if (r->text)
		assert_string_equal(f.targets[0]->addresses[0].text, r->text);
	found_clear(&f);
}

/* Each target answers several questions. */
T_TEST(more_targets_than_places_are_counted)
{
	struct discovery_msg msg = { .kind = DISCOVERY_ANNOUNCE };
	const struct dgram_peer nobody = { .addr_len = 0 };
	static struct found f;

	assert_true(discovery_add_uri(&msg, "srp+tcp://10.0.0.1:5555"));
	for (unsigned int i = 0; i < 3 * (FOUND_MAX + 3); i++) {
		unsigned int n = i % (FOUND_MAX + 3);

		msg.id = srp_port_id_make(1, n);
		assert_int_equal(found_add(&f, &msg, &nobody, DGRAM_MULTICAST),
				 n < FOUND_MAX);
	}
	assert_int_equal(f.cnt, FOUND_MAX);
	assert_int_equal(f.more_cnt, 3);
	for (unsigned int n = 0; n < FOUND_MAX + 2 * FOUND_MORE; n++) {
		msg.id = srp_port_id_make(1, n);
		found_add(&f, &msg, &nobody, DGRAM_MULTICAST);
	}
	assert_int_equal(f.more_cnt, FOUND_MORE);
	found_clear(&f);
	assert_int_equal(f.more_cnt, 0);
}

/* ---- between two processes ---- */

static void set_record(struct found_record *r)
{
	struct sockaddr_in *addr;

	*r = (struct found_record){ .instance = "storage",
				    .carriers = 1u << DGRAM_MULTICAST,
				    .address_cnt = 1 };
	addr = (void *)&r->addresses[0].addr;
	r->id = srp_port_id_make(1, 2);
	r->addresses[0].kind = XP_TCP;
	addr->sin_family = AF_INET;
	addr->sin_port = htons(5555);
	addr->sin_addr.s_addr = htonl(0x0a000001);
}

T_TEST(target_is_the_same_in_another_process)
{
	struct found there = { .cnt = 0 };
	struct found_record r, again;

	set_record(&r);
	assert_true(found_unpack(&there, &r));
	assert_int_equal(there.cnt, 1);
	assert_string_equal(there.targets[0]->instance, "storage");
	assert_string_equal(there.targets[0]->addresses[0].text,
			    "srp+tcp://10.0.0.1:5555");
	found_pack(there.targets[0], &again);
	assert_memory_equal(&again.id, &r.id, sizeof(r.id));
	assert_int_equal(again.carriers, r.carriers);
	assert_memory_equal(&again.addresses[0].addr, &r.addresses[0].addr,
			    sizeof(r.addresses[0].addr));
	/* The same identifier again would be a second link. */
	assert_false(found_unpack(&there, &r));
	found_clear(&there);
}

enum spoil {
	SPOIL_NO_ADDRESS,
	SPOIL_ADDRESSES,
	SPOIL_FAMILY,
	SPOIL_KIND,
	SPOIL_LONG_NAME,
	SPOIL_NAME,
};

static const struct spoil_row {
	const char *name;
	enum spoil spoil;
} spoil_rows[] = {
	{ "no address", SPOIL_NO_ADDRESS },
	{ "too many addresses", SPOIL_ADDRESSES },
	{ "no family", SPOIL_FAMILY },
	{ "no transport", SPOIL_KIND },
	{ "a name without end", SPOIL_LONG_NAME },
	{ "a name with a line feed", SPOIL_NAME },
};

/* The process that sends it may have been taken over. */
T_ROWS(wrong_record_is_no_target, spoil_rows)
{
	const struct spoil_row *row = *state;
	struct found f = { .cnt = 0 };
	struct found_record r;

	set_record(&r);
	switch (row->spoil) {
	case SPOIL_NO_ADDRESS:
		r.address_cnt = 0;
		break;
	case SPOIL_ADDRESSES:
		r.address_cnt = DISCOVERY_URIS_MAX + 1;
		break;
	case SPOIL_FAMILY:
		r.addresses[0].addr.ss_family = AF_UNIX;
		break;
	case SPOIL_KIND:
		r.addresses[0].kind = XP_KINDS;
		break;
	case SPOIL_LONG_NAME:
		memset(r.instance, 'x', sizeof(r.instance));
		break;
	case SPOIL_NAME:
		r.instance[3] = '\n';
		break;
	}
	assert_false(found_unpack(&f, &r));
	assert_int_equal(f.cnt, 0);
}
