/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that do not move data: attributes, names, refusals. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "fuse/xattr.h"
#include "tests/lib/t_table.h"
#include "tests/unit/test_fuse_rig.h"

#define NOWHERE 4711 /* no inode has this number */

static int ask(struct rig *r, uint32_t opcode, uint64_t ino, const void *args,
	       size_t args_len, const char *text, size_t text_len)
{
	uint64_t unique =
		rig_send(r, opcode, ino, args, args_len, text, text_len);

	rig_receive(r);
	assert_int_equal(r->out.unique, unique);
	return r->out.error;
}

static struct fuse_attr attributes(struct rig *r, uint64_t ino)
{
	const struct fuse_getattr_in in = { 0 };
	struct fuse_attr_out out;

	assert_int_equal(ask(r, FUSE_GETATTR, ino, &in, sizeof(in), NULL, 0),
			 0);
	memcpy(&out, r->data, sizeof(out));
	return out.attr;
}

/* ---- attributes ---- */

static const struct setattr_row {
	const char *name;
	uint64_t ino; /* 0: RIG_FILE */
	struct fuse_setattr_in in;
	bool read_only;
	bool gone;
	int err;
} setattr_rows[] = {
	{ "the mode that it has",
	  .in = { .valid = FATTR_MODE, .mode = S_IFREG | 0600 } },
	{ "another mode", .in = { .valid = FATTR_MODE, .mode = S_IFREG | 0644 },
	  .err = -EPERM },
	{ "the owner that it has", .in = { .valid = FATTR_UID | FATTR_GID } },
	{ "another user", .in = { .valid = FATTR_UID, .uid = 12 },
	  .err = -EPERM },
	{ "another group", .in = { .valid = FATTR_GID, .gid = 12 },
	  .err = -EPERM },
	{ "the size that it has",
	  .in = { .valid = FATTR_SIZE, .size = RIG_SIZE } },
	{ "a larger size", .in = { .valid = FATTR_SIZE, .size = RIG_SIZE + 1 },
	  .err = -EFBIG },
	{ "a smaller size", .in = { .valid = FATTR_SIZE, .size = RIG_SIZE - 1 },
	  .err = -EINVAL },
	{ "size 0 of a file that is not open",
	  .in = { .valid = FATTR_SIZE, .size = 0 }, .err = -EINVAL },
	{ "the size of a read-only volume",
	  .in = { .valid = FATTR_SIZE, .size = RIG_SIZE }, .read_only = true,
	  .err = -EROFS },
	{ "the size of a directory", .ino = FUSE_ROOT_ID,
	  .in = { .valid = FATTR_SIZE, .size = 0 }, .err = -EISDIR },
	{ "the mode of the directory", .ino = FUSE_ROOT_ID,
	  .in = { .valid = FATTR_MODE, .mode = S_IFDIR | 0777 },
	  .err = -EPERM },
	{ "a volume that is gone", .in = { .valid = FATTR_MTIME, .mtime = 1 },
	  .gone = true, .err = -EIO },
};

T_ROWS(setattr, setattr_rows)
{
	const struct setattr_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){
		.thick = true, .read_only = row->read_only });
	struct fuse_setattr_in in = row->in;
	uint64_t fh = rig_open(r, O_RDONLY);

	/* Owner and group of the file are those in rig_options: 0. */
	if (row->gone)
		tree_lose(r->tree, r->tree->files[0]);
	assert_int_equal(ask(r, FUSE_SETATTR, row->ino ? row->ino : RIG_FILE,
			     &in, sizeof(in), NULL, 0),
			 row->err);
	assert_int_equal(r->target->cnt, 0);
	rig_release(r, fh);
	rig_free(r);
}

T_TEST(time_that_was_set_is_shown)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	struct fuse_setattr_in in = { .valid = FATTR_MTIME,
				      .mtime = 1234,
				      .mtimensec = 567 };

	assert_int_equal(
		ask(r, FUSE_SETATTR, RIG_FILE, &in, sizeof(in), NULL, 0), 0);
	assert_int_equal(attributes(r, RIG_FILE).mtime, 1234);
	assert_int_equal(attributes(r, RIG_FILE).mtimensec, 567);
	in.valid = FATTR_MTIME | FATTR_MTIME_NOW;
	assert_int_equal(
		ask(r, FUSE_SETATTR, RIG_FILE, &in, sizeof(in), NULL, 0), 0);
	assert_true(attributes(r, RIG_FILE).mtime > 1234);
	rig_free(r);
}

static const struct access_row {
	const char *name;
	uint64_t ino;
	uint32_t mask;
	bool read_only;
	int err;
} access_rows[] = {
	{ "read and write a file", RIG_FILE, R_OK | W_OK, false, 0 },
	{ "read a read-only file", RIG_FILE, R_OK, true, 0 },
	{ "write a read-only file", RIG_FILE, W_OK, true, -EROFS },
	{ "execute a file", RIG_FILE, X_OK, false, -EACCES },
	{ "search the directory", FUSE_ROOT_ID, R_OK | X_OK, false, 0 },
	{ "write the directory", FUSE_ROOT_ID, W_OK, false, -EPERM },
};

T_ROWS(may_access, access_rows)
{
	const struct access_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){
		.thick = true, .read_only = row->read_only });
	const struct fuse_access_in in = { .mask = row->mask };

	assert_int_equal(
		ask(r, FUSE_ACCESS, row->ino, &in, sizeof(in), NULL, 0),
		row->err);
	rig_free(r);
}

static const struct open_row {
	const char *name;
	uint64_t ino;
	uint32_t flags;
	int err;
} open_rows[] = {
	{ "the directory", FUSE_ROOT_ID, O_RDONLY, -EISDIR },
	{ "an inode that is not there", NOWHERE, O_RDONLY, -ESTALE },
	{ "a read-only file for writing", RIG_FILE, O_RDWR, -EROFS },
	{ "a read-only file for writing only", RIG_FILE, O_WRONLY, -EROFS },
};

T_ROWS(open_is_refused, open_rows)
{
	const struct open_row *row = *state;
	struct rig *r = rig_new(
		&(struct rig_options){ .thick = true, .read_only = true });
	const struct fuse_open_in in = { .flags = row->flags };

	assert_int_equal(ask(r, FUSE_OPEN, row->ino, &in, sizeof(in), NULL, 0),
			 row->err);
	rig_free(r);
}

T_TEST(unknown_inode_has_no_attributes)
{
	const struct fuse_getattr_in in = { 0 };
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });

	assert_int_equal(
		ask(r, FUSE_GETATTR, NOWHERE, &in, sizeof(in), NULL, 0),
		-ESTALE);
	rig_free(r);
}

/* ---- extended attributes ---- */

static int get_xattr(struct rig *r, uint64_t ino, const char *name,
		     uint32_t size)
{
	const struct fuse_getxattr_in in = { .size = size };

	return ask(r, FUSE_GETXATTR, ino, &in, sizeof(in), name,
		   strlen(name) + 1);
}

static const struct xattr_row {
	const char *name;
	const char *value;
} xattr_rows[] = {
	{ "state", "running" },	   { "last_error", "it is late" },
	{ "transport", "memory" }, { "target", "here" },
	{ "initiator", "me" },	   { "addresses", "nowhere:1 in use" },
	{ "volume", "disk" },	   { "identifier", "naa.5" },
	{ "serial", "0123" },	   { "requests", "read" },
	{ "channels", "1" },	   { "commands", "3" },
	{ "reconnects", "7" },	   { "attempts", "8" },
	{ "replayed", "9" },	   { "timeouts", "10" },
	{ "failed_flushes", "1" },
};

static void fill_session(struct rig *r)
{
	strcpy(r->target->info.naa, "naa.5");
	strcpy(r->target->info.serial, "0123");
	r->target->cnt = 3;
	r->target->stats = (struct srpi_session_stats){
		.last_error = "it is late",
		.reconnects = 7,
		.attempts = 8,
		.replayed = 9,
		.timeouts = 10,
	};
	r->tree->files[0]->errors = 1;
}

T_ROWS(xattr_has_the_value, xattr_rows)
{
	const struct xattr_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint32_t len = (uint32_t)strlen(row->value);
	struct fuse_getxattr_out out;
	char name[64];

	fill_session(r);
	snprintf(name, sizeof(name), "user.rdma-block.%s", row->name);
	assert_int_equal(get_xattr(r, RIG_FILE, name, 0), 0);
	memcpy(&out, r->data, sizeof(out));
	assert_int_equal(out.size, len);
	if (len) {
		assert_int_equal(get_xattr(r, RIG_FILE, name, len), 0);
		assert_int_equal(r->data_len, len);
		assert_memory_equal(r->data, row->value, len);
	}
	if (len > 1)
		assert_int_equal(get_xattr(r, RIG_FILE, name, len - 1),
				 -ERANGE);
	rig_free(r);
}

T_TEST(state_of_a_volume_that_has_left_is_gone)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	uint64_t fh = rig_open(r, O_RDONLY);

	tree_lose(r->tree, r->tree->files[0]);
	assert_int_equal(get_xattr(r, RIG_FILE, "user.rdma-block.state", 64),
			 0);
	assert_int_equal(r->data_len, 4);
	assert_memory_equal(r->data, "gone", 4);
	rig_release(r, fh);
	rig_free(r);
}

T_TEST(other_names_have_no_value)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });

	assert_int_equal(get_xattr(r, RIG_FILE, "user.rdma-block.", 64),
			 -ENODATA);
	assert_int_equal(get_xattr(r, RIG_FILE, "security.capability", 0),
			 -ENODATA);
	assert_int_equal(get_xattr(r, FUSE_ROOT_ID, "user.rdma-block.state", 0),
			 -ENODATA);
	rig_free(r);
}

static int list_xattr(struct rig *r, uint64_t ino, uint32_t size)
{
	const struct fuse_getxattr_in in = { .size = size };

	return ask(r, FUSE_LISTXATTR, ino, &in, sizeof(in), NULL, 0);
}

/* Each name in the list has a value, and no other one is missing. */
T_TEST(list_has_all_names)
{
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	char list[XATTR_MAX];
	unsigned int cnt = 0;
	size_t len;

	assert_int_equal(list_xattr(r, RIG_FILE, XATTR_MAX), 0);
	len = r->data_len;
	memcpy(list, r->data, len);
	for (size_t at = 0; at < len; at += strlen(list + at) + 1) {
		assert_int_equal(get_xattr(r, RIG_FILE, list + at, 0), 0);
		cnt++;
	}
	assert_int_equal(cnt, ARRAY_SIZE(xattr_rows));
	assert_int_equal(list_xattr(r, RIG_FILE, (uint32_t)len - 1), -ERANGE);
	assert_int_equal(list_xattr(r, FUSE_ROOT_ID, 64), 0);
	assert_int_equal(r->data_len, 0);
	rig_free(r);
}

/* ---- names ---- */

static const struct refused_row {
	const char *name;
	uint32_t opcode;
	uint64_t ino;
	size_t args_len; /* bytes, all zero */
	const char *text;
	size_t text_len;
} refused_rows[] = {
	{ "create", FUSE_CREATE, FUSE_ROOT_ID, sizeof(struct fuse_create_in),
	  "new", 4 },
	{ "mknod", FUSE_MKNOD, FUSE_ROOT_ID, sizeof(struct fuse_mknod_in),
	  "new", 4 },
	{ "mkdir", FUSE_MKDIR, FUSE_ROOT_ID, sizeof(struct fuse_mkdir_in),
	  "new", 4 },
	{ "symlink", FUSE_SYMLINK, FUSE_ROOT_ID, 0, "new\0disk", 9 },
	{ "link", FUSE_LINK, FUSE_ROOT_ID, sizeof(struct fuse_link_in), "new",
	  4 },
	{ "unlink", FUSE_UNLINK, FUSE_ROOT_ID, 0, "disk", 5 },
	{ "rmdir", FUSE_RMDIR, FUSE_ROOT_ID, 0, "disk", 5 },
	{ "rename", FUSE_RENAME, FUSE_ROOT_ID, sizeof(struct fuse_rename_in),
	  "disk\0new", 9 },
	{ "rename over", FUSE_RENAME2, FUSE_ROOT_ID,
	  sizeof(struct fuse_rename2_in), "disk\0new", 9 },
	{ "setxattr", FUSE_SETXATTR, RIG_FILE, FUSE_COMPAT_SETXATTR_IN_SIZE,
	  "user.rdma-block.state\0x", 24 },
	{ "removexattr", FUSE_REMOVEXATTR, RIG_FILE, 0, "user.rdma-block.state",
	  22 },
};

/* Only the target creates and removes volumes. */
T_ROWS(change_of_names_is_refused, refused_rows)
{
	const struct refused_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	const char zeroes[128] = "";

	assert_true(row->args_len <= sizeof(zeroes));
	assert_int_equal(ask(r, row->opcode, row->ino, zeroes, row->args_len,
			     row->text, row->text_len),
			 -EPERM);
	assert_int_equal(ask(r, FUSE_LOOKUP, FUSE_ROOT_ID, "disk", 5, NULL, 0),
			 0);
	assert_int_equal(ask(r, FUSE_LOOKUP, FUSE_ROOT_ID, "new", 4, NULL, 0),
			 -ENOENT);
	rig_free(r);
}

static int read_dir(struct rig *r, uint64_t ino, uint32_t size)
{
	const struct fuse_read_in in = { .size = size };

	return ask(r, FUSE_READDIR, ino, &in, sizeof(in), NULL, 0);
}

T_TEST(directory_lists_as_much_as_fits)
{
	static const char *const names[] = { ".", "..", "disk" };
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	size_t at = 0;

	assert_int_equal(read_dir(r, FUSE_ROOT_ID, 4096), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		const struct fuse_dirent *d = (const void *)(r->data + at);

		assert_int_equal(d->namelen, strlen(names[i]));
		assert_memory_equal(d->name, names[i], d->namelen);
		assert_int_equal(d->off, i + 1);
		at += FUSE_DIRENT_SIZE(d);
	}
	assert_int_equal(r->data_len, at);
	assert_int_equal(read_dir(r, FUSE_ROOT_ID, (uint32_t)at - 1), 0);
	assert_int_equal(r->data_len,
			 2 * FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1));
	assert_int_equal(read_dir(r, RIG_FILE, 4096), -ENOTDIR);
	rig_free(r);
}

/* ---- statfs ---- */

static const struct statfs_row {
	const char *name;
	bool thick;
	bool gone;
	uint64_t blocks;
	uint64_t free;
	uint64_t files;
} statfs_rows[] = {
	{ "all is allocated", true, false, RIG_SIZE / 512, 0, 1 },
	{ "all but a write is a hole", false, false, RIG_SIZE / 512,
	  RIG_SIZE / 512 - 8, 1 },
	{ "the volume is gone", true, true, 0, 0, 0 },
};

T_ROWS(statfs_adds_up_the_files, statfs_rows)
{
	const struct statfs_row *row = *state;
	struct rig *r = rig_new(&(struct rig_options){ .thick = row->thick });
	uint64_t fh = rig_open(r, O_RDWR);
	const char data[4096] = "data";
	struct fuse_statfs_out out;

	assert_int_equal(rig_write(r, fh, 0, data, sizeof(data)), 0);
	if (row->gone)
		tree_lose(r->tree, r->tree->files[0]);
	assert_int_equal(ask(r, FUSE_STATFS, FUSE_ROOT_ID, NULL, 0, NULL, 0),
			 0);
	memcpy(&out, r->data, sizeof(out));
	assert_int_equal(out.st.frsize, 512);
	assert_int_equal(out.st.blocks, row->blocks);
	assert_int_equal(out.st.bfree, row->free);
	assert_int_equal(out.st.bavail, row->free);
	assert_int_equal(out.st.files, row->files);
	rig_release(r, fh);
	rig_free(r);
}
