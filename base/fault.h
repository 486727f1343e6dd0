/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault points: places where a call can fail, which rarely happens. In builds
 * with -Dfault_injection=true, each allocation and each call of a fabric or of
 * io_uring is a fault point. The source need not say so: fault_calls.h is
 * included before each file and replaces the names of the calls. Other builds
 * have no fault points.
 *
 * A test arms the points and runs a program, and learns how often the program
 * passes each point. Then it runs the program again for each pass, and makes
 * that pass fail.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

#define FAULT_POINTS_MAX 512 /* further points are not counted */

struct fault_point {
	const char *call;
	const char *file;
	int line;
};

/* What happened at the points. In shared memory it outlives the process. */
struct fault_record {
	_Atomic unsigned int passes[FAULT_POINTS_MAX];
	_Atomic bool failed; /* the one that was to fail did */
};

/*
 * From now on, pass number @pass (from 1; 0: none) of point @index fails.
 * @record: zeroed; NULL disarms all points. Thread: any, while no thread passes a
 * point.
 */
void fault_arm(struct fault_record *record, unsigned int index,
	       unsigned int pass);

/* The points of the program are 0 ... fault_point_cnt() - 1. Thread: any. */
unsigned int fault_point_cnt(void);
const struct fault_point *fault_point(unsigned int index);

/* Must this pass fail? For FAULT_POINT(). Thread: any. */
bool fault_here(const struct fault_point *const *ref);

/* True if the call @name must fail here. */
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
