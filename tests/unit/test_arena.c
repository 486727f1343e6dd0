/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_table.h"

#define UNIT ARENA_MIN_BLOCK
#define KIB  ((size_t)1 << 10)
#define MIB  ((size_t)1 << 20)

static struct arena *make(size_t len)
{
	struct arena *a = NULL;

	assert_int_equal(arena_create(len, &a), 0);
	return a;
}

/* ---- sizes of arenas ---- */

static const struct create_case {
	const char *name;
	size_t len;
	int err;
} create_cases[] = {
	{ "no arena of nothing", 0, -EINVAL },
	{ "no arena below 64 KiB", 32 * KIB, -EINVAL },
	{ "no arena of a length that is no power of two", 96 * KIB, -EINVAL },
	{ "no arena whose units cannot be numbered", (size_t)1 << 44, -EINVAL },
	{ "the smallest arena", 64 * KIB, 0 },
	{ "an arena of one huge page", 2 * MIB, 0 },
	{ "an arena of many huge pages", 64 * MIB, 0 },
};

T_ROWS(create, create_cases)
{
	const struct create_case *c = *state;
	struct arena *a = NULL;
	void *block;

	assert_int_equal(arena_create(c->len, &a), c->err);
	if (c->err) {
		assert_null(a);
		return;
	}
	assert_int_equal(arena_len(a), c->len);
	assert_int_equal((uintptr_t)arena_base(a) % (2 * MIB), 0);
	assert_int_equal(arena_uring_index(a), -1);
	arena_set_uring_index(a, 3);
	assert_int_equal(arena_uring_index(a), 3);
	block = arena_get(a, c->len);
	assert_ptr_equal(block, arena_base(a));
	assert_int_equal(arena_used(a), c->len);
	assert_null(arena_get(a, 1));
	arena_put(a, block);
	arena_destroy(a);
}

/* ---- sizes of blocks ---- */

static const struct block_case {
	const char *name;
	size_t len;
	size_t taken;
} block_cases[] = {
	{ "1 byte takes a unit", 1, UNIT },
	{ "a unit takes a unit", UNIT, UNIT },
	{ "a unit and a byte take two", UNIT + 1, 2 * UNIT },
	{ "three units take four", 3 * UNIT, 4 * UNIT },
	{ "1 MiB takes as much", MIB, MIB },
	{ "5 MiB take 8", 5 * MIB, 8 * MIB },
};

T_ROWS(block_size, block_cases)
{
	const struct block_case *c = *state;
	struct arena *a = make(8 * MIB);
	char *block = arena_get(a, c->len);

	assert_non_null(block);
	assert_int_equal(arena_used(a), c->taken);
	memset(block, 0xff, c->taken);
	arena_put(a, block);
	assert_int_equal(arena_used(a), 0);
	arena_destroy(a);
}

/* ---- against a model: which block each unit is in ---- */

#define MODEL_LEN    (4 * MIB)
#define MODEL_BLOCKS 300

struct model_block {
	char *p;
	size_t len; /* of the whole block */
};

struct model {
	struct arena *a;
	struct model_block blocks[MODEL_BLOCKS]; /* p NULL: not taken */
	bool taken[MODEL_LEN / UNIT];
	size_t used;
};

static void model_mark(struct model *m, const struct model_block *b, bool taken)
{
	size_t at = (size_t)(b->p - (char *)arena_base(m->a));

	assert_true(at < MODEL_LEN && b->len <= MODEL_LEN - at);
	for (size_t i = at / UNIT; i < (at + b->len) / UNIT; i++) {
		assert_int_equal(m->taken[i], !taken);
		m->taken[i] = taken;
	}
}

/* True when the model has an aligned, free run of @len bytes. */
static bool model_has_room(const struct model *m, size_t len)
{
	for (size_t at = 0; at < MODEL_LEN; at += len) {
		size_t i = at / UNIT;

		while (i < (at + len) / UNIT && !m->taken[i])
			i++;
		if (i == (at + len) / UNIT)
			return true;
	}
	return false;
}

static void model_get(struct model *m, struct model_block *b, unsigned int seed)
{
	size_t len = (size_t)UNIT << (unsigned int)rand() % 9;

	b->len = len;
	b->p = arena_get(m->a, len - (size_t)rand() % (len / 2));
	assert_int_equal(b->p != NULL, model_has_room(m, len));
	if (!b->p)
		return;
	assert_int_equal((uintptr_t)b->p % len, 0);
	model_mark(m, b, true);
	m->used += len;
	memset(b->p, (int)seed, len);
}

static void model_put(struct model *m, struct model_block *b)
{
	/* No other user wrote into it, nor did the allocator. */
	assert_memory_equal(b->p, b->p + b->len / 2, b->len / 2);
	model_mark(m, b, false);
	m->used -= b->len;
	arena_put(m->a, b->p);
	b->p = NULL;
}

T_TEST(random_blocks_are_apart_and_come_together_again)
{
	static struct model m;
	struct model_block *b;
	void *whole;

	srand(20);
	m.a = make(MODEL_LEN);
	for (unsigned int i = 0; i < 20000; i++) {
		b = &m.blocks[rand() % MODEL_BLOCKS];
		if (b->p)
			model_put(&m, b);
		else
			model_get(&m, b, i);
		assert_int_equal(arena_used(m.a), m.used);
	}
	for (b = m.blocks; b < m.blocks + MODEL_BLOCKS; b++) {
		if (b->p)
			model_put(&m, b);
	}
	assert_int_equal(arena_used(m.a), 0);
	whole = arena_get(m.a, MODEL_LEN);
	assert_non_null(whole);
	arena_put(m.a, whole);
	arena_destroy(m.a);
}

T_TEST(every_unit_can_be_had)
{
	struct arena *a = make(64 * KIB);
	void *blocks[16];

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		blocks[i] = arena_get(a, UNIT);
		assert_non_null(blocks[i]);
	}
	assert_null(arena_get(a, 1));
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
		arena_put(a, blocks[i]);
	arena_destroy(a);
}

T_TEST(the_block_given_back_last_comes_first)
{
	struct arena *a = make(MIB);
	void *p[3];

	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = arena_get(a, 8 * KIB);
	arena_put(a, p[0]);
	arena_put(a, p[2]);
	arena_put(a, p[1]);
	assert_ptr_equal(arena_get(a, 8 * KIB), p[1]);
	assert_ptr_equal(arena_get(a, 8 * KIB), p[2]);
	assert_ptr_equal(arena_get(a, 8 * KIB), p[0]);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		arena_put(a, p[i]);
	arena_destroy(a);
}

T_TEST(giving_back_nothing_does_nothing)
{
	struct arena *a = make(64 * KIB);

	arena_put(a, NULL);
	arena_destroy(a);
	arena_destroy(NULL);
}

/* ---- waiting ---- */

struct waiting {
	struct arena_waiter waiter;
	struct arena *a;
	void *block;
	unsigned int nth; /* 1: was granted first */
	bool put_at_once;
	bool wait_again;
};

static unsigned int granted_cnt;

static void granted(struct arena_waiter *waiter, void *block)
{
	struct waiting *w = container_of(waiter, struct waiting, waiter);

	w->nth = ++granted_cnt;
	w->block = block;
	if (w->put_at_once)
		arena_put(w->a, block);
	if (w->wait_again) {
		w->wait_again = false;
		assert_null(arena_get_wait(w->a, UNIT, waiter));
	}
}

static void wait_for(struct arena *a, struct waiting *w, size_t len)
{
	w->a = a;
	w->waiter.granted = granted;
	assert_null(arena_get_wait(a, len, &w->waiter));
}

T_TEST(nobody_waits_while_there_is_room)
{
	struct waiting w = { .waiter.granted = granted };
	struct arena *a = make(64 * KIB);
	void *block = arena_get_wait(a, 64 * KIB, &w.waiter);

	assert_non_null(block);
	arena_cancel_wait(&w.waiter);
	arena_put(a, block);
	arena_destroy(a);
}

T_TEST(who_waits_first_is_served_first)
{
	struct arena *a = make(64 * KIB);
	struct waiting large = { 0 };
	struct waiting small = { 0 };
	void *half = arena_get(a, 32 * KIB);
	void *quarter = arena_get(a, 16 * KIB);

	granted_cnt = 0;
	wait_for(a, &large, 64 * KIB);
	/* There is room for this one, but the one at the head comes first. */
	wait_for(a, &small, UNIT);
	assert_null(arena_get(a, UNIT));
	arena_put(a, half);
	assert_int_equal(granted_cnt, 0);
	arena_put(a, quarter);
	assert_int_equal(large.nth, 1);
	assert_int_equal(granted_cnt, 1);
	arena_put(a, large.block);
	assert_int_equal(small.nth, 2);
	arena_put(a, small.block);
	assert_int_equal(arena_used(a), 0);
	arena_destroy(a);
}

T_TEST(one_block_given_back_serves_many)
{
	struct arena *a = make(64 * KIB);
	struct waiting w[16] = { 0 };
	void *whole = arena_get(a, 64 * KIB);

	granted_cnt = 0;
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		wait_for(a, &w[i], UNIT);
	arena_put(a, whole);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		assert_int_equal(w[i].nth, i + 1);
		arena_put(a, w[i].block);
	}
	arena_destroy(a);
}

T_TEST(who_stopped_waiting_is_not_served)
{
	struct arena *a = make(64 * KIB);
	struct waiting w[3] = { 0 };
	void *whole = arena_get(a, 64 * KIB);

	granted_cnt = 0;
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		wait_for(a, &w[i], 32 * KIB);
	arena_cancel_wait(&w[0].waiter);
	arena_cancel_wait(&w[0].waiter);
	arena_put(a, whole);
	assert_int_equal(w[0].nth, 0);
	assert_int_equal(w[1].nth, 1);
	assert_int_equal(w[2].nth, 2);
	arena_put(a, w[1].block);
	arena_put(a, w[2].block);
	arena_destroy(a);
}

/* Each gives its block back at once. A stack frame for each would overflow. */
T_TEST(a_million_waiters_need_no_stack)
{
	const size_t cnt = 1000000;
	struct waiting *w = calloc(cnt, sizeof(*w));
	struct arena *a = make(64 * KIB);
	void *whole = arena_get(a, 64 * KIB);

	assert_non_null(w);
	granted_cnt = 0;
	for (size_t i = 0; i < cnt; i++) {
		w[i].put_at_once = true;
		wait_for(a, &w[i], 64 * KIB);
	}
	arena_put(a, whole);
	assert_int_equal(granted_cnt, cnt);
	assert_int_equal(w[cnt - 1].nth, cnt);
	arena_destroy(a);
	free(w);
}

T_TEST(who_was_served_may_wait_again)
{
	struct arena *a = make(64 * KIB);
	struct waiting w = { .wait_again = true };
	void *whole = arena_get(a, 64 * KIB);
	void *first;

	granted_cnt = 0;
	wait_for(a, &w, 64 * KIB);
	arena_put(a, whole);
	assert_int_equal(granted_cnt, 1);
	first = w.block;
	arena_put(a, first);
	assert_int_equal(granted_cnt, 2);
	arena_put(a, w.block);
	assert_int_equal(arena_used(a), 0);
	arena_destroy(a);
}

/* ---- sharing ---- */

/* Takes blocks of a unit until there are no more. Returns how many. */
static size_t take_all(struct arena *a, struct arena_user *u, void **blocks,
		       struct waiting *last)
{
	size_t cnt = 0;

	*last = (struct waiting){ .waiter = { .user = u, .granted = granted },
				  .a = a };
	while ((blocks[cnt] = arena_get_wait(a, UNIT, &last->waiter)))
		cnt++;
	return cnt;
}

T_TEST(each_leaves_as_much_as_it_has)
{
	struct arena *a = make(64 * KIB);
	void *blocks[4][17];
	struct arena_user u[4];
	struct waiting last[4];
	size_t cnt[4];
	size_t total = 0;

	for (size_t i = 0; i < ARRAY_SIZE(u); i++)
		arena_user_init(&u[i], NULL);
	cnt[0] = take_all(a, &u[0], blocks[0], &last[0]);
	assert_int_equal(cnt[0], 8);
	/* It keeps its blocks and waits for more. The other users still get
	 * some: each gets half of what is left. */
	cnt[1] = take_all(a, &u[1], blocks[1], &last[1]);
	assert_int_equal(cnt[1], 4);
	cnt[2] = take_all(a, &u[2], blocks[2], &last[2]);
	assert_int_equal(cnt[2], 2);
	cnt[3] = take_all(a, &u[3], blocks[3], &last[3]);
	assert_int_equal(cnt[3], 1);
	for (size_t i = 0; i < ARRAY_SIZE(u); i++)
		arena_cancel_wait(&last[i].waiter);
	for (size_t i = 0; i < ARRAY_SIZE(u); i++) {
		assert_int_equal(u[i].used, cnt[i] * UNIT);
		for (size_t k = 0; k < cnt[i]; k++)
			arena_put(a, blocks[i][k]);
		total += cnt[i];
	}
	assert_int_equal(total, 15);
	assert_int_equal(arena_used(a), 0);
	arena_destroy(a);
}

/* Users of a group, each of which takes an eighth of the arena. */
static const struct group_case {
	const char *name;
	uint64_t hosts;	 /* groups of the first kind */
	uint64_t second; /* group of the second kind */
	unsigned int get;
} group_cases[] = {
	{ "each on its own", 8, 0, 8 },
	{ "all of one group", 1, 0, 6 },
	{ "of two groups", 2, 0, 6 },
	{ "of groups that are one of the second kind", 8, 9, 7 },
};

/* They keep their blocks. What is left is for others. */
T_ROWS(group_leaves_a_reserve, group_cases)
{
	const struct group_case *row = *state;
	struct arena *a = make(64 * KIB);
	struct arena_user u[9];
	struct waiting w[9];
	void *blocks[9];
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(u); i++) {
		const uint64_t group[] = { 1 + i % row->hosts, row->second };

		arena_user_init(&u[i], i < 8 ? group : NULL);
		w[i] = (struct waiting){
			.waiter = { .user = &u[i], .granted = granted },
			.a = a,
		};
		blocks[i] = arena_get_wait(a, 8 * KIB, &w[i].waiter);
		cnt += i < 8 && blocks[i];
	}
	assert_int_equal(cnt, row->get);
	assert_int_equal(blocks[8] != NULL, row->get < 8);
	assert_int_equal(arena_is_awaited(a, &u[0]), row->get == 8);
	for (unsigned int i = 0; i < ARRAY_SIZE(u); i++)
		arena_cancel_wait(&w[i].waiter);
	for (unsigned int i = 0; i < ARRAY_SIZE(u); i++)
		arena_put(a, blocks[i]);
	assert_int_equal(arena_used(a), 0);
	arena_destroy(a);
}

/* A group with one user is no worse off than a user without a group. */
T_TEST(group_that_has_nothing_may_have_everything)
{
	const uint64_t group[] = { 1, 2 };
	struct waiting w = { .waiter.granted = granted };
	struct arena *a = make(64 * KIB);
	struct arena_user u;
	void *block;

	arena_user_init(&u, group);
	w.waiter.user = &u;
	block = arena_get_wait(a, 64 * KIB, &w.waiter);
	assert_non_null(block);
	arena_put(a, block);
	arena_destroy(a);
}

T_TEST(who_has_nothing_may_have_everything)
{
	struct waiting w = { .waiter.granted = granted };
	struct arena *a = make(64 * KIB);
	struct arena_user u;
	void *block;

	arena_user_init(&u, NULL);
	w.waiter.user = &u;
	block = arena_get_wait(a, 64 * KIB, &w.waiter);
	assert_non_null(block);
	arena_put(a, block);
	arena_destroy(a);
}

/* One user has a long queue; another one comes last and is served second. */
T_TEST(users_take_turns)
{
	struct arena *a = make(64 * KIB);
	void *whole = arena_get(a, 64 * KIB);
	struct arena_user greedy;
	struct arena_user modest;
	struct waiting many[8] = { 0 };
	struct waiting one = { .waiter.user = &modest };

	granted_cnt = 0;
	arena_user_init(&greedy, NULL);
	arena_user_init(&modest, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i].waiter.user = &greedy;
		many[i].put_at_once = true;
		wait_for(a, &many[i], UNIT);
	}
	one.put_at_once = true;
	wait_for(a, &one, UNIT);
	arena_put(a, whole);
	assert_int_equal(many[0].nth, 1);
	assert_int_equal(one.nth, 2);
	assert_int_equal(granted_cnt, 9);
	arena_destroy(a);
}

/* Small blocks of other users do not delay a large one for ever. */
T_TEST(whose_turn_it_is_is_not_overtaken)
{
	struct arena *a = make(64 * KIB);
	struct arena_user u[2];
	struct waiting large = { .waiter.user = &u[0] };
	struct waiting small = { .waiter.user = &u[1] };
	void *unit = arena_get(a, UNIT);

	granted_cnt = 0;
	arena_user_init(&u[0], NULL);
	arena_user_init(&u[1], NULL);
	wait_for(a, &large, 64 * KIB);
	wait_for(a, &small, UNIT);
	arena_put(a, unit);
	assert_int_equal(large.nth, 1);
	assert_int_equal(small.nth, 0);
	arena_put(a, large.block);
	assert_int_equal(small.nth, 2);
	arena_put(a, small.block);
	arena_destroy(a);
}
