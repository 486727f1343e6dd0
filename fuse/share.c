/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/share.h"

#include "fuse/dev.h"
#include "fuse/tree.h"

void shares_init(struct shares *s, unsigned int depth, unsigned int volumes)
{
	*s = (struct shares){ .depth = depth, .alone = volumes <= 1 };
	list_init(&s->waiting);
}

void share_init(struct share *f)
{
	*f = (struct share){ 0 };
	list_init(&f->node);
	list_init(&f->waiting);
}

static bool may_run(const struct shares *s, const struct share *f)
{
	unsigned int left = s->running < s->depth ? s->depth - s->running : 0;

	if (s->alone || s->closed)
		return true;
	return left > 0 && (f->running == 0 || f->running < 3 * left);
}

/* False: no registered slot is free. */
static bool share_start_request(struct shares *s, struct share *f,
				struct slot *slot)
{
	struct slot *to = s->closed ? slot : dev_to_registered(slot);

	if (!to)
		return false;
	to->share = f;
	f->running++;
	s->running++;
	to->start(to);
	return true;
}

void share_run(struct slot *slot, void (*start)(struct slot *slot))
{
	struct shares *s = dev_shares(slot->dev);
	struct share *f = &slot->file->share;

	slot->start = start;
	if (list_empty(&f->waiting) && may_run(s, f) &&
	    share_start_request(s, f, slot))
		return;
	slot = dev_to_spare(slot);
	list_add_tail(&f->waiting, &slot->wait_node);
	if (list_empty(&f->node))
		list_add_tail(&s->waiting, &f->node);
}

void share_leave(struct slot *slot)
{
	struct share *f = slot->share;

	if (!f)
		return;
	slot->share = NULL;
	f->running--;
	dev_shares(slot->dev)->running--;
}

/* The oldest request of @f. False: it must wait for a slot. */
static bool resume_one(struct shares *s, struct share *f)
{
	struct slot *slot =
		container_of(list_pop(&f->waiting), struct slot, wait_node);

	list_del(&f->node);
	if (!list_empty(&f->waiting))
		list_add_tail(&s->waiting, &f->node);
	if (share_start_request(s, f, slot))
		return true;
	list_add_head(&f->waiting, &slot->wait_node);
	if (list_empty(&f->node))
		list_add_tail(&s->waiting, &f->node);
	return false;
}

static struct share *next_share(const struct shares *s)
{
	const struct list *it;

	list_for_each(it, &s->waiting) {
		struct share *f = container_of((struct list *)(uintptr_t)it,
					       struct share, node);

		if (may_run(s, f))
			return f;
	}
	return NULL;
}

void shares_resume(struct dev *dev)
{
	struct shares *s = dev_shares(dev);
	struct share *f;

	/* What is started may end at once. */
	if (s->resuming)
		return;
	s->resuming = true;
	while ((f = next_share(s)) && resume_one(s, f))
		;
	s->resuming = false;
}

void shares_close(struct dev *dev)
{
	dev_shares(dev)->closed = true;
	shares_resume(dev);
}
