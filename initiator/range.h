/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of writes that overlap. Each write of a volume takes its bytes before
 * its first command is sent, and gives them back when it has ended for certain.
 * Ranges that overlap are held one after the other, in the order of the calls.
 *
 * Mostly nothing overlaps. Each volume counts the ranges in each region: a range
 * that is alone in its regions is compared with no other one.
 *
 * Thread: that of the session.
 */
#ifndef INITIATOR_RANGE_H
#define INITIATOR_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Bytes of a region. Regions with the same number modulo INI_REGIONS count together. */
#define INI_REGION_SHIFT 16
#define INI_REGIONS	 256u

/* The ranges of one volume. */
struct ini_ranges {
	struct list all;      /* struct ini_range, in the order of the calls */
	unsigned int waiting; /* those that are not held */
	unsigned int in[INI_REGIONS];
};

/* One of them; embed it. */
struct ini_range {
	struct list node;
	uint64_t begin; /* bytes */
	uint64_t end;	/* exclusive; not begin */
	bool held;
	/* If ini_range_take() returned false: ini_range_give_back() of another
	 * range calls this when the range is held. */
	void (*taken)(struct ini_range *range);
};

void ini_ranges_init(struct ini_ranges *of);

/* Set begin, end and taken first. True: the range is held. False: taken() follows. */
bool ini_range_take(struct ini_ranges *of, struct ini_range *range);

/* The range may be held or waiting. */
void ini_range_give_back(struct ini_ranges *of, struct ini_range *range);

#endif
