/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters of the plugins of volumes that are served.
 *
 * Thread: any but a worker's; with the lock of the struct manage.
 */
#ifndef TARGET_MANAGE_PARAMETERS_H
#define TARGET_MANAGE_PARAMETERS_H

#include "target/manage.h"

/* Changes parameters of a plugin of a volume, if the plugin can change them
 * while it serves. @parameters: canonical, of the plugin @plugin: the store, or
 * the uppermost layer of that name. All or none of them change. */
bool manage_set_parameters(struct manage *m, const char *name,
			   const char *plugin, const json_t *parameters,
			   struct manage_fault *f);

#endif
