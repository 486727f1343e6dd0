/* SPDX-License-Identifier: BSD-2-Clause */
/* The generation of a store, which VPD page C0h tells. Thread: setup. */
#ifndef TARGET_SCSI_STORE_GENERATION_H
#define TARGET_SCSI_STORE_GENERATION_H

#include "protocol/scsi_vpd.h"
#include "target/block/backend.h"

#define STORE_BOOT_SIZE 64

/* Text that is the same until the machine boots; "": not known. */
void store_boot(char buf[STORE_BOOT_SIZE]);

/*
 * Sets the generation of a store. The caches of a machine are lost when it
 * boots. The contents of memory are lost with the process, and so are unflushed
 * writes in a cache of the process (backend_info.forgets). The generation of a
 * file or device therefore depends on the boot, on the identity of the file or
 * device, and on the last loss in this boot (@loss: the loss in writers.h, or
 * NULL). All other stores get a new generation at each start. @boot: from
 * store_boot(). Return: 0 or -EIO (no random numbers).
 */
int store_generation(const struct backend_info *info, const char *boot,
		     const uint8_t *loss, struct scsi_store *ret_store);

#endif
