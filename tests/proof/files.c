/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proof-files: works with files like a careful program, and knows their allowed
 * contents after a power cut at any time.
 *
 * Each line of its journal is "WHAT FILE VERSION LENGTH POSITION", where
 * POSITION is the number of records in the log of writes (write_log.h) at that
 * time: before a change began, or after it was made stable.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/proof/write_log.h"

static const char help[] =
	"Usage: proof-files work DIR JOURNAL LOG TURNS SEED\n"
	"       proof-files check DIR JOURNAL STABLE UPTO\n"
	"\n"
	"work: makes, overwrites, replaces and removes files in DIR, TURNS times, "
	"with\n"
	"fsync after each change. check: checks that DIR has the right contents "
	"after a\n"
	"power cut that left the first STABLE records of LOG and some of those "
	"before\n"
	"UPTO.\n";

#define FILES	32
#define LEN_MAX 262144u
#define PAGE	4096u

enum step {
	STEP_NEW,     /* the file is about to be made */
	STEP_REPLACE, /* another file is about to be renamed over it */
	STEP_CHANGE,  /* it is about to be overwritten in place */
	STEP_REMOVE,  /* it is about to be removed */
	STEP_STABLE,  /* it exists, and fsync has confirmed this */
	STEP_GONE,    /* it does not exist, and fsync has confirmed this */
};

static const char *const step_names[] = {
	[STEP_NEW] = "new",	  [STEP_REPLACE] = "replace",
	[STEP_CHANGE] = "change", [STEP_REMOVE] = "remove",
	[STEP_STABLE] = "stable", [STEP_GONE] = "gone",
};

/* One version of the contents of one file. Version 0: the file does not
 * exist. */
struct version {
	unsigned int version;
	unsigned int len; /* bytes */
};

struct work {
	int dir_fd;
	FILE *journal;
	struct write_log log;
	uint64_t random;
	struct version now[FILES];
	unsigned int next_version;
	uint8_t *buf;
};

/* splitmix64 */
static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void fill(uint8_t *buf, unsigned int file, const struct version *v)
{
	uint64_t seed = mix((uint64_t)file << 32 | v->version);

	for (unsigned int i = 0; i < v->len; i += sizeof(uint64_t)) {
		uint64_t word = mix(seed + i);

		memcpy(buf + i, &word, sizeof(word));
	}
}

static unsigned int random_below(struct work *w, unsigned int limit)
{
	w->random = mix(w->random);
	return (unsigned int)((w->random >> 32) * limit >> 32);
}

static void say(struct work *w, enum step step, unsigned int file,
		const struct version *v)
{
	fprintf(w->journal, "%s %u %u %u %" PRIu64 "\n", step_names[step], file,
		v->version, v->len, write_log_cnt(&w->log));
	fflush(w->journal);
}

/* ---- working ---- */

static int write_file(struct work *w, const char *name, int flags,
		      unsigned int file, const struct version *v)
{
	int fd = openat(w->dir_fd, name, O_WRONLY | O_CLOEXEC | flags, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	fill(w->buf, file, v);
	if (pwrite(fd, w->buf, v->len, 0) != (ssize_t)v->len || fsync(fd))
		err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

static int make_stable(struct work *w, enum step step, unsigned int file,
		       const struct version *v)
{
	if (fsync(w->dir_fd))
		return -errno;
	say(w, step, file, v);
	w->now[file] = *v;
	return 0;
}

static int change(struct work *w, unsigned int file, enum step step)
{
	struct version v = { .version = ++w->next_version,
			     .len = w->now[file].len };
	char name[32];
	char temp[32];
	int err;

	if (step != STEP_CHANGE)
		v.len = (1 + random_below(w, LEN_MAX / 8)) * 8;
	snprintf(name, sizeof(name), "file-%u", file);
	snprintf(temp, sizeof(temp), "temp-%u", file);
	say(w, step, file, &v);
	err = write_file(w, step == STEP_REPLACE ? temp : name,
			 step == STEP_CHANGE ? 0 : O_CREAT | O_TRUNC, file, &v);
	if (!err && step == STEP_REPLACE &&
	    renameat(w->dir_fd, temp, w->dir_fd, name))
		err = -errno;
	return err ? err : make_stable(w, STEP_STABLE, file, &v);
}

static int remove_file(struct work *w, unsigned int file)
{
	const struct version none = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "file-%u", file);
	say(w, STEP_REMOVE, file, &none);
	if (unlinkat(w->dir_fd, name, 0))
		return -errno;
	return make_stable(w, STEP_GONE, file, &none);
}

/* Files that are never made stable, so that there is more to lose. */
static int litter(struct work *w)
{
	const struct version v = { .version = ++w->next_version,
				   .len = random_below(w, LEN_MAX) & ~7u };
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "litter-%u", random_below(w, 16));
	fd = openat(w->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return -errno;
	fill(w->buf, FILES, &v);
	if (write(fd, w->buf, v.len) < 0) {
		close(fd);
		return -errno;
	}
	close(fd);
	return 0;
}

static int turn(struct work *w)
{
	unsigned int file = random_below(w, FILES);
	unsigned int dice = random_below(w, 10);

	if (dice == 0)
		return litter(w);
	if (!w->now[file].version)
		return change(w, file, STEP_NEW);
	if (dice < 3)
		return remove_file(w, file);
	return change(w, file, dice < 6 ? STEP_REPLACE : STEP_CHANGE);
}

static int do_work(char **args)
{
	struct work w = { 0 };
	unsigned long turns = strtoul(args[3], NULL, 10);
	int err;

	w.random = strtoull(args[4], NULL, 10);
	w.buf = malloc(LEN_MAX + 8);
	w.dir_fd = open(args[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w.journal = fopen(args[1], "a");
	if (!w.buf || w.dir_fd < 0 || !w.journal)
		return -errno;
	err = write_log_open(&w.log, args[2]);
	while (!err && turns-- > 0)
		err = turn(&w);
	free(w.buf);
	fclose(w.journal);
	close(w.dir_fd);
	return err;
}

/* ---- checks ---- */

/* The allowed states of a file. */
struct expected {
	struct version stable; /* the last version that must be there */
	struct version begun;  /* the version that may have replaced it */
	enum step how;	       /* the kind of change; STEP_STABLE: no change */
};

static bool parse(const char *line, enum step *ret_step, unsigned int *ret_file,
		  struct version *ret_v, uint64_t *ret_pos)
{
	char what[16];

	if (sscanf(line, "%15s %u %u %u %" SCNu64, what, ret_file,
		   &ret_v->version, &ret_v->len, ret_pos) != 5 ||
	    *ret_file >= FILES)
		return false;
	for (int i = STEP_NEW; i <= STEP_GONE; i++) {
		*ret_step = (enum step)i;
		if (!strcmp(what, step_names[i]))
			return true;
	}
	return false;
}

static int read_journal(const char *path, uint64_t stable, uint64_t upto,
			struct expected *e)
{
	FILE *f = fopen(path, "r");
	char line[128];
	struct version v;
	unsigned int file;
	enum step step;
	uint64_t pos;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (!parse(line, &step, &file, &v, &pos)) {
			fclose(f);
			return -EINVAL;
		}
		if (step >= STEP_STABLE && pos <= stable)
			e[file] = (struct expected){ .stable = v,
						     .how = STEP_STABLE };
		else if (step < STEP_STABLE && pos < upto &&
			 e[file].how == STEP_STABLE) {
			e[file].begun = v;
			e[file].how = step;
		}
	}
	fclose(f);
	return 0;
}

/* Finds which of the two versions a page has. False: neither. */
static bool page_is(const uint8_t *page, unsigned int len, const uint8_t *a,
		    const uint8_t *b)
{
	return !memcmp(page, a, len) || (b && !memcmp(page, b, len));
}

static bool is_version(const uint8_t *got, ssize_t len, unsigned int file,
		       const struct version *v)
{
	static uint8_t want[LEN_MAX + 8];

	fill(want, file, v);
	return len == (ssize_t)v->len && !memcmp(got, want, v->len);
}

static bool is_mixture(const uint8_t *got, ssize_t len, unsigned int file,
		       const struct expected *e)
{
	static uint8_t old[LEN_MAX + 8];
	static uint8_t new[LEN_MAX + 8];

	fill(old, file, &e->stable);
	fill(new, file, &e->begun);
	if (len != (ssize_t)e->stable.len)
		return false;
	for (unsigned int i = 0; i < e->stable.len; i += PAGE) {
		unsigned int left = e->stable.len - i;

		if (!page_is(got + i, left < PAGE ? left : PAGE, old + i,
			     new + i))
			return false;
	}
	return true;
}

/* @len: length of the file; -1: it does not exist. */
static bool is_expected(const uint8_t *got, ssize_t len, unsigned int file,
			const struct expected *e)
{
	if (e->how == STEP_NEW)
		return true; /* in any state */
	if (e->how == STEP_CHANGE)
		return is_mixture(got, len, file, e);
	if (e->how == STEP_REMOVE && len < 0)
		return true;
	if (e->how == STEP_REPLACE && is_version(got, len, file, &e->begun))
		return true;
	if (!e->stable.version)
		return len < 0;
	return is_version(got, len, file, &e->stable);
}

static bool check_file(int dir_fd, unsigned int file, const struct expected *e)
{
	static uint8_t got[LEN_MAX + 8];
	ssize_t len = -1;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "file-%u", file);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, got, sizeof(got));
		close(fd);
	}
	if (is_expected(got, len, file, e))
		return true;
	printf("%s: wrong: %zd bytes there (-1: none); stable was version %u "
	       "of %u bytes; %s version %u of %u bytes\n",
	       name, len, e->stable.version, e->stable.len,
	       e->how == STEP_STABLE ? "nothing begun after it, not"
				     : step_names[e->how],
	       e->begun.version, e->begun.len);
	return false;
}

static int do_check(char **args)
{
	struct expected e[FILES];
	unsigned int checked = 0;
	bool good = true;
	int dir_fd = open(args[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	for (unsigned int i = 0; i < FILES; i++)
		e[i] = (struct expected){ .how = STEP_STABLE };
	if (dir_fd < 0)
		return -errno;
	err = read_journal(args[1], strtoull(args[2], NULL, 10),
			   strtoull(args[3], NULL, 10), e);
	for (unsigned int i = 0; !err && i < FILES; i++) {
		good &= check_file(dir_fd, i, &e[i]);
		checked += e[i].stable.version != 0;
	}
	close(dir_fd);
	if (!err)
		printf("%u files checked\n", checked);
	return err ? err : good ? 0 : -EILSEQ;
}

int main(int argc, char **argv)
{
	int err;

	if (argc == 7 && !strcmp(argv[1], "work")) {
		err = do_work(argv + 2);
	} else if (argc == 6 && !strcmp(argv[1], "check")) {
		err = do_check(argv + 2);
	} else {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	if (err)
		fprintf(stderr, "proof-files: %s\n", strerror(-err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
