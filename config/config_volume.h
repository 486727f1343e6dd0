/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes in a configuration; config.h describes their form. Thread: any. */
#ifndef CONFIG_CONFIG_VOLUME_H
#define CONFIG_CONFIG_VOLUME_H

#include "config/config_json.h"

/* The canonical form of the parameters of a plugin, which are at @place. NULL:
 * refused. */
json_t *config_check_plugin(const json_t *parameters, const char *place,
			    struct config_fault *fault);

#endif
