/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/keys.h"

#include <string.h>

bool xp_key_name_is_valid(const char *name, size_t len)
{
	if (len == 0 || len >= XP_KEY_NAME_SIZE)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	}
	return true;
}

void xp_key_wipe(struct xp_key *key)
{
	explicit_bzero(key->secret, sizeof(key->secret));
	key->len = 0;
}
