/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that do not complete, in every state that they can be in: task
 * management, and peers that leave. See tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <string.h>

#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* ---- task management ---- */

/* The state of the command when the function arrives. */
enum where {
	WAITING,    /* it waits for a buffer */
	READING,    /* the target is reading its descriptor table */
	READ,	    /* the table has come; the command waits for a buffer */
	FETCHING,   /* the target is reading its data-out */
	EXECUTING,  /* the disk has it */
	IN_ITS_IU,  /* the same, and the data of the disk is in the IU */
	FLUSHING,   /* the disk has it, and it is a SYNCHRONIZE CACHE */
	ABORTING,   /* the disk has it, and ABORT TASK has ended it */
	RESPONDING, /* the target is sending its response */
	DONE,	    /* it is answered */
	NOWHERE,    /* it was never sent */
	WHERES,
};

static const char *const where_names[WHERES] = {
	[WAITING] = "waiting",	     [READING] = "reading",
	[READ] = "table read",	     [FETCHING] = "fetching",
	[EXECUTING] = "executing",   [IN_ITS_IU] = "executing from its IU",
	[FLUSHING] = "flushing",     [ABORTING] = "being aborted",
	[RESPONDING] = "responding", [DONE] = "done",
	[NOWHERE] = "unknown",
};

enum asker {
	SAME_CHANNEL,
	SAME_NEXUS, /* another channel of it */
	OTHER_NEXUS,
	ASKERS,
};

static const char *const asker_names[ASKERS] = {
	"same channel",
	"same nexus",
	"other nexus",
};

static const struct {
	const char *name;
	uint8_t function;
} functions[] = {
	{ "ABORT TASK", SRP_TSK_ABORT_TASK },
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET },
	{ "LUN RESET", SRP_TSK_LUN_RESET },
	{ "CLEAR ACA", SRP_TSK_CLEAR_ACA },
	{ "unknown function", 0x7f },
};

/* Every function in every state, from every kind of sender. */
struct tmf_case {
	const char *name; /* text */
	char text[64];
	uint8_t function;
	enum where where;
	enum asker asker;
};

static struct tmf_case tmf_cases[ARRAY_SIZE(functions) * WHERES * ASKERS];

T_AT_START make_tmf_cases(void)
{
	struct tmf_case *row = tmf_cases;

	for (size_t f = 0; f < ARRAY_SIZE(functions); f++)
		for (int where = 0; where < WHERES; where++)
			for (int asker = 0; asker < ASKERS; asker++, row++) {
				snprintf(row->text, sizeof(row->text),
					 "%s, %s, %s", functions[f].name,
					 where_names[where],
					 asker_names[asker]);
				row->name = row->text;
				row->function = functions[f].function;
				row->where = (enum where)where;
				row->asker = (enum asker)asker;
			}
}

static bool is_refused(const struct tmf_case *row)
{
	return row->function == SRP_TSK_CLEAR_ACA || row->function == 0x7f;
}

/* True if the function affects the command. */
static bool is_covered(const struct tmf_case *row)
{
	switch (row->function) {
	case SRP_TSK_ABORT_TASK:
		return row->asker == SAME_CHANNEL;
	case SRP_TSK_ABORT_TASK_SET:
	case SRP_TSK_CLEAR_TASK_SET:
		return row->asker != OTHER_NEXUS;
	default:
		return !is_refused(row);
	}
}

/* True if this function, or the one before it, ends the command. */
static bool is_ended(const struct tmf_case *row)
{
	return row->where == ABORTING ||
	       (row->where < ABORTING && is_covered(row));
}

/* Takes all data buffers, to make the next command wait. */
static void *take_buffers(struct rig *rig)
{
	struct arena *a = rig->target.workers[0].arena;

	return arena_get(a, arena_len(a));
}

static const struct rig_cmd synchronize = { .lun = RIG_DISK, .cdb = { 0x35 } };

/* Sends a write of 0x5a to LBA 7, or what flushes, and brings it into the state @where. Returns
 * its tag. */
static uint64_t bring(struct rig *rig, struct t_ini *ch, enum where where,
		      void **ret_block)
{
	bool waits = where == WAITING || where == READ;

	*ret_block = waits ? take_buffers(rig) : NULL;
	if (where == READING || where == FETCHING || where == RESPONDING)
		t_fabric_hold_completions(rig->hub, true);
	if (where >= EXECUTING && where <= ABORTING)
		t_store.hold = true;
	if (where == NOWHERE)
		return 0xdeadbeef;
	if (where == FLUSHING)
		return rig_cmd(ch, &synchronize);
	if (where == RESPONDING || where == IN_ITS_IU) {
		/* With immediate data, the command needs no completion
		 * first. */
		struct rig_cmd w = rig_write(RIG_DISK, 7, 1);

		memset(rig->mem, 0x5a, BLK);
		return rig_send_rw(ch, &w, RIG_IMMEDIATE, 0, BLK);
	}
	if (where == READING || where == READ) {
		struct rig_cmd w = rig_write(RIG_DISK, 7, 64);

		memset(rig->mem, 0x5a, 64 * BLK);
		return rig_send_rw(ch, &w, RIG_PARTIAL, 0, 64 * BLK);
	}
	return rig_send_write(ch, 7, 0x5a);
}

static void let_go(struct rig *rig, enum where where, void *block)
{
	arena_put(rig->target.workers[0].arena, block);
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	t_store.hold = false;
	rig_release(rig);
	rig_settle(rig);
}

/* True if the function must wait for the command before its answer: the fabric
 * has it. It never waits for the disk. */
static bool must_await(const struct tmf_case *row)
{
	switch (row->where) {
	case READING:
	case FETCHING:
		return is_covered(row);
	case RESPONDING:
		return is_covered(row) && row->asker != OTHER_NEXUS;
	default:
		return false;
	}
}

static int sum_of_deltas(const struct t_ini *ch)
{
	struct srp_rsp rsp;
	int sum = 0;

	for (unsigned int i = 0; i < ch->iu_cnt; i++) {
		struct srp_cred_req cred;

		if (!srp_rsp_decode(ch->ius[i].bytes, ch->ius[i].len, &rsp))
			sum += rsp.req_lim_delta;
		else if (!srp_cred_req_decode(ch->ius[i].bytes, ch->ius[i].len,
					      &cred))
			sum += cred.req_lim_delta;
	}
	return sum;
}

static void check_ended(const struct tmf_case *row, struct t_ini *ch,
			uint64_t tag)
{
	bool silent = row->where == ABORTING || row->asker != OTHER_NEXUS;

	if (row->where == NOWHERE || (is_ended(row) && silent))
		assert_null(t_ini_rsp(ch, tag));
	else
		rig_expect_status(ch, tag,
				  is_ended(row) ? SCSI_STATUS_TASK_ABORTED
						: SCSI_STATUS_GOOD);
}

/* Data that the disk had is on the medium. Data of commands that ended before
 * must never get there. */
static void check_medium(const struct tmf_case *row)
{
	bool had = row->where == EXECUTING || row->where == IN_ITS_IU ||
		   row->where == ABORTING;

	if (row->where == NOWHERE || row->where == FLUSHING ||
	    (is_ended(row) && !had))
		assert_int_equal(t_store.bytes[7 * BLK], 0);
	else
		assert_int_equal(t_store.bytes[7 * BLK], 0x5a);
}

T_ROWS(tmf_in_every_state, tmf_cases)
{
	const struct tmf_case *row = *state;
	uint8_t code =
		is_refused(row) ? SRP_RSP_TMF_NOT_SUPPORTED : SRP_RSP_COMPLETE;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct t_ini *const askers[ASKERS] = { ch, second, other };
	struct t_ini *asks = askers[row->asker];
	uint64_t first = 0;
	uint64_t tag;
	uint64_t tmf;
	void *block;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	tag = bring(rig, ch, row->where, &block);
	if (row->where == ABORTING)
		first = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	tmf = rig_tmf(asks, row->function, RIG_DISK, tag);
	if (must_await(row))
		assert_null(t_ini_rsp(asks, tmf));
	else
		rig_expect_code(asks, tmf, code);
	if ((row->where == EXECUTING || row->where == FLUSHING) &&
	    is_ended(row))
		check_ended(row, ch, tag);
	let_go(rig, row->where, block);
	rig_expect_code(asks, tmf, code);
	if (first)
		rig_expect_code(ch, first, SRP_RSP_COMPLETE);
	check_ended(row, ch, tag);
	check_medium(row);
	/* Every request that was sent has given its credit back. */
	assert_int_equal(sum_of_deltas(ch), ch->next_tag - 0x1000);
	assert_int_equal(t_port_used(&rig->target), 0);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(abort_ends_no_other_command)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tags[3];
	uint64_t tmf;

	rig_expect_alive(ch);
	t_store.hold = true;
	for (int i = 0; i < 3; i++)
		tags[i] = rig_send_write(ch, (uint32_t)i, 1);
	tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tags[1]);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(ch, tags[0], SCSI_STATUS_GOOD);
	assert_null(t_ini_rsp(ch, tags[1]));
	rig_expect_status(ch, tags[2], SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(reset_leaves_other_luns_alone)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rig_send_write(ch, 1, 1);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_RAM, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(later_commands_do_not_count_for_a_reset)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd tur = { .lun = RIG_DISK };
	uint64_t later;
	uint64_t tmf;

	rig_expect_alive(ch);
	t_fabric_hold_completions(rig->hub, true);
	rig_send_write(ch, 1, 1);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	later = rig_cmd(ch, &tur);
	assert_non_null(t_ini_rsp(ch, later));
	assert_null(t_ini_rsp(ch, tmf));
	let_go(rig, FETCHING, NULL);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_destroy(rig);
}

static const struct tmf_code {
	const char *name;
	uint8_t function;
	unsigned int lun;
	uint8_t code;
} tmf_codes[] = {
	{ "CLEAR ACA", SRP_TSK_CLEAR_ACA, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "unknown function", 0x7f, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "no function", 0, 0, SRP_RSP_TMF_NOT_SUPPORTED },
	{ "LUN RESET of no LUN", SRP_TSK_LUN_RESET, 77,
	  SRP_RSP_FIELDS_INVALID },
	{ "ABORT TASK SET of no LUN", SRP_TSK_ABORT_TASK_SET, 300,
	  SRP_RSP_FIELDS_INVALID },
};

T_ROWS(tmf_that_cannot_be_is_refused, tmf_codes)
{
	const struct tmf_code *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tmf;

	rig_expect_alive(ch);
	tmf = rig_tmf(ch, row->function, row->lun, 1);
	rig_expect_code(ch, tmf, row->code);
	assert_int_equal(ch->ius[ch->iu_cnt - 1].len, SRP_RSP_TMF_SIZE);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

T_TEST(aborted_command_returns_its_credit_with_the_answer)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rig_send_write(ch, 0, 1);
	tmf = rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	t_store.hold = false;
	rig_release(rig);
	assert_int_equal(t_ini_rsp(ch, tmf)->req_lim_delta, 2);
	rig_destroy(rig);
}

T_TEST(reset_leaves_one_unit_attention_for_each)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	uint16_t asc = 0;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	assert_int_equal(rig_clear_ua(other, RIG_RAM, &asc), 0);
	assert_int_equal(rig_clear_ua(other, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_DEVICE_RESET);
	assert_int_equal(rig_clear_ua(second, RIG_DISK, &asc), 1);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 0);
	rig_destroy(rig);
}

static const struct unread_case {
	const char *name;
	uint8_t function;
} unread_cases[] = {
	{ "LUN RESET", SRP_TSK_LUN_RESET },
	{ "ABORT TASK SET", SRP_TSK_ABORT_TASK_SET },
	{ "CLEAR TASK SET", SRP_TSK_CLEAR_TASK_SET },
};

/* The initiator sends its commands again after the answer, and newer ones. What lay unread
 * on another channel, whose worker did not run, must not follow. */
T_ROWS(function_covers_what_lies_unread, unread_cases)
{
	const struct unread_case *c = *state;
	struct rig *rig = rig_create(&(struct rig_options){ .workers = 2 });
	struct t_ini *a = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *b = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	uint64_t writes[2], function;

	rig_expect_alive(a);
	rig_expect_alive(b);
	rig->target.worker_cnt = 1;
	for (unsigned int i = 0; i < ARRAY_SIZE(writes); i++)
		writes[i] = rig_send_write(b, 0, 1);
	function = rig_tmf(a, c->function, RIG_DISK, 0);
	reactor_skip(rig->target.workers[1].reactor, 3 * XP_SIGN_MS);
	rig->target.worker_cnt = 2;
	rig_settle(rig);
	rig_expect_code(a, function, SRP_RSP_COMPLETE);
	/* One may have got the unit attention. */
	for (unsigned int i = 0; i < ARRAY_SIZE(writes); i++) {
		const struct srp_rsp *rsp = t_ini_rsp(b, writes[i]);

		assert_true(!rsp || rsp->status != SCSI_STATUS_GOOD);
	}
	rig_expect_alive(b);
	rig_destroy(rig);
}

/* A reset ends commands on another channel that has no other work. Their
 * credits come with SRP_CRED_REQ, and the next SRP_CRED_REQ comes only after
 * the answer to the first. */
T_TEST(reset_returns_credits_of_other_channels)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	struct srp_cred_req cred;
	uint8_t answer[SRP_BARE_SIZE];
	unsigned int before;

	rig_expect_alive(ch);
	for (int round = 0; round < 2; round++) {
		t_store.hold = true;
		before = second->iu_cnt;
		for (int i = 0; i < 3; i++)
			rig_send_write(second, (uint32_t)i, 1);
		rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
		t_store.hold = false;
		rig_release(rig);
		if (round == 1)
			break;
		assert_int_equal(second->iu_cnt, before + 1);
		assert_int_equal(srp_cred_req_decode(second->ius[before].bytes,
						     second->ius[before].len,
						     &cred),
				 0);
		assert_int_equal(cred.req_lim_delta, 3);
		rig_clear_ua(ch, RIG_DISK, NULL);
	}
	/* The first SRP_CRED_REQ has no answer yet. */
	assert_int_equal(second->iu_cnt, before);
	srp_bare_encode(answer, sizeof(answer), SRP_CRED_RSP, cred.tag);
	rig_send(second, answer, sizeof(answer));
	assert_int_equal(second->iu_cnt, before + 1);
	rig_expect_alive(second);
	rig_destroy(rig);
}

static int32_t cred_req_delta(const struct t_ini *ch, unsigned int nth,
			      uint64_t *ret_tag)
{
	struct srp_cred_req cred;

	assert_int_equal(ch->iu_cnt, nth + 1);
	assert_int_equal(srp_cred_req_decode(ch->ius[nth].bytes,
					     ch->ius[nth].len, &cred),
			 0);
	*ret_tag = cred.tag;
	return cred.req_lim_delta;
}

/* The disk hangs. The initiator can go on at once: it gets the credits of those that
 * a function on another channel has ended. */
T_TEST(credits_do_not_wait_for_the_disk)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *second = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	const int cnt = CHANNEL_REQ_LIM - 2;
	unsigned int before;
	uint64_t cred;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_expect_alive(second);
	before = second->iu_cnt;
	t_store.hold = true;
	for (int i = 0; i < cnt; i++)
		rig_send_write(second, (uint32_t)i, 1);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	assert_int_equal(t_store.held_cnt, cnt);
	assert_int_equal(cred_req_delta(second, before, &cred), cnt);
	t_store.hold = false;
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(reset_spans_all_workers)
{
	struct rig_options opt = { .workers = 2 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	uint64_t tag;
	uint64_t tmf;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	t_store.hold = true;
	tag = rig_send_write(other, 3, 0x77);
	tmf = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0xffffffff);
	rig_expect_code(ch, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(other, tag, SCSI_STATUS_TASK_ABORTED);
	t_store.hold = false;
	rig_release(rig);
	rig_destroy(rig);
}

T_TEST(channel_may_close_while_its_command_lingers)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rig_send_write(ch, 3, 0x77);
	rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	rig_chan_free(ch);
	assert_int_equal(rig->target.port.login_cnt, 0);
	assert_int_equal(rig->target.port.closed_cnt, 1);
	t_store.hold = false;
	rig_release(rig);
	assert_int_equal(rig->target.port.closed_cnt, 0);
	rig_destroy(rig);
}

/* ---- memory for what lingers ---- */

/* A store that does not answer gets no more commands. Other volumes go on. */
T_TEST(stuck_volume_does_not_get_all_requests)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd ram = rig_write(RIG_RAM, 0, 1);
	uint64_t tag;

	rig_clear_ua(ch, RIG_DISK, NULL);
	rig_clear_ua(ch, RIG_RAM, NULL);
	t_store.hold = true;
	for (uint32_t i = 0; i < REQUEST_LINGERING_MAX; i++) {
		tag = rig_send_write(ch, i, 1);
		rig_expect_code(ch,
				rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag),
				SRP_RSP_COMPLETE);
	}
	rig_expect_status(ch, rig_send_write(ch, 100, 1), SCSI_STATUS_BUSY);
	rig_expect_status(ch, rig_cmd(ch, &synchronize), SCSI_STATUS_BUSY);
	rig_expect_alive(ch);
	rig_expect_status(ch, rig_send_rw(ch, &ram, RIG_DIRECT, 0, BLK),
			  SCSI_STATUS_GOOD);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, rig_send_write(ch, 100, 1), SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* Its initiator has half of the memory there, and gets another block. */
T_TEST(lingering_command_does_not_count_for_its_initiator)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd large = rig_read(RIG_DISK, 0, 4096);
	struct rig_cmd next = rig_read(RIG_DISK, 4096, 2048);
	uint64_t tag;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	tag = rig_send_rw(ch, &large, RIG_DIRECT, 0, 4096 * BLK);
	rig_send_rw(ch, &next, RIG_DIRECT, 0, 2048 * BLK);
	assert_int_equal(t_store.held_cnt, 1);
	rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	assert_int_equal(t_store.held_cnt, 2);
	t_store.hold = false;
	rig_release(rig);
	rig_destroy(rig);
}

/* ---- peers that leave ---- */

T_TEST(peer_may_leave_at_any_moment)
{
	for (int where = WAITING; where <= RESPONDING; where++) {
		struct rig *rig = rig_create(NULL);
		struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
		void *block;

		rig_expect_alive(ch);
		bring(rig, ch, (enum where)where, &block);
		t_fabric_break(ch->xp);
		rig_settle(rig);
		let_go(rig, (enum where)where, block);
		assert_int_equal(t_port_used(&rig->target), 0);
		assert_int_equal(rig->target.port.login_cnt, 0);
		rig_chan_free(ch);
		rig_destroy(rig);
	}
}
