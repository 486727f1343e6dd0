/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_srpi.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "tests/lib/t_must.h"

struct srpi_ctx {
	struct reactor *reactor;
	bool is_borrowed;
};

struct t_srpi_login t_srpi_login;

int srpi_ctx_create(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct srpi_error *e)
{
	const struct reactor_options o = { .pollable = options->pollable };
	struct srpi_ctx *ctx = calloc(1, sizeof(*ctx));

	T_MUST(ctx);
	ctx->reactor = options->reactor;
	ctx->is_borrowed = options->reactor;
	if (!ctx->is_borrowed)
		T_MUST(!reactor_create(&o, &ctx->reactor));
	*ret_ctx = ctx;
	return 0;
}

void srpi_ctx_destroy(struct srpi_ctx *ctx)
{
	if (ctx && !ctx->is_borrowed)
		reactor_destroy(ctx->reactor);
	free(ctx);
}

int srpi_ctx_fd(const struct srpi_ctx *ctx)
{
	return reactor_fd(ctx->reactor);
}

int srpi_ctx_run(struct srpi_ctx *ctx, int timeout_ms)
{
	return reactor_run_once(ctx->reactor, timeout_ms);
}

int srpi_connect_wait(struct srpi_ctx *ctx, const char *uri,
		      const struct srpi_options *options,
		      struct srpi_session **ret_session, struct srpi_error *e)
{
	struct t_srpi_login *l = &t_srpi_login;

	l->options = *options;
	snprintf(l->uri, sizeof(l->uri), "%s", uri);
	if (!l->session) {
		e->err = -ECONNREFUSED;
		snprintf(e->text, sizeof(e->text), "no target at %s", uri);
		return e->err;
	}
	l->open_cnt++;
	l->session->reactor = ctx->reactor;
	*ret_session = l->session;
	return 0;
}

void srpi_close_wait(struct srpi_ctx *ctx, struct srpi_session *s)
{
	t_srpi_login.open_cnt--;
}

const char *srpi_state_name(enum srpi_state state)
{
	if (state == SRPI_LOST)
		return "lost";
	return state == SRPI_RUNNING ? "running" : "blocked";
}

/* ---- another thread ---- */

struct call {
	struct reactor_msg msg;
	struct srpi_session *session;
	void (*f)(struct srpi_session *s);
	bool has_ended;
	pthread_mutex_t lock;
	pthread_cond_t ended;
};

static void run_call(struct reactor_msg *msg)
{
	struct call *c = container_of(msg, struct call, msg);

	c->f(c->session);
	pthread_mutex_lock(&c->lock);
	c->has_ended = true;
	pthread_cond_signal(&c->ended);
	pthread_mutex_unlock(&c->lock);
}

void t_srpi_run(struct srpi_session *s, void (*f)(struct srpi_session *s))
{
	struct call c = { .msg.run = run_call,
			  .session = s,
			  .f = f,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .ended = PTHREAD_COND_INITIALIZER };

	reactor_send(s->reactor, &c.msg);
	pthread_mutex_lock(&c.lock);
	while (!c.has_ended)
		pthread_cond_wait(&c.ended, &c.lock);
	pthread_mutex_unlock(&c.lock);
}
