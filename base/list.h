/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An intrusive, circular, doubly linked list. A node that is in no list points
 * to itself, so that removing it twice does no harm.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#endif

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif

#define LIST_INIT(name)          \
	{                        \
		&(name), &(name) \
	}

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *l, struct list *node)
{
	node->next = l;
	node->prev = l->prev;
	l->prev->next = node;
	l->prev = node;
}

static inline void list_add_head(struct list *l, struct list *node)
{
	list_add_tail(l->next, node);
}

static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Removes the first node and returns it. NULL: the list is empty. */
static inline struct list *list_pop(struct list *l)
{
	struct list *node = l->next;

	if (node == l)
		return NULL;
	list_del(node);
	return node;
}

/* Moves all of @from to the end of @to. @from is empty then. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_first(l, type, member) container_of((l)->next, type, member)

#define list_for_each(it, l) for (it = (l)->next; it != (l); it = it->next)

/* The body may remove @it from the list. */
#define list_for_each_safe(it, tmp, l)                  \
	for (it = (l)->next, tmp = it->next; it != (l); \
	     it = tmp, tmp = it->next)

#endif
