/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* An interrupted operation is begun again, but not for ever. */
#define TRIES_MAX 1000

#define ZEROES_LEN (256u << 10)

/* Never written to, so that it costs address space and no memory. */
static uint8_t zeroes[ZEROES_LEN] __attribute__((aligned(4096)));

static struct file_backend *to_file(struct backend *be)
{
	return container_of(be, struct file_backend, base);
}

static struct block_request *to_request(struct reactor_op *op)
{
	return container_of(op, struct block_request, io);
}

static struct file_worker *store_file_worker_of(const struct block_request *req)
{
	return to_file(req->backend)->workers[req->worker->index];
}

static bool store_file_try_again(struct block_request *req, int res)
{
	return (res == -EAGAIN || res == -EINTR) && req->tries++ < TRIES_MAX;
}

static int file_fd(const struct file_worker *fw)
{
	return fw->fixed >= 0 ? fw->fixed : fw->file->fd;
}

/* The end of every io_uring_prep_*() on the file. */
static void prep_done(struct io_uring_sqe *sqe, const struct file_worker *fw,
		      struct block_request *req)
{
	if (fw->fixed >= 0)
		sqe->flags |= IOSQE_FIXED_FILE;
	reactor_prep_done(sqe, &req->io);
}

static bool is_synchronous(const struct block_request *req)
{
	return req->fua || to_file(req->backend)->write_through;
}

/* ---- reading and writing ---- */

static void transfer_done(struct reactor_op *op, int res, unsigned int flags);

static void prep_read(struct io_uring_sqe *sqe, int fd,
		      const struct block_request *req, void *buf, unsigned len)
{
	if (req->buf_index >= 0)
		io_uring_prep_read_fixed(sqe, fd, buf, len,
					 req->offset + req->progress,
					 req->buf_index);
	else
		io_uring_prep_read(sqe, fd, buf, len,
				   req->offset + req->progress);
}

static void store_file_prep_write(struct io_uring_sqe *sqe, int fd,
				  const struct block_request *req, void *buf,
				  unsigned len)
{
	if (req->buf_index >= 0)
		io_uring_prep_write_fixed(sqe, fd, buf, len,
					  req->offset + req->progress,
					  req->buf_index);
	else
		io_uring_prep_write(sqe, fd, buf, len,
				    req->offset + req->progress);
	if (is_synchronous(req))
		sqe->rw_flags = RWF_DSYNC;
}

/* One READ or WRITE of what is left. */
static void transfer(struct block_request *req)
{
	struct file_worker *fw = store_file_worker_of(req);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);
	uint64_t left = req->len - req->progress;
	unsigned int len = left > INT32_MAX / 2 ? 1u << 30 : (unsigned int)left;
	uint8_t *buf = (uint8_t *)req->buf + req->progress;

	if (req->op == BLOCK_READ)
		prep_read(sqe, file_fd(fw), req, buf, len);
	else
		store_file_prep_write(sqe, file_fd(fw), req, buf, len);
	req->io.done = transfer_done;
	prep_done(sqe, fw, req);
}

/* Counts @res bytes; false when that brings the request no further. */
static bool store_file_advance(struct block_request *req, int res)
{
	struct file_backend *file = to_file(req->backend);
	uint64_t before = req->progress;

	req->progress += (uint64_t)res;
	/* Direct I/O can go on only at the next whole unit. */
	if (file->direct && req->progress < req->len)
		req->progress -= req->progress % file->direct_unit;
	return req->progress > before;
}

static void transfer_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct block_request *req = to_request(op);

	if (res < 0) {
		if (store_file_try_again(req, res))
			transfer(req);
		else
			req->done(req, res);
		return;
	}
	/* Nothing came: the file ends earlier than it did when opened. */
	if (!store_file_advance(req, res))
		req->done(req, -EIO);
	else if (req->progress < req->len)
		transfer(req);
	else
		req->done(req, 0);
}

/* ---- flush ---- */

static void flush_start(struct file_worker *fw);

static void answer_all(struct block_request *req, int res)
{
	while (req) {
		struct block_request *next = req->next;

		req->done(req, res);
		req = next;
	}
}

static void submit_fsync(struct file_worker *fw)
{
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);

	io_uring_prep_fsync(sqe, fw->flush_fd, IORING_FSYNC_DATASYNC);
	reactor_prep_done(sqe, &fw->flush_op);
}

/* The first failure stays, of whatever worker. */
static void keep_flush_error(struct file_backend *file, int err)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&file->flush_error, &none, err))
		log_error("%s: flush failed: %s; writes that were done may be "
			  "lost, so every flush fails from now on until "
			  "rdma-target is started again",
			  file->path, strerror(-err));
}

static void store_file_flush_done(struct reactor_op *op, int res,
				  unsigned int flags)
{
	struct file_worker *fw = container_of(op, struct file_worker, flush_op);
	struct block_request *answered = fw->flush_running;

	if (res == -EINTR || res == -EAGAIN) {
		submit_fsync(fw);
		return;
	}
	/* To plugins -ENOTCONN means that nothing is lost; a file system that
	 * a dead program serves cannot tell. */
	if (res < 0)
		keep_flush_error(fw->file, res == -ENOTCONN ? -EIO : res);
	fw->flush_running = NULL;
	fw->flushing = false;
	flush_start(fw);
	answer_all(answered, atomic_load(&fw->file->flush_error));
}

/* Begins a flush for all that wait, unless one runs or nobody waits. */
static void flush_start(struct file_worker *fw)
{
	if (fw->flushing || !fw->flush_waiting)
		return;
	fw->flushing = true;
	fw->flush_running = fw->flush_waiting;
	fw->flush_waiting = NULL;
	submit_fsync(fw);
}

static void store_file_flush(struct block_request *req)
{
	struct file_worker *fw = store_file_worker_of(req);
	int err = atomic_load(&fw->file->flush_error);

	if (err || fw->file->base.info.read_only) {
		req->done(req, err);
		return;
	}
	req->next = fw->flush_waiting;
	fw->flush_waiting = req;
	flush_start(fw);
}

/* ---- unmap and zero ---- */

/*
 * The ways to make a range zero, best first. A request starts with the first
 * that it may use and falls through what the store refuses; the last is plain
 * writing, which nothing refuses.
 */
enum zero_way {
	ZERO_PUNCH,  /* gives the blocks back */
	ZERO_RANGE,  /* keeps them, or reserves them */
	ZERO_WRITES, /* writes zeroes */
};

static const int zero_modes[] = {
	[ZERO_PUNCH] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	[ZERO_RANGE] = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
};

static void zero_start(struct block_request *req);

/* Block devices say EINVAL where their sectors are larger than our blocks. */
static bool store_file_is_refusal(int err)
{
	return err == -EOPNOTSUPP || err == -EINVAL || err == -ENOSYS;
}

static void zero_end(struct block_request *req)
{
	req->progress = req->len;
	if (is_synchronous(req))
		store_file_flush(req);
	else
		req->done(req, 0);
}

static void allocate_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct block_request *req = to_request(op);
	struct file_backend *file = to_file(req->backend);

	if (!res) {
		zero_end(req);
	} else if (store_file_try_again(req, res)) {
		zero_start(req);
	} else if (store_file_is_refusal(res)) {
		atomic_fetch_or(&file->refused, 1 << req->step);
		req->step++;
		zero_start(req);
	} else {
		req->done(req, res);
	}
}

static void allocate(struct block_request *req)
{
	struct file_worker *fw = store_file_worker_of(req);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);

	io_uring_prep_fallocate(sqe, file_fd(fw), zero_modes[req->step],
				(off_t)req->offset, (off_t)req->len);
	req->io.done = allocate_done;
	prep_done(sqe, fw, req);
}

static void write_zeroes_done(struct reactor_op *op, int res,
			      unsigned int flags);

static void write_zeroes(struct block_request *req)
{
	struct file_worker *fw = store_file_worker_of(req);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);
	uint64_t left = req->len - req->progress;

	io_uring_prep_write(sqe, file_fd(fw), zeroes,
			    left < ZEROES_LEN ? (unsigned int)left : ZEROES_LEN,
			    req->offset + req->progress);
	req->io.done = write_zeroes_done;
	prep_done(sqe, fw, req);
}

static void write_zeroes_done(struct reactor_op *op, int res,
			      unsigned int flags)
{
	struct block_request *req = to_request(op);

	if (res < 0 && !store_file_try_again(req, res))
		req->done(req, res);
	else if (res >= 0 && !store_file_advance(req, res))
		req->done(req, -EIO);
	else if (req->progress < req->len)
		write_zeroes(req);
	else
		zero_end(req);
}

static void zero_start(struct block_request *req)
{
	int refused = atomic_load(&to_file(req->backend)->refused);

	while (req->step < ZERO_WRITES && refused & 1 << req->step)
		req->step++;
	if (req->step == ZERO_WRITES)
		write_zeroes(req);
	else
		allocate(req);
}

static void zero(struct block_request *req)
{
	bool may_punch = req->op == BLOCK_UNMAP || req->may_unmap;

	req->step = may_punch && req->backend->info.unmap_granularity
			    ? ZERO_PUNCH
			    : ZERO_RANGE;
	zero_start(req);
}

/* ---- extents ---- */

static uint64_t round_down(uint64_t n, uint32_t unit)
{
	return n - n % unit;
}

/*
 * lseek() answers from the file system's tables in memory, so it is not worth
 * a detour through the ring. It moves the file's position, which nobody uses.
 *
 * Between its two answers the data may be unmapped: then there is a hole where
 * it began, and the block counts as mapped, as one that was then.
 */
static int find_extent(struct file_backend *file, struct block_request *req)
{
	off_t start = (off_t)req->offset;
	off_t end = start + (off_t)req->len;
	off_t data = lseek(file->fd, start, SEEK_DATA);
	off_t hole;

	if (data < 0 && errno != ENXIO)
		return -errno;
	if (data < 0 || data > end)
		data = end;
	/* A block that is in part mapped counts as mapped. */
	req->extent_len =
		round_down((uint64_t)(data - start), file->block_size);
	req->extent_mapped = !req->extent_len;
	if (!req->extent_mapped)
		return 0;
	hole = lseek(file->fd, data, SEEK_HOLE);
	if (hole < 0 && errno != ENXIO)
		return -errno;
	if (hole <= data)
		hole = data + 1;
	if (hole > end)
		hole = end;
	req->extent_len =
		round_down((uint64_t)(hole - start) + file->block_size - 1,
			   file->block_size);
	return 0;
}

/* ---- the table ---- */

static void file_submit(struct backend *be, struct block_request *req)
{
	switch (req->op) {
	case BLOCK_READ:
	case BLOCK_WRITE:
		transfer(req);
		return;
	case BLOCK_FLUSH:
		store_file_flush(req);
		return;
	case BLOCK_UNMAP:
	case BLOCK_ZERO:
		zero(req);
		return;
	case BLOCK_EXTENT:
		req->done(req, find_extent(to_file(be), req));
		return;
	}
}

static int store_file_file_open(const struct backend_options *opt,
				struct backend **ret, struct error *e)
{
	struct file_backend *file;
	int err = file_backend_open(opt, &file, e);

	if (err)
		return err;
	file->base.ops = &backend_file;
	*ret = &file->base;
	return 0;
}

/* Through the open file of the writes, so that these see no old error either. */
static int file_sync(struct backend *be)
{
	int err;

	do {
		err = fdatasync(to_file(be)->fd) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* The same file once more, however its name has changed since. */
static int reopen(int fd)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}

static int file_attach(struct backend *be, struct block_worker *w)
{
	struct file_backend *file = to_file(be);
	struct file_worker *fw = calloc(1, sizeof(*fw));

	if (!fw)
		return -ENOMEM;
	fw->file = file;
	fw->worker = w;
	fw->flush_op.done = store_file_flush_done;
	fw->flush_fd = reopen(file->fd);
	if (fw->flush_fd < 0) {
		int err = fw->flush_fd;

		free(fw);
		return err;
	}
	if (reactor_file_add(w->reactor, file->fd, &fw->fixed))
		fw->fixed = -1;
	file->workers[w->index] = fw;
	return 0;
}

static void file_detach(struct backend *be, struct block_worker *w)
{
	struct file_backend *file = to_file(be);
	struct file_worker *fw = file->workers[w->index];

	if (!fw)
		return;
	if (fw->fixed >= 0)
		reactor_file_remove(w->reactor, fw->fixed);
	close(fw->flush_fd);
	free(fw);
	file->workers[w->index] = NULL;
}

static void store_file_file_close(struct backend *be)
{
	struct file_backend *file = to_file(be);

	close(file->fd);
	free(file->path);
	free(file);
}

static uint64_t file_used(struct backend *be)
{
	struct stat st;

	if (fstat(to_file(be)->fd, &st))
		return be->info.size;
	return S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512
				   : be->info.size;
}

static int file_measure(struct backend *be, uint64_t *ret_size)
{
	struct file_backend *file = to_file(be);
	struct stat st;

	if (fstat(file->fd, &st))
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(file->fd, BLKGETSIZE64, ret_size))
		return -errno;
	return 0;
}

const struct backend_ops backend_file = {
	.name = "file",
	.location = BACKEND_AT_PATH,
	.open = store_file_file_open,
	.sync = file_sync,
	.close = store_file_file_close,
	.attach = file_attach,
	.detach = file_detach,
	.submit = file_submit,
	.used = file_used,
	.measure = file_measure,
};
