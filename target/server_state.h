/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a running rdma-target, for server.c and the files beside it that
 * change the target (manage.h). Worker 0 owns it, except where a comment says
 * otherwise.
 */
#ifndef TARGET_SERVER_STATE_H
#define TARGET_SERVER_STATE_H

#include <pthread.h>
#include <signal.h>

#include "base/pidfile.h"
#include "target/absent.h"
#include "target/listen.h"
#include "target/configure.h"
#include "config/options.h"
#include "target/port/port.h"
#include "target/scsi/lun_memory.h"
#include "target/scsi/target_id.h"
#include "target/journal_thread.h"
#include "target/state_dir.h"
#include "target/start_signals.h"
#include "target/store_opener.h"

/* The end of the target. server_stop_enter() makes every change. */
enum server_stop_state {
	SERVER_SERVES,
	SERVER_AWAITS_CHANGES, /* a signal came; changes of volumes are running */
	SERVER_FLUSHES,	       /* while initiators are logged in */
	SERVER_DRAINS,	       /* the port ends its channels */
	SERVER_FLUSHES_LAST,   /* no initiator is logged in any more */
	SERVER_ENDED,	       /* the workers are told to stop */
};

/* One volume's flushes at the end. */
struct last_flush {
	struct server *server;
	struct volume *vol;
	struct block_cmd cmd;
	bool awaited; /* the answer to cmd, or the end of a job */
	bool failed;  /* and the failure was logged */
	bool rests;   /* the journal is still being written */
	struct reactor_msg job_ended;
	struct reactor_msg rested;
	struct reactor_timer managed;
};

/* Stops the reactor of a worker after all messages that were sent before. */
struct stop_msg {
	struct reactor_msg msg;
	struct reactor *reactor;
};

/* The commands of one worker, for server_drain.h. */
struct drain_count {
	struct reactor_msg msg;
	struct worker *worker;
	unsigned int look; /* ticks, when it was asked */
	atomic_bool asked;
	atomic_uint looked; /* look, when it has answered */
	atomic_uint commands;
};

/* Private to server_drain.c. */
struct server_drain {
	struct reactor_timer timer;
	unsigned int ticks; /* from 1; 0: it has not begun */
	uint64_t since_us;
	uint64_t closed_us; /* no new commands come since; 0: they do */
	unsigned int first; /* commands in flight then */
	struct drain_count counts[WORKERS_MAX];
};

struct server;
struct control;
struct export;
struct heartbeat;
struct manage;
struct responder_process;

/* Calls of other threads that worker 0 runs; see server_call(). */
struct server_calls {
	pthread_mutex_t callers; /* one caller at a time; taken first */
	pthread_mutex_t lock;	 /* guards the next two */
	pthread_cond_t changed;
	bool open; /* worker 0 runs */
	bool done;
	struct reactor_msg msg;
	struct server *server;
	void (*run)(struct server *s, void *arg);
	void *arg;
	const struct log_caller *caller;
};

struct server {
	const struct target_options *opt;
	start_signals_store opening; /* at the start */
	struct worker workers[WORKERS_MAX];
	unsigned int worker_cnt; /* workers that are open */
	struct lun_map luns;
	/* At the start: the place of each in the options. */
	unsigned int backing_of[LUNS_MAX];
	struct absents absents;
	struct store_opener opener;
	/* Volumes that are being removed: no command finds them, but some may still
	 * run. */
	struct volume *leaving[LUNS_MAX];
	unsigned int leaving_cnt;
	unsigned int
		leavers; /* the same, and those whose stores are being closed */
	/* The worker has attached this many volumes, the first ones. */
	unsigned int attached[WORKERS_MAX];
	struct port port;
	struct target_state_dir state_dir;
	struct target_id target;
	struct lun_memory lun_memory; /* changed as the configuration is */
	struct srp_port_id id;	      /* of the port */
	struct listen_points points;

	int signal_fd;
	struct reactor_watch signals;
	int start_signal; /* the one that came while stores were opened; 0: none */
	int stop_signal;	 /* the signal that stops the target; 0: none */
	uint64_t stop_signal_ms; /* when it came (ticks_clock_ms()) */
	enum server_stop_state stop_state;
	uint64_t stop_state_us; /* when it began */
	/* Changes that are running; the end waits for them. */
	unsigned int changing;
	uint64_t start_ns;	     /* since 1970; constant */
	struct manage *manage;	     /* NULL: nothing changes while the target
				  * runs */
	struct control *control;     /* NULL: no socket */
	struct error no_control;     /* why, if no option names it */
	struct export *export;	     /* export.h */
	struct heartbeat *heartbeat; /* heartbeat.h; NULL: not requested */
	struct responder_process *responder; /* responder_process.h; NULL: no
					      * answers */
	const struct configuration *configuration;
	/* For SIGHUP. NULL: there is no configuration file. */
	void (*reload)(struct manage *m);
	struct server_calls calls;
	struct pidfile pidfile;
	bool is_user;	/* it has the rights of --user, for good */
	bool low_ports; /* it had the right to them when it started */
	bool network;	/* the sandbox lets plugins make connections */
	int notify_fd;	/* -1: none */
	int exit_code;

	/* A plugin reports that a volume has another size: the message to
	 * worker 0, and whether it is on its way. */
	struct reactor_msg resized;
	_Atomic bool resizing;

	struct last_flush flushes[LUNS_MAX];
	unsigned int flushes_left;
	bool abandons; /* the stores of some volumes may still use them */
	struct stop_msg stops[WORKERS_MAX];
	struct journal_thread journals;
	struct server_drain drain;
};

/* The start waits for what is not there yet: it can be asked what that is. */
static inline bool server_waits(const struct server *s)
{
	const struct configuration *c = s->configuration;
	bool has_control =
		s->opt->control && s->opt->control != c->own_control.text;

	return (s->opt->config || has_control) && !s->opt->strict;
}

void server_calls_init(struct server *s);
/* Worker 0 runs from now on; or it does no more, which ends all calls. Thread:
 * main. */
void server_calls_open(struct server *s);
void server_calls_close(struct server *s);

/*
 * Lets worker 0 call run(@s, @arg), and waits until it has. Return: 0, or
 * -ESHUTDOWN: worker 0 has ended and will not call it. Thread: any but that of
 * a worker.
 */
int server_call(struct server *s, void (*run)(struct server *s, void *arg),
		void *arg);

/* The same on worker @w. Only between server_begin_change() and
 * server_end_change(), when all workers run. */
void server_call_worker(struct worker *w,
			void (*run)(struct worker *w, void *arg), void *arg);

/* server_begin_change() and server_end_change(), for a thread that is no worker. */
int server_call_begin(struct server *s);
void server_call_end(struct server *s);

/* For struct listen_how; @user is the server. Thread: worker 0. */
int server_listen_later(void *user, const struct listen_point *at,
			struct error *e);
void server_unlisten(void *user, unsigned int tag);
/* Gives @w a transport. With @await, a machine without a device is not an error.
 * -errno with the reason in @e; worker_remove_xp() then frees what there is of it.
 * Thread: @w, or setup. */
int server_create_xp(const struct server *s, struct worker *w,
		     enum xp_kind kind, bool await, struct error *e);

#endif
