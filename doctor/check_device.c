/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of RDMA devices: device, link, addresses, limits of devices. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor/check.h"

/* The maximum that RoCE adds to a packet: the kernel leaves this part of the
 * interface's MTU free (iboe_get_mtu() of Linux). */
#define ROCE_OVERHEAD 96u

/* The largest packet of RDMA. */
#define RDMA_MTU_MAX 4096u

static struct finding *device_add(const struct check *c, struct report *r,
				  enum finding_state state)
{
	return report_add(r, c->group, c->name, state);
}

/* ---- each device, each port ---- */

#define for_each_device(m, dev)                               \
	for (const struct machine_device *dev = (m)->devices; \
	     dev < (m)->devices + (m)->device_cnt; dev++)

#define for_each_port(dev, port)                             \
	for (const struct machine_port *port = (dev)->ports; \
	     port < (dev)->ports + (dev)->port_cnt; port++)

static bool check_is_ethernet(const struct machine_port *p)
{
	return strcmp(p->link_layer, "Ethernet") == 0;
}

static bool any_port_is_usable(const struct machine *m)
{
	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			if (machine_port_is_usable(m, port))
				return true;
		}
	}
	return false;
}

/* A port that cannot be used is a problem only if no other one can. */
static enum finding_state port_severity(const struct machine *m)
{
	return any_port_is_usable(m) ? FINDING_NOTE : FINDING_PROBLEM;
}

/* ---- device ---- */

static void no_device(const struct check *c, const struct machine *m,
		      struct report *r)
{
	struct finding *f = device_add(c, r, FINDING_NOTE);

	f->why = "Everything works over TCP, with more processor time for each "
		 "byte than over RDMA.";
	if (m->modules[MACHINE_RDMA_RXE] == MACHINE_MODULE_ABSENT) {
		finding_value(f,
			      "no RDMA device, and no soft-RoCE in kernel %s; "
			      "TCP is used",
			      m->kernel);
		return;
	}
	finding_value(f, "no RDMA device; TCP is used");
	finding_mend(f, "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev "
			"INTERFACE (soft-RoCE, for trials)");
}

static void look_devices(const struct check *c, const struct machine *m,
			 struct report *r)
{
	if (m->device_cnt == 0)
		no_device(c, m, r);
	for_each_device(m, dev)
	{
		struct finding *f = device_add(c, r, FINDING_OK);

		finding_value(f, "%s: %s%s%s%s", dev->name,
			      dev->is_iwarp    ? "iWARP"
			      : dev->is_soft   ? "soft-RoCE"
			      : *dev->hca_type ? dev->hca_type
					       : "RDMA device",
			      dev->is_soft && !dev->is_iwarp
				      ? " (in software, for trials)"
				      : "",
			      *dev->firmware ? ", firmware " : "",
			      dev->firmware);
	}
}

static void look_iwarp(const struct check *c, const struct machine *m,
		       struct report *r)
{
	for_each_device(m, dev)
	{
		struct finding *f;

		if (!dev->is_iwarp)
			continue;
		f = device_add(c, r, FINDING_NOTE);
		finding_value(f, "%s is an iWARP device", dev->name);
		f->why =
			"rdma-target does not serve over iWARP, whose RDMA READ "
			"needs memory that the peer may write.";
		finding_mend(f, "use TCP: rdma-target --listen srp+tcp://[::]");
	}
}

/* Writes why a file of /dev cannot be opened, and what to do. */
static void mend_node(struct finding *f, const struct machine *m, int err,
		      const char *module)
{
	if ((err == -ENOENT || err == -EPERM) && m->is_container)
		finding_mend(f, "docker run --device=/dev/infiniband "
				"--ulimit memlock=-1 ... (podman: the same)");
	else if (err == -ENOENT)
		finding_mend(f, "modprobe %s", module);
	else if (err == -EACCES)
		finding_mend(f, "chmod 666 /dev/infiniband/* (or install the "
				"udev rules of rdma-core)");
	else
		finding_mend(f, "dmesg | tail");
}

static void look_uverbs(const struct check *c, const struct machine *m,
			struct report *r)
{
	for_each_device(m, dev)
	{
		struct finding *f;

		if (*dev->uverbs == '\0') {
			f = device_add(c, r, FINDING_PROBLEM);
			finding_value(f, "%s has no file in /dev/infiniband",
				      dev->name);
			mend_node(f, m, -ENOENT, "ib_uverbs");
		} else if (dev->opens) {
			f = device_add(c, r, FINDING_PROBLEM);
			finding_value(f, "/dev/infiniband/%s of %s: %s",
				      dev->uverbs, dev->name,
				      strerror(-dev->opens));
			mend_node(f, m, dev->opens, "ib_uverbs");
		} else {
			f = device_add(c, r, FINDING_OK);
			finding_value(f, "/dev/infiniband/%s of %s",
				      dev->uverbs, dev->name);
		}
		f->why = "Programs reach an RDMA device through this file.";
	}
}

static void look_cm(const struct check *c, const struct machine *m,
		    struct report *r)
{
	struct finding *f;

	if (m->device_cnt == 0)
		return;
	f = device_add(c, r, m->cm_opens ? FINDING_PROBLEM : FINDING_OK);
	f->why = "Programs make connections through this file (RDMA connection "
		 "manager).";
	if (!m->cm_opens) {
		finding_value(f, "/dev/infiniband/rdma_cm");
		return;
	}
	finding_value(f, "/dev/infiniband/rdma_cm: %s", strerror(-m->cm_opens));
	mend_node(f, m, m->cm_opens, "rdma_ucm");
}

static void look_library(const struct check *c, const struct machine *m,
			 struct report *r)
{
	for_each_device(m, dev)
	{
		struct finding *f;

		if (dev->has_facts || dev->no_facts.err == 0)
			continue;
		f = device_add(c, r, FINDING_PROBLEM);
		finding_value(f, "%s", dev->no_facts.text);
		f->why = "The kernel has the device, but the RDMA library "
			 "cannot use it.";
		finding_mend(f, "apt-get install ibverbs-providers");
	}
}

/* ---- link ---- */

static void mend_link(struct finding *f, const struct machine_port *p)
{
	if (p->state == MACHINE_PORT_INIT && !check_is_ethernet(p))
		finding_mend(f, "systemctl start opensm (on one host of the "
				"fabric)");
	else if (*p->netdev)
		finding_mend(f, "ip link set dev %s up; ethtool %s", p->netdev,
			     p->netdev);
	else
		finding_mend(f, "check the cable, and the port of the switch");
}

static void look_link(const struct check *c, const struct machine *m,
		      struct report *r)
{
	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			bool up = port->state == MACHINE_PORT_ACTIVE;
			struct finding *f = device_add(
				c, r, up ? FINDING_OK : port_severity(m));

			finding_value(f, "%s port %u: %s, %s, %s, %s%s%s",
				      dev->name, port->number, port->state_text,
				      port->phys_text, port->link_layer,
				      port->rate, *port->netdev ? ", " : "",
				      port->netdev);
			if (up)
				continue;
			f->why = port->state == MACHINE_PORT_INIT &&
						 !check_is_ethernet(port)
					 ? "The port waits for a subnet "
					   "manager, which every InfiniBand "
					   "fabric needs."
					 : "No data passes a port that is "
					   "not ACTIVE.";
			mend_link(f, port);
		}
	}
}

/* Returns the largest RDMA packet that the interface can send. */
static unsigned int mtu_within(unsigned int netdev_mtu)
{
	unsigned int mtu = RDMA_MTU_MAX;

	while (mtu > 256 && mtu + ROCE_OVERHEAD > netdev_mtu)
		mtu /= 2;
	return mtu;
}

static void mtu_of_port(const struct check *c, const struct machine_device *dev,
			const struct machine_port *p, struct report *r)
{
	unsigned int best = mtu_within(p->netdev_mtu);
	struct finding *f;

	if (!check_is_ethernet(p) || p->netdev_mtu == 0) {
		f = device_add(c, r, FINDING_OK);
		finding_value(f, "%s port %u: %u", dev->name, p->number,
			      p->active_mtu);
		return;
	}
	f = device_add(c, r,
		       p->active_mtu == best && best == RDMA_MTU_MAX
			       ? FINDING_OK
			       : FINDING_NOTE);
	finding_value(f, "%s port %u: %u, with MTU %u of %s", dev->name,
		      p->number, p->active_mtu, p->netdev_mtu, p->netdev);
	if (p->active_mtu > best) {
		f->state = FINDING_PROBLEM;
		f->why = "The device sends packets that the interface drops as "
			 "too long.";
		finding_mend(f, "ip link set dev %s mtu 4200", p->netdev);
	} else if (p->active_mtu < best) {
		f->why = "The interface would take longer packets than the "
			 "device sends.";
		finding_mend(f,
			     "ip link set dev %s down; ip link set dev %s up",
			     p->netdev, p->netdev);
	} else if (best < RDMA_MTU_MAX) {
		f->why = "Packets of 4096 bytes need fewer headers and "
			 "interrupts; all hosts and switches must agree.";
		finding_mend(f, "ip link set dev %s mtu 4200", p->netdev);
	}
}

static void look_mtu(const struct check *c, const struct machine *m,
		     struct report *r)
{
	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			if (port->active_mtu)
				mtu_of_port(c, dev, port, r);
		}
	}
}

/* Reports ports that are both up and have different MTUs. */
static void look_mtus(const struct check *c, const struct machine *m,
		      struct report *r)
{
	const struct machine_device *first_dev = NULL;
	const struct machine_port *first = NULL;

	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			struct finding *f;

			if (port->state != MACHINE_PORT_ACTIVE ||
			    port->active_mtu == 0)
				continue;
			if (!first) {
				first = port;
				first_dev = dev;
			}
			if (port->active_mtu == first->active_mtu)
				continue;
			f = device_add(c, r, FINDING_NOTE);
			finding_value(f, "%s port %u has %u, %s port %u has %u",
				      first_dev->name, first->number,
				      first->active_mtu, dev->name,
				      port->number, port->active_mtu);
			f->why = "Two ports of one network that disagree about "
				 "the MTU lose long packets.";
			finding_mend(f, "ip link set dev %s mtu %u",
				     *port->netdev ? port->netdev : "INTERFACE",
				     first->netdev_mtu ? first->netdev_mtu
						       : 4200);
		}
	}
}

/* ---- addresses ---- */

static void list_addresses(const struct machine_port *p, char *text,
			   size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < p->gid_cnt && len < size; i++) {
		const struct machine_gid *g = &p->gids[i];

		len += (size_t)snprintf(text + len, size - len,
					"%s%u: %s (%s%s%s)", i ? ", " : "",
					g->index, g->address, g->type,
					*g->netdev ? ", " : "", g->netdev);
	}
	if (p->more_gids && len < size)
		snprintf(text + len, size - len, ", and %u more", p->more_gids);
}

static bool check_has_only_link_local(const struct machine_port *p)
{
	for (unsigned int i = 0; i < p->gid_cnt; i++) {
		if (!p->gids[i].is_link_local)
			return false;
	}
	return true;
}

static void roce_addresses(const struct check *c, const struct machine *m,
			   const struct machine_device *dev,
			   const struct machine_port *p, struct report *r)
{
	char list[400];
	struct finding *f;

	list_addresses(p, list, sizeof(list));
	f = device_add(c, r, FINDING_OK);
	finding_value(f, "%s port %u: GID %s", dev->name, p->number, list);
	if (machine_port_is_usable(m, p) || p->state != MACHINE_PORT_ACTIVE) {
		if (p->gid_cnt == 0 || !check_has_only_link_local(p))
			return;
		f->state = FINDING_NOTE;
		f->why = "A link-local address is reached only with the name "
			 "of the interface, as in [fe80::1%eth0].";
	} else {
		f->state = port_severity(m);
		f->why = "Connections are made between IP addresses.";
		if (p->gid_cnt == 0)
			finding_value(f, "%s port %u: no address of RoCE v2",
				      dev->name, p->number);
	}
	finding_mend(f, "ip address add ADDRESS/PREFIX dev %s",
		     *p->netdev ? p->netdev : "INTERFACE");
}

static void look_addresses(const struct check *c, const struct machine *m,
			   struct report *r)
{
	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			if (check_is_ethernet(port))
				roce_addresses(c, m, dev, port, r);
		}
	}
}

static void look_ipoib(const struct check *c, const struct machine *m,
		       struct report *r)
{
	bool is_needed = false;
	struct finding *f;

	for_each_device(m, dev)
	{
		for_each_port(dev, port)
		{
			is_needed |=
				strcmp(port->link_layer, "InfiniBand") == 0;
		}
	}
	if (!is_needed)
		return;
	f = device_add(c, r, m->has_ipoib ? FINDING_OK : port_severity(m));
	finding_value(f, "%s interface of IP over InfiniBand",
		      m->has_ipoib ? "an" : "no");
	f->why = "Connections are made between IP addresses, also over "
		 "InfiniBand.";
	finding_mend(f, "modprobe ib_ipoib; ip address add ADDRESS/PREFIX dev "
			"ib0");
}

/* ---- limits of devices ---- */

static void look_device_limits(const struct check *c, const struct machine *m,
			       struct report *r)
{
	for_each_device(m, dev)
	{
		const struct xp_device_facts *d = &dev->facts;
		struct finding *f;

		if (!dev->has_facts)
			continue;
		f = device_add(c, r, d->max_srq ? FINDING_OK : FINDING_NOTE);
		finding_value(f,
			      "%s: %u shared receive queues of %u, queues of "
			      "%u, inline data of %u bytes, READ depth %u "
			      "sent, %u answered",
			      dev->name, d->max_srq, d->max_srq_wr,
			      d->max_qp_wr, d->max_inline, d->read_depth,
			      d->answer_depth);
		f->why =
			"Without a shared receive queue, each connection needs "
			"receive buffers of its own.";
	}
}

static void look_read_depth(const struct check *c, const struct machine *m,
			    struct report *r)
{
	for_each_device(m, dev)
	{
		struct finding *f;

		if (!dev->has_facts ||
		    (dev->facts.read_depth && dev->facts.answer_depth))
			continue;
		f = device_add(c, r, FINDING_PROBLEM);
		finding_value(f, "%s: no RDMA READ", dev->name);
		f->why = "The target fetches the data of writes by RDMA READ.";
		finding_mend(f, "use another device, or srp+tcp://");
	}
}

const struct check check_device_rows[] = {
	{ "device", "device", CHECK_ALL, look_devices },
	{ "device", "iwarp", CHECK_TARGET, look_iwarp },
	{ "device", "file", CHECK_ALL, look_uverbs },
	{ "device", "connections", CHECK_ALL, look_cm },
	{ "device", "library", CHECK_ALL, look_library },
	{ "link", "port", CHECK_ALL, look_link },
	{ "link", "mtu", CHECK_ALL, look_mtu },
	{ "link", "same mtu", CHECK_ALL, look_mtus },
	{ "addresses", "gids", CHECK_ALL, look_addresses },
	{ "addresses", "ipoib", CHECK_ALL, look_ipoib },
	{ "limits", "device", CHECK_ALL, look_device_limits },
	{ "limits", "read depth", CHECK_ALL, look_read_depth },
	{ 0 },
};
