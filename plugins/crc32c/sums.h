/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of checksums: a header, then a record of 16 bytes for each block.
 *
 * A record has the sum of the last write and the sum of the data before it.
 * When its epoch is settled, a flush has covered the write, and the block has
 * the first sum. Until then, a crash may leave either data. A record of zeroes,
 * such as in a hole, says that the block was never written.
 *
 * Epochs are numbers that grow with each flush and are never used twice. Each
 * time the file is opened, it takes a new range of epochs (life). The epoch of
 * a record therefore shows whether an earlier life has left it unsettled.
 *
 * Thread: one at a time. All functions may block.
 */
#ifndef CRC32C_SUMS_H
#define CRC32C_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRCSUM_MARK_MAX 320

/* values of crcsum.flags */
enum {
	CRCSUM_NONE = 1 << 0,	 /* no sum: never written, or deallocated */
	CRCSUM_ANY = 1 << 1,	 /* the earlier data is unknown */
	CRCSUM_DOUBT = 1 << 2,	 /* sum or before, for any epoch */
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
	uint64_t bytes; /* size of the volume */
	char mark[CRCSUM_MARK_MAX];
	uint64_t settled;  /* every epoch up to this one is settled */
	uint64_t life;	   /* the first epoch of this life */
	uint64_t epoch;	   /* the present one */
	uint64_t reserved; /* epochs below this one are this life's */
	uint64_t used;	   /* the latest epoch in a record */
	uint64_t forgot;   /* the latest epoch of a record that crcsums_forget()
			    * may have removed */
	bool has_doubt;	   /* a record in doubt has been written since the last
			    * crcsums_sync() */
};

struct crcsums_wanted {
	const char *path;
	const char *mark; /* identifies the data; empty: nothing does */
	uint64_t bytes;
	uint32_t block_size;
	bool make;   /* makes the file if it does not exist */
	bool forget; /* discards the contents of the file */
	bool read_only;
};

/* Returns 0, or -errno and a clause in @msg. */
int crcsums_open(struct crcsums *s, const struct crcsums_wanted *wanted,
		 char *msg, size_t msg_len);

/* @is_settled: every write that has ended is stable. */
void crcsums_close(struct crcsums *s, bool is_settled);

/* Reads the records of @cnt blocks, starting at @first. Returns 0 or -errno. */
int crcsums_read(struct crcsums *s, uint64_t first, unsigned int cnt,
		 struct crcsum *ret);
int crcsums_write(struct crcsums *s, uint64_t first, unsigned int cnt,
		  const struct crcsum *sums);

/* Returns how many of @cnt blocks, starting at @first, certainly have no record,
 * up to the first one that may have. */
uint64_t crcsums_without(const struct crcsums *s, uint64_t first, uint64_t cnt);

/* Removes the records, as if the blocks had never been written. Returns 0 or
 * -errno. */
int crcsums_forget(struct crcsums *s, uint64_t first, uint64_t cnt);

/* After this, the records survive a power cut. Returns 0 or -errno. */
int crcsums_sync(struct crcsums *s);

/* Begins another epoch. Returns 0 or -errno. */
int crcsums_next_epoch(struct crcsums *s);

/* The data of each epoch up to @epoch is stable. Returns 0 or -errno. */
int crcsums_settle(struct crcsums *s, uint64_t epoch);

/* True if the block may have sum or before. */
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
