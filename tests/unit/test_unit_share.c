/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations that several targets share: the bytes of the notes,
 * and a unit of target 1 of 2. The store acts as target 2.
 */
#include <errno.h>

#include "target/scsi/unit_share.h"
#include "tests/lib/t_bytes.h"
#include "tests/lib/t_disk.h"

#define REGISTER 0u
#define RESERVE	 1u
#define RELEASE	 2u
#define CLEAR	 3u
#define PREEMPT	 4u
#define WRITE	 "2a 00 00*6 01"
#define WE	 SCSI_PR_WRITE_EXCLUSIVE
#define WERO	 SCSI_PR_WRITE_EXCLUSIVE_RO

/* ---- the bytes ---- */

static struct scsi_pr_nexus nexus_of(unsigned int port, uint16_t target_port)
{
	return (struct scsi_pr_nexus){ t_port_id(port), target_port };
}

static void add_registration(struct pr_notes *notes, unsigned int port,
			     uint16_t target_port)
{
	notes->pr.regs[notes->pr.cnt++] = (struct scsi_pr_registration){
		.nexus = nexus_of(port, target_port),
		.key = port,
	};
}

static struct scsi_pr_effects effect_on(unsigned int port, uint8_t news)
{
	return (struct scsi_pr_effects){
		.cnt = 1,
		.to = { { nexus_of(port, 1), news } },
	};
}

static void fill_notes(struct pr_notes *notes)
{
	struct scsi_pr_effects effects;

	memset(notes, 0, sizeof(*notes));
	for (unsigned int i = 0; i < SCSI_PR_MAX; i++)
		add_registration(notes, 1 + i, 2);
	notes->pr.type = WE;
	notes->pr.holder = SCSI_PR_MAX - 1;
	notes->pr.generation = UINT32_MAX;
	notes->pr.aptpl = true;
	for (unsigned int i = 0; i < PR_NOTES_NEWS_MAX; i++) {
		effects = effect_on(1 + i, SCSI_PR_NEWS_PREEMPTED);
		pr_notes_add(notes, 1 + i, &effects);
	}
}

T_TEST(full_notes_are_read_as_written)
{
	static struct pr_notes notes, again;
	static uint8_t buf[PR_NOTES_MAX], other[PR_NOTES_MAX];
	size_t len;

	fill_notes(&notes);
	len = pr_notes_encode(&notes, buf);
	assert_int_equal(len, PR_NOTES_MAX);
	assert_int_equal(pr_notes_decode(buf, len, &again), 0);
	assert_int_equal(again.pr.cnt, SCSI_PR_MAX);
	assert_int_equal(again.news_cnt, PR_NOTES_NEWS_MAX);
	assert_int_equal(pr_notes_encode(&again, other), len);
	assert_memory_equal(buf, other, len);
}

T_TEST(no_bytes_are_no_reservations)
{
	static struct pr_notes notes;

	fill_notes(&notes);
	assert_int_equal(pr_notes_decode(NULL, 0, &notes), 0);
	assert_int_equal(notes.pr.cnt, 0);
	assert_int_equal(notes.news_cnt, 0);
}

/* Notes have two registrations, of which the first holds a reservation, and one
 * piece of news. Each row changes one byte. */
static const struct damage {
	const char *name;
	size_t at;
	uint8_t byte;
	int cut; /* bytes that are cut off at the end */
} damages[] = {
	{ "another magic", 0, 'X' },
	{ "another format", 7, 2 },
	{ "APTPL that is neither", 12, 2 },
	{ "no such type", 13, 2 },
	{ "a holder that there is not", 15, 2 },
	{ "no type, and a holder", 13, 0 },
	{ "more registrations than bytes", 17, 3 },
	{ "fewer registrations than bytes", 17, 1 },
	{ "more registrations than there can be", 16, 0xff },
	{ "more news than bytes", 19, 2 },
	{ "reserved bytes of the header", 20, 1 },
	{ "a registration without a key", 32 + 7, 0 },
	{ "a target port 0", 32 + 25, 0 },
	{ "a flag that there is not", 32 + 26, 2 },
	{ "reserved bytes of a registration", 32 + 31, 1 },
	{ "a nexus twice", 64 + 23, 1 },
	{ "news of version 0", 96 + 7, 0 },
	{ "news that there are not", 96 + 26, 0x10 },
	{ "no news", 96 + 26, 0 },
	{ "a byte short", 0, 'R', 1 },
	{ "a header short", 0, 'R', 97 },
};

T_ROWS(damaged_notes_are_refused, damages)
{
	const struct damage *d = *state;
	static struct pr_notes notes, ret;
	struct scsi_pr_effects effects = effect_on(2, SCSI_PR_NEWS_RELEASED);
	uint8_t buf[4 * PR_NOTES_ENTRY_LEN];
	uint8_t *exact;
	size_t len;

	memset(&notes, 0, sizeof(notes));
	add_registration(&notes, 1, 1);
	add_registration(&notes, 2, 1);
	notes.pr.type = WE;
	/* "no type, and a holder" */
	notes.pr.holder = d->at == 13 && !d->byte;
	pr_notes_add(&notes, 1, &effects);
	len = pr_notes_encode(&notes, buf);
	assert_int_equal(len, sizeof(buf));
	assert_int_equal(pr_notes_decode(buf, len, &ret), 0);
	buf[d->at] = d->byte;
	exact = t_copy(buf, len - (size_t)d->cut);
	ret.news_cnt = 77;
	assert_int_equal(pr_notes_decode(exact, len - (size_t)d->cut, &ret),
			 -EBADMSG);
	assert_int_equal(ret.news_cnt, 77);
	free(exact);
}

T_TEST(newer_news_replace_older_ones)
{
	static struct pr_notes notes;
	struct scsi_pr_effects released = effect_on(1, SCSI_PR_NEWS_RELEASED);
	struct scsi_pr_effects aborted =
		effect_on(1, SCSI_PR_NEWS_UNREGISTERED | SCSI_PR_NEWS_ABORT);

	memset(&notes, 0, sizeof(notes));
	pr_notes_add(&notes, 1, &aborted);
	/* A target that does not know news 1 must still get it. */
	pr_notes_add(&notes, 2, &released);
	assert_int_equal(notes.news_cnt, 2);
	pr_notes_add(&notes, 3, &released);
	assert_int_equal(notes.news_cnt, 2);
	pr_notes_add(&notes, 4, &aborted);
	assert_int_equal(notes.news_cnt, 2);
	assert_int_equal(notes.news[0].version, 3);
	assert_int_equal(notes.news[1].version, 4);
	assert_int_equal(notes.forgotten, 0);
}

T_TEST(oldest_news_are_forgotten)
{
	static struct pr_notes notes;
	struct scsi_pr_effects effects =
		effect_on(1000, SCSI_PR_NEWS_PREEMPTED);

	fill_notes(&notes);
	pr_notes_add(&notes, 1000, &effects);
	assert_int_equal(notes.news_cnt, PR_NOTES_NEWS_MAX);
	assert_int_equal(notes.forgotten, 1);
	assert_int_equal(notes.news[0].version, 2);
}

/* ---- one unit ---- */

static struct volume *unit(void)
{
	return t_disk.luns.vol[0];
}

static void start_unit(unsigned int active)
{
	t_disk.paths =
		(struct backend_paths){ .cnt = 2, .own = 1, .active = active };
	t_disk.has_notes = true;
	t_disk_start(T_THIN);
}

static void send_cdb(unsigned int who, const char *cdb, const char *out,
		     const char *outcome)
{
	struct t_bytes b = t_bytes(out);
	struct t_command c;

	t_disk.from = t_nexus(who);
	t_command_run(&c, cdb, 0, b.p, (uint32_t)b.len, 512);
	assert_string_equal(t_outcome(&c.task), outcome);
	t_command_free(&c);
	free(b.p);
}

static void reserve_out(unsigned int who, unsigned int action,
			unsigned int type, unsigned int key,
			unsigned int action_key, const char *outcome)
{
	char cdb[64], list[64];

	snprintf(cdb, sizeof(cdb), "5f %02x %02x 00*5 18", action, type);
	snprintf(list, sizeof(list), "00*7 %02x 00*7 %02x 00*8", key,
		 action_key);
	send_cdb(who, cdb, list, outcome);
}

/* Target 2 runs @act for its nexus of initiator @who. */
static int other_does(unsigned int who, enum scsi_pr_out action, uint8_t type,
		      uint64_t key, uint64_t action_key)
{
	static struct pr_notes notes;
	static uint8_t buf[PR_NOTES_MAX];
	const struct scsi_pr_request req = { .action = action,
					     .type = type,
					     .key = key,
					     .action_key = action_key,
					     .target_ports = 2 };
	struct scsi_pr_nexus from = nexus_of(who, 2);
	struct scsi_pr_effects effects;
	struct scsi_sense sense;

	assert_int_equal(
		pr_notes_decode(t_store.notes, t_store.notes_len, &notes), 0);
	assert_int_equal(
		scsi_pr_execute(&notes.pr, &from, &req, &effects, &sense), 0);
	pr_notes_add(&notes, t_store.notes_version + 1, &effects);
	return t_store_put_notes(buf, pr_notes_encode(&notes, buf));
}

static const struct scsi_pr *now(void)
{
	return &unit()->state.pr;
}

T_TEST(others_reserve)
{
	start_unit(1);
	send_cdb(1, WRITE, "aa*512", "good");
	assert_int_equal(other_does(2, SCSI_PR_REGISTER, 0, 0, 2), 0);
	assert_int_equal(other_does(2, SCSI_PR_RESERVE, WE, 2, 0), 0);
	send_cdb(1, WRITE, "aa*512", "conflict");
	/* The holder is a nexus of the other target. */
	send_cdb(2, WRITE, "aa*512", "conflict");
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(1, RESERVE, WE, 1, 0, "conflict");
	assert_int_equal(other_does(2, SCSI_PR_RELEASE, WE, 2, 0), 0);
	send_cdb(1, WRITE, "aa*512", "good");
	t_disk_stop();
}

T_TEST(news_of_others_are_told_once)
{
	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(2, REGISTER, 0, 0, 2, "good");
	reserve_out(2, RESERVE, WERO, 2, 0, "good");
	assert_int_equal(other_does(3, SCSI_PR_REGISTER, 0, 0, 3), 0);
	assert_int_equal(other_does(3, SCSI_PR_PREEMPT, WE, 3, 2), 0);
	send_cdb(2, "00", "", "06/2a/05");
	send_cdb(2, "00", "", "good");
	send_cdb(1, "00", "", "06/2a/04");
	send_cdb(1, "00", "", "good");
	/* Each change repeats older news. */
	assert_int_equal(other_does(4, SCSI_PR_REGISTER, 0, 0, 4), 0);
	send_cdb(1, "00", "", "good");
	assert_int_equal(other_does(3, SCSI_PR_CLEAR, 0, 3, 0), 0);
	send_cdb(1, "00", "", "06/2a/03");
	send_cdb(2, "00", "", "good");
	t_disk_stop();
}

T_TEST(who_asks_is_not_told)
{
	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(2, REGISTER, 0, 0, 2, "good");
	reserve_out(1, PREEMPT, WE, 1, 2, "good");
	send_cdb(1, "00", "", "good");
	send_cdb(2, "00", "", "06/2a/05");
	t_disk_stop();
}

T_TEST(forgotten_news_are_told_to_all)
{
	static struct pr_notes notes;
	static uint8_t buf[PR_NOTES_MAX];

	start_unit(1);
	memset(&notes, 0, sizeof(notes));
	notes.forgotten = 1;
	assert_int_equal(t_store_put_notes(buf, pr_notes_encode(&notes, buf)),
			 0);
	send_cdb(3, "00", "", "06/2a/03");
	assert_int_equal(t_store_put_notes(buf, pr_notes_encode(&notes, buf)),
			 0);
	send_cdb(3, "00", "", "good");
	t_disk_stop();
}

static void other_registers(void)
{
	assert_int_equal(other_does(2, SCSI_PR_REGISTER, 0, 0, 2), 0);
}

static void other_reserves(void)
{
	assert_int_equal(other_does(2, SCSI_PR_RESERVE, WE, 2, 0), 0);
}

/* Neither change is lost. */
T_TEST(change_of_another_in_between)
{
	start_unit(1);
	t_store.notes_put = other_registers;
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	assert_int_equal(now()->cnt, 2);
	assert_int_equal(now()->generation, 2);
	/* The command is checked again against the new state. */
	t_store.notes_put = other_reserves;
	reserve_out(1, RESERVE, WERO, 1, 0, "conflict");
	assert_int_equal(now()->type, WE);
	t_disk_stop();
}

/* As when somebody removes them while targets run. */
T_TEST(notes_that_are_lost_are_an_error)
{
	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	t_store.notes_version = 0;
	t_store.notes_len = 0;
	reserve_out(1, RESERVE, WE, 1, 0, "04/44/00");
	assert_int_equal(t_store.notes_version, 0);
	/* What is known stays in force. */
	assert_int_equal(now()->cnt, 1);
	assert_int_equal(now()->type, 0);
	send_cdb(2, "5e 00 00*5 08 00", "", "good");
	t_disk_stop();
}

static const struct away {
	const char *name;
	int error;
	const char *outcome;
} aways[] = {
	{ "the store does not answer", -ETIMEDOUT, "04/44/00" },
	{ "the store fails", -EIO, "04/44/00" },
	{ "this target was fenced off", -ESHUTDOWN, "02/04/0b" },
};

T_ROWS(store_is_away, aways)
{
	const struct away *row = *state;

	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	t_store.notes_error = row->error;
	reserve_out(1, RESERVE, WE, 1, 0, row->outcome);
	send_cdb(2, "5e 00 00*5 08 00", "", row->outcome);
	/* The known state stays in force. */
	assert_int_equal(now()->cnt, 1);
	assert_int_equal(now()->type, 0);
	send_cdb(2, WRITE, "aa*512", "good");
	t_store.notes_error = 0;
	reserve_out(1, RESERVE, WE, 1, 0, "good");
	send_cdb(2, WRITE, "aa*512", "conflict");
	t_disk_stop();
}

/* Through this target or the other one: the port must end the commands, and the
 * store is told when that is done. */
T_TEST(preempted_commands_are_ended)
{
	struct scsi_pr_nexus nexuses[SCSI_PR_MAX];

	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(2, REGISTER, 0, 0, 2, "good");
	assert_int_equal(other_does(3, SCSI_PR_REGISTER, 0, 0, 3), 0);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 0);
	assert_int_equal(other_does(3, SCSI_PR_PREEMPT_AND_ABORT, WE, 3, 1), 1);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 1);
	assert_int_equal(nexuses[0].port.b[15], 1);
	/* Another preemption while the first commands are ended. */
	assert_int_equal(other_does(3, SCSI_PR_PREEMPT_AND_ABORT, WE, 3, 2), 1);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 0);
	assert_true(unit_share_aborted(unit(), 1));
	assert_int_equal(t_store.notes_taken, 0);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 1);
	assert_int_equal(nexuses[0].port.b[15], 2);
	assert_false(unit_share_aborted(unit(), 1));
	assert_int_equal(t_store.notes_taken, t_store.notes_version);
	t_disk_stop();
}

T_TEST(preempt_waits_for_the_end_of_commands)
{
	struct t_bytes list = t_bytes("00*7 01 00*7 02 00*8");
	struct scsi_pr_nexus nexuses[SCSI_PR_MAX];
	struct t_command c;

	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(2, REGISTER, 0, 0, 2, "good");
	t_disk.from = t_nexus(1);
	t_command_start(&c, "5f 05 01 00*5 18", 0, list.p, (uint32_t)list.len,
			0);
	while (t_disk_turn())
		;
	assert_int_equal(c.done, 0);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 1);
	assert_int_equal(nexuses[0].port.b[15], 2);
	assert_false(unit_share_aborted(unit(), 1));
	assert_int_equal(c.done, 1);
	assert_string_equal(t_outcome(&c.task), "good");
	t_command_free(&c);
	free(list.p);
	t_disk_stop();
}

/* Nexuses of target 2: they are not here. */
T_TEST(commands_of_others_are_not_ended)
{
	struct scsi_pr_nexus nexuses[SCSI_PR_MAX];

	start_unit(1);
	assert_int_equal(other_does(1, SCSI_PR_REGISTER, 0, 0, 1), 0);
	assert_int_equal(other_does(3, SCSI_PR_REGISTER, 0, 0, 3), 0);
	assert_int_equal(other_does(3, SCSI_PR_PREEMPT_AND_ABORT, WE, 3, 1), 0);
	assert_int_equal(unit_share_take_aborts(unit(), nexuses), 0);
	send_cdb(1, "00", "", "good");
	t_disk_stop();
}

T_TEST(unknown_notes_change_nothing)
{
	start_unit(1);
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(1, RESERVE, WE, 1, 0, "good");
	assert_int_equal(t_store_put_notes("of tomorrow", 11), -EBADMSG);
	send_cdb(2, WRITE, "aa*512", "conflict");
	t_disk_stop();
}

T_TEST(standby_serves_reservations)
{
	start_unit(2);
	send_cdb(1, WRITE, "aa*512", "02/04/0b");
	reserve_out(1, REGISTER, 0, 0, 1, "good");
	reserve_out(1, RESERVE, WE, 1, 0, "good");
	send_cdb(2, "5e 00 00*5 08 00", "", "good");
	t_disk_stop();
}

T_TEST(reserve_of_spc_2_is_refused)
{
	start_unit(1);
	send_cdb(1, "16", "", "05/20/00");
	send_cdb(1, "17", "", "05/20/00");
	send_cdb(1, "5e 02 00*5 08 00", "", "good");
	t_disk_stop();
}
