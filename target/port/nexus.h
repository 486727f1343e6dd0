/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An I_T nexus: one initiator port and this target port. It exists while it
 * has a channel or a login that waits to become one. All of it belongs to
 * worker 0, save the unit attentions and the volumes of its view, which are
 * atomic.
 */
#ifndef TARGET_PORT_NEXUS_H
#define TARGET_PORT_NEXUS_H

#include "protocol/srp_login.h"
#include "target/scsi/lun_view.h"
#include "target/scsi/task.h"
#include "base/arena.h"
#include "base/list.h"

/* What a nexus has of a worker's arenas; the worker's. */
struct nexus_share {
	struct arena_user data;
	struct arena_user tables;
};

struct nexus {
	struct list node; /* port->nexuses */
	struct scsi_nexus scsi;
	struct srp_port_id initiator;
	struct srp_port_id target;
	/* From where it has logged in last: what it may see depends on it. */
	struct in6_addr addr;
	/* Volumes come and go (port_change.h), by stores that are atomic; the
	 * rest is constant. */
	struct lun_view view;
	/* The identity (NAA) of the volume that has left each LUN; all zero: none
	 * has. See nexus_keep_meaning(). */
	uint8_t left[LUNS_MAX][SCSI_NAA_LEN];
	char name[SRP_PORT_ID_TEXT_SIZE]; /* of the initiator; constant */
	struct list channels;		  /* struct channel, nexus_node */
	unsigned int channel_cnt;
	unsigned int login_cnt;
	unsigned int first_worker; /* has its first channel */
	bool was_used;		   /* it has had a channel */
	struct list logins; /* struct login of port.c, in order of arrival */
	struct nexus_share shares[]; /* of each worker */
};

/* @view is copied. Thread: worker 0, as all here. NULL: no memory. */
struct nexus *nexus_create(const struct srp_port_id *initiator,
			   const struct srp_port_id *target,
			   struct lun_map *luns, const struct lun_view *view,
			   unsigned int worker_cnt);

/* A new nexus whose initiator was here before: it has lost its nexus; the target
 * has not been powered on since. @other_luns: from where it comes now it sees
 * other volumes, or by other numbers. */
void nexus_come_back(struct nexus *nexus, bool other_luns);

/*
 * Takes from @view, which is to be that of @nexus, the volumes at LUNs that were
 * another volume. Linux sends commands again that were aborted or met a unit
 * attention, and asks nobody whether the LUN is the same disk: what was written to
 * one volume would change another. A volume that comes back is shown again.
 */
void nexus_keep_meaning(const struct nexus *nexus, struct lun_view *view);

/* Frees a nexus without channels and logins and takes it off its list. */
void nexus_free(struct nexus *nexus);

/* NULL: @nexuses has none of these two. */
struct nexus *nexus_find(struct list *nexuses,
			 const struct srp_port_id *initiator,
			 const struct srp_port_id *target);

#endif
