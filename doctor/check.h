/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of a machine: one row of a table for each, in the order of the
 * report. A check only evaluates facts, and reads nothing from the machine.
 *
 * A machine without an RDMA device has no problem: everything runs over TCP. A
 * machine with a device that cannot be used has a problem, because its owner
 * expects RDMA.
 *
 * Thread: setup.
 */
#ifndef DOCTOR_CHECK_H
#define DOCTOR_CHECK_H

#include "doctor/finding.h"
#include "doctor/machine.h"

/* The program that a check is for. */
enum check_for {
	CHECK_TARGET = 1u << 0, /* rdma-target */
	CHECK_CLIENT = 1u << 1, /* rdma-fuse, rdma-info, libsrpi */
	CHECK_ALL = CHECK_TARGET | CHECK_CLIENT,
};

struct check {
	const char *group;
	const char *name;
	unsigned int whom; /* of enum check_for */
	/* Adds findings: one, or one for each device or port, or none. */
	void (*look)(const struct check *check, const struct machine *m,
		     struct report *r);
};

/* Checks @m for the programs in @whom. */
void check_machine(const struct machine *m, unsigned int whom,
		   struct report *r);

/* check_device.c, check_host.c: rows that end with a row without a group. */
extern const struct check check_device_rows[];
extern const struct check check_host_rows[];

#endif
