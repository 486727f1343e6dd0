/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal of a volume: any bytes as its file; a real one with bytes that were changed;
 * and the text of its part about unflushed writes.
 */
#include <errno.h>

#include "target/block/writers.h"
#include "target/disk/journal.h"
#include "tests/fuzz/fuzz.h"

#define LENGTH (2 * DISK_JOURNAL_SLOT)

static char dir[] = "/dev/shm/fuzz-journal-XXXXXX";
static char path[64];
static struct disk_journal journal;

/* ---- the file ---- */

static void remove_dir(void)
{
	unlink(path);
	rmdir(dir);
}

static void make_dir(void)
{
	if (*path)
		return;
	FUZZ_CLAIM(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/disk", dir);
	atexit(remove_dir);
}

static void write_file(const uint8_t *bytes, size_t len)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	FUZZ_CLAIM(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	close(fd);
}

static size_t read_file(uint8_t *bytes)
{
	int fd = open(path, O_RDONLY);
	ssize_t len = read(fd, bytes, LENGTH + 1);

	FUZZ_CLAIM(fd >= 0 && len >= 0);
	close(fd);
	return (size_t)len;
}

/* Opens the file, which has @bytes. Whether it is read or refused, it stays. */
static bool journal_opens(const uint8_t *bytes, size_t len)
{
	static uint8_t now[LENGTH + 1];
	struct error e = { 0 };
	int err = disk_journal_open(&journal, path, /* is_alone= */ true, &e);

	FUZZ_CLAIM(!err || (err == -EBADMSG && strstr(e.text, path)));
	FUZZ_CLAIM(read_file(now) == len && !memcmp(now, bytes, len));
	return !err;
}

static bool has(const char *one, const char *two)
{
	return !strcmp(disk_journal_text(&journal, 0), one) &&
	       !strcmp(disk_journal_text(&journal, 1), two);
}

static void put(unsigned int part, const char *text)
{
	FUZZ_CLAIM(!disk_journal_write(&journal, part, text));
}

static void make(void)
{
	struct error e = { 0 };

	FUZZ_CLAIM(!disk_journal_make(&journal, &e));
}

/* It goes on from what was read, and the next start finds that. */
static void change_it(void)
{
	static uint8_t bytes[LENGTH + 1];
	char *one = strdup(disk_journal_text(&journal, 0));
	size_t len;

	make();
	put(1, "changed");
	len = read_file(bytes);
	disk_journal_close(&journal);
	write_file(bytes, len);
	FUZZ_CLAIM(journal_opens(bytes, len) && has(one, "changed"));
	free(one);
	disk_journal_close(&journal);
}

/* ---- any bytes ---- */

static void read_bytes(struct fuzz_input *in)
{
	static uint8_t bytes[LENGTH + 1];
	bool whole = fuzz_u8(in) & 1;
	size_t len = in->left < LENGTH ? in->left : LENGTH;

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, in->p, len);
	if (whole)
		len = LENGTH;
	write_file(bytes, len);
	if (journal_opens(bytes, len))
		change_it();
}

/* ---- bytes that were changed ---- */

/* The next bytes as a string. */
static char *take_text(struct fuzz_input *in)
{
	size_t len = fuzz_u8(in);
	char *text = calloc(1, len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)fuzz_u8(in);
	return text;
}

/* True: slot @slot is as it was. */
static bool change_bytes(struct fuzz_input *in, uint8_t *bytes,
			 unsigned int slot)
{
	static uint8_t was[LENGTH];

	memcpy(was, bytes, LENGTH);
	while (in->left) {
		uint8_t where = fuzz_u8(in);
		size_t at = (where & 1) * DISK_JOURNAL_SLOT +
			    (where & 2 ? fuzz_u16(in) : fuzz_u8(in));

		bytes[at] ^= fuzz_u8(in);
	}
	return !memcmp(was + slot * DISK_JOURNAL_SLOT,
		       bytes + slot * DISK_JOURNAL_SLOT, DISK_JOURNAL_SLOT);
}

/* What is read is what the last change left, or one before. */
static void change_journal(struct fuzz_input *in)
{
	static uint8_t bytes[LENGTH + 1];
	char *was = take_text(in);
	char *is = take_text(in);
	bool newest_is_whole;
	unsigned int newest;

	unlink(path);
	FUZZ_CLAIM(
		!disk_journal_open(&journal, path, true, &(struct error){ 0 }));
	make();
	put(1, "other");
	put(0, was);
	put(0, "between");
	put(0, is);
	FUZZ_CLAIM(read_file(bytes) == LENGTH);
	newest = journal.newest;
	disk_journal_close(&journal);
	newest_is_whole = change_bytes(in, bytes, newest);
	write_file(bytes, LENGTH);
	if (journal_opens(bytes, LENGTH)) {
		FUZZ_CLAIM(has(is, "other") ||
			   (!newest_is_whole &&
			    (has("between", "other") || has(was, "other"))));
		change_it();
	}
	free(was);
	free(is);
}

/* ---- unflushed writes ---- */

/* What is read is written again in the same way, and read once more. */
static void read_writers(struct fuzz_input *in)
{
	static char text[WRITERS_TEXT_MAX + 1], again[sizeof(text)];
	static struct writers ws;
	struct writers_found found;
	char *exact = fuzz_text(in);

	for (int round = 0; round < 2; round++) {
		writers_init(&ws);
		if (writers_parse(&ws, round ? text : exact, &found)) {
			FUZZ_CLAIM(!round);
			break;
		}
		if (!*found.boot)
			break;
		if (found.failed == WRITERS_FLUSH_FAILED)
			writers_flush_ends(&ws, 0, -EIO);
		else if (found.failed)
			writers_doubt(&ws);
		memcpy(again, text, sizeof(again));
		text[writers_format(&ws, found.boot, found.life, text,
				    sizeof(text) - 1)] = '\0';
		writers_kept(&ws, 0);
		writers_fini(&ws);
		FUZZ_CLAIM(!round || !strcmp(text, again));
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	make_dir();
	switch (fuzz_u8(&in) % 3) {
	case 0:
		read_bytes(&in);
		break;
	case 1:
		change_journal(&in);
		break;
	default:
		read_writers(&in);
	}
	return 0;
}
