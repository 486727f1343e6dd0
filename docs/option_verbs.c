/* SPDX-License-Identifier: BSD-2-Clause */
#include "docs/option_verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"

const struct option_table *verbs_of(const struct option_table *t)
{
	for (unsigned int i = 0; t->parts && t->parts[i]; i++)
		if (t->parts[i]->style == OPTION_VERB)
			return t->parts[i];
	return NULL;
}

const struct option_row *verbs_with_keys(const struct option_table *verbs)
{
	for (unsigned int i = 0; i < verbs->cnt; i++)
		if (verbs->rows[i].keys)
			return &verbs->rows[i];
	return NULL;
}

/* ---- the words that may follow ---- */

/* What a running target knows: the verb that lists it, and where it is in the lines. */
static const struct verbs_source {
	const char *value;
	const char *list;
	const char *awk;
} verbs_sources[] = {
	{ "NAME", "volume list", "NR > 1 { print $2 }" },
	{ "INITIATOR", "session list", "NR > 1 { print $1 }" },
	{ "URI", "status",
	  "$1 == \"listens\" { on = 1; print $3; next } "
	  "/^ / && on { print $1; next } { on = 0 }" },
};

/* An address to add is not one that there is. */
static bool verbs_makes_new(const char *verb)
{
	const char *space = strchr(verb, ' ');

	return space && !strcmp(space, " add");
}

/* True if the first value of @row is @word, which may be in brackets. */
static bool verbs_takes(const struct option_row *row, const char *word)
{
	const char *value = row->value ? row->value : "";

	value += *value == '[';
	return strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(word) &&
	       !strncmp(value, word, strlen(word)) &&
	       !verbs_makes_new(row->name);
}

static void verbs_first_words(const struct option_table *verbs)
{
	printf("\t'') printf '%%s\\n'");
	for (unsigned int i = 0; i < verbs->cnt; i++) {
		const char *name = verbs->rows[i].name;
		size_t len = strcspn(name, " ");

		/* Once for all that begin so. */
		if (i == 0 || strncmp(verbs->rows[i - 1].name, name, len) ||
		    !name[len])
			printf(" %.*s", (int)len, name);
	}
	puts(" ;;");
}

/* Prints the second words, at the first of the verbs that begin with the same word. */
static void verbs_second_words(const struct option_table *verbs, unsigned int i)
{
	const char *name = verbs->rows[i].name;
	size_t len = strcspn(name, " ");

	if (!name[len] ||
	    (i > 0 && !strncmp(verbs->rows[i - 1].name, name, len + 1)))
		return;
	printf("\t%.*s) printf '%%s\\n'", (int)len, name);
	for (; i < verbs->cnt && !strncmp(verbs->rows[i].name, name, len + 1);
	     i++)
		printf(" %s", verbs->rows[i].name + len + 1);
	puts(" ;;");
}

static void verbs_choices(const struct option_row *row)
{
	if (!row->choices)
		return;
	printf("\t'%s') printf '%%s\\n'", row->name);
	for (int i = 0; row->choices[i]; i++)
		printf(" %s", row->choices[i]);
	puts(" ;;");
}

/* They return 1, or 2 if keys may follow the file. */
static void verbs_with_files(const struct option_table *verbs, bool keys)
{
	const char *before = "\t";

	for (unsigned int i = 0; i < verbs->cnt; i++) {
		if (verbs->rows[i].type != OPTION_PATH ||
		    !verbs->rows[i].keys != !keys)
			continue;
		printf("%s'%s'", before, verbs->rows[i].name);
		before = " | ";
	}
	printf(") return %d ;;\n", keys ? 2 : 1);
}

static void verbs_with_names(const char *program,
			     const struct option_table *verbs,
			     const struct verbs_source *source)
{
	const char *before = "\t";

	for (unsigned int i = 0; i < verbs->cnt; i++) {
		if (!verbs_takes(&verbs->rows[i], source->value))
			continue;
		printf("%s'%s'", before, verbs->rows[i].name);
		before = " | ";
	}
	printf(")\n\t\t%s ${control:+\"--control=$control\"} --timeout=2 %s "
	       "2>/dev/null |\n\t\t\tawk '%s' ;;\n",
	       program, source->list, source->awk);
}

/* Takes the verb out of the words that are no options. */
static void verbs_scan(const struct option_table *t)
{
	puts("\tlocal control=\"\" verb=\"\"\n"
	     "\twhile [ $# -gt 0 ]; do\n"
	     "\t\tcase $1 in\n"
	     "\t\t--control) control=${2-} && shift ;;\n"
	     "\t\t--control=*) control=${1#*=} ;;");
	for (unsigned int i = 0; i < t->cnt; i++)
		if (t->rows[i].value && strcmp(t->rows[i].name, "control") != 0)
			printf("\t\t--%s) shift ;;\n", t->rows[i].name);
	puts("\t\t-*) ;;\n"
	     "\t\t*) verb=\"$verb $1\" ;;\n"
	     "\t\tesac\n"
	     "\t\t[ $# -eq 0 ] || shift\n"
	     "\tdone");
}

void verbs_words(const char *program, const struct option_table *t,
		 const struct option_table *verbs)
{
	printf("_%s_words() {\n", program);
	verbs_scan(t);
	puts("\tcase ${verb# } in");
	verbs_first_words(verbs);
	for (unsigned int i = 0; i < verbs->cnt; i++) {
		verbs_second_words(verbs, i);
		verbs_choices(&verbs->rows[i]);
	}
	verbs_with_files(verbs, /* keys= */ false);
	verbs_with_files(verbs, /* keys= */ true);
	for (size_t i = 0; i < ARRAY_SIZE(verbs_sources); i++)
		verbs_with_names(program, verbs, &verbs_sources[i]);
	puts("\tesac\n}\n");
}

/* ---- bash ---- */

void verbs_bash(const char *program)
{
	puts("\t# What readline has cut at ':' and '=' is one word again.\n"
	     "\tlocal all=() known word i n=-1\n"
	     "\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
	     "\t\tif ((n >= 0)) && [[ ${COMP_WORDS[i]} == [:=]* || "
	     "${all[n]} == *[:=] ]]; then\n"
	     "\t\t\tall[n]+=${COMP_WORDS[i]}\n"
	     "\t\telse\n"
	     "\t\t\tall[++n]=${COMP_WORDS[i]}\n"
	     "\t\tfi\n"
	     "\tdone");
	/* Names are not expanded, as "compgen -W" would. */
	printf("\tknown=$(_%s_words \"${all[@]:0:n}\")\n"
	       "\tcase $? in\n"
	       "\t0)\n"
	       "\t\tlocal cut=${all[n]%%\"${all[n]##*[:=]}\"}\n"
	       "\t\twhile IFS= read -r word; do\n"
	       "\t\t\t[[ $word == \"${all[n]}\"* && $word ]] || continue\n"
	       "\t\t\tprintf -v word %%q \"${word#\"$cut\"}\"\n"
	       "\t\t\tCOMPREPLY+=(\"$word\")\n"
	       "\t\tdone <<<\"$known\"\n"
	       "\t\treturn\n"
	       "\t\t;;\n",
	       program);
}

/* ---- zsh ---- */

void verbs_zsh(const char *program)
{
	printf("[[ $state = word ]] || return\n"
	       "local known\n"
	       "if known=$(_%s_words \"$before[@]\"); then\n"
	       "\tcompadd -- ${(f)known}\n"
	       "else\n"
	       "\t_files\n"
	       "fi\n",
	       program);
}
