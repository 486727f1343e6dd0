/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each command that the target knows, with parameters that give it an effect, if its
 * initiator may have one.
 */
#ifndef TESTS_LIB_T_ATTEMPT_H
#define TESTS_LIB_T_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/scsi_cdb.h"

/* Of the volume, bytes. */
#define T_ATTEMPT_BLOCK 512u
/* UNMAP takes as many blocks, from the first one. */
#define T_ATTEMPT_UNMAPPED 16u
/* The most data-in and data-out of a command, bytes. */
#define T_ATTEMPT_IN_LEN  96u
#define T_ATTEMPT_OUT_LEN (8 * T_ATTEMPT_BLOCK)
/* Keys of PERSISTENT RESERVE OUT: of the initiator, and a new one. */
#define T_ATTEMPT_KEY	    0x1111111111111111u
#define T_ATTEMPT_OTHER_KEY 0x2222222222222222u
/* MODE SELECT sets this bit of the control mode page, at byte 4 of the page. */
#define T_ATTEMPT_SWP 0x08

struct t_attempt {
	uint8_t cdb[16];
	uint32_t out_len;
};

/* True if @row is a MODE SELECT: *ret is the MODE SENSE whose data t_attempt() needs. */
bool t_attempt_mode_sense(const struct scsi_cdb_info *row,
			  struct t_attempt *ret);

/*
 * The command of @row. Its data-out is put at @p, which has T_ATTEMPT_OUT_LEN bytes. If it
 * is a MODE SELECT, @p has the data of MODE SENSE before. @naa: SCSI_NAA_LEN bytes, the
 * designator of the volume.
 */
struct t_attempt t_attempt(const struct scsi_cdb_info *row, uint8_t *p,
			   const uint8_t *naa);

#endif
