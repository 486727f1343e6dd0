/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault points: places where something can fail that hardly ever does. In
 * builds with -Dfault_injection=true every allocation and every call of a
 * fabric or of io_uring is one, without a word in the source: fault_calls.h is
 * included before each file and takes the calls' names. In other builds there
 * is nothing of this.
 *
 * A test arms the points, lets a program run, and so learns which of them it
 * passes how often; then it runs it again for each pass and has that one fail,
 * once.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#define FAULT_POINTS_MAX 512 /* those beyond are not looked at */

struct fault_point {
	const char *call;
	const char *file;
	int line;
};

/* What is written down; in shared memory it outlives the process. */
struct fault_book {
	_Atomic unsigned int passes[FAULT_POINTS_MAX];
	_Atomic bool failed; /* the one that was to fail did */
};

/*
 * From now on, pass number @pass (from 1 on; 0: none) of point @index fails.
 * @book: zeroed; NULL ends it. Thread: any, but at no time when points are
 * passed.
 */
void fault_arm(struct fault_book *book, unsigned int index, unsigned int pass);

/* Every point of the program: 0 ... fault_point_cnt() - 1. Thread: any. */
unsigned int fault_point_cnt(void);
const struct fault_point *fault_point(unsigned int index);

/* Is this pass to fail? For FAULT_POINT(). Thread: any. */
bool fault_here(const struct fault_point *const *ref);

/* True when the call @name must fail here. */
#define FAULT_POINT(name)                                                    \
	({                                                                   \
		static const struct fault_point fault_point_ = { (name),     \
								 __FILE__,   \
								 __LINE__ }; \
		static const struct fault_point *const fault_ref_            \
			__attribute__((section("fault_points"), used)) =     \
				&fault_point_;                               \
		fault_here(&fault_ref_);                                     \
	})

#endif
