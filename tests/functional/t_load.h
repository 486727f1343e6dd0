/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random I/O through libsrpi that knows what must come back: a queue of reads,
 * writes, zeroes, discards and flushes on one range of a volume, checked
 * against a copy of it in memory. Two operations on the same blocks are never
 * under way together. The same seed does the same.
 */
#ifndef TESTS_FUNCTIONAL_T_LOAD_H
#define TESTS_FUNCTIONAL_T_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "initiator/srp_initiator.h"

#define T_LOAD_DEPTH_MAX 512

struct t_load_params {
	unsigned int volume;
	uint64_t offset; /* bytes; the range is this load's alone */
	uint32_t len;	 /* bytes */
	unsigned int depth;
	uint32_t max_io; /* bytes; largest operation */
	uint64_t ops;	 /* operations in all; 0: until t_load_finish() */
	uint64_t seed;
};

struct t_load;

/* Begins; the range need not hold anything particular. */
struct t_load *t_load_start(struct srpi_session *s,
			    const struct t_load_params *p);

/* Starts no more operations. */
void t_load_finish(struct t_load *l);

/* Nothing is under way, and nothing more will be. */
bool t_load_is_over(const struct t_load *l);

/* Operations that ended well; with data as it had to be. */
uint64_t t_load_done(const struct t_load *l);

/* The first thing that went wrong, or "". */
const char *t_load_fault(const struct t_load *l);

/* Operations that failed, as they may when a session ends. */
uint64_t t_load_failed(const struct t_load *l);

/* After it is over. */
void t_load_free(struct t_load *l);

#endif
