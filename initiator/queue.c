/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of a session, sent in the order in which they were submitted. A
 * command without a slot waits. A command whose channel was lost waits, too,
 * and is sent again when the session is RUNNING. All commands have the same
 * effect when they are executed twice. The target ends the old nexus before it
 * accepts the new login, so no command of the old nexus is executed later.
 *
 * A command is not sent again for ever, whatever the other ones do. It fails when it had
 * no answer too often, and when its connection is lost again fast_io_fail_ms after
 * the first time.
 */
#include <errno.h>
#include <string.h>

#include "initiator/session.h"

/*
 * How often a command is sent again, counted for each reason separately. A unit
 * has more than a dozen unit attentions and reports one at a time. New ones may
 * arise before the command gets through.
 */
static const uint16_t tries_max[INI_RETRIES] = {
	[INI_RETRY_ATTENTION] = 64,
	[INI_RETRY_ABORTED] = 8,
	[INI_RETRY_BUSY] = 3000, /* of BUSY_DELAY_MS */
	[INI_RETRY_OVERDUE] = 6, /* five retries, as the kernel's sd */
};

#define BUSY_DELAY_MS 10

/* A unit that is not ready for longer does not hold up the others: BUSY_DELAY_MS. */
#define QUESTION_TRIES 50

#define WATCH_MAX_MS 1000

/*
 * A channel with fewer bytes in flight than this takes the next command. So
 * small I/O stays on the first channel, where SENDs and responses go in batches
 * and keep one thread of the target awake. 64 commands of 4 KiB, all that a
 * channel has credits for.
 */
#define SPREAD_BYTES (256u << 10)

/* ---- no answer ---- */

/* Checks the age of the commands in flight from time to time; or, when none is, how
 * long the others have waited for a credit. */
static void queue_watch(struct srpi_session *s)
{
	int limit = s->options.io_timeout_ms;
	int every = limit / 4;

	if (s->queue.watching || limit < 0)
		return;
	s->queue.watching = true;
	every = every > WATCH_MAX_MS ? WATCH_MAX_MS : every;
	reactor_timer_set(s->ctx->reactor, &s->queue.watch_timer,
			  (uint64_t)(every > 0 ? every : 1));
}

/* @since: for an answer or for a credit. */
static bool queue_is_overdue(const struct srpi_session *s, uint64_t since)
{
	int limit = s->options.io_timeout_ms;

	return limit >= 0 &&
	       reactor_now_us(s->ctx->reactor) - since >= limit * 1000ull;
}

/* @cmd: NULL: there is no credit for any. */
static void queue_time_out(struct srpi_session *s, struct ini_channel *ch,
			   const struct ini_cmd *cmd, uint64_t since)
{
	uint64_t age_us = reactor_now_us(s->ctx->reactor) - since;
	char text[160];

	if (!queue_is_overdue(s, since) || ch->state != INI_CHANNEL_RUNNING)
		return;
	s->stats.timeouts++;
	/* The connection has served, and it is the volume that hangs: what waits for
	 * the others is not late. The commands have limits of their own. */
	s->reconnect.has_served |= cmd && cmd->kind == INI_OPERATION;
	ini_timeout_text(cmd, age_us / 1000, text, sizeof(text));
	ini_channel_fail(ch, -ETIMEDOUT, text);
}

/* Commands wait, and none is in flight: the target has not given back the credits. */
static bool queue_starves(struct srpi_session *s)
{
	bool starves =
		s->state == SRPI_RUNNING && !list_empty(&s->queue.waiting);

	if (!starves)
		s->queue.starved_us = 0;
	else if (!s->queue.starved_us)
		s->queue.starved_us = reactor_now_us(s->ctx->reactor);
	return starves;
}

static void watch_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, queue.watch_timer);
	bool any = false;

	s->queue.watching = false;
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		struct ini_channel *ch = s->channels[i];
		const struct ini_cmd *cmd = ini_channel_oldest(ch);

		any |= cmd != NULL;
		if (cmd)
			queue_time_out(s, ch, cmd, cmd->sent_us);
	}
	if (any) {
		s->queue.starved_us = 0;
		queue_watch(s);
	} else if (queue_starves(s)) {
		queue_time_out(s, s->channels[0], NULL, s->queue.starved_us);
		queue_watch(s);
	}
}

/* ---- sending ---- */

/* The first channel with little to do, or else the one with the least. */
static inline struct ini_channel *pick_channel(struct srpi_session *s)
{
	struct ini_channel *best = NULL;

	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		struct ini_channel *ch = s->channels[i];

		if (!ini_channel_can_send(ch))
			continue;
		if (ch->busy_bytes < SPREAD_BYTES)
			return ch;
		if (!best || ch->busy_bytes < best->busy_bytes)
			best = ch;
	}
	return best;
}

/* The list whose commands may be sent now. */
static struct list *sendable(struct srpi_session *s)
{
	return s->state == SRPI_RUNNING ? &s->queue.waiting : &s->queue.asked;
}

static void queue_send_on(struct srpi_session *s, struct ini_channel *ch,
			  struct ini_cmd *cmd)
{
	cmd->sent_us = reactor_now_us(s->ctx->reactor);
	cmd->sent_no = s->queue.next_sent++;
	s->stats.commands++;
	ini_channel_send(ch, cmd);
	reactor_await(s->ctx->reactor, 1);
	/* If the target is on this machine, its helper is, too. */
	if (!ini_dir_is_in(cmd->dir))
		reactor_helped(s->ctx->reactor);
	queue_watch(s);
}

/* Inserts @cmd by its number. Nearly always that is the end. */
static void queue_insert(struct list *l, struct ini_cmd *cmd)
{
	struct list *after = l->prev;

	while (after != l &&
	       container_of(after, struct ini_cmd, node)->seq > cmd->seq)
		after = after->prev;
	list_add_head(after, &cmd->node);
}

/* Does @cmd wait for its volume? */
static inline bool queue_is_held(const struct ini_cmd *cmd)
{
	return cmd->volume && cmd->volume->state == SRPI_BLOCKED &&
	       cmd->kind == INI_OPERATION;
}

static __attribute__((noinline)) void queue_send_list(struct srpi_session *s,
						      struct list *from)
{
	struct ini_channel *ch;

	while (!list_empty(from) && (ch = pick_channel(s))) {
		struct ini_cmd *cmd =
			container_of(list_pop(from), struct ini_cmd, node);

		if (queue_is_held(cmd))
			queue_insert(&s->queue.held, cmd);
		else
			queue_send_on(s, ch, cmd);
	}
	if (!list_empty(from))
		queue_watch(s);
}

/* Called for each answer, too: mostly nothing waits then. */
void ini_queue_send(struct srpi_session *s)
{
	struct list *from = sendable(s);

	if (!list_empty(from))
		queue_send_list(s, from);
}

/* May @cmd be sent, and does no other command wait for that? */
static bool queue_is_next(struct srpi_session *s, const struct ini_cmd *cmd)
{
	return (s->state == SRPI_RUNNING || cmd->kind == INI_QUESTION) &&
	       list_empty(sendable(s));
}

static void queue_add(struct srpi_session *s, struct ini_cmd *cmd)
{
	if (cmd->volume) /* it may have moved */
		cmd->lun = cmd->volume->lun_field;
	if (queue_is_held(cmd))
		queue_insert(&s->queue.held, cmd);
	else if (cmd->kind == INI_QUESTION && s->state != SRPI_RUNNING)
		list_add_tail(&s->queue.asked, &cmd->node);
	else
		queue_insert(&s->queue.waiting, cmd);
}

static bool queue_is_dead(const struct ini_cmd *cmd)
{
	return cmd->volume && cmd->volume->state == SRPI_LOST;
}

/* The volume is FAIL_FAST or LOST. */
static inline bool queue_is_unready(const struct ini_cmd *cmd)
{
	return cmd->volume && cmd->volume->state > SRPI_BLOCKED;
}

static bool queue_takes(const struct srpi_session *s, const struct ini_cmd *cmd)
{
	if (s->closing || queue_is_unready(cmd))
		return false;
	if (cmd->kind == INI_QUESTION)
		return s->link == INI_LINK_ASKING || s->link == INI_LINK_UP;
	return s->state == SRPI_RUNNING || s->state == SRPI_BLOCKED;
}

/* The result of a command that is not taken. */
static int queue_refusal(const struct srpi_session *s,
			 const struct ini_cmd *cmd)
{
	if (s->closing || cmd->kind == INI_QUESTION)
		return -ECANCELED;
	return queue_is_dead(cmd) ? -ENODEV : -EIO;
}

static void ini_queue_submit(struct srpi_session *s, struct ini_cmd *cmd)
{
	struct ini_channel *ch;

	cmd->seq = s->queue.next_seq++;
	memset(cmd->tries, 0, sizeof(cmd->tries));
	/* side by side: one store */
	cmd->data_len = 0;
	cmd->status = 0;
	cmd->has_sense = false;
	cmd->refused = false;
	cmd->was_lost = false;
	if (!queue_takes(s, cmd)) {
		ini_session_refuse(s, cmd, queue_refusal(s, cmd));
		return;
	}
	ch = !queue_is_held(cmd) && queue_is_next(s, cmd) ? pick_channel(s)
							  : NULL;
	s->queue.cmds++;
	if (ch) {
		queue_send_on(s, ch, cmd);
		return;
	}
	queue_add(s, cmd);
	ini_queue_send(s);
}

void ini_session_submit(struct srpi_session *s, struct ini_cmd *cmd)
{
	cmd->kind = INI_OPERATION;
	ini_queue_submit(s, cmd);
}

void ini_session_probe(struct srpi_session *s, struct ini_cmd *cmd)
{
	cmd->kind = INI_SIGN_OF_LIFE;
	ini_queue_submit(s, cmd);
}

void ini_session_ask(struct srpi_session *s, struct ini_cmd *cmd)
{
	cmd->kind = INI_QUESTION;
	ini_queue_submit(s, cmd);
}

/* ---- answers ---- */

static void cmd_done(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	s->queue.cmds--;
	cmd->done(cmd, err);
}

static void cmd_refuse(struct srpi_session *s, struct ini_cmd *cmd)
{
	cmd->refused = !queue_is_dead(cmd);
	cmd_done(s, cmd, queue_refusal(s, cmd));
}

static void run_undone(struct reactor_msg *msg)
{
	struct srpi_session *s =
		container_of(msg, struct srpi_session, queue.undone_msg);
	struct list undone;
	struct list *it;

	s->queue.undone_sent = false;
	/* What done() submits, and is refused again, waits for the next turn:
	 * the program may try again until the target is back. */
	list_init(&undone);
	list_splice_tail(&undone, &s->queue.undone);
	while ((it = list_pop(&undone))) {
		struct ini_cmd *cmd = container_of(it, struct ini_cmd, node);

		cmd_done(s, cmd, cmd->err);
	}
	ini_session_free_if_idle(s);
}

void ini_queue_end_soon(struct srpi_session *s)
{
	if (!s->queue.undone_sent) {
		s->queue.undone_sent = true;
		reactor_send(s->ctx->reactor, &s->queue.undone_msg);
	}
}

static void queue_undone(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	cmd->err = err;
	cmd->refused = err != 0 && !queue_is_dead(cmd);
	list_add_tail(&s->queue.undone, &cmd->node);
	ini_queue_end_soon(s);
}

void ini_session_refuse(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	/* There is no answer. */
	cmd->status = 0;
	s->queue.cmds++;
	queue_undone(s, cmd, err);
}

/* Moves all commands of the retry list back to their queues. */
static void requeue_retries(struct srpi_session *s)
{
	struct list *it;

	reactor_timer_stop(&s->queue.retry_timer);
	while ((it = list_pop(&s->queue.retry)))
		queue_add(s, container_of(it, struct ini_cmd, node));
}

static void retry_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, queue.retry_timer);

	requeue_retries(s);
	ini_queue_send(s);
}

/* @err: -EAGAIN or -EBUSY. */
static enum ini_retry retry_reason(const struct ini_cmd *cmd, int err)
{
	if (err == -EBUSY)
		return INI_RETRY_BUSY;
	if (cmd->status == SCSI_STATUS_TASK_ABORTED)
		return INI_RETRY_ABORTED;
	if (cmd->sense.deferred || cmd->sense.key == SCSI_KEY_UNIT_ATTENTION)
		return INI_RETRY_ATTENTION;
	/* A unit that is becoming ready, or is being formatted, needs time. */
	if (cmd->sense.key == SCSI_KEY_NOT_READY)
		return INI_RETRY_BUSY;
	return INI_RETRY_ABORTED;
}

/*
 * Another initiator has aborted this flush. If it has failed before that, the
 * target may not report the error again: LIO asks a file system or a disk of its
 * kernel, which report it once. A target with a generation remembers it.
 */
static bool queue_hides_failure(const struct ini_cmd *cmd)
{
	return cmd->fence && cmd->status == SCSI_STATUS_TASK_ABORTED &&
	       !cmd->volume->has_store && ini_volume_is_dirty(cmd->volume);
}

static unsigned int queue_tries_max(const struct ini_cmd *cmd,
				    enum ini_retry why)
{
	return cmd->kind == INI_QUESTION && why == INI_RETRY_BUSY
		       ? QUESTION_TRIES
		       : tries_max[why];
}

/* Sends @cmd again, now or later. False: that would not do, or it was sent too
 * often. */
static bool ini_queue_try_again(struct srpi_session *s, struct ini_cmd *cmd,
				int err)
{
	enum ini_retry why = retry_reason(cmd, err);

	if (queue_hides_failure(cmd))
		return false;
	if (++cmd->tries[why] >= queue_tries_max(cmd, why) ||
	    !queue_takes(s, cmd))
		return false;
	if (why != INI_RETRY_BUSY) {
		queue_add(s, cmd);
		ini_queue_send(s);
		return true;
	}
	if (list_empty(&s->queue.retry))
		reactor_timer_set(s->ctx->reactor, &s->queue.retry_timer,
				  BUSY_DELAY_MS);
	list_add_tail(&s->queue.retry, &cmd->node);
	return true;
}

static bool is_fenced(const struct srpi_session *s, const struct ini_cmd *cmd)
{
	if (s->state != SRPI_RUNNING)
		return true;
	for (unsigned int i = 0; i < s->channel_cnt; i++) {
		const struct ini_channel *ch = s->channels[i];

		if (ini_channel_sent_before(ch, cmd->lun,
					    ch == cmd->answered_on
						    ? cmd->sent_no
						    : cmd->answered_no))
			return true;
	}
	return false;
}

void ini_queue_release_fenced(struct srpi_session *s)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &s->queue.fenced) {
		struct ini_cmd *cmd = container_of(it, struct ini_cmd, node);

		if (is_fenced(s, cmd))
			continue;
		list_del(&cmd->node);
		queue_undone(s, cmd, 0);
	}
}

static void queue_fence(struct srpi_session *s, struct ini_cmd *cmd)
{
	if (queue_takes(s, cmd))
		list_add_tail(&s->queue.fenced, &cmd->node);
	else
		cmd_refuse(s, cmd);
}

/* Did the target not execute @cmd because its port is in standby? Then
 * another address may lead to an active port. */
static bool queue_waits_for_path(const struct srpi_session *s,
				 const struct ini_cmd *cmd)
{
	return ini_paths_several(s) && cmd->has_sense &&
	       cmd->kind != INI_QUESTION &&
	       ini_path_sense_is_standby(&cmd->sense) && queue_takes(s, cmd);
}

static void queue_note_sense(struct srpi_session *s, const struct ini_cmd *cmd)
{
	if (cmd->has_sense)
		ini_volume_attention(s, cmd->lun, &cmd->sense,
				     cmd->kind == INI_QUESTION);
}

static void queue_failed(struct srpi_session *s, struct ini_cmd *cmd, int err)
{
	bool again = err == -EAGAIN || err == -EBUSY;

	if (queue_waits_for_path(s, cmd)) {
		queue_add(s, cmd);
		ini_reconnect_standby(s, cmd->lun, &cmd->sense);
		return;
	}
	s->reconnect.has_served |= cmd->kind == INI_OPERATION && !again;
	queue_note_sense(s, cmd);
	if (!again || !ini_queue_try_again(s, cmd, err))
		cmd_done(s, cmd, again ? -EIO : err);
}

static void queue_succeeded(struct srpi_session *s,
			    const struct ini_channel *ch, struct ini_cmd *cmd)
{
	s->reconnect.has_served |= cmd->kind == INI_OPERATION;
	queue_note_sense(s, cmd);
	if (cmd->fence) {
		cmd->answered_on = ch;
		cmd->answered_no = s->queue.next_sent;
	}
	if (cmd->fence && is_fenced(s, cmd))
		queue_fence(s, cmd);
	else
		cmd_done(s, cmd, 0);
}

void ini_queue_answered(struct ini_channel *ch, struct ini_cmd *cmd, int err)
{
	struct srpi_session *s = ch->user;

	reactor_await(s->ctx->reactor, -1);
	if (err)
		queue_failed(s, cmd, err);
	else
		queue_succeeded(s, ch, cmd);
	if (!list_empty(&s->queue.fenced))
		ini_queue_release_fenced(s);
}

/* @cmd has lost its connection. Has it been sent for too long, or too often? */
static bool queue_gives_up(const struct srpi_session *s, struct ini_cmd *cmd)
{
	uint64_t now = reactor_now_us(s->ctx->reactor);
	int limit = s->options.fast_io_fail_ms;

	if (!cmd->was_lost)
		cmd->lost_us = now;
	cmd->was_lost = true;
	if (queue_is_overdue(s, cmd->sent_us))
		cmd->tries[INI_RETRY_OVERDUE]++;
	return cmd->tries[INI_RETRY_OVERDUE] >= tries_max[INI_RETRY_OVERDUE] ||
	       (limit >= 0 && now - cmd->lost_us >= limit * 1000ull);
}

void ini_queue_lost(struct ini_channel *ch, struct ini_cmd *cmd)
{
	struct srpi_session *s = ch->user;

	reactor_await(s->ctx->reactor, -1);
	if (cmd->kind == INI_QUESTION || !queue_takes(s, cmd) ||
	    queue_gives_up(s, cmd)) {
		cmd_refuse(s, cmd);
		return;
	}
	s->stats.replayed++;
	queue_add(s, cmd);
}

static void refuse_list(struct srpi_session *s, struct list *l, int err)
{
	struct list *it;

	while ((it = list_pop(l)))
		queue_undone(s, container_of(it, struct ini_cmd, node), err);
}

static bool queue_is_question(const struct ini_cmd *cmd)
{
	return cmd->kind == INI_QUESTION;
}

/* Those commands of the list fail. */
static void refuse_those_of(struct srpi_session *s, struct list *l,
			    bool (*which)(const struct ini_cmd *cmd))
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, l) {
		struct ini_cmd *cmd = container_of(it, struct ini_cmd, node);

		if (!which(cmd))
			continue;
		list_del(&cmd->node);
		queue_undone(s, cmd, queue_refusal(s, cmd));
	}
}

static void queue_move(struct list *l, const struct ini_volume *v)
{
	struct list *it;

	for (it = l->next; it != l; it = it->next) {
		struct ini_cmd *cmd = container_of(it, struct ini_cmd, node);

		if (cmd->volume == v)
			cmd->lun = v->lun_field;
	}
}

void ini_queue_moved(struct srpi_session *s, const struct ini_volume *v)
{
	queue_move(&s->queue.waiting, v);
	queue_move(&s->queue.retry, v);
	queue_move(&s->queue.fenced, v);
	queue_move(&s->queue.held, v);
}

void ini_queue_refuse_unready(struct srpi_session *s)
{
	refuse_those_of(s, &s->queue.waiting, queue_is_unready);
	refuse_those_of(s, &s->queue.retry, queue_is_unready);
	refuse_those_of(s, &s->queue.fenced, queue_is_unready);
	refuse_those_of(s, &s->queue.held, queue_is_unready);
}

void ini_queue_drop_questions(struct srpi_session *s)
{
	refuse_those_of(s, &s->queue.waiting, queue_is_question);
	refuse_those_of(s, &s->queue.retry, queue_is_question);
}

void ini_queue_sort(struct srpi_session *s)
{
	struct list all;
	struct list *it;

	list_init(&all);
	list_splice_tail(&all, &s->queue.waiting);
	list_splice_tail(&all, &s->queue.held);
	while ((it = list_pop(&all)))
		queue_add(s, container_of(it, struct ini_cmd, node));
}

void ini_queue_down(struct srpi_session *s)
{
	struct list *it;

	requeue_retries(s);
	refuse_list(s, &s->queue.asked, -ECANCELED);
	/* The commands that they wait for are sent again, so these are, too. */
	while ((it = list_pop(&s->queue.fenced)))
		queue_add(s, container_of(it, struct ini_cmd, node));
	ini_queue_drop_questions(s);
}

void ini_queue_refuse(struct srpi_session *s, int err)
{
	requeue_retries(s);
	refuse_list(s, &s->queue.waiting, err);
	refuse_list(s, &s->queue.fenced, err);
	refuse_list(s, &s->queue.held, err);
	/* A question that waited for a busy unit still needs an answer. */
	ini_queue_send(s);
}

void ini_queue_init(struct srpi_session *s)
{
	s->queue.undone_msg.run = run_undone;
	list_init(&s->queue.asked);
	list_init(&s->queue.waiting);
	list_init(&s->queue.held);
	list_init(&s->queue.undone);
	list_init(&s->queue.retry);
	list_init(&s->queue.fenced);
	reactor_timer_init(&s->queue.retry_timer, retry_due);
	reactor_timer_init(&s->queue.watch_timer, watch_due);
}
