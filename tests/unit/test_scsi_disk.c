/* SPDX-License-Identifier: BSD-2-Clause */
/* The disk between port and backend, command by command. Each row runs twice,
 * with a store that answers at once and with one that answers later. */
#include "target/scsi/disk.h"
#include "tests/lib/t_disk.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/t_bytes.h"

#define SET_GROUPS "a4 0a 00 00 00 00 00 00 00 "

static const struct t_disk_row rows[] = {
	/* which LUNs and states answer */
	{ "TEST UNIT READY", .cdb = "00" },
	{ "TEST UNIT READY of an absent LUN", .cdb = "00", .lun = T_ABSENT_LUN,
	  .outcome = "05/25/00" },
	{ "TEST UNIT READY of a LUN field that names none", .cdb = "00",
	  .lun = -1, .outcome = "05/25/00" },
	{ "TEST UNIT READY of a LUN above all", .cdb = "00", .lun = 16383,
	  .outcome = "05/25/00" },
	{ "unknown command", .cdb = "ff", .outcome = "05/20/00" },
	{ "unknown command of an absent LUN", .cdb = "ff", .lun = T_ABSENT_LUN,
	  .outcome = "05/25/00" },
	{ "unknown service action", .cdb = "9e 1f",
	  .outcome = "05/24/00 CDB 1.4" },
	{ "NACA", .cdb = "00 00 00 00 00 04", .outcome = "05/24/00 CDB 5.2" },

	/* REQUEST SENSE */
	{ "REQUEST SENSE", .cdb = "03 00 00 00 fc", .in_len = 252,
	  .in = "70 00 00 00*4 0a 00*10", .in_cnt = 18, .wanted_in = 18 },
	{ "REQUEST SENSE, descriptors", .cdb = "03 01 00 00 08", .in_len = 8,
	  .in = "72 00 00 00 00*4", .in_cnt = 8, .wanted_in = 8 },
	{ "REQUEST SENSE of an absent LUN", .cdb = "03 00 00 00 12",
	  .lun = T_ABSENT_LUN, .in_len = 18,
	  .in = "70 00 05 00*4 0a 00*4 25 00*5", .in_cnt = 18,
	  .wanted_in = 18 },

	/* READ BUFFER, WRITE BUFFER */
	{ "READ BUFFER before any WRITE BUFFER", .cdb = "3c 02 00*5 00 08",
	  .in_len = 8, .in = "00*8", .in_cnt = 8, .wanted_in = 8 },
	{ "READ BUFFER up to the end", .cdb = "3c 02 00 00 ff fc 00 01 00",
	  .in_len = 256, .in = "00*4", .in_cnt = 4, .wanted_in = 4 },
	{ "READ BUFFER of nothing", .cdb = "3c 02", .in_len = 8 },
	{ "READ BUFFER, descriptor", .cdb = "3c 03 00*6 ff", .in_len = 255,
	  .in = "00 01 00 00", .in_cnt = 4, .wanted_in = 4 },
	{ "READ BUFFER, descriptor of no buffer", .cdb = "3c 03 01 00*5 04",
	  .in_len = 4, .in = "00*4", .in_cnt = 4, .wanted_in = 4 },
	{ "READ BUFFER, descriptor of the echo buffer", .cdb = "3c 0b 00*6 04",
	  .in_len = 4, .in = "01 00 10 00", .in_cnt = 4, .wanted_in = 4 },
	{ "READ BUFFER, echo of nothing", .cdb = "3c 0a 00*6 04", .in_len = 4,
	  .outcome = "05/2c/00" },
	{ "READ BUFFER of an absent LUN", .cdb = "3c 02 00*6 04",
	  .lun = T_ABSENT_LUN, .in_len = 4, .outcome = "05/25/00" },
	{ "WRITE BUFFER", .cdb = "3b 02 00*6 04", .out = "de ad be ef",
	  .wanted_out = 4 },
	{ "WRITE BUFFER on a read-only unit", .store = T_READ_ONLY,
	  .cdb = "3b 0a 00*6 04", .out = "de ad be ef", .wanted_out = 4 },
	{ "WRITE BUFFER of nothing", .cdb = "3b 02" },
	{ "WRITE BUFFER without enough data-out", .cdb = "3b 02 00*6 08",
	  .out = "de ad be ef", .wanted_out = 8,
	  .outcome = "05/24/00 CDB 6.7" },

	/* INQUIRY */
	{ "INQUIRY", .cdb = "12 00 00 00 24", .in_len = 36, .in = "00 00 06",
	  .in_cnt = 36, .wanted_in = 36 },
	{ "INQUIRY without allocation", .cdb = "12", .in_len = 36 },
	{ "INQUIRY without a buffer", .cdb = "12 00 00 00 24",
	  .wanted_in = 36 },
	{ "INQUIRY with a smaller buffer", .cdb = "12 00 00 00 24", .in_len = 8,
	  .in = "00 00 06", .in_cnt = 8, .wanted_in = 36 },
	{ "INQUIRY with a larger buffer", .cdb = "12 00 00 00 24",
	  .in_len = 4096, .in_cnt = 36, .wanted_in = 36 },
	{ "INQUIRY with room for more than there is", .cdb = "12 00 00 ff ff",
	  .in_len = 65535, .in_cnt = 96, .wanted_in = 96 },
	{ "INQUIRY of an absent LUN", .cdb = "12 00 00 00 24",
	  .lun = T_ABSENT_LUN, .in_len = 36, .in = "7f", .in_cnt = 36,
	  .wanted_in = 36 },
	{ "INQUIRY, page 00h", .cdb = "12 01 00 00 fc", .in_len = 252,
	  .in = "00 00 00 09 00 80 83 86 8f b0 b1 b2 c0", .in_cnt = 13,
	  .wanted_in = 13 },
	{ "INQUIRY, page 80h", .cdb = "12 01 80 00 fc", .in_len = 252,
	  .in = "00 80 00 04 '0123'", .in_cnt = 8, .wanted_in = 8 },
	{ "INQUIRY, header of page 83h", .cdb = "12 01 83 00 04", .in_len = 4,
	  .in = "00 83", .in_cnt = 4, .wanted_in = 4 },
	{ "INQUIRY, page 86h", .cdb = "12 01 86 00 fc", .in_len = 252,
	  .in = "00 86 00 3c", .in_cnt = 64, .wanted_in = 64 },
	{ "INQUIRY, page B0h", .cdb = "12 01 b0 00 fc", .in_len = 252,
	  .in = "00 b0 00 3c 00 ff 00 08 00 00 20 00 00 00 08 00", .in_cnt = 64,
	  .wanted_in = 64 },
	{ "INQUIRY, page B1h", .cdb = "12 01 b1 00 fc", .in_len = 252,
	  .in = "00 b1 00 3c 00 01 00 40", .in_cnt = 64, .wanted_in = 64 },
	{ "INQUIRY, page B2h", .cdb = "12 01 b2 00 fc", .in_len = 252,
	  .in = "00 b2", .in_cnt = 8, .wanted_in = 8 },
	{ "INQUIRY, a page that is not there", .cdb = "12 01 87 00 fc",
	  .in_len = 252, .outcome = "05/24/00 CDB 2.7" },
	{ "INQUIRY, page without EVPD", .cdb = "12 00 80 00 fc", .in_len = 252,
	  .outcome = "05/24/00 CDB 2.7" },
	{ "INQUIRY, page of an absent LUN", .cdb = "12 01 00 00 fc",
	  .lun = T_ABSENT_LUN, .in_len = 252, .outcome = "05/25/00" },

	/* REPORT LUNS */
	{ "REPORT LUNS", .cdb = "a0 00 00 00 00 00 00 00 10 00", .in_len = 4096,
	  .in = "00 00 00 10 00*4 00 00 00*6 00 03 00*6", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "REPORT LUNS, header only", .cdb = "a0 00 00 00 00 00 00 00 00 08",
	  .in_len = 8, .in = "00 00 00 10 00*4", .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS through an absent LUN",
	  .cdb = "a0 00 02 00 00 00 00 00 10 00", .lun = -1, .in_len = 4096,
	  .in = "00 00 00 10", .in_cnt = 24, .wanted_in = 24 },
	{ "REPORT LUNS, well-known ones",
	  .cdb = "a0 00 01 00 00 00 00 00 10 00", .in_len = 4096, .in = "00*8",
	  .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS, administrative ones",
	  .cdb = "a0 00 10 00 00 00 00 00 10 00", .in_len = 4096, .in = "00*8",
	  .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS, administrative ones, through another LUN",
	  .cdb = "a0 00 10 00 00 00 00 00 10 00", .lun = T_OTHER_LUN,
	  .in_len = 4096, .outcome = "05/24/00 CDB 2.7" },
	{ "REPORT LUNS, all but subsidiary ones",
	  .cdb = "a0 00 11 00 00 00 00 00 10 00", .in_len = 4096,
	  .in = "00 00 00 10 00*4 00 00 00*6 00 03 00*6", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "REPORT LUNS, all but subsidiary ones, through another LUN",
	  .cdb = "a0 00 11 00 00 00 00 00 10 00", .lun = T_OTHER_LUN,
	  .in_len = 4096, .outcome = "05/24/00 CDB 2.7" },
	{ "REPORT LUNS, subsidiary ones",
	  .cdb = "a0 00 12 00 00 00 00 00 10 00", .lun = T_OTHER_LUN,
	  .in_len = 4096, .in = "00*8", .in_cnt = 8, .wanted_in = 8 },
	{ "REPORT LUNS, unknown selection",
	  .cdb = "a0 00 03 00 00 00 00 00 10 00", .in_len = 4096,
	  .outcome = "05/24/00 CDB 2.7" },

	/* REPORT SUPPORTED OPERATION CODES */
	{ "REPORT OPCODES, one that is there",
	  .cdb = "a3 0c 01 93 00 00 00 00 02 00", .in_len = 512,
	  .in = "00 03 00 10 93", .in_cnt = 20, .wanted_in = 20 },
	{ "REPORT OPCODES, one that is not",
	  .cdb = "a3 0c 01 ff 00 00 00 00 02 00", .in_len = 512, .in = "00 01",
	  .in_cnt = 4, .wanted_in = 4 },
	{ "REPORT OPCODES, service action for a command without",
	  .cdb = "a3 0c 02 12 00 00 00 00 02 00", .in_len = 512,
	  .outcome = "05/24/00 CDB 2.2" },

	{ "REPORT OPCODES, SET TARGET PORT GROUPS",
	  .cdb = "a3 0c 02 a4 00 0a 00 00 02 00", .in_len = 512,
	  .in = "00 03 00 0c a4 0a 00*4 ff*4 00 00", .in_cnt = 16,
	  .wanted_in = 16 },
	{ "REPORT OPCODES, another service action of it",
	  .cdb = "a3 0c 02 a4 00 06 00 00 02 00", .in_len = 512, .in = "00 01",
	  .in_cnt = 4, .wanted_in = 4 },

	/* SET TARGET PORT GROUPS: the only group is 1, active and optimized */
	{ "SET GROUPS, as it is", .cdb = SET_GROUPS "08",
	  .out = "00*4 00 00 00 01", .wanted_out = 8 },
	{ "SET GROUPS, read-only", .store = T_READ_ONLY, .cdb = SET_GROUPS "08",
	  .out = "00*4 00 00 00 01", .wanted_out = 8 },
	{ "SET GROUPS, no list", .cdb = SET_GROUPS "00" },
	{ "SET GROUPS, no descriptor", .cdb = SET_GROUPS "04", .out = "00*4",
	  .wanted_out = 4 },
	{ "SET GROUPS, twice the same", .cdb = SET_GROUPS "0c",
	  .out = "00*4 00 00 00 01 00 00 00 01", .wanted_out = 12 },
	{ "SET GROUPS, active and not optimized", .cdb = SET_GROUPS "08",
	  .out = "00*4 01 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.3" },
	{ "SET GROUPS, standby", .cdb = SET_GROUPS "08",
	  .out = "00*4 02 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.3" },
	{ "SET GROUPS, unavailable", .cdb = SET_GROUPS "08",
	  .out = "00*4 03 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.3" },
	{ "SET GROUPS, a port offline", .cdb = SET_GROUPS "08",
	  .out = "00*4 0e 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.3" },
	{ "SET GROUPS, transitioning", .cdb = SET_GROUPS "08",
	  .out = "00*4 0f 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.3" },
	{ "SET GROUPS, another group", .cdb = SET_GROUPS "08",
	  .out = "00*4 00 00 00 02", .wanted_out = 8,
	  .outcome = "05/26/00 data 6.7" },
	{ "SET GROUPS, the second one another group", .cdb = SET_GROUPS "0c",
	  .out = "00*4 00 00 00 01 00 00 01 01", .wanted_out = 12,
	  .outcome = "05/26/00 data 10.7" },
	{ "SET GROUPS, reserved byte of the header", .cdb = SET_GROUPS "08",
	  .out = "00 00 40 00 00 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 2.6" },
	{ "SET GROUPS, reserved bits beside the state", .cdb = SET_GROUPS "08",
	  .out = "00*4 20 00 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 4.5" },
	{ "SET GROUPS, reserved byte behind it", .cdb = SET_GROUPS "08",
	  .out = "00*4 00 01 00 01", .wanted_out = 8,
	  .outcome = "05/26/00 data 5.0" },
	{ "SET GROUPS, header cut short", .cdb = SET_GROUPS "03", .out = "00*3",
	  .wanted_out = 3, .outcome = "05/24/00 CDB 6.7" },
	{ "SET GROUPS, descriptor cut short", .cdb = SET_GROUPS "0b",
	  .out = "00*4 00 00 00 01 00 00 00", .wanted_out = 11,
	  .outcome = "05/24/00 CDB 6.7" },
	{ "SET GROUPS, too long a list", .cdb = "a4 0a 00 00 00 00 ff ff ff ff",
	  .out = "00*260", .outcome = "05/24/00 CDB 6.7" },
	{ "SET GROUPS, data-out too short", .cdb = SET_GROUPS "08",
	  .out = "00*7", .wanted_out = 8, .outcome = "05/24/00 CDB 6.7" },
	{ "SET GROUPS, data-out longer", .cdb = SET_GROUPS "08",
	  .out = "00*4 00 00 00 01 ff*8", .wanted_out = 8 },
	{ "SET GROUPS, reserved byte of the CDB",
	  .cdb = "a4 0a 00 00 01 00 00 00 00 08", .out = "00*8",
	  .outcome = "05/24/00 CDB 4.0" },
	{ "SET GROUPS of an absent LUN", .cdb = SET_GROUPS "08",
	  .lun = T_ABSENT_LUN, .out = "00*8", .outcome = "05/25/00" },
	{ "another MAINTENANCE OUT", .cdb = "a4 06",
	  .outcome = "05/24/00 CDB 1.4" },

	/* mode and capacity */
	{ "MODE SENSE (6), a cache", .cdb = "1a 08 08 00 fc", .in_len = 252,
	  .in = "17 00 10 00 08 12 04", .in_cnt = 24, .wanted_in = 24 },
	{ "MODE SENSE (6), no cache", .store = T_STABLE,
	  .cdb = "1a 08 08 00 fc", .in_len = 252, .in = "17 00 10 00 08 12 00",
	  .in_cnt = 24, .wanted_in = 24 },
	{ "MODE SENSE (6), write-protected", .store = T_READ_ONLY,
	  .cdb = "1a 08 3f 00 04", .in_len = 4, .in_cnt = 4, .wanted_in = 4 },
	{ "MODE SENSE (10)", .cdb = "5a 08 08 00 00 00 00 00 ff", .in_len = 255,
	  .in = "00 1a 00 10 00 00 00 00 08 12 04", .in_cnt = 28,
	  .wanted_in = 28 },
	{ "MODE SENSE (6), header and block descriptor",
	  .cdb = "1a 00 00 00 fc", .in_len = 252,
	  .in = "0b 00 10 08 00 00 40 00 00 00 02 00", .in_cnt = 12,
	  .wanted_in = 12 },
	{ "MODE SENSE (10), header alone", .cdb = "5a 08 00 00 00 00 00 00 ff",
	  .in_len = 255, .in = "00 06 00 10 00*4", .in_cnt = 8,
	  .wanted_in = 8 },
	{ "MODE SENSE, page 0 of the defaults", .cdb = "1a 00 80 00 fc",
	  .in_len = 252, .outcome = "05/24/00 CDB 2.5" },
	{ "MODE SENSE, subpage of page 0", .cdb = "1a 00 00 01 fc",
	  .in_len = 252, .outcome = "05/24/00 CDB 2.5" },
	{ "MODE SENSE, no such page", .cdb = "1a 08 05 00 fc", .in_len = 252,
	  .outcome = "05/24/00 CDB 2.5" },
	{ "MODE SENSE, saved values", .cdb = "1a 08 c8 00 fc", .in_len = 252,
	  .outcome = "05/39/00" },
	{ "READ CAPACITY (10)", .cdb = "25", .in_len = 8,
	  .in = "00 00 3f ff 00 00 02 00", .in_cnt = 8, .wanted_in = 8 },
	{ "READ CAPACITY (16)", .cdb = "9e 10 00*11 20", .in_len = 32,
	  .in = "00*6 3f ff 00 00 02 00 00 03 c0 00 00*16", .in_cnt = 32,
	  .wanted_in = 32 },
	{ "READ CAPACITY (16), not thin", .store = T_PLAIN,
	  .cdb = "9e 10 00*11 20", .in_len = 32,
	  .in = "00*6 3f ff 00 00 02 00 00 03 00 00 00*16", .in_cnt = 32,
	  .wanted_in = 32 },
	{ "START", .cdb = "1b 00 00 00 01" },
	{ "STOP flushes", .cdb = "1b", .ops = "flush" },
	{ "STOP without flush", .cdb = "1b 00 00 00 04" },
	{ "STOP, read-only", .store = T_READ_ONLY, .cdb = "1b" },
	{ "STOP, flush fails", .cdb = "1b", .ops = "flush", .fail_at = 1,
	  .fail_with = -EIO, .outcome = "03/0c/00" },
	{ "PREVENT REMOVAL", .cdb = "1e 00 00 00 01" },

	/* READ */
	{ "READ (6)", .cdb = "08 00 00 02 01", .in_len = 512,
	  .ops = "read 1024+512", .in = "03*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ (6) of 0 blocks is of 256", .cdb = "08", .in_len = 131072,
	  .ops = "read 0+131072", .in = "01*512 02*512", .in_cnt = 131072,
	  .wanted_in = 131072 },
	{ "READ (10)", .cdb = "28 00 00 00 00 01 00 00 02", .in_len = 1024,
	  .ops = "read 512+1024", .in = "02*512 03*512", .in_cnt = 1024,
	  .wanted_in = 1024 },
	{ "READ (12)", .cdb = "a8 00 00 00 00 01 00 00 00 01", .in_len = 512,
	  .ops = "read 512+512", .in = "02*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ (16)", .cdb = "88 00 00*6 3f ff 00 00 00 01", .in_len = 512,
	  .ops = "read 8388096+512", .in = "00*512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ of nothing", .cdb = "28", .in_len = 512 },
	{ "READ of nothing without a buffer", .cdb = "28" },
	{ "READ, DPO and FUA, through a cache", .cdb = "28 18 00*6 01",
	  .in_len = 512, .ops = "flush, read 0+512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ, FUA, flush fails", .cdb = "28 08 00*6 01", .in_len = 512,
	  .ops = "flush", .fail_at = 1, .fail_with = -EIO, .wanted_in = 512,
	  .outcome = "03/0c/00" },
	{ "READ, FUA, no cache", .store = T_STABLE, .cdb = "28 08 00*6 01",
	  .in_len = 512, .ops = "read 0+512", .in_cnt = 512, .wanted_in = 512 },
	{ "READ in place", .store = T_MEMORY,
	  .cdb = "28 00 00 00 00 01 00 00 02", .in_len = 1024,
	  .in = "02*512 03*512", .in_cnt = 1024, .wanted_in = 1024 },
	{ "READ in place, smaller buffer", .store = T_MEMORY,
	  .cdb = "28 00 00 00 00 01 00 00 02", .in_len = 100, .in = "02*100",
	  .in_cnt = 100, .wanted_in = 1024 },
	{ "READ, buffer ends within a block",
	  .cdb = "28 00 00 00 00 00 00 00 03", .in_len = 700,
	  .ops = "read 0+1024", .in = "01*512 02*188", .in_cnt = 700,
	  .wanted_in = 1536 },
	{ "READ without a buffer", .cdb = "28 00 00 00 00 00 00 00 03",
	  .wanted_in = 1536 },
	{ "READ with a larger buffer", .cdb = "28 00 00 00 00 00 00 00 01",
	  .in_len = 4096, .ops = "read 0+512", .in_cnt = 512,
	  .wanted_in = 512 },
	{ "READ past the end", .cdb = "28 00 00 00 3f ff 00 00 02",
	  .in_len = 1024, .outcome = "05/21/00 info 16384" },
	{ "READ behind the end", .cdb = "28 00 00 00 40 00 00 00 01",
	  .in_len = 512, .outcome = "05/21/00 info 16384" },
	{ "READ of nothing behind the end", .cdb = "28 00 00 00 40 00",
	  .outcome = "05/21/00 info 16384" },
	{ "READ (16) whose end overflows", .cdb = "88 00 ff*8 00 00 00 02",
	  .in_len = 1024, .outcome = "05/21/00" },
	{ "READ of more than the limit", .cdb = "28 00 00 00 00 00 00 20 01",
	  .in_len = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "READ with RDPROTECT", .cdb = "28 20 00*6 01", .in_len = 512,
	  .outcome = "05/24/00 CDB 1.7" },
	{ "READ, medium error", .cdb = "28 00 00 00 00 08 00 00 04",
	  .in_len = 2048, .ops = "read 4096+2048", .fail_at = 1,
	  .fail_with = -EIO, .fail_progress = 1024, .wanted_in = 2048,
	  .outcome = "03/11/00 info 10" },
	{ "READ, no memory", .cdb = "28 00 00*6 01", .in_len = 512,
	  .ops = "read 0+512", .fail_at = 1, .fail_with = -ENOMEM,
	  .wanted_in = 512, .outcome = "0b/55/03" },

	/* WRITE */
	{ "WRITE (6)", .cdb = "0a 00 00 02 01", .out = "aa*512",
	  .ops = "write 1024+512", .wanted_out = 512, .lba = 1,
	  .after = "02*512 aa*512 04*512" },
	{ "WRITE (10)", .cdb = "2a 00 00 00 00 01 00 00 02",
	  .out = "aa*512 bb*512", .ops = "write 512+1024", .wanted_out = 1024,
	  .lba = 0, .after = "01*512 aa*512 bb*512 04*512" },
	{ "WRITE (12)", .cdb = "aa 00 00 00 00 01 00 00 00 01", .out = "aa*512",
	  .ops = "write 512+512", .wanted_out = 512, .lba = 1,
	  .after = "aa*512" },
	{ "WRITE (16)", .cdb = "8a 00 00*6 3f ff 00 00 00 01", .out = "aa*512",
	  .ops = "write 8388096+512", .wanted_out = 512, .lba = 16383,
	  .after = "aa*512" },
	{ "WRITE of nothing", .cdb = "2a", .out = "aa*512" },
	{ "WRITE, FUA", .cdb = "2a 08 00*6 01", .out = "aa*512",
	  .ops = "write 0+512 fua", .wanted_out = 512, .lba = 0,
	  .after = "aa*512" },
	{ "WRITE, FUA that the store cannot do", .store = T_PLAIN,
	  .cdb = "2a 08 00*6 01", .out = "aa*512", .ops = "write 0+512, flush",
	  .wanted_out = 512, .lba = 0, .after = "aa*512" },
	{ "WRITE, FUA by a flush that fails", .store = T_PLAIN,
	  .cdb = "2a 08 00*6 01", .out = "aa*512", .ops = "write 0+512, flush",
	  .fail_at = 2, .fail_with = -EIO, .wanted_out = 512,
	  .outcome = "03/0c/00", .lba = 0, .after = "aa*512" },
	{ "WRITE, FUA, no cache", .store = T_STABLE, .cdb = "2a 08 00*6 01",
	  .out = "aa*512", .ops = "write 0+512", .wanted_out = 512, .lba = 0,
	  .after = "aa*512" },
	{ "WRITE in place", .store = T_MEMORY,
	  .cdb = "2a 08 00 00 00 01 00 00 01", .out = "aa*512",
	  .wanted_out = 512, .lba = 0, .after = "01*512 aa*512 03*512" },
	{ "WRITE, data-out too short", .cdb = "2a 00 00 00 00 00 00 00 02",
	  .out = "aa*1023", .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE in place, data-out too short", .store = T_MEMORY,
	  .cdb = "2a 00 00 00 00 00 00 00 02", .out = "aa*1023",
	  .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE (16) without data-out", .cdb = "8a 00 00*8 00 00 00 01",
	  .in_len = 512, .wanted_out = 512, .outcome = "05/24/00 CDB 10.7" },
	{ "WRITE, data-out longer", .cdb = "2a 00 00 00 00 00 00 00 01",
	  .out = "aa*1024", .ops = "write 0+512", .wanted_out = 512, .lba = 0,
	  .after = "aa*512 02*512" },
	{ "WRITE, write-protected", .store = T_READ_ONLY,
	  .cdb = "2a 00 00*6 01", .out = "aa*512", .outcome = "07/27/00" },
	{ "WRITE past the end", .cdb = "2a 00 00 00 3f ff 00 00 02",
	  .out = "aa*1024", .outcome = "05/21/00 info 16384" },
	{ "WRITE in place past the end", .store = T_MEMORY,
	  .cdb = "2a 00 00 00 3f ff 00 00 02", .out = "aa*1024",
	  .outcome = "05/21/00 info 16384" },
	{ "WRITE of more than the limit", .cdb = "2a 00 00 00 00 00 00 20 01",
	  .out = "aa*512", .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE with WRPROTECT", .cdb = "2a 20 00*6 01", .out = "aa*512",
	  .outcome = "05/24/00 CDB 1.7" },
	{ "WRITE, medium error", .cdb = "2a 00 00 00 00 08 00 00 04",
	  .out = "aa*2048", .ops = "write 4096+2048", .fail_at = 1,
	  .fail_with = -EIO, .fail_progress = 512, .wanted_out = 2048,
	  .outcome = "03/0c/00 info 9" },
	{ "WRITE, store full", .cdb = "2a 00 00*6 01", .out = "aa*512",
	  .ops = "write 0+512", .fail_at = 1, .fail_with = -ENOSPC,
	  .wanted_out = 512, .outcome = "07/27/07" },

	/* VERIFY */
	{ "VERIFY (10) reads the medium", .cdb = "2f 00 00 00 00 01 00 00 02",
	  .ops = "read 512+1024" },
	{ "VERIFY (10) of nothing", .cdb = "2f" },
	{ "VERIFY (12), medium error", .cdb = "af 00 00 00 00 01 00 00 00 02",
	  .ops = "read 512+1024", .fail_at = 1, .fail_with = -EIO,
	  .outcome = "03/11/00 info 1" },
	{ "VERIFY (16), in pieces", .cdb = "8f 00 00*8 00 00 02 01",
	  .ops = "read 0+262144, read 262144+512" },
	{ "VERIFY in place", .store = T_MEMORY,
	  .cdb = "2f 00 00 00 00 01 00 00 02" },
	{ "VERIFY, equal", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512 03*512", .ops = "read 512+1024", .wanted_out = 1024 },
	{ "VERIFY, different", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512 03*511 04", .ops = "read 512+1024", .wanted_out = 1024,
	  .outcome = "0e/1d/00 info 1023" },
	{ "VERIFY in place, equal", .store = T_MEMORY,
	  .cdb = "2f 02 00 00 00 01 00 00 02", .out = "02*512 03*512",
	  .wanted_out = 1024 },
	{ "VERIFY in place, different", .store = T_MEMORY,
	  .cdb = "2f 02 00 00 00 01 00 00 02", .out = "02*512 04*512",
	  .wanted_out = 1024, .outcome = "0e/1d/00 info 512" },
	{ "VERIFY, data-out too short", .cdb = "2f 02 00 00 00 01 00 00 02",
	  .out = "02*512", .wanted_out = 1024, .outcome = "05/24/00 CDB 7.7" },
	{ "VERIFY past the end", .cdb = "2f 00 00 00 3f ff 00 00 02",
	  .outcome = "05/21/00 info 16384" },

	/* SYNCHRONIZE CACHE */
	{ "SYNCHRONIZE CACHE (10)", .cdb = "35", .ops = "flush" },
	{ "SYNCHRONIZE CACHE (16)", .cdb = "91", .ops = "flush" },
	{ "SYNCHRONIZE CACHE of a range", .cdb = "35 00 00 00 00 01 00 00 02",
	  .ops = "flush" },
	{ "SYNCHRONIZE CACHE, IMMED", .cdb = "35 02", .ops = "flush" },
	{ "SYNCHRONIZE CACHE, read-only", .store = T_READ_ONLY, .cdb = "35" },
	{ "SYNCHRONIZE CACHE past the end", .cdb = "35 00 00 00 3f ff 00 00 02",
	  .outcome = "05/21/00 info 16384" },
	{ "SYNCHRONIZE CACHE, flush fails", .cdb = "35", .ops = "flush",
	  .fail_at = 1, .fail_with = -EIO, .outcome = "03/0c/00" },

	/* UNMAP */
	{ "UNMAP", .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*4",
	  .ops = "unmap 512+1024", .wanted_out = 24, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "UNMAP of two ranges and an empty one",
	  .cdb = "42 00 00 00 00 00 00 00 38",
	  .out = "00 36 00 30 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*7 05 00*8 00*7 09 00 00 00 01 00*4",
	  .ops = "unmap 512+1024, unmap 4608+512", .wanted_out = 56 },
	{ "UNMAP in pieces", .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 2f ff 00*4",
	  .ops = "unmap 512+4193792, unmap 4194304+2097152", .wanted_out = 24,
	  .lba = 12286, .after = "00*1024 01*512" },
	{ "UNMAP in place", .store = T_MEMORY,
	  .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*4",
	  .ops = "unmap 512+1024", .wanted_out = 24, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "UNMAP of nothing", .cdb = "42" },
	{ "UNMAP, list cut short", .cdb = "42 00 00 00 00 00 00 00 17",
	  .out = "00 16 00 10 00*4 00*7 01 00 00 00 02 00*3",
	  .wanted_out = 23 },
	{ "UNMAP, header cut short", .cdb = "42 00 00 00 00 00 00 00 07",
	  .out = "00 16 00 10 00*3", .wanted_out = 7, .outcome = "05/1a/00" },
	{ "UNMAP, data-out too short", .cdb = "42 00 00 00 00 00 00 00 18",
	  .out = "00 16 00 10 00*4", .wanted_out = 24,
	  .outcome = "05/24/00 CDB 7.7" },
	{ "UNMAP past the end does nothing at all",
	  .cdb = "42 00 00 00 00 00 00 00 28",
	  .out = "00 26 00 20 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*6 3f ff 00 00 00 02 00*4",
	  .wanted_out = 40, .outcome = "05/21/00 info 16384" },
	{ "UNMAP with ANCHOR", .cdb = "42 01", .outcome = "05/24/00 CDB 1.0" },
	{ "UNMAP where nothing is thin", .store = T_PLAIN,
	  .cdb = "42 00 00 00 00 00 00 00 18", .out = "00*24",
	  .outcome = "05/20/00" },
	{ "UNMAP, second range fails", .cdb = "42 00 00 00 00 00 00 00 28",
	  .out = "00 26 00 20 00*4 00*7 01 00 00 00 02 00*4 "
		 "00*7 09 00 00 00 01 00*4",
	  .ops = "unmap 512+1024, unmap 4608+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 40, .outcome = "03/0c/00 info 9" },

	/* WRITE SAME */
	{ "WRITE SAME (10) of zeroes", .cdb = "41 00 00 00 00 01 00 00 02",
	  .out = "00*512", .ops = "zero 512+1024", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (10) of zeroes, UNMAP",
	  .cdb = "41 08 00 00 00 01 00 00 02", .out = "00*512",
	  .ops = "zero 512+1024 may-unmap", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (16) of a pattern", .cdb = "93 00 00*7 01 00 00 00 02",
	  .out = "aa bb*511", .ops = "write 512+1024", .wanted_out = 512,
	  .lba = 0, .after = "01*512 aa bb*511 aa bb*511 04*512" },
	{ "WRITE SAME of a pattern, UNMAP", .cdb = "93 08 00*7 01 00 00 00 01",
	  .out = "00*511 01", .ops = "write 512+512", .wanted_out = 512,
	  .lba = 1, .after = "00*511 01 03*512" },
	{ "WRITE SAME of a pattern, in pieces", .cdb = "93 00 00*8 00 00 02 01",
	  .out = "aa*512", .ops = "write 0+262144, write 262144+512",
	  .wanted_out = 512, .lba = 511, .after = "aa*1024 02*512" },
	{ "WRITE SAME of a pattern, second piece fails",
	  .cdb = "93 00 00*8 00 00 02 01", .out = "aa*512",
	  .ops = "write 0+262144, write 262144+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 512, .outcome = "03/0c/00 info 512",
	  .lba = 511, .after = "aa*512 01*512" },
	{ "WRITE SAME in place", .store = T_MEMORY,
	  .cdb = "93 00 00*7 01 00 00 00 02", .out = "aa bb*511",
	  .wanted_out = 512, .lba = 0,
	  .after = "01*512 aa bb*511 aa bb*511 04*512" },
	{ "WRITE SAME (16), NDOB", .cdb = "93 01 00*7 01 00 00 00 02",
	  .ops = "zero 512+1024", .lba = 0, .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME (16), NDOB, UNMAP", .cdb = "93 09 00*7 01 00 00 00 02",
	  .ops = "zero 512+1024 may-unmap" },
	{ "WRITE SAME of zeroes where they must be written", .store = T_PLAIN,
	  .cdb = "41 00 00 00 00 01 00 00 02", .out = "00*512",
	  .ops = "write 512+1024", .wanted_out = 512, .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME, NDOB, where zeroes must be written", .store = T_PLAIN,
	  .cdb = "93 01 00*7 01 00 00 00 02", .ops = "write 512+1024", .lba = 0,
	  .after = "01*512 00*1024 04*512" },
	{ "WRITE SAME of zeroes, in pieces", .cdb = "93 01 00*7 01 00 00 10 00",
	  .ops = "zero 512+1048064, zero 1048576+1048576, zero 2097152+512",
	  .lba = 4095, .after = "00*1024 02*512" },
	{ "WRITE SAME of zeroes, second piece fails",
	  .cdb = "93 01 00*7 01 00 00 10 00",
	  .ops = "zero 512+1048064, zero 1048576+1048576", .fail_at = 2,
	  .fail_with = -EIO, .outcome = "03/0c/00 info 2048", .lba = 2047,
	  .after = "00*512 01*512" },
	{ "WRITE SAME of 0 blocks is to the end", .cdb = "41 00 00 00 3f fe",
	  .out = "00*512", .ops = "zero 8387584+1024", .wanted_out = 512 },
	{ "WRITE SAME without data-out", .cdb = "41 00 00*6 01",
	  .wanted_out = 512, .outcome = "05/24/00 CDB 7.7" },
	{ "WRITE SAME, UNMAP, where nothing is thin", .store = T_PLAIN,
	  .cdb = "41 08 00*6 01", .out = "00*512",
	  .outcome = "05/24/00 CDB 1.3" },
	{ "WRITE SAME with ANCHOR", .cdb = "41 10 00*6 01", .out = "00*512",
	  .outcome = "05/24/00 CDB 1.4" },
	{ "WRITE SAME past the end", .cdb = "41 00 00 00 3f ff 00 00 02",
	  .out = "00*512", .outcome = "05/21/00 info 16384" },
	{ "WRITE SAME, write-protected", .store = T_READ_ONLY,
	  .cdb = "41 00 00*6 01", .out = "00*512", .outcome = "07/27/00" },

	/* GET LBA STATUS: 8 blocks are mapped, the next 8 are not, and so on */
	{ "GET LBA STATUS, one range", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 24, .ops = "extent 1024+8387584",
	  .in = "00 00 00 14 00*4 00*7 02 00 00 00 06 00*4", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS, two ranges", .cdb = "9e 12 00*7 02 00 00 00 28",
	  .in_len = 40, .ops = "extent 1024+8387584, extent 4096+8384512",
	  .in = "00 00 00 24 00*4 00*7 02 00 00 00 06 00*4 "
		"00*7 08 00 00 00 08 01 00*3",
	  .in_cnt = 40, .wanted_in = 40 },
	{ "GET LBA STATUS, header only", .cdb = "9e 12 00*8 00 00 00 08",
	  .in_len = 8, .ops = "extent 0+8388608", .in = "00 00 00 14 00*4",
	  .in_cnt = 8, .wanted_in = 8 },
	{ "GET LBA STATUS of the last block",
	  .cdb = "9e 12 00*6 3f ff 00 00 01 00", .in_len = 256,
	  .ops = "extent 8388096+512",
	  .in = "00 00 00 14 00*4 00*6 3f ff 00 00 00 01 01 00*3", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS that the store cannot tell", .store = T_MEMORY,
	  .cdb = "9e 12 00*7 02 00 00 01 00", .in_len = 256,
	  .in = "00 00 00 14 00*4 00*7 02 00 00 3f fe 00 00*3", .in_cnt = 24,
	  .wanted_in = 24 },
	{ "GET LBA STATUS, smaller buffer", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 10, .ops = "extent 1024+8387584", .in = "00 00 00 14",
	  .in_cnt = 10, .wanted_in = 24 },
	{ "GET LBA STATUS behind the end",
	  .cdb = "9e 12 00*6 40 00 00 00 01 00", .in_len = 256,
	  .outcome = "05/21/00 info 16384" },
	{ "GET LBA STATUS that fails", .cdb = "9e 12 00*7 02 00 00 00 18",
	  .in_len = 24, .ops = "extent 1024+8387584", .fail_at = 1,
	  .fail_with = -EIO, .outcome = "03/11/00 info 2" },
};

T_ROWS(command, rows)
{
	t_disk_run_row(*state, /* later= */ false);
	t_disk_run_row(*state, /* later= */ true);
}

/* ---- cases that need more than a table ---- */

T_TEST(miscompare_in_a_later_piece_has_its_offset)
{
	const uint32_t len = 513 * T_BLOCK;
	uint8_t *out = malloc(len);
	struct t_command c;

	t_disk_start(T_THIN);
	assert_non_null(out);
	memcpy(out, t_store.bytes, len);
	out[len - 2] ^= 1;
	t_command_run(&c, "8f 02 00*8 00 00 02 01", 0, out, len, 0);
	assert_string_equal(t_outcome(&c.task), "0e/1d/00 info 262654");
	t_command_free(&c);
	free(out);
	t_disk_stop();
}

/* ---- READ BUFFER ---- */

/* Runs a command with the bytes of @out as data-out. */
static void buffer_write(const char *cdb, int lun, const char *out)
{
	struct t_bytes b = t_bytes(out);
	struct t_command c;

	t_command_run(&c, cdb, lun, b.p, (uint32_t)b.len, 0);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	free(b.p);
}

/* @want: "05/2c/00", or NULL: good, and data-in is @in. */
static void buffer_read(const char *cdb, int lun, const char *want,
			const char *in)
{
	struct t_bytes b = t_bytes(in);
	struct t_command c;

	t_command_run(&c, cdb, lun, NULL, 0, 8192);
	assert_string_equal(t_outcome(&c.task), want ? want : "good");
	assert_int_equal(c.task.data_in_cnt, b.len);
	assert_memory_equal(c.buf, b.p, b.len);
	t_command_free(&c);
	free(b.p);
}

T_TEST(buffer_holds_what_was_written)
{
	t_disk_start(T_THIN);
	buffer_write("3b 02 00*6 04", 0, "de ad be ef");
	buffer_write("3b 02 00 00 00 02 00 00 04", T_OTHER_LUN, "01 02 03 04");
	buffer_read("3c 02 00*6 08", 0, NULL, "de ad 01 02 03 04 00 00");
	buffer_read("3c 02 00 00 00 05 00 00 02", 0, NULL, "04 00");
	t_disk_stop();
}

T_TEST(echo_is_of_one_lun_and_the_last_write)
{
	t_disk_start(T_THIN);
	buffer_write("3b 0a 00*6 06", 0, "de ad be ef 01 02");
	/* The answer is as long as the written data, whatever the CDB
	 * allows. */
	buffer_read("3c 0a 00*5 00 ff", 0, NULL, "de ad be ef 01 02");
	buffer_read("3c 0a 00*6 02", 0, NULL, "de ad");
	buffer_read("3c 0a 00*6 ff", T_OTHER_LUN, "05/2c/00", "");
	buffer_write("3b 0a 00*6 01", T_OTHER_LUN, "aa");
	buffer_read("3c 0a 00*6 ff", T_OTHER_LUN, NULL, "aa");
	buffer_read("3c 0a 00*6 ff", 0, "05/2c/00", "");
	buffer_write("3b 02 00*6 01", T_OTHER_LUN, "bb");
	buffer_read("3c 0a 00*6 ff", T_OTHER_LUN, "05/2c/00", "");
	t_disk_stop();
}

T_TEST(each_nexus_has_a_buffer_of_its_own)
{
	t_disk_start(T_THIN);
	buffer_write("3b 0a 00*6 02", 0, "de ad");
	t_disk.from = t_nexus(2);
	buffer_read("3c 0a 00*6 ff", 0, "05/2c/00", "");
	buffer_read("3c 02 00*6 02", 0, NULL, "00 00");
	buffer_write("3b 02 00*6 02", 0, "11 22");
	t_disk.from = t_nexus(1);
	buffer_read("3c 0a 00*6 ff", 0, NULL, "de ad");
	t_disk_stop();
}

/* ---- unit attentions ---- */

static void expect(const char *cdb, int lun, const char *want)
{
	struct t_command c;

	t_command_run(&c, cdb, lun, NULL, 0, 252);
	assert_string_equal(t_outcome(&c.task), want);
	t_command_free(&c);
}

T_TEST(new_nexus_is_told_of_power_on_once)
{
	t_disk_start(T_THIN);
	scsi_nexus_end(&t_disk.nexus);
	scsi_nexus_fini(&t_disk.nexus);
	scsi_nexus_init(&t_disk.nexus, &t_disk.luns,
			&(struct srp_port_id){ 0 });
	expect("00", 0, "06/29/01");
	expect("00", 0, "good");
	expect("00", T_OTHER_LUN, "06/29/01");
	expect("00", T_OTHER_LUN, "good");
	t_disk_stop();
}

T_TEST(attentions_come_once_each_in_their_order)
{
	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUNS_CHANGED);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_CAPACITY_CHANGED);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_NEXUS_LOSS);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_MODE_CHANGED);
	expect("00", 0, "06/29/03");
	expect("00", 0, "06/29/07");
	expect("00", 0, "06/2a/09");
	expect("00", 0, "06/2a/01");
	expect("00", 0, "06/3f/0e");
	expect("00", 0, "good");
	expect("00", T_OTHER_LUN, "good");
	t_disk_stop();
}

T_TEST(attention_for_all_luns)
{
	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, -1, SCSI_UA_LUN_RESET);
	expect("00", T_OTHER_LUN, "06/29/03");
	expect("00", 0, "06/29/03");
	t_disk_stop();
}

T_TEST(inquiry_and_report_luns_pass_an_attention)
{
	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	expect("12 00 00 00 24", 0, "good");
	expect("a0 00 00 00 00 00 00 00 00 fc", 0, "good");
	expect("00", 0, "06/29/03");
	t_disk_stop();
}

T_TEST(report_luns_answers_a_change_of_luns)
{
	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, -1, SCSI_UA_LUNS_CHANGED);
	expect("a0 00 00 00 00 00 00 00 00 fc", 0, "good");
	expect("00", 0, "good");
	expect("00", T_OTHER_LUN, "good");
	t_disk_stop();
}

T_TEST(request_sense_brings_the_attention)
{
	struct t_command c;

	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	t_command_run(&c, "03 00 00 00 12", 0, NULL, 0, 18);
	assert_string_equal(t_outcome(&c.task), "good");
	t_assert_bytes(c.task.buf, 18, "70 00 06 00*4 0a 00*4 29 03 00*4");
	t_command_free(&c);
	expect("00", 0, "good");
	t_disk_stop();
}

T_TEST(attention_comes_before_any_other_refusal)
{
	t_disk_start(T_THIN);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_CAPACITY_CHANGED);
	expect("ff", 0, "06/29/03");
	expect("28 00 ff ff ff ff 00 00 01", 0, "06/2a/09");
	expect("ff", 0, "05/20/00");
	t_disk_stop();
}

T_TEST(write_that_meets_an_attention_writes_nothing)
{
	struct t_bytes out = t_bytes("aa*512");
	struct t_command c;

	t_disk_start(T_MEMORY);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	t_command_run(&c, "2a 00 00*6 01", 0, out.p, 512, 0);
	assert_string_equal(t_outcome(&c.task), "06/29/03");
	assert_false(c.executed);
	assert_int_equal(t_store.bytes[0], 1);
	t_command_free(&c);
	free(out.p);
	t_disk_stop();
}

/* ---- IMMED ---- */

static const struct immed_row {
	const char *name;
	enum t_disk_store store;
	const char *cdb;
	bool answered; /* the status came before the store was done */
	const char *outcome;
	int fail_with; /* of the first request */
	/* the outcome of the next command */
	const char *next;
} immed_rows[] = {
	{ "SYNCHRONIZE CACHE (10)", T_THIN, "35 02", true, "good", 0, "good" },
	{ "SYNCHRONIZE CACHE (16)", T_THIN, "91 02", true, "good", 0, "good" },
	{ "SYNCHRONIZE CACHE, the flush fails", T_THIN, "35 02", true, "good",
	  -EIO, "deferred 03/0c/00" },
	{ "SYNCHRONIZE CACHE, no space", T_THIN, "35 02", true, "good", -ENOSPC,
	  "deferred 07/27/07" },
	{ "SYNCHRONIZE CACHE past the end", T_THIN,
	  "35 02 00 00 3f ff 00 00 02", false, "05/21/00 info 16384", 0,
	  "good" },
	{ "SYNCHRONIZE CACHE without IMMED", T_THIN, "35", false, "03/0c/00",
	  -EIO, "good" },
	{ "SYNCHRONIZE CACHE, read-only", T_READ_ONLY, "35 02", false, "good",
	  0, "good" },
	{ "stop", T_THIN, "1b 01", true, "good", 0, "good" },
	{ "stop, the flush fails", T_THIN, "1b 01", true, "good", -EIO,
	  "deferred 03/0c/00" },
	{ "eject", T_REMOVABLE, "1b 01 00 00 02", false, "good", 0,
	  "02/3a/00" },
	{ "PRE-FETCH (10)", T_THIN, "34 02 00 00 00 05 00 00 02", true, "met",
	  0, "good" },
	{ "PRE-FETCH (16)", T_THIN, "90 02 00*7 05 00 00 00 02", true, "met", 0,
	  "good" },
	{ "PRE-FETCH, the medium fails", T_THIN, "34 02 00 00 00 05 00 00 02",
	  true, "met", -EIO, "deferred 03/11/00 info 5" },
	{ "PRE-FETCH in memory", T_MEMORY, "34 02 00 00 00 05 00 00 02", false,
	  "met", 0, "good" },
};

/* The status comes at once. The next command gets the error, only once. */
T_ROWS(immed, immed_rows)
{
	const struct immed_row *row = *state;
	struct t_command c;

	t_disk_start(row->store);
	t_store.hold = true;
	t_store.fail_at = row->fail_with ? 1 : 0;
	t_store.fail_with = row->fail_with;
	t_command_run(&c, row->cdb, 0, NULL, 0, 0);
	assert_int_equal(c.answered, row->answered);
	assert_string_equal(t_outcome(&c.task), row->outcome);
	t_command_free(&c);
	expect("00", 0, row->next);
	if (row->fail_with)
		expect("00", 0, "good");
	t_disk_stop();
}

T_TEST(deferred_error_is_of_one_nexus_and_one_lun)
{
	struct t_command c;

	t_disk_start(T_THIN);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	expect("35 02", 0, "good");
	expect("00", T_OTHER_LUN, "good");
	t_disk.from = t_nexus(2);
	expect("00", 0, "good");
	t_disk.from = t_nexus(1);
	scsi_nexus_attention(&t_disk.nexus, 0, SCSI_UA_LUN_RESET);
	expect("12 00 00 00 24", 0, "good");
	t_command_run(&c, "03 00 00 00 12", 0, NULL, 0, 18);
	t_assert_bytes(c.task.buf, 18, "70 00 06 00*4 0a 00*4 29 03 00*4");
	t_command_free(&c);
	t_command_run(&c, "03 00 00 00 12", 0, NULL, 0, 18);
	t_assert_bytes(c.task.buf, 18, "71 00 03 00*4 0a 00*4 0c 00 00*4");
	t_command_free(&c);
	expect("00", 0, "good");
	t_disk_stop();
}

/* The LUN gets another volume before anybody has asked for the error. */
T_TEST(deferred_error_is_not_of_the_next_volume)
{
	t_disk_start(T_THIN);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	expect("35 02", 0, "good");
	scsi_nexus_gain(&t_disk.nexus, 0);
	expect("00", 0, "06/29/01");
	expect("00", 0, "good");
	t_disk_stop();
}

T_TEST(deferred_error_has_the_format_of_d_sense)
{
	struct t_command c;

	t_disk_start(T_THIN);
	t_disk.luns.vol[0]->info.d_sense = true;
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	expect("35 02", 0, "good");
	t_command_run(&c, "00", 0, NULL, 0, 0);
	t_assert_bytes(c.task.sense, c.task.sense_len, "73 03 0c 00 00*4");
	t_command_free(&c);
	t_disk_stop();
}

/* ---- the table ---- */

/* Each command of the command table has a handler: none crashes or hangs, and
 * none is refused as unknown. */
T_TEST(every_listed_command_is_handled)
{
	static uint8_t out[VOLUME_MAX_TRANSFER];
	struct t_command c;

	t_disk_start(T_THIN);
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];
		int action = info->service_action;
		char cdb[16];

		snprintf(cdb, sizeof(cdb), "%02x %02x", info->opcode,
			 action < 0 ? 0 : action);
		t_command_run(&c, cdb, 0, out, sizeof(out), 0);
		assert_string_not_equal(t_outcome(&c.task), "05/20/00");
		t_command_free(&c);
	}
	t_disk_stop();
}

/* The full list must fit into one answer, also when commands are added. */
T_TEST(all_operation_codes_fit_one_answer)
{
	struct t_command c;

	t_disk_start(T_THIN);
	t_command_run(&c, "a3 0c 80 00 00 00 00 01 00 00", 0, NULL, 0, 65536);
	assert_string_equal(t_outcome(&c.task), "good");
	assert_int_equal(c.task.wanted_in, c.task.data_in_cnt);
	assert_int_equal(c.task.data_in_cnt, 4 + 20 * scsi_cdb_table_cnt);
	t_command_free(&c);
	t_disk_stop();
}

/* ---- allocation length ---- */

/* The other parameters that a command needs, besides its operation code and
 * service action. */
static const struct {
	const char *name;
	const char *cdb;
} questions[] = {
	{ "INQUIRY", "12 01 83" },
	{ "MODE SENSE (6)", "1a 00 3f" },
	{ "MODE SENSE (10)", "5a 00 3f" },
	{ "LOG SENSE", "4d 00 40" },
	{ "READ BUFFER", "3c 02" },
	{ "RECEIVE COPY STATUS (LID1)", NULL }, /* of no copy */
	/* as many descriptors as fit */
	{ "GET LBA STATUS", NULL },
};

static const char *question(const struct scsi_cdb_info *info)
{
	static char cdb[16];
	int action = info->service_action;

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		if (!strcmp(questions[i].name, info->name))
			return questions[i].cdb;
	}
	snprintf(cdb, sizeof(cdb), "%02x %02x", info->opcode,
		 action < 0 ? 0 : action);
	return cdb;
}

/* Runs the command with the allocation length @alloc_len. Copies the answer to
 * @buf, which has room for @cap bytes, and returns its length. */
static uint32_t ask(const struct scsi_cdb_info *info, uint32_t alloc_len,
		    uint8_t *buf, uint32_t cap)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0 };
	char text[3 * SCSI_CDB_LEN + 1];
	struct t_bytes b = t_bytes(question(info));
	struct t_command c;
	uint32_t cnt;

	memcpy(cdb, b.p, b.len);
	for (uint8_t i = 0; i < info->alloc_len.len; i++)
		cdb[info->alloc_len.byte + i] =
			(uint8_t)(alloc_len >>
				  8 * (info->alloc_len.len - 1 - i));
	for (size_t i = 0; i < SCSI_CDB_LEN; i++)
		snprintf(text + 3 * i, 4, "%02x ", cdb[i]);
	t_command_run(&c, text, 0, NULL, 0, cap);
	if (strcmp(t_outcome(&c.task), "good"))
		fail_msg("%s: %s", info->name, t_outcome(&c.task));
	cnt = c.task.data_in_cnt;
	assert_int_equal(c.task.wanted_in, cnt);
	if (cnt)
		memcpy(buf, c.task.buf, cnt);
	t_command_free(&c);
	free(b.p);
	return cnt;
}

/* For any allocation length, the answer is the beginning of the same data, with
 * the same lengths in it (SPC-4 4.2.5.6). */
T_TEST(every_answer_is_cut_at_its_allocation_length)
{
	static uint8_t all[SCSI_ANSWER_MAX], few[SCSI_ANSWER_MAX];

	t_disk_start(T_THIN);
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];
		uint32_t max = info->alloc_len.len == 1 ? 255 : 8192;
		uint32_t len, least;

		if (!info->alloc_len.len || !question(info))
			continue;
		len = ask(info, max, all, sizeof(all));
		assert_in_range(len, 4, max);
		/* This command is refused if the length is smaller (SPC-4
		 * 6.36). */
		least = info->op == SCSI_OP_REPORT_TMF ? 4 : 0;
		for (uint32_t n = least; n <= len && n <= max; n++) {
			assert_int_equal(ask(info, n, few, sizeof(few)), n);
			assert_memory_equal(few, all, n);
		}
	}
	t_disk_stop();
}

/* ---- ANCHOR ---- */

/* Page B2h says that nothing can be anchored (ANC_SUP), so ANCHOR is
 * refused. */
T_TEST(nothing_is_anchored_as_the_page_says)
{
	struct t_bytes block = t_bytes("00*512");
	struct t_command c;

	t_disk_start(T_THIN);
	t_command_run(&c, "12 01 b2 00 08", 0, NULL, 0, 8);
	assert_int_equal(c.task.buf[5] & 0x02, 0);
	t_command_free(&c);
	t_command_run(&c, "42 01 00*5 00 18", 0, block.p, 24, 0);
	assert_string_equal(t_outcome(&c.task), "05/24/00 CDB 1.0");
	t_command_free(&c);
	t_command_run(&c, "41 18 00*6 01", 0, block.p, 512, 0);
	assert_string_equal(t_outcome(&c.task), "05/24/00 CDB 1.4");
	t_command_free(&c);
	t_command_run(&c, "93 10 00*11 01", 0, block.p, 512, 0);
	assert_string_equal(t_outcome(&c.task), "05/24/00 CDB 1.4");
	t_command_free(&c);
	free(block.p);
	t_disk_stop();
}
