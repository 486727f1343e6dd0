/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The volumes that one initiator sees: which volumes, under which LUNs,
 * which of them it may only read, and what it is on each of them (access.h). All lookups of a volume use the view, so
 * other volumes do not exist for the initiator. Adding and removing volumes
 * changes the view; changed rules take effect with the next login. Thread:
 * worker 0.
 */
#ifndef TARGET_SCSI_LUN_VIEW_H
#define TARGET_SCSI_LUN_VIEW_H

#include "config/access.h"
#include "target/scsi/volume.h"

struct lun_view {
	struct volume *vol[LUNS_MAX]; /* by LUN; NULL: none */
	bool read_only[LUNS_MAX];
	uint64_t principal[LUNS_MAX]; /* of the initiator, on that volume */
	/* It will have a volume there that is not here yet. */
	bool awaited[LUNS_MAX];
	unsigned int cnt;
};

/*
 * Makes the view of @who. @of_target: the rules
 * for volumes without rules. If two volumes have the same LUN by the rules, the
 * initiator sees the first one; *ret_hidden is the other (or NULL). Marks the
 * LUNs as seen.
 */
void lun_view_make(struct lun_view *view, struct lun_map *luns,
		   const struct access_rules *of_target,
		   const struct access_who *who,
		   const struct volume **ret_hidden);

/*
 * Call this when rules or keys have changed, or volumes have come. Who holds a reservation, or must
 * be told of lost writes, may be known by a rule that is gone: from then on, it is whoever
 * has the port identifier.
 */
void lun_map_follow_rules(struct lun_map *luns,
			  const struct access_rules *of_target,
			  const struct access_names *names);

/*
 * The principal of an initiator on this target: a digest of its principals by each list of
 * rules, as they are now. Two logins with one port identifier are of one initiator if this
 * is the same.
 */
uint64_t lun_map_principal(const struct lun_map *luns,
			   const struct access_rules *of_target,
			   const struct access_who *who);

/* True if the rules know more than one principal, or there are names. */
bool lun_map_has_principals(const struct lun_map *luns,
			    const struct access_rules *of_target,
			    const struct access_names *names);

/* A hash of the volumes and their LUNs; it differs if they have changed. */
uint64_t lun_view_digest(const struct lun_view *view);

/* True if both have the same volumes with the same rights. */
bool lun_view_equal(const struct lun_view *a, const struct lun_view *b);

/* True if one of them is not here yet. */
bool lun_view_awaits(const struct lun_view *view);

/* True if one of the volumes is being removed. */
bool lun_view_has_leaver(const struct lun_view *view);

#endif
