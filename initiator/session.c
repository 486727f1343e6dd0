/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "protocol/srp_iu.h"

/*
 * As many as ib_srp has in flight. ib_srpt grants 128, but posts the receive of
 * a command with immediate data again only after its answer has been
 * acknowledged, though the answer gives the credit back: with all credits in
 * use it runs out of receives at times.
 */
#define DEFAULT_DEPTH	   64u
#define DEPTH_MAX	   4096u
#define DEFAULT_TIMEOUT_MS 5000u

/* As ib_srp: 8 KiB of data behind the header. */
#define MAX_IT_IU_LEN (SRP_IMM_OFFSET + 8192)

/* Unit attentions and other reasons to send a command again. */
#define TRIES_MAX      8
#define BUSY_TRIES_MAX 3000
#define BUSY_DELAY_MS  10

static void connect_next(struct srpi_session *s);
static void begin_end(struct srpi_session *s);
static void maybe_gone(struct srpi_session *s);

/* The one door between states. */
static void session_enter(struct srpi_session *s, enum srpi_state state,
			  const struct srpi_error *why)
{
	s->state = state;
	if (state == SRPI_LOST && s->options.state_changed)
		s->options.state_changed(s, state, why, s->options.state_arg);
}

/* ---- commands ---- */

static struct ini_channel *pick_channel(struct srpi_session *s)
{
	struct ini_channel *best = NULL;

	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		struct ini_channel *ch = s->channels[i];

		if (ini_channel_can_send(ch) &&
		    (!best || ch->busy < best->busy))
			best = ch;
	}
	return best;
}

static void send_waiting(struct srpi_session *s)
{
	struct ini_channel *ch;

	while (!list_empty(&s->waiting) && (ch = pick_channel(s))) {
		struct list *it = list_pop(&s->waiting);

		ini_channel_send(ch, container_of(it, struct ini_cmd, node));
	}
}

static void cmd_done(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	s->cmds--;
	cmd->done(cmd, err);
}

static void run_undone(struct reactor_msg *msg)
{
	struct srpi_session *s =
		container_of(msg, struct srpi_session, undone_msg);
	struct list *it;

	s->undone_sent = false;
	while ((it = list_pop(&s->undone))) {
		struct ini_cmd *cmd = container_of(it, struct ini_cmd, node);

		cmd_done(s, cmd, cmd->err);
	}
	maybe_gone(s);
}

static void queue_undone(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	cmd->err = err;
	list_add_tail(&s->undone, &cmd->node);
	if (!s->undone_sent) {
		s->undone_sent = true;
		reactor_send(s->ctx->reactor, &s->undone_msg);
	}
}

void ini_session_refuse(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	s->cmds++;
	queue_undone(s, cmd, err);
}

static bool takes_commands(const struct srpi_session *s)
{
	return !s->closing &&
	       (s->state == SRPI_RUNNING || s->state == SRPI_CONNECTING);
}

void ini_session_submit(struct srpi_session *s, struct ini_cmd *cmd)
{
	cmd->tries = 0;
	cmd->status = 0;
	cmd->has_sense = false;
	cmd->data_len = 0;
	if (!takes_commands(s)) {
		ini_session_refuse(s, cmd, s->closing ? -ECANCELED : -EIO);
		return;
	}
	s->cmds++;
	list_add_tail(&s->waiting, &cmd->node);
	send_waiting(s);
}

static void retry_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, retry_timer);

	list_splice_tail(&s->waiting, &s->retry);
	send_waiting(s);
}

static void answered(struct ini_channel *ch, struct ini_cmd *cmd, int err)
{
	struct srpi_session *s = ch->user;

	cmd->tries++;
	/* A unit that is becoming ready, or being formatted, wants time. */
	if (err == -EAGAIN && cmd->sense.key == SCSI_KEY_NOT_READY)
		err = -EBUSY;
	if (err == -EAGAIN && cmd->tries < TRIES_MAX && takes_commands(s)) {
		list_add_head(&s->waiting, &cmd->node);
		send_waiting(s);
		return;
	}
	if (err == -EBUSY && cmd->tries < BUSY_TRIES_MAX && takes_commands(s)) {
		if (list_empty(&s->retry))
			reactor_timer_set(s->ctx->reactor, &s->retry_timer,
					  BUSY_DELAY_MS);
		list_add_tail(&s->retry, &cmd->node);
		return;
	}
	cmd_done(s, cmd, err == -EAGAIN || err == -EBUSY ? -EIO : err);
}

static void lost(struct ini_channel *ch, struct ini_cmd *cmd)
{
	struct srpi_session *s = ch->user;

	/* While connecting the command is discovery's. */
	cmd_done(s, cmd,
		 s->closing || s->state == SRPI_CONNECTING ? -ECANCELED : -EIO);
}

/* Everything that has not been sent fails. */
static void refuse_waiting(struct srpi_session *s, int err)
{
	struct list *it;

	reactor_timer_stop(&s->retry_timer);
	list_splice_tail(&s->waiting, &s->retry);
	while ((it = list_pop(&s->waiting)))
		queue_undone(s, container_of(it, struct ini_cmd, node), err);
}

static void ready(struct ini_channel *ch)
{
	send_waiting(ch->user);
}

/* ---- the end ---- */

static bool all_closed(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		if (s->channels[i]->state != INI_CHANNEL_CLOSED)
			return false;
	}
	return true;
}

static void free_channels(struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->channel_cnt; i++)
		ini_channel_free(s->channels[i]);
	s->channel_cnt = 0;
}

static void session_free(struct srpi_session *s)
{
	free_channels(s);
	ini_discovery_free(s);
	srpi_mem_free(s->zeroes_mem);
	free(s->zeroes);
	free(s->volumes);
	if (s->addrs)
		freeaddrinfo(s->addrs);
	s->ctx->sessions--;
	free(s);
}

/* After srpi_close(): is the last completion in? */
static void maybe_gone(struct srpi_session *s)
{
	void (*done)(void *arg) = s->closed;
	void *arg = s->closed_arg;

	if (!s->closing || !s->started || s->undone_sent || s->cmds > 0 ||
	    !all_closed(s))
		return;
	session_free(s);
	if (done)
		done(arg);
}

static void begin_end(struct srpi_session *s)
{
	reactor_timer_stop(&s->answer_timer);
	refuse_waiting(s, s->closing ? -ECANCELED : -EIO);
	for (unsigned int i = 0; i < s->channel_cnt; i++)
		ini_channel_close(s->channels[i]);
}

void srpi_close(struct srpi_session *s, void (*closed)(void *arg), void *arg)
{
	s->closed = closed;
	s->closed_arg = arg;
	s->closing = true;
	session_enter(s, SRPI_CLOSED, NULL);
	begin_end(s);
	/* maybe_gone() must not run from within: by way of a message. */
	if (!s->undone_sent) {
		s->undone_sent = true;
		reactor_send(s->ctx->reactor, &s->undone_msg);
	}
}

/* ---- connecting ---- */

static void connect_over(struct srpi_session *s, int err)
{
	void (*done)(struct srpi_session *, const struct srpi_error *, void *) =
		s->connected;

	s->connected = NULL;
	reactor_timer_stop(&s->answer_timer);
	if (err) {
		session_enter(s, SRPI_CLOSED, &s->error);
		begin_end(s);
	} else {
		/* Of ways that were tried before this one. */
		memset(&s->error, 0, sizeof(s->error));
		session_enter(s, SRPI_RUNNING, NULL);
	}
	if (done)
		done(s, &s->error, s->connected_arg);
}

static int open_channel(struct srpi_session *s, enum srp_multichan multichan,
			struct xp_error *e);

/* All volumes are known: the other channels, as many as the target admits. */
static void next_channel(struct srpi_session *s)
{
	struct xp_error e = { 0 };

	if (s->channel_cnt < s->options.channels &&
	    open_channel(s, SRP_MULTICHAN_MULTI, &e) == 0)
		return;
	connect_over(s, 0);
}

static void discovered(struct srpi_session *s, int err)
{
	reactor_timer_stop(&s->answer_timer);
	ini_discovery_free(s);
	if (s->closing || s->state != SRPI_CONNECTING)
		return;
	if (err == -ECANCELED)
		return; /* the end of the channel follows and says why */
	if (err)
		connect_over(s, err);
	else
		next_channel(s);
}

static void answer_overdue(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, answer_timer);

	ini_say_no_answer(s);
	connect_over(s, s->error.err);
}

void ini_session_await_answer(struct srpi_session *s)
{
	reactor_timer_set(s->ctx->reactor, &s->answer_timer,
			  s->options.timeout_ms);
}

static int make_zeroes(struct srpi_session *s)
{
	s->zeroes = aligned_alloc(4096, INI_ZEROES_LEN);
	if (!s->zeroes) {
		ini_error_set(&s->error, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	memset(s->zeroes, 0, INI_ZEROES_LEN);
	return srpi_mem_register(s, s->zeroes, INI_ZEROES_LEN, &s->zeroes_mem,
				 &s->error);
}

static void running(struct ini_channel *ch)
{
	struct srpi_session *s = ch->user;
	int err;

	if (s->connected && s->channel_cnt > 1) {
		next_channel(s);
		return;
	}
	err = make_zeroes(s);
	if (!err)
		err = ini_discover(s, discovered, &s->error);
	if (err)
		connect_over(s, err);
}

/* Errors that say "not by this way": another transport may have one. */
static bool is_unroutable(int err)
{
	return err == -ENODEV || err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EADDRNOTAVAIL;
}

/* From the first address over RDMA to the last over TCP. */
static bool next_way(struct srpi_session *s, const struct xp_error *why)
{
	if (s->addr->ai_next) {
		s->addr = s->addr->ai_next;
		return true;
	}
	if (s->uri.transport != SRP_URI_AUTO || s->kind != XP_VERBS ||
	    !is_unroutable(why->err))
		return false;
	s->kind = XP_TCP;
	s->addr = s->addrs;
	snprintf(s->why, sizeof(s->why), "no RDMA device reaches %s",
		 s->uri.host);
	return true;
}

/* The first channel could not log in. A target that says no is the one that
 * was meant: no other way is tried. */
static void first_failed(struct srpi_session *s, struct ini_channel *ch)
{
	bool rejected = ini_say_no_login(s, ch, &ch->why);
	struct xp_error why = ch->why;

	free_channels(s);
	if (!rejected && next_way(s, &why))
		connect_next(s);
	else
		connect_over(s, s->error.err);
}

/* A further channel could not log in: we go on with those that we have. */
static void further_failed(struct srpi_session *s, struct ini_channel *ch)
{
	s->channel_cnt--;
	ini_channel_free(ch);
	connect_over(s, 0);
}

static void channel_closed(struct ini_channel *ch)
{
	struct srpi_session *s = ch->user;
	bool connecting = s->connected != NULL;

	if (s->closing) {
		maybe_gone(s);
		return;
	}
	if (connecting && s->channel_cnt == 1 && !ch->logged_in) {
		first_failed(s, ch);
		return;
	}
	if (connecting && !ch->logged_in) {
		further_failed(s, ch);
		return;
	}
	if (s->state != SRPI_RUNNING && !connecting)
		return;
	ini_say_lost(s, ch);
	if (connecting) {
		connect_over(s, s->error.err);
		return;
	}
	session_enter(s, SRPI_LOST, &s->error);
	begin_end(s);
}

static const struct ini_channel_events events = {
	.running = running,
	.ready = ready,
	.answered = answered,
	.lost = lost,
	.closed = channel_closed,
};

static int open_channel(struct srpi_session *s, enum srp_multichan multichan,
			struct xp_error *e)
{
	const struct srp_login_req login = {
		.it_iu_len = s->options.no_immediate_data
				     ? SRP_CMD_SIZE + SRP_INDIRECT_HDR +
					       12 * SRP_DESC_SIZE
				     : MAX_IT_IU_LEN,
		.formats = SRP_FORMATS,
		.multichan = multichan,
		.imm_data = !s->options.no_immediate_data,
		.imm_offset = s->options.no_immediate_data ? 0 : SRP_IMM_OFFSET,
		.initiator = s->initiator,
		.target = s->uri.target,
	};
	int err;

	err = ini_channel_open(s->xp, s->addr->ai_addr, s->addr->ai_addrlen,
			       &login, s->options.queue_depth,
			       s->options.timeout_ms, &events, s,
			       &s->channels[s->channel_cnt], e);
	if (!err)
		s->channel_cnt++;
	return err;
}

/* Tries s->addr over s->kind; a way that fails at once leads to the next. */
static void connect_next(struct srpi_session *s)
{
	struct xp_error e = { 0 };
	int err;

	do {
		err = ini_ctx_xp(s->ctx, s->kind, &s->xp, &e);
		if (!err)
			err = open_channel(s, SRP_MULTICHAN_SINGLE, &e);
		if (!err)
			return;
		e.err = err;
	} while (next_way(s, &e));
	ini_say_no_login(s, NULL, &e);
	connect_over(s, s->error.err);
}

static void start(struct reactor_msg *msg)
{
	struct srpi_session *s =
		container_of(msg, struct srpi_session, start_msg);

	s->started = true;
	if (s->closing)
		maybe_gone(s);
	else
		connect_next(s);
}

static int resolve(struct srpi_session *s, struct srpi_error *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG };
	char port[8];
	int err;

	snprintf(port, sizeof(port), "%u", s->uri.port);
	err = getaddrinfo(s->uri.host, port, &hints, &s->addrs);
	if (err) {
		ini_error_set(e, -EHOSTUNREACH,
			      "cannot log in to '%s': the host name: %s; check "
			      "its spelling",
			      s->uri.host, gai_strerror(err));
		return -EHOSTUNREACH;
	}
	s->addr = s->addrs;
	return 0;
}

static void choose_transport(struct srpi_session *s)
{
	if (s->uri.transport == SRP_URI_TCP) {
		s->kind = XP_TCP;
	} else if (s->uri.transport == SRP_URI_RDMA || xp_verbs_present()) {
		s->kind = XP_VERBS;
	} else {
		s->kind = XP_TCP;
		snprintf(s->why, sizeof(s->why),
			 "this machine has no RDMA device");
	}
}

/* A login of the same port identifier ends an older session: be unique. */
static void choose_initiator(struct srpi_session *s)
{
	if (s->uri.has_initiator)
		s->initiator = s->uri.initiator;
	else if (getrandom(&s->initiator, sizeof(s->initiator), 0) !=
		 sizeof(s->initiator))
		s->initiator = srp_port_id_make((uintptr_t)s, getpid());
}

static void set_options(struct srpi_session *s,
			const struct srpi_options *options)
{
	struct srpi_options *o = &s->options;

	if (options)
		*o = *options;
	if (o->channels == 0)
		o->channels = 1;
	if (o->channels > INI_CHANNELS_MAX)
		o->channels = INI_CHANNELS_MAX;
	if (o->queue_depth == 0)
		o->queue_depth = DEFAULT_DEPTH;
	if (o->queue_depth > DEPTH_MAX)
		o->queue_depth = DEPTH_MAX;
	if (o->timeout_ms == 0)
		o->timeout_ms = DEFAULT_TIMEOUT_MS;
}

int srpi_connect(struct srpi_ctx *ctx, const char *uri,
		 const struct srpi_options *options,
		 void (*done)(struct srpi_session *s,
			      const struct srpi_error *e, void *arg),
		 void *arg, struct srpi_session **ret_session,
		 struct srpi_error *e)
{
	struct srpi_session *s = calloc(1, sizeof(*s));
	char msg[SRP_URI_MSG_SIZE];
	int err;

	if (!s) {
		ini_error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	err = srp_uri_parse(uri, &s->uri, msg, sizeof(msg));
	if (err) {
		ini_error_set(e, err, "bad address '%s': %s", uri, msg);
		free(s);
		return err;
	}
	err = resolve(s, e);
	if (err) {
		free(s);
		return err;
	}
	s->ctx = ctx;
	s->connected = done;
	s->connected_arg = arg;
	s->undone_msg.run = run_undone;
	list_init(&s->waiting);
	list_init(&s->undone);
	list_init(&s->retry);
	reactor_timer_init(&s->retry_timer, retry_due);
	reactor_timer_init(&s->answer_timer, answer_overdue);
	set_options(s, options);
	choose_initiator(s);
	choose_transport(s);
	ctx->sessions++;
	*ret_session = s;
	s->start_msg.run = start;
	reactor_send(ctx->reactor, &s->start_msg);
	return 0;
}

enum srpi_state srpi_session_state(const struct srpi_session *s)
{
	return s->state;
}

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info)
{
	const struct ini_channel *ch = s->channels[0];

	*ret_info = (struct srpi_session_info){
		.transport = xp_kind_name(s->kind),
		.why = s->why,
		.device = xp_chan_device(ch->xp),
		.local = xp_chan_local(ch->xp),
		.peer = xp_chan_peer(ch->xp),
		.volume = s->uri.volume,
		.channels = s->channel_cnt,
		.immediate_data = ch->granted.imm_data,
	};
	srp_port_id_format(&s->initiator, ret_info->initiator);
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		unsigned int credits = s->channels[i]->granted.req_lim - 1;

		ret_info->queue_depth += credits < s->channels[i]->slot_cnt
						 ? credits
						 : s->channels[i]->slot_cnt;
	}
}

/* ---- memory ---- */

int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e)
{
	struct srpi_mem *mem = calloc(1, sizeof(*mem));
	struct xp_error xe = { 0 };
	int err;

	if (!mem) {
		ini_error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	mem->session = s;
	err = xp_mr_register(s->xp, addr, len, XP_REMOTE, &mem->mr, &xe);
	if (err) {
		ini_error_set(e, err, "%s", xe.text);
		free(mem);
		return err;
	}
	*ret_mem = mem;
	return 0;
}

void srpi_mem_free(struct srpi_mem *mem)
{
	if (!mem)
		return;
	xp_mr_free(mem->mr);
	free(mem);
}
