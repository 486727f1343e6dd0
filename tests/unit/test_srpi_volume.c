/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi: answers that delay a command, and volumes that change, go away or
 * are replaced by others.
 */
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "initiator/exchange.h"
#include "initiator/session.h"
#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"

/* ---- retries ---- */

static const struct retry_row {
	const char *name;
	struct t_override override;
	bool then_attention;
} retry_rows[] = {
	{ "12 times not ready, then an attention",
	  { .opcode = 0x2a,
	    .status = SCSI_STATUS_CHECK_CONDITION,
	    .sense = { .key = SCSI_KEY_NOT_READY,
		       .code = SCSI_ASC_BECOMING_READY },
	    .cnt = 12 },
	  true },
	{ "12 times busy, then an attention",
	  { .opcode = 0x2a, .status = SCSI_STATUS_BUSY, .cnt = 12 },
	  true },
	{ "a dozen of attentions",
	  { .opcode = 0x2a,
	    .status = SCSI_STATUS_CHECK_CONDITION,
	    .sense = { .key = SCSI_KEY_UNIT_ATTENTION,
		       .code = SCSI_ASC_RESERVATIONS_RELEASED },
	    .cnt = 12 },
	  false },
	/* As LOGICAL UNIT RESET does: the kernel's initiator sends it when one
	 * of its own commands takes too long. */
	{ "aborted by another initiator, then an attention",
	  { .opcode = 0x2a, .status = SCSI_STATUS_TASK_ABORTED, .cnt = 3 },
	  true },
};

T_ROWS(each_reason_to_try_again_counts_for_itself, retry_rows)
{
	const struct retry_row *row = *state;
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->override = row->override;
	srpi_submit(t->session, &io);
	while (t->override.cnt > 0)
		t_session_turn(t);
	if (row->then_attention)
		t->override = t_override_attention(
			0x2a, SCSI_ASC_RESERVATIONS_RELEASED);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->override.cnt, 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* What was in the library's part of the operation is not taken for an
 * answer. */
T_TEST(refused_operation_has_no_answer)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	char answer[SRPI_ANSWER_SIZE];
	int res = 1;
	struct srpi_io io = { .op = SRPI_FLUSH,
			      .volume = 99,
			      .done = t_session_store_result,
			      .arg = &res };

	memset(io.priv, 0xee, sizeof(io.priv));
	srpi_submit(t->session, &io);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, -EINVAL);
	assert_true(srpi_io_refused(&io));
	assert_false(srpi_io_answer(&io, answer));
	t_session_free(t);
}

struct stubborn {
	struct t_session *t;
	unsigned int tries;
};

static void submit_again(struct srpi_io *io, int res)
{
	struct stubborn *p = io->arg;

	if (++p->tries < 1000)
		srpi_submit(p->t->session, io);
}

/* A program that submits again what was refused, as it may do until the target is
 * back, must not keep the event loop from everything else. */
T_TEST(refused_operation_that_is_submitted_again_waits)
{
	struct t_session *t = t_session_new_returning(MODE_CACHE);
	struct stubborn p = { .t = t };
	struct srpi_io io = {
		.op = SRPI_FLUSH, .volume = 99, .done = submit_again, .arg = &p
	};

	srpi_submit(t->session, &io);
	while (p.tries == 0)
		t_session_turn(t);
	assert_in_range(p.tries, 1, 10);
	while (p.tries < 1000)
		t_session_turn(t);
	t_session_free(t);
}

/* ---- answers to discovery after a reconnect ---- */

static const struct phase_row {
	const char *name;
	enum scsi_status status;
	enum scsi_asc code;
} phase_rows[] = {
	{ "not ready", SCSI_STATUS_CHECK_CONDITION, SCSI_ASC_BECOMING_READY },
	{ "busy", SCSI_STATUS_BUSY, 0 },
	{ "task set full", SCSI_STATUS_TASK_SET_FULL, 0 },
};

/* The unit becomes ready after I/O has begun to fail. */
T_ROWS(unit_that_is_ready_late_comes_back, phase_rows)
{
	const struct phase_row *row = *state;
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .fast_io_fail_ms = 50 });

	t->override = (struct t_override){
		.status = row->status,
		.sense = scsi_sense(SCSI_KEY_NOT_READY, row->code),
		.cnt = UINT32_MAX,
	};
	t_session_drop(t, 0);
	while (srpi_session_state(t->session) != SRPI_FAIL_FAST)
		t_session_turn(t);
	t->override.cnt = 0;
	while (srpi_session_state(t->session) != SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t_session_free(t);
}

static const struct optional_row {
	const char *name;
	uint8_t opcode;
	uint8_t page;
	enum scsi_key key;
	enum scsi_asc code;
} optional_rows[] = {
	{ "page 80h", 0x12, 0x80, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "page 83h", 0x12, 0x83, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "page 83h, refused", 0x12, 0x83, SCSI_KEY_ILLEGAL_REQUEST,
	  SCSI_ASC_INVALID_FIELD_IN_CDB },
	{ "page C0h", 0x12, 0xc0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "READ CAPACITY (16)", 0x9e, 0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
	{ "MODE SENSE", 0x1a, 0, SCSI_KEY_HARDWARE_ERROR,
	  SCSI_ASC_INTERNAL_TARGET_FAILURE },
};

/* The volume is the same, and no data is known to be lost. */
T_ROWS(question_that_fails_fails_the_attempt, optional_rows)
{
	const struct optional_row *row = *state;
	struct t_session *t = t_session_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->override = (struct t_override){
		.opcode = row->opcode,
		.page = row->page,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(row->key, row->code),
		.cnt = 1,
	};
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(t->override.cnt, 0);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.attempts, 2);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_true(srpi_volume_info(t->session, 0)->fua);
	t_session_free(t);
}

T_TEST(another_identifier_is_another_volume)
{
	struct t_session *t = t_session_new_with_ids();

	t->naa = 1;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_non_null(strstr(t->why.text, "another volume"));
	t_session_free(t);
}

/* ---- attentions that may mean another volume ---- */

static const struct identity_row {
	const char *name;
	enum scsi_asc code;
} identity_rows[] = {
	{ "reported LUNs data has changed", SCSI_ASC_REPORTED_LUNS_CHANGED },
	{ "inquiry data has changed", SCSI_ASC_INQUIRY_DATA_CHANGED },
	{ "device identifier changed", 0x3f05 },
	{ "medium may have changed", SCSI_ASC_MEDIUM_MAY_HAVE_CHANGED },
	{ "power on", SCSI_ASC_POWER_ON },
	{ "parameters changed", SCSI_ASC_PARAMETERS_CHANGED },
};

T_ROWS(other_volume_gets_no_write, identity_rows)
{
	const struct identity_row *row = *state;
	struct t_session *t = t_session_new_with_ids();

	t->naa = 1;
	t->override = t_override_attention(0x2a, row->code);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), -EIO);
	assert_int_equal(t->writes, 0);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_non_null(strstr(t->why.text, "another volume"));
	t_session_free(t);
}

T_ROWS(same_volume_gets_its_write, identity_rows)
{
	const struct identity_row *row = *state;
	struct t_session *t = t_session_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->blocks = 2 * BLOCKS;
	t->override = t_override_attention(0x2a, row->code);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, 2);
	assert_int_equal(srpi_volume_info(t->session, 0)->size,
			 2ull * BLOCKS * BLK);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.reconnects, 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* The URI names another volume, which is enough for the session as long as the
 * program does not use this one. */
T_TEST(volume_used_before_a_reconnect_is_not_exchanged)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .has_ids = true,
							   .has_second = true,
							   .comes_back = true,
							   .volume = "disk",
							   .generation = 1 });
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .volume = 1,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->ignores_writes = true;
	srpi_submit(t->session, &io);
	while (t->writes < 1)
		t_session_turn(t);
	/* The write is sent again, and has no answer again. */
	t_session_drop(t, 0);
	while (t->lba_cnt)
		t_session_turn(t);
	t->ignores_writes = true;
	while (t->writes < 2)
		t_session_turn(t);
	t->second_naa++;
	t_session_drop(t, 0);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, -ENODEV);
	assert_int_equal(t->writes, 2);
	assert_string_equal(t->events, "-1");
	assert_non_null(strstr(t->gone_why, "another volume"));
	assert_int_equal(srpi_volume_state(t->session, 1), SRPI_LOST);
	/* That of the URI goes on. */
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->write_lun, 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* ---- a volume that is absent costs only itself ---- */

static void volume_take_away(struct t_session *t, unsigned int how)
{
	t->has_second = how != 0;
	t->second_is_mute = how == 1;
	t->unready[1] =
		(struct scsi_sense){ .key = how == 2 ? SCSI_KEY_NOT_READY : 0,
				     .code = SCSI_ASC_MEDIUM_NOT_PRESENT };
}

static void volume_put_back(struct t_session *t)
{
	t->has_second = true;
	t->second_is_mute = false;
	t->unready[1].key = 0;
}

static const struct absent_row {
	const char *name;
	unsigned int how;
	bool late; /* it is back after its I/O has failed */
} absent_rows[] = {
	{ "the target does not show it", 0 },
	{ "it does not say what it is", 1 },
	{ "it has no medium", 2 },
	{ "the target does not show it for long", 0, true },
	{ "it does not say what it is for long", 1, true },
	{ "it has no medium for long", 2, true },
};

T_ROWS(volume_that_is_absent_costs_only_itself, absent_rows)
{
	const struct absent_row *row = *state;
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .has_ids = true,
					     .has_second = true,
					     .comes_back = true,
					     .fast_io_fail_ms = 60000,
					     .generation = 1 });
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .volume = 1,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	for (unsigned int v = 0; v < 2; v++)
		assert_int_equal(t_session_io_of(t, v, SRPI_WRITE, false), 0);
	volume_take_away(t, row->how);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_volume_state(t->session, 0), SRPI_RUNNING);
	assert_int_equal(srpi_volume_state(t->session, 1), SRPI_BLOCKED);
	srpi_submit(t->session, &io);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	assert_int_equal(res, 1);
	if (row->late) {
		reactor_skip(t->ctx->reactor, 60000);
		while (res == 1)
			t_session_turn(t);
		assert_int_equal(res, -EIO);
		assert_true(srpi_io_refused(&io));
		assert_int_equal(srpi_volume_state(t->session, 1),
				 SRPI_FAIL_FAST);
		assert_int_equal(t_session_io_of(t, 1, SRPI_WRITE, false),
				 -EIO);
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	}
	volume_put_back(t);
	while (srpi_volume_state(t->session, 1) != SRPI_RUNNING)
		t_session_turn(t);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, row->late ? -EIO : 0);
	assert_int_equal(t_session_io_of(t, 1, SRPI_WRITE, false), 0);
	assert_int_equal(t->write_lun, 1);
	assert_int_equal(t_session_io_of(t, 1, SRPI_FLUSH, false), 0);
	assert_string_equal(t->events, row->late ? "~1 ~1 ~1" : "~1 ~1");
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* It was not flushed, and the target has lost it. */
T_TEST(volume_that_is_back_tells_of_its_losses)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .has_ids = true,
							   .has_second = true,
							   .comes_back = true,
							   .generation = 1 });

	for (unsigned int v = 0; v < 2; v++)
		assert_int_equal(t_session_io_of(t, v, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	volume_take_away(t, 0);
	t_session_lose(t, 2, SCSI_ASC_NEXUS_LOSS);
	volume_put_back(t);
	assert_int_equal(t_session_io_of(t, 1, SRPI_FLUSH, false), -EIO);
	assert_int_equal(t_session_io_of(t, 1, SRPI_FLUSH, false), 0);
	assert_non_null(strstr(t->state_why, "may be lost"));
	t_session_free(t);
}

/* Each of its commands ends by its own limit, and the connection is made again. */
T_TEST(volume_that_hangs_does_not_make_io_fail)
{
	struct t_session *t = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = true,
					     .has_ids = true,
					     .has_second = true,
					     .comes_back = true,
					     .fast_io_fail_ms = 15000,
					     .io_timeout_ms = 30000,
					     .generation = 1 });
	static uint8_t block[BLK];
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };
	struct srpi_error e;
	unsigned int times = 0;

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->never_writes = true;
	srpi_submit(t->session, &io);
	while (res == 1) {
		while (res == 1 && t->writes == times) {
			assert_int_not_equal(srpi_session_state(t->session),
					     SRPI_FAIL_FAST);
			t_session_turn(t);
		}
		if (res == 1)
			reactor_skip(t->ctx->reactor, 30000);
		times++;
	}
	assert_int_equal(res, -EIO);
	assert_int_equal(t->writes, 2);
	t->never_writes = false;
	assert_int_equal(t_session_io_of(t, 1, SRPI_WRITE, false), 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* ---- a volume is itself at each LUN ---- */

/* One more volume in front of it. */
T_TEST(volume_that_has_another_lun_is_the_same)
{
	struct t_session *t = t_session_new_with_ids();

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->second_naa = t->naa;
	t->naa = 0x77;
	t->has_second = true;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(srpi_volume_info(t->session, 0)->lun, 1);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->write_lun, 1);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* Over the connection that stands. The session logs in again, which ends what was sent
 * to the old LUN. */
T_TEST(write_that_waits_follows_its_volume)
{
	struct t_session *t = t_session_new_with_ids();
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->write_lun, 0);
	t->second_naa = t->naa;
	t->naa = 0x77;
	t->has_second = true;
	t->override =
		t_override_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->write_lun, 1);
	srpi_session_stats(t->session, &stats);
	assert_int_equal(stats.reconnects, 1);
	t_session_free(t);
}

T_TEST(volumes_that_change_places_stay_themselves)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .has_ids = true,
							   .has_second = true,
							   .comes_back = true,
							   .generation = 1 });

	for (unsigned int i = 0; i < 3; i++) {
		uint8_t naa = t->naa;

		for (unsigned int v = 0; v < 2; v++) {
			assert_int_equal(
				t_session_io_of(t, v, SRPI_WRITE, false), 0);
			assert_int_equal(t->write_lun, (v + i) % 2);
		}
		t->naa = t->second_naa;
		t->second_naa = naa;
		t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
		assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	}
	t_session_free(t);
}

/* ---- units that cannot describe themselves ---- */

static const struct unready_row {
	const char *name;
	struct t_session_options o;
	const char *why; /* the login fails; NULL: it does not */
	uint32_t lun;	 /* of the only volume */
} unready_rows[] = {
	{ "the second one has no medium",
	  .o.unready[1] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT } },
	{ "the first one has no medium",
	  .o.unready[0] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT },
	  .lun = 1 },
	{ "the first one is being sanitized",
	  .o.unready[0] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_SANITIZE_IN_PROGRESS },
	  .lun = 1 },
	{ "the first one fails",
	  .o.unready[0] = { .key = SCSI_KEY_HARDWARE_ERROR,
			    .code = SCSI_ASC_INTERNAL_TARGET_FAILURE },
	  .lun = 1 },
	{ "another one is named",
	  .o.unready[0] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT },
	  .o.volume = "disk-lun1", .lun = 1 },
	{ "it is named",
	  .o.unready[1] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT },
	  .o.volume = "disk-lun1", .why = "LUN 1: .*medium not present" },
	{ "its LUN is named",
	  .o.unready[0] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT },
	  .o.volume = "0", .why = "LUN 0: .*medium not present" },
	{ "none can",
	  .o.unready[0] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_MEDIUM_NOT_PRESENT },
	  .o.unready[1] = { .key = SCSI_KEY_NOT_READY,
			    .code = SCSI_ASC_SANITIZE_IN_PROGRESS },
	  .why = "LUN 0: .*medium not present" },
};

T_ROWS(unit_that_is_not_ready_costs_no_other_login, unready_rows)
{
	const struct unready_row *row = *state;
	struct t_session_options o = row->o;
	struct t_session *t;
	regex_t re;

	o.mode = MODE_CACHE;
	o.has_ids = true;
	o.has_second = true;
	o.fails = row->why != NULL;
	t = t_session_new(&o);
	if (row->why) {
		assert_int_equal(regcomp(&re, row->why, REG_NOSUB), 0);
		assert_int_equal(regexec(&re, t->why.text, 0, NULL, 0), 0);
		regfree(&re);
	} else {
		assert_int_equal(srpi_volume_cnt(t->session), 1);
		assert_int_equal(srpi_volume_info(t->session, 0)->lun,
				 row->lun);
		assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
		assert_int_equal(t->write_lun, row->lun);
	}
	t_session_free(t);
}

static struct t_session *lose_volume(const struct t_session_options *o)
{
	struct t_session *t = t_session_new(o);

	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->lun_is_gone = true;
	t->override =
		t_override_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_not_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	return t;
}

static void find_volume(struct t_session *t)
{
	t->lun_is_gone = false;
	while (srpi_volume_state(t->session, 0) != SRPI_RUNNING)
		t_session_turn(t);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
}

/* The target may show other volumes, which must reappear. */
T_TEST(volume_that_was_taken_away_holds_up_nobody)
{
	struct t_session *t =
		lose_volume(&(struct t_session_options){ .mode = MODE_CACHE,
							 .has_store = true,
							 .has_ids = true,
							 .comes_back = true,
							 .generation = 1 });

	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_not_equal(t_session_io(t, SRPI_WRITE, false), 0);
	find_volume(t);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	/* This volume must reappear. */
	t->lun_is_gone = true;
	t_session_drop(t, 0);
	while (!strstr(t->why.text, "does not show it"))
		t_session_turn(t);
	assert_int_equal(srpi_session_state(t->session), SRPI_BLOCKED);
	t_session_free(t);
}

static const struct unused_row {
	const char *name;
	bool is_gone; /* the second volume, after a reconnect */
	bool is_mute;
	uint8_t naa;
} unused_rows[] = {
	{ "it is gone", .is_gone = true },
	{ "it cannot say what it is", .is_mute = true },
	{ "another one is there", .naa = 0x33 },
};

/* The program has named no volume, and uses only the first one. */
T_ROWS(volume_that_was_never_used_holds_up_nobody, unused_rows)
{
	const struct unused_row *row = *state;
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_store = true,
							   .has_ids = true,
							   .has_second = true,
							   .comes_back = true,
							   .generation = 1 });
	uint8_t naa = t->second_naa;

	assert_int_equal(srpi_volume_cnt(t->session), 2);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->has_second = !row->is_gone;
	t->second_is_mute = row->is_mute;
	if (row->naa)
		t->second_naa = row->naa;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_RUNNING);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io_of(t, 1, SRPI_WRITE, false), -ENODEV);
	/* It is back. */
	t->has_second = true;
	t->second_is_mute = false;
	t->second_naa = naa;
	t->override =
		t_override_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io_of(t, 1, SRPI_WRITE, false), 0);
	t_session_free(t);
}

/* Nobody knows where the volume was meanwhile, or what happened to its
 * cache. */
static const struct away_row {
	const char *name;
	uint8_t then; /* generation afterwards; 0: not reported, neither before
		       * nor after */
	int res;
} away_rows[] = {
	{ "not told", 0, -EIO },
	{ "the same generation", 1, 0 },
	{ "another generation", 2, -EIO },
};

T_ROWS(volume_that_was_away_tells_of_its_cache, away_rows)
{
	const struct away_row *row = *state;
	struct t_session *t = lose_volume(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_store = row->then,
					     .has_ids = true,
					     .comes_back = true,
					     .generation = row->then ? 1 : 0 });

	t->generation = row->then;
	find_volume(t);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->res);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	t_session_free(t);
}

/* Answers from before the change belong to no volume. */
T_TEST(volume_that_changes_while_asked_is_asked_again)
{
	struct t_session *t = t_session_new_with_ids();

	t->override = t_override_attention(0x1a, SCSI_ASC_INQUIRY_DATA_CHANGED);
	t->override.naa = 1;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_int_equal(t->override.cnt, 0);
	t_session_free(t);
}

/* With another block size, offsets would mean other blocks. */
T_TEST(other_block_size_is_another_volume)
{
	struct t_session *t = t_session_new_with_ids();

	t->block_size = 4096;
	t->override = t_override_attention(0x2a, SCSI_ASC_CAPACITY_CHANGED);
	t_session_io(t, SRPI_WRITE, false);
	while (srpi_session_state(t->session) != SRPI_LOST)
		t_session_turn(t);
	assert_non_null(strstr(t->why.text, "4096 bytes"));
	t_session_free(t);
}

/* ---- discarding ---- */

static const struct clear_row {
	const char *name;
	enum srpi_op op;
	uint64_t lba;
	uint64_t blocks;
	bool zeroes; /* the volume says that discarded blocks read as zeroes */
	const char *commands;
	struct t_session_options o;
} clear_rows[] = {
	{ "discard, in blocks", SRPI_DISCARD, 3, 70, true, "d3+64 d67+6 ",
	  .o.max_write_same = 64 },
	{ "discard, of whole granules", SRPI_DISCARD, 16, 24, true, "d16+24 ",
	  .o.granularity = 8 },
	{ "discard, of parts of granules", SRPI_DISCARD, 3, 23, true,
	  "z3+5 d8+16 z24+2 ", .o.granularity = 8 },
	{ "discard, less than a granule", SRPI_DISCARD, 9, 5, true, "z9+5 ",
	  .o.granularity = 8 },
	{ "discard, up to the end of a granule", SRPI_DISCARD, 14, 2, true,
	  "z14+2 ", .o.granularity = 8 },
	{ "discard, granules with an offset", SRPI_DISCARD, 8, 16, true,
	  "z8+3 d11+8 z19+5 ", .o.granularity = 8, .o.alignment = 3 },
	{ "discard, more than a command takes", SRPI_DISCARD, 7, 41, true,
	  "z7+1 d8+16 d24+16 d40+8 ", .o.granularity = 8,
	  .o.max_write_same = 20 },
	{ "discard, a granule is more than a command takes", SRPI_DISCARD, 3,
	  20, false, "u ", .o.granularity = 8, .o.max_write_same = 7 },
	{ "discard, blocks may keep their data", SRPI_DISCARD, 3, 20, false,
	  "u ", .o.no_lbprz = true },
	{ "discard, by UNMAP only", SRPI_DISCARD, 3, 20, false, "u ",
	  .o.no_lbpws = true, .o.granularity = 8 },
	{ "zero, may discard", SRPI_WRITE_ZEROES, 3, 23, true,
	  "z3+5 d8+16 z24+2 ", .o.granularity = 8 },
	{ "zero, may discard, by UNMAP only", SRPI_WRITE_ZEROES, 3, 23, false,
	  "z3+23 ", .o.no_lbpws = true, .o.granularity = 8 },
};

/* The blocks must be zero whatever the target does about UNMAP, and also where
 * the range has a part of a granule. */
T_ROWS(discarded_blocks_are_zeroed, clear_rows)
{
	const struct clear_row *row = *state;
	struct t_session_options o = row->o;
	struct t_session *t;
	struct srpi_io io = { .op = row->op,
			      .offset = row->lba * BLK,
			      .len = row->blocks * BLK,
			      .discard = true };

	o.is_thin = true;
	t = t_session_new(&o);
	assert_true(srpi_volume_info(t->session, 0)->unmap);
	assert_int_equal(srpi_volume_info(t->session, 0)->unmap_zeroes,
			 row->zeroes);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), 0);
	assert_string_equal(t->clears, row->commands);
	t_session_free(t);
}

T_TEST(discards_go_on_without_write_same)
{
	struct t_session *t = t_session_new(&(struct t_session_options){
		.is_thin = true, .granularity = 8 });
	struct srpi_io io = { .op = SRPI_DISCARD, .len = 8 * BLK };

	t->override = (struct t_override){
		.opcode = 0x93,
		.status = SCSI_STATUS_CHECK_CONDITION,
		.sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				    SCSI_ASC_INVALID_OPCODE),
		.cnt = 1,
	};
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), 0);
	assert_string_equal(t->clears, "w0+8 ");
	t_session_free(t);
}

/* An operation of several commands has begun before. */
T_TEST(discard_ends_when_the_volume_cannot_any_more)
{
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .is_thin = true,
							   .no_lbpws = true,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1 });
	struct srpi_io io = { .op = SRPI_DISCARD, .len = 16 * BLK };

	t->session->volumes[0]->max_unmap_blocks = 8;
	t->o.is_thin = false;
	t->override = t_override_attention(0x42, SCSI_ASC_PARAMETERS_CHANGED);
	assert_int_equal(srpi_io_wait(t->ctx, t->session, &io), -EOPNOTSUPP);
	assert_string_equal(t->clears, "u ");
	t_session_free(t);
}

/* ---- exchanges ---- */

static const struct vendor_row {
	const char *name;
	bool is_ours;
} vendor_rows[] = {
	{ "RDMABLK", true }, { "RDMABL", false }, { "RDMABLKX", false },
	{ "R", false },	     { "", false },
};

/* In that of another vendor there may be firmware. */
T_ROWS(buffer_of_no_other_vendor_is_written, vendor_rows)
{
	const struct vendor_row *row = *state;
	struct t_session *t = t_session_new_returning(MODE_CACHE);

	strcpy(t->session->volumes[0]->info.vendor, row->name);
	assert_int_equal(ini_exchange_has_buffer(t->session), row->is_ours);
	t_session_free(t);
}
