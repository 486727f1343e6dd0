/* SPDX-License-Identifier: BSD-2-Clause */
/* What a ready target says on stdout. Thread: setup. */
#ifndef TARGET_ANNOUNCE_H
#define TARGET_ANNOUNCE_H

#include "protocol/srp_login.h"
#include "target/listen.h"
#include "target/scsi/volume.h"

/* Each volume, and the lines to paste that mount them. */
void announce(const struct lun_map *luns, const struct listen_points *points,
	      const struct srp_port_id *id);

#endif
