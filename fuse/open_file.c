/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/open_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/tree.h"

/* A handle is an index of t->opens, plus one. */

static unsigned int open_file_free_place(const struct tree *t)
{
	unsigned int place = 0;

	while (place < t->open_max && t->opens[place])
		place++;
	return place;
}

static int open_file_more_places(struct tree *t)
{
	unsigned int max = t->open_max ? 2 * t->open_max : 16;
	struct open_file **opens = realloc(t->opens, max * sizeof(*opens));

	if (!opens)
		return -ENOMEM;
	memset(opens + t->open_max, 0, (max - t->open_max) * sizeof(*opens));
	t->opens = opens;
	t->open_max = max;
	return 0;
}

struct open_file *open_file_new(struct tree *t, struct tree_file *f)
{
	unsigned int place = open_file_free_place(t);
	struct open_file *open;

	if (place == t->open_max && open_file_more_places(t))
		return NULL;
	open = calloc(1, sizeof(*open));
	if (!open)
		return NULL;
	open->file = f;
	open->handle = place + 1;
	list_init(&open->holes);
	t->opens[place] = open;
	list_add_head(&f->opens, &open->node);
	return open;
}

struct open_file *open_file_find(const struct tree *t,
				 const struct tree_file *f, uint64_t handle)
{
	struct open_file *open =
		handle - 1 < t->open_max ? t->opens[handle - 1] : NULL;

	return open && open->file == f ? open : NULL;
}

static void open_file_free_holes(struct open_file *open)
{
	struct list *it;

	while ((it = list_pop(&open->holes))) {
		struct open_hole *hole =
			container_of(it, struct open_hole, node);

		free(hole);
	}
}

void open_file_close(struct tree *t, struct open_file *open)
{
	bool gone = open->file->gone;

	open_file_free_holes(open);
	open->file->truncating -= open->truncated;
	t->opens[open->handle - 1] = NULL;
	list_del(&open->node);
	free(open);
	if (gone && t->session)
		tree_reap(t);
}

void open_file_truncate(struct open_file *open)
{
	open_file_free_holes(open);
	open->file->truncating += !open->truncated;
	open->truncated = true;
	open->written_to = 0;
	open->known_to = 0;
}

static void open_hole_free(struct open_hole *hole)
{
	list_del(&hole->node);
	free(hole);
}

static int open_hole_add(struct open_file *open, uint64_t begin, uint64_t end,
			 const void *zeroing)
{
	struct open_hole *hole;

	if (begin >= end)
		return 0;
	hole = malloc(sizeof(*hole));
	if (!hole)
		return -ENOMEM;
	*hole = (struct open_hole){ .begin = begin,
				    .end = end,
				    .zeroing = zeroing };
	list_add_tail(&open->holes, &hole->node);
	return 0;
}

/* Removes a range from @hole. An empty range only splits it. */
static int open_hole_cut(struct open_file *open, struct open_hole *hole,
			 uint64_t begin, uint64_t end)
{
	if (hole->begin >= end || begin >= hole->end)
		return 0;
	if (hole->begin < begin) {
		if (open_hole_add(open, end, hole->end, hole->zeroing))
			return -ENOMEM;
		hole->end = begin;
		return 0;
	}
	hole->begin = end < hole->end ? end : hole->end;
	if (hole->begin == hole->end)
		open_hole_free(hole);
	return 0;
}

static int open_file_cut_holes(struct open_file *open, uint64_t begin,
			       uint64_t end)
{
	struct list *it;
	struct list *tmp;
	int err = 0;

	list_for_each_safe(it, tmp, &open->holes) {
		struct open_hole *hole =
			container_of(it, struct open_hole, node);

		if (!err)
			err = open_hole_cut(open, hole, begin, end);
	}
	return err;
}

static int open_file_note_written(struct open_file *open, uint64_t begin,
				  uint64_t end)
{
	int err = open_file_cut_holes(open, begin, end);

	if (err || end <= open->known_to)
		return err;
	err = open_hole_add(open, open->known_to, begin, /* zeroing= */ NULL);
	if (!err)
		open->known_to = end;
	return err;
}

int open_file_written(struct open_file *open, uint64_t begin, uint64_t end)
{
	const struct list *it;
	int err = 0;

	if (open->file->truncating == 0)
		return 0;
	list_for_each(it, &open->file->opens) {
		struct open_file *o = container_of((struct list *)(uintptr_t)it,
						   struct open_file, node);

		if (o->truncated && !err)
			err = open_file_note_written(o, begin, end);
	}
	if (!err && end > open->written_to)
		open->written_to = end;
	return err;
}

struct open_hole *open_file_next_hole(const struct open_file *open)
{
	const struct list *it;

	list_for_each(it, &open->holes) {
		struct open_hole *hole = container_of(
			(struct list *)(uintptr_t)it, struct open_hole, node);

		if (!hole->zeroing && hole->end <= open->written_to)
			return hole;
	}
	return NULL;
}

void open_file_hole_zeroed(struct open_file *open, const void *zeroing, int err)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &open->holes) {
		struct open_hole *hole =
			container_of(it, struct open_hole, node);

		if (hole->zeroing != zeroing)
			continue;
		hole->zeroing = NULL;
		if (!err)
			open_hole_free(hole);
	}
}
