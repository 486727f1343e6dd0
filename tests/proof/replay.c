/* SPDX-License-Identifier: BSD-2-Clause */
/* proof-replay: makes a state that a power cut could have left. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/proof/write_log.h"

static const char help[] =
	"Usage: proof-replay LOG\n"
	"       proof-replay LOG IMAGE FROM TO [SEED]\n"
	"\n"
	"Prints for each flush in LOG how many records end before it and with it. "
	"Or\n"
	"repeats the records FROM (included) to TO (excluded) on IMAGE: all of "
	"them, or,\n"
	"with SEED, a random choice of their 4096-byte blocks.\n";

#define UNIT 4096

struct replay {
	struct write_log log;
	int image;
	bool some;
	uint64_t random;
};

/* splitmix64 */
static uint64_t random_next(struct replay *r)
{
	uint64_t z = r->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* The length up to the next multiple of UNIT, at most. */
static uint64_t piece_len(const struct write_log_record *rec, uint64_t done)
{
	uint64_t room = UNIT - (rec->offset + done) % UNIT;
	uint64_t left = rec->len - done;

	return left < room ? left : room;
}

static int apply(struct replay *r, const struct write_log_record *rec,
		 uint64_t data)
{
	uint8_t buf[UNIT];
	uint64_t n;

	for (uint64_t done = 0; done < rec->len; done += n) {
		off_t at = (off_t)(rec->offset + done);

		n = piece_len(rec, done);
		if (r->some && random_next(r) & 1)
			continue;
		memset(buf, 0, sizeof(buf));
		if (rec->op == WRITE_LOG_WRITE &&
		    pread(r->log.fd, buf, n, (off_t)(data + done)) !=
			    (ssize_t)n)
			return -EIO;
		if (pwrite(r->image, buf, n, at) != (ssize_t)n)
			return -EIO;
	}
	return 0;
}

static int replay(struct replay *r, uint64_t from, uint64_t to)
{
	struct write_log_record rec;
	uint64_t data, pos = 0;
	int err = 0;

	for (uint64_t i = 0; i < to && !err; i++) {
		err = write_log_read(&r->log, &pos, &rec, &data);
		if (!err && i >= from && rec.op != WRITE_LOG_FLUSH)
			err = apply(r, &rec, data);
	}
	return err;
}

static int print_flushes(const struct write_log *log)
{
	struct write_log_record rec;
	uint64_t data, pos = 0;
	uint64_t cnt = write_log_cnt(log);
	int err = 0;

	for (uint64_t i = 0; i < cnt && !err; i++) {
		err = write_log_read(log, &pos, &rec, &data);
		if (!err && rec.op == WRITE_LOG_FLUSH)
			printf("%" PRIu64 "\n", i + 1);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct replay r = { .some = argc == 6 };
	int err;

	if (argc != 2 && argc != 5 && argc != 6) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	err = write_log_open(&r.log, argv[1]);
	if (!err && argc == 2) {
		err = print_flushes(&r.log);
	} else if (!err) {
		r.image = open(argv[2], O_WRONLY | O_CLOEXEC);
		r.random = r.some ? strtoull(argv[5], NULL, 10) : 0;
		err = r.image < 0 ? -errno
				  : replay(&r, strtoull(argv[3], NULL, 10),
					   strtoull(argv[4], NULL, 10));
	}
	if (err)
		fprintf(stderr, "proof-replay: %s\n", strerror(-err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
