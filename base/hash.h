/* SPDX-License-Identifier: BSD-2-Clause */
/* FNV-1a, 64 bits: well distributed, and no secret. Thread: any. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Continues @hash, which is HASH_BEGIN at first, with @len bytes. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len--)
		hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
