/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random I/O through libsrpi with known results: a queue of reads, writes,
 * zeroes, discards and flushes on one range of a volume, checked against a copy
 * of the range in memory. Two operations never use the same blocks at the same
 * time. The same seed gives the same operations.
 */
#ifndef TESTS_FUNCTIONAL_T_LOAD_H
#define TESTS_FUNCTIONAL_T_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "initiator/srp_initiator.h"

#define T_LOAD_DEPTH_MAX 512

struct t_load_params {
	unsigned int volume;
	uint64_t offset; /* bytes; no other user may write in the range */
	uint32_t len;	 /* bytes */
	unsigned int depth;
	uint32_t max_io; /* bytes; largest operation */
	uint64_t ops;	 /* total operations; 0: until t_load_finish() */
	uint64_t seed;
};

struct t_load;

/* Begins. The range may have any data. */
struct t_load *t_load_start(struct srpi_session *s,
			    const struct t_load_params *p);

/* Starts no more operations. */
void t_load_finish(struct t_load *l);

/* True when nothing is in flight and nothing more will be started. */
bool t_load_is_over(const struct t_load *l);

/* Returns the operations that succeeded, with the expected data. */
uint64_t t_load_done(const struct t_load *l);

/* Returns the first fault, or "". */
const char *t_load_fault(const struct t_load *l);

/* Returns the operations that failed. They may fail when a session ends. */
uint64_t t_load_failed(const struct t_load *l);

/* Only after the load is over. */
void t_load_free(struct t_load *l);

#endif
