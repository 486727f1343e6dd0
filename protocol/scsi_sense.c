/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_sense.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "protocol/wire.h"

/* Response codes, byte 0 bits 6..0 (SPC-4 4.5.1). The odd ones are deferred
 * errors. */
#define RESPONSE_FIXED	    0x70
#define RESPONSE_DESCRIPTOR 0x72

#define DESC_INFORMATION      0x00
#define DESC_INFORMATION_LEN  12
#define DESC_KEY_SPECIFIC     0x02
#define DESC_KEY_SPECIFIC_LEN 8

/* SENSE KEY SPECIFIC, three bytes: a field pointer, or a progress
 * indication. */
#define SKS_VALID     0x80
#define SKS_IN_CDB    0x40
#define SKS_BIT_VALID 0x08

static bool has_key_specific(const struct scsi_sense *sense)
{
	return sense->pointer != SCSI_POINTER_NONE || sense->progress_valid;
}

static void encode_key_specific(const struct scsi_sense *sense, uint8_t b[3])
{
	b[0] = SKS_VALID;
	if (sense->progress_valid) {
		wire_put16(b + 1, sense->progress);
		return;
	}
	if (sense->pointer == SCSI_POINTER_CDB)
		b[0] |= SKS_IN_CDB;
	if (sense->bit_no <= 7)
		b[0] |= SKS_BIT_VALID | sense->bit_no;
	wire_put16(b + 1, sense->byte_no);
}

static void decode_progress(const uint8_t b[3], struct scsi_sense *sense)
{
	sense->progress_valid = true;
	sense->progress = wire_get16(b + 1);
}

/* The sense key decides what the three bytes mean. */
static void decode_key_specific(const uint8_t b[3], struct scsi_sense *sense)
{
	if (!(b[0] & SKS_VALID))
		return;
	if (sense->key == SCSI_KEY_NOT_READY || sense->key == SCSI_KEY_NO_SENSE)
		decode_progress(b, sense);
	if (sense->key != SCSI_KEY_ILLEGAL_REQUEST)
		return;
	sense->pointer =
		b[0] & SKS_IN_CDB ? SCSI_POINTER_CDB : SCSI_POINTER_DATA;
	sense->bit_no = b[0] & SKS_BIT_VALID ? b[0] & 7 : SCSI_BIT_NONE;
	sense->byte_no = wire_get16(b + 1);
}

static size_t encode_fixed(const struct scsi_sense *sense, uint8_t *b)
{
	b[0] = RESPONSE_FIXED | sense->deferred;
	b[2] = sense->key;
	if (sense->info_valid && sense->info <= UINT32_MAX) {
		b[0] |= 0x80;
		wire_put32(b + 3, (uint32_t)sense->info);
	}
	b[7] = SCSI_SENSE_FIXED_LEN - 8;
	wire_put16(b + 12, sense->code);
	if (has_key_specific(sense))
		encode_key_specific(sense, b + 15);
	return SCSI_SENSE_FIXED_LEN;
}

static size_t encode_descriptor(const struct scsi_sense *sense, uint8_t *b)
{
	size_t len = 8;

	b[0] = RESPONSE_DESCRIPTOR | sense->deferred;
	b[1] = sense->key;
	wire_put16(b + 2, sense->code);
	if (sense->info_valid) {
		b[len] = DESC_INFORMATION;
		b[len + 1] = DESC_INFORMATION_LEN - 2;
		b[len + 2] = 0x80;
		wire_put64(b + len + 4, sense->info);
		len += DESC_INFORMATION_LEN;
	}
	if (has_key_specific(sense)) {
		b[len] = DESC_KEY_SPECIFIC;
		b[len + 1] = DESC_KEY_SPECIFIC_LEN - 2;
		encode_key_specific(sense, b + len + 4);
		len += DESC_KEY_SPECIFIC_LEN;
	}
	b[7] = (uint8_t)(len - 8);
	return len;
}

size_t scsi_sense_encode(const struct scsi_sense *sense,
			 enum scsi_sense_format format, void *buf, size_t cap)
{
	uint8_t b[SCSI_SENSE_MAX_LEN] = { 0 };
	size_t len = 0;

	switch (format) {
	case SCSI_SENSE_FIXED:
		len = encode_fixed(sense, b);
		break;
	case SCSI_SENSE_DESCRIPTOR:
		len = encode_descriptor(sense, b);
		break;
	}
	if (cap)
		memcpy(buf, b, len < cap ? len : cap);
	return len;
}

static void decode_fixed(const uint8_t *b, size_t len, struct scsi_sense *sense)
{
	sense->key = b[2] & 0x0f;
	if (len < 8)
		return;
	sense->info_valid = b[0] & 0x80;
	if (sense->info_valid)
		sense->info = wire_get32(b + 3);
	/* Bytes beyond the announced length are not sense data. */
	if (len > 8 + (size_t)b[7])
		len = 8 + (size_t)b[7];
	if (len >= 14)
		sense->code = wire_get16(b + 12);
	else if (len >= 13)
		sense->code = (uint16_t)(b[12] << 8);
	if (len >= 18)
		decode_key_specific(b + 15, sense);
}

static void decode_one_descriptor(const uint8_t *d, size_t len,
				  struct scsi_sense *sense)
{
	if (d[0] == DESC_INFORMATION && len >= DESC_INFORMATION_LEN) {
		sense->info_valid = d[2] & 0x80;
		sense->info = sense->info_valid ? wire_get64(d + 4) : 0;
	} else if (d[0] == DESC_KEY_SPECIFIC && len >= DESC_KEY_SPECIFIC_LEN) {
		decode_key_specific(d + 4, sense);
	}
}

static void decode_descriptor(const uint8_t *b, size_t len,
			      struct scsi_sense *sense)
{
	struct wire_cursor c;
	const uint8_t *head, *body;

	sense->key = b[1] & 0x0f;
	if (len < 4)
		return;
	sense->code = wire_get16(b + 2);
	if (len < 8)
		return;
	if (len > 8 + (size_t)b[7])
		len = 8 + (size_t)b[7];
	c = wire_cursor(b + 8, len - 8);
	while ((head = wire_take(&c, 2)) != NULL) {
		body = wire_take(&c, head[1]);
		if (!body)
			return;
		decode_one_descriptor(head, 2 + (size_t)head[1], sense);
	}
}

int scsi_sense_decode(const void *buf, size_t len, struct scsi_sense *ret_sense)
{
	const uint8_t *b = buf;
	struct scsi_sense sense = { .bit_no = SCSI_BIT_NONE };

	if (len < 1)
		return -EBADMSG;
	sense.deferred = b[0] & 1;
	switch (b[0] & 0x7e) {
	case RESPONSE_FIXED:
		if (len < 3)
			return -EBADMSG;
		decode_fixed(b, len, &sense);
		break;
	case RESPONSE_DESCRIPTOR:
		if (len < 2)
			return -EBADMSG;
		decode_descriptor(b, len, &sense);
		break;
	default:
		return -EBADMSG;
	}
	*ret_sense = sense;
	return 0;
}

/* The first row with the errno and the operation counts. */
static const struct {
	int err;
	int op; /* enum scsi_medium_op, or -1 for both */
	enum scsi_key key;
	enum scsi_asc code;
} from_errno[] = {
	{ EIO, SCSI_MEDIUM_READ, SCSI_KEY_MEDIUM_ERROR,
	  SCSI_ASC_UNRECOVERED_READ_ERROR },
	{ EIO, SCSI_MEDIUM_WRITE, SCSI_KEY_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR },
	/* A flush that did not reach the store. The target has waited already,
	 * so the initiator must not retry at once. */
	{ ENOTCONN, SCSI_MEDIUM_WRITE, SCSI_KEY_MEDIUM_ERROR,
	  SCSI_ASC_WRITE_ERROR },
	/* Linux and VMware take 07/27/07 for "the pool is full". */
	{ ENOSPC, -1, SCSI_KEY_DATA_PROTECT, SCSI_ASC_SPACE_ALLOCATION_FAILED },
	{ EDQUOT, -1, SCSI_KEY_DATA_PROTECT, SCSI_ASC_SPACE_ALLOCATION_FAILED },
	{ EFBIG, -1, SCSI_KEY_DATA_PROTECT, SCSI_ASC_SPACE_ALLOCATION_FAILED },
	{ EROFS, -1, SCSI_KEY_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED },
	{ EACCES, SCSI_MEDIUM_WRITE, SCSI_KEY_DATA_PROTECT,
	  SCSI_ASC_WRITE_PROTECTED },
	{ EPERM, SCSI_MEDIUM_WRITE, SCSI_KEY_DATA_PROTECT,
	  SCSI_ASC_WRITE_PROTECTED },
	/* Temporary: an initiator sends an aborted command again. */
	{ ENOMEM, -1, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_INSUFFICIENT_RESOURCES },
	{ ENOBUFS, -1, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_INSUFFICIENT_RESOURCES },
	{ EAGAIN, -1, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_INSUFFICIENT_RESOURCES },
	{ EINTR, -1, SCSI_KEY_ABORTED_COMMAND, SCSI_ASC_NO_ADDITIONAL_SENSE },
	{ ECANCELED, -1, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_NO_ADDITIONAL_SENSE },
	{ ETIMEDOUT, -1, SCSI_KEY_ABORTED_COMMAND,
	  SCSI_ASC_COMMUNICATION_TIMEOUT },
	/* The store of the unit is gone. */
	{ ENODEV, -1, SCSI_KEY_NOT_READY,
	  SCSI_ASC_MANUAL_INTERVENTION_REQUIRED },
	{ ENXIO, -1, SCSI_KEY_NOT_READY,
	  SCSI_ASC_MANUAL_INTERVENTION_REQUIRED },
	{ ESTALE, -1, SCSI_KEY_NOT_READY,
	  SCSI_ASC_MANUAL_INTERVENTION_REQUIRED },
	/* Another target has taken over the unit. */
	{ ESHUTDOWN, -1, SCSI_KEY_NOT_READY, SCSI_ASC_TARGET_PORT_STANDBY },
	{ ENOMEDIUM, -1, SCSI_KEY_NOT_READY, SCSI_ASC_MEDIUM_NOT_PRESENT },
	{ EOPNOTSUPP, -1, SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE },
	{ ENOSYS, -1, SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE },
};

struct scsi_sense scsi_sense_from_errno(int err, enum scsi_medium_op op)
{
	for (size_t i = 0; i < sizeof(from_errno) / sizeof(*from_errno); i++) {
		if (-err != from_errno[i].err)
			continue;
		if (from_errno[i].op >= 0 && from_errno[i].op != (int)op)
			continue;
		return scsi_sense(from_errno[i].key, from_errno[i].code);
	}
	return scsi_sense(SCSI_KEY_HARDWARE_ERROR,
			  SCSI_ASC_INTERNAL_TARGET_FAILURE);
}

/* Any code of the key, or any qualifier of the additional sense code. */
#define ANY_CODE 0x0000
#define ANY_ASCQ 0xff00

/* The first row that matches counts. */
static const struct {
	enum scsi_key key;
	uint16_t mask; /* of the code, before it is compared */
	uint16_t code;
	int err;
} to_errno[] = {
	{ SCSI_KEY_NO_SENSE, ANY_CODE, 0, 0 },
	{ SCSI_KEY_RECOVERED_ERROR, ANY_CODE, 0, 0 },
	{ SCSI_KEY_COMPLETED, ANY_CODE, 0, 0 },
	{ SCSI_KEY_NOT_READY, 0xffff, SCSI_ASC_BECOMING_READY, -EAGAIN },
	{ SCSI_KEY_NOT_READY, 0xffff, SCSI_ASC_FORMAT_IN_PROGRESS, -EAGAIN },
	{ SCSI_KEY_NOT_READY, 0xffff, SCSI_ASC_OPERATION_IN_PROGRESS, -EAGAIN },
	{ SCSI_KEY_NOT_READY, 0xffff, SCSI_ASC_ACCESS_STATE_TRANSITION,
	  -EAGAIN },
	{ SCSI_KEY_NOT_READY, 0xffff, SCSI_ASC_SANITIZE_IN_PROGRESS, -EAGAIN },
	{ SCSI_KEY_NOT_READY, ANY_ASCQ, SCSI_ASC_MEDIUM_NOT_PRESENT,
	  -ENOMEDIUM },
	{ SCSI_KEY_ILLEGAL_REQUEST, 0xffff, SCSI_ASC_NO_ACCESS_RIGHTS,
	  -EACCES },
	{ SCSI_KEY_ILLEGAL_REQUEST, ANY_ASCQ, SCSI_ASC_INVALID_OPCODE,
	  -EOPNOTSUPP },
	{ SCSI_KEY_ILLEGAL_REQUEST, ANY_ASCQ, SCSI_ASC_LBA_OUT_OF_RANGE,
	  -ENXIO },
	{ SCSI_KEY_ILLEGAL_REQUEST, ANY_ASCQ, SCSI_ASC_LUN_NOT_SUPPORTED,
	  -ENODEV },
	{ SCSI_KEY_ILLEGAL_REQUEST, ANY_CODE, 0, -EINVAL },
	{ SCSI_KEY_UNIT_ATTENTION, ANY_CODE, 0, -EAGAIN },
	{ SCSI_KEY_DATA_PROTECT, 0xffff, SCSI_ASC_SPACE_ALLOCATION_FAILED,
	  -ENOSPC },
	{ SCSI_KEY_DATA_PROTECT, ANY_ASCQ, SCSI_ASC_WRITE_PROTECTED, -EROFS },
	{ SCSI_KEY_DATA_PROTECT, ANY_CODE, 0, -EACCES },
	{ SCSI_KEY_ABORTED_COMMAND, ANY_CODE, 0, -EAGAIN },
	{ SCSI_KEY_VOLUME_OVERFLOW, ANY_CODE, 0, -ENOSPC },
	{ SCSI_KEY_MISCOMPARE, ANY_CODE, 0, -EILSEQ },
};

int scsi_sense_to_errno(const struct scsi_sense *sense)
{
	/* SPC-4 4.5.7: the command that returned it was not executed. */
	if (sense->deferred)
		return -EAGAIN;
	for (size_t i = 0; i < sizeof(to_errno) / sizeof(*to_errno); i++) {
		if (sense->key == to_errno[i].key &&
		    (sense->code & to_errno[i].mask) == to_errno[i].code)
			return to_errno[i].err;
	}
	return -EIO;
}

static const char *const key_names[16] = {
	"NO SENSE",	   "RECOVERED ERROR", "NOT READY",
	"MEDIUM ERROR",	   "HARDWARE ERROR",  "ILLEGAL REQUEST",
	"UNIT ATTENTION",  "DATA PROTECT",    "BLANK CHECK",
	"VENDOR SPECIFIC", "COPY ABORTED",    "ABORTED COMMAND",
	"reserved key Ch", "VOLUME OVERFLOW", "MISCOMPARE",
	"COMPLETED",
};

const char *scsi_key_name(uint8_t key)
{
	return key_names[key & 0x0f];
}

static const struct {
	uint16_t code;
	const char *text;
} asc_texts[] = {
	{ SCSI_ASC_NO_ADDITIONAL_SENSE, "no additional sense information" },
	{ SCSI_ASC_NOT_READY_CAUSE_NOT_REPORTABLE,
	  "logical unit not ready, cause not reportable" },
	{ SCSI_ASC_BECOMING_READY, "logical unit is becoming ready" },
	{ SCSI_ASC_INITIALIZING_COMMAND_REQUIRED,
	  "logical unit not ready, initializing command required" },
	{ SCSI_ASC_MANUAL_INTERVENTION_REQUIRED,
	  "logical unit not ready, manual intervention required" },
	{ SCSI_ASC_FORMAT_IN_PROGRESS,
	  "logical unit not ready, format in progress" },
	{ SCSI_ASC_OPERATION_IN_PROGRESS,
	  "logical unit not ready, operation in progress" },
	{ SCSI_ASC_ACCESS_STATE_TRANSITION,
	  "logical unit not accessible, asymmetric access state transition" },
	{ SCSI_ASC_TARGET_PORT_STANDBY,
	  "logical unit not accessible, target port in standby state" },
	{ SCSI_ASC_TARGET_PORT_UNAVAILABLE,
	  "logical unit not accessible, target port in unavailable state" },
	{ SCSI_ASC_SANITIZE_IN_PROGRESS,
	  "logical unit not ready, sanitize in progress" },
	{ SCSI_ASC_COMMUNICATION_FAILURE,
	  "logical unit communication failure" },
	{ SCSI_ASC_COMMUNICATION_TIMEOUT,
	  "logical unit communication time-out" },
	{ SCSI_ASC_WRITE_ERROR, "write error" },
	{ SCSI_ASC_INVALID_FIELD_IN_COMMAND_IU,
	  "invalid field in command information unit" },
	{ SCSI_ASC_THIRD_PARTY_FAILURE, "third party device failure" },
	{ SCSI_ASC_COPY_TARGET_UNREACHABLE,
	  "copy target device not reachable" },
	{ SCSI_ASC_UNRECOVERED_READ_ERROR, "unrecovered read error" },
	{ SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR, "parameter list length error" },
	{ SCSI_ASC_MISCOMPARE_DURING_VERIFY,
	  "miscompare during verify operation" },
	{ SCSI_ASC_INVALID_OPCODE, "invalid command operation code" },
	{ SCSI_ASC_NO_ACCESS_RIGHTS, "access denied, no access rights" },
	{ SCSI_ASC_LBA_OUT_OF_RANGE, "logical block address out of range" },
	{ SCSI_ASC_INVALID_FIELD_IN_CDB, "invalid field in CDB" },
	{ SCSI_ASC_LUN_NOT_SUPPORTED, "logical unit not supported" },
	{ SCSI_ASC_INVALID_FIELD_IN_PARAMETER_LIST,
	  "invalid field in parameter list" },
	{ SCSI_ASC_INVALID_RELEASE,
	  "invalid release of persistent reservation" },
	{ SCSI_ASC_TOO_MANY_TARGETS, "too many target descriptors" },
	{ SCSI_ASC_UNSUPPORTED_TARGET,
	  "unsupported target descriptor type code" },
	{ SCSI_ASC_TOO_MANY_SEGMENTS, "too many segment descriptors" },
	{ SCSI_ASC_UNSUPPORTED_SEGMENT,
	  "unsupported segment descriptor type code" },
	{ SCSI_ASC_INEXACT_SEGMENT, "inexact segment" },
	{ SCSI_ASC_INLINE_DATA_EXCEEDED, "inline data length exceeded" },
	{ SCSI_ASC_WRITE_PROTECTED, "write protected" },
	{ SCSI_ASC_SOFTWARE_WRITE_PROTECTED,
	  "logical unit software write protected" },
	{ SCSI_ASC_SPACE_ALLOCATION_FAILED,
	  "space allocation failed write protect" },
	{ SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED,
	  "not ready to ready change, medium may have changed" },
	{ SCSI_ASC_POWER_ON_OR_RESET,
	  "power on, reset, or bus device reset occurred" },
	{ SCSI_ASC_POWER_ON, "power on occurred" },
	{ SCSI_ASC_BUS_RESET, "SCSI bus reset occurred" },
	{ SCSI_ASC_DEVICE_RESET, "bus device reset function occurred" },
	{ SCSI_ASC_NEXUS_LOSS, "I_T nexus loss occurred" },
	{ SCSI_ASC_PARAMETERS_CHANGED, "parameters changed" },
	{ SCSI_ASC_MODE_PARAMETERS_CHANGED, "mode parameters changed" },
	{ SCSI_ASC_RESERVATIONS_PREEMPTED, "reservations preempted" },
	{ SCSI_ASC_RESERVATIONS_RELEASED, "reservations released" },
	{ SCSI_ASC_REGISTRATIONS_PREEMPTED, "registrations preempted" },
	{ SCSI_ASC_ACCESS_STATE_CHANGED, "asymmetric access state changed" },
	{ SCSI_ASC_CAPACITY_CHANGED, "capacity data has changed" },
	{ SCSI_ASC_COMMAND_SEQUENCE_ERROR, "command sequence error" },
	{ SCSI_ASC_CLEARED_BY_ANOTHER_INITIATOR,
	  "commands cleared by another initiator" },
	{ SCSI_ASC_FORMAT_CORRUPTED, "medium format corrupted" },
	{ SCSI_ASC_FORMAT_FAILED, "format command failed" },
	{ SCSI_ASC_SANITIZE_FAILED, "sanitize command failed" },
	{ SCSI_ASC_SAVING_NOT_SUPPORTED, "saving parameters not supported" },
	{ SCSI_ASC_MEDIUM_NOT_PRESENT, "medium not present" },
	{ SCSI_ASC_OPERATING_CONDITIONS_CHANGED,
	  "target operating conditions have changed" },
	{ SCSI_ASC_INQUIRY_DATA_CHANGED, "inquiry data has changed" },
	{ SCSI_ASC_REPORTED_LUNS_CHANGED, "reported LUNs data has changed" },
	{ SCSI_ASC_INTERNAL_TARGET_FAILURE, "internal target failure" },
	{ SCSI_ASC_INVALID_MESSAGE_ERROR, "invalid message error" },
	{ SCSI_ASC_DATA_PHASE_ERROR, "data phase error" },
	{ SCSI_ASC_OVERLAPPED_COMMANDS, "overlapped commands attempted" },
	{ SCSI_ASC_REMOVAL_PREVENTED, "medium removal prevented" },
	{ SCSI_ASC_INSUFFICIENT_RESOURCES, "insufficient resources" },
	{ SCSI_ASC_INSUFFICIENT_REGISTRATIONS,
	  "insufficient registration resources" },
	{ SCSI_ASC_SET_PORT_GROUPS_FAILED,
	  "set target port groups command failed" },
};

const char *scsi_asc_text(uint16_t code)
{
	for (size_t i = 0; i < sizeof(asc_texts) / sizeof(*asc_texts); i++) {
		if (asc_texts[i].code == code)
			return asc_texts[i].text;
	}
	return NULL;
}

const char *scsi_status_name(uint8_t status)
{
	switch (status) {
	case SCSI_STATUS_GOOD:
		return "GOOD";
	case SCSI_STATUS_CHECK_CONDITION:
		return "CHECK CONDITION";
	case SCSI_STATUS_CONDITION_MET:
		return "CONDITION MET";
	case SCSI_STATUS_BUSY:
		return "BUSY";
	case SCSI_STATUS_RESERVATION_CONFLICT:
		return "RESERVATION CONFLICT";
	case SCSI_STATUS_TASK_SET_FULL:
		return "TASK SET FULL";
	case SCSI_STATUS_ACA_ACTIVE:
		return "ACA ACTIVE";
	case SCSI_STATUS_TASK_ABORTED:
		return "TASK ABORTED";
	}
	return "unknown status";
}

static void pointer_text(const struct scsi_sense *sense, char *buf, size_t cap)
{
	const char *where =
		sense->pointer == SCSI_POINTER_CDB ? "CDB" : "parameter list";

	if (sense->pointer == SCSI_POINTER_NONE)
		snprintf(buf, cap, "%s", "");
	else if (sense->bit_no <= 7)
		snprintf(buf, cap, ", %s byte %u bit %u", where, sense->byte_no,
			 sense->bit_no);
	else
		snprintf(buf, cap, ", %s byte %u", where, sense->byte_no);
}

const char *scsi_sense_text(const struct scsi_sense *sense,
			    char buf[SCSI_SENSE_TEXT_LEN])
{
	const char *text = scsi_asc_text(sense->code);
	char pointer[48];

	pointer_text(sense, pointer, sizeof(pointer));
	snprintf(buf, SCSI_SENSE_TEXT_LEN, "%s: %s (%02x/%02x/%02x)%s",
		 scsi_key_name(sense->key), text ? text : "unknown reason",
		 sense->key, SCSI_ASC(sense->code), SCSI_ASCQ(sense->code),
		 pointer);
	return buf;
}
