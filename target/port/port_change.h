/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of a port while initiators are logged in: volumes are added and
 * removed, and access rules change. Worker 0 owns the views of all nexuses;
 * other workers read them (scsi_nexus_slot()).
 *
 * To remove a volume: port_volume_leaves(), task_mgmt_evict(),
 * port_volume_gone(), then worker_remove_volume() on each worker. After that,
 * no thread uses the volume.
 *
 * Thread: worker 0.
 */
#ifndef TARGET_PORT_PORT_CHANGE_H
#define TARGET_PORT_PORT_CHANGE_H

#include "target/port/port.h"

/* For a volume that every worker has. Adds @vol to the end of port->luns, and
 * shows it to the nexuses that may see it, except those to which its LUN was
 * another volume (nexus_keep_meaning()). They get REPORTED LUNS DATA HAS
 * CHANGED. Ends a nexus with several addresses of which not all may see it. */
void port_volume_added(struct port *port, struct volume *vol);
/* port->luns->awaited has fewer volumes now. */
void port_awaits_less(struct port *port);

/* The name of a logged-in initiator that sees @vol. NULL: there is none. */
const char *port_volume_user(const struct port *port, const struct volume *vol);

/* Removes @vol from port->luns: no new login and no new command finds it. */
void port_volume_leaves(struct port *port, struct volume *vol);

/* For a volume without commands in flight. Removes @vol from the views of all
 * nexuses. They get REPORTED LUNS DATA HAS CHANGED. */
void port_volume_gone(struct port *port, struct volume *vol);

/*
 * Call this after access rules changed. Ends the nexuses that would see other
 * volumes by the new rules, or whose addresses are now of several principals; they may
 * log in again at once. Returns how many.
 */
unsigned int port_rules_changed(struct port *port);

/*
 * For a target with keys: they are @keys from now on, and @keys are those of before. Ends the nexuses of names that have lost one, and what
 * port_rules_changed() ends: a right of a key counts as one of a rule. Returns how many.
 */
unsigned int port_keys_changed(struct port *port, struct key_file *keys);

/* One I_T nexus, for reports. */
struct port_session {
	char initiator[SRP_PORT_ID_TEXT_SIZE];
	struct access_who who;
	struct xp_negotiated negotiated;
	unsigned int channels;
	unsigned int volumes;	     /* that it sees */
	int64_t since_ms;	     /* its login, by the clock */
	const struct lun_view *view; /* on worker 0 only */
};

/* Fills in @ret with at most @max nexuses. Returns how many there are. */
unsigned int port_sessions(const struct port *port, struct port_session *ret,
			   unsigned int max);

/* Counts the channels that were told to end, by port_rules_changed() or
 * port_kick(), and are not closed. Only channels that
 * existed when port->next_number was @before count, because others may end at
 * any time. */
unsigned int port_ending(const struct port *port, unsigned int before);

/* Ends the nexuses of @initiator, of all principals. False: there is none. */
bool port_kick(struct port *port, const struct srp_port_id *initiator);

#endif
