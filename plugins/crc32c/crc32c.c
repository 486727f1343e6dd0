/* SPDX-License-Identifier: BSD-2-Clause */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

/* The polynomial with its bits reversed. */
#define CRC32C_POLY 0x82f63b78u

static uint32_t crc32c_table[256];
static pthread_once_t crc32c_once = PTHREAD_ONCE_INIT;

static void crc32c_make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLY : 0);
		crc32c_table[i] = crc;
	}
}

static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *p, size_t len)
{
	pthread_once(&crc32c_once, crc32c_make_table);
	while (len--)
		crc = crc >> 8 ^ crc32c_table[(crc ^ *p++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
crc32c_by_cpu(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t wide = crc;

	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	while (len--)
		crc = __builtin_ia32_crc32qi(crc, *p++);
	return crc;
}
#endif

uint32_t crc32c_of(const void *buf, size_t len)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc32c_by_cpu(~0u, buf, len);
#endif
	return ~crc32c_by_table(~0u, buf, len);
}
