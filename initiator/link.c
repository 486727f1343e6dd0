/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The channels of a session. The first channel logs in, which ends any older
 * session of this initiator port. Discovery asks its questions on it. Then the
 * other channels log in. All channels are closed together: when one is lost,
 * nobody knows what the target still does for the nexus. Only a new login with
 * SINGLE ends that.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/key.h"
#include "initiator/session.h"
#include "protocol/srp_iu.h"

/* Like ib_srp: 8 KiB of immediate data behind the header. */
#define MAX_IT_IU_LEN (SRP_IMM_OFFSET + 8192)

/* The first generation of a channel is its number times this; see
 * ini_channel_open(). */
#define GENERATIONS (1u << 20)

/* How often discovery starts again because of changes while it runs. */
#define PASSES_MAX 8

static bool is_first_time(const struct srpi_session *s)
{
	return s->state == SRPI_CONNECTING;
}

static const struct ini_channel_events events;

/* The target did not know the key: the file may have a newer one by now. */
static void link_renew_key(struct srpi_session *s)
{
	int err = s->login_why.err;
	struct xp_key *key;
	struct error ignored;

	if (!s->key || (err != -ENOKEY && err != -EKEYREJECTED) ||
	    ini_key_read(s->uri.key, &key, &ignored))
		return;
	ini_key_free(s->key);
	s->key = key;
}

static int open_channel(struct srpi_session *s, enum srp_multichan multichan,
			unsigned int timeout_ms, struct error *e)
{
	const struct addrinfo *addr = ini_path_now(s)->addr;
	const struct ini_channel_params params = {
		.addr = addr->ai_addr,
		.addr_len = addr->ai_addrlen,
		.route = &s->uri.route,
		.key = s->key,
		.login = {
			.it_iu_len = s->options.no_immediate_data
					     ? SRP_CMD_SIZE + SRP_INDIRECT_HDR +
						       12 * SRP_DESC_SIZE
					     : MAX_IT_IU_LEN,
			.formats = SRP_FORMATS,
			.multichan = multichan,
			.aer = true,
			.imm_data = !s->options.no_immediate_data,
			.imm_offset = s->options.no_immediate_data
					      ? 0
					      : SRP_IMM_OFFSET,
			.initiator = s->initiator,
			.target = s->uri.target,
		},
		.depth = s->options.queue_depth,
		.generation = s->opened++ * GENERATIONS,
		.timeout_ms = timeout_ms,
		.events = &events,
		.user = s,
	};
	int err;

	err = ini_channel_open(s->xp, &params, &s->channels[s->channel_cnt], e);
	if (!err)
		s->channel_cnt++;
	return err;
}

/* ---- down ---- */

static bool all_closed(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		if (s->channels[i]->state != INI_CHANNEL_CLOSED)
			return false;
	}
	return true;
}

/* From here on no RDMA can touch the memory of commands. */
static void link_settle(struct srpi_session *s)
{
	if (!all_closed(s))
		return;
	for (unsigned int i = 0; i < s->channel_cnt; i++)
		ini_channel_free(s->channels[i]);
	s->channel_cnt = 0;
	ini_queue_down(s);
	ini_reconnect_down(s);
}

void ini_link_end(struct srpi_session *s)
{
	s->link = INI_LINK_DOWN;
	reactor_timer_stop(&s->answer_timer);
	for (unsigned int i = 0; i < s->channel_cnt; i++)
		ini_channel_close(s->channels[i]);
	link_settle(s);
}

/* ---- coming up ---- */

/* s->error says why; the link is not up yet. */
static void link_attempt_failed(struct srpi_session *s)
{
	uint32_t reason = (uint32_t)-s->error.err;

	if (is_first_time(s))
		ini_connect_failed(s);
	else
		ini_reconnect_failed(s, reason);
}

/* Keeps what srpi_session_info() reports when the channels are closed. */
static void note_connection(struct srpi_session *s)
{
	const struct ini_channel *ch = s->channels[0];

	snprintf(s->conn.device, sizeof(s->conn.device), "%s",
		 xp_chan_device(ch->xp));
	snprintf(s->conn.local, sizeof(s->conn.local), "%s",
		 xp_chan_local(ch->xp));
	snprintf(s->conn.peer, sizeof(s->conn.peer), "%s",
		 xp_chan_peer(ch->xp));
	s->conn.negotiated = *xp_chan_negotiated(ch->xp);
	s->conn.gid[0] = '\0';
	if (s->conn.negotiated.mtu)
		xp_gid_text(s->conn.negotiated.gid, s->conn.gid);
	s->conn.immediate_data = ch->granted.imm_data;
	s->conn.up_cnt = s->channel_cnt;
	s->conn.in_flight = 0;
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		unsigned int credits = s->channels[i]->granted.req_lim - 1;
		unsigned int slots = s->channels[i]->slot_cnt;

		s->conn.in_flight += credits < slots ? credits : slots;
	}
}

static void ask_volumes(struct srpi_session *s);

static void link_came_up(struct srpi_session *s)
{
	if (s->look_again) {
		ask_volumes(s);
		return;
	}
	s->link = INI_LINK_UP;
	note_connection(s);
	if (is_first_time(s))
		ini_connect_up(s);
	else
		ini_reconnect_up(s);
}

/* All volumes are known. Opens the other channels, as many as the target
 * admits. */
static void next_channel(struct srpi_session *s)
{
	struct error e = { 0 };

	s->link = INI_LINK_MORE;
	s->conn.fewer[0] = '\0';
	if (s->channel_cnt < ini_options_channels(&s->options, s->kind)) {
		if (open_channel(s, SRP_MULTICHAN_MULTI, s->options.timeout_ms,
				 &e) == 0)
			return;
		ini_note_fewer_channels(s, NULL, &e);
	}
	link_came_up(s);
}

/* By its name, or by its LUN at the first login: it may have another one later. */
static bool link_is_named(const struct srpi_session *s,
			  const struct ini_volume *v)
{
	const char *name = s->uri.volume;

	return *name && (strcmp(name, v->info.name) == 0 ||
			 ini_volume_has_number(v, name));
}

/* The first login is an attempt with no known volumes. It fails if the volume that
 * the URI names cannot describe itself; and if none can. */
static int link_learn_volumes(struct srpi_session *s)
{
	bool misses = false;
	struct ini_volume *found;
	unsigned int cnt;
	int err = 0;

	ini_volumes_free(s);
	ini_discovery_take(s, &found, &cnt);
	for (unsigned int i = 0; !err && i < cnt; i++) {
		found[i].is_named = link_is_named(s, &found[i]);
		if (found[i].is_known)
			err = ini_volumes_add(s, &found[i]);
		else
			misses |= found[i].is_named;
	}
	free(found);
	if (err)
		return error_set(&s->error, err, "out of memory");
	if (!s->not_ready.err || s->options.follow_volumes ||
	    (s->volume_cnt && !misses))
		return 0;
	s->error = s->not_ready;
	return s->error.err;
}

static void link_discovered(struct srpi_session *s, int err)
{
	bool over = s->link != INI_LINK_ASKING || s->closing;

	reactor_timer_stop(&s->answer_timer);
	if (!over && !err && s->look_again) {
		ini_discovery_free(s);
		ask_volumes(s);
		return;
	}
	/* Otherwise the channel has ended or is ending, which tells the
	 * reason. */
	if (!over && !err && is_first_time(s)) {
		err = link_learn_volumes(s);
		over = !err && !ini_connect_check(s);
	} else if (!over && !err) {
		over = !ini_reconnect_check(s) || s->closing;
	}
	ini_discovery_free(s);
	if (over || err == -ECANCELED)
		return;
	if (err)
		link_attempt_failed(s);
	else
		next_channel(s);
}

static void answer_overdue(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, answer_timer);

	ini_error_no_answer(s);
	link_attempt_failed(s);
}

void ini_session_await_answer(struct srpi_session *s)
{
	reactor_timer_set(s->ctx->reactor, &s->answer_timer,
			  s->options.timeout_ms);
}

static int link_make_zeroes(struct srpi_session *s)
{
	if (s->zeroes)
		return 0;
	s->zeroes = aligned_alloc(4096, INI_ZEROES_LEN);
	if (!s->zeroes) {
		error_set(&s->error, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	memset(s->zeroes, 0, INI_ZEROES_LEN);
	return ini_mem_register(s, s->zeroes, INI_ZEROES_LEN, &s->zeroes_mem,
				&s->error);
}

static void ask_volumes(struct srpi_session *s)
{
	int err;

	s->link = INI_LINK_ASKING;
	s->look_again = false;
	if (s->passes++ == PASSES_MAX) {
		ini_error_keeps_changing(s);
		link_attempt_failed(s);
		return;
	}
	err = link_make_zeroes(s);
	if (!err)
		err = ini_discover(s, link_discovered, &s->error);
	if (err) {
		ini_discovery_free(s);
		link_attempt_failed(s);
	}
}

static void link_logged_in(struct ini_channel *ch)
{
	struct srpi_session *s = ch->user;

	if (s->link == INI_LINK_MORE) {
		next_channel(s);
		return;
	}
	ini_path_now(s)->logged_in = true;
	if (ini_reconnect_refuses(s, &ch->granted))
		ini_link_end(s);
	else
		ask_volumes(s);
}

/* Does @sense concern only volumes that are absent? */
static bool link_is_of_absent(struct srpi_session *s, uint64_t lun_field,
			      const struct scsi_sense *sense, bool asked)
{
	const struct ini_volume *v = ini_volumes_find(s, lun_field);

	if (!sense || sense->code == SCSI_ASC_REPORTED_LUNS_CHANGED)
		return false;
	return v ? v->state != SRPI_RUNNING : asked;
}

void ini_link_look_again(struct srpi_session *s, uint64_t lun_field,
			 const struct scsi_sense *sense, bool asked)
{
	switch (s->link) {
	case INI_LINK_DOWN:
	case INI_LINK_LOGIN:
		return; /* discovery is still to come */
	case INI_LINK_ASKING:
		s->look_again |= !asked || !ini_discovery_settles(s, sense);
		return;
	case INI_LINK_MORE:
		s->look_again = true;
		return;
	case INI_LINK_UP:
		break;
	}
	if (link_is_of_absent(s, lun_field, sense, asked)) {
		ini_absent_look_soon(s);
		return;
	}
	ini_error_volume_changes(s, lun_field, sense);
	ini_reconnect_look(s);
	if (s->closing)
		return;
	if (!s->discovery) {
		ask_volumes(s);
		return;
	}
	/* that of ini_link_look_aside(); its question ends it */
	s->link = INI_LINK_ASKING;
	s->look_again = true;
	ini_session_await_answer(s);
}

static void link_looked_aside(struct srpi_session *s, int err)
{
	struct ini_volume *found;
	unsigned int cnt;

	if (!err) {
		ini_discovery_take(s, &found, &cnt);
		ini_verify_absent(s, found, cnt);
		free(found);
	}
	ini_discovery_free(s);
	if (s->link == INI_LINK_ASKING && s->look_again && !s->closing)
		ask_volumes(s);
}

void ini_link_look_aside(struct srpi_session *s)
{
	struct error e;

	if (s->link != INI_LINK_UP || s->discovery)
		return;
	if (ini_discover(s, link_looked_aside, &e))
		ini_discovery_free(s);
}

int ini_link_begin(struct srpi_session *s, struct error *e)
{
	unsigned int timeout_ms = is_first_time(s)
					  ? s->options.timeout_ms
					  : ini_reconnect_login_timeout(s);
	int err;

	link_renew_key(s);
	err = open_channel(s, SRP_MULTICHAN_SINGLE, timeout_ms, e);

	if (!err)
		s->link = INI_LINK_LOGIN;
	return err;
}

/* ---- what channels tell ---- */

static void link_ready(struct ini_channel *ch)
{
	ini_queue_send(ch->user);
}

/* A further channel could not log in. The session works with those that it
 * has. */
static void further_failed(struct srpi_session *s, struct ini_channel *ch)
{
	s->channel_cnt--;
	ini_note_fewer_channels(s, ch, &ch->why);
	ini_channel_free(ch);
	link_came_up(s);
}

/* The first channel could not log in. */
static void link_refused(struct srpi_session *s, struct ini_channel *ch)
{
	struct srp_login_rej rej;
	uint32_t reason = (uint32_t)-ch->why.err;

	s->link = INI_LINK_DOWN;
	if (is_first_time(s)) {
		s->channel_cnt = 0;
		ini_connect_refused(s, ch);
		return;
	}
	if (ini_channel_rejected(ch, &rej))
		reason = rej.reason;
	ini_error_no_login(s, ch, &ch->why);
	ini_reconnect_failed(s, reason);
}

static void channel_closed(struct ini_channel *ch)
{
	struct srpi_session *s = ch->user;

	switch (s->link) {
	case INI_LINK_DOWN:
		link_settle(s);
		return;
	case INI_LINK_LOGIN:
		link_refused(s, ch);
		return;
	case INI_LINK_MORE:
		if (!ch->logged_in) {
			further_failed(s, ch);
			return;
		}
		break;
	case INI_LINK_ASKING:
		break;
	case INI_LINK_UP:
		ini_reconnect_lost(s, ch);
		return;
	}
	ini_error_connection_lost(s, ch);
	link_attempt_failed(s);
}

static void link_attention(struct ini_channel *ch, uint64_t lun,
			   const struct scsi_sense *sense)
{
	ini_volume_attention(ch->user, lun, sense, /* asked= */ false);
}

static const struct ini_channel_events events = {
	.attention = link_attention,
	.running = link_logged_in,
	.ready = link_ready,
	.answered = ini_queue_answered,
	.lost = ini_queue_lost,
	.closed = channel_closed,
};

void ini_link_init(struct srpi_session *s)
{
	reactor_timer_init(&s->answer_timer, answer_overdue);
}
