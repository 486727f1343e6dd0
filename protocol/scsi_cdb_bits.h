/* SPDX-License-Identifier: BSD-2-Clause */
/* Bits of CDBs, for the table, the decoder and the initiator's CDBs. */
#ifndef PROTOCOL_SCSI_CDB_BITS_H
#define PROTOCOL_SCSI_CDB_BITS_H

/* Byte 1 of READ, WRITE, VERIFY, WRITE SAME. */
#define CDB_DPO	   0x10
#define CDB_FUA	   0x08
#define CDB_BYTCHK 0x06
#define CDB_UNMAP  0x08
#define CDB_NDOB   0x01

#define CDB_IMMED_SYNC 0x02 /* SYNCHRONIZE CACHE, PRE-FETCH byte 1 */
#define CDB_DEFECTS    0x1f /* REQ_PLIST, REQ_GLIST, DEFECT LIST FORMAT */
#define CDB_EVPD       0x01
#define CDB_DBD	       0x08
#define CDB_LLBAA      0x10
#define CDB_PMI	       0x01
#define CDB_START      0x01
#define CDB_LOEJ       0x02
#define CDB_NO_FLUSH   0x04
#define CDB_PREVENT    0x01
#define CDB_RCTD       0x80
#define CDB_PF	       0x10 /* MODE SELECT */
#define CDB_SP	       0x01
#define CDB_EXT_HEADER 0x20 /* REPORT TARGET PORT GROUPS: format 001b */
#define CDB_REPD       0x80 /* REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS */

#define CDB_IMMED_SANITIZE 0x80
#define CDB_AUSE	   0x20
#define CDB_LONGLIST	   0x20 /* FORMAT UNIT byte 1 */
#define CDB_FMTDATA	   0x10

#define SERVICE_ACTION_MASK 0x1f

#endif
