/* SPDX-License-Identifier: BSD-2-Clause */
/* The notes of an RBD image, and the messages about them. tests/lib/t_ceph.h plays
 * the cluster. */
#include "plugins/rbd/notes.h"

#include "tests/lib/t_ceph.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <string.h>

#define VERSION "rdma_block.notes.version"
#define DATA	"rdma_block.notes"

struct notes_row {
	const char *name;
	struct t_ceph_pair pairs[2];
	const char *failing;
	int res;
	uint64_t version;
	const char *data;
};

static char large[RBP_NOTES_MAX + 1];

static const struct notes_row notes_rows[] = {
	{ "none", { { 0 } }, NULL, 0, 0, "" },
	{ "notes",
	  { { DATA, "text", 0 }, { VERSION, "12", 0 } },
	  NULL,
	  0,
	  12,
	  "text" },
	{ "the highest version",
	  { { VERSION, "18446744073709551615", 0 } },
	  NULL,
	  0,
	  UINT64_MAX,
	  "" },
	{ "a version that is too high",
	  { { VERSION, "18446744073709551616", 0 } },
	  NULL,
	  -EBADMSG,
	  0,
	  NULL },
	{ "version 0", { { VERSION, "0", 0 } }, NULL, -EBADMSG, 0, NULL },
	{ "a version that is no number",
	  { { VERSION, "12x", 0 } },
	  NULL,
	  -EBADMSG,
	  0,
	  NULL },
	{ "a version that is too long",
	  { { VERSION, "000000000000000000000012", 0 } },
	  NULL,
	  -EBADMSG,
	  0,
	  NULL },
	{ "as many bytes as fit",
	  { { DATA, large, RBP_NOTES_MAX }, { VERSION, "1", 0 } },
	  NULL,
	  0,
	  1,
	  NULL },
	{ "more bytes than fit",
	  { { DATA, large, RBP_NOTES_MAX + 1 }, { VERSION, "1", 0 } },
	  NULL,
	  -EBADMSG,
	  0,
	  NULL },
	{ "no answer", { { 0 } }, "rados_read_op_operate", -ETIMEDOUT, 0, NULL },
	{ "no map of keys",
	  { { 0 } },
	  "rados_read_op_omap_get_vals_by_keys2",
	  -ETIMEDOUT,
	  0,
	  NULL },
};

T_ROWS(read_notes, notes_rows)
{
	const struct notes_row *row = *state;
	static struct rbdp_notes notes;
	uint64_t version = 99;

	t_ceph_begin();
	memcpy(t_ceph.pairs, row->pairs, sizeof(row->pairs));
	t_ceph.failing = row->failing;
	t_ceph.err = -ETIMEDOUT;
	assert_int_equal(rbdp_notes_read(NULL, "header", &notes), row->res);
	assert_string_equal(t_ceph.log, "get 2\nheader\n");
	assert_int_equal(t_ceph.opened, 0);
	if (row->res)
		return;
	assert_true(notes.version == row->version);
	if (row->data) {
		assert_int_equal(notes.len, strlen(row->data));
		assert_memory_equal(notes.data, row->data, notes.len);
	}
	assert_int_equal(rbdp_notes_read_version(NULL, "header", &version), 0);
	assert_true(version == row->version);
}

/* A write of the first version expects that there is none. */
T_TEST(put_notes)
{
	t_ceph_begin();
	assert_int_equal(rbdp_notes_put(NULL, "header", 0, "one", 3), 0);
	assert_string_equal(t_ceph.log, "exists\n" VERSION " == ''\n" VERSION
					" = '1'\n" DATA " = 'one'\n");
	t_ceph.log[0] = '\0';
	assert_int_equal(rbdp_notes_put(NULL, "header", 9, "ten", 3), 0);
	assert_string_equal(t_ceph.log, "exists\n" VERSION " == '9'\n" VERSION
					" = '10'\n" DATA " = 'ten'\n");
	t_ceph.failing = "rados_write_op_operate2";
	t_ceph.err = -ECANCELED;
	assert_int_equal(rbdp_notes_put(NULL, "header", 9, "ten", 3), -ESTALE);
	t_ceph.err = -EIO;
	assert_int_equal(rbdp_notes_put(NULL, "header", 9, "ten", 3), -EIO);
	assert_int_equal(t_ceph.opened, 0);
}

/* ---- news ---- */

static const struct news_row {
	const char *name;
	const char *bytes;
	size_t len;
	bool is_good;
} news_rows[] = {
	{ "news without data", "3a\0\0\0\0\0\0\1\2", 10, true },
	{ "news with data", "9s\0\0\0\0\0\0\1\2xyz", 13, true },
	{ "the most data", NULL, RBDP_NEWS_MAX, true },
	{ "more data than fits", NULL, RBDP_NEWS_MAX + 1, false },
	{ "no whole header", "3a\0\0\0\0\0\0\1", 9, false },
	{ "nothing", "", 0, false },
	{ "gateway 0", "0a\0\0\0\0\0\0\1\2", 10, false },
	{ "a gateway that is no digit", ":a\0\0\0\0\0\0\1\2", 10, false },
	{ "neither active nor standby", "3b\0\0\0\0\0\0\1\2", 10, false },
};

/* What is good is encoded to the same bytes. */
T_ROWS(news, news_rows)
{
	const struct news_row *row = *state;
	/* Not longer: ASan checks. */
	uint8_t *bytes = malloc(row->len ? row->len : 1);
	const char *from = row->bytes ? row->bytes : "1a\0\0\0\0\0\0\0\1";
	size_t from_len = row->bytes ? row->len : RBDP_NEWS_HEADER_LEN;
	static uint8_t again[RBDP_NEWS_MAX];
	struct rbdp_news n;

	memset(bytes, 'x', row->len);
	memcpy(bytes, from, from_len);
	assert_int_equal(rbdp_news_decode(bytes, row->len, &n), row->is_good);
	if (row->is_good) {
		assert_int_equal(rbdp_news_encode(&n, again), row->len);
		assert_memory_equal(again, bytes, row->len);
		assert_int_equal(n.group, bytes[0] - '0');
		assert_int_equal(n.version, row->bytes ? 258 : 1);
	}
	free(bytes);
}
