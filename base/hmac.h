/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Codes that show who has written a message: HMAC-SHA256 (RFC 2104), by nettle, under a
 * key of a file (key_file.h). In builds without nettle, no key can be read.
 *
 * Thread: any.
 */
#ifndef BASE_HMAC_H
#define BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HMAC_LEN 32 /* bytes of a code */

struct hmac_key {
	const char *bytes; /* borrowed; secret.h */
	size_t len;	   /* 0: there is no key */
};

/* Writes the code of @data to @ret_code, of HMAC_LEN bytes. @key is a struct hmac_key, as
 * discovery_encode() calls it. */
void hmac_code(void *key, const void *data, size_t len, uint8_t *ret_code);
/* Is @code the code of @data? How long that takes does not depend on @code. */
bool hmac_check(const struct hmac_key *key, const void *data, size_t len,
		const uint8_t *code);

#endif
