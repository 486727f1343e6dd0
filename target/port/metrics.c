/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/metrics.h"

#include "base/list.h"
#include "base/log.h"
#include "target/port/meter.h"
#include "target/port/worker.h"

/* The place of a value, and the labels that tell it from others of its kind. */
#define OF_TARGET(member)           \
	.source = METRIC_OF_TARGET, \
	.offset = offsetof(struct metrics_target, member)
#define OF_PORT(member)           \
	.source = METRIC_OF_PORT, \
	.offset = offsetof(struct port_counters, member), .labels = "worker"
#define OF_WORKER(member)           \
	.source = METRIC_OF_WORKER, \
	.offset = offsetof(struct metrics_worker, member), .labels = "worker"
#define OF_REACTOR(member)           \
	.source = METRIC_OF_REACTOR, \
	.offset = offsetof(struct reactor_stats, member), .labels = "worker"
#define OF_TRANSPORT(member)                         \
	.source = METRIC_OF_TRANSPORT,               \
	.offset = offsetof(struct xp_stats, member), \
	.labels = "worker,transport"
#define OF_INITIATOR(member)           \
	.source = METRIC_OF_INITIATOR, \
	.offset = offsetof(struct meter_share, member), .labels = "initiator"

static const struct metric metrics_rows[] = {
	{ "info", METRIC_GAUGE, "targets", OF_TARGET(one), .labels = "version",
	  .help = "1; the label has the version of the target." },
	{ "start_time", METRIC_GAUGE, "seconds", OF_TARGET(start_ns),
	  .labels = "",
	  .help = "Time when the target was started, since 1970." },
	{ "volumes", METRIC_GAUGE, "volumes", OF_TARGET(volumes), .labels = "",
	  .help = "Volumes that are served." },
	{ "sessions", METRIC_GAUGE, "sessions", OF_TARGET(sessions),
	  .labels = "", .help = "Initiators that are logged in." },
	{ "logins", METRIC_COUNTER, "logins", OF_TARGET(channels), .labels = "",
	  .help = "Logins that were accepted; one for each channel." },
	{ "rejected_logins", METRIC_COUNTER, "logins", OF_TARGET(refusals),
	  .labels = "", .help = "Logins that were rejected." },
	{ "discovery_answers", METRIC_COUNTER, "answers",
	  OF_TARGET(discovery_answers), .labels = "",
	  .help = "Answers to requests for discovery." },
	{ "discovery_drops", METRIC_COUNTER, "datagrams",
	  OF_TARGET(discovery_drops), .labels = "",
	  .help = "Datagrams of discovery that got no answer: they were no "
		  "queries, had no right key, or were too many." },
	{ "discovery_ended", METRIC_GAUGE, "seconds",
	  OF_TARGET(discovery_ended_ns), .labels = "",
	  .help = "Time when the process that answers rdma-discover ended, "
		  "since 1970; until the target is started again. 0: it has "
		  "not." },

	{ "commands", METRIC_COUNTER, "commands", OF_PORT(commands),
	  .text = "commands",
	  .help = "SCSI commands that the target has answered." },
	{ "copied", METRIC_COUNTER, "bytes", OF_PORT(copied),
	  .text = "bytes copied",
	  .help = "Payload that the processor has copied." },
	{ "buffer_waits", METRIC_COUNTER, "commands", OF_PORT(waits),
	  .text = "waits for a buffer",
	  .help = "Commands that had to wait for a buffer." },
	{ "slow_commands", METRIC_COUNTER, "commands", OF_PORT(slow),
	  .text = "slow commands",
	  .help = "Commands that took longer than --slow says." },

	{ "buffers", METRIC_GAUGE, "bytes", OF_WORKER(buffers),
	  .help = "Memory for data in flight." },
	{ "used_buffers", METRIC_GAUGE, "bytes", OF_WORKER(buffers_used),
	  .help = "Memory for data in flight that is in use." },
	{ "channels", METRIC_GAUGE, "channels", OF_WORKER(channels),
	  .help = "Connections of initiators." },
	{ "requests_in_flight", METRIC_GAUGE, "requests", OF_WORKER(in_flight),
	  .help = "Requests that have arrived and have not ended." },

	{ "reactor_turns", METRIC_COUNTER, "turns", OF_REACTOR(turns),
	  .text = "turns", .help = "Turns of the event loop." },
	{ "ring_enters", METRIC_COUNTER, "calls", OF_REACTOR(enters),
	  .text = "ring enters", .help = "Calls of io_uring_enter()." },
	{ "ring_completions", METRIC_COUNTER, "completions",
	  OF_REACTOR(completions), .text = "ring completions",
	  .help = "Completed io_uring operations." },
	{ "reactor_sleeps", METRIC_COUNTER, "calls", OF_REACTOR(sleeps),
	  .text = "sleeps",
	  .help = "Calls of io_uring_enter() that could block." },
	{ "reactor_messages", METRIC_COUNTER, "messages", OF_REACTOR(messages),
	  .text = "messages",
	  .help = "Messages from threads of the target that were handled." },
	{ "reactor_wakeups", METRIC_COUNTER, "wakeups", OF_REACTOR(wakeups),
	  .text = "wake-ups by other threads",
	  .help = "Messages that found the worker asleep." },

	{ "transport_work_requests", METRIC_COUNTER, "requests",
	  OF_TRANSPORT(wrs), .text = "work requests",
	  .help = "Work requests that were posted to send queues." },
	{ "transport_posts", METRIC_COUNTER, "calls", OF_TRANSPORT(posts),
	  .text = "posts", .help = "Calls that post to send queues." },
	{ "transport_completions", METRIC_COUNTER, "completions",
	  OF_TRANSPORT(cqes), .text = "completions",
	  .help = "Completions of work requests." },
	{ "transport_received", METRIC_COUNTER, "IUs", OF_TRANSPORT(recvs),
	  .text = "IUs received", .help = "IUs that have arrived." },
	{ "transport_receive_posts", METRIC_COUNTER, "calls",
	  OF_TRANSPORT(recv_posts), .text = "receive posts",
	  .help = "Calls that post receives." },
	{ "transport_arms", METRIC_COUNTER, "calls", OF_TRANSPORT(arms),
	  .text = "notifications asked for",
	  .help = "Requests for a notification of the next completion." },
	{ "transport_copied", METRIC_COUNTER, "bytes", OF_TRANSPORT(copied),
	  .text = "bytes copied on arrival",
	  .help = "Bytes that the transport has copied when they arrived "
		  "(TCP)." },

	{ "volume_size", METRIC_GAUGE, "bytes", .source = METRIC_OF_VOLUME,
	  .offset = offsetof(struct metrics_volume, size), .labels = "volume",
	  .help = "Size of the volume." },
	{ "volume_never_stable", METRIC_GAUGE, "volumes",
	  .source = METRIC_OF_VOLUME,
	  .offset = offsetof(struct metrics_volume, never_stable),
	  .labels = "volume",
	  .help = "1 if nothing makes writes stable (trust-server=on)." },
	{ "volume_ready", METRIC_GAUGE, "volumes", .source = METRIC_OF_VOLUME,
	  .offset = offsetof(struct metrics_volume, ready), .labels = "volume",
	  .help = "1 if the volume is ready, else 0." },
	{ "volume_state_since", METRIC_GAUGE, "seconds",
	  .source = METRIC_OF_VOLUME,
	  .offset = offsetof(struct metrics_volume, since_ns),
	  .labels = "volume,state",
	  .help = "Time when the volume got into its state, since 1970." },
	{ "volume_errors", METRIC_COUNTER, "errors",
	  .source = METRIC_OF_VOLUME_IO,
	  .offset = offsetof(struct metrics_io, errors), .labels = "volume,op",
	  .help = "Operations of the store that have failed." },
	{ "volume_commands", METRIC_COUNTER, "commands",
	  .source = METRIC_OF_VOLUME_OP,
	  .offset = offsetof(struct metrics_op, commands),
	  .labels = "volume,op",
	  .help = "SCSI commands to the volume that were answered." },
	{ "volume_data", METRIC_COUNTER, "bytes", .source = METRIC_OF_VOLUME_OP,
	  .offset = offsetof(struct metrics_op, bytes), .labels = "volume,op",
	  .help = "Payload of commands to the volume." },
	{ "volume_stage", METRIC_HISTOGRAM, "seconds",
	  .source = METRIC_OF_VOLUME_STAGE, .labels = "volume,op,stage",
	  .help = "Time that commands to the volume spent in a stage." },

	{ "initiator_channels", METRIC_GAUGE, "channels",
	  OF_INITIATOR(channels), .help = "Connections of the initiator." },
	{ "initiator_credits", METRIC_GAUGE, "requests", OF_INITIATOR(credits),
	  .help = "Requests that the initiator may have in flight." },
	{ "initiator_requests_in_flight", METRIC_GAUGE, "requests",
	  OF_INITIATOR(in_flight),
	  .help = "Requests of the initiator that have not been answered." },
	{ "initiator_commands", METRIC_COUNTER, "commands",
	  .source = METRIC_OF_INITIATOR_OP,
	  .offset = offsetof(struct metrics_op, commands),
	  .labels = "initiator,op",
	  .help = "SCSI commands of the initiator that were answered." },
	{ "initiator_data", METRIC_COUNTER, "bytes",
	  .source = METRIC_OF_INITIATOR_OP,
	  .offset = offsetof(struct metrics_op, bytes),
	  .labels = "initiator,op",
	  .help = "Payload of commands of the initiator." },
	{ "initiator_stage", METRIC_HISTOGRAM, "seconds",
	  .source = METRIC_OF_INITIATOR_STAGE, .labels = "initiator,op,stage",
	  .help = "Time that commands of the initiator spent in a stage." },
};

const struct metric_table metrics_table = {
	.program = "rdma_target",
	.rows = metrics_rows,
	.cnt = ARRAY_SIZE(metrics_rows),
};

static void metrics_log_transport(const struct worker *w, const struct xp *xp)
{
	char text[512] = "";

	metric_append_text(&metrics_table, text, sizeof(text),
			   METRIC_OF_TRANSPORT, xp_get_stats(xp));
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
	metric_append_text(&metrics_table, of_port, sizeof(of_port),
			   METRIC_OF_PORT, &counters);
	metric_append_text(&metrics_table, of_reactor, sizeof(of_reactor),
			   METRIC_OF_REACTOR, &stats);
	log_notice("worker %u: %s, %s", w->index, of_port, of_reactor);
	for (unsigned int k = 0; k < XP_KINDS; k++) {
		if (w->xp[k])
			metrics_log_transport(w, w->xp[k]);
	}
}

static void metrics_run_report(struct reactor_msg *msg)
{
	struct worker *w = container_of(msg, struct worker, report.msg);

	/* From here on, another message may be sent. */
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
