/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target port: which initiators may log in, and which channel belongs to
 * which nexus. Worker 0 owns it. Everything here runs on worker 0's thread,
 * unless a comment says otherwise.
 *
 * The fence. A login with the multi-channel action SINGLE replaces its nexus.
 * It is answered only when every older channel of that nexus is closed: the fabric
 * no longer touches the memory of their commands. What a store still has of them
 * keeps its blocks (block_owner.h), so that no newer write comes before it.
 */
#ifndef TARGET_PORT_PORT_H
#define TARGET_PORT_PORT_H

#include "config/option_limits.h"
#include "protocol/srp_login.h"
#include "target/port/channel.h"
#include "target/port/login_log.h"
#include "target/scsi/volume.h"
#include "target/port/worker.h"

#define PORT_LISTENERS_MAX 32
/*
 * Lost I_T nexuses that the process remembers. When the initiator comes back,
 * it is told of a nexus loss (29h/07h) and not of a power on (29h/01h).
 * Otherwise it would assume that unflushed writes are lost. As many as may be
 * logged in by default, because the target may end all of them at once.
 */
#define PORT_REMEMBERED PORT_LOGINS_DEFAULT

struct port {
	/* set before port_init() */
	struct worker *workers;
	unsigned int worker_cnt;
	struct lun_map *luns;
	struct access_rules allow; /* for volumes without rules of their own */
	/* NULL: the target has none. Later, port_keys_changed() changes it. */
	struct key_file *keys;
	/* Called once after port_stop(), when the last channel is gone. */
	void (*stopped)(struct port *port);
	void *user;

	struct port_limits limits; /* all zero: PORT_LIMITS_DEFAULT */

	/* private */
	struct access_names names; /* of keys */
	struct xp_keyring keyring; /* of all listeners, if there are keys */
	struct srp_login_policy policy;
	struct list nexuses;
	struct port_past_nexus {
		struct access_who who; /* at its last login */
		uint64_t view;	       /* lun_view_digest() */
		/* If the target has ended it: nexus.left, owned; else, or if
		 * that is empty, NULL. */
		struct lun_past *left;
	} remembered[PORT_REMEMBERED]; /* a ring: port_oldest_past() */
	unsigned int remembered_cnt;   /* since the start */
	unsigned int login_cnt;	       /* channels and waiting logins ... */
	unsigned int closed_cnt;       /* ... and channels that are closed, but
				        * not gone */
	unsigned int half_open_cnt;    /* those that are not yet established */
	unsigned int next_worker;      /* for the first channel of the next
				        * nexus */
	unsigned int next_number;
	uint64_t refused_cnt; /* logins that were rejected, since the start */
	/* One for each address over TCP, and later over RDMA. */
	struct port_listener {
		struct xp_listener *xl;
		unsigned int tag;
	} listeners[2 * PORT_LISTENERS_MAX];
	unsigned int listener_cnt;
	bool stopping;
	bool stopped_called;
	struct log_limit login_log;   /* limits lines that a peer can cause */
	struct login_log channel_log; /* logins and logouts */
	struct reactor_msg stopped_msg;
};

/* @id: the identifier of this port. Logins to an all-zero identifier are
 * accepted, too. */
void port_init(struct port *port, const struct srp_port_id *id);

/* One address on which the target listens. */
struct listen_point {
	enum xp_kind kind;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	struct xp_route route; /* as for xp_demand() */
	unsigned int tag;      /* for port_unlisten() */
	bool waits;	       /* for a device that has the address */
};

/* Listens with the transport of worker 0. @fd: a socket that listens there already, see
 * xp_listen_on(); -1: none. Return: 0, or -errno and @e; -ENOSPC: there are too many
 * listeners. */
int port_listen(struct port *port, const struct listen_point *at, int fd,
		struct error *e);
/* Listens as soon as a device has the address; see xp_listen_later(). */
int port_listen_later(struct port *port, const struct listen_point *at,
		      struct error *e);
/* Takes no more logins by all listeners of @tag. Channels go on. */
void port_unlisten(struct port *port, unsigned int tag);

/* Stops listening. Each channel answers its requests in flight and closes. Then
 * this calls port->stopped(), once, and never from within. */
void port_stop(struct port *port);

/* Rejects the waiting logins of @nexus. Its channels answer their requests in
 * flight and close. @why is static text. Frees @nexus if nothing of it is
 * left. */
void port_end_nexus(struct port *port, struct nexus *nexus, const char *why);

/* The nexus of the initiator port of @who whose principal, by the rules as they are now,
 * is that of @who. NULL: none, or it is over. */
struct nexus *port_find_nexus(const struct port *port,
			      const struct access_who *who);

/* True if each address and name from which @nexus has a channel or a waiting login is of one
 * principal. Any of them then sees the same volumes. */
bool port_has_one_principal(const struct port *port, const struct nexus *nexus);

/* The rules, or the volumes that have rules, are other ones: each session is of the groups that
 * these make. */
void port_regroup(struct port *port);

/* Stops listening; no channels may be left. */
void port_fini(struct port *port);

/* Tells all initiators that @vol has grown: by a unit attention, and by
 * SRP_AER_REQ to those that asked for it. */
void port_capacity_changed(struct port *port, const struct volume *vol);
/* Tells them that another target port may be active for @vol now. */
void port_access_changed(struct port *port, const struct volume *vol);

/* Sends SRP_AER_REQ on the channels of @nexus that want it. */
void port_send_aer(struct nexus *nexus, unsigned int lun,
		   enum channel_event event);

/* The connection of the channel is established. Thread: the worker of the
 * channel, as for the next function. */
void port_channel_opened(struct channel *ch);

/* The fabric has nothing of the channel any more: it does not count as a login. */
void port_channel_closed(struct channel *ch);

/* The last message of the worker of a channel; see channel.h. */
void port_channel_gone(struct channel *ch);

#endif
