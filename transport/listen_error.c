/* SPDX-License-Identifier: BSD-2-Clause */
/* Alone, so that rdma-ctl, which makes sockets for the target, has no transport. */
#include "transport/provider.h"

#include <errno.h>
#include <string.h>

void xp_core_listen_failed(struct error *e, int err)
{
	const char *text = strerror(-err);

	if (err == -EADDRINUSE)
		text = "the address is in use";
	if (err == -EADDRNOTAVAIL)
		text = "this machine does not have that address";
	if (err == -EACCES)
		text = "only root may use ports below 1024";
	if (err == -ENODEV)
		text = "that address is not on an RDMA device";
	error_set(e, err, "%s", text);
}
