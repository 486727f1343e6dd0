/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SRP login over RDMA/CM: the private data of REQ, REP and REJ, and the rules
 * for the target's answer. RDMA/CM has its own form of the request: 56 bytes,
 * in another order than SRP_LOGIN_REQ. Response and reject are the plain IUs.
 *
 * The private data length of a CM event is the capacity of the message, not
 * what the peer sent. So all bytes after the fixed sizes below are ignored.
 *
 * Thread: any, for everything here.
 */
#ifndef PROTOCOL_SRP_LOGIN_H
#define PROTOCOL_SRP_LOGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/srp_iu.h"
#include "protocol/wire.h"

#define SRP_LOGIN_REQ_SIZE 56
#define SRP_LOGIN_RSP_SIZE 52
#define SRP_LOGIN_REJ_SIZE 32

/* No IU length below this is allowed in a login (SRP r16a, SRP_LOGIN_REQ). */
#define SRP_IU_LEN_MIN 64

/* Linux puts immediate data here: behind an SRP_CMD with an indirect header. */
#define SRP_IMM_OFFSET 68

/* Initiator or target port identifier. */
struct srp_port_id {
	uint8_t b[16];
};

/* Multi-channel action, in a request. */
enum srp_multichan {
	SRP_MULTICHAN_SINGLE = 0, /* ends the other channels of the nexus */
	SRP_MULTICHAN_MULTI = 1,
};

/* Multi-channel result, in a response. */
enum srp_multichan_result {
	SRP_MULTICHAN_NO_CHAN = 0, /* there was no other channel */
	SRP_MULTICHAN_TERMINATED = 1,
	SRP_MULTICHAN_MAINTAINED = 2,
};

enum srp_rej_reason {
	SRP_REJ_UNSPECIFIED = 0x00010000,
	SRP_REJ_NO_RESOURCES = 0x00010001,
	SRP_REJ_IT_IU_LEN = 0x00010002, /* too large; Linux: or too small */
	SRP_REJ_NO_TARGET = 0x00010003, /* cannot associate with this nexus */
	SRP_REJ_FORMATS = 0x00010004,
	SRP_REJ_MULTICHAN = 0x00010005,
	SRP_REJ_CHANNEL_LIMIT = 0x00010006, /* ib_srpt: no access */
};

/* Login flags. */
#define SRP_LOGIN_MULTICHAN 0x03
#define SRP_LOGIN_AESOLNT   0x40 /* solicited notification of SRP_AER_REQ */
#define SRP_LOGIN_IMM_DATA  0x80 /* requested, or granted */

struct srp_wire_login_req {
	struct srp_wire_tag tag;
	struct wire_be16 formats;
	uint8_t flags;
	uint8_t opcode;
	struct wire_be32 it_iu_len;
	struct srp_port_id initiator;
	struct srp_port_id target;
	struct wire_be16 imm_offset;
	uint8_t reserved[6];
};

struct srp_wire_login_rsp {
	uint8_t opcode;
	uint8_t reserved1[3];
	struct wire_be32 req_lim;
	struct srp_wire_tag tag;
	struct wire_be32 it_iu_len;
	struct wire_be32 ti_iu_len;
	struct wire_be16 formats;
	uint8_t flags;
	uint8_t reserved2[25];
};

struct srp_wire_login_rej {
	uint8_t opcode;
	uint8_t reserved1[3];
	struct wire_be32 reason;
	struct srp_wire_tag tag;
	uint8_t reserved2[8];
	struct wire_be16 formats;
	uint8_t reserved3[6];
};

_Static_assert(sizeof(struct srp_wire_login_req) == SRP_LOGIN_REQ_SIZE, "rdma");
_Static_assert(sizeof(struct srp_wire_login_rsp) == SRP_LOGIN_RSP_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_login_rej) == SRP_LOGIN_REJ_SIZE, "r16a");

struct srp_login_req {
	uint64_t tag;
	uint32_t it_iu_len; /* longest IU the initiator wants to send */
	uint16_t formats;   /* SRP_FORMAT_* */
	uint8_t multichan;  /* enum srp_multichan, or reserved 2 and 3 */
	bool imm_data;
	uint16_t imm_offset; /* in bytes; counts only with imm_data */
	bool aer;	     /* wants a solicited notification of AERs */
	struct srp_port_id initiator;
	struct srp_port_id target; /* id_ext, then ioc_guid */
};

struct srp_login_rsp {
	uint64_t tag; /* of the request */
	int32_t req_lim;
	uint32_t it_iu_len; /* longest IU the target can receive */
	uint32_t ti_iu_len; /* longest IU the target may send */
	uint16_t formats;
	uint8_t multichan; /* enum srp_multichan_result */
	bool imm_data;
};

struct srp_login_rej {
	uint64_t tag;	 /* of the request */
	uint32_t reason; /* enum srp_rej_reason, or unknown */
	uint16_t formats;
};

/*
 * Decoders return 0, or -EBADMSG if the data is too short or has another
 * opcode. They write the result only on success. Encoders write all bytes,
 * reserved ones as zero, and return the size, or -ENOSPC.
 */
int srp_login_req_decode(const void *data, size_t len,
			 struct srp_login_req *ret);
int srp_login_req_encode(void *data, size_t cap,
			 const struct srp_login_req *req);
int srp_login_rsp_decode(const void *data, size_t len,
			 struct srp_login_rsp *ret);
int srp_login_rsp_encode(void *data, size_t cap,
			 const struct srp_login_rsp *rsp);
int srp_login_rej_decode(const void *data, size_t len,
			 struct srp_login_rej *ret);
int srp_login_rej_encode(void *data, size_t cap,
			 const struct srp_login_rej *rej);

/* What a target offers: the same for every login to a port. */
struct srp_login_policy {
	uint32_t max_it_iu_len; /* size of a receive buffer */
	uint32_t ti_iu_len;	/* ib_srp allocates its buffers once: do not
				 * change it */
	int32_t req_lim;	/* at least 2, or ib_srp gives up */
	uint16_t formats;	/* SRP_FORMATS */
	bool imm_data;
	bool multichan; /* more than one channel in a nexus */
	struct srp_port_id target;
	bool accept_unnamed_target; /* an all-zero target port identifier, too */
};

struct srp_login_answer {
	uint32_t reason; /* 0: accepted; else enum srp_rej_reason */
	/*
	 * Set if accepted. The multi-channel result is that of a nexus without
	 * other channels (SINGLE), or of one that keeps them (MULTI). The
	 * caller knows the nexus and sets SRP_MULTICHAN_TERMINATED.
	 */
	struct srp_login_rsp rsp;
	struct srp_cmd_rules rules; /* for srp_cmd_decode() on the channel */
	struct srp_login_rej rej;   /* when refused */
};

/**
 * srp_login_check() - the answer by the login rules alone
 *
 * The caller checks access and resources, which have reject reasons of their own.
 */
void srp_login_check(const struct srp_login_req *req,
		     const struct srp_login_policy *policy,
		     struct srp_login_answer *ret);

/**
 * srp_login_rsp_problem() - why an initiator cannot use a response
 * @req: the request
 *
 * Return: NULL if @rsp is usable, else a static sentence for the user.
 */
const char *srp_login_rsp_problem(const struct srp_login_rsp *rsp,
				  const struct srp_login_req *req);

/* Never NULL. The hint says what to check ("" for an unknown reason). */
const char *srp_rej_reason_name(uint32_t reason);
const char *srp_rej_reason_hint(uint32_t reason);

/* Port identifiers: two halves of eight bytes, or 32 hexadecimal digits. */

/* Of a target: id_ext and ioc_guid. Of an initiator: initiator_ext and GUID. */
struct srp_port_id srp_port_id_make(uint64_t ext, uint64_t guid);
uint64_t srp_port_id_ext(const struct srp_port_id *id);
uint64_t srp_port_id_guid(const struct srp_port_id *id);
bool srp_port_id_equal(const struct srp_port_id *a,
		       const struct srp_port_id *b);
bool srp_port_id_is_zero(const struct srp_port_id *id);

/* Exactly 32 digits, with or without 0x; else -EINVAL. */
int srp_port_id_parse(const char *text, struct srp_port_id *ret);

#define SRP_PORT_ID_TEXT_SIZE 35 /* "0x", 32 lower-case digits, NUL */

/* Returns @buf, which holds SRP_PORT_ID_TEXT_SIZE bytes. */
char *srp_port_id_format(const struct srp_port_id *id, char *buf);

#endif
