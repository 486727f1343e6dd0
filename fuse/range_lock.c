/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/range_lock.h"

#include <assert.h>

void range_locks_init(struct range_locks *locks)
{
	list_init(&locks->all);
	locks->exclusive = 0;
}

static bool range_locks_conflict(const struct range_lock *a,
				 const struct range_lock *b)
{
	return (a->exclusive || b->exclusive) && a->begin < b->end &&
	       b->begin < a->end;
}

/* True if an earlier lock of the list conflicts with @lock. */
static bool range_lock_must_wait(const struct range_locks *locks,
				 const struct range_lock *lock)
{
	const struct list *it;

	list_for_each(it, &locks->all) {
		const struct range_lock *other =
			container_of(it, struct range_lock, node);

		if (other == lock)
			return false;
		if (range_locks_conflict(other, lock))
			return true;
	}
	return false;
}

bool range_lock_take(struct range_locks *locks, struct range_lock *lock)
{
	list_add_tail(&locks->all, &lock->node);
	if (lock->exclusive)
		locks->exclusive++;
	lock->held =
		locks->exclusive == 0 || !range_lock_must_wait(locks, lock);
	return lock->held;
}

void range_unlock(struct range_locks *locks, struct range_lock *lock)
{
	struct list *it;
	struct list *tmp;
	bool none_waits = locks->exclusive == 0;

	assert(lock->held);
	list_del(&lock->node);
	lock->held = false;
	if (lock->exclusive)
		locks->exclusive--;
	if (none_waits)
		return;
	list_for_each_safe(it, tmp, &locks->all) {
		struct range_lock *other =
			container_of(it, struct range_lock, node);

		if (other->held || range_lock_must_wait(locks, other))
			continue;
		other->held = true;
		other->granted(other);
		/* granted() may have changed the list: start again. */
		tmp = locks->all.next;
	}
}
