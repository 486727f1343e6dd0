/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the option sections of the manual pages, the completions of bash and zsh,
 * and the schema of configuration files, from the tables of the programs
 * (base/option.h).
 *
 *   option-doc man <PAGE.scd    each line "@options TABLE@" becomes its options,
 *                               "@keys TABLE@" the keys that a configuration file has
 *                               for them, and "@metrics PROGRAM@" its metrics
 *   option-doc bash PROGRAM     a completion file
 *   option-doc zsh PROGRAM
 *   option-doc schema           what a configuration file of rdma-target may say
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/option.h"
#include "config.h"
#include "copy/options.h"
#include "ctl/ctl_options.h"
#include "discover/options.h"
#include "docs/option_verbs.h"
#include "doctor/doctor_options.h"
#include "fuse/metrics.h"
#include "fuse/options.h"
#include "initiator/info_options.h"
#include "config/options.h"
#include "target/port/metrics.h"

static const struct doc_table {
	const char *name; /* of a program, or of its options with keys */
	const struct option_table *table;
} doc_tables[] = {
	{ "rdma-target", &target_option_table },
	{ "volume", &volume_option_table },
	{ "rdma-fuse", &fuse_option_table },
	{ "mount", &fuse_mount_table },
	{ "rdma-info", &info_option_table },
	{ "rdma-discover", &discover_option_table },
	{ "rdma-doctor", &doctor_option_table },
	{ "srpcopy", &copy_option_table },
#if HAVE_JSON
	{ "rdma-ctl", &ctl_option_table },
	{ "verbs", &ctl_verb_table },
#endif
};

static const struct option_table *find_table(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(doc_tables); i++)
		if (!strcmp(doc_tables[i].name, name))
			return doc_tables[i].table;
	return NULL;
}

/* Of a configuration file. */
static bool is_key(const struct option_row *row)
{
	return !row->cmdline_only && row->type != OPTION_HELP &&
	       row->type != OPTION_VERSION;
}

/* ---- the manual page ---- */

/* "NAME" is underlined, "on|off" and everything of @bold are bold. */
static void man_put(const char *bold, const char *value)
{
	char mark = '*';

	printf("*%s", bold);
	for (; *value; value++) {
		char want = isupper((unsigned char)*value)   ? '_'
			    : isalnum((unsigned char)*value) ? '*'
							     : '\0';

		if (want != mark && mark)
			putchar(mark);
		if (want != mark && want)
			putchar(want);
		mark = want;
		putchar(*value);
	}
	if (mark)
		putchar(mark);
}

static void man_key(const char *before, const struct option_row *row)
{
	char bold[64];

	snprintf(bold, sizeof(bold), "%s%s%s", before, row->name,
		 row->value ? "=" : "");
	for (char *p = bold + strlen(before); row->also_mount && *p; p++)
		*p = *p == '-' ? '_' : *p;
	man_put(bold, row->value ? row->value : "");
}

static void man_long(const struct option_row *row)
{
	if (row->letter)
		printf("*-%c*, ", row->letter);
	printf("*--%s*", row->name);
	for (const char *v = row->value; v && *v; v++) {
		size_t len = strspn(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

		if (v == row->value)
			putchar(' ');
		if (len) {
			printf("_%.*s_", (int)len, v);
			v += len - 1;
		} else {
			putchar(*v);
		}
	}
	if (!row->also_mount)
		return;
	fputs(", ", stdout);
	man_key("-o ", row);
}

/* "*volume remove* _NAME_": what is in capitals is a value. */
static void man_verb(const struct option_row *row)
{
	printf("*%s*", row->name);
	for (const char *v = row->value; v && *v;) {
		size_t len = strspn(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

		if (v == row->value)
			putchar(' ');
		if (len) {
			printf("_%.*s_", (int)len, v);
			v += len;
		} else {
			putchar(*v++);
		}
	}
}

static void man_heading(const struct option_table *t,
			const struct option_row *row)
{
	switch (t->style) {
	case OPTION_LONG:
		man_long(row);
		break;
	case OPTION_MOUNT:
		man_key("", row);
		break;
	case OPTION_SPEC:
		man_key(",", row);
		break;
	case OPTION_VERB:
		man_verb(row);
		break;
	}
}

/* Indents each line of @text that is not empty. */
static void man_more(const char *text)
{
	puts("");
	while (*text) {
		size_t len = strcspn(text, "\n");

		printf("%s%.*s\n", len ? "\t" : "", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static void man_table(const struct option_table *t)
{
	char text[2048];

	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];

		if (!row->help)
			continue;
		man_heading(t, row);
		for (unsigned int j = i + 1; j < t->cnt && !t->rows[j].help;
		     j++) {
			fputs(", ", stdout);
			man_heading(t, &t->rows[j]);
		}
		printf("\n\t%s\n",
		       option_summary_text(row, text, sizeof(text)));
		if (row->more)
			man_more(row->more);
		puts("");
	}
}

/* What the page of the file calls such a value. */
static const char *man_key_type(const struct option_row *row)
{
	if (row->keys)
		return "volume";
	switch (row->type) {
	case OPTION_FLAG:
		return "flag";
	case OPTION_NUMBER:
	case OPTION_OCTAL:
		return "number";
	case OPTION_SIZE:
		return "size";
	case OPTION_DURATION:
	case OPTION_CHOICE:
	case OPTION_NAME:
	case OPTION_TEXT:
	case OPTION_PATH:
	case OPTION_DIR:
	case OPTION_USER:
	case OPTION_HELP:
	case OPTION_VERSION:
		break;
	}
	return "text";
}

/* "*max-logins*: number" and what the option does. */
static void man_keys(const struct option_table *t)
{
	char text[2048];

	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];

		if (!is_key(row))
			continue;
		printf("*%s*: %s%s\n\t%s\n\n", row->name, man_key_type(row),
		       row->again ? ", or an array of them" : "",
		       option_summary_text(row, text, sizeof(text)));
	}
}

/* "*rdma_target_commands_total*{worker}", its type and what it is. */
static void man_metrics(const struct metric_table *t)
{
	char name[METRIC_NAME_SIZE];

	for (size_t i = 0; i < t->cnt; i++) {
		const struct metric *m = &t->rows[i];

		metric_full_name(t, m, name);
		printf("*%s*", name);
		if (*m->labels)
			printf("{%s}", m->labels);
		printf("\n\t%s (%s)\n\n", m->help, metric_type_name(m->type));
	}
}

static int man(void)
{
	char line[4096];
	char what[16], name[32];

	while (fgets(line, sizeof(line), stdin)) {
		const struct option_table *t;

		if (!strcmp(line, "@metrics rdma-target@\n")) {
			man_metrics(&metrics_table);
			continue;
		}
		if (!strcmp(line, "@metrics rdma-fuse@\n")) {
			man_metrics(&fuse_metrics_table);
			continue;
		}
		if (sscanf(line, "@%15[a-z] %31[a-z-]@", what, name) != 2) {
			fputs(line, stdout);
			continue;
		}
		t = find_table(name);
		if (!t) {
			fprintf(stderr, "option-doc: no table '%s'\n", name);
			return EXIT_FAILURE;
		}
		if (!strcmp(what, "keys"))
			man_keys(t);
		else
			man_table(t);
	}
	return EXIT_SUCCESS;
}

/* ---- completion ---- */

/* The names that -o or a SPEC may have, with '=' where a value follows. */
static void print_keys(const struct option_table *main_table,
		       const struct option_table *keys)
{
	for (unsigned int i = 0; i < keys->cnt; i++)
		printf("%s%s ", keys->rows[i].name,
		       keys->rows[i].value ? "=" : "");
	for (unsigned int i = 0;
	     keys->style == OPTION_MOUNT && i < main_table->cnt; i++) {
		const struct option_row *row = &main_table->rows[i];

		for (const char *p = row->name; row->also_mount && *p; p++)
			putchar(*p == '-' ? '_' : *p);
		if (row->also_mount)
			fputs("= ", stdout);
	}
}

static void print_choices(const struct option_row *row)
{
	for (int i = 0; row->choices[i]; i++)
		printf("%s%s", i ? " " : "", row->choices[i]);
}

/* Keys behind the last comma; before the first, a file if it may be one. */
static void bash_keys(const struct option_table *t,
		      const struct option_row *row)
{
	fputs("\t\tlocal before=${cur%\"${cur##*,}\"}\n"
	      "\t\tlocal keys=\"",
	      stdout);
	print_keys(t, row->keys);
	puts("\"\n\t\tcompopt -o nospace 2>/dev/null");
	if (row->type == OPTION_PATH)
		puts("\t\tif [ -z \"$before\" ]; then\n"
		     "\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
		     "\t\t\treturn\n"
		     "\t\tfi");
	puts("\t\tmapfile -t COMPREPLY < <(compgen -P \"$before\" -W "
	     "\"$keys\" -- \"${cur##*,}\")");
}

static void bash_value(const struct option_table *t,
		       const struct option_row *row)
{
	const char *action = row->type == OPTION_PATH	? "f"
			     : row->type == OPTION_DIR	? "d"
			     : row->type == OPTION_USER ? "u"
							: NULL;

	if (row->letter)
		printf("\t-%c | --%s)\n", row->letter, row->name);
	else
		printf("\t--%s)\n", row->name);
	if (row->keys) {
		bash_keys(t, row);
	} else if (row->choices) {
		fputs("\t\tmapfile -t COMPREPLY < <(compgen -W \"", stdout);
		print_choices(row);
		puts("\" -- \"$cur\")");
	} else if (action) {
		printf("\t\tcompopt -o filenames 2>/dev/null\n"
		       "\t\tmapfile -t COMPREPLY < <(compgen -%s -- \"$cur\")\n",
		       action);
	}
	puts("\t\treturn\n\t\t;;");
}

static void bash_verbs(const char *program, const struct option_table *t,
		       const struct option_table *verbs)
{
	const struct option_row *row = verbs_with_keys(verbs);

	verbs_bash(program);
	if (row) {
		puts("\t2)");
		bash_keys(t, row);
		puts("\t\treturn\n\t\t;;");
	}
	puts("\tesac");
}

static void bash(const char *program, const struct option_table *t)
{
	const struct option_table *verbs = verbs_of(t);

	printf("# bash completion of %s, made from its table of options\n",
	       program);
	if (verbs)
		verbs_words(program, t, verbs);
	printf("_%s() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
	       "prev=${COMP_WORDS[COMP_CWORD - 1]}\n\n"
	       "\t# --NAME=VALUE comes as three words.\n"
	       "\t[ \"$prev\" != = ] || prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	       "\tif [ \"$cur\" = = ]; then cur=\"\"; fi\n"
	       "\tCOMPREPLY=()\n\tcase $prev in\n",
	       program);
	for (unsigned int i = 0; i < t->cnt; i++)
		if (t->rows[i].value)
			bash_value(t, &t->rows[i]);
	fputs("\tesac\n\tif [[ $cur == -* ]]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"",
	      stdout);
	for (unsigned int i = 0; i < t->cnt; i++)
		printf("%s--%s", i ? " " : "", t->rows[i].name);
	puts("\" -- \"$cur\")\n\t\treturn\n\tfi");
	if (verbs)
		bash_verbs(program, t, verbs);
	printf("\tcompopt -o filenames 2>/dev/null\n"
	       "\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	       "}\ncomplete -F _%s %s\n",
	       program, program);
}

/* The first sentence, without what _arguments takes for its own. */
static void zsh_text(const struct option_row *row)
{
	char text[1024];
	char *end;

	snprintf(text, sizeof(text), "%s", row->help ? row->help : "");
	option_strip(text);
	end = strstr(text, ". ");
	if (!end && *text)
		end = text + strlen(text) - 1; /* the last full stop */
	if (end)
		*end = '\0';
	for (const char *p = text; *p; p++) {
		if (*p == '\'')
			fputs("'\\'", stdout);
		if (strchr("[]:", *p))
			putchar('\\');
		putchar(*p);
	}
}

static void zsh_value(const struct option_table *t,
		      const struct option_row *row)
{
	printf(":%s:", row->type == OPTION_USER ? "user" : "value");
	if (row->choices) {
		putchar('(');
		print_choices(row);
		putchar(')');
	} else if (row->keys && row->type != OPTION_PATH) {
		fputs("_sequence compadd - ", stdout);
		print_keys(t, row->keys);
	} else if (row->type == OPTION_PATH) {
		fputs("_files", stdout);
	} else if (row->type == OPTION_DIR) {
		fputs("_files -/", stdout);
	} else if (row->type == OPTION_USER) {
		fputs("_users", stdout);
	}
}

static void zsh(const char *program, const struct option_table *t)
{
	const struct option_table *verbs = verbs_of(t);

	printf("#compdef %s\n# made from its table of options\n", program);
	if (verbs) {
		verbs_words(program, t, verbs);
		puts("local curcontext=$curcontext state line\n"
		     "local -a before=(\"${(@Q)words[2,CURRENT-1]}\")\n"
		     "typeset -A opt_args");
	}
	printf("_arguments -s -S%s", verbs ? " -C" : "");
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];
		const char *sign = row->value ? "=" : "";

		printf(" \\\n\t");
		if (row->again)
			fputs("'*'", stdout);
		else if (row->letter)
			printf("'(-%c --%s)'", row->letter, row->name);
		if (row->letter)
			printf("{-%c%s,--%s%s}'[", row->letter,
			       row->value ? "+" : "", row->name, sign);
		else
			printf("'--%s%s[", row->name, sign);
		zsh_text(row);
		putchar(']');
		if (row->value)
			zsh_value(t, row);
		putchar('\'');
	}
	printf(" \\\n\t'*:%s'\n", verbs ? ":word:->word" : "file:_files");
	if (verbs)
		verbs_zsh(program);
}

/* ---- the schema (JSON Schema, draft 7) ---- */

static void schema_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (strchr("\"\\", *text))
			putchar('\\');
		putchar(*text == '\n' ? ' ' : *text);
	}
	putchar('"');
}

#define SCHEMA_SIZE \
	"{\"type\": \"string\", \"pattern\": \"^[0-9]+[kKmMgGtTpPeE]?$\"}"

static void schema_choices(const struct option_row *row)
{
	const char *quote = row->type == OPTION_SIZE ? "" : "\"";

	fputs("{\"enum\": [", stdout);
	for (int i = 0; row->choices[i]; i++)
		printf("%s%s%s%s", i ? ", " : "", quote, row->choices[i],
		       quote);
	fputs("]}", stdout);
}

static void schema_number(const struct option_row *row)
{
	printf("{\"type\": \"integer\", \"minimum\": %llu",
	       (unsigned long long)row->min);
	if (row->max)
		printf(", \"maximum\": %llu", (unsigned long long)row->max);
	putchar('}');
}

static void schema_value(const struct option_row *row)
{
	if (row->keys) {
		fputs("{\"$ref\": \"#/definitions/volume\"}", stdout);
	} else if (!strcmp(row->name, "layer")) {
		fputs("{\"$ref\": \"#/definitions/layer\"}", stdout);
	} else if (row->type == OPTION_FLAG) {
		fputs("{\"type\": \"boolean\"}", stdout);
	} else if (row->type == OPTION_NUMBER || row->type == OPTION_SIZE) {
		fputs("{\"anyOf\": [", stdout);
		if (row->choices)
			schema_choices(row);
		else
			schema_number(row);
		printf(", %s]}",
		       row->type == OPTION_SIZE
			       ? SCHEMA_SIZE
			       : "{\"type\": \"string\", \"pattern\": "
				 "\"^[0-9]+$\"}");
	} else if (row->choices) {
		schema_choices(row);
	} else {
		fputs("{\"type\": \"string\"}", stdout);
	}
}

static void schema_row(const struct option_row *row)
{
	char text[2048];

	printf(",\n    \"%s\": {\n      \"description\": ", row->name);
	schema_text(option_strip(option_summary_text(row, text, sizeof(text))));
	fputs(",\n      \"anyOf\": [", stdout);
	schema_value(row);
	if (row->again) {
		fputs(", {\"type\": \"array\", \"items\": ", stdout);
		schema_value(row);
		putchar('}');
	}
	fputs("]\n    }", stdout);
}

/* The rows of @t, behind a property that is none of them. */
static void schema_rows(const struct option_table *t)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct option_row *row = &t->rows[i];

		if (is_key(row))
			schema_row(row);
	}
}

static int schema(void)
{
	puts("{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
	     "  \"title\": \"Configuration of rdma-target\",\n"
	     "  \"type\": \"object\",\n"
	     "  \"additionalProperties\": false,\n"
	     "  \"properties\": {\n"
	     "    \"$schema\": {\"type\": \"string\"}");
	schema_rows(&target_option_table);
	puts("\n  },\n  \"definitions\": {\n"
	     "  \"parameters\": {\"type\": \"object\", "
	     "\"additionalProperties\": {\"anyOf\": [{\"type\": \"string\"}, "
	     "{\"type\": \"integer\"}, {\"const\": true}]}},\n"
	     "  \"layer\": {\"anyOf\": [{\"type\": \"string\"}, "
	     "{\"type\": \"object\", \"required\": [\"plugin\"], "
	     "\"additionalProperties\": false, \"properties\": {"
	     "\"plugin\": {\"type\": \"string\"}, "
	     "\"parameters\": {\"$ref\": \"#/definitions/parameters\"}}}]},\n"
	     "  \"volume\": {\"anyOf\": [{\"type\": \"string\"}, "
	     "{\"type\": \"object\", \"required\": [\"store\"], "
	     "\"additionalProperties\": false, \"properties\": {\n"
	     "    \"store\": {\"description\": \"PATH, ram:SIZE, null:SIZE or "
	     "PLUGIN:LOCATION\", \"type\": \"string\"},\n"
	     "    \"parameters\": {\"$ref\": \"#/definitions/parameters\"}");
	schema_rows(&volume_option_table);
	puts("\n  }}]}\n  }\n}");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const struct option_table *t = argc == 3 ? find_table(argv[2]) : NULL;

	if (argc == 2 && !strcmp(argv[1], "man"))
		return man();
	if (argc == 2 && !strcmp(argv[1], "schema"))
		return schema();
	if (t && !strcmp(argv[1], "bash"))
		bash(argv[2], t);
	else if (t && !strcmp(argv[1], "zsh"))
		zsh(argv[2], t);
	else
		fputs("usage: option-doc man | schema | bash PROGRAM | "
		      "zsh PROGRAM\n",
		      stderr);
	return t ? EXIT_SUCCESS : EXIT_FAILURE;
}
