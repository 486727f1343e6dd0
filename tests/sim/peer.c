/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/peer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_addr.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_tgt.h"
#include "tests/sim/clock.h"
#include "tests/sim/sim.h"

#define SENDS	 128u
#define DATA_LEN 2048u
#define REQ_LIM	 12
#define NEWS_MAX 16u

static struct peer {
	struct peer_options o;
	struct reactor *reactor;
	struct xp *xp;
	struct t_tgt tgt;
	/* For each send of tgt: the command was taken and not executed yet; and
	 * the stamp of a write. */
	bool taken[SENDS];
	uint64_t stamps[SENDS];

	/* the disk */
	uint64_t now[PEER_BLOCKS];    /* with the cache */
	uint64_t stable[PEER_BLOCKS]; /* without */
	uint64_t acked[PEER_BLOCKS];  /* that the client knows of */
	bool write_cache;
	bool fua;
	bool selected;	 /* some initiator has changed the modes */
	bool lost_cache; /* writes, and power failed before that was told */
	uint64_t blocks;
	uint8_t generation;
	bool other;
	bool told_other;   /* the client knows about the other disk ... */
	uint64_t sent[64]; /* ... and had sent these stamps before */
	unsigned int sent_cnt;
	unsigned int losses;

	/* of the only nexus */
	uint16_t news[NEWS_MAX]; /* attentions to report */
	unsigned int news_cnt;
	unsigned int deferred; /* deferred errors to report; a new nexus also
			        * gets them */
	bool lost_power;       /* and no initiator was told */
	bool told_power;
	unsigned int told_deferred;

	/* temporary conditions */
	enum scsi_status mood; /* GOOD, BUSY, ...; CHECK CONDITION: not ready */
	uint64_t mood_until;
	unsigned int mood_cnt;	/* number of commands with that status */
	unsigned int questions; /* number of commands of discovery that fail */
	unsigned int rejects;
	bool deaf;
	bool keeps_credits; /* of this connection, from now on */
	bool sticks;	    /* the next write never has an answer */
	uint64_t stuck;	    /* that write */
	bool healed;
} peer;

static unsigned int number_of(const struct t_tgt_send *s)
{
	return (unsigned int)(s - peer.tgt.sends);
}

/* ---- the disk ---- */

static void destage(void)
{
	memcpy(peer.stable, peer.now, sizeof(peer.stable));
}

static bool is_dirty(void)
{
	return memcmp(peer.stable, peer.now, sizeof(peer.stable)) != 0;
}

static void lose_cache(void)
{
	peer.losses++;
	peer.lost_cache |= is_dirty() || peer.deferred;
	memcpy(peer.now, peer.stable, sizeof(peer.now));
	peer.generation++;
}

static bool was_sent_before(uint64_t stamp)
{
	for (unsigned int i = 0; i < peer.sent_cnt; i++) {
		if (peer.sent[i] == stamp)
			return true;
	}
	return !peer.told_other;
}

static void write_block(const struct scsi_cmd *cmd, uint64_t stamp)
{
	if (peer.other && !was_sent_before(stamp))
		sim_wrong("stamp %llu was written to another disk",
			  (unsigned long long)stamp);
	if (peer.other)
		return;
	if (stamp < peer.acked[cmd->lba % PEER_BLOCKS])
		sim_wrong("stamp %llu replaces a later one that was "
			  "acknowledged",
			  (unsigned long long)stamp);
	peer.now[cmd->lba % PEER_BLOCKS] = stamp;
	if (!peer.write_cache || cmd->fua)
		peer.stable[cmd->lba % PEER_BLOCKS] = stamp;
}

static const struct scsi_disk_info *disk_info(void)
{
	static struct scsi_disk_info info;

	info = (struct scsi_disk_info){
		.name = "disk",
		.serial = peer.other ? "other" : "this",
		.naa = { 0x60, [15] = peer.other },
		.target_port = 1,
		.blocks = peer.blocks,
		.block_size = PEER_BLOCK,
		.write_cache = peer.write_cache,
		.max_transfer_blocks = 1,
		.store.generation = { peer.generation },
	};
	return &info;
}

/* ---- answers ---- */

static void respond_sense(struct t_tgt_send *s, struct scsi_sense sense)
{
	enum scsi_sense_format format =
		sim_chance(50) ? SCSI_SENSE_FIXED : SCSI_SENSE_DESCRIPTOR;

	sim_tell("target: command %02x: %x/%04x%s", s->cmd.info->opcode,
		 sense.key, sense.code, sense.deferred ? ", deferred" : "");
	t_tgt_respond_sense(s, &sense, format);
}

/* Only the VPD pages that the target has. */
static void describe(struct t_tgt_send *s)
{
	static const uint8_t pages[] = { 0x80, 0x83, 0xc0 };
	static const uint64_t lun;
	const struct t_tgt_disk disk = { .info = disk_info(),
					 .luns = &lun,
					 .lun_cnt = 1,
					 .pages = pages,
					 .page_cnt = peer.o.has_store ? 3 : 2 };
	int len = t_tgt_disk_data(&disk, &s->cmd, s->data, DATA_LEN);

	if (len < 0) {
		respond_sense(s, scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					    SCSI_ASC_INVALID_FIELD_IN_CDB));
		return;
	}
	if (s->cmd.op == SCSI_OP_MODE_SENSE_6)
		s->data[2] = peer.fua ? 0x10 : 0;
	t_tgt_respond(s, (uint32_t)len);
}

static void carry_out(struct t_tgt_send *s)
{
	uint64_t stamp = peer.stamps[number_of(s)];

	peer.taken[number_of(s)] = false;
	switch (s->cmd.op) {
	case SCSI_OP_TEST_UNIT_READY:
		t_tgt_respond(s, 0);
		return;
	case SCSI_OP_READ:
		t_tgt_respond(s, PEER_BLOCK);
		return;
	case SCSI_OP_WRITE:
		sim_tell("target: block %u is %llu%s%s",
			 (unsigned int)s->cmd.lba, (unsigned long long)stamp,
			 s->cmd.fua ? ", FUA" : "",
			 peer.write_cache ? ", in the cache" : "");
		write_block(&s->cmd, stamp);
		t_tgt_respond(s, 0);
		return;
	case SCSI_OP_SYNC_CACHE:
		sim_tell("target: flushed");
		destage();
		t_tgt_respond(s, 0);
		return;
	default:
		describe(s);
	}
}

/* ---- other answers ---- */

static bool is_question(const struct scsi_cmd *cmd)
{
	return (cmd->op == SCSI_OP_INQUIRY && cmd->evpd) ||
	       cmd->op == SCSI_OP_READ_CAPACITY_16 ||
	       cmd->op == SCSI_OP_MODE_SENSE_6;
}

static bool is_moody(void)
{
	if (peer.mood_cnt) {
		peer.mood_cnt--;
		return true;
	}
	return clock_now() < peer.mood_until;
}

/* INQUIRY and REPORT LUNS report none of these. */
static bool has_news(struct t_tgt_send *s)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR);

	if (peer.deferred) {
		peer.deferred--;
		sense.deferred = true;
		peer.told_deferred++;
		if (sim_chance(30))
			sense.key = SCSI_KEY_HARDWARE_ERROR;
		respond_sense(s, sense);
		return true;
	}
	if (peer.news_cnt) {
		uint16_t code = peer.news[0];

		memmove(peer.news, peer.news + 1,
			--peer.news_cnt * sizeof(peer.news[0]));
		peer.told_power |= code == SCSI_ASC_POWER_ON;
		respond_sense(s, scsi_sense(SCSI_KEY_UNIT_ATTENTION, code));
		return true;
	}
	return false;
}

static void answer_mood(struct t_tgt_send *s)
{
	if (peer.mood == SCSI_STATUS_CHECK_CONDITION) {
		respond_sense(s, scsi_sense(SCSI_KEY_NOT_READY,
					    SCSI_ASC_BECOMING_READY));
		return;
	}
	t_tgt_respond_status(s, peer.mood);
}

static void take_write(struct t_tgt_send *s, const void *data)
{
	uint64_t *stamp = &peer.stamps[number_of(s)];

	memcpy(stamp, data, sizeof(*stamp));
	if (peer.sticks)
		peer.stuck = *stamp;
	peer.sticks = false;
	if (*stamp != peer.stuck)
		return;
	peer.taken[number_of(s)] = false;
	t_tgt_drop(s);
}

static void command(struct t_tgt_send *s, const struct srp_cmd_view *v)
{
	bool free_of_news = s->cmd.op == SCSI_OP_INQUIRY ||
			    s->cmd.op == SCSI_OP_REPORT_LUNS;

	if (peer.deaf) {
		t_tgt_drop(s);
		return;
	}
	if (peer.keeps_credits)
		s->rsp.req_lim_delta = 0;
	if (!free_of_news && (has_news(s)))
		return;
	if (!free_of_news && is_moody()) {
		answer_mood(s);
		return;
	}
	if (peer.questions && is_question(&s->cmd)) {
		peer.questions--;
		respond_sense(s, scsi_sense(SCSI_KEY_HARDWARE_ERROR,
					    SCSI_ASC_INTERNAL_TARGET_FAILURE));
		return;
	}
	if (!peer.healed && sim_chance(1)) {
		respond_sense(s, scsi_sense(SCSI_KEY_ABORTED_COMMAND,
					    SCSI_ASC_INSUFFICIENT_RESOURCES));
		return;
	}
	peer.taken[number_of(s)] = true;
	peer.stamps[number_of(s)] = 0;
	if (s->cmd.op == SCSI_OP_WRITE)
		take_write(s, v->out.imm);
}

/* ---- connections ---- */

static void drop_taken(void)
{
	for (unsigned int i = 0; i < SENDS; i++) {
		if (peer.taken[i])
			t_tgt_drop(&peer.tgt.sends[i]);
		peer.taken[i] = false;
	}
}

/* Commands that were taken are executed before the new nexus begins, or
 * never. */
static void end_nexus(void)
{
	while (peer_pending() && sim_chance(50))
		peer_step(0);
	drop_taken();
	for (unsigned int i = 0; i < T_TGT_CHANS; i++) {
		if (peer.tgt.chans[i].open)
			xp_close(peer.tgt.chans[i].xp);
	}
	peer.told_power = false;
	peer.deferred += peer.told_deferred;
	peer.told_deferred = 0;
	peer.news[0] =
		peer.lost_power ? SCSI_ASC_POWER_ON : SCSI_ASC_NEXUS_LOSS;
	peer.news_cnt = 1;
	peer.deaf = false;
	peer.keeps_credits = false;
}

static void login(struct t_tgt *tgt, struct xp_conn_request *req,
		  const struct srp_login_req *asked)
{
	if (peer.rejects || !t_tgt_free_chan(tgt)) {
		peer.rejects -= peer.rejects > 0;
		t_tgt_reject(req, asked->tag, SRP_REJ_NO_RESOURCES);
		return;
	}
	if (asked->multichan == SRP_MULTICHAN_SINGLE)
		end_nexus();
	t_tgt_accept(tgt, req, asked);
}

static const struct t_tgt_ops peer_ops = { .login = login, .command = command };

/* ---- events ---- */

unsigned int peer_pending(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SENDS; i++)
		n += peer.taken[i];
	return n;
}

void peer_step(unsigned int nth)
{
	for (unsigned int i = 0; i < SENDS; i++) {
		if (peer.taken[i] && nth-- == 0) {
			carry_out(&peer.tgt.sends[i]);
			return;
		}
	}
}

static void add_news(uint16_t code)
{
	if (peer.news_cnt < NEWS_MAX)
		peer.news[peer.news_cnt++] = code;
}

/* Breaks all of them, or some. */
static void break_channels(bool all)
{
	for (unsigned int i = 0; i < T_TGT_CHANS; i++) {
		if (peer.tgt.chans[i].open && (all || sim_chance(50)))
			t_fabric_break(peer.tgt.chans[i].xp);
	}
}

static void break_connection(void)
{
	sim_tell("-- the connection breaks");
	break_channels(sim_chance(50));
}

static void fail_power(void)
{
	sim_tell("-- power fails");
	drop_taken();
	lose_cache();
	peer.deferred = peer.told_deferred = 0;
	peer.lost_power = true;
	/* The saved modes become current again. Leaves out what the client
	 * cannot know (volumes.c): that the cache was on for a short time and
	 * no initiator was told. */
	if (!peer.selected && sim_chance(30))
		peer.write_cache = false;
	break_channels(/* all= */ true);
}

/* Restarts the unit alone; the connection stays. */
static void restart_unit(void)
{
	sim_tell("-- the unit is switched off and on");
	lose_cache();
	peer.news_cnt = 0;
	peer.deferred = peer.told_deferred = 0;
	peer.lost_power = true;
	add_news(SCSI_ASC_POWER_ON);
}

static void fail_destage(void)
{
	if (!is_dirty())
		return;
	sim_tell("-- a write from the cache fails");
	peer.losses++;
	memcpy(peer.now, peer.stable, sizeof(peer.now));
	peer.deferred++;
}

static void select_modes(void)
{
	peer.selected = true;
	/* Leaves out what fail_power() leaves out, in two steps: the cache that
	 * has lost writes is switched off before the client is back. */
	if (sim_chance(70))
		peer.write_cache = !peer.write_cache || peer.lost_cache;
	else
		peer.fua = !peer.fua;
	sim_tell("-- modes: WCE %d, DPOFUA %d", peer.write_cache, peer.fua);
	if (!peer.write_cache)
		destage();
	add_news(SCSI_ASC_MODE_PARAMETERS_CHANGED);
}

static void change_mood(void)
{
	static const enum scsi_status moods[] = { SCSI_STATUS_CHECK_CONDITION,
						  SCSI_STATUS_BUSY,
						  SCSI_STATUS_TASK_SET_FULL };

	if (clock_now() < peer.mood_until)
		return;
	peer.mood = moods[sim_random(3)];
	if (sim_chance(60))
		peer.mood_cnt = 1 + sim_random(20);
	else
		peer.mood_until =
			clock_now() +
			(sim_chance(80) ? sim_random(2000) : sim_random(8000)) *
				1000ull;
	sim_tell("-- status %02x for %u commands or %llu ms", peer.mood,
		 peer.mood_cnt,
		 peer.mood_until > clock_now()
			 ? (unsigned long long)(peer.mood_until - clock_now()) /
				   1000
			 : 0);
}

static void tell_something(void)
{
	static const uint16_t codes[] = {
		SCSI_ASC_RESERVATIONS_RELEASED, SCSI_ASC_REPORTED_LUNS_CHANGED,
		SCSI_ASC_INQUIRY_DATA_CHANGED,	SCSI_ASC_DEVICE_RESET,
		SCSI_ASC_CAPACITY_CHANGED,	SCSI_ASC_PARAMETERS_CHANGED,
	};
	uint16_t code = codes[sim_random(ARRAY_SIZE(codes))];

	if (code == SCSI_ASC_CAPACITY_CHANGED)
		peer.blocks++;
	/* The client need not believe that the cache survives a reset. */
	peer.losses += code == SCSI_ASC_DEVICE_RESET;
	add_news(code);
}

static void become_other(void)
{
	sim_tell("-- another disk is there");
	peer.other = true;
	add_news(sim_chance(50) ? SCSI_ASC_REPORTED_LUNS_CHANGED
				: SCSI_ASC_INQUIRY_DATA_CHANGED);
	if (sim_chance(30))
		break_connection();
}

static bool has_flush(void)
{
	for (unsigned int i = 0; i < SENDS; i++) {
		if (peer.taken[i] &&
		    peer.tgt.sends[i].cmd.op == SCSI_OP_SYNC_CACHE)
			return true;
	}
	return false;
}

void peer_act(bool quiet)
{
	unsigned int what = sim_random(100);

	if (what < 20)
		select_modes();
	else if (what < 40)
		change_mood();
	else if (what < 55)
		tell_something();
	else if (what < 65)
		break_connection();
	else if (what < 73)
		peer.questions += 1 + sim_random(2);
	else if (what < 79)
		fail_power();
	else if (what < 85 && !has_flush())
		fail_destage();
	else if (what < 90 && !peer_pending())
		restart_unit();
	else if (what < 93)
		peer.rejects++;
	else if (what < 95)
		peer.deaf = true;
	else if (what == 98)
		peer.keeps_credits = true;
	else if (what == 99)
		peer.sticks = true;
	else if (what < 96 && quiet && !peer.news_cnt)
		become_other();
}

void peer_heard(void)
{
	peer.lost_power &= !peer.told_power;
	peer.told_power = false;
	peer.told_deferred = 0;
}

void peer_heal(void)
{
	peer.healed = true;
	peer.mood_cnt = 0;
	peer.mood_until = 0;
	peer.questions = 0;
	peer.rejects = 0;
}

uint64_t peer_stable(unsigned int lba)
{
	return peer.stable[lba];
}

void peer_acked(unsigned int lba, uint64_t stamp)
{
	peer.acked[lba] = stamp;
}

unsigned int peer_losses(void)
{
	return peer.losses;
}

void peer_tell_other(const uint64_t *sent, unsigned int cnt)
{
	if (peer.told_other)
		return;
	peer.told_other = true;
	for (unsigned int i = 0; i < cnt; i++)
		peer.sent[peer.sent_cnt++] = sent[i];
	for (unsigned int i = 0; i < SENDS; i++) {
		if (peer.taken[i] && peer.stamps[i])
			peer.sent[peer.sent_cnt++] = peer.stamps[i];
	}
	if (peer.sent_cnt > ARRAY_SIZE(peer.sent))
		abort();
}

bool peer_is_other(void)
{
	return peer.other;
}

/* ---- life cycle ---- */

void peer_reset(struct t_fabric *hub, const struct peer_options *o)
{
	const struct sockaddr_in addrs[] = { t_addr("10.0.0.1", 5555),
					     t_addr("10.0.0.2", 5555) };
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = T_TGT_RECV_LEN,
				 .recv_aligned_at = SRP_IMM_OFFSET };

	memset(&peer, 0, sizeof(peer));
	peer.o = *o;
	peer.write_cache = o->write_cache;
	peer.fua = o->fua;
	peer.blocks = PEER_BLOCKS;
	peer.generation = 1;
	peer.tgt = (struct t_tgt){
		.ops = &peer_ops,
		.rsp = { .req_lim = REQ_LIM,
			 .it_iu_len = T_TGT_RECV_LEN,
			 .ti_iu_len = 512,
			 .formats = SRP_FORMATS,
			 .multichan = SRP_MULTICHAN_MAINTAINED,
			 .imm_data = true },
		.send_cnt = SENDS,
		.data_len = DATA_LEN,
	};
	T_MUST(!reactor_create(&ropt, &peer.reactor));
	cfg.reactor = peer.reactor;
	T_MUST(!t_xp_create(hub, &cfg, &peer.xp));
	t_tgt_start(&peer.tgt, peer.xp);
	t_tgt_listen(&peer.tgt, &addrs[0]);
	t_tgt_listen(&peer.tgt, &addrs[1]);
}

void peer_end(void)
{
	t_tgt_stop(&peer.tgt);
	xp_destroy(peer.xp);
	reactor_destroy(peer.reactor);
}
