/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/ear.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "base/capabilities.h"
#include "base/list.h"
#include "base/log.h"
#if HAVE_SANDBOX
#include <seccomp.h>
#endif

/* ---- the child ---- */

#if HAVE_SANDBOX
/* RDMA_VERBS_IOCTL of rdma/rdma_user_ioctl_cmds.h */
#define VERBS_IOCTL _IOC(_IOC_READ | _IOC_WRITE, 0x1b, 1, 24)

/* No file, socket, process or program that it does not have yet. */
static const int ear_calls[] = {
	SCMP_SYS(brk),		SCMP_SYS(mmap),
	SCMP_SYS(munmap),	SCMP_SYS(mremap),
	SCMP_SYS(mprotect),	SCMP_SYS(madvise),
	SCMP_SYS(futex),	SCMP_SYS(read),
	SCMP_SYS(write),	SCMP_SYS(writev),
	SCMP_SYS(close),	SCMP_SYS(poll),
	SCMP_SYS(ppoll),	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday), SCMP_SYS(getrandom),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
	SCMP_SYS(exit),		SCMP_SYS(exit_group),
};

static int ear_enter_sandbox(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(ear_calls) && !err; i++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, ear_calls[i], 0);
	if (!err)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				       SCMP_CMP64(1, SCMP_CMP_MASKED_EQ,
						  0xffffffffu, VERBS_IOCTL));
	if (!err)
		err = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return err;
}
#else
static int ear_enter_sandbox(void)
{
	return 0;
}
#endif

/* The daemon may be gone. */
static void ear_send(int fd, const struct ear_record *r)
{
	if (send(fd, r, sizeof(*r), MSG_NOSIGNAL) != (ssize_t)sizeof(*r))
		_exit(EXIT_FAILURE);
}

static void ear_send_bye(void *user, const struct srp_port_id *id)
{
	struct ear_record r = { .kind = EAR_BYE };

	r.id = *id;
	ear_send(*(int *)user, &r);
}

static void ear_fail(int fd, int err, const char *why)
{
	struct ear_record r = { .kind = EAR_FAILED };

	snprintf(r.why, sizeof(r.why), "%s%s%s", why, err ? ": " : "",
		 err ? strerror(-err) : "");
	ear_send(fd, &r);
	_exit(EXIT_FAILURE);
}

static void ear_ask(int fd, struct finder *finder, bool said_left_out)
{
	struct ear_record r;
	struct found found = { .cnt = 0 };

	finder_ask(finder, &found);
	for (unsigned int i = 0; i < found.cnt; i++) {
		r = (struct ear_record){ .kind = EAR_TARGET };
		found_pack(found.targets[i], &r.target);
		ear_send(fd, &r);
	}
	r = (struct ear_record){ .kind = EAR_ASKED };
	r.more = found.more_cnt;
	r.said_left_out = said_left_out;
	ear_send(fd, &r);
}

static void ear_hear(int fd, struct finder *finder)
{
	const struct ear_record news = { .kind = EAR_NEWS };
	struct pollfd fds[1 + FINDER_ENDPOINTS_MAX];
	unsigned int cnt = finder_poll_list(finder, fds + 1);

	fds[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
	while (poll(fds, 1 + cnt, -1) >= 0 && !fds[0].revents) {
		if (finder_heard(finder, ear_send_bye, &fd))
			ear_send(fd, &news);
		cnt = finder_poll_list(finder, fds + 1);
	}
	_exit(EXIT_SUCCESS);
}

static void ear_run(int fd, const struct finder_options *o, bool quiet)
{
	struct finder *finder;
	struct error e;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = capabilities_keep(0);
	if (err)
		ear_fail(fd, err, "cannot give up capabilities");
	if (finder_open(o, &finder, &e))
		ear_fail(fd, 0, e.text);
	finder_join(finder);
	quiet = quiet || finder_warn(finder);
	err = ear_enter_sandbox();
	if (err)
		ear_fail(fd, err, "cannot enter the sandbox");
	ear_ask(fd, finder, quiet);
	ear_hear(fd, finder);
}

/* ---- the daemon ---- */

int ear_open(struct ear *ear, const struct finder_options *o, bool quiet)
{
	int fds[2];

	ear->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	ear->pid = fork();
	if (ear->pid == 0) {
		close(fds[0]);
		ear_run(fds[1], o, quiet);
		_exit(EXIT_FAILURE);
	}
	close(fds[1]);
	if (ear->pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	ear->fd = fds[0];
	return 0;
}

void ear_close(struct ear *ear)
{
	if (ear->fd < 0)
		return;
	close(ear->fd);
	ear->fd = -1;
	kill(ear->pid, SIGKILL);
	waitpid(ear->pid, NULL, 0);
}

int ear_read(struct ear *ear, struct ear_record *ret)
{
	ssize_t n = recv(ear->fd, ret, sizeof(*ret), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -EPIPE;
	if (n != (ssize_t)sizeof(*ret) || ret->kind > EAR_NEWS)
		return -EBADMSG;
	if (ret->kind == EAR_FAILED)
		ret->why[sizeof(ret->why) - 1] = '\0';
	return 1;
}
