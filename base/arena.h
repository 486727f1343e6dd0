/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arena: one region of memory per reactor for the data of requests in
 * flight. It is registered once, with the transports and as an io_uring fixed
 * buffer, so that no I/O registers, allocates or copies memory. A buddy
 * allocator cuts it into powers of two. Each block is aligned to its size (at
 * most 2 MiB, the alignment of the arena), so direct I/O always works.
 *
 * If no block is free, arena_get_wait() queues the request. Each user (an I_T
 * nexus) has a queue of its own, first come, first served. The users take
 * turns. If the next user may have a block and none of that size is free, all
 * others wait, so that no user starves.
 *
 * A user may have a block if it has none, or if it then holds no more than what
 * is left for all others. So one user alone gets half of the arena, and two get
 * a third each.
 *
 * That does not suffice if one opponent is many users. So users belong to groups, of several
 * kinds. A group may have a block if it has none, or if it then leaves a part for all others:
 * a quarter of what it could have, an eighth for the second kind. The sums of groups are
 * found by a walk over all blocks, but only if more than half of the arena is in use.
 *
 * Thread: the reactor that owns the arena.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define ARENA_MIN_BLOCK 4096u

/* Kinds of groups. */
#define ARENA_GROUPS 2

struct arena;

/* One of the users that share the arena. Private; set up by
 * arena_user_init(). */
struct arena_user {
	struct list node;    /* arena.users, while waiters has any */
	struct list waiters; /* struct arena_waiter, node */
	size_t used;	     /* bytes in its blocks */
	_Atomic uint64_t group[ARENA_GROUPS]; /* see arena_user_init() */
};

/* One waiting request; embed it, zeroed. */
struct arena_waiter {
	struct arena_user *user; /* NULL: no user, and no limit */
	struct list node;	 /* private, as the next */
	size_t len;
	/* The block is the waiter's now. Called from arena_put() or
	 * arena_serve_waiters(). May call every function of the arena but
	 * arena_destroy(). */
	void (*granted)(struct arena_waiter *w, void *block);
};

/**
 * arena_create() - map @len bytes (huge pages when there are any)
 * @len: bytes, a power of two from 64 KiB to 8 TiB
 *
 * The pages are touched when used (or when something registers them), not
 * before. Return: 0, -EINVAL for a bad size, -ENOMEM.
 */
int arena_create(size_t len, struct arena **ret_arena);

/* All blocks must have been put. NULL is fine. */
void arena_destroy(struct arena *a);

/* All of the memory, for registration. */
void *arena_base(const struct arena *a);
size_t arena_len(const struct arena *a);

/* The index of the arena as an io_uring fixed buffer, -1: not registered. Set
 * by the code that registers it. */
int arena_uring_index(const struct arena *a);
void arena_set_uring_index(struct arena *a, int index);

/*
 * A block of at least @len bytes (1 to arena_len()) that counts for no user.
 * NULL: none is free, or a user waits for one. The contents are undefined. Of
 * each size, the block that was put last is used first, because caches have it.
 * AddressSanitizer reports access to a block that no caller has.
 */
void *arena_get(struct arena *a, size_t len);

/* @group: ARENA_GROUPS numbers, each the same for users of one group; 0: of none. NULL: the
 * user is alone. */
void arena_user_init(struct arena_user *u, const uint64_t *group);
/* It belongs to other groups from now on. Thread: any. */
void arena_user_regroup(struct arena_user *u,
			const uint64_t group[ARENA_GROUPS]);

/* As arena_get(), for w->user, which must live until all its blocks have been
 * put. If it returns NULL, w->granted() is called later. */
void *arena_get_wait(struct arena *a, size_t len, struct arena_waiter *w);

/* Stops waiting: granted() is not called. Does nothing if @w does not wait. Call
 * arena_serve_waiters() when the requests behind it may go on. */
void arena_cancel_wait(struct arena_waiter *w);
void arena_serve_waiters(struct arena *a);

/* As arena_put(), for a block that is not NULL. */
void arena_put_block(struct arena *a, void *block);
/* Gives a block back and serves requests that wait. NULL does nothing. */
static inline void arena_put(struct arena *a, void *block)
{
	if (block)
		arena_put_block(a, block);
}

/* True if a user that shares no group with @u waits, and only because no block is free. */
bool arena_is_awaited(const struct arena *a, const struct arena_user *u);

/* @block counts for no user any more. NULL does nothing. */
void arena_disown(struct arena *a, void *block);

/* Bytes in blocks that are handed out. */
size_t arena_used(const struct arena *a);

#endif
