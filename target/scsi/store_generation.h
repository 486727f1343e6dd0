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
 * What the caches of this machine hold is gone when it boots; what a volume in
 * memory holds is gone with the process, and so is what one with a cache in
 * the process (backend_info.forgets) has not flushed. So the generation of a file or device is made of the boot, of
 * which file or device it is, and of the last loss in this boot (@loss of
 * flush_record_loss(), or NULL);
 * that of anything else is new each time. @boot: of store_boot(). Return: 0 or
 * -EIO (no random numbers).
 */
int store_generation(const struct backend_info *info, const char *boot,
		     const uint8_t *loss, struct scsi_store *ret_store);

#endif
