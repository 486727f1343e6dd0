/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that come and go while programs run, by a file that a test writes, and the
 * kernel's uevents about them. A socket for uevents is one of AF_UNIX here.
 */
#include "tests/verbs/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

static int file = -1;
static int watch = -1;

/* The other ends of sockets for uevents. */
static int uevents[256];
static unsigned int uevent_cnt;

/* ---- the file ---- */

static bool names_have(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = names; (p = strstr(p, name)); p += len) {
		if ((p == names || strchr(" \n", p[-1])) &&
		    (p[len] == '\0' || strchr(" \n", p[len])))
			return true;
	}
	return false;
}

static void device_follow(struct fv_device *dev, void *names)
{
	fv_device_list(dev->base.name, !names_have(names, dev->base.name));
}

static void plug_read(void)
{
	char names[256];
	ssize_t n = pread(file, names, sizeof(names) - 1, 0);

	if (n < 0)
		fv_bug("FAKE_VERBS_AWAY cannot be read");
	names[n] = '\0';
	fv_devices_each(device_follow, names);
}

void fv_plug_start(void)
{
	const char *path = getenv("FAKE_VERBS_AWAY");

	if (!path || watch >= 0)
		return;
	/* Not later: the program may give up its rights to files. */
	file = open(path, O_RDONLY | O_CLOEXEC);
	watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (inotify_add_watch(watch, path, IN_CLOSE_WRITE) < 0)
		fv_bug("FAKE_VERBS_AWAY cannot be watched");
	plug_read();
	fv_plug_watch(watch);
}

/* ---- uevents ---- */

void fv_plug_tell(void)
{
	static const char text[] = "SUBSYSTEM=infiniband_verbs";

	for (unsigned int i = 0; i < uevent_cnt; i++) {
		if (send(uevents[i], text, sizeof(text),
			 MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
		    errno == EAGAIN)
			continue;
		close(uevents[i]);
		uevents[i--] = uevents[--uevent_cnt];
	}
}

void fv_plug_changed(void)
{
	char events[4096];

	while (read(watch, events, sizeof(events)) > 0)
		;
	plug_read();
	fv_plug_tell();
}

static int uevents_open(int type)
{
	int fds[2];

	type &= SOCK_CLOEXEC | SOCK_NONBLOCK;
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | type, 0, fds))
		return -1;
	pthread_mutex_lock(&fv_lock);
	if (uevent_cnt == ARRAY_SIZE(uevents))
		fv_bug("too many sockets for uevents");
	uevents[uevent_cnt++] = fds[1];
	fv_wire_start();
	pthread_mutex_unlock(&fv_lock);
	return fds[0];
}

FV_API int socket(int domain, int type, int protocol)
{
	static int (*next)(int, int, int);

	if (domain == AF_NETLINK && protocol == NETLINK_KOBJECT_UEVENT)
		return uevents_open(type);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "socket");
	return next(domain, type, protocol);
}

FV_API int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	static int (*next)(int, const struct sockaddr *, socklen_t);
	int domain = 0;
	socklen_t size = sizeof(domain);

	if (addr->sa_family == AF_NETLINK &&
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
	    domain == AF_UNIX)
		return 0;
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "bind");
	return next(fd, addr, len);
}
