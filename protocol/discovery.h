/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages by which targets are found. They are ours; no standard has them.
 *
 * All three kinds have one layout: struct discovery_wire; the instance; the URIs, each
 * with its length, of two bytes, before it; zeros, as many as the sender likes; and, if
 * the flag says so, a code of DISCOVERY_CODE_LEN bytes.
 *
 * A query is as long as a third of the longest answer, so that a target is of no use to
 * somebody who wants to flood a third party: an answer has at most
 * DISCOVERY_GAIN times the bytes of the query.
 *
 * What a message says is a hint. An answer repeats the nonce of the query. Announcements
 * that nobody asked for, and byes, have the nonce 0: whoever hears one asks the target
 * itself. A login then proves the port identifier.
 *
 * The code is HMAC-SHA256 of the message before it, under a key that the targets and
 * those who look for them share; see base/hmac.h.
 *
 * Thread: any.
 */
#ifndef PROTOCOL_DISCOVERY_H
#define PROTOCOL_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/srp_login.h"
#include "protocol/wire.h"

#define DISCOVERY_MSG_MAX 1000 /* bytes; fits into every MTU */
#define DISCOVERY_GAIN	  3
#define DISCOVERY_QUERY_LEN \
	((DISCOVERY_MSG_MAX + DISCOVERY_GAIN - 1) / DISCOVERY_GAIN)
#define DISCOVERY_CODE_LEN	32
#define DISCOVERY_INSTANCE_SIZE 65 /* with the final zero */
#define DISCOVERY_URIS_MAX	16
#define DISCOVERY_URI_SIZE	128 /* with the final zero */

enum discovery_kind {
	DISCOVERY_QUERY = 1,
	DISCOVERY_ANNOUNCE = 2, /* an answer, or a target has come */
	DISCOVERY_BYE = 3,	/* a target goes */
};

#define DISCOVERY_MAGIC	    0x53525064u /* "SRPd" */
#define DISCOVERY_VERSION   1
#define DISCOVERY_FLAG_CODE 0x01

struct discovery_wire {
	struct wire_be32 magic;
	uint8_t version;
	uint8_t kind; /* enum discovery_kind */
	uint8_t flags;
	uint8_t uri_cnt;
	struct wire_be64 nonce;
	struct srp_port_id target; /* zeros in a query */
	uint8_t instance_len;
};

struct discovery_msg {
	enum discovery_kind kind;
	uint64_t nonce;
	struct srp_port_id id; /* of the target */
	/* What people call the target. Printable ASCII without spaces, as the URIs. */
	char instance[DISCOVERY_INSTANCE_SIZE];
	/* Where it listens: srp+rdma://ADDR:PORT, srp+tcp://ADDR:PORT. A wildcard
	 * (0.0.0.0, [::]) stands for the address that the message comes from, unless
	 * there is a key: a code does not cover that. */
	char uris[DISCOVERY_URIS_MAX][DISCOVERY_URI_SIZE];
	unsigned int uri_cnt;
};

/*
 * Writes @msg, of at least @min_len bytes, to @buf of DISCOVERY_MSG_MAX bytes. URIs that
 * do not fit into @max_len bytes are left out. @code is called with the message to write
 * its code to @ret_code; NULL: none.
 *
 * Return: its length; -ENOSPC: @max_len is too short for any.
 */
int discovery_encode(uint8_t *buf, size_t min_len, size_t max_len,
		     const struct discovery_msg *msg,
		     void (*code)(void *user, const void *data, size_t len,
				  uint8_t *ret_code),
		     void *user);

/*
 * Reads @len bytes. *ret_signed: bytes before the code; 0: there is none. Whoever has a
 * key checks it.
 *
 * Return: 0; -EPROTO: not such a message, or one of another version. Then @ret is not
 * written.
 */
int discovery_decode(const void *data, size_t len, struct discovery_msg *ret,
		     size_t *ret_signed);

/* Adds @uri to @msg. False: there is no place, or it has other characters. */
bool discovery_add_uri(struct discovery_msg *msg, const char *uri);
/* Sets the instance to @text, without what is not allowed in one. */
void discovery_set_instance(struct discovery_msg *msg, const char *text);

#endif
