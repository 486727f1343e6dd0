/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/key.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/key_file.h"
#include "base/secret.h"

static int key_refuse(struct error *e, const char *description, int err)
{
	bool is_none =
		err == -ENOKEY || err == -EKEYEXPIRED || err == -EKEYREVOKED;

	return error_set(
		e, err, "keyring: '%s': %s%s", description, strerror(-err),
		is_none ? "; try keyctl padd user NAME @u < FILE" : "");
}

/* Without the programs of request-key.conf: @callout is NULL. */
static int key_read_kernel(const char *description, struct key_file *ret,
			   struct error *e)
{
	long id = syscall(SYS_request_key, "user", description,
			  /* callout= */ NULL, 0);
	int err = id < 0 ? -errno : 0;
	char *text = err ? NULL : secret_map(KEY_FILE_MAX);
	long len = -1;

	if (err)
		return key_refuse(e, description, err);
	if (!text)
		return key_refuse(e, description, -ENOMEM);
	len = syscall(SYS_keyctl, KEYCTL_READ, id, text, KEY_FILE_MAX);
	if (len < 0)
		err = key_refuse(e, description, -errno);
	else if (len > (long)KEY_FILE_MAX)
		err = key_refuse(e, description, -EFBIG);
	else
		err = key_file_parse(text, (size_t)len, description, ret, e);
	secret_unmap(text, KEY_FILE_MAX);
	return err;
}

static int key_take_first(const struct key_file *f, const char *where,
			  struct xp_key **ret, struct error *e)
{
	const struct key *from = &f->key[0];
	struct xp_key *key;

	if (!f->cnt)
		return error_set(e, -ENOKEY, "keys '%s': no key is in it",
				 where);
	key = secret_map(sizeof(*key));
	if (!key)
		return error_set(e, -ENOMEM, "out of memory");
	strcpy(key->name, from->name);
	memcpy(key->secret, from->bytes, from->len);
	key->len = from->len;
	*ret = key;
	return 0;
}

int ini_key_read(const char *where, struct xp_key **ret, struct error *e)
{
	size_t len = strlen(INI_KEYRING);
	struct key_file f = { 0 };
	int err = strncmp(where, INI_KEYRING, len) == 0
			  ? key_read_kernel(where + len, &f, e)
			  : key_file_read(where, &f, e);

	if (err)
		return err;
	err = key_take_first(&f, where, ret, e);
	key_file_free(&f);
	return err;
}

void ini_key_free(struct xp_key *key)
{
	secret_unmap(key, sizeof(*key));
}
