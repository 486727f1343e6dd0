/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SRP information units: their layouts, decoded into typed values and encoded
 * from them (SRP r16a, and the immediate data of SRP2 as Linux speaks it).
 * Login lives in srp_login.h, request-limit arithmetic in srp_credit.h.
 *
 * Decoders take the number of bytes *received* (from the work completion),
 * never the size of the buffer. They write their result only on success, and
 * what a result points to lies inside the IU: it is borrowed for as long as
 * the IU is. Encoders return the length of the IU they wrote, or -ENOSPC when
 * @cap is too small. Values are in host order; a tag is eight opaque bytes
 * kept in a uint64_t, to be compared and echoed but never swapped.
 *
 * Thread: any, for everything here.
 */
#ifndef PROTOCOL_SRP_IU_H
#define PROTOCOL_SRP_IU_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol/wire.h"

enum srp_opcode {
	/* initiator to target */
	SRP_LOGIN_REQ = 0x00, /* only as CM private data */
	SRP_TSK_MGMT = 0x01,
	SRP_CMD = 0x02,
	SRP_I_LOGOUT = 0x03,
	SRP_CRED_RSP = 0x41,
	SRP_AER_RSP = 0x42,
	/* target to initiator */
	SRP_T_LOGOUT = 0x80,
	SRP_CRED_REQ = 0x81,
	SRP_AER_REQ = 0x82,
	SRP_LOGIN_RSP = 0xc0, /* only as CM private data */
	SRP_RSP = 0xc1,
	SRP_LOGIN_REJ = 0xc2, /* only as CM private data */
};

/* The four-bit data format codes of SRP_CMD. */
enum srp_data_format {
	SRP_DATA_NONE = 0,
	SRP_DATA_DIRECT = 1,
	SRP_DATA_INDIRECT = 2,
	SRP_DATA_IMMEDIATE = 3, /* SRP2, data-out only */
};

/* Buffer formats as bits: both sides of a login name them. */
#define SRP_FORMAT_DIRECT   0x0002
#define SRP_FORMAT_INDIRECT 0x0004
#define SRP_FORMATS	    (SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT)

enum srp_task_attr {
	SRP_TASK_SIMPLE = 0,
	SRP_TASK_HEAD_OF_QUEUE = 1,
	SRP_TASK_ORDERED = 2,
	SRP_TASK_ACA = 4,
};

enum srp_tsk_mgmt_function {
	SRP_TSK_ABORT_TASK = 0x01,
	SRP_TSK_ABORT_TASK_SET = 0x02,
	SRP_TSK_CLEAR_TASK_SET = 0x04,
	SRP_TSK_LUN_RESET = 0x08,
	SRP_TSK_CLEAR_ACA = 0x40,
};

/* Response codes, in the response data of SRP_RSP. */
enum srp_rsp_code {
	SRP_RSP_COMPLETE = 0x00, /* no failure, function complete */
	SRP_RSP_FIELDS_INVALID = 0x02,
	SRP_RSP_TMF_NOT_SUPPORTED = 0x04,
	SRP_RSP_TMF_FAILED = 0x05,
};

/* Flags of SRP_RSP. */
#define SRP_RSP_RSPVALID      0x01
#define SRP_RSP_SNSVALID      0x02
#define SRP_RSP_OUT_OVERFLOW  0x04
#define SRP_RSP_OUT_UNDERFLOW 0x08
#define SRP_RSP_IN_OVERFLOW   0x10
#define SRP_RSP_IN_UNDERFLOW  0x20
#define SRP_RSP_RESIDUALS     0x3c /* the four above */

enum srp_logout_reason {
	SRP_LOGOUT_NONE = 0,
	SRP_LOGOUT_INACTIVE = 1,
	SRP_LOGOUT_INVALID_IU = 2,
	SRP_LOGOUT_SPURIOUS_RSP = 3,
	SRP_LOGOUT_MULTICHAN = 4, /* replaced by a new login */
	SRP_LOGOUT_OUT_FORMAT = 5,
	SRP_LOGOUT_IN_FORMAT = 6,
	SRP_LOGOUT_INVALID_LEN = 8,
};

/* Sizes on the wire, in bytes. */
#define SRP_CDB_LEN	  16 /* the part of the CDB that is always there */
#define SRP_CDB_LEN_MAX	  (SRP_CDB_LEN + 252)
#define SRP_DESC_SIZE	  16
#define SRP_INDIRECT_HDR  20  /* table descriptor and total length */
#define SRP_INLINE_MAX	  255 /* descriptors that SRP_CMD can count */
#define SRP_CMD_SIZE	  48  /* without additional CDB and descriptors */
#define SRP_RSP_SIZE	  36  /* without response and sense data */
#define SRP_RSP_TMF_SIZE  40  /* the answer to SRP_TSK_MGMT */
#define SRP_TSK_MGMT_SIZE 48
#define SRP_AER_REQ_SIZE  36
#define SRP_BARE_SIZE	  16 /* CRED_REQ/RSP, AER_RSP, I_LOGOUT, T_LOGOUT */

/* The layouts. A tag is not an integer: it is eight bytes that are echoed. */
struct srp_wire_tag {
	uint8_t b[8];
};

static inline uint64_t srp_tag_get(struct srp_wire_tag wire)
{
	uint64_t tag;

	memcpy(&tag, wire.b, sizeof(tag));
	return tag;
}

static inline struct srp_wire_tag srp_tag_wire(uint64_t tag)
{
	struct srp_wire_tag wire;

	memcpy(wire.b, &tag, sizeof(tag));
	return wire;
}

struct srp_wire_desc {
	struct wire_be64 va;
	struct wire_be32 key;
	struct wire_be32 len;
};

struct srp_wire_indirect {
	struct srp_wire_desc table;
	struct wire_be32 len;
	/* inline descriptors follow */
};

struct srp_wire_cmd {
	uint8_t opcode;
	uint8_t sol_not;
	uint8_t reserved1[3];
	uint8_t formats; /* high nibble data-out, low nibble data-in */
	uint8_t out_desc_cnt;
	uint8_t in_desc_cnt;
	struct srp_wire_tag tag;
	uint8_t reserved2[4];
	struct wire_be64 lun;
	uint8_t reserved3;
	uint8_t task_attr;
	uint8_t reserved4;
	uint8_t add_cdb_len; /* in bytes; the low two bits are reserved */
	uint8_t cdb[SRP_CDB_LEN];
	/* additional CDB bytes, then data-out and data-in descriptors */
};

struct srp_wire_rsp {
	uint8_t opcode;
	uint8_t sol_not;
	uint8_t reserved1[2];
	struct wire_be32 req_lim_delta;
	struct srp_wire_tag tag;
	uint8_t reserved2[2];
	uint8_t flags;
	uint8_t status;
	struct wire_be32 out_resid;
	struct wire_be32 in_resid;
	struct wire_be32 sense_len;
	struct wire_be32 rsp_data_len;
	/* response data, then sense data */
};

struct srp_wire_tsk_mgmt {
	uint8_t opcode;
	uint8_t sol_not;
	uint8_t reserved1[6];
	struct srp_wire_tag tag;
	uint8_t reserved2[4];
	struct wire_be64 lun;
	uint8_t reserved3[2];
	uint8_t function;
	uint8_t reserved4;
	struct srp_wire_tag task_tag;
	uint8_t reserved5[8];
};

struct srp_wire_aer_req {
	uint8_t opcode;
	uint8_t sol_not;
	uint8_t reserved1[2];
	struct wire_be32 req_lim_delta;
	struct srp_wire_tag tag;
	uint8_t reserved2[4];
	struct wire_be64 lun;
	struct wire_be32 sense_len;
	uint8_t reserved3[4];
	/* sense data */
};

struct srp_wire_bare {
	uint8_t opcode;
	uint8_t sol_not;
	uint8_t reserved1[2];
	struct wire_be32 value; /* CRED_REQ: delta; T_LOGOUT: reason; else 0 */
	struct srp_wire_tag tag;
};

_Static_assert(sizeof(struct srp_wire_desc) == SRP_DESC_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_indirect) == SRP_INDIRECT_HDR, "r16a");
_Static_assert(sizeof(struct srp_wire_cmd) == SRP_CMD_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_rsp) == SRP_RSP_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_tsk_mgmt) == SRP_TSK_MGMT_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_aer_req) == SRP_AER_REQ_SIZE, "r16a");
_Static_assert(sizeof(struct srp_wire_bare) == SRP_BARE_SIZE, "r16a");

/* The beginning of every IU after login. */
struct srp_head {
	uint8_t opcode;
	uint64_t tag;
};

/**
 * srp_head_decode() - opcode and tag of any IU
 *
 * Enough for SRP_CRED_RSP, SRP_AER_RSP and SRP_I_LOGOUT, which carry nothing
 * else, and for answering an IU that its own decoder refused.
 *
 * Return: 0, or -EBADMSG when fewer than 16 bytes arrived.
 */
static inline int srp_head_decode(const void *iu, size_t iu_len,
				  struct srp_head *ret)
{
	const struct srp_wire_bare *wire = iu;

	if (iu_len < sizeof(*wire))
		return -EBADMSG;
	ret->opcode = wire->opcode;
	ret->tag = srp_tag_get(wire->tag);
	return 0;
}

/**
 * srp_bare_encode() - write an IU that is only an opcode and a tag
 * @opcode: SRP_CRED_RSP, SRP_AER_RSP or SRP_I_LOGOUT
 *
 * Return: SRP_BARE_SIZE, or -ENOSPC.
 */
int srp_bare_encode(void *iu, size_t cap, enum srp_opcode opcode, uint64_t tag);

/* A buffer in the initiator's memory. */
struct srp_desc {
	uint64_t addr;
	uint32_t key;
	uint32_t len;
};

/*
 * Converts @cnt descriptors between wire (16 bytes each, no alignment needed)
 * and host form. Nothing is checked.
 */
void srp_desc_unpack(const void *raw, uint32_t cnt, struct srp_desc *ret);
void srp_desc_pack(const struct srp_desc *descs, uint32_t cnt, void *raw);

/**
 * srp_desc_table_check() - check a complete descriptor list
 * @raw:       16 * @cnt bytes in wire form
 * @total_len: the data length that SRP_CMD announced for the list
 *
 * For a table that was fetched because the list in SRP_CMD was partial; do
 * this on a private copy, which the initiator cannot change any more.
 *
 * Return: 0, or -EBADMSG when a descriptor wraps round the address space or
 *   the lengths do not add up to @total_len.
 */
int srp_desc_table_check(const void *raw, uint32_t cnt, uint32_t total_len);

/* The data of one direction of an SRP_CMD, as received. */
struct srp_data {
	enum srp_data_format format;
	/*
	 * The list in SRP_CMD is incomplete. Fetch the table at @desc (limit
	 * @desc_cnt to the memory there is), then call srp_desc_table_check().
	 */
	bool partial;
	uint32_t len;	     /* bytes of data, all descriptors together */
	const void *descs;   /* inline descriptors, wire form, unaligned */
	uint32_t inline_cnt; /* number of them; direct: 1 */
	uint32_t desc_cnt;   /* of the complete list; up to 2^28 - 1 */
	/* direct: the one descriptor; indirect: the list in initiator memory */
	struct srp_desc desc;
	const void *imm; /* immediate: @len bytes inside the IU */
};

struct srp_cmd_view {
	uint64_t tag;
	uint64_t lun;	   /* the LUN field; see srp_lun_decode() */
	uint8_t task_attr; /* enum srp_task_attr, or a reserved value up to 7 */
	uint16_t cdb_len; /* 16 to SRP_CDB_LEN_MAX; zero padded by the sender */
	const uint8_t *cdb;
	struct srp_data out; /* data-out: a write, from the initiator */
	struct srp_data in;  /* data-in: a read, to the initiator */
};

/* What was agreed at the login of the channel. */
struct srp_cmd_rules {
	uint16_t formats;    /* SRP_FORMAT_*, as offered in SRP_LOGIN_RSP */
	uint16_t imm_offset; /* in bytes; 0: no immediate data */
};

/* The LUN field of an SRP_CMD that srp_cmd_decode() may have refused. -EBADMSG:
 * it is no SRP_CMD, or shorter than SRP_CMD_SIZE. */
int srp_cmd_lun(const void *iu, size_t iu_len, uint64_t *ret_lun);

/**
 * srp_cmd_decode() - check an SRP_CMD and find its parts (SRP r16a, SRP_CMD)
 * @iu:       the received bytes; borrowed for the call and by @ret
 * @iu_len:   bytes received, from the work completion, not the buffer size
 * @rules:    what was agreed at login
 * @ret:      where to store the result; undefined after a failure
 *
 * After success each descriptor inside the IU lies within the address space,
 * and the lengths of a list that is not partial add up to the data length of
 * its direction. Each of them, and their number, may be zero. Only their 32
 * bits limit the data length and the length of a table to fetch: the caller
 * checks whether there is memory for them. Bytes after the last part are
 * ignored.
 *
 * Return: 0 on success,
 *   -EBADMSG when the IU is no SRP_CMD, ends before its own fields say it
 *            does, or contradicts itself,
 *   -ENOTSUP for a data format that was not offered at login.
 */
int srp_cmd_decode(const void *iu, size_t iu_len,
		   const struct srp_cmd_rules *rules, struct srp_cmd_view *ret);

/* The data of one direction of an SRP_CMD to send. */
struct srp_data_args {
	enum srp_data_format format;
	const struct srp_desc *descs; /* direct: one; indirect: all, inline */
	uint32_t desc_cnt;	      /* at most SRP_INLINE_MAX */
	/*
	 * Indirect: the place of the same list in registered memory. A target
	 * that finds every descriptor inline does not read it.
	 */
	uint64_t table_addr;
	uint32_t table_key;
	uint32_t imm_len;    /* immediate: bytes that follow the header */
	uint16_t imm_offset; /* immediate: as requested at login */
};

struct srp_cmd_args {
	uint64_t tag;
	uint64_t lun; /* from srp_lun_encode() or REPORT LUNS */
	enum srp_task_attr task_attr;
	const void *cdb;
	size_t cdb_len; /* 1 to SRP_CDB_LEN_MAX; is zero padded */
	struct srp_data_args out;
	struct srp_data_args in;
};

/**
 * srp_cmd_encode() - write an SRP_CMD
 *
 * With immediate data, the result is the part before the data, with the gap
 * zeroed: @args->out.imm_offset bytes. The caller sends the data right behind it.
 *
 * Return: the length written,
 *   -ENOSPC when @cap is too small,
 *   -EINVAL for what SRP_CMD cannot express: a CDB that is empty or too long,
 *           direct without exactly one descriptor, more than SRP_INLINE_MAX of
 *           them, lengths that add up to 2^32 or more, immediate data-in, an
 *           immediate offset inside the header.
 */
int srp_cmd_encode(void *iu, size_t cap, const struct srp_cmd_args *args);

/* Addressing methods: the two highest bits of a LUN (SAM-5). */
enum srp_lun_method {
	SRP_LUN_PERIPHERAL = 0,
	SRP_LUN_FLAT = 1,
};

#define SRP_LUN_FLAT_MAX 0x3fff

/**
 * srp_lun_decode() - LUN field to number (SAM-5, single level LUN structure)
 * @field:   the eight bytes, read big-endian: LUN 1 is 0x0001000000000000
 * @ret_lun: 0 to 16383
 *
 * Return: 0, or -EINVAL for an addressing method other than peripheral device
 *   on bus 0 or flat space, or more than one level.
 */
static inline int srp_lun_decode(uint64_t field, uint32_t *ret_lun)
{
	uint32_t level = (uint32_t)(field >> 48);

	if (field & 0xffffffffffffULL) /* levels two to four */
		return -EINVAL;
	switch (level >> 14) {
	case SRP_LUN_PERIPHERAL:
		if (level > 0xff) /* a bus inside the target */
			return -EINVAL;
		*ret_lun = level;
		return 0;
	case SRP_LUN_FLAT:
		*ret_lun = level & SRP_LUN_FLAT_MAX;
		return 0;
	default:
		return -EINVAL;
	}
}

/* As LIO does: peripheral up to 255, flat space above. -EINVAL above 16383. */
int srp_lun_encode(uint32_t lun, uint64_t *ret_field);

/* REPORT LUNS well-known logical unit (SPC-4). */
#define SRP_LUN_REPORT_LUNS 0xc101000000000000ULL

struct srp_rsp {
	uint64_t tag; /* of the request that is answered */
	int32_t req_lim_delta;
	uint8_t status;	     /* SCSI status */
	uint8_t resid_flags; /* of SRP_RSP_RESIDUALS */
	uint32_t out_resid; /* in bytes, counted against the described buffer */
	uint32_t in_resid;
	bool rsp_valid;	   /* response data with a code */
	uint8_t rsp_code;  /* enum srp_rsp_code */
	const void *sense; /* NULL: none */
	uint32_t sense_len;
	bool data_dropped; /* decode: lengths exceed the IU, data ignored */
};

/**
 * srp_rsp_decode() - check an SRP_RSP (SRP r16a, SRP_RSP)
 *
 * The lengths are compared with the received bytes. Response data counts if it
 * fits, sense data if both fit, as in ib_srp. Data that does not fit is ignored
 * and data_dropped is set; the response still counts. A response code counts only
 * with RSPVALID and four bytes of data.
 *
 * Return: 0, or -EBADMSG when it is no SRP_RSP or shorter than 36 bytes.
 */
int srp_rsp_decode(const void *iu, size_t iu_len, struct srp_rsp *ret);

/**
 * srp_rsp_encode() - write an SRP_RSP
 * @cap: the smaller of the buffer and the maximum target-to-initiator length
 *
 * Sense data that does not fit is cut short. RSPVALID and SNSVALID follow from
 * rsp_valid and sense.
 *
 * Return: the length written, 36 or more; -ENOSPC when not even the fixed part
 *   and response data fit.
 */
int srp_rsp_encode(void *iu, size_t cap, const struct srp_rsp *rsp);

struct srp_tsk_mgmt {
	uint64_t tag;
	uint64_t lun;	  /* the LUN field */
	uint8_t function; /* enum srp_tsk_mgmt_function, or unknown */
	uint64_t task_tag;
};

/* Return: 0 or the length; -EBADMSG (opcode, length) or -ENOSPC. */
int srp_tsk_mgmt_decode(const void *iu, size_t iu_len,
			struct srp_tsk_mgmt *ret);
int srp_tsk_mgmt_encode(void *iu, size_t cap, const struct srp_tsk_mgmt *t);

struct srp_cred_req {
	uint64_t tag;
	int32_t req_lim_delta;
};

/* Return: 0 or the length; -EBADMSG (opcode, length) or -ENOSPC. */
int srp_cred_req_decode(const void *iu, size_t iu_len,
			struct srp_cred_req *ret);
int srp_cred_req_encode(void *iu, size_t cap, const struct srp_cred_req *c);

struct srp_aer_req {
	uint64_t tag;
	int32_t req_lim_delta;
	uint64_t lun;	   /* the LUN field */
	const void *sense; /* NULL: none */
	uint32_t sense_len;
};

/*
 * Return: 0 or the length; -EBADMSG (opcode, length, sense data past the end)
 * or -ENOSPC. The encoder cuts sense data that does not fit.
 */
int srp_aer_req_decode(const void *iu, size_t iu_len, struct srp_aer_req *ret);
int srp_aer_req_encode(void *iu, size_t cap, const struct srp_aer_req *a);

struct srp_t_logout {
	uint64_t tag;
	uint32_t reason; /* enum srp_logout_reason, or unknown */
};

/* Return: 0 or the length; -EBADMSG (opcode, length) or -ENOSPC. */
int srp_t_logout_decode(const void *iu, size_t iu_len,
			struct srp_t_logout *ret);
int srp_t_logout_encode(void *iu, size_t cap, const struct srp_t_logout *t);

/* Names for messages. Never NULL: an unknown value has a name that says so. */
const char *srp_opcode_name(uint8_t opcode);	     /* "SRP_CMD" */
const char *srp_tsk_mgmt_name(uint8_t function);     /* "ABORT TASK" */
const char *srp_logout_reason_name(uint32_t reason); /* "inactive channel" */

#endif
