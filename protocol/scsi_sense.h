/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SCSI status and sense data (SPC-4 4.5). Sense data says what went wrong with
 * a command. It is converted here between a typed form, the two formats on the
 * wire, errno and text.
 *
 * Thread: any, for every function here.
 */
#ifndef PROTOCOL_SCSI_SENSE_H
#define PROTOCOL_SCSI_SENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SAM-5 5.3.1 */
enum scsi_status {
	SCSI_STATUS_GOOD = 0x00,
	SCSI_STATUS_CHECK_CONDITION = 0x02,
	SCSI_STATUS_CONDITION_MET = 0x04,
	SCSI_STATUS_BUSY = 0x08,
	SCSI_STATUS_RESERVATION_CONFLICT = 0x18,
	SCSI_STATUS_TASK_SET_FULL = 0x28,
	SCSI_STATUS_ACA_ACTIVE = 0x30,
	SCSI_STATUS_TASK_ABORTED = 0x40,
};

/* SPC-4 4.5.6 */
enum scsi_key {
	SCSI_KEY_NO_SENSE = 0x0,
	SCSI_KEY_RECOVERED_ERROR = 0x1,
	SCSI_KEY_NOT_READY = 0x2,
	SCSI_KEY_MEDIUM_ERROR = 0x3,
	SCSI_KEY_HARDWARE_ERROR = 0x4,
	SCSI_KEY_ILLEGAL_REQUEST = 0x5,
	SCSI_KEY_UNIT_ATTENTION = 0x6,
	SCSI_KEY_DATA_PROTECT = 0x7,
	SCSI_KEY_BLANK_CHECK = 0x8,
	SCSI_KEY_VENDOR_SPECIFIC = 0x9,
	SCSI_KEY_COPY_ABORTED = 0xa,
	SCSI_KEY_ABORTED_COMMAND = 0xb,
	SCSI_KEY_VOLUME_OVERFLOW = 0xd,
	SCSI_KEY_MISCOMPARE = 0xe,
	SCSI_KEY_COMPLETED = 0xf,
};

/* Additional sense code and qualifier, ASC << 8 | ASCQ (SPC-4 annex D). */
enum scsi_asc {
	SCSI_ASC_NO_ADDITIONAL_SENSE = 0x0000,
	SCSI_ASC_NOT_READY_CAUSE_NOT_REPORTABLE = 0x0400,
	SCSI_ASC_BECOMING_READY = 0x0401,
	SCSI_ASC_INITIALIZING_COMMAND_REQUIRED = 0x0402,
	SCSI_ASC_MANUAL_INTERVENTION_REQUIRED = 0x0403,
	SCSI_ASC_FORMAT_IN_PROGRESS = 0x0404,
	SCSI_ASC_OPERATION_IN_PROGRESS = 0x0407,
	SCSI_ASC_ACCESS_STATE_TRANSITION = 0x040a,
	SCSI_ASC_TARGET_PORT_STANDBY = 0x040b,
	SCSI_ASC_TARGET_PORT_UNAVAILABLE = 0x040c,
	SCSI_ASC_SANITIZE_IN_PROGRESS = 0x041b,
	SCSI_ASC_COMMUNICATION_FAILURE = 0x0800,
	SCSI_ASC_COMMUNICATION_TIMEOUT = 0x0801,
	SCSI_ASC_WRITE_ERROR = 0x0c00,
	SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU = 0x0e03,
	SCSI_ASC_THIRD_PARTY_FAILURE = 0x0d01,
	SCSI_ASC_COPY_TARGET_UNREACHABLE = 0x0d02,
	SCSI_ASC_UNRECOVERED_READ_ERROR = 0x1100,
	SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR = 0x1a00,
	SCSI_ASC_MISCOMPARE_DURING_VERIFY = 0x1d00,
	SCSI_ASC_INVALID_OPCODE = 0x2000,
	SCSI_ASC_NO_ACCESS_RIGHTS = 0x2002,
	SCSI_ASC_LBA_OUT_OF_RANGE = 0x2100,
	SCSI_ASC_INVALID_FIELD_IN_CDB = 0x2400,
	SCSI_ASC_LUN_NOT_SUPPORTED = 0x2500,
	SCSI_ASC_INVALID_FIELD_IN_PARAMETER_LIST = 0x2600,
	SCSI_ASC_INVALID_RELEASE = 0x2604, /* of a persistent reservation */
	SCSI_ASC_TOO_MANY_TARGETS = 0x2606,
	SCSI_ASC_UNSUPPORTED_TARGET = 0x2607,
	SCSI_ASC_TOO_MANY_SEGMENTS = 0x2608,
	SCSI_ASC_UNSUPPORTED_SEGMENT = 0x2609,
	SCSI_ASC_INEXACT_SEGMENT = 0x260a,
	SCSI_ASC_INLINE_DATA_EXCEEDED = 0x260b,
	SCSI_ASC_WRITE_PROTECTED = 0x2700,
	SCSI_ASC_SOFTWARE_WRITE_PROTECTED = 0x2702,
	SCSI_ASC_SPACE_ALLOCATION_FAILED = 0x2707,
	SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED = 0x2800,
	SCSI_ASC_POWER_ON_OR_RESET = 0x2900,
	SCSI_ASC_POWER_ON = 0x2901,
	SCSI_ASC_BUS_RESET = 0x2902,
	SCSI_ASC_DEVICE_RESET = 0x2903,
	SCSI_ASC_NEXUS_LOSS = 0x2907,
	SCSI_ASC_PARAMETERS_CHANGED = 0x2a00,
	SCSI_ASC_MODE_PARAMETERS_CHANGED = 0x2a01,
	SCSI_ASC_RESERVATIONS_PREEMPTED = 0x2a03,
	SCSI_ASC_RESERVATIONS_RELEASED = 0x2a04,
	SCSI_ASC_REGISTRATIONS_PREEMPTED = 0x2a05,
	SCSI_ASC_ACCESS_STATE_CHANGED = 0x2a06,
	SCSI_ASC_CAPACITY_CHANGED = 0x2a09,
	SCSI_ASC_COMMAND_SEQUENCE_ERROR = 0x2c00,
	SCSI_ASC_CLEARED_BY_ANOTHER_INITIATOR = 0x2f00,
	SCSI_ASC_FORMAT_CORRUPTED = 0x3100,
	SCSI_ASC_FORMAT_FAILED = 0x3101,
	SCSI_ASC_SANITIZE_FAILED = 0x3103,
	SCSI_ASC_SAVING_NOT_SUPPORTED = 0x3900,
	SCSI_ASC_MEDIUM_NOT_PRESENT = 0x3a00,
	SCSI_ASC_OPERATING_CONDITIONS_CHANGED = 0x3f00,
	SCSI_ASC_INQUIRY_DATA_CHANGED = 0x3f03,
	SCSI_ASC_REPORTED_LUNS_CHANGED = 0x3f0e,
	SCSI_ASC_INTERNAL_TARGET_FAILURE = 0x4400,
	SCSI_ASC_INVALID_MESSAGE_ERROR = 0x4900,
	SCSI_ASC_DATA_PHASE_ERROR = 0x4b00,
	SCSI_ASC_OVERLAPPED_COMMANDS = 0x4e00,
	SCSI_ASC_REMOVAL_PREVENTED = 0x5302,
	SCSI_ASC_INSUFFICIENT_RESOURCES = 0x5503,
	SCSI_ASC_INSUFFICIENT_REGISTRATIONS = 0x5504,
	SCSI_ASC_SET_PORT_GROUPS_FAILED = 0x670a,
};

/* The place of the refused field (SPC-4 4.5.2.4.2). */
enum scsi_pointer {
	SCSI_POINTER_NONE,
	SCSI_POINTER_CDB,
	SCSI_POINTER_DATA, /* in the parameter list that the command sent */
};

/* A value of bit_no that means the whole byte. */
#define SCSI_BIT_NONE 0xff

/*
 * One piece of sense data. scsi_sense() makes a value without information and
 * field pointer. Other functions start from it and fill in the rest.
 */
struct scsi_sense {
	uint8_t key;	 /* enum scsi_key */
	uint8_t pointer; /* enum scsi_pointer */
	uint8_t bit_no;	 /* 7..0, most significant of the field, or NONE */
	bool deferred;	 /* about an earlier command */
	bool info_valid;
	bool progress_valid; /* with NOT READY or NO SENSE, without pointer */
	uint16_t code;	     /* enum scsi_asc */
	uint16_t byte_no;    /* first byte of the refused field */
	uint16_t progress;   /* PROGRESS INDICATION, of 65536 */
	uint64_t info; /* INFORMATION: an LBA, or an offset (MISCOMPARE) */
};

/* ASC and ASCQ of @code, separately. */
#define SCSI_ASC(code)	((uint8_t)((code) >> 8))
#define SCSI_ASCQ(code) ((uint8_t)(code))

/* The longest sense data that scsi_sense_encode() makes: with both
 * descriptors. */
#define SCSI_SENSE_MAX_LEN 28

/* Fixed format sense data, as SRP_RSP usually carries it. */
#define SCSI_SENSE_FIXED_LEN 18

enum scsi_sense_format {
	SCSI_SENSE_FIXED,      /* response code 70h; D_SENSE = 0 */
	SCSI_SENSE_DESCRIPTOR, /* response code 72h; D_SENSE = 1 */
};

/* The kind of a failed operation on the medium. */
enum scsi_medium_op {
	SCSI_MEDIUM_READ,
	SCSI_MEDIUM_WRITE, /* writes, flushes, unmaps */
};

static inline struct scsi_sense scsi_sense(enum scsi_key key,
					   enum scsi_asc code)
{
	return (struct scsi_sense){
		.key = (uint8_t)key,
		.code = (uint16_t)code,
		.bit_no = SCSI_BIT_NONE,
	};
}

/* The bit that the field pointer names for a field, or for wrong @bits: the
 * leftmost (SPC-4, sense key specific data). */
static inline uint8_t scsi_sense_top_bit(uint8_t bits)
{
	uint8_t bit = 7;

	while (bit && !(bits >> bit & 1))
		bit--;
	return bit;
}

/* ILLEGAL REQUEST, INVALID FIELD IN CDB: @bit_no 7..0 or SCSI_BIT_NONE. */
static inline struct scsi_sense scsi_sense_cdb_field(uint16_t byte_no,
						     uint8_t bit_no)
{
	return (struct scsi_sense){
		.key = SCSI_KEY_ILLEGAL_REQUEST,
		.code = SCSI_ASC_INVALID_FIELD_IN_CDB,
		.pointer = SCSI_POINTER_CDB,
		.byte_no = byte_no,
		.bit_no = bit_no,
	};
}

/* ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST. */
static inline struct scsi_sense scsi_sense_data_field(uint16_t byte_no,
						      uint8_t bit_no)
{
	return (struct scsi_sense){
		.key = SCSI_KEY_ILLEGAL_REQUEST,
		.code = SCSI_ASC_INVALID_FIELD_IN_PARAMETER_LIST,
		.pointer = SCSI_POINTER_DATA,
		.byte_no = byte_no,
		.bit_no = bit_no,
	};
}

/**
 * scsi_sense_encode() - sense data for a response or REQUEST SENSE
 * @sense:  what to say; information above 32 bits is left out of the fixed
 *	    format, which has no room for it
 * @format: by the D_SENSE bit, or REQUEST SENSE's DESC bit
 * @buf:    gets as many of the bytes as fit
 * @cap:    size of @buf; SCSI_SENSE_MAX_LEN is always enough
 *
 * Return: full length in bytes, which may be more than @cap.
 */
size_t scsi_sense_encode(const struct scsi_sense *sense,
			 enum scsi_sense_format format, void *buf, size_t cap);

/**
 * scsi_sense_decode() - read a target's sense data, either format
 * @buf: what came; not trusted
 * @len: bytes that really came
 *
 * What is cut off reads as zero or absent.
 *
 * Return: 0, or -EBADMSG when there is not even a response code and a key.
 */
int scsi_sense_decode(const void *buf, size_t len,
		      struct scsi_sense *ret_sense);

/**
 * scsi_sense_from_errno() - the sense data for a backend's failure
 * @err: negative errno
 * @op:  which way the operation went
 *
 * The one table from errno to sense. What it does not know is HARDWARE ERROR,
 * INTERNAL TARGET FAILURE.
 */
struct scsi_sense scsi_sense_from_errno(int err, enum scsi_medium_op op);

/**
 * scsi_sense_to_errno() - the errno that an initiator's caller should see
 *
 * Return: 0 for NO SENSE, RECOVERED ERROR and COMPLETED,
 *   -EAGAIN when sending the command again is the right thing (a unit
 *	attention, an aborted command, a unit that is becoming ready, and any
 *	deferred error: that is about an earlier command, see @deferred),
 *   -EOPNOTSUPP for a command, -EINVAL for a field that is not supported,
 *   -ENXIO past the end of the medium, -ENODEV for an absent logical unit,
 *   -ENOSPC, -EROFS, -EACCES, -ENOMEDIUM, -EILSEQ (miscompare); else -EIO.
 */
int scsi_sense_to_errno(const struct scsi_sense *sense);

/* "ILLEGAL REQUEST"; never NULL. */
const char *scsi_key_name(uint8_t key);

/* "logical block address out of range"; NULL: the table does not have @code. */
const char *scsi_asc_text(uint16_t code);

/* "CHECK CONDITION"; never NULL. */
const char *scsi_status_name(uint8_t status);

/* The longest text of scsi_sense_text(), with its NUL. */
#define SCSI_SENSE_TEXT_LEN 160

/**
 * scsi_sense_text() - one line for a log
 *
 * "ILLEGAL REQUEST: invalid field in CDB (05/24/00), CDB byte 2 bit 7".
 *
 * Return: @buf, always terminated.
 */
const char *scsi_sense_text(const struct scsi_sense *sense,
			    char buf[SCSI_SENSE_TEXT_LEN]);

#endif
