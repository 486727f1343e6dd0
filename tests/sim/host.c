/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/host.h"

#include <string.h>

#include "tests/sim/clock.h"
#include "tests/sim/disk.h"
#include "tests/sim/host_world.h"
#include "tests/sim/sim.h"

struct host_world world;

/* ---- life cycle ---- */

void hosts_reset(struct t_fabric *hub, const bool *cache, const bool *mem,
		 bool copies)
{
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = CHANNEL_TI_IU_LEN };

	world.fabric = hub;
	memset(world.chans, 0, sizeof(world.chans));
	for (unsigned int i = 0; i < CMDS_MAX; i++)
		world.cmds[i].used = false;
	memset(world.reservation, 0, sizeof(world.reservation));
	world.tmf_cnt = 0;
	world.copy_cnt = 0;
	world.has_copies = copies;
	world.chan_cnt = 0;
	world.cmd_cnt = 0;
	for (unsigned int i = 0; i < HOSTS; i++) {
		world.hosts[i].number = i;
		world.hosts[i].open_cnt = 0;
		world.hosts[i].connecting = false;
		world.hosts[i].unsettled_cnt = 0;
		memset(world.hosts[i].ua, 0, sizeof(world.hosts[i].ua));
		memset(world.hosts[i].debts, 0, sizeof(world.hosts[i].debts));
	}
	memcpy(world.has_cache, cache, sizeof(world.has_cache));
	memcpy(world.is_memory, mem, sizeof(world.is_memory));
	T_MUST(!reactor_create(&ropt, &world.reactor));
	cfg.reactor = world.reactor;
	T_MUST(!t_xp_create(hub, &cfg, &world.xp));
}

void hosts_end(void)
{
	xp_destroy(world.xp);
	reactor_destroy(world.reactor);
}

unsigned int hosts_commands(void)
{
	return world.cmd_cnt;
}

/* ---- blocks ---- */

void host_settle(struct host *h, uint64_t t)
{
	while (h->unsettled_cnt)
		stamp_over(h->unsettled[--h->unsettled_cnt], t);
	copies_over(h);
	/* Host 0 alone changes reservations. */
	for (unsigned int lun = 0; h->number == 0 && lun < BLOCKS_LUNS; lun++)
		world.reservation[lun].busy = false;
}

void hosts_look(void)
{
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		for (unsigned int lba = 0; lba < BLOCKS_CNT; lba++) {
			uint64_t t = blocks_now();

			/* Nobody reads blocks that a write still has. */
			if (!disk_has_write(lun, lba))
				blocks_seen(lun, lba, disk_peek(lun, lba), t,
					    t);
		}
	}
}

void hosts_all_over(void)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < HOSTS; i++)
		host_settle(&world.hosts[i], t);
}

/* ---- checks when all is quiet ---- */

static void check_chan_is_quiet(const struct chan *ch)
{
	if (ch->state == OPEN && ch->limit != ch->granted)
		sim_wrong("channel %u has %d credits of %d, and nothing "
			  "happens any more",
			  ch->number, ch->limit, ch->granted);
	if (ch->state == CONNECTING)
		sim_wrong("channel %u is never answered", ch->number);
}

void hosts_check_quiet(void)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		struct cmd *c = &world.cmds[i];

		if (!c->used)
			continue;
		if (!c->maybe_ended)
			sim_wrong("tag %llx of channel %u (%s) is never "
				  "answered",
				  (unsigned long long)c->tag, c->ch->number,
				  cmd_name(c));
		cmd_lost(c);
	}
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		check_chan_is_quiet(&world.chans[i]);
	if (t_fabric_refused(world.fabric))
		sim_wrong("the target used world.memory that it was not given");
	if (t_fabric_rnr(world.fabric))
		sim_wrong("a receive was missing");
	hosts_all_over();
	hosts_look();
}

/* ---- actions of hosts ---- */

static struct chan *some_chan(const struct host *h)
{
	unsigned int first = sim_random(CHANS_MAX);

	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		struct chan *ch = &world.chans[(first + i) % CHANS_MAX];

		if (ch->state == OPEN && ch->host == h)
			return ch;
	}
	return NULL;
}

void hosts_connect(void)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		if (!world.hosts[i].open_cnt && !world.hosts[i].connecting)
			chan_login(&world.hosts[i], true);
	}
}

/* No thread runs for longer than a sign of life is good. So the target may not carry
 * out what it has not yet given to a disk (disk.c). */
static void stand_still(void)
{
	sim_tell("-- no thread runs");
	clock_skip(3 * XP_SIGN_MS);
}

static void close_one(struct host *h, struct chan *ch)
{
	sim_tell("host %u: closes channel %u", h->number, ch->number);
	if (sim_chance(50))
		cmd_write(ch);
	chan_close(ch);
}

void hosts_fail_over(void)
{
	struct host *h = &world.hosts[sim_random(HOSTS)];

	if (h->open_cnt > 1)
		close_one(h, some_chan(h));
	else if (h->open_cnt == 1 && !h->connecting)
		chan_login(h, false);
}

static void change_channels(struct host *h, struct chan *ch)
{
	switch (sim_random(6)) {
	case 0:
		chan_break(ch);
		return;
	case 1:
		close_one(h, ch);
		stand_still();
		return;
	case 2:
	case 3:
		chan_login(h, true);
		return;
	default:
		if (h->open_cnt < HOST_CHANS)
			chan_login(h, false);
	}
}

static void act_on(struct host *h, struct chan *ch, bool steady)
{
	unsigned int what = sim_random(steady ? 85 : 100);

	if (!steady && sim_chance(8))
		stand_still();
	if (world.has_copies && sim_chance(15))
		cmd_copy(ch);
	else if (what < 36)
		cmd_write(ch);
	else if (what < 60)
		cmd_read(ch);
	else if (what < 70)
		cmd_compare_write(ch);
	else if (what < 76)
		cmd_simple(ch, SYNC_CACHE, 0x35);
	else if (what < 80)
		cmd_simple(ch, TEST_READY, 0x00);
	else if (what < 85)
		cmd_reserve(ch);
	else if (what < 93)
		cmd_tmf(ch);
	else
		change_channels(h, ch);
}

void hosts_act(bool steady)
{
	struct host *h = &world.hosts[sim_random(HOSTS)];
	struct chan *ch = some_chan(h);

	if (ch)
		act_on(h, ch, steady);
	else if (!h->connecting)
		chan_login(h, true);
	else
		hosts_connect();
}
