/* SPDX-License-Identifier: BSD-2-Clause */
/* srpi-bench: the speed of libsrpi alone, without FUSE. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/srp_initiator.h"
#include "base/size.h"
#include "tests/bench/cycles.h"

/* The median is taken of the last ones, of which there are this many. */
#define TOOK_MAX (1u << 16)

static const char help[] =
	"Usage: srpi-bench [OPTIONS] URI[/VOLUME]\n"
	"\n"
	"Random or sequential I/O through libsrpi; prints one line of JSON.\n"
	"\n"
	"  -b, --block-size SIZE  bytes per operation (4k)\n"
	"  -d, --depth N          operations in flight (1)\n"
	"  -c, --channels N       connections (1)\n"
	"  -p, --poll-us N        poll so long before sleeping (0)\n"
	"  -s, --seconds N        how long (3)\n"
	"  -w, --write            write (the volume's contents are lost)\n"
	"  -q, --sequential       one block after the other\n";

struct bench {
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	struct srpi_mem *mem;
	struct srpi_io *ios;
	uint64_t *begun; /* cycles() at the start of each of ios */
	uint64_t *took;	 /* TOOK_MAX times; the oldest are overwritten */
	uint64_t block_size;
	unsigned int depth;
	unsigned int volume;
	unsigned int seconds;
	bool write;
	bool sequential;
	uint64_t blocks; /* size of the volume, in units of block_size */
	uint64_t next;
	uint64_t seed;
	uint64_t done;
	unsigned int busy;
	int err;
	bool stop;
};

/* In the guest, the exact time needs a system call. */
static double coarse_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* xorshift64 */
static uint64_t next_block(struct bench *b)
{
	if (b->sequential)
		return b->next++ % b->blocks;
	b->seed ^= b->seed << 13;
	b->seed ^= b->seed >> 7;
	b->seed ^= b->seed << 17;
	return b->seed % b->blocks;
}

static void submit(struct bench *b, struct srpi_io *io)
{
	io->offset = next_block(b) * b->block_size;
	b->begun[io - b->ios] = cycles();
	b->busy++;
	srpi_submit(b->session, io);
}

static void done(struct srpi_io *io, int res)
{
	struct bench *b = io->arg;

	b->took[b->done++ % TOOK_MAX] = cycles() - b->begun[io - b->ios];
	b->busy--;
	if (res && !b->err)
		b->err = res;
	if (!b->stop && !b->err)
		submit(b, io);
}

static void prepare(struct bench *b, uint8_t *buf)
{
	for (unsigned int i = 0; i < b->depth; i++)
		b->ios[i] = (struct srpi_io){
			.op = b->write ? SRPI_WRITE : SRPI_READ,
			.volume = b->volume,
			.len = b->block_size,
			.buf = buf + i * b->block_size,
			.mem = b->mem,
			.done = done,
			.arg = b,
		};
}

static double run(struct bench *b, double *ret_median_us)
{
	struct moment begin = moment_now();
	double end = coarse_seconds() + b->seconds;
	struct moment over;
	uint64_t median;

	for (unsigned int i = 0; i < b->depth; i++)
		submit(b, &b->ios[i]);
	while (b->busy > 0) {
		srpi_ctx_run(b->ctx, 1000);
		if (coarse_seconds() >= end)
			b->stop = true;
	}
	over = moment_now();
	median =
		cycles_median(b->took, b->done < TOOK_MAX ? b->done : TOOK_MAX);
	*ret_median_us = (double)median / cycles_per_us(begin, over);
	return over.seconds - begin.seconds;
}

static int find_volume(struct bench *b)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	int err = 0;

	srpi_session_info(b->session, &si);
	if (*si.volume)
		err = srpi_volume_find(b->session, si.volume, &b->volume);
	else if (srpi_volume_cnt(b->session) == 0)
		err = -ENOENT;
	if (!err)
		b->blocks = srpi_volume_info(b->session, b->volume)->size /
			    b->block_size;
	return !err && b->blocks == 0 ? -EINVAL : err;
}

static int bench(struct bench *b, const char *uri,
		 const struct srpi_options *options)
{
	size_t len = b->block_size * b->depth;
	uint8_t *buf = aligned_alloc(4096, (len + 4095) & ~4095ul);
	struct srpi_error e = { 0 };
	double median_us = 0;
	double seconds = 0;

	b->ios = calloc(b->depth, sizeof(*b->ios));
	b->begun = calloc(b->depth, sizeof(*b->begun));
	b->took = calloc(TOOK_MAX, sizeof(*b->took));
	if (!buf || !b->ios || !b->begun || !b->took)
		return -ENOMEM;
	memset(buf, 0x5a, len);
	if (srpi_connect_wait(b->ctx, uri, options, &b->session, &e)) {
		fprintf(stderr, "srpi-bench: %s\n", e.text);
		return e.err;
	}
	b->err = find_volume(b);
	if (!b->err)
		b->err = srpi_mem_register(b->session, buf, len, &b->mem, &e);
	if (!b->err) {
		prepare(b, buf);
		seconds = run(b, &median_us);
	}
	if (b->err)
		fprintf(stderr, "srpi-bench: %s\n",
			e.err ? e.text : strerror(-b->err));
	else
		printf("{\"iops\": %.0f, \"mib_per_s\": %.1f, "
		       "\"us\": %.2f, \"us_median\": %.2f}\n",
		       (double)b->done / seconds,
		       (double)(b->done * b->block_size) / seconds / 1048576,
		       seconds * 1e6 * b->depth / (double)b->done, median_us);
	srpi_mem_free(b->mem);
	srpi_close_wait(b->ctx, b->session);
	free(b->took);
	free(b->begun);
	free(b->ios);
	free(buf);
	return b->err;
}

static const struct option long_options[] = {
	{ "block-size", required_argument, NULL, 'b' },
	{ "depth", required_argument, NULL, 'd' },
	{ "channels", required_argument, NULL, 'c' },
	{ "poll-us", required_argument, NULL, 'p' },
	{ "seconds", required_argument, NULL, 's' },
	{ "write", no_argument, NULL, 'w' },
	{ "sequential", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static unsigned int number(const char *text)
{
	return (unsigned int)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	struct bench b = { .block_size = 4096,
			   .depth = 1,
			   .seconds = 3,
			   .seed = 88172645463325252ull };
	struct srpi_ctx_options copt = { .struct_size = sizeof(copt) };
	struct srpi_options opt = { .struct_size = sizeof(opt) };
	struct srpi_error e;
	int c;

	while ((c = getopt_long(argc, argv, "b:d:c:p:s:wqh", long_options,
				NULL)) != -1) {
		switch (c) {
		case 'b':
			if (size_parse(optarg, &b.block_size))
				return EXIT_FAILURE;
			break;
		case 'd':
			b.depth = number(optarg);
			break;
		case 'c':
			opt.channels = number(optarg);
			break;
		case 'p':
			copt.poll_us = number(optarg);
			break;
		case 's':
			b.seconds = number(optarg);
			break;
		case 'w':
			b.write = true;
			break;
		case 'q':
			b.sequential = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		default:
			return EXIT_FAILURE;
		}
	}
	if (optind != argc - 1 || b.depth == 0 || b.block_size == 0) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	if (srpi_ctx_create(&copt, &b.ctx, &e)) {
		fprintf(stderr, "srpi-bench: %s\n", e.text);
		return EXIT_FAILURE;
	}
	c = bench(&b, argv[optind], &opt);
	srpi_ctx_destroy(b.ctx);
	return c ? EXIT_FAILURE : EXIT_SUCCESS;
}
