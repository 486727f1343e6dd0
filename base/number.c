/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/number.h"

bool number_parse(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p;

	for (p = text; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, *p - '0', &v))
			return false;
	}
	if (p == text || *p || v > max)
		return false;
	*ret = v;
	return true;
}
