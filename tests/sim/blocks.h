/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allowed contents of the blocks of all volumes. Each write of a block has
 * a stamp of its own. Each write and each read of a stamp is noted with the
 * times between which it must have taken place. blocks_check() checks whether
 * some order explains all of them (tests/lib/history.h).
 *
 * Times are numbers of events. Each number is used once: blocks_now().
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
	bool disk_failed; /* the disk returned an error for it */
	bool refused;	  /* it was not done, or ended with an error */
	bool lost;	  /* the disk had it, and has lost it */
	bool past;	  /* written before a start; checked at that start */
	uint8_t host;
	uint32_t instead; /* COMPARE AND WRITE: replaces this stamp; else 0 */
	uint32_t first;	  /* of its command; one for each block follows it */
	/* Its host closed the connection, by clock_now(), and by blocks_now(); 0: it has
	 * not. */
	uint64_t given_up_us;
	uint64_t given_up;
	uint64_t start;
	uint64_t end; /* NEVER: it may still take place */
};

extern struct stamp stamps[STAMPS_MAX];
/* The number after the last stamp; the first stamp is 1. */
uint32_t stamps_end(void);

/* Forgets all stamps. Every block has stamp 0, which stands for zeroes. */
void blocks_reset(void);

/* Returns a new time. */
uint64_t blocks_now(void);

/* A command that began at @start has read or written the block, and the host knows. */
void block_see(unsigned int lun, unsigned int lba, uint64_t start);
/* When the newest of these began; 0: there is none. */
uint64_t block_seen(unsigned int lun, unsigned int lba);

/* Returns a new stamp for a write that begins now; 0: there are no more. */
uint32_t stamp_new(unsigned int lun, unsigned int lba);
/* The same for a block that a copy has just written. Each block has room for
 * STAMPS_COPIED of these. */
uint32_t stamp_new_copied(unsigned int lun, unsigned int lba);
/* Converts a stamp to the bytes of a block, and back. */
void stamp_fill(uint32_t stamp, void *block);
uint32_t stamp_parse(const void *block);

/* The write can no longer take place. Only the first call counts. */
void stamp_over(uint32_t stamp, uint64_t when);

/* A read has returned @stamp for a block. */
void blocks_seen(unsigned int lun, unsigned int lba, uint32_t stamp,
		 uint64_t start, uint64_t end);

/* A flush that began at @start succeeded. */
void blocks_flushed(unsigned int lun, uint64_t start);

/* Checks all blocks of @lun. Returns what is wrong (static), or NULL. */
const char *blocks_check(unsigned int lun);

/*
 * After a power cut, the block has the stamp @survivor, which becomes its
 * initial value. Returns what is wrong, or NULL.
 */
const char *blocks_cut(unsigned int lun, unsigned int lba, uint32_t survivor);

#endif
