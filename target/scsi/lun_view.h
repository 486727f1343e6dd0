/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The volumes as one initiator sees them: which, under which numbers, and which
 * of them it may only read. Whatever names a volume for an initiator goes
 * through here, so what is not in its view does not exist for it. A volume that
 * comes or goes changes it; a change of rules takes another login. Thread: worker
 * 0.
 */
#ifndef TARGET_SCSI_LUN_VIEW_H
#define TARGET_SCSI_LUN_VIEW_H

#include "target/scsi/access.h"
#include "target/scsi/volume.h"

struct lun_view {
	struct volume *vol[LUNS_MAX]; /* by LUN; NULL: none */
	bool read_only[LUNS_MAX];
	unsigned int cnt;
};

/*
 * What an initiator sees that comes as @port from @addr; @everybody are the
 * rules for volumes that have none. Of two volumes that rules give the same
 * number it sees the first; *ret_hidden is the other (or NULL).
 */
void lun_view_make(struct lun_view *view, const struct lun_map *luns,
		   const struct access_rules *everybody,
		   const struct srp_port_id *port, const struct in6_addr *addr,
		   const struct volume **ret_hidden);

/* Of which LUN is which volume, to tell whether that has changed. */
uint64_t lun_view_digest(const struct lun_view *view);

bool lun_view_equal(const struct lun_view *a, const struct lun_view *b);

#endif
