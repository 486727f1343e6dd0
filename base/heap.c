/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/heap.h"

#include <malloc.h>

void heap_share(void)
{
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
}
