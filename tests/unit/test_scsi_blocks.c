/* SPDX-License-Identifier: BSD-2-Clause */
/* The disk between port and backend: all block commands except READ, WRITE and
 * those of thin provisioning. */
#include "tests/lib/t_disk.h"

#include <errno.h>

#include "tests/lib/t_bytes.h"

static const struct t_disk_row rows[] = {
	/* VERIFY, BYTCHK 11b; blocks 255 and 511 are the same */
	{ "VERIFY against one block, equal",
	  .cdb = "2f 06 00 00 00 ff 00 00 01", .out = "00*512",
	  .ops = "read 130560+512", .wanted_out = 512 },
	{ "VERIFY against one block, second differs",
	  .cdb = "af 06 00 00 00 ff 00 00 00 02", .out = "00*512",
	  .ops = "read 130560+1024", .wanted_out = 512,
	  .outcome = "0e/1d/00 info 512" },
	{ "VERIFY against one block, last byte differs", .cdb = "2f 06 00*6 01",
	  .out = "01*511 00", .ops = "read 0+512", .wanted_out = 512,
	  .outcome = "0e/1d/00 info 511" },
	{ "VERIFY in place against one block", .store = T_MEMORY,
	  .cdb = "8f 06 00*7 02 00 00 00 01", .out = "03*512",
	  .wanted_out = 512 },
	{ "VERIFY in place against one block, differs", .store = T_MEMORY,
	  .cdb = "8f 06 00*7 02 00 00 00 02", .out = "03*512",
	  .wanted_out = 512, .outcome = "0e/1d/00 info 512" },
	{ "VERIFY of nothing against one block", .cdb = "2f 06" },
	{ "VERIFY against one block, data-out too short",
	  .cdb = "2f 06 00*6 02", .out = "01*511", .wanted_out = 512,
	  .outcome = "05/24/00 CDB 7.7" },
	{ "VERIFY, reserved BYTCHK", .cdb = "2f 04 00*6 01", .out = "01*512",
	  .outcome = "05/24/00 CDB 1.2" },

	/* WRITE AND VERIFY */
	{ "WRITE AND VERIFY (10)", .cdb = "2e 00 00 00 00 01 00 00 02",
	  .out = "aa*512 bb*512", .ops = "write 512+1024 fua, read 512+1024",
	  .wanted_out = 1024, .lba = 0,
	  .after = "01*512 aa*512 bb*512 04*512" },
	{ "WRITE AND VERIFY (12), compare, no cache", .store = T_STABLE,
	  .cdb = "ae 02 00 00 00 01 00 00 00 01", .out = "aa*512",
	  .ops = "write 512+512, read 512+512", .wanted_out = 512, .lba = 1,
	  .after = "aa*512 03*512" },
	{ "WRITE AND VERIFY (16) in place", .store = T_MEMORY,
	  .cdb = "8e 12 00*7 01 00 00 00 01", .out = "aa*512",
	  .wanted_out = 512, .lba = 0, .after = "01*512 aa*512 03*512" },
	{ "WRITE AND VERIFY of nothing", .cdb = "2e 02" },
	{ "WRITE AND VERIFY, FUA that the store cannot do", .store = T_PLAIN,
	  .cdb = "2e 02 00*6 01", .out = "aa*512",
	  .ops = "write 0+512, flush, read 0+512", .wanted_out = 512, .lba = 0,
	  .after = "aa*512 02*512" },
	{ "WRITE AND VERIFY, flush fails", .store = T_PLAIN,
	  .cdb = "2e 02 00*6 01", .out = "aa*512", .ops = "write 0+512, flush",
	  .fail_at = 2, .fail_with = -EIO, .wanted_out = 512,
	  .outcome = "03/0c/00", .lba = 0, .after = "aa*512" },
	{ "WRITE AND VERIFY, cannot be read back", .cdb = "2e 02 00*6 01",
	  .out = "aa*512", .ops = "write 0+512 fua, read 0+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 512, .outcome = "03/11/00 info 0",
	  .lba = 0, .after = "aa*512" },
	{ "WRITE AND VERIFY, write-protected", .store = T_READ_ONLY,
	  .cdb = "2e 02 00*6 01", .out = "aa*512", .outcome = "07/27/00" },
	{ "WRITE AND VERIFY past the end", .cdb = "2e 00 00 00 3f ff 00 00 02",
	  .out = "aa*1024", .outcome = "05/21/00 info 16384" },
	{ "WRITE AND VERIFY of more than the limit",
	  .cdb = "2e 00 00 00 00 00 00 20 01", .out = "aa*512",
	  .outcome = "05/24/00 CDB 7.7" },

	/* PRE-FETCH; the whole store fits */
	{ "PRE-FETCH (10)", .cdb = "34 00 00 00 00 01 00 00 02",
	  .ops = "read 512+1024", .outcome = "met" },
	{ "PRE-FETCH (16), IMMED", .cdb = "90 02 00*7 01 00 00 02 01",
	  .ops = "read 512+262144, read 262656+512", .outcome = "met" },
	{ "PRE-FETCH of 0 blocks is to the end", .cdb = "34 00 00 00 3f ff",
	  .ops = "read 8388096+512", .outcome = "met" },
	{ "PRE-FETCH where there is no cache", .store = T_PLAIN,
	  .cdb = "34 00 00 00 00 01 00 00 02" },
	{ "PRE-FETCH of memory", .store = T_MEMORY, .cdb = "34",
	  .outcome = "met" },
	{ "PRE-FETCH, medium error", .cdb = "34 00 00 00 00 01 00 00 02",
	  .ops = "read 512+1024", .fail_at = 1, .fail_with = -EIO,
	  .outcome = "03/11/00 info 1" },
	{ "PRE-FETCH past the end", .cdb = "34 00 00 00 3f ff 00 00 02",
	  .outcome = "05/21/00 info 16384" },

	/* COMPARE AND WRITE */
	{ "COMPARE AND WRITE, equal", .cdb = "89 00 00*7 01 00 00 00 01",
	  .out = "02*512 aa*512", .ops = "read 512+512, write 512+512",
	  .wanted_out = 1024, .lba = 0, .after = "01*512 aa*512 03*512" },
	{ "COMPARE AND WRITE, first byte differs",
	  .cdb = "89 00 00*7 01 00 00 00 01", .out = "03 02*511 aa*512",
	  .ops = "read 512+512", .wanted_out = 1024,
	  .outcome = "0e/1d/00 info 0", .lba = 1, .after = "02*512" },
	{ "COMPARE AND WRITE of two blocks, last byte differs",
	  .cdb = "89 00 00*7 01 00 00 00 02", .out = "02*512 03*511 04 aa*1024",
	  .ops = "read 512+1024", .wanted_out = 2048,
	  .outcome = "0e/1d/00 info 1023", .lba = 1, .after = "02*512 03*512" },
	{ "COMPARE AND WRITE, FUA", .cdb = "89 18 00*8 00 00 00 01",
	  .out = "01*512 aa*512", .ops = "read 0+512, write 0+512 fua",
	  .wanted_out = 1024, .lba = 0, .after = "aa*512" },
	{ "COMPARE AND WRITE, FUA that the store cannot do", .store = T_PLAIN,
	  .cdb = "89 08 00*8 00 00 00 01", .out = "01*512 aa*512",
	  .ops = "read 0+512, write 0+512, flush", .wanted_out = 1024, .lba = 0,
	  .after = "aa*512" },
	{ "COMPARE AND WRITE in place, equal", .store = T_MEMORY,
	  .cdb = "89 00 00*7 01 00 00 00 02",
	  .out = "02*512 03*512 aa*512 bb*512", .wanted_out = 2048, .lba = 0,
	  .after = "01*512 aa*512 bb*512 04*512" },
	{ "COMPARE AND WRITE in place, different", .store = T_MEMORY,
	  .cdb = "89 00 00*7 01 00 00 00 02", .out = "02*512 00*512 aa*1024",
	  .wanted_out = 2048, .outcome = "0e/1d/00 info 512", .lba = 1,
	  .after = "02*512 03*512" },
	{ "COMPARE AND WRITE of nothing", .cdb = "89" },
	{ "COMPARE AND WRITE, half of the data-out",
	  .cdb = "89 00 00*8 00 00 00 01", .out = "01*512", .wanted_out = 1024,
	  .outcome = "05/24/00 CDB 13.7" },
	{ "COMPARE AND WRITE of all that it can",
	  .cdb = "89 00 00*8 00 00 00 ff", .out = "00*261120",
	  .ops = "read 0+130560", .wanted_out = 261120,
	  .outcome = "0e/1d/00 info 0", .lba = 0, .after = "01*512" },
	{ "COMPARE AND WRITE, medium error on reading",
	  .cdb = "89 00 00*8 00 00 00 01", .out = "01*512 aa*512",
	  .ops = "read 0+512", .fail_at = 1, .fail_with = -EIO,
	  .wanted_out = 1024, .outcome = "03/11/00 info 0", .lba = 0,
	  .after = "01*512" },
	{ "COMPARE AND WRITE, medium error on writing",
	  .cdb = "89 00 00*8 00 00 00 01", .out = "01*512 aa*512",
	  .ops = "read 0+512, write 0+512", .fail_at = 2, .fail_with = -EIO,
	  .wanted_out = 1024, .outcome = "03/0c/00 info 0", .lba = 0,
	  .after = "01*512" },
	{ "COMPARE AND WRITE past the end",
	  .cdb = "89 00 00*6 3f ff 00 00 00 02", .out = "00*2048",
	  .outcome = "05/21/00 info 16384" },
	{ "COMPARE AND WRITE, write-protected", .store = T_READ_ONLY,
	  .cdb = "89 00 00*8 00 00 00 01", .out = "00*1024",
	  .outcome = "07/27/00" },

	/* ORWRITE */
	{ "ORWRITE", .cdb = "8b 00 00*7 01 00 00 00 02",
	  .out = "f0*512 00*511 80", .ops = "read 512+1024, write 512+1024",
	  .wanted_out = 1024, .lba = 0,
	  .after = "01*512 f2*512 03*511 83 04*512" },
	{ "ORWRITE, FUA", .cdb = "8b 08 00*7 01 00 00 00 01", .out = "f0*512",
	  .ops = "read 512+512, write 512+512 fua", .wanted_out = 512, .lba = 1,
	  .after = "f2*512 03*512" },
	{ "ORWRITE in pieces", .cdb = "8b 00 00*8 00 00 02 01",
	  .out = "00*262144 f0*512",
	  .ops = "read 0+262144, read 262144+512, write 0+262656",
	  .wanted_out = 262656, .lba = 511, .after = "00*512 f1*512 02*512" },
	{ "ORWRITE, second piece cannot be read",
	  .cdb = "8b 00 00*8 00 00 02 01", .out = "ff*262656",
	  .ops = "read 0+262144, read 262144+512", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 262656,
	  .outcome = "03/11/00 info 512", .lba = 0, .after = "01*512" },
	{ "ORWRITE in place", .store = T_MEMORY,
	  .cdb = "8b 10 00*7 01 00 00 00 01", .out = "f0*512",
	  .wanted_out = 512, .lba = 0, .after = "01*512 f2*512 03*512" },
	{ "ORWRITE of nothing", .cdb = "8b" },
	{ "ORWRITE, data-out too short", .cdb = "8b 00 00*8 00 00 00 01",
	  .out = "ff*511", .wanted_out = 512, .outcome = "05/24/00 CDB 10.7" },
	{ "ORWRITE with ORPROTECT", .cdb = "8b 20",
	  .outcome = "05/24/00 CDB 1.7" },
	{ "ORWRITE, write-protected", .store = T_READ_ONLY,
	  .cdb = "8b 00 00*8 00 00 00 01", .out = "ff*512",
	  .outcome = "07/27/00" },

	/* WRITE ATOMIC; the stores promise 8 blocks */
	{ "WRITE ATOMIC", .cdb = "9c 00 00*7 01 00 00 00 02",
	  .out = "aa*512 bb*512", .ops = "write 512+1024", .wanted_out = 1024,
	  .lba = 0, .after = "01*512 aa*512 bb*512 04*512" },
	{ "WRITE ATOMIC, FUA", .cdb = "9c 18 00*8 00 00 00 01", .out = "aa*512",
	  .ops = "write 0+512 fua", .wanted_out = 512, .lba = 0,
	  .after = "aa*512" },
	{ "WRITE ATOMIC to memory", .store = T_MEMORY,
	  .cdb = "9c 00 00*7 01 00 00 00 02", .out = "aa*512 bb*512",
	  .wanted_out = 1024, .lba = 0,
	  .after = "01*512 aa*512 bb*512 04*512" },
	{ "WRITE ATOMIC of nothing", .cdb = "9c" },
	{ "WRITE ATOMIC of all that is promised",
	  .cdb = "9c 00 00*8 00 00 00 08", .out = "00*4096",
	  .ops = "write 0+4096", .wanted_out = 4096, .lba = 0,
	  .after = "00*4096 09*512" },
	{ "WRITE ATOMIC of more", .cdb = "9c 00 00*8 00 00 00 09",
	  .out = "00*4608", .outcome = "05/24/00 CDB 12.7" },
	{ "WRITE ATOMIC with a boundary", .cdb = "9c 00 00*8 00 08 00 08",
	  .out = "00*4096", .outcome = "05/24/00 CDB 11.3" },
	{ "WRITE ATOMIC with a large boundary", .cdb = "9c 00 00*8 08 00 00 08",
	  .out = "00*4096", .outcome = "05/24/00 CDB 10.7" },
	{ "WRITE ATOMIC where nothing is promised", .store = T_PLAIN,
	  .cdb = "9c 00 00*8 00 00 00 01", .out = "00*512",
	  .outcome = "05/20/00" },
	{ "WRITE ATOMIC past the end", .cdb = "9c 00 00*6 3f ff 00 00 00 02",
	  .out = "00*1024", .outcome = "05/21/00 info 16384" },
	{ "REPORT OPCODES, WRITE ATOMIC",
	  .cdb = "a3 0c 01 9c 00 00 00 00 02 00", .in_len = 512,
	  .in = "00 03 00 10 9c 18 ff*8 00 00 ff ff 00 00", .in_cnt = 20,
	  .wanted_in = 20 },
	{ "REPORT OPCODES, WRITE ATOMIC that is not there", .store = T_PLAIN,
	  .cdb = "a3 0c 01 9c 00 00 00 00 02 00", .in_len = 512,
	  .in = "00 01 00 00", .in_cnt = 4, .wanted_in = 4 },
	{ "INQUIRY, page B0h, limits", .cdb = "12 01 b0 00 40", .in_len = 64,
	  .in = "00 b0 00 3c 00 ff 00 08 00 00 20 00 00 00 08 00 00*4 "
		"00 10 00 00 00 00 00 40 00 00 00 08 80 00*3 "
		"00*5 01 00 00 00 00 00 08 00*16",
	  .in_cnt = 64, .wanted_in = 64 },

	/* SANITIZE, until it ends; in the store, every other 4 KiB is mapped */
	{ "SANITIZE, OVERWRITE", .store = T_PLAIN, .cdb = "48 01 00*5 00 07",
	  .out = "01 00 00 03 aa bb cc",
	  .ops = "write 0+1048576, write 1048576+1048576, "
		 "write 2097152+1048576, write 3145728+1048576, "
		 "write 4194304+1048576, write 5242880+1048576, "
		 "write 6291456+1048576, write 7340032+1048576, flush",
	  .wanted_out = 7, .lba = 16383,
	  .after = "aa bb cc aa bb cc aa bb cc aa bb cc aa bb cc aa bb cc" },
	{ "SANITIZE, OVERWRITE of memory", .store = T_MEMORY,
	  .cdb = "48 01 00*5 00 05", .out = "82 00 00 01 f0", .wanted_out = 5,
	  .lba = 4096, .after = "f0*2048" },
	{ "SANITIZE, OVERWRITE of no times", .cdb = "48 01 00*5 00 05",
	  .out = "00 00 00 01 00", .wanted_out = 5,
	  .outcome = "05/26/00 data 0.4" },
	{ "SANITIZE, OVERWRITE with TEST", .cdb = "48 01 00*5 00 05",
	  .out = "21 00 00 01 00", .wanted_out = 5,
	  .outcome = "05/26/00 data 0.6" },
	{ "SANITIZE, OVERWRITE, reserved byte", .cdb = "48 01 00*5 00 05",
	  .out = "01 80 00 01 00", .wanted_out = 5,
	  .outcome = "05/26/00 data 1.7" },
	{ "SANITIZE, OVERWRITE, no pattern", .cdb = "48 01 00*5 00 05",
	  .out = "01 00 00 00 00", .wanted_out = 5,
	  .outcome = "05/26/00 data 2.7" },
	{ "SANITIZE, OVERWRITE, pattern longer than a block",
	  .cdb = "48 01 00*5 02 04", .out = "01 00 02 01 00*512",
	  .wanted_out = 516, .outcome = "05/26/00 data 2.7" },
	{ "SANITIZE, OVERWRITE, pattern longer than the list",
	  .cdb = "48 01 00*5 00 05", .out = "01 00 00 02 00", .wanted_out = 5,
	  .outcome = "05/1a/00" },
	{ "SANITIZE, OVERWRITE without a list", .cdb = "48 01",
	  .outcome = "05/24/00 CDB 7.7" },
	{ "SANITIZE, OVERWRITE, list too long", .cdb = "48 01 00*5 02 05",
	  .out = "01 00 02 00 00*513", .wanted_out = 517,
	  .outcome = "05/24/00 CDB 7.7" },
	{ "SANITIZE, OVERWRITE, data-out too short", .cdb = "48 01 00*5 00 05",
	  .out = "01 00 00 01", .wanted_out = 5,
	  .outcome = "05/24/00 CDB 7.7" },
	{ "SANITIZE, OVERWRITE fails", .store = T_PLAIN,
	  .cdb = "48 01 00*5 00 05", .out = "01 00 00 01 00",
	  .ops = "write 0+1048576, write 1048576+1048576", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 5, .outcome = "03/31/03", .lba = 0,
	  .after = "00*512" },
	{ "SANITIZE, BLOCK ERASE fails", .store = T_STABLE, .cdb = "48 02",
	  .ops = "write 0+1048576", .fail_at = 1, .fail_with = -EIO,
	  .outcome = "03/31/03", .lba = 0, .after = "01*512" },
	{ "SANITIZE, BLOCK ERASE of memory", .store = T_MEMORY, .cdb = "48 02",
	  .ops = "zero 0+1048576 may-unmap, zero 1048576+1048576 may-unmap, "
		 "zero 2097152+1048576 may-unmap, "
		 "zero 3145728+1048576 may-unmap, "
		 "zero 4194304+1048576 may-unmap, "
		 "zero 5242880+1048576 may-unmap, "
		 "zero 6291456+1048576 may-unmap, "
		 "zero 7340032+1048576 may-unmap",
	  .lba = 0, .after = "00*2048" },
	{ "SANITIZE, write-protected", .store = T_READ_ONLY, .cdb = "48 02",
	  .outcome = "07/27/00" },
	{ "SANITIZE, EXIT FAILURE MODE, nothing has failed", .cdb = "48 1f" },
	{ "SANITIZE, CRYPTOGRAPHIC ERASE", .cdb = "48 03",
	  .outcome = "05/24/00 CDB 1.4" },

	/* FORMAT UNIT */
	{ "FORMAT UNIT", .cdb = "04",
	  .ops = "zero 0+4194304 may-unmap, "
		 "zero 4194304+4194304 may-unmap, flush",
	  .lba = 0, .after = "00*1024" },
	{ "FORMAT UNIT, short list", .cdb = "04 10", .out = "00 00 00 00",
	  .ops = "zero 0+4194304 may-unmap, "
		 "zero 4194304+4194304 may-unmap, flush",
	  .wanted_out = 4, .lba = 0, .after = "00*1024" },
	{ "FORMAT UNIT, long list, no certification", .cdb = "04 30",
	  .out = "00 a0 00*6",
	  .ops = "zero 0+4194304 may-unmap, "
		 "zero 4194304+4194304 may-unmap, flush",
	  .wanted_out = 8, .lba = 0, .after = "00*1024" },
	{ "FORMAT UNIT with a pattern", .store = T_MEMORY, .cdb = "04 10",
	  .out = "00 88 00 00 00 01 00 02 12 34", .wanted_out = 10,
	  .lba = 16383, .after = "12 34 12 34 12 34" },
	{ "FORMAT UNIT with the default pattern", .store = T_STABLE,
	  .cdb = "04 10", .out = "00 88 00 00 00 00 00 00",
	  .ops = "zero 0+4194304 may-unmap, "
		 "zero 4194304+4194304 may-unmap",
	  .wanted_out = 8, .lba = 0, .after = "00*1024" },
	{ "FORMAT UNIT with a list of defects", .cdb = "04 10",
	  .out = "00 00 00 08 00*8", .wanted_out = 12,
	  .outcome = "05/26/00 data 2.7" },
	{ "FORMAT UNIT with a long list of defects", .cdb = "04 30",
	  .out = "00 00 00 00 00 00 00 08 00*8", .wanted_out = 16,
	  .outcome = "05/26/00 data 4.7" },
	{ "FORMAT UNIT with protection", .cdb = "04 10", .out = "01 00 00 00",
	  .wanted_out = 4, .outcome = "05/26/00 data 0.0" },
	{ "FORMAT UNIT with a protection interval", .cdb = "04 30",
	  .out = "00 00 00 01 00*4", .wanted_out = 8,
	  .outcome = "05/26/00 data 3.7" },
	{ "FORMAT UNIT, options without FOV", .cdb = "04 10",
	  .out = "00 28 00 00", .wanted_out = 4,
	  .outcome = "05/26/00 data 1.5" },
	{ "FORMAT UNIT, vendor's bit", .cdb = "04 10", .out = "00 81 00 00",
	  .wanted_out = 4, .outcome = "05/26/00 data 1.0" },
	{ "FORMAT UNIT, pattern longer than a block", .cdb = "04 10",
	  .out = "00 88 00 00 00 01 02 01 00*513", .wanted_out = 521,
	  .outcome = "05/26/00 data 6.7" },
	{ "FORMAT UNIT, pattern of nothing", .cdb = "04 10",
	  .out = "00 88 00 00 00 01 00 00", .wanted_out = 8,
	  .outcome = "05/26/00 data 6.7" },
	{ "FORMAT UNIT, unknown pattern", .cdb = "04 30",
	  .out = "00 88 00*6 00 02 00 01 00", .wanted_out = 13,
	  .outcome = "05/26/00 data 9.7" },
	{ "FORMAT UNIT, pattern is cut short", .cdb = "04 10",
	  .out = "00 88 00 00 00 01 00 02 12", .wanted_out = 9,
	  .outcome = "05/1a/00" },
	{ "FORMAT UNIT, pattern is missing", .cdb = "04 10",
	  .out = "00 88 00 00 00 01", .wanted_out = 6, .outcome = "05/1a/00" },
	{ "FORMAT UNIT, list is cut short", .cdb = "04 30", .out = "00*7",
	  .wanted_out = 7, .outcome = "05/1a/00" },
	{ "FORMAT UNIT, list is missing", .cdb = "04 10",
	  .outcome = "05/1a/00" },
	{ "FORMAT UNIT fails", .cdb = "04", .ops = "zero 0+4194304 may-unmap",
	  .fail_at = 1, .fail_with = -EIO, .outcome = "03/31/01", .lba = 0,
	  .after = "01*512" },
	{ "FORMAT UNIT, flush fails", .cdb = "04",
	  .ops = "zero 0+4194304 may-unmap, "
		 "zero 4194304+4194304 may-unmap, flush",
	  .fail_at = 3, .fail_with = -EIO, .outcome = "03/31/01", .lba = 0,
	  .after = "00*512" },
	{ "FORMAT UNIT, write-protected", .store = T_READ_ONLY, .cdb = "04",
	  .outcome = "07/27/00" },

	/* READ DEFECT DATA */
	{ "READ DEFECT DATA (10), both lists",
	  .cdb = "37 00 1d 00 00 00 00 00 fc", .in_len = 252,
	  .in = "00 1d 00 00", .in_cnt = 4, .wanted_in = 4 },
	{ "READ DEFECT DATA (10), no list", .cdb = "37 00 00 00 00 00 00 00 fc",
	  .in_len = 252, .in = "00 00 00 00", .in_cnt = 4, .wanted_in = 4 },
	{ "READ DEFECT DATA (12)", .cdb = "b7 0b 00 00 00 00 00 00 00 fc",
	  .in_len = 252, .in = "00 0b 00*6", .in_cnt = 8, .wanted_in = 8 },
	{ "READ DEFECT DATA (12), cut short",
	  .cdb = "b7 0b 00 00 00 00 00 00 00 04", .in_len = 252,
	  .in = "00 0b 00 00", .in_cnt = 4, .wanted_in = 4 },
};

T_ROWS(command, rows)
{
	t_disk_run_row(*state, /* later= */ false);
	t_disk_run_row(*state, /* later= */ true);
}

/* ---- while a job runs, and after it failed ---- */

static void expect(const char *cdb, const char *out, const char *want)
{
	struct t_bytes b = t_bytes(out);
	struct t_command c;

	t_command_run(&c, cdb, 0, b.p, (uint32_t)b.len, b.len ? 0 : 252);
	assert_string_equal(t_outcome(&c.task), want);
	t_command_free(&c);
	free(b.p);
}

static void expect_sense(const char *want)
{
	struct t_command c;

	t_command_run(&c, "03 00 00 00 12", 0, NULL, 0, 18);
	assert_string_equal(t_outcome(&c.task), "good");
	t_assert_bytes(c.task.buf, 18, want);
	t_command_free(&c);
}

static void let_end(void)
{
	while (t_disk_turn())
		;
}

/* With IMMED set, the command is done when the job begins. */
T_TEST(sanitize_keeps_others_out_until_it_ends)
{
	t_disk_start(T_PLAIN);
	t_store.hold = true;
	expect("48 81 00*5 00 05", "02 00 00 01 f0", "good");
	expect("00", "", "02/04/1b at 0");
	/* eight writes, each logged and done, and a flush */
	for (int i = 0; i < 18; i++)
		t_disk_turn();
	expect("28 00 00*6 01", "", "02/04/1b at 32768");
	expect("2a 00 00*6 01", "aa*512", "02/04/1b at 32768");
	expect("04", "", "02/04/1b at 32768");
	expect("48 02", "", "02/04/1b at 32768");
	expect("48 1f", "", "02/04/1b at 32768");
	expect("9e 10 00*11 20", "", "02/04/1b at 32768");
	expect("12 00 00 00 24", "", "good");
	expect("a0 00 00 00 00 00 00 00 00 fc", "", "good");
	expect("a3 0c 00 00 00 00 00 00 00 fc", "", "good");
	expect("a3 0d 00 00 00 00 00 00 00 04", "", "good");
	expect_sense("70 00 02 00*4 0a 00*4 04 1b 00 80 80 00");
	let_end();
	expect_sense("70 00 00 00*4 0a 00*10");
	expect("00", "", "good");
	t_disk_stop();
}

T_TEST(format_keeps_others_out_until_it_ends)
{
	t_disk_start(T_THIN);
	t_store.hold = true;
	expect("04 10", "00 02 00 00", "good");
	expect("00", "", "02/04/04 at 0");
	expect("48 02", "", "02/04/04 at 0");
	let_end();
	expect("00", "", "good");
	assert_int_equal(t_store.bytes[0], 0);
	t_disk_stop();
}

/* The last pass has the pattern as the command gave it (SBC-3, INVERT). */
T_TEST(overwrite_inverts_every_other_time)
{
	t_disk_start(T_MEMORY);
	expect("48 81 00*5 00 05", "82 00 00 01 f0", "good");
	for (int i = 0; i < 4; i++)
		t_disk_turn();
	assert_int_equal(t_store.bytes[0], 0x0f);
	let_end();
	assert_int_equal(t_store.bytes[0], 0xf0);
	t_disk_stop();
}

/* Another target serves the store between two passes. */
T_TEST(job_keeps_its_epoch)
{
	t_disk_start(T_PLAIN);
	t_store.epoch = 1;
	t_store.hold = true;
	expect("48 a1 00*5 00 05", "82 00 00 01 f0", "good");
	while (!strstr(t_store.log, "flush"))
		t_disk_turn();
	t_store.epoch += 2;
	let_end();
	assert_int_equal(t_store.bytes[0], 0x0f);
	expect("00", "", "03/31/03");
	t_disk_stop();
}

T_TEST(block_erase_writes_over_what_is_in_use)
{
	struct t_command c;

	t_disk_start(T_THIN);
	t_store.extent_unit = T_BLOCK * T_BLOCKS / 4;
	t_command_run(&c, "48 02", 0, NULL, 0, 0);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	assert_string_equal(t_store.log,
			    "extent 0+8388608, write 0+1048576, "
			    "extent 1048576+7340032, write 1048576+1048576, "
			    "extent 2097152+6291456, extent 4194304+4194304, "
			    "write 4194304+1048576, extent 5242880+3145728, "
			    "write 5242880+1048576, extent 6291456+2097152, "
			    "flush, zero 0+4194304 may-unmap, "
			    "zero 4194304+4194304 may-unmap, flush");
	t_disk_stop();
}

static void fail_sanitize(const char *cdb)
{
	t_disk_start(T_STABLE);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	expect(cdb, "", "03/31/03");
	t_store.fail_at = 0;
	expect("28 00 00*6 01", "", "03/31/03");
	expect("04", "", "03/31/03");
	expect("12 00 00 00 24", "", "good");
	expect_sense("70 00 03 00*4 0a 00*4 31 03 00*4");
}

T_TEST(sanitize_that_failed_in_restricted_mode)
{
	fail_sanitize("48 02");
	expect("48 1f", "", "05/24/00 CDB 1.4");
	expect("48 22", "", "05/24/00 CDB 1.5");
	expect("00", "", "03/31/03");
	expect("48 02", "", "good");
	expect("00", "", "good");
	t_disk_stop();
}

T_TEST(sanitize_that_failed_in_unrestricted_mode)
{
	fail_sanitize("48 22");
	expect("48 1f", "", "good");
	expect("00", "", "good");
	t_disk_stop();
}

T_TEST(format_that_failed_is_mended_by_another)
{
	t_disk_start(T_THIN);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	expect("04", "", "03/31/01");
	expect("00", "", "03/31/00");
	expect("48 1f", "", "good");
	expect("00", "", "03/31/00");
	t_store.fail_at = 0;
	expect("04", "", "good");
	expect("00", "", "good");
	t_disk_stop();
}

static unsigned int awaited;

static void count_awaited(struct reactor_msg *msg)
{
	awaited++;
}

T_TEST(job_ends_when_the_target_does)
{
	struct reactor_msg msg = { .run = count_awaited };

	t_disk_start(T_PLAIN);
	t_store.hold = true;
	awaited = 0;
	expect("48 81 00*5 00 05", "02 00 00 01 f0", "good");
	t_disk_turn();
	volume_job_stop(t_disk.luns.vol[0]);
	volume_job_await(t_disk.luns.vol[0], &t_disk.worker, &msg);
	assert_int_equal(awaited, 0);
	let_end();
	assert_int_equal(awaited, 1);
	assert_string_equal(t_store.log, "write 0+1048576");
	expect("48 01 00*5 00 05", "02 00 00 01 f0", "02/04/00");
	t_disk_stop();
}

/* The job does not disturb a command that already has its blocks. A command
 * that comes later does nothing. */
T_TEST(job_waits_for_commands_under_way)
{
	struct t_command write;

	t_disk_start(T_MEMORY);
	t_command_begin(&write, "2a 00 00*6 01", 0, 512);
	expect("48 82", "", "good");
	for (int i = 0; i < 100; i++)
		t_disk_turn();
	assert_int_equal(t_store.bytes[512], 2);
	t_command_free(&write);
	let_end();
	assert_int_equal(t_store.bytes[512], 0);
	t_disk_stop();
}

/* ---- signs of life ---- */

static bool lives;
static unsigned int asked;

static bool sender_lives(struct block_sender *s)
{
	return lives;
}

static void sender_ask(struct block_sender *s)
{
	asked++;
}

static void turn_all(void)
{
	while (t_disk_turn())
		;
}

/* The sender of @cdb is asked @times, and each of its signs is old when it comes. */
static void run_with_late_signs(struct t_command *c, const char *cdb,
				uint32_t out_len, unsigned int times)
{
	static const uint8_t out[1024];
	static struct block_sender sender;

	block_sender_init(&sender, sender_lives, sender_ask);
	lives = false;
	asked = 0;
	assert_true(t_command_prepare(c, cdb, 0, out_len, 0));
	c->task.blk.owner.sender = &sender;
	t_command_execute(c, out);
	for (unsigned int i = 0; i < times; i++) {
		turn_all();
		assert_int_equal(asked, i + 1);
		assert_int_equal(c->done, 0);
		block_sender_heard(&sender);
	}
	turn_all();
}

T_TEST(command_that_is_alone_goes_on_with_a_late_sign)
{
	struct t_command c;

	t_disk_start(T_THIN);
	run_with_late_signs(&c, "89 00 00*8 00 00 00 01", 1024, 1);
	assert_int_equal(c.done, 1);
	assert_int_equal(asked, 1);
	t_command_free(&c);
	t_disk_stop();
}

/* Neither on its own blocks nor elsewhere. */
T_TEST(command_that_is_alone_does_not_wait_for_a_silent_one)
{
	static const uint8_t out[1024];
	struct t_command silent, same, other;

	t_disk_start(T_THIN);
	run_with_late_signs(&silent, "2a 00 00*6 01", 512, 0);
	assert_int_equal(asked, 1);
	t_command_start(&same, "89 00 00*8 00 00 00 01", 0, out, 1024, 0);
	t_command_start(&other, "89 00 00*7 80 00 00 00 01", 0, out, 1024, 0);
	turn_all();
	assert_int_equal(same.done, 1);
	assert_int_equal(other.done, 1);
	assert_int_equal(silent.done, 0);
	scsi_task_cancel(&silent.task);
	assert_int_equal(silent.done, 1);
	t_command_free(&silent);
	t_command_free(&same);
	t_command_free(&other);
	t_disk_stop();
}

/* It waits for a write, and then leaves the blocks to the next one. */
T_TEST(command_that_waits_to_be_alone_can_be_aborted)
{
	static const uint8_t out[1024];
	struct t_command write, alone, behind;

	t_disk_start(T_THIN);
	t_store.hold = true;
	t_command_start(&write, "2a 00 00*6 01", 0, out, 512, 0);
	t_command_start(&alone, "89 00 00*8 00 00 00 01", 0, out, 1024, 0);
	t_command_start(&behind, "2a 00 00*6 01", 0, out, 512, 0);
	assert_int_equal(alone.done, 0);
	scsi_task_cancel(&alone.task);
	assert_int_equal(alone.done, 1);
	turn_all();
	assert_int_equal(write.done, 1);
	assert_int_equal(behind.done, 1);
	t_command_free(&write);
	t_command_free(&alone);
	t_command_free(&behind);
	t_disk_stop();
}

/* Nobody would see what passes it. */
T_TEST(job_begins_with_a_sign_of_a_moment_ago)
{
	struct t_command c;

	t_disk_start(T_THIN);
	run_with_late_signs(&c, "04", 0, 3);
	assert_int_equal(c.done, 0);
	lives = true;
	block_sender_heard(c.task.blk.owner.sender);
	turn_all();
	assert_int_equal(c.done, 1);
	t_command_free(&c);
	t_disk_stop();
}
