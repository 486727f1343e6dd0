/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that grow if data is lost or has to wait: RNR and retransmissions of
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

/* Reads the counters of RDMA device @device, the sum of its ports. If there is
 * no such device, reads those of TCP on this machine. */
void counters_read(const char *device, struct counters *ret);

/* Writes the counters that have grown to @text: "rcvd_rnr_err +3, ..."; empty:
 * none. */
void counters_risen(const struct counters *before, const struct counters *after,
		    char *text, size_t size);

#endif
