/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes written as hexadecimal text: "02 00 ff", spaces anywhere between
 * bytes. The buffers have exactly the right size, so that the address
 * sanitizer sees a read of even one byte too many.
 */
#ifndef TESTS_LIB_T_HEX_H
#define TESTS_LIB_T_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A heap copy of exactly @len bytes; the caller frees it. */
static inline uint8_t *t_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len);

	if (!copy && len)
		abort();
	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

/* The bytes of @hex on the heap; the caller frees them. */
static inline uint8_t *t_hex(const char *hex, size_t *ret_len)
{
	uint8_t buf[16384];
	unsigned int byte;
	size_t len = 0;
	int used;

	while (sscanf(hex, " %2x%n", &byte, &used) == 1) {
		if (len == sizeof(buf))
			abort();
		buf[len++] = (uint8_t)byte;
		hex += used;
	}
	if (hex[strspn(hex, " ")])
		abort();
	*ret_len = len;
	return t_copy(buf, len);
}

#endif
