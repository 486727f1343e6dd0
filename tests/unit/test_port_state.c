/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a unit that several initiators share, through the whole port:
 * what ends together with a nexus, and which command waits for what. See
 * tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/wire.h"
#include "target/port/port_change.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* ---- PERSISTENT RESERVE OUT ---- */

enum {
	REGISTER,
	RESERVE,
	PREEMPT = 4,
	PREEMPT_AND_ABORT = 5,
	REGISTER_AND_IGNORE = 6,
};

#define WRITE_EXCLUSIVE 1

static uint8_t aptpl; /* 1: registrations are to survive */

static uint64_t reserve_out(struct t_ini *ch, uint8_t action, uint8_t type,
			    uint64_t key, uint64_t action_key)
{
	struct rig_cmd cmd = { .lun = RIG_DISK };
	uint8_t list[24] = { 0 };

	wire_put64(list, key);
	wire_put64(list + 8, action_key);
	list[20] = aptpl;
	cmd.cdb[0] = 0x5f;
	cmd.cdb[1] = action;
	cmd.cdb[2] = type;
	cmd.cdb[8] = sizeof(list);
	cmd.out.format = SRP_DATA_IMMEDIATE;
	cmd.out.imm_len = sizeof(list);
	cmd.out.imm_offset = SRP_IMM_OFFSET;
	cmd.imm = list;
	return rig_cmd(ch, &cmd);
}

/* A write of one block, with its data. */
static uint64_t send_block(struct t_ini *ch, struct rig_cmd *cmd)
{
	static const uint8_t data[BLK] = { 0xaa };

	cmd->out.format = SRP_DATA_IMMEDIATE;
	cmd->out.imm_len = BLK;
	cmd->out.imm_offset = SRP_IMM_OFFSET;
	cmd->imm = data;
	return rig_cmd(ch, cmd);
}

static uint64_t write_block(struct t_ini *ch, uint32_t lba)
{
	struct rig_cmd cmd = rig_write(RIG_DISK, lba, 1);

	return send_block(ch, &cmd);
}

struct pair {
	struct rig *rig;
	struct t_ini *a; /* key 1, holds the reservation */
	struct t_ini *b; /* key 2 */
};

static struct pair reserved(void)
{
	struct rig_options opt = { .workers = 2 };
	struct pair p = { .rig = rig_create(&opt) };

	p.a = rig_login(p.rig, 1, SRP_MULTICHAN_SINGLE);
	p.b = rig_login(p.rig, 2, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(p.a, RIG_DISK, NULL);
	rig_clear_ua(p.b, RIG_DISK, NULL);
	rig_expect_status(p.a, reserve_out(p.a, REGISTER, 0, 0, 1), 0);
	rig_expect_status(p.b, reserve_out(p.b, REGISTER, 0, 0, 2), 0);
	rig_expect_status(p.a, reserve_out(p.a, RESERVE, WRITE_EXCLUSIVE, 1, 0),
			  0);
	return p;
}

static void end_pair(struct pair *p)
{
	rig_destroy(p->rig);
}

T_TEST(write_under_a_reservation_conflicts)
{
	struct pair p = reserved();

	rig_expect_status(p.b, write_block(p.b, 0),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig_expect_status(p.a, write_block(p.a, 0), SCSI_STATUS_GOOD);
	end_pair(&p);
}

/* The fence: when PREEMPT AND ABORT is answered, no write of the preempted nexus
 * follows. Nobody sees the one that the store has come later: its block waits. */
T_TEST(preempt_and_abort_leaves_what_the_disk_has)
{
	struct pair p = reserved();
	uint64_t old, next;

	t_store.hold = true;
	old = write_block(p.a, 3);
	assert_int_equal(t_store.held_cnt, 1);
	rig_expect_status(
		p.b, reserve_out(p.b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1),
		SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_expect_status(p.a, write_block(p.a, 4),
			  SCSI_STATUS_CHECK_CONDITION); /* unit attention */
	rig_expect_status(p.a, write_block(p.a, 4),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig_expect_status(p.b, write_block(p.b, 4), SCSI_STATUS_GOOD);
	next = write_block(p.b, 3);
	assert_null(t_ini_rsp(p.b, next));
	rig_release(p.rig);
	rig_expect_status(p.b, next, SCSI_STATUS_GOOD);
	/* Its data is in its IU: it keeps its credit until now. */
	rig_expect_status(p.a, old, SCSI_STATUS_TASK_ABORTED);
	end_pair(&p);
}

T_TEST(preempt_alone_awaits_nothing)
{
	struct pair p = reserved();
	uint64_t old;

	t_store.hold = true;
	old = write_block(p.a, 3);
	rig_expect_status(p.b, reserve_out(p.b, PREEMPT, WRITE_EXCLUSIVE, 2, 1),
			  SCSI_STATUS_GOOD);
	rig_release(p.rig);
	rig_expect_status(p.a, old, SCSI_STATUS_GOOD);
	t_store.hold = false;
	end_pair(&p);
}

T_TEST(preempt_and_abort_spares_other_luns_and_nexuses)
{
	struct pair p = reserved();
	struct t_ini *c = rig_login(p.rig, 3, SRP_MULTICHAN_SINGLE);
	struct rig_cmd read = rig_read(RIG_DISK, 0, 1);
	uint64_t others;

	rig_clear_ua(c, RIG_DISK, NULL);
	t_store.hold = true;
	read.in.format = SRP_DATA_DIRECT;
	read.in.descs = (struct srp_desc[]){ rig_desc(c, 0, BLK) };
	read.in.desc_cnt = 1;
	others = rig_cmd(c, &read);
	rig_expect_status(
		p.b, reserve_out(p.b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1),
		SCSI_STATUS_GOOD);
	assert_null(t_ini_rsp(c, others));
	rig_release(p.rig);
	rig_expect_status(c, others, SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_chan_free(c);
	end_pair(&p);
}

/* A preempted nexus registers again and preempts the other one. */
T_TEST(two_that_preempt_each_other_do_not_wait)
{
	struct pair p = reserved();

	t_store.hold = true;
	write_block(p.a, 3);
	rig_expect_status(
		p.b, reserve_out(p.b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1),
		SCSI_STATUS_GOOD);
	rig_clear_ua(p.a, RIG_DISK, NULL);
	rig_expect_status(p.a, reserve_out(p.a, REGISTER_AND_IGNORE, 0, 0, 1),
			  SCSI_STATUS_GOOD);
	rig_expect_status(
		p.a, reserve_out(p.a, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 1, 2),
		SCSI_STATUS_GOOD);
	rig_release(p.rig);
	t_store.hold = false;
	end_pair(&p);
}

/* The preempted nexus may be gone. */
T_TEST(preempt_and_abort_of_a_nexus_that_is_gone)
{
	struct pair p = reserved();
	uint64_t next;

	t_store.hold = true;
	write_block(p.a, 3);
	xp_close(p.a->xp);
	rig_settle(p.rig);
	rig_expect_status(
		p.b, reserve_out(p.b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1),
		SCSI_STATUS_GOOD);
	next = write_block(p.b, 3);
	assert_null(t_ini_rsp(p.b, next));
	t_store.hold = false;
	rig_release(p.rig);
	rig_expect_status(p.b, next, SCSI_STATUS_GOOD);
	end_pair(&p);
}

T_TEST(who_preempts_may_leave_meanwhile)
{
	struct pair p = reserved();

	t_store.hold = true;
	write_block(p.a, 3);
	reserve_out(p.b, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1);
	xp_close(p.b->xp);
	rig_settle(p.rig);
	rig_release(p.rig);
	t_store.hold = false;
	end_pair(&p);
}

/* A registration belongs to the initiator port, not to the connection. */
T_TEST(registration_survives_a_new_login)
{
	struct pair p = reserved();

	rig_chan_free(p.a);
	p.a = rig_login(p.rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(p.a, RIG_DISK, NULL);
	rig_expect_status(p.a, write_block(p.a, 0), SCSI_STATUS_GOOD);
	rig_expect_status(p.b, write_block(p.b, 0),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	end_pair(&p);
}

/* ---- the same port identifier, and another principal ---- */

#define EXCLUSIVE_ACCESS 3

/* By the rules 10.0.0.0/24 (the victim), and then @rest. */
static struct rig *with_others(const char *rest)
{
	struct rig_options opt = { .workers = 2, .allow = "10.0.0.0/24" };
	struct rig *rig = rig_create(&opt);
	struct error e;

	assert_true(access_rules_add(&rig->target.port.allow, rest, &e));
	return rig;
}

static struct t_ini *come(struct rig *rig, unsigned int who, const char *addr)
{
	struct t_ini *ch;

	t_fabric_come_from(rig->hub, addr);
	ch = rig_login(rig, who, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_DISK, NULL);
	return ch;
}

static uint64_t read_block(struct t_ini *ch, uint32_t lba)
{
	struct rig_cmd cmd = rig_read(RIG_DISK, lba, 1);

	return rig_send_rw(ch, &cmd, RIG_DIRECT, 0, BLK);
}

static void register_and_reserve(struct t_ini *ch, uint64_t key)
{
	rig_expect_status(ch, reserve_out(ch, REGISTER, 0, 0, key), 0);
	rig_expect_status(
		ch, reserve_out(ch, RESERVE, EXCLUSIVE_ACCESS, key, 0), 0);
}

static void expect_reads(struct t_ini *ch, bool may)
{
	rig_expect_status(ch, read_block(ch, 0),
			  may ? SCSI_STATUS_GOOD
			      : SCSI_STATUS_RESERVATION_CONFLICT);
}

static const struct others_case {
	const char *name;
	const char *rest;
} others_cases[] = {
	{ "that may only read", "10.1.0.0/16:ro" },
	{ "with the same rights", "10.1.0.0/16" },
};

T_ROWS(identifier_is_no_pass_for_a_reservation, others_cases)
{
	const struct others_case *row = *state;
	struct rig *rig = with_others(row->rest);
	struct t_ini *victim = come(rig, 1, "10.0.0.1");
	struct t_ini *other;

	register_and_reserve(victim, 1);
	other = come(rig, 1, "10.1.0.1");
	expect_reads(other, false);
	expect_reads(victim, true);
	/* It is the same initiator by another address of its rule. */
	rig_chan_free(victim);
	victim = come(rig, 1, "10.0.0.2");
	expect_reads(victim, true);
	rig_destroy(rig);
}

T_TEST(identifier_cannot_unregister_its_owner)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct t_ini *victim = come(rig, 1, "10.0.0.1");
	struct t_ini *other = come(rig, 1, "10.1.0.1");

	register_and_reserve(victim, 1);
	/* The key of its owner is no secret (READ KEYS). */
	rig_expect_status(other, reserve_out(other, REGISTER, 0, 1, 0),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig_expect_status(other,
			  reserve_out(other, REGISTER_AND_IGNORE, 0, 0, 0),
			  SCSI_STATUS_GOOD);
	rig_expect_status(other,
			  reserve_out(other, REGISTER_AND_IGNORE, 0, 0, 9),
			  SCSI_STATUS_GOOD);
	expect_reads(other, false);
	expect_reads(victim, true);
	rig_destroy(rig);
}

T_TEST(identifier_does_not_end_what_reserve_gave)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct t_ini *victim = come(rig, 1, "10.0.0.1");
	struct t_ini *other = come(rig, 1, "10.1.0.1");
	struct t_ini *third = come(rig, 2, "10.0.0.9");
	struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };
	struct rig_cmd release = { .lun = RIG_DISK, .cdb = { 0x17 } };

	rig_expect_status(victim, rig_cmd(victim, &reserve), SCSI_STATUS_GOOD);
	rig_expect_status(other, rig_cmd(other, &reserve),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig_expect_status(other, rig_cmd(other, &release), SCSI_STATUS_GOOD);
	rig_chan_free(other);
	expect_reads(third, false);
	expect_reads(victim, true);
	rig_destroy(rig);
}

/* What happens to one is neither told nor done to the other. */
T_TEST(preemption_meets_its_own_principal)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct t_ini *victim = come(rig, 1, "10.0.0.1");
	struct t_ini *other = come(rig, 1, "10.1.0.1");
	struct t_ini *third = come(rig, 2, "10.0.0.9");
	uint64_t theirs, mine;

	rig_expect_status(other, reserve_out(other, REGISTER, 0, 0, 9), 0);
	rig_expect_status(third, reserve_out(third, REGISTER, 0, 0, 2), 0);
	t_store.hold = true;
	mine = rig_send_write(victim, 1, 'a');
	theirs = rig_send_write(other, 2, 'b');
	rig_expect_status(
		third,
		reserve_out(third, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 9),
		SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(victim, mine, SCSI_STATUS_GOOD);
	rig_expect_status(other, theirs, SCSI_STATUS_TASK_ABORTED);
	assert_int_equal(rig_clear_ua(victim, RIG_DISK, NULL), 0);
	assert_int_equal(rig_clear_ua(other, RIG_DISK, NULL), 1);
	rig_destroy(rig);
}

/* The rules change while the holder is logged in, or away. */
static const struct change_case {
	const char *name;
	const char *rules[2];
	bool away;
} change_cases[] = {
	{ "a narrower rule", { "10.0.0.0/25", "10.1.0.0/16" }, false },
	{ "a rule before", { "10.0.0.1", "10.0.0.0/24" }, false },
	{ "a narrower rule, away", { "10.0.0.0/25", "10.1.0.0/16" }, true },
	{ "only other options, away",
	  { "10.0.0.0/24:lun=0", "10.1.0.0/16" },
	  true },
};

T_ROWS(holder_stays_the_holder_by_other_rules, change_cases)
{
	const struct change_case *row = *state;
	struct rig *rig = with_others("10.1.0.0/16");
	struct access_rules *rules = &rig->target.port.allow;
	struct t_ini *ch = come(rig, 1, "10.0.0.1");
	struct error e;

	register_and_reserve(ch, 1);
	if (row->away)
		rig_chan_free(ch);
	rules->cnt = 0;
	for (int i = 0; i < 2; i++)
		assert_true(access_rules_add(rules, row->rules[i], &e));
	port_rules_changed(&rig->target.port);
	rig_settle(rig);
	if (row->away)
		ch = come(rig, 1, "10.0.0.1");
	assert_false(ch->closed);
	expect_reads(ch, true);
	rig_destroy(rig);
}

/* ---- the rules change while the journal is being written ---- */

static struct rig *changing; /* NULL: they do not change */
static bool journal_fails;
static void (*journal_done)(struct reactor_op *op, int res,
			    unsigned int cqe_flags);

static void set_rules(struct rig *rig, const char *one, const char *two)
{
	struct access_rules *rules = &rig->target.port.allow;
	struct error e;

	rules->cnt = 0;
	assert_true(access_rules_add(rules, one, &e));
	assert_true(!two || access_rules_add(rules, two, &e));
	port_rules_changed(&rig->target.port);
}

static void journal_op_done(struct reactor_op *op, int res,
			    unsigned int cqe_flags)
{
	const struct disk_journal *j =
		container_of(op, struct disk_journal, op);

	if (changing && j->step == DISK_JOURNAL_SYNCS) {
		set_rules(changing, "10.0.0.1", "10.0.0.0/24");
		changing = NULL;
	}
	if (journal_fails && j->step == DISK_JOURNAL_WRITES)
		res = -ENOSPC;
	journal_done(op, res, cqe_flags);
}

static char state_dir[32];

static struct rig *with_state(void)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct volume *disk = rig->target.luns.vol[RIG_DISK];
	struct error e = { 0 };

	disk->identity = VOLUME_LASTING;
	if (unit_state_load(disk, state_dir, &e))
		fail_msg("%s", e.text);
	journal_done = disk->journal.op.done;
	disk->journal.op.done = journal_op_done;
	return rig;
}

static int begin_state(void **state)
{
	aptpl = 1;
	strcpy(state_dir, "/tmp/port-state-XXXXXX");
	return mkdtemp(state_dir) ? 0 : -1;
}

static int end_state(void **state)
{
	char command[64];

	aptpl = 0;
	snprintf(command, sizeof(command), "rm -r %s", state_dir);
	return system(command);
}

T_EACH(begin_state, end_state)

/* The registration is of the principal that its initiator has by the new rules. */
T_TEST(reservation_follows_rules_that_change_meanwhile)
{
	struct rig *rig = with_state();
	struct t_ini *ch = come(rig, 1, "10.0.0.1");

	changing = rig;
	register_and_reserve(ch, 1);
	assert_null(changing);
	assert_false(ch->closed);
	expect_reads(ch, true);
	rig_destroy(rig);
}

/* After a restart, a registration is of whom the journal says. */
static void expect_saved(struct rig *rig)
{
	const struct volume *disk = rig->target.luns.vol[RIG_DISK];
	const char *text = disk_journal_text(&disk->journal, 0);
	struct state_file file;
	struct error e;

	assert_int_equal(state_file_parse(text, strlen(text), &file, &e), 0);
	assert_int_equal(file.pr.cnt, 1);
	assert_int_equal(file.pr.regs[0].nexus.principal,
			 disk->state.pr.regs[0].nexus.principal);
}

T_TEST(other_rules_are_in_the_journal)
{
	struct rig *rig = with_state();
	struct t_ini *ch = come(rig, 1, "10.0.0.1");

	register_and_reserve(ch, 1);
	expect_saved(rig);
	set_rules(rig, "10.0.0.1", "10.0.0.0/24");
	rig_settle(rig);
	expect_saved(rig);
	expect_reads(ch, true);
	/* Nobody is the principal any more. */
	rig_chan_free(ch);
	set_rules(rig, "10.0.0.2", "10.0.0.0/24");
	rig_settle(rig);
	expect_saved(rig);
	rig_destroy(rig);
}

/* Nobody goes on with a state that a restart would not find. */
T_TEST(unit_is_not_ready_until_other_rules_are_in_the_journal)
{
	struct rig *rig = with_state();
	struct t_ini *ch = come(rig, 1, "10.0.0.1");

	register_and_reserve(ch, 1);
	journal_fails = true;
	set_rules(rig, "10.0.0.1", "10.0.0.0/24");
	rig_settle(rig);
	rig_expect_status(ch, read_block(ch, 0), SCSI_STATUS_CHECK_CONDITION);
	journal_fails = false;
	rig_expect_status(ch, read_block(ch, 0), SCSI_STATUS_CHECK_CONDITION);
	expect_reads(ch, true);
	expect_saved(rig);
	rig_destroy(rig);
}

T_TEST(preemption_follows_rules_that_change_meanwhile)
{
	struct rig *rig = with_state();
	struct t_ini *ch = come(rig, 1, "10.0.0.1");
	struct t_ini *third = come(rig, 2, "10.0.0.9");
	uint64_t tag;

	rig_expect_status(ch, reserve_out(ch, REGISTER, 0, 0, 1), 0);
	rig_expect_status(third, reserve_out(third, REGISTER, 0, 0, 2), 0);
	changing = rig;
	t_store.hold = true;
	tag = rig_send_write(ch, 1, 'a');
	rig_expect_status(
		third,
		reserve_out(third, PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 2, 1),
		SCSI_STATUS_GOOD);
	assert_null(changing);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_TASK_ABORTED);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, NULL), 1);
	rig_destroy(rig);
}

T_EACH(NULL, NULL)

/* Only the rules told two initiators with one port identifier apart. A login must not find the
 * other one's session, and leave its own commands alone. */
T_TEST(sessions_that_rules_make_one_do_not_both_stay)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct t_ini *other = come(rig, 1, "10.1.0.1");
	struct t_ini *mine = come(rig, 1, "10.0.0.1");

	set_rules(rig, "10.0.0.0/8", NULL);
	rig_settle(rig);
	come(rig, 1, "10.0.0.1");
	assert_true(mine->closed);
	assert_true(other->closed);
	rig_destroy(rig);
}

/* Invented port identifiers, each of which registers. */
static unsigned int register_many(struct rig *rig, const char *addr)
{
	unsigned int cnt = 0;

	for (unsigned int who = 100; who < 100 + SCSI_PR_MAX; who++) {
		struct t_ini *ch = come(rig, who, addr);
		uint64_t tag = reserve_out(ch, REGISTER, 0, 0, 9);

		cnt += t_ini_rsp(ch, tag)->status == SCSI_STATUS_GOOD;
		rig_chan_free(ch);
	}
	return cnt;
}

T_TEST(principal_leaves_registrations_for_others)
{
	struct rig *rig = with_others("10.1.0.0/16");
	struct t_ini *ch;

	port_rules_changed(&rig->target.port);
	assert_int_equal(register_many(rig, "10.1.0.1"), SCSI_PR_MAX * 3 / 4);
	ch = come(rig, 1, "10.0.0.1");
	register_and_reserve(ch, 1);
	expect_reads(ch, true);
	rig_destroy(rig);
}

/* Nobody else could register. */
T_TEST(only_principal_may_have_all_registrations)
{
	struct rig_options opt = { .allow = "10.0.0.0/24" };
	struct rig *rig = rig_create(&opt);

	assert_int_equal(register_many(rig, "10.0.0.1"), SCSI_PR_MAX);
	rig_destroy(rig);
}

/* The journal of RIG_DISK. */
static void open_journal(struct rig *rig, const char *dir)
{
	struct volume *disk = rig->target.luns.vol[RIG_DISK];
	struct error e;

	assert_int_equal(volume_writers_open_in(disk, dir, NULL, "boot", &e),
			 0);
	volume_writers_start(disk, rig->target.workers[0].reactor);
}

/* As after a kill. */
static void reopen_journal(struct rig *rig, const char *dir)
{
	struct volume *disk = rig->target.luns.vol[RIG_DISK];

	volume_writers_save(disk);
	disk_journal_close(&disk->journal);
	writers_fini(&disk->dev.writers);
	writers_init(&disk->dev.writers);
	open_journal(rig, dir);
}

static void expect_flush(struct t_ini *ch, bool succeeds)
{
	struct rig_cmd flush = { .lun = RIG_DISK, .cdb = { 0x35 } };

	rig_expect_status(ch, rig_cmd(ch, &flush),
			  succeeds ? SCSI_STATUS_GOOD
				   : SCSI_STATUS_CHECK_CONDITION);
}

/* The victim wrote, and the target was killed after a flush had failed. */
static const struct debt_case {
	const char *name;
	const char *rules[2]; /* from then on; NULL: they stay */
	bool is_there;	      /* when they change */
} debt_cases[] = {
	{ "the same rules", { NULL }, false },
	{ "a rule before, while it is there",
	  { "10.0.0.2", "10.0.0.0/8:ro" },
	  true },
	{ "another rule, while it is away",
	  { "10.0.0.2", "10.1.0.0/16:ro" },
	  false },
};

T_ROWS(lost_writes_are_told_to_who_made_them, debt_cases)
{
	const struct debt_case *row = *state;
	char dir[] = "/tmp/writers-XXXXXX";
	char command[64];
	struct rig *rig = with_others("10.1.0.0/16:ro");
	struct writers *ws = &rig->target.luns.vol[RIG_DISK]->dev.writers;
	struct access_rules *rules = &rig->target.port.allow;
	struct t_ini *other;
	struct t_ini *victim;
	struct error e;

	assert_non_null(mkdtemp(dir));
	rig->target.luns.vol[RIG_DISK]->dev.backend->info.life.rdev = 7;
	open_journal(rig, dir);
	victim = come(rig, 1, "10.0.0.2");
	rig_expect_status(victim, write_block(victim, 1), SCSI_STATUS_GOOD);
	rig_chan_free(victim);
	writers_flush_ends(ws, writers_flush_begins(ws), -EIO);
	reopen_journal(rig, dir);
	if (row->is_there)
		victim = come(rig, 1, "10.0.0.2");
	rules->cnt = row->rules[0] ? 0 : rules->cnt;
	for (int i = 0; i < 2 && row->rules[i]; i++)
		assert_true(access_rules_add(rules, row->rules[i], &e));
	port_rules_changed(&rig->target.port);
	rig_settle(rig);
	other = come(rig, 1, "10.1.0.1");
	if (!row->rules[0] || row->is_there)
		expect_flush(other, true);
	if (!row->is_there)
		victim = come(rig, 1, "10.0.0.2");
	assert_false(victim->closed);
	expect_flush(victim, false);
	expect_flush(victim, true);
	rig_destroy(rig);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

T_TEST(lun_reset_ends_what_reserve_gave)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *a = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *b = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };

	rig_clear_ua(a, RIG_DISK, NULL);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(a, rig_cmd(a, &reserve), SCSI_STATUS_GOOD);
	rig_expect_status(b, write_block(b, 0),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig_expect_code(b, rig_tmf(b, SRP_TSK_LUN_RESET, RIG_DISK, 0),
			SRP_RSP_COMPLETE);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(b, write_block(b, 0), SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* The reset ends the reservation, and a write under it is stuck in the store. */
T_TEST(next_reservation_waits_for_what_was_given_up)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *a = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *b = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };

	rig_clear_ua(a, RIG_DISK, NULL);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(a, rig_cmd(a, &reserve), SCSI_STATUS_GOOD);
	t_store.hold = true;
	rig_send_write(a, 1, 1);
	rig_expect_status(a, rig_cmd(a, &reserve), SCSI_STATUS_GOOD);
	rig_expect_code(b, rig_tmf(b, SRP_TSK_LUN_RESET, RIG_DISK, 0),
			SRP_RSP_COMPLETE);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(b, rig_cmd(b, &reserve), SCSI_STATUS_BUSY);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(b, rig_cmd(b, &reserve), SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* A worker that does not run may let commands under it go on. */
T_TEST(reset_ends_a_reservation_after_its_commands)
{
	struct rig *rig = rig_create(&(struct rig_options){ .workers = 2 });
	struct t_ini *b = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *a = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };
	uint64_t reset;

	rig_clear_ua(a, RIG_DISK, NULL);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(a, rig_cmd(a, &reserve), SCSI_STATUS_GOOD);
	rig->target.worker_cnt = 1;
	reset = rig_tmf(b, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	rig_expect_status(b, rig_cmd(b, &reserve), SCSI_STATUS_CHECK_CONDITION);
	rig_expect_status(b, rig_cmd(b, &reserve),
			  SCSI_STATUS_RESERVATION_CONFLICT);
	rig->target.worker_cnt = 2;
	rig_settle(rig);
	rig_expect_code(b, reset, SRP_RSP_COMPLETE);
	rig_expect_status(b, rig_cmd(b, &reserve), SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(logout_ends_what_reserve_gave)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *a = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *b = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd reserve = { .lun = RIG_DISK, .cdb = { 0x16 } };

	rig_clear_ua(a, RIG_DISK, NULL);
	rig_clear_ua(b, RIG_DISK, NULL);
	rig_expect_status(a, rig_cmd(a, &reserve), SCSI_STATUS_GOOD);
	rig_chan_free(a);
	rig_settle(rig);
	rig_expect_status(b, write_block(b, 0), SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* ---- commands that arrive at the same time ---- */

/* The target handles all commands that were sent between these two calls in one
 * turn, in the order they were sent. */
static void hold_together(struct rig *rig)
{
	t_fabric_manual(rig->hub, true);
}

static void let_go_together(struct rig *rig)
{
	t_fabric_manual(rig->hub, false);
	rig_settle(rig);
}

static const struct later_row {
	const char *name;
	uint8_t function;
} later_rows[] = {
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET },
	{ "LOGICAL UNIT RESET", SRP_TSK_LUN_RESET },
};

T_ROWS(function_leaves_alone_what_follows_it, later_rows)
{
	const struct later_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd w = rig_write(RIG_DISK, 0, 1);
	uint64_t function, command;

	rig_expect_alive(ch);
	t_store.hold = true;
	hold_together(rig);
	function = rig_tmf(ch, row->function, RIG_DISK, 0);
	command = send_block(ch, &w);
	let_go_together(rig);
	rig_expect_code(ch, function, SRP_RSP_COMPLETE);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, command, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(nexus_loss_is_not_told_to_the_old_channel)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *old = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	struct t_ini *ch;
	uint16_t asc;

	rig_expect_alive(old);
	hold_together(rig);
	ch = rig_connect_begin(rig, &req);
	rig_cmd(old, &tur);
	let_go_together(rig);
	assert_true(old->closed && ch->established);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
	assert_int_equal(asc, 0x2907);
	rig_destroy(rig);
}

/* ---- task attributes ---- */

#define SIMPLE	SRP_TASK_SIMPLE
#define HEAD	SRP_TASK_HEAD_OF_QUEUE
#define ORDERED SRP_TASK_ORDERED

#define QUEUE 5

/* Writes are sent one after another while the disk answers none. Then the disk
 * answers all that it has, again and again. */
static const struct queue_row {
	const char *name;
	enum srp_task_attr attrs[QUEUE];
	/* How many commands the disk has each time; the last number is 0. */
	unsigned int held[QUEUE + 1];
} queue_rows[] = {
	{ "all simple", { SIMPLE, SIMPLE, SIMPLE, SIMPLE, SIMPLE }, { 5 } },
	{ "ordered waits and is waited for",
	  { SIMPLE, SIMPLE, ORDERED, SIMPLE, SIMPLE },
	  { 2, 1, 2 } },
	{ "all ordered",
	  { ORDERED, ORDERED, ORDERED, ORDERED, ORDERED },
	  { 1, 1, 1, 1, 1 } },
	{ "head of queue passes",
	  { SIMPLE, ORDERED, HEAD, SIMPLE, SIMPLE },
	  { 2, 1, 2 } },
	{ "head of queue is waited for",
	  { HEAD, SIMPLE, SIMPLE, SIMPLE, SIMPLE },
	  { 1, 4 } },
	{ "ordered waits for head of queue",
	  { HEAD, ORDERED, SIMPLE, ORDERED, SIMPLE },
	  { 1, 1, 1, 1, 1 } },
	{ "the last one is ordered",
	  { SIMPLE, SIMPLE, SIMPLE, SIMPLE, ORDERED },
	  { 4, 1 } },
};

T_ROWS(queue, queue_rows)
{
	const struct queue_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = rig_write(RIG_DISK, 0, 1);
	uint64_t tags[QUEUE];

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	for (unsigned int i = 0; i < QUEUE; i++) {
		cmd.attr = row->attrs[i];
		cmd.cdb[5] = (uint8_t)i;
		tags[i] = send_block(ch, &cmd);
	}
	for (unsigned int i = 0; row->held[i]; i++) {
		assert_int_equal(t_store.held_cnt, row->held[i]);
		rig_release(rig);
	}
	assert_int_equal(t_store.held_cnt, 0);
	for (unsigned int i = 0; i < QUEUE; i++)
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_destroy(rig);
}

static struct rig_cmd attr_write(enum srp_task_attr attr)
{
	struct rig_cmd cmd = rig_write(RIG_DISK, 0, 1);

	cmd.attr = attr;
	return cmd;
}

T_TEST(another_lun_does_not_wait)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd ordered = attr_write(ORDERED);
	struct rig_cmd tur = { .lun = RIG_RAM, .attr = ORDERED };

	rig_clear_ua(ch, RIG_DISK, NULL);
	rig_clear_ua(ch, RIG_RAM, NULL);
	t_store.hold = true;
	send_block(ch, &ordered);
	rig_expect_status(ch, rig_cmd(ch, &tur), SCSI_STATUS_GOOD);
	assert_int_equal(rig_release(rig), 1);
	t_store.hold = false;
	rig_destroy(rig);
}

/* A command that waits for its turn ends at once, and those behind it
 * continue. */
T_TEST(blocked_command_can_be_aborted)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd simple = attr_write(SIMPLE);
	struct rig_cmd ordered = attr_write(ORDERED);
	struct rig_cmd other = rig_write(RIG_DISK, 1, 1);
	uint64_t first, victim, last;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	first = send_block(ch, &simple);
	victim = send_block(ch, &ordered);
	last = send_block(ch, &other);
	assert_int_equal(t_store.held_cnt, 1);
	rig_expect_code(ch, rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, victim),
			SRP_RSP_COMPLETE);
	assert_int_equal(t_store.held_cnt, 2);
	rig_release(rig);
	rig_expect_status(ch, first, SCSI_STATUS_GOOD);
	rig_expect_status(ch, last, SCSI_STATUS_GOOD);
	assert_null(t_ini_rsp(ch, victim));
	t_store.hold = false;
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(reset_ends_blocked_commands_of_all)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *a = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *b = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd ordered = attr_write(ORDERED);
	uint64_t tags[3], reset;

	rig_clear_ua(a, RIG_DISK, NULL);
	rig_clear_ua(b, RIG_DISK, NULL);
	t_store.hold = true;
	for (unsigned int i = 0; i < 3; i++)
		tags[i] = send_block(a, &ordered);
	assert_int_equal(t_store.held_cnt, 1);
	reset = rig_tmf(b, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	rig_expect_status(a, tags[1], SCSI_STATUS_TASK_ABORTED);
	rig_expect_status(a, tags[2], SCSI_STATUS_TASK_ABORTED);
	rig_release(rig);
	assert_int_equal(t_store.held_cnt, 0);
	rig_expect_status(a, tags[0], SCSI_STATUS_TASK_ABORTED);
	rig_expect_code(b, reset, SRP_RSP_COMPLETE);
	t_store.hold = false;
	rig_expect_alive(a);
	rig_destroy(rig);
}

T_TEST(channel_can_go_with_blocked_commands)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd ordered = attr_write(ORDERED);

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	for (unsigned int i = 0; i < 3; i++)
		send_block(ch, &ordered);
	rig_chan_free(ch);
	rig_settle(rig);
	assert_int_equal(rig_release(rig), 1);
	t_store.hold = false;
	rig_destroy(rig);
}

/* ---- requests that the target sends on its own ---- */

static const struct t_ini_iu *find_iu(const struct t_ini *ch, uint8_t opcode,
				      unsigned int nth)
{
	for (unsigned int i = 0; i < ch->iu_cnt; i++) {
		if (ch->ius[i].bytes[0] == opcode && nth-- == 0)
			return &ch->ius[i];
	}
	return NULL;
}

static struct t_ini *login_for_aer(struct rig *rig, unsigned int who)
{
	struct srp_login_req req =
		rig_login_req(rig, who, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch;

	req.aer = true;
	ch = rig_connect(rig, &req);
	assert_true(ch->established);
	return ch;
}

static void answer_aer(struct t_ini *ch, uint64_t tag)
{
	uint8_t iu[SRP_BARE_SIZE];

	srp_bare_encode(iu, sizeof(iu), SRP_AER_RSP, tag);
	rig_send(ch, iu, sizeof(iu));
}

static void grow(struct rig *rig, uint64_t size)
{
	t_store.measures = size;
	assert_int_equal(volume_measure(rig->target.luns.vol[RIG_DISK]), 1);
	port_capacity_changed(&rig->target.port,
			      rig->target.luns.vol[RIG_DISK]);
	rig_settle(rig);
}

T_TEST(growth_is_told_by_a_unit_attention)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t blocks = RIG_SIZE / BLK;
	struct rig_cmd tur = { .lun = RIG_DISK };
	struct rig_cmd read = rig_read(RIG_DISK, (uint32_t)blocks, 0);
	uint16_t asc;

	rig_clear_ua(ch, RIG_DISK, NULL);
	rig_expect_status(ch, rig_cmd(ch, &read), SCSI_STATUS_CHECK_CONDITION);
	grow(rig, RIG_SIZE + BLK + 1);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_CAPACITY_CHANGED);
	rig_expect_status(ch, rig_cmd(ch, &read), SCSI_STATUS_GOOD);
	rig_expect_status(ch, rig_cmd(ch, &tur), SCSI_STATUS_GOOD);
	assert_int_equal(rig->target.luns.vol[RIG_DISK]->blocks, blocks + 1);
	/* ib_srp does not ask for asynchronous events. */
	assert_null(find_iu(ch, SRP_AER_REQ, 0));
	rig_destroy(rig);
}

T_TEST(what_has_not_grown_stays)
{
	struct rig *rig = rig_create(NULL);
	struct volume *vol = rig->target.luns.vol[RIG_DISK];

	assert_int_equal(volume_measure(vol), 0);
	t_store.measures = RIG_SIZE + BLK - 1;
	assert_int_equal(volume_measure(vol), 0);
	t_store.measures = RIG_SIZE - 1;
	assert_true(volume_measure(vol) < 0);
	assert_int_equal(vol->blocks, RIG_SIZE / BLK);
	assert_int_equal(volume_measure(rig->target.luns.vol[RIG_RAM]), 0);
	rig_destroy(rig);
}

static const struct aer_row {
	const char *name;
	bool d_sense;
	uint32_t sense_len;
	unsigned int key_at; /* and the position of the codes */
	unsigned int code_at;
} aer_rows[] = {
	{ "growth is told by an AER", false, 18, 2, 12 },
	{ "growth is told by an AER, D_SENSE", true, 8, 1, 2 },
};

T_ROWS(growth_is_told_by_an_aer_to_who_asks, aer_rows)
{
	const struct aer_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = login_for_aer(rig, 1);
	const struct t_ini_iu *iu;
	struct srp_aer_req aer;
	const uint8_t *sense;

	rig_clear_ua(ch, RIG_DISK, NULL);
	rig->target.luns.vol[RIG_DISK]->info.d_sense = row->d_sense;
	grow(rig, RIG_SIZE + BLK);
	iu = find_iu(ch, SRP_AER_REQ, 0);
	assert_non_null(iu);
	assert_int_equal(srp_aer_req_decode(iu->bytes, iu->len, &aer), 0);
	assert_int_equal(aer.lun, (uint64_t)RIG_DISK << 48);
	assert_int_equal(aer.sense_len, row->sense_len);
	sense = aer.sense;
	assert_int_equal(sense[0], row->d_sense ? 0x72 : 0x70);
	assert_int_equal(sense[row->key_at], 0x06);
	assert_int_equal(sense[row->code_at], 0x2a);
	assert_int_equal(sense[row->code_at + 1], 0x09);
	answer_aer(ch, aer.tag);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(other_active_port_is_told_by_an_aer_to_who_asks)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = login_for_aer(rig, 1);
	const struct t_ini_iu *iu;
	struct srp_aer_req aer;
	const uint8_t *sense;

	rig_clear_ua(ch, RIG_DISK, NULL);
	port_access_changed(&rig->target.port, rig->target.luns.vol[RIG_DISK]);
	rig_settle(rig);
	iu = find_iu(ch, SRP_AER_REQ, 0);
	assert_non_null(iu);
	assert_int_equal(srp_aer_req_decode(iu->bytes, iu->len, &aer), 0);
	assert_int_equal(aer.lun, (uint64_t)RIG_DISK << 48);
	sense = aer.sense;
	assert_int_equal(sense[12], 0x2a);
	assert_int_equal(sense[13], 0x06);
	rig_destroy(rig);
}

T_TEST(aers_come_one_at_a_time)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = login_for_aer(rig, 1);

	rig_clear_ua(ch, RIG_DISK, NULL);
	grow(rig, RIG_SIZE + BLK);
	grow(rig, RIG_SIZE + 2 * BLK);
	grow(rig, RIG_SIZE + 3 * BLK);
	assert_null(find_iu(ch, SRP_AER_REQ, 1));
	answer_aer(ch, 0);
	/* The same event twice is reported once. */
	assert_non_null(find_iu(ch, SRP_AER_REQ, 1));
	answer_aer(ch, 1);
	assert_null(find_iu(ch, SRP_AER_REQ, 2));
	rig_destroy(rig);
}

T_TEST(aer_waits_for_the_first_command)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = login_for_aer(rig, 1);

	grow(rig, RIG_SIZE + BLK);
	assert_null(find_iu(ch, SRP_AER_REQ, 0));
	rig_clear_ua(ch, RIG_DISK, NULL);
	assert_non_null(find_iu(ch, SRP_AER_REQ, 0));
	rig_destroy(rig);
}

T_TEST(wrong_answer_to_an_aer_closes)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = login_for_aer(rig, 1);
	uint8_t iu[SRP_BARE_SIZE];

	rig_clear_ua(ch, RIG_DISK, NULL);
	grow(rig, RIG_SIZE + BLK);
	srp_bare_encode(iu, sizeof(iu), SRP_CRED_RSP, 0);
	rig_send(ch, iu, sizeof(iu));
	assert_true(ch->closed);
	rig_destroy(rig);
}

T_TEST(stop_is_told_by_a_logout)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	const struct t_ini_iu *iu;
	struct srp_t_logout logout;
	uint64_t last;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	last = write_block(ch, 0);
	port_stop(&rig->target.port);
	rig_settle(rig);
	assert_null(find_iu(ch, SRP_T_LOGOUT, 0));
	rig_release(rig);
	rig_expect_status(ch, last, SCSI_STATUS_GOOD);
	iu = find_iu(ch, SRP_T_LOGOUT, 0);
	assert_non_null(iu);
	assert_ptr_equal(iu, &ch->ius[ch->iu_cnt - 1]);
	assert_int_equal(srp_t_logout_decode(iu->bytes, iu->len, &logout), 0);
	assert_int_equal(logout.reason, SRP_LOGOUT_NONE);
	assert_true(ch->closed);
	t_store.hold = false;
	rig_destroy(rig);
}

T_TEST(idle_login_gets_no_logout)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	port_stop(&rig->target.port);
	rig_settle(rig);
	assert_int_equal(ch->iu_cnt, 0);
	assert_true(ch->closed);
	rig_destroy(rig);
}

/* ---- IMMED ---- */

static const struct rig_cmd sync_immed = { .lun = RIG_DISK,
					   .cdb = { 0x35, 0x02 } };

static struct t_ini *flushing(struct rig *rig, uint64_t *ret_tag)
{
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	*ret_tag = rig_cmd(ch, &sync_immed);
	return ch;
}

T_TEST(immed_is_answered_while_the_disk_flushes)
{
	struct rig *rig = rig_create(NULL);
	uint64_t tag;
	struct t_ini *ch = flushing(rig, &tag);

	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(t_store.held_cnt, 1);
	rig_expect_alive(ch);
	rig_release(rig);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

/* No command waits for its turn behind one that is answered. */
T_TEST(answered_command_is_out_of_the_queue)
{
	struct rig *rig = rig_create(NULL);
	uint64_t tag;
	struct t_ini *ch = flushing(rig, &tag);
	struct rig_cmd cmd = rig_write(RIG_DISK, 0, 1);

	cmd.attr = ORDERED;
	send_block(ch, &cmd);
	assert_int_equal(t_store.held_cnt, 2);
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(task_management_does_not_await_the_flush)
{
	struct rig *rig = rig_create(NULL);
	uint64_t tag, tmf;
	struct t_ini *ch = flushing(rig, &tag);

	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(new_login_does_not_await_the_flush)
{
	const struct rig_cmd sync = { .lun = RIG_DISK, .cdb = { 0x35 } };
	struct rig *rig = rig_create(NULL);
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *next;
	uint64_t tag;

	rig_cmd(flushing(rig, &tag), &sync);
	next = rig_connect(rig, &req);
	assert_true(next->established);
	rig_release(rig);
	rig_destroy(rig);
}

/* Other commands still get requests, however many the disk holds. */
T_TEST(only_so_many_are_answered_early)
{
	struct rig *rig = rig_create(NULL);
	uint64_t tag;
	struct t_ini *ch = flushing(rig, &tag);

	for (unsigned int i = 1; i < CHANNEL_LINGERING; i++)
		rig_expect_status(ch, rig_cmd(ch, &sync_immed),
				  SCSI_STATUS_GOOD);
	tag = rig_cmd(ch, &sync_immed);
	assert_null(t_ini_rsp(ch, tag));
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	assert_int_equal(t_store.held_cnt, 0);
	rig_expect_status(ch, rig_cmd(ch, &sync_immed), SCSI_STATUS_GOOD);
	rig_release(rig);
	rig_destroy(rig);
}

/* ---- jobs ---- */

static const struct rig_cmd format = { .lun = RIG_DISK, .cdb = { 0x04 } };

struct formatting {
	struct rig *rig;
	struct t_ini *ch;
	uint64_t tag;
};

/* Starts FORMAT UNIT without IMMED. The disk has one piece of it. */
static struct formatting formatting(void)
{
	struct formatting f = { .rig = rig_create(NULL) };

	f.ch = rig_login(f.rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(f.ch, RIG_DISK, NULL);
	t_store.hold = true;
	f.tag = rig_cmd(f.ch, &format);
	assert_int_equal(t_store.held_cnt, 1);
	assert_null(t_ini_rsp(f.ch, f.tag));
	return f;
}

static void let_format_end(struct formatting *f)
{
	const struct volume *vol = f->rig->target.luns.vol[RIG_DISK];

	assert_int_equal(volume_state(vol), VOLUME_FORMATTING);
	t_store.hold = false;
	rig_release(f->rig);
	assert_int_equal(volume_state(vol), VOLUME_READY);
	rig_destroy(f->rig);
}

T_TEST(aborted_command_leaves_its_job)
{
	struct formatting f = formatting();

	rig_expect_code(f.ch,
			rig_tmf(f.ch, SRP_TSK_ABORT_TASK, RIG_DISK, f.tag),
			SRP_RSP_COMPLETE);
	assert_null(t_ini_rsp(f.ch, f.tag));
	let_format_end(&f);
}

T_TEST(who_formats_is_told_of_anothers_reset)
{
	struct formatting f = formatting();
	struct t_ini *b = rig_login(f.rig, 2, SRP_MULTICHAN_SINGLE);

	rig_expect_code(b, rig_tmf(b, SRP_TSK_LUN_RESET, RIG_DISK, 0),
			SRP_RSP_COMPLETE);
	rig_expect_status(f.ch, f.tag, SCSI_STATUS_TASK_ABORTED);
	rig_chan_free(b);
	let_format_end(&f);
}

/* A new login must not wait for hours. */
T_TEST(new_login_does_not_wait_for_a_job)
{
	struct formatting f = formatting();
	struct t_ini *old = f.ch;

	f.ch = rig_login(f.rig, 1, SRP_MULTICHAN_SINGLE);
	rig_chan_free(old);
	let_format_end(&f);
}

static const struct early_row {
	const char *name;
	struct rig_cmd cmd;
} early_rows[] = {
	{ "FORMAT UNIT", { .lun = RIG_DISK, .cdb = { 0x04 } } },
	{ "SANITIZE", { .lun = RIG_DISK, .cdb = { 0x48, 0x02 } } },
	{ "SANITIZE, IMMED", { .lun = RIG_DISK, .cdb = { 0x48, 0x82 } } },
};

static void have_turn(struct unit_turn *turn, int err)
{
}

/* Another command has its turn: the job has not changed the medium yet. */
T_ROWS(job_aborted_before_its_turn_does_not_begin, early_rows)
{
	const struct early_row *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct volume *vol = rig->target.luns.vol[RIG_DISK];
	struct unit_turn turn;
	uint64_t tag;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	unit_turn_take(vol, &rig->target.workers[0].block, &turn, have_turn);
	tag = rig_cmd(ch, &row->cmd);
	assert_null(t_ini_rsp(ch, tag));
	assert_int_not_equal(volume_state(vol), VOLUME_READY);
	rig_expect_code(ch, rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag),
			SRP_RSP_COMPLETE);
	unit_turn_end(vol);
	rig_settle(rig);
	assert_int_equal(t_store.held_cnt, 0);
	assert_int_equal(volume_state(vol), VOLUME_READY);
	assert_null(t_ini_rsp(ch, tag));
	t_store.hold = false;
	rig_destroy(rig);
}

/* ---- sense data ---- */

/* Refusals by the port are also in the format that D_SENSE selects. */
T_TEST(refusals_of_the_port_go_by_d_sense)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = { .lun = RIG_DISK, .attr = SRP_TASK_ACA };
	const struct srp_rsp *rsp;
	const uint8_t *sense;

	rig_clear_ua(ch, RIG_DISK, NULL);
	for (int d_sense = 0; d_sense < 2; d_sense++) {
		rig->target.luns.vol[RIG_DISK]->info.d_sense = d_sense;
		rsp = t_ini_rsp(ch, rig_cmd(ch, &cmd));
		assert_non_null(rsp);
		assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
		sense = rsp->sense;
		assert_int_equal(sense[0], d_sense ? 0x72 : 0x70);
		assert_int_equal(sense[d_sense ? 2 : 12], 0x49);
	}
	rig_destroy(rig);
}
