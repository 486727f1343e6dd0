/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of a write when something happens to it, to its initiator or to its
 * volume: each event in each state of the write. docs/evidence/reliability.md has the
 * same table ("Each event in each state of a write").
 *
 * Initiator A sends the write by a channel of worker 1. Initiator B, on worker 0, may be
 * another host, or another path of the same one: the target does not know. When the event
 * is over, B writes the same block, and this newer data must stay.
 */
#include "tests/lib/t_rig.h"

#include <stdio.h>
#include <string.h>

#include "protocol/wire.h"
#include "target/port/port_change.h"
#include "target/port/task_mgmt.h"
#include "tests/lib/t_table.h"

#define BLK   RIG_BLOCK
#define LBA   7
#define OLD   0x11
#define NEW   0x22
#define KEY_A 1
#define KEY_B 2

/* The state of the write when the event comes. */
enum where {
	UNREAD,	    /* in the connection: its worker stands still */
	UNREAD_RAM, /* the same, and its data would move in place */
	TURN,	    /* its task attribute lets it wait for an older command */
	BLOCKS,	    /* an older write has its blocks */
	FETCHING,
	STORE,	  /* the store has it */
	IN_PLACE, /* RDMA moves its data into the memory of the volume */
	WHERES,
};

static const char *const where_names[WHERES] = {
	[UNREAD] = "unread",	 [UNREAD_RAM] = "unread, in place",
	[TURN] = "for its turn", [BLOCKS] = "for blocks",
	[FETCHING] = "fetching", [STORE] = "in the store",
	[IN_PLACE] = "in place",
};

/* What becomes of it. */
enum end {
	NEVER,	 /* this cannot be */
	SILENT,	 /* ends without an answer */
	ABORTED, /* TASK ABORTED */
	REFUSED, /* CHECK CONDITION or RESERVATION CONFLICT: it has done nothing */
	GOES_ON, /* GOOD */
	END_MASK = 7,
	LATER = 8, /* the event is over only when the worker, fabric or store goes on */
};

struct scene {
	struct rig *rig;
	struct t_ini *b;
	struct t_ini *a;
	struct t_ini *a_second; /* on worker 0 */
	enum where where;
	enum rig_how how;
	unsigned int lun;
	struct volume *vol;
	uint64_t older, write, newer;
	/* what the event needs */
	uint64_t tag;
	struct t_ini *login;
	struct task_mgmt_eviction eviction;
	bool evicted;
	bool b_writes; /* B can write afterwards */
};

/* ---- commands ---- */

static uint64_t send_list(struct scene *s, struct t_ini *ch, const uint8_t *cdb,
			  const void *list, uint32_t len)
{
	struct rig_cmd cmd = { .lun = s->lun };

	memcpy(cmd.cdb, cdb, sizeof(cmd.cdb));
	if (len) {
		cmd.out.format = SRP_DATA_IMMEDIATE;
		cmd.out.imm_len = len;
		cmd.out.imm_offset = SRP_IMM_OFFSET;
		cmd.imm = list;
	}
	return rig_cmd(ch, &cmd);
}

static uint64_t persistent_out(struct scene *s, struct t_ini *ch,
			       uint8_t action, uint64_t key,
			       uint64_t action_key)
{
	const uint8_t cdb[16] = { 0x5f, action,
				  5 /* registrants only */, [8] = 24 };
	uint8_t list[24] = { 0 };

	wire_put64(list, key);
	wire_put64(list + 8, action_key);
	return send_list(s, ch, cdb, list, sizeof(list));
}

static uint64_t send_write(struct scene *s, struct t_ini *ch, uint32_t lba,
			   enum srp_task_attr attr, uint8_t byte)
{
	struct rig_cmd cmd = rig_write(s->lun, lba, 1);
	size_t at = (size_t)byte * BLK;

	cmd.attr = attr;
	memset(s->rig->mem + at, byte, BLK);
	return rig_send_rw(ch, &cmd, s->how, at, BLK);
}

/* ---- the state ---- */

static bool is_unread(const struct scene *s)
{
	return s->where == UNREAD || s->where == UNREAD_RAM;
}

static void begin(struct scene *s, enum where where, bool shared)
{
	struct rig_options opt = { .workers = 2,
				   .removable = !shared,
				   .shared = shared };

	*s = (struct scene){ .where = where, .b_writes = true };
	/* The target needs nothing more from the initiator. */
	s->how = where == UNREAD ? RIG_IMMEDIATE : RIG_DIRECT;
	s->lun = where == IN_PLACE || where == UNREAD_RAM ? RIG_RAM : RIG_DISK;
	s->rig = rig_create(&opt);
	s->vol = s->rig->target.luns.vol[s->lun];
	s->b = rig_login(s->rig, 2, SRP_MULTICHAN_SINGLE);
	s->a = rig_login(s->rig, 1, SRP_MULTICHAN_SINGLE);
	s->a_second = rig_login(s->rig, 1, SRP_MULTICHAN_MULTI);
	rig_clear_ua(s->a, s->lun, NULL);
	rig_clear_ua(s->b, s->lun, NULL);
}

static void bring(struct scene *s)
{
	enum srp_task_attr attr = SRP_TASK_SIMPLE;
	bool by_fabric = s->where == FETCHING || s->where == IN_PLACE;

	t_store.hold =
		s->where == TURN || s->where == BLOCKS || s->where == STORE;
	if (s->where == TURN) {
		s->older = send_write(s, s->a, 100, SRP_TASK_SIMPLE, 3);
		attr = SRP_TASK_ORDERED;
	} else if (s->where == BLOCKS) {
		s->older = send_write(s, s->b, LBA, SRP_TASK_SIMPLE, 3);
	}
	if (is_unread(s))
		s->rig->target.worker_cnt = 1;
	t_fabric_hold_completions(s->rig->hub, by_fabric);
	s->write = send_write(s, s->a, LBA, attr, OLD);
	assert_null(t_ini_rsp(s->a, s->write));
}

static void let_go(struct scene *s)
{
	if (is_unread(s)) {
		reactor_skip(s->rig->target.workers[1].reactor, 3 * XP_SIGN_MS);
		s->rig->target.worker_cnt = 2;
	}
	t_fabric_let_go(s->rig->hub, UINT32_MAX);
	t_store.hold = false;
	rig_release(s->rig);
}

/* ---- the events ---- */

static void abort_task(struct scene *s)
{
	s->tag = rig_tmf(s->a, SRP_TSK_ABORT_TASK, s->lun, s->write);
}

static bool abort_task_is_over(const struct scene *s)
{
	return t_ini_rsp(s->a, s->tag);
}

static void abort_task_set(struct scene *s)
{
	s->tag = rig_tmf(s->a_second, SRP_TSK_ABORT_TASK_SET, s->lun, 0);
}

static bool abort_task_set_is_over(const struct scene *s)
{
	return t_ini_rsp(s->a_second, s->tag);
}

static void lun_reset(struct scene *s)
{
	s->tag = rig_tmf(s->b, SRP_TSK_LUN_RESET, s->lun, 0);
}

static bool b_is_answered(const struct scene *s)
{
	return t_ini_rsp(s->b, s->tag);
}

/* If the write is unread, it lies before the end. */
static void lose_connection(struct scene *s)
{
	if (is_unread(s))
		xp_close(s->a->xp);
	else
		t_fabric_break(s->a->xp);
	rig_settle(s->rig);
}

static bool is_over(const struct scene *s)
{
	return true;
}

static void log_in_again(struct scene *s)
{
	struct srp_login_req req =
		rig_login_req(s->rig, 1, SRP_MULTICHAN_SINGLE);

	s->login = rig_connect(s->rig, &req);
}

static bool is_logged_in(const struct scene *s)
{
	return s->login->established;
}

static void stand_still(struct scene *s)
{
	reactor_skip(s->rig->target.workers[1].reactor, 3 * XP_SIGN_MS);
}

static void register_both(struct scene *s)
{
	rig_expect_status(s->a, persistent_out(s, s->a, 0, 0, KEY_A), 0);
	rig_expect_status(s->b, persistent_out(s, s->b, 0, 0, KEY_B), 0);
	rig_expect_status(s->b, persistent_out(s, s->b, 1, KEY_B, 0), 0);
}

static void preempt_and_abort(struct scene *s)
{
	s->tag = persistent_out(s, s->b, 5, KEY_B, KEY_A);
}

static void register_b(struct scene *s)
{
	rig_expect_status(s->b, persistent_out(s, s->b, 0, 0, KEY_B), 0);
}

static void reserve(struct scene *s)
{
	s->tag = persistent_out(s, s->b, 1, KEY_B, 0);
}

static void eject(struct scene *s)
{
	static const uint8_t cdb[16] = { 0x1b, [4] = 2 };

	s->tag = send_list(s, s->b, cdb, NULL, 0);
	s->b_writes = false;
}

static void on_evicted(struct task_mgmt_eviction *ev)
{
	container_of(ev, struct scene, eviction)->evicted = true;
}

static void remove_volume(struct scene *s)
{
	struct port *port = &s->rig->target.port;

	s->eviction.done = on_evicted;
	assert_int_equal(task_mgmt_evict_prepare(port, s->vol, &s->eviction),
			 0);
	port_volume_leaves(port, s->vol);
	task_mgmt_evict(&s->eviction);
	rig_settle(s->rig);
	s->b_writes = false;
}

static bool is_removed(const struct scene *s)
{
	return s->evicted;
}

static void bring_volume_back(struct scene *s)
{
	struct t_port *t = &s->rig->target;
	struct error e;

	port_volume_gone(&t->port, s->vol);
	for (unsigned int i = 0; i < t->worker_cnt; i++) {
		worker_remove_volume(&t->workers[i], s->vol);
		assert_int_equal(worker_add_volume(&t->workers[i], s->vol, &e),
				 0);
	}
	s->vol->leaving = false;
	port_volume_added(&t->port, s->vol);
}

static void stop_target(struct scene *s)
{
	port_stop(&s->rig->target.port);
	rig_settle(s->rig);
	s->b_writes = false;
}

static bool is_stopped(const struct scene *s)
{
	return s->rig->target.stopped;
}

static void another_serves(struct scene *s)
{
	t_store.epoch += 2;
}

static const struct event {
	const char *name;
	void (*before)(struct scene *s);
	void (*begin)(struct scene *s);
	bool (*is_over)(const struct scene *s);
	bool shared;
	unsigned int ends[WHERES];
} events[] = {
	{ "ABORT TASK",
	  NULL,
	  abort_task,
	  abort_task_is_over,
	  false,
	  { NEVER, NEVER, SILENT, SILENT, SILENT | LATER, SILENT,
	    SILENT | LATER } },
	{ "ABORT TASK SET by another channel",
	  NULL,
	  abort_task_set,
	  abort_task_set_is_over,
	  false,
	  { SILENT | LATER, SILENT | LATER, SILENT, SILENT, SILENT | LATER,
	    SILENT, SILENT | LATER } },
	{ "LUN RESET by another nexus",
	  NULL,
	  lun_reset,
	  b_is_answered,
	  false,
	  { REFUSED | LATER, REFUSED | LATER, ABORTED, ABORTED, ABORTED | LATER,
	    ABORTED, ABORTED | LATER } },
	{ "connection lost",
	  NULL,
	  lose_connection,
	  is_over,
	  false,
	  { SILENT, SILENT, SILENT, SILENT, SILENT, SILENT, SILENT } },
	{ "new login",
	  NULL,
	  log_in_again,
	  is_logged_in,
	  false,
	  { SILENT | LATER, SILENT | LATER, SILENT, SILENT, SILENT | LATER,
	    SILENT, SILENT | LATER } },
	{ "its worker stands still",
	  NULL,
	  stand_still,
	  is_over,
	  false,
	  { GOES_ON, GOES_ON, GOES_ON, GOES_ON, GOES_ON, GOES_ON, GOES_ON } },
	{ "PREEMPT AND ABORT",
	  register_both,
	  preempt_and_abort,
	  b_is_answered,
	  false,
	  { REFUSED | LATER, REFUSED | LATER, ABORTED, ABORTED, ABORTED | LATER,
	    ABORTED, ABORTED | LATER } },
	{ "RESERVE by another nexus",
	  register_b,
	  reserve,
	  b_is_answered,
	  false,
	  { REFUSED, REFUSED, REFUSED, GOES_ON, GOES_ON, GOES_ON, GOES_ON } },
	/* It waits for the older write, too. */
	{ "eject",
	  NULL,
	  eject,
	  b_is_answered,
	  false,
	  { REFUSED, REFUSED, REFUSED | LATER, REFUSED | LATER, REFUSED,
	    GOES_ON | LATER, GOES_ON | LATER } },
	{ "volume removed",
	  NULL,
	  remove_volume,
	  is_removed,
	  false,
	  { REFUSED | LATER, REFUSED | LATER, ABORTED | LATER, ABORTED | LATER,
	    ABORTED | LATER, ABORTED | LATER, ABORTED | LATER } },
	{ "the target stops",
	  NULL,
	  stop_target,
	  is_stopped,
	  false,
	  { SILENT | LATER, SILENT | LATER, GOES_ON | LATER, GOES_ON | LATER,
	    GOES_ON | LATER, GOES_ON | LATER, GOES_ON | LATER } },
	{ "another target serves",
	  NULL,
	  another_serves,
	  is_over,
	  true,
	  { GOES_ON, NEVER, GOES_ON, REFUSED, REFUSED, GOES_ON, NEVER } },
};

static struct event_case {
	const char *name; /* text */
	char text[64];
	const struct event *event;
	enum where where;
} cases[ARRAY_SIZE(events) * WHERES];

static size_t case_cnt;

T_AT_START make_cases(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		for (int where = 0; where < WHERES; where++) {
			struct event_case *c = &cases[case_cnt];

			if (events[i].ends[where] == NEVER)
				continue;
			case_cnt++;
			snprintf(c->text, sizeof(c->text), "%s, %s",
				 events[i].name, where_names[where]);
			c->name = c->text;
			c->event = &events[i];
			c->where = (enum where)where;
		}
}

/* ---- what is to be ---- */

static void expect_end(const struct scene *s, enum end end)
{
	const struct srp_rsp *rsp = t_ini_rsp(s->a, s->write);

	switch (end) {
	case SILENT:
		assert_null(rsp);
		break;
	case ABORTED:
		rig_expect_status(s->a, s->write, SCSI_STATUS_TASK_ABORTED);
		break;
	case GOES_ON:
		rig_expect_status(s->a, s->write, SCSI_STATUS_GOOD);
		break;
	default:
		assert_non_null(rsp);
		assert_true(rsp->status == SCSI_STATUS_CHECK_CONDITION ||
			    rsp->status == SCSI_STATUS_RESERVATION_CONFLICT);
	}
}

static bool has_blocks(const struct scene *s)
{
	return s->where == STORE || s->where == IN_PLACE;
}

/* How often the store was given the block. */
static unsigned int writes_of_block(void)
{
	unsigned int n = 0;

	for (const char *p = t_store.log; (p = strstr(p, "write 3584+512"));
	     p++)
		n++;
	return n;
}

/* B's comes behind what has the blocks. What has none yet may land later if it was not
 * given up. */
static void expect_medium(const struct scene *s, enum end end)
{
	const uint8_t *memory = s->vol->dev.backend->info.memory;
	const uint8_t *bytes = memory ? memory : t_store.bytes;
	bool is_old = s->where == STORE || end == GOES_ON;

	if (s->b_writes && (end != GOES_ON || has_blocks(s)))
		assert_int_equal(bytes[LBA * BLK], NEW);
	/* The store itself refuses what has an old epoch. */
	if (!memory && !t_store.epoch)
		assert_int_equal(writes_of_block(),
				 (s->where == BLOCKS) + is_old + s->b_writes);
}

static void write_by_b(struct scene *s)
{
	if (!s->b_writes || s->newer)
		return;
	rig_clear_ua(s->b, s->lun, NULL);
	s->newer = send_write(s, s->b, LBA, SRP_TASK_SIMPLE, NEW);
}

T_ROWS_CNT(event_in_each_state, cases, case_cnt)
{
	const struct event_case *c = *state;
	const struct event *event = c->event;
	enum end end = event->ends[c->where] & END_MASK;
	bool is_later = event->ends[c->where] & LATER;
	struct scene s;

	begin(&s, c->where, event->shared);
	if (event->before)
		event->before(&s);
	bring(&s);
	event->begin(&s);
	t_fabric_hold_completions(s.rig->hub, false);
	assert_int_equal(event->is_over(&s), !is_later);
	if (!is_later)
		write_by_b(&s);
	if (c->where == STORE)
		assert_int_equal(writes_of_block(), 1);
	let_go(&s);
	assert_true(event->is_over(&s));
	expect_end(&s, end);
	write_by_b(&s);
	if (s.b_writes)
		rig_expect_status(s.b, s.newer, SCSI_STATUS_GOOD);
	expect_medium(&s, end);
	if (s.evicted)
		bring_volume_back(&s);
	rig_destroy(s.rig);
}
