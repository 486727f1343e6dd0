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

/* Medians and percentiles are those of the last ones, of which there are this many. */
#define TOOK_MAX (1u << 16)

static const char help[] =
	"Usage: srpi-bench [OPTIONS] URI[/VOLUME]\n"
	"\n"
	"Random or sequential I/O through libsrpi; prints one line of JSON.\n"
	"Without VOLUME, the sessions take the target's volumes in turn.\n"
	"\n"
	"  -b, --block-size SIZE  bytes per operation (4k)\n"
	"  -d, --depth N          operations in flight (1)\n"
	"  -c, --channels N       connections (1)\n"
	"  -i, --initiators N     sessions, each with that depth (1)\n"
	"  -p, --poll-us N        poll so long before sleeping (0)\n"
	"  -s, --seconds N        how long (3)\n"
	"  -w, --write            write (the volume's contents are lost)\n"
	"  -q, --sequential       one block after the other\n";

struct client {
	struct bench *bench;
	struct srpi_session *session;
	struct srpi_mem *mem;
	struct srpi_io *ios;
	uint64_t *begun; /* cycles() at the start of each of ios */
	uint8_t *buf;
	unsigned int volume;
	uint64_t blocks; /* size of the volume, in units of block_size */
	uint64_t next;
	uint64_t seed;
	uint64_t done;
};

struct bench {
	struct srpi_ctx *ctx;
	struct client *clients;
	uint64_t *took; /* TOOK_MAX times; the oldest are overwritten */
	uint64_t block_size;
	unsigned int initiators;
	unsigned int depth;
	unsigned int seconds;
	bool write;
	bool sequential;
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
static uint64_t next_block(struct client *c)
{
	if (c->bench->sequential)
		return c->next++ % c->blocks;
	c->seed ^= c->seed << 13;
	c->seed ^= c->seed >> 7;
	c->seed ^= c->seed << 17;
	return c->seed % c->blocks;
}

static void submit(struct client *c, struct srpi_io *io)
{
	io->offset = next_block(c) * c->bench->block_size;
	c->begun[io - c->ios] = cycles();
	c->bench->busy++;
	srpi_submit(c->session, io);
}

static void done(struct srpi_io *io, int res)
{
	struct client *c = io->arg;
	struct bench *b = c->bench;

	b->took[b->done++ % TOOK_MAX] = cycles() - c->begun[io - c->ios];
	c->done++;
	b->busy--;
	if (res && !b->err)
		b->err = res;
	if (!b->stop && !b->err)
		submit(c, io);
}

static void prepare(struct client *c)
{
	const struct bench *b = c->bench;

	for (unsigned int i = 0; i < b->depth; i++)
		c->ios[i] = (struct srpi_io){
			.op = b->write ? SRPI_WRITE : SRPI_READ,
			.volume = c->volume,
			.len = b->block_size,
			.buf = c->buf + i * b->block_size,
			.mem = c->mem,
			.done = done,
			.arg = c,
		};
}

/* Returns the seconds that it took. */
static double run(struct bench *b, double *ret_cycles_per_us)
{
	struct moment begin = moment_now();
	double end = coarse_seconds() + b->seconds;
	struct moment over;

	for (unsigned int n = 0; n < b->initiators; n++)
		for (unsigned int i = 0; i < b->depth; i++)
			submit(&b->clients[n], &b->clients[n].ios[i]);
	while (b->busy > 0) {
		srpi_ctx_run(b->ctx, 1000);
		if (coarse_seconds() >= end)
			b->stop = true;
	}
	over = moment_now();
	*ret_cycles_per_us = cycles_per_us(begin, over);
	return over.seconds - begin.seconds;
}

static int client_find_volume(struct client *c)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	unsigned int cnt = srpi_volume_cnt(c->session);
	int err = 0;

	srpi_session_info(c->session, &si);
	if (*si.volume)
		err = srpi_volume_find(c->session, si.volume, &c->volume);
	else if (cnt == 0)
		err = -ENOENT;
	else
		c->volume = (unsigned int)(c - c->bench->clients) % cnt;
	if (!err)
		c->blocks = srpi_volume_info(c->session, c->volume)->size /
			    c->bench->block_size;
	return !err && c->blocks == 0 ? -EINVAL : err;
}

/* client_close() also closes a client that has not been opened entirely. */
static int client_open(struct client *c, struct bench *b, const char *uri,
		       const struct srpi_options *options)
{
	size_t len = b->block_size * b->depth;
	struct srpi_error e = { 0 };
	int err;

	c->bench = b;
	c->seed = 88172645463325252ull + (uint64_t)(c - b->clients);
	c->buf = aligned_alloc(4096, (len + 4095) & ~4095ul);
	c->ios = calloc(b->depth, sizeof(*c->ios));
	c->begun = calloc(b->depth, sizeof(*c->begun));
	if (!c->buf || !c->ios || !c->begun)
		return -ENOMEM;
	memset(c->buf, 0x5a, len);
	err = srpi_connect_wait(b->ctx, uri, options, &c->session, &e);
	if (!err)
		err = client_find_volume(c);
	if (!err)
		err = srpi_mem_register(c->session, c->buf, len, &c->mem, &e);
	if (err && e.err)
		fprintf(stderr, "srpi-bench: %s\n", e.text);
	if (!err)
		prepare(c);
	return err;
}

static void client_close(struct client *c)
{
	srpi_mem_free(c->mem);
	if (c->session)
		srpi_close_wait(c->bench->ctx, c->session);
	free(c->begun);
	free(c->ios);
	free(c->buf);
}

/* Jain's index of what the clients have done: 1 if all did the same, 1/N if one
 * of N did everything. */
static double fairness(const struct bench *b)
{
	double sum = 0;
	double squares = 0;

	for (unsigned int n = 0; n < b->initiators; n++) {
		double x = (double)b->clients[n].done;

		sum += x;
		squares += x * x;
	}
	return sum * sum / (b->initiators * squares);
}

static void show(struct bench *b, double seconds, double per_us)
{
	size_t cnt = b->done < TOOK_MAX ? b->done : TOOK_MAX;
	size_t p99 = cnt * 99 / 100;
	double median = (double)cycles_median(b->took, cnt);

	printf("{\"iops\": %.0f, \"mib_per_s\": %.1f, \"us\": %.2f, "
	       "\"us_median\": %.2f, \"us_p99\": %.2f, \"fairness\": %.4f}\n",
	       (double)b->done / seconds,
	       (double)(b->done * b->block_size) / seconds / 1048576,
	       seconds * 1e6 * b->depth * b->initiators / (double)b->done,
	       median / per_us, (double)b->took[p99] / per_us, fairness(b));
}

static int bench(struct bench *b, const char *uri,
		 const struct srpi_options *options)
{
	double seconds;
	double per_us;

	b->clients = calloc(b->initiators, sizeof(*b->clients));
	b->took = calloc(TOOK_MAX, sizeof(*b->took));
	if (!b->clients || !b->took)
		return -ENOMEM;
	for (unsigned int n = 0; n < b->initiators && !b->err; n++)
		b->err = client_open(&b->clients[n], b, uri, options);
	if (!b->err) {
		seconds = run(b, &per_us);
		if (!b->err)
			show(b, seconds, per_us);
	}
	if (b->err)
		fprintf(stderr, "srpi-bench: %s\n", strerror(-b->err));
	for (unsigned int n = 0; n < b->initiators; n++)
		client_close(&b->clients[n]);
	free(b->took);
	free(b->clients);
	return b->err;
}

static const struct option long_options[] = {
	{ "block-size", required_argument, NULL, 'b' },
	{ "depth", required_argument, NULL, 'd' },
	{ "channels", required_argument, NULL, 'c' },
	{ "initiators", required_argument, NULL, 'i' },
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
	struct bench b = {
		.block_size = 4096, .initiators = 1, .depth = 1, .seconds = 3
	};
	struct srpi_ctx_options copt = { .struct_size = sizeof(copt) };
	struct srpi_options opt = { .struct_size = sizeof(opt) };
	struct srpi_error e;
	int c;

	while ((c = getopt_long(argc, argv, "b:d:c:i:p:s:wqh", long_options,
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
		case 'i':
			b.initiators = number(optarg);
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
	if (optind != argc - 1 || b.depth == 0 || b.block_size == 0 ||
	    b.initiators == 0) {
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
