/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 312
#include "fuse/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuse/data.h"
#include "fuse/dev.h"
#include "fuse/open_file.h"
#include "fuse/tree.h"
#include "fuse/xattr.h"

/* Seconds. Names never change, and sizes rarely. After a write, the kernel asks
 * for the other attributes again. */
#define ENTRY_TIMEOUT 3600.0
#define ATTR_TIMEOUT  1.0

/* The unit of sizes of statvfs(3). No volume has smaller blocks. */
#define STATFS_UNIT 512

static struct dev *ops_dev(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct tree *ops_tree(fuse_req_t req)
{
	return dev_user(ops_dev(req));
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct dev *dev = userdata;

	conn->max_write = dev_max_write(dev);
	conn->max_read = dev_max_read(dev);
	/* For the kernel, all asynchronous I/O is background I/O. */
	conn->max_background = dev_background(dev);
	conn->congestion_threshold = conn->max_background;
	/* Without ATOMIC_O_TRUNC, O_TRUNC comes as a SETATTR, which need not
	 * change the size. With it, the kernel would assume an empty file. */
	conn->want &= ~(unsigned int)(FUSE_CAP_ATOMIC_O_TRUNC |
				      FUSE_CAP_AUTO_INVAL_DATA |
				      FUSE_CAP_WRITEBACK_CACHE);
}

/* ---- attributes ---- */

/* A request that waits for the allocated bytes of a file. */
struct attr_wait {
	struct allocation_waiter waiter;
	fuse_req_t req;
	struct tree_file *file;
	bool is_lookup;
};

static void ops_reply_stat(fuse_req_t req, const struct stat *st,
			   bool is_lookup)
{
	const struct fuse_entry_param entry = {
		.ino = st->st_ino,
		.attr = *st,
		.attr_timeout = ATTR_TIMEOUT,
		.entry_timeout = ENTRY_TIMEOUT,
	};

	if (is_lookup)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_attr(req, st, ATTR_TIMEOUT);
}

static void ops_attr_known(struct allocation_waiter *waiter, uint64_t allocated)
{
	struct attr_wait *w = container_of(waiter, struct attr_wait, waiter);
	struct stat st;

	tree_file_stat(ops_tree(w->req), w->file, allocated, &st);
	ops_reply_stat(w->req, &st, w->is_lookup);
	free(w);
}

static void ops_reply_file(fuse_req_t req, struct tree_file *f, bool is_lookup)
{
	struct attr_wait *w = malloc(sizeof(*w));

	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	w->waiter.done = ops_attr_known;
	w->req = req;
	w->file = f;
	w->is_lookup = is_lookup;
	allocation_get(&f->allocation, &w->waiter);
}

static void ops_reply_attr(fuse_req_t req, fuse_ino_t ino)
{
	struct tree *t = ops_tree(req);
	struct tree_file *f = tree_file_of(t, ino);
	struct stat st;

	if (f) {
		ops_reply_file(req, f, false);
	} else if (tree_is_dir(t, ino)) {
		tree_dir_stat(t, &st);
		ops_reply_stat(req, &st, false);
	} else {
		/* It is gone. The kernel looks the name up again. */
		fuse_reply_err(req, ESTALE);
	}
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tree *t = ops_tree(req);
	struct tree_file *f = NULL;

	if (tree_is_dir(t, parent))
		f = tree_find(t, name);
	if (f)
		ops_reply_file(req, f, true);
	else
		fuse_reply_err(req, ENOENT);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	ops_reply_attr(req, ino);
}

/* ---- changing attributes ---- */

/* Mode and owner cannot change, but may be set to their present values. */
static int ops_check_owner(const struct stat *now, const struct stat *attr,
			   int to_set)
{
	if ((to_set & FUSE_SET_ATTR_MODE) &&
	    (attr->st_mode & 07777) != (now->st_mode & 07777))
		return -EPERM;
	if ((to_set & FUSE_SET_ATTR_UID) && attr->st_uid != now->st_uid)
		return -EPERM;
	if ((to_set & FUSE_SET_ATTR_GID) && attr->st_gid != now->st_gid)
		return -EPERM;
	return 0;
}

/* An open file of thread @pid for which open(O_TRUNC) may not have ended. */
static struct open_file *ops_find_opening(const struct tree_file *f,
					  uint32_t pid)
{
	const struct list *it;

	list_for_each(it, &f->opens) {
		struct open_file *o = container_of((struct list *)(uintptr_t)it,
						   struct open_file, node);

		if (o->pid == pid && o->writable && !o->truncated)
			return o;
	}
	return NULL;
}

/*
 * Checks a SETATTR of the size. open(O_TRUNC) arrives as an OPEN, followed by a
 * SETATTR of size 0 without a handle from the same thread. truncate(2) by a thread
 * that has the file open for writing looks the same. ftruncate(2) to 0 counts as
 * O_TRUNC: qemu-img convert does so before it sets the size.
 */
static int ops_set_size(fuse_req_t req, struct tree_file *f, uint64_t size,
			struct open_file *open)
{
	if (f->read_only)
		return -EROFS;
	if (!open && size == 0)
		open = ops_find_opening(f, (uint32_t)fuse_req_ctx(req)->pid);
	if (open && size == 0) {
		open_file_truncate(open);
		return 0;
	}
	if (size == f->info->size)
		return 0;
	if (size > f->info->size)
		return -EFBIG;
	/* cp does this if the source ends with a hole. */
	if (open && open->truncated && size < f->info->size &&
	    size >= open->written_to)
		return 0;
	return -EINVAL;
}

static void ops_tail_zeroed(struct slot *slot)
{
	fuse_req_t req = slot->work.arg;

	if (slot->commands.err)
		fuse_reply_err(req, -data_errno(slot->commands.err));
	else
		ops_reply_attr(req, slot->file->ino);
	dev_release(slot);
}

static void ops_start_zero_tail(struct slot *slot)
{
	slot->commands.err = -EIO;
	if (dev_fair_queue(slot->dev)->closed || slot->file->gone)
		ops_tail_zeroed(slot);
	else
		data_fill_holes(slot, ops_tail_zeroed);
}

/* After O_TRUNC, a program that sets the size expects zeroes behind its last write.
 * Returns false if there is nothing to zero. */
static bool ops_zero_tail(fuse_req_t req, struct tree_file *f, uint64_t size,
			  struct open_file *open)
{
	struct slot *slot;

	if (!open || !open->truncated)
		return false;
	if (open_file_written(open, size, size)) {
		fuse_reply_err(req, ENOMEM);
		return true;
	}
	if (!open_file_next_hole(open))
		return false;
	slot = dev_claim(ops_dev(req));
	slot->file = f;
	slot->fh = open->handle;
	slot->work.arg = req;
	fair_queue_run(slot, ops_start_zero_tail);
	return true;
}

static void ops_set_mtime(struct tree_file *f, const struct stat *attr,
			  int to_set)
{
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		clock_gettime(CLOCK_REALTIME, &f->mtime);
	else if (to_set & FUSE_SET_ATTR_MTIME)
		f->mtime = attr->st_mtim;
}

static int ops_check_setattr(fuse_req_t req, struct tree_file *f,
			     const struct stat *attr, int to_set,
			     struct open_file *open)
{
	struct tree *t = ops_tree(req);
	struct stat now;
	int err;

	if (f)
		tree_file_stat(t, f, 0, &now);
	else
		tree_dir_stat(t, &now);
	err = ops_check_owner(&now, attr, to_set);
	if (!err && (to_set & FUSE_SET_ATTR_SIZE))
		err = f ? ops_set_size(req, f, (uint64_t)attr->st_size, open)
			: -EISDIR;
	return err;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct tree_file *f = tree_file_of(ops_tree(req), ino);
	struct open_file *open =
		f && fi ? open_file_find(ops_tree(req), f, fi->fh) : NULL;
	int err = ops_check_setattr(req, f, attr, to_set, open);

	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	if (f && f->gone) {
		fuse_reply_err(req, EIO);
		return;
	}
	if (f)
		ops_set_mtime(f, attr, to_set);
	if (f && (to_set & FUSE_SET_ATTR_SIZE) &&
	    ops_zero_tail(req, f, (uint64_t)attr->st_size, open))
		return;
	ops_reply_attr(req, ino);
}

/* The kernel asks this if it does not check permissions itself. Then only root and
 * the user who mounted can reach the mount. */
static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	const struct tree_file *f = tree_file_of(ops_tree(req), ino);

	if (f && (mask & X_OK))
		fuse_reply_err(req, EACCES);
	else if (f && (mask & W_OK) && f->read_only)
		fuse_reply_err(req, EROFS);
	else if (!f && (mask & W_OK))
		fuse_reply_err(req, EPERM);
	else
		fuse_reply_err(req, 0);
}

/* ---- open and close ---- */

/* ESTALE: the kernel looks the name up again. */
static int ops_open_errno(fuse_req_t req, fuse_ino_t ino,
			  const struct tree_file *f)
{
	if (!f && tree_is_dir(ops_tree(req), ino))
		return EISDIR;
	return !f || f->gone ? ESTALE : EROFS;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tree_file *f = tree_file_of(ops_tree(req), ino);
	bool writable = (fi->flags & O_ACCMODE) != O_RDONLY;
	struct open_file *open;
	/* libfuse 3.14.0 cannot set FOPEN_PARALLEL_DIRECT_WRITES. */
	struct fuse_open_out out = {
		.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES,
	};

	if (!f || f->gone || (writable && f->read_only)) {
		fuse_reply_err(req, ops_open_errno(req, ino, f));
		return;
	}
	open = open_file_new(ops_tree(req), f);
	if (!open) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	open->pid = (uint32_t)fuse_req_ctx(req)->pid;
	open->writable = writable;
	open->errors_seen = f->errors;
	out.fh = open->handle;
	/* The caller was killed, and the kernel will send no RELEASE. */
	if (fuse_reply_buf(req, (const char *)&out, sizeof(out)))
		open_file_close(ops_tree(req), open);
}

static void op_release(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct tree *t = ops_tree(req);
	struct tree_file *f = tree_file_of(t, ino);
	struct open_file *open = f ? open_file_find(t, f, fi->fh) : NULL;

	if (open)
		open_file_close(t, open);
	fuse_reply_err(req, 0);
}

/* ---- extended attributes ---- */

/* Answers with the @len bytes, or with @len if the program asks for the length. */
static void ops_reply_xattr(fuse_req_t req, const char *buf, size_t len,
			    size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, len);
	else if (size < len)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			size_t size)
{
	const struct tree_file *f = tree_file_of(ops_tree(req), ino);
	char buf[XATTR_MAX];
	int len = f ? xattr_get(ops_dev(req), f, name, buf) : -ENODATA;

	if (len < 0)
		fuse_reply_err(req, -len);
	else
		ops_reply_xattr(req, buf, (size_t)len, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char buf[XATTR_MAX];
	bool is_file = tree_file_of(ops_tree(req), ino);

	ops_reply_xattr(req, buf, is_file ? xattr_list(buf) : 0, size);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
			const char *value, size_t size, int flags)
{
	fuse_reply_err(req, EPERM);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, EPERM);
}

/* ---- the directory ---- */

struct dir_buf {
	char *mem;
	size_t size;
	size_t len;
};

/* False: it is full. */
static bool ops_add_entry(fuse_req_t req, struct dir_buf *buf, const char *name,
			  uint64_t ino, mode_t mode, off_t next)
{
	const struct stat st = { .st_ino = ino, .st_mode = mode };
	size_t len = fuse_add_direntry(req, buf->mem + buf->len,
				       buf->size - buf->len, name, &st, next);

	if (len > buf->size - buf->len)
		return false;
	buf->len += len;
	return true;
}

static bool ops_add_nth_entry(fuse_req_t req, struct dir_buf *buf,
			      unsigned int n)
{
	const struct tree_file *f;

	if (n < 2)
		return ops_add_entry(req, buf, n == 0 ? "." : "..",
				     FUSE_ROOT_ID, S_IFDIR, n + 1);
	f = tree_shown(ops_tree(req), n - 2);
	return !f || ops_add_entry(req, buf, f->name, f->ino, S_IFREG, n + 1);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	const struct tree *t = ops_tree(req);
	struct dir_buf buf = {
		.size = size < DEV_ANSWER_MAX ? size : DEV_ANSWER_MAX,
	};

	if (!tree_is_dir(t, ino)) {
		fuse_reply_err(req, ENOTDIR);
		return;
	}
	buf.mem = malloc(buf.size);
	if (!buf.mem) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	for (off_t n = off; n >= 0 && n < 2 + (off_t)t->cnt; n++) {
		if (!ops_add_nth_entry(req, &buf, (unsigned int)n))
			break;
	}
	fuse_reply_buf(req, buf.mem, buf.len);
	free(buf.mem);
}

/* ---- statfs ---- */

/* A STATFS that adds up the files, one after the other. */
struct statfs_wait {
	struct allocation_waiter waiter;
	fuse_req_t req;
	unsigned int next;
	unsigned int files;
	uint64_t size;
	uint64_t allocated;
};

static void ops_reply_statfs(struct statfs_wait *w)
{
	uint64_t unallocated = w->size - w->allocated;
	const struct statvfs st = {
		.f_bsize = 4096,
		.f_frsize = STATFS_UNIT,
		.f_blocks = w->size / STATFS_UNIT,
		.f_bfree = unallocated / STATFS_UNIT,
		.f_bavail = unallocated / STATFS_UNIT,
		.f_files = w->files,
		.f_namemax = 255,
	};

	fuse_reply_statfs(w->req, &st);
	free(w);
}

static void ops_statfs_next(struct statfs_wait *w)
{
	const struct tree *t = ops_tree(w->req);

	while (w->next < t->cnt && !tree_shown(t, w->next))
		w->next++;
	if (w->next == t->cnt)
		ops_reply_statfs(w);
	else
		allocation_get(&t->files[w->next]->allocation, &w->waiter);
}

static void ops_statfs_known(struct allocation_waiter *waiter,
			     uint64_t allocated)
{
	struct statfs_wait *w =
		container_of(waiter, struct statfs_wait, waiter);
	const struct tree *t = ops_tree(w->req);

	w->size += t->files[w->next]->info->size;
	w->allocated += allocated;
	w->files++;
	w->next++;
	ops_statfs_next(w);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statfs_wait *w = calloc(1, sizeof(*w));

	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	w->waiter.done = ops_statfs_known;
	w->req = req;
	ops_statfs_next(w);
}

/* ---- not supported: only the target creates and removes volumes ---- */

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		      mode_t mode, struct fuse_file_info *fi)
{
	fuse_reply_err(req, EPERM);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	fuse_reply_err(req, EPERM);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	fuse_reply_err(req, EPERM);
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
		       const char *name)
{
	fuse_reply_err(req, EPERM);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
		    const char *newname)
{
	fuse_reply_err(req, EPERM);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EPERM);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t newparent, const char *newname,
		      unsigned int flags)
{
	fuse_reply_err(req, EPERM);
}

/* data.c handles READ, WRITE, FSYNC, FALLOCATE and LSEEK. libfuse answers all other
 * requests with ENOSYS, and the kernel does not send them again. */
const struct fuse_lowlevel_ops ops_lowlevel = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.access = op_access,
	.open = op_open,
	.release = op_release,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
	.readdir = op_readdir,
	.statfs = op_statfs,
	.create = op_create,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.symlink = op_symlink,
	.link = op_link,
	.unlink = op_unlink,
	.rmdir = op_unlink,
	.rename = op_rename,
};
