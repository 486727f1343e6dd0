/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes together with their number, a check of bytes against hex text, and broken
 * bytes for parsers. */
#ifndef TESTS_LIB_T_BYTES_H
#define TESTS_LIB_T_BYTES_H

#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

struct t_bytes {
	uint8_t *p; /* on the heap, @len bytes without spare ones; the owner
		     * frees it */
	size_t len;
};

static inline struct t_bytes t_bytes(const char *hex)
{
	struct t_bytes b;

	b.p = t_hex(hex, &b.len);
	return b;
}

static inline void t_assert_bytes(const void *got, size_t len, const char *hex)
{
	struct t_bytes want = t_bytes(hex);

	assert_int_equal(len, want.len);
	assert_memory_equal(got, want.p, len);
	free(want.p);
}

/*
 * Calls @parse with @hex, with each of its begins, and with those after one byte
 * was replaced. The address sanitizer reports a parser that reads past the end.
 */
static inline void t_break_bytes(const char *hex,
				 void (*parse)(const uint8_t *p, size_t len))
{
	static const uint8_t wrong[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct t_bytes b = t_bytes(hex);

	for (size_t len = 0; len <= b.len; len++) {
		uint8_t *cut = t_copy(b.p, len);

		parse(cut, len);
		for (size_t i = 0; i < len; i++) {
			for (size_t n = 0; n < sizeof(wrong); n++) {
				cut[i] = wrong[n];
				parse(cut, len);
			}
			cut[i] = b.p[i];
		}
		free(cut);
	}
	free(b.p);
}

#endif
