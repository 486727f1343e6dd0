/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of names, in a file. With its key, the holder of a name proves that it is this name
 * (TLS, discovery). A line for each key; the first key of a name is the newest one:
 *
 *	# comment
 *	NAME KEY [ro]
 *
 * NAME has letters, digits, "-", "_" and ".", and begins with a letter or a digit. KEY has 32 to
 * 64 bytes, in hexadecimal digits or base64 (RFC 4648, section 4). A name has at most two
 * keys, while one replaces the other on all hosts. ro: whoever has the key may only read.
 *
 * Only the owner may read the file: root or the user of the process. The keys are in
 * memory that core dumps leave out (secret.h). In builds without nettle, no file can be
 * read.
 *
 * Thread: any.
 */
#ifndef BASE_KEY_FILE_H
#define BASE_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hmac.h"

#define KEY_NAME_SIZE  64 /* with the final zero */
#define KEY_LEN_MIN    32 /* bytes */
#define KEY_LEN_MAX    64
#define KEYS_MAX       256 /* of a file */
#define KEYS_PER_NAME  2
#define KEY_FILE_MAX   (64u << 10) /* bytes */
#define KEY_PRINT_SIZE 9 /* 8 hexadecimal digits, and the final zero */

struct key {
	char name[KEY_NAME_SIZE];
	/* 32 bits of a code under the key: tells two keys of one name apart. */
	char print[KEY_PRINT_SIZE];
	bool read_only;
	size_t len;
	uint8_t bytes[KEY_LEN_MAX];
};

struct key_file {
	struct key *key; /* secret.h, KEYS_MAX of them; NULL: not read */
	unsigned int cnt;
};

/* Reads the file @path. 0, or -errno with one clause in @e, which names the file and the
 * line, and nothing of a key. */
int key_file_read(const char *path, struct key_file *ret, struct error *e);

/* The same of an open file. @path is for texts. */
int key_file_read_fd(int fd, const char *path, struct key_file *ret,
		     struct error *e);

/* The same of @len bytes at @text. */
int key_file_parse(const char *text, size_t len, const char *path,
		   struct key_file *ret, struct error *e);

/* Does nothing to one that is all zero. */
void key_file_free(struct key_file *f);

/* The key number @nth of @name, 0 is the newest. NULL: it has no more. */
const struct key *key_file_find(const struct key_file *f, const char *name,
				unsigned int nth);

/* Writes 32 bits of a code under the @len bytes of a key, as struct key has them. */
void key_print(const void *bytes, size_t len, char ret[KEY_PRINT_SIZE]);

bool key_name_is_good(const char *name, size_t len);

/* Reads a KEY of @len characters, without spaces. False: it is none, and @ret may have
 * been written. */
bool key_parse_bytes(const char *text, size_t len, struct key *ret);

/*
 * Makes of each key of @f one for a single purpose, in the same order, so that no two uses
 * have one key. 0, or -ENOMEM.
 */
int key_file_derive(const struct key_file *f, const char *purpose,
		    struct key_file *ret);

/* Borrows the bytes of @key. */
static inline struct hmac_key key_hmac(const struct key *key)
{
	return (struct hmac_key){ .bytes = (const char *)key->bytes,
				  .len = key->len };
}

/* The purpose of keys for protocol/discovery.h. */
#define KEY_OF_DISCOVERY "rdma-block discovery"

#endif
