/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches file descriptors by level: ready() is called in each turn while the
 * descriptor is ready. This is for code that does not read until EAGAIN, such
 * as other people's libraries. A struct reactor_watch (reactor.h) costs less.
 *
 * The memory of a watch belongs to its reactor, which frees it when the kernel
 * no longer uses it, at the latest in reactor_destroy().
 *
 * Thread: reactor, as in reactor.h.
 */
#ifndef BASE_REACTOR_LEVEL_H
#define BASE_REACTOR_LEVEL_H

#include "base/reactor.h"

struct reactor_level;

/*
 * Calls ready() with those of @events (POLLIN, POLLOUT) that are there, and
 * with POLLERR and POLLHUP. If the kernel cannot watch @fd, ready() gets
 * POLLERR | POLLNVAL once. @fd must stay open until reactor_level_remove().
 * Return: 0 or -ENOMEM.
 */
int reactor_level_add(struct reactor *r, int fd, uint32_t events,
		      void (*ready)(void *user, uint32_t events), void *user,
		      struct reactor_level **ret);

/* Watches for other events from now on. 0: for none, not even errors. */
void reactor_level_set(struct reactor_level *l, uint32_t events);

/* From now on ready() is not called, and @l is not valid. */
void reactor_level_remove(struct reactor_level *l);

/* For reactor_destroy(), when the kernel no longer uses any of @levels. */
void reactor_levels_free(struct list *levels);

/* For reactor.c: the list to which reactor_level_add() adds. */
struct list *reactor_levels(struct reactor *r);

#endif
