/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a journal says after each way in which its process or its machine can end
 * (target/disk/journal.h), and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/disk/journal.h"
#include "tests/lib/t_journal.h"
#include "tests/lib/t_table.h"

#define SLOT   DISK_JOURNAL_SLOT
#define LENGTH (2 * SLOT)
#define SECTOR 512u

static char dir[32];
static char path[64];
static struct disk_journal journal;
static struct error error;

/* ---- what is stable ---- */

static unsigned int syncs;	     /* that have succeeded */
static unsigned int syncs_that_fail; /* the next ones */

/* In the place of the library's. */
int fdatasync(int fd)
{
	if (syncs_that_fail) {
		syncs_that_fail--;
		errno = EIO;
		return -1;
	}
	syncs++;
	return fsync(fd);
}

/* ---- files ---- */

struct contents {
	size_t len;
	uint8_t bytes[LENGTH + 1];
};

static void read_file(struct contents *ret)
{
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	ret->len = fread(ret->bytes, 1, sizeof(ret->bytes), f);
	fclose(f);
}

static void write_file(const struct contents *c)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(c->bytes, 1, c->len, f), c->len);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	strcpy(dir, "/tmp/journal-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/disk", dir);
	return 0;
}

static int end(void **state)
{
	char command[64];

	if (disk_journal_is_open(&journal))
		disk_journal_close(&journal);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* ---- a journal ---- */

static void open_it(void)
{
	if (disk_journal_open(&journal, path, false, &error) ||
	    disk_journal_make(&journal, &error))
		fail_msg("%s", error.text);
}

static void put(unsigned int part, const char *text)
{
	assert_int_equal(disk_journal_write(&journal, part, text), 0);
}

static bool has(const char *one, const char *two)
{
	return !strcmp(disk_journal_text(&journal, 0), one) &&
	       !strcmp(disk_journal_text(&journal, 1), two);
}

/* Ends the process that has it, without a word. */
static void kill_it(void)
{
	struct contents c;

	read_file(&c);
	disk_journal_close(&journal);
	write_file(&c);
}

/* The file, in which @from is the older slot, and a change of part 0. */
static void make_two(struct contents *before, struct contents *after)
{
	open_it();
	put(0, "one\nend\n");
	put(1, "two\nend\n");
	read_file(before);
	put(0, "changed\nend\n");
	read_file(after);
	kill_it();
}

/* ---- verdicts ---- */

static void make_none(struct contents *c)
{
	unlink(path);
	c->len = 0;
}

static void make_whole(struct contents *c)
{
	struct contents before;

	make_two(&before, c);
}

/* Half of the bytes of the newer slot are missing. */
static void make_torn(struct contents *c)
{
	struct contents before;

	make_two(&before, c);
	for (size_t i = 0; i < LENGTH; i++) {
		if (i % 32 < 16)
			c->bytes[i] = before.bytes[i];
	}
}

static void make_old(struct contents *c)
{
	c->len = (size_t)sprintf((char *)c->bytes,
				 "rdma-target state 2\nstore x\nend\n");
}

static void make_old_newer(struct contents *c)
{
	c->len =
		(size_t)sprintf((char *)c->bytes, "rdma-target state 3\nend\n");
}

static void make_old_short(struct contents *c)
{
	c->len = (size_t)sprintf((char *)c->bytes,
				 "rdma-target state 2\nstore x\nen");
}

static void make_newer(struct contents *c)
{
	make_whole(c);
	memcpy(c->bytes, "rdma-target journal 4 ", 22);
}

static void make_short(struct contents *c)
{
	make_whole(c);
	c->len = LENGTH - 1;
}

static void make_one_slot(struct contents *c)
{
	make_whole(c);
	c->len = SLOT;
}

static void make_longer(struct contents *c)
{
	make_whole(c);
	c->bytes[c->len++] = '\n';
}

static void make_empty(struct contents *c)
{
	c->len = 0;
}

static void make_zeroes(struct contents *c)
{
	memset(c->bytes, 0, sizeof(c->bytes));
	c->len = LENGTH;
}

/* One bit in each slot. */
static void make_damaged(struct contents *c)
{
	make_whole(c);
	c->bytes[130] ^= 1;
	c->bytes[SLOT + 130] ^= 1;
}

/* A number that the digest does not have. */
static void make_forged(struct contents *c)
{
	make_whole(c);
	for (unsigned int i = 0; i < 2; i++)
		c->bytes[i * SLOT + strlen("rdma-target journal 3 ")] = '9';
}

static void make_other(struct contents *c)
{
	c->len = (size_t)sprintf((char *)c->bytes, "something else\n");
}

static const struct verdict {
	const char *name;
	void (*make)(struct contents *c);
	const char *complaint; /* NULL: it is read */
	const char *one;
	const char *two;
} verdicts[] = {
	{ "none", make_none, NULL, "", "" },
	{ "two valid slots", make_whole, NULL, "changed\nend\n", "two\nend\n" },
	{ "the newer slot is torn", make_torn, NULL, "one\nend\n",
	  "two\nend\n" },
	{ "an older version", make_old, NULL,
	  "rdma-target state 2\nstore x\nend\n", "" },
	{ "a newer version without slots", make_old_newer, "a newer version" },
	{ "an older version, cut short", make_old_short, "cut short" },
	{ "a newer version", make_newer, "a newer version" },
	{ "cut short", make_short, "cut short" },
	{ "one slot", make_one_slot, "cut short" },
	{ "longer", make_longer, "cut short, or no" },
	{ "empty", make_empty, "cut short" },
	{ "zeroes", make_zeroes, "damaged" },
	{ "a bit of each slot", make_damaged, "damaged" },
	{ "a number that is not its own", make_forged, "damaged" },
	{ "another file", make_other, "cut short, or no" },
};

static void expect_refused(const struct contents *c, const char *complaint)
{
	static struct contents now;

	assert_int_equal(disk_journal_open(&journal, path, false, &error),
			 -EBADMSG);
	if (!strstr(error.text, complaint) || !strstr(error.text, path) ||
	    !strstr(error.text, "remove that file"))
		fail_msg("%s", error.text);
	assert_false(disk_journal_is_open(&journal));
	read_file(&now);
	assert_int_equal(now.len, c->len);
	assert_memory_equal(now.bytes, c->bytes, c->len);
}

T_EACH(begin, end)

T_ROWS(verdict, verdicts)
{
	const struct verdict *row = *state;
	static struct contents c;

	row->make(&c);
	if (row->make != make_none)
		write_file(&c);
	if (row->complaint) {
		expect_refused(&c, row->complaint);
		return;
	}
	open_it();
	assert_true(has(row->one, row->two));
	/* and it goes on */
	put(1, "more\nend\n");
	kill_it();
	open_it();
	assert_true(has(row->one, "more\nend\n"));
}

/* ---- loss of power ---- */

static bool is_there(unsigned int way, unsigned int sector,
		     unsigned int *random)
{
	if (way < LENGTH / SECTOR)
		return sector < way; /* in order */
	if (way < 2 * LENGTH / SECTOR)
		return sector != way - LENGTH / SECTOR; /* all but one */
	*random = *random * 1103515245 + 12345;
	return *random >> 16 & 1;
}

/* Some sectors of the change have reached the disk, and others have not. */
static void cut(const struct contents *before, const struct contents *after,
		unsigned int way)
{
	static struct contents c;
	unsigned int random = way;

	c = *before;
	for (unsigned int s = 0; s < LENGTH / SECTOR; s++) {
		if (is_there(way, s, &random))
			memcpy(c.bytes + s * SECTOR, after->bytes + s * SECTOR,
			       SECTOR);
	}
	write_file(&c);
}

static char *long_text(char letter, size_t len)
{
	char *text = malloc(len + 1);

	memset(text, letter, len);
	text[len - 1] = '\n';
	text[len] = '\0';
	return text;
}

/* The texts before a change of part @part, or after it. */
static bool has_either(char *texts[2], unsigned int part, const char *text)
{
	return has(texts[0], texts[1]) ||
	       has(part ? texts[0] : text, part ? text : texts[1]);
}

static void cut_in_each_way(char *texts[2], unsigned int part, const char *text)
{
	static struct contents before, after;

	read_file(&before);
	put(part, text);
	read_file(&after);
	for (unsigned int way = 0; way < 3 * LENGTH / SECTOR; way++) {
		disk_journal_close(&journal);
		cut(&before, &after, way);
		open_it();
		if (!has_either(texts, part, text))
			fail_msg("part %u, way %u", part, way);
	}
	disk_journal_close(&journal);
	write_file(&after);
	open_it();
	assert_string_equal(disk_journal_text(&journal, part), text);
}

/* Each change is longer or shorter than the one before. */
T_TEST(power_is_cut_at_each_step)
{
	static const size_t lens[] = { 9, 3000, 20000, 700, 31999 };
	char *texts[2] = { strdup(""), strdup("") };

	open_it();
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		char *text = long_text((char)('a' + i), lens[i]);

		cut_in_each_way(texts, i & 1, text);
		free(texts[i & 1]);
		texts[i & 1] = text;
	}
	free(texts[0]);
	free(texts[1]);
}

/* A process that makes the file ends before its rename. */
T_TEST(half_made_file_is_in_nobodys_way)
{
	char name[80];
	int fd;

	snprintf(name, sizeof(name), "%s.new", path);
	fd = open(name, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	open_it();
	assert_int_equal(access(name, F_OK), -1);
	assert_true(has("", ""));
}

T_TEST(directory_that_is_full)
{
	const struct rlimit none = { .rlim_max = RLIM_INFINITY };
	struct rlimit limit;
	char name[80];

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(disk_journal_open(&journal, path, false, &error), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(disk_journal_make(&journal, &error), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_non_null(strstr(error.text, path));
	snprintf(name, sizeof(name), "%s.new", path);
	assert_int_equal(access(name, F_OK), -1);
	assert_int_equal(access(path, F_OK), -1);
}

/* Whoever opens it may refuse what it says. */
T_TEST(older_text_stays_until_the_journal_is_made)
{
	static struct contents was, c;

	make_old(&was);
	write_file(&was);
	assert_int_equal(disk_journal_open(&journal, path, false, &error), 0);
	read_file(&c);
	assert_memory_equal(c.bytes, was.bytes, was.len);
	assert_int_equal(c.len, was.len);
	assert_int_equal(disk_journal_make(&journal, &error), 0);
	read_file(&c);
	assert_int_equal(c.len, LENGTH);
	assert_true(has((const char *)was.bytes, ""));
}

/* At the start and at the end, as at any other time. */
T_TEST(write_that_fails_is_put_back)
{
	open_it();
	put(0, "one\nend\n");
	syncs_that_fail = 1;
	assert_int_equal(disk_journal_write(&journal, 0, "two\nend\n"), -EIO);
	assert_false(disk_journal_is_unsure(&journal));
	assert_true(has("one\nend\n", ""));
	kill_it();
	open_it();
	assert_true(has("one\nend\n", ""));
	syncs_that_fail = 2;
	assert_int_equal(disk_journal_write(&journal, 0, "two\nend\n"), -EIO);
	assert_true(disk_journal_is_unsure(&journal));
	put(0, "one\nend\n");
	assert_false(disk_journal_is_unsure(&journal));
}

T_TEST(journal_that_says_nothing_is_removed)
{
	open_it();
	put(1, "two\nend\n");
	put(1, "");
	disk_journal_close(&journal);
	assert_int_equal(access(path, F_OK), -1);
}

/* ---- changes ---- */

struct change {
	struct disk_journal_change c;
	const char *text;
	unsigned int ends;
	int err;
};

static struct reactor *reactors[2];

static size_t change_format(struct disk_journal_change *c, char *buf,
			    size_t cap)
{
	const struct change *change = container_of(c, struct change, c);

	return (size_t)snprintf(buf, cap, "%s", change->text);
}

static void change_done(struct disk_journal_change *c, int err)
{
	struct change *change = container_of(c, struct change, c);

	change->ends++;
	change->err = err;
}

static void start(struct change *change, unsigned int part,
		  unsigned int reactor, const char *text)
{
	*change = (struct change){
		.c = { .part = part,
		       .reactor = reactors[reactor],
		       .format = change_format,
		       .done = change_done },
		.text = text,
	};
	disk_journal_start(&journal, &change->c);
	assert_int_equal(change->ends, 0);
}

/* Runs reactor @nth until @change has ended. */
static void await(struct change *change, unsigned int nth)
{
	while (!change->ends)
		reactor_run_once(reactors[nth], 100000);
	assert_int_equal(change->ends, 1);
}

static int begin_changes(void **state)
{
	struct reactor_options opt = { .ring_entries = 8 };

	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(reactor_create(&opt, &reactors[i]), 0);
	begin(state);
	open_it();
	put(0, "one\nend\n");
	return 0;
}

static int end_changes(void **state)
{
	for (unsigned int i = 0; i < 2; i++)
		reactor_destroy(reactors[i]);
	return end(state);
}

/* What comes meanwhile goes together, and each ends on its own thread. */
T_EACH(begin_changes, end_changes)

T_TEST(changes_go_together)
{
	struct change a, b, c;
	uint64_t number = journal.number;

	start(&a, 0, 0, "a\nend\n");
	while (journal.step == DISK_JOURNAL_CALLS)
		reactor_run_once(reactors[0], 100000);
	start(&b, 1, 1, "b\nend\n");
	start(&c, 0, 0, "c\nend\n");
	await(&a, 0);
	assert_int_equal(b.ends, 0);
	await(&c, 0);
	assert_int_equal(b.ends, 0);
	await(&b, 1);
	assert_int_equal(a.err | b.err | c.err, 0);
	assert_int_equal(journal.number, number + 2);
	kill_it();
	open_it();
	assert_true(has("c\nend\n", "b\nend\n"));
}

/* Nobody is told before the change is stable. */
T_TEST(change_is_stable_when_it_has_ended)
{
	static struct contents c;
	struct change a;

	start(&a, 0, 0, "a\nend\n");
	while (journal.step != DISK_JOURNAL_SYNCS) {
		reactor_run_once(reactors[0], 100000);
		assert_int_equal(a.ends, 0);
	}
	read_file(&c);
	assert_string_equal(disk_journal_text(&journal, 0), "one\nend\n");
	await(&a, 0);
	assert_string_equal(disk_journal_text(&journal, 0), "a\nend\n");
}

T_TEST(change_that_fails_is_put_back)
{
	struct change a;

	t_journal_fail(&journal, T_JOURNAL_REFUSES);
	start(&a, 0, 0, "a\nend\n");
	await(&a, 0);
	assert_int_equal(a.err, -EIO);
	assert_false(disk_journal_is_unsure(&journal));
	kill_it();
	open_it();
	assert_true(has("one\nend\n", ""));
}

T_TEST(journal_is_unsure_until_a_change_succeeds)
{
	struct change a;

	t_journal_fail(&journal, T_JOURNAL_IS_UNSURE);
	start(&a, 0, 0, "a\nend\n");
	await(&a, 0);
	assert_int_equal(a.err, -EIO);
	assert_true(disk_journal_is_unsure(&journal));
	t_journal_fail(&journal, 0);
	start(&a, 0, 0, "b\nend\n");
	await(&a, 0);
	assert_int_equal(a.err, 0);
	assert_false(disk_journal_is_unsure(&journal));
	kill_it();
	open_it();
	assert_true(has("b\nend\n", ""));
}

/* A process is killed before it has synchronized what it has written. The next one reads that,
 * and then the power is cut while it writes its first change: of what nobody has synchronized,
 * each sector may be there or not. */
T_TEST(what_was_read_is_stable_before_the_next_change)
{
	static struct contents stable, written, now;
	struct change a;

	read_file(&stable);
	start(&a, 0, 0, "a\nend\n");
	while (journal.step != DISK_JOURNAL_SYNCS)
		reactor_run_once(reactors[0], 100000);
	read_file(&written);
	await(&a, 0);
	disk_journal_close(&journal);
	write_file(&written);

	syncs = 0;
	open_it();
	if (syncs)
		stable = written;
	start(&a, 1, 0, "b\nend\n");
	await(&a, 0);
	read_file(&now);
	for (unsigned int way = 0; way < 3 * LENGTH / SECTOR; way++) {
		disk_journal_close(&journal);
		cut(&stable, &now, way);
		open_it();
		assert_string_equal(disk_journal_text(&journal, 0), "a\nend\n");
	}
}
