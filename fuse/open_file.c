/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/open_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/tree.h"

/* Handles are a place in t->opens and one more. */

static unsigned int tree_free_place(const struct tree *t)
{
	unsigned int place = 0;

	while (place < t->open_max && t->opens[place])
		place++;
	return place;
}

static int tree_more_places(struct tree *t)
{
	unsigned int max = t->open_max ? 2 * t->open_max : 16;
	struct tree_open **opens = realloc(t->opens, max * sizeof(*opens));

	if (!opens)
		return -ENOMEM;
	memset(opens + t->open_max, 0, (max - t->open_max) * sizeof(*opens));
	t->opens = opens;
	t->open_max = max;
	return 0;
}

struct tree_open *tree_open(struct tree *t, struct tree_file *f)
{
	unsigned int place = tree_free_place(t);
	struct tree_open *open;

	if (place == t->open_max && tree_more_places(t))
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

struct tree_open *tree_open_of(const struct tree *t, const struct tree_file *f,
			       uint64_t handle)
{
	struct tree_open *open =
		handle - 1 < t->open_max ? t->opens[handle - 1] : NULL;

	return open && open->file == f ? open : NULL;
}

static void close_holes(struct tree_open *open)
{
	struct list *it;

	while ((it = list_pop(&open->holes))) {
		struct tree_hole *hole =
			container_of(it, struct tree_hole, node);

		free(hole);
	}
}

void tree_close(struct tree *t, struct tree_open *open)
{
	close_holes(open);
	open->file->truncating -= open->truncated;
	t->opens[open->handle - 1] = NULL;
	list_del(&open->node);
	free(open);
}

void tree_open_truncate(struct tree_open *open)
{
	open->truncated = true;
	open->written_to = 0;
	open->file->truncating++;
}

static void free_hole(struct tree_hole *hole)
{
	list_del(&hole->node);
	free(hole);
}

static int add_hole(struct tree_open *open, uint64_t begin, uint64_t end,
		    const void *zeroing)
{
	struct tree_hole *hole;

	if (begin >= end)
		return 0;
	hole = malloc(sizeof(*hole));
	if (!hole)
		return -ENOMEM;
	*hole = (struct tree_hole){ .begin = begin,
				    .end = end,
				    .zeroing = zeroing };
	list_add_tail(&open->holes, &hole->node);
	return 0;
}

/* Takes a range out of @hole; without a byte it only parts it in two. */
static int cut_hole(struct tree_open *open, struct tree_hole *hole,
		    uint64_t begin, uint64_t end)
{
	if (hole->begin >= end || begin >= hole->end)
		return 0;
	if (hole->begin < begin) {
		if (add_hole(open, end, hole->end, hole->zeroing))
			return -ENOMEM;
		hole->end = begin;
		return 0;
	}
	hole->begin = end < hole->end ? end : hole->end;
	if (hole->begin == hole->end)
		free_hole(hole);
	return 0;
}

static int cut_holes(struct tree_open *open, uint64_t begin, uint64_t end)
{
	struct list *it;
	struct list *tmp;
	int err = 0;

	list_for_each_safe(it, tmp, &open->holes) {
		struct tree_hole *hole =
			container_of(it, struct tree_hole, node);

		if (!err)
			err = cut_hole(open, hole, begin, end);
	}
	return err;
}

static int tree_note_written(struct tree_open *open, uint64_t begin,
			     uint64_t end)
{
	int err = cut_holes(open, begin, end);

	if (err || end <= open->known_to)
		return err;
	err = add_hole(open, open->known_to, begin, /* zeroer= */ NULL);
	if (!err)
		open->known_to = end;
	return err;
}

int tree_open_written(struct tree_open *open, uint64_t begin, uint64_t end)
{
	const struct list *it;
	int err = 0;

	if (open->file->truncating == 0)
		return 0;
	list_for_each(it, &open->file->opens) {
		struct tree_open *o = container_of((struct list *)(uintptr_t)it,
						   struct tree_open, node);

		if (o->truncated && !err)
			err = tree_note_written(o, begin, end);
	}
	if (!err && end > open->written_to)
		open->written_to = end;
	return err;
}

struct tree_hole *tree_open_hole(const struct tree_open *open)
{
	const struct list *it;

	list_for_each(it, &open->holes) {
		struct tree_hole *hole = container_of(
			(struct list *)(uintptr_t)it, struct tree_hole, node);

		if (!hole->zeroing && hole->end <= open->written_to)
			return hole;
	}
	return NULL;
}

void tree_hole_zeroed(struct tree_open *open, const void *zeroing, int err)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &open->holes) {
		struct tree_hole *hole =
			container_of(it, struct tree_hole, node);

		if (hole->zeroing != zeroing)
			continue;
		hole->zeroing = NULL;
		if (!err)
			free_hole(hole);
	}
}
