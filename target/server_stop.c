/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server_stop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "target/heartbeat.h"
#include "target/server_drain.h"
#include "target/service_notify.h"

/* Time between two looks whether changes of a volume have ended. */
#define SERVER_MANAGED_MS 10

static uint64_t server_stop_now(const struct server *s)
{
	return s->worker_cnt ? reactor_now_us(s->workers[0].reactor) : 0;
}

/* Makes every change of the state. */
static void server_stop_enter(struct server *s, enum server_stop_state state)
{
	s->stop_state = state;
	s->stop_state_us = server_stop_now(s);
}

static void server_run_worker_stop(struct reactor_msg *msg)
{
	reactor_stop(container_of(msg, struct stop_msg, msg)->reactor);
}

void server_stop_workers(struct server *s)
{
	server_stop_enter(s, SERVER_ENDED);
	server_drain_end(s);
	for (unsigned int i = 0; i < s->worker_cnt; i++) {
		s->stops[i].msg.run = server_run_worker_stop;
		s->stops[i].reactor = s->workers[i].reactor;
		reactor_send(s->workers[i].reactor, &s->stops[i].msg);
	}
}

/* ---- flushes, and stores that do not answer ---- */

static void server_stop_settled(struct server *s)
{
	if (--s->flushes_left)
		return;
	if (s->stop_state == SERVER_FLUSHES_LAST) {
		server_stop_workers(s);
		return;
	}
	server_stop_enter(s, SERVER_DRAINS);
	server_drain_closed(s);
	port_stop(&s->port);
}

static void server_flush_await(struct last_flush *f)
{
	f->awaited = true;
	f->server->flushes_left++;
}

/* An answer that comes when it is no longer awaited changes nothing. */
static void server_flush_settled(struct last_flush *f)
{
	if (!f->awaited)
		return;
	f->awaited = false;
	server_stop_settled(f->server);
}

static void server_log_failed_flush(struct last_flush *f, const char *why)
{
	struct log_about about = volume_about(f->vol, "volume-error");

	f->server->exit_code = 1;
	if (f->failed)
		return;
	f->failed = true;
	log_event(LOG_ERROR, &about,
		  "volume '%s' could not be flushed: %s; writes since its last "
		  "flush may be lost%s",
		  f->vol->name, why,
		  disk_journal_is_open(&f->vol->journal)
			  ? ", and rdma-target tells their initiators so, now "
			    "or when it is started again"
			  : "");
}

/* Nothing of @vol is closed any more: the store may still use it. */
static void server_abandon(struct last_flush *f)
{
	f->server->abandons = true;
	f->vol->abandoned = true;
}

/* The next start finds it as after a kill. */
static void server_give_up_journal(struct last_flush *f)
{
	struct log_about about = volume_about(f->vol, "volume-error");

	server_abandon(f);
	f->server->exit_code = 1;
	log_event(LOG_ERROR, &about,
		  "volume '%s': its journal %s has not been written for %u s; "
		  "the target ends without it",
		  f->vol->name, f->vol->journal.path,
		  f->server->opt->stop_timeout_s);
	server_flush_settled(f);
}

/* The store has the flush, and may report its failure to nobody. So the journal says that
 * it has failed. */
static void server_give_up_flush(struct last_flush *f)
{
	char why[64];

	if (f->rests) {
		server_give_up_journal(f);
		return;
	}
	snprintf(why, sizeof(why), "its store has not answered for %u s",
		 f->server->opt->stop_timeout_s);
	server_abandon(f);
	writers_flush_ends(&f->vol->dev.writers, 0, -ETIMEDOUT);
	server_log_failed_flush(f, why);
	server_flush_settled(f);
}

static void server_give_up_leavers(struct server *s)
{
	for (unsigned int i = 0; i < s->leaving_cnt; i++) {
		struct volume *vol = s->leaving[i];
		struct log_about about = volume_about(vol, "volume-error");

		writers_flush_ends(&vol->dev.writers, 0, -ETIMEDOUT);
		log_event(
			LOG_ERROR, &about,
			"volume '%s', which was removed: its store has not answered "
			"for %u s; writes since its last flush may be lost",
			vol->name, s->opt->stop_timeout_s);
	}
	s->abandons |= s->leavers > 0;
	s->flushes_left -= s->leavers;
}

static void server_give_up_flushes(struct server *s)
{
	unsigned int cnt = s->luns.cnt;

	s->flushes_left++; /* this function's own */
	for (unsigned int i = 0; i < cnt; i++) {
		if (s->flushes[i].awaited)
			server_give_up_flush(&s->flushes[i]);
	}
	if (s->stop_state == SERVER_FLUSHES_LAST)
		server_give_up_leavers(s);
	server_stop_settled(s);
}

/* The store may still have the flush of a reset, or of an eject that was taken back. */
static void server_await_managed(struct reactor_timer *t)
{
	struct last_flush *f = container_of(t, struct last_flush, managed);

	if (atomic_load(&f->vol->managed))
		reactor_timer_set(f->server->workers[0].reactor, t,
				  SERVER_MANAGED_MS);
	else
		server_flush_settled(f);
}

static void server_volume_rested(struct reactor_msg *msg)
{
	struct last_flush *f = container_of(msg, struct last_flush, rested);

	f->rests = false;
	reactor_timer_init(&f->managed, server_await_managed);
	server_await_managed(&f->managed);
}

/* Nothing is written any more. */
static void server_last_flush_done(struct last_flush *f, int res)
{
	struct volume *vol = f->vol;

	if (!res && !vol->abandoned)
		writers_flushed(&vol->dev.writers);
	f->rests = true;
	f->rested.run = server_volume_rested;
	volume_writers_rest(vol, f->server->workers[0].reactor, &f->rested);
}

static void server_flush_done(struct block_cmd *cmd)
{
	struct last_flush *f = container_of(cmd, struct last_flush, cmd);

	if (cmd->res)
		server_log_failed_flush(f, strerror(-cmd->res));
	if (f->server->stop_state == SERVER_FLUSHES_LAST)
		server_last_flush_done(f, cmd->res);
	else
		server_flush_settled(f);
}

bool server_needs_flush(const struct volume *vol)
{
	return vol->dev.write_cache && !vol->read_only;
}

static void server_flush_volume(struct server *s, struct last_flush *f)
{
	f->cmd = (struct block_cmd){
		.dev = &f->vol->dev,
		.worker = &s->workers[0].block,
		.kind = BLOCK_CMD_FLUSH,
		.buf_index = -1,
		.done = server_flush_done,
	};
	if (block_start(&f->cmd))
		server_flush_done(&f->cmd);
}

/* A job may have been running, although no initiator waits for it any more. */
static void server_job_ended(struct reactor_msg *msg)
{
	struct last_flush *f = container_of(msg, struct last_flush, job_ended);

	if (!f->awaited)
		return;
	if (server_needs_flush(f->vol)) {
		server_flush_volume(f->server, f);
		return;
	}
	server_last_flush_done(f, 0);
}

/* ---- the way to the end ---- */

/*
 * Flushes while there are initiators. If the flush fails, initiators that wait
 * for a flush of their own are told before they are disconnected. The last
 * flush covers what they write meanwhile.
 */
static void server_flush_first(struct server *s)
{
	s->flushes_left = 1; /* this function's own */
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		struct last_flush *f = &s->flushes[i];

		f->server = s;
		f->vol = s->luns.vol[i];
		if (!server_needs_flush(f->vol))
			continue;
		server_flush_await(f);
		server_flush_volume(s, f);
	}
	server_stop_settled(s);
}

/* What has not answered the first flush is not asked again. */
static void server_flush_last(struct server *s)
{
	server_stop_enter(s, SERVER_FLUSHES_LAST);
	s->flushes_left = 1 + s->leavers; /* this function's own */
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		struct last_flush *f = &s->flushes[i];

		if (f->vol->abandoned && f->failed)
			continue;
		server_flush_await(f);
		f->job_ended.run = server_job_ended;
		volume_job_await(f->vol, &s->workers[0].block, &f->job_ended);
	}
	server_stop_settled(s);
}

/* The port has no channels any more. */
void server_port_stopped(struct port *port)
{
	struct server *s = port->user;

	if (s->stop_state == SERVER_DRAINS)
		server_flush_last(s);
}

/* All initiators have been disconnected, but the stores of some volumes still have
 * commands of them. */
static void server_abandon_busy(struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		struct last_flush *f = &s->flushes[i];
		struct log_about about = volume_about(f->vol, "volume-error");

		if (f->vol->abandoned || !server_drain_is_busy(s, f->vol))
			continue;
		server_abandon(f);
		log_event(
			LOG_ERROR, &about,
			"volume '%s': its store does not answer commands that "
			"nobody waits for any more; the target ends without it",
			f->vol->name);
	}
}

static bool server_is_quiet(const struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		if (!s->luns.vol[i]->abandoned &&
		    server_drain_is_busy(s, s->luns.vol[i]))
			return false;
	}
	return true;
}

void server_volume_left(struct server *s)
{
	s->leavers--;
	if (s->stop_state == SERVER_FLUSHES_LAST)
		server_stop_settled(s);
}

/* Initiators are still logged in. */
static void server_begin_stop(struct server *s)
{
	server_stop_enter(s, SERVER_FLUSHES);
	service_notify(s->notify_fd, SERVICE_STOPPING);
	heartbeat_end(s);
	log_notice("%s: answering what is in flight, then stopping",
		   strsignal(s->stop_signal));
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		volume_job_stop(s->luns.vol[i]);
	server_flush_first(s);
}

int server_begin_change(struct server *s)
{
	if (s->stop_signal)
		return -ESHUTDOWN;
	s->changing++;
	return 0;
}

void server_end_change(struct server *s)
{
	s->changing--;
	if (s->stop_state == SERVER_AWAITS_CHANGES && !s->changing)
		server_begin_stop(s);
}

/* They can change nothing any more. The end does not wait for their threads. */
static void server_leave_changes(struct server *s)
{
	log_error("a change of volumes has not ended for %u s; the target ends "
		  "without it",
		  s->opt->stop_timeout_s);
	s->exit_code = 1;
	server_calls_close(s);
	server_begin_stop(s);
}

void server_stop_look(struct server *s)
{
	uint64_t us = server_stop_now(s) - s->stop_state_us;
	bool is_late = us >= s->opt->stop_timeout_s * UINT64_C(1000000);

	switch (s->stop_state) {
	case SERVER_SERVES:
	case SERVER_ENDED:
		return;
	case SERVER_AWAITS_CHANGES:
		if (is_late)
			server_leave_changes(s);
		return;
	case SERVER_DRAINS:
		if (s->port.login_cnt ||
		    !(is_late || (s->abandons && server_is_quiet(s))))
			return;
		/* The port still has channels. */
		s->abandons = true;
		server_abandon_busy(s);
		server_flush_last(s);
		return;
	case SERVER_FLUSHES:
	case SERVER_FLUSHES_LAST:
		if (is_late)
			server_give_up_flushes(s);
		return;
	}
}

/* A volume that is being added or removed is finished first. */
void server_stop_signal(struct server *s, int sig)
{
	if (s->stop_signal && stop_signal_is_same(s->stop_signal_ms))
		return;
	if (s->stop_signal) {
		log_error("second signal: exiting at once");
		pidfile_remove(&s->pidfile);
		log_exit(1);
	}
	s->stop_signal = sig;
	s->stop_signal_ms = ticks_clock_ms();
	/* The signal is not pending any more. */
	file_lock_end_waits(true);
	server_stop_enter(s, SERVER_AWAITS_CHANGES);
	server_drain_begin(s);
	if (!s->changing)
		server_begin_stop(s);
}
