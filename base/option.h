/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options as tables. Each option of each program is one row: its name, type,
 * unit, range and default, the place of the value, and what the option does.
 * The parser, its error messages, --help, the manual page and the completion
 * come from the rows (docs/option_doc.c makes the last two), so that they
 * agree.
 *
 * A table has one of four styles:
 *   OPTION_LONG   --name VALUE, -l VALUE: a command line
 *   OPTION_MOUNT  -o name=VALUE,name,...
 *   OPTION_SPEC   SPEC,name=VALUE,name,...
 *   OPTION_VERB   PROGRAM name VALUE: words after the options; only for texts
 *
 * Thread: setup.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum option_type {
	OPTION_FLAG,	 /* bool, true when given; it takes no value */
	OPTION_NUMBER,	 /* decimal; an unsigned integer of 4 or 8 bytes */
	OPTION_OCTAL,	 /* the same, octal */
	OPTION_SIZE,	 /* bytes, "64M"; an unsigned integer of 4 or 8 bytes */
	OPTION_DURATION, /* seconds, "0.5", or "off"; int, milliseconds */
	OPTION_CHOICE,	 /* one word of @choices; int, its index */
	OPTION_NAME,	 /* text, not empty; copied into an array of char */
	/* const char *, borrowed from the arguments; or an array of char, as
	 * of OPTION_NAME. The types differ in what the shell completes. */
	OPTION_TEXT,
	OPTION_PATH,
	OPTION_DIR,
	OPTION_USER,
	/* Print, and end the program. */
	OPTION_HELP,
	OPTION_VERSION,
};

struct option_table;

struct option_row {
	const char *name; /* "poll-us" */
	char letter;	  /* 0: none */
	enum option_type type;
	const char *value; /* what --help calls the value: "N"; NULL: no value */
	const char *unit;  /* "microseconds"; NULL: none. Of NUMBER */
	uint64_t min, max; /* in the unit of what is stored. max 0: no range */
	uint64_t step;	   /* SIZE: must be a multiple of this; 0: any */
	uint64_t dflt;	   /* NUMBER, OCTAL, SIZE, DURATION: the default */
	int off;	   /* DURATION: what "off" stores; 0: "off" is
			    * refused */
	/* The default in words: if it depends on something, or the type has no
	 * @dflt. option_defaults() then stores nothing. */
	const char *dflt_text;
	const char *const *choices; /* CHOICE; ends with NULL */
	/* The value has options of its own: VALUE,KEY=VALUE,...; or NULL. */
	const struct option_table *keys;
	const char *group; /* heading in --help, from this row on */
	/* What the option does: an imperative, with the marks of scdoc (*bold*,
	 * _value_). NULL: the help of the row above includes this row. */
	const char *help;
	const char *more; /* further paragraphs of the manual page, in scdoc */
	size_t offset, size; /* of the member; OPTION_AT() */
	/* Stores @value (NULL: none), in place of offset. False: one clause in
	 * @e, without the option and the value. */
	bool (*set)(void *options, const struct option_row *row,
		    const char *value, struct error *e);
	bool whole_msg;	 /* @e of set() includes the option and the value */
	bool again;	 /* every value counts; else the last one, or it may be
		     * given once */
	bool also_mount; /* of OPTION_LONG: also an option of -o */
	bool cmdline_only; /* of OPTION_LONG: not a key of a configuration */
	/* @again: the value that an empty list in a configuration stands for, which may
	 * be refused. NULL: the list counts as left out. */
	const char *empty;
};

#define OPTION_AT(type, member)                  \
	.offset = offsetof(struct type, member), \
	.size = sizeof(((struct type *)0)->member)

enum option_style {
	OPTION_LONG,
	OPTION_MOUNT,
	OPTION_SPEC,
	OPTION_VERB,
};

struct option_table {
	enum option_style style;
	const struct option_row *rows;
	unsigned int cnt;
	/* For --help, printed unchanged; each may be NULL. */
	const char *head;
	const char *tail;
	/* Tables that --help prints after this one; ends with NULL; may be
	 * NULL. */
	const struct option_table *const *parts;
	const char *program; /* OPTION_LONG: "rdma-target" */
	const char *version; /* OPTION_LONG */
};

enum option_verdict {
	OPTION_RUN,
	OPTION_DONE, /* --help, --version: printed; exit 0 */
	OPTION_BAD,  /* one line was logged; exit 1 */
};

/* Stores the defaults of the rows that have one. */
void option_defaults(const struct option_table *t, void *options);

/**
 * option_parse() - read a command line into @options
 * @ret_first: index of the first argument that is no option. getopt_long()
 *             moves these to the end of @argv
 *
 * Accepts what getopt_long() does: --name=VALUE, unambiguous beginnings of
 * names, letters in one word, "--".
 */
enum option_verdict option_parse(const struct option_table *t, int argc,
				 char **argv, void *options, int *ret_first);

/* The row of @name in @style, or NULL. OPTION_MOUNT takes '-' for '_'. */
const struct option_row *option_find(const struct option_table *t,
				     enum option_style style, const char *name,
				     size_t name_len);

/*
 * Stores @value (NULL: none was given). False: one line in @e, with the option
 * and the beginning of the value in @style: "'lun=300': not a number from 0 to
 * 255".
 */
bool option_set(const struct option_row *row, enum option_style style,
		void *options, const char *value, struct error *e);

/*
 * Writes the number or size that @row has in @options into @buf of
 * OPTION_TEXT_SIZE bytes, as text for option_set(). False: the row has another
 * type, or stores nothing.
 */
bool option_get(const struct option_row *row, const void *options, char *buf);

/* The row with the most similar name. NULL: none is similar enough. */
const struct option_row *option_nearest(const struct option_table *t,
					const char *name, size_t name_len);

/* Texts about options. Each function returns @buf. */
#define OPTION_TEXT_SIZE 512
/* "0 to 1000000", "128k to 1M, a multiple of 4k", "on or off"; or empty */
char *option_range_text(const struct option_row *row, char *buf);
/* "200", "15"; or empty */
char *option_default_text(const struct option_row *row, char *buf);
/* "-t, --threads N", "fsname=NAME", ",lun=N", "volume remove NAME" */
char *option_usage_text(const struct option_row *row, enum option_style style,
			char *buf);
/* The first paragraph of the manual page: help, range and default. */
char *option_summary_text(const struct option_row *row, char *buf, size_t len);

/* Removes the marks of scdoc: '*', and '_' that is not inside a word. */
char *option_strip(char *text);

/* "name=, ro, block-size=": all names of @t, as a user writes them. */
char *option_names_text(const struct option_table *t, char *buf, size_t len);

/* Prints the text of --help. */
void option_help(const struct option_table *t, FILE *out);

#endif
