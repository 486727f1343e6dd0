/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi: which flushes succeed, and what a lost connection, a cache that is
 * switched on, and deferred errors mean for flushes.
 */
#include <errno.h>
#include <string.h>

#include "initiator/session.h"
#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"

/* ---- flushes that reach the target ---- */

static const struct flush_row {
	const char *name;
	enum mode_answer mode;
	bool no_sync;
	unsigned int syncs; /* the number that the target gets */
	int res;
} flush_rows[] = {
	{ "cache", MODE_CACHE, false, 1, 0 },
	{ "no cache", MODE_NO_CACHE, false, 0, 0 },
	{ "mode page not told", MODE_NO_PAGE, false, 1, 0 },
	{ "MODE SENSE unknown", MODE_REFUSED, false, 1, 0 },
	{ "cache that cannot be flushed", MODE_CACHE, true, 1, -EOPNOTSUPP },
	{ "neither MODE SENSE nor SYNCHRONIZE CACHE", MODE_REFUSED, true, 1,
	  0 },
};

T_ROWS(flush, flush_rows)
{
	const struct flush_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = row->mode, .no_sync = row->no_sync });
	struct srpi_io io = { .op = SRPI_FLUSH };

	assert_int_equal(srpi_volume_cnt(t->session), 1);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), row->res);
	assert_int_equal(t->syncs, row->syncs);
	t_session_free(t);
}

/* ---- what a lost connection means for a flush ---- */

static const struct loss_row {
	const char *name;
	bool has_store;
	bool is_memory;
	uint8_t generation; /* it was 1 before */
	enum scsi_asc attention;
	bool write;
	bool flush; /* a flush before the loss */
	int res;    /* result of the first flush after the loss */
	enum srpi_state state;
} loss_rows[] = {
	{ "the same generation", true, false, 1, SCSI_ASC_POWER_ON, true, false,
	  0, SRPI_RUNNING },
	{ "another generation", true, false, 2, SCSI_ASC_NEXUS_LOSS, true,
	  false, -EIO, SRPI_RUNNING },
	{ "another generation, flushed before", true, false, 2,
	  SCSI_ASC_NEXUS_LOSS, true, true, 0, SRPI_RUNNING },
	{ "another generation, nothing written", true, false, 2,
	  SCSI_ASC_NEXUS_LOSS, false, false, 0, SRPI_RUNNING },
	{ "memory, the same generation", true, true, 1, SCSI_ASC_NEXUS_LOSS,
	  true, false, 0, SRPI_RUNNING },
	{ "memory, another generation", true, true, 2, SCSI_ASC_NEXUS_LOSS,
	  false, false, -EIO, SRPI_LOST },
	{ "not told, a nexus was lost", false, false, 0, SCSI_ASC_NEXUS_LOSS,
	  true, false, 0, SRPI_RUNNING },
	{ "not told, power on", false, false, 0, SCSI_ASC_POWER_ON, true, false,
	  -EIO, SRPI_RUNNING },
	{ "not told, reset", false, false, 0, SCSI_ASC_POWER_ON_OR_RESET, true,
	  false, -EIO, SRPI_RUNNING },
	{ "not told, power on, flushed before", false, false, 0,
	  SCSI_ASC_POWER_ON, true, true, 0, SRPI_RUNNING },
	{ "not told at all", false, false, 0, 0, true, false, -EIO,
	  SRPI_RUNNING },
};

T_ROWS(flush_after_loss, loss_rows)
{
	const struct loss_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE,
		.has_store = row->has_store,
		.is_memory = row->is_memory,
		.comes_back = true,
		.generation = row->generation ? 1 : 0 });

	if (row->write)
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	if (row->flush)
		assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_lose(t, row->generation, row->attention);
	assert_int_equal(srpi_session_state(t->session), row->state);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(t->why.err, row->res);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	if (row->state == SRPI_RUNNING)
		assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* The target reports the loss by a flush that fails and by the generation. The
 * caller is told once. */
T_TEST(loss_is_told_once)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	t->bad_syncs = 1;
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* The library makes a write and a flush of a stable write. The connection is
 * lost between them, and so is the written data. */
T_TEST(stable_write_whose_write_was_lost_fails)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	t->leaves_at_sync = true;
	assert_int_equal(t_session_io(t, SRPI_WRITE, true), -EIO);
	assert_int_equal(t->writes, 1);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	t_session_free(t);
}

/* Commands without an answer are sent again in their old order. */
T_TEST(unanswered_writes_are_sent_again)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	static uint8_t block[4 * BLK];
	struct srpi_io io[4];
	struct srpi_error e;
	struct srpi_mem *mem;
	unsigned int over = 0;

	assert_int_equal(
		srpi_mem_register(t->session, block, sizeof(block), &mem, &e),
		0);
	t->ignores_writes = true;
	for (unsigned int i = 0; i < 4; i++) {
		io[i] = (struct srpi_io){ .op = SRPI_WRITE,
					  .offset = i * BLK,
					  .len = BLK,
					  .buf = block + i * BLK,
					  .mem = mem,
					  .done = t_session_count_done,
					  .arg = &over };
		srpi_submit(t->session, &io[i]);
	}
	while (t->writes < 4)
		t_session_turn(t);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (over < 4)
		t_session_turn(t);
	assert_int_equal(t->lba_cnt, 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(t->lbas[i], i);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.replayed, 4);
	assert_int_equal(stats.reconnects, 1);
	srpi_mem_free(mem);
	t_session_free(t);
}

/* ---- changes by other initiators and by the target ---- */

/* Another initiator switches the cache on. The answer to a write reports
 * this. */
T_TEST(cache_that_is_switched_on_is_flushed)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	t->o.mode = MODE_CACHE;
	t->override =
		t_override_attention(0x2a, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 1);
	while (!srpi_volume_info(t->session, 0)->write_cache)
		t_session_turn(t);
	/* Also if this initiator has written nothing: the cache may hold data
	 * of others. */
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 2);
	t_session_free(t);
}

/* Writes in flight may have been executed with the cache on, and answered
 * before any command reports the change. */
T_TEST(write_under_way_when_the_cache_changes_is_flushed)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_CACHE;
	t->override =
		t_override_attention(0x35, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(t->syncs, 1);
	t_session_free(t);
}

/* The write may have been answered while the cache was on, and then it is
 * lost. */
T_TEST(loss_after_the_cache_was_switched_on_is_told)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_CACHE;
	t->override =
		t_override_attention(0x28, SCSI_ASC_MODE_PARAMETERS_CHANGED);
	t_session_io(t, SRPI_READ, false);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* A volume without a cache loses nothing, whatever the target loses. */
T_TEST(write_through_loses_nothing)
{
	struct t_session *t = t_session_new_returning(MODE_NO_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

T_TEST(known_loss_is_told_without_a_cache)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->o.mode = MODE_NO_CACHE;
	t_session_lose(t, 2, SCSI_ASC_POWER_ON);
	assert_int_equal(t->why.err, -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* The CDB was made without FUA, and is sent again without FUA. */
T_TEST(stable_write_made_without_fua_is_flushed)
{
	static uint8_t block[BLK];
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .fua = true,
			      .done = t_session_store_result,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->ignores_writes = true;
	srpi_submit(t->session, &io);
	while (t->writes == 0)
		t_session_turn(t);
	t->o.dpofua = true;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->syncs, 1);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* A target may report a loss by one flush only. If the library has sent that
 * flush, for a stable write, the next flush of the program fails as well. */
T_TEST(failed_flush_of_a_stable_write_is_told)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->bad_syncs = 1;
	assert_int_equal(t_session_io(t, SRPI_WRITE, /* fua= */ true), -EIO);
	assert_int_equal(t->syncs, 1);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* Another initiator resets the unit, and the disk of the target fails meanwhile. A
 * target that asks a file system has the error then, and does not get it again.
 * One that reports a generation remembers it. */
static const struct aborted_row {
	const char *name;
	bool has_store;
	bool write;
	int res;
	unsigned int syncs; /* that the target carries out */
} aborted_rows[] = {
	{ "a generation is reported", true, true, 0, 1 },
	{ "no generation", false, true, -EIO, 0 },
	{ "no generation, nothing written", false, false, 0, 1 },
};

T_ROWS(aborted_flush_may_have_failed, aborted_rows)
{
	const struct aborted_row *row = *state;
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE, .has_store = row->has_store });

	if (row->write)
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->override = (struct t_override){ .opcode = 0x35,
					   .status = SCSI_STATUS_TASK_ABORTED,
					   .cnt = 1 };
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	assert_int_equal(t->syncs, row->syncs);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* ---- deferred errors: of an earlier command; the present command is not
 * executed ---- */

static const struct deferred_row {
	const char *name;
	uint8_t opcode; /* the command that gets this answer */
	enum scsi_key key;
	enum scsi_sense_format format;
	int res; /* of the next flush */
} deferred_rows[] = {
	{ "71h, a write", 0x2a, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_FIXED, -EIO },
	{ "73h, a write", 0x2a, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_DESCRIPTOR,
	  -EIO },
	{ "71h, hardware error", 0x2a, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_SENSE_FIXED, -EIO },
	{ "71h, aborted", 0x2a, SCSI_KEY_ABORTED_COMMAND, SCSI_SENSE_FIXED,
	  -EIO },
	{ "71h, recovered", 0x2a, SCSI_KEY_RECOVERED_ERROR, SCSI_SENSE_FIXED,
	  0 },
	{ "71h, the flush", 0x35, SCSI_KEY_MEDIUM_ERROR, SCSI_SENSE_FIXED,
	  -EIO },
	{ "73h, the flush", 0x35, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_SENSE_DESCRIPTOR, -EIO },
};

T_ROWS(deferred_error_is_not_the_commands_own, deferred_rows)
{
	const struct deferred_row *row = *state;
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	t->override = (struct t_override){
		.opcode = row->opcode,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, SCSI_ASC_WRITE_ERROR),
		.format = row->format,
		.cnt = 1,
	};
	t->override.sense.deferred = true;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 1);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	assert_int_equal(t->syncs, 1);
	if (row->res)
		assert_non_null(strstr(t->why.text, "the next flush fails"));
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

#define BURST (128u << 10)

/* Two writes of this length keep the first channel busy. */
static struct srpi_io burst_write(struct srpi_mem *mem, void *buf, uint64_t len,
				  int *res)
{
	*res = 1;
	return (struct srpi_io){ .op = SRPI_WRITE,
				 .len = len,
				 .buf = buf,
				 .mem = mem,
				 .done = t_session_store_result,
				 .arg = res };
}

static void hold(struct t_session *t, struct srpi_io *io, unsigned int channel)
{
	unsigned int n = t->held_cnt;

	srpi_submit(t->session, io);
	while (t->held_cnt == n)
		t_session_turn(t);
	assert_ptr_equal(t->held[n]->ch, t->chans[channel]);
}

/* The target answers a write with a deferred error, then the flush that it got
 * before that write. The response of the flush comes first, by another channel. */
T_TEST(deferred_error_on_its_way_counts)
{
	static uint8_t memory[BURST];
	const struct t_session_options o = { .mode = MODE_CACHE,
					     .channels = 2 };
	struct t_session *t = t_session_new(&o);
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR);
	struct srpi_io first, second, last, flush;
	int first_res, second_res, last_res, res = 1;
	struct srpi_error e;
	struct srpi_mem *mem;

	assert_int_equal(srpi_mem_register(t->session, memory, BURST, &mem, &e),
			 0);
	first = burst_write(mem, memory, BURST, &first_res);
	second = burst_write(mem, memory, BURST, &second_res);
	second.offset = BURST;
	last = burst_write(mem, memory, BLK, &last_res);
	last.offset = 2 * BURST;
	flush = (struct srpi_io){ .op = SRPI_FLUSH,
				  .done = t_session_store_result,
				  .arg = &res };
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->holds = true;
	hold(t, &first, 0);
	hold(t, &second, 0);
	hold(t, &flush, 1);
	t_tgt_respond(t->held[0], 0);
	t_tgt_respond(t->held[1], 0);
	while (first_res == 1 || second_res == 1)
		t_session_turn(t);
	hold(t, &last, 0);
	t->holds = false;
	t_tgt_respond(t->held[2], 0);
	while (res == 1 && list_empty(&t->session->queue.fenced))
		t_session_turn(t);
	sense.deferred = true;
	t_tgt_respond_sense(t->held[3], &sense, SCSI_SENSE_FIXED);
	while (res == 1 || last_res == 1)
		t_session_turn(t);
	assert_int_equal(res, -EIO);
	assert_int_equal(last_res, 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	srpi_mem_free(mem);
	t_session_free(t);
}

/* The channel stays connected; the target reports no generation. */
T_TEST(power_on_takes_the_cache_along)
{
	struct t_session *t = t_session_new(&(struct t_session_options){
		.mode = MODE_CACHE, .comes_back = true });

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->override = t_override_attention(0x35, SCSI_ASC_POWER_ON);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}
