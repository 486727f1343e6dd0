/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifies a file or block device independently of its path and number: the
 * kernel numbers devices anew at each boot, and a symbolic link may change at
 * any time.
 *
 * There are two questions. What does the store report about itself? The
 * identity of a volume may be made from that. And how can the store be
 * recognised later? A state file (state_file.h) has that answer, so that no
 * state is restored to another store.
 *
 * Thread: setup.
 */
#ifndef TARGET_BLOCK_STORE_ID_H
#define TARGET_BLOCK_STORE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Texts of one word, of visible ASCII characters; "": unknown. */
#define STORE_TEXT_MAX 320
#define STORE_HERE_MAX 80

struct store_mark {
	/* Constant as long as the store exists. Of a device: what it reports
	 * about itself. Of a file: the inode and the creation time. */
	char lasting[STORE_TEXT_MAX];
	/* Constant while a device is attached, until the machine boots. */
	char here[STORE_HERE_MAX];
};

struct store_id {
	bool is_device;
	/*
	 * What a block device reports about itself: the WWID of a disk, the
	 * UUID of a device-mapper device or of an MD array, the UUID of a
	 * partition after that of its disk. Files have none.
	 */
	char own[STORE_TEXT_MAX];
	struct store_mark mark;
};

/*
 * Examines the open file @fd, whose fstat() is @st. @root stands before /sys,
 * /proc and /run; it is "" except in tests. What cannot be read is unknown.
 */
void store_id_read(const char *root, int fd, const struct stat *st,
		   struct store_id *ret);

enum store_match {
	STORE_SAME,
	STORE_UNKNOWN, /* cannot be decided */
	STORE_OTHER,
};

enum store_match store_mark_match(const struct store_mark *was,
				  const struct store_mark *is);

/*
 * Makes @path absolute, and removes "//", "." and ".." from its text. Symbolic
 * links stay as they are. Return: 0; -errno of getcwd(); -ENAMETOOLONG. @ret
 * has @len bytes.
 */
int store_path_clean(const char *path, char *ret, size_t len);

#endif
