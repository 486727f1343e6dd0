/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes whose connection has ended while the store has them.
 *
 * An initiator with two paths to a volume is two I_T nexuses. When it loses one
 * path, it sends its writes again by the other one, and then newer writes to the
 * same blocks. If the store still has a write of the lost path, it may carry it
 * out last, over newer data that was acknowledged. So later writes to the same
 * blocks, of all nexuses, wait until the store has answered the older one. (A
 * login of the nexus that was lost waits, too; see port.c.)
 *
 * The port may make an orphan of a write whose connection it knows to be alive.
 *
 * Only a store can be late. Tasks that move data in place (buf_is_volume) are
 * neither orphans, nor do they wait for any.
 */
#ifndef TARGET_SCSI_ORPHANS_H
#define TARGET_SCSI_ORPHANS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"

struct scsi_task;

/* Those of one volume; embed it. */
struct orphans {
	_Atomic unsigned int cnt; /* of writes. 0: nothing needs the lock */
	/* Guards the lists, and orphan_node and awaits_orphans of all tasks. */
	pthread_mutex_t lock;
	struct list writes;  /* scsi_task.orphan_node */
	struct list waiting; /* the same; tasks of any worker */
};

void orphans_init(struct orphans *o);
void orphans_fini(struct orphans *o);

/* The connection of @task has ended while the disk executes it. True: it is an
 * orphan from now on, until orphans_remove(), after done(). Thread: its worker,
 * as for all functions below. */
bool orphans_add(struct scsi_task *task);
/* For an orphan that is done, and for a copy before it takes other blocks. */
void orphans_remove(struct scsi_task *task);

/* False: orphans_wait() would be false, too. */
static inline bool orphans_exist(const struct orphans *o)
{
	return atomic_load_explicit(&o->cnt, memory_order_acquire);
}

/*
 * True if @task, which is about to take the blocks of task->hold, must wait for
 * an orphan. Later it takes them, and task->hold.held() is called when it has
 * them, or when it was stopped.
 */
bool orphans_wait(struct orphans *o, struct scsi_task *task);

/* True: @task has waited, and waits no longer. held() is not called. */
bool orphans_leave(struct scsi_task *task);

#endif
