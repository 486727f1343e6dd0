/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/number.h"

#define RESUME_MAGIC "srpcopy state 1"

/* ---- reading ---- */

/* Reads the value of a line "NAME: VALUE". */
static bool resume_line(FILE *f, const char *name, char *buf, size_t len)
{
	char line[PLACE_ID_SIZE + 64];
	size_t name_len = strlen(name);

	if (!fgets(line, sizeof(line), f))
		return false;
	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, name, name_len) != 0 ||
	    strncmp(line + name_len, ": ", 2) != 0)
		return false;
	return (size_t)snprintf(buf, len, "%s", line + name_len + 2) < len;
}

static bool resume_number(FILE *f, const char *name, uint64_t *ret)
{
	char text[32];

	return resume_line(f, name, text, sizeof(text)) &&
	       number_parse(text, UINT64_MAX, ret);
}

static bool resume_identity(FILE *f, const char *what,
			    struct place_identity *ret)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", what);
	if (!resume_line(f, name, ret->id, sizeof(ret->id)))
		return false;
	snprintf(name, sizeof(name), "%s size", what);
	if (!resume_number(f, name, &ret->size))
		return false;
	snprintf(name, sizeof(name), "%s mtime", what);
	return resume_line(f, name, ret->mtime, sizeof(ret->mtime));
}

static bool resume_read(FILE *f, struct resume *ret)
{
	char line[32];
	uint64_t is_last;

	if (!fgets(line, sizeof(line), f) ||
	    strcmp(line, RESUME_MAGIC "\n") != 0)
		return false;
	if (!resume_identity(f, "source", &ret->source) ||
	    !resume_identity(f, "destination", &ret->destination) ||
	    !resume_number(f, "done", &ret->done) ||
	    !resume_number(f, "last", &is_last))
		return false;
	ret->is_last = is_last;
	return ret->done <= ret->source.size;
}

int resume_load(const char *path, struct resume *ret, struct error *e)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return error_set(e, -errno, "cannot open %s: %s", path,
				 strerror(errno));
	memset(ret, 0, sizeof(*ret));
	ok = resume_read(f, ret);
	fclose(f);
	if (ok)
		return 0;
	return error_set(e, -EINVAL,
			 "%s is not a state file of srpcopy; name another file",
			 path);
}

/* ---- comparing ---- */

static int resume_refuse(const char *path, const char *which,
			 const char *property, const char *then,
			 const char *now, struct error *e)
{
	return error_set(
		e, -ESTALE,
		"the %s has another %s now than in %s (%s, was %s); to "
		"copy from the beginning, remove %s",
		which, property, path, now, then, path);
}

static int resume_check_place(const char *path, const char *which,
			      const struct place_identity *then,
			      const struct place_identity *now, struct error *e)
{
	char a[24], b[24];

	if (strcasecmp(then->id, now->id) != 0 || !*now->id)
		return resume_refuse(path, which, "identity", then->id, now->id,
				     e);
	snprintf(a, sizeof(a), "%" PRIu64, then->size);
	snprintf(b, sizeof(b), "%" PRIu64, now->size);
	if (strcmp(a, b) != 0)
		return resume_refuse(path, which, "size", a, b, e);
	return 0;
}

/* True if the first time is later. */
static bool resume_is_later(const char *a, const char *b)
{
	char *a_end, *b_end;
	long long a_sec = strtoll(a, &a_end, 10);
	long long b_sec = strtoll(b, &b_end, 10);

	if (a_sec != b_sec)
		return a_sec > b_sec;
	return strcmp(a_end, b_end) > 0;
}

int resume_check(const char *path, const struct resume *saved,
		 const struct resume *now, struct error *e)
{
	const struct place_identity *then = &saved->destination;
	const struct place_identity *dest = &now->destination;
	int err = resume_check_place(path, "source", &saved->source,
				     &now->source, e);

	if (!err)
		err = resume_check_place(path, "destination", then, dest, e);
	if (err)
		return err;
	if (strcmp(saved->source.mtime, now->source.mtime) != 0)
		return resume_refuse(path, "source", "modification time",
				     saved->source.mtime, now->source.mtime, e);
	if (saved->is_last ? strcmp(then->mtime, dest->mtime) != 0
			   : resume_is_later(then->mtime, dest->mtime))
		return resume_refuse(path, "destination", "modification time",
				     then->mtime, dest->mtime, e);
	return 0;
}

/* ---- writing ---- */

static void resume_print_place(FILE *f, const char *which,
			       const struct place_identity *p)
{
	fprintf(f, "%s: %s\n%s size: %" PRIu64 "\n%s mtime: %s\n", which, p->id,
		which, p->size, which, p->mtime);
}

static int resume_write(const char *path, const struct resume *state)
{
	FILE *f = fopen(path, "we");
	int err = 0;

	if (!f)
		return -errno;
	fprintf(f, "%s\n", RESUME_MAGIC);
	resume_print_place(f, "source", &state->source);
	resume_print_place(f, "destination", &state->destination);
	fprintf(f, "done: %" PRIu64 "\nlast: %d\n", state->done,
		state->is_last);
	if (fflush(f) || fsync(fileno(f)) < 0)
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

int resume_save(const char *path, const struct resume *state, struct error *e)
{
	char new_path[PATH_MAX];
	int err;

	if (snprintf(new_path, sizeof(new_path), "%s.new", path) >= PATH_MAX)
		return error_set(e, -ENAMETOOLONG, "%s: %s", path,
				 strerror(ENAMETOOLONG));
	err = resume_write(new_path, state);
	if (!err && rename(new_path, path) < 0)
		err = -errno;
	if (err) {
		unlink(new_path);
		return error_set(e, err, "cannot write %s: %s", path,
				 strerror(-err));
	}
	err = directory_sync_of(path);
	if (err)
		return error_set(e, err, "cannot flush the directory of %s: %s",
				 path, strerror(-err));
	return 0;
}
