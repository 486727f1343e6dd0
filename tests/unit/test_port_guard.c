/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target against initiators that stop, vanish, or demand too much, over the
 * in-memory fabric, with a clock that the tests advance. See tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/port/port_change.h"
#include "target/port/watchdog.h"
#include "tests/lib/t_table.h"

#define BLK RIG_BLOCK

/* Advances the clock of the target's workers by @ms, and runs all work that is
 * due. */
static void pass(struct rig *rig, uint64_t ms)
{
	for (unsigned int i = 0; i < rig->target.worker_cnt; i++)
		reactor_skip(rig->target.workers[i].reactor, ms);
	rig_settle(rig);
}

/* Returns the target's end of the only channel of initiator @who. */
static struct xp_chan *target_end(struct rig *rig, unsigned int who)
{
	const struct nexus *nexus = t_port_nexus(&rig->target, who);

	return list_first(&nexus->channels, struct channel, at_port.nexus_node)
		->xp;
}

static uint64_t rw(struct t_ini *ch, struct rig_cmd cmd, size_t offset,
		   uint32_t len)
{
	struct srp_desc desc = rig_desc(ch, offset, len);
	struct srp_data_args data = { .format = SRP_DATA_DIRECT,
				      .descs = &desc,
				      .desc_cnt = 1 };

	if (!len)
		return rig_cmd(ch, &cmd);
	if (cmd.cdb[0] == 0x2a || cmd.cdb[0] == 0x89)
		cmd.out = data;
	else
		cmd.in = data;
	return rig_cmd(ch, &cmd);
}

/* ---- initiators that stop ---- */

static const struct stop_case {
	const char *name;
	unsigned int lun;
	bool write;
	uint16_t blocks;
} stop_cases[] = {
	{ "while it writes to a disk", RIG_DISK, true, 512 },
	{ "while it writes to memory", RIG_RAM, true, 512 },
	{ "while it reads from a disk", RIG_DISK, false, 512 },
	{ "while it reads from memory", RIG_RAM, false, 512 },
	{ "with a response on its way", RIG_DISK, false, 0 },
};

T_ROWS(initiator_that_stops_is_disconnected, stop_cases)
{
	const struct stop_case *row = *state;
	struct rig_options opt = { .arena_len = 2u << 20 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = row->write ? rig_write(row->lun, 0, row->blocks)
					: rig_read(row->lun, 0, row->blocks);
	struct rig_cmd r = rig_read(RIG_DISK, 2000, 8);
	uint64_t tag;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	t_fabric_stop(target_end(rig, 1));
	for (int i = 0; i < 32; i++)
		rw(ch, cmd, 0, row->blocks * BLK);
	/* The target does not act too early, and other initiators do not
	 * notice. */
	for (int i = 0; i < 4; i++) {
		pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
		assert_false(ch->closed);
		tag = rw(other, r, 4u << 20, 8 * BLK);
		rig_expect_status(other, tag, SCSI_STATUS_GOOD);
	}
	pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
	assert_true(ch->closed);
	assert_int_equal(t_port_used(&rig->target), 0);
	assert_int_equal(rig->target.port.login_cnt, 1);
	rig_expect_alive(other);
	assert_false(other->closed);
	/* The blocks that the stopped initiator held are free again. */
	cmd = rig_write(row->lun, 0, 512);
	tag = rw(other, cmd, 0, 512 * BLK);
	rig_expect_status(other, tag, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

static const struct stop_case slow_cases[] = {
	{ "RDMA READs", RIG_DISK, true, 8 },
	{ "RDMA WRITEs and responses", RIG_DISK, false, 8 },
};

/* Each one to the initiator is slow. Together they take far longer than the
 * limit. */
T_ROWS(slow_initiator_is_left_alone, slow_cases)
{
	const struct stop_case *row = *state;
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct rig_cmd cmd = row->write ? rig_write(row->lun, 0, row->blocks)
					: rig_read(row->lun, 0, row->blocks);
	uint64_t tags[8];

	rig_expect_alive(ch);
	t_fabric_hold_completions(rig->hub, true);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		tags[i] = rw(ch, cmd, 0, row->blocks * BLK);
	t_fabric_hold_completions(rig->hub, false);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		/* In steps: the target was not stopped. */
		for (int step = 0; step < 3; step++)
			pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
		assert_false(ch->closed);
		/* The initiator's SEND and the slow one. */
		assert_int_equal(t_fabric_let_go(rig->hub, 2), 2);
		rig_settle(rig);
		rig_expect_status(ch, tags[i], SCSI_STATUS_GOOD);
	}
	rig_destroy(rig);
}

/* A command of one whose data moves too slowly, and one of another that waits for the
 * blocks. */
static const struct way_case {
	const char *name;
	bool write;
	uint8_t cdb[16]; /* of the other one */
	uint16_t blocks;
} way_cases[] = {
	{ "reads, for COMPARE AND WRITE", false, { 0x89, [13] = 1 }, 2 },
	{ "writes, for a write", true, { 0x2a, [8] = 1 }, 1 },
	{ "writes, for COMPARE AND WRITE", true, { 0x89, [13] = 1 }, 2 },
	{ "reads, for an eject", false, { 0x1b, [4] = 2 }, 0 },
};

T_ROWS(initiator_in_the_way_is_disconnected, way_cases)
{
	const struct way_case *row = *state;
	struct rig_options opt = { .removable = true };
	struct rig *rig = rig_create(&opt);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct rig_cmd slow =
		row->write ? rig_write(RIG_RAM, 0, 8) : rig_read(RIG_RAM, 0, 8);
	struct rig_cmd cmd = { .lun = RIG_RAM };
	uint64_t tag;

	rig_expect_alive(ch);
	rig_expect_alive(other);
	t_fabric_stop(target_end(rig, 1));
	rw(ch, slow, 0, 8 * BLK);
	memcpy(cmd.cdb, row->cdb, sizeof(cmd.cdb));
	tag = rw(other, cmd, 8 * BLK, row->blocks * BLK);
	/* Half of the time is its own, whoever waits. */
	for (int i = 0; i < 2; i++) {
		pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
		assert_false(ch->closed);
	}
	assert_null(t_ini_rsp(other, tag));
	pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
	assert_true(ch->closed);
	rig_expect_status(other, tag, SCSI_STATUS_GOOD);
	assert_false(other->closed);
	rig_destroy(rig);
}

/* Many logins of one host, by invented identifiers, that take no data of their READs. */
#define INVENTED 8

static void take_memory(struct rig *rig, unsigned int hosts,
			struct t_ini *ret[INVENTED])
{
	for (unsigned int i = 0; i < INVENTED; i++) {
		char addr[16];

		snprintf(addr, sizeof(addr), "10.1.0.%u", 1 + i % hosts);
		t_fabric_come_from(rig->hub, addr);
		ret[i] = rig_login(rig, 10 + i, SRP_MULTICHAN_SINGLE);
		rig_expect_alive(ret[i]);
		t_fabric_stop(target_end(rig, 10 + i));
		for (int k = 0; k < 8; k++)
			rw(ret[i], rig_read(RIG_DISK, 0, 512), 0, 512 * BLK);
	}
}

static const struct crowd_case {
	const char *name;
	const char *rules[2];
	unsigned int hosts;
} crowd_cases[] = {
	{ "one host", { "10.0.0.1", "10.1.0.0/16:ro" }, 1 },
	{ "one host, and one rule for all", { "all" }, 1 },
	{ "eight hosts of one principal", { "10.0.0.1", "10.1.0.0/16:ro" }, 8 },
};

T_ROWS(crowd_leaves_memory_for_others, crowd_cases)
{
	const struct crowd_case *row = *state;
	struct rig_options opt = { .arena_len = 2u << 20,
				   .allow = row->rules[0] };
	struct rig *rig = rig_create(&opt);
	struct t_ini *crowd[INVENTED];
	struct t_ini *ch;
	struct error e;

	if (row->rules[1])
		assert_true(access_rules_add(&rig->target.port.allow,
					     row->rules[1], &e));
	take_memory(rig, row->hosts, crowd);
	t_fabric_come_from(rig->hub, "10.0.0.1");
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(ch);
	for (int i = 0; i < 4; i++)
		rig_expect_status(
			ch,
			rw(ch, rig_read(RIG_DISK, 0, 512), 4u << 20, 512 * BLK),
			SCSI_STATUS_GOOD);
	assert_false(crowd[0]->closed);
	rig_destroy(rig);
}

/* One that makes progress, but too slowly: others wait for its memory. It alone has half
 * of the time. */
T_TEST(memory_that_others_need_is_kept_for_half_of_the_time)
{
	struct rig_options opt = { .arena_len = 64u << 10 };
	struct rig *rig = rig_create(&opt);
	struct t_ini *slow;
	struct t_ini *ch;
	uint64_t tag;

	t_fabric_come_from(rig->hub, "10.1.0.1");
	slow = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(slow);
	t_fabric_come_from(rig->hub, "10.0.0.1");
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_expect_alive(ch);
	t_fabric_stop(target_end(rig, 2));
	rw(slow, rig_read(RIG_DISK, 0, 128), 0, 128 * BLK);
	tag = rw(ch, rig_read(RIG_DISK, 0, 8), 4u << 20, 8 * BLK);
	for (int i = 0; i < 2; i++) {
		pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
		assert_false(slow->closed);
	}
	assert_null(t_ini_rsp(ch, tag));
	pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
	assert_true(slow->closed);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

/* The target is stopped, as by SIGSTOP or with its virtual machine. It has not
 * looked yet at what arrived meanwhile. */
T_TEST(stopped_target_blames_no_initiator)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;

	rig_expect_alive(ch);
	t_fabric_hold_completions(rig->hub, true);
	tag = rw(ch, rig_write(RIG_DISK, 0, 8), 0, 8 * BLK);
	t_fabric_hold_completions(rig->hub, false);
	pass(rig, 2 * WATCHDOG_RDMA_TIMEOUT_MS);
	assert_false(ch->closed);
	assert_int_equal(t_fabric_let_go(rig->hub, 2), 2);
	rig_settle(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(slow_disk_is_not_held_against_the_initiator)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	uint64_t tag;

	rig_expect_alive(ch);
	t_store.hold = true;
	tag = rw(ch, rig_write(RIG_DISK, 0, 8), 0, 8 * BLK);
	for (int i = 0; i < 20; i++)
		pass(rig, 10000);
	assert_false(ch->closed);
	t_store.hold = false;
	rig_release(rig);
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	rig_destroy(rig);
}

T_TEST(stuck_disk_does_not_keep_a_target_from_ending)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	t_store.hold = true;
	rw(ch, rig_write(RIG_DISK, 0, 8), 0, 8 * BLK);
	port_stop(&rig->target.port);
	rig_settle(rig);
	pass(rig, CHANNEL_DRAIN_MS - 100);
	assert_false(ch->closed);
	pass(rig, 200);
	assert_true(ch->closed);
	/* The write may still reach the medium: the port waits for it. */
	assert_false(rig->target.stopped);
	t_store.hold = false;
	rig_release(rig);
	assert_true(rig->target.stopped);
	rig_destroy(rig);
}

T_TEST(idle_worker_is_not_woken)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	assert_true(rig->target.workers[0].watching);
	pass(rig, WATCHDOG_RDMA_TIMEOUT_MS / 4);
	assert_false(rig->target.workers[0].watching);
	rig_destroy(rig);
}

/* ---- initiators that are gone ---- */

T_TEST(initiator_that_is_gone_is_noticed)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *other = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	t_fabric_cut(target_end(rig, 1));
	pass(rig, 2 * XP_KEEPALIVE_MS);
	pass(rig, XP_KEEPALIVE_MS);
	assert_int_equal(rig->target.port.login_cnt, 1);
	assert_false(other->closed);
	rig_destroy(rig);
}

T_TEST(idle_initiator_is_left_alone)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);

	rig_expect_alive(ch);
	for (int i = 0; i < 1000; i++)
		pass(rig, XP_KEEPALIVE_MS);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

/* ---- logins without end ---- */

/* The limits allow two of each. */
static const struct limit_case {
	const char *name;
	struct port_limits limits;
	bool same_host;
	bool same_nexus;
	bool half_open;
	uint32_t reason;
} limit_cases[] = {
	{ "of all",
	  { 2, 9, 9, 9, 9 },
	  false,
	  false,
	  false,
	  SRP_REJ_NO_RESOURCES },
	{ "from one address",
	  { 9, 2, 9, 9, 9 },
	  true,
	  false,
	  false,
	  SRP_REJ_NO_RESOURCES },
	{ "half open, of all",
	  { 9, 9, 2, 9, 9 },
	  false,
	  false,
	  true,
	  SRP_REJ_NO_RESOURCES },
	{ "half open, from one address",
	  { 9, 9, 9, 2, 9 },
	  true,
	  false,
	  true,
	  SRP_REJ_NO_RESOURCES },
	{ "of a nexus",
	  { 9, 9, 9, 9, 2 },
	  true,
	  true,
	  false,
	  SRP_REJ_CHANNEL_LIMIT },
};

static struct t_ini *come(struct rig *rig, unsigned int who, unsigned int host,
			  enum srp_multichan multichan)
{
	static const char *const hosts[] = { "10.0.0.1", "10.0.0.2",
					     "10.0.0.3" };
	struct srp_login_req req = rig_login_req(rig, who, multichan);

	t_fabric_come_from(rig->hub, hosts[host]);
	return rig_connect(rig, &req);
}

static struct t_ini *come_as(struct rig *rig, const struct limit_case *row,
			     unsigned int i, enum srp_multichan multichan)
{
	return come(rig, row->same_nexus ? 1 : i + 1, row->same_host ? 0 : i,
		    multichan);
}

static void refused_for(const struct t_ini *ch, uint32_t reason)
{
	assert_false(ch->established);
	assert_true(ch->rejected);
	assert_int_equal(ch->rej.reason, reason);
}

/* A login stays half open while it waits for a command of the channel that it
 * replaces. The fabric has that command. */
static struct t_ini *half_open(struct rig *rig, struct t_ini *old,
			       const struct limit_case *row, unsigned int i)
{
	struct t_ini *ch;

	t_fabric_hold_completions(rig->hub, true);
	rw(old, rig_write(RIG_DISK, 8 * i, 8), 0, 8 * BLK);
	ch = come_as(rig, row, i, SRP_MULTICHAN_SINGLE);
	t_fabric_hold_completions(rig->hub, false);
	assert_false(ch->established);
	assert_false(ch->closed);
	return ch;
}

T_ROWS(logins_are_limited, limit_cases)
{
	const struct limit_case *row = *state;
	struct rig_options opt = { .limits = row->limits };
	struct rig *rig = rig_create(&opt);
	struct t_ini *old[2] = { NULL, NULL };
	struct t_ini *ch[3];

	for (unsigned int i = 0; i < 2; i++)
		ch[i] = come_as(rig, row, i, SRP_MULTICHAN_MULTI);
	rig_expect_alive(ch[0]);
	rig_expect_alive(ch[1]);
	for (unsigned int i = 0; i < 2 && row->half_open; i++) {
		old[i] = ch[i];
		ch[i] = half_open(rig, old[i], row, i);
	}
	ch[2] = come_as(rig, row, 2, SRP_MULTICHAN_MULTI);
	refused_for(ch[2], row->reason);
	rig_chan_free(ch[2]);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	rig_expect_alive(ch[0]);
	/* As soon as one is gone, another one may log in. */
	rig_chan_free(ch[1]);
	ch[1] = come_as(rig, row, 2, SRP_MULTICHAN_MULTI);
	rig_expect_alive(ch[1]);
	for (unsigned int i = 0; i < 2; i++) {
		rig_chan_free(ch[i]);
		if (old[i])
			rig_chan_free(old[i]);
	}
	assert_int_equal(rig->target.port.half_open_cnt, 0);
	rig_destroy(rig);
}

/* Six of eight logins are one principal's, from as many hosts; the last two are not. */
static const struct limit_case principal_cases[] = {
	{ "of all", { 8, 99, 99, 99, 99 }, .half_open = false },
	{ "half open, of all", { 99, 99, 8, 99, 99 }, .half_open = true },
};

static struct t_ini *come_by(struct rig *rig, unsigned int who, const char *net,
			     enum srp_multichan multichan)
{
	struct srp_login_req req = rig_login_req(rig, who, multichan);
	char addr[32];

	snprintf(addr, sizeof(addr), "%s.%u", net, who);
	t_fabric_come_from(rig->hub, addr);
	return rig_connect(rig, &req);
}

T_ROWS(principal_leaves_logins_for_others, principal_cases)
{
	const struct limit_case *row = *state;
	struct rig_options opt = { .allow = "10.0.0.0/24",
				   .limits = row->limits };
	struct rig *rig = rig_create(&opt);
	struct error e;

	assert_true(access_rules_add(&rig->target.port.allow, "10.1.0.0/24:ro",
				     &e));
	for (unsigned int who = 1; who <= 6; who++) {
		struct t_ini *ch =
			come_by(rig, who, "10.1.0", SRP_MULTICHAN_MULTI);

		rig_expect_alive(ch);
		if (!row->half_open)
			continue;
		t_fabric_hold_completions(rig->hub, true);
		rw(ch, rig_read(RIG_DISK, 8 * who, 8), 0, 8 * BLK);
		ch = come_by(rig, who, "10.1.0", SRP_MULTICHAN_SINGLE);
		t_fabric_hold_completions(rig->hub, false);
		assert_false(ch->established);
	}
	refused_for(come_by(rig, 7, "10.1.0", SRP_MULTICHAN_MULTI),
		    SRP_REJ_NO_RESOURCES);
	/* Nor are there more by other rules. */
	rig->target.port.allow.cnt = 1;
	assert_true(access_rules_add(&rig->target.port.allow, "10.1.0.0/16:ro",
				     &e));
	assert_int_equal(port_rules_changed(&rig->target.port), 0);
	refused_for(come_by(rig, 7, "10.1.0", SRP_MULTICHAN_MULTI),
		    SRP_REJ_NO_RESOURCES);
	for (unsigned int who = 1; who <= 2; who++)
		rig_expect_alive(
			come_by(rig, who, "10.0.0", SRP_MULTICHAN_MULTI));
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	rig_destroy(rig);
}

/* A login that is refused while it is half open no longer counts as half open. Its
 * address has other connections, so the count of the address goes on. */
T_TEST(refused_login_makes_room)
{
	static const struct limit_case row = { .same_host = true };
	struct rig_options opt = { .limits = { 9, 9, 9, 1, 9 } };
	struct rig *rig = rig_create(&opt);
	struct t_ini *old = come_as(rig, &row, 0, SRP_MULTICHAN_MULTI);
	struct t_ini *other = come_as(rig, &row, 1, SRP_MULTICHAN_MULTI);
	struct t_ini *refused;
	struct t_ini *newer;
	struct t_ini *ch;

	rig_expect_alive(old);
	rig_expect_alive(other);
	refused = half_open(rig, old, &row, 0);
	newer = come_as(rig, &row, 0, SRP_MULTICHAN_SINGLE);
	assert_true(refused->rejected);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	rig_expect_alive(newer);
	ch = come_as(rig, &row, 2, SRP_MULTICHAN_MULTI);
	rig_expect_alive(ch);
	rig_chan_free(ch);
	rig_chan_free(newer);
	rig_chan_free(refused);
	rig_chan_free(other);
	rig_chan_free(old);
	rig_destroy(rig);
}

/* A login that replaces a session succeeds even if the target is full. */
T_TEST(replacing_login_needs_no_room)
{
	struct rig_options opt = { .limits = { 1, 1, 1, 1, 1 } };
	struct rig *rig = rig_create(&opt);
	struct t_ini *old = come(rig, 1, 0, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = come(rig, 1, 0, SRP_MULTICHAN_SINGLE);

	assert_true(old->closed);
	rig_expect_alive(ch);
	rig_destroy(rig);
}

/* Other initiators read and write while one host tries to log in a thousand
 * times. */
T_TEST(flood_of_logins_harms_nobody)
{
	struct rig *rig = rig_create(NULL);
	struct t_ini *ch = come(rig, 1, 0, SRP_MULTICHAN_SINGLE);
	struct t_ini *flood[1000];
	uint64_t tag;

	rig_expect_alive(ch);
	for (unsigned int i = 0; i < ARRAY_SIZE(flood); i++) {
		struct srp_login_req req =
			rig_login_req(rig, i + 2, SRP_MULTICHAN_MULTI);

		t_fabric_come_from(rig->hub, "10.0.0.2");
		flood[i] = rig_connect_begin(rig, &req);
	}
	for (unsigned int i = 0; i < 8; i++) {
		tag = rw(ch, rig_read(RIG_DISK, 8 * i, 8), 0, 8 * BLK);
		rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(flood); i++)
		rig_chan_free(flood[i]);
	assert_int_equal(rig->target.port.login_cnt, 1);
	rig_destroy(rig);
}

/* ---- the log ---- */

/* Writes everything that is logged until log_end() to a file. */
static int log_begin(int *ret_stderr)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	fflush(stderr);
	*ret_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	log_level = LOG_NOTICE;
	return fd;
}

static char *log_end(int fd, int was_stderr)
{
	off_t len = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)len + 1);

	log_level = LOG_ERROR;
	dup2(was_stderr, STDERR_FILENO);
	close(was_stderr);
	assert_int_equal(pread(fd, text, (size_t)len, 0), len);
	close(fd);
	return text;
}

static unsigned int count_lines(const char *text, const char *with,
				const char *and)
{
	unsigned int cnt = 0;
	char *copy = strdup(text);
	char *rest = copy;
	char *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		cnt += strstr(line, with) && strstr(line, and);
	free(copy);
	return cnt;
}

/* Each line of this host is logged or counted. No line of another host is
 * missing. */
T_TEST(host_that_comes_and_goes_does_not_fill_the_log)
{
	struct rig *rig = rig_create(NULL);
	unsigned int logins = 300;
	unsigned int left_out = 0;
	unsigned int told;
	int was_stderr;
	int fd = log_begin(&was_stderr);
	const char *at;
	char *text;

	for (unsigned int i = 0; i < logins; i++) {
		t_fabric_come_from(rig->hub, "10.0.0.2");
		rig_chan_free(rig_login(rig, 2, SRP_MULTICHAN_SINGLE));
	}
	t_fabric_come_from(rig->hub, "10.0.0.3");
	rig_login(rig, 3, SRP_MULTICHAN_SINGLE);
	rig_destroy(rig);
	text = log_end(fd, was_stderr);
	for (at = text; (at = strstr(at, "10.0.0.2 left out")); at++) {
		while (at > text && at[-1] != '\n')
			at--;
		left_out += (unsigned int)strtoul(strpbrk(at, "0123456789"),
						  NULL, 10);
		at = strstr(at, "left out");
	}
	told = count_lines(text, "login of", "0002 from") +
	       count_lines(text, "logout of", "0002 from");
	assert_true(left_out > 0);
	assert_int_equal(told + left_out, 2 * logins);
	assert_int_equal(count_lines(text, "login of", "0003 from"), 1);
	assert_int_equal(count_lines(text, "logout of", "0003 from"), 1);
	free(text);
}
