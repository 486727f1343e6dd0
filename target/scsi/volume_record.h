/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides where the record of a volume's flushes is (flush_record.h), and how
 * the volume uses it.
 *
 * If the volume has a state file, the record is in the same directory, named by
 * the volume's identity, because numbers of devices and file systems change
 * when the machine boots. Otherwise it is in the state directory, in
 * /run/rdma-target or, for users, in $XDG_RUNTIME_DIR/rdma-target. Its name
 * then depends on the device number, and for a file on the inode and its
 * creation time. If no record can be kept, each start is another generation,
 * and the log says so.
 */
#ifndef TARGET_SCSI_VOLUME_RECORD_H
#define TARGET_SCSI_VOLUME_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct volume;

/*
 * Opens the record of @vol, and sets vol->info.store. @state_dir: or NULL. A volume
 * in memory has no record. Blocks. Thread: setup, before there is I/O and before
 * the backend is attached. 0, or -errno with one clause in @e.
 */
int volume_record_open(struct volume *vol, const char *state_dir,
		       struct error *e);

/* The same in a directory that the caller has chosen, for boot @boot. */
int volume_record_open_in(struct volume *vol, const char *dir, const char *boot,
			  struct error *e);

/* Where records are without a state directory: one that exists until the machine boots.
 * Makes it. False: there is none. */
bool volume_record_dir(char *buf, size_t len);

#endif
