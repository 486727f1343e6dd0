/* SPDX-License-Identifier: BSD-2-Clause */
/* libsrpi: a session that follows volumes that are added and removed, and what
 * a session without I/O notices. */
#include <errno.h>
#include <string.h>

#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"

static enum srpi_path_state follow_path_state(const struct t_session *t,
					      unsigned int path)
{
	struct srpi_path_info info = { .struct_size = sizeof(info) };

	srpi_path_info(t->session, path, &info);
	return info.state;
}

/* ---- volumes that are added and removed ---- */

static struct t_session *follow_new(bool has_second)
{
	return t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .follows = true,
					     .has_second = has_second });
}

/* A write gets the unit attention, and waits until the library knows the
 * volumes again. */
static int follow_write_at_change(struct t_session *p, unsigned int volume)
{
	p->override =
		t_override_attention(0x2a, SCSI_ASC_REPORTED_LUNS_CHANGED);
	return t_session_io_of(p, volume, SRPI_WRITE, false);
}

static uint64_t follow_logins(const struct t_session *p)
{
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };

	srpi_session_stats(p->session, &stats);
	return stats.reconnects;
}

T_TEST(new_volume_is_told)
{
	struct t_session *p = follow_new(false);

	p->has_second = true;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_string_equal(p->events, "+1");
	assert_int_equal(srpi_volume_cnt(p->session), 2);
	assert_string_equal(srpi_volume_info(p->session, 1)->name, "disk-lun1");
	assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), 0);
	assert_int_equal(follow_logins(p), 0);
	t_session_free(p);
}

/* The target may keep the LUN unused until the initiator logs in again. */
T_TEST(removed_volume_is_told_and_the_session_logs_in_again)
{
	struct t_session *p = follow_new(true);

	assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), 0);
	p->has_second = false;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_string_equal(p->events, "-1");
	assert_non_null(strstr(p->gone_why, "does not show it"));
	assert_int_equal(follow_logins(p), 1);
	assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), -ENODEV);
	assert_int_equal(t_session_io_of(p, 1, SRPI_FLUSH, false), -ENODEV);
	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	/* If the same volume comes again, it is a new one. */
	p->has_second = true;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_string_equal(p->events, "-1 +2");
	assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), -ENODEV);
	assert_int_equal(t_session_io_of(p, 2, SRPI_WRITE, false), 0);
	t_session_free(p);
}

/* Not even the write that got the unit attention. */
T_TEST(other_volume_in_its_place_gets_no_write)
{
	struct t_session *p = follow_new(true);

	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(p->writes, 1);
	p->naa = 7;
	assert_int_equal(follow_write_at_change(p, 0), -ENODEV);
	assert_int_equal(p->writes, 1);
	assert_string_equal(p->events, "-0 +2");
	assert_non_null(strstr(p->gone_why, "another volume is there now"));
	assert_int_equal(srpi_session_state(p->session), SRPI_RUNNING);
	assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io_of(p, 2, SRPI_WRITE, false), 0);
	t_session_free(p);
}

/* As if the target notices the end of the old connection late. */
T_TEST(session_logs_in_until_it_is_another_nexus)
{
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	struct t_session *p = follow_new(true);

	p->has_second = false;
	p->replaces = 3;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_int_equal(p->replaces, 0);
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.attempts, 4);
	assert_int_equal(stats.reconnects, 1);
	/* Other logins may replace sessions. */
	p->replaces = 1;
	t_session_lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	srpi_session_stats(p->session, &stats);
	assert_int_equal(stats.attempts, 5);
	t_session_free(p);
}

T_TEST(forgotten_number_is_used_again)
{
	struct t_session *p = follow_new(true);

	for (uint8_t i = 0; i < 20; i++) {
		p->events[0] = '\0';
		p->second_naa++;
		assert_int_equal(follow_write_at_change(p, 0), 0);
		assert_string_equal(p->events, i % 2 ? "-2 +1" : "-1 +2");
		srpi_volume_forget(p->session, i % 2 ? 2 : 1);
	}
	assert_int_equal(srpi_volume_cnt(p->session), 3);
	t_session_free(p);
}

/* After a reconnect, a volume that is in use may appear late. The other one goes on. */
static const struct late_row {
	const char *name;
	bool used;
	bool mute; /* the volume appears, but cannot be identified yet */
	bool appears;
	const char *events;
	bool before; /* the session has logged in again before */
} late_rows[] = {
	{ "not used", false, false, false, "-1" },
	{ "used, and does not appear", true, false, false, "~1 -1" },
	{ "used, and appears", true, false, true, "~1 ~1" },
	{ "used, and cannot tell what it is", true, true, false, "~1" },
	{ "used, and tells what it is late", true, true, true, "~1 ~1" },
	{ "used before another reconnect, and appears", true, false, true,
	  "~1 ~1", true },
};

T_ROWS(volume_that_is_missing_after_a_reconnect, late_rows)
{
	const struct late_row *row = *state;
	struct t_session *p = follow_new(true);

	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	if (row->used)
		assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false), 0);
	if (row->before)
		t_session_lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	p->has_second = row->mute;
	p->second_is_mute = row->mute;
	t_session_drop(p, 0);
	while (row->used &&
	       !strstr(p->state_why, row->mute ? "fails now" : "not show it"))
		t_session_turn(p);
	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	if (row->appears)
		p->has_second = true;
	if (row->appears)
		p->second_is_mute = false;
	else
		reactor_skip(p->ctx->reactor, 3000);
	while (strcmp(p->events, row->events))
		t_session_turn(p);
	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	if (row->appears || !row->mute)
		assert_int_equal(t_session_io_of(p, 1, SRPI_WRITE, false),
				 row->appears ? 0 : -ENODEV);
	t_session_free(p);
}

/* Another target has the second address. Its volumes do not replace the old
 * ones. */
T_TEST(volumes_of_another_target_are_not_followed)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .generation = 2,
					     .naa = 7 };
	struct t_session *p =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .has_store = true,
							   .comes_back = true,
							   .generation = 1,
							   .follows = true,
							   .other = &b });

	t_session_lose(p, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(follow_path_state(p, 1), SRPI_PATH_OTHER);
	assert_string_equal(p->events, "");
	t_session_free(p);
}

T_TEST(volume_that_cannot_be_asked_holds_up_nobody)
{
	struct t_session *p = follow_new(false);

	p->has_second = true;
	p->second_is_mute = true;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_string_equal(p->events, "");
	p->second_is_mute = false;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_string_equal(p->events, "+1");
	t_session_free(p);
}

/* ---- sessions without I/O ---- */

static struct t_session *follow_new_idle(void)
{
	return t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .follows = true,
					     .keep_alive_ms = 5000 });
}

T_TEST(idle_session_asks_each_volume)
{
	struct t_session *p = follow_new_idle();

	p->has_second = true;
	assert_int_equal(follow_write_at_change(p, 0), 0);
	assert_int_equal(p->turs, 0);
	for (unsigned int i = 1; i <= 3; i++) {
		reactor_skip(p->ctx->reactor, 5000);
		while (p->turs < 2 * i)
			t_session_turn(p);
	}
	t_session_free(p);
}

T_TEST(idle_session_learns_of_new_volumes)
{
	struct t_session *p = follow_new_idle();

	p->has_second = true;
	p->attention = SCSI_ASC_REPORTED_LUNS_CHANGED;
	reactor_skip(p->ctx->reactor, 5000);
	while (!*p->events)
		t_session_turn(p);
	assert_string_equal(p->events, "+1");
	t_session_free(p);
}

T_TEST(session_without_volumes_learns_of_new_ones)
{
	struct t_session *p = follow_new_idle();

	p->lun_is_gone = true;
	assert_int_equal(follow_write_at_change(p, 0), -ENODEV);
	assert_string_equal(p->events, "-0");
	srpi_volume_forget(p->session, 0);
	p->lun_is_gone = false;
	reactor_skip(p->ctx->reactor, 5000);
	while (strlen(p->events) < 5)
		t_session_turn(p);
	assert_string_equal(p->events, "-0 +0");
	t_session_free(p);
}

/* The target that was active reports that another target is active. */
T_TEST(idle_session_goes_to_the_active_address)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .generation = 2,
					     .groups = 2,
					     .own = 2,
					     .active = 1 };
	struct t_session *p = t_session_new(
		&(struct t_session_options){ .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .comes_back = true,
					     .generation = 1,
					     .groups = 2,
					     .own = 1,
					     .active = 1,
					     .other = &b,
					     .keep_alive_ms = 5000 });

	p->o.active = 2;
	p->other->o.active = 2;
	p->attention = SCSI_ASC_ACCESS_STATE_CHANGED;
	reactor_skip(p->ctx->reactor, 5000);
	while (follow_path_state(p, 1) != SRPI_PATH_IN_USE)
		t_session_turn(p);
	assert_int_equal(follow_path_state(p, 0), SRPI_PATH_STANDBY);
	t_session_free(p);
}

/* Every I/O is answered once, and the library reports the end. */
T_TEST(session_is_closed_when_a_volume_is_gone)
{
	struct t_session *p = follow_new(true);

	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	p->closes_from = GONE;
	p->naa = 7;
	assert_true(follow_write_at_change(p, 0) < 0);
	while (!p->closed)
		t_session_turn(p);
	t_session_free(p);
}

/* The target restarts, and is reachable again by the address that was not in
 * use. */
static const struct sibling_row {
	const char *name;
	uint8_t first; /* generation that the second address reports when the
		        * first one fails */
	enum srpi_path_state state;
} sibling_rows[] = {
	{ "seen before as the same target", 1, SRPI_PATH_IN_USE },
	{ "never seen before as the same target", 2, SRPI_PATH_UNSAFE },
};

T_ROWS(address_after_a_boot, sibling_rows)
{
	const struct sibling_row *row = *state;
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .generation = row->first };
	struct t_session *p = t_session_new_two(&b);

	assert_int_equal(t_session_io(p, SRPI_WRITE, false), 0);
	assert_int_equal(t_session_io(p, SRPI_FLUSH, false), 0);
	t_session_lose(p, row->first, SCSI_ASC_NEXUS_LOSS);
	if (row->state == SRPI_PATH_IN_USE) {
		assert_int_equal(follow_path_state(p, 1), SRPI_PATH_IN_USE);
		p->generation = 2;
		p->other->generation = 2;
		t_session_drop(p->other, 0);
		while (srpi_session_state(p->session) == SRPI_RUNNING)
			t_session_turn(p);
		while (srpi_session_state(p->session) != SRPI_RUNNING)
			t_session_turn(p);
		assert_int_equal(follow_path_state(p, 0), SRPI_PATH_IN_USE);
		assert_int_equal(follow_path_state(p, 1), SRPI_PATH_DOWN);
	} else {
		assert_int_equal(follow_path_state(p, 0), SRPI_PATH_IN_USE);
		assert_int_equal(follow_path_state(p, 1), SRPI_PATH_UNSAFE);
	}
	t_session_free(p);
}
