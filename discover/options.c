/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/options.h"

#include <net/if.h>
#include <string.h>

#include "config.h"
#include "base/list.h"
#include "base/option_rows.h"

#define RULES_DEFAULT "/etc/rdma-discover.conf"

static const struct {
	const char *name;
	enum dgram_carrier carrier;
} carriers[] = {
	{ "unicast", DGRAM_UNICAST },
	{ "multicast", DGRAM_MULTICAST },
	{ "rdma", DGRAM_RDMA },
};

static bool discover_option_carrier(void *options, const struct option_row *row,
				    const char *value, struct error *e)
{
	struct discover_options *o = options;

	for (size_t i = 0; i < ARRAY_SIZE(carriers); i++) {
		if (strcmp(value, carriers[i].name) == 0) {
			o->finder.carriers |= 1u << carriers[i].carrier;
			return true;
		}
	}
	return error_refuse(e, "not unicast, multicast or rdma");
}

static bool discover_option_interface(void *options,
				      const struct option_row *row,
				      const char *value, struct error *e)
{
	struct discover_options *o = options;

	o->finder.interface = value;
	return if_nametoindex(value) ||
	       error_refuse(e, "no interface of this machine; see ip link");
}

static bool discover_option_key(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	struct discover_options *o = options;
	struct key_file keys;

	if (key_file_read(value, &keys, e))
		return false;
	/* For the life of the process: the bytes of the key. */
	if (key_file_derive(&keys, KEY_OF_DISCOVERY, &o->keys))
		error_refuse(e, "out of memory");
	key_file_free(&keys);
	if (!o->keys.key)
		return false;
	if (!o->keys.cnt)
		return error_refuse(e, "keys '%s': no key is in it", value);
	o->finder.key = key_hmac(&o->keys.key[0]);
	return true;
}

static bool discover_option_mount(void *options, const struct option_row *row,
				  const char *value, struct error *e)
{
	struct discover_options *o = options;
	const char *equal = strchr(value, '=');

	o->mount = value;
	return (equal && equal != value && equal[1]) ||
	       error_refuse(e, "not VOLUME=DIR, such as disk=/mnt");
}

static const struct option_row discover_rows[] = {
	OPTION_ROW_JSON(discover_options,
			.help = "Print one JSON object with an array of "
				"targets."),
	{ .name = "add-target",
	  .letter = 'c',
	  .type = OPTION_FLAG,
	  .help = "Print lines for the file _add_target_ of the kernel's "
		  "initiator, *ib_srp*, as *ibsrpdm -c* does.",
	  .more = "A line with dest= has no pkey=: *ib_srp* then connects by RDMA CM, which takes the\n"
		  "P_Key from the interface on the way. Lines of *ibsrpdm* have dgid= and pkey=.",
	  OPTION_AT(discover_options, add_target) },
	{ .name = "mount",
	  .letter = 'm',
	  .type = OPTION_TEXT,
	  .value = "VOLUME=DIR",
	  .help = "Find the target that has _VOLUME_, and mount the volume "
		  "at _DIR_ with *rdma-fuse*(8).",
	  .more = "_VOLUME_ is the name of a volume, or _INSTANCE/NAME_ where several targets have one\n"
		  "of that name. *rdma-discover* logs in to the targets that were found, to ask for\n"
		  "their volumes. If several have the volume, nothing is mounted.",
	  .set = discover_option_mount },
	{ .name = "serves",
	  .type = OPTION_TEXT,
	  .value = "URI",
	  .help = "Tell by the exit status whether the target serves at _URI_.",
	  .more = "This is found out by a login. A target that refuses the login serves, unless it\n"
		  "has another port identifier than _URI_ demands. The daemon asks so before it\n"
		  "removes a mount or a login.",
	  OPTION_AT(discover_options, serves) },
	{ .name = "wait",
	  .letter = 't',
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 100,
	  .max = 60000,
	  .dflt = 1000,
	  .group = "How to ask",
	  .help = "Wait for answers this long.",
	  OPTION_AT(discover_options, wait_ms) },
	{ .name = "carrier",
	  .type = OPTION_TEXT,
	  .value = "CARRIER",
	  .dflt_text = "with a _HOST_, unicast; else multicast and rdma",
	  .help = "Ask by *unicast* (UDP to each _HOST_), *multicast* (UDP) or "
		  "*rdma* (multicast of the RDMA fabric). May be given several "
		  "times.",
	  .set = discover_option_carrier,
	  .again = true },
	{ .name = "interface",
	  .letter = 'i',
	  .type = OPTION_TEXT,
	  .value = "NAME",
	  .dflt_text = "all that are up",
	  .help = "Ask by this interface only; not for unicast.",
	  .set = discover_option_interface },
	{ .name = "key",
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Ask with the first key in _FILE_, and believe only targets "
		  "that have it: see *rdma-target --keys*.",
	  .set = discover_option_key },
	{ .name = "daemon",
	  .type = OPTION_FLAG,
	  .group = "Follow",
	  .help = "Do not end: log in and mount, as the rules say, when targets "
		  "come.",
	  .more = "It stays in the foreground. See *DAEMON*.",
	  OPTION_AT(discover_options, daemon) },
	{ .name = "rules",
	  .letter = 'f',
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .dflt_text = "_" RULES_DEFAULT "_",
	  .help = "Read the rules of *--daemon* from _FILE_: "
		  "*rdma-discover-rules*(5).",
	  OPTION_AT(discover_options, rules) },
	{ .name = "period",
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 200,
	  .max = 3600000,
	  .dflt = 10000,
	  .help = "With *--daemon*, ask again after this time.",
	  OPTION_AT(discover_options, period_ms) },
	OPTION_ROWS_LOG(discover_options, "every answer"),
	OPTION_ROWS_ABOUT,
};

const struct option_table discover_option_table = {
	.style = OPTION_LONG,
	.program = "rdma-discover",
	.version = RDMA_BLOCK_VERSION,
	.rows = discover_rows,
	.cnt = ARRAY_SIZE(discover_rows),
	.head = "Usage: rdma-discover [OPTION]... [HOST[:PORT]]...\n"
		"Finds SRP targets: on the networks of this machine, or those of each HOST.\n"
		"Shows what they are called, where they listen, and whether this machine can\n"
		"use that.\n"
		"\n",
};

static bool discover_take_hosts(struct discover_options *o, int argc,
				char **argv)
{
	if (argc > FINDER_HOSTS_MAX) {
		log_error("more than %u hosts", FINDER_HOSTS_MAX);
		return false;
	}
	for (int i = 0; i < argc; i++)
		o->hosts[i] = argv[i];
	o->finder.hosts = o->hosts;
	o->finder.host_cnt = (unsigned int)argc;
	return true;
}

static bool discover_check(const struct discover_options *o)
{
	if (o->json + o->add_target + (o->mount != NULL) + (o->serves != NULL) +
		    o->daemon >
	    1) {
		log_error("only one of --json, --add-target, --mount, --serves "
			  "and --daemon is possible");
		return false;
	}
	if (o->finder.carriers == 1u << DGRAM_UNICAST && !o->finder.host_cnt) {
		log_error("--carrier unicast: name a host to ask");
		return false;
	}
	return true;
}

enum option_verdict discover_options_parse(int argc, char **argv,
					   struct discover_options *ret)
{
	enum option_verdict verdict;
	int first;

	*ret = (struct discover_options){ .log_level = LOG_NOTICE,
					  .rules = RULES_DEFAULT };
	option_defaults(&discover_option_table, ret);
	verdict = option_parse(&discover_option_table, argc, argv, ret, &first);
	if (verdict != OPTION_RUN)
		return verdict;
	if (!discover_take_hosts(ret, argc - first, argv + first))
		return OPTION_BAD;
	if (!ret->finder.carriers)
		ret->finder.carriers = ret->finder.host_cnt && !ret->daemon
					       ? 1u << DGRAM_UNICAST
					       : 1u << DGRAM_UNICAST |
							 1u << DGRAM_MULTICAST |
							 1u << DGRAM_RDMA;
	ret->finder.wait_ms = (unsigned int)ret->wait_ms;
	return discover_check(ret) ? OPTION_RUN : OPTION_BAD;
}
