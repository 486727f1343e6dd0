/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "target/port/meter.h"
#include "target/port/slow.h"
#include "target/port/watchdog.h"

/* Fixed files: one for each volume. Fixed buffers: the arena. */
#define WORKER_MAX_BUFFERS 4

/* The operations that serving needs. The ring refuses all others, so an
 * attacker who takes over the process cannot use the ring for what the sandbox
 * forbids. */
static const uint8_t ring_ops[] = {
	/* stores (target/block/store_file.c), and what survives (target/disk/journal.c) */
	IORING_OP_READ,
	IORING_OP_READ_FIXED,
	IORING_OP_WRITE,
	IORING_OP_WRITE_FIXED,
	IORING_OP_FSYNC,
	IORING_OP_FALLOCATE,
	/* channels over TCP, which others open */
	IORING_OP_ACCEPT,
	IORING_OP_RECV,
	IORING_OP_RECVMSG,
	IORING_OP_SEND,
	IORING_OP_SENDMSG,
};

static int worker_open_parts(struct worker *w, const struct worker_options *opt,
			     struct error *e)
{
	struct reactor_options ropt = {
		.ring_entries = 512,
		.poll_us = opt->poll_us,
		.max_buffers = WORKER_MAX_BUFFERS,
		.max_files = LUNS_MAX,
		.ops = opt->unrestricted ? NULL : ring_ops,
		.op_cnt = ARRAY_SIZE(ring_ops),
	};
	char size[SIZE_TEXT_SIZE];
	int err = reactor_create(&ropt, &w->reactor);

	if (err) {
		error_set(e, err, "cannot set up io_uring: %s%s",
			  strerror(-err), reactor_create_hint(err));
		return err;
	}
	w->block.reactor = w->reactor;
	err = arena_create(opt->arena_len, &w->arena);
	if (!err)
		err = arena_create(WORKER_TABLES_LEN, &w->tables);
	if (err)
		error_set(e, err,
			  "cannot map %s of buffers: %s; lower --buffers",
			  size_format(opt->arena_len, size), strerror(-err));
	return err;
}

int worker_open(struct worker *w, const struct worker_options *opt,
		struct error *e)
{
	int err;

	memset(w, 0, sizeof(*w));
	w->index = opt->index;
	w->block.index = opt->index;
	pthread_mutex_init(&w->doing_lock, NULL);
	list_init(&w->channels);
	list_init(&w->managing);
	request_pool_init(&w->requests, w);
	w->rdma_timeout_ms = opt->rdma_timeout_ms ? opt->rdma_timeout_ms
						  : WATCHDOG_RDMA_TIMEOUT_MS;
	watchdog_init(w);
	slow_init(w, opt->slow_ms);
	err = worker_open_parts(w, opt, e);
	if (err)
		worker_close(w);
	return err;
}

int worker_add_xp(struct worker *w, struct xp *xp, struct error *e)
{
	enum xp_kind kind = xp_kind(xp);
	int err;

	w->xp[kind] = xp;
	err = xp_mr_register(xp, arena_base(w->arena), arena_len(w->arena),
			     XP_LOCAL, &w->arena_mr[kind], e);
	if (err)
		return err;
	return xp_mr_register(xp, arena_base(w->tables), arena_len(w->tables),
			      XP_LOCAL, &w->tables_mr[kind], e);
}

int worker_fix_buffers(struct worker *w)
{
	int index;
	int err = reactor_buffer_add(w->reactor, arena_base(w->arena),
				     arena_len(w->arena), &index);

	if (err)
		return err;
	arena_set_uring_index(w->arena, index);
	return 0;
}

void worker_remove_xp(struct worker *w, enum xp_kind kind)
{
	xp_mr_free(w->arena_mr[kind]);
	xp_mr_free(w->tables_mr[kind]);
	xp_destroy(w->xp[kind]);
	w->arena_mr[kind] = NULL;
	w->tables_mr[kind] = NULL;
	w->xp[kind] = NULL;
}

static void worker_close_xps(struct worker *w)
{
	for (int kind = 0; kind < XP_KINDS; kind++)
		worker_remove_xp(w, (enum xp_kind)kind);
}

/* Lets things that were stopped just now (watches of the transports) report
 * this in the next turns. */
static void worker_let_end(struct reactor *r)
{
	while (reactor_run_once(r, /* timeout_ms= */ 0) > 0)
		;
}

/* The steps that only the thread of the reactor may do. */
static void worker_close_on_thread(struct worker *w)
{
	watchdog_stop(w);
	worker_close_xps(w);
	worker_let_end(w->reactor);
	if (arena_uring_index(w->arena) >= 0) {
		reactor_buffer_remove(w->reactor, arena_uring_index(w->arena));
		arena_set_uring_index(w->arena, -1);
	}
	reactor_let_go(w->reactor);
}

void worker_close(struct worker *w)
{
	if (w->arena && !w->ended)
		worker_close_on_thread(w);
	reactor_destroy(w->reactor);
	arena_destroy(w->arena);
	arena_destroy(w->tables);
	w->reactor = NULL;
	w->block.reactor = NULL;
	w->arena = NULL;
	w->tables = NULL;
}

/* ---- volumes ---- */

static int worker_register_memory(struct worker *w, struct volume *vol,
				  struct port_memory *m, struct error *e)
{
	for (int kind = 0; kind < XP_KINDS; kind++) {
		int err;

		if (!w->xp[kind] || m->mr[kind])
			continue;
		err = xp_mr_register(w->xp[kind], block_in_place(&vol->dev, 0),
				     vol->blocks * vol->block_size, XP_LOCAL,
				     &m->mr[kind], e);
		if (err)
			return err;
		if (xp_kind_traits(kind)->needs_device)
			block_pin_memory(&vol->dev);
	}
	return 0;
}

int worker_register_volume(struct worker *w, struct volume *vol,
			   struct error *e)
{
	struct port_memory **m = &vol->port_memory[w->index];

	if (!block_in_place(&vol->dev, 0))
		return 0;
	if (!*m)
		*m = calloc(1, sizeof(**m));
	if (!*m) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	return worker_register_memory(w, vol, *m, e);
}

void worker_unregister_volume(struct worker *w, struct volume *vol,
			      enum xp_kind kind)
{
	struct port_memory *m = vol->port_memory[w->index];

	if (!m)
		return;
	xp_mr_free(m->mr[kind]);
	m->mr[kind] = NULL;
}

/* Worker 0 is the first that has a volume, and the last. */
static int worker_meter_volume(const struct worker *w, struct volume *vol,
			       struct error *e)
{
	if (!vol->meter)
		vol->meter = meter_begin(METER_OF_VOLUME, vol->name);
	if (vol->meter)
		vol->meter_shares[w->index] = meter_share(vol->meter, w->index);
	if (!vol->meter_shares[w->index])
		return error_set(e, -ENOMEM, "out of memory");
	return 0;
}

static void worker_unmeter_volume(const struct worker *w, struct volume *vol)
{
	vol->meter_shares[w->index] = NULL;
	if (w->index > 0)
		return;
	meter_end(vol->meter);
	vol->meter = NULL;
}

int worker_add_volume(struct worker *w, struct volume *vol, struct error *e)
{
	int err = volume_attach(vol, &w->block, e);

	if (err)
		return err;
	err = worker_meter_volume(w, vol, e);
	if (!err)
		err = worker_register_volume(w, vol, e);
	if (err)
		worker_remove_volume(w, vol);
	return err;
}

void worker_remove_volume(struct worker *w, struct volume *vol)
{
	struct port_memory *m = vol->port_memory[w->index];

	for (int kind = 0; m && kind < XP_KINDS; kind++)
		xp_mr_free(m->mr[kind]);
	free(m);
	vol->port_memory[w->index] = NULL;
	worker_unmeter_volume(w, vol);
	volume_detach(vol, &w->block);
}

/* ---- its thread ---- */

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "worker-%u", w->index);
	pthread_setname_np(pthread_self(), name);
	err = reactor_run(w->reactor);
	if (err) {
		/* The commands of this worker can be neither answered nor
		 * awaited, so its nexuses could never be fenced. It is better
		 * to end the target. */
		log_error("worker %u: its ring failed: %s", w->index,
			  strerror(-err));
		log_exit(EXIT_FAILURE);
	}
	if (w->thread_end(w, w->user)) {
		worker_close_on_thread(w);
		w->ended = true;
	}
	return NULL;
}

int worker_start(struct worker *w,
		 bool (*thread_end)(struct worker *w, void *user), void *user)
{
	int err;

	w->thread_end = thread_end;
	w->user = user;
	err = pthread_create(&w->thread, NULL, worker_main, w);
	w->started = err == 0;
	return -err;
}

void worker_join(struct worker *w)
{
	if (w->started)
		pthread_join(w->thread, NULL);
	w->started = false;
}
