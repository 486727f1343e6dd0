/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What changes about a port while initiators are logged in: volumes come and go,
 * access rules change. Worker 0 owns the views of all nexuses; the others look at
 * them (scsi_nexus_slot()).
 *
 * A volume that goes: port_volume_leaves(), task_mgmt_evict(), port_volume_gone(),
 * then worker_remove_volume() on each worker. When each has done that, nobody has
 * the volume any more.
 *
 * Thread: worker 0.
 */
#ifndef TARGET_PORT_PORT_CHANGE_H
#define TARGET_PORT_PORT_CHANGE_H

#include "target/port/port.h"

/* Every worker has @vol: puts it behind the others of port->luns, and shows it to
 * the nexuses that may see it, but for those to which its LUN was another volume
 * (nexus_keep_meaning()). They get REPORTED LUNS DATA HAS CHANGED. */
void port_volume_added(struct port *port, struct volume *vol);

/* The name of an initiator that is logged in and sees @vol; NULL: none. */
const char *port_volume_user(const struct port *port, const struct volume *vol);

/* Takes @vol off port->luns: neither a new login nor a new command finds it. */
void port_volume_leaves(struct port *port, struct volume *vol);

/* Nothing of @vol is in flight: takes it from the views of all nexuses. They get
 * REPORTED LUNS DATA HAS CHANGED. */
void port_volume_gone(struct port *port, struct volume *vol);

/*
 * Rules have changed: ends the nexuses that by the rules of now would see other
 * volumes. They may log in again at once. Returns how many.
 */
unsigned int port_rules_changed(struct port *port);

/* One I_T nexus, for people. */
struct port_session {
	char initiator[SRP_PORT_ID_TEXT_SIZE];
	struct in6_addr addr; /* IPv4: mapped */
	unsigned int channels;
	unsigned int volumes; /* that it sees */
};

/* Fills in @ret with at most @max of them; returns how many there are. */
unsigned int port_sessions(const struct port *port, struct port_session *ret,
			   unsigned int max);

/* Channels that have been told to end, as port_rules_changed() and port_kick() do,
 * and whose commands may still touch a volume; of those that were there when
 * port->next_number was @before, as there may always be some that end. */
unsigned int port_ending(const struct port *port, unsigned int before);

/* Ends the nexus of @initiator; false: there is none. */
bool port_kick(struct port *port, const struct srp_port_id *initiator);

#endif
