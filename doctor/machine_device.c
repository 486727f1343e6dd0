/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA devices, as /sys/class/infiniband shows them. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/machine_file.h"
#include "doctor/machine_read.h"

#define CLASS "/sys/class/infiniband"

/* A port of a device that is being read. */
struct port_reader {
	const char *root;
	struct machine *m;
	struct machine_device *dev;
	struct machine_port *port;
};

/* "4: ACTIVE" */
static unsigned int numbered_text(const struct port_reader *r, const char *file,
				  char *text, size_t size)
{
	char line[64];
	const char *colon;

	machine_line(r->root, line, sizeof(line), CLASS "/%s/ports/%u/%s",
		     r->dev->name, r->port->number, file);
	colon = strchr(line, ':');
	snprintf(text, size, "%.*s", (int)size - 1,
		 colon ? colon + 1 + strspn(colon + 1, " ") : line);
	return (unsigned int)strtoul(line, NULL, 10);
}

/* ---- addresses ---- */

/* Writes the IP address of a RoCE GID. False: it is no GID, or an unused
 * one. */
static bool gid_address(const char *text, struct machine_gid *gid)
{
	struct in6_addr a;

	if (inet_pton(AF_INET6, text, &a) != 1 || IN6_IS_ADDR_UNSPECIFIED(&a))
		return false;
	gid->is_link_local = IN6_IS_ADDR_LINKLOCAL(&a);
	if (IN6_IS_ADDR_V4MAPPED(&a))
		inet_ntop(AF_INET, &a.s6_addr[12], gid->address,
			  sizeof(gid->address));
	else
		inet_ntop(AF_INET6, &a, gid->address, sizeof(gid->address));
	return true;
}

static bool gid_read(void *user, const char *index)
{
	struct port_reader *r = user;
	struct machine_port *p = r->port;
	struct machine_gid gid = { .index = (unsigned int)strtoul(index, NULL,
								  10) };
	char dir[MACHINE_PATH_SIZE];
	char text[64];

	snprintf(dir, sizeof(dir), CLASS "/%s/ports/%u", r->dev->name,
		 p->number);
	if (!machine_line(r->root, text, sizeof(text), "%s/gids/%s", dir,
			  index) ||
	    !gid_address(text, &gid))
		return true;
	machine_line(r->root, gid.type, sizeof(gid.type),
		     "%s/gid_attrs/types/%s", dir, index);
	machine_line(r->root, gid.netdev, sizeof(gid.netdev),
		     "%s/gid_attrs/ndevs/%s", dir, index);
	if (*p->netdev == '\0')
		memcpy(p->netdev, gid.netdev, sizeof(p->netdev));
	if (p->gid_cnt < MACHINE_GIDS_MAX)
		p->gids[p->gid_cnt++] = gid;
	else
		p->more_gids++;
	return true;
}

/* ---- ports ---- */

static void port_read_link(const struct port_reader *r)
{
	struct machine_port *p = r->port;

	p->state =
		numbered_text(r, "state", p->state_text, sizeof(p->state_text));
	numbered_text(r, "phys_state", p->phys_text, sizeof(p->phys_text));
	machine_line(r->root, p->link_layer, sizeof(p->link_layer),
		     CLASS "/%s/ports/%u/link_layer", r->dev->name, p->number);
	machine_line(r->root, p->rate, sizeof(p->rate),
		     CLASS "/%s/ports/%u/rate", r->dev->name, p->number);
}

static void port_read_netdev(const struct port_reader *r)
{
	struct machine_port *p = r->port;

	/* soft-RoCE reports the interface here, also without an address. */
	if (*p->netdev == '\0' && r->dev->is_soft)
		machine_line(r->root, p->netdev, sizeof(p->netdev),
			     CLASS "/%s/parent", r->dev->name);
	if (*p->netdev)
		p->netdev_mtu = (unsigned int)machine_number(
			r->root, 0, "/sys/class/net/%s/mtu", p->netdev);
}

static bool port_read(void *user, const char *name)
{
	struct port_reader *r = user;
	char dir[MACHINE_PATH_SIZE];

	if (r->dev->port_cnt == MACHINE_PORTS_MAX)
		return false;
	r->port = &r->dev->ports[r->dev->port_cnt++];
	r->port->number = (unsigned int)strtoul(name, NULL, 10);
	port_read_link(r);
	snprintf(dir, sizeof(dir), CLASS "/%s/ports/%s/gids", r->dev->name,
		 name);
	machine_each(r->root, dir, gid_read, r);
	port_read_netdev(r);
	return true;
}

/* ---- devices ---- */

static bool uverbs_read(void *user, const char *name)
{
	struct port_reader *r = user;
	char of[64];

	if (!machine_line(r->root, of, sizeof(of),
			  "/sys/class/infiniband_verbs/%s/ibdev", name) ||
	    strcmp(of, r->dev->name) != 0)
		return true;
	snprintf(r->dev->uverbs, sizeof(r->dev->uverbs), "%s", name);
	r->dev->opens = machine_try_open(r->root, "/dev/infiniband/%s", name);
	return false;
}

static void device_ask(struct machine_device *dev)
{
	dev->has_facts =
		!xp_device_facts(dev->name, &dev->facts, &dev->no_facts);
	if (!dev->has_facts)
		return;
	for (unsigned int i = 0; i < dev->port_cnt; i++) {
		struct machine_port *p = &dev->ports[i];

		if (p->number >= 1 && p->number <= dev->facts.port_cnt)
			p->active_mtu =
				dev->facts.ports[p->number - 1].active_mtu;
	}
}

static bool device_read(void *user, const char *name)
{
	struct port_reader *r = user;
	struct machine_device *dev;
	char path[MACHINE_PATH_SIZE];
	char type[32];

	if (r->m->device_cnt == MACHINE_DEVICES_MAX)
		return false;
	dev = r->dev = &r->m->devices[r->m->device_cnt++];
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	machine_line(r->root, dev->hca_type, sizeof(dev->hca_type),
		     CLASS "/%s/hca_type", name);
	machine_line(r->root, dev->firmware, sizeof(dev->firmware),
		     CLASS "/%s/fw_ver", name);
	machine_line(r->root, type, sizeof(type), CLASS "/%s/node_type", name);
	dev->is_iwarp = strtoul(type, NULL, 10) == 4; /* "4: RNIC" */
	dev->is_soft = machine_has(r->root, CLASS "/%s/parent", name);
	machine_each(r->root, "/sys/class/infiniband_verbs", uverbs_read, r);
	snprintf(path, sizeof(path), CLASS "/%s/ports", name);
	machine_each(r->root, path, port_read, r);
	if (*r->root == '\0' && *dev->uverbs && dev->opens == 0)
		device_ask(dev);
	return true;
}

static bool ipoib_read(void *user, const char *name)
{
	struct port_reader *r = user;

	/* ARPHRD_INFINIBAND */
	r->m->has_ipoib |= machine_number(r->root, 0, "/sys/class/net/%s/type",
					  name) == 32;
	return true;
}

void machine_read_devices(const char *root, struct machine *m)
{
	struct port_reader r = { .root = root, .m = m };

	machine_each(root, CLASS, device_read, &r);
	machine_each(root, "/sys/class/net", ipoib_read, &r);
	m->cm_opens = machine_try_open(root, "/dev/infiniband/rdma_cm");
}

static bool port_has_ip(const struct machine_port *port)
{
	for (unsigned int i = 0; i < port->gid_cnt; i++) {
		if (strcmp(port->gids[i].type, "RoCE v2") == 0)
			return true;
	}
	return false;
}

bool machine_port_is_usable(const struct machine *m,
			    const struct machine_port *port)
{
	if (port->state != MACHINE_PORT_ACTIVE)
		return false;
	return strcmp(port->link_layer, "InfiniBand") == 0 ? m->has_ipoib
							   : port_has_ip(port);
}
