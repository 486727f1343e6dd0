/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "target/port/port.h"
#include "target/port/request.h"
#include "target/port/task_mgmt.h"
#include "target/port/watchdog.h"

/* Most lines about misbehaving peers in ten seconds, for each worker. */
#define COMPLAINTS_BURST 20

static const struct xp_handler channel_handler;

static void channel_run_start(struct reactor_msg *msg);
static void channel_run_drain(struct reactor_msg *msg);
static void channel_run_close(struct reactor_msg *msg);
static void channel_run_free(struct reactor_msg *msg);
static void channel_run_aer(struct reactor_msg *msg);
static void channel_timed_out(struct reactor_timer *t);

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
	ch->who = *p->who;
	snprintf(ch->peer, sizeof(ch->peer), "%s", p->conn->peer);
	snprintf(ch->local, sizeof(ch->local), "%s", p->conn->local);
	ch->rules = *p->rules;
	ch->login_rsp = *p->login_rsp;
	ch->conn = p->conn;
	ch->aer.wanted = p->wants_aer;
	list_init(&ch->at_port.nexus_node);
	list_init(&ch->worker_node);
	list_init(&ch->requests.busy);
	reactor_timer_init(&ch->timer, channel_timed_out);
	srp_ledger_init(&ch->ledger, p->login_rsp->req_lim);
	return ch;
}

/* Makes every change of state. The life has one direction: see channel.h. */
static void channel_enter(struct channel *ch, enum channel_state state)
{
	assert(state > ch->state);
	ch->state = state;
}

/* ---- messages from the port ---- */

void channel_send_start(struct channel *ch)
{
	ch->msgs.start.run = channel_run_start;
	reactor_send(ch->worker->reactor, &ch->msgs.start);
}

void channel_send_drain(struct channel *ch, const char *why)
{
	if (ch->at_port.drain_sent || ch->at_port.close_sent)
		return;
	ch->at_port.drain_sent = true;
	ch->close_why = why;
	ch->msgs.drain.run = channel_run_drain;
	reactor_send(ch->worker->reactor, &ch->msgs.drain);
}

void channel_send_close(struct channel *ch, const char *why)
{
	if (ch->at_port.close_sent)
		return;
	ch->at_port.close_sent = true;
	if (!ch->at_port.drain_sent)
		ch->close_why = why;
	ch->msgs.close.run = channel_run_close;
	reactor_send(ch->worker->reactor, &ch->msgs.close);
}

void channel_send_aer(struct channel *ch, unsigned int lun,
		      enum channel_event event)
{
	if (!ch->aer.wanted || ch->at_port.close_sent)
		return;
	atomic_fetch_or(&ch->aer.luns[event][lun / 64], 1ull << lun % 64);
	if (atomic_exchange(&ch->aer.sent, true))
		return; /* the message is on its way */
	ch->aer.msg.run = channel_run_aer;
	reactor_send(ch->worker->reactor, &ch->aer.msg);
}

void channel_send_free(struct channel *ch)
{
	ch->msgs.free.run = channel_run_free;
	reactor_send(ch->worker->reactor, &ch->msgs.free);
}

static void channel_run_drain(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.drain);

	ch->sends_logout = true;
	channel_drain(ch, ch->close_why);
}

static void channel_run_close(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.close);

	channel_close(ch, ch->close_why);
}

static void channel_run_free(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.free);

	assert(ch->state == CHANNEL_GONE);
	free(ch);
}

/* ---- messages for people ---- */

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
	log_event(LOG_WARNING, &(struct log_about){ .nexus = ch->nexus->name },
		  "channel %u, %s from %s on %s: %s", ch->number,
		  ch->nexus->name, ch->peer, ch->local, text);
}

static void channel_note_end(struct channel *ch, const char *why)
{
	/* Zeroes follow. */
	if (!ch->end_why[0])
		memcpy(ch->end_why, why, strnlen(why, sizeof(ch->end_why) - 1));
}

static bool channel_may_log(struct channel *ch, enum log_level level)
{
	return (log_level >= level || log_has_sink()) &&
	       login_log_pass(&ch->port->channel_log, &ch->who.addr);
}

static void channel_log_login(struct channel *ch)
{
	const struct srp_login_rsp *rsp = &ch->login_rsp;
	const char *device = xp_kind_traits(ch->kind)->needs_device
				     ? xp_chan_device(ch->xp)
				     : "";
	struct log_about about = { .event = "login", .nexus = ch->nexus->name };
	char text[XP_NEGOTIATED_TEXT_SIZE];

	if (!channel_may_log(ch, LOG_NOTICE))
		return;
	log_event(LOG_NOTICE, &about,
		  "login of %s from %s%s%s on %s%s%s over %s: channel %u%s",
		  ch->nexus->name, ch->peer, ch->who.name[0] ? " as " : "",
		  ch->who.name, ch->local, *device ? ", " : "", device,
		  xp_kind_name(ch->kind), ch->number,
		  rsp->multichan == SRP_MULTICHAN_TERMINATED
			  ? ", replacing its older channels"
			  : "");
	log_info(
		"channel %u: request limit %d, initiator's IUs up to %u bytes, "
		"ours up to %u, immediate data %s",
		ch->number, rsp->req_lim, rsp->it_iu_len, rsp->ti_iu_len,
		ch->rules.imm_offset ? "granted" : "no");
	if (ch->negotiated.mtu)
		log_info("channel %u: %s", ch->number,
			 xp_negotiated_text(&ch->negotiated, text));
	if (ch->rules.imm_offset)
		log_info("channel %u: immediate data at offset %u", ch->number,
			 ch->rules.imm_offset);
}

static void channel_log_logout(struct channel *ch)
{
	struct log_about about = {
		.event = ch->logged_in ? "logout" : NULL,
		.nexus = ch->nexus->name,
	};

	if (!channel_may_log(ch, ch->logged_in ? LOG_NOTICE : LOG_WARNING))
		return;
	if (ch->logged_in)
		log_event(LOG_NOTICE, &about,
			  "logout of %s from %s on %s: channel %u, %llu "
			  "requests answered: %s",
			  ch->nexus->name, ch->peer, ch->local, ch->number,
			  (unsigned long long)ch->requests.answered,
			  ch->end_why);
	else
		log_event(LOG_WARNING, &about,
			  "channel %u for %s from %s on %s never came up: %s",
			  ch->number, ch->nexus->name, ch->peer, ch->local,
			  ch->end_why);
}

/* ---- the end ---- */

/* A channel always has a request for each credit, whatever other channels
 * use. */
static int channel_reserve_requests(struct channel *ch, struct error *e)
{
	struct request_pool *pool = &ch->worker->requests;
	int err = request_pool_reserve(pool, e);

	if (err)
		return err;
	ch->unasked.req = request_pool_get(pool);
	ch->unasked.req->ch = ch;
	return 0;
}

static void channel_release_requests(struct channel *ch)
{
	struct request_pool *pool = &ch->worker->requests;

	if (!ch->unasked.req)
		return;
	request_pool_put(pool, ch->unasked.req);
	request_pool_release(pool);
	ch->unasked.req = NULL;
}

/* Runs one turn after the last request has ended, when the transport has the
 * released IUs back. */
static void channel_run_gone(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.gone);

	if (ch->xp)
		xp_chan_free(ch->xp);
	ch->xp = NULL;
	channel_release_requests(ch);
	list_del(&ch->worker_node);
	/* Until they are counted again: this may be its last channel here. */
	if (ch->meter)
		meter_clear_state(ch->meter);
	port_channel_gone(ch);
}

/* The channel no longer has a chain, an IU or a request. */
static void channel_become_gone(struct channel *ch)
{
	channel_enter(ch, CHANNEL_GONE);
	reactor_timer_stop(&ch->timer);
	ch->msgs.gone.run = channel_run_gone;
	reactor_send(ch->worker->reactor, &ch->msgs.gone);
}

/* The fabric has nothing of the channel. Whatever lingers, the port need not wait. */
static void channel_become_closed(struct channel *ch)
{
	channel_enter(ch, CHANNEL_CLOSED);
	channel_log_logout(ch);
	PROBE(rdma_target, logout, ch->nexus->name, ch->number);
	port_channel_closed(ch);
	if (list_empty(&ch->requests.busy))
		channel_become_gone(ch);
}

static void channel_drop_waiting(struct channel *ch)
{
	for (unsigned int i = 0; i < ch->waiting.cnt; i++)
		xp_iu_release(ch->waiting.ius[(ch->waiting.first + i) %
					      CHANNEL_REQ_LIM]);
	ch->waiting.cnt = 0;
}

static struct request *channel_first_unstarted(struct channel *ch)
{
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		struct request *req = container_of(it, struct request, node);

		if (request_only_waits(req))
			return req;
	}
	return NULL;
}

/* Drops the requests that neither the fabric nor the disk has. */
static void channel_drop_unstarted(struct channel *ch)
{
	struct request *req;
	struct list *it;

	/* An answer that is under way may still arrive. */
	list_for_each(it, &ch->requests.busy)
		request_stop_waiting(container_of(it, struct request, node),
				     FATE_ANSWER);
	while ((req = channel_first_unstarted(ch)))
		request_drop(req);
	channel_drop_waiting(ch);
	request_serve_waiters(ch->worker);
}

struct request *channel_next_request(struct channel *ch, uint64_t seq)
{
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		struct request *req = container_of(it, struct request, node);

		if (req->seq >= seq)
			return req;
	}
	return NULL;
}

/* What the disk has continues without the channel. */
static void channel_abandon_executing(struct channel *ch)
{
	struct request *req;
	uint64_t next = 0;

	while ((req = channel_next_request(ch, next))) {
		next = req->seq + 1;
		if (req->state == REQUEST_EXECUTING)
			request_abort(req, FATE_SILENT);
	}
}

/* The initiator may send its writes again by another path, that is, another
 * nexus. The stores have them, or the fabric if their data moves in place. */
static void channel_give_up_writes(struct channel *ch)
{
	unsigned int cnt = 0;
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		struct request *req = container_of(it, struct request, node);

		if (!req->is_tmf)
			cnt += scsi_task_give_up(&req->task);
	}
	if (cnt)
		log_info("channel %u: %u of its writes may still change "
			 "blocks; later commands on the same blocks wait",
			 ch->number, cnt);
}

static void channel_begin_closing(struct channel *ch)
{
	reactor_timer_stop(&ch->timer);
	channel_enter(ch, CHANNEL_CLOSING);
	channel_drop_unstarted(ch);
	channel_give_up_writes(ch);
	channel_abandon_executing(ch);
}

/* xp_close() was called, or the peer or the fabric ended the connection. From
 * now on chains end with -ECANCELED. */
static void channel_on_closing(struct xp_chan *xp)
{
	channel_begin_closing(xp_chan_user(xp));
}

static void channel_on_closed(struct xp_chan *xp, const struct error *why)
{
	struct channel *ch = xp_chan_user(xp);

	channel_note_end(ch, why->text);
	channel_become_closed(ch);
}

void channel_close(struct channel *ch, const char *why)
{
	switch (ch->state) {
	case CHANNEL_NEW:
		/* The message to close never arrives before the message to
		 * start. */
		assert(!"closed before it was started");
		return;
	case CHANNEL_ACCEPTING:
	case CHANNEL_OPEN:
	case CHANNEL_DRAINING:
		channel_note_end(ch, why);
		xp_close(ch->xp);
		return;
	case CHANNEL_CLOSING:
	case CHANNEL_CLOSED:
	case CHANNEL_GONE:
		return;
	}
}

/* ---- IUs that the target sends unasked ---- */

/* Sends @len bytes of the response memory of ch->unasked.req. */
static void channel_post_unasked(struct channel *ch, int len,
				 void (*done)(struct xp_chain *chain,
					      int status))
{
	assert(len > 0 && !ch->unasked.posted);
	ch->unasked.posted = true;
	ch->unasked.posted_us = watchdog_posted(ch);
	ch->unasked.chain = (struct xp_chain){
		.send = { { .addr = ch->unasked.req->rsp,
			    .len = (uint32_t)len,
			    .mr = request_rsp_mr(ch->unasked.req) } },
		.send_cnt = 1,
		.done = done,
	};
	xp_post(ch->xp, &ch->unasked.chain);
}

static void channel_logout_done(struct xp_chain *chain, int status)
{
	struct channel *ch = container_of(chain, struct channel, unasked.chain);

	ch->unasked.posted = false;
	channel_close(ch, ch->end_why);
}

/* Requests that somebody waits for. An answer of one that lingers may be under
 * way. */
static bool channel_has_requests(const struct channel *ch)
{
	struct list *it;

	list_for_each(it, &ch->requests.busy) {
		if (container_of(it, struct request, node)->state !=
		    REQUEST_LINGERING)
			return true;
	}
	return false;
}

/* When all requests are answered, sends SRP_T_LOGOUT if the target stops, then
 * closes. An initiator that has never sent a command gets no SRP_T_LOGOUT: it
 * may have posted no receive. */
static void channel_close_if_drained(struct channel *ch)
{
	struct srp_t_logout logout = { .tag = ch->unasked.tag };

	if (ch->state != CHANNEL_DRAINING || channel_has_requests(ch) ||
	    ch->unasked.posted)
		return;
	if (!ch->sends_logout || !ch->had_command) {
		channel_close(ch, ch->end_why);
		return;
	}
	ch->sends_logout = false;
	channel_post_unasked(ch,
			     srp_t_logout_encode(ch->unasked.req->rsp,
						 CHANNEL_RSP_SIZE, &logout),
			     channel_logout_done);
}

void channel_drain(struct channel *ch, const char *why)
{
	if (ch->state == CHANNEL_ACCEPTING) {
		channel_close(ch, why);
		return;
	}
	if (ch->state != CHANNEL_OPEN)
		return;
	channel_note_end(ch, why);
	channel_enter(ch, CHANNEL_DRAINING);
	channel_drop_waiting(ch);
	reactor_timer_set(ch->worker->reactor, &ch->timer, CHANNEL_DRAIN_MS);
	channel_close_if_drained(ch);
}

static void channel_timed_out(struct reactor_timer *t)
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

static int channel_accept(struct channel *ch, struct error *e)
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
	int err = channel_reserve_requests(ch, e);

	if (err)
		return err;
	ch->meter = meter_share(ch->nexus->meter, ch->worker->index);
	if (!ch->meter)
		return error_set(e, -ENOMEM, "out of memory");
	srp_login_rsp_encode(pdata, sizeof(pdata), &ch->login_rsp);
	ch->conn = NULL;
	return xp_accept(xp, conn, &params, &ch->xp, e);
}

static bool channel_lives(struct block_sender *sender)
{
	return xp_chan_lives(container_of(sender, struct channel, sender)->xp);
}

static void channel_ask(struct block_sender *sender)
{
	xp_chan_ask(container_of(sender, struct channel, sender)->xp);
}

static void channel_on_heard(struct xp_chan *xp)
{
	struct channel *ch = xp_chan_user(xp);

	block_sender_heard(&ch->sender);
}

static void channel_run_start(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.start);
	struct error e = { 0 };

	block_sender_init(&ch->sender, channel_lives, channel_ask);
	list_add_tail(&ch->worker->channels, &ch->worker_node);
	channel_enter(ch, CHANNEL_ACCEPTING);
	reactor_timer_set(ch->worker->reactor, &ch->timer,
			  CHANNEL_HALF_OPEN_MS);
	if (channel_accept(ch, &e) == 0)
		return;
	channel_note_end(ch, e.text);
	channel_become_closed(ch);
}

static void channel_on_established(struct xp_chan *xp, const void *pdata,
				   size_t len)
{
	struct channel *ch = xp_chan_user(xp);

	reactor_timer_stop(&ch->timer);
	channel_enter(ch, CHANNEL_OPEN);
	ch->logged_in = true;
	ch->negotiated = *xp_chan_negotiated(xp);
	port_channel_opened(ch);
	PROBE(rdma_target, login, ch->nexus->name, ch->number);
	channel_log_login(ch);
}

/* ---- credits ---- */

static void channel_send_unasked(struct channel *ch);

static void channel_unasked_done(struct xp_chain *chain, int status)
{
	struct channel *ch = container_of(chain, struct channel, unasked.chain);

	ch->unasked.posted = false;
	channel_send_unasked(ch);
	channel_close_if_drained(ch);
}

/* Only one IU at a time, and only after the response to the last one. */
static bool channel_may_send_unasked(const struct channel *ch)
{
	return ch->state == CHANNEL_OPEN && !ch->unasked.posted &&
	       !ch->unasked.unanswered;
}

/* The next answer returns the owed credits. A request in flight may hang, so the
 * initiator must be able to send another one. */
static bool channel_awaits_answer(const struct channel *ch)
{
	return ch->ledger.busy > 0 && !srp_ledger_is_short(&ch->ledger);
}

/*
 * Returns the credits of commands that ended without an answer, if no other
 * request of the channel can return them. Without this, the initiator might
 * wait for them forever.
 */
static void channel_return_credits(struct channel *ch)
{
	struct srp_cred_req cred = { .tag = ch->unasked.tag };

	if (!channel_may_send_unasked(ch) || channel_awaits_answer(ch))
		return;
	cred.req_lim_delta = srp_ledger_settle(&ch->ledger);
	ch->unasked.tag++;
	ch->unasked.unanswered = SRP_CRED_RSP;
	channel_post_unasked(ch,
			     srp_cred_req_encode(ch->unasked.req->rsp,
						 CHANNEL_RSP_SIZE, &cred),
			     channel_unasked_done);
}

/* ---- asynchronous events ---- */

static const enum scsi_asc channel_event_codes[CHANNEL_EVENTS] = {
	[CHANNEL_LUNS_CHANGED] = SCSI_ASC_REPORTED_LUNS_CHANGED,
	[CHANNEL_ACCESS_CHANGED] = SCSI_ASC_ACCESS_STATE_CHANGED,
	[CHANNEL_CAPACITY_CHANGED] = SCSI_ASC_CAPACITY_CHANGED,
};

/* Takes a LUN out of a set; -1: it is empty. */
static int channel_take_lun(_Atomic uint64_t luns[LUNS_MAX / 64])
{
	for (unsigned int i = 0; i < LUNS_MAX / 64; i++) {
		uint64_t bits = atomic_load(&luns[i]);
		int bit = bits ? __builtin_ctzll(bits) : 0;

		if (!bits)
			continue;
		atomic_fetch_and(&luns[i], ~(1ull << bit));
		return (int)i * 64 + bit;
	}
	return -1;
}

/* Takes a LUN to report, and what there is to report of it; -1: none. */
static int channel_take_aer(struct channel *ch, enum scsi_asc *ret_code)
{
	for (unsigned int event = 0; event < CHANNEL_EVENTS; event++) {
		int lun = channel_take_lun(ch->aer.luns[event]);

		*ret_code = channel_event_codes[event];
		if (lun >= 0)
			return lun;
	}
	return -1;
}

static void channel_report_lun(struct channel *ch)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_UNIT_ATTENTION,
					     SCSI_ASC_NO_ADDITIONAL_SENSE);
	enum scsi_asc code;
	uint8_t bytes[SCSI_SENSE_MAX_LEN];
	struct srp_aer_req aer = { .tag = ch->unasked.tag, .sense = bytes };
	int lun;

	if (!channel_may_send_unasked(ch) || !ch->had_command)
		return;
	lun = channel_take_aer(ch, &code);
	if (lun < 0)
		return;
	sense.code = code;
	srp_lun_encode((uint32_t)lun, &aer.lun);
	aer.sense_len = (uint32_t)scsi_sense_encode(
		&sense,
		volume_sense_format(
			scsi_nexus_slot(&ch->nexus->scsi, (unsigned int)lun)),
		bytes, sizeof(bytes));
	aer.req_lim_delta = srp_ledger_settle(&ch->ledger);
	ch->unasked.tag++;
	ch->unasked.unanswered = SRP_AER_RSP;
	channel_post_unasked(ch,
			     srp_aer_req_encode(ch->unasked.req->rsp,
						CHANNEL_RSP_SIZE, &aer),
			     channel_unasked_done);
}

static void channel_run_aer(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, aer.msg);

	/* From here on another message may be sent. */
	atomic_store(&ch->aer.sent, false);
	channel_report_lun(ch);
}

static void channel_send_unasked(struct channel *ch)
{
	if (ch->ledger.owed > 0)
		channel_return_credits(ch);
	if (ch->aer.wanted)
		channel_report_lun(ch);
}

/* SRP_CRED_RSP, SRP_AER_RSP */
static void channel_response_arrived(struct channel *ch, uint8_t opcode)
{
	if (ch->unasked.unanswered != opcode) {
		channel_complain(ch,
				 "%s without a request of the target; closing",
				 srp_opcode_name(opcode));
		channel_close(ch, "spurious response from the initiator");
		return;
	}
	ch->unasked.unanswered = 0;
	channel_send_unasked(ch);
}

/* ---- requests ---- */

static inline void channel_start_request(struct channel *ch, struct xp_iu *iu)
{
	struct request *req = request_pool_get(&ch->worker->requests);
	const uint8_t *opcode = iu->data;

	req->ch = ch;
	req->task.blk.owner.sender = &ch->sender;
	ch->requests.cnt++;
	list_add_tail(&ch->requests.busy, &req->node);
	ch->had_command = true;
	req->seq = ch->worker->next_seq++;
	if (*opcode == SRP_CMD)
		request_start(req, iu);
	else
		task_mgmt_start(req, iu);
}

static void channel_start_waiting(struct channel *ch)
{
	while (ch->state == CHANNEL_OPEN && ch->waiting.cnt > 0 &&
	       ch->requests.cnt < CHANNEL_REQUESTS) {
		struct xp_iu *iu = ch->waiting.ius[ch->waiting.first];

		ch->waiting.first = (ch->waiting.first + 1) % CHANNEL_REQ_LIM;
		ch->waiting.cnt--;
		channel_start_request(ch, iu);
	}
}

/* An initiator that sends one request at a time sends the next one soon. One
 * that sends many at a time also has a few that arrive while no other is in
 * flight. */
#define SINGLE_MIN 4

static void channel_expect_next(struct channel *ch)
{
	struct worker *w = ch->worker;

	if (ch->requests.single < SINGLE_MIN || ch->requests.cnt > 0 ||
	    w->expects)
		return;
	w->expects = true;
	reactor_await(w->reactor, 1);
}

static void channel_stop_expecting(struct worker *w)
{
	if (!w->expects)
		return;
	w->expects = false;
	reactor_await(w->reactor, -1);
}

void channel_request_lingers(struct channel *ch)
{
	if (ch->requests.blocked > 0)
		request_start_blocked(ch);
	if (ch->ledger.owed > 0)
		channel_send_unasked(ch);
	if (ch->state == CHANNEL_DRAINING)
		channel_close_if_drained(ch);
}

void channel_request_ended(struct channel *ch, struct request *req)
{
	list_del(&req->node);
	ch->requests.cnt--;
	request_pool_put(&ch->worker->requests, req);
	if (ch->requests.blocked > 0)
		request_start_blocked(ch);
	if (ch->waiting.cnt > 0)
		channel_start_waiting(ch);
	channel_expect_next(ch);
	if (ch->ledger.owed > 0 || ch->aer.wanted)
		channel_send_unasked(ch);
	if (ch->state == CHANNEL_DRAINING)
		channel_close_if_drained(ch);
	if (ch->state == CHANNEL_CLOSED && list_empty(&ch->requests.busy))
		channel_become_gone(ch);
}

/* SRP_CMD and SRP_TSK_MGMT cost a credit and need a free request. */
static void channel_request_arrived(struct channel *ch, struct xp_iu *iu)
{
	channel_stop_expecting(ch->worker);
	ch->requests.single =
		ch->requests.cnt == 0 ? ch->requests.single + 1 : 0;
	if (!srp_ledger_take(&ch->ledger)) {
		xp_iu_release(iu);
		channel_complain(ch,
				 "more than %u requests unanswered, which is "
				 "its request limit; closing",
				 ch->ledger.granted);
		channel_close(ch, "the initiator exceeded its request limit");
		return;
	}
	if (ch->ledger.owed > 0)
		channel_send_unasked(ch);
	if (ch->waiting.cnt > 0 || ch->requests.cnt == CHANNEL_REQUESTS) {
		/* The credits limit how many IUs wait. */
		assert(ch->waiting.cnt < CHANNEL_REQ_LIM);
		ch->waiting.ius[(ch->waiting.first + ch->waiting.cnt++) %
				CHANNEL_REQ_LIM] = iu;
		return;
	}
	channel_start_request(ch, iu);
}

static void channel_bad_opcode(struct channel *ch, uint8_t opcode)
{
	channel_complain(ch,
			 "IU with opcode 0x%02x (%s) is not for a target; "
			 "closing",
			 opcode, srp_opcode_name(opcode));
	channel_close(ch, "invalid IU type received");
}

static void channel_on_received(struct xp_chan *xp, struct xp_iu *iu)
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
		channel_request_arrived(ch, iu);
		return;
	case SRP_CRED_RSP:
	case SRP_AER_RSP:
		channel_response_arrived(ch, head.opcode);
		break;
	case SRP_I_LOGOUT:
		channel_close(ch, "the initiator logged out");
		break;
	default:
		channel_bad_opcode(ch, head.opcode);
		break;
	}
	xp_iu_release(iu);
}

static const struct xp_handler channel_handler = {
	.established = channel_on_established,
	.received = channel_on_received,
	.closing = channel_on_closing,
	.heard = channel_on_heard,
	.closed = channel_on_closed,
};
