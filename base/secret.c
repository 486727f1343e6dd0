/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/secret.h"

#include <sys/mman.h>

void secret_hide(void *p, size_t len)
{
	madvise(p, len, MADV_DONTDUMP);
}

void *secret_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	secret_hide(p, len);
	return p;
}

void secret_unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}
