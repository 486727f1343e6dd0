/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of srpcopy: runs of zeroes, its state file, the holes of a file, and
 * the name of a new file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy/piece.h"
#include "copy/place.h"
#include "copy/resume.h"
#include "tests/lib/t_table.h"

/* ---- runs ---- */

#define UNIT 4

static const struct run_row {
	const char *name;
	const char *buf; /* '.': a byte of zero */
	size_t min;
	size_t len;
	bool zero;
} run_rows[] = {
	{ "nothing but data", "abcdefgh", 4, 8, false },
	{ "nothing but zeroes", "........", 4, 8, true },
	{ "data, then a zero unit", "abcd....efgh", 4, 4, false },
	{ "a zero unit, then data", "....abcd", 4, 4, true },
	{ "zeroes that are no whole unit", "abc.....", 4, 4, false },
	{ "zeroes between units", "ab....gh", 4, 8, false },
	{ "a zero unit that is too short", "abcd....efgh", 8, 12, false },
	{ "zeroes at the beginning that are too short", "....abcd", 8, 8,
	  false },
	{ "too short, then long enough", "....abcd........efgh", 8, 8, false },
	{ "short zeroes at the end count", "abcd....", 8, 4, false },
	{ "all of a short buffer", "....", 8, 4, true },
	{ "a last unit that is not whole is data", "abcd..", 4, 6, false },
	{ "zeroes before it", "......", 4, 4, true },
	{ "less than a unit", "..", 4, 2, false },
};

T_ROWS(run, run_rows)
{
	const struct run_row *r = *state;
	size_t len = strlen(r->buf);
	char *buf = malloc(len); /* not longer: ASan checks */
	bool zero = !r->zero;

	for (size_t i = 0; i < len; i++)
		buf[i] = r->buf[i] == '.' ? '\0' : r->buf[i];
	assert_int_equal(piece_run(buf, len, UNIT, r->min, &zero), r->len);
	assert_int_equal(zero, r->zero);
	free(buf);
}

/* ---- the state file ---- */

static const struct resume resume_example = {
	.source = { "file 8:1 1234", 1 << 20, "1700000000.123456789" },
	.destination = { "volume naa.6001", 1 << 21, "-" },
	.done = 4096,
	.is_last = true,
};

static const struct resume_row {
	const char *name;
	/* What differs from the example; NULL or 0: nothing. */
	const char *source_id, *source_mtime, *destination_id;
	uint64_t source_size, destination_size;
	const char *refused; /* a part of the message; NULL: accepted */
} resume_rows[] = {
	{ "nothing has changed", NULL, NULL, NULL, 0, 0, NULL },
	{ "the letters of an identifier", NULL, NULL, "volume NAA.6001", 0, 0,
	  NULL },
	{ "another source", "file 8:1 1235", NULL, NULL, 0, 0,
	  "source has another identity" },
	{ "another destination", NULL, NULL, "volume naa.6002", 0, 0,
	  "destination has another identity" },
	{ "a source that was written", NULL, "1700000000.123456790", NULL, 0, 0,
	  "source has another modification time" },
	{ "a source that grew", NULL, NULL, NULL, 2 << 20, 0,
	  "source has another size" },
	{ "a destination that grew", NULL, NULL, NULL, 0, 4 << 20,
	  "destination has another size" },
};

static void put(char *to, const char *text)
{
	if (text)
		strcpy(to, text);
}

T_ROWS(check_resume, resume_rows)
{
	const struct resume_row *r = *state;
	struct resume now = resume_example;
	struct error e = { 0 };
	int err;

	put(now.source.id, r->source_id);
	put(now.source.mtime, r->source_mtime);
	put(now.destination.id, r->destination_id);
	if (r->source_size)
		now.source.size = r->source_size;
	if (r->destination_size)
		now.destination.size = r->destination_size;
	err = resume_check("state", &resume_example, &now, &e);
	assert_int_equal(err, r->refused ? -ESTALE : 0);
	if (r->refused)
		assert_non_null(strstr(e.text, r->refused));
}

/* After a crash, the destination may be newer than the state, but not older. */
T_TEST(a_later_destination_is_accepted_after_a_crash)
{
	struct resume saved = resume_example;
	struct resume now;
	struct error e;

	strcpy(saved.destination.mtime, "1700000000.500000000");
	saved.is_last = false;
	now = saved;
	strcpy(now.destination.mtime, "1700000000.500000001");
	assert_int_equal(resume_check("state", &saved, &now, &e), 0);
	strcpy(now.destination.mtime, "1700000001.000000000");
	assert_int_equal(resume_check("state", &saved, &now, &e), 0);
	strcpy(now.destination.mtime, "1699999999.900000000");
	assert_int_equal(resume_check("state", &saved, &now, &e), -ESTALE);
	saved.is_last = true;
	strcpy(now.destination.mtime, "1700000000.500000001");
	assert_int_equal(resume_check("state", &saved, &now, &e), -ESTALE);
}

T_TEST(a_state_is_what_was_saved)
{
	char dir[] = "/tmp/test_copy.XXXXXX";
	char path[64];
	struct resume loaded;
	struct error e;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/state", dir);
	assert_int_equal(resume_load(path, &loaded, &e), -ENOENT);
	assert_int_equal(resume_save(path, &resume_example, &e), 0);
	assert_int_equal(resume_load(path, &loaded, &e), 0);
	assert_memory_equal(&loaded, &resume_example, sizeof(loaded));
	assert_int_equal(truncate(path, 40), 0);
	assert_int_equal(resume_load(path, &loaded, &e), -EINVAL);
	unlink(path);
	assert_int_equal(rmdir(dir), 0); /* no other file is left */
}

/* ---- extents ---- */

#define FILE_LEN 65536u

static const struct extent_row {
	const char *name;
	uint64_t data; /* bytes from the start on; then a hole */
	uint64_t cut;  /* the size of the file when its extents are read */
	uint64_t from;
	bool is_hole;
	uint64_t len;
} extent_rows[] = {
	{ "data", 32768, FILE_LEN, 0, false, 32768 },
	{ "a hole up to the end", 32768, FILE_LEN, 32768, true, 32768 },
	{ "a hole of a file that was cut ends there", 16384, 49152, 32768, true,
	  16384 },
	{ "what was cut off is no hole", 16384, 32768, 32768, false, 32768 },
	{ "nothing but data is left", 32768, 16384, 32768, false, 32768 },
};

static void extent_told(struct place_io *io, int res)
{
	assert_int_equal(res, 0);
	*(bool *)io->arg = true;
}

T_ROWS(extent, extent_rows)
{
	static const struct reactor_options options = { 0 };
	const struct extent_row *r = *state;
	struct place_env env = { 0 };
	char path[] = "/tmp/test_copy.XXXXXX";
	bool told = false;
	struct place_io io = { .op = PLACE_EXTENT,
			       .offset = r->from,
			       .len = FILE_LEN - r->from,
			       .done = extent_told,
			       .arg = &told };
	int fd = mkstemp(path);
	struct error e;
	char *bytes = malloc(r->data);

	assert_true(fd >= 0);
	memset(bytes, 'x', r->data);
	assert_int_equal(write(fd, bytes, r->data), r->data);
	assert_int_equal(ftruncate(fd, FILE_LEN), 0);
	assert_int_equal(reactor_create(&options, &env.reactor), 0);
	assert_int_equal(
		place_open(&env, path, PLACE_SOURCE, NULL, &io.place, &e), 0);
	assert_int_equal(ftruncate(fd, (off_t)r->cut), 0);
	place_submit(&io);
	while (!told)
		reactor_run_once(env.reactor, -1);
	assert_int_equal(io.is_hole, r->is_hole);
	assert_int_equal(io.extent_len, r->len);
	place_close(io.place);
	reactor_destroy(env.reactor);
	close(fd);
	unlink(path);
	free(bytes);
}

/* ---- the name of a new file ---- */

static int fsync_result;
static ino_t fsync_inode;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
	struct stat st;

	if (fsync_result) {
		errno = -fsync_result;
		return -1;
	}
	assert_int_equal(fstat(fd, &st), 0);
	fsync_inode = st.st_ino;
	return __real_fsync(fd);
}

static const struct name_row {
	const char *name;
	bool exists;   /* the destination, before */
	int result;    /* of the flush of its directory */
	bool is_asked; /* that flush */
	int err;
} name_rows[] = {
	{ "the directory of a new file is flushed", false, 0, true, 0 },
	{ "that of an old file is not", true, 0, false, 0 },
	{ "a directory that cannot be flushed", false, -EINVAL, false, 0 },
	{ "a directory whose flush fails", false, -EIO, false, -EIO },
	{ "only that of a new file can fail", true, -EIO, false, 0 },
};

T_ROWS(stable_name, name_rows)
{
	const struct name_row *r = *state;
	struct place_env env = { 0 };
	char dir[] = "/tmp/test_copy.XXXXXX";
	char path[64];
	struct place *p;
	struct stat st;
	struct error e;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(stat(dir, &st), 0);
	snprintf(path, sizeof(path), "%s/new", dir);
	if (r->exists)
		close(open(path, O_CREAT | O_RDWR, 0600));
	fsync_inode = 0;
	fsync_result = r->result;
	assert_int_equal(
		place_open(&env, path, PLACE_DESTINATION, NULL, &p, &e),
		r->err);
	fsync_result = 0;
	if (!r->err)
		place_close(p);
	assert_int_equal(fsync_inode, r->is_asked ? st.st_ino : 0);
	assert_int_equal(unlink(path), r->err ? -1 : 0);
	assert_int_equal(rmdir(dir), 0);
}
