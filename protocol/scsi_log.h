/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log pages (SPC-4 7.3, SBC-3 6.4): the list of pages, informational exceptions
 * (none), and the used part of a thinly provisioned store. There is no page for
 * a temperature, which is not known.
 *
 * Thread: any.
 */
#ifndef PROTOCOL_SCSI_LOG_H
#define PROTOCOL_SCSI_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_vpd.h"

struct scsi_cmd; /* protocol/scsi_cdb.h */

enum scsi_log_page {
	SCSI_LOG_SUPPORTED = 0x00,
	SCSI_LOG_PROVISIONING = 0x0c, /* of thinly provisioned units */
	SCSI_LOG_EXCEPTIONS = 0x2f,
};

/**
 * scsi_log_sense_encode() - the answer to LOG SENSE
 * @used: bytes of the store that are in use
 * @cmd:  the decoded command
 *
 * Return: 0 with the full length in @ret_len; -EINVAL with 05/24/00 for a page
 *   or subpage that we do not have, or a parameter pointer behind the last
 *   parameter.
 */
int scsi_log_sense_encode(const struct scsi_disk_info *info, uint64_t used,
			  const struct scsi_cmd *cmd, void *buf, size_t cap,
			  size_t *ret_len, struct scsi_sense *ret_sense);

#endif
