/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of a recorded file: each write, with its data, and each flush, in the
 * order in which they were done. What a power cut leaves is all that stands
 * before the last flush, and any part of what comes after.
 *
 * One process appends; others may read what is there, and how many records
 * that is, at the same time.
 */
#ifndef TESTS_PROOF_WRITE_LOG_H
#define TESTS_PROOF_WRITE_LOG_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum write_log_op {
	WRITE_LOG_WRITE, /* len bytes of data follow */
	WRITE_LOG_ZERO,	 /* a punched hole, or a range made zero */
	WRITE_LOG_FLUSH, /* what stands before it is stable */
};

struct write_log_record {
	uint32_t op; /* enum write_log_op */
	uint32_t reserved;
	uint64_t offset; /* bytes */
	uint64_t len;	 /* bytes */
};

/* At the beginning of the file. */
struct write_log_head {
	char magic[8];
	_Atomic uint64_t cnt; /* records that are complete */
	uint64_t end;	      /* bytes; where the next one goes */
};

#define WRITE_LOG_MAGIC "proof-1"

struct write_log {
	int fd;
	struct write_log_head *head; /* mapped */
};

/* Both: 0 or a negative errno. Made anew; or opened to be read. */
int write_log_create(struct write_log *log, const char *path);
int write_log_open(struct write_log *log, const char *path);

/* @data: for WRITE. 0 or a negative errno. */
int write_log_append(struct write_log *log, enum write_log_op op,
		     uint64_t offset, uint64_t len, const void *data);

/* Records so far. Thread: any, in any process. */
uint64_t write_log_cnt(const struct write_log *log);

/*
 * Reads the record at *@pos (0: the first) and moves *@pos to the next;
 * @ret_data: where its data lie in the file. 0 or a negative errno.
 */
int write_log_read(const struct write_log *log, uint64_t *pos,
		   struct write_log_record *ret, uint64_t *ret_data);

#endif
