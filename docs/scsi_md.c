/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes docs/scsi.md from the tables that the code itself goes by: the
 * commands, VPD pages, mode pages and log pages. With a file name it compares
 * instead, and says where the file differs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_log.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"

static const char head_text[] =
	"# SCSI commands\n"
	"\n"
	"Made by `docs/scsi_md.c` from the tables that `rdma-target` itself goes by;\n"
	"a unit test compares. To change it, change `protocol/scsi_cdb_table.c` and run\n"
	"`ninja -C BUILD docs/scsi-md && BUILD/docs/scsi-md > docs/scsi.md`.\n"
	"\n"
	"A command that is not listed is refused with ILLEGAL REQUEST, INVALID COMMAND\n"
	"OPERATION CODE (05h/20h/00h), a service action that is not listed with INVALID\n"
	"FIELD IN CDB (05h/24h/00h). A bit of the CDB that is not set in the usage map is\n"
	"refused with INVALID FIELD IN CDB and a pointer at it, so protection information\n"
	"(RDPROTECT, WRPROTECT, VRPROTECT) and NACA are. GROUP NUMBER is ignored: there\n"
	"are no groups (GROUP_SUP 0). The map is what REPORT SUPPORTED OPERATION CODES\n"
	"tells; it begins with the operation code.\n"
	"\n"
	"Clauses are those of SBC-3 (T10/BSR INCITS 514) and SPC-4 (T10/BSR INCITS 513,\n"
	"revision 36e: the numbers moved between revisions).\n"
	"\n"
	"What a nexus may do under a reservation of another:\n"
	"\n"
	"| | under write exclusive | under exclusive access | under RESERVE (6), (10) |\n"
	"|---|---|---|---|\n"
	"| changes | conflict | conflict | conflict |\n"
	"| reads | yes | conflict | conflict |\n"
	"| asks | yes | yes | conflict |\n"
	"| always | yes | yes | yes |\n"
	"| by field | as *always* when it starts the unit or allows removal, else as *changes* | | |\n"
	"\n"
	"*Readers* are initiators that may only read a unit (`:ro` of a rule). *No*: what\n"
	"would write is refused with WRITE PROTECTED (07h/27h/00h), all else with ACCESS\n"
	"DENIED, NO ACCESS RIGHTS (05h/20h/02h). *By field*: yes when it starts the unit\n"
	"or allows removal. Of the task management functions they have ABORT TASK, ABORT\n"
	"TASK SET and CLEAR TASK SET, which end commands of their own; LOGICAL UNIT RESET\n"
	"is not supported for them.\n"
	"\n"
	"Registrants are spared by the types for registrants. \"Attention\": answered while\n"
	"a unit attention is pending, which stays pending (REQUEST SENSE tells it).\n"
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
	{ SCSI_CDB_UNMAPS, "Where the store is thinly provisioned." },
	{ SCSI_CDB_ATOMIC, "Where the store writes blocks whole." },
	{ SCSI_CDB_JOB,
	  "With `--state-dir` not for devices that have neither an "
	  "identifier of their own nor serial=." },
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

/* A unit that has everything. */
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

	fprintf(f, "\nMode pages, with the bits that MODE SELECT can change "
		   "at most (WCE: where\nthe store has a cache; D_SENSE; "
		   "SWP):\n\n| Page | Changeable |\n|---|---|\n");
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
	fprintf(f, " (0Ch where the store is thinly provisioned).\n");
}

static void put_all(FILE *f)
{
	fputs(head_text, f);
	put_commands(f);
	put_vpd_pages(f);
	put_mode_pages(f);
	put_log_pages(f);
}

/* Returns the number of the first line that differs, 0: none. */
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
			"%s: line %u is not what the tables say; make it anew "
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
