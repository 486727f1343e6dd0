/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses are added and removed while the target runs. Sessions on a removed
 * address stay: their initiators keep their disks, but cannot log in there
 * again.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_LISTEN_H
#define TARGET_MANAGE_LISTEN_H

#include "base/given_files.h"
#include "target/manage.h"

/* @uri is like the argument of --listen, with a numeric address. Over TCP, @given has a
 * socket that listens there, under the name @uri; it may be NULL. False: refused. */
bool manage_add_listener(struct manage *m, const char *uri,
			 const struct given_files *given,
			 struct manage_fault *f);
/* @uri as it was given, or as GetStatus shows it. The last address cannot be
 * removed. */
bool manage_remove_listener(struct manage *m, const char *uri,
			    struct manage_fault *f);
/* Makes the first address, which has got a name for the sake of others beside it,
 * the default again. */
void manage_default_listener(struct manage *m);
/* Does the target listen there already, with the same keys? */
bool manage_listens(const struct manage *m, const char *uri);

/* Is that address with these keys, however it is written, in @list? */
bool manage_has_listener(const json_t *list, const char *uri);

/* Returns "srp+rdma://10.0.0.1:5555?pkey=8001&sl=3", which the caller frees. */
json_t *manage_listener_text(const struct listen_point *point);

#endif
