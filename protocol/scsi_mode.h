/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mode pages: the answer to MODE SENSE, the parameter list of MODE SELECT, and
 * what an initiator reads from mode data. Initiators can change struct
 * scsi_modes and nothing else; the masks of changeable values say the same.
 *
 * Thread: any, for every function here.
 */
#ifndef PROTOCOL_SCSI_MODE_H
#define PROTOCOL_SCSI_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_vpd.h"

struct scsi_cmd; /* protocol/scsi_cdb.h */

/* The longest mode data that is built here, bytes. */
#define SCSI_MODE_MAX_LEN 128

enum scsi_mode_page {
	SCSI_MODE_READ_WRITE_RECOVERY = 0x01,
	SCSI_MODE_CACHING = 0x08,
	SCSI_MODE_CONTROL = 0x0a,
	SCSI_MODE_EXCEPTIONS = 0x1c, /* Informational Exceptions Control */
	SCSI_MODE_ALL_PAGES = 0x3f,
};

/**
 * scsi_mode_sense_encode() - the answer to MODE SENSE (6) or (10)
 * @cmd: the decoded command
 *
 * Return: 0 with the full length in @ret_len; -EINVAL with sense 05/24/00
 *   for a page that we do not have, 05/39/00 for saved values where nothing is
 *   saved.
 */
int scsi_mode_sense_encode(const struct scsi_disk_info *info,
			   const struct scsi_cmd *cmd, void *buf, size_t cap,
			   size_t *ret_len, struct scsi_sense *ret_sense);

/**
 * scsi_mode_select_decode() - check MODE SELECT's parameter list
 * @cmd:       the decoded command
 * @buf, @len: the data-out, as long as PARAMETER LIST LENGTH said
 * @ret_modes: the values that are to be current, on success
 *
 * All of it is checked before anything counts. A value that cannot be changed
 * must be sent as it is.
 *
 * Return: 0, or -EINVAL with 05/24/00 (SP where nothing is saved), 05/1A/00 (a
 *   length that cuts something off) or 05/26/00 with the byte and bit.
 */
int scsi_mode_select_decode(const struct scsi_disk_info *info,
			    const struct scsi_cmd *cmd, const void *buf,
			    size_t len, struct scsi_modes *ret_modes,
			    struct scsi_sense *ret_sense);

/* The current values. */
struct scsi_modes scsi_modes_current(const struct scsi_disk_info *info);

bool scsi_modes_equal(const struct scsi_modes *a, const struct scsi_modes *b);

/* What an initiator reads from mode data. */
struct scsi_mode {
	bool write_protected; /* WP */
	bool dpofua;	      /* DPO and FUA are supported */
	bool has_caching; /* the caching page was there; else wce is false */
	bool wce;	  /* write cache enabled */
};

/*
 * Reads mode data of either command, with or without block descriptors, with
 * any pages. Data that did not arrive, or that has a length that does not fit,
 * counts as absent. Return: 0, or -EBADMSG if the header did not arrive.
 */
int scsi_mode_sense_6_decode(const void *buf, size_t len,
			     struct scsi_mode *ret_mode);
int scsi_mode_sense_10_decode(const void *buf, size_t len,
			      struct scsi_mode *ret_mode);

#endif
