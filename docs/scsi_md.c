/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes docs/scsi.md from the tables of the code: the commands, VPD pages, mode
 * pages and log pages. With a file name, compares the file with that text, and
 * reports the first line that differs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_log.h"
#include "protocol/scsi_mode.h"

static const char head_text[] =
	"# SCSI commands\n"
	"\n"
	"`docs/scsi_md.c` makes this page from the tables that `rdma-target` itself uses, and a\n"
	"unit test compares the two. To change the page, change `protocol/scsi_cdb_table.c` and\n"
	"run `ninja -C BUILD docs/scsi-md && BUILD/docs/scsi-md > docs/scsi.md`.\n"
	"\n"
	"`rdma-target` refuses a command that is not in the list with ILLEGAL REQUEST, INVALID\n"
	"COMMAND OPERATION CODE (05h/20h/00h), and a service action that is not in the list with\n"
	"INVALID FIELD IN CDB (05h/24h/00h).\n"
	"\n"
	"The usage map begins with the operation code. It has a bit for each bit of the CDB that\n"
	"may be set. Any other bit is refused with INVALID FIELD IN CDB, and the sense data points\n"
	"at it. This includes protection information (RDPROTECT, WRPROTECT, VRPROTECT) and NACA.\n"
	"GROUP NUMBER is ignored, because there are no groups (GROUP_SUP 0). REPORT SUPPORTED\n"
	"OPERATION CODES returns the same maps.\n"
	"\n"
	"The clauses are those of SBC-3 (T10/BSR INCITS 514) and SPC-4 (T10/BSR INCITS 513,\n"
	"revision 36e: other revisions have other numbers).\n"
	"\n"
	"The column *Under a reservation* says which commands a nexus may send while another nexus\n"
	"has reserved the volume. With the types \"registrants only\" and \"all registrants\", a\n"
	"registered nexus may send every command.\n"
	"\n"
	"| | under write exclusive | under exclusive access | under RESERVE (6), (10) |\n"
	"|---|---|---|---|\n"
	"| changes | conflict | conflict | conflict |\n"
	"| reads | yes | conflict | conflict |\n"
	"| asks | yes | yes | conflict |\n"
	"| always | yes | yes | yes |\n"
	"| by field | *always* if it starts the unit or allows removal, else *changes* | | |\n"
	"\n"
	"The column *Readers* says what initiators may send that may only read a volume (`:ro` of\n"
	"a rule). *No*: the target refuses commands that write with WRITE PROTECTED\n"
	"(07h/27h/00h), all others with ACCESS DENIED, NO ACCESS RIGHTS (05h/20h/02h). *By field*:\n"
	"yes if the command starts the unit or allows removal. A reader may end its own commands\n"
	"with ABORT TASK, ABORT TASK SET and CLEAR TASK SET. LOGICAL UNIT RESET is not supported\n"
	"for readers.\n"
	"\n"
	"\"Attention\" means: the command is answered while a unit attention is pending. The unit\n"
	"attention stays pending, except that REQUEST SENSE reports and clears it.\n"
	"\n";

static const char *const access_names[] = {
	[SCSI_ACCESS_CHANGES] = "changes",   [SCSI_ACCESS_READS] = "reads",
	[SCSI_ACCESS_ASKS] = "asks",	     [SCSI_ACCESS_ALWAYS] = "always",
	[SCSI_ACCESS_BY_FIELD] = "by field",
};

static const char *const readers_names[] = {
	[SCSI_READERS_REFUSED] = "no",
	[SCSI_READERS_ALLOWED] = "yes",
	[SCSI_READERS_BY_FIELD] = "by field",
};

static const struct {
	unsigned int flag;
	const char *text;
} flag_texts[] = {
	{ SCSI_CDB_PASSES_UA, "Attention." },
	{ SCSI_CDB_ABSENT_LUN, "Answered for a LUN without a unit." },
	{ SCSI_CDB_WRITES, "Refused when write protected." },
	{ SCSI_CDB_UNMAPS, "If the store is thinly provisioned." },
	{ SCSI_CDB_ATOMIC, "If the store writes blocks whole." },
	{ SCSI_CDB_JOB,
	  "Refused with `--state-dir` for devices that have neither an "
	  "identifier nor serial=." },
};

static void put_opcode(FILE *f, const struct scsi_cdb_info *row)
{
	fprintf(f, "%02X", row->opcode);
	if (row->service_action != SCSI_SERVICE_ACTION_NONE)
		fprintf(f, "/%02X", row->service_action);
}

static void put_usage(FILE *f, const struct scsi_cdb_info *row)
{
	for (unsigned int i = 0; i < row->cdb_len; i++)
		fprintf(f, "%s%02x", i ? " " : "", row->usage[i]);
}

static void put_command(FILE *f, const struct scsi_cdb_info *row)
{
	fprintf(f, "| %s | ", row->name);
	put_opcode(f, row);
	fprintf(f, " | %s | %s | %s | `", row->clause,
		access_names[row->access], readers_names[row->readers]);
	put_usage(f, row);
	fprintf(f, "` |");
	if (row->note)
		fprintf(f, " %s", row->note);
	for (size_t i = 0; i < sizeof(flag_texts) / sizeof(flag_texts[0]);
	     i++) {
		if (row->flags & flag_texts[i].flag)
			fprintf(f, " %s", flag_texts[i].text);
	}
	fprintf(f, " |\n");
}

static void put_commands(FILE *f)
{
	fprintf(f, "## Commands\n\n"
		   "| Command | Operation code | Clause | Under a reservation "
		   "| Readers | Usage map | Remarks |\n"
		   "|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++)
		put_command(f, &scsi_cdb_table[i]);
}

/* A unit with all features. */
static const struct scsi_disk_info unit = {
	.name = "unit",
	.serial = "1",
	.target_port = 1,
	.blocks = 1,
	.block_size = 512,
	.unmap = true,
	.mode_save = true,
	.mode_changeable = { .wce = true, .d_sense = true, .swp = true },
};

static void put_vpd_pages(FILE *f)
{
	uint8_t b[SCSI_VPD_MAX_LEN];
	struct scsi_sense sense;
	size_t len = 0;

	fprintf(f, "\n## Pages\n\nVPD pages:");
	scsi_vpd_encode(&unit, SCSI_VPD_SUPPORTED_PAGES, b, sizeof(b), &len,
			&sense);
	for (size_t i = 4; i < len; i++)
		fprintf(f, " %02Xh", b[i]);
	fprintf(f, ".\n");
}

static void put_mode_pages(FILE *f)
{
	struct scsi_cmd cmd = { .op = SCSI_OP_MODE_SENSE_6,
				.dbd = true,
				.page_code = SCSI_MODE_ALL_PAGES,
				.page_control = SCSI_PC_CHANGEABLE };
	uint8_t b[SCSI_MODE_MAX_LEN];
	struct scsi_sense sense;
	size_t len = 0;

	fprintf(f, "\nMode pages, with the bits that MODE SELECT can "
		   "change (WCE only if the store has\na cache; D_SENSE; "
		   "SWP; WCE and SWP only if one target serves the "
		   "store):\n\n| Page | Changeable |\n|---|---|\n");
	scsi_mode_sense_encode(&unit, &cmd, b, sizeof(b), &len, &sense);
	for (size_t at = 4; at < len; at += 2u + b[at + 1]) {
		fprintf(f, "| %02Xh | `", b[at] & 0x3f);
		for (unsigned int i = 2; i < 2u + b[at + 1]; i++)
			fprintf(f, "%s%02x", i > 2 ? " " : "", b[at + i]);
		fprintf(f, "` |\n");
	}
}

static void put_log_pages(FILE *f)
{
	struct scsi_cmd cmd = { .op = SCSI_OP_LOG_SENSE };
	struct scsi_sense sense;
	uint8_t b[64];
	size_t len = 0;

	fprintf(f, "\nLog pages:");
	scsi_log_sense_encode(&unit, 0, &cmd, b, sizeof(b), &len, &sense);
	for (size_t i = 4; i < len; i++)
		fprintf(f, " %02Xh", b[i]);
	fprintf(f, " (0Ch if the store is thinly provisioned).\n");
}

static void put_all(FILE *f)
{
	fputs(head_text, f);
	put_commands(f);
	put_vpd_pages(f);
	put_mode_pages(f);
	put_log_pages(f);
}

/* Returns the number of the first line that differs; 0: all are equal. */
static unsigned int compare(FILE *is, FILE *want)
{
	unsigned int line = 1;
	int c;

	do {
		c = getc(is);
		if (c != getc(want))
			return line;
		line += c == '\n';
	} while (c != EOF);
	return 0;
}

static int check(const char *path)
{
	FILE *is = fopen(path, "re");
	FILE *want = tmpfile();
	unsigned int line;

	if (!is || !want) {
		perror(is ? "tmpfile" : path);
		exit(1);
	}
	put_all(want);
	rewind(want);
	line = compare(is, want);
	fclose(is);
	fclose(want);
	if (line)
		fprintf(stderr,
			"%s: line %u differs from the tables; write it again "
			"with docs/scsi-md\n",
			path, line);
	return line ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return check(argv[1]);
	put_all(stdout);
	return fflush(stdout) ? 1 : 0;
}
