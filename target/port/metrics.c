/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "target/port/worker.h"

#define OF_PORT(member) METRIC_OF_PORT, offsetof(struct port_counters, member)
#define OF_REACTOR(member) \
	METRIC_OF_REACTOR, offsetof(struct reactor_stats, member)
#define OF_TRANSPORT(member) \
	METRIC_OF_TRANSPORT, offsetof(struct xp_stats, member)

const struct metric metrics_table[] = {
	{ "commands", "commands", "commands",
	  "SCSI commands that the target has answered.", OF_PORT(commands) },
	{ "copied", "bytes", "bytes copied",
	  "Payload that the processor has copied.", OF_PORT(copied) },
	{ "buffer_waits", "commands", "waits for a buffer",
	  "Commands that had to wait for a buffer.", OF_PORT(waits) },

	{ "reactor_turns", "turns", "turns", "Turns of the event loop.",
	  OF_REACTOR(turns) },
	{ "ring_enters", "calls", "ring enters", "Calls of io_uring_enter().",
	  OF_REACTOR(enters) },
	{ "ring_completions", "completions", "ring completions",
	  "Completed io_uring operations.", OF_REACTOR(completions) },
	{ "reactor_sleeps", "calls", "sleeps",
	  "Calls of io_uring_enter() that could block.", OF_REACTOR(sleeps) },
	{ "reactor_messages", "messages", "messages",
	  "Messages from threads of the target that were handled.",
	  OF_REACTOR(messages) },
	{ "reactor_wakeups", "wakeups", "wake-ups by other threads",
	  "Messages that found the worker asleep.", OF_REACTOR(wakeups) },

	{ "transport_work_requests", "requests", "work requests",
	  "Work requests that were posted to send queues.", OF_TRANSPORT(wrs) },
	{ "transport_posts", "calls", "posts",
	  "Calls that post to send queues.", OF_TRANSPORT(posts) },
	{ "transport_completions", "completions", "completions",
	  "Completions of work requests.", OF_TRANSPORT(cqes) },
	{ "transport_received", "IUs", "IUs received", "IUs that have arrived.",
	  OF_TRANSPORT(recvs) },
	{ "transport_receive_posts", "calls", "receive posts",
	  "Calls that post receives.", OF_TRANSPORT(recv_posts) },
	{ "transport_arms", "calls", "notifications asked for",
	  "Requests for a notification of the next completion.",
	  OF_TRANSPORT(arms) },
	{ "transport_copied", "bytes", "bytes copied on arrival",
	  "Bytes that the transport has copied when they arrived (TCP).",
	  OF_TRANSPORT(copied) },
};

const size_t metrics_cnt = sizeof(metrics_table) / sizeof(metrics_table[0]);

void metrics_append(char *buf, size_t size, enum metric_source source,
		    const void *from)
{
	const char *comma = "";

	for (size_t i = 0; i < metrics_cnt; i++) {
		const struct metric *m = &metrics_table[i];
		size_t len = strlen(buf);

		if (m->source != source)
			continue;
		snprintf(buf + len, size - len, "%s%" PRIu64 " %s", comma,
			 metric_value(m, from), m->text);
		comma = ", ";
	}
}

static void metrics_log_transport(const struct worker *w, const struct xp *xp)
{
	char text[512] = "";

	metrics_append(text, sizeof(text), METRIC_OF_TRANSPORT,
		       xp_get_stats(xp));
	log_notice("worker %u over %s: %s", w->index, xp_kind_name(xp_kind(xp)),
		   text);
}

static void metrics_log_worker(const struct worker *w)
{
	struct port_counters counters = w->counters;
	struct reactor_stats stats;
	char of_port[256] = "";
	char of_reactor[512] = "";

	/* Includes what the stores have copied. */
	counters.copied += w->block.copied;
	reactor_stats(w->reactor, &stats);
	metrics_append(of_port, sizeof(of_port), METRIC_OF_PORT, &counters);
	metrics_append(of_reactor, sizeof(of_reactor), METRIC_OF_REACTOR,
		       &stats);
	log_notice("worker %u: %s, %s", w->index, of_port, of_reactor);
	for (unsigned int k = 0; k < XP_KINDS; k++) {
		if (w->xp[k])
			metrics_log_transport(w, w->xp[k]);
	}
}

static void metrics_run_report(struct reactor_msg *msg)
{
	struct worker *w = container_of(msg, struct worker, report.msg);

	/* From here on another message may be sent. */
	atomic_store(&w->report.sent, false);
	metrics_log_worker(w);
}

void metrics_log(struct worker *workers, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		struct metrics_report *report = &workers[i].report;

		if (atomic_exchange(&report->sent, true))
			continue; /* the message is on its way */
		report->msg.run = metrics_run_report;
		reactor_send(workers[i].reactor, &report->msg);
	}
}
