/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock that keeps two programs off one file, such as two targets off one
 * store: flock() on the very open file that io_uring writes to. Requests in
 * flight hold that file, so the lock of a process that was killed lasts until
 * its last write has landed or failed, and whoever has the lock next serves
 * nothing before. It is therefore waited for while its holder is ending, and
 * not when that is alive and well.
 */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* How long the last I/O of a process that is ending is waited for. */
#define FILE_LOCK_ENDING_MS 15000
/* How long one that is alive is: a graceful end may be a moment away, */
#define FILE_LOCK_ALIVE_MS 1000
/* or udev look at a store: after each write to a disk it reads all over it. */
#define FILE_LOCK_STORE_MS 10000

enum file_holder {
	FILE_HOLDER_NONE, /* none that can be seen */
	FILE_HOLDER_ALIVE,
	FILE_HOLDER_ENDING,
};

/* "process 123 (udevd)", or that it is not known which. */
#define FILE_LOCK_NAME_MAX 64

const char *file_lock_name(pid_t pid, char buf[FILE_LOCK_NAME_MAX]);

/* Another process that has @st open; 0: none that can be seen. For messages: it
 * looks through all of /proc. */
pid_t file_lock_opener(const struct stat *st);
/* Does this process have it open? */
bool file_lock_is_ours(const struct stat *st);

/* Who has a lock on the file @st, and what becomes of it; *ret_pid, or 0. */
enum file_holder file_lock_holder(const struct stat *st, pid_t *ret_pid);

/*
 * Waits a little for what @holder has, at most @alive_ms if that is alive, with
 * a line in the log about @path if it is ending; *waited_ms counts. False: that
 * was long enough, a signal asks this process to stop, or it is the holder
 * itself.
 */
bool file_lock_wait(const char *path, enum file_holder holder, pid_t pid,
		    unsigned int alive_ms, unsigned int *waited_ms);

/* Does a signal ask this process to stop? SIGTERM and SIGINT are blocked. */
bool file_lock_is_interrupted(void);

/* Takes it, shared or not. Return: 0; -EBUSY, with who has it (or 0); -errno.
 * Thread: setup. */
int file_lock_take(int fd, const char *path, bool shared, unsigned int alive_ms,
		   pid_t *ret_pid);

#endif
