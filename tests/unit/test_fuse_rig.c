/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 312
#include "tests/unit/test_fuse_rig.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fuse/data.h"
#include "fuse/ops.h"
#include "fuse/reader.h"
#include "fuse/slots.h"

#define EDGE 4096

static void ended(struct dev *dev, int err)
{
	struct rig *r = dev_owner(dev);

	r->ended = true;
}

/* The target can write to all of a slot's memory at any moment. Values that the
 * mount relies on must not lie there. */
static bool request(struct slot *slot, const struct fuse_in_header *in)
{
	const uint8_t *end = slot_tail(slot) + EDGE;
	const uint8_t *p = (const uint8_t *)in;

	assert_true(p < slot_head(slot) || p >= end);
	p = (const uint8_t *)&slot->answer.header;
	assert_true(p < slot_head(slot) || p >= end);
	if (((struct rig *)dev_owner(slot->dev))->large)
		dev_reader(slot->dev)->large = true;
	return data_request(slot, in);
}

static struct fuse_session *make_session(struct rig *r, int fd)
{
	char name[] = "test";
	char text[64];
	char path[32];
	char *argv[] = { name, text, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	struct fuse_session *se;

	snprintf(text, sizeof(text), "-omax_read=%u", RIG_MAX_WRITE);
	se = fuse_session_new(&args, &ops_lowlevel, sizeof(ops_lowlevel),
			      r->dev);
	fuse_opt_free_args(&args);
	assert_non_null(se);
	/* An open descriptor as the mount point: nothing is mounted. */
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	assert_int_equal(fuse_session_mount(se, path), 0);
	return se;
}

static void say_hello(struct rig *r)
{
	const struct fuse_init_in in = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.flags = FUSE_INIT_EXT | FUSE_MAX_PAGES | FUSE_ASYNC_DIO |
			 FUSE_ATOMIC_O_TRUNC,
		.flags2 = 0xffffffff,
	};

	rig_send(r, FUSE_INIT, 0, &in, sizeof(in), NULL, 0);
	rig_receive(r);
	assert_int_equal(r->out.error, 0);
}

static void make_dev(struct rig *r, const struct rig_options *o)
{
	const struct tree_options to = {
		.session = r->target,
		.volume = -1,
		.read_only = o->read_only,
		.metered = o->metered,
		.umask = 0177,
	};
	struct dev_options d = {
		.reactor = r->reactor,
		.session = r->target,
		.slots = o->slots ? o->slots : 16,
		.max_write = RIG_MAX_WRITE,
		.edge = EDGE,
		.request = request,
		.ended = ended,
		.owner = r,
	};
	struct error e;

	assert_int_equal(tree_create(&to, &r->tree), 0);
	d.user = r->tree;
	assert_int_equal(dev_create(&d, &r->dev, &e), 0);
	allocation_init(&r->tree->files[0]->allocation, r->target, r->reactor,
			0);
}

struct rig *rig_new(const struct rig_options *o)
{
	static const struct reactor_options ro;
	struct rig *r = calloc(1, sizeof(*r));
	int size = 1 << 20;
	int fds[2];

	assert_non_null(r);
	assert_int_equal(reactor_create(&ro, &r->reactor), 0);
	r->target = t_srpi_new(r->reactor, RIG_SIZE,
			       o->block_size ? o->block_size : 512);
	r->target->info.unmap = !o->thick;
	make_dev(r, o);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	r->kernel = fds[0];
	r->se = make_session(r, fds[1]);
	assert_int_equal(dev_start(r->dev, r->se), 0);
	say_hello(r);
	return r;
}

int rig_fd(const struct rig *r)
{
	return fuse_session_fd(r->se);
}

void rig_free(struct rig *r)
{
	assert_false(rig_settle(r));
	for (size_t i = 0; i < ARRAY_SIZE(r->open); i++) {
		if (r->open[i])
			rig_release(r, r->open[i]);
	}
	dev_stop(r->dev);
	while (!dev_idle(r->dev))
		reactor_run_once(r->reactor, 1000);
	dev_free(r->dev);
	fuse_session_destroy(r->se);
	tree_free(r->tree);
	t_srpi_free(r->target);
	reactor_destroy(r->reactor);
	close(r->kernel);
	free(r);
}

uint64_t rig_send(struct rig *r, uint32_t opcode, uint64_t nodeid,
		  const void *args, size_t args_len, const void *payload,
		  size_t len)
{
	struct fuse_in_header in = {
		.len = (uint32_t)(sizeof(in) + args_len + len),
		.opcode = opcode,
		.unique = 2 * ++r->unique,
		.nodeid = nodeid,
		.pid = RIG_PID,
	};
	struct iovec iov[] = {
		{ &in, sizeof(in) },
		{ (void *)(uintptr_t)args, args_len },
		{ (void *)(uintptr_t)payload, len },
	};

	assert_int_equal(writev(r->kernel, iov, 3), in.len);
	return in.unique;
}

static bool have_answer(struct rig *r)
{
	struct pollfd p = { .fd = r->kernel, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

bool rig_settle(struct rig *r)
{
	while (reactor_run_once(r->reactor, 0) == 1)
		;
	return have_answer(r);
}

void rig_receive(struct rig *r)
{
	struct iovec iov[] = {
		{ &r->out, sizeof(r->out) },
		{ r->data, sizeof(r->data) },
	};
	ssize_t n;

	while (!have_answer(r))
		assert_true(reactor_run_once(r->reactor, 100000) == 1);
	n = readv(r->kernel, iov, 2);
	assert_true(n >= (ssize_t)sizeof(r->out));
	assert_int_equal(n, r->out.len);
	r->data_len = (size_t)n - sizeof(r->out);
}

void rig_expect(struct rig *r, int err)
{
	rig_receive(r);
	assert_int_equal(r->out.error, err);
}

int rig_ask(struct rig *r, uint32_t opcode, const void *args, size_t args_len)
{
	uint64_t unique =
		rig_send(r, opcode, RIG_FILE, args, args_len, NULL, 0);

	rig_receive(r);
	assert_int_equal(r->out.unique, unique);
	return r->out.error;
}

int rig_read(struct rig *r, uint64_t offset, uint32_t size)
{
	const struct fuse_read_in in = { .offset = offset, .size = size };

	return rig_ask(r, FUSE_READ, &in, sizeof(in));
}

uint64_t rig_send_write(struct rig *r, uint64_t fh, uint64_t offset,
			const void *data, uint32_t size)
{
	const struct fuse_write_in in = {
		.fh = fh,
		.offset = offset,
		.size = size,
	};

	return rig_send(r, FUSE_WRITE, RIG_FILE, &in, sizeof(in), data, size);
}

int rig_write(struct rig *r, uint64_t fh, uint64_t offset, const void *data,
	      uint32_t size)
{
	uint64_t unique = rig_send_write(r, fh, offset, data, size);

	rig_receive(r);
	assert_int_equal(r->out.unique, unique);
	return r->out.error;
}

/* Does nothing if there is no handle @old. */
static void replace_handle(struct rig *r, uint64_t old, uint64_t fh)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->open); i++) {
		if (r->open[i] != old)
			continue;
		r->open[i] = fh;
		return;
	}
}

uint64_t rig_open(struct rig *r, uint32_t flags)
{
	const struct fuse_open_in in = { .flags = flags };
	struct fuse_open_out out;

	assert_int_equal(rig_ask(r, FUSE_OPEN, &in, sizeof(in)), 0);
	assert_int_equal(r->data_len, sizeof(out));
	memcpy(&out, r->data, sizeof(out));
	assert_int_equal(out.open_flags,
			 FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES);
	replace_handle(r, 0, out.fh);
	return out.fh;
}

void rig_release(struct rig *r, uint64_t fh)
{
	const struct fuse_release_in in = { .fh = fh };

	assert_int_equal(rig_ask(r, FUSE_RELEASE, &in, sizeof(in)), 0);
	replace_handle(r, fh, 0);
}
