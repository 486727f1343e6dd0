/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/machine_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 3, 0))) static void
path_make(char path[MACHINE_PATH_SIZE], const char *root, const char *fmt,
	  va_list ap)
{
	size_t len;

	snprintf(path, MACHINE_PATH_SIZE, "%s", root);
	len = strlen(path);
	vsnprintf(path + len, MACHINE_PATH_SIZE - len, fmt, ap);
}

static FILE *path_open(const char *root, const char *name)
{
	char path[MACHINE_PATH_SIZE];

	snprintf(path, sizeof(path), "%s%s", root, name);
	return fopen(path, "re");
}

static void cut_blanks(char *text)
{
	size_t len = strlen(text);

	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
}

static bool line_read(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool got = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	if (!got)
		buf[0] = '\0';
	cut_blanks(buf);
	return *buf != '\0';
}

bool machine_line(const char *root, char *buf, size_t size, const char *fmt,
		  ...)
{
	char path[MACHINE_PATH_SIZE];
	va_list ap;

	va_start(ap, fmt);
	path_make(path, root, fmt, ap);
	va_end(ap);
	return line_read(path, buf, size);
}

int64_t machine_number(const char *root, int64_t dflt, const char *fmt, ...)
{
	char path[MACHINE_PATH_SIZE];
	char text[64];
	char *end;
	va_list ap;
	int64_t n;

	va_start(ap, fmt);
	path_make(path, root, fmt, ap);
	va_end(ap);
	if (!line_read(path, text, sizeof(text)))
		return dflt;
	n = strtoll(text, &end, 0);
	return end == text ? dflt : n;
}

bool machine_has(const char *root, const char *fmt, ...)
{
	char path[MACHINE_PATH_SIZE];
	va_list ap;

	va_start(ap, fmt);
	path_make(path, root, fmt, ap);
	va_end(ap);
	return access(path, F_OK) == 0;
}

int machine_try_open(const char *root, const char *fmt, ...)
{
	char path[MACHINE_PATH_SIZE];
	va_list ap;
	int fd;

	va_start(ap, fmt);
	path_make(path, root, fmt, ap);
	va_end(ap);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

bool machine_value(const char *root, const char *path, const char *key,
		   char *buf, size_t size)
{
	FILE *f = path_open(root, path);
	const char *value;
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		value = line + strlen(key);
		value += strspn(value, " \t");
		snprintf(buf, size, "%s", value);
		cut_blanks(buf);
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

bool machine_mentions(const char *root, const char *path, const char *part)
{
	FILE *f = path_open(root, path);
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (f && !found && getline(&line, &size, f) >= 0)
		found = strstr(line, part) != NULL;
	free(line);
	if (f)
		fclose(f);
	return found;
}

void machine_each(const char *root, const char *path,
		  bool (*each)(void *user, const char *name), void *user)
{
	char dir[MACHINE_PATH_SIZE];
	struct dirent **names;
	bool more = true;
	int cnt;

	snprintf(dir, sizeof(dir), "%s%s", root, path);
	cnt = scandir(dir, &names, NULL, versionsort);
	for (int i = 0; i < cnt; i++) {
		if (more && names[i]->d_name[0] != '.')
			more = each(user, names[i]->d_name);
		free(names[i]);
	}
	if (cnt >= 0)
		free(names);
}
