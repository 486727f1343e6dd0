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
#include "target/block/plugin_host.h"

/* An interrupted operation is repeated, but not without limit. */
#define TRIES_MAX 1000

#define ZEROES_LEN (256u << 10)

/* Nothing writes to it, so it needs address space but no memory. */
static uint8_t zeroes[ZEROES_LEN] __attribute__((aligned(4096)));

_Static_assert(sizeof(struct file_io) <= BLOCK_IO_SCRATCH,
	       "a file's I/O has room in its scratch");

static struct file_io *to_file_io(struct reactor_op *op)
{
	return container_of(op, struct file_io, op);
}

static struct file_worker *store_file_worker_of(const struct file_io *f)
{
	return f->io->queue_data;
}

static bool store_file_try_again(struct file_io *f, int res)
{
	return (res == -EAGAIN || res == -EINTR) && f->tries++ < TRIES_MAX;
}

static int file_fd(const struct file_worker *fw)
{
	return fw->fixed >= 0 ? fw->fixed : fw->file->fd;
}

/* Ends every io_uring_prep_*() on the file. */
static void prep_done(struct io_uring_sqe *sqe, const struct file_worker *fw,
		      struct file_io *f)
{
	sqe->flags |= fw->sqe_flags;
	reactor_prep_done(sqe, &f->op);
}

static bool is_synchronous(const struct file_worker *fw,
			   const struct rbp_io *io)
{
	return io->flags & RBP_FUA || fw->file->write_through;
}

/* ---- reading and writing ---- */

static void transfer_done(struct reactor_op *op, int res, unsigned int flags);

static void prep_read(struct io_uring_sqe *sqe, int fd, struct rbp_io *io,
		      void *buf, unsigned len)
{
	int buf_index = block_io_of(io)->buf_index;
	uint64_t offset = io->offset + io->progress;

	if (buf_index >= 0)
		io_uring_prep_read_fixed(sqe, fd, buf, len, offset, buf_index);
	else
		io_uring_prep_read(sqe, fd, buf, len, offset);
}

static void store_file_prep_write(struct io_uring_sqe *sqe, int fd,
				  struct rbp_io *io, void *buf, unsigned len)
{
	int buf_index = block_io_of(io)->buf_index;
	uint64_t offset = io->offset + io->progress;

	if (buf_index >= 0)
		io_uring_prep_write_fixed(sqe, fd, buf, len, offset, buf_index);
	else
		io_uring_prep_write(sqe, fd, buf, len, offset);
}

/* Submits one READ or WRITE of the rest. */
static void transfer(struct file_io *f)
{
	struct rbp_io *io = f->io;
	struct file_worker *fw = store_file_worker_of(f);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);
	uint64_t left = io->len - io->progress;
	unsigned int len = left > INT32_MAX / 2 ? 1u << 30 : (unsigned int)left;
	uint8_t *buf = (uint8_t *)io->buf + io->progress;

	if (io->op == RBP_READ)
		prep_read(sqe, file_fd(fw), io, buf, len);
	else
		store_file_prep_write(sqe, file_fd(fw), io, buf, len);
	if (io->op == RBP_WRITE && is_synchronous(fw, io))
		sqe->rw_flags = RWF_DSYNC;
	f->op.done = transfer_done;
	prep_done(sqe, fw, f);
}

/* Counts @res bytes. False: the I/O makes no progress. */
static bool store_file_advance(struct file_io *f, int res)
{
	const struct file_store *file = store_file_worker_of(f)->file;
	struct rbp_io *io = f->io;
	uint64_t before = io->progress;

	io->progress += (uint64_t)res;
	/* Direct I/O can continue only at the next whole unit. */
	if (file->direct && io->progress < io->len)
		io->progress -= io->progress % file->direct_unit;
	return io->progress > before;
}

/* For a worker: a network file system does not ask its server now. */
static bool store_file_stat_at_once(const struct file_store *file,
				    struct statx *ret)
{
	return !statx(file->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		      STATX_TYPE | STATX_NLINK | STATX_SIZE, ret);
}

/* The initiators see a medium error, which looks like a broken disk. */
static void store_file_tell_short(struct file_store *file)
{
	struct statx stx;

	if (!atomic_exchange(&file->told_short, true) &&
	    store_file_stat_at_once(file, &stx) && S_ISREG(stx.stx_mode))
		log_error("%s: the file has become shorter: it ends at byte "
			  "%llu, and reads behind its end fail",
			  file->path, (unsigned long long)stx.stx_size);
}

static void transfer_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct file_io *f = to_file_io(op);

	if (res < 0) {
		if (store_file_try_again(f, res))
			transfer(f);
		else
			block_io_done(f->io, res);
		return;
	}
	if (store_file_advance(f, res)) {
		if (f->io->progress < f->io->len)
			transfer(f);
		else
			block_io_done(f->io, 0);
		return;
	}
	/* Nothing was read: the file is shorter now than when it was opened. */
	if (f->io->op == RBP_READ)
		store_file_tell_short(store_file_worker_of(f)->file);
	block_io_done(f->io, -EIO);
}

/* ---- a file without a name ---- */

/* It lasts as long as it is open. Nothing else shows it. */
static void store_file_look_at_name(struct file_store *file, mode_t mode,
				    uint64_t links)
{
	if (!S_ISREG(mode) || links ||
	    atomic_exchange(&file->told_removed, true))
		return;
	log_warn("%s: the file was removed or replaced while it is served; its "
		 "data is gone when the volume or rdma-target ends; copy the "
		 "volume before that (srpcopy)",
		 file->path);
}

/* The end is told, too: the last flush may have told of the rest just now. */
static void store_file_tell_of_end(const struct file_store *file)
{
	struct stat st;

	if (!file->was_removed && !fstat(file->fd, &st) &&
	    S_ISREG(st.st_mode) && !st.st_nlink)
		log_warn("%s: the file was removed or replaced while it is "
			 "served; its data is gone now",
			 file->path);
}

static void store_file_look_without_waiting(struct file_store *file)
{
	struct statx stx;

	if (store_file_stat_at_once(file, &stx))
		store_file_look_at_name(file, stx.stx_mode, stx.stx_nlink);
}

/* ---- flush ---- */

static void flush_start(struct file_worker *fw);

static void answer_all(struct file_io *f, int res)
{
	while (f) {
		struct file_io *next = f->next;

		block_io_done(f->io, res);
		f = next;
	}
}

static void submit_fsync(struct file_worker *fw)
{
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);

	io_uring_prep_fsync(sqe, fw->flush_fd, IORING_FSYNC_DATASYNC);
	reactor_prep_done(sqe, &fw->flush_op);
}

/* The first failure on any worker is kept. */
static void keep_flush_error(struct file_store *file, int err)
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
	struct file_io *answered = fw->flush_running;

	if (res == -EINTR || res == -EAGAIN) {
		submit_fsync(fw);
		return;
	}
	/* For plugins, -ENOTCONN means that nothing is lost. A file system in
	 * user space whose server is dead cannot know that. */
	if (res < 0)
		keep_flush_error(fw->file, res == -ENOTCONN ? -EIO : res);
	else
		store_file_look_without_waiting(fw->file);
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

static void store_file_flush(struct file_io *f)
{
	struct file_worker *fw = store_file_worker_of(f);
	int err = atomic_load(&fw->file->flush_error);

	if (err || fw->file->read_only) {
		block_io_done(f->io, err);
		return;
	}
	f->next = fw->flush_waiting;
	fw->flush_waiting = f;
	flush_start(fw);
}

/* ---- unmap and zero ---- */

/*
 * The ways to zero a range, best first. An I/O starts with the first one that
 * it may use. If the store refuses it, the next one follows. The last is plain
 * writing, which no store refuses.
 */
enum zero_way {
	ZERO_PUNCH,  /* deallocates the blocks */
	ZERO_RANGE,  /* keeps or reserves the blocks */
	ZERO_WRITES, /* writes zeroes */
};

static const int zero_modes[] = {
	[ZERO_PUNCH] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	[ZERO_RANGE] = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
};

static void zero_start(struct file_io *f);

/* Block devices return EINVAL if their sectors are larger than our blocks. */
static bool store_file_is_refusal(int err)
{
	return err == -EOPNOTSUPP || err == -EINVAL || err == -ENOSYS;
}

static void zero_end(struct file_io *f)
{
	f->io->progress = f->io->len;
	if (is_synchronous(store_file_worker_of(f), f->io))
		store_file_flush(f);
	else
		block_io_done(f->io, 0);
}

static void allocate_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct file_io *f = to_file_io(op);
	struct file_store *file = store_file_worker_of(f)->file;

	if (!res) {
		zero_end(f);
	} else if (store_file_try_again(f, res)) {
		zero_start(f);
	} else if (store_file_is_refusal(res)) {
		atomic_fetch_or(&file->refused, 1 << f->step);
		f->step++;
		zero_start(f);
	} else {
		block_io_done(f->io, res);
	}
}

static void allocate(struct file_io *f)
{
	struct file_worker *fw = store_file_worker_of(f);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);

	io_uring_prep_fallocate(sqe, file_fd(fw), zero_modes[f->step],
				(off_t)f->io->offset, (off_t)f->io->len);
	f->op.done = allocate_done;
	prep_done(sqe, fw, f);
}

static void write_zeroes_done(struct reactor_op *op, int res,
			      unsigned int flags);

static void write_zeroes(struct file_io *f)
{
	struct file_worker *fw = store_file_worker_of(f);
	struct io_uring_sqe *sqe = reactor_sqe(fw->worker->reactor);
	uint64_t left = f->io->len - f->io->progress;

	io_uring_prep_write(sqe, file_fd(fw), zeroes,
			    left < ZEROES_LEN ? (unsigned int)left : ZEROES_LEN,
			    f->io->offset + f->io->progress);
	f->op.done = write_zeroes_done;
	prep_done(sqe, fw, f);
}

static void write_zeroes_done(struct reactor_op *op, int res,
			      unsigned int flags)
{
	struct file_io *f = to_file_io(op);

	if (res < 0 && !store_file_try_again(f, res))
		block_io_done(f->io, res);
	else if (res >= 0 && !store_file_advance(f, res))
		block_io_done(f->io, -EIO);
	else if (f->io->progress < f->io->len)
		write_zeroes(f);
	else
		zero_end(f);
}

static void zero_start(struct file_io *f)
{
	int refused = atomic_load(&store_file_worker_of(f)->file->refused);

	while (f->step < ZERO_WRITES && refused & 1 << f->step)
		f->step++;
	if (f->step == ZERO_WRITES)
		write_zeroes(f);
	else
		allocate(f);
}

static void zero(struct file_io *f)
{
	const struct rbp_io *io = f->io;
	bool may_punch = io->op == RBP_UNMAP || io->flags & RBP_MAY_UNMAP;

	f->step = may_punch && store_file_worker_of(f)->file->can_punch
			  ? ZERO_PUNCH
			  : ZERO_RANGE;
	zero_start(f);
}

/* ---- extents ---- */

static uint64_t round_down(uint64_t n, uint32_t unit)
{
	return n - n % unit;
}

/* Returns where the next data begins, at most @end; or -errno. Blocks that a file
 * has lost because it has shrunk count as data: reads of them fail. */
static off_t store_file_next_data(const struct file_store *file, off_t start,
				  off_t end)
{
	off_t data = lseek(file->fd, start, SEEK_DATA);
	struct stat st;

	if (data < 0 && (errno != ENXIO || fstat(file->fd, &st)))
		return -errno;
	if (data < 0)
		data = st.st_size > start ? st.st_size : start;
	return data < end ? data : end;
}

/*
 * On the helper thread. lseek() moves the file's position, which is not used.
 *
 * The data may be unmapped between the two calls. The second call then finds a
 * hole at the beginning. The block counts as mapped, because it was mapped at
 * the first call.
 */
static int find_extent(const struct file_store *file, struct rbp_io *io)
{
	off_t start = (off_t)io->offset;
	off_t end = start + (off_t)io->len;
	off_t data = store_file_next_data(file, start, end);
	off_t hole;

	if (data < 0)
		return (int)data;
	/* A block that is partly mapped counts as mapped. */
	io->extent_len = round_down((uint64_t)(data - start), file->block_size);
	io->extent_mapped = !io->extent_len;
	if (!io->extent_mapped)
		return 0;
	hole = lseek(file->fd, data, SEEK_HOLE);
	if (hole < 0 && errno != ENXIO)
		return -errno;
	if (hole < 0 || hole > end)
		hole = end;
	if (hole <= data)
		hole = data + 1;
	io->extent_len =
		round_down((uint64_t)(hole - start) + file->block_size - 1,
			   file->block_size);
	return 0;
}

/* ---- size and use ---- */

/* Blocks, if a file server does not answer. A device counts as fully used. */
static int store_file_stat(struct file_store *file)
{
	uint64_t bytes, used;
	struct stat st;

	if (fstat(file->fd, &st))
		return -errno;
	store_file_look_at_name(file, st.st_mode, st.st_nlink);
	bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(file->fd, BLKGETSIZE64, &bytes))
		return -errno;
	used = S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 : bytes;
	atomic_store(&file->bytes, bytes);
	atomic_store(&file->used, used);
	return 0;
}

static void file_look(void *v)
{
	struct file_store *file = v;

	atomic_store(&file->look_err, store_file_stat(file));
}

/* For measure(): once more if it was called meanwhile. */
static void store_file_look_again(struct file_store *file)
{
	uint64_t before = atomic_load(&file->bytes);
	int err = atomic_load(&file->look_err);
	unsigned int cnt;

	do {
		cnt = atomic_load(&file->look_cnt);
		file_look(file);
	} while (!atomic_compare_exchange_strong(&file->look_cnt, &cnt, 0));
	if (before != atomic_load(&file->bytes) ||
	    err != atomic_load(&file->look_err))
		backend_plugin_look();
}

static int file_measure(void *v, uint64_t *ret_size)
{
	struct file_store *file = v;

	*ret_size = atomic_load(&file->bytes);
	if (!atomic_fetch_add(&file->look_cnt, 1))
		plugin_threads_submit(file->helper, &file->look_io);
	return atomic_load(&file->look_err);
}

static uint64_t file_used(void *v)
{
	struct file_store *file = v;

	return atomic_load(&file->used);
}

/* ---- the helper thread ---- */

int store_file_help(void *v, struct rbp_io *io)
{
	struct file_store *file = v;

	if (io == &file->look_io)
		store_file_look_again(file);
	else if (io->op == RBP_EXTENT)
		return find_extent(file, io);
	else
		file_look(file);
	return 0;
}

static void store_file_answer(struct reactor_msg *msg)
{
	struct file_io *f = container_of(msg, struct file_io, msg);

	block_io_done(f->io, f->res);
}

void store_file_helped(struct rbp_io *io, int res)
{
	struct file_io *f = io->scratch;

	if (io->queue) {
		f->res = res;
		f->msg.run = store_file_answer;
		reactor_send(io->queue->worker->reactor, &f->msg);
	} else if (res) {
		/* There was no thread to look. */
		atomic_store(
			&container_of(io, struct file_store, look_io)->look_cnt,
			0);
	}
}

static void file_ask_to_look(void *v, struct rbp_io *io)
{
	struct file_store *file = v;
	struct file_io *f = io->scratch;

	f->io = io;
	plugin_threads_submit(file->helper, io);
}

/* ---- the table ---- */

static void file_submit(void *v, struct rbp_io *io)
{
	struct file_io *f = io->scratch;

	f->io = io;
	f->tries = 0;
	switch (io->op) {
	case RBP_READ:
	case RBP_WRITE:
		transfer(f);
		return;
	case RBP_FLUSH:
		store_file_flush(f);
		return;
	case RBP_UNMAP:
	case RBP_ZERO:
		zero(f);
		return;
	case RBP_EXTENT:
		plugin_threads_submit(((struct file_store *)v)->helper, io);
		return;
	}
}

static int store_file_sync_one(int fd)
{
	int err;

	do {
		err = fdatasync(fd) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* Through the open file of the writes, so that these do not see an old error
 * either; and through those of flushes that are open already. */
static int file_sync(void *v)
{
	const struct file_store *file = v;
	int err = store_file_sync_one(file->fd);

	for (unsigned int i = 0; i < file->flush_fd_cnt; i++)
		store_file_sync_one(file->flush_fds[i]);
	return err;
}

static int file_grow(void *v, uint64_t bytes)
{
	const struct file_store *file = v;
	struct stat st;

	if (fstat(file->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || file->read_only)
		return -EINVAL;
	if ((uint64_t)st.st_size > bytes)
		return -ERANGE;
	return ftruncate(file->fd, (off_t)bytes) ? -errno : 0;
}

/* Opens the same file once more, even if its name has changed. */
static int reopen(int fd)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}

static int file_prepare(void *v, unsigned int workers)
{
	struct file_store *file = v;

	while (file->flush_fd_cnt < workers) {
		int fd = reopen(file->fd);

		if (fd < 0)
			return fd;
		file->flush_fds[file->flush_fd_cnt++] = fd;
	}
	return 0;
}

static int store_file_flush_fd(struct file_store *file)
{
	return file->flush_fd_cnt ? file->flush_fds[--file->flush_fd_cnt]
				  : reopen(file->fd);
}

static void store_file_thread_taken(struct reactor_op *op, int res,
				    unsigned int flags)
{
	if (res < 0)
		log_warn("the kernel can make no thread for I/O on files; "
			 "flushes may fail: raise the limit of processes "
			 "(ulimit -u, TasksMax=)");
}

/*
 * A flush, or a write that would block, is done by a thread that io_uring makes when
 * it is needed. If it can make none, and there is none, the kernel cancels the I/O.
 * The first thread of a worker stays. So it is made at the start, before processes
 * run out: in the first turn of the reactor, when the process has given up its
 * rights, because the thread keeps the rights of that moment.
 */
static void store_file_take_thread(struct block_worker *w)
{
	struct io_uring_sqe *sqe;

	if (w->took_thread)
		return;
	w->took_thread = true;
	w->thread_op.done = store_file_thread_taken;
	sqe = reactor_sqe(w->reactor);
	io_uring_prep_nop(sqe);
	sqe->flags |= IOSQE_ASYNC;
	reactor_prep_done(sqe, &w->thread_op);
}

static int file_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct file_store *file = v;
	struct block_worker *w = queue->worker;
	struct file_worker *fw = calloc(1, sizeof(*fw));

	if (!fw)
		return -ENOMEM;
	fw->file = file;
	fw->worker = w;
	fw->flush_op.done = store_file_flush_done;
	fw->flush_fd = store_file_flush_fd(file);
	if (fw->flush_fd < 0) {
		int err = fw->flush_fd;

		free(fw);
		return err;
	}
	if (reactor_file_add(w->reactor, file->fd, &fw->fixed))
		fw->fixed = -1;
	fw->sqe_flags = (fw->fixed >= 0 ? IOSQE_FIXED_FILE : 0) |
			(file->is_fuse ? IOSQE_ASYNC : 0);
	store_file_take_thread(w);
	*ret = fw;
	return 0;
}

static void file_queue_del(void *queue_data)
{
	struct file_worker *fw = queue_data;

	if (fw->fixed >= 0)
		reactor_file_remove(fw->worker->reactor, fw->fixed);
	/* Its file system may take long to close it: not on a worker. */
	fw->file->flush_fds[atomic_fetch_add(&fw->file->flush_fd_cnt, 1)] =
		fw->flush_fd;
	free(fw);
}

static void store_file_file_close(void *v)
{
	struct file_store *file = v;

	plugin_threads_free(file->helper);
	store_file_tell_of_end(file);
	store_file_free(file);
}

const struct backend_type backend_file = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "file",
		.help = "a file or block device; LOCATION is its path",
		.scratch_len = sizeof(struct file_io),
		.open = file_store_open,
		.close = store_file_file_close,
		.queue_add = file_queue_add,
		.queue_del = file_queue_del,
		.submit = file_submit,
		.measure = file_measure,
		.used = file_used,
	},
	.location = BACKEND_AT_PATH,
	.sync = file_sync,
	.grow = file_grow,
	.prepare = file_prepare,
	.look = file_look,
	.ask_to_look = file_ask_to_look,
};
