/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of keys: what is one, which keys a name has, and who may use a file. */
#include "base/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "tests/lib/t_table.h"

#if HAVE_NETTLE

#define HEX32  "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER32 \
	"ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define THIRD32 \
	"fe0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX31  "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define NAME63 "a23456789012345678901234567890123456789012345678901234567890123"

static const struct parse_row {
	const char *name;
	const char *text;
	const char *refusal; /* NULL: it is right */
	unsigned int cnt;
	bool read_only; /* the first key */
} parse_rows[] = {
	{ "nothing is no key", "", NULL, 0 },
	{ "comments and empty lines", "# a\n\n \t\n   # b\n", NULL, 0 },
	{ "hexadecimal digits", "backup " HEX32 "\n", NULL, 1 },
	{ "base64", "backup " BASE32 "\n", NULL, 1 },
	{ "no end of line, CR, tabs", "\tbackup\t" HEX32 "\r", NULL, 1 },
	{ "64 bytes", "a " HEX32 OTHER32, NULL, 1 },
	{ "read only", "backup " HEX32 " ro\n", NULL, 1, true },
	{ "two keys of one name", "a " HEX32 "\na " OTHER32 "\n", NULL, 2 },
	{ "the longest name", NAME63 " " HEX32, NULL, 1 },
	{ "a third key", "a " HEX32 "\na " OTHER32 "\na " THIRD32,
	  "line 3: a third key of one name" },
	{ "one key of two names", "a " HEX32 "\nb " BASE32,
	  "line 2: a key that another line has" },
	{ "31 bytes", "a " HEX31, "line 1: the key is not 32 to 64 bytes" },
	{ "65 bytes", "a " HEX32 HEX32 "aa", "the key is not" },
	{ "an odd number of digits", "a " HEX32 "a", "the key is not" },
	{ "no key", "\na\n", "line 2: the key is not" },
	{ "base64 without its end",
	  "a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "the key is not" },
	{ "base64 with bits behind the end",
	  "a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "the key is not" },
	{ "base64 that begins again",
	  "a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=AAAA",
	  "the key is not" },
	{ "a name too long", NAME63 "4 " HEX32, "line 1: the name is not" },
	{ "a name with a colon", "a:ro " HEX32, "the name is not" },
	{ "a name with the mark of a print", "a#1 " HEX32, "the name is not" },
	{ "a name that begins with a mark", "-a " HEX32, "the name is not" },
	{ "every name", "* " HEX32, "the name is not" },
	{ "other rights", "a " HEX32 " rw", "what follows the key is not ro" },
	{ "more than rights", "a " HEX32 " ro ro", "what follows the key" },
};

T_ROWS(keys_are_parsed, parse_rows)
{
	const struct parse_row *row = *state;
	struct key_file f = { 0 };
	struct error e;
	int err = key_file_parse(row->text, strlen(row->text), "k", &f, &e);

	if (row->refusal) {
		assert_int_equal(err, -EINVAL);
		assert_non_null(strstr(e.text, row->refusal));
		/* No part of a key is told. */
		assert_null(strstr(e.text, "0102"));
		assert_null(f.key);
		return;
	}
	assert_int_equal(err, 0);
	assert_int_equal(f.cnt, row->cnt);
	if (row->cnt) {
		assert_int_equal(f.key[0].read_only, row->read_only);
		assert_int_equal(f.key[0].bytes[31], 0x1f);
	}
	key_file_free(&f);
}

T_TEST(zero_byte_is_no_end)
{
	static const char text[] = "a " HEX32 "\0b\n";
	struct key_file f;
	struct error e;

	assert_int_equal(key_file_parse(text, sizeof(text) - 1, "k", &f, &e),
			 -EINVAL);
}

T_TEST(no_more_keys_than_there_is_room_for)
{
	struct key_file f;
	struct error e;
	char *text = malloc(80 * (KEYS_MAX + 1));
	size_t len = 0;

	assert_non_null(text);
	for (unsigned int i = 0; i <= KEYS_MAX; i++) {
		if (i == KEYS_MAX) {
			assert_int_equal(key_file_parse(text, len, "k", &f, &e),
					 0);
			assert_int_equal(f.cnt, KEYS_MAX);
			key_file_free(&f);
		}
		len += (size_t)sprintf(text + len, "n%u %08x%s\n", i, i, HEX31);
	}
	assert_int_equal(key_file_parse(text, len, "k", &f, &e), -EINVAL);
	assert_non_null(strstr(e.text, "line 257: more than 256 keys"));
	free(text);
}

/* ---- names ---- */

static struct key_file some_keys(void)
{
	static const char text[] =
		"backup " HEX32 "\nbackup " OTHER32 " ro\nback " THIRD32 "\n";
	struct key_file f;
	struct error e;

	assert_int_equal(key_file_parse(text, strlen(text), "k", &f, &e), 0);
	return f;
}

static const struct find_row {
	const char *name;
	const char *of;
	unsigned int nth;
	int found; /* index; -1: none */
} find_rows[] = {
	{ "the newest key", "backup", 0, 0 },
	{ "the older key", "backup", 1, 1 },
	{ "no third key", "backup", 2, -1 },
	{ "another name", "back", 0, 2 },
	{ "its older key", "back", 1, -1 },
	{ "no name", "", 0, -1 },
	{ "a part of a name", "bac", 0, -1 },
	{ "more than a name", "backups", 0, -1 },
	{ "another case", "Backup", 0, -1 },
};

T_ROWS(name_has_keys, find_rows)
{
	const struct find_row *row = *state;
	struct key_file f = some_keys();

	assert_ptr_equal(key_file_find(&f, row->of, row->nth),
			 row->found < 0 ? NULL : &f.key[row->found]);
	key_file_free(&f);
}

/* Both ends show the same for the same key. */
T_TEST(print_tells_keys_apart)
{
	struct key_file f = some_keys();

	assert_string_equal(f.key[1].print, "72e85482");
	assert_string_not_equal(f.key[0].print, f.key[1].print);
	key_file_free(&f);
}

/* Who has the keys for one use cannot use them for another. */
T_TEST(each_purpose_has_keys_of_its_own)
{
	struct key_file f = some_keys();
	struct key_file one;
	struct key_file two;

	assert_int_equal(key_file_derive(&f, KEY_OF_DISCOVERY, &one), 0);
	assert_int_equal(key_file_derive(&f, "another", &two), 0);
	assert_int_equal(one.cnt, 3);
	assert_memory_not_equal(one.key[0].bytes, f.key[0].bytes, HMAC_LEN);
	assert_memory_not_equal(one.key[0].bytes, two.key[0].bytes, HMAC_LEN);
	assert_memory_not_equal(one.key[0].bytes, one.key[1].bytes, HMAC_LEN);
	assert_int_equal(one.key[0].len, HMAC_LEN);
	key_file_free(&f);
	key_file_free(&one);
	key_file_free(&two);
}

/* ---- files ---- */

static const struct file_row {
	const char *name;
	mode_t mode;
	uid_t owner; /* 0: as it is */
	int err;
	const char *message;
} file_rows[] = {
	{ "the owner may read it", 0600, 0, 0, NULL },
	{ "nobody may write it", 0400, 0, 0, NULL },
	{ "its group may read it", 0640, 0, -EACCES, "chmod 600" },
	{ "everybody may read it", 0604, 0, -EACCES, "chmod 600" },
	{ "everybody may write it", 0602, 0, -EACCES, "chmod 600" },
	{ "it is of another user", 0600, 65534, -EACCES, "try chown" },
};

T_ROWS(file_is_its_owners, file_rows)
{
	const struct file_row *row = *state;
	char path[] = "/tmp/keys-XXXXXX";
	int fd = mkstemp(path);
	struct key_file f;
	struct error e;

	assert_true(fd >= 0);
	assert_true(write(fd, "a " HEX32, strlen("a " HEX32)) > 0);
	assert_int_equal(fchmod(fd, row->mode), 0);
	if (row->owner && fchown(fd, row->owner, (gid_t)-1)) {
		close(fd);
		unlink(path);
		T_SKIP("not root");
	}
	close(fd);
	assert_int_equal(key_file_read(path, &f, &e), row->err);
	assert_int_equal(unlink(path), 0);
	if (row->err) {
		assert_non_null(strstr(e.text, row->message));
		assert_non_null(strstr(e.text, path));
		return;
	}
	assert_int_equal(f.cnt, 1);
	key_file_free(&f);
}

T_TEST(file_that_is_not_there)
{
	struct key_file f;
	struct error e;

	assert_int_equal(key_file_read("/nowhere/k", &f, &e), -ENOENT);
	assert_string_equal(e.text,
			    "keys '/nowhere/k': No such file or directory");
	assert_int_equal(key_file_read("/", &f, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not a regular file"));
}

/* It would wait for a writer. */
T_TEST(fifo_is_not_read)
{
	char dir[] = "/tmp/keys-XXXXXX";
	struct key_file f;
	struct error e;
	char path[32];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(key_file_read(path, &f, &e), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

T_TEST(longest_file_is_read)
{
	char path[] = "/tmp/keys-XXXXXX";
	int fd = mkstemp(path);
	struct key_file f;
	struct error e;

	assert_true(fd >= 0);
	assert_true(write(fd, "a " HEX32 "\n#", strlen("a " HEX32 "\n#")) > 0);
	assert_int_equal(ftruncate(fd, KEY_FILE_MAX), 0);
	assert_int_equal(key_file_read(path, &f, &e), 0);
	key_file_free(&f);
	assert_int_equal(ftruncate(fd, KEY_FILE_MAX + 1), 0);
	assert_int_equal(key_file_read(path, &f, &e), -EINVAL);
	assert_non_null(strstr(e.text, "longer than 64 KiB"));
	close(fd);
	assert_int_equal(unlink(path), 0);
}

#endif
