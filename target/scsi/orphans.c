/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/orphans.h"

#include <assert.h>

#include "target/scsi/disk.h"

void orphans_init(struct orphans *o)
{
	pthread_mutex_init(&o->lock, NULL);
	list_init(&o->writes);
	list_init(&o->waiting);
}

void orphans_fini(struct orphans *o)
{
	pthread_mutex_destroy(&o->lock);
}

/* A copy holds blocks of its source, too. It reads them only, and waiting for
 * that read harms nobody. */
static bool orphans_is_write(const struct scsi_task *task)
{
	return task->copies || (task->cmd.info->flags & SCSI_CDB_WRITES);
}

bool orphans_add(struct scsi_task *task)
{
	struct orphans *o;

	if (task->buf_is_volume || task->hold.state != BLOCK_HOLD_HELD ||
	    !orphans_is_write(task) || task->is_orphan)
		return false;
	o = &container_of(task->hold.ranges->locks, struct volume, dev.locks)
		     ->orphans;
	pthread_mutex_lock(&o->lock);
	list_add_tail(&o->writes, &task->orphan_node);
	atomic_fetch_add(&o->cnt, 1);
	pthread_mutex_unlock(&o->lock);
	task->orphans = o;
	task->met_orphans = true;
	task->is_orphan = true;
	return true;
}

/* An orphan is gone. Takes the blocks, or waits for the next orphan. */
static void orphans_try_again(struct reactor_msg *msg)
{
	struct scsi_task *task = container_of(msg, struct scsi_task, msg);
	struct volume *vol =
		container_of(task->orphans, struct volume, orphans);
	struct block_hold *hold = &task->hold;

	if (task->stopped || scsi_task_take_blocks(task, vol, hold->begin,
						   hold->end - hold->begin,
						   hold->exclusive, hold->held))
		hold->held(hold);
}

void orphans_remove(struct scsi_task *task)
{
	struct orphans *o = task->orphans;
	struct list *it;

	task->is_orphan = false;
	pthread_mutex_lock(&o->lock);
	list_del(&task->orphan_node);
	atomic_fetch_sub(&o->cnt, 1);
	while ((it = list_pop(&o->waiting))) {
		struct scsi_task *waits =
			container_of(it, struct scsi_task, orphan_node);

		waits->awaits_orphans = false;
		waits->msg.run = orphans_try_again;
		reactor_send(waits->worker->reactor, &waits->msg);
	}
	pthread_mutex_unlock(&o->lock);
}

static bool orphans_overlap(const struct orphans *o,
			    const struct block_hold *hold)
{
	struct list *it;

	list_for_each(it, &o->writes) {
		const struct scsi_task *task =
			container_of(it, struct scsi_task, orphan_node);

		if (hold->begin < task->hold.end &&
		    task->hold.begin < hold->end)
			return true;
	}
	return false;
}

bool orphans_wait(struct orphans *o, struct scsi_task *task)
{
	bool waits;

	if (task->buf_is_volume || !orphans_is_write(task))
		return false;
	assert(!task->is_orphan);
	pthread_mutex_lock(&o->lock);
	waits = orphans_overlap(o, &task->hold);
	if (waits) {
		task->orphans = o;
		task->met_orphans = true;
		task->awaits_orphans = true;
		list_add_tail(&o->waiting, &task->orphan_node);
	}
	pthread_mutex_unlock(&o->lock);
	return waits;
}

bool orphans_leave(struct scsi_task *task)
{
	struct orphans *o = task->orphans;
	bool waited;

	if (!task->met_orphans)
		return false;
	pthread_mutex_lock(&o->lock);
	waited = task->awaits_orphans;
	if (waited)
		list_del(&task->orphan_node);
	task->awaits_orphans = false;
	pthread_mutex_unlock(&o->lock);
	return waited;
}
