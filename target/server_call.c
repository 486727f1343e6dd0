/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <semaphore.h>

#include "target/server_state.h"
#include "target/server_stop.h"

void server_calls_init(struct server *s)
{
	struct server_calls *calls = &s->calls;

	calls->server = s;
	pthread_mutex_init(&calls->callers, NULL);
	pthread_mutex_init(&calls->lock, NULL);
	pthread_cond_init(&calls->changed, NULL);
}

static void server_calls_set_open(struct server *s, bool open)
{
	pthread_mutex_lock(&s->calls.lock);
	s->calls.open = open;
	pthread_cond_broadcast(&s->calls.changed);
	pthread_mutex_unlock(&s->calls.lock);
}

void server_calls_open(struct server *s)
{
	server_calls_set_open(s, true);
}

void server_calls_close(struct server *s)
{
	server_calls_set_open(s, false);
	/* Those that were waiting have left. */
	pthread_mutex_lock(&s->calls.callers);
	pthread_mutex_unlock(&s->calls.callers);
}

static void server_run_call(struct reactor_msg *msg)
{
	struct server_calls *calls =
		container_of(msg, struct server_calls, msg);

	log_set_caller(calls->caller);
	calls->run(calls->server, calls->arg);
	log_set_caller(NULL);
	pthread_mutex_lock(&calls->lock);
	calls->done = true;
	pthread_cond_broadcast(&calls->changed);
	pthread_mutex_unlock(&calls->lock);
}

/* For a call that was given up: worker 0 may still take the message, but the
 * argument of the call is gone. */
static void server_run_nothing(struct server *s, void *arg)
{
}

int server_call(struct server *s, void (*run)(struct server *s, void *arg),
		void *arg)
{
	struct server_calls *calls = &s->calls;
	bool done;

	pthread_mutex_lock(&calls->callers);
	pthread_mutex_lock(&calls->lock);
	calls->done = false;
	calls->run = run;
	calls->arg = arg;
	calls->caller = log_get_caller();
	calls->msg.run = server_run_call;
	if (calls->open)
		reactor_send(s->workers[0].reactor, &calls->msg);
	while (calls->open && !calls->done)
		pthread_cond_wait(&calls->changed, &calls->lock);
	done = calls->done;
	if (!done) {
		calls->run = server_run_nothing;
		calls->caller = NULL;
	}
	pthread_mutex_unlock(&calls->lock);
	pthread_mutex_unlock(&calls->callers);
	return done ? 0 : -ESHUTDOWN;
}

static void server_run_begin_change(struct server *s, void *arg)
{
	*(int *)arg = server_begin_change(s);
}

int server_call_begin(struct server *s)
{
	int res = -ESHUTDOWN;
	int err = server_call(s, server_run_begin_change, &res);

	return err ? err : res;
}

static void server_run_end_change(struct server *s, void *arg)
{
	server_end_change(s);
}

void server_call_end(struct server *s)
{
	server_call(s, server_run_end_change, NULL);
}

struct worker_call {
	struct reactor_msg msg;
	struct worker *worker;
	void (*run)(struct worker *w, void *arg);
	void *arg;
	const struct log_caller *caller;
	sem_t done;
};

static void worker_run_call(struct reactor_msg *msg)
{
	struct worker_call *call = container_of(msg, struct worker_call, msg);

	log_set_caller(call->caller);
	call->run(call->worker, call->arg);
	log_set_caller(NULL);
	sem_post(&call->done);
}

void server_call_worker(struct worker *w,
			void (*run)(struct worker *w, void *arg), void *arg)
{
	struct worker_call call = {
		.msg.run = worker_run_call,
		.worker = w,
		.run = run,
		.arg = arg,
		.caller = log_get_caller(),
	};

	sem_init(&call.done, /* pshared= */ 0, 0);
	reactor_send(w->reactor, &call.msg);
	while (sem_wait(&call.done))
		;
	sem_destroy(&call.done);
}
