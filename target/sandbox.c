/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/sandbox.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"

/* Numbers of system calls are below this, for those with a name below; see
 * name_of. */
#define NUMBERS 512

/* For the target and for the process of its responder. */
static const char *const allowed[] = {
	/* memory */
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	"membarrier",
	/* threads, signals, time */
	"futex",
	"set_robust_list",
	"rseq",
	"sched_yield",
	"sched_getaffinity",
	"gettid",
	"getpid",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigpending", /* a wait for a lock ends at a signal */
	"rt_sigreturn",
	"sigaltstack",
	"restart_syscall",
	"prctl",
	"exit",
	"exit_group",
	"clock_gettime",
	"clock_getres",
	"clock_nanosleep",
	"nanosleep",
	"gettimeofday",
	/* open descriptors, including those of RDMA devices */
	"read",
	"readv",
	"pread64",
	"preadv",
	"preadv2",
	"write",
	"writev",
	"close",
	"lseek",
	"fstat",
	"dup",
	"dup3",
	"poll",
	"ppoll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"eventfd2",
	"pipe2",
	/* files: what libraries read, and RDMA devices that are opened
	 * later */
	"open",
	"openat",
	"stat",
	"lstat",
	"newfstatat",
	"statx",
	"statfs",  /* libraries that a plugin loads */
	"fstatfs", /* posix_fallocate() where the file system cannot */
	"access",
	"faccessat",
	"faccessat2",
	"readlink",
	"readlinkat",
	"getdents64",
	/* sockets */
	"getsockname",
	"getpeername",
	"getsockopt",
	"setsockopt",
	"shutdown",
	"recvmsg",
	"recvfrom",
	"bind",
	/* the identity of the process */
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrandom",
	"uname",
	"sysinfo",
	"setitimer", /* the end of a store may take too long */
	"getrlimit",
	"getcpu",
};

/* For the target alone. */
static const char *const allowed_serving[] = {
	/* volumes */
	"pwrite64",
	"pwritev",
	"pwritev2",
	"fallocate",
	"fsync",
	"fdatasync",
	"sync_file_range",
	"ftruncate",
	"flock",
	"io_uring_enter",
	"io_uring_register",
	/* state that survives a restart */
	"mkdir",
	"getcwd",
	"unlink",
	"unlinkat",
	"rename",
	"renameat",
	"renameat2",
	/* connections that others open */
	"accept",
	"accept4",
	/* how the process of the responder has ended */
	"wait4",
};

/* For plugins that declare it: connections that they open. */
static const char *const allowed_network[] = {
	"socket",
	"socketpair",
	"connect",
	"listen",
	"sendmmsg",
	"recvmmsg",
	/* librbd and librados have their own event loops and timers */
	"epoll_create",
	"timerfd_create",
	"timerfd_settime",
	"timerfd_gettime",
};

/* Names by number, for the signal handler, which may not allocate. */
static char *name_of[NUMBERS];

static void violated(int sig, siginfo_t *info, void *ctx)
{
	unsigned int nr = (unsigned int)info->si_syscall;
	const char *name = nr < NUMBERS ? name_of[nr] : NULL;
	char line[256];

	snprintf(line, sizeof(line),
		 "rdma-target: error: the sandbox does not allow the system "
		 "call %s (%u): ending at once; should it be needed, use "
		 "--no-sandbox and report this\n",
		 name ? name : "without a name", nr);
	log_in_handler(line);
	_exit(EXIT_FAILURE);
}

static int catch_violations(void)
{
	struct sigaction sa = { .sa_sigaction = violated,
				.sa_flags = SA_SIGINFO };

	for (int nr = 0; nr < NUMBERS; nr++)
		name_of[nr] =
			seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
	return sigaction(SIGSYS, &sa, NULL) ? -errno : 0;
}

/*
 * Calls that are allowed depending on an argument. The filter sees the whole
 * register. For an int, the kernel takes the lower half, and the upper half may
 * have any value, from an attacker or from an honest caller. So only the bits
 * of @mask are compared.
 */
#define INT 0xffffffffu

/* RDMA_VERBS_IOCTL of rdma/rdma_user_ioctl_cmds.h: its only ioctl(), with a
 * header of 24 bytes. */
#define VERBS_IOCTL _IOC(_IOC_READ | _IOC_WRITE, 0x1b, 1, 24)

static const struct condition {
	const char *call;
	unsigned int arg;
	uint64_t mask;
	uint64_t is;
} conditions[] = {
	/* threads, but no processes */
	{ "clone", 0, CLONE_THREAD, CLONE_THREAD },
	/* RDMA devices, sizes of block devices, isatty(); no input into a
	 * terminal, and no signals (FIOSETOWN) */
	{ "ioctl", 1, INT, VERBS_IOCTL },
	{ "ioctl", 1, INT, BLKGETSIZE64 },
	{ "ioctl", 1, INT, BLKSSZGET },
	{ "ioctl", 1, INT, BLKPBSZGET },
#ifdef BLKGETDISKSEQ
	{ "ioctl", 1, INT, BLKGETDISKSEQ },
#endif
	{ "ioctl", 1, INT, LOOP_GET_STATUS64 },
	{ "ioctl", 1, INT, TCGETS },
#ifdef TCGETS2
	{ "ioctl", 1, INT, TCGETS2 },
#endif
	/* not F_SETOWN and F_SETSIG, which send signals to others */
	{ "fcntl", 1, INT, F_DUPFD },
	{ "fcntl", 1, INT, F_DUPFD_CLOEXEC },
	{ "fcntl", 1, INT, F_GETFD },
	{ "fcntl", 1, INT, F_SETFD },
	{ "fcntl", 1, INT, F_GETFL },
	{ "fcntl", 1, INT, F_SETFL },
	{ "fcntl", 1, INT, F_GETLK },
	{ "fcntl", 1, INT, F_SETLK },
	{ "fcntl", 1, INT, F_SETLKW },
	{ "fcntl", 1, INT, F_OFD_GETLK },
	{ "fcntl", 1, INT, F_OFD_SETLK },
	{ "fcntl", 1, INT, F_OFD_SETLKW },
	{ "fcntl", 1, INT, F_GET_SEALS },
	{ "fcntl", 1, INT, F_ADD_SEALS },
	/* the RDMA libraries ask the kernel for devices */
	{ "socket", 0, INT, AF_NETLINK },
	/* for an answer of store_opener.h */
	{ "socketpair", 0, INT, AF_UNIX },
	/* a first SEND may contain a request for a connection */
	{ "sendto", 3, MSG_FASTOPEN, 0 },
	{ "sendmsg", 2, MSG_FASTOPEN, 0 },
	/* our own limits */
	{ "prlimit64", 0, INT, 0 },
};

static int add_condition(scmp_filter_ctx ctx, const struct condition *c)
{
	return seccomp_rule_add(
		ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(c->call), 1,
		SCMP_CMP64(c->arg, SCMP_CMP_MASKED_EQ, c->mask, c->is));
}

/* Also for plugins: when a connection is made again, the C library looks up the
 * name. */
static const struct condition network_condition = { "ioctl", 1, INT, FIONREAD };

/* Sockets of UDP. They cannot connect. */
static int add_datagrams(scmp_filter_ctx ctx)
{
	static const int families[] = { AF_INET, AF_INET6 };
	const uint64_t type_mask =
		INT & ~(uint64_t)(SOCK_CLOEXEC | SOCK_NONBLOCK);
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(families) && !err; i++)
		err = seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3,
			SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, INT,
				   (uint64_t)families[i]),
			SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, type_mask,
				   SOCK_DGRAM),
			SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, INT, 0));
	return err;
}

static int add_conditions(scmp_filter_ctx ctx, bool network)
{
	/* raise() and abort(), but no signals to others */
	const struct condition own = { "tgkill", 0, INT, (uint64_t)getpid() };
	int err = add_condition(ctx, &own);

	for (size_t i = 0; i < ARRAY_SIZE(conditions) && !err; i++) {
		/* Then these calls are allowed with any arguments. */
		if (!network || strncmp(conditions[i].call, "socket",
					strlen("socket")) != 0)
			err = add_condition(ctx, &conditions[i]);
	}
	if (!err && network)
		err = add_condition(ctx, &network_condition);
	if (err)
		return err;
	/* A filter cannot see the flags of clone3(). A caller that gets ENOSYS
	 * uses clone(). */
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3),
				0);
}

static int add_names(scmp_filter_ctx ctx, const char *const *names, size_t cnt)
{
	int err = 0;

	for (size_t i = 0; i < cnt && !err; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);

		/* Some architectures do not have some of the calls. */
		if (nr != __NR_SCMP_ERROR)
			err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	}
	return err;
}

static int add_target(scmp_filter_ctx ctx, bool network)
{
	int err = add_names(ctx, allowed, ARRAY_SIZE(allowed));

	if (!err)
		err = add_names(ctx, allowed_serving,
				ARRAY_SIZE(allowed_serving));
	if (!err && network)
		err = add_names(ctx, allowed_network,
				ARRAY_SIZE(allowed_network));
	return err ? err : add_conditions(ctx, network);
}

static int add_responder(scmp_filter_ctx ctx)
{
	int err = add_names(ctx, allowed, ARRAY_SIZE(allowed));

	if (!err)
		err = add_datagrams(ctx);
	return err ? err : add_conditions(ctx, /* network= */ false);
}

/* @err: what adding the rules to @ctx has returned. Frees @ctx. */
static int sandbox_load(scmp_filter_ctx ctx, int err, struct error *e)
{
	/* A tree: frequent calls must not need a hundred comparisons. */
	if (!err)
		err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	/* A plugin may already have made threads. */
	if (!err)
		err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)
		err = catch_violations();
	if (!err)
		err = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	if (err)
		error_set(e, err,
			  "cannot enter the sandbox: %s; use --no-sandbox "
			  "where the kernel has no seccomp",
			  strerror(-err));
	return err;
}

int sandbox_enter(bool network, struct error *e)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);

	return sandbox_load(ctx, ctx ? add_target(ctx, network) : -ENOMEM, e);
}

int sandbox_enter_responder(struct error *e)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);

	return sandbox_load(ctx, ctx ? add_responder(ctx) : -ENOMEM, e);
}
