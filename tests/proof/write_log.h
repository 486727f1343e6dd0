/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of a recorded file: each write with its data, and each flush, in the
 * order of execution. A power cut leaves all writes before the last flush, and
 * any part of the writes after it.
 *
 * One process appends. At the same time, others may read the records and their
 * number.
 */
#ifndef TESTS_PROOF_WRITE_LOG_H
#define TESTS_PROOF_WRITE_LOG_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum write_log_op {
	WRITE_LOG_WRITE, /* len bytes of data follow */
	WRITE_LOG_ZERO,	 /* a punched hole, or a range made zero */
	WRITE_LOG_FLUSH, /* all records before this one are stable */
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
	_Atomic uint64_t cnt; /* complete records */
	uint64_t end;	      /* bytes; place of the next record */
};

#define WRITE_LOG_MAGIC "proof-1"

struct write_log {
	int fd;
	struct write_log_head *head; /* mapped */
};

/* write_log_create() makes a new log, write_log_open() opens one for reading.
 * Return 0 or a negative errno. */
int write_log_create(struct write_log *log, const char *path);
int write_log_open(struct write_log *log, const char *path);

/* @data: only for WRITE. Returns 0 or a negative errno. */
int write_log_append(struct write_log *log, enum write_log_op op,
		     uint64_t offset, uint64_t len, const void *data);

/* Number of records so far. Thread: any, in any process. */
uint64_t write_log_cnt(const struct write_log *log);

/*
 * Reads the record at *@pos (0: the first one) and moves *@pos to the next.
 * @ret_data: the place of its data in the file. Returns 0 or a negative errno.
 */
int write_log_read(const struct write_log *log, uint64_t *pos,
		   struct write_log_record *ret, uint64_t *ret_data);

#endif
