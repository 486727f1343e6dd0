/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that the tables of several programs share: the same name, letter and
 * meaning in each program. @owner is the struct of the program's options. Each
 * comment names the member that the row needs.
 */
#ifndef BASE_OPTION_ROWS_H
#define BASE_OPTION_ROWS_H

#include "base/option.h"

/* clang-format off */

/* bool json. What it prints differs: .help is a further member of the row. A build
 * without jansson refuses the option. */
#define OPTION_ROW_JSON(owner, ...)                                      \
	{ .name = "json", .letter = 'j', .type = OPTION_FLAG,           \
	  .set = option_json,                                           \
	  OPTION_AT(owner, json), __VA_ARGS__ }

/* const char *pidfile. Further members: .help, .more, .group. */
#define OPTION_ROW_PIDFILE(owner, ...)                                   \
	{ .name = "pidfile", .letter = 'P', .type = OPTION_PATH,        \
	  .value = "FILE",                                              \
	  OPTION_AT(owner, pidfile), __VA_ARGS__ }

/* enum log_level log_level, which the program sets to LOG_NOTICE at first.
 * @details: what LOG_DEBUG logs. */
#define OPTION_ROWS_LOG(owner, details)                                  \
	{ .name = "verbose", .letter = 'v', .type = OPTION_FLAG,        \
	  .help = "Log more: negotiated values. Given twice, log "      \
		  details ".",                                          \
	  .set = option_log_more, .again = true, .cmdline_only = true,  \
	  OPTION_AT(owner, log_level) },                                 \
	{ .name = "quiet", .letter = 'q', .type = OPTION_FLAG,          \
	  .help = "Log less: only warnings and errors. Given twice, "   \
		  "log only errors.",                                   \
	  .set = option_log_less, .again = true, .cmdline_only = true,  \
	  OPTION_AT(owner, log_level) }

/* The last rows of each program. */
#define OPTION_ROWS_ABOUT                                               \
	{ .name = "version", .letter = 'V', .type = OPTION_VERSION,     \
	  .help = "Print the version and exit." },                      \
	{ .name = "help", .letter = 'h', .type = OPTION_HELP,           \
	  .help = "Print a summary and exit." }

/* clang-format on */

/* option_row.set of the rows above. */
bool option_json(void *options, const struct option_row *row, const char *value,
		 struct error *e);
bool option_log_more(void *options, const struct option_row *row,
		     const char *value, struct error *e);
bool option_log_less(void *options, const struct option_row *row,
		     const char *value, struct error *e);

#endif
