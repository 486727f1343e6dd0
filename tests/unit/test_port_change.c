/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes that are added and removed, and rules that change, while initiators
 * are logged in. */
#include "tests/lib/t_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "target/port/port_change.h"
#include "target/port/task_mgmt.h"
#include "tests/lib/t_table.h"

struct leaving {
	struct rig *rig;
	struct volume *vol;
	struct task_mgmt_eviction eviction;
	bool evicted;
};

static void on_evicted(struct task_mgmt_eviction *ev)
{
	container_of(ev, struct leaving, eviction)->evicted = true;
}

static struct rig *two_workers(void)
{
	struct rig_options opt = { .workers = 2 };

	return rig_create(&opt);
}

static struct leaving begin_to_leave(struct rig *rig, unsigned int lun)
{
	return (struct leaving){
		.rig = rig,
		.vol = rig->target.luns.vol[lun],
		.eviction.done = on_evicted,
	};
}

static void leave(struct leaving *l)
{
	assert_int_equal(task_mgmt_evict_prepare(&l->rig->target.port, l->vol,
						 &l->eviction),
			 0);
	port_volume_leaves(&l->rig->target.port, l->vol);
	task_mgmt_evict(&l->eviction);
	rig_settle(l->rig);
}

static void detach(struct leaving *l)
{
	assert_true(l->evicted);
	port_volume_gone(&l->rig->target.port, l->vol);
	for (unsigned int i = 0; i < l->rig->target.worker_cnt; i++)
		worker_remove_volume(&l->rig->target.workers[i], l->vol);
}

/* Adds the same volume again, as a new one. */
static void come_back(struct leaving *l)
{
	struct error e;

	for (unsigned int i = 0; i < l->rig->target.worker_cnt; i++)
		assert_int_equal(worker_add_volume(&l->rig->target.workers[i],
						   l->vol, &e),
				 0);
	l->vol->leaving = false;
	port_volume_added(&l->rig->target.port, l->vol);
}

static void expect_sense(const struct t_ini *ch, uint64_t tag,
			 enum scsi_asc code)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);
	const uint8_t *sense;

	assert_non_null(rsp);
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	sense = rsp->sense;
	assert_int_equal((unsigned int)sense[12] << 8 | sense[13], code);
}

static uint64_t test_unit(struct t_ini *ch, unsigned int lun)
{
	struct rig_cmd cmd = { .lun = lun };

	return rig_cmd(ch, &cmd);
}

/* Returns how many LUNs the answer to REPORT LUNS has. */
static unsigned int reported_luns(struct t_ini *ch)
{
	struct srp_desc desc = rig_desc(ch, 0, 512);
	struct rig_cmd cmd = {
		.cdb = { 0xa0, [8] = 2 },
		.in = { .format = SRP_DATA_DIRECT,
			.descs = &desc,
			.desc_cnt = 1 },
	};

	rig_expect_status(ch, rig_cmd(ch, &cmd), SCSI_STATUS_GOOD);
	return rig_of(ch)->mem[3] / 8;
}

/* Returns how many volumes the only initiator sees, for who asks the target. */
static unsigned int session_volumes(const struct rig *rig)
{
	struct port_session session;

	assert_int_equal(port_sessions(&rig->target.port, &session, 1), 1);
	return session.volumes;
}

/* ---- */

T_TEST(idle_volume_goes_and_comes)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_RAM);
	uint16_t asc = 0;

	rig_clear_ua(ch, RIG_DISK, NULL);
	rig_clear_ua(ch, RIG_RAM, NULL);
	assert_non_null(port_volume_user(&rig->target.port, l.vol));
	leave(&l);
	expect_sense(ch, test_unit(ch, RIG_RAM), SCSI_ASC_LUN_NOT_SUPPORTED);
	assert_int_equal(reported_luns(ch), 1);
	detach(&l);
	assert_null(port_volume_user(&rig->target.port, l.vol));
	assert_int_equal(session_volumes(rig), 1);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_REPORTED_LUNS_CHANGED);
	expect_sense(ch, test_unit(ch, RIG_RAM), SCSI_ASC_LUN_NOT_SUPPORTED);

	come_back(&l);
	assert_int_equal(rig_clear_ua(ch, RIG_DISK, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_REPORTED_LUNS_CHANGED);
	assert_int_equal(rig_clear_ua(ch, RIG_RAM, &asc), 1);
	assert_int_equal(asc, SCSI_ASC_POWER_ON);
	assert_int_equal(reported_luns(ch), 2);
	assert_int_equal(session_volumes(rig), 2);
	rig_destroy(rig);
}

/* Expects the last SRP_AER_REQ to report changed LUNs of the target, and
 * answers it. */
static void expect_luns_aer(struct t_ini *ch, unsigned int cnt)
{
	uint8_t bare[SRP_BARE_SIZE];
	struct srp_aer_req aer;
	const uint8_t *sense;

	for (unsigned int i = 0; i < ch->iu_cnt; i++) {
		if (ch->ius[i].bytes[0] != SRP_AER_REQ || --cnt)
			continue;
		assert_int_equal(srp_aer_req_decode(ch->ius[i].bytes,
						    ch->ius[i].len, &aer),
				 0);
		assert_int_equal(aer.lun, 0);
		sense = aer.sense;
		assert_int_equal(sense[12], 0x3f);
		assert_int_equal(sense[13], 0x0e);
		srp_bare_encode(bare, sizeof(bare), SRP_AER_RSP, aer.tag);
		rig_send(ch, bare, sizeof(bare));
		return;
	}
	fail_msg("no SRP_AER_REQ");
}

/* An initiator that sends no commands also learns of the change. */
T_TEST(coming_and_going_is_told_by_an_aer_to_who_asks)
{
	struct rig *rig = two_workers();
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_RAM);
	struct t_ini *ch;

	req.aer = true;
	ch = rig_connect(rig, &req);
	rig_clear_ua(ch, RIG_DISK, NULL);
	leave(&l);
	detach(&l);
	rig_settle(rig);
	expect_luns_aer(ch, 1);
	come_back(&l);
	rig_settle(rig);
	expect_luns_aer(ch, 2);
	rig_destroy(rig);
}

static char told[256];

static void keep_refusal(enum log_level level, const struct log_about *about,
			 const char *line)
{
	if (!strcmp(about->event, "login-refused"))
		snprintf(told, sizeof(told), "%s", line);
}

/* Until its volume is gone, the nexus sees other volumes than a new login. */
T_TEST(channel_is_told_of_a_removal)
{
	struct rig *rig = two_workers();
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_MULTI);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_DISK);

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	rig_send_write(ch, 1, 'a');
	leave(&l);
	log_set_sink(keep_refusal);
	assert_true(rig_connect(rig, &req)->rejected);
	log_set_sink(NULL);
	assert_non_null(strstr(told, "is being removed"));
	t_store.hold = false;
	rig_release(rig);
	detach(&l);
	assert_true(rig_connect(rig, &req)->established);
	come_back(&l);
	rig_destroy(rig);
}

/* The target waits for commands that the disk has. Commands that wait for the
 * volume end. */
T_TEST(commands_end_before_a_volume_goes)
{
	struct rig *rig = two_workers();
	struct t_ini *one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *two = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_DISK);
	uint64_t first;
	uint64_t second;

	rig_clear_ua(one, RIG_DISK, NULL);
	rig_clear_ua(two, RIG_DISK, NULL);
	t_store.hold = true;
	first = rig_send_write(one, 1, 'a');
	second = rig_send_write(two, 2, 'b');
	assert_int_equal(t_store.held_cnt, 2);
	leave(&l);
	assert_false(l.evicted);
	rig_expect_status(one, first, SCSI_STATUS_TASK_ABORTED);
	rig_expect_status(two, second, SCSI_STATUS_TASK_ABORTED);
	expect_sense(one, test_unit(one, RIG_DISK), SCSI_ASC_LUN_NOT_SUPPORTED);
	rig_release(rig);
	assert_true(l.evicted);
	t_store.hold = false;
	detach(&l);
	come_back(&l);
	rig_expect_alive(one);
	rig_expect_alive(two);
	rig_destroy(rig);
}

T_TEST(commands_on_other_volumes_go_on)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_RAM);
	uint64_t tag;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	tag = rig_send_write(ch, 1, 'a');
	leave(&l);
	assert_true(l.evicted);
	rig_release(rig);
	t_store.hold = false;
	rig_expect_status(ch, tag, SCSI_STATUS_GOOD);
	detach(&l);
	come_back(&l);
	rig_destroy(rig);
}

/* A reset that began before ends first, and still finds its volume. */
T_TEST(reset_ends_before_a_volume_goes)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_DISK);
	uint64_t reset;

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	rig_send_write(ch, 1, 'a');
	reset = rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	leave(&l);
	assert_false(l.evicted);
	rig_expect_code(ch, rig_tmf(ch, SRP_TSK_LUN_RESET, RIG_DISK, 0),
			SRP_RSP_FIELDS_INVALID);
	rig_release(rig);
	t_store.hold = false;
	rig_expect_code(ch, reset, SRP_RSP_COMPLETE);
	for (unsigned int i = 0; !l.evicted && i < 10; i++) {
		reactor_skip(rig->target.workers[0].reactor, 1000);
		rig_settle(rig);
	}
	detach(&l);
	come_back(&l);
	rig_destroy(rig);
}

/* An initiator that is gone does not hold a volume that is removed. */
T_TEST(dead_nexus_does_not_keep_a_volume)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_DISK);

	rig_clear_ua(ch, RIG_DISK, NULL);
	t_store.hold = true;
	rig_send_write(ch, 1, 'a');
	leave(&l);
	rig_chan_free(ch);
	rig_settle(rig);
	assert_false(l.evicted);
	rig_release(rig);
	t_store.hold = false;
	detach(&l);
	come_back(&l);
	rig_destroy(rig);
}

/* Linux repeats the commands that ended with the first volume. They must not
 * reach the second one. */
T_TEST(other_volume_does_not_take_the_place)
{
	struct rig *rig = two_workers();
	struct t_ini *ch;
	struct leaving l = begin_to_leave(rig, RIG_DISK);
	struct volume *other = rig->target.luns.vol[RIG_RAM];

	/* If two volumes have one LUN, initiators see the first. */
	other->lun = RIG_DISK;
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	leave(&l);
	detach(&l);
	assert_null(port_volume_user(&rig->target.port, other));
	expect_sense(ch, test_unit(ch, RIG_DISK), SCSI_ASC_LUN_NOT_SUPPORTED);
	assert_int_equal(reported_luns(ch), 0);
	/* A change of rules that does not affect the initiator does not change
	 * its view of the volumes, */
	assert_int_equal(port_rules_changed(&rig->target.port), 0);
	/* and another channel and a reconnect have the same view, */
	rig_chan_free(rig_login(rig, 1, SRP_MULTICHAN_MULTI));
	rig_chan_free(rig_login(rig, 1, SRP_MULTICHAN_SINGLE));
	assert_null(port_volume_user(&rig->target.port, other));
	rig_chan_free(ch);
	rig_settle(rig);
	/* but an initiator that logs in after all its connections ended does
	 * not. */
	rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	assert_non_null(port_volume_user(&rig->target.port, other));
	l.vol->lun = RIG_RAM;
	come_back(&l);
	rig_destroy(rig);
}

/* The allocator gives a new volume the memory of one that is gone. */
T_TEST(other_volume_in_the_same_memory_is_news)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct volume *vol = rig->target.luns.vol[RIG_DISK];
	uint16_t asc = 0;

	rig_chan_free(ch);
	rig_settle(rig);
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_DISK, &asc);
	assert_int_equal(asc, SCSI_ASC_NEXUS_LOSS);
	rig_chan_free(ch);
	rig_settle(rig);
	vol->info.naa[SCSI_NAA_LEN - 1] ^= 1;
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_DISK, &asc);
	assert_int_equal(asc, SCSI_ASC_REPORTED_LUNS_CHANGED);
	rig_destroy(rig);
}

T_TEST(same_volume_takes_its_place_again)
{
	struct rig *rig = two_workers();
	struct leaving l;

	rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	l = begin_to_leave(rig, RIG_DISK);
	leave(&l);
	detach(&l);
	come_back(&l);
	assert_non_null(port_volume_user(&rig->target.port, l.vol));
	leave(&l);
	detach(&l);
	come_back(&l);
	assert_non_null(port_volume_user(&rig->target.port, l.vol));
	rig_destroy(rig);
}

T_TEST(new_rules_end_who_would_see_less)
{
	struct rig *rig = two_workers();
	struct t_ini *one;
	struct t_ini *two;

	t_fabric_come_from(rig->hub, "10.0.0.1");
	one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	two = rig_login(rig, 2, SRP_MULTICHAN_SINGLE);
	assert_int_equal(port_rules_changed(&rig->target.port), 0);
	t_port_allow(&rig->target, "10.0.0.1");
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	rig_expect_alive(one);
	assert_true(two->closed);
	rig_destroy(rig);
}

/* The target ends the nexus, and Linux logs in again by itself. */
T_TEST(other_volume_by_new_rules_does_not_take_the_place)
{
	struct rig *rig = two_workers();
	struct srp_login_req own = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct volume *disk = rig->target.luns.vol[RIG_DISK];
	struct volume *other = rig->target.luns.vol[RIG_RAM];
	struct error e;
	struct t_ini *ch;

	/* If two volumes have one LUN, initiators see the first. */
	other->lun = RIG_DISK;
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_DISK, NULL);
	assert_true(access_rules_add(&disk->allow, "10.9.9.9", &e));
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	assert_true(ch->closed);
	/* The same after an end by an administrator. */
	for (int i = 0; i < 2; i++) {
		ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
		assert_int_equal(reported_luns(ch), 0);
		expect_sense(ch, test_unit(ch, RIG_DISK),
			     SCSI_ASC_LUN_NOT_SUPPORTED);
		if (i == 0)
			port_kick(&rig->target.port, &own.initiator);
		rig_settle(rig);
	}
	/* The volume that was there may come back. */
	disk->allow.cnt = 0;
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_DISK, NULL);
	assert_true(access_rules_add(&disk->allow, "10.9.9.9", &e));
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	/* An initiator that logs out and in sees the other one. */
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_chan_free(ch);
	rig_settle(rig);
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	assert_int_equal(reported_luns(ch), 1);
	assert_non_null(port_volume_user(&rig->target.port, other));
	other->lun = RIG_RAM;
	rig_destroy(rig);
}

/* The first login after the end of the nexus waits for a command, and is refused.
 * That initiator has learned nothing yet. */
T_TEST(refused_login_does_not_show_another_volume)
{
	struct rig *rig = two_workers();
	struct srp_login_req req = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct leaving l = begin_to_leave(rig, RIG_RAM);
	struct t_ini *early, *next;

	rig_clear_ua(ch, RIG_DISK, NULL);
	leave(&l);
	detach(&l);
	l.vol->info.naa[SCSI_NAA_LEN - 1] ^= 1;
	come_back(&l);
	rig_clear_ua(ch, RIG_DISK, NULL);
	t_fabric_hold_completions(rig->hub, true);
	rig_send_write(ch, 1, 'a');
	assert_true(port_kick(&rig->target.port, &req.initiator));
	early = rig_connect(rig, &req);
	t_fabric_hold_completions(rig->hub, false);
	next = rig_connect(rig, &req);
	assert_true(early->rejected);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	assert_true(ch->closed);
	assert_true(next->established);
	assert_int_equal(reported_luns(next), 1);
	rig_destroy(rig);
}

/* More initiators come and go than the target remembers. */
T_TEST(crowd_does_not_show_another_volume)
{
	struct rig *rig = two_workers();
	struct volume *disk = rig->target.luns.vol[RIG_DISK];
	struct volume *other = rig->target.luns.vol[RIG_RAM];
	struct error e;

	other->lun = RIG_DISK;
	rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	assert_true(access_rules_add(&disk->allow, "10.9.9.9", &e));
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	for (unsigned int i = 0; i < PORT_REMEMBERED; i++)
		rig_chan_free(rig_login(rig, 2 + i, SRP_MULTICHAN_SINGLE));
	assert_int_equal(reported_luns(rig_login(rig, 1, SRP_MULTICHAN_SINGLE)),
			 0);
	disk->allow.cnt = 0;
	other->lun = RIG_RAM;
	rig_destroy(rig);
}

/* What an initiator may see may depend on its address. It may log in from several,
 * as long as it sees the same by each of them. */
static struct rig *one_nexus_from_two_addresses(struct t_ini **ret_one,
						struct t_ini **ret_two)
{
	struct rig *rig = two_workers();

	t_fabric_come_from(rig->hub, "10.0.0.1");
	*ret_one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	t_fabric_come_from(rig->hub, "10.0.0.2");
	*ret_two = rig_login(rig, 1, SRP_MULTICHAN_MULTI);
	return rig;
}

T_TEST(rules_hold_for_each_address_of_a_session)
{
	struct t_ini *one;
	struct t_ini *two;
	struct rig *rig = one_nexus_from_two_addresses(&one, &two);

	assert_int_equal(port_rules_changed(&rig->target.port), 0);
	t_port_allow(&rig->target, "10.0.0.2");
	assert_int_equal(port_rules_changed(&rig->target.port), 1);
	rig_settle(rig);
	assert_true(one->closed);
	assert_true(two->closed);
	rig_destroy(rig);
}

T_TEST(volume_is_not_shown_to_another_address_of_a_session)
{
	struct t_ini *one;
	struct t_ini *two;
	struct rig *rig = one_nexus_from_two_addresses(&one, &two);
	struct leaving l = begin_to_leave(rig, RIG_RAM);
	struct error e;

	leave(&l);
	detach(&l);
	assert_true(access_rules_add(&l.vol->allow, "10.0.0.2", &e));
	come_back(&l);
	rig_settle(rig);
	assert_true(one->closed);
	assert_null(port_volume_user(&rig->target.port, l.vol));
	t_fabric_come_from(rig->hub, "10.0.0.1");
	one = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(one, RIG_DISK, NULL);
	assert_int_equal(reported_luns(one), 1);
	rig_destroy(rig);
}

T_TEST(session_is_listed_and_ended)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req other =
		rig_login_req(rig, 2, SRP_MULTICHAN_SINGLE);
	struct srp_login_req own = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	struct port_session sessions[1];

	assert_int_equal(port_sessions(&rig->target.port, sessions, 1), 1);
	assert_int_equal(sessions[0].channels, 1);
	assert_int_equal(sessions[0].volumes, RIG_LUNS);
	assert_false(port_kick(&rig->target.port, &other.initiator));
	assert_true(port_kick(&rig->target.port, &own.initiator));
	rig_settle(rig);
	assert_true(ch->closed);
	assert_int_equal(port_sessions(&rig->target.port, sessions, 1), 0);
	rig_destroy(rig);
}

/* A caller is told when the fabric has nothing of the session. */
T_TEST(session_ends_with_its_rdma)
{
	struct rig *rig = two_workers();
	struct t_ini *ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	struct srp_login_req own = rig_login_req(rig, 1, SRP_MULTICHAN_SINGLE);
	unsigned int before = rig->target.port.next_number;

	rig_clear_ua(ch, RIG_DISK, NULL);
	assert_int_equal(port_ending(&rig->target.port, before), 0);
	t_fabric_hold_completions(rig->hub, true);
	rig_send_write(ch, 1, 'a');
	t_fabric_hold_completions(rig->hub, false);
	assert_true(port_kick(&rig->target.port, &own.initiator));
	rig_settle(rig);
	assert_int_equal(port_ending(&rig->target.port, before), 1);
	/* The caller does not wait for sessions that began later. */
	assert_int_equal(port_ending(&rig->target.port, before - 1), 0);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	rig_settle(rig);
	assert_int_equal(port_ending(&rig->target.port, before), 0);
	rig_destroy(rig);
}
