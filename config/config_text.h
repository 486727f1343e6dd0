/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts in JSON: limits, comments, and the lines of errors. Thread: any. */
#ifndef CONFIG_CONFIG_TEXT_H
#define CONFIG_CONFIG_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "config/config_json.h"

/* A longer text is refused. Bytes. */
#define CONFIG_TEXT_MAX (1u << 20)
/* Levels of objects and arrays; the canonical form has 5. */
#define CONFIG_DEPTH_MAX 16

/* False: brackets are nested deeper than CONFIG_DEPTH_MAX, which would take the
 * stack of the parser. @text may have any bytes. */
bool config_text_is_flat(const char *text, size_t len);

/*
 * Parses @text, after it has blanked lines that begin with // or #. NULL: it is
 * not JSON; *ret_line and @e say why.
 */
json_t *config_text_parse(char *text, size_t len, unsigned int *ret_line,
			  struct error *e);

/* The line of @place (config_json.h) in @text, which is JSON. */
unsigned int config_text_line(const char *text, const char *place);

/*
 * Reads and checks the configuration file @path. NULL: refused; @e then says
 * "PATH:LINE: ...". Blocks.
 */
json_t *config_read(const char *path, struct error *e);

/* The same without the check: the contents of the file, and its text, to be
 * freed. */
json_t *config_read_json(const char *path, char **ret_text, struct error *e);

/* Where the file @path is, to be freed: @path, or, if that is a symbolic link, what
 * it leads to. The link of an administrator must not be replaced by a file. NULL: no
 * memory. */
char *config_place_of(const char *path);

/* The text of a file, to be freed. NULL: it cannot be read, or is too long. */
char *config_read_text(const char *path, struct error *e);

#endif
