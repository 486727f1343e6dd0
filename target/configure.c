/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/configure.h"

#include "config.h"
#include "target/configure_file.h"

enum option_verdict configuration_read(int argc, char **argv,
				       struct configuration *ret)
{
	enum option_verdict verdict;

	ret->file = NULL;
	ret->all = NULL;
	target_options_init(&ret->opt);
	verdict = target_options_add(argc, argv, &ret->opt);
#if HAVE_JSON
	if (verdict == OPTION_RUN)
		verdict = configuration_read_file(argc, argv, ret);
#endif
	if (verdict != OPTION_RUN)
		return verdict;
	return target_options_finish(&ret->opt) ? OPTION_RUN : OPTION_BAD;
}

void configuration_free(struct configuration *c)
{
	target_options_free(&c->opt);
#if HAVE_JSON
	configuration_drop_file(c);
#endif
}
