/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/secret.h"
#include "config.h"

#define KEY_FILE_BYTES (KEYS_MAX * sizeof(struct key))
#define KEY_BLANKS     " \t\r"

/* A word of a line. */
struct key_word {
	const char *p;
	size_t len;
};

/* ---- names and bytes ---- */

static bool key_is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

bool key_name_is_good(const char *name, size_t len)
{
	if (!len || len >= KEY_NAME_SIZE || !key_is_alnum(name[0]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!key_is_alnum(name[i]) && !memchr("-_.", name[i], 3))
			return false;
	}
	return true;
}

/* -1: not a digit. */
static int key_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int key_base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool key_is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (key_hex_digit(text[i]) < 0)
			return false;
	}
	return len % 2 == 0;
}

static bool key_take_hex(const char *text, size_t len, struct key *ret)
{
	if (len / 2 > KEY_LEN_MAX)
		return false;
	ret->len = len / 2;
	for (size_t i = 0; i < ret->len; i++)
		ret->bytes[i] = (uint8_t)(key_hex_digit(text[2 * i]) << 4 |
					  key_hex_digit(text[2 * i + 1]));
	return true;
}

static bool key_take_base64(const char *text, size_t len, struct key *ret)
{
	unsigned int bits = 0;
	uint32_t value = 0;

	ret->len = 0;
	if (len % 4)
		return false;
	while (len && len % 4 != 2 && text[len - 1] == '=')
		len--;
	for (size_t i = 0; i < len; i++) {
		int digit = key_base64_digit(text[i]);

		if (digit < 0)
			return false;
		value = value << 6 | (uint32_t)digit;
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		if (ret->len == KEY_LEN_MAX)
			return false;
		ret->bytes[ret->len++] = (uint8_t)(value >> bits);
		value &= (1u << bits) - 1;
	}
	return !value;
}

bool key_parse_bytes(const char *text, size_t len, struct key *ret)
{
	bool good = key_is_hex(text, len) ? key_take_hex(text, len, ret)
					  : key_take_base64(text, len, ret);

	return good && ret->len >= KEY_LEN_MIN;
}

void key_print(const void *bytes, size_t len, char ret[KEY_PRINT_SIZE])
{
	struct hmac_key key = { .bytes = bytes, .len = len };
	uint8_t code[HMAC_LEN];

	hmac_code(&key, "rdma-block print", 16, code);
	snprintf(ret, KEY_PRINT_SIZE, "%02x%02x%02x%02x", code[0], code[1],
		 code[2], code[3]);
}

/* ---- lines ---- */

/* The next word of the line from *at to @end. Length 0: there is none. */
static struct key_word key_next_word(const char **at, const char *end)
{
	struct key_word w;

	while (*at < end && memchr(KEY_BLANKS, **at, 3))
		(*at)++;
	w.p = *at;
	while (*at < end && !memchr(KEY_BLANKS, **at, 3))
		(*at)++;
	w.len = (size_t)(*at - w.p);
	return w;
}

/* A zero byte is no character of any word. */
static bool key_word_is(struct key_word w, const char *text)
{
	return w.len == strlen(text) && !memcmp(w.p, text, w.len);
}

static unsigned int key_count(const struct key_file *f, const char *name)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < f->cnt; i++)
		cnt += !strcmp(f->key[i].name, name);
	return cnt;
}

static bool key_is_twice(const struct key_file *f, const struct key *key)
{
	for (unsigned int i = 0; i < f->cnt; i++) {
		if (f->key[i].len == key->len &&
		    !memcmp(f->key[i].bytes, key->bytes, key->len))
			return true;
	}
	return false;
}

/* Says nothing of what the line has: it may be a key. */
static const char *key_take_line(struct key_file *f, const char *at,
				 const char *end)
{
	struct key *key = &f->key[f->cnt];
	struct key_word name = key_next_word(&at, end);
	struct key_word bytes = key_next_word(&at, end);
	struct key_word rights = key_next_word(&at, end);

	if (!name.len || name.p[0] == '#')
		return NULL;
	if (f->cnt == KEYS_MAX)
		return "more than 256 keys";
	memset(key, 0, sizeof(*key));
	if (!key_name_is_good(name.p, name.len))
		return "the name is not 1 to 63 letters, digits, '-', '_' and "
		       "'.'; a line is NAME KEY [ro]";
	memcpy(key->name, name.p, name.len);
	if (!key_parse_bytes(bytes.p, bytes.len, key))
		return "the key is not 32 to 64 bytes, in hexadecimal digits "
		       "or base64; try openssl rand -hex 32";
	key->read_only = key_word_is(rights, "ro");
	if ((rights.len && !key->read_only) || key_next_word(&at, end).len)
		return "what follows the key is not ro";
	if (key_count(f, key->name) == KEYS_PER_NAME)
		return "a third key of one name; remove the oldest";
	if (key_is_twice(f, key))
		return "a key that another line has";
	key_print(key->bytes, key->len, key->print);
	f->cnt++;
	return NULL;
}

static const char *key_take_lines(struct key_file *f, const char *text,
				  size_t len, unsigned int *ret_line)
{
	const char *end = text + len;
	const char *why = NULL;

	for (*ret_line = 0; text < end && !why; text++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		stop = stop ? stop : end;
		++*ret_line;
		why = key_take_line(f, text, stop);
		text = stop;
	}
	return why;
}

int key_file_parse(const char *text, size_t len, const char *path,
		   struct key_file *ret, struct error *e)
{
	struct key_file f = { .key = secret_map(KEY_FILE_BYTES) };
	unsigned int line = 0;
	const char *why;

	if (!HAVE_NETTLE) {
		key_file_free(&f);
		return error_set(e, -ENOSYS, "keys '%s': built without nettle",
				 path);
	}
	if (!f.key)
		return error_set(e, -ENOMEM, "keys '%s': out of memory", path);
	why = key_take_lines(&f, text, len, &line);
	if (!why) {
		*ret = f;
		return 0;
	}
	key_file_free(&f);
	return error_set(e, -EINVAL, "keys '%s': line %u: %s", path, line, why);
}

/* ---- files ---- */

static int key_file_refuse(struct error *e, const char *path, int err,
			   const char *why)
{
	return error_set(e, err, "keys '%s': %s", path, why);
}

/* Before anything of it is read: a file that others know is not to be used. */
static int key_file_check(int fd, const char *path, struct error *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return key_file_refuse(e, path, -errno, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return key_file_refuse(e, path, -EINVAL, "not a regular file");
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return key_file_refuse(e, path, -EACCES,
				       "others than its owner may use it; try "
				       "chmod 600, and make new keys");
	if (st.st_uid && st.st_uid != geteuid())
		return key_file_refuse(e, path, -EACCES,
				       "it belongs neither to root nor to the "
				       "user of this process; try chown");
	if (st.st_size > KEY_FILE_MAX)
		return key_file_refuse(e, path, -EINVAL, "longer than 64 KiB");
	return 0;
}

int key_file_read_fd(int fd, const char *path, struct key_file *ret,
		     struct error *e)
{
	int err = key_file_check(fd, path, e);
	char *text = err ? NULL : secret_map(KEY_FILE_MAX);
	size_t len = 0;
	ssize_t n = 1;

	if (err)
		return err;
	if (!text)
		return key_file_refuse(e, path, -ENOMEM, "out of memory");
	while (len < KEY_FILE_MAX && n > 0) {
		n = pread(fd, text + len, KEY_FILE_MAX - len, (off_t)len);
		len += n > 0 ? (size_t)n : 0;
	}
	err = n < 0 ? key_file_refuse(e, path, -errno, strerror(errno))
		    : key_file_parse(text, len, path, ret, e);
	secret_unmap(text, KEY_FILE_MAX);
	return err;
}

int key_file_read(const char *path, struct key_file *ret, struct error *e)
{
	/* A FIFO must not hold it up. */
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return key_file_refuse(e, path, -errno, strerror(errno));
	return key_file_read_fd(fd, path, ret, e);
}

void key_file_free(struct key_file *f)
{
	secret_unmap(f->key, KEY_FILE_BYTES);
	*f = (struct key_file){ 0 };
}

/* ---- use ---- */

const struct key *key_file_find(const struct key_file *f, const char *name,
				unsigned int nth)
{
	for (unsigned int i = 0; i < f->cnt; i++) {
		if (!strcmp(f->key[i].name, name) && nth-- == 0)
			return &f->key[i];
	}
	return NULL;
}

int key_file_derive(const struct key_file *f, const char *purpose,
		    struct key_file *ret)
{
	struct key_file to = { .key = secret_map(KEY_FILE_BYTES),
			       .cnt = f->cnt };

	if (!to.key)
		return -ENOMEM;
	for (unsigned int i = 0; i < f->cnt; i++) {
		struct hmac_key from = key_hmac(&f->key[i]);

		to.key[i] = f->key[i];
		hmac_code(&from, purpose, strlen(purpose), to.key[i].bytes);
		memset(to.key[i].bytes + HMAC_LEN, 0, KEY_LEN_MAX - HMAC_LEN);
		to.key[i].len = HMAC_LEN;
	}
	*ret = to;
	return 0;
}
