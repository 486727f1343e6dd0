/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <stddef.h>

/* The linker makes an array of the pointers that FAULT_POINT() defines. */
extern const struct fault_point *const __start_fault_points[];
extern const struct fault_point *const __stop_fault_points[];

static struct fault_record *record;
static unsigned int fail_index;
static unsigned int fail_pass;

void fault_arm(struct fault_record *new_record, unsigned int index,
	       unsigned int pass)
{
	record = new_record;
	fail_index = index;
	fail_pass = pass;
}

unsigned int fault_point_cnt(void)
{
	return (unsigned int)(__stop_fault_points - __start_fault_points);
}

const struct fault_point *fault_point(unsigned int index)
{
	return __start_fault_points[index];
}

bool fault_here(const struct fault_point *const *ref)
{
	unsigned int index = (unsigned int)(ref - __start_fault_points);
	unsigned int pass;

	if (!record || index >= FAULT_POINTS_MAX)
		return false;
	pass = atomic_fetch_add(&record->passes[index], 1) + 1;
	if (index != fail_index || pass != fail_pass)
		return false;
	record->failed = true;
	return true;
}
