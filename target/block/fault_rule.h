/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fault that a user asks for: what goes wrong, with which requests of a
 * volume, and how often. The rule alone; layer_fault.h makes it happen.
 */
#ifndef TARGET_BLOCK_FAULT_RULE_H
#define TARGET_BLOCK_FAULT_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "plugins/rdma_block_plugin.h"

#define FAULT_RULES_MAX 16 /* per volume */

enum fault_kind {
	FAULT_ERROR,   /* fails at the first block of the range */
	FAULT_DELAY,   /* goes to the store only some time later */
	FAULT_SHORT,   /* the first half is done, then EIO */
	FAULT_TORN,    /* every other block is written, then EIO */
	FAULT_CORRUPT, /* one bit of the data is another one */
	FAULT_STUCK,   /* goes to the store only when it is released */
	/* In test builds (-Dfault_injection=true) only: */
	FAULT_LIE,   /* a flush is answered and never done */
	FAULT_STALE, /* a write is done once more, some time later */
};

struct fault_rule {
	enum fault_kind kind;
	unsigned int ops;   /* 1 << enum rbp_op, of all that are meant */
	int err;	    /* ERROR: negative errno */
	unsigned int ms;    /* DELAY, STALE */
	uint64_t first_lba; /* logical blocks of the volume, both included */
	uint64_t last_lba;
	/* Of the requests that match: */
	uint64_t after; /* so many are spared first */
	uint64_t every; /* then the last of every so many is hit; 1: all */
	double chance;	/* instead: with this probability, 0 ... 1; 0: every */
	uint64_t seed;	/* of chance */
	uint64_t count; /* at most so many are hit; 0: no end */
};

/*
 * Reads OP:KIND[=VALUE][:CONDITION]..., as the manual page has it. False with
 * one clause in @e when it is bad. Thread: any.
 */
bool fault_rule_parse(const char *text, struct fault_rule *ret_rule,
		      struct error *e);

/* What a rule has seen, of all workers. Zeroed at first. Thread: any. */
struct fault_tally {
	_Atomic uint64_t seen; /* requests that match */
	_Atomic uint64_t hits;
};

/*
 * Does the rule hit this request? Counts it if it matches. @ret_pick: a number
 * that depends on the seed and the order of arrival alone, for what is to be
 * chosen about the fault. @block_size: bytes, of the volume.
 */
bool fault_rule_hits(const struct fault_rule *rule, struct fault_tally *tally,
		     const struct rbp_io *io, uint32_t block_size,
		     uint64_t *ret_pick);

#endif
