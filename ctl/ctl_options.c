/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_options.h"

#include "base/list.h"
#include "base/option_rows.h"
#include "config.h"
#include "config/config_json.h"

static const struct option_row ctl_rows[] = {
	{ .name = "control",
	  .type = OPTION_PATH,
	  .value = "PATH",
	  .dflt_text = "$RDMA_TARGET_CONTROL, else the only target that "
		       "runs here",
	  .help = "Talk to the target that listens on this socket.",
	  .more = "Without this option and the variable, *rdma-ctl* looks for the sockets of targets in\n"
		  "_$XDG_RUNTIME_DIR/rdma-target_ (unless it runs as root), then in _/run/rdma-target_.\n"
		  "A target on port 5555 has _control_ there, one on another port _control.PORT_. If\n"
		  "several targets run, *rdma-ctl* names their sockets and asks none of them.",
	  OPTION_AT(ctl_options, control) },
	{ .name = "timeout",
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 1,
	  .max = 86400000,
	  .dflt = 30000,
	  .help = "Give up when the target does not answer for this long.",
	  .more = "While the target works on a request, *rdma-ctl* asks it by another connection\n"
		  "whether it is still there. A process that is stopped (SIGSTOP) does not answer.",
	  OPTION_AT(ctl_options, timeout_ms) },
	OPTION_ROW_JSON(ctl_options,
			.help = "Print the target's answer in JSON."),
	{ .name = "dry-run",
	  .letter = 'n',
	  .type = OPTION_FLAG,
	  .help = "Print what *apply* would change and what stands in the "
		  "way, and change nothing.",
	  OPTION_AT(ctl_options, dry_run) },
	{ .name = "prune",
	  .type = OPTION_FLAG,
	  .help = "Let *apply* and *diff* also remove what the file does not "
		  "have.",
	  OPTION_AT(ctl_options, prune) },
	{ .name = "force",
	  .letter = 'f',
	  .type = OPTION_FLAG,
	  .help = "Remove volumes that initiators see, after ending their "
		  "commands. With *save*: replace a file with volumes by one "
		  "without.",
	  OPTION_AT(ctl_options, force) },
	OPTION_ROWS_ABOUT,
};

static const struct option_row ctl_verb_rows[] = {
	{ .name = "status",
	  .help = "Show whether the target is well, since when it is not, what "
		  "ends that, and what it does. *rdma-ctl* without a verb "
		  "does the same." },
	{ .name = "tree",
	  .help = "Show the volumes with their stores, who may use them, and "
		  "who does." },
	{ .name = "ls", .help = "The same as *tree*." },
	{ .name = "show",
	  .help = "Print the configuration of the running target, in JSON." },
	{ .name = "volume list", .help = "List the volumes." },
	{ .name = "volume show",
	  .value = "NAME",
	  .help = "Show all about a volume, and who uses it." },
	{ .name = "volume add",
	  .type = OPTION_PATH,
	  .value = "SPEC",
	  .keys = &volume_option_table,
	  .help = "Add a volume. _SPEC_ is the same as for *--backing* of "
		  "*rdma-target*(8)." },
	{ .name = "volume remove", .value = "NAME", .help = "Remove a volume." },
	{ .name = "volume forget",
	  .value = "NAME",
	  .help = "Let other volumes have the LUNs of one that was removed." },
	{ .name = "volume resize",
	  .value = "NAME [SIZE]",
	  .help = "Grow the file of a volume. Without _SIZE_, check whether "
		  "the store has grown." },
	{ .name = "volume set",
	  .value = "NAME PLUGIN KEY=VALUE...",
	  .help = "Change parameters of a plugin of a volume, such as the "
		  "limits of the layer qos. The plugin must support this while "
		  "the volume is served." },
	{ .name = "volume allow",
	  .value = "NAME [RULE]...",
	  .help = "Replace the access rules of a volume. Without _RULE_, show "
		  "them: those of the target, after *target:*, if the volume "
		  "has none of its own." },
	{ .name = "volume eject",
	  .value = "NAME",
	  .help = "Eject the medium of a removable volume, when its running "
		  "commands have ended and its cache is flushed. New commands "
		  "find no medium. If the flush fails, the medium stays. If "
		  "they have not ended after *--stop-timeout* of "
		  "*rdma-target*(8), the eject is taken back: the medium "
		  "stays, and the error says what did not end. It "
		  "is back when the target starts again." },
	{ .name = "volume load",
	  .value = "NAME",
	  .help = "Load the ejected medium again." },
	{ .name = "session list",
	  .help = "List the initiators that are logged in. NAME is proved by "
		  "a key; \"-\" is nothing proved. Over RDMA, the "
		  "last column has what was negotiated: MTU of the connection "
		  "and the port, READ depth, P_Key, service level (SL)." },
	{ .name = "session kick",
	  .value = "INITIATOR",
	  .help = "End the session of an initiator, and wait until none of "
		  "its commands is left. The initiator may log in again." },
	{ .name = "allow",
	  .value = "[RULE]...",
	  .help = "Replace the access rules of the target: *all* lets "
		  "everybody in, *none* nobody. End the sessions "
		  "that would see other volumes, and wait until none of "
		  "their commands is left. Their initiators may log in "
		  "again. Without _RULE_, show the rules." },
	{ .name = "key list",
	  .help = "List the names that have keys (*--keys* of *rdma-target*(8)), "
		  "the newest key of a name first. PRINT tells keys apart: it "
		  "is the same for the same key, and tells nothing of it." },
	{ .name = "key add",
	  .value = "NAME [ro]",
	  .help = "Give a name a key, which comes from standard input: in "
		  "hexadecimal digits or base64, or as a line of a file of "
		  "keys. *ro*: it may only read. Write the file, and let the "
		  "target read it." },
	{ .name = "key rotate",
	  .value = "NAME",
	  .help = "Give a name a newer key, from standard input. The key of "
		  "before is good, too, until it is removed; an older one is "
		  "removed." },
	{ .name = "key remove",
	  .value = "NAME [old]",
	  .help = "Remove the keys of a name, or the older of two keys. End "
		  "the sessions of that name; its initiators may log in again "
		  "with a key that is left." },
	{ .name = "key reload",
	  .help = "Let the target read its file of keys again, after another "
		  "program has changed it." },
	{ .name = "listen add",
	  .value = "URI",
	  .help = "Listen on another address; _URI_ is that of *--listen* of "
		  "*rdma-target*(8), with a numeric address. Over TCP, make the "
		  "socket and hand it over." },
	{ .name = "listen remove",
	  .value = "URI",
	  .help = "Listen on an address no more. Sessions that came by it go "
		  "on; *session kick* ends them. The last address stays." },
	{ .name = "qos",
	  .value = "[NAME [KEY=VALUE]...]",
	  .help = "Change the limits of a volume with the layer qos, as "
		  "*volume set* _NAME_ *qos*. Without _KEY_, show its limits; "
		  "without arguments, those of all volumes." },
	{ .name = "fault",
	  .value = "NAME [RULE]...",
	  .help = "Replace the faults of a volume, for tests; *none* ends all "
		  "of them. Without _RULE_, show them. What is stuck goes on. The volume must have "
		  "been added with *fault=*." },
	{ .name = "events",
	  .help = "Print what happens, until interrupted: logins and logouts, "
		  "volumes, paths, configurations, errors. One line each; with "
		  "*--json*, one object each." },
	{ .name = "metrics",
	  .help = "Print all counters of the target, in the text format of "
		  "Prometheus." },
	{ .name = "top",
	  .value = "[SECONDS [COUNT]]",
	  .help = "Show what volumes and initiators do: commands and bytes a "
		  "second, and the time in each stage. A new look is taken "
		  "every _SECONDS_ (default: 1), _COUNT_ times. On a terminal "
		  "it is a screen, else lines. Programs take *--json metrics*." },
	{ .name = "diff",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Print what *apply* _FILE_ would change." },
	{ .name = "apply",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Change the target to match the configuration in _FILE_." },
	{ .name = "reload",
	  .help = "Apply the file that the target was started with "
		  "(*--config*) again, without *--prune*, and check for volumes "
		  "that have grown." },
	{ .name = "save",
	  .help = "Write the configuration to the file that the target was "
		  "started with (*--config*)." },
	{ .name = "check",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Check the configuration in _FILE_. Needs no target." },
	{ .name = "loglevel",
	  .value = "LEVEL",
	  .choices = log_level_names,
	  .help = "Log up to *error*, *warning*, *notice*, *info* or "
		  "*debug*, also of the process that answers "
		  "*rdma-discover*(1)." },
	{ .name = "help",
	  .value = "[VERB]",
	  .help = "Show what a verb does, and what it takes." },
};

const struct option_table ctl_verb_table = {
	.style = OPTION_VERB,
	.rows = ctl_verb_rows,
	.cnt = ARRAY_SIZE(ctl_verb_rows),
	.head = "Verbs:\n",
};

static const struct option_table *const ctl_parts[] = { &ctl_verb_table, NULL };

const struct option_table ctl_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-ctl",
	.version = RDMA_BLOCK_VERSION,
	.rows = ctl_rows,
	.cnt = ARRAY_SIZE(ctl_rows),
	.parts = ctl_parts,
	.head = "Usage: rdma-ctl [OPTION]... VERB [ARGUMENT]...\n"
		"Shows the state of a running rdma-target, and changes it.\n\n",
	.tail = "\n"
		"Exit status: 0 done; 1 refused, or wrong usage: nothing has changed; 3 the target\n"
		"cannot be reached; 4 (diff) there are differences.\n",
};
