/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exchanges with a target that do not touch a volume, for measurements; and the
 * details of a failed login, which srpi_error lacks. This is no part of libsrpi's
 * interface: only programs of this project use it, with the library of their build.
 *
 * Thread: that of the context.
 */
#ifndef INITIATOR_EXCHANGE_H
#define INITIATOR_EXCHANGE_H

#include "initiator/command.h"
#include "initiator/srp_initiator.h"

enum ini_exchange_kind {
	INI_EXCHANGE_SEND,	  /* INQUIRY without data: a SEND each way */
	INI_EXCHANGE_INQUIRY,	  /* data-in, as far as the target has it */
	INI_EXCHANGE_READ_ECHO,	  /* data-in: READ BUFFER of the echo buffer */
	INI_EXCHANGE_WRITE_ECHO,  /* data-out: WRITE BUFFER */
	INI_EXCHANGE_READ_BUFFER, /* the same of buffer 0 */
	INI_EXCHANGE_WRITE_BUFFER,
};

/* One exchange. The caller keeps it and its buffer until done(). */
struct ini_exchange {
	enum ini_exchange_kind kind;
	void *buf; /* not of SEND */
	uint32_t len;
	struct srpi_mem *mem; /* that buf lies in */
	/* @err: 0, -EOPNOTSUPP or -EINVAL (the target does not have the command,
	 * the mode or the length), other negative errnos. Never called within
	 * ini_exchange_begin(). */
	void (*done)(struct ini_exchange *x, int err);
	void *arg; /* for the caller */

	struct ini_cmd cmd; /* private */
};

/* Sends it to the first volume of a RUNNING session; to LUN 0 if there is none. */
void ini_exchange_begin(struct srpi_session *s, struct ini_exchange *x);

/* Is it a target whose buffer 0 nothing else uses? Of rdma-target this is known; what
 * another target keeps there is its vendor's affair. */
bool ini_exchange_has_buffer(const struct srpi_session *s);

/* Why the last login of @s failed. */
struct ini_login_failure {
	bool is_rejected; /* by the target, with SRP_LOGIN_REJ */
	uint32_t reason;  /* of the reject, SRP_REJ_... */
	int err;	  /* of the transport */
	const char *text; /* the same in words; valid until srpi_close() */
};

void ini_login_failure(const struct srpi_session *s,
		       struct ini_login_failure *ret);

#endif
