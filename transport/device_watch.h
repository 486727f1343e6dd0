/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lets the kernel remove RDMA devices. It removes a device when no process has that open
 * any more, and librdmacm keeps each device open that an endpoint of RDMA (datagram.h) or
 * xp_reach() has used, also when those have ended. An instance of the provider
 * (xport.h) looks after this itself. A program that stays and may have none has a watch.
 *
 * Thread: any; each watch has one.
 */
#ifndef TRANSPORT_DEVICE_WATCH_H
#define TRANSPORT_DEVICE_WATCH_H

#include <stdbool.h>

struct ibv_context;

struct device_watch {
	int fd; /* readable when devices have changed; -1: the kernel does not say */
	struct ibv_context *
		*contexts; /* of librdmacm, which keeps them; or NULL */
};

/* Without uevents, the caller notices a change at its next device_watch_renew(). */
void device_watch_open(struct device_watch *w);
void device_watch_close(struct device_watch *w);

/* Takes the news. True: close all endpoints of RDMA, then call device_watch_renew(). */
bool device_watch_changed(struct device_watch *w);

/* Closes what librdmacm has of devices that are being removed, and finds new ones. No
 * endpoint of RDMA may be open. */
void device_watch_renew(struct device_watch *w);

#endif
