/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of an eject: no new command, the end of the running ones, a flush,
 * no medium. And that of write protection: no new write, the end of the running
 * ones, a flush, SWP. The store answers when the test wants it, so each state
 * of enum unit_medium lasts until then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/scsi/unit_medium.h"
#include "tests/lib/t_bytes.h"
#include "tests/lib/t_disk.h"

#define EJECT	  "1b 00 00 00 02"
#define EJECT_RAW "1b 00 00 00 06" /* NO_FLUSH */
#define LOAD	  "1b 00 00 00 03"
#define PREVENT	  "1e 00 00 00 01"
#define FORMAT	  "04"
#define TUR	  "00"
#define WRITE	  "2a 00 00*6 01"
#define WRITE_2	  "2a 00 00 00 00 02 00 00 01"
#define OR	  "8b 00 00*11 01"
#define NO_MEDIUM "02/3a/00"
#define CAME_BACK "06/28/00"
#define PREVENTED "05/53/02"
#define PROTECT	  "15 10 00 00 10"
#define PROTECTED "07/27/02"
#define MODES	  "06/2a/01"

static struct t_bytes data;
static struct t_bytes swp; /* the parameter list of PROTECT */

static int start(void **state)
{
	data = t_bytes("aa*512");
	swp = t_bytes("00*4 0a 0a 22 10 08 40 00*6");
	t_disk_start(T_REMOVABLE);
	t_store.hold = true;
	return 0;
}

static int stop(void **state)
{
	t_disk_stop();
	free(data.p);
	free(swp.p);
	return 0;
}

T_EACH(start, stop)

static void from(unsigned int number)
{
	t_disk.from = t_nexus(number);
}

/* Begins a command that sends one block or mode values, if it sends any. */
static void begin(struct t_command *c, const char *cdb)
{
	bool sends = !strcmp(cdb, WRITE) || !strcmp(cdb, WRITE_2) ||
		     !strcmp(cdb, OR);

	if (!strcmp(cdb, PROTECT))
		t_command_start(c, cdb, 0, swp.p, (uint32_t)swp.len, 0);
	else
		t_command_start(c, cdb, 0, data.p,
				sends ? (uint32_t)data.len : 0, 0);
}

static void ends(struct t_command *c, const char *outcome)
{
	while (c->executed && !c->done)
		assert_true(t_disk_turn());
	assert_string_equal(t_outcome(&c->task), outcome);
	t_command_free(c);
}

static void gets(unsigned int number, const char *cdb, const char *outcome)
{
	struct t_command c;

	from(number);
	begin(&c, cdb);
	ends(&c, outcome);
}

/* Lets the worker run until it waits for the store. */
static void settle(void)
{
	while (reactor_run_once(t_disk.worker.reactor, 0) > 0)
		;
}

static void store_got(const char *log)
{
	assert_string_equal(t_store.log, log);
}

/* ---- the order ---- */

T_TEST(eject_waits_for_the_writes_and_flushes_them)
{
	struct t_command running, eject;

	from(2);
	begin(&running, WRITE);
	from(1);
	begin(&eject, EJECT);
	settle();
	store_got("write 0+512");
	gets(2, WRITE, NO_MEDIUM);
	gets(3, TUR, NO_MEDIUM);

	assert_true(t_store_answer());
	ends(&running, "good");
	settle();
	store_got("write 0+512, flush");
	assert_int_equal(eject.done, 0);
	gets(2, WRITE, NO_MEDIUM);

	ends(&eject, "good");
	gets(2, WRITE, NO_MEDIUM);
	store_got("write 0+512, flush");
}

/* It was let in before the eject, and gets its data only now. */
T_TEST(write_that_has_no_blocks_yet_finds_no_medium)
{
	struct t_command late, eject;

	from(2);
	assert_true(t_command_prepare(&late, WRITE, 0, data.len, 0));
	from(1);
	begin(&eject, EJECT);
	t_command_execute(&late, data.p);
	ends(&late, NO_MEDIUM);
	ends(&eject, "good");
	store_got("flush");
}

T_TEST(commands_that_wait_for_blocks_find_no_medium)
{
	struct t_command running, alone, behind, eject;

	from(2);
	begin(&running, WRITE);
	begin(&alone, OR);
	begin(&behind, WRITE);
	from(1);
	begin(&eject, EJECT);
	settle();
	store_got("write 0+512");
	assert_true(t_store_answer());
	ends(&running, "good");
	ends(&alone, NO_MEDIUM);
	ends(&behind, NO_MEDIUM);
	ends(&eject, "good");
	store_got("write 0+512, flush");
}

/* ---- an eject that fails ---- */

T_TEST(medium_is_back_if_the_flush_fails)
{
	struct t_command eject;

	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	from(1);
	begin(&eject, EJECT);
	settle();
	gets(2, WRITE, NO_MEDIUM);
	ends(&eject, "03/0c/00");
	gets(1, TUR, CAME_BACK);
	gets(2, TUR, CAME_BACK);
	gets(2, WRITE, "good");
	gets(1, EJECT, "03/0c/00"); /* a failed flush stays failed */
	gets(2, TUR, CAME_BACK);
	store_got("flush, write 0+512");
}

T_TEST(prevention_that_comes_meanwhile_keeps_the_medium)
{
	struct t_command eject;

	from(1);
	begin(&eject, EJECT);
	settle();
	store_got("flush");
	gets(2, PREVENT, "good");
	ends(&eject, PREVENTED);
	gets(1, TUR, CAME_BACK);
	gets(1, TUR, "good");
}

T_TEST(prevented_eject_disturbs_nobody)
{
	struct t_command running;

	gets(2, PREVENT, "good");
	from(2);
	begin(&running, WRITE);
	gets(1, EJECT, PREVENTED);
	gets(1, TUR, "good");
	ends(&running, "good");
	store_got("write 0+512");
}

static void no_keep(struct writers *ws, bool now)
{
}

/* The next process is told by the journal. */
T_TEST(failed_flush_of_an_eject_is_not_forgotten)
{
	struct writers *ws = &t_disk.luns.vol[0]->dev.writers;
	char kept[WRITERS_TEXT_MAX + 1];
	struct writers_found found;
	uint8_t port[WRITER_PORT_LEN] = { 0 };
	writer_ref ref = NULL;

	ws->keep = no_keep;
	memcpy(port, t_port_id(2).b, WRITER_PRINCIPAL_AT);
	writers_wrote(ws, &ref, port);
	writers_doubt(ws);
	writers_format(ws, "boot", "life", kept, sizeof(kept) - 1);
	writers_kept(ws, 0);
	writers_leave(ws, &ref);
	gets(2, WRITE, "good");
	t_store.fail_at = 2;
	t_store.fail_with = -EIO;
	gets(1, EJECT, "03/0c/00");
	kept[writers_format(ws, "boot", "life", kept, sizeof(kept) - 1)] = '\0';
	writers_kept(ws, 0);
	assert_int_equal(writers_parse(ws, kept, &found), 0);
	assert_int_equal(found.failed, WRITERS_FLUSH_FAILED);
	assert_true(found.unclean);
}

/* ---- one change at a time ---- */

T_TEST(load_waits_for_the_eject)
{
	struct t_command eject, load;

	from(1);
	begin(&eject, EJECT);
	from(2);
	begin(&load, LOAD);
	settle();
	assert_int_equal(load.done, 0);
	ends(&eject, "good");
	ends(&load, "good");
	gets(3, TUR, CAME_BACK);
	gets(3, TUR, "good");
}

T_TEST(second_eject_flushes_nothing_more)
{
	struct t_command eject, again;

	from(1);
	begin(&eject, EJECT);
	from(2);
	begin(&again, EJECT);
	ends(&eject, "good");
	ends(&again, "good");
	store_got("flush");
}

T_TEST(eject_flushes_what_one_without_a_flush_has_left)
{
	gets(2, WRITE, "good");
	gets(1, EJECT_RAW, "good");
	store_got("write 0+512");
	gets(1, EJECT, "good");
	store_got("write 0+512, flush");
	gets(1, EJECT, "good");
	store_got("write 0+512, flush");
}

T_TEST(medium_stays_out_if_only_the_flush_fails)
{
	gets(2, WRITE, "good");
	gets(1, EJECT_RAW, "good");
	t_store.fail_at = 2;
	t_store.fail_with = -EIO;
	gets(1, EJECT, "03/0c/00");
	gets(2, TUR, NO_MEDIUM);
	gets(1, LOAD, "good");
	gets(2, TUR, CAME_BACK);
}

T_TEST(aborted_eject_that_waits_for_its_turn_does_nothing)
{
	struct t_command eject, load, again;

	from(1);
	begin(&eject, EJECT);
	begin(&load, LOAD);
	begin(&again, EJECT);
	scsi_task_cancel(&again.task);
	ends(&eject, "good");
	ends(&load, "good");
	settle();
	assert_int_equal(again.done, 1);
	t_command_free(&again);
	gets(1, TUR, CAME_BACK);
	gets(1, TUR, "good");
	store_got("flush");
}

static const struct draining_case {
	const char *name;
	const char *cdb;
	const char *told; /* the attention that others get */
} draining_cases[] = {
	{ "an eject", EJECT, CAME_BACK },
	{ "write protection", PROTECT, NULL },
};

/* The store may never answer those that it waits for. */
T_ROWS(aborted_change_that_waits_for_writes_does_nothing, draining_cases)
{
	const struct draining_case *row = *state;
	struct t_command running, change;

	from(2);
	begin(&running, WRITE);
	from(1);
	begin(&change, row->cdb);
	settle();
	scsi_task_cancel(&change.task);
	assert_int_equal(change.done, 1);
	t_command_free(&change);
	if (row->told)
		gets(3, TUR, row->told);
	assert_true(t_store_answer());
	ends(&running, "good");
	gets(3, WRITE, "good");
	store_got("write 0+512, write 0+512");
	/* The turn is free. */
	gets(1, LOAD, row->told ? row->told : "good");
}

T_TEST(eject_that_is_taken_back_waits_for_its_flush_alone)
{
	struct t_command eject, load;

	from(1);
	begin(&eject, EJECT);
	settle();
	unit_medium_take_back(t_disk.luns.vol[0]);
	gets(2, TUR, CAME_BACK);
	from(2);
	begin(&load, LOAD);
	settle();
	assert_int_equal(eject.done + load.done, 0);
	assert_true(t_store_answer());
	ends(&load, "good");
	assert_int_equal(eject.done, 1);
	t_command_free(&eject);
	gets(2, TUR, "good");
	store_got("flush");
}

/* It was let in while the medium was there. */
T_TEST(format_does_not_begin_during_an_eject)
{
	struct t_command format, eject;

	from(2);
	assert_true(t_command_prepare(&format, FORMAT, 0, 0, 0));
	from(1);
	begin(&eject, EJECT);
	settle();
	t_command_execute(&format, NULL);
	ends(&eject, "good");
	ends(&format, NO_MEDIUM);
	store_got("flush");
	gets(1, LOAD, "good");
	gets(3, TUR, CAME_BACK);
	gets(3, TUR, "good");
}

T_TEST(eject_does_not_begin_during_a_format)
{
	struct t_command format, eject;

	from(1);
	assert_true(t_command_prepare(&eject, EJECT, 0, 0, 0));
	from(2);
	begin(&format, FORMAT);
	t_command_execute(&eject, NULL);
	ends(&eject, "02/04/04 at 0");
	ends(&format, "good");
	gets(3, TUR, "good");
}

/* ---- write protection ---- */

T_TEST(protection_waits_for_the_writes_and_flushes_them)
{
	struct t_command running, late, protect;

	from(2);
	begin(&running, WRITE);
	from(1);
	begin(&protect, PROTECT);
	from(2);
	begin(&late, WRITE);
	settle();
	store_got("write 0+512");
	assert_int_equal(late.done, 0);
	gets(3, TUR, "good");

	assert_true(t_store_answer());
	ends(&running, "good");
	ends(&late, PROTECTED);
	settle();
	store_got("write 0+512, flush");
	assert_int_equal(protect.done, 0);
	ends(&protect, "good");
	gets(2, TUR, MODES);
	gets(2, WRITE, PROTECTED);
	store_got("write 0+512, flush");
}

/* It was let in before, and gets its data or its blocks only now. */
T_TEST(write_that_has_no_blocks_yet_is_refused)
{
	struct t_command running, late, behind, protect;

	from(2);
	begin(&running, OR);
	begin(&behind, WRITE);
	assert_true(t_command_prepare(&late, WRITE_2, 0, data.len, 0));
	from(1);
	begin(&protect, PROTECT);
	t_command_execute(&late, data.p);
	ends(&running, "good");
	ends(&behind, PROTECTED);
	ends(&late, PROTECTED);
	ends(&protect, "good");
	store_got("read 0+512, write 0+512, flush");
}

T_TEST(writes_go_on_if_the_flush_fails)
{
	struct t_command protect;

	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	from(1);
	begin(&protect, PROTECT);
	settle();
	gets(2, WRITE, PROTECTED);
	ends(&protect, "03/0c/00");
	gets(2, WRITE, "good");
	store_got("flush, write 0+512");
}

/* It was let in before the protection. */
T_TEST(format_does_not_begin_on_a_protected_medium)
{
	struct t_command format, protect;

	from(2);
	assert_true(t_command_prepare(&format, FORMAT, 0, 0, 0));
	from(1);
	begin(&protect, PROTECT);
	settle();
	t_command_execute(&format, NULL);
	ends(&protect, "good");
	ends(&format, PROTECTED);
	store_got("flush");
	gets(3, TUR, MODES);
	gets(3, TUR, "good");
}

T_TEST(protection_does_not_begin_during_a_format)
{
	struct t_command format, protect;

	from(1);
	assert_true(t_command_prepare(&protect, PROTECT, 0, swp.len, 0));
	from(2);
	begin(&format, FORMAT);
	t_command_execute(&protect, swp.p);
	ends(&protect, "02/04/04 at 0");
	ends(&format, "good");
	gets(3, WRITE, "good");
}
