/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test provider, never for data: stands in for libibverbs and librdmacm, so
 * that transport/verbs runs, as it is, on a machine without an RDMA device.
 * It is a shared library for LD_PRELOAD, or to be linked before the two.
 *
 * FAKE_VERBS names the devices and their addresses, which must be of this
 * machine, and no others exist:
 *
 *     FAKE_VERBS="fake0=127.0.0.1,::1 fake1=127.0.0.2;reg_mr=12"
 *
 * After ';' stand calls that fail from the start, with what they return; see
 * enum fake_call. FAKE_VERBS_AWAY is a file with the names of devices that are
 * not there now, by words. It must exist from the start. When it is written,
 * devices are removed or come, and the kernel's uevents tell of it.
 *
 * Processes with devices of the same addresses reach each
 * other, if they are in one network namespace: a connection is a socket of
 * AF_UNIX, with a name without a file.
 *
 * What a device does, a thread of each process does (wire.c): it checks keys,
 * bounds and rights where the memory is, and copies. Unlike a card, it stands
 * still when its process is stopped. A process that is killed is noticed as the
 * kernel would tell of it: by a disconnect, and retries that run out.
 *
 * A program that breaks a rule of verbs ends with abort() and one line.
 */
#ifndef TESTS_VERBS_FAKE_VERBS_H
#define TESTS_VERBS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

enum fake_call {
	FAKE_OPEN_DEVICE, /* "open_device" */
	FAKE_REG_MR,	  /* "reg_mr" */
	FAKE_POST_SEND,	  /* "post_send" */
	FAKE_POLL_CQ,	  /* "poll_cq" */
	FAKE_DESTROY_QP,  /* "destroy_qp" */
	FAKE_CALLS,
};

/* Thread: any. @device: its name. A device that does not exist ends the
 * process. They are for the process that calls. */

/* From now on the call fails with @result: what it returns, or errno if it
 * returns a pointer. 0: it works. */
void fake_fail(const char *device, enum fake_call call, int result);
/* How many times it was called. */
unsigned int fake_called(const char *device, enum fake_call call);
/* How many memory regions the device has. */
unsigned int fake_regions(const char *device);
/* Sends an event of the device to each of its contexts. */
void fake_event(const char *device, enum ibv_event_type type);
/* An error of each completion queue of the device: its event, and the queue
 * delivers nothing more. */
void fake_cq_error(const char *device);
/* The address moves to device @to; NULL: it is on none. Each device that changes
 * sends GID_CHANGE. */
void fake_move(const char *addr, const char *to);
/* Sends an event of the connection manager to each cm_id that has the device. */
void fake_cm_event(const char *device, enum rdma_cm_event_type type);
/* The device is removed, or a new one of this name comes. */
void fake_list(const char *device, bool listed);

#endif
