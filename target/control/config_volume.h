/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes in a configuration; config.h describes their form. Thread: any. */
#ifndef TARGET_CONTROL_CONFIG_VOLUME_H
#define TARGET_CONTROL_CONFIG_VOLUME_H

#include "target/control/config.h"

/* The canonical form of a SPEC that volume_spec_parse() takes. NULL: no memory. */
json_t *config_volume_from_spec(const char *spec);

/* The canonical form of the parameters of a plugin, which are at @place. NULL:
 * refused. */
json_t *config_check_plugin(const json_t *parameters, const char *place,
			    struct config_fault *fault);

#endif
