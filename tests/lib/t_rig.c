/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_rig.h"

#include <stdlib.h>
#include <string.h>

#include "target/port/port_change.h"

struct rig_chan {
	struct t_ini ini;
	struct list node; /* rig.chans */
};

/* ---- the store of RIG_DISK ---- */

static void reset_store(bool is_thin)
{
	t_store_reset(&(struct backend_info){
		.size = RIG_SIZE,
		.min_block = RIG_BLOCK,
		.durability = RBP_STABLE_AFTER_FLUSH,
		.read_cache = true,
		.zero = is_thin,
		.unmap_granularity = is_thin ? 4096 : 0,
		.unmap_zeroes = is_thin,
	});
}

unsigned int rig_release(struct rig *rig)
{
	unsigned int cnt = t_store.held_cnt;

	/* Requests that are caused by these may be held again. */
	for (unsigned int i = 0; i < cnt; i++)
		t_store_answer();
	rig_settle(rig);
	return cnt;
}

/* ---- the target ---- */

static void open_volume(struct rig *rig, const struct backend_type *store,
			const char *path, const struct rig_options *opt)
{
	const char *allow = opt->allow_lun[rig->target.luns.cnt];
	struct volume_spec spec = { .type = store,
				    .block_size = RIG_BLOCK,
				    .removable = opt->removable,
				    .direct = -1 };
	struct error e;

	strcpy(spec.path, path);
	if (allow)
		assert_true(access_rules_add(&spec.allow, allow, &e));
	t_port_attach_volume(&rig->target,
			     t_port_open_volume(&rig->target, &spec));
}

static void open_peer(struct rig *rig)
{
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = CHANNEL_TI_IU_LEN };
	struct error e;

	assert_int_equal(reactor_create(&ropt, &rig->peer_reactor), 0);
	cfg.reactor = rig->peer_reactor;
	assert_int_equal(t_xp_create(rig->hub, &cfg, &rig->peer_xp), 0);
	rig->mem = aligned_alloc(4096, RIG_MEM);
	memset(rig->mem, 0, RIG_MEM);
	assert_int_equal(xp_mr_register(rig->peer_xp, rig->mem, RIG_MEM,
					XP_REMOTE, &rig->mem_mr, &e),
			 0);
}

static struct key_file parse_keys(const char *text)
{
	struct key_file keys;
	struct error e;

	assert_int_equal(key_file_parse(text, strlen(text), "k", &keys, &e), 0);
	return keys;
}

void rig_take_keys(struct rig *rig, const char *text)
{
	struct key_file keys = parse_keys(text);

	port_keys_changed(&rig->target.port, &keys);
	key_file_free(&keys);
	rig_settle(rig);
}

struct rig *rig_create(const struct rig_options *opt)
{
	static const struct rig_options defaults;
	struct rig *rig = calloc(1, sizeof(*rig));
	struct error e;

	assert_non_null(rig);
	list_init(&rig->chans);
	if (!opt)
		opt = &defaults;
	reset_store(opt->thin);
	if (opt->shared) {
		t_store.paths = (struct backend_paths){ 2, 1, 1 };
		t_store.epoch = 1;
	}
	log_level = LOG_ERROR;
	rig->hub = t_fabric_create();
	for (unsigned int i = 0; i < (opt->workers ? opt->workers : 1); i++)
		t_port_add_worker(&rig->target, rig->hub,
				  opt->arena_len ? opt->arena_len : 4u << 20);
	open_volume(rig, &t_store_type, "disk", opt);
	open_volume(rig, &backend_ram, "8M", opt);
	if (opt->allow)
		assert_true(access_rules_add(&rig->target.port.allow,
					     opt->allow, &e));
	if (opt->keys) {
		rig->keys = parse_keys(opt->keys);
		rig->target.port.keys = &rig->keys;
	}
	rig->target.port.limits = opt->limits;
	t_port_start(&rig->target, rig->target.worker_cnt);
	open_peer(rig);
	return rig;
}

/* The kernel writes a journal. */
static bool journal_is_busy(const struct rig *rig)
{
	bool busy = false;

	for (unsigned int i = 0; i < rig->target.luns.cnt; i++)
		busy |= rig->target.luns.vol[i]->journal.step !=
			DISK_JOURNAL_RESTS;
	return busy;
}

static bool turn(struct rig *rig)
{
	bool busy = reactor_run_once(rig->peer_reactor, 0) > 0 ||
		    journal_is_busy(rig);

	return t_port_turn(&rig->target) || busy;
}

void rig_settle(struct rig *rig)
{
	unsigned int idle = 0;

	/* A message wakes another reactor only in its next turn. */
	while (idle < 4)
		idle = turn(rig) ? 0 : idle + 1;
}

void rig_destroy(struct rig *rig)
{
	while (!list_empty(&rig->chans))
		rig_chan_free(
			&container_of(rig->chans.next, struct rig_chan, node)
				 ->ini);
	t_fabric_hold_completions(rig->hub, false);
	t_fabric_let_go(rig->hub, UINT32_MAX);
	t_store.hold = false;
	rig_release(rig);
	if (!rig->target.port.stopping)
		port_stop(&rig->target.port);
	rig_settle(rig);
	assert_true(rig->target.stopped);
	if (t_port_leftover(&rig->target))
		fail_msg("%s is left", t_port_leftover(&rig->target));
	assert_int_equal(t_fabric_rnr(rig->hub), 0);
	t_port_end(&rig->target);
	xp_mr_free(rig->mem_mr);
	xp_destroy(rig->peer_xp);
	reactor_destroy(rig->peer_reactor);
	free(rig->mem);
	key_file_free(&rig->keys);
	t_port_close_volumes(&rig->target);
	t_port_close_workers(&rig->target);
	t_fabric_destroy(rig->hub);
	free(rig);
}

/* ---- initiators ---- */

struct rig *rig_of(const struct t_ini *ch)
{
	return ch->user;
}

struct srp_login_req rig_login_req(const struct rig *rig, unsigned int who,
				   enum srp_multichan multichan)
{
	struct srp_login_req req =
		t_ini_login_req(srp_port_id_make(0, who), multichan);

	req.tag = 0x5a5a000000000000 + who;
	req.target = t_port_name();
	return req;
}

struct t_ini *rig_connect_begin(struct rig *rig,
				const struct srp_login_req *req)
{
	struct sockaddr_in addr = t_port_addr();
	struct rig_chan *ch = calloc(1, sizeof(*ch));

	assert_non_null(ch);
	list_add_tail(&rig->chans, &ch->node);
	ch->ini.user = rig;
	ch->ini.keeps = true;
	t_ini_login(&ch->ini, rig->peer_xp, &addr, req);
	return &ch->ini;
}

struct t_ini *rig_connect(struct rig *rig, const struct srp_login_req *req)
{
	struct t_ini *ch = rig_connect_begin(rig, req);

	rig_settle(rig);
	return ch;
}

struct t_ini *rig_login(struct rig *rig, unsigned int who,
			enum srp_multichan multichan)
{
	struct srp_login_req req = rig_login_req(rig, who, multichan);
	struct t_ini *ch = rig_connect(rig, &req);

	assert_true(ch->established);
	assert_false(ch->closed);
	return ch;
}

void rig_chan_free(struct t_ini *ini)
{
	struct rig_chan *ch = container_of(ini, struct rig_chan, ini);

	xp_close(ini->xp);
	rig_settle(rig_of(ini));
	assert_true(ini->closed);
	list_del(&ch->node);
	t_ini_free(ini);
	free(ch);
}

void rig_send(struct t_ini *ch, const void *iu, size_t len)
{
	t_ini_send(ch, iu, len);
	rig_settle(rig_of(ch));
}

struct srp_desc rig_desc(const struct t_ini *ch, size_t offset, uint32_t len)
{
	const struct rig *rig = rig_of(ch);

	return t_ini_desc(ch, rig->mem_mr, rig->mem + offset, len);
}

/* ---- commands ---- */

static struct rig_cmd rw10(uint8_t opcode, unsigned int lun, uint32_t lba,
			   uint16_t blocks)
{
	struct rig_cmd cmd = { .lun = lun, .cdb = { opcode } };

	wire_put32(cmd.cdb + 2, lba);
	wire_put16(cmd.cdb + 7, blocks);
	return cmd;
}

struct rig_cmd rig_read(unsigned int lun, uint32_t lba, uint16_t blocks)
{
	return rw10(0x28, lun, lba, blocks);
}

struct rig_cmd rig_write(unsigned int lun, uint32_t lba, uint16_t blocks)
{
	return rw10(0x2a, lun, lba, blocks);
}

uint64_t rig_cmd(struct t_ini *ch, const struct rig_cmd *cmd)
{
	struct srp_cmd_args args = {
		.tag = ch->next_tag++,
		.cdb = cmd->cdb,
		.task_attr = cmd->attr,
		.cdb_len = sizeof(cmd->cdb),
		.out = cmd->out,
		.in = cmd->in,
	};
	uint8_t iu[CHANNEL_IT_IU_LEN];
	int len;

	assert_int_equal(srp_lun_encode(cmd->lun, &args.lun), 0);
	len = srp_cmd_encode(iu, sizeof(iu), &args);
	assert_true(len > 0);
	if (cmd->imm) {
		memcpy(iu + len, cmd->imm, cmd->out.imm_len);
		len += (int)cmd->out.imm_len;
	}
	rig_send(ch, iu, (size_t)len);
	return args.tag;
}

static unsigned int desc_cnt(enum rig_how how)
{
	switch (how) {
	case RIG_INDIRECT:
		return 5;
	case RIG_MANY:
		return 33;
	case RIG_PARTIAL:
		return 20;
	default:
		return 1;
	}
}

/* Cuts @len bytes at @offset into pieces of uneven lengths. */
static void cut(const struct t_ini *ch, size_t offset, uint32_t len,
		unsigned int cnt, struct srp_desc *descs)
{
	for (unsigned int i = 0; i < cnt; i++) {
		uint32_t piece = i + 1 < cnt ? len / cnt - 7 + i % 13 : len;

		descs[i] = rig_desc(ch, offset, piece);
		offset += piece;
		len -= piece;
	}
}

void rig_describe(struct t_ini *ch, enum rig_how how, size_t offset,
		  uint32_t len, struct srp_desc *descs,
		  struct srp_data_args *ret)
{
	size_t table = RIG_MEM - 4096;
	struct srp_desc at = rig_desc(ch, table, 4096);
	unsigned int cnt = desc_cnt(how);

	cut(ch, offset, len, cnt, descs);
	*ret = (struct srp_data_args){
		.format =
			how == RIG_DIRECT ? SRP_DATA_DIRECT : SRP_DATA_INDIRECT,
		.descs = descs,
		.desc_cnt = cnt,
		.table_addr = at.addr,
		.table_key = at.key,
	};
	srp_desc_pack(descs, cnt, rig_of(ch)->mem + table);
}

size_t rig_make_partial(uint8_t *iu, size_t len, bool out, unsigned int keep)
{
	unsigned int cnt = iu[out ? 6 : 7];

	iu[out ? 6 : 7] = (uint8_t)keep;
	return len - (size_t)(cnt - keep) * SRP_DESC_SIZE;
}

uint64_t rig_send_rw(struct t_ini *ch, struct rig_cmd *cmd, enum rig_how how,
		     size_t offset, uint32_t len)
{
	struct srp_desc descs[64];
	bool out = cmd->cdb[0] == 0x2a;
	struct srp_data_args *data = out ? &cmd->out : &cmd->in;
	struct srp_cmd_args args = { .tag = ch->next_tag++,
				     .cdb = cmd->cdb,
				     .task_attr = cmd->attr,
				     .cdb_len = 16 };
	uint8_t iu[CHANNEL_IT_IU_LEN];
	int iu_len;

	if (how == RIG_IMMEDIATE) {
		*data = (struct srp_data_args){ .format = SRP_DATA_IMMEDIATE,
						.imm_len = len,
						.imm_offset = SRP_IMM_OFFSET };
		cmd->imm = rig_of(ch)->mem + offset;
		ch->next_tag--;
		return rig_cmd(ch, cmd);
	}
	rig_describe(ch, how, offset, len, descs, data);
	args.out = cmd->out;
	args.in = cmd->in;
	assert_int_equal(srp_lun_encode(cmd->lun, &args.lun), 0);
	iu_len = srp_cmd_encode(iu, sizeof(iu), &args);
	assert_true(iu_len > 0);
	if (how == RIG_PARTIAL)
		iu_len = (int)rig_make_partial(iu, (size_t)iu_len, out, 4);
	rig_send(ch, iu, (size_t)iu_len);
	return args.tag;
}

uint64_t rig_send_write(struct t_ini *ch, uint32_t lba, uint8_t byte)
{
	struct rig_cmd w = rig_write(RIG_DISK, lba, 1);

	memset(rig_of(ch)->mem, byte, RIG_BLOCK);
	return rig_send_rw(ch, &w, RIG_DIRECT, 0, RIG_BLOCK);
}

uint64_t rig_tmf(struct t_ini *ch, uint8_t function, unsigned int lun,
		 uint64_t task_tag)
{
	struct srp_tsk_mgmt t = {
		.tag = ch->next_tag++ | 0x80000000,
		.function = function,
		.task_tag = task_tag,
	};
	uint8_t iu[SRP_TSK_MGMT_SIZE];

	assert_int_equal(srp_lun_encode(lun, &t.lun), 0);
	srp_tsk_mgmt_encode(iu, sizeof(iu), &t);
	rig_send(ch, iu, sizeof(iu));
	return t.tag;
}

void rig_expect_status(const struct t_ini *ch, uint64_t tag, uint8_t status)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);

	assert_non_null(rsp);
	assert_int_equal(rsp->status, status);
}

void rig_expect_code(const struct t_ini *ch, uint64_t tag, uint8_t code)
{
	const struct srp_rsp *rsp = t_ini_rsp(ch, tag);

	assert_non_null(rsp);
	assert_true(rsp->rsp_valid);
	assert_int_equal(rsp->rsp_code, code);
}

unsigned int rig_clear_ua(struct t_ini *ch, unsigned int lun, uint16_t *ret_asc)
{
	struct rig_cmd tur = { .lun = lun };

	for (unsigned int cnt = 0; cnt < 8; cnt++) {
		uint64_t tag = rig_cmd(ch, &tur);
		const struct srp_rsp *rsp = t_ini_rsp(ch, tag);
		struct scsi_sense sense;

		assert_non_null(rsp);
		if (rsp->status == SCSI_STATUS_GOOD)
			return cnt;
		assert_int_equal(
			scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			0);
		assert_int_equal(sense.key, SCSI_KEY_UNIT_ATTENTION);
		if (ret_asc)
			*ret_asc = sense.code;
	}
	fail_msg("unit attentions without end");
	return 0;
}

void rig_expect_alive(struct t_ini *ch)
{
	assert_false(ch->closed);
	for (unsigned int lun = 0; lun < RIG_LUNS; lun++)
		rig_clear_ua(ch, lun, NULL);
}
