/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FUSE over io_uring: the kernel hands out requests and takes answers through
 * commands on the reactor's own ring, so neither costs a system call of its
 * own. It has a queue for each processor, where a program's requests go that
 * runs there; a queue has entries, and an entry carries one request at a time.
 * What an entry's command completes with is a request; the next command answers
 * it and waits for another.
 *
 * An entry's payload lies in a slot, most of it, its headers here: they hold
 * lengths and pointers, and slots are open to the target.
 *
 * FUSE_INIT, FUSE_FORGET and FUSE_INTERRUPT do not come this way, but by read().
 *
 * Thread: the context's reactor, which must have wide entries.
 */
#ifndef FUSE_URING_H
#define FUSE_URING_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fuse/uring_abi.h"
#include "base/reactor.h"

struct slot;
struct uring;

/* Part of a slot; private. */
struct uring_entry {
	struct uring *uring; /* NULL: the slot is no entry's */
	struct uring_headers *headers;
	uint16_t queue;
	bool accepted; /* the kernel has taken it */
	struct iovec parts[2];
	struct reactor_op op;
};

struct uring_options {
	struct reactor *reactor;
	unsigned int queues;
	unsigned int entries; /* in each */
	/* An entry has a request. */
	void (*request)(struct slot *slot);
	/* The kernel will not have that entry; the slot is free again. */
	void (*refused)(struct slot *slot, int err);
};

/* How many queues the kernel of this machine wants, 0: it does not offer them,
 * or not now (/sys/module/fuse/parameters/enable_uring). Thread: setup. */
unsigned int uring_queues(void);

/* How many are in the kernel's list "0-3,8,10-11\n"; 0: it is not a whole one.
 * Thread: any. */
unsigned int uring_list_cnt(const char *text);

/* -ENOMEM. */
int uring_create(const struct uring_options *options, struct uring **ret);

/* From now on what becomes of entries is nobody's concern. NULL is fine. */
void uring_close(struct uring *u);

/* The kernel must have no entry any more, or the reactor must not run again.
 * NULL is fine. */
void uring_free(struct uring *u);

unsigned int uring_entry_cnt(const struct uring *u);

/* Offers @slot as the next entry; its payload has room for @len bytes. */
void uring_add(struct uring *u, struct slot *slot, size_t len);

/* Entries that the kernel has; NULL has none. */
unsigned int uring_waiting(const struct uring *u);

/* The request's header and arguments, without gaps; at most @max bytes. Returns
 * how many there are; *ret_payload bytes lie at slot->payload. */
size_t uring_head(const struct slot *slot, void *buf, size_t max,
		  size_t *ret_payload);

/* Answers with the @len bytes that lie at slot->payload, or with an error. */
void uring_answer(struct slot *slot, size_t len, int err);

#endif
