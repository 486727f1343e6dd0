/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/port/login_quota.h"
#include "target/port/port.h"
#include "target/port/request.h"
#include "target/port/task_mgmt.h"
#include "target/port/watchdog.h"

/* Lines about misbehaving peers in ten seconds, per worker. */
#define COMPLAINTS_BURST 20

static const struct xp_handler channel_handler;

static void run_start(struct reactor_msg *msg);
static void run_drain(struct reactor_msg *msg);
static void run_close(struct reactor_msg *msg);
static void run_free(struct reactor_msg *msg);
static void run_aer(struct reactor_msg *msg);
static void on_timer(struct reactor_timer *t);

/* ---- memory ---- */

struct channel *channel_create(const struct channel_params *p)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->port = p->port;
	ch->nexus = p->nexus;
	ch->worker = p->worker;
	ch->number = p->number;
	ch->kind = xp_kind(p->conn->xp);
	ch->rules = *p->rules;
	ch->login_rsp = *p->login_rsp;
	ch->ti_iu_len = p->login_rsp->ti_iu_len;
	ch->conn = p->conn;
	ch->wants_aer = p->wants_aer;
	list_init(&ch->nexus_node);
	list_init(&ch->worker_node);
	list_init(&ch->busy);
	reactor_timer_init(&ch->timer, on_timer);
	srp_ledger_init(&ch->ledger, p->login_rsp->req_lim);
	return ch;
}

/* ---- messages from the port ---- */

void channel_send_start(struct channel *ch)
{
	ch->start_msg.run = run_start;
	reactor_send(ch->worker->reactor, &ch->start_msg);
}

void channel_send_drain(struct channel *ch, const char *why)
{
	if (ch->drain_sent || ch->close_sent)
		return;
	ch->drain_sent = true;
	ch->close_why = why;
	ch->drain_msg.run = run_drain;
	reactor_send(ch->worker->reactor, &ch->drain_msg);
}

void channel_send_close(struct channel *ch, const char *why)
{
	if (ch->close_sent)
		return;
	ch->close_sent = true;
	if (!ch->drain_sent)
		ch->close_why = why;
	ch->close_msg.run = run_close;
	reactor_send(ch->worker->reactor, &ch->close_msg);
}

void channel_send_aer(struct channel *ch, unsigned int lun)
{
	if (!ch->wants_aer || ch->close_sent)
		return;
	atomic_fetch_or(&ch->aer_luns[lun / 64], 1ull << lun % 64);
	if (atomic_exchange(&ch->aer_sent, true))
		return; /* the message is on its way */
	ch->aer_msg.run = run_aer;
	reactor_send(ch->worker->reactor, &ch->aer_msg);
}

void channel_send_free(struct channel *ch)
{
	ch->free_msg.run = run_free;
	reactor_send(ch->worker->reactor, &ch->free_msg);
}

static void run_drain(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, drain_msg);

	ch->says_logout = true;
	channel_drain(ch, ch->close_why);
}

static void run_close(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, close_msg);

	channel_close(ch, ch->close_why);
}

static void run_free(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, free_msg);

	assert(ch->state == CHANNEL_GONE);
	free(ch);
}

/* ---- messages for people ---- */

/* "10.0.0.1:43210"; valid as long as @ch. */
static const char *channel_peer(const struct channel *ch)
{
	return ch->xp ? xp_chan_peer(ch->xp) : "?";
}

static const char *channel_local(const struct channel *ch)
{
	return ch->xp ? xp_chan_local(ch->xp) : "?";
}

void channel_complain(struct channel *ch, const char *fmt, ...)
{
	unsigned int dropped;
	char text[512];
	va_list ap;

	if (!log_limit_pass(&ch->worker->bad_log, COMPLAINTS_BURST, &dropped))
		return;
	if (dropped)
		log_warn("%u more lines about misbehaving peers left out",
			 dropped);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_warn("channel %u, %s from %s on %s: %s", ch->number,
		 ch->nexus->name, channel_peer(ch), channel_local(ch), text);
}

static void note_end(struct channel *ch, const char *why)
{
	if (!ch->end_why[0])
		snprintf(ch->end_why, sizeof(ch->end_why), "%.*s",
			 (int)sizeof(ch->end_why) - 1, why);
}

static bool chan_may_log(struct channel *ch, enum log_level level)
{
	return log_level >= level &&
	       login_log_pass(&ch->port->channel_log, &ch->quota->addr);
}

static void log_login(struct channel *ch)
{
	const struct srp_login_rsp *rsp = &ch->login_rsp;
	/* TCP has none. */
	const char *device = ch->kind == XP_VERBS ? xp_chan_device(ch->xp) : "";

	if (!chan_may_log(ch, LOG_NOTICE))
		return;
	log_notice("login of %s from %s on %s%s%s over %s: channel %u%s",
		   ch->nexus->name, channel_peer(ch), channel_local(ch),
		   *device ? ", " : "", device, xp_kind_name(ch->kind),
		   ch->number,
		   rsp->multichan == SRP_MULTICHAN_TERMINATED
			   ? ", replacing its older channels"
			   : "");
	log_info(
		"channel %u: request limit %d, initiator's IUs up to %u bytes, "
		"ours up to %u, immediate data %s",
		ch->number, rsp->req_lim, rsp->it_iu_len, rsp->ti_iu_len,
		ch->rules.imm_offset ? "granted" : "no");
	if (ch->rules.imm_offset)
		log_info("channel %u: immediate data at offset %u", ch->number,
			 ch->rules.imm_offset);
}

static void log_logout(struct channel *ch)
{
	if (!chan_may_log(ch, ch->logged_in ? LOG_NOTICE : LOG_WARNING))
		return;
	if (ch->logged_in)
		log_notice("logout of %s from %s on %s: channel %u, %llu "
			   "requests answered: %s",
			   ch->nexus->name, channel_peer(ch), channel_local(ch),
			   ch->number, (unsigned long long)ch->requests_cnt,
			   ch->end_why);
	else
		log_warn("channel %u for %s from %s on %s never came up: %s",
			 ch->number, ch->nexus->name, channel_peer(ch),
			 channel_local(ch), ch->end_why);
}

/* ---- the end ---- */

/* There are enough requests for the credits, whatever other channels do. */
static int reserve_requests(struct channel *ch, struct error *e)
{
	struct request_pool *pool = &ch->worker->requests;
	int err = request_pool_reserve(pool, e);

	if (err)
		return err;
	ch->own = request_pool_get(pool);
	ch->own->ch = ch;
	return 0;
}

static void give_requests_back(struct channel *ch)
{
	struct request_pool *pool = &ch->worker->requests;

	if (!ch->own)
		return;
	request_pool_put(pool, ch->own);
	request_pool_release(pool);
	ch->own = NULL;
}

/* A turn after nothing was left: released IUs are back with the transport. */
static void chan_run_gone(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, gone_msg);

	log_logout(ch);
	if (ch->xp)
		xp_chan_free(ch->xp);
	ch->xp = NULL;
	give_requests_back(ch);
	list_del(&ch->worker_node);
	port_channel_gone(ch);
}

/* The last of all: no chain, no IU, no request. */
static void be_gone(struct channel *ch)
{
	ch->state = CHANNEL_GONE;
	reactor_timer_stop(&ch->timer);
	ch->gone_msg.run = chan_run_gone;
	reactor_send(ch->worker->reactor, &ch->gone_msg);
}

static void drop_waiting_ius(struct channel *ch)
{
	for (unsigned int i = 0; i < ch->waiting_cnt; i++)
		xp_iu_release(
			ch->waiting[(ch->waiting_first + i) % CHANNEL_REQ_LIM]);
	ch->waiting_cnt = 0;
}

static struct request *first_unstarted(struct channel *ch)
{
	struct list *it;

	list_for_each(it, &ch->busy) {
		struct request *req = container_of(it, struct request, node);

		if (request_only_waits(req))
			return req;
	}
	return NULL;
}

/* Drops what neither the fabric nor the disk has. */
static void drop_unstarted(struct channel *ch)
{
	struct request *req;
	struct list *it;

	list_for_each(it, &ch->busy)
		request_stop_waiting(container_of(it, struct request, node));
	while ((req = first_unstarted(ch)))
		request_drop(req);
	drop_waiting_ius(ch);
}

/* Nobody waits any more for what goes on by itself. */
static void leave_jobs(struct channel *ch)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &ch->busy) {
		struct request *req = container_of(it, struct request, node);

		if (req->state == REQUEST_EXECUTING)
			request_abort(req, FATE_SILENT);
	}
}

static void begin_closing(struct channel *ch)
{
	reactor_timer_stop(&ch->timer);
	ch->state = CHANNEL_CLOSING;
	drop_unstarted(ch);
	leave_jobs(ch);
}

/* The transport's: xp_close() was called, or the peer or the fabric ended it.
 * Chains will be done with -ECANCELED from now on. */
static void on_closing(struct xp_chan *xp)
{
	begin_closing(xp_chan_user(xp));
}

static void on_closed(struct xp_chan *xp, const struct error *why)
{
	struct channel *ch = xp_chan_user(xp);

	note_end(ch, why->text);
	ch->state = CHANNEL_CLOSED;
	if (list_empty(&ch->busy))
		be_gone(ch);
}

void channel_close(struct channel *ch, const char *why)
{
	switch (ch->state) {
	case CHANNEL_NEW:
		/* A close never overtakes the start. */
		assert(!"closed before it was started");
		return;
	case CHANNEL_ACCEPTING:
	case CHANNEL_OPEN:
	case CHANNEL_DRAINING:
		note_end(ch, why);
		xp_close(ch->xp);
		return;
	case CHANNEL_CLOSING:
	case CHANNEL_CLOSED:
	case CHANNEL_GONE:
		return;
	}
}

/* ---- what the target says of its own accord ---- */

/* Sends what is in the response of ch->own; one at a time. */
static void post_own(struct channel *ch, int len,
		     void (*done)(struct xp_chain *chain, int status))
{
	assert(len > 0 && !ch->cred_posted);
	ch->cred_posted = true;
	ch->cred_posted_us = watchdog_posted(ch);
	ch->cred_chain = (struct xp_chain){
		.send = { { .addr = ch->own->rsp,
			    .len = (uint32_t)len,
			    .mr = request_rsp_mr(ch->own) } },
		.send_cnt = 1,
		.done = done,
	};
	xp_post(ch->xp, &ch->cred_chain);
}

static void logout_done(struct xp_chain *chain, int status)
{
	struct channel *ch = container_of(chain, struct channel, cred_chain);

	ch->cred_posted = false;
	channel_close(ch, ch->end_why);
}

/* With everything answered: SRP_T_LOGOUT when the target stops, then the end.
 * Not to an initiator that has never sent anything: it may have no receive. */
static void close_if_drained(struct channel *ch)
{
	struct srp_t_logout logout = { .tag = ch->cred_tag };

	if (ch->state != CHANNEL_DRAINING || !list_empty(&ch->busy) ||
	    ch->cred_posted)
		return;
	if (!ch->says_logout || !ch->had_command) {
		channel_close(ch, ch->end_why);
		return;
	}
	ch->says_logout = false;
	post_own(ch,
		 srp_t_logout_encode(ch->own->rsp, CHANNEL_RSP_SIZE, &logout),
		 logout_done);
}

void channel_drain(struct channel *ch, const char *why)
{
	if (ch->state == CHANNEL_ACCEPTING) {
		channel_close(ch, why);
		return;
	}
	if (ch->state != CHANNEL_OPEN)
		return;
	note_end(ch, why);
	ch->state = CHANNEL_DRAINING;
	drop_waiting_ius(ch);
	reactor_timer_set(ch->worker->reactor, &ch->timer, CHANNEL_DRAIN_MS);
	close_if_drained(ch);
}

static void on_timer(struct reactor_timer *t)
{
	struct channel *ch = container_of(t, struct channel, timer);

	if (ch->state == CHANNEL_ACCEPTING)
		channel_close(ch, "the initiator did not complete the "
				  "connection in time");
	else
		channel_close(ch, "requests were still unanswered at the end "
				  "of the grace period");
}

/* ---- the beginning ---- */

static int accept_connection(struct channel *ch, struct error *e)
{
	struct xp *xp = ch->worker->xp[ch->kind];
	uint8_t pdata[SRP_LOGIN_RSP_SIZE];
	struct xp_chan_params params = {
		.handler = &channel_handler,
		.user = ch,
		.recv_cnt = CHANNEL_RECVS,
		.pdata = pdata,
		.pdata_len = sizeof(pdata),
	};
	struct xp_conn_request *conn = ch->conn;
	int err = reserve_requests(ch, e);

	if (err)
		return err;
	srp_login_rsp_encode(pdata, sizeof(pdata), &ch->login_rsp);
	ch->conn = NULL;
	return xp_accept(xp, conn, &params, &ch->xp, e);
}

static void run_start(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, start_msg);
	struct error e = { 0 };

	list_add_tail(&ch->worker->channels, &ch->worker_node);
	ch->state = CHANNEL_ACCEPTING;
	reactor_timer_set(ch->worker->reactor, &ch->timer,
			  CHANNEL_HALF_OPEN_MS);
	if (accept_connection(ch, &e) == 0)
		return;
	note_end(ch, e.text);
	ch->state = CHANNEL_CLOSED;
	be_gone(ch);
}

static void on_established(struct xp_chan *xp, const void *pdata, size_t len)
{
	struct channel *ch = xp_chan_user(xp);

	reactor_timer_stop(&ch->timer);
	ch->state = CHANNEL_OPEN;
	ch->logged_in = true;
	port_channel_opened(ch);
	log_login(ch);
}

/* ---- credits ---- */

static void speak(struct channel *ch);

static void own_done(struct xp_chain *chain, int status)
{
	struct channel *ch = container_of(chain, struct channel, cred_chain);

	ch->cred_posted = false;
	speak(ch);
	close_if_drained(ch);
}

/* May the target ask something now? */
static bool may_ask(const struct channel *ch)
{
	return ch->state == CHANNEL_OPEN && !ch->cred_posted &&
	       !ch->cred_unanswered;
}

/*
 * Returns credits that no response will carry: those of commands that ended
 * without an answer while nothing else is under way on the channel. Without
 * this the initiator might wait for them for ever.
 */
static void return_credits(struct channel *ch)
{
	struct srp_cred_req cred = { .tag = ch->cred_tag };

	if (!may_ask(ch) || ch->ledger.busy > 0)
		return;
	cred.req_lim_delta = srp_ledger_settle(&ch->ledger);
	ch->cred_tag++;
	ch->cred_unanswered = SRP_CRED_RSP;
	post_own(ch, srp_cred_req_encode(ch->own->rsp, CHANNEL_RSP_SIZE, &cred),
		 own_done);
}

/* ---- asynchronous events ---- */

/* A LUN that is to be told of, and no more from then on; -1: none. */
static int take_aer_lun(struct channel *ch)
{
	for (unsigned int i = 0; i < LUNS_MAX / 64; i++) {
		uint64_t luns = atomic_load(&ch->aer_luns[i]);
		int bit = luns ? __builtin_ctzll(luns) : 0;

		if (!luns)
			continue;
		atomic_fetch_and(&ch->aer_luns[i], ~(1ull << bit));
		return (int)i * 64 + bit;
	}
	return -1;
}

static void send_aer(struct channel *ch)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_UNIT_ATTENTION, SCSI_ASC_CAPACITY_CHANGED);
	uint8_t bytes[SCSI_SENSE_MAX_LEN];
	struct srp_aer_req aer = { .tag = ch->cred_tag, .sense = bytes };
	int lun;

	if (!may_ask(ch) || !ch->had_command)
		return;
	lun = take_aer_lun(ch);
	if (lun < 0)
		return;
	srp_lun_encode((uint32_t)lun, &aer.lun);
	aer.sense_len = (uint32_t)scsi_sense_encode(
		&sense, volume_sense_format(ch->nexus->scsi.vol[lun]), bytes,
		sizeof(bytes));
	aer.req_lim_delta = srp_ledger_settle(&ch->ledger);
	ch->cred_tag++;
	ch->cred_unanswered = SRP_AER_RSP;
	post_own(ch, srp_aer_req_encode(ch->own->rsp, CHANNEL_RSP_SIZE, &aer),
		 own_done);
}

static void run_aer(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, aer_msg);

	/* From here on another message can be sent. */
	atomic_store(&ch->aer_sent, false);
	send_aer(ch);
}

static void speak(struct channel *ch)
{
	if (ch->ledger.owed > 0)
		return_credits(ch);
	if (ch->wants_aer)
		send_aer(ch);
}

/* SRP_CRED_RSP, SRP_AER_RSP */
static void answer_arrived(struct channel *ch, uint8_t opcode)
{
	if (ch->cred_unanswered != opcode) {
		channel_complain(ch, "%s that nobody asked for; closing",
				 srp_opcode_name(opcode));
		channel_close(ch, "spurious response from the initiator");
		return;
	}
	ch->cred_unanswered = 0;
	speak(ch);
}

/* ---- requests ---- */

static void chan_start_request(struct channel *ch, struct xp_iu *iu)
{
	struct request *req = request_pool_get(&ch->worker->requests);
	const uint8_t *opcode = iu->data;

	req->ch = ch;
	ch->busy_cnt++;
	list_add_tail(&ch->busy, &req->node);
	ch->had_command = true;
	req->seq = ch->worker->next_seq++;
	if (*opcode == SRP_CMD)
		request_start(req, iu);
	else
		task_mgmt_start(req, iu);
}

static void chan_start_waiting(struct channel *ch)
{
	while (ch->state == CHANNEL_OPEN && ch->waiting_cnt > 0 &&
	       ch->busy_cnt < CHANNEL_REQUESTS) {
		struct xp_iu *iu = ch->waiting[ch->waiting_first];

		ch->waiting_first = (ch->waiting_first + 1) % CHANNEL_REQ_LIM;
		ch->waiting_cnt--;
		chan_start_request(ch, iu);
	}
}

/* Whoever sends one request after the other sends the next one soon. Of many that
 * are sent at a time some come alone as well. */
#define LONE_MIN 4

static void expect_next(struct channel *ch)
{
	struct worker *w = ch->worker;

	if (ch->lone_cnt < LONE_MIN || ch->busy_cnt > 0 || w->expects)
		return;
	w->expects = true;
	reactor_await(w->reactor, 1);
}

static void it_came(struct worker *w)
{
	if (!w->expects)
		return;
	w->expects = false;
	reactor_await(w->reactor, -1);
}

void channel_request_ended(struct channel *ch, struct request *req)
{
	list_del(&req->node);
	ch->busy_cnt--;
	request_pool_put(&ch->worker->requests, req);
	if (ch->blocked_cnt > 0)
		request_start_blocked(ch);
	if (ch->waiting_cnt > 0)
		chan_start_waiting(ch);
	expect_next(ch);
	speak(ch);
	if (ch->state == CHANNEL_DRAINING)
		close_if_drained(ch);
	if (ch->state == CHANNEL_CLOSED && list_empty(&ch->busy))
		be_gone(ch);
}

/* SRP_CMD or SRP_TSK_MGMT: costs a credit, needs a free request. */
static void request_arrived(struct channel *ch, struct xp_iu *iu)
{
	it_came(ch->worker);
	ch->lone_cnt = ch->busy_cnt == 0 ? ch->lone_cnt + 1 : 0;
	if (!srp_ledger_take(&ch->ledger)) {
		xp_iu_release(iu);
		channel_complain(ch,
				 "more than %u requests unanswered, which is "
				 "its request limit; closing",
				 ch->ledger.granted);
		channel_close(ch, "the initiator exceeded its request limit");
		return;
	}
	if (ch->waiting_cnt > 0 || ch->busy_cnt == CHANNEL_REQUESTS) {
		/* The credits bound how many may wait. */
		assert(ch->waiting_cnt < CHANNEL_REQ_LIM);
		ch->waiting[(ch->waiting_first + ch->waiting_cnt++) %
			    CHANNEL_REQ_LIM] = iu;
		return;
	}
	chan_start_request(ch, iu);
}

static void bad_opcode(struct channel *ch, uint8_t opcode)
{
	channel_complain(ch,
			 "IU with opcode 0x%02x (%s) is not for a target; "
			 "closing",
			 opcode, srp_opcode_name(opcode));
	channel_close(ch, "invalid IU type received");
}

static void on_received(struct xp_chan *xp, struct xp_iu *iu)
{
	struct channel *ch = xp_chan_user(xp);
	struct srp_head head;

	if (ch->state != CHANNEL_OPEN) {
		xp_iu_release(iu);
		return;
	}
	if (srp_head_decode(iu->data, iu->len, &head) < 0) {
		channel_complain(ch, "IU of %u bytes is too short; closing",
				 iu->len);
		xp_iu_release(iu);
		channel_close(ch, "invalid IU length");
		return;
	}
	switch (head.opcode) {
	case SRP_CMD:
	case SRP_TSK_MGMT:
		request_arrived(ch, iu);
		return;
	case SRP_CRED_RSP:
	case SRP_AER_RSP:
		answer_arrived(ch, head.opcode);
		break;
	case SRP_I_LOGOUT:
		channel_close(ch, "the initiator logged out");
		break;
	default:
		bad_opcode(ch, head.opcode);
		break;
	}
	xp_iu_release(iu);
}

static const struct xp_handler channel_handler = {
	.established = on_established,
	.received = on_received,
	.closing = on_closing,
	.closed = on_closed,
};
