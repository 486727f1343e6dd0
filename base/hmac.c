/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hmac.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/secret.h"
#include "config.h"

#if HAVE_NETTLE
#include <nettle/hmac.h>
#include <nettle/memops.h>

static int key_refuse(struct error *e, const char *path, int err,
		      const char *why)
{
	return error_set(e, err, "key '%s': %s", path, why);
}

/* Of the open file @fd, to @bytes. */
static int key_read_fd(int fd, const char *path, char bytes[HMAC_KEY_MAX],
		       size_t *ret_len, struct error *e)
{
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st))
		return key_refuse(e, path, -errno, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return key_refuse(e, path, -EINVAL, "not a regular file");
	len = read(fd, bytes, HMAC_KEY_MAX);
	if (len < 0)
		return key_refuse(e, path, -errno, strerror(errno));
	if (st.st_mode & S_IRWXO)
		return key_refuse(e, path, -EACCES,
				  "everybody can read it; try chmod 600");
	while (len && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
		len--;
	*ret_len = (size_t)len;
	if (len < HMAC_KEY_MIN || st.st_size > HMAC_KEY_MAX)
		return key_refuse(e, path, -EINVAL,
				  "a key has 16 to 256 bytes; try openssl rand "
				  "-hex 32");
	return 0;
}

int hmac_key_read(const char *path, struct hmac_key *ret, struct error *e)
{
	/* A FIFO must not hold it up. */
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *bytes;
	size_t len = 0;
	int err;

	if (fd < 0)
		return key_refuse(e, path, -errno, strerror(errno));
	bytes = secret_map(HMAC_KEY_MAX);
	if (!bytes)
		return key_refuse(e, path, -ENOMEM, "out of memory");
	err = key_read_fd(fd, path, bytes, &len, e);
	if (err)
		secret_unmap(bytes, HMAC_KEY_MAX);
	else
		*ret = (struct hmac_key){ .bytes = bytes, .len = len };
	return err;
}

void hmac_code(void *key, const void *data, size_t len, uint8_t *ret_code)
{
	const struct hmac_key *k = key;
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, k->len, (const uint8_t *)k->bytes);
	hmac_sha256_update(&ctx, len, data);
	hmac_sha256_digest(&ctx, HMAC_LEN, ret_code);
	/* As good as the key. */
	explicit_bzero(&ctx, sizeof(ctx));
}

bool hmac_check(const struct hmac_key *key, const void *data, size_t len,
		const uint8_t *code)
{
	uint8_t right[HMAC_LEN];

	hmac_code((void *)key, data, len, right);
	return memeql_sec(right, code, HMAC_LEN);
}

#else

int hmac_key_read(const char *path, struct hmac_key *ret, struct error *e)
{
	return error_set(e, -ENOSYS, "key '%s': built without nettle", path);
}

void hmac_code(void *key, const void *data, size_t len, uint8_t *ret_code)
{
	memset(ret_code, 0, HMAC_LEN);
}

bool hmac_check(const struct hmac_key *key, const void *data, size_t len,
		const uint8_t *code)
{
	return false;
}
#endif

void hmac_key_free(struct hmac_key *key)
{
	secret_unmap((char *)key->bytes, HMAC_KEY_MAX);
	*key = (struct hmac_key){ 0 };
}
