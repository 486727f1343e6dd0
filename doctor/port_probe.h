/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects to a port by TCP, and says who has refused it: the host, by TCP, or somebody
 * on the way, by ICMP. Thread: setup.
 */
#ifndef DOCTOR_PORT_PROBE_H
#define DOCTOR_PORT_PROBE_H

#include <stdbool.h>
#include <sys/socket.h>

struct port_answer {
	int err; /* errno of connecting; 0: the port takes connections */
	/* A firewall has rejected: no host itself answers so to a connection. */
	bool is_firewall;
	char from[64]; /* the address of that firewall */
};

void port_probe(const struct sockaddr *addr, socklen_t addr_len, int timeout_ms,
		struct port_answer *ret);

#endif
