/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes together with their number, and a check of bytes against hex text. */
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

#endif
