/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuse-bench: the part of rdma-fuse between the kernel and libsrpi, without a
 * target. Shows the cost of FUSE alone. Mounts a directory with the file "disk"
 * (1 GiB). Reads and writes are answered one turn later, without any data. Run
 * fio on this file. Ends when it is unmounted, and prints how often it called
 * the kernel.
 *
 *   fuse-bench MOUNTPOINT
 */
#define FUSE_USE_VERSION 312
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/data.h"
#include "fuse/mount.h"
#include "base/log.h"

#define SIZE  (1ull << 30)
#define SLOTS 64

/* ---- replacement of libsrpi ---- */

struct srpi_session {
	struct reactor *reactor;
	struct srpi_volume_info info;
	struct srpi_io *waiting[4096];
	unsigned int cnt;
	uint64_t done;
	struct reactor_msg msg;
	bool sent;
};

static void answer(struct reactor_msg *msg)
{
	struct srpi_session *s = container_of(msg, struct srpi_session, msg);
	unsigned int cnt = s->cnt;

	s->sent = false;
	s->cnt = 0;
	s->done += cnt;
	for (unsigned int i = 0; i < cnt; i++)
		s->waiting[i]->done(s->waiting[i], 0);
}

void srpi_submit(struct srpi_session *s, struct srpi_io *io)
{
	s->waiting[s->cnt++] = io;
	if (s->sent)
		return;
	s->sent = true;
	reactor_send(s->reactor, &s->msg);
}

/* No write of the bench overlaps another one. */
bool srpi_range_take(struct srpi_session *s, struct srpi_range *range)
{
	return true;
}

void srpi_range_submit(struct srpi_session *s, struct srpi_range *range,
		       struct srpi_io *io)
{
	srpi_submit(s, io);
}

void srpi_range_give_back(struct srpi_session *s, struct srpi_range *range)
{
}

bool srpi_io_answer(const struct srpi_io *io, char buf[SRPI_ANSWER_SIZE])
{
	return false;
}

bool srpi_io_refused(const struct srpi_io *io)
{
	return false;
}

enum srpi_state srpi_volume_state(const struct srpi_session *s,
				  unsigned int volume)
{
	return SRPI_RUNNING;
}

enum srpi_state srpi_session_state(const struct srpi_session *s)
{
	return SRPI_RUNNING;
}

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info)
{
	*ret_info = (struct srpi_session_info){ .transport = "none" };
}

unsigned int srpi_path_cnt(const struct srpi_session *s)
{
	return 1;
}

void srpi_path_info(const struct srpi_session *s, unsigned int path,
		    struct srpi_path_info *ret_info)
{
	*ret_info = (struct srpi_path_info){
		.struct_size = sizeof(*ret_info),
		.address = "nowhere:1",
		.state = SRPI_PATH_IN_USE,
		.why = "",
	};
}

const char *srpi_path_state_name(enum srpi_path_state state)
{
	return "in use";
}

void srpi_session_stats(const struct srpi_session *s,
			struct srpi_session_stats *ret_stats)
{
	*ret_stats = (struct srpi_session_stats){ .last_error = "" };
}

unsigned int srpi_volume_cnt(const struct srpi_session *s)
{
	return 1;
}

const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume)
{
	return &s->info;
}

void srpi_volume_forget(struct srpi_session *s, unsigned int volume)
{
}

int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e)
{
	*ret_mem = NULL;
	return 0;
}

void srpi_mem_free(struct srpi_mem *mem)
{
}

/* ---- the mount ---- */

static bool unmounted;

static void ended(struct dev *dev, int err)
{
	unmounted = true;
}

static void serve(struct reactor *r, const struct srpi_session *s,
		  struct dev *dev)
{
	struct reactor_stats st;

	while (!unmounted || !dev_idle(dev))
		reactor_run_once(r, -1);
	reactor_stats(r, &st);
	printf("%s: %llu operations, %llu calls of io_uring_enter\n",
	       dev_uses_uring(dev) ? "io_uring" : "read",
	       (unsigned long long)s->done, (unsigned long long)st.enters);
}

static int run(struct mount *m, struct srpi_session *s, struct dev_options *d,
	       struct error *e)
{
	const struct fuse_options o = { .uri = "none",
					.subtype = "fuse-bench" };
	struct dev *dev;
	int err = dev_create(d, &dev, e);

	if (err)
		return err;
	allocation_init(&((struct tree *)d->user)->files[0]->allocation, s,
			s->reactor, 0);
	err = mount_begin(m, &o, false, dev, e);
	if (!err)
		err = dev_start(dev, m->se);
	if (!err)
		serve(s->reactor, s, dev);
	dev_free(dev);
	mount_free(m);
	return err;
}

int main(int argc, char **argv)
{
	struct reactor_options ro = { .wide = uring_queues() > 0,
				      .max_files = 1 };
	struct srpi_session s = {
		.msg.run = answer,
		.info = { .name = "disk", .size = SIZE, .block_size = 512 },
	};
	struct tree_options to = { .session = &s, .volume = -1, .umask = 0177 };
	struct dev_options d = {
		.session = &s,
		.slots = SLOTS,
		.queues = uring_queues(),
		.max_write = 1 << 20,
		.edge = 4096,
		.request = data_request,
		.ended = ended,
	};
	struct error e = { 0 };
	struct tree *tree;
	struct mount m;
	int err;

	log_init("fuse-bench", LOG_NOTICE);
	if (argc != 2)
		return EXIT_FAILURE;
	err = mount_check(argv[1], &m, &e);
	if (!err)
		err = reactor_create(&ro, &d.reactor);
	if (!err)
		err = tree_create(&to, &tree);
	if (!err) {
		s.reactor = d.reactor;
		d.user = tree;
		err = run(&m, &s, &d, &e);
	}
	if (err)
		fprintf(stderr, "%s: %s\n", e.text, strerror(-err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
