/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

/* ---- reading ---- */

bool text_take(const char **at, const char *words)
{
	size_t len = strlen(words);

	if (strncmp(*at, words, len))
		return false;
	*at += len;
	return true;
}

/* -1: @c is no digit. */
static int text_digit(char c)
{
	const char *digit = c ? strchr(digits, c) : NULL;

	return digit ? (int)(digit - digits) : -1;
}

bool text_take_hex(const char **at, uint8_t *bytes, size_t len)
{
	const char *p = *at;

	for (size_t i = 0; i < len; i++, p += 2) {
		int high = text_digit(p[0]);
		int low = high < 0 ? -1 : text_digit(p[1]);

		if (low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	*at = p;
	return true;
}

bool text_take_until(const char **at, char end, char *ret, size_t cap)
{
	size_t len = strchrnul(*at, end) - *at;

	if (len >= cap)
		return false;
	memcpy(ret, *at, len);
	ret[len] = '\0';
	*at += len;
	return true;
}

bool text_take_number(const char **at, uint64_t max, uint64_t *ret)
{
	char *end;

	if (**at < '1' || **at > '9')
		return false;
	errno = 0;
	*ret = strtoull(*at, &end, 10);
	if (errno || *ret > max)
		return false;
	*at = end;
	return true;
}

/* ---- writing ---- */

void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->len += (size_t)vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
	va_end(ap);
	if (t->len >= t->cap)
		t->len = t->cap - 1;
}

void text_add_hex(struct text *t, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len && t->len + 2 < t->cap; i++) {
		t->buf[t->len++] = digits[bytes[i] >> 4];
		t->buf[t->len++] = digits[bytes[i] & 15];
	}
	t->buf[t->len] = '\0';
}
