/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arena: one block of memory per reactor for the data of requests in
 * flight, registered once with the transports and as an io_uring fixed buffer,
 * so that nothing is registered, allocated or copied per I/O. A buddy
 * allocator cuts it into powers of two; every block is aligned to its size (at
 * most 2 MiB, the alignment of the arena itself), so direct I/O always works.
 *
 * When no block is free the request waits: arena_get_wait() queues it. Each
 * user (an I_T nexus) has a queue of its own, first come, first served, and
 * the users take turns. Whose turn it is and who may have a block is not
 * overtaken, however large the block, so nobody starves.
 *
 * A user may have a block when it has none, or when it then holds no more than
 * what is left for all others. So one alone gets half of the arena, two a third
 * each, and however many hold on to what they have, there is always something
 * for the next.
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

struct arena;

/* Who shares the arena with others. Private; set up by arena_user_init(). */
struct arena_user {
	struct list node;    /* arena.users, while waiters has any */
	struct list waiters; /* struct arena_waiter, node */
	size_t used;	     /* bytes in blocks that are out */
};

/* One waiting request; embed it, zeroed. */
struct arena_waiter {
	struct arena_user *user; /* NULL: nobody's; without a limit */
	struct list node;	 /* private, as the next */
	size_t len;
	/* The block is the waiter's now. Called from arena_put(); may call
	 * anything of the arena but arena_destroy(). */
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

/* Every block must have been given back. NULL is fine. */
void arena_destroy(struct arena *a);

/* The whole of it, for registration. */
void *arena_base(const struct arena *a);
size_t arena_len(const struct arena *a);

/* The io_uring fixed-buffer index of the arena, -1 when it is not registered;
 * set by whoever registered it. */
int arena_uring_index(const struct arena *a);
void arena_set_uring_index(struct arena *a, int index);

/*
 * A block of at least @len bytes (1 ... arena_len()), or NULL when none is
 * free or somebody waits for one already; nobody's. Contents are whatever was there before. The
 * block given back last is the first to be had again for its size, being warm.
 * Under AddressSanitizer, touching a block that is not out is reported.
 */
void *arena_get(struct arena *a, size_t len);

void arena_user_init(struct arena_user *u);

/* As arena_get(), for w->user, which lives until every block of its is back;
 * when it returns NULL, w->granted() is called later. */
void *arena_get_wait(struct arena *a, size_t len, struct arena_waiter *w);

/* Stops waiting; granted() will not be called. No harm when not waiting. Those
 * that stood behind are looked at with the next arena_put(). */
void arena_cancel_wait(struct arena *a, struct arena_waiter *w);

/* Gives a block back and serves who waits. NULL is fine. */
void arena_put(struct arena *a, void *block);

/* Bytes in blocks that are out. */
size_t arena_used(const struct arena *a);

#endif
