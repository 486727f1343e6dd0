/* SPDX-License-Identifier: BSD-2-Clause */
/* libsrpi: a target, or two gateways, that have several addresses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_fabric.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_session.h"
#include "tests/lib/t_table.h"

/* ---- several addresses ---- */

static enum srpi_path_state path_state(const struct t_session *t,
				       unsigned int path)
{
	struct srpi_path_info info = { .struct_size = sizeof(info) };

	srpi_path_info(t->session, path, &info);
	return info.state;
}

static const struct path_row {
	const char *name;
	uint16_t active;	    /* the group that B reports as active */
	enum srpi_path_state state; /* of the second address afterwards */
	int flush;		    /* result of the next flush */
	struct t_session_options b; /* the second address */
} path_rows[] = {
	{ "another address of the same target", 0, SRPI_PATH_IN_USE, 0,
	  .b.has_ids = true, .b.has_store = true, .b.generation = 1 },
	{ "another target, of which nothing is known", 0, SRPI_PATH_UNSAFE, 0,
	  .b.has_ids = true, .b.has_store = true, .b.generation = 2 },
	{ "another volume", 0, SRPI_PATH_OTHER, 0, .b.has_ids = true,
	  .b.has_store = true, .b.generation = 1, .b.naa = 7 },
	{ "a gateway that is active now", 2, SRPI_PATH_IN_USE, -EIO,
	  .b.has_ids = true, .b.has_store = true, .b.generation = 2,
	  .b.groups = 2, .b.own = 2 },
	{ "a gateway in standby", 1, SRPI_PATH_STANDBY, 0, .b.has_ids = true,
	  .b.has_store = true, .b.generation = 2, .b.groups = 2, .b.own = 2 },
	{ "a gateway in standby with another volume", 1, SRPI_PATH_OTHER, 0,
	  .b.has_ids = true, .b.has_store = true, .b.generation = 2, .b.naa = 7,
	  .b.groups = 2, .b.own = 2 },
	{ "an active target that knows no other gateway", 1, SRPI_PATH_UNSAFE,
	  0, .b.has_ids = true, .b.has_store = true, .b.generation = 2,
	  .b.groups = 1, .b.own = 1 },
};

/* The connection to the first address is lost, but the address still listens.
 * One write was acknowledged and one was not. */
T_ROWS(address_after_a_loss, path_rows)
{
	const struct path_row *row = *state;
	struct t_session_options b = row->b;
	struct t_session *t;
	struct t_session *used;
	static uint8_t block[BLK];
	struct srpi_error e;
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .offset = 5 * BLK,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };

	b.mode = MODE_CACHE;
	b.active = row->active;
	t = t_session_new_two(&b);
	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	assert_int_equal(path_state(t, 0), SRPI_PATH_IN_USE);
	assert_int_equal(path_state(t, 1), SRPI_PATH_UNTRIED);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	t->ignores_writes = true;
	srpi_submit(t->session, &io);
	while (t->writes < 2)
		t_session_turn(t);
	if (row->state == SRPI_PATH_IN_USE)
		t_tgt_unlisten(&t->tgt);
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	used = row->state == SRPI_PATH_IN_USE ? t->other : t;
	assert_int_equal(used->lbas[0], 5);
	assert_int_equal(t->other->writes, used == t->other);
	assert_int_equal(path_state(t, 1), row->state);
	assert_int_equal(path_state(t, 0),
			 used == t ? SRPI_PATH_IN_USE : SRPI_PATH_DOWN);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), row->flush);
	assert_int_equal(t_session_io(t, SRPI_FLUSH, false), 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* The library leaves the gateway that is in standby. */
T_TEST(standby_is_passed_over)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2,
					     .active = 2 };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .has_store = true,
							   .comes_back = true,
							   .groups = 2,
							   .own = 1,
							   .active = 2,
							   .other = &b });

	assert_int_equal(path_state(t, 0), SRPI_PATH_STANDBY);
	assert_int_equal(path_state(t, 1), SRPI_PATH_IN_USE);
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->refused, 0);
	assert_int_equal(t->other->writes, 1);
	t_session_free(t);
}

T_TEST(without_an_active_address_no_login)
{
	const struct t_session_options b = { .mode = MODE_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2 };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .has_store = true,
							   .groups = 2,
							   .own = 1,
							   .fails = true,
							   .other = &b });
	char why[128];

	assert_int_equal(t->why.err, -ESHUTDOWN);
	snprintf(why, sizeof(why),
		 "none of the 2 addresses can be used: (1) volume 'disk' "
		 "(LUN 0) of %s",
		 t->addr);
	assert_non_null(strstr(t->why.text, why));
	assert_non_null(strstr(t->why.text, ", (2) volume"));
	assert_null(t->session);
	t_session_free(t);
}

/* Only the volume that the URI names counts. */
T_TEST(standby_of_another_volume_does_not_count)
{
	const struct t_session_options b = { .mode = MODE_CACHE };
	struct t_session *t =
		t_session_new(&(struct t_session_options){ .mode = MODE_CACHE,
							   .has_ids = true,
							   .groups = 2,
							   .own = 1,
							   .volume = "tape",
							   .other = &b });

	assert_int_equal(path_state(t, 0), SRPI_PATH_IN_USE);
	t_session_free(t);
}

static const struct turn_row {
	const char *name;
	bool attention; /* a unit attention reports it; false: the answer to the
			 * write does */
	bool moved;	/* the other gateway is active */
} turn_rows[] = {
	{ "a write is refused", false, true },
	{ "an attention tells", true, true },
	{ "an attention tells, and nothing has changed", true, false },
};

/* The active gateway goes into standby while it is connected. */
T_ROWS(address_that_turns_standby_is_left, turn_rows)
{
	const struct turn_row *row = *state;
	const struct t_session_options b = { .mode = MODE_NO_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .generation = 2,
					     .groups = 2,
					     .own = 2,
					     .active = 1 };
	struct t_session *t = t_session_new_two(&b);

	if (row->attention)
		t->attention = SCSI_ASC_ACCESS_STATE_CHANGED;
	if (row->moved)
		t->o.active = t->other->o.active = 2;
	assert_int_equal(t_session_io(t, SRPI_WRITE, false), 0);
	assert_int_equal(t->writes, !row->moved);
	assert_int_equal(t->other->writes, row->moved);
	assert_int_equal(t->refused, row->moved && !row->attention);
	assert_int_equal(path_state(t, 0),
			 row->moved ? SRPI_PATH_STANDBY : SRPI_PATH_IN_USE);
	t_session_free(t);
}

/* I/O waits while no gateway is active, and continues through the first one
 * that is. */
T_TEST(io_waits_for_an_active_address)
{
	const struct t_session_options b = { .mode = MODE_NO_CACHE,
					     .has_ids = true,
					     .has_store = true,
					     .groups = 2,
					     .own = 2,
					     .active = 1 };
	struct t_session *t = t_session_new_two(&b);
	struct srpi_session_stats stats = { .struct_size = sizeof(stats) };
	static uint8_t block[BLK];
	struct srpi_error e;
	int res = 1;
	struct srpi_io io = { .op = SRPI_WRITE,
			      .len = BLK,
			      .buf = block,
			      .done = t_session_store_result,
			      .arg = &res };

	assert_int_equal(srpi_mem_register(t->session, block, BLK, &io.mem, &e),
			 0);
	t->o.active = t->other->o.active = 0;
	srpi_submit(t->session, &io);
	while (stats.attempts < 5) {
		t_session_turn(t);
		srpi_session_stats(t->session, &stats);
	}
	assert_int_equal(res, 1);
	assert_int_equal(srpi_session_state(t->session), SRPI_BLOCKED);
	t->o.active = t->other->o.active = 2;
	while (res == 1)
		t_session_turn(t);
	assert_int_equal(res, 0);
	assert_int_equal(t->other->writes, 1);
	assert_int_equal(stats.replayed, 0);
	srpi_mem_free(io.mem);
	t_session_free(t);
}

/* Otherwise nothing would slow down attempts while no address can be used. */
T_TEST(there_is_a_pause_after_each_round)
{
	static struct srpi_session s = { .paths.cnt = 3 };

	ini_paths_outage(&s, /* stood= */ true);
	for (int round = 0; round < 3; round++) {
		assert_true(ini_paths_quick(&s));
		assert_true(ini_paths_quick(&s));
		assert_false(ini_paths_quick(&s));
	}
}

T_TEST(session_without_the_volume_is_lost)
{
	const struct t_session_options b = {
		.mode = MODE_CACHE, .has_ids = true, .has_store = true, .naa = 7
	};
	struct t_session *t = t_session_new_two(&b);

	t->naa = 8;
	t_session_lose(t, 1, SCSI_ASC_NEXUS_LOSS);
	assert_int_equal(srpi_session_state(t->session), SRPI_LOST);
	assert_int_equal(path_state(t, 0), SRPI_PATH_OTHER);
	assert_int_equal(path_state(t, 1), SRPI_PATH_OTHER);
	t_session_free(t);
}

static const struct fenced_row {
	const char *name;
	struct ini_volume was;
	struct ini_volume now;
	bool fenced;
} fenced_rows[] = {
	{ "the same generation",
	  { .has_store = true, .store.generation = { 1 } },
	  { .has_store = true, .store.generation = { 1 } },
	  true },
	{ "another generation",
	  { .has_store = true, .store.generation = { 1 } },
	  { .has_store = true, .store.generation = { 2 } },
	  false },
	{ "nothing is told",
	  { .has_store = false },
	  { .has_store = false },
	  false },
	{ "one tells no generation",
	  { .has_store = true },
	  { .has_store = false },
	  false },
	{ "the same port",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  true },
	{ "another port",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 2, .port = { 8, 'y' } } },
	  false },
	{ "a port with a longer name",
	  { .access = { .port_len = 2, .port = { 8, 'x' } } },
	  { .access = { .port_len = 3, .port = { 8, 'x', 'x' } } },
	  false },
	{ "the only active group",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 1 } },
	  true },
	{ "one of two active groups",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 2 } },
	  false },
	{ "another group is active",
	  { .access = { .group_cnt = 2 } },
	  { .access = { .group_cnt = 2, .active_cnt = 1 } },
	  false },
	{ "the target before was no gateway",
	  { .access = { .group_cnt = 1 } },
	  { .access = { .group_cnt = 2,
			.own_is_active = true,
			.active_cnt = 1 } },
	  false },
};

T_ROWS(another_address_is_fenced, fenced_rows)
{
	const struct fenced_row *row = *state;

	assert_int_equal(ini_path_is_fenced(&row->was, &row->now), row->fenced);
}

/* ---- the first login, by RDMA and by TCP ---- */

/* Two fabrics in memory take the place of RDMA and TCP. Nothing listens. */
struct fabrics {
	struct srpi_ctx ctx;
	struct t_fabric *hubs[2];
	struct ini_xp own[2];
	struct srpi_session *session;
	struct srpi_error e;
	bool connected;
	bool closed;
};

static void fabrics_connected(struct srpi_session *s,
			      const struct srpi_error *e, void *arg)
{
	struct fabrics *f = arg;

	f->e = *e;
	f->connected = true;
}

static void fabrics_closed(void *arg)
{
	((struct fabrics *)arg)->closed = true;
}

static void fabrics_begin(struct fabrics *f)
{
	static const enum xp_kind kinds[] = { XP_VERBS, XP_TCP };
	const struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = INI_RECV_LEN };

	*f = (struct fabrics){ .closed = false };
	assert_int_equal(reactor_create(&ropt, &f->ctx.reactor), 0);
	cfg.reactor = f->ctx.reactor;
	for (unsigned int i = 0; i < 2; i++) {
		f->hubs[i] = t_fabric_create();
		f->own[i] =
			(struct ini_xp){ .kind = kinds[i], .next = f->ctx.xps };
		f->ctx.xps = &f->own[i];
		T_MUST(!t_xp_create(f->hubs[i], &cfg, &f->own[i].xp));
	}
}

/* Returns the error of the login. */
static int fabrics_log_in(struct fabrics *f, const char *uri)
{
	const struct srpi_options so = { .struct_size = sizeof(so),
					 .timeout_ms = 20 };

	assert_int_equal(srpi_connect(&f->ctx, uri, &so, fabrics_connected, f,
				      &f->session, &f->e),
			 0);
	/* As if this machine had an RDMA device. */
	f->session->kind = XP_VERBS;
	f->session->uri.forced = false;
	while (!f->connected)
		assert_true(srpi_ctx_run(&f->ctx, 10000) >= 0);
	return f->e.err;
}

static void fabrics_end(struct fabrics *f)
{
	srpi_close(f->session, fabrics_closed, f);
	while (!f->closed)
		assert_true(srpi_ctx_run(&f->ctx, 10000) >= 0);
	for (unsigned int i = 0; i < 2; i++) {
		xp_destroy(f->own[i].xp);
		t_fabric_destroy(f->hubs[i]);
	}
	reactor_destroy(f->ctx.reactor);
}

/* RDMA has no way to the first address, and no answer from the second. */
T_TEST(silent_address_does_not_keep_others_from_tcp)
{
	const struct sockaddr_in first = t_addr("10.0.0.1", 5555);
	const struct sockaddr_in second = t_addr("10.0.0.2", 5555);
	struct fabrics f;

	fabrics_begin(&f);
	t_fabric_close_way(f.hubs[0], (const void *)&first, sizeof(first));
	t_fabric_silence(f.hubs[0], (const void *)&second, sizeof(second));
	assert_int_equal(fabrics_log_in(&f, "srp://10.0.0.1,10.0.0.2"),
			 -ECONNREFUSED);
	assert_int_equal(f.session->kind, XP_TCP);
	fabrics_end(&f);
}

/* The target still has a connection of a queue pair with the same number. */
T_TEST(stale_connection_is_tried_again)
{
	struct fabrics f;

	fabrics_begin(&f);
	t_fabric_make_stale(f.hubs[0], 2);
	assert_int_equal(fabrics_log_in(&f, "srp://10.0.0.1"), -ECONNREFUSED);
	assert_int_equal(f.session->kind, XP_VERBS);
	fabrics_end(&f);
}
