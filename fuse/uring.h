/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FUSE over io_uring: requests and answers pass through commands on the ring of
 * the reactor, and need no system calls of their own. The kernel has one queue
 * for each processor, for the requests of programs on that processor. A queue has
 * entries, and an entry carries one request at a time. The completion of an
 * entry's command is a request. The next command of the entry sends the answer
 * and waits for the next request.
 *
 * The payload of an entry lies mostly in a slot (slots.h). Its headers lie here:
 * they hold lengths and pointers, and the target can write to slots.
 *
 * The kernel never sends FUSE_INIT, FUSE_FORGET and FUSE_INTERRUPT this way.
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
	struct uring *uring; /* NULL: the slot is not an entry */
	struct uring_headers *headers;
	uint16_t queue;
	bool accepted; /* the kernel has sent a request by it */
	struct iovec parts[2];
	struct reactor_op op;
};

struct uring_options {
	struct reactor *reactor;
	unsigned int queues;
	unsigned int entries; /* in each */
	/* An entry has a request. */
	void (*request)(struct slot *slot);
	/* The kernel refused the entry. The slot is not an entry any more. */
	void (*refused)(struct slot *slot, int err);
};

/* How many queues the kernel needs. 0: it does not offer FUSE over io_uring, or
 * /sys/module/fuse/parameters/enable_uring disables it. Thread: setup. */
unsigned int uring_queues(void);

/* How many numbers are in a list of the kernel, such as "0-3,8,10-11\n". 0: the
 * list is not complete. Thread: any. */
unsigned int uring_list_cnt(const char *text);

/* -ENOMEM. */
int uring_create(const struct uring_options *options, struct uring **ret);

/* Completions of entries are ignored from now on. NULL is fine. */
void uring_close(struct uring *u);

/* The kernel must have no entry any more, or the reactor must never run again.
 * NULL is fine. */
void uring_free(struct uring *u);

unsigned int uring_entry_cnt(const struct uring *u);

/* Gives @slot to the kernel as an entry; its payload has room for @len bytes. */
void uring_add(struct uring *u, struct slot *slot, size_t len);

/* Entries that the kernel has; 0 for NULL. */
unsigned int uring_waiting(const struct uring *u);

/* Copies the header and arguments of the request, without gaps, at most @max
 * bytes. Returns their number. *ret_payload bytes lie at slot->payload. */
size_t uring_head(const struct slot *slot, void *buf, size_t max,
		  size_t *ret_payload);

/* Answers with the @len bytes that lie at slot->payload, or with an error. */
void uring_answer(struct slot *slot, size_t len, int err);

#endif
