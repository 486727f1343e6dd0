/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/config_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "config/config_path.h"

/* ---- before the parser ---- */

/* The end of the string whose quotation mark is at @p; @end if it does not
 * end. */
static const char *text_skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
	}
	return p < end ? p + 1 : end;
}

bool config_text_is_flat(const char *text, size_t len)
{
	const char *end = text + len;
	unsigned int depth = 0;

	for (const char *p = text; p < end;) {
		if (*p == '"') {
			p = text_skip_string(p, end);
			continue;
		}
		if ((*p == '{' || *p == '[') && ++depth > CONFIG_DEPTH_MAX)
			return false;
		if ((*p == '}' || *p == ']') && depth > 0)
			depth--;
		p++;
	}
	return true;
}

/* A string in JSON has no line break, so no line inside a string begins like
 * this. */
static void text_blank_comments(char *text, size_t len)
{
	char *end = text + len;

	for (char *line = text; line < end;) {
		char *next = memchr(line, '\n', (size_t)(end - line));
		char *p = line;

		next = next ? next : end;
		while (p < next && (*p == ' ' || *p == '\t'))
			p++;
		if (p < next &&
		    (*p == '#' || (*p == '/' && p + 1 < next && p[1] == '/')))
			memset(p, ' ', (size_t)(next - p));
		line = next + 1;
	}
}

json_t *config_text_parse(char *text, size_t len, unsigned int *ret_line,
			  struct error *e)
{
	json_error_t why;
	json_t *json;

	*ret_line = 1;
	text_blank_comments(text, len);
	if (!config_text_is_flat(text, len)) {
		error_set(e, -EINVAL, "brackets are nested too deep");
		return NULL;
	}
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (json)
		return json;
	*ret_line = why.line > 0 ? (unsigned int)why.line : 1;
	error_set(e, -EINVAL, "not JSON: %s", why.text);
	return NULL;
}

/* ---- lines ---- */

static const char *text_skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* The end of the value at @p. */
static const char *text_skip_value(const char *p)
{
	const char *end = p + strlen(p);
	unsigned int depth = 0;

	do {
		if (*p == '"') {
			p = text_skip_string(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (*p && (depth || !strchr(":,]} \t\r\n", *p)));
	return p;
}

/* The key @name of the object at @p; NULL: there is none. */
static const char *text_find_key(const char *p, const char *name, size_t len)
{
	p = text_skip_space(p + 1);
	while (*p == '"') {
		const char *key = p;
		bool is_it =
			!strncmp(key + 1, name, len) && key[1 + len] == '"';

		if (is_it)
			return key;
		p = text_skip_space(text_skip_value(p));
		p = text_skip_space(p + 1); /* the colon */
		p = text_skip_space(text_skip_value(p));
		if (*p == ',')
			p = text_skip_space(p + 1);
	}
	return NULL;
}

static const char *text_find_index(const char *p, unsigned long index)
{
	p = text_skip_space(p + 1);
	while (index-- > 0 && *p && *p != ']') {
		p = text_skip_space(text_skip_value(p));
		if (*p == ',')
			p = text_skip_space(p + 1);
	}
	return *p && *p != ']' ? p : NULL;
}

/* Takes one step of @place from the value at @p; *ret_here is its result. */
static const char *text_step(const char *p, const char **place,
			     const char **ret_here)
{
	const char *name = *place + (**place == '.');
	size_t len = strcspn(name, ".[");
	char *behind;

	if (**place == '[') {
		unsigned long index = strtoul(*place + 1, &behind, 10);

		*place = *behind ? behind + 1 : behind;
		if (*p == '[')
			p = text_find_index(p, index);
		*ret_here = p;
		return p;
	}
	*place = name + len;
	*ret_here = *p == '{' ? text_find_key(p, name, len) : NULL;
	if (!*ret_here)
		return NULL;
	p = text_skip_space(text_skip_value(*ret_here));
	return text_skip_space(p + 1);
}

unsigned int config_text_line(const char *text, const char *place)
{
	const char *p = text_skip_space(text);
	const char *found = p;
	unsigned int line = 1;

	while (*place && p) {
		const char *here;

		p = text_step(p, &place, &here);
		found = here ? here : found;
	}
	for (const char *c = text; c < found; c++)
		line += *c == '\n';
	return line;
}

/* ---- files ---- */

static char *text_read(const char *path, size_t *ret_len, struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t len = 0;
	ssize_t n = 0;
	char *text;

	if (fd < 0 || fstat(fd, &st)) {
		error_set(e, -errno, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > CONFIG_TEXT_MAX) {
		error_set(e, -EINVAL, "%s: %s", path,
			  S_ISREG(st.st_mode) ? "larger than 1 MiB"
					      : "not a regular file");
		return NULL;
	}
	text = malloc(CONFIG_TEXT_MAX + 1);
	while (text && len < CONFIG_TEXT_MAX &&
	       (n = read(fd, text + len, CONFIG_TEXT_MAX - len)) > 0)
		len += (size_t)n;
	if (!text) {
		error_set(e, -ENOMEM, "%s: out of memory", path);
		return NULL;
	}
	if (n < 0) {
		error_set(e, -errno, "%s: %s", path, strerror(errno));
		free(text);
		return NULL;
	}
	text[len] = '\0';
	*ret_len = len;
	return text;
}

char *config_place_of(const char *path)
{
	char *real = NULL;
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		real = realpath(path, NULL);
	return real ? real : strdup(path);
}

char *config_read_text(const char *path, struct error *e)
{
	size_t len;

	return text_read(path, &len, e);
}

json_t *config_read_json(const char *path, char **ret_text, struct error *e)
{
	unsigned int line;
	size_t len = 0;
	char *text = text_read(path, &len, e);
	json_t *json;

	if (!text)
		return NULL;
	json = config_text_parse(text, len, &line, e);
	if (json) {
		*ret_text = text;
		return json;
	}
	error_prefix(e, "%s:%u: ", path, line);
	free(text);
	return NULL;
}

/* Relative paths in the file @path begin at its directory. */
static int config_begin_at(json_t *config, const char *path, struct error *e)
{
	_cleanup_free_ char *dir = config_dir_of(path);
	int err = dir ? config_make_absolute(config, dir) : -errno;

	return err ? error_set(e, err, "%s: %s", path, strerror(-err)) : 0;
}

json_t *config_read(const char *path, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	struct config_fault fault;
	json_t *json = config_read_json(path, &text, e);
	json_t *config;

	if (!json)
		return NULL;
	config = config_check(json, &fault);
	if (!config)
		error_set(e, -EINVAL, "%s:%u: %s%s%s", path,
			  config_text_line(text, fault.place), fault.place,
			  *fault.place ? ": " : "", fault.text);
	json_decref(json);
	if (config && config_begin_at(config, path, e)) {
		json_decref(config);
		return NULL;
	}
	return config;
}
