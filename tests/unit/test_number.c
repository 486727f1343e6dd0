/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/number.h"
#include "tests/lib/t_table.h"

static const struct parse_row {
	const char *name;
	const char *text;
	uint64_t max;
	bool ok;
	uint64_t number;
} parse_rows[] = {
	{ "zero", "0", 9, true, 0 },
	{ "leading zeros", "0007", 9, true, 7 },
	{ "the most that is allowed", "65535", 65535, true, 65535 },
	{ "the largest number", "18446744073709551615", UINT64_MAX, true,
	  UINT64_MAX },
	{ "one above what is allowed", "65536", 65535, false, 0 },
	{ "one more than the largest", "18446744073709551616", UINT64_MAX,
	  false, 0 },
	{ "many digits", "99999999999999999999999", UINT64_MAX, false, 0 },
	{ "empty", "", 9, false, 0 },
	{ "negative", "-1", UINT64_MAX, false, 0 },
	{ "plus sign", "+1", 9, false, 0 },
	{ "space before", " 1", 9, false, 0 },
	{ "space behind", "1 ", 9, false, 0 },
	{ "a unit", "1k", 9, false, 0 },
	{ "fraction", "1.5", 9, false, 0 },
	{ "hexadecimal", "0x1", 9, false, 0 },
};

T_ROWS(parse, parse_rows)
{
	const struct parse_row *r = *state;
	uint64_t number = 12345;

	assert_int_equal(number_parse(r->text, r->max, &number), r->ok);
	assert_int_equal(number, r->ok ? r->number : 12345);
}
