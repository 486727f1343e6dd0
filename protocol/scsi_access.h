/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PROTOCOL_SCSI_ACCESS_H
#define PROTOCOL_SCSI_ACCESS_H

/*
 * How a command conflicts with the reservation of another nexus (SPC-4 table
 * 65, SBC-3 table 13, SPC-2 table 10). The reservation decides which nexuses
 * are refused.
 */
enum scsi_access {
	SCSI_ACCESS_CHANGES, /* conflicts with every reservation */
	SCSI_ACCESS_READS,   /* conflicts, except with write exclusive */
	SCSI_ACCESS_ASKS,    /* conflicts with RESERVE (6) and (10) only */
	SCSI_ACCESS_ALWAYS,  /* conflicts with none */
	/* ALWAYS if it starts the unit or allows removal of the medium; else
	 * CHANGES */
	SCSI_ACCESS_BY_FIELD,
};

#endif
