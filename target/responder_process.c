/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/responder_process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "base/count.h"
#include "target/daemon.h"
#include "target/landlock.h"
#include "target/privileges.h"
#include "target/sandbox.h"

/* How long the target waits for the endpoints, and for the announcement of its end. */
#define WAIT_MS 5000

struct responder_process {
	int socket;			 /* -1: none */
	pid_t pid;			 /* 0: none */
	struct discovery_counts *counts; /* shared with it */
	pthread_mutex_t lock;		 /* guards the next, and its order */
	struct responder_news news;	 /* the last ones */
	int status;			 /* of its end; of ended_ms */
	_Atomic int64_t ended_ms;	 /* since 1970; 0: it has not ended */
};

/* ---- the child ---- */

static int responder_enter_sandbox(struct error *e)
{
#if HAVE_SANDBOX
	int err = landlock_enter(NULL, /* state_dir= */ NULL,
				 /* all_reads= */ false, e);

	return err ? err : sandbox_enter_responder(e);
#else
	return 0;
#endif
}

/* Other processes of the same user, such as the target, cannot trace it. */
static int responder_give_up_rights(const struct target_options *opt,
				    struct error *e)
{
	int err;

	privileges_raise_limits();
	err = privileges_drop(opt->user, options_has_low_port(opt), e);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* The kernel forgets this when the user changes. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return err;
}

/* Its rights are those of the target until that has given up its own, and says itself why
 * it cannot. False: the target has ended. */
static bool responder_await_target(int socket)
{
	char byte;

	return recv(socket, &byte, 1, MSG_PEEK) > 0;
}

/* This process keeps only what it needs: with it, nobody can log in. */
static int responder_take_keys(const struct target_options *opt,
			       struct key_file *keys,
			       struct responder_options *with, struct error *e)
{
	int err;

	/* Without a key, nobody is answered. */
	if (!opt->keys)
		return 0;
	err = key_file_derive(opt->keys, KEY_OF_DISCOVERY, keys);
	if (err)
		return error_set(e, err, "out of memory");
	key_file_free(opt->keys);
	with->keys = keys;
	return 0;
}

static int responder_child(const struct server *s, int socket,
			   struct discovery_counts *counts)
{
	const struct target_options *opt = s->opt;
	struct key_file keys = { 0 };
	struct responder_options with = {
		.interfaces = strcmp(opt->discovery, "on") == 0
				      ? NULL
				      : opt->discovery,
		.counts = counts,
		.restrict_self =
			opt->no_sandbox ? NULL : responder_enter_sandbox,
	};
	struct error e;

	pthread_setname_np(pthread_self(), "discovery");
	close(s->signal_fd);
	daemon_leave(s->configuration->ready_fd);
	if (!responder_await_target(socket))
		return EXIT_SUCCESS;
	if (!responder_take_keys(opt, &keys, &with, &e) &&
	    !responder_give_up_rights(opt, &e) &&
	    !responder_run(socket, &with, &e))
		return EXIT_SUCCESS;
	log_error("discovery: %s", e.text);
	return EXIT_FAILURE;
}

/* ---- the target ---- */

static struct discovery_counts *responder_share_counts(void)
{
	void *page =
		mmap(NULL, sizeof(struct discovery_counts),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

int responder_process_fork(struct server *s, struct error *e)
{
	struct responder_process *r;
	int fds[2];

	if (strcmp(s->opt->discovery, "off") == 0)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(e, -ENOMEM, "out of memory");
	s->responder = r;
	pthread_mutex_init(&r->lock, NULL);
	r->socket = -1;
	r->counts = responder_share_counts();
	if (!r->counts ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return error_set(e, -errno, "cannot answer queries: %s",
				 strerror(errno));
	r->socket = fds[0];
	r->pid = fork();
	if (r->pid == 0) {
		close(fds[0]);
		_exit(responder_child(s, fds[1], r->counts));
	}
	close(fds[1]);
	if (r->pid > 0)
		return 0;
	r->pid = 0;
	return error_set(e, -errno, "cannot start a process: %s",
			 strerror(errno));
}

/* The lock is held. If it has ended, responder_process_ended() says so. */
static void responder_tell_news(struct responder_process *r)
{
	r->news.log_level = log_level;
	if (responder_tell(r->socket, &r->news) == -EAGAIN)
		log_warn("discovery: its process does not take what has "
			 "changed");
}

void responder_process_tell(struct server *s)
{
	struct responder_process *r = s->responder;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->news.id = s->id;
	r->news.cnt = s->points.cnt;
	memcpy(r->news.point, s->points.point, sizeof(r->news.point));
	responder_tell_news(r);
	pthread_mutex_unlock(&r->lock);
}

void responder_process_tell_level(struct server *s)
{
	struct responder_process *r = s->responder;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	responder_tell_news(r);
	pthread_mutex_unlock(&r->lock);
}

static bool responder_await(const struct responder_process *r)
{
	struct pollfd fd = { .fd = r->socket, .events = POLLIN };

	return poll(&fd, 1, WAIT_MS) != 0;
}

int responder_process_open(struct server *s, struct error *e)
{
	char ready;

	if (!s->responder)
		return 0;
	responder_process_tell(s);
	if (!responder_await(s->responder))
		log_warn("discovery: the process is not ready after %d s; "
			 "going on",
			 WAIT_MS / 1000);
	else if (recv(s->responder->socket, &ready, 1, MSG_DONTWAIT) < 0)
		log_info("discovery: %s", strerror(errno));
	return 0;
}

int responder_process_start(struct server *s, struct error *e)
{
	responder_process_tell(s);
	return 0;
}

static int64_t responder_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

void responder_process_ended(struct server *s)
{
	struct log_about about = { .event = "discovery" };
	struct responder_process *r = s->responder;
	struct responder_facts facts;

	if (!r || !r->pid || waitpid(r->pid, &r->status, WNOHANG) != r->pid)
		return;
	r->pid = 0;
	atomic_store(&r->ended_ms, responder_clock_ms());
	responder_process_facts(s, &facts);
	log_event(LOG_ERROR, &about,
		  "discovery has ended (%s): rdma-discover does not find this "
		  "target " RESPONDER_PROCESS_END "; it goes on serving",
		  facts.why);
}

/* After a failed start, the child has nothing to announce, and ends as well. */
void responder_process_close(struct server *s)
{
	struct responder_process *r = s->responder;

	if (!r)
		return;
	if (r->socket >= 0) {
		shutdown(r->socket, SHUT_WR);
		if (r->pid && !responder_await(r))
			log_warn("discovery: the process does not end; the "
				 "kernel will end it");
		close(r->socket);
	}
	pthread_mutex_destroy(&r->lock);
	if (r->counts)
		munmap(r->counts, sizeof(*r->counts));
	free(r);
	s->responder = NULL;
}

void responder_process_facts(const struct server *s,
			     struct responder_facts *ret)
{
	const struct responder_process *r = s->responder;
	bool by_signal;

	*ret = (struct responder_facts){ 0 };
	if (!r)
		return;
	ret->counts.answers = count_read(&r->counts->answers);
	ret->counts.drops = count_read(&r->counts->drops);
	ret->ended_ms = atomic_load(&r->ended_ms);
	if (!ret->ended_ms)
		return;
	by_signal = WIFSIGNALED(r->status);
	snprintf(ret->why, sizeof(ret->why), "%s %d",
		 by_signal ? "signal" : "exit status",
		 by_signal ? WTERMSIG(r->status) : WEXITSTATUS(r->status));
}
