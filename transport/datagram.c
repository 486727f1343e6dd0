/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/datagram.h"

int dgram_receive(struct dgram *d, void *buf, size_t size,
		  struct dgram_peer *ret_peer)
{
	return d->ops->receive(d, buf, size, ret_peer);
}

int dgram_send(struct dgram *d, const struct dgram_peer *to, const void *data,
	       size_t len)
{
	return d->ops->send(d, to, data, len);
}

void dgram_close(struct dgram *d)
{
	if (d)
		d->ops->close(d);
}

const char *dgram_carrier_name(enum dgram_carrier carrier)
{
	static const char *const names[] = {
		[DGRAM_UNICAST] = "unicast",
		[DGRAM_MULTICAST] = "multicast",
		[DGRAM_RDMA] = "RDMA multicast",
	};

	return names[carrier];
}
