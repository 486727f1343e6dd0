/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency and bandwidth of a session, by exchanges that touch no volume. SEND is a
 * command without data: a SEND each way. WRITE is data-in, which the target moves by
 * RDMA WRITE; READ is data-out, which it fetches by RDMA READ. Over TCP, data goes the
 * same ways in the stream.
 *
 * Thread: setup.
 */
#ifndef DOCTOR_MEASURE_H
#define DOCTOR_MEASURE_H

#include "doctor/finding.h"
#include "initiator/srp_initiator.h"

struct measuring {
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	struct report *report;
	const char *group;
	/* The caller sets it when the session has lost its connection: measuring
	 * ends. */
	const bool *lost;
};

/*
 * Adds findings and measurements to the report. False: the session must be closed
 * before anything else, as an exchange is still under way. The memory of exchanges
 * stays for the life of the program.
 */
bool measure_session(const struct measuring *m);
/* After the session is closed, and before the context ends. */
void measure_end(void);

#endif
