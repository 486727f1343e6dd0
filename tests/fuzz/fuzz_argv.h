/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a command line from an input: arguments end with a newline. */
#ifndef TESTS_FUZZ_FUZZ_ARGV_H
#define TESTS_FUZZ_FUZZ_ARGV_H

#include "tests/fuzz/fuzz.h"

#define FUZZ_ARGS 32

struct fuzz_argv {
	char *text;
	char *argv[FUZZ_ARGS + 1];
	int argc;
};

/* The caller frees ret->text. */
static inline void fuzz_argv(const struct fuzz_input *in, const char *program,
			     struct fuzz_argv *ret)
{
	char *at;

	*ret = (struct fuzz_argv){ .text = fuzz_text(in) };
	ret->argv[ret->argc++] = (char *)(uintptr_t)program;
	for (at = ret->text; at && ret->argc < FUZZ_ARGS;) {
		char *end = strchr(at, '\n');

		if (end)
			*end++ = '\0';
		ret->argv[ret->argc++] = at;
		at = end && *end ? end : NULL;
	}
	ret->argv[ret->argc] = NULL;
}

#endif
