/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that rise when something is lost or has to wait: RNR and retransmissions of
 * an RDMA device, retransmissions of TCP. Thread: setup.
 */
#ifndef DOCTOR_COUNTERS_H
#define DOCTOR_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define COUNTERS_MAX 128

struct counters {
	struct counter {
		char name[64]; /* "rcvd_rnr_err" */
		uint64_t value;
	} all[COUNTERS_MAX];
	unsigned int cnt;
};

/* Reads the counters of RDMA device @device (its ports together), or, if there is
 * no such device, those of TCP on this machine. */
void counters_read(const char *device, struct counters *ret);

/* "rcvd_rnr_err +3, ...": what has risen, into @text; empty: nothing. */
void counters_risen(const struct counters *before, const struct counters *after,
		    char *text, size_t size);

#endif
