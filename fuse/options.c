/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "initiator/srp_initiator.h"
#include "base/size.h"
#include "base/list.h"
#include "base/log.h"
#include "base/option_fault.h"
#include "base/reactor.h"

static const char help[] =
	"Usage: rdma-fuse [OPTIONS] URI[/VOLUME] MOUNTPOINT\n"
	"\n"
	"Logs in to an SRP target and shows its volumes as files.\n"
	"\n"
	"URI: srp://HOST[:PORT][/VOLUME][?id_ext=HEX][&ioc_guid=HEX]"
	"[&initiator=HEX]\n"
	"  srp://       RDMA when a device reaches HOST, else TCP\n"
	"  srp+rdma://  RDMA only\n"
	"  srp+tcp://   TCP only\n"
	"  Port 5555 when none is given. VOLUME is a name or a LUN number.\n"
	"\n"
	"MOUNTPOINT: a directory gets one file per volume (or just VOLUME); a\n"
	"  regular file becomes the volume.\n"
	"\n"
	"  -f, --foreground     stay in the foreground\n"
	"  -r, --read-only      mount read-only, as -o ro\n"
	"  -o, --options OPT[,OPT...]\n"
	"      allow_other default_permissions ro rw uid=N gid=N umask=OCTAL\n"
	"      fsname=NAME subtype=NAME max_write=SIZE\n"
	"      [no]suid [no]dev [no]exec [no]atime sync async dirsync\n"
	"      --fast-io-fail-tmo S, --dev-loss-tmo S, --reconnect-delay S,\n"
	"      --io-timeout S   or -o fast_io_fail_tmo=S,...; seconds, or off:\n"
	"                       without a connection, I/O waits so long (15),\n"
	"                       then fails, and the target is given up (600);\n"
	"                       the longest pause between attempts (1); a\n"
	"                       command without an answer for so long ends the\n"
	"                       connection (30)\n"
	"      --channels N     connections to the target, 1 to 16 (over RDMA 2, over\n"
	"                       TCP and with one processor 1)\n"
	"      --queue-depth N  commands in flight per channel, 1 to 4096 (64)\n"
	"      --poll-us N      poll for N microseconds after work before sleeping;\n"
	"                       0 = never (200; with one processor 0)\n"
	"  -P, --pidfile FILE   write the process ID there when mounted\n"
	"  -v, --verbose        say more; may be repeated\n"
	"  -q, --quiet          say less; may be repeated\n"
	"  -h, --help           this text\n"
	"      --version        the version\n"
	"\n"
	"Unmount with: fusermount3 -u MOUNTPOINT\n";

/* Seconds: a day. */
#define TIME_MAX 86400

enum {
	OPT_VERSION = 256,
	OPT_CHANNELS,
	OPT_QUEUE_DEPTH,
	OPT_POLL_US,
	OPT_FAST_IO_FAIL,
	OPT_DEV_LOSS,
	OPT_RECONNECT_DELAY,
	OPT_IO_TIMEOUT,
};

static const struct option long_options[] = {
	{ "foreground", no_argument, NULL, 'f' },
	{ "read-only", no_argument, NULL, 'r' },
	{ "options", required_argument, NULL, 'o' },
	{ "pidfile", required_argument, NULL, 'P' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "channels", required_argument, NULL, OPT_CHANNELS },
	{ "queue-depth", required_argument, NULL, OPT_QUEUE_DEPTH },
	{ "poll-us", required_argument, NULL, OPT_POLL_US },
	{ "fast-io-fail-tmo", required_argument, NULL, OPT_FAST_IO_FAIL },
	{ "dev-loss-tmo", required_argument, NULL, OPT_DEV_LOSS },
	{ "reconnect-delay", required_argument, NULL, OPT_RECONNECT_DELAY },
	{ "io-timeout", required_argument, NULL, OPT_IO_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

static bool fuse_options_parse_number(const char *what, const char *text,
				      unsigned long min, unsigned long max,
				      unsigned int *ret)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (end == text || *end || *text == '-' || errno || v < min ||
	    v > max) {
		log_error("%s '%s' is not a number from %lu to %lu", what, text,
			  min, max);
		return false;
	}
	*ret = (unsigned int)v;
	return true;
}

/* ---- -o ---- */

/* What the kernel itself understands, handed on as it is. */
static const char *const vfs_options[] = {
	"suid",	 "nosuid",  "dev",     "nodev", "exec",	 "noexec",
	"atime", "noatime", "dirsync", "sync",	"async",
};

static bool add_vfs_option(struct options *o, const char *word)
{
	size_t len = strlen(o->vfs);

	for (size_t i = 0; i < ARRAY_SIZE(vfs_options); i++) {
		if (strcmp(word, vfs_options[i]))
			continue;
		if (snprintf(o->vfs + len, sizeof(o->vfs) - len, ",%s", word) <
		    (int)(sizeof(o->vfs) - len))
			return true;
		break;
	}
	return false;
}

static bool set_allow_other(struct options *o, const char *value)
{
	o->allow_other = true;
	return true;
}

static bool set_default_permissions(struct options *o, const char *value)
{
	o->default_permissions = true;
	return true;
}

static bool set_ro(struct options *o, const char *value)
{
	o->read_only = true;
	return true;
}

static bool set_rw(struct options *o, const char *value)
{
	o->read_only = false;
	return true;
}

static bool set_uid(struct options *o, const char *value)
{
	return fuse_options_parse_number("-o uid", value, 0, UINT_MAX - 1,
					 &o->uid);
}

static bool set_gid(struct options *o, const char *value)
{
	return fuse_options_parse_number("-o gid", value, 0, UINT_MAX - 1,
					 &o->gid);
}

static bool set_umask(struct options *o, const char *value)
{
	char *end;
	unsigned long v = strtoul(value, &end, 8);

	if (end == value || *end || v > 0777) {
		log_error("-o umask '%s' is not an octal number up to 777",
			  value);
		return false;
	}
	o->umask = (mode_t)v;
	return true;
}

static bool fuse_options_set_text(const char *what, const char *value,
				  char *buf, size_t size)
{
	if (*value && strlen(value) < size) {
		strcpy(buf, value);
		return true;
	}
	log_error("-o %s '%s' is %s", what, value,
		  *value ? "too long" : "empty");
	return false;
}

static bool set_fsname(struct options *o, const char *value)
{
	return fuse_options_set_text("fsname", value, o->fsname,
				     sizeof(o->fsname));
}

static bool set_subtype(struct options *o, const char *value)
{
	return fuse_options_set_text("subtype", value, o->subtype,
				     sizeof(o->subtype));
}

static bool set_max_write(struct options *o, const char *value)
{
	uint64_t v;

	if (size_parse(value, &v) || v < OPTIONS_MAX_WRITE_MIN ||
	    v > OPTIONS_MAX_WRITE_MAX || v % 4096) {
		log_error("-o max_write '%s' is not a multiple of 4096 from "
			  "128k to 1M",
			  value);
		return false;
	}
	o->max_write = (uint32_t)v;
	return true;
}

/* Seconds, or "off". */
static bool parse_time(const char *what, const char *text, int *ret_ms)
{
	char *end;
	double v = strtod(text, &end);

	if (!strcmp(text, "off")) {
		*ret_ms = SRPI_OFF;
		return true;
	}
	if (end == text || *end || !(v >= 0.001 && v <= TIME_MAX)) {
		log_error("%s '%s' is neither a number of seconds from 0.001 "
			  "to %d nor 'off'",
			  what, text, TIME_MAX);
		return false;
	}
	*ret_ms = (int)(v * 1000 + 0.5);
	return true;
}

static bool set_fast_io_fail(struct options *o, const char *value)
{
	return parse_time("fast_io_fail_tmo", value, &o->fast_io_fail_ms);
}

static bool set_dev_loss(struct options *o, const char *value)
{
	return parse_time("dev_loss_tmo", value, &o->dev_loss_ms);
}

static bool set_reconnect_delay(struct options *o, const char *value)
{
	return parse_time("reconnect_delay", value, &o->reconnect_delay_ms);
}

static bool set_io_timeout(struct options *o, const char *value)
{
	return parse_time("io_timeout", value, &o->io_timeout_ms);
}

static const struct mount_option {
	const char *name;
	bool has_value;
	bool (*set)(struct options *o, const char *value);
} mount_options[] = {
	{ "allow_other", false, set_allow_other },
	{ "default_permissions", false, set_default_permissions },
	{ "ro", false, set_ro },
	{ "rw", false, set_rw },
	{ "uid", true, set_uid },
	{ "gid", true, set_gid },
	{ "umask", true, set_umask },
	{ "fsname", true, set_fsname },
	{ "subtype", true, set_subtype },
	{ "max_write", true, set_max_write },
	{ "fast_io_fail_tmo", true, set_fast_io_fail },
	{ "dev_loss_tmo", true, set_dev_loss },
	{ "reconnect_delay", true, set_reconnect_delay },
	{ "io_timeout", true, set_io_timeout },
};

static bool parse_mount_option(struct options *o, char *word)
{
	char *value = strchr(word, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(mount_options); i++) {
		const struct mount_option *m = &mount_options[i];

		if (strcmp(word, m->name))
			continue;
		if (m->has_value == (value != NULL))
			return m->set(o, value);
		log_error(m->has_value ? "-o %s needs a value: %s=..."
				       : "-o %s takes no value",
			  word, word);
		return false;
	}
	if (!value && add_vfs_option(o, word))
		return true;
	log_error("-o %s is not a mount option; --help lists them", word);
	return false;
}

static bool parse_mount_options(struct options *o, char *list)
{
	char *save;

	for (char *word = strtok_r(list, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		if (!parse_mount_option(o, word))
			return false;
	}
	return true;
}

/* ---- the line ---- */

static void set_defaults(struct options *o)
{
	*o = (struct options){
		.poll_us = reactor_poll_us_default(),
		.queue_depth = 64,
		.fast_io_fail_ms = 15000,
		.dev_loss_ms = 600000,
		.reconnect_delay_ms = 1000,
		.io_timeout_ms = 30000,
		.uid = getuid(),
		.gid = getgid(),
		.umask = 0177,
		.max_write = OPTIONS_MAX_WRITE_MAX,
		.subtype = "rdma-block",
	};
}

static bool parse_arguments(struct options *o, int cnt, char **args)
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

static bool check_times(const struct options *o)
{
	const struct srpi_options so = {
		.fast_io_fail_ms = o->fast_io_fail_ms,
		.dev_loss_ms = o->dev_loss_ms,
		.reconnect_delay_ms = o->reconnect_delay_ms,
	};
	const char *fault = srpi_timeouts_fault(&so);

	if (fault)
		log_error("%s", fault);
	return !fault;
}

/* One option; false: an error was printed. */
static bool fuse_options_parse_option(struct options *o, int c, char **argv)
{
	switch (c) {
	case 'f':
		o->foreground = true;
		return true;
	case 'r':
		o->read_only = true;
		return true;
	case 'o':
		return parse_mount_options(o, optarg);
	case 'P':
		o->pidfile = optarg;
		return true;
	case 'v':
		o->verbosity++;
		return true;
	case 'q':
		o->verbosity--;
		return true;
	case OPT_CHANNELS:
		return fuse_options_parse_number("--channels", optarg, 1, 16,
						 &o->channels);
	case OPT_QUEUE_DEPTH:
		return fuse_options_parse_number("--queue-depth", optarg, 1,
						 4096, &o->queue_depth);
	case OPT_POLL_US:
		return fuse_options_parse_number("--poll-us", optarg, 0,
						 1000000, &o->poll_us);
	case OPT_FAST_IO_FAIL:
		return set_fast_io_fail(o, optarg);
	case OPT_DEV_LOSS:
		return set_dev_loss(o, optarg);
	case OPT_RECONNECT_DELAY:
		return set_reconnect_delay(o, optarg);
	case OPT_IO_TIMEOUT:
		return set_io_timeout(o, optarg);
	default:
		option_fault_log(c, argv);
		return false;
	}
}

bool options_parse(int argc, char **argv, struct options *ret, int *ret_exit)
{
	int c;

	set_defaults(ret);
	*ret_exit = EXIT_FAILURE;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":fro:P:vqh", long_options,
				NULL)) != -1) {
		if (c == 'h' || c == OPT_VERSION) {
			fputs(c == 'h' ? help
				       : "rdma-fuse " RDMA_BLOCK_VERSION "\n",
			      stdout);
			*ret_exit = EXIT_SUCCESS;
			return false;
		}
		if (!fuse_options_parse_option(ret, c, argv))
			return false;
	}
	return check_times(ret) &&
	       parse_arguments(ret, argc - optind, argv + optind);
}
