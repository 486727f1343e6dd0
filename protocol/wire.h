/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol/ says what the bytes mean. It decodes SRP information units and SCSI
 * commands into typed values, and encodes them. It does nothing else: no I/O,
 * no allocation, no logging, no global that changes. Any thread may call any of
 * its functions. A length that a peer chose is compared, never added to (see
 * wire_cursor).
 *
 * wire.h has types for big-endian fields, a cursor that checks bounds for
 * decoding, and its counterpart for encoding.
 */
#ifndef PROTOCOL_WIRE_H
#define PROTOCOL_WIRE_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Fields on the wire are byte arrays in a struct of their own. So code that
 * forgets to convert one does not compile, and no struct needs to be packed.
 */
struct wire_be16 {
	uint8_t b[2];
};

struct wire_be32 {
	uint8_t b[4];
};

struct wire_be64 {
	uint8_t b[8];
};

static inline uint16_t wire_get16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return be16toh(v);
}

static inline uint32_t wire_get24(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

static inline uint32_t wire_get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t wire_get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void wire_put16(void *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void wire_put24(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 16);
	b[1] = (uint8_t)(v >> 8);
	b[2] = (uint8_t)v;
}

static inline void wire_put32(void *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void wire_put64(void *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint16_t be16_get(struct wire_be16 f)
{
	return wire_get16(f.b);
}

static inline uint32_t be32_get(struct wire_be32 f)
{
	return wire_get32(f.b);
}

static inline uint64_t be64_get(struct wire_be64 f)
{
	return wire_get64(f.b);
}

static inline struct wire_be16 be16(uint16_t v)
{
	struct wire_be16 f;

	wire_put16(f.b, v);
	return f;
}

static inline struct wire_be32 be32(uint32_t v)
{
	struct wire_be32 f;

	wire_put32(f.b, v);
	return f;
}

static inline struct wire_be64 be64(uint64_t v)
{
	struct wire_be64 f;

	wire_put64(f.b, v);
	return f;
}

/* What is left of a received IU, parameter list or page. */
struct wire_cursor {
	const uint8_t *p;
	size_t left;
};

static inline struct wire_cursor wire_cursor(const void *p, size_t len)
{
	return (struct wire_cursor){ .p = p, .left = len };
}

/* Returns the next @n bytes, or NULL if fewer are left. */
static inline const void *wire_take(struct wire_cursor *c, size_t n)
{
	const void *p = c->p;

	if (n > c->left)
		return NULL;
	c->p += n;
	c->left -= n;
	return p;
}

/* A buffer of the caller. It keeps what fits and counts everything. */
struct wire_out {
	uint8_t *buf;
	size_t cap;
	size_t len; /* of all data given to it */
};

static inline struct wire_out wire_out(void *buf, size_t cap)
{
	return (struct wire_out){ .buf = buf, .cap = cap };
}

static inline void wire_give(struct wire_out *out, const void *data, size_t len)
{
	size_t room = out->len < out->cap ? out->cap - out->len : 0;

	if (room)
		memcpy(out->buf + out->len, data, len < room ? len : room);
	out->len += len;
}

#endif
