/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A volume is a backend with an identity: the disk that an initiator sees as a
 * logical unit. Its name, serial number and NAA identifier are stable over
 * restarts and the same through every port. Volumes without lun=N get the
 * lowest free numbers, in the order of the --backing options. lun_view.h
 * decides which initiator sees which volume.
 */
#ifndef TARGET_SCSI_VOLUME_H
#define TARGET_SCSI_VOLUME_H

#include "config/volume_spec.h"
#include "protocol/scsi_cdb_index.h"
#include "protocol/scsi_vpd.h"
#include "target/block/block.h"
#include "target/scsi/volume_job.h"
#include "target/scsi/unit_state.h"
#include "target/scsi/volume_status.h"
#include "target/scsi/volume_writers.h"
#include "target/block/block_worker.h"
#include "base/log.h"

/* How reliable the name, serial number and identifier of a volume are. */
enum volume_identity {
	VOLUME_NEW,	/* another disk after each start: memory */
	VOLUME_BY_PATH, /* a device: it may have another path tomorrow, and
			 * another device may have its path */
	VOLUME_LASTING, /* the same disk after a restart */
};

struct volume {
	unsigned int lun; /* for initiators without a rule that gives another
			   * number */
	struct access_rules allow;
	char name[64];
	char serial[SCSI_SERIAL_MAX + 1];
	/* Set once: the volume is being removed. Commands that have found it
	 * continue, new ones do not find it; see scsi_nexus_volume(). */
	_Atomic bool leaving;
	/* Set once: the target ends, and the store has not answered. */
	_Atomic bool abandoned;
	/* The last look of server_drain.h that has found a command of it. */
	_Atomic unsigned int busy_at;
	/* Its commands that nobody waits for, and that the disk still has; private
	 * to the port. */
	_Atomic unsigned int lingering;
	/* Its task management functions, and changes that no command waits for: it is not
	 * closed before they end. */
	_Atomic unsigned int managed;
	const char *kind; /* "file", "ram", "null", "block device" */
	char path[4096];
	struct block_device dev;     /* the blocks */
	struct disk_journal journal; /* what survives; maybe not open */
	struct volume_writers saver; /* keeps dev.writers there */
	uint32_t block_size;	     /* bytes */
	enum volume_identity identity;
	_Atomic uint64_t blocks; /* never shrinks */
	/* Of the store, constant. info has what MODE SELECT makes of it. */
	bool read_only;
	struct scsi_disk_info info; /* identity and limits, for INQUIRY & co. */
	struct volume_job job;	    /* FORMAT UNIT, SANITIZE */
	struct unit_state state;    /* what commands change */
	struct volume_status_told told;
	/* The path states that nexuses know. UINT16_MAX: they know none yet.
	 * Only worker 0 uses it. */
	uint16_t told_active;
	/* For each worker, the port's data about the memory of the volume.
	 * Private to the port. */
	struct port_memory *port_memory[BLOCK_WORKERS_MAX];
	/* The port's counters of the volume, and each worker's part: meter.h. */
	struct meter *meter;
	struct meter_share *meter_shares[BLOCK_WORKERS_MAX];
};

/* Logs a message about the volume; @event may be NULL. */
static inline struct log_about volume_about(const struct volume *vol,
					    const char *event)
{
	return (struct log_about){ .event = event,
				   .volume = vol->name,
				   .lun = vol->lun };
}

/* "LUN 0 (a): TEXT", about @vol. */
#define volume_log(level, event, vol, text, ...)                            \
	do {                                                                \
		struct log_about about_ = volume_about(vol, event);         \
                                                                            \
		log_event(level, &about_, "LUN %u (%s): " text, about_.lun, \
			  about_.volume, ##__VA_ARGS__);                    \
	} while (0)

/* The format of sense data about it (D_SENSE). NULL: about no volume. */
static inline enum scsi_sense_format
volume_sense_format(const struct volume *vol)
{
	return vol && vol->info.d_sense ? SCSI_SENSE_DESCRIPTOR
					: SCSI_SENSE_FIXED;
}

/*
 * How much one command may be about, in bytes, and in what pieces the block layer
 * (block.h, which has the limit of UNMAP, too) asks the store for long ones. Commands above the limits are refused as SBC says and VPD
 * pages B0h and 8Fh announce.
 *
 * The measure is a store of 20 MB/s without a cheap way to zero blocks: there
 * each of these bytes is written. An initiator waits 30 s for a command (sd; 120 s
 * for WRITE SAME) and 5 s for a task management function (ib_srp), which
 * awaits the pieces that the store has by then; up to 64 commands of a channel
 * run at the same time.
 *
 *   READ, WRITE, VERIFY, ...  4 MiB           0.2 s
 *   WRITE SAME                32 MiB          1.7 s; 64 of them 107 s
 *     pieces of zeroes        1 MiB           64 of them 3.4 s
 *     pieces with UNMAP       4 MiB           as those of UNMAP
 *     pieces of a pattern     0.25 MiB
 *   UNMAP                     512 MiB         27 s, if it were written
 *     pieces                  4 MiB           0.2 s
 *   EXTENDED COPY             32 x 4 MiB      13 s, as it reads and writes
 *     pieces                  0.25 MiB
 *   PRE-FETCH                 16 MiB          0.8 s
 *
 * FORMAT UNIT and SANITIZE take as long as they take: IMMED reports them as in
 * progress, and a command that waits for its job leaves it when it is aborted.
 * SYNCHRONIZE CACHE is not bounded here: it depends on what all initiators have
 * left in the cache (sd waits 60 s for it).
 */
#define VOLUME_MAX_WRITE_SAME \
	(32u << 20) /* VOLUME_MAX_TRANSFER: option_limits.h */

/*
 * Identity. serial=S gives the serial number; the NAA identifier depends on the
 * serial number alone, so the same S on two targets is the same disk for a
 * multipath initiator. Without serial=S, both depend on the target's identifier
 * (target_id.h), which is @target, the block size, and what a block device reports about itself (store_id.h). If it
 * reports nothing, they depend on the path as it was given: the target of a
 * symbolic link and the number of a device may change. Memory is another, empty
 * disk after each start, so its identity is another one, too.
 *
 * Thread: setup. Opens the backend and derives the identity. -errno with one
 * clause in @e that names the path and what to try. Free with volume_close().
 */
int volume_open(const struct volume_spec *spec, unsigned int lun,
		const char *target, struct volume **ret_vol, struct error *e);
void volume_close(struct volume *vol);

/*
 * What stands in for a volume whose store is not open yet: its name, LUN and rules. The
 * identifier is that of serial=S, or all zero. Free with free(). NULL: out of memory. Thread:
 * any.
 */
struct volume *volume_stand_in(const struct volume_spec *spec,
			       unsigned int lun);

/*
 * Opens the backend on a worker and registers what it needs there. Call it for
 * every worker. 0, or -errno with one clause in @e and nothing left behind.
 * volume_detach() undoes it before the reactor is destroyed. Thread: setup; of
 * volume_detach() setup or the worker.
 */
int volume_attach(struct volume *vol, struct block_worker *w, struct error *e);
void volume_detach(struct volume *vol, struct block_worker *w);

/*
 * Takes over the growth of the store. If a store has shrunk, the volume keeps
 * its size, and reads of the missing part fail. A write there makes a file
 * longer again. Return: 1: it has grown, 0, or -errno. Thread: worker 0.
 */
int volume_measure(struct volume *vol);

/* Reads which target serves the volume. Thread: any. */
void volume_look_at_paths(struct volume *vol);

/* Nothing makes its writes stable; the administrator has accepted that. Thread:
 * any. */
static inline bool volume_is_never_stable(const struct volume *vol)
{
	return vol->dev.backend->info.durability == RBP_STABLE_NEVER;
}

/* True if another target serves the volume, or none. */
static inline bool volume_is_standby(const struct volume *vol)
{
	const struct scsi_port_groups *groups = &vol->info.groups;

	return groups->cnt && groups->active != groups->own;
}

/* True if SWP is on, or is being set: in this order, because protects ends when
 * swp is set. */
static inline bool volume_is_protected(const struct volume *vol)
{
	return vol->state.protects || vol->info.swp;
}

/* All volumes. */
struct lun_map {
	struct volume *vol[LUNS_MAX]; /* in the order of --backing */
	unsigned int cnt;
	/* What stands in for volumes that are not here yet. Worker 0. */
	struct volume *awaited[LUNS_MAX];
	unsigned int awaited_cnt;
	/* LUNs that an initiator has seen since the start, by the volumes' own numbers.
	 * Worker 0. */
	bool seen[LUNS_MAX];
	struct scsi_cdb_index cdbs; /* constant */
	/* The nexuses that see them, so that any worker can raise a unit
	 * attention for any nexus. No other lock is taken under this one. */
	pthread_mutex_t nexuses_lock;
	struct list nexuses; /* struct scsi_nexus, node */
};

/* Makes an empty map; the owner fills in the rest. Thread: setup. */
void lun_map_init(struct lun_map *map);

#endif
