/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of commands by volume, initiator, operation and stage. */
#include "target/port/meter.h"

#include <string.h>
#include <time.h>

#include "target/port/slow.h"
#include "tests/lib/t_rig.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK
#define MS  1000000ull /* ns */

static void rest(unsigned int ms)
{
	const struct timespec ts = { .tv_nsec = ms * 1000000l };

	nanosleep(&ts, NULL);
}

/* Returns the counters of the only meter of that kind, or of volume number
 * @nr. */
static struct meter_share meter_of(enum meter_kind kind, unsigned int nr)
{
	struct meter **list = meter_list(kind);
	struct meter_share sum;

	assert_non_null(list[nr]);
	meter_sum(list[nr], &sum);
	meter_list_free(list);
	return sum;
}

static uint64_t count_of(const struct meter_share *sum, enum meter_op op,
			 enum meter_stage stage)
{
	return histogram_cnt(&sum->op[op].stage[stage]);
}

static uint64_t rw(struct t_ini *ch, unsigned int lun, bool write,
		   uint16_t blocks)
{
	struct rig_cmd cmd =
		write ? rig_write(lun, 8, blocks) : rig_read(lun, 8, blocks);

	return rig_send_rw(ch, &cmd, RIG_DIRECT, 0, blocks * BLK);
}

static const struct stage_case {
	const char *name;
	unsigned int lun;
	bool write;
	unsigned int fetched; /* of one command */
} stage_cases[] = {
	{ "read of a disk", RIG_DISK, false, 0 },
	{ "read of memory", RIG_RAM, false, 0 },
	{ "write to a disk", RIG_DISK, true, 1 },
	{ "write to memory", RIG_RAM, true, 1 },
};

/* Each command counts once for its volume and once for its initiator, with its
 * bytes. */
T_ROWS(commands_are_counted_once, stage_cases)
{
	const struct stage_case *row = *state;
	enum meter_op op = row->write ? METER_WRITE : METER_READ;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct meter_share sums[2];

	rig_clear_ua(ch, row->lun, NULL);
	for (int i = 0; i < 5; i++)
		rig_expect_status(ch, rw(ch, row->lun, row->write, 3),
				  SCSI_STATUS_GOOD);
	sums[0] = meter_of(METER_OF_VOLUME, row->lun);
	sums[1] = meter_of(METER_OF_INITIATOR, 0);
	for (int i = 0; i < 2; i++) {
		const struct meter_counts *counts = &sums[i].op[op];

		assert_int_equal(meter_commands(counts), 5);
		assert_int_equal(counts->bytes, 5 * 3 * BLK);
		assert_int_equal(count_of(&sums[i], op, METER_QUEUE), 5);
		assert_int_equal(count_of(&sums[i], op, METER_FETCH),
				 5 * row->fetched);
		assert_int_equal(count_of(&sums[i], op, METER_BACKEND), 5);
		assert_true(counts->stage[METER_RESPOND].sum > 0);
		assert_int_equal(
			meter_commands(&sums[i].op[row->write ? METER_READ
							      : METER_WRITE]),
			0);
	}
	/* The other volume was not used. */
	sums[0] = meter_of(METER_OF_VOLUME, !row->lun);
	assert_int_equal(meter_commands(&sums[0].op[op]), 0);
	rig_destroy(rig);
}

/* TEST UNIT READY, also if it was refused with a unit attention. */
T_TEST(other_commands_are_other)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct meter_share sum;
	unsigned int seen;

	rig_expect_status(ch, rw(ch, RIG_RAM, false, 1),
			  SCSI_STATUS_CHECK_CONDITION);
	seen = rig_clear_ua(ch, RIG_RAM, NULL);
	sum = meter_of(METER_OF_VOLUME, RIG_RAM);
	assert_int_equal(meter_commands(&sum.op[METER_READ]), 0);
	assert_int_equal(meter_commands(&sum.op[METER_OTHER]), 1 + seen + 1);
	rig_destroy(rig);
}

/* It is refused before it has an operation or a volume. Slots of READs are free. */
T_TEST(refused_at_once_is_other)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = rig_read(RIG_RAM, 8, 1);
	struct meter_share before;
	struct meter_share sum;

	rig_clear_ua(ch, RIG_RAM, NULL);
	for (int i = 0; i < 3; i++)
		rig_expect_status(ch, rw(ch, RIG_RAM, false, 1),
				  SCSI_STATUS_GOOD);
	before = meter_of(METER_OF_INITIATOR, 0);
	cmd.attr = SRP_TASK_ACA;
	rig_expect_status(ch, rig_cmd(ch, &cmd), SCSI_STATUS_CHECK_CONDITION);
	sum = meter_of(METER_OF_INITIATOR, 0);
	assert_int_equal(meter_commands(&sum.op[METER_READ]), 3);
	assert_int_equal(meter_commands(&sum.op[METER_OTHER]),
			 meter_commands(&before.op[METER_OTHER]) + 1);
	rig_destroy(rig);
}

/* The store holds the first command for a while. Meanwhile the second waits for
 * a buffer. */
T_TEST(time_goes_to_the_stage_where_it_was_spent)
{
	struct rig_options opt = { .arena_len = 64u << 10 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct meter_share sum;
	const struct meter_counts *counts = &sum.op[METER_READ];

	rig_expect_alive(ch);
	rig_clear_ua(other, RIG_DISK, NULL);
	t_store.hold = true;
	rw(ch, RIG_DISK, false, 128);
	rw(other, RIG_DISK, false, 128);
	assert_int_equal(t_store.held_cnt, 1);
	rest(20);
	t_store.hold = false;
	rig_release(rig);
	sum = meter_of(METER_OF_VOLUME, RIG_DISK);
	assert_int_equal(meter_commands(counts), 2);
	assert_true(histogram_max_ns(&counts->stage[METER_QUEUE]) >= 20 * MS);
	assert_true(histogram_max_ns(&counts->stage[METER_BACKEND]) >= 20 * MS);
	assert_true(counts->stage[METER_QUEUE].sum >= 20 * MS);
	/* No time is one of years. */
	for (int stage = 0; stage < METER_STAGES; stage++)
		assert_int_equal(
			counts->stage[stage].bucket[HISTOGRAM_BUCKETS - 1], 0);
	assert_int_equal(count_of(&sum, METER_READ, METER_QUEUE), 2);
	assert_int_equal(count_of(&sum, METER_READ, METER_FETCH), 0);
	rig_destroy(rig);
}

/* A write that waits for the blocks of a read is in the queue. */
T_TEST(waiting_for_blocks_is_time_in_the_queue)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	/* COMPARE AND WRITE of one block, which takes it exclusively. */
	struct rig_cmd cmd = { .lun = RIG_DISK,
			       .cdb = { [0] = 0x89, [9] = 8, [13] = 1 } };
	struct meter_share sum;
	struct srp_desc desc;

	rig_expect_alive(ch);
	t_store.hold = true;
	rw(ch, RIG_DISK, false, 1);
	rig_describe(ch, RIG_DIRECT, 0, 2 * BLK, &desc, &cmd.out);
	rig_cmd(ch, &cmd);
	assert_int_equal(t_store.held_cnt, 1);
	rest(20);
	t_store.hold = false;
	rig_release(rig);
	sum = meter_of(METER_OF_VOLUME, RIG_DISK);
	assert_int_equal(meter_commands(&sum.op[METER_WRITE]), 1);
	assert_true(sum.op[METER_WRITE].stage[METER_QUEUE].sum >= 20 * MS);
	rig_destroy(rig);
}

T_TEST(commands_without_an_answer_are_not_counted)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct meter_share sum;
	uint64_t tag;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rw(ch, RIG_DISK, false, 1);
	rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	t_store.hold = false;
	rig_release(rig);
	assert_null(t_ini_rsp(ch, tag));
	sum = meter_of(METER_OF_VOLUME, RIG_DISK);
	assert_int_equal(meter_commands(&sum.op[METER_READ]), 0);
	rig_destroy(rig);
}

static const struct slow_case {
	const char *name;
	bool abort;
	unsigned int slow_ms;
	unsigned int cnt;
} slow_cases[] = {
	{ "one that was answered", false, 5, 1 },
	{ "one that was aborted", true, 5, 1 },
	{ "none, as none is asked for", false, 0, 0 },
	{ "none, as it was fast enough", false, 3600000, 0 },
};

T_ROWS(slow_commands_are_counted, slow_cases)
{
	const struct slow_case *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct worker *w = &rig->target.workers[0];
	uint64_t tag;

	rig_expect_alive(ch);
	slow_init(w, row->slow_ms);
	t_store.hold = true;
	tag = rw(ch, RIG_DISK, false, 1);
	rest(10);
	if (row->abort)
		rig_tmf(ch, SRP_TSK_ABORT_TASK, RIG_DISK, tag);
	t_store.hold = false;
	rig_release(rig);
	assert_int_equal(w->counters.slow, row->cnt);
	rig_destroy(rig);
}

/* Longer than histograms and the fast conversion can represent. */
T_TEST(very_long_times_are_capped)
{
	struct rig *rig = rig_create(NULL);
	struct worker *w = &rig->target.workers[0];

	slow_init(w, 0);
	assert_true(ticks_ns(w->slow_ticks) <= HISTOGRAM_MAX_NS);
	assert_int_equal(meter_bucket(ticks_of_ns(HISTOGRAM_MAX_NS * 100)),
			 HISTOGRAM_BUCKETS - 1);
	/* A clock that ran backwards. */
	assert_true(meter_bucket(UINT64_MAX) < HISTOGRAM_BUCKETS);
	rig_destroy(rig);
}

T_TEST(a_meter_stays_while_it_is_listed)
{
	struct meter *m = meter_begin(METER_OF_INITIATOR, "0x1");
	struct meter *same = meter_begin(METER_OF_INITIATOR, "0x1");
	struct meter **list;
	struct meter **later;

	assert_ptr_equal(m, same);
	meter_share(m, 3)->op[METER_READ].bytes = 5;
	meter_end(same);
	list = meter_list(METER_OF_INITIATOR);
	assert_ptr_equal(list[0], m);
	assert_null(list[1]);
	meter_end(m);
	later = meter_list(METER_OF_INITIATOR);
	assert_null(later[0]);
	assert_int_equal(list[0]->shares[3]->op[METER_READ].bytes, 5);
	meter_list_free(list);
	meter_list_free(later);
	meter_end(NULL);
}

int main(void)
{
	ticks_init();
	return t_run();
}
