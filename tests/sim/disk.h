/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks whose answers come when the simulation says so: in any order, a block
 * at a time, sometimes as errors, with a volatile cache that a power cut
 * empties as badly as it may. They keep stamps, not bytes. One of them can be
 * memory instead, where RDMA goes without any request.
 *
 * They forget as a kernel does: after a flush that has failed all others fail,
 * until the disk is opened anew. What was not stable may then be gone, and
 * flushes succeed again. It may also go between two targets; that the next one
 * is told, once.
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

/* Empty disks; the next opens are of these kinds. */
void disks_reset(const struct disk_config *cfg);

/* Requests that wait. */
unsigned int disks_pending(void);
/* Does something about request @nth of them. */
void disks_step(unsigned int nth);

/* What is in a block now. */
uint32_t disk_peek(unsigned int lun, unsigned int lba);
/* So often has it been written. */
unsigned int disk_changes(unsigned int lun, unsigned int lba);
/* Some read has failed since the reset. */
unsigned int disk_errors(unsigned int lun);

/* What was not stable may have been lost, or some flush or synchronous write has
 * failed, since this was last asked for. */
bool disk_had_loss(unsigned int lun);

/*
 * The target is killed: of what it has under way some is done, and no more
 * after this. With @power_cut what lay in caches may be lost.
 */
void disks_kill(bool power_cut);

#endif
