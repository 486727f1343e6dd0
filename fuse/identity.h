/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who a mount is to its target: its port identifier, which only one process of
 * this machine may have at a time, as each login of it ends the other's session.
 *
 * A process owns an identifier by an abstract socket with its name, which is
 * gone with the process, however that ends. Those names are of a network
 * namespace: containers share an identifier only if they share machine ID, host
 * name, mount point and URI, and then most likely the network as well.
 *
 * Thread: setup.
 */
#ifndef FUSE_IDENTITY_H
#define FUSE_IDENTITY_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

/* Room for machine, host, mount point, URI and a number. */
#define IDENTITY_SIZE (PATH_MAX + 1024)

/* At most one for each address of the target. */
#define IDENTITY_LOCKS 16

struct identity {
	/* For srpi_options.identity. "": the URI names the identifier, or the
	 * machine has no ID: then it is a random one. */
	char text[IDENTITY_SIZE];
	bool no_machine_id;
	int locks[IDENTITY_LOCKS]; /* sockets; closing them unlocks */
	unsigned int lock_cnt;
};

/**
 * identity_claim() - choose and own an identifier
 * @id: identity_release() undoes it, also after a failure
 *
 * The same machine that mounts the same thing in the same place again has the
 * same one; the host's name is part of it since containers of one image may
 * share a machine ID. A process that has it may be about to end, as after an
 * unmount, and is waited for, for seconds, or until there is a signal of
 * client_signals(), which must be blocked. When it does not end, as after a lazy
 * unmount, it is another one, and a warning says so.
 *
 * Return: 0, or -EADDRINUSE with @e set: @uri names one that another process has.
 */
int identity_claim(struct identity *id, const char *mountpoint, const char *uri,
		   struct error *e);
void identity_release(struct identity *id);

#endif
