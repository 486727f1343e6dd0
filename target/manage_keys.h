/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of a running target (manage.h). Thread: any but a worker's. */
#ifndef TARGET_MANAGE_KEYS_H
#define TARGET_MANAGE_KEYS_H

#include "base/given_files.h"
#include "target/manage.h"

/* Copies the names that keys can prove. False: refused. */
bool manage_get_names(struct manage *m, struct access_names *ret,
		      struct manage_fault *f);

/*
 * Reads the file of --keys again, by a descriptor of @given, or else by its path. The
 * sessions of names that have lost a key end, and so do those that would see other
 * volumes: *ret_ended of them. With the lock.
 */
bool manage_reload_keys(struct manage *m, struct given_files *given,
			unsigned int *ret_ended, struct manage_fault *f);

#endif
