/* SPDX-License-Identifier: BSD-2-Clause */
/* The disk between port and backend: what block commands there are besides
 * READ, WRITE and the thin ones. */
#include "tests/lib/t_disk.h"

#include <errno.h>

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
	  .out = "aa*512 bb*512", .ops = "write 512+1024, flush, read 512+1024",
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
	{ "WRITE AND VERIFY, flush fails", .cdb = "2e 02 00*6 01",
	  .out = "aa*512", .ops = "write 0+512, flush", .fail_at = 2,
	  .fail_with = -EIO, .wanted_out = 512, .outcome = "03/0c/00", .lba = 0,
	  .after = "aa*512" },
	{ "WRITE AND VERIFY, cannot be read back", .cdb = "2e 02 00*6 01",
	  .out = "aa*512", .ops = "write 0+512, flush, read 0+512",
	  .fail_at = 3, .fail_with = -EIO, .wanted_out = 512,
	  .outcome = "03/11/00 info 0", .lba = 0, .after = "aa*512" },
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

static void command(void **state)
{
	t_disk_run_row(*state, /* later= */ false);
	t_disk_run_row(*state, /* later= */ true);
}

int main(void)
{
	static struct t_table t;

	T_ADD_ROWS(&t, rows, command);
	return t_run(&t);
}
