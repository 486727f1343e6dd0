/* SPDX-License-Identifier: BSD-2-Clause */
/* Files, block devices and streams: operations on the reactor's ring. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/list.h"
#include "copy/place.h"

#define ZEROES_LEN (256u << 10)

struct place_file {
	struct place place;
	int fd;
	char *path;	 /* NULL: standard input or output */
	bool is_created; /* by this program */
	enum zero_way zero_way;
	/* The volume behind a file of rdma-fuse, or a disk of ib_srp: "naa.6..."
	 * or "". */
	char naa[80];
};

static const char place_zeroes[ZEROES_LEN];

static struct place_file *place_file_of(const struct place *p)
{
	return container_of(p, struct place_file, place);
}

/* ---- operations ---- */

static void place_file_step(struct place_io *io);

static int place_fallocate_mode(enum zero_way way)
{
	return FALLOC_FL_KEEP_SIZE |
	       (way == ZERO_BY_HOLE ? FALLOC_FL_PUNCH_HOLE
				    : FALLOC_FL_ZERO_RANGE);
}

/* Several operations may have tried this way. */
static void place_file_cannot(struct place_file *f, enum zero_way way)
{
	if (f->zero_way == way)
		f->zero_way++;
}

/* Returns what the answer of one ring operation means: 0: go on; 1: io is done; or
 * a negative errno. */
static int place_file_answered(struct place_io *io, int res)
{
	struct place_file *f = place_file_of(io->place);

	switch (io->op) {
	case PLACE_READ:
		if (res == 0 && io->place->kind == PLACE_STREAM)
			return 1;
		break;
	case PLACE_WRITE:
		break;
	case PLACE_ZERO:
		if (io->zero_way == ZERO_BY_WRITE)
			break;
		if (res != -EOPNOTSUPP && res != -EINVAL && res != -ENODEV)
			return res < 0 ? res : 1;
		place_file_cannot(f, io->zero_way);
		return 0;
	case PLACE_FLUSH:
		/* If the file does not support a flush, this is no error. */
		return res < 0 && res != -EINVAL && res != -EROFS ? res : 1;
	case PLACE_EXTENT:
		return 1;
	}
	if (res == 0)
		return -ENODATA;
	if (res < 0)
		return res;
	io->pos += (uint64_t)res;
	return io->pos == io->len;
}

static void place_file_done(struct reactor_op *op, int res,
			    unsigned int cqe_flags)
{
	struct place_io *io = container_of(op, struct place_io, ring);
	bool was_polling = io->is_polling;
	int what;

	io->is_polling = false;
	if (was_polling || res == -EINTR) {
		place_file_step(io);
		return;
	}
	/* Another program has made the stream non-blocking. */
	if (res == -EAGAIN) {
		io->is_polling = true;
		place_file_step(io);
		return;
	}
	what = place_file_answered(io, res);
	if (what == 0) {
		place_file_step(io);
		return;
	}
	io->got = io->pos;
	io->done(io, what < 0 ? what : 0);
}

static void place_prep_write(struct io_uring_sqe *sqe,
			     const struct place_io *io, const void *buf,
			     uint64_t max)
{
	uint64_t left = io->len - io->pos;
	bool is_stream = io->place->kind == PLACE_STREAM;

	io_uring_prep_write(sqe, place_file_of(io->place)->fd, buf,
			    (unsigned int)(left < max ? left : max),
			    is_stream ? (uint64_t)-1 : io->offset + io->pos);
}

static void place_prep(struct io_uring_sqe *sqe, struct place_io *io)
{
	const struct place_file *f = place_file_of(io->place);
	bool is_stream = io->place->kind == PLACE_STREAM;

	switch (io->op) {
	case PLACE_READ:
		io_uring_prep_read(sqe, f->fd, io->buf + io->pos,
				   (unsigned int)(io->len - io->pos),
				   is_stream ? (uint64_t)-1
					     : io->offset + io->pos);
		break;
	case PLACE_WRITE:
		place_prep_write(sqe, io, io->buf + io->pos, io->len);
		break;
	case PLACE_ZERO:
		io->zero_way = f->zero_way;
		if (io->zero_way == ZERO_BY_WRITE)
			place_prep_write(sqe, io, place_zeroes, ZEROES_LEN);
		else
			io_uring_prep_fallocate(
				sqe, f->fd, place_fallocate_mode(io->zero_way),
				(off_t)io->offset, (off_t)io->len);
		break;
	case PLACE_FLUSH:
		if (is_stream)
			io_uring_prep_nop(sqe);
		else
			io_uring_prep_fsync(sqe, f->fd, 0);
		break;
	case PLACE_EXTENT:
		io_uring_prep_nop(sqe); /* The result is already known. */
		break;
	}
}

static void place_file_step(struct place_io *io)
{
	const struct place_file *f = place_file_of(io->place);
	struct io_uring_sqe *sqe = reactor_sqe(io->place->env->reactor);

	if (io->is_polling)
		io_uring_prep_poll_add(sqe, f->fd,
				       io->op == PLACE_READ ? POLLIN : POLLOUT);
	else
		place_prep(sqe, io);
	io->ring.done = place_file_done;
	reactor_prep_done(sqe, &io->ring);
}

/* If the file system reports no holes, all is data. A hole does not go on behind the end
 * of a file that has been cut: what is lacking there is data, and cannot be read. */
static void place_file_find_extent(struct place_io *io)
{
	int fd = place_file_of(io->place)->fd;
	off_t begin = (off_t)io->offset;
	off_t end = begin + (off_t)io->len;
	off_t data = lseek(fd, begin, SEEK_DATA);
	off_t next;

	io->is_hole = data > begin || (data < 0 && errno == ENXIO);
	next = !io->is_hole ? lseek(fd, begin, SEEK_HOLE)
	       : data < 0   ? lseek(fd, 0, SEEK_END)
			    : data;
	if (next <= begin) {
		io->is_hole = false;
		next = end;
	}
	if (next > end)
		next = end;
	io->extent_len = (uint64_t)(next - begin);
}

static void place_file_submit(struct place_io *io)
{
	if (io->op == PLACE_EXTENT)
		place_file_find_extent(io);
	place_file_step(io);
}

static const char *place_file_reason(const struct place_io *io, int res,
				     char *buf, size_t len)
{
	if (res == -ENODATA)
		return "it ends earlier than before";
	return strerror(-res);
}

static bool place_file_is_running(const struct place *p)
{
	return true;
}

/* ---- before and after ---- */

static int place_file_set_size(const struct place_file *f, uint64_t size,
			       struct error *e)
{
	if (ftruncate(f->fd, (off_t)size) == 0)
		return 0;
	return error_set(e, -errno,
			 "cannot set the size of %s to %" PRIu64 ": %s",
			 f->place.name, size, strerror(errno));
}

/* A file of rdma-fuse can only be cut by a program that has emptied it. */
static bool place_file_is_fixed(const struct place_file *f, uint64_t size,
				const struct error *e)
{
	return e->err == -EINVAL && f->place.size > size;
}

/*
 * A file that cannot grow to the size must keep its data, so it grows first. A
 * copy that is killed before this function leaves a file of any size.
 */
static int place_file_prepare(struct place *p, uint64_t size, bool keeps,
			      struct error *e)
{
	struct place_file *f = place_file_of(p);
	int err = 0;

	if (p->kind != PLACE_FILE || (keeps && p->size == size))
		return 0;
	if (p->size < size || keeps)
		err = place_file_set_size(f, size, e);
	if (keeps && err && place_file_is_fixed(f, size, e))
		return 0;
	if (!err && !keeps)
		err = place_file_set_size(f, 0, e);
	if (!err && !keeps)
		err = place_file_set_size(f, size, e);
	if (err)
		return err;
	p->size = size;
	p->reads_zero = !keeps;
	return 0;
}

static int place_file_set_end(struct place *p, uint64_t size, struct error *e)
{
	if (p->kind != PLACE_FILE)
		return 0;
	return place_file_set_size(place_file_of(p), size, e);
}

static void place_file_forget(struct place *p)
{
	const struct place_file *f = place_file_of(p);

	if (f->is_created)
		unlink(f->path);
}

static void place_file_drop_cache(struct place *p)
{
	posix_fadvise(place_file_of(p)->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int place_file_identify(const struct place *p,
			       struct place_identity *ret, struct error *e)
{
	const struct place_file *f = place_file_of(p);
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return error_set(e, -errno, "%s: %s", p->name, strerror(errno));
	/* A file of rdma-fuse keeps the size of its volume. */
	if (S_ISREG(st.st_mode))
		ret->size = (uint64_t)st.st_size;
	if (*f->naa) {
		snprintf(ret->id, sizeof(ret->id), "volume %s", f->naa);
	} else if (S_ISBLK(st.st_mode)) {
		snprintf(ret->id, sizeof(ret->id), "device %u:%u",
			 major(st.st_rdev), minor(st.st_rdev));
	} else if (S_ISREG(st.st_mode)) {
		snprintf(ret->id, sizeof(ret->id), "file %u:%u %ju",
			 major(st.st_dev), minor(st.st_dev),
			 (uintmax_t)st.st_ino);
		snprintf(ret->mtime, sizeof(ret->mtime), "%jd.%09ld",
			 (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	}
	return 0;
}

static void place_file_close(struct place *p)
{
	struct place_file *f = place_file_of(p);

	if (f->path && f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f);
}

static const struct place_ops place_file_ops = {
	.submit = place_file_submit,
	.prepare = place_file_prepare,
	.set_end = place_file_set_end,
	.forget = place_file_forget,
	.drop_cache = place_file_drop_cache,
	.identify = place_file_identify,
	.is_running = place_file_is_running,
	.reason = place_file_reason,
	.close = place_file_close,
};

/* ---- opening ---- */

/* The volume of a disk of ib_srp. A partition is not its disk. */
static void place_read_wwid(struct place_file *f, dev_t rdev)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/device/wwid",
		 major(rdev), minor(rdev));
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%79s", f->naa) != 1 ||
	    strncmp(f->naa, "naa.", 4) != 0)
		*f->naa = '\0';
	fclose(file);
}

static void place_file_find_volume(struct place_file *f, const struct stat *st)
{
	ssize_t len;

	if (S_ISBLK(st->st_mode))
		place_read_wwid(f, st->st_rdev);
	if (!S_ISREG(st->st_mode))
		return;
	len = fgetxattr(f->fd, "user.rdma-block.identifier", f->naa,
			sizeof(f->naa) - 1);
	f->naa[len > 0 ? len : 0] = '\0';
}

static int place_file_measure(struct place_file *f, const struct stat *st,
			      struct error *e)
{
	struct place *p = &f->place;
	bool is_standard = !f->path;
	off_t pos;

	if (S_ISDIR(st->st_mode))
		return error_set(e, -EISDIR,
				 "%s is a directory; name a file in it",
				 p->name);
	p->block_size = 1;
	p->kind = is_standard		 ? PLACE_STREAM
		  : S_ISREG(st->st_mode) ? PLACE_FILE
		  : S_ISBLK(st->st_mode) ? PLACE_DEVICE
					 : PLACE_STREAM;
	if (S_ISREG(st->st_mode)) {
		p->size_known = true;
		p->size = (uint64_t)st->st_size;
	}
	if (p->kind == PLACE_DEVICE) {
		p->size_known = true;
		p->block_size = 4096;
		if (ioctl(f->fd, BLKGETSIZE64, &p->size) < 0)
			return error_set(e, -errno,
					 "cannot get the size of %s: %s",
					 p->name, strerror(errno));
	}
	if (p->kind != PLACE_STREAM)
		return 0;
	/* Standard input may be in the middle of a file. */
	pos = lseek(f->fd, 0, SEEK_CUR);
	p->size_known &=
		p->role == PLACE_SOURCE && pos >= 0 && (uint64_t)pos <= p->size;
	p->size = p->size_known ? p->size - (uint64_t)pos : 0;
	f->zero_way = ZERO_BY_WRITE;
	return 0;
}

/*
 * The name of a new file must outlive a crash, as its data does after the flush at the
 * end. What cannot be flushed keeps nothing back: directories of some file systems, and
 * those that may not be read.
 */
static int place_file_sync_name(const struct place_file *f, struct error *e)
{
	int err = directory_sync_of(f->path);

	if (!err || err == -EINVAL || err == -EACCES)
		return 0;
	unlink(f->path);
	return error_set(e, err, "cannot flush the directory of %s: %s",
			 f->path, strerror(-err));
}

static int place_file_open_path(struct place_file *f, struct error *e)
{
	int flags = O_CLOEXEC | O_NOCTTY;

	flags |= f->place.role == PLACE_DESTINATION ? O_RDWR : O_RDONLY;
	f->fd = open(f->path, flags);
	/* A pipe, or a file that may not be read. */
	if (f->fd < 0 && f->place.role == PLACE_DESTINATION && errno == EACCES)
		f->fd = open(f->path, O_CLOEXEC | O_NOCTTY | O_WRONLY);
	if (f->fd < 0 && f->place.role == PLACE_DESTINATION &&
	    errno == ENOENT) {
		f->fd = open(f->path, flags | O_CREAT | O_EXCL, 0666);
		f->is_created = f->fd >= 0;
	}
	if (f->fd < 0)
		return error_set(e, -errno, "cannot open %s: %s", f->path,
				 strerror(errno));
	return f->is_created ? place_file_sync_name(f, e) : 0;
}

static int place_file_open_standard(struct place_file *f, struct error *e)
{
	bool is_source = f->place.role == PLACE_SOURCE;

	f->fd = is_source ? STDIN_FILENO : STDOUT_FILENO;
	f->place.name = is_source ? "standard input" : "standard output";
	if (!is_source && isatty(f->fd))
		return error_set(
			e, -EINVAL,
			"standard output is a terminal; redirect it to "
			"a file or a pipe");
	return 0;
}

static int place_file_setup(struct place_file *f, const char *text,
			    struct error *e)
{
	struct stat st;
	int err;

	if (!strcmp(text, "-")) {
		err = place_file_open_standard(f, e);
	} else {
		f->path = strdup(text);
		err = f->path ? place_file_open_path(f, e)
			      : error_set(e, -ENOMEM, "out of memory");
	}
	if (err)
		return err;
	if (fstat(f->fd, &st) < 0)
		return error_set(e, -errno, "%s: %s", f->place.name,
				 strerror(errno));
	err = place_file_measure(f, &st, e);
	if (!err)
		place_file_find_volume(f, &st);
	return err;
}

int place_open_file(const struct place_env *env, const char *text,
		    enum place_role role, struct place **ret_place,
		    struct error *e)
{
	struct place_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return error_set(e, -ENOMEM, "out of memory");
	f->place = (struct place){
		.ops = &place_file_ops, .env = env, .name = text, .role = role
	};
	f->fd = -1;
	err = place_file_setup(f, text, e);
	if (err) {
		place_file_close(&f->place);
		return err;
	}
	*ret_place = &f->place;
	return 0;
}
