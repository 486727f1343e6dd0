/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PROTOCOL_SCSI_CDB_INDEX_H
#define PROTOCOL_SCSI_CDB_INDEX_H

struct scsi_cdb_info; /* protocol/scsi_cdb.h */

/* The first row of each opcode, so that decoding a command does not search.
 * Thread: any. */
struct scsi_cdb_index {
	const struct scsi_cdb_info *first[256];
};

void scsi_cdb_index_init(struct scsi_cdb_index *ret_index);

#endif
