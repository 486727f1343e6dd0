/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/fault_rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/list.h"
#include "base/number.h"

#define RULE_TEXT_MAX 256

#define READ	 (1u << RBP_READ)
#define WRITE	 (1u << RBP_WRITE)
#define FLUSH	 (1u << RBP_FLUSH)
#define UNMAP	 (1u << RBP_UNMAP)
#define ZERO	 (1u << RBP_ZERO)
#define ANY_OP	 (READ | WRITE | FLUSH | UNMAP | ZERO | 1u << RBP_EXTENT)
#define WITH_LBA (ANY_OP & ~FLUSH)

struct parse {
	struct fault_rule *rule;
	struct error *e;
};

static bool fault_rule_refuse(const struct parse *p, const char *piece,
			      const char *why)
{
	return error_refuse(p->e, "'%s' %s", piece, why);
}

/* ---- operations ---- */

static const struct {
	const char *name;
	unsigned int ops;
} ops[] = {
	{ "read", READ },   { "write", WRITE }, { "flush", FLUSH },
	{ "unmap", UNMAP }, { "zero", ZERO },	{ "any", ANY_OP },
};

static bool set_op(const struct parse *p, const char *piece)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (strcmp(ops[i].name, piece) != 0)
			continue;
		p->rule->ops = ops[i].ops;
		return true;
	}
	return fault_rule_refuse(
		p, piece,
		"is not an operation; use read, write, flush, unmap, "
		"zero or any");
}

/* ---- kinds ---- */

static bool set_error(const struct parse *p, const char *value)
{
	static const struct {
		const char *name;
		int err;
	} errors[] = {
		{ "EIO", EIO },	      { "ENOSPC", ENOSPC },
		{ "ENOMEM", ENOMEM }, { "ENODEV", ENODEV },
		{ "EROFS", EROFS },
	};

	p->rule->err = -EIO;
	for (size_t i = 0; value && i < ARRAY_SIZE(errors); i++) {
		if (strcmp(errors[i].name, value) != 0)
			continue;
		p->rule->err = -errors[i].err;
		return true;
	}
	return !value ||
	       fault_rule_refuse(p, value,
				 "is not an error; use EIO, ENOSPC, ENOMEM, "
				 "ENODEV or EROFS");
}

static bool set_ms(const struct parse *p, const char *value)
{
	uint64_t ms;

	if (!value || !number_parse(value, 3600u * 1000, &ms))
		return fault_rule_refuse(
			p, value ? value : "",
			"is not a number of milliseconds (an hour at most)");
	p->rule->ms = (unsigned int)ms;
	return true;
}

static bool set_nothing(const struct parse *p, const char *value)
{
	return !value ||
	       fault_rule_refuse(p, value,
				 "is a value, and this fault has none");
}

static const struct {
	const char *name;
	enum fault_kind kind;
	unsigned int ops; /* operations that can have it */
	bool (*set)(const struct parse *p, const char *value);
} kinds[] = {
	{ "error", FAULT_ERROR, ANY_OP, set_error },
	{ "delay", FAULT_DELAY, ANY_OP, set_ms },
	{ "short", FAULT_SHORT, READ | WRITE | UNMAP | ZERO, set_nothing },
	{ "torn", FAULT_TORN, WRITE, set_nothing },
	{ "corrupt", FAULT_CORRUPT, READ | WRITE, set_nothing },
	{ "stuck", FAULT_STUCK, ANY_OP, set_nothing },
#if FAULT_INJECTION
	{ "lie", FAULT_LIE, FLUSH, set_nothing },
	{ "stale", FAULT_STALE, WRITE, set_ms },
#endif
};

static bool set_kind(const struct parse *p, char *piece)
{
	char *value = strchr(piece, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].name, piece) != 0)
			continue;
		p->rule->kind = kinds[i].kind;
		p->rule->ops &= kinds[i].ops;
		if (!p->rule->ops)
			return fault_rule_refuse(
				p, piece, "cannot happen to that operation");
		return kinds[i].set(p, value);
	}
	return fault_rule_refuse(
		p, piece,
		"is not a fault; use error, delay=MS, short, torn, "
		"corrupt or stuck");
}

/* ---- conditions ---- */

static bool set_lba(const struct parse *p, const char *value)
{
	char first[32];
	const char *dash = strchr(value, '-');
	const char *last = dash ? dash + 1 : value;

	snprintf(first, sizeof(first), "%.*s",
		 (int)(dash ? dash - value : (long)strlen(value)), value);
	if (!number_parse(first, UINT64_MAX, &p->rule->first_lba) ||
	    !number_parse(last, UINT64_MAX, &p->rule->last_lba) ||
	    p->rule->last_lba < p->rule->first_lba)
		return fault_rule_refuse(
			p, value,
			"is not a block or range of blocks (100-199)");
	p->rule->ops &= WITH_LBA;
	if (!p->rule->ops)
		return fault_rule_refuse(
			p, value, "selects blocks, and a flush has none");
	return true;
}

static bool set_chance(const struct parse *p, const char *value)
{
	char *end;
	double percent = strtod(value, &end);

	if (strcmp(end, "%") != 0 || !(percent > 0) || percent > 100)
		return fault_rule_refuse(p, value,
					 "is not a chance (0.1%, 50%)");
	p->rule->chance = percent / 100;
	return true;
}

static bool set_number(const struct parse *p, const char *value, uint64_t min,
		       uint64_t *ret)
{
	if (!number_parse(value, UINT64_MAX, ret) || *ret < min)
		return fault_rule_refuse(p, value,
					 min ? "is not a number above 0"
					     : "is not a number");
	return true;
}

static bool set_after(const struct parse *p, const char *value)
{
	return set_number(p, value, 0, &p->rule->after);
}

static bool set_every(const struct parse *p, const char *value)
{
	return set_number(p, value, 1, &p->rule->every);
}

static bool set_seed(const struct parse *p, const char *value)
{
	return set_number(p, value, 0, &p->rule->seed);
}

static bool set_count(const struct parse *p, const char *value)
{
	return set_number(p, value, 1, &p->rule->count);
}

static const struct {
	const char *key;
	bool (*set)(const struct parse *p, const char *value);
} conditions[] = {
	{ "lba", set_lba },	{ "after", set_after },
	{ "every", set_every }, { "chance", set_chance },
	{ "seed", set_seed },	{ "count", set_count },
};

static bool set_condition(const struct parse *p, char *piece)
{
	char *value = strchr(piece, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; value && i < ARRAY_SIZE(conditions); i++) {
		if (!strcmp(conditions[i].key, piece))
			return conditions[i].set(p, value);
	}
	return fault_rule_refuse(
		p, piece,
		"is not a condition; use lba=A-B, after=N, every=N, "
		"chance=P%, seed=N or count=N");
}

bool fault_rule_parse(const char *text, struct fault_rule *ret_rule,
		      struct error *e)
{
	struct fault_rule rule = { .last_lba = UINT64_MAX, .every = 1 };
	struct parse p = { &rule, e };
	char copy[RULE_TEXT_MAX];
	char *rest = copy;

	if (strlen(text) >= sizeof(copy))
		return fault_rule_refuse(&p, "...", "is too long");
	strcpy(copy, text);
	if (!set_op(&p, strsep(&rest, ":")))
		return false;
	if (!rest)
		return fault_rule_refuse(
			&p, text,
			"has no fault; write OP:KIND, as in write:error");
	if (!set_kind(&p, strsep(&rest, ":")))
		return false;
	while (rest) {
		if (!set_condition(&p, strsep(&rest, ":")))
			return false;
	}
	if (rule.chance > 0 && rule.every > 1)
		return fault_rule_refuse(&p, "chance",
					 "and every exclude each other");
	*ret_rule = rule;
	return true;
}

/* ---- hits ---- */

static bool matches(const struct fault_rule *rule, const struct rbp_io *io,
		    uint32_t block_size)
{
	if (!(rule->ops & 1u << io->op))
		return false;
	if (io->op == RBP_FLUSH)
		return true;
	return io->offset / block_size <= rule->last_lba &&
	       (io->offset + io->len - 1) / block_size >= rule->first_lba;
}

/* splitmix64. Computes each number of a seed's series independently: threads
 * that count together share only the count. */
static uint64_t nth_random(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool is_its_turn(const struct fault_rule *rule, uint64_t n)
{
	if (rule->chance > 0)
		return (double)(nth_random(rule->seed, n) >> 11) * 0x1p-53 <
		       rule->chance;
	return (n + 1) % rule->every == 0;
}

bool fault_rule_hits(const struct fault_rule *rule, struct fault_tally *tally,
		     const struct rbp_io *io, uint32_t block_size,
		     uint64_t *ret_pick)
{
	uint64_t n;

	if (!matches(rule, io, block_size))
		return false;
	n = atomic_fetch_add(&tally->seen, 1);
	if (n < rule->after || !is_its_turn(rule, n - rule->after))
		return false;
	if (atomic_fetch_add(&tally->hits, 1) >= rule->count && rule->count)
		return false;
	*ret_pick = nth_random(~rule->seed, n);
	return true;
}
