/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/plugin_spec.h"

#include <string.h>

bool plugin_spec_add(struct plugin_spec *spec, const char *arg)
{
	size_t len = strlen(arg) + 1;

	if (len > sizeof(spec->args) - spec->args_len)
		return false;
	memcpy(spec->args + spec->args_len, arg, len);
	spec->args_len += len;
	return true;
}
