/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/options.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/list.h"
#include "base/number.h"
#include "base/option.h"
#include "base/option_rows.h"
#include "config/control_path.h"

/* The largest value of --max-...: far more than there can be descriptors. */
#define LIMIT_MAX 1000000

/* ---- options that need a function ---- */

bool target_options_add_backing(struct target_options *opt,
				const struct volume_spec *spec,
				const char *text, struct error *e)
{
	unsigned int cnt = opt->backing_cnt;
	void *specs;
	void *texts;

	if (cnt == LUNS_MAX)
		return error_refuse(e, "more than %d volumes", LUNS_MAX);
	specs = reallocarray(opt->backings, cnt + 1, sizeof(*spec));
	if (specs)
		opt->backings = specs;
	texts = reallocarray(opt->backing_texts, cnt + 1, sizeof(char *));
	if (texts)
		opt->backing_texts = texts;
	if (!specs || !texts || !(opt->backing_texts[cnt] = strdup(text)))
		return error_refuse(e, "out of memory");
	opt->backings[opt->backing_cnt++] = *spec;
	return true;
}

static bool target_option_backing(void *options, const struct option_row *row,
				  const char *value, struct error *e)
{
	struct volume_spec spec;

	return volume_spec_parse(value, &spec, e) &&
	       target_options_add_backing(options, &spec, value, e);
}

static bool target_option_check_plugin(void *options,
				       const struct option_row *row,
				       const char *value, struct error *e)
{
	struct target_options *opt = options;

	if (opt->check_plugin)
		return error_refuse(e,
				    "only one SPEC can be checked at a time");
	opt->check_plugin = true;
	return target_option_backing(options, row, value, e);
}

static bool target_option_listen(void *options, const struct option_row *row,
				 const char *value, struct error *e)
{
	struct target_options *opt = options;
	struct xp_uri *uri = &opt->listens[opt->listen_cnt];

	if (opt->listen_cnt == OPTIONS_LISTENS_MAX)
		return error_refuse(e, "more than 16 addresses");
	if (xp_uri_parse(value, uri, e))
		return false;
	if (uri->route.has_tos || uri->route.ack_timeout)
		return error_refuse(e, "tos and ack-timeout are not possible "
				       "here: the initiator chooses the type "
				       "of service of both directions");
	if (*uri->route.source || uri->route.has_gid)
		return error_refuse(e, "source and gid are not possible here: "
				       "the address chooses the GID");
	if (uri->tls)
		return error_refuse(e, "srp+tls and key are not possible here: "
				       "with --keys, initiators over TCP may "
				       "use TLS, and need a key");
	if (uri->volume[0] || uri->has_target || uri->has_initiator ||
	    uri->more_cnt)
		return error_refuse(e, "only an address, a port, pkey and sl "
				       "are possible here");
	opt->listen_texts[opt->listen_cnt++] = value;
	return true;
}

static bool target_option_allow(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	struct target_options *opt = options;

	if (!access_rules_add(&opt->allow, value, e))
		return false;
	opt->allow_texts[opt->allow.cnt - 1] = value;
	return true;
}

/* Not by if_nametoindex(): it makes a socket that the sandbox forbids, and
 * configurations are checked in it. */
static bool target_option_has_interface(const char *name)
{
	struct if_nameindex *all = if_nameindex();
	bool found = false;

	for (struct if_nameindex *i = all; i && i->if_index && !found; i++)
		found = strcmp(i->if_name, name) == 0;
	if (all)
		if_freenameindex(all);
	return found;
}

/* NAME,NAME: each an interface of this machine. */
static bool target_option_discovery(void *options, const struct option_row *row,
				    const char *value, struct error *e)
{
	struct target_options *opt = options;
	char name[IF_NAMESIZE];

	opt->discovery = value;
	if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0)
		return true;
	for (const char *p = value; *p;) {
		size_t len = strcspn(p, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, p);
		if (len >= sizeof(name) || !target_option_has_interface(name))
			return error_refuse(e,
					    "'%.*s' is no interface of this "
					    "machine; see ip link",
					    (int)len, p);
		p += len + (p[len] == ',');
	}
	return *value || error_refuse(e, "not on, off, or interfaces");
}

static bool target_option_is_port(const char *text)
{
	uint64_t port;

	return number_parse(text, UINT16_MAX, &port) && port;
}

/* The address of @value, in brackets or not, without its interface. */
static bool target_option_is_address(const char *value, size_t len)
{
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE];
	struct in6_addr addr;

	if (len > 1 && *value == '[' && value[len - 1] == ']') {
		value++;
		len -= 2;
	}
	if (len >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)len, value);
	if (inet_pton(AF_INET, text, &addr) == 1)
		return true;
	text[strcspn(text, "%")] = '\0';
	return inet_pton(AF_INET6, text, &addr) == 1;
}

/* getaddrinfo() would take port 99999 for 34463. */
static bool target_option_metrics(void *options, const struct option_row *row,
				  const char *value, struct error *e)
{
	struct target_options *opt = options;
	const char *colon = strrchr(value, ':');

	opt->metrics = value;
	if (colon && !target_option_is_address(value, (size_t)(colon - value)))
		return error_refuse(e, "not ADDR:PORT, such as 127.0.0.1:9560");
	return target_option_is_port(colon ? colon + 1 : value) ||
	       error_refuse(e, "not ADDR:PORT, such as 127.0.0.1:9560, with a "
			       "port from 1 to 65535");
}

/* ---- the table ---- */

static const struct option_row target_rows[] = {
	/* In every build: otherwise "--check" would be an abbreviation of
	 * "--check-plugin", which overwrites blocks. */
	{ .name = "config",
	  .letter = 'c',
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .cmdline_only = true,
	  .group = "Configuration",
	  .help = "Read options from _FILE_, in JSON. Options of the command "
		  "line add to its lists and replace its single values.",
	  .more = "See *rdma-target.json*(5).",
	  OPTION_AT(target_options, config) },
	{ .name = "check",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .cmdline_only = true,
	  .help = "Check the configuration in _FILE_, and exit. Serve nothing.",
	  .more = "Exits with 0 if the file is correct. Otherwise one line names the file, the line and\n"
		  "the key, and what is allowed. Plugins are loaded; stores are not opened. A file\n"
		  "without volumes is correct with *--control*.",
	  OPTION_AT(target_options, check) },
	{ .name = "control",
	  .type = OPTION_PATH,
	  .value = "PATH",
	  .dflt_text = "_control_, or _control.PORT_ if the port is not 5555, "
		       "in a directory of the user",
	  .help = "Listen on this socket for *rdma-ctl*(1). *none*: have no "
		  "socket.",
	  .more = "The mode of the socket is 0660. Root and the user of *rdma-target* may change the\n"
		  "target; the group of the socket may look at it. With this option, *rdma-target* also\n"
		  "starts without a volume.\n"
		  "\n"
		  "Without this option, the socket is in _/run/rdma-target_ for root, else in\n"
		  "_$XDG_RUNTIME_DIR/rdma-target_; in a unit, in _$RUNTIME_DIRECTORY_. _PORT_ is the one\n"
		  "of the first *--listen*. *rdma-ctl* looks there. If the socket cannot be made, or\n"
		  "another target listens there, *rdma-target* serves without one, and a notice says why.\n"
		  "A socket that a killed target has left is replaced.",
	  OPTION_AT(target_options, control) },
	{ .name = "auto-save",
	  .type = OPTION_FLAG,
	  .help = "Write the configuration to the file of *--config* after each "
		  "change by *rdma-ctl*(1).",
	  OPTION_AT(target_options, auto_save) },
	{ .name = "strict",
	  .type = OPTION_FLAG,
	  .help = "End the start if a volume or an address is not there yet.",
	  .more = "Without this option, a target with *--config* or *--control* waits for it, and\n"
		  "serves the others; see *WHAT IS NOT HERE YET*.",
	  OPTION_AT(target_options, strict) },
	{ .name = "backing",
	  .letter = 'b',
	  .type = OPTION_PATH,
	  .value = "SPEC",
	  .group = "What to serve, where and to whom",
	  .help = "Serve this volume; see below. May be given several "
		  "times.",
	  .keys = &volume_option_table,
	  .set = target_option_backing,
	  .again = true },
	{ .name = "listen",
	  .letter = 'l',
	  .type = OPTION_TEXT,
	  .value = "URI",
	  .dflt_text = "RDMA on all addresses if there is a device, else TCP "
		       "on 127.0.0.1; port 5555",
	  .help = "Listen on this address: *srp://*_ADDR_[*:*_PORT_] "
		  "(RDMA if a device has _ADDR_, else TCP), "
		  "*srp+rdma://* or *srp+tcp://* (only that). May be "
		  "given several times.",
	  .more = "*srp://*_ADDR_[*:*_PORT_], or plain _ADDR_[*:*_PORT_]\n"
		  "	Use RDMA if an RDMA device has that address, else TCP. A\n"
		  "	notice says why TCP is used. When a device with that address\n"
		  "	appears later, *rdma-target* also listens over RDMA.\n"
		  "\n"
		  "*srp+rdma://*_ADDR_[*:*_PORT_]\n"
		  "	Use RDMA only. If no device has the address, the start fails.\n"
		  "\n"
		  "*srp+tcp://*_ADDR_[*:*_PORT_]\n"
		  "	Use TCP only.\n"
		  "\n"
		  "Behind the port, *?pkey=*_HEX_ and *&sl=*_N_ are possible, over RDMA only:\n"
		  "\n"
		  "*pkey=*_HEX_\n"
		  "	Accept only logins from this partition. If the interface with\n"
		  "	_ADDR_ has another P_Key, the start fails. The highest bit is\n"
		  "	not compared. RoCE has only the P_Key ffff.\n"
		  "\n"
		  "*sl=*_N_\n"
		  "	Send with this service level, 0 to 15, in place of the one that\n"
		  "	the initiator requests. On RoCE, 0 to 7 is the priority of\n"
		  "	frames with a VLAN tag.\n"
		  "\n"
		  "_ADDR_ chooses the device, the port and the GID. The log line of each login has what\n"
		  "was negotiated (level info), and so has *rdma-ctl session list*.\n"
		  "\n"
		  "Put an IPv6 address in brackets. *0.0.0.0* and *[::]* mean all addresses. Without\n"
		  "this option, where *rdma-target* listens is decided at the start: a device that\n"
		  "appears later changes nothing. RDMA authenticates and encrypts nothing, and TCP\n"
		  "does only with *--keys*: *rdma-target* prints a warning when other hosts can\n"
		  "connect.",
	  .set = target_option_listen,
	  .again = true,
	  .empty = "" },
	{ .name = "allow",
	  .letter = 'a',
	  .type = OPTION_TEXT,
	  .value = "RULE",
	  .dflt_text = "*" ACCESS_DEFAULT "*, everybody",
	  .help = "Allow these initiators to use the volumes that have "
		  "no rules of their own; see below. May be given "
		  "several times.",
	  .more = "See *ACCESS*.",
	  .set = target_option_allow,
	  .again = true,
	  .empty = ACCESS_NOBODY },
	{ .name = "keys",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Let in only initiators that prove a name by one of the keys "
		  "in _FILE_, except by rules for addresses. Answer only "
		  "queries with a key.",
	  .more = "See *KEYS*.",
	  OPTION_AT(target_options, keys_file) },
	{ .name = "threads",
	  .letter = 't',
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = WORKERS_MAX,
	  .dflt_text = "the number of processors, at most 4, and at most one "
		       "thread for each 8M of *--buffers*",
	  .group = "Resources and limits",
	  .help = "Serve with this many threads.",
	  .more = "*rdma-target* spreads the channels of an initiator over the threads, and gives the\n"
		  "first channels of all initiators to all threads in turn. A thread without commands\n"
		  "uses no processor time. The default counts the processors that *rdma-target* may\n"
		  "run on.",
	  OPTION_AT(target_options, threads) },
	{ .name = "poll-us",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .unit = "microseconds",
	  .max = 1000000,
	  .dflt_text = "200; with one processor 0",
	  .help = "Poll RDMA devices this long after work before "
		  "sleeping; 0 never polls.",
	  .more = "If a longer poll would have avoided the last sleep, *rdma-target* polls five times as\n"
		  "long until that fails once. Over TCP, it polls only while the next command of an\n"
		  "initiator that sends one at a time is expected, and only if the last command came\n"
		  "within this time. Over TCP, it does not poll while more threads are ready to run\n"
		  "than there are processors.",
	  OPTION_AT(target_options, poll_us) },
	{ .name = "buffers",
	  .type = OPTION_SIZE,
	  .value = "SIZE",
	  .dflt_text = "32M, or 8M for each thread if that is more",
	  .help = "Use this much memory for data in flight, in all "
		  "threads together; at least 4M for each thread.",
	  .more = "Each thread gets the largest power of two that fits. The memory is registered with\n"
		  "the RDMA devices: the limit of locked memory must allow it. When all buffers are in\n"
		  "use, commands wait. With 4M for each thread, *rdma-target* refuses commands that\n"
		  "need more than one transfer of the largest size (VERIFY and ORWRITE of nearly\n"
		  "4 MiB).",
	  OPTION_AT(target_options, buffers) },
	{ .name = "max-logins",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = LIMIT_MAX,
	  .dflt = PORT_LOGINS_DEFAULT,
	  .help = "Limit the logins of all initiators.",
	  .more = "If the access rules know several initiators, one rule lets in at most three\n"
		  "quarters of them. The same holds for *--max-half-open*.",
	  OPTION_AT(target_options, limits.logins) },
	{ .name = "max-host-logins",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = LIMIT_MAX,
	  .dflt = PORT_HOST_LOGINS_DEFAULT,
	  .help = "Limit the logins from one address.",
	  .more = "All addresses of IPv6 with the same first 64 bits count as one.",
	  OPTION_AT(target_options, limits.host_logins) },
	{ .name = "max-half-open",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = LIMIT_MAX,
	  .dflt = PORT_HALF_OPEN_DEFAULT,
	  .help = "Limit the logins that are half open, of all "
		  "initiators.",
	  .more = "A login is half open until its connection is established, and while it waits for the\n"
		  "commands of the login that it replaces.",
	  OPTION_AT(target_options, limits.half_open) },
	{ .name = "max-host-half-open",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = LIMIT_MAX,
	  .dflt = PORT_HOST_HALF_OPEN_DEFAULT,
	  .help = "Limit the logins that are half open, from one "
		  "address.",
	  OPTION_AT(target_options, limits.host_half_open) },
	{ .name = "max-channels",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = LIMIT_MAX,
	  .dflt = PORT_CHANNELS_DEFAULT,
	  .help = "Limit the channels (connections) of one initiator.",
	  .more = "*rdma-target* rejects a login that exceeds this limit or one of the four above, and\n"
		  "the log names the limit. For each host, the log has at most 100 lines about logins\n"
		  "and logouts in ten seconds. It says how many lines it left out.",
	  OPTION_AT(target_options, limits.channels) },
	{ .name = "rdma-timeout",
	  .type = OPTION_NUMBER,
	  .value = "SECONDS",
	  .unit = "seconds",
	  .min = 1,
	  .max = 3600,
	  .dflt = WATCHDOG_RDMA_TIMEOUT_MS / 1000,
	  .help = "Disconnect an initiator when RDMA on one of its "
		  "channels makes no progress for this long.",
	  .more = "The initiator is stopped, or no longer takes responses. Its buffers become free for\n"
		  "other initiators, and the log says which operation waited. An initiator that is slow\n"
		  "but makes progress stays connected. On a volume in memory, data moves in place. If\n"
		  "another initiator waits for these blocks, each command has half of the time to move them.",
	  OPTION_AT(target_options, rdma_timeout_s) },
	{ .name = "stop-timeout",
	  .type = OPTION_NUMBER,
	  .value = "SECONDS",
	  .unit = "seconds",
	  .min = 1,
	  .max = 3600,
	  .dflt = OPTIONS_STOP_TIMEOUT_S,
	  .help = "At the end, wait this long for a store that does not "
		  "answer.",
	  .more = "See SIGTERM under *SIGNALS*.",
	  OPTION_AT(target_options, stop_timeout_s) },
	{ .name = "keepalive",
	  .type = OPTION_NUMBER,
	  .value = "SECONDS",
	  .unit = "seconds",
	  .min = 1,
	  .max = 3600,
	  .dflt = XP_KEEPALIVE_MS / 1000,
	  .help = "Probe an initiator that has been silent this long, "
		  "and disconnect it if it is gone.",
	  .more = "When its host or the network to it is gone, *rdma-target* disconnects it after two\n"
		  "to three times this long in all. Over RDMA, the probe is a write of no bytes, which\n"
		  "the initiator's adapter acknowledges by itself. Over TCP, it is the keepalive probe\n"
		  "of TCP.",
	  OPTION_AT(target_options, keepalive_s) },
	{ .name = "discovery",
	  .type = OPTION_TEXT,
	  .value = "on|off|INTERFACES",
	  .dflt_text = "on",
	  .group = "Discovery",
	  .help = "Answer *rdma-discover*(1): on all interfaces where the "
		  "target listens, on none, or on these (_NAME_,_NAME_).",
	  .more = "The answer has the name of the host, the port identifier and the addresses of the\n"
		  "target; it names no volume. *rdma-target* answers queries by UDP to its ports, by\n"
		  "multicast of UDP (group 239.255.83.82 and ff12::5352:5044, port 5555, not\n"
		  "through routers), and by multicast of RDMA on each device. It answers at most 200\n"
		  "queries a second, and 20 of one host. With *--keys*, it answers only queries with\n"
		  "a key, and proves its answers with that key (HMAC-SHA256).",
	  .set = target_option_discovery },
	{ .name = "metrics",
	  .type = OPTION_TEXT,
	  .value = "ADDR:PORT",
	  .group = "Metrics",
	  .help = "Serve the metrics to Prometheus on this address, at "
		  "*http://*_ADDR:PORT_*/metrics*. _PORT_ alone means the "
		  "loopback address.",
	  .more = "There is no authentication. At most 16 clients are served at the same time, half of\n"
		  "them from one address. The metrics are collected at most five times a second.",
	  .set = target_option_metrics,
	  OPTION_AT(target_options, metrics) },
	{ .name = "metrics-file",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Write the metrics to _FILE_ every ten seconds, for the "
		  "textfile collector of node_exporter.",
	  .more = "Its name must end with _.prom_ there. The target writes _FILE.new_ and renames it, with\n"
		  "the rights that it has then (*--user*).",
	  OPTION_AT(target_options, metrics_file) },
	{ .name = "slow",
	  .type = OPTION_NUMBER,
	  .value = "MS",
	  .unit = "milliseconds",
	  .max = 3600000,
	  .help = "Log commands that take this long or longer, with the time "
		  "that they spent in each stage; 0 logs none.",
	  .more = "At most ten lines of each thread in ten seconds; the log says how many it left\n"
		  "out. The metric *rdma_target_slow_commands_total* counts all of them. See\n"
		  "*METRICS* for the stages.",
	  OPTION_AT(target_options, slow_ms) },
	{ .name = "state-dir",
	  .type = OPTION_DIR,
	  .value = "DIR",
	  .dflt_text = "a directory of the user that *rdma-target* runs as",
	  .group = "The process",
	  .help = "Keep in _DIR_ what must survive a restart: "
		  "reservations made with APTPL, saved mode values, "
		  "unfinished jobs. *none* keeps nothing.",
	  .more = "Without this option, the directory is the first of\n"
		  "\n"
		  "- _$STATE_DIRECTORY_, which systemd sets for a unit with *StateDirectory=*;\n"
		  "- _/var/lib/rdma-target_, if root starts *rdma-target*;\n"
		  "- _$XDG_STATE_HOME/rdma-target_;\n"
		  "- _~/.local/state/rdma-target_.\n"
		  "\n"
		  "There, each target has a directory of its own, which has the number of the target\n"
		  "as its name; see *IDENTITY*. A target whose option named the directory above before\n"
		  "goes on with that. *rdma-target* makes it, for *--user*. If that fails, or\n"
		  "others may write it, nothing survives, and a notice says so. If it is there and\n"
		  "cannot be used, *rdma-target* does not start. A directory that this option names\n"
		  "must be there.\n"
		  "\n"
		  "It keeps\n"
		  "\n"
		  "- persistent reservations that were made with APTPL;\n"
		  "- mode values that were saved (MODE SELECT with SP);\n"
		  "- the identifier of the target, in the file _id_; see *IDENTITY*;\n"
		  "- which disk each LUN is, in a file _luns.NUMBER_; see *IDENTITY*;\n"
		  "- the other ports of the target, in files _port.PORT_; see *IDENTITY*;\n"
		  "- an unfinished FORMAT UNIT or SANITIZE, which counts as failed at the next start.\n"
		  "\n"
		  "Each volume has a small text file there, named after its NAA identifier.\n"
		  "*rdma-target* replaces the whole file before it answers the command. The\n"
		  "file says which store it was written for; see *IDENTITY*. An empty file\n"
		  "whose name ends with _.lock_ lies beside it, and stays. A *ram:* volume\n"
		  "without *serial=* is another disk after each start, and has no file.\n"
		  "Without a directory, *rdma-target* refuses APTPL and SP, and forgets an\n"
		  "unfinished job.",
	  OPTION_AT(target_options, state_dir) },
	{ .name = "volumes-from",
	  .type = OPTION_DIR,
	  .value = "DIR",
	  .dflt_text = "new volumes come from *rdma-ctl* alone",
	  .help = "While it runs, open new volumes below _DIR_ without "
		  "*rdma-ctl*, too.",
	  .more = "See *RIGHTS*. _DIR_ must not be one that holds other files of the user. A link in\n"
		  "it is followed only to a file below it.",
	  OPTION_AT(target_options, volumes_from) },
	OPTION_ROW_PIDFILE(
		target_options,
		.help = "Write the process ID to _FILE_ when ready.",
		.more = "*rdma-target* removes the file at the end, or empties it if *--user* may not remove it.\n"
			"It keeps the file locked: a second program that uses the same file does not start."),
	{ .name = "daemonize",
	  .type = OPTION_FLAG,
	  .cmdline_only = true,
	  .help = "Return when the target serves, and leave it running.",
	  .more = "The exit status is 0 then, and 1 if it cannot start. Afterwards, the log goes to the\n"
		  "file that standard error is, if it is one, else to the journal of systemd or to\n"
		  "syslog. The working directory stays. Use *--pidfile* to find the process. A unit of\n"
		  "systemd needs no *--daemonize*.",
	  OPTION_AT(target_options, daemonize) },
	{ .name = "user",
	  .letter = 'u',
	  .type = OPTION_USER,
	  .value = "NAME",
	  .dflt_text = "the user that starts *rdma-target*",
	  .help = "Become this user, by name or number, when the "
		  "volumes are open.",
	  .more = "See *RIGHTS*.",
	  OPTION_AT(target_options, user) },
	{ .name = "no-sandbox",
	  .type = OPTION_FLAG,
	  .help = "Do not install the system call filter.",
	  .more = "The operations of the rings (io_uring) are not restricted either; see *RIGHTS*.",
	  OPTION_AT(target_options, no_sandbox) },
	OPTION_ROWS_LOG(target_options, "every request"),
	{ .name = "check-plugin",
	  .cmdline_only = true,
	  .type = OPTION_PATH,
	  .value = "SPEC",
	  .help = "Serve nothing; check that the store and the layers "
		  "of _SPEC_ keep the promises of "
		  "*rdma-block-plugin*(3). This overwrites blocks of "
		  "the volume.",
	  .more = "Prints a line for each promise, and exits with 1 when one is broken.",
	  .set = target_option_check_plugin },
	OPTION_ROWS_ABOUT,
};

static const struct option_table *const target_parts[] = {
	&volume_option_table,
	NULL,
};

const struct option_table target_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-target",
	.version = RDMA_BLOCK_VERSION,
	.rows = target_rows,
	.cnt = ARRAY_SIZE(target_rows),
	.parts = target_parts,
	.head = "Usage: rdma-target [OPTION]... --backing SPEC [--backing SPEC]...\n"
		"Serves files, block devices and memory as disks over RDMA (SRP), or over\n"
		"TCP where there is no RDMA device. The first SPEC is LUN 0, and so on.\n",
	.tail = "\n"
		"An allow RULE is WHO[:ro][:lun=N]. WHO is name:NAME or name:* (a key proves the\n"
		"name), an address (10.0.0.1, [fe80::1]), a network (10.0.0.0/24), 0x and the 32\n"
		"digits of an initiator port, all (everybody) or none (nobody). With :ro, these initiators may only read. With\n"
		":lun=N, they see the volume under that LUN. The first rule that fits counts.\n"
		"A volume that is not allowed does not exist for the initiator. Only the word\n"
		"all lets everybody in.\n"
		"A fault RULE is OP:KIND[:CONDITION]..., with\n"
		"  OP         read, write, flush, unmap, zero or any\n"
		"  KIND       error[=EIO|ENOSPC|ENOMEM|ENODEV|EROFS], delay=MS, short, torn,\n"
		"             corrupt, stuck (until SIGUSR1)\n"
		"  CONDITION  lba=A[-B], after=N, every=N, chance=P%, seed=N, count=N\n"
		"SIZE is a number of bytes, or has a unit: 64M, 1.5G, 2TiB (powers of 1024),\n"
		"3GB (powers of 1000).\n"
		"\n"
		"Example: rdma-target --backing disk.img --backing ram:256M\n"
		"After SIGTERM or SIGINT, rdma-target answers the commands in flight, flushes\n"
		"the volumes and exits with 0. SIGHUP: look for volumes that have grown.\n"
		"SIGUSR1: release stuck I/O. SIGUSR2: log the counters of each thread.\n",
};

void target_options_init(struct target_options *opt)
{
	*opt = (struct target_options){
		.poll_us = OPTIONS_POLL_US_DEFAULT,
		.discovery = "on",
		.log_level = LOG_NOTICE,
	};
	option_defaults(&target_option_table, opt);
}

void target_options_free(struct target_options *opt)
{
	for (unsigned int i = 0; i < opt->backing_cnt; i++)
		free(opt->backing_texts[i]);
	free(opt->backing_texts);
	free(opt->backings);
	opt->backing_texts = NULL;
	opt->backings = NULL;
	opt->backing_cnt = 0;
	if (opt->keys)
		key_file_free(opt->keys);
	free(opt->keys);
	opt->keys = NULL;
}

bool options_have_control(const struct target_options *opt)
{
	return opt->control && strcmp(opt->control, CONTROL_PATH_NONE) != 0;
}

bool options_keep_nothing(const struct target_options *opt)
{
	return opt->state_dir && !strcmp(opt->state_dir, OPTIONS_STATE_NONE);
}

uint16_t options_first_port(const struct target_options *opt)
{
	return opt->listen_cnt ? opt->listens[0].port : XP_URI_PORT;
}

bool options_has_low_port(const struct target_options *opt)
{
	for (unsigned int i = 0; i < opt->listen_cnt; i++) {
		if (opt->listens[i].port < IPPORT_RESERVED)
			return true;
	}
	return false;
}

size_t options_arena_len(const struct target_options *opt)
{
	uint64_t each = opt->buffers / opt->threads;
	size_t len = OPTIONS_BUFFERS_MIN;

	while (len <= each / 2)
		len *= 2;
	return len;
}
