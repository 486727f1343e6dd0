/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/discovery.h"

#include <errno.h>
#include <string.h>

#define HEADER_LEN sizeof(struct discovery_wire)

static bool is_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	}
	return true;
}

bool discovery_add_uri(struct discovery_msg *msg, const char *uri)
{
	size_t len = strlen(uri);

	if (msg->uri_cnt == DISCOVERY_URIS_MAX || len >= DISCOVERY_URI_SIZE ||
	    !len || !is_text(uri, len))
		return false;
	memcpy(msg->uris[msg->uri_cnt++], uri, len + 1);
	return true;
}

void discovery_set_instance(struct discovery_msg *msg, const char *text)
{
	size_t len = 0;

	for (; *text && len < DISCOVERY_INSTANCE_SIZE - 1; text++) {
		if (is_text(text, 1))
			msg->instance[len++] = *text;
	}
	msg->instance[len] = '\0';
}

/* ---- write ---- */

/* A place in the message that is written; the end is where URIs must end. */
struct writer {
	uint8_t *at;
	const uint8_t *end;
};

static void discovery_put_header(uint8_t *buf, const struct discovery_msg *msg,
				 bool has_code)
{
	struct discovery_wire *wire = (void *)buf;

	*wire = (struct discovery_wire){
		.magic = be32(DISCOVERY_MAGIC),
		.version = DISCOVERY_VERSION,
		.kind = (uint8_t)msg->kind,
		.flags = has_code ? DISCOVERY_FLAG_CODE : 0,
		.nonce = be64(msg->nonce),
		.target = msg->id,
		.instance_len = (uint8_t)strlen(msg->instance),
	};
}

static bool put_uri(struct writer *w, const char *uri)
{
	size_t len = strlen(uri);

	if ((size_t)(w->end - w->at) < 2 + len)
		return false;
	wire_put16(w->at, (uint16_t)len);
	memcpy(w->at + 2, uri, len);
	w->at += 2 + len;
	return true;
}

int discovery_encode(uint8_t *buf, size_t min_len, size_t max_len,
		     const struct discovery_msg *msg,
		     void (*code)(void *user, const void *data, size_t len,
				  uint8_t *ret_code),
		     void *user)
{
	size_t code_len = code ? DISCOVERY_CODE_LEN : 0;
	size_t instance_len = strlen(msg->instance);
	struct discovery_wire *wire = (void *)buf;
	struct writer w;
	size_t len;

	if (max_len > DISCOVERY_MSG_MAX)
		max_len = DISCOVERY_MSG_MAX;
	if (max_len < HEADER_LEN + instance_len + code_len)
		return -ENOSPC;
	memset(buf, 0, max_len);
	discovery_put_header(buf, msg, code);
	memcpy(buf + HEADER_LEN, msg->instance, instance_len);
	w.at = buf + HEADER_LEN + instance_len;
	w.end = buf + max_len - code_len;
	for (unsigned int i = 0; i < msg->uri_cnt; i++)
		wire->uri_cnt += put_uri(&w, msg->uris[i]);
	len = (size_t)(w.at - buf);
	if (len + code_len < min_len && min_len <= max_len)
		len = min_len - code_len;
	if (code)
		code(user, buf, len, buf + len);
	return (int)(len + code_len);
}

/* ---- read ---- */

struct message {
	const uint8_t *at;
	const uint8_t *end;
};

/* Takes a text of @len bytes. False: it is not all there, or is not a text. */
static bool discovery_take_text(struct message *m, size_t len, char *ret,
				size_t size)
{
	if (len >= size || (size_t)(m->end - m->at) < len ||
	    !is_text((const char *)m->at, len))
		return false;
	memcpy(ret, m->at, len);
	ret[len] = '\0';
	m->at += len;
	return true;
}

static bool take_uri(struct message *m, struct discovery_msg *msg)
{
	size_t len;

	if (m->end - m->at < 2)
		return false;
	len = wire_get16(m->at);
	m->at += 2;
	return len && discovery_take_text(m, len, msg->uris[msg->uri_cnt++],
					  DISCOVERY_URI_SIZE);
}

static bool take_uris(struct message *m, unsigned int cnt,
		      struct discovery_msg *msg)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (!take_uri(m, msg))
			return false;
	}
	return true;
}

static bool is_ours(const struct discovery_wire *wire)
{
	return be32_get(wire->magic) == DISCOVERY_MAGIC &&
	       wire->version == DISCOVERY_VERSION &&
	       wire->kind >= DISCOVERY_QUERY && wire->kind <= DISCOVERY_BYE &&
	       wire->uri_cnt <= DISCOVERY_URIS_MAX;
}

int discovery_decode(const void *data, size_t len, struct discovery_msg *ret,
		     size_t *ret_signed)
{
	const struct discovery_wire *wire = data;
	const uint8_t *p = data;
	struct message m = { .at = p + HEADER_LEN, .end = p + len };
	struct discovery_msg msg = { .uri_cnt = 0 };
	size_t code_len;

	if (len < HEADER_LEN || len > DISCOVERY_MSG_MAX || !is_ours(wire))
		return -EPROTO;
	code_len = wire->flags & DISCOVERY_FLAG_CODE ? DISCOVERY_CODE_LEN : 0;
	if (len < HEADER_LEN + code_len)
		return -EPROTO;
	m.end -= code_len;
	msg.kind = wire->kind;
	msg.nonce = be64_get(wire->nonce);
	msg.id = wire->target;
	if (!discovery_take_text(&m, wire->instance_len, msg.instance,
				 DISCOVERY_INSTANCE_SIZE) ||
	    !take_uris(&m, wire->uri_cnt, &msg))
		return -EPROTO;
	*ret = msg;
	*ret_signed = code_len ? len - code_len : 0;
	return 0;
}
