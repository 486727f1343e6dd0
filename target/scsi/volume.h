/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A volume is a backend with an identity: the disk that an initiator sees as
 * a logical unit. Its name, serial number and NAA identifier are stable over
 * restarts and the same through every port. Those without lun=N get the lowest
 * numbers that are left, in the order of the --backing options; which initiator
 * sees which is lun_view.h's.
 */
#ifndef TARGET_SCSI_VOLUME_H
#define TARGET_SCSI_VOLUME_H

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_vpd.h"
#include "target/scsi/access.h"
#include "target/block/block.h"
#include "target/block/fault_rule.h"
#include "target/block/plugin_load.h"
#include "target/scsi/volume_job.h"
#include "target/scsi/unit_state.h"
#include "target/block/block_worker.h"
#include "base/log.h"

#define LUNS_MAX 256

#define VOLUME_LAYERS_MAX 4

/* SPEC: PATH | ram:SIZE | null:SIZE | PLUGIN:LOCATION [,name=N][,ro][,block-size=512|4096]
 *       [,direct=on|off][,write-through][,removable][,serial=S]
 *       [,lun=N][,allow=RULE]...[,fault=RULE]...
 *       [,layer=PLUGIN]...[,PARAM=VALUE]... */
struct volume_spec {
	const struct backend_type *store;
	char path[4096]; /* or the size text */
	char name[64];	 /* empty: from the path, or kind and LUN */
	char serial[33]; /* empty: derived */
	bool read_only;
	uint32_t block_size; /* bytes, 512 by default */
	int direct;	     /* 1, 0, -1 = automatic */
	bool write_through;
	bool has_lun;
	unsigned int lun;
	struct access_rules allow;
	bool removable; /* START STOP UNIT can take the medium out */
	unsigned int fault_cnt;
	struct fault_rule faults[FAULT_RULES_MAX];
	bool submit_all; /* no memory in place: the backend sees every request */
	struct plugin_spec plugin; /* of backend_plugin */
	unsigned int layer_cnt;
	struct plugin_spec layers[VOLUME_LAYERS_MAX]; /* lowest first */
};

/* The options of a SPEC; volume_spec_parse() stores them in a volume_spec. */
extern const struct option_table volume_option_table; /* base/option.h */

/*
 * Reads a --backing argument; false with one clause in @e when it is bad.
 * A comma in PATH has a backslash before it; a file named "ram:x" is written
 * "./ram:x". PLUGIN is a name, or the path of a file that ends with ".so". A KEY
 * that is no option of volumes is a parameter of the plugin that stands before
 * it; whether the plugin knows it is found out when the volume is opened.
 */
bool volume_spec_parse(const char *text, struct volume_spec *ret_spec,
		       struct error *e);

/* How far the name, serial number and identifier of a volume are to be trusted. */
enum volume_identity {
	VOLUME_NEW,	/* another disk after each start: memory */
	VOLUME_BY_PATH, /* of a device that may have another path tomorrow, and
			    its path be another device's */
	VOLUME_LASTING, /* the same disk after a restart */
};

struct volume {
	unsigned int lun; /* for those whom no rule gives another number */
	struct access_rules allow;
	char name[64];
	char serial[SCSI_SERIAL_MAX + 1];
	/* Set once: the volume is to go. Commands that have found it go on, new
	 * ones do not find it; see scsi_nexus_volume(). */
	_Atomic bool leaving;
	/* Task management functions that are about it; the port's. */
	_Atomic unsigned int managed;
	const char *kind; /* "file", "ram", "null", "block device" */
	char path[4096];
	struct block_device dev; /* the blocks */
	uint32_t block_size;	 /* bytes */
	enum volume_identity identity;
	_Atomic uint64_t blocks; /* never shrinks */
	/* Of the store, constant; what MODE SELECT makes of it is in info. */
	bool read_only;
	struct scsi_disk_info info; /* identity and limits, for INQUIRY & co. */
	struct volume_job job;	    /* FORMAT UNIT, SANITIZE */
	struct unit_state state;    /* what commands change */
	/* Of the groups, as nexuses know it; UINT16_MAX: nothing was told yet.
	 * Worker 0's. */
	uint16_t told_active;
	/* For each worker, what the port keeps of the memory of the volume; only
	 * the port looks into it. */
	struct port_memory *port_memory[BLOCK_WORKERS_MAX];
	/* What the port counts about it, and each worker's part: meter.h. */
	struct meter *meter;
	struct meter_share *meter_shares[BLOCK_WORKERS_MAX];
};

/* A message about it; @event may be NULL. */
static inline struct log_about volume_about(const struct volume *vol,
					    const char *event)
{
	return (struct log_about){ .event = event,
				   .volume = vol->name,
				   .lun = vol->lun };
}

/* How sense data about it looks (D_SENSE); NULL: about no volume. */
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
#define VOLUME_MAX_TRANSFER   (4u << 20)
#define VOLUME_MAX_WRITE_SAME (32u << 20)

/*
 * Identity. serial=S gives the serial number; the NAA identifier follows from
 * the serial number alone, so the same S through two targets is the same disk
 * to a multipath initiator. Without it both follow from this machine's id, the
 * block size, and what a block device says of itself (store_id.h); else the path
 * as it was given: where a symbolic link leads to, and the number that a device
 * has there, may change. Memory is another, empty disk after each start, so its
 * identity is another one too.
 *
 * Thread: setup. Opens the backend and derives the identity. -errno with one
 * clause in @e that names the path and what to try. Free with
 * volume_close().
 */
int volume_open(const struct volume_spec *spec, unsigned int lun,
		struct volume **ret_vol, struct error *e);
void volume_close(struct volume *vol);

/*
 * Thread: setup, for every worker: opens and registers with it what the backend
 * needs there. 0, or -errno with one clause in @e and nothing left behind. Each
 * is undone by volume_detach() (thread: setup or the worker) before the reactor
 * goes.
 */
int volume_attach(struct volume *vol, struct block_worker *w, struct error *e);
void volume_detach(struct volume *vol, struct block_worker *w);

/*
 * Takes over what the store has grown by. A store that has shrunk stays as
 * large as it was for its initiators; what is missing fails. Return: 1: it has
 * grown, 0, or -errno. Thread: worker 0.
 */
int volume_measure(struct volume *vol);

/* Takes over which target serves the volume. Thread: any. */
void volume_look_at_paths(struct volume *vol);

/* Another target serves the volume, or none. */
static inline bool volume_is_standby(const struct volume *vol)
{
	const struct scsi_port_groups *groups = &vol->info.groups;

	return groups->cnt && groups->active != groups->own;
}

/* All volumes. */
struct lun_map {
	struct volume *vol[LUNS_MAX]; /* in the order of --backing */
	unsigned int cnt;
	struct scsi_cdb_index cdbs; /* constant */
	/* Who sees them, so that any worker can leave a unit attention for
	 * any nexus. No other lock is taken under this one. */
	pthread_mutex_t nexuses_lock;
	struct list nexuses; /* struct scsi_nexus, node */
};

/* An empty map; all else in it is the owner's to fill in. Thread: setup. */
void lun_map_init(struct lun_map *map);

#endif
