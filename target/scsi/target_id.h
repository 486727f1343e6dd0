/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What makes this target another one than all others: the identifiers of its volumes
 * (volume.h) and of its port are made from it.
 *
 * Thread: setup.
 */
#ifndef TARGET_SCSI_TARGET_ID_H
#define TARGET_SCSI_TARGET_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/lasting_id.h"
#include "protocol/srp_login.h"

struct target_id {
	char text[LASTING_ID_SIZE];
	/* False: it is the machine ID, or the host name. Another machine may have the
	 * same one, and this machine may have another one tomorrow. */
	bool lasts;
};

/*
 * target_id_open() - find the identifier of this target
 * @state_dir: keeps it (lasting_id.h); NULL: there is no such directory
 *
 * A state directory of an earlier version has files of volumes and no identifier. The
 * machine ID or the host name becomes the identifier there, so that the volumes stay
 * the same disks.
 *
 * Return: 0, or -errno with one clause in @e.
 */
int target_id_open(const char *state_dir, struct target_id *ret,
		   struct error *e);

/* True if the directory @dir has files of volumes. */
bool target_id_has_volumes(int dir);

/*
 * The identifier of the target port: a 64-bit hash (FNV-1a) of the text "rdma-block
 * target port ID:PORT", used twice, as id_ext and as ioc_guid. @port is the
 * number of the target (state_port.h). Two targets with one ID have different identifiers, because
 * ib_srp refuses a second login to the same ones.
 */
struct srp_port_id target_id_port(const char *id, uint16_t port);

#endif
