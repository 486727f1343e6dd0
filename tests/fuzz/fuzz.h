/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code that the fuzz targets share. Each is a program of its own: libFuzzer and
 * the code under test, with AddressSanitizer and UBSan. scripts/fuzz runs them.
 *
 * An input is read from its start, piece by piece. After its end, it reads as
 * zeroes. The bytes for a decoder come last, so that they end where the
 * allocation ends, and a read of one byte too many is found.
 *
 * A fuzz target claims more than that nothing crashes: an encoded value decodes
 * to the same value, a refusal has written nothing, and so on.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The original standard error. libFuzzer closes it because of the output of the
 * code under test. */
static int fuzz_stderr = STDERR_FILENO;

__attribute__((constructor)) static void fuzz_keep_stderr(void)
{
	fuzz_stderr = dup(STDERR_FILENO);
}

/* Opens descriptors 0, 1 and 2, so that no file that is opened later becomes
 * standard output. */
static inline void fuzz_take_descriptors(void)
{
	static bool done;
	int fd = -1;

	if (done)
		return;
	done = true;
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close(fd);
}

/* Ends the run with a finding unless @claim is true. */
#define FUZZ_CLAIM(claim)                                                  \
	do {                                                               \
		if (!(claim)) {                                            \
			dprintf(fuzz_stderr, "%s:%d: does not hold: %s\n", \
				__FILE__, __LINE__, #claim);               \
			abort();                                           \
		}                                                          \
	} while (0)

/* Fills a result before a call. Results are compared byte by byte; only those
 * with padding are compared member by member. */
#define FUZZ_FILL(result) memset(&(result), 0xa5, sizeof(result))

/* True if nothing has been written since FUZZ_FILL(). */
static inline bool fuzz_is_filled(const void *result, size_t size)
{
	const uint8_t *b = result;

	for (size_t i = 0; i < size; i++) {
		if (b[i] != 0xa5)
			return false;
	}
	return true;
}

#define FUZZ_UNTOUCHED(result) \
	FUZZ_CLAIM(fuzz_is_filled(&(result), sizeof(result)))

/* ---- the input ---- */

struct fuzz_input {
	const uint8_t *p;
	size_t left;
};

static inline struct fuzz_input fuzz_input(const uint8_t *data, size_t size)
{
	fuzz_take_descriptors();
	return (struct fuzz_input){ .p = data, .left = size };
}

/* Takes @n bytes into @buf; zeroes after the end. */
static inline void fuzz_take(struct fuzz_input *in, void *buf, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(buf, 0, n);
	if (have)
		memcpy(buf, in->p, have);
	in->p += have;
	in->left -= have;
}

static inline uint8_t fuzz_u8(struct fuzz_input *in)
{
	uint8_t b;

	fuzz_take(in, &b, sizeof(b));
	return b;
}

static inline uint16_t fuzz_u16(struct fuzz_input *in)
{
	uint8_t b[2];

	fuzz_take(in, b, sizeof(b));
	return wire_get16(b);
}

static inline uint32_t fuzz_u32(struct fuzz_input *in)
{
	uint8_t b[4];

	fuzz_take(in, b, sizeof(b));
	return wire_get32(b);
}

static inline uint64_t fuzz_u64(struct fuzz_input *in)
{
	uint8_t b[8];

	fuzz_take(in, b, sizeof(b));
	return wire_get64(b);
}

static inline bool fuzz_bool(struct fuzz_input *in)
{
	return fuzz_u8(in) & 1;
}

/* Returns the rest as a string on the heap; the caller frees it. */
static inline char *fuzz_text(const struct fuzz_input *in)
{
	char *text = malloc(in->left + 1);

	if (!text)
		abort();
	if (in->left)
		memcpy(text, in->p, in->left);
	text[in->left] = '\0';
	return text;
}

/* True if [@p, @p + @len) lies in [@in, @in + @in_len). */
static inline bool fuzz_lies_in(const void *p, size_t len, const void *in,
				size_t in_len)
{
	uintptr_t at = (uintptr_t)p - (uintptr_t)in;

	return at <= in_len && len <= in_len - at;
}

#endif
