/* SPDX-License-Identifier: BSD-2-Clause */
/* Hexadecimal digits, independent of the locale. Thread: any. */
#ifndef PROTOCOL_HEX_H
#define PROTOCOL_HEX_H

/* The value of @c as a digit, or -1. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

#endif
