/* SPDX-License-Identifier: BSD-2-Clause */
/* Without jansson there is no configuration file. */
#include "target/configure.h"

enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret)
{
	ret->file = NULL;
	ret->all = NULL;
	return target_options_parse(argc, argv, &ret->opt);
}

void configuration_free(struct configuration *c)
{
	target_options_free(&c->opt);
}
