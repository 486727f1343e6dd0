/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "base/size.h"
#include "target/port/watchdog.h"
#include "base/list.h"
#include "base/option_fault.h"
#include "base/reactor.h"

/* Of what --max-... may say: far more than file descriptors last for. */
#define LIMIT_MAX 1000000

static const char help_text[] =
	"Usage: rdma-target [OPTION]... --backing SPEC [--backing SPEC]...\n"
	"Serves files, block devices and memory as disks over RDMA (SRP), or over\n"
	"TCP where there is no RDMA device. The first SPEC is LUN 0, and so on.\n"
	"\n"
	"  -b, --backing SPEC   what to serve; see below\n"
	"  -l, --listen URI     where to listen; may be given several times\n"
	"                         srp://ADDR[:PORT]       RDMA if a device has ADDR, else TCP\n"
	"                         srp+rdma://ADDR[:PORT]  RDMA only\n"
	"                         srp+tcp://ADDR[:PORT]   TCP only\n"
	"                       default: RDMA on every address when there is a device, else\n"
	"                       TCP on 127.0.0.1; port 5555\n"
	"  -a, --allow RULE     who may use volumes without rules of their own; may be given\n"
	"                       several times (default: everybody); see below\n"
	"  -t, --threads N      threads that serve (default: as many as processors, 4 at\n"
	"                       most, 8M of --buffers for each)\n"
	"      --poll-us N      poll for this long after work before sleeping,\n"
	"                       in microseconds; 0 = never (default 200; with one\n"
	"                       processor 0)\n"
	"      --buffers SIZE   memory for data in flight, all threads together\n"
	"                       (default 32M, or 8M a thread if that is more; at least\n"
	"                       4M a thread)\n"
	"      --max-logins N       logins of all initiators (default 4096)\n"
	"      --max-host-logins N  of these, from one address (default 1024)\n"
	"      --max-half-open N    of these, not yet completed (default 512)\n"
	"      --max-host-half-open N of these, from one address (default 128)\n"
	"      --max-channels N     connections of one initiator (default 64)\n"
	"      --rdma-timeout N seconds after which an initiator that neither answers RDMA\n"
	"                       nor takes its responses is disconnected (default 30)\n"
	"      --keepalive N    seconds of silence after which an initiator is probed, and\n"
	"                       disconnected if it is gone (default 15)\n"
	"      --state-dir DIR  keep there what must outlive a restart: reservations made with\n"
	"                       APTPL and saved mode values (default: none survive)\n"
	"  -P, --pidfile FILE   write the process ID there when ready\n"
	"  -u, --user NAME      become this user once the volumes are open\n"
	"      --no-sandbox     do without the filter of system calls\n"
	"  -v, --verbose        say more; twice: every request\n"
	"  -q, --quiet          say less; twice: errors only\n"
	"      --check-plugin SPEC  serve nothing; check that the store and the layers of\n"
	"                       SPEC keep the promises of rdma-block-plugin(3). This\n"
	"                       overwrites blocks\n"
	"      --version        print the version and exit\n"
	"  -h, --help           print this and exit\n"
	"\n"
	"SPEC is PATH, ram:SIZE, null:SIZE or PLUGIN:LOCATION, then any of\n"
	"  ,name=NAME           the volume's name (default: from the path)\n"
	"  ,ro                  read-only\n"
	"  ,block-size=N        512 (default) or 4096\n"
	"  ,direct=on|off       O_DIRECT (default: on for block devices)\n"
	"  ,removable           the medium can be ejected, and loaded again\n"
	"  ,write-through       every write is on stable storage before it is answered\n"
	"  ,serial=TEXT         unit serial number (default: derived from the path)\n"
	"  ,fault=RULE          for tests: let I/O go wrong; may be given several times.\n"
	"                       RULE is OP:KIND[:CONDITION]..., with\n"
	"                         OP         read, write, flush, unmap, zero or any\n"
	"                         KIND       error[=EIO|ENOSPC|ENOMEM|ENODEV|EROFS], delay=MS,\n"
	"                                    short, torn, corrupt, stuck (until SIGUSR1)\n"
	"                         CONDITION  lba=A[-B], after=N, every=N, chance=P%,\n"
	"                                    seed=N, count=N\n"
	"  ,lun=N               its number, 0 to 255 (default: the lowest that is left)\n"
	"  ,allow=RULE          who may use it; may be given several times\n"
	"  ,layer=PLUGIN        put a layer on it; may be given several times\n"
	"  ,KEY=VALUE           a parameter of the plugin named before\n"
	"RULE is WHO[:ro][:lun=N]: an address (10.0.0.1, [fe80::1]), a network (10.0.0.0/24),\n"
	"0x and the 32 digits of an initiator port, or all; read-only, and by which number.\n"
	"The first that fits counts; a volume that is not allowed does not exist.\n"
	"SIZE is a number of bytes; k, M, G and T are powers of 1024.\n"
	"\n"
	"Example: rdma-target --backing disk.img --backing ram:256M\n"
	"SIGTERM and SIGINT answer what is in flight, flush the volumes and exit with 0.\n"
	"SIGHUP takes over what volumes have grown by. SIGUSR1 releases stuck I/O.\n"
	"SIGUSR2 logs what each thread has done.\n";

static bool target_options_fail(const char *option, const char *value,
				const char *why)
{
	log_error("%s '%s': %s", option, value, why);
	return false;
}

static bool target_options_parse_number(const char *option, const char *text,
					unsigned int min, unsigned int max,
					unsigned int *ret)
{
	char why[80];
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || v < min || v > max) {
		snprintf(why, sizeof(why), "not a number from %u to %u", min,
			 max);
		return target_options_fail(option, text, why);
	}
	*ret = (unsigned int)v;
	return true;
}

/* ---- one function per option ---- */

static bool set_backing(struct options *opt, const char *arg)
{
	struct volume_spec *backings;
	char msg[512];

	if (opt->backing_cnt == LUNS_MAX)
		return target_options_fail("--backing", arg,
					   "more than 256 volumes");
	backings = reallocarray(opt->backings, opt->backing_cnt + 1,
				sizeof(*backings));
	if (!backings)
		return target_options_fail("--backing", arg, "out of memory");
	opt->backings = backings;
	if (!volume_spec_parse(arg, &backings[opt->backing_cnt], msg,
			       sizeof(msg)))
		return target_options_fail("--backing", arg, msg);
	opt->backing_cnt++;
	return true;
}

static bool set_check_plugin(struct options *opt, const char *arg)
{
	if (opt->check_plugin)
		return target_options_fail("--check-plugin", arg,
					   "one at a time");
	opt->check_plugin = true;
	return set_backing(opt, arg);
}

static bool set_listen(struct options *opt, const char *arg)
{
	struct srp_uri *uri = &opt->listens[opt->listen_cnt];
	char msg[SRP_URI_MSG_SIZE];

	if (opt->listen_cnt == OPTIONS_LISTENS_MAX)
		return target_options_fail("--listen", arg,
					   "more than 16 addresses");
	if (srp_uri_parse(arg, uri, msg, sizeof(msg)) < 0)
		return target_options_fail("--listen", arg, msg);
	if (uri->volume[0] || uri->has_target || uri->has_initiator)
		return target_options_fail(
			"--listen", arg,
			"only an address and a port are possible here");
	opt->listen_cnt++;
	return true;
}

static bool set_threads(struct options *opt, const char *arg)
{
	return target_options_parse_number("--threads", arg, 1, WORKERS_MAX,
					   &opt->threads);
}

static bool target_options_add_allow(struct options *opt, const char *arg)
{
	char msg[256];

	if (!access_rules_add(&opt->allow, arg, msg, sizeof(msg)))
		return target_options_fail("--allow", arg, msg);
	return true;
}

static bool set_max_logins(struct options *opt, const char *arg)
{
	return target_options_parse_number("--max-logins", arg, 1, LIMIT_MAX,
					   &opt->limits.logins);
}

static bool set_max_host_logins(struct options *opt, const char *arg)
{
	return target_options_parse_number("--max-host-logins", arg, 1,
					   LIMIT_MAX, &opt->limits.host_logins);
}

static bool set_max_half_open(struct options *opt, const char *arg)
{
	return target_options_parse_number("--max-half-open", arg, 1, LIMIT_MAX,
					   &opt->limits.half_open);
}

static bool set_max_host_half_open(struct options *opt, const char *arg)
{
	return target_options_parse_number("--max-host-half-open", arg, 1,
					   LIMIT_MAX,
					   &opt->limits.host_half_open);
}

static bool set_max_channels(struct options *opt, const char *arg)
{
	return target_options_parse_number("--max-channels", arg, 1, LIMIT_MAX,
					   &opt->limits.channels);
}

static bool set_rdma_timeout(struct options *opt, const char *arg)
{
	return target_options_parse_number("--rdma-timeout", arg, 1, 3600,
					   &opt->rdma_timeout_s);
}

static bool set_keepalive(struct options *opt, const char *arg)
{
	return target_options_parse_number("--keepalive", arg, 1, 3600,
					   &opt->keepalive_s);
}

static bool set_poll_us(struct options *opt, const char *arg)
{
	return target_options_parse_number("--poll-us", arg, 0, 1000000,
					   &opt->poll_us);
}

static bool set_buffers(struct options *opt, const char *arg)
{
	int err = size_parse(arg, &opt->buffers);

	if (err)
		return target_options_fail("--buffers", arg,
					   err == -ERANGE
						   ? "too large"
						   : "not a size such as 32M");
	return true;
}

static bool set_pidfile(struct options *opt, const char *arg)
{
	opt->pidfile = arg;
	return true;
}

static bool set_state_dir(struct options *opt, const char *arg)
{
	struct stat st;

	if (stat(arg, &st))
		return target_options_fail(
			"--state-dir", arg,
			errno == ENOENT ? "does not exist; make it first, "
					  "for the user who serves"
					: strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return target_options_fail("--state-dir", arg,
					   "not a directory");
	opt->state_dir = arg;
	return true;
}

static bool set_user(struct options *opt, const char *arg)
{
	opt->user = arg;
	return true;
}

static bool set_no_sandbox(struct options *opt, const char *arg)
{
	opt->no_sandbox = true;
	return true;
}

static bool set_verbose(struct options *opt, const char *arg)
{
	if (opt->log_level < LOG_DEBUG)
		opt->log_level++;
	return true;
}

static bool set_quiet(struct options *opt, const char *arg)
{
	if (opt->log_level > LOG_ERROR)
		opt->log_level--;
	return true;
}

/* ---- the table ---- */

enum {
	NO_LETTER = 256
}; /* above every letter */

static const struct option_row {
	const char *name;
	int letter; /* 0: none */
	int has_arg;
	bool (*set)(struct options *opt, const char *arg);
	const char *print; /* instead of set: print this and be done */
} rows[] = {
	{ "backing", 'b', required_argument, set_backing, NULL },
	{ "allow", 'a', required_argument, target_options_add_allow, NULL },
	{ "listen", 'l', required_argument, set_listen, NULL },
	{ "threads", 't', required_argument, set_threads, NULL },
	{ "poll-us", 0, required_argument, set_poll_us, NULL },
	{ "max-logins", 0, required_argument, set_max_logins, NULL },
	{ "max-host-logins", 0, required_argument, set_max_host_logins, NULL },
	{ "max-half-open", 0, required_argument, set_max_half_open, NULL },
	{ "max-host-half-open", 0, required_argument, set_max_host_half_open,
	  NULL },
	{ "max-channels", 0, required_argument, set_max_channels, NULL },
	{ "rdma-timeout", 0, required_argument, set_rdma_timeout, NULL },
	{ "keepalive", 0, required_argument, set_keepalive, NULL },
	{ "buffers", 0, required_argument, set_buffers, NULL },
	{ "state-dir", 0, required_argument, set_state_dir, NULL },
	{ "pidfile", 'P', required_argument, set_pidfile, NULL },
	{ "user", 'u', required_argument, set_user, NULL },
	{ "no-sandbox", 0, no_argument, set_no_sandbox, NULL },
	{ "check-plugin", 0, required_argument, set_check_plugin, NULL },
	{ "verbose", 'v', no_argument, set_verbose, NULL },
	{ "quiet", 'q', no_argument, set_quiet, NULL },
	{ "version", 0, no_argument, NULL,
	  "rdma-target " RDMA_BLOCK_VERSION "\n" },
	{ "help", 'h', no_argument, NULL, help_text },
};

/* getopt's two ways to say the same as the table. */
struct getopt_form {
	char letters[2 * ARRAY_SIZE(rows) + 2];
	struct option longs[ARRAY_SIZE(rows) + 1];
};

static void make_getopt_form(struct getopt_form *f)
{
	char *p = f->letters;

	memset(f, 0, sizeof(*f));
	*p++ = ':'; /* a missing argument is told apart */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->longs[i] = (struct option){
			.name = rows[i].name,
			.has_arg = rows[i].has_arg,
			.val = NO_LETTER + (int)i,
		};
		if (!rows[i].letter)
			continue;
		*p++ = (char)rows[i].letter;
		if (rows[i].has_arg == required_argument)
			*p++ = ':';
	}
}

static const struct option_row *find_row(int c)
{
	if (c >= NO_LETTER)
		return &rows[c - NO_LETTER];
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].letter == c)
			return &rows[i];
	return NULL;
}

/* A thread for each processor, as long as there is room for its buffers: more
 * memory than one thread takes is for who asks for more threads. */
static unsigned int default_threads(const struct options *opt)
{
	uint64_t buffers =
		opt->buffers ? opt->buffers : OPTIONS_BUFFERS_DEFAULT;
	uint64_t max = buffers / OPTIONS_BUFFERS_THREAD;
	unsigned int cnt = reactor_processors();

	if (cnt > OPTIONS_THREADS_DEFAULT_MAX)
		cnt = OPTIONS_THREADS_DEFAULT_MAX;
	if (cnt > max)
		cnt = (unsigned int)max;
	return cnt > 0 ? cnt : 1;
}

/* What was not given, and depends on what was. */
static void fill_in(struct options *opt)
{
	opt->threads_given = opt->threads > 0;
	if (!opt->threads_given)
		opt->threads = default_threads(opt);
	if (opt->buffers == 0 &&
	    OPTIONS_BUFFERS_DEFAULT / opt->threads < OPTIONS_BUFFERS_THREAD)
		opt->buffers = (uint64_t)OPTIONS_BUFFERS_THREAD * opt->threads;
	else if (opt->buffers == 0)
		opt->buffers = OPTIONS_BUFFERS_DEFAULT;
}

/* What only shows when all options are there. */
static bool check_together(const struct options *opt)
{
	char size[SIZE_TEXT_SIZE];

	if (opt->backing_cnt == 0) {
		log_error(
			"nothing to serve: give at least one --backing (a file, "
			"a block device, or ram:SIZE); try --help");
		return false;
	}
	if (opt->check_plugin && opt->backing_cnt > 1) {
		log_error("--check-plugin serves nothing: leave out --backing");
		return false;
	}
	if (opt->buffers / opt->threads < OPTIONS_BUFFERS_MIN) {
		log_error("--buffers %s: too small, give at least %uM for "
			  "each thread",
			  size_format(opt->buffers, size),
			  OPTIONS_BUFFERS_MIN >> 20);
		return false;
	}
	return true;
}

static enum options_verdict parse_all(int argc, char **argv,
				      struct options *opt)
{
	struct getopt_form form;
	int c;

	make_getopt_form(&form);
	opterr = 0;
	while ((c = getopt_long(argc, argv, form.letters, form.longs, NULL)) !=
	       -1) {
		const struct option_row *row =
			c == '?' || c == ':' ? NULL : find_row(c);

		if (!row) {
			option_fault_log(c, argv);
			return OPTIONS_BAD;
		}
		if (row->print) {
			fputs(row->print, stdout);
			return OPTIONS_DONE;
		}
		if (!row->set(opt, optarg))
			return OPTIONS_BAD;
	}
	if (optind < argc) {
		log_error("unexpected '%s': volumes are given with --backing",
			  argv[optind]);
		return OPTIONS_BAD;
	}
	fill_in(opt);
	return check_together(opt) ? OPTIONS_RUN : OPTIONS_BAD;
}

enum options_verdict options_parse(int argc, char **argv,
				   struct options *ret_opt)
{
	*ret_opt = (struct options){
		.poll_us = reactor_poll_us_default(),
		.limits = PORT_LIMITS_DEFAULT,
		.rdma_timeout_s = WATCHDOG_RDMA_TIMEOUT_MS / 1000,
		.keepalive_s = XP_KEEPALIVE_MS / 1000,
		.log_level = LOG_NOTICE,
	};
	optind = 0; /* start afresh, also the second time in a process */
	return parse_all(argc, argv, ret_opt);
}

void options_free(struct options *opt)
{
	free(opt->backings);
	opt->backings = NULL;
}

size_t options_arena_len(const struct options *opt)
{
	uint64_t each = opt->buffers / opt->threads;
	size_t len = OPTIONS_BUFFERS_MIN;

	while (len <= each / 2)
		len *= 2;
	return len;
}
