/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/host_world.h"

#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/target.h"

static struct chan *chan_of(struct t_ini *ini)
{
	return container_of(ini, struct chan, ini);
}

/* ---- channels ---- */

/* Does a function run on @ch that covers commands of other channels? */
static bool covers_others(const struct chan *ch)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *c = &world.cmds[i];

		if (c->used && c->ch == ch && c->kind == TASK_MGMT &&
		    c->function != SRP_TSK_ABORT_TASK)
			return true;
	}
	return false;
}

static void close_all(const struct host *h)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (world.chans[i].host == h)
			chan_close(&world.chans[i]);
	}
}

/* What had to be told may have been told by an answer that is lost. */
static void attentions_lose(struct host *h)
{
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		h->ua[lun].login_since = 0;
		h->ua[lun].reset_since = 0;
		h->ua[lun].told = blocks_now();
	}
}

/*
 * When a function is lost that may have ended commands of the other channels,
 * or may yet do so, their answers would be waited for in vain: all channels go,
 * as with ib_srp.
 */
static void chan_over(struct chan *ch)
{
	bool all = covers_others(ch);

	if (ch->state == CONNECTING)
		ch->host->connecting = false;
	if (ch->state == OPEN)
		ch->host->open_cnt--;
	ch->state = CLOSING;
	cmds_lose(ch);
	attentions_lose(ch->host);
	if (all)
		close_all(ch->host);
}

void chan_close(struct chan *ch)
{
	if (ch->state == UNUSED)
		return;
	if (ch->state != CLOSING)
		chan_over(ch);
	xp_close(ch->ini.xp);
}

/*
 * A SINGLE login is through: nothing of the nexus' older channels can reach
 * the medium or the host's world.memory any more.
 */
static void fence(struct chan *ch)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (&world.chans[i] != ch && world.chans[i].host == ch->host)
			chan_close(&world.chans[i]);
	}
	host_settle(ch->host, blocks_now());
	hosts_look();
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		ch->host->ua[lun].login_since = blocks_now();
		ch->host->ua[lun].told = blocks_now();
	}
}

/* The target may have ended all channels of the nexus before it saw this MULTI login:
 * then there is a new nexus. */
static void join(struct chan *ch)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		const struct chan *other = &world.chans[i];

		if (other != ch && other->host == ch->host &&
		    other->state == OPEN && !other->excused)
			return;
	}
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++)
		ch->host->ua[lun].logins++;
}

static void chan_established(struct t_ini *ini)
{
	struct chan *ch = chan_of(ini);

	if (ch->state != CONNECTING)
		return;
	sim_tell("host %u: channel %u is open", ch->host->number, ch->number);
	ch->host->connecting = false;
	ch->host->open_cnt++;
	ch->state = OPEN;
	ch->granted = ini->login_rsp.req_lim;
	ch->limit = ini->login_rsp.req_lim;
	if (ch->single)
		fence(ch);
	else
		join(ch);
}

static void chan_closing(struct t_ini *ini)
{
	struct chan *ch = chan_of(ini);

	if (ch->state == CLOSING)
		return;
	sim_tell("host %u: channel %u is lost", ch->host->number, ch->number);
	if (!ch->excused)
		sim_wrong("the target ended channel %u of host %u for no "
			  "reason",
			  ch->number, ch->host->number);
	chan_over(ch);
}

static void chan_closed(struct t_ini *ini)
{
	struct chan *ch = chan_of(ini);

	t_ini_free(ini);
	ch->state = UNUSED;
	/* Until now, the target may have answered commands of this channel. */
	attentions_lose(ch->host);
}

static void chan_received(struct t_ini *ini, const struct xp_iu *iu);

static const struct t_ini_ops chan_ops = {
	.established = chan_established,
	.received = chan_received,
	.closing = chan_closing,
	.closed = chan_closed,
};

static struct chan *free_chan(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (world.chans[i].state == UNUSED)
			return &world.chans[i];
	}
	return NULL;
}

void chan_login(struct host *h, bool single)
{
	struct srp_login_req req = t_ini_login_req(
		srp_port_id_make(0xabc, h->number + 1),
		single ? SRP_MULTICHAN_SINGLE : SRP_MULTICHAN_MULTI);
	const struct sockaddr_in addr = t_port_addr();
	struct chan *ch = free_chan();

	if (!ch || h->connecting)
		return;
	*ch = (struct chan){ .state = CONNECTING,
			     .host = h,
			     .single = single,
			     .number = ++world.chan_cnt,
			     .ini.ops = &chan_ops };
	sim_tell("host %u: %s login, channel %u", h->number,
		 single ? "SINGLE" : "MULTI", ch->number);
	h->connecting = true;
	for (unsigned int i = 0; single && i < CHANS_MAX; i++) {
		if (&world.chans[i] != ch && world.chans[i].host == h)
			world.chans[i].excused = true;
	}
	for (unsigned int lun = 0; single && lun < BLOCKS_LUNS; lun++) {
		h->ua[lun].logins += 2;
		h->ua[lun].reset_since = 0;
	}
	req.it_iu_len = CHANNEL_IT_IU_LEN;
	req.target = t_port_name();
	t_ini_login(&ch->ini, world.xp, &addr, &req);
}

void chan_break(struct chan *ch)
{
	sim_tell("host %u: the connection of channel %u breaks",
		 ch->host->number, ch->number);
	ch->excused = true;
	t_fabric_break(ch->ini.xp);
}

void hosts_excuse(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		world.chans[i].excused = true;
}

void hosts_worker_goes_on(void)
{
	for (unsigned int i = 0; i < HOSTS; i++)
		attentions_lose(&world.hosts[i]);
}

void hosts_target_killed(void)
{
	hosts_excuse();
	hosts_may_be_told_again();
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (world.chans[i].state != UNUSED) {
			t_fabric_break(world.chans[i].ini.xp);
			chan_close(&world.chans[i]);
		}
	}
	hosts_all_over();
}

void hosts_target_gone(void)
{
	memset(world.reservation, 0, sizeof(world.reservation));
}

void hosts_leave(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		chan_close(&world.chans[i]);
}

static void answer_target(struct chan *ch, enum srp_opcode opcode, uint64_t tag)
{
	uint8_t iu[SRP_BARE_SIZE];

	srp_bare_encode(iu, sizeof(iu), opcode, tag);
	t_ini_send(&ch->ini, iu, sizeof(iu));
}

/* ---- credits ---- */

/* The command may have ended already, without an answer. */
static bool is_managed(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (world.cmds[i].used && world.cmds[i].kind == TASK_MGMT &&
		    cmd_is_covered(c, &world.cmds[i]))
			return true;
	}
	return c->maybe_ended;
}

static void add_credits(struct chan *ch, int32_t delta)
{
	int32_t under_way = 0;

	for (unsigned int i = 0; i < CMDS_MAX; i++)
		under_way += world.cmds[i].used && world.cmds[i].ch == ch &&
			     !is_managed(&world.cmds[i]);
	ch->limit += delta;
	if (t_fabric_receives(ch->ini.xp) < ch->limit)
		sim_wrong("channel %u was given credits without receives",
			  ch->number);
	if (ch->limit + under_way > ch->granted)
		sim_wrong("channel %u has %d credits and %d requests under "
			  "way, of %d",
			  ch->number, ch->limit, under_way, ch->granted);
}

/* ---- what arrives ---- */

static void response(struct chan *ch, const struct xp_iu *iu)
{
	struct srp_rsp rsp;
	struct cmd *c;

	if (srp_rsp_decode(iu->data, iu->len, &rsp)) {
		sim_wrong("a response that is none");
		return;
	}
	c = cmd_find(ch, rsp.tag);
	sim_tell("host %u: channel %u tag %llx: status %02x, %d credits",
		 ch->host->number, ch->number, (unsigned long long)rsp.tag,
		 rsp.status, rsp.req_lim_delta);
	if (!c) {
		sim_wrong("channel %u: an answer to tag %llx, which is not "
			  "under way",
			  ch->number, (unsigned long long)rsp.tag);
		return;
	}
	if (c->kind == TASK_MGMT)
		tmf_answered(c, &rsp);
	else
		cmd_judge(c, &rsp);
	if (c->copy)
		copy_over(c->copy);
	cmd_forget_reservation(c);
	cmd_free(c);
	add_credits(ch, rsp.req_lim_delta);
}

static void credit_request(struct chan *ch, const struct xp_iu *iu)
{
	struct srp_cred_req req;

	if (srp_cred_req_decode(iu->data, iu->len, &req)) {
		sim_wrong("an SRP_CRED_REQ that is none");
		return;
	}
	sim_tell("host %u: channel %u: %d credits by SRP_CRED_REQ",
		 ch->host->number, ch->number, req.req_lim_delta);
	add_credits(ch, req.req_lim_delta);
	answer_target(ch, SRP_CRED_RSP, req.tag);
}

static void chan_received(struct t_ini *ini, const struct xp_iu *iu)
{
	struct chan *ch = chan_of(ini);
	struct srp_head head = { 0 };

	srp_head_decode(iu->data, iu->len, &head);
	if (ch->state != OPEN)
		;
	else if (head.opcode == SRP_RSP)
		response(ch, iu);
	else if (head.opcode == SRP_CRED_REQ)
		credit_request(ch, iu);
	else if (head.opcode != SRP_T_LOGOUT)
		sim_wrong("an IU with opcode %02x", head.opcode);
}
