/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/plugin_spec.h"

#include <stdio.h>

bool plugin_spec_add(struct plugin_spec *spec, const char *key,
		     const char *value)
{
	size_t left = sizeof(spec->args) - spec->args_len;
	int len = snprintf(spec->args + spec->args_len, left, "%s%s%s", key,
			   value ? "=" : "", value ? value : "");

	if (len < 0 || (size_t)len >= left)
		return false;
	spec->args_len += (size_t)len + 1;
	return true;
}
