/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/size.h"
#include "tests/lib/t_table.h"

#define KI (1ULL << 10)
#define MI (1ULL << 20)
#define GI (1ULL << 30)
#define TI (1ULL << 40)
#define PI (1ULL << 50)
#define EI (1ULL << 60)

static const struct parse_row {
	const char *name;
	const char *text;
	int err;
	uint64_t size;
} parse_rows[] = {
	{ "plain bytes", "4096", 0, 4096 },
	{ "zero", "0", 0, 0 },
	{ "kibibytes, lower case", "512k", 0, 512 * KI },
	{ "kibibytes, upper case", "512K", 0, 512 * KI },
	{ "mebibytes", "64M", 0, 64 * MI },
	{ "mebibytes, lower case", "64m", 0, 64 * MI },
	{ "gibibytes", "1G", 0, GI },
	{ "tebibytes", "2T", 0, 2 * TI },
	{ "pebibytes", "3P", 0, 3 * PI },
	{ "exbibytes", "15E", 0, 15 * EI },
	{ "as it is printed", "1 GiB", 0, GI },
	{ "the same without a space", "1GiB", 0, GI },
	{ "lower case", "1giB", 0, GI },
	{ "bytes as they are printed", "512 B", 0, 512 },
	{ "a power of 1000", "10GB", 0, 10000000000 },
	{ "the same of another case", "1.5 kB", 0, 1500 },
	{ "fraction", "1.5G", 0, 3 * GI / 2 },
	{ "fraction as it is printed", "2.375 TiB", 0, 19 * TI / 8 },
	{ "fraction, rounded down", "0.9k", 0, 921 },
	{ "fraction of many digits",
	  "1.500000000000000000000000000000000000000000000000G", 0,
	  3 * GI / 2 },
	{ "fraction of nothing", "4096.0", 0, 4096 },
	{ "the largest that is printed", "15.9 EiB", 0,
	  18331451923248866944ULL },
	{ "the largest number", "18446744073709551615", 0, UINT64_MAX },
	{ "the largest with a unit", "18014398509481983K", 0,
	  UINT64_MAX - 1023 },
	{ "leading zeros", "0000000000000000000000001k", 0, KI },
	{ "one more than the largest", "18446744073709551616", -ERANGE, 0 },
	{ "many digits", "99999999999999999999999", -ERANGE, 0 },
	{ "unit overflows", "16E", -ERANGE, 0 },
	{ "unit overflows by one", "18014398509481984k", -ERANGE, 0 },
	{ "empty", "", -EINVAL, 0 },
	{ "only a unit", "k", -EINVAL, 0 },
	{ "unknown unit", "10x", -EINVAL, 0 },
	{ "two units", "10kM", -EINVAL, 0 },
	{ "a power of 1000 in lower case", "10Gb", -EINVAL, 0 },
	{ "a power of 1000 overflows", "19EB", -ERANGE, 0 },
	{ "unit with half of iB", "10Mi", -EINVAL, 0 },
	{ "unit with more than iB", "10MiBs", -EINVAL, 0 },
	{ "iB without a unit", "10iB", -EINVAL, 0 },
	{ "two spaces", "10  MiB", -EINVAL, 0 },
	{ "negative", "-1", -EINVAL, 0 },
	{ "plus sign", "+1", -EINVAL, 0 },
	{ "space before", " 1", -EINVAL, 0 },
	{ "space behind", "1 ", -EINVAL, 0 },
	{ "fraction of a byte", "1.5", -EINVAL, 0 },
	{ "fraction without digits", "1.G", -EINVAL, 0 },
	{ "fraction without a whole", ".5G", -EINVAL, 0 },
	{ "two points", "1.2.3G", -EINVAL, 0 },
	{ "hexadecimal", "0x10", -EINVAL, 0 },
	{ "junk wins over overflow", "99999999999999999999999x", -EINVAL, 0 },
};

T_ROWS(parse, parse_rows)
{
	const struct parse_row *r = *state;
	uint64_t size = 12345;

	assert_int_equal(size_parse(r->text, &size), r->err);
	assert_int_equal(size, r->err ? 12345 : r->size);
}

static const struct format_row {
	const char *name;
	uint64_t size;
	const char *text;
} format_rows[] = {
	{ "no bytes", 0, "0 B" },
	{ "bytes", 1023, "1023 B" },
	{ "one kibibyte", KI, "1 KiB" },
	{ "256 MiB", 256 * MI, "256 MiB" },
	{ "1 TiB", TI, "1 TiB" },
	{ "one decimal", 3 * GI / 2, "1.5 GiB" },
	{ "rounded down", MI - 1, "1023.9 KiB" },
	{ "hardly more than whole", GI + 1, "1 GiB" },
	{ "the largest", UINT64_MAX, "15.9 EiB" },
	{ "largest exbibyte", 15 * EI, "15 EiB" },
};

T_ROWS(format, format_rows)
{
	const struct format_row *r = *state;
	char buf[SIZE_TEXT_SIZE];

	assert_ptr_equal(size_format(r->size, buf), buf);
	assert_string_equal(buf, r->text);
}
