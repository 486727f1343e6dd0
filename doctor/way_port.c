/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps that need only sockets: route, port, path MTU. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "doctor/machine_file.h"
#include "doctor/port_probe.h"
#include "doctor/way.h"

/* Probes are sent to the port "discard", where no program should answer. The
 * host itself then reports that nobody listens. */
#define PROBE_PORT 9

#define PROBE_MS 300

/* Longer packets are not sent by RDMA devices. */
#define PROBE_MAX 9000u

/* ---- meaning of the kernel's errnos ---- */

static const struct port_fault {
	int err;
	const char *what; /* text after the address */
	const char *why;
	bool asks_route; /* the command begins with "ip route get ADDRESS" */
	const char *mend;
} port_faults[] = {
	{ ECONNREFUSED,
	  "connection refused: nobody listens on that port, or a firewall "
	  "rejects",
	  "The host itself, or a firewall in front of it, has refused the "
	  "connection.",
	  false,
	  "on the target: systemctl status rdma-target; ss -tlnp; nft list "
	  "ruleset" },
	{ ETIMEDOUT,
	  "no answer: a firewall drops the packets, or the host is down",
	  "Neither the host nor a router has answered.", true,
	  "ip neigh; on the target: nft list ruleset" },
	{ EHOSTUNREACH,
	  "no route to host: no host answers to that address, a route is of "
	  "type unreachable, or a firewall rejects",
	  "A router, a firewall or this machine itself says that the host "
	  "cannot be reached.",
	  true, "ip neigh; on the target: nft list ruleset" },
	{ ENETUNREACH, "there is no route to that network",
	  "The tables of this machine, or of a router, have no route.", true,
	  "ip route add NETWORK via ROUTER" },
	{ EACCES, "a route of type prohibit, or a firewall, forbids it",
	  "The administrator of this machine, or of a router, has forbidden "
	  "the way.",
	  true, "nft list ruleset" },
	{ EPERM, "a firewall of this machine forbids it",
	  "The packet has not left this machine.", false, "nft list ruleset" },
	{ EINVAL,
	  "a route of type blackhole drops the packets, or a link-local "
	  "address has no interface",
	  "This machine has nowhere to send the packets.", true,
	  "or name the interface, as in [fe80::1%eth0]" },
};

static void port_failed(struct way *w, const char *step, int err)
{
	struct finding *f = way_add(w, step, FINDING_PROBLEM);

	for (size_t i = 0; i < ARRAY_SIZE(port_faults); i++) {
		const struct port_fault *fault = &port_faults[i];

		if (fault->err != err)
			continue;
		finding_value(f, "%s: %s", w->addr_text, fault->what);
		f->why = fault->why;
		finding_mend(f, "%s%s%s%s",
			     fault->asks_route ? "ip route get " : "",
			     fault->asks_route ? w->numeric : "",
			     fault->asks_route ? "; " : "", fault->mend);
		return;
	}
	finding_value(f, "%s: %s", w->addr_text, strerror(err));
	f->why = "The kernel of this machine refuses the connection.";
	finding_mend(f, "ip route get %s", w->numeric);
}

/* ---- route ---- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!a || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)a)
			       ->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)(const void *)b)
			       ->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
		      sizeof(struct in6_addr)) == 0;
}

/* Finds the interface that has our address. */
static void find_netdev(struct way *w, const struct sockaddr *local)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!same_address(i->ifa_addr, local))
			continue;
		snprintf(w->netdev, sizeof(w->netdev), "%s", i->ifa_name);
		break;
	}
	freeifaddrs(all);
	if (*w->netdev)
		w->netdev_mtu = (unsigned int)machine_number(
			"", 0, "/sys/class/net/%s/mtu", w->netdev);
}

/* Makes a socket for datagrams to @port of the host. Nothing is sent yet. */
static int datagram_socket(const struct way *w, unsigned int port)
{
	struct sockaddr_storage to = w->addr;
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	if (fd < 0)
		return -errno;
	if (to.ss_family == AF_INET)
		((struct sockaddr_in *)(void *)&to)->sin_port =
			htons((uint16_t)port);
	else
		((struct sockaddr_in6 *)(void *)&to)->sin6_port =
			htons((uint16_t)port);
	if (connect(fd, (struct sockaddr *)&to, w->addr_len)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

bool way_check_route(struct way *w)
{
	struct sockaddr_storage local = { 0 };
	socklen_t len = sizeof(local);
	int fd = datagram_socket(w, w->port);
	struct finding *f;

	if (fd < 0) {
		port_failed(w, "route", -fd);
		return false;
	}
	if (getsockname(fd, (struct sockaddr *)&local, &len) == 0) {
		find_netdev(w, (struct sockaddr *)&local);
		if (getnameinfo((struct sockaddr *)&local, len, w->local,
				sizeof(w->local), NULL, 0, NI_NUMERICHOST))
			w->local[0] = '\0';
	}
	close(fd);
	f = way_add(w, "route", FINDING_OK);
	finding_value(f, "to %s from %s%s%s", w->numeric, w->local,
		      *w->netdev ? ", " : "", w->netdev);
	return true;
}

/* ---- port ---- */

static void port_rejected(struct way *w, const struct port_answer *a)
{
	struct finding *f = way_add(w, "port", FINDING_PROBLEM);

	finding_value(f, "%s: a firewall rejects: %s has answered by ICMP",
		      w->addr_text, a->from);
	f->why = "A host itself answers by TCP, also where nobody listens.";
	finding_mend(f, "on %s: nft list ruleset; open port %u of TCP", a->from,
		     w->port);
}

bool way_check_port(struct way *w)
{
	struct port_answer answer;
	struct finding *f;

	port_probe((const struct sockaddr *)&w->addr, w->addr_len,
		   w->timeout_ms, &answer);
	if (answer.is_firewall) {
		port_rejected(w, &answer);
		return false;
	}
	if (answer.err) {
		port_failed(w, "port", answer.err);
		return false;
	}
	f = way_add(w, "port", FINDING_OK);
	finding_value(f, "%s accepts connections of TCP", w->addr_text);
	return true;
}

/* ---- path MTU ---- */

static unsigned int path_mtu_of(const struct way *w, int fd)
{
	bool is_v4 = w->addr.ss_family == AF_INET;
	int mtu = 0;
	socklen_t len = sizeof(mtu);

	if (getsockopt(fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
		       is_v4 ? IP_MTU : IPV6_MTU, &mtu, &len) ||
	    mtu < 0)
		return 0;
	return (unsigned int)mtu;
}

/* Forbids fragments: a router that cannot forward a packet must report this. */
static bool forbid_fragments(const struct way *w, int fd)
{
	int how = IP_PMTUDISC_DO;

	if (w->addr.ss_family == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &how,
				  sizeof(how)) == 0;
	how = IPV6_PMTUDISC_DO;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &how,
			  sizeof(how)) == 0;
}

/*
 * Sends one packet of @mtu bytes. Returns 0 if the host has answered that
 * nobody listens, so that the packet has arrived; EMSGSIZE if it is too long
 * for the path; another errno; or ETIMEDOUT.
 */
static int probe_once(const struct way *w, int fd, unsigned int mtu)
{
	static char zeroes[PROBE_MAX];
	size_t headers = w->addr.ss_family == AF_INET ? 28 : 48;
	struct pollfd p = { .fd = fd };
	socklen_t len = sizeof(int);
	int err = 0;

	if (send(fd, zeroes, mtu - headers, 0) < 0)
		return errno;
	if (poll(&p, 1, PROBE_MS) != 1)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err == ECONNREFUSED ? 0 : err;
}

static void probe_path(struct way *w, int fd)
{
	for (int tries = 0; tries < 3; tries++) {
		unsigned int mtu = path_mtu_of(w, fd);
		int err;

		if (mtu < 576)
			return;
		w->path_mtu = mtu > PROBE_MAX ? PROBE_MAX : mtu;
		err = probe_once(w, fd, w->path_mtu);
		w->path_mtu_is_sure = err == 0;
		if (err != EMSGSIZE)
			return;
	}
}

static void tell_path_mtu(struct way *w)
{
	bool shorter = w->netdev_mtu && w->path_mtu < w->netdev_mtu &&
		       w->path_mtu < PROBE_MAX;
	struct finding *f =
		way_add(w, "path mtu", shorter ? FINDING_NOTE : FINDING_OK);

	if (shorter)
		finding_value(f, "%u bytes; %s has %u", w->path_mtu, w->netdev,
			      w->netdev_mtu);
	else
		finding_value(f, "%s%u bytes%s",
			      w->path_mtu == PROBE_MAX ? "at least " : "",
			      w->path_mtu,
			      w->path_mtu_is_sure
				      ? ""
				      : " by the interface; the host does not "
					"answer a probe");
	f->why = "A router on the way takes only shorter packets than this "
		 "interface; packets of RDMA cannot be split.";
	finding_mend(f, "tracepath %s; ip link set dev %s mtu %u", w->numeric,
		     *w->netdev ? w->netdev : "INTERFACE", w->path_mtu);
}

void way_check_path_mtu(struct way *w)
{
	int fd = datagram_socket(w, PROBE_PORT);

	if (fd < 0)
		return;
	if (forbid_fragments(w, fd))
		probe_path(w, fd);
	close(fd);
	if (w->path_mtu)
		tell_path_mtu(w);
}
