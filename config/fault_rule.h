/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fault that a user asks for: what fails, which requests of a volume fail,
 * and how often. This file has only the rule; layer_fault.h applies it.
 */
#ifndef CONFIG_FAULT_RULE_H
#define CONFIG_FAULT_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "plugins/rdma_block_plugin.h"

#define FAULT_RULES_MAX 16 /* per volume */

enum fault_kind {
	FAULT_ERROR,   /* fails at the first block of the range */
	FAULT_DELAY,   /* delayed before the store gets it */
	FAULT_SHORT,   /* the first half is done, then EIO */
	FAULT_TORN,    /* every other block is written, then EIO */
	FAULT_CORRUPT, /* one bit of the data is inverted */
	FAULT_STUCK,   /* the store gets it only when it is released */
	/* In test builds (-Dfault_injection=true) only: */
	FAULT_LIE,   /* a flush is answered, but not executed */
	FAULT_STALE, /* a write is repeated after some time */
};

struct fault_rule {
	enum fault_kind kind;
	unsigned int ops;   /* 1 << enum rbp_op, of all operations that it
			     * applies to */
	int err;	    /* ERROR: negative errno */
	unsigned int ms;    /* DELAY, STALE */
	uint64_t first_lba; /* logical blocks of the volume, both included */
	uint64_t last_lba;
	/* Conditions on the requests that match: */
	uint64_t after; /* skip the first so many */
	uint64_t every; /* then hit one of so many, the last; 1: all */
	double chance; /* instead: hit with this probability, 0 ... 1; 0: all */
	uint64_t seed; /* of chance */
	uint64_t count; /* hit at most so many; 0: no limit */
};

/*
 * Reads OP:KIND[=VALUE][:CONDITION]..., as the manual page describes it. False,
 * with one clause in @e, if the text is wrong. Thread: any.
 */
bool fault_rule_parse(const char *text, struct fault_rule *ret_rule,
		      struct error *e);

/* What a rule has seen on all workers. All zero at first. Thread: any. */
struct fault_tally {
	_Atomic uint64_t seen; /* requests that match */
	_Atomic uint64_t hits;
};

/*
 * True if the rule hits this request. Counts the request if it matches.
 * @ret_pick: a number that depends only on the seed and the order of arrival;
 * it decides the details of the fault. @block_size: of the volume, in bytes.
 */
bool fault_rule_hits(const struct fault_rule *rule, struct fault_tally *tally,
		     const struct rbp_io *io, uint32_t block_size,
		     uint64_t *ret_pick);

#endif
