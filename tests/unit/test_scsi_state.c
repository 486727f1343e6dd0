/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How commands of several initiators affect each other through the state of a
 * unit: reservations, mode values, unit attentions. A row is a conversation:
 * each step has a nexus, its command and the expected outcome.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/scsi/disk.h"
#include "base/log.h"
#include "tests/lib/t_bytes.h"
#include "tests/lib/t_disk.h"
#include "tests/lib/t_journal.h"

/* ---- conversations ---- */

struct step {
	unsigned int who; /* 1 ... T_NEXUSES; 0: the end */
	const char *cdb;
	const char *out;     /* data-out, NULL: none */
	const char *outcome; /* NULL: "good" */
	const char *in;	     /* the first bytes of data-in; NULL: any */
};

#define STEPS 20

struct row {
	const char *name;
	enum t_disk_store store;
	struct step steps[STEPS];
	const char *aborted; /* the nexus whose commands were; NULL: none */
	const char *ops;     /* the requests that the store got; NULL: any */
};

/* Parameter lists of PERSISTENT RESERVE OUT. */
#define KEYS(old, new) "00*7 " old " 00*7 " new " 00*8"

#define REGISTER(who, key)                                         \
	{                                                          \
		who, "5f 00 00 00 00 00 00 00 18", KEYS("00", key) \
	}
#define RESERVE(who, key, type)                                          \
	{                                                                \
		who, "5f 01 " type " 00 00 00 00 00 18", KEYS(key, "00") \
	}
#define RELEASE(who, key, type)                                          \
	{                                                                \
		who, "5f 02 " type " 00 00 00 00 00 18", KEYS(key, "00") \
	}
#define CLEAR(who, key)                                            \
	{                                                          \
		who, "5f 03 00 00 00 00 00 00 18", KEYS(key, "00") \
	}
#define PREEMPT(who, key, type, victim)                                    \
	{                                                                  \
		who, "5f 04 " type " 00 00 00 00 00 18", KEYS(key, victim) \
	}
#define PREEMPT_ABORT(who, key, type, victim)                              \
	{                                                                  \
		who, "5f 05 " type " 00 00 00 00 00 18", KEYS(key, victim) \
	}

#define SET_GROUPS "a4 0a 00 00 00 00 00 00 00 "

#define TUR(who, outcome)                \
	{                                \
		who, "00", NULL, outcome \
	}
#define READ(who, outcome)                          \
	{                                           \
		who, "28 00 00*6 01", NULL, outcome \
	}
#define WRITE(who, outcome)                             \
	{                                               \
		who, "2a 00 00*6 01", "aa*512", outcome \
	}

static const struct row rows[] = {
	/* persistent reservations: which nexus may do what */
	{ "write exclusive",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "01"), WRITE(1, "good"), READ(2, "good"),
		     WRITE(2, "conflict"), READ(3, "good"),
		     WRITE(3, "conflict"), TUR(3, "good") } },
	{ "exclusive access",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "03"), WRITE(1, "good"), READ(1, "good"),
		     READ(2, "conflict"), WRITE(2, "conflict"),
		     READ(3, "conflict"), TUR(3, "good") } },
	{ "write exclusive, registrants only",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "05"), WRITE(2, "good"), READ(3, "good"),
		     WRITE(3, "conflict") } },
	{ "exclusive access, registrants only",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "06"), WRITE(2, "good"), READ(2, "good"),
		     READ(3, "conflict"), WRITE(3, "conflict") } },
	{ "write exclusive, all registrants",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "07"), WRITE(2, "good"), READ(3, "good"),
		     WRITE(3, "conflict") } },
	{ "exclusive access, all registrants",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "08"), READ(2, "good"),
		     READ(3, "conflict") } },
	{ "who registers later is let in",
	  .steps = { REGISTER(1, "01"), RESERVE(1, "01", "06"),
		     READ(2, "conflict"), REGISTER(2, "02"),
		     READ(2, "good") } },
	{ "registrations alone shut nobody out",
	  .steps = { REGISTER(1, "01"), WRITE(2, "good") } },
	{ "PERSISTENT RESERVE OUT is judged by itself",
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     RESERVE(1, "01", "03"),
		     { 2, "5f 01 03 00 00 00 00 00 18", KEYS("02", "00"),
		       "conflict" } } },
	{ "START and ALLOW go through, STOP and PREVENT do not",
	  .steps = { REGISTER(1, "01"),
		     RESERVE(1, "01", "03"),
		     { 2, "1b 00 00 00 01" },
		     { 2, "1b", NULL, "conflict" },
		     { 2, "1e" },
		     { 2, "1e 00 00 00 01", NULL, "conflict" } } },

	/* which nexuses are told */
	{ "a release is told to registrants",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "05"), RELEASE(1, "01", "05"),
		     TUR(2, "06/2a/04"), TUR(2, "good"), TUR(1, "good"),
		     TUR(3, "good") } },
	{ "a clear is told to registrants",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"), CLEAR(1, "01"),
		     TUR(2, "06/2a/03"), TUR(2, "good"), TUR(1, "good") } },
	{ "the preempted are told, and shut out",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"),
		     RESERVE(1, "01", "01"), PREEMPT(2, "02", "01", "01"),
		     WRITE(1, "06/2a/05"), WRITE(1, "conflict"),
		     WRITE(2, "good") } },
	{ "the commands of the preempted are aborted",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"), REGISTER(3, "01"),
		     RESERVE(1, "01", "01"), PREEMPT_ABORT(2, "02", "01", "01"),
		     TUR(1, "06/2a/05"), TUR(3, "06/2a/05"), TUR(2, "good") },
	  .aborted = "3 1 " },
	{ "each LUN of the volume is told",
	  .steps = { REGISTER(1, "01"), REGISTER(2, "02"), CLEAR(1, "01"),
		     TUR(2, "06/2a/03") } },

	/* PERSISTENT RESERVE IN */
	{ "keys are read",
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     { 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL,
		       "00 00 00 02 00 00 00 10 00*7 01 00*7 02" } } },
	{ "an allocation length that cuts",
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     { 3, "5e 00 00 00 00 00 00 00 08", NULL, NULL,
		       "00 00 00 02 00 00 00 10" } } },
	{ "an unknown service action",
	  .steps = { { 1, "5e 04", NULL, "05/24/00 CDB 1.4" } } },
	{ "PERSISTENT RESERVE OUT, too short",
	  .steps = { { 1, "5f 00 00 00 00 00 00 00 10", "00*16",
		       "05/1a/00" } } },
	{ "PERSISTENT RESERVE OUT, absurdly long",
	  .steps = { { 1, "5f 00 00 00 00 ff ff ff ff", "00*16",
		       "05/1a/00" } } },
	{ "PERSISTENT RESERVE OUT, less data than the CDB says",
	  .steps = { { 1, "5f 00 00 00 00 00 00 00 18", "00*16",
		       "05/24/00 CDB 5.7" } } },
	{ "APTPL without a state directory",
	  .steps = { { 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3",
		       "05/26/00 data 20.0" } } },

	/* RESERVE and RELEASE */
	{ "RESERVE shuts others out",
	  .steps = { { 1, "16" },
		     WRITE(1, "good"),
		     READ(2, "conflict"),
		     WRITE(2, "conflict"),
		     TUR(2, "conflict"),
		     { 2, "12 00 00 00 24" },
		     { 2, "25" },
		     { 2, "5e 00 00 00 00 00 00 00 fc", NULL, "conflict" },
		     { 2, "16", NULL, "conflict" },
		     { 2, "17" },
		     READ(2, "conflict"),
		     { 1, "57" },
		     READ(2, "good") } },
	{ "RESERVE twice", .steps = { { 1, "16" }, { 1, "56" } } },
	{ "RESERVE and PERSISTENT RESERVE OUT",
	  .steps = { { 1, "16" },
		     { 1, "5f 00 00 00 00 00 00 00 18", KEYS("00", "01"),
		       "conflict" } } },
	{ "RESERVE where somebody is registered",
	  .steps = { REGISTER(1, "01"),
		     { 1, "16", NULL, "conflict" },
		     { 2, "17", NULL, "conflict" } } },
	{ "RESERVE by who holds it anyway",
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     RESERVE(1, "01", "05"),
		     { 1, "16" },
		     { 2, "56" },
		     { 2, "57" },
		     { 3, "16", NULL, "conflict" },
		     WRITE(2, "good"),
		     WRITE(3, "conflict") } },
	{ "RESERVE for a third party",
	  .steps = { { 1, "16 10", NULL, "05/24/00 CDB 1.4" },
		     { 1, "56 10", NULL, "05/24/00 CDB 1.4" } } },

	/* MODE SELECT */
	{ "descriptor sense",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 0a 26 10 00 40 00*6" },
		     { 1, "1a 08 0a 00 fc", NULL, NULL, "0f 00 10 00 0a 0a 26" },
		     TUR(2, "06/2a/01"),
		     TUR(2, "good"),
		     TUR(1, "good"),
		     { 1, "03 00 00 00 fc" } } },
	{ "no change is told to nobody",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 0a 22 10 00 40 00*6" },
		     TUR(2, "good") } },
	{ "software write protection",
	  .steps = { { 1, "55 10 00 00 00 00 00 00 14",
		       "00*8 0a 0a 22 10 08 40 00*6" },
		     WRITE(1, "07/27/02"),
		     READ(1, "good"),
		     { 1, "1a 08 3f 00 fc", NULL, NULL, "3b 00 90 00" },
		     { 1, "15 10 00 00 10", "00*4 0a 0a 22 10 00 40 00*6" },
		     WRITE(1, "good") } },
	{ "the write cache goes off, and on",
	  .steps = { WRITE(1, "good"),
		     { 1, "15 10 00 00 18", "00*4 08 12 00 00*17" },
		     WRITE(1, "good"),
		     { 1, "15 10 00 00 18", "00*4 08 12 04 00*17" },
		     WRITE(1, "good") },
	  .ops = "write 0+512, flush, write 0+512 fua, write 0+512" },
	{ "no write cache where the store has no FUA", .store = T_PLAIN,
	  .steps = { { 1, "15 10 00 00 18", "00*4 08 12 00 00*17" },
		     WRITE(1, "good"),
		     { 1, "41 00 00*6 01", "bb*512" },
		     READ(1, "good") },
	  .ops = "flush, write 0+512, flush, write 0+512, flush, "
		 "read 0+512" },
	{ "UNMAP without a write cache is stable",
	  .steps = { { 1, "15 10 00 00 18", "00*4 08 12 00 00*17" },
		     { 1, "42 00 00 00 00 00 00 00 18",
		       "00 16 00 10 00*4 00*8 00 00 00 01 00*4" } },
	  .ops = "flush, unmap 0+512, flush" },
	{ "FORMAT UNIT and SANITIZE without a write cache end",
	  .steps = { { 1, "15 10 00 00 18", "00*4 08 12 00 00*17" },
		     { 1, "04", NULL, "good" },
		     { 1, "48 02", NULL, "good" },
		     TUR(1, "good") } },
	{ "a write cache where there is none", .store = T_STABLE,
	  .steps = { { 1, "15 10 00 00 18", "00*4 08 12 04 00*17",
		       "05/26/00 data 6.2" } } },
	{ "MODE SELECT to be saved, where nothing is",
	  .steps = { { 1, "15 11 00 00 10", "00*4 0a 0a 26 10 00 40 00*6",
		       "05/24/00 CDB 1.0" } } },
	{ "MODE SELECT without PF",
	  .steps = { { 1, "15 00 00 00 10", "00*4 0a 0a 26 10 00 40 00*6",
		       "05/24/00 CDB 1.4" } } },
	{ "MODE SELECT of nothing", .steps = { { 1, "15 10" } } },
	{ "MODE SELECT, half a header",
	  .steps = { { 1, "15 10 00 00 03", "00*3", "05/1a/00" } } },
	{ "MODE SELECT, a header only",
	  .steps = { { 1, "15 10 00 00 04", "00*4" } } },
	{ "MODE SELECT, MODE DATA LENGTH is reserved",
	  .steps = { { 1, "15 10 00 00 04", "03 00*3", "05/26/00 data 0.1" } } },
	{ "MODE SELECT, medium type",
	  .steps = { { 1, "15 10 00 00 04", "00 01 00 00",
		       "05/26/00 data 1.0" } } },
	{ "MODE SELECT ignores WP and DPOFUA",
	  .steps = { { 1, "15 10 00 00 04", "00 00 90 00" } } },
	{ "MODE SELECT with the block descriptor as it is",
	  .steps = { { 1, "15 10 00 00 0c",
		       "00 00 00 08 00 00 40 00 00 00 02 00" } } },
	{ "MODE SELECT with another block size",
	  .steps = { { 1, "15 10 00 00 0c",
		       "00 00 00 08 00 00 40 00 00 00 10 00",
		       "05/26/00 data 9.7" } } },
	{ "MODE SELECT with another capacity",
	  .steps = { { 1, "15 10 00 00 0c",
		       "00 00 00 08 00 00 20 00 00 00 02 00",
		       "05/26/00 data 4.7" } } },
	{ "MODE SELECT with a long block descriptor",
	  .steps = { { 1, "55 10 00 00 00 00 00 00 18",
		       "00*4 01 00 00 10 00*6 40 00 00*4 00 00 02 00" } } },
	{ "MODE SELECT, block descriptor cut off",
	  .steps = { { 1, "15 10 00 00 08", "00 00 00 08 00 00 40 00",
		       "05/1a/00" } } },
	{ "MODE SELECT, block descriptor of a wrong length",
	  .steps = { { 1, "15 10 00 00 0c", "00 00 00 07 00*8",
		       "05/26/00 data 3.7" } } },
	{ "MODE SELECT, unknown page",
	  .steps = { { 1, "15 10 00 00 08", "00*4 02 02 00 00",
		       "05/26/00 data 4.5" } } },
	{ "MODE SELECT, subpage",
	  .steps = { { 1, "15 10 00 00 0c", "00*4 4a 01 00 04 00*4",
		       "05/26/00 data 4.6" } } },
	{ "MODE SELECT, PS is reserved",
	  .steps = { { 1, "15 10 00 00 10", "00*4 8a 0a 22 10 00 40 00*6",
		       "05/26/00 data 4.7" } } },
	{ "MODE SELECT, page of a wrong length",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 09 22 10 00 40 00*6",
		       "05/26/00 data 5.7" } } },
	{ "MODE SELECT, page cut off",
	  .steps = { { 1, "15 10 00 00 0f", "00*4 0a 0a 22 10 00 40 00*5",
		       "05/1a/00" } } },
	{ "MODE SELECT of what cannot be changed",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 0a 02 10 00 40 00*6",
		       "05/26/00 data 6.5" } } },
	{ "MODE SELECT, the second page is wrong: the first does not count",
	  .steps = { { 1, "15 10 00 00 1c",
		       "00*4 0a 0a 26 10 00 40 00*6 1c 0a 00*10",
		       "05/26/00 data 18.3" },
		     { 1, "1a 08 0a 00 fc", NULL, NULL,
		       "0f 00 10 00 0a 0a 22" } } },
	{ "changeable values",
	  .steps = { { 1, "1a 08 7f 00 fc", NULL, NULL,
		       "3b 00 10 00 01 0a 00*10 08 12 04 00*17 "
		       "0a 0a 04 00 08 00*7 1c 0a 00*10" } } },
	{ "default values are not the current ones",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 0a 26 10 00 40 00*6" },
		     { 1, "1a 08 8a 00 fc", NULL, NULL,
		       "0f 00 10 00 0a 0a 22" } } },

	/* removable media */
	{ "the medium is taken out and put back", .store = T_REMOVABLE,
	  .steps = { { 1, "12 00 00 00 24", NULL, NULL, "00 80" },
		     { 1, "1b 00 00 00 02" },
		     TUR(1, "02/3a/00"),
		     TUR(2, "02/3a/00"),
		     READ(2, "02/3a/00"),
		     { 2, "25", NULL, "02/3a/00" },
		     { 2, "03 00 00 00 12", NULL, NULL,
		       "70 00 02 00*4 0a 00*4 3a" },
		     { 2, "12 00 00 00 24" },
		     { 2, "1a 08 3f 00 fc" },
		     { 1, "1b 00 00 00 01" },
		     TUR(1, "02/3a/00"),
		     { 2, "1b 00 00 00 03" },
		     TUR(1, "06/28/00"),
		     TUR(1, "good"),
		     TUR(2, "06/28/00"),
		     READ(2, "good") },
	  .ops = "flush, read 0+512" },
	{ "what is in is not loaded again", .store = T_REMOVABLE,
	  .steps = { { 1, "1b 00 00 00 03" }, TUR(1, "good") } },
	{ "removal is prevented, also by another", .store = T_REMOVABLE,
	  .steps = { { 1, "1e 00 00 00 01" },
		     { 2, "1e 00 00 00 01" },
		     { 1, "1e 00 00 00 01" },
		     { 1, "1b 00 00 00 02", NULL, "05/53/02" },
		     { 1, "1e" },
		     { 1, "1e" },
		     { 1, "1b 00 00 00 02", NULL, "05/53/02" },
		     TUR(1, "good"),
		     { 2, "1e" },
		     { 1, "1b 00 00 00 02" },
		     TUR(2, "02/3a/00") } },
	{ "eject without flush", .store = T_REMOVABLE,
	  .steps = { { 1, "1b 00 00 00 06" }, TUR(1, "02/3a/00") }, .ops = "" },
	{ "LOEJ of what is fixed",
	  .steps = { { 1, "1b 00 00 00 02", NULL, "05/24/00 CDB 4.1" },
		     { 1, "1b 00 00 00 03", NULL, "05/24/00 CDB 4.1" },
		     { 1, "a3 0c 01 1b 00 00 00 00 00 fc", NULL, NULL,
		       "00 03 00 06 1b 01 00 00 05" } } },
	{ "power conditions",
	  .steps = { { 1, "1b 00 00 00 11", NULL, "05/24/00 CDB 4.7" },
		     { 1, "1b 00 00 01 01", NULL, "05/24/00 CDB 3.3" } } },

	/* LOG SENSE */
	{ "log pages", .steps = { { 1, "4d 00 00 00 00 00 00 00 fc", NULL, NULL,
				    "00 00 00 03 00 0c 2f" } } },
	{ "log pages of what is not thin", .store = T_PLAIN,
	  .steps = { { 1, "4d 00 00 00 00 00 00 00 fc", NULL, NULL,
		       "00 00 00 02 00 2f" } } },
	{ "log pages and subpages",
	  .steps = { { 1, "4d 00 00 ff 00 00 00 00 fc", NULL, NULL,
		       "40 ff 00 08 00 00 00 ff 0c 00 2f 00" } } },
	{ "informational exceptions",
	  .steps = { { 1, "4d 00 6f 00 00 00 00 00 fc", NULL, NULL,
		       "af 00 00 08 00 00 03 04 00 00 ff 00" } } },
	{ "provisioning",
	  .steps = { { 1, "4d 00 4c 00 00 00 00 00 fc", NULL, NULL,
		       "8c 00 00 0c 00 02 03 08 00 00 00 08 01 00 00 00" } } },
	{ "provisioning of what is not thin", .store = T_PLAIN,
	  .steps = { { 1, "4d 00 4c 00 00 00 00 00 fc", NULL,
		       "05/24/00 CDB 2.5" } } },
	{ "temperature, which is not known",
	  .steps = { { 1, "4d 00 4d 00 00 00 00 00 fc", NULL,
		       "05/24/00 CDB 2.5" } } },
	{ "PC is nothing to parameters that are lists",
	  .steps = { { 1, "4d 00 2f 00 00 00 00 00 fc", NULL, NULL,
		       "af 00 00 08" },
		     { 1, "4d 00 ef 00 00 00 00 00 fc", NULL, NULL,
		       "af 00 00 08" } } },
	{ "a subpage that is not there",
	  .steps = { { 1, "4d 00 6f 01 00 00 00 00 fc", NULL,
		       "05/24/00 CDB 3.7" } } },
	{ "a parameter pointer behind all",
	  .steps = { { 1, "4d 00 6f 00 00 00 01 00 fc", NULL,
		       "05/24/00 CDB 5.7" } } },
	{ "LOG SENSE with SP",
	  .steps = { { 1, "4d 01", NULL, "05/24/00 CDB 1.0" } } },

	/* supported functions */
	{ "task management functions",
	  .steps = { { 1, "a3 0d 00 00 00 00 00 00 00 04", NULL, NULL,
		       "d8 00 00 00" } } },
	{ "task management functions, three bytes of them",
	  .steps = { { 1, "a3 0d 00 00 00 00 00 00 00 03", NULL,
		       "05/24/00 CDB 6.7" } } },
	{ "task management functions, at length",
	  .steps = { { 1, "a3 0d 80 00 00 00 00 00 00 10", NULL, NULL,
		       "d8 00 00 0c 00*12" } } },
	{ "target port groups",
	  .steps = { { 1, "a3 0a 00 00 00 00 00 00 00 fc", NULL, NULL,
		       "00 00 00 0c 00 01 00 01 00 00 00 01 00 00 00 01" } } },
	{ "target port groups, extended header",
	  .steps = { { 1, "a3 2a 00 00 00 00 00 00 00 fc", NULL, NULL,
		       "00 00 00 10 10 00 00 00 00 01 00 01 00 00 00 01 "
		       "00 00 00 01" } } },
	{ "target port groups, unknown format",
	  .steps = { { 1, "a3 4a 00 00 00 00 00 00 00 fc", NULL,
		       "05/24/00 CDB 1.7" } } },
	{ "a cache that is off is still there",
	  .steps = { { 1, "15 10 00 00 18", "00*4 08 12 00*18" },
		     { 1, "1a 08 08 00 fc", NULL, NULL, "17 00 10 00 08 12 00" },
		     { 1, "12 01 86 00 fc", NULL, NULL,
		       "00 86 00 3c 00 07 01" } } },
	{ "PREEMPT AND ABORT ends a prevention of removal",
	  .store = T_REMOVABLE,
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     { 2, "1e 00 00 00 01" },
		     { 1, "1b 00 00 00 02", NULL, "05/53/02" },
		     PREEMPT_ABORT(1, "01", "00", "02"),
		     { 1, "1b 00 00 00 02" } },
	  .aborted = "2 " },
	{ "but not that of those who stay", .store = T_REMOVABLE,
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     { 3, "1e 00 00 00 01" },
		     PREEMPT_ABORT(1, "01", "00", "02"),
		     { 1, "1b 00 00 00 02", NULL, "05/53/02" } },
	  .aborted = "2 " },
	{ "nor does PREEMPT end any", .store = T_REMOVABLE,
	  .steps = { REGISTER(1, "01"),
		     REGISTER(2, "02"),
		     { 2, "1e 00 00 00 01" },
		     PREEMPT(1, "01", "00", "02"),
		     { 1, "1b 00 00 00 02", NULL, "05/53/02" } } },
	{ "SET TARGET PORT GROUPS changes nothing, and nobody is told",
	  .steps = { { 1, SET_GROUPS "08", "00*4 00 00 00 01" },
		     { 1, "a3 0a 00 00 00 00 00 00 00 fc", NULL, NULL,
		       "00 00 00 0c 00 01 00 01 00 00 00 01 00 00 00 01" },
		     TUR(1, "good"),
		     TUR(2, "good") } },
	{ "SET TARGET PORT GROUPS under a reservation",
	  .steps = { REGISTER(1, "01"),
		     RESERVE(1, "01", "05"),
		     { 1, SET_GROUPS "08", "00*4 00 00 00 01" },
		     { 2, SET_GROUPS "08", "00*4 00 00 00 01", "conflict" },
		     { 2, "a3 0a 00 00 00 00 00 00 00 fc" },
		     REGISTER(2, "02"),
		     { 2, SET_GROUPS "08", "00*4 00 00 00 01" } } },
	{ "SET TARGET PORT GROUPS under a unit attention",
	  .steps = { { 1, "15 10 00 00 10", "00*4 0a 0a 26 10 00 40 00*6" },
		     { 2, SET_GROUPS "08", "00*4 01 00 00 01", "06/2a/01" } } },
};

static void run_step(const struct step *step)
{
	struct t_bytes out = t_bytes(step->out ? step->out : "");
	struct t_bytes in = t_bytes(step->in ? step->in : "");
	struct t_command c;

	t_disk.from = t_nexus(step->who);
	t_command_run(&c, step->cdb, 0, out.p, (uint32_t)out.len, 512);
	assert_string_equal(t_outcome(&c.task),
			    step->outcome ? step->outcome : "good");
	assert_true(in.len <= c.task.data_in_cnt);
	if (in.len)
		assert_memory_equal(c.task.buf, in.p, in.len);
	t_command_free(&c);
	free(in.p);
	free(out.p);
}

static void run_steps(const struct step *steps)
{
	for (size_t i = 0; i < STEPS && steps[i].who; i++)
		run_step(&steps[i]);
}

T_ROWS(conversation, rows)
{
	const struct row *row = *state;

	t_disk_start(row->store);
	run_steps(row->steps);
	assert_string_equal(t_disk.aborted, row->aborted ? row->aborted : "");
	if (row->ops)
		assert_string_equal(t_store.log, row->ops);
	t_disk_stop();
}

/* ---- resets and losses ---- */

/* Resets as the port does it when there is no command. */
static void reset_unit(void)
{
	struct volume *vol = t_disk.luns.vol[0];

	scsi_attention_others(&t_disk.luns, vol, /* except= */ NULL,
			      SCSI_UA_LUN_RESET);
	scsi_reset_finish(&t_disk.luns, vol, &t_disk.worker);
	while (t_disk_turn())
		;
	assert_int_equal(vol->managed, 0);
}

T_TEST(reset_ends_reserve_and_brings_saved_modes_back)
{
	static const struct step before[STEPS] = {
		{ 1, "16" },
		{ 1, "15 10 00 00 10", "00*4 0a 0a 26 10 00 40 00*6" },
	};
	static const struct step after[STEPS] = {
		TUR(2, "06/29/03"),
		TUR(2, "06/2a/01"),
		WRITE(2, "good"),
		TUR(1, "06/29/03"),
		{ 1, "1a 08 0a 00 fc", NULL, NULL, "0f 00 10 00 0a 0a 22" },
	};

	t_disk_start(T_THIN);
	run_steps(before);
	reset_unit();
	run_steps(after);
	t_disk_stop();
}

T_TEST(reset_leaves_persistent_reservations)
{
	static const struct step before[STEPS] = {
		REGISTER(1, "01"),
		RESERVE(1, "01", "01"),
	};
	static const struct step after[STEPS] = {
		TUR(2, "06/29/03"),
		WRITE(2, "conflict"),
	};

	t_disk_start(T_THIN);
	run_steps(before);
	reset_unit();
	run_steps(after);
	t_disk_stop();
}

T_TEST(loss_of_the_nexus_ends_reserve_only)
{
	static const struct step before[STEPS] = { { 1, "16" } };
	static const struct step after[STEPS] = {
		TUR(1, "06/29/07"),
		WRITE(2, "good"),
		REGISTER(1, "01"),
		RESERVE(1, "01", "01"),
	};
	static const struct step at_last[STEPS] = { WRITE(2, "conflict") };

	t_disk_start(T_THIN);
	run_steps(before);
	scsi_nexus_lost(t_nexus(1));
	run_steps(after);
	scsi_nexus_lost(t_nexus(1));
	run_steps(at_last);
	t_disk_stop();
}

T_TEST(prevention_ends_with_the_nexus_and_by_reset)
{
	static const struct step prevent[STEPS] = {
		{ 1, "1e 00 00 00 01" },
		{ 2, "1b 00 00 00 02", NULL, "05/53/02" },
	};
	static const struct step eject[STEPS] = {
		{ 2, "1b 00 00 00 02" },
		{ 2, "1b 00 00 00 03" },
	};
	static const struct step told[STEPS] = {
		TUR(1, "06/29/07"),
		TUR(1, "06/28/00"),
		TUR(2, "06/28/00"),
	};
	static const struct step told_of_reset[STEPS] = {
		TUR(1, "06/29/03"),
		TUR(2, "06/29/03"),
		/* a prevention from before the reset is void */
		{ 1, "1e" },
	};

	t_disk_start(T_REMOVABLE);
	run_steps(prevent);
	scsi_nexus_lost(t_nexus(1));
	run_steps(eject);
	run_steps(told);
	run_steps(prevent);
	reset_unit();
	run_steps(told_of_reset);
	run_steps(eject);
	t_disk_stop();
}

/* LUN 0 gets the volume of T_NEXT_LUN. */
#define T_NEXT_LUN 7

static void change_volumes(void)
{
	struct volume **vol = t_disk.luns.vol;
	struct volume *was = vol[0];

	for (unsigned int i = 1; i <= T_NEXUSES; i++)
		scsi_nexus_lose(t_nexus(i), 0);
	vol[0] = vol[T_NEXT_LUN];
	vol[T_NEXT_LUN] = was;
	for (unsigned int i = 1; i <= T_NEXUSES; i++) {
		scsi_nexus_gain(t_nexus(i), 0);
		atomic_store(&t_nexus(i)->ua[0], 0);
	}
}

/* What a nexus has seen of the reservations of one volume, after as many changes. */
T_TEST(reservations_of_the_volume_before_do_not_count)
{
	static const struct volume_spec next = { .type = &backend_ram,
						 .path = "32k",
						 .block_size = T_BLOCK };
	static const struct step before[STEPS] = {
		REGISTER(1, "01"),
		REGISTER(2, "02"),
		RESERVE(1, "01", "06"),
		READ(2, "good"),
	};
	static const struct step after[STEPS] = {
		REGISTER(1, "01"),
		REGISTER(3, "03"),
		RESERVE(1, "01", "06"),
		READ(2, "conflict"),
	};

	t_disk_start(T_THIN);
	t_disk_add(&next, T_NEXT_LUN);
	run_steps(before);
	change_volumes();
	run_steps(after);
	change_volumes();
	t_disk_remove(T_NEXT_LUN);
	t_disk_stop();
}

/* ---- how a reservation affects each command ---- */

T_TEST(every_command_has_its_access)
{
	static const struct {
		const char *start;
		enum scsi_access access;
	} want[] = {
		{ "TEST UNIT READY", SCSI_ACCESS_ASKS },
		{ "REQUEST SENSE", SCSI_ACCESS_ALWAYS },
		{ "INQUIRY", SCSI_ACCESS_ALWAYS },
		{ "REPORT LUNS", SCSI_ACCESS_ALWAYS },
		{ "REPORT ", SCSI_ACCESS_ASKS },
		{ "LOG SENSE", SCSI_ACCESS_ALWAYS },
		{ "MODE SENSE", SCSI_ACCESS_READS },
		{ "START STOP UNIT", SCSI_ACCESS_BY_FIELD },
		{ "PREVENT ALLOW MEDIUM REMOVAL", SCSI_ACCESS_BY_FIELD },
		{ "READ CAPACITY", SCSI_ACCESS_ALWAYS },
		{ "READ", SCSI_ACCESS_READS },
		{ "VERIFY", SCSI_ACCESS_READS },
		{ "PRE-FETCH", SCSI_ACCESS_READS },
		{ "GET LBA STATUS", SCSI_ACCESS_READS },
		{ "PERSISTENT RESERVE", SCSI_ACCESS_ASKS },
		{ "RESERVE", SCSI_ACCESS_ALWAYS },
		{ "RELEASE", SCSI_ACCESS_ALWAYS },
	};

	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *info = &scsi_cdb_table[i];
		enum scsi_access access = SCSI_ACCESS_CHANGES;

		for (size_t k = 0; k < ARRAY_SIZE(want); k++) {
			if (strncmp(info->name, want[k].start,
				    strlen(want[k].start)))
				continue;
			access = want[k].access;
			break;
		}
		if (info->access != access)
			fail_msg("%s", info->name);
	}
}

/* ---- what survives ---- */

static char dir[64];

static void journal_fails(unsigned int steps)
{
	t_journal_fail(&t_disk.luns.vol[0]->journal, steps);
}

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/t-state-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	return system(cmd);
}

T_EACH(make_dir, remove_dir)

static void restart(void)
{
	t_disk_stop();
	t_disk_start_in(T_THIN, dir);
}

T_TEST(reservations_survive_with_aptpl)
{
	static const struct step before[STEPS] = {
		{ 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3" },
		{ 2, "5f 00 00 00 00 00 00 00 18", "00*15 02 00*4 05 00*3" },
		RESERVE(1, "01", "05"),
	};
	static const struct step after[STEPS] = {
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL,
		  "00 00 00 00 00 00 00 10 00*7 01 00*7 02" },
		{ 3, "5e 01 00 00 00 00 00 00 fc", NULL, NULL,
		  "00 00 00 00 00 00 00 10 00*7 01 00*5 05" },
		{ 3, "5e 02 00 00 00 00 00 00 fc", NULL, NULL, "00 08 1d 81" },
		WRITE(1, "good"),
		WRITE(2, "good"),
		WRITE(3, "conflict"),
		CLEAR(2, "02"),
		WRITE(3, "good"),
	};
	static const struct step at_last[STEPS] = {
		WRITE(3, "good"),
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL, "00*8" },
	};

	t_disk_start_in(T_THIN, dir);
	run_steps(before);
	restart();
	run_steps(after);
	restart();
	run_steps(at_last);
	t_disk_stop();
}

T_TEST(reservations_without_aptpl_do_not_survive)
{
	static const struct step before[STEPS] = {
		{ 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3" },
		/* takes APTPL back for all registrants */
		{ 2, "5f 00 00 00 00 00 00 00 18", "00*15 02 00*8" },
		RESERVE(1, "01", "01"),
	};
	static const struct step after[STEPS] = {
		WRITE(3, "good"),
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL, "00*8" },
	};

	t_disk_start_in(T_THIN, dir);
	run_steps(before);
	restart();
	run_steps(after);
	t_disk_stop();
}

T_TEST(modes_survive_when_saved)
{
	static const struct step before[STEPS] = {
		{ 1, "15 11 00 00 18", "00*4 08 12 00 00*17" },
		{ 1, "15 10 00 00 10", "00*4 0a 0a 26 10 00 40 00*6" },
		{ 1, "1a 08 c8 00 fc", NULL, NULL, "17 00 10 00 88 12 00" },
	};
	static const struct step after[STEPS] = {
		{ 1, "1a 08 08 00 fc", NULL, NULL, "17 00 10 00 88 12 00" },
		{ 1, "1a 08 88 00 fc", NULL, NULL, "17 00 10 00 88 12 04" },
		{ 1, "1a 08 0a 00 fc", NULL, NULL, "0f 00 10 00 8a 0a 22" },
	};

	t_disk_start_in(T_THIN, dir);
	run_steps(before);
	restart();
	run_steps(after);
	t_disk_stop();
}

/* The command fails and changes nothing. */
T_TEST(what_cannot_be_written_down_is_refused)
{
	static const struct step before[STEPS] = {
		{ 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3" },
	};
	static const struct step after[STEPS] = {
		{ 2, "5f 00 00 00 00 00 00 00 18", "00*15 02 00*4 01 00*3",
		  "04/44/00" },
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL,
		  "00 00 00 01 00 00 00 08 00*7 01" },
		{ 1, "15 11 00 00 18", "00*4 08 12 00 00*17", "04/44/00" },
		{ 1, "1a 08 08 00 fc", NULL, NULL, "17 00 10 00 88 12 04" },
	};

	t_disk_start_in(T_THIN, dir);
	run_steps(before);
	journal_fails(T_JOURNAL_REFUSES);
	run_steps(after);
	t_disk_stop();
}

static void expect_status(enum volume_status status, int err)
{
	struct volume_status_facts facts;

	volume_status_read(t_disk.luns.vol[0], &facts);
	assert_string_equal(volume_status_name(facts.status),
			    volume_status_name(status));
	assert_int_equal(facts.err, err);
}

static void let_it_save(void)
{
	while (volume_state(t_disk.luns.vol[0]) == VOLUME_SAVING)
		reactor_run_once(t_disk.worker.reactor, 100000);
}

#define IS_UNSAVED "02/04/01"

/* Is answered with an error, although the file may have it. */
static const struct unsure_row {
	const char *name;
	struct step step;
} unsure_rows[] = {
	{ "registration",
	  { 2, "5f 00 00 00 00 00 00 00 18", "00*15 02 00*4 01 00*3",
	    "04/44/00" } },
	{ "preempt",
	  { 1, "5f 04 05 00 00 00 00 00 18", KEYS("01", "01"), "04/44/00" } },
	{ "saved modes",
	  { 1, "15 11 00 00 18", "00*4 08 12 00 00*17", "04/44/00" } },
	{ "SANITIZE", { 1, "48 02", NULL, "04/44/00" } },
	{ "SANITIZE, IMMED", { 1, "48 82", NULL, "04/44/00" } },
	{ "FORMAT UNIT", { 1, "04", NULL, "04/44/00" } },
};

static const struct step before_unsure[STEPS] = {
	{ 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3" },
	RESERVE(1, "01", "01"),
};

/* As before the command. */
static const struct step after_unsure[STEPS] = {
	TUR(1, "good"),
	{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL,
	  "00*4 00 00 00 08 00*7 01" },
	{ 3, "5e 01 00 00 00 00 00 00 fc", NULL, NULL,
	  "00*4 00 00 00 10 00*7 01 00*5 01" },
	{ 1, "1a 08 08 00 fc", NULL, NULL, "17 00 10 00 88 12 04" },
	{ 1, "28 00 00*6 01", NULL, "good", "01 01" },
};

T_ROWS(unsure_change_is_not_found_at_the_next_start, unsure_rows)
{
	const struct unsure_row *row = *state;

	t_disk_start_in(T_THIN, dir);
	run_steps(before_unsure);
	journal_fails(T_JOURNAL_IS_UNSURE);
	run_step(&row->step);
	journal_fails(0);
	restart();
	run_steps(after_unsure);
	t_disk_stop();
}

/* While nobody knows what the file has, no initiator goes on. */
T_ROWS(unit_is_not_ready_until_its_state_is_saved, unsure_rows)
{
	const struct unsure_row *row = *state;
	static const struct step not_ready[STEPS] = {
		TUR(1, IS_UNSAVED),
		READ(3, IS_UNSAVED),
		WRITE(1, IS_UNSAVED),
		{ 1, "5f 00 00 00 00 00 00 00 18", KEYS("01", "02"),
		  IS_UNSAVED },
		{ 1, "48 02", NULL, IS_UNSAVED },
		{ 1, "12 00 00 00 24" },
	};
	static const struct step asks[STEPS] = { TUR(1, IS_UNSAVED) };

	t_disk_start_in(T_THIN, dir);
	run_steps(before_unsure);
	journal_fails(T_JOURNAL_IS_UNSURE);
	run_step(&row->step);
	run_steps(not_ready);
	let_it_save();
	expect_status(VOLUME_STATUS_CANNOT_SAVE, 0);
	journal_fails(0);
	run_steps(asks);
	let_it_save();
	expect_status(VOLUME_STATUS_READY, 0);
	run_step(&after_unsure[0]);
	/* that of MODE SELECT */
	if (strcmp(t_store.log, "flush"))
		assert_string_equal(t_store.log, "");
	restart();
	run_steps(after_unsure);
	t_disk_stop();
}

/* A command that could not be saved does not change how an earlier failure may
 * be left. */
T_TEST(failure_keeps_its_mode)
{
	static const struct step failed[STEPS] = {
		{ 1, "48 22", NULL, "03/31/03" }, /* unrestricted */
	};
	static const struct step refused[STEPS] = {
		{ 1, "48 02", NULL, "04/44/00" },
		{ 1, "00", NULL, "03/31/03" },
	};
	static const struct step left[STEPS] = {
		{ 1, "48 1f" },
		{ 1, "00" },
	};

	t_disk_start_in(T_STABLE, dir);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	run_steps(failed);
	journal_fails(T_JOURNAL_REFUSES);
	run_steps(refused);
	journal_fails(0);
	run_steps(left);
	t_disk_stop();
}

/* The write cache is off at that time, so its contents must be made stable. */
T_TEST(ended_mode_select_flushes_all_the_same)
{
	struct t_bytes out = t_bytes("00*4 08 12 00 00*17");
	struct t_command c;

	t_disk_start_in(T_THIN, dir);
	t_command_start(&c, "15 11 00 00 18", 0, out.p, (uint32_t)out.len, 0);
	assert_int_equal(c.done, 0);
	scsi_task_cancel(&c.task);
	while (!c.done)
		t_disk_turn();
	assert_string_equal(t_store.log, "flush");
	t_command_free(&c);
	free(out.p);
	t_disk_stop();
}

T_TEST(command_that_waits_for_its_turn_can_be_aborted)
{
	struct t_bytes out = t_bytes("00*4 08 12 00 00*17");
	struct t_command c[3];

	t_disk_start_in(T_THIN, dir);
	for (int i = 0; i < 3; i++)
		t_command_start(&c[i], "15 11 00 00 18", 0, out.p,
				(uint32_t)out.len, 0);
	scsi_task_cancel(&c[1].task);
	assert_int_equal(c[1].done, 1);
	assert_int_equal(c[0].done, 0);
	while (!c[0].done || !c[2].done)
		t_disk_turn();
	assert_int_equal(c[1].done, 1);
	assert_int_equal(c[2].task.status, SCSI_STATUS_GOOD);
	for (int i = 0; i < 3; i++)
		t_command_free(&c[i]);
	free(out.p);
	t_disk_stop();
}

T_TEST(state_in_use_is_not_taken)
{
	struct volume_spec spec = { .type = &backend_ram,
				    .block_size = T_BLOCK,
				    .path = "64k",
				    .serial = "0123" };
	struct volume *vol;
	struct error e = { 0 };

	t_disk_start_in(T_THIN, dir);
	assert_int_equal(volume_open(&spec, 1, "t", &vol, &e), 0);
	assert_int_equal(unit_state_load(vol, dir, &e), -EBUSY);
	assert_non_null(strstr(e.text, "in use by another volume of this"));
	volume_close(vol);
	t_disk_stop();
}

/* Others can write to the directory, and have put a link under the name of the lock. */
T_TEST(link_in_the_state_directory_is_not_followed)
{
	struct volume_spec spec = { .type = &backend_ram,
				    .block_size = T_BLOCK,
				    .path = "64k",
				    .serial = "0123" };
	struct volume *vol;
	struct error e = { 0 };
	char lock[128];
	char made[128];

	assert_int_equal(volume_open(&spec, 1, "t", &vol, &e), 0);
	assert_int_equal(unit_state_load(vol, dir, &e), 0);
	snprintf(lock, sizeof(lock), "%s.lock", vol->journal.path);
	snprintf(made, sizeof(made), "%s/made", dir);
	volume_close(vol);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(symlink(made, lock), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(volume_open(&spec, 1, "t", &vol, &e), 0);
	assert_int_equal(unit_state_load(vol, dir, &e), -ELOOP);
	assert_non_null(strstr(e.text, ".lock: a symbolic link, and"));
	assert_int_equal(access(made, F_OK), -1);
	volume_close(vol);
}

/* Another process that has the state of @vol, until it is killed. */
static pid_t fork_holder(struct volume *vol)
{
	struct error e = { 0 };
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		/* It ends with a test that fails, too. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) ||
		    unit_state_load(vol, dir, &e) ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* A pending signal ends the wait, so the test takes no time. */
static int load_interrupted(struct volume *vol, struct error *e)
{
	sigset_t term;
	int err, sig;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	raise(SIGTERM);
	err = unit_state_load(vol, dir, e);
	assert_int_equal(sigwait(&term, &sig), 0);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	return err;
}

T_TEST(state_of_another_process_is_waited_for)
{
	struct volume_spec spec = { .type = &backend_ram,
				    .block_size = T_BLOCK,
				    .path = "64k",
				    .serial = "0123" };
	struct volume *vol, *refused;
	struct error e = { 0 };
	char wanted[64];
	pid_t pid;

	assert_int_equal(volume_open(&spec, 1, "t", &vol, &e), 0);
	assert_int_equal(volume_open(&spec, 1, "t", &refused, &e), 0);
	pid = fork_holder(vol);
	assert_int_equal(load_interrupted(refused, &e), -EBUSY);
	snprintf(wanted, sizeof(wanted), "in use by process %d", (int)pid);
	assert_non_null(strstr(e.text, wanted));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(unit_state_load(vol, dir, &e), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	volume_close(refused);
	volume_close(vol);
}

/* ---- saving the state ---- */

#define REGISTER_APTPL "5f 06 00 00 00 00 00 00 18"

/* While one command waits for the disk of the state file, others continue. A
 * second change waits for the first. */
T_TEST(nobody_else_waits_for_the_writing)
{
	struct t_bytes one = t_bytes("00*15 01 00*4 01 00*3");
	struct t_bytes two = t_bytes("00*15 02 00*4 01 00*3");
	static const struct step meanwhile[STEPS] = {
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL, "00*8" },
		WRITE(3, "good"),
	};
	static const struct step after[STEPS] = {
		{ 3, "5e 00 00 00 00 00 00 00 fc", NULL, NULL,
		  "00 00 00 02 00 00 00 10 00*7 01 00*7 02" },
	};
	struct t_command first, second;

	t_disk_start_in(T_THIN, dir);
	t_disk.from = t_nexus(1);
	t_command_start(&first, REGISTER_APTPL, 0, one.p, 24, 0);
	t_disk.from = t_nexus(2);
	t_command_start(&second, REGISTER_APTPL, 0, two.p, 24, 0);
	assert_false(first.done || second.done);
	run_steps(meanwhile);
	assert_false(first.done || second.done);
	while (!second.done)
		reactor_run_once(t_disk.worker.reactor, 100000);
	assert_true(first.done);
	assert_string_equal(t_outcome(&first.task), "good");
	assert_string_equal(t_outcome(&second.task), "good");
	run_steps(after);
	restart();
	assert_int_equal(t_disk.luns.vol[0]->state.pr.cnt, 2);
	t_command_free(&first);
	t_command_free(&second);
	free(one.p);
	free(two.p);
	t_disk_stop();
}

/* ---- unfinished jobs ---- */

static void ignore(struct reactor_msg *msg)
{
}

/* Like a stop of the target: running jobs end, and nothing of them is left. */
static void stop_jobs(void)
{
	struct reactor_msg msg = { .run = ignore };

	volume_job_stop(t_disk.luns.vol[0]);
	volume_job_await(t_disk.luns.vol[0], &t_disk.worker, &msg);
	while (scsi_volume_is_busy(t_disk.luns.vol[0]))
		t_disk_turn();
	while (t_disk_turn())
		;
}

static const struct job_row {
	const char *name;
	struct step begin[STEPS];
	bool stops; /* before its end */
	struct step after[STEPS];
	struct step at_last[STEPS];
} job_rows[] = {
	{ "format under way", .begin = { { 1, "04 10", "00 02 00 00" } },
	  .stops = true,
	  .after = { TUR(1, "03/31/00"),
		     READ(2, "03/31/00"),
		     { 1, "04 10", "00 00 00 00" } },
	  .at_last = { TUR(1, "good") } },
	/* Nothing begins it again but a command. */
	{ "sanitize under way",
	  .begin = { { 1, "48 a1 00*5 00 06", "82 00 00 02 f0 0f" } },
	  .stops = true,
	  .after = { TUR(1, "03/31/03"),
		     READ(2, "03/31/03"),
		     { 1, "48 1f" },
		     { 1, "28 00 00*6 01", NULL, "good", "01 01" } },
	  .at_last = { TUR(1, "good"), READ(2, "good") } },
	{ "sanitize under way, restricted", .begin = { { 1, "48 82" } },
	  .stops = true,
	  .after = { TUR(1, "03/31/03"),
		     { 1, "48 1f", NULL, "05/24/00 CDB 1.4" } },
	  .at_last = { TUR(1, "03/31/03"), { 1, "48 02" }, TUR(1, "good") } },
	{ "format done", .begin = { { 1, "04 10", "00 00 00 00" } },
	  .after = { TUR(1, "good") }, .at_last = { TUR(1, "good") } },
	{ "sanitize failed, restricted",
	  .begin = { { 1, "48 02", NULL, "03/31/03" } },
	  .after = { TUR(1, "03/31/03"),
		     { 1, "48 1f", NULL, "05/24/00 CDB 1.4" },
		     { 1, "48 22", NULL, "05/24/00 CDB 1.5" } },
	  .at_last = { TUR(1, "03/31/03"), { 1, "48 02" }, TUR(1, "good") } },
	{ "sanitize failed, unrestricted",
	  .begin = { { 1, "48 22", NULL, "03/31/03" } },
	  .after = { TUR(1, "03/31/03"), { 1, "48 1f" }, TUR(1, "good") },
	  .at_last = { TUR(1, "good") } },
};

T_ROWS(job, job_rows)
{
	const struct job_row *row = *state;

	t_disk_start_in(T_THIN, dir);
	t_store.fail_at = row->begin[0].outcome ? 1 : 0;
	t_store.fail_with = -EIO;
	run_steps(row->begin);
	if (row->stops)
		stop_jobs();
	restart();
	run_steps(row->after);
	restart();
	run_steps(row->at_last);
	t_disk_stop();
}

T_TEST(job_that_cannot_be_written_down_does_not_begin)
{
	static const struct step steps[STEPS] = {
		{ 1, "48 02", NULL, "04/44/00" },
		{ 1, "48 82", NULL, "04/44/00" },
		{ 1, "04", NULL, "04/44/00" },
		{ 1, "28 00 00*6 01", NULL, "good", "01 01" },
	};

	t_disk_start_in(T_THIN, dir);
	journal_fails(T_JOURNAL_REFUSES);
	run_steps(steps);
	t_disk_stop();
}

/* ---- what the administrator is told ---- */

static void fail_next(int err)
{
	t_store.fail_next = 1;
	t_store.fail_with = err;
}

/* A flush that could not reach the store is not sticky. */
T_TEST(volume_that_cannot_flush_is_not_ready)
{
	static const struct step away = { 1, "35", NULL, "03/0c/00" };
	static const struct step fails = { 1, "35", NULL, "03/0c/00" };
	static const struct step flush = { 1, "35" };
	static const struct step read = READ(1, "good");
	const struct volume *vol;
	struct volume_status_facts first, later;

	t_disk_start(T_THIN);
	vol = t_disk.luns.vol[0];
	expect_status(VOLUME_STATUS_READY, 0);
	fail_next(-ENOTCONN);
	run_step(&away);
	expect_status(VOLUME_STATUS_CANNOT_FLUSH, -ENOTCONN);
	run_step(&flush);
	expect_status(VOLUME_STATUS_READY, 0);
	fail_next(-ENOTCONN);
	run_step(&away);
	volume_status_read(vol, &first);
	fail_next(-EIO);
	run_step(&fails);
	expect_status(VOLUME_STATUS_CANNOT_FLUSH, -EIO);
	run_step(&read);
	run_step(&fails);
	volume_status_read(vol, &later);
	assert_int_equal(later.since_ms, first.since_ms);
	assert_int_equal(vol->dev.errors[RBP_FLUSH], 4);
	t_disk_stop();
}

T_TEST(volume_with_a_bad_block_is_ready)
{
	static const struct step fails = READ(1, "03/11/00 info 0");

	t_disk_start(T_THIN);
	fail_next(-EIO);
	run_step(&fails);
	expect_status(VOLUME_STATUS_READY, 0);
	assert_int_equal(t_disk.luns.vol[0]->dev.errors[RBP_READ], 1);
	assert_int_equal(t_disk.luns.vol[0]->dev.errors[RBP_FLUSH], 0);
	t_disk_stop();
}

T_TEST(status_follows_the_medium)
{
	static const struct step eject = { 1, "1b 00 00 00 02" };
	static const struct step load = { 1, "1b 00 00 00 03" };

	t_disk_start(T_REMOVABLE);
	run_step(&eject);
	expect_status(VOLUME_STATUS_EJECTED, 0);
	run_step(&load);
	expect_status(VOLUME_STATUS_READY, 0);
	t_disk_stop();
}

T_TEST(status_follows_a_job_and_the_paths)
{
	static const struct step fails = { 1, "48 22", NULL, "03/31/03" };
	static const struct step leave = { 1, "48 1f" };

	t_disk_start(T_THIN);
	fail_next(-EIO);
	run_step(&fails);
	expect_status(VOLUME_STATUS_SANITIZE_FAILED, 0);
	run_step(&leave);
	expect_status(VOLUME_STATUS_READY, 0);
	t_disk_stop();
	t_disk.paths =
		(struct backend_paths){ .cnt = 3, .own = 2, .active = 1 };
	t_disk_start(T_THIN);
	expect_status(VOLUME_STATUS_STANDBY, 0);
	t_disk_stop();
}

/* ---- the store of a state file ---- */

#define HEAD   "rdma-target state 1\n"
#define HEAD_2 "rdma-target state 2\n"
#define STORE  "store size=8388608 block-size=512 lasting=test here=\n"
#define MODES  "modes wce=1 d-sense=1 swp=0\n"
#define FORMAT "format failed\n"

static const struct whose_row {
	const char *name;
	const char *text;
	const char *complaint; /* NULL: accepted */
} whose_rows[] = {
	{ "its own", HEAD_2 STORE FORMAT "end\n" },
	{ "it has grown", HEAD_2
	  "store size=512 block-size=512 lasting=test here=\n" MODES "end\n" },
	{ "it has grown in the middle of a job", HEAD_2
	  "store size=512 block-size=512 lasting=test here=\n" FORMAT "end\n" },
	{ "it has shrunk",
	  HEAD_2 "store size=8389120 block-size=512 lasting=test here=\n" MODES
		 "end\n",
	  "for 8389120 bytes, this store has 8388608" },
	{ "other blocks",
	  HEAD_2 "store size=8388608 block-size=4096 lasting=test here=\n" MODES
		 "end\n",
	  "for blocks of 4096 bytes, these have 512" },
	{ "another store's",
	  HEAD_2
	  "store size=8388608 block-size=512 lasting=wwid:x here=\n" MODES
	  "end\n",
	  "written for wwid:x, this is test" },
	{ "another store's, which holds nothing",
	  HEAD_2 "store size=512 block-size=512 lasting=wwid:x here=\nend\n" },
	{ "no mark, of its size", HEAD_2
	  "store size=8388608 block-size=512 lasting= here=\n" MODES "end\n" },
	{ "no mark, and larger",
	  HEAD_2 "store size=512 block-size=512 lasting= here=\n" MODES "end\n",
	  "for 512 bytes" },
	{ "no mark, in the middle of a job",
	  HEAD_2 "store size=8388608 block-size=512 lasting= here=\n" FORMAT
		 "end\n",
	  "nothing tells whether that began on this store" },
	{ "version 1", HEAD MODES "end\n" },
	{ "version 1, in the middle of a job", HEAD FORMAT "end\n",
	  "nothing tells whether that began on this store" },
};

/* A state file that may belong to another store is refused, and the line says
 * why. */
T_ROWS(state_is_for_its_store_only, whose_rows)
{
	const struct whose_row *row = *state;
	struct volume *vol;
	struct error e = { 0 };
	char path[160];
	FILE *f;
	int err;

	t_disk_start_in(T_THIN, dir);
	vol = t_disk.luns.vol[0];
	snprintf(path, sizeof(path), "%s", vol->journal.path);
	disk_journal_close(&vol->journal);
	unit_state_fini(&vol->state);
	unit_state_init(&vol->state);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(row->text, f);
	fclose(f);
	err = unit_state_load(vol, dir, &e);
	assert_int_equal(err, row->complaint ? -ESTALE : 0);
	if (err && (!strstr(e.text, row->complaint) || !strstr(e.text, path) ||
		    !strstr(e.text, "remove that file")))
		fail_msg("the message is: %s", e.text);
	assert_int_equal(volume_state(vol), !err && strstr(row->text, FORMAT)
						    ? VOLUME_FORMAT_FAILED
						    : VOLUME_READY);
	t_disk_stop();
}

/* ---- a device without an identifier of its own ---- */

T_TEST(nothing_is_kept_for_what_cannot_be_trusted)
{
	static const struct step steps[STEPS] = {
		{ 1, "04", NULL, "05/20/00" },
		{ 1, "48 02", NULL, "05/20/00" },
		{ 1, "48 81 00*5 00 05", "01 00 00 01 f0", "05/20/00" },
		{ 1, "48 1f", NULL, "05/20/00" },
		{ 1, "a3 0c 01 04 00 00 00 00 00 fc", NULL, NULL, "00 01" },
		{ 1, "a3 0c 02 48 00 01 00 00 00 fc", NULL, NULL, "00 01" },
		{ 1, "15 11 00 00 18", "00*4 08 12 00*18", "05/24/00 CDB 1.0" },
		{ 1, "5f 00 00 00 00 00 00 00 18", "00*15 01 00*4 01 00*3",
		  "05/26/00 data 20.0" },
		TUR(1, "good"),
	};
	struct volume *vol;
	struct error e = { 0 };
	char *path;
	FILE *f;

	t_disk_start_in(T_THIN, dir);
	vol = t_disk.luns.vol[0];
	path = strdup(vol->journal.path);
	disk_journal_close(&vol->journal);
	unit_state_fini(&vol->state);
	unit_state_init(&vol->state);
	vol->info.mode_save = false;
	vol->identity = VOLUME_BY_PATH;
	assert_int_equal(unit_state_load(vol, dir, &e), 0);
	run_steps(steps);
	/* and a file that lies there is not taken for its own */
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(HEAD_2 STORE FORMAT "end\n", f);
	fclose(f);
	assert_int_equal(unit_state_load(vol, dir, &e), -ESTALE);
	assert_non_null(strstr(e.text, path));
	assert_non_null(strstr(e.text, "serial="));
	assert_int_equal(volume_state(vol), VOLUME_READY);
	free(path);
	t_disk_stop();
}

/* ---- several targets for one volume ---- */

#define REPORT_GROUPS "a3 0a 00*4 00 00 02 00"
#define IN_STANDBY    "02/04/0b"

/* The volume of target 2 of 3. Target @active serves. */
static void start_group(unsigned int active)
{
	t_disk.paths =
		(struct backend_paths){ .cnt = 3, .own = 2, .active = active };
	t_disk_start(T_THIN);
}

T_TEST(standby_answers_what_it_may)
{
	static const struct step steps[STEPS] = {
		{ 1, "00", NULL, IN_STANDBY },
		{ 1, "28 00 00*6 01", NULL, IN_STANDBY },
		{ 1, "2a 00 00*6 01", "aa*512", IN_STANDBY },
		{ 1, "35", NULL, IN_STANDBY },
		{ 1, "16", NULL, IN_STANDBY },
		{ 1, "1b 00 00 00 01", NULL, IN_STANDBY },
		{ 1, "42 00*6 00 18", "00 16 00 10 00*20", IN_STANDBY },
		{ 1, "12 00 00 00 24" },
		{ 1, "03 00 00 00 12" },
		{ 1, "a0 00*8 fc" },
		{ 1, "25" },
		{ 1, "9e 10 00*11 20" },
		{ 1, "1a 00 08 00 24" },
		{ 1, "5e 00*7 fc", NULL, "05/20/00" },
		{ 1, REPORT_GROUPS, NULL, NULL,
		  "00 00 00 24"
		  "00 05 00 01 00 00 00 01 00 00 00 01"
		  "02 05 00 02 00 00 00 01 00 00 00 02"
		  "02 05 00 03 00 00 00 01 00 00 00 03" },
	};

	start_group(1);
	run_steps(steps);
	assert_string_equal(t_store.log, "");
	t_disk_stop();
}

/* The port and its group have the number of the target. */
T_TEST(identification_names_the_group)
{
	static const struct step step = { 1, "12 01 83 00 fc" };
	struct t_command c;
	bool has_port = false;
	bool has_group = false;

	start_group(2);
	run_step(&step);
	t_command_run(&c, step.cdb, 0, NULL, 0, 252);
	for (uint32_t i = 4; i + 8 <= c.task.data_in_cnt;
	     i += 4u + c.task.buf[i + 3]) {
		const uint8_t *d = c.task.buf + i;

		has_port |= (d[1] & 0x0f) == 4 && d[7] == 2;
		has_group |= (d[1] & 0x0f) == 5 && d[7] == 2;
	}
	assert_true(has_port);
	assert_true(has_group);
	t_command_free(&c);
	t_disk_stop();
}

T_TEST(set_groups_takes_over_and_lets_go)
{
	static const struct step take[STEPS] = {
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 00 00 00 02" },
		{ 1, "00" },
		{ 1, "28 00 00*6 01" },
		{ 1, REPORT_GROUPS, NULL, NULL,
		  "00 00 00 24"
		  "02 05 00 01 00 00 00 01 00 00 00 01"
		  "00 05 00 02 00 00 00 01 00 00 00 02" },
		/* all groups, as sg_stpg sends them */
		{ 1, "a4 0a 00*4 00 00 00 0c", "00*4 02 00 00 01 00 00 00 02" },
		{ 1, "00" },
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 02 00 00 02" },
		{ 1, "00", NULL, IN_STANDBY },
		{ 1, REPORT_GROUPS, NULL, NULL,
		  "00 00 00 24"
		  "02 05 00 01 00 00 00 01 00 00 00 01"
		  "02 05 00 02 00 00 00 01 00 00 00 02" },
	};

	start_group(1);
	run_steps(take);
	t_disk_stop();
}

T_TEST(set_groups_is_refused)
{
	static const struct step steps[STEPS] = {
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 00 00 00 03",
		  "05/26/00 data 4.3" },
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 01 00 00 02",
		  "05/26/00 data 4.3" },
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 00 00 00 04",
		  "05/26/00 data 6.7" },
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 00 00 00 00",
		  "05/26/00 data 6.7" },
		{ 1, "00", NULL, IN_STANDBY },
	};
	static const struct step fails[STEPS] = {
		{ 1, "a4 0a 00*4 00 00 00 08", "00*4 00 00 00 02", "04/67/0a" },
		{ 1, "00", NULL, IN_STANDBY },
	};

	start_group(1);
	run_steps(steps);
	t_store.path_error = -ETIMEDOUT;
	run_steps(fails);
	t_disk_stop();
}

/* Acts like another thread that is faster. */
static void take_over_and_look(void)
{
	t_store.paths.active = 2;
	volume_look_at_paths(t_disk.luns.vol[0]);
}

T_TEST(late_look_at_paths_does_not_stay)
{
	static const struct step steps[STEPS] = {
		{ 1, "28 00 00*6 01" },
	};

	start_group(1);
	t_store.paths_read = take_over_and_look;
	volume_look_at_paths(t_disk.luns.vol[0]);
	run_steps(steps);
	t_disk_stop();
}

/* I/O that another target has fenced off was never done by this one. */
T_TEST(fenced_io_is_not_ready)
{
	static const struct step steps[STEPS] = {
		{ 1, "2a 00 00*6 01", "aa*512", IN_STANDBY },
	};

	start_group(2);
	t_store.fail_at = 1;
	t_store.fail_with = -ESHUTDOWN;
	run_steps(steps);
	t_disk_stop();
}

/* Another target that takes over would leave the job unfinished. */
T_TEST(jobs_are_for_one_target)
{
	static const struct step steps[STEPS] = {
		{ 1, "04", NULL, "05/20/00" },
		{ 1, "48 02", NULL, "05/20/00" },
		{ 1, "28 00 00*6 01" },
	};

	start_group(2);
	run_steps(steps);
	t_disk_stop();
}

/* An initiator that is shut out here could write through the other target. */
T_TEST(reservations_are_for_one_target)
{
	static const struct step steps[STEPS] = {
		{ 1, "5e 00 00*5 08 00", NULL, "05/20/00" },
		{ 1, "16", NULL, "05/20/00" },
		{ 1, "17", NULL, "05/20/00" },
		{ 1, "28 00 00*6 01" },
	};

	start_group(2);
	run_steps(steps);
	t_disk_stop();
}

/* The other targets would neither protect the medium nor write through. */
T_TEST(write_protection_and_wce_are_for_one_target)
{
	static const struct step alone[STEPS] = {
		{ 1, "1a 08 48 00 18", NULL, NULL, "17 00 10 00 08 12 04" },
		{ 1, "1a 08 4a 00 10", NULL, NULL,
		  "0f 00 10 00 0a 0a 04 00 08" },
	};
	static const struct step shared[STEPS] = {
		{ 1, "1a 08 48 00 18", NULL, NULL, "17 00 10 00 08 12 00" },
		{ 1, "1a 08 4a 00 10", NULL, NULL,
		  "0f 00 10 00 0a 0a 04 00 00" },
		{ 1, "15 10 00 00 10", "00*4 0a 0a 22 10 08 40 00*6",
		  "05/26/00 data 8.3" },
		WRITE(1, "good"),
	};

	t_disk_start(T_THIN);
	run_steps(alone);
	t_disk_stop();
	start_group(2);
	run_steps(shared);
	t_disk_stop();
}

T_TEST(saved_write_protection_is_not_dropped_among_targets)
{
	static const struct step protect[STEPS] = {
		{ 1, "15 11 00 00 10", "00*4 0a 0a 22 10 08 40 00*6" },
	};
	struct error e = { 0 };

	t_disk_start_in(T_THIN, dir);
	run_steps(protect);
	t_disk_stop();
	start_group(2);
	assert_int_equal(unit_state_load(t_disk.luns.vol[0], dir, &e), -ESTALE);
	assert_non_null(strstr(e.text, "SWP"));
	t_disk_stop();
}

int main(void)
{
	log_level = LOG_ERROR;
	return t_run();
}
