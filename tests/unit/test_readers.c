/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An initiator that may only read a volume (":ro" of a rule) sends each command
 * and each task management function that exists. None of them may change what
 * another initiator sees. An initiator that may write sends the same, which
 * shows that each attempt would have an effect.
 */
#include "tests/lib/t_attempt.h"
#include "tests/lib/t_rig.h"

#include <string.h>

#include "protocol/scsi_cdb_bits.h"
#include "tests/lib/t_table.h"

/* The blocks that the other initiator looks at, and the one that it writes. */
#define SEEN	  T_ATTEMPT_UNMAPPED
#define UNDER_WAY 100u

/* The places of their data in the initiators' memory. */
#define ACTOR_AT   0u
#define WATCHER_AT (1u << 20)
#define WRITER_AT  (2u << 20)

/* One initiator sends the command. The other one watches, and has a write in
 * progress. */
struct scene {
	struct rig *rig;
	struct t_ini *actor;
	struct t_ini *watcher;
	unsigned int lun;
};

/* ---- commands with a buffer ---- */

static uint64_t send_cdb(struct t_ini *ch, unsigned int lun, const uint8_t *cdb,
			 size_t at, uint32_t out_len, uint32_t in_len)
{
	struct srp_desc desc = rig_desc(ch, at, out_len ? out_len : in_len);
	struct srp_data_args args = { .format = SRP_DATA_DIRECT,
				      .descs = &desc,
				      .desc_cnt = 1 };
	struct rig_cmd cmd = { .lun = lun };

	memcpy(cmd.cdb, cdb, sizeof(cmd.cdb));
	if (out_len)
		cmd.out = args;
	else if (in_len)
		cmd.in = args;
	return rig_cmd(ch, &cmd);
}

/* ---- what the watcher sees ---- */

struct view {
	uint8_t bytes[16384];
	size_t len;
};

static void view_add(struct view *v, const void *bytes, size_t len)
{
	assert_true(v->len + len <= sizeof(v->bytes));
	if (len)
		memcpy(v->bytes + v->len, bytes, len);
	v->len += len;
}

static void add_answer(struct view *v, struct scene *s, const uint8_t *cdb,
		       uint32_t in_len)
{
	uint8_t *mem = s->rig->mem + WATCHER_AT;
	const struct srp_rsp *rsp;

	memset(mem, 0, in_len);
	rsp = t_ini_rsp(s->watcher, send_cdb(s->watcher, s->lun, cdb,
					     WATCHER_AT, 0, in_len));
	assert_non_null(rsp);
	view_add(v, &rsp->status, 1);
	view_add(v, rsp->sense, rsp->sense_len);
	view_add(v, mem, in_len);
}

/* Unit attentions, blocks, mode values, reservations, registrations, and the
 * initiators that prevent removal. */
static void look(struct scene *s, struct view *v)
{
	static const uint8_t cdbs[][16] = {
		{ 0x00 },		  /* TEST UNIT READY */
		{ 0x28, [8] = SEEN },	  /* READ (10) */
		{ 0x1a, 8, 0x3f, 0, 96 }, /* MODE SENSE (6) */
		{ 0x5e, 0, [8] = 96 },	  /* READ KEYS */
		{ 0x5e, 1, [8] = 96 },	  /* READ RESERVATION */
		{ 0x5e, 3, [8] = 255 },	  /* READ FULL STATUS */
	};
	static const uint32_t in_lens[] = {
		0, SEEN * RIG_BLOCK, 96, 96, 96, 255
	};
	const struct volume *vol = s->rig->target.luns.vol[s->lun];

	v->len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(cdbs); i++)
		add_answer(v, s, cdbs[i], in_lens[i]);
	view_add(v, &vol->state.prevent_cnt, sizeof(vol->state.prevent_cnt));
}

static bool same_view(const struct view *a, const struct view *b)
{
	return a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

/* ---- the scene ---- */

static void fill_blocks(struct scene *s)
{
	uint8_t *to = s->lun == RIG_RAM ? s->rig->target.luns.vol[RIG_RAM]
						  ->dev.backend->info.memory
					: t_store.bytes;

	for (unsigned int i = 0; i < SEEN; i++)
		memset(to + (size_t)i * RIG_BLOCK, (int)i + 1, RIG_BLOCK);
}

/* Registers the watcher, and by SPEC_I_PT the actor, with the same key. */
static void register_both(struct scene *s)
{
	const uint8_t cdb[16] = { 0x5f, 0, [8] = 52 };
	struct srp_login_req actor =
		rig_login_req(s->rig, 1, SRP_MULTICHAN_SINGLE);
	uint8_t *p = s->rig->mem + WATCHER_AT;

	memset(p, 0, 52);
	wire_put64(p + 8, T_ATTEMPT_KEY);
	p[20] = 0x08;
	wire_put32(p + 24, 24);
	p[28] = 0x04;
	memcpy(p + 36, actor.initiator.b, 16);
	rig_expect_status(s->watcher,
			  send_cdb(s->watcher, s->lun, cdb, WATCHER_AT, 52, 0),
			  SCSI_STATUS_GOOD);
}

static struct scene scene_begin(unsigned int lun, bool reader)
{
	struct rig_options opt = { .removable = true };
	struct scene s = { .rig = rig_create(&opt), .lun = lun };
	struct error e;

	t_port_allow(&s.rig->target, "10.0.0.1:ro");
	assert_true(access_rules_add(&s.rig->target.port.allow, "all", &e));
	fill_blocks(&s);
	t_fabric_come_from(s.rig->hub, reader ? "10.0.0.1" : "10.0.0.3");
	s.actor = rig_login(s.rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(s.rig->hub, "10.0.0.2");
	s.watcher = rig_login(s.rig, 2, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(s.actor, lun, NULL);
	rig_clear_ua(s.watcher, lun, NULL);
	return s;
}

static void scene_end(struct scene *s)
{
	rig_destroy(s->rig);
}

/* Begins the watcher's write. The store of RIG_DISK holds it. */
static uint64_t begin_write(struct scene *s)
{
	uint8_t cdb[16] = { 0x2a, [5] = UNDER_WAY, [8] = 1 };

	t_store.hold = true;
	return send_cdb(s->watcher, s->lun, cdb, WRITER_AT, RIG_BLOCK, 0);
}

/* True if the write is answered as if nothing had happened. */
static bool end_write(struct scene *s, uint64_t tag)
{
	const struct srp_rsp *rsp;

	t_store.hold = false;
	while (rig_release(s->rig))
		;
	rsp = t_ini_rsp(s->watcher, tag);
	return rsp && rsp->status == SCSI_STATUS_GOOD;
}

/* ---- attempts ---- */

/* Its data-out is at ACTOR_AT. */
static struct t_attempt make_attempt(struct scene *s,
				     const struct scsi_cdb_info *row)
{
	uint8_t *p = s->rig->mem + ACTOR_AT;
	struct t_attempt sense;

	if (t_attempt_mode_sense(row, &sense))
		rig_expect_status(s->watcher,
				  send_cdb(s->watcher, s->lun, sense.cdb,
					   ACTOR_AT, 0, T_ATTEMPT_IN_LEN),
				  SCSI_STATUS_GOOD);
	return t_attempt(row, p, s->rig->target.luns.vol[s->lun]->info.naa);
}

struct outcome {
	bool exists;
	bool changed; /* what the watcher sees */
	uint8_t status;
	struct scsi_sense sense;
};

static struct outcome try_command(const struct scsi_cdb_info *row,
				  unsigned int lun, bool reader)
{
	struct scene s = scene_begin(lun, reader);
	struct outcome o = { .exists = scsi_cdb_exists(
				     row, &s.rig->target.luns.vol[lun]->info) };
	static struct view before;
	static struct view after;
	const struct srp_rsp *rsp;
	struct t_attempt a;
	uint64_t write;
	uint64_t tag;
	bool written;

	if (row->op == SCSI_OP_PERSISTENT_OUT)
		register_both(&s);
	look(&s, &before);
	a = make_attempt(&s, row);
	write = begin_write(&s);
	tag = send_cdb(s.actor, lun, a.cdb, ACTOR_AT, a.out_len, 1024);
	written = end_write(&s, write);
	rsp = t_ini_rsp(s.actor, tag);
	assert_non_null(rsp);
	o.status = rsp->status;
	if (rsp->sense_len)
		scsi_sense_decode(rsp->sense, rsp->sense_len, &o.sense);
	look(&s, &after);
	o.changed = !written || !same_view(&before, &after);
	scene_end(&s);
	return o;
}

/* Commands that change nothing even if the initiator may write. */
static bool has_no_effect(const struct scsi_cdb_info *row)
{
	switch ((enum scsi_op)row->op) {
	case SCSI_OP_SET_PORT_GROUPS: /* there is one state */
	case SCSI_OP_SANITIZE_EXIT:   /* nothing has failed */
		return true;
	case SCSI_OP_PERSISTENT_OUT: /* it holds no reservation */
		return row->service_action == SCSI_PR_RELEASE ||
		       row->service_action == SCSI_PR_REGISTER_AND_MOVE;
	default:
		return row->readers == SCSI_READERS_ALLOWED &&
		       row->op != SCSI_OP_EXTENDED_COPY;
	}
}

static void expect_refused(const struct scsi_cdb_info *row,
			   const struct outcome *o)
{
	bool writes = row->flags & SCSI_CDB_WRITES ||
		      row->op == SCSI_OP_EXTENDED_COPY;

	assert_int_equal(o->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(o->sense.key, writes ? SCSI_KEY_DATA_PROTECT
					      : SCSI_KEY_ILLEGAL_REQUEST);
	assert_int_equal(o->sense.code, writes ? SCSI_ASC_WRITE_PROTECTED
					       : SCSI_ASC_NO_ACCESS_RIGHTS);
}

T_ROWS_CNT(command_of_a_reader_changes_nothing, scsi_cdb_table,
	   scsi_cdb_table_cnt)
{
	const struct scsi_cdb_info *row = *state;

	for (unsigned int lun = 0; lun < RIG_LUNS; lun++) {
		struct outcome reader = try_command(row, lun, true);
		struct outcome writer = try_command(row, lun, false);

		if (!reader.exists)
			continue;
		assert_int_equal(writer.changed, !has_no_effect(row));
		assert_false(reader.changed);
		if (row->readers != SCSI_READERS_ALLOWED ||
		    row->op == SCSI_OP_EXTENDED_COPY)
			expect_refused(row, &reader);
		else
			assert_int_equal(reader.status, writer.status);
	}
}

/* ---- the command table ---- */

T_TEST(table_agrees_with_itself)
{
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *row = &scsi_cdb_table[i];

		if (row->flags & SCSI_CDB_WRITES)
			assert_int_equal(row->readers, SCSI_READERS_REFUSED);
		if (row->access == SCSI_ACCESS_READS)
			assert_int_equal(row->readers, SCSI_READERS_ALLOWED);
	}
}

static const struct field_case {
	const char *name;
	uint8_t cdb[6];
	bool allowed;
} field_cases[] = {
	{ "start", { 0x1b, [4] = CDB_START }, true },
	{ "start at once", { 0x1b, 1, [4] = CDB_START }, true },
	{ "stop", { 0x1b }, false },
	{ "stop without a flush", { 0x1b, [4] = CDB_NO_FLUSH }, false },
	{ "eject", { 0x1b, [4] = CDB_LOEJ }, false },
	{ "load", { 0x1b, [4] = CDB_LOEJ | CDB_START }, false },
	{ "prevent removal", { 0x1e, [4] = CDB_PREVENT }, false },
	{ "allow removal", { 0x1e }, true },
};

T_ROWS(field_decides, field_cases)
{
	const struct field_case *row = *state;
	struct scene s = scene_begin(RIG_DISK, /* reader= */ true);
	uint8_t cdb[16] = { 0 };
	const struct srp_rsp *rsp;

	memcpy(cdb, row->cdb, sizeof(row->cdb));
	rsp = t_ini_rsp(s.actor, send_cdb(s.actor, RIG_DISK, cdb, 0, 0, 0));
	assert_int_equal(rsp->status, row->allowed
					      ? SCSI_STATUS_GOOD
					      : SCSI_STATUS_CHECK_CONDITION);
	scene_end(&s);
}

/* ---- task management ---- */

/* True if @function changes the watcher's write or its view. */
static bool function_changes(uint8_t function, bool reader, uint8_t *ret_code)
{
	struct scene s = scene_begin(RIG_DISK, reader);
	static struct view before;
	static struct view after;
	uint64_t write;
	uint64_t tmf;
	bool written;

	look(&s, &before);
	write = begin_write(&s);
	/* The function names the tag of the watcher's write. */
	tmf = rig_tmf(s.actor, function, RIG_DISK, write);
	written = end_write(&s, write);
	*ret_code = t_ini_rsp(s.actor, tmf)->rsp_code;
	look(&s, &after);
	scene_end(&s);
	return !written || !same_view(&before, &after);
}

/* SRP r16a 6.7: 01h, 02h, 04h, 08h and 40h. No other value is defined. */
T_TEST(function_of_a_reader_changes_nothing)
{
	static const uint8_t functions[] = { 0x00, 0x01, 0x02, 0x03, 0x04,
					     0x05, 0x08, 0x09, 0x0c, 0x10,
					     0x20, 0x40, 0x48, 0x80, 0xff };

	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		uint8_t f = functions[i];
		uint8_t code;

		assert_false(function_changes(f, /* reader= */ true, &code));
		if (f == SRP_TSK_LUN_RESET)
			assert_int_equal(code, SRP_RSP_TMF_NOT_SUPPORTED);
		assert_int_equal(
			function_changes(f, /* reader= */ false, &code),
			f == SRP_TSK_LUN_RESET);
	}
}

/* SRP_TSK_ABORT_TASK, ABORT_TASK_SET, CLEAR_TASK_SET */
T_TEST(reader_ends_its_own_commands)
{
	static const uint8_t functions[] = { SRP_TSK_ABORT_TASK,
					     SRP_TSK_ABORT_TASK_SET,
					     SRP_TSK_CLEAR_TASK_SET };
	const uint8_t read[16] = { 0x28, [8] = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		struct scene s = scene_begin(RIG_DISK, /* reader= */ true);
		uint64_t tag;
		uint64_t tmf;

		t_store.hold = true;
		tag = send_cdb(s.actor, RIG_DISK, read, ACTOR_AT, 0, RIG_BLOCK);
		tmf = rig_tmf(s.actor, functions[i], RIG_DISK, tag);
		assert_true(end_write(&s, begin_write(&s)));
		rig_expect_code(s.actor, tmf, SRP_RSP_COMPLETE);
		assert_null(t_ini_rsp(s.actor, tag));
		scene_end(&s);
	}
}

T_TEST(reader_is_told_of_no_reset)
{
	const uint8_t cdb[16] = { 0xa3, 0x0d, [9] = 4 };

	for (int reader = 0; reader < 2; reader++) {
		struct scene s = scene_begin(RIG_DISK, reader);
		uint64_t tag = send_cdb(s.actor, RIG_DISK, cdb, ACTOR_AT, 0, 4);

		rig_expect_status(s.actor, tag, SCSI_STATUS_GOOD);
		assert_int_equal(s.rig->mem[ACTOR_AT], reader ? 0xd0 : 0xd8);
		scene_end(&s);
	}
}

/* ---- the end of a reader ---- */

/* Neither the logout of a reader nor a login that replaces it ends anything of
 * other initiators. */
T_TEST(reader_that_comes_and_goes_changes_nothing)
{
	struct scene s = scene_begin(RIG_DISK, /* reader= */ true);
	static struct view before;
	static struct view after;
	struct t_ini *again;
	uint64_t write;

	look(&s, &before);
	write = begin_write(&s);
	t_fabric_come_from(s.rig->hub, "10.0.0.1");
	again = rig_login(s.rig, 1, SRP_MULTICHAN_SINGLE);
	rig_chan_free(again);
	assert_true(end_write(&s, write));
	look(&s, &after);
	assert_true(same_view(&before, &after));
	scene_end(&s);
}

/* ---- related: a medium that nobody may write ---- */

/* ",ro" concerns the medium. An initiator that may write still controls the
 * rest. */
T_TEST(volume_that_is_read_only_can_be_reserved)
{
	struct scene s = scene_begin(RIG_DISK, /* reader= */ false);
	const uint8_t reserve[16] = { 0x16 };
	const uint8_t write[16] = { 0x2a, [8] = 1 };
	const struct srp_rsp *rsp;
	struct scsi_sense sense;

	s.rig->target.luns.vol[RIG_DISK]->read_only = true;
	s.rig->target.luns.vol[RIG_DISK]->info.read_only = true;
	rsp = t_ini_rsp(s.actor, send_cdb(s.actor, RIG_DISK, write, ACTOR_AT,
					  RIG_BLOCK, 0));
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.code, SCSI_ASC_WRITE_PROTECTED);
	rig_expect_status(s.actor,
			  send_cdb(s.actor, RIG_DISK, reserve, 0, 0, 0),
			  SCSI_STATUS_GOOD);
	scene_end(&s);
}
