/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of a state file: what is read, what is written, and what is refused. */
#include <errno.h>
#include <string.h>

#include "target/scsi/state_file.h"
#include "tests/lib/t_disk.h"
#include "tests/lib/t_table.h"

#define HEAD   "rdma-target state 1\n"
#define HEAD_2 "rdma-target state 2\n"
#define STORE  "store size=8388608 block-size=512 lasting=test here=\n"
#define PORT_A "0000000000000000000000000000000a"
#define PORT_B "0000000000000000000000000000000b"
/* as many digits as the longest pattern has */
#define PORT_A_16                                                             \
	PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A \
		PORT_A PORT_A PORT_A PORT_A PORT_A PORT_A
#define PORT_A_256                                                            \
	PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 \
		PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16 PORT_A_16   \
			PORT_A_16 PORT_A_16 PORT_A_16
#define REG_A "registration 0000000000000001 " PORT_A "\n"
#define REG_OF(digit) \
	"registration 0000000000000001 " PORT_A " of=000000000000000" digit "\n"
#define REG_B "registration 0000000000000002 " PORT_B " all-ports\n"

static const struct file_row {
	const char *name;
	const char *text;
	const char *msg; /* NULL: accepted, and saved again unchanged */
} file_rows[] = {
	{ "empty state", HEAD "end\n" },
	{ "modes", HEAD "modes wce=1 d-sense=0 swp=1\nend\n" },
	{ "registrations", HEAD REG_A REG_B "end\n" },
	{ "reservation", HEAD REG_A REG_B "reservation 5 " PORT_B "\nend\n" },
	{ "registrations of principals",
	  HEAD REG_OF("1") REG_OF("2") "reservation 5 " PORT_A
				       " of=0000000000000002\nend\n" },
	{ "a principal that registers twice",
	  HEAD REG_OF("1") REG_OF("1") "end\n",
	  "line 3: an initiator port is registered twice" },
	{ "a principal that is not registered",
	  HEAD REG_OF("1") "reservation 5 " PORT_A
			   " of=0000000000000002\nend\n",
	  "line 3: the holder is not registered" },
	{ "registrations that another has made",
	  HEAD "registration 0000000000000001 " PORT_A " by=0000000000000001\n"
	       "registration 0000000000000001 " PORT_B
	       " of=0000000000000002 by=0000000000000000 all-ports\nend\n" },
	{ "half a registrar",
	  HEAD "registration 0000000000000001 " PORT_A " by=01\nend\n",
	  "line 2: not a registration" },
	{ "half a principal",
	  HEAD "registration 0000000000000001 " PORT_A " of=01\nend\n",
	  "line 2: not a registration" },
	{ "reservation of all", HEAD REG_A "reservation 7\nend\n" },
	{ "a store", HEAD_2 STORE "end\n" },
	{ "a store, and all there can be",
	  HEAD_2 STORE "modes wce=1 d-sense=0 swp=1\n" REG_A
		       "reservation 7\nformat failed\nend\n" },
	{ "a store that is attached somewhere",
	  HEAD_2 "store size=512 block-size=512 lasting= here=a-b/7/\nend\n" },
	{ "no store", HEAD_2 "end\n", "line 2: not a store" },
	{ "nothing behind the version", HEAD_2, "line 2: cut off" },
	{ "a store of no size",
	  HEAD_2 "store size=0 block-size=512 lasting= here=\nend\n",
	  "line 2: not a store" },
	{ "a store larger than any",
	  HEAD_2 "store size=9223372036854775808 block-size=512 lasting= "
		 "here=\nend\n",
	  "line 2: not a store" },
	{ "a store with a sign",
	  HEAD_2 "store size=-1 block-size=512 lasting= here=\nend\n",
	  "line 2: not a store" },
	{ "a store without its block size",
	  HEAD_2 "store size=512 lasting= here=\nend\n",
	  "line 2: not a store" },
	{ "a store of many words",
	  HEAD_2 "store size=512 block-size=512 lasting=a b here=\nend\n",
	  "line 2: not a store" },
	{ "a store with too long a mark",
	  HEAD_2 "store size=512 block-size=512 lasting=" PORT_A_16
		 " here=\nend\n",
	  "line 2: not a store" },
	{ "two stores", HEAD_2 STORE STORE "end\n", "line 3: unknown" },
	{ "a store in version 1", HEAD STORE "end\n", "line 2: unknown" },
	{ "nothing", "", "line 1: not 'rdma-target state 2'" },
	{ "another version", "rdma-target state 3\nend\n",
	  "line 1: not 'rdma-target state 2'" },
	{ "no end", HEAD REG_A, "line 3: cut off, or too long" },
	{ "a line without its end", HEAD "end",
	  "line 2: cut off, or too long" },
	{ "something behind the end", HEAD "end\n\n",
	  "line 2: something behind the end" },
	{ "an unknown line", HEAD "hello\nend\n", "line 2: unknown" },
	{ "modes twice",
	  HEAD "modes wce=1 d-sense=0 swp=1\n"
	       "modes wce=1 d-sense=0 swp=1\nend\n",
	  "line 3: not mode values" },
	{ "modes that are not bits", HEAD "modes wce=2 d-sense=0 swp=1\nend\n",
	  "line 2: not mode values" },
	{ "key 0", HEAD "registration 0000000000000000 " PORT_A "\nend\n",
	  "line 2: not a registration" },
	{ "a short key", HEAD "registration 01 " PORT_A "\nend\n",
	  "line 2: not a registration" },
	{ "a port that is too long",
	  HEAD "registration 0000000000000001 " PORT_A "0\nend\n",
	  "line 2: not a registration" },
	{ "a port twice", HEAD REG_A REG_A "end\n",
	  "line 3: an initiator port is registered twice" },
	{ "a holder who is not registered",
	  HEAD REG_A "reservation 1 " PORT_B "\nend\n",
	  "line 3: the holder is not registered" },
	{ "a reservation without registrations", HEAD "reservation 7\nend\n",
	  "line 2: not a reservation" },
	{ "a type that is none", HEAD REG_A "reservation 2 " PORT_A "\nend\n",
	  "line 3: not a reservation" },
	{ "a type that is missing", HEAD REG_A "reservation \nend\n",
	  "line 3: not a reservation" },
	{ "two reservations", HEAD REG_A "reservation 7\nreservation 7\nend\n",
	  "line 4: not a reservation" },
	{ "a registration behind the reservation",
	  HEAD REG_A "reservation 7\n" REG_B "end\n",
	  "line 4: a registration behind the reservation" },
	{ "a long line", HEAD PORT_A_256 PORT_A_256 "\nend\n",
	  "line 2: cut off, or too long" },
	{ "a format that failed", HEAD "format failed\nend\n" },
	{ "a sanitize that failed", HEAD "sanitize failed lenient=1\nend\n" },
	{ "all of it", HEAD "modes wce=1 d-sense=0 swp=1\n" REG_A
			    "reservation 7\nformat failed\nend\n" },
	{ "two jobs", HEAD "format failed\nsanitize failed lenient=1\nend\n",
	  "line 3: a second job" },
	{ "two formats", HEAD "format failed\nformat failed\nend\n",
	  "line 3: a second job" },
	{ "a format that runs", HEAD "format running\nend\n",
	  "line 2: not a FORMAT UNIT" },
	{ "a sanitize of no kind", HEAD "sanitize done\nend\n",
	  "line 2: not a SANITIZE" },
	{ "a sanitize without its mode", HEAD "sanitize failed\nend\n",
	  "line 2: not a SANITIZE" },
	{ "a sanitize that failed, and more",
	  HEAD "sanitize failed lenient=1 overwrite=1\nend\n",
	  "line 2: not a SANITIZE" },
	{ "a sanitize that ran, without its mode",
	  HEAD "sanitize running overwrite=1\nend\n",
	  "line 2: not a SANITIZE" },
};

T_ROWS(state_file, file_rows)
{
	const struct file_row *row = *state;
	size_t len = strlen(row->text);
	char *exact = malloc(len ? len : 1);
	char buf[STATE_FILE_MAX];
	struct state_file file;
	struct error e = { 0 };
	int err;

	memcpy(exact, row->text, len);
	err = state_file_parse(exact, len, &file, &e);
	assert_string_equal(e.text, row->msg ? row->msg : "");
	assert_int_equal(err, row->msg ? -EBADMSG : 0);
	if (!err) {
		assert_int_equal(state_file_format(&file, buf, sizeof(buf)),
				 len);
		assert_memory_equal(buf, exact, len);
	}
	free(exact);
}

/* The line of an older version said what was left to do. */
T_TEST(sanitize_that_ran_counts_as_failed)
{
	static const char text[] =
		HEAD "sanitize running lenient=1 overwrite=31 invert=1 scrub=0 "
		     "erase=0 " PORT_A_256 "\nend\n";
	static const char now[] = HEAD "sanitize failed lenient=1\nend\n";
	char buf[STATE_FILE_MAX];
	struct state_file file;
	struct error e = { 0 };

	assert_int_equal(state_file_parse(text, strlen(text), &file, &e), 0);
	state_file_format(&file, buf, sizeof(buf));
	assert_string_equal(buf, now);
}

T_TEST(full_state_fits_and_one_more_is_refused)
{
	struct state_file file = { .has_modes = true };
	char *buf = malloc(STATE_FILE_MAX);
	struct state_file again;
	struct error e = { 0 };
	size_t len;

	file.store.size = INT64_MAX;
	file.store.block_size = UINT32_MAX;
	memset(file.store.mark.lasting, 'x', STORE_TEXT_MAX - 1);
	memset(file.store.mark.here, 'x', STORE_HERE_MAX - 1);
	file.pr.aptpl = true;
	file.pr.type = SCSI_PR_WRITE_EXCLUSIVE;
	file.pr.holder = SCSI_PR_MAX - 1;
	file.pr.cnt = SCSI_PR_MAX;
	for (unsigned int i = 0; i < SCSI_PR_MAX; i++)
		file.pr.regs[i] = (struct scsi_pr_registration){
			.key = UINT64_MAX,
			.nexus = { t_port_id(i), SCSI_PR_TARGET_PORT,
				   UINT64_MAX },
			.all_ports = true,
		};
	file.job = (struct state_job){ .state = VOLUME_SANITIZE_FAILED };
	len = state_file_format(&file, buf, STATE_FILE_MAX);
	assert_true(len < STATE_FILE_MAX - 1);
	assert_int_equal(state_file_parse(buf, len, &again, &e), 0);
	assert_memory_equal(&again.store, &file.store, sizeof(file.store));
	assert_int_equal(again.pr.cnt, SCSI_PR_MAX);
	assert_int_equal(again.pr.holder, SCSI_PR_MAX - 1);
	strcpy(strstr(buf, "reservation"), REG_A "end\n");
	assert_int_equal(state_file_parse(buf, strlen(buf), &again, &e),
			 -EBADMSG);
	free(buf);
}
