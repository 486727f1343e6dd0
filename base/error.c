/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, int err, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return err;
	e->err = err;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return err;
}

bool error_refuse(struct error *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return false;
	e->err = -EINVAL;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return false;
}

int error_prefix(struct error *e, const char *fmt, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list ap;
	size_t len;

	if (!e)
		return 0;
	memcpy(text, e->text, sizeof(text));
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	len = strlen(e->text);
	snprintf(e->text + len, sizeof(e->text) - len, "%s", text);
	return e->err;
}

int error_add(struct error *e, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!e)
		return 0;
	len = strlen(e->text);
	va_start(ap, fmt);
	vsnprintf(e->text + len, sizeof(e->text) - len, fmt, ap);
	va_end(ap);
	return e->err;
}
