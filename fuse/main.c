/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-fuse: SRP volumes as files.
 *
 * The program forks before it does anything else, because neither an RDMA device
 * nor a ring survives a fork. The child is the daemon. The parent waits until the
 * mount works and exits with 0, or exits with 1 when the daemon fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/client.h"
#include "fuse/mount.h"
#include "fuse/options.h"
#include "base/capabilities.h"
#include "base/heap.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/pidfile.h"
#include "base/std_files.h"
#include "initiator/srp_initiator.h"

/* /dev/fuse, the ring, signals, the RDMA device, and some for each channel. */
#define FILES_MIN 64

struct process {
	const struct fuse_options *o;
	int ready_fd; /* write end of the pipe to the parent; -1: no parent */
	struct pidfile pidfile;
};

/* ---- the daemon ---- */

static void process_leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* A unit may have no local sockets, and so no syslog. */
	bool has_log = journal_has_stderr();

	if (chdir("/") < 0)
		log_debug("chdir: %s", strerror(errno));
	if (fd < 0)
		return;
	if (!has_log)
		log_to_syslog();
	for (int i = 0; i < (has_log ? STDERR_FILENO : 3); i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/* The mount works: tells the parent. */
static int process_mount_ready(void *arg)
{
	struct process *p = arg;
	struct error e;

	if (pidfile_write(&p->pidfile, &e)) {
		log_error("%s", e.text);
		return e.err;
	}
	if (p->ready_fd < 0) {
		log_start_thread();
		return 0;
	}
	/* Not before: on an automount point, only the process group of systemd
	 * can mount. All others wait for that mount. */
	setsid();
	if (write(p->ready_fd, "r", 1) != 1)
		return -EPIPE; /* the parent was killed: end, too */
	close(p->ready_fd);
	process_leave_terminal();
	log_start_thread();
	return 0;
}

/* Under memory pressure, the kernel may wait for writes to the mount. Then this
 * process must not wait for the same writes. Only root may set this. */
static void process_set_io_flusher(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0)
		log_debug("not marked as an I/O flusher: %s", strerror(errno));
}

/* It reads what a target sends. Before RDMA devices are opened, which refuse a process
 * that has given up rights since. Without CAP_IPC_LOCK, the limit of locked memory holds. */
static int process_give_up_rights(void)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &unlimited))
		log_debug("the limit of locked memory stays: %s",
			  strerror(errno));
	return capabilities_keep(0);
}

static bool process_check_limits(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur >= FILES_MIN)
		return true;
	log_error("rdma-fuse needs %u open files, and the limit is %llu; "
		  "raise it: ulimit -n %u",
		  FILES_MIN, (unsigned long long)lim.rlim_cur, FILES_MIN);
	return false;
}

static void process_block_signals(void)
{
	sigset_t set;

	client_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int process_run(struct process *p, struct mount *m)
{
	struct error e;
	int err, status;

	/* Not before the fork: a lock belongs to the process that takes it. */
	if (pidfile_open(&p->pidfile, p->o->pidfile, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILURE;
	}
	err = srpi_fork_init();
	if (err)
		log_debug("a fork may disturb an RDMA device: %s",
			  strerror(-err));
	process_set_io_flusher();
	process_block_signals();
	err = mount_start_mounter(m, p->o, &e);
	if (!err && (err = process_give_up_rights()))
		error_set(&e, err, "cannot give up capabilities: %s",
			  strerror(-err));
	if (err)
		log_error("%s", e.text);
	status = err ? EXIT_FAILURE
		     : client_run(p->o, m, process_mount_ready, p);
	pidfile_remove(&p->pidfile);
	log_flush();
	return status;
}

/* ---- the parent ---- */

static int process_report_daemon_death(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
		log_error("the daemon was killed by signal %d (%s)",
			  WTERMSIG(status), strsignal(WTERMSIG(status)));
	/* In other cases, the daemon has logged the reason. */
	return EXIT_FAILURE;
}

/* Waits until the daemon reports the mount, and checks that it answers. */
static int process_wait_for_daemon(pid_t pid, int ready_fd,
				   const struct mount *m)
{
	struct stat st;
	char c;
	ssize_t n;

	do
		n = read(ready_fd, &c, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return process_report_daemon_death(pid);
	if (stat(m->path, &st) == 0)
		return EXIT_SUCCESS;
	log_error("%s is mounted, but does not answer: %s", m->path,
		  strerror(errno));
	kill(pid, SIGTERM);
	return EXIT_FAILURE;
}

static int process_run_daemon(struct process *p, struct mount *m)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot become a daemon: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	if (pid > 0) {
		close(fds[1]);
		return process_wait_for_daemon(pid, fds[0], m);
	}
	close(fds[0]);
	p->ready_fd = fds[1];
	return process_run(p, m);
}

int main(int argc, char **argv)
{
	struct error e;
	struct fuse_options o;
	struct process p = { .o = &o, .ready_fd = -1 };
	struct mount m;

	heap_share();
	std_files_hold();
	log_init("rdma-fuse", LOG_NOTICE);
	switch (fuse_options_parse(argc, argv, &o)) {
	case OPTION_RUN:
		break;
	case OPTION_DONE:
		return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTION_BAD:
		return EXIT_FAILURE;
	}
	log_init("rdma-fuse", o.log_level);
	if (mount_check(o.mountpoint, &m, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILURE;
	}
	if (!process_check_limits())
		return EXIT_FAILURE;
	return o.foreground ? process_run(&p, &m) : process_run_daemon(&p, &m);
}
