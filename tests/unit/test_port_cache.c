/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The write cache is turned off and on while others use the volume: by MODE
 * SELECT, and by LOGICAL UNIT RESET if the saved values differ from the current
 * ones. No initiator may believe that a write is stable when it is not.
 */
#include "tests/lib/t_rig.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"
#include "tests/lib/t_table.h"

#define CACHING 0x08
#define CONTROL 0x0a
#define WCE	0x04
#define SWP	0x08

/* One initiator changes the modes, the other one uses the volume. */
struct pair {
	struct rig *rig;
	struct t_ini *one;
	struct t_ini *two;
	struct volume *vol;
};

static struct pair pair_begin(void)
{
	struct pair p = { .rig = rig_create(NULL) };

	p.one = rig_login(p.rig, 1, SRP_MULTICHAN_SINGLE);
	p.two = rig_login(p.rig, 2, SRP_MULTICHAN_SINGLE);
	p.vol = p.rig->target.luns.vol[RIG_DISK];
	rig_clear_ua(p.one, RIG_DISK, NULL);
	rig_clear_ua(p.two, RIG_DISK, NULL);
	return p;
}

static void pair_end(struct pair *p)
{
	rig_destroy(p->rig);
}

/* MODE SENSE (6) of @page, or MODE SELECT (6), with @len bytes at rig->mem. */
static uint64_t send_mode(struct t_ini *ch, bool select, uint8_t page,
			  uint32_t len)
{
	struct srp_desc desc = rig_desc(ch, 0, len);
	struct srp_data_args args = { .format = SRP_DATA_DIRECT,
				      .descs = &desc,
				      .desc_cnt = 1 };
	struct rig_cmd cmd = { .lun = RIG_DISK };

	cmd.cdb[0] = select ? 0x15 : 0x1a;
	cmd.cdb[1] = select ? 0x10 : 0x08;
	cmd.cdb[2] = select ? 0 : page;
	cmd.cdb[4] = (uint8_t)len;
	if (select)
		cmd.out = args;
	else
		cmd.in = args;
	return rig_cmd(ch, &cmd);
}

/* Sets or clears @bits in the first changeable byte of the page. */
static uint64_t change_mode(struct pair *p, uint8_t page, uint8_t bits,
			    bool set)
{
	uint8_t *b = p->rig->mem;
	size_t at = page == CONTROL ? 8 : 6;

	memset(b, 0, 64);
	rig_expect_status(p->one, send_mode(p->one, false, page, 64),
			  SCSI_STATUS_GOOD);
	b[at] = (uint8_t)(set ? b[at] | bits : b[at] & ~bits);
	memset(b, 0, 4);
	return send_mode(p->one, true, page, 4u + 2u + b[5]);
}

/* Returns WCE as the second initiator sees it. Clears unit attentions first. */
static bool is_on(struct pair *p)
{
	rig_clear_ua(p->two, RIG_DISK, NULL);
	rig_expect_status(p->two, send_mode(p->two, false, CACHING, 24),
			  SCSI_STATUS_GOOD);
	return p->rig->mem[6] & WCE;
}

static const struct way {
	const char *name;
	bool by_reset;
} ways[] = {
	{ "MODE SELECT", false },
	{ "LOGICAL UNIT RESET", true },
};
#define BY_RESET (&ways[1])

/* Begins a change that turns the cache off. A reset is answered at once, and turns it off
 * later. */
static uint64_t turn_off(struct pair *p, const struct way *way)
{
	rig_clear_ua(p->one, RIG_DISK, NULL);
	if (!way->by_reset)
		return change_mode(p, CACHING, WCE, false);
	p->vol->info.mode_saved.wce = false;
	return rig_tmf(p->one, SRP_TSK_LUN_RESET, RIG_DISK, 0);
}

static void expect_off(struct pair *p, const struct way *way, uint64_t tag)
{
	if (way->by_reset)
		rig_expect_code(p->one, tag, SRP_RSP_COMPLETE);
	else
		rig_expect_status(p->one, tag, SCSI_STATUS_GOOD);
	assert_false(is_on(p));
}

T_ROWS(cache_is_flushed_before_it_is_off, ways)
{
	struct pair p = pair_begin();
	uint64_t tag;

	rig_expect_status(p.two, rig_send_write(p.two, 7, 0xaa),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 0);
	t_store.hold = true;
	tag = turn_off(&p, *state);
	assert_int_equal(t_store.held_cnt, 1);
	assert_true(*state == BY_RESET || !t_ini_rsp(p.one, tag));
	assert_true(is_on(&p));
	t_store.hold = false;
	rig_release(p.rig);
	assert_int_equal(t_store.flush_cnt, 1);
	expect_off(&p, *state, tag);
	pair_end(&p);
}

/* The flush may have begun before this write. */
T_ROWS(write_that_comes_meanwhile_is_flushed, ways)
{
	struct pair p = pair_begin();
	uint64_t write;
	uint64_t tag;

	t_store.hold = true;
	tag = turn_off(&p, *state);
	rig_clear_ua(p.two, RIG_DISK, NULL);
	write = rig_send_write(p.two, 7, 0xaa);
	assert_int_equal(t_store.held_cnt, 2);
	/* The write is done, but not stable yet. */
	rig_release(p.rig);
	assert_int_equal(t_store.held_cnt, 1);
	assert_null(t_ini_rsp(p.two, write));
	t_store.hold = false;
	rig_release(p.rig);
	rig_expect_status(p.two, write, SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 2);
	expect_off(&p, *state, tag);
	pair_end(&p);
}

T_ROWS(cache_that_cannot_be_flushed_stays_on, ways)
{
	const struct way *way = *state;
	struct pair p = pair_begin();
	uint64_t tag;

	/* The data is not lost: the store is unreachable for a while. */
	t_store.flush_error = -ENOTCONN;
	tag = turn_off(&p, way);
	t_store.flush_error = 0;
	if (way->by_reset)
		rig_expect_code(p.one, tag, SRP_RSP_COMPLETE);
	else
		rig_expect_status(p.one, tag, SCSI_STATUS_CHECK_CONDITION);
	assert_true(is_on(&p));
	/* And writes need not be stable. */
	rig_expect_status(p.two, rig_send_write(p.two, 7, 0xaa),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 1);
	/* The failed change must not keep the turn. */
	expect_off(&p, way, turn_off(&p, way));
	pair_end(&p);
}

T_TEST(write_protection_comes_after_a_flush)
{
	struct pair p = pair_begin();

	rig_expect_status(p.one, change_mode(&p, CONTROL, SWP, true),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 1);
	rig_expect_status(p.one, change_mode(&p, CONTROL, SWP, false),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 1);
	pair_end(&p);
}

/* The initiator was told that answered writes are stable, and has not been told
 * otherwise. */
T_TEST(write_sent_with_the_cache_off_is_stable)
{
	struct pair p = pair_begin();
	uint64_t write;
	uint16_t asc = 0;

	rig_expect_status(p.one, change_mode(&p, CACHING, WCE, false),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 1);
	assert_false(is_on(&p));
	t_store.hold = true;
	write = rig_send_write(p.two, 7, 0xaa);
	rig_expect_status(p.one, change_mode(&p, CACHING, WCE, true),
			  SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_release(p.rig);
	rig_expect_status(p.two, write, SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 2);
	/* The next command learns of the change first. */
	assert_int_equal(rig_clear_ua(p.two, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	rig_expect_status(p.two, rig_send_write(p.two, 7, 0xbb),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 2);
	pair_end(&p);
}

#define TARGET_LEN  32
#define SEGMENT_LEN 28
#define LIST_LEN    (16 + 2 * TARGET_LEN + SEGMENT_LEN)
#define LIST_AT	    4096

/* Copies a block of the RAM volume to RIG_DISK. The RAM volume gets the
 * command. */
static uint64_t send_copy(struct t_ini *ch)
{
	struct rig_cmd cmd = { .lun = RIG_RAM, .cdb = { 0x83 } };
	uint8_t *b = rig_of(ch)->mem + LIST_AT;
	uint8_t *segment = b + 16 + 2 * TARGET_LEN;
	struct srp_desc desc;

	memset(b, 0, LIST_LEN);
	wire_put16(b + 2, 2 * TARGET_LEN);
	wire_put32(b + 8, SEGMENT_LEN);
	for (unsigned int i = 0; i < 2; i++) {
		const struct volume *vol =
			rig_of(ch)->target.luns.vol[i ? RIG_DISK : RIG_RAM];
		uint8_t *d = b + 16 + i * TARGET_LEN;

		d[0] = 0xe4;
		d[4] = 1;
		d[5] = 3;
		d[7] = SCSI_NAA_LEN;
		memcpy(d + 8, vol->info.naa, SCSI_NAA_LEN);
		wire_put16(d + 30, RIG_BLOCK);
	}
	segment[0] = 0x02;
	wire_put16(segment + 2, SEGMENT_LEN - 4);
	wire_put16(segment + 6, 1);
	wire_put16(segment + 10, 1);
	wire_put32(cmd.cdb + 10, LIST_LEN);
	rig_describe(ch, RIG_DIRECT, LIST_AT, LIST_LEN, &desc, &cmd.out);
	return rig_cmd(ch, &cmd);
}

static const struct copy_case {
	const char *name;
	bool unread; /* the cache is turned on before the target has read the
		      * list */
} copy_cases[] = {
	{ "the list is known", false },
	{ "the list is on the way", true },
};

/* The same for a copy, which is sent to another LUN. */
T_ROWS(copy_sent_with_the_cache_off_is_stable, copy_cases)
{
	const struct copy_case *row = *state;
	struct pair p = pair_begin();
	uint64_t copy;

	rig_clear_ua(p.two, RIG_RAM, NULL);
	rig_expect_status(p.one, change_mode(&p, CACHING, WCE, false),
			  SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 1);
	assert_false(is_on(&p));
	if (row->unread)
		t_fabric_hold_completions(p.rig->hub, true);
	else
		t_store.hold = true;
	copy = send_copy(p.two);
	t_fabric_hold_completions(p.rig->hub, false);
	rig_expect_status(p.one, change_mode(&p, CACHING, WCE, true),
			  SCSI_STATUS_GOOD);
	assert_null(t_ini_rsp(p.two, copy));
	t_fabric_let_go(p.rig->hub, UINT32_MAX);
	rig_settle(p.rig);
	t_store.hold = false;
	rig_release(p.rig);
	rig_expect_status(p.two, copy, SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 2);
	/* The next copy depends on what its initiator has been told until
	 * then. */
	assert_true(is_on(&p));
	rig_expect_status(p.two, send_copy(p.two), SCSI_STATUS_GOOD);
	assert_int_equal(t_store.flush_cnt, 2);
	pair_end(&p);
}

/* An initiator that took the attention before has read the old values. */
T_TEST(reset_that_changes_modes_is_told_again)
{
	struct pair p = pair_begin();
	uint16_t asc = 0;

	t_store.hold = true;
	turn_off(&p, BY_RESET);
	assert_int_equal(rig_clear_ua(p.two, RIG_DISK, &asc), 1);
	t_store.hold = false;
	rig_release(p.rig);
	assert_int_equal(rig_clear_ua(p.two, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_DEVICE_RESET);
	pair_end(&p);
}

/* The disk has the flush of another change. The reservation goes at once, and the mode
 * values are the saved ones when the disk has answered. */
T_ROWS(reset_does_not_wait_for_a_flush, ways)
{
	const struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };
	struct pair p = pair_begin();

	rig_expect_status(p.one, rig_cmd(p.one, &reserve), SCSI_STATUS_GOOD);
	t_store.hold = true;
	turn_off(&p, *state);
	/* Of several, one is left. */
	for (unsigned int i = 0; i < 3; i++)
		rig_expect_code(p.two,
				rig_tmf(p.two, SRP_TSK_LUN_RESET, RIG_DISK, 0),
				SRP_RSP_COMPLETE);
	assert_int_equal(t_store.held_cnt, 1);
	assert_int_equal(p.vol->managed, 1);
	rig_expect_alive(p.two);
	assert_true(is_on(&p));
	t_store.hold = false;
	rig_release(p.rig);
	assert_int_equal(p.vol->managed, 0);
	assert_true(is_on(&p) == p.vol->info.mode_saved.wce);
	pair_end(&p);
}

/* The RESERVE waits behind the command that turns the cache off. A reset ends
 * it meanwhile. The reset would not end a reservation that the command makes
 * later. */
T_TEST(reserve_that_is_aborted_reserves_nothing)
{
	const struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };
	struct pair p = pair_begin();
	uint64_t tag, tmf;

	t_store.hold = true;
	turn_off(&p, &ways[0]);
	assert_int_equal(t_store.held_cnt, 1);
	tag = rig_cmd(p.two, &reserve);
	assert_null(t_ini_rsp(p.two, tag));
	tmf = rig_tmf(p.one, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	t_store.hold = false;
	rig_release(p.rig);
	rig_expect_code(p.one, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(p.two, tag, SCSI_STATUS_TASK_ABORTED);
	rig_clear_ua(p.one, RIG_DISK, NULL);
	rig_expect_status(p.one, rig_send_write(p.one, 7, 0xaa),
			  SCSI_STATUS_GOOD);
	pair_end(&p);
}
