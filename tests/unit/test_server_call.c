/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to worker 0 while the worker ends. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "target/server_state.h"
#include "tests/lib/t_table.h"

struct caller {
	struct server *server;
	pthread_t thread;
	int res;
	bool was_called;
};

static void note_call(struct server *s, void *arg)
{
	((struct caller *)arg)->was_called = true;
}

static void *caller_main(void *arg)
{
	struct caller *c = arg;

	c->res = server_call(c->server, note_call, c);
	return NULL;
}

/* The flag is set and the message sent under one lock. */
static void await_message(struct server *s)
{
	bool is_sent = false;

	while (!is_sent) {
		pthread_mutex_lock(&s->calls.lock);
		is_sent = s->calls.msg.run;
		pthread_mutex_unlock(&s->calls.lock);
	}
}

/* The object that the argument points to is gone when server_call() has
 * returned. */
T_TEST(call_that_was_given_up_is_not_made)
{
	static const struct reactor_options opt = { .ring_entries = 8 };
	struct server *s = calloc(1, sizeof(*s));
	struct caller c = { .server = s };

	assert_non_null(s);
	assert_int_equal(reactor_create(&opt, &s->workers[0].reactor), 0);
	server_calls_init(s);
	server_calls_open(s);
	assert_int_equal(pthread_create(&c.thread, NULL, caller_main, &c), 0);
	await_message(s);
	server_calls_close(s);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.res, -ESHUTDOWN);
	while (reactor_run_once(s->workers[0].reactor, 0) > 0)
		;
	assert_false(c.was_called);
	reactor_destroy(s->workers[0].reactor);
	free(s);
}
