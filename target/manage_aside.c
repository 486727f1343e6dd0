/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_aside.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How long a job may still take when the target ends. Less than the end waits for who has
 * asked for it (MANAGE_LAST_MS). */
#define ASIDE_LAST_S 1

/* They outlive the struct manage, as a thread that hangs may. They guard is_done, is_left and
 * asides_end. */
static pthread_mutex_t aside_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t aside_changed = PTHREAD_COND_INITIALIZER;

static void aside_take_line(void *user, const char *line)
{
	const struct manage_aside *job = user;

	pthread_mutex_lock(&aside_lock);
	if (!job->is_left)
		job->caller->take(job->caller->user, line);
	pthread_mutex_unlock(&aside_lock);
}

static void *aside_main(void *arg)
{
	struct manage_aside *job = arg;
	const struct log_caller caller = { .take = aside_take_line,
					   .user = job };
	bool is_left;

	if (job->caller)
		log_set_caller(&caller);
	job->run(job);
	pthread_mutex_lock(&aside_lock);
	job->is_done = true;
	is_left = job->is_left;
	pthread_cond_broadcast(&aside_changed);
	pthread_mutex_unlock(&aside_lock);
	log_set_caller(NULL);
	if (is_left)
		job->free(job);
	return NULL;
}

static int manage_start_aside(struct manage_aside *job)
{
	pthread_t thread;
	int err;

	job->caller = log_get_caller();
	err = pthread_create(&thread, NULL, aside_main, job);
	if (!err)
		pthread_detach(thread);
	return err;
}

static struct timespec aside_until(unsigned int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	return until;
}

/* @until: NULL: there is no limit. 0, or an errno. */
static int aside_wait(const struct timespec *until)
{
	if (!until)
		return pthread_cond_wait(&aside_changed, &aside_lock);
	return pthread_cond_clockwait(&aside_changed, &aside_lock,
				      CLOCK_MONOTONIC, until);
}

/* The signal that ends the target ends some waits, and what it has ended says why. */
static void aside_await_last(const struct manage_aside *job)
{
	struct timespec until = aside_until(ASIDE_LAST_S);

	while (!job->is_done && !aside_wait(&until))
		;
}

int manage_begin_aside(struct manage_aside *job, struct error *e)
{
	int err = manage_start_aside(job);

	if (!err)
		return 0;
	job->free(job);
	return error_set(e, -err, "cannot start a thread: %s", strerror(err));
}

int manage_await_aside(const struct manage *m, struct manage_aside *job,
		       unsigned int seconds)
{
	struct timespec until = aside_until(seconds);
	int err = 0;
	bool ends;

	pthread_mutex_lock(&aside_lock);
	while (!job->is_done && !(m && m->asides_end) && !err)
		err = aside_wait(seconds ? &until : NULL);
	ends = m && m->asides_end;
	if (ends)
		aside_await_last(job);
	err = job->is_done ? 0 : ends ? -ESHUTDOWN : -err;
	job->is_left = err == -ESHUTDOWN;
	pthread_mutex_unlock(&aside_lock);
	return err;
}

void manage_leave_aside(struct manage_aside *job)
{
	bool is_done;

	pthread_mutex_lock(&aside_lock);
	is_done = job->is_done;
	job->is_left = true;
	pthread_mutex_unlock(&aside_lock);
	if (is_done)
		job->free(job);
}

int manage_run_aside(const struct manage *m, struct manage_aside *job,
		     unsigned int seconds, struct error *e)
{
	int err = manage_begin_aside(job, e);

	if (err)
		return err;
	err = manage_await_aside(m, job, seconds);
	if (err == -ETIMEDOUT)
		manage_leave_aside(job);
	if (err == -ESHUTDOWN)
		error_set(e, err, "the target is stopping");
	else if (err)
		error_set(e, err, "its store has not answered for %u s",
			  seconds);
	return err;
}

int manage_run_unlocked(struct manage *m, struct manage_aside *job,
			struct error *e)
{
	int err;

	manage_unlock(m);
	err = manage_run_aside(m, job, m->server->opt->stop_timeout_s, e);
	manage_lock(m);
	return err;
}

void manage_end_asides(struct manage *m)
{
	pthread_mutex_lock(&aside_lock);
	m->asides_end = true;
	pthread_cond_broadcast(&aside_changed);
	pthread_mutex_unlock(&aside_lock);
}
