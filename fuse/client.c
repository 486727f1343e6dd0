/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/data.h"
#include "fuse/dev.h"
#include "fuse/metrics_writer.h"
#include "fuse/mount_session.h"
#include "fuse/mount_volumes.h"
#include "fuse/notify.h"
#include "fuse/tree.h"
#include "base/log.h"
#include "base/memlock.h"
#include "base/reactor.h"
#include "base/ticks.h"
#include "initiator/srp_initiator.h"

/* How long requests in flight may take after a signal. Then the session is closed,
 * and they fail. */
#define DRAIN_MS 10000

/* Locked memory for slots, at most; and what stays for other memory. */
#define PIN_MAX	    (64ull << 20)
#define PIN_RESERVE (256ull << 10)

/* Registered with the ring: /dev/fuse, and the sockets of channels over TCP. */
#define FILES_MAX 32

struct client {
	const struct fuse_options *o;
	struct mount *mount;
	unsigned int queues; /* of FUSE over io_uring; 0: it is not offered */
	struct reactor *reactor;
	struct srpi_ctx *ctx; /* runs on it */
	struct mount_session session;
	bool follows; /* files come and go with their volumes */
	struct tree *tree;
	struct mount_volumes volumes;
	struct notify notify;
	struct metrics_writer metrics;
	struct dev *dev;

	struct reactor_watch signals;
	bool watching_signals;
	unsigned int stop_signals; /* signals that ask for the end */
	pid_t unmounter;	   /* 0: none */
	int unmount_status;

	struct error e;
	bool unmounted; /* the kernel has unmounted */
	int device_err;
	struct reactor_timer drain_timer;
	unsigned int flushing;
	int status; /* to exit with */
};

/* ---- signals ---- */

static void client_reap_unmounter(struct client *c)
{
	int status;

	if (c->unmounter > 0 &&
	    waitpid(c->unmounter, &status, WNOHANG) == c->unmounter) {
		c->unmount_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		c->unmounter = 0;
	}
}

static void client_signal_ready(struct reactor_watch *w, uint32_t events)
{
	struct client *c = container_of(w, struct client, signals);
	struct signalfd_siginfo info;

	while (read(w->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			client_reap_unmounter(c);
		else
			c->stop_signals++;
	}
}

static void client_signals_stopped(struct reactor_watch *w)
{
	container_of(w, struct client, signals)->watching_signals = false;
}

void client_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
	sigaddset(ret, SIGCHLD);
}

static int client_watch_signals(struct client *c)
{
	sigset_t set;

	client_signals(&set);
	c->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->signals.fd < 0) {
		return error_set(&c->e, -errno, "cannot watch for signals: %s",
				 strerror(errno));
	}
	c->signals.events = POLLIN;
	c->signals.ready = client_signal_ready;
	c->signals.stopped = client_signals_stopped;
	c->watching_signals = true;
	reactor_watch_start(c->reactor, &c->signals);
	return 0;
}

/* ---- the loop ---- */

/* Runs one turn. -1: the event loop failed, and the process must end. */
static int client_turn(struct client *c)
{
	int err = reactor_run_once(c->reactor, -1);

	if (err >= 0)
		return 0;
	log_error("the event loop failed: %s", strerror(-err));
	return -1;
}

/* ---- logging in ---- */

static int client_login(struct client *c)
{
	int err;

	c->follows = mount_volumes_follow(c->o, c->mount);
	err = mount_session_open(&c->session, c->o, c->ctx, c->mount->path,
				 c->follows, &c->e);
	if (err)
		return err;
	while (!c->session.login_done && !c->stop_signals) {
		err = reactor_run_once(c->reactor, -1);
		if (err < 0) {
			return error_set(&c->e, err,
					 "the event loop failed: %s",
					 strerror(-err));
		}
	}
	if (!c->session.login_done) {
		return error_set(&c->e, -EINTR,
				 "interrupted while logging in to %s",
				 c->o->uri);
	}
	c->e = c->session.login_error;
	return c->e.err;
}

/* ---- the device ---- */

static void client_device_ended(struct dev *dev, int err);

static uint32_t client_edge_len(const struct client *c)
{
	uint32_t edge = 4096;

	for (unsigned int i = 0; i < c->tree->cnt; i++) {
		const struct tree_file *f = tree_shown(c->tree, i);

		if (f && f->info->block_size > edge)
			edge = f->info->block_size;
	}
	return edge;
}

/* Bytes that may be registered: an RDMA device locks them. 0: no limit. */
static uint64_t client_pin_budget(const struct client *c)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	uint64_t left = memlock_left();

	srpi_session_info(c->session.srpi, &si);
	if (!si.pins_memory)
		return 0;
	if (left >= PIN_MAX + PIN_RESERVE)
		return PIN_MAX;
	return left > PIN_RESERVE ? left - PIN_RESERVE : 1;
}

static unsigned int client_slot_cnt(const struct client *c)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	unsigned int n;

	srpi_session_info(c->session.srpi, &si);
	n = si.channels * c->o->queue_depth;
	return n < 16 ? 16 : n > 1024 ? 1024 : n;
}

static unsigned int client_queue_depth(const struct client *c)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };

	srpi_session_info(c->session.srpi, &si);
	return si.queue_depth;
}

static int client_make_device(struct client *c)
{
	const struct dev_options d = {
		.reactor = c->reactor,
		.session = c->session.srpi,
		.slots = client_slot_cnt(c),
		.queues = c->queues,
		.volumes = c->tree->cnt,
		.depth = client_queue_depth(c),
		.max_write = c->o->max_write,
		.edge = client_edge_len(c),
		.pin_budget = client_pin_budget(c),
		.request = data_request,
		.ended = client_device_ended,
		.user = c->tree,
		.owner = c,
	};
	int err = dev_create(&d, &c->dev, &c->e);

	if (err)
		return err;
	c->volumes.dev = c->dev;
	c->volumes.edge = d.edge;
	for (unsigned int i = 0; i < c->tree->cnt; i++) {
		struct tree_file *f = tree_shown(c->tree, i);

		if (f)
			allocation_init(&f->allocation, c->session.srpi,
					c->reactor, f->volume);
	}
	return 0;
}

static void client_device_ended(struct dev *dev, int err)
{
	struct client *c = dev_owner(dev);

	c->unmounted = true;
	c->device_err = err;
}

/* ---- the mount ---- */

static int client_mount(struct client *c)
{
	int err = mount_begin(c->mount, c->o, c->o->read_only, c->dev, &c->e);

	if (err)
		return err;
	err = dev_start(c->dev, c->mount->se);
	if (!err && c->follows) {
		err = notify_start(&c->notify, c->reactor, dev_fd(c->dev),
				   &c->e);
		if (err)
			return err;
	}
	while (!err && !dev_is_ready(c->dev) && !c->unmounted &&
	       !c->stop_signals)
		err = client_turn(c);
	if (!err && dev_is_ready(c->dev))
		return 0;
	return error_set(&c->e, -EIO, "%s: the mount %s", c->mount->path,
			 c->stop_signals ? "was interrupted"
			 : c->unmounted	 ? "ended before it began"
					 : "does not answer");
}

/* Serves requests until the child has unmounted. False: it failed. */
static bool client_unmount(struct client *c, bool lazy)
{
	c->unmounter = mount_unmount(c->mount, lazy);
	if (c->unmounter < 0) {
		c->unmounter = 0;
		return false;
	}
	client_reap_unmounter(c);
	while (c->unmounter > 0) {
		if (client_turn(c))
			return false;
	}
	return c->unmount_status == 0;
}

static void client_end_mount(struct client *c)
{
	if (c->unmounted || !c->mount->mounted)
		return;
	if (client_unmount(c, /* lazy= */ false))
		return;
	if (c->unmounted)
		return;
	if (client_unmount(c, /* lazy= */ true))
		log_warn("%s is in use: detached it; programs that have files "
			 "open there get errors from now on",
			 c->mount->path);
	else {
		log_error("cannot unmount %s; unmount it: fusermount3 -u %s",
			  c->mount->path, c->mount->path);
		c->status = EXIT_FAILURE;
	}
}

/* ---- the end ---- */

static void client_close_session(struct client *c)
{
	if (!c->session.srpi)
		return;
	dev_fail(c->dev);
	c->session.volumes = NULL;
	if (c->tree)
		c->tree->session = NULL;
	mount_session_close(&c->session);
}

static void client_drain_late(struct reactor_timer *t)
{
	struct client *c = container_of(t, struct client, drain_timer);

	c->stop_signals += 2;
}

static bool client_is_idle(const struct client *c)
{
	for (unsigned int i = 0; c->tree && i < c->tree->cnt; i++) {
		const struct tree_file *f = c->tree->files[i];

		if (f && allocation_busy(&f->allocation))
			return false;
	}
	return dev_idle(c->dev) && c->flushing == 0;
}

/* The session may be closed: f->info is not valid. */
static void client_log_unflushed(struct client *c, const struct tree_file *f,
				 int err)
{
	log_error("the last flush of volume %s failed: %s; data written since "
		  "the last fsync may be lost",
		  f->name, strerror(-err));
	c->status = EXIT_FAILURE;
}

static void client_flushed(struct srpi_io *io, int res)
{
	struct client *c = io->arg;

	c->flushing--;
	if (res)
		client_log_unflushed(
			c, container_of(io, struct tree_file, flush), res);
}

/* Flushes each volume that was written. Without a session, logs that the data may
 * be lost. */
static void client_flush_all(struct client *c)
{
	for (unsigned int i = 0; i < c->tree->cnt; i++) {
		struct tree_file *f = tree_shown(c->tree, i);

		if (!f || !f->unflushed)
			continue;
		if (!c->session.srpi) {
			client_log_unflushed(c, f, -ECANCELED);
			continue;
		}
		f->flush = (struct srpi_io){ .op = SRPI_FLUSH,
					     .volume = f->volume,
					     .done = client_flushed,
					     .arg = c };
		c->flushing++;
		srpi_submit(c->session.srpi, &f->flush);
	}
}

/* Waits until all requests are answered. At a further signal, or when the timer
 * expires, closes the session, and requests in flight fail. */
static void client_wait_idle(struct client *c)
{
	unsigned int stop_limit = c->stop_signals + 1;

	reactor_timer_set(c->reactor, &c->drain_timer, DRAIN_MS);
	while (!client_is_idle(c)) {
		if (client_turn(c))
			return;
		if (c->stop_signals >= stop_limit)
			client_close_session(c);
	}
	reactor_timer_stop(&c->drain_timer);
}

static void client_drain(struct client *c)
{
	dev_stop(c->dev);
	client_wait_idle(c);
	client_flush_all(c);
	client_wait_idle(c);
}

static void client_unwatch_signals(struct client *c)
{
	if (!c->watching_signals)
		return;
	reactor_watch_stop(&c->signals);
	while (c->watching_signals && client_turn(c) == 0)
		;
	close(c->signals.fd);
}

/* The thread may wait for a process that waits for an answer. */
static void client_end_notify(struct client *c)
{
	notify_stop(&c->notify);
	while (!notify_has_ended(&c->notify) && client_turn(c) == 0)
		;
	notify_end(&c->notify);
}

/* The file may be on this mount. */
static void client_end_metrics(struct client *c)
{
	metrics_writer_stop(&c->metrics);
	while (!metrics_writer_has_ended(&c->metrics) && client_turn(c) == 0)
		;
	metrics_writer_end(&c->metrics);
}

/* Ends a client that may be built only in part. What is mounted of a session that is
 * lost stays, without a server: what programs write must not go to the directory below. */
static void client_end(struct client *c)
{
	if (c->mount->mounted) {
		if (!c->session.lost)
			client_end_mount(c);
		client_end_notify(c);
		client_end_metrics(c);
		client_drain(c);
	}
	client_close_session(c);
	while (c->session.closing && client_turn(c) == 0)
		;
	client_unwatch_signals(c);
	dev_close(c->dev);
	mount_free(c->mount);
	tree_free(c->tree);
	srpi_ctx_destroy(c->ctx);
	reactor_destroy(c->reactor);
	/* Only now: while there is a ring, the kernel may complete entries. */
	dev_free(c->dev);
}

/* One event loop for /dev/fuse and for libsrpi. */
static int client_make_loop(struct client *c)
{
	const struct reactor_options ro = {
		.poll_us = c->o->poll_us,
		.wide = c->queues > 0,
		.max_files = FILES_MAX,
	};
	struct srpi_ctx_options co = { .struct_size = sizeof(co) };
	struct srpi_error e;
	int err = reactor_create(&ro, &c->reactor);

	if (err) {
		return error_set(&c->e, err, "cannot set up io_uring: %s%s",
				 strerror(-err), reactor_create_hint(err));
	}
	co.reactor = c->reactor;
	err = srpi_ctx_create(&co, &c->ctx, &e);
	return err ? error_set(&c->e, err, "%s", e.text) : 0;
}

static int client_begin(struct client *c)
{
	int err;

	if (*c->o->metrics_file)
		ticks_init();
	c->queues = uring_queues();
	err = client_make_loop(c);
	if (err)
		return err;
	reactor_timer_init(&c->drain_timer, client_drain_late);
	err = client_watch_signals(c);
	if (!err)
		err = client_login(c);
	if (err)
		return err;
	err = mount_volumes_make(c->o, c->mount, c->session.srpi, &c->tree,
				 &c->e);
	if (err)
		return err;
	c->volumes = (struct mount_volumes){ .mount = c->mount,
					     .tree = c->tree,
					     .reactor = c->reactor,
					     .notify = &c->notify };
	c->session.volumes = &c->volumes;
	err = client_make_device(c);
	if (!err)
		err = client_mount(c);
	if (!err && *c->o->metrics_file)
		err = metrics_writer_start(&c->metrics, c->o->metrics_file,
					   c->reactor, c->tree, c->mount->path,
					   &c->e);
	return err;
}

static void client_serve(struct client *c)
{
	while (!c->unmounted && !c->stop_signals && !c->session.lost) {
		if (client_turn(c)) {
			c->status = EXIT_FAILURE;
			return;
		}
	}
	if (c->session.lost)
		c->status = EXIT_FAILURE;
	if (c->device_err) {
		log_error("%s: cannot read from /dev/fuse: %s", c->mount->path,
			  strerror(-c->device_err));
		c->status = EXIT_FAILURE;
	}
}

int client_run(const struct fuse_options *o, struct mount *m,
	       int (*ready)(void *arg), void *arg)
{
	struct client c = { .o = o, .mount = m };

	if (client_begin(&c)) {
		log_error("%s", c.e.text);
		c.status = EXIT_FAILURE;
	} else {
		mount_session_log(&c.session);
		mount_volumes_log(c.mount, c.tree);
		if (ready(arg))
			c.status = EXIT_FAILURE;
		else
			client_serve(&c);
	}
	client_end(&c);
	if (c.status == EXIT_SUCCESS)
		log_notice("%s: unmounted", m->path);
	return c.status;
}
