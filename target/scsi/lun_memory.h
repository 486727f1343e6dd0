/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which disk each LUN is. An initiator may know a LUN for as long as it runs, whether the
 * target does or not: after a reconnect, Linux goes on with its disk under the same LUN.
 * If the LUN were another disk by then, data would go there. So a LUN belongs to the disk
 * that has had it, until it is forgotten on purpose.
 *
 * It is kept in a small text file of the state directory, one for each port number:
 *
 *	rdma-target luns 1
 *	0 6e1f000000000000... (the NAA identifier of the disk) disk.img
 *	1 memory ram1
 *	end
 *
 * A line has the LUN, the disk, and the name of its volume. Memory is another disk after
 * each start: the volume with the same name then takes the place of the former one, and
 * what initiators had written is gone anyway. While the target runs, a volume of the same
 * name is another disk.
 *
 * A disk keeps its LUN from before it is served. If no initiator has logged in until the
 * target ends, or the start fails, nobody knows the LUN, and it is free again.
 *
 * LUNs that a rule gives (access.h) are not kept: such a rule names the initiator, too.
 *
 * Thread: setup; then one at a time (a change of the configuration). Blocks.
 */
#ifndef TARGET_SCSI_LUN_MEMORY_H
#define TARGET_SCSI_LUN_MEMORY_H

#include <stdint.h>

#include "base/error.h"
#include "target/scsi/volume.h"

/* Disks with their LUNs, those that are gone included. */
#define LUN_MEMORY_MAX 1024

struct lun_known {
	unsigned int lun;
	bool lasts;   /* the disk is the same after a restart */
	bool has_naa; /* of memory: it belongs to this process */
	bool is_new;  /* no start before has known it */
	uint8_t naa[SCSI_NAA_LEN];
	char name[64]; /* of its volume, when it last had the LUN */
};

/* Embed it, zeroed. All is private. */
struct lun_memory {
	struct lun_known known[LUN_MEMORY_MAX]; /* the oldest first */
	unsigned int cnt;
	char *path; /* NULL: it ends with the process */
	char *new_path;
	int lock_fd; /* if there is a path: keeps other targets from the file */
};

/*
 * Reads what the directory @state_dir has for the target port @port. NULL, or port 0,
 * which is another one after each start: the memory is empty, and ends with the process.
 * -EBUSY: another target uses the file; -EBADMSG: it is damaged; another negative errno.
 * @e has one clause. lun_memory_close() must follow in any case.
 */
int lun_memory_open(struct lun_memory *m, const char *state_dir, uint16_t port,
		    struct error *e);
void lun_memory_close(struct lun_memory *m);

/* True if it outlives the process. */
static inline bool lun_memory_lasts(const struct lun_memory *m)
{
	return m->path;
}

/* The lowest LUN that no volume of @luns has, nor a disk that is known; LUNS_MAX: there
 * is none. */
unsigned int lun_memory_free(const struct lun_memory *m,
			     const struct lun_map *luns);

/*
 * Sets the LUN of each volume of @luns with @chooses: the one that the disk had last, else
 * the lowest that nothing has had. Then checks all. -EEXIST: a volume has a LUN that
 * initiators may still know as another disk; -ENOSPC: all LUNs are taken or known.
 */
int lun_memory_choose(const struct lun_memory *m, struct lun_map *luns,
		      const bool chooses[], struct error *e);

/* True if the disk of @vol has had a LUN. */
bool lun_memory_knows(const struct lun_memory *m, const struct volume *vol);

/*
 * For a volume whose disk is not here yet (volume_stand_in()): if it has no identifier, gives it
 * that of the disk that had its LUN last (@has_lun) or its name, and that no other volume of
 * @luns has; else one of its own. Return: whether that disk is known.
 */
bool lun_memory_guess(const struct lun_memory *m, struct volume *vol,
		      bool has_lun, const struct lun_map *luns);

/* Keeps the LUNs of @luns. 0: they are stable. A negative errno: none of them is known
 * better than before. */
int lun_memory_keep(struct lun_memory *m, const struct lun_map *luns,
		    struct error *e);

/* At the end: forgets the disks that came with this start, and that no initiator has seen
 * (@luns). Without success they are kept. */
void lun_memory_forget_unseen(struct lun_memory *m, const struct lun_map *luns);

/* Forgets the disks that had the name @name and are not in @luns, with their LUNs.
 * -ENOENT: there is none, or the volume is served. */
int lun_memory_forget(struct lun_memory *m, const struct lun_map *luns,
		      const char *name, struct error *e);

#endif
