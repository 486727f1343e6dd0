/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hmac.h"

#include <string.h>

#include "config.h"

#if HAVE_NETTLE
#include <nettle/hmac.h>
#include <nettle/memops.h>

void hmac_code(void *key, const void *data, size_t len, uint8_t *ret_code)
{
	const struct hmac_key *k = key;
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, k->len, (const uint8_t *)k->bytes);
	hmac_sha256_update(&ctx, len, data);
	hmac_sha256_digest(&ctx, HMAC_LEN, ret_code);
	/* As good as the key. */
	explicit_bzero(&ctx, sizeof(ctx));
}

bool hmac_check(const struct hmac_key *key, const void *data, size_t len,
		const uint8_t *code)
{
	uint8_t right[HMAC_LEN];

	hmac_code((void *)key, data, len, right);
	return memeql_sec(right, code, HMAC_LEN);
}

#else

void hmac_code(void *key, const void *data, size_t len, uint8_t *ret_code)
{
	memset(ret_code, 0, HMAC_LEN);
}

bool hmac_check(const struct hmac_key *key, const void *data, size_t len,
		const uint8_t *code)
{
	return false;
}
#endif
