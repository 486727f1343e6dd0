/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A buddy allocator. Its own data lies apart from the blocks: a device may
 * still have free blocks in its caches, and peers write to the others.
 *
 * A block is named by the index of its first unit (ARENA_MIN_BLOCK bytes), its
 * size by its order (1 << order units). A block that is given back is kept
 * whole on a short stack for its order. So I/O of one size takes the block that
 * was used last, and neither splits nor merges. Before a request has to wait,
 * the stacks are emptied into the buddy lists.
 */
#include "base/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sanitizer.h"
#include "base/secret.h"

#define UNIT	  ARENA_MIN_BLOCK
#define ALIGNMENT ((size_t)2 << 20)
#define MIN_LEN	  ((size_t)64 << 10)
#define ORDERS	  32 /* up to 8 TiB: the index of a unit fits 32 bits */
#define HOT_CNT	  8
#define NONE	  UINT32_MAX

/* MAP_HUGETLB asks for a size as its log2 in these bits (linux/mman.h). */
#define MAP_2MIB (21 << 26)

/* state[] of a block's first unit: one of these plus the order. */
enum {
	INSIDE = 0,   /* not the first unit of a block */
	FREE = 0x40,  /* on the list of its order */
	HOT = 0x80,   /* free, on the stack of its order */
	OUT = 0xc0,   /* a caller has it */
	ORDER = 0x3f, /* mask */
};

struct links {
	uint32_t next;
	uint32_t prev;
};

struct hot {
	uint32_t idx[HOT_CNT];
	unsigned int cnt;
};

struct arena {
	char *base;
	size_t len;
	size_t used;
	unsigned int top; /* the order of the whole arena */
	int uring_index;
	bool serving;		  /* arena_serve_waiters() runs */
	struct list users;	  /* arena_user.node, of users that wait */
	struct arena_user nobody; /* for requests without a user */
	uint32_t nonempty;	  /* bit per order: heads[order] != NONE */
	uint32_t heads[ORDERS];
	struct hot hot[ORDERS];
	uint8_t *state;		    /* per unit */
	struct links *links;	    /* per unit; of FREE blocks */
	struct arena_user **owners; /* per unit; of OUT blocks */
};

static unsigned int arena_order_of(size_t len)
{
	size_t units = (len + UNIT - 1) / UNIT;

	return units <= 1 ? 0 : 64 - (unsigned int)__builtin_clzll(units - 1);
}

static size_t arena_order_len(unsigned int order)
{
	return (size_t)UNIT << order;
}

/* Of a block for @len bytes. */
static size_t arena_block_len(size_t len)
{
	return arena_order_len(arena_order_of(len));
}

/* ---- the lists of free blocks ---- */

static void arena_list_push(struct arena *a, uint32_t idx, unsigned int order)
{
	uint32_t next = a->heads[order];

	a->links[idx] = (struct links){ .next = next, .prev = NONE };
	if (next != NONE)
		a->links[next].prev = idx;
	a->heads[order] = idx;
	a->nonempty |= 1u << order;
	a->state[idx] = (uint8_t)(FREE | order);
}

static void arena_list_take(struct arena *a, uint32_t idx, unsigned int order)
{
	struct links l = a->links[idx];

	if (l.next != NONE)
		a->links[l.next].prev = l.prev;
	if (l.prev != NONE)
		a->links[l.prev].next = l.next;
	else
		a->heads[order] = l.next;
	if (a->heads[order] == NONE)
		a->nonempty &= ~(1u << order);
	a->state[idx] = INSIDE;
}

/* Frees a block, merged with its free buddies. */
static void arena_merge(struct arena *a, uint32_t idx, unsigned int order)
{
	uint32_t buddy;

	a->state[idx] = INSIDE;
	for (; order < a->top; order++) {
		buddy = idx ^ (1u << order);
		if (a->state[buddy] != (FREE | order))
			break;
		arena_list_take(a, buddy, order);
		idx &= buddy;
	}
	arena_list_push(a, idx, order);
}

/* A block from the lists, or NONE. Splits the smallest one that is large
 * enough, and takes its lowest part. */
static uint32_t arena_split(struct arena *a, unsigned int order)
{
	uint32_t fitting = a->nonempty & ~((1u << order) - 1);
	unsigned int have;
	uint32_t idx;

	if (!fitting)
		return NONE;
	have = (unsigned int)__builtin_ctz(fitting);
	idx = a->heads[have];
	arena_list_take(a, idx, have);
	while (have > order) {
		have--;
		arena_list_push(a, idx + (1u << have), have);
	}
	return idx;
}

/* The oldest block goes first, so that the block that was used last becomes the
 * first of its list. */
static void arena_merge_hot(struct arena *a)
{
	for (unsigned int order = 0; order <= a->top; order++) {
		for (unsigned int i = 0; i < a->hot[order].cnt; i++)
			arena_merge(a, a->hot[order].idx[i], order);
		a->hot[order].cnt = 0;
	}
}

/* ---- blocks ---- */

static void *arena_take(struct arena *a, struct arena_user *u, size_t len)
{
	unsigned int order = arena_order_of(len);
	struct hot *hot;
	uint32_t idx;
	char *block;

	assert(len && len <= a->len);
	hot = &a->hot[order];
	if (hot->cnt) {
		idx = hot->idx[--hot->cnt];
	} else {
		idx = arena_split(a, order);
		if (idx == NONE) {
			arena_merge_hot(a);
			idx = arena_split(a, order);
		}
		if (idx == NONE)
			return NULL;
	}
	a->state[idx] = (uint8_t)(OUT | order);
	a->owners[idx] = u;
	a->used += arena_order_len(order);
	u->used += arena_order_len(order);
	block = a->base + (size_t)idx * UNIT;
	ASAN_UNPOISON_MEMORY_REGION(block, arena_order_len(order));
	return block;
}

static void arena_give_block(struct arena *a, char *block)
{
	size_t at = (size_t)(block - a->base);
	uint32_t idx = (uint32_t)(at / UNIT);
	unsigned int order;
	struct hot *hot;

	assert(at < a->len && at % UNIT == 0);
	/* Otherwise the block was put twice, or is not a whole block. */
	assert(a->state[idx] >= OUT);
	order = a->state[idx] & ORDER;
	a->used -= arena_order_len(order);
	a->owners[idx]->used -= arena_order_len(order);
	ASAN_POISON_MEMORY_REGION(block, arena_order_len(order));
	hot = &a->hot[order];
	if (hot->cnt == HOT_CNT) {
		arena_merge(a, idx, order);
		return;
	}
	hot->idx[hot->cnt++] = idx;
	a->state[idx] = (uint8_t)(HOT | order);
}

void arena_disown(struct arena *a, void *block)
{
	uint32_t idx;
	size_t len;

	if (!block)
		return;
	idx = (uint32_t)((size_t)((char *)block - a->base) / UNIT);
	assert(a->state[idx] >= OUT);
	len = arena_order_len(a->state[idx] & ORDER);
	a->owners[idx]->used -= len;
	a->nobody.used += len;
	a->owners[idx] = &a->nobody;
}

/* ---- users that wait ---- */

void arena_user_init(struct arena_user *u, const uint64_t *group)
{
	static const uint64_t none[ARENA_GROUPS];

	arena_user_regroup(u, group ? group : none);
	list_init(&u->node);
	list_init(&u->waiters);
	u->used = 0;
}

void arena_user_regroup(struct arena_user *u,
			const uint64_t group[ARENA_GROUPS])
{
	for (int k = 0; k < ARENA_GROUPS; k++)
		u->group[k] = group[k];
}

/* How many times as much as it leaves a group of each kind may hold. */
static const size_t arena_group_share[ARENA_GROUPS] = { 3, 7 };

static bool arena_is_in_group(const struct arena_user *u,
			      const struct arena_user *with, int kind)
{
	return u == with ||
	       (u->group[kind] && u->group[kind] == with->group[kind]);
}

/* Bytes of the group of @u. Each block begins where the one before ends. */
static size_t arena_group_used(const struct arena *a,
			       const struct arena_user *u, int kind)
{
	size_t used = 0;
	size_t idx = 0;

	while (idx < a->len / UNIT) {
		unsigned int order = a->state[idx] & ORDER;

		if (a->state[idx] >= OUT &&
		    arena_is_in_group(a->owners[idx], u, kind))
			used += arena_order_len(order);
		idx += (size_t)1 << order;
	}
	return used;
}

/* The kind of its group that may not have @want bytes more; ARENA_GROUPS: none. */
static int arena_full_group(const struct arena *a, const struct arena_user *u,
			    size_t want)
{
	for (int k = 0; k < ARENA_GROUPS; k++) {
		size_t used = u->group[k] ? arena_group_used(a, u, k) : 0;

		if (used && (a->used + want > a->len ||
			     used + want > arena_group_share[k] *
						   (a->len - a->used - want)))
			return k;
	}
	return ARENA_GROUPS;
}

/* The shares decide, not the free memory: see arena.h. If all users together have no more
 * than half, each has no more than what is left. */
static bool arena_user_may_have(const struct arena *a,
				const struct arena_user *u, size_t len)
{
	size_t want = arena_block_len(len);

	if (u == &a->nobody || a->used + want <= a->len / 2)
		return true;
	if (u->used && (a->used + want > a->len ||
			u->used + want > a->len - a->used - want))
		return false;
	return arena_full_group(a, u, want) == ARENA_GROUPS;
}

/*
 * The first request of the next user that may have a block. NULL: no user that
 * waits may have one. If a user has nothing yet, and its group is full, all of its group
 * wait behind it, so that it gets its turn. *ret_behind: @last would be one of these.
 */
static struct arena_waiter *arena_next_waiter(const struct arena *a,
					      const struct arena_user *last,
					      bool *ret_behind)
{
	const struct arena_user *first = NULL;
	int kind = ARENA_GROUPS;
	struct list *it;

	*ret_behind = false;
	list_for_each(it, &a->users) {
		struct arena_user *u =
			container_of(it, struct arena_user, node);
		struct arena_waiter *w =
			list_first(&u->waiters, struct arena_waiter, node);

		if (first && arena_is_in_group(u, first, kind))
			continue;
		if (arena_user_may_have(a, u, w->len))
			return w;
		if (u->used)
			continue;
		first = u;
		kind = arena_full_group(a, u, arena_block_len(w->len));
		*ret_behind |= arena_is_in_group(last, first, kind);
	}
	return NULL;
}

static void arena_add_waiter(struct arena *a, struct arena_user *u,
			     struct arena_waiter *w)
{
	list_add_tail(&u->waiters, &w->node);
	if (list_empty(&u->node))
		list_add_tail(&a->users, &u->node);
}

/* The user goes to the end of the list, if it still waits. */
static void arena_remove_waiter(struct arena *a, struct arena_user *u,
				struct arena_waiter *w)
{
	list_del(&w->node);
	list_del(&u->node);
	if (!list_empty(&u->waiters))
		list_add_tail(&a->users, &u->node);
}

/* If granted() gives a block back, the loop that runs already hands it on. So
 * the stack does not grow with the number of requests that wait. */
void arena_serve_waiters(struct arena *a)
{
	struct arena_waiter *w;
	bool behind;
	void *block;

	if (a->serving)
		return;
	a->serving = true;
	while ((w = arena_next_waiter(a, &a->nobody, &behind))) {
		block = arena_take(a, w->user, w->len);
		if (!block)
			break;
		arena_remove_waiter(a, w->user, w);
		w->granted(w, block);
	}
	a->serving = false;
}

void *arena_get(struct arena *a, size_t len)
{
	if (!list_empty(&a->users))
		return NULL;
	return arena_take(a, &a->nobody, len);
}

/* True if no request of its user waits, and it is not the turn of another
 * user. */
static bool arena_user_may_have_now(const struct arena *a,
				    const struct arena_user *u, size_t len)
{
	bool behind;

	if (!arena_user_may_have(a, u, len))
		return false;
	return list_empty(&a->users) ||
	       (list_empty(&u->waiters) && !arena_next_waiter(a, u, &behind) &&
		!behind);
}

void *arena_get_wait(struct arena *a, size_t len, struct arena_waiter *w)
{
	void *block = NULL;

	if (!w->user)
		w->user = &a->nobody;
	if (arena_user_may_have_now(a, w->user, len))
		block = arena_take(a, w->user, len);
	if (block)
		return block;
	w->len = len;
	arena_add_waiter(a, w->user, w);
	return NULL;
}

bool arena_is_awaited(const struct arena *a, const struct arena_user *u)
{
	struct list *it;

	list_for_each(it, &a->users) {
		const struct arena_user *other =
			container_of(it, struct arena_user, node);
		const struct arena_waiter *w =
			list_first(&other->waiters, struct arena_waiter, node);
		bool akin = false;

		for (int k = 0; k < ARENA_GROUPS; k++)
			akin |= arena_is_in_group(other, u, k);
		if (!akin && arena_user_may_have(a, other, w->len))
			return true;
	}
	return false;
}

void arena_cancel_wait(struct arena_waiter *w)
{
	/* It has never waited, or no longer waits. */
	if (!w->node.next || list_empty(&w->node))
		return;
	list_del(&w->node);
	if (list_empty(&w->user->waiters))
		list_del(&w->user->node);
}

void arena_put_block(struct arena *a, void *block)
{
	arena_give_block(a, block);
	arena_serve_waiters(a);
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}

void *arena_base(const struct arena *a)
{
	return a->base;
}

size_t arena_len(const struct arena *a)
{
	return a->len;
}

int arena_uring_index(const struct arena *a)
{
	return a->uring_index;
}

void arena_set_uring_index(struct arena *a, int index)
{
	a->uring_index = index;
}

/* ---- life ---- */

/*
 * Uses reserved huge pages if there are enough: mmap() reserves them, so
 * touching them later cannot fail. Otherwise uses normal memory, and asks for
 * transparent huge pages. Each touched byte then makes 2 MiB resident. The next
 * blocks use these pages, because the allocator prefers low addresses and used
 * blocks; transports pin all of the memory anyway.
 */
static char *arena_map(size_t len)
{
	const int prot = PROT_READ | PROT_WRITE;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *p = MAP_FAILED;
	size_t skip;

	if (len >= ALIGNMENT)
		p = mmap(NULL, len, prot, flags | MAP_HUGETLB | MAP_2MIB, -1,
			 0);
	if (p == MAP_FAILED) {
		p = mmap(NULL, len + ALIGNMENT, prot, flags, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		skip = -(uintptr_t)p & (ALIGNMENT - 1);
		if (skip)
			munmap(p, skip);
		p += skip;
		munmap(p + len, ALIGNMENT - skip);
		madvise(p, len, MADV_HUGEPAGE);
	}
	secret_hide(p, len);
	return p;
}

static bool arena_len_is_good(size_t len)
{
	return len >= MIN_LEN && (len & (len - 1)) == 0 &&
	       arena_order_of(len) < ORDERS;
}

int arena_create(size_t len, struct arena **ret_arena)
{
	struct arena *a;

	if (!arena_len_is_good(len))
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->len = len;
	a->top = arena_order_of(len);
	a->uring_index = -1;
	list_init(&a->users);
	arena_user_init(&a->nobody, NULL);
	memset(a->heads, 0xff, sizeof(a->heads)); /* NONE */
	a->state = calloc(len / UNIT, sizeof(*a->state));
	a->links = calloc(len / UNIT, sizeof(*a->links));
	a->owners = calloc(len / UNIT, sizeof(*a->owners));
	if (a->state && a->links && a->owners)
		a->base = arena_map(len);
	if (!a->base) {
		arena_destroy(a);
		return -ENOMEM;
	}
	arena_list_push(a, 0, a->top);
	ASAN_POISON_MEMORY_REGION(a->base, len);
	*ret_arena = a;
	return 0;
}

void arena_destroy(struct arena *a)
{
	if (!a)
		return;
	assert(a->used == 0 && list_empty(&a->users));
	if (a->base) {
		ASAN_UNPOISON_MEMORY_REGION(a->base, a->len);
		munmap(a->base, a->len);
	}
	free(a->state);
	free(a->links);
	free(a->owners);
	free(a);
}
