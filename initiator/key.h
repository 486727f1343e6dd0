/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key by which a session proves its name: the first one of a file of keys (key_file.h),
 * or of the key of the type "user" that the kernel finds in the keyrings of the process by
 * its description.
 *
 * Thread: any. These functions may block.
 */
#ifndef INITIATOR_KEY_H
#define INITIATOR_KEY_H

#include "base/error.h"
#include "transport/keys.h"

/* What begins the description of a key of the kernel. */
#define INI_KEYRING "keyring:"

/* @where: a path, or INI_KEYRING and a description. 0, or -errno with one clause in @e. */
int ini_key_read(const char *where, struct xp_key **ret, struct error *e);

/* NULL is fine. */
void ini_key_free(struct xp_key *key);

#endif
