/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the blocks of all volumes may hold. Every block that is written carries
 * a stamp of its own. Each write and each read of a stamp is noted with the
 * times between which it must have happened; blocks_check() says whether some
 * order explains them all (tests/lib/history.h).
 *
 * Times are numbers of events, each one used once: blocks_now().
 */
#ifndef TESTS_SIM_BLOCKS_H
#define TESTS_SIM_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES   512
#define BLOCKS_LUNS   3
#define BLOCKS_CNT    8 /* of each volume */
#define STAMPS_MAX    4096
#define STAMPS_COPIED 32
#define STAMP_GARBAGE UINT32_MAX
#define NEVER	      UINT64_MAX

/* One write of one block. */
struct stamp {
	uint8_t lun;
	uint8_t lba;
	bool acked;
	bool durable;	  /* acknowledged, and flushed or FUA */
	bool disk_failed; /* the disk gave an error for it */
	bool refused;	  /* and was not done, or was done with an error */
	bool lost;	  /* the disk had it, and has it no more */
	bool past;	  /* of before a start at which that was judged */
	uint8_t host;
	uint32_t instead; /* COMPARE AND WRITE: of this one; else 0 */
	uint64_t start;
	uint64_t end; /* NEVER: it may still happen */
};

extern struct stamp stamps[STAMPS_MAX];
/* Behind the last one; the first is 1. */
uint32_t stamps_end(void);

/* Forgets all; every block has stamp 0, which are zeroes. */
void blocks_reset(void);

/* A new time. */
uint64_t blocks_now(void);

/* A new stamp for a write that begins now; 0: there are no more. */
uint32_t stamp_new(unsigned int lun, unsigned int lba);
/* The same for a block that a copy has just written. Of these there is room for
 * STAMPS_COPIED in each block. */
uint32_t stamp_new_copied(unsigned int lun, unsigned int lba);
/* Bytes of a block with that stamp; and back. */
void stamp_fill(uint32_t stamp, void *block);
uint32_t stamp_parse(const void *block);

/* It can no longer happen; the first time counts. */
void stamp_over(uint32_t stamp, uint64_t when);

/* Somebody has seen @stamp in a block. */
void blocks_seen(unsigned int lun, unsigned int lba, uint32_t stamp,
		 uint64_t start, uint64_t end);

/* A flush that began at @start has succeeded. */
void blocks_flushed(unsigned int lun, uint64_t start);

/* All of @lun judged; NULL or what is wrong, static. */
const char *blocks_check(unsigned int lun);

/*
 * Power was lost, and @survivor is what a block then holds: is that allowed?
 * From then on it is what was there at first. NULL or what is wrong.
 */
const char *blocks_cut(unsigned int lun, unsigned int lba, uint32_t survivor);

#endif
