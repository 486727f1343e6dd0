/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock that keeps two programs off one file, such as two targets off one
 * store: flock() on the very open file that io_uring writes to. Requests in
 * flight hold that file, so the lock of a process that was killed lasts until
 * its last write has landed or failed, and whoever has the lock next serves
 * nothing before. It is therefore waited for while its holder is ending, and
 * not when that is alive and well.
 */
#ifndef TRANSPORT_FILE_LOCK_H
#define TRANSPORT_FILE_LOCK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* How long the last I/O of a process that is ending is waited for. */
#define FILE_LOCK_ENDING_MS 15000
/* How long one that is alive is: a graceful end may be a moment away, or udev
 * be looking at a device. */
#define FILE_LOCK_ALIVE_MS 1000

enum file_holder {
	FILE_HOLDER_NONE, /* none that can be seen */
	FILE_HOLDER_ALIVE,
	FILE_HOLDER_ENDING,
};

/* Who has a lock on the file @st, and what becomes of it; *ret_pid, or 0. */
enum file_holder file_lock_holder(const struct stat *st, pid_t *ret_pid);

/*
 * Waits a little for what @holder has, the first time with a line in the log
 * about @path; *waited_ms counts. False: that was long enough, a signal asks this
 * process to stop, or it is the holder itself.
 */
bool file_lock_wait(const char *path, enum file_holder holder, pid_t pid,
		    unsigned int *waited_ms);

/* Takes it, shared or not. Return: 0; -EBUSY, with who has it (or 0); -errno.
 * Thread: setup. */
int file_lock_take(int fd, const char *path, bool shared, pid_t *ret_pid);

#endif
