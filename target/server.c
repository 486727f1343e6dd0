/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server.h"
#include "target/server_manage.h"
#include "target/server_state.h"
#include "target/server_stop.h"
#include "target/server_volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "config.h"
#include "target/announce.h"
#include "target/daemon.h"
#include "target/block/layer_fault.h"
#include "target/block/plugin_host.h"
#include "target/block/plugin_load.h"
#include "target/export.h"
#include "target/heartbeat.h"
#include "target/landlock.h"
#include "target/listen.h"
#if HAVE_JSON
#include "target/manage_arrive.h"
#endif
#include "target/responder_process.h"
#include "target/service_notify.h"
#include "target/start_signals.h"
#include "target/privileges.h"
#include "target/sandbox.h"
#include "base/file_lock.h"
#include "base/memlock.h"
#include "base/pidfile.h"
#include "base/stop_signal.h"
#include "base/ticks.h"

/* Bytes of locked memory to leave for logins: enough for about thirty
 * channels. */
#define LOGINS_RESERVE (16ull << 20)

/* ---- workers and transports ---- */

static int server_open_workers(struct server *s, struct error *e)
{
	int err = journal_thread_open(&s->journals, s->opt->no_sandbox, e);

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
	case XP_DEVICE_FAILED:
		log_error("worker %u: RDMA device %s %s", w->index, name, why);
		break;
	case XP_DEVICE_LISTENS:
		log_notice("listening on %s over RDMA now", name);
		break;
	case XP_DEVICE_DEAF:
		log_warn("not listening on %s over RDMA any more: no device "
			 "has the address now; waiting for it",
			 name);
		break;
	}
}

int server_create_xp(const struct server *s, struct worker *w,
		     enum xp_kind kind, bool await, struct error *e)
{
	struct xp_config cfg = {
		.await_devices = await,
		.device = server_device_changed,
		.device_user = w,
		.reactor = w->reactor,
		.keepalive_ms = s->opt->keepalive_s * 1000,
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
			err = server_create_xp(s, &s->workers[i], kind, await,
					       e);
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

/* ---- signals ---- */

static void server_release_stuck(struct server *s)
{
	if (s->stop_state == SERVER_ENDED)
		return;
	log_notice("user signal: releasing the requests that are stuck");
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		backend_fault_release(s->luns.vol[i]->dev.backend);
	for (unsigned int i = 0; i < s->leaving_cnt; i++)
		backend_fault_release(s->leaving[i]->dev.backend);
}

/* A worker that was told to stop takes no more messages. */
static void server_log_counters(struct server *s)
{
	if (s->stop_state != SERVER_ENDED)
		metrics_log(s->workers, s->worker_cnt);
}

static void server_hangup(struct server *s)
{
	log_notice("hang-up signal: looking for volumes that have grown");
	absents_hurry(&s->absents);
	if (s->reload)
		s->reload(s->manage);
	else
		server_measure_volumes(s);
}

static void server_child_ended(struct server *s)
{
	responder_process_ended(s);
	store_opener_ended(&s->opener);
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
		else if (info.ssi_signo == SIGCHLD)
			server_child_ended(s);
		else
			server_stop_signal(s, (int)info.ssi_signo);
	}
}

static int server_catch_signals(struct server *s, struct error *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	/* A write beyond ulimit -f fails, with EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signal_fd >= 0)
		return 0;
	error_set(e, -errno, "cannot watch for signals: %s", strerror(errno));
	return e->err;
}

/* For the handler. NULL: it has ended, and only the process is left. */
static struct server *volatile server_ending;

static void server_exit_at_once(int sig)
{
	struct server *s = server_ending;

	if (sig != SIGALRM && s && s->stop_signal &&
	    stop_signal_is_same(s->stop_signal_ms))
		return;
	if (sig == SIGALRM)
		log_in_handler(
			"rdma-target: error: a store, or the state directory, does not return from its "
			"end: exiting without it\n");
	/* A target that could not start has said why already. */
	else if (s && s->stop_signal)
		log_in_handler("rdma-target: error: a signal while it ends: "
			       "exiting at once\n");
	if (s)
		pidfile_remove(&s->pidfile);
	_exit(EXIT_FAILURE);
}

/* What ended the start is the first signal, and no second one: the stores that are open
 * are to be closed. */
static void server_take_first_signal(struct server *s)
{
	struct signalfd_siginfo info;

	while (!s->stop_signal &&
	       read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
		;
}

/* Nobody reads signal_fd any more, and a plugin may take long to close its
 * volume, or never return: then the target exits without it. */
static void server_let_signals_end(struct server *s)
{
	struct sigaction exits = { .sa_handler = server_exit_at_once };
	struct itimerval until = { .it_value.tv_sec = s->opt->stop_timeout_s };
	sigset_t set;

	server_take_first_signal(s);
	server_ending = s;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaction(SIGTERM, &exits, NULL);
	sigaction(SIGINT, &exits, NULL);
	sigaction(SIGALRM, &exits, NULL);
	setitimer(ITIMER_REAL, &until, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
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

/* A volume in memory is another one after each start anyway. */
static bool server_derives_identity(const struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		if (!*s->opt->backings[s->backing_of[i]].serial &&
		    s->luns.vol[i]->identity != VOLUME_NEW)
			return true;
	}
	return false;
}

static void server_log_no_state(const struct server *s)
{
	bool derives = server_derives_identity(s);

	if (s->state_dir.path || (options_keep_nothing(s->opt) && !derives))
		return;
	log_notice("%s: no reservation, saved mode value, job or LUN survives "
		   "the end of this target%s",
		   s->state_dir.none.text,
		   derives ? ", and volumes without serial= are identified by "
			     "the machine ID or the host name, which may "
			     "change, and which another machine may have"
			   : "");
}

/* When the PID file exists, the lines to paste are already printed. */
static int server_write_pidfile(struct server *s, struct error *e)
{
	server_log_no_state(s);
	if (log_level >= LOG_NOTICE)
		announce(&s->luns, &s->points, &s->id, s->opt->keys);
	return pidfile_write(&s->pidfile, e);
}

static int server_open_service_notify(struct server *s, struct error *e)
{
	s->notify_fd = service_notify_open();
	return 0;
}

/* ---- rights ---- */

static int server_raise_limits(struct server *s, struct error *e)
{
	privileges_raise_limits();
	return 0;
}

/* It opens what is not here yet. */
static int server_fork_opener(struct server *s, struct error *e)
{
	return server_waits(s)
		       ? store_opener_fork(&s->opener, s->opt, s->signal_fd, e)
		       : 0;
}

/* With the rights of the user that the target becomes: files that it makes in the
 * state directory are that user's. */
static int server_use_state(struct server *s,
			    int (*use)(struct server *s, struct error *e),
			    struct error *e)
{
	const char *user =
		s->state_dir.path && !s->is_user ? s->opt->user : NULL;
	struct error ignored;
	int err = user ? privileges_use_files_as(user, e) : 0;

	if (!err)
		err = use(s, e);
	if (user && privileges_use_files_as(NULL, &ignored) && !err)
		err = error_set(e, ignored.err, "%s", ignored.text);
	return err;
}

static int server_keep_ports(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < s->opt->listen_cnt && !err; i++)
		err = target_state_dir_keep_port(&s->state_dir,
						 s->opt->listens[i].port, e);
	return err;
}

static int server_open_luns(struct server *s, struct error *e)
{
	const struct target_state_dir *d = &s->state_dir;
	unsigned int port = options_first_port(s->opt);
	int err = lun_memory_open(&s->lun_memory, d->path, d->number, e);

	if (err == -EBUSY && port != d->number)
		error_add(e,
			  "; if port %u is none of its ports any more, "
			  "remove %s/port.%u",
			  port, d->path, port);
	return err;
}

static int server_open_id(struct server *s, struct error *e)
{
	int err = target_state_dir_check(&s->state_dir, s->opt, e);

	if (!err)
		err = target_id_open(s->state_dir.id_path, &s->target, e);
	return err ? err : server_open_luns(s, e);
}

static int server_forget_unseen(struct server *s, struct error *e)
{
	lun_memory_forget_unseen(&s->lun_memory, &s->luns);
	return 0;
}

static int server_use_journals(struct server *s, struct error *e)
{
	return server_use_state(s, server_open_journals, e);
}

/* It listens there: another target may have a port of a start that fails. */
static int server_note_ports(struct server *s, struct error *e)
{
	return server_use_state(s, server_keep_ports, e);
}

static int server_give_up_rights(struct server *s, struct error *e)
{
	const struct target_options *opt = s->opt;

	int err;

	s->low_ports = privileges_has_low_ports();
	err = privileges_drop(opt->user, options_has_low_port(opt), e);
	s->is_user = !err;
	return err;
}

static int server_enter_sandbox(struct server *s, struct error *e)
{
	s->network = plugin_needs() & RBP_NEEDS_NETWORK;
	if (s->opt->no_sandbox)
		return 0;
#if HAVE_SANDBOX
	if (landlock_enter(s->opt, s->state_dir.path, s->network, e))
		return e->err;
	return sandbox_enter(s->network, e);
#else
	log_info("this build has no sandbox");
	return 0;
#endif
}

/* ---- start ---- */

static int server_open_stores(struct server *s, struct error *e)
{
	struct start_signals signals;
	int err;

	err = target_state_dir_choose(&s->state_dir, s->opt, e);
	if (err)
		return err;
	target_state_dir_make(&s->state_dir, s->opt);
	start_signals_begin(&signals, &s->opening);
	err = server_use_state(s, server_open_id, e);
	if (!err)
		err = server_open_volumes(s, e);
	if (!err)
		err = server_use_state(s, server_load_states, e);
	start_signals_end(&signals);
	s->start_signal = signals.first;
	return err;
}

static bool server_worker_ended(struct worker *w, void *user)
{
	server_detach_volumes(user, w);
	return !((const struct server *)user)->abandons;
}

static int server_start_threads(struct server *s, struct error *e)
{
	int err = journal_thread_start(&s->journals, e);

	if (err)
		return err;
	for (unsigned int i = 1; i < s->worker_cnt && err == 0; i++)
		err = worker_start(&s->workers[i], server_worker_ended, s);
	if (err)
		error_set(e, err, "cannot start a thread: %s", strerror(-err));
	return err;
}

static void server_init_port(struct server *s)
{
	s->port.workers = s->workers;
	s->port.worker_cnt = s->worker_cnt;
	s->port.luns = &s->luns;
	s->port.limits = s->opt->limits;
	s->port.allow = s->opt->allow;
	s->port.keys = s->opt->keys;
	s->port.stopped = server_port_stopped;
	s->port.user = s;
	s->id = target_id_port(s->target.text, s->state_dir.number);
	port_init(&s->port, &s->id);
}

static int server_listen(void *user, const struct listen_point *at,
			 struct error *e)
{
	return port_listen(&((struct server *)user)->port, at, /* fd= */ -1, e);
}

int server_listen_later(void *user, const struct listen_point *at,
			struct error *e)
{
	return port_listen_later(&((struct server *)user)->port, at, e);
}

void server_unlisten(void *user, unsigned int tag)
{
	port_unlisten(&((struct server *)user)->port, tag);
}

static int server_listen_all(struct server *s, struct error *e)
{
	const struct listen_how how = {
		.use_kind = server_use_kind,
		.listen = server_listen,
		.listen_later = server_listen_later,
		.unlisten = server_unlisten,
		.user = s,
		.has_keys = s->opt->keys,
		.waits = server_waits(s),
	};

	server_init_port(s);
	return listen_all(&how, s->opt, &s->points, e);
}

static int server_get_ready(struct server *s, struct error *e)
{
	static int (*const steps[])(struct server * s, struct error * e) = {
		/* with the rights of the user that started the target */
		server_catch_signals,
		responder_process_fork,
		server_fork_opener,
		server_open_stores,
		server_open_pidfile,
#if HAVE_JSON
		server_manage_open,
#endif
		server_open_service_notify,
		server_raise_limits,
		server_open_workers,
		server_use_journals,
		server_attach_volumes,
		/* with the rights that serving needs */
		server_give_up_rights,
		server_listen_all,
		server_note_ports,
		server_register_volumes,
		export_open,
		responder_process_open,
		server_enter_sandbox,
		server_start_threads,
		server_write_pidfile,
#if HAVE_JSON
		server_manage_start,
#endif
		export_start,
		responder_process_start,
		heartbeat_start,
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
	struct error ignored;

	server_let_signals_end(s);
	heartbeat_end(s);
	responder_process_close(s);
	export_close(s);
#if HAVE_JSON
	/* As after a second signal. */
	if (!server_manage_close(s)) {
		pidfile_remove(&s->pidfile);
		log_exit(EXIT_FAILURE);
	}
#endif
	store_opener_close(&s->opener);
	absents_fini(&s->absents);
	/* Threads of plugins may still run. */
	backend_plugin_on_resize(NULL, NULL);
	for (unsigned int i = 1; i < s->worker_cnt; i++)
		worker_join(&s->workers[i]);
	journal_thread_stop(&s->journals);
	heartbeat_free(s);
	if (s->port.workers && !s->abandons)
		port_fini(&s->port);
	for (unsigned int i = 0; i < s->worker_cnt; i++)
		server_detach_volumes(s, &s->workers[i]);
	if (s->abandons)
		server_save_abandoned(s);
	server_use_state(s, server_forget_unseen, &ignored);
	/* This ends the threads of plugins. One whose I/O has just ended may
	 * still be about to wake a reactor. */
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		if (!s->luns.vol[i]->abandoned)
			volume_close(s->luns.vol[i]);
	}
	if (s->abandons) {
		pidfile_remove(&s->pidfile);
		log_exit(EXIT_FAILURE);
	}
	lun_memory_close(&s->lun_memory);
	for (unsigned int i = 0; i < s->worker_cnt; i++)
		worker_close(&s->workers[i]);
	journal_thread_close(&s->journals);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->notify_fd >= 0)
		close(s->notify_fd);
	pidfile_remove(&s->pidfile);
}

static void server_serve(struct server *s)
{
	int ready_fd = s->configuration->ready_fd;
	int err;

	server_watch_signals(s);
	server_watch_sizes(s);
	if (ready_fd >= 0 && s->start_signal)
		close(ready_fd);
	else if (ready_fd >= 0 && !daemon_ready(ready_fd))
		raise(SIGTERM);
	/* The thread has the rights of the others. What can be pasted was
	 * written without it: every start needs it. */
	log_start_thread();
#if HAVE_JSON
	if (s->absents.cnt)
		arrive_tell(s);
#endif
	service_notify(s->notify_fd, SERVICE_READY);
	err = reactor_run(s->workers[0].reactor);
	if (err) {
		log_error("worker 0: its ring failed: %s", strerror(-err));
		pidfile_remove(&s->pidfile);
		log_exit(EXIT_FAILURE);
	}
	log_notice("stopped");
}

/* Each step of the start opens files, so one place knows what helps. The ring
 * says it itself. */
static void server_log_start_failure(const struct error *e)
{
	bool lacks_hint = e->err == -EMFILE && !strstr(e->text, "ulimit -n");

	log_error("%s%s", e->text,
		  lacks_hint ? "; raise the limit of open files (ulimit -n)"
			     : "");
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
	file_lock_end_waits(false);
	clock_gettime(CLOCK_REALTIME, &now);
	s->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	s->opt = &c->opt;
	s->configuration = c;
	server_calls_init(s);
	lun_map_init(&s->luns);
	absents_init(&s->absents);
	s->opener.socket = -1;
	s->signal_fd = -1;
	s->pidfile.fd = -1;
	s->notify_fd = -1;
	if (server_get_ready(s, &e) == 0) {
		server_serve(s);
	} else {
		server_log_start_failure(&e);
		server_stop_workers(s);
		s->exit_code = 1;
	}
	server_tear_down(s);
	log_flush();
	code = s->exit_code;
	server_ending = NULL;
	free(s);
	return code;
}
