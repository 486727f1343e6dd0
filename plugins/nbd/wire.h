/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests and answers of NBD on a connection that libnbd has made, without TLS.
 *
 * libnbd makes a system call for each request, and one for each part of an
 * answer. Here, the requests of a turn leave together, and one call reads as
 * many answers as there are. With TLS, libnbd does this work, because the
 * session of TLS belongs to it.
 *
 * Thread: the worker of the connection's home.
 */
#ifndef NBD_WIRE_H
#define NBD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nbdconn;
struct nbdio;

#define NBDWIRE_REQUEST_LEN 28u
#define NBDWIRE_IN_LEN	    (64u << 10)

struct nbdwire {
	bool is_used; /* false: libnbd sends and reads */
	bool is_lost; /* the connection has ended, or the server has broken the
		       * protocol */
	bool is_blocked; /* the socket takes no more at present */
	bool has_structured;
	int fd;		 /* that of libnbd */
	uint64_t cookie; /* of the last request */
	/* The first request of nbdconn.sent that is not completely sent. NULL:
	 * none. */
	struct nbdio *unsent;
	size_t unsent_off; /* bytes of it that are sent */
	/* The answer that is being read. NULL: its header is next. */
	struct nbdio *reply;
	bool reply_ends; /* with this chunk */
	uint8_t *data;	 /* where its data goes. NULL: it is skipped */
	size_t data_left;
	/* Bytes that were read and are not used yet: from ... until. */
	size_t from;
	size_t until;
	uint8_t in[NBDWIRE_IN_LEN];
};

/* libnbd has made a connection: c->h. */
void nbdwire_begin(struct nbdconn *c);

/* Adds a request for the next piece of @n, the last one of c->sent. */
void nbdwire_ask(struct nbdconn *c, struct nbdio *n);

/* Sends what was added. */
void nbdwire_flush(struct nbdconn *c);

/* Reads answers once, and passes them to nbdconn_answered(). True: more may have
 * arrived. */
bool nbdwire_read(struct nbdconn *c);

#endif
