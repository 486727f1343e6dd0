/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/functional/t_target.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "base/list.h"

#define ARGS_MAX 96

static char scratch[32];
static pid_t scratch_owner;

const char *t_build(void)
{
	const char *dir = getenv("BUILD");

	return dir ? dir : ".";
}

/* ---- files ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	return remove(path);
}

static void remove_scratch(void)
{
	if (getpid() == scratch_owner && !getenv("T_KEEP"))
		nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *t_scratch(void)
{
	char path[64];

	if (!scratch[0]) {
		strcpy(scratch, "/tmp/t-XXXXXX");
		assert_non_null(mkdtemp(scratch));
		scratch_owner = getpid();
		/* of targets without --state-dir */
		snprintf(path, sizeof(path), "%s/default-state", scratch);
		assert_int_equal(setenv("STATE_DIRECTORY", path, 1), 0);
		assert_int_equal(setenv("RUNTIME_DIRECTORY", scratch, 1), 0);
		atexit(remove_scratch);
	}
	return scratch;
}

const char *t_scratch_file(const char *name, off_t size)
{
	static char paths[64][64];
	static unsigned int cnt;
	char *path = paths[cnt++];
	int fd;

	assert_true(cnt <= ARRAY_SIZE(paths));
	snprintf(path, sizeof(paths[0]), "%s/%s", t_scratch(), name);
	fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	return path;
}

/* ---- processes ---- */

static void run_target(const struct t_target *t, char **argv, int out)
{
	int log = open(t->log, O_CREAT | O_APPEND | O_WRONLY, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	execv(argv[0], argv);
	_exit(127);
}

static void show_log(const struct t_target *t)
{
	char line[512];
	FILE *f = fopen(t->log, "r");

	while (f && fgets(line, sizeof(line), f))
		print_message("# %s", line);
	if (f)
		fclose(f);
}

/* The last line of the announcement tells how to mount. The target prints it
 * when it is ready. */
static bool wait_until_ready(struct t_target *t)
{
	char text[4096];
	size_t len = 0;
	ssize_t n;

	do {
		n = read(t->out, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
	} while (!strstr(text, "rdma-fuse srp"));
	return true;
}

static bool start(struct t_target *t, const char *const *args)
{
	char listen[] = "--listen";
	char option[] = "--threads";
	char *threads = getenv("T_THREADS");
	char path[4096];
	char *argv[ARGS_MAX];
	int argc = 0;
	int fds[2];

	memset(t, 0, sizeof(*t));
	t_addr_next(t->addr, sizeof(t->addr));
	snprintf(t->uri, sizeof(t->uri), "srp+tcp://%s", t->addr);
	snprintf(t->log, sizeof(t->log), "%s/target-%s.log", t_scratch(),
		 strchr(t->addr, ':') + 1);
	snprintf(path, sizeof(path), "%s/target/rdma-target", t_build());
	argv[argc++] = path;
	argv[argc++] = listen;
	argv[argc++] = t->uri;
	if (threads) {
		argv[argc++] = option;
		argv[argc++] = threads;
	}
	for (; *args; args++) {
		assert_true(argc < ARGS_MAX - 1);
		argv[argc++] = (char *)(uintptr_t)*args;
	}
	argv[argc] = NULL;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (t->pid == 0)
		run_target(t, argv, fds[1]);
	close(fds[1]);
	t->out = fds[0];
	return wait_until_ready(t);
}

void t_target_start(struct t_target *t, const char *const *args)
{
	if (start(t, args))
		return;
	show_log(t);
	fail_msg("rdma-target did not start");
}

bool t_target_starts(struct t_target *t, const char *const *args)
{
	int status;

	if (start(t, args))
		return true;
	status = t_target_wait(t);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
		show_log(t);
		fail_msg("rdma-target ended with status %#x", status);
	}
	return false;
}

int t_target_wait(struct t_target *t)
{
	int status;

	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	t->pid = 0;
	close(t->out);
	return status;
}

int t_target_end(struct t_target *t, int sig)
{
	kill(t->pid, sig);
	return t_target_wait(t);
}

void t_target_stop(struct t_target *t)
{
	int status;

	if (t->pid == 0)
		return;
	status = t_target_end(t, SIGTERM);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		show_log(t);
		fail_msg("rdma-target ended with status %#x", status);
	}
}
