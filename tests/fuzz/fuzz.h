/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fuzz targets share. Each is a program of its own, of libFuzzer and
 * the code under test under AddressSanitizer and UBSan; scripts/fuzz runs them.
 *
 * An input is read from its front, piece by piece; whatever has been used up
 * reads as zeroes. What a decoder is to look at comes last, so that its end is
 * the end of the allocation, and a read of one byte too many is found.
 *
 * A target claims more than that nothing crashes: what is encoded decodes to
 * the same, what is refused has written nothing, and so on.
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

/* Standard error as it was: libFuzzer closes it, for all that the code under
 * test has to say. */
static int fuzz_stderr = STDERR_FILENO;

__attribute__((constructor)) static void fuzz_keep_stderr(void)
{
	fuzz_stderr = dup(STDERR_FILENO);
}

/* Descriptors 0, 1 and 2 are taken: nothing that is opened later becomes
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

/* Ends the run as a finding, when @claim does not hold. */
#define FUZZ_CLAIM(claim)                                                  \
	do {                                                               \
		if (!(claim)) {                                            \
			dprintf(fuzz_stderr, "%s:%d: does not hold: %s\n", \
				__FILE__, __LINE__, #claim);               \
			abort();                                           \
		}                                                          \
	} while (0)

/* Byte for byte as the compiler would compare the members: results are
 * compared member by member only where they have padding. */
#define FUZZ_FILL(result) memset(&(result), 0xa5, sizeof(result))

/* Nothing has been written since FUZZ_FILL(). */
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

/* Takes @n bytes into @buf, zeroes where there are no more. */
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

/* What is left as a string on the heap; the caller frees it. */
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

/* Does [@p, @p + @len) lie in [@in, @in + @in_len)? */
static inline bool fuzz_lies_in(const void *p, size_t len, const void *in,
				size_t in_len)
{
	uintptr_t at = (uintptr_t)p - (uintptr_t)in;

	return at <= in_len && len <= in_len - at;
}

#endif
