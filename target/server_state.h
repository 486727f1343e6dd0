/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma-target is while it runs, for server.c and those of its neighbours that
 * change it (manage.h). Worker 0 owns it, but for what a comment says.
 */
#ifndef TARGET_SERVER_STATE_H
#define TARGET_SERVER_STATE_H

#include <signal.h>

#include "base/pidfile.h"
#include "target/listen.h"
#include "target/options.h"
#include "target/port/port.h"

/* One volume's last flush. */
struct last_flush {
	struct server *server;
	struct volume *vol;
	struct block_cmd cmd;
	bool failed; /* and the log has said so */
	struct reactor_msg job_ended;
};

/* Ends a worker's reactor behind all messages sent before. */
struct stop_msg {
	struct reactor_msg msg;
	struct reactor *reactor;
};

struct server {
	const struct target_options *opt;
	struct worker workers[WORKERS_MAX];
	unsigned int worker_cnt; /* opened */
	struct lun_map luns;
	/* Volumes that the worker has attached, the first so many. */
	unsigned int attached[WORKERS_MAX];
	struct port port;
	struct srp_port_id id;
	struct listen_points points;

	sigset_t old_mask;
	int signal_fd;
	struct reactor_watch signals;
	bool stopping;
	bool ended; /* the workers are told to stop */
	struct pidfile pidfile;
	int notify_fd; /* -1: none */
	int exit_code;

	/* A plugin says that a volume has another size: the message to worker 0,
	 * and whether it is under way. */
	struct reactor_msg resized;
	_Atomic bool resizing;

	struct last_flush flushes[LUNS_MAX];
	unsigned int flushes_left;
	bool port_is_gone; /* no initiator is there any more */
	struct stop_msg stops[WORKERS_MAX];
};

#endif
