/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of checksums: a header, then a record of 16 bytes for each block.
 *
 * A record has the sum of what was written last and of what was there before. Which
 * of them the block has is known when its epoch is settled: a flush has covered the
 * write. Until then a crash may leave either. A record of zeroes, which a hole is,
 * says that the block was never written.
 *
 * Epochs are numbers that grow with each flush, and are never used twice. Each
 * opening of the file takes a new range of them (life), so that what an earlier
 * life has left unsettled is known by its epoch.
 *
 * Thread: one at a time. All functions may block.
 */
#ifndef CRC32C_SUMS_H
#define CRC32C_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRCSUM_MARK_MAX 320

/* crcsum.flags */
enum {
	CRCSUM_NONE = 1 << 0,	 /* no sum: never written, or deallocated */
	CRCSUM_ANY = 1 << 1,	 /* what was there before is not known */
	CRCSUM_DOUBT = 1 << 2,	 /* sum or before, whatever the epoch says */
	CRCSUM_DAMAGED = 1 << 3, /* the record does not match its own check */
};

struct crcsum {
	uint32_t sum;
	uint32_t before;
	uint64_t epoch;
	unsigned int flags;
};

struct crcsums {
	int fd;
	bool read_only;
	uint32_t block_size;
	uint64_t bytes; /* of the volume */
	char mark[CRCSUM_MARK_MAX];
	uint64_t settled;  /* every epoch up to this one is */
	uint64_t life;	   /* the first epoch of this life */
	uint64_t epoch;	   /* the present one */
	uint64_t reserved; /* epochs below this one are this life's */
	uint64_t used;	   /* the latest epoch that is in a record */
	uint64_t forgot;   /* the latest in which a record may have been lost by
			    * crcsums_forget() */
	bool has_doubt;	   /* a record in doubt has been written since the last
			    * crcsums_sync() */
};

struct crcsums_wanted {
	const char *path;
	const char *mark; /* names the data; empty: nothing does */
	uint64_t bytes;
	uint32_t block_size;
	bool make;   /* a file that is not there is made */
	bool forget; /* what the file has is of no use */
	bool read_only;
};

/* 0, or -errno and a clause in @msg. */
int crcsums_open(struct crcsums *s, const struct crcsums_wanted *wanted,
		 char *msg, size_t msg_len);

/* @is_settled: every write that has ended is stable. */
void crcsums_close(struct crcsums *s, bool is_settled);

/* The records of @cnt blocks from @first on. 0 or -errno. */
int crcsums_read(struct crcsums *s, uint64_t first, unsigned int cnt,
		 struct crcsum *ret);
int crcsums_write(struct crcsums *s, uint64_t first, unsigned int cnt,
		  const struct crcsum *sums);

/* As if the blocks had never been written. 0 or -errno. */
int crcsums_forget(struct crcsums *s, uint64_t first, uint64_t cnt);

/* The records survive a power cut from now on. 0 or -errno. */
int crcsums_sync(struct crcsums *s);

/* Begins another epoch. 0 or -errno. */
int crcsums_next_epoch(struct crcsums *s);

/* The data of each epoch up to @epoch is stable. 0 or -errno. */
int crcsums_settle(struct crcsums *s, uint64_t epoch);

/* May the block have sum or before? */
static inline bool crcsums_in_doubt(const struct crcsums *s,
				    const struct crcsum *c)
{
	if (c->flags & (CRCSUM_NONE | CRCSUM_DAMAGED))
		return false;
	if (c->flags & CRCSUM_DOUBT)
		return true;
	return c->epoch > s->settled && c->epoch < s->life &&
	       (c->sum != c->before || c->flags & CRCSUM_ANY);
}

#endif
