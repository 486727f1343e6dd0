/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/options.h"

#include <string.h>

#include "config.h"
#include "base/list.h"
#include "base/log.h"
#include "base/option_rows.h"

static const struct option_row copy_rows[] = {
	{ .name = "requests",
	  .letter = 'r',
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = 1024,
	  .dflt = 16,
	  .help = "Keep up to this many requests in flight.",
	  OPTION_AT(copy_options, requests) },
	{ .name = "request-size",
	  .letter = 's',
	  .type = OPTION_SIZE,
	  .value = "SIZE",
	  .min = 4096,
	  .max = 16 << 20,
	  .step = 4096,
	  .dflt = 256 << 10,
	  .help = "Read and write up to this many bytes by one request.",
	  .more = "The memory is *--requests* times this size, and twice as much with "
		  "*--verify* or\n*--compare*. An RDMA device locks it.",
	  OPTION_AT(copy_options, request_size) },
	{ .name = "sparse",
	  .letter = 'S',
	  .type = OPTION_SIZE,
	  .value = "SIZE",
	  .max = 16 << 20,
	  .step = 4096,
	  .dflt = 4096,
	  .help = "Make a hole of zeroes in the data that are at least this long. "
		  "*0*: write them.",
	  .more = "Holes of the source stay holes in each case.",
	  OPTION_AT(copy_options, sparse) },
	{ .name = "resume",
	  .letter = 'R',
	  .type = OPTION_PATH,
	  .value = "FILE",
	  .help = "Record in this file what is copied, and continue a copy that "
		  "the file records.",
	  .more = "See *RESUMING*.",
	  OPTION_AT(copy_options, resume) },
	{ .name = "verify",
	  .type = OPTION_FLAG,
	  .help = "After the copy, read all of both and compare.",
	  OPTION_AT(copy_options, verify) },
	{ .name = "compare",
	  .type = OPTION_FLAG,
	  .help = "Copy nothing. Read all of both and compare.",
	  OPTION_AT(copy_options, compare) },
	{ .name = "progress",
	  .letter = 'p',
	  .type = OPTION_FLAG,
	  .help = "Print the progress also if standard error is no terminal.",
	  .more = "A terminal gets a bar, and other files a line each second.",
	  OPTION_AT(copy_options, progress) },
	{ .name = "channels",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .min = 1,
	  .max = 16,
	  .dflt_text = "2 over RDMA; 1 over TCP or with one processor",
	  .help = "Open this many connections to each target.",
	  OPTION_AT(copy_options, channels) },
	{ .name = "timeout",
	  .letter = 't',
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 1000,
	  .max = 3600000,
	  .dflt = 5000,
	  .help = "Give up connecting after this time.",
	  OPTION_AT(copy_options, timeout_ms) },
	{ .name = "wait",
	  .letter = 'w',
	  .type = OPTION_DURATION,
	  .value = "SECONDS",
	  .min = 1000,
	  .max = 600000,
	  .dflt = 600000,
	  .help = "Wait this long for a target whose connection is lost.",
	  OPTION_AT(copy_options, wait_ms) },
	OPTION_ROWS_LOG(copy_options, "each piece of the copy"),
	OPTION_ROWS_ABOUT,
};

const struct option_table copy_option_table = {
	.style = OPTION_LONG,
	.program = "srpcopy",
	.version = RDMA_BLOCK_VERSION,
	.rows = copy_rows,
	.cnt = ARRAY_SIZE(copy_rows),
	.head = "Usage: srpcopy [OPTION]... SOURCE DESTINATION\n"
		"Copies between volumes of SRP targets, files and streams. Holes stay holes.\n"
		"\n"
		"SOURCE, DESTINATION:\n"
		"  srp://HOST[:PORT]/VOLUME  a volume; also srp+rdma://, srp+tcp://\n"
		"  PATH                      a file, a block device or a pipe\n"
		"  -                         standard input or output\n"
		"\n",
};

static bool copy_options_check(const struct copy_options *o)
{
	const char *both = o->verify	? "--verify"
			   : o->compare ? "--compare"
			   : o->resume	? "--resume"
					: NULL;
	bool stream = !strcmp(o->source, "-") || !strcmp(o->destination, "-");

	if (both && stream)
		log_error("%s: not with '-', which cannot be read again", both);
	else if (o->compare && o->verify)
		log_error("--compare copies nothing; use it without --verify");
	else if (o->compare && o->resume)
		log_error("--compare copies nothing; use it without --resume");
	else
		return true;
	return false;
}

enum option_verdict copy_options_parse(int argc, char **argv,
				       struct copy_options *ret)
{
	enum option_verdict verdict;
	int first;

	*ret = (struct copy_options){ .log_level = LOG_NOTICE };
	option_defaults(&copy_option_table, ret);
	verdict = option_parse(&copy_option_table, argc, argv, ret, &first);
	if (verdict != OPTION_RUN)
		return verdict;
	if (argc - first < 2) {
		log_error("no %s; try: srpcopy disk.img srp://127.0.0.1/disk",
			  first == argc ? "SOURCE" : "DESTINATION");
		return OPTION_BAD;
	}
	if (argc - first > 2) {
		log_error("unexpected '%s' after the DESTINATION",
			  argv[first + 2]);
		return OPTION_BAD;
	}
	ret->source = argv[first];
	ret->destination = argv[first + 1];
	return copy_options_check(ret) ? OPTION_RUN : OPTION_BAD;
}
