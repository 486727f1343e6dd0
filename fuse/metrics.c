/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/metrics.h"

#include "config.h"
#include "base/exposition.h"
#include "base/list.h"
#include "fuse/file_meter.h"

/* The mount as a whole. */
struct metrics_mount {
	const char *path;
	const char *target;
	uint64_t one;
	uint64_t connected;
	uint64_t channels;
	struct srpi_session_stats session;
};

struct metrics_file {
	uint64_t size;
	uint64_t failed_flushes;
};

/* The struct that has the value of a metric. */
enum fuse_metric_source {
	METRIC_OF_INFO, /* struct metrics_mount, as the next */
	METRIC_OF_MOUNT,
	METRIC_OF_FILE,	   /* struct metrics_file */
	METRIC_OF_FILE_OP, /* struct file_op_meter */
};

#define OF_MOUNT(member)                              \
	.source = METRIC_OF_MOUNT, .labels = "mount", \
	.offset = offsetof(struct metrics_mount, member)
#define OF_FILE(member)                                     \
	.source = METRIC_OF_FILE, .labels = "mount,volume", \
	.offset = offsetof(struct metrics_file, member)
#define OF_FILE_OP(member)                                        \
	.source = METRIC_OF_FILE_OP, .labels = "mount,volume,op", \
	.offset = offsetof(struct file_op_meter, member)

static const struct metric fuse_metrics_rows[] = {
	{ "info", METRIC_GAUGE, "mounts", .source = METRIC_OF_INFO,
	  .labels = "mount,version,target",
	  .offset = offsetof(struct metrics_mount, one),
	  .help = "1; the labels have the version of rdma-fuse, and the address "
		  "in use." },
	{ "connected", METRIC_GAUGE, "sessions", OF_MOUNT(connected),
	  .help = "1 if the mount is logged in to its target, else 0." },
	{ "channels", METRIC_GAUGE, "channels", OF_MOUNT(channels),
	  .help = "Open connections to the target." },
	{ "commands", METRIC_COUNTER, "commands", OF_MOUNT(session.commands),
	  .help = "SCSI commands that were sent, including those sent again." },
	{ "replayed_commands", METRIC_COUNTER, "commands",
	  OF_MOUNT(session.replayed),
	  .help = "Commands that were sent again after a lost connection." },
	{ "command_timeouts", METRIC_COUNTER, "commands",
	  OF_MOUNT(session.timeouts),
	  .help = "Commands without an answer in time (--io-timeout)." },
	{ "reconnects", METRIC_COUNTER, "logins", OF_MOUNT(session.reconnects),
	  .help = "Logins after a lost connection." },
	{ "reconnect_attempts", METRIC_COUNTER, "attempts",
	  OF_MOUNT(session.attempts),
	  .help = "Attempts to connect again, including those that failed." },

	{ "volume_size", METRIC_GAUGE, "bytes", OF_FILE(size),
	  .help = "Size of the volume." },
	{ "volume_failed_flushes", METRIC_COUNTER, "flushes",
	  OF_FILE(failed_flushes), .help = "Flushes that failed." },

	{ "volume_requests", METRIC_COUNTER, "requests", OF_FILE_OP(requests),
	  .help = "Requests of programs for the data of the volume that were "
		  "answered." },
	{ "volume_errors", METRIC_COUNTER, "requests", OF_FILE_OP(errors),
	  .help = "Requests of programs that failed." },
	{ "volume_data", METRIC_COUNTER, "bytes", OF_FILE_OP(bytes),
	  .help = "Data that programs have read or written." },
	{ "volume_request", METRIC_HISTOGRAM, "seconds", OF_FILE_OP(times),
	  .help = "Time from the arrival of a request to its answer." },
};

const struct metric_table fuse_metrics_table = {
	.program = "rdma_fuse",
	.rows = fuse_metrics_rows,
	.cnt = ARRAY_SIZE(fuse_metrics_rows),
};

/* ---- metric by metric ---- */

static void metrics_give_file(struct metric_sink *sink, const struct metric *m,
			      const struct metrics_mount *mount,
			      const struct tree_file *f)
{
	const struct metrics_file facts = { f->info->size, f->errors };
	const char *const labels[METRIC_LABELS_MAX] = { mount->path,
							f->info->name };

	metric_give(sink, m, labels, &facts);
}

/* Operations that nobody has used have no series. */
static void metrics_give_ops(struct metric_sink *sink, const struct metric *m,
			     const struct metrics_mount *mount,
			     const struct tree_file *f)
{
	for (int op = 0; f->meter && op < FILE_OPS; op++) {
		const char *const labels[METRIC_LABELS_MAX] = {
			mount->path, f->info->name, file_op_names[op]
		};

		if (f->meter->op[op].requests)
			metric_give(sink, m, labels, &f->meter->op[op]);
	}
}

static void metrics_give_files(struct metric_sink *sink, const struct metric *m,
			       const struct metrics_mount *mount,
			       const struct tree *t)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct tree_file *f = tree_shown(t, i);

		if (f && m->source == METRIC_OF_FILE)
			metrics_give_file(sink, m, mount, f);
		else if (f)
			metrics_give_ops(sink, m, mount, f);
	}
}

static void metrics_give(struct metric_sink *sink, const struct metric *m,
			 const struct metrics_mount *mount,
			 const struct tree *t)
{
	const char *const labels[METRIC_LABELS_MAX] = { mount->path,
							RDMA_BLOCK_VERSION,
							mount->target };

	switch ((enum fuse_metric_source)m->source) {
	case METRIC_OF_INFO:
	case METRIC_OF_MOUNT:
		metric_give(sink, m, labels, mount);
		return;
	case METRIC_OF_FILE:
	case METRIC_OF_FILE_OP:
		metrics_give_files(sink, m, mount, t);
		return;
	}
}

char *fuse_metrics_text(const struct tree *t, const char *path, size_t *ret_len)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	struct metrics_mount mount = {
		.path = path,
		.one = 1,
		.session.struct_size = sizeof(mount.session),
	};
	struct exposition x;

	srpi_session_info(t->session, &si);
	srpi_session_stats(t->session, &mount.session);
	mount.target = si.peer;
	mount.connected = srpi_session_state(t->session) == SRPI_RUNNING;
	mount.channels = si.channels;
	exposition_init(&x, &fuse_metrics_table);
	for (size_t i = 0; i < fuse_metrics_table.cnt; i++)
		metrics_give(&x.sink, &fuse_metrics_table.rows[i], &mount, t);
	return exposition_end(&x, ret_len);
}
