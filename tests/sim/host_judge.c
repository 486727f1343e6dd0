/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/host_world.h"

#include "protocol/scsi_sense.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim.h"

/* ---- answers ---- */

/* True if a function of the host is in progress that may end commands without
 * an answer. */
static bool manages(const struct host *h)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (world.cmds[i].used && world.cmds[i].kind == TASK_MGMT &&
		    world.cmds[i].ch->host == h)
			return true;
	}
	return false;
}

/* No command overtakes an ORDERED command, and it overtakes none. */
static void check_order(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *o = &world.cmds[i];

		if (!o->used || o->ch != c->ch || o->lun != c->lun ||
		    o->kind == TASK_MGMT || o->order >= c->order ||
		    o->maybe_ended)
			continue;
		if ((o->attr == SRP_TASK_ORDERED ||
		     c->attr == SRP_TASK_ORDERED) &&
		    !manages(c->ch->host))
			sim_wrong("tag %llx overtook tag %llx, though ORDERED "
				  "was asked for",
				  (unsigned long long)c->tag,
				  (unsigned long long)o->tag);
	}
}

static bool is_alone(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *o = &world.cmds[i];

		if (o->used && o != c && o->ch->host == c->ch->host &&
		    o->lun == c->lun)
			return false;
	}
	return true;
}

static void check_no_attention_is_lost(const struct cmd *c)
{
	const struct attention *ua = &c->ch->host->ua[c->lun];

	if (!is_alone(c))
		return;
	if ((ua->login_since && ua->login_since < c->start) ||
	    (ua->reset_since && ua->reset_since < c->start))
		sim_wrong("host %u was not told of a unit attention on LUN %u",
			  c->ch->host->number, c->lun);
}

static void attention_told(const struct cmd *c, enum scsi_asc code)
{
	struct attention *ua = &c->ch->host->ua[c->lun];
	unsigned int *left = NULL;

	ua->told = blocks_now();
	if (code == SCSI_ASC_POWER_ON || code == SCSI_ASC_NEXUS_LOSS) {
		left = &ua->logins;
		ua->login_since = 0;
	} else if (code == SCSI_ASC_DEVICE_RESET) {
		left = &ua->resets;
		ua->reset_since = 0;
	}
	if (!left || *left == 0)
		sim_wrong("unit attention %04x on LUN %u of host %u without a "
			  "cause",
			  code, c->lun, c->ch->host->number);
	else
		--*left;
}

/* ---- residuals ---- */

static void check_residual(const struct srp_rsp *rsp, uint32_t want,
			   uint32_t described, uint32_t resid, uint8_t over,
			   uint8_t under)
{
	uint8_t flag = want > described ? over : want < described ? under : 0;
	uint32_t expected =
		want > described ? want - described : described - want;

	if ((rsp->resid_flags & (over | under)) != flag ||
	    (flag && resid != expected))
		sim_wrong("residual %u (flags %02x) for %u of %u bytes", resid,
			  rsp->resid_flags, want, described);
}

static void check_residuals(const struct cmd *c, const struct srp_rsp *rsp)
{
	uint32_t out =
		c->out_len ? c->kind == COMPARE_WRITE ? 2 * c->want : c->want
			   : 0;

	check_residual(rsp, out, c->out_len, rsp->out_resid,
		       SRP_RSP_OUT_OVERFLOW, SRP_RSP_OUT_UNDERFLOW);
	check_residual(rsp, c->in_len ? c->want : 0, c->in_len, rsp->in_resid,
		       SRP_RSP_IN_OVERFLOW, SRP_RSP_IN_UNDERFLOW);
}

/* ---- good answers ---- */

static void saw_block(const struct cmd *c, unsigned int i, uint64_t t)
{
	uint32_t stamp = stamp_parse(cmd_mem(c) + i * BLOCK_BYTES);
	unsigned int lba = c->lba + i;

	sim_tell("  block %u has stamp %u", lba, stamp);
	if (stamp == STAMP_GARBAGE)
		sim_wrong("tag %llx read garbage from LUN %u block %u",
			  (unsigned long long)c->tag, c->lun, lba);
	else if (stamp &&
		 (stamps[stamp].lun != c->lun || stamps[stamp].lba != lba))
		sim_wrong("tag %llx read LUN %u block %u instead of LUN %u "
			  "block %u",
			  (unsigned long long)c->tag, stamps[stamp].lun,
			  stamps[stamp].lba, c->lun, lba);
	else
		blocks_seen(c->lun, lba, stamp, c->start, t);
}

static bool may_be_half(const struct stamp *st)
{
	return !st->instead || st->disk_failed || st->refused || st->past;
}

/* Block @i is new and block @other as before the same COMPARE AND WRITE. */
static bool is_half(const struct cmd *c, unsigned int i, unsigned int other)
{
	uint32_t made = stamp_parse(cmd_mem(c) + i * BLOCK_BYTES);
	uint32_t twin = made + other - i;

	return made && made != STAMP_GARBAGE && twin < stamps_end() &&
	       stamps[twin].first == stamps[made].first &&
	       !may_be_half(&stamps[made]) && !may_be_half(&stamps[twin]) &&
	       stamp_parse(cmd_mem(c) + other * BLOCK_BYTES) ==
		       stamps[twin].instead;
}

static void read_is_good(const struct cmd *c, uint64_t t)
{
	uint32_t got = c->want < c->in_len ? c->want : c->in_len;

	for (unsigned int i = 0; i < got / BLOCK_BYTES; i++) {
		saw_block(c, i, t);
		if (i && (is_half(c, i, i - 1) || is_half(c, i - 1, i)))
			sim_wrong("tag %llx read half of a COMPARE AND WRITE",
				  (unsigned long long)c->tag);
	}
	for (uint32_t at = got; at < c->in_len; at++) {
		if (cmd_mem(c)[at] != UNTOUCHED) {
			sim_wrong("tag %llx: more was sent than the residual "
				  "says",
				  (unsigned long long)c->tag);
			return;
		}
	}
}

static void write_is_good(const struct cmd *c, uint64_t t)
{
	const uint8_t *out = cmd_mem(c);

	if (c->kind == COMPARE_WRITE)
		out += c->want;
	if (c->out_len < c->want)
		sim_wrong("tag %llx was done with too little data",
			  (unsigned long long)c->tag);
	for (unsigned int i = 0; i < c->blocks; i++) {
		struct stamp *st = &stamps[c->stamps[i]];

		st->acked = true;
		st->end = t;
		st->durable = c->fua || !world.has_cache[c->lun];
		if (st->disk_failed)
			sim_wrong("tag %llx is good, but the disk failed",
				  (unsigned long long)c->tag);
		if (stamp_parse(out + i * BLOCK_BYTES) != c->stamps[i])
			sim_wrong("data-out of tag %llx was written to",
				  (unsigned long long)c->tag);
	}
	if (c->ch->host->number != 0 && world.reservation[c->lun].since &&
	    world.reservation[c->lun].since < c->start)
		sim_wrong("host %u wrote to LUN %u, which is reserved",
			  c->ch->host->number, c->lun);
}

/* ---- writes that were lost ---- */

/* After this time, the target has seen that an answer was delivered. */
#define DELIVERY_TIME 100

static struct debt *debt_of(const struct cmd *c)
{
	return &c->ch->host->debts[c->lun];
}

void hosts_lost_writes(unsigned int lun, bool power_cut)
{
	for (uint32_t i = 1; i < stamps_end(); i++) {
		struct stamp *st = &stamps[i];
		struct debt *debt = &world.hosts[st->host].debts[lun];

		if (st->lun != lun || st->past)
			continue;
		st->past = true;
		if (!st->refused)
			debt->may |= power_cut || !st->durable;
		debt->must |= st->lost && st->acked && !st->durable;
	}
}

void hosts_may_be_told_again(void)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
			struct debt *debt = &world.hosts[i].debts[lun];

			debt->may |= debt->told &&
				     blocks_now() - debt->told < DELIVERY_TIME;
		}
	}
}

void sync_is_in_doubt(const struct cmd *c)
{
	if (c->kind == SYNC_CACHE)
		debt_of(c)->must = false;
}

static bool has_another_sync(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *other = &world.cmds[i];

		if (other != c && other->used && other->kind == SYNC_CACHE &&
		    other->ch->host == c->ch->host && other->lun == c->lun)
			return true;
	}
	return false;
}

static void sync_is_good(const struct cmd *c)
{
	if (debt_of(c)->must && !has_another_sync(c))
		sim_wrong("LUN %u has lost writes of host %u, whose flush is "
			  "good",
			  c->lun, c->ch->host->number);
	if (!c->immed)
		blocks_flushed(c->lun, c->start);
}

/* True if its host has asked to end the command: a kernel drops an answer that
 * comes then. */
static bool is_being_ended(const struct cmd *c)
{
	if (c->maybe_ended)
		return true;
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *tmf = &world.cmds[i];

		if (tmf->used && tmf->kind == TASK_MGMT &&
		    cmd_is_covered(c, tmf))
			return true;
	}
	return false;
}

static void loss_told(const struct cmd *c)
{
	struct debt *debt = debt_of(c);

	if (!debt->may && c->start > debt->told)
		sim_wrong("host %u is told of writes to LUN %u that it has not "
			  "lost",
			  c->ch->host->number, c->lun);
	/* It is unknown which of the two was first, so the loss may be reported
	 * again. */
	if (is_being_ended(c))
		debt->must = false;
	else
		*debt = (struct debt){ .told = blocks_now() };
}

static void reservation_is_good(const struct cmd *c, uint64_t t)
{
	if (c->kind == REGISTER)
		world.reservation[c->lun].registered = true;
	if (c->kind == RESERVE)
		world.reservation[c->lun].since = t;
	if (c->kind == RELEASE)
		world.reservation[c->lun].maybe_until = t;
}

static void is_good(const struct cmd *c, const struct srp_rsp *rsp)
{
	uint64_t t = blocks_now();

	if (c->bad_table)
		sim_wrong("tag %llx is good, with a bad table",
			  (unsigned long long)c->tag);
	check_residuals(c, rsp);
	if (c->kind == READ)
		read_is_good(c, t);
	else if (c->kind == COPY)
		copy_is_good(c);
	else if (c->kind == WRITE || c->kind == COMPARE_WRITE)
		write_is_good(c, t);
	else if (c->kind == SYNC_CACHE)
		sync_is_good(c);
	else
		reservation_is_good(c, t);
}

/* ---- answers with errors ---- */

/* Because of another host's function. The command was over when that function
 * was answered. */
static void task_aborted(const struct cmd *c)
{
	uint64_t t = blocks_now();
	uint64_t over = 0;

	if (c->kind == COPY) {
		if (!copy_may_be_ended(c))
			sim_wrong("copy %u was ended by nobody",
				  c->copy->number);
		return;
	}
	for (unsigned int i = 0; i < world.tmf_cnt; i++) {
		const struct tmf *m = &world.tmfs[i];

		if (m->function == SRP_TSK_LUN_RESET &&
		    m->host != c->ch->host && m->lun == c->lun &&
		    m->end > c->start && m->end > over)
			over = m->end;
	}
	if (!over)
		sim_wrong("tag %llx was aborted by nobody",
			  (unsigned long long)c->tag);
	for (unsigned int i = 0; i < c->blocks; i++) {
		if (c->stamps[i])
			stamp_over(c->stamps[i], over < t ? over : t);
	}
}

static void conflict(const struct cmd *c)
{
	if (c->ch->host->number == 0 ||
	    !world.reservation[c->lun].maybe_since ||
	    world.reservation[c->lun].maybe_until < c->start)
		sim_wrong("tag %llx: conflict with no reservation",
			  (unsigned long long)c->tag);
}

/* Without a change since the command was made, it must not miscompare. */
static void miscompare(const struct cmd *c)
{
	for (unsigned int i = 0; i < c->blocks; i++) {
		if (world.is_memory[c->lun] ||
		    disk_changes(c->lun, c->lba + i) != c->changes[i])
			return;
	}
	sim_wrong("tag %llx did not find what was there",
		  (unsigned long long)c->tag);
}

/* The answer says that the command was not executed. It must never be
 * executed. */
static void not_done(const struct cmd *c)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < c->blocks; i++) {
		if (!c->stamps[i])
			continue;
		stamp_over(c->stamps[i], t);
		stamps[c->stamps[i]].refused = true;
	}
}

static void check_condition(const struct cmd *c, const struct srp_rsp *rsp)
{
	struct scsi_sense sense;

	if (!rsp->sense ||
	    scsi_sense_decode(rsp->sense, rsp->sense_len, &sense)) {
		sim_wrong("CHECK CONDITION without sense data");
		return;
	}
	not_done(c);
	sim_tell("  sense key %x, %04x", sense.key, sense.code);
	if (sense.key == SCSI_KEY_UNIT_ATTENTION) {
		attention_told(c, sense.code);
		return;
	}
	if (sense.key == SCSI_KEY_MEDIUM_ERROR && disk_errors(c->lun))
		return;
	check_no_attention_is_lost(c);
	if (sense.key == SCSI_KEY_HARDWARE_ERROR && c->kind == SYNC_CACHE) {
		loss_told(c);
		return;
	}
	if (sense.key == SCSI_KEY_COPY_ABORTED && c->kind == COPY) {
		if (!copy_may_be_aborted(c))
			sim_wrong("copy %u failed for no reason",
				  c->copy->number);
	} else if (sense.key == SCSI_KEY_MISCOMPARE && c->kind == COMPARE_WRITE)
		miscompare(c);
	else if (sense.key != SCSI_KEY_ILLEGAL_REQUEST ||
		 (c->out_len >= c->want && !c->bad_table))
		sim_wrong("tag %llx: sense key %x, %04x for no reason",
			  (unsigned long long)c->tag, sense.key, sense.code);
}

static void sees_blocks(const struct cmd *c)
{
	if (c->kind != READ && c->kind != WRITE && c->kind != COMPARE_WRITE)
		return;
	for (unsigned int i = 0; i < c->blocks; i++)
		block_see(c->lun, c->lba + i, c->start);
}

void cmd_judge(struct cmd *c, const struct srp_rsp *rsp)
{
	if (rsp->status != SCSI_STATUS_TASK_ABORTED)
		check_order(c);
	switch (rsp->status) {
	case SCSI_STATUS_GOOD:
		check_no_attention_is_lost(c);
		is_good(c, rsp);
		sees_blocks(c);
		return;
	case SCSI_STATUS_CHECK_CONDITION:
		check_condition(c, rsp);
		return;
	case SCSI_STATUS_TASK_ABORTED:
		task_aborted(c);
		return;
	case SCSI_STATUS_RESERVATION_CONFLICT:
		not_done(c);
		check_no_attention_is_lost(c);
		conflict(c);
		return;
	case SCSI_STATUS_BUSY: /* a write under the reservation before lingers */
		if (c->kind == RESERVE) {
			check_no_attention_is_lost(c);
			return;
		}
		__attribute__((fallthrough));
	default:
		sim_wrong("tag %llx: status %02x", (unsigned long long)c->tag,
			  rsp->status);
	}
}
