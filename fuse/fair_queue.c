/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/fair_queue.h"

#include "fuse/dev.h"
#include "fuse/slots.h"
#include "fuse/tree.h"

void fair_queue_init(struct fair_queue *q, unsigned int depth,
		     unsigned int volumes)
{
	*q = (struct fair_queue){ .depth = depth };
	fair_queue_set_volumes(q, volumes);
	list_init(&q->waiting);
}

void fair_queue_set_volumes(struct fair_queue *q, unsigned int volumes)
{
	q->alone = volumes <= 1;
}

void volume_queue_init(struct volume_queue *v)
{
	*v = (struct volume_queue){ 0 };
	list_init(&v->node);
	list_init(&v->waiting);
}

static bool fair_queue_may_run(const struct fair_queue *q,
			       const struct volume_queue *v)
{
	unsigned int left = q->running < q->depth ? q->depth - q->running : 0;

	if (q->alone || q->closed)
		return true;
	return left > 0 && (v->running == 0 || v->running < 3 * left);
}

/* False: no registered slot is free. */
static bool fair_queue_start(struct fair_queue *q, struct volume_queue *v,
			     struct slot *slot)
{
	struct slot *to = slot;

	if (!q->closed)
		to = slots_to_registered(dev_slots(slot->dev), slot);
	if (!to)
		return false;
	to->queue.running_in = v;
	v->running++;
	q->running++;
	to->queue.start(to);
	return true;
}

void fair_queue_run(struct slot *slot, void (*start)(struct slot *slot))
{
	struct fair_queue *q = dev_fair_queue(slot->dev);
	struct volume_queue *v = &slot->file->queue;

	slot->queue.start = start;
	if (list_empty(&v->waiting) && fair_queue_may_run(q, v) &&
	    fair_queue_start(q, v, slot))
		return;
	slot = slots_to_spare(dev_slots(slot->dev), slot);
	list_add_tail(&v->waiting, &slot->queue.node);
	if (list_empty(&v->node))
		list_add_tail(&q->waiting, &v->node);
}

void fair_queue_leave(struct slot *slot)
{
	struct volume_queue *v = slot->queue.running_in;

	if (!v)
		return;
	slot->queue.running_in = NULL;
	v->running--;
	dev_fair_queue(slot->dev)->running--;
}

/* Starts the oldest request of @v. False: it must wait for a slot. */
static bool fair_queue_start_oldest(struct fair_queue *q,
				    struct volume_queue *v)
{
	struct slot *slot =
		container_of(list_pop(&v->waiting), struct slot, queue.node);

	list_del(&v->node);
	if (!list_empty(&v->waiting))
		list_add_tail(&q->waiting, &v->node);
	if (fair_queue_start(q, v, slot))
		return true;
	list_add_head(&v->waiting, &slot->queue.node);
	if (list_empty(&v->node))
		list_add_tail(&q->waiting, &v->node);
	return false;
}

static struct volume_queue *fair_queue_next_volume(const struct fair_queue *q)
{
	const struct list *it;

	list_for_each(it, &q->waiting) {
		struct volume_queue *v =
			container_of((struct list *)(uintptr_t)it,
				     struct volume_queue, node);

		if (fair_queue_may_run(q, v))
			return v;
	}
	return NULL;
}

void fair_queue_resume(struct dev *dev)
{
	struct fair_queue *q = dev_fair_queue(dev);
	struct volume_queue *v;

	/* A request that starts may end at once, and call this again. */
	if (q->resuming)
		return;
	q->resuming = true;
	while ((v = fair_queue_next_volume(q)) && fair_queue_start_oldest(q, v))
		;
	q->resuming = false;
}

void fair_queue_close(struct dev *dev)
{
	dev_fair_queue(dev)->closed = true;
	fair_queue_resume(dev);
}
