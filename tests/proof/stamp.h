/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contents of a block. Each 64-bit word has the writer, the number of the
 * write, the block and the run. Therefore all words must agree with the first
 * one. A block of two writers shows where the data of one ends and that of the
 * other begins, and a block in the wrong place is detected.
 *
 * A value names one write of one lane; 0 is a block of zeroes.
 * Thread: any.
 */
#ifndef TESTS_PROOF_STAMP_H
#define TESTS_PROOF_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMP_ZERO 0 /* the value of a block of zeroes */

/* @lane: 1 ... 255. @seq: number of the write among those of the lane, from
 * 1. */
static inline uint64_t stamp_value(unsigned int lane, uint32_t seq)
{
	return (uint64_t)lane << 32 | seq;
}

static inline unsigned int stamp_lane(uint64_t value)
{
	return (unsigned int)(value >> 32);
}

static inline uint32_t stamp_seq(uint64_t value)
{
	return (uint32_t)value;
}

/* @len: bytes of the block, a multiple of 8, at most 65536. */
void stamp_write(void *buf, size_t len, uint8_t run, uint64_t block,
		 uint64_t value);

enum stamp_kind {
	STAMP_WHOLE, /* one value */
	STAMP_MIXED, /* each word is of this run and in its place, but they have
		      * several values */
	STAMP_ALIEN, /* data of another place or run, or foreign data */
};

/*
 * Finds what @buf has. *@ret_value is set for STAMP_WHOLE. Otherwise @msg says
 * what is wrong, as "block 7 ...".
 */
enum stamp_kind stamp_read(const void *buf, size_t len, uint8_t run,
			   uint64_t block, uint64_t *ret_value, char *msg,
			   size_t msg_len);

#endif
