/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/store_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is asked, with a socket for the answer: a negative errno, or 0 with the files. */
struct opener_question {
	unsigned int index;
	unsigned int cnt;
};

/* ---- the child ---- */

struct opener_job {
	const struct volume_spec *spec;
	unsigned int cnt;
	int answer;
};

/* What the target is about to ask, too. */
static int opener_look(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int err = fd < 0 || fstat(fd, &st) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

static void *opener_main(void *arg)
{
	struct opener_job *job = arg;
	int fds[GIVEN_FILE_FDS_MAX] = { 0 };
	int res =
		job->cnt ? given_files_open(job->spec->path,
					    job->spec->read_only, fds, job->cnt)
			 : opener_look(job->spec->path);
	int err = res < 0 ? res : 0;

	given_files_send(job->answer, &err, sizeof(err), fds,
			 res > 0 ? (unsigned int)res : 0);
	while (res > 0)
		close(fds[--res]);
	close(job->answer);
	free(job);
	return NULL;
}

/* Takes @answer over. */
static void opener_begin(const struct volume_spec *spec, unsigned int cnt,
			 int answer)
{
	struct opener_job *job = malloc(sizeof(*job));
	pthread_t thread;

	if (job) {
		*job = (struct opener_job){ spec, cnt, answer };
		if (!pthread_create(&thread, NULL, opener_main, job)) {
			pthread_detach(thread);
			return;
		}
	}
	free(job);
	close(answer);
}

static bool opener_is_valid(const struct target_options *opt,
			    const struct opener_question *q)
{
	return q->index < opt->backing_cnt &&
	       opt->backings[q->index].store == VOLUME_STORE_FILE &&
	       q->cnt <= GIVEN_FILE_FDS_MAX;
}

/* Until the target has closed its socket. */
static void opener_serve(const struct target_options *opt, int socket)
{
	struct given_files came = { 0 };
	struct opener_question q;
	ssize_t n;

	while ((n = given_files_recv(&came, socket, &q, sizeof(q))) > 0) {
		if (n == sizeof(q) && came.fd_cnt == 1 &&
		    opener_is_valid(opt, &q)) {
			came.fd_cnt = 0;
			opener_begin(&opt->backings[q.index], q.cnt,
				     came.fds[0]);
		}
		given_files_close(&came);
	}
}

static void opener_child(const struct target_options *opt, int socket)
{
	pthread_setname_np(pthread_self(), "stores");
	/* Other processes of the same user, such as the target, cannot trace it. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	opener_serve(opt, socket);
}

/* ---- the target ---- */

int store_opener_fork(struct store_opener *o, const struct target_options *opt,
		      int unused_fd, struct error *e)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return error_set(e, -errno, "cannot open stores: %s",
				 strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		close(unused_fd);
		opener_child(opt, fds[1]);
		_exit(EXIT_SUCCESS);
	}
	close(fds[1]);
	o->socket = fds[0];
	o->pid = pid > 0 ? pid : 0;
	return pid < 0 ? error_set(e, -errno, "cannot start a process: %s",
				   strerror(errno))
		       : 0;
}

/* The descriptor stays: another thread may be about to use it. */
void store_opener_dismiss(struct store_opener *o)
{
	if (o->socket >= 0)
		shutdown(o->socket, SHUT_RDWR);
}

void store_opener_ended(struct store_opener *o)
{
	if (o->pid && waitpid(o->pid, NULL, WNOHANG) == o->pid)
		o->pid = 0;
}

void store_opener_close(struct store_opener *o)
{
	if (o->socket >= 0)
		close(o->socket);
	o->socket = -1;
}

int store_opener_ask(const struct store_opener *o, unsigned int index,
		     unsigned int cnt)
{
	const struct opener_question q = { .index = index, .cnt = cnt };
	int fds[2];
	int err = 0;

	if (o->socket < 0)
		return -EPIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	if (given_files_send(o->socket, &q, sizeof(q), &fds[1], 1) < 0)
		err = -errno;
	close(fds[1]);
	if (!err)
		return fds[0];
	close(fds[0]);
	return err;
}

int store_opener_answer(int answer, struct given_file *ret)
{
	struct given_files came = { 0 };
	int err;
	ssize_t n = given_files_recv(&came, answer, &err, sizeof(err));

	close(answer);
	if (n != sizeof(err))
		err = n < 0 ? -errno : -EPIPE;
	if (!err) {
		ret->is_own = true;
		ret->cnt = came.fd_cnt;
		memcpy(ret->fds, came.fds, sizeof(came.fds));
		came.fd_cnt = 0;
	}
	given_files_close(&came);
	return err;
}
