/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/file_lock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"

#define STEP_MS 10
/* A longer wait is logged. udev often keeps its lock only for a moment. */
#define TELL_ALIVE_MS  (100 * STEP_MS)
#define TELL_ENDING_MS (20 * STEP_MS)

/* ---- who has it ---- */

/* A line of /proc/locks, see proc(5):
 * "1: FLOCK  ADVISORY  WRITE 708 08:01:1048576 0 EOF" */
static bool file_lock_is_on(const char *line, const struct stat *st,
			    pid_t *ret_pid)
{
	char where[64];
	const char *at;

	snprintf(where, sizeof(where), " %02x:%02x:%ju ", major(st->st_dev),
		 minor(st->st_dev), (uintmax_t)st->st_ino);
	at = strstr(line, where);
	/* "->" marks a process that waits for the lock */
	if (!at || !strstr(line, ": FLOCK ") || strstr(line, "->"))
		return false;
	while (at > line && at[-1] >= '0' && at[-1] <= '9')
		at--;
	*ret_pid = (pid_t)strtol(at, NULL, 10);
	return true;
}

static pid_t file_lock_find_holder(const struct stat *st)
{
	char line[256];
	pid_t pid = 0;
	FILE *f = fopen("/proc/locks", "re");

	while (f && fgets(line, sizeof(line), f) &&
	       !file_lock_is_on(line, st, &pid))
		;
	if (f)
		fclose(f);
	return pid;
}

/* The pending signals of a thread or of all threads (proc(5), status). */
static bool file_lock_kill_pending(const char *line)
{
	if (strncmp(line, "SigPnd:", 7) != 0 &&
	    strncmp(line, "ShdPnd:", 7) != 0)
		return false;
	return strtoull(line + 7, NULL, 16) & 1ull << (SIGKILL - 1);
}

static bool file_lock_holder_ended(const char *line)
{
	char state;

	return sscanf(line, "State: %c", &state) == 1 &&
	       (state == 'Z' || state == 'X');
}

/* True for a process that was killed, and for one that is gone except for
 * threads with I/O in the kernel. */
static bool file_lock_is_ending(pid_t pid)
{
	char path[64];
	char line[256];
	bool ending = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	while (!ending && fgets(line, sizeof(line), f))
		ending = file_lock_holder_ended(line) ||
			 file_lock_kill_pending(line);
	fclose(f);
	return ending;
}

enum file_holder file_lock_holder(const struct stat *st, pid_t *ret_pid)
{
	*ret_pid = file_lock_find_holder(st);
	if (*ret_pid == 0)
		return FILE_HOLDER_NONE;
	return file_lock_is_ending(*ret_pid) ? FILE_HOLDER_ENDING
					     : FILE_HOLDER_ALIVE;
}

const char *file_lock_name(pid_t pid, char buf[FILE_LOCK_NAME_MAX])
{
	char name[17] = "";
	char path[64];
	FILE *f = NULL;

	if (pid) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		f = fopen(path, "re");
	}
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	if (f)
		fclose(f);
	if (*name)
		snprintf(buf, FILE_LOCK_NAME_MAX, "process %d (%s)", (int)pid,
			 name);
	else if (pid)
		snprintf(buf, FILE_LOCK_NAME_MAX, "process %d", (int)pid);
	else
		snprintf(buf, FILE_LOCK_NAME_MAX,
			 "a process that cannot be seen from here");
	return buf;
}

/* One device may have several names. */
static bool file_lock_is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode))
		return a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool file_lock_has_open(const char *pid, const struct stat *st)
{
	char path[64];
	struct dirent *entry;
	struct stat is;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.' &&
			!fstatat(dirfd(dir), entry->d_name, &is, 0) &&
			file_lock_is_same(&is, st);
	if (dir)
		closedir(dir);
	return found;
}

bool file_lock_is_ours(const struct stat *st)
{
	return file_lock_has_open("self", st);
}

pid_t file_lock_opener(const struct stat *st)
{
	struct dirent *entry;
	pid_t pid = 0;
	DIR *dir = opendir("/proc");

	while (dir && !pid && (entry = readdir(dir))) {
		pid_t is = (pid_t)strtol(entry->d_name, NULL, 10);

		if (is > 0 && is != getpid() &&
		    file_lock_has_open(entry->d_name, st))
			pid = is;
	}
	if (dir)
		closedir(dir);
	return pid;
}

/* ---- waiting ---- */

static atomic_bool file_lock_waits_end;

void file_lock_end_waits(bool end)
{
	atomic_store(&file_lock_waits_end, end);
}

static bool file_lock_signal_is_pending(void)
{
	sigset_t set;

	return sigpending(&set) == 0 &&
	       (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT));
}

bool file_lock_is_interrupted(void)
{
	return atomic_load(&file_lock_waits_end) ||
	       file_lock_signal_is_pending();
}

bool file_lock_wait(struct file_wait *w, const char *path,
		    enum file_holder holder, pid_t pid, unsigned int alive_ms)
{
	bool alive = holder == FILE_HOLDER_ALIVE;
	bool *told = alive ? &w->told_alive : &w->told_ending;
	char who[FILE_LOCK_NAME_MAX];
	unsigned int most = alive ? alive_ms : FILE_LOCK_ENDING_MS;

	if (pid == getpid() || w->ms >= most || file_lock_is_interrupted())
		return false;
	/* A process may begin to end while it is waited for. */
	if (!*told && w->ms >= (alive ? TELL_ALIVE_MS : TELL_ENDING_MS)) {
		*told = true;
		log_notice(alive ? "%s: in use by %s; waiting at most %u s"
				 : "%s: waiting for the last I/O of %s, which "
				   "is ending, at most %u s",
			   path, file_lock_name(pid, who), most / 1000);
	}
	usleep(STEP_MS * 1000);
	w->ms += STEP_MS;
	return true;
}

int file_lock_take(int fd, const char *path, bool shared, unsigned int alive_ms,
		   pid_t *ret_pid)
{
	int how = (shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
	struct file_wait wait = { 0 };
	enum file_holder holder;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	while (flock(fd, how)) {
		if (errno != EWOULDBLOCK)
			return -errno;
		/* If the process cannot be seen, it is gone except for its I/O,
		 * or it is in another PID namespace. */
		holder = file_lock_holder(&st, ret_pid);
		if (!file_lock_wait(&wait, path, holder, *ret_pid, alive_ms)) {
			if (!*ret_pid)
				*ret_pid = file_lock_opener(&st);
			return -EBUSY;
		}
	}
	return 0;
}
