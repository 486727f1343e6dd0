/* SPDX-License-Identifier: BSD-2-Clause */
/* A LUN never becomes another disk, whatever the order of volumes and starts. */
#include "target/scsi/lun_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/t_table.h"

#define PORT 5599u

static char dir[] = "/tmp/rdma-test.XXXXXX";

/* One start of a target. */
struct start {
	struct lun_memory m;
	struct lun_map luns;
	bool chooses[LUNS_MAX];
	struct error e;
};

static struct start *start_in(const char *where)
{
	struct start *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(lun_memory_open(&s->m, where, PORT, &s->e), 0);
	return s;
}

static void stop(struct start *s)
{
	lun_memory_close(&s->m);
	while (s->luns.cnt > 0)
		free(s->luns.vol[--s->luns.cnt]);
	free(s);
}

/* A volume "a" to "z", or in memory "A" to "Z". @lun: -1: any. */
static void serve(struct start *s, char name, int lun)
{
	static uint16_t draw;
	struct volume *vol = calloc(1, sizeof(*vol));

	assert_non_null(vol);
	vol->name[0] = name;
	vol->identity = name < 'a' ? VOLUME_NEW : VOLUME_LASTING;
	vol->info.naa[0] = (uint8_t)name;
	if (name < 'a') {
		vol->info.naa[1] = (uint8_t)(++draw >> 8);
		vol->info.naa[2] = (uint8_t)draw;
	}
	vol->lun = lun < 0 ? 0 : (unsigned int)lun;
	s->chooses[s->luns.cnt] = lun < 0;
	s->luns.vol[s->luns.cnt++] = vol;
}

static void served_as(struct start *s, const char *luns)
{
	char text[64] = "";

	assert_int_equal(lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e),
			 0);
	assert_int_equal(lun_memory_keep(&s->m, &s->luns, &s->e), 0);
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		sprintf(text + strlen(text), "%s%u", i ? " " : "",
			s->luns.vol[i]->lun);
		s->chooses[i] = false;
	}
	assert_string_equal(text, luns);
}

static void refused(struct start *s, int err, const char *why)
{
	assert_int_equal(lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e),
			 err);
	assert_non_null(strstr(s->e.text, why));
}

/* The volume @i is removed. */
static void leave(struct start *s, unsigned int i)
{
	free(s->luns.vol[i]);
	s->luns.vol[i] = s->luns.vol[--s->luns.cnt];
}

/* What is served at one start after another; a letter may be followed by lun=. */
static const struct starts_case {
	const char *name;
	const char *starts[4];
	const char *luns[4];
} starts_cases[] = {
	{ "in the order of the start", { "abc" }, { "0 1 2" } },
	{ "in another order", { "abc", "cab" }, { "0 1 2", "2 0 1" } },
	{ "one is gone, one is new", { "ab", "bc" }, { "0 1", "1 2" } },
	{ "one comes back", { "ab", "b", "cab" }, { "0 1", "1", "2 0 1" } },
	{ "its own number first", { "ab3" }, { "0 3" } },
	{ "it keeps the number that it was given once",
	  { "b3", "ab" },
	  { "3", "0 3" } },
	{ "the last number counts", { "a", "a5", "ba" }, { "0", "5", "1 5" } },
	{ "memory of one name", { "A", "aA" }, { "0", "1 0" } },
	{ "memory is no disk", { "a", "A" }, { "0", "1" } },
	{ "a disk is no memory", { "A", "a" }, { "0", "1" } },
};

static void serve_all(struct start *s, const char *volumes)
{
	for (; *volumes; volumes++) {
		bool numbered = volumes[1] >= '0' && volumes[1] <= '9';

		serve(s, *volumes, numbered ? volumes[1] - '0' : -1);
		volumes += numbered;
	}
}

static char *new_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	return dir;
}

static void remove_dir(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

T_ROWS(lun_stays_with_its_disk, starts_cases)
{
	const struct starts_case *row = *state;

	new_dir();
	for (int i = 0; i < 4 && row->starts[i]; i++) {
		struct start *s = start_in(dir);

		serve_all(s, row->starts[i]);
		served_as(s, row->luns[i]);
		stop(s);
	}
	remove_dir();
}

/* One start, and another one with a volume whose store is not here yet. */
static const struct wait_case {
	const char *name;
	const char *before;
	const char *here;
	char awaited;
	int asked; /* lun=; -1: none */
	bool known;
	unsigned int lun;
} wait_cases[] = {
	{ "the LUN of its name", "ab", "a", 'b', -1, true, 1 },
	{ "before those that are here", "ab", "b", 'a', -1, true, 0 },
	{ "a new one after what is known", "ab", "a", 'c', -1, false, 2 },
	{ "the LUN that it asks for, whatever its name was", "a5b", "b", 'c', 5,
	  true, 5 },
	{ "not the disk of one that is here", "a", "a", 'a', -1, false, 1 },
	{ "not memory of its name", "A", "b", 'A', -1, false, 2 },
};

T_ROWS(lun_is_kept_for_what_is_not_here_yet, wait_cases)
{
	const struct wait_case *c = *state;
	struct volume *vol;
	struct start *s;

	new_dir();
	s = start_in(dir);
	serve_all(s, c->before);
	assert_int_equal(lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e),
			 0);
	assert_int_equal(lun_memory_keep(&s->m, &s->luns, &s->e), 0);
	stop(s);
	s = start_in(dir);
	serve_all(s, c->here);
	serve(s, c->awaited, c->asked);
	vol = s->luns.vol[s->luns.cnt - 1];
	vol->identity = VOLUME_LASTING;
	memset(vol->info.naa, 0, SCSI_NAA_LEN);
	assert_int_equal(lun_memory_guess(&s->m, vol, c->asked >= 0, &s->luns),
			 c->known);
	assert_int_equal(lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e),
			 0);
	assert_int_equal(vol->lun, c->lun);
	stop(s);
	remove_dir();
}

T_TEST(lun_of_a_disk_that_is_gone_is_refused)
{
	struct start *s = start_in(new_dir());

	serve_all(s, "ab");
	served_as(s, "0 1");
	stop(s);
	s = start_in(dir);
	serve_all(s, "bc0");
	refused(s, -EEXIST, "'c' cannot be LUN 0");
	refused(s, -EEXIST, "know it as the volume 'a'");
	stop(s);
	/* Both are there: rules may show them to different initiators. */
	s = start_in(dir);
	serve_all(s, "abc0");
	served_as(s, "0 1 0");
	stop(s);
	remove_dir();
}

T_TEST(forgotten_lun_is_free)
{
	struct start *s = start_in(new_dir());

	serve_all(s, "ab");
	served_as(s, "0 1");
	assert_int_equal(lun_memory_forget(&s->m, &s->luns, "a", &s->e),
			 -ENOENT);
	leave(s, 0);
	assert_int_equal(lun_memory_forget(&s->m, &s->luns, "a", &s->e), 0);
	stop(s);
	s = start_in(dir);
	serve_all(s, "cb");
	served_as(s, "0 1");
	stop(s);
	remove_dir();
}

static const struct unseen_case {
	const char *name;
	const char *before; /* the disks of a start that everybody sees */
	const char *disks;  /* of the next start */
	int seen;	    /* a LUN; -1: none */
	int leaves;	    /* this one is removed before the end; -1: none */
	const char *next;
	const char *luns; /* of the disks of the start after that */
} unseen_cases[] = {
	{ "nobody has seen any", "", "ab", -1, -1, "c", "0" },
	{ "the first was seen", "", "ab", 0, -1, "cd", "1 2" },
	{ "the second was seen", "", "ab", 1, -1, "cd", "0 2" },
	{ "the seen one was removed", "", "ab", 0, 0, "cd", "1 2" },
	{ "the unseen one was removed", "", "ab", 0, 1, "cd", "1 2" },
	{ "an earlier start was seen", "a", "ab", -1, -1, "cd", "1 2" },
};

T_ROWS(lun_that_nobody_has_seen_is_free_at_the_end, unseen_cases)
{
	const struct unseen_case *row = *state;
	struct start *s = start_in(new_dir());

	serve_all(s, row->before);
	lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e);
	assert_int_equal(lun_memory_keep(&s->m, &s->luns, &s->e), 0);
	s->luns.seen[0] = true;
	lun_memory_forget_unseen(&s->m, &s->luns);
	stop(s);
	s = start_in(dir);
	serve_all(s, row->disks);
	served_as(s, "0 1");
	if (row->seen >= 0)
		s->luns.seen[row->seen] = true;
	if (row->leaves >= 0)
		leave(s, (unsigned int)row->leaves);
	lun_memory_forget_unseen(&s->m, &s->luns);
	stop(s);
	s = start_in(dir);
	serve_all(s, row->next);
	served_as(s, row->luns);
	stop(s);
	remove_dir();
}

T_TEST(memory_of_one_process_is_another_disk)
{
	struct start *s = start_in(NULL);

	serve_all(s, "AB");
	served_as(s, "0 1");
	leave(s, 0);
	serve(s, 'A', -1);
	served_as(s, "1 2");
	stop(s);
}

T_TEST(all_luns_may_be_taken)
{
	struct start *s = start_in(NULL);

	for (int i = 0; i < LUNS_MAX; i++) {
		serve(s, 'A', -1);
		lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e);
		s->chooses[0] = false;
		lun_memory_keep(&s->m, &s->luns, &s->e);
		leave(s, 0);
	}
	serve(s, 'A', -1);
	refused(s, -ENOSPC, "all 256 LUNs are taken, or were other volumes");
	stop(s);
}

T_TEST(luns_that_cannot_be_kept_are_not_known)
{
	struct start *s = start_in(new_dir());

	serve_all(s, "a");
	assert_int_equal(lun_memory_choose(&s->m, &s->luns, s->chooses, &s->e),
			 0);
	remove_dir();
	assert_int_equal(lun_memory_keep(&s->m, &s->luns, &s->e), -ENOENT);
	assert_non_null(strstr(s->e.text, "cannot keep the LUNs in"));
	assert_int_equal(s->m.cnt, 0);
	stop(s);
}

T_TEST(file_is_for_one_target)
{
	struct start *s = start_in(new_dir());
	struct start *other = calloc(1, sizeof(*other));

	assert_non_null(other);
	assert_int_equal(lun_memory_open(&other->m, dir, PORT, &other->e),
			 -EBUSY);
	lun_memory_close(&other->m);
	assert_int_equal(lun_memory_open(&other->m, dir, PORT + 1, &other->e),
			 0);
	stop(other);
	stop(s);
	remove_dir();
}

#define FIRST "rdma-target luns 1\n"
#define NAA   "6100000000000000000000000000000"

static const struct file_case {
	const char *name;
	const char *text;
	bool good;
} file_cases[] = {
	{ "as it is written", FIRST "0 " NAA "0 a\n1 memory A\nend\n", true },
	{ "of a newer version", "rdma-target luns 2\nend\n" },
	{ "empty", "" },
	{ "without an end", FIRST "0 " NAA "0 a\n" },
	{ "cut off", FIRST "0 " NAA },
	{ "more after the end", FIRST "end\n0 memory A\n" },
	{ "a LUN too high", FIRST "256 memory A\nend\n" },
	{ "a LUN that is no number", FIRST "x memory A\nend\n" },
	{ "a short identifier", FIRST "0 " NAA " a\nend\n" },
	{ "an identifier with other characters", FIRST "0 " NAA "g a\nend\n" },
	{ "no name", FIRST "0 memory \nend\n" },
	{ "no disk", FIRST "0\nend\n" },
	{ "a line without anything", FIRST "\nend\n" },
	{ "a long name", FIRST
	  "0 memory aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	  "aaaaaaaaaaaa\nend\n" },
};

T_ROWS(damaged_file_is_refused, file_cases)
{
	const struct file_case *row = *state;
	struct start *s = calloc(1, sizeof(*s));
	char path[64];
	FILE *f;

	assert_non_null(s);
	snprintf(path, sizeof(path), "%s/luns.%u", new_dir(), PORT);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(row->text, f);
	fclose(f);
	assert_int_equal(lun_memory_open(&s->m, dir, PORT, &s->e),
			 row->good ? 0 : -EBADMSG);
	if (row->good)
		assert_int_equal(s->m.cnt, 2);
	else
		assert_non_null(strstr(s->e.text, "is damaged"));
	stop(s);
	remove_dir();
}
