/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency and bandwidth of a session, by exchanges that touch no volume. SEND
 * is a command without data: a SEND each way. WRITE is data-in, which the
 * target sends with RDMA WRITE; READ is data-out, which it fetches with RDMA
 * READ. Over TCP, the stream carries the same data.
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
	/* The caller sets it when the session has lost its connection. Then the
	 * measurements end. */
	const bool *lost;
};

/*
 * Adds findings and measurements to the report. False: the session must be
 * closed before any other use, because an exchange is still in flight. The
 * memory of exchanges stays for the life of the program.
 */
bool measure_session(const struct measuring *m);
/* Call this after the session is closed, and before the context ends. */
void measure_end(void);

#endif
