/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/journal.h"
#include "base/list.h"
#include "base/log.h"

/* ---- the command ---- */

static volatile sig_atomic_t daemon_pid;

/* What ends the command ends the start. For the target, SIGHUP means something else. */
static void daemon_pass_on(int sig)
{
	kill(daemon_pid, sig == SIGHUP ? SIGTERM : sig);
}

static void daemon_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = daemon_pass_on };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &sa, NULL);
}

static int daemon_exit_status(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) != pid && errno == EINTR)
		;
	/* One that ended by itself has said why. */
	if (WIFSIGNALED(status))
		log_error("signal %d (%s) has killed the target",
			  WTERMSIG(status), strsignal(WTERMSIG(status)));
	/* A target that was told to end before it was ready has ended well. */
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status)
							: EXIT_FAILURE;
}

static _Noreturn void daemon_await(pid_t pid, int ready_fd)
{
	ssize_t n;
	char c;

	do
		n = read(ready_fd, &c, 1);
	while (n < 0 && errno == EINTR);
	_exit(n == 1 ? EXIT_SUCCESS : daemon_exit_status(pid));
}

void daemon_fork(int *ret_ready_fd)
{
	sigset_t all, old;
	int fds[2];
	pid_t pid;

	/* None comes before it can be passed on. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("--daemonize: %s", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (pid > 0) {
		daemon_pid = pid;
		daemon_catch_signals();
		sigprocmask(SIG_SETMASK, &old, NULL);
		close(fds[1]);
		daemon_await(pid, fds[0]);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(fds[0]);
	/* Ctrl-C reaches the command alone, and this child by it. */
	setsid();
	/* The sandbox allows no new sockets. */
	log_open_syslog();
	*ret_ready_fd = fds[1];
}

/* ---- the target ---- */

/* Who reads a pipe or a terminal is not to wait for the end of the target. */
static bool daemon_keeps_stderr(void)
{
	struct stat st;

	return journal_has_stderr() ||
	       (!fstat(STDERR_FILENO, &st) && S_ISREG(st.st_mode));
}

static void daemon_leave_terminal(void)
{
	bool keeps = daemon_keeps_stderr();
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (!keeps)
		log_to_syslog();
	for (int i = 0; fd >= 0 && i < (keeps ? STDERR_FILENO : 3); i++)
		dup3(fd, i, 0);
	if (fd >= 0)
		close(fd);
}

void daemon_leave(int ready_fd)
{
	if (ready_fd < 0)
		return;
	close(ready_fd);
	daemon_leave_terminal();
}

bool daemon_ready(int ready_fd)
{
	bool told = write(ready_fd, "r", 1) == 1;

	close(ready_fd);
	if (told)
		daemon_leave_terminal();
	return told;
}
