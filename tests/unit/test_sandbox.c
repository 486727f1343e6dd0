/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process in the sandbox can do, and which calls end it. */
#include "target/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/port/worker.h"
#include "tests/lib/t_table.h"

/* ---- calls that end the process ---- */

static void run_program(void)
{
	execl("/bin/true", "true", (char *)NULL);
}

static void make_process(void)
{
	syscall(SYS_fork);
}

static void call_others(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
}

static void trace(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void mount_something(void)
{
	mount("none", "/mnt", "tmpfs", 0, NULL);
}

static void become_root(void)
{
	syscall(SYS_setuid, 0);
}

static void signal_others(void)
{
	kill(1, 0);
}

static void type_into_the_terminal(void)
{
	ioctl(0, TIOCSTI, "x");
}

static void another_ring(void)
{
	syscall(SYS_io_uring_setup, 8, NULL);
}

/* The kernel uses 32 bits of each of these arguments; the filter sees 64. */
#define ABOVE 0x100000000ul

static void type_with_a_longer_command(void)
{
	syscall(SYS_ioctl, 0, ABOVE | TIOCSTI, "x");
}

static void paste_into_the_console(void)
{
	char paste = 3;

	ioctl(0, TIOCLINUX, &paste);
}

static void paste_with_a_longer_command(void)
{
	char paste = 3;

	syscall(SYS_ioctl, 0, ABOVE | TIOCLINUX, &paste);
}

static void become_the_console(void)
{
	ioctl(0, TIOCCONS, NULL);
}

static void signal_others_by_ioctl(void)
{
	int pid = 1;

	ioctl(0, FIOSETOWN, &pid);
}

static void signal_others_by_fcntl(void)
{
	fcntl(0, F_SETOWN, 1);
}

static void signal_others_with_a_longer_command(void)
{
	syscall(SYS_fcntl, 0, ABOVE | F_SETOWN, 1);
}

static void signal_a_thread_of_others(void)
{
	syscall(SYS_tgkill, 1, 1, 0);
}

static void limit_others(void)
{
	syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, NULL, NULL);
}

static void call_others_with_the_data(void)
{
	sendto(0, "x", 1, MSG_FASTOPEN, NULL, 0);
}

static void call_others_with_a_message(void)
{
	struct msghdr msg = { 0 };

	sendmsg(0, &msg, MSG_FASTOPEN);
}

static void clone_process(void)
{
	syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static const struct forbidden {
	const char *name;
	const char *call;
	void (*act)(void);
} forbidden[] = {
	{ "run a program", "execve", run_program },
	{ "make a process", "fork", make_process },
	{ "make one by clone", "clone", clone_process },
	{ "connect to others", "socket", call_others },
	{ "connect with the first data", "sendto", call_others_with_the_data },
	{ "connect with a message", "sendmsg", call_others_with_a_message },
	{ "trace", "ptrace", trace },
	{ "mount", "mount", mount_something },
	{ "become root", "setuid", become_root },
	{ "signal others", "kill", signal_others },
	{ "signal a thread of others", "tgkill", signal_a_thread_of_others },
	{ "have others signalled by ioctl", "ioctl", signal_others_by_ioctl },
	{ "have others signalled by fcntl", "fcntl", signal_others_by_fcntl },
	{ "have others signalled, upper bits set", "fcntl",
	  signal_others_with_a_longer_command },
	{ "limit others", "prlimit64", limit_others },
	{ "type into the terminal", "ioctl", type_into_the_terminal },
	{ "type into the terminal, upper bits set", "ioctl",
	  type_with_a_longer_command },
	{ "paste into the console", "ioctl", paste_into_the_console },
	{ "paste into the console, upper bits set", "ioctl",
	  paste_with_a_longer_command },
	{ "become the console", "ioctl", become_the_console },
	{ "another ring", "io_uring_setup", another_ring },
};

/* Runs @act in a child that has entered the sandbox by @enter. Returns the exit status, and
 * in @text what the child wrote. */
static int in_sandbox_by(int (*enter)(struct error *e), void (*act)(void),
			 char *text, size_t len)
{
	struct error e;
	int fds[2];
	int status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || enter(&e))
			_exit(77);
		act();
		_exit(0);
	}
	close(fds[1]);
	n = read(fds[0], text, len - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int enter_target(struct error *e)
{
	return sandbox_enter(/* network= */ false, e);
}

static int enter_network(struct error *e)
{
	return sandbox_enter(/* network= */ true, e);
}

static int in_sandbox(void (*act)(void), char *text, size_t len)
{
	return in_sandbox_by(enter_target, act, text, len);
}

T_ROWS(what_serving_does_not_need_ends_it, forbidden)
{
	const struct forbidden *row = *state;
	char text[512];
	char want[64];
	int status = in_sandbox(row->act, text, sizeof(text));

	snprintf(want, sizeof(want), "does not allow the system call %s (",
		 row->call);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_non_null(strstr(text, want));
}

/* ---- what the process can do ---- */

static void *nothing(void *arg)
{
	return arg;
}

/* Uses the address of an initiator on the same link, with an interface name. */
static bool can_name_an_address(void)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6,
				     .sin6_port = htons(5555),
				     .sin6_scope_id = 1 };
	char text[64];

	addr.sin6_addr.s6_addr[0] = 0xfe;
	addr.sin6_addr.s6_addr[1] = 0x80;
	addr.sin6_addr.s6_addr[15] = 1;
	xp_addr_text((struct sockaddr *)&addr, text, sizeof(text));
	return !strcmp(text, "[fe80::1%lo]:5555") ||
	       !strcmp(text, "[fe80::1%1]:5555");
}

static void serve_on(void)
{
	pthread_t thread;
	struct rlimit limit;
	struct statfs fs;
	sigset_t signals;
	char byte;
	int fd;

	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd))
		_exit(2);
	if (pthread_create(&thread, NULL, nothing, NULL) ||
	    pthread_join(thread, NULL))
		_exit(3);
	free(malloc(64u << 20));
	if (poll(NULL, 0, 0) || isatty(-1))
		_exit(4);
	if (!can_name_an_address())
		_exit(9);
	/* Of a volume that is added: to wait for its lock, to load its plugin, to
	 * make its record where the file system cannot allocate. */
	if (sigpending(&signals) || statfs("/", &fs) ||
	    fstatfs(STDERR_FILENO, &fs))
		_exit(10);
	fd = socket(AF_NETLINK, SOCK_RAW, 0);
	if (fd < 0)
		_exit(5);
	/* The upper half of a register that holds an int can have any value. */
	if (syscall(SYS_socket, ABOVE | AF_NETLINK, SOCK_RAW, 0) < 0)
		_exit(6);
	/* RDMA_VERBS_IOCTL on a file that is no RDMA device */
	if (ioctl(fd, 0xc0181b01) != -1 || errno != ENOTTY)
		_exit(8);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
	    getrlimit(RLIMIT_NOFILE, &limit) || raise(0))
		_exit(7);
}

T_TEST(what_serving_needs_is_there)
{
	char text[512];
	int status = in_sandbox(serve_on, text, sizeof(text));

	assert_string_equal(text, "");
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- plugins ---- */

/* Nothing listens there. It only matters that the kernel gets the call. */
static void connect_to_nobody(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || !connect(fd, (struct sockaddr *)&to, sizeof(to)))
		_exit(2);
}

T_TEST(plugin_may_connect_where_it_says_so)
{
	char text[512];
	int status = in_sandbox_by(enter_network, connect_to_nobody, text,
				   sizeof(text));

	assert_string_equal(text, "");
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

T_TEST(it_may_nothing_else)
{
	char text[512];
	int status =
		in_sandbox_by(enter_network, run_program, text, sizeof(text));

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_non_null(strstr(text, "the system call execve ("));
}

/* ---- sockets ---- */

static void listen_anew(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
}

static void send_a_datagram(void)
{
	socket(AF_INET, SOCK_DGRAM, 0);
}

static void call_another_program(void)
{
	socket(AF_UNIX, SOCK_STREAM, 0);
}

static void use_another_protocol(void)
{
	socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}

static void look_for_targets(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifaddrs *list;

	if (fd < 0 ||
	    sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) != 1 ||
	    getifaddrs(&list))
		_exit(2);
	freeifaddrs(list);
}

T_TEST(it_may_answer_datagrams)
{
	char text[512];
	int status = in_sandbox_by(sandbox_enter_responder, look_for_targets,
				   text, sizeof(text));

	assert_string_equal(text, "");
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

T_TEST(no_more_than_that)
{
	static void (*const acts[])(void) = { send_a_datagram, listen_anew,
					      call_another_program,
					      use_another_protocol };

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		char text[512];
		int status = in_sandbox_by(enter_target, acts[i], text,
					   sizeof(text));

		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 1);
		assert_non_null(strstr(text, "call socket ("));
	}
}

/* A thread like those that a plugin starts when it opens a volume. */
static void *run_program_when_told(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) == 1)
		run_program();
	return NULL;
}

T_TEST(older_threads_are_in_it_too)
{
	int fds[2];
	int status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct error e;
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_program_when_told, fds) ||
		    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    sandbox_enter(/* network= */ false, &e) ||
		    write(fds[1], "x", 1) != 1)
			_exit(77);
		pthread_join(thread, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fds[0]);
	close(fds[1]);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

/* ---- operations that a worker's ring refuses ---- */

/* Operations that begin connections, run something in the kernel that the
 * target does not need, or reach another ring. */
static const struct ring_case {
	const char *name;
	uint8_t op;
} ring_cases[] = {
	{ "a socket", IORING_OP_SOCKET },
	{ "a connection", IORING_OP_CONNECT },
	{ "a command to a device", IORING_OP_URING_CMD },
	{ "another way to open", IORING_OP_OPENAT2 },
	{ "a message to another ring", IORING_OP_MSG_RING },
	{ "watching what others open", IORING_OP_EPOLL_CTL },
	{ "a pipe", IORING_OP_SPLICE },
	{ "an extended attribute", IORING_OP_SETXATTR },
	{ "a link", IORING_OP_LINKAT },
	{ "a directory", IORING_OP_MKDIRAT },
};

struct answer {
	struct reactor_op op;
	struct reactor *reactor;
	int res;
};

static void answered(struct reactor_op *op, int res, unsigned int cqe_flags)
{
	struct answer *a = container_of(op, struct answer, op);

	a->res = res;
	reactor_stop(a->reactor);
}

/* Returns the ring's result for @opcode without a file. 0: the kernel lacks
 * it. */
static int ask_ring(struct reactor *r, uint8_t opcode)
{
	struct answer a = { .op.done = answered, .reactor = r };
	struct io_uring_probe *probe = io_uring_get_probe();
	struct io_uring_sqe *sqe;
	bool known = probe && io_uring_opcode_supported(probe, opcode);

	io_uring_free_probe(probe);
	if (!known)
		return 0;
	sqe = reactor_sqe(r);
	io_uring_prep_rw((int)opcode, sqe, -1, NULL, 0, 0);
	io_uring_sqe_set_data(sqe, &a.op);
	assert_int_equal(reactor_run(r), 0);
	return a.res;
}

T_ROWS(ring_does_only_what_serving_needs, ring_cases)
{
	const struct ring_case *row = *state;
	struct worker_options opt = { .arena_len = 4u << 20 };
	struct worker w = { 0 };
	struct error e;
	int res;

	assert_int_equal(worker_open(&w, &opt, &e), 0);
	res = ask_ring(w.reactor, row->op);
	worker_close(&w);
	/* 0: this kernel does not support it. */
	if (res)
		assert_int_equal(res, -EACCES);
}

/* Returns the descriptor of the only ring of this process. */
static int ring_fd(void)
{
	for (int fd = 0; fd < 256; fd++) {
		char path[32];
		char what[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, what, sizeof(what) - 1) > 0 &&
		    !strcmp(what, "anon_inode:[io_uring]"))
			return fd;
	}
	return -1;
}

/* An operation that the ring refuses cannot be allowed through the ring,
 * either. */
T_TEST(ring_stays_restricted)
{
	struct worker_options opt = { .arena_len = 4u << 20 };
	struct io_uring_restriction all = {
		.opcode = IORING_RESTRICTION_SQE_OP,
		.sqe_op = IORING_OP_CONNECT,
	};
	struct worker w = { 0 };
	struct error e;
	int fd;

	assert_int_equal(worker_open(&w, &opt, &e), 0);
	assert_int_equal(reactor_run_once(w.reactor, 0) < 0, 0);
	fd = ring_fd();
	assert_true(syscall(SYS_io_uring_register, fd,
			    IORING_REGISTER_RESTRICTIONS, &all, 1) < 0);
	assert_int_equal(errno, EACCES);
	assert_true(syscall(SYS_io_uring_register, fd,
			    IORING_REGISTER_PERSONALITY, NULL, 0) < 0);
	assert_int_equal(errno, EACCES);
	worker_close(&w);
}

T_TEST(ring_of_a_worker_without_a_sandbox_does_all)
{
	struct worker_options opt = { .arena_len = 4u << 20,
				      .unrestricted = true };
	struct worker w = { 0 };
	struct error e;

	assert_int_equal(worker_open(&w, &opt, &e), 0);
	assert_int_equal(ask_ring(w.reactor, IORING_OP_CONNECT), -EBADF);
	worker_close(&w);
}
