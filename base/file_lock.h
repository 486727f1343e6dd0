/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock that keeps two programs from using one file, such as two targets
 * from using one store. It is flock() on the same open file that io_uring
 * writes to. Requests in flight hold that file open. So the lock of a killed
 * process lasts until its last write has landed or failed, and the next owner
 * serves nothing before that. For this reason a program waits for the lock
 * while its owner is ending, but only for a moment while its owner is alive.
 *
 * Thread: any. Functions that wait or read /proc may block.
 */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* How long to wait for the last I/O of a process that is ending. */
#define FILE_LOCK_ENDING_MS 15000
/* How long to wait for a process that is alive. It may be about to end. */
#define FILE_LOCK_ALIVE_MS 1000
/* The same for a store: udev reads a disk after each write to it. */
#define FILE_LOCK_STORE_MS 10000

enum file_holder {
	FILE_HOLDER_NONE, /* none that is visible */
	FILE_HOLDER_ALIVE,
	FILE_HOLDER_ENDING,
};

#define FILE_LOCK_NAME_MAX 64

/* "process 123 (udevd)"; @pid 0: a text for an unknown process. Returns @buf. */
const char *file_lock_name(pid_t pid, char buf[FILE_LOCK_NAME_MAX]);

/* Another process that has @st open; 0: none is visible. For messages: it
 * searches all of /proc. */
pid_t file_lock_opener(const struct stat *st);
/* Does this process have it open? */
bool file_lock_is_ours(const struct stat *st);

/* The process that has a lock on the file @st, and its state. *ret_pid is 0 if
 * it is not visible. */
enum file_holder file_lock_holder(const struct stat *st, pid_t *ret_pid);

/* The time that a wait has taken, and what was logged about it. Private; zero
 * at first. */
struct file_wait {
	unsigned int ms;
	bool told_alive;
	bool told_ending;
};

/*
 * Waits a little for the process @pid, which is in the state @holder, to release
 * the lock: in all at most @alive_ms while it is alive, and FILE_LOCK_ENDING_MS
 * while it is ending. Logs a line about @path if this takes longer, and another
 * one when the process is ending. True: try to take the lock again. False: the
 * time is over, a signal asks this process to stop, or this process has the lock.
 */
bool file_lock_wait(struct file_wait *w, const char *path,
		    enum file_holder holder, pid_t pid, unsigned int alive_ms);

/* Ends all waits of this process and later ones, because it is to stop; or no
 * more. For a program that takes the signals that are blocked. */
void file_lock_end_waits(bool end);

/* Does a signal ask this process to stop? SIGTERM and SIGINT are blocked. True
 * also after file_lock_end_waits(). */
bool file_lock_is_interrupted(void);

/* Takes the lock of the open file @fd, shared or not, and waits for it as
 * file_lock_wait(). @path is for the log. Return: 0; -EBUSY, with the process that
 * has it (or 0) in *ret_pid; -errno of fstat() or flock(). */
int file_lock_take(int fd, const char *path, bool shared, unsigned int alive_ms,
		   pid_t *ret_pid);

#endif
