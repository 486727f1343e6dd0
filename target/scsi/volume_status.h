/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a volume can do for its initiators, as the administrator is told: by
 * rdma-ctl, the metrics, the events and the log. It follows from facts that are
 * kept elsewhere: the removal of the volume, its medium, its state
 * (volume_job.h), its paths, and its last flush. Whoever changes one of them
 * calls volume_status_look().
 *
 * Thread: any, unless a function says otherwise.
 */
#ifndef TARGET_SCSI_VOLUME_STATUS_H
#define TARGET_SCSI_VOLUME_STATUS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct volume;

/* Of those that hold, the first one is told. */
enum volume_status {
	VOLUME_STATUS_LEAVING,
	VOLUME_STATUS_EJECTING,
	VOLUME_STATUS_EJECTED,
	VOLUME_STATUS_CANNOT_SAVE,
	VOLUME_STATUS_FORMATTING,
	VOLUME_STATUS_SANITIZING,
	VOLUME_STATUS_FORMAT_FAILED,
	VOLUME_STATUS_SANITIZE_FAILED,
	VOLUME_STATUS_STANDBY,
	VOLUME_STATUS_CANNOT_FLUSH,
	VOLUME_STATUS_READY,
	VOLUME_STATUS_CNT,
};

struct volume_status_facts {
	enum volume_status status;
	int err;	  /* CANNOT_FLUSH: negative errno; else 0 */
	int64_t since_ms; /* since 1970 */
};

/* Embed it; all is private. */
struct volume_status_told {
	pthread_mutex_t lock; /* guards facts; no other lock is taken under it */
	struct volume_status_facts facts;
};

/* The volume is ready from now on. Thread: setup. */
void volume_status_init(struct volume *vol);
void volume_status_fini(struct volume *vol);

/* A fact has changed. Logs a change of the status, as the event "volume-state".
 * The lock of the unit is not held. */
void volume_status_look(struct volume *vol);

void volume_status_read(const struct volume *vol,
			struct volume_status_facts *ret);

/* "cannot flush" */
const char *volume_status_name(enum volume_status status);
/* "until an initiator sends SANITIZE again"; NULL: it is ready, or somebody has
 * asked for it. */
const char *volume_status_end(const struct volume_status_facts *facts);

#endif
