/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work that may hang, such as a call on a mount whose server does not answer: a child
 * does it, and the daemon waits for it only for a moment.
 *
 * Thread: main.
 */
#ifndef DISCOVER_ASIDE_H
#define DISCOVER_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

#define ASIDE_MS 1000

/* One kind of work. A child that hangs may do so for ever, so there is at most one. */
struct aside {
	int fd; /* of the child that hangs; -1: none */
};

/*
 * Calls work(@arg, @ret) in a child, which changes @ret of @len bytes. False: it hangs,
 * or the last one still does, or there can be no child.
 */
bool aside_do(struct aside *a, void (*work)(const void *arg, void *ret),
	      const void *arg, void *ret, size_t len);

#endif
