/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz_peer.h"

#include "tests/lib/t_store.h"
#include "transport/provider.h"

static struct fuzz_target *const t = &fuzz_target;

static struct fuzz_chan *fuzz_chan_of(struct t_ini *ini)
{
	return container_of(ini, struct fuzz_chan, ini);
}

/* A target has this many more receives than credits. */
#define SPARE_RECVS 2

bool fuzz_peer_goes_on;
bool fuzz_peer_overruns;

/* ---- record of what was sent ---- */

static unsigned long long ius_cnt, logins_cnt;

/* In the format of libFuzzer's own output. */
__attribute__((destructor)) static void say_counts(void)
{
	dprintf(fuzz_stderr, "stat::ius_sent: %llu\nstat::logins_sent: %llu\n",
		ius_cnt, logins_cnt);
}

static void forget(struct fuzz_chan *ch, unsigned int i)
{
	free(ch->sent[i].out);
	free(ch->sent[i].in);
	ch->sent_cnt--;
	memmove(&ch->sent[i], &ch->sent[i + 1],
		(ch->sent_cnt - i) * sizeof(ch->sent[0]));
}

static struct srp_desc *copy_descs(const void *raw, uint32_t cnt)
{
	struct srp_desc *descs = cnt ? calloc(cnt, sizeof(*descs)) : NULL;

	FUZZ_CLAIM(descs || !cnt);
	if (cnt)
		srp_desc_unpack(raw, cnt, descs);
	return descs;
}

static void note_data(struct fuzz_sent *s, const struct srp_data *d,
		      bool is_out)
{
	uint32_t cnt = d->partial || !d->descs ? 0 : d->inline_cnt;
	struct srp_desc *descs = copy_descs(d->descs, cnt);

	if (is_out) {
		s->out = descs;
		s->out_cnt = cnt;
	} else {
		s->in = descs;
		s->in_cnt = cnt;
	}
	if (d->partial) {
		s->table = d->desc;
		s->table_is_out = is_out;
	}
}

/* Notes how a target may understand the bytes. */
static void note_request(struct fuzz_chan *ch, const uint8_t *iu, size_t len)
{
	struct fuzz_sent s = { .is_tmf = iu[0] == SRP_TSK_MGMT,
			       .store_cnt = t_store.cnt };
	struct srp_tsk_mgmt tmf;
	struct srp_cmd_view cmd;
	struct srp_head head;

	FUZZ_CLAIM(!srp_head_decode(iu, len, &head));
	s.tag = head.tag;
	if (s.is_tmf && !srp_tsk_mgmt_decode(iu, len, &tmf)) {
		s.lun = tmf.lun;
		s.function = tmf.function;
		s.task_tag = tmf.task_tag;
	}
	if (!s.is_tmf && !srp_cmd_decode(iu, len, &ch->rules, &cmd)) {
		s.lun = cmd.lun;
		note_data(&s, &cmd.out, true);
		note_data(&s, &cmd.in, false);
	}
	ch->sent[ch->sent_cnt++] = s;
	ch->limit--;
	ch->last_tag = s.tag;
}

/* ---- RDMA ---- */

static bool desc_covers(const struct srp_desc *d, const struct xp_wr *wr)
{
	uint64_t at = wr->remote_addr - d->addr;

	return d->key == wr->remote_key && at <= d->len &&
	       wr->sge[0].len <= d->len - at;
}

static bool list_covers(const struct srp_desc *descs, uint32_t cnt,
			const struct xp_wr *wr)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (desc_covers(&descs[i], wr))
			return true;
	}
	return false;
}

static void append(struct srp_desc **descs, uint32_t *cnt, const uint8_t *raw,
		   uint32_t more)
{
	*descs = realloc(*descs, (*cnt + more + 1) * sizeof(**descs));
	FUZZ_CLAIM(*descs);
	srp_desc_unpack(raw, more, *descs + *cnt);
	*cnt += more;
}

/* The target reads the table: it may access the memory that the table names
 * now. If several requests have the same table, nobody knows for which one it
 * is read. */
static void take_table(struct fuzz_sent *s)
{
	const uint8_t *raw = (const uint8_t *)(uintptr_t)s->table.addr;
	uint32_t cnt = s->table.len / SRP_DESC_SIZE;

	if (!fuzz_lies_in(raw, s->table.len, t->mem, FUZZ_MEM_LEN))
		return; /* the fabric refuses it */
	if (s->table_is_out)
		append(&s->out, &s->out_cnt, raw, cnt);
	else
		append(&s->in, &s->in_cnt, raw, cnt);
}

static bool may_touch(struct fuzz_sent *s, const struct xp_wr *wr)
{
	if (wr->op == XP_WR_WRITE)
		return list_covers(s->in, s->in_cnt, wr);
	if (s->table.len && wr->sge[0].len == s->table.len &&
	    desc_covers(&s->table, wr)) {
		take_table(s);
		return true;
	}
	return list_covers(s->out, s->out_cnt, wr);
}

/* RDMA is only allowed for a request that is not yet answered or ended, and
 * only in the memory that this request names. */
static void on_rdma(void *user, struct xp_chan *owner, const struct xp_wr *wr)
{
	struct fuzz_chan *ch = fuzz_chan_of(xp_chan_user(owner));
	bool found = false;

	FUZZ_CLAIM(xp_chan_xp(owner) == t->peer_xp);
	FUZZ_CLAIM(wr->op == XP_WR_WRITE || wr->op == XP_WR_READ);
	/* For all of them: several may have the same table. */
	for (unsigned int i = 0; i < ch->sent_cnt; i++)
		found |= may_touch(&ch->sent[i], wr);
	FUZZ_CLAIM(found);
}

/* ---- answers ---- */

static bool same_lun(uint64_t a, uint64_t b)
{
	uint32_t x, y;

	return !srp_lun_decode(a, &x) && !srp_lun_decode(b, &y) && x == y;
}

/* Returns how many requests have the tag of @s; optionally only unanswered
 * ones. */
static unsigned int count(const struct fuzz_chan *ch, const struct fuzz_sent *s,
			  bool unanswered)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < ch->sent_cnt; i++) {
		const struct fuzz_sent *o = &ch->sent[i];

		cnt += o->tag == s->tag && o->is_tmf == s->is_tmf &&
		       !(unanswered && o->answered);
	}
	return cnt;
}

static void forget_tag(struct fuzz_chan *ch, uint64_t tag, bool is_tmf)
{
	for (unsigned int i = ch->sent_cnt; i-- > 0;) {
		if (ch->sent[i].tag == tag && ch->sent[i].is_tmf == is_tmf)
			forget(ch, i);
	}
}

static bool covers(const struct fuzz_sent *tmf, const struct fuzz_sent *s)
{
	if (s->is_tmf)
		return false;
	if (tmf->function == SRP_TSK_ABORT_TASK)
		return s->tag == tmf->task_tag;
	return same_lun(s->lun, tmf->lun);
}

/* Ends the commands that were sent on the channel before a function that is now
 * complete. No RDMA or answer may follow for them. */
static void end_covered(struct fuzz_chan *ch, const struct fuzz_sent *tmf,
			unsigned int before)
{
	for (unsigned int i = before; i-- > 0;) {
		if (!covers(tmf, &ch->sent[i]))
			continue;
		if (count(ch, &ch->sent[i], /* unanswered= */ false) > 1)
			ch->ended_set = true;
		else
			forget(ch, i);
	}
}

/* After a function that ends every command of a unit, what the store still has of
 * them is kept from readers. */
static void check_medium(const struct fuzz_sent *tmf)
{
	const struct volume *vol = fuzz_target.target.luns.vol[FUZZ_LUN_STORE];

	if (fuzz_peer_goes_on || !same_lun(tmf->lun, FUZZ_LUN_STORE) ||
	    tmf->function != SRP_TSK_LUN_RESET)
		return;
	FUZZ_CLAIM(!t_store_holds_change(tmf->store_cnt) ||
		   block_owners_have_given_up(&vol->dev.owners));
}

static void add_credits(struct fuzz_chan *ch, int32_t delta)
{
	FUZZ_CLAIM(delta >= 0);
	ch->limit += delta;
	FUZZ_CLAIM(ch->limit <= ch->req_lim);
}

static void check_rsp(const struct srp_rsp *rsp)
{
	FUZZ_CLAIM(!rsp->data_dropped);
	FUZZ_CLAIM((rsp->status == SCSI_STATUS_CHECK_CONDITION) ==
		   (rsp->sense != NULL));
	if (rsp->sense) {
		struct scsi_sense sense;

		FUZZ_CLAIM(
			!scsi_sense_decode(rsp->sense, rsp->sense_len, &sense));
		FUZZ_CLAIM(sense.key && scsi_asc_text(sense.code));
	}
}

static void on_rsp(struct fuzz_chan *ch, const struct xp_iu *iu)
{
	struct srp_rsp rsp;
	struct fuzz_sent sent;
	bool is_tmf;
	unsigned int i = 0;

	FUZZ_CLAIM(!srp_rsp_decode(iu->data, iu->len, &rsp));
	check_rsp(&rsp);
	is_tmf = rsp.rsp_valid && rsp.status == SCSI_STATUS_GOOD;
	while (i < ch->sent_cnt &&
	       (ch->sent[i].tag != rsp.tag || ch->sent[i].is_tmf != is_tmf ||
		ch->sent[i].answered))
		i++;
	FUZZ_CLAIM(i < ch->sent_cnt); /* once, and only for a request */
	sent = ch->sent[i];
	ch->sent[i].answered = true;
	if (is_tmf && rsp.rsp_code == SRP_RSP_COMPLETE) {
		check_medium(&sent);
		end_covered(ch, &sent, i);
	}
	if (!count(ch, &sent, /* unanswered= */ true))
		forget_tag(ch, rsp.tag, is_tmf);
	add_credits(ch, rsp.req_lim_delta);
	if (ch->answered)
		ch->answered(ch, &rsp);
}

static void answer(struct fuzz_chan *ch, enum srp_opcode opcode, uint64_t tag)
{
	uint8_t iu[SRP_BARE_SIZE];

	FUZZ_CLAIM(!ch->asked); /* one at a time */
	if (ch->silent) {
		ch->asked = true;
		return;
	}
	srp_bare_encode(iu, sizeof(iu), opcode, tag);
	fuzz_peer_send(ch, iu, sizeof(iu));
}

static void fuzz_peer_received(struct t_ini *ini, const struct xp_iu *iu)
{
	struct fuzz_chan *ch = fuzz_chan_of(ini);
	struct srp_cred_req cred;
	struct srp_t_logout logout;
	struct srp_aer_req aer;
	struct srp_head head;

	FUZZ_CLAIM(!srp_head_decode(iu->data, iu->len, &head));
	switch (head.opcode) {
	case SRP_RSP:
		on_rsp(ch, iu);
		break;
	case SRP_CRED_REQ:
		FUZZ_CLAIM(!srp_cred_req_decode(iu->data, iu->len, &cred));
		add_credits(ch, cred.req_lim_delta);
		answer(ch, SRP_CRED_RSP, cred.tag);
		break;
	case SRP_AER_REQ:
		FUZZ_CLAIM(!srp_aer_req_decode(iu->data, iu->len, &aer));
		FUZZ_CLAIM(ch->req.aer);
		add_credits(ch, aer.req_lim_delta);
		answer(ch, SRP_AER_RSP, aer.tag);
		break;
	default:
		FUZZ_CLAIM(!srp_t_logout_decode(iu->data, iu->len, &logout));
	}
}

/* ---- life cycle of a channel ---- */

static void fuzz_peer_established(struct t_ini *ini)
{
	struct fuzz_chan *ch = fuzz_chan_of(ini);
	const struct srp_login_rsp *rsp = &ini->login_rsp;

	/* A channel may be the first one, although it joins the others. */
	FUZZ_CLAIM(!srp_login_rsp_problem(rsp, &ch->req) ||
		   rsp->multichan == SRP_MULTICHAN_NO_CHAN);
	ch->req_lim = rsp->req_lim;
	ch->limit = rsp->req_lim;
	ch->rules = (struct srp_cmd_rules){
		.formats = rsp->formats,
		.imm_offset = rsp->imm_data ? ch->req.imm_offset : 0,
	};
}

static void fuzz_peer_closed(struct t_ini *ini)
{
	size_t len;

	xp_chan_reject_data(ini->xp, &len);
	if (ini->established || !len)
		return;
	FUZZ_CLAIM(ini->rejected);
	FUZZ_CLAIM(ini->rej.tag == fuzz_chan_of(ini)->req.tag);
}

static const struct t_ini_ops fuzz_peer_ops = {
	.established = fuzz_peer_established,
	.received = fuzz_peer_received,
	.closed = fuzz_peer_closed,
};

struct srp_login_req fuzz_peer_login(unsigned int who, bool multi)
{
	struct srp_login_req req = t_ini_login_req(
		srp_port_id_make(0, who),
		multi ? SRP_MULTICHAN_MULTI : SRP_MULTICHAN_SINGLE);

	req.tag = 0x5a5a000000000000 + who;
	req.target = t_port_name();
	return req;
}

void fuzz_peer_connect(struct fuzz_chan *ch, unsigned int who,
		       const void *pdata, size_t len)
{
	const struct sockaddr_in addr = t_port_addr();
	uint8_t padded[SRP_LOGIN_REQ_SIZE] = { 0 };

	*ch = (struct fuzz_chan){ .ini = { .ops = &fuzz_peer_ops,
					   .recv_cnt = CHANNEL_REQ_LIM + 4 },
				  .who = who };
	/* Missing bytes arrive as zeroes. */
	memcpy(padded, pdata, len);
	if (srp_login_req_decode(padded, sizeof(padded), &ch->req))
		memset(&ch->req, 0, sizeof(ch->req));
	logins_cnt++;
	t_fabric_watch(t->hub, on_rdma, NULL);
	t_ini_connect(&ch->ini, t->peer_xp, &addr, pdata, len);
}

static bool fuzz_peer_is_open(const struct fuzz_chan *ch)
{
	return ch->ini.xp && ch->ini.established && !ch->ini.closed;
}

void fuzz_peer_send(struct fuzz_chan *ch, const void *iu, size_t len)
{
	uint8_t opcode;

	if (!fuzz_peer_is_open(ch) || !xp_chan_is_open(ch->ini.xp) || !len ||
	    len > CHANNEL_IT_IU_LEN || ch->sent_cnt == FUZZ_REQUESTS)
		return;
	opcode = *(const uint8_t *)iu;
	if (len >= SRP_BARE_SIZE &&
	    (opcode == SRP_CMD || opcode == SRP_TSK_MGMT))
		note_request(ch, iu, len);
	else
		ch->free_cnt++;
	if (t_fabric_receives(ch->ini.xp) <= 0 &&
	    (ch->limit < 0 || ch->free_cnt > SPARE_RECVS))
		fuzz_peer_overruns = true;
	ius_cnt++;
	t_ini_send(&ch->ini, iu, len);
}

void fuzz_peer_check(const struct fuzz_chan *ch)
{
	if (!fuzz_peer_is_open(ch) || ch->exempt)
		return;
	FUZZ_CLAIM(xp_chan_is_open(ch->ini.xp));
	if (!ch->ended_set)
		FUZZ_CLAIM(!ch->sent_cnt);
	if (!ch->asked)
		FUZZ_CLAIM(ch->limit == ch->req_lim);
}

void fuzz_peer_free(struct fuzz_chan *ch)
{
	if (!ch->ini.xp)
		return;
	while (ch->sent_cnt)
		forget(ch, ch->sent_cnt - 1);
	t_ini_free(&ch->ini);
}
