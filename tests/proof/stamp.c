/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/proof/stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* run:8 lane:8 seq:32 index of the word:16, masked by the block number. */
struct word {
	uint8_t run;
	uint64_t value;
	uint16_t index;
};

/* splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators"). Words of neighbour blocks have nothing in common. */
static uint64_t mask_of(uint64_t block)
{
	uint64_t z = block + 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t word_make(const struct word *w, uint64_t block)
{
	uint64_t plain = (uint64_t)w->run << 56 | w->value << 16 | w->index;

	return plain ^ mask_of(block);
}

static struct word word_parse(uint64_t raw, uint64_t block)
{
	uint64_t plain = raw ^ mask_of(block);

	return (struct word){ .run = (uint8_t)(plain >> 56),
			      .value = plain << 8 >> 24,
			      .index = (uint16_t)plain };
}

static uint64_t word_at(const void *buf, size_t i)
{
	uint64_t raw;

	memcpy(&raw, (const uint8_t *)buf + i * sizeof(raw), sizeof(raw));
	return raw;
}

void stamp_write(void *buf, size_t len, uint8_t run, uint64_t block,
		 uint64_t value)
{
	struct word w = { .run = run, .value = value };

	for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
		uint64_t raw;

		w.index = (uint16_t)i;
		raw = word_make(&w, block);
		memcpy((uint8_t *)buf + i * sizeof(raw), &raw, sizeof(raw));
	}
}

/* A word of zeroes belongs to a block of zeroes. */
static bool belongs(uint64_t raw, size_t i, uint8_t run, uint64_t block)
{
	struct word w = word_parse(raw, block);

	return raw == 0 || (w.run == run && w.index == i);
}

static uint64_t value_of(uint64_t raw, uint64_t block)
{
	return raw == 0 ? STAMP_ZERO : word_parse(raw, block).value;
}

static const char *value_text(uint64_t value, char *buf, size_t len)
{
	if (value == STAMP_ZERO)
		snprintf(buf, len, "zeroes");
	else
		snprintf(buf, len, "write %u of lane %u", stamp_seq(value),
			 stamp_lane(value));
	return buf;
}

static enum stamp_kind tell_mixed(const void *buf, size_t i, uint64_t block,
				  char *msg, size_t msg_len)
{
	char was[64];
	char is[64];

	snprintf(msg, msg_len, "is torn: %s up to byte %zu, then %s",
		 value_text(value_of(word_at(buf, 0), block), was, sizeof(was)),
		 i * sizeof(uint64_t),
		 value_text(value_of(word_at(buf, i), block), is, sizeof(is)));
	return STAMP_MIXED;
}

/* Checks whether the data was written to another block. */
static enum stamp_kind tell_alien(const void *buf, size_t i, uint8_t run,
				  uint64_t block, char *msg, size_t msg_len)
{
	for (uint64_t b = 0; b < 1 << 16; b++) {
		uint64_t raw = word_at(buf, i);
		char text[64];

		if (b == block || raw == 0 || !belongs(raw, i, run, b))
			continue;
		snprintf(msg, msg_len,
			 "has %s at byte %zu, made for block %" PRIu64,
			 value_text(value_of(raw, b), text, sizeof(text)),
			 i * sizeof(raw), b);
		return STAMP_ALIEN;
	}
	snprintf(msg, msg_len,
		 "has %#018" PRIx64 " at byte %zu, which nobody has written",
		 word_at(buf, i), i * sizeof(uint64_t));
	return STAMP_ALIEN;
}

enum stamp_kind stamp_read(const void *buf, size_t len, uint8_t run,
			   uint64_t block, uint64_t *ret_value, char *msg,
			   size_t msg_len)
{
	uint64_t value = value_of(word_at(buf, 0), block);
	size_t other = 0; /* first word whose value differs from the first */

	for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
		uint64_t raw = word_at(buf, i);

		if (!belongs(raw, i, run, block))
			return tell_alien(buf, i, run, block, msg, msg_len);
		if (!other && value_of(raw, block) != value)
			other = i;
	}
	if (other)
		return tell_mixed(buf, other, block, msg, msg_len);
	*ret_value = value;
	return STAMP_WHOLE;
}
