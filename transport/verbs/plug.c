/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that come and go. When a device is removed, the kernel waits until no
 * process has it open any more (unless its driver can take it away from them),
 * so that the context must be closed at once. News of it comes by three ways,
 * in no certain order: uevents of the kernel, DEVICE_REMOVAL of the connection
 * manager, DEVICE_FATAL of the device. Each of them only starts a look at the
 * list of devices, which decides: the kernel removes a device from the list
 * before it announces that.
 */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel's multicast group; the other one is udev's. */
#define UEVENT_GROUP 1u
#define UEVENT_MAX   4096

static const char subsystem[] = "SUBSYSTEM=infiniband_verbs";

static void verbs_plug_tell(const struct vb_xp *vx,
			    enum xp_device_change change, const char *name,
			    const char *why)
{
	const struct xp_config *cfg = &vx->base.cfg;

	/* Devices that exist from the start are not announced. */
	if (cfg->device && vx->created)
		cfg->device(cfg->device_user, change, name, why);
}

void vb_plug_failed(const struct vb_dev *dev, const char *why)
{
	verbs_plug_tell(dev->vx, XP_DEVICE_FAILED, dev->name, why);
}

/* ---- looking ---- */

static bool vb_plug_is_listed(struct ibv_device *const *list, int cnt,
			      const struct vb_dev *dev)
{
	for (int i = 0; i < cnt; i++) {
		if (vb_dev_is(dev, list[i]))
			return true;
	}
	return false;
}

static void vb_plug_find_gone(struct vb_xp *vx, struct ibv_device *const *list,
			      int cnt)
{
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot) {
		if (!vb_dev_is_known(dev) || vb_plug_is_listed(list, cnt, dev))
			continue;
		if (dev->sick)
			vb_dev_removed(dev);
		else
			vb_dev_leave(dev);
		verbs_plug_tell(vx, XP_DEVICE_GONE, dev->name, "");
	}
}

static bool vb_plug_has(const struct vb_xp *vx, struct ibv_device *d)
{
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot) {
		if (vb_dev_is_known(dev) && vb_dev_is(dev, d))
			return true;
	}
	return false;
}

/* Reports a device once, however often the list is read. */
static void vb_plug_report_unusable(struct vb_xp *vx, const char *name,
				    const char *why)
{
	if (strcmp(vx->unusable, name) == 0)
		return;
	snprintf(vx->unusable, sizeof(vx->unusable), "%s", name);
	verbs_plug_tell(vx, XP_DEVICE_UNUSABLE, name, why);
}

/* True: there are new devices. */
static bool vb_plug_find_come(struct vb_xp *vx, struct ibv_device *const *list,
			      int cnt, struct error *e)
{
	bool some = false;

	for (int i = 0; i < cnt; i++) {
		const char *name = ibv_get_device_name(list[i]);

		if (vb_plug_has(vx, list[i]))
			continue;
		if (vb_dev_open(vx, list[i], e)) {
			vb_plug_report_unusable(vx, name, e->text);
			continue;
		}
		some = true;
		if (strcmp(vx->unusable, name) == 0)
			vx->unusable[0] = '\0';
		verbs_plug_tell(vx, XP_DEVICE_COME, name, "");
	}
	return some;
}

static bool vb_plug_is_there(const struct vb_dev *dev)
{
	int cnt = 0;
	struct ibv_device **list = ibv_get_device_list(&cnt);
	bool there = list && vb_plug_is_listed(list, cnt, dev);

	if (list)
		ibv_free_device_list(list);
	return there;
}

static void vb_plug_pin(struct vb_xp *vx)
{
	struct vb_dev *dev;
	bool lost;

	vb_for_each_dev(dev, vx, slot) {
		if (!vb_dev_is_known(dev))
			continue;
		lost = !vb_cm_pin(dev) && vb_plug_is_there(dev);
		if (lost && !dev->lost)
			vb_plug_failed(
				dev, "failed: librdmacm has lost it (versions "
				     "before 52 may): no logins there until "
				     "it is added anew, or this program "
				     "starts again");
		dev->lost = lost;
	}
}

static unsigned int serving(const struct vb_xp *vx)
{
	unsigned int n = 0;
	struct vb_dev *dev;

	vb_for_each_dev(dev, vx, slot)
		n += dev->state == VB_DEV_SERVING;
	return n;
}

unsigned int vb_plug_look(struct vb_xp *vx, struct error *e)
{
	struct error unasked;
	struct ibv_device **list;
	bool some;
	int cnt = 0;

	if (!e)
		e = &unasked;
	error_set(e, -ENODEV, "this machine has no RDMA device");
	list = ibv_get_device_list(&cnt);
	if (!list)
		return serving(vx);
	vb_plug_find_gone(vx, list, cnt);
	some = vb_plug_find_come(vx, list, cnt, e);
	ibv_free_device_list(list);
	vb_plug_pin(vx);
	if (serving(vx) == 0 || (!vx->cm && vb_cm_open(vx, e)))
		return 0;
	if (some)
		vb_listen_again(vx);
	return serving(vx);
}

/* ---- uevents ---- */

int vb_uevents_open(void)
{
	const struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups = UEVENT_GROUP,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	close(fd);
	return -1;
}

bool vb_uevents_read(int fd)
{
	char buf[UEVENT_MAX];
	bool some = false;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0 || errno == ENOBUFS) {
		if (n > 0 &&
		    !memmem(buf, (size_t)n, subsystem, strlen(subsystem)))
			continue;
		some = true; /* maybe one of the lost uevents was */
	}
	return some;
}

static void uevent_ready(struct reactor_watch *w, uint32_t events)
{
	struct vb_xp *vx = container_of(w, struct vb_watch, base)->owner;

	if (vb_uevents_read(vx->uevent_fd))
		vb_plug_look(vx, NULL);
}

void vb_plug_open(struct vb_xp *vx)
{
	int fd = vb_uevents_open();

	vx->uevent_fd = fd;
	if (fd < 0 ||
	    vb_watch_new(vx, fd, vx, uevent_ready, &vx->uevent_watch) == 0)
		return;
	close(fd);
	vx->uevent_fd = -1;
}

void vb_plug_close(struct vb_xp *vx)
{
	vb_watch_free(vx->uevent_watch);
	if (vx->uevent_fd >= 0)
		close(vx->uevent_fd);
}
