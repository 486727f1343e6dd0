/* SPDX-License-Identifier: BSD-2-Clause */
/* A PID file that two processes take one after the other. */
#include "base/pidfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "tests/lib/t_table.h"

static char dir[32];
static char path[48];

static void make_dir(void)
{
	strcpy(dir, "/tmp/pidfile-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/pid", dir);
}

/* Another process has the file until this one waits for it. */
static pid_t start_other(void)
{
	struct pidfile p;
	struct error e;
	struct stat st;
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (pidfile_open(&p, path, &e) || pidfile_write(&p, &e) ||
		    fstat(p.fd, &st) || write(fds[1], "x", 1) != 1)
			_exit(1);
		while (!file_lock_opener(&st))
			usleep(1000);
		pidfile_remove(&p);
		_exit(0);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

static void file_of_a_process_that_ends_is_made_anew(void **state)
{
	struct pidfile p;
	struct error e;
	int status;
	pid_t pid;
	FILE *f;
	int is;

	make_dir();
	pid = start_other();
	assert_int_equal(pidfile_open(&p, path, &e), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pidfile_write(&p, &e), 0);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &is), 1);
	fclose(f);
	assert_int_equal(is, getpid());
	pidfile_remove(&p);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	static struct t_table t;

	T_ADD(&t, file_of_a_process_that_ends_is_made_anew);
	return t_run(&t);
}
