/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target port: who may log in, and which channel belongs to whom. Worker 0
 * owns it; everything here runs on its thread unless it says otherwise.
 *
 * The fence. A login with multi-channel action SINGLE replaces its nexus: it
 * is answered only when every older channel of that nexus is gone, that is,
 * when the fabric has let go of them and every command of theirs has left the
 * backend. Only then may the initiator send its commands again; otherwise an
 * old write could land after a newer one.
 */
#ifndef TARGET_PORT_PORT_H
#define TARGET_PORT_PORT_H

#include "protocol/srp_login.h"
#include "target/port/channel.h"
#include "target/port/login_log.h"
#include "target/scsi/volume.h"
#include "target/port/worker.h"

/*
 * What initiators can make grow. A login counts from its request until its
 * channel is gone, and is half open until its connection is established.
 */
struct port_limits {
	unsigned int logins;	     /* of all */
	unsigned int host_logins;    /* from one address */
	unsigned int half_open;	     /* of all */
	unsigned int host_half_open; /* from one address */
	unsigned int channels; /* of one I_T nexus, waiting logins included;
				* ib_srp opens one per processor or so */
};

#define PORT_LOGINS_DEFAULT	    4096
#define PORT_HOST_LOGINS_DEFAULT    1024
#define PORT_HALF_OPEN_DEFAULT	    512
#define PORT_HOST_HALF_OPEN_DEFAULT 128
#define PORT_CHANNELS_DEFAULT	    64
#define PORT_LIMITS_DEFAULT                                    \
	{                                                      \
		.logins = PORT_LOGINS_DEFAULT,                 \
		.host_logins = PORT_HOST_LOGINS_DEFAULT,       \
		.half_open = PORT_HALF_OPEN_DEFAULT,           \
		.host_half_open = PORT_HOST_HALF_OPEN_DEFAULT, \
		.channels = PORT_CHANNELS_DEFAULT,             \
	}
/* How long a login waits for the channels it replaces to go. */
#define PORT_FENCE_MS	   10000
#define PORT_LISTENERS_MAX 32
/*
 * I_T nexuses that are gone, but that this process remembers: when one comes
 * back it is told of a nexus loss (29h/07h), not of a power on (29h/01h), by
 * which an initiator may know that unflushed writes are lost.
 */
#define PORT_REMEMBERED 256

struct port {
	/* set before port_init() */
	struct worker *workers;
	unsigned int worker_cnt;
	struct lun_map *luns;
	struct access_rules allow; /* for volumes without rules */
	/* Called once after port_stop() when the last channel is gone. */
	void (*stopped)(struct port *port);
	void *user;

	struct port_limits limits; /* all zero: PORT_LIMITS_DEFAULT */
	/* port_init() sets it to PORT_FENCE_MS */
	unsigned int fence_ms;

	/* the port's */
	struct srp_login_policy policy;
	struct list nexuses;
	struct port_past_nexus {
		struct srp_port_id initiator;
		struct srp_port_id target;
		uint64_t view;	       /* lun_view_digest() */
	} remembered[PORT_REMEMBERED]; /* a ring, oldest overwritten */
	unsigned int remembered_cnt;   /* in all */
	unsigned int login_cnt;	       /* channels and waiting logins */
	unsigned int half_open_cnt;    /* of these, not yet established */
	struct list quotas;	       /* struct login_quota, node */
	unsigned int next_worker;      /* for a nexus's first channel */
	unsigned int next_number;
	/* Each address by TCP, and later by RDMA. */
	struct xp_listener *listeners[2 * PORT_LISTENERS_MAX];
	unsigned int listener_cnt;
	bool stopping;
	bool stopped_called;
	struct log_limit login_log;   /* lines that a peer can provoke */
	struct login_log channel_log; /* logins and logouts */
	struct reactor_msg stopped_msg;
};

/* @id: what this port answers to; logins to an all-zero one are taken too. */
void port_init(struct port *port, const struct srp_port_id *id);

/* Listens on worker 0's transport @kind. Return: 0, or -errno and @e. */
int port_listen(struct port *port, enum xp_kind kind,
		const struct sockaddr *addr, socklen_t addr_len,
		struct error *e);
/* The same as soon as a device has the address; see xp_listen_later(). */
int port_listen_later(struct port *port, enum xp_kind kind,
		      const struct sockaddr *addr, socklen_t addr_len,
		      struct error *e);

/* Stops listening, has every channel answer what is in flight and close, then
 * calls port->stopped(), never from within. Once. */
void port_stop(struct port *port);

/* Refuses the logins of @nexus that wait, and has its channels answer what is in
 * flight and close. @why is static text. Frees @nexus if nothing of it is left. */
void port_end_nexus(struct port *port, struct nexus *nexus, const char *why);

/* Stops listening; no channels may be left. */
void port_fini(struct port *port);

/* Tells everyone, by a unit attention and where wanted by SRP_AER_REQ, that
 * @vol has grown. */
void port_capacity_changed(struct port *port, const struct volume *vol);

/* Its connection is established. Thread: the channel's worker, as the next. */
void port_channel_opened(struct channel *ch);

/* The last word of a channel's worker; see channel.h. */
void port_channel_gone(struct channel *ch);

#endif
