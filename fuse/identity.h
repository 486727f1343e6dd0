/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator port identifier of a mount. A login ends other sessions of the
 * same identifier, so only one process at a time may use it with a target.
 *
 * An abstract socket is the lock of an identifier. The kernel removes it when the
 * process ends in any way. These sockets belong to a network namespace.
 * Containers have the same identifier only if they share machine ID, host name
 * and mount point; most likely they then share the network, too.
 *
 * Thread: setup.
 */
#ifndef FUSE_IDENTITY_H
#define FUSE_IDENTITY_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

/* Room for machine, host, mount point and a number. */
#define IDENTITY_SIZE (PATH_MAX + 1024)

/* At most one for each address of the URI. */
#define IDENTITY_LOCKS 16

struct identity {
	/* For srpi_options.identity. "": the URI names the identifier, or the
	 * machine has no ID, and the identifier is random. */
	char text[IDENTITY_SIZE];
	bool no_machine_id;
	int locks[IDENTITY_LOCKS]; /* sockets; closing them unlocks */
	unsigned int lock_cnt;
};

/**
 * identity_claim() - choose an identifier and lock it
 * @id: call identity_release() also after a failure
 *
 * A machine that mounts at the same mount point again has the same identifier. The
 * host name is a part of it, because containers of one image may share a machine
 * ID.
 *
 * If another process has the identifier, it may be about to end, as after an
 * unmount. The function waits for it for some seconds, or until there is a signal
 * of client_signals(), which must be blocked. If the process does not end, as
 * after a lazy unmount, the mount gets another identifier, and a warning says
 * this.
 *
 * Return: 0, or -EADDRINUSE with @e set: @uri names an identifier that another
 *   process uses with the same target.
 */
int identity_claim(struct identity *id, const char *mountpoint, const char *uri,
		   struct error *e);
void identity_release(struct identity *id);

#endif
