/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/target_id.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define MACHINE "0123456789abcdef0123456789abcdef"

/* People write this identifier into scripts: it must never change. FNV-1a of
 * "rdma-block target port 0123456789abcdef0123456789abcdef:5555". */
T_TEST(identifier_is_the_same_in_every_version)
{
	struct srp_port_id id = target_id_port(MACHINE, 5555);

	assert_true(srp_port_id_ext(&id) == 0x3f1561497463abff);
	assert_true(srp_port_id_guid(&id) == 0x3f1561497463abff);
}

T_TEST(targets_on_one_machine_differ)
{
	struct srp_port_id a = target_id_port(MACHINE, 5555);
	struct srp_port_id b = target_id_port(MACHINE, 5556);

	assert_false(srp_port_id_equal(&a, &b));
}

T_TEST(machines_differ)
{
	struct srp_port_id a = target_id_port(MACHINE, 5555);
	struct srp_port_id b = target_id_port("other", 5555);

	assert_false(srp_port_id_equal(&a, &b));
}

/* ---- the identifier of the target ---- */

static char dir[32];

static int enter_dir(void **state)
{
	strcpy(dir, "target-id.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	return remove(path);
}

static int leave_dir(void **state)
{
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

T_EACH(enter_dir, leave_dir)

static const char *in_dir(const char *name)
{
	static char path[96];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	T_MUST(f);
	fputs(text, f);
	fclose(f);
}

static struct target_id open_id(const char *state_dir)
{
	struct target_id id;
	struct error e;

	assert_int_equal(target_id_open(state_dir, &id, &e), 0);
	return id;
}

T_TEST(without_a_directory_it_is_the_machine)
{
	struct target_id id = open_id(NULL);

	assert_string_not_equal(id.text, "");
	assert_false(id.lasts);
	assert_string_equal(open_id(NULL).text, id.text);
}

T_TEST(it_is_drawn_once)
{
	struct target_id first = open_id(dir);

	assert_true(first.lasts);
	assert_int_equal(strlen(first.text), 32);
	assert_string_equal(open_id(dir).text, first.text);
	/* Files of volumes that come later change nothing. */
	put("600112233445566778899aabbccddeef.lock", "");
	assert_string_equal(open_id(dir).text, first.text);
}

/* As two machines of one image. */
T_TEST(two_directories_have_two)
{
	struct target_id first = open_id(dir), second;

	leave_dir(NULL);
	enter_dir(NULL);
	second = open_id(dir);
	assert_string_not_equal(second.text, first.text);
}

static const struct old_row {
	const char *name;
	const char *file;
	bool is_old; /* the volumes there were made from the machine */
} old_rows[] = {
	{ "a volume's state", "600112233445566778899aabbccddeef", true },
	{ "its lock", "600112233445566778899aabbccddeef.lock", true },
	{ "its record", "600112233445566778899aabbccddeef.flushes", true },
	{ "another file", "lost+found", false },
	{ "a shorter name", "600112233445566778899aabbccddee.lock", false },
	{ "a longer name", "600112233445566778899aabbccddeef0", false },
};

T_ROWS(directory_of_an_earlier_version_keeps_its_disks, old_rows)
{
	const struct old_row *row = *state;
	struct target_id machine = open_id(NULL), id;

	put(row->file, "");
	id = open_id(dir);
	assert_true(id.lasts);
	assert_int_equal(!strcmp(id.text, machine.text), row->is_old);
	/* Whatever becomes of the machine ID and the volumes. */
	remove(in_dir(row->file));
	assert_string_equal(open_id(dir).text, id.text);
}

static const struct wrong_row {
	const char *name;
	const char *text;
} wrong_rows[] = {
	{ "it is empty", "" },
	{ "it has a space", "a b\n" },
	{ "it is too long",
	  "0123456789012345678901234567890123456789012345678901"
	  "0123456789012345678901234567890123456789012345678901"
	  "01234567890123456789012345678901234567890123456789" },
};

T_ROWS(wrong_file_is_refused_and_stays, wrong_rows)
{
	const struct wrong_row *row = *state;
	struct target_id id;
	struct error e;
	struct stat st;

	put(LASTING_ID_FILE, row->text);
	assert_int_equal(target_id_open(dir, &id, &e), -EBADMSG);
	assert_non_null(strstr(e.text, dir));
	assert_non_null(strstr(e.text, "file id: "));
	assert_int_equal(stat(in_dir(LASTING_ID_FILE), &st), 0);
	assert_int_equal(st.st_size, strlen(row->text));
}

T_TEST(fifo_does_not_block)
{
	struct target_id id;
	struct error e;

	assert_int_equal(mkfifo(in_dir(LASTING_ID_FILE), 0600), 0);
	assert_int_equal(target_id_open(dir, &id, &e), -EBADMSG);
}

/* Each child prints what it has got. */
T_TEST(all_that_draw_at_once_get_one)
{
	struct target_id first, id;
	int fds[2];

	T_MUST(!pipe(fds));
	for (int i = 0; i < 8; i++) {
		if (fork())
			continue;
		id = open_id(dir);
		_exit(write(fds[1], &id, sizeof(id)) != sizeof(id));
	}
	close(fds[1]);
	first = open_id(dir);
	while (read(fds[0], &id, sizeof(id)) == sizeof(id))
		assert_string_equal(id.text, first.text);
	while (wait(NULL) > 0)
		;
	close(fds[0]);
}
