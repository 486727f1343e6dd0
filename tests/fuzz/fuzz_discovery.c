/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of discovery, as a client reads them. */
#include <netinet/in.h>

#include "discover/found.h"
#include "protocol/discovery.h"
#include "tests/fuzz/fuzz.h"

static void again(const struct discovery_msg *msg)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	struct discovery_msg copy;
	size_t signed_len;
	int len = discovery_encode(buf, 0, sizeof(buf), msg, NULL, NULL);

	FUZZ_CLAIM(len > 0);
	FUZZ_CLAIM(!discovery_decode(buf, (size_t)len, &copy, &signed_len));
	FUZZ_CLAIM(copy.kind == msg->kind && copy.nonce == msg->nonce);
	FUZZ_CLAIM(srp_port_id_equal(&copy.id, &msg->id));
	FUZZ_CLAIM(!strcmp(copy.instance, msg->instance));
	FUZZ_CLAIM(copy.uri_cnt == msg->uri_cnt);
	for (unsigned int i = 0; i < msg->uri_cnt; i++)
		FUZZ_CLAIM(!strcmp(copy.uris[i], msg->uris[i]));
}

static void found(const struct discovery_msg *msg)
{
	struct dgram_peer peer = { .addr.ss_family = AF_INET,
				   .addr_len = sizeof(struct sockaddr_in) };
	struct found f = { .cnt = 0 };
	char uri[FOUND_URI_SIZE];
	struct xp_uri parsed;

	if (found_add(&f, msg, &peer, DGRAM_UNICAST)) {
		struct found_target *t = f.targets[0];

		FUZZ_CLAIM(f.cnt == 1 && t->address_cnt > 0);
		for (unsigned int i = 0; i < t->address_cnt; i++)
			t->addresses[i].usable = true;
		FUZZ_CLAIM(found_uri(t, "disk", uri));
		FUZZ_CLAIM(!xp_uri_parse(uri, &parsed, NULL));
		FUZZ_CLAIM(srp_port_id_equal(&parsed.target, &msg->id));
	}
	found_clear(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	struct discovery_msg msg;
	size_t signed_len;

	FUZZ_FILL(msg);
	if (discovery_decode(in.p, in.left, &msg, &signed_len)) {
		FUZZ_UNTOUCHED(msg);
		return 0;
	}
	FUZZ_CLAIM(signed_len < size);
	again(&msg);
	found(&msg);
	return 0;
}
