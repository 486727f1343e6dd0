/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion of verbs and of what follows them, for bash and zsh. Thread: setup. */
#ifndef DOCS_OPTION_VERBS_H
#define DOCS_OPTION_VERBS_H

#include "base/option.h"

/* The table of @t's verbs, or NULL. */
const struct option_table *verbs_of(const struct option_table *t);

/*
 * Prints a function for both shells: _PROGRAM_words WORD... prints the words that may
 * follow WORD... It asks the target for names. It returns 1 where a file follows, and 2
 * where keys may follow the file.
 */
void verbs_words(const char *program, const struct option_table *t,
		 const struct option_table *verbs);

/* Prints code of the completion function: it begins a "case" and has the branch of words. */
void verbs_bash(const char *program);
/* Prints the end of the completion function, for the state "word". */
void verbs_zsh(const char *program);

/* Finds a verb whose value has keys, VALUE,KEY=VALUE...; NULL: none. */
const struct option_row *verbs_with_keys(const struct option_table *verbs);

#endif
