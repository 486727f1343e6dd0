/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that appear and disappear while the mount works. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tests/lib/t_table.h"
#include "tests/unit/test_fuse_rig.h"

static int lookup(struct rig *r, const char *name, uint64_t *ret_ino)
{
	struct fuse_entry_out out;

	rig_send(r, FUSE_LOOKUP, FUSE_ROOT_ID, name, strlen(name) + 1, NULL, 0);
	rig_receive(r);
	if (r->out.error)
		return r->out.error;
	memcpy(&out, r->data, sizeof(out));
	*ret_ino = out.nodeid;
	return 0;
}

static int get_attr(struct rig *r, uint64_t ino, struct fuse_attr *ret)
{
	const struct fuse_getattr_in in = { 0 };
	struct fuse_attr_out out;

	rig_send(r, FUSE_GETATTR, ino, &in, sizeof(in), NULL, 0);
	rig_receive(r);
	if (r->out.error)
		return r->out.error;
	memcpy(&out, r->data, sizeof(out));
	*ret = out.attr;
	return 0;
}

/* Returns how many names the directory has, without "." and "..". */
static unsigned int entries(struct rig *r)
{
	const struct fuse_read_in in = { .offset = 2, .size = 4096 };
	unsigned int cnt = 0;

	rig_send(r, FUSE_READDIR, FUSE_ROOT_ID, &in, sizeof(in), NULL, 0);
	rig_receive(r);
	assert_int_equal(r->out.error, 0);
	for (size_t at = 0; at < r->data_len; cnt++) {
		const struct fuse_dirent *d = (const void *)(r->data + at);

		at += FUSE_DIRENT_SIZE(d);
	}
	return cnt;
}

static int open_file(struct rig *r, uint64_t ino)
{
	const struct fuse_open_in in = { .flags = O_RDWR };

	rig_send(r, FUSE_OPEN, ino, &in, sizeof(in), NULL, 0);
	rig_receive(r);
	return r->out.error;
}

T_TEST(open_file_that_is_gone_gives_errors_and_nothing_else)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	const struct fuse_fsync_in fsync = { .fh = rig_open(r, O_RDWR) };
	struct fuse_attr attr;
	uint64_t ino;

	tree_lose(r->tree, r->tree->files[0]);
	assert_int_equal(rig_read(r, 0, 512), -EIO);
	assert_int_equal(rig_write(r, fsync.fh, 0, "data", 4), -EIO);
	assert_int_equal(rig_ask(r, FUSE_FSYNC, &fsync, sizeof(fsync)), -EIO);
	assert_int_equal(r->target->cnt, 0);
	assert_int_equal(get_attr(r, RIG_FILE, &attr), 0);
	assert_int_equal(attr.nlink, 0);
	assert_int_equal(attr.size, RIG_SIZE);
	assert_int_equal(lookup(r, "disk", &ino), -ENOENT);
	assert_int_equal(entries(r), 0);
	assert_int_equal(open_file(r, RIG_FILE), -ESTALE);
	assert_int_equal(r->target->forgotten, 0);
	rig_release(r, fsync.fh);
	assert_int_equal(r->target->forgotten, 1);
	assert_int_equal(get_attr(r, RIG_FILE, &attr), -ESTALE);
	rig_free(r);
}

T_TEST(new_file_is_another_inode)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint64_t fh = rig_open(r, O_RDWR);
	struct fuse_attr attr;
	struct tree_file *f;
	uint64_t ino;

	tree_lose(r->tree, r->tree->files[0]);
	f = tree_add(r->tree, 0);
	assert_non_null(f);
	allocation_init(&f->allocation, r->target, r->reactor, 0);
	assert_int_equal(lookup(r, "disk", &ino), 0);
	assert_int_not_equal(ino, RIG_FILE);
	assert_int_equal(entries(r), 1);
	assert_int_equal(get_attr(r, ino, &attr), 0);
	assert_int_equal(attr.nlink, 1);
	/* The new file is not the old one. */
	assert_int_equal(rig_read(r, 0, 512), -EIO);
	rig_release(r, fh);
	assert_int_equal(open_file(r, ino), 0);
	/* The new file takes a place that was used before. */
	tree_lose(r->tree, f);
	f = tree_add(r->tree, 0);
	assert_non_null(f);
	allocation_init(&f->allocation, r->target, r->reactor, 0);
	assert_int_equal(r->tree->cnt, 2);
	assert_int_not_equal(f->ino, ino);
	assert_int_not_equal(f->ino, RIG_FILE);
	rig_free(r);
}

/* The request ends before the file does. */
T_TEST(request_in_flight_keeps_the_file)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	const struct fuse_read_in in = { .size = 512 };
	uint64_t fh = rig_open(r, O_RDWR);

	r->target->hold = true;
	rig_send(r, FUSE_READ, RIG_FILE, &in, sizeof(in), NULL, 0);
	assert_false(rig_settle(r));
	tree_lose(r->tree, r->tree->files[0]);
	rig_release(r, fh);
	assert_int_equal(r->target->forgotten, 0);
	t_srpi_let_go(r->target);
	rig_receive(r);
	assert_int_equal(r->out.error, 0);
	assert_false(rig_settle(r));
	tree_reap(r->tree);
	assert_int_equal(r->target->forgotten, 1);
	rig_free(r);
}
