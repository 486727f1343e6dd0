/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "protocol/srp_iu.h"
#include "protocol/srp_login.h"
#include "tests/lib/t_must.h"
#include "tests/sim/clock.h"
#include "tests/sim/sim.h"

#define SLOTS	 128u
#define SLOT_LEN 4096u
#define IU_AT	 3072u
#define REQ_LIM	 12
#define NEWS_MAX 16u

#define ADDRESSES 2

static const char *const addresses[ADDRESSES] = { "10.0.0.1", "10.0.0.2" };

struct peer_chan {
	struct xp_chan *xp;
	bool open;
};

/* A command, from its arrival until its response has left. */
struct slot {
	struct xp_chain chain;
	struct peer_chan *ch;
	struct srp_desc desc;
	struct srp_rsp rsp;
	struct scsi_cmd cmd;
	uint64_t stamp; /* of a write */
	uint32_t in_len;
	uint8_t sense[SCSI_SENSE_MAX_LEN];
	uint8_t *data;
	bool busy;
	bool taken; /* and not carried out */
};

static struct peer {
	struct peer_options o;
	struct reactor *reactor;
	struct xp *xp;
	struct xp_listener *listeners[ADDRESSES];
	struct xp_mr *mr;
	uint8_t *mem;
	struct peer_chan chans[256];
	unsigned int chan_cnt;
	struct slot slots[SLOTS];

	/* the disk */
	uint64_t now[PEER_BLOCKS];    /* with the cache */
	uint64_t stable[PEER_BLOCKS]; /* without */
	bool write_cache;
	bool fua;
	bool selected; /* modes have been, by somebody */
	uint64_t blocks;
	uint8_t generation;
	bool other;
	bool told_other;   /* the client knows ... */
	uint64_t sent[64]; /* and had sent these stamps before */
	unsigned int sent_cnt;
	unsigned int losses;

	/* of the one nexus */
	uint16_t news[NEWS_MAX]; /* attentions to be told */
	unsigned int news_cnt;
	unsigned int deferred; /* errors to be told; a new nexus is, too */
	bool lost_power;       /* and nobody has heard of it */
	bool told_power;
	unsigned int told_deferred;

	/* its moods */
	enum scsi_status mood; /* GOOD, BUSY, ...; CHECK CONDITION: not ready */
	uint64_t mood_until;
	unsigned int mood_cnt;	/* or so many commands */
	unsigned int questions; /* that fail */
	unsigned int rejects;
	bool deaf;
	bool healed;
} peer;

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

static void slot_done(struct xp_chain *chain, int status)
{
	container_of(chain, struct slot, chain)->busy = false;
}

static struct slot *take_slot(struct peer_chan *ch)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *s = &peer.slots[i];

		if (s->busy)
			continue;
		*s = (struct slot){ .ch = ch,
				    .busy = true,
				    .data = peer.mem + (size_t)i * SLOT_LEN };
		return s;
	}
	abort();
}

static void respond(struct slot *s, uint32_t len)
{
	int iu_len;

	s->taken = false;
	if (!s->ch->open || !xp_chan_is_open(s->ch->xp)) {
		slot_done(&s->chain, -1);
		return;
	}
	if (len > s->in_len)
		len = s->in_len;
	if (len < s->in_len) {
		s->rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
		s->rsp.in_resid = s->in_len - len;
	}
	s->chain = (struct xp_chain){ .done = slot_done };
	if (len) {
		s->chain.dir = XP_RDMA_WRITE;
		s->chain.remote = &s->desc;
		s->chain.remote_cnt = 1;
		s->chain.len = len;
		s->chain.local = s->data;
		s->chain.local_mr = peer.mr;
	}
	iu_len = srp_rsp_encode(s->data + IU_AT, SLOT_LEN - IU_AT, &s->rsp);
	s->chain.send[0] = (struct xp_sge){ .addr = s->data + IU_AT,
					    .len = (uint32_t)iu_len,
					    .mr = peer.mr };
	s->chain.send_cnt = 1;
	xp_post(s->ch->xp, &s->chain);
}

static void respond_sense(struct slot *s, struct scsi_sense sense)
{
	enum scsi_sense_format format =
		sim_chance(50) ? SCSI_SENSE_FIXED : SCSI_SENSE_DESCRIPTOR;

	sim_tell("target: command %02x: %x/%04x%s", s->cmd.info->opcode,
		 sense.key, sense.code, sense.deferred ? ", deferred" : "");
	s->rsp.status = SCSI_STATUS_CHECK_CONDITION;
	s->rsp.sense = s->sense;
	s->rsp.sense_len = (uint32_t)scsi_sense_encode(&sense, format, s->sense,
						       sizeof(s->sense));
	respond(s, 0);
}

static void refuse(struct slot *s)
{
	respond_sense(s, scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				    SCSI_ASC_INVALID_FIELD_IN_CDB));
}

/* Of pages, only those that are there. */
static void answer_inquiry(struct slot *s)
{
	static const uint8_t pages[] = { 0x80, 0x83, 0xc0 };
	uint8_t list[8] = { 0 };
	struct scsi_sense sense;
	size_t len = 0;

	list[3] = peer.o.has_store ? 3 : 2;
	memcpy(list + 4, pages, list[3]);
	if (!s->cmd.evpd) {
		respond(s, (uint32_t)scsi_inquiry_encode(disk_info(), s->data,
							 IU_AT));
	} else if (s->cmd.page_code == 0) {
		memcpy(s->data, list, 4u + list[3]);
		respond(s, 4u + list[3]);
	} else if (!memchr(list + 4, s->cmd.page_code, list[3]) ||
		   scsi_vpd_encode(disk_info(), s->cmd.page_code, s->data,
				   IU_AT, &len, &sense)) {
		refuse(s);
	} else {
		respond(s, (uint32_t)len);
	}
}

static void answer_modes(struct slot *s)
{
	struct scsi_sense sense;
	size_t len = 0;

	if (scsi_mode_sense_encode(disk_info(), &s->cmd, s->data, IU_AT, &len,
				   &sense)) {
		refuse(s);
		return;
	}
	s->data[2] = peer.fua ? 0x10 : 0;
	respond(s, (uint32_t)len);
}

static void carry_out(struct slot *s)
{
	static const uint64_t lun;

	switch (s->cmd.op) {
	case SCSI_OP_REPORT_LUNS:
		respond(s, (uint32_t)scsi_report_luns_encode(&lun, 1, s->data,
							     IU_AT));
		return;
	case SCSI_OP_INQUIRY:
		answer_inquiry(s);
		return;
	case SCSI_OP_READ_CAPACITY_16:
		respond(s, (uint32_t)scsi_read_capacity_16_encode(
				   disk_info(), s->data, IU_AT));
		return;
	case SCSI_OP_READ_CAPACITY_10:
		respond(s, (uint32_t)scsi_read_capacity_10_encode(
				   disk_info(), s->data, IU_AT));
		return;
	case SCSI_OP_MODE_SENSE_6:
		answer_modes(s);
		return;
	case SCSI_OP_READ:
		respond(s, PEER_BLOCK);
		return;
	case SCSI_OP_WRITE:
		sim_tell("target: block %u is %llu%s%s",
			 (unsigned int)s->cmd.lba, (unsigned long long)s->stamp,
			 s->cmd.fua ? ", FUA" : "",
			 peer.write_cache ? ", in the cache" : "");
		write_block(&s->cmd, s->stamp);
		respond(s, 0);
		return;
	case SCSI_OP_SYNC_CACHE:
		sim_tell("target: flushed");
		destage();
		respond(s, 0);
		return;
	default:
		refuse(s);
	}
}

/* ---- what it says instead ---- */

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

/* It takes none of these for INQUIRY and REPORT LUNS. */
static bool has_news(struct slot *s)
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

static void answer_mood(struct slot *s)
{
	if (peer.mood == SCSI_STATUS_CHECK_CONDITION) {
		respond_sense(s, scsi_sense(SCSI_KEY_NOT_READY,
					    SCSI_ASC_BECOMING_READY));
		return;
	}
	s->rsp.status = peer.mood;
	respond(s, 0);
}

static void arrived(struct slot *s)
{
	bool free_of_news = s->cmd.op == SCSI_OP_INQUIRY ||
			    s->cmd.op == SCSI_OP_REPORT_LUNS;

	if (peer.deaf) {
		s->busy = false;
		return;
	}
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
	s->taken = true;
}

/* ---- connections ---- */

static void received(struct xp_chan *xp, struct xp_iu *iu)
{
	const struct srp_cmd_rules rules = { .formats = SRP_FORMATS,
					     .imm_offset = SRP_IMM_OFFSET };
	struct peer_chan *ch = xp_chan_user(xp);
	struct srp_cmd_view v;
	struct scsi_sense sense;
	struct srp_head head;
	struct slot *s;

	T_MUST(!srp_head_decode(iu->data, iu->len, &head));
	if (head.opcode == SRP_CMD) {
		T_MUST(!srp_cmd_decode(iu->data, iu->len, &rules, &v));
		s = take_slot(ch);
		T_MUST(!scsi_cdb_decode(v.cdb, v.cdb_len, &s->cmd, &sense));
		s->rsp = (struct srp_rsp){ .tag = v.tag, .req_lim_delta = 1 };
		s->in_len = v.in.len;
		if (v.in.len)
			srp_desc_unpack(v.in.descs, 1, &s->desc);
		if (s->cmd.op == SCSI_OP_WRITE)
			memcpy(&s->stamp, v.out.imm, sizeof(s->stamp));
		arrived(s);
	}
	xp_iu_release(iu);
}

static void established(struct xp_chan *xp, const void *pdata, size_t len)
{
	((struct peer_chan *)xp_chan_user(xp))->open = true;
}

static void closed(struct xp_chan *xp, const struct error *why)
{
	((struct peer_chan *)xp_chan_user(xp))->open = false;
}

static const struct xp_handler handler = {
	.established = established,
	.received = received,
	.closed = closed,
};

static void drop_taken(void)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (peer.slots[i].taken)
			peer.slots[i].taken = peer.slots[i].busy = false;
	}
}

/* What was taken is done before the new nexus may begin, or never. */
static void end_nexus(void)
{
	while (peer_pending() && sim_chance(50))
		peer_step(0);
	drop_taken();
	for (unsigned int i = 0; i < peer.chan_cnt; i++) {
		if (peer.chans[i].open)
			xp_close(peer.chans[i].xp);
	}
	peer.told_power = false;
	peer.deferred += peer.told_deferred;
	peer.told_deferred = 0;
	peer.news[0] =
		peer.lost_power ? SCSI_ASC_POWER_ON : SCSI_ASC_NEXUS_LOSS;
	peer.news_cnt = 1;
	peer.deaf = false;
}

static void requested(struct xp_conn_request *req)
{
	struct srp_login_rsp rsp = {
		.req_lim = REQ_LIM,
		.it_iu_len = 8276,
		.ti_iu_len = 512,
		.formats = SRP_FORMATS,
		.multichan = SRP_MULTICHAN_MAINTAINED,
		.imm_data = true,
	};
	struct srp_login_rej rej = { .reason = SRP_REJ_NO_RESOURCES };
	uint8_t pdata[SRP_LOGIN_RSP_SIZE];
	struct peer_chan *ch = &peer.chans[peer.chan_cnt];
	struct xp_chan_params params = {
		.handler = &handler,
		.user = ch,
		.recv_cnt = REQ_LIM + 4,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
	};
	struct srp_login_req login;
	struct error e;

	T_MUST(!srp_login_req_decode(req->pdata, req->pdata_len, &login));
	if (peer.rejects || peer.chan_cnt == ARRAY_SIZE(peer.chans)) {
		peer.rejects -= peer.rejects > 0;
		srp_login_rej_encode(pdata, sizeof(pdata), &rej);
		xp_reject(req, pdata, SRP_LOGIN_REJ_SIZE);
		return;
	}
	if (login.multichan == SRP_MULTICHAN_SINGLE)
		end_nexus();
	rsp.tag = login.tag;
	srp_login_rsp_encode(pdata, sizeof(pdata), &rsp);
	*ch = (struct peer_chan){ 0 };
	peer.chan_cnt++;
	T_MUST(!xp_accept(peer.xp, req, &params, &ch->xp, &e));
}

/* ---- what happens ---- */

unsigned int peer_pending(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SLOTS; i++)
		n += peer.slots[i].taken;
	return n;
}

void peer_step(unsigned int nth)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (peer.slots[i].taken && nth-- == 0) {
			carry_out(&peer.slots[i]);
			return;
		}
	}
}

static void add_news(uint16_t code)
{
	if (peer.news_cnt < NEWS_MAX)
		peer.news[peer.news_cnt++] = code;
}

static void break_channels(void)
{
	bool all = sim_chance(50);

	sim_tell("-- the connection breaks");
	for (unsigned int i = 0; i < peer.chan_cnt; i++) {
		if (peer.chans[i].open && (all || sim_chance(50)))
			t_fabric_break(peer.chans[i].xp);
	}
}

static void fail_power(void)
{
	sim_tell("-- power fails");
	drop_taken();
	lose_cache();
	peer.deferred = peer.told_deferred = 0;
	peer.lost_power = true;
	/* The saved modes count again. What the client cannot know (volumes.c)
	 * is left out: that it was on for a moment that nobody was told of. */
	if (!peer.selected && sim_chance(30))
		peer.write_cache = false;
	for (unsigned int i = 0; i < peer.chan_cnt; i++) {
		if (peer.chans[i].open)
			t_fabric_break(peer.chans[i].xp);
	}
}

/* The unit alone, and the connection stands. */
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
	if (sim_chance(70))
		peer.write_cache = !peer.write_cache;
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
	/* It need not be believed that a reset spares the cache. */
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
		break_channels();
}

static bool has_flush(void)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (peer.slots[i].taken &&
		    peer.slots[i].cmd.op == SCSI_OP_SYNC_CACHE)
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
		break_channels();
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
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (peer.slots[i].taken && peer.slots[i].stamp)
			peer.sent[peer.sent_cnt++] = peer.slots[i].stamp;
	}
	if (peer.sent_cnt > ARRAY_SIZE(peer.sent))
		abort();
}

bool peer_is_other(void)
{
	return peer.other;
}

/* ---- its life ---- */

void peer_reset(struct t_fabric *hub, const struct peer_options *o)
{
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = 8276,
				 .recv_aligned_at = SRP_IMM_OFFSET };
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(5555) };
	struct error e;

	memset(&peer, 0, sizeof(peer));
	peer.o = *o;
	peer.write_cache = o->write_cache;
	peer.fua = o->fua;
	peer.blocks = PEER_BLOCKS;
	peer.generation = 1;
	T_MUST(!reactor_create(&ropt, &peer.reactor));
	cfg.reactor = peer.reactor;
	T_MUST(!t_xp_create(hub, &cfg, &peer.xp));
	for (int i = 0; i < ADDRESSES; i++) {
		inet_pton(AF_INET, addresses[i], &sin.sin_addr);
		T_MUST(!xp_listen(peer.xp, (struct sockaddr *)&sin, sizeof(sin),
				  requested, NULL, &peer.listeners[i], &e));
	}
	peer.mem = aligned_alloc(4096, SLOTS * SLOT_LEN);
	memset(peer.mem, 0, SLOTS * SLOT_LEN);
	T_MUST(!xp_mr_register(peer.xp, peer.mem, SLOTS * SLOT_LEN, XP_LOCAL,
			       &peer.mr, &e));
}

void peer_end(void)
{
	for (unsigned int i = 0; i < peer.chan_cnt; i++)
		xp_chan_free(peer.chans[i].xp);
	for (int i = 0; i < ADDRESSES; i++)
		xp_unlisten(peer.listeners[i]);
	xp_mr_free(peer.mr);
	xp_destroy(peer.xp);
	reactor_destroy(peer.reactor);
	free(peer.mem);
}
