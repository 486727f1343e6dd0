/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes written as hexadecimal text: "02 00 ff", with spaces anywhere between
 * bytes. "00*16" stands for sixteen of a byte, "'text'" for the characters. The
 * buffers have exactly the right size, so that the address sanitizer reports a
 * read of even one byte too many.
 */
#ifndef TESTS_LIB_T_HEX_H
#define TESTS_LIB_T_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a copy of @len bytes on the heap, without spare ones; the caller
 * frees it. */
static inline uint8_t *t_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len);

	if (!copy && len)
		abort();
	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

/* Reads one item of @hex and moves on to its end. Returns the number of bytes;
 * 0: no more items. */
static inline size_t t_hex_item(const char **hex, uint8_t *buf, size_t cap)
{
	unsigned int byte;
	unsigned long cnt = 1;
	const char *end;
	int used;

	*hex += strspn(*hex, " ");
	if (**hex == '\'') {
		end = strchr(++*hex, '\'');
		if (!end || (size_t)(end - *hex) > cap)
			abort();
		cnt = (unsigned long)(end - *hex);
		memcpy(buf, *hex, cnt);
		*hex = end + 1;
		return cnt;
	}
	if (sscanf(*hex, "%2x%n", &byte, &used) != 1)
		return 0;
	*hex += used;
	if (**hex == '*')
		cnt = strtoul(*hex + 1, (char **)hex, 10);
	if (!cnt || cnt > cap)
		abort();
	memset(buf, (int)byte, cnt);
	return cnt;
}

/* Returns the bytes of @hex on the heap; the caller frees them. */
static inline uint8_t *t_hex(const char *hex, size_t *ret_len)
{
	uint8_t buf[512u << 10];
	size_t len = 0;
	size_t n;

	while ((n = t_hex_item(&hex, buf + len, sizeof(buf) - len)) > 0)
		len += n;
	if (hex[strspn(hex, " ")])
		abort();
	*ret_len = len;
	return t_copy(buf, len);
}

#endif
