/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/host_world.h"

#include <assert.h>
#include <string.h>

#include "tests/sim/clock.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim.h"

static const char *const kind_names[] = {
	"READ",
	"WRITE",
	"COMPARE AND WRITE",
	"SYNCHRONIZE CACHE",
	"TEST UNIT READY",
	"EXTENDED COPY",
	"REGISTER",
	"RESERVE",
	"RELEASE",
	"task management",
};

const char *cmd_name(const struct cmd *c)
{
	return kind_names[c->kind];
}

uint8_t *cmd_mem(const struct cmd *c)
{
	return world.memory[c - world.cmds];
}

struct cmd *cmd_find(const struct chan *ch, uint64_t tag)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (world.cmds[i].used && world.cmds[i].ch == ch &&
		    world.cmds[i].tag == tag)
			return &world.cmds[i];
	}
	return NULL;
}

/* ---- commands that are over ---- */

static void take_memory_back(struct cmd *c)
{
	while (c->mr_cnt)
		xp_mr_free(c->mrs[--c->mr_cnt]);
}

void cmd_free(struct cmd *c)
{
	take_memory_back(c);
	c->used = false;
}

/* The command can no longer have any effect. */
void cmd_over(struct cmd *c)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < c->blocks; i++) {
		if (c->stamps[i])
			stamp_over(c->stamps[i], t);
	}
	sync_is_in_doubt(c);
	if (c->copy)
		copy_over(c->copy);
	cmd_free(c);
}

void cmd_forget_reservation(const struct cmd *c)
{
	if (c->kind >= REGISTER && c->kind <= RELEASE)
		world.reservation[c->lun].busy = false;
}

/* There is no order between channels: a command that was sent later on another
 * channel may have arrived earlier. */
bool cmd_is_covered(const struct cmd *c, const struct cmd *tmf)
{
	if (!c->used || c->kind == TASK_MGMT || c->ch->host != tmf->ch->host)
		return false;
	if (c->ch == tmf->ch && c->order > tmf->order)
		return false;
	if (tmf->function == SRP_TSK_ABORT_TASK)
		return c->ch == tmf->ch && c->tag == tmf->task_tag;
	return c->lun == tmf->lun;
}

/* No answer will come, but it may still happen: a change of a reservation stays under
 * way until the host's commands are settled. */
void cmd_lost(struct cmd *c)
{
	sync_is_in_doubt(c);
	cmd_free(c);
}

/* It may have passed the door already if it compares first. */
static void cmd_give_up(const struct cmd *c)
{
	struct host *h = c->ch->host;

	if (c->kind != WRITE)
		return;
	h->again_lun = c->lun;
	h->again_lba = c->lba;
	h->again = 4;
	for (unsigned int i = 0; i < c->blocks; i++) {
		stamps[c->stamps[i]].given_up_us = clock_now();
		stamps[c->stamps[i]].given_up = blocks_now();
	}
}

void cmds_lose(const struct chan *ch)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (!world.cmds[i].used || world.cmds[i].ch != ch)
			continue;
		cmd_give_up(&world.cmds[i]);
		cmd_lost(&world.cmds[i]);
	}
}

/* ---- making commands ---- */

static struct cmd *new_cmd(struct chan *ch, enum kind kind)
{
	struct cmd *c = NULL;

	if (kind == TASK_MGMT ? ch->limit < 1 : ch->limit < 2)
		return NULL;
	for (unsigned int i = 0; i < CMDS_MAX && !c; i++) {
		if (!world.cmds[i].used)
			c = &world.cmds[i];
	}
	if (!c)
		return NULL;
	*c = (struct cmd){
		.used = true,
		.ch = ch,
		.kind = kind,
		.tag = ch->ini.next_tag++,
		.lun = (uint8_t)sim_random(BLOCKS_LUNS),
		.lba = (uint8_t)sim_random(BLOCKS_CNT),
	};
	if (ch->host->again) {
		ch->host->again--;
		c->lun = ch->host->again_lun;
		c->lba = ch->host->again_lba;
	}
	c->order = blocks_now();
	c->start = c->order;
	return c;
}

static void choose_blocks(struct cmd *c)
{
	unsigned int room = BLOCKS_CNT - c->lba;

	c->blocks = (uint8_t)(1 + sim_random(CMD_BLOCKS));
	if (c->blocks > room)
		c->blocks = (uint8_t)room;
	c->want = c->blocks * BLOCK_BYTES;
}

/* False: there are no more stamps. */
static bool choose_stamps(struct cmd *c)
{
	struct host *h = c->ch->host;

	for (unsigned int i = 0; i < c->blocks; i++) {
		c->stamps[i] = stamp_new(c->lun, c->lba + i);
		if (!c->stamps[i])
			return false;
		stamps[c->stamps[i]].host = (uint8_t)h->number;
		stamps[c->stamps[i]].first = c->stamps[0];
		h->unsettled[h->unsettled_cnt++] = c->stamps[i];
	}
	return true;
}

/* Describes pieces of the command's memory, each with a key of its own. */
static unsigned int make_descs(struct cmd *c, uint32_t len,
			       struct srp_desc *descs)
{
	uint32_t unit = world.is_memory[c->lun] ? BLOCK_BYTES : 64;
	unsigned int cnt = 0;
	uint32_t at = 0;
	struct error e;

	while (at < len) {
		uint32_t piece = unit * (1 + sim_random(len / unit + 1));
		struct srp_desc *d = &descs[cnt];

		if (piece > len - at || cnt == DESCS_MAX - 1)
			piece = len - at;
		T_MUST(!xp_mr_register(world.xp, cmd_mem(c) + at, piece,
				       XP_REMOTE, &c->mrs[c->mr_cnt], &e));
		xp_mr_remote(c->mrs[c->mr_cnt++], c->ch->ini.xp,
			     cmd_mem(c) + at, &d->addr, &d->key);
		d->len = piece;
		at += piece;
		cnt++;
	}
	return cnt;
}

static void make_table(struct cmd *c, const struct srp_desc *descs,
		       struct srp_data_args *args)
{
	uint8_t *table = cmd_mem(c) + TABLE_AT;
	struct error e;

	srp_desc_pack(descs, args->desc_cnt, table);
	T_MUST(!xp_mr_register(world.xp, table, args->desc_cnt * SRP_DESC_SIZE,
			       XP_REMOTE, &c->mrs[c->mr_cnt], &e));
	xp_mr_remote(c->mrs[c->mr_cnt++], c->ch->ini.xp, table,
		     &args->table_addr, &args->table_key);
}

/* Only the first descriptors stay in the IU; the target fetches the others.
 * @cnt_at: place of their count. */
static int make_partial(struct cmd *c, uint8_t *iu, int len, unsigned int cnt,
			unsigned int cnt_at)
{
	unsigned int keep = sim_random(cnt);
	uint8_t *table = cmd_mem(c) + TABLE_AT;

	iu[cnt_at] = (uint8_t)keep;
	if (sim_chance(4)) {
		/* The lengths no longer add up. */
		wire_put32(table + SRP_DESC_SIZE * (cnt - 1) + 12, 16);
		c->bad_table = true;
		c->ch->excused = true;
	}
	return len - (int)((cnt - keep) * SRP_DESC_SIZE);
}

static void send_command(struct cmd *c, const uint8_t *cdb)
{
	uint32_t len = c->out_len ? c->out_len : c->in_len;
	struct srp_desc descs[DESCS_MAX];
	struct srp_data_args data = { .descs = descs };
	struct srp_cmd_args args = {
		.tag = c->tag, .cdb = cdb, .cdb_len = 16, .task_attr = c->attr
	};
	uint8_t iu[CHANNEL_IT_IU_LEN];
	int iu_len;

	srp_lun_encode(c->lun, &args.lun);
	if (c->out_len && !world.is_memory[c->lun] && sim_chance(30)) {
		data.format = SRP_DATA_IMMEDIATE;
		data.imm_len = len;
		data.imm_offset = SRP_IMM_OFFSET;
	} else if (len) {
		data.desc_cnt = make_descs(c, len, descs);
		data.format = data.desc_cnt == 1 && sim_chance(70)
				      ? SRP_DATA_DIRECT
				      : SRP_DATA_INDIRECT;
		if (data.format == SRP_DATA_INDIRECT)
			make_table(c, descs, &data);
	}
	if (c->out_len)
		args.out = data;
	else
		args.in = data;
	iu_len = srp_cmd_encode(iu, sizeof(iu), &args);
	assert(iu_len > 0);
	if (data.format == SRP_DATA_IMMEDIATE) {
		memcpy(iu + iu_len, cmd_mem(c), len);
		iu_len += (int)len;
	} else if (data.format == SRP_DATA_INDIRECT && sim_chance(30)) {
		iu_len = make_partial(c, iu, iu_len, data.desc_cnt,
				      c->out_len ? 6 : 7);
	}
	c->ch->limit--;
	world.cmd_cnt++;
	sim_tell("host %u: channel %u tag %llx: %s LUN %u block %u+%u%s%s%s, "
		 "stamp %u, %u bytes at time %llu",
		 c->ch->host->number, c->ch->number, (unsigned long long)c->tag,
		 cmd_name(c), c->lun, c->lba, c->blocks, c->fua ? " FUA" : "",
		 c->attr ? " ORDERED" : "", c->bad_table ? " (bad table)" : "",
		 c->stamps[0], len, (unsigned long long)c->start);
	t_ini_send(&c->ch->ini, iu, (size_t)iu_len);
}

static void fill_cdb(const struct cmd *c, uint8_t *cdb, uint8_t opcode)
{
	cdb[0] = opcode;
	cdb[1] = c->fua ? 0x08 : 0;
	wire_put32(cdb + 2, c->lba);
	wire_put16(cdb + 7, c->blocks);
}

static uint32_t other_len(uint32_t want)
{
	switch (sim_random(12)) {
	case 0:
		return want + BLOCK_BYTES;
	case 1:
		return want - 64;
	default:
		return want;
	}
}

static void choose_attr(struct cmd *c)
{
	if (sim_chance(12))
		c->attr = SRP_TASK_ORDERED;
}

void cmd_read(struct chan *ch)
{
	struct cmd *c = new_cmd(ch, READ);
	uint8_t cdb[16] = { 0 };

	if (!c)
		return;
	choose_blocks(c);
	choose_attr(c);
	c->fua = sim_chance(10);
	c->in_len = other_len(c->want);
	memset(cmd_mem(c), UNTOUCHED, c->in_len);
	fill_cdb(c, cdb, 0x28);
	send_command(c, cdb);
}

void cmd_write(struct chan *ch)
{
	struct cmd *c = new_cmd(ch, WRITE);
	uint8_t cdb[16] = { 0 };

	if (!c)
		return;
	choose_blocks(c);
	choose_attr(c);
	if (!choose_stamps(c)) {
		cmd_free(c);
		return;
	}
	c->fua = sim_chance(25);
	c->out_len = other_len(c->want);
	memset(cmd_mem(c), UNTOUCHED, c->want + BLOCK_BYTES);
	for (unsigned int i = 0; i < c->blocks; i++)
		stamp_fill(c->stamps[i], cmd_mem(c) + i * BLOCK_BYTES);
	fill_cdb(c, cdb, 0x2a);
	send_command(c, cdb);
}

/* Compares with the present stamp of the block, or with a recent one. */
void cmd_compare_write(struct chan *ch)
{
	struct cmd *c = new_cmd(ch, COMPARE_WRITE);
	uint8_t cdb[16] = { 0x89 };

	if (!c)
		return;
	choose_blocks(c);
	if (!choose_stamps(c)) {
		cmd_free(c);
		return;
	}
	c->fua = sim_chance(20);
	c->out_len = 2 * c->want;
	for (unsigned int i = 0; i < c->blocks; i++) {
		c->expected[i] = disk_peek(c->lun, c->lba + i);
		c->changes[i] = disk_changes(c->lun, c->lba + i);
		stamps[c->stamps[i]].instead = c->expected[i];
		stamp_fill(c->expected[i], cmd_mem(c) + i * BLOCK_BYTES);
		stamp_fill(c->stamps[i],
			   cmd_mem(c) + c->want + i * BLOCK_BYTES);
	}
	cdb[1] = c->fua ? 0x08 : 0;
	wire_put64(cdb + 2, c->lba);
	cdb[13] = c->blocks;
	send_command(c, cdb);
}

void cmd_simple(struct chan *ch, enum kind kind, uint8_t opcode)
{
	struct cmd *c = new_cmd(ch, kind);
	uint8_t cdb[16] = { opcode };

	if (!c)
		return;
	choose_attr(c);
	c->immed = kind == SYNC_CACHE && sim_chance(25);
	cdb[1] = c->immed ? 0x02 : 0;
	send_command(c, cdb);
}

/* Registers, then reserves, then releases, one after another. */
void cmd_reserve(struct chan *ch)
{
	unsigned int lun = sim_random(BLOCKS_LUNS);
	enum kind kind =
		!world.reservation[lun].registered ? REGISTER
		: !world.reservation[lun].maybe_since ||
				world.reservation[lun].maybe_until != NEVER
			? RESERVE
			: RELEASE;
	uint8_t cdb[16] = { 0x5f };
	struct cmd *c;

	if (ch->host->number != 0 || world.reservation[lun].busy)
		return;
	c = new_cmd(ch, kind);
	if (!c)
		return;
	c->lun = (uint8_t)lun;
	cdb[1] = kind == REGISTER ? 6 : kind == RESERVE ? 1 : 2;
	cdb[2] = kind == REGISTER ? 0 : 1;
	cdb[8] = 24;
	c->out_len = 24;
	c->want = 24;
	memset(cmd_mem(c), 0, 24);
	wire_put64(cmd_mem(c) + (kind == REGISTER ? 8 : 0), RESERVE_KEY);
	world.reservation[lun].busy = true;
	if (kind == RESERVE) {
		world.reservation[lun].maybe_since = c->start;
		world.reservation[lun].maybe_until = NEVER;
	}
	if (kind == RELEASE)
		world.reservation[lun].since = 0;
	send_command(c, cdb);
}

void cmd_copy(struct chan *ch)
{
	struct cmd *c = new_cmd(ch, COPY);
	uint8_t cdb[16] = { 0x83 };

	if (!c)
		return;
	c->copy = copy_new(ch, c->start);
	if (!c->copy) {
		cmd_free(c);
		return;
	}
	choose_attr(c);
	c->want = copy_make_list(c->copy, cmd_mem(c));
	c->out_len = c->want;
	wire_put32(cdb + 10, c->want);
	sim_tell("copy %u: LUN %u to LUN %u, %u segments, block %u to %u",
		 c->copy->number, c->copy->from_lun, c->copy->to_lun,
		 c->copy->segment_cnt, c->copy->segments[0].from,
		 c->copy->segments[0].to);
	send_command(c, cdb);
}

/* ---- task management ---- */

static struct cmd *some_cmd(const struct chan *ch)
{
	unsigned int first = sim_random(CMDS_MAX);

	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		struct cmd *c = &world.cmds[(first + i) % CMDS_MAX];

		if (c->used && c->ch == ch && c->kind != TASK_MGMT)
			return c;
	}
	return NULL;
}

static struct tmf *note_tmf(const struct cmd *c)
{
	struct tmf *t = &world.tmfs[world.tmf_cnt++];

	*t = (struct tmf){ .host = c->ch->host,
			   .function = c->function,
			   .lun = c->lun,
			   .start = c->start,
			   .end = NEVER };
	return t;
}

void cmd_tmf(struct chan *ch)
{
	static const uint8_t functions[] = {
		SRP_TSK_ABORT_TASK, SRP_TSK_ABORT_TASK, SRP_TSK_ABORT_TASK_SET,
		SRP_TSK_CLEAR_TASK_SET, SRP_TSK_LUN_RESET
	};
	uint8_t function = functions[sim_random(ARRAY_SIZE(functions))];
	const struct cmd *victim = some_cmd(ch);
	struct cmd *c = NULL;
	struct srp_tsk_mgmt t;
	uint8_t iu[SRP_TSK_MGMT_SIZE];

	if (world.tmf_cnt < TMFS_MAX)
		c = new_cmd(ch, TASK_MGMT);
	if (!c)
		return;
	if (victim)
		c->lun = victim->lun;
	c->function = function;
	c->task_tag = victim ? victim->tag : 0x77;
	if (function != SRP_TSK_ABORT_TASK)
		c->tmf = note_tmf(c);
	for (unsigned int i = 0; function == SRP_TSK_LUN_RESET && i < HOSTS;
	     i++)
		world.hosts[i].ua[c->lun].resets++;
	t = (struct srp_tsk_mgmt){ .tag = c->tag,
				   .function = function,
				   .task_tag = c->task_tag };
	srp_lun_encode(c->lun, &t.lun);
	ch->limit--;
	world.cmd_cnt++;
	sim_tell("host %u: channel %u tag %llx: %s of LUN %u, task %llx at "
		 "time %llu",
		 ch->host->number, ch->number, (unsigned long long)c->tag,
		 srp_tsk_mgmt_name(function), c->lun,
		 (unsigned long long)c->task_tag, (unsigned long long)c->start);
	srp_tsk_mgmt_encode(iu, sizeof(iu), &t);
	t_ini_send(&ch->ini, iu, sizeof(iu));
}

/* Commands that were sent on this channel before are over. Those on other
 * channels may not have arrived by then. */
void tmf_answered(struct cmd *tmf, const struct srp_rsp *rsp)
{
	if (!rsp->rsp_valid || rsp->rsp_code != SRP_RSP_COMPLETE) {
		sim_wrong("task management was answered with code %u",
			  rsp->rsp_code);
		return;
	}
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		struct cmd *c = &world.cmds[i];

		if (!cmd_is_covered(c, tmf))
			continue;
		if (c->ch == tmf->ch) {
			cmd_forget_reservation(c);
			cmd_over(c);
		} else {
			c->maybe_ended = true;
		}
	}
	copies_fence(tmf);
	if (tmf->tmf)
		tmf->tmf->end = blocks_now();
	for (unsigned int i = 0;
	     tmf->function == SRP_TSK_LUN_RESET && i < HOSTS; i++) {
		struct attention *ua = &world.hosts[i].ua[tmf->lun];

		if (world.hosts[i].open_cnt && !world.hosts[i].connecting &&
		    ua->told < tmf->start)
			ua->reset_since = blocks_now();
	}
	hosts_look();
}
