/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "initiator/srp_initiator.h"
#include "base/list.h"
#include "base/log.h"
#include "base/option.h"
#include "base/option_rows.h"
#include "base/reactor.h"

/* ---- options that need a function ---- */

/* Mount options of the kernel. */
static bool fuse_option_vfs(void *options, const struct option_row *row,
			    const char *value, struct error *e)
{
	struct fuse_options *o = options;
	size_t len = strlen(o->vfs);

	if (snprintf(o->vfs + len, sizeof(o->vfs) - len, ",%s", row->name) <
	    (int)(sizeof(o->vfs) - len))
		return true;
	o->vfs[len] = '\0';
	return error_refuse(e, "too many mount options");
}

/* mount(8) passes these on, and they change nothing here. */
static bool fuse_option_ignored(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	return true;
}

static bool fuse_option_rw(void *options, const struct option_row *row,
			   const char *value, struct error *e)
{
	struct fuse_options *o = options;

	o->read_only = false;
	return true;
}

/* ---- the tables ---- */

#define FUSE_IGNORED(option)                         \
	{                                            \
		.name = option, .type = OPTION_FLAG, \
		.set = fuse_option_ignored           \
	}

static const struct option_row mount_rows[] = {
	{ .name = "allow_other",
	  .type = OPTION_FLAG,
	  .help = "Let other users access the files, as the permissions "
		  "of the files allow.",
	  .more = "Users other than root may give this option only if /etc/fuse.conf has\n"
		  "*user_allow_other*.",
	  OPTION_AT(fuse_options, allow_other) },
	{ .name = "default_permissions",
	  .type = OPTION_FLAG,
	  .help = "Let the kernel check permissions. *allow_other* "
		  "implies this.",
	  OPTION_AT(fuse_options, default_permissions) },
	{ .name = "ro",
	  .type = OPTION_FLAG,
	  .dflt_text = "*rw*",
	  .help = "Mount read-only, or read-write.",
	  OPTION_AT(fuse_options, read_only) },
	{ .name = "rw", .type = OPTION_FLAG, .set = fuse_option_rw },
	{ .name = "uid",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .max = UINT_MAX - 1,
	  .dflt_text = "the user that mounts",
	  .help = "Set the owner of the files.",
	  OPTION_AT(fuse_options, uid) },
	{ .name = "gid",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .max = UINT_MAX - 1,
	  .dflt_text = "the group that mounts",
	  .help = "Set the group of the files.",
	  OPTION_AT(fuse_options, gid) },
	{ .name = "umask",
	  .type = OPTION_OCTAL,
	  .value = "OCTAL",
	  .max = 0777,
	  .dflt = 0177,
	  .help = "Remove these permissions from the files.",
	  .more = "The default gives 0600 (0400 for read-only files).",
	  OPTION_AT(fuse_options, umask) },
	{ .name = "fsname",
	  .type = OPTION_NAME,
	  .value = "NAME",
	  .dflt_text = "the URI",
	  .help = "Set the name that *df*(1) and *mount*(8) show.",
	  OPTION_AT(fuse_options, fsname) },
	{ .name = "subtype",
	  .type = OPTION_NAME,
	  .value = "NAME",
	  .dflt_text = "rdma-block",
	  .help = "Set the type that *df*(1) and *mount*(8) show "
		  "behind \"fuse\".",
	  OPTION_AT(fuse_options, subtype) },
	{ .name = "max_write",
	  .type = OPTION_SIZE,
	  .value = "SIZE",
	  .min = OPTIONS_MAX_WRITE_MIN,
	  .max = OPTIONS_MAX_WRITE_MAX,
	  .step = 4096,
	  .dflt = OPTIONS_MAX_WRITE_MAX,
	  .help = "Limit the requests of the kernel to this many bytes.",
	  .more = "The kernel splits larger ones. Reads are never larger than 512k.",
	  OPTION_AT(fuse_options, max_write) },
	{ .name = "suid",
	  .type = OPTION_FLAG,
	  .help = "As in *mount*(8).",
	  .set = fuse_option_vfs },
	{ .name = "nosuid", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "dev", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "nodev", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "exec", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "noexec", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "atime", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "noatime", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "sync", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "async", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "dirsync", .type = OPTION_FLAG, .set = fuse_option_vfs },
	{ .name = "relatime",
	  .type = OPTION_FLAG,
	  .help = "Ignored. *mount*(8) may pass them.",
	  .set = fuse_option_ignored },
	FUSE_IGNORED("norelatime"),
	FUSE_IGNORED("strictatime"),
	FUSE_IGNORED("nostrictatime"),
	FUSE_IGNORED("diratime"),
	FUSE_IGNORED("nodiratime"),
	FUSE_IGNORED("lazytime"),
	FUSE_IGNORED("nolazytime"),
	FUSE_IGNORED("iversion"),
	FUSE_IGNORED("noiversion"),
	FUSE_IGNORED("mand"),
	FUSE_IGNORED("nomand"),
	FUSE_IGNORED("silent"),
	FUSE_IGNORED("loud"),
	FUSE_IGNORED("symfollow"),
	FUSE_IGNORED("nosymfollow"),
};

const struct option_table fuse_mount_table = {
	.style = OPTION_MOUNT,
	.rows = mount_rows,
	.cnt = ARRAY_SIZE(mount_rows),
	.head = "Mount options (-o):\n",
};

static bool fuse_option_mount(void *options, const struct option_row *row,
			      const char *value, struct error *e);

static const struct option_row fuse_rows[] = {
	{ .name = "foreground",
	  .letter = 'f',
	  .type = OPTION_FLAG,
	  .group = "Options",
	  .help = "Stay in the foreground.",
	  OPTION_AT(fuse_options, foreground) },
	{ .name = "read-only",
	  .letter = 'r',
	  .type = OPTION_FLAG,
	  .help = "Mount read-only; the same as *-o ro*.",
	  OPTION_AT(fuse_options, read_only) },
	{ .name = "options",
	  .letter = 'o',
	  .type = OPTION_TEXT,
	  .value = "OPT[,OPT...]",
	  .help = "Set mount options; see below. May be given several "
		  "times.",
	  .keys = &fuse_mount_table,
	  .set = fuse_option_mount,
	  .whole_msg = true,
	  .again = true },
	{ .name = "channels",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = 16,
	  .dflt_text = "2 over RDMA; 1 over TCP or with one processor",
	  .help = "Open this many channels (connections) to the target.",
	  .more = "If the target grants fewer, the log says this. While less than 256 KiB are in flight\n"
		  "on the first channel, all commands use it: small commands stay together, and only\n"
		  "large ones are spread.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, channels) },
	{ .name = "queue-depth",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = 4096,
	  .dflt = 64,
	  .help = "Keep at most this many commands in flight on each "
		  "channel.",
	  .more = "The target may grant fewer. Further commands wait. rdma-target grants 63. The\n"
		  "kernel's target grants 127, but may run out of receive buffers for a moment when all\n"
		  "are in use.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, queue_depth) },
	{ .name = "poll-us",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .unit = "microseconds",
	  .max = 1000000,
	  .dflt_text = "200; with one processor 0",
	  .help = "Poll the RDMA device this long after work before "
		  "sleeping; 0 never polls.",
	  .more = "If a longer poll would have avoided the last sleep, *rdma-fuse* polls five times as\n"
		  "long until that fails once. Over TCP, it polls only while a single command waits for\n"
		  "its answer, and only if the last answer came within this time. Over TCP, it does not\n"
		  "poll while more threads are ready to run than there are processors.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, poll_us) },
	{ .name = "fast-io-fail-tmo",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .dflt = 15000,
	  .off = SRPI_OFF,
	  .group = "Times, see WHEN THE CONNECTION IS LOST in rdma-fuse(8)",
	  .help = "Let I/O wait this long without a connection, then "
		  "fail it.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, fast_io_fail_ms) },
	{ .name = "dev-loss-tmo",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .dflt_text = "off",
	  .off = SRPI_OFF,
	  .help = "Give the target up after this time without a "
		  "connection, and exit with status 1.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, dev_loss_ms) },
	{ .name = "reconnect-delay",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .dflt = 1000,
	  .off = SRPI_OFF,
	  .help = "Wait at most this long between attempts to connect "
		  "again.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, reconnect_delay_ms) },
	{ .name = "io-timeout",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .dflt = 30000,
	  .off = SRPI_OFF,
	  .help = "End the connection when a command has no answer for "
		  "this long.",
	  .more = "*WHEN THE CONNECTION IS LOST* describes these four times.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, io_timeout_ms) },
	{ .name = "keep-alive-tmo",
	  .type = OPTION_DURATION,
	  .value = "S",
	  .min = 1,
	  .max = 86400000,
	  .dflt = 30000,
	  .off = SRPI_OFF,
	  .help = "Ask each volume this often whether something has "
		  "changed.",
	  .more = "A mount without I/O notices in this way that the target does not answer any more,\n"
		  "has other volumes, or is in standby. *rdma-target*(8) reports changes by itself,\n"
		  "at once.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, keep_alive_ms) },
	OPTION_ROW_PIDFILE(
		fuse_options, .group = "The process",
		.help = "Write the process ID to _FILE_ when mounted.",
		.more = "*rdma-fuse* removes the file at the end. It keeps the file locked: a second program\n"
			"that uses the same file does not start."),
	{ .name = "metrics-file",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Write the metrics to _FILE_ every ten seconds, for the "
		  "textfile collector of node_exporter.",
	  .more = "Its name must end with _.prom_ there. Each mount needs a file of its own. *rdma-fuse*\n"
		  "writes _FILE.new_ and renames it. *METRICS* lists what the file has.",
	  .also_mount = true,
	  OPTION_AT(fuse_options, metrics_file) },
	OPTION_ROWS_LOG(fuse_options, "details"),
	OPTION_ROWS_ABOUT,
};

static const struct option_table *const fuse_parts[] = {
	&fuse_mount_table,
	NULL,
};

const struct option_table fuse_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-fuse",
	.version = RDMA_BLOCK_VERSION,
	.rows = fuse_rows,
	.cnt = ARRAY_SIZE(fuse_rows),
	.parts = fuse_parts,
	.head = "Usage: rdma-fuse [OPTION]... URI[/VOLUME] MOUNTPOINT\n"
		"Logs in to an SRP target and shows its volumes as files.\n"
		"\n"
		"URI: srp://HOST[:PORT][/VOLUME][?id_ext=HEX][&ioc_guid=HEX]"
		"[&initiator=HEX]\n"
		"     and the route: source=ADDRESS, gid=GID, pkey=HEX, sl=N,\n"
		"     tos=N, ack-timeout=N\n"
		"  srp://       RDMA when a device reaches HOST, else TCP\n"
		"  srp+rdma://  RDMA only\n"
		"  srp+tcp://   TCP only\n"
		"  Port 5555 when none is given. VOLUME is a name or a LUN number.\n"
		"  HOST[:PORT],HOST[:PORT]... names several addresses.\n"
		"\n"
		"MOUNTPOINT: a directory gets one file per volume (or just VOLUME); a\n"
		"  regular file becomes the volume.\n",
	.tail = "\n"
		"-o also takes channels=, queue_depth=, poll_us=, metrics_file= and the\n"
		"times above (fast_io_fail_tmo=, dev_loss_tmo=, reconnect_delay=,\n"
		"io_timeout=, keep_alive_tmo=).\n"
		"\n"
		"Unmount with: fusermount3 -u MOUNTPOINT\n",
};

/* ---- -o ---- */

static const struct option_row *fuse_find_mount_row(const char *name,
						    size_t len)
{
	const struct option_row *row =
		option_find(&fuse_mount_table, OPTION_MOUNT, name, len);

	if (row)
		return row;
	row = option_find(&fuse_option_table, OPTION_MOUNT, name, len);
	return row && row->also_mount ? row : NULL;
}

static bool fuse_refuse_mount_option(const char *word, size_t len,
				     struct error *e)
{
	const struct option_row *nearest =
		option_nearest(&fuse_mount_table, word, len);

	return error_refuse(e, "-o %.*s is not a mount option; %s%s%s",
			    (int)len, word, nearest ? "did you mean " : "",
			    nearest ? nearest->name : "--help lists them",
			    nearest ? "?" : "");
}

/* NAME or NAME=VALUE, in a list with commas. */
static bool fuse_option_mount(void *options, const struct option_row *row,
			      const char *value, struct error *e)
{
	char word[PATH_MAX + 64]; /* one with a path */

	for (const char *at = value; *at;) {
		size_t word_len = strcspn(at, ",");
		size_t name_len;

		if (snprintf(word, sizeof(word), "%.*s", (int)word_len, at) >=
		    (int)sizeof(word))
			return error_refuse(
				e, "-o: one of the options is too long");
		at += word_len + (at[word_len] == ',');
		name_len = strcspn(word, "=");
		if (word_len == 0)
			continue;
		row = fuse_find_mount_row(word, name_len);
		if (!row)
			return fuse_refuse_mount_option(word, name_len, e);
		if (!option_set(row, OPTION_MOUNT, options,
				word[name_len] ? word + name_len + 1 : NULL, e))
			return false;
	}
	return true;
}

/* ---- the command line ---- */

static bool fuse_set_arguments(struct fuse_options *o, int cnt, char **args)
{
	if (cnt < 2) {
		log_error("no %s; usage: rdma-fuse [OPTIONS] URI[/VOLUME] "
			  "MOUNTPOINT, --help tells more",
			  cnt == 0 ? "URI and no MOUNTPOINT" : "MOUNTPOINT");
		return false;
	}
	if (cnt > 2) {
		log_error("'%s' is one argument too many, after URI and "
			  "MOUNTPOINT",
			  args[2]);
		return false;
	}
	o->uri = args[0];
	o->mountpoint = args[1];
	return true;
}

static bool fuse_check_times(const struct fuse_options *o)
{
	const struct srpi_options so = {
		.struct_size = sizeof(so),
		.fast_io_fail_ms = o->fast_io_fail_ms,
		.dev_loss_ms = o->dev_loss_ms,
		.reconnect_delay_ms = o->reconnect_delay_ms,
	};
	const char *fault = srpi_timeouts_fault(&so);

	if (fault)
		log_error("%s", fault);
	return !fault;
}

enum option_verdict fuse_options_parse(int argc, char **argv,
				       struct fuse_options *ret)
{
	enum option_verdict verdict;
	int first;

	*ret = (struct fuse_options){
		.poll_us = reactor_poll_us_default(),
		.uid = getuid(),
		.gid = getgid(),
		.subtype = "rdma-block",
		.log_level = LOG_NOTICE,
	};
	option_defaults(&fuse_option_table, ret);
	option_defaults(&fuse_mount_table, ret);
	verdict = option_parse(&fuse_option_table, argc, argv, ret, &first);
	if (verdict != OPTION_RUN)
		return verdict;
	return fuse_check_times(ret) && fuse_set_arguments(ret, argc - first,
							   argv + first)
		       ? OPTION_RUN
		       : OPTION_BAD;
}
