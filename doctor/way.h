/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way from this machine to a target, in steps: name, route, port, path MTU,
 * connection and login, then exchanges that are measured. The report names the
 * first step that fails, and leaves out the steps after it.
 *
 * Each address of the URI is a group of findings. No volume is read or written.
 *
 * Thread: setup.
 */
#ifndef DOCTOR_WAY_H
#define DOCTOR_WAY_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "doctor/finding.h"
#include "transport/uri.h"

/* One address of the target that is examined. */
struct way {
	const struct xp_uri *uri; /* its identifiers, and the transport */
	struct report *report;
	const char *group; /* "10.0.0.1:5555", as the URI has it */
	const char *host;  /* a name or an address */
	unsigned int port;
	int timeout_ms; /* limit for each step */
	struct sockaddr_storage addr;
	socklen_t addr_len;
	char addr_text[80];	 /* "10.0.0.1:5555" */
	char numeric[64];	 /* "10.0.0.1", with the scope */
	char local[64];		 /* our address, without the port */
	char netdev[IFNAMSIZ];	 /* interface that has it; "": unknown */
	unsigned int netdev_mtu; /* bytes; 0: unknown */
	unsigned int path_mtu;	 /* bytes; 0: unknown */
	bool path_mtu_is_sure;	 /* packets of that length arrive */
};

/* Examines each address of @uri. @uri and @r must stay for the life of the
 * report. */
void way_examine(const struct xp_uri *uri, int timeout_ms, struct report *r);

struct finding *way_add(struct way *w, const char *name,
			enum finding_state state);

/* In way_login.c: connection, login and the following steps, over the transport
 * of the URI, or over the transports that exist. */
void way_log_in(struct way *w);

/* In way_port.c. False: the checks of this address end here. */
bool way_check_route(struct way *w);
bool way_check_port(struct way *w);
void way_check_path_mtu(struct way *w);

#endif
