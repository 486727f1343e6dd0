/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/counters.h"

#include <inttypes.h>

#include "target/port/worker.h"

static void log_transport(const struct worker *w, const struct xp *xp)
{
	const struct xp_stats *s = xp_get_stats(xp);

	log_notice("worker %u over %s: %" PRIu64 " work requests, %" PRIu64
		   " posts, %" PRIu64 " completions, %" PRIu64
		   " IUs received, %" PRIu64 " receive posts, %" PRIu64
		   " notifications asked for, %" PRIu64
		   " bytes copied on arrival",
		   w->index, xp_kind_name(xp_kind(xp)), s->wrs, s->posts,
		   s->cqes, s->recvs, s->recv_posts, s->arms, s->copied);
}

static void log_worker(struct worker *w)
{
	const struct counters *c = &w->counters;
	struct reactor_stats s;

	reactor_stats(w->reactor, &s);
	log_notice("worker %u: %" PRIu64 " commands, %" PRIu64
		   " bytes copied, %" PRIu64 " waits for a buffer, %" PRIu64
		   " turns, %" PRIu64 " ring enters, %" PRIu64
		   " ring completions, %" PRIu64 " sleeps, %" PRIu64
		   " wake-ups by other threads",
		   w->index, c->commands, c->copied + w->block.copied, c->waits,
		   s.turns, s.enters, s.completions, s.sleeps, s.wakeups);
	for (unsigned int k = 0; k < XP_KINDS; k++) {
		if (w->xp[k])
			log_transport(w, w->xp[k]);
	}
}

static void run_log(struct reactor_msg *msg)
{
	struct worker *w = container_of(msg, struct worker, counters.msg);

	/* From here on another message can be sent. */
	atomic_store(&w->counters.sent, false);
	log_worker(w);
}

void counters_log(struct worker *workers, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		struct counters *c = &workers[i].counters;

		if (atomic_exchange(&c->sent, true))
			continue; /* the message is on its way */
		c->msg.run = run_log;
		reactor_send(workers[i].reactor, &c->msg);
	}
}
