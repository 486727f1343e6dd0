/* SPDX-License-Identifier: BSD-2-Clause */
#include "notes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RBDP_KEY_VERSION "rdma_block.notes.version"
#define RBDP_KEY_DATA	 "rdma_block.notes"

static const char *const rbdp_note_keys[] = { RBDP_KEY_VERSION, RBDP_KEY_DATA };
static const size_t rbdp_note_key_lens[] = { sizeof(RBDP_KEY_VERSION) - 1,
					     sizeof(RBDP_KEY_DATA) - 1 };

/* ---- reading ---- */

static bool rbdp_notes_parse_version(const char *val, size_t len, uint64_t *ret)
{
	char text[24];
	char *end;

	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, val, len);
	text[len] = '\0';
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && !*end && *ret;
}

static int rbdp_notes_take(const char *key, size_t key_len, const char *val,
			   size_t val_len, struct rbdp_notes *ret)
{
	if (key_len == rbdp_note_key_lens[0])
		return rbdp_notes_parse_version(val, val_len, &ret->version)
			       ? 0
			       : -EBADMSG;
	if (val_len > sizeof(ret->data))
		return -EBADMSG;
	memcpy(ret->data, val, val_len);
	ret->len = val_len;
	return 0;
}

static int rbdp_notes_take_all(rados_omap_iter_t it, struct rbdp_notes *ret)
{
	size_t key_len, val_len;
	char *key, *val;
	int err;

	do {
		err = rados_omap_get_next2(it, &key, &val, &key_len, &val_len);
		if (!err && key)
			err = rbdp_notes_take(key, key_len, val, val_len, ret);
	} while (!err && key);
	return err;
}

/* Reads the first @cnt of the keys. */
static int rbdp_notes_read_keys(rados_ioctx_t pool, const char *object,
				size_t cnt, struct rbdp_notes *ret)
{
	rados_read_op_t op = rados_create_read_op();
	rados_omap_iter_t it = NULL;
	int res = 0;
	int err;

	ret->version = 0;
	ret->len = 0;
	if (!op)
		return -ENOMEM;
	rados_read_op_omap_get_vals_by_keys2(op, rbdp_note_keys, cnt,
					     rbdp_note_key_lens, &it, &res);
	err = rados_read_op_operate(op, pool, object, 0);
	if (!err)
		err = res;
	if (!err)
		err = rbdp_notes_take_all(it, ret);
	if (it)
		rados_omap_get_end(it);
	rados_release_read_op(op);
	return err < 0 ? err : 0;
}

int rbdp_notes_read(rados_ioctx_t pool, const char *object,
		    struct rbdp_notes *ret)
{
	return rbdp_notes_read_keys(pool, object, 2, ret);
}

int rbdp_notes_read_version(rados_ioctx_t pool, const char *object,
			    uint64_t *ret)
{
	struct rbdp_notes notes;
	int err = rbdp_notes_read_keys(pool, object, 1, &notes);

	if (!err)
		*ret = notes.version;
	return err;
}

/* ---- putting ---- */

/* Returns the length; 0 for version 0, which has no key yet. */
static size_t rbdp_notes_format_version(uint64_t version, char *buf, size_t len)
{
	return version ? (size_t)snprintf(buf, len, "%" PRIu64, version) : 0;
}

int rbdp_notes_put(rados_ioctx_t pool, const char *object, uint64_t version,
		   const void *data, size_t len)
{
	rados_write_op_t op = rados_create_write_op();
	char was[24] = "", is[24];
	size_t was_len = rbdp_notes_format_version(version, was, sizeof(was));
	size_t is_len = rbdp_notes_format_version(version + 1, is, sizeof(is));
	const char *const vals[] = { is, data };
	const size_t val_lens[] = { is_len, len };
	int res = 0;
	int err;

	if (!op)
		return -ENOMEM;
	rados_write_op_assert_exists(op);
	rados_write_op_omap_cmp2(op, RBDP_KEY_VERSION, LIBRADOS_CMPXATTR_OP_EQ,
				 was, rbdp_note_key_lens[0], was_len, &res);
	rados_write_op_omap_set2(op, rbdp_note_keys, vals, rbdp_note_key_lens,
				 val_lens, 2);
	err = rados_write_op_operate2(op, pool, object, NULL, 0);
	rados_release_write_op(op);
	return err == -ECANCELED ? -ESTALE : err;
}

/* ---- news ---- */

size_t rbdp_news_encode(const struct rbdp_news *news, uint8_t *buf)
{
	buf[0] = (uint8_t)('0' + news->group);
	buf[1] = news->is_active ? 'a' : 's';
	for (int i = 0; i < 8; i++)
		buf[2 + i] = (uint8_t)(news->version >> (56 - 8 * i));
	memcpy(buf + RBDP_NEWS_HEADER_LEN, news->data, news->len);
	return RBDP_NEWS_HEADER_LEN + news->len;
}

bool rbdp_news_decode(const void *buf, size_t len, struct rbdp_news *ret)
{
	const uint8_t *b = buf;

	if (len < RBDP_NEWS_HEADER_LEN || len > RBDP_NEWS_MAX || b[0] < '1' ||
	    b[0] > '9' || (b[1] != 'a' && b[1] != 's'))
		return false;
	ret->group = b[0] - '0';
	ret->is_active = b[1] == 'a';
	ret->version = 0;
	for (int i = 0; i < 8; i++)
		ret->version = ret->version << 8 | b[2 + i];
	ret->data = b + RBDP_NEWS_HEADER_LEN;
	ret->len = len - RBDP_NEWS_HEADER_LEN;
	return true;
}
