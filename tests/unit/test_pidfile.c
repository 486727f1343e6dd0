/* SPDX-License-Identifier: BSD-2-Clause */
/* A PID file that two processes take one after the other, and one in the directory of
 * another user. */
#include "base/pidfile.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/t_table.h"

static char dir[32];
static char path[48];

static void make_dir(void)
{
	strcpy(dir, "/tmp/pidfile-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/pid", dir);
}

static bool parent_has_open(void)
{
	char dir_path[64];
	char to[sizeof(path)];
	struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(dir_path, sizeof(dir_path), "/proc/%d/fd", getppid());
	fds = opendir(dir_path);
	while (fds && !found && (entry = readdir(fds))) {
		ssize_t len =
			readlinkat(dirfd(fds), entry->d_name, to, sizeof(to));

		found = len == (ssize_t)strlen(path) && !memcmp(to, path, len);
	}
	if (fds)
		closedir(fds);
	return found;
}

/* Another process has the file until this one waits for it. */
static pid_t start_other(void)
{
	struct pidfile p;
	struct error e;
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pidfile_open(&p, path, &e) || pidfile_write(&p, &e) ||
		    write(fds[1], "x", 1) != 1)
			_exit(1);
		while (!parent_has_open())
			usleep(1000);
		pidfile_remove(&p);
		_exit(0);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

T_TEST(file_of_a_process_that_ends_is_made_anew)
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

/* ---- a directory that others can write to ---- */

/* What another user can put under the name of the file. */
static const struct trap {
	const char *name;
	int (*set)(const char *to, const char *at);
	int err;
} traps[] = {
	{ "a symbolic link", symlink, -ELOOP },
	{ "a second name", link, -EPERM },
};

static void make_file(const char *at, const char *text)
{
	FILE *f = fopen(at, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_file(const char *at, const char *text)
{
	char is[64] = "";
	FILE *f = fopen(at, "re");

	assert_non_null(f);
	if (!fgets(is, sizeof(is), f))
		is[0] = '\0';
	fclose(f);
	assert_string_equal(is, text);
}

T_ROWS(what_another_user_put_there_is_not_written, traps)
{
	const struct trap *trap = *state;
	char precious[64];
	struct pidfile p;
	struct error e;

	make_dir();
	snprintf(precious, sizeof(precious), "%s/precious", dir);
	make_file(precious, "precious");
	assert_int_equal(trap->set(precious, path), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(pidfile_open(&p, path, &e), trap->err);
	assert_non_null(strstr(e.text, "other users can write to"));
	pidfile_remove(&p);
	expect_file(precious, "precious");
	/* Nobody else could have put it here. */
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(pidfile_open(&p, path, &e), 0);
	pidfile_remove(&p);
	unlink(path);
	assert_int_equal(unlink(precious), 0);
	assert_int_equal(rmdir(dir), 0);
}

T_TEST(pipe_of_another_user_blocks_nobody)
{
	struct pidfile p;
	struct error e;

	make_dir();
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(pidfile_open(&p, path, &e), -ENXIO);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

T_TEST(link_on_the_way_leads_where_its_owner_could_write)
{
	char at[80];
	char inner[64];
	char made[80];
	struct pidfile p;
	struct error e;

	make_dir();
	snprintf(inner, sizeof(inner), "%s/inner", dir);
	snprintf(made, sizeof(made), "%s/pid", inner);
	snprintf(at, sizeof(at), "%s/way/pid", dir);
	assert_int_equal(mkdir(inner, 0755), 0);
	snprintf(path, sizeof(path), "%s/way", dir);
	assert_int_equal(symlink("inner/../inner", path), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(pidfile_open(&p, at, &e), -ELOOP);
	assert_int_equal(access(made, F_OK), -1);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(pidfile_open(&p, at, &e), 0);
	assert_int_equal(access(made, F_OK), 0);
	pidfile_remove(&p);
	assert_int_equal(access(made, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(inner), 0);
	assert_int_equal(rmdir(dir), 0);
}
