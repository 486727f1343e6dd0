/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server.h"
#include "target/server_manage.h"
#include "target/server_state.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "config.h"
#include "target/announce.h"
#include "target/block/layer_fault.h"
#include "target/block/plugin_host.h"
#include "target/listen.h"
#include "target/port/task_mgmt.h"
#include "target/service_notify.h"
#include "target/scsi/port_id.h"
#include "target/scsi/unit_share.h"
#include "target/scsi/volume_record.h"
#include "target/privileges.h"
#include "target/sandbox.h"
#include "base/memlock.h"
#include "base/pidfile.h"
#include "base/ticks.h"

/* Bytes of locked memory to leave for logins: enough for about thirty
 * channels. */
#define LOGINS_RESERVE (16ull << 20)

/* ---- workers and transports ---- */

static int server_open_workers(struct server *s, struct error *e)
{
	int err = 0;

	while (err == 0 && s->worker_cnt < s->opt->threads) {
		struct worker_options wopt = {
			.index = s->worker_cnt,
			.arena_len = options_arena_len(s->opt),
			.poll_us = s->opt->poll_us,
			.rdma_timeout_ms = s->opt->rdma_timeout_s * 1000,
			.slow_ms = s->opt->slow_ms,
			.unrestricted = s->opt->no_sandbox,
		};

		err = worker_open(&s->workers[s->worker_cnt], &wopt, e);
		if (err == 0)
			s->worker_cnt++;
	}
	return err;
}

/* For a user without the right to raise the limit. */
static void server_advise_less_memory(const struct server *s, struct error *e)
{
	unsigned int threads = s->opt->threads_given ? s->opt->threads : 1;
	uint64_t least = (uint64_t)OPTIONS_BUFFERS_MIN * threads;
	uint64_t limit = memlock_limit();

	if (limit != MEMLOCK_ANY && limit > least && s->opt->buffers > least)
		error_add(e, ", or try --buffers %" PRIu64 "M", least >> 20);
}

/* Every worker has the same devices; one worker logs the change. */
static void server_device_changed(void *user, enum xp_device_change change,
				  const char *name, const char *why)
{
	const struct worker *w = user;

	switch (change) {
	case XP_DEVICE_COME:
		if (w->index == 0)
			log_notice("RDMA device %s was added and is used now",
				   name);
		break;
	case XP_DEVICE_GONE:
		if (w->index == 0)
			log_notice(
				"RDMA device %s was removed: its connections "
				"end; it will be used when it comes back",
				name);
		break;
	case XP_DEVICE_UNUSABLE:
		log_error("worker %u cannot use RDMA device %s: %s", w->index,
			  name, why);
		break;
	case XP_DEVICE_LISTENS:
		log_notice("listening on %s over RDMA now", name);
		break;
	}
}

static int server_create_xp(const struct target_options *opt, struct worker *w,
			    enum xp_kind kind, bool await, struct error *e)
{
	struct xp_config cfg = {
		.await_devices = await,
		.device = server_device_changed,
		.device_user = w,
		.reactor = w->reactor,
		.keepalive_ms = opt->keepalive_s * 1000,
		.recv_len = CHANNEL_IT_IU_LEN,
		.recv_aligned_at = SRP_IMM_OFFSET,
	};
	struct xp *xp;
	int err = xp_create(kind, &cfg, &xp, e);

	if (!err)
		err = worker_add_xp(w, xp, e);
	return err;
}

/* For listen_all(). */
static int server_use_kind(void *user, enum xp_kind kind, bool await,
			   struct error *e)
{
	struct server *s = user;
	int err = 0;

	for (unsigned int i = 0; i < s->worker_cnt && err == 0; i++) {
		if (!s->workers[i].xp[kind])
			err = server_create_xp(s->opt, &s->workers[i], kind,
					       await, e);
	}
	if (err == -ENOMEM)
		server_advise_less_memory(s, e);
	return err;
}

/*
 * Registered buffers are only faster: without them, the kernel maps the memory
 * for each I/O. Registered memory counts as locked a second time, so the memory
 * for logins must be left.
 */
static void server_fix_buffers(struct server *s)
{
	uint64_t need = s->worker_cnt * options_arena_len(s->opt);
	int err = 0;

	if (memlock_left() < need + LOGINS_RESERVE)
		err = -ENOMEM;
	for (unsigned int i = 0; i < s->worker_cnt && err == 0; i++)
		err = worker_fix_buffers(&s->workers[i]);
	if (err)
		log_info("storage I/O goes without registered buffers: %s%s",
			 strerror(-err),
			 err == -ENOMEM ? " (the locked-memory limit, ulimit "
					  "-l, is too low)"
					: "");
}

/* ---- volumes ---- */

static int server_check_names(const struct lun_map *luns, struct error *e)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (strcmp(luns->vol[i]->name, luns->vol[k]->name))
				continue;
			error_set(e, -EEXIST,
				  "two volumes have the name '%s': give one "
				  "another with ,name=",
				  luns->vol[i]->name);
			return -EEXIST;
		}
	}
	return 0;
}

/* True for one store under two names, such as two paths to one disk, and for a
 * serial number that is given twice. Initiators would take the two for one
 * disk. */
static int server_check_identities(const struct lun_map *luns, struct error *e)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (memcmp(luns->vol[i]->info.naa,
				   luns->vol[k]->info.naa, SCSI_NAA_LEN))
				continue;
			error_set(e, -EEXIST,
				  "volumes '%s' and '%s' are the same disk: "
				  "leave one out, or give one another "
				  "serial number with ,serial=",
				  luns->vol[k]->name, luns->vol[i]->name);
			return -EEXIST;
		}
	}
	return 0;
}

/* Gives each volume its LUN: its own, or the lowest free one. */
static void server_choose_luns(const struct target_options *opt,
			       unsigned int luns[])
{
	bool taken[LUNS_MAX] = { false };
	unsigned int next = 0;

	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		if (opt->backings[i].has_lun)
			taken[opt->backings[i].lun] = true;
	}
	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		luns[i] = opt->backings[i].lun;
		if (opt->backings[i].has_lun)
			continue;
		while (taken[next])
			next++;
		luns[i] = next++;
	}
}

/* Two volumes may have the same LUN if rules show them to different
 * initiators. */
static int server_check_luns(const struct lun_map *luns, struct error *e)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (luns->vol[i]->lun != luns->vol[k]->lun ||
			    luns->vol[i]->allow.cnt || luns->vol[k]->allow.cnt)
				continue;
			error_set(e, -EEXIST,
				  "volumes '%s' and '%s' are both LUN %u: "
				  "give one another with ,lun=",
				  luns->vol[k]->name, luns->vol[i]->name,
				  luns->vol[i]->lun);
			return -EEXIST;
		}
	}
	return 0;
}

int server_check_volumes(const struct lun_map *luns, struct error *e)
{
	int err = server_check_names(luns, e);

	if (!err)
		err = server_check_identities(luns, e);
	return err ? err : server_check_luns(luns, e);
}

static int server_open_volumes(struct server *s, struct error *e)
{
	struct lun_map *luns = &s->luns;
	unsigned int numbers[LUNS_MAX] = { 0 };
	int err;

	server_choose_luns(s->opt, numbers);
	for (unsigned int i = 0; i < s->opt->backing_cnt; i++) {
		err = volume_open(&s->opt->backings[i], numbers[i],
				  &luns->vol[i], e);
		if (err) {
			luns->vol[i] = NULL;
			return err;
		}
		luns->cnt++;
	}
	return server_check_volumes(luns, e);
}

int server_load_state(struct server *s, struct volume *vol, struct error *e)
{
	int err = s->opt->state_dir ? unit_state_load(vol, s->opt->state_dir, e)
				    : 0;

	return err ? err : unit_share_start(vol, &s->luns, e);
}

static int server_load_states(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < s->luns.cnt && !err; i++)
		err = server_load_state(s, s->luns.vol[i], e);
	return err;
}

int server_open_record(const struct server *s, struct volume *vol,
		       struct error *e)
{
	return volume_record_open(vol, s->opt->state_dir, e);
}

static int server_open_records(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < s->luns.cnt && !err; i++)
		err = server_open_record(s, s->luns.vol[i], e);
	return err;
}

static int server_attach_volumes(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int w = 0; w < s->worker_cnt; w++) {
		while (err == 0 && s->attached[w] < s->luns.cnt) {
			err = worker_add_volume(&s->workers[w],
						s->luns.vol[s->attached[w]], e);
			if (err == 0)
				s->attached[w]++;
		}
	}
	return err;
}

static void server_log_identity(const struct server *s,
				const struct volume *vol)
{
	if (vol->identity != VOLUME_BY_PATH)
		return;
	log_notice(
		"LUN %u (%s): %s has no identifier of its own, and its path "
		"may be that of another store after a restart; give it one with "
		",serial=%s",
		vol->lun, vol->name, vol->path,
		s->opt->state_dir
			? " (until then APTPL, saved mode values, FORMAT "
			  "UNIT and SANITIZE are refused)"
			: "");
}

void server_start_volume(struct server *s, struct volume *vol)
{
	server_log_identity(s, vol);
	volume_job_resume(vol, &s->workers[0].block);
}

/* All steps that can fail are done, and no initiator is logged in yet. */
static int server_start_volumes(struct server *s, struct error *e)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		server_start_volume(s, s->luns.vol[i]);
	return 0;
}

static int server_register_volumes(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int w = 0; w < s->worker_cnt; w++) {
		for (unsigned int i = 0; i < s->luns.cnt && err == 0; i++)
			err = worker_register_volume(&s->workers[w],
						     s->luns.vol[i], e);
	}
	return err;
}

/* Thread: that of the worker, or setup. */
static void server_detach_volumes(struct server *s, struct worker *w)
{
	while (s->attached[w->index] > 0)
		worker_remove_volume(w, s->luns.vol[--s->attached[w->index]]);
}

/* ---- the end ---- */

static void server_run_worker_stop(struct reactor_msg *msg)
{
	reactor_stop(container_of(msg, struct stop_msg, msg)->reactor);
}

static void server_stop_workers(struct server *s)
{
	s->ended = true;
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
	if (s->port_is_gone)
		server_stop_workers(s);
	else
		port_stop(&s->port);
}

static void server_log_failed_flush(struct last_flush *f, int err)
{
	f->server->exit_code = 1;
	if (f->failed)
		return;
	f->failed = true;
	log_error("volume '%s' could not be flushed: %s; writes since its last "
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
static void server_port_stopped(struct port *port)
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

int server_measure_volume(struct server *s, struct volume *vol)
{
	int res = volume_measure(vol);

	if (res == -ESTALE)
		log_warn("LUN %u (%s) has become smaller; initiators keep the "
			 "old size, and reads of what is missing fail",
			 vol->lun, vol->name);
	else if (res < 0)
		log_error("LUN %u (%s): cannot tell its size: %s", vol->lun,
			  vol->name, strerror(-res));
	if (res <= 0)
		return res;
	log_notice("LUN %u (%s) has grown to %llu blocks of %u bytes", vol->lun,
		   vol->name, (unsigned long long)vol->blocks, vol->block_size);
	port_capacity_changed(&s->port, vol);
	return res;
}

static void server_check_paths(struct server *s, struct volume *vol)
{
	const struct scsi_port_groups *groups = &vol->info.groups;

	volume_look_at_paths(vol);
	if (!groups->cnt || vol->told_active == groups->active)
		return;
	vol->told_active = groups->active;
	log_notice("LUN %u (%s): %s (target port group %u of %u; %u is active)",
		   vol->lun, vol->name,
		   volume_is_standby(vol) ? "in standby" : "active",
		   groups->own, groups->cnt, groups->active);
	scsi_attention_others(&s->luns, vol, /* except= */ NULL,
			      SCSI_UA_PATH_CHANGED);
}

static void server_preempted(void *user, struct volume *vol, unsigned int cnt)
{
	struct server *s = user;

	if (unit_share_aborted(vol, cnt))
		server_end_preempted(s, vol);
}

void server_end_preempted(struct server *s, struct volume *vol)
{
	struct srp_port_id ports[SCSI_PR_MAX];
	unsigned int cnt = unit_share_take_aborts(vol, ports);

	if (!cnt || !task_mgmt_preempt_volume(&s->port, vol, ports, cnt,
					      server_preempted, s))
		return;
	/* Out of memory: once more, when others have run. */
	unit_share_aborted(vol, /* cnt= */ 0);
	backend_plugin_look();
}

void server_measure_volumes(struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		server_measure_volume(s, s->luns.vol[i]);
		server_check_paths(s, s->luns.vol[i]);
		server_end_preempted(s, s->luns.vol[i]);
	}
}

static void server_run_resized(struct reactor_msg *msg)
{
	struct server *s = container_of(msg, struct server, resized);

	/* Before the check: a later change sends another message. */
	atomic_store(&s->resizing, false);
	if (!s->ended)
		server_measure_volumes(s);
}

/* Thread: any. */
static void server_volume_resized(void *user)
{
	struct server *s = user;

	if (!atomic_exchange(&s->resizing, true))
		reactor_send(s->workers[0].reactor, &s->resized);
}

static void server_release_stuck(struct server *s)
{
	if (s->ended)
		return;
	log_notice("user signal: releasing the requests that are stuck");
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		backend_fault_release(s->luns.vol[i]->dev.backend);
}

/* A worker that was told to stop takes no more messages. */
static void server_log_counters(struct server *s)
{
	if (!s->ended)
		metrics_log(s->workers, s->worker_cnt);
}

/* Initiators are still logged in. */
static void server_begin_stop(struct server *s)
{
	s->stopping = true;
	service_notify(s->notify_fd, SERVICE_STOPPING);
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
	if (s->stop_signal && !s->changing)
		server_begin_stop(s);
}

/* A volume that is being added or removed is finished first. */
static void server_stop_signal(struct server *s, int sig)
{
	if (s->stop_signal) {
		log_error("second signal: exiting at once");
		pidfile_remove(&s->pidfile);
		_exit(1);
	}
	s->stop_signal = sig;
	if (!s->changing)
		server_begin_stop(s);
}

static void server_hangup(struct server *s)
{
	log_notice("hang-up signal: looking for volumes that have grown");
	if (s->reload)
		s->reload(s->manage);
	else
		server_measure_volumes(s);
}

static void server_on_signal(struct reactor_watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, signals);
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			server_hangup(s);
		else if (info.ssi_signo == SIGUSR1)
			server_release_stuck(s);
		else if (info.ssi_signo == SIGUSR2)
			server_log_counters(s);
		else
			server_stop_signal(s, (int)info.ssi_signo);
	}
}

/* ---- signals and the PID file ---- */

static int server_catch_signals(struct server *s, struct error *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	signal(SIGPIPE, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, &set, &s->old_mask);
	s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signal_fd >= 0)
		return 0;
	error_set(e, -errno, "cannot watch for signals: %s", strerror(errno));
	return e->err;
}

static void server_watch_sizes(struct server *s)
{
	s->resized.run = server_run_resized;
	backend_plugin_on_resize(server_volume_resized, s);
	/* Handles what plugins reported before anybody listened. */
	server_volume_resized(s);
}

static void server_watch_signals(struct server *s)
{
	s->signals.fd = s->signal_fd;
	s->signals.events = POLLIN;
	s->signals.ready = server_on_signal;
	reactor_watch_start(s->workers[0].reactor, &s->signals);
}

static int server_open_pidfile(struct server *s, struct error *e)
{
	return pidfile_open(&s->pidfile, s->opt->pidfile, e);
}

/* When the PID file exists, the lines to paste are already printed. */
static int server_write_pidfile(struct server *s, struct error *e)
{
	if (log_level >= LOG_NOTICE)
		announce(&s->luns, &s->points, &s->id);
	return pidfile_write(&s->pidfile, e);
}

static int server_open_service_notify(struct server *s, struct error *e)
{
	s->notify_fd = service_notify_open();
	return 0;
}

/* ---- rights ---- */

static bool server_has_low_port(const struct target_options *opt)
{
	for (unsigned int i = 0; i < opt->listen_cnt; i++) {
		if (opt->listens[i].port < IPPORT_RESERVED)
			return true;
	}
	return false;
}

static int server_raise_limits(struct server *s, struct error *e)
{
	privileges_raise_limits();
	return 0;
}

static int server_give_up_rights(struct server *s, struct error *e)
{
	const struct target_options *opt = s->opt;
	int err = privileges_drop(opt->user, server_has_low_port(opt), e);

	if (!err && opt->state_dir && access(opt->state_dir, R_OK | W_OK)) {
		err = -errno;
		error_set(e, err,
			  "--state-dir '%s': %s: it must belong to user %s",
			  opt->state_dir, strerror(-err),
			  opt->user ? opt->user : "who starts rdma-target");
	}
	return err;
}

static int server_enter_sandbox(struct server *s, struct error *e)
{
	s->network = plugin_needs() & RBP_NEEDS_NETWORK;
	if (s->opt->no_sandbox)
		return 0;
#if HAVE_SANDBOX
	return sandbox_enter(s->network, e);
#else
	log_info("this build has no sandbox");
	return 0;
#endif
}

/* ---- start ---- */

static void server_worker_ended(struct worker *w, void *user)
{
	server_detach_volumes(user, w);
}

static int server_start_threads(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int i = 1; i < s->worker_cnt && err == 0; i++)
		err = worker_start(&s->workers[i], server_worker_ended, s);
	if (err)
		error_set(e, err, "cannot start a thread: %s", strerror(-err));
	return err;
}

static uint16_t server_first_port(const struct target_options *opt)
{
	return opt->listen_cnt ? opt->listens[0].port : XP_URI_PORT;
}

static void server_init_port(struct server *s)
{
	s->port.workers = s->workers;
	s->port.worker_cnt = s->worker_cnt;
	s->port.luns = &s->luns;
	s->port.limits = s->opt->limits;
	s->port.allow = s->opt->allow;
	s->port.stopped = server_port_stopped;
	s->port.user = s;
	s->id = port_id_of_machine(server_first_port(s->opt));
	port_init(&s->port, &s->id);
}

static int server_listen(struct server *s, struct error *e)
{
	server_init_port(s);
	return listen_all(&s->port, s->opt, server_use_kind, s, &s->points, e);
}

static int server_get_ready(struct server *s, struct error *e)
{
	static int (*const steps[])(struct server * s, struct error * e) = {
		/* with the rights of the user that started the target */
		server_catch_signals,
		server_open_volumes,
		server_load_states,
		server_open_pidfile,
#if HAVE_JSON
		server_manage_open,
#endif
		server_open_service_notify,
		server_raise_limits,
		server_open_workers,
		server_open_records,
		server_attach_volumes,
		/* with the rights that serving needs */
		server_give_up_rights,
		server_listen,
		server_register_volumes,
		server_enter_sandbox,
		server_start_threads,
		server_write_pidfile,
		server_start_volumes,
#if HAVE_JSON
		server_manage_start,
#endif
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps) && err == 0; i++) {
		/* After the steps that need rights, before other threads
		 * run. */
		if (steps[i] == server_enter_sandbox)
			server_fix_buffers(s);
		err = steps[i](s, e);
	}
	return err;
}

/* Undoes all steps, also if only some of them were done. */
static void server_tear_down(struct server *s)
{
#if HAVE_JSON
	server_manage_close(s);
#endif
	/* Threads of plugins may still run. */
	backend_plugin_on_resize(NULL, NULL);
	for (unsigned int i = 1; i < s->worker_cnt; i++)
		worker_join(&s->workers[i]);
	if (s->port.workers)
		port_fini(&s->port);
	for (unsigned int i = 0; i < s->worker_cnt; i++) {
		server_detach_volumes(s, &s->workers[i]);
		worker_close(&s->workers[i]);
	}
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		volume_close(s->luns.vol[i]);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->notify_fd >= 0)
		close(s->notify_fd);
	pidfile_remove(&s->pidfile);
}

static void server_serve(struct server *s)
{
	int err;

	server_watch_signals(s);
	server_watch_sizes(s);
	service_notify(s->notify_fd, SERVICE_READY);
	err = reactor_run(s->workers[0].reactor);
	if (err) {
		log_error("worker 0: its ring failed: %s", strerror(-err));
		pidfile_remove(&s->pidfile);
		_exit(1);
	}
	log_notice("stopped");
}

int server_run(const struct configuration *c)
{
	struct server *s = calloc(1, sizeof(*s));
	struct error e = { 0 };
	struct timespec now;
	int code;

	if (!s) {
		log_error("out of memory");
		return 1;
	}
	ticks_init();
	clock_gettime(CLOCK_REALTIME, &now);
	s->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	s->opt = &c->opt;
	s->configuration = c;
	server_calls_init(s);
	lun_map_init(&s->luns);
	s->signal_fd = -1;
	s->pidfile.fd = -1;
	s->notify_fd = -1;
	if (server_get_ready(s, &e) == 0) {
		server_serve(s);
	} else {
		log_error("%s", e.text);
		server_stop_workers(s);
		s->exit_code = 1;
	}
	server_tear_down(s);
	code = s->exit_code;
	free(s);
	return code;
}
