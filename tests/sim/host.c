/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_sense.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim.h"
#include "tests/sim/target.h"

#define CMDS_MAX    256
#define CMD_MEM	    8192
#define DESCS_MAX   24
#define CHANS_MAX   64
#define TMFS_MAX    64
#define CMD_BLOCKS  4 /* at most, of one command */
#define TABLE_AT    7168
#define UNTOUCHED   0xaa
#define RESERVE_KEY 0x5151

enum kind {
	READ,
	WRITE,
	COMPARE_WRITE,
	SYNC_CACHE,
	TEST_READY,
	REGISTER,
	RESERVE,
	RELEASE,
	TASK_MGMT,
};

static const char *const kind_names[] = {
	"READ",
	"WRITE",
	"COMPARE AND WRITE",
	"SYNCHRONIZE CACHE",
	"TEST UNIT READY",
	"REGISTER",
	"RESERVE",
	"RELEASE",
	"task management",
};

enum chan_state {
	UNUSED,
	CONNECTING,
	OPEN,
	CLOSING, /* by us, or lost; what comes is not looked at */
};

struct chan {
	enum chan_state state;
	struct host *host;
	struct xp_chan *xp;
	bool single;
	bool excused; /* the target may close or refuse it */
	unsigned int number;
	int32_t granted;
	int32_t limit;
	uint64_t next_tag;
};

/* What one function covers of other hosts, and when. */
struct tmf {
	struct host *host;
	unsigned int lun;
	uint64_t start;
	uint64_t end; /* NEVER: not answered */
};

struct cmd {
	bool used;
	bool maybe_ended; /* by a function on another channel: no answer is due */
	struct chan *ch;
	enum kind kind;
	uint64_t tag;
	uint64_t order; /* when it was sent */
	uint64_t start;
	uint8_t lun;
	uint8_t lba;
	uint8_t blocks;
	uint8_t attr;
	bool fua;
	bool immed; /* answered before it is done */
	bool bad_table;
	uint32_t stamps[CMD_BLOCKS];
	uint32_t expected[CMD_BLOCKS];
	unsigned int changes[CMD_BLOCKS];
	uint32_t out_len; /* described */
	uint32_t in_len;
	uint32_t want; /* bytes that the CDB is about */
	struct xp_mr *mrs[DESCS_MAX + 1];
	unsigned int mr_cnt;
	/* TASK_MGMT */
	uint8_t function;
	uint64_t task_tag;
	struct tmf *tmf;
};

/* What a host may and must be told on a LUN. */
struct attention {
	unsigned int logins; /* so often it may be told of one ... */
	unsigned int resets;
	uint64_t login_since; /* ... and it must be; 0: need not */
	uint64_t reset_since;
	/* Last told of something, or of a new nexus, or a channel was lost. */
	uint64_t told;
};

struct host {
	unsigned int number;
	unsigned int open_cnt;
	bool connecting;
	struct attention ua[BLOCKS_LUNS];
	/* Writes that may still happen. */
	uint32_t unsettled[STAMPS_MAX];
	unsigned int unsettled_cnt;
};

static struct host hosts[HOSTS];
static struct chan chans[CHANS_MAX];
static struct cmd cmds[CMDS_MAX];
static struct tmf tmfs[TMFS_MAX];
static unsigned int tmf_cnt;
static unsigned int chan_cnt;
static unsigned int cmd_cnt;
static _Alignas(4096) uint8_t memory[CMDS_MAX][CMD_MEM];
static bool has_cache[BLOCKS_LUNS];
static bool is_memory[BLOCKS_LUNS];

/* Who holds the reservation: host 0 or nobody; it alone asks for one. */
static struct {
	bool registered;
	bool busy;	      /* a change is under way */
	uint64_t since;	      /* certainly held; 0: not */
	uint64_t maybe_since; /* held at times from here ... */
	uint64_t maybe_until; /* ... to here; NEVER */
} reservation[BLOCKS_LUNS];

static struct t_fabric *fabric;
static struct reactor *reactor;
static struct xp *xp;

static uint8_t *mem_of(const struct cmd *c)
{
	return memory[c - cmds];
}

/* ---- life ---- */

static void must(int err)
{
	if (err)
		abort();
}

void hosts_reset(struct t_fabric *hub, const bool *cache, const bool *mem)
{
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = CHANNEL_TI_IU_LEN };

	fabric = hub;
	memset(chans, 0, sizeof(chans));
	for (unsigned int i = 0; i < CMDS_MAX; i++)
		cmds[i].used = false;
	memset(reservation, 0, sizeof(reservation));
	tmf_cnt = 0;
	chan_cnt = 0;
	cmd_cnt = 0;
	for (unsigned int i = 0; i < HOSTS; i++) {
		hosts[i].number = i;
		hosts[i].open_cnt = 0;
		hosts[i].connecting = false;
		hosts[i].unsettled_cnt = 0;
		memset(hosts[i].ua, 0, sizeof(hosts[i].ua));
	}
	memcpy(has_cache, cache, sizeof(has_cache));
	memcpy(is_memory, mem, sizeof(is_memory));
	must(reactor_create(&ropt, &reactor));
	cfg.reactor = reactor;
	must(t_xp_create(hub, &cfg, &xp));
}

void hosts_end(void)
{
	xp_destroy(xp);
	reactor_destroy(reactor);
}

unsigned int hosts_commands(void)
{
	return cmd_cnt;
}

/* ---- commands that are over ---- */

static void take_memory_back(struct cmd *c)
{
	while (c->mr_cnt)
		xp_mr_free(c->mrs[--c->mr_cnt]);
}

static void cmd_free(struct cmd *c)
{
	take_memory_back(c);
	c->used = false;
}

/* It can no longer do anything. */
static void cmd_over(struct cmd *c)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < c->blocks; i++) {
		if (c->stamps[i])
			stamp_over(c->stamps[i], t);
	}
	cmd_free(c);
}

static void forget_reservation(const struct cmd *c)
{
	if (c->kind >= REGISTER && c->kind <= RELEASE)
		reservation[c->lun].busy = false;
}

/* Channels have no order to each other: what was sent on another one later may
 * have arrived sooner. */
static bool is_covered(const struct cmd *c, const struct cmd *tmf)
{
	if (!c->used || c->kind == TASK_MGMT || c->ch->host != tmf->ch->host)
		return false;
	if (c->ch == tmf->ch && c->order > tmf->order)
		return false;
	if (tmf->function == SRP_TSK_ABORT_TASK)
		return c->ch == tmf->ch && c->tag == tmf->task_tag;
	return c->lun == tmf->lun;
}

/* No answer will come, but it may still happen. */
static void cmd_lost(struct cmd *c)
{
	forget_reservation(c);
	cmd_free(c);
}

static void lose_commands(const struct chan *ch)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (cmds[i].used && cmds[i].ch == ch)
			cmd_lost(&cmds[i]);
	}
}

static void settle_host(struct host *h, uint64_t t)
{
	while (h->unsettled_cnt)
		stamp_over(h->unsettled[--h->unsettled_cnt], t);
}

void hosts_look(void)
{
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		for (unsigned int lba = 0; lba < BLOCKS_CNT; lba++) {
			uint64_t t = blocks_now();

			blocks_seen(lun, lba, disk_peek(lun, lba), t, t);
		}
	}
}

void hosts_all_over(void)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < HOSTS; i++)
		settle_host(&hosts[i], t);
}

/* ---- channels ---- */

static void close_chan(struct chan *ch);

/* Does a function run on @ch that covers commands of other channels? */
static bool covers_others(const struct chan *ch)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *c = &cmds[i];

		if (c->used && c->ch == ch && c->kind == TASK_MGMT &&
		    c->function != SRP_TSK_ABORT_TASK)
			return true;
	}
	return false;
}

static void close_all(const struct host *h)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (chans[i].host == h)
			close_chan(&chans[i]);
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
	lose_commands(ch);
	/* What had to be told may have been, on the way that is lost. */
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		ch->host->ua[lun].login_since = 0;
		ch->host->ua[lun].reset_since = 0;
		ch->host->ua[lun].told = blocks_now();
	}
	if (all)
		close_all(ch->host);
}

static void close_chan(struct chan *ch)
{
	if (ch->state == UNUSED)
		return;
	if (ch->state != CLOSING)
		chan_over(ch);
	xp_close(ch->xp);
}

/*
 * A SINGLE login is through: nothing of the nexus' older channels can reach
 * the medium or the host's memory any more.
 */
static void fence(struct chan *ch)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (&chans[i] != ch && chans[i].host == ch->host)
			close_chan(&chans[i]);
	}
	settle_host(ch->host, blocks_now());
	hosts_look();
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		ch->host->ua[lun].login_since = blocks_now();
		ch->host->ua[lun].told = blocks_now();
	}
}

static void on_established(struct xp_chan *x, const void *pdata, size_t len)
{
	struct chan *ch = xp_chan_user(x);
	struct srp_login_rsp rsp;

	if (ch->state != CONNECTING)
		return;
	sim_tell("host %u: channel %u is open", ch->host->number, ch->number);
	if (srp_login_rsp_decode(pdata, len, &rsp)) {
		sim_wrong("a login was answered with something else");
		return;
	}
	ch->host->connecting = false;
	ch->host->open_cnt++;
	ch->state = OPEN;
	ch->granted = rsp.req_lim;
	ch->limit = rsp.req_lim;
	if (ch->single)
		fence(ch);
}

static void on_closing(struct xp_chan *x)
{
	struct chan *ch = xp_chan_user(x);

	if (ch->state == CLOSING)
		return;
	sim_tell("host %u: channel %u is lost", ch->host->number, ch->number);
	if (!ch->excused)
		sim_wrong("the target ended channel %u of host %u for no "
			  "reason",
			  ch->number, ch->host->number);
	chan_over(ch);
}

static void on_closed(struct xp_chan *x, const struct xp_error *why)
{
	struct chan *ch = xp_chan_user(x);

	xp_chan_free(x);
	ch->state = UNUSED;
	ch->xp = NULL;
}

static void on_received(struct xp_chan *x, struct xp_iu *iu);

static const struct xp_handler handler = {
	.established = on_established,
	.received = on_received,
	.closing = on_closing,
	.closed = on_closed,
};

static struct chan *free_chan(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (chans[i].state == UNUSED)
			return &chans[i];
	}
	return NULL;
}

/* A SINGLE login ends what the host has. */
static void login(struct host *h, bool single)
{
	struct srp_login_req req = {
		.tag = 0x10911,
		.it_iu_len = CHANNEL_IT_IU_LEN,
		.formats = SRP_FORMATS,
		.multichan =
			single ? SRP_MULTICHAN_SINGLE : SRP_MULTICHAN_MULTI,
		.imm_data = true,
		.imm_offset = SRP_IMM_OFFSET,
		.initiator = srp_port_id_make(0xabc, h->number + 1),
		.target = target_id,
	};
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	struct chan *ch = free_chan();
	struct xp_chan_params params = {
		.handler = &handler,
		.user = ch,
		.recv_cnt = CHANNEL_REQ_LIM + 2,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
	};
	struct xp_error e;

	if (!ch || h->connecting)
		return;
	*ch = (struct chan){ .state = CONNECTING,
			     .host = h,
			     .single = single,
			     .number = ++chan_cnt,
			     .next_tag = 0x1000 };
	sim_tell("host %u: %s login, channel %u", h->number,
		 single ? "SINGLE" : "MULTI", ch->number);
	h->connecting = true;
	for (unsigned int i = 0; single && i < CHANS_MAX; i++) {
		if (&chans[i] != ch && chans[i].host == h)
			chans[i].excused = true;
	}
	for (unsigned int lun = 0; single && lun < BLOCKS_LUNS; lun++) {
		h->ua[lun].logins += 2;
		h->ua[lun].reset_since = 0;
	}
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	must(xp_connect(xp, (const struct sockaddr *)&target_addr,
			sizeof(target_addr), &params, &ch->xp, &e));
}

static void break_chan(struct chan *ch)
{
	sim_tell("host %u: the connection of channel %u breaks",
		 ch->host->number, ch->number);
	ch->excused = true;
	t_fabric_break(ch->xp);
}

void hosts_excuse(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		chans[i].excused = true;
}

void hosts_target_killed(void)
{
	hosts_excuse();
	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		if (chans[i].state != UNUSED) {
			t_fabric_break(chans[i].xp);
			close_chan(&chans[i]);
		}
	}
	hosts_all_over();
}

void hosts_target_gone(void)
{
	memset(reservation, 0, sizeof(reservation));
}

void hosts_leave(void)
{
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		close_chan(&chans[i]);
}

/* ---- sending ---- */

struct sent {
	struct xp_chain chain;
	uint8_t iu[CHANNEL_IT_IU_LEN];
};

static void send_done(struct xp_chain *chain, int status)
{
	free(container_of(chain, struct sent, chain));
}

static void post(struct chan *ch, struct sent *sent, int len)
{
	assert(len > 0);
	sent->chain = (struct xp_chain){
		.send = { { .addr = sent->iu, .len = (uint32_t)len } },
		.send_cnt = 1,
		.done = send_done,
	};
	xp_post(ch->xp, &sent->chain);
}

static struct sent *new_sent(void)
{
	struct sent *sent = malloc(sizeof(*sent));

	if (!sent)
		abort();
	return sent;
}

static void answer_target(struct chan *ch, enum srp_opcode opcode, uint64_t tag)
{
	struct sent *sent = new_sent();

	post(ch, sent, srp_bare_encode(sent->iu, 64, opcode, tag));
}

/* ---- making commands ---- */

static struct cmd *new_cmd(struct chan *ch, enum kind kind)
{
	struct cmd *c = NULL;

	if (kind == TASK_MGMT ? ch->limit < 1 : ch->limit < 2)
		return NULL;
	for (unsigned int i = 0; i < CMDS_MAX && !c; i++) {
		if (!cmds[i].used)
			c = &cmds[i];
	}
	if (!c)
		return NULL;
	*c = (struct cmd){
		.used = true,
		.ch = ch,
		.kind = kind,
		.tag = ch->next_tag++,
		.lun = (uint8_t)sim_random(BLOCKS_LUNS),
		.lba = (uint8_t)sim_random(BLOCKS_CNT),
	};
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
		h->unsettled[h->unsettled_cnt++] = c->stamps[i];
	}
	return true;
}

/* Pieces of the command's memory, each under a key of its own. */
static unsigned int make_descs(struct cmd *c, uint32_t len,
			       struct srp_desc *descs)
{
	uint32_t unit = is_memory[c->lun] ? BLOCK_BYTES : 64;
	unsigned int cnt = 0;
	uint32_t at = 0;
	struct xp_error e;

	while (at < len) {
		uint32_t piece = unit * (1 + sim_random(len / unit + 1));
		struct srp_desc *d = &descs[cnt];

		if (piece > len - at || cnt == DESCS_MAX - 1)
			piece = len - at;
		must(xp_mr_register(xp, mem_of(c) + at, piece, XP_REMOTE,
				    &c->mrs[c->mr_cnt], &e));
		xp_mr_remote(c->mrs[c->mr_cnt++], c->ch->xp, mem_of(c) + at,
			     &d->addr, &d->key);
		d->len = piece;
		at += piece;
		cnt++;
	}
	return cnt;
}

static void make_table(struct cmd *c, const struct srp_desc *descs,
		       struct srp_data_args *args)
{
	uint8_t *table = mem_of(c) + TABLE_AT;
	struct xp_error e;

	srp_desc_pack(descs, args->desc_cnt, table);
	must(xp_mr_register(xp, table, args->desc_cnt * SRP_DESC_SIZE,
			    XP_REMOTE, &c->mrs[c->mr_cnt], &e));
	xp_mr_remote(c->mrs[c->mr_cnt++], c->ch->xp, table, &args->table_addr,
		     &args->table_key);
}

/* Only the first descriptors stay in the IU; the target fetches the rest.
 * @cnt_at: where they are counted. */
static int make_partial(struct cmd *c, uint8_t *iu, int len, unsigned int cnt,
			unsigned int cnt_at)
{
	unsigned int keep = sim_random(cnt);
	uint8_t *table = mem_of(c) + TABLE_AT;

	iu[cnt_at] = (uint8_t)keep;
	if (sim_chance(4)) {
		/* Its lengths no longer add up. */
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
	struct sent *sent = new_sent();
	int iu_len;

	srp_lun_encode(c->lun, &args.lun);
	if (c->out_len && !is_memory[c->lun] && sim_chance(30)) {
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
	iu_len = srp_cmd_encode(sent->iu, sizeof(sent->iu), &args);
	assert(iu_len > 0);
	if (data.format == SRP_DATA_IMMEDIATE) {
		memcpy(sent->iu + iu_len, mem_of(c), len);
		iu_len += (int)len;
	} else if (data.format == SRP_DATA_INDIRECT && sim_chance(30)) {
		iu_len = make_partial(c, sent->iu, iu_len, data.desc_cnt,
				      c->out_len ? 6 : 7);
	}
	c->ch->limit--;
	cmd_cnt++;
	sim_tell("host %u: channel %u tag %llx: %s LUN %u block %u+%u%s%s%s, "
		 "stamp %u, %u bytes at time %llu",
		 c->ch->host->number, c->ch->number, (unsigned long long)c->tag,
		 kind_names[c->kind], c->lun, c->lba, c->blocks,
		 c->fua ? " FUA" : "", c->attr ? " ORDERED" : "",
		 c->bad_table ? " (bad table)" : "", c->stamps[0], len,
		 (unsigned long long)c->start);
	post(c->ch, sent, iu_len);
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

static void do_read(struct chan *ch)
{
	struct cmd *c = new_cmd(ch, READ);
	uint8_t cdb[16] = { 0 };

	if (!c)
		return;
	choose_blocks(c);
	choose_attr(c);
	c->fua = sim_chance(10);
	c->in_len = other_len(c->want);
	memset(mem_of(c), UNTOUCHED, c->in_len);
	fill_cdb(c, cdb, 0x28);
	send_command(c, cdb);
}

static void do_write(struct chan *ch)
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
	memset(mem_of(c), UNTOUCHED, c->want + BLOCK_BYTES);
	for (unsigned int i = 0; i < c->blocks; i++)
		stamp_fill(c->stamps[i], mem_of(c) + i * BLOCK_BYTES);
	fill_cdb(c, cdb, 0x2a);
	send_command(c, cdb);
}

/* Compares with what is there, or was a moment ago. */
static void do_compare_write(struct chan *ch)
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
		stamp_fill(c->expected[i], mem_of(c) + i * BLOCK_BYTES);
		stamp_fill(c->stamps[i], mem_of(c) + c->want + i * BLOCK_BYTES);
	}
	cdb[1] = c->fua ? 0x08 : 0;
	wire_put64(cdb + 2, c->lba);
	cdb[13] = c->blocks;
	send_command(c, cdb);
}

static void do_simple(struct chan *ch, enum kind kind, uint8_t opcode)
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
static void do_reserve(struct chan *ch)
{
	unsigned int lun = sim_random(BLOCKS_LUNS);
	enum kind kind = !reservation[lun].registered ? REGISTER
			 : !reservation[lun].maybe_since ||
					 reservation[lun].maybe_until != NEVER
				 ? RESERVE
				 : RELEASE;
	uint8_t cdb[16] = { 0x5f };
	struct cmd *c;

	if (ch->host->number != 0 || reservation[lun].busy)
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
	memset(mem_of(c), 0, 24);
	wire_put64(mem_of(c) + (kind == REGISTER ? 8 : 0), RESERVE_KEY);
	reservation[lun].busy = true;
	if (kind == RESERVE) {
		reservation[lun].maybe_since = c->start;
		reservation[lun].maybe_until = NEVER;
	}
	if (kind == RELEASE)
		reservation[lun].since = 0;
	send_command(c, cdb);
}

/* ---- task management ---- */

static struct cmd *some_cmd(const struct chan *ch)
{
	unsigned int first = sim_random(CMDS_MAX);

	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		struct cmd *c = &cmds[(first + i) % CMDS_MAX];

		if (c->used && c->ch == ch && c->kind != TASK_MGMT)
			return c;
	}
	return NULL;
}

static struct tmf *note_tmf(const struct cmd *c)
{
	struct tmf *t = &tmfs[tmf_cnt++];

	*t = (struct tmf){ .host = c->ch->host,
			   .lun = c->lun,
			   .start = c->start,
			   .end = NEVER };
	return t;
}

static void do_tmf(struct chan *ch)
{
	static const uint8_t functions[] = {
		SRP_TSK_ABORT_TASK, SRP_TSK_ABORT_TASK, SRP_TSK_ABORT_TASK_SET,
		SRP_TSK_CLEAR_TASK_SET, SRP_TSK_LUN_RESET
	};
	uint8_t function = functions[sim_random(ARRAY_SIZE(functions))];
	const struct cmd *victim = some_cmd(ch);
	struct cmd *c = NULL;
	struct srp_tsk_mgmt t;
	struct sent *sent;

	if (tmf_cnt < TMFS_MAX)
		c = new_cmd(ch, TASK_MGMT);
	if (!c)
		return;
	if (victim)
		c->lun = victim->lun;
	c->function = function;
	c->task_tag = victim ? victim->tag : 0x77;
	if (function == SRP_TSK_LUN_RESET || function == SRP_TSK_CLEAR_TASK_SET)
		c->tmf = note_tmf(c);
	for (unsigned int i = 0; function == SRP_TSK_LUN_RESET && i < HOSTS;
	     i++)
		hosts[i].ua[c->lun].resets++;
	t = (struct srp_tsk_mgmt){ .tag = c->tag,
				   .function = function,
				   .task_tag = c->task_tag };
	srp_lun_encode(c->lun, &t.lun);
	sent = new_sent();
	ch->limit--;
	cmd_cnt++;
	sim_tell("host %u: channel %u tag %llx: %s of LUN %u, task %llx at "
		 "time %llu",
		 ch->host->number, ch->number, (unsigned long long)c->tag,
		 srp_tsk_mgmt_name(function), c->lun,
		 (unsigned long long)c->task_tag, (unsigned long long)c->start);
	post(ch, sent, srp_tsk_mgmt_encode(sent->iu, 64, &t));
}

/* What had been sent on this channel before is over; on others it may not have
 * arrived by then. */
static void tmf_answered(struct cmd *tmf, const struct srp_rsp *rsp)
{
	if (!rsp->rsp_valid || rsp->rsp_code != SRP_RSP_COMPLETE) {
		sim_wrong("task management was answered with code %u",
			  rsp->rsp_code);
		return;
	}
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		struct cmd *c = &cmds[i];

		if (!is_covered(c, tmf))
			continue;
		if (c->ch == tmf->ch) {
			forget_reservation(c);
			cmd_over(c);
		} else {
			c->maybe_ended = true;
		}
	}
	if (tmf->tmf)
		tmf->tmf->end = blocks_now();
	for (unsigned int i = 0;
	     tmf->function == SRP_TSK_LUN_RESET && i < HOSTS; i++) {
		struct attention *ua = &hosts[i].ua[tmf->lun];

		if (hosts[i].open_cnt && !hosts[i].connecting &&
		    ua->told < tmf->start)
			ua->reset_since = blocks_now();
	}
	hosts_look();
}

/* ---- answers ---- */

static struct cmd *find_cmd(const struct chan *ch, uint64_t tag)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (cmds[i].used && cmds[i].ch == ch && cmds[i].tag == tag)
			return &cmds[i];
	}
	return NULL;
}

/* Does some function of the host run that may end commands quietly? */
static bool manages(const struct host *h)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (cmds[i].used && cmds[i].kind == TASK_MGMT &&
		    cmds[i].ch->host == h)
			return true;
	}
	return false;
}

/* An ORDERED command is not overtaken, nor does it overtake. */
static void check_order(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		const struct cmd *o = &cmds[i];

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
		const struct cmd *o = &cmds[i];

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
	uint32_t stamp = stamp_parse(mem_of(c) + i * BLOCK_BYTES);
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

static void read_is_good(const struct cmd *c, uint64_t t)
{
	uint32_t got = c->want < c->in_len ? c->want : c->in_len;

	for (unsigned int i = 0; i < got / BLOCK_BYTES; i++)
		saw_block(c, i, t);
	for (uint32_t at = got; at < c->in_len; at++) {
		if (mem_of(c)[at] != UNTOUCHED) {
			sim_wrong("tag %llx: more was sent than the residual "
				  "says",
				  (unsigned long long)c->tag);
			return;
		}
	}
}

static void write_is_good(const struct cmd *c, uint64_t t)
{
	const uint8_t *out = mem_of(c);

	if (c->kind == COMPARE_WRITE)
		out += c->want;
	if (c->out_len < c->want)
		sim_wrong("tag %llx was done with too little data",
			  (unsigned long long)c->tag);
	for (unsigned int i = 0; i < c->blocks; i++) {
		struct stamp *st = &stamps[c->stamps[i]];

		st->acked = true;
		st->end = t;
		st->durable = c->fua || !has_cache[c->lun];
		if (st->disk_failed)
			sim_wrong("tag %llx is good, but the disk failed",
				  (unsigned long long)c->tag);
		if (stamp_parse(out + i * BLOCK_BYTES) != c->stamps[i])
			sim_wrong("data-out of tag %llx was written to",
				  (unsigned long long)c->tag);
	}
	if (c->ch->host->number != 0 && reservation[c->lun].since &&
	    reservation[c->lun].since < c->start)
		sim_wrong("host %u wrote to LUN %u, which is reserved",
			  c->ch->host->number, c->lun);
}

static void reservation_is_good(const struct cmd *c, uint64_t t)
{
	if (c->kind == REGISTER)
		reservation[c->lun].registered = true;
	if (c->kind == RESERVE)
		reservation[c->lun].since = t;
	if (c->kind == RELEASE)
		reservation[c->lun].maybe_until = t;
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
	else if (c->kind == WRITE || c->kind == COMPARE_WRITE)
		write_is_good(c, t);
	else if (c->kind == SYNC_CACHE && !c->immed)
		blocks_flushed(c->lun, c->start);
	else
		reservation_is_good(c, t);
}

/* ---- answers that are not good ---- */

/* Of another host's function; the command was over when that was answered. */
static void task_aborted(const struct cmd *c)
{
	uint64_t t = blocks_now();
	uint64_t over = 0;

	for (unsigned int i = 0; i < tmf_cnt; i++) {
		const struct tmf *m = &tmfs[i];

		if (m->host != c->ch->host && m->lun == c->lun &&
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
	if (c->ch->host->number == 0 || !reservation[c->lun].maybe_since ||
	    reservation[c->lun].maybe_until < c->start)
		sim_wrong("tag %llx: conflict with no reservation",
			  (unsigned long long)c->tag);
}

/* Nothing may have changed since, or it cannot say that it had. */
static void miscompare(const struct cmd *c)
{
	for (unsigned int i = 0; i < c->blocks; i++) {
		if (is_memory[c->lun] ||
		    disk_changes(c->lun, c->lba + i) != c->changes[i])
			return;
	}
	sim_wrong("tag %llx did not find what was there",
		  (unsigned long long)c->tag);
}

/* It says that it was not done: then it was not, and will not be. */
static void not_done(const struct cmd *c)
{
	uint64_t t = blocks_now();

	for (unsigned int i = 0; i < c->blocks; i++) {
		if (c->stamps[i])
			stamp_over(c->stamps[i], t);
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
	if (sense.key == SCSI_KEY_MISCOMPARE && c->kind == COMPARE_WRITE)
		miscompare(c);
	else if (sense.key != SCSI_KEY_ILLEGAL_REQUEST ||
		 (c->out_len >= c->want && !c->bad_table))
		sim_wrong("tag %llx: sense key %x, %04x for no reason",
			  (unsigned long long)c->tag, sense.key, sense.code);
}

static void judge(struct cmd *c, const struct srp_rsp *rsp)
{
	if (rsp->status != SCSI_STATUS_TASK_ABORTED)
		check_order(c);
	switch (rsp->status) {
	case SCSI_STATUS_GOOD:
		check_no_attention_is_lost(c);
		is_good(c, rsp);
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
	default:
		sim_wrong("tag %llx: status %02x", (unsigned long long)c->tag,
			  rsp->status);
	}
}

/* ---- credits ---- */

/* It may have ended already, without an answer. */
static bool is_managed(const struct cmd *c)
{
	for (unsigned int i = 0; i < CMDS_MAX; i++) {
		if (cmds[i].used && cmds[i].kind == TASK_MGMT &&
		    is_covered(c, &cmds[i]))
			return true;
	}
	return c->maybe_ended;
}

static void add_credits(struct chan *ch, int32_t delta)
{
	int32_t under_way = 0;

	for (unsigned int i = 0; i < CMDS_MAX; i++)
		under_way += cmds[i].used && cmds[i].ch == ch &&
			     !is_managed(&cmds[i]);
	ch->limit += delta;
	if (t_fabric_receives(ch->xp) < ch->limit)
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
	c = find_cmd(ch, rsp.tag);
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
		judge(c, &rsp);
	forget_reservation(c);
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

static void on_received(struct xp_chan *x, struct xp_iu *iu)
{
	struct chan *ch = xp_chan_user(x);
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
	xp_iu_release(iu);
}

/* ---- nothing happens any more ---- */

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
		struct cmd *c = &cmds[i];

		if (!c->used)
			continue;
		if (!c->maybe_ended)
			sim_wrong("tag %llx of channel %u (%s) is never "
				  "answered",
				  (unsigned long long)c->tag, c->ch->number,
				  kind_names[c->kind]);
		cmd_lost(c);
	}
	for (unsigned int i = 0; i < CHANS_MAX; i++)
		check_chan_is_quiet(&chans[i]);
	if (t_fabric_refused(fabric))
		sim_wrong("the target used memory that it was not given");
	if (t_fabric_rnr(fabric))
		sim_wrong("a receive was missing");
	hosts_all_over();
	hosts_look();
}

/* ---- what hosts do ---- */

static struct chan *some_chan(const struct host *h)
{
	unsigned int first = sim_random(CHANS_MAX);

	for (unsigned int i = 0; i < CHANS_MAX; i++) {
		struct chan *ch = &chans[(first + i) % CHANS_MAX];

		if (ch->state == OPEN && ch->host == h)
			return ch;
	}
	return NULL;
}

void hosts_connect(void)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		if (!hosts[i].open_cnt && !hosts[i].connecting)
			login(&hosts[i], true);
	}
}

static void change_channels(struct host *h, struct chan *ch)
{
	switch (sim_random(6)) {
	case 0:
		break_chan(ch);
		return;
	case 1:
		sim_tell("host %u: closes channel %u", h->number, ch->number);
		close_chan(ch);
		return;
	case 2:
	case 3:
		login(h, true);
		return;
	default:
		if (h->open_cnt < HOST_CHANS)
			login(h, false);
	}
}

static void act_on(struct host *h, struct chan *ch, bool steady)
{
	unsigned int what = sim_random(steady ? 85 : 100);

	if (what < 36)
		do_write(ch);
	else if (what < 60)
		do_read(ch);
	else if (what < 70)
		do_compare_write(ch);
	else if (what < 76)
		do_simple(ch, SYNC_CACHE, 0x35);
	else if (what < 80)
		do_simple(ch, TEST_READY, 0x00);
	else if (what < 85)
		do_reserve(ch);
	else if (what < 93)
		do_tmf(ch);
	else
		change_channels(h, ch);
}

void hosts_act(bool steady)
{
	struct host *h = &hosts[sim_random(HOSTS)];
	struct chan *ch = some_chan(h);

	if (ch)
		act_on(h, ch, steady);
	else if (!h->connecting)
		login(h, true);
	else
		hosts_connect();
}
