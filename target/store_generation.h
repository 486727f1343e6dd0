/* SPDX-License-Identifier: BSD-2-Clause */
/* The generation of a store, which VPD page C0h tells. Thread: setup. */
#ifndef TARGET_STORE_GENERATION_H
#define TARGET_STORE_GENERATION_H

#include "protocol/scsi_vpd.h"
#include "target/backend.h"
#include "target/volume.h"

/*
 * What the caches of this machine hold is gone when it boots; what a volume in
 * memory holds is gone with the process. So the generation of a file or device
 * is made of the boot and of which file it is, that of anything else is new
 * each time. Return: 0 or -EIO (no random numbers).
 */
int store_generation(const struct volume_spec *spec,
		     const struct backend_info *info,
		     struct scsi_store *ret_store);

/* @boot: text that is the same until the machine boots; "": not known. */
int store_generation_of_boot(const struct volume_spec *spec, const char *boot,
			     uint8_t ret_generation[SCSI_GENERATION_LEN]);

#endif
