/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a device is identified as a store, from a tree that looks like /sys, /run
 * and /proc of some machine. Files are real.
 */
#include "target/block/store_id.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/lib/t_table.h"

#define BOOT "proc/sys/kernel/random/boot_id"

/* ---- the machine ---- */

static char root[64];

/* Makes @path below the root with all its directories. If @text is "->...", it
 * makes a symbolic link. */
static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *c = full + strlen(root) + 1; (c = strchr(c, '/')); c++) {
		*c = '\0';
		assert_true(!mkdir(full, 0755) || errno == EEXIST);
		*c = '/';
	}
	if (!strncmp(text, "->", 2)) {
		assert_int_equal(symlink(text + 2, full), 0);
		return;
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int make_machine(void)
{
	strcpy(root, "/tmp/t-store-XXXXXX");
	assert_non_null(mkdtemp(root));
	return 0;
}

static void remove_machine(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", root);
	assert_int_equal(system(cmd), 0);
}

static struct store_id device(unsigned int maj, unsigned int min)
{
	struct stat st = { .st_mode = S_IFBLK | 0600,
			   .st_rdev = makedev(maj, min) };
	struct store_id id;

	store_id_read(root, -1, &st, &id);
	assert_true(id.is_device);
	return id;
}

/* ---- identifiers of devices ---- */

#define FILES 8

static const struct device_row {
	const char *name;
	struct {
		const char *path;
		const char *text;
	} files[FILES];
	const char *own; /* identifier of 8:1 */
} device_rows[] = {
	{ "nothing is known of it", .own = "" },
	{ "SCSI disk",
	  .files = { { "sys/dev/block/8:1/device/wwid",
		       "naa.600140512345678\n" } },
	  .own = "wwid:naa.600140512345678" },
	{ "words become one",
	  .files = { { "sys/dev/block/8:1/device/wwid",
		       "t10.ATA     QEMU HARDDISK  QM00001 \n" } },
	  .own = "wwid:t10.ATA_____QEMU_HARDDISK__QM00001" },
	{ "an empty WWID",
	  .files = { { "sys/dev/block/8:1/device/wwid", "\n" } }, .own = "" },
	{ "NVMe",
	  .files = { { "sys/dev/block/8:1/wwid", "eui.0025385b71b0a1c2\n" } },
	  .own = "wwid:eui.0025385b71b0a1c2" },
	{ "a logical volume",
	  .files = { { "sys/dev/block/8:1/dm/uuid", "LVM-abcDEF\n" } },
	  .own = "dm:LVM-abcDEF" },
	{ "a device-mapper device without UUID",
	  .files = { { "sys/dev/block/8:1/dm/uuid", "\n" } }, .own = "" },
	{ "virtio with a serial number",
	  .files = { { "sys/dev/block/8:1/serial", "disk-7\n" } },
	  .own = "serial:disk-7" },
	{ "MMC", .files = { { "sys/dev/block/8:1/device/cid", "1501004d\n" } },
	  .own = "cid:1501004d" },
	{ "MD, from the kernel",
	  .files = { { "sys/dev/block/8:1/md/uuid",
		       "0A1B2C3D-0000-1111-2222-333344445555\n" } },
	  .own = "md:0a1b2c3d000011112222333344445555" },
	{ "MD, from udev",
	  .files = { { "sys/dev/block/8:1/md/uuid",
		       "00000000-0000-0000-0000-000000000000\n" },
		     { "run/udev/data/b8:1",
		       "S:md0\nE:MD_UUID=0a1b2c3d:00001111:22223333:44445555\n"
		       "E:MD_LEVEL=raid1\n" } },
	  .own = "md:0a1b2c3d000011112222333344445555" },
	{ "a partition, from the kernel",
	  .files = { { "sys/devices/sda/sda1/partition", "1\n" },
		     { "sys/devices/sda/device/wwid", "naa.5000\n" },
		     { "sys/devices/sda/sda1/uevent",
		       "MAJOR=8\nPARTN=1\nPARTUUID=AB12-01\n" },
		     { "sys/dev/block/8:1", "->../../devices/sda/sda1" } },
	  .own = "part:ab12-01/wwid:naa.5000" },
	{ "a partition, from udev",
	  .files = { { "sys/devices/sda/sda1/partition", "1\n" },
		     { "sys/devices/sda/device/wwid", "naa.5000\n" },
		     { "sys/devices/sda/sda1/uevent", "MAJOR=8\nPARTN=1\n" },
		     { "run/udev/data/b8:1", "E:ID_PART_ENTRY_UUID=ab12-01\n" },
		     { "sys/dev/block/8:1", "->../../devices/sda/sda1" } },
	  .own = "part:ab12-01/wwid:naa.5000" },
	{ "a partition on a disk without identity",
	  .files = { { "sys/devices/sda/sda1/partition", "1\n" },
		     { "sys/devices/sda/sda1/uevent", "PARTUUID=ab12-01\n" },
		     { "sys/dev/block/8:1", "->../../devices/sda/sda1" } },
	  .own = "part:ab12-01" },
	{ "a partition without UUID is not its disk",
	  .files = { { "sys/devices/sda/sda1/partition", "1\n" },
		     { "sys/devices/sda/device/wwid", "naa.5000\n" },
		     { "sys/dev/block/8:1", "->../../devices/sda/sda1" } },
	  .own = "" },
	{ "a partition of an MBR without signature",
	  .files = { { "sys/devices/sda/sda1/partition", "1\n" },
		     { "sys/devices/sda/sda1/uevent", "PARTUUID=00000000-01\n" },
		     { "sys/dev/block/8:1", "->../../devices/sda/sda1" } },
	  .own = "" },
};

T_ROWS(device_says_what_it_is, device_rows)
{
	const struct device_row *row = *state;
	struct store_id id;

	make_machine();
	for (size_t i = 0; i < FILES && row->files[i].path; i++)
		put(row->files[i].path, row->files[i].text);
	id = device(8, 1);
	assert_string_equal(id.own, row->own);
	assert_string_equal(id.mark.lasting, row->own);
	remove_machine();
}

T_TEST(identity_that_does_not_fit_is_none)
{
	char text[STORE_TEXT_MAX + 8];

	make_machine();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	put("sys/dev/block/8:0/device/wwid", text);
	text[STORE_TEXT_MAX - 4] = '\0';
	put("sys/dev/block/8:16/device/wwid", text);
	assert_string_equal(device(8, 0).own, "");
	assert_string_equal(device(8, 16).own, "");
	remove_machine();
}

/* As if the kernel finds the disks in another order at boot. */
T_TEST(numbers_may_change)
{
	struct store_id a, b;

	make_machine();
	put("sys/devices/x/device/wwid", "naa.1\n");
	put("sys/devices/y/device/wwid", "naa.2\n");
	put("sys/dev/block/8:0", "->../../devices/x");
	put("sys/dev/block/8:16", "->../../devices/y");
	a = device(8, 0);
	b = device(8, 16);
	remove_machine();
	make_machine();
	put("sys/devices/x/device/wwid", "naa.1\n");
	put("sys/devices/y/device/wwid", "naa.2\n");
	put("sys/dev/block/8:0", "->../../devices/y");
	put("sys/dev/block/8:16", "->../../devices/x");
	assert_string_equal(device(8, 0).own, b.own);
	assert_string_equal(device(8, 16).own, a.own);
	assert_string_not_equal(a.own, b.own);
	remove_machine();
}

/* ---- how they are recognized ---- */

T_TEST(device_without_identity_is_known_while_attached)
{
	struct store_id was, is;

	make_machine();
	put(BOOT, "b1\n");
	put("sys/dev/block/43:0/diskseq", "7\n");
	was = device(43, 0);
	assert_string_equal(was.mark.lasting, "");
	is = device(43, 0);
	assert_int_equal(store_mark_match(&was.mark, &is.mark), STORE_SAME);
	/* another device is attached with this number */
	put("sys/dev/block/43:0/diskseq", "8\n");
	is = device(43, 0);
	assert_int_equal(store_mark_match(&was.mark, &is.mark), STORE_UNKNOWN);
	/* the same count in another boot means nothing */
	put("sys/dev/block/43:0/diskseq", "7\n");
	put(BOOT, "b2\n");
	is = device(43, 0);
	assert_int_equal(store_mark_match(&was.mark, &is.mark), STORE_UNKNOWN);
	remove_machine();
}

T_TEST(partitions_of_one_disk_are_told_apart)
{
	struct store_id one, two;

	make_machine();
	put(BOOT, "b1\n");
	put("sys/devices/nbd0/diskseq", "7\n");
	put("sys/devices/nbd0/p1/partition", "1\n");
	put("sys/devices/nbd0/p2/partition", "2\n");
	put("sys/dev/block/43:1", "->../../devices/nbd0/p1");
	put("sys/dev/block/43:2", "->../../devices/nbd0/p2");
	one = device(43, 1);
	two = device(43, 2);
	assert_int_equal(store_mark_match(&one.mark, &two.mark), STORE_UNKNOWN);
	assert_int_equal(store_mark_match(&one.mark, &one.mark), STORE_SAME);
	remove_machine();
}

static const struct match_row {
	const char *name;
	struct store_mark was;
	struct store_mark is;
	enum store_match match;
} match_rows[] = {
	{ "the same", { "a", "" }, { "a", "" }, STORE_SAME },
	{ "wherever it is attached", { "a", "1" }, { "a", "2" }, STORE_SAME },
	{ "another", { "a", "" }, { "b", "" }, STORE_OTHER },
	{ "another, attached there", { "a", "1" }, { "b", "1" }, STORE_OTHER },
	{ "one that says nothing", { "a", "" }, { "", "" }, STORE_OTHER },
	{ "neither says anything", { "", "" }, { "", "" }, STORE_UNKNOWN },
	{ "it did not say before", { "", "1" }, { "b", "2" }, STORE_UNKNOWN },
};

T_ROWS(marks_match, match_rows)
{
	const struct match_row *row = *state;

	assert_int_equal(store_mark_match(&row->was, &row->is), row->match);
}

/* ---- files ---- */

static struct store_id file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct store_id id;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	store_id_read("", fd, &st, &id);
	close(fd);
	assert_false(id.is_device);
	assert_string_equal(id.own, "");
	return id;
}

T_TEST(file_is_recognised_where_it_goes)
{
	struct store_id was, is, other;
	char a[128], b[128], c[128];

	make_machine();
	snprintf(a, sizeof(a), "%s/a", root);
	snprintf(b, sizeof(b), "%s/b", root);
	snprintf(c, sizeof(c), "%s/c", root);
	was = file(a);
	if (!*was.mark.lasting) { /* no time of birth on this file system */
		remove_machine();
		return;
	}
	assert_int_equal(rename(a, b), 0);
	assert_int_equal(truncate(b, 4096), 0);
	is = file(b);
	assert_int_equal(store_mark_match(&was.mark, &is.mark), STORE_SAME);
	other = file(c);
	assert_int_equal(store_mark_match(&was.mark, &other.mark), STORE_OTHER);
	/* replaced by a file that may have the same inode */
	assert_int_equal(unlink(b), 0);
	is = file(b);
	assert_int_equal(store_mark_match(&was.mark, &is.mark), STORE_OTHER);
	remove_machine();
}

/* ---- paths ---- */

static const struct path_row {
	const char *name;
	const char *path;
	const char *want; /* ".": prefixed with the working directory */
} path_rows[] = {
	{ "clean", "/a/b", "/a/b" },
	{ "slashes", "//a///b/", "/a/b" },
	{ "dots", "/a/./b/../c/.", "/a/c" },
	{ "above the root", "/../../a", "/a" },
	{ "dots that are names", "/a/.b/..c/...", "/a/.b/..c/..." },
	{ "relative", "b", "./b" },
	{ "relative, with dots", "././c/../b", "./b" },
};

T_ROWS(path_is_cleaned, path_rows)
{
	const struct path_row *row = *state;
	char want[PATH_MAX + 64] = "";
	char path[PATH_MAX];

	if (*row->want == '.')
		assert_non_null(getcwd(want, PATH_MAX));
	strcat(want, row->want + (*row->want == '.'));
	assert_int_equal(store_path_clean(row->path, path, sizeof(path)), 0);
	assert_string_equal(path, want);
}

T_TEST(path_that_is_too_long_is_refused)
{
	char path[8];

	assert_int_equal(store_path_clean("/234567", path, sizeof(path)), 0);
	assert_int_equal(store_path_clean("/2345678", path, sizeof(path)),
			 -ENAMETOOLONG);
}
