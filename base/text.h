/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small texts that a program writes into a file and reads again: words, numbers, and bytes in
 * hexadecimal digits. A reader trusts nothing. Thread: any.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- reading: each advances *@at if it returns true ---- */

/* @words come next. */
bool text_take(const char **at, const char *words);
/* Reads @len bytes, two digits (0-9, a-f) each. */
bool text_take_hex(const char **at, uint8_t *bytes, size_t len);
/* Copies what comes before @end, or the end of the text, to @ret. False: that is @cap bytes
 * or more. */
bool text_take_until(const char **at, char end, char *ret, size_t cap);
/* Reads a decimal number: at least 1, at most @max. */
bool text_take_number(const char **at, uint64_t max, uint64_t *ret);

/* ---- writing ---- */

/* What does not fit is cut off. */
struct text {
	char *buf;
	size_t cap; /* with the NUL at the end */
	size_t len;
};

void text_add(struct text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void text_add_hex(struct text *t, const uint8_t *bytes, size_t len);

#endif
