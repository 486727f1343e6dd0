/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of connections: a name, and a secret that both ends have. docs/tls.md describes
 * what the transport does with them.
 *
 * Thread: any, unless it says otherwise. A struct xp_key belongs into memory that core
 * dumps leave out (base/secret.h), or on the stack, and is wiped after use.
 */
#ifndef TRANSPORT_KEYS_H
#define TRANSPORT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a name with its NUL: an NQN has at most 223. */
#define XP_KEY_NAME_SIZE 224
/* Bytes of a secret. */
#define XP_KEY_LEN_MIN 32
#define XP_KEY_LEN_MAX 64
/* Secrets of one name, while they are changed. */
#define XP_KEY_SECRETS_MAX 2

struct xp_key {
	char name[XP_KEY_NAME_SIZE];
	uint8_t secret[XP_KEY_LEN_MAX];
	size_t len;
};

/* What a listener asks about keys. */
struct xp_keyring {
	/*
	 * The secret number @nth of @name, from 0, below XP_KEY_SECRETS_MAX. Return: 0;
	 * -ENOENT: there are no more. Thread: the reactor of the listener.
	 */
	int (*find)(void *ctx, const char *name, unsigned int nth,
		    struct xp_key *ret);
	/*
	 * The handshake with @peer ("10.0.0.1:5555") failed; @why is a clause for the
	 * log. May be NULL. Thread: as find.
	 */
	void (*refused)(void *ctx, const char *peer, const char *why);
	void *ctx;
};

/* Is it 1 to 223 bytes, all of them printable ASCII without spaces? */
bool xp_key_name_is_valid(const char *name, size_t len);

/* Overwrites the secret. */
void xp_key_wipe(struct xp_key *key);

#endif
