/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server_stop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/log.h"
#include "target/heartbeat.h"
#include "target/server_drain.h"
#include "target/service_notify.h"

static void server_run_worker_stop(struct reactor_msg *msg)
{
	reactor_stop(container_of(msg, struct stop_msg, msg)->reactor);
}

void server_stop_workers(struct server *s)
{
	s->ended = true;
	server_drain_end(s);
	for (unsigned int i = 0; i < s->worker_cnt; i++) {
		s->stops[i].msg.run = server_run_worker_stop;
		s->stops[i].reactor = s->workers[i].reactor;
		reactor_send(s->workers[i].reactor, &s->stops[i].msg);
	}
}

static void server_flush_settled(struct server *s)
{
	if (--s->flushes_left)
		return;
	if (s->port_is_gone) {
		server_stop_workers(s);
		return;
	}
	server_drain_closed(s);
	port_stop(&s->port);
}

static void server_log_failed_flush(struct last_flush *f, int err)
{
	struct log_about about = volume_about(f->vol, "volume-error");

	f->server->exit_code = 1;
	if (f->failed)
		return;
	f->failed = true;
	log_event(LOG_ERROR, &about,
		  "volume '%s' could not be flushed: %s; writes since its last "
		  "flush may be lost%s",
		  f->vol->name, strerror(-err),
		  f->vol->dev.record.file
			  ? ", and rdma-target tells their initiators so, now "
			    "or when it is started again"
			  : "");
}

static void server_flush_done(struct block_cmd *cmd)
{
	struct last_flush *f = container_of(cmd, struct last_flush, cmd);

	if (cmd->res)
		server_log_failed_flush(f, cmd->res);
	else if (f->server->port_is_gone)
		flush_record_flushed(&f->vol->dev.record);
	server_flush_settled(f->server);
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
	s->flushes_left++;
	if (block_start(&f->cmd))
		server_flush_done(&f->cmd);
}

/* A job may have been running, although no initiator waits for it any more. */
static void server_job_ended(struct reactor_msg *msg)
{
	struct last_flush *f = container_of(msg, struct last_flush, job_ended);

	if (server_needs_flush(f->vol))
		server_flush_volume(f->server, f);
	else
		flush_record_flushed(&f->vol->dev.record);
	server_flush_settled(f->server);
}

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
		if (server_needs_flush(f->vol))
			server_flush_volume(s, f);
	}
	server_flush_settled(s);
}

/* The port has no channels any more. */
void server_port_stopped(struct port *port)
{
	struct server *s = port->user;

	s->port_is_gone = true;
	s->flushes_left = 1; /* this function's own */
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		struct last_flush *f = &s->flushes[i];

		f->job_ended.run = server_job_ended;
		s->flushes_left++;
		volume_job_await(f->vol, &s->workers[0].block, &f->job_ended);
	}
	server_flush_settled(s);
}

/* Initiators are still logged in. */
static void server_begin_stop(struct server *s)
{
	s->stopping = true;
	service_notify(s->notify_fd, SERVICE_STOPPING);
	heartbeat_end(s);
	log_notice("%s: answering what is in flight, then stopping",
		   strsignal(s->stop_signal));
	server_drain_begin(s);
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
	if (s->stop_signal && !s->changing)
		server_begin_stop(s);
}

/* A volume that is being added or removed is finished first. */
void server_stop_signal(struct server *s, int sig)
{
	if (s->stop_signal) {
		log_error("second signal: exiting at once");
		pidfile_remove(&s->pidfile);
		log_exit(1);
	}
	s->stop_signal = sig;
	/* The signal is not pending any more. */
	file_lock_end_waits(true);
	if (!s->changing)
		server_begin_stop(s);
}
