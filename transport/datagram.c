/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/datagram.h"

#include <errno.h>
#include <poll.h>

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

int dgram_join(struct dgram *d)
{
	return d->joining ? d->ops->join(d) : 0;
}

int dgram_await(struct dgram *d, int ms)
{
	struct pollfd pfd = { .fd = d->fd, .events = POLLIN };
	int err = dgram_join(d);

	if (err != -EAGAIN)
		return err;
	poll(&pfd, 1, ms);
	err = dgram_join(d);
	return err == -EAGAIN ? -ETIMEDOUT : err;
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
