/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts that users write: addresses, sizes and keys. */
#include <errno.h>

#include "base/key_file.h"
#include "base/size.h"
#include "transport/uri.h"
#include "tests/fuzz/fuzz.h"

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static void check_same_route(const struct xp_route *a, const struct xp_route *b)
{
	FUZZ_CLAIM(is_terminated(a->source, sizeof(a->source)) &&
		   !strcmp(a->source, b->source));
	FUZZ_CLAIM(a->has_gid == b->has_gid &&
		   !memcmp(a->gid, b->gid, sizeof(a->gid)));
	FUZZ_CLAIM(xp_route_same(a, b));
	FUZZ_CLAIM(a->sl < 16);
}

static void check_same(const struct xp_uri *a, const struct xp_uri *b)
{
	FUZZ_CLAIM(a->forced == b->forced && a->kind == b->kind &&
		   a->port == b->port);
	FUZZ_CLAIM(!strcmp(a->host, b->host) && !strcmp(a->volume, b->volume));
	FUZZ_CLAIM(a->tls == b->tls && !strcmp(a->key, b->key));
	FUZZ_CLAIM(a->more_cnt == b->more_cnt);
	for (unsigned int i = 0; i < a->more_cnt; i++)
		FUZZ_CLAIM(!strcmp(a->more[i].host, b->more[i].host) &&
			   a->more[i].port == b->more[i].port);
	FUZZ_CLAIM(a->has_target == b->has_target &&
		   a->has_initiator == b->has_initiator);
	FUZZ_CLAIM(srp_port_id_equal(&a->target, &b->target));
	FUZZ_CLAIM(srp_port_id_equal(&a->initiator, &b->initiator));
	check_same_route(&a->route, &b->route);
}

static void uri(const char *text)
{
	char again_text[XP_URI_TEXT_SIZE];
	struct error e;
	struct xp_uri uri, again;
	int len;

	FUZZ_FILL(uri);
	memset(&e, 'x', sizeof(e));
	if (xp_uri_parse(text, &uri, &e)) {
		FUZZ_UNTOUCHED(uri);
		FUZZ_CLAIM(is_terminated(e.text, sizeof(e.text)) && *e.text);
		return;
	}
	FUZZ_CLAIM(is_terminated(uri.host, sizeof(uri.host)) && *uri.host);
	FUZZ_CLAIM(uri.more_cnt < XP_URI_ADDRESSES_MAX);
	FUZZ_CLAIM(is_terminated(uri.volume, sizeof(uri.volume)));
	FUZZ_CLAIM(is_terminated(uri.key, sizeof(uri.key)));
	len = xp_uri_format(&uri, again_text, sizeof(again_text));
	FUZZ_CLAIM(len > 0 && strlen(again_text) == (size_t)len);
	FUZZ_CLAIM(xp_uri_format(&uri, again_text, (size_t)len) == -ENOSPC);
	xp_uri_format(&uri, again_text, sizeof(again_text));
	FUZZ_CLAIM(!xp_uri_parse(again_text, &again, &e));
	check_same(&uri, &again);
}

static void size(const char *text)
{
	char buf[SIZE_TEXT_SIZE];
	char digits[SIZE_TEXT_SIZE];
	uint64_t v, again;

	FUZZ_FILL(v);
	if (size_parse(text, &v)) {
		FUZZ_UNTOUCHED(v);
		return;
	}
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
	FUZZ_CLAIM(!size_parse(digits, &again) && again == v);
	FUZZ_CLAIM(*size_format(v, buf));
}

static void check_key(const struct key_file *f, unsigned int i)
{
	const struct key *key = &f->key[i];

	FUZZ_CLAIM(is_terminated(key->name, sizeof(key->name)));
	FUZZ_CLAIM(key_name_is_good(key->name, strlen(key->name)));
	FUZZ_CLAIM(key->len >= KEY_LEN_MIN && key->len <= KEY_LEN_MAX);
	FUZZ_CLAIM(strlen(key->print) == KEY_PRINT_SIZE - 1);
	FUZZ_CLAIM(key_file_find(f, key->name, 0) == key ||
		   key_file_find(f, key->name, 1) == key);
}

static void keys(const char *text)
{
	struct key_file f;
	struct error e;

	FUZZ_FILL(f);
	memset(&e, 'x', sizeof(e));
	if (key_file_parse(text, strlen(text), "k", &f, &e)) {
		FUZZ_UNTOUCHED(f);
		FUZZ_CLAIM(is_terminated(e.text, sizeof(e.text)) && *e.text);
		return;
	}
	FUZZ_CLAIM(f.cnt <= KEYS_MAX);
	for (unsigned int i = 0; i < f.cnt; i++)
		check_key(&f, i);
	key_file_find(&f, text, 0);
	key_file_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_input in = fuzz_input(data, len);
	uint8_t kind = fuzz_u8(&in);
	char *text = fuzz_text(&in);

	if (kind == 's')
		size(text);
	else if (kind == 'k')
		keys(text);
	else
		uri(text);
	free(text);
	return 0;
}
