/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which store a file or block device is, whatever its path and its number are
 * today: the kernel numbers devices anew at each boot, and a symbolic link can
 * lead to another one at any time.
 *
 * Two questions are kept apart. What does the store say of itself? The identity
 * of a volume can be made of that. And how is it recognised later? A state file
 * (state_file.h) holds the answer, so that nothing is done to another store.
 *
 * Thread: setup.
 */
#ifndef TARGET_BLOCK_STORE_ID_H
#define TARGET_BLOCK_STORE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Texts of one word, of visible ASCII characters; "": not known. */
#define STORE_TEXT_MAX 320
#define STORE_HERE_MAX 80

struct store_mark {
	/* The same as long as the store exists: what a device says of itself;
	 * of a file the inode and when it was made. */
	char lasting[STORE_TEXT_MAX];
	/* The same as long as a device is attached, until the machine boots. */
	char here[STORE_HERE_MAX];
};

struct store_id {
	bool is_device;
	/*
	 * What a block device says of itself: the WWID of a disk, the UUID of a
	 * device-mapper device or of an MD array, the UUID of a partition
	 * behind that of its disk. Files have none.
	 */
	char own[STORE_TEXT_MAX];
	struct store_mark mark;
};

/*
 * Finds out about the open file @fd, whose fstat() is @st. @root stands before
 * /sys, /proc and /run; "" but in tests. What cannot be read is not known.
 */
void store_id_read(const char *root, int fd, const struct stat *st,
		   struct store_id *ret);

enum store_match {
	STORE_SAME,
	STORE_UNKNOWN, /* nothing tells */
	STORE_OTHER,
};

enum store_match store_mark_match(const struct store_mark *was,
				  const struct store_mark *is);

/*
 * Makes @path absolute, and takes "//", "." and ".." out of it by its text
 * alone: symbolic links stay what they are. Return: 0; -errno of getcwd();
 * -ENAMETOOLONG. @ret has @len bytes.
 */
int store_path_clean(const char *path, char *ret, size_t len);

#endif
