/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Units for the powers of 1024, beginning with 0. */
static const char units[] = "BKMGTPE";

/* The power of the unit @c, or 0. */
static unsigned int unit_power(char c)
{
	if (c >= 'a' && c <= 'z')
		c = (char)(c - 'a' + 'A');
	for (unsigned int i = 1; units[i]; i++)
		if (units[i] == c)
			return i;
	return 0;
}

/* "", "B", "k", "MiB", "GB", also after a space. *ret: bytes; 1: it has no letter. */
static bool unit_parse(const char *text, uint64_t *ret)
{
	unsigned int power;
	bool is_decimal;

	*ret = 1;
	if (!*text)
		return true;
	if (*text == ' ')
		text++;
	if (!strcmp(text, "B"))
		return true;
	power = unit_power(*text);
	is_decimal = power && !strcmp(text + 1, "B");
	for (unsigned int i = 0; i < power; i++)
		*ret *= is_decimal ? 1000 : 1024;
	return power && (is_decimal || !text[1] || !strcmp(text + 1, "iB"));
}

/* The digits behind the point, of which 15 count. Returns their end, or NULL if there
 * are none. */
static const char *fraction_parse(const char *text, double *ret)
{
	double number = 0, scale = 1;
	const char *p;

	for (p = text; *p >= '0' && *p <= '9'; p++) {
		if (p - text >= 15)
			continue;
		number = number * 10 + (*p - '0');
		scale *= 10;
	}
	*ret = number / scale;
	return p == text ? NULL : p;
}

int size_parse(const char *text, uint64_t *ret)
{
	uint64_t size = 0, unit;
	double part = 0;
	bool overflow = false;
	const char *p;

	for (p = text; *p >= '0' && *p <= '9'; p++)
		overflow |= __builtin_mul_overflow(size, 10, &size) ||
			    __builtin_add_overflow(size, *p - '0', &size);
	if (p == text)
		return -EINVAL;
	if (*p == '.')
		p = fraction_parse(p + 1, &part);
	if (!p || !unit_parse(p, &unit) || (part > 0 && unit == 1))
		return -EINVAL;
	overflow |= __builtin_mul_overflow(size, unit, &size) ||
		    __builtin_add_overflow(
			    size, (uint64_t)(part * (double)unit), &size);
	if (overflow)
		return -ERANGE;
	*ret = size;
	return 0;
}

char *size_format(uint64_t bytes, char *buf)
{
	unsigned int power = 0;
	unsigned int whole, tenths;
	uint64_t rest;

	while (power + 1 < sizeof(units) - 1 && bytes >> (10 * (power + 1)))
		power++;
	whole = (unsigned int)(bytes >> (10 * power));
	rest = bytes - ((uint64_t)whole << (10 * power));
	tenths = (unsigned int)(rest * 10 >> (10 * power)); /* < 10 * 2^60 */
	if (!power)
		snprintf(buf, SIZE_TEXT_SIZE, "%u B", whole);
	else if (!tenths)
		snprintf(buf, SIZE_TEXT_SIZE, "%u %ciB", whole, units[power]);
	else
		snprintf(buf, SIZE_TEXT_SIZE, "%u.%u %ciB", whole, tenths,
			 units[power]);
	return buf;
}
