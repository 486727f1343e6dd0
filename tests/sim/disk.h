/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks that answer when the simulation wants it: in any order, one block at a
 * time, sometimes with errors. They have a volatile cache, of which a power cut
 * may lose any part. They keep stamps, not bytes. One of them can be memory
 * instead, which RDMA accesses without any request.
 *
 * They lose data like a kernel does: after a flush has failed, all others fail
 * until the disk is opened again. Unstable data may then be lost, and flushes
 * succeed again. Unstable data may also be lost between two targets. The next
 * target is told, once.
 */
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "target/block/backend.h"
#include "tests/sim/blocks.h"

extern const struct backend_type disk_type;

struct disk_config {
	bool cache; /* done writes may be lost */
	bool fua;
	bool memory;
	bool errors; /* some requests fail */
};

/* Makes empty disks. The next opens get these kinds. */
void disks_reset(const struct disk_config *cfg);

/* Returns the number of requests that wait. */
unsigned int disks_pending(void);
/* Makes progress with request @nth of them. */
void disks_step(unsigned int nth);

/* Returns the present stamp of a block. */
uint32_t disk_peek(unsigned int lun, unsigned int lba);
/* True if a write of the block is among the requests in flight. */
bool disk_has_write(unsigned int lun, unsigned int lba);
/* Returns how often the block was written. */
unsigned int disk_changes(unsigned int lun, unsigned int lba);
/* Returns how many requests have failed since the reset. */
unsigned int disk_errors(unsigned int lun);

/* True if unstable data may have been lost, or a flush or a synchronous write
 * has failed, since the last call. */
bool disk_had_loss(unsigned int lun);

/*
 * The target is killed. Some parts of its requests are done, and no more after
 * this call. With @power_cut, the data in caches may be lost.
 */
void disks_kill(bool power_cut);

#endif
