/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/task_set.h"

static bool task_set_waits_for(const struct request *req,
			       const struct request *other, bool is_older)
{
	if (other == req || other->is_tmf || request_is_settled(other) ||
	    other->task.lun != req->task.lun)
		return false;
	if (other->attr == SRP_TASK_HEAD_OF_QUEUE)
		return true;
	return is_older && (req->attr == SRP_TASK_ORDERED ||
			    other->attr == SRP_TASK_ORDERED);
}

static bool task_set_must_wait(const struct request *req)
{
	bool is_older = true;
	struct list *it;

	/* With only SIMPLE commands there is nothing to search. */
	if (!req->ch->requests.special || req->attr == SRP_TASK_HEAD_OF_QUEUE)
		return false;
	list_for_each(it, &req->ch->requests.busy) {
		const struct request *other =
			container_of(it, struct request, node);

		if (task_set_waits_for(req, other, is_older))
			return true;
		if (other == req)
			is_older = false;
	}
	return false;
}

bool task_set_enter_special(struct request *req)
{
	if (req->attr != SRP_TASK_SIMPLE)
		req->ch->requests.special++;
	if (!task_set_must_wait(req))
		return true;
	req->blocked = true;
	req->ch->requests.blocked++;
	return false;
}

void task_set_unblock(struct request *req)
{
	if (req->blocked)
		req->ch->requests.blocked--;
	req->blocked = false;
}

struct request *task_set_next(struct channel *ch)
{
	struct list *it;

	if (!ch->requests.blocked)
		return NULL;
	list_for_each(it, &ch->requests.busy) {
		struct request *req = container_of(it, struct request, node);

		if (req->blocked && !task_set_must_wait(req)) {
			task_set_unblock(req);
			return req;
		}
	}
	return NULL;
}
