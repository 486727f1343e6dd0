/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines that the target prints on stdout when it is ready. Thread:
 * setup. */
#ifndef TARGET_ANNOUNCE_H
#define TARGET_ANNOUNCE_H

#include "protocol/srp_login.h"
#include "target/listen.h"
#include "target/scsi/volume.h"

/* Prints each volume, and lines to paste that mount the volumes: with a key, where that is
 * possible, if the target has keys. */
void announce(const struct lun_map *luns, const struct listen_points *points,
	      const struct srp_port_id *id, bool has_keys);

#endif
