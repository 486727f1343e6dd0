/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An I_T nexus: one initiator port and this target port. Initiators choose their port
 * identifiers, so those of two principals (access.h) with the same one have two nexuses. A
 * nexus is over when it has no
 * channel and no waiting login. Its memory stays until the last request of its
 * channels has ended, which may linger in a store. It belongs to worker 0, except for the unit
 * attentions and the volumes of its view, which are atomic.
 */
#ifndef TARGET_PORT_NEXUS_H
#define TARGET_PORT_NEXUS_H

#include "protocol/srp_login.h"
#include "target/port/meter.h"
#include "target/scsi/lun_view.h"
#include "target/scsi/task.h"
#include "base/arena.h"
#include "base/list.h"
#include "transport/route.h"

/* The share of a nexus in the arenas of one worker. It belongs to the
 * worker. */
struct nexus_share {
	struct arena_user data;
	struct arena_user tables;
};

/* For each LUN, the identity (NAA) of the volume that it was to an initiator before. All
 * zero: none. */
struct lun_past {
	uint8_t naa[LUNS_MAX][SCSI_NAA_LEN];
};

/* Who must leave something to others. */
struct port_groups {
	uint64_t host;	    /* access_host() */
	uint64_t principal; /* lun_map_principal(); 0: there is only one */
};

struct nexus {
	struct list node; /* port->nexuses */
	struct scsi_nexus scsi;
	/* At its last login. Its principal, and so what it may see, depends on the
	 * address and the name. */
	struct access_who who;
	struct xp_negotiated negotiated; /* of the channel that opened last */
	/* Volumes are added and removed (port_change.h) by atomic stores. The
	 * rest is constant. */
	struct lun_view view;
	/* Volumes that have left their LUN. See nexus_keep_meaning(). */
	struct lun_past left;
	char name[SRP_PORT_ID_TEXT_SIZE]; /* of the initiator; constant */
	int64_t since_ms;     /* its first login, by the clock; constant */
	struct list channels; /* struct channel, nexus_node */
	unsigned int channel_cnt;
	unsigned int closed_cnt; /* of its channels: closed, and not gone */
	bool over;		 /* a new login gets another nexus */
	unsigned int login_cnt;
	unsigned int first_worker; /* worker of its first channel */
	unsigned int worker_cnt;   /* constant */
	struct meter *meter;	   /* constant */
	uint64_t principal;	   /* struct port_groups */
	bool was_used;		   /* it has had a channel */
	/* The target has ended it, or the last one of this initiator, and no channel has
	 * been established since. */
	bool ended_here;
	struct list logins; /* struct login of port.c, in order of arrival */
	struct nexus_share shares[]; /* of each worker */
};

/* @view is copied. nexus_set_groups() must follow. NULL: no memory. Thread: worker 0, as for
 * all functions here. */
struct nexus *nexus_create(const struct access_who *who, struct lun_map *luns,
			   const struct lun_view *view,
			   unsigned int worker_cnt);

/* It is of other groups from now on, as after other rules. */
void nexus_set_groups(struct nexus *nexus, const struct port_groups *groups);

/* For a new nexus of an initiator that had one before: it has lost that nexus,
 * and the target has not been powered on since. @other_luns: from its present
 * address, it sees other volumes or other LUNs. */
void nexus_come_back(struct nexus *nexus, bool other_luns);

/* From now on, @lun is not the volume any more that it is in nexus->view. */
void nexus_leave(struct nexus *nexus, unsigned int lun);
/* True if no volume has left its LUN. */
bool nexus_left_nothing(const struct nexus *nexus);

/*
 * Removes volumes from @view, the next view of a nexus, whose LUN was another
 * volume before, by @left. Linux sends aborted commands again, and commands that met a
 * unit attention, without checking that the LUN is still the same disk: data
 * for one volume would be written to another. A volume that comes back is shown
 * again.
 */
void nexus_keep_meaning(const struct lun_past *left, struct lun_view *view);

/* Ends a nexus without channels and logins: what ends with the loss of a nexus. */
void nexus_end(struct nexus *nexus);

/* Frees a nexus that is over and has no closed channel, and removes it from its
 * list. */
void nexus_free(struct nexus *nexus);

#endif
