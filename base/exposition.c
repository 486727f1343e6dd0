/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/exposition.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/own_file.h"

#define EXPOSITION_FIRST_SIZE 16384u

/* Buckets of the exposition, as powers of two nanoseconds. */
#define EXPOSITION_FIRST_BITS 10
#define EXPOSITION_LAST_BITS  HISTOGRAM_BITS

/* ---- memory ---- */

/* False: there is none. */
static bool exposition_make_room(struct exposition *x, size_t len)
{
	size_t size = x->size ? x->size : EXPOSITION_FIRST_SIZE;
	char *text;

	while (size - x->len <= len)
		size *= 2;
	if (size == x->size)
		return true;
	text = realloc(x->text, size);
	if (!text) {
		x->failed = true;
		return false;
	}
	x->text = text;
	x->size = size;
	return true;
}

static void exposition_put(struct exposition *x, const char *text, size_t len)
{
	if (x->failed || !exposition_make_room(x, len))
		return;
	memcpy(x->text + x->len, text, len);
	x->len += len;
	x->text[x->len] = '\0';
}

/* Of short lines: a longer one would be cut. */
static void exposition_printf(struct exposition *x, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void exposition_printf(struct exposition *x, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	exposition_put(x, line, strlen(line));
}

/* ---- labels ---- */

/* Bytes of the character that begins at @s, as UTF-8; 0: it is none. */
static size_t exposition_char_len(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;
	size_t len = c[0] < 0x80   ? 1
		     : c[0] < 0xc2 ? 0
		     : c[0] < 0xe0 ? 2
		     : c[0] < 0xf0 ? 3
		     : c[0] < 0xf5 ? 4
				   : 0;

	for (size_t i = 1; i < len; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than needed, or half of a pair, or beyond the last one. */
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
	    (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return len;
}

char *exposition_escape(const char *value, char *buf)
{
	char *to = buf;

	while (*value) {
		size_t len = exposition_char_len(value);

		if (strchr("\\\"\n", *value)) {
			*to++ = '\\';
			*to++ = *value == '\n' ? 'n' : *value;
		} else if (len) {
			memcpy(to, value, len);
			to += len;
		} else {
			*to++ = '_';
		}
		value += len ? len : 1;
	}
	*to = '\0';
	return buf;
}

static void exposition_label(struct exposition *x, const char *comma,
			     const char *name, size_t name_len,
			     const char *value)
{
	_cleanup_free_ char *text = malloc(2 * strlen(value) + 1);

	if (!text) {
		x->failed = true;
		return;
	}
	exposition_escape(value, text);
	exposition_put(x, comma, strlen(comma));
	exposition_put(x, name, name_len);
	exposition_put(x, "=\"", 2);
	exposition_put(x, text, strlen(text));
	exposition_put(x, "\"", 1);
}

/* {volume="a",op="read"}, or with @le of a bucket; nothing if there is no label. */
static void exposition_labels(struct exposition *x,
			      const struct metric_sample *s, const char *le)
{
	const char *before = "{";
	const char *name;
	size_t len;

	for (unsigned int i = 0; (len = metric_label(s->metric, i, &name));
	     i++) {
		exposition_label(x, before, name, len, s->labels[i]);
		before = ",";
	}
	if (le) {
		exposition_label(x, before, "le", 2, le);
		before = ",";
	}
	if (*before == ',')
		exposition_put(x, "}", 1);
}

/* ---- values ---- */

#define EXPOSITION_NUMBER_SIZE 32

/* Nanoseconds as seconds, without zeroes at the end: "0.000001024". */
static char *exposition_seconds(uint64_t ns, char *buf)
{
	size_t len = (size_t)snprintf(buf, EXPOSITION_NUMBER_SIZE,
				      "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
				      ns % 1000000000);

	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return buf;
}

static char *exposition_number(const struct metric *m, uint64_t value,
			       char *buf)
{
	if (!strcmp(m->unit, "seconds"))
		return exposition_seconds(value, buf);
	snprintf(buf, EXPOSITION_NUMBER_SIZE, "%" PRIu64, value);
	return buf;
}

static void exposition_line(struct exposition *x, const char *name,
			    const char *suffix, const struct metric_sample *s,
			    const char *le, const char *value)
{
	exposition_printf(x, "%s%s", name, suffix);
	exposition_labels(x, s, le);
	exposition_printf(x, " %s\n", value);
}

static void exposition_histogram(struct exposition *x, const char *name,
				 const struct metric_sample *s)
{
	char number[EXPOSITION_NUMBER_SIZE];
	char le[EXPOSITION_NUMBER_SIZE];

	for (unsigned int bits = EXPOSITION_FIRST_BITS;
	     bits <= EXPOSITION_LAST_BITS; bits++) {
		snprintf(number, sizeof(number), "%" PRIu64,
			 histogram_cnt_below(s->times, bits));
		exposition_line(x, name, "_bucket", s,
				exposition_seconds(1ull << bits, le), number);
	}
	snprintf(number, sizeof(number), "%" PRIu64, histogram_cnt(s->times));
	exposition_line(x, name, "_bucket", s, "+Inf", number);
	exposition_line(x, name, "_count", s, NULL, number);
	exposition_line(x, name, "_sum", s, NULL,
			exposition_seconds(s->times->sum, number));
}

static void exposition_head(struct exposition *x, const char *name,
			    const struct metric *m)
{
	exposition_printf(x, "# HELP %s %s\n", name, m->help);
	exposition_printf(x, "# TYPE %s %s\n", name, metric_type_name(m->type));
}

static void exposition_add(struct metric_sink *sink,
			   const struct metric_sample *s)
{
	struct exposition *x = container_of(sink, struct exposition, sink);
	char name[METRIC_NAME_SIZE];
	char number[EXPOSITION_NUMBER_SIZE];

	metric_full_name(x->table, s->metric, name);
	if (x->last != s->metric)
		exposition_head(x, name, s->metric);
	x->last = s->metric;
	if (s->metric->type == METRIC_HISTOGRAM)
		exposition_histogram(x, name, s);
	else
		exposition_line(x, name, "", s, NULL,
				exposition_number(s->metric, s->value, number));
}

void exposition_init(struct exposition *x, const struct metric_table *t)
{
	*x = (struct exposition){ .sink.add = exposition_add, .table = t };
}

char *exposition_end(struct exposition *x, size_t *ret_len)
{
	/* An exposition without samples has a text, too. */
	exposition_put(x, "", 0);
	if (x->failed) {
		free(x->text);
		x->text = NULL;
	}
	*ret_len = x->len;
	return x->text;
}

/* ---- the file ---- */

/* 0 or -errno. */
static int exposition_write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The same; leaves nothing behind when it fails. */
static int exposition_write(const char *path, const char *text, size_t len)
{
	_cleanup_close_ int fd = own_file_create(path, 0644);
	int err = fd < 0 ? fd : exposition_write_all(fd, text, len);

	if (err && fd >= 0)
		unlink(path);
	return err;
}

int exposition_save(const char *path, const char *text, size_t len,
		    struct error *e)
{
	_cleanup_free_ char *path_new = malloc(strlen(path) + sizeof(".new"));
	int err;

	if (!path_new)
		return error_set(e, -ENOMEM, "%s: out of memory", path);
	sprintf(path_new, "%s.new", path);
	err = exposition_write(path_new, text, len);
	if (!err && rename(path_new, path))
		err = -errno;
	if (!err)
		return 0;
	return error_set(e, err, "%s: cannot write it: %s", path,
			 strerror(-err));
}
